"""`synthdp fit` of a folder, a pattern and a large file: counted by DuckDB, where the generator can."""

import pandas as pd
import pytest
from clinic import make_frame, make_schema

from synthdp import BadInput, generators
from synthdp.cli import budgets, real_records, settings
from synthdp.cli import run as main
from synthdp.files import private_folder
from synthdp.tables import source as tables

MIXTURE, GAN = generators.find("mixture")(), generators.find("dpgan")()


@pytest.fixture
def folder(tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    frame = make_frame(300)
    frame[:100].to_parquet(parts / "a.parquet")
    frame[100:].to_parquet(parts / "b.parquet")
    make_schema().save(tmp_path / "schema.yaml")
    return parts


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """(exit status, what it printed, what it complained of): a command in the folder's parent."""
    monkeypatch.chdir(folder.parent)

    def ran(*words):
        status = main(words)
        return status, *capsys.readouterr()

    return ran


def test_a_folder_is_fitted_and_has_one_account_with_its_pattern(folder, run):
    words = ["data.train=parts/*.parquet", "data.schema=schema.yaml", "generator=independent", "out=one"]
    status, said, error = run("fit", *words)
    assert status == 0, error
    assert (folder.parent / "one" / "release" / "release.json").exists()
    assert f"{folder}.account: epsilon 1" in said


def test_where_tables_are_counted(folder, monkeypatch):
    def source(path, generator=MIXTURE, **options):
        return real_records.source_of(settings.Data(train=str(path), **options), generator, make_schema())

    one = folder / "a.parquet"
    assert source(folder) == source(folder, GAN) == tables.parquet(folder)
    assert source(folder / "*.parquet") == tables.parquet(folder / "*.parquet")
    assert source(one) is None
    assert source(one, engine="duckdb", memory="1GB") == tables.parquet(one, memory="1GB")
    monkeypatch.setattr(real_records, "LARGE", 1)
    with pytest.raises(BadInput, match=r"is a large file: give data\.engine=duckdb"):  # no record more decides where
        source(one)
    assert source(one, engine="duckdb") == tables.parquet(one)
    assert source(one, engine="memory") is source(one, GAN) is None
    with pytest.raises(BadInput, match="memory must be a size"):
        source(one, engine="duckdb", memory="much")


def test_an_account_lies_beside_the_folder_of_a_pattern(folder):
    for path in (folder, folder / "*.parquet"):
        found = budgets.account_of(settings.DataAccount(), settings.Data(train=str(path)))
        assert found.path == folder.with_name("parts.account")


def test_a_choice_among_fits_needs_records():
    with pytest.raises(BadInput, match="records in memory"):
        real_records.refuse(settings.Fit(out="x", select="private"), canaries=False)


def test_a_folder_and_a_pattern_are_judged_and_read_into_memory_where_that_is_said(folder, run):
    make_frame(120, seed=1).to_parquet(folder.parent / "held.parquet")
    words = ["data.schema=schema.yaml", "generator=independent", "data.engine=memory", "audit.records=2"]
    status, _, error = run("fit", "data.path=parts", *words, "out=run")
    assert status == 0, error
    schema, train, test = real_records.real(
        settings.Data(
            train=str(folder / "*.parquet"),
            test=str(folder.parent / "held.parquet"),
            schema=str(folder.parent / "schema.yaml"),
        )
    )
    assert (len(train), len(test)) == (300, 120)
    schema.validate(train)
    pd.testing.assert_frame_equal(train, pd.read_parquet(folder), check_dtype=False)


def test_the_fitted_records_are_named_once(run):
    status, _, error = run("fit", "data.path=parts", "data.train=parts", "data.schema=schema.yaml", "out=run")
    assert status == 2
    assert "data.path and data.train both name" in error


@pytest.mark.parametrize("engine", ["auto", "memory"])
def test_a_fit_that_was_killed_before_its_first_charge_is_in_nobodys_way(folder, monkeypatch, engine):
    """What DuckDB had spilled is all that is there: the same command removes it and runs."""
    monkeypatch.chdir(folder.parent)
    left = folder.parent / "run" / "internal" / f"{private_folder.SPILL}of-a-killed-run"
    left.mkdir(parents=True)
    (left / "duckdb_temp_storage_DEFAULT-0.tmp").touch()
    words = ["data.train=parts", "data.schema=schema.yaml", f"data.engine={engine}", "generator=independent"]
    assert main(["fit", *words, "out=run"]) == 0
    assert not left.exists()
