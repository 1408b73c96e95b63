"""Graphical models on noisy tables: the tree against brute force, the fit against mbi, MST and AIM against what is known."""

import importlib.util
import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema
from sweeps import heavy

from synthdp import BadInput, Budget, Schema, Synthesizer
from synthdp.generators import aim, make, mst
from synthdp.generators.marginals import inference
from synthdp.generators.marginals.inference import Measured, fit
from synthdp.generators.marginals.junction_tree import (
    conditionals,
    gathered,
    joints,
    marginal,
    megabytes,
    network_of,
    tree_of,
)
from synthdp.ledger.events import Choice
from synthdp.ledger.ledger import Ledger
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.replay import Recorder

SIZES = (3, 2, 4, 2, 3)
CLIQUES = [(0, 1), (1, 2), (2, 0), (3, 2), (4,)]  # a cycle of three, a pair against the order, and a column by itself


def brute(potentials):
    logs = np.zeros(SIZES)
    for clique, table in potentials.items():
        order = np.argsort(clique)
        logs += table.transpose(order).reshape([SIZES[each] if each in clique else 1 for each in range(5)])
    return np.exp(logs) / np.exp(logs).sum()


def at_random(seed=0):
    rng = np.random.default_rng(seed)
    return {clique: rng.normal(0, 2, [SIZES[each] for each in clique]) for clique in CLIQUES}


def test_marginals_are_those_of_brute_force():
    potentials = at_random()
    tree, whole = tree_of(SIZES, CLIQUES), brute(potentials)
    scopes = joints(tree, conditionals(tree, potentials))
    for clique in CLIQUES:
        column = tree.holder(clique)
        expected = gathered(whole, tuple(range(5)), clique)
        np.testing.assert_allclose(gathered(scopes[column], tree.scope(column), clique), expected, rtol=1e-10)
    assert megabytes(SIZES, CLIQUES) == (3 * 2 * 4 + 4 * 2 + 3) * 8 / 2**20


def test_the_network_of_a_tree_draws_from_it():
    potentials, rows, rng = at_random(1), 100_000, np.random.default_rng(0)
    tree = tree_of(SIZES, CLIQUES)
    drawn = network_of(tree, conditionals(tree, potentials)).draw(rows, rng)
    found = np.zeros(SIZES)
    np.add.at(found, tuple(drawn.T), 1 / rows)
    assert np.abs(found - brute(potentials)).max() < 5 * np.sqrt(0.25 / rows)


def test_any_table_of_a_network_is_that_of_brute_force():
    potentials = at_random(3)
    tree, whole = tree_of(SIZES, CLIQUES), brute(potentials)
    network = network_of(tree, conditionals(tree, potentials))
    for clique in [(0,), (4, 3), (3, 0), (1, 3, 4), (4, 2, 0, 1, 3)]:
        expected = gathered(whole, tuple(range(5)), clique)
        np.testing.assert_allclose(marginal(network, clique), expected, rtol=1e-10)


def evidence(noise, seed=2):
    rng, whole = np.random.default_rng(seed), 5000 * brute(at_random(seed))
    cliques = [*CLIQUES, *((place,) for place in range(4))]
    tables = [gathered(whole, tuple(range(5)), clique) for clique in cliques]
    return whole, [
        Measured(clique=clique, table=table + noise * rng.normal(size=table.shape), deviation=max(noise, 0.5))
        for clique, table in zip(cliques, tables, strict=True)
    ]


@pytest.mark.heavy
def test_exact_tables_give_the_distribution_back():
    whole, measured = evidence(0.0)
    fitted = fit(SIZES, measured, 5000.0, iterations=3000, tolerance=0.0)
    tree = tree_of(SIZES, CLIQUES)
    scopes = joints(tree, fitted.network.tables)
    for clique in CLIQUES:
        column = tree.holder(clique)
        found = 5000 * gathered(scopes[column], tree.scope(column), clique)
        assert np.abs(found - gathered(whole, tuple(range(5)), clique)).max() < 2
    assert fitted.loss < 20


def test_a_fit_goes_on_from_where_an_earlier_one_ended():
    _, measured = evidence(20.0)
    first = fit(SIZES, measured[:-3], 5000.0, iterations=200)
    later = fit(SIZES, measured, 5000.0, iterations=1, start=first.potentials)
    anew = fit(SIZES, measured, 5000.0, iterations=1)
    assert later.loss < 0.5 * anew.loss


@pytest.mark.heavy
@pytest.mark.skipif(importlib.util.find_spec("mbi") is None, reason="mbi (extra marginals) is not installed")
def test_mbi_finds_the_same_distribution():
    _, measured = evidence(20.0)
    found = []
    for engine in inference.ENGINES:
        fitter = inference.fitter(engine)
        half = fitter(SIZES, measured, 5000.0, iterations=500, tolerance=0.0)
        found.append(fitter(SIZES, measured, 5000.0, iterations=3000, tolerance=0.0, start=half.potentials).network)
    assert found[0].parents == found[1].parents
    for one, other in zip(found[0].tables, found[1].tables, strict=True):
        assert np.abs(one - other).max() < 2e-3


def test_an_engine_that_is_not_there_is_named(monkeypatch):
    with pytest.raises(BadInput, match=r"generator\.engine must be one of numpy, mbi, got 'jax'"):
        Synthesizer("mst", schema=make_schema(), budget=Budget(1.0, 1e-5), engine="jax")
    monkeypatch.setattr(inference.importlib.util, "find_spec", lambda _: None)
    for name in ("mst", "aim"):
        with pytest.raises(BadInput, match=r"pip install 'synthdp\[marginals\]'"):
            Synthesizer(name, schema=make_schema(), budget=Budget(1.0, 1e-5), engine="mbi").fit(make_frame(10), seed=0)


