import numpy as np
import pandas as pd
import pytest
from mixed_tables import AWFUL, MIXED, every_code

from synthdp.data import yamlfile
from synthdp.data.codec import Codec
from synthdp.data.draft import draft, outward
from synthdp.data.schema import Schema


def drafted(frame):
    text = draft(frame, "some/table.csv")
    return text, Schema.from_dict(yamlfile.parse(text, "draft"))


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


def test_a_draft_is_a_schema_that_its_table_fits():
    schema = drafted(table())[1]
    schema.validate(table())
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "patient": "identifier", "age": "integer", "dose": "continuous", "gain": "integer", "drug": "categorical",
        "town": "categorical", "smoker": "boolean", "day": "datetime", "time": "datetime", "1": "ordinal",
        "empty": "categorical",
    }  # fmt: skip
    assert schema.column("age").bounds == (20, 90)
    assert schema.column("dose").decimals == 1
    assert schema.column("gain").atoms == (0,)
    assert schema.column("smoker").missing
    assert schema.column("day").bounds == ("2020-01-01", "2021-12-31")
    assert schema.column("town").categories == "learn"
    assert schema.column("1").categories == ("lo", "hi")
    assert schema.units == "learn"
    assert schema.unit is None


def test_every_line_is_marked_for_review_and_the_head_warns():
    text, _ = drafted(table())
    head, _, body = text.partition("\n\n")
    assert "READ OFF THE DATA" in head
    assert "public knowledge" in head
    assert all("# REVIEW" in line for line in body.strip().splitlines())


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows):
    drafted(table().iloc[:rows])


@pytest.mark.parametrize("name", ["patient", "patient_id", "PatientID", "subject", "mrn"])
@pytest.mark.parametrize("number", [False, True])
def test_a_column_that_says_whose_record_it_is_lists_no_categories(name, number):
    """A few patients of many records each: by their values they look like categories, or like numbers."""
    owner = [place % 12 if number else f"p{place % 12}" for place in range(200)]
    text, schema = drafted(pd.DataFrame({name: owner, "patient_type": ["a", "b", "c", "d"] * 50}))
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {name: "identifier", "patient_type": "categorical"}
    assert "p11" not in text


def test_only_identifiers_still_make_a_schema():
    drafted(table()[["patient"]])


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
