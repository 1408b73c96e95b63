"""What is DP-MERF's own: the features' kernel and norm, the kernel's public width, the two questions, the training."""

import math

import numpy as np
import pytest
import torch
from clinic import make_pictures, make_schema, picture_schema

from synthdp import Budget, Synthesizer
from synthdp.generators.dpmerf import DPMERF, Features
from synthdp.generators.parts.record_vectors import Vectors
from synthdp.schema.codec import Codec


def test_features_have_norm_one_and_approach_the_gaussian_kernel():
    rng = np.random.default_rng(0)
    rows, features = rng.standard_normal((12, 5)), Features(5, 20000, 1.7, rng)
    found = features.of(rows)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-12)
    squares = np.square(rows[:, None] - rows).sum(2)
    np.testing.assert_allclose(found @ found.T, np.exp(-squares / (2 * 1.7**2)), atol=0.05)
    tensor = features.of_tensor(torch.from_numpy(rows.astype(np.float32)))
    np.testing.assert_allclose(tensor.numpy(), found, atol=1e-5)


def test_the_kernels_width_is_public():
    """Pictures whose grey values deviate by a quarter lie 2 x pixels / 16 apart, squared; rows that differ in half of their
    columns lie one a column apart."""
    pictures, table = Codec(picture_schema()), Codec(make_schema())
    assert DPMERF().width(Vectors(pictures, len(pictures.sizes) - 1)) == pytest.approx(math.sqrt(64 / 8))
    assert DPMERF().width(Vectors(table, 0)) == pytest.approx(math.sqrt(len(table.sizes) - 1))
    assert DPMERF(sigma=3.0).width(Vectors(table, 0)) == 3.0


def test_the_counts_hold_their_share():
    plan = DPMERF(counts=0.2).plan(make_schema(), 2.0)
    precision = [entry.event.noise**-2 for entry in plan]
    assert sum(precision) == pytest.approx(0.25)
    assert precision[0] == pytest.approx(0.05)


def test_training_brings_the_mean_features_together():
    ends = []
    for steps in (1, 60):
        settings = DPMERF(features=100, steps=steps, batch=60, hidden=(32,))
        made = Synthesizer(settings, schema=picture_schema(), budget=Budget(math.inf, 1e-5))
        said = []
        made.fit(make_pictures(300), seed=1, progress=lambda *shown, said=said: said.append(shown[2]["distance"]))
        ends.append(said[-1])
    assert ends[1] < 0.5 * ends[0]
