"""Generators with small settings, and the made-up records of `synthdp.testing`."""

import functools
import hashlib
import json
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from synthdp import BadInput, Schema, generators
from synthdp.cli import run
from synthdp.ledger.ledger import GENESIS
from synthdp.report import manifest
from synthdp.testing.made_up import SIDE, SMALL, make_frame, make_pictures, make_schema, picture_schema

__all__ = ["SIDE", "make_frame", "make_pictures", "make_schema", "picture_schema"]  # which tests import from here


def contracts(data="table"):
    """Every generator of tables, or of images, and every further mode of one as "name:mode"."""
    names = generators.able(lambda traits: data in traits.kinds)
    return [each for name in names for each in (name, *(key for key in SMALL[data] if key.startswith(f"{name}:")))]


@functools.cache  # entry points are looked up on disk
def kind_of(name):
    """The settings class behind a name of `contracts`."""
    return generators.find(name.partition(":")[0])


def quick(name, data="table", **settings):
    """The generator with small settings."""
    return kind_of(name)(**{**SMALL[data].get(name, {}), **settings})


class Opened(Exception):
    """The records were looked at."""


class Untouchable(pd.DataFrame):
    """Stands for records that nobody has a reason to look at yet."""

    def __getattribute__(self, name):
        if name == "__class__":  # what it is may be asked
            return Untouchable
        raise Opened(name)


def untouched():
    """A frame that raises `Opened` when it is looked at."""
    return Untouchable.__new__(Untouchable)


def booleans(what, rows, seed=0):
    """A schema and a frame of two "equal" columns, or of "three", two of which agree in nine rows of ten."""
    rng = np.random.default_rng(seed)
    first = rng.random(rows) < (0.5 if what == "equal" else 0.8)
    columns = {"a": first, "b": first}
    if what == "three":
        columns = {"a": first, "b": np.where(rng.random(rows) < 0.9, first, ~first), "c": rng.random(rows) < 0.3}
    declared = {"units": rows, "declared_by": "the tests", "columns": {name: {"kind": "boolean"} for name in columns}}
    return Schema.from_dict(declared), pd.DataFrame(columns)


def reseal(folder):
    """The manifest of a release made anew, as a forger makes it; a signature stays what it was."""
    manifest.write(folder)


def rewrite(path, table, bodies):
    """Write the chain of an account anew, with hashes that follow from one another: what only somebody who means it can do."""
    head, rows = GENESIS, []
    for number, text in enumerate(bodies, 1):
        raw = text.encode(errors="surrogateescape")
        digest = hashlib.sha256(head.encode() + raw).hexdigest()
        rows.append((number, raw, head, digest))
        head = digest
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
        connection.executemany(f"INSERT INTO {table} VALUES (?, CAST(? AS TEXT), ?, ?)", rows)  # noqa: S608


def chained(rows):
    """The ledger of a forger who knows how lines are chained."""
    head, lines = GENESIS, []
    for row in rows if isinstance(rows, list) else [rows]:
        known = isinstance(row, dict)
        body = {name: value for name, value in row.items() if name not in ("previous", "hash")} if known else row
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        following = hashlib.sha256((head + text).encode()).hexdigest()
        row = {**body, "previous": head, "hash": following} if known else body
        lines.append(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n")
        head = following
    return "".join(lines)


def said(call, *arguments):
    """The one line that a bad input gets, in which no record's value stands; no other warning or error escapes."""
    with pytest.raises(BadInput) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    assert "CANARY" not in str(caught.value)
    return str(caught.value)


def refused(capsys, *words):
    """The one line that a command gets which is refused."""
    capsys.readouterr()
    status, error = run([str(word) for word in words]), capsys.readouterr().err.strip()
    assert status == 2
    assert len(error.splitlines()) == 1, error
    assert "Traceback" not in error
    return error


def in_files(folder, rows=300):
    """Made-up records and their schema in files; the words that name them."""
    make_frame(rows).to_csv(folder / "train.csv", index=False)
    make_schema().save(folder / "schema.yaml")
    return [f"data.path={folder / 'train.csv'}", f"data.schema={folder / 'schema.yaml'}"]
