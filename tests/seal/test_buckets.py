"""Gradients in float32, in buckets (law 47): what one unit more can move, and what must not move at all."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from elsewhere import DEVICE, elsewhere
from gradient_sums import clipped_by_definition, clipped_gradient_sum, unit_gradients
from modules import FOLLOWED, MODULES, gap, loss, make, norm
from sweeps import heavy, sweep
from torch import nn
from torch.nn import functional

from synthdp.errors import BadInput, InFloat64
from synthdp.noise.noise import Noise
from synthdp.seal.clipping import Automatic, Flat, PerGroup
from synthdp.seal.gradients import MARGIN, bookkeeping, buckets, sum_and_count
from synthdp.seal.gradients.bound import Bound, Gradients
from synthdp.seal.gradients.buckets import STEP, Buckets, Moved, mixed, prepared, probed
from synthdp.seal.gradients.question import Gradient
from synthdp.seal.records import Records

# Float64: an embedding at several places, wide layers at few
SUMS = {"sequence", "padding index", "linear over few positions"}


def keys(units, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, units, dtype=np.uint64)


def deep(width=24, hidden=32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1))


def total(module, records, names, made, clip=0.9375, **settings):
    return clipped_gradient_sum(module, loss, records, None, clip, keys=names, prepared=made, **settings)


# ---- Buckets are public in number and size, and hold each unit by its key.


@pytest.mark.parametrize("expected", [0, 1, 7, 64, 256, 600, 1024, 5000, 1e6])
def test_a_bucket_has_room_and_its_margin(expected):
    made = Buckets.of(expected)
    assert made.size % 32 == 0
    assert made.count * made.size >= expected
    assert made.size <= 352
    assert made.margin == 1e-4 + 2 * (made.size + 1) ** 2 / 2**24
    assert made.margin < 0.0164


@pytest.mark.parametrize(("units", "made"), [(0, (3, 16)), (1, (3, 16)), (500, (1, 16)), (5000, (7, 48))])
def test_every_unit_is_in_one_part_and_none_is_too_large(units, made):
    parts = Buckets(*made).parts(keys(units))
    assert sorted(np.concatenate([*parts, np.zeros(0, np.int64)]).tolist()) == list(range(units))
    assert all(0 < len(part) <= made[1] for part in parts)
    assert all((np.diff(part) > 0).all() for part in parts)  # in their own order


def test_equal_keys_fit_too():
    assert [len(part) for part in Buckets(1, 16).parts(np.zeros(40, np.uint64))] == [16, 16, 8]


@pytest.mark.parametrize(("units", "count", "size"), [(400, 2, 16), (33, 1, 32)])
def test_a_unit_more_changes_one_part_or_splits_it_in_two(units, count, size):
    """Whichever unit it is: all other parts hold what they held, and no part that changes held or holds more than `size`."""
    names, made = keys(units), Buckets(count, size)
    whole = {frozenset(names[part].tolist()) for part in made.parts(names)}
    splits = 0
    for gone in range(len(names)):
        kept = np.delete(names, gone)
        before = {frozenset(kept[part].tolist()) for part in made.parts(kept)}
        old, new = before - whole, whole - before
        assert len(old) <= 1
        assert len(new) <= 2
        assert frozenset().union(*new) == frozenset().union(*old) | {int(names[gone])}
        splits += len(new) == 2
    assert splits > 0


def test_buckets_have_keys_of_their_own():
    """Units that share a bucket are dealt to microbatches and coins as any others are."""
    names = keys(20_000)
    mine = mixed(names, buckets.DEAL) % np.uint64(2) == 0
    for other in (names % np.uint64(2) == 0, mixed(names, 0) % np.uint64(2) == 0, mixed(names, 1) % np.uint64(2) == 0):
        assert abs(float(other[mine].mean()) - 0.5) < 5 * 0.5 / 10_000**0.5


# ---- The values: one unit at a time.


@pytest.mark.parametrize("numbers", [[1, 40], heavy([0, 5, 90])], ids=str)
@pytest.mark.parametrize("name", sorted(set(FOLLOWED) - SUMS))
def test_equals_one_unit_at_a_time(name, numbers):
    module, records, _ = make(name, max(numbers))
    made = probed(module, loss, records, Buckets(1, 32))
    gradients = unit_gradients(module, loss, records, None)
    for units, rule, clip in itertools.product(numbers, (Flat(), Automatic(), PerGroup()), (0.05, 1.5, 1e4)):
        within = clip * (1 - made.buckets.margin) / (1 - MARGIN)
        reference = clipped_by_definition(gradients[:units], module, within, rule)
        ours = total(module, records[:units], keys(units), made, clip, rule=rule)
        assert gap(ours, reference) < 1e-5


@pytest.mark.parametrize("name", sorted(set(MODULES) - set(FOLLOWED) | SUMS))
def test_what_has_no_rule_is_not_prepared(name):
    module, records, _ = make(name, 4)
    assert probed(module, loss, records, Buckets(1, 32)) is None


def test_a_loss_may_ask_the_module_for_its_parameters():
    def scaled(module, rows):
        return module(rows).squeeze(1) / module.get_parameter("weight").shape[1]

    assert probed(nn.Linear(3, 1), scaled, torch.ones(4, 3), Buckets.of(20)) is not None


def test_float64_is_kept_by_shapes_alone():
    """Wide layers at few positions, which pairs of positions in float64 serve faster; modules in float64; too many numbers."""
    _, records, _ = make("linear", 4)
    assert probed(deep(12), loss, records, Buckets(1, 32)) is not None
    wide = nn.Sequential(nn.Unflatten(1, (2, 6)), nn.Linear(6, 40), nn.Linear(40, 40), nn.Flatten(), nn.Linear(80, 1))
    assert probed(wide, loss, records, Buckets(1, 32)) is None
    assert probed(deep(12).double(), loss, records, Buckets(1, 32)) is None


def test_a_count_comes_from_the_same_pass():
    module, records, _ = make("linear", 50)
    made = probed(module, loss, records, Buckets(2, 32))
    for clip in (0.5, 2.0, 8.0):
        _, reference = sum_and_count(module, loss, records, None, clip)
        _, ours = sum_and_count(module, loss, records, None, clip, keys=keys(50), prepared=made)
        assert ours == pytest.approx(reference, abs=1e-3)


# ---- What is not finite, or too large for float32, contributes zero.


@pytest.mark.parametrize("name", ["linear", heavy("conv2d"), heavy("layer norm"), "mixed"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e25])
def test_what_is_not_finite_or_huge_contributes_zero(name, poison):
    module, records, _ = make(name, 6)
    made = probed(module, loss, records, Buckets(1, 32))

    def poisoned(module, rows):
        return loss(module, rows.clamp(-9, 9)) * torch.where(rows[:, -1] > 50, poison, 1.0)

    records[2, -1] = 99.0
    kept = [0, 1, 3, 4, 5]
    expected = total(module, records[kept], keys(6)[kept], made, 1.0)
    ours = clipped_gradient_sum(module, poisoned, records, None, 1.0, keys=keys(6), prepared=made)
    assert gap(ours, expected) < 1e-6
    assert norm(ours) > 0


def test_inputs_that_are_not_finite_contribute_zero_and_move_nobody():
    """Even where their gradient is zero: zero times infinity is no number."""
    module = deep(12)
    _, records, _ = make("linear", 9)
    made = probed(module, loss, records, Buckets(1, 32))
    for bad in (torch.nan, torch.inf, -torch.inf, 3e38):
        poisoned = records.clone()
        poisoned[4] = bad
        poisoned[4, 0] = 0.0
        others = torch.arange(9) != 4
        expected = total(module, records[others], keys(9)[others.numpy()], made)
        assert gap(total(module, poisoned, keys(9), made), expected) < 1e-6


def test_no_threshold_turns_the_last_bit_of_a_norm_into_a_clip():
    """Sums over five or more layers depend on how many units there are, in the last bit of float64. At an edge that would let a unit
    more take another's whole contribution away."""
    edge = 2.0**64
    for longest, total in ((edge, 1.0), (edge, edge**2), (1.0, edge**2), (edge / 2, 1.0), (1.0, edge**2 / 4)):
        found = []
        for near in (1 - 1e-15, 1 + 1e-15):
            bound = Bound(1.0, counting=True, margin=0.01)
            squares = torch.tensor([total * near**2, 1.0], dtype=torch.float64)
            weights, bad = bound.factors(
                {0: (squares, None)}, None, torch.tensor([longest * near, 1.0], dtype=torch.float64)
            )
            kept = weights[0] if bad is None else weights[0].masked_fill(bad, 0.0)
            found.append((float(kept[0] * squares[0].sqrt()), float(kept[1]), bound.within))
        assert np.abs(np.subtract(*found)).max() < 1e-13
        assert found[0][1] == pytest.approx(0.99)


