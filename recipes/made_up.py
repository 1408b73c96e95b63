"""Made-up tables on which rules of generators are chosen: correlated numbers with heaped values, flags, categories, a label.

    python recipes/made_up.py [--generator mixture] [--set shrinkage=0 ...]

prints errors of a generator, at other settings too, on tables of three sizes; no report has these figures.
"""

import argparse
import json

import numpy as np
import pandas as pd
from judging import DISTANCES, distances

from synthdp import Budget, Synthesizer
from synthdp.evaluate.tables import axes_of, table_of
from synthdp.schema.schema import Schema
from synthdp.sets.named import Named

NUMBERS = {
    # name: low, high, decimals, bins, mean, sd, multiple to which some people round
    "age": (18, 95, 0, 14, 52.0, 14.0, 5),
    "systolic": (70, 240, 0, 17, 128.0, 19.0, 10),
    "diastolic": (40, 150, 0, 16, 81.0, 12.0, 10),
    "weight": (35, 180, 0, 18, 77.0, 16.0, 5),
    "glucose": (40, 400, 0, 20, 103.0, 30.0, 10),
    "creatinine": (0, 10, 1, 15, 1.1, 0.7, 1),
}
FACTORS = 3  # that all numbers, flags and the label depend on
HEAPED = 0.4  # of the rows


def made_up(rows: int, *, flags: int = 6, positives: float = 0.2, seed: int = 0) -> Named:
    """`rows` records to learn from and half as many to test on; a share of about `positives` has the label."""
    rng = np.random.default_rng((53, seed))
    count = rows + rows // 2
    hidden = rng.normal(size=(count, FACTORS))

    def score(weight: float) -> np.ndarray:
        loads = rng.normal(size=FACTORS)
        loads *= weight / np.linalg.norm(loads)
        return np.asarray(hidden @ loads + rng.normal(size=count) * np.sqrt(1 - weight**2))

    frame = pd.DataFrame()
    for name, (low, high, decimals, _, mean, sd, multiple) in NUMBERS.items():
        values = mean + sd * score(rng.uniform(0.4, 0.85))
        heaped = np.where(rng.random(count) < HEAPED, np.rint(values / multiple) * multiple, values)
        frame[name] = heaped.round(decimals).clip(low, high)
        if decimals == 0:
            frame[name] = frame[name].astype(int)
    for place in range(flags):
        frame[f"flag{place}"] = score(rng.uniform(0.2, 0.7)) > rng.normal(0.5, 0.7)
    cuts = np.sort(rng.normal(size=4))
    frame["site"] = np.array(list("abcde"))[np.searchsorted(cuts, score(0.5))]
    risk = score(0.8)
    frame["ill"] = risk > np.quantile(risk, 1 - positives)
    columns: dict[str, object] = {
        name: {
            "kind": "continuous" if decimals else "integer",
            "bounds": [low, high],
            "bins": bins,
            **({"decimals": decimals} if decimals else {}),
        }
        for name, (low, high, decimals, bins, *_) in NUMBERS.items()
    }
    columns |= {f"flag{place}": {"kind": "boolean"} for place in range(flags)}
    columns |= {"site": {"kind": "categorical", "categories": list("abcde")}, "ill": {"kind": "boolean"}}
    schema = Schema.from_dict({"declared_by": "a recipe", "units": rows, "targets": ["ill"], "columns": columns})
    return Named(
        schema=schema,
        train=frame.iloc[:rows].reset_index(drop=True),
        test=frame.iloc[rows:].reset_index(drop=True),
        notes=("made up",),
    )


def errors(generator: str, settings: dict[str, object], rows: int, seed: int) -> dict[str, float]:
    """Distances of synthetic rows from the training rows, at epsilon 1."""
    chosen = made_up(rows, seed=seed)
    made = Synthesizer(generator, schema=chosen.schema, budget=Budget(1.0, 1e-5), **settings)
    drawn = made.fit(chosen.train, seed=seed).sample(rows, seed=seed)
    axes = axes_of(chosen.schema, chosen.train)
    tables = (table_of(frame, axes, "made up") for frame in (drawn, chosen.train, chosen.test))
    return distances(*tables, chosen.schema.targets[0])


def main() -> None:
    """Print the mean over three tables of each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generator", default="mixture")
    parser.add_argument("--set", nargs="*", default=(), help="settings as name=value")
    given = parser.parse_args()
    settings = {name: json.loads(value) for name, value in (item.split("=", 1) for item in given.set)}
    for rows in (1_000, 10_000, 50_000):
        found = [errors(given.generator, settings, rows, seed) for seed in range(3)]
        print(rows, {name: round(float(np.mean([each[name] for each in found])), 4) for name in DISTANCES})


if __name__ == "__main__":
    main()
