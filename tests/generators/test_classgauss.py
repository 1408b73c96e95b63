"""What is the class Gaussians' own: shares of the budget, shrinkage by known noise, tables that draws agree with, settings."""

import math

import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_pictures, make_schema, picture_schema
from scipy.fft import idctn

from synthdp import Budget, Schema, Synthesizer
from synthdp.generators.classgauss import MOST_COMPONENTS, ClassGauss
from synthdp.generators.gaussians import class_mixture, one_shot
from synthdp.generators.gaussians.class_mixture import GREYS, LEVELS, plain_greys
from synthdp.generators.gaussians.one_shot import Bands, Basis, Moments, estimated, principal
from synthdp.generators.parts.record_vectors import Vectors
from synthdp.schema.codec import Codec

BUDGET = Budget(1.0, 1e-5)
EXACT = Budget(math.inf, 1e-5)


def noisy(matrix, deviation, rng):
    """Plus noise of `deviation` on the diagonal, 1 / sqrt(2) of it off."""
    noise = np.triu(rng.standard_normal(matrix.shape) * deviation / math.sqrt(2), 1)
    return matrix + noise + noise.T + np.diag(rng.standard_normal(len(matrix)) * deviation)


def moments_of(samples, deviation, rng):
    """Moments of groups of vectors, with noise on sums and products."""
    return Moments(
        np.array([float(len(each)) for each in samples]),
        np.stack([each.sum(0) + deviation * rng.standard_normal(each.shape[1]) for each in samples]),
        np.stack([noisy(each.T @ each, deviation, rng) for each in samples]),
        deviation,
        deviation,
    )


@pytest.mark.parametrize("settings", [{}, {"components": 3}, {"components": 1, "basis": 0.5, "middle": 0.1}])
@pytest.mark.parametrize("schema", [make_schema(), picture_schema()])
@pytest.mark.parametrize("noise", [0.4, 3.7])
def test_the_questions_together_are_one_gaussian_of_the_noise(settings, schema, noise):
    plan = ClassGauss(**settings).plan(schema, noise)
    assert sum(entry.count / entry.event.noise**2 for entry in plan) == pytest.approx(noise**-2)


def test_components_follow_from_public_facts_alone():
    generator, schema = ClassGauss(), picture_schema(units=60000)

    def count(noise, schema=schema, generator=generator):
        return generator.count(schema, generator.noises(schema, noise), 10)

    assert (count(3.73), count(0.53), count(0.0)) == (1, MOST_COMPONENTS, MOST_COMPONENTS)
    assert 2 <= count(0.53, picture_schema(units=12000)) < MOST_COMPONENTS
    assert count(0.53, make_schema(units=60000)) == 1
    assert count(3.73, generator=ClassGauss(components=7)) == 7


def test_vectors_stand_for_their_codes():
    schema = make_schema()
    codec = Codec(schema)
    codes = codec.encode(make_frame(40))
    vectors = Vectors(codec, codec.names.index("ill"))
    rows = vectors.of(codes)
    assert np.linalg.norm(rows, axis=1).max() <= vectors.bound + 1e-12
    chosen = [rows[:, block].argmax(1) for block in vectors.blocks]
    np.testing.assert_array_equal(vectors.codes(np.zeros((40, 0), np.uint8), chosen, vectors.label_of(codes)), codes)


def test_plain_tables_give_back_every_grey_value():
    table, codec = plain_greys(), Codec(picture_schema())
    codes = np.zeros((4, len(codec.sizes)), np.uint8)
    codes[:, codec.picture.places] = np.arange(256).reshape(4, 64)
    vectors = Vectors(codec, len(codec.sizes) - 1)
    steps = class_mixture._steps(vectors.of(codes))
    np.testing.assert_array_equal(table[steps].ravel(), np.arange(256))
    assert (np.diff(LEVELS) >= 0).all()
    np.testing.assert_array_equal(np.searchsorted(LEVELS, np.arange(len(GREYS) - 1)), GREYS[:-1])


