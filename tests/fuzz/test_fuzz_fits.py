"""Fits of any columns, few records and any of some generators. A fit must end, keep to its schema, and draw the same once opened again."""

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from fuzzing import fuzz
from hypothesis import strategies as st

from synthdp import Budget, Synthesizer, load
from synthdp.errors import BadInput
from synthdp.generators.histories import HistoriesSettings
from synthdp.schema.schema import Schema

pytestmark = pytest.mark.fuzz
DAYS, FEW_DAYS = ("2020-01-01", "2021-12-31"), ("2020-01-01", "2020-01-20")
QUICK = {
    "mixture": {},
    "aim": {},
    "mst": {},
    "independent": {},
    "pategan": {"start": "label", "rounds": 1, "steps": 2, "queries": 4, "teachers": 3, "teacher_steps": 1},
    "dpgan": {"steps": 3},
    "dpmerf": {"steps": 3},
}


def columns(draw, most, *, first=None):
    """Facts of some columns by name; `first` is the kind of the first of them."""
    kinds = ["categorical", "ordinal", "boolean", "integer", "continuous", "datetime"]
    found = {}
    for place in range(draw(st.integers(1, most))):
        kind = first if first and place == 0 else draw(st.sampled_from(kinds))
        facts = {"kind": kind}
        if kind in ("categorical", "ordinal"):
            facts["categories"] = [f"{kind[0]}{code}" for code in range(draw(st.integers(1, 6)))]
        if kind == "categorical" and draw(st.booleans()):
            facts["other"] = facts["categories"][-1]
        if kind == "integer":
            low = draw(st.integers(-5, 5))
            facts["bounds"] = [low, low + draw(st.integers(0, 30))]
        if kind == "continuous":
            facts["bounds"] = draw(st.sampled_from([[-1.5, -1.0], [0.0, 0.25], [2.0, 5.1], [0.0, 4000.0], [5.0, 5.0]]))
            facts |= draw(st.sampled_from([{}, {}, {"decimals": 0}, {"decimals": 1}]))
        if kind in ("integer", "continuous"):
            facts |= draw(st.sampled_from([{}, {"bins": 1}, {"bins": 4}, {"atoms": [facts["bounds"][0]]}]))
        if kind == "datetime":
            facts |= {"bounds": list(draw(st.sampled_from([DAYS, FEW_DAYS])))}
            facts |= draw(st.sampled_from([{}, {"bins": 1}, {"bins": 5}]))
            facts |= {"resolution": draw(st.sampled_from(["day", "hour", "second"]))}
        if not (first and place == 0) and draw(st.booleans()):
            facts["missing"] = True
        found[f"{kind[:4]} {place}"] = facts
    return found


def cells(facts, rows, rng):
    """Values that the facts allow, (rows,)."""
    if facts["kind"] in ("categorical", "ordinal"):
        made = pd.Series(rng.choice(facts["categories"], rows), dtype=object)
    elif facts["kind"] == "boolean":
        made = pd.Series(rng.random(rows) < 0.4, dtype="boolean")
    elif facts["kind"] == "integer":
        made = pd.Series(rng.integers(facts["bounds"][0], facts["bounds"][1] + 1, rows), dtype="Int64")
    elif facts["kind"] == "continuous":
        made = pd.Series(rng.choice([facts["bounds"][0], *rng.uniform(*facts["bounds"], 5)], rows))
    else:
        start, end = map(pd.Timestamp, facts["bounds"])
        made = start + pd.to_timedelta(rng.integers(0, (end - start).days * 24, rows), unit="h").to_series(
            index=range(rows)
        )
        made = made.dt.floor("D") if facts["resolution"] == "day" else made
    return made.mask(rng.random(rows) < 0.3) if facts.get("missing") else made


def frame(held, rows, rng):
    """A table of these columns."""
    return pd.DataFrame({name: cells(facts, rows, rng) for name, facts in held.items()}, index=range(rows))


