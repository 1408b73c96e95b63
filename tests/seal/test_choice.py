"""The choice of a set of columns: scores against loops, chances against the formula, and what the accountants say of it."""

import itertools
import math

import numpy as np
import pytest
from clinic import make_frame, make_schema
from scipy.stats import chisquare
from sweeps import heavy

from synthdp import BadInput, Budget
from synthdp.accounting import calibrate, epsilon
from synthdp.ledger.events import Choice, Entry, Gaussian
from synthdp.ledger.ledger import Ledger
from synthdp.noise.exponential import drawn, weights
from synthdp.noise.noise import Noise
from synthdp.seal import choice
from synthdp.seal.charging import Account
from synthdp.seal.choice import MOST_OFFSET, Chosen, Dependence, Misfit
from synthdp.seal.clipping import MARGIN
from synthdp.seal.door import Sensitive
from synthdp.seal.records import reading

PAIRS = [("age", "ill"), ("sex", "ill"), ("dose", "ill"), ("stage", "sex")]


def opened(relation="add_remove", epsilon=1.0, frame=None, **changes):
    schema = make_schema(**changes)
    account = Account(Budget(50.0, 1e-5, relation), Ledger(), unit=schema.unit or "record")
    data = Sensitive(make_frame(400) if frame is None else frame, schema, account, seed=0)
    data.commit(lambda z: (Entry(Gaussian(z)), Entry(Choice(epsilon), 3)))
    data.resolve()
    return data


def misfit(data, weights=(1.0, 2.0, 1.0, 0.5)):
    sizes = dict(zip(data.codec.names, data.codec.sizes, strict=True))
    expected = tuple(np.full([sizes[name] for name in pair], 400 / (sizes[pair[0]] * sizes[pair[1]])) for pair in PAIRS)
    return Misfit(expected=expected, weights=weights, offsets=(0.0, 3.0, 0.0, 1.0))


def scores_of(data, question):
    with reading():
        records = data._sealed.read()
        return question.bounded(records), records.codes


def test_scores_are_those_of_a_loop():
    data = opened()
    score = misfit(data)
    found, codes = scores_of(data, data.choice(PAIRS, score, 1.0))
    depends, _ = scores_of(data, data.choice(PAIRS, Dependence(), 1.0))
    for place, pair in enumerate(PAIRS):
        a, b = (data.codec.names.index(name) for name in pair)
        apart = independent = 0.0
        for i, j in itertools.product(*map(range, score.expected[place].shape)):
            both = sum((codes[:, a] == i) & (codes[:, b] == j))
            apart += abs(both - score.expected[place][i, j])
            independent += abs(both - sum(codes[:, a] == i) * sum(codes[:, b] == j) / len(codes)) / 2
        expected = MARGIN * score.weights[place] * (apart - score.offsets[place])
        assert found[place] == pytest.approx(expected, rel=1e-12)  # the margin leaves room for rounding
        assert depends[place] == pytest.approx(MARGIN * independent, rel=1e-12)


@pytest.mark.parametrize("together", [1, 20, 1 << 21])
def test_scores_are_the_same_however_many_tables_are_counted_at_once(together, monkeypatch):
    data = opened()
    asked = data.choice(PAIRS, misfit(data), 1.0)
    monkeypatch.setattr(choice, "TOGETHER", together)
    parted = data.choice(PAIRS, misfit(data), 1.0)
    assert len(parted._tables) > 1 or together > 20
    np.testing.assert_array_equal(scores_of(data, parted)[0], scores_of(data, asked)[0])


def test_the_bounds_on_what_one_record_moves_are_nearly_reached():
    """Both scores: among many small tables and one record more, no move passes the bound and some come close to it."""
    rng = np.random.default_rng(0)
    moved = {"misfit": 0.0, "dependence": 0.0}
    for _ in range(4000):
        table = rng.integers(0, rng.choice([2, 4, 60]), size=rng.integers(1, 6, 2)).astype(float)
        more = table.copy()
        more[tuple(rng.integers(0, size) for size in table.shape)] += 1
        fit = Misfit(expected=(rng.integers(0, 9, table.shape).astype(float),), weights=(1.0,), offsets=(0.0,))
        for name, score in (("misfit", fit), ("dependence", Dependence())):
            moved[name] = max(moved[name], abs(score.of(0, more) - score.of(0, table)) / score.moves)
    big = np.zeros((60, 60))
    big[np.arange(1, 60), np.arange(1, 60)] = 0
    big[0, 1:], big[1:, 0] = 1000, 1000
    more = big.copy()
    more[0, 0] += 1
    moved["dependence"] = max(moved["dependence"], abs(Dependence().of(0, more) - Dependence().of(0, big)) / 2)
    assert all(0.4 < each <= 1 + 1e-9 for each in moved.values()), moved


