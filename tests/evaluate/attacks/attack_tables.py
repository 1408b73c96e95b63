"""Small tables of every axis kind for the tests of the attacks."""

import numpy as np

from synthdp.evaluate.tables import Axis, Table

LEVELS = tuple(f"canary-{i}" for i in range(40))
AXES = (
    Axis(name="age", kind="number", low=0, high=99, whole=True),
    Axis(name="weight", kind="number", low=0, high=200),
    Axis(name="site", kind="category", levels=("north", "south", "east")),
    Axis(name="stage", kind="ordinal", levels=("I", "II", "III")),
    Axis(name="lab", kind="number", low=-5, high=5),
    Axis(name="code", kind="category", levels=LEVELS),
)


def population(rows, seed):
    """Rows of one distribution: age drives weight, site drives stage; a tenth of the weights is missing."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 95, rows)
    weight = np.where(rng.random(rows) < 0.1, np.nan, 60 + 0.2 * age + rng.normal(0, 8, rows))
    site = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    stage = np.clip(site + rng.integers(-1, 2, rows), 0, 2)
    values = [age, weight, site, stage, rng.normal(0, 1, rows), rng.integers(0, 40, rows)]
    return Table(axes=AXES, values=np.stack(values, axis=1).astype(np.float64))


def table(axes, *columns):
    return Table(axes=tuple(axes), values=np.stack([np.asarray(c, dtype=np.float64) for c in columns], axis=1))
