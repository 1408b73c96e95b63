"""What leaves the hospital holds no record and no exact statistic of the records: the page, the statement, the release."""

import re
import secrets
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from clinic import make_schema

from synthdp import Budget, Synthesizer
from synthdp.report.statement_page import render, write

ROWS, WOMEN, UNKNOWN, WARD = 3571, 2389, 1039, 1187
DIGITS = 5  # of a mean or quantile: fewer could stand in a page by chance


@pytest.fixture(scope="module")
def canaries():
    return [secrets.token_hex(32) for _ in range(8)]


@pytest.fixture(scope="module")
def records(canaries):
    """Rows whose counts, extremes and means are known and odd; eight patients and wards are canaries."""
    rng = np.random.default_rng(7)
    dose = pd.Series(rng.uniform(0.5, 9.5, ROWS))
    dose[0], dose[1] = 0.13731, 9.87139
    dose[rng.choice(np.arange(2, ROWS), UNKNOWN, replace=False)] = np.nan
    seen = pd.Timestamp("2020-03-01") + pd.to_timedelta(rng.integers(30, 200, ROWS), unit="D")
    seen = pd.Series(seen)
    seen[0], seen[1] = pd.Timestamp("2020-02-17"), pd.Timestamp("2020-11-19")
    frame = pd.DataFrame(
        {
            "patient": [f"p{row}" for row in range(ROWS)],
            "age": rng.integers(20, 80, ROWS),
            "sex": rng.permutation(["female"] * WOMEN + ["male"] * (ROWS - WOMEN)),
            "stage": rng.choice(["I", "II", "III"], ROWS, p=[0.35, 0.32, 0.33]),
            "dose": dose,
            "seen": seen,
            "ill": rng.permutation(np.arange(ROWS) < 1531),
            "ward": rng.permutation(["north"] * WARD + ["south"] * (ROWS - WARD)).astype(object),
        }
    )
    frame.loc[: len(canaries) - 1, "patient"] = canaries
    frame.loc[: len(canaries) - 1, "ward"] = canaries
    return frame


@pytest.fixture(scope="module")
def everything(records):
    return statistics(records)


def statistics(frame):
    """Exact figures of the records as a page could write them, name -> texts."""
    found = {"rows": {str(len(frame)), f"{len(frame):,}"}}
    for name in ("sex", "stage", "ill", "ward"):
        for level, count in frame[name].value_counts().items():
            if count > 1000:
                found[f"{name} {level}"] = {str(count), f"{count:,}"}
    pairs = frame.groupby(["sex", "ill"]).size()
    found |= {f"{pair}": {str(count), f"{count:,}"} for pair, count in pairs.items() if count >= 1000}
    found["missing"] = {str(frame["dose"].isna().sum()), f"{frame['dose'].isna().sum():,}"}
    for name in ("age", "dose", "ill"):
        values = frame[name].astype(float)
        for what in ("mean", "std", "median", "skew"):
            found[f"{what} of {name}"] = forms(float(getattr(values, what)()))
    found["extremes of dose"] = forms(float(frame["dose"].min())) | forms(float(frame["dose"].max()))
    found["correlation"] = forms(float(frame["age"].corr(frame["dose"])))
    found["first and last"] = {"2020-02-17", "2020-11-19"}
    return {name: texts for name, texts in found.items() if texts}


def forms(value):
    """The number in full, and rounded to five and more significant digits; as a percentage too."""
    texts = {repr(value), *(f"{value:.{digits}g}" for digits in range(DIGITS, 16))}
    texts |= {f"{100 * value:.{digits}g}" for digits in range(DIGITS, 10)}
    return {text for text in texts if len(Decimal(text).as_tuple().digits) >= DIGITS}


def told(text, everything):
    """Names of the statistics that stand in the text as numbers of their own."""
    return [
        name
        for name, texts in everything.items()
        if any(re.search(rf"(?<![\w.,-]){re.escape(item)}(?![\w]|[.,]\d)", text) for item in texts)
    ]


@pytest.fixture(scope="module")
def release(records):
    """A real release (no seed), with the ward's categories and the number of units bought.

    By chance the noisy number can be the true one: then another fit is taken. A number that is always the true one ends the test."""
    schema = make_schema(units="learn", columns={"ward": {"kind": "categorical", "categories": "learn"}})
    synthesizer = Synthesizer("independent", schema=schema, budget=Budget(2.0, 1e-6))
    return next(made for made in (synthesizer.fit(records) for _ in range(5)) if made.schema.units != len(records))


def test_page_and_release_tell_no_record_and_no_statistic(release, everything, canaries, tmp_path):
    write(release.statement, tmp_path / "report")
    release.save(tmp_path / "release")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"statement.html", "statement.json", "release.json", "ledger.jsonl"} <= {path.name for path in files}
    for path in files:
        content = path.read_bytes()
        for canary in canaries:
            assert canary.encode() not in content
            assert canary[:16].encode() not in content
            assert bytes.fromhex(canary) not in content
        if path.suffix != ".safetensors":
            text = content.decode().replace(str(release.statement.release_id), "")  # random: chance may write a number
            assert told(text, everything) == [], path.name


def test_the_scan_finds_each_statistic(release, everything):
    """The measure itself: whatever form of a figure a page would take up is found."""
    for name, texts in everything.items():
        for text in texts:
            assert name in told(f'{{"leak": {text}}}', everything), f"{name} as {text}"
    leaks = {f"leak {number}": sorted(texts)[0] for number, texts in enumerate(everything.values())}
    assert told(render(replace(release.statement, settings=leaks)), everything) == list(everything)
