"""Worst-case pairs: for each generator two neighbouring tables, and settings, at which its model reveals most about one record.

They were found by trial. Where counts are so large that the noise does not cut them off at zero, a model follows the noisy answers
smoothly. A record whose vector is as long as the clip allows moves them most. Few and small columns leave few places for the
difference to hide. Any settings will do, since the claim holds for all of them.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from synthdp import generators
from synthdp.generators import Generator
from synthdp.generators.parts.setting_checks import changed
from synthdp.schema.schema import Schema

SIDE = 2


Frames = pd.DataFrame | Mapping[str, pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two frames, or two sets of linked tables, under one schema; one of them holds one more unit."""

    schema: Schema
    without: Frames
    with_: Frames


def booleans(*counts: tuple[Sequence[int], int]) -> Pair:
    """Records of boolean columns with their numbers; one side of the pair holds one more of the last record."""
    names = [f"x{place}" for place in range(len(counts[0][0]))]
    units = sum(count for _, count in counts)
    schema = Schema.from_dict({"units": units, "columns": {name: {"kind": "boolean"} for name in names}})
    rows = np.concatenate([np.tile(np.array(codes, np.bool_), (count, 1)) for codes, count in counts])
    with_ = pd.DataFrame(np.vstack([rows, np.array([counts[-1][0]], np.bool_)]), columns=names)
    return Pair(schema=schema, without=with_.iloc[:-1].reset_index(drop=True), with_=with_)


def pictures(units: int, greys: tuple[int, int]) -> Pair:
    """Small pictures of grey values at random within [low, high); the pair differs in one that is white."""
    schema = Schema.from_dict({"units": units, "columns": {"image": {"kind": "image", "height": SIDE, "width": SIDE}}})
    rng = np.random.default_rng(1)
    grey = rng.integers(*greys, (units, SIDE, SIDE)).astype(np.uint8)
    with_ = pd.DataFrame({"image": pd.Series([*grey, np.full((SIDE, SIDE), 255, np.uint8)], dtype=object)})
    return Pair(schema=schema, without=with_.iloc[:-1].reset_index(drop=True), with_=with_)


def worst_case() -> Pair:
    """Law 27's pair: D = 4 x (0, 0, 0) against D + (1, 1, 1). Most of the noise is then cut off at zero."""
    return booleans(((0, 0, 0), 4), ((1, 1, 1), 0))


def rare() -> Pair:
    """400 x (0, 0, 0) and 40 x (1, 1, 1) against one (1, 1, 1) more: counts that the noise leaves above zero, and a total that hardly
    varies, so that shares keep almost all that the noisy counts say.
    """
    return booleans(((0, 0, 0), 400), ((1, 1, 1), 40))


MOST = 8  # visits of a person that count in `linked`; a long history has twice as many


def linked() -> Pair:
    """60 people with a visit each and 12 with long histories, against one more, whose history is as extreme as the schema lets it be:
    as long as theirs, and alone in that every visit was missed and has rows of a code of its own, twice as many as count.
    """
    tables = {
        "person": {"key": "who", "columns": {"often": {"kind": "boolean"}}},
        "visit": {
            "parent": "person",
            "key": "visit",
            "order": "turn",
            "max_rows": MOST,
            "columns": {
                "turn": {"kind": "integer", "bounds": [0, 2 * MOST - 1], "bins": 1},
                "missed": {"kind": "boolean"},
            },
        },
        "row": {
            "parent": "visit",
            "max_rows": 2,
            "columns": {"code": {"kind": "categorical", "categories": ["a", "b"]}},
        },
    }
    histories = (
        [(1, 1, False)] * 60 + [(2 * MOST, 1, False)] * 12 + [(2 * MOST, 4, True)]
    )  # visits, rows of each, missed
    with_, without = (
        {
            "person": pd.DataFrame([(f"p{who}", visits > 1) for who, (visits, _, _) in held], columns=["who", "often"]),
            "visit": pd.DataFrame(
                [
                    (f"p{who}", f"v{who}.{turn}", turn, missed)
                    for who, (visits, _, missed) in held
                    for turn in range(visits)
                ],
                columns=["who", "visit", "turn", "missed"],
            ),
            "row": pd.DataFrame(
                [
                    (f"v{who}.{turn}", "b" if missed else "a")
                    for who, (visits, rows, missed) in held
                    for turn in range(visits)
                    for _ in range(rows)
                ],
                columns=["visit", "code"],
            ),
        }
        for held in (list(enumerate(histories)), list(enumerate(histories))[:-1])
    )
    schema = Schema.from_dict({"unit": "who", "units": len(histories) - 1, "tables": tables})
    return Pair(schema=schema, without=without, with_=with_)


