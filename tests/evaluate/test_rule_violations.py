import pandas as pd

from synthdp.evaluate import faithfulness
from synthdp.schema.schema import Boolean, Datetime, Integer, Schema

YEAR = ("2020-01-01", "2020-12-31")
STAYS = Schema(
    columns=(
        Datetime(name="admission", bounds=YEAR),
        Datetime(name="discharge", bounds=YEAR, missing=True),
        Integer(name="age", bounds=(0, 99)),
        Boolean(name="widowed"),
    ),
    rules=("admission <= discharge", {"if": {"age": "< 16"}, "then": {"widowed": False}}),
)


def frame(*rows):
    made = pd.DataFrame(rows, columns=["admission", "discharge", "age", "widowed"])
    return made.assign(admission=pd.to_datetime(made.admission), discharge=pd.to_datetime(made.discharge))


REAL = frame(("2020-01-01", "2020-01-05", 40, True), ("2020-03-01", None, 3, False))


def test_shares_by_hand():
    synthetic = frame(
        ("2020-02-01", "2020-01-31", 50, True),
        ("2020-02-01", None, 15, True),
        ("2020-02-01", "2020-02-01", 16, True),
        ("2020-02-01", "2020-01-01", 2, False),
    )
    found, lacking = faithfulness.violations(STAYS, synthetic, REAL, REAL.iloc[:0])
    assert lacking == {}
    assert found == [
        {"rule": "admission <= discharge", "synthetic": 0.5, "train": 0.0, "test": None},
        {"rule": "if age < 16 then widowed = false", "synthetic": 0.25, "train": 0.0, "test": None},
    ]


def test_no_rules_and_a_column_that_is_not_there():
    assert faithfulness.violations(Schema(columns=STAYS.columns), REAL, REAL, REAL) == ([], {})
    found, lacking = faithfulness.violations(STAYS, REAL.drop(columns="age"), REAL, REAL)
    assert [rule["rule"] for rule in found] == ["admission <= discharge"]
    assert list(lacking) == ["if age < 16 then widowed = false"]
    assert "no column 'age'" in lacking["if age < 16 then widowed = false"]
