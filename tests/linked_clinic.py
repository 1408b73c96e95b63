"""A made-up clinic in linked tables: people, visits in order, diagnoses of a visit."""

from typing import Any

import numpy as np
import pandas as pd

from synthdp import Schema
from synthdp.sets import made_up_clinic

VISIT = made_up_clinic.DECLARED["tables"]["visit"]
DIAGNOSIS = made_up_clinic.DECLARED["tables"]["diagnosis"]
WARD = {"kind": "categorical", "categories": ["a", "b"], "missing": True}
CODES = {"kind": "categorical", "categories": ["E11", "I10", "J45", "K21"]}
DECLARED: dict[str, Any] = {  # the embedded clinic's, with fewer wards, of which cells may be empty, codes and visits
    **made_up_clinic.DECLARED,
    "name": "clinic",
    "units": 300,
    "tables": {
        **made_up_clinic.DECLARED["tables"],
        "visit": {**VISIT, "max_rows": 3, "columns": {**VISIT["columns"], "ward": WARD}},
        "diagnosis": {**DIAGNOSIS, "columns": {"code": CODES}},
    },
}


KEY = {"kind": "identifier"}
BY_FILE = {  # of which the keys do not come first, columns by the names of tables
    "person": {"sex": None, "person_id": KEY, "birth": None, "death": None},
    "visit": {"start": None, "visit_id": KEY, "ward": None, "no_show": None, "person_id": KEY},
    "diagnosis": {"code": None, "visit_id": KEY},
}


def with_keys_among_columns() -> dict[str, Any]:
    """The tables, in which keys stand where a file has them."""
    tables = DECLARED["tables"]
    return {
        name: {"columns": {each: facts or tables[name]["columns"][each] for each, facts in columns.items()}}
        for name, columns in BY_FILE.items()
    }


def declared(**changes: Any) -> dict[str, Any]:
    """The clinic's schema with other tables (by name, merged) or other top-level keys; a table that is None is left out."""
    tables = changes.pop("tables", {})
    made = {
        name: {**table, **(tables.get(name) or {})}
        for name, table in DECLARED["tables"].items()
        if tables.get(name, table)
    }
    made |= {name: table for name, table in tables.items() if name not in DECLARED["tables"]}
    found = {**DECLARED, **changes, "tables": made}
    return {key: value for key, value in found.items() if value is not None}


def schema(**changes: Any) -> Schema:
    """See `declared`."""
    return Schema.from_dict(declared(**changes))


def clinic(people: int, seed: int = 0, most: int = 6) -> dict[str, pd.DataFrame]:
    """Frames of the three tables. Some people have no visit, some more than count; who missed a visit misses the next more often; wards
    have codes of their own; nobody comes before birth or after death."""
    rng = np.random.default_rng(seed)
    birth = pd.Timestamp("1930-01-01") + pd.to_timedelta(rng.integers(0, 29_000, people), unit="D")
    death = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 1_000, people), unit="D")
    person = pd.DataFrame(
        {"person_id": [f"P{each:04d}" for each in range(people)], "sex": rng.choice(["F", "M"], people), "birth": birth}
    )
    person["death"] = pd.Series(death).where(rng.random(people) < 0.2)
    visits, diagnoses = [], []
    for name, end in zip(person["person_id"], person["death"], strict=True):
        day, missed = rng.integers(0, 500), rng.random() < 0.3
        for _ in range(min(most, rng.poisson(1.5))):
            start = pd.Timestamp("2020-01-01") + pd.Timedelta(int(day), "D")
            if start > end or start > pd.Timestamp("2024-01-01"):
                break
            ward, missed = rng.choice(["a", "b"]), rng.random() < (0.7 if missed else 0.2)
            key = f"V{len(visits):05d}"
            visits.append((key, name, start, ward, missed))
            codes = rng.choice(["E11", "I10"] if ward == "a" else ["J45", "K21"], rng.integers(0, 4))
            diagnoses += [(key, code) for code in codes]
            day += rng.integers(0, 300)
    return {
        "person": person.astype({"person_id": "str", "sex": "str"}),
        "visit": pd.DataFrame(visits, columns=["visit_id", "person_id", "start", "ward", "no_show"]),
        "diagnosis": pd.DataFrame(diagnoses, columns=["visit_id", "code"]),
    }


LAB: dict[str, Any] = {
    "parent": "visit",
    "max_rows": 3,
    "columns": {
        "test": {"kind": "categorical", "categories": ["CRP", "Hb", "K"]},
        "value": {"kind": "continuous", "bounds": [0, 100], "bins": 5, "missing": True},
        "taken": {"kind": "datetime", "bounds": ["2020-01-01", "2024-03-01"], "resolution": "day"},
        "urgent": {"kind": "boolean"},
    },
}
IN_ORDER = [*DECLARED["rules"], "lab.taken >= visit.start", "lab.taken <= person.death"]


