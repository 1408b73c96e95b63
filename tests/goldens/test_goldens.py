"""What each generator books at seed 1 is what it booked before. A change of these files is a commit that says why."""

import json

import pytest
from compare import LEDGERS, cases, fit, golden, rows
from sweeps import lone, sweep


def alike(found, expected):
    """Equal, with numbers that were solved for up to the last digits, which differ between kinds of processors."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(alike(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(alike, found, expected))
    return found == (pytest.approx(expected, rel=1e-9) if isinstance(expected, float) else expected)


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("data", "name"), sweep(cases(), lambda case: lone(case[1])))
def test_the_ledger_is_what_it_was(data, name, tmp_path):
    fit(data, name, tmp_path / "ledger.jsonl")
    found = rows((tmp_path / "ledger.jsonl").read_text(encoding="utf-8"))
    expected = [json.loads(line) for line in golden(data, name).read_text(encoding="utf-8").splitlines()]
    assert [row for row in zip(found, expected, strict=True) if not alike(*row)] == []


def test_no_ledger_is_kept_of_what_is_gone():
    assert set(LEDGERS.iterdir()) == {golden(data, name) for data, name in cases()}
