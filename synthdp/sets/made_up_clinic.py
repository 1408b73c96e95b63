"""A made-up clinic in linked tables, of which everything is known: people, their visits in order, and the diagnoses of a visit.

Who missed the last visit misses the next one more often, a chronic disease stays and is found the more often the older somebody is, and
nobody comes before birth or after death.
"""

from typing import Any

import numpy as np
import pandas as pd

from synthdp.schema.schema import Schema

FIRST, LAST = pd.Timestamp("2020-01-01"), pd.Timestamp("2023-12-31")
WARDS = {"medicine": ("E11", "I10"), "surgery": ("K21", "S72"), "chest": ("J44", "J45")}
DECLARED: dict[str, Any] = {
    "name": "made_up_clinic",
    "declared_by": "synthdp, which made it up",
    "unit": "person_id",
    "targets": ["visit.no_show"],
    "tables": {
        "person": {
            "key": "person_id",
            "columns": {
                "sex": {"kind": "categorical", "categories": ["F", "M"]},
                "birth": {"kind": "datetime", "bounds": ["1930-01-01", "2009-12-31"], "bins": 8},
                "death": {"kind": "datetime", "bounds": ["2020-01-01", "2023-12-31"], "bins": 4, "missing": True},
            },
        },
        "visit": {
            "parent": "person",
            "key": "visit_id",
            "order": "start",
            "max_rows": 4,
            "columns": {
                "start": {"kind": "datetime", "bounds": ["2020-01-01", "2023-12-31"], "bins": 8},
                "ward": {"kind": "categorical", "categories": list(WARDS)},
                "no_show": {"kind": "boolean"},
            },
        },
        "diagnosis": {
            "parent": "visit",
            "max_rows": 2,
            "columns": {
                "code": {
                    "kind": "categorical",
                    "categories": sorted(code for codes in WARDS.values() for code in codes),
                }
            },
        },
    },
    "rules": ["visit.start >= person.birth", "visit.start <= person.death"],
}


def schema(people: int) -> Schema:
    """The public facts of so many people."""
    return Schema.from_dict({**DECLARED, "units": people})


def tables(people: int, seed: int) -> dict[str, pd.DataFrame]:
    """A frame for each table; keys are told apart by the seed."""
    rng = np.random.default_rng(seed)
    birth = pd.Timestamp("1930-01-01") + pd.to_timedelta(rng.integers(0, 29_000, people), unit="D")
    death = pd.Series(FIRST + pd.to_timedelta(rng.integers(200, 1_400, people), unit="D")).where(
        rng.random(people) < 0.15
    )
    names = [f"P{seed}{each:05d}" for each in range(people)]
    person = pd.DataFrame({"person_id": names, "sex": rng.choice(["F", "M"], people), "birth": birth, "death": death})
    visits: list[tuple[Any, ...]] = []
    codes: list[tuple[str, str]] = []
    for name, born, end in zip(names, birth, death, strict=True):
        age = (FIRST - born).days / 365.25
        day, missed, chronic = rng.integers(0, 700), rng.random() < 0.3, rng.random() < age / 200
        for _ in range(rng.poisson(1.2 + age / 60)):
            start = FIRST + pd.Timedelta(int(day), "D")
            if start > LAST or start > end:
                break
            ward = str(rng.choice(list(WARDS)))
            missed = bool(rng.random() < (0.6 if missed else 0.15))
            key = f"V{seed}{len(visits):06d}"
            visits.append((key, name, start, ward, missed))
            found = {WARDS[ward][place] for place in (0, 1) if rng.random() < 0.45} | ({"E11"} if chronic else set())
            codes += [(key, code) for code in sorted(found)]
            day += rng.integers(7, 300)
    return {
        "person": person,
        "visit": pd.DataFrame(visits, columns=["visit_id", "person_id", "start", "ward", "no_show"]),
        "diagnosis": pd.DataFrame(codes, columns=["visit_id", "code"]),
    }
