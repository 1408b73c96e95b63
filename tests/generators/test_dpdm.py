"""The diffusion model: EDM's mathematics, noise as a function of a record, per-record gradients, start, resume, failures."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from clinic import make_pictures, picture_schema, quick
from gradient_sums import clipped_gradient_sum, per_unit_reference
from scipy import stats
from sweeps import heavy, sweep

from synthdp import BadInput, Budget, Synthesizer
from synthdp.generators import dpdm as subject
from synthdp.generators.dpdm import DPDM
from synthdp.generators.images.diffusion import (
    ARCHITECTURES,
    BANK,
    Draws,
    Levels,
    Prior,
    Sampler,
    denoised,
    isotropic,
    losses,
    mixed,
)
from synthdp.generators.images.diffusion_model import blank, prior_of, rows_of
from synthdp.generators.parts.record_vectors import Vectors
from synthdp.generators.parts.table_networks import random
from synthdp.ledger.events import Gaussian, Sampled
from synthdp.schema.codec import Codec
from synthdp.seal.gradients import bookkeeping

CPU = torch.device("cpu")
BUDGET = Budget(3.0, 1e-5)
LEVELS = Levels(-0.5, 1.0)


def network(architecture, width, shape, *, labels=3, seed=0, basis=None):
    """One whose last layers are not zero, as they are before the first step."""
    made = ARCHITECTURES[architecture](width, shape, labels, 8, 2, random(seed), basis).double()
    with torch.no_grad():
        for value in made.parameters():
            value.add_(0.1 * torch.randn(value.shape, generator=random(seed + 1), dtype=torch.float64))
    return made


def gaussians(labels=3, width=4, pixels=6):
    """A prior with axes and a full covariance for each label, and these covariances."""
    generator = random(5)
    factors = torch.randn(labels, width, width, generator=generator, dtype=torch.float64)
    rotations, deviations, _ = torch.linalg.svd(factors)
    basis, _ = torch.linalg.qr(torch.randn(pixels, width, generator=generator, dtype=torch.float64))
    prior = Prior(
        centre=torch.randn(pixels, generator=generator, dtype=torch.float64),
        means=torch.randn(labels, width, generator=generator, dtype=torch.float64),
        variances=deviations**2,
        basis=basis,
        rotations=rotations,
    )
    return prior, factors @ factors.mT


def codes_of(rows, seed=0):
    """Codes of small pictures and their labels."""
    schema = picture_schema()
    codec = Codec(schema)
    return Vectors(codec, codec.names.index("finding")), torch.from_numpy(codec.encode(make_pictures(rows, seed)))


class Silent(torch.nn.Module):
    """F = 0."""

    def forward(self, x, *_):
        return torch.zeros_like(x)


def test_a_silent_network_is_the_ideal_denoiser_of_each_class_gaussian():
    """E[x | x + sigma n] = mean + covariance (covariance + sigma^2)^-1 (x + sigma n - mean), by plain linear algebra."""
    prior, covariances = gaussians()
    y = torch.tensor([0, 2, 1, 2])
    z, noise = torch.randn(2, 4, 4, generator=random(1), dtype=torch.float64)
    x = prior.centre + z @ prior.basis.T
    sigma = torch.tensor([0.1, 0.7, 2.0, 9.0], dtype=torch.float64)
    seen = prior.coordinates(x + sigma[:, None] * noise @ prior.basis.T, y)
    found = prior.pixels(denoised(Silent(), prior, seen.unsqueeze(1), sigma[:, None], y).squeeze(1), y)
    for row in range(4):
        mean, covariance = prior.means[y[row]], covariances[y[row]]
        gain = covariance @ torch.linalg.inv(covariance + sigma[row] ** 2 * torch.eye(4, dtype=torch.float64))
        best = mean + gain @ (z[row] + sigma[row] * noise[row] - mean)
        torch.testing.assert_close(found[row], prior.centre + prior.basis @ best)
    torch.testing.assert_close(prior.pixels(prior.coordinates(x, y), y), x)


def test_without_a_start_the_preconditioning_is_that_of_edm():
    """Their table 1, number by number."""
    prior, data = isotropic(5, 2, 0.5), 0.5
    net = network("mlp", 5, None, labels=2)
    w = torch.randn(3, 2, 5, generator=random(2), dtype=torch.float64)
    sigma = torch.tensor([[0.1, 0.4], [1.0, 3.0], [7.0, 0.02]], dtype=torch.float64)
    y = torch.tensor([0, 1, 1])
    s = sigma.unsqueeze(-1)
    skip, out = data**2 / (s**2 + data**2), s * data / (s**2 + data**2).sqrt()
    expected = skip * w + out * net(w / (s**2 + data**2).sqrt(), sigma.log() / 4, y)
    torch.testing.assert_close(denoised(net, prior, w, sigma, y), expected)


def test_the_loss_is_the_weighted_error_of_the_denoiser():
    prior, _ = gaussians()
    net = network("mlp", 4, None)
    w, y = torch.randn(5, 4, generator=random(3), dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    n = torch.randn(5, 2, 4, generator=random(4), dtype=torch.float64)
    sigma = torch.rand(5, 2, generator=random(6), dtype=torch.float64) + 0.1
    s, variance = sigma.unsqueeze(-1), prior.variances[y].unsqueeze(1)
    error = denoised(net, prior, w.unsqueeze(1) + s * n, sigma, y) - w.unsqueeze(1)
    weight = (variance + s**2) / (variance * s**2)  # 1 / c_out^2
    torch.testing.assert_close(losses(net, prior, w, sigma, n, y), (weight * error**2).mean(-1))


def test_a_records_noise_is_a_function_of_the_record_and_the_step():
    """Not of its place, nor of its company (law 12); equal records have equal noise, and each step new."""
    _, codes = codes_of(40)
    draws = Draws(codes.shape[1], 7, LEVELS, 3, 11, CPU)
    sigma, n = draws.of(codes)
    order = torch.randperm(40, generator=random(0))
    for found, whole in zip(draws.of(codes[order][:25]), (sigma, n), strict=True):
        assert torch.equal(found, whole[order][:25])
    twice = draws.of(codes[:1].repeat(2, 1))
    assert torch.equal(twice[1][0], twice[1][1])
    one_off = codes[:1].clone()
    one_off[0, 9] ^= 1
    assert not torch.equal(draws.of(one_off)[1], n[:1])
    assert not torch.equal(Draws(codes.shape[1], 7, LEVELS, 3, 12, CPU).of(codes)[1], n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("draws", [1, 3])
def test_a_row_is_turned_to_the_same_bits_whoever_else_has_its_label(dtype, draws):
    """Law 47: a product of another number of rows rounds in another way, and a unit that joins changes that number."""
    prior, _ = gaussians(width=37, pixels=37)

    def slopes(rows, y):
        held = rows.clone().requires_grad_()
        (found,) = torch.autograd.grad(prior.turned(held, y, back=back).pow(3).sum(), held)
        return found

    values, labels = torch.randn(150, draws, 37, generator=random(2)).to(dtype), torch.arange(150) % 3
    for back in (False, True):
        whole = prior.turned(values, labels, back=back)
        rotations = prior.rotations.to(dtype)[labels]
        torch.testing.assert_close(whole, values @ (rotations.mT if back else rotations))
        for some in (range(1), range(5), range(29, 36), range(0, 150, 3), range(1, 150), range(149, 40, -1)):
            kept = torch.tensor(some)
            assert torch.equal(prior.turned(values[kept], labels[kept], back=back), whole[kept])
            assert torch.equal(slopes(values[kept], labels[kept]), slopes(values, labels)[kept])


def test_noise_and_levels_have_their_distributions():
    """Over public factors and banks: normal vectors, levels ln N(P_mean, P_std), one of each K-th; independent of each other."""
    _, codes = codes_of(1)
    found = [Draws(codes.shape[1], 2, LEVELS, 4, seed, CPU).of(codes) for seed in range(1500)]
    sigma = torch.stack([one for one, _ in found]).squeeze(1).log()
    n = torch.stack([two for _, two in found]).squeeze(1)
    assert stats.kstest(n[:, 0, 0], "norm").pvalue > 1e-4
    assert stats.kstest(n[:, 3, 1], "norm").pvalue > 1e-4
    drawn = sigma[torch.arange(1500), torch.arange(1500) % 4]
    assert stats.kstest(drawn, "norm", args=(LEVELS.P_mean, LEVELS.P_std)).pvalue > 1e-4
    place = stats.norm.cdf((sigma - LEVELS.P_mean) / LEVELS.P_std)
    np.testing.assert_array_equal(np.floor(place * 4), np.tile(np.arange(4), (1500, 1)))
    assert abs(np.corrcoef(sigma[:, 0], n[:, 0, 0])[0, 1]) < 4 / math.sqrt(1500)
    assert abs(np.corrcoef(n[:, 0, 0], n[:, 1, 0])[0, 1]) < 4 / math.sqrt(1500)


def test_the_mixer_is_splitmix64_and_spreads_neighbours():
    """Against whole numbers of Python, and over a bank's places."""

    def plain(key):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            key = (key ^ (key >> shift)) * factor % 2**64
        return key ^ (key >> 31)

    keys = [0, 1, 2**63 - 1, -1, -(2**63), 123456789]
    expected = [plain(key % 2**64) for key in keys]
    assert [int(key) % 2**64 for key in mixed(torch.tensor(keys))] == expected
    places = mixed(torch.arange(BANK * 20)) >> 20 & (BANK - 1)
    assert stats.chisquare(torch.bincount(places, minlength=BANK).numpy()).pvalue > 1e-4


