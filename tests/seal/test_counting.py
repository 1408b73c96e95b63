"""Tables are the same however the records are divided into parts."""

import itertools

import numpy as np
import pytest

from synthdp.seal import records as sealed_records

SIZES = (3, 1, 5, 256)
GROUPS = (None, None, np.array([0, 2, 2, 0, 1]), np.arange(256) // 100)
CLIQUES = [(0,), (3,), (2, 0), (0, 1, 2, 3), (3, 2), ()]


def expected(codes, clique, groups):
    """Record by record."""
    shape = tuple(SIZES[c] if groups[c] is None else int(groups[c].max()) + 1 for c in clique)
    table = np.zeros(shape)
    for record in codes:
        table[tuple(record[c] if groups[c] is None else groups[c][record[c]] for c in clique)] += 1
    return table


@pytest.mark.parametrize(
    ("records", "part", "dtype", "grouped"),
    list(itertools.product((0, 1, 300), (1, 7, 1 << 16), (np.int32, np.uint8), (False, True))),
)
def test_counts_are_those_of_a_walk_over_the_records(records, part, dtype, grouped, monkeypatch):
    monkeypatch.setattr(sealed_records, "PART", part)
    rng = np.random.default_rng(records)
    codes = np.stack([rng.integers(0, size, records) for size in SIZES], axis=1).astype(dtype)
    groups = GROUPS if grouped else (None,) * len(SIZES)
    rows = np.flatnonzero(rng.integers(0, 2, records))
    whole = sealed_records.contingency_counts(codes, CLIQUES, SIZES, groups)
    some = sealed_records.contingency_counts(codes, CLIQUES, SIZES, groups, rows)
    for clique, table, inside in zip(CLIQUES, whole, some, strict=True):
        assert table.dtype == inside.dtype == np.float64
        np.testing.assert_array_equal(table, expected(codes, clique, groups))
        np.testing.assert_array_equal(inside, expected(codes[rows], clique, groups))


def test_no_table_is_asked_for():
    assert sealed_records.contingency_counts(np.zeros((4, 2), np.int32), [], (1, 1)) == []
