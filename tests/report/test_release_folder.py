"""Where a release is saved, and in what parts it is sampled."""

import errno
import os

import numpy as np
import pytest
from clinic import make_frame, make_schema

from synthdp import BadInput, Budget, Synthesizer
from synthdp.api import load, verify
from synthdp.cli import run
from synthdp.report import manifest
from synthdp.testing.made_up import picture_schema


@pytest.fixture(scope="module")
def release():
    return Synthesizer("independent", schema=make_schema(), budget=Budget(1.0, 1e-5)).fit(make_frame(200), seed=0)


def test_an_older_release_is_replaced_and_nothing_else(release, tmp_path):
    release.save(tmp_path / "release")
    with pytest.raises(BadInput, match="exists"):
        release.save(tmp_path / "release")
    release.save(tmp_path / "release", force=True)
    assert load(tmp_path / "release").statement.epsilon == release.statement.epsilon
    (tmp_path / "release" / "thesis.tex").write_text("mine")
    with pytest.raises(BadInput, match=r"thesis\.tex"):
        release.save(tmp_path / "release", force=True)
    assert (tmp_path / "release" / "thesis.tex").read_text() == "mine"
    with pytest.raises(BadInput, match="is a file"):
        release.save(tmp_path / "release" / "thesis.tex", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["release"]


def test_a_fit_says_so_before_it_asks_anything(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_frame(200).to_csv("patients.csv", index=False)
    make_schema().save(tmp_path / "schema.yaml")
    (tmp_path / "out" / "release").mkdir(parents=True)
    (tmp_path / "out" / "release" / "thesis.tex").write_text("mine")
    words = ["data.path=patients.csv", "data.schema=schema.yaml", "generator=independent", "out=out", "force=true"]
    assert run(["fit", *words]) == 2
    assert "thesis.tex" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["release"]
    assert not list(tmp_path.glob("*.account"))


@pytest.mark.parametrize("name", ["patients.csv", "patients.parquet"])
def test_the_next_command_writes_such_a_file_as_was_read(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    frame = make_frame(200)
    frame.to_csv(name, index=False) if name.endswith(".csv") else frame.to_parquet(name)
    make_schema().save(tmp_path / "schema.yaml")
    words = [f"data.path={name}", "data.schema=schema.yaml", "generator=independent", "account=none", "out=out"]
    assert run(["fit", *words]) == 0, capsys.readouterr().err
    assert f"out={name.replace('patients', 'synthetic')}\n" in capsys.readouterr().out


def test_a_disk_that_is_full_when_a_fit_ends_is_one_line_and_leaves_no_half_of_a_release(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_frame(50).to_csv("patients.csv", index=False)
    make_schema().save(tmp_path / "schema.yaml")

    def full(folder):
        assert len(list(folder.iterdir())) == 3
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(manifest, "write", full)
    words = ["data.path=patients.csv", "data.schema=schema.yaml", "generator=independent", "account=none", "out=out"]
    assert run(["fit", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "synthdp: out/release: cannot be written (No space left on device)"
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["internal"]


def test_what_a_power_cut_left_is_found_by_the_next_fit_and_named_to_a_reader(release, tmp_path):
    """The new release was complete and had not got its name yet."""
    release.save(tmp_path / "release")
    (tmp_path / "release").rename(tmp_path / ".release.new")
    with pytest.raises(
        BadInput, match=r"the machine stopped while it was written: rename \S+\.release\.new to release"
    ):
        load(tmp_path / "release")
    with pytest.raises(BadInput, match="exists"):
        release.save(tmp_path / "release")
    assert load(tmp_path / "release").statement == release.statement
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_a_folder_by_a_name_without_a_name_is_said_to_be_no_release(tmp_path, monkeypatch, name):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    with pytest.raises(BadInput, match="is not a release"):
        load(name)


def test_the_working_folder_is_read_and_replaced_as_by_its_name(release, tmp_path, monkeypatch):
    monkeypatch.chdir(release.save(tmp_path / "release"))
    assert load(".").statement == release.statement
    release.save(".", force=True)
    assert load(tmp_path / "release").statement == release.statement
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


@pytest.mark.parametrize("chunk", [0, -5, 2.5, "a", True])
def test_a_chunk_is_a_whole_number_of_one_or_more(release, chunk):
    with pytest.raises(BadInput, match="chunk must be a whole number of 1 or more"):
        next(release.stream(20, chunk=chunk))


def test_numbers_of_numpy_will_do(release):
    assert [len(part) for part in release.stream(np.int64(5), chunk=np.int32(2))] == [2, 2, 1]
    assert len(release.sample(np.int64(3), seed=1)) == 3


def test_without_privacy_the_command_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_frame(50).to_csv("patients.csv", index=False)
    make_schema().save(tmp_path / "schema.yaml")
    words = ["data.path=patients.csv", "data.schema=schema.yaml", "generator=independent", "account=none", "out=out"]
    assert run(["fit", *words, "budget.epsilon=inf"]) == 0
    assert "epsilon is infinite, so nothing protects the records" in capsys.readouterr().err


def test_a_synthesizer_takes_the_path_of_a_schema(tmp_path):
    make_schema().save(tmp_path / "schema.yaml")
    budget = Budget(1.0, 1e-5)
    for path in (tmp_path / "schema.yaml", str(tmp_path / "schema.yaml")):
        assert Synthesizer(schema=path, budget=budget).schema == make_schema()
    with pytest.raises(BadInput, match=r"nothing\.yaml"):
        Synthesizer(schema=tmp_path / "nothing.yaml", budget=budget)


def test_what_python_prints_is_one_line_that_says_what_counts(release, tmp_path):
    promise = "independent: epsilon 0.99"
    assert repr(release.statement).startswith(f"Statement({promise}")
    assert repr(release).startswith(f"Release({promise}")
    assert repr(release).endswith("rehearsal)")
    assert repr(make_schema(name="clinic", unit="patient", max_records_per_unit=2)).startswith("Schema(clinic: ")
    assert repr(make_schema(name="clinic", unit="patient", max_records_per_unit=2)).endswith(" columns, per patient)")
    synthesizer = Synthesizer("independent", schema=make_schema(), budget=Budget(1.0, 1e-5))
    assert repr(make_schema()) in repr(synthesizer)
    found = verify(release.save(tmp_path / "release"))
    assert f"{len(found.checked)} facts checked, {len(found.claimed)} only claimed" in repr(found)
    for each in (release, release.statement, release.schema, synthesizer, found):
        assert len(repr(each)) < 600


def test_notebooks_show_a_release_with_its_guarantee_and_columns(release):
    shown = release._repr_html_()
    for text in ("epsilon 0.99", "per record", "not for release", "<th>stage</th><td>ordinal</td>"):
        assert text in shown
    hostile = make_schema(columns={"<b>": {"kind": "categorical", "categories": ["<i>", *map(str, range(20))]}})
    assert "<th>&lt;b&gt;</th>" in hostile._repr_html_()
    assert "21 of them" in hostile._repr_html_()
    assert "<i>" not in hostile._repr_html_()


def test_scikit_learn_clones_and_sets_a_synthesizer():
    from sklearn.base import clone
    from sklearn.model_selection import ParameterGrid

    made = Synthesizer("mixture", schema=make_schema(), budget=Budget(1.0, 1e-5), iterations=7)
    copy = clone(made)
    assert copy == made
    assert copy is not made
    assert copy.get_params()["generator__iterations"] == 7
    for values in ParameterGrid({"generator__iterations": [3, 4], "budget": [Budget(2.0, 1e-6)]}):
        again = clone(made).set_params(**values)
        assert (again.generator.iterations, again.budget) == (values["generator__iterations"], values["budget"])
    assert copy.set_params(generator="independent").generator.name == "independent"
    assert copy.set_params(generator="mixture", generator__components=5).generator.components == 5
    assert made.generator.iterations == 7
    pictures = Synthesizer("classgauss", schema=picture_schema(), budget=Budget(1.0, 1e-5))
    expected = Synthesizer("dpgan_images", schema=pictures.schema, budget=pictures.budget, steps=3)
    pictures.set_params(generator="dpgan_images", generator__steps=3)
    assert pictures == expected
    for wrong, message in (({"budgt": 1}, "did you mean 'budget'"), ({"generator__iterations": -1}, "iterations")):
        with pytest.raises(BadInput, match=message):
            made.set_params(**wrong)
    assert made.generator.iterations == 7, "all of them or none"