def test_a_misfit_moves_as_its_heaviest_candidate_does():
    data = opened()
    question = data.choice(PAIRS, misfit(data), 1.0)
    with reading():
        records = data._sealed.read()
        more, fewer = question.bounded(records), question.bounded(records.take(np.arange(400) < 399))
    moved = np.abs(more - fewer)
    np.testing.assert_allclose(moved, MARGIN * np.array(misfit(data).weights))
    assert question.movement(more, fewer) == moved.max() <= question.sensitivity == 2.0


def test_candidates_are_drawn_with_the_chances_of_the_exponential_mechanism():
    exponents, noise = np.array([0.0, 1.0, 2.5, -1.0, 2.0]), Noise(7)
    counts = np.bincount([drawn(exponents, noise.bits) for _ in range(5000)], minlength=5)
    chances = np.exp(exponents) / np.exp(exponents).sum()
    assert chisquare(counts, 5000 * chances).pvalue > 1e-4


def test_weights_are_exponentials_to_many_digits_and_never_nothing():
    found = weights(np.array([0.0, -1.0, -1e9, -100.0]))
    assert all(weight.bit_length() >= 128 for weight in found)
    assert found[1] / found[0] == pytest.approx(math.exp(-1), rel=1e-15)
    assert found[3] / found[0] == pytest.approx(math.exp(-100), rel=1e-12)
    assert found[2] / found[0] == pytest.approx(math.exp(-128), rel=1e-12)


@pytest.mark.parametrize(("relation", "factor"), [heavy(("add_remove", 2)), ("replace_one", 4)])
def test_epsilon_and_the_relation_scale_the_scores(relation, factor):
    data = opened(relation, unit="patient", max_records_per_unit=3)
    question = data.choice(PAIRS, misfit(data), 0.5)
    assert question.sensitivity == 3 * 2.0
    scores, noise = np.array([0.0, 20.0, 40.0, -10.0]), Noise(1)
    counts = np.bincount([question.noised(scores, noise) for _ in range(3000)], minlength=4)
    chances = np.exp(0.5 * scores / (factor * 6.0))
    assert chisquare(counts, 3000 * chances / chances.sum()).pvalue > 1e-4
    assert data.choose(PAIRS, misfit(data), 1.0) in range(4)


def test_a_choice_of_infinite_epsilon_is_the_best():
    data = opened()
    question = data.choice(PAIRS, Dependence(), math.inf)
    assert question.noised(np.array([1.0, 5.0, 5.0, 2.0]), Noise(0)) == 1


def test_a_score_of_one_s_own_or_other_neighbours_are_refused():
    class Trick(Dependence):
        moves = 1e-9

    data = opened()
    with pytest.raises(BadInput, match="a score that the seal knows: Misfit, Dependence"):
        data.choose(PAIRS, Trick(), 1.0)
    other = Chosen(((0, 1),), data.codec.sizes, Dependence(), 1.0, 1, relation="replace_one")
    with pytest.raises(BadInput, match="a relation other than"):
        data.ask(other)
    assert not data.account.ledger.entries()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights": (1.0, 0.0, 1.0, 1.0)}, "weights"),
        ({"offsets": (0.0,) * 3}, "for each candidate"),
        ({"offsets": (math.nan,) * 4}, "offsets"),
        ({"expected": (np.zeros((2, 2)),) * 4}, "shape"),
        ({"offsets": (0.0, 1e17, 0.0, 0.0)}, "2\\^36"),
        ({"weights": (1.0, 1e-320, 1.0, 1.0)}, "weights"),
        ({"weights": (1.0, 1e300, 1.0, 1.0)}, "weights"),
    ],
)
def test_a_misfit_that_does_not_fit_is_refused(changes, said):
    import dataclasses

    data = opened()
    with pytest.raises(BadInput, match=said):
        data.choice(PAIRS, dataclasses.replace(misfit(data), **changes), 1.0)


