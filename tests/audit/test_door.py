"""White-box audits at the sealed door (law 27): every kind of question, relation, unit and way of asking, honest and broken."""

import dataclasses
import hashlib

import numpy as np
import pytest
import white_box
from gate import DELTA, GATE_ERROR
from repeated_answers import NUMBERS, Choices, Grids, Numbers, Selections, Thresholds, Votes
from scipy import stats
from sweeps import sweep
from vector_canaries import ACROSS, KINDS, Vectors, audit_in_one_run

from synthdp import BadInput
from synthdp.accounting.analytic_gaussian import gaussian_epsilon
from synthdp.accounting.caps import Filter
from synthdp.noise.noise import Noise
from synthdp.noise.stream import Stream
from synthdp.seal import best_of, vectors
from synthdp.seal import records as store
from synthdp.seal.choice import Chosen
from synthdp.seal.clipping import clipped
from synthdp.seal.door import Sensitive
from synthdp.seal.gradients.question import Gradient
from synthdp.seal.learn import Domain
from synthdp.seal.marginals import Marginals
from synthdp.seal.vectors import GroupMoments

RUNS, TUNING = 2500, 500
SAMPLED = {"rate": 0.3, "steps": 3, "noise": 0.8}
PHASES = {"question": "tables", "rate": 0.05, "phases": 49, "alone": 1, "noise": 1.3}
STOPPED = {"rate": 0.5, "steps": 4, "noise": 2.0, "stopped": 1}
LOST = {"question": "tables", "noise": 1.4, "steps": 2, "capped": True, "stopped": 12}

FULL = [  # attacks that find most of what is claimed
    *(Vectors(question=question, noise=1.0) for question in KINDS),
    *(Vectors(question=question, noise=1.0, records=4) for question in KINDS),
    *(Vectors(question=question, noise=2.0, relation="replace_one") for question in KINDS),
    Vectors(question="tables", noise=2.0, steps=3, capped=True),
    Vectors(noise=4.0, steps=3, capped=True, relation="replace_one"),
    Vectors(**LOST),
    Numbers(noise=1.0),
    Numbers(noise=1.0, question="distance"),
    Grids(noise=1.0),
    Grids(noise=1.0, records=4),
    Grids(noise=2.0, relation="replace_one"),
    Grids(noise=1.4, phases=2),
    Votes(aggregator="Counts", noise=3.5),
    Votes(aggregator="Counts", noise=3.5, records=4, phases=2),
]
QUICK = [attack for attack in FULL[: len(KINDS)] if attack.question not in ("gradient in groups", "together", "joint")]
SLOW = [Numbers(noise=1.0, question=question) for question in NUMBERS if question.startswith("gradient")]
PART = [  # those that find a part, since the rest is where no number of runs shows it, or more runs take too long
    *SLOW,
    *(
        Vectors(question=question, **SAMPLED) for question, kind in KINDS.items() if not kind.ordered
    ),  # of histories there are no samples
    Vectors(**SAMPLED, relation="replace_one", records=4),
    Vectors(**PHASES),
    Vectors(**PHASES, supposed="coins"),  # tests/mutants set the counter back under this one
    Vectors(**STOPPED),
    Vectors(**STOPPED, supposed="coins"),
    Vectors(noise=2.0, selected=5.0),
    Choices(epsilon=1.0, times=1),
    Choices(epsilon=1.0, times=1, records=4, relation="replace_one"),
    Choices(epsilon=1.0, capped=True),
    Votes(aggregator="LNMax", noise=2.0),
    Votes(aggregator="GNMax", noise=2.5),
    Votes(aggregator="Confident", noise=3.5),
    Votes(aggregator="Interactive", noise=3.5),
    *(Votes(aggregator=name, noise=1.0, phases=2, records=4) for name in ("Shares", "ranks", "margins")),
    *(
        Votes(aggregator=name, noise=noise, relation="replace_one")
        for name, noise in {"LNMax": 4.0, "GNMax": 5.0, "Counts": 5.0, "Confident": 5.0, "Interactive": 5.0}.items()
    ),
    *(Votes(aggregator=name, noise=3.5, phases=2) for name in ("LNMax", "GNMax", "Confident", "Interactive")),
    Numbers(noise=2.0, question="distance", relation="replace_one"),
    Numbers(noise=1.0, records=4),
    Numbers(noise=0.7, question="distance", rate=0.5),
    Numbers(noise=1.0, question="distance", rate=0.5, phases=2, coins=True),
    Numbers(noise=0.7, question="size", rate=0.5, phases=2, coins=True),
    Thresholds(noise=1.5, delta=1e-6, relation="replace_one", phases=2),
    Thresholds(noise=1.0, delta=1e-6),
    Thresholds(noise=1.0, delta=1e-6, records=4),
    Thresholds(noise=1.0, delta=1e-6, codes="learned"),
    Thresholds(noise=1.0, delta=1e-6, codes="public", records=4),
]
# Of each kind of question one that is cheap; the coins of a loop stay, since mutants reuse them.
FEW_PARTS = [
    Vectors(**PHASES, supposed="coins"),
    Choices(epsilon=1.0, times=1),
    Votes(aggregator="LNMax", noise=2.0),
    Votes(aggregator="GNMax", noise=2.5),
    Votes(aggregator="Confident", noise=3.5),
    Votes(aggregator="Interactive", noise=3.5),
    Thresholds(noise=1.0, delta=1e-6),
    Thresholds(noise=1.0, delta=1e-6, codes="learned"),
]
NOTHING = [Vectors(**STOPPED, supposed="noise")]  # what would show noise that repeats, and shows nothing else
FEW_RUNS = {"runs": 300, "tuning_runs": 100}
BY_ONE = {  # what is asked one after another
    Selections: {"runs": 300, "tuning_runs": 100},  # each of several runs
    Choices: {"runs": 1000, "tuning_runs": 200},
    Numbers: {"runs": 1000, "tuning_runs": 200},
    **dict.fromkeys(
        ("Shares", "ranks", "margins", *(each for each in NUMBERS if "gradient of" in each or "count" in each)),
        FEW_RUNS,
    ),
}