@pytest.mark.parametrize("share", [1e-20, 1e-22])
def test_a_group_s_bound_below_what_float32_weights_can_say_takes_float64(share):
    """A weight of 2^-149 and a half would round to twice its size."""
    module = nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 1, bias=False))
    direction = torch.randn(1, 4, generator=torch.Generator().manual_seed(0))
    made, rule, clip = probed(module, loss, direction, Buckets(1, 32)), PerGroup(shares=(share, 1.0)), 2.0**-20
    for size in 2.0 ** np.arange(55, 63, 0.05):
        ours = total(module, direction / direction.norm() * float(size), keys(1), made, clip, rule=rule)
        assert float(ours["0.weight"].norm()) <= clip * share


@pytest.mark.parametrize("name", ["linear", "conv2d"])
def test_a_gradient_of_zero_adds_zero_however_small_gamma(name):
    module, records, _ = make(name, 4)
    made = probed(module, loss, records, Buckets(1, 32))

    def flat(module, rows):
        return 0 * loss(module, rows)

    for gamma in (1e-18, 1e-40, 1e-100):
        assert norm(total(module, records, keys(4), made, rule=Automatic(gamma=gamma))) > 0
        ours = clipped_gradient_sum(
            module, flat, records, None, 1.0, rule=Automatic(gamma=gamma), keys=keys(4), prepared=made
        )
        assert norm(ours) == 0


