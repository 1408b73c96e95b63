"""Linked tables in a schema: read and written back, and refused by name where they have another shape."""

import math

import numpy as np
import pandas as pd
import pytest
from linked_clinic import (
    BY_FILE,
    DECLARED,
    DIAGNOSIS,
    IN_ORDER,
    LAB,
    TREE,
    clinic,
    declared,
    labs,
    schema,
    with_keys_among_columns,
    with_labs,
    with_tree,
)

from synthdp import Budget, Schema, Synthesizer
from synthdp.errors import BadInput
from synthdp.planning import planned
from synthdp.schema import linked_tables, yamlfile
from synthdp.schema.joined_tables import joined
from synthdp.schema.table_review import review_tables
from synthdp.sets import record_files
from synthdp.sets.draft import draft_tables


def test_it_is_read_back_as_it_was_and_settled_with_its_rules(tmp_path):
    made = schema(tables={"diagnosis": {"key": "line", "columns": {"person_id": {"kind": "identifier"}, **CODES}}})
    assert Schema.from_dict(made.to_dict()) == made
    settled = made.settled()
    assert settled.honoured == (0, 1)
    assert Schema.from_dict(settled.to_dict()) == settled
    made.save(tmp_path / "clinic.yaml")
    assert Schema.load(tmp_path / "clinic.yaml") == made
    assert list(made.to_dict()["tables"]["diagnosis"]) == ["parent", "key", "max_rows", "columns"]
    assert made.order == "visit.start"
    assert made.per_unit == ("person.sex", "person.birth", "person.death")
    assert made.max_records_per_unit == 3
    assert [name for name in made.names if name.startswith("diagnosis")] == ["diagnosis.code 1", "diagnosis.code 2"]
    keys = [linked_tables.of_table(made, table).names[:2] for table in made.tables]
    assert keys == [("person_id", "sex"), ("visit_id", "person_id"), ("line", "person_id")]


def test_keys_of_many_people_keep_the_width_of_their_pattern_and_differ(tmp_path):
    """Three visits of a person, twice as many at most in synthetic tables, and two lines of each: as few digits as tell them apart."""
    patterns = {"visit": ("visit_id", "V######"), "diagnosis": ("line", "#######")}
    tables = {name: {"reading": {"columns": {key: {"pattern": pattern}}}} for name, (key, pattern) in patterns.items()}
    made = schema(
        tables={"visit": {**VISIT, **tables["visit"]}, "diagnosis": {**DIAGNOSIS, "key": "line", **tables["diagnosis"]}}
    )
    visits = [f"S{person:09d}-{place:02d}" for person in (1, 2, 99_999) for place in (1, 6)]
    lines = pd.DataFrame(
        [{"line": f"{visit}-{place:02d}", "visit_id": visit, "code": "E11"} for visit in visits for place in (1, 4)]
    ).assign(person_id=[visit.split("-")[0] for visit in visits for _ in range(2)])
    (table,) = (each for each in made.tables if each.name == "diagnosis")
    of_lines = linked_tables.of_table(made, table)
    record_files.write([lines[list(of_lines.names)]], tmp_path / "lines.csv", of_lines)
    found = pd.read_csv(tmp_path / "lines.csv", dtype=str)
    most = 2 * made.max_records_per_unit
    assert sorted(set(found["visit_id"])) == [f"V{(p - 1) * most + at:06d}" for p in (1, 2, 99_999) for at in (1, most)]
    assert found["line"].is_unique
    assert set(found["line"].str.len()) == {7}
    with pytest.raises(BadInput, match="rows"):
        schema(tables={"visit": {**VISIT, "reading": {"columns": {"visit_id": {"pattern": "#", "rows": [1]}}}}})


def test_keys_among_columns_stand_in_files_where_they_are_declared(tmp_path):
    tables = with_keys_among_columns()
    tables["visit"]["columns"] = {"note": {"kind": "ignore"}, **tables["visit"]["columns"]}
    made = schema(tables=tables)
    names = {table.name: [each.name for each in _columns(made, table)] for table in made.tables}
    assert names == {name: list(table["columns"]) for name, table in tables.items()}
    assert made.names == schema().names, "a model sees the same columns"
    assert not any(table.with_unit for table in made.tables)
    made.save(tmp_path / "clinic.yaml")
    for each in (Schema.from_dict(made.to_dict()), Schema.load(tmp_path / "clinic.yaml")):
        assert each == made
    assert {name: list(each["columns"]) for name, each in made.to_dict()["tables"].items()} == names
    record_files.write_tables(clinic(20), tmp_path / "tables", made)
    for name, columns in BY_FILE.items():
        assert list(pd.read_csv(tmp_path / "tables" / f"{name}.csv").columns) == list(columns)