def audited(attack, drawn=None, **options):
    by_one = BY_ONE.get(getattr(attack, "aggregator", getattr(attack, "question", "")), BY_ONE.get(type(attack), {}))
    options = {"runs": RUNS, "tuning_runs": TUNING, **by_one, **options}
    if type(attack) is Vectors and attack.phases > 1:  # what tells lies far out
        options |= {"runs": 6000, "tuning_runs": 2000}
    return white_box.audit(attack, DELTA, gate_error=GATE_ERROR, drawn=drawn, **options)


def name_of(attack):
    return attack.name


def reach(attack):
    """How far the means of the pair's answers lie apart, over how far they may."""
    if getattr(attack, "relation", "") != "replace_one":
        return 1.0
    return ACROSS if isinstance(attack, Grids) else KINDS[attack.question].reach


@pytest.mark.parametrize("attack", sweep(FULL, QUICK.__contains__), ids=name_of)
def test_the_door_keeps_its_claim_and_the_audit_comes_near_it(attack):
    found = audited(attack)
    assert not found.verdict.contradicted
    assert found.verdict.epsilon <= found.epsilon
    assert found.gaussian_epsilon >= 0.5 * gaussian_epsilon(reach(attack) * found.claim.mu, DELTA)
    assert found.word == "stands"


@pytest.mark.parametrize(
    "attack",
    sweep([*PART, Selections(noise=1.0, mean=2.0)], FEW_PARTS.__contains__),
    ids=name_of,
)
def test_the_door_keeps_its_claim_and_the_audit_finds_a_part(attack):
    found = audited(attack)
    assert not found.verdict.contradicted
    assert found.verdict.epsilon <= found.epsilon
    assert found.word == "stands"


