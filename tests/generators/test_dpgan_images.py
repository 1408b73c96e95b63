"""What is the DP-GAN's own on images: the exact half, the clip of generated pictures, a game that was stopped or diverged."""

import math

import numpy as np
import pytest
import torch
from clinic import make_pictures, picture_schema, quick
from gradient_sums import per_unit_reference
from stopping import files, play, same, same_tensors, stopped_after_saving
from sweeps import sweep

from synthdp import BadInput, Budget, Synthesizer, load
from synthdp.generators.adversarial.clipping_strategies import STRATEGIES, Clipper
from synthdp.generators.dpgan_images import DPGANImages
from synthdp.generators.images.image_networks import Critic, principal_axes
from synthdp.generators.images.pixel_rows import PixelLayout, in_range
from synthdp.generators.parts.table_networks import random
from synthdp.ledger.events import Gaussian, Sampled
from synthdp.ledger.ledger import Ledger
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.gradients import MARGIN
from synthdp.seal.replay import Recorder

BUDGET = Budget(3.0, 1e-5)
MODES = {"basis": "dpgan_images", "conv": "dpgan_images:conv", "mlp": "dpgan_images:mlp"}
LAYOUT = PixelLayout(shape=(6, 7, 2), start=1, columns=85, label=0, labels=3)


def settings(mode, **changes):
    return quick(MODES[mode], "images", **changes)


def critic(mode, seed=0):
    lens = 5 if mode == "basis" else None
    network = Critic(LAYOUT, mode == "conv", (4, 3) if mode == "conv" else (8, 6), lens, random(seed))
    if lens:
        network.focus(torch.randn(LAYOUT.pixels, lens, generator=random(3)))
    return network


def rows(count, seed=1):
    codes = np.random.default_rng(seed).integers(0, 256, (count, 85))
    codes[:, 0] %= 3
    return LAYOUT.rows(torch.from_numpy(codes))


def game(generator, frame, seed=5, answers=None):
    schema = picture_schema()
    data = Sensitive(frame, schema, Account(BUDGET, Ledger()), seed=seed, recorder=answers)
    terms = generator.terms(schema, data.commit(lambda z: generator.plan(schema, z)))
    data.resolve()
    return generator.game(data, terms, random(seed))


@pytest.mark.heavy
@pytest.mark.parametrize("mode", MODES)
def test_the_fake_half_does_not_see_a_record(mode):
    """Law 14: given the answers, another record leaves the gradient of the fake half bit-identical."""
    answers, found = Recorder(), []
    frame = make_pictures(80)
    other = make_pictures(80)
    other.at[5, "image"] = np.full((8, 8), 255, np.uint8)
    for table, kept in ((frame, answers), (other, Recorder(of=answers))):
        one = game(settings(mode), table, answers=kept)
        one.start()
        play(one, range(6))
        one.d.zero_grad()
        one.fake_gradient(one.network.fake_rows(40))
        found.append([parameter.grad.numpy().copy() for parameter in one.d.parameters()])
    assert any(np.abs(gradient).max() > 0 for gradient in found[0])
    for gradient, same_gradient in zip(*found, strict=True):
        np.testing.assert_array_equal(gradient, same_gradient)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("clipping", [name for name in STRATEGIES if name != "adaptive"])
def test_generated_pictures_are_bounded_as_records_are(mode, clipping):
    """Each picture's weighted gradient is what the real half would make of a record with its loss (law 13)."""
    network, batch = critic(mode), rows(5)
    network.recentre(rows(30, seed=2), 1.0)
    generator = DPGANImages(clipping=clipping, clip=0.2)
    clipper = Clipper(generator, network, 1.0, None, steps=generator.steps)
    slope = torch.sigmoid(network(batch).detach())
    weights = clipper.weights(network.layer_squares(batch) * slope.square())
    bounded = network if clipper._rescaled is None else clipper._rescaled.of(network)
    for place in range(len(batch)):
        row = batch[place : place + 1]
        expected = per_unit_reference(
            bounded, lambda m, part: torch.nn.functional.softplus(m(part)), row, None, clipper.clip, clipper._rule
        )
        if clipper._rescaled is not None:
            expected = clipper._rescaled.back(expected, network)
        gradients = torch.autograd.grad(network(row).sum(), list(network.parameters()))
        for (name, value), gradient in zip(expected.items(), gradients, strict=True):
            layer = 0 if len(weights) == 1 else int(name.split(".")[1])
            ours = (gradient * slope[place] * weights[layer][place]).double()
            torch.testing.assert_close(ours, value, rtol=2 * MARGIN, atol=1e-6)


