"""Declared rules: what the schema reads, what it refuses, and which rows break them (against a loop over rows)."""

import contextlib
import dataclasses
import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

from synthdp.errors import BadInput
from synthdp.schema.contradictions import _Narrowed, contradictions
from synthdp.schema.rule_rows import broken
from synthdp.schema.rules import Implies, Never, Order, Term, Together
from synthdp.schema.schema import (
    LEARN,
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Identifier,
    Integer,
    Ordinal,
    Schema,
)
from synthdp.schema.trees import Tree

YEAR = ("2020-01-01", "2020-12-31")
STAGES = ("I", "II", "III")
COLUMNS = (
    Identifier(name="patient"),
    Datetime(name="admission", bounds=YEAR, missing=True),
    Datetime(name="discharge", bounds=YEAR, missing=True),
    Integer(name="age", bounds=(0, 99), missing=True),
    Continuous(name="weight <kg>", bounds=(0, 200), missing=True),
    Categorical(name="sex", categories=("F", "M"), missing=True),
    Categorical(name="partner", categories=("F", "M"), missing=True),
    Categorical(name="city", categories=LEARN, missing=True),
    Categorical(name="code", categories=("1", "2.0", "<30"), missing=True),
    Ordinal(name="stage", categories=STAGES, missing=True),
    Ordinal(name="later", categories=STAGES, missing=True),
    Boolean(name="pregnant", missing=True),
)
EVERY = (
    "admission <= discharge",
    "age >= 18",
    "weight <kg> < 150.5",
    "stage<=later",
    "sex = partner",
    "sex = F",
    "stage > I",
    "admission >= 2020-02-01",
    {"always": {"age": ">= 18 and < 65", "sex": ["F", "M"]}},
    {"if": {"sex": "M"}, "then": {"pregnant": False}},
    {"if": {"age": "< 15", "city": ["Bonn", "Ulm"]}, "then": {"stage": ["I", "II"], "weight <kg>": "<= 90"}},
    {"never": {"sex": "M", "pregnant": True}},
    {"never": {"code": "<30"}},
    {"together": ["city", "code"], "allowed": [["Bonn", "1"], ["Bonn", "2.0"], ["Ulm", 1]]},
    {"together": ["age", "pregnant", "admission"], "allowed": [[20, True, "2020-03-01"], [3, False, "2020-03-01"]]},
)


def schema_of(*rules):
    return Schema(columns=COLUMNS, rules=rules)


def test_values_of_every_form():
    found = schema_of(*EVERY).rules
    assert found[0] == Order(left="admission", op="<=", right="discharge")
    assert found[1] == Implies(then=(Term(column="age", op=">=", constants=(18,)),))
    assert found[2].then == (Term(column="weight <kg>", op="<", constants=(150.5,)),)
    assert found[3] == Order(left="stage", op="<=", right="later")
    assert found[6].then == (Term(column="stage", op="in", constants=("II", "III")),)
    assert [term.op for term in found[8].then] == [">=", "<", "in"]
    assert found[9].given == (Term(column="sex", op="in", constants=("M",)),)
    assert found[11] == Never(
        terms=(Term(column="sex", op="in", constants=("M",)), Term(column="pregnant", op="in", constants=(True,)))
    )
    assert found[12].terms[0].constants == ("<30",)
    assert found[13] == Together(columns=("city", "code"), allowed=(("Bonn", "1"), ("Bonn", "2.0"), ("Ulm", "1")))
    assert found[9].text == "if sex = M then pregnant = false"
    assert found[13].text == "city, code in 3 allowed combinations"


def test_nothing_is_lost_on_the_way_to_a_file_and_back(tmp_path):
    schema = schema_of(*EVERY)
    schema.save(tmp_path / "schema.yaml")
    assert Schema.load(tmp_path / "schema.yaml") == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert hash(Schema.from_dict(schema.to_dict())) == hash(schema)
    assert dataclasses.replace(schema, name="x").rules == schema.rules


def test_a_schema_without_rules_is_written_as_before():
    assert "rules" not in schema_of().to_dict()
    assert Schema(columns=COLUMNS, rules=[]).rules == ()
    assert schema_of() != schema_of("age >= 18")


