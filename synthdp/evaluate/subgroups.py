"""For whom does it fail? The score within each group of declared columns, and the group that loses most."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.scores import LOWER_IS_BETTER, RANGES, interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Axis, Table
    from synthdp.evaluate.tasks import Task
    from synthdp.evaluate.utility import Trial

# Below these, a group's score is an accident; a group needs two classes (values) to rank.
MIN_ROWS, MIN_PER_CLASS = 50, 10
MOST_BANDS, MOST_LEVELS = 8, 50
MISSING = "(missing)"


@dataclass(frozen=True, kw_only=True)
class Level:
    """A group of test rows: inside (rows,), and why it is not scored, or None."""

    name: str
    inside: NDArray[np.bool_]
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Group:
    """A declared column with its levels; levels without a test row stay, with that reason."""

    column: str
    levels: tuple[Level, ...]


def metric_of(work: Task[Table]) -> str:
    """What groups are compared by: auroc, or rmse for a number."""
    return "rmse" if work.is_number else "auroc"


def groups(names: Sequence[str], work: Task[Table]) -> tuple[tuple[Group, ...], list[dict[str, str]]]:
    """The groups of the task's test rows by each column, and what cannot be grouped, as entries of `not_computed`."""
    made, log = [], []
    for name in dict.fromkeys(names):
        axis = next((axis for axis in work.test[0].axes if axis.name == name), None)
        reason = "it is the target" if name == work.target else _refusal(name, axis)
        if reason is not None or axis is None:
            log.append({"metric": f"subgroups.{work.target}.{name}", "reason": reason or ""})
            continue
        made.append(Group(column=name, levels=tuple(_levels(axis, work))))
    return tuple(made), log


def entry(
    group: Group, work: Task[Table], arms: Mapping[str, Mapping[str, Mapping[tuple[int, int], Trial]]]
) -> dict[str, Any]:
    """One column's entry of the JSON: each level's mean over models, samples and seeds, trained on synthetic and on real
    rows, and the gap between the two (positive: synthetic rows lose). worst: the level of the largest gap, for another
    base rate makes a group's own score harder or easier for real rows too."""
    metric = metric_of(work)
    levels = [_level(group.column, level, metric, arms) for level in group.levels]
    scored = [level for level in levels if "gap" in level]
    worst = max(scored, key=lambda level: float(level["gap"]), default=None)
    return {"metric": metric, "levels": levels, "worst": None if worst is None else worst["level"], "worst_by": "gap"}


def _level(column: str, level: Level, metric: str, arms: Mapping[str, Any]) -> dict[str, Any]:
    head: dict[str, Any] = {"level": level.name, "rows": int(level.inside.sum())}
    if level.reason is not None:
        return {**head, "reason": level.reason}
    means: dict[str, tuple[float, NDArray[np.float64], list[float]]] = {}
    for arm in ("tstr", "trtr"):
        found = arms.get(arm, {})
        if not found:
            return {**head, "reason": "no model could be trained on the synthetic rows"}
        means[arm] = _over(found, (column, level.name))
        value, draws, units = means[arm]
        head[arm] = {"mean": value, "interval": _list(interval(draws, units, RANGES[metric]))}
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    (made, made_draws, units), (real, real_draws, real_units) = means["tstr"], means["trtr"]
    middle = float(np.mean(real_units))
    gap = [sign * (middle - unit) for unit in units]
    return {**head, "gap": sign * (real - made), "gap_interval": _list(interval(sign * (real_draws - made_draws), gap))}


def _over(
    found: Mapping[str, Mapping[tuple[int, int], Trial]], key: tuple[str, str]
) -> tuple[float, NDArray[np.float64], list[float]]:
    """Mean over models and runs, its bootstrap draws, and one mean per unit (sample, or seed of a single sample)."""
    runs = list(next(iter(found.values())))
    per_run = {run: float(np.mean([trials[run].groups[key][0] for trials in found.values()])) for run in runs}
    draws = np.mean([trial.groups[key][1] for trials in found.values() for trial in trials.values()], axis=0)
    return float(np.mean(list(per_run.values()))), draws, units_of(per_run)


def units_of(per_run: Mapping[tuple[int, int], float]) -> list[float]:
    """The independent repetitions of an arm: the mean of each synthetic sample, or of each seed of a single sample."""
    samples = sorted({sample for sample, _ in per_run})
    if len(samples) == 1:
        return list(per_run.values())
    return [float(np.mean([v for (s, _), v in per_run.items() if s == sample])) for sample in samples]


def _list(bounds: tuple[float, float] | None) -> list[float] | None:
    return None if bounds is None else list(bounds)


def _refusal(name: str, axis: Axis | None) -> str | None:
    if axis is None:
        return f"there is no column {name!r} of groups: it is not in the schema and in all rows, or it names records"
    if axis.date:
        return "dates make no groups"
    if axis.is_classes and not axis.levels:
        return "the column has no categories"
    if len(axis.levels) > MOST_LEVELS:
        return f"the column has {len(axis.levels)} categories; at most {MOST_LEVELS} make groups"
    return None


def _levels(axis: Axis, work: Task[Table]) -> list[Level]:
    table, labels = work.test
    column = table.column(axis.name)
    parts = [(name, column == code) for code, name in enumerate(axis.levels)] or _bands(axis, column)
    missing = np.isnan(column)
    if missing.any():
        parts.append((MISSING, missing))
    return [Level(name=name, inside=inside, reason=_too_small(labels[inside], work)) for name, inside in parts]


def _bands(axis: Axis, column: NDArray[np.float64]) -> list[tuple[str, NDArray[np.bool_]]]:
    """Bands of a round width between the declared bounds; what lies outside them belongs to the outermost band."""
    width = _round((axis.high - axis.low) / MOST_BANDS)
    if axis.whole:
        width = max(width, 1.0)
    first, last = math.floor(axis.low / width), max(math.ceil(axis.high / width), math.floor(axis.low / width) + 1)
    edges = [edge * width for edge in range(first, last + 1)]
    known = ~np.isnan(column)
    place = np.clip(np.floor(np.where(known, column, 0.0) / width) - first, 0, len(edges) - 2)
    top = 1.0 if axis.whole else 0.0  # of whole numbers, 20 to 29
    names = [f"{low:g} to {high - top:g}" for low, high in itertools.pairwise(edges)]
    return [(name, known & (place == i)) for i, name in enumerate(names)]


def _round(width: float) -> float:
    """The least of 1, 2, 5, 10, ... (times a power of ten) that is at least the width; 1 for no width."""
    if not width > 0 or not math.isfinite(width):
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return next(power * step for step in (1.0, 2.0, 5.0, 10.0) if power * step >= width * (1 - 1e-9))


def _too_small(labels: NDArray[Any], work: Task[Table]) -> str | None:
    if not len(labels):
        return "no test row"
    if len(labels) < MIN_ROWS:
        return f"{len(labels)} test rows; at least {MIN_ROWS} are needed"
    if work.is_number:
        return None
    enough = int((np.bincount(labels, minlength=len(work.classes)) >= MIN_PER_CLASS).sum())
    if enough < 2:
        return f"fewer than two classes have {MIN_PER_CLASS} test rows"
    return None
