"""Ten queries of an ordinary cohort study, run unchanged on the made-up hospital's CDM and on synthetic ones.

    python recipes/omop_queries.py

Writes reports/omop_queries.{json,md}. The hospital is that of made_up_omop.py, with its vocabulary; the schema is the draft of
`synthdp schema data.format=omop`, whose questions are answered by what the recipe itself made up. Beside the synthetic CDMs stands another
hospital, made up from another seed: what the queries differ by where nothing but chance does. Settings of the generator are its defaults.
"""

import argparse
import json
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import made_up_omop
from record import provenance, spread, write

from synthdp import Budget, Schema, Synthesizer
from synthdp.omop import cdm, cdm_draft, cdm_files, cdm_tables, quality_checks

DELTA, PEOPLE, EPSILONS, SEEDS = 1e-6, 10_000, (1.0, 3.0), (1, 2, 3)
OF = "(SELECT descendant_concept_id FROM concept_ancestor WHERE ancestor_concept_id = {})"
DIABETES, HEART = OF.format(made_up_omop.DIABETES), OF.format(made_up_omop.HEART)
FIRST = "(SELECT person_id, min(condition_start_date) AS day FROM condition_occurrence WHERE condition_concept_id IN {} GROUP BY person_id)"
DIABETIC, HEART_PATIENTS = FIRST.format(DIABETES), FIRST.format(HEART)
YOUNG_WOMEN = "gender_concept_id = 8532 AND year_of_birth > 1976"
QUERIES = {
    "visits per person": "SELECT (SELECT count(*) FROM visit_occurrence) / (SELECT count(*) FROM person)",
    "mean days of an inpatient visit": """
        SELECT avg(visit_end_date - visit_start_date) FROM visit_occurrence WHERE visit_concept_id IN (262, 9201)""",
    "share of visits by way of the emergency room": """
        SELECT avg((visit_concept_id IN (262, 9203))::INT) FROM visit_occurrence""",
    "prevalence of diabetes, ever": f"""
        SELECT (SELECT count(*) FROM {DIABETIC}) / (SELECT count(*) FROM person)""",
    "prevalence of diabetes, ever, among people born before 1955": f"""
        SELECT avg((day IS NOT NULL)::INT) FROM person LEFT JOIN {DIABETIC} USING (person_id) WHERE year_of_birth < 1955""",
    "share of women among people with heart disease": f"""
        SELECT avg((gender_concept_id = 8532)::INT) FROM {HEART_PATIENTS} JOIN person USING (person_id)""",
    "women with a pregnancy per 100 born after 1976": f"""
        SELECT 100 * (SELECT count(DISTINCT person_id) FROM condition_occurrence JOIN person USING (person_id)
        WHERE condition_concept_id IN {OF.format(made_up_omop.OF_WOMEN)} AND {YOUNG_WOMEN})
        / (SELECT count(*) FROM person WHERE {YOUNG_WOMEN})""",
    "share with metformin on or after a first diabetes": f"""
        SELECT avg((later > 0)::INT) FROM (SELECT f.person_id, count(d.drug_exposure_id) AS later FROM {DIABETIC} AS f LEFT JOIN
        drug_exposure AS d ON d.person_id = f.person_id AND d.drug_exposure_start_date >= f.day
        AND d.drug_concept_id IN {OF.format(made_up_omop.METFORMIN)} GROUP BY f.person_id)""",
    "median days from a first diabetes to insulin": f"""
        SELECT median(days) FROM (SELECT min(drug_exposure_start_date) - min(day) AS days FROM {DIABETIC} JOIN drug_exposure
        USING (person_id) WHERE drug_concept_id IN {OF.format(made_up_omop.INSULIN)} AND drug_exposure_start_date >= day
        GROUP BY person_id)""",
    "deaths within a year of a first heart disease, share": f"""
        SELECT avg((coalesce(death_date, DATE '9999-01-01') <= day + 365)::INT) FROM {HEART_PATIENTS} LEFT JOIN death USING (person_id)""",
}


def answers(folder: Path, vocabulary: Path) -> dict[str, float]:
    """What each query comes to on the Parquet files of a CDM."""
    with duckdb.connect() as connection:
        for name in cdm.RECORDS:
            dates = [each.name for each in cdm.tables()[name] if each.type == "date"]
            cast = ", ".join(f"CAST({each} AS DATE) AS {each}" for each in dates)
            star = f"* REPLACE ({cast})" if dates else "*"
            connection.execute(f"CREATE VIEW {name} AS SELECT {star} FROM read_parquet('{folder / name}.parquet')")
        connection.execute(
            f"CREATE VIEW concept_ancestor AS SELECT * FROM read_csv('{vocabulary / 'concept_ancestor.csv'}')"
        )
        return {name: float(connection.execute(query).fetchone()[0] or 0) for name, query in QUERIES.items()}


