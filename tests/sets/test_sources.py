import csv
import gzip
import json

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clinic import said
from mixed_tables import MIXED, every_code
from sweeps import heavy, sweep

from synthdp.cli import real_records
from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Categorical, Continuous, Identifier, Integer, Schema
from synthdp.seal.records import members
from synthdp.sets import record_files
from synthdp.tables import database_url
from synthdp.tables.csvfile import neutral, restored

CODEC = Codec(MIXED)
CODES = every_code(CODEC.sizes, 300)
SLOW = (".sav", ".zsav", ".xpt", ".dta")  # whose packages take a second to load
DANGEROUS = ("=1+1", "+cmd", "-2+3", "@sum", "\tx", "\rx", "\x00x", "'=x", "''=x", "=")
HARMLESS = ("-1", "+1.5", "1=1", "a", "'a", "'", 'é, "quoted"', "two\nlines", "NA", " =1")
TEXTS = Schema(columns=(Categorical(name="=head", categories=(*DANGEROUS, *HARMLESS), missing=True),))


def frame():
    return CODEC.decode(CODES, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "T.CSV"])
def test_what_was_written_is_read(tmp_path, name):
    parts = [frame()[:100], frame()[100:100], frame()[100:]]
    assert record_files.write(iter(parts), tmp_path / name, MIXED) == 300
    back = record_files.read(tmp_path / name, MIXED)
    assert list(back.columns) == list(MIXED.names)
    np.testing.assert_array_equal(CODEC.encode(back), CODES)
    MIXED.validate(back)
    assert back["patient"].tolist() == frame()["patient"].tolist()
    expected = frame()
    for column in ("real", "money", "few", "stamp", "outcome"):
        np.testing.assert_array_equal(back[column].to_numpy(), expected[column].to_numpy())


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_no_records_are_a_table_too(tmp_path, name):
    assert record_files.write([], tmp_path / name, MIXED) == 0
    back = record_files.read(tmp_path / name, MIXED)
    assert CODEC.encode(back).shape == (0, len(CODEC.names))


def failing():
    yield frame()
    raise RuntimeError("the model broke")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_never_half_written(tmp_path, name):
    with pytest.raises(RuntimeError):
        record_files.write(failing(), tmp_path / name, MIXED)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).write_text("an older file")
    with pytest.raises(RuntimeError):
        record_files.write(failing(), tmp_path / name, MIXED, force=True)
    assert (tmp_path / name).read_text() == "an older file"
    assert len(list(tmp_path.iterdir())) == 1


def test_csv_injection_is_neutralised_listed_and_undone(tmp_path):
    out = tmp_path / "t.csv"
    codec = Codec(TEXTS)
    codes = every_code(codec.sizes, 2 * codec.sizes[0])
    record_files.write([codec.decode(codes, np.random.default_rng(0))], out, TEXTS)
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(line.replace("\0", "\N{SYMBOL FOR NULL}") for line in file))
    assert rows[0] == ["'=head"]
    first = {row[0][0] for row in rows[1:] if row and row[0] and row[0] not in ("-1", "+1.5")}
    assert not first & set("=+-@\t\r\N{SYMBOL FOR NULL}")
    listed = json.loads((tmp_path / "t.csv.neutralised.json").read_text())
    assert listed["columns"] == {"=head": sorted(DANGEROUS)}
    assert listed["header"] == ["=head"]
    np.testing.assert_array_equal(codec.encode(record_files.read(out, TEXTS)), codes)


def test_numbers_are_untouched_and_nothing_is_listed(tmp_path):
    schema = Schema(columns=(Integer(name="i", bounds=(-5, -1)), Categorical(name="c", categories=("-1", "0"))))
    record_files.write([pd.DataFrame({"i": [-1, -5], "c": ["-1", "0"]})], tmp_path / "t.csv", schema)
    assert (tmp_path / "t.csv").read_text().splitlines() == ['"i","c"', '-1,"-1"', '-5,"0"']
    assert len(list(tmp_path.iterdir())) == 1


