"""Queries of an ordinary cohort study, run unchanged on the made-up hospital's CDM and on synthetic ones: ten, three rates over time,
and single tables, transitions and prevalences by age and sex as an epidemiologist counts them.

    python recipes/omop_queries.py

Writes reports/omop_queries.{json,md}. The hospital is that of made_up_omop.py, with its vocabulary; the schema is the draft of
`synthdp schema data.format=omop`, whose questions are answered by what the recipe itself made up. Beside the synthetic CDMs stands another
hospital, made up from another seed: what the queries differ by where nothing but chance does. Settings of the generator are its defaults.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import made_up_omop
from record import provenance, spread, write

from synthdp import Budget, Schema, Synthesizer
from synthdp.omop import cdm, cdm_draft, cdm_files, cdm_tables, quality_checks

DELTA, PEOPLE, EPSILONS, SEEDS = 1e-6, 10_000, (1.0, 3.0), (1, 2, 3)
CONCEPTS = {
    "diabetes": made_up_omop.DIABETES,
    "heart": made_up_omop.HEART,
    "pregnancy": made_up_omop.OF_WOMEN,
    "metformin": made_up_omop.METFORMIN,
    "insulin": made_up_omop.INSULIN,
}
EVER = {
    "diabetes": made_up_omop.DIABETES,
    "heart disease": made_up_omop.HEART,
    "open wound": made_up_omop.WOUND,
    "lung disease": made_up_omop.LUNG,
}
BELOW = "(SELECT descendant_concept_id FROM concept_ancestor WHERE ancestor_concept_id = {})"
FIRST = "(SELECT person_id, min(condition_start_date) AS day FROM condition_occurrence WHERE condition_concept_id IN {} GROUP BY person_id)"
# Kaplan & Meier 1958: the share to whom it has happened within a year, of rows of `days` and `event` (0: nobody knows what came after).
WITHIN_A_YEAR = """
    WITH each AS (SELECT days, sum(event) AS happened, count(*) AS left_by FROM ({}) GROUP BY days),
    at_risk AS (SELECT days, happened / sum(left_by) OVER (ORDER BY days DESC) AS share FROM each)
    SELECT 1 - exp(sum(ln(greatest(1 - share, 1e-9)))) FROM at_risk WHERE days <= 365"""
LAST_DAY = "(SELECT max(visit_end_date) FROM visit_occurrence)"
FIRST_VISIT = "(SELECT person_id, min(visit_start_date) AS day FROM visit_occurrence GROUP BY person_id)"
TABLES = {
    "sex": "SELECT gender_concept_id, count(*) FROM person GROUP BY ALL",
    "decade of birth": "SELECT year_of_birth // 10, count(*) FROM person GROUP BY ALL",
    "visits of a person": """
        SELECT visits, count(*) FROM (SELECT count(visit_occurrence_id) AS visits FROM person LEFT JOIN visit_occurrence
        USING (person_id) GROUP BY person_id) GROUP BY ALL""",
    "kind of visit": "SELECT visit_concept_id, count(*) FROM visit_occurrence GROUP BY ALL",
    "days of a visit": "SELECT visit_end_date - visit_start_date, count(*) FROM visit_occurrence GROUP BY ALL",
    "kind of visit, and of the one before": """
        SELECT kind, previous, count(*) FROM (SELECT visit_concept_id AS kind, lag(visit_concept_id) OVER (PARTITION BY person_id
        ORDER BY visit_start_date, visit_occurrence_id) AS previous FROM visit_occurrence) WHERE previous IS NOT NULL GROUP BY ALL""",
    "conditions of a visit": """
        SELECT conditions, count(*) FROM (SELECT count(condition_occurrence_id) AS conditions FROM visit_occurrence LEFT JOIN
        condition_occurrence USING (visit_occurrence_id) GROUP BY visit_occurrence_id) GROUP BY ALL""",
    "condition": "SELECT condition_concept_id, count(*) FROM condition_occurrence GROUP BY ALL",
    "drugs of a visit": """
        SELECT drugs, count(*) FROM (SELECT count(drug_exposure_id) AS drugs FROM visit_occurrence LEFT JOIN drug_exposure
        USING (visit_occurrence_id) GROUP BY visit_occurrence_id) GROUP BY ALL""",
    "drug": "SELECT drug_concept_id, count(*) FROM drug_exposure GROUP BY ALL",
    "drug, and condition of the same visit": """
        SELECT drug_concept_id, condition_concept_id, count(*) FROM drug_exposure JOIN condition_occurrence
        USING (visit_occurrence_id) GROUP BY ALL""",
}
BY_AGE_AND_SEX = f"""
    SELECT year_of_birth // 10, gender_concept_id, avg((day IS NOT NULL)::INT), count(*) FROM person LEFT JOIN {FIRST} USING (person_id)
    GROUP BY 1, 2"""


def cohort(concepts: Mapping[str, int]) -> dict[str, str]:
    """The ten queries, and below them what an epidemiologist counts over time."""
    below = {name: BELOW.format(number) for name, number in concepts.items()}
    diabetic, heart_patients = FIRST.format(below["diabetes"]), FIRST.format(below["heart"])
    young_women = "gender_concept_id = 8532 AND year_of_birth > 1976"
    return {
        "visits per person": "SELECT (SELECT count(*) FROM visit_occurrence) / (SELECT count(*) FROM person)",
        "mean days of an inpatient visit": """
            SELECT avg(visit_end_date - visit_start_date) FROM visit_occurrence WHERE visit_concept_id IN (262, 9201)""",
        "share of visits by way of the emergency room": """
            SELECT avg((visit_concept_id IN (262, 9203))::INT) FROM visit_occurrence""",
        "prevalence of diabetes, ever": f"""
            SELECT (SELECT count(*) FROM {diabetic}) / (SELECT count(*) FROM person)""",
        "prevalence of diabetes, ever, among people born before 1955": f"""
            SELECT avg((day IS NOT NULL)::INT) FROM person LEFT JOIN {diabetic} USING (person_id) WHERE year_of_birth < 1955""",
        "share of women among people with heart disease": f"""
            SELECT avg((gender_concept_id = 8532)::INT) FROM {heart_patients} JOIN person USING (person_id)""",
        "women with a pregnancy per 100 born after 1976": f"""
            SELECT 100 * (SELECT count(DISTINCT person_id) FROM condition_occurrence JOIN person USING (person_id)
            WHERE condition_concept_id IN {below["pregnancy"]} AND {young_women})
            / (SELECT count(*) FROM person WHERE {young_women})""",
        "share with metformin on or after a first diabetes": f"""
            SELECT avg((later > 0)::INT) FROM (SELECT f.person_id, count(d.drug_exposure_id) AS later FROM {diabetic} AS f LEFT JOIN
            drug_exposure AS d ON d.person_id = f.person_id AND d.drug_exposure_start_date >= f.day
            AND d.drug_concept_id IN {below["metformin"]} GROUP BY f.person_id)""",
        "median days from a first diabetes to insulin": f"""
            SELECT median(days) FROM (SELECT min(drug_exposure_start_date) - min(day) AS days FROM {diabetic} JOIN drug_exposure
            USING (person_id) WHERE drug_concept_id IN {below["insulin"]} AND drug_exposure_start_date >= day
            GROUP BY person_id)""",
        "deaths within a year of a first heart disease, share": f"""
            SELECT avg((coalesce(death_date, DATE '9999-01-01') <= day + 365)::INT) FROM {heart_patients}
            LEFT JOIN death USING (person_id)""",
        "first diabetes per 1,000 person-years after a first visit without": f"""
            SELECT 365250 * sum((day IS NOT NULL)::INT) / sum(coalesce(day, observation_period_end_date) - observation_period_start_date)
            FROM observation_period LEFT JOIN {diabetic} USING (person_id) WHERE coalesce(day > observation_period_start_date, true)""",
        "second visit within a year of the first (Kaplan-Meier)": WITHIN_A_YEAR.format(f"""
            SELECT coalesce(second, {LAST_DAY}) - first AS days, (second IS NOT NULL)::INT AS event FROM (SELECT person_id,
            min(CASE place WHEN 1 THEN visit_start_date END) AS first, min(CASE place WHEN 2 THEN visit_start_date END) AS second
            FROM (SELECT *, row_number() OVER (PARTITION BY person_id ORDER BY visit_start_date, visit_occurrence_id) AS place
            FROM visit_occurrence) GROUP BY person_id)"""),
        "death within a year of the first visit (Kaplan-Meier)": WITHIN_A_YEAR.format(f"""
            SELECT coalesce(death_date, {LAST_DAY}) - day AS days, (death_date IS NOT NULL)::INT AS event
            FROM {FIRST_VISIT} LEFT JOIN death USING (person_id)"""),
    }


@dataclass(frozen=True)
class Found:
    """What a CDM says: the answer to each query; the number of rows of each table by their contents; for each condition, by decade of
    birth and sex, the share of people who ever had it, and the number of people in that group."""

    queries: dict[str, float]
    tables: dict[str, dict[Any, float]]
    ever: dict[str, dict[Any, tuple[float, int]]]


def found(folder: Path, vocabulary: Path, concepts: Mapping[str, int], ever: Mapping[str, int]) -> Found:
    """By the Parquet files of a CDM."""
    with duckdb.connect() as connection:
        for name in cdm.RECORDS:
            if not (folder / f"{name}.parquet").exists():
                continue
            dates = [each.name for each in cdm.tables()[name] if each.type == "date"]
            cast = ", ".join(f"CAST({each} AS DATE) AS {each}" for each in dates)
            star = f"* REPLACE ({cast})" if dates else "*"
            connection.execute(f"CREATE VIEW {name} AS SELECT {star} FROM read_parquet('{folder / name}.parquet')")
        connection.execute(
            f"CREATE VIEW concept_ancestor AS SELECT * FROM read_csv('{vocabulary / 'concept_ancestor.csv'}')"
        )
        told = lambda query: connection.execute(query).fetchall()  # noqa: E731
        return Found(
            {name: float(told(query)[0][0] or 0) for name, query in cohort(concepts).items()},
            {name: {row[:-1]: float(row[-1]) for row in told(query)} for name, query in TABLES.items()},
            {
                name: {row[:2]: row[2:] for row in told(BY_AGE_AND_SEX.format(BELOW.format(number)))}
                for name, number in ever.items()
            },
        )


def compared(own: Found, other: Found) -> dict[str, dict[str, float]]:
    """The other's answers; total variation distances of its tables; and by how much its prevalences by age and sex differ, over the own
    people."""
    result: dict[str, dict[str, float]] = {"queries": other.queries, "tables": {}, "ever": {}}
    for name, rows in own.tables.items():
        sums = [max(1.0, sum(each.values())) for each in (rows, other.tables[name])]
        result["tables"][name] = 0.5 * sum(
            abs(rows.get(key, 0.0) / sums[0] - other.tables[name].get(key, 0.0) / sums[1])
            for key in {*rows, *other.tables[name]}
        )
    for name, cells in own.ever.items():
        people = sum(count for _, count in cells.values())
        apart = (count * abs(share - other.ever[name].get(key, (0.0, 0))[0]) for key, (share, count) in cells.items())
        result["ever"][name] = sum(apart) / people
    return result


def hospital(folder: Path, people: int, seed: int) -> Path:
    """A CDM in Parquet."""
    made = made_up_omop.tables(people, seed)
    fields = lambda name: (each.name for each in cdm.tables()[name])  # noqa: E731
    made_up_omop.write(made_up_omop.whole(made, fields), folder / f"hospital{seed}", ".parquet")
    return folder / f"hospital{seed}"


def schema_of(folder: Path, own: Path | None, declared_by: str, answered: Mapping[str, str]) -> Schema:
    """The draft with its questions answered: texts that stand in it, and what is said instead."""
    lists = cdm_draft.concept_lists(str(folder / "vocabulary"), folder / "schema.concepts")
    drafted = cdm_draft.draft(None if own is None else str(own), lists)
    text = "".join(f"{line}\n" for line in drafted.splitlines() if "review: true" not in line)
    last = datetime.now(tz=UTC).year - 1
    years = f"[{last - 9}-01-01, {last}-12-31]"
    for asked, answer in {"declared_by:": f"declared_by: {declared_by}", **answered}.items():
        text = text.replace(years if asked == "years" else asked, answer)
    (folder / "schema.yaml").write_text(text, encoding="utf-8")
    return Schema.load(folder / "schema.yaml")


def run(
    folder: Path, schema: Schema, frames: Any, epsilon: float, seed: int, name: str, look: Callable[[Path], Found]
) -> tuple[dict[str, Any], Found]:
    """One fit, and what a CDM of as many people says that is drawn from it."""
    people, start = len(frames["person"]), time.process_time()
    release = Synthesizer("histories", schema=schema, budget=Budget(epsilon, DELTA)).fit(frames, seed=seed)
    fitted = time.process_time() - start
    out = folder / f"synthetic{epsilon:g}-{seed}"
    told = cdm_files.Told(name=name, guarantee=f"epsilon {epsilon:g}", day=datetime.now(tz=UTC).date())
    gendered = quality_checks.gendered(str(folder / "vocabulary"))
    cdm_files.write(release.stream_tables(people, seed=seed), schema, f"{out}/*.parquet", told, gendered)
    sampled = time.process_time() - start - fitted
    checks = quality_checks.checked(str(out), str(folder / "vocabulary"))
    return {
        "epsilon": epsilon,
        "seed": seed,
        "fit_cpu_seconds": fitted,
        "sample_cpu_seconds": sampled,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "failed": [f"{each.name} of {each.where}" for each in checks if each.status == "failed"],
        "passed": sum(each.status == "passed" for each in checks),
    }, look(out)


def runs(
    folder: Path,
    schema: Schema,
    frames: Any,
    seeds: Sequence[int],
    name: str,
    look: Callable[[Path], Found],
    own: Found,
) -> list[dict[str, Any]]:
    """A fit for each epsilon and seed, beside the hospital's own answers."""
    made = []
    for epsilon in EPSILONS:
        for seed in seeds:
            told, other = run(folder, schema, frames, epsilon, seed, name, look)
            made.append(told | compared(own, other))
            print(json.dumps(made[-1]), flush=True)
    return made


