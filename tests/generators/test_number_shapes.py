"""Numbers of codes from noisy tables: as few peaks as noise allows."""

import numpy as np
import pytest

from synthdp.generators.marginals import number_shapes
from synthdp.schema.learned import nearest_counts

EDGES = np.linspace(0, 40, 41)
MIDDLE = (EDGES[1:] + EDGES[:-1]) / 2


def bell(middle, width, rows):
    found = np.exp(-(((MIDDLE - middle) / width) ** 2) / 2)
    return rows * found / found.sum()


def is_peaked(density):
    peak = int(np.argmax(density))
    return (np.diff(density[: peak + 1]) >= -1e-9).all() and (np.diff(density[peak:]) <= 1e-9).all()


def test_what_has_one_peak_stays():
    for counts in (np.array([1.0, 2, 5, 3, 0]), np.array([5.0, 3, 0]), np.array([0.0, 3, 5]), np.array([2.0])):
        np.testing.assert_allclose(number_shapes.single_peaked(counts, np.ones(len(counts))), counts)


def test_no_single_peaked_counts_are_nearer():
    """Against all counts on a small grid with one peak, by brute force; the peak is one of counts per width."""
    rng = np.random.default_rng(0)
    grid = np.arange(-1.0, 4.5, 0.5)
    every = np.stack(np.meshgrid(*[grid] * 4, indexing="ij"), -1).reshape(-1, 4)
    peaked = every[[is_peaked(each) for each in every]]
    for _ in range(20):
        widths = rng.choice([0.5, 1.0, 2.0], 4)
        counts = rng.normal(1, 1.5, 4)
        found = number_shapes.single_peaked(counts, widths)
        assert is_peaked(found / widths)
        least = ((peaked * widths - counts) ** 2).sum(1).min()
        assert ((found - counts) ** 2).sum() <= least + 1e-9


def test_widths_are_those_that_differ_less():
    decades = np.array([0.0, 1, 10, 100, 1000])
    logarithms = np.log([2, 10, 10, 10])
    np.testing.assert_allclose(number_shapes.even_widths(decades), logarithms / logarithms.mean())
    for edges in (
        EDGES,
        np.array([-5.0, 0, 5]),
        np.array([0.0, 3]),
        np.array([0.0, 0, 4]),
        np.array([5.0, 5]),
        np.array([0, 1e-320]),
    ):
        np.testing.assert_allclose(number_shapes.even_widths(edges), 1)
    np.testing.assert_allclose(number_shapes.even_widths(np.array([-1.0, 0, 1e200])), 1)


def test_without_noise_shares_are_the_tables_whatever_their_shape():
    table = np.array([bell(5, 2, 90) + bell(35, 2, 60), bell(20, 3, 10), np.zeros(40)])
    found = number_shapes.shares(table, 1e-3, EDGES)
    np.testing.assert_allclose(found[:2], table[:2] / table[:2].sum(1, keepdims=True), atol=1e-4)
    np.testing.assert_allclose(found.sum(1), 1)


@pytest.mark.parametrize("deviation", [10.0, 3.0])
def test_noise_leaves_less_where_a_code_has_no_numbers(deviation):
    """At most seven tenths of the error of the nearest counts."""
    rng = np.random.default_rng(1)
    table = np.array([bell(5 + 3 * code, 2, 300) for code in range(10)])
    noisy = table + rng.normal(0, deviation, table.shape)
    plain = np.array([nearest_counts(row, row.sum()) / row.sum() for row in noisy])
    lacking = [np.abs(found - table / 300).sum() for found in (number_shapes.shares(noisy, deviation, EDGES), plain)]
    assert lacking[0] < 0.7 * lacking[1]


def test_two_peaks_that_stand_clear_of_the_noise_stay():
    rng = np.random.default_rng(2)
    table = np.array([bell(6, 2, 500) + bell(33, 2, 500), bell(20, 2, 1000)])
    found = number_shapes.shares(table + rng.normal(0, 5, table.shape), 5.0, EDGES)
    assert found[0, :15].sum() == pytest.approx(0.5, abs=0.05)
    assert found[0, 25:].sum() == pytest.approx(0.5, abs=0.05)


def test_an_atom_that_noise_may_have_made_is_none():
    table = np.column_stack([[bell(5, 2, 300), bell(30, 2, 300)], [19.0, 80.0], [-20.0, 21.0]])
    found = number_shapes.shares(table, 10.0, EDGES)
    assert found[0, 40:].tolist() == [0, 0]
    assert found[1, 40:] == pytest.approx([80 / 401, 21 / 401], abs=0.02)


def test_codes_that_do_not_differ_share_what_they_say():
    rng = np.random.default_rng(3)
    table = np.tile(bell(20, 5, 200), (12, 1))
    found = number_shapes.shares(table + rng.normal(0, 10, table.shape), 10.0, EDGES)
    assert np.abs(found - found[0]).max() < 1e-9
    assert np.abs(found[0] - table[0] / 200).sum() / 2 < 0.15


def test_as_few_peaks_as_noise_allows():
    rng = np.random.default_rng(4)
    two, ones = bell(8, 2, 500) + bell(32, 2, 500), np.ones(40)
    lacking = np.zeros(2)
    for _ in range(20):
        noisy = two + rng.normal(0, 15, 40)
        found = number_shapes.smoothed(noisy, ones, 15.0)
        assert not is_peaked(found)
        lacking += [np.abs(nearest_counts(each, 1000.0) - two).sum() for each in (found, noisy)]
    assert lacking[0] < 0.9 * lacking[1]
    assert is_peaked(number_shapes.smoothed(noisy, ones, 300.0))
    comb = np.where(np.arange(40) % 4 == 0, 100.0, 0.0)
    np.testing.assert_array_equal(number_shapes.smoothed(comb, ones, 1.0), comb)
    for few in (np.zeros(0), np.array([3.0]), np.array([3.0, -1.0])):
        np.testing.assert_array_equal(number_shapes.smoothed(few, np.ones(len(few)), 1.0), few)


def test_a_single_cell_that_stands_clear_of_the_noise_stays():
    rng = np.random.default_rng(5)
    noise = rng.normal(0, 1, 40)
    spiked = noise + np.where(np.arange(40) == 30, 8.0, 0.0) + np.where(np.arange(40) == 5, 8.0, 0.0)
    assert number_shapes.smoothed(spiked, np.ones(40), 1.0)[30] > 5
    assert number_shapes.smoothed(spiked, np.ones(40), 1.0)[5] > 5


def test_a_few_codes_that_are_used_are_not_lost_among_many_that_are_not():
    rng = np.random.default_rng(6)
    table = np.zeros((200, 40))
    table[:3] = [bell(5 + 15 * code, 1, 15) for code in range(3)]
    found = number_shapes.shares(table + rng.normal(0, 1, table.shape), 1.0, EDGES)
    assert np.abs(found[:3] - table[:3] / 15).sum(1).mean() / 2 < 0.4