@pytest.mark.heavy
@pytest.mark.parametrize("attack", NOTHING, ids=name_of)
def test_the_door_draws_other_noise_after_a_stop(attack):
    assert not audited(attack).verdict.contradicted


# Of `SLOW` one stands for all here; `make audit` takes each.
@pytest.mark.parametrize("attack", sweep([*FULL, SLOW[0]], QUICK.__contains__), ids=name_of)
def test_half_the_noise_is_found_whatever_is_asked(attack):
    more = {} if reach(attack) == 1 else {"runs": 3 * RUNS}
    if (
        attack in SLOW
    ):  # with 300 runs of evidence 1 and 3 deviations apart, 12 of 300 verdicts found nothing; with 600 none
        more = {"runs": 700, "tuning_runs": 200}
    assert audited(attack, attack.halved(), **more).word == "contradicted"


def halve(question):
    def broken(monkeypatch):
        honest = question.noised

        def half(own, bounded, noise):
            return honest(dataclasses.replace(own, noise=own.noise / 2), bounded, noise)

        monkeypatch.setattr(question, "noised", half)

    return broken


def unclip(monkeypatch):
    honest = Gradient.bounded
    monkeypatch.setattr(
        Gradient, "bounded", lambda own, records: honest(dataclasses.replace(own, clip=4 * own.clip), records)
    )


def take_all(monkeypatch):
    def everyone(own, records, rate):
        return records

    monkeypatch.setattr(Sensitive, "_sampled", everyone)


def toss_again_after_a_stop(monkeypatch):
    """A resumed fit counts its samples from the step of its loop on, under the keys of the fit that was stopped."""

    def tossed(own, keys, step):
        words = [hashlib.blake2b(b"%d %d" % (key, step), digest_size=8).digest() for key in keys]
        return np.frombuffer(b"".join(words), np.uint64)

    monkeypatch.setattr(Noise, "coins", tossed)
    monkeypatch.setattr(Sensitive, "_seal_key", lambda _: bytes(32))
    honest = Sensitive.commit

    def commit(own, plan):
        noise = honest(own, plan)
        own._tosses = 0 if own._resumed is None else int(own._resumed.facts["step"])
        return noise

    monkeypatch.setattr(Sensitive, "commit", commit)


def repeat_noise(monkeypatch):
    def turn(own, place):
        own._stream = Stream(bytes(32), b"always")

    def toss_again(own, keys, step):
        return np.random.default_rng().integers(0, 2**64, len(keys), np.uint64)

    monkeypatch.setattr(Noise, "turn", turn)
    monkeypatch.setattr(Noise, "coins", toss_again)


def keep_every_record(monkeypatch):
    def bounded(member, names, key, most):
        return np.argsort(member, kind="stable")

    monkeypatch.setattr(store, "_bounded", bounded)


def clip_each_record(monkeypatch):
    def summed(records, group):
        return clipped(group.vectors(records.encoded()), group.clip).sum(axis=0)

    monkeypatch.setattr(vectors, "clipped_sum", summed)


def count_the_cap_anew(monkeypatch):
    def admits(own, event, count=1):
        return True

    monkeypatch.setattr(Filter, "left", property(lambda own: own._limit))
    monkeypatch.setattr(Filter, "admits", admits)


def forget_what_was_lost(monkeypatch):
    monkeypatch.setattr(Sensitive, "spend_lost", lambda own, _: own._answers.lost())


def tell_of_every_run(monkeypatch):
    """The mean of all runs' answers comes out."""

    def best(event, noise, opened, run):
        told = [run(0, opened(0))[0] for _ in range(round(event.mean))]
        return np.mean([each[0] for each in told], axis=0), told[0][1] / len(told) ** 0.5, 0

    monkeypatch.setattr(best_of, "best", best)


def forget_records(monkeypatch):
    monkeypatch.setattr(Chosen, "sensitivity", property(lambda own: own.score.moves))


