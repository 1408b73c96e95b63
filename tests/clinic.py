"""A small table with every kind of column, and its schema."""

import functools

import numpy as np
import pandas as pd

from synthdp import Schema, generators
from synthdp.report import manifest


def contracts(data="table"):
    """Every generator of tables, or of images, and every further mode of one (`contract_modes`) as "name:mode"."""
    found = []
    for name in generators.names():
        kind = generators.find(name)
        modes = getattr(kind, "contract_modes" if data == "table" else "contract_modes_images", {})
        if data in getattr(kind, "data_kinds", ("table",)):
            found += [name, *(f"{name}:{mode}" for mode in modes)]
    return found


@functools.cache  # entry points are looked up on disk
def kind_of(name):
    """The settings class behind a name of `contracts`."""
    return generators.find(name.partition(":")[0])


def quick(name, data="table", **settings):
    """The generator with the settings that its author gives for tests of the contract."""
    kind, mode = kind_of(name), name.partition(":")[2]
    ending = "" if data == "table" else "_images"
    modes = getattr(kind, f"contract_modes{ending}", {})
    chosen = modes[mode] if mode else getattr(kind, f"contract_settings{ending}", {})
    return kind(**{**chosen, **settings})


class Opened(Exception):
    """The records were looked at."""


class Untouchable(pd.DataFrame):
    """Stands for records that nobody has a reason to look at yet."""

    def __getattribute__(self, name):
        if name == "__class__":  # what it is may be asked
            return Untouchable
        raise Opened(name)


def untouched():
    """A frame that raises `Opened` when it is looked at."""
    return Untouchable.__new__(Untouchable)


def make_schema(**changes):
    """Every kind of column, fully declared; `changes` are top-level keys, or columns under `columns`."""
    values = {
        "name": "clinic",
        "declared_by": "the tests",
        "units": 400,
        "targets": ["ill"],
        "columns": {
            "patient": {"kind": "identifier"},
            "age": {"kind": "integer", "bounds": [0, 99], "bins": [20, 40, 60, 80]},
            "sex": {"kind": "categorical", "categories": ["female", "male"]},
            "stage": {"kind": "ordinal", "categories": ["I", "II", "III"], "missing": True},
            "dose": {"kind": "continuous", "bounds": [0, 10], "bins": 4, "atoms": [0], "missing": True},
            "seen": {"kind": "datetime", "bounds": ["2020-01-01", "2020-12-31"], "bins": 6},
            "ill": {"kind": "boolean"},
        },
    }
    columns = changes.pop("columns", {})
    values.update(changes)
    values["columns"].update(columns)
    return Schema.from_dict(values)


def make_frame(rows, seed=0, repeats=1):
    """`rows` records in which age, dose and ill hang together; a patient holds `repeats` of them."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    ill = rng.random(rows) < age / 120
    dose = np.where(ill, rng.uniform(0, 10, rows), 0.0)
    dose[rng.random(rows) < 0.1] = np.nan
    stage = pd.Series(rng.choice(["I", "II", "III"], rows), dtype="str")
    stage[rng.random(rows) < 0.2] = None
    return pd.DataFrame(
        {
            "patient": [f"p{row // repeats}" for row in range(rows)],
            "age": age,
            "sex": rng.choice(["female", "male"], rows),
            "stage": stage,
            "dose": dose,
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), unit="D"),
            "ill": ill,
        }
    )


def booleans(what, rows, seed=0):
    """A schema and a frame of two "equal" columns, or of "three", two of which agree in nine rows of ten."""
    rng = np.random.default_rng(seed)
    first = rng.random(rows) < (0.5 if what == "equal" else 0.8)
    columns = {"a": first, "b": first}
    if what == "three":
        columns = {"a": first, "b": np.where(rng.random(rows) < 0.9, first, ~first), "c": rng.random(rows) < 0.3}
    declared = {"units": rows, "declared_by": "the tests", "columns": {name: {"kind": "boolean"} for name in columns}}
    return Schema.from_dict(declared), pd.DataFrame(columns)


def reseal(folder):
    """The manifest of a release made anew, as a forger makes it; a signature stays what it was."""
    manifest.write(folder)


SIDE = 8


def picture_schema(**changes):
    """Small pictures in three classes, of patients who may have several."""
    values = {
        "name": "ward",
        "declared_by": "the tests",
        "units": 300,
        "targets": ["finding"],
        "columns": {
            "patient": {"kind": "identifier"},
            "image": {"kind": "image", "height": SIDE, "width": SIDE},
            "finding": {"kind": "categorical", "categories": ["none", "left", "right"]},
        },
        **changes,
    }
    return Schema.from_dict(values)


def make_pictures(rows, seed=0, repeats=1):
    """Noise with a bright half on the left, on the right, or none; a patient holds `repeats` of them."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 3, rows)
    pictures = rng.integers(0, 60, (rows, SIDE, SIDE))
    pictures[found == 1, :, : SIDE // 2] += 150
    pictures[found == 2, :, SIDE // 2 :] += 150
    return pd.DataFrame(
        {
            "patient": [f"p{row // repeats}" for row in range(rows)],
            "image": pd.Series(list(pictures.astype(np.uint8)), dtype=object),
            "finding": np.array(["none", "left", "right"])[found],
        }
    )
