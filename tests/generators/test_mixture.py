"""The mixture of products: its tables against loops, what it recovers, groups of codes, and odd schemas."""

import itertools
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_schema
from sweeps import sweep

from synthdp import BadInput, Budget, Synthesizer
from synthdp.generators.marginals import grouping
from synthdp.generators.marginals.evidence import Look, blocks, clear_triples
from synthdp.generators.marginals.grouping import Counts, Groups, agreed, broad, grouped, halves
from synthdp.generators.marginals.product_mixture import BETAS, Broad, Evidence, Products, Triples, _adam, allotted, fit
from synthdp.generators.mixture import Mixture
from synthdp.ledger.events import Choice, Gaussian
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Boolean, Categorical
from synthdp.schema.schema import Schema
from synthdp.schema.trees import Tree
from synthdp.seal import Sensitive
from synthdp.seal.charging import Account

BUDGET = Budget(1e6, 1e-5)


def known(rng, sizes=(3, 4, 2), labels=2, components=2):
    def chances(size):
        return rng.dirichlet(np.full(size, 0.7), components)

    return Products(
        weights=rng.dirichlet(np.full(components, 5.0)), label=chances(labels), columns=tuple(map(chances, sizes))
    )


def tables_of(products):
    """(labels, width, width) above the diagonal, by a loop over everything."""
    sizes = [column.shape[1] for column in products.columns]
    ends = np.cumsum([0, *sizes])
    labels = products.label.shape[1]
    found, measured = np.zeros((labels, ends[-1], ends[-1])), np.zeros((ends[-1], ends[-1]))
    for a in range(len(sizes)):
        for b in range(a + 1, len(sizes)):
            for i in range(sizes[a]):
                for j in range(sizes[b]):
                    measured[ends[a] + i, ends[b] + j] = 1
                    for y in range(labels):
                        found[y, ends[a] + i, ends[b] + j] = sum(
                            w * products.label[k, y] * products.columns[a][k, i] * products.columns[b][k, j]
                            for k, w in enumerate(products.weights)
                        )
    return found, measured


def evidence_of(products, deviation, rng):
    found, measured = tables_of(products)
    noisy = found + rng.normal(0, deviation, found.shape) * measured
    ones = np.concatenate([products.weights @ column for column in products.columns])
    return Evidence(
        sizes=tuple(column.shape[1] for column in products.columns),
        tables=torch.from_numpy(noisy).float(),
        measured=torch.from_numpy(measured).float(),
        precision=1 / deviation,
        pairs=torch.zeros(0, 0),
        pairs_measured=torch.zeros(0, 0),
        pairs_precision=0.0,
        ones=torch.from_numpy(ones).float(),
        ones_precision=torch.full((len(ones),), 1 / deviation),
        labelled=torch.zeros((found.shape[0], len(ones))),
        labelled_precision=torch.zeros(len(ones)),
        label=torch.from_numpy(products.weights @ products.label).float(),
        label_precision=torch.full((found.shape[0],), 1 / deviation),
    )


def fitted(evidence, progress=lambda *_: None, **settings):
    chosen = {"components": 8, "iterations": 400, "shrinkage": 0.0, **settings}
    generator, device = torch.Generator().manual_seed(0), torch.device("cpu")
    return fit(evidence, starts=1, rate=0.1, generator=generator, device=device, progress=progress, **chosen)


def test_the_lean_optimiser_is_torch_s_adam():
    start = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    ours, theirs = ([start.clone().requires_grad_()] for _ in range(2))
    moments = [(torch.zeros_like(start), torch.zeros_like(start))]
    adam = torch.optim.Adam(theirs, 0.1, betas=BETAS)
    for step in range(50):
        slopes = torch.autograd.grad(((ours[0] - 3) ** 4).sum(), ours)
        with torch.no_grad():
            _adam(ours, slopes, moments, step + 1, 0.1)
        adam.zero_grad()
        ((theirs[0] - 3) ** 4).sum().backward()
        adam.step()
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-5, atol=1e-6)


