"""The fidelity part of `evaluate`: every metric of how close rows are, or why it could not be computed.

The metrics of columns are in files of their own; here are those of the schema: rules that it declares, and codes with a tree
(`schema.trees`), whose shares are compared at every level, however finely the fit kept them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from synthdp.errors import BadInput
from synthdp.evaluate import association, detection, fidelity, manifold
from synthdp.evaluate.detection import MIN_ROWS, detection_auc
from synthdp.evaluate.judging_options import Steps
from synthdp.evaluate.scores import summary
from synthdp.evaluate.tables import Axis, Table, words_of
from synthdp.schema import cells
from synthdp.schema.columns import Categorical
from synthdp.schema.rule_rows import broken
from synthdp.schema.schema import Schema
from synthdp.schema.trees import Tree

Three = tuple[Table, Table, Table]
Outcome = tuple["dict[str, Any] | None", "str | None"]
Shares = pd.Series  # by word


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
    s, t, v = tables
    log, found = result["not_computed"], result["fidelity"]
    empty = fidelity.no_rows(s, t, v)
    tell("marginals")
    if empty is not None:
        log.append({"metric": "fidelity", "reason": empty})
        result["columns"] = {}
    else:
        first = next((axis.name for axis in wanted if axis.is_classes), None)
        found |= fidelity.total_variation(s, t, v, first)
        result["columns"] = fidelity.columns(s, t, v)
        if numbers := fidelity.numbers(s, t, v):
            found["numbers"] = numbers
        lacking = [ways for ways in (2, 3) if f"tvd_{ways}way" not in found]
        log += [{"metric": f"tvd_{ways}way", "reason": f"there are fewer than {ways} columns"} for ways in lacking]
    tell("associations")
    apart = None if empty is not None else association.difference(s, t, v)
    if apart is not None:
        found["correlation_difference"] = apart
    elif empty is None:
        reason = "fewer than two columns vary in the real training rows, or none of these pairs has enough rows with both values"
        log.append({"metric": "correlation_difference", "reason": reason})
    found |= _detection(s, t, v, seeds, jobs, tell, log)
    for label, keys, metric in _further(seeds):
        tell(label)
        _enter(metric(s, t, v) if empty is None else (None, empty), keys, found, log)
    if levels := by_level(schema, *frames):
        found["code_levels"] = levels
    counted, uncounted = violations(schema, *frames)
    if counted:
        found["rules"] = counted
    log += [{"metric": f"rules.{rule}", "reason": reason} for rule, reason in uncounted.items()]


def time_of_day(schema: Schema, name: str) -> str | None:
    """How a column's cells are written where they are times of day, which are judged as minutes or seconds."""
    table, _, own = name.partition(".")
    readings = [(each.reading, own) for each in schema.tables if each.name == table] or [(schema.reading, name)]
    return next((reading.coding(column).time for reading, column in readings if reading is not None), None)


def _further(seeds: int) -> tuple[tuple[str, tuple[str, ...], Callable[[Table, Table, Table], Outcome]], ...]:
    """(what the progress says, keys in the JSON, the metric) of each metric of the form (entry or None, reason or None)."""
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


def _detection(
    s: Table, t: Table, v: Table, seeds: int, jobs: int, tell: Steps, log: list[dict[str, str]]
) -> dict[str, Any]:
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


def violations(
    schema: Schema, synthetic: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Per declared rule {"rule": its text, "synthetic", "train", "test": share of the rows that break it, in [0, 1]}; and rule -> why
    it could not be counted, where a frame lacks a column of it.

    A missing value never breaks a rule. A share is None where a frame has no rows. The real shares stand beside the
    synthetic one, since a rule that the records break too says something about the rule.
    """
    frames, found, lacking = {"synthetic": synthetic, "train": train, "test": test}, [], {}
    for rule in schema.rules:
        try:
            shares = {role: _share(broken(rule, frame, schema)) for role, frame in frames.items()}
            found.append({"rule": rule.text, **shares})
        except BadInput as error:
            lacking[rule.text] = str(error)
    return found, lacking


def _share(mask: Any) -> float | None:
    return float(mask.mean()) if len(mask) else None


def as_kept(schema: Schema, samples: Sequence[pd.DataFrame]) -> Schema:
    """The schema with the codes that synthetic rows hold as the categories of columns with a tree that it leaves to learn: all other
    metrics compare real codes at the level that the fit kept them at."""
    for column in schema.columns:
        if isinstance(column, Categorical) and column.tree is not None and isinstance(column.categories, str):
            held = words_of(*(frame[column.name] for frame in samples if column.name in frame))
            schema = schema.with_learned(column.name, categories=held)
    return schema


def by_level(
    schema: Schema, synthetic: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame
) -> dict[str, list[dict[str, float | int]]]:
    """Per column with a tree, coarsest level first, {"level", "tvd", "floor", "kept"}: the total variation distance of synthetic from
    training rows where every code is taken at that level, the same of the test rows, and the share of the synthetic codes that are
    as fine as the real ones there. A code that the fit lost to its parent is wrong below the parent's level, and right from there up.
    Columns that a frame lacks are left out; missing cells count in no share.
    """
    found: dict[str, list[dict[str, float | int]]] = {}
    for column in schema.columns:
        tree = getattr(column, "tree", None)
        if tree is None or any(column.name not in frame for frame in (synthetic, train, test)):
            continue
        three = [_shares(frame[column.name]) for frame in (synthetic, train, test)]
        if all(map(len, three)):
            found[column.name] = [_level(tree, level, *three) for level in range(1, tree.levels + 1)]
    return found


def _level(tree: Tree, level: int, *three: Shares) -> dict[str, float | int]:
    def node(word: str) -> str:
        """The node above `word` at this level; a code that is coarser stays as it is."""
        chain = tree.chain(word)
        return chain[max(0, len(chain) - level)]

    s, t, v = (shares.groupby(node).sum() for shares in three)
    return {
        "level": level,
        "tvd": _distance(s, t),
        "floor": _distance(v, t),
        "kept": min(1.0, float(s[s.index.isin([*t.index, *v.index])].sum())),
    }


def _shares(series: pd.Series) -> Shares:
    """The share of each word among the cells that are not missing."""
    return series.astype(object).value_counts(normalize=True).groupby(cells.text).sum()


def _distance(one: Shares, other: Shares) -> float:
    return float(one.sub(other, fill_value=0.0).abs().sum() / 2)
