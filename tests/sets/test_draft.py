import re
from dataclasses import replace
from datetime import time
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from mixed_tables import AWFUL, MIXED, every_code

from synthdp import BadInput
from synthdp.schema import yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Continuous
from synthdp.schema.guesses import outward
from synthdp.schema.schema import Schema
from synthdp.sets import record_files
from synthdp.sets.draft import draft


def drafted(frame):
    """The draft's text, its schema, and what was seen as a schema."""
    made = draft(frame, "some/table.csv")
    schema, seen = (Schema.from_dict(yamlfile.parse(text, "draft")) for text in made)
    return made.schema, schema, seen


def table(rows=200):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "patient": [f"p{row}" for row in range(rows)],
            "age": rng.integers(21, 87, rows),
            "dose": np.round(rng.uniform(0.13, 7.2, rows), 1),
            "gain": np.where(rng.random(rows) < 0.5, 0, rng.integers(1, 10_000, rows)),
            "drug": rng.choice(["No", "Yes please", "=x", "a: b #c"], rows),
            "town": rng.choice([f"town {place}" for place in range(50)], rows),
            "smoker": rng.choice(["yes", "no", None], rows),
            "day": rng.choice(["2020-02-03", "2021-05-06"], rows),
            "time": pd.Timestamp("2020-01-01T08:00") + pd.to_timedelta(rng.integers(0, 10**6, rows), unit="s"),
            "1": pd.Categorical(rng.choice(["lo", "hi"], rows), ["lo", "hi"], ordered=True),
            "empty": None,
        }
    )


KINDS = {
    "patient": "identifier", "age": "integer", "dose": "continuous", "gain": "integer", "drug": "categorical",
    "town": "categorical", "smoker": "boolean", "day": "datetime", "time": "datetime", "1": "categorical",
}  # fmt: skip


def test_a_draft_names_kinds_and_leaves_the_rest_to_learn():
    _, schema, _ = drafted(table())
    schema.validate(table())
    assert {column.name: column.kind for column in schema.columns} == KINDS
    assert [column.name for column in schema.ignored] == ["empty"]
    numbers = [(name, "bounds") for name in ("age", "dose", "gain")]
    dates = [(name, "bounds") for name in ("day", "time")]
    labels = [(name, "categories") for name in ("drug", "town")]
    assert schema.learned == [*numbers, *labels, *dates, ("1", "categories")]
    assert all(column.missing for column in schema.modelled)
    assert schema.column("time").resolution == "second"
    assert (schema.units, schema.unit, schema.targets) == ("learn", None, ())


def test_a_draft_is_for_review_and_nobody_declares_it():
    text, schema, _ = drafted(table())
    assert all(column.review for column in schema.columns)
    assert not any(column.observed for column in schema.columns)
    assert schema.declared_by is None
    assert "`order`" in text
    assert "generator=histories" in text
    with pytest.raises(
        BadInput, match=r"'patient', .* and 3 others were guessed, .*; nobody declares it. .*declared_by"
    ):
        schema.check_declared()
    assert max(map(len, text.splitlines())) <= 140
    nine = replace(schema, columns=tuple(column for column in schema.columns if column.name not in ("day", "time")))
    with pytest.raises(BadInput, match=r" and 1 other were guessed"):
        nine.check_declared()


def test_one_record_more_changes_nothing_in_a_draft():
    """But what was seen."""
    whole, odd = table().drop(columns="1"), table().drop(columns="1").iloc[:1].astype(object)
    odd.loc[0, ["patient", "age", "dose", "gain", "drug", "town"]] = ["CANARY", 3, 9871.5, 10**9, "CANARY", "CANARY"]
    odd.loc[0, ["smoker", "day"]] = [None, "1931-05-06"]
    more = pd.concat([whole, odd], ignore_index=True).astype(whole.dtypes)
    one, other = draft(whole, "table.csv"), draft(more, "table.csv")
    assert one.schema == other.schema
    assert "CANARY" in other.seen
    assert one.seen != other.seen
    for cell in ("CANARY", "9871", "10000", "1931", "No", "Yes please", "2021-05", "town 7"):
        assert cell not in other.schema.partition("columns:")[2]