@pytest.mark.parametrize(
    ("architecture", "units"),
    sweep(
        itertools.product(["mlp", "unet", "unet in a basis"], [1, 4]),
        [("mlp", 4), ("unet in a basis", 1)].__contains__,
    ),
)
def test_gradients_equal_those_of_one_record_at_a_time(architecture, units, monkeypatch):
    """Law 13, with K draws a record, in one pass, for units of up to two records."""
    vectors, codes = codes_of(2 * units)
    prior, basis = isotropic(vectors.width, 3, 0.5), None
    if architecture == "unet in a basis":
        basis = torch.linalg.qr(torch.randn(64, 6, generator=random(8), dtype=torch.float64))[0]
        prior = replace(isotropic(6, 3, 0.5), centre=prior.centre, basis=basis)
    net = network(architecture.split()[0], prior.means.shape[1], (8, 8, 1), basis=basis)
    draws = Draws(codes.shape[1], prior.means.shape[1], LEVELS, 3, 1, CPU)

    def loss(module, part):
        x, y = rows_of(vectors, part)
        sigma, n = draws.of(part)
        return losses(module, prior, prior.coordinates(x, y), sigma, n, y).mean(1)

    passes = []
    add = bookkeeping.add
    monkeypatch.setattr(bookkeeping, "add", lambda *args: passes.append(add(*args)) or passes[-1])
    padded, mask = codes.reshape(units, 2, -1), torch.ones(units, 2, dtype=torch.bool)
    mask[0, 1] = False
    for clip in (0.05, 1e3):
        ours = clipped_gradient_sum(net, loss, padded, mask, clip)
        reference = per_unit_reference(net, loss, padded, mask, clip)
        for name, value in reference.items():
            torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-9)
    if units > 1:
        assert passes == [True, True]