def test_bought_categories_never_make_a_rule_fail():
    rule = {"if": {"city": "Bonn"}, "then": {"age": "< 9"}}
    settled = schema_of(rule).with_learned("city", categories=["Ulm"])
    assert settled.rules == schema_of(rule).rules
    assert Schema.from_dict(settled.to_dict()) == settled


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("admision <= discharge", "'admision' is not one of the columns; did you mean 'admission'?"),
        (
            "admission <= dischrge",
            "column 'admission' (datetime): 'dischrge' is neither one of the columns nor ISO 8601 text such as 2020-01-31; did you mean "
            "'discharge'?",
        ),
        (
            "admission <= 2020-02-30",
            "column 'admission' (datetime): '2020-02-30' is not ISO 8601 text such as 2020-01-31",
        ),
        (
            "age <= agee",
            "column 'age' (integer): 'agee' is neither one of the columns nor a finite number; did you mean 'age'?",
        ),
        ({"always": {"age": "<= agee"}}, "column 'age' (integer): 'agee' is not a finite number"),
        (
            {"if": {"sex": "M"}, "then": {"city": None}},
            "column 'city' (categorical): a rule cannot say that a cell is empty",
        ),
        ("discharge => admission", "there is no operator =>; did you mean discharge >= admission?"),
        ("admission =< discharge", "there is no operator =<; did you mean admission <= discharge?"),
        ("age == 18", "there is no operator ==; did you mean age = 18?"),
        ("city == code", "there is no operator ==; did you mean city = code?"),
        ("age + age == age", "sums and other arithmetic are not supported: a rule compares a column with one column"),
        ("age == age - 1", "sums and other arithmetic are not supported"),
        ("stage => II", "there is no operator =>; did you mean stage >= II?"),
        ({"never": {"age": "=> 18"}}, "there is no operator =>; did you mean age >= 18?"),
        ("age", "expected a column, one of < <= = >= >"),
        ("age >=", "expected a column, one of"),
        (">= 3", "expected a column, one of"),
        ("3 <= age", "'3' is not one of the columns"),
        (7, "expected {always: ...}"),
        ({}, "expected {always: ...}"),
        ({"if": {"sex": "M"}}, "expected {always: ...}"),
        ({"if": {}, "then": {"sex": "M"}}, "if must map at least one column"),
        ({"never": []}, "never must map at least one column"),
        ({"never": {"sex": "X"}}, "column 'sex' (categorical): 'X' is not one of its categories: F, M"),
        ({"never": {"sex": []}}, "column 'sex': no row can satisfy an empty list"),
        ({"never": {"sex": True}}, "column 'sex' (categorical): True must be text"),
        ({"never": {"pregnant": "perhaps"}}, "column 'pregnant' (boolean): 'perhaps' is not true or false"),
        ({"never": {"age": "old"}}, "column 'age' (integer): 'old' is not a finite number"),
        ({"never": {"age": float("nan")}}, "column 'age' (integer): nan is not a finite number"),
        ({"never": {"age": "< inf"}}, "column 'age' (integer): inf is not a finite number"),
        ({"never": {"patient": "p1"}}, "column 'patient' is an identifier"),
        ({"never": {3: "p1"}}, "3 is not one of the columns"),
        ("stage < I", "column 'stage': no category is < 'I'"),
        ("stage <= V", "column 'stage' (ordinal): 'V' is not one of its categories"),
        ("sex < M", "column 'sex' (categorical) has no order"),
        ("pregnant > false", "column 'pregnant' (boolean) has no order"),
        ("sex < partner", "column 'sex' (categorical) has no order"),
        ("age < admission", "column 'age' (integer) and column 'admission' (datetime) cannot be compared"),
        ("age < age", "column 'age' is compared with itself"),
        ({"together": ["city"], "allowed": [["Bonn"]]}, "at least two different columns"),
        ({"together": ["city", "city"], "allowed": [["a", "b"]]}, "at least two different columns"),
        ({"together": ["city", "code"], "allowed": []}, "allowed must list combinations of 2 values"),
        ({"together": ["city", "code"], "allowed": [["Bonn"]]}, "allowed must list combinations of 2 values"),
        ({"together": ["city", "code"], "allowed": [["Bonn", "9"]]}, "column 'code' (categorical): '9' is not one"),
    ],
)
def test_what_a_rule_refuses(rule, says):
    with pytest.raises(BadInput, match="schema: rule ") as caught:
        schema_of(rule)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_category_may_begin_with_a_sign():
    assert schema_of("code =<30").rules == schema_of("code = <30").rules == schema_of({"always": {"code": "<30"}}).rules
    assert schema_of("city = >Ulm").rules[0].then[0].constants == (">Ulm",), "which is left to learn"