@st.composite
def hospitals(draw):
    """A schema of linked tables, and frames."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    people = draw(st.sampled_from([0, 1, 2, 25]))
    order = {
        "kind": "datetime",
        "bounds": list(DAYS),
        "bins": 4,
        "resolution": draw(st.sampled_from(["day", "second"])),
    }
    visit = {"start": order, **columns(draw, 4)}
    tables = {
        "person": {"key": "pid", "columns": columns(draw, 3)},
        "visit": {
            "parent": "person",
            "key": "vid",
            "order": "start",
            "columns": visit,
            "max_rows": draw(st.integers(1, 6)),
        },
    }
    frames = {"person": frame(tables["person"]["columns"], people, rng)}
    frames["person"]["pid"] = [f"p{place}" for place in range(people)]
    owner = np.repeat(frames["person"]["pid"], rng.integers(0, 5, people)).to_numpy()
    frames["visit"] = frame(visit, len(owner), rng).assign(pid=owner, vid=[f"v{place}" for place in range(len(owner))])
    for name in draw(st.sampled_from([(), ("item",), ("item", "lab")])):
        kind = draw(st.sampled_from(["categorical", "ordinal", "boolean"]))
        held = columns(draw, 4, first=kind)
        tables[name] = {"parent": "visit", "max_rows": draw(st.integers(1, 4)), "columns": held}
        below = np.repeat(frames["visit"]["vid"], rng.integers(0, 4, len(owner))).to_numpy()
        frames[name] = frame(held, len(below), rng).assign(vid=below)
    targets = [name for name, facts in visit.items() if facts["kind"] in ("categorical", "ordinal", "boolean")]
    declared = {"unit": "pid", "units": max(people, 5), "declared_by": "us", "tables": tables}
    if targets and draw(st.booleans()):
        declared["targets"] = [f"visit.{targets[0]}"]
    return declared, frames


@st.composite
def records(draw):
    """A schema of one table, and its frame."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    held = columns(draw, 6)
    declared = {"declared_by": "us", "units": 30, "columns": held}
    if draw(st.booleans()):
        declared["targets"] = [draw(st.sampled_from(sorted(held)))]
    return declared, frame(held, draw(st.sampled_from([0, 1, 30])), rng)


def prepared(facts, records, generator, epsilon, **settings):
    """The synthesizer; `BadInput` where either refuses, or where the records break the schema."""
    schema = Schema.from_dict(facts)
    if schema.tables:
        schema.validate_tables(records, "error")
    else:
        schema.validate(records, "error")
    made = Synthesizer(generator, schema=schema, budget=Budget(epsilon, 1e-5), **settings)
    made.afford()
    return made


@contextmanager
def charged():
    """From the charge on nothing may be refused."""
    try:
        yield
    except BadInput as refused:
        raise AssertionError("refused after the charge") from refused


def test_histories_of_linked_tables(tmp_path):
    ended = 0

    def prop(made, epsilon, seed):
        nonlocal ended
        synthesizer = prepared(*made, HistoriesSettings(rounds=2, iterations=3, pairs=2), epsilon)
        with charged():
            release = synthesizer.fit(made[1], seed=seed)
            sample = release.sample_tables(20, seed=1)
            release.schema.validate_tables(sample, "error")
            again = load(release.save(tmp_path / "release", force=True)).sample_tables(20, seed=1)
        for name, each in sample.items():
            pd.testing.assert_frame_equal(again[name], each)
        ended += 1

    fuzz(prop, made=hospitals(), epsilon=st.sampled_from([0.1, 1.0, 50.0]), seed=st.integers(0, 9))
    assert ended


def test_single_tables(tmp_path):
    ended = set()

    def prop(made, name, epsilon, seed):
        synthesizer = prepared(*made, name, epsilon, **QUICK[name])
        with charged():
            release = synthesizer.fit(made[1], seed=seed)
            sample = release.sample(20, seed=1)
            release.schema.validate(sample, "error")
            again = load(release.save(tmp_path / "release", force=True)).sample(20, seed=1)
        pd.testing.assert_frame_equal(again, sample)
        ended.add(name)

    names = st.sampled_from(sorted(QUICK))
    fuzz(prop, made=records(), name=names, epsilon=st.sampled_from([0.1, 1.0, 50.0]), seed=st.integers(0, 9))
    assert ended