PAIRS = {"worst_case": worst_case, "rare": rare, "linked": linked}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A pair, and settings beside its `SMALL` ones, at which it reveals much. `slow`: a fit takes 0.1 s or more."""

    pair: Callable[[], Pair] = rare
    settings: Mapping[str, Any] = field(default_factory=dict)
    slow: bool = False


_single = partial(booleans, ((0,), 4000), ((1,), 100))  # one column
_second = partial(booleans, ((0, 1), 4000), ((1, 1), 100))  # two columns; only the first tells records apart
_few = partial(booleans, ((0,), 4), ((1,), 0))  # the noise of a gradient moves the weights as far as they are apart
_rarest = partial(
    booleans, ((1,), 2), ((0,), 0)
)  # the last record's teacher has hardly another, and says what that makes it say
_pictures = partial(pictures, 1000, (60, 196))  # enough of them, and different ones, that principal axes stand still
_few_pictures = partial(pictures, 4, (0, 1))  # as `_few`, and black


def _histories() -> Pair:
    """Two records of each patient, alike."""
    one = booleans(((0,), 2000), ((1,), 100))
    schema = one.schema.to_dict() | {"unit": "who", "max_records_per_unit": 2, "order": "turn"}
    schema["columns"] |= {"who": {"kind": "identifier"}, "turn": {"kind": "integer", "bounds": [0, 1]}}

    def twice(frame: Any) -> Frames:
        named = frame.assign(who=[f"p{place}" for place in range(len(frame))])
        both: Frames = pd.concat([named.assign(turn=turn) for turn in (0, 1)], ignore_index=True)
        return both

    return Pair(schema=Schema.from_dict(schema), without=twice(one.without), with_=twice(one.with_))


TINY = {"hidden": (4,), "latent": 2, "fake_batch": 8}
GRADIENTS = {"start": "none", "rate": 1.0, "steps": 1, "optimizer": "sgd", "discriminator_rate": 0.3, "fake_batch": 32}
# Half of the precision: at so much noise the start has one Gaussian a class.
TOUCHING = {"hidden": (4,), "fake_batch": 8, "tables": 0.5}
# The generator that leaves is the last one, and is not drawn towards where it began.
DECIDING = {"average": 0.0, "fake_batch": 64}
# Teachers who learn what few records say; with one query the label that they give decides which of two models leaves.
# After the ten steps that are the default, one record changed no label that an attack saw.
QUICK = {"teacher_rate": 0.3, "teacher_batch": 8, "teacher_steps": 3, "teacher_hidden": ()}
DIFFUSING = {"rate": 1.0, "multiplicity": 1, "depth": 1, "sampler_steps": 2}

# Settings at which thousands of fits to a table are cheap.
SMALL: dict[str, dict[str, Any]] = {
    "classgauss": {"agreement_rows": 40},
    "dpgan": {
        "start": "label",
        "steps": 2,
        "rate": 0.5,
        "hidden": (4,),
        "latent": 2,
        "generator_every": 1,
        "fake_batch": 8,
    },
    "dpmerf": {"features": 8, "steps": 3, "batch": 8, "hidden": (4,), "latent": 2},
    "imle": {"rounds": 1, "generated": 4, "steps": 3, "hidden": (4,), "latent": 2},
    "independent": {},
    "kernel_teachers": {"steps": 2, "queries": 8, "rounds": 1, "teachers": 2, **TINY},
    "mixture": {"iterations": 3, "starts": 1, "components": 4, "least": 0.0, "cells": 0},  # models of one shape
    "pategan": {"start": "label", "steps": 2, "queries": 8, "rounds": 1, "teachers": 2, "units": 2, **TINY},
    "pategan_original": {"queries": 8, "student_steps": 1, "rounds": 1, "teachers": 2, **TINY},
    "privbayes": {"degree": 1, "least": 0.0, "usefulness": 0.0},  # models of one shape
    "rongauss": {"agreement_rows": 40},
}

# Generators for which a better pair than the default is known. "name:what" is a generator at other settings that deserve their own audit.
TABLES = {
    "aim": Case(pair=_second, settings={"rounds": 2, "iterations": 30, "last": 100, "least": 0.0}),
    "classgauss": Case(pair=_single, settings={"match": False}),
    "dpgan": Case(settings={"rate": 1.0}),
    "dpgan:gradients": Case(pair=_few, settings=GRADIENTS),
    "dpmerf": Case(pair=_single, settings={"hidden": (16,)}),
    "histories": Case(pair=_histories, settings={"rounds": 1, "iterations": 20}),
    "histories:linked": Case(
        pair=linked, settings={"rounds": 1, "iterations": 5, "clip": float(MOST), "unit_share": 0.44, "row_share": 0.5}
    ),
    "imle": Case(pair=_single, settings={"generated": 2, "learning_rate": 0.5}),
    "kernel_teachers": Case(pair=_single),
    "kernel_teachers:votes": Case(
        pair=_rarest, settings={"start": "none", **DECIDING, "steps": 24, "queries": 16, "teachers": 1}
    ),
    "mixture": Case(pair=_second, settings={"iterations": 50}),
    "mst": Case(pair=_second, settings={"iterations": 300, "least": 0.0}),
    "pategan": Case(pair=_single),
    "pategan_original": Case(pair=_rarest, settings={**DECIDING, **QUICK, "queries": 1}),
    "privbayes": Case(pair=_second),
    "rongauss": Case(pair=_single),
}
IMAGES = {
    "classgauss": Case(pair=_pictures, settings={"components": 1, "match": False}),
    "dpdm": Case(pair=_pictures, settings={**DIFFUSING, "steps": 2, "hidden": 4}),
    "dpdm:gradients": Case(
        pair=_few_pictures,
        settings={**DIFFUSING, "start": "none", "steps": 8, "hidden": 1, "learning_rate": 1.0, "average": 0.0},
    ),
    "dpdm:unet": Case(
        pair=_few_pictures,
        settings={**DIFFUSING, "start": "none", "architecture": "unet", "steps": 2, "hidden": 2, "average": 0.0},
    ),
    "dpgan_images": Case(pair=_pictures, settings={**TOUCHING, "steps": 2, "rate": 1.0, "generator_every": 1}),
    "dpmerf": Case(pair=_pictures, settings={"features": 8, "steps": 3, "batch": 8, "hidden": (4,), "latent": 2}),
    "kernel_teachers_images": Case(
        pair=_pictures, settings={**TOUCHING, "steps": 2, "queries": 8, "teachers": 2}, slow=True
    ),
}


def cases(*, images: bool = False) -> dict[str, Case]:
    """Every generator of tables, or of images, with its case; the default is a pair about which most models reveal something."""
    kind, known, other = (
        (generators.IMAGES, IMAGES, Case(pair=_pictures)) if images else (generators.TABLE, TABLES, Case())
    )
    return {**{name: known.get(name, other) for name in generators.able(lambda traits: kind in traits.kinds)}, **known}


def made(name: str, *, images: bool = False) -> Generator:
    """The generator behind a name of `cases`, at the settings that it is audited at."""
    name, case = name.partition(":")[0], cases(images=images)[name]
    return generators.make(name, {**({} if images else SMALL.get(name, {})), **case.settings})


def case_of(generator: Generator, pair: str = "own") -> Case:
    """The case of a generator, of tables where it learns them; on the pair of that name, if one is known for it."""
    known = cases()
    return known.get(f"{generator.name}:{pair}") or known.get(generator.name) or cases(images=True)[generator.name]


def small(generator: Generator, pair: str = "own") -> Generator:
    """The generator with its `SMALL` settings and those of its case wherever a setting is at its default: what makes thousands of
    fits cheap."""
    chosen = {**SMALL.get(generator.name, {}), **case_of(generator, pair).settings}
    for name in changed(generator, chosen):
        chosen.pop(name)
    return dataclasses.replace(generator, **chosen)  # type: ignore[type-var]