@pytest.mark.parametrize("mode", ["basis", "mlp"])
def test_recentring_leaves_the_scores_alone(mode):
    network, other, batch = critic(mode), critic(mode, 5), rows(9)
    before, before_other = network(batch).detach(), other(batch).detach()
    network.recentre(rows(60, seed=3), 0.7, other)
    torch.testing.assert_close(network(batch).detach(), before, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(other(batch).detach(), before_other, atol=1e-4, rtol=1e-4)
    assert float(network.get_buffer("centre0").abs().sum()) > 0.1


@pytest.mark.parametrize("mode", MODES)
def test_steepness_is_the_squared_gradient_by_the_input(mode):
    """By differences along each input of the first layer, for one picture at a time."""
    network, batch = critic(mode).double(), rows(3).double()
    found = network.steepness(batch)
    lens = network.lens if mode == "basis" else torch.eye(LAYOUT.pixels).double()
    back = torch.linalg.pinv(lens)  # a step of one coefficient, and of no other
    for place, row in enumerate(batch):
        moved = row.repeat(len(back), 1)
        moved[:, : LAYOUT.pixels] += 1e-6 * back
        slopes = (network(moved) - network(row[None])).detach() / 1e-6
        assert float(slopes.square().sum()) == pytest.approx(float(found[place].detach()), rel=1e-3)


def test_principal_axes_are_of_unit_variance_and_lead_back():
    values = torch.randn(4000, 6, generator=random(0)) * torch.tensor([3.0, 2.0, 1.0, 0.1, 0.1, 0.1])
    lens, back = principal_axes(values, 3)
    torch.testing.assert_close((values @ lens).var(0), torch.ones(3), rtol=0.01, atol=0)
    torch.testing.assert_close(lens.T @ back.T, torch.eye(3), rtol=0, atol=1e-4)


def test_values_are_cut_off_and_can_come_back():
    values = torch.tensor([-0.5, 0.3, 1.5], requires_grad=True)
    in_range(values).sum().backward()
    assert in_range(values).tolist() == pytest.approx([0.0, 0.3, 1.0])
    assert values.grad.tolist() == pytest.approx([0.1, 1.0, 0.1])


@pytest.mark.parametrize("mode", sweep(MODES, lambda mode: mode == "mlp"))
def test_a_restored_game_goes_on_bit_for_bit(mode):
    frame, generator = make_pictures(150), settings(mode)
    first = game(generator, frame)
    first.start()
    play(first, range(6))
    kept = {name: value.copy() for name, value in first.state().items()}
    second = game(generator, frame, seed=77)  # other weights, other draws: all of it is replaced
    second.restore(kept)
    same_tensors(second.state(), kept)
    first.data._recorder = answers = Recorder()
    play(first, range(6, 10))
    second.data._recorder = Recorder(of=answers)
    play(second, range(6, 10))
    same_tensors(second.state(), first.state())
    same_tensors(second.finish().tensors(), first.finish().tensors())


@pytest.mark.heavy
def test_a_rehearsal_that_was_stopped_and_resumed_equals_an_uninterrupted_one(tmp_path):
    def fit(folder, resume=False):
        made = Synthesizer(settings("basis"), schema=picture_schema(), budget=BUDGET)
        return made.fit(make_pictures(150), seed=3, resume=resume, **files(folder))

    with stopped_after_saving(8):
        fit(tmp_path / "stopped")
    same(fit(tmp_path / "stopped", resume=True), fit(tmp_path / "whole"))


@pytest.mark.heavy
@pytest.mark.parametrize("mode", MODES)
def test_before_its_first_step_a_game_is_its_start(mode):
    one = game(settings(mode), make_pictures(150))
    one.start()
    values, label, _ = one.network.source.draw(50, random(1))
    assert torch.equal(one.network.g(values, label), values)


@pytest.mark.parametrize("start", ["gauss", "label"])
def test_a_game_that_diverges_falls_back_on_its_start(start):
    one = game(settings("mlp", start=start), make_pictures(150))
    one.start()
    beginning = {name: value.clone() for name, value in one.network.beginning.state_dict().items()}
    with torch.no_grad():
        for parameter in one.d_average.parameters():
            parameter.fill_(math.nan)
    one.generator_step(0)
    with pytest.warns(UserWarning, match="diverged"):
        model = one.finish()
    for name, value in model.network.state_dict().items():
        assert torch.equal(value, beginning[name])
    picture_schema().validate(model.sample(20, seed=1), "error")


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["conv", "mlp"])
@pytest.mark.parametrize("start", ["label", "none"])
def test_other_starts_paint_from_latent_values(mode, start, tmp_path):
    generator = settings(mode, start=start, latent=4)
    plan = generator.plan(picture_schema(), 2.0)
    assert [type(entry.event) for entry in plan] == [Gaussian, Sampled][start == "none" :]
    release = Synthesizer(generator, schema=picture_schema(), budget=BUDGET).fit(make_pictures(100), seed=1)
    release.save(tmp_path / "release")
    pictures, loaded = (each.sample(20, seed=1)["image"] for each in (release, load(tmp_path / "release")))
    np.testing.assert_array_equal(np.stack(pictures), np.stack(loaded))


