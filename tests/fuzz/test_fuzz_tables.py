"""Tables: CSV cell by cell and byte by byte, Parquet of any types and with flipped bytes; read, checked, drafted and encoded."""

import gzip
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clinic import make_frame, make_schema
from fuzzing import TEXTS, flipped, fuzz
from hypothesis import strategies as st

from synthdp.errors import BadInput
from synthdp.schema import yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.sets import record_files
from synthdp.sets.draft import draft

COMPAT = Path(__file__).parents[1] / "compat" / "format1"
KINDS = Schema.load(COMPAT / "schemas" / "kinds.yaml")
pytestmark = pytest.mark.fuzz


def use(path):
    for schema in (KINDS, make_schema()):
        with suppress(BadInput):
            frame = schema.validate(record_files.read(path, schema), "clamp")
            if not schema.learned:
                Codec(schema).encode(frame)
    draft(record_files.read(path), path)
    if path.suffix != ".parquet":
        use_as_found(path)


def use_as_found(path):
    """A schema that is written as its own draft says reads the file, writes it, and reads what it wrote."""
    found = record_files.look(path)
    drafted = yamlfile.parse(draft(found.frame, path, found=found).schema.replace("TODO", "dd.mm.yyyy"), "draft")
    schema = Schema.from_dict(drafted)
    schema.validate(record_files.read(path, schema), "clamp")
    if not schema.learned:
        codec = Codec(schema)
        codes = codec.encode(record_files.read(path, schema))
        written = path.with_name(f"written.{path.name}")
        record_files.write([codec.decode(codes, np.random.default_rng(0))], written, schema, force=True)
        assert (codec.encode(record_files.read(written, schema)) == codes).all()


CELLS = st.one_of(
    TEXTS,
    st.sampled_from(
        [
            "1",
            "0",
            "-1.5",
            "1e308",
            "1e999",
            "0x1F",
            "NA",
            "true",
            "2020-01-31",
            "31.01.2020",
            "01/02/20 10:11",
            "1,5",
            "1.234,5",
            "-9",
            ".",
            "Ja",
            " nein\u00a0",
            "a b c d e f g h i j k l",
            "9999-12-31T23:59:59Z",
            "0000-00-00",
            '"',
            "'",
            ",",
            "a,b",
            "١",
        ]
    ),
    st.integers().map(str),
    st.floats().map(str),
)


def test_csv_cells(tmp_path):
    names = st.one_of(st.sampled_from([*KINDS.names, *make_schema().names]), CELLS)

    def prop(header, rows, mark, packed, encoding):
        path = tmp_path / f"a.csv{'.gz' * packed}"
        lines = [mark.join(each) for each in (header, *rows)]
        data = "\n".join(lines).encode(encoding, "replace")
        path.write_bytes(gzip.compress(data) if packed else data)
        use(path)

    rows = st.lists(st.lists(CELLS, min_size=1, max_size=5), max_size=6)
    whole = st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), max_size=6))
    fuzz(
        prop, header=st.lists(names, min_size=1, max_size=5), rows=st.one_of(whole, rows), mark=st.sampled_from([",", ";", "\t"]),
        packed=st.booleans(), encoding=st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "cp1252", "utf-16"]),
    )  # fmt: skip


def test_csv_bytes(tmp_path):
    kept = (COMPAT / "tables" / "kinds.csv").read_bytes()[:3000]
    record_files.write([make_frame(20)], tmp_path / "made.csv", make_schema())
    held = [kept, gzip.compress(kept), (tmp_path / "made.csv").read_bytes()]

    def prop(data):
        path = tmp_path / f"b.csv{'.gz' if data.startswith(bytes([31, 139])) else ''}"
        path.write_bytes(data)
        use(path)

    fuzz(prop, data=st.sampled_from(held).flatmap(flipped))


VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1), pa.uint64(): st.integers(0, 2**64 - 1), pa.float64(): st.floats(),
    pa.string(): st.text(max_size=6), pa.binary(): st.binary(max_size=6), pa.bool_(): st.booleans(), pa.date32(): st.dates(),
    pa.date64(): st.dates(), pa.timestamp("ns"): st.integers(-(2**62), 2**62), pa.timestamp("us", "UTC"): st.integers(-(2**60), 2**60),
    pa.time64("us"): st.times(), pa.duration("s"): st.integers(-(2**40), 2**40), pa.decimal128(20, 3): st.integers(-(10**9), 10**9),
    pa.list_(pa.int64()): st.lists(st.integers(0, 3), max_size=3), pa.struct([("a", pa.int64())]): st.just({"a": 1}),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["a", "b"]), pa.null(): st.none(), pa.float16(): st.just(None),
    pa.map_(pa.string(), pa.int64()): st.just([("a", 1)]), pa.large_string(): st.text(max_size=3),
}  # fmt: skip


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 5))
    names = draw(
        st.lists(
            st.one_of(st.sampled_from([*KINDS.names, *make_schema().names]), st.text(max_size=5)),
            min_size=0,
            max_size=5,
        )
    )
    arrays = []
    for _ in names:
        kind = draw(st.sampled_from(list(VALUES)))
        arrays.append(pa.array(draw(st.lists(st.one_of(st.none(), VALUES[kind]), min_size=rows, max_size=rows)), kind))
    return pa.Table.from_arrays(arrays, names=names)


def test_parquet_tables(tmp_path):
    def prop(table, small):
        path = tmp_path / "c.parquet"
        with suppress(pa.ArrowException):
            pq.write_table(table, path, row_group_size=2 if small else None)
            use(path)

    fuzz(prop, table=tables(), small=st.booleans())