# All but .sas7bdat, which is only read.
@pytest.mark.parametrize(
    "ending", sweep(sorted({*record_files.ENDINGS} - {".sas7bdat"}), lambda ending: ending not in SLOW)
)
def test_a_file_that_is_there_is_replaced_by_force_alone(tmp_path, ending):
    schema, out = Schema(columns=(Categorical(name="c", categories=("a", "b")),)), tmp_path / f"t{ending}"
    out.write_text("real records")
    with pytest.raises(BadInput, match=r"exists; choose another name, or pass force=true \(in Python force=True\)"):
        record_files.write(pd.DataFrame({"c": ["a"]}), out, schema)
    assert out.read_text() == "real records"
    record_files.write(pd.DataFrame({"c": ["a"]}), out, schema, force=True)
    assert list(record_files.read(out, schema)["c"]) == ["a"]


@pytest.mark.parametrize("ending", [".csv", ".parquet", heavy(".xlsx"), heavy(".sav")])
def test_what_a_schema_accepts_can_be_written(tmp_path, ending):
    """Numbers that name somebody, and codes that a frame holds as numbers."""
    schema = Schema(
        columns=(Identifier(name="id"), Categorical(name="c", categories=("1", "x")), Integer(name="i", bounds=(0, 9)))
    )
    frame = pd.DataFrame({"id": [7, 8], "c": [1, 1], "i": [3, 4]})
    record_files.write(schema.validate(frame), tmp_path / f"t{ending}", schema)
    back = record_files.read(tmp_path / f"t{ending}", schema)
    assert [list(map(str, back[name])) for name in back] == [["7", "8"], ["1", "1"], ["3", "4"]]


def test_a_column_that_is_not_of_its_kind_is_named(tmp_path):
    schema = Schema(columns=(Integer(name="age", bounds=(0, 9)),))
    with pytest.raises(BadInput, match=r"column 'age' is not of the schema's kind; schema\.validate") as caught:
        record_files.write(pd.DataFrame({"age": ["secret"]}), tmp_path / "t.parquet", schema)
    assert "secret" not in str(caught.value)


def test_a_listing_of_an_older_file_goes(tmp_path):
    out = tmp_path / "t.csv"
    schema = Schema(columns=(Categorical(name="c", categories=("=a", "b")),))
    record_files.write([pd.DataFrame({"c": ["=a"]})], out, schema)
    assert (tmp_path / "t.csv.neutralised.json").exists()
    record_files.write([pd.DataFrame({"c": ["b"]})], out, schema, force=True)
    assert not (tmp_path / "t.csv.neutralised.json").exists()


@pytest.mark.parametrize("text", [*DANGEROUS, *HARMLESS, ""])
def test_neutral_texts_are_restored_exactly(text):
    assert restored(neutral(text)) == text
    if text in DANGEROUS:
        assert neutral(text).startswith("'")
    else:
        assert neutral(text) == text


def write(tmp_path, text, name="t.csv"):
    (tmp_path / name).write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return tmp_path / name


def test_types_come_from_the_schema(tmp_path):
    schema = Schema(
        columns=(
            Identifier(name="id"),
            Categorical(name="code", categories=("01", "NA", "No"), missing=True),
            Integer(name="n", bounds=(0, 9), missing=True),
        )
    )
    back = record_files.read(write(tmp_path, "id,code,n\n007,01,1\n008,NA,NA\n009,,\n010,null,3\n"), schema)
    assert back["id"].tolist() == ["007", "008", "009", "010"]
    assert back["code"].isna().tolist() == [False, False, True, True]
    assert back["code"].tolist()[:2] == ["01", "NA"]
    assert back["n"].dropna().tolist() == [1, 3]
    schema.validate(back)


def test_odd_cells_are_left_for_the_pre_check(tmp_path):
    schema = Schema(columns=(Integer(name="n", bounds=(0, 9)), Integer(name="m", bounds=(0, 9))))
    back = record_files.read(write(tmp_path, "n,m\n1,1.5\nCANARY,2\n"), schema)
    message = said(schema.validate, back)
    assert "'n': some values are not numbers" in message
    assert "'m': some values are not whole" in message
    assert "CANARY" not in message


