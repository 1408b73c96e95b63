import dataclasses
import json

import pytest
from mixed_tables import MIXED

from synthdp.errors import BadInput
from synthdp.schema import columns as kinds
from synthdp.schema import yamlfile
from synthdp.schema.learned import unfound
from synthdp.schema.schema import LEARN, Categorical, Continuous, Datetime, Integer, Schema

MINIMAL = {"columns": {"age": {"kind": "integer", "bounds": [0, 99]}}}


def made(**keys):
    return Schema.from_dict({**MINIMAL, **keys})


def with_column(**keys):
    return Schema.from_dict({"columns": {"x": keys}})


def test_yaml_and_json_lose_nothing(tmp_path):
    MIXED.save(tmp_path / "schema.yaml")
    assert Schema.load(tmp_path / "schema.yaml") == MIXED
    assert Schema.from_dict(json.loads(json.dumps(MIXED.to_dict()))) == MIXED
    assert hash(MIXED) == hash(Schema.load(tmp_path / "schema.yaml"))
    assert not list(tmp_path.glob(".*")), "a temporary file was left"


def test_learn_survives_the_round_trip_and_is_listed_in_order():
    schema = Schema(
        units=LEARN,
        columns=(
            Categorical(name="c", categories=LEARN),
            Integer(name="i", bounds=LEARN, bins=LEARN),
            Continuous(name="r", bounds=(0, 1), bins=LEARN),
            Datetime(name="d", bounds=LEARN),
        ),
    )
    assert schema.learned == [("c", "categories"), ("i", "bounds"), ("i", "bins"), ("r", "bins"), ("d", "bounds")]
    assert Schema.from_dict(schema.to_dict()) == schema
    assert MIXED.learned == []


