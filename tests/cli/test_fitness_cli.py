"""`synthdp fit fitness=`: figures in the statement, on the page and in the terminal; the price is in epsilon."""

import json
import re

import pytest
from clinic import in_files

from synthdp import load
from synthdp.cli import run

FIT = ["generator=independent", "budget.epsilon=2", "budget.delta=1e-5", "seed=1"]


@pytest.fixture
def data(tmp_path):
    return [*in_files(tmp_path, 2000), f"out={tmp_path / 'run'}"]


@pytest.mark.heavy
def test_figures_are_bought_told_and_accounted_for(data, tmp_path, output_of):
    said = output_of("fit", *data, *FIT, "fitness=0.1").out
    assert re.search(r"^fitness +single columns: \d+\.\d % to \d+\.\d %", said, re.MULTILINE)
    release = tmp_path / "run" / "release"
    statement = load(release).statement
    assert statement.fitness.share == 0.1
    ledger = [f"ledger={release / 'ledger.jsonl'}", "delta=1e-5", f"accountant={statement.accountant}", "format=json"]
    told = json.loads(output_of("epsilon", *ledger).out)
    assert told["epsilon"][statement.accountant] == pytest.approx(statement.epsilon, rel=1e-9)
    assert run(["report", f"release={release}", f"out={tmp_path / 'page'}"]) == 0
    assert "measured under the guarantee" in (tmp_path / "page" / "statement.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "page" / "statement.json").read_text())["fitness"]["share"] == 0.1


@pytest.mark.parametrize("share", ["0", "2", "much", "true"])
def test_a_share_that_is_none_is_refused(share, data, tmp_path, output_of):
    assert "fitness must be" in output_of("fit", *data, *FIT, f"fitness={share}", status=2).err
    assert not (tmp_path / "run" / "release").exists()
