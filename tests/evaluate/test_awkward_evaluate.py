"""Whatever the tables: a result of finite numbers with reasons for what is absent; never NaN, never a crash."""

import json

import numpy as np
import pandas as pd
import pytest
from patients import make_frame, make_schema
from sweeps import sweep

from synthdp.evaluate import evaluate, write

FULL = make_frame(80, 3)
BLANK = FULL.assign(**{name: None for name in FULL.columns if name != "patient"})
CONSTANT = FULL.assign(age=7, site="north", stage="I", smoker=True, ill="no", seen=pd.Timestamp("2020-02-02"))
TABLES = {
    "no rows": FULL.head(0),
    "one row": FULL.head(1),
    "constant": CONSTANT.assign(**{"weight $kg$": np.nan}),
    "all missing": BLANK,
    "one class": FULL.assign(ill="yes"),
    "one class but for a row": FULL.assign(ill=["no"] + ["yes"] * 79, stage=["III"] + ["I"] * 79),
}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "role"),
    sweep(
        [(name, role) for name in sorted(TABLES) for role in ("synthetic", "train", "test")],
        lambda case: case[0] == "no rows" or case == ("all missing", "synthetic"),
    ),
)
def test_a_result_or_a_reason(name, role, tmp_path):
    frames = {"synthetic": FULL, "train": make_frame(80, 1), "test": make_frame(80, 2)} | {role: TABLES[name]}
    found = evaluate(
        **frames,
        schema=make_schema(("ill", "age", "stage")),
        models=["lr"],
        seeds=1,
        bootstrap=50,
        subgroups=["smoker", "age"],
        jobs=1,
    )
    json.dumps(found, allow_nan=False)
    judged = set(found["targets"]) | {
        item["metric"].split(".")[1] for item in found["not_computed"] if "." in item["metric"]
    }
    assert {"ill", "age", "stage"} <= judged
    assert all(item["reason"] for item in found["not_computed"])
    write(found, tmp_path)