@pytest.mark.parametrize("kind", [Integer, Continuous])
@pytest.mark.parametrize(
    "cell",
    ["0x10", "-0X1F", "7", "+7", " 7", "7.", "7.5", "7e0", "-0", "1_0", "1e400", "INF", "NAN", "nan(1)", "7,5", "x"],
)
def test_what_a_cell_is_depends_on_no_other(tmp_path, kind, cell):
    schema = Schema(columns=(kind(name="n", bounds=(0, 20), missing=True), Integer(name="m", bounds=(0, 1))))

    def found(other):
        column = record_files.read(write(tmp_path, f'm,n\n0,"{cell}"\n1,"{other}"\n'), schema)["n"]
        value = column.iloc[0]
        return value if isinstance(value, str) else None if pd.isna(value) else float(value)

    alone = found("")
    assert all(found(other) == alone for other in (cell, "5", "5.0", "0x5", "nan(2)", " 5", "1e3", "odd"))
    assert isinstance(alone, str) == (cell in ("0x10", "-0X1F", "1_0", "nan(1)", "7,5", "x"))


def test_without_a_schema_codes_stay_text(tmp_path):
    back = record_files.read(write(tmp_path, "zip;n;x;t;e\n01234;1;1.5;a;\n99999;;2;NA;\n"))
    assert back["zip"].tolist() == ["01234", "99999"]
    assert back["n"].dropna().tolist() == [1]
    assert back["x"].tolist() == [1.5, 2.0]
    assert back["t"].isna().tolist() == [False, True]
    assert back["e"].isna().all()


def test_byte_order_mark_and_line_ends(tmp_path):
    assert list(record_files.read(write(tmp_path, "\ufeffa,b\r\n1,2\r\n")).columns) == ["a", "b"]


def test_one_column_with_missing_cells_keeps_its_rows(tmp_path):
    assert len(record_files.read(write(tmp_path, "a\n1\n\n3\n"))) == 3


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.csv", "a,b,a\n1,2,3\n", "columns 1 and 3 of the header have the same name"),
        pytest.param("t.csv", "CANARY,1,CANARY,b,CANARY\n", "columns 1, 3 and 5 of the header have", id="no header"),
        ("t.csv", "a,,b\n1,2,3\n", "column 2 has no name"),
        ("t.csv", "", "is empty"),
        ("t.csv", "\n\n", "is empty"),
        ("t.parquet", "", "is empty"),
        ("t.csv", "a,b\n1,2\nCANARY,2,3\n", "line 3: expected 2 cells, as many as in the header, found 3"),
        (
            "t.csv",
            b"a,b\n1,CANARY\xff\xfe\n",
            "line 2: expected UTF-8 text; save the file as UTF-8, or, unless it is a list of pictures",
        ),
        ("t.csv", 'a,b\n"1\n2",2\n3,"CANARY\n4,5\n', "line 4: a quote is opened and not closed"),
        ("t.csv", 'a,b\n"1\n2",2\n\n3\n', "line 5: expected 2 cells"),
        ("t.csv.gz", "a,b\nCANARY,2\n", "gzip"),
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 9, mtime=0)[:-12], "cannot be read|gzip"),
        ("t.parquet", "CANARY" * 10, "Parquet"),
        ("t2003.xls", "CANARY", "must end in .csv, .csv.gz, .tsv, .tsv.gz, .parquet, .xlsx"),
    ],
)
def test_broken_files(tmp_path, name, content, says):
    message = said(record_files.read, write(tmp_path, content, name))
    assert name in message
    assert any(part in message for part in says.split("|"))
    assert "CANARY" not in message


def test_absent_files(tmp_path):
    assert "no such file" in said(record_files.read, tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in said(record_files.read, tmp_path / "folder.csv")
    assert "is a folder" in said(record_files.write, [], tmp_path / "folder.csv", MIXED)
    assert "cannot be written" in said(record_files.write, [], tmp_path / "no" / "t.csv", MIXED)
    refusal = said(record_files.write, [], tmp_path / "t.txt", MIXED)
    assert "must end in" in refusal
    assert ".xpt" in refusal
    assert ".sas7bdat" not in refusal, "it is only read"


@pytest.mark.parametrize("name", ["t.txt", "T.DAT"])
def test_a_text_file_is_refused_with_a_remedy(tmp_path, name):
    assert said(record_files.read, write(tmp_path, "a;b\n1;2\n", name)).endswith(
        "rename a text file of columns between separators to .csv"
    )


def test_duplicate_columns_in_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_arrays([[1], [2]], names=["a", "a"]), tmp_path / "t.parquet")
    assert "duplicate columns 'a'" in said(record_files.read, tmp_path / "t.parquet")