@pytest.mark.heavy
def test_a_fit_imports_no_compiler_of_torch():
    """torch.optim brings torch._dynamo, which takes as long to import as the rest of torch."""
    code = """
import sys, pandas as pd
from synthdp import Budget, Schema, Synthesizer
schema = Schema.from_dict({"declared_by": "test", "units": 20, "columns": {"a": {"kind": "boolean"}, "b": {"kind": "boolean"}}})
frame = pd.DataFrame({"a": [True, False] * 10, "b": [True, False] * 10})
Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5), iterations=2).fit(frame, account=None).sample(3)
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_known_mixture_is_recovered_in_its_tables():
    rng = np.random.default_rng(0)
    truth, residuals = known(rng), []
    found = fitted(evidence_of(truth, 1e-3, rng), lambda _, residual: residuals.append(residual))
    (wanted, measured), (got, _) = tables_of(truth), tables_of(found)
    assert np.abs((wanted - got) * measured).max() < 4e-3
    assert residuals[-1] < 1.5  # about as far from the noisy tables as these are from the true ones
    assert residuals[0] > 100


def test_shrinkage_holds_components_at_the_single_columns():
    rng = np.random.default_rng(1)
    truth = known(rng)
    found = fitted(evidence_of(truth, 0.05, rng), components=4, iterations=300, shrinkage=1e3)
    for one, column in zip(found.columns, truth.columns, strict=True):
        assert np.abs(one - truth.weights @ column).max() < 0.02


def test_pairs_without_the_label_are_fitted_too():
    """Only the pairs are known: their tables come back, and the label stays what it is by itself."""
    rng = np.random.default_rng(3)
    truth = known(rng)
    wanted, measured = tables_of(truth)
    whole = evidence_of(truth, 1e-3, rng)
    pairs = replace(
        whole,
        tables=torch.zeros(2, 0, 0),
        measured=torch.zeros(0, 0),
        precision=0.0,
        pairs=whole.tables.sum(0),
        pairs_measured=whole.measured,
        pairs_precision=1e3,
    )
    found = fitted(pairs)
    got, _ = tables_of(found)
    assert np.abs((wanted.sum(0) - got.sum(0)) * measured).max() < 4e-3
    assert np.abs(wanted.sum(0) * measured).max() > 0.1


def test_draws_have_the_distribution_of_the_mixture():
    rng = np.random.default_rng(2)
    products, rows = known(rng), 200_000
    label, (first, second, _) = products.draw(rows, rng)
    found = np.zeros((2, 3, 4))
    np.add.at(found, (label, first, second), 1 / rows)
    wanted, _ = tables_of(products)
    assert np.abs(found - wanted[:, :3, 3:7]).max() < 5 * np.sqrt(0.25 / rows)


def test_rare_categories_become_one_group_and_come_back_in_proportion():
    schema = make_schema(columns={"site": {"kind": "categorical", "categories": list("abcdef")}})
    column = schema.column("site")
    counts = np.array([500.0, 3.0, 300.0, 9.0, -4.0, 6.0])
    groups = grouped(Counts.of(counts, 1.0), column, Codec(schema), 50.0, 64)
    assert groups.of.tolist() == [0, 2, 1, 2, 2, 2]
    codes = groups.ungrouped(np.full(60_000, 2), np.random.default_rng(0))
    shares = np.bincount(codes, minlength=6) / len(codes)
    assert shares[[0, 2]].sum() == 0
    assert np.abs(shares - groups.within * (groups.of == 2)).max() < 0.01
    assert groups.within[3] > groups.within[5] > groups.within[1] >= groups.within[4]


def test_bins_join_their_neighbours_and_frequent_atoms_and_the_missing_stay_alone():
    schema = make_schema()
    codec, column = Codec(schema), schema.column("dose")  # four bins, the atom 0, missing
    counts = np.array([5.0, 30.0, 5.0, 5.0, 400.0, 2.0])
    of = grouped(Counts.of(counts, 1.0), column, codec, 25.0, 64).of
    assert of[0] == of[1]  # 5 is too few alone
    assert of[2] == of[3] == of[0]  # what is left over joins the run before it
    assert len({of[0], of[4], of[5]}) == 3
    counts[4] = 1.0
    assert (
        grouped(Counts.of(counts, 1.0), column, codec, 25.0, 64).of[4] == of[0]
    )  # a rare atom is a value among the others


def test_a_long_column_has_at_most_about_so_many_groups():
    schema = make_schema(columns={"age": {"kind": "integer", "bounds": [0, 999], "bins": 500}})
    counts = np.full(500, 40.0)
    groups = grouped(Counts.of(counts, 1.0), schema.column("age"), Codec(schema), 10.0, 64)
    assert 32 <= groups.count <= 64
    assert (np.diff(groups.of) >= 0).all()


def test_ungrouping_never_leaves_the_group():
    rng = np.random.default_rng(3)
    of = rng.integers(0, 5, 40)
    of[:5] = np.arange(5)
    within = np.zeros(40)
    for group in range(5):
        places = np.flatnonzero(of == group)
        within[places[: max(1, len(places) // 2)]] = 1 / max(1, len(places) // 2)
    groups = Groups(of=of, within=within)
    wanted = rng.integers(0, 5, 50_000)
    codes = groups.ungrouped(wanted, rng)
    assert (of[codes] == wanted).all()
    assert (within[codes] > 0).all()


@pytest.mark.heavy
@pytest.mark.parametrize("targets", sweep([[], ["ill"], ["ill", "sex"], ["age"]], lambda targets: len(targets) == 2))
def test_relations_survive_with_any_number_of_targets(targets):
    schema = make_schema(targets=targets)
    frame = make_frame(4000)
    made = (
        Synthesizer("mixture", schema=schema, budget=BUDGET, components=60, starts=1)
        .fit(frame, seed=0)
        .sample(4000, seed=1)
    )
    for rows in (frame, made):
        dosed = rows["dose"].fillna(0) > 0
        assert rows["ill"].to_numpy()[dosed].mean() > 0.95  # only the ill are given a dose
    real, drawn = (rows["ill"][rows["age"] >= 60].mean() for rows in (frame, made))
    assert abs(real - drawn) < 0.06


@pytest.mark.heavy
def test_targets_of_too_many_values_together_are_columns_like_any_other():
    """The label is the first of them, and those that make 16 groups with it at most; a release tells which from its arrays."""
    rng, rows = np.random.default_rng(0), 6000
    kinds = {name: {"kind": "categorical", "categories": list("abcdefgh")} for name in ("one", "two")}
    columns = {"x": {"kind": "boolean"}, **kinds, "three": {"kind": "boolean"}}
    schema = type(make_schema()).from_dict(
        {"declared_by": "the tests", "units": rows, "targets": ["two", "one", "three"], "columns": columns}
    )
    first = rng.integers(0, 8, rows)
    second = (first + rng.integers(0, 2, rows)) % 8
    frame = pd.DataFrame(
        {
            "x": first >= 4,
            "one": np.array(list("abcdefgh"))[first],
            "two": np.array(list("abcdefgh"))[second],
            "three": (first + second) % 3 == 0,
        }
    )
    release = Synthesizer("mixture", schema=schema, budget=BUDGET, components=100, starts=1).fit(frame, seed=0)
    assert release.model.labels == ("two", "three")
    again = Mixture().restore(release.schema, release.model.tensors())
    assert again.labels == ("two", "three")
    made = release.sample(rows, seed=1)
    for pair in itertools.combinations(columns, 2):
        real, drawn = (rows_[list(pair)].astype(str).value_counts(normalize=True) for rows_ in (frame, made))
        assert real.sub(drawn, fill_value=0).abs().sum() / 2 < 0.05, pair


def test_a_target_beside_a_label_that_is_full_leaves_no_pair_unasked():
    rng, rows = np.random.default_rng(0), 3000
    schema = type(make_schema()).from_dict(
        {
            "declared_by": "the tests",
            "units": rows,
            "targets": ["a", "b"],
            "columns": {
                "a": {"kind": "boolean"},
                "b": {"kind": "boolean"},
                "x": {"kind": "categorical", "categories": ["p", "q"]},
            },
        }
    )
    a = rng.random(rows) < 0.4
    frame = pd.DataFrame({"a": a, "b": a, "x": np.where(a, "p", "q")})
    made = Synthesizer("mixture", schema=schema, budget=BUDGET, components=20, starts=1).fit(frame, seed=0)
    assert made.model.labels == ("a", "b")
    drawn = made.sample(rows, seed=1)
    assert ((drawn["x"] == "p") == drawn["a"]).mean() > 0.97


@pytest.mark.parametrize("count", sweep([1, 2, 3, 7], lambda count: count == 1))
def test_tables_of_nothing_but_targets(count):
    rng, rows, names = np.random.default_rng(0), 3000, list("abcdefg")[:count]
    schema = type(make_schema()).from_dict(
        {
            "declared_by": "the tests",
            "units": rows,
            "targets": names,
            "columns": {name: {"kind": "boolean"} for name in names},
        }
    )
    first = rng.random(rows) < 0.3
    frame = pd.DataFrame(dict.fromkeys(names, first))
    release = Synthesizer("mixture", schema=schema, budget=BUDGET, components=20, starts=1).fit(frame, seed=0)
    assert release.model.labels == tuple(names[: max(1, min(4, count - 1))])
    made = release.sample(rows, seed=1)
    assert all((made[name] == made["a"]).mean() > 0.97 for name in names)
    pd.testing.assert_frame_equal(
        Mixture().restore(release.schema, release.model.tensors()).sample(9, seed=2), release.model.sample(9, seed=2)
    )


def test_a_model_without_a_column_is_refused():
    made = Synthesizer("mixture", schema=make_schema(), budget=BUDGET, components=20, starts=1, iterations=10)
    release = made.fit(make_frame(400), seed=0)
    tensors = release.model.tensors()
    del tensors["column.dose"]
    with pytest.raises(BadInput, match="lacks columns"):
        Mixture().restore(release.schema, tensors)


@pytest.mark.heavy
@pytest.mark.parametrize("kept", [["ill"], ["ill", "age"], ["age"], ["age", "sex"]])
def test_tables_of_one_or_two_columns(kept):
    columns = {name: value for name, value in make_schema().to_dict()["columns"].items() if name in kept}
    schema = make_schema()
    schema = type(schema).from_dict(
        {"declared_by": "the tests", "units": 400, "targets": ["ill"] if "ill" in kept else [], "columns": columns}
    )
    frame = make_frame(3000)[kept]
    made = (
        Synthesizer("mixture", schema=schema, budget=BUDGET, components=30, starts=1)
        .fit(frame, seed=0)
        .sample(3000, seed=1)
    )
    assert list(made.columns) == list(columns)
    if "ill" in kept:
        assert abs(made["ill"].mean() - frame["ill"].mean()) < 0.04
    if kept == ["ill", "age"]:
        old = [rows["ill"][rows["age"] >= 60].mean() for rows in (frame, made)]
        assert abs(old[0] - old[1]) < 0.06


def precision(entry):
    """1 / noise^2 of a Gaussian, or of one that has the rho of a choice."""
    event = entry.event
    return entry.count * (event.noise**-2 if isinstance(event, Gaussian) else event.epsilon**2 / 4)


def test_noise_is_split_as_the_share_says():
    synthesizer = Synthesizer(
        "mixture",
        schema=make_schema(),
        budget=Budget(1.0, 1e-5),
        share=0.2,
        grid_share=0.1,
        label_share=0.05,
        broad_share=0.08,
        pair_share=0.25,
        related_share=0.5,
        iterations=2,
    )
    release = synthesizer.fit(make_frame(50), seed=0)
    events = release.statement.events
    choices = sum(precision(entry) for entry in events if isinstance(entry.event, Choice))
    gaussians = [precision(entry) for entry in events if isinstance(entry.event, Gaussian)]
    total = choices + sum(gaussians)
    again = 0.5 * 0.25
    assert choices / total == pytest.approx(0.15 * again)
    shares = [0.2, 0.1, 0.05, 0.08, 0.125, 0.32, 0.85 * again]
    assert np.array(gaussians) / total == pytest.approx(shares)


@pytest.mark.parametrize(
    ("columns", "units", "given", "labelled", "paired"),
    [
        (12, 1_000_000, {}, 0.1, 0.3),
        (50, 500, {}, 0.35, 0.3 * (0.78 - 0.35) / 0.68),
        (50, 4000, {}, 5 * 50 * 3.5 / 4000, 0.3 * (0.78 - 5 * 50 * 3.5 / 4000) / 0.68),
        (50, 500, {"pair_share": 0.4}, 0.1, 0.4),
        (50, "learn", {}, 0.1, 0.3),
    ],
)
def test_tables_with_the_label_get_more_where_columns_are_many_and_units_few(columns, units, given, labelled, paired):
    noises = Mixture(triple_share=0.0, related_share=0.0, **given).noises(replace(wide(columns)[0], units=units), 3.5)
    shares = {name: (3.5 / noise) ** 2 for name, noise in noises.items()}
    rest = 1 - 0.12 - labelled - paired
    assert shares == pytest.approx({"columns": 0.12, "labels": labelled, "pairs": paired, "tables": rest})


def test_an_image_is_refused():
    from clinic import picture_schema

    with pytest.raises(ValueError, match="mixture does not learn images"):
        Synthesizer("mixture", schema=picture_schema(), budget=BUDGET).fit(pd.DataFrame(), seed=0)


def wide(columns, rows=2000, targets=("ill",)):
    """Truth values of which c0 and c1 are the label but for one in ten, the others nearly so often as chance has it."""
    rng = np.random.default_rng(0)
    ill = rng.random(rows) < 0.4
    frame = pd.DataFrame({f"c{place}": rng.random(rows) < 0.5 for place in range(columns)})
    for name in ("c0", "c1"):
        frame[name] = ill ^ (rng.random(rows) < 0.1)
    frame["c2"] = ill ^ (rng.random(rows) < 0.4)
    frame["ill"] = ill
    names = {name: {"kind": "boolean"} for name in frame}
    return type(make_schema()).from_dict(
        {"declared_by": "the tests", "units": rows, "targets": list(targets), "columns": names}
    ), frame


@pytest.mark.heavy
def test_of_many_columns_the_pairs_are_of_those_that_tell_most():
    schema, frame = wide(12)
    synthesizer = Synthesizer("mixture", schema=schema, budget=Budget(20.0, 1e-5), tables=1, pairs=1, components=40)
    with pytest.warns(UserWarning, match=r"pairs of 2 of the 12 columns.*with the label: 'c2', 'c3'"):
        release = synthesizer.fit(frame, seed=0)
    assert all(precision(entry) > 0 for entry in release.statement.events)
    # columns by themselves, with the label, pairs, pairs with the label, choices, pairs again, triples
    assert len(release.statement.events) == 7
    made = release.sample(4000, seed=1)
    for name in ("c0", "c1", "c2"):  # c2 is known with the label all the same
        assert (made[name] == made["ill"]).mean() == pytest.approx((frame[name] == frame["ill"]).mean(), abs=0.04)
    assert (made["c0"] == made["c1"]).mean() == pytest.approx((frame["c0"] == frame["c1"]).mean(), abs=0.04)


@pytest.mark.heavy
def test_without_a_label_the_pairs_are_of_those_that_vary_most():
    schema, frame = wide(5, targets=())
    frame["c3"], frame["c4"] = False, False
    synthesizer = Synthesizer("mixture", schema=schema, budget=BUDGET, pairs=6, components=20)
    with pytest.warns(UserWarning, match="by themselves: 'c3', 'c4'"):
        made = synthesizer.fit(frame, seed=0).sample(2000, seed=1)
    assert (made["c0"] == made["ill"]).mean() > 0.85
    assert not made[["c3", "c4"]].any().any()


def test_a_plan_of_more_columns_than_tables_is_what_is_asked():
    schema, frame = wide(6)
    synthesizer = Synthesizer(
        "mixture", schema=schema, budget=Budget(1.0, 1e-5), tables=3, pairs=6, iterations=2, components=4
    )
    with pytest.warns(UserWarning, match="pairs of 4 of the 6 columns"):
        release = synthesizer.fit(frame, seed=0)
    plan = release.generator.plan(schema, 5.0)
    assert sum(map(precision, plan)) == pytest.approx(5.0**-2)
    events = release.statement.events
    assert [type(entry.event) for entry in plan] == [type(entry.event) for entry in events]
    assert [entry.count for entry in events if isinstance(entry.event, Choice)] == [6]  # four of pairs, two of nothing


def test_a_bought_number_of_units_does_not_change_what_was_planned():
    """How many pairs of 20 columns are worth asking is known only from the answers: what is planned does not depend on it."""
    schema, frame = wide(20, rows=300)
    schema = type(schema).from_dict({**schema.to_dict(), "units": "learn"})
    synthesizer = Synthesizer("mixture", schema=schema, budget=Budget(0.5, 1e-5), iterations=2, components=4)
    release = synthesizer.fit(frame, seed=0)
    # units, columns by themselves, with the label, pairs, pairs with the label, choices, pairs again
    assert len(release.statement.events) == 7
    assert set(release.sample(10, seed=0).columns) == set(frame.columns)


@pytest.mark.parametrize("beside", [0, 1, 2, 4])
def test_what_is_asked_is_what_was_planned_however_few_columns_the_label_leaves(beside):
    """Of four targets all are part of the label, which is known only from how many groups they have."""
    schema, frame = wide(3 + beside, rows=200, targets=("ill", "c0", "c1", "c2"))
    frame["constant"] = False
    schema = replace(schema, columns=(*schema.columns, Boolean(name="constant")))
    synthesizer = Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5), iterations=2, components=4)
    release = synthesizer.fit(frame, seed=0)
    found = [(type(entry.event), entry.count) for entry in release.statement.events]
    assert found == [(type(entry.event), entry.count) for entry in release.generator.plan(schema, 5.0)]
    assert (Choice, 4 + beside) in found


def test_two_looks_at_a_column_agree_as_least_squares_has_it():
    rng = np.random.default_rng(0)
    of = np.repeat([0, 1, 2], [4, 1, 5])
    bins, codes = rng.normal(50, 9, 3), rng.normal(12, 3, 10)
    found = agreed(bins, 2.0, codes, 3.0, of).held
    rows = np.vstack([np.eye(10) / 3.0, (of == np.arange(3)[:, None]) / 2.0])
    wanted = np.linalg.lstsq(rows, np.concatenate([codes / 3.0, bins / 2.0]), rcond=None)[0]
    np.testing.assert_allclose(found, wanted)


def test_bins_are_halved_where_the_records_are():
    """All of a wide bin's records lie in a corner of it: groups are small there, and values are drawn there."""
    schema = make_schema(columns={"age": {"kind": "integer", "bounds": [0, 9999], "bins": 4}})
    codec, column = Codec(schema, 5000), schema.column("age")
    rng = np.random.default_rng(0)
    exact = np.where(np.arange(5000) < 40, 100.0, 0.0)
    bins = np.array([4000.0, 0.0, 0.0, 0.0]) + rng.normal(0, 10, 4)
    counts = agreed(bins, 10.0, exact + rng.normal(0, 10, 5000), 10.0, codec.coarse()[codec.names.index("age")])
    groups = grouped(counts, column, codec, 20.0, 64)
    assert len(set(groups.of[:40])) >= 4
    drawn = groups.ungrouped(rng.choice(np.unique(groups.of[:40]), 5000), rng)
    assert (drawn < 80).mean() > 0.9