def test_what_was_seen_is_marked_so_and_fits_its_table():
    _, schema, seen = drafted(table())
    whole = replace(schema, columns=tuple({**by_name(schema), **by_name(seen)}.values()))
    whole.validate(table())
    assert [column.name for column in seen.columns if not column.observed] == ["town"]  # of which nothing is told
    assert seen.column("age").bounds == (20, 90)
    assert seen.column("dose").decimals == 1
    assert seen.column("gain").atoms == (0,)
    assert seen.column("smoker").missing
    assert seen.column("day").bounds == ("2020-01-01", "2021-12-31")
    assert seen.column("drug").categories == ("=x", "No", "Yes please", "a: b #c")
    assert seen.column("town").categories == "learn"
    assert seen.column("1").categories == ("lo", "hi")
    assert "INTERNAL" in draft(table(), "table.csv").seen


def by_name(schema):
    return {column.name: column for column in schema.columns}


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows):
    drafted(table().iloc[:rows])


@pytest.mark.parametrize("name", ["patient", "patient_id", "PatientID", "subject", "mrn"])
@pytest.mark.parametrize("number", [False, True])
def test_a_column_that_says_whose_record_it_is_lists_no_categories(name, number):
    """A few patients of many records each: by their values they look like categories, or like numbers."""
    owner = [place % 12 if number else f"p{place % 12}" for place in range(200)]
    text, schema, _ = drafted(pd.DataFrame({name: owner, "patient_type": ["a", "b", "c", "d"] * 50}))
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {name: "identifier", "patient_type": "categorical"}
    assert "p11" not in text


def test_codes_that_look_like_a_public_list_s_are_proposed_with_their_tree():
    rng = np.random.default_rng(0)
    icd, atc = rng.integers(0, 999, 2000), rng.integers(0, 99, 2000)
    codes = [f"{'ABC'[place % 3]}{place % 40:02d}.{place % 7}" for place in icd]
    drugs = [f"{'ABC'[place % 3]}0{place % 4}AB{place:02d}" for place in atc]
    _, schema, seen = drafted(pd.DataFrame({"dx": codes, "drug": drugs, "town": [f"T{place}" for place in icd]}))
    trees = {column.name: column.tree and column.tree.prefix for column in schema.columns}
    assert trees == {"dx": (1, 3), "drug": (1, 3, 4, 5), "town": None}
    assert schema.learned == [(name, "categories") for name in ("dx", "drug", "town")]
    assert all(column.review for column in schema.columns)
    assert not any(column.observed for column in seen.columns)


def test_notes_are_left_out_and_names_of_drugs_and_wards_are_not():
    notes = [
        f"see the letter of {1 + place % 28:02d}.{1 + place % 12:02d}.{2020 + place % 5}"
        if place % 3
        else "fell at home"
        for place in range(900)
    ]
    drugs = [f"metformin {place % 40}00 mg" for place in range(900)]
    wards = [f"ward {place % 40} north" for place in range(900)]
    _, schema, _ = drafted(pd.DataFrame({"note": notes, "drug": drugs, "ward": wards}))
    assert [column.name for column in schema.ignored] == ["note"]


def test_long_numbers_in_one_form_name_somebody_and_codes_do_not():
    """Few visits of each patient; a code has many records, or its column is called so."""
    frame = pd.DataFrame(
        {
            "ref": [f"A{1000000 + place % 250}" for place in range(900)],
            "drug code": [f"A{1000000 + place % 250}" for place in range(900)],
            "often": [f"A{1000000 + place % 40}" for place in range(900)],
            "x": [place % 3 for place in range(900)],
        }
    )
    _, schema, _ = drafted(frame)
    assert {column.name: column.kind for column in schema.columns}["ref"] == "identifier"
    assert {column.name for column in schema.modelled} == {"drug code", "often", "x"}


@pytest.mark.parametrize("times", [["08:30", "23:59:01"], [time(8, 30), time(23, 59, 1)]])
def test_times_of_day_are_left_out_with_what_to_do(times):
    text, schema, _ = drafted(pd.DataFrame({"at": times * 40, "x": range(80)}))
    assert [column.name for column in schema.ignored] == ["at"]
    assert "minutes since midnight as integers" in text
    text, schema, _ = drafted(pd.DataFrame({"at": [*times, "noon"] * 40, "x": range(120)}))
    assert not schema.ignored


