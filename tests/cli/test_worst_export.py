"""The worst European export, of forty columns, from the draft to the report, by the commands of the guide alone."""

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml

from synthdp.cli import run
from synthdp.schema.schema import Schema
from synthdp.sets import record_files

ROWS, PATIENTS = 700, 400
CODES = [f"{'ABCEGIJKNR'[place // 80]}{place % 80 + 10}.{place % 9}" for place in range(800)]
SEPARATED = {
    "dtype": {"Postleitzahl": "str"},
    "sep": ";",
    "decimal": ",",
    "encoding": "utf-8-sig",
    "na_values": ["k. A.", "-9"],
    "quotechar": '"',
}


def export(path):
    """Byte order mark, semicolons, decimal commas, padded texts, dates of several formats, codes for missing values, free text with
    separators, quotes and line breaks, ids of text with leading zeros, several rows of a patient, 800 codes, signs between thousands."""
    rng = np.random.default_rng(5)
    patient = np.sort(rng.integers(0, PATIENTS, ROWS))
    age = rng.integers(18, 95, PATIENTS)[patient]
    admitted = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, ROWS), unit="D")
    stay = rng.geometric(0.2, ROWS)
    region = rng.choice([4, 4, 4, 4, 1, 2, 7, 8], ROWS)  # one that noise cannot hide among 8,000 codes
    dead = rng.random(ROWS) < 1 / (1 + np.exp(-(age - 85) / 6))

    def comma(values, places):
        return [f"{value:.{places}f}".replace(".", ",") for value in values]

    def gaps(values, code, share=0.08):
        return np.where(rng.random(ROWS) < share, code, np.asarray(values, dtype=object))

    found = {
        "Patienten-Nr.": [f"KH-{number:06d}" for number in patient],
        "Aufnahme": admitted.strftime("%d.%m.%Y"),
        "Entlassung": (admitted + pd.to_timedelta(stay, unit="D")).strftime("%d.%m.%Y"),
        "Geburtsjahr": 2023 - age,
        "Eingang (Uhrzeit)": [f"{day:%d.%m.%Y} {place % 24:02d}:{place % 60:02d}" for place, day in enumerate(admitted)],
        "Geschlecht": np.array(["m", "w", "d"])[rng.choice(3, ROWS, p=[0.49, 0.49, 0.02])],
        "Station": [f"{ward:<12}" for ward in np.array(["Innere", "Chirurgie", "Gynäkologie", "Notaufnahme"])[rng.integers(0, 4, ROWS)]],
        "Hauptdiagnose": np.array(CODES)[np.minimum(rng.geometric(0.02, ROWS), 800) - 1],
        "Nebendiagnose": gaps(np.array(CODES)[np.minimum(rng.geometric(0.03, ROWS), 800) - 1], "", 0.4),
        "verstorben": np.where(dead, "Ja", "Nein"),
        "Raucher": gaps(np.where(rng.random(ROWS) < 0.3, "ja", "nein"), "k. A."),
        "Befund": np.where(rng.random(ROWS) < 0.4, "+", "-"),
        "Kreatinin [mg/dl]": gaps(comma(rng.lognormal(0, 0.4, ROWS), 2), "-9"),
        "Gewicht (kg)": comma(rng.normal(75, 12, ROWS), 1),
        "Größe": rng.integers(150, 200, ROWS),
        "Kosten": [f"{cents // 100:,}".replace(",", ".") + f",{cents % 100:02d} €" for cents in rng.integers(90_000, 9_000_000, ROWS)],
        "Auslastung": [f"{value},5 %" for value in rng.integers(20, 100, ROWS)],
        "Postleitzahl": [f"0{digit}{rest:03d}" for digit, rest in zip(region, rng.integers(0, 30, ROWS), strict=True)],
        "Anamnese": [f'Patient {place} klagt über "Schmerzen"; seit {place % 9} Tagen,\nsiehe Akte des Hauses' for place in range(ROWS)],
        "ASA": np.array(["I", "II", "III", "IV"])[rng.integers(0, 4, ROWS)],
        "Verweildauer": stay,
    }  # fmt: skip
    found |= {f"Labor {place:02d}": gaps(comma(rng.normal(50 + place, 9, ROWS).clip(0), 1), "") for place in range(10)}
    found |= {f"Item {place}": rng.integers(0, 5, ROWS) for place in range(9)}
    frame = pd.DataFrame(found)
    assert frame.shape[1] == 40
    frame.to_csv(path, sep=";", index=False, encoding="utf-8-sig", lineterminator="\r\n", quoting=csv.QUOTE_MINIMAL)
    return frame


PUBLIC = {
    "Aufnahme": {"bounds": ["2023-01-01", "2024-12-31"]}, "Entlassung": {"bounds": ["2023-01-01", "2025-03-31"]},
    "Geburtsjahr": {"kind": "integer", "bounds": [1925, 2010]}, "Eingang (Uhrzeit)": {"bounds": ["2023-01-01", "2024-12-31"]},
    "Geschlecht": {"categories": ["m", "w", "d"]}, "Station": {"categories": ["Innere", "Chirurgie", "Gynäkologie", "Notaufnahme"]},
    "Kreatinin [mg/dl]": {"bounds": [0, 15]}, "Gewicht (kg)": {"bounds": [20, 200]}, "Größe": {"bounds": [140, 210]},
    "Kosten": {"bounds": [0, 100_000]}, "Auslastung": {"bounds": [0, 100]}, "Verweildauer": {"bounds": [0, 120]},
    "ASA": {"kind": "ordinal", "categories": ["I", "II", "III", "IV"]},
    "Postleitzahl": {"categories": [f"0{place}" for place in range(1000, 9000)], "tree": {"prefix": [2]}},
}  # fmt: skip


