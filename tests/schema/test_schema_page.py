"""docs/schema.md has every key that the parser accepts, and no other; its examples are read."""

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from synthdp.schema import code_lists, linked_tables, yamlfile
from synthdp.schema.columns import KINDS
from synthdp.schema.file_coding import Coding, Reading
from synthdp.schema.schema import MARKS, Schema
from synthdp.schema.trees import Tree

PAGE = (Path(__file__).parents[2] / "docs" / "schema.md").read_text(encoding="utf-8")
WHOLE = "The whole table"
PARTS = {WHOLE: Schema, **KINDS, "reading": Reading, "reading.columns": Coding, "tree": Tree}
BESIDE = {"ignored", "name", "numbers"}  # of the classes, and no keys: a column's name is where its keys stand


def section(name):
    """The text below a heading, up to the next one."""
    return re.search(rf"^##+ `?{re.escape(name)}`?\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]


def keys(text):
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


@pytest.mark.parametrize("name", PARTS)
def test_a_section_has_the_keys_of_its_class(name):
    known = {field.name for field in fields(PARTS[name])}
    if name in KINDS:
        known -= {*BESIDE, *MARKS}
    elif name == WHOLE:
        known -= {"ignored"}
    elif name == "reading.columns":
        known -= {"rows"}  # no file says it
    assert sorted(keys(section(name))) == sorted(known)
    assert ("|---" in section(name)) == bool(known)  # a table without rows says nothing


def test_all_kinds_have_their_marks():
    assert sorted(keys(section("Columns"))) == sorted(["kind", *MARKS])
    assert set(re.findall("^### `(\\w+)`$", PAGE, re.MULTILINE)) == set(KINDS)


def example(name):
    return yamlfile.parse(re.search(r"```yaml\n(.*?)```", section(name), re.DOTALL)[1], name)


def test_examples_of_the_whole_and_of_its_reading_are_read():
    whole = example(WHOLE)
    assert set(whole) == {field.name for field in fields(Schema)} - {"ignored", "tables"}
    linked = example("Linked tables")
    assert (
        {key for table in linked["tables"].values() for key in table}
        == set(keys(section("Linked tables")))
        == set(linked_tables.KNOWN)
    )
    Schema.from_dict(linked)
    Schema.from_dict(whole).check_declared()
    assert set(example("tree")) == {field.name for field in fields(Tree)}
    Tree.from_dict(example("tree"))
    assert set(example("reading")) == {field.name for field in fields(Reading)}
    Reading.from_dict(example("reading"))


@pytest.mark.parametrize("kind", KINDS)
def test_examples_of_columns_are_read(tmp_path, kind):
    """With every key that has no default, and most that have one."""
    (tmp_path / "icd10.csv").write_text("code,title\nA00,Cholera\n")
    columns = example(kind)
    required = {field.name for field in fields(KINDS[kind]) if field.default is MISSING} - BESIDE
    assert required <= {key for column in columns.values() for key in column}
    read = code_lists.resolved({"columns": {"x": {"kind": "boolean"}, **columns}}, tmp_path)
    assert {column.kind for column in Schema.from_dict(read).columns} | {"ignore"} >= {kind}


def test_examples_of_codings_use_every_key():
    codings = example("reading.columns")
    assert {key for coding in codings.values() for key in coding} == {field.name for field in fields(Coding)} - {"rows"}
    Reading.from_dict({"columns": codings})