KINDS = {
    "tables": ("distance of", "Total variation distances of the synthetic tables' rows from the hospital's."),
    "ever": (
        "ever",
        "Mean absolute difference in lifetime prevalence over decades of birth and sexes, weighted by the hospital's people.",
    ),
}


def text(result: dict[str, Any], title: str, about: str) -> str:
    """The page."""
    made, epsilons = result["runs"], sorted({each["epsilon"] for each in result["runs"]})
    beside = " | ".join(f"epsilon {each:g}" for each in epsilons)
    lines = [f"# {title}", "", about, ""]

    def row(kind: str, name: str) -> str:
        cells = [f"{result['other'][kind][name]:.3g}"]
        for epsilon in epsilons:
            told = spread([each[kind][name] for each in made if each["epsilon"] == epsilon])
            cells.append(f"{told['mean']:.3g} ± {told['sd']:.2g}")
        return " | ".join(cells)

    lines += [f"| query | hospital | {result['beside']} | {beside} |", "|---" * (3 + len(epsilons)) + "|"]
    lines += [f"| {name} | {value:.3g} | {row('queries', name)} |" for name, value in result["hospital"].items()]
    for kind, (what, said) in KINDS.items():
        lines += ["", said, "", f"| {what} | {result['beside']} | {beside} |", "|---" * (2 + len(epsilons)) + "|"]
        lines += [f"| {name} | {row(kind, name)} |" for name in result["other"][kind]]
    failed = sorted({each for run in made for each in run["failed"]})
    cpu, drawn = (max(each[f"{name}_cpu_seconds"] for each in made) for name in ("fit", "sample"))
    lines += [
        "",
        f"Checks of the DataQualityDashboard that failed on a synthetic CDM: {', '.join(failed) or 'none'}. A fit took at most "
        f"{cpu:.0f} CPU seconds and a sample of as many people {drawn:.0f}; the whole recipe held at most "
        f"{max(each['peak_gib'] for each in made):.1f} GiB.",
        "",
    ]
    if large := result.get("large"):
        lines += [
            "## A million people" if large["people"] == 1_000_000 else f"## {large['people']:,} people",
            "",
            f"One fit by the command line at epsilon 1, of {large['people']:,} made-up people in a DuckDB file: "
            f"{large['fit_cpu_seconds']:.0f} CPU seconds ({large['fit_seconds'] / 60:.0f} minutes, beside other work), and at most "
            f"{large['peak_gib']:.2f} GiB of memory. A sample of as many people took {large['sample_cpu_seconds']:.0f} CPU seconds.",
            "",
        ]
    return "\n".join(lines)


