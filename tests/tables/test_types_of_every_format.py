"""The contract of coding: a synthetic file has the types of the real one, whoever reads it, in every format that is read and written."""

import numpy as np
import pandas as pd
import pytest
from sweeps import heavy

from synthdp import Budget, Schema, Synthesizer
from synthdp.schema import yamlfile
from synthdp.sets import record_files
from synthdp.sets.draft import draft

pyreadstat = pytest.importorskip("pyreadstat", reason="needs the extra formats")
pytest.importorskip("xlsxwriter", reason="needs the extra formats")
pytest.importorskip("python_calamine", reason="needs the extra formats")


def real(rows=200):
    rng = np.random.default_rng(2)
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D")
    return pd.DataFrame(
        {
            "patient": [f"P{row:04d}" for row in range(rows)],
            "ward": rng.choice(["medicine", "surgery"], rows),
            "sex": rng.choice([1, 2], rows),
            "smoker": rng.choice([0, 1], rows),
            "age": rng.integers(18, 95, rows),
            "weight": np.round(rng.normal(75, 9, rows), 1),
            "admitted": days,
        }
    )


def written(frame, path):
    """A file as another program writes it."""
    ending = "".join(path.suffixes)
    if ending in (".csv", ".csv.gz", ".tsv"):
        frame.to_csv(path, index=False, sep="\t" if ending == ".tsv" else ",")
    elif ending in (".parquet", ".xlsx"):
        getattr(frame, "to_parquet" if ending == ".parquet" else "to_excel")(path, index=False)
    else:
        dated = frame.assign(admitted=frame["admitted"].dt.date)
        writer = {".dta": pyreadstat.write_dta, ".xpt": pyreadstat.write_xport}.get(ending, pyreadstat.write_sav)
        writer(dated, str(path), **({"compress": True} if ending == ".zsav" else {}))


ENDINGS = [".csv", ".csv.gz", ".tsv", ".parquet", ".xlsx", ".dta", *map(heavy, (".sav", ".zsav", ".xpt"))]


@pytest.mark.heavy
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_synthetic_file_has_the_types_of_the_real_one(tmp_path, ending):
    """From the draft alone, but for two declarations: `sex` is a code, and the pattern of patients is public."""
    paths = [tmp_path / f"{name}{ending}" for name in ("real", "synthetic")]
    written(real(), paths[0])
    found = record_files.look(paths[0])
    facts = yamlfile.parse(draft(found.frame, paths[0], found=found).schema, "draft")
    facts["columns"]["sex"] = {"kind": "categorical", "categories": [1, 2]}
    for column in facts["columns"].values():
        column.pop("review", None)
        column.pop("missing", None)
    reading = facts.setdefault("reading", {})
    reading.pop("review", None)
    reading.setdefault("columns", {})["patient"] = {"pattern": "P####"}
    schema = Schema.from_dict(facts | {"declared_by": "the tests", "units": 200})
    schema.check_declared()
    release = Synthesizer("independent", schema=schema, budget=Budget(50.0, 1e-5)).fit(
        record_files.read(paths[0], schema), seed=1
    )
    record_files.write([release.sample(200, seed=2)], paths[1], schema)
    for declared in (schema, None):  # as this program reads them, and as one that knows no schema
        frames = [record_files.read(path, declared) for path in paths]
        types = [frame.dtypes.astype(str) for frame in frames]
        if declared is None and ending == ".dta":  # which has whole numbers in either type
            types = [each.str.replace("Int64", "float64") for each in types]
        pd.testing.assert_series_equal(*types)
        assert list(frames[0]) == list(real())
