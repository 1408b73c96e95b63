"""Clipping rules against one unit at a time, the numbers that strategies are made of, and the count beside a gradient."""

import itertools
import math

import pytest
import torch
from gradient_sums import clipped_by_definition, clipped_gradient_sum, per_unit_reference, unit_gradients
from modules import FALLEN_BACK, FOLLOWED, MODULES, gap, loss, make, norm
from sweeps import heavy, sweep

from synthdp.accounting.charges import combined
from synthdp.errors import BadInput
from synthdp.seal.clipping import ALLOCATIONS, Automatic, PerGroup, adapted, by_dimension, decayed, layout, proportional
from synthdp.seal.gradients import FLAT, MARGIN, sum_and_count

RULES = {
    "flat": FLAT,
    "automatic": Automatic(),
    "automatic, large gamma": Automatic(gamma=2.0),
    "per layer": PerGroup(),
    "per layer, by dimension": PerGroup(noise="dimension"),
}
# Of the modules; with the rule that is usual, test_gradients takes each.
FEW = {"linear", "linear over positions", "conv2d", "layer norm", "sequence", "mixed", "own parameter"}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("name", sweep(MODULES, FEW.__contains__))
def test_every_rule_equals_one_unit_at_a_time(name, size, rule):
    module, records, mask = make(name, 5, size)
    gradients = unit_gradients(module, loss, records, mask)
    for clip in (0.05, 1.5, 1e4):
        reference = clipped_by_definition(gradients, module, clip, RULES[rule])
        assert gap(clipped_gradient_sum(module, loss, records, mask, clip, rule=RULES[rule]), reference) < 1e-5


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [heavy("linear"), "mixed", heavy("sequence"), "own parameter"])
def test_the_chunk_changes_nothing(name, rule):
    module, records, mask = make(name, 9, 2)
    counts = torch.arange(1, 10)
    whole, count = sum_and_count(module, loss, records, mask, 0.5, rule=RULES[rule], counts=counts)
    for microbatch in (1, 4):
        more, again = sum_and_count(
            module, loss, records, mask, 0.5, rule=RULES[rule], counts=counts, microbatch=microbatch
        )
        assert gap(more, whole) < 1e-5
        assert again == pytest.approx(count, abs=1e-4)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["linear", "mixed", "own parameter"])
def test_means_of_microbatches_equal_one_at_a_time(name, rule):
    module, records, mask = make(name, 6, 4)
    counts = torch.tensor([1, 2, 4, 3, 1, 2])
    reference = per_unit_reference(module, loss, records, mask, 20.0, RULES[rule], counts)
    ours = clipped_gradient_sum(module, loss, records, mask, 20.0, rule=RULES[rule], counts=counts)
    assert gap(ours, reference) < 1e-5
    assert gap(ours, clipped_gradient_sum(module, loss, records, mask, 20.0, rule=RULES[rule])) > 1e-3


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["linear", "mixed", "own parameter"])
@pytest.mark.parametrize("poison", [float("nan"), heavy(float("inf"))])
def test_what_is_not_finite_contributes_zero_under_every_rule(name, rule, poison):
    module, records, _ = make(name, 6)
    keep = [0, 1, 3, 4, 5]

    def poisoned(module, rows):
        return loss(module, rows.clamp(-9, 9)) * torch.where(rows[:, -1] > 50, poison, 1.0)

    expected = clipped_gradient_sum(module, loss, records[keep], None, 1.0, rule=RULES[rule])
    records[2, -1] = 99.0
    assert gap(clipped_gradient_sum(module, poisoned, records, None, 1.0, rule=RULES[rule]), expected) < 1e-5


def in_units_of_its_bound(sums, rule):
    """By group: the norm over the group's bound at clip 1."""
    groups = layout(rule, {name: value.numel() for name, value in sums.items()})
    parts = {}
    for name, value in sums.items():
        parts.setdefault(groups.places[name], {})[name] = value
    return [norm(part) / groups.bounds[place] for place, part in sorted(parts.items())]


