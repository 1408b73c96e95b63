"""Every question: bounded movement when one unit comes or goes, and noise of the deviation that it charges."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_schema
from scipy.stats import kstest, norm

from synthdp import BadInput, Budget, Synthesizer
from synthdp.ledger.events import Gaussian, Threshold
from synthdp.noise import gaussian
from synthdp.noise.noise import Noise
from synthdp.schema.codec import Codec
from synthdp.schema.learned import (
    BLOCKS,
    CELLS,
    FEWEST,
    FEWEST_BINS,
    MOST_BINS,
    cuts,
    fine_edges,
    nearest_counts,
    occupied,
    quantiles,
    spikes,
    tightened,
    together,
    with_atoms,
)
from synthdp.schema.schema import Schema
from synthdp.schema.trees import Tree
from synthdp.seal.choice import Chosen, Dependence, Misfit
from synthdp.seal.clipping import MARGIN, Automatic, PerGroup
from synthdp.seal.gradients.question import Counted, Gradient, Together
from synthdp.seal.learn import SIGNED_POWERS, Domain, Grid, Size
from synthdp.seal.marginals import Distance, Marginals
from synthdp.seal.processes import AllShards, Ranks
from synthdp.seal.records import seal
from synthdp.seal.vectors import Group, Joint, Scaled, Sums

SCHEMA = make_schema(unit="patient", max_records_per_unit=3)
CODEC = Codec(SCHEMA)


def one_hot(codes):
    return np.concatenate([np.eye(size)[codes[:, place]] for place, size in enumerate(CODEC.sizes)], axis=1)


WIDTH = sum(CODEC.sizes)


def loss(module, codes):
    flat = torch.cat([torch.nn.functional.one_hot(codes[:, p].long(), s) for p, s in enumerate(CODEC.sizes)], 1).float()
    return torch.nn.functional.softplus(-module(flat)).squeeze(1)


def network():
    generator = torch.Generator().manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(WIDTH, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    for parameter in module.parameters():
        parameter.data.normal_(0, 0.5, generator=generator)
    return module


QUESTIONS = {
    "sums": Sums((Group(one_hot, WIDTH, 1.5, 2.0), Group(lambda c: 1e9 * one_hot(c)[:, :3], 3, 0.1, 4.0))),
    "marginals": Marginals(((0,), (1, 2), (0, 1, 4)), CODEC.sizes, 2.0, 3),
    "asked twice": Marginals(((0,), (1, 2), (0,)), CODEC.sizes, 2.0, 3),
    "grouped": Marginals(
        ((0,), (1, 2), (0, 1, 4)), CODEC.sizes, 2.0, 3, tuple(np.arange(size) // 2 for size in CODEC.sizes)
    ),
    "distance": Distance(
        ((0,), (1, 2)), CODEC.sizes, (np.full(CODEC.sizes[0], 2.0), np.full(CODEC.sizes[1:3], 0.1)), 2.0
    ),
    "misfit": Chosen(
        ((0,), (1, 2)),
        CODEC.sizes,
        Misfit(
            expected=(np.full(CODEC.sizes[0], 2.0), np.full(CODEC.sizes[1:3], 0.1)),
            weights=(1.0, 0.5),
            offsets=(0.0, 9.0),
        ),
        1.0,
        3,
    ),
    "dependence": Chosen(
        ((0, 1), (1, 0, 4)), CODEC.sizes, Dependence(), 1.0, 3, tuple(np.arange(size) // 2 for size in CODEC.sizes)
    ),
    "gradient": Gradient(network(), loss, 0.7, 2.0),
    "per layer": Gradient(network(), loss, 0.7, 2.0, PerGroup(shares=(1.0, 2.0), noise="dimension")),
    "automatic": Gradient(network(), loss, 0.7, 2.0, Automatic()),
    "microbatches": Gradient(network(), loss, 0.7, 2.0, PerGroup(), 4),
    "joint": Joint(
        (Scaled(one_hot, WIDTH, alpha=1 / 3), Scaled(lambda c: 1e9 * one_hot(c)[:, :3], 3, alpha=1e3)), 1.5, 2.0
    ),
    "counted": Counted(Gradient(network(), loss, 0.7, 2.0), 1.0),
    "together": Together((Gradient(network(), loss, 0.7, 2.0), Sums((Group(one_hot, WIDTH, 1.5, 2.0),)))),
    "size": Size(3.0),
    "grid": Grid("age", tuple(range(0, 101, 10)), 2.0, 3),
    "powers": Grid("dose", SIGNED_POWERS, 2.0, 3),
    "dates": Grid("seen", (1.5e15, 1.6e15, 1.7e15), 2.0, 3, dates=True),
    "domain": Domain("sex", 2.0, 1e-6, 3),
    "tree": Domain("sex", 2.0, 1e-6, 6, Tree(prefix=(1,), codes="learn")),
    "public tree": Domain("sex", 2.0, 1e-6, 6, Tree(prefix=(1,), codes=("female", "male", "never declared"))),
}
RAW = ("grid", "powers", "dates", "domain", "tree", "public tree")


def sealed(frame, name):
    records = seal(frame, SCHEMA, b"k" * 32)
    return records if name in RAW else records.encoded_by(CODEC)


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("rows", [0, 3, 90])
@pytest.mark.parametrize("awful", [False, True])
def test_one_unit_moves_the_bounded_value_by_at_most_the_sensitivity(name, rows, awful):
    question = QUESTIONS[name]
    frame = make_frame(rows, repeats=3)
    extra = make_frame(5, seed=99).assign(patient="p-new")
    if awful:
        bad = {
            "age": [math.nan, math.inf, 1e30, -1e30, 5],
            "dose": 1e30,
            "sex": "never declared",
            "seen": pd.NaT,
            "ill": None,
        }
        extra = extra.assign(**bad)
    more = pd.concat([frame, extra], ignore_index=True) if rows else extra
    before = question.bounded(sealed(frame.astype(object) if rows == 0 else frame, name))
    after = question.bounded(sealed(more, name))
    moved = question.movement(before, after)
    assert moved <= question.sensitivity * (1 + 1e-9)
    if not awful:
        assert moved > 0


@pytest.mark.parametrize("name", ["marginals", "asked twice", "grouped"])
def test_units_fill_the_sensitivity_where_it_is_tight(name):
    same = pd.concat([make_frame(1, seed=4)] * 3, ignore_index=True).assign(patient="p-new")
    empty = sealed(make_frame(0), name)
    question = QUESTIONS[name]
    assert question.movement(question.bounded(empty), question.bounded(sealed(same, name))) == pytest.approx(
        question.sensitivity
    )


@pytest.mark.parametrize(
    ("name", "deviation"),
    [
        ("size", 3.0),
        ("grid", 6.0),
        ("marginals", 2.0 * 3 * 3**0.5),
        ("grouped", 2.0 * 3 * 3**0.5),
        ("distance", 2.0),
        ("public tree", 2.0 * 6**0.5),
    ],
)
def test_the_noise_drawn_is_the_noise_charged(name, deviation):
    question, noise = QUESTIONS[name], Noise(1)
    records = sealed(make_frame(3000, repeats=3), name)
    exact = question.bounded(records)
    draws = []
    while sum(map(len, draws)) < 500:  # of a single number, sixty answers are not enough to tell half of the noise
        answer = question.noised(exact, noise)
        pairs = zip(answer, exact, strict=True) if isinstance(answer, list) else [(answer, exact)]
        draws += [np.ravel(np.asarray(a) - np.asarray(b)) for a, b in pairs]
    pooled = np.concatenate(draws)
    assert kstest(pooled, norm(0, deviation).cdf).pvalue > 1e-4


def test_each_group_of_a_sum_has_the_noise_that_it_is_charged():
    question, noise = QUESTIONS["sums"], Noise(4)
    assert list(question.events) == [Gaussian(2.0), Gaussian(4.0)]
    exact = question.bounded(sealed(make_frame(0), "sums"))
    answers = [question.noised(exact, noise) for _ in range(1000)]
    for place, deviation in enumerate((2.0 * 1.5, 4.0 * 0.1)):
        drawn = np.concatenate([answer[place] for answer in answers])
        assert kstest(drawn, norm(0, deviation).cdf).pvalue > 1e-4


def test_a_distance_is_the_one_counted_by_hand():
    question, frame = QUESTIONS["distance"], make_frame(30, repeats=3)
    records = sealed(frame, "distance")
    tables = np.zeros(CODEC.sizes[0]), np.zeros(CODEC.sizes[1:3])
    for unit, codes in zip(records.owner, records.codes, strict=True):
        share = 1 / (records.owner == unit).sum()
        tables[0][codes[0]] += share
        tables[1][codes[1], codes[2]] += share
    apart = [np.abs(mine - its).sum() for mine, its in zip(tables, question.expected, strict=True)]
    assert question.bounded(records) == pytest.approx(MARGIN * sum(apart) / 2, rel=1e-12)
    with pytest.raises(BadInput, match="shape"):
        Distance(((0,),), CODEC.sizes, (np.zeros(CODEC.sizes[0] + 1),), 1.0)


def test_the_gradient_s_noise_is_its_charge_and_differs_each_time():
    question = Gradient(network(), loss, 0.7, 2.0)
    records, noise = sealed(make_frame(0), "gradient"), Noise(2)
    exact = question.bounded(records)
    assert all(not value.any() for value in exact.values())
    first, second = question.noised(exact, noise), question.noised(exact, noise)
    flat = torch.cat([value.ravel() for value in first.values()]).double().numpy()
    assert kstest(flat, norm(0, 1.4).cdf).pvalue > 1e-4
    other = torch.cat([value.ravel() for value in second.values()]).double().numpy()
    assert abs(np.corrcoef(flat, other)[0, 1]) < 0.2


@pytest.mark.heavy
def test_domain_threshold_lets_a_lone_category_through_with_probability_delta():
    question = Domain("sex", 1.0, 0.05, 1)
    noise = Noise(3)
    passed = sum("alone" in question.noised({"alone": 1.0}, noise) for _ in range(4000))
    assert passed / 4000 == pytest.approx(0.05, abs=5 * (0.05 * 0.95 / 4000) ** 0.5)


@pytest.mark.parametrize("categories", [1, 3])
@pytest.mark.parametrize("noise", [0.3, 0.77, 1.0, 1.9, 5.2, 31.0])
def test_no_lone_category_passes_the_threshold_by_being_rounded_up(noise, categories):
    question = Domain("sex", noise, 1e-3, categories)
    step = gaussian.Grid.of(question.deviation, torch.float64).step
    least = step * (math.floor(question.threshold / step) + 1)  # the least noisy count that passes
    each = norm.sf((least - step / 2 - 1) / question.deviation)
    assert 0.9e-3 < -math.expm1(categories * math.log1p(-each)) <= 1e-3 * (1 + 1e-9)


def test_the_order_of_learned_categories_is_not_that_of_the_records():
    assert Domain("sex", 1.0, 1e-6, 1).noised({"b": 1e6, "c": 1e6, "a": 1e6}, Noise(3)) == ("a", "b", "c")


LETTERS = [a + b + c for a in "ab" for b in "01" for c in "xy"]


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("codes", ["learn", tuple(LETTERS), tuple(LETTERS[:3])])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_unit_moves_a_tree_s_counts_by_more_than_is_charged(most, codes, relation):
    """Every set of so many codes that one unit may hold, beside others, twice for replace_one: a unit adds one to a node at most."""
    tree = Tree(prefix=(1, 2), codes=codes)
    question = Domain("code", 1.0, 1e-6, most * 3, tree)
    others = pd.DataFrame({"code": ["a0x", "b1y", "zz", None], "patient": ["p", "p", "q", "r"]})
    declared = {
        "patient": {"kind": "identifier"},
        "code": {"kind": "categorical", "categories": "learn", "missing": True},
    }
    schema = Schema.from_dict({"columns": declared, "unit": "patient", "max_records_per_unit": most})

    def counted(codes):
        unit = pd.DataFrame({"code": list(codes), "patient": "new"}) if codes else others[:0]
        return question.bounded(seal(pd.concat([others, unit], ignore_index=True), schema, b"k" * 32))

    held = [(), *itertools.combinations_with_replacement([*LETTERS, "zzz"], most), ("a0x",) * (most + 2)]
    found = [counted(each) for each in held]
    moved = max(question.movement(found[0], each) for each in found)
    assert moved <= question.sensitivity == pytest.approx((most * 3) ** 0.5)
    squares = {} if codes == "learn" else dict(zip(tree.nodes, tree.weights**2, strict=True))
    reached = ({node for code in each for node in tree.chain(code)} for each in held)
    most_squares = max(sum(squares.get(node, float(codes == "learn")) for node in nodes) for nodes in reached)
    assert moved == pytest.approx(most_squares**0.5), "each node once, with its weight"
    if relation == "replace_one":
        twice = max(question.movement(one, other) for one, other in itertools.combinations(found, 2))
        assert twice <= 2 * question.sensitivity


def test_a_level_of_many_nodes_is_counted_more_exactly_and_what_stands_clear_of_a_public_tree_is_kept():
    codes = tuple(f"{letter}{number:03d}" for letter in "abcd" for number in range(400))
    question = Domain("sex", 20.0, 1e-6, 2, Tree(prefix=(1,), codes=codes))
    counts = np.array([4000.0 if len(node) == 1 else 300.0 * (node[1:] < "030") for node in question.tree.nodes])
    noise = Noise(1)
    answers = np.array([question.noised(counts * question.tree.weights, noise) for _ in range(300)])
    spread = {size: answers[:, [len(node) == size for node in question.tree.nodes]].std(0).mean() for size in (1, 4)}
    assert spread[1] / spread[4] == pytest.approx(400**0.25, rel=0.1)
    assert spread[4] == pytest.approx(question.deviations.min(), rel=0.02)
    lone = [len(node) == 4 and node[1:] >= "030" for node in question.tree.nodes]
    empty = {node for node, nobody in zip(question.tree.nodes, lone, strict=True) if nobody}
    for answer in answers:
        kept = set(question.passed(answer))
        assert set(question.tree.nodes) - empty <= kept, "ten deviations up"
        assert len(kept & empty) < 0.5 * len(kept)
    shares = [len(set(question.passed(answer)) & empty) / len(question.passed(answer)) for answer in answers]
    assert 0.1 < np.mean(shares) < 0.25, "a fifth of what is kept"


def test_a_public_tree_is_charged_as_a_gaussian_and_any_other_as_a_threshold():
    public, learned = QUESTIONS["public tree"], QUESTIONS["tree"]
    assert list(public.events) == [Gaussian(2.0)]
    assert list(learned.events) == [Threshold(2.0, 1e-6, 6)]
    assert public.bounded(sealed(make_frame(0).astype(object), "public tree")).shape == (len(public.tree.nodes),)
    noisy = [public.passed(public.noised(np.zeros(6), Noise(seed))) for seed in range(400)]
    assert 35 < sum(map(bool, noisy)) < 130, "where nobody has any code, a fifth of the fits keep one"
    with pytest.raises(BadInput, match="at most 2 records"):
        Domain("sex", 2.0, 1e-6, 4, public.tree).bounded(sealed(make_frame(9), "public tree"))


def test_bounds_and_quantiles_from_clear_counts():
    counts = np.zeros(len(SIGNED_POWERS) - 1)
    counts[SIGNED_POWERS.index(1.0)] = 500
    counts[SIGNED_POWERS.index(64.0)] = 500
    assert occupied(SIGNED_POWERS, counts, 5.0) == (1.0, 128.0)
    hidden = np.zeros(len(counts))
    hidden[7] = 3.0  # the fullest cell of noise says nothing
    assert occupied(SIGNED_POWERS, hidden, 5.0) == (SIGNED_POWERS[0], SIGNED_POWERS[-1])
    assert fine_edges((0, 99), np.ones(1), 1e9, 1.0, integers=True) == tuple(range(101))
    assert quantiles([0.0, 1.0, 2.0], np.array([10.0, 10.0]), [0.25, 0.5, 0.75]) == [0.5, 1.0, 1.5]
    assert cuts([0.0, 1.0, 2.0], np.array([-5.0, -5.0]), 5.0)[:: FEWEST_BINS // 2] == [0.0, 1.0, 2.0]


def test_a_long_tail_is_counted_in_few_cells_and_few_records_in_wide_ones():
    parts, mass = (0.0, 1.0, 2.0, 4.0, 8.0), np.array([0.0, 900.0, 90.0, -5.0])
    edges = np.array(fine_edges(parts, mass, 1e6, 1.0, integers=False))
    cells = [int(((edges[:-1] >= low) & (edges[:-1] < high)).sum()) for low, high in itertools.pairwise(parts)]
    assert cells == [FEWEST, round(CELLS * 90 / 99), round(CELLS * 9 / 99), FEWEST]
    assert set(parts) <= set(edges)
    few = fine_edges(parts, mass, 2000.0, 10.0, integers=False)
    assert len(few) - 1 == 2 * FEWEST + round(100 * 90 / 99) + round(100 * 9 / 99), "2,000 records, 20 to a cell"
    assert len(fine_edges(parts, mass, 10.0, 100.0, integers=False)) > BLOCKS, "however few"
    assert max(len(f"{edge:g}") for edge in fine_edges((0.0, 0.3), np.ones(1), 1e6, 1.0, integers=False)) <= 8
    whole = fine_edges((-2.0, -1.0, 0.0, 3.0), np.ones(3), 1e9, 1.0, integers=True)
    assert whole == (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0)


def test_learned_bins_are_finer_towards_the_ends_and_end_where_the_records_do():
    """A bin from the last of 32 quantiles to the end of the bounds would spread its records over that whole range."""
    edges = np.linspace(0, 100, 101).tolist()
    rng = np.random.default_rng(6)
    counts = np.histogram(rng.gamma(4, 5, 40_000), edges)[0] + rng.normal(0, 10, 100)
    found = np.array(cuts(edges, counts, 10.0))
    assert MOST_BINS + 4 <= len(found) <= MOST_BINS + 16
    real = rng.gamma(4, 5, 100_000)
    inside = found[(found > np.quantile(real, 0.97)) & (found < real.max())]
    assert len(inside) >= 3
    assert (real > inside[-1]).mean() < 0.003
    assert len(cuts(edges, counts, 5000.0)) <= FEWEST_BINS + 3, "nothing finer than the noise can tell"


def test_the_nearest_counts_hold_as_many_records_and_none_below_zero():
    rng = np.random.default_rng(7)
    exact = np.append(np.full(10, 90.0), np.zeros(90))
    errors = []
    for _ in range(50):
        noisy = exact + rng.normal(0, 10, 100)
        found = nearest_counts(noisy, 900.0)
        assert found.sum() == pytest.approx(900)
        assert found.min() >= 0
        errors.append(np.abs(found - exact).sum() / np.abs(noisy - exact).sum())
    assert np.mean(errors) < 0.4
    assert nearest_counts(exact, 900.0).tolist() == exact.tolist()


def test_bounds_are_tightened_to_what_stands_clear_and_its_tail():
    counts = np.zeros(320)
    counts[100:140] = 400
    counts[140:170] = 30  # hidden in each cell, and in a block
    edges = list(range(321))
    rng = np.random.default_rng(8)
    found = [tightened(edges, counts + rng.normal(0, 20, 320), 20.0, counts.sum()) for _ in range(200)]
    assert sum(90 <= low <= 100 and 160 <= high <= 185 for low, high in found) >= 180
    assert tightened(edges, counts, 2000.0, counts.sum()) == (0, 320), "what the noise may hide is not cut off"


@pytest.mark.parametrize(("value", "side"), [(3.0, 1.0), (3.0, -1.0), (0.0, 1.0)])
def test_what_many_records_share_has_a_bin_of_its_own(value, side):
    """Else the bin that reaches to the end of the bounds holds it, and records of it are drawn from all of that bin."""
    rng = np.random.default_rng(0)
    values = value + side * np.where(rng.random(4000) < 0.4, 0.0, rng.exponential(4, 4000))
    edges = np.linspace(value - 16, value + 16, 513)
    counts = np.histogram(values, edges)[0] + rng.normal(0, 20, 512)
    (ends,) = {tuple(spikes(edges, counts, 20.0, least)) for least in (0.06, 0.1, 0.13)}
    assert ends[0] <= value <= ends[-1]
    assert ends[-1] - ends[0] <= 2 * 32 / 512
    assert spikes(edges, np.full(512, 8.0) + rng.normal(0, 20, 512), 20.0, 0.1) == []  # spread evenly
    assert spikes(edges, rng.normal(0, 20, 512), 20.0, 0.0) == []  # nobody


@pytest.mark.parametrize(
    ("edges", "atoms", "step", "expected", "parts", "atomic"),
    [
        ((0.0, 8.0, 16.0), (0.0,), 0.5, (0.0, 0.25, 8.0, 16.0), (0, 0, 1), (0,)),
        ((-12.0, -4.0, 4.0), (0.0,), 1.0, (-12.0, -4.0, 0.0, 0.5, 4.0), (0, 1, 1, 1), (2,)),
        ((-6.0, 2.0, 10.0), (0.0,), 5.0, (-6.0, 0.0, 2.0, 10.0), (0, 0, 1), (1,)),  # only multiples of 5
        ((0.0, 1.0, 2.0), (0.0,), 1.0, (0.0, 1.0, 2.0), (0, 1), (0,)),
        ((0.0, 8.0), (2.5, 3.0), 0.5, (0.0, 2.5, 2.75, 3.0, 3.25, 8.0), (0,) * 5, (1, 3)),
        ((0.0, 8.0), (8.0,), 0.5, (0.0, 8.0, 8.25), (0, 0), (1,)),
        ((0.0, 8.0), (-9.0, 99.0), 1.0, (-9.0, -8.5, 0.0, 8.0, 99.0, 99.5), (0,) * 5, (0, 4)),
        ((1.0, 8.0), (), 0.5, (1.0, 8.0), (0,), ()),
    ],
)
def test_an_atom_has_a_cell_of_its_own_in_a_grid(edges, atoms, step, expected, parts, atomic):
    found, owner, held = with_atoms(edges, atoms, step)
    assert (found, tuple(owner), tuple(np.flatnonzero(held))) == (expected, parts, atomic)


def test_a_cell_of_an_atom_holds_nothing_else_where_numbers_have_no_step():
    found, _, held = with_atoms((0.0, 8.0), (0.0, 2.5), float(np.finfo(np.float64).tiny))
    assert [(found[place], found[place + 1]) for place in np.flatnonzero(held)] == [
        (0.0, 5e-324 * round(np.finfo(np.float64).tiny / 2 / 5e-324)),
        (2.5, math.nextafter(2.5, 3)),
    ]


@pytest.mark.parametrize("column", [{"atoms": [2.5], "decimals": 1}, {"atoms": [9999], "decimals": 1}])
def test_a_declared_atom_moves_no_learned_bins(column):
    """Without atoms, 2.5 (below the limit of detection) would attract edges of bins, and 9999 (not measured) stretch them."""
    rng = np.random.default_rng(9)
    (atom,) = column["atoms"]
    others = np.round(rng.gamma(4, 10, 20_000) + 3, 1)
    values = np.where(rng.random(20_000) < 0.4, atom, others)
    columns = {"crp": {"kind": "continuous", "bounds": "learn"} | column}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 20_000, "columns": columns})
    frame = pd.DataFrame({"crp": values})
    release = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5)).fit(frame, seed=1)
    drawn = release.sample(20_000, seed=1)["crp"].to_numpy()
    assert (drawn == atom).mean() == pytest.approx(0.4, abs=0.02)
    (crp,) = release.schema.columns
    edges = np.array(crp.bins)
    assert (edges < 3).sum() <= 2, "none crowd beside the atom"
    rest = drawn[drawn != atom]
    assert np.quantile(rest, [0.02, 0.5, 0.98]) == pytest.approx(
        np.quantile(others, [0.02, 0.5, 0.98]), rel=0.06, abs=0.8
    )
    assert (rest > 1.2 * others.max()).mean() < 0.005


@pytest.mark.parametrize("facts", [{"atoms": [5]}, {"decimals": 1}, {}])
def test_bounds_of_a_single_value_leave_nothing_to_cut(facts):
    columns = {"level": {"kind": "continuous", "bounds": [5, 5], "bins": "learn"} | facts}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 500, "columns": columns})
    release = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5)).fit(
        pd.DataFrame({"level": np.full(500, 5.0)}), seed=1
    )
    assert set(release.sample(50, seed=1)["level"]) == {5.0}


@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_a_peak_at_zero_does_not_hide_the_few_records_far_from_it(kind):
    """Hours in intensive care of one patient in seven: no power of two holds enough of them to stand clear by itself."""
    rng = np.random.default_rng(11)
    hours = np.where(rng.random(8000) < 0.15, np.ceil(np.exp(rng.normal(3.3, 1.0, 8000))), 0).astype(int)
    columns = {"hours": {"kind": kind, "bounds": "learn"}}
    columns |= {f"value{place}": {"kind": "continuous", "bounds": "learn"} for place in range(8)}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 8000, "columns": columns})
    frame = pd.DataFrame({"hours": hours, **{name: rng.normal(100, 9, 8000) for name in list(columns)[1:]}})
    for seed in range(3):
        release = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5)).fit(frame, seed=seed)
        drawn = release.sample(8000, seed=seed)["hours"]
        assert (drawn == 0).mean() == pytest.approx((hours == 0).mean(), abs=0.03)
        assert 60 <= release.schema.column("hours").bounds[1] <= 1100
        assert drawn[drawn > 0].median() == pytest.approx(np.median(hours[hours > 0]), rel=0.6)


def test_runs_of_hidden_cells_stand_clear_together_and_noise_does_not():
    rng = np.random.default_rng(12)
    counts = np.zeros(100)
    counts[50], counts[60:64] = 8000, 230
    found = [together(counts + rng.normal(0, 50, 100), 50.0) for _ in range(300)]
    assert np.mean([len(each) > 1 and 59 <= each[1] <= 61 and 62 <= each[-1] <= 65 for each in found]) > 0.85
    lone = np.where(np.arange(100) == 50, 8000.0, 0.0)
    assert sum(len(together(lone + rng.normal(0, 50, 100), 50.0)) > 1 for _ in range(3000)) <= 30


def test_a_column_that_is_learned_to_be_constant_is_named():
    columns = {"hours": {"kind": "integer", "bounds": "learn"}}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 500, "columns": columns})
    made = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5))
    with pytest.warns(UserWarning, match="column 'hours': only 0 stands clear"):
        made.fit(pd.DataFrame({"hours": [0] * 499 + [7]}), seed=1)


def test_bounds_of_a_column_of_nothing_but_atoms_are_theirs():
    columns = {"crp": {"kind": "continuous", "bounds": "learn", "atoms": [2.5], "decimals": 1}}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 3000, "columns": columns})
    made = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5))
    release = made.fit(pd.DataFrame({"crp": np.full(3000, 2.5)}), seed=1)
    low, high = release.schema.columns[0].bounds
    assert 1 <= low <= 2.5 <= high <= 8


@pytest.mark.parametrize(
    "facts",
    [
        {"kind": "continuous"},
        {"kind": "continuous", "decimals": 1},
        {"kind": "integer"},
        {"kind": "integer", "step": 5},
        {"kind": "continuous", "bounds": [-4000, 4000], "bins": "learn"},
    ],
)
def test_zeros_that_many_records_hold_are_bought(facts):
    """Without an atom, they would be drawn from the whole bin, and few would come back as 0."""
    rng = np.random.default_rng(2)
    others = 5 * rng.integers(1, 700, 4000) * (1 if facts["kind"] == "integer" else rng.choice([-1, 1], 4000))
    costs = np.where(rng.random(4000) < 0.4, 0, others)
    columns = {"costs": {"bounds": "learn"} | facts}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 4000, "columns": columns})
    release = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5)).fit(
        pd.DataFrame({"costs": costs}), seed=1
    )
    assert release.schema.columns[0].atoms == (0,)
    assert (release.sample(4000, seed=1)["costs"] == 0).mean() == pytest.approx((costs == 0).mean(), abs=0.03)
    (row,) = release.statement.columns
    assert row["bought"]["atoms"] == [0]


def test_zeros_beyond_declared_bounds_are_no_atom():
    """The grid of whole numbers may reach beyond the bounds; such an atom would stop a fit that was charged."""
    columns = {"change": {"kind": "integer", "bounds": [-1001, -1], "bins": "learn"}}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 2000, "columns": columns})
    frame = pd.DataFrame({"change": np.where(np.arange(2000) % 2, 0, -500)})
    made = Synthesizer("independent", schema=schema, budget=Budget(5.0, 1e-5))
    release = made.fit(frame, invalid="clamp", seed=1)
    assert release.schema.columns[0].atoms == ()
    columns["change"]["bounds"] = [-1001, 0]
    schema = Schema.from_dict({"declared_by": "the tests", "units": 2000, "columns": columns})
    release = Synthesizer("independent", schema=schema, budget=Budget(5.0, 1e-5)).fit(frame, seed=1)
    assert release.schema.columns[0].atoms == (0,)


def test_few_zeros_are_no_atom():
    rng = np.random.default_rng(3)
    costs = np.where(rng.random(4000) < 0.04, 0.0, rng.gamma(2, 300, 4000))
    columns = {"costs": {"kind": "continuous", "bounds": "learn"}}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 4000, "columns": columns})
    made = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5))
    assert made.fit(pd.DataFrame({"costs": costs}), seed=1).schema.columns[0].atoms == ()


def test_bounds_reach_over_a_tail_whose_cells_are_each_hidden():
    counts = np.array([0, 0, 500, 400, 110, 90, 80, 30, 0, 0, 0, 0], float)
    edges = list(range(13))
    assert occupied(edges, counts, 30.0) == (2.0, 7.0)
    assert occupied(edges, counts[::-1], 30.0) == (5.0, 10.0)
    assert occupied(edges, np.append(counts[:4], np.zeros(8)), 30.0) == (2.0, 4.0)


def test_noise_far_from_the_records_rarely_becomes_a_bound():
    """A single cell that noise lifts, far out, would leave all records in one bin."""
    rng = np.random.default_rng(4)
    counts = np.zeros(len(SIGNED_POWERS) - 1)
    counts[SIGNED_POWERS.index(32.0)] = 5000
    found = [occupied(SIGNED_POWERS, counts + rng.normal(0, 50, len(counts)), 50.0) for _ in range(3000)]
    # 3000 times 0.0004, the chance of more is below 1e-3
    assert sum(low < 0 or high > 64 * 2**3 for low, high in found) <= 6
    assert sum((low, high) == (32.0, 64.0) for low, high in found) > 2900


def test_learned_bins_keep_a_spike_at_the_end_of_a_column():
    rng = np.random.default_rng(1)
    waited = 3.0 + np.where(rng.random(2000) < 0.4, 0.0, rng.exponential(4, 2000))
    columns = {"waited": {"kind": "continuous", "bounds": "learn"}}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 2000, "columns": columns})
    made = Synthesizer("independent", schema=schema, budget=Budget(0.3, 1e-5))
    for seed in range(3):
        drawn = made.fit(pd.DataFrame({"waited": waited}), seed=seed).sample(4000, seed=1)["waited"]
        assert ((drawn - 3).abs() < 0.15).mean() == pytest.approx(((waited - 3) < 0.15).mean(), abs=0.05)


def test_bad_arguments_are_named():
    with pytest.raises(BadInput, match="clip"):
        Gradient(network(), loss, 0.0, 1.0)
    with pytest.raises(BadInput, match="noise"):
        Group(one_hot, 3, 1.0, -1.0)


@pytest.mark.parametrize("atoms", [[0.1 * 3], [-0.1 * 3], [5.0, -2.5]])
def test_learned_bounds_hold_atoms_that_floats_round(atoms):
    column = Schema.from_dict(
        {"columns": {"x": {"kind": "continuous", "bounds": "learn", "decimals": 1, "atoms": atoms}}}
    )
    for bounds in ((0.0, 9.0), (-9.0, -1.0), (-0.3, 0.3)):
        low, high = column.with_learned("x", bounds=bounds).columns[0].bounds
        assert low <= min(atoms)
        assert max(atoms) <= high


@pytest.mark.parametrize("facts", [{"atoms": [1e308]}, {"atoms": [5.0], "decimals": 15}])
def test_atoms_that_no_learned_bounds_can_hold_are_refused_before_a_charge(facts):
    with pytest.raises(BadInput, match="column 'x': atoms"):
        Schema.from_dict({"columns": {"x": {"kind": "continuous", "bounds": "learn"} | facts}})


class Twins(Ranks):
    """The first of two processes whose shards are alike."""

    rank, world = 0, 2

    def total(self, values):
        return [2 * value for value in values] if isinstance(values, list) else 2 * values


@pytest.mark.parametrize("name", ["misfit", "dependence", "distance"])
def test_a_function_of_counts_sees_those_of_all_shards(name):
    question = QUESTIONS[name]
    half = seal(make_frame(90, repeats=3), SCHEMA, b"k" * 32).encoded_by(CODEC)
    every = replace(
        half,
        units=2 * half.units,
        owner=np.concatenate([half.owner, half.units + half.owner]),
        codes=np.concatenate([half.codes, half.codes]),
    )
    shared = AllShards(half, Twins())
    assert (shared.units, shared.max_records) == (every.units, 3)
    np.testing.assert_allclose(question.bounded(shared), question.bounded(every), rtol=1e-12)
    assert not np.allclose(question.bounded(shared), question.bounded(half))
