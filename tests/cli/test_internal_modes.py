"""What a fit leaves beside its release is its owner's alone, also where the umask forbids nothing."""

import stat

import numpy as np
import pytest
from clinic import make_frame, make_schema

from synthdp.budgets import chain, registry
from synthdp.cli import run
from synthdp.seal.resume import Answers, Checkpoint

pytestmark = pytest.mark.usefixtures("no_umask")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(*places):
    """What others may look at, of these places and of all that is in them."""
    found = [each for place in places for each in (place, *place.rglob("*"))]
    return [str(each) for each in found if mode(each) != (0o700 if each.is_dir() else 0o600)]


@pytest.mark.parametrize(
    "words", [("data.path=train.csv", "audit.canaries=5"), ("data.train=parts",)], ids=["memory", "duckdb"]
)
def test_internal_account_and_list_of_accounts_are_nobody_elses(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    make_frame(60).to_csv("train.csv", index=False)
    make_schema().save("schema.yaml")
    (tmp_path / "parts").mkdir()
    make_frame(60).to_parquet(tmp_path / "parts" / "a.parquet")
    internal, account = tmp_path / "run" / "internal", tmp_path / "accounts" / "own.account"
    seen, plain = set(), Answers.keep

    def keep(*given):
        plain(*given)
        seen.update(path.name.partition("-spill-")[0] for path in internal.iterdir())
        assert open_to_others(internal, account.parent) == []

    monkeypatch.setattr(Answers, "keep", keep)
    words = (*words, "generator=independent")
    assert run(["fit", *words, "data.schema=schema.yaml", f"account={account}", "out=run"]) == 0
    assert {"ledger.new.jsonl", "checkpoint.safetensors.answers"} <= seen
    assert ("synthdp" in seen) == ("data.train=parts" in words)
    assert {"config.yaml", "ledger.jsonl", "training.json"} <= {path.name for path in internal.iterdir()}
    assert open_to_others(internal, account.parent, registry.home()) == []
    assert mode(tmp_path / "run") == 0o777  # a release is for others
    assert {mode(file) for file in (tmp_path / "run" / "release").iterdir()} == {0o666}


def test_a_checkpoint_is_nobody_elses(tmp_path):
    path = tmp_path / "internal" / "checkpoint"
    Checkpoint(path, {}).save({}, {"weights": np.zeros(2)})
    assert open_to_others(path.parent) == []


def test_the_journal_of_an_account_is_nobody_elses_either(tmp_path):
    path = tmp_path / "own.account"
    chain.make(path, {"first": True})
    with chain.transaction(path) as book:
        book.append("charges", {"second": True})
        assert {file.name for file in tmp_path.iterdir()} == {"own.account", "own.account-journal"}
        assert {mode(file) for file in tmp_path.iterdir()} == {0o600}
    assert mode(path) == 0o600


@pytest.mark.heavy
def test_an_evaluation_is_nobody_elses_and_a_sample_is_everybodys(tmp_path):
    for name in ("real.csv", "held_out.csv"):
        make_frame(60).to_csv(tmp_path / name, index=False)
    make_schema().save(tmp_path / "schema.yaml")
    data = [f"data.path={tmp_path / 'real.csv'}", f"data.schema={tmp_path / 'schema.yaml'}", "account=null"]
    out, rows = tmp_path / "run", tmp_path / "rows.csv"
    assert run(["fit", *data, "generator=independent", f"out={out}"]) == 0
    assert run(["sample", f"release={out / 'release'}", "rows=60", f"out={rows}"]) == 0
    assert mode(rows) == 0o666
    words = [f"data.train={tmp_path / 'real.csv'}", f"data.test={tmp_path / 'held_out.csv'}", f"synthetic={rows}"]
    assert run(["evaluate", *words, data[1], "evaluate=quick", f"out={tmp_path / 'page'}"]) == 0
    assert open_to_others(tmp_path / "page") == []