def test_a_saved_index_is_a_column_again(tmp_path):
    pd.DataFrame({"patient": ["x", "y"], "n": [1, 2]}).set_index("patient").to_parquet(tmp_path / "t.parquet")
    assert list(record_files.read(tmp_path / "t.parquet").columns) == ["patient", "n"]


def test_frames_that_are_not_the_schemas_are_not_written(tmp_path):
    schema = Schema(columns=(Integer(name="n", bounds=(0, 9)),))
    for name in ("t.csv", "t.parquet"):
        message = said(record_files.write, [pd.DataFrame({"n": ["CANARY"]})], tmp_path / name, schema)
        assert "CANARY" not in message
    assert list(tmp_path.iterdir()) == []


LONG = 999_000_041_000_000_103  # a code of SNOMED's extensions: beyond 2^53, above which floats hold no odd number


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int32(), pa.string(), pa.float64(), pa.bool_()])
@pytest.mark.parametrize("parts", [False, True])
def test_an_empty_cell_changes_no_other_in_parquet(tmp_path, kind, parts):
    """Law 21: pandas would make floats of a column of whole numbers because of one missing cell, here or in another file."""
    value = {pa.string(): str(LONG), pa.float64(): 1.5, pa.bool_(): True, pa.int32(): 2**31 - 1}.get(kind, LONG)
    text = str(value)
    schema = Schema.from_dict(
        {
            "columns": {
                "code": {"kind": "categorical", "categories": [text, "rest"], "other": "rest", "missing": True}
            },
            "declared_by": "test",
        }
    )
    found = []
    for extra in ([], [None]):
        where = tmp_path / f"parts{len(extra)}"
        where.mkdir()
        files = [[value] * 3, extra or [value]] if parts else [[value] * 3 + extra]
        for number, held in enumerate(files):
            pq.write_table(pa.table({"code": pa.array(held, kind)}), where / f"{number}.parquet")
        frame = real_records._read(str(where), schema) if parts else record_files.read(where / "0.parquet", schema)
        found.append(Codec(schema).encode(schema.validate(frame))[:3, 0].tolist())
    assert found == [[0, 0, 0]] * 2


def test_units_that_are_stored_as_floats_are_refused_by_type(tmp_path):
    schema = Schema.from_dict(
        {
            "columns": {"patient": {"kind": "identifier"}, "ill": {"kind": "boolean"}},
            "unit": "patient",
            "max_records_per_unit": 2,
            "declared_by": "test",
        }
    )
    ids = [2**60 + i for i in range(20)]
    for kind, name in (("float64", "float64"), ("Float64", "Float64"), ("complex", "complex128")):
        frame = pd.DataFrame({"patient": pd.Series([1.0, 2.0]).astype(kind), "ill": [True, False]})
        for held in (frame, frame.astype({"patient": "category"})):
            with pytest.raises(
                BadInput, match=f"'patient' is stored as ({name}|category), which cannot tell long numbers apart"
            ):
                schema.validate(held, invalid="clamp")
    pq.write_table(pa.table({"patient": [*ids, None], "ill": [True] * 21}), tmp_path / "a.parquet")
    frame = schema.validate(record_files.read(tmp_path / "a.parquet", schema), invalid="clamp")
    assert len(set(cells.texts(frame["patient"]))) == 21


IDS = 10**17 + np.arange(20)
NAMED = {
    "columns": {"patient": {"kind": "identifier"}, "ill": {"kind": "boolean"}},
    "unit": "patient",
    "max_records_per_unit": 2,
    "declared_by": "test",
}
LINKED = {
    "unit": "patient",
    "declared_by": "test",
    "tables": {
        "person": {"key": "patient", "columns": {"ill": {"kind": "boolean"}}},
        "visit": {
            "parent": "person",
            "order": "start",
            "max_rows": 2,
            "columns": {"start": {"kind": "datetime", "bounds": ["2020-01-01", "2021-01-01"]}},
        },
    },
}


def saved(path, ids):
    """As pandas writes it: one missing id turns all others into floats, which may merge several people into one."""
    pd.DataFrame({"patient": ids, "ill": True, "start": pd.Timestamp("2020-02-02")}).to_parquet(path)
    return path


