"""The statement as JSON: lossless, refused when it is not one, and enough to recompute epsilon (law 34)."""

import json
import math
import uuid
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from sweeps import heavy

from synthdp import Budget, Schema, Synthesizer, api
from synthdp.budgets import Cap, Entered
from synthdp.errors import BadInput
from synthdp.ledger.events import Choice, Entry, Gaussian, Laplace, Revealed, Sampled, Threshold, scoped
from synthdp.ledger.ledger import Ledger
from synthdp.noise import gaussian, laplace
from synthdp.report.statement import CURVE_DELTAS, NOT_COVERED, ROUNDED, Statement, columns, limits, noise_source, state
from synthdp.report.statement_page import write


def make_statement(**changes):
    """A statement made by hand; its epsilon is that of one Gaussian of noise 1 (law 2)."""
    made = Statement(
        epsilon=4.377178,
        delta=1e-5,
        relation="add_remove",
        unit="record",
        max_records_per_unit=1,
        accountant="pld",
        epsilons={"pld": 4.377178, "rdp": 4.7285},
        curve=((0.1, 1.2), (1e-3, 3.0), (1e-5, 4.377178), (1e-9, 6.1)),
        events=(Entry(Gaussian(1.0), 1),),
        budget=Budget(epsilon=4.5, delta=1e-5),
        account=None,
        generator="independent",
        settings={"rate": 0.01, "hidden": [256, 256], "limit": math.inf, "mode": None},
        columns=(
            {"name": "age", "kind": "integer", "declared": {"bounds": [0, 99]}, "bought": {}},
            {"name": "ward", "kind": "categorical", "declared": {}, "bought": {"categories": ["inf", "nan", "A&E"]}},
        ),
        declared={"by": "the clinic", "units": 400, "targets": ["ward"], "name": "clinic"},
        noise_source="the operating system",
        rehearsal=False,
        not_covered=NOT_COVERED,
        provenance={"synthdp": "0.1.0", "pld": {"grid": 1e-4}},
    )
    return replace(made, **changes)


def test_sampled_gradients_name_rounding_as_taken_on_trust():
    """Law 47; where nothing is sampled, no network was trained."""
    schema = Schema.from_dict({"columns": {"ill": {"kind": "boolean"}}})

    def said(*events):
        return limits(make_statement(events=tuple(map(Entry, events)), generator="dpgan"), schema)

    assert ROUNDED in said(Gaussian(2.0), Sampled(0.1, (Gaussian(1.0),)))
    assert ROUNDED not in said(Gaussian(2.0))


ACCOUNT = {"filter": "additive", "order": None, "cap": None, "head_checked": False}
EVENTS = (
    Entry(Gaussian(1.5), 2),
    Entry(Laplace(3.0)),
    Entry(Choice(0.1), 3),
    Entry(Threshold(20.0, 1e-7, 3)),
    Entry(Sampled(0.01, (Gaussian(2.0), Gaussian(5.0))), 700),
    Entry(Revealed("inf")),
)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"events": EVENTS},
        {
            "events": scoped(EVENTS, relation="replace_one", unit="patient"),
            "relation": "replace_one",
            "unit": "patient",
        },
        {
            "epsilon": math.inf,
            "epsilons": {"pld": math.inf},
            "budget": Budget(math.inf, 1e-5),
            "curve": ((0.1, math.inf),),
        },
        {"events": (Entry(Choice(math.inf)), Entry(Sampled(0.5, (Choice(math.inf),)), 2))},
        {"account": Entered(filter="additive", order=None, cap=None, head_checked=False)},
        {"account": Entered(filter="renyi", order=5.5, cap=Cap(epsilon=3.0, delta=1e-5), head_checked=True)},
    ],
    ids=["plain", "all events", "patients replaced", "infinite", "infinite event", "account", "capped account"],
)
def test_a_statement_survives_its_json(changes, tmp_path):
    statement = make_statement(**changes)
    write(statement, tmp_path)
    text = (tmp_path / "statement.json").read_text(encoding="utf-8")
    read = Statement.load(tmp_path / "statement.json")
    assert read.to_json() == statement.to_json()
    assert replace(read, columns=statement.columns) == statement
    assert list(read.columns) == list(statement.columns), "a category named inf is text"
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize(
    "break_it",
    [
        lambda values: [values],
        lambda _: "inf",
        lambda _: {},
        lambda values: {name: value for name, value in values.items() if name != "delta"},
        lambda values: {**values, "schema_version": 2},
        lambda values: {**values, "events": [{"event": {"type": "Nothing"}, "count": 1}]},
        lambda values: {**values, "events": [{"count": 1}]},
        lambda values: {**values, "events": [{"event": {"type": "Gaussian", "size": 1}, "count": 1}]},
        lambda values: {**values, "events": [{"event": {"type": "Gaussian", "noise": 1.0}, "count": -1}]},
        lambda values: {**values, "events": 3},
        lambda values: {**values, "epsilon": "much"},
        lambda values: {**values, "curve": [1, 2]},
        lambda values: {**values, "budget": {"epsilon": 1.0, "speed": 2}},
        lambda values: {**values, "budget": {"epsilon": -1.0, "delta": 1e-5}},
        lambda values: {**values, "settings": None},
        lambda values: {name: value for name, value in values.items() if name != "account"},
        lambda values: {**values, "account": True},
        lambda values: {**values, "account": {"filter": "additive", "order": None, "cap": None}},
        lambda values: {**values, "account": {**ACCOUNT, "filter": "none"}},
        lambda values: {**values, "account": {**ACCOUNT, "head_checked": "yes"}},
        lambda values: {**values, "account": {**ACCOUNT, "order": "5"}},
        lambda values: {**values, "account": {**ACCOUNT, "cap": {"epsilon": 1.0}, "more": 1}},
        lambda values: {**values, "account": {**ACCOUNT, "cap": {"epsilon": -1.0, "delta": 1e-6}}},
    ],
)
def test_what_is_no_statement_is_refused(break_it, tmp_path):
    path = tmp_path / "statement.json"
    path.write_text(json.dumps(break_it(make_statement().to_json())), encoding="utf-8")
    with pytest.raises(BadInput):
        Statement.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"NaN"])
