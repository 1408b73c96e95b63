"""Codes with a tree: compared at the level that a fit kept, and at each level of the tree."""

import numpy as np
import pandas as pd
import pytest

from synthdp import Schema
from synthdp.evaluate import evaluate
from synthdp.evaluate.answers import brief
from synthdp.evaluate.faithfulness import as_kept, by_level

CODES = ["A00.0", "A00.1", "A01.0", "B20.9", "V45"]
REAL = ["A00.0"] * 4 + ["A00.1"] * 2 + ["A01.0"] + ["B20.9"] * 2 + ["V45"]
KEPT = ["A00.0"] * 4 + ["A00"] * 2 + ["A"] + ["B"] * 2 + ["V45"]  # where each code was kept, share by share


def schema(*kept, **tree):
    dx = {"kind": "categorical", "categories": CODES, "tree": {"prefix": [1, 3], **tree}, "missing": True}
    made = Schema.from_dict({"declared_by": "the tests", "columns": {"dx": dx, "ill": {"kind": "boolean"}}})
    return made.with_learned("dx", categories=kept) if kept else made


def frame(codes, times=40):
    return pd.DataFrame({"dx": codes * times, "ill": np.arange(len(codes) * times) % 3 == 0})


def test_a_code_lost_to_its_parent_is_wrong_below_that_level_and_right_from_there_up():
    levels = by_level(schema(), frame(KEPT), frame(REAL), frame(REAL))["dx"]
    assert [each["level"] for each in levels] == [1, 2, 3]
    assert [each["tvd"] for each in levels] == pytest.approx([0.0, 0.3, 0.5])  # A and B; A00 too
    assert [each["kept"] for each in levels] == pytest.approx([1.0, 0.7, 0.5])
    assert [each["floor"] for each in levels] == pytest.approx([0.0] * 3)
    assert by_level(schema(), frame(KEPT).drop(columns="dx"), frame(REAL), frame(REAL)) == {}
    assert by_level(schema(), frame([None]), frame(REAL), frame(REAL)) == {}


@pytest.mark.heavy
@pytest.mark.parametrize("declared", [schema(), schema("A", "A00", "A00.0", "B", "V45")])
def test_all_else_compares_at_the_level_that_was_kept(declared):
    found = evaluate(frame(KEPT), frame(REAL), frame(REAL), declared, attacks=False)
    assert found["fidelity"]["tvd_1way"]["columns"]["dx"] == pytest.approx(0.0)
    assert found["fidelity"]["code_levels"]["dx"][2]["tvd"] == pytest.approx(0.5)
    assert "50.0 % of synthetic codes are as fine" in dict(brief(found))["codes"]


@pytest.mark.heavy
def test_codes_that_are_lost_altogether_are_wrong_everywhere():
    made = frame([*KEPT[:-1], "other"])
    assert by_level(schema(), made, frame(REAL), frame(REAL))["dx"][0]["tvd"] == pytest.approx(0.1)
    found = evaluate(made, frame(REAL), frame(REAL), schema(), attacks=False)
    assert found["fidelity"]["tvd_1way"]["columns"]["dx"] == pytest.approx(0.1)


def test_the_kept_codes_are_read_off_synthetic_rows_only_where_they_were_to_be_learned():
    assert as_kept(schema("A"), [frame(KEPT)]) == schema("A")
    assert as_kept(schema(), [frame(KEPT)]).column("dx").categories == ("A", "A00", "A00.0", "B", "V45", "other")