def test_values_that_people_round_to_stay_by_themselves():
    schema = make_schema(columns={"age": {"kind": "integer", "bounds": [0, 999], "bins": 4}})
    codec, column = Codec(schema, 1000), schema.column("age")
    rng = np.random.default_rng(0)
    exact = np.full(1000, 5.0)
    exact[[100, 500, 999]] = 400.0
    groups = grouped(Counts.of(exact + rng.normal(0, 10, 1000), 10.0), column, codec, 20.0, 64)
    sizes = np.bincount(groups.of)
    assert (sizes[groups.of[[100, 500, 999]]] == 1).all()
    assert (sizes == 1).sum() == 3


def test_codes_are_parted_once_however_often_groups_are_made_of_them(monkeypatch):
    """With no noise each of 1,000 codes is a part, and until 64 groups were left, all parts were found anew in each of 14 tries."""
    schema = make_schema(columns={"age": {"kind": "integer", "bounds": [0, 999], "bins": 4}})
    codec, column, found, plain = Codec(schema, 1000), schema.column("age"), [], grouping._halved
    monkeypatch.setattr(grouping, "_halved", lambda *given: found.append(given) or plain(*given))
    way = codec.coarse()[codec.names.index("age")]
    counts = agreed(np.full(4, 250.0), 0.0, np.ones(1000), 0.0, way)
    groups = grouped(counts, column, codec, 0.0, 64)
    assert groups.count <= 64
    assert len(found) == 1