@pytest.mark.parametrize("reading", [None, {"strip": True}, {"missing": ["-9"]}], ids=["plain", "strip", "missing"])
def test_no_reading_hides_that_keys_are_floats(tmp_path, reading):
    schema = Schema.from_dict(
        {**NAMED, "columns": {**NAMED["columns"], "start": {"kind": "ignore"}}, "reading": reading}
    )
    tables = {name: {**table, "reading": reading} for name, table in LINKED["tables"].items()}
    tables["person"]["columns"] = {"ill": {"kind": "boolean"}, "start": {"kind": "ignore"}}
    tables["visit"]["columns"] = {**tables["visit"]["columns"], "ill": {"kind": "ignore"}}
    linked = Schema.from_dict({**LINKED, "tables": tables})
    address = database_url.address(f"duckdb:///{tmp_path / 't.duckdb'}#person")

    def written(ids):
        with duckdb.connect(str(tmp_path / "t.duckdb")) as database:
            for name in ("person", "visit"):
                path = saved(tmp_path / f"{name}.parquet", ids)
                database.execute(f"CREATE OR REPLACE TABLE {name} AS FROM '{path}'")

    whole = address.url + "#main"
    one = [
        lambda: record_files.read(tmp_path / "person.parquet", schema),
        lambda: record_files.from_database(address, schema),
    ]
    many = [
        lambda: record_files.read_tables(tmp_path, linked),
        lambda: record_files.tables_from_database(database_url.address(whole), linked),
    ]
    written(pd.Series(IDS))
    for read in one:
        assert len(set(cells.texts(schema.validate(read(), "clamp")["patient"]))) == 20
    for read in many:
        assert len(set(cells.texts(linked.validate_tables(read(), "clamp")["visit"]["patient"]))) == 20
    written(pd.Series([*IDS, None], dtype="float64"))
    for read in one:
        assert "'patient' is stored as float64" in said(schema.validate, read(), "clamp")
    for read in many:
        assert "table 'person': the key 'patient' is stored as float64" in said(linked.validate_tables, read(), "clamp")


def test_no_file_hides_that_another_one_s_units_are_floats(tmp_path):
    schema = Schema.from_dict({**NAMED, "columns": {**NAMED["columns"], "start": {"kind": "ignore"}}})
    saved(tmp_path / "b.parquet", pd.Series(IDS))
    for kind in ("int64", "str"):
        saved(tmp_path / "a.parquet", pd.Series([7]).astype(kind))
        assert len(set(cells.texts(real_records._read(str(tmp_path), schema)["patient"]))) == 21
    saved(tmp_path / "b.parquet", pd.Series([*IDS, None], dtype="float64"))
    for kind in ("int64", "str"):
        saved(tmp_path / "a.parquet", pd.Series([7]).astype(kind))
        assert "b.parquet: the unit column 'patient' is stored as float64" in said(
            real_records._read, str(tmp_path), schema
        )


def test_a_column_that_another_file_lacks_is_read_as_it_is_alone(tmp_path):
    schema = Schema(
        columns=(Integer(name="n", bounds=(0, 9)), Categorical(name="code", categories=(str(LONG),), missing=True))
    )
    pd.DataFrame({"n": [1], "code": [LONG]}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"n": [2]}).to_parquet(tmp_path / "b.parquet")
    assert cells.texts(real_records._read(str(tmp_path), schema)["code"]) == [str(LONG), None]


def test_a_float_that_may_be_several_keys_names_nobody():
    schema = Schema.from_dict(NAMED)
    held = [2.0**53 - 1, 7, "7", 2.0**53, -1e17, np.inf, np.float32(2**24), 2**53, None]
    frame = pd.DataFrame({"patient": pd.Series(held, dtype=object), "ill": True})
    assert cells.keys(frame["patient"]) == ["9007199254740991", "7", "7", "", "", "", "", "9007199254740992", ""]
    assert [name.decode() for name in members(frame, "patient")[1]] == ["9007199254740991", "7", "", "9007199254740992"]
    assert schema.validate(frame, "clamp") is not None
    for rows in (slice(3, 4), slice(6, 7)):
        assert "'patient': some values are missing in the unit column" in said(schema.validate, frame[rows])
    schema.validate(frame[:3])


def test_a_folder_that_is_not_there_is_missing_and_has_no_wrong_ending(tmp_path):
    assert said(record_files.look, tmp_path / "tables") == f"{tmp_path / 'tables'}: no such file or folder"