def test_a_step_between_whole_numbers_is_drafted_where_there_are_values_enough(tmp_path):
    """By a list of the usual steps, as decimals are: 0, 21 and 42 are no rule."""
    columns = {
        "barthel": [5 * (row % 21) for row in range(60)],
        "age": [20 + row % 37 for row in range(60)],
        "sevens": [7 * (row % 4) for row in range(60)],
        "seldom": [5 * (row % 21) if row < 19 else None for row in range(60)],
    }
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    found = record_files.look(tmp_path / "t.csv")
    drafted = draft(found.frame, tmp_path / "t.csv", found=found)
    made = Schema.from_dict(yamlfile.parse(drafted.schema, "draft"))
    assert {name: made.column(name).step for name in columns} == {"barthel": 5, "age": 1, "sevens": 1, "seldom": 1}
    assert made.column("barthel").review


def test_a_draft_asks_for_rules():
    text, made, _ = drafted(table())
    assert "\nrules: []  # what every record satisfies by its meaning, such as admitted <= discharged; without" in text
    assert made.rules == ()


def test_the_decimals_of_a_typed_file_are_drafted(tmp_path):
    frame = pd.DataFrame({"dose": [0.1, 2.25, None] * 20, "exact": np.random.default_rng(0).random(60), "n": range(60)})
    frame.to_parquet(tmp_path / "t.parquet")
    found = record_files.look(tmp_path / "t.parquet")
    made = Schema.from_dict(yamlfile.parse(draft(found.frame, "t.parquet", found=found).schema, "draft"))
    assert (made.column("dose").decimals, made.column("exact").decimals) == (2, None)


def test_tiny_numbers_are_not_drafted_as_rounded_to_zero(tmp_path):
    """Concentrations in mol/l and the like: with one decimal all of them would be 0."""
    counts = np.arange(1, 200)
    frame = pd.DataFrame({"molar": counts * 3.7e-12, "nano": counts * 1.3e-9, "dose": counts / 10 + 1e-13})
    frame.to_parquet(tmp_path / "t.parquet")
    found = record_files.look(tmp_path / "t.parquet")
    made = Schema.from_dict(yamlfile.parse(draft(found.frame, "t.parquet", found=found).schema, "draft"))
    assert [made.column(name).decimals for name in frame] == [None, None, 1]


def test_decimals_with_a_fixed_point_are_numbers_and_no_text(tmp_path):
    costs = [None if n % 9 == 0 else Decimal(n * 37 % 1000).scaleb(-2) for n in range(300)]
    frame = pd.DataFrame({"costs": costs, "stays": [Decimal(n % 7) for n in range(300)], "n": range(300)})
    kinds = {"costs": pa.decimal128(12, 2), "stays": pa.decimal128(10, 0), "n": pa.int64()}
    pq.write_table(
        pa.table({name: pa.array(frame[name], kind) for name, kind in kinds.items()}), tmp_path / "t.parquet"
    )
    found = record_files.look(tmp_path / "t.parquet")
    assert found.mind == ()
    made = Schema.from_dict(yamlfile.parse(draft(found.frame, "t.parquet", found=found).schema, "draft"))
    assert made.reading.to_dict()["columns"] == {
        "costs": {"stored": "decimal(12, 2)"}, "stays": {"stored": "decimal(10, 0)"},
    }  # fmt: skip
    assert [(column.kind, getattr(column, "decimals", None)) for column in made.columns] == [
        ("continuous", 2), ("integer", None), ("integer", None),
    ]  # fmt: skip
    read = (
        made.with_learned("costs", bounds=(0, 10))
        .with_learned("stays", bounds=(0, 6))
        .with_learned("n", bounds=(0, 300))
    )
    assert read.validate(record_files.read(tmp_path / "t.parquet", read))["costs"].sum() == float(
        sum(filter(None, costs))
    )


