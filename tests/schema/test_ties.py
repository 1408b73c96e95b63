"""Rules that the codec keeps by construction: decoded records never break them, and come back as the codes they were."""

import itertools

import numpy as np
import pandas as pd
import pytest
from mixed_tables import AWFUL, every_code

from synthdp import Schema
from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Integer
from synthdp.schema.rule_rows import broken
from synthdp.schema.tied_columns import forbidden, ties
from synthdp.schema.where import allowed

COLUMNS = {
    "patient": {"kind": "identifier"},
    "sex": {"kind": "categorical", "categories": ["F", "M", "rest"], "other": "rest", "missing": True},
    "admitted": {"kind": "datetime", "bounds": ["2020-01-01", "2022-12-31"], "missing": True},
    "pregnant": {"kind": "boolean", "missing": True},
    "discharged": {"kind": "datetime", "bounds": ["2020-01-01", "2023-06-30"], "missing": True},
    "city": {"kind": "categorical", "categories": ["Bonn", "Ulm", "Kiel"]},
    "postcode": {"kind": "categorical", "categories": ["53111", "53113", "89073", "24103"], "missing": True},
    "onset": {"kind": "integer", "bounds": [0, 120], "missing": True},
    "age": {"kind": "integer", "bounds": [18, 110], "atoms": [40]},
    "low": {"kind": "continuous", "bounds": [-1, 3], "missing": True},
    "middle": {"kind": "continuous", "bounds": [-0.5, 2.5], "decimals": 2, "missing": True},
    "high": {"kind": "continuous", "bounds": [0, 4.2]},
    "was": {"kind": "ordinal", "categories": ["I", "II", "III"]},
    "now": {"kind": "ordinal", "categories": ["I", "II", "III"], "missing": True},
    "billed": {"kind": "datetime", "bounds": ["2020-01-01", "2023-12-31"], "resolution": "minute"},
    "ill": {"kind": "boolean"},
}
RULES = [
    "admitted <= discharged",
    {"never": {"sex": "M", "pregnant": True}},
    {"together": ["city", "postcode"], "allowed": [["Bonn", 53111], ["Bonn", 53113], ["Ulm", 89073], ["Kiel", 24103]]},
    "onset < age",
    "low <= middle",
    "high > middle",
    "was <= now",
    "billed >= discharged",
    "low < high",
]
SCHEMA = Schema.from_dict({"targets": ["ill"], "rules": RULES, "columns": COLUMNS})
CODEC = Codec(SCHEMA)
CODES = np.stack([np.random.default_rng(0).integers(0, size, 20_000) for size in CODEC.sizes], axis=1)


def schema_of(*rules, **more):
    return Schema.from_dict({"rules": list(rules), "columns": COLUMNS, **more})


def test_which_rules_are_honoured_and_what_a_model_sees():
    assert ties(SCHEMA).honoured == tuple(range(9))
    assert [column.name for column in SCHEMA.coded] == [
        "sex + pregnant", "admitted", "discharged", "city + postcode", "onset", "age", "low", "middle", "high",
        "was + now", "billed", "ill",
    ]  # fmt: skip
    assert CODEC.names == tuple(column.name for column in SCHEMA.coded)
    sizes = dict(zip(CODEC.names, CODEC.sizes, strict=True))
    assert sizes["sex + pregnant"] == 4 * 3 - 1
    assert sizes["city + postcode"] == 4 + 3
    assert sizes["was + now"] == 6 + 3
    assert sorted(CODEC.ordered) == sorted(
        ["admitted", "discharged", "onset", "age", "low", "middle", "high", "billed"]
    )


@pytest.mark.heavy
def test_no_decoded_record_breaks_a_rule_whatever_the_codes():
    frame = CODEC.decode(CODES, np.random.default_rng(1))
    SCHEMA.validate(frame)
    assert list(frame.columns) == list(SCHEMA.names)
    for rule in SCHEMA.rules:
        assert not broken(rule, frame, SCHEMA).any(), rule.text
    for name in ("sex", "pregnant", "discharged", "admitted", "onset", "middle", "now"):
        assert frame[name].isna().any()
    pd.testing.assert_frame_equal(frame, CODEC.decode(CODES, np.random.default_rng(1)))
    pd.testing.assert_series_equal(frame.dtypes, CODEC.decode(CODES[:0], np.random.default_rng(1)).dtypes)


@pytest.mark.parametrize("seed", range(3))
def test_codes_of_records_that_keep_the_rules_come_back(seed):
    """The law encode(decode(codes)) == codes, on all codes that some record without a broken rule has."""
    first = CODEC.decode(CODES, np.random.default_rng(seed))
    codes = CODEC.encode(first)
    again = CODEC.encode(CODEC.decode(codes, np.random.default_rng(seed + 10)))
    np.testing.assert_array_equal(again, codes)
    labels = [place for place, name in enumerate(CODEC.names) if name not in CODEC.ordered]
    np.testing.assert_array_equal(codes[:, labels], CODES[:, labels])


