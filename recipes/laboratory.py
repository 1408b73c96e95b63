"""What synthetic laboratory values keep: rows below visits, of many tests on scales of their own, from visit to visit.

`histories` with its defaults on made-up laboratories, beside another one that is made up in the same way from another seed. Made-up
laboratories of the same kind, of other tests, were looked at while levels of numbers were developed. Run:
OMP_NUM_THREADS=1 python recipes/laboratory.py (no data needed; about fifteen minutes of CPU).
"""

import time
from typing import Any

import numpy as np
import pandas as pd
from record import provenance, spread, write

from synthdp import Budget, Schema, Synthesizer

DELTA, SEEDS = 1e-5, (0, 1, 2)
FACTS = 2031  # none of the hospitals that the generator was developed on
FITS = ((5_000, 1.0), (5_000, 3.0), (5_000, 10.0), (20_000, 1.0))  # people, epsilon
TESTS, WARDS = 20, ("icu", "medicine", "surgery", "psychiatry")
FIGURES = {
    "last": "value and the person's last one of that test",
    "age": "value and age",
    "sex": "value and sex",
    "icu": "value and intensive care",
    "flag": "value and flag",
}


def hospital(people: int, seed: int) -> dict[str, pd.DataFrame]:
    """People, visits and results. A result follows the person, and the last result the more the sooner it comes after it."""
    facts, rng = np.random.default_rng(FACTS), np.random.default_rng(seed)
    middle, width = np.exp(facts.uniform(np.log(0.5), np.log(400), TESTS)), facts.uniform(0.08, 0.6, TESTS)
    stays, age_tells, sex_tells, sick_tells = (facts.normal(mean, 0.3, TESTS) for mean in (0.6, 0, 0, 0))
    asked = facts.uniform(0.03, 0.6, TESTS)
    persons, visits, results = [], [], []
    for person in range(people):
        name, sex, age = f"P{person}", int(rng.integers(2)), int(rng.integers(18, 96))
        persons.append((name, "mf"[sex], age))
        state, day = rng.normal(size=TESTS), pd.Timestamp("2022-01-01") + pd.Timedelta(days=int(rng.integers(600)))
        for number in range(1 + min(7, rng.poisson(1.5))):
            if number:
                gap = int(rng.choice([1, 3, 14, 60]))
                day, kept = day + pd.Timedelta(days=gap), np.clip(stays, 0.1, 0.95) ** (1 + gap / 60)
                state = kept * state + np.sqrt(1 - kept**2) * rng.normal(size=TESTS)
            ward = str(rng.choice(WARDS, p=(0.15, 0.45, 0.3, 0.1)))
            visits.append((name, f"{name}-{number}", day, ward))
            found = state + age_tells * (age - 57) / 22 + sex_tells * (sex - 0.5) * 2 + sick_tells * 2 * (ward == "icu")
            for test in [each for each in rng.permutation(TESTS) if rng.random() < asked[each]][:8]:
                value = float(f"{min(2000.0, middle[test] * np.exp(width[test] * found[test])):.3g}")
                flag = "H" if found[test] > 1.4 else "L" if found[test] < -1.4 else "N"
                results.append((f"{name}-{number}", f"T{test:02d}", value, flag))
    return {
        "person": pd.DataFrame(persons, columns=["person_id", "sex", "age"]),
        "visit": pd.DataFrame(visits, columns=["person_id", "visit_id", "day", "ward"]),
        "result": pd.DataFrame(results, columns=["visit_id", "test", "value", "flag"]),
    }


def schema(people: int) -> Schema:
    """As somebody would declare it who knows that values lie between 0.1 and 2,000."""
    bins = [float(f"{edge:.2g}") for edge in np.geomspace(0.15, 1800, 48)]
    result = {
        "test": {"kind": "categorical", "categories": [f"T{test:02d}" for test in range(TESTS)]},
        "value": {"kind": "continuous", "bounds": [0, 2000], "bins": bins},
        "flag": {"kind": "categorical", "categories": ["L", "N", "H"]},
    }
    visit = {
        "day": {"kind": "datetime", "bounds": ["2022-01-01", "2025-12-31"], "resolution": "day", "bins": 16},
        "ward": {"kind": "categorical", "categories": list(WARDS)},
    }
    person = {
        "sex": {"kind": "categorical", "categories": ["f", "m"]},
        "age": {"kind": "integer", "bounds": [18, 96], "bins": 12},
    }
    tables = {
        "person": {"key": "person_id", "columns": person},
        "visit": {"parent": "person", "key": "visit_id", "order": "day", "max_rows": 6, "columns": visit},
        "result": {"parent": "visit", "max_rows": 8, "columns": result},
    }
    return Schema.from_dict({"declared_by": "made up", "unit": "person_id", "units": people, "tables": tables})


def relations(tables: dict[str, pd.DataFrame]) -> dict[tuple[str, str], float]:
    """(test, figure) -> Spearman's correlation, 0 where one of both is constant; of tests with few results none."""
    rows = tables["result"].merge(tables["visit"], on="visit_id").merge(tables["person"], on="person_id")
    rows, found = rows.sort_values(["person_id", "day", "visit_id"], kind="stable"), {}
    rows = rows.assign(
        male=rows.sex == "m", icu=rows.ward == "icu", high=rows.flag.map({"L": 0, "N": 1, "H": 2}).astype(float),
        last=rows.groupby(["person_id", "test"]).value.shift(1),
    )  # fmt: skip
    for test, part in rows.groupby("test"):
        for figure, other in {"last": "last", "age": "age", "sex": "male", "icu": "icu", "flag": "high"}.items():
            pairs = part[["value", other]].astype(float).dropna()
            if len(pairs) > 50:
                found[str(test), figure] = float(np.nan_to_num(pairs.corr(method="spearman").iloc[0, 1]))
    return found