def test_what_the_list_refuses():
    for rules in ("age >= 18", {"never": {"sex": "M"}}, {}, 3):
        with pytest.raises(BadInput, match="rules must be a list"):
            Schema.from_dict({"columns": {"age": {"kind": "boolean"}}, "rules": rules})
    with pytest.raises(BadInput, match="is given twice"):
        schema_of("age >= 18", {"always": {"age": ">=18"}})
    other = Ordinal(name="grade", categories=("a", "b"))
    with pytest.raises(BadInput, match="ordinals with different categories"):
        Schema(columns=(*COLUMNS, other), rules=("stage <= grade",))
    with pytest.raises(BadInput, match="more than one way"):
        Schema(columns=(Boolean(name="a"), Boolean(name="a = b"), Boolean(name="c")), rules=("a = b = c",))


def every_row(**values):
    return pd.DataFrame(list(product(*values.values())), columns=list(values))


def days(*texts):
    return [pd.Timestamp(text) if text else pd.NaT for text in texts]


NAN = float("nan")


@pytest.mark.parametrize(
    ("rule", "frame", "breaks"),
    [
        (
            "admission <= discharge",
            every_row(
                admission=days("2020-01-02", "2020-05-01", None), discharge=days("2020-05-01", "2020-01-02", None)
            ),
            lambda r: r.admission > r.discharge,
        ),
        ("age >= 18", every_row(age=[17, 18, 19.5, None, 1e9, -3]), lambda r: r.age < 18),
        ("stage < later", every_row(stage=[*STAGES, None, "odd"], later=[*STAGES, None]), None),
        ("sex = partner", every_row(sex=["F", "M", None], partner=["F", "M", None]), None),
        (
            {"if": {"sex": "M"}, "then": {"pregnant": False}},
            every_row(sex=["F", "M", None], pregnant=[True, False, None]),
            lambda r: r.sex == "M" and r.pregnant is True,
        ),
        (
            {"never": {"sex": "M", "pregnant": True}},
            every_row(sex=["F", "M", None], pregnant=["yes", "0", "T", None]),
            lambda r: r.sex == "M" and r.pregnant in ("yes", "T"),
        ),
        (
            {"if": {"age": ">= 18 and < 65"}, "then": {"code": ["1", "<30"], "stage": ["I", "II"]}},
            every_row(age=[17, 18, 64, 65, NAN], code=["1", "2.0", "<30", None], stage=[*STAGES, None]),
            lambda r: 18 <= r.age < 65 and (r.code == "2.0" or r.stage == "III"),
        ),
        (
            {"together": ["city", "code"], "allowed": [["Bonn", "1"], ["Ulm", "2.0"], ["Ulm", "1"]]},
            every_row(city=["Bonn", "Ulm", "Rom", None], code=["1", "2.0", "<30", None]),
            lambda r: (
                isinstance(r.city, str)
                and isinstance(r.code, str)
                and (r.city, r.code) not in {("Bonn", "1"), ("Ulm", "2.0"), ("Ulm", "1")}
            ),
        ),
        (
            {"together": ["age", "weight <kg>"], "allowed": [[1, 10.5], [2, 12]]},
            pd.DataFrame({"age": [1, 1, 2, 3, NAN], "weight <kg>": [10.5, 12, 12, 12, 12]}),
            [False, True, False, True, False],
        ),
        (
            {"always": {"admission": ["2020-03-01", "2020-01-01"]}},
            pd.DataFrame({"admission": ["2020-01-01", "2020-03-01", "2020-03-02", "no date", None]}),
            [False, False, True, False, False],
        ),
    ],
)
def test_broken_rows_against_a_loop(rule, frame, breaks):
    schema = schema_of(rule)
    found = broken(schema.rules[0], frame, schema)
    if breaks is None:  # the two rules on pairs of texts, said again
        a, b = frame.columns
        pairs = [(x, y) for x, y in zip(frame[a], frame[b], strict=True)]
        known = ["F", "M"] if rule.startswith("sex") else list(STAGES)
        test = (lambda x, y: x != y) if rule.startswith("sex") else (lambda x, y: known.index(x) >= known.index(y))
        expected = [x in known and y in known and test(x, y) for x, y in pairs]
    elif callable(breaks):
        expected = [bool(breaks(row)) for row in frame.rename(columns={"weight <kg>": "weight"}).itertuples()]
    else:
        expected = breaks
    assert found.tolist() == expected
    assert 0 < sum(expected) < len(expected)
    assert broken(schema.rules[0], frame.iloc[:0], schema).shape == (0,)
    nothing = frame.assign(**dict.fromkeys(frame.columns))
    assert not broken(schema.rules[0], nothing, schema).any()