@pytest.mark.parametrize("architecture", ["mlp", "unet"])
def test_neither_rows_nor_draws_meet_in_a_network(architecture):
    net = network(architecture, 49, (7, 7, 1))
    x = torch.randn(3, 4, 49, generator=random(1), dtype=torch.float64)
    c_noise, y = torch.randn(3, 4, generator=random(2), dtype=torch.float64), torch.tensor([0, 2, 1])
    whole = net(x, c_noise, y)
    torch.testing.assert_close(whole[1:2, 2:3], net(x[1:2, 2:3], c_noise[1:2, 2:3], y[1:2]))
    assert not torch.allclose(whole[:1], net(x, c_noise, y.flip(0))[:1])  # the label counts
    assert not torch.allclose(whole, net(x, c_noise + 1, y))  # and so does the level


@pytest.mark.parametrize("churn", [heavy(0.0), 30.0])
def test_the_sampler_draws_the_gaussian_that_the_denoiser_is_ideal_for(churn):
    prior, covariances = gaussians()
    y = torch.full((6000,), 1)
    sampler = Sampler(steps=40, sigma_min=0.002, sigma_max=80.0, rho=7.0, churn=churn)
    w = sampler.run(Silent(), prior, y, random(3))
    z = (prior.pixels(w, y) - prior.centre) @ prior.basis
    scale = covariances[1].diagonal().sqrt()
    assert ((z.mean(0) - prior.means[1]) / scale).abs().max() < 5 / math.sqrt(6000)
    assert ((torch.cov(z.T) - covariances[1]) / torch.outer(scale, scale)).abs().max() < 0.1


def test_the_levels_of_the_sampler_are_those_of_edm():
    """Equation 5 with N = 3: the ends, and the middle by hand."""
    sigmas = Sampler(steps=3, sigma_min=0.002, sigma_max=80.0, rho=7.0, churn=0.0).sigmas()
    assert sigmas == pytest.approx([80.0, ((80 ** (1 / 7) + 0.002 ** (1 / 7)) / 2) ** 7, 0.002, 0.0])


