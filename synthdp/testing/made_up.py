"""What synthdp's own generators are checked on: made-up records, and settings so small that a fit takes a second or less.

The records are a small table with every kind of column, and small pictures in three classes.
"""

from typing import Any

import numpy as np
import pandas as pd

from synthdp.schema.schema import Schema

SIDE = 8  # of a picture
# Of tables, of histories and of images. "name:mode" is a generator at other settings that deserve the whole suite.
SMALL: dict[str, dict[str, dict[str, Any]]] = {
    "table": {
        "aim": {"rounds": 4, "iterations": 30, "last": 100},
        "dpgan": {"start": "label", "steps": 30, "batch": 64, "hidden": (32,)},
        "dpgan:mixture": {"start": "mixture", "steps": 30, "batch": 64, "hidden": (32,)},
        "dpmerf": {"features": 100, "steps": 20, "batch": 50, "hidden": (32,)},
        "imle": {"rounds": 4, "generated": 10, "steps": 10, "hidden": (32,)},
        "kernel_teachers": {"steps": 40, "queries": 60, "teachers": 8, "hidden": (32,), "fake_batch": 64},
        "mixture": {"iterations": 40, "starts": 2, "components": 40, "cells": 200},
        "mst": {"iterations": 300},
        "pategan": {"steps": 40, "queries": 60, "teachers": 8, "hidden": (32,), "units": 30, "fake_batch": 64},
        "pategan_original": {"rounds": 2, "student_steps": 12, "queries": 16, "teachers": 16, "hidden": (16,)},
        "privbayes": {"degree": 1},
        "rongauss": {"dimensions": 20, "agreement_rows": 400},
    },
    "histories": {"histories": {"rounds": 1, "iterations": 10, "pairs": 2}},
    "images": {
        "classgauss": {"dimensions": 20},
        "classgauss:aligned": {"dimensions": 20, "align": True},
        "dpdm": {
            "steps": 6,
            "rate": 1.0,
            "multiplicity": 2,
            "hidden": 16,
            "depth": 1,
            "dimensions": 10,
            "sampler_steps": 6,
        },
        "dpdm:unet": {
            "architecture": "unet",
            "rate": 1.0,
            "steps": 2,
            "multiplicity": 1,
            "hidden": 4,
            "depth": 2,
            "dimensions": 10,
            "sampler_steps": 6,
        },
        "dpdm:none": {
            "start": "none",
            "rate": 1.0,
            "steps": 80,
            "multiplicity": 4,
            "hidden": 64,
            "depth": 1,
            "learning_rate": 1e-2,
            "average": 0.9,
            "sampler_steps": 10,
        },
        "dpgan_images": {"steps": 20, "batch": 64, "hidden": (16,), "fake_batch": 64},
        "dpgan_images:conv": {"architecture": "conv", "steps": 10, "batch": 64, "channels": (4, 8), "fake_batch": 32},
        "dpgan_images:mlp": {"architecture": "mlp", "steps": 20, "batch": 64, "hidden": (16,), "fake_batch": 64},
        "dpmerf": {"features": 200, "steps": 60, "batch": 60, "hidden": (32,)},
        "kernel_teachers_images": {"steps": 20, "queries": 60, "teachers": 8, "hidden": (16,), "fake_batch": 64},
    },
}


ORDERED: dict[str, Any] = {
    "unit": "patient",
    "order": "seen",
    "per_unit": ["sex"],
    "max_records_per_unit": 2,
}  # of histories


def make_schema(**changes: Any) -> Schema:
    """Every kind of column, fully declared; `changes` are top-level keys, or columns under `columns`."""
    values: dict[str, Any] = {
        "name": "clinic",
        "declared_by": "the tests",
        "max_records_per_unit": 1,
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


def make_frame(rows: int, seed: int = 0, repeats: int = 1) -> pd.DataFrame:
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
            "patient": pd.Series([f"p{row // repeats}" for row in range(rows)], dtype="str"),
            "age": age,
            "sex": rng.choice(["female", "male"], rows),
            "stage": stage,
            "dose": dose,
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), unit="D"),
            "ill": ill,
        }
    )


def picture_schema(**changes: Any) -> Schema:
    """Small pictures in three classes, of patients who may have several."""
    values = {
        "name": "ward",
        "declared_by": "the tests",
        "max_records_per_unit": 1,
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


def make_pictures(rows: int, seed: int = 0, repeats: int = 1) -> pd.DataFrame:
    """Noise with a bright half on the left, on the right, or none; a patient holds `repeats` of them."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 3, rows)
    pictures = rng.integers(0, 60, (rows, SIDE, SIDE))
    pictures[found == 1, :, : SIDE // 2] += 150
    pictures[found == 2, :, SIDE // 2 :] += 150
    return pd.DataFrame(
        {
            "patient": [f"p{row // repeats}" for row in range(rows)],
            "image": cells_of(list(pictures.astype(np.uint8))),
            "finding": np.array(["none", "left", "right"])[found],
        }
    )


def cells_of(values: list[Any]) -> "pd.Series[Any]":
    """A column of arrays, or of what else a cell may hold."""
    return pd.Series(values, dtype=object)