def _columns(made, table):
    found = linked_tables.of_table(made, table)
    held = {each.name: each for each in (*found.columns, *found.ignored)}
    return [held[name] for name in linked_tables.placed(table, held)]


def test_a_draft_of_linked_tables_has_the_columns_in_the_order_of_their_files(tmp_path):
    frames = labs(clinic(60, seed=1), seed=1)
    written = {
        **BY_FILE,
        "lab": ["visit_id", "value", "test", "taken", "urgent"],
    }
    for name, columns in written.items():
        frames[name][list(columns)].to_csv(tmp_path / f"{name}.csv", index=False)
    found = {name: record_files.look(tmp_path / f"{name}.csv") for name in written}
    tables = yamlfile.parse(draft_tables(found, tmp_path).schema, "draft")["tables"]
    drafted = {name: list(table["columns"]) for name, table in tables.items()}
    first = ["visit_id", "test", "value", "taken", "urgent"]  # what a row is, before all that are no keys
    assert drafted == {**{name: list(columns) for name, columns in BY_FILE.items()}, "lab": first}


def test_further_columns_below_visits_are_read_back_with_the_orders_of_their_dates(tmp_path):
    made = with_labs(honoured=[1], tables={"lab": {**LAB, "columns": {**LAB["columns"], "note": {"kind": "ignore"}}}})
    assert Schema.from_dict(made.to_dict()) == made
    made.save(tmp_path / "clinic.yaml")
    assert Schema.load(tmp_path / "clinic.yaml") == made
    assert [rule.text for rule in made.rules_apart()[0]] == IN_ORDER[1:], "orders of dates below visits are always kept"
    assert [rule.text for rule in made.rules_apart()[1]] == IN_ORDER[:1]
    assert with_labs(rules=IN_ORDER[::-1], honoured=[2, 0]).honoured == (0,), "places are those of the other rules"
    (*_, table) = made.tables
    assert table.optional == ("value",)
    lab = linked_tables.of_table(made, table)
    assert [(column.name, getattr(column, "missing", None)) for column in lab.columns] == [
        ("visit_id", None),
        ("test", False),
        ("value", True),
        ("taken", False),
        ("urgent", False),
    ]
    assert [column.name for column in lab.ignored] == ["note"]
    one = linked_tables.alone(made)
    assert {"lab.test 1", "lab.test 3"} <= set(one.names)
    assert not {"lab.value 1", "lab.taken 1"} & set(one.names)


def test_check_lists_rows_below_visits_that_break_an_order():
    frames = labs(clinic(40, seed=1), seed=1)
    assert not [each for each in review_tables(with_labs(units=40), frames, frames) if "break" in each.what]
    frames["lab"].loc[[0, 1], "taken"] = pd.Timestamp("2020-01-01")
    (found,) = [each for each in review_tables(with_labs(units=40), frames, frames) if "break" in each.what]
    assert "'lab.taken >= visit.start'" in found.what
    assert (found.count, found.rows) == (2, (1, 2))


def test_check_says_which_rows_of_which_table_break_a_rule():
    """Rows are those of the files, in whatever order tables are joined; of a rule on people alone, those of people, also without visits."""
    rules = [
        {"never": {"person.sex": "M", "visit.ward": "a"}},
        {"never": {"person.sex": "F", "lab.test": "K"}},
        {"never": {"person.sex": "F", "person.birth": ">= 1990-01-01"}},
    ]
    of = with_labs(
        units=40, rules=[*IN_ORDER, *rules], tables={"lab": {**LAB, "max_rows": 9}, "visit": {**VISIT, "max_rows": 9}}
    )
    frames = {
        name: frame.sample(frac=1, random_state=3, ignore_index=True) for name, frame in labs(clinic(40, 1), 1).items()
    }
    person = frames["person"].set_index("person_id")
    sex = frames["visit"]["person_id"].map(person["sex"])
    of_visit = dict(zip(frames["visit"]["visit_id"], sex, strict=True))
    broken = {
        "visit": (sex == "M") & (frames["visit"]["ward"] == "a"),
        "lab": (frames["lab"]["visit_id"].map(of_visit) == "F") & (frames["lab"]["test"] == "K"),
        "person": (frames["person"]["sex"] == "F") & (frames["person"]["birth"] >= "1990-01-01"),
    }
    assert not set(frames["person"]["person_id"][broken["person"]]) <= set(frames["visit"]["person_id"])
    found = [each for each in review_tables(of, frames, frames) if "break" in each.what]
    assert len(found) == 3
    for table, rows in broken.items():
        (each,) = (each for each in found if each.what.startswith(f"some rows of {table} break"))
        assert each.rows == tuple(np.flatnonzero(rows) + 1)[:20]
        assert each.count == rows.sum() > 1
        assert not each.cells