def test_the_start_holds_its_share_of_the_precision():
    schema = picture_schema()
    for settings in (DPDM(share=0.4, steps=50, batch=60), DPDM(start="none", share=0.1, steps=50, batch=60)):
        *start, steps = settings.plan(schema, 2.0)
        assert isinstance(steps.event, Sampled)
        assert all(isinstance(entry.event, Gaussian) for entry in start)
        bought = sum(entry.count * entry.event.noise**-2 for entry in start)
        stepped = steps.count * (steps.event.rate / steps.event.queries[0].noise) ** 2
        assert bought / (bought + stepped) == pytest.approx(settings.share)
    assert len(DPDM(start="none").plan(picture_schema(targets=[]), 2.0)) == 1


@pytest.mark.heavy
def test_from_pixels_it_learns_what_a_gaussian_cannot_say():
    """Two kinds of picture in one class: a Gaussian fills what is between them, a trained denoiser leaves it empty."""
    rng = np.random.default_rng(0)
    frame = make_pictures(600)
    kind = rng.integers(0, 2, 600)
    pictures = rng.integers(0, 20, (600, 8, 8)) + 220 * kind[:, None, None]
    frame["image"] = frame["image"].astype(object)
    frame["image"] = [picture.astype(np.uint8) for picture in pictures]
    settings = {"steps": 150, "rate": 1.0, "multiplicity": 4, "hidden": 48, "depth": 1, "learning_rate": 1e-2}
    schema = picture_schema(units=600)
    made = Synthesizer("dpdm", schema=schema, budget=Budget(math.inf, 1e-5), start="none", average=0.9, **settings)
    means = np.stack(made.fit(frame, seed=0).sample(400, seed=1)["image"]).mean((1, 2))
    assert ((means < 60) | (means > 180)).mean() > 0.9
    assert 0.25 < (means > 180).mean() < 0.75


def test_wild_weights_still_give_pictures():
    release = Synthesizer(quick("dpdm", "images", learning_rate=1.0), schema=picture_schema(), budget=BUDGET).fit(
        make_pictures(100), seed=0
    )
    picture_schema().validate(release.sample(20, seed=1), "error")
    with torch.no_grad():
        for value in release.model.network.parameters():
            value.fill_(1e30)
    picture_schema().validate(release.sample(20, seed=1), "error")


@pytest.mark.parametrize(
    ("architecture", "rows"),
    sweep(itertools.product(["mlp", "unet"], [1, 2, 5]), [("mlp", 1), ("mlp", 5)].__contains__),
)
def test_one_draw_a_record_is_bounded_as_several_are(architecture, rows):
    """K = 1: layers then see a dimension of length 1 between records and features. With K = rows they cannot tell which is
    which, and the gradients are right all the same."""
    vectors, codes = codes_of(rows)
    prior = isotropic(vectors.width, 3, 0.5)
    net = network(architecture, vectors.width, (8, 8, 1))
    for multiplicity in (1, rows):
        draws = Draws(codes.shape[1], vectors.width, LEVELS, multiplicity, 1, CPU)

        def loss(module, part, draws=draws):
            x, y = rows_of(vectors, part)
            sigma, n = draws.of(part)
            return losses(module, prior, prior.coordinates(x, y), sigma, n, y).mean(1)

        ours = clipped_gradient_sum(net, loss, codes, None, 0.5)
        for name, value in per_unit_reference(net, loss, codes, None, 0.5).items():
            torch.testing.assert_close(ours[name], value, rtol=1e-5, atol=1e-9)


def test_other_columns_are_drawn_beside_the_image():
    frame = make_pictures(300)
    frame["ward"] = np.where(frame["finding"] == "none", "A", "B")
    columns = {"image": {"kind": "image", "height": 8, "width": 8}, "patient": {"kind": "identifier"}}
    columns["finding"] = {"kind": "categorical", "categories": ["none", "left", "right"]}
    columns["ward"] = {"kind": "categorical", "categories": ["A", "B"]}
    schema = picture_schema(columns=columns)
    release = Synthesizer(quick("dpdm", "images"), schema=schema, budget=Budget(math.inf, 1e-5)).fit(frame, seed=0)
    sample = release.sample(300, seed=1)
    assert ((sample["ward"] == "A") == (sample["finding"] == "none")).mean() > 0.9
    with pytest.raises(BadInput, match=r"architecture=unet.*'ward'"):
        DPDM(architecture="unet", start="none").validate(schema, BUDGET)