@pytest.mark.heavy
def test_the_noise_of_an_empty_range_does_not_draw_records_there():
    """A group of a full bin and a long empty one: shares go by the bins' counts, not by the noise of so many codes."""
    schema = make_schema(columns={"age": {"kind": "integer", "bounds": [0, 9999], "bins": [100]}})
    codec, column = Codec(schema, 10_000), schema.column("age")
    rng = np.random.default_rng(0)
    way = codec.coarse()[codec.names.index("age")]
    found = []
    for _ in range(20):
        codes = np.where(np.arange(10_000) < 100, 3.0, 0.0) + rng.normal(0, 30, 10_000)
        counts = agreed(np.array([300.0, 0.0]) + rng.normal(0, 5, 2), 5.0, codes, 30.0, way)
        groups = grouped(counts, column, codec, 1000.0, 64)
        assert groups.count == 1
        found.append(groups.within[100:].sum())
    assert np.mean(found) < 0.05


@pytest.mark.heavy
def test_parts_of_a_bin_differ_only_as_the_noise_lets_them_be_told_apart():
    """Halves of a bin hold noise, which would come back as a shape that no record has."""
    schema = make_schema(columns={"age": {"kind": "integer", "bounds": [0, 399], "bins": 4}})
    codec, column = Codec(schema, 400), schema.column("age")
    way = codec.coarse()[codec.names.index("age")]
    rng = np.random.default_rng(0)

    def away(exact):
        """Mean distance of the shares within bins from the exact ones, and the share of the spike."""
        told = []
        for _ in range(20):
            bins = np.bincount(way, exact) + rng.normal(0, 5, 4)
            counts = agreed(bins, 5.0, exact + rng.normal(0, 15, 400), 15.0, way)
            drawn = grouped(counts, column, codec, 20.0, 64, 1e9).within * np.bincount(way, exact)[way]
            told.append((np.abs(drawn - exact).sum() / exact.sum(), drawn[250] / exact.sum()))
        return np.mean(told, 0)

    even = np.full(400, 10.0)
    assert away(even)[0] < 0.3  # 0.55 if each half keeps its count
    spiked = even + np.where(np.arange(400) == 250, 800.0, 0.0)
    distance, spike = away(spiked)
    assert distance < 0.25  # 0.46
    assert spike == pytest.approx(810 / spiked.sum(), rel=0.05)
    steep = np.repeat([19.0, 1.0, 10.0, 10.0, 1.0, 19.0, 10.0, 10.0], 50)
    assert away(steep)[0] < 0.45  # 0.55; the halves of two bins differ by far more than the noise


