"""`synthdp demo`: the whole job on the embedded table, and the two answers that it ends with."""

import dataclasses
import functools

import pytest

from synthdp.cli import compose, output_paths, run, settings
from synthdp.schema.table_review import review_tables
from synthdp.sets import made_up_clinic, named, record_files

QUICK = functools.partial(settings.Judge, models=("lr",), seeds=1, bootstrap=20, attacks=False)


@pytest.mark.heavy
def test_the_demo_ends_with_the_two_answers_and_the_way_to_the_pages(tmp_path, monkeypatch, output_of):
    pytest.importorskip("linearmodels", reason="the embedded data set comes with the extra `demo`")
    whole = named.load("meps")
    part = dataclasses.replace(whole, train=whole.train[:200], test=whole.test[:60])
    monkeypatch.setattr("synthdp.sets.named.load", lambda _: part)
    monkeypatch.setattr("synthdp.cli.commands.settings.Judge", QUICK)
    words = [f"out={tmp_path / 'out'}", f"account={tmp_path / 'account'}", "generator.components=20"]
    answers, pages = output_of("demo", *words, "generator.iterations=100").out.strip().split("\n\n")[-2:]
    share, use = answers.splitlines()
    assert share.startswith("Can I share it?     Yes")
    assert use.startswith("Is it useful?       ")
    assert "what real rows offer above chance" in use
    statement, evaluation = (
        tmp_path / "out" / name for name in ("report/statement.html", "evaluation/evaluation.html")
    )
    assert statement.as_uri() in pages
    assert evaluation.as_uri() in pages
    assert statement.exists()
    assert evaluation.exists()


@pytest.mark.heavy
def test_the_demo_of_linked_tables(tmp_path, monkeypatch, output_of):
    monkeypatch.setattr("synthdp.cli.commands.settings.Judge", QUICK)
    monkeypatch.setattr("synthdp.evaluate.detection.MOST_ROWS", 300)
    monkeypatch.setattr("synthdp.cli.commands.PEOPLE", (300, 100))
    out = tmp_path / "out"
    words = [f"out={out}", "histories=true", "generator=histories", "generator.rounds=1", "generator.iterations=20"]
    said = output_of("demo", *words).out
    assert "per person_id" in said
    assert "visits per person" in said
    made = record_files.read_tables(out / "synthetic", made_up_clinic.schema(300))
    assert len(made["person"]) == 300
    real = record_files.read_tables(out / "tables", made_up_clinic.schema(300))
    assert not set(made["person"]["person_id"]) & set(real["person"]["person_id"])
    assert (out / "tables.account").exists()
    assert (out / "evaluation" / "evaluation.html").exists()


@pytest.mark.parametrize("histories", ["true", "false"])
def test_two_demos_cannot_have_one_folder(tmp_path, monkeypatch, capsys, histories):
    """Each would replace what the other wrote, and both take the same places for ledger and release."""
    for name in ("_demo_of_one", "_demo_of_tables"):
        monkeypatch.setattr(f"synthdp.cli.commands.{name}", lambda *_: pytest.fail("began"))
    out = tmp_path / "out"
    with output_paths.claimed(str(out), force=False):
        assert run(["demo", f"out={out}", f"histories={histories}", "force=true"]) == 2
        assert "another fit is working in this folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_demo_of_linked_tables_is_by_histories_whoever_names_no_generator(tmp_path, capsys):
    assert run(["demo", f"out={tmp_path / 'out'}", "histories=true", "generator=mixture"]) != 0
    assert "use generator=histories" in capsys.readouterr().err
    assert compose._chosen("demo", ["histories=true"], []) == ["histories=true", "generator=histories"]


def test_the_made_up_clinic_keeps_its_schema_and_its_rules():
    schema, tables = made_up_clinic.schema(200), made_up_clinic.tables(200, 1)
    schema.validate_tables(tables, "error")
    assert not [finding for finding in review_tables(schema, tables, tables) if "max_rows" not in finding.what]
    again = (
        tables["visit"].assign(before=tables["visit"].groupby("person_id")["no_show"].shift()).dropna(subset="before")
    )
    rates = again.groupby(again["before"].astype(bool))["no_show"].mean()
    assert rates[True] > rates[False] + 0.2
    assert not set(tables["person"]["person_id"]) & set(made_up_clinic.tables(200, 2)["person"]["person_id"])