def test_types_that_synthetic_files_do_not_have_are_left_out_or_named(tmp_path):
    rows = range(60)
    table = pa.table(
        {
            "list": pa.array([[row] for row in rows], pa.list_(pa.int64())),
            "struct": pa.array([{"x": row % 2} for row in rows], pa.struct([("x", pa.int64())])),
            "map": pa.array([[("k", row)] for row in rows], pa.map_(pa.string(), pa.int64())),
            "bytes": pa.array([b"x"] * 60, pa.binary()),
            "uuid": pa.array([b"0123456789abcdef"] * 60, pa.binary(16)),
            "took": pa.array([3600 * row for row in rows], pa.duration("s")),
            "tod": pa.array([time(row % 24, row) for row in rows], pa.time64("us")),
            "ts": pa.array([row * 10**9 for row in rows], pa.timestamp("ms", "Europe/Berlin")),
            "age": pa.array([row % 50 for row in rows], pa.int64()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    found = record_files.look(tmp_path / "t.parquet")
    text = draft(found.frame, tmp_path / "t.parquet", found=found).schema
    columns = yamlfile.parse(text, "draft")["columns"]
    left_out = ["list", "struct", "map", "bytes", "uuid", "took"]
    assert [name for name, column in columns.items() if column["kind"] == "ignore"] == left_out
    assert text.count("left out: no kind of column can hold its type") == len(left_out)
    for line, name in zip(found.mind, left_out, strict=False):
        assert line.startswith(f"column {name!r}: left out, since no kind of column can hold its type (")
    assert found.mind[6:] == (
        "column 'tod': is stored as time64; synthetic files hold text such as 08:30:00",
        "column 'ts': is stored as timestamp in the zone Europe/Berlin; synthetic files hold the time in UTC, without a zone",
    )


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_whole_numbers_that_name_records_stay_whole_numbers_from_zero_on_too(tmp_path, ending, first):
    path = tmp_path / f"t{ending}"
    frame = pd.DataFrame({"pid": range(first, first + 60), "x": [row % 7 for row in range(60)]})
    frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
    found = record_files.look(path)
    drafted = yamlfile.parse(draft(found.frame, path, found=found).schema, "draft")
    assert drafted["columns"]["pid"]["kind"] == "identifier"
    assert drafted["reading"]["columns"]["pid"] == {"pattern": "#"}


def test_a_title_or_a_code_for_missing_values_takes_no_decimals_away(tmp_path):
    cells = [f"{n * 37 % 1000 / 100:g}" if n % 9 else "." for n in range(300)]
    pd.DataFrame({"dose": cells}).to_csv(tmp_path / "t.csv", index=False)
    found = record_files.look(tmp_path / "t.csv")
    assert found.reading.of(Continuous(name="dose", bounds="learn")).coding.missing == (".",)
    made = Schema.from_dict(yamlfile.parse(draft(found.frame, "t.csv", found=found).schema, "draft"))
    assert made.column("dose").decimals == 2


def test_only_identifiers_still_make_a_schema():
    assert drafted(table()[["patient"]])[1].learned == [("patient", "categories")]


def test_awful_cells():
    frame = pd.DataFrame({name: pd.Series(AWFUL[:-1], dtype=object) for name in ("a", "b")})
    drafted(frame.assign(c=np.inf, d=1e300, e=-0.0))


def test_a_decoded_table():
    codec = Codec(MIXED)
    frame = codec.decode(every_code(codec.sizes, 300), np.random.default_rng(0))
    drafted(frame)


@pytest.mark.parametrize(
    ("value", "lower"), [(0, 0), (3, 3), (17, 15), (-17, -20), (0.034, 0.03), (99, 95), (1234, 1000)]
)
def test_outward(value, lower):
    assert outward(value) == lower
    assert str(outward(0.0)) == "0.0"


def test_outward_of_what_is_too_small_for_a_step():
    assert outward(3e-324) == 0.0
    assert outward(-3e-324) <= -3e-324


@pytest.mark.parametrize("cells", [["0.0", "1.0", ""], ["0", "1", "1"], ["Yes", "no", ""]])
def test_a_column_of_two_truths_fits_its_own_draft(tmp_path, cells):
    path = tmp_path / "t.csv"
    path.write_text("ill,age\n" + "".join(f"{cell},{row}\n" for row, cell in enumerate(cells * 20)))
    schema = drafted(record_files.read(path))[1]
    assert schema.column("ill").kind == "boolean"
    schema.validate(record_files.read(path, schema))


def test_truths_of_one_letter_are_written_as_they_were(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("ill,age\n" + "".join(f"{'T' if row % 3 else 'N'},{row}\n" for row in range(60)))
    reading = record_files.look(path).reading
    assert reading.coding("ill").words == ("N", "T")


def test_numbers_of_patients_with_several_records_are_no_categories():
    """0009116 and the like: text, of which more than half of the records have their own."""
    rng = np.random.default_rng(0)
    stays = pd.DataFrame(
        {"patnr": [f"{number:07d}" for number in rng.integers(0, 700, 900)], "ward": rng.choice(list("ab"), 900)}
    )
    assert 0.5 < stays.patnr.nunique() / len(stays) < 0.9
    assert kinds_of(stays)["patnr"] == "identifier"
    codes = [f"{letter}{first:02d}.{last}" for letter in "AJK" for first in range(100) for last in range(3)]
    assert kinds_of(stays.assign(code=codes))["code"] == "categorical"  # of a public list


def kinds_of(frame):
    drafted = yamlfile.parse(draft(frame, "stays.csv").schema, "draft")
    return {name: column["kind"] for name, column in drafted["columns"].items()}


@pytest.mark.parametrize("name", ["Patienten-Nr.", "FallNummer", "patient_no", "PatID", "CaseNumber"])
def test_columns_that_are_called_as_numbers_of_patients_are_identifiers(name):
    assert Schema.draft(pd.DataFrame({name: ["a1", "b2", "c3"] * 9, "x": range(27)})).column(name).kind == "identifier"


def test_a_draft_of_a_path_says_what_reads_it():
    with pytest.raises(BadInput, match=r"got dict: .*synthdp schema path=FOLDER"):
        Schema.draft({"person": pd.DataFrame({"sex": ["F"]})})
    with pytest.raises(BadInput, match=r"a draft needs a frame, got str: synthdp\.read\(path\)"):
        Schema.draft("records.csv")


def test_python_drafts_what_the_command_line_drafts(tmp_path):
    rows = np.arange(80)
    frame = pd.DataFrame(
        {
            "patient": [f"p{row // 2}" for row in rows], "age": rows % 37, "dose": rows / 7, "ill": rows % 2 == 0,
            "code": [f"{'ABC'[row % 3]}{row % 40:02d}.1" for row in rows],
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rows, unit="D"),
            "letter": [f"The patient of record {row} said that it hurts" for row in rows],
        }
    )  # fmt: skip
    made = Schema.draft(frame, name="mine")
    assert made == Schema.from_dict(yamlfile.parse(draft(frame, "mine.csv").schema, "draft"))
    assert made.column("code").tree.prefix == (1, 3)
    assert not any(str(value) in str(made.to_dict()) for value in ("A00", "p1", 36))
    with pytest.raises(BadInput, match="marked for review"):
        made.check_declared()
    made.save(tmp_path / "schema.yaml")
    assert Schema.load(tmp_path / "schema.yaml") == made
    for odd in (frame[[]], frame[["age", "age"]]):
        with pytest.raises(BadInput, match="no two of the same name"):
            Schema.draft(odd)


@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}, b"ab", (1,), pd.Timedelta("1h"), np.zeros(2)], ids=repr)
def test_cells_that_no_kind_can_hold_are_left_out_of_a_frame_s_draft_too(cell):
    frame = pd.DataFrame({"x": range(27), "odd": pd.Series([cell] * 26 + [None])})
    assert [column.name for column in Schema.draft(frame).ignored] == ["odd"]


