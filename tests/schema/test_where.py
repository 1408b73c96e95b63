"""Conditions against brute force over decoded values, and every refusal in one line."""

import numpy as np
import pandas as pd
import pytest
from mixed_tables import MIXED

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.where import allowed

CODEC = Codec(MIXED)
DRAWS = 4000


def shares_of(name, wanted):
    return allowed({name: wanted}, CODEC).shares[name]


def cells_of(name, code, rows, rng, **within):
    """Decoded values of one code of one column."""
    codes = np.zeros((rows, len(CODEC.names)), np.int32)
    codes[:, CODEC.names.index(name)] = code
    return CODEC.decode(codes, rng, **within)[name]


RANGES = [
    ("age", [10, 61]),
    ("age", [40, 40]),
    ("age", [38, 200]),
    ("few", [1, 3]),
    ("constant", 7),
    ("all_atoms", [2, 9]),
    ("edged", [-2.5, 1.5]),
    ("real", [-0.31, 0.4]),
    ("real", 0),
    ("real", [0.9, 1]),
    ("money", [0.07, 1.5]),
    ("money", [1.5, 2.222]),
    ("share", [0.3, 0.31]),
    ("whole", [3.2, 700.9]),
    ("single", 2.5),
    ("admitted", ["2020-02-10T05:00:00", "2021-02-03"]),
    ("stamp", ["1700-01-01", "2000-01-01T00:00:00.000001"]),
    ("hour", ["2020-01-01T01:30:00", "2020-01-01T07:00:00"]),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "wanted"), RANGES)
def test_shares_are_those_of_decoded_values_and_cut_bins_decode_into_the_range(name, wanted):
    """A share within six standard deviations of the one counted: one test in 5e8 codes fails by chance."""
    rng = np.random.default_rng(0)
    low, high = wanted if isinstance(wanted, list) else (wanted, wanted)
    if isinstance(low, str):
        low, high = pd.Timestamp(low), pd.Timestamp(high)
    found = allowed({name: wanted}, CODEC)
    for code, share in enumerate(found.shares[name]):
        held = cells_of(name, code, DRAWS, rng).between(low, high).fillna(False).mean()
        assert abs(held - share) <= 6 * np.sqrt(share * (1 - share) / DRAWS) + 1e-12
        if share > 0:
            cut = cells_of(name, code, 500, rng, within=found.within)
            assert cut.between(low, high).all()
            assert (CODEC.encode(CODEC.decode(np.zeros((1, len(CODEC.names)), np.int32), rng)) == 0).all()


def test_values_of_a_cut_bin_are_uniform():
    column = "edged"  # the bin 3 .. 10
    found = allowed({column: [5, 8]}, CODEC)
    values = cells_of(column, 2, 8000, np.random.default_rng(1), within=found.within).value_counts()
    assert set(values.index) == {5, 6, 7, 8}
    assert values.between(1750, 2250).all()  # 2,000 expected; 6.4 standard deviations


def test_sets_of_labels():
    assert shares_of("code", "01").tolist() == [0, 0, 1, 0, 0, 0]
    assert shares_of("code", ["No", "?", None]).tolist() == [1, 0, 0, 1, 0, 1]
    assert shares_of("code", None).tolist() == [0, 0, 0, 0, 0, 1]
    assert shares_of("grade", ["low", "high", "low"]).tolist() == [1, 0, 1]
    assert shares_of("smoker", True).tolist() == shares_of("smoker", "yes").tolist() == [0, 1, 0]
    assert shares_of("outcome", [False, True]).tolist() == [1, 1]
    assert shares_of("age", None).tolist() == [0.0] * 34 + [1.0]


REFUSED = [
    ({}, "where must map columns"),
    ([1], "where must map columns"),
    ({"agee": 3}, "'agee' is not one of the columns; did you mean 'age'"),
    ({"patient": "p1"}, "column 'patient' is an identifier"),
    ({"grade": None}, "column 'grade' is null, but its schema says that it is never missing"),
    ({"few": None}, "column 'few' is null"),
    ({"grade": "hihg"}, "'hihg' is not one of its categories; did you mean 'high'"),
    ({"outcome": "maybe"}, "column 'outcome': 'maybe' is not true or false"),
    ({"grade": []}, "column 'grade': no record can satisfy an empty list"),
    ({"age": [1, 2, 3]}, "column 'age': needs a value or the two ends of a range, got 3"),
    ({"age": [80, 65]}, "80 is above 65; swap them"),
    (
        {"age": [100, 120]},
        r"column 'age': none of its possible values within its bounds \[0, 99\] lies in \[100, 120\]",
    ),
    ({"age": 3.5}, "column 'age': none of its possible values"),
    ({"age": "old"}, "column 'age': 'old' is not a finite number"),
    ({"age": [float("nan"), 3]}, "not a finite number"),
    ({"age": [0, 10**400]}, "not a finite number"),
    ({"age": True}, "not a finite number"),
    ({"age": [None, 3]}, "column 'age': None is not a finite number"),
    ({"real": 0.25}, "column 'real': 0.25 has probability zero among real numbers; give a range"),
    ({"admitted": ["2020-99-01", "2021-01-01"]}, "column 'admitted': '2020-99-01' is not ISO 8601"),
    ({"admitted": 7}, "not ISO 8601"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED)
def test_what_it_refuses(given, said):
    with pytest.raises(BadInput, match=said):
        allowed(given, CODEC)


def test_an_image_is_no_condition():
    from clinic import picture_schema

    with pytest.raises(BadInput, match="column 'image' is an image"):
        allowed({"image": 3}, Codec(picture_schema()))