def test_parquet_bytes(tmp_path):
    record_files.write([make_frame(20)], tmp_path / "made.parquet", make_schema())
    whole = (tmp_path / "made.parquet").read_bytes()

    def prop(data):
        path = tmp_path / "d.parquet"
        path.write_bytes(data)
        use(path)

    fuzz(prop, data=flipped(whole))


READINGS = st.fixed_dictionaries(
    {},
    optional={
        "encoding": st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16"]),
        "separator": st.sampled_from([",", ";", "tab", "|"]),
        "decimal": st.sampled_from([".", ","]),
        "strip": st.booleans(),
        "missing": st.lists(CELLS, max_size=3),
        "columns": st.dictionaries(
            st.sampled_from(KINDS.names),
            st.fixed_dictionaries(
                {},
                optional={
                    "missing": st.lists(CELLS, max_size=2),
                    "date": st.sampled_from(["dd.mm.yyyy", "d/m/yy", "ddmmmyyyy HH:MM", "yyyy"]),
                    "latest": st.integers(0, 9999),
                    "words": st.lists(CELLS, min_size=2, max_size=2),
                    "decimal": st.sampled_from([".", ","]),
                    "places": st.integers(-1, 20),
                },
            ),
            max_size=3,
        ),
    },
)


def test_csv_cells_of_any_reading(tmp_path):
    """What is written by a reading is read back by it, code for code."""

    def prop(values, seed):
        schema = Schema.from_dict({**KINDS.to_dict(), "reading": values})
        schema.check_declared()
        assert Schema.from_dict(schema.to_dict()) == schema
        codec = Codec(schema)
        codes = codec.encode(
            codec.decode(
                np.random.default_rng(seed).integers(0, codec.sizes, (8, len(codec.sizes))), np.random.default_rng(1)
            )
        )
        record_files.write([codec.decode(codes, np.random.default_rng(0))], tmp_path / "e.csv", schema, force=True)
        assert (codec.encode(record_files.read(tmp_path / "e.csv", schema)) == codes).all()

    fuzz(prop, values=READINGS, seed=st.integers(0, 9))


def test_texts_that_stand_for_numbers_and_times_of_day(tmp_path):
    """Whatever texts a schema lists, and whatever the cells hold: read or refused in a line, and read again as written."""
    written = CELLS.filter(lambda text: not any(0xD800 <= ord(each) < 0xE000 for each in text))
    limits = st.sampled_from(["<5", ">1.000", "< 0,5", "1e3", "NA", "neg", "<", "-", "5", "=1", " <5", "\u2264 2"])

    def prop(numbers, time, decimal, strip, rows):
        number = {"kind": "continuous", "bounds": [0, 2000], "atoms": list(numbers.values()), "missing": True}
        columns = {"a": number, "at": {"kind": "integer", "bounds": [0, 1439], "missing": True}}
        coding = {"a": {"numbers": numbers, "missing": ["-9"]}, "at": {} if time is None else {"time": time}}
        reading = {"decimal": decimal, "strip": strip, "separator": ";", "columns": coding}
        schema = Schema.from_dict({"declared_by": "fuzz", "columns": columns, "reading": reading})
        schema.check_declared()
        path = tmp_path / "n.csv"
        path.write_text("a;at\n" + "".join(f"{a};{at}\n" for a, at in rows), encoding="utf-8")
        codec = Codec(schema)
        codes = codec.encode(schema.validate(record_files.read(path, schema), "clamp"))
        record_files.write([codec.decode(codes, np.random.default_rng(0))], tmp_path / "m.csv", schema, force=True)
        assert (codec.encode(record_files.read(tmp_path / "m.csv", schema)) == codes).all()

    plain = st.one_of(limits, st.sampled_from(["1,5", "2.5", "08:35", "24:00", "8:05", "00:00:00", "-9", ""]), written)
    cells = plain.filter(lambda text: not set(text) & set(';"\n\r\x00'))
    fuzz(
        prop, numbers=st.dictionaries(st.one_of(limits, written), st.sampled_from([0, 2.5, 1001, 2000.0]), max_size=3),
        time=st.sampled_from([None, "HH:MM", "H:MM", "HH:MM:SS", "hh"]), decimal=st.sampled_from([".", ","]), strip=st.booleans(),
        rows=st.lists(st.tuples(cells, cells), max_size=6),
    )  # fmt: skip


@pytest.mark.parametrize("ending", [".xlsx", ".dta", ".sav", ".xpt"])
def test_bytes_of_other_programs(tmp_path, ending):
    """Their parsers are not ours: whatever they make of a file, its reader says so in a line, and this process goes on."""
    pytest.importorskip("pyreadstat", reason="needs the extra formats")
    pytest.importorskip("xlsxwriter", reason="needs the extra formats")
    record_files.write([make_frame(20)], tmp_path / f"made{ending}", make_schema())
    whole = (tmp_path / f"made{ending}").read_bytes()
    if ending == ".xlsx":  # of a packed file most changes are found before its cells are looked at
        with zipfile.ZipFile(tmp_path / "made.xlsx") as packed:
            parts = {name: packed.read(name) for name in packed.namelist()}
    path = tmp_path / f"f{ending}"

    def prop(data):
        if ending == ".xlsx" and data[:2] != b"PK":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
                for name, part in parts.items():
                    packed.writestr(name, data if name.endswith("sheet1.xml") else part)
        else:
            path.write_bytes(data)
        with suppress(BadInput):
            found = record_files.look(path)
            draft(found.frame, path, found=found)
        with suppress(BadInput):
            make_schema().validate(record_files.read(path, make_schema()), "clamp")

    cells = flipped(parts["xl/worksheets/sheet1.xml"]) if ending == ".xlsx" else st.nothing()
    fuzz(prop, data=st.one_of(flipped(whole), cells))