def test_draws_agree_with_shares_of_grey_values():
    """Half of all pixels are black and the rest bright: a Gaussian alone would draw grey ones."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 2, (800, 8, 8)) * rng.integers(200, 256, (800, 8, 8))
    frame = make_pictures(800)
    frame["image"] = pd.Series(list(pictures.astype(np.uint8)), dtype=object)
    shares = []
    for match in (True, False):
        made = Synthesizer(ClassGauss(match=match, components=1), schema=picture_schema(), budget=EXACT)
        drawn = np.stack(made.fit(frame, seed=1).sample(300, seed=2)["image"])
        shares.append([(drawn == 0).mean(), ((drawn > 0) & (drawn < 190)).mean()])
    assert shares[0][0] == pytest.approx(0.5, abs=0.03)
    assert shares[0][1] < 0.05 < 0.3 < shares[1][1]


def test_draws_agree_with_each_labels_tables():
    frame = make_frame(2000)
    frame["stage"] = np.where(frame["ill"], "III", np.where(frame.index % 10 == 0, "II", "I"))
    drawn = Synthesizer(ClassGauss(), schema=make_schema(), budget=EXACT).fit(frame, seed=1).sample(3000, seed=2)
    for label in (True, False):
        mine = frame[frame["ill"] == label]["stage"].value_counts(normalize=True)
        found = drawn[drawn["ill"] == label]["stage"].astype(str).value_counts(normalize=True)
        for stage in ("I", "II", "III"):
            assert found.get(stage, 0.0) == pytest.approx(mine.get(stage, 0.0), abs=0.04)


def test_principal_axes_say_what_the_matrix_has_along_them():
    """Against the truth that noise hides: what lies along the found axes, and nothing where all is noise."""
    rng = np.random.default_rng(3)
    truth = np.diag(np.array([60.0, 40.0, 25.0] + [0.0] * 197))
    axes, along = principal(noisy(truth, 1.0, rng), 6, 1.0)
    np.testing.assert_allclose(along[:3], np.einsum("ik,ij,jk->k", axes, truth, axes)[:3], rtol=0.08)
    assert along[3:].max() < 4
    exact = principal(truth, 4, 0.0)
    np.testing.assert_allclose(exact[1], [60, 40, 25, 0], atol=1e-9)
    np.testing.assert_allclose(exact[0].T @ exact[0], np.eye(4), atol=1e-12)


def smooth_pictures(rows, side, rng):
    """Vectors of pictures that vary along one smooth pattern, and the pattern."""
    places = np.linspace(-1, 1, side)
    pattern = np.exp(-4 * (np.square(places)[:, None] + np.square(places - 0.3))).ravel()
    pattern /= np.linalg.norm(pattern)
    return rng.standard_normal((rows, 1)) * pattern, pattern


def bands_of(side, channels=1):
    image = {"kind": "image", "height": side, "width": side + 2, "channels": channels}
    kind = {"kind": "categorical", "categories": ["a", "b", "c"]}
    schema = Schema.from_dict({"columns": {"image": image, "kind": kind}})
    return Bands(Vectors(Codec(schema), None))


def test_an_axis_that_noise_hides_is_found_in_its_bands():
    rng, side = np.random.default_rng(4), 20
    image = {"kind": "image", "height": side, "width": side}
    bands = Bands(Vectors(Codec(Schema.from_dict({"columns": {"image": image}})), None))
    rows, pattern = smooth_pictures(4000, side, rng)
    moment = noisy(rows.T @ rows / len(rows), 0.09, rng)  # beyond 1 / sqrt(d / 2) = 0.071 nothing can be found
    plain = principal(moment, 1, 0.09)
    assert (plain[1][0], abs(plain[0][:, 0] @ pattern) < 0.5) == (0, True)
    cleared, noise = bands.moment(moment, 0.09)
    axes, along = principal(cleared, 1, 0.09, noise)
    assert abs(bands.turned(axes.T, idctn)[0] @ pattern) > 0.8
    assert along[0] == pytest.approx(1, abs=0.3)


def test_a_mean_loses_the_noise_of_the_bands_that_hold_nothing_else():
    rng, bands = np.random.default_rng(5), bands_of(20, channels=3)
    mean = np.repeat(np.outer(np.hanning(20), np.hanning(22)).ravel(), 3) - 0.5
    given = mean + 0.4 * rng.standard_normal(len(mean))
    assert np.square(bands.mean(given, 0.4) - mean).mean() < 0.1 * np.square(given - mean).mean()
    nothing = bands.mean(0.4 * rng.standard_normal(len(mean)), 0.4)
    assert np.square(nothing).mean() < 0.1 * 0.4**2


@pytest.mark.parametrize("channels", [1, 3])
def test_bands_take_nothing_away_without_noise(channels):
    rng, bands = np.random.default_rng(6), bands_of(5, channels)
    rows = rng.standard_normal((30, len(bands.of)))
    assert bands.pixels == 5 * 7 * channels
    assert len(bands.of) == bands.pixels + 3
    np.testing.assert_allclose(bands.mean(rows[0, : bands.pixels], 0.0), rows[0, : bands.pixels], atol=1e-12)
    moment, noise = bands.moment(rows.T @ rows, 0.0)
    assert noise == len(bands.of)
    np.testing.assert_allclose(bands.turned(bands.turned(moment, idctn).T, idctn), rows.T @ rows, atol=1e-10)


def test_what_bands_keep_of_noise_alone_is_little():
    """The mean over many matrices: a share of the noise, and not more in one place than `noise` says."""
    rng, bands = np.random.default_rng(7), bands_of(6)
    kept = []
    for _ in range(40):
        moment, noise = bands.moment(noisy(np.zeros((len(bands.of),) * 2), 1.0, rng), 1.0)
        kept.append(np.square(moment).sum() / (len(moment) * (len(moment) + 1) / 2))
        assert noise < len(moment)
    assert np.mean(kept) < 0.1


def test_principal_axes_are_found_where_all_are_equal():
    """The second moment of a category of which each code stands in one record; it ended fits that were charged."""
    for codes in range(64, 130):
        moment = np.zeros((codes + 1, codes + 1))
        moment[:codes, :codes] = np.eye(codes) / codes - 1 / codes**2
        axes, along = principal(moment, 64, 0.0)
        np.testing.assert_allclose(axes.T @ axes, np.eye(64), atol=1e-12)
        np.testing.assert_allclose(along[:63], 1 / codes, atol=1e-12)


@pytest.mark.parametrize("components", [1, 2])
def test_without_noise_the_gaussians_are_the_groups_own(components):
    rng = np.random.default_rng(4)
    samples = [
        rng.standard_normal((4000, 3)) @ rng.standard_normal((3, 3)) + 3 * rng.standard_normal(3) for _ in range(4)
    ]
    means, factors = estimated(moments_of(samples, 0.0, rng), components, np.eye(3), 0.0)
    for sample, mean, factor in zip(samples, means, factors, strict=True):
        np.testing.assert_allclose(mean, sample.mean(0), atol=1e-9)
        np.testing.assert_allclose(factor @ factor.T, np.cov(sample.T, bias=True), atol=0.06)


def test_noise_is_believed_only_as_far_as_it_goes():
    """Five equal groups under noise that hides each one's covariance: the shrunk ones are far nearer than the raw ones."""
    rng = np.random.default_rng(5)
    truth = np.diag([4.0, 2.0, 1.0, 0.5, 0.25, 0.1])
    samples = [rng.standard_normal((1000, 6)) * np.sqrt(np.diag(truth)) for _ in range(5)]
    found = moments_of(samples, 300.0, rng)
    _, factors = estimated(found, 1, noisy(truth, 0.01, rng), 0.01)
    shrunk = np.mean([np.linalg.norm(each @ each.T - truth) for each in factors])
    raw = np.mean([np.linalg.norm(each / 1000 - truth) for each in found.squares])
    assert shrunk < 0.25 * raw
    assert all(np.linalg.eigvalsh(each @ each.T).min() > 0 for each in factors)


