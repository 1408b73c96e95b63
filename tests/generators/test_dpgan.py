"""What is the DP-GAN's own: the exact half, the centring, the tables that it starts at, its settings."""

import math

import numpy as np
import pytest
import torch
from clinic import make_frame, make_schema, quick
from sweeps import heavy, sweep

from synthdp import BadInput, Budget, Synthesizer
from synthdp.generators.adversarial import table_generator_network
from synthdp.generators.dpgan import DPGAN
from synthdp.generators.mixture import Mixture
from synthdp.generators.parts.gan_model import NetworkModel, label_place
from synthdp.generators.parts.table_networks import Blocks, Discriminator, Network, gumbel, nearest_distribution, random
from synthdp.ledger.events import Choice, Sampled
from synthdp.schema.codec import Codec

SIZES = (3, 2, 5)


def discriminator(seed=0):
    return Discriminator(sum(SIZES), (8, 6), len(SIZES), random(seed))


def rows(count, seed=1):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, count) for size in SIZES], 1)
    return Blocks(SIZES).one_hot(torch.from_numpy(codes))


def test_one_hot_rows_have_one_in_each_block():
    hot = rows(20)
    for block in Blocks(SIZES).slices:
        assert torch.equal(hot[:, block].sum(1), torch.ones(20))


def test_norms_are_those_of_one_row_at_a_time():
    network, batch = discriminator(), rows(7)
    network.recentre(rows(50, seed=2), 1.0)
    expected = []
    for row in batch:
        network.zero_grad()
        network(row[None]).sum().backward()
        expected.append(math.sqrt(sum(float(p.grad.double().square().sum()) for p in network.parameters())))
    assert network.layer_squares(batch).sum(0).sqrt().tolist() == pytest.approx(expected, rel=1e-5)


def test_recentring_leaves_the_scores_alone():
    network, other, batch = discriminator(0), discriminator(5), rows(9)
    before, before_other = network(batch).detach(), other(batch).detach()
    network.recentre(rows(60, seed=3), 0.7, other)
    assert torch.allclose(network(batch), before, atol=1e-5)
    assert torch.allclose(other(batch), before_other, atol=1e-5)
    assert float(network.get_buffer("centre0").abs().sum()) > 0.1


def test_projection_is_the_nearest_point_of_the_simplex():
    generator = random(4)
    for _ in range(20):
        values = torch.randn(4, generator=generator).double() + 0.3
        found = nearest_distribution(values)
        assert float(found.sum()) == pytest.approx(1.0)
        assert float(found.min()) >= 0
        scaled = values / values.clamp_min(0).sum()
        others = torch.distributions.Dirichlet(torch.ones(4)).sample((2000,)).double()
        assert float((scaled - found).norm()) <= float((scaled - others).norm(dim=1).min()) + 1e-9
    assert nearest_distribution(torch.tensor([-1.0, -2.0])).tolist() == [0.5, 0.5]


def test_gumbel_draws_follow_the_softmax():
    blocks, logits = Blocks((3,)), torch.tensor([0.0, 1.0, 2.0]).repeat(20000, 1)
    shares = torch.bincount(blocks.draw(logits, random(6)).squeeze(1), minlength=3) / 20000
    expected = torch.softmax(logits[0], 0)
    assert (shares - expected).abs().max() < 5 * (0.25 / 20000) ** 0.5
    assert torch.isfinite(gumbel((1000,), random(1))).all()


def test_the_tables_hold_their_share_of_the_precision():
    schema = make_schema()
    for settings, share in (({"start": "label", "tables": 0.3}, 0.3), ({"start": "label"}, 0.25), ({}, 0.5)):
        *tables, steps = DPGAN(**settings, steps=200, batch=40).plan(schema, 2.0)
        assert isinstance(steps.event, Sampled)
        precision = steps.count * (steps.event.rate / steps.event.queries[0].noise) ** 2
        start = sum(
            entry.count * (entry.event.epsilon**2 / 4 if isinstance(entry.event, Choice) else entry.event.noise**-2)
            for entry in tables
        )
        assert start / (start + precision) == pytest.approx(share)
    assert len(DPGAN(start="none").plan(schema, 2.0)) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("start", sweep(["label", "columns", "none", "mixture"], lambda start: start == "label"))
@pytest.mark.parametrize("targets", [heavy((["ill"],)), heavy((["ill", "stage"],)), []])
def test_every_start_fits_with_and_without_a_label(start, targets):
    schema = make_schema(targets=targets)
    synthesizer = Synthesizer(
        "dpgan", schema=schema, budget=Budget(3.0, 1e-5), start=start, steps=15, batch=64, hidden=(16,)
    )
    release = synthesizer.fit(make_frame(400), seed=1)
    schema.validate(release.sample(50, seed=1), "error")
    if start in ("label", "mixture") and targets:
        assert release.sample(4000, seed=2)["ill"].mean() == pytest.approx(make_frame(400)["ill"].mean(), abs=0.1)


