"""Canaries in a fit, and the one-run audit of what came of it, in Python and on the command line."""

import dataclasses
import hashlib
import json
import resource

import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema
from gate import GATE_ERROR

from synthdp import BadInput, Budget, Synthesizer, load
from synthdp.audit import Canaries, hold_out, one_run, plant
from synthdp.audit.canaries import encoded
from synthdp.cli import audits, run
from synthdp.schema.codec import Codec


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize("unit", [None, "patient"])
def test_made_up_canaries_are_valid_records_of_units_of_their_own(rng, unit):
    schema = make_schema(unit=unit) if unit else make_schema()
    frame = make_frame(80)
    table, canaries = plant(frame, schema, 300, rng)
    schema.validate(table, "error")
    assert len(table) == 80 + canaries.included.sum()
    assert 100 < canaries.included.sum() < 200
    new = set(table["patient"]) - set(frame["patient"])
    assert new == set(canaries.frame["patient"][canaries.included])
    assert len(new) == canaries.included.sum()
    codes = Codec(schema).encode(table)
    np.testing.assert_array_equal(codes[:80], Codec(schema).encode(frame))
    np.testing.assert_array_equal(codes[80:], encoded(canaries, schema)[canaries.included])
    for place, size in enumerate(Codec(schema).sizes):  # uniform: every code is met
        assert set(encoded(canaries, schema)[:, place]) == set(range(size))


def test_whatever_form_a_table_has_canaries_do_not_change_its_records(rng):
    schema = make_schema()
    frame = make_frame(50)
    frame["ill"] = np.where(frame["ill"], "yes", "no")
    frame["seen"] = frame["seen"].dt.strftime("%Y-%m-%d")
    frame["patient"] = np.arange(50)
    frame["age"] = frame["age"].astype(float)
    table, canaries = plant(frame, schema, 40, rng)
    codes = Codec(schema).encode(table)
    np.testing.assert_array_equal(codes[:50], Codec(schema).encode(frame))
    np.testing.assert_array_equal(codes[50:], encoded(canaries, schema)[canaries.included])
    assert list(table["age"][:50]) == list(frame["age"])


def test_real_units_stay_or_go_as_a_whole(rng):
    schema = make_schema(unit="patient", max_records_per_unit=3)
    frame = make_frame(90, repeats=3)
    table, canaries = hold_out(frame, schema, 12, rng)
    gone = set(frame["patient"]) - set(table["patient"])
    assert len(gone) == (~canaries.included).sum()
    assert len(table) == 90 - 3 * len(gone)
    for number, inside in enumerate(canaries.included):
        (patient,) = set(canaries.frame["patient"][canaries.owner == number])
        assert (patient in set(table["patient"])) == inside
    with pytest.raises(BadInput, match="units"):
        hold_out(frame, schema, 31, rng)


def test_coins_come_from_the_operating_system():
    frame, schema = make_frame(5), make_schema()
    one, other = (plant(frame, schema, 64)[1].included for _ in range(2))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("make", [plant, hold_out])
def test_they_are_read_back_and_apply_alike(make, rng, tmp_path):
    frame, schema = make_frame(60), make_schema()
    table, canaries = make(frame, schema, 30, rng)
    canaries.save(tmp_path / "internal" / "canaries.json")
    assert (tmp_path / "internal" / "canaries.json").stat().st_mode & 0o077 == 0
    back = Canaries.load(tmp_path / "internal" / "canaries.json")
    np.testing.assert_array_equal(encoded(back, schema), encoded(canaries, schema))
    np.testing.assert_array_equal(back.included, canaries.included)
    again = Codec(schema).encode(back.applied(frame, schema))
    np.testing.assert_array_equal(again, Codec(schema).encode(table))
    (tmp_path / "broken.json").write_text(json.dumps({"format": 1, "kind": "records"}))
    with pytest.raises(BadInput, match="not a file of canaries"):
        Canaries.load(tmp_path / "broken.json")


def test_what_is_to_be_learned_is_not_disturbed(rng):
    schema = make_schema(columns={"sex": {"kind": "categorical", "categories": "learn"}})
    with pytest.raises(BadInput, match=r"audit\.records"):
        plant(make_frame(5), schema, 10, rng)


@dataclasses.dataclass(frozen=True)
class Rows:
    """A broken model: it draws the rows that it was trained on."""

    schema: object
    table: pd.DataFrame

    def sample(self, rows, *, seed=None):
        return self.table.sample(rows, replace=True, random_state=seed, ignore_index=True)

    def tensors(self):
        return {}