def quieten_votes(monkeypatch):
    plain = Noise.added_laplace, Noise.added
    monkeypatch.setattr(Noise, "added_laplace", lambda own, counts, scale: plain[0](own, counts, scale / 4))
    monkeypatch.setattr(Noise, "added", lambda own, values, deviation: plain[1](own, values, deviation / 4))


def lower_the_threshold(monkeypatch):
    monkeypatch.setattr(Domain, "threshold", 1.0)


def set_the_counter_back(monkeypatch):
    """Each loop counts its samples from 0, and the stream that would refuse a place twice forgets."""
    honest = Sensitive.steps

    def steps(own, *arguments, **options):
        own._tosses, own._noise._tossed = 0, -1
        yield from honest(own, *arguments, **options)

    monkeypatch.setattr(Sensitive, "steps", steps)


BROKEN = {
    "half the noise on a gradient": (halve(Gradient), Vectors(noise=1.0)),
    "half the noise on samples": (halve(Gradient), Vectors(**SAMPLED)),
    "half the noise on tables": (halve(Marginals), Vectors(question="tables", noise=1.0)),
    "half the noise on moments": (halve(GroupMoments), Vectors(question="group moments", noise=1.0)),
    "no clip": (unclip, Vectors(noise=1.0)),
    "no sampling": (take_all, Vectors(rate=0.1, noise=0.8, steps=3)),
    "coins of a loop again in the next": (set_the_counter_back, Vectors(**PHASES, supposed="coins")),
    "coins again after a stop": (
        toss_again_after_a_stop,
        Vectors(question="tables", rate=0.1, steps=16, stopped=14, noise=0.9, supposed="coins"),
    ),
    "noise again after a stop": (repeat_noise, Vectors(**STOPPED, supposed="noise")),
    "records of a unit beyond those that count": (keep_every_record, Vectors(question="tables", noise=1.0, records=4)),
    "a clip for each record": (clip_each_record, Vectors(question="sums", noise=1.0, records=4)),
    "a cap that is counted anew": (count_the_cap_anew, Vectors(noise=0.7, steps=2, capped=True)),
    "lost answers under a cap that are not spent": (forget_what_was_lost, Vectors(**LOST)),
    "a selection that tells of every run": (tell_of_every_run, Vectors(noise=4.0, selected=100.0)),
    "a choice that forgets a unit's records": (forget_records, Choices(epsilon=1.0, behind=0.5, times=1, records=4)),
    "votes of little noise (LNMax)": (quieten_votes, Votes(aggregator="LNMax", noise=2.0)),
    "votes of little noise (GNMax)": (quieten_votes, Votes(aggregator="GNMax", noise=2.5)),
    "a threshold without its margin": (lower_the_threshold, Thresholds(noise=1.0, delta=1e-6)),
}


FEW = {  # that `make test` takes
    "half the noise on tables",
    "no clip",
    "coins of a loop again in the next",
    "records of a unit beyond those that count",
    "a clip for each record",
    "votes of little noise (LNMax)",
    "a threshold without its margin",
}
SUBTLE = {"a cap that is counted anew", "coins again after a stop"}  # which more runs show surely


@pytest.mark.parametrize("how", sweep(BROKEN, FEW.__contains__))
def test_a_broken_door_is_found(monkeypatch, how):
    broken, attack = BROKEN[how]
    broken(monkeypatch)
    assert audited(attack, **({"runs": 3 * RUNS} if how in SUBTLE else {})).word == "contradicted"


class Early:
    """Replicas of which the first ones alone give everything away."""

    name, plan = "early", Numbers(noise=1.0).plan

    def sides(self, runs):
        assert runs == 150
        early = np.repeat([1.0, 0.0], [50, 100])
        return -early, early


def test_runs_that_chose_the_thresholds_do_not_judge():
    found = white_box.audit(Early(), DELTA, runs=100, tuning_runs=50)
    assert (found.verdict.runs, found.tuning_runs) == (100, 50)
    assert found.word == "no power"


def test_a_claim_for_other_neighbours_is_found():
    assert audited(Vectors(noise=2.0), Vectors(noise=2.0, relation="replace_one")).word == "contradicted"


