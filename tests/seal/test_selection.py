"""The best of K hidden runs (law 26): the event, its price, the distribution of K, and what the seal holds runs to."""

import itertools
import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema
from plans import capped, choice, gaussian, laplace, sampled, threshold, vote
from scipy.stats import chisquare

from synthdp import Budget
from synthdp.accounting import answers, best, curve, epsilon, repetitions
from synthdp.accounting.accountants import rdp
from synthdp.budgets.filters import Renyi
from synthdp.errors import BadInput
from synthdp.ledger.events import Entry, Gaussian, Sampled, Selection, canonical, from_json, scoped, to_json
from synthdp.ledger.ledger import Ledger
from synthdp.noise.noise import Noise
from synthdp.seal.best_of import Terms
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.replay import Recorder
from synthdp.seal.resume import Answers, _whole

BUDGET = Budget(1.0, 1e-5)
ACCOUNTANTS = ("analytic_moments", "rdp")  # the others refuse by name


def selection(*plans, mean=5.0, shape=1.0, count=1):
    return (Entry(Selection(mean, shape, tuple(plans)), count),)


KINDS = {
    "gaussian": selection(gaussian(6.0)),
    "several": selection((*gaussian(8.0, 2), *laplace(9.0)), vote(7.0, 3), mean=3.0),
    "sampled": selection((*sampled(0.02, 2.0, 30), *gaussian(12.0))),
    "logarithmic": selection(choice(0.1, 2), shape=0.0),
    "cap": selection(capped("zcdp", 0.01), mean=2.0),
}
each_kind = pytest.mark.parametrize("entries", KINDS.values(), ids=KINDS)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("mean", [1.0, 3.0, 40.0])
def test_the_price_is_dp_accounting_s(shape, mean):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    alone = dp_event.GaussianDpEvent(3.0)
    both = dp_event.ComposedDpEvent([alone, dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(9.0), 2)])
    for base, plan in ((alone, gaussian(3.0)), (both, (*gaussian(3.0), *laplace(9.0, 2)))):
        theirs = RdpAccountant(list(rdp.WIDE_ORDERS))
        theirs.compose(dp_event.RepeatAndSelectDpEvent(base, mean, shape), 2)
        ours = epsilon(selection(plan, mean=mean, shape=shape, count=2), 1e-5, "rdp")
        assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-6)


def test_the_price_of_sampled_steps_is_dp_accounting_s(monkeypatch):
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    orders = tuple(order for order in rdp.WIDE_ORDERS if 1.5 <= order <= 64)
    theirs = RdpAccountant(list(orders))
    step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.2))
    theirs.compose(dp_event.RepeatAndSelectDpEvent(dp_event.SelfComposedDpEvent(step, 500), 5.0, 1.0))
    ours = epsilon(selection(sampled(0.01, 1.2, 500)), 1e-5, "rdp")
    assert ours <= theirs.get_epsilon(1e-5) * (1 + 1e-9)  # more orders, never dearer
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)


def test_the_other_relation_doubles_what_a_unit_moves():
    replaced = scoped(selection(gaussian(6.0)), relation="replace_one", unit="record")
    assert epsilon(replaced, 1e-5, "rdp") == epsilon(selection(gaussian(3.0)), 1e-5, "rdp")


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@each_kind
def test_counting_order_and_more(entries, accountant):
    if accountant == "analytic_moments" and entries is KINDS["sampled"]:
        entries = selection(gaussian(6.0))  # asked of a sample, an inner event is under Poisson sampling: rdp's part
    event = entries[0].event
    few, counted = epsilon(entries, 1e-5, accountant), epsilon([Entry(event, 3)], 1e-5, accountant)
    assert 0 < few < counted == epsilon([Entry(event)] * 3, 1e-5, accountant)
    orders = list(itertools.permutations([*entries, *gaussian(9.0), *KINDS["gaussian"]]))
    assert len({epsilon(order, 1e-5, accountant) for order in orders}) == 1
    assert epsilon([*entries, *gaussian(9.0)], 1e-5, accountant) > few
    by_delta = [value for _, value in curve(entries, [1e-2, 1e-3, 1e-5, 1e-6], accountant)]
    assert by_delta == sorted(by_delta)


