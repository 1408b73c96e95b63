"""The checks of a CDM, by the DataQualityDashboard's names: none fails on one that is whole, each fails where it was broken."""

import tempfile

import omop_hospital
import pandas as pd
import pytest
from made_up_omop import INSULIN, OLD_CODE, PREGNANCY, SODIUM, TABLET, TYPE_2

from synthdp.cli import run
from synthdp.errors import BadInput
from synthdp.omop import cdm
from synthdp.omop.cdm_store import duck
from synthdp.omop.quality_checks import NAMES, checked

# What is broken, by check and field; some of it breaks another check too.
BROKEN = {
    "cdmTable": {"procedure_occurrence"},
    "cdmField": {"person.day_of_birth"},
    "cdmDatatype": {"drug_exposure.refills"},
    "isRequired": {"visit_occurrence.visit_end_date"},
    "isPrimaryKey": {"condition_occurrence.condition_occurrence_id"},
    "isForeignKey": {"measurement.visit_occurrence_id", "drug_exposure.drug_concept_id"},
    "fkDomain": {"measurement.measurement_concept_id", "cdm_source.cdm_version_concept_id"},
    "fkClass": {"drug_era.drug_concept_id"},
    "isStandardValidConcept": {"condition_occurrence.condition_concept_id"},
    "standardConceptRecordCompleteness": {"visit_occurrence.visit_concept_id"},
    "plausibleValueLow": {"person.month_of_birth"},
    "plausibleValueHigh": {"measurement.measurement_date"},
    "plausibleAfterBirth": {"death.death_date"},
    "plausibleBeforeDeath": {"observation_period.observation_period_end_date", "drug_exposure.drug_exposure_end_date"},
    "plausibleStartBeforeEnd": {"drug_era.drug_era_start_date"},
    "plausibleGenderUseDescendants": {"condition_occurrence.condition_concept_id"},
    "withinVisitDates": {"measurement.measurement_date"},
    "measureObservationPeriodOverlap": {"observation_period"},
    "measurePersonCompleteness": {"observation_period"},
}


EVERYWHERE = (
    "fkClass",
    "measureObservationPeriodOverlap",
    "plausibleBeforeDeath",
    "plausibleGenderUseDescendants",
)  # all are broken


