"""Votes: what one teacher can move, what noise is drawn, what is charged and what is refused (laws 8, 9, 12)."""

import itertools
import math
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
from scipy import stats

from synthdp.errors import BadInput
from synthdp.ledger.events import Vote
from synthdp.noise import laplace
from synthdp.noise.noise import Noise
from synthdp.seal.teachers.vote_aggregation import Confident, Counts, GNMax, Interactive, LNMax, Shares

REJECT = 1e-4  # seeds are fixed: a test either always passes or never
M, TEACHERS = 12, 7


@dataclass
class Scripted:
    """Teachers that say what they are told to: votes (teachers, queries), or scores."""

    said: np.ndarray
    classes: int = 2

    @property
    def count(self):
        return len(self.said)

    def votes(self, queries):  # noqa: ARG002
        return self.said if self.said.dtype == np.int64 else (np.nan_to_num(self.said) > 0).astype(np.int64)

    def scores(self, queries):  # noqa: ARG002
        return self.said.copy()


QUERIES = np.zeros((M, 3), np.int32)
PREDICTIONS = np.random.default_rng(5).dirichlet(np.ones(3), M)
BY_VOTES = {
    "lnmax": LNMax(0.3),
    "gnmax": GNMax(2.0),
    "counts": Counts(2.0),
    "confident": Confident(4.0, 2.0, 1.5, 5),
    "all confident": Confident(4.0, 2.0, 1.5, M + 9),
    "interactive": Interactive(2.0, 2.0, 1.5, 5, PREDICTIONS),
}
BY_SCORES = {form: Shares(1.5, form, 0.7) for form in ("votes", "ranks", "margins")}


def moved(aggregator, before, after, classes):
    one, other = (aggregator.bounded(Scripted(said, classes), QUERIES) for said in (before, after))
    return aggregator.movement(one, other)


@pytest.mark.parametrize("name", BY_VOTES)
def test_one_teacher_moves_votes_by_at_most_the_sensitivity_and_reaches_it(name):
    """A teacher says anything in place of anything; an empty one's constant is one of these."""
    aggregator, rng, most = BY_VOTES[name], np.random.default_rng(1), 0.0
    for turn in range(400):
        before = rng.integers(0, 3, (TEACHERS, M)) if turn % 2 else np.repeat(rng.integers(0, 3, (1, M)), TEACHERS, 0)
        after = before.copy()
        after[turn % TEACHERS] = rng.integers(0, 3, M) if turn % 3 else (before[0] + 1) % 3
        most = max(most, moved(aggregator, before, after, 3))
        assert most <= aggregator.sensitivity(M) * (1 + 1e-12)
    assert most == pytest.approx(aggregator.sensitivity(M), rel=0.05 if name == "interactive" else 1e-9)


@pytest.mark.parametrize("form", BY_SCORES)
def test_one_teacher_moves_shares_by_at_most_the_sensitivity_and_comes_near_it(form):
    aggregator, rng, most = BY_SCORES[form], np.random.default_rng(2), 0.0
    awful = [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e308, 0.0]
    rows = [lambda: np.arange(M) - 5.5, lambda: 5.5 - np.arange(M), lambda: np.ones(M), lambda: -np.ones(M)]
    rows += [lambda: np.zeros(M), lambda: np.full(M, np.nan), lambda: rng.choice(awful, M), lambda: rng.normal(size=M)]
    rows += [lambda: rng.integers(0, 3, M).astype(float), lambda: 1e308 * np.ones(M)]
    for one, other in itertools.product(rows, rows):
        before = rng.normal(size=(TEACHERS, M)) * 10.0 ** rng.integers(-9, 9, (TEACHERS, 1))
        before[0] = one()
        after = before.copy()
        after[0] = other()
        most = max(most, moved(aggregator, before, after, 2))
        assert most <= aggregator.sensitivity(M)
    assert most >= 0.99 * aggregator.sensitivity(M)