def test_monotone_in_the_runs_and_dearer_than_one():
    for plan in (gaussian(6.0), sampled(0.02, 2.0, 30), choice(0.2, 3)):
        by_mean = [epsilon(selection(plan, mean=mean), 1e-5, "rdp") for mean in (1.0, 1.5, 3.0, 10.0, 1e3)]
        assert all(few <= many for few, many in itertools.pairwise(by_mean))
        assert epsilon(plan, 1e-5, "rdp") < by_mean[0]
        by_noise = [epsilon(selection(gaussian(z)), 1e-5, "rdp") for z in (0.1, 1.0, 5.0, 1e4)]
        assert by_noise == sorted(by_noise, reverse=True)


def test_the_dearest_candidate_counts():
    dear = epsilon(selection(gaussian(5.0)), 1e-5, "rdp")
    assert epsilon(selection(gaussian(9.0), gaussian(5.0), gaussian(5.0)), 1e-5, "rdp") == dear
    assert epsilon(selection(gaussian(5.0), gaussian(9.0)), 1e-5, "rdp") == dear
    split = (*gaussian(9.0), *laplace(8.0), *gaussian(9.0))
    assert epsilon(selection(split), 1e-5, "rdp") == epsilon(selection((*laplace(8.0), *gaussian(9.0, 2))), 1e-5, "rdp")


def test_the_ends():
    nothing = selection(gaussian(math.inf), sampled(0.0, 1.0, 5))
    assert epsilon(nothing, 1e-5, "rdp") == epsilon(selection(gaussian(1.0), count=0), 1e-5, "rdp") == 0
    assert epsilon(selection(gaussian(6.0), gaussian(0.0)), 1e-5, "rdp") == math.inf
    assert best(KINDS["several"], 1e-5)[0] == "rdp"


@each_kind
def test_who_has_no_proof_says_so(entries):
    _, refused = answers(entries, 0.5)
    assert set(refused) >= {"moments", "naive", "pld", "strong"}
    assert all("Selection" in refused[name] for name in ("moments", "naive", "pld", "strong"))


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        (selection(gaussian(1.0), mean=0.5), "mean"),
        (selection(gaussian(1.0), mean=math.inf), "mean"),
        (selection(gaussian(1.0), mean=math.nan), "mean"),
        (selection(gaussian(1.0), shape=-0.5), "shape"),
        (selection(gaussian(1.0), shape=math.inf), "shape"),
        (selection(), "candidate"),
        (selection(gaussian(-1.0)), "noise"),
        (selection(KINDS["gaussian"]), "inside a selection"),
        (selection(threshold(6.0, 1e-7)), "delta of its own"),
        (selection(capped("zcdp", 0.01, delta=1e-7)), "delta of its own"),
        ((Entry(Sampled(0.1, (KINDS["gaussian"][0].event,))),), "inside a sample"),
        (selection(gaussian(1.0), gaussian(1.0, relation="replace_one")), "relation"),
    ],
)
def test_impossible_selections_are_named(entries, named):
    with pytest.raises(BadInput, match=named):
        epsilon(entries, 1e-5, "rdp")


@each_kind
def test_the_ledger_reads_it_back(entries, tmp_path):
    event = entries[0].event
    assert from_json(json.loads(json.dumps(to_json(event)))) == event
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(event, 2)
    assert Ledger.read(tmp_path / "ledger.jsonl").entries() == canonical([Entry(event, 2)])
    for broken in ({"candidates": [[{"event": {"type": "Gaussian", "noise": 1.0}}]]}, {"candidates": 3}):
        with pytest.raises(BadInput, match="wrong fields"):
            from_json({**to_json(event), **broken})


def test_an_account_of_a_renyi_filter_adds_it_up():
    plan = KINDS["several"]
    found = Renyi(11.0).price(plan, BUDGET).loss
    assert found == pytest.approx(float(rdp.rule(plan[0].event)[rdp.WIDE_ORDERS.index(11.0)]))


