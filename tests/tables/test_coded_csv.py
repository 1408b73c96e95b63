# ruff: noqa: E501 - lists of cells
"""A CSV file read by DuckDB has the codes that it has read into memory."""

import awkward
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from synthdp import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Ordinal
from synthdp.schema.schema import Schema
from synthdp.schema.trees import Tree
from synthdp.sets import record_files
from synthdp.tables import coded, csv_cells, source, table_check

COLUMNS = (
    Identifier(name="row"),
    Identifier(name="patient"),
    Categorical(name="code", categories=("No", "Yes", "01", "?", "=1+1", "NA"), missing=True),
    Categorical(name="site", categories=("a", "b", "rest", "'=x", "=x"), other="rest"),
    Ordinal(name="grade", categories=("low", "1.0", "true")),
    Boolean(name="smoker", missing=True),
    Integer(name="age", bounds=(0, 99), atoms=(0, 40), missing=True),
    Continuous(name="money", bounds=(0.005, 3.14), decimals=2, atoms=(1.5,)),
    Datetime(name="admitted", bounds=("2020-01-01", "2021-12-31"), missing=True),
    Datetime(name="hour", bounds=("2020-01-01", "2020-12-31"), resolution="hour"),
)
SCHEMA = Schema(columns=COLUMNS, unit="patient", max_records_per_unit=2)
LABELS = [
    "No",
    "Yes",
    "01",
    "1",
    "?",
    "=1+1",
    "'=1+1",
    "''=1+1",
    "NA",
    "nan",
    "",
    "a",
    "A",
    "rest",
    "=x",
    "'=x",
    "''=x",
    "low",
    "1.0",
    "1",
    "true",
    "True",
    " a",
]
NUMBERS = [
    "0",
    "-0",
    "40",
    "40.4",
    "39.5",
    "99",
    "99.5",
    "1e2",
    "1E+1",
    "-5",
    "+7",
    ".5",
    "5.",
    "1_0",
    "1__0",
    "_1",
    " 1",
    "1 ",
    "1\t",
    "inf",
    "-Infinity",
    "nan",
    "NaN",
    "NA",
    "null",
    "",
    "1e999",
    "-1e999",
    "1e-999",
    "0.07",
    "3.145",
    "0.005",
    "1.5",
    "abc",
    "≥5",
    "1,5",
    "--1",
    "e5",
    "1e",
    "9007199254740993",
    "007",
    "x1",
    "5 5",
    "0x",
]
TIMES = ["2020-01-01", "2019-12-31", "2020-06-15T05:59:59.999999", "2020-06-15 06:00", "2020-06-15T06:00:00Z", "2020-06-15T06:00:00.5+00:00", "2021-12-31", "9999-12-31", "0001-01-01", "2021-02-30", "2020-06-15T24:00", "2020-06-15T23:59:60", "2020/01/01", "June", "", "NaT", "NA", "0000-01-01", "20", "2020-6-1", "2020-06-1"]  # fmt: skip
CELLS = {
    "patient": ["p", "q", "", "=p", "'=p", "'p", "''+1", "'-5", "-5", "\u00e9"],
    "smoker": [*awkward.TRUTHS[1:], "NA"],
    "admitted": TIMES,
    "hour": TIMES,
}


def written(path, rows=300, **cells):
    """Records that go through every cell; a list for `cells` replaces a column's."""
    rng = np.random.default_rng(0)
    lines = ["row," + ",".join(column.name for column in COLUMNS[1:])]
    for row in range(rows):
        words = [str(row)]
        for column in COLUMNS[1:]:
            kind = LABELS if isinstance(column, Categorical | Ordinal) else NUMBERS
            given = cells.get(column.name, CELLS.get(column.name, kind))
            words.append(
                '"' + str(given[row % len(given)] if row < 60 else given[rng.integers(len(given))]) + '"'
                if rng.random() < 0.5
                else ""
            )
        lines.append(",".join(words))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.heavy
def test_csv_cells_have_the_codecs_codes(tmp_path):
    path = written(tmp_path / "awful.csv")
    frame, codec = record_files.read(path, schema=SCHEMA), Codec(SCHEMA)
    with source.opened(source.csv(path)) as opened:
        found = awkward.codes_in(opened, SCHEMA)
        cells = csv_cells.typed(opened, SCHEMA)
        patients = opened.rows(cells.order_by(cells["row"].cast("int64")).select("patient"))["patient"].to_pylist()
    assert awkward.differing(found, codec.encode(frame), codec, frame) == {}
    assert patients == [None if each != each else each for each in frame["patient"]]