@pytest.mark.heavy
def test_places_follow_their_shares_one_by_one_and_together():
    rng = np.random.default_rng(0)
    shares, first = np.array([0.25, 0.0, 0.75, 2e-30, 6e-30, 1.0, 0.0]), np.array([0, 3, 3, 5, 7])
    strata = np.array([0, 2, 2, 3, 0, 2, 2, 0, 0])  # a stratum without rows or shares is 1
    found = np.array([allotted(shares, first, strata, rng) for _ in range(4000)])
    in_first, in_third = found[:, strata == 0], found[:, strata == 2]
    assert (np.sort(in_first, axis=1) == [0, 2, 2, 2]).all()  # together: as many as the shares say
    assert (np.sort(in_third, axis=1) == [3, 4, 4, 4]).all()  # in proportion, however little they hold
    assert (found[:, strata == 3] == 5).all()
    for column in (*(in_first == 0).T, *(in_third == 3).T):  # one by one: any row may be the one
        assert abs(column.mean() - 0.25) < 6 * np.sqrt(0.25 * 0.75 / len(column))
    thirds = np.array([allotted(np.array([0.5, 0.5]), np.array([0, 2]), np.zeros(3, int), rng) for _ in range(4000)])
    assert set(np.unique(thirds.sum(1))) == {1, 2}  # where it does not divide: the next number below or above
    assert abs(thirds.mean() - 0.5) < 6 * np.sqrt(0.25 / len(thirds))


@pytest.mark.parametrize("cells", [-1, 1.5, True, 100_001])
def test_cells_are_checked(cells):
    with pytest.raises(ValueError, match=r"generator\.cells must be a whole number"):
        Synthesizer("mixture", schema=make_schema(), budget=BUDGET, cells=cells)


def test_a_share_of_grids_that_are_not_asked_is_refused():
    with pytest.raises(ValueError, match=r"grid_share would be ignored with generator\.cells=0"):
        Synthesizer("mixture", schema=make_schema(), budget=BUDGET, cells=0, grid_share=0.1)


def test_shares_leave_something_for_the_tables():
    with pytest.raises(ValueError, match="something is left for the tables"):
        Synthesizer("mixture", schema=make_schema(), budget=BUDGET, share=0.6, grid_share=0.35)


@pytest.mark.parametrize("given", [{"tables": 3}, {"pair_share": 0.2}, {"label_share": 0.2}])
def test_settings_of_targets_are_refused_without_one(given):
    schema, frame = wide(4, targets=())
    with pytest.raises(ValueError, match=rf"generator\.{next(iter(given))} applies to tables with a target"):
        Synthesizer("mixture", schema=schema, budget=BUDGET, **given).fit(frame, seed=0)


@pytest.mark.heavy
def test_what_goes_with_a_rare_label_is_found():
    """Of 200 in 20,000 records: in tables of three it is lost in the noise, so those of single columns with the label are asked in their
    place. With tables of three as well it was twice as frequent as in the records, and went with half of what it goes with."""
    rng = np.random.default_rng(0)
    rows, columns, values = 20_000, 8, 30
    frame = pd.DataFrame(rng.integers(0, values, (rows, columns)), columns=[f"c{place}" for place in range(columns)])
    frame["ill"] = rng.random(rows) < 0.01
    for name in ("c0", "c1"):
        frame.loc[frame["ill"], name] = 3
    names = {name: {"kind": "categorical", "categories": list(range(values))} for name in frame.columns[:-1]}
    schema = type(make_schema()).from_dict(
        {
            "declared_by": "the tests",
            "units": rows,
            "targets": ["ill"],
            "columns": {**names, "ill": {"kind": "boolean"}},
        }
    )
    synthesizer = Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5), components=60, starts=1)
    made = synthesizer.fit(frame, seed=0).sample(rows, seed=1)
    ill = made[made["ill"]]
    assert len(ill) < 320
    assert min((ill[name] == 3).mean() for name in ("c0", "c1")) > 0.6


