"""Law 35: one counter of sampling coins for a fit, never set back; a sample is drawn after its charge, and once."""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sweeps import sweep

from synthdp import BadInput, Budget, Schema, Synthesizer, accounting
from synthdp.generators import Traits
from synthdp.ledger.events import Entry, Gaussian, Sampled, scoped
from synthdp.noise.noise import Noise
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.resume import Checkpoint
from synthdp.seal.vectors import Group

ANY = Budget(math.inf, 1e-5)
UNITS, RATE = 64, 0.5
NAMES = [f"u{unit}" for unit in range(UNITS)]
FRAME = pd.DataFrame({"who": NAMES})
SCHEMA = Schema.from_dict(
    {"declared_by": "the tests", "units": UNITS, "columns": {"who": {"kind": "categorical", "categories": NAMES}}}
)
EVENT = Sampled(RATE, (Gaussian(0.0),))


def sealed(count, events=(EVENT,), seed=0):
    data = Sensitive(FRAME, SCHEMA, Account(ANY), seed=seed)
    data.commit(lambda _: tuple(Entry(event, count) for event in events))
    return data


def members(data, rate=RATE):
    """Who was in the sample, as a bitmap of the units: asked without noise."""
    with data.sample(rate) as batch:
        found = batch.sum(lambda codes: np.eye(UNITS)[codes[:, 0]], UNITS, 1.0, 0.0)
    return tuple((found > 0.5).tolist())


def nothing():
    return {}


def check_independent(samples):
    """No two alike, and any two agree about as often as independent coins do: within 5.5 deviations, for all pairs."""
    assert len(set(samples)) == len(samples)
    table = np.array(samples)
    for first in range(len(table)):
        agreed = (table[first] == table[first + 1 :]).mean(axis=1)
        assert (abs(agreed - 0.5) < 5.5 * 0.5 / UNITS**0.5).all()


def test_two_loops_of_one_event_draw_independent_samples():
    data = sealed(16)
    samples = [members(data) for _ in range(2) for _ in data.steps(EVENT, 8, nothing)]
    assert len(samples) == 16
    check_independent(samples)


def test_two_loops_of_different_events_draw_independent_samples():
    other = Sampled(RATE, (Gaussian(0.0), Gaussian(0.0)))
    data = sealed(8, (EVENT, other))
    samples = [members(data) for _ in data.steps(EVENT, 8, nothing)]
    group = Group(lambda codes: np.eye(UNITS)[codes[:, 0]], UNITS, 1.0, 0.0)
    for _ in data.steps(other, 8, nothing):
        with data.sample(RATE) as batch:
            samples.append(tuple((batch.sums([group, group])[0] > 0.5).tolist()))
    check_independent(samples)


def test_single_samples_before_between_and_after_loops_are_independent_of_them():
    data = sealed(12)
    samples = [members(data), members(data)]
    samples += [members(data) for _ in data.steps(EVENT, 4, nothing)]
    samples += [members(data)]
    samples += [members(data) for _ in data.steps(EVENT, 4, nothing)]
    samples += [members(data)]
    check_independent(samples)


def test_several_samples_a_step_are_independent():
    data = sealed(16)
    samples = [members(data) for _ in data.steps(EVENT, 8, nothing, times=2) for _ in range(2)]
    check_independent(samples)


# ---- Samples of a fixed size.


SHARE = 1 / 8
FIXED = Sampled(SHARE, (Gaussian(0.0),), "without_replacement")


def sealed_fixed(count, relation="replace_one", units=UNITS, seed=0):
    budget, schema = Budget(math.inf, 1e-5, relation=relation), dataclasses.replace(SCHEMA, units=units)
    data = Sensitive(FRAME, schema, Account(budget), seed=seed)
    data.commit(lambda _: (Entry(FIXED, count),))
    return data


def fixed_members(data):
    with data.sample(SHARE, "without_replacement") as batch:
        return batch.sum(lambda codes: np.eye(UNITS)[codes[:, 0]], UNITS, 1.0, 0.0) > 0.5


def test_samples_without_replacement_have_one_size_and_each_unit_as_often():
    steps = 512
    data = sealed_fixed(steps)
    samples = np.array([fixed_members(data) for _ in data.steps(FIXED, steps, nothing)])
    assert (samples.sum(1) == SHARE * UNITS).all()
    deviation = (SHARE * (1 - SHARE) / steps) ** 0.5
    assert (abs(samples.mean(0) - SHARE) < 4.5 * deviation).all()  # 64 units: one false alarm in 2,000
    both = (samples.astype(float).T @ samples)[~np.eye(UNITS, dtype=bool)] / steps
    pair = SHARE * (SHARE * UNITS - 1) / (UNITS - 1)
    assert abs(both - pair).max() < 6 * (pair / steps) ** 0.5
    assert {entry.event for entry in data.account.ledger.entries()} == {
        dataclasses.replace(FIXED, relation="replace_one", queries=(Gaussian(0.0, relation="replace_one"),))
    }


