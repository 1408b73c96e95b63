"""A draft finds how a file is written: on all of it, from public lists, and leaves open or refuses what the cells do not tell."""

import numpy as np
import pandas as pd
import pytest
from sweeps import heavy

from synthdp import BadInput
from synthdp.schema import yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.file_coding import Coding, Reading
from synthdp.schema.schema import Schema
from synthdp.sets import column_format, record_files
from synthdp.sets.column_format import REMEDY
from synthdp.sets.draft import draft
from synthdp.tables import csv_lines, database_url, source, table_check

WARDS = ("Gyn\u00e4kologie", "Innere", "Chirurgie")


def cells(rows=120):
    """A hospital's export, column by column."""
    days = [f"{row % 28 + 1:02d}.{row % 12 + 1:02d}.{1930 + row % 80}" for row in range(rows)]
    return {
        "Patient": [f"P{row:05d}" for row in range(rows)],
        "Geburt": days,
        "Aufnahme": [f"{row % 28 + 1}.{row % 12 + 1}.2021 {row % 24:02d}:{row % 60:02d}" for row in range(rows)],
        "Monat": [f"01.{row % 12 + 1:02d}.2020" for row in range(rows)],
        "Kreatinin": [f"0,{row % 100:02d}" if row % 9 else (".", "-9", "")[row // 9 % 3] for row in range(rows)],
        "Gewicht": [f"{50 + row / 10:.1f}  ".replace(".", ",") for row in range(rows)],
        "Raucher": [("Ja", "Nein", "NA")[row % 3] for row in range(rows)],
        "tot": [("0,0", "1,0", "")[row % 3] for row in range(rows)],
        "Befund": [("+", "-")[row % 2] for row in range(rows)],
        "Skala": [("0", "1", "-9")[row % 3] for row in range(rows)],
        "Station": [f"{WARDS[row % 3]}{' ' * (row % 2)}" for row in range(rows)],
        "Notiz": [f'Patient {row} klagt \u00fcber Schmerzen,\nsiehe Akte; "sehr" dringend' for row in range(rows)],
    }


def export(path, encoding="cp1252", **changes):
    values = {**cells(), **changes}
    kept = {name: column for name, column in values.items() if column is not None}
    pd.DataFrame(kept).to_csv(path, sep=";", index=False, encoding=encoding, lineterminator="\r\n")
    return path


def drafted(path):
    """The draft as a schema, with what it left open answered as the first choice."""
    found = record_files.look(path)
    text = draft(found.frame, path, found=found).schema.replace("date: TODO", "date: dd.mm.yyyy")
    return found, Schema.from_dict(yamlfile.parse(text, "draft"))


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_an_export_is_read_as_it_is_meant(tmp_path, encoding):
    path = export(tmp_path / "t.csv", encoding)
    found, schema = drafted(path)
    assert schema.reading.review
    assert (schema.reading.encoding, schema.reading.separator, schema.reading.decimal) == (encoding, ";", ",")
    assert schema.reading.strip
    assert dict(schema.reading.columns) == {
        "Geburt": Coding(date="dd.mm.yyyy"),
        "Aufnahme": Coding(date="d.m.yyyy HH:MM"),
        "Monat": Coding(date="dd.mm.yyyy"),
        "Kreatinin": Coding(missing=(".", "-9"), places=2),
        "Gewicht": Coding(places=1),
        "Raucher": Coding(missing=("NA",), words=("Nein", "Ja")),
        "tot": Coding(words=("0,0", "1,0")),
        "Befund": Coding(words=("-", "+")),
        "Skala": Coding(missing=("-9",), words=("0", "1")),
    }
    kinds = {column.name: column.kind for column in (*schema.columns, *schema.ignored)}
    assert schema.column("Kreatinin").decimals == 2
    assert kinds == {
        "Patient": "identifier", "Geburt": "datetime", "Aufnahme": "datetime", "Monat": "datetime", "Kreatinin": "continuous",
        "Gewicht": "continuous", "Raucher": "boolean", "tot": "boolean", "Befund": "boolean", "Skala": "boolean",
        "Station": "categorical", "Notiz": "ignore",
    }  # fmt: skip
    frame = schema.validate(record_files.read(path, schema))
    assert frame["Kreatinin"].isna().sum() == 14
    assert frame["Geburt"].iloc[1] == pd.Timestamp("1931-02-02")
    assert set(frame["Station"]) == set(WARDS)
    (line, left) = found.lines()
    assert "separated by semicolon, decimal comma; dates" in line
    assert left == "open      column 'Monat': date is dd.mm.yyyy or mm.dd.yyyy: every day of the column is one in both"


POLISH = "Oddzia\u0142;P\u0142e\u0107\nPo\u0142o\u017cnictwo, wst\u0119p \u2013 \u015bwie\u017cy b\u0105k;m\u0119\u017cczyzna\n"


@pytest.mark.parametrize(
    ("text", "encoding", "doubt"),
    [
        (POLISH, "cp1250", None),
        (POLISH.replace("\u2013", "-"), "iso8859-2", None),
        ("P\u0159\u00edjem;\u0165uk\n1;2\n", "cp1250", None),  # Windows-1252 has no letter there
        ("Gr\u00f6\u00dfe;h\u00f6chste m\u00b3\n1;2\n", "cp1252", None),
        ("entr\u00e9e;p\u00e8re\n1;2\n", "cp1252", "letters read as \u00e8 would be \u010d in Windows-1250"),
        ("Z\u00e1znam;l\u00e9\u010dba\n1;2\n", "cp1252", "letters read as \u00e8 would be \u010d in Windows-1250"),
    ],
)
def test_encodings_of_one_byte_are_told_apart_by_letters_within_words_or_the_draft_says_so(
    tmp_path, text, encoding, doubt
):
    written = encoding if "\u010d" not in text else "cp1250"
    (tmp_path / "t.csv").write_bytes(text.encode(written))
    found = record_files.look(tmp_path / "t.csv")
    assert found.reading.encoding == encoding
    assert [*found.frame.columns] == text.encode(written).decode(encoding).split("\n")[0].split(";")
    told = [each for each in found.mind if "letters read as" in each]
    assert (doubt is None and not told) or told[0].startswith(doubt)


@pytest.mark.parametrize("encoding", ["cp1250", "iso8859-2"])
def test_synthetic_files_have_the_letters_of_central_europe(tmp_path, encoding):
    columns = {"P\u0142e\u0107": {"kind": "categorical", "categories": ["m\u0119ska", "\u017ce\u0144ska"]}}
    of = {
        "name": "t",
        "declared_by": "the tests",
        "units": 2,
        "columns": columns,
        "reading": {"encoding": encoding, "separator": ";"},
    }
    schema, frame = Schema.from_dict(of), pd.DataFrame({"P\u0142e\u0107": ["m\u0119ska", "\u017ce\u0144ska"]})
    record_files.write([schema.validate(frame)], tmp_path / "t.csv", schema)
    assert (tmp_path / "t.csv").read_bytes() == "P\u0142e\u0107\nm\u0119ska\n\u017ce\u0144ska\n".encode(encoding)
    assert record_files.read(tmp_path / "t.csv", schema).equals(schema.validate(frame))


def test_a_draft_with_something_open_is_no_schema(tmp_path):
    path = export(tmp_path / "t.csv")
    found = record_files.look(path)
    with pytest.raises(BadInput, match="reading: column 'Monat': date is still TODO"):
        Schema.from_dict(yamlfile.parse(draft(found.frame, path, found=found).schema, "draft"))


def test_plain_pandas_finds_the_same_types_in_real_and_synthetic_rows(tmp_path):
    path = export(tmp_path / "real.csv")
    values = drafted(path)[1].to_dict()
    learned = {
        "Geburt": ["1930-01-01", "2010-12-31"], "Aufnahme": ["2021-01-01", "2021-12-31"], "Monat": ["2020-01-01", "2020-12-31"],
        "Kreatinin": [0, 2], "Gewicht": [0, 99],
    }  # fmt: skip
    for name, column in values["columns"].items():
        column |= {"bounds": learned[name]} if name in learned else {}
        column |= {"categories": [*WARDS]} if name == "Station" else {}
        if name not in ("Kreatinin", "Raucher", "tot", "Skala"):
            column.pop("missing", None)
    schema = Schema.from_dict(values)
    codec = Codec(schema)
    codes = codec.encode(record_files.read(path, schema))
    record_files.write([codec.decode(codes, np.random.default_rng(0))], tmp_path / "made.csv", schema)
    real, made = (
        pd.read_csv(tmp_path / name, sep=";", decimal=",", encoding="cp1252") for name in ("real.csv", "made.csv")
    )
    pd.testing.assert_series_equal(real.drop(columns="Notiz").dtypes, made.dtypes)
    made["Befund"] = made["Befund"].str.removeprefix("'")  # a spreadsheet would run it: law 31
    for name in ("Raucher", "tot", "Befund", "Skala"):
        pd.testing.assert_series_equal(real[name], made[name])
    np.testing.assert_array_equal(codec.encode(record_files.read(tmp_path / "made.csv", schema)), codes)


def test_texts_that_are_filled_up_with_spaces_are_written_so(tmp_path):
    """As CHAR(10): what selects `Innere    ` in synthetic rows selects it in the real ones."""
    path = tmp_path / "real.csv"
    rows = [f"{ward:<10};{row % 3};{'x' * (row % 3)} " for row, ward in enumerate(["Innere", "Chirurgie", ""] * 20)]
    path.write_text("\n".join(["Fach;n;frei", *rows]), encoding="utf-8")
    schema = drafted(path)[1]
    assert dict(schema.reading.columns) == {"Fach": Coding(width=10)}
    values = schema.to_dict()
    values["columns"] = {"Fach": {"kind": "categorical", "categories": ["Innere", "Chirurgie"], "missing": True}}
    values["reading"] |= {"columns": {"Fach": {"width": 10, "missing": ["k.A."]}}}
    schema = Schema.from_dict(values)
    made = pd.DataFrame({"Fach": ["Innere", "Chirurgie", None]})
    record_files.write([made], tmp_path / "made.csv", schema)
    assert (tmp_path / "made.csv").read_text().split() == ["Fach", "Innere", "Chirurgie", "k.A."]
    assert "\nInnere    \nChirurgie \nk.A.\n" in (tmp_path / "made.csv").read_text()
    pd.testing.assert_frame_equal(record_files.read(tmp_path / "made.csv", schema), made, check_dtype=False)
    for column, more in (({"kind": "integer", "bounds": [0, 9]}, {}), (values["columns"]["Fach"], {"strip": False})):
        reading = {**values["reading"], "columns": {"Fach": {"width": 10}}, **more}
        with pytest.raises(BadInput, match="width pads texts"):
            Schema.from_dict({**values, "columns": {"Fach": column}, "reading": reading})


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_synthetic_lines_end_as_those_of_the_file(tmp_path, end, separator):
    """Whatever the lines within its cells end with, which Excel writes as \\n."""
    path = tmp_path / "real.csv"
    rows = [f"{row % 3}{separator}{row % 50}" for row in range(60)]
    path.write_bytes(end.join([f'"a{chr(10)}b"{separator}n', *rows, ""]).encode())
    found, schema = drafted(path)
    assert (found.reading or Reading()).newline == {"\n": "lf", "\r\n": "crlf"}[end]
    assert not found.mind
    record_files.write([record_files.read(path, schema)], tmp_path / "made.csv", schema)
    body = (tmp_path / "made.csv").read_bytes().partition(b'b"')[2]
    assert body.count(b"\n") == 61
    assert body.count(b"\r\n") == (61 if end == "\r\n" else 0)


@pytest.mark.parametrize(
    ("ends", "newline"), [(["\r\n", "\r\n", "\n"], "crlf"), (["\n", "\n", "\r\n"], "lf"), (["\r"], "lf")]
)
def test_a_file_whose_lines_do_not_end_alike_gets_the_more_frequent_end_and_a_word(tmp_path, ends, newline):
    path = tmp_path / "real.csv"
    path.write_bytes(
        b"a,b\r" * (ends == ["\r"]) + b"".join(f"{row},x{ends[row % len(ends)]}".encode() for row in range(60))
    )
    found = record_files.look(path)
    assert (found.reading or Reading()).newline == newline
    assert found.mind[0].endswith(f"synthetic files end every line with {newline.upper()}")


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "a,b\n1,x", "a;b", "\ufeffa,b"])
def test_the_last_line_need_not_end(tmp_path, text):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    assert list(record_files.look(tmp_path / "t.csv").frame.columns) == ["a", "b"]
    assert len(record_files.read(tmp_path / "t.csv")) == ("x" in text)


