"""The made-up hospital (made_up_hospital.py) as a CDM of OMOP 5.4, and a made-up vocabulary: python made_up_omop.py PEOPLE FOLDER.

It writes FOLDER/cdm and FOLDER/vocabulary. Concepts that OHDSI's tools themselves name (genders, kinds of visit, units, what only women or
men have) have OHDSI's numbers; all others, from 1,900,000,001 on, are made up. Women are pregnant and men have prostates; who is diabetic
has HbA1c measured, takes metformin, and later insulin; one measurement in a hundred names no visit.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from made_up_hospital import stays

FIRST = 1_900_000_000
FEMALE, MALE, EHR, PERCENT, PRESSURE = 8532, 8507, 32817, 8554, 8876
INPATIENT, OUTPATIENT, EMERGENCY, BOTH = 9201, 9202, 9203, 262
DIABETES, TYPE_1, TYPE_2, HEART, FAILURE, WOUND, LUNG, PREGNANCY, PROSTATE, FALL = range(FIRST + 1, FIRST + 11)
OPERATION, SUTURE, ECHO, RESECTION, SCAN = range(FIRST + 11, FIRST + 16)
METFORMIN, INSULIN, DIURETIC, TABLET = range(FIRST + 21, FIRST + 25)
SUGAR, SYSTOLIC, SODIUM = range(FIRST + 31, FIRST + 34)
OLD_CODE = FIRST + 41
FINDING, PROCEDURE = 441840, 4322976  # the ones above all of their domain
OF_WOMEN, OF_MEN, ON_PROSTATE = (
    444094,
    4090861,
    4250917,
)  # findings of pregnancy, of male genitals; operations on the prostate

# Concept, name, domain, class, what lies above it.
CONCEPTS: tuple[tuple[int, str, str, str, int | None], ...] = (
    (0, "No matching concept", "Metadata", "Undefined", None),
    (FEMALE, "FEMALE", "Gender", "Gender", None),
    (MALE, "MALE", "Gender", "Gender", None),
    (EHR, "EHR", "Type Concept", "Type Concept", None),
    (756265, "OMOP CDM Version 5.4.0", "Metadata", "CDM", None),
    (INPATIENT, "Inpatient Visit", "Visit", "Visit", None),
    (OUTPATIENT, "Outpatient Visit", "Visit", "Visit", None),
    (EMERGENCY, "Emergency Room Visit", "Visit", "Visit", None),
    (BOTH, "Emergency Room and Inpatient Visit", "Visit", "Visit", None),
    (581477, "Office Visit", "Visit", "Visit", None),
    (42898160, "Non-hospital institution Visit", "Visit", "Visit", None),
    (PERCENT, "percent", "Unit", "Unit", None),
    (PRESSURE, "millimeter mercury column", "Unit", "Unit", None),
    (FINDING, "Clinical finding", "Condition", "Clinical Finding", None),
    (PROCEDURE, "Procedure", "Procedure", "Procedure", None),
    (OF_WOMEN, "Finding related to pregnancy", "Condition", "Clinical Finding", FINDING),
    (OF_MEN, "Male genitalia finding", "Condition", "Clinical Finding", FINDING),
    (ON_PROSTATE, "Operation on prostate", "Procedure", "Procedure", PROCEDURE),
    (DIABETES, "Diabetes (made up)", "Condition", "Clinical Finding", FINDING),
    (TYPE_1, "Diabetes, type 1 (made up)", "Condition", "Clinical Finding", DIABETES),
    (TYPE_2, "Diabetes, type 2 (made up)", "Condition", "Clinical Finding", DIABETES),
    (HEART, "Heart disease (made up)", "Condition", "Clinical Finding", FINDING),
    (FAILURE, "Heart failure (made up)", "Condition", "Clinical Finding", HEART),
    (WOUND, "Open wound (made up)", "Condition", "Clinical Finding", FINDING),
    (LUNG, "Lung disease (made up)", "Condition", "Clinical Finding", FINDING),
    (PREGNANCY, "Pregnancy (made up)", "Condition", "Clinical Finding", OF_WOMEN),
    (PROSTATE, "Large prostate (made up)", "Condition", "Clinical Finding", OF_MEN),
    (FALL, "Fall (made up)", "Condition", "Clinical Finding", FINDING),
    (OPERATION, "Operation (made up)", "Procedure", "Procedure", PROCEDURE),
    (SUTURE, "Suture (made up)", "Procedure", "Procedure", OPERATION),
    (ECHO, "Echocardiogram (made up)", "Procedure", "Procedure", PROCEDURE),
    (RESECTION, "Resection of prostate (made up)", "Procedure", "Procedure", ON_PROSTATE),
    (SCAN, "Scan (made up)", "Procedure", "Procedure", PROCEDURE),
    (METFORMIN, "Metformin (made up)", "Drug", "Ingredient", None),
    (INSULIN, "Insulin (made up)", "Drug", "Ingredient", None),
    (DIURETIC, "Diuretic (made up)", "Drug", "Ingredient", None),
    (TABLET, "Metformin tablet (made up)", "Drug", "Clinical Drug", METFORMIN),
    (SUGAR, "HbA1c (made up)", "Measurement", "Lab Test", None),
    (SYSTOLIC, "Systolic pressure (made up)", "Measurement", "Clinical Observation", None),
    (SODIUM, "Sodium (made up)", "Measurement", "Lab Test", None),
    (OLD_CODE, "Sugar disease, an old code (made up)", "Condition", "Clinical Finding", None),
)
Frames = dict[str, pd.DataFrame]


def vocabulary(concepts: Sequence[tuple[int, str, str, str, int | None]] = CONCEPTS) -> Frames:
    """The tables concept, concept_ancestor and vocabulary. The old code is not standard."""
    rows = [
        {
            "concept_id": number,
            "concept_name": name,
            "domain_id": domain,
            "vocabulary_id": "made up",
            "concept_class_id": of_class,
            "standard_concept": None if number in (0, OLD_CODE) else "S",
            "concept_code": f"{number}",
            "valid_start_date": "19700101",
            "valid_end_date": "20991231",
            "invalid_reason": "D" if number == OLD_CODE else None,
        }
        for number, name, domain, of_class, _ in concepts
    ]
    parents = {number: parent for number, *_, parent in concepts}
    above = []
    for number in filter(None, parents):
        each, level = number, 0
        while each is not None:
            above.append((each, number, level))
            each, level = parents[each], level + 1
    levels = pd.DataFrame(above, columns=["ancestor_concept_id", "descendant_concept_id", "min_levels_of_separation"])
    return {
        "concept": pd.DataFrame(rows),
        "concept_ancestor": levels.assign(max_levels_of_separation=levels["min_levels_of_separation"]),
        "vocabulary": pd.DataFrame({"vocabulary_id": ["None"], "vocabulary_version": ["made up"]}),
    }


def tables(people: int, seed: int) -> Frames:
    """The tables of the CDM, about two visits for each person."""
    rng = np.random.default_rng([seed, 1])
    stay = stays(people, seed)
    who = stay["patient"].str.slice(1).astype(np.int64).to_numpy()
    first = stay.drop_duplicates("patient")
    born = pd.Timestamp("2021-01-01") - pd.to_timedelta(
        first["age"].to_numpy() * 365.25 + rng.uniform(0, 365, people), unit="D"
    )
    born = pd.Series(born).dt.normalize()
    male = first["sex"].to_numpy() == "M"
    person = pd.DataFrame(
        {
            "person_id": np.arange(1, people + 1),
            "gender_concept_id": np.where(male, MALE, FEMALE),
            "year_of_birth": born.dt.year,
            "month_of_birth": born.dt.month,
            "day_of_birth": born.dt.day,
            "birth_datetime": None,
            "race_concept_id": 0,
            "ethnicity_concept_id": 0,
            "person_source_value": first["patient"].to_numpy(),
        }
    )
    start = stay["admitted"]
    end = start + pd.to_timedelta(stay["days"], unit="D")
    urgent, nights = stay["urgent"].to_numpy(), stay["days"].to_numpy() > 0
    kind = np.select([urgent & nights, urgent, nights], [BOTH, EMERGENCY, INPATIENT], OUTPATIENT)
    visit = pd.DataFrame(
        {"visit_occurrence_id": np.arange(1, len(stay) + 1), "person_id": who + 1, "visit_concept_id": kind}
    )
    visit = visit.assign(visit_start_date=start, visit_end_date=end, visit_type_concept_id=EHR)
    last = end.groupby(who).max()
    dies = rng.random(people) < np.where(first["age"] > 75, 0.25, 0.03)
    death = pd.DataFrame(
        {"person_id": person["person_id"], "death_date": last.to_numpy(), "death_type_concept_id": EHR}
    )[dies]
    period = pd.DataFrame({"observation_period_id": person["person_id"], "person_id": person["person_id"]})
    period = period.assign(observation_period_start_date=start.groupby(who).min().to_numpy())
    period = period.assign(observation_period_end_date=last.to_numpy(), period_type_concept_id=EHR)

    sex, age, ward = male[who], stay["age"].to_numpy(), stay["ward"].to_numpy()
    chance = rng.random((16, len(stay)))
    diabetic, insulin, wound = (stay[name].to_numpy() for name in ("diabetic", "insulin", "wound"))
    type_1 = rng.random(people)[who] < 0.1
    pregnant = ~sex & (age < 45) & (chance[0] < 0.25)
    conditions = {
        TYPE_1: diabetic & type_1,
        TYPE_2: diabetic & ~type_1,
        FAILURE: (ward == "cardiology") & (chance[1] < 0.6),
        WOUND: wound,
        LUNG: (ward == "medicine") & (chance[2] < 0.3),
        PREGNANCY: pregnant,
        PROSTATE: sex & (age > 60) & (chance[3] < 0.3),
        FALL: (ward == "geriatrics") & (chance[4] < 0.4),
    }
    procedures = {
        SUTURE: wound & (chance[5] < 0.8),
        ECHO: (ward == "cardiology") & (chance[6] < 0.7),
        RESECTION: sex & (age > 60) & (ward == "surgery") & (chance[7] < 0.3),
        SCAN: chance[8] < 0.15,
    }
    drugs = {
        TABLET: diabetic & ~insulin & (chance[9] < 0.8),
        INSULIN: insulin,
        DIURETIC: (ward == "cardiology") & (chance[10] < 0.6),
    }
    measured = {SUGAR: diabetic & (chance[11] < 0.9), SYSTOLIC: chance[12] < 0.7, SODIUM: nights & (chance[13] < 0.5)}
    condition = _rows(conditions, visit, "condition", "condition_start_date")
    procedure = _rows(procedures, visit, "procedure", "procedure_date")
    drug = _rows(drugs, visit, "drug", "drug_exposure_start_date", "drug_exposure")
    drug["drug_exposure_end_date"] = drug["drug_exposure_start_date"] + pd.Timedelta(7, "D")
    measurement = _rows(measured, visit, "measurement", "measurement_date", "measurement")
    concept = measurement["measurement_concept_id"]
    mean, spread = (
        concept.map({SUGAR: 8.0, SYSTOLIC: 135.0, SODIUM: 140.0}),
        concept.map({SUGAR: 1.2, SYSTOLIC: 18, SODIUM: 3.5}),
    )
    measurement["value_as_number"] = (mean + spread * rng.normal(size=len(concept))).round(1)
    measurement["unit_concept_id"] = concept.map({SUGAR: PERCENT, SYSTOLIC: PRESSURE}).astype("Int64")
    lost = rng.random(len(measurement)) < 0.01
    measurement["visit_occurrence_id"] = measurement["visit_occurrence_id"].astype("Int64").mask(lost)
    return {
        "person": person,
        "observation_period": period,
        "visit_occurrence": visit,
        "condition_occurrence": condition,
        "procedure_occurrence": procedure,
        "drug_exposure": drug,
        "measurement": measurement,
        "death": death,
        "drug_era": _eras(drug),
        "cdm_source": _about(),
    }


def _rows(which: dict[int, Any], visit: pd.DataFrame, name: str, dated: str, table: str | None = None) -> pd.DataFrame:
    """A row for each visit and concept where that is so, on the first day."""
    at = {concept: np.flatnonzero(rows) for concept, rows in which.items()}
    place = np.concatenate(list(at.values()))
    concept = np.repeat(list(at), [len(rows) for rows in at.values()])
    order = np.argsort(place, kind="stable")
    place, concept = place[order], concept[order]
    return pd.DataFrame(
        {
            f"{table or f'{name}_occurrence'}_id": np.arange(1, len(place) + 1),
            "person_id": visit["person_id"].to_numpy()[place],
            f"{name}_concept_id": concept,
            dated: visit["visit_start_date"].to_numpy()[place],
            f"{name}_type_concept_id": EHR,
            "visit_occurrence_id": visit["visit_occurrence_id"].to_numpy()[place],
        }
    )


def _eras(drug: pd.DataFrame) -> pd.DataFrame:
    """From a person's first dose of an ingredient to the last."""
    ingredient = drug["drug_concept_id"].replace(TABLET, METFORMIN)
    found = drug.groupby([drug["person_id"], ingredient])[["drug_exposure_start_date", "drug_exposure_end_date"]]
    era = found.agg({"drug_exposure_start_date": "min", "drug_exposure_end_date": "max"}).reset_index()
    era.columns = pd.Index(["person_id", "drug_concept_id", "drug_era_start_date", "drug_era_end_date"])
    return era.assign(drug_era_id=np.arange(1, len(era) + 1), drug_exposure_count=1, gap_days=0)


