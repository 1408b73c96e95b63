"""How the internal page prints a figure: the mean, and beside it the interval or the spread that it has."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

ABSENT = "not computed"
DECIMALS = 3
CHANCE = 4.0  # deviations: one share in 16,000 is so far off by chance
CHANCE_OF_LOSS = 2.5  # fewer, since training and held-out rows both have to show what was lost
LEAST_LOST = 0.1  # of an association that is called lost, or of what is invented of one
MEAN = "Mean of these"
LACKED = {  # by how a metric in `not_computed` begins, its name in words
    "alpha_precision": "alpha-precision",
    "attacks": "attack",
    "beta_recall": "beta-recall",
    "columns": "column",
    "correlation_difference": "associations of pairs",
    "detection_auc": "detection of synthetic rows",
    "fid": "Fréchet distance (FID)",
    "histories": "histories",
    "histories.onward": "associations from one record to the next",
    "histories.told": "prediction from the past",
    "histories.types": "types of visits",
    "independent": "baseline of unrelated columns",
    "kid": "kernel distance (KID)",
    "linked.numbers": "numbers by code",
    "mean_pictures": "mean pictures",
    "means": "means of numeric columns",
    "missingness": "patterns of missing values",
    "pearson": "Pearson correlations",
    "pmse": "propensity score (pMSE)",
    "range_queries": "range queries",
    "ranks": "ranks of models",
    "rules": "rule",
    "spearman": "rank correlations",
    "subgroups": "subgroups",
    "survival": "Kaplan-Meier curve",
    "trtr": "models trained on real records",
    "tstr": "models trained on synthetic records",
    "unread": "cells of the column",
    "tvd_2way": "pairs of columns",
    "tvd_3way": "triples of columns",
    "utility": "utility",
    "wasserstein": "distances of numeric columns",
}
CONSTANT = {"majority": "Floor: always predicting the majority class", "mean": "Floor: always predicting the mean"}


def figure(value: Any) -> Markup:
    """A summary, a figure of an attack or a bare number as the tables print it.

    "0.871 [0.862, 0.880]" where there is an interval (95 %), "0.871 ± 0.004" where there are several values and only
    their spread, else "0.871"; "not computed" for None.
    """
    if value is None:
        return Markup.escape(ABSENT)
    if not isinstance(value, Mapping):
        return Markup.escape(number(value))
    mean = number(middle(value))
    interval = value.get("interval")
    if interval is not None:
        low, high = (number(end) for end in interval)
        return Markup('{} <span class="ci">[{}, {}]</span>').format(mean, low, high)
    if value.get("n", 1) > 1 and "values" in value and "sd" in value:
        return Markup("{} \u00b1 {}").format(mean, number(value["sd"]))
    return Markup.escape(mean)


def exact(value: Any) -> str:
    """What a table sorts a figure by: its full value, or nothing."""
    if value is None:
        return ""
    return repr(middle(value) if isinstance(value, Mapping) else float(value))


def middle(value: Mapping[str, Any]) -> float:
    """The figure itself: a summary's mean, an attack's value."""
    found: float = value["mean"] if "mean" in value else value["value"]
    return found


def number(value: float) -> str:
    """Three decimals; above 10 four significant digits, above 1,000 whole. Counts are whole."""
    if isinstance(value, int):
        return f"{value:,}"
    if value and math.isfinite(value):
        size = abs(value)
        decimals = DECIMALS if size < 10 else max(0, DECIMALS - math.floor(math.log10(size)))
    else:
        decimals = DECIMALS
    return f"{value:,.{decimals}f}"


def small(value: float | str | None) -> str:
    """An epsilon or a delta, as short as it goes; None is an infinite epsilon, as the JSON writes it."""
    return "infinite" if value is None else f"{float(value):g}"


def percent(share: float | None) -> str:
    return ABSENT if share is None else f"{100 * share:.1f} %"


def said(value: Any) -> str:
    """The same as `figure` inside a sentence, without markup."""
    return figure(value).striptags()


def lacked(metric: str) -> str:
    """What an entry of `not_computed` is about, in words."""
    begin = max((name for name in LACKED if f"{metric}.".startswith(f"{name}.")), key=len, default=None)
    if begin is None:
        return metric
    rest = metric[len(begin) + 1 :]
    return LACKED[begin] + (rest and f" ({rest.replace('_', ' ') if begin == 'attacks' else rest})")


def kept(real: float, made: float) -> float:
    """How much stronger an association is among synthetic rows, in the direction that it has among real ones: below 0 it was lost,
    and below minus its strength it has the other sign."""
    return made * (-1.0 if real < 0 else 1.0) - abs(real)


def is_lost(told: Mapping[str, float]) -> bool:
    """Whether an association of training rows, which held-out ones have, too, lost `LEAST_LOST` or more of its strength; one that is weaker
    among either had nothing to lose. Results of earlier versions have no held-out one of columns."""
    real, held_out, made = told["train"], told.get("test", told["train"]), told["synthetic"]
    return (
        all(abs(each) >= LEAST_LOST and kept(each, made) <= -LEAST_LOST for each in (real, held_out))
        and real * held_out > 0
    )


def is_clearly_lost(told: Mapping[str, Any]) -> bool:
    """Whether an association is lost, and not `by_chance` (see `association.by_chance`), which results of earlier versions do not tell."""
    return is_lost(told) and not told.get("by_chance")


def loss(told: Mapping[str, float]) -> float:
    """How much weaker an association is among synthetic rows than among training and held-out ones, in the direction that it has there."""
    return min(-kept(told[role], told["synthetic"]) for role in ("train", "test"))


def excess(told: Mapping[str, float]) -> float:
    """How much stronger an association is among synthetic rows than among training and held-out ones, whatever its sign."""
    return abs(told["synthetic"]) - max(abs(told["train"]), abs(told["test"]))


def is_invented(told: Mapping[str, float]) -> bool:
    """Whether an association is stronger by `LEAST_LOST` or more; one of the other sign is lost, unless real rows hardly have it."""
    return excess(told) >= LEAST_LOST and not is_lost(told)


def by_arm(
    entry: Mapping[str, Any], names: Mapping[str, str], found: Sequence[str], records: str = "rows"
) -> list[tuple[str, list[tuple[str, list[Any]]]]]:
    """What the models were trained on, with each one's scores by the metrics `found`; then the floors. `records`: what they are called."""
    arms = (
        (f"Trained on real {records} (ceiling)", entry["trtr"], "trtr"),
        (f"Trained on synthetic {records}", entry["tstr"], "tstr"),
        ("Floor: unrelated columns", entry["floors"].get("independent", {}), "independent"),
    )
    groups = []
    for label, arm, key in arms:
        rows = [(names[model], [scores.get(metric) for metric in found]) for model, scores in arm.items()]
        if key in entry["average"] and len(rows) > 1:
            rows.append((MEAN, [entry["average"][key].get(metric) for metric in found]))
        groups.append((label, rows))
    for floor, label in CONSTANT.items():
        if floor in entry["floors"]:
            groups.append((label, [("No model", [entry["floors"][floor].get(metric) for metric in found])]))
    return [group for group in groups if group[1]]


def beyond_chance(one: Any, ones: Any, other: Any, others: Any) -> Any:
    """Whether two shares, numbers or arrays, of so many people each are farther apart than chance would take any of some hundred pairs."""
    together = (one * ones + other * others) / (ones + others)
    return abs(one - other) > CHANCE * (together * (1 - together) * (1 / ones + 1 / others)) ** 0.5
