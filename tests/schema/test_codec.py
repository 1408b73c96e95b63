import time
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mixed_tables import AWFUL, MIXED, every_code

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.codec import Codec
from synthdp.schema.columns import microseconds
from synthdp.schema.schema import LEARN, Boolean, Categorical, Continuous, Datetime, Integer, Ordinal, Schema
from synthdp.sets import record_files

CODEC = Codec(MIXED)
CODES = every_code(CODEC.sizes)


def decoded(seed=0, codes=CODES, **keys):
    return CODEC.decode(codes, np.random.default_rng(seed), **keys)


def one(column, cells, dtype=None):
    """The codes of one column's cells."""
    frame = pd.DataFrame({column.name: pd.Series(cells, dtype=dtype)})
    return Codec(Schema(columns=(column,))).encode(frame)[:, 0].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_every_code_of_every_kind_comes_back(seed):
    np.testing.assert_array_equal(CODEC.encode(decoded(seed)), CODES)


def test_decoded_frames_pass_the_pre_check():
    checked = MIXED.validate(decoded())
    assert list(checked.columns) == list(MIXED.names)


def test_sizes_are_those_of_the_declaration():
    sizes = dict(zip(CODEC.names, CODEC.sizes, strict=True))
    assert sizes["code"] == 6
    assert sizes["grade"] == 3
    assert (sizes["outcome"], sizes["smoker"]) == (2, 3)
    assert sizes["few"] == 6  # six values: four bins and two atoms
    assert (sizes["constant"], sizes["all_atoms"], sizes["single"]) == (1, 2, 1)
    assert sizes["edged"] == 3
    assert sizes["age"] == 32 + 2 + 1
    assert sizes["whole"] == 7
    assert sizes["hour"] == 2


def test_whole_numbers_in_steps_are_drawn_on_them_and_others_go_to_the_nearest():
    score = Integer(name="score", bounds=(-17, 100), step=5, bins=4)
    codec = Codec(Schema(columns=(score,)))
    drawn = codec.decode(every_code(codec.sizes), np.random.default_rng(0))["score"]
    assert drawn.dtype == np.int64
    assert set(drawn) == set(range(-15, 101, 5))
    assert codec.edges("score").tolist() == [-15, 15, 45, 75, 101]
    fine = replace(score, bins=None)
    assert one(fine, [-99, -15, -13, -12, 37, 38, 100, 1e30]) == [0, 0, 0, 1, 10, 11, 23, 23]
    assert Codec(Schema(columns=(fine,))).edges("score")[:2].tolist() == [-15, -10]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"step": 0}, "step must be"),
        ({"step": 2.5}, "step must be"),
        ({"step": True}, "step must be"),
        ({"step": 7, "atoms": (5,)}, "atoms must be multiples of 7"),
        ({"step": 7, "bounds": (1, 6)}, "no multiple of 7"),
    ],
)
def test_steps_that_contradict_the_column_are_refused(facts, said):
    with pytest.raises(BadInput, match=said):
        Integer(**{"name": "score", "bounds": (0, 100), **facts})


@pytest.mark.parametrize("step", [10, 1_000_003, 10_000_000])
def test_a_step_as_wide_as_the_bounds_leaves_its_multiple_alone(step):
    column = Integer(name="score", bounds=(1, step), step=step)
    codec = Codec(Schema(columns=(column,)))
    assert codec.sizes == (1,)
    drawn = codec.decode(every_code(codec.sizes), np.random.default_rng(0))["score"]
    assert set(drawn) == {step}


def test_learned_bounds_of_a_column_in_steps_are_steps():
    schema = Schema(columns=(Integer(name="score", bounds=LEARN, step=5),)).with_learned("score", bounds=(-3, 97))
    assert schema.column("score").bounds == (-5, 100)
    far = Schema(columns=(Integer(name="score", bounds=LEARN, step=7),)).with_learned("score", bounds=(-1e30, 1e30))
    assert [end % 7 for end in far.column("score").bounds] == [0, 0]


def test_dtypes_out():
    frame = decoded()
    assert list(frame.columns) == list(MIXED.names)
    assert frame["grade"].dtype == pd.CategoricalDtype(["low", "middle", "high"], ordered=True)
    assert not frame["code"].cat.ordered
    assert frame["outcome"].dtype == np.bool_
    assert isinstance(frame["smoker"].dtype, pd.BooleanDtype)
    assert frame["few"].dtype == np.int64
    assert isinstance(frame["age"].dtype, pd.Int64Dtype)
    assert all(frame[name].dtype == np.float64 for name in ("real", "money", "share", "whole"))
    assert frame["admitted"].dtype == np.dtype("datetime64[us]")
    assert all(isinstance(name, str) for name in frame["patient"])