def broken(frames):
    """The same tables with something wrong for every check."""
    del frames["procedure_occurrence"]
    person = frames["person"] = frames["person"].drop(columns="day_of_birth")
    person.loc[:20, "month_of_birth"] = 0
    visit, condition, drug = frames["visit_occurrence"], frames["condition_occurrence"], frames["drug_exposure"]
    visit["visit_end_date"] = visit["visit_end_date"].astype(object)
    visit.loc[0, "visit_end_date"] = None
    visit.loc[1, "visit_concept_id"] = 0
    condition.loc[0, "condition_occurrence_id"] = condition.loc[1, "condition_occurrence_id"]
    men = person["person_id"][person["gender_concept_id"] == cdm.MALE]
    condition.loc[condition["person_id"].isin(men), "condition_concept_id"] = PREGNANCY
    condition.loc[0, "condition_concept_id"] = OLD_CODE
    drug["refills"] = "many"
    drug.loc[0, "drug_concept_id"] = 1_999_999_999
    measurement, era = frames["measurement"], frames["drug_era"]
    measurement.loc[0, "measurement_concept_id"] = TYPE_2
    measurement["measurement_date"] = pd.Timestamp("2190-01-01")
    measurement.loc[0, "visit_occurrence_id"] = 10**9
    era.loc[0, "drug_concept_id"] = TABLET
    era["drug_era_start_date"] = era["drug_era_end_date"] + pd.Timedelta(1, "D")
    frames["cdm_source"]["cdm_version_concept_id"] = TYPE_2
    death, period = frames["death"], frames["observation_period"]
    death["death_date"] = pd.Timestamp("1900-01-01")
    period.loc[0, "person_id"] = period.loc[1, "person_id"]
    return frames


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The checks of the whole CDM, and of the broken one."""
    folder = tmp_path_factory.mktemp("omop")
    omop_hospital.write(folder)
    omop_hospital.made_up_omop.write(broken(omop_hospital.tables()), folder / "broken", ".parquet")
    return {name: checked(str(folder / name), str(folder / "vocabulary")) for name in ("cdm", "broken")}


@pytest.mark.parametrize("name", NAMES)
def test_each_check_passes_on_a_whole_cdm_and_fails_on_a_broken_one(found, name):
    whole = [each for each in found["cdm"] if each.name == name]
    assert {each.status for each in whole} <= {"passed", "empty"}
    assert "passed" in {each.status for each in whole}
    failed = {each.where for each in found["broken"] if each.name == name and each.status == "failed"}
    assert failed >= BROKEN[name]
    passed = {each.where for each in found["broken"] if each.name == name and each.status == "passed"}
    assert passed or name in EVERYWHERE, "what was not broken passes still"


def test_what_needs_a_vocabulary_is_not_run_without_one_and_is_no_pass(tmp_path):
    frames = omop_hospital.tables(40)
    frames["person"].loc[0, "provider_id"] = 7
    omop_hospital.made_up_omop.write(frames, tmp_path / "cdm")
    found = checked(str(tmp_path / "cdm"))
    unrun = {each.name for each in found if each.status == "not run"}
    assert unrun == {"isForeignKey", "fkDomain", "fkClass", "isStandardValidConcept", "plausibleGenderUseDescendants"}
    assert not [each for each in found if each.name in unrun - {"isForeignKey"} and each.status == "passed"]
    (provider,) = (each for each in found if each.where == "person.provider_id" and each.name == "isForeignKey")
    assert provider.why == "there is no table provider"
    assert not [each for each in found if each.status == "failed"]


def test_absent_fields_are_named_together_and_no_rows_of_theirs_are_counted(tmp_path, capsys):
    frames = omop_hospital.tables(40)
    frames["person"] = frames["person"].drop(columns=["day_of_birth", "provider_id"])
    del frames["procedure_occurrence"]
    omop_hospital.made_up_omop.write(frames, tmp_path / "cdm")
    assert run(["check", "data.format=omop", f"data.path={tmp_path / 'cdm'}"]) == 2
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("failed ")]
    assert failed == [
        "failed     cdmTable of procedure_occurrence: there is no such table",
        "failed     cdmField of person: there is no day_of_birth or provider_id",
    ]


def test_rows_are_counted_as_a_plain_loop_counts_them(tmp_path):
    frames = omop_hospital.tables(60)
    visit = frames["visit_occurrence"]
    visit.loc[:4, "visit_start_date"] = visit.loc[:4, "visit_end_date"] + pd.Timedelta(2, "D")
    frames["drug_exposure"].loc[:2, "drug_concept_id"] = 0
    frames["measurement"].loc[frames["measurement"]["measurement_concept_id"] == SODIUM, "measurement_date"] -= (
        pd.Timedelta(8, "D")
    )
    omop_hospital.made_up_omop.write(frames, tmp_path / "cdm", ".parquet")
    found = {(each.name, each.where): each for each in checked(str(tmp_path / "cdm"))}
    start = found["plausibleStartBeforeEnd", "visit_occurrence.visit_start_date"]
    assert (start.violated, start.rows) == (5, len(visit))
    zeros = found["standardConceptRecordCompleteness", "drug_exposure.drug_concept_id"]
    assert (zeros.violated, zeros.rows) == (3, len(frames["drug_exposure"]))
    rows = frames["measurement"].merge(visit, on="visit_occurrence_id")
    week = pd.Timedelta(7, "D")
    outside = (rows["measurement_date"] < rows["visit_start_date"] - week) | (
        rows["measurement_date"] > rows["visit_end_date"] + week
    )
    within = found["withinVisitDates", "measurement.measurement_date"]
    assert (within.violated, within.rows) == (outside.sum(), len(rows))


def test_what_is_no_cdm_is_refused_in_words(tmp_path):
    with pytest.raises(BadInput, match="nowhere does not exist"):
        checked(str(tmp_path / "nowhere"))
    (tmp_path / "person.csv").write_text("person_id\n1\n", encoding="utf-8")
    (tmp_path / "PERSON.parquet").write_text("", encoding="utf-8")
    with pytest.raises(BadInput, match="several files of the table 'person'"):
        checked(str(tmp_path))


@pytest.mark.heavy
def test_what_of_a_cdm_does_not_fit_in_memory_is_encrypted(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with duck("64MiB") as connection:
        connection.execute("CREATE TABLE t AS SELECT md5(i::VARCHAR) || 'a patient' AS x FROM range(3000000) AS s(i)")
        spilled = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in spilled) > 10 << 20
        assert not any(b"a patient" in path.read_bytes() for path in spilled)
    assert not list(tmp_path.rglob("*"))


def test_insulin_is_an_ingredient():
    """The made-up vocabulary tells classes apart, without which fkClass would prove nothing."""
    classes = omop_hospital.made_up_omop.vocabulary()["concept"].set_index("concept_id")["concept_class_id"]
    assert classes[INSULIN] == "Ingredient"
    assert classes[TABLET] == "Clinical Drug"
