"""Clipped gradient sums against one unit at a time (laws 12, 13, 15)."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from gradient_sums import clipped_gradient_sum, per_unit_reference
from modules import FOLLOWED, MODULES, gap, loss, make, norm
from sweeps import heavy, sweep
from torch import nn

from synthdp.errors import BadInput
from synthdp.noise.noise import Noise
from synthdp.seal.clipping import Automatic, Flat, PerGroup
from synthdp.seal.gradients import FLAT, MARGIN, add_noise, bookkeeping, explicit
from synthdp.seal.gradients.bound import to_step


@pytest.fixture
def routes(monkeypatch):
    """Which way each batch went."""
    taken = []

    def spy(module, label):
        add = module.add

        def wrapped(*args):
            result = add(*args)
            taken.append((label, result))
            return result

        monkeypatch.setattr(module, "add", wrapped)

    spy(bookkeeping, "one pass")
    spy(explicit, "fallback")
    return taken


@pytest.mark.parametrize(
    ("name", "units", "size"),
    sweep(
        itertools.product(MODULES, [0, 1, 5], [None, 1, 3]),
        lambda case: case[1:] in ((5, None), (5, 3)) or case[0] == "mixed",
    ),
)
def test_equals_one_unit_at_a_time(name, units, size, routes):
    module, records, mask = make(name, units, size)
    reference = per_unit_reference(module, loss, records, mask, 1.5)
    ours = clipped_gradient_sum(module, loss, records, mask, 1.5)
    assert gap(ours, reference) < 1e-5
    assert list(ours) == [name for name, _ in module.named_parameters()]
    if units == 5 and size is None:
        expected = [("one pass", True)] if name in FOLLOWED else [("fallback", None)]
        assert routes[-1:] == expected


@pytest.mark.parametrize("name", ["linear", "mixed", "sequence", "own parameter"])
@pytest.mark.parametrize("clip", [1e-3, 1e4])
def test_full_slots_small_and_large_clips(name, clip):
    module, records, _ = make(name, 4, 3)
    mask = torch.ones(4, 3, dtype=torch.bool)
    reference = per_unit_reference(module, loss, records, mask, clip)
    assert gap(clipped_gradient_sum(module, loss, records, mask, clip), reference) < 1e-5


@pytest.mark.parametrize("name", sweep(MODULES, [*MODULES][::3].__contains__))
def test_the_microbatch_changes_nothing(name):
    module, records, mask = make(name, 9, 2)
    whole = clipped_gradient_sum(module, loss, records, mask, 1.0)
    for microbatch in (1, 4, 9):
        assert gap(clipped_gradient_sum(module, loss, records, mask, 1.0, microbatch=microbatch), whole) < 1e-5


@pytest.mark.parametrize(
    ("poison", "name"),
    sweep(
        itertools.product([float("nan"), float("inf"), 1e30], MODULES),
        lambda case: math.isnan(case[0]) or case[1] in ("linear", "mixed", "sequence"),
    ),
)
def test_what_is_not_finite_contributes_zero(name, poison):
    module, records, _ = make(name, 6)

    def poisoned(module, rows):
        bad = rows[:, -1] > 50
        # The forward pass keeps finite inputs, so that indices stay valid; the gradient does not.
        return loss(module, rows.clamp(-9, 9)) * torch.where(bad, poison, 1.0)

    records[2, -1] = 99.0
    expected = clipped_gradient_sum(module, loss, records[[0, 1, 3, 4, 5]], None, 1.0)
    ours = clipped_gradient_sum(module, poisoned, records, None, 1.0)
    assert all(bool(torch.isfinite(value).all()) for value in ours.values())
    if poison == 1e30:
        assert norm({name: ours[name] - expected[name] for name in ours}) <= 1.0  # finite in float64: one clip
    else:
        assert gap(ours, expected) < 1e-5


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("size", [None, 2])
def test_poisoned_inputs_contribute_zero(poison, size):
    module, records, _ = make("linear", 6, size)
    mask = None if size is None else torch.ones(6, size, dtype=torch.bool)
    keep = [0, 1, 3, 4, 5]
    expected = clipped_gradient_sum(module, loss, records[keep], None if mask is None else mask[keep], 1.0)
    records[2] = poison
    assert gap(clipped_gradient_sum(module, loss, records, mask, 1.0), expected) < 1e-5


class Bare(nn.Module):
    """One linear map by a parameter of its own, which no book-keeping follows."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 64))

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