@pytest.mark.parametrize("name", MODULES)
def test_each_layer_of_a_unit_far_above_its_bound_is_scaled_onto_it(name):
    module, records, _ = make(name, 1, seed=1)
    reached = in_units_of_its_bound(
        clipped_gradient_sum(module, loss, records, None, 1e-4, rule=PerGroup()), PerGroup()
    )
    assert all(value <= 1e-4 for value in reached)
    # A layer before a normalisation may have no gradient at all.
    assert [value for value in reached if value > 1e-6] == pytest.approx(
        [1e-4 * (1 - MARGIN)] * len([value for value in reached if value > 1e-6]), rel=2e-6
    )
    assert max(reached) > 1e-6


@pytest.mark.parametrize("name", sweep([*FOLLOWED, *FALLEN_BACK], FEW.__contains__))
def test_automatic_clipping_stays_below_the_clip_whatever_the_gradient_is(name):
    module, records, _ = make(name, 1, seed=1)
    for scale in (1e-6, 1.0, 1e12):
        ours = clipped_gradient_sum(
            module, lambda m, rows, scale=scale: scale * loss(m, rows), records, None, 0.5, rule=Automatic()
        )
        assert norm(ours) < 0.5


@pytest.mark.parametrize("rule", RULES)
def test_one_unit_more_moves_a_crowd_by_at_most_the_clip(rule):
    module, records, _ = make("linear", 1)
    crowd = records.expand(2048, -1)
    before = clipped_gradient_sum(module, loss, crowd, None, 0.01, rule=RULES[rule])
    after = clipped_gradient_sum(module, loss, torch.cat([-3 * records, crowd]), None, 0.01, rule=RULES[rule])
    assert norm({key: after[key].double() - before[key].double() for key in after}) <= 0.01


def test_groups_may_split_a_layer_and_have_shares_of_their_own():
    module, records, mask = make("linear", 5, 3)
    rule = PerGroup(groups=(("0.weight", "2"), ("0.bias",)), shares=(4.0, 3.0))
    ours = clipped_gradient_sum(module, loss, records, mask, 1e-3, rule=rule)
    assert gap(ours, per_unit_reference(module, loss, records, mask, 1e-3, rule)) < 1e-5
    one = clipped_gradient_sum(module, loss, records[:1], None if mask is None else mask[:1], 1e-3, rule=rule)
    assert norm({name: value for name, value in one.items() if name != "0.bias"}) == pytest.approx(8e-4, rel=2e-4)
    assert norm({"0.bias": one["0.bias"]}) == pytest.approx(6e-4, rel=2e-4)


@pytest.mark.parametrize(
    ("rule", "word"),
    [
        (PerGroup(groups=(("0",),)), "2.weight"),
        (PerGroup(groups=(("0", "2"), ("2.bias",))), "2.bias"),
        (PerGroup(shares=(1.0,)), "2 groups and 1 shares"),
    ],
)
def test_groups_that_do_not_fit_the_module_are_refused(rule, word):
    module, records, _ = make("linear", 2)
    with pytest.raises(BadInput, match=word):
        clipped_gradient_sum(module, loss, records, None, 1.0, rule=rule)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: PerGroup(shares=(1.0, 0.0)),
        lambda: PerGroup(shares=(1e-200, 1.0)),
        lambda: PerGroup(noise="x"),
        lambda: Automatic(gamma=0.0),
        lambda: Automatic(gamma=1e-310),
    ],
)
def test_rules_that_make_no_sense_are_refused(bad):
    with pytest.raises(BadInput):
        bad()


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_the_groups_noises_combine_to_the_total(allocation):
    noises = ALLOCATIONS[allocation](1.3, (5, 1, 400))
    assert combined(noises) == pytest.approx(1.3, rel=1e-12)


def test_allocations_are_what_they_say():
    assert combined((2.0, 3.0, 6.0)) == pytest.approx(1.6035674514, abs=1e-10)  # law 7
    assert len(set(proportional(2.0, (7, 90, 3)))) == 1
    sizes = (7, 90, 3)
    lengths = [z * math.sqrt(size) for z, size in zip(by_dimension(2.0, sizes), sizes, strict=True)]
    assert lengths == pytest.approx([lengths[0]] * 3)


