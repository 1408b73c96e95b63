"""What a steward forgot or typed wrongly is refused, or told, before it costs anything: from public facts alone."""

import pytest
from clinic import make_frame, make_schema

from synthdp.cli import run


@pytest.fixture
def files(tmp_path):
    make_frame(60).to_csv(tmp_path / "clinic.csv", index=False)
    make_schema().save(tmp_path / "schema.yaml")
    return tmp_path


def words(files, command="fit", *more):
    source = [f"data.path={files / 'clinic.csv'}", f"data.schema={files / 'schema.yaml'}"]
    return [command, *source, "generator=independent", f"out={files / 'run'}", *more]


def refused(capsys, words):
    capsys.readouterr()
    assert run(list(map(str, words))) == 2
    said = capsys.readouterr()
    assert len(said.err.strip().splitlines()) == 1, said.err
    return said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "out=x"], "data.path=FILE with data.schema=FILE.yaml"),
        (["fit", "data.schema={schema}", "out=x"], "data.path=FILE is missing"),
        (["fit", "data.path={csv}", "out=x"], "data.schema=FILE.yaml is missing"),
        (["budget"], "data.path=FILE"),
        (["evaluate", "synthetic={csv}", "out=x"], "data.train=FILE"),
        (
            ["evaluate", "synthetic={csv}", "data.test={csv}", "data.schema={schema}", "out=x"],
            "data.train=FILE is missing",
        ),
        (
            ["evaluate", "synthetic={csv}", "data.train={csv}", "data.schema={schema}", "out=x"],
            "data.test=FILE is missing",
        ),
    ],
)
def test_no_data_set_is_fitted_that_nobody_named(words, said, files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    known = {"csv": files / "clinic.csv", "schema": files / "schema.yaml"}
    error = refused(capsys, [word.format(**known) for word in words])
    assert said in error
    assert "meps" not in error
    assert not (files / "x").exists()