class InAList(nn.Module):
    """A linear map that is shown its rows in a list."""

    def __init__(self):
        super().__init__()
        self.map = Bare()

    def forward(self, x):
        return self.map([x][0])


def deep(scale, layers=5):
    """Layers of equal pairs of weights, so that a row (a, -a) is nothing but rounding, which the layers behind make large."""
    found = []
    random = torch.Generator().manual_seed(layers)
    for place in range(layers):
        layer = nn.Linear(64, 64 if place < layers - 1 else 1, bias=False).double()
        half = torch.randn(len(layer.weight), 32, generator=random, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.cat([half, half], 1) if place == 0 else torch.cat([half, -half], 1) * scale)
        found += [layer, nn.Tanh()]
    return nn.Sequential(*found[:-1])


CANCELLING = {  # module, and the sizes of rows
    "linear": (lambda: nn.Linear(64, 1, bias=False), 10.0 ** torch.arange(16)),
    "own parameter": (Bare, 10.0 ** torch.arange(16)),
    "in a list": (InAList, torch.tensor([1e8])),
    "deep": (lambda: deep(100.0), torch.tensor([0.1, 1.0])),
}


@pytest.mark.parametrize("name", CANCELLING)
@pytest.mark.parametrize("rule", [FLAT, heavy(Automatic())])
def test_gradients_that_are_rounding_alone_hang_on_no_other_unit(name, rule):
    """Where inputs cancel, the sign of a gradient may be rounding, and that must not hang on who else is there."""
    torch.manual_seed(3)
    make, sizes = CANCELLING[name]
    module = make()
    if name != "deep":
        with torch.no_grad():
            next(module.parameters()).fill_(1.0)
    half = torch.randn(1, 32, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    row = torch.cat([half, -half], 1)
    rows = row.expand(70, 64) if name == "deep" else torch.randn(70, 64, dtype=torch.float64)
    rows = rows - rows.mean(1, keepdim=True)
    for size, clip in itertools.product(sizes, (1e-6, 1.0)):
        summed = [
            clipped_gradient_sum(
                module, lambda m, x: m(x).square().squeeze(1), rows[:units] * size, None, clip, rule=rule
            ).flat
            for units in (1, 2, 3, 4, 7, 8, 11, 12, 63, 64, 65, 66)
        ]
        ours = [float((summed[place + 1] - summed[place]).norm()) for place in (0, 1, 2, 4, 6, 8, 9, 10)]
        assert max(ours) <= clip, (float(size), clip)


@pytest.mark.parametrize("count", [1, 63, 64, 65])
def test_rows_are_padded_to_a_multiple_that_kernels_round_alike(count):
    """What a kernel rounds otherwise hangs on the processor; what it is given does not."""
    rows = torch.randn(count, 3)
    padded = to_step(rows)
    assert padded.shape == (64 if count <= 64 else 128, 3)
    assert torch.equal(padded[:count], rows)
    assert not padded[count:].any()


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("size", [None, heavy(3)])
def test_a_unit_far_above_the_clip_is_scaled_onto_it(name, size):
    module, records, mask = make(name, 1, size, seed=1)
    if mask is not None:
        mask[:] = True
    clip = 1e-3
    reached = norm(clipped_gradient_sum(module, loss, records, mask, clip))
    assert reached == pytest.approx(clip * (1 - MARGIN), rel=2e-6)
    assert reached < clip


@pytest.mark.parametrize("name", ["linear", "conv2d", "own parameter"])
def test_one_unit_more_moves_the_sum_by_at_most_the_clip(name):
    """2,048 aligned units: rounding in a plain float32 sum would take more than the margin."""
    module, records, _ = make(name, 1)
    clip = 0.01
    crowd = records.expand(2048, -1)
    before = clipped_gradient_sum(module, loss, crowd, None, clip)
    assert norm(before) == pytest.approx(2048 * clip * (1 - MARGIN), rel=1e-5)
    for other in (records, -3 * records):
        after = clipped_gradient_sum(module, loss, torch.cat([other, crowd]), None, clip)
        assert norm({key: after[key] - before[key] for key in after}) <= clip


@pytest.mark.parametrize("units", [383, 1023, 1024, 4096, heavy(65536)])
@pytest.mark.parametrize("alike", ["all", "in turns"])
def test_who_else_is_there_moves_no_contribution(units, alike):
    """Law 12, where rounding is systematic: alike records round alike, and a product's rounding depends on its rows. In float32
    one unit more among 65,536 moved the sum by 1.95 clips, where a chunk's size changed."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    records = torch.randn(24).repeat(units + 1, 1)
    if alike == "in turns":
        records[::3] = torch.randn(24)
    records[units // 2] = 5 * torch.randn(24)  # the one who comes, in the middle

    def moved(rule):
        others = torch.arange(units + 1) != units // 2
        whole, fewer = (
            clipped_gradient_sum(module, loss, rows, None, 0.9375, rule=rule) for rows in (records, records[others])
        )
        return float((whole.flat.double() - fewer.flat.double()).norm())

    for rule in (Flat(), Automatic(), PerGroup()):
        assert moved(rule) <= 0.9375


@pytest.mark.parametrize("units", [1023, 4096, 16384])
def test_rounding_that_adds_up_stays_within_the_margin(units):
    """Patterns of large and small contributions whose rounding goes one way; in float32 some pass the clip by 1e-4 to 1e-3."""
    random = np.random.default_rng(1)
    module = torch.nn.Linear(1, 1, bias=False)
    # Torch would draw it anew in each process, and float32 would pass with some weights
    torch.nn.init.zeros_(module.weight)
    for _ in range(60):
        period, clip = int(2 ** random.integers(0, 11)), float(random.uniform(0.5, 1))
        pattern = np.where(random.random(period) < random.random(), 10.0, clip * random.random())
        records = torch.tensor(np.resize(pattern, units), dtype=torch.float32)[:, None]
        place = int(random.integers(0, units))
        more = torch.cat([records[:place], torch.full((1, 1), 10.0), records[place:]])
        moved = [clipped_gradient_sum(module, loss, rows, None, clip).flat.double() for rows in (records, more)]
        assert float((moved[1] - moved[0]).norm()) <= clip


def test_records_that_cancel_do_not_hide_their_rounding():
    """Two huge, opposite records of one unit: what is left is rounding error, and is held to the clip too."""
    module, records, _ = make("linear", 1, 2)

    def linear_loss(module, rows):
        return module(rows).squeeze(1) * rows[:, 0].sign() * 1e12

    records[0, 1] = records[0, 0]
    records[0, 0, 0], records[0, 1, 0] = 1e-6, -1e-6
    ours = clipped_gradient_sum(module, linear_loss, records, torch.ones(1, 2, dtype=torch.bool), 1.0)
    assert norm(ours) <= 1.0


def test_frozen_parameters_are_left_out():
    module, records, _ = make("mixed", 5)
    module.conv.weight.requires_grad_(False)
    module.out.bias.requires_grad_(False)
    ours = clipped_gradient_sum(module, loss, records, None, 0.5)
    assert "conv.weight" not in ours
    assert "out.bias" not in ours
    assert gap(ours, per_unit_reference(module, loss, records, None, 0.5)) < 1e-5


def test_an_unused_layer_gets_zeros():
    module, records, _ = make("linear", 5)
    module.add_module("spare", nn.Linear(3, 2))
    ours = clipped_gradient_sum(module, lambda m, rows: loss(m[:3], rows), records, None, 0.5)
    assert norm({"weight": ours["spare.weight"], "bias": ours["spare.bias"]}) == 0
    assert norm(ours) > 0


def test_values_that_steer_the_forward_pass_go_one_unit_at_a_time():
    module, records, _ = make("own parameter", 4)

    def steering(module, rows):
        if float(rows.sum()) > 1e9:
            return loss(module, -rows)
        return loss(module, rows)

    assert (
        gap(
            clipped_gradient_sum(module, steering, records, None, 0.5),
            per_unit_reference(module, loss, records, None, 0.5),
        )
        < 1e-5
    )


def test_the_module_is_left_as_it_was():
    module, records, _ = make("mixed", 5)
    before = copy.deepcopy(module.state_dict())
    with torch.no_grad():
        clipped_gradient_sum(module, loss, records, None, 0.5)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in module.parameters())
    assert not any(layer._forward_hooks for layer in module.modules())


@pytest.mark.parametrize(
    ("layer", "word"),
    [
        (nn.BatchNorm1d(12), "BatchNorm1d"),
        (nn.SyncBatchNorm(12), "SyncBatchNorm"),
        (nn.InstanceNorm1d(12, track_running_stats=True), "track_running_stats"),
        (nn.Embedding(3, 2, max_norm=1.0), "max_norm"),
        (nn.Embedding(3, 2, scale_grad_by_freq=True), "scale_grad_by_freq"),
    ],
)
def test_layers_that_mix_or_keep_records_are_refused(layer, word):
    with pytest.raises(BadInput, match=word):
        clipped_gradient_sum(nn.Sequential(nn.Linear(12, 12), layer), loss, torch.zeros(3, 12), None, 1.0)


@pytest.mark.parametrize("name", ["linear", "own parameter"])
def test_a_loss_that_is_not_per_record_is_refused(name):
    module, records, _ = make(name, 4)
    with pytest.raises(BadInput, match="one value per record"):
        clipped_gradient_sum(module, lambda m, rows: m(rows), records, None, 1.0)


def test_bad_arguments_are_refused():
    module, records, mask = make("linear", 4, 2)
    for clip in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="clip"):
            clipped_gradient_sum(module, loss, records, mask, clip)
    with pytest.raises(BadInput, match="mask"):
        clipped_gradient_sum(module, loss, records, mask[:3], 1.0)
    with pytest.raises(BadInput, match="microbatch"):
        clipped_gradient_sum(module, loss, records, mask, 1.0, microbatch=0)


def test_float64_modules_keep_their_precision():
    module, records, _ = make("mixed", 5)
    module.double()
    ours = clipped_gradient_sum(module, loss, records.double(), None, 0.5)
    assert gap(ours, per_unit_reference(module, loss, records.double(), None, 0.5)) < 1e-12


@pytest.mark.parametrize("units", [0, 300])
def test_noise_is_added_to_every_coordinate(units):
    module, records, _ = make("linear", units)
    sums = clipped_gradient_sum(module, loss, records, None, 0.5)
    noisy = add_noise(sums, 2.0, Noise(seed=3))
    assert torch.equal(noisy.flat, Noise(seed=3).added_flat(sums.flat, 2.0))  # one draw for all parameters
    moved = noisy.flat - sums.flat
    assert bool((moved != 0).all())
    assert float(moved.abs().max()) < 6 * 2.0
    assert list(noisy) == list(sums)
    assert noisy["0.weight"].dtype == torch.float32
    assert not torch.equal(noisy.flat, add_noise(sums, 2.0, Noise(seed=4)).flat)


def test_zero_gradients_get_the_noise_alone():
    """Law 15: mean 0, the stated deviation, over many draws (five standard errors)."""
    module, records, _ = make("linear", 0)
    sums = clipped_gradient_sum(module, loss, records, None, 0.5)
    noise = Noise(seed=5)
    draws = torch.cat([add_noise(sums, 3.0, noise).flat for _ in range(400)])
    assert abs(float(draws.mean())) < 5 * 3.0 / len(draws) ** 0.5
    assert float(draws.std()) == pytest.approx(3.0, rel=5 / (2 * len(draws)) ** 0.5)


def test_a_parameter_that_is_one_number_has_its_gradient():
    class Line(nn.Module):
        def __init__(self):
            super().__init__()
            self.slope, self.height = nn.Parameter(torch.randn(6)), nn.Parameter(torch.tensor(0.5))

        def forward(self, rows):
            return rows @ self.slope + self.height

    module, rows = Line().double(), torch.randn(20, 6, dtype=torch.float64)
    square = lambda module, rows: module(rows).square()  # noqa: E731
    found = clipped_gradient_sum(module, square, rows, None, 1.0)
    for name, value in per_unit_reference(module, square, rows, None, 1.0).items():
        torch.testing.assert_close(found[name], value)