def test_dtypes_do_not_depend_on_the_number_of_rows():
    empty = decoded(codes=CODES[:0])
    pd.testing.assert_series_equal(empty.dtypes, decoded().dtypes)
    assert CODEC.encode(empty).shape == (0, len(CODEC.names))


def test_values_stay_in_bounds_and_on_their_grid():
    frame = decoded()
    for column in MIXED.modelled:
        if not isinstance(column, Integer | Continuous | Datetime):
            continue
        held = frame[column.name].dropna()
        low, high = (pd.Timestamp(end) for end in column.bounds) if isinstance(column, Datetime) else column.bounds
        assert held.between(low, high).all(), column.name
    money = frame["money"].dropna()
    assert (money == money.round(2)).all()
    assert (frame["admitted"].dropna() == frame["admitted"].dropna().dt.normalize()).all()
    assert (frame["hour"] == frame["hour"].dt.floor("h")).all()


def test_missing_appears_only_where_it_is_allowed():
    frame = decoded()
    allowed = {column.name for column in MIXED.modelled if column.missing}
    assert {name for name in frame if frame[name].isna().any()} == allowed


def test_uniform_within_a_bin():
    column = Integer(name="x", bounds=(0, 9), bins=1, atoms=(4,))
    codec = Codec(Schema(columns=(column,)))
    values = codec.decode(np.zeros((18_000, 1), np.int32), np.random.default_rng(0))["x"]
    counts = values.value_counts()
    assert set(counts.index) == {0, 1, 2, 3, 5, 6, 7, 8, 9}
    assert counts.between(1750, 2250).all()  # 2,000 expected; 5.9 standard deviations


def test_edges_and_atoms():
    assert CODEC.edges("edged").tolist() == [-10, 0, 3, 11]
    assert CODEC.edges("share").tolist() == [0, 0.25, 0.5, 1]
    assert CODEC.edges("few").tolist() == [0, 2, 4, 5, 6]
    assert CODEC.edges("money")[[0, -1]].tolist() == [0.01, 3.14]
    assert CODEC.edges("admitted")[-1] == np.datetime64("2021-12-31")
    assert CODEC.atoms("few").tolist() == [0, 3]
    assert CODEC.atoms("money").tolist() == [1.5]
    with pytest.raises(BadInput, match="not numeric"):
        CODEC.edges("code")
    with pytest.raises(BadInput, match="no modelled column"):
        CODEC.edges("patient")


def test_bins_against_numpy():
    values = np.random.default_rng(0).normal(size=2000)
    edges = (-2.0, -0.5, 0.1, 2.0)
    column = Continuous(name="x", bounds=(-2, 2), bins=edges)
    inside = values[np.abs(values) <= 2]
    counts = np.bincount(one(column, [*inside, 2.0, -2.0]), minlength=3)
    np.testing.assert_array_equal(counts, np.histogram([*inside, 2.0, -2.0], edges)[0])


def test_out_of_bounds_and_infinite_go_to_the_nearest_end():
    column = Integer(name="x", bounds=(0, 9))
    assert one(column, [-5, 0, 9, 50, np.inf, -np.inf, 1e30, np.nan, 3.4]) == [0, 0, 9, 9, 9, 0, 9, 0, 3]
    assert one(Integer(name="x", bounds=(0, 9), missing=True), [np.nan, "4", "four", None]) == [10, 4, 10, 10]
    day = Datetime(name="x", bounds=("2020-01-01", "2020-01-03"))
    assert one(day, ["2019-01-01", "2020-01-02", "2030-01-01", "rubbish", 7, None]) == [0, 1, 2, 0, 0, 0]


def test_unknown_categories():
    cells = ["a", "z", None, 3]
    assert one(Categorical(name="x", categories=("a", "b")), cells) == [0, 0, 0, 0]
    assert one(Categorical(name="x", categories=("a", "b"), missing=True), cells) == [0, 2, 2, 2]
    assert one(Categorical(name="x", categories=("a", "b"), other="b"), cells) == [0, 1, 1, 1]
    assert one(Categorical(name="x", categories=("a", "b"), other="b", missing=True), cells) == [0, 1, 2, 1]
    assert one(Ordinal(name="x", categories=("a", "b")), cells) == [0, 0, 0, 0]


def test_a_question_mark_is_a_value_unless_it_is_missing():
    assert one(Categorical(name="x", categories=("a", "?"), missing=True), ["?", None, "NA"]) == [1, 2, 2]


@pytest.mark.parametrize("dtype", [None, object, "category", "int64", "Int64", "float64", "Float64", "int64[pyarrow]"])
def test_codes_that_are_numbers_in_any_dtype(dtype):
    assert one(Categorical(name="x", categories=("3", "1", "2")), [1, 2, 3], dtype) == [1, 2, 0]


