"""The contract suite on images: all generators that learn pictures x the laws that read differently there."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
from clinic import contracts, make_pictures, picture_schema, quick
from sweeps import heavy, lone, sweep

from synthdp import BadInput, Budget, Synthesizer, accounting, generators, load
from synthdp.ledger.events import scoped
from synthdp.ledger.ledger import Ledger
from synthdp.schema.codec import Codec
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.replay import Recorder

BUDGET = Budget(epsilon=1.0, delta=1e-5)
TABLES_ONLY = [name for name in generators.names() if name not in contracts("images")]
IMAGES_ONLY = [name for name in contracts("images") if ":" not in name and name not in contracts()]


@pytest.fixture(params=sweep(contracts("images"), lone))
def name(request):
    return request.param


def fitted(name, frame, budget=BUDGET, seed=3, schema=None, **options):
    made = Synthesizer(quick(name, "images"), schema=schema or picture_schema(), budget=budget)
    return made.fit(frame, seed=seed, **options)


@functools.lru_cache
def usual(name):
    """One release for all tests that look at an ordinary one; nothing in it changes."""
    return fitted(name, make_pictures(200))


def run(name, frame, schema, recorder=None):
    data = Sensitive(frame, schema, Account(BUDGET, Ledger(), unit=schema.unit or "record"), seed=5, recorder=recorder)
    model = quick(name, "images").fit(data, schema, BUDGET, seed=5)
    return data.account.ledger.entries(), model


def same(one, other):
    """Frames of pictures, cell by cell (pandas compares arrays by identity)."""
    pd.testing.assert_frame_equal(one.drop(columns="image"), other.drop(columns="image"))
    np.testing.assert_array_equal(np.stack(one["image"]), np.stack(other["image"]))


@pytest.mark.parametrize("epsilon", [0.5, heavy(3.0)])
def test_the_budget_is_kept_and_nearly_used(name, epsilon):
    statement = fitted(name, make_pictures(200), Budget(epsilon, 1e-5)).statement
    assert 0.95 * epsilon <= statement.epsilon <= epsilon


def test_the_ledger_is_the_plan_whatever_the_records_are(name):
    schema = picture_schema()
    ledgers = {run(name, make_pictures(rows), schema)[0] for rows in (0, 1, 40, 41)}
    noise = accounting.calibrate(lambda z: quick(name, "images").plan(schema, z), BUDGET)
    assert ledgers == {scoped(quick(name, "images").plan(schema, noise), relation="add_remove", unit="record")}


@pytest.mark.parametrize("unit", [None, "patient"])
def test_replay(name, unit):
    """Law 12: a unit more, with cells that are no pictures among its own, moves no question by more than its sensitivity."""
    changes = {"unit": unit, "max_records_per_unit": 2} if unit else {}
    schema, whole = picture_schema(**changes), make_pictures(60, repeats=3)
    extra = make_pictures(3, seed=8).assign(patient="p-new")
    extra["image"] = pd.Series([np.full((8, 8), 255, np.uint8), np.full((3, 9), 255, np.uint8), None], dtype=object)
    whole = pd.concat([whole, extra if unit else extra.iloc[:1]], ignore_index=True)
    first = Recorder()
    ledger, model = run(name, whole.iloc[:60], schema, first)
    second = Recorder(of=first)
    again, other = run(name, whole, schema, second)
    assert again == ledger
    for a, b in zip(model.tensors().values(), other.tensors().values(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(second.movements) == len(first.asked) > 0
    assert all(moved <= sensitivity * (1 + 1e-9) for moved, sensitivity in second.movements)
    assert max(moved for moved, _ in second.movements) > 0


def test_samples_are_pictures_with_labels(name):
    schema = picture_schema()
    release = usual(name)
    sample = release.sample(50, seed=1)
    assert list(sample.columns) == list(schema.names)
    schema.validate(sample, "error")
    assert all(cell.dtype == np.uint8 and cell.shape == (8, 8) for cell in sample["image"])
    assert sample["patient"].is_unique
    assert len(release.sample(0)) == 0
    same(sample, release.sample(50, seed=1))
    same(sample, fitted(name, make_pictures(200)).sample(50, seed=1))
    assert not np.array_equal(np.stack(sample["image"]), np.stack(release.sample(50, seed=2)["image"]))


def test_saved_and_loaded_it_gives_the_same_pictures_and_holds_no_record(name, tmp_path):
    frame, release = make_pictures(200), usual(name)
    release.save(tmp_path / "release")
    same(release.sample(20, seed=2), load(tmp_path / "release").sample(20, seed=2))
    content = b"".join(file.read_bytes() for file in (tmp_path / "release").iterdir())
    pixels = np.stack(frame["image"]).reshape(200, -1)
    for kind in (np.uint8, np.int32, np.float32, np.float64):
        for row in pixels[:20].astype(kind):
            assert row.tobytes() not in content


def test_an_outlier_changes_no_shape(name):
    """Law 21."""
    plain, strange = make_pictures(150), make_pictures(150)
    pictures = [*plain["image"][:3], np.zeros((90, 2)), None, *plain["image"][5:]]
    strange["image"] = pd.Series(pictures, dtype=object)
    strange.loc[5, "finding"] = "never seen"
    shapes = []
    for frame in (plain, strange):
        release = fitted(name, frame, invalid="clamp")
        arrays = {key: (value.shape, str(value.dtype)) for key, value in release.model.tensors().items()}
        shapes.append((release.schema.to_dict(), release.statement.to_json(), Codec(release.schema).sizes, arrays))
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("rows", [0, 1])
def test_zero_and_one_record_fit_like_any_other_number(name, rows):
    release = fitted(name, make_pictures(rows))
    assert release.statement.epsilon <= 1.0
    picture_schema().validate(release.sample(10, seed=1), "error")


def test_an_infinite_budget_learns_the_classes(name):
    """The bright half of a picture is where its label says, and the labels are as frequent as they were."""
    frame = make_pictures(1200)
    release = fitted(name, frame, Budget(math.inf, 1e-5), seed=0)
    sample = release.sample(600, seed=1)
    pixels = np.stack(sample["image"]).astype(float)
    lead = pixels[:, :, :4].mean((1, 2)) - pixels[:, :, 4:].mean((1, 2))
    label = sample["finding"].astype(str).to_numpy()
    if name != "independent":  # which knows no class
        assert lead[label == "left"].mean() > 20 > -20 > lead[label == "right"].mean()
        assert abs(lead[label == "none"].mean()) < 20
    assert np.abs(np.unique(label, return_counts=True)[1] / 600 - 1 / 3).max() < 0.1


def test_frames_that_hold_no_pictures_are_refused(name):
    frame = make_pictures(20)
    frame["image"] = pd.Series([None, np.zeros((8, 8)), *frame["image"][2:]], dtype=object)
    with pytest.raises(
        BadInput, match=r"'image': some values are missing; column 'image': some values are not uint8 arrays"
    ):
        fitted(name, frame)


@pytest.mark.parametrize("other", TABLES_ONLY)
def test_a_generator_of_tables_refuses_images(other):
    with pytest.raises(BadInput, match=f"{other}.*image"):
        Synthesizer(other, schema=picture_schema(), budget=BUDGET)


@pytest.mark.parametrize("other", IMAGES_ONLY)
def test_a_generator_of_images_refuses_tables(other, schema):
    with pytest.raises(BadInput, match=f"{other}.*image"):
        Synthesizer(other, schema=schema, budget=BUDGET)
