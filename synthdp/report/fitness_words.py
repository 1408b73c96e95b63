"""Figures of fitness that a statement gives where they were bought: distances between tables, as intervals that allow for the
noise."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from synthdp.report import words

CONFIDENCE = 0.95  # of every interval
Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One table of the records beside that of the samples: the interval holds their total variation distance."""

    columns: tuple[str, ...]
    cells: int
    interval: Interval

    def __post_init__(self) -> None:
        _check_intervals(self.interval)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Tables of one sort, each with an interval of its own, and intervals of their mean and of the largest of them."""

    tables: tuple[Compared, ...]
    mean: Interval
    worst: Interval

    def __post_init__(self) -> None:
        _check_intervals(self.mean, self.worst)


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

    def __post_init__(self) -> None:
        _check_intervals(*([] if self.records is None else [self.records]))

    def to_json(self) -> dict[str, Any]:
        """Plain values, without what is not there."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


def _check_intervals(*intervals: Interval) -> None:
    if any(not low <= high for low, high in intervals):
        raise ValueError("an interval ends before it begins")


# ---- Bought figures of fitness in words: what was found, how sure it is, and what it does not say.


CLOSE, FAR, VAGUE = 0.05, 0.1, 0.3  # distances that are called close, clear, and an interval too wide to tell
SINGLE, WITH_TARGET = "Single columns", "Columns with what is to be predicted"


@dataclass(frozen=True, kw_only=True)
class Told:
    """One sort of tables: its name, what it says of the data, and what was measured."""

    title: str
    verdict: str
    group: Group

    @property
    def telling(self) -> list[Compared]:
        """The tables where the noise leaves something to see."""
        return [table for table in self.group.tables if tells(table.interval)]


def told(fitness: Fitness) -> list[Told]:
    """The sorts of tables that were compared."""
    named = ((SINGLE, fitness.single), (WITH_TARGET, fitness.with_target))
    return [Told(title=title, verdict=verdict(group.mean), group=group) for title, group in named if group is not None]


def verdict(interval: Interval) -> str:
    """What an interval of the mean distance says, for someone who reads nothing else."""
    low, high = interval
    if high <= CLOSE:
        return "Close to the records."
    if not tells(interval):
        return "No verdict: too much noise for so few records. A larger share or budget would tell more."
    if low >= FAR:
        return "Clearly different from the records; the noise does not explain it."
    if low > 0:
        return "Different from the records to a degree that the noise cannot explain."
    return "No difference shown; if there is one, the noise hides it."


def tells(interval: Interval) -> bool:
    """Whether an interval is narrow enough to say anything."""
    return interval[1] - interval[0] <= VAGUE


def between(interval: Interval) -> str:
    """Two bounds in percent, rounded outwards; or that they say nothing."""
    if not tells(interval):
        return "hidden by noise"
    return f"{words.at_least(interval[0])} to {words.percent(interval[1])}"


def sentence(fitness: Fitness) -> str:
    """The means in one sentence."""
    if fitness.reason is not None:
        return f"Figures of fitness were paid for, but there are none: {fitness.reason}"
    parts = [f"{between(each.group.mean)} for {each.title.lower()}" for each in told(fitness)]
    if not any(tells(each.group.mean) for each in told(fitness)):
        return "Figures of fitness were bought, but noise hides what they could tell."
    return f"Measured under the guarantee, the mean distance from the records is {' and '.join(parts)}."


def _from(interval: Interval) -> str:
    return f"{between(interval)} from the records on average" if tells(interval) else "noise hides how far they are off"


def brief(fitness: Fitness | None) -> list[str]:
    if fitness is None:
        return []
    if fitness.reason is not None:
        return [f"fitness    {fitness.reason}"]
    return [f"fitness    {each.title.lower()}: {_from(each.group.mean)}" for each in told(fitness)]