@pytest.mark.parametrize("supposed", ["nothing", "coins"])
def test_the_evidence_is_the_log_likelihood_ratio(supposed):
    attack = Vectors(noise=0.7, rate=0.2, steps=2, phases=2, supposed=supposed)
    seen = np.array([[0.3, -1.0], [1.4, 0.2], [0.1, 0.0], [0.5, 2.0]])
    inside, outside = (stats.norm.pdf(seen, mean, 0.7) for mean in (1, 0))
    ratios = ((0.2 * inside + 0.8 * outside) / outside).prod(axis=0)
    if supposed == "coins":  # places 0 and 1, of both phases; as likely as none
        inside, outside = inside[:2] * inside[2:], outside[:2] * outside[2:]
        ratios = ratios + ((0.2 * inside + 0.8 * outside) / outside).prod(axis=0)
    expected = np.log(ratios) - (np.log(2) if supposed == "coins" else 0)
    np.testing.assert_allclose(attack.evidence(seen, np.full(4, 0.7), np.array([0, 1, 0, 1])), expected)


@pytest.mark.parametrize("question", sweep(KINDS, lambda question: question != "gradient in groups"))
@pytest.mark.parametrize("records", [1, 4])
def test_canaries_reach_the_answer_clipped_and_alone(question, records):
    coins = np.array([True, False, True])
    seen, _, _ = Vectors(question=question, noise=1e-6, steps=2, records=records).answers(coins)
    np.testing.assert_allclose(seen, np.tile(coins, (2, 1)), atol=3e-4)
    replaced = Vectors(question=question, noise=1e-6, records=records, relation="replace_one")
    reach = KINDS[question].reach
    np.testing.assert_allclose(replaced.answers(coins)[0], [np.where(coins, reach, -reach)], atol=3e-4)


def test_a_fit_that_is_stopped_loses_an_answer_and_does_it_again():
    values, noises, places = Vectors(noise=1.0, rate=0.5, steps=4, stopped=1).answers(np.array([True, False]))
    assert places.tolist() == [0, 1, 1, 2]  # the second is lost, charged, and done again in place of the fourth
    assert values.shape == (4, 2)
    assert noises.tolist() == [1.0] * 4


def test_a_fit_that_is_stopped_under_a_cap_has_spent_the_answers_that_it_lost():
    values, noises, _ = Vectors(question="tables", noise=1.0, steps=2, capped=True, stopped=2).answers(np.ones(4, bool))
    assert len(values) - 3 in (1, 4)  # the first is given again, as it was; two are lost, and then the rest is asked
    np.testing.assert_allclose(1 / noises[1:3] ** 2, [1 / 2, 1 / 4])
    assert (1 / noises**2).sum() == pytest.approx(2.0)


def test_one_run_with_many_canaries_keeps_the_claim_and_shows_some_of_it():
    found = audit_in_one_run(Vectors(noise=1.0), 1000, DELTA, gate_error=GATE_ERROR)
    assert not found.contradicted
    assert 0.8 <= found.epsilon <= found.claimed


def test_one_run_shows_a_claim_that_is_far_too_small():
    """Noise 6 is claimed, 1 is drawn. (Delta is small since the theorem adds 2 x canaries x delta.)"""
    attack, drawn = (Vectors(question="tables", noise=noise) for noise in (6.0, 1.0))
    assert audit_in_one_run(attack, 4000, 1e-9, gate_error=GATE_ERROR, drawn=drawn).word == "contradicted"


def test_attacks_that_make_no_sense_are_refused():
    for wrong in (
        {"question": "nosuch"},
        {"supposed": "nosuch"},
        {"capped": True, "rate": 0.5},
        {"capped": True},
        {"selected": 2.0, "steps": 2},
    ):
        with pytest.raises(BadInput):
            Vectors(noise=1.0, **wrong)
    with pytest.raises(BadInput):
        Choices(epsilon=1.0, capped=True, phases=2)