def honest(rows, seed=0):
    """Records that keep every rule, made without the codec."""
    rng = np.random.default_rng(seed)
    admitted = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1096, rows), unit="D")
    stay = pd.to_timedelta(np.minimum(rng.geometric(0.2, rows) - 1, 180), unit="D")
    city = rng.integers(0, 4, rows)
    low = rng.uniform(-1, 2, rows)
    middle = np.minimum(np.ceil(np.maximum(low, -0.5) * 100 + rng.integers(0, 60, rows)) / 100, 2.5)
    sex = rng.choice(["F", "M"], rows)
    was = rng.integers(0, 3, rows)
    onset = rng.integers(0, 100, rows)
    frame = pd.DataFrame(
        {
            "sex": sex,
            "admitted": admitted,
            "pregnant": pd.array((sex == "F") & (rng.random(rows) < 0.3), dtype="boolean"),
            "discharged": admitted + stay,
            "city": np.array(["Bonn", "Bonn", "Ulm", "Kiel"])[city],
            "postcode": np.array(["53111", "53113", "89073", "24103"])[city],
            "onset": pd.array(onset, dtype="Int64"),
            "age": np.maximum(onset + rng.integers(1, 11, rows), 18),
            "low": low,
            "middle": middle,
            "high": np.minimum(np.maximum(middle, 0) + rng.exponential(0.3, rows) + 1e-9, 4.2),
            "was": np.array(["I", "II", "III"])[was],
            "now": np.array(["I", "II", "III"])[np.minimum(was + rng.integers(0, 2, rows), 2)],
            "billed": admitted + stay + pd.to_timedelta(rng.integers(0, 9000, rows), unit="min"),
            "ill": rng.random(rows) < 0.5,
        }
    )
    for name in ("admitted", "discharged", "onset", "low", "middle", "postcode", "now"):
        frame.loc[rng.random(rows) < 0.15, name] = None
    return frame


def test_records_that_keep_the_rules_come_back_with_their_codes_and_about_their_gaps():
    frame = honest(20_000)
    for rule in SCHEMA.rules:
        assert not broken(rule, frame, SCHEMA).any(), rule.text
    codes = CODEC.encode(frame)
    made = CODEC.decode(codes, np.random.default_rng(2))
    np.testing.assert_array_equal(CODEC.encode(made), codes)
    known = frame["admitted"].notna() & frame["discharged"].notna()
    stays = [(rows["discharged"] - rows["admitted"]).dt.days[known] for rows in (frame, made)]
    assert (
        stays[0][stays[0] <= 4] == stays[1][stays[0] <= 4]
    ).all()  # a day has a code of its own where stays are short
    assert abs(stays[0] - stays[1]).max() <= 43
    for name in ("sex", "pregnant", "city", "postcode", "was", "now", "ill"):
        assert made[name].astype(object).fillna("-").tolist() == frame[name].astype(object).fillna("-").tolist()


@pytest.mark.heavy
def test_total_on_awful_cells_and_record_by_record():
    frame = CODEC.decode(CODES[:8], np.random.default_rng(3))
    before = CODEC.encode(frame)
    for cell, name in itertools.product(AWFUL, ("sex", "pregnant", "discharged", "age", "low")):
        changed = frame.astype(object)
        changed.loc[5, name] = [cell] if isinstance(cell, list | dict) else cell
        after = CODEC.encode(changed)
        assert ((after >= 0) & (after < np.array(CODEC.sizes))).all()
        kept = np.arange(8) != 5
        np.testing.assert_array_equal(after[kept], before[kept])
        np.testing.assert_array_equal(CODEC.encode(changed.iloc[[5]])[0], after[5])


def test_records_that_break_a_rule_are_moved_to_it():
    frame = honest(50)
    one = {
        "sex": "M", "pregnant": True, "city": "Ulm", "postcode": "53111", "admitted": "2021-05-05", "onset": 50,
        "discharged": "2021-05-01", "age": 30, "was": "III", "now": "I", "low": 3.0, "middle": 0.5, "high": 0.2,
        "billed": "2020-01-01",
    }  # fmt: skip
    broken_ones = frame.astype(object).assign(**one)
    made = CODEC.decode(CODEC.encode(broken_ones), np.random.default_rng(0)).iloc[0]
    assert (made["sex"], made["city"], made["was"]) == ("M", "Ulm", "III")  # what is declared first stays
    assert not made["pregnant"]
    assert made["postcode"] == "89073"
    assert made["now"] == "III"
    assert made["discharged"] == made["admitted"]
    assert made["billed"] == made["discharged"]
    assert made["age"] == made["onset"] + 1
    for rule in SCHEMA.rules:
        assert not broken(rule, made.to_frame().T, SCHEMA).any(), rule.text