@pytest.mark.parametrize("rows", [["1;x;", "2;y;"], ["1;x; ", "2;y;"], []])
def test_a_separator_at_the_end_of_every_line_is_no_column(tmp_path, rows):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a;b;", *rows, ""]))
    assert list(record_files.look(path).frame.columns) == ["a", "b"]
    assert list(record_files.read(path).columns) == ["a", "b"]
    columns = {"a": {"kind": "integer", "bounds": [0, 9]}, "b": {"kind": "categorical", "categories": ["x", "y"]}}
    schema = Schema.from_dict({"columns": columns, "reading": {"separator": ";"}})
    frame = schema.validate(record_files.read(path, schema))
    assert len(frame) == len(rows)
    with source.opened(source.csv(path), schema.reading) as opened:
        table_check.validate(schema, opened, "error")
        assert list(opened.expression.columns) == ["a", "b"]


@pytest.mark.parametrize("header", ["a;b;", "Report;;"])
def test_a_cell_after_the_last_separator_is_refused_by_its_line(tmp_path, header):
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n1;x;\n2;y;z\n")
    told = "line 3: holds something after the last separator" if header == "a;b;" else "line 3: |column 2 has no name"
    for look in (record_files.look, record_files.read):
        with pytest.raises(BadInput, match=told) as caught:
            look(path)
        assert "delete titles above the header" in str(caught.value)
    if header == "a;b;":
        declared = Schema.from_dict({"columns": {"a": {"kind": "boolean"}}, "reading": {"separator": ";"}})
        with (
            pytest.raises(BadInput, match="a row holds something after the last separator"),
            source.opened(source.csv(path), declared.reading),
        ):
            pass