def hospital(folder: Path, people: int, seed: int) -> Path:
    """A CDM in Parquet."""
    made = made_up_omop.tables(people, seed)
    fields = lambda name: (each.name for each in cdm.tables()[name])  # noqa: E731
    made_up_omop.write(made_up_omop.whole(made, fields), folder / f"hospital{seed}", ".parquet")
    return folder / f"hospital{seed}"


def schema_of(folder: Path, vocabulary: Path, people: int) -> Schema:
    """The draft with its questions answered."""
    lists = cdm_draft.concept_lists(str(vocabulary), folder / "schema.concepts")
    text = "".join(f"{line}\n" for line in cdm_draft.draft(None, lists).splitlines() if "review: true" not in line)
    text = text.replace("declared_by:", "declared_by: recipes/omop_queries.py").replace(
        "units: learn", f"units: {people}"
    )
    last = datetime.now(tz=UTC).year - 1
    text = text.replace(f"[{last - 9}-01-01, {last}-12-31]", "[2021-01-01, 2024-12-31]").replace(
        "max_rows: 10", "max_rows: 6"
    )
    text = text.replace("bounds: [0, 365]", "bounds: [0, 60]").replace("31, 91]", "31]")
    (folder / "schema.yaml").write_text(text, encoding="utf-8")
    return Schema.load(folder / "schema.yaml")


def run(folder: Path, schema: Schema, frames: Any, epsilon: float, seed: int, people: int) -> dict[str, Any]:
    """One fit, and what the queries come to on a CDM that is drawn from it."""
    start = time.process_time()
    release = Synthesizer("histories", schema=schema, budget=Budget(epsilon, DELTA)).fit(frames, seed=seed)
    fitted = time.process_time() - start
    out = folder / f"synthetic{epsilon:g}{seed}"
    told = cdm_files.Told(name="made up", guarantee=f"epsilon {epsilon:g}", day=datetime.now(tz=UTC).date())
    gendered = quality_checks.gendered(str(folder / "vocabulary"))
    cdm_files.write(release.stream_tables(people, seed=seed), schema, f"{out}/*.parquet", told, gendered)
    checks = quality_checks.checked(str(out), str(folder / "vocabulary"))
    return {
        "epsilon": epsilon,
        "seed": seed,
        "fit_cpu_seconds": fitted,
        "failed": [f"{each.name} of {each.where}" for each in checks if each.status == "failed"],
        "passed": sum(each.status == "passed" for each in checks),
        "answers": answers(out, folder / "vocabulary"),
    }


def text(result: dict[str, Any]) -> str:
    """The page."""
    runs, epsilons = result["runs"], sorted({each["epsilon"] for each in result["runs"]})
    head = f"| query | hospital | another | {' | '.join(f'epsilon {each:g}' for each in epsilons)} |"
    lines = [
        "# Ten queries of a cohort study on a CDM and on synthetic ones",
        "",
        f"`recipes/omop_queries.py` wrote this at commit {result['provenance']['commit']}. {result['people']:,} made-up people, delta "
        f"{DELTA:g}, generator `histories` at its defaults, seeds {', '.join(map(str, result['seeds']))}. *Another* is a "
        "hospital that was made up from another seed. Synthetic answers: mean and standard deviation over the seeds.",
        "",
        head,
        "|---" * (3 + len(epsilons)) + "|",
    ]
    for name in QUERIES:
        cells = [f"{result['hospital'][name]:.3g}", f"{result['another'][name]:.3g}"]
        for epsilon in epsilons:
            found = spread([each["answers"][name] for each in runs if each["epsilon"] == epsilon])
            cells.append(f"{found['mean']:.3g} ± {found['sd']:.2g}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    failed = sorted({each for run in runs for each in run["failed"]})
    cpu = spread([each["fit_cpu_seconds"] for each in runs])
    lines += [
        "",
        f"Checks of the DataQualityDashboard that failed on a synthetic CDM: {', '.join(failed) or 'none'}. A fit took "
        f"{cpu['mean']:.0f} CPU seconds.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_up_omop.write(made_up_omop.vocabulary(), folder / "vocabulary", separator="\t")
        schema = schema_of(folder, folder / "vocabulary", given.people)
        own, another = (hospital(folder, given.people, seed) for seed in (101, 102))
        frames = cdm_tables.read(str(own), schema)
        result: dict[str, Any] = {
            "provenance": provenance(),
            "people": given.people,
            "delta": DELTA,
            "seeds": list(given.seeds),
        }
        result |= {"hospital": answers(own, folder / "vocabulary"), "another": answers(another, folder / "vocabulary")}
        result["runs"] = []
        for epsilon in EPSILONS:
            for seed in given.seeds:
                result["runs"].append(run(folder, schema, frames, epsilon, seed, given.people))
                print(json.dumps(result["runs"][-1]), flush=True)
    write("omop_queries", result, text(result))


if __name__ == "__main__":
    main()