def test_dates_and_numbers_that_a_frame_holds_as_text_are_drafted_as_such_with_a_remedy():
    rows = np.arange(120)
    days = pd.Series(pd.Timestamp("2023-01-01") + pd.to_timedelta(rows * 3, unit="D"))
    frame = pd.DataFrame(
        {
            "admitted": days.dt.strftime("%d.%m.%Y"), "seen": days.dt.strftime("%m/%d/%y 08:30"), "born": days.dt.strftime("%d-%b-%Y"),
            "day": days.dt.strftime("%Y-%m-%d"), "creatinine": [f"{row / 7:.2f}".replace(".", ",") for row in rows],
            "cost": [f"{row},250 €" for row in rows], "crp": ["<5" if row % 4 else str(5 + row) for row in rows],
            "weight": [f"{row / 3:.1f}" for row in rows], "plz": [f"{row:05d}" for row in rows], "code": [f"A{row}" for row in rows],
            "tel": [f"030-{row}-{row}" for row in rows], "dose": [f"{row % 3}-0-1" for row in rows],
        }
    )  # fmt: skip
    frame.loc[3, ["admitted", "creatinine"]] = None
    with pytest.warns(UserWarning, match="^'[^']+'(, '[^']+')*: dates, times of day or numbers as text") as heard:
        made = Schema.draft(frame)
    kinds = {column.name: column.kind for column in made.columns}
    assert kinds["admitted"] == kinds["seen"] == kinds["born"] == kinds["day"] == "datetime"
    assert kinds["creatinine"] == kinds["cost"] == kinds["crp"] == kinds["weight"] == "continuous"
    assert (made.column("admitted").resolution, made.column("seen").resolution) == ("day", "second")
    assert {kinds[name] for name in ("plz", "code", "tel", "dose")} <= {"categorical", "identifier"}
    (said,) = [str(each.message) for each in heard]
    for name in ("admitted", "seen", "born", "creatinine", "cost", "crp"):
        assert repr(name) in said
    assert "'day'" not in said
    assert "'weight'" not in said, "cells are read as numbers as they are"
    assert "synthdp schema path=" in said
    assert "2023" not in said