def test_several_columns_without_a_name_at_the_end_are_refused_with_the_remedy(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b;;;\n1;x;;;\n")
    for look in (record_files.look, record_files.read):
        with pytest.raises(BadInput, match=r"column 3 has no name .* delete the empty columns at the right"):
            look(path)


def test_line_ends_are_counted_across_blocks(tmp_path, monkeypatch):
    text = 'a;b\r\n"x\n""y\r\n";2\r\n3;"4"\n5;6\r7;8\r'
    (tmp_path / "t.csv").write_bytes(text.encode("utf-16"))
    for size in range(1, len(text) + 2):
        monkeypatch.setattr(csv_lines, "BLOCK", size)
        assert csv_lines.ends(tmp_path / "t.csv", "utf-16") == {"\n": 1, "\r\n": 2, "\r": 2}


@pytest.mark.parametrize("ending", [".parquet", heavy(".dta")])
def test_numbers_stored_as_text_are_numbers_whatever_their_decimal_sign(tmp_path, ending):
    points = [f"{row % 40}.{row % 10}" for row in range(80)]
    held = {
        "point": points,
        "comma": [text.replace(".", ",") for text in points],
        "code": [f"{row % 9 + 10}" for row in range(80)],
    }
    path = tmp_path / f"t{ending}"
    pd.DataFrame(held).to_parquet(path) if ending == ".parquet" else pd.DataFrame(held).to_stata(
        path, write_index=False
    )
    found, schema = drafted(path)
    assert {column.name: column.kind for column in schema.columns} == {
        "point": "continuous", "comma": "continuous", "code": "categorical",
    }  # fmt: skip
    assert [text for text in found.mind if "'point': holds numbers as text" in text]
    numbers = {"kind": "continuous", "bounds": [0, 50], "decimals": 1}
    values = {
        **schema.to_dict(),
        "columns": {"point": numbers, "comma": numbers, "code": {"kind": "integer", "bounds": [0, 99]}},
    }
    read = Schema.from_dict(values).validate(record_files.read(path, Schema.from_dict(values)))
    assert read["point"].tolist() == read["comma"].tolist() == [float(text) for text in points]
    assert read["code"].iloc[3] == 13


def test_a_plain_file_needs_no_reading(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("day,age,site\n" + "".join(f"2020-01-{row % 28 + 1:02d},{row},s{row % 3}\n" for row in range(60)))
    assert record_files.look(path).reading is None
    path.with_suffix(".tsv").write_text(path.read_text().replace(",", "\t"))
    assert record_files.look(path.with_suffix(".tsv")).reading is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a;b\n1;2\n3\n", "line 3: expected 2 cells, as many as in the header, found 1"),
        ('a;b\n"1\n2";2\n3;"CANARY\n', "line 4: a quote is opened and not closed"),
        (
            b"a;b\n1;2\n3;\x81\n",
            "line 3: expected UTF-8 text; .*; nor is it Windows-1252, Windows-1250 or ISO 8859-2",
        ),
        ("a,b;c\n1,2;3\n", "line 1: ',' and ';' both cut every line into 2 cells"),
        (
            "n;m\n" + "".join(f"{row},5;1\n" for row in range(30)) + "7.5;1\n",
            r"line 32 \(record 31\): column 'n': expected ',' before decimals",
        ),
        (
            "n;m\n" + "".join(f"{row},5;1\n" for row in range(30)) + "1,234.5;1\n",
            r"line 32 \(record 31\): column 'n': .* sign between the thousands",
        ),
    ],
)
def test_what_cannot_be_decided_is_refused_with_the_line(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput, match=message) as caught:
        record_files.look(path)
    assert "CANARY" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mistakes_in_a_column_of_numbers_or_dates_are_told_by_their_line(tmp_path):
    numbers = [f"{row},5" for row in range(119)] + ["CANARY"]
    dates = [*cells()["Geburt"][:-1], "31.02.1950"]
    found, schema = drafted(export(tmp_path / "t.csv", Kreatinin=numbers, Geburt=dates, Notiz=None))
    assert schema.column("Kreatinin").kind == "continuous"
    assert schema.column("Geburt").kind == "datetime"
    assert found.mind == (
        f"column 'Geburt': line 121 (record 120): expected a date such as dd.mm.yyyy, as in most of the column{REMEDY}",
        f"column 'Kreatinin': line 121 (record 120): expected a number, as in most of the column{REMEDY}",
    )
    assert found.others == {"Geburt": ("31.02.1950",), "Kreatinin": ("CANARY",)}
    seen = draft(found.frame, tmp_path / "t.csv", found=found).seen
    assert (
        "# Geburt has cells with other text than dates: [31.02.1950]\n# Kreatinin has cells with other text than numbers: [CANARY]\n"
        in seen
    )
    with pytest.raises(
        BadInput, match=r"'Geburt': some values are not dates.*'Kreatinin': some values are not numbers"
    ):
        schema.validate(record_files.read(tmp_path / "t.csv", schema))


