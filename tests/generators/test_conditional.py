"""Conditional sampling of every generator that offers it: against rejection from its own samples, and against enumeration."""

import collections
import functools
import itertools
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from clinic import contracts, kind_of, make_frame, make_pictures, make_schema, picture_schema, quick
from scipy import stats
from sweeps import sweep

from synthdp import BadInput, Budget, Schema, Synthesizer
from synthdp.generators import Conditional
from synthdp.generators.marginals.grouping import Groups
from synthdp.generators.marginals.junction_tree import Network
from synthdp.generators.marginals.network_model import NetworkModel
from synthdp.generators.marginals.product_mixture import Products
from synthdp.generators.mixture import MixtureModel
from synthdp.schema.codec import Codec
from synthdp.schema.where import allowed

ERROR = 1e-6  # the probability that a test below fails by chance, were its seed drawn anew
NAMES = [name for name in contracts() if kind_of(name).traits.conditional]
OTHERS = [name for name in contracts() if name not in NAMES]
WHERE = [
    {"sex": "female", "age": [35, 62]},
    {"dose": None, "ill": False},
    {"seen": ["2020-02-10", "2020-03-25"], "stage": ["I", None]},
    {"dose": [0, 2.2], "age": [50, 99]},
    {"dose": 0, "ill": False, "stage": "II"},
]


@functools.lru_cache
def usual(name):
    return Synthesizer(quick(name), schema=make_schema(), budget=Budget(30.0, 1e-5)).fit(make_frame(1500), seed=3)


@functools.lru_cache
def unconditioned(name):
    return usual(name).sample(120_000, seed=11)


def satisfies(frame, where):
    """Which rows satisfy a condition, in pandas' own words."""
    kept = np.ones(len(frame), bool)
    for name, wanted in where.items():
        cells = frame[name]
        if wanted is None:
            kept &= cells.isna()
        elif isinstance(wanted, list) and name in ("age", "dose", "seen"):
            low, high = map(pd.Timestamp, wanted) if name == "seen" else wanted
            kept &= cells.between(low, high).to_numpy()
        else:
            values = wanted if isinstance(wanted, list) else [wanted]
            kept &= (cells.isin([v for v in values if v is not None]) | (cells.isna() & (None in values))).to_numpy()
    return kept