def test_dates_are_compared_as_days_where_their_columns_are_declared_as_days():
    frame = pd.DataFrame(
        {"arrived": days("2020-01-02 14:30", "2020-01-03 00:10"), "given": days("2020-01-02", "2020-01-02")}
    )
    for resolution, breaks in (("day", [False, True]), ("minute", [True, True])):
        arrived = Datetime(name="arrived", bounds=("2020-01-01", "2020-12-31"), resolution=resolution)
        columns = (arrived, Datetime(name="given", bounds=("2020-01-01", "2020-12-31")))
        schema = Schema(columns=columns, rules=("given >= arrived",))
        assert broken(schema.rules[0], frame, schema).tolist() == breaks, resolution
    for limit in ({"always": {"arrived": "<= 2020-01-02"}}, {"always": {"arrived": "2020-01-02"}}):
        for resolution, breaks in (("day", [False, True]), ("minute", [True, True])):
            arrived = Datetime(name="arrived", bounds=("2020-01-01", "2020-12-31"), resolution=resolution)
            schema = Schema(columns=(arrived,), rules=(limit,))
            assert broken(schema.rules[0], frame, schema).tolist() == breaks, (limit, resolution)


def test_what_is_not_listed_belongs_to_other():
    columns = (Categorical(name="drug", categories=("a", "rest"), other="rest"), Boolean(name="ward"))
    schema = Schema(columns=columns, rules=({"never": {"drug": "rest", "ward": True}}, {"never": {"drug": "z"}}))
    frame = pd.DataFrame({"drug": ["a", "rest", "q", "z"], "ward": [True, True, True, True]})
    assert broken(schema.rules[0], frame, schema).tolist() == [False, True, True, True]
    assert broken(schema.rules[1], frame, schema).tolist() == [False, False, False, True]


def test_a_node_stands_for_its_codes_in_a_list_of_combinations_too():
    """A node that several combinations name was looked for at another place, so rows that keep the rule counted as breaking it."""
    dx = Categorical(name="dx", categories=("E11", "I10", "I50"), tree=Tree(prefix=(1,)))
    schema = Schema(
        columns=(dx, Categorical(name="ward", categories=("a", "b"))),
        rules=({"together": ["dx", "ward"], "allowed": [["E", "a"], ["E", "b"], ["I", "a"], ["I10", "b"]]},),
    )
    rows = [("E11", "a"), ("E11", "b"), ("I10", "a"), ("I10", "b"), ("I50", "a"), ("I50", "b"), ("I", "b")]
    frame = pd.DataFrame(rows, columns=["dx", "ward"])
    # I10 is nearer to itself than to I, which alone is allowed in ward a.
    assert broken(schema.rules[0], frame, schema).tolist() == [False, False, True, False, False, True, True]


def test_a_column_that_is_not_there():
    schema = schema_of("age >= 18")
    with pytest.raises(BadInput, match="no column 'age'"):
        broken(schema.rules[0], pd.DataFrame({"sex": ["M"]}), schema)


