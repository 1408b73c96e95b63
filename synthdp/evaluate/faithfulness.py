"""The fidelity part of `evaluate`: every metric of how close rows are, or why it could not be computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from synthdp.evaluate.how import Steps
    from synthdp.evaluate.tables import Axis, Table
    from synthdp.schema.schema import Schema

Three = tuple["Table", "Table", "Table"]
Outcome = tuple["dict[str, Any] | None", "str | None"]


def steps(seeds: int) -> int:
    """How many steps `judge` tells."""
    return 2 + 2 * seeds + len(_further(seeds))


def judge(
    tables: Three,
    frames: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
    schema: Schema,
    wanted: Sequence[Axis],
    seeds: int,
    jobs: int,
    tell: Steps,
    result: dict[str, Any],
) -> None:
    """Fill result["fidelity"], ["columns"] and ["not_computed"]. tables: synthetic, training, test."""
    from synthdp.evaluate import association, code_levels, fidelity

    s, t, v = tables
    log, found = result["not_computed"], result["fidelity"]
    empty = [role for role, x in (("synthetic", s), ("real training", t), ("real test", v)) if not x.rows]
    tell("marginals")
    if empty:
        log.append({"metric": "fidelity", "reason": f"there are no {empty[0]} rows"})
        result["columns"] = {}
    else:
        first = next((axis.name for axis in wanted if axis.is_classes), None)
        found |= fidelity.total_variation(s, t, v, first)
        result["columns"] = fidelity.columns(s, t, v)
        _note_marginals(found, log)
    tell("associations")
    apart = None if empty else association.difference(s, t, v)
    if apart is not None:
        found["correlation_difference"] = apart
    elif not empty:
        reason = "fewer than two columns vary in the real training rows"
        log.append({"metric": "correlation_difference", "reason": reason})
    found |= _detection(s, t, v, seeds, jobs, tell, log)
    for label, keys, metric in _further(seeds):
        tell(label)
        _enter(metric(s, t, v), keys, found, log)
    if levels := code_levels.by_level(schema, *frames):
        found["code_levels"] = levels
    if schema.rules:
        _rules(schema, frames, found, log)


def _further(seeds: int) -> tuple[tuple[str, tuple[str, ...], Callable[[Table, Table, Table], Outcome]], ...]:
    """(what the progress says, keys in the JSON, the metric) of each metric of the form (entry or None, reason or None)."""
    from synthdp.evaluate import association, detection, fidelity, manifold

    return (
        ("distances of numbers", ("wasserstein",), fidelity.wasserstein),
        ("correlations and means", ("pearson", "spearman", "means"), association.of_numbers),
        ("missing values", ("missingness",), fidelity.patterns),
        ("range queries", ("range_queries",), association.range_error),
        ("propensity scores", ("pmse",), lambda s, t, v: detection.pmse(s, t, v, seeds=seeds)),
        ("precision and recall", ("alpha_precision", "beta_recall"), manifold.precision_recall),
    )


def limits() -> dict[str, str]:
    """What was kept small for time, for `about.limits`."""
    from synthdp.evaluate import association, detection, manifold

    return {
        "detection and pMSE": f"at most {detection.MOST_ROWS:,} rows of each set, drawn at random",
        "alpha-precision and beta-recall": f"at most {manifold.MOST_ROWS:,} rows of each set, drawn at random",
        "range queries": f"{association.QUERIES:,} queries on at most {association.MOST_COLUMNS} columns each",
    }


def _enter(outcome: Outcome, keys: tuple[str, ...], found: dict[str, Any], log: list[dict[str, str]]) -> None:
    entry, reason = outcome
    if entry is not None:
        found |= {key: entry[key] for key in keys} if len(keys) > 1 else {keys[0]: entry}
    if reason is not None:  # some columns may lack it where others have it
        log += [{"metric": key, "reason": reason} for key in keys]


def _rules(
    schema: Schema,
    frames: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
    found: dict[str, Any],
    log: list[dict[str, str]],
) -> None:
    from synthdp.evaluate.rule_violations import violations

    counted, lacking = violations(schema, *frames)
    if counted:
        found["rules"] = counted
    log += [{"metric": f"rules.{rule}", "reason": reason} for rule, reason in lacking.items()]


def _detection(
    s: Table, t: Table, v: Table, seeds: int, jobs: int, tell: Steps, log: list[dict[str, str]]
) -> dict[str, Any]:
    from synthdp.evaluate.detection import MIN_ROWS, detection_auc
    from synthdp.evaluate.scores import summary

    fewest = min(s.rows, t.rows, v.rows)
    if fewest < MIN_ROWS:
        reason = f"the smallest of the three sets has {fewest} rows; at least {MIN_ROWS} are needed"
        log.append({"metric": "detection_auc", "reason": reason})
        tell.skip(2 * seeds)
        return {}
    found: dict[str, list[float]] = {"synthetic": [], "training": []}
    for name, table in (("synthetic", s), ("training", t)):
        for seed in range(seeds):
            tell(f"detection of {name} rows among test rows")
            found[name].append(detection_auc(table, v, seed, jobs))
    return {"detection_auc": {**summary(found["synthetic"]), "floor": summary(found["training"])}}


def _note_marginals(found: dict[str, Any], log: list[dict[str, str]]) -> None:
    lacking = [ways for ways in (2, 3) if f"tvd_{ways}way" not in found]
    log += [{"metric": f"tvd_{ways}way", "reason": f"there are fewer than {ways} columns"} for ways in lacking]
