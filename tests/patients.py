"""A small table of every column kind, with a target that its columns predict."""

import numpy as np
import pandas as pd

from synthdp.schema.schema import Boolean, Categorical, Continuous, Datetime, Identifier, Integer, Ordinal, Schema


def make_schema(targets: tuple[str, ...] = ("ill",)) -> Schema:
    return Schema(
        name="ward",
        unit="patient",
        targets=targets,
        columns=(
            Identifier(name="patient"),
            Integer(name="age", bounds=(0, 99)),
            Continuous(name="weight $kg$", bounds=(0.0, 200.0), missing=True),
            Categorical(name="site", categories=("north", "south", "<b>east</b>"), missing=True),
            Ordinal(name="stage", categories=("I", "II", "III")),
            Boolean(name="smoker"),
            Datetime(name="seen", bounds=("2020-01-01", "2020-12-31")),
            Categorical(name="ill", categories=("no", "yes")),
        ),
    )


def make_frame(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    stage = np.clip((age // 34) + rng.integers(-1, 2, rows), 0, 2)
    smoker = rng.random(rows) < 0.3
    chance = 1 / (1 + np.exp(-(0.08 * (age - 60) + 1.5 * smoker)))
    return pd.DataFrame(
        {
            "patient": [f"p{seed}-{i}" for i in range(rows)],
            "age": age,
            "weight $kg$": np.where(rng.random(rows) < 0.1, np.nan, 60 + 0.2 * age + rng.normal(0, 5, rows)),
            "site": rng.choice(np.array(["north", "south", "<b>east</b>", None], dtype=object), rows),
            "stage": np.array(["I", "II", "III"])[stage],
            "smoker": smoker,
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), unit="D"),
            "ill": np.where(rng.random(rows) < chance, "yes", "no"),
        }
    )
