"""Each measure of images against an independent reference: closed forms, loops, another library."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.linalg import sqrtm

from synthdp.errors import BadInput
from synthdp.evaluate import manifold
from synthdp.evaluate.images import clouds, feature_networks, image_utility, neighbours, pictures, samples, sheet


def cloud(rows, mean, covariance, seed):
    """Points whose sample mean and covariance are exactly the ones given."""
    points = np.random.default_rng(seed).normal(size=(rows, len(mean)))
    points -= points.mean(axis=0)
    white = points @ np.linalg.inv(np.linalg.cholesky(np.cov(points, rowvar=False))).T
    return white @ np.linalg.cholesky(covariance).T + mean


def test_frechet_distance_of_gaussians_has_its_closed_form():
    left, right = cloud(50, [0, 0, 0], np.diag([1.0, 4.0, 9.0]), 0), cloud(80, [1, 2, 0], np.diag([4.0, 1.0, 9.0]), 1)
    assert clouds.frechet(left, right) == pytest.approx(1 + 4 + (1 - 2) ** 2 + (2 - 1) ** 2)
    assert clouds.frechet(left, left) == pytest.approx(0, abs=1e-9)


def test_frechet_distance_of_any_covariances_is_that_of_sqrtm():
    rng = np.random.default_rng(3)
    a, b = (x @ x.T for x in rng.normal(size=(2, 4, 4)))
    root = np.trace(sqrtm(a @ b)).real
    found = clouds.frechet(cloud(40, np.zeros(4), a, 4), cloud(60, np.ones(4), b, 5))
    assert found == pytest.approx(4 + np.trace(a) + np.trace(b) - 2 * root)


def test_frechet_distance_stands_constant_and_dependent_features():
    rng = np.random.default_rng(6)
    flat = rng.normal(size=(30, 2))
    left = np.column_stack([flat, flat[:, 0], np.full(30, 7.0)])
    right = np.column_stack([flat, flat[:, 0], np.full(30, 5.0)])
    assert clouds.frechet(left, right) == pytest.approx(4.0)
    assert clouds.frechet(np.zeros((5, 1)), np.full((5, 1), 3.0)) == pytest.approx(9.0)


def test_kernel_distance_is_the_unbiased_double_sum():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(6, 3)), rng.normal(1, 2, size=(8, 3))

    def k(a, b):
        return (float(np.dot(a, b)) / 3 + 1) ** 3

    own = np.mean([k(x[i], x[j]) for i in range(6) for j in range(6) if i != j])
    other = np.mean([k(y[i], y[j]) for i in range(8) for j in range(8) if i != j])
    cross = np.mean([k(a, b) for a in x for b in y])
    assert clouds.kernel(x, y) == pytest.approx(own + other - 2 * cross)


def test_kernel_distance_is_zero_on_average_for_equal_distributions():
    """The mean of 400 independent unbiased estimates lies within four of its standard errors of 0: by chance alone this
    fails once in 16,000 such draws, and the draw is fixed."""
    rng = np.random.default_rng(8)
    found = [clouds.kernel(rng.normal(size=(20, 4)), rng.normal(size=(30, 4))) for _ in range(400)]
    assert abs(np.mean(found)) < 4 * np.std(found) / 20
    assert min(found) < 0
    shifted = [clouds.kernel(rng.normal(size=(20, 4)), rng.normal(0.5, 1, size=(30, 4))) for _ in range(400)]
    assert np.mean(shifted) > 4 * np.std(shifted) / 20


def test_subsets_tell_equal_from_shifted_clouds():
    rng = np.random.default_rng(9)
    left, right = rng.normal(size=(400, 5)), rng.normal(size=(300, 5))
    values, size = clouds.kernel_over_subsets(left, right, rng)
    assert (len(values), size) == (clouds.SUBSETS, 150)
    assert abs(np.mean(values)) < np.std(values)
    apart, _ = clouds.kernel_over_subsets(left, right + 1, rng)
    assert np.mean(apart) > 3 * np.std(apart)


def loops(real, made, k):
    """Precision, recall, density and coverage as their papers define them, point by point."""

    def radius(points, i):
        return sorted(np.linalg.norm(points[i] - p) for j, p in enumerate(points) if j != i)[k - 1]

    real_radii, made_radii = [radius(real, i) for i in range(len(real))], [radius(made, i) for i in range(len(made))]
    inside = [[np.linalg.norm(m - r) <= radius for r, radius in zip(real, real_radii, strict=True)] for m in made]
    back = [[np.linalg.norm(m - r) <= radius for m, radius in zip(made, made_radii, strict=True)] for r in real]
    return {
        "precision": np.mean([any(row) for row in inside]),
        "recall": np.mean([any(row) for row in back]),
        "density": np.sum(inside) / (k * len(made)),
        "coverage": np.mean([any(row[i] for row in inside) for i in range(len(real))]),
    }


@pytest.mark.parametrize("k", [1, 3, 5])
def test_coverage_is_that_of_plain_loops(k, monkeypatch):
    monkeypatch.setattr(manifold, "BLOCK", 7)  # several blocks, the last one short
    rng = np.random.default_rng(k)
    real, made = rng.normal(size=(40, 2)), rng.normal(0.7, 0.6, size=(31, 2))
    assert clouds.judge(real, made, k) == pytest.approx(loops(real, made, k))


def test_coverage_knows_lost_modes_strangers_and_constants():
    rng = np.random.default_rng(10)
    real = np.concatenate([rng.normal(0, 1, (50, 3)), rng.normal(100, 1, (50, 3))])
    one_mode = clouds.judge(real, rng.normal(0, 1, (100, 3)))
    assert one_mode["precision"] > 0.7
    assert one_mode["coverage"] <= 0.5
    assert one_mode["recall"] <= 0.5
    assert clouds.judge(real, rng.normal(-500, 1, (100, 3))) == dict.fromkeys(one_mode, 0.0)
    same = np.ones((20, 3))
    assert clouds.judge(same, same) == {"precision": 1.0, "recall": 1.0, "density": 4.0, "coverage": 1.0}


def test_nearest_neighbours_are_those_of_a_loop():
    rng = np.random.default_rng(11)
    points, among = (rng.integers(190, 256, (rows, 30)).astype(np.uint8) for rows in (17, 40))
    among[33] = points[4]
    place, apart = neighbours.nearest(points, among)
    every = np.linalg.norm(points[:, None].astype(float) - among[None].astype(float), axis=2)
    np.testing.assert_array_equal(place, every.argmin(axis=1))
    np.testing.assert_allclose(apart, every.min(axis=1))
    assert apart[4] == 0


def test_the_share_nearer_to_training_is_half_for_strangers_and_one_for_copies():
    rng = np.random.default_rng(12)
    train, test, fresh = (rng.normal(size=(300, 4)) for _ in range(3))
    stranger = neighbours.distances(fresh, train, test, rng)["closer_to_train"]
    assert abs(stranger["mean"] - 0.5) < 3 * stranger["standard_error"]
    copied = neighbours.distances(train + 1e-9, train, test, rng)
    assert copied["closer_to_train"] == {"mean": 1.0, "standard_error": 0.0}
    assert copied["synthetic"]["quantiles"]["0.95"] < copied["test"]["quantiles"]["0.05"]
    tied = neighbours.distances(fresh, train, train, rng)["closer_to_train"]
    assert tied["mean"] == 0.5


def test_the_standard_error_counts_neighbours_and_not_pictures():
    """Ten copies of each of 30 coin flips tell as much as 30."""
    flips = np.random.default_rng(13).integers(0, 2, 30).astype(float)
    alone = neighbours._clustered(flips, np.arange(30))
    assert alone == pytest.approx(flips.std() / 30**0.5)
    assert neighbours._clustered(np.repeat(flips, 10), np.repeat(np.arange(30), 10)) == pytest.approx(alone)


def test_exact_copies_are_counted():
    rng = np.random.default_rng(14)
    train = rng.integers(0, 256, (20, 3, 3, 1), dtype=np.uint8)
    made = np.concatenate([train[[2, 2, 5]], train[:1] ^ 1])
    assert neighbours.copies(made, train) == 3
    assert neighbours.distinct(made) == 3


@pytest.mark.parametrize(("shape", "side"), [((10, 12, 3), 5), ((7, 9, 1), 4), ((65, 20, 1), 64), ((8, 8, 1), 8)])
def test_shrinking_averages_windows(shape, side):
    pixels = np.random.default_rng(15).integers(0, 256, (3, *shape), dtype=np.uint8)
    step = -(-max(shape[:2]) // side)
    found = pictures.shrunk(pixels, side)
    assert max(found.shape[1:3]) <= side
    for i in range(found.shape[1]):
        for j in range(found.shape[2]):
            window = pixels[:, i * step : (i + 1) * step, j * step : (j + 1) * step].astype(float)
            np.testing.assert_array_equal(found[:, i, j], np.rint(window.mean(axis=(1, 2))))


def test_scores_count_every_class_alike():
    truth = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    chances = np.array([[0.9, 0.1, 0]] * 5 + [[0.4, 0.6, 0]] + [[0.3, 0.7, 0], [0.8, 0.2, 0]])
    found = image_utility.score(truth, chances, ("a", "b", "c"))
    assert found["accuracy"] == 6 / 8
    assert found["recall"] == {"a": 5 / 6, "b": 1 / 2}
    assert found["balanced_accuracy"] == pytest.approx((5 / 6 + 1 / 2) / 2)
    pairs = [(b > a) + 0.5 * (b == a) for a in chances[:6, 1] for b in chances[6:, 1]]
    assert found["auroc"] == pytest.approx(np.mean(pairs))
    assert "auroc" not in image_utility.score(truth[:3], chances[:3], ("a", "b", "c"))


@pytest.mark.heavy
@pytest.mark.parametrize("shape", [(8, 8, 1), (10, 12, 3), (1, 1, 1), (3, 70, 2)])
def test_networks_learn_by_their_own_seed_alone(shape, monkeypatch):
    monkeypatch.setattr(feature_networks, "LEAST_STEPS", 45)
    rng = np.random.default_rng(16)
    labels = rng.integers(0, 2, 200)
    pixels = (rng.integers(0, 80, (200, *shape)) + labels[:, None, None, None] * 150).astype(np.uint8)
    for make in (feature_networks.perceptron, feature_networks.convolutional):
        state = torch.random.get_rng_state()
        first, again, other = (feature_networks.train(make(shape, 2), pixels, labels, seed) for seed in (1, 1, 2))
        assert torch.equal(torch.random.get_rng_state(), state)
        chances = feature_networks.chances(first, pixels)
        np.testing.assert_array_equal(chances, feature_networks.chances(again, pixels))
        assert not np.array_equal(chances, feature_networks.chances(other, pixels))
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        assert (chances.argmax(axis=1) == labels).mean() > 0.95
        assert feature_networks.features(first, pixels).shape == (200, feature_networks.FEATURES)


def test_epochs_follow_the_size():
    assert feature_networks.epochs_of(60_000) == (3, 256)
    assert feature_networks.epochs_of(1_437) == (32, 64)
    assert feature_networks.epochs_of(10) == (40, 16)


def test_a_sheet_is_a_png_of_the_pictures():
    pixels = np.random.default_rng(17).integers(0, 256, (5, 4, 3, 1), dtype=np.uint8)
    image = Image.open(io.BytesIO(sheet(list(pixels[..., 0]), 2)))
    assert (image.mode, image.size) == ("LA", (2 * 3, 3 * 4))
    shown = np.asarray(image)
    np.testing.assert_array_equal(shown[:4, 3:, 0], pixels[1, ..., 0])
    np.testing.assert_array_equal(shown[8:, :, 1], [[255] * 3 + [0] * 3] * 4)  # the sixth place is clear
    assert Image.open(io.BytesIO(sheet(pixels[:4], 2))).mode == "L"
    colour = np.random.default_rng(18).integers(0, 256, (2, 4, 3, 3), dtype=np.uint8)
    gap = np.asarray(Image.open(io.BytesIO(sheet(colour, 2, gap=1))))
    np.testing.assert_array_equal(gap[:, :3, :3], colour[0])
    np.testing.assert_array_equal(gap[:, 4:, :3], colour[1])
    assert (gap[:, 3, 3] == 0).all()


@pytest.mark.parametrize("wrong", [[], np.zeros((2, 2)), np.zeros((2, 2, 2))])
def test_a_sheet_refuses_what_is_no_picture(wrong):
    with pytest.raises(BadInput, match="uint8"):
        sheet(wrong, 2)


def test_large_pictures_are_made_smaller_for_the_page():
    found = samples.strip(np.zeros((3, 200, 130, 1), dtype=np.uint8))
    assert (found["count"], found["width"], found["height"]) == (3, 3 * 33 + 2, 50)
    assert found["png"].startswith("data:image/png;base64,")


def test_intensities_are_shares_of_bins():
    parts = [
        pictures.Pictures(axes=(), values=np.empty((2, 0)), pixels=np.full((2, 2, 2, 1), value, dtype=np.uint8))
        for value in (255, 7, 0)
    ]
    parts[2].pixels[0] = 8
    found = samples.intensities(tuple(parts))
    assert (found["mean"], found["floor"]["mean"]) == (1.0, 0.5)
    assert (found["synthetic"][31], found["train"][0], found["test"][1]) == (1.0, 1.0, 0.5)