@pytest.mark.parametrize("cell", [2.0**31, math.inf, math.nan])
def test_a_misfit_to_more_records_than_can_be_counted_exactly_is_refused(cell):
    """Beside a cell of 2^60 a record more would move a distance by nothing, or by 256."""
    data = opened()
    score = misfit(data)
    expected = [table.copy() for table in score.expected]
    expected[1].flat[0] = cell
    with pytest.raises(BadInput, match="count at most 2\\^30 records"):
        data.choice(PAIRS, Misfit(expected=tuple(expected), weights=score.weights, offsets=score.offsets), 1.0)


@pytest.mark.parametrize("offset", [0.0, MOST_OFFSET, -MOST_OFFSET])
@pytest.mark.parametrize("weight", [1e-100, 1.0, 3.7, 1e100])
def test_rounding_moves_no_score_further_than_its_bound(offset, weight):
    """Beside an offset of 1e17 a record more moved the score by 16: the largest one that is taken leaves room."""
    score = Misfit(expected=(np.array([[2.0**29 + 1 / 3]]),), weights=(weight,), offsets=(offset,))
    score.check([(1, 1)])
    found = [MARGIN * score.of(0, np.array([[float(count)]])) for count in (*range(300), *range(2**31, 2**31 + 300))]
    moved = np.abs(np.diff(found)) / score.moves
    assert np.delete(moved, 299).max() <= 1.0


@pytest.mark.parametrize("epsilon", [1e-300, 1e9, 1e307])
def test_no_epsilon_and_no_score_is_too_large_or_too_small_to_be_drawn(epsilon):
    data = opened()
    question = data.choice(PAIRS, misfit(data, weights=(1e-100,) * 4), epsilon)
    place = question.noised(np.array([-1e-90, 0.0, 3e-90, 3e-90]), Noise(3))
    assert place in (range(4) if epsilon < 1 else (2, 3))


def two_points(e, t):
    """Losses and chances of the two points that lose t and t - e, for neighbours that take turns in nothing."""
    share = (math.exp(e) - math.exp(t)) / math.expm1(e)
    return [(t, share), (t - e, 1 - share)]


@pytest.mark.parametrize("e", [0.1, 1.0, 4.0])
def test_one_choice_costs_what_the_worst_two_points_do(e):
    for delta in (1e-5, 1e-3, 0.05):
        found = epsilon([Entry(Choice(epsilon=e))], delta, "pld")
        worst = max(
            sum(share * max(0.0, -math.expm1(found - loss)) for loss, share in two_points(e, t))
            for t in np.linspace(0, e, 4001)
        )
        assert 0.9 * min(delta, math.tanh(e / 4)) < worst <= delta * (1 + 1e-6)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_choices_that_take_turns_cost_no_more_than_accounted(accountant):
    """Three choices, each with two points of its own, chosen after the losses so far: the exact delta by the best adversary."""
    e, count, delta = 0.8, 3, 1e-2
    found = epsilon([Entry(Choice(epsilon=e), count)], delta, accountant)
    turns = np.linspace(0, e, 17)[:-1]

    def worst(left, lost):
        if left == 0:
            return max(0.0, -math.expm1(found - lost))
        return max(sum(share * worst(left - 1, lost + loss) for loss, share in two_points(e, t)) for t in turns)

    assert 0.2 * delta < worst(count, 0.0) <= delta


def test_a_huge_epsilon_has_an_answer():
    assert 0.999e6 < epsilon([Entry(Choice(epsilon=1e6)), Entry(Gaussian(5.0))], 1e-5) < 1.02e6


def test_a_plan_of_choices_and_tables_is_calibrated_and_bounded_range_counts():
    def plan(noise):
        return (Entry(Gaussian(1.1 * noise)), Entry(Choice(0.25 / noise), 14))

    budget = Budget(1.0, 1e-5)
    noise = calibrate(plan, budget)
    assert 0.998 <= epsilon(plan(noise), 1e-5) <= 1.0
    # The sums of rho, by e^2 / 8 a choice: PLD's gain on Gaussians outweighs what the worst pair costs beyond it.
    rho = 1 / (2 * 1.1**2 * noise**2) + 14 * (0.25 / noise) ** 2 / 8
    assert 1.0 < rho + 2 * math.sqrt(rho * math.log(1e5)) < 1.35