def test_a_draft_proposes_columns_below_visits_and_asks_for_what_cannot_be_bought_there(tmp_path):
    """It loads, is not fitted, and without its marks says what is still to be declared."""
    frames = labs(clinic(60, seed=1), seed=1)
    frames["lab"]["unit"] = ["mg", "g"] * (len(frames["lab"]) // 2) + ["mg"] * (len(frames["lab"]) % 2)
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    found = {name: record_files.look(tmp_path / f"{name}.csv") for name in frames}
    drafted = draft_tables(found, tmp_path).schema
    assert ">= visit.start]" in drafted
    plain = yamlfile.parse(drafted, "draft")
    columns = plain["tables"]["lab"]["columns"]
    assert {name: (each["kind"], each.get("bounds"), each.get("categories")) for name, each in columns.items()} == {
        "visit_id": ("identifier", None, None),
        "test": ("categorical", None, ["TODO"]),
        "value": ("continuous", "TODO", None),
        "taken": ("datetime", "TODO", None),
        "urgent": ("boolean", None, None),
        "unit": ("categorical", None, ["TODO"]),
    }
    with pytest.raises(BadInput, match="marked for review"):
        Schema.from_dict(plain).check_declared()
    for name in ("value", "taken"):
        left = {**columns, name: {key: item for key, item in columns[name].items() if key != "review"}}
        tables = {**plain["tables"], "lab": {**plain["tables"]["lab"], "columns": left}}
        with pytest.raises(BadInput, match=f"column '{name}': bounds of a table below visits cannot be bought"):
            Schema.from_dict({**plain, "tables": tables})


def test_a_draft_of_linked_tables_says_why_a_column_is_left_out_and_how_targets_are_named(tmp_path):
    frames = labs(clinic(60, seed=1), seed=1)
    frames["person"]["fax"] = math.nan
    frames["person"]["letter"] = [f"The patient {row} said that it hurts a little" for row in range(60)]
    frames["person"]["bp"] = [f"{100 + row}/{60 + row % 31}" for row in range(60)]
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    lines = draft_tables({name: record_files.look(tmp_path / f"{name}.csv") for name in frames}, tmp_path).schema
    lines = [line.strip() for line in lines.splitlines()]
    assert lines[lines.index("fax:") + 1] == "kind: ignore  # left out: no cell holds anything"
    assert "# two numbers in one text, such as a blood pressure: split it" in lines[lines.index("bp:") + 1]
    assert lines[lines.index("letter:") + 1] == "kind: ignore  # left out, as free text is; it cannot be learned"
    assert "targets: []  # the columns that users will predict, each with its table: visit.ward" in lines


def test_a_draft_says_which_texts_stand_among_the_numbers_of_a_linked_table(tmp_path):
    """The draft of one table did; what means a missing value in a laboratory's file is known without being asked for."""
    frames = labs(clinic(90, seed=2))
    values = frames["lab"]["value"].astype(object)
    values[::5], values[1], values[2::20] = "<0.5", "haemolytic", "n.a."
    frames["lab"]["value"] = values
    for name, frame in frames.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    found = {name: record_files.look(tmp_path / f"{name}.csv") for name in frames}
    drafted = draft_tables(found, tmp_path)
    assert "# lab.value has cells with other text than numbers: [<0.5, haemolytic]\n" in drafted.seen
    assert "haemolytic" not in drafted.schema + "".join(found["lab"].lines())
    assert "'value': line 3 (record 2): expected a number" in found["lab"].mind[0]
    assert "n.a." in found["lab"].reading.coding("value").missing


def test_codes_of_a_list_beside_the_schema(tmp_path):
    (tmp_path / "codes.csv").write_text("code\nE11\nI10\n", encoding="utf-8")
    made = declared(
        tables={
            "diagnosis": {
                "columns": {"code": {"kind": "categorical", "categories": {"file": "codes.csv", "column": "code"}}}
            }
        }
    )
    (tmp_path / "clinic.yaml").write_text(pd.io.json.ujson_dumps(made), encoding="utf-8")
    assert Schema.load(tmp_path / "clinic.yaml").column("diagnosis.code 2").categories == ("E11", "I10")


def test_a_list_that_is_not_there_is_told_with_the_table_of_its_column(tmp_path):
    code = {"kind": "categorical", "categories": {"file": "codes.csv"}}
    made = declared(tables={"diagnosis": {"columns": {"code": code}}})
    (tmp_path / "clinic.yaml").write_text(pd.io.json.ujson_dumps(made), encoding="utf-8")
    with pytest.raises(
        BadInput, match=r"column 'diagnosis\.code': categories must be a list, learn, or the name of a list"
    ):
        Schema.load(tmp_path / "clinic.yaml")


CODES = {"code": {"kind": "categorical", "categories": ["E11", "I10"]}}
VISIT = DECLARED["tables"]["visit"]
WRONG = {
    "columns beside tables": ({"columns": {"a": {"kind": "boolean"}}}, "columns has no place beside tables"),
    "reading of no column": (
        {"tables": {"visit": {**VISIT, "reading": {"columns": {"wrad": {"missing": ["-9"]}}}}}},
        "reading: column 'wrad' is not one of its columns or keys",
    ),
    "reading of another kind": (
        {"tables": {"visit": {**VISIT, "reading": {"columns": {"no_show": {"stored": "date"}}}}}},
        "table 'visit': reading: column 'no_show': stored: date is no type",
    ),
    "a pattern for too many visits": (
        {"tables": {"visit": {**VISIT, "max_rows": 5000, "reading": {"columns": {"visit_id": {"pattern": "#"}}}}}},
        "keys can follow a pattern only if max_rows is at most 4,999",
    ),
    "order beside tables": ({"order": "visit.start"}, "order has no place beside tables"),
    "no unit": ({"unit": None}, "tables need unit"),
    "another key of people": ({"unit": "patient"}, "its key must be the unit, 'patient'"),
    "no such parent": (
        {"tables": {"visit": {"parent": "persons"}}},
        "'persons' is not one of the tables; did you mean 'person'?",
    ),
    "no such parent, with keys listed": (
        {
            "tables": {
                "visit": {"parent": "people", "columns": {"person_id": {"kind": "identifier"}, **VISIT["columns"]}}
            }
        },
        "table 'visit': parent 'people' is not one of the tables: person, visit, diagnosis",
    ),
    "two tables below people": (
        {"tables": {"drug": {"parent": "person", "max_rows": 2, "columns": CODES}}},
        "found visit, drug",
    ),
    "a fourth level": (
        {"tables": {"note": {"parent": "diagnosis", "max_rows": 2, "columns": CODES}}},
        "table 'note': its parent 'diagnosis'",
    ),
    "no order": ({"tables": {"visit": {"order": None}}}, "table 'visit': needs order"),
    "an order that is no column": ({"tables": {"visit": {"order": "stop"}}}, "order 'stop' is not one of its columns"),
    "no max_rows": ({"tables": {"visit": {"max_rows": None}}}, "needs order"),
    "no max_rows below": ({"tables": {"diagnosis": {"max_rows": None}}}, "table 'diagnosis': needs max_rows"),
    "an order below": ({"tables": {"diagnosis": {"order": "code"}}}, "order belongs to 'visit'"),
    "hourly rows below": (
        {"tables": {"diagnosis": {"max_rows": 150}}},
        "table 'diagnosis': max_rows must be at most 12. Of measurements that are taken every hour, keep one number for each test",
    ),
    "a number first below": (
        {"tables": {"diagnosis": {"columns": {"n": {"kind": "integer", "bounds": [0, 3]}, **CODES}}}},
        "its first column, 'n', says what a row is, and must be of kind categorical",
    ),
    "bounds to learn below": (
        {"tables": {"diagnosis": {"columns": {**CODES, "n": {"kind": "integer", "bounds": "learn"}}}}},
        "column 'n': bounds of a table below visits cannot be bought",
    ),
    "a tree of codes to learn below": (
        {"tables": {"diagnosis": {"columns": {"code": {**TREE, "categories": "learn"}}}}},
        "needs declared categories",
    ),
    "a tree of another column below": (
        {"tables": {"diagnosis": {"columns": {**CODES, "cause": TREE}}}},
        "column 'cause': tree of a table below visits cannot be bought",
    ),
    "a rule of a date below": (
        {"tables": {"lab": LAB}, "rules": [{"if": {"visit.ward": "a"}, "then": {"lab.taken": ">= 2020-01-01"}}]},
        "a date below visits is ordered by >= or <= and no more",
    ),
    "a rule of an unknown code below": ({"rules": [{"never": {"diagnosis.code": "E99", "visit.ward": "a"}}]}, "E99"),
    "a strict order below": (
        {"tables": {"lab": LAB}, "rules": ["lab.taken > visit.start"]},
        "a date below visits is ordered by >= or <= and no more",
    ),
    "an order by another date of visits": (
        {
            "tables": {"lab": LAB, "visit": {"columns": {**VISIT["columns"], "end": LAB["columns"]["taken"]}}},
            "rules": ["lab.taken <= visit.end"],
        },
        "the visit's order, a date of the person",
    ),
    "an order of two tables below": (
        {"tables": {"lab": LAB, "drug": LAB}, "rules": ["lab.taken >= drug.taken"]},
        "names two tables below visits, drug and lab",
    ),
    "no code below": (
        {"tables": {"diagnosis": {"columns": {"code": {**CODES["code"], "missing": True}}}}},
        "'code', says what a row is, so no cell of it can be missing",
    ),
    "codes to learn below": (
        {"tables": {"diagnosis": {"columns": {"code": {"kind": "categorical", "categories": "learn"}}}}},
        "needs declared categories",
    ),
    "no key of visits": (
        {"tables": {"visit": {"key": None}}},
        "needs key, the column that links 'diagnosis' to its visits",
    ),
    "a key among columns": ({"tables": {"visit": {"key": "ward"}}}, "'ward' is its key"),
    "its parent's key among columns": (
        {"tables": {"diagnosis": {"columns": {"visit_id": {"kind": "categorical", "categories": ["a", "b"]}}}}},
        "'visit_id' is its parent's key",
    ),
    "names that a file system may take for one": (
        {"tables": {"Diagnosis": {"parent": "visit", "max_rows": 2, "columns": CODES}}},
        "differ in capitals alone",
    ),
    "a second identifier": (
        {"tables": {"person": {"columns": {"mrn": {"kind": "identifier"}, "sex": {"kind": "boolean"}}}}},
        "'mrn' is an identifier",
    ),
    "pictures": (
        {"tables": {"person": {"columns": {"face": {"kind": "image", "height": 2, "width": 2}}}}},
        "'face' is an image",
    ),
    "an unknown key": (
        {"tables": {"visit": {"maxrows": 3}}},
        "unknown key 'maxrows'; did you mean 'max_rows'.; known keys: parent",
    ),
    "columns by another name": (
        {"tables": {"lab": {"parent": "visit", "max_rows": 2, "colums": CODES}}},
        "table 'lab': unknown key 'colums'; did you mean 'columns'.",
    ),
    "no columns": (
        {"tables": {"lab": {"parent": "visit", "max_rows": 2}}},
        "table 'lab': needs a mapping with columns",
    ),
    "a name that is no file's": (
        {"tables": {"a/b": {"parent": "visit", "max_rows": 2, "columns": CODES}}},
        "letters, digits",
    ),
    "rows that are no number": ({"tables": {"visit": {"max_rows": "many"}}}, "max_rows must be a whole number"),
    "a reading": ({"reading": {"encoding": "latin-1"}}, "reading has no place beside tables"),
    "a rule that cannot be kept": (
        {"rules": ["visit.start >= person.birth", "person.birth <= person.death"], "honoured": [1]},
        "honoured names rules that cannot be kept",
    ),
    "a rule of unknown columns": ({"rules": ["visit.start >= person.born"]}, "person.born"),
    "a rule without its table": ({"rules": ["birth <= visit.start"]}, "did you mean 'person.birth'"),
    "a rule with another table": ({"rules": ["diagnose.code >= visit.start"]}, r"did you mean 'diagnosis.code'\?"),
    "a target without its table": ({"targets": ["ward"]}, "did you mean 'visit.ward'"),
    "a target below visits": (
        {"targets": ["diagnosis.code"]},
        "'diagnosis.code' is a column of a table below visits; name one of the visits or of the people",
    ),
    "categories below visits": (
        {"tables": {"diagnosis": {"columns": {"code": {"kind": "categorical", "categories": ["E11", "E11"]}}}}},
        "^column 'diagnosis.code': categories listed twice",
    ),
    "an order that is not there": ({"tables": {"visit": {"order": "starts"}}}, "did you mean 'start'"),
    "a key of people that is not the unit": (
        {"tables": {"person": {"key": "person"}}},
        r"without a parent: person \(key: person\)",
    ),
}


@pytest.mark.parametrize(("changes", "said"), WRONG.values(), ids=WRONG)
def test_another_shape_is_refused_by_name(changes, said):
    with pytest.raises(BadInput, match=said):
        schema(**changes)


def test_codes_below_visits_may_have_a_tree():
    """Their categories are one thing to learn, whatever place a row has."""
    made = with_tree()
    assert made.learned == [("diagnosis.code", "categories")]
    bought = made.with_learned("diagnosis.code", categories=["E11", "I"])
    assert bought.column("diagnosis.code 1").categories == ("E11", "I", "other")
    assert bought.column("diagnosis.code 2").categories == ("E11", "I", "other")
    for each in (made, bought):
        assert Schema.from_dict(each.to_dict()) == each
    assert not made.with_learned("diagnosis.code", categories=["E11"]).learned


def test_of_its_rules_those_are_kept_that_order_visits_and_dates_of_people():
    made = schema(rules=["visit.start >= person.birth", "person.birth <= person.death", "visit.start < person.death"])
    kept, counted = made.rules_apart()
    assert [rule.text for rule in kept] == ["visit.start >= person.birth"]
    assert len(counted) == 2


def test_frames_that_do_not_fit_are_refused_with_the_table():
    made, frames = schema(), clinic(20)
    assert list(made.validate_tables(frames)) == ["person", "visit", "diagnosis"]
    for changed, said in (
        ({"visit": frames["visit"].assign(ward="z")}, "table 'visit': .*not one of the declared"),
        ({"visit": frames["visit"].drop(columns="person_id")}, "table 'visit': .*missing columns: 'person_id'"),
        ({"diagnosis": frames["diagnosis"].assign(person_id="a")}, "table 'diagnosis': .*does not know: 'person_id'"),
        ({"person": frames["person"].assign(person_id=1.0)}, "key 'person_id' is stored as float64"),
        ({"drug": frames["visit"]}, "those given are"),
    ):
        with pytest.raises(BadInput, match=said):
            made.validate_tables({**frames, **changed})
    with pytest.raises(BadInput, match="describes the linked tables person, visit, diagnosis"):
        made.validate(frames["visit"])


def test_check_lists_links_and_keys_that_are_not_right():
    frames = clinic(40, seed=1)
    visit, person = frames["visit"].copy(), frames["person"]
    visit.loc[0, "person_id"], visit.loc[1, "person_id"] = "nobody", None
    shared = frames["diagnosis"]["visit_id"][frames["diagnosis"]["visit_id"].isin(visit["visit_id"][2:])].iloc[0]
    holder = visit["person_id"][visit["visit_id"] == shared].iloc[0]
    other = int(visit.index[(visit["person_id"] != holder) & (visit.index > 1)][0])
    visit.loc[other, "visit_id"] = shared
    frames |= {"visit": visit, "person": pd.concat([person, person.iloc[:1]], ignore_index=True)}
    found = review_tables(schema(units=40), frames, frames)
    told = {(each.column, each.what.split(":")[0]): each for each in found}
    assert told["visit.person_id", "some rows have a key that is not in person, and count for nobody"].rows == (1,)
    assert told["visit.person_id", "some rows have no key of person, and count for nobody"].rows == (2,)
    assert told["person.person_id", "some keys occur in several rows"].rows == (1, 41)
    assert told["visit.visit_id", "some keys occur in several rows"].count == 2
    assert not any(each.cells for each in found)
    shown = review_tables(schema(units=40), frames, frames, values=True)
    cells = {(each.column, each.what.split(":")[0]): each.cells for each in shown}
    assert cells["visit.person_id", "some rows have a key that is not in person, and count for nobody"] == ("nobody",)
    assert cells["visit.person_id", "some rows have no key of person, and count for nobody"] == ("",)
    assert cells["person.person_id", "some keys occur in several rows"] == (str(person["person_id"][0]),) * 2
    assert (
        "diagnosis.visit_id",
        "some rows belong to several people, since their keys do, and count once for each",
    ) in told
    capped = [each for each in review_tables(schema(units=40), frames, frames) if "max_rows" in each.what]
    assert {each.column for each in capped} == {"visit.start", "diagnosis.visit_id"}
    sizes = frames["diagnosis"].groupby("visit_id").size()
    assert {each.column: each.count for each in capped}["diagnosis.visit_id"] == int((sizes - 2).clip(lower=0).sum())
    whole = clinic(40, seed=1)
    whole["visit"].loc[0, "ward"] = None
    assert not review_tables(
        schema(units=40, tables={"visit": {"max_rows": 6}, "diagnosis": {"max_rows": 9}}), whole, whole
    )
    early = clinic(40, seed=1)
    early["visit"]["start"] = pd.Timestamp("2020-01-01")
    early["person"]["birth"] = pd.Timestamp("2009-01-01")
    early["person"].loc[0, "birth"] = pd.Timestamp("2010-01-01")
    assert not [each for each in review_tables(schema(units=40), early, early) if "birth" in each.what]
    late = schema(units=40, rules=["visit.start >= person.death"])
    assert [
        each
        for each in review_tables(late, clinic(40, seed=1), clinic(40, seed=1))
        if "some rows of visit break the rule" in each.what
    ]


@pytest.mark.parametrize("frame", ["lab.csv", "as it is written"])
def test_frames_of_linked_tables_that_are_not_read_are_refused_with_what_reads_them(frame):
    """Messages once named `synthdp.read`, which takes one table."""
    taken = {**LAB["columns"]["value"], "bounds": [0, 100]}
    of = with_labs(
        tables={"lab": {**LAB, "columns": {**LAB["columns"], "value": taken}, "reading": {"decimal": ","}}}, rules=[]
    )
    frames = labs(clinic(20, seed=1), seed=1)
    written = frames["lab"].assign(value=frames["lab"]["value"].map("{:.2f}".format).str.replace(".", ","))
    with pytest.raises(BadInput, match="table 'lab': ") as refusal:
        of.validate_tables({**frames, "lab": frame if frame == "lab.csv" else written})
    assert str(refusal.value).endswith("synthdp.read_tables(folder, schema) reads the files of linked tables")


def remedies(found):
    return {(each.column, each.what): each.remedy for each in found}


def test_check_recommends_below_visits_nothing_that_a_schema_refuses_there():
    """`learn` is refused for columns of tables below visits, and missing: true for the column that orders visits."""
    frames, of = labs(clinic(60, seed=1), seed=1), with_labs()
    frames["diagnosis"].loc[0, "code"] = frames["lab"].loc[0, "test"] = "unknown"
    frames["lab"].loc[1, "value"] = 900.0
    frames["person"].loc[0, "birth"] = pd.Timestamp("1800-01-01")
    frames["visit"].loc[0, "start"] = None
    told = remedies(review_tables(of, frames, frames))
    codes = "correct the cells, give the column a category `other:`, or complete its code list (look it up outside of the records)"
    unknown = "some values are not one of the declared categories"
    assert told["diagnosis.code", unknown] == told["lab.test", unknown] == codes
    bounds = told["lab.value", "some values are outside the declared bounds [0, 100]"]
    assert bounds == "correct the cells, or widen the bounds (look it up outside of the records)"
    (birth,) = [remedy for (column, _), remedy in told.items() if column == "person.birth"]
    assert birth.endswith("or use `learn`)"), "which is allowed there"
    missing = "missing, though the column says what follows what (leave such records out)"
    assert told["visit.start", f"some values are {missing}"] == "correct the cells, or take these records out"
    with pytest.raises(BadInput, match="table 'visit'") as refusal:
        of.validate_tables({**frames, "person": clinic(60, seed=1)["person"]})
    assert f"column 'start': some values are {missing}" in str(refusal.value)
    assert "missing: true" not in str(refusal.value)
    several = {"kind": "continuous", "bounds": [0, 100], "bins": [200 / 7, 50], "missing": True}
    edges = with_labs(tables={"lab": {**LAB, "columns": {**LAB["columns"], "value": several}}})
    frames["lab"]["value"] = 1.0
    bins = remedies(review_tables(edges, frames, frames))["lab.value", "all records lie in one of its bins"]
    assert bins == "choose other bins (look it up outside of the records)"


def noises(of):
    found = planned(Synthesizer("histories", schema=of, budget=Budget(1.0, 1e-6)))
    return {(table.of, len(table.columns), round(table.noise, 6)) for table in found.tables}


def test_check_says_what_a_larger_number_of_rows_does_to_the_noise_of_histories():
    frames, of = clinic(60, seed=1), schema(units=60)
    told = {each.column: each.remedy for each in review_tables(of, frames, frames) if "max_rows" in each.what}
    weighed = "the more of them a person has, the less each one weighs; tables by their number get more cells"
    visits = f"a larger number uses more visits and, from generator.clip on, adds no noise: {weighed}"
    rows = f"a larger number, up to 12, uses more rows and adds no noise: {weighed}"
    assert told == {"visit.start": visits, "diagnosis.visit_id": rows}
    more = [{"visit": {"max_rows": 40}}, {"diagnosis": {"max_rows": 12}}]
    assert all(noises(schema(units=60, tables=each)) == noises(of) for each in more), "as a plan has it"
    ward = {**DECLARED["tables"]["visit"]["columns"], "ward": {"kind": "categorical", "categories": "learn"}}
    learned = schema(units=60, tables={"visit": {"columns": ward}, "diagnosis": {"columns": {"code": TREE}}})
    told = {each.column: each.remedy for each in review_tables(learned, frames, frames) if "max_rows" in each.what}
    assert told["visit.start"] == f"{visits}. Only what is learned of visit.ward then holds more noise"
    assert told["diagnosis.visit_id"] == f"{rows}. Only what is learned of diagnosis.code then holds more noise"


def test_check_does_not_advise_more_rows_than_a_visit_may_have():
    """Where no number of rows that is allowed keeps most of them, as of measurements that are taken every hour."""
    frames = clinic(60, seed=1)
    hourly = {**frames, "diagnosis": pd.concat([frames["diagnosis"]] * 40)}
    for most in (2, 12):
        of = schema(units=60, tables={"diagnosis": {"max_rows": most}})
        told = [each for each in review_tables(of, hourly, hourly) if each.column == "diagnosis.visit_id"]
        (found,) = [each for each in told if "max_rows" in each.what]
        left = found.count / len(hourly["diagnosis"])
        assert left > 0.5
        assert found.what.endswith(f"further rows are left out, {left:.0%} of the table")
        assert found.remedy.startswith(
            "max_rows can be at most 12. Of measurements that are taken every hour, keep one number"
        )
    rows = clinic(400, seed=1)
    once = rows["diagnosis"].drop_duplicates("visit_id")
    nearly = {**rows, "diagnosis": pd.concat([once, once[:1], once[:1]])}
    told = [
        each.what for each in review_tables(schema(units=400, tables={"diagnosis": {"max_rows": 2}}), nearly, nearly)
    ]
    assert any(each.endswith("further rows are left out, less than 1% of the table") for each in told), "not 0%"


def test_what_a_reading_may_not_say_of_what_is_declared_names_the_table():
    """Columns of several tables often have the same name."""
    table = declared(tables={"lab": {**LAB, "reading": {"columns": {"value": {"numbers": {"<5": 2.5}}}}}}, rules=None)
    with pytest.raises(BadInput, match=r"table 'lab': reading: column 'value': numbers: .* declare atoms: \[2.5\]"):
        Schema.from_dict(table).check_declared()


def test_columns_that_are_left_out_of_people_and_of_visits_are_not_joined():
    left_out = {
        "person": {"columns": {**DECLARED["tables"]["person"]["columns"], "sex": {"kind": "ignore"}}},
        "visit": {"columns": {**DECLARED["tables"]["visit"]["columns"], "ward": {"kind": "ignore"}}},
    }
    made = schema(units=40, tables=left_out)
    whole = joined(made.validate_tables(clinic(40, seed=1)), made)
    assert tuple(whole.frame.columns) == made.names
    assert not {"person.sex", "visit.ward"} & set(whole.frame.columns)


def test_learned_bounds_lie_within_what_the_files_of_each_table_can_say():
    born = {"kind": "datetime", "bounds": "learn", "missing": True}
    two_digits = {"columns": {"birth": {"date": "dd/mm/yy", "latest": 2010}}}
    columns = {**DECLARED["tables"]["person"]["columns"], "birth": born}
    table = declared(tables={"person": {"columns": columns, "reading": two_digits}}, rules=None)
    learned = Schema.from_dict(table).with_learned("person.birth", bounds=(-1e18, 1e18))
    assert learned.column("person.birth").bounds == ("1911-01-01", "2010-12-31")
