"""PATE-GAN as published: what it asks, what it learns, and what is refused."""

import math

import numpy as np
import pandas as pd
import pytest
from clinic import booleans, make_frame, make_schema, quick

from synthdp import BadInput, Budget, Schema, Synthesizer, accounting
from synthdp.accounting.caps import Filter
from synthdp.api import answers_beside
from synthdp.budgets import AccountFile
from synthdp.generators.pategan_original import PATEGANOriginal
from synthdp.ledger.events import Entry, Gaussian, Vote
from synthdp.ledger.ledger import Ledger
from synthdp.seal.resume import Checkpoint

BUDGET = Budget(3.0, 1e-5)
NAME = "pategan_original"


UNPROTECTED = Budget(math.inf, 1e-5)


@pytest.mark.heavy  # both columns' game and that of three: a minute
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("what", ["equal", "three"])
def test_without_noise_it_learns_booleans(what, seed):
    """By the defaults; a generator that learns faster ends at a few rows, which teachers call fakes, in one seed of three."""
    schema, frame = booleans(what, 2000)
    sample = Synthesizer(NAME, schema=schema, budget=UNPROTECTED).fit(frame, seed=seed).sample(4000, seed=1)
    for name in frame:
        assert sample[name].mean() == pytest.approx(frame[name].mean(), abs=0.05)
    if what == "equal":
        assert (sample["a"] == sample["b"]).mean() > 0.95