def test_the_start_holds_its_share_of_the_precision():
    generator = settings("basis", tables=0.7)
    *start, steps = generator.plan(picture_schema(), 2.0)
    one_shot = sum(entry.count * entry.event.noise**-2 for entry in start)
    played = steps.count * (steps.event.rate / steps.event.queries[0].noise) ** 2
    assert one_shot / (one_shot + played) == pytest.approx(0.7)


def test_columns_beside_image_and_label_are_those_of_the_start():
    beside = {"columns": {**picture_schema().to_dict()["columns"], "old": {"kind": "boolean"}}}
    schema = picture_schema(**beside)
    frame = make_pictures(200).assign(old=lambda table: table["finding"] == "left")
    release = Synthesizer(settings("basis"), schema=schema, budget=Budget(math.inf, 1e-5)).fit(frame, seed=0)
    sample = release.sample(300, seed=1)
    schema.validate(sample, "error")
    shares = sample.groupby(sample["finding"].astype(str))["old"].mean()
    assert shares["left"] > 0.7 > 0.3 > shares["right"]
    with pytest.raises(BadInput, match="old"):
        settings("mlp", start="label").validate(schema, BUDGET)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"latent": 7}, "latent would be ignored"),
        ({"start": "columns"}, r"start must be one of gauss, label, none"),
        ({"start": "label"}, "architecture=basis"),
        ({"start": "none", "architecture": "mlp", "tables": 0.5}, "tables would be ignored"),
        ({"architecture": "conv", "channels": (4, 4, 4, 4)}, "pixels or more"),
        ({"architecture": "conv", "hidden": (4,)}, "generator.channels"),
        ({"channels": (4,)}, "channels applies to architecture=conv"),
        ({"architecture": "transformer"}, "basis, mlp, conv"),
        ({"penalty": -1.0}, "generator.penalty"),
        ({"clipping": "per_group", "clip_shares": (1.0,)}, "clip_shares"),
    ],
)
def test_settings_that_images_would_not_read_are_refused_by_name(given, said):
    with pytest.raises(BadInput, match=said):
        DPGANImages(**given).validate(picture_schema(), BUDGET)


def test_a_start_at_labels_needs_a_label():
    with pytest.raises(BadInput, match="needs a label"):
        DPGANImages(architecture="mlp", start="label").validate(picture_schema(targets=[]), BUDGET)


def test_few_records_are_passed_over_a_few_times():
    assert DPGANImages().steps_on(picture_schema(units=60_000)) == 300
    assert DPGANImages().steps_on(picture_schema(units=4096)) == 50
    assert DPGANImages(passes=3).steps_on(picture_schema(units=100)) == 3
    assert DPGANImages(rate=0.5).steps_on(picture_schema(units=None)) == 50
