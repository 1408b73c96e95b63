"""Figures of histories, on patients whose dynamics are known."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from synthdp import Schema
from synthdp.evaluate import evaluate, history_fidelity, write
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import PLACE, View

MADE_UP = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "made_up_hospital.py"))

SCHEMA = MADE_UP["schema"](3000)


@pytest.fixture(scope="module")
def parts():
    return tuple(MADE_UP["stays"](number, seed) for number, seed in ((3000, 1), (3000, 2), (1500, 3)))


@pytest.fixture(scope="module")
def shuffled(parts):
    """The same stays, dealt to patients at random, in whose places they stand."""
    frame, rng = parts[1], np.random.default_rng(0)
    return frame.assign(
        **{name: frame[name].to_numpy()[rng.permutation(len(frame))] for name in ("wound", "readmitted", "days")}
    )


@pytest.mark.heavy
def test_what_a_schema_leaves_to_learn_is_read_off_the_rows(parts):
    """`evaluate` is given the schema that was fitted, which may have left bounds, bins and categories to the fit."""
    values = SCHEMA.to_dict()
    for name, column in values["columns"].items():
        for item in {"categories", "bounds"} & column.keys():
            values["columns"][name] = {
                **values["columns"][name],
                item: "learn",
                **({"bins": 8} if item == "bounds" else {}),
            }
    values["honoured"] = []
    loose = Schema.from_dict({key: value for key, value in values.items() if key not in ("rules", "honoured")})
    assert len(loose.learned) > 3
    seen = history_fidelity.as_seen(loose, parts[0], parts[1])
    assert not seen.learned
    found = history_fidelity.judge(*parts, seen)
    assert found["records_per_unit"] == history_fidelity.judge(*parts, SCHEMA)["records_per_unit"]
    assert abs(found["told"]["readmitted"]["tstr"]["later"] - found["told"]["readmitted"]["trtr"]["later"]) < 0.03


@pytest.mark.heavy
def test_records_of_the_same_making_are_as_good_as_real_ones(parts):
    found = history_fidelity.judge(*parts, SCHEMA)
    for each in (found["records_per_unit"], found["gaps"], found["transitions"]["readmitted"]):
        assert 0 < each["tvd"] < each["real"] + 0.01, (
            "chance alone, and less of it than among half as many held-out ones"
        )
    told = found["told"]["readmitted"]
    assert abs(told["tstr"]["later"] - told["trtr"]["later"]) < 0.02
    assert told["trtr"]["later"] > told["without"]["later"] + 0.05, "the past tells much of a stay to come"


@pytest.mark.heavy
def test_records_that_forgot_their_past_are_found(parts, shuffled):
    found = history_fidelity.judge(shuffled, *parts[1:], SCHEMA)
    assert found["records_per_unit"]["tvd"] == 0
    assert found["transitions"]["readmitted"]["tvd"] > 0.02
    assert found["told"]["readmitted"]["tstr"]["later"] < 0.6


@pytest.mark.heavy
def test_the_floors_know_nothing_of_the_past(parts):
    """Made of records whose past tells much; what a person's own columns and the record itself tell stays."""
    told = history_fidelity.judge(*parts, SCHEMA)["told"]["readmitted"]
    for floor in ("dealt", "single"):
        assert told["tstr"]["later"] > told[floor]["later"] + 0.05
        assert told[floor]["later"] < told["without"]["later"] + 0.02
        assert told[floor]["all"] > 0.52
    view = View.of(Codec(SCHEMA))
    floors = history_fidelity._floors(parts[0], SCHEMA, view, 0)
    assert (np.diff(np.unique(floors["single"][PLACE])) == 0).all()
    assert len(floors["single"][PLACE]) == parts[0]["patient"].nunique()
    whole = history_fidelity.cells(parts[0], SCHEMA, view)
    dealt = floors["dealt"]
    np.testing.assert_array_equal(np.bincount(dealt[PLACE]), np.bincount(whole[PLACE]))
    for held in (dealt, whole):  # each record has its own patient's columns still
        held["beside"] = held[view.unit[0]] * 2 + held["readmitted"]
    np.testing.assert_array_equal(np.bincount(dealt["beside"]), np.bincount(whole["beside"]))


@pytest.mark.heavy
def test_distances_are_those_of_shares_counted_by_hand(parts):
    one, other = parts[0], parts[1]
    found = history_fidelity.judge(one, other, parts[2], SCHEMA)

    def shares(frame):
        previous = frame.groupby("patient", sort=False)["readmitted"].shift()
        return frame.assign(previous=previous).dropna().value_counts(["previous", "readmitted"], normalize=True)

    apart = shares(one).subtract(shares(other), fill_value=0).abs().sum() / 2
    assert found["transitions"]["readmitted"]["tvd"] == pytest.approx(apart)


@pytest.mark.heavy
def test_the_order_of_a_file_does_not_matter(parts):
    one = history_fidelity.judge(*parts, SCHEMA)
    mixed = parts[0].sample(frac=1.0, random_state=1, ignore_index=True)
    other = history_fidelity.judge(mixed, *parts[1:], SCHEMA)
    assert one["gaps"] == other["gaps"]


@pytest.mark.heavy
def test_the_page_tells_of_them(parts, tmp_path):
    few = [part.head(1000) for part in parts]
    result = evaluate(*few, SCHEMA, models="quick", seeds=1, bootstrap=0, attacks=False)
    assert result["histories"].items() >= history_fidelity.judge(*few, SCHEMA).items()
    write(result, tmp_path)
    page = (tmp_path / "evaluation.html").read_text(encoding="utf-8")
    assert "Histories: what follows what" in page
    assert "Previous and present <code>readmitted</code>" in page
    assert "Floor: one synthetic record of each unit" in page
    assert json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))["histories"]


@pytest.mark.heavy
def test_without_an_order_there_are_none(parts):
    values = {key: value for key, value in MADE_UP["DECLARED"].items() if key not in ("order", "per_unit")}
    few = (part.head(500) for part in parts)
    result = evaluate(*few, Schema.from_dict(values), models="quick", seeds=1, bootstrap=0, attacks=False)
    assert "histories" not in result