def test_what_is_no_json_is_refused(content, tmp_path):
    path = tmp_path / "statement.json"
    path.write_bytes(content)
    with pytest.raises(BadInput):
        Statement.load(path)


def test_a_missing_file_is_refused(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(BadInput, match="no statement"):
            Statement.load(path)


@pytest.mark.parametrize(
    ("events", "relation"),
    [
        heavy(((Entry(Gaussian(1.0)),), "add_remove")),
        ((Entry(Gaussian(2.0)),), "replace_one"),
        ((Entry(Threshold(30.0, 1e-7, 3)), Entry(Sampled(0.02, (Gaussian(2.0),)), 100)), "add_remove"),
    ],
    ids=["gaussian", "replaced", "bought and sampled"],
)
def test_the_json_alone_gives_epsilon_again(events, relation, tmp_path):
    statement = stated(scoped(events, relation=relation, unit="record"), Budget(10.0, 1e-5, relation))
    write(statement, tmp_path)
    read = Statement.load(tmp_path / "statement.json")
    assert read.recompute() == pytest.approx(statement.epsilon, abs=1e-9)
    if relation == "replace_one" or len(events) == 1:
        assert read.epsilon == pytest.approx(4.377178, abs=1e-3), "laws 2 and 5"


def test_the_statement_follows_the_ledger_and_not_the_budget():
    statement = stated((Entry(Gaussian(1.0)),), Budget(100.0, 1e-5))
    assert statement.epsilon == min(statement.epsilons.values()) < 5
    assert statement.epsilons[statement.accountant] == statement.epsilon
    assert statement.accountant == "pld"  # of equal figures, the one that is exact
    falling = [epsilon for _, epsilon in sorted(statement.curve)]
    assert falling == sorted(falling, reverse=True)
    assert {delta for delta, _ in statement.curve} == set(CURVE_DELTAS)


def test_a_release_holds_no_seed(tmp_path, monkeypatch):
    """Law 33: not that of a rehearsal, and not what the generator's own chance began with."""
    schema = Schema.from_dict({"declared_by": "the tests", "units": 40, "columns": {"ill": {"kind": "boolean"}}})
    own = bytes.fromhex("1badc0ffee0ddf")
    monkeypatch.setattr(api, "_public_seed", lambda seed: own)  # noqa: ARG005
    for seed in (None, 987654321):
        release = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-5)).fit(
            pd.DataFrame({"ill": [True, False] * 20}), seed=seed
        )
        folder = release.save(tmp_path / f"release {seed}")
        held = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
        for number in (987654321, int.from_bytes(own, "little"), int.from_bytes(own, "big")):
            assert str(number).encode() not in held
            assert number.to_bytes(8, "little") not in held
        assert own.hex().encode() not in held
        assert b'"seed"' not in held