def test_the_pre_check_says_of_a_csv_file_what_it_says_of_its_frame(tmp_path):
    path = written(tmp_path / "awful.csv")
    with pytest.raises(BadInput) as here:
        SCHEMA.validate(record_files.read(path, schema=SCHEMA))
    with source.opened(source.csv(path)) as opened, pytest.raises(BadInput) as there:
        table_check.validate(SCHEMA, opened, "error")
    assert str(there.value) == str(here.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((Integer(name="code", bounds=(0, 5)),), "'code' is declared integer and stored as string: cast it"),
        (
            (Datetime(name="age", bounds=("2020-01-01", "2021-01-01")),),
            "'age' is declared datetime and stored as int64",
        ),
        ((Categorical(name="admitted", categories=("a",)),), "'admitted' is declared categorical and stored as date"),
        ((Categorical(name="edged", categories=("a",)),), "'edged' is declared categorical and stored as decimal"),
        (
            (Integer(name="age", bounds="learn"),),
            r"left to learn, .* 'age' \(bounds\); .* into memory \(data.engine=memory; in Python",
        ),
        (
            (Categorical(name="code", categories="learn", tree=Tree(codes=("No", "Yes"), prefix=(1,))),),
            "which codes of a tree are kept is learned from records in memory; read the table into memory",
        ),
        ((Integer(name="nothing", bounds=(0, 1)),), "missing columns: 'nothing'"),
    ],
)
def test_what_cannot_be_made_equal_is_refused_by_its_type(tmp_path, columns, message):
    names = [name for name in ("code", "age", "admitted", "edged") if name == columns[0].name]
    pq.write_table(awkward.table(5, names=names), tmp_path / "t.parquet")
    schema = Schema(columns=(Identifier(name="row"), *columns))
    with source.opened(source.parquet(tmp_path / "t.parquet")) as opened, pytest.raises(BadInput, match=message):
        coded.check(schema, opened.expression, text=False)


@pytest.mark.parametrize("rule", ["a <= b", {"together": ["c", "d"], "allowed": [["x", "x"], ["y", "y"]]}])
def test_rules_that_tie_columns_are_refused(rule):
    schema = Schema(
        columns=(
            *(Continuous(name=name, bounds=(0, 9)) for name in "ab"),
            *(Categorical(name=name, categories=("x", "y")) for name in "cd"),
        ),
        rules=(rule,),
    )
    with pytest.raises(BadInput, match="rules code several columns together"):
        coded.check_codes(Codec(schema))


def test_codes_under_a_tree_are_refused():
    """Law 40: memory tells a code by the node above it that a fit kept, and the lookup of a database would make `other` of it."""
    tree = Tree(prefix=(3,), codes=("A01.1", "A01.2", "B02.3"))
    schema = Schema(columns=(Categorical(name="code", categories=("A01", "B02", "other"), other="other", tree=tree),))
    frame = pd.DataFrame({"code": ["A01.1", "B02.3", "C03"]})
    assert Codec(schema).encode(frame)[:, 0].tolist() == [0, 1, 2]
    with pytest.raises(BadInput, match="'code': codes under a tree are read in memory only"):
        coded.check_codes(Codec(schema))


def test_a_whole_number_is_one_category_however_it_is_spelled(tmp_path):
    """Of itself, whatever the other cells are, and in both engines."""
    spelled = ["1", "1.0", "01", "+1", "1.", "0", "-0.0", "00", "", "1.5", "x", "-2", "-02.0"]
    lines = [f"{row},{cell},{cell}" for row, cell in enumerate(spelled)]
    (tmp_path / "t.csv").write_text("\n".join(["row,sex,ill", *lines]) + "\n")
    columns = (
        Categorical(name="sex", categories=(0, 1, -2, 7), other=7, missing=True),
        Boolean(name="ill", missing=True),
    )
    schema = Schema(columns=(Identifier(name="row"), *columns))
    frame, codec = record_files.read(tmp_path / "t.csv", schema), Codec(schema)
    codes = codec.encode(frame)
    assert codes[:, 0].tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 4, 3, 3, 2, 2]
    assert codes[:, 1].tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 2, 2, 2, 2, 2]
    with source.opened(source.csv(tmp_path / "t.csv")) as opened:
        found = awkward.codes_in(opened, schema)
    assert awkward.differing(found, codes, codec, frame) == {}


@pytest.mark.parametrize(
    ("name", "content", "reading", "says"),
    [
        (
            "t.csv",
            "\ufeffa;b\n1;2\n",
            {"encoding": "cp1252", "separator": ";"},
            "byte order mark of UTF-8; write encoding: utf-8-sig",
        ),
        (
            "t.csv",
            "a;b;c\n1;2;3\n",
            {"separator": ","},
            "line 1: expected ',' between the names of the columns, found none",
        ),
        ("t.tsv", "a;b;c\n1;2;3\n", {"separator": ";"}, "line 1: expected tabs between"),
    ],
)
def test_a_file_in_another_encoding_or_with_another_separator_is_told_by_its_first_line(
    tmp_path, name, content, reading, says
):
    (tmp_path / name).write_text(content, encoding="utf-8")
    columns = {column: {"kind": "integer", "bounds": [0, 9]} for column in "abc"}
    with pytest.raises(BadInput, match=says):
        record_files.read(tmp_path / name, Schema.from_dict({"units": 1, "reading": reading, "columns": columns}))


def test_words_that_stand_for_a_missing_cell_are_joined_to_nothing(tmp_path):
    """A join for each use of a column made two queries of a few rows take 6 seconds."""
    path = tmp_path / "t.csv"
    path.write_text("row,patient,code,site,grade,smoker,age,money,admitted,hour\n" + ",".join("1" * 10) + "\n")
    with source.opened(source.csv(path)) as opened, source.asking():
        backend = opened.expression.get_backend()
        query = backend.compile(csv_cells.typed(opened, SCHEMA))
        ((_, plan),) = backend.con.execute(f"EXPLAIN {query}").fetchall()
    assert "READ_CSV" in plan
    assert "JOIN" not in plan