def numbers_schema(rows, **columns):
    kinds = {name: {"kind": "integer", "bounds": [0, 199], "bins": bins} for name, bins in columns.items()}
    head = {"declared_by": "the tests", "units": rows, "targets": []}
    return type(make_schema()).from_dict({**head, "columns": kinds})


@pytest.mark.heavy
def test_correlations_of_a_large_table_are_not_shrunk():
    """When shrinkage grew with the records, .6 came back as .35. What is left is the width of the declared bins, and noise."""
    rows, rng = 50_000, np.random.default_rng(0)
    wanted = np.array([[1, 0.6, 0.3, 0], [0.6, 1, 0.3, 0], [0.3, 0.3, 1, 0], [0, 0, 0, 1]])
    values = rng.multivariate_normal(np.zeros(4), wanted, rows)
    frame = pd.DataFrame(np.clip(np.rint(100 + 25 * values), 0, 199).astype(int), columns=list("abcd"))
    schema = numbers_schema(rows, a=10, b=12, c=14, d=16)
    settings = {"starts": 1, "components": 100}
    release = Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5), **settings).fit(frame, seed=0)
    made = release.sample(rows, seed=1)
    assert np.abs(made.corr().to_numpy() - frame.corr().to_numpy()).max() < 0.06


def test_broad_groups_hold_near_values_and_about_as_many_records():
    """By hand: groups of five values each, out of their order, then one value alone and the missing one."""
    schema = type(make_schema()).from_dict(
        {
            "declared_by": "the tests",
            "units": 100,
            "columns": {"a": {"kind": "integer", "bounds": [0, 20], "bins": 21, "missing": True}},
        }
    )
    of = np.array([2] * 5 + [0] * 5 + [3] * 5 + [1] * 5 + [4, 5])
    groups = Groups(of=of, within=np.bincount(of)[of] ** -1.0)
    column, codec = schema.column("a"), Codec(schema)
    even = np.full(6, 0.2)
    assert broad(groups, even, column, codec, 2).tolist() == [0, 1, 0, 1, 1, 2]
    assert broad(groups, even, column, codec, 8).tolist() == [1, 3, 0, 2, 4, 5]
    heavy = np.array([0.1, 0.1, 0.1, 0.1, 0.6, 0.0])
    assert broad(groups, heavy, column, codec, 3).tolist() == [0, 1, 0, 0, 2, 3]


@pytest.mark.heavy
def test_broad_tables_are_fitted_beside_the_others():
    """The only table that is known of two columns is a broad one: the mixture gets it right, whatever the shrinkage."""
    rng = np.random.default_rng(4)
    whole = evidence_of(known(rng), 1e-3, rng)
    first, second, *_ = whole.sizes
    of = np.zeros((sum(whole.sizes), 4), np.float32)
    of[np.arange(first), np.arange(first) % 2] = 1
    of[first + np.arange(second), 2 + np.arange(second) % 2] = 1
    ones = whole.ones.numpy() @ of
    held, measured = np.zeros((4, 4), np.float32), np.zeros((4, 4), np.float32)
    measured[:2, 2:] = 1
    held[:2, 2:] = np.outer(ones[:2], ones[2:]) + 0.05 * np.array([[1, -1], [-1, 1]])
    parts = Broad(
        of=torch.from_numpy(of), held=torch.from_numpy(held), measured=torch.from_numpy(measured), precision=1e3
    )
    alone = replace(whole, measured=torch.zeros_like(whole.measured), precision=1.0, broad=parts)
    found = fitted(alone, shrinkage=1.0)
    table = (found.columns[0] * found.weights[:, None]).T @ found.columns[1]
    got = of[:first, :2].T @ table @ of[first : first + second, 2:]
    assert np.abs(got - held[:2, 2:]).max() < 0.005


@pytest.mark.heavy
def test_correlations_of_a_small_table_are_not_shrunk():
    """At five seeds each, .7 came back as .27 to .39 without broad tables, and as .47 to .57 with them."""
    rows, rng = 3_000, np.random.default_rng(0)
    values = rng.multivariate_normal(np.zeros(4), 0.3 * np.eye(4) + 0.7, rows)
    frame = pd.DataFrame(np.clip(np.rint(100 + 25 * values), 0, 199).astype(int), columns=list("abcd"))
    frame["ill"] = rng.random(rows) < 0.5
    named = numbers_schema(rows, a=10, b=12, c=14, d=16).to_dict()
    named |= {"columns": {**named["columns"], "ill": {"kind": "boolean"}}, "targets": ["ill"]}
    schema = type(make_schema()).from_dict(named)
    made = Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5), starts=1, iterations=200).fit(frame, seed=0)
    assert made.sample(rows, seed=1)[list("abcd")].corr().to_numpy()[np.triu_indices(4, 1)].min() > 0.42


