"""What leaves the hospital holds no record and no exact statistic of the records: the page, the statement, the release."""

import re
import secrets
import warnings
from dataclasses import replace
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema
from sweeps import heavy

from synthdp import Budget, Synthesizer, seal
from synthdp.report.statement_page import render, write
from synthdp.seal.replay import Recorder

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


LEARNED = {
    "age": {"kind": "integer", "bounds": "learn"},
    "sex": {"kind": "categorical", "categories": "learn"},
    "dose": {"kind": "continuous", "bounds": "learn", "bins": "learn", "missing": True},
    "seen": {"kind": "datetime", "bounds": "learn"},
}


@pytest.mark.parametrize(
    ("generator", "settings"),
    [
        ("independent", {}),
        heavy(("mst", {"iterations": 50})),
        heavy(("aim", {"rounds": 3, "iterations": 20, "last": 20})),
    ],
)
def test_given_the_same_answers_a_patient_more_changes_no_file_of_a_release(generator, settings, tmp_path, monkeypatch):
    """Replay of the whole fit: not the model alone, but statement, page, tables, warnings and file sizes see nothing but answers."""
    schema = make_schema(unit="patient", max_records_per_unit=2, units="learn", columns=LEARNED)
    fewer, first = make_frame(120, repeats=2), Recorder()
    odd = {"age": 5000, "sex": "an unknown one", "dose": -9e9, "seen": pd.Timestamp("1700-01-01"), "stage": None}
    more = make_frame(3, seed=8).assign(patient="new", **odd)
    runs = ((fewer, first), (pd.concat([fewer[:40], more, fewer[40:]], ignore_index=True), Recorder(of=first)))
    found = []
    for place, (frame, recorder) in enumerate(runs):
        folder = tmp_path / str(place)
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            patch.setattr(seal, "Sensitive", partial(seal.Sensitive, recorder=recorder))
            synthesizer = Synthesizer(generator, schema=schema, budget=Budget(8.0, 1e-5), **settings)
            release = synthesizer.fit(frame, seed=1, answers=True, invalid="clamp")
        release.save(folder / "release")
        write(release.statement, folder / "report")
        files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        found.append((files, [str(warning.message) for warning in heard]))
    assert len(runs[1][1].asked) == len(first.asked) > 5
    assert {"release/release.json", "release/model.safetensors", "report/statement.html"} <= found[0][0].keys()
    assert any("tables" in file for file in found[0][0])
    assert found[0][1] == found[1][1]
    for file in {**found[0][0], **found[1][0]}:
        assert found[0][0].get(file) == found[1][0].get(file), file