def test_numbers_with_a_few_words_among_them_and_dates_in_several_forms_are_numbers_and_dates(tmp_path):
    """The draft proposed a category for each, and said nothing."""
    numbers = [f"{10 + row / 10:.1f}".replace(".", ",") if row % 5 else "nie dot." for row in range(120)]
    dates = [
        f"{row % 28 + 1:02d}-0{row % 9 + 1}-2024" if row % 3 else f"{row % 28 + 1}.{row % 9 + 1}.24"
        for row in range(120)
    ]
    found, schema = drafted(export(tmp_path / "t.csv", Kreatinin=numbers, Geburt=dates, Notiz=None))
    assert schema.column("Kreatinin").kind == "continuous"
    assert schema.column("Geburt").kind == "datetime"
    assert dict(schema.reading.columns)["Geburt"] == Coding(date="dd-mm-yyyy")
    assert found.mind == (
        "column 'Geburt': line 2 (record 1): expected a date such as dd-mm-yyyy, as in most of the column; 33% of its cells are dates such "
        "as d.m.yy, and a column can have one form only: write all its dates alike",
        f"column 'Kreatinin': line 2 (record 1): expected a number, as in most of the column{REMEDY}",
    )
    assert found.others["Kreatinin"] == ("nie dot.",)


@pytest.mark.parametrize("share", [0.12, 0.44])
@pytest.mark.parametrize(
    "word",
    [
        "saknas", "UNS", "okänt", "Ej känt", "ej utfört", "IU", "puuttuu", "ei tiedossa", "Tuntematon", "ukjent", "mangler", "ukendt",
        "ikke udført", "ikke utført",
    ],
)  # fmt: skip
def test_words_of_the_north_for_a_missing_value_are_known(tmp_path, word, share):
    """Columns of numbers with them were drafted as identifiers, which a fit leaves out, or as categories, without a word."""
    held = np.random.default_rng(0).random(400) < share
    numbers = [word if lacks else str(30 + row * 7 % 389) for row, lacks in enumerate(held)]
    limits = [word if lacks else ("<5", ">100", str(row % 90 + 5))[row % 3] for row, lacks in enumerate(held)]
    pd.DataFrame({"n": numbers, "crp": limits}).to_csv(tmp_path / "t.csv", sep=";", index=False)
    found = record_files.look(tmp_path / "t.csv")
    made = yamlfile.parse(draft(found.frame, tmp_path / "t.csv", found=found).schema, "draft")
    assert made["columns"]["n"]["kind"] == made["columns"]["crp"]["kind"] == "integer"
    assert made["reading"]["columns"] == {"n": {"missing": [word]}, "crp": {"missing": [word], "numbers": "TODO"}}
    assert not found.mind


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("share", [0.04, 0.12, 0.44])
def test_numbers_and_dates_beside_a_text_that_nobody_knows_stay_numbers_and_dates(tmp_path, share, ending):
    held = np.random.default_rng(0).random(400) < share
    days = pd.date_range("2021-01-01", periods=400, freq="D").strftime("%Y-%m-%d")
    made = {
        "whole": [30 + row * 7 % 150 for row in range(400)], "few": [row % 60 for row in range(400)],
        "weight": [f"{40 + row % 70} kg" for row in range(400)], "day": days,
    }  # fmt: skip
    texts = pd.DataFrame({name: pd.Series(values).astype(str).mask(held, "CANARY") for name, values in made.items()})
    path = tmp_path / f"t{ending}"
    texts.to_csv(path, sep=";", index=False) if ending == ".csv" else texts.to_parquet(path)
    found, schema = drafted(path)
    assert [column.kind for column in schema.columns] == ["integer", "integer", "integer", "datetime"]
    assert found.others == dict.fromkeys(made, ("CANARY",))
    assert [text.split(":")[0] for text in found.mind if "expected" in text] == [f"column '{name}'" for name in made]
    written = draft(found.frame, path, found=found)
    assert "CANARY" not in written.schema
    assert "CANARY" not in "".join(found.lines())
    assert "CANARY" in written.seen