def test_ranks_are_midranks_and_half_for_the_silent():
    said = np.array([[3.0, 1.0, 2.0, 9.0], [1.0, 1.0, 0.0, 1.0], [np.nan] * 4, [0.0, np.inf, 1.0, 2.0], [5.0] * 4])
    expected = np.array([[2, 0, 1, 3], [2, 2, 0, 2], [1.5] * 4, [1.5] * 4, [1.5] * 4]) / 4 + 1 / 8
    found = Shares(1.0, "ranks").bounded(Scripted(said), np.zeros((4, 3), np.int32))
    np.testing.assert_array_equal(found, expected.sum(0))


def test_any_two_orders_lie_within_the_reverse_of_one_another():
    """All pairs of weak orders of four, midranks for ties: the farthest are an order and its reverse."""
    vectors = {tuple(Shares(1.0, "ranks").bounded(Scripted(np.array([s], float)), QUERIES[:4])) for s in
               itertools.product(range(4), repeat=4)}  # fmt: skip
    farthest = max(math.dist(a, b) for a, b in itertools.combinations(vectors, 2))
    assert farthest == pytest.approx(math.sqrt((16 - 1) / 12))
    assert farthest < Shares(1.0, "ranks").sensitivity(4)


@pytest.mark.parametrize("name", [*BY_VOTES, *BY_SCORES])
def test_whoever_says_more_than_one_number_of_a_query_is_not_counted(name):
    """One charge buys one number: a batch within the batch is refused, whatever it holds."""
    aggregator = (BY_VOTES | BY_SCORES)[name]
    for shape in ((TEACHERS, M, 40), (TEACHERS, M, 1), (TEACHERS, M + 1), (TEACHERS,)):
        for said in (np.zeros(shape, np.int64), np.ones(shape, np.int64)):
            with pytest.raises(RuntimeError, match="one number"):
                aggregator.bounded(Scripted(said), QUERIES)


@pytest.mark.parametrize("name", ["lnmax", "gnmax", "counts", "confident"])
def test_movement_sees_all_that_moves_of_a_query(name):
    """Tallies of two answers per query move twice as much, squared in L2, as tallies of one."""
    one = np.tile([3.0, 1.0], (M, 1))
    other = one.copy()
    other[0] = 2.0, 2.0
    twice = [np.stack([tally, tally], axis=2) for tally in (one, other)]
    if name == "confident":
        peaks = np.zeros(M)
        one, other, *twice = ((peaks, tally) for tally in (one, other, *twice))
    aggregator = BY_VOTES[name]
    factor = 2 if name == "lnmax" else math.sqrt(2)
    assert aggregator.movement(*twice) == pytest.approx(factor * aggregator.movement(one, other))


@pytest.mark.parametrize(
    ("scale", "clip"), [(1e-170, 1e-100), (1e-95, 1e-100), (5e-324, 1.0), (1e160, 1.0), (1e160, 1e100)]
)
def test_margins_are_clipped_where_squares_underflow_and_overflow(scale, clip):
    aggregator, sums = Shares(1.0, "margins", clip), []
    for sign in (1, -1):
        said = np.zeros((3, 50))
        said[1] = sign * scale
        sums.append(aggregator.bounded(Scripted(said), np.zeros((50, 3), np.int32)))
    moved = np.linalg.norm((sums[0] - sums[1]) / clip)
    assert moved <= 2
    assert moved >= (1.99 if scale > clip else 0)


def test_a_surplus_over_the_student_s_expectation_moves_by_one_vote_exactly():
    """Not by 1 + 9e-16, as the rounding of n - k p would have it."""
    rng, whole = np.random.default_rng(0), set()
    for teachers in (7, 50, 250, 1000):
        predictions = rng.dirichlet(np.ones(3), 500)
        before = rng.integers(0, 3, (teachers, 500))
        after = before.copy()
        after[0] = (before[0] + rng.integers(1, 3, 500)) % 3
        aggregator = Interactive(2.0, 2.0, 1.5, 5, predictions)
        one, other = (
            aggregator.bounded(Scripted(said, 3), np.zeros((500, 3), np.int32))[0] for said in (before, after)
        )
        assert np.abs(one - other).max() <= 1
        whole |= set(np.abs(one - other)[np.abs(one - other) > 0.999])
        counts = np.stack([(before == label).sum(0) for label in range(3)], 1)
        np.testing.assert_allclose(one, (counts - teachers * predictions).max(1), atol=2.0**-20)
    assert 1.0 in whole


