"""The small published methods: RON-Gauss and implicit maximum likelihood."""

import numpy as np
import pandas as pd
import pytest
import torch

from synthdp import Budget, Schema, Synthesizer
from synthdp.generators.gaussians.one_shot import Moments
from synthdp.generators.imle import IMLE, Nearest, on_grid
from synthdp.generators.parts.record_vectors import Vectors
from synthdp.generators.rongauss import RONGauss, gaussians, random_axes
from synthdp.schema.codec import Codec

FREE = Budget(epsilon=float("inf"), delta=1e-5)


def twins(rows, seed=0):
    """Two equal columns with three values, and a label that depends on them."""
    rng = np.random.default_rng(seed)
    value = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    return pd.DataFrame({"one": value, "two": value, "ill": rng.random(rows) < np.where(value == "a", 0.1, 0.7)})


def schema(rows):
    column = {"kind": "categorical", "categories": ["a", "b", "c"]}
    columns = {"one": column, "two": column, "ill": {"kind": "boolean"}}
    return Schema.from_dict({"declared_by": "the tests", "units": rows, "targets": ["ill"], "columns": columns})


def both(generator):
    """Real rows, and rows of a model that was fitted to them without noise."""
    real = twins(4000)
    return real, Synthesizer(generator, schema=schema(4000), budget=FREE).fit(real, seed=1).sample(4000, seed=2)


def test_rongauss_learns_shares_equal_columns_and_the_label():
    real, drawn = both(RONGauss())
    assert (drawn.one == drawn.two).mean() > 0.85  # 0.38 of independent columns
    for value in "abc":
        assert abs((drawn.one == value).mean() - (real.one == value).mean()) < 0.05
    risks = [frame.ill[frame.one != "a"].mean() - frame.ill[frame.one == "a"].mean() for frame in (real, drawn)]
    assert abs(risks[0] - risks[1]) < 0.15


@pytest.mark.heavy
def test_imle_learns_where_records_are():
    """Two equal columns; not how often which value is, which its objective does not ask."""
    real, drawn = both(IMLE(rounds=80, generated=10, learning_rate=3e-3))
    assert (drawn.one == drawn.two).mean() > 0.85
    assert set(drawn.one) == set(real.one)


def test_random_axes_are_orthonormal_and_have_no_preferred_sign():
    axes = np.stack([random_axes(6, 4, np.random.default_rng(seed)) for seed in range(400)])
    assert np.allclose(axes @ axes.transpose(0, 2, 1), np.eye(4))
    assert np.abs(axes.mean(0)).max() < 4 / np.sqrt(6 * 400)


def test_gaussians_are_the_moments_and_never_of_negative_variance():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0], [0, 0, 0.2]]) + [1, 2, 3]
    moments = Moments(np.array([500.0]), rows.sum(0)[None], (rows.T @ rows)[None], 0.0, 0.0)
    means, factors = gaussians(moments)
    assert np.allclose(means[0], rows.mean(0))
    assert np.allclose(factors[0] @ factors[0].T, np.cov(rows.T, bias=True))
    noisy = Moments(moments.counts, moments.sums, moments.squares - 100 * np.eye(3), 0.0, 0.0)
    values = np.linalg.eigvalsh(gaussians(noisy)[1][0] @ gaussians(noisy)[1][0].T)
    assert np.isfinite(values).all()
    assert values.min() >= -1e-12


def test_the_nearest_row_is_the_same_in_every_batch():
    """Rows that are equally near would else be told apart by how a product was rounded."""
    codec = Codec(schema(50))
    vectors, rng = Vectors(codec, None), np.random.default_rng(3)
    codes = np.stack([rng.integers(0, size, 2000) for size in codec.sizes], 1).astype(codec.dtype)
    projection = on_grid(random_axes(vectors.width, vectors.width, rng) / vectors.bound)
    middle = vectors.of(codes[:1]) @ projection.T
    step = on_grid(rng.normal(size=middle.shape) / 8)
    asked = Nearest(vectors, projection, np.vstack([middle + step, middle - step]))
    alone = np.concatenate([asked.group(codes[row : row + 1]) for row in range(len(codes))])
    for batch in (3, 64, 2000):
        groups = np.concatenate([asked.group(codes[at : at + batch]) for at in range(0, len(codes), batch)])
        assert (groups == alone).all()


def test_counts_and_sums_have_the_gradient_of_the_objective_over_records():
    """Of the sum over records of the squared distance to the nearest generated row."""
    codec = Codec(schema(50))
    vectors, rng = Vectors(codec, None), np.random.default_rng(3)
    codes = np.stack([rng.integers(0, size, 50) for size in codec.sizes], 1).astype(codec.dtype)
    projection = on_grid(random_axes(vectors.width, 5, rng) / vectors.bound)
    places = on_grid(rng.normal(size=(7, 5)) / 4)
    asked = Nearest(vectors, projection, places)
    told, group = asked.told(codes), asked.group(codes)
    assert np.square(told).sum(1).max() <= 2 + 1e-5  # the clip takes next to nothing away
    records = torch.from_numpy(told[:, 1:])
    apart = torch.cdist(records, torch.from_numpy(places))
    assert (apart.argmin(1).numpy() == group).all()
    rows = torch.from_numpy(places).requires_grad_()
    (records - rows[torch.from_numpy(group)]).square().sum().backward()
    direct = rows.grad.clone()
    rows.grad = None
    sums = torch.zeros(7, 6, dtype=torch.float64).index_add_(0, torch.from_numpy(group), torch.from_numpy(told))
    ((sums[:, :1] * rows - 2 * sums[:, 1:]) * rows).sum().backward()
    assert torch.allclose(rows.grad, direct)
