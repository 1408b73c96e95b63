"""What a statement says of fitness where it was bought: distances between tables, as intervals that allow for the noise."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One table of the records beside that of the samples: the interval holds their total variation distance."""

    columns: tuple[str, ...]
    cells: int
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class Group:
    """Tables of one sort, each with an interval of its own, and intervals of their mean and of the largest of them."""

    tables: tuple[Compared, ...]
    mean: Interval
    worst: Interval


@dataclass(frozen=True, kw_only=True)
class Fitness:
    """Figures of fitness that a fit paid for; each interval covers its distance with probability `confidence` or more.

    `share` is the part of the budget's precision that was set aside, `noise` the noise multiplier that it came to, `rows` how
    many synthetic records were compared, `records` an interval of the number of real ones. Without figures `reason` says why.
    """

    share: float
    noise: float
    rows: int
    confidence: float
    records: Interval | None = None
    single: Group | None = None  # every column on its own
    with_target: Group | None = None  # every column with each target
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values, without what is not there."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Fitness":
        """Read back; raises `KeyError`, `TypeError` or `ValueError` where it is not one."""

        def found(name: str, read: Callable[[Any], Any]) -> Any:
            return None if values.get(name) is None else read(values[name])

        return cls(
            share=_finite(values["share"]),
            noise=_finite(values["noise"]),
            rows=int(values["rows"]),
            confidence=_finite(values["confidence"]),
            records=found("records", _interval),
            single=found("single", _group),
            with_target=found("with_target", _group),
            reason=found("reason", str),
        )


def _group(values: Mapping[str, Any]) -> Group:
    tables = tuple(
        Compared(
            columns=tuple(str(name) for name in table["columns"]),
            cells=int(table["cells"]),
            interval=_interval(table["interval"]),
        )
        for table in values["tables"]
    )
    return Group(tables=tables, mean=_interval(values["mean"]), worst=_interval(values["worst"]))


def _interval(values: Any) -> Interval:
    low, high = (_finite(value) for value in values)
    if not low <= high:
        raise ValueError("an interval ends before it begins")
    return low, high


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a figure of fitness is not finite")
    return number