@pytest.mark.parametrize("name", ["mst", heavy("aim")])
def test_relations_survive_in_a_graphical_model(name):
    frame, schema = make_frame(4000), make_schema()
    settings = {"aim": {"least": 60.0, "last": 300}, "mst": {"iterations": 1000}}[name]
    fitted = Synthesizer(name, schema=schema, budget=Budget(30.0, 1e-5), **settings).fit(frame, seed=0)
    made = fitted.sample(4000, seed=1)
    for rows in (frame, made):
        assert rows["ill"].to_numpy()[rows["dose"].fillna(0) > 0].mean() > 0.95  # only the ill are given a dose


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["mst", "aim"])
@pytest.mark.parametrize("kept", [["ill"], ["ill", "age"]])
def test_a_graphical_model_of_few_columns(name, kept):
    columns = {name: value for name, value in make_schema().to_dict()["columns"].items() if name in kept}
    schema = type(make_schema()).from_dict(
        {"declared_by": "the tests", "units": 400, "targets": [], "columns": columns}
    )
    frame = make_frame(2000)[kept]
    made = Synthesizer(name, schema=schema, budget=Budget(3.0, 1e-5)).fit(frame, seed=0).sample(2000, seed=1)
    assert list(made.columns) == list(columns)
    assert abs(made["ill"].mean() - frame["ill"].mean()) < 0.05


@pytest.mark.heavy
def test_the_pairs_of_mst_span_the_columns():
    release = Synthesizer("mst", schema=make_schema(), budget=Budget(1.0, 1e-5)).fit(make_frame(400), seed=0)
    parents = release.model.network.parents
    assert sum(map(len, parents)) == len(parents) - 1
    assert {1} == {len(each) for each in parents if each}


def test_the_workload_says_what_may_be_measured_and_how_it_weighs():
    schema = make_schema()
    names = [column.name for column in schema.coded]
    ill, count = names.index("ill"), len(names)
    pairs = make("aim", {}).candidates(schema)
    assert len(pairs) == math.comb(count, 2)
    assert set(pairs.values()) == {2.0 * (count - 1)}  # a column is in so many pairs
    around = make("aim", {"degree": 3, "workload": "target"}).candidates(schema)
    assert {clique for clique in around if len(clique) == 3} == {
        clique for clique in combinations(range(count), 3) if ill in clique
    }
    assert around[(0, ill)] == math.comb(count - 1, 2) + (count - 2)
    assert around[(0, 1)] == 2 * (count - 2)


def test_the_rounds_of_aim_keep_their_cap_and_nearly_spend_it():
    """What was asked under the cap adds up to it, whatever the answers were."""
    recorder, schema, budget = Recorder(), make_schema(), Budget(1.0, 1e-5)
    account = Account(budget, Ledger())
    data = Sensitive(make_frame(400), schema, account, seed=1, recorder=recorder)
    make("aim", {"rounds": 6, "iterations": 30, "last": 50}).fit(data, seed=1)
    cap = account.ledger.entries()[0].event.bound
    events = [event for question, _, _ in recorder.asked for event in question.events]
    spent = [e.epsilon**2 / 8 if isinstance(e, Choice) else 1 / (2 * e.noise**2) for e in events]
    assert 0.999 * cap < sum(spent) <= cap * (1 + 1e-9)
    assert sum(isinstance(event, Choice) for event in events) == len(events) // 2  # columns alone, then in turns
    assert len(events) % 2 == 1


def test_too_many_tables_are_refused_before_any_charge(tmp_path):
    columns = {f"c{place}": {"kind": "boolean"} for place in range(60)}
    schema = type(make_schema()).from_dict(
        {"declared_by": "the tests", "units": 400, "targets": ["c0"], "columns": columns}
    )
    frame = pd.DataFrame({name: [True, False] for name in columns})
    with pytest.raises(BadInput, match=r"generator\.degree=3: 60 columns have more than 20,000 tables"):
        Synthesizer("aim", schema=schema, budget=Budget(1.0, 1e-5), degree=3).fit(frame, seed=0, ledger=tmp_path / "l")
    assert not (tmp_path / "l").exists()


def test_the_size_of_a_tree_is_that_of_its_largest_scopes():
    rng = np.random.default_rng(3)
    for _ in range(200):
        count = int(rng.integers(1, 9))
        sizes = [int(size) for size in rng.integers(1, 5, count)]
        cliques = [tuple(rng.choice(count, min(count, 3), replace=False)) for _ in range(int(rng.integers(0, 8)))]
        tree = tree_of(sizes, cliques)
        scopes = [frozenset(tree.scope(column)) for column in tree.order]
        assert all(any(set(clique) <= scope for scope in scopes) for clique in cliques)
        largest = {scope for scope in scopes if not any(scope < other for other in scopes)}
        assert tree.cells == sum(math.prod(sizes[column] for column in scope) for scope in largest)


def test_a_round_of_aim_compares_a_bounded_number_of_tables():
    """Which ones is told by the number of the round alone; over the rounds every table comes."""
    columns = {f"c{place}": {"kind": "boolean"} for place in range(60)}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 100, "columns": columns})
    candidates = list(aim.AIM().candidates(schema))
    assert len(candidates) == 60 * 59 // 2
    compared = [mst.compared(candidates, aim.MOST_COMPARED, step) for step in range(40)]
    assert {len(set(each)) for each in compared} == {aim.MOST_COMPARED}
    assert compared[0] != compared[1]
    assert compared[7] == mst.compared(candidates, aim.MOST_COMPARED, 7)
    assert set().union(*compared) == set(candidates)
    assert mst.compared(candidates[:400], aim.MOST_COMPARED, 7) == candidates[:400]