def test_rules_charge_nothing_and_the_honoured_ones_are_kept():
    from synthdp.api import Synthesizer
    from synthdp.ledger.budget import Budget

    columns = (Integer(name="age", bounds=(0, 9)), Boolean(name="ward"))
    frame = pd.DataFrame({"age": np.arange(200) % 10, "ward": np.arange(200) % 3 == 0})
    made = []
    for rules in ((), ("age >= 5", {"never": {"ward": True}})):
        schema = Schema(columns=columns, units=200, rules=rules)
        with pytest.warns(UserWarning, match="may break.*: age >= 5") if rules else contextlib.nullcontext():
            fitted = Synthesizer("independent", schema=schema, budget=Budget(1.0, 1e-6)).fit(frame, seed=3)
        made.append((fitted.sample(50, seed=4), [str(event) for event in fitted.ledger.entries()]))
    assert made[0][1] == made[1][1]
    assert made[0][0]["ward"].any()
    assert not made[1][0]["ward"].any()
    assert (made[1][0]["age"] < 5).any()  # a bound of one number is said by the schema's bounds
    said = fitted.statement
    assert said.declared["rules"] == {"kept": ["never ward = true"], "counted": ["age >= 5"]}
    assert "Declared rules that synthetic records may break: age >= 5." in said.not_covered


def test_public_records_lack_columns_and_so_have_no_rules():
    from synthdp.pate.code_features import public_schema

    assert public_schema(schema_of("sex = F", "age >= 18"), "sex").rules == ()


# ---- Rules that nothing can keep.


SMALL = (
    Integer(name="a", bounds=(0, 3)),
    Integer(name="b", bounds=(0, 3)),
    Integer(name="c", bounds=(2, 5)),
    Categorical(name="sex", categories=("F", "M")),
    Categorical(name="partner", categories=("F", "M")),
    Boolean(name="pregnant"),
    Ordinal(name="stage", categories=STAGES),
    Ordinal(name="later", categories=STAGES),
)
DAYS = (
    Datetime(name="start", bounds=("2020-01-01", "2020-06-30")),
    Datetime(name="end", bounds=("2021-01-01", "2021-06-30"), resolution="minute", missing=True),
    Continuous(name="x", bounds=(0, 1)),
    Continuous(name="y", bounds=(0, 1)),
    Continuous(name="z", bounds="learn"),
    Categorical(name="ward", categories=("icu", "er", "other"), other="other"),
)


@pytest.mark.parametrize(
    ("columns", "rules", "found"),
    [
        (SMALL, ["a > c", "a >= 1"], []),
        (SMALL, ["a > 3"], [["a > 3"]]),
        (SMALL, ["c < a", "b >= 1", "a <= 2"], [["c < a", "a <= 2"]]),
        (DAYS, ["x < y", "y <= z", "z <= x"], [["x < y", "y <= z", "z <= x"]]),
        (SMALL, ["a <= b", "b <= a"], []),
        (SMALL, ["stage < later", "later = I"], [["stage < later", "later = I"]]),
        (SMALL, [{"always": {"sex": "F"}}, {"never": {"sex": "F"}}], [["sex = F", "never sex = F"]]),
        (SMALL, ["sex = partner", "sex = F", {"always": {"partner": "M"}}], [["sex = partner", "sex = F", "partner = M"]]),
        (SMALL, [{"never": {"a": ">= 0"}}], [["never a >= 0"]]),
        (SMALL, [{"together": ["a", "sex"], "allowed": [[0, "F"], [1, "M"]]}, "a >= 2"], [["a, sex in 2 allowed combinations", "a >= 2"]]),
        (DAYS, ["end <= start"], [["end <= start"]]),
        (DAYS, ["start >= 2020-05-01", "start < 2020-05-01", "x < 0.5"], [["start >= 2020-05-01", "start < 2020-05-01"]]),
        (DAYS, ["x < y", "y < x"], [["x < y", "y < x"]]),
        (DAYS, ["x < y", "y <= x", "x > 2"], [["x > 2"], ["x < y", "y <= x"]]),
        (DAYS, ["x < y", "y > 0.9", {"always": {"ward": "other"}}], []),
    ],
)  # fmt: skip
def test_rules_that_no_record_can_keep_are_found(columns, rules, found):
    told = contradictions(Schema(columns=columns, rules=rules))
    assert not any(each.given for each in told)
    assert [[rule.text for rule in each.rules] for each in told] == found


def test_rules_that_only_some_records_cannot_keep_are_found_with_those():
    of_men = {"if": {"sex": "M"}, "then": {"pregnant": False}}
    other = {"if": {"sex": "M"}, "then": {"pregnant": True}}
    (found,) = contradictions(Schema(columns=SMALL, rules=[of_men, "a < b", other]))
    assert [rule.plain() for rule in found.rules] == [of_men, other]
    assert [term.text for term in found.given] == ["sex = M"]
    assert contradictions(Schema(columns=SMALL, rules=[of_men, {"if": {"sex": "F"}, "then": {"pregnant": True}}])) == []
    nobody = {"if": {"a": "> 3"}, "then": {"sex": "F"}}
    assert contradictions(Schema(columns=SMALL, rules=[nobody, {"if": {"a": "> 3"}, "then": {"sex": "M"}}])) == []


