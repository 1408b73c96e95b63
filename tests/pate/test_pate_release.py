"""The classifier's folder: what is in it, what is not, and what is refused when it comes back."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_schema, reseal
from pate.pate_tables import accuracy, fitted, problem, problem_schema, without_labels
from sklearn.linear_model import LogisticRegression

from synthdp import BadInput, Budget
from synthdp.pate import PATE, Network, SemiSupervised, load, verify
from synthdp.pate.code_features import features, public_codes
from synthdp.schema.codec import Codec

NETWORK = Network(hidden=(8,), steps=100, learning_rate=1e-2)
TEST = without_labels(problem(200, 5))
CANARY = 0.123456789


@pytest.fixture(scope="module")
def made():
    return fitted(student=NETWORK)


@pytest.mark.heavy
def test_saved_and_loaded_it_predicts_the_same(made, tmp_path):
    again = load(made.save(tmp_path / "release"))
    np.testing.assert_array_equal(made.predict_proba(TEST), again.predict_proba(TEST))
    assert again.statement == made.statement
    assert repr(again) == repr(made)
    assert again.classes == ("no", "yes")
    with pytest.raises(BadInput, match="exists"):
        made.save(tmp_path / "release")
    made.save(tmp_path / "release", force=True)


def test_a_semi_supervised_student_is_stored_too(tmp_path):
    student = SemiSupervised(hidden=(8,), generator_hidden=(8,), latent=4, steps=20, batch=20)
    made = fitted(student=student, teachers=10)
    again = load(made.save(tmp_path / "release"))
    np.testing.assert_array_equal(made.predict_proba(TEST), again.predict_proba(TEST))


@pytest.mark.heavy
@pytest.mark.parametrize("student", [LogisticRegression(), torch.nn.Linear(4, 2)])
def test_what_cannot_be_stored_learns_again(student, tmp_path):
    made = fitted(student=student, teachers=10)
    folder = made.save(tmp_path / "release")
    with pytest.raises(BadInput, match="student="):
        load(folder)
    again = load(folder, student=student)
    np.testing.assert_allclose(made.predict_proba(TEST), again.predict_proba(TEST), atol=1e-6)


def test_the_answers_teach_another_student_for_free(made):
    other = made.relearn(LogisticRegression())
    assert other.statement.settings["student"]["name"] == other.student.name != made.student.name
    settings = {**other.statement.settings, "student": made.statement.settings["student"]}
    assert replace(other.statement, settings=settings) == made.statement, "the rest is the same fit's"
    assert accuracy(other) > 0.8


def test_the_statement_speaks_of_votes_and_public_records(made):
    said = made.statement
    assert said.generator == "pate"
    assert said.settings["aggregator"]["name"] == "GNMax"
    assert said.settings["teachers"] == 100
    assert said.declared["public_records"] == 300
    assert any("declared them public" in line for line in said.not_covered)
    assert any("code of the teachers and of the features" in line and "on trust" in line for line in said.not_covered)
    assert not any("Synthetic rows" in line for line in said.not_covered)
    json.dumps(said.to_json(), allow_nan=False)


def test_no_sensitive_row_is_in_the_folder(tmp_path):
    frame = pd.concat(
        [problem(500, 0), pd.DataFrame({"x": [CANARY], "y": [CANARY], "side": ["left"], "group": ["yes"]})]
    )
    public = without_labels(problem(100, 1))
    made = fitted(frame.reset_index(drop=True), public=public, student=NETWORK, teachers=10)
    folder = made.save(tmp_path / "release")
    for path in folder.iterdir():
        content = path.read_bytes()
        assert np.float64(CANARY).tobytes() not in content
        assert str(CANARY).encode() not in content
    known = {tuple(row) for row in public_codes(Codec(problem_schema()), "group", public).tolist()}
    assert {tuple(row) for row in made.answers.codes.tolist()} <= known
    assert made.answers.targets.shape == (60, 2)


def test_an_altered_release_is_refused(made, tmp_path):
    folder = made.save(tmp_path / "release")
    path = folder / "release.json"
    whole = json.loads(path.read_text(encoding="utf-8"))

    def refused(words, **changes):
        path.write_text(json.dumps({**whole, **changes}), encoding="utf-8")
        with pytest.raises(BadInput, match=r"'release\.json' is not the file"):
            load(folder)
        reseal(folder)
        with pytest.raises(BadInput, match=words):
            verify(folder)

    refused("statement's field epsilon does not match", statement={**whole["statement"], "epsilon": 0.1})
    refused("statement's field generator does not match", statement={**whole["statement"], "generator": "dpgan"})
    refused("statement's field not_covered does not match", statement={**whole["statement"], "not_covered": []})
    refused("not a release of PATE", kind="dpgan")
    refused("do not fit|columns does not match", schema={**problem_schema(("a", "b", "c")).to_dict()})
    refused("not known", student={**whole["student"], "name": "other"})
    refused("altered", student={**whole["student"], "settings": {"width": 3}})
    refused(
        "layers.0.weight", student={**whole["student"], "settings": {**whole["student"]["settings"], "hidden": [9]}}
    )
    refused("lacks a part", target=None, student=None)
    path.write_text(json.dumps(whole), encoding="utf-8")
    reseal(folder)
    assert "declared.public_records" in verify(folder).claimed
    (folder / "ledger.jsonl").unlink()
    with pytest.raises(BadInput, match="ledger"):
        load(folder)


def test_a_function_for_features_is_given_again(tmp_path):
    made = fitted(student=NETWORK, features=scaled, teachers=10)
    folder = made.save(tmp_path / "release")
    with pytest.raises(BadInput, match="features="):
        load(folder)
    again = load(folder, features=scaled)
    np.testing.assert_array_equal(made.predict_proba(TEST), again.predict_proba(TEST))


def scaled(codes):
    return np.asarray(codes)[:, :2] / 20


def test_predictions_name_the_column_that_is_missing(made):
    with pytest.raises(BadInput, match="'y'"):
        made.predict(TEST.drop(columns="y"))
    assert made.predict(TEST.iloc[:0]).shape == (0,)


def test_every_kind_of_column_and_a_boolean_target():
    schema, public = make_schema(units=2000), make_frame(200, seed=1).drop(columns="ill")
    made = PATE(teachers=50, teacher=LogisticRegression(), queries=80, student=LogisticRegression()).fit(
        make_frame(2000), schema=schema, target="ill", public=public, budget=Budget(6.0, 1e-5), seed=1
    )
    test = make_frame(500, seed=2)
    assert made.predict(test).dtype == np.bool_
    assert (made.predict(test) == test["ill"].to_numpy()).mean() > 0.7


def test_features_never_look_at_the_target_and_lie_within_0_and_1():
    schema = make_schema()
    codec = Codec(schema)
    codes = codec.encode(make_frame(200))
    mapped = features(codec, "ill")
    rows = mapped(codes)
    assert rows.min() >= 0
    assert rows.max() <= 1
    changed = codes.copy()
    changed[:, codec.names.index("ill")] ^= 1
    np.testing.assert_array_equal(rows, mapped(changed))
    frame = make_frame(200)
    age = rows[:, 0] * 99  # the first column; bins are 20 wide
    assert np.abs(age - frame["age"].to_numpy()).max() <= 10.5
