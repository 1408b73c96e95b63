"""reports/papers.md: it says what the other reports hold now, and each verdict follows from the figures beside it."""

import importlib
import json
import sys
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[1] / "recipes"


@pytest.fixture(scope="module")
def papers():
    sys.path.insert(0, str(RECIPES))
    yield importlib.import_module("papers")
    sys.path.remove(str(RECIPES))
    del sys.modules["papers"]


def test_it_is_made_of_the_reports_as_they_are(papers):
    rows = json.loads(json.dumps(papers.rows()))
    assert rows == papers.report("papers")["rows"], "run recipes/papers.py"
    assert papers.text(rows) == (RECIPES.parent / "reports" / "papers.md").read_text(encoding="utf-8")


def test_every_report_that_it_names_is_there(papers):
    named = {row["source"] for row in papers.rows()} - {""}
    assert [name for name in named if not (RECIPES.parent / "reports" / f"{name}.md").exists()] == []


@pytest.mark.parametrize(
    ("n", "least", "settings", "verdict"),
    [
        (0, 0.9, {}, "not run"),
        (3, 0.95, {}, "not reproduced"),
        (1, 0.9, {}, "reached with too few seeds"),
        (1, 0.9, {"otherwise": True}, "reached with too few seeds"),
        (3, 0.9, {"otherwise": True}, "reached by other means"),
        (3, 0.9, {}, "reproduced"),
        (3, 0.9, {"most": 0.91}, "not reproduced"),
        (None, 0.9, {}, "reproduced"),
    ],
)
def test_a_verdict(papers, n, least, settings, verdict):
    found = papers.row("pate", "what", "92 %", {"mean": 0.92, "sd": 0.01, "n": n}, least=least, **settings)
    assert found["verdict"] == verdict


def test_what_was_measured_otherwise_does_not_count_as_reproduced(papers):
    """Such as another accountant than theirs, another form of their table, or noise that no release has."""
    rows = papers.rows()
    others = [row for row in rows if "epsilon 3:" in row["what"] or " on Adult" in row["what"]]
    assert len(others) == 7
    assert "reproduced" not in {row["verdict"] for row in others}
    released = [row for row in rows if row["what"].endswith(papers.RELEASED)]
    assert [row["ours"]["mean"] <= float(row["published"]) for row in released] == [
        row["verdict"] == "reproduced" for row in released
    ]