def test_pictures_may_have_other_columns_and_no_label():
    schema = Schema.from_dict(
        {
            **picture_schema().to_dict(),
            "targets": [],
            "columns": {**picture_schema().to_dict()["columns"], "age": {"kind": "integer", "bounds": [0, 3]}},
        }
    )
    frame = make_pictures(900)
    frame["age"] = frame["finding"].map({"none": 0, "left": 1, "right": 3})
    drawn = Synthesizer(ClassGauss(components=1), schema=schema, budget=EXACT).fit(frame, seed=1).sample(600, seed=2)
    schema.validate(drawn, "error")
    pixels = np.stack(drawn["image"]).astype(float)
    lead = pixels[:, :, :4].mean((1, 2)) - pixels[:, :, 4:].mean((1, 2))
    assert lead[drawn["age"] == 1].mean() > lead[drawn["age"] == 3].mean() + 100


@pytest.mark.parametrize("spread", [(1.0, 1.0, 1.0, 1.0), (1.0, 1e-3, 1e-2, 0.3)])
def test_categories_are_drawn_as_often_as_their_shares_say(spread):
    """Rare ones hardly vary where many axes are kept: a search by steps of one size let them win all rows or none."""
    rng = np.random.default_rng(5)
    values = rng.normal([0.9, 0.05, 0.04, 0.01], spread, (4000, 4))
    shares = np.array([0.7, 0.2, 0.1, 0.0])
    found = np.bincount((values + class_mixture._offsets(values, shares)).argmax(1), minlength=4) / 4000
    np.testing.assert_allclose(found, shares, atol=0.01)