def draws(aggregator, tally, count=40_000, seed=1, classes=None):
    """Answers to `count` queries that were all voted like `tally`."""
    bounded = np.tile(np.array(tally, float), (count, 1))
    return aggregator.noised(bounded, Noise(seed), sum(tally))


def likely(count, successes, probability):
    return stats.binomtest(int(successes), count, probability).pvalue > REJECT


def laplace_wins(gap, gamma):
    """P[L1 - L0 > gap] of two Laplace variables of scale 1 / gamma, gap >= 0: e^(-gamma gap) (2 + gamma gap) / 4."""
    return math.exp(-gamma * gap) * (2 + gamma * gap) / 4


@pytest.mark.parametrize(
    ("gamma", "tally"), [(0.05, (10, 0)), (0.05, (30, 10)), (0.3, (8, 3)), (1.0, (2, 2)), (2.0, (3, 2))]
)
def test_lnmax_errs_as_often_as_two_laplace_noises_make_it(gamma, tally):
    """Noise of scale 1 / gamma on both counts of ten teachers' votes: neither gamma itself, nor on one count, nor on labels."""
    answers = draws(LNMax(gamma), tally)
    assert likely(len(answers), (answers == 1).sum(), laplace_wins(tally[0] - tally[1], gamma))


@pytest.mark.parametrize(("sigma", "tally"), [(40.0, (10, 0)), (2.0, (3, 1)), (5.0, (9, 9)), (0.5, (2, 1))])
def test_gnmax_errs_as_often_as_two_gaussian_noises_make_it(sigma, tally):
    answers = draws(GNMax(sigma), tally)
    assert likely(len(answers), (answers == 1).sum(), stats.norm.sf((tally[0] - tally[1]) / (sigma * math.sqrt(2))))


def test_the_largest_of_many_noisy_counts_wins():
    """Ten classes: against noise drawn independently."""
    rng, tally = np.random.default_rng(3), (5, 4, 4, 3, 2, 1, 1, 0, 0, 0)
    for aggregator, other in (
        (LNMax(0.4), rng.laplace(0, 2.5, (40_000, 10))),
        (GNMax(3.0), rng.normal(0, 3.0, (40_000, 10))),
    ):
        found = np.bincount(draws(aggregator, tally), minlength=10)
        expected = np.bincount((other + tally).argmax(1), minlength=10)
        assert stats.chi2_contingency(np.stack([found, expected])).pvalue > REJECT


@pytest.mark.parametrize("form", BY_SCORES)
def test_shares_are_unbiased_and_as_noisy_as_they_say(form):
    aggregator = Shares(2.0, form, 0.7)
    sums = np.linspace(0, TEACHERS, 50)
    noise = Noise(4)
    answers = np.stack([aggregator.noised(sums, noise, TEACHERS) for _ in range(400)])
    rest = (answers - sums / TEACHERS).ravel() / aggregator.deviation(50, TEACHERS)
    assert stats.kstest(rest + np.random.default_rng(0).uniform(-1, 1, rest.shape) / 256, "norm").pvalue > REJECT
    assert aggregator.deviation(50, TEACHERS) == pytest.approx(2.0 * aggregator.sensitivity(50) / TEACHERS)
    assert {"votes": 50**0.5, "ranks": (50 / 3) ** 0.5, "margins": 1.4}[form] == pytest.approx(
        aggregator.sensitivity(50)
    )


def test_an_infinite_budget_has_no_noise():
    assert not draws(LNMax(math.inf), (3, 2), 500).any()
    assert LNMax(math.inf).events(1) == [Vote(0.0, "laplace")]
    np.testing.assert_array_equal(Shares(0.0).noised(np.arange(4.0), Noise(1), 8), np.arange(4.0) / 8)


def test_counts_have_noise_on_every_count():
    rest = (draws(Counts(3.0), (6, 1, 0), 10_000) - [6, 1, 0]) / 3.0
    rest = rest + np.random.default_rng(0).uniform(-1, 1, rest.shape) / 256
    for column in rest.T:
        assert stats.kstest(column, "norm").pvalue > REJECT
    assert np.abs(np.corrcoef(rest.T) - np.eye(3)).max() < 0.05