def test_a_column_in_which_one_text_repeats_names_nobody(tmp_path):
    """It was drafted as an identifier, which a fit leaves out."""
    texts = [f"Ort{chr(97 + row % 26)} {row}" if row % 9 else "ANYWHERE" for row in range(400)]
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{text};{row % 7}\n" for row, text in enumerate(texts)))
    found, schema = drafted(tmp_path / "t.csv")
    assert schema.column("a").kind == "categorical"
    (said,) = [line for line in found.lines() if line.startswith("look at")]
    assert said.startswith("look at   column 'a': one text is in many cells")
    assert "ANYWHERE" not in said


def test_a_draft_tries_on_a_cell_only_the_formats_that_its_form_may_have(tmp_path, monkeypatch):
    """Measurements have as many times as rows, and there are over a hundred formats."""
    tried, real = [], column_format._is_day
    monkeypatch.setattr(column_format, "_is_day", lambda form, text: tried.append(text) or real(form, text))
    times = pd.date_range("2021-01-01", periods=2000, freq="7h13min").strftime("%d/%m/%Y %H:%M")
    pd.DataFrame({"ora": times, "valore": 1.5}).to_csv(tmp_path / "t.csv", sep=";", index=False)
    _, schema = drafted(tmp_path / "t.csv")
    assert dict(schema.reading.columns)["ora"] == Coding(date="dd/mm/yyyy HH:MM")
    assert len(times) <= len(tried) < 6 * len(times), "of day and month, the stricter and the looser, in both orders"


@pytest.mark.parametrize(
    "values",
    [
        [f"{row % 12}" if row % 5 else "ICU" for row in range(120)],  # may be codes
        [f"{row % 60},5" if row % 5 else f"ward {row % 4}" for row in range(120)],  # more than a few words
        [f"{row % 60},5" if row % 2 else "ICU" for row in range(120)] + ["ICU"] * 9,  # not even half
        [f"{row % 28 + 1}.1.2024" if row % 3 else f"Q{row % 4 + 1}-2024" for row in range(120)],
    ],
)
def test_a_column_with_many_other_texts_stays_one_of_categories(tmp_path, values):
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{text};x\n" for text in values), encoding="utf-8")
    found = record_files.look(tmp_path / "t.csv")
    assert (
        Schema.from_dict(yamlfile.parse(draft(found.frame, tmp_path / "t.csv", found=found).schema, "t"))
        .column("a")
        .kind
        == "categorical"
    )