@pytest.mark.parametrize("make", [plant, hold_out])
def test_a_model_that_keeps_rows_is_found_by_one_run(make, rng):
    schema = make_schema(columns={"age": {"kind": "integer", "bounds": [0, 99], "bins": list(range(1, 100))}})
    # Of 1,000 units, others' records look like those that were held out, and one audit in 25 fell short.
    table, canaries = make(make_frame(500), schema, 400, rng)
    found = one_run.audit_model(Rows(schema, table), canaries, 1.0, 1e-7, rows=20_000, gate_error=GATE_ERROR)
    assert found.contradicted
    assert found.epsilon > 1.5


def test_a_true_claim_stands(rng):
    schema = make_schema()
    table, canaries = plant(make_frame(300), schema, 300, rng)
    release = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-6)).fit(table)
    found = one_run.audit_model(release.model, canaries, 1.0, 1e-6, rows=5000, gate_error=GATE_ERROR)
    assert not found.contradicted
    assert found.guesses == 60
    assert 0 <= found.correct <= 60


@pytest.mark.heavy
def test_the_command_line_from_fit_to_verdict(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYNTHDP_HOME", str(tmp_path / "home"))
    make_frame(300).to_csv("patients.csv", index=False)
    make_schema().save("schema.yaml")
    data = ["data.path=patients.csv", "data.schema=schema.yaml", "generator=independent", "budget.epsilon=1"]
    assert run(["fit", *data, "audit.canaries=200", "out=run"]) == 0
    assert "canar" not in "".join(path.name for path in (tmp_path / "run" / "release").iterdir())
    held = json.loads((tmp_path / "run" / "internal" / "canaries.json").read_text())
    assert len(held["included"]) == 200
    words = ["audit", "release=run/release", "canaries=run/internal/canaries.json", "rows=5000"]
    capsys.readouterr()
    assert run([*words, "out=audit.json"]) == 0
    assert "measured" in capsys.readouterr().out
    assert json.loads((tmp_path / "audit.json").read_text())["canaries"] == 200
    assert run([*words, "format=json"]) == 0
    assert json.loads(capsys.readouterr().out)["contradicted"] is False
    monkeypatch.setattr(one_run, "remembered", lambda *_: np.where(held["included"], 1.0, 0.0))
    with pytest.raises(SystemExit) as status:
        run(words)
    assert status.value.code == 3
    assert "CONTRADICTED" in capsys.readouterr().out
    assert run(["audit", "release=run/release"]) == 2
    assert run(["fit", *data, "out=run", "force=true"]) == 0
    assert not (tmp_path / "run" / "internal" / "canaries.json").exists()  # of another fit


@pytest.mark.heavy
def test_canaries_of_an_earlier_fit_are_not_said_to_be_in_records_that_stay_in_a_database(tmp_path, monkeypatch):
    """Nothing is planted there. Its release said that it was, and an audit with the older canaries contradicted nothing."""
    pytest.importorskip("duckdb", reason="needs the extra database")
    monkeypatch.chdir(tmp_path)
    make_frame(300).to_csv("patients.csv", index=False)
    make_schema().save("schema.yaml")
    words = [
        "fit",
        "data.path=patients.csv",
        "data.schema=schema.yaml",
        "generator=independent",
        "account=none",
        "out=run",
    ]
    assert run([*words, "audit.canaries=20"]) == 0
    assert "20 made-up records" in load("run/release").statement.declared["audit"]
    assert run([*words, "data.engine=duckdb", "force=true"]) == 0
    assert "audit" not in load("run/release").statement.declared
    assert not (tmp_path / "run" / "internal" / "canaries.json").exists()


def test_canaries_are_whole_whenever_the_disk_is_full(rng, tmp_path):
    """They are written before the fit, and once more when the release is there."""
    _, canaries = plant(make_frame(20), make_schema(), 30, rng)
    path, model = tmp_path / "canaries.json", tmp_path / "model.safetensors"
    model.write_bytes(b"model")
    canaries.save(path)
    before, limits = path.read_text(), resource.getrlimit(resource.RLIMIT_FSIZE)
    for write in (lambda: canaries.save(path), lambda: audits.bind(tmp_path, tmp_path)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            with pytest.raises(BadInput, match=r"canaries\.json: cannot be written \(File too large\)"):
                write()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert path.read_text() == before
    audits.bind(tmp_path, tmp_path)
    assert json.loads(path.read_text())["release"] == hashlib.sha256(b"model").hexdigest()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.heavy
def test_the_command_line_audits_a_generator(capsys):
    words = ["generator=independent", "runs=60", "tuning_runs=20", "budget.epsilon=2", "workers=1"]
    assert run(["audit", *words, "format=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == 60
    assert 1.9 < found["claimed"] <= 2
    assert found["epsilon"] <= 2
    assert run(["audit", "generator=independent", "runs=3", "tuning_runs=4", "workers=1"]) == 0
    said = capsys.readouterr().out
    assert "no power" in said
    assert "stands" not in said
    assert run(["audit", "generator=independent", "error=2"]) == 2