@pytest.mark.parametrize("kind", ["categorical", "ordinal"])
def test_categories_declared_as_numbers_are_numbers_again(kind, tmp_path):
    given = {"kind": kind, "categories": [3, -1, 2], "missing": True}
    schema = Schema.from_dict({"columns": {"x": given, "y": {"kind": "boolean"}}})
    assert schema.to_dict()["columns"]["x"] == given
    assert schema.column("x").categories == ("3", "-1", "2")
    codec = Codec(schema)
    frame = pd.DataFrame({"x": [2, None, 3, -1], "y": [True, False, True, True]})
    made = codec.decode(codec.encode(frame), np.random.default_rng(0))
    assert made["x"].tolist()[::2] + made["x"].tolist()[3:] == [2, 3, -1]
    assert made["x"].isna().tolist() == [False, True, False, False]
    assert made["x"].cat.categories.dtype == "int64"
    assert made["x"].cat.ordered == (kind == "ordinal")
    for ending in ("csv", "parquet"):
        record_files.write([made], tmp_path / f"x.{ending}", schema)
        again = record_files.read(tmp_path / f"x.{ending}", schema)
        assert (codec.encode(again) == codec.encode(frame)).all()
    assert (tmp_path / "x.csv").read_text().splitlines()[1:] == ["2,true", ",false", "3,true", "-1,true"]
    assert pq.read_schema(tmp_path / "x.parquet").field("x").type == pa.int64()


def test_categories_of_numbers_and_texts_are_texts():
    for categories in ([1, "x"], ["1", "2"]):
        schema = Schema.from_dict({"columns": {"x": {"kind": "categorical", "categories": categories}}})
        codec = Codec(schema)
        made = codec.decode(codec.encode(pd.DataFrame({"x": [1]})), np.random.default_rng(0))
        assert made["x"].tolist() == ["1"]


def test_categories_from_numpy_and_other_as_a_number():
    column = Categorical(name="x", categories=tuple(np.unique([4, 2, 2])), other=2)
    assert (column.categories, column.other, column.numbers) == (("2", "4"), "2", True)
    assert replace(column, missing=True).numbers
    assert not replace(column, categories=("a", "2")).numbers
    with pytest.raises(ValueError, match="listed twice: '1'"):
        Categorical(name="x", categories=(1, "1"))


def test_spellings_of_categories():
    assert one(Categorical(name="x", categories=("01", "1")), ["01", 1, 1.0, "1"]) == [0, 1, 1, 1]
    assert one(Categorical(name="x", categories=("0", "1"), missing=True), [1.0, np.nan, 0.0]) == [1, 2, 0]
    assert one(Categorical(name="x", categories=("1.0", "2.5")), [1, 1.0, 2.5, "1.0"]) == [0, 0, 1, 0]
    assert one(Categorical(name="x", categories=("true", "false")), [True, False, "true"]) == [0, 1, 0]
    assert one(Categorical(name="x", categories=("True", "1")), [True, 1, 1.0]) == [0, 1, 1]


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        ([True, False], bool),
        ([True, False], "boolean"),
        ([True, False], "bool[pyarrow]"),
        ([1, 0], "int8"),
        ([1.0, 0.0], float),
        (["yes", "NO"], object),
        (["true", "False"], None),
        (["T", "f"], "category"),
        (["1", "0"], "string"),
        ([np.True_, 0], object),
    ],
)
def test_booleans_of_any_flavour(cells, dtype):
    assert one(Boolean(name="x"), cells, dtype) == [1, 0]


@pytest.mark.parametrize(
    "cells",
    [
        ["2020-01-02", "2020-01-03 05:00:00"],
        pd.to_datetime(["2020-01-02", "2020-01-03"]),
        pd.to_datetime(["2020-01-02", "2020-01-03"]).astype("datetime64[s]"),
        pd.to_datetime(["2020-01-02", "2020-01-03"]).tz_localize("UTC"),
        pd.to_datetime(["2020-01-01 23:30", "2020-01-02 23:30"]).tz_localize("America/New_York"),
        pd.Series([pd.Timestamp("2020-01-02").date(), pd.Timestamp("2020-01-03").date()], dtype=object),
        pd.Series(pd.to_datetime(["2020-01-02", "2020-01-03"])).astype("timestamp[us][pyarrow]"),
        pd.Series(["2020-01-02", "2020-01-03"], dtype="category"),
    ],
)
def test_datetimes_of_any_flavour(cells):
    assert one(Datetime(name="x", bounds=("2020-01-01", "2020-01-05")), cells) == [1, 2]