def test_confident_answers_what_passes_and_no_more_than_it_may():
    tallies = np.tile(np.array([[6.0, 4.0], [10.0, 0.0]]), (5000, 1))
    aggregator = Confident(9.0, 1.5, 2.0, 10_000)
    found = aggregator.noised((tallies.max(1), tallies), Noise(2), 10)
    for kind, tally in enumerate([(6, 4), (10, 0)]):
        answered = found.answered[kind::2]
        assert likely(5000, answered.sum(), stats.norm.sf((9.0 - tally[0]) / 1.5))
        wrong = (found.labels[kind::2][answered] == 1).sum()
        assert likely(int(answered.sum()), wrong, stats.norm.sf((tally[0] - tally[1]) / (2.0 * math.sqrt(2))))
    assert not found.confirmed.any()
    assert set(found.labels[~found.answered]) == {-1}
    all_pass = Confident(-1e6, 0.5, 5.0, 10_000).noised((tallies.max(1), tallies), Noise(2), 10)
    wrong = (all_pass.labels[::2] == 1).sum()
    assert likely(5000, wrong, stats.norm.sf(2 / (5.0 * math.sqrt(2)))), "an answer has its own noise, not the check's"
    few = Confident(9.0, 1.5, 2.0, 7).noised((tallies.max(1), tallies), Noise(2), 10)
    assert few.answered.sum() == 7
    assert np.flatnonzero(few.answered).tolist() == np.flatnonzero(found.answered)[:7].tolist()  # the first that pass


def test_interactive_is_the_paper_s_algorithm():
    """Against a loop over queries, with noise too small to matter."""
    rng = np.random.default_rng(7)
    votes, predictions = rng.integers(0, 3, (TEACHERS, M)), rng.dirichlet(np.ones(3) / 4, M)
    aggregator = Interactive(2.0, 1e-6, 1e-6, 3, predictions, sure=0.6)
    found = aggregator.noised(aggregator.bounded(Scripted(votes, 3), QUERIES), Noise(3), TEACHERS)
    answers, outcomes = 0, set()
    for query in range(M):
        counts = [int((votes[:, query] == label).sum()) for label in range(3)]
        label, confirmed = -1, False
        if max(n - TEACHERS * p for n, p in zip(counts, predictions[query], strict=True)) >= 2.0:
            if answers < 3:
                label, answers = (int(np.argmax(counts)) if counts.count(max(counts)) == 1 else None), answers + 1
        elif predictions[query].max() > 0.6:
            label, confirmed = int(predictions[query].argmax()), True
        outcomes.add((label == -1, confirmed))
        assert found.confirmed[query] == confirmed
        assert found.answered[query] == (label != -1)
        assert label is None or found.labels[query] == label
    assert len(outcomes) == 3