def _about() -> pd.DataFrame:
    about = {
        "cdm_source_name": "made-up hospital",
        "cdm_source_abbreviation": "made up",
        "cdm_holder": "recipes/made_up_omop.py",
        "source_release_date": "2024-01-01",
        "cdm_release_date": "2024-01-01",
        "cdm_version": "v5.4",
        "cdm_version_concept_id": 756265,
        "vocabulary_version": "made up",
    }
    return pd.DataFrame([about])


def whole(frames: Frames, fields: Any) -> Frames:
    """The same tables with every field of the model, in its order."""
    return {name: frame.reindex(columns=list(fields(name))) for name, frame in frames.items()}


def write(frames: Frames, folder: Path, ending: str = ".csv", separator: str = ",") -> None:
    """A file for each table."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in frames.items():
        if ending == ".parquet":
            frame.to_parquet(folder / f"{name}{ending}", index=False)
        else:
            frame.to_csv(folder / f"{name}{ending}", index=False, sep=separator)


def main() -> None:
    from synthdp.omop import cdm

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("people", type=int)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parquet", action="store_true")
    given = parser.parse_args()
    made = whole(tables(given.people, given.seed), lambda name: (each.name for each in cdm.tables()[name]))
    write(made, given.folder / "cdm", ".parquet" if given.parquet else ".csv")
    write(vocabulary(), given.folder / "vocabulary", separator="\t")


if __name__ == "__main__":
    main()