def test_yaml_means_what_it_says(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(
        "columns:\n"
        "  drug: {kind: categorical, categories: [No, Yes, Off, 01, 1e5x, 7, 2020-01-31, None, 1:30]}\n"
        "  day: {kind: datetime, bounds: [2020-01-01, 2020-12-31]}\n"
        "  dose: {kind: continuous, bounds: [0, 1e3], missing: true}\n"
    )
    schema = Schema.load(file)
    assert schema.column("drug").categories == ("No", "Yes", "Off", "01", "1e5x", "7", "2020-01-31", "None", "1:30")
    assert schema.column("day").bounds == ("2020-01-01", "2020-12-31")
    assert schema.column("dose").bounds == (0, 1000.0)
    schema.save(file)
    assert Schema.load(file) == schema


def test_properties():
    assert MIXED.names[0] == "patient"
    assert "patient" not in [column.name for column in MIXED.modelled]
    assert MIXED.with_targets("age", "real").targets == ("age", "real")
    with pytest.raises(BadInput, match="did you mean 'smoker'"):
        MIXED.with_targets("smokers")


def test_a_target_that_is_left_out_is_said_to_be():
    schema = made(columns={"age": {"kind": "boolean"}, "note": {"kind": "ignore"}})
    with pytest.raises(BadInput, match="targets 'note' is of kind ignore"):
        schema.with_targets("note")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"unitt": "age"}, "unknown key 'unitt'; did you mean 'unit'"),
        ({"constraints": []}, "unknown key 'constraints'"),
        ({"unit": "patient"}, "unit 'patient' is not one of its columns"),
        ({"unit": "age"}, "must be of kind identifier"),
        ({"targets": ["agee"]}, "did you mean 'age'"),
        ({"targets": 3}, "targets must be a list"),
        ({"targets": ["age", "age"]}, "names a column twice"),
        ({"units": 0}, "units must be a whole number of at least 1"),
        ({"units": -5}, "units"),
        ({"units": 2.5}, "units"),
        ({"units": True}, "units"),
        ({"max_records_per_unit": 0}, "max_records_per_unit must be a whole number of at least 1"),
        ({"max_records_per_unit": 2}, "needs unit"),
        ({"columns": []}, "columns must map"),
        ({"columns": {"id": {"kind": "identifier"}}}, "at least one column that is not an identifier"),
        ({"columns": {1: {"kind": "boolean"}}}, "name that is text"),
        ({"name": 3}, "name must be text"),
    ],
)
def test_what_a_schema_refuses(keys, says):
    with pytest.raises(BadInput, match="schema: ") as caught:
        made(**keys)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({}, "needs a mapping with kind"),
        ({"kind": "intger"}, "did you mean 'integer'"),
        ({"kind": "integer"}, "'bounds' must be declared, or be learn"),
        ({"kind": "integer", "bounds": [5, 1]}, "5 is above 1; swap them"),
        ({"kind": "integer", "bounds": [1, 2, 3]}, "two finite numbers"),
        ({"kind": "integer", "bounds": ["a", "b"]}, "two finite numbers"),
        ({"kind": "integer", "bounds": 5}, "bounds must be a list, such as [0, 110], or learn"),
        ({"kind": "integer", "bounds": "lern"}, "bounds must be a list, such as [0, 110], or learn"),
        ({"kind": "integer", "bounds": [0.5, 3]}, "whole numbers"),
        ({"kind": "integer", "bounds": [0, 2**60]}, "whole numbers of at most 2^53"),
        ({"kind": "integer", "bounds": [0, 9], "binss": 3}, "did you mean 'bins'"),
        ({"kind": "integer", "bounds": [0, 9], "bins": 0}, "bins must be a count"),
        ({"kind": "integer", "bounds": [0, 9], "bins": [3, 3]}, "rise strictly"),
        ({"kind": "integer", "bounds": [0, 9], "bins": [3, 12]}, "lie within bounds"),
        ({"kind": "integer", "bounds": "learn", "bins": [1, 2]}, "declare the bounds too"),
        ({"kind": "integer", "bounds": [0, 9], "atoms": [10]}, "within bounds"),
        ({"kind": "integer", "bounds": [0, 9], "atoms": [1, 1]}, "distinct"),
        ({"kind": "integer", "bounds": [0, 9], "atoms": 0}, "atoms must be a list"),
        ({"kind": "integer", "bounds": [0, 9], "missing": "perhaps"}, "missing must be true or false"),
        ({"kind": "continuous", "bounds": [0, float("inf")]}, "two finite numbers"),
        ({"kind": "continuous", "bounds": [-1e308, 1e308]}, "less than 1.8e308 apart"),
        ({"kind": "continuous", "bounds": [-1e308, 1e308]}, "widest plausible"),
        ({"kind": "continuous", "bounds": [0.001, 0.002], "decimals": 2}, "contain no number with 2 decimals"),
        ({"kind": "continuous", "bounds": [0, 1], "decimals": -1}, "decimals must be"),
        ({"kind": "continuous", "bounds": [0, 1], "decimals": 1, "atoms": [0.25]}, "at most 1 decimals"),
        ({"kind": "continuous", "bounds": [0, 1e12], "decimals": 9}, "too wide"),
        ({"kind": "categorical"}, "'categories' must be declared, or be learn"),
        ({"kind": "categorical", "categories": []}, "a list of one or more"),
        ({"kind": "categorical", "categories": ["a", "b", "a"]}, "listed twice: 'a'"),
        ({"kind": "categorical", "categories": [True, "b"]}, "must be text"),
        ({"kind": "categorical", "categories": [None, "b"]}, "must be text"),
        ({"kind": "categorical", "categories": ["a"], "other": "b"}, "other must be one of its categories"),
        # Else found once the categories were bought, and the fit was lost.
        *(
            ({"kind": "categorical", "categories": "learn", "other": it}, "other must name a category")
            for it in (True, 0.5, ["a"])
        ),
        ({"kind": "ordinal", "categories": "learn"}, "cannot be learned"),
        ({"kind": "datetime", "bounds": ["2020-01-01", "soon"]}, "ISO 8601"),
        ({"kind": "datetime", "bounds": ["2021-01-01", "2020-01-01"]}, "swap them"),
        ({"kind": "datetime", "bounds": ["2020-01-01", "2020-02-01"], "resolution": "week"}, "resolution must be"),
        ({"kind": "datetime", "bounds": ["2020-01-01T01:00", "2020-01-01T02:00"]}, "contain no whole day"),
        ({"kind": "boolean", "bounds": [0, 1]}, "unknown key 'bounds'"),
    ],
)
def test_what_a_column_refuses(keys, says):
    with pytest.raises(BadInput, match="column 'x'") as caught:
        with_column(**keys)
    assert says in str(caught.value)