def parity(rows, bits, seed=0, **facts):
    """A label that is the parity of the first three of so many bits in 19 of 20 records."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"b{place}": rng.random(rows) < 0.5 for place in range(bits)})
    frame["odd"] = (frame[[*frame][:3]].sum(axis=1) % 2 == 1) ^ (rng.random(rows) < 0.05)
    columns = {name: {"kind": "boolean"} for name in frame}
    head = {"declared_by": "the tests", "units": rows, "targets": ["odd"], **facts}
    return type(make_schema()).from_dict({**head, "columns": columns}), frame


def agreement(frame):
    return (frame["odd"] == (frame[["b0", "b1", "b2"]].sum(axis=1) % 2 == 1)).mean()


def test_a_label_that_is_the_parity_of_three_columns_is_learned():
    """No table of two columns with the label shows it: without triples, half of the records agree."""
    schema, frame = parity(8_000, 5)
    settings = {"starts": 1, "components": 30, "iterations": 100}
    made = Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5), **settings).fit(frame, seed=0)
    assert agreement(made.sample(8_000, seed=1)) > 0.85


def test_triples_are_asked_where_public_numbers_say_that_they_stand_clear():
    """And what they cost is taken from the other tables alike."""

    def planned(bits, noise=3.7, **facts):
        return Mixture().noises(parity(50, bits, **facts)[0], noise)

    assert "triples" in planned(8, units=20_000)
    for little in ({"bits": 8, "units": 2_000}, {"bits": 8, "units": None}, {"bits": 8, "units": "learn"}):
        assert "triples" not in planned(**little)
    assert "triples" in planned(20, units=10**6)
    assert "triples" not in planned(21, units=10**9)
    assert "triples" not in planned(2, units=10**9)
    asked, others = planned(8, units=20_000), planned(8, units=2_000)
    assert sum(each**-2 for each in asked.values()) == pytest.approx(3.7**-2)
    assert asked["triples"] ** -2 == pytest.approx(0.02 * 3.7**-2)
    for name, noise in others.items():
        assert asked[name] == pytest.approx(noise / 0.98**0.5)


def looked(frame):
    """What single columns of booleans tell, without noise."""
    groups = {name: Groups(of=np.arange(2), within=np.ones(2)) for name in frame}
    counts = {name: Counts.of(np.bincount(frame[name], minlength=2).astype(float), 0.0) for name in frame}
    features = [name for name in frame if name != "odd"]
    return Look(labels=["odd"], features=features, counts=counts, groups=groups, deviation=0.0, total=float(len(frame)))


def triples_of(frame, deviation, seed=0):
    rng, seen = np.random.default_rng(seed), looked(frame)
    names = seen.features
    tables = []
    for block in blocks(names):
        cells = np.ravel_multi_index(frame[[*block, "odd"]].to_numpy(int).T, (2,) * (len(block) + 1))
        table = np.bincount(cells, minlength=2 ** (len(block) + 1)).astype(float)
        tables.append((table + rng.normal(0, deviation, table.shape)).reshape((2,) * (len(block) + 1)))
    return clear_triples(tables, deviation, {name: np.arange(2) for name in names}, names, seen)


@pytest.mark.parametrize("bits", [3, 4, 5, 7, 8])
def test_only_triples_that_noise_does_not_explain_are_fitted(bits):
    _, frame = parity(4_000, bits)
    found = triples_of(frame, 20.0)
    assert found.of.tolist() == [[0], [1], [2]]
    told = np.array([-1, 1])[frame[["b0", "b1", "b2"]].to_numpy(int)].prod(1)
    exact = [told[frame["odd"] == label].sum() / len(frame) for label in (False, True)]
    np.testing.assert_allclose(found.held[:, 0], exact, atol=4.5 / float(found.precision[0]))
    frame["odd"] = frame["b0"] & frame["b1"]  # related two by two, as columns of ordinary tables are
    frame["b2"] = frame["odd"] ^ (np.random.default_rng(1).random(len(frame)) < 0.2)
    assert triples_of(frame, 20.0) is None


def test_a_mixture_s_triples_are_those_of_its_records():
    """By a loop over components and groups."""
    products = known(np.random.default_rng(0))
    signs = np.zeros((9, 3))
    signs[:3, 0], signs[3:7, 1], signs[7:, 2] = [-1, 1, 1], [-1, -1, 1, 1], [-1, 1]
    made = np.zeros(2)
    for k, w in enumerate(products.weights):
        for i, j, m in itertools.product(range(3), range(4), range(2)):
            share = w * products.columns[0][k, i] * products.columns[1][k, j] * products.columns[2][k, m]
            made += share * products.label[k] * signs[i, 0] * signs[3 + j, 1] * signs[7 + m, 2]
    as_tensors = [torch.from_numpy(each) for each in (products.weights, products.label, np.hstack(products.columns))]
    triples = Triples(
        signs=torch.from_numpy(signs),
        of=torch.tensor([[0], [1], [2]]),
        held=torch.from_numpy(made[:, None] + [[0.5], [0.0]]),
        precision=torch.tensor([2.0]).double(),
    )
    assert float(triples.residual(*as_tensors)) == pytest.approx(1.0)


@pytest.mark.heavy
def test_unrelated_codes_come_back_unrelated():
    """A fit that follows the noise of such large tables is farther from the records than columns that are drawn by themselves."""
    rng = np.random.default_rng(8)
    names = [f"code{place}" for place in range(4)]
    frame = pd.DataFrame({name: rng.integers(0, 30, 20_000) for name in names})
    columns = {name: {"kind": "categorical", "categories": list(range(30))} for name in names}
    schema = Schema.from_dict({"declared_by": "a test", "units": len(frame), "columns": columns})

    def distance(generator):
        drawn = (
            Synthesizer(generator, schema=schema, budget=Budget(1.0, 1e-5)).fit(frame, seed=0).sample(20_000, seed=0)
        )
        pairs = itertools.combinations(names, 2)
        return np.mean(
            [abs(pd.crosstab(frame[a], frame[b]) - pd.crosstab(drawn[a], drawn[b])).to_numpy().sum() for a, b in pairs]
        )

    assert distance("mixture") < 1.06 * distance("independent")


@pytest.mark.parametrize("kind", ["ordered", "categories"])
def test_halves_hold_about_as_many_records(kind):
    """By hand."""
    columns = {"a": {"kind": "integer", "bounds": [0, 3], "bins": 4}}
    if kind == "categories":
        columns = {"a": {"kind": "categorical", "categories": list("abcd")}}
    schema = type(make_schema()).from_dict({"declared_by": "the tests", "units": 9, "columns": columns})
    column, codec, groups = schema.column("a"), Codec(schema), Groups(of=np.arange(4), within=np.ones(4))
    even, heavy = np.full(4, 0.25), np.array([0.1, 0.7, 0.1, 0.1])
    assert halves(groups, even, column, codec).tolist() == [0, 0, 1, 1]
    wanted = {"ordered": [0, 0, 1, 1], "categories": [1, 0, 1, 1]}
    assert halves(groups, heavy, column, codec).tolist() == wanted[kind]
    alone = Groups(of=np.zeros(4, np.int64), within=np.full(4, 0.25))
    assert halves(alone, np.ones(1), column, codec).tolist() == [0]


@pytest.mark.parametrize("apart", [0.0, 500.0, 1e9])
def test_groups_nest_in_declared_bins(apart):
    """No group has parts of two bins where each bin holds enough; the more a part must hold, the fewer bins are parted."""
    rng = np.random.default_rng(0)
    schema = numbers_schema(1000, a=8)
    codec, of = Codec(schema, 200), Codec(schema, 200).coarse()[0]
    fine = 40 + rng.normal(0, 3, 200)
    fine[[60, 61, 120]] += [30, -20, 400]
    counts = agreed(np.bincount(of, fine), 3.0, fine, 3.0, of)
    groups = grouped(counts, schema.column("a"), codec, 50.0, 32, apart)
    bins_of_group = [np.unique(of[groups.of == group]) for group in range(groups.count)]
    assert all(len(bins) == 1 for bins in bins_of_group)
    assert groups.count == 8 if apart > 1e6 else 8 < groups.count <= 32
    sums = np.bincount(groups.of, counts.held)
    assert sums.min() >= min(apart, 50.0)
    heap = groups.within[120] * sums[groups.of[120]]
    assert heap == pytest.approx(440, abs=30)  # it keeps its share, in a group of its own or not


def test_small_bins_join_whole():
    schema = numbers_schema(1000, a=8)
    codec = Codec(schema, 200)
    of = codec.coarse()[0]
    fine = np.where(of < 3, 1.0, 40.0)
    groups = grouped(agreed(np.bincount(of, fine), 1.0, fine, 1.0, of), schema.column("a"), codec, 60.0, 32, 1e9)
    assert [np.unique(groups.of[of == place]).tolist() for place in range(4)] == [[0], [0], [0], [1]]


def test_counts_of_a_tree_and_of_its_column_are_weighed_by_their_precision():
    """By hand: what is kept at A is its 10 units less the 6 of A00, with both noises; B is not kept. A00 and A01 are counted more exactly
    than A above them, by the square root of two: the squares of the two weights on a chain are 2 together."""
    column = Categorical(
        name="code",
        categories=("A", "A00", "other"),
        other="other",
        tree=Tree(prefix=(1,), codes=("A00", "A01", "B00")),
    )
    told = Counts.of(np.array([3.0, 7.0, 1.0, 2.0]), 2.0).and_of(
        {"A": 10.0, "A00": 6.0, "B": 1.0}, 1.0, column, 13.0, 3
    )
    above, below = (1 + 2**0.5) / 2, (1 + 2**0.5) / (2 * 2**0.5)
    both = above + below
    held = [(3 / 4 + 4 / both) / (1 / 4 + 1 / both), (7 / 4 + 6 / below) / (1 / 4 + 1 / below), 1.0, 2.0]
    np.testing.assert_allclose(told.held, held, rtol=1e-5)  # weights are a millionth smaller, for rounding
    np.testing.assert_allclose(told.variances, [1 / (1 / 4 + 1 / both), 1 / (1 / 4 + 1 / below), 4.0, 4.0], rtol=1e-5)
    twice = Counts.of(np.array([6.0, 14.0, 1.0, 2.0]), 2.0).and_of({"A": 10.0, "A00": 6.0}, 1.0, column, 23.0, 3)
    np.testing.assert_allclose(
        twice.held[1],
        (14 / 4 + 12 / (4 * below)) / (1 / 4 + 1 / (4 * below)),
        rtol=1e-5,
        err_msg="units hold two records each",
    )
    assert Counts.of(told.held, 2.0).and_of({}, 1.0, column, 13.0, 3).held is told.held


def test_a_fit_hears_of_its_tree_from_the_counts_that_it_bought():
    codes = tuple(f"{letter}{number:02d}" for letter in "ABCD" for number in range(40))
    dx = Categorical(name="dx", categories="learn", tree=Tree(prefix=(1,), codes=codes))
    schema = Schema(columns=(dx, *(Boolean(name=f"x{place}") for place in range(12))), units=4000, declared_by="test")
    rng = np.random.default_rng(0)
    shares = np.repeat([0.4, 0.3, 0.2, 0.1], 40) * np.tile(np.r_[[0.2] * 4, [0.2 / 36] * 36], 4)
    frame = pd.DataFrame(
        {"dx": rng.choice(codes, 4000, p=shares)} | {f"x{place}": rng.random(4000) < 0.5 for place in range(12)}
    )
    data = Sensitive(frame, schema, Account(Budget(2.0, 1e-6)), seed=0)
    model = Mixture(components=5, iterations=20).fit(data, seed=0)
    nodes, deviation = data.nodes["dx"]
    assert list(nodes) == list(dx.tree.nodes)
    real = frame["dx"].value_counts()
    apart = [(nodes[code] - real.get(code, 0)) / deviation for code in codes]
    assert max(map(abs, apart)) < 5
    kept = model.schema.column("dx").categories
    assert {f"{letter}00" for letter in "ABC"} <= set(kept)


def drawn_from(exact, bins, noise=30.0, runs=40):
    """Shares drawn for each code, averaged over repeated noise."""
    facts = {"kind": "integer", "bounds": [0, len(exact) - 1], "bins": bins}
    schema = make_schema(columns={"age": facts})
    codec, column = Codec(schema, len(exact)), schema.column("age")
    way = codec.coarse()[codec.names.index("age")]
    way = np.arange(len(exact)) if way is None else way
    rng, found = np.random.default_rng(5), []
    for _ in range(runs):
        held = np.bincount(way, exact) + rng.normal(0, noise, way.max() + 1)
        counts = agreed(held, noise, exact + rng.normal(0, noise, len(exact)), noise, way)
        groups = grouped(counts, column, codec, 2 * noise, 64, 1e9, learned=True)
        found.append(groups.within * np.bincount(groups.of, exact, groups.count)[groups.of] / exact.sum())
    return np.mean(found, 0)


@pytest.mark.heavy
def test_nothing_is_drawn_from_empty_bins_far_beyond_the_others():
    """Body temperatures under learned bounds of 16 to 64: noise in a wide empty bin would come back as fever of 60."""
    exact = np.zeros(480)
    exact[190:230] = 250
    assert drawn_from(exact, [100, *range(190, 231, 4), 320])[240:].sum() < 0.001  # 0.004 if the noise there were drawn
    spread = np.where(np.arange(480) < 400, 25.0, 0.0)
    assert drawn_from(spread, 12)[440:].sum() < 0.01  # bins near the others may keep some noise


def test_a_thin_tail_beside_the_others_is_drawn():
    """Scores of 0 to 100 in steps of 5, few are low: noise hides each low bin, but these lie next to the others."""
    exact = np.array(
        [9, 10, 20, 30, 40, 60, 70, 100, 200, 300, 500, 700, 800, 900, 900, 900, 800, 700, 900, 900, 900.0]
    )
    found = drawn_from(exact, 21, noise=100.0)
    assert found[1:8].sum() == pytest.approx(exact[1:8].sum() / exact.sum(), rel=0.5)