def test_no_record_s_component_hangs_on_how_many_there_are():
    """Halfway between two means a last bit decides, and a product of more rows is rounded otherwise."""
    codec, rng = Codec(picture_schema()), np.random.default_rng(0)
    vectors, record = Vectors(codec, codec.names.index("finding")), codec.encode(make_pictures(1))
    axes = np.linalg.qr(rng.standard_normal((vectors.width, 20)))[0].T
    found = Basis(vectors, rng.uniform(-0.5, 0.5, vectors.width), axes, np.ones(20), 1.0, 1.0)
    for _ in range(100):
        apart = 0.3 * rng.standard_normal(20)
        centres = np.stack([found.of(record)[0] + apart, found.of(record)[0] - apart])[None].repeat(vectors.labels, 0)
        grouping = one_shot._nearest(found, centres)
        assert len({int(each) for rows in (1, 2, 3, 16, 47, 64) for each in grouping(record.repeat(rows, 0))}) == 1


def test_the_nearest_component_is_the_nearest_one():
    codec, rng = Codec(picture_schema()), np.random.default_rng(1)
    vectors, records = Vectors(codec, codec.names.index("finding")), codec.encode(make_pictures(300))
    axes = np.linalg.qr(rng.standard_normal((vectors.width, 20)))[0].T
    found = Basis(vectors, rng.uniform(-0.5, 0.5, vectors.width), axes, np.ones(20), 1.0, 1.0)
    centres, labels = rng.standard_normal((vectors.labels, 5, 20)) * 1000, vectors.label_of(records)
    expected = np.square(found.of(records)[:, None] - centres[labels]).sum(2).argmin(1)
    assert (one_shot._nearest(found, centres)(records) == labels * 5 + expected).all()


@pytest.mark.heavy
@pytest.mark.parametrize("shape", [(48, 48, 1), (32, 32, 3)])
def test_larger_pictures_and_colour_keep_their_classes(shape):
    """Made-up pictures whose bright half is where their label says: more than half of the difference is there, in each colour."""
    height, width, channels = shape
    rng = np.random.default_rng(0)
    left = rng.random(2000) < 0.5
    bright = left[:, None, None, None] == (np.arange(width) < width // 2)[None, None, :, None]
    shade = np.array([1.0, 0.6, 0.3])[:channels]
    pixels = (np.where(bright, 180, 60) + rng.normal(0, 20, (2000, height, width, 1))) * shade
    pixels = np.clip(pixels, 0, 255).astype(np.uint8)
    frame = pd.DataFrame({"image": list(pixels if channels == 3 else pixels[..., 0]), "left": left})
    picture = {"kind": "image", "height": height, "width": width, "channels": channels}
    columns = {"image": picture, "left": {"kind": "boolean"}}
    schema = Schema.from_dict({"declared_by": "the tests", "units": 2000, "targets": ["left"], "columns": columns})
    made = Synthesizer("classgauss", schema=schema, budget=Budget(3.0, 1e-5)).fit(frame, seed=0).sample(200, seed=0)
    drawn = np.stack(made["image"]).astype(float).reshape(200, height, width, channels)
    halves = drawn[:, :, : width // 2].mean((1, 2)) - drawn[:, :, width // 2 :].mean((1, 2))
    told = made["left"].to_numpy(bool)
    for channel, share in enumerate(shade):
        assert halves[told, channel].mean() > 60 * share  # of 120
        assert halves[~told, channel].mean() < -60 * share