@pytest.mark.parametrize(
    "rule",
    [
        PerGroup(),
        PerGroup(shares=(3.0, 1.0), noise="dimension"),
        PerGroup(shares=(2.0, 5.0)),
        PerGroup(shares=(2.0, 5.0), noise=(0.5, 4.0)),
    ],
)
def test_bounds_and_scales_of_groups_make_up_one_query(rule):
    groups = layout(rule, {"0.weight": 108, "0.bias": 9, "2.weight": 9, "2.bias": 1})
    assert math.hypot(*groups.bounds) == pytest.approx(1.0)
    pairs = zip(groups.bounds, groups.scales, strict=True)
    assert math.hypot(*(bound / scale for bound, scale in pairs)) == pytest.approx(1.0)


def test_adaptive_clipping_s_numbers():
    """Law 7, and the update of Andrew et al. 2021 by hand."""
    assert combined((1.106716, 2 * 5.0)) == pytest.approx(1.1, abs=1e-6)
    moved = adapted(2.0, 0.8, quantile=0.5, rate=0.2, first=1.0)
    assert moved == pytest.approx(2.0 * math.exp(-0.06))
    assert adapted(2.0, 0.5, quantile=0.5, rate=0.2, first=1.0) == 2.0
    for share in (-1e300, -1e5, 1e5, 1e300):
        assert 1e-3 <= adapted(1.0, share, quantile=0.5, rate=0.2, first=1.0) <= 1e3


def test_decay_goes_from_the_clip_to_its_last_share():
    clips = [decayed(4.0, step, 50, 0.25) for step in range(51)]
    assert clips[0] == 4.0
    assert clips[-1] == pytest.approx(1.0)
    ratios = [after / before for before, after in itertools.pairwise(clips)]
    assert ratios == pytest.approx([ratios[0]] * 50)


def norms_one_by_one(module, records, mask=None):
    found = []
    for place in range(len(records)):
        rows = records[place : place + 1] if mask is None else records[place][mask[place]]
        parts = torch.autograd.grad(loss(module, rows).sum(), list(module.parameters()), allow_unused=True)
        found.append(math.sqrt(sum(float(part.double().square().sum()) for part in parts if part is not None)))
    return found


@pytest.mark.parametrize("rule", ["flat", heavy("automatic"), "per layer"])
@pytest.mark.parametrize("name", ["linear", "mixed", "own parameter"])
@pytest.mark.parametrize("size", [None, 2])
def test_the_count_is_that_of_the_norms(name, rule, size):
    module, records, mask = make(name, 40, size)
    if mask is not None:
        mask[:, 0] = True
    norms = norms_one_by_one(module, records, mask)
    clip = sorted(norms)[len(norms) // 3] * 1.001
    ramp = [min(max((1.05 - value / clip) / 0.1, 0.0), 1.0) - 0.5 for value in norms]
    sums, count = sum_and_count(module, loss, records, mask, clip, rule=RULES[rule])
    assert count == pytest.approx(sum(ramp) * (1 - MARGIN), abs=1e-3)
    assert gap(sums, clipped_gradient_sum(module, loss, records, mask, clip, rule=RULES[rule])) == 0


def test_a_unit_moves_the_count_by_at_most_a_half_whatever_it_holds():
    module, records, _ = make("linear", 30)
    _, before = sum_and_count(module, loss, records, None, 1.0)
    for value in (0.0, 1e30, float("inf"), float("nan")):
        _, after = sum_and_count(module, loss, torch.cat([records, torch.full((1, 12), value)]), None, 1.0)
        assert abs(after - before) <= 0.5
    assert sum_and_count(module, loss, records[:0], None, 1.0)[1] == 0
    # units without records count alike, alone and in company
    mask = torch.zeros(3, 2, dtype=torch.bool)
    spare = torch.zeros(3, 2, 12)
    _, alone = sum_and_count(module, loss, spare, mask, 1.0)
    mask[0, 0] = True
    _, company = sum_and_count(module, loss, spare, mask, 1.0)
    assert alone == pytest.approx(1.5 * (1 - MARGIN))
    assert abs(company - alone) <= 1.0


def test_counts_of_the_wrong_shape_are_refused():
    module, records, _ = make("linear", 4)
    with pytest.raises(BadInput, match="counts"):
        clipped_gradient_sum(module, loss, records, None, 1.0, counts=torch.ones(3))
