"""Pictures moved to one frame and back: what moves, what stays, and that each picture is told from itself alone."""

import math

import numpy as np
import pandas as pd
import pytest
from clinic import make_pictures, make_schema, picture_schema
from sweeps import heavy

from synthdp import BadInput, Budget, Schema, Synthesizer, load
from synthdp.generators.classgauss import LEAST_SIDE, ClassGauss
from synthdp.generators.parts.aligned_pictures import (
    FRAME,
    HIGHEST,
    LOWEST,
    SMALLEST,
    Alignment,
    frames,
    nearest_standard,
)
from synthdp.generators.parts.record_vectors import Vectors
from synthdp.schema.codec import Codec

SIDE = 28
EXACT = Budget(math.inf, 1e-5)


def strokes(rows, seed=0, height=SIDE, width=SIDE, channels=1, slants=(-0.5, 0.5)):
    """Bright ellipses on black, of all places, slants and sizes; their slants."""
    rng = np.random.default_rng(seed)

    def between(low, high):
        return rng.uniform(low, high, (rows, 1, 1))

    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    slant = between(*slants)
    y = y - between(-0.15, 0.15)
    x = x - between(-0.15, 0.15) - slant * y
    inside = 1 / (1 + np.exp(8 * (np.square(y / between(0.4, 0.6)) + np.square(x / between(0.25, 0.4)) - 1)))
    colours = rng.uniform(0.5, 1, (rows, 1, 1, channels))
    return np.rint(255 * inside[..., None] * colours).astype(np.uint8), slant.ravel()


def alignment_of(pictures):
    return Alignment(pictures.shape[1:], nearest_standard(frames(pictures).mean(0)))


def vectors_of(side, standard):
    schema = Schema.from_dict(
        {
            "columns": {
                "image": {"kind": "image", "height": side, "width": side},
                "kind": {"kind": "categorical", "categories": ["a", "b"]},
            },
            "targets": ["kind"],
        }
    )
    return Vectors(Codec(schema), 1, standard)


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 20, 3)])
def test_moved_pictures_have_the_standard_frame(shape):
    pictures, slant = strokes(200, height=shape[0], width=shape[1], channels=shape[2])
    own = alignment_of(pictures)
    assert np.corrcoef(frames(pictures)[:, 2], slant)[0, 1] > 0.98
    before, after = frames(pictures), frames(own.aligned(pictures, own.entries(pictures)))
    assert (np.abs(after - own.standard).mean(0) < 0.25 * before.std(0)).all()


def test_moving_back_gives_the_picture_again():
    pictures, _ = strokes(200)
    own = alignment_of(pictures)
    entries = own.entries(pictures)
    moved = own.aligned(pictures, entries)
    back = own.moved(moved, entries)
    apart = np.abs(back.astype(float) - pictures).mean()
    assert apart < 2 < 5 < np.abs(moved.astype(float) - pictures).mean()


@pytest.mark.parametrize("shape", [(28, 28, 1), (17, 13, 3)])
def test_a_picture_is_told_from_itself_alone_bit_by_bit(shape):
    """Whatever else is in its batch, wherever it stands there (law 12)."""
    rng = np.random.default_rng(1)
    pictures = np.concatenate(
        [
            strokes(70, 2, *shape)[0],
            rng.integers(0, 256, (70, *shape)).astype(np.uint8),
            np.zeros((3, *shape), np.uint8),
        ]
    )
    own = alignment_of(pictures)
    entries, moved = own.entries(pictures), own.aligned(pictures, own.entries(pictures))
    for place in range(len(pictures)):
        alone = pictures[place : place + 1]
        assert np.array_equal(own.entries(alone), entries[place : place + 1])
        assert np.array_equal(own.aligned(alone, entries[place : place + 1]), moved[place : place + 1])
    order = rng.permutation(len(pictures))
    assert np.array_equal(own.aligned(pictures[order], own.entries(pictures[order])), moved[order])


@pytest.mark.parametrize("grey", [0, 77, 255])
def test_a_picture_of_one_grey_stays_what_it_is(grey):
    picture = np.full((1, 20, 20, 1), grey, np.uint8)
    own = alignment_of(strokes(50, height=20, width=20)[0])
    assert np.array_equal(own.aligned(picture, own.entries(picture)), picture)


def test_dark_ink_on_white_is_told_as_bright_ink_on_black():
    pictures, _ = strokes(100)
    assert np.array_equal(frames(pictures), frames(255 - pictures))