def test_a_draft_says_how_codes_of_digits_stay_digits():
    frame = pd.DataFrame({"plz": ["01067", "10115", "80331", None] * 5, "ward": ["a", "b"] * 10})
    text, schema, _ = drafted(frame)
    assert schema.column("plz").kind == "categorical"
    assert text.count('declare other: with digits that no code begins with: "99999"') == 1


@pytest.mark.parametrize("rows", [60, 2000])
def test_a_draft_says_that_two_numbers_in_one_text_are_better_two_columns(rows):
    """A blood pressure was a category among thousands, or a name where most are there once, and nothing said what to do."""
    pressure = [f"{100 + row % 67}/{60 + row % 31}" for row in range(rows)]
    mixed = [f"{each} mmHg" if row % 3 else each for row, each in enumerate(pressure)]
    text = draft(pd.DataFrame({"bp": pressure, "notes": mixed, "n": range(rows)}), "t.csv").schema
    lines = [
        line for line in text.splitlines() if "two numbers in one text, such as a blood pressure: split it" in line
    ]
    assert len(lines) == 1
    assert text.index("  bp:") < text.index(lines[0]) < text.index("  notes:")


def test_a_draft_says_what_to_do_with_units_that_are_not_the_same_in_all_cells():
    """Such a column was a category among thousands, and nothing said what to do; units of the public list are read (test_dialect)."""
    rows = range(400)
    frame = pd.DataFrame(
        {
            "stay": [f"{row % 40} {'day' if row % 40 == 1 else 'days'}" for row in rows],
            "smokes": ["no" if row % 7 == 0 else f"{row % 50} cig/d\u00eda" for row in rows],
            "house": [f"{row % 97} {'ABCDEFGHIJ'[row % 10]}" for row in rows],
            "code": [f"{row % 90:02d}" for row in rows],
            "ward": [f"{row % 5} b" for row in rows],
        }
    )
    text = draft(frame, "t.csv").schema
    marked = re.findall("(?m)^  ([a-z]+):\\n    kind: categorical  # numbers with a unit after them", text)
    assert marked == ["stay", "smokes"]
    assert 'such as suffix: " mg"' in text
    assert "cig/d" not in text, "a draft holds no text of a cell"


def test_a_draft_says_which_codes_are_better_declared_by_their_look_or_name():
    codes = [f"{'ABC'[place % 3]}{place % 40:02d}.{place % 7}" for place in range(2000)]
    frame = pd.DataFrame({"hauptdiagnose": codes, "diag_1": ["250", "401"] * 1000, "ward": ["a", "b"] * 1000})
    text, _, _ = drafted(frame)
    blocks = {
        line.strip(" :"): part
        for line, part in zip(*[iter(re.split("(?m)^(  [a-z_0-9]+:)$", text)[1:])] * 2, strict=True)
    }
    assert "categories: learn  # better declared, from the public list" in blocks["hauptdiagnose"]
    assert "better declared: categorical with a tree" in blocks["diag_1"]
    assert "better declared" not in blocks["ward"]


def test_long_numbers_that_nobody_shares_are_names_and_not_measurements():
    numbers = [4_676_258_848_779_988 + 97 * place for place in range(60)]
    frame = pd.DataFrame({"konto": numbers, "few": [numbers[place % 3] for place in range(60)], "x": range(60)})
    assert kinds_of(frame) == {"konto": "identifier", "few": "continuous", "x": "integer"}


def test_whole_numbers_that_are_called_codes_are_drafted_as_codes():
    frame = pd.DataFrame({"DRG": [101, 107, 570] * 20, "n_drugs": [1, 2, 7] * 20, "ward": ["a", "b", "c"] * 20})
    schema = Schema.from_dict(yaml.safe_load(draft(frame, "stays.csv").schema))
    assert [(column.name, column.kind) for column in schema.columns][:2] == [
        ("DRG", "categorical"),
        ("n_drugs", "integer"),
    ]
