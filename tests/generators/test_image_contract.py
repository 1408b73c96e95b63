"""The contract suite on images: all generators that learn pictures x the laws that read differently there."""

import functools
import math

import numpy as np
import pandas as pd
import pytest
from clinic import contracts, make_pictures, picture_schema, quick
from sweeps import lone, sweep

from synthdp import BadInput, Budget, Synthesizer, generators

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


@pytest.mark.heavy
def test_samples_are_pictures_with_labels(name):
    schema = picture_schema()
    release = usual(name)
    sample = release.sample(50, seed=1)
    assert list(sample.columns) == list(schema.names)
    schema.validate(sample, "error")
    assert all(cell.dtype == np.uint8 and cell.shape == (8, 8) for cell in sample["image"])
    assert sample["patient"].is_unique
    assert len(release.sample(0)) == 0
    assert not np.array_equal(np.stack(sample["image"]), np.stack(release.sample(50, seed=2)["image"]))


@pytest.mark.heavy
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
