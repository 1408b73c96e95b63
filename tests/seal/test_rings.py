"""Trust is measured (law 41): every function that runs while records are open, and how much code that is.

Records are in somebody's hands from the moment that `Sensitive` is given them until they are sealed, and whenever `reading()` opens
them. Every call in between is recorded, over all generators. PRIVACY.md, section 2, names the files that may be met, and this
reads its tables.
"""

import ast
import dataclasses
import functools
import io
import math
import re
import sys
import tempfile
import threading
import tokenize
from contextlib import nullcontext
from pathlib import Path

import ibis
import linked_clinic
import pandas as pd
import pytest
import torch
from clinic import contracts, kind_of, make_frame, make_pictures, make_schema, picture_schema, quick
from linked_clinic import labs, tangled, with_labs
from pate.pate_tables import fitted, problem
from sweeps import sweep

import synthdp
from synthdp import Budget, PrivateTrainer, accounting
from synthdp.ledger.ledger import Ledger
from synthdp.pate import Networks
from synthdp.seal import records
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.tables import source
from synthdp.testing.made_up import ORDERED

HOME = Path(synthdp.__file__).parent
TEXT = (HOME.parent / "PRIVACY.md").read_text(encoding="utf-8")
RINGS = ("seal", "ledger", "noise")
HANDED_IN = ("generators", "pate", "trainer")  # rooms whose functions see records only where the seal calls them
MOST = {"0, its core": 1300, "0": 2500}  # lines of code
BUDGET = Budget(3.0, 1e-5)


def table(marker):
    """Rows of the table of PRIVACY.md behind a marker, as lists of cells."""
    lines = TEXT.split(f"<!-- {marker} -->")[1].split("<!-- end -->")[0].strip().splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def files(cell):
    """The files, relative to the package, that a cell names; a folder stands for all in it."""
    for name in re.findall(r"`([^`]+)`", cell):
        path = HOME / name
        assert path.exists(), name
        yield from (
            each.relative_to(HOME).as_posix() for each in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
        )


# ---- What runs.


class Watch:
    """In the place of the variable that says whether records are open: whoever opens them switches the recording on.

    `met` holds (file, function, file of the ring that called it, whether under guard); of functions of the rings the first two.
    """

    def __init__(self):
        self.depth, self.met, self.before = 0, set(), (None, None)

    def get(self):
        return self.depth > 0

    def set(self, _):
        self.depth += 1
        if self.depth == 1:
            self.before = sys.gettrace(), threading.gettrace()
            sys.settrace(self.called)
            threading.settrace(self.called)

    def reset(self, _):
        self.depth -= 1
        if self.depth == 0:
            sys.settrace(self.before[0])
            threading.settrace(self.before[1])

    def called(self, frame, *_):
        if (place := of_house(frame)) is not None:
            self.met.add((place, frame.f_code.co_qualname, *(() if room(place) in RINGS else caller(frame))))


def of_house(frame):
    """The file that a frame runs, relative to the package; None outside of it. Functions that dataclasses make have no file."""
    module = frame.f_globals.get("__name__", "")
    if module.partition(".")[0] != "synthdp":
        return None
    return Path(frame.f_globals["__file__"]).relative_to(HOME).as_posix()


def room(place):
    return place.partition("/")[0].removesuffix(".py")


def caller(frame):
    """The file of the rings that called, at any distance, and whether by way of `Guarded`."""
    called, guarded = "", False
    while (frame := frame.f_back) is not None:
        place = of_house(frame)
        if place == "seal/callbacks.py" and frame.f_code.co_qualname == "Guarded.__call__":
            guarded = True
        elif place is not None and room(place) in RINGS:
            called = called or place
    return called, guarded