def test_gaps_of_a_chain_are_from_where_the_records_end_up():
    columns = {name: {"kind": "integer", "bounds": [0, 9]} for name in "cab"}
    codec = Codec(Schema.from_dict({"rules": ["a <= b", "b <= c"], "columns": columns}))
    frame = pd.DataFrame({"c": [6, 1, 9], "a": [5, 3, 9], "b": [2, 2, 9]})
    made = codec.decode(codec.encode(frame), np.random.default_rng(0))
    assert made.to_numpy().tolist() == [[6, 5, 5], [3, 3, 3], [9, 9, 9]]


LABEL_RULES = [
    {"never": {"sex": ["M", "rest"], "pregnant": True}},
    {"never": {"sex": "X", "pregnant": True}},
    {"if": {"sex": "M", "was": ["I", "II"]}, "then": {"pregnant": False, "now": "II"}},
    {"always": {"sex": ["F", "M"]}},
    {"together": ["city", "postcode"], "allowed": [["Bonn", 53111], ["Ulm", 89073]]},
    "was < now",
    "was = now",
    "pregnant = ill",
    {"never": {"now": ">= II", "pregnant": False}},
    {"never": {"pregnant": True, "sex": "M"}},
    {"together": ["postcode", "pregnant", "city"], "allowed": [[53111, True, "Bonn"], [89073, False, "Ulm"]]},
]


@pytest.mark.parametrize("rule", LABEL_RULES, ids=str)
def test_forbidden_combinations_are_those_that_break_the_rule(rule):
    schema = schema_of(rule)
    parsed = schema.rules[0]
    plain = Codec(schema.counting())
    places = [plain.names.index(name) for name in parsed.columns]
    found = forbidden(parsed, schema)
    assert found.shape == tuple(plain.sizes[place] for place in places)
    codes = np.zeros((found.size, len(plain.names)), np.int32)
    codes[:, places] = np.stack(np.unravel_index(np.arange(found.size), found.shape), axis=1)
    frame = plain.decode(codes, np.random.default_rng(0))
    np.testing.assert_array_equal(found.ravel(), broken(parsed, frame, schema))
    tied = Codec(schema)
    assert sum(tied.sizes) - sum(plain.sizes) == (~found).sum() - sum(found.shape)
    made = tied.decode(every_code(tied.sizes), np.random.default_rng(0))
    assert not broken(parsed, made, schema).any()


def test_rules_that_share_a_column_make_one_compound():
    schema = schema_of({"never": {"sex": "M", "pregnant": True}}, {"never": {"ill": False, "sex": "F"}}, "was <= now")
    assert [c.names for c in ties(schema).compounds] == [("sex", "pregnant", "ill"), ("was", "now")]
    frame = Codec(schema).decode(every_code(Codec(schema).sizes), np.random.default_rng(0))
    assert not any(broken(rule, frame, schema).any() for rule in schema.rules)


@pytest.mark.parametrize(
    ("rules", "more", "honoured"),
    [
        ([{"never": {"sex": "M", "ill": True}}, "was <= now"], {"targets": ["ill"]}, (1,)),
        ([{"if": {"sex": "M"}, "then": {"age": ">= 20"}}], {}, ()),
        (["age >= 20", "onset = age"], {}, ()),
        (["onset < age", "age < onset", "age <= onset"], {}, (0,)),
        (["low <= middle", "middle <= high", "high <= low"], {}, (0, 1)),
        ([{"always": {"city": "Ulm"}}, {"always": {"city": "Kiel"}}, {"never": {"city": "Bonn"}}], {}, (0, 2)),
        (["was <= now", "onset < age"], {"honoured": [1]}, (1,)),
        (["was <= now", "onset < age"], {"honoured": []}, ()),
    ],
    ids=str,
)
def test_what_is_only_counted(rules, more, honoured):
    schema = schema_of(*rules, **more)
    assert ties(schema).honoured == honoured
    Codec(schema)


def test_what_cannot_be_kept_and_is_named_is_refused():
    with pytest.raises(BadInput, match="honoured names the rule 'age >= 20'"):
        Codec(schema_of("age >= 20", honoured=[0]))
    for wrong in ([1], [0, 0], ["a"], 0, [True]):
        with pytest.raises(BadInput, match="honoured must list positions of rules, from 0 to 0"):
            schema_of("was <= now", honoured=wrong)
    with pytest.raises(BadInput, match="the schema has none"):
        schema_of(honoured=[0])