@pytest.mark.heavy
def test_teachers_that_learn_their_records_by_heart_call_every_row_a_fake():
    """What `teacher_decay` is for: without it the student sees one class."""
    schema, frame = many_columns(2000)
    shares = {}
    for decay in (0.03, 0.0):
        said = []

        def seen(step, steps, figures, said=said):
            said.append(figures["labelled real"])

        settings = {"rounds": 100, "teachers": 20, "teacher_decay": decay, "hidden": (32,)}
        Synthesizer(NAME, schema=schema, budget=UNPROTECTED, **settings).fit(frame, seed=1, progress=seen)
        shares[decay] = np.mean(said[len(said) // 2 :])
    assert shares[0.0] < 0.02
    assert shares[0.03] > 0.04


def many_columns(rows):
    """Eight columns of eight categories, which are those of one of three hidden classes."""
    rng = np.random.default_rng(0)
    hidden, columns = rng.integers(0, 3, rows), [f"c{place}" for place in range(8)]
    chances = rng.dirichlet(np.full(8, 0.5), (8, 3)).cumsum(2)
    codes = (chances[:, hidden] < rng.random((8, rows, 1))).sum(2).clip(max=7)
    names = [f"v{code}" for code in range(8)]
    declared = {name: {"kind": "categorical", "categories": names} for name in columns}
    frame = pd.DataFrame(
        {name: pd.Categorical.from_codes(own, names) for name, own in zip(columns, codes, strict=True)}
    )
    return Schema.from_dict({"units": rows, "declared_by": "the tests", "columns": declared}), frame


def test_teachers_are_the_papers_without_noise_and_many_where_it_calls_for_them():
    """A public rule: of the declared number of units and of the noise."""
    settings, schema = PATEGANOriginal(), make_schema(units=40_000)
    assert [settings.teachers_of(schema, noise) for noise in (0.0, 5.0, 50.0, 1e9)] == [40, 40, 200, 800]
    assert settings.teachers_of(make_schema(units=3), 1.0) == 2
    assert PATEGANOriginal(teachers=7).teachers_of(schema, 50.0) == 7


def test_few_labels_are_spread_over_rounds():
    """Below 30 rounds a step asks for fewer labels, down to one; more noise never buys more of them."""
    settings, schema = PATEGANOriginal(), make_schema(units=20_000)
    sizes = [settings.student_steps_at(schema, noise) for noise in np.geomspace(50, 1000, 200)]
    votes = [math.prod(size) for size in sizes]
    assert votes == sorted(votes, reverse=True)
    assert all(steps >= 150 for steps, each in sizes if each > 1)
    assert sizes[0] == (2000, 128)
    assert votes[-1] == 1


def test_a_smaller_budget_buys_fewer_labels_and_not_noisier_ones():
    """Where rounds are not given: at ten times the price per label the noise hardly grows."""
    settings, schema = PATEGANOriginal(), make_schema(units=20_000)
    noises = [accounting.calibrate(lambda z: settings.plan(schema, z), Budget(each, 1e-6), "rdp") for each in (1, 3)]
    labels = [settings.plan(schema, noise)[0].count for noise in noises]
    assert labels[0] < labels[1] / 4
    assert noises[0] < 1.5 * noises[1]
    assert settings.plan(schema, 0.0)[0].count == 400 * 5 * 128


@pytest.mark.parametrize("start", ["label", "columns", "none"])
def test_plans_hold_one_event_a_labelled_row(start):
    settings = quick(NAME, start=start)
    *tables, votes = settings.plan(make_schema(), 2.0)
    assert len(tables) == (start != "none")
    assert votes == Entry(Vote(2.0, "laplace"), 384)
    if tables:
        own = tables[0].event.noise ** -2
        assert isinstance(tables[0].event, Gaussian)
        assert own / (own + votes.count / 4) == pytest.approx(0.5)


@pytest.mark.heavy
@pytest.mark.parametrize("lost", [0, 1, 3])
def test_answers_lost_before_a_checkpoint_count_when_gamma_is_given(lost, tmp_path):
    """Law 23: what was bought and lost is stated, takes rounds away, and is charged to the account as well."""

    class Stop(Exception):
        pass

    settings = {"gamma": 0.01, "queries": 10, "teachers": 4, "hidden": (4,), "student_steps": 1}
    schema = make_schema(units="learn")
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint.safetensors"}

    def fit(stop_at, *, resume):
        plain, saves = Checkpoint.save, 0

        def save(self, facts, state):
            nonlocal saves
            if saves == stop_at:
                raise Stop
            plain(self, facts, state)
            saves += 1

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Checkpoint, "save", save)
            synth = Synthesizer(PATEGANOriginal(**settings), schema=schema, budget=Budget(1.0, 1e-5))
            return synth.fit(make_frame(600), resume=resume, account=tmp_path / "account", **files)

    for turn in range(lost):
        with pytest.raises(Stop):
            fit(0, resume=turn > 0)
        answers_beside(files["checkpoint"]).unlink()  # the kept answer is lost, too
    with pytest.raises(Stop):
        fit(1, resume=lost > 0)
    release = fit(99, resume=True)
    assert release.statement.epsilon <= 1.0
    assert accounting.best(release.statement.events, 1e-5)[1] <= 1.0
    ledger = Ledger.read(tmp_path / "ledger.jsonl")
    bought = {type(entry.event): entry for entry in ledger.booked()}
    assert bought[Gaussian].count == 1 + lost
    assert bought[Vote].count % 10 == 0
    if lost:  # the plan was made anew, under the cap that the first line fixed: all of that is charged
        assert release.statement.events == (Entry(ledger.cap),)
        more = Filter(ledger.cap)
        for entry in ledger.booked():
            more.spend(entry.event, entry.count)
        assert not more.admits(bought[Vote].event, 10)
    else:
        more = Entry(bought[Vote].event, bought[Vote].count + 10)
        assert accounting.best((bought[Gaussian], more), 1e-5)[1] > 1.0
    standing = AccountFile(path=tmp_path / "account").read()
    price = standing.filter.price(tuple(release.statement.events), Budget(1.0, 1e-5))
    assert standing.spent.loss >= price.loss * (1 - 1e-9)


@pytest.mark.heavy
def test_a_given_gamma_buys_as_many_rounds_as_the_budget_does(tmp_path):
    """By the bound that does not depend on the votes: one round more would exceed it."""
    settings = PATEGANOriginal(gamma=0.02, queries=5, student_steps=1, hidden=(8,), teachers=3)
    synth = Synthesizer(settings, schema=make_schema(), budget=Budget(1.0, 1e-5))
    release = synth.fit(make_frame(60), seed=0, ledger=tmp_path / "ledger.jsonl")
    (entry,) = Ledger.read(tmp_path / "ledger.jsonl").entries()
    assert entry.event == Vote(25.0, "laplace")
    assert entry.count % 5 == 0
    assert release.statement.epsilon <= 1.0
    assert accounting.best((Entry(entry.event, entry.count + 5),), 1e-5)[1] > 1.0
    dear = PATEGANOriginal(gamma=2.0, queries=50, student_steps=1)
    with pytest.raises(BadInput, match=r"generator\.gamma fixes the noise.*above the budget's 1"):
        Synthesizer(dear, schema=make_schema(), budget=Budget(1.0, 1e-5)).fit(make_frame(60), seed=0)
    with pytest.raises(BadInput, match=r"generator\.rounds"):
        Synthesizer(dear, schema=make_schema(), budget=Budget(math.inf, 1e-5)).fit(make_frame(60), seed=0)