def test_numbers_without_the_unit_of_the_others_are_told_and_do_not_make_the_column_categories(tmp_path):
    """Such as 99 for a missing percentage: the draft proposed a category for each percentage, and said nothing."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"{'99' if row == 60 else f'{row} %'},{row % 3}\n" for row in range(90)))
    found = record_files.look(path)
    made = Schema.from_dict(yamlfile.parse(draft(found.frame, path, found=found).schema, "draft"))
    assert made.column("a").kind == "integer"
    assert made.reading.coding("a").suffix == " %"
    assert any(
        text.startswith("column 'a': line 62 (record 61): expected a number with '%' after") for text in found.mind
    )
    assert found.others == {"a": ("99",)}
    path.write_text("a,b\n" + "".join(f"{'99' if row % 4 else f'{row} %'},{row % 3}\n" for row in range(90)))
    assert record_files.look(path).reading is None, "a quarter of the cells decides nothing"


def test_mistakes_in_a_table_with_types_are_told_by_their_record(tmp_path):
    """The file was read for its lines, as if it were CSV, and refused as no UTF-8."""
    pd.DataFrame({"n": [*(f"{row},5" for row in range(60)), "CANARY"]}).to_parquet(tmp_path / "t.parquet")
    found = record_files.look(tmp_path / "t.parquet")
    assert found.mind[1].startswith(
        "column 'n': record 61: expected a number, as in most of the column; the internal file"
    )
    assert found.others == {"n": ("CANARY",)}


def test_days_and_months_that_the_cells_tell_apart(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "d,m,y\n" + "".join(f"{n % 31 + 1}/1/2020,1/{n % 31 + 1}/2020,01.02.{n % 90 + 10}\n" for n in range(60))
    )
    found = record_files.look(path)
    assert [found.reading.coding(name).date for name in "dmy"] == ["d/m/yyyy", "m/d/yyyy", "dd.mm.yy"]
    assert set(found.open["y"]) == {"date", "latest"}


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (["a;b;c", *(f"1,{n};{n},25;{n}.{n + 100}" for n in range(1, 61))], True),
        (
            ["a;c", *(f"{n};{n % 9 + 1}.{n + 100} \u20ac" for n in range(60))],
            True,
        ),  # no other column says what a point is
        (["a,c", *(f"{n},{950 if n % 3 else '1.234'}" for n in range(60))], True),
        (["a,c", *(f"{n},{n % 9 + 1}.{n + 100}" for n in range(60))], False),
        (["a;c", *(f"{n};{n % 9}.{n + 100}" for n in range(60))], False),  # 0.123 is no thousand
    ],
)
def test_a_point_with_three_digits_that_may_stand_between_thousands_is_left_open(tmp_path, lines, left):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = record_files.look(path).open
    assert ('thousands: "."' in found["c"]["decimal"]) if left else not found


def test_thousands_and_what_follows_a_number_are_found_and_written_back(tmp_path):
    path = export(
        tmp_path / "t.csv",
        Kosten=[f"{n % 7}.{100 + n}.{200 + n},{n % 90 + 10} \u20ac" if n % 7 else f"{n},25 \u20ac" for n in range(120)],
        Auslastung=[f"{n % 100},5 %" if n % 9 else "-" for n in range(120)],
        Punkte=[f"{n % 3 + 1}\u00a0{100 + n % 30}" for n in range(120)],
    )
    found, schema = drafted(path)
    codings = dict(found.reading.columns)
    assert codings["Kosten"] == Coding(thousands=".", places=2, suffix=" \u20ac")
    assert codings["Auslastung"] == Coding(missing=("-",), places=1, suffix=" %")
    assert codings["Punkte"] == Coding(thousands="\u00a0")
    text = draft(found.frame, path, found=found).schema
    assert 'Punkte: {thousands: "\\u00a0"}' in text
    assert {schema.column(name).kind for name in ("Kosten", "Auslastung")} == {"continuous"}
    assert schema.column("Punkte").kind == "integer"
    assert found.frame["Kosten"].iloc[1] == 1101201.11
    columns = ("Kosten", "Auslastung", "Punkte")
    values = schema.to_dict()
    for name, bounds in zip(columns, ([0, 9999999], [0, 100], [0, 9999]), strict=True):
        values["columns"][name]["bounds"] = bounds
    values["columns"] = {name: values["columns"][name] for name in columns}
    values["reading"]["columns"] = {name: values["reading"]["columns"][name] for name in columns}
    narrow = Schema.from_dict(values)
    real = record_files.read(path, schema)[[*columns]]
    record_files.write([narrow.validate(real)], tmp_path / "made.csv", narrow)
    texts = [
        pd.read_csv(each, sep=";", dtype="str", encoding="cp1252", keep_default_na=False)[[*columns]]
        for each in (path, tmp_path / "made.csv")
    ]
    pd.testing.assert_frame_equal(*texts)


def test_parquet_keeps_whole_numbers_for_truths_and_codes_for_missing_values(tmp_path):
    rows = np.arange(60)
    frame = pd.DataFrame(
        {
            "ill": rows % 2, "smoker": np.where(rows % 3, "Yes", "No"), "dead": rows % 2 == 0,
            "maybe": np.where(rows % 5, rows % 2, np.nan),
            "stage": np.where(rows % 7, rows % 40, -9),
        }
    )  # fmt: skip
    frame.to_parquet(tmp_path / "real.parquet")
    _, schema = drafted(tmp_path / "real.parquet")
    assert [column.kind for column in schema.columns] == ["boolean", "boolean", "boolean", "boolean", "integer"]
    values = schema.to_dict()
    values["columns"]["stage"]["bounds"] = [0, 99]
    for name in ("ill", "smoker", "dead"):
        values["columns"][name].pop("missing")
    schema = Schema.from_dict(values)
    codec = Codec(schema)
    real = schema.validate(record_files.read(tmp_path / "real.parquet", schema))
    assert real["stage"].isna().sum() == 9
    codes = codec.encode(real)
    record_files.write([codec.decode(codes, np.random.default_rng(0))], tmp_path / "made.parquet", schema)
    made = pd.read_parquet(tmp_path / "made.parquet")
    pd.testing.assert_series_equal(made.dtypes, frame.dtypes)
    np.testing.assert_array_equal(codec.encode(record_files.read(tmp_path / "made.parquet", schema)), codes)


@pytest.mark.parametrize("ending", [".parquet", heavy(".dta"), heavy(".sav")])
def test_text_columns_of_typed_files_have_the_missing_values_that_those_of_csv_have(tmp_path, ending):
    """NULL was a category, also among whole numbers, which became categories with it."""
    rows = range(120)
    frame = pd.DataFrame(
        {
            "decile": [("NULL", str(row % 10 + 1))[row % 9 > 0] for row in rows],
            "egfr": [("-99", ".", str(row % 50 + 40))[min(row % 9, 2)] for row in rows],
            "group": [("NULL", ".", "White", "Mixed")[row % 4] for row in rows],
            "smoker": [("", "Yes", "No")[row % 3] for row in rows],
            "ward": [("", "A", "B")[row % 3] for row in rows],
            "empty": ["" for _ in rows],
            "code": [str(row % 9 + 10) for row in rows],
        }
    )
    path = tmp_path / f"t{ending}"
    if ending == ".sav":
        pytest.importorskip("pyreadstat").write_sav(frame, path)
    else:
        frame.to_parquet(path) if ending == ".parquet" else frame.to_stata(path, write_index=False)
    frame.to_csv(tmp_path / "t.csv", index=False)
    (found, made), (_, csv) = drafted(path), drafted(tmp_path / "t.csv")
    assert [each.name for each in made.ignored] == [each.name for each in csv.ignored] == ["empty"]
    kinds = {column.name: column.kind for column in csv.columns} | {"code": "categorical"}  # which CSV cannot tell
    assert {column.name: column.kind for column in made.columns} == kinds
    assert made.reading.coding("egfr").missing == csv.reading.coding("egfr").missing
    assert made.reading.coding("group").missing == csv.reading.coding("group").missing
    values = made.to_dict()
    values["columns"]["decile"]["bounds"], values["columns"]["egfr"]["bounds"] = [1, 10], [1, 120]
    values["columns"]["group"]["categories"] = ["White", "Mixed"]
    values["columns"]["ward"]["categories"] = ["A", "B"]
    schema = Schema.from_dict(values)
    read = schema.validate(record_files.read(path, schema))
    lacking = {"decile": 14, "egfr": 28, "group": 60, "smoker": 40, "ward": 40}
    assert read[list(lacking)].isna().sum().to_dict() == lacking
    assert not any("'code'" in text for text in found.mind)


@pytest.mark.parametrize("ending", [".parquet", heavy(".dta"), heavy(".sav"), "database"])
def test_padded_texts_of_typed_files_are_noticed_as_in_csv(tmp_path, ending):
    """Padded and bare, "M  " and "M" were two categories, where a CSV's draft has strip: true."""
    rows = range(120)
    wards = pd.Categorical([(" A", "A", "B")[row % 3] for row in rows])
    frame = pd.DataFrame({"sex": [("M  ", "M", "F ")[row % 3] for row in rows], "ward": wards})
    frame["egfr"] = [(" 40,5", "41,5 ", "  ")[row % 3] for row in rows]
    frame["age"] = list(rows)
    path = tmp_path / f"t{ending}"
    if ending == ".parquet":
        frame.to_parquet(path)
    elif ending == ".sav":
        pytest.importorskip("pyreadstat").write_sav(frame.astype({"ward": "str"}), path)
    elif ending == ".dta":
        frame.astype({"ward": "str"}).to_stata(path, write_index=False)
    else:
        path = f"duckdb:///{tmp_path / 't.db'}#visits"
        with pytest.importorskip("duckdb").connect(str(tmp_path / "t.db")) as connection:
            connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
    address = database_url.address(path) if ending == "database" else None
    found = record_files.look(path) if address is None else record_files.look_into(address)
    assert found.said.endswith("; space around cells")
    assert not any("other spellings" in text for text in found.mind)
    values = yamlfile.parse(draft(found.frame, tmp_path / "t", found=found).schema, "draft")
    values["columns"]["egfr"]["bounds"], values["columns"]["age"] = [0, 99], {"kind": "integer", "bounds": [0, 120]}
    values["columns"]["sex"]["categories"], values["columns"]["ward"]["categories"] = ["F", "M"], ["A", "B"]
    schema = Schema.from_dict(values)
    assert schema.reading.strip
    assert [column.kind for column in schema.columns] == ["categorical", "categorical", "continuous", "integer"]
    read = record_files.read(path, schema) if address is None else record_files.from_database(address, schema)
    read = schema.validate(read)
    assert read["sex"].value_counts().to_dict() == {"M": 80, "F": 40}
    assert read["ward"].value_counts().to_dict() == {"A": 80, "B": 40}
    assert read["egfr"].isna().sum() == 40