def test_bounds_that_leave_no_record_are_no_tie():
    columns = {"a": {"kind": "integer", "bounds": [5, 9]}, "b": {"kind": "integer", "bounds": [0, 5]}}
    assert ties(Schema.from_dict({"rules": ["a < b"], "columns": columns})).honoured == ()
    equal = Schema.from_dict({"rules": ["a <= b"], "columns": columns})
    assert ties(equal).honoured == (0,)
    codec = Codec(equal)
    frame = codec.decode(every_code(codec.sizes), np.random.default_rng(0))
    assert (frame["a"] == 5).all()
    assert (frame["b"] == 5).all()


def test_a_schema_says_what_is_honoured_and_reads_it_back():
    learned = Schema.from_dict(
        {"rules": ["was <= now", "onset < age"], "columns": {**COLUMNS, "age": {"kind": "integer", "bounds": "learn"}}}
    )
    assert learned.settled().honoured == (0,)
    bought = learned.with_learned("age", bounds=(18, 90))
    assert bought.honoured == (0,)  # decided before anything was learned
    assert Schema.from_dict(bought.to_dict()) == bought
    none = schema_of("was <= now").counting()
    assert Schema.from_dict(none.to_dict()) == none
    assert "honoured" not in schema_of("was <= now").to_dict()
    assert schema_of("was <= now").as_released().honoured == ()
    assert SCHEMA.settled().as_released() == SCHEMA.settled()


def test_without_rules_nothing_is_tied():
    plain = schema_of()
    assert plain.coded == plain.modelled
    assert not ties(plain).honoured
    assert not ties(SCHEMA.counting()).honoured
    assert Codec(SCHEMA.counting()).sizes == Codec(plain).sizes
    assert ties(SCHEMA).honoured


def test_conditions_on_tied_columns():
    found = allowed({"pregnant": True, "sex": ["F", None], "onset": None, "was": "II"}, CODEC)
    assert set(found.shares) == {"sex + pregnant", "onset", "was + now"}
    rng = np.random.default_rng(0)
    for name, shares in found.shares.items():
        codes = np.zeros((len(shares), len(CODEC.names)), np.int32)
        codes[:, CODEC.names.index(name)] = np.arange(len(shares))
        frame = CODEC.decode(codes, rng)
        if name == "sex + pregnant":
            wanted = (frame["sex"].isna() | (frame["sex"] == "F")) & frame["pregnant"].fillna(False)
        else:
            wanted = frame["onset"].isna() if name == "onset" else frame["was"] == "II"
        assert wanted.tolist() == (shares == 1).tolist()
    for name, wanted in (("age", [20, 30]), ("discharged", "2021-01-01"), ("low", [0, 1])):
        with pytest.raises(BadInput, match=f"column '{name}': a declared rule ties its values to those of "):
            allowed({name: wanted}, CODEC)


def test_a_condition_names_the_columns_of_the_rules_that_tie_it_and_no_others():
    day = {"kind": "datetime", "bounds": ["2020-01-01", "2020-12-31"]}
    number = {"kind": "integer", "bounds": [0, 9]}
    columns = {"low": number, "high": number, "came": day, "went": day, "back": day}
    codec = Codec(Schema.from_dict({"columns": columns, "rules": ["low <= high", "came <= went", "went < back"]}))
    for name, others in (("low", "'high'"), ("came", "'went', 'back'"), ("back", "'went', 'came'")):
        wanted = [1, 3] if name == "low" else ["2020-02-01", "2020-03-01"]
        with pytest.raises(
            BadInput, match=f"column '{name}': a declared rule ties its values to those of {others}, so"
        ):
            allowed({name: wanted}, codec)


@pytest.mark.parametrize(("low", "high", "sign"), [(5, 1, "<="), (1, 5, "<"), (5, 3, "<="), (7, 7, "<")])
def test_an_order_of_columns_in_steps_keeps_both(low, high, sign):
    columns = (
        Integer(name="a", bounds=(-17, 100), step=low, missing=True),
        Integer(name="b", bounds=(0, 120), step=high),
    )
    codec = Codec(Schema.from_dict({**Schema(columns=columns).to_dict(), "rules": [f"a {sign} b"]}))
    assert ties(codec.schema).honoured
    rng = np.random.default_rng(0)
    made = codec.decode(np.stack([rng.integers(0, size, 500) for size in codec.sizes], 1), rng)
    assert not (made["b"] % high).any()
    assert not (made["a"].dropna() % low).any()
    there = made.dropna()
    assert ((there["a"] < there["b"]) if sign == "<" else (there["a"] <= there["b"])).all()
    codes = codec.encode(made)
    np.testing.assert_array_equal(codec.encode(codec.decode(codes, rng)), codes)
