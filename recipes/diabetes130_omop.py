"""A CDM of 71,518 real patients with diabetes, and synthetic ones: checks, single tables, and the queries of a cohort study on both.

    SYNTHDP_DATA=/path/to/data python recipes/diabetes130_omop.py

Makes outputs/diabetes130_omop/{cdm,vocabulary} of `diabetes130` (Strack et al. 2014) and writes reports/diabetes130_omop.{json,md}. What
the data set does not have is made up, the same for whoever runs this. It gives the order of admissions but no dates, so the rank of an
admission sets its date in 1999 to 2008. The day of birth is drawn within the decade of age at the first admission. Patients who were
discharged as dead at the last admission died that day. The made-up vocabulary has ICD-9-CM's three-digit codes, the codes below 250 and
the chapters, and the numbers of made_up_omop.py for what OHDSI's checks look at. In truth codes that begin with E and V are no
conditions. Drugs are the data set's own columns. Beside the synthetic CDMs stands half of the patients, chosen at random.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import made_up_omop
import numpy as np
import pandas as pd
from code_trees import chapter, codes, three_digit
from made_up_omop import BOTH, EHR, FEMALE, FINDING, FIRST, INPATIENT, MALE, OF_MEN, OF_WOMEN
from omop_queries import DELTA, SEEDS, compared, found, runs, schema_of, text
from record import HOME, provenance, write

from synthdp.omop import cdm, cdm_tables

PATIENTS = 71_518
START, DAYS = np.datetime64("1999-01-01"), 3_653
DRUGS = (
    "metformin", "repaglinide", "nateglinide", "chlorpropamide", "glimepiride", "acetohexamide", "glipizide", "glyburide",
    "tolbutamide", "pioglitazone", "rosiglitazone", "acarbose", "miglitol", "troglitazone", "tolazamide", "insulin",
    "glyburide-metformin", "glipizide-metformin", "glimepiride-pioglitazone", "metformin-rosiglitazone", "metformin-pioglitazone",
)  # fmt: skip
DIED, EMERGENCIES = (11, 19, 20, 21), (1, 7)
BLOCKS = {"ischaemic heart disease": (410, 414, FIRST + 101), "male genital organs": (600, 608, OF_MEN)}
CHAPTERS = sorted({chapter(code) for code in three_digit()})
NUMBERS = {name: OF_WOMEN if name == "pregnancy" else FIRST + 201 + place for place, name in enumerate(CHAPTERS)}
OF_CODE = {code: FIRST + 1_001 + place for place, code in enumerate(codes())}
OF_DRUG = {name: FIRST + 501 + place for place, name in enumerate(DRUGS)}
CONCEPTS = {
    "diabetes": OF_CODE["250"],
    "heart": BLOCKS["ischaemic heart disease"][2],
    "pregnancy": OF_WOMEN,
    "metformin": OF_DRUG["metformin"],
    "insulin": OF_DRUG["insulin"],
}
EVER = {
    "a code of diabetes": OF_CODE["250"],
    "ischaemic heart disease": CONCEPTS["heart"],
    "heart failure": OF_CODE["428"],
    "a disease of the lung": NUMBERS["respiratory"],
}


def above(code: str) -> int:
    """The concept above an ICD-9 code."""
    if "." in code:
        return OF_CODE[code.partition(".")[0]]
    blocks = [number for first, last, number in BLOCKS.values() if code.isdecimal() and first <= int(code) <= last]
    return blocks[0] if blocks else NUMBERS[chapter(code)]


def vocabulary() -> made_up_omop.Frames:
    """The tables concept and concept_ancestor."""
    own = [each for each in made_up_omop.CONCEPTS if each[0] < FIRST and each[0] not in (OF_WOMEN, OF_MEN)]
    finding = ("Condition", "Clinical Finding")
    own += [(number, f"{name} (made up)", *finding, FINDING) for name, number in NUMBERS.items()]
    own += [
        (number, f"{name} (made up)", *finding, NUMBERS[chapter(str(low))]) for name, (low, _, number) in BLOCKS.items()
    ]
    own += [(number, f"ICD-9-CM {code} (made up)", *finding, above(code)) for code, number in OF_CODE.items()]
    parts = {name: [each for each in name.split("-") if each in OF_DRUG] for name in DRUGS}
    for name, number in OF_DRUG.items():
        kind, parent = ("Clinical Drug", OF_DRUG[parts[name][0]]) if "-" in name else ("Ingredient", None)
        own.append((number, f"{name} (made up)", "Drug", kind, parent))
    made = made_up_omop.vocabulary(own)
    levels = made["concept_ancestor"]
    others = [(OF_DRUG[each], OF_DRUG[name], 1, 1) for name, held in parts.items() for each in held[1:]]
    made["concept_ancestor"] = pd.concat([levels, pd.DataFrame(others, columns=levels.columns)], ignore_index=True)
    return made


def concept(code: str) -> int:
    """The concept of a diagnosis as the file has it, where trailing zeros are lost; 0 for one that is not listed."""
    whole, _, rest = code.partition(".")
    return OF_CODE.get(f"{whole}.{rest:0<2}" if whole == "250" and rest else whole, 0)


def tables() -> made_up_omop.Frames:
    """The tables of the CDM."""
    raw = pd.read_parquet(Path(os.environ["SYNTHDP_DATA"]) / "diabetes130" / "diabetic_data.parquet")
    raw = raw.sort_values("encounter_id", ignore_index=True)
    who, patients = pd.factorize(raw["patient_nbr"])
    start = pd.Series(START + np.arange(len(raw)) * DAYS // len(raw))
    end = start + pd.to_timedelta(raw["time_in_hospital"], "D")
    first, last = (~pd.Series(who).duplicated(keep=keep) for keep in ("first", "last"))
    decade = raw["age"].str.extract(r"(\d+)", expand=False).astype(int)[first]
    rng = np.random.default_rng(130)
    born = start[first] - pd.to_timedelta((365.25 * (decade + 10 * rng.random(len(patients)))).round(), "D")
    number = np.arange(1, len(patients) + 1)
    person = pd.DataFrame({"person_id": number, "year_of_birth": born.dt.year.to_numpy()})
    person = person.assign(month_of_birth=born.dt.month.to_numpy(), day_of_birth=born.dt.day.to_numpy())
    sex = raw["gender"][first].map({"Female": FEMALE, "Male": MALE}).fillna(0).astype(int).to_numpy()
    person = person.assign(gender_concept_id=sex, race_concept_id=0, ethnicity_concept_id=0)
    visit = pd.DataFrame({"visit_occurrence_id": np.arange(1, len(raw) + 1), "person_id": who + 1})
    kind = np.where(raw["admission_type_id"].isin(EMERGENCIES), BOTH, INPATIENT)
    visit = visit.assign(visit_concept_id=kind, visit_start_date=start, visit_end_date=end, visit_type_concept_id=EHR)
    dead = last & raw["discharge_disposition_id"].isin(DIED)
    death = pd.DataFrame({"person_id": who[dead] + 1, "death_date": end[dead], "death_type_concept_id": EHR})
    period = pd.DataFrame({"observation_period_id": number, "person_id": number, "period_type_concept_id": EHR})
    period["observation_period_start_date"] = start.groupby(who).min().to_numpy()
    period["observation_period_end_date"] = end.groupby(who).max().to_numpy()
    diagnosed = raw.melt(value_vars=["diag_1", "diag_2", "diag_3"], ignore_index=False).query("value != '?'")
    given = raw.melt(value_vars=list(DRUGS), ignore_index=False).query("value != 'No'")
    condition = _below(visit, "condition_occurrence", diagnosed["value"].map(concept))
    drug = _below(visit, "drug_exposure", given["variable"].map(OF_DRUG))
    return {
        "person": person,
        "observation_period": period,
        "visit_occurrence": visit,
        "condition_occurrence": condition,
        "drug_exposure": drug.assign(drug_exposure_end_date=drug["drug_exposure_start_date"]),
        "death": death,
    }


def _below(visit: pd.DataFrame, table: str, concepts: "pd.Series[int]") -> pd.DataFrame:
    """Rows below visits, by the places of these, on the first day."""
    concepts = concepts.sort_index(kind="stable")
    at = visit.iloc[concepts.index]
    return pd.DataFrame(
        {
            f"{table}_id": np.arange(1, len(at) + 1),
            "person_id": at["person_id"].to_numpy(),
            cdm.CONCEPT[table]: concepts.to_numpy(),
            cdm.START[table]: at["visit_start_date"].to_numpy(),
            f"{table.partition('_')[0]}_type_concept_id": EHR,
            "visit_occurrence_id": at["visit_occurrence_id"].to_numpy(),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    given = parser.parse_args()
    folder = HOME / "outputs" / "diabetes130_omop"
    made = made_up_omop.whole(tables(), lambda name: (each.name for each in cdm.tables()[name]))
    made_up_omop.write(made, folder / "cdm", ".parquet")
    made_up_omop.write(vocabulary(), folder / "vocabulary", separator="\t")
    half = np.random.default_rng(1).permutation(PATIENTS)[: PATIENTS // 2] + 1
    made_up_omop.write(
        {name: each[each["person_id"].isin(half)] for name, each in made.items()}, folder / "half", ".parquet"
    )
    answered = {
        "units: learn": f"units: {PATIENTS}",
        "[1900-01-01,": "[1898-01-01,",  # ages are told up to 100
        "years": "[1999-01-01, 2009-01-31]",
        "max_rows: 10": "max_rows: 5",
        "bounds: [0, 365]": "bounds: [1, 14]",
        "bins: [1, 2, 3, 4, 5, 6, 7, 8, 11, 15, 22, 31, 91]": "bins: [2, 3, 4, 5, 6, 7, 8, 9, 10, 12]",
    }
    schema = schema_of(folder, folder / "cdm", "recipes/diabetes130_omop.py", answered)
    look = lambda out: found(out, folder / "vocabulary", CONCEPTS, EVER)  # noqa: E731
    truth = look(folder / "cdm")
    result: dict[str, Any] = {
        "provenance": provenance(),
        "people": PATIENTS,
        "delta": DELTA,
        "seeds": list(given.seeds),
        "beside": "half",
        "hospital": truth.queries,
        "other": compared(truth, look(folder / "half")),
    }
    frames = cdm_tables.read(str(folder / "cdm"), schema)
    result["runs"] = runs(folder, schema, frames, given.seeds, "diabetes130", look, truth)
    about = (
        f"`recipes/diabetes130_omop.py` wrote this at commit {result['provenance']['commit']}: {PATIENTS:,} patients of `diabetes130` as "
        f"a CDM, delta {DELTA:g}, generator `histories` at its defaults, five visits of a patient count, seeds "
        f"{', '.join(map(str, given.seeds))}. The data set gives the order of admissions but no dates. Dates are made up, so figures "
        "over time show whether they are kept, and nothing about patients. *Half* is half of the patients, chosen at random. "
        "Synthetic answers: mean and standard deviation over the seeds. That the draft's first bin of births was too wide was seen here, "
        "and that shares of diseases by age and sex did not move with epsilon, for which tables of numbers of rows were added. That "
        "synthetic people died long after their last visit, and that the codes of a visit were unrelated, was seen here, too. How "
        "many groups of codes there should be (40, 128 or none), and how relations are fitted, was tried on one of these fits "
        "(epsilon 3, seed 1)."
    )
    write("diabetes130_omop", result, text(result, "A CDM of patients with diabetes, and synthetic ones", about))


if __name__ == "__main__":
    main()