def coarse(frame):
    """Every column in a few classes, as one text per row and per pair of columns."""
    parts = {
        "age": (frame["age"] // 9).astype(str),
        "dose": frame["dose"].round().astype(str) + (frame["dose"] == 0).astype(str),
        "seen": frame["seen"].dt.day_of_year.floordiv(10).astype(str),
        **{name: frame[name].astype(object).astype(str) for name in ("sex", "stage", "ill")},
    }
    return {(a, b): parts[a] + "|" + parts[b] for a, b in itertools.combinations(parts, 2)}


def same_distribution(one, other, error):
    """Whether a chi-square test of two samples finds nothing at that error; rare classes together."""
    counts = pd.DataFrame({"one": one.value_counts(), "other": other.value_counts()}).fillna(0)
    rare = counts.sum(axis=1) < 40
    table = pd.concat([counts[~rare], counts[rare].sum().to_frame().T]).to_numpy()
    table = table[table.sum(axis=1) > 20]
    return len(table) < 2 or stats.chi2_contingency(table).pvalue > error


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", sweep(WHERE, WHERE[:1].__contains__), ids=str)
def test_it_is_what_rejection_leaves(name, where):
    every = unconditioned(name)
    kept = every[satisfies(every, where)]
    assert len(kept) > 300
    made = usual(name).sample(20_000, where=where, seed=5)
    assert satisfies(made, where).all()
    usual(name).schema.validate(made)
    left, drawn = coarse(kept), coarse(made)
    for pair in left:
        assert same_distribution(left[pair], drawn[pair], ERROR / len(left)), pair


@pytest.mark.parametrize("name", sweep(NAMES, ["mixture", "aim", "independent"].__contains__))
def test_seeds_chunks_and_no_rows(name):
    release, where = usual(name), WHERE[0]
    pd.testing.assert_frame_equal(release.sample(40, where=where, seed=1), release.sample(40, where=where, seed=1))
    assert not release.sample(40, where=where, seed=1).equals(release.sample(40, where=where, seed=2))
    parts = list(release.stream(50, where=where, seed=1, chunk=20))
    assert [len(part) for part in parts] == [20, 20, 10]
    whole = pd.concat(parts)
    assert whole["patient"].is_unique
    assert not whole.drop(columns="patient").duplicated().all()
    none = release.sample(0, where=where)
    assert len(none) == 0
    pd.testing.assert_series_equal(none.dtypes, whole.dtypes)


@pytest.mark.parametrize("name", NAMES)
def test_conditions_that_do_not_fit_are_refused_also_for_no_rows(name):
    for rows in (0, 5):
        with pytest.raises(BadInput, match="'sexx' is not one of the columns; did you mean 'sex'"):
            usual(name).sample(rows, where={"sexx": "female"})
        with pytest.raises(BadInput, match="where must map columns"):
            usual(name).sample(rows, where={})


@pytest.mark.parametrize("name", OTHERS)
def test_the_others_say_who_can(name):
    """Without a fit: it is the class that says it, and the model's protocol that decides."""
    assert not kind_of(name).traits.conditional


@pytest.mark.parametrize("name", NAMES)
def test_models_are_of_the_protocol(name):
    assert isinstance(usual(name).model, Conditional)


def test_a_model_that_cannot_says_which_generators_can():
    release = Synthesizer(quick("classgauss"), schema=make_schema(), budget=Budget(1, 1e-5)).fit(make_frame(50), seed=0)
    with pytest.raises(BadInput, match=r"generator classgauss cannot be conditioned exactly; those of .*mixture"):
        release.sample(3, where=WHERE[0])


def test_labels_of_pictures():
    release = Synthesizer("independent", schema=picture_schema(), budget=Budget(5, 1e-5)).fit(make_pictures(60), seed=0)
    made = release.sample(30, where={"finding": ["left", "right"]}, seed=1)
    assert set(made["finding"]) == {"left", "right"}


SMALL = Schema.from_dict(
    {
        "targets": ["y", "z"],
        "columns": {
            "a": {"kind": "integer", "bounds": [0, 6], "bins": [2, 3], "atoms": [5], "missing": True},
            "y": {"kind": "boolean"},
            "b": {"kind": "categorical", "categories": ["p", "q", "r"]},
            "z": {"kind": "categorical", "categories": ["u", "v"], "missing": True},
        },
    }
)


def small_model(rng, columns=True):
    """Random: codes grouped by chance, a label of two columns, three components."""
    groups = []
    for size in Codec(SMALL).sizes:
        of = np.append(rng.permutation(size - 1) // 2, (size - 2) // 2) if size > 2 else np.arange(size)
        within = rng.random(size)
        within /= np.bincount(of, weights=within)[of]
        groups.append(Groups(of=of, within=within))
    counts = [each.count for each in groups]
    made = [rng.dirichlet(np.ones(count), 3) for count in (counts[1] * counts[3], counts[0], counts[2])]
    products = Products(weights=rng.dirichlet(np.ones(3)), label=made[0], columns=tuple(made[1:]))
    return MixtureModel(SMALL, ("y", "z"), tuple(groups), products)


GONE = "missing"


class Row(NamedTuple):
    a: int | str
    y: bool
    b: str
    z: str


# Of the codes of `a`: bins [0, 2), [2, 3), [3, 7) without the atom 5, the atom, missing
VALUES = {0: [0, 1], 1: [2], 2: [3, 4, 6], 3: [5], 4: [GONE]}


def enumerated(model):
    """{(a, y, b, z): probability}, by a loop over components, groups, codes and values."""
    found = {}
    a, y, b, z = model.groups
    for k, weight in enumerate(model.products.weights):
        for codes in itertools.product(*(range(size) for size in Codec(SMALL).sizes)):
            label = y.of[codes[1]] * z.count + z.of[codes[3]]
            chance = weight * model.products.label[k, label]
            chance *= model.products.columns[0][k, a.of[codes[0]]] * model.products.columns[1][k, b.of[codes[2]]]
            for groups, code in zip(model.groups, codes, strict=True):
                chance *= groups.within[code]
            for value in VALUES[codes[0]]:
                key = (value, bool(codes[1]), "pqr"[codes[2]], ["u", "v", GONE][codes[3]])
                found[key] = found.get(key, 0) + chance / len(VALUES[codes[0]])
    return found


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ({"a": [1, 3]}, lambda v: v.a in (1, 2, 3)),
        ({"a": None, "b": ["p", "r"]}, lambda v: v.a == GONE and v.b != "q"),
        ({"y": True, "a": [4, 6]}, lambda v: v.y and v.a in (4, 5, 6)),
        ({"y": False, "z": ["v", None], "a": [5, 6]}, lambda v: not v.y and v.z != "u" and v.a in (5, 6)),
        ({"z": None}, lambda v: v.z == GONE),
    ],
    ids=["range", "missing", "truth", "several", "gone"],
)
def test_a_small_mixture_against_enumeration(where, wanted):
    model = small_model(np.random.default_rng(7))
    chances = enumerated(model)
    assert sum(chances.values()) == pytest.approx(1)
    event = {key: chance for key, chance in chances.items() if wanted(Row(*key))}
    total = sum(event.values())
    rows = 60_000
    frame = model.sample_where(rows, allowed(where, model.codec), seed=2).astype(object)
    keys = zip(*(frame[name].where(frame[name].notna(), GONE) for name in ("a", "y", "b", "z")), strict=True)
    found = collections.Counter(keys)
    assert set(found) <= set(event)
    expected = np.array([rows * chance / total for chance in event.values()])
    seen = np.array([found[key] for key in event])
    common = expected >= 5
    seen, expected = (np.append(each[common], each[~common].sum()) for each in (seen, expected))
    kept = expected > 0
    assert stats.chisquare(seen[kept], expected[kept]).pvalue > ERROR