def test_a_chain_of_orders_settles_in_a_few_rounds(monkeypatch):
    """One declared from its end moved each round a single column; with a contradiction, a check took a minute."""
    limited, plain = [], _Narrowed._limit
    monkeypatch.setattr(
        _Narrowed, "_limit", lambda self, *rest, **more: limited.append(rest) or plain(self, *rest, **more)
    )
    columns = tuple(Integer(name=f"x{place}", bounds=(0, 60)) for place in range(60))
    for rules in ([f"x{place} < x{place + 1}" for place in range(59)][::way] for way in (1, -1)):
        limited.clear()
        assert contradictions(Schema(columns=columns, rules=rules)) == []
        assert 29 in {each[2] for each in limited if each[:2] == ("x30", ">=")}, "x29 is 29 at least"
        assert len(limited) <= 10 * len(rules)


def test_what_is_found_is_certain():
    """Against all records there are: none keeps all rules that are named."""
    values = [range(4), range(4), range(2, 6), *[("F", "M")] * 2, (False, True), *[STAGES] * 2]
    names = [column.name for column in SMALL]
    every = pd.DataFrame(list(product(*values)), columns=names)
    rng, told = np.random.default_rng(7), 0
    numbers, ops = ("a", "b", "c"), ("<", "<=", "=", ">=", ">")

    def drawn():
        kind = rng.integers(8)
        one, other = (str(each) for each in rng.choice(numbers, 2, replace=False))
        op = str(rng.choice(ops))
        rules = [
            f"{one} {op} {other}",
            f"{one} {op} {rng.integers(0, 6)}",
            f"stage {op} later",
            {"never": {"sex": str(rng.choice(["F", "M"]))}},
            {"if": {"sex": str(rng.choice(["F", "M"]))}, "then": {one: f"{op} {rng.integers(0, 6)}"}},
            {"always": {"pregnant": bool(rng.integers(2)), "stage": str(rng.choice(STAGES))}},
            {
                "never": {
                    "sex": str(rng.choice(["F", "M"])),
                    one: f"{rng.choice(['<', '<=', '>', '>='])} {rng.integers(0, 6)}",
                }
            },
            {"together": [one, "sex"], "allowed": [[int(rng.integers(0, 6)), "M"], [int(rng.integers(0, 6)), "F"]]},
        ]
        return rules[kind]

    for _ in range(150):
        rules = list({str(each): each for each in (drawn() for _ in range(int(rng.integers(1, 6))))}.values())
        schema = Schema(columns=SMALL, rules=rules)
        for found in contradictions(schema):
            told += 1
            wanted = np.ones(len(every), np.bool_)
            if found.given:
                wanted = ~broken(Implies(then=found.given), every, schema)
            kept = [~broken(rule, every, schema) for rule in found.rules]
            assert not (wanted & np.logical_and.reduce(kept)).any(), [rule.text for rule in found.rules]
    assert told > 30


def test_what_is_excluded_beside_what_is_certain_is_found():
    """Men may be in no other ward than the one that is excluded for them; and one rule after another leaves nothing."""
    only = {"if": {"sex": "M"}, "then": {"stage": "II", "pregnant": True}}
    never = {"never": {"sex": "M", "pregnant": True}}
    (found,) = contradictions(Schema(columns=SMALL, rules=[never, "a <= b", only]))
    assert [rule.plain() for rule in found.rules] == [never, only]
    assert [term.text for term in found.given] == ["sex = M"]
    several = [
        {"never": {"sex": "M", "a": ">= 2"}},
        {"always": {"a": ">= 2"}},
        {"always": {"sex": "M"}},
    ]
    (found,) = contradictions(Schema(columns=SMALL, rules=several))
    assert [rule.plain() for rule in found.rules] == several
    for place in range(3):
        assert contradictions(Schema(columns=SMALL, rules=several[:place] + several[place + 1 :])) == []
