"""Codes with a tree (`schema.trees`): how near their shares are at every level, however finely the fit kept them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synthdp.evaluate.tables import word_of
from synthdp.schema.columns import Categorical

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from synthdp.schema.schema import Schema
    from synthdp.schema.trees import Tree


def as_kept(schema: Schema, samples: Sequence[pd.DataFrame]) -> Schema:
    """The schema with the codes that synthetic rows hold as the categories of columns with a tree that it leaves to learn: all other
    metrics compare real codes at the level that the fit kept them at."""
    for column in schema.columns:
        if isinstance(column, Categorical) and column.tree is not None and isinstance(column.categories, str):
            held = {
                word_of(value) for frame in samples if column.name in frame for value in frame[column.name].unique()
            }
            schema = schema.with_learned(column.name, categories=sorted(held - {""}))
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
        three = [_counted(frame[column.name]) for frame in (synthetic, train, test)]
        if all(three):
            found[column.name] = [_level(tree, level, *three) for level in range(1, tree.levels + 1)]
    return found


def _level(
    tree: Tree, level: int, synthetic: dict[str, float], train: dict[str, float], test: dict[str, float]
) -> dict[str, float | int]:
    s, t, v = (_coarsened(tree, level, shares) for shares in (synthetic, train, test))
    return {
        "level": level,
        "tvd": _distance(s, t),
        "floor": _distance(v, t),
        "kept": min(1.0, sum(share for node, share in s.items() if node in t or node in v)),
    }


def _coarsened(tree: Tree, level: int, shares: dict[str, float]) -> dict[str, float]:
    """Shares of the nodes of a level; a coarser node stays what it is."""
    found: dict[str, float] = {}
    for word, share in shares.items():
        chain = tree.chain(word)
        node = chain[max(0, len(chain) - level)]
        found[node] = found.get(node, 0.0) + share
    return found


def _counted(series: pd.Series) -> dict[str, float]:
    """The share of each word among the cells that are not missing."""
    counts: dict[str, float] = {}
    for value, number in series.value_counts(dropna=True).items():
        if number:  # a categorical has all its categories
            counts[word_of(value)] = counts.get(word_of(value), 0.0) + number
    total = sum(counts.values())
    return {word: float(number / total) for word, number in counts.items()}


def _distance(one: dict[str, float], other: dict[str, float]) -> float:
    return 0.5 * sum(abs(one.get(node, 0.0) - other.get(node, 0.0)) for node in {*one, *other})