def with_labs(**changes: Any) -> Schema:
    """The clinic's schema with a second table below visits, of several columns."""
    changes = {"rules": IN_ORDER, **changes}
    return schema(**{**changes, "tables": {"lab": LAB, **changes.get("tables", {})}})


def labs(frames: dict[str, pd.DataFrame], seed: int = 0) -> dict[str, pd.DataFrame]:
    """The tables with laboratory values: high where the test is CRP, low where it is K, urgent in ward a, taken on the day of the visit or
    up to four days later, and never after death."""
    rng = np.random.default_rng(seed)
    visit = frames["visit"].merge(frames["person"].drop_duplicates("person_id"), on="person_id", how="left")
    rows = visit.loc[np.repeat(np.arange(len(visit)), rng.integers(0, 5, len(visit)))]
    test = rng.choice(["CRP", "Hb", "K"], len(rows), p=[0.5, 0.3, 0.2])
    middle = pd.Series(test).map({"CRP": 85.0, "Hb": 50.0, "K": 10.0}).to_numpy()
    value = np.round(middle + rng.uniform(-9, 9, len(rows)), 2)
    taken = rows["start"] + pd.to_timedelta(rng.choice([0, 0, 0, 1, 4], len(rows)), unit="D")
    frame = pd.DataFrame(
        {
            "visit_id": rows["visit_id"].to_numpy(),
            "test": test,
            "value": np.where(rng.random(len(rows)) < 0.1, np.nan, value),
            "taken": taken.where(~(taken > rows["death"]), rows["death"]).to_numpy(),
            "urgent": (rows["ward"] == "a").to_numpy(),
        }
    )
    return {**frames, "lab": frame}


def without(frames: dict[str, pd.DataFrame], person: str) -> dict[str, pd.DataFrame]:
    """The tables of everybody else: a row below visits stays where somebody else holds its visit's key, and where nobody does."""
    visits = frames["visit"]
    theirs = visits["person_id"] == person
    gone = set(visits["visit_id"][theirs]) - set(visits["visit_id"][~theirs])
    return {
        "person": frames["person"][frames["person"]["person_id"] != person],
        "visit": visits[~theirs],
        **{
            name: frame[~frame["visit_id"].isin(gone)] for name, frame in frames.items() if name in ("diagnosis", "lab")
        },
    }


def tangled(people: int = 40) -> dict[str, pd.DataFrame]:
    """The clinic with what must not break the unit: visits of several people under one key, keys that stand twice, also for people, rows
    that link to nothing, missing keys, and one person whose visits are all alike under one key that half of the others have too."""
    frames = clinic(people, seed=3)
    person, visit, diagnosis = frames["person"], frames["visit"].copy(), frames["diagnosis"]
    rng = np.random.default_rng(1)
    taken = rng.choice(len(visit), len(visit) // 3, replace=False)
    visit.loc[taken, "visit_id"] = visit["visit_id"].to_numpy()[rng.choice(len(visit), len(taken))]
    visit.loc[taken[:5], "visit_id"] = None
    alike = pd.concat([visit.iloc[:1].assign(person_id="alike", visit_id=visit["visit_id"][7], no_show=True)] * 9)
    orphans = visit.iloc[:3].assign(person_id=["nobody", None, ""])
    person = pd.concat(
        [person, person.iloc[:6].assign(sex="F"), person.iloc[:1].assign(person_id="alike")], ignore_index=True
    )
    person = pd.concat([person, person.iloc[:2].assign(person_id=[None, ""])], ignore_index=True)
    more = pd.DataFrame(
        {
            "visit_id": [visit["visit_id"][7]] * 5 + ["nosuch", None],
            "code": ["E11", "I10", "I10", "J45", "K21", "E11", "E11"],
        }
    )
    return {
        "person": person,
        "visit": pd.concat([visit, alike, orphans], ignore_index=True),
        "diagnosis": pd.concat([diagnosis, more], ignore_index=True),
    }


TREE: dict[str, Any] = {
    "kind": "categorical",
    "categories": [f"{code}.{digit}" for code in ("E10", "E11", "I10", "J45", "K21", "K22") for digit in range(5)],
    "tree": {"prefix": [1, 3]},
}


def with_tree(made: Any = schema, **changes: Any) -> Schema:
    """The clinic's schema, or another one that `made` gives, with finer codes of diagnoses under a tree."""
    return made(**changes, tables={"diagnosis": {"columns": {"code": TREE}}})


def finer(frames: dict[str, pd.DataFrame], seed: int = 0) -> dict[str, pd.DataFrame]:
    """The tables with codes of `TREE`: of each three-digit code one is frequent, one is less so, and three are rare or nobody's."""
    digit = np.random.default_rng(seed).choice(5, len(frames["diagnosis"]), p=[0.72, 0.2, 0.05, 0.03, 0.0])
    diagnosis = frames["diagnosis"]
    return {
        **frames,
        "diagnosis": diagnosis.assign(code=diagnosis["code"] + "." + pd.Series(digit.astype(str), diagnosis.index)),
    }
