"""Bayesian networks over noisy tables: what is drawn, what is restored, and PrivBayes against what is known."""

import numpy as np
import pytest
from clinic import make_frame, make_schema

from synthdp import BadInput, Budget, Synthesizer
from synthdp.generators import make
from synthdp.generators.marginals import junction_tree
from synthdp.generators.marginals.junction_tree import Network, conditional, given, nearest

PLENTY = Budget(1e6, 1e-5)


def known(rng):
    return Network(
        order=(2, 0, 1),
        parents=((2,), (0, 2), ()),
        tables=(rng.dirichlet(np.ones(3), 2), rng.dirichlet(np.ones(4), (3, 2)), np.array([0.3, 0.7])),
    )


def test_draws_have_the_distribution_of_the_network():
    rng, rows = np.random.default_rng(0), 200_000
    network = known(rng)
    found = np.zeros((3, 4, 2))
    np.add.at(found, tuple(network.draw(rows, rng).T), 1 / rows)
    wanted = np.einsum("c,ca,acb->abc", network.tables[2], network.tables[0], network.tables[1])
    assert np.abs(found - wanted).max() < 5 * np.sqrt(0.25 / rows)


def joint(network):
    tables = [
        network.tables[j].transpose(np.argsort(np.append(network.parents[j], j))) for j in range(len(network.order))
    ]
    sizes = [table.shape[-1] for table in network.tables]
    found = np.ones(sizes)
    for j, table in enumerate(tables):
        family = {*network.parents[j], j}
        found = found * table.reshape([size if k in family else 1 for k, size in enumerate(sizes)])
    return found


def tangled(rng):
    """Parents that are not joined, in any order: column 5 joins what was apart, and no family holds its parents' parents."""
    sizes, parents = (2, 3, 2, 4, 3, 2), ((), (), (1, 0), (0,), (), (4, 3, 2))
    tables = tuple(rng.dirichlet(np.ones(sizes[j]), [sizes[k] for k in parents[j]]) for j in range(6))
    return Network(order=(4, 1, 0, 3, 2, 5), parents=parents, tables=tables)


@pytest.mark.parametrize("make_network", [known, tangled])
def test_given_an_event_it_is_bayes_rule(make_network):
    rng = np.random.default_rng(5)
    network = make_network(rng)
    whole = joint(network)
    np.testing.assert_allclose(joint(given(network, {})), whole, atol=1e-14)
    for columns in ([1], [0, 2], [2, 1, 0], list(range(len(network.order)))[::-2]):
        events = {column: rng.random(whole.shape[column]) for column in columns}
        events[columns[0]][0] = 0.0  # what cannot be
        wanted = whole
        for column, event in events.items():
            wanted = wanted * event.reshape([-1 if k == column else 1 for k in range(whole.ndim)])
        np.testing.assert_allclose(joint(given(network, events)), wanted / wanted.sum(), atol=1e-14)


def test_an_event_without_probability_has_no_network_and_rare_ones_do_not_underflow():
    network = known(np.random.default_rng(6))
    assert given(network, {0: np.zeros(3)}) is None
    chain = Network(
        order=tuple(range(300)),
        parents=((), *((j,) for j in range(299))),
        tables=(np.array([0.5, 0.5]), *[np.array([[0.9, 0.1], [0.2, 0.8]])] * 299),
    )
    found = given(chain, {j: np.array([1e-9, 0.0]) for j in range(299)})
    assert found.draw(50, np.random.default_rng(0))[:, :299].max() == 0
    assert found.draw(20_000, np.random.default_rng(0))[:, 299].mean() == pytest.approx(0.1, abs=0.015)


def test_what_hangs_together_too_closely_is_not_conditioned(monkeypatch):
    monkeypatch.setattr(junction_tree, "MOST_CELLS", 10)
    with pytest.raises(BadInput, match=r"too densely .* cells, at most 10"):
        given(tangled(np.random.default_rng(5)), {0: np.ones(2)})


def test_the_nearest_distribution_is_a_distribution_and_no_other_is_nearer():
    rng = np.random.default_rng(1)
    counts = rng.normal(10, 30, (5, 4))
    found = nearest(counts, 200.0)
    assert found.min() == 0
    assert found.sum() == pytest.approx(1)
    others = rng.dirichlet(np.full(20, 0.5), 2000).reshape(-1, 5, 4)
    assert ((others - counts / 200) ** 2).sum((1, 2)).min() > ((found - counts / 200) ** 2).sum()


def test_a_row_without_mass_falls_back():
    table = np.array([[0.2, 0.6], [0.0, 0.0]])
    assert conditional(table, np.array([0.1, 0.9])).ravel() == pytest.approx([0.25, 0.75, 0.1, 0.9])


@pytest.fixture(scope="module")
def release():
    return Synthesizer("privbayes", schema=make_schema(), budget=PLENTY).fit(make_frame(4000), seed=0)


def test_relations_survive(release):
    made = release.sample(4000, seed=1)
    for rows in (make_frame(4000), made):
        assert rows["ill"].to_numpy()[rows["dose"].fillna(0) > 0].mean() > 0.95  # only the ill are given a dose
    real, drawn = (rows["ill"][rows["age"] >= 60].mean() for rows in (make_frame(4000), made))
    assert abs(real - drawn) < 0.06


@pytest.mark.parametrize(
    "change",
    [
        {"order": [0.0, 1, 2, 3, 4, 4]},
        {"order": [0.5, 1, 2, 3, 4, 5]},
        {"of.0": -1.0},
        {"within.1": np.nan},
        {"table.2": -0.1},
        {"table.3": 0.0},
    ],
)
def test_a_network_that_is_none_is_refused(release, change):
    (name, value), tensors = next(iter(change.items())), release.model.tensors()
    tensors[name] = np.broadcast_to(value, tensors[name].shape).copy()
    with pytest.raises(BadInput, match="model"):
        make("privbayes", {}).restore(release.schema, tensors)


def test_parents_come_first_or_the_network_is_refused(release):
    tensors = release.model.tensors()
    tensors["order"] = tensors["order"][::-1].copy()
    with pytest.raises(BadInput, match="parents first"):
        make("privbayes", {}).restore(release.schema, tensors)


@pytest.mark.heavy
@pytest.mark.parametrize("kept", [["ill"], ["ill", "age"], ["sex", "stage", "age"]])
def test_few_columns(kept):
    columns = {name: value for name, value in make_schema().to_dict()["columns"].items() if name in kept}
    schema = type(make_schema()).from_dict(
        {"declared_by": "the tests", "units": 400, "targets": [], "columns": columns}
    )
    frame = make_frame(3000)[kept]
    made = Synthesizer("privbayes", schema=schema, budget=PLENTY).fit(frame, seed=0).sample(3000, seed=1)
    assert list(made.columns) == list(columns)
    if "ill" in kept and "age" in kept:
        old = [rows["ill"][rows["age"] >= 60].mean() for rows in (frame, made)]
        assert abs(old[0] - old[1]) < 0.06


def test_useful_tables_only():
    """With little budget no column has parents; with plenty, as many as `degree` allows; candidates beyond the limit are dropped."""
    frame, schema = make_frame(300), make_schema()
    found = [
        Synthesizer("privbayes", schema=schema, budget=budget, degree=2, least=0.0, candidates=3)
        .fit(frame, seed=1)
        .model.network
        for budget in (Budget(0.05, 1e-5), PLENTY)
    ]
    assert max(map(len, found[0].parents)) == 0
    assert max(map(len, found[1].parents)) == 2