@pytest.mark.parametrize(("mean", "shape"), [(1.0, 1.0), (2.0, 1.0), (5.0, 1.0), (4.0, 0.0), (6.0, 2.0), (3.0, 0.5)])
def test_the_number_of_runs_has_its_distribution(mean, shape):
    noise, draws = Noise(seed=7), 20_000
    found = np.array([repetitions.runs(float(each), mean, shape) for each in noise.uniform(draws)])
    assert found.min() >= 1
    gamma = repetitions.halting(mean, shape)
    assert repetitions.mean_of(gamma, shape) == pytest.approx(mean, rel=1e-9)
    assert shape == 1 or repetitions.mean_of(gamma, shape) >= mean  # of two neighbouring floats, the one with more runs
    k = np.arange(1, 400)
    ratios = (1 - gamma) * (k + shape) / (k + 1)
    weights = np.concatenate([[1.0], np.cumprod(ratios)])[: len(k)]
    chances = weights / weights.sum()
    assert found.mean() == pytest.approx(mean, abs=5 * max(found.std(), 1e-9) / math.sqrt(draws) + 1e-12)
    if mean > 1:
        last = int(np.argmax(draws * chances < 20))
        seen = [*((found == each).sum() for each in k[:last]), (found > last).sum()]
        expected = [*(draws * chances[:last]), draws * (1 - chances[:last].sum())]
        assert chisquare(seen, expected).pvalue > 1e-6


SCORE = (Entry(Gaussian(40.0)),)


def opened(seed=1, frame=None, mean=4.0, **options):
    """A door whose plan holds a selection over one and two questions about the marginals, charged and ready."""
    data = Sensitive(make_frame(200) if frame is None else frame, make_schema(), Account(BUDGET), seed=seed, **options)

    def event(z):
        plans = ((Entry(Gaussian(z)), *SCORE), (Entry(Gaussian(2 * z), 2), *SCORE))
        return Selection(mean, 1.0, plans)

    noise = data.commit(lambda z: (Entry(event(z)),))
    terms = [Terms(noise=noise, score=SCORE, budget=BUDGET) for _ in range(2)]
    return data, event(noise), terms


def plan_of(place, z):
    return (Entry(Gaussian(z)),) if place == 0 else (Entry(Gaussian(2 * z), 2),)


def asking(log):
    def run(place, door):
        z = door.commit(lambda z: plan_of(place, z))
        door.resolve()
        tables = [door.marginals([("sex",)], z if place == 0 else 2 * z)[0] for _ in range(1 + place)]
        score = float(door.marginals([("ill",)], 40.0)[0][0])
        log.append((place, score, tables))
        return (place, score), score

    return run


def test_the_best_noisy_score_comes_out_and_the_charge_is_one_event():
    numbers = set()
    for seed in range(30):
        data, event, terms = opened(seed)
        log = []
        kept = data.select(event, terms, asking(log))
        assert kept[1] == max(score for _, score, _ in log)
        # Every run draws noise of its own (single numbers may meet on their public grid).
        assert len({(score, *np.ravel(tables)) for _, score, tables in log}) == len(log)
        assert data.account.ledger.entries() == data.account.plan == (Entry(event),)
        numbers.add(len(log))
    assert len(numbers) > 3
    assert 0.99 <= best(data.account.ledger, 1e-5)[1] <= 1.0


def test_a_rehearsal_repeats_and_a_release_does_not():
    def once(seed):
        data, event, terms = opened(seed)
        log = []
        data.select(event, terms, asking(log))
        return [(place, score) for place, score, _ in log]

    assert once(5) == once(5) != once(6)
    assert once(None) != once(None)