def test_columns_declared_twice():
    with pytest.raises(BadInput, match="declared twice: 'x'"):
        Schema(columns=(kinds.Boolean(name="x"), kinds.Boolean(name="x")))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("columns: {a: {kind: boolean}, a: {kind: boolean}}", "given twice"),
        ("columns: [", "line 1, column 11: not valid YAML: a value is missing"),
        ("- a", "expected a mapping"),
        ("", "expected a mapping"),
        ("columns: {a: !!python/object:os.system {}}", "not valid YAML"),
    ],
)
def test_broken_files(tmp_path, text, says):
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=r"broken\.yaml") as caught:
        Schema.load(file)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_absent_files(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        Schema.load(tmp_path / "none.yaml")
    with pytest.raises(BadInput, match="is a folder"):
        Schema.load(tmp_path)
    with pytest.raises(BadInput, match="cannot be written"):
        MIXED.save(tmp_path / "no" / "such.yaml")


def test_every_error_is_one_line_and_a_value_error():
    with pytest.raises(ValueError) as caught:
        made(unitt=1)
    assert "\n" not in str(caught.value)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("bounds", [(3, 1), (0, 0), (NAN, NAN), (-INF, INF), (1e300, 1e300), (-1e300, 5)])
@pytest.mark.parametrize(
    "column",
    [
        Integer(name="x", bounds=LEARN, atoms=(0, 50)),
        Continuous(name="x", bounds=LEARN, atoms=(-1.5,)),
        Continuous(name="x", bounds=LEARN, decimals=2, atoms=(0.07,)),
        Datetime(name="x", bounds=LEARN),
        Datetime(name="x", bounds=LEARN, resolution="second"),
    ],
)
def test_whatever_is_bought_makes_a_usable_column(column, bounds):
    from synthdp.schema.codec import Codec

    schema = Schema(columns=(column,)).with_learned("x", bounds=bounds, bins=(5, 4, NAN, INF, -1e18, 1e18, 5))
    assert schema.learned == []
    assert Schema.from_dict(schema.to_dict()) == schema
    assert Codec(schema).sizes[0] >= 1


@pytest.mark.parametrize(
    ("column", "coding", "bounds"),
    [
        (Datetime(name="x", bounds=LEARN), {"date": "dd/mm/yy", "latest": 2010}, ("1911-01-01", "2010-12-31")),
        (
            Datetime(name="x", bounds=LEARN, resolution="hour"),
            {"date": "dd/mm/yy HH", "latest": 1999},
            ("1900-01-01", "1999-12-31T23:00:00"),
        ),
        (Integer(name="x", bounds=LEARN), {"time": "HH:MM"}, (0, 1439)),
        (Integer(name="x", bounds=LEARN), {"stored": "uint8"}, (0, 255)),
        (Integer(name="x", bounds=LEARN, step=10), {"stored": "int8"}, (-120, 120)),
        (Integer(name="x", bounds=LEARN), {"stored": "decimal(3, 0)"}, (-999, 999)),
        (Continuous(name="x", bounds=LEARN, decimals=1), {"stored": "decimal(4, 2)"}, (-99.9, 99.9)),
        (Continuous(name="x", bounds=LEARN), {"stored": "decimal(2, 2)"}, (-0.99, 0.99)),
    ],
)
def test_learned_bounds_lie_within_what_a_cell_can_say(column, coding, bounds):
    """If noise hides bounds, the widest ones stand: a year of another century or a number too large for its type could not be written."""
    plain = {**Schema(columns=(column,)).to_dict(), "reading": {"columns": {"x": coding}}}
    ends = (-(2.0**53), 2.0**53) if isinstance(column, Datetime) else (-(2.0**40), 2.0**40)
    schema = Schema.from_dict(plain).with_learned("x", bounds=ends, bins=[1.0])
    assert schema.column("x").bounds == bounds
    schema.reading.check(schema.columns, values=True)
    if isinstance(column, Datetime):
        assert unfound(*bounds)


def test_bought_items_take_the_place_of_learn():
    table = Schema(
        columns=(
            Categorical(name="c", categories=LEARN),
            Categorical(name="o", categories=LEARN, other="else"),
            Integer(name="i", bounds=LEARN, bins=LEARN, atoms=(0,)),
            Datetime(name="d", bounds=LEARN),
        )
    )
    bought = (
        table.with_learned("c", categories=["b", "a"])
        .with_learned("o", categories=[])
        .with_learned("i", bounds=(2.2, 8.9), bins=(4, 6))
        .with_learned("d", bounds=(86_400e6 * 1.5, 86_400e6 * 3.5))
    )
    assert bought.column("c") == Categorical(name="c", categories=("b", "a", "other"), other="other")
    assert bought.column("o").categories == ("else",)
    assert bought.column("i") == Integer(name="i", bounds=(0, 9), bins=(4.0, 6.0), atoms=(0,))
    assert bought.column("d").bounds == ("1970-01-02", "1970-01-05")
    with pytest.raises(BadInput, match="cannot learn"):
        table.with_learned("c", bounds=(1, 2))


def test_columns_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MIXED.columns[1].missing = False


def test_signs_alone_are_text_in_a_schema_file():
    """`decimal: .` and `missing: [., -99]` need no quotes."""
    assert yamlfile.parse("{a: ., b: [., -, +, -99, .5, 5., 1e3]}", "here") == {
        "a": ".",
        "b": [".", "-", "+", -99, 0.5, 5.0, 1000.0],
    }
    assert yamlfile.parse(yamlfile.dump({"a": "."}), "here") == {"a": "."}


HISTORY = {
    "unit": "who",
    "max_records_per_unit": 3,
    "columns": {
        "who": {"kind": "identifier"},
        "day": {"kind": "datetime", "bounds": ["2020-01-01", "2020-12-31"]},
        "maybe": {"kind": "integer", "bounds": [0, 9], "missing": True},
        "sex": {"kind": "boolean"},
        "dose": {"kind": "continuous", "bounds": [0, 1]},
    },
}


def test_order_and_per_unit_are_kept():
    schema = Schema.from_dict({**HISTORY, "order": "day", "per_unit": ["sex"]})
    assert (schema.order, schema.per_unit) == ("day", ("sex",))
    assert Schema.from_dict(schema.to_dict()) == schema
    assert "order" not in Schema.from_dict(HISTORY).to_dict()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"order": "nosuch"}, "order 'nosuch' is not one of its columns"),
        ({"order": "maybe"}, "never missing"),
        ({"order": "dose"}, "must be a datetime or an integer"),
        ({"order": "who"}, "must be a datetime or an integer"),
        ({"order": 7}, "order must be text"),
        ({"per_unit": ["who"]}, "per_unit 'who' must be a modelled column"),
        ({"order": "day", "per_unit": ["day"]}, "other than order"),
        ({"per_unit": ["sex", "sex"]}, "per_unit names a column twice"),
        ({"per_unit": 7}, "per_unit must be a list of texts"),
        ({"order": "day", "unit": None, "max_records_per_unit": None}, "order needs unit"),
    ],
)
def test_an_order_that_orders_nothing_is_refused(keys, said):
    with pytest.raises(BadInput, match=said):
        Schema.from_dict({**HISTORY, **keys})
