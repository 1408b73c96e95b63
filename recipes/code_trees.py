"""Diagnoses with their tree: how many three-digit ICD-9 codes a fit keeps, and how near their shares come, beside a flat list of codes.

    SYNTHDP_DATA=/path/to/data python recipes/code_trees.py

Writes reports/code_trees.{json,md}. The data set is diabetes130 as `synthdp data` has it, but with the raw codes of its three columns of
diagnoses. Their tree is public: chapters by the ranges of ICD-9-CM, below them every three-digit code whether it occurs or not, below
250 (diabetes) its codes of five digits, of which the file has no others but one. Flat, the same columns have a declared list of the
three-digit codes that occur, which nobody would know without a look: that favours the flat list. Nothing was tuned on these data.
"""

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from record import provenance, spread, write

from synthdp import Budget, Schema, Synthesizer
from synthdp.schema.trees import Tree
from synthdp.sets import diabetes130, named

EPSILON, DELTA = 1.0, 1e-6
RECORDS = (1, 3)  # of a patient
CODES = diabetes130.DIAGNOSES
# First code of each chapter of ICD-9-CM (volume 1), and its name.
CHAPTERS = {
    1: "infectious", 140: "neoplasms", 240: "endocrine", 280: "blood", 290: "mental", 320: "nervous", 390: "circulatory",
    460: "respiratory", 520: "digestive", 580: "genitourinary", 630: "pregnancy", 680: "skin", 710: "musculoskeletal",
    740: "congenital", 760: "perinatal", 780: "symptoms", 800: "injury",
}  # fmt: skip
CAUSES, CONTACTS = "external causes", "supplementary"  # codes that begin with E and V
FLAT, MIXED, LEAVES = "882 codes, flat", "tree", "tree, leaves: true"


def chapter(code: str) -> str:
    """The chapter of a three-digit code."""
    if code[0] in "EV":
        return CAUSES if code[0] == "E" else CONTACTS
    return CHAPTERS[max(first for first in CHAPTERS if first <= int(code))]


def three_digit() -> list[str]:
    """Every three-digit code that ICD-9-CM has room for, without leading zeros, as the file writes them."""
    return [*map(str, range(1, 1000)), *(f"E{n:03d}" for n in range(1000)), *(f"V{n:02d}" for n in range(1, 92))]


def codes() -> list[str]:
    """All codes that cells may hold."""
    return [*three_digit(), "250.0", *(f"250.{n}{m}" for n in range(10) for m in range(4))]


def tree(*, leaves: bool) -> dict[str, Any]:
    """The tree, as a schema has it."""
    return {"prefix": [3], "parents": {code: chapter(code) for code in three_digit()}, "leaves": leaves}


def records() -> tuple[Schema, pd.DataFrame]:
    """The data set's schema, and its training records with their raw codes."""
    honest = diabetes130.diagnosis_group
    diabetes130.diagnosis_group = lambda code: code
    try:
        whole = named.load("diabetes130")
    finally:
        diabetes130.diagnosis_group = honest
    return whole.schema, whole.train


def schema_of(schema: Schema, how: str, records: int, seen: list[str]) -> Schema:
    """The data set's schema with diagnoses as a tree or as a flat list."""
    values = schema.to_dict() | {"max_records_per_unit": records}
    for name in CODES:
        column: dict[str, Any] = {"kind": "categorical", "missing": True}
        if how == FLAT:
            values["columns"][name] = {**column, "categories": [*seen, "other"], "other": "other"}
        else:
            values["columns"][name] = {**column, "categories": codes(), "tree": tree(leaves=how == LEAVES)}
    return Schema.from_dict(values)


def in_three_digits(column: pd.Series) -> pd.Series:
    """Codes cut to three digits; chapters, other and missing stay."""
    return column.astype(object).where(column.notna(), "(missing)").astype(str).str.replace(r"\..*", "", regex=True)


def distance(one: pd.Series, other: pd.Series) -> float:
    """Total variation distance of two columns."""
    shares = pd.concat([each.value_counts(normalize=True) for each in (one, other)], axis=1).fillna(0.0)
    return float(np.abs(shares.iloc[:, 0] - shares.iloc[:, 1]).sum() / 2)


def run(how: str, most: int, seed: int, base: Schema, frame: pd.DataFrame) -> dict[str, Any]:
    """One fit: distances of three-digit codes, and the share of real records whose code is kept."""
    three = {name: in_three_digits(frame[name]) for name in CODES}
    seen = sorted({code for each in three.values() for code in each} - {"(missing)"})
    schema = schema_of(base, how, most, seen)
    cut = (
        frame
        if how != FLAT
        else frame.assign(**{name: frame[name].str.replace(r"\..*", "", regex=True) for name in CODES})
    )
    start = time.perf_counter()
    release = Synthesizer("mixture", schema=schema, budget=Budget(EPSILON, DELTA)).fit(cut, seed=seed, invalid="clamp")
    seconds = time.perf_counter() - start
    synthetic = release.sample(len(frame), seed=seed)
    found: dict[str, Any] = {
        "how": how,
        "records": most,
        "seed": seed,
        "epsilon": release.statement.epsilon,
        "seconds": seconds,
    }
    found["tvd"] = {name: distance(in_three_digits(synthetic[name]), three[name]) for name in CODES}
    if how != FLAT:
        kept = release.model.schema
        found |= {"kept": {}, "said": {}, "other": {}}
        for name in CODES:
            column = kept.column(name)
            node = {code: column.tree.finest(code, set(column.categories)) for code in frame[name].dropna().unique()}
            at = frame[name].dropna().map(node)
            fine = {*three_digit(), *codes()}
            found["kept"][name] = float(at.isin(fine).mean())
            found["other"][name] = float(at.isna().mean())
            found["codes"] = {**found.get("codes", {}), name: len(column.categories)}
        levels = {each.column: each for each in release.statement.lost.levels}
        found["said"] = {name: sum(levels[name].shares[1:]) for name in CODES}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    base, frame = records()
    rows = []
    for most in RECORDS:
        for how in (FLAT, MIXED, LEAVES):
            for seed in range(arguments.seeds):
                rows.append(run(how, most, seed, base, frame))
                print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
