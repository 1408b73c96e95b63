"""Peers' generators as trials: our training rows go to their environment as plain numbers, their rows come back to our judgement."""

import json
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from peers.install import python_of
from trials import Figures, Trial, too_long

from synthdp.errors import BadInput
from synthdp.evaluate.tables import Axis, Table, table_of

if TYPE_CHECKING:
    from synthdp.sets.named import Named

PREFIX = "dpmm_"  # of generators' names in trials; what follows is dpmm's method
FIT = Path(__file__).with_name("dpmm_fit.py")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}


def present() -> bool:
    """Whether the environment of dpmm was made."""
    return python_of("dpmm").exists()


def fitted(trial: Trial, chosen: "Named", axes: Sequence[Axis], limit: float | None) -> tuple[Table, Figures]:
    """As many rows as the training part has, in the codes of `axes`, and what they cost.

    A peer protects records: of each unit one record, drawn at random, goes to it. Raises `TimeoutError` where the fit takes more
    than `limit` seconds of CPU, `BadInput` where it fails.
    """
    train = chosen.train
    if chosen.schema.unit is not None:
        train = train.sample(frac=1, random_state=trial.seed).drop_duplicates(chosen.schema.unit)
    table = table_of(train, tuple(axes), "training").values
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        np.save(folder / "table.npy", table)
        task = {
            "method": trial.generator.removeprefix(PREFIX),
            "settings": dict(trial.settings),
            "epsilon": trial.epsilon,
            "delta": trial.delta,
            "seed": trial.seed,
            "rows": len(chosen.train),
            "limit": limit,
            "columns": [_public(axis) for axis in axes],
        }
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        command = [str(python_of("dpmm")), str(FIT), str(folder)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) and limit is not None:
            raise TimeoutError(too_long(limit))
        if done.returncode:
            raise BadInput(f"{trial.generator} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
        rows = np.load(folder / "rows.npy")
        figures: Figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    return Table(axes=tuple(axes), values=rows), {**figures, "epsilon_spent": trial.epsilon}


def _public(axis: Axis) -> dict[str, Any]:
    """What the schema says of a column."""
    return {
        "name": axis.name,
        "levels": 0 if axis.kind == "number" else len(axis.levels),
        "low": axis.low,
        "high": axis.high,
        "whole": axis.whole,
    }