@pytest.mark.parametrize("wrong", [{"relation": "add_remove"}, {"units": UNITS + 1}, {"units": None}])
def test_samples_without_replacement_need_the_exact_public_number_of_units(wrong):
    with pytest.raises(
        BadInput,
        match="relation=replace_one, one process, and `units:` in the schema equal to the table's number of units",
    ):
        sealed_fixed(1, **wrong)


@pytest.mark.parametrize("rate", [1.5 / UNITS, 0.3, 0.9 / UNITS])
def test_a_sample_of_a_fixed_size_is_never_larger_than_it_is_charged(rate):
    """Rounded up, 1.5 units of 64 would be 2: a third more than the accountant was told."""
    data = Sensitive(FRAME, SCHEMA, Account(Budget(math.inf, 1e-5, relation="replace_one")), seed=0)
    with pytest.raises(BadInput, match="a whole number of units"):
        data.commit(lambda _: (Entry(dataclasses.replace(FIXED, rate=rate), 1),))
    assert data.account.ledger.entries() == ()


def test_an_unknown_sampler_is_refused():
    with pytest.raises(BadInput, match="sampler must be one of"), sealed(1).sample(RATE, "shuffled"):
        pass


def test_noise_for_samples_without_replacement_is_solved():
    budget = Budget(3.0, 1e-5, relation="replace_one")
    event = Sampled(SHARE, (Gaussian(1.0),), "without_replacement")
    noise = Account(budget).commit(lambda z: (Entry(dataclasses.replace(event, queries=(Gaussian(z),)), 10),))
    plan = (Entry(dataclasses.replace(event, queries=(Gaussian(noise),)), 10),)
    name, epsilon = accounting.best(scoped(plan, relation="replace_one", unit="record"), 1e-5)
    assert name == "analytic_moments"
    assert 2.98 < epsilon <= 3.0


def test_a_place_is_tossed_for_once():
    noise, keys = Noise(seed=1), np.arange(8, dtype=np.uint64)
    noise.coins(keys, 3)
    for place in (3, 2, 0):
        with pytest.raises(BadInput, match="sampled before"):
            noise.coins(keys, place)
    noise.turn(5)  # other noise does not bring old coins back
    with pytest.raises(BadInput, match="sampled before"):
        noise.coins(keys, 3)


def test_no_sample_is_drawn_that_was_not_charged():
    """Whatever a caller's loop does, samples never outnumber the sampled charges in the ledger."""
    data = sealed(2)
    members(data)
    with pytest.raises(RuntimeError, match="not been charged"):
        data._answer(data.tables([("who",)], 0.0), EVENT)
    members(data)
    assert data.account.ledger.entries() == (Entry(EVENT, 2),)


@dataclass(frozen=True)
class Walked:
    schema: Schema
    samples: np.ndarray

    def tensors(self):
        return {"samples": self.samples}


@dataclass(frozen=True, kw_only=True)
class TwoPhases:
    """A generator in miniature: two loops of one event; it learns who was in each sample."""

    name: ClassVar[str] = "two_phases"
    traits: ClassVar[Traits] = Traits()
    told: ClassVar[list] = []  # every sample of every process, also of those whose model never came

    def plan(self, schema, noise):  # noqa: ARG002
        return (Entry(EVENT, 64),)

    def validate(self, schema, budget):  # noqa: ARG002
        return

    def fit(self, data, *, seed=None, progress=None):  # noqa: ARG002
        data.commit(lambda z: self.plan(data.declared, z))
        schema, saved = data.resolve(), data.restored()
        rows = [] if saved is None else list(saved["rows"])

        def state():
            return {"rows": np.array(rows, np.int64).reshape(-1, UNITS)}

        for _ in range(2):
            for _ in data.steps(EVENT, 32, state):
                rows.append(np.array(members(data), np.int64))
                self.told.append(tuple(rows[-1].tolist()))
                assert data.account.ledger.samples >= len(self.told)  # every answer that there ever was is charged
        return Walked(schema, np.array(rows))


class Stopped(Exception):
    pass


def fit(folder, *, resume=False):
    synth = Synthesizer(TwoPhases(), schema=SCHEMA, budget=ANY, trust=__name__)
    files = {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}
    return synth.fit(FRAME, seed=3, resume=resume, **files)


# Blocks kept before the stop: in the first loop, at its end, in the second
@pytest.mark.parametrize("after", sweep([1, 20, 33, 40], lambda after: after == 33))
def test_a_fit_resumed_in_either_loop_tosses_new_coins_for_what_it_does_again(tmp_path, monkeypatch, after):
    TwoPhases.told.clear()
    plain, saves = Checkpoint.save, 0

    def save(self, facts, state):
        nonlocal saves
        saves += 1
        if saves == after + 1:
            raise Stopped  # the block was asked, and its state is lost
        plain(self, facts, state)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save)
        with pytest.raises(Stopped):
            fit(tmp_path)
    release = fit(tmp_path, resume=True)
    check_independent(TwoPhases.told)
    lost = len(TwoPhases.told) - len(release.model.samples)
    assert lost >= 1 or after == 33  # 33: stopped before the first step of the second loop
    assert len(TwoPhases.told) == 64  # what was lost stays charged, so that many fewer are done
    assert release.ledger.entries() == (Entry(EVENT, 64),)