# ---- One unit more.


def neighbours(module, records, names, made, gone, **settings):
    others = torch.arange(len(records)) != gone
    more = total(module, records, names, made, **settings)
    fewer = total(module, records[others], names[others.numpy()], made, **settings)
    return float((more.flat.double() - fewer.flat.double()).norm())


@pytest.mark.parametrize("units", [2048, heavy(20_000), heavy(1_000_000)])
def test_one_unit_more_moves_aligned_units_by_at_most_the_clip(units):
    """Law 12 where rounding is systematic: alike records round alike. One float32 batch moved such sums by up to two clips."""
    module = deep()
    records = torch.randn(24, generator=torch.Generator().manual_seed(0)).repeat(units, 1)
    records[::3] = torch.randn(24, generator=torch.Generator().manual_seed(1))
    names = keys(units)
    made = probed(module, loss, records[:4], Buckets.of(units))
    for gone in (0, units // 2):
        records[gone] = 5 * torch.randn(24, generator=torch.Generator().manual_seed(2))
        for rule in (Flat(), PerGroup()) if units < 100_000 else (Flat(),):
            assert neighbours(module, records, names, made, gone, rule=rule) <= 0.9375


@pytest.mark.parametrize("name", ["linear", "conv2d"])
def test_one_unit_more_that_splits_a_bucket_moves_the_sum_by_at_most_the_clip(name):
    module, records, _ = make(name, 1)
    crowd, names = records.repeat(33, 1), keys(33)
    crowd[5] *= -3
    made = probed(module, loss, records, Buckets(1, 32))
    assert len(made.buckets.parts(names)) == 2
    for gone in range(0, 33, 4):
        assert len(made.buckets.parts(np.delete(names, gone))) == 1
        assert neighbours(module, crowd, names, made, gone, clip=0.01) <= 0.01


def test_all_buckets_but_one_are_the_same_bits(monkeypatch):
    """Replay over neighbours: whoever goes, the sums of all other parts stay bit for bit."""
    module, records = deep(), torch.randn(600, 24, generator=torch.Generator().manual_seed(0))
    names, made = keys(600), probed(module, loss, records[:4], Buckets(10, 64))
    seen = []
    whole = buckets.Contributions.sums

    def watched(self, n, bound):
        found = whole(self, n, bound)
        seen.append(b"".join(value.numpy().tobytes() for value in found[0].values()))
        return found

    monkeypatch.setattr(buckets.Contributions, "sums", watched)
    total(module, records, names, made)
    before, seen[:] = set(seen), []
    for gone in range(0, 600, 37):
        others = torch.arange(600) != gone
        total(module, records[others], names[others.numpy()], made)
        assert len(before - set(seen)) == 1
        seen.clear()


@pytest.mark.parametrize(
    ("kind", "size"),
    sweep(itertools.product(["outer", "explicit"], [16, 96, 368]), [("outer", 368), ("explicit", 16)].__contains__),
)
def test_sums_of_adversarial_rows_err_within_the_margin(size, kind):
    """Against exact sums of the same float32 values, in any order: large and small ones whose rounding goes one way. The bound is
    (m + 2) m 2^-24 clips; a product over rows is covered as a plain sum is."""
    random = np.random.default_rng(0)
    module = nn.Linear(3, 2, bias=False) if kind == "outer" else nn.Conv1d(1, 2, 3, bias=False)
    made = Buckets(1, size)
    worst = 0.0
    for _ in range(60):
        pattern = np.where(
            random.random(int(2 ** random.integers(0, 8))) < random.random(), 1.0, random.random() * 1e-3
        )
        sizes = torch.tensor(np.resize(pattern, size) * (1 + 1e-7 * random.random(size)), dtype=torch.float32)
        rows = torch.rand(3, generator=torch.Generator().manual_seed(1)) * sizes[:, None]
        shaped = rows if kind == "outer" else rows[:, None]

        def pulled(module, given):
            return module(given).flatten(1).sum(1)

        ready = probed(module, pulled, shaped[:4], made)
        names = keys(size)
        for clip in (0.7, 1e-4, 30.0):
            ours = clipped_gradient_sum(module, pulled, shaped, None, clip, keys=names, prepared=ready).flat
            exact = rows.double()[:, None, :].expand(size, 2, 3).flatten(1)
            bound = clip * (1 - made.margin)
            exact = (exact * (bound / exact.norm(dim=1, keepdim=True).clamp_min(bound))).sum(0)
            worst = max(worst, float((ours - exact).norm()) / clip)
    assert 0 < worst <= (size + 2) * size * 2.0**-24


def test_every_bucket_is_computed_at_one_shape():
    module, records, _ = make("linear", 100)
    made, shapes = probed(module, loss, records[:4], Buckets(2, 32)), set()

    def watched(module, rows):
        shapes.add(tuple(rows.shape))
        assert rows.data_ptr() % 64 == 0
        return loss(module, rows)

    for units in (1, 50, 100):
        clipped_gradient_sum(module, watched, records[:units], None, 1.0, keys=keys(units), prepared=made)
    assert shapes == {(32, 12)}


def test_a_contribution_stays_a_margin_below_the_clip():
    module, records, _ = make("linear", 1)
    made = probed(module, loss, records, Buckets(1, 320))
    assert norm(total(module, records, keys(1), made, 1e-3)) == pytest.approx(
        1e-3 * (1 - made.buckets.margin), rel=1e-6
    )
    assert made.buckets.margin > 0.0123


# ---- The probe.


@pytest.fixture
def unwatched(monkeypatch):
    """The probe of kernels by itself: operations that mix rows are refused before it."""
    monkeypatch.setattr(buckets, "row_wise", lambda *_: True)


@pytest.mark.usefixtures("unwatched")
def test_the_probe_finds_rows_that_depend_on_their_place_or_company():
    records = torch.randn(6, 12, generator=torch.Generator().manual_seed(0))

    def placed(module, rows):
        return loss(module, rows + torch.arange(len(rows))[:, None] * 2e-7)

    def companion(module, rows):
        return loss(module, rows) * (1 + rows.isnan().any() * 2.0**-20) + 0 * rows.nan_to_num().mean()

    def held(module, rows):
        return loss(module, rows + rows.mean() * 1e-6)

    assert probed(deep(12), loss, records, Buckets(1, 64)) is not None
    for moving in (placed, held):
        with pytest.raises(Moved):
            probed(deep(12), moving, records, Buckets(1, 64))
    poisoned = nn.Sequential(Leaking(), deep(12))
    with pytest.raises(Moved):
        probed(poisoned, loss, records, Buckets(1, 64))
    assert probed(deep(12), companion, records, Buckets(1, 64)) is not None  # made-up rows are finite


@pytest.mark.usefixtures("unwatched")
def test_the_probe_finds_a_kernel_that_rounds_few_values_by_their_place():
    """As torch's sigmoid does, where a tensor ends in fewer values than its vectors hold: one value in fifty, in the last places."""
    records = torch.randn(12, 12, generator=torch.Generator().manual_seed(0))

    def ends(module, rows):
        found = module(rows)[:, 0]
        rare, late = (found.detach() * 4096).frac().abs() < 0.02, torch.arange(len(rows)) >= 48
        return (found * torch.where(rare & late, 1 + 2.0**-22, 1.0)).square()

    with pytest.raises(Moved):
        probed(deep(12), ends, records, Buckets(1, 64))


@pytest.mark.parametrize("function", [torch.sigmoid, functional.softplus, functional.silu, functional.elu, torch.exp])
def test_at_the_size_of_a_bucket_no_value_is_rounded_by_its_place(function):
    random = torch.Generator().manual_seed(0)
    for size in (STEP, 3 * STEP, 11 * STEP):
        values, order = torch.randn(100, size, generator=random), torch.randperm(size, generator=random)
        assert all(torch.equal(function(row)[order], function(row[order])) for row in values)


@pytest.mark.usefixtures("unwatched")
def test_the_probe_sees_through_layers_that_are_zero_at_first():
    """Such as the last one of a diffusion network: with its weights all gradients before it are zero, and alike in every place."""
    records = torch.randn(4, 12, generator=torch.Generator().manual_seed(0))
    for placed in (False, True):
        module = nn.Sequential(nn.Linear(12, 8), Placed(placed), nn.Linear(8, 1))
        nn.init.zeros_(module[2].weight)
        nn.init.zeros_(module[2].bias)
        before = [value.clone() for value in module.parameters()]
        if placed:
            with pytest.raises(Moved):
                probed(module, loss, records, Buckets(1, 64))
        else:
            assert probed(module, loss, records, Buckets(1, 64)) is not None
        assert all(map(torch.equal, before, module.parameters()))


class Placed(nn.Module):
    """Rounds the gradient, but no value, by a row's place."""

    def __init__(self, on):
        super().__init__()
        self.on = on

    def forward(self, rows):
        bent = rows * (1 + self.on * torch.arange(len(rows))[:, None] * 2e-7)
        return rows.detach() + (bent - bent.detach())


class Leaking(nn.Module):
    """Lets a row's neighbours know of an infinity."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 12)

    def forward(self, rows):
        found = self.first(rows)
        return found + 1e-6 * (~found.isfinite()).any()


class Unheard:
    """Noise that lets the last bits of sums be seen."""

    def added_flat(self, sums, deviation):  # noqa: ARG002
        return sums.double()


def question(module, expected):
    return Gradient(module, coded, 0.5, 1.0, expected=expected)


def coded(module, codes):
    return module(codes.double()).squeeze(1)  # layers in float32 take it


def sample(units, seed=0):
    codes = np.random.default_rng(seed).integers(0, 5, (units, 12)).astype(np.int16)
    return Records(units, np.arange(units), None, codes, 1, keys(units))


def test_without_invariant_rounding_the_gradient_is_float64_and_says_so(monkeypatch):
    module, data = deep(12), sample(40)
    asked = question(module, 40)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "equal", lambda *_: False)
        for _, _, answer in asked.by_row:
            answer(data.codes[:12])
    with pytest.warns(InFloat64, match="float64"):
        found = asked.bounded(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = asked.bounded(data)  # once is enough
    exact = question(module, None).bounded(data)
    assert torch.equal(found.flat, exact.flat)
    assert torch.equal(again.flat, exact.flat)


def test_a_question_is_answered_in_buckets_only_after_its_probe(monkeypatch):
    module, data = deep(12), sample(90)
    exact = question(module, None).bounded(data).flat
    asked = question(module, 90)
    assert torch.equal(asked.bounded(data).flat, exact)
    assert all(not np.any(answer(data.codes[:12])) for name, _, answer in asked.by_row if name.startswith("rounding"))
    rounded = asked.bounded(data).flat
    assert not torch.equal(rounded, exact)
    assert float((rounded - exact).norm()) < 0.02 * float(exact.norm())  # the margin
    assert torch.equal(question(module, 1e9).bounded(data).flat, exact)  # other buckets, never probed
    assert torch.equal(question(deep(12), 90).bounded(data).flat, exact)  # another module


@pytest.mark.parametrize("rule", [Flat(), PerGroup(shares=(0.3, 1.0)), PerGroup(noise="dimension")])
def test_noise_does_not_tell_in_which_type_a_sum_came(rule):
    """A sum of one part is float32, of two float64: whether a bucket was overfull is the records' secret."""
    asked = Gradient(deep(12), coded, 0.5, 1.0, expected=90.0, rule=rule)
    for _, _, answer in asked.by_row:
        answer(sample(12).codes)
    short = asked.bounded(sample(90))
    wide = Gradients(short.flat.double(), short)
    assert short.flat.dtype == torch.float32
    assert torch.equal(*(asked.noised(each, Noise(seed=5)).flat for each in (short, wide)))
    assert torch.equal(*(asked.noised(each, Unheard()).flat for each in (short, wide)))  # what the noise is added to
    assert asked.noised(short, Noise(seed=5)).flat.dtype == torch.float32


def test_units_of_several_records_and_microbatches_take_float64():
    module = deep(12)
    data = sample(40)
    twice = Records(20, np.repeat(np.arange(20), 2), None, data.codes, 2, keys(20))
    for records, settings in ((twice, {}), (data, {"microbatches": 5})):
        asked, exact = (Gradient(module, coded, 0.5, 1.0, expected=each, **settings) for each in (20.0, None))
        for _, _, answer in asked.by_row:
            answer(data.codes[:12])
        assert torch.equal(asked.bounded(records).flat, exact.bounded(records).flat)


def test_another_module_is_refused():
    module, records, _ = make("linear", 4)
    with pytest.raises(BadInput, match="another module"):
        total(deep(12), records, keys(4), probed(module, loss, records, Buckets(1, 32)))


def test_of_a_few_modules_the_probe_is_remembered():
    modules = [deep(12) for _ in range(buckets.KEPT + 2)]
    rows = torch.randn(4, 12)
    assert all(prepared(module, loss, 20, rows) is not None for module in modules)
    assert prepared(modules[0], loss, 20) is None
    assert prepared(modules[-1], loss, 20) is not None


@pytest.mark.parametrize("hidden", [8, heavy(32)])
def test_elsewhere_the_sums_are_those_of_the_cpu(hidden, monkeypatch):
    """On a stand-in for a device, with nothing to wait for once the probe is done."""
    data, answers = sample(90), []
    with elsewhere(monkeypatch) as mode:
        for device in (torch.device("cpu"), DEVICE):
            asked = question(deep(12, hidden).to(device), 40)
            for _, _, answer in asked.by_row:
                answer(data.codes[:12])
            mode.waits.clear()
            answers.append(asked.bounded(data).flat.cpu())
            assert prepared(asked.module, asked.loss, 40) is not None
    assert not mode.waits or set(mode.waits) == {"tests"}
    assert torch.equal(*answers)


@pytest.mark.parametrize("good", [True, False], ids=["good at float64", "poor at float64"])
def test_on_a_gpu_rows_are_formed_and_networks_without_any_take_float64_where_it_is_fast(monkeypatch, good):
    monkeypatch.setattr(buckets, "_fast_doubles", lambda _: good)
    wide = nn.Sequential(nn.Unflatten(1, (2, 12)), nn.Linear(12, 400), nn.Flatten(), nn.Linear(800, 1))
    for module, on_a_cpu, on_a_gpu in ((deep(), True, not good), (wide, False, True)):
        made = bookkeeping.backward(module, loss, torch.randn(32, 24), bookkeeping.survey(module)[1])
        assert buckets._fit(made, 32, torch.device("cpu")) == on_a_cpu
        assert buckets._fit(made, 32, torch.device("cuda")) == on_a_gpu
    assert not buckets._fit(made, buckets.EXPLICIT_ON_GPU // 4800 + 1, torch.device("cuda")), "too many numbers"