def quantiles(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Logarithms of a tenth, a half and nine tenths of each test's values."""
    return np.log(tables["result"].groupby("test").value.quantile([0.1, 0.5, 0.9]))


def compared(found: dict[str, pd.DataFrame], real: dict[str, pd.DataFrame]) -> dict[str, float]:
    """Mean differences over tests: of correlations, of logarithms of quantiles; and half the L1 distance of the tests' shares."""
    made, wanted = relations(found), relations(real)
    off = {
        figure: float(np.mean([abs(made.get(key, 0.0) - value) for key, value in wanted.items() if key[1] == figure]))
        for figure in FIGURES
    }
    one, other = (each["result"].test.value_counts(normalize=True) for each in (found, real))
    apart = {
        "quantiles": float((quantiles(found) - quantiles(real)).abs().mean()),
        "tests": float(one.sub(other, fill_value=0).abs().sum() / 2),
    }
    return {**off, **apart}


def binned(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """The real tables, in which values of the same test and bin are dealt anew: what the declared bins leave."""
    rows, edges = tables["result"], next(column for column in schema(1).columns if column.name == "result.value 1").bins
    rng = np.random.default_rng(0)
    dealt = rows.groupby(["test", np.digitize(rows["value"], edges)])["value"].transform(
        lambda each: rng.permutation(each.to_numpy())
    )
    return {**tables, "result": rows.assign(value=dealt)}


def main() -> None:
    """Run all fits and write the report."""
    rows: list[dict[str, Any]] = []
    for people, epsilon in FITS:
        real = hospital(people, seed=people)
        runs = []
        for seed in SEEDS:
            start = time.process_time()
            release = Synthesizer("histories", schema=schema(people), budget=Budget(epsilon, DELTA)).fit(
                real, seed=seed
            )
            cpu = time.process_time() - start
            runs.append({**compared(release.sample_tables(people, seed=seed), real), "cpu": cpu})
            print(people, epsilon, seed, {name: round(value, 3) for name, value in runs[-1].items()}, flush=True)
        size = {
            figure: float(np.mean([abs(value) for key, value in relations(real).items() if key[1] == figure]))
            for figure in FIGURES
        }
        another = compared(hospital(people, seed=people + 1), real)
        found = {name: spread([run[name] for run in runs]) for name in runs[0]}
        rows.append(
            {
                "people": people,
                "epsilon": epsilon,
                "size": size,
                "another": another,
                "binned": compared(binned(real), real),
                "found": found,
                "runs": runs,
            }
        )
    result = {"delta": DELTA, "tests": TESTS, "rows": rows, **provenance()}
    write("laboratory", result, page(result))


def page(result: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [
        "# Laboratory values below visits",
        "",
        f"A made-up hospital: people, up to eight visits each, up to eight results per visit, of {result['tests']} tests. Each test has a "
        "scale of its own between 0.1 and 2,000, in one column with 49 declared bins. A result follows the person's last one of that test, "
        f"age, sex and intensive care; a flag follows the result. `histories` with its defaults, delta {result['delta']:g} per person. "
        "Figures are means over tests of the absolute difference from the real tables: of Spearman's correlations, and of the logarithms "
        "of a tenth, a half and nine tenths of a test's values (0.1 is about 10 %). *Size* is how large these correlations are: an error "
        "of that size means that nothing is kept. *Another* is a second hospital made up in the same way. *Bins* are the real tables, in "
        "which values of the same test and bin were dealt anew: a narrow test has few of the declared bins, and nothing is learned within "
        "one. Mean ± standard deviation "
        f"over {len(SEEDS)} seeds of the fit. Hospitals of this kind, of other tests, were looked at while the generator was developed.",
        "",
        f"| people | epsilon | | {' | '.join(FIGURES.values())} | quantiles by test | shares of tests | CPU seconds |",
        "|---|---|---|" + "---|" * (len(FIGURES) + 3),
    ]
    for row in result["rows"]:
        names = [*FIGURES, "quantiles", "tests"]
        held = [f"{row['found'][name]['mean']:.3f} ± {row['found'][name]['sd']:.3f}" for name in names]
        seconds = row["found"]["cpu"]
        seconds = f"{seconds['mean']:.0f} ± {seconds['sd']:.0f}"
        another, in_bins = ([f"{row[of][name]:.3f}" for name in names] for of in ("another", "binned"))
        size = [f"{row['size'][name]:.3f}" for name in FIGURES]
        people = f"| {row['people']:,} |"
        lines.append(f"{people} {row['epsilon']:g} | synthetic | {' | '.join(held)} | {seconds} |")
        lines.append(f"{people} | another | {' | '.join(another)} | - |")
        lines.append(f"{people} | bins | {' | '.join(in_bins)} | - |")
        lines.append(f"{people} | size | {' | '.join(size)} | - | - | - |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