def test_telephone_numbers_are_no_numbers(tmp_path):
    path = tmp_path / "t.csv"
    columns = {"phone": [f"+49301234{row:03d}" for row in range(60)], "age": [20 + row % 50 for row in range(60)]}
    pd.DataFrame(columns).to_csv(path, index=False)
    found = record_files.look(path)
    assert (
        yamlfile.parse(draft(found.frame, path, found=found).schema, "draft")["columns"]["phone"]["kind"]
        == "identifier"
    )


@pytest.mark.parametrize(
    "suffix",
    [" EUR", "EUR", " CHF", " mg/dl", " mmol/l", " kg/m\u00b2", "/min", " Jahre", " a\u00f1os", " yrs", " lat"],
)
def test_units_after_numbers_are_found_and_written_back(tmp_path, suffix):
    """A price in EUR was an identifier: nearly every record has its own."""
    path = tmp_path / "t.csv"
    path.write_text("a;b\n" + "".join(f"{row + 1}.250,50{suffix};{row % 3}\n" for row in range(90)), encoding="utf-8")
    found = record_files.look(path)
    made = Schema.from_dict(yamlfile.parse(draft(found.frame, path, found=found).schema, "draft"))
    assert made.column("a").kind == "continuous"
    assert made.reading.coding("a").suffix == suffix
    read = record_files.read(path, made)
    assert read["a"].tolist() == [1000.0 * (row + 1) + 250.5 for row in range(90)]
    record_files.write([read[["a", "b"]]], tmp_path / "back.csv", made)
    assert (tmp_path / "back.csv").read_text(encoding="utf-8").splitlines()[1:] == path.read_text(
        encoding="utf-8"
    ).splitlines()[1:]


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ([(f"{150 + row % 40}", "9999")[row % 8 == 0] for row in range(120)], ("9999",)),
        ([(f"{90 + row % 70}", "-1")[row % 9 == 0] for row in range(120)], ("-1",)),
        ([(f"{row % 40},5", "999,0")[row % 9 == 0] for row in range(120)], ("999,0",)),
        ([(f"{row % 40},5", "n.b.")[row % 9 == 0] for row in range(120)], ("n.b.",)),
        ([(f"{row % 40},5", "unbekannt")[row % 9 == 0] for row in range(120)], ("unbekannt",)),
        ([(f"{90 + row // 2}", "999")[row == 7] for row in range(120)], ()),  # once
        ([(f"{row // 2 * 100}", "9999")[row % 9 == 0] for row in range(120)], ()),  # among values of its size
        ([f"{row % 3 - 1}" for row in range(120)], ()),  # better, the same, worse
        ([f"{row % 30 - 1}" for row in range(120)], ()),
    ],
)
def test_codes_far_from_all_other_numbers_and_words_among_them_are_missing_values(tmp_path, values, missing):
    found, schema = drafted(export(tmp_path / "t.csv", Gewicht=values, Notiz=None))
    assert schema.column("Gewicht").kind in ("integer", "continuous")
    assert dict(schema.reading.columns).get("Gewicht", Coding()).missing == missing
    assert not found.mind