@pytest.mark.parametrize("side", [2, 12, 28])
@pytest.mark.parametrize("kind", ["noise", "white", "corner", "strokes"])
def test_no_vector_is_longer_than_its_bound(side, kind):
    rng = np.random.default_rng(0)
    codes = np.zeros((50, side * side + 1), np.uint8)
    pixels = {
        "noise": rng.integers(0, 256, (50, side * side)),
        "white": np.full((50, side * side), 255),
        "corner": 255 * (np.arange(side * side) == 0) * np.ones((50, 1)),
        "strokes": strokes(50, height=side, width=side)[0].reshape(50, -1),
    }[kind]
    for standard in (LOWEST, HIGHEST, np.zeros(FRAME)):
        vectors = vectors_of(side, nearest_standard(standard))
        codes[:, vectors.image] = pixels
        rows = vectors.of(codes)
        assert rows.shape == (50, vectors.width)
        assert (np.linalg.norm(rows, axis=1) <= vectors.bound).all()
        assert (rows[:, -FRAME:] >= 0).all()
        assert (rows[:, -FRAME:] <= vectors.scale).all()


@pytest.mark.parametrize("side", [LEAST_SIDE - 1, LEAST_SIDE])
def test_the_default_follows_from_the_number_of_pixels(side):
    schema = Schema.from_dict({"columns": {"image": {"kind": "image", "height": side, "width": side}}})
    assert ClassGauss().aligns(schema) == (side >= LEAST_SIDE)
    assert ClassGauss(align=True).aligns(schema)
    assert not ClassGauss(align=False).aligns(schema)


def test_what_moves_pictures_is_refused_for_a_table():
    with pytest.raises(BadInput, match=r"generator\.align moves pictures"):
        ClassGauss(align=True).validate(make_schema(), EXACT)


def pictures_frame(pictures, kind="a"):
    frame = pd.DataFrame({"kind": [kind] * len(pictures)})
    frame["image"] = pd.Series(list(pictures if pictures.shape[3] > 1 else pictures[..., 0]), dtype=object)
    return frame


def schema_of(side, channels):
    return Schema.from_dict(
        {
            "declared_by": "tests",
            "units": 1500,
            "columns": {
                "image": {"kind": "image", "height": side, "width": side, "channels": channels},
                "kind": {"kind": "categorical", "categories": ["a", "b"]},
            },
            "targets": ["kind"],
        }
    )


@pytest.mark.parametrize(("side", "channels"), [heavy((28, 1)), (20, 3), heavy((48, 1))])
def test_draws_lean_as_each_class_does(side, channels, tmp_path):
    """One class leans to the left and one to the right, in grey and in colour; a saved release draws the same."""
    rows = 1500 if side == 28 else 300
    left = strokes(rows, 3, side, side, channels, (-0.7, -0.2))[0]
    right = strokes(rows, 4, side, side, channels, (0.2, 0.7))[0]
    frame = pd.concat([pictures_frame(left, "a"), pictures_frame(right, "b")], ignore_index=True)
    made = Synthesizer(ClassGauss(dimensions=24, components=1), schema=schema_of(side, channels), budget=EXACT)
    release = made.fit(frame, seed=1)
    drawn = release.sample(300, seed=2)
    release.save(tmp_path / "release")
    again = load(tmp_path / "release").sample(300, seed=2)
    told = frames(np.stack(drawn["image"]).reshape(300, side, side, channels))[:, 2]
    for kind, low, high in (("a", -0.6, -0.3), ("b", 0.3, 0.6)):
        assert low < np.median(told[(drawn["kind"] == kind).to_numpy()]) < high
    assert all(np.array_equal(one, other) for one, other in zip(drawn["image"], again["image"], strict=True))


@pytest.mark.parametrize(
    "standard",
    [np.full(FRAME, np.nan), np.zeros(FRAME + 1), np.zeros((FRAME, 1)), np.zeros(FRAME), np.full(FRAME, 9.0)],
)
def test_an_altered_standard_is_refused_or_brought_into_its_range(standard):
    frame, schema = make_pictures(300), picture_schema()
    generator = ClassGauss(align=True, components=1)
    tensors = dict(Synthesizer(generator, schema=schema, budget=EXACT).fit(frame, seed=1).model.tensors())
    tensors["standard"] = standard
    if standard.shape != (FRAME,) or not np.isfinite(standard).all():
        with pytest.raises(BadInput):
            generator.restore(schema, tensors)
    else:
        alignment = generator.restore(schema, tensors).vectors.alignment
        assert (alignment.standard[3:] >= SMALLEST).all()
        assert (alignment.standard <= HIGHEST).all()


@pytest.mark.parametrize(("fitted", "told"), [(True, False), (True, None), (False, True), (None, True)])
def test_a_release_that_says_otherwise_whether_its_pictures_were_moved_is_refused(fitted, told):
    """By default pictures of 8 x 8 are not."""
    frame, schema = make_pictures(100), picture_schema()
    made = Synthesizer(ClassGauss(align=fitted, components=1), schema=schema, budget=EXACT).fit(frame, seed=1)
    with pytest.raises(BadInput, match="whether pictures are moved"):
        ClassGauss(align=told, components=1).restore(schema, made.model.tensors())
