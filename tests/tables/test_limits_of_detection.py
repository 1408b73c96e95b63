"""Results such as <5 in a column of numbers: read as the number that the schema gives them, and written as they were."""

import awkward
import numpy as np
import pandas as pd
import pytest
import yaml
from sweeps import heavy

from synthdp import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.sets import draft, record_files
from synthdp.tables import source

CELLS = ["<5", "12,5", " <5 ", "", "900,0", ">1.000", "-9", "7,5", "1.234,5"]
READ = [2.5, 12.5, 2.5, np.nan, 900.0, 1001.0, np.nan, 7.5, 1234.5]
CRP = {
    "kind": "continuous",
    "bounds": [0, 2000],
    "bins": [5, 10, 100, 1000],
    "atoms": [2.5, 1001],
    "decimals": 1,
    "missing": True,
}
CODING = {"missing": [-9], "thousands": ".", "places": 1, "numbers": {"<5": 2.5, ">1.000": 1001}}


def schema(column=CRP, **changes):
    coding = {key: value for key, value in {**CODING, **changes}.items() if value is not None}
    reading = {"separator": ";", "decimal": ",", "strip": True, "columns": {"crp": coding, "row": {"pattern": "#"}}}
    columns = {"row": {"kind": "identifier"}, "crp": column, "ill": {"kind": "boolean"}}
    return Schema.from_dict({"declared_by": "the tests", "columns": columns, "reading": reading})


@pytest.fixture
def file(tmp_path):
    lines = ["row;crp;ill", *(f"{place};{cell};true" for place, cell in enumerate(CELLS, 1))]
    (tmp_path / "lab.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "lab.csv"


def test_a_text_is_the_number_that_it_stands_for(file):
    made = record_files.read(file, schema())
    np.testing.assert_array_equal(made["crp"].to_numpy(float, na_value=np.nan), READ)
    assert len(schema().validate(made)) == len(READ)


@pytest.mark.heavy
@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet", "sav", "dta"])
def test_synthetic_records_have_the_text_again(tmp_path, ending):
    frame = pd.DataFrame(
        {"row": [f"S{n:09d}" for n in range(1, 6)], "crp": [2.5, 12.5, None, 1001.0, 1234.5], "ill": True}
    )
    path = tmp_path / f"made.{ending}"
    record_files.write([frame], path, schema())
    back = record_files.read(path, schema())
    np.testing.assert_array_equal(back["crp"].to_numpy(float, na_value=np.nan), frame["crp"].to_numpy(float))
    if ending == "csv":
        assert [line.split(";")[1] for line in path.read_text().split()[1:]] == [
            "<5",
            "12,5",
            "-9",
            ">1.000",
            "1.234,5",
        ]
    if ending == "parquet":
        assert pd.read_parquet(path)["crp"].tolist() == ["<5", "12,5", "-9", ">1.000", "1.234,5"]


def test_whole_numbers_are_fresh_identifiers_where_the_pattern_is_a_sign(tmp_path):
    frame = pd.DataFrame({"row": [f"S{n:09d}" for n in (1, 12, 123)], "crp": [7.5, None, 2.5], "ill": True})
    for ending, read in (("parquet", pd.read_parquet), ("csv", lambda path: pd.read_csv(path, sep=";"))):
        record_files.write([frame], tmp_path / f"made.{ending}", schema())
        found = read(tmp_path / f"made.{ending}")["row"]
        assert found.dtype == "int64"
        assert found.tolist() == [1, 12, 123]


def test_a_database_reads_a_csv_file_alike(file):
    frame, codec = record_files.read(file, schema()), Codec(schema())
    with source.opened(source.csv(file), schema().reading) as opened:
        found = awkward.codes_in(opened, schema())
    assert awkward.differing(found, codec.encode(frame), codec, frame) == {}


@pytest.mark.parametrize(
    ("column", "changes", "message"),
    [
        ({**CRP, "atoms": [2.5]}, {}, r"needs a bin of its own; declare atoms: \[1001\] in columns too"),
        ({**CRP, "kind": "ordinal"}, {}, "numbers belong to columns of kind integer or continuous"),
        (CRP, {"numbers": {"2,5": 2.5}}, "'2,5' is a number already"),
        (CRP, {"numbers": {"<5": 2.5}, "missing": ["<5"]}, "stands for a number and for a missing value"),
        (CRP, {"numbers": "TODO"}, "numbers is still TODO"),
        (CRP, {"numbers": {"<5": "2,5"}}, "numbers must map texts to the numbers"),
        (CRP, {"numbers": {"=5": 2.5}}, "no text may begin"),
    ],
)
def test_what_contradicts_itself_is_refused(column, changes, message):
    if column["kind"] == "ordinal":
        column, changes = {"kind": "ordinal", "categories": ["a"], "missing": True}, {"thousands": None, "places": None}
    with pytest.raises(BadInput, match=message):
        schema(column, **changes).check_declared()


def test_a_schema_is_saved_and_loaded_with_its_numbers(tmp_path):
    schema().save(tmp_path / "schema.yaml")
    assert Schema.load(tmp_path / "schema.yaml") == schema()


@pytest.mark.parametrize("ending", ["csv", "parquet", heavy("xlsx")])
def test_a_draft_asks_what_the_texts_stand_for_and_does_not_repeat_them(tmp_path, ending):
    rng = np.random.default_rng(3)
    texts = [f"{value:.1f}".replace(".", ",") for value in rng.gamma(2.0, 9.0, 200) + 5]
    texts[::4] = ["<5"] * 50
    frame = pd.DataFrame(
        {"row": range(1, 201), "case": [f"K-{n:05d}" for n in range(200)], "crp": texts, "empty": None}
    )
    path = tmp_path / f"lab.{ending}"
    frame.to_csv(path, sep=";", index=False) if ending == "csv" else frame.to_parquet(
        path
    ) if ending == "parquet" else (frame.to_excel(path, index=False, engine="xlsxwriter"))
    found = record_files.look(path)
    made = draft.draft(found.frame, path, found=found)
    drafted = yaml.safe_load(made.schema)
    assert drafted["columns"]["crp"]["kind"] == "continuous"
    assert drafted["reading"]["columns"]["crp"]["numbers"] == "TODO"
    assert drafted["reading"]["columns"]["row"] == {"pattern": "#"}
    assert drafted["columns"]["empty"]["kind"] == "ignore"
    assert "'crp': numbers is the mapping of texts such as" in " ".join(found.lines())
    assert "K-" not in made.schema
    assert "# case is written as {pattern: K-#####}\n" in made.seen
    assert "# crp has cells with other text than numbers: [<5]\n" in made.seen
    with pytest.raises(BadInput, match="numbers is still TODO"):
        Schema.from_dict(drafted)