@pytest.mark.parametrize(
    ("aggregator", "charged"),
    [
        (LNMax(0.05), {Vote(10.0, "laplace"): 20}),
        (GNMax(4.0), {Vote(4.0 / math.sqrt(2)): 20}),
        (Counts(4.0), {Vote(4.0 / math.sqrt(2)): 20}),
        (Confident(5.0, 3.0, 2.0, 6), {Vote(3.0): 20, Vote(2.0 / math.sqrt(2)): 6}),
        (Confident(5.0, 3.0, 2.0, 60), {Vote(3.0): 20, Vote(2.0 / math.sqrt(2)): 60}),
        (Interactive(5.0, 3.0, 2.0, 6, np.full((20, 2), 0.5)), {Vote(3.0): 20, Vote(2.0 / math.sqrt(2)): 6}),
        (Shares(1.5), {Vote(1.5): 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_charged(aggregator, charged):
    events = list(aggregator.events(20))
    assert {event: events.count(event) for event in events} == charged


@pytest.mark.parametrize(
    ("make", "word"),
    [
        *((lambda kind=kind, bad=bad: kind(bad), "greater than 0") for kind in (LNMax, GNMax, Counts)
          for bad in (0.0, -1.0, math.nan)),
        (lambda: GNMax(math.inf), "finite"),
        (lambda: Counts(math.inf), "finite"),
        (lambda: Confident(5.0, 0.0, 1.0, 3), "sigma1"),
        (lambda: Confident(5.0, 1.0, -1.0, 3), "sigma2"),
        (lambda: Confident(math.nan, 1.0, 1.0, 3), "threshold"),
        (lambda: Confident(5.0, 1.0, 1.0, 0), "answers"),
        (lambda: Interactive(5.0, 1.0, 1.0, 3, np.full((4, 2), math.nan)), "probabilities"),
        (lambda: Interactive(5.0, 1.0, 1.0, 3, np.full((4, 2), 1.5)), "probabilities"),
        (lambda: Interactive(5.0, 0.0, 1.0, 3, np.full((4, 2), 0.5)), "sigma1"),
        (lambda: Interactive(5.0, 1.0, 1.0, 3, np.full((4, 2), 0.5)).check(4, 3), r"shape \(4, 3\)"),
        (lambda: Interactive(5.0, 1.0, 1.0, 3).check(4, 3), "predictions must be given"),
        (lambda: Shares(-1.0), "noise"),
        (lambda: Shares(math.inf), "noise"),
        (lambda: Shares(1.0, "halves"), "votes, ranks, margins"),
        (lambda: Shares(1.0, "margins", 0.0), "clip"),
        (lambda: Shares(1.0).check(4, 3), "2 classes"),
        (lambda: GNMax(1.0).check(4, 1), "nothing to learn"),
    ],
)  # fmt: skip
def test_bad_settings_are_one_clear_line(make, word):
    with pytest.raises(BadInput, match=word) as error:
        make()
    assert "\n" not in str(error.value)


# Laplace noise that floating point cannot betray


def recomputed(words, further, scale):
    """What the first bits of a uniform say, with 600 bits of precision: the signed number of steps."""
    with mpmath.workprec(600):
        word = int(words[0])
        bits = (word if word >= 0 else ~word) << 32 | (int(words[1]) & 0xFFFFFFFF)
        for more in further:
            bits = bits << 64 | int(more)
        steps = int(
            mpmath.nint(-scale * mpmath.log((bits + mpmath.mpf(0.5)) / mpmath.mpf(2) ** (63 + 64 * len(further))))
        )
        return -steps if word < 0 else steps


@pytest.mark.heavy
@pytest.mark.parametrize("scale", [20.0, 0.7, 3e-5, 1e6])
@pytest.mark.parametrize("all_by_intervals", [False, True])
def test_laplace_answers_are_those_of_a_recomputation_in_high_precision(scale, all_by_intervals, monkeypatch):
    if all_by_intervals:
        monkeypatch.setattr(laplace, "ERROR", 1.0)
    counts = np.random.default_rng(0).integers(0, 2000, 701).astype(float)
    answers = Noise(8).added_laplace(counts, scale)
    stream, step = Noise(8)._stream, laplace.grid(scale)
    words = stream.words(701).reshape(2, -1).copy()
    further = [stream.further(np.arange(701, dtype=np.uint64), depth)[:, 0] for depth in range(1, 5)]
    expected = [recomputed(words[:, i], [more[i] for more in further], scale / step) for i in range(701)]
    np.testing.assert_array_equal((answers - counts) / step, expected)


class Words:
    """A source that says what it is told to."""

    def __init__(self, first, second, further):
        self.pairs, self._words, self._further = 0, (first, second), further

    def words(self, pairs):
        return np.repeat(np.array(self._words, np.int32), pairs)

    def further(self, pairs, depth):  # noqa: ARG002
        return np.full((len(pairs), 2), self._further, np.uint64)


@pytest.mark.parametrize("further", [0, 1, 2**63, 2**64 - 1])
def test_the_rarest_laplace_words_are_answered_exactly(further):
    edges = [0, 1, -1, -2, 2**10, 2**11 - 1, 2**11, 2**31 - 1, -(2**31), 2**30, -(2**30)]
    for first, second in itertools.product(edges, edges):
        if further == 0 and first in (0, -1) and second == 0:
            continue  # a uniform of zero, which has probability 0
        for scale in (64.0, 127.9):
            answer = laplace.rounded(np.zeros(1), scale / 64, Words(first, second, further))
            step = laplace.grid(scale / 64)
            assert answer[0] / step == recomputed((first, second), [further] * 6, scale / 64 / step)


def test_laplace_numbers_within_the_error_of_a_boundary_are_looked_at_again(monkeypatch):
    """By its first 63 bits, one number in a million lies so near to a boundary; here, the error is made large."""
    asked, nearest = [], laplace._nearest
    monkeypatch.setattr(laplace, "ERROR", 0.1 / 127)
    monkeypatch.setattr(laplace, "_nearest", lambda *given: asked.append(given) or nearest(*given))
    Noise(8).added_laplace(np.zeros(1000), 127 / 128)
    assert 130 < len(asked) < 280, "a tenth of a step to either side"


def test_each_laplace_step_has_its_exact_probability():
    scale = 3.0
    step = laplace.grid(scale)
    assert scale / 128 < step <= scale / 64
    steps = np.rint(Noise(12).added_laplace(np.zeros(500_000), scale) / step).astype(int)
    edges = (np.arange(-300, 301) + 0.5) * step
    expected = np.diff(np.concatenate([[0.0], stats.laplace(scale=scale).cdf(edges), [1.0]]))
    cells = np.bincount(np.clip(steps + 300, 0, 601), minlength=602)
    assert stats.chisquare(cells, 500_000 * expected).pvalue > REJECT


@pytest.mark.parametrize("scale", [20.0, 1.0, 0.01])
def test_the_laplace_noise_added_is_the_noise_accounted(scale):
    count = 200_001
    noise = Noise(13)
    draws = noise.added_laplace(np.full(count, 250.0), scale) - 250.0
    smooth = draws + np.random.default_rng(0).uniform(-0.5, 0.5, count) * laplace.grid(scale)
    assert stats.kstest(smooth / scale, "laplace").pvalue > REJECT
    assert np.abs(draws).mean() == pytest.approx(scale, rel=5 / count**0.5)
    other = noise.added_laplace(np.zeros(count), scale)
    for one, two in ((draws, other), (draws[1:], draws[:-1])):
        assert abs(np.corrcoef(one, two)[0, 1]) < 5 / count**0.5


@pytest.mark.parametrize("scale", [0.3, 50.0, 1000.0, 2.0**20])
def test_no_digit_of_a_count_is_left_without_laplace_noise(scale):
    """On a grid of 8, three votes would be three beyond a multiple of 8, whatever the noise."""
    noise, most = Noise(14), min(64.0, scale)
    found = noise.added_laplace(np.full(2000, 3.0), scale)
    for step in (2.0, 8.0, 64.0):
        rests = np.unique(np.mod(found, step))
        assert len(rests) > min(most, step) / 2, f"an answer tells the count, up to multiples of {step:g}"


def test_laplace_noise_does_not_depend_on_the_counts_and_moves_nothing_in_the_stream():
    one, two = Noise(15), Noise(15)
    counts = np.random.default_rng(1).integers(0, 10**6, (999, 3)).astype(float)
    np.testing.assert_array_equal(one.added_laplace(counts, 5.0) - counts, two.added_laplace(np.zeros((999, 3)), 5.0))
    assert one.bits(32) == two.bits(32)
    steps = Noise(1).added_laplace(np.zeros(9999), 1.0)
    assert (steps == 0).any()
    assert not np.signbit(steps[steps == 0]).any(), "the sign of a zero tells the noise's"


def test_laplace_noise_refuses_what_it_cannot_answer_exactly():
    for scale in (0.0, -1.0, math.nan, math.inf, 2.0**41):
        with pytest.raises(BadInput, match="scale"):
            Noise(1).added_laplace(np.zeros(3), scale)
    for count in (0.5, math.nan, math.inf):
        with pytest.raises(BadInput, match="whole"):
            Noise(1).added_laplace(np.array([count]), 1.0)
    assert Noise(1).added_laplace(np.zeros((0, 2)), 1.0).shape == (0, 2)