def test_bayes_rule_over_components_is_exact_and_does_not_underflow():
    rng = np.random.default_rng(1)
    columns = tuple(rng.dirichlet(np.ones(4), 5) for _ in range(400))
    products = Products(weights=rng.dirichlet(np.ones(5)), label=rng.dirichlet(np.ones(2), 5), columns=columns)
    events = {place: np.array([1e-3, 0.0, 0.0, 0.0]) for place in range(400)}
    given = products.given(np.array([1.0, 0.0]), events)
    logs = np.log(products.weights * products.label[:, 0]) + sum(np.log(column[:, 0]) for column in columns)
    np.testing.assert_allclose(given.weights, np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum(), rtol=1e-9)
    label, drawn = given.draw(500, rng)
    assert (label == 0).all()
    assert all((column == 0).all() for column in drawn)


@pytest.mark.parametrize("kind", ["mixture", "independent", "network"])
def test_probability_zero_is_said(kind):
    model = small_model(np.random.default_rng(7))
    if kind == "mixture":
        model.groups[2].within[1] = 0.0
    elif kind == "network":
        sizes = [groups.count for groups in model.groups]
        order, parents = range(len(sizes)), ((),) * len(sizes)
        network = Network(order=tuple(order), parents=parents, tables=tuple(np.ones(size) / size for size in sizes))
        model.groups[2].within[1] = 0.0
        model = NetworkModel(SMALL, model.groups, network)
    else:
        from synthdp.generators.independent import IndependentModel

        chances = [np.ones(size) for size in Codec(SMALL).sizes]
        chances[2][1] = 0.0
        model = IndependentModel(SMALL, tuple(chances))
    for rows in (0, 10):
        with pytest.raises(BadInput, match="no record of this model satisfies the condition on 'b'; widen it"):
            model.sample_where(rows, allowed({"b": "q"}, model.codec), seed=0)