@pytest.mark.heavy
def test_a_stopped_fit_goes_on_as_an_uninterrupted_one(tmp_path, monkeypatch):
    def fit(folder, **options):
        made = Synthesizer(quick("dpdm", "images", rate=0.3), schema=picture_schema(), budget=BUDGET)
        files = {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}
        return made.fit(make_pictures(150), seed=3, **files, **options)

    whole = fit(tmp_path / "whole")
    step = subject.Training.step

    def stopping(self, number):
        if number == 0:
            raise KeyboardInterrupt
        step(self, number)

    monkeypatch.setattr(subject.Training, "step", stopping)
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "stopped")
    monkeypatch.setattr(subject.Training, "step", step)
    resumed = fit(tmp_path / "stopped", resume=True)
    assert resumed.statement.epsilon <= BUDGET.epsilon
    assert resumed.model.tensors().keys() == whole.model.tensors().keys()


class Data:
    """Answers without noise, for what is tested is the training."""

    def __init__(self, schema, codes):
        self.schema, self.codec, self._codes = schema, Codec(schema), codes

    def sample(self, *_):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def ask(self, question):
        return clipped_gradient_sum(question.module, question.loss, self._codes, None, question.clip)


@pytest.fixture
def training():
    vectors, codes = codes_of(30)
    schema, event = picture_schema(), Sampled(1.0, (Gaussian(1.0),))
    start = blank(schema, vectors, np.ones(3))
    settings = quick("dpdm:none", "images")
    return lambda seed: subject.Training(settings, Data(schema, codes), start, event, random(seed), CPU)


def test_its_state_is_all_that_the_next_steps_depend_on(training):
    """A training that was taken apart after two steps and put together again goes on bit by bit."""
    one, two = training(1), training(2)
    for step in range(2):
        one.step(step)
    two.restore(one.state())
    for step in range(2, 5):
        one.step(step)
        two.step(step)
    for name, value in one.state().items():
        np.testing.assert_array_equal(value, two.state()[name])


def test_a_network_that_diverged_is_dropped(training):
    one = training(1)
    one.step(0)
    with torch.no_grad():
        next(one.averaged.parameters()).fill_(math.nan)
    with pytest.warns(UserWarning, match="diverged"):
        kept = one.finished()
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), training(1).network.parameters(), strict=True))


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"steps": 0}, "steps"),
        ({"multiplicity": 1.5}, "multiplicity"),
        ({"clip": math.inf}, "clip"),
        ({"learning_rate": 2.0}, "learning_rate"),
        ({"share": 1.0}, "share"),
        ({"rate": 0.0}, "rate"),
        ({"average": 1.0}, "average"),
        ({"churn": -1.0}, "churn"),
        ({"P_mean": math.nan}, "P_mean"),
        ({"sigma_min": 30.0}, "sigma_min"),
        ({"start": "pca"}, "start"),
        ({"architecture": "transformer"}, "architecture"),
        ({"device": "tpu"}, "device"),
        ({"dimensions": 5, "start": "none"}, "dimensions"),
        ({"sigma_data": 0.3}, "sigma_data"),
        ({"rate": 0.5, "batch": 7}, "batch"),
    ],
)
def test_bad_settings_are_refused_by_name(bad, said):
    with pytest.raises(BadInput, match=said):
        DPDM(**bad)


def test_units_must_be_known():
    for units, settings in ((None, {"rate": 0.1}), ("learn", {})):
        with pytest.raises(BadInput, match="units"):
            DPDM(**settings).validate(picture_schema(units=units), BUDGET)
    DPDM(rate=0.1).validate(picture_schema(units="learn"), BUDGET)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")
def test_a_device_that_is_not_there_is_refused_before_anything_is_opened():
    with pytest.raises(BadInput, match="device=cuda"):
        Synthesizer(quick("dpdm", "images", device="cuda"), schema=picture_schema(), budget=BUDGET)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["dpdm", "dpdm:unet", "dpdm:none"])
def test_a_fit_on_a_gpu_has_the_ledger_of_one_on_the_cpu(name):
    fits = {}
    for device in ("cpu", "cuda"):
        made = Synthesizer(quick(name, "images", device=device), schema=picture_schema(), budget=BUDGET)
        fits[device] = made.fit(make_pictures(200), seed=3)
    assert fits["cpu"].ledger.entries() == fits["cuda"].ledger.entries()
    picture_schema().validate(fits["cuda"].sample(50, seed=1), "error")


def test_a_start_that_cannot_draw_leaves_every_axis_some_variance():
    vectors, _ = codes_of(1)
    schema = picture_schema()
    flat = replace(
        blank(schema, vectors, np.ones(3)),
        axes=np.eye(4, vectors.width),
        means=np.zeros((3, 1, 4)),
        factors=np.zeros((3, 1, 4, 4)),
    )
    assert float(prior_of(flat, 0.5).variances.min()) > 0