def scaled(folder: Path, people: int, answered: Mapping[str, str]) -> dict[str, Any]:
    """What one fit of so many people in a DuckDB file costs, by the command line, and a sample of as many."""
    with duckdb.connect(str(folder / "large.duckdb")) as connection:
        for path in hospital(folder, people, 103).iterdir():
            connection.execute(f"CREATE TABLE {path.stem} AS SELECT * FROM read_parquet('{path}')")
    schema_of(folder, None, "recipes/omop_queries.py", {**answered, "units: learn": f"units: {people}"})
    fit = [
        "data.format=omop",
        "data.path=large.duckdb",
        "data.schema=schema.yaml",
        "generator=histories",
        "account=none",
    ]
    fit += ["budget.epsilon=1", f"budget.delta={DELTA:g}", "seed=1", "out=large"]
    found: dict[str, Any] = {"people": people}
    words = {
        "fit": fit,
        "sample": ["release=large/release", f"rows={people}", "format=omop", "seed=1", "out=drawn/*.parquet"],
    }
    for name, options in words.items():
        start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "synthdp", name, *options], cwd=folder, check=True)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        found[f"{name}_seconds"] = time.perf_counter() - start
        found[f"{name}_cpu_seconds"] = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        found.setdefault("peak_gib", now.ru_maxrss / 2**20)  # of the fit, which is the first child
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument(
        "--large", type=int, default=1_000_000, help="people of the fit whose cost is measured; 0: none"
    )
    given = parser.parse_args()
    answered = {
        "units: learn": f"units: {given.people}",
        "years": "[2021-01-01, 2024-12-31]",
        "max_rows: 10": "max_rows: 6",
        "bounds: [0, 365]": "bounds: [0, 60]",
        "31, 91]": "31]",
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vocabulary = folder / "vocabulary"
        made_up_omop.write(made_up_omop.vocabulary(), vocabulary, separator="\t")
        schema = schema_of(folder, None, "recipes/omop_queries.py", answered)
        own, another = (hospital(folder, given.people, seed) for seed in (101, 102))
        look = lambda out: found(out, vocabulary, CONCEPTS, EVER)  # noqa: E731
        truth = look(own)
        result: dict[str, Any] = {
            "provenance": provenance(),
            "people": given.people,
            "delta": DELTA,
            "seeds": list(given.seeds),
            "beside": "another",
            "hospital": truth.queries,
            "other": compared(truth, look(another)),
            "runs": runs(folder, schema, cdm_tables.read(str(own), schema), given.seeds, "made up", look, truth),
            # Last, since the peak of the runs is that of the process, and making so many people up takes memory, too.
            "large": scaled(folder, given.large, answered) if given.large else None,
        }
    about = (
        f"`recipes/omop_queries.py` wrote this at commit {result['provenance']['commit']}. {given.people:,} made-up people, delta "
        f"{DELTA:g}, generator `histories` at its defaults, seeds {', '.join(map(str, given.seeds))}. *Another* is a hospital that was "
        "made up from another seed. Synthetic answers: mean and standard deviation over the seeds. The last three queries are rates. "
        "Used in choosing: how strong relations within a visit may be was tried on another draw of this hospital; trends along age were "
        "added because these figures showed a loss, developed on random hospitals, and checked on another draw. That the draft's bins "
        "of days were too wide was seen here. Tables of what comes again, and of numbers of rows by sex and age, were added because of "
        "what another draw lost."
    )
    write("omop_queries", result, text(result, "Queries of a cohort study on a CDM and on synthetic ones", about))


if __name__ == "__main__":
    main()