@pytest.mark.parametrize("seed", [None, 5])
def test_noise_of_a_run_is_seeded_in_rehearsals_alone_and_no_warning_counts_the_runs(seed):
    data, event, terms = opened(seed)
    seen = []

    def run(place, door):
        # These tests make it an error if it is heard.
        warnings.warn("as many as there are runs", UserWarning, stacklevel=1)
        seen.append((door.rehearsal, door._noise.rehearsal))
        return place, 0.0

    data.select(event, terms, run)
    assert set(seen) == {(seed is not None, seed is not None)}


def test_tables_of_runs_are_told_to_nobody():
    data, event, terms = opened()
    heard, log = [], []
    data._listener = lambda question, answer: heard.append((question, answer))
    data.select(event, terms, asking(log))
    assert log
    assert not heard


def test_no_answer_of_a_run_is_kept_on_disk(tmp_path):
    """Its file would tell how many runs there were, and what those that lost were told."""
    data, event, terms = opened(answers=Answers(tmp_path / "answers"))
    log = []
    data.select(event, terms, asking(log))
    assert log
    (begun,) = _whole(tmp_path / "answers")  # what the fit is
    assert "answer" not in begun[0]


def test_what_a_run_asks_beyond_its_plan_is_refused():
    data, event, terms = opened()

    def dearer(place, door):
        once_too_often = plan_of(place, 1.0)[0].count + 1
        door.commit(lambda z: (Entry(plan_of(place, z)[0].event, once_too_often),))
        door.marginals([("sex",)], terms[place].noise * (1 + place))
        return place, 0.0

    with pytest.raises(BadInput, match="more than the selection was charged"):
        data.select(event, terms, dearer)
    assert data.account.ledger.entries() == (Entry(event),)  # charged all the same

    def twice(place, door):
        z = door.commit(lambda z: plan_of(place, z))
        door.resolve()
        for _ in range(4):
            door.marginals([("sex",)], z if place == 0 else 2 * z)

    def without_a_plan(place, door):
        door.marginals([("sex",)], terms[place].noise)

    def another_selection(place, door):
        door.commit(lambda z: plan_of(place, z))
        door.select(event, terms, twice)

    def all_records(place, door):
        door.account.book(to_revealed())

    for run in (twice, without_a_plan, another_selection, all_records):
        data, event, terms = opened()
        with pytest.raises(BadInput):
            data.select(event, terms, run)


def to_revealed():
    return from_json({"type": "Revealed", "reason": "a test"})


def test_the_charge_is_made_first_and_stays():
    data, event, terms = opened()

    def stopped(place, door):
        assert data.account.ledger.entries() == (Entry(event),)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.select(event, terms, stopped)
    assert data.account.ledger.entries() == (Entry(event),)
    with pytest.raises(BadInput, match="committed plan"):
        data.select(event, terms, asking([]))
    with pytest.raises(BadInput, match="terms"):
        opened()[0].select(event, terms[:1], asking([]))


def test_scores_that_are_no_numbers_lose():
    for seed in range(8):
        data, event, terms = opened(seed, mean=6.0)
        log = []

        def run(place, door, log=log):
            log.append(math.nan if len(log) % 2 == 0 else float(len(log)))
            return log[-1], log[-1]

        kept = data.select(event, terms, run)
        numbers = [each for each in log if not math.isnan(each)]
        assert kept == max(numbers) if numbers else math.isnan(kept)


def test_runs_depend_on_records_through_their_answers_only():
    """Replay: given the answers, a neighbour makes the same runs, and every question moves by at most its bound."""
    frame = make_frame(201)
    for other in (frame, pd.concat([frame.iloc[:-1], make_frame(1, seed=9)], ignore_index=True).iloc[:-2]):
        first, logs = Recorder(), ([], [])
        data, event, terms = opened(3, frame.iloc[:-1], recorder=first)
        data.select(event, terms, asking(logs[0]))
        second = Recorder(of=first)
        data, event, terms = opened(3, other, recorder=second)
        data.select(event, terms, asking(logs[1]))
        assert [each[:2] for each in logs[0]] == [each[:2] for each in logs[1]]
        assert second.movements
        assert all(moved <= sensitivity * (1 + 1e-9) for moved, sensitivity in second.movements)
