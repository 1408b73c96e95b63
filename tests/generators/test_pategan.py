"""PATE-GAN: its hidden layer, what it asks, what the student learns, and what is refused."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import booleans, make_frame, make_schema, quick
from stopping import files, same, stopped_before_step
from sweeps import heavy

from synthdp import Budget, Schema, Synthesizer
from synthdp.generators.adversarial.pair_kernel import interactions, pair_units
from synthdp.generators.adversarial.table_generator_network import TableGeneratorNetwork
from synthdp.generators.parts.table_networks import Blocks
from synthdp.generators.pategan import student
from synthdp.ledger.events import Entry, Gaussian, Vote
from synthdp.schema.codec import Codec

BUDGET = Budget(3.0, 1e-5)
UNPROTECTED = Budget(math.inf, 1e-5)
NAME = "pategan"


def layer(label, count=200):
    """The hidden layer under even tables, and the columns' sizes."""
    schema = make_schema()
    sizes = Codec(schema).sizes
    blocks, labels = Blocks(sizes), 1 if label is None else sizes[label]
    columns = torch.cat([torch.full((size,), 1 / size) for size in sizes]).expand(labels, -1)
    space = interactions(schema, blocks, label, columns, torch.full((labels,), 1 / labels), degree=2, floor=0.02)
    return pair_units(space, count, linear=label is None, generator=torch.Generator().manual_seed(0)), sizes


def even_rows(sizes, rows, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.stack([rng.integers(0, size, rows) for size in sizes], 1))


@pytest.mark.parametrize("label", [None, 5])
def test_units_see_nothing_in_rows_of_the_tables(label):
    """Where columns are independent as the tables say, every unit has mean 0: what it sees is what goes together."""
    units, sizes = layer(label)
    found = units.of_codes(even_rows(sizes, 40_000))
    assert found.shape == (40_000, units.width)
    assert float((found.mean(0) / found.std(0).clamp_min(1e-6)).abs().max()) < 5 / 200  # standard errors of 40,000 rows
    codes = even_rows(sizes, 40_000)
    codes[:, 0] = codes[:, 1] * (sizes[0] - 1) // (sizes[1] - 1)
    together = units.of_codes(codes)
    assert float((together.mean(0) / together.std(0).clamp_min(1e-6)).abs().max()) > 0.3


def test_a_row_stands_in_the_block_of_its_label():
    units, sizes = layer(5)
    codes = even_rows(sizes, 50)
    found = units.of_codes(codes).reshape(50, sizes[5], -1)
    for row, label in enumerate(codes[:, 5]):
        assert not found[row, 1 - label].any()
        assert found[row, label].any()


def test_the_student_recovers_weights_and_ignores_noise():
    chance = torch.Generator().manual_seed(0)
    hidden = torch.randn(3000, 40, generator=chance, dtype=torch.float64)
    weights = torch.zeros(40, dtype=torch.float64)
    weights[:3] = torch.tensor([0.5, -0.3, 0.2])
    begin, clean = torch.zeros(40, dtype=torch.float64), hidden @ weights
    for deviation, most in ((1e-6, 1e-4), (1.0, 0.13)):
        noisy = clean + deviation * torch.randn(3000, generator=chance, dtype=torch.float64)
        found = student(hidden, noisy, torch.full_like(noisy, deviation), begin)
        assert float((found - weights).norm()) < most  # least squares: sqrt(40 / 3000) = 0.115 at deviation 1
    noise = 30 * torch.randn(3000, generator=chance, dtype=torch.float64)
    found = student(hidden, noise + clean, torch.full_like(noise, 30.0), begin)
    assert float(found.norm()) < 1.5 * float(weights.norm())  # least squares: 3.5
    assert student(hidden, clean * 0, torch.ones(3000, dtype=torch.float64), weights * 0).norm() == 0


@pytest.mark.heavy
@pytest.mark.parametrize("start", ["none", "columns"])
@pytest.mark.parametrize("answers", ["margins", "ranks", "votes"])
def test_without_noise_it_learns_that_two_columns_are_equal(answers, start):
    schema, frame = booleans("equal", 2000)
    settings = {"teachers": 200, "steps": 150, "hidden": (32,), "queries": 1000, "generator_rate": 0.01}
    settings |= {"answers": answers, "start": start}
    sample = Synthesizer(NAME, schema=schema, budget=UNPROTECTED, **settings).fit(frame, seed=1).sample(4000, seed=1)
    assert (sample["a"] == sample["b"]).mean() > 0.7  # the start: 0.5
    assert sample["a"].mean() == pytest.approx(frame["a"].mean(), abs=0.1)


@pytest.mark.parametrize("start", ["label", "columns", "none"])
def test_plans_hold_one_event_a_round(start):
    *tables, votes = quick(NAME, start=start, rounds=3).plan(make_schema(), 2.0)
    assert len(tables) == (start != "none")
    assert votes == Entry(Vote(2.0), 3)
    if tables:
        own = tables[0].event.noise ** -2
        assert isinstance(tables[0].event, Gaussian)
        assert own / (own + 3 / 4) == pytest.approx(0.5)


@pytest.mark.heavy
def test_a_fit_stopped_while_it_learns_loses_neither_answers_nor_steps(tmp_path):
    """Killed in the middle of a round, after its answer: the same model comes out as if it had not been."""

    def fit(folder, *, resume=False):
        synth = Synthesizer(quick(NAME), schema=make_schema(), budget=BUDGET)
        return synth.fit(make_frame(150), seed=3, resume=resume, **files(folder))

    whole = fit(tmp_path / "whole")
    for number in (10, 50):  # generator steps of the first round, and of the second
        with stopped_before_step(TableGeneratorNetwork, number):
            fit(tmp_path / str(number))
        same(fit(tmp_path / str(number), resume=True), whole)


@pytest.mark.parametrize("start", ["label", heavy("mixture")])
def test_the_label_may_be_the_only_column(start):
    schema = Schema.from_dict(
        {"declared_by": "t", "units": 40, "targets": ["ill"], "columns": {"ill": {"kind": "boolean"}}}
    )
    made = Synthesizer(quick("pategan", start=start), schema=schema, budget=Budget(20.0, 1e-5))
    sample = made.fit(pd.DataFrame({"ill": [True] * 30 + [False] * 10}), seed=1).sample(2000, seed=1)
    assert sample["ill"].mean() == pytest.approx(0.75, abs=0.1)
