"""A small problem that is easy to learn: the class follows two numbers; and one with three classes."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from synthdp import Budget, Schema
from synthdp.pate import PATE

BUDGET = Budget(epsilon=4.0, delta=1e-5)


def problem_schema(classes=("no", "yes"), **changes):
    values = {
        "name": "problem",
        "declared_by": "the tests",
        "units": 3000,
        "targets": ["group"],
        "columns": {
            "x": {"kind": "continuous", "bounds": [-1, 1], "bins": 20},
            "y": {"kind": "continuous", "bounds": [-1, 1], "bins": 20},
            "side": {"kind": "categorical", "categories": ["left", "right"]},
            "group": {"kind": "categorical", "categories": list(classes)},
        },
    }
    columns = changes.pop("columns", {})
    values.update(changes)
    values["columns"].update(columns)
    return Schema.from_dict(values)


def problem(rows, seed, classes=("no", "yes")):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-1, 1, (2, rows))
    place = np.clip(((x + y + 2) / 4 * len(classes)).astype(int), 0, len(classes) - 1)
    side = np.where(rng.random(rows) < 0.5, "right", "left")
    return pd.DataFrame({"x": x, "y": y, "side": side, "group": np.array(classes)[place]})


def without_labels(frame):
    return frame.drop(columns="group")


def fitted(frame=None, schema=None, public=None, budget=BUDGET, seed=3, **settings):
    fit = {name: settings.pop(name) for name in ("ledger", "progress", "recorder", "account") if name in settings}
    chosen = {
        "teachers": 100,
        "teacher": LogisticRegression(C=10),
        "queries": 60,
        "student": LogisticRegression(),
        **settings,
    }
    return PATE(**chosen).fit(
        problem(3000, 0) if frame is None else frame,
        schema=schema or problem_schema(),
        target="group",
        public=without_labels(problem(300, 1)) if public is None else public,
        budget=budget,
        seed=seed,
        **fit,
    )


def accuracy(made, classes=("no", "yes")):
    test = problem(1000, 2, classes)
    return float((made.predict(test) == test["group"].to_numpy()).mean())
