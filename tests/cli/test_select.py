"""`synthdp fit select=private`: the release of the best run, and what is refused."""

import json

import pytest
from clinic import in_files

from synthdp import load
from synthdp.ledger.events import Selection
from synthdp.report.words import upper

CHOICE = ["select=private", "candidates=[independent,{name:classgauss}]", "mean_runs=2"]


@pytest.fixture
def data(tmp_path):
    return [*in_files(tmp_path), f"out={tmp_path / 'run'}"]


@pytest.mark.heavy
def test_the_best_run_is_released_and_charged_once(data, tmp_path, output_of):
    words = [*data, *CHOICE, "budget.epsilon=2", "budget.delta=1e-5", "seed=1"]
    said = output_of("fit", *words).out
    release = load(tmp_path / "run" / "release")
    (entry,) = release.ledger.entries()
    assert isinstance(entry.event, Selection)
    assert (entry.event.mean, len(entry.event.candidates)) == (2.0, 2)
    assert release.generator.name in ("independent", "classgauss")
    assert f"guarantee  epsilon {upper(release.statement.epsilon)} at" in said
    training = json.loads((tmp_path / "run" / "internal" / "training.json").read_text())
    assert training == {"training": []}  # neither steps nor time, which would count the runs


def test_one_that_is_stopped_does_not_ask_to_be_resumed(data, tmp_path, output_of, monkeypatch):
    """It stays charged, and `resume=true`, which it was told to try, is refused."""

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("synthdp.selecting.tables", stopped)
    words = [
        *data,
        "select=private",
        "candidates=[independent]",
        "mean_runs=1",
        "budget.epsilon=2",
        "budget.delta=1e-5",
    ]
    error = output_of("fit", *words, status=130).err
    assert "charged so far" in error
    assert "cannot be resumed" in error
    assert "resume=true" not in error
    assert (tmp_path / "run" / "internal" / "ledger.new.jsonl").exists()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["select=private"], "candidates=[independent"),
        (["candidates=[independent]"], "select=private"),
        (["mean_runs=3"], "select=private"),
        (["select=best", "candidates=[independent]"], "select"),
        (["select=private", "candidates=[nobody]"], "nobody"),
        (["select=private", "candidates=[{name:dpgan,depths:3}]"], "depths"),
        (["select=private", "candidates=[{steps:3}]"], "candidate is a generator's name"),
        (["select=private", "candidates=[independent]", "mean_runs=0"], "mean_runs"),
        ([*CHOICE, "generator=independent"], "not in generator="),
        ([*CHOICE, "audit.canaries=10"], "canaries"),
        ([*CHOICE, "fitness=0.1"], "fitness="),
    ],
)
def test_options_that_do_not_fit_are_refused(words, named, data, tmp_path, output_of):
    error = output_of("fit", *data, *words, status=2).err.strip()
    assert named in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "run" / "release").exists()