@pytest.mark.parametrize(("most", "told"), [(35, True), (55, False)])
def test_a_number_that_may_be_a_code_is_named(tmp_path, most, told):
    values = [("99" if row % 9 == 0 else f"{5 + row % (most - 4)}") for row in range(120)]
    found, schema = drafted(export(tmp_path / "t.csv", Gewicht=values, Notiz=None))
    assert schema.column("Gewicht").kind == "integer"
    assert dict(schema.reading.columns).get("Gewicht", Coding()).missing == ()
    said = "column 'Gewicht': 99 in many cells is far above all other values; if it stands for a missing value, write missing: [99]"
    assert [each.startswith(said) for each in found.mind] == [True] * told


@pytest.mark.parametrize(
    ("others", "word", "missing"),
    [
        (["Vermelho", "Laranja", "Azul"], "ND", True),
        (["M", "F"], "ND", True),
        (["Nunca fumou", "Fumador"], "s/ inf.", True),
        (["tak, leczony", "tak"], "BRAK", True),
        (["Station A", "Station B"], "-9", True),
        (["01", "02", "1A"], "-9", True),
        (["CA", "NY", "TX"], "ND", False),  # North Dakota
        (["A+", "B-", "3"], "-9", False),  # a number among numbers
        (["Grippe"], "unknown", False),  # all that there is beside it
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_words_and_codes_for_missing_values_among_labels_are_proposed_as_such(tmp_path, others, word, missing, ending):
    """They were ordinary categories, which a model predicts and relates to others."""
    values = [word if row % 5 == 0 else others[row % len(others)] for row in range(120)]
    if ending == ".csv":
        path = export(tmp_path / "t.csv", Station=values, Notiz=None)
    else:
        path = tmp_path / "t.parquet"
        pd.DataFrame({"Station": values}).to_parquet(path)
    found, schema = drafted(path)
    assert schema.column("Station").kind == "categorical"
    coded = dict(schema.reading.columns if schema.reading is not None else {}).get("Station", Coding())
    assert coded.missing == ((word,) if missing else ())
    assert not found.mind


@pytest.mark.parametrize(
    ("no", "yes"), [("N", "S"), ("n", "s"), ("N", "J"), ("N", "O"), ("N", "T"), ("N", "Y"), ("F", "V"), ("F", "T")]
)
@pytest.mark.parametrize("beside", ["", "ND"])
def test_initials_of_yes_and_no_in_many_languages_are_truths(tmp_path, no, yes, beside):
    """Sim and N\u00e3o were truths, S and N categories."""
    values = [beside if row % 7 == 0 else yes if row % 3 else no for row in range(120)]
    _, schema = drafted(export(tmp_path / "t.csv", Sturz=values, Notiz=None))
    assert schema.column("Sturz").kind == "boolean"
    coding = dict(schema.reading.columns)["Sturz"]
    assert (coding.words, coding.missing) == ((no, yes), (beside,) if beside else ())