def test_the_source_of_the_noise_is_said_of_every_kind_of_noise():
    """PATE's votes may have Laplace noise, and choices have neither kind: statements said that all noise was Gaussian."""
    said = noise_source(rehearsal=False)
    assert all(word in said for word in ("Gaussian or Laplace noise", "choices", "at most 1/64 of its scale"))
    assert not any("Gaussian" in line for line in NOT_COVERED)
    for scale in (1e-3, 0.7, 11.4, 3e5):
        assert laplace.grid(scale) <= scale / 64
        assert gaussian.Grid.of(scale, torch.float64).step <= scale / 64


def test_what_is_not_covered_is_said():
    """Law 34: timing, figures of real records, pre-checks, and what was declared public."""
    said = " ".join(stated((Entry(Gaussian(1.0)),), Budget(10.0, 1e-5)).not_covered)
    for needed in (
        "Timing",
        "real records outside the fit",
        "content check before the fit",
        "declared public",
        "Groups",
    ):
        assert needed in said


def test_records_handed_out_are_an_infinite_epsilon():
    statement = stated((Entry(Gaussian(9.0)), Entry(Revealed("test"))), Budget(math.inf, 1e-5))
    assert math.isinf(statement.epsilon)
    assert math.isinf(statement.recompute())
    assert json.loads(json.dumps(statement.to_json(), allow_nan=False))["epsilon"] == "inf"


def stated(events, budget, schema=None):
    schema = schema or Schema.from_dict({"columns": {"ill": {"kind": "boolean"}}})
    return state(
        ledger=Ledger.of(events),
        budget=budget,
        declared=schema,
        resolved=schema,
        generator="independent",
        settings={},
        rehearsal=False,
    )


def test_columns_split_declared_and_bought():
    declared = Schema.from_dict(
        {
            "columns": {
                "id": {"kind": "identifier"},
                "age": {"kind": "integer", "bounds": "learn", "bins": "learn", "missing": True},
                "ward": {"kind": "categorical", "categories": "learn"},
                "sex": {"kind": "categorical", "categories": ["f", "m"]},
            }
        }
    )
    resolved = declared.with_learned("age", bounds=(0, 99)).with_learned("age", bins=(20.0, 40.0))
    resolved = resolved.with_learned("ward", categories=("A", "B"))
    rows = {row["name"]: row for row in columns(declared, resolved)}
    assert list(rows) == ["id", "age", "ward", "sex"]
    assert rows["age"]["declared"] == {"missing": True}
    assert set(rows["age"]["bought"]) == {"bounds", "bins"}
    assert rows["age"]["bought"]["bounds"] == [0, 99]
    assert rows["ward"]["declared"] == {}
    assert rows["ward"]["bought"]["categories"][:2] == ["A", "B"]
    assert rows["sex"] == {"name": "sex", "kind": "categorical", "declared": {"categories": ["f", "m"]}, "bought": {}}
    assert rows["id"]["declared"] == rows["id"]["bought"] == {}
    assert "learn" not in json.dumps(list(rows.values()))


def test_writing_over_a_file_is_refused(tmp_path):
    path = tmp_path / "report"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(BadInput, match="folder"):
        write(make_statement(), path)
    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.heavy
def test_a_report_is_two_files_and_the_same_every_time(tmp_path):
    first, second = tmp_path / "a", tmp_path / "deep" / "b"
    for folder in (first, second, Path(str(second))):
        write(make_statement(), folder)
    assert sorted(path.name for path in second.iterdir()) == ["statement.html", "statement.json"]
    for name in ("statement.html", "statement.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_an_identifier_is_random_and_an_old_statement_has_none(frame, schema, budget):
    """Law 22, 33: two releases of the same records differ in it, a rehearsal has none, and an old statement still loads."""
    synthesizer = Synthesizer("independent", schema=schema, budget=budget)
    names = [synthesizer.fit(frame).statement.release_id for _ in range(2)]
    assert names[0] != names[1]
    assert all(uuid.UUID(name).version == 4 for name in names)
    assert synthesizer.fit(frame, seed=1).statement.release_id is None
    values = make_statement(release_id=names[0]).to_json()
    assert Statement.from_json(json.loads(json.dumps(values))).release_id == names[0]
    del values["release_id"]
    assert Statement.from_json(values).release_id is None
    for wrong in ("", "<script>", 5, ["a"]):
        with pytest.raises(BadInput, match="statement"):
            Statement.from_json({**values, "release_id": wrong})
