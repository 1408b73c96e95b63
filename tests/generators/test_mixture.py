"""The mixture of products: its tables against loops, what it recovers, groups of codes, and odd schemas."""

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_schema

from synthdp import Budget, Synthesizer
from synthdp.data.codec import Codec
from synthdp.generators.marginals.grouping import Counts, Groups, grouped
from synthdp.generators.marginals.products import Evidence, Products, fit

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
        ones=torch.from_numpy(ones).float(),
        ones_precision=torch.full((len(ones),), 1 / deviation),
    )


def test_a_known_mixture_is_recovered_in_its_tables():
    rng = np.random.default_rng(0)
    truth, residuals = known(rng), []
    found = fit(
        evidence_of(truth, 1e-3, rng),
        starts=1,
        components=8,
        iterations=400,
        rate=0.1,
        shrinkage=0.0,
        generator=torch.Generator().manual_seed(0),
        progress=lambda _, residual: residuals.append(residual),
    )
    (wanted, measured), (got, _) = tables_of(truth), tables_of(found)
    assert np.abs((wanted - got) * measured).max() < 4e-3
    assert residuals[-1] < 1.5  # about as far from the noisy tables as these are from the true ones
    assert residuals[0] > 100


def test_shrinkage_holds_components_at_the_single_columns():
    rng = np.random.default_rng(1)
    truth = known(rng)
    found = fit(
        evidence_of(truth, 0.05, rng),
        starts=1,
        components=4,
        iterations=300,
        rate=0.1,
        shrinkage=1e3,
        generator=torch.Generator().manual_seed(0),
        progress=lambda *_: None,
    )
    for one, column in zip(found.columns, truth.columns, strict=True):
        assert np.abs(one - truth.weights @ column).max() < 0.02


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


@pytest.mark.parametrize("targets", [[], ["ill"], ["ill", "sex"], ["age"]])
def test_relations_survive_with_any_number_of_targets(targets):
    schema = make_schema(targets=targets)
    frame = make_frame(4000)
    made = Synthesizer("mixture", schema=schema, budget=BUDGET, components=60).fit(frame, seed=0).sample(4000, seed=1)
    for rows in (frame, made):
        dosed = rows["dose"].fillna(0) > 0
        assert rows["ill"].to_numpy()[dosed].mean() > 0.95  # only the ill are given a dose
    real, drawn = (rows["ill"][rows["age"] >= 60].mean() for rows in (frame, made))
    assert abs(real - drawn) < 0.06


@pytest.mark.parametrize("kept", [["ill"], ["ill", "age"], ["age"], ["age", "sex"]])
def test_tables_of_one_or_two_columns(kept):
    columns = {name: value for name, value in make_schema().to_dict()["columns"].items() if name in kept}
    schema = make_schema()
    schema = type(schema).from_dict({"units": 400, "targets": ["ill"] if "ill" in kept else [], "columns": columns})
    frame = make_frame(3000)[kept]
    made = Synthesizer("mixture", schema=schema, budget=BUDGET, components=30).fit(frame, seed=0).sample(3000, seed=1)
    assert list(made.columns) == list(columns)
    if "ill" in kept:
        assert abs(made["ill"].mean() - frame["ill"].mean()) < 0.04
    if kept == ["ill", "age"]:
        old = [rows["ill"][rows["age"] >= 60].mean() for rows in (frame, made)]
        assert abs(old[0] - old[1]) < 0.06


def test_noise_is_split_as_the_share_says():
    synthesizer = Synthesizer(
        "mixture", schema=make_schema(), budget=Budget(1.0, 1e-5), share=0.2, grid_share=0.1, iterations=2
    )
    release = synthesizer.fit(make_frame(50), seed=0)
    precisions = np.array([entry.event.noise**-2 for entry in release.statement.events])
    assert precisions / precisions.sum() == pytest.approx([0.2, 0.1, 0.7])


def test_an_image_is_refused():
    from clinic import picture_schema

    with pytest.raises(ValueError, match="mixture does not learn images"):
        Synthesizer("mixture", schema=picture_schema(), budget=BUDGET).fit(pd.DataFrame(), seed=0)


def test_too_many_columns_are_refused_before_any_charge(tmp_path):
    columns = {f"c{place}": {"kind": "boolean"} for place in range(103)}
    schema = make_schema()
    schema = type(schema).from_dict({"units": 400, "targets": ["c0"], "columns": columns})
    frame = pd.DataFrame({name: [True, False] for name in columns})
    with pytest.raises(ValueError, match="102 columns make 5,151 tables"):
        Synthesizer("mixture", schema=schema, budget=BUDGET).fit(frame, seed=0, ledger=tmp_path / "ledger.jsonl")
    assert not (tmp_path / "ledger.jsonl").exists()