@functools.cache
def run(case):
    """What was met in one case."""
    watch, sealing = Watch(), Sensitive.__init__

    def watched(*arguments, **more):
        watch.set(True)
        try:
            sealing(*arguments, **more)
        finally:
            watch.reset(None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_READING", watch)
        patch.setattr(Sensitive, "__init__", watched)
        patch.setattr(accounting, "calibrate", lambda plan, *_, **__: (plan(2.0), 2.0)[1])  # solving takes seconds
        CASES[case]()
    return frozenset(watch.met)


def fit(name, frame, schema, data="table"):
    kind = kind_of(name)
    short = {"steps": 2} if "steps" in {field.name for field in dataclasses.fields(kind)} else {}
    account = Account(BUDGET, Ledger(), unit=schema.unit or "record")
    with nullcontext(frame) if isinstance(frame, pd.DataFrame | dict) else source.opened(frame) as opened:
        quick(name, data, **short).fit(Sensitive(opened, schema, account, seed=1), seed=1)


def of_generator(data, name, **unit):
    make, schema = (make_frame, make_schema) if data == "table" else (make_pictures, picture_schema)
    fit(name, make(60, repeats=3), schema(**unit), data)


def in_a_database(name, ending, **changes):
    frame = make_frame(60, repeats=3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"records.{ending}"
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
        fit(name, source.files(path), make_schema(**changes))


PATIENTS = {"unit": "patient", "max_records_per_unit": 2}
LEARNED = {
    "units": "learn",
    "columns": {
        "sex": {"kind": "categorical", "categories": "learn"},
        "age": {"kind": "integer", "bounds": "learn", "bins": 6},
        "dose": {"kind": "continuous", "bounds": [0, 10], "bins": "learn", "missing": True},
        "stage": {"kind": "categorical", "categories": "learn", "tree": {"prefix": [1]}, "missing": True},
    },
}
RULED = {
    "columns": {"left": {"kind": "datetime", "bounds": ["2020-01-01", "2021-06-30"]}},
    "rules": ["seen <= left", {"never": {"sex": "female", "stage": "III"}}],
}
EVERY = [(data, name) for data in ("table", "images") for name in contracts(data)]


def ruled():
    frame = make_frame(60)
    fit("independent", frame.assign(left=frame["seen"]), make_schema(**RULED))


def histories_in_a_database():
    with source.asking():
        connection = ibis.duckdb.connect()
        tables = {name: connection.create_table(name, frame) for name, frame in tangled(20).items()}
    fit("histories", source.linked(tables), linked_clinic.schema(), "histories")
    connection.disconnect()


def taught(**settings):
    fitted(problem(300, 0), teachers=10, queries=20, **settings)


class Own(torch.nn.Linear):
    """A layer that book-keeping does not know: its gradients are taken in full."""


def trained():
    PrivateTrainer(Own(8, 2), schema=make_schema(), budget=Budget(math.inf, 1e-5), epochs=1).fit(make_frame(60), seed=1)


CASES = {
    **{f"{data} {name}": functools.partial(of_generator, data, name, **PATIENTS) for data, name in EVERY},
    "histories": lambda: fit("histories", make_frame(60, repeats=3), make_schema(**ORDERED), "histories"),
    "linked tables": lambda: fit("histories", labs(tangled(20)), with_labs(), "histories"),
    "learned": lambda: fit("independent", make_frame(400, repeats=3), make_schema(**LEARNED, **PATIENTS)),
    "ruled": ruled,
    "text in a database": lambda: in_a_database("independent", "csv", **PATIENTS, units="learn"),
    "histories in a database": histories_in_a_database,
    "labels by estimators": taught,
    "labels by networks": lambda: taught(teacher=Networks(steps=5)),
    "a module of the user's": trained,
}
FEW = {  # of each way to read; the others are slow to trace, or alike
    "table mixture",
    "table independent",
    "table dpgan",
    "table dpmerf",
    "images classgauss",
    "images kernel_teachers_images",
    "histories",
    "learned",
    "text in a database",
    "labels by networks",
}
DEAR = {
    **{f"{data} {name}, no unit": functools.partial(of_generator, data, name) for data, name in EVERY},
    "grids in a database": lambda: in_a_database("mixture", "parquet", **PATIENTS),
}


def besides():
    """What PRIVACY.md names besides the rings: files, and the files of the rings from which functions that were handed in are called."""
    rooms, callers = set(), set()
    for what, where, *_ in table("besides"):
        (callers if what.startswith("handed in") else rooms).update(files(where))
    return rooms, callers


def check(met):
    """What was met lies in the rings, in a file that is named, or was handed in and is called where that is named, under guard."""
    rooms, callers = besides()
    for place, function, *by in met:
        if room(place) in RINGS or place in rooms:
            continue
        called, guarded = by
        assert room(place) in HANDED_IN, f"{place}: {function} runs while records are open"
        assert called in callers, f"{place}: {function} is called by {called} while records are open"
        assert guarded, f"{place}: {function} is called by {called} without guard"


@pytest.mark.parametrize("case", sweep(CASES, FEW.__contains__))
def test_what_runs_while_records_are_open_is_trusted_and_named(case):
    met = run(case)
    assert {"seal/records.py", "seal/vectors.py", "seal/marginals.py"} & {place for place, *_ in met}
    check(met)


@pytest.mark.heavy
@pytest.mark.parametrize("case", DEAR)
def test_what_runs_while_records_are_open_is_trusted_and_named_without_units_too(case):
    CASES.update(DEAR)
    check(run(case))


@pytest.mark.heavy
def test_nothing_is_named_that_does_not_run():
    met = frozenset().union(*(run(case) for case in list(CASES)))
    rooms, callers = besides()
    assert rooms == {place for place, *_ in met if room(place) not in (*RINGS, *HANDED_IN)}
    assert callers == {by[0] for place, _, *by in met if room(place) in HANDED_IN}


@pytest.mark.parametrize(("generator", "used"), [("independent", []), ("mixture", ["seal/choice.py"])])
def test_a_declared_table_that_is_counted_trusts_ring_0_and_choices_where_it_makes_some(generator, used):
    """Ring 1 is for fits that use it: of the whole fit, not only while records are open, nothing else runs there."""
    ring = {place for name, *_, where, _, _ in table("rings") if name == "1" for place in files(where)}
    watch = Watch()
    watch.set(True)
    try:
        fit(generator, make_frame(60, repeats=3), make_schema(**PATIENTS))
    finally:
        watch.reset(None)
    met = {place for place, function, *_ in watch.met if function != "<module>"}
    assert "seal/marginals.py" in met
    assert sorted(ring & met) == used


def test_a_function_that_nobody_named_is_found():
    for met, said in (
        ({("evaluate/scores.py", "look", "seal/records.py", True)}, "scores.py: look runs while records are open"),
        ({("generators/dpgan.py", "look", "seal/records.py", True)}, "is called by seal/records.py"),
        ({("generators/dpgan.py", "look", "seal/vectors.py", False)}, "without guard"),
    ):
        with pytest.raises(AssertionError, match=said):
            check(met)


# ---- How much it is.


def lines(place):
    """Lines of code (no blank lines, comments and docstrings), and all lines, of a file."""
    text = (HOME / place).read_text(encoding="utf-8")
    said = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            said.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    none = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    held = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in none:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - said), len(text.splitlines())


def counted(names):
    return tuple(sum(column) for column in zip(*(lines(name) for name in names), strict=True))


def number(cell):
    return int(cell.replace(",", ""))


def test_the_rings_are_as_long_as_privacy_says():
    """Within 2 %, so that not every line that is changed changes the page. Every file of the rings is in one row."""
    held, found = [], {}
    for ring, _, where, code, whole in table("rings"):
        names = list(files(where))
        held += names
        found[ring] = counted(names)
        for said, true in zip((code, whole), found[ring], strict=True):
            assert math.isclose(number(said), true, rel_tol=0.02), f"ring {ring}: {said} lines are {true}"
    every = [path.relative_to(HOME).as_posix() for name in RINGS for path in sorted((HOME / name).rglob("*.py"))]
    amiss = set(held) ^ set(every)
    assert not amiss, f"{amiss}: every file of the trusted rooms stands in one row of PRIVACY.md's table of rings"
    assert found["0, its core"][0] <= MOST["0, its core"]
    trusted = found["0, its core"][0] + found["0, the rest"][0]
    assert trusted <= MOST["0"], f"ring 0 has {trusted} lines of code: build on a class that exists, or shorten one"


def test_what_runs_besides_is_as_long_as_privacy_says():
    said = re.search(r"these files have ([\d,]+) lines of code", TEXT)
    assert math.isclose(number(said[1]), counted(sorted(besides()[0]))[0], rel_tol=0.02)
