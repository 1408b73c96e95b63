"""A made-up hospital: stays of patients whose dynamics are known, so that what a generator keeps and loses can be told from the truth.

Every patient has a frailty that no column holds. A stay is urgent in winter more often than in summer, and lasts the longer the older
and the frailer its patient; `readmitted` (within 30 days) depends on the last two stays, on an open wound at the last one and on
frailty; a patient once found diabetic stays so, and is put on insulin a few stays later.
"""

from typing import Any

import numpy as np
import pandas as pd

from synthdp import Schema

DAYS = 1096  # from 2021 to 2023
WARDS = ("surgery", "medicine", "cardiology", "geriatrics")
DECLARED: dict[str, Any] = {
    "name": "made_up_hospital",
    "declared_by": "recipes/made_up_hospital.py",
    "unit": "patient",
    "max_records_per_unit": 8,
    "order": "admitted",
    "per_unit": ["sex", "age"],
    "targets": ["readmitted"],
    "columns": {
        "patient": {"kind": "identifier"},
        "sex": {"kind": "categorical", "categories": ["F", "M"]},
        "age": {"kind": "integer", "bounds": [18, 100], "bins": [30, 40, 50, 60, 70, 80, 90]},
        "admitted": {"kind": "datetime", "bounds": ["2021-01-01", "2024-01-01"], "bins": 36},
        "ward": {"kind": "categorical", "categories": list(WARDS)},
        "urgent": {"kind": "boolean"},
        "days": {"kind": "integer", "bounds": [0, 60], "bins": [1, 2, 3, 5, 8, 14, 30]},
        "wound": {"kind": "boolean"},
        "diabetic": {"kind": "boolean"},
        "insulin": {"kind": "boolean"},
        "readmitted": {"kind": "boolean"},
    },
}


def schema(patients: int) -> Schema:
    """The public facts of so many patients."""
    return Schema.from_dict({**DECLARED, "units": patients})


def stays(patients: int, seed: int) -> pd.DataFrame:
    """A row for each stay, (stays, 11): about two for each patient."""
    rng = np.random.default_rng(seed)
    frail, age, male = rng.normal(size=patients), rng.integers(18, 101, patients), rng.random(patients) < 0.5
    number = 1 + rng.poisson(np.exp(0.5 * frail + (age - 60) / 60))
    day = rng.integers(0, DAYS // 2, patients)
    before, previous = np.zeros(patients, np.bool_), np.zeros(patients, np.bool_)
    wound, diabetic, since = before.copy(), before.copy(), np.zeros(patients, np.int64)
    parts, alive, place = [], np.arange(patients), 0
    while len(alive):
        here = {name: values[alive] for name, values in {"frail": frail, "age": age, "male": male, "day": day}.items()}
        winter = np.cos(2 * np.pi * here["day"] / 365.25)
        urgent = rng.random(len(alive)) < _chance(-0.3 + 0.8 * winter + 0.5 * here["frail"])
        ward = _ward(here["age"], urgent, rng)
        days = np.minimum(
            60, rng.poisson(np.exp(0.8 + 0.5 * urgent + 0.012 * (here["age"] - 50) + 0.3 * here["frail"]))
        )
        open_wound = rng.random(len(alive)) < _chance(-2.5 + 1.5 * (ward == 0) + 1.8 * wound[alive])
        diabetic[alive] |= rng.random(len(alive)) < _chance(-3.5 + 0.025 * (here["age"] - 50))
        since[alive] += diabetic[alive]
        insulin = (since[alive] > 2) & (rng.random(len(alive)) < 0.8)
        risk = (
            -2.6 + 1.1 * previous[alive] + 0.9 * before[alive] + 0.9 * open_wound + 0.6 * urgent + 0.7 * here["frail"]
        )
        readmitted = rng.random(len(alive)) < _chance(risk + 0.02 * days + 1.2 * (previous[alive] & open_wound))
        parts.append(
            pd.DataFrame(
                {
                    "patient": alive,
                    "sex": np.where(here["male"], "M", "F"),
                    "age": here["age"],
                    "admitted": pd.Timestamp("2021-01-01") + pd.to_timedelta(here["day"], unit="D"),
                    "ward": np.array(WARDS)[ward],
                    "urgent": urgent,
                    "days": days,
                    "wound": open_wound,
                    "diabetic": diabetic[alive],
                    "insulin": insulin,
                    "readmitted": readmitted,
                }
            )
        )
        soon = rng.integers(1, 31, len(alive))
        later = 31 + rng.exponential(120, len(alive)).astype(np.int64)
        day[alive] = here["day"] + days + np.where(readmitted, soon, later)
        before[alive], previous[alive], wound[alive] = previous[alive], readmitted, open_wound
        place += 1
        alive = alive[(number[alive] > place) & (day[alive] < DAYS)]
    found = pd.concat(parts, ignore_index=True).sort_values(["patient", "admitted"], kind="stable", ignore_index=True)
    return found.assign(patient=found["patient"].map("P{:07d}".format).astype("str"))


def _chance(score: Any) -> Any:
    return 1 / (1 + np.exp(-score))


def _ward(age: Any, urgent: Any, rng: np.random.Generator) -> Any:
    scores = np.stack([0.8 * ~urgent, 0.5 * urgent, (age - 60) / 30, (age - 75) / 12], 1)
    return (scores + rng.gumbel(size=scores.shape)).argmax(1)
