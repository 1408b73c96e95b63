"""Bought figures of fitness in words: what was found, how sure it is, and what it does not say."""

from dataclasses import dataclass

from synthdp.report import words
from synthdp.report.fitness_figures import Fitness, Group, Interval

CLOSE, FAR, VAGUE = 0.05, 0.1, 0.3  # distances that are called close, clear, and an interval too wide to tell
SINGLE, WITH_TARGET = "Single columns", "Columns with what is to be predicted"


@dataclass(frozen=True, kw_only=True)
class Told:
    """One sort of tables: its name, what it says of the data, and what was measured."""

    title: str
    verdict: str
    group: Group


def told(fitness: Fitness) -> list[Told]:
    """The sorts of tables that were compared."""
    named = ((SINGLE, fitness.single), (WITH_TARGET, fitness.with_target))
    return [Told(title=title, verdict=verdict(group.mean), group=group) for title, group in named if group is not None]


def verdict(interval: Interval) -> str:
    """What an interval of the mean distance says, for someone who reads nothing else."""
    low, high = interval
    if high <= CLOSE:
        return "Close to the records."
    if high - low > VAGUE:
        return "No verdict: too much noise for so few records. A larger share or budget would tell more."
    if low >= FAR:
        return "Clearly different from the records; this is no effect of the noise."
    if low > 0:
        return "Different from the records to a degree that the noise cannot explain."
    return "No difference shown: what there is, the noise hides."


def between(interval: Interval) -> str:
    """Two bounds in percent, rounded outwards."""
    return f"{words.at_least(interval[0])} to {words.percent(interval[1])}"


def sentence(fitness: Fitness) -> str:
    """The means in one sentence."""
    if fitness.reason is not None:
        return f"Figures of fitness were bought, but there are none: {fitness.reason}"
    parts = [f"{each.title.lower()} {between(each.group.mean)}" for each in told(fitness)]
    return f"Measured under the guarantee, the mean distance from the records is, for {', for '.join(parts)}."


def brief(fitness: Fitness | None) -> list[str]:
    """Lines for a terminal."""
    if fitness is None:
        return []
    if fitness.reason is not None:
        return [f"fitness    {fitness.reason}"]
    return [
        f"fitness    {each.title.lower()}: {between(each.group.mean)} from the records on average"
        for each in told(fitness)
    ]
