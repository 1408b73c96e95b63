"""UCI Adult, DP-GAN against its floor, real rows as the ceiling: train on synthetic, test on real.

    SYNTHDP_DATA=/path/to/data python recipes/adult_dpgan.py

Writes reports/adult_dpgan.{json,md}. About half an hour on two cores.
"""

import argparse
import time
from typing import Any

from record import provenance, spread, write

from synthdp import Budget, Synthesizer
from synthdp.evaluate import evaluate
from synthdp.sets import named

DELTA = 1e-5
MODELS = ("hgb", "lr", "rf")
METRICS = ("auroc", "auprc", "accuracy")
DISTANCES = ("tvd_1way", "tvd_2way", "tvd_3way")
LABEL = {"start": "label"}
TABLES_ONLY: dict[str, Any] = {**LABEL, "tables": 0.99, "steps": 1}
RUNS: tuple[tuple[str, str, float, dict[str, Any]], ...] = (
    ("dpgan from label x column", "dpgan", 1.0, LABEL),
    ("dpgan from label x column", "dpgan", 3.0, LABEL),
    ("these tables alone, no adversary", "dpgan", 1.0, TABLES_ONLY),
    ("these tables alone, no adversary", "dpgan", 3.0, TABLES_ONLY),
    ("dpgan from one-way tables", "dpgan", 1.0, {"start": "columns"}),
    ("dpgan without tables", "dpgan", 1.0, {"start": "none", "generator_rate": 2e-3}),
    ("independent", "independent", 1.0, {}),
)


def one(chosen: named.Named, generator: str, epsilon: float, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """One fit and its judgement; the evaluation's own seeds are one, the spread is over fits."""
    start = time.perf_counter()
    cpu = time.process_time()
    budget = Budget(epsilon, DELTA)
    release = Synthesizer(generator, schema=chosen.schema, budget=budget, **settings).fit(chosen.train, seed=seed)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    frame = release.sample(len(chosen.train), seed=seed)
    judged = evaluate(frame, chosen.train, chosen.test, chosen.schema, models=MODELS, seeds=1)
    scores = judged["targets"][chosen.schema.targets[0]]
    figures = {
        metric: sum(scores["tstr"][model][metric]["mean"] for model in MODELS) / len(MODELS) for metric in METRICS
    }
    ceiling = {
        metric: sum(scores["trtr"][model][metric]["mean"] for model in MODELS) / len(MODELS) for metric in METRICS
    }
    per_model = {model: scores["tstr"][model]["auroc"]["mean"] for model in MODELS}
    distances = {name: judged["fidelity"][name]["mean"] for name in DISTANCES if name in judged["fidelity"]}
    return {
        "seed": seed,
        "epsilon": release.statement.epsilon,
        "fit_seconds": seconds,
        "fit_cpu_seconds": cpu_seconds,
        "auroc_by_model": per_model,
        "ceiling": ceiling,
        **figures,
        **distances,
    }


def main() -> None:
    """Run all and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    origin = provenance()  # of the code that runs, not of what is there when it ends
    chosen = named.load("adult")
    rows = []
    for label, generator, epsilon, settings in RUNS:
        runs = []
        for seed in range(arguments.seeds):
            runs.append(one(chosen, generator, epsilon, seed, settings))
            print(
                generator, epsilon, {name: value for name, value in runs[-1].items() if name != "ceiling"}, flush=True
            )
        figures = [*METRICS, *(name for name in DISTANCES if name in runs[0]), "fit_seconds", "fit_cpu_seconds"]
        rows.append(
            {
                "generator": label,
                "settings": settings,
                "epsilon": epsilon,
                "delta": DELTA,
                "seeds": list(range(arguments.seeds)),
                **{name: spread([run[name] for run in runs]) for name in figures},
                "runs": runs,
            }
        )
    ceiling = rows[0]["runs"][0]["ceiling"]
    result = {"data": "adult", "models": list(MODELS), "ceiling": ceiling, "rows": rows, **origin}
    write("adult_dpgan", result, page(result))


def page(result: dict[str, Any]) -> str:
    """The table as Markdown."""
    lines = [
        "# UCI Adult: DP-GAN",
        "",
        f"Train on synthetic, test on the 16,281 real test rows; mean over {', '.join(result['models'])}. Total variation "
        "distance (TVD) against the 32,561 training rows. Mean ± standard deviation over the seeds of the fit. Written by "
        "`recipes/adult_dpgan.py`.",
        "",
        "| generator | epsilon | AUROC | AUPRC | accuracy | 1-way TVD | 2-way TVD | fit, seconds | seeds |",
        "|---|---|---|---|---|---|---|---|---|",
        "| real training rows | - | {auroc:.3f} | {auprc:.3f} | {accuracy:.3f} | 0 | 0 | - | - |".format(
            **result["ceiling"]
        ),
    ]
    for row in result["rows"]:
        cells = [
            shown(row[name], 4 if name.startswith("tvd") else 3)
            for name in ("auroc", "auprc", "accuracy", "tvd_1way", "tvd_2way")
        ]
        seconds = shown(row["fit_seconds"], 0)
        lines.append(
            f"| {row['generator']} | {row['epsilon']:g} | {' | '.join(cells)} | {seconds} | {len(row['seeds'])} |"
        )
    machine = f"{result['processor']}, {result['cores']} cores; commit {result['commit']}"
    return "\n".join([*lines, "", f"delta {DELTA:g}; unit: one record; {machine}.", ""])


def shown(figure: dict[str, Any], digits: int) -> str:
    """Mean ± standard deviation."""
    return f"{figure['mean']:.{digits}f} ± {figure['sd']:.{digits}f}"


if __name__ == "__main__":
    main()