@pytest.mark.parametrize("start", range(0, len(AWFUL), 7))
def test_total_on_awful_frames(start):
    cells = [*AWFUL[start:], *AWFUL[:start]][:20]
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name in MIXED.names})
    codes = CODEC.encode(frame)
    assert codes.dtype == np.int32
    assert (codes >= 0).all()
    assert (codes < np.array(CODEC.sizes)).all()


@pytest.mark.parametrize(
    "dtype",
    [
        "float32", "float16", "uint64", "complex128", "timedelta64[ns]", "datetime64[ns]", "string", "category",
        "Sparse[float64]", "double[pyarrow]", "bool",
    ],
)  # fmt: skip
def test_total_on_any_dtype(dtype):
    frame = pd.DataFrame({name: pd.Series([0, 1, 1]).astype(dtype) for name in MIXED.names})
    codes = CODEC.encode(frame)
    assert ((codes >= 0) & (codes < np.array(CODEC.sizes))).all()


@pytest.mark.parametrize("cell", AWFUL, ids=[str(place) for place in range(len(AWFUL))])
def test_one_record_changes_its_own_row_only(cell):
    frame = decoded(codes=CODES[:12])
    before = CODEC.encode(frame)
    changed = frame.astype(object)
    for name in CODEC.names:
        changed.loc[5, name] = [cell] if isinstance(cell, list | dict) else cell
    after = CODEC.encode(changed)
    kept = np.arange(12) != 5
    np.testing.assert_array_equal(after[kept], before[kept])
    alone = CODEC.encode(changed.iloc[[5]])
    np.testing.assert_array_equal(after[5], alone[0])
    try:
        inferred = changed.infer_objects()
    except (UnicodeEncodeError, OverflowError):  # pandas itself finds no dtype for such a cell
        return
    np.testing.assert_array_equal(CODEC.encode(inferred)[kept], before[kept])


def test_the_codec_is_a_function_of_the_schema_alone():
    other = Codec(Schema.from_dict(MIXED.to_dict()))
    rare = decoded().assign(age=10**9, code="never seen")
    other.encode(rare)
    assert other.sizes == CODEC.sizes
    pd.testing.assert_frame_equal(other.decode(CODES, np.random.default_rng(1)), decoded(1))


def test_identifiers_are_new_and_do_not_repeat_across_chunks():
    parts = [decoded(codes=CODES[:7]), decoded(codes=CODES[:5], first_row=7)]
    assert pd.concat(parts)["patient"].is_unique


def test_what_it_refuses():
    with pytest.raises(BadInput, match=r"'age'.*missing; add it"):
        CODEC.encode(decoded().drop(columns="age"))
    frame = decoded()
    with pytest.raises(BadInput, match="twice"):
        CODEC.encode(pd.concat([frame, frame[["age"]]], axis=1))
    with pytest.raises(BadInput, match="still marked learn"):
        Codec(Schema(columns=(Integer(name="x", bounds=LEARN),)))
    with pytest.raises(BadInput, match="shape"):
        CODEC.decode(CODES[:, 1:], np.random.default_rng(0))
    with pytest.raises(BadInput, match="between 0 and the size"):
        CODEC.decode(CODES + 1, np.random.default_rng(0))


def test_iso_text_without_a_zone_is_utc():
    assert microseconds("1970-01-02") == 86_400_000_000
    assert microseconds("1970-01-01T02:00:00+02:00") == 0


def test_fast_enough():
    """32k records of the 18 columns: well under 0.3 s each way on one core. Of the processor's time, so that a busy machine changes
    little."""
    codes = every_code(CODEC.sizes, 32_000)
    start = time.process_time()
    frame = decoded(codes=codes)
    CODEC.encode(frame)
    assert time.process_time() - start < 1.0


def test_categories_are_read_as_the_same_cells_that_stand_alone():
    """Whatever categories there are beside a cell's own, used or not."""
    stamp = pd.Timestamp("2020-01-31T08:00:00.000001+01:00")
    given = [
        "1",
        "01.5",
        "x",
        "",
        "nan",
        "2020-01-31",
        "20200131T0810Z",
        None,
        "1",
        7,
        7.5,
        True,
        stamp,
        Decimal("1e400"),
        -0.0,
    ]
    plain = pd.Series(given, dtype=object)
    coded = pd.Series(pd.Categorical.from_codes([*range(7), -1, 0, *range(7, 13)], [*given[:7], *given[9:], "unused"]))
    for read in (cells.numbers, cells.instants):
        for one, other in zip(read(plain), read(coded), strict=True):
            np.testing.assert_array_equal(one, other)
    assert cells.texts(coded) == cells.texts(plain)
    assert cells.missing(coded).tolist() == cells.missing(plain).tolist()