EMPTY = ("Nebendiagnose", "Raucher", "Kreatinin [mg/dl]")  # may be


def declared(path):
    """What a steward makes of the draft: public facts in the place of `learn`, no review marks, somebody who answers."""
    facts = yaml.safe_load(re.sub(r"^(\s+review: true).*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    columns = facts["columns"]
    (path.parent / "icd.csv").write_text("code\n" + "\n".join(CODES) + "\n")
    for name, column in columns.items():
        column.pop("review", None)
        if name not in EMPTY and not name.startswith("Labor"):
            column.pop("missing", None)
        if name.startswith(("Labor", "Item")):
            column["bounds"] = [0, 150] if name.startswith("Labor") else [0, 4]
        elif "diagnose" in name:
            column["categories"] = {"file": "icd.csv", "column": "code"}
        else:
            column |= PUBLIC.get(name, {})
    facts |= {
        "declared_by": "the tests",
        "unit": "Patienten-Nr.",
        "max_records_per_unit": 2,
        "units": 400,
        "targets": ["verstorben"],
    }
    facts["rules"] = ["Aufnahme <= Entlassung"]
    facts["reading"]["columns"]["Patienten-Nr."] = {"pattern": "KH-######"}
    path.write_text(yaml.safe_dump(facts, sort_keys=False, allow_unicode=True), encoding="utf-8")


def done(capsys, *words):
    assert run([str(word) for word in words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:at this noise the fit of the mixture")
def test_forty_columns_go_all_the_way(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    real = export(tmp_path / "export.csv")
    told = done(capsys, "schema", "path=export.csv", "out=schema.yaml")
    assert "with a byte order mark, separated by semicolon, decimal comma" in told
    kinds = {
        name: column["kind"]
        for name, column in yaml.safe_load((tmp_path / "schema.yaml").read_text())["columns"].items()
    }
    assert kinds["Patienten-Nr."] == "identifier"
    assert kinds["Anamnese"] == "ignore"
    assert {kinds[name] for name in ("Kosten", "Auslastung", "Kreatinin [mg/dl]", "Gewicht (kg)")} == {"continuous"}
    assert {kinds[name] for name in ("verstorben", "Raucher", "Befund")} == {"boolean"}
    assert kinds["Postleitzahl"] == kinds["Hauptdiagnose"] == "categorical"
    declared(tmp_path / "schema.yaml")
    data = ("data.path=export.csv", "data.schema=schema.yaml")
    assert "Patienten-Nr." in done(capsys, "check", *data)
    assert "drowned" in done(capsys, "plan", *data, "budget.epsilon=1")
    done(capsys, "split", "path=export.csv", "schema=schema.yaml", "out=parts")
    train = ("data.path=parts/train.csv", "data.schema=schema.yaml")
    small = (
        "generator.pairs=40",
        "generator.tables=20",
        "generator.components=20",
        "generator.iterations=40",
        "budget.delta=1e-6",
    )
    assert "lost" in done(capsys, "fit", *train, "budget.epsilon=10", "out=mine", "answers=true", *small)
    done(capsys, "sample", "release=mine/release", f"rows={ROWS}", "out=synthetic.csv")
    judge = (
        "evaluate.models=[lr]",
        "evaluate.seeds=1",
        "evaluate.attacks=false",
        "evaluate.bootstrap=20",
        "evaluate=quick",
    )
    both = ("data.train=parts/train.csv", "data.test=parts/held_out.csv", "data.schema=schema.yaml")
    done(capsys, "evaluate", "synthetic=synthetic.csv", *both, "release=mine/release", "out=judged", *judge)
    done(capsys, "report", "release=mine/release", "out=pages")
    assert (tmp_path / "pages" / "statement.html").is_file()
    assert json.loads((tmp_path / "judged" / "evaluation.json").read_text())["targets"]

    plain = [
        pd.read_csv(name, **SEPARATED).drop(columns="Anamnese", errors="ignore")
        for name in ("export.csv", "synthetic.csv")
    ]
    assert list(plain[0]) == list(plain[1]) == [name for name in real if name != "Anamnese"]
    pd.testing.assert_series_equal(plain[0].dtypes, plain[1].dtypes)
    schema = Schema.load("schema.yaml")
    read = [record_files.read(tmp_path / name, schema) for name in ("export.csv", "synthetic.csv")]
    kinds = [frame.dtypes.astype(str).str.lower().replace("boolean", "bool") for frame in read]  # with gaps or without
    pd.testing.assert_series_equal(*kinds)
    made = pd.read_csv(
        "synthetic.csv", dtype="str", keep_default_na=False, **{key: SEPARATED[key] for key in ("sep", "encoding")}
    )
    assert made["Kosten"].str.fullmatch(r"[0-9]{1,3}(\.[0-9]{3})*,[0-9]{2} €").all()
    assert made["Auslastung"].str.fullmatch(r"[0-9]+,[0-9] %").all()
    assert made["Patienten-Nr."].str.fullmatch("KH-[0-9]{6}").all()
    assert set(made["verstorben"]) <= {"Ja", "Nein"}
    assert set(made["Befund"]) <= {"+", "-", "'+", "'-"}