@pytest.mark.heavy
def test_label_tables_carry_the_relation_to_the_label():
    frame = make_frame(3000)
    schema = make_schema(units=3000)
    budget = Budget(10.0, 1e-5)
    release = Synthesizer("dpgan", schema=schema, budget=budget, start="label", steps=5, batch=64, tables=0.9).fit(
        frame, seed=1
    )
    sample = release.sample(6000, seed=1)
    gap = frame.groupby("ill")["age"].mean().diff().iloc[-1]
    assert sample.groupby("ill")["age"].mean().diff().iloc[-1] == pytest.approx(gap, rel=0.25)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["dpgan", "kernel_teachers", "pategan"])
def test_a_release_that_says_otherwise_whether_it_began_at_a_mixture_is_refused(name):
    tensors = {}
    for start in ("mixture", "label"):
        made = Synthesizer(quick(name, start=start), schema=make_schema(), budget=Budget(3.0, 1e-5))
        tensors[start] = made.fit(make_frame(100), seed=1).model.tensors()
    with pytest.raises(BadInput, match="the model holds no mixture"):
        quick(name, start="mixture").restore(make_schema(), tensors["label"])
    with pytest.raises(BadInput, match="its settings imply"):
        quick(name, start="label").restore(make_schema(), tensors["mixture"])


def shares_of(table):
    """Of every two values, the label among them."""
    codes = Codec(make_schema(targets=["ill", "stage"])).encode(table)
    return {
        (one, other): np.bincount(codes[:, one] * 50 + codes[:, other], minlength=2500) / len(codes)
        for one in range(codes.shape[1])
        for other in range(one)
    }


@pytest.mark.heavy
def test_a_network_that_begins_at_a_mixture_draws_from_it():
    """Every two columns, where two columns make the mixture's label together: before it has learnt, and by the noisy tables that it is
    held to."""
    frame, schema, rows = make_frame(3000), make_schema(targets=["ill", "stage"]), 60_000
    mixed = Synthesizer(Mixture(cells=0), schema=schema, budget=Budget(math.inf, 1e-5)).fit(frame, seed=1)
    tables, start = table_generator_network.of_mixture(mixed.model, label_place("ill", schema), 3000.0)
    sizes = Codec(schema).sizes
    made = Network(4, 2, (8,), sum(sizes), random(3), len(start.logs))
    made.begin(start.logs, start.ends)
    drawn = NetworkModel(schema, made, tables.labels, label_place("ill", schema), 4)
    wanted, found = shares_of(mixed.sample(rows, seed=1)), shares_of(drawn.sample(rows, seed=2))
    for pair, shares in wanted.items():
        assert np.abs(shares - found[pair]).sum() / 2 < 1.5 * np.sqrt(np.count_nonzero(shares) / rows), pair
    given = [drawn.sample(rows, seed=3)]
    for value, share in zip(sorted(given[0]["ill"].unique()), tables.labels, strict=True):
        assert (given[0]["ill"] == value).mean() == pytest.approx(float(share), abs=0.01)
    blocks = Blocks(sizes)
    assert torch.allclose(
        torch.stack([tables.columns[:, block].sum(1) for block in blocks.slices]), torch.ones(1), atol=1e-5
    )


@pytest.mark.heavy
def test_learned_units_need_a_rate():
    schema = make_schema(units="learn")
    with pytest.raises(BadInput, match=r"generator\.rate"):
        Synthesizer("dpgan", schema=schema, budget=Budget(1.0, 1e-5)).fit(make_frame(50))
    quick = {"rate": 1.0, "steps": 10, "hidden": (8,)}
    release = Synthesizer("dpgan", schema=schema, budget=Budget(1.0, 1e-5), **quick).fit(make_frame(300), seed=0)
    assert release.statement.epsilon <= 1.0
    undeclared = make_schema(units=None)
    Synthesizer("dpgan", schema=undeclared, budget=Budget(1.0, 1e-5), **quick).fit(make_frame(300), seed=0)


def test_a_condition_that_is_no_column_is_refused():
    with pytest.raises(BadInput, match="nowhere"):
        Synthesizer("dpgan", schema=make_schema(), budget=Budget(1.0, 1e-5), condition="nowhere", steps=2).fit(
            make_frame(50)
        )


@pytest.mark.parametrize(
    ("settings", "ignored"),
    [
        ({"rate": 0.1, "batch": 7}, "batch"),
        ({"start": "none", "tables": 0.5}, "tables"),
        ({"start": "none", "table_weight": 1.0}, "table_weight"),
    ],
)
def test_a_setting_that_another_one_overrules_is_refused(settings, ignored):
    with pytest.raises(BadInput, match=f"generator.{ignored} would be ignored"):
        DPGAN(**settings)
