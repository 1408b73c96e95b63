"""Peers' generators as trials: our training rows go to their environment as plain numbers, their rows come back to our judgement."""

import ast
import json
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from peers.install import PINS, python_of
from trials import Figures, Trial, too_long

from synthdp.errors import BadInput
from synthdp.evaluate.tables import BOOLEAN, Axis, Table, axes_of, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from synthdp.schema.schema import Schema
    from synthdp.sets.named import Named

HERE = Path(__file__).resolve().parent
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "HF_HUB_OFFLINE": "1",
    "PATH": "/usr/bin:/bin",
}


def peer_of(generator: str) -> str | None:
    """The peer of a trial's generator, such as dpmm of dpmm_aim; None of our own generators."""
    peer = generator.partition("_")[0]
    return peer if peer in PINS else None


def present(generator: str) -> bool:
    """Whether the environment of its peer was made."""
    peer = peer_of(generator)
    return peer is not None and python_of(peer).exists()


def facts(generators: Iterable[str]) -> list[str]:
    """What each peer's script says of the peer: how it is used, and what is not so of what it claims."""
    peers = dict.fromkeys(peer for generator in generators if (peer := peer_of(generator)))
    scripts = [(HERE / f"{peer}_fit.py").read_text(encoding="utf-8") for peer in peers]
    return [ast.get_docstring(ast.parse(script)) or "" for script in scripts]


def fitted(trial: Trial, chosen: "Named", axes: Sequence[Axis], limit: float | None) -> tuple[Table, Figures]:
    """As many rows as the training part has, in the codes of `axes`, and what they cost.

    A peer protects records: of each unit one record, drawn at random, goes to it. Raises `TimeoutError` where the fit takes more
    than `limit` seconds of CPU, `BadInput` where it fails.
    """
    train = chosen.train
    if chosen.schema.unit is not None:
        train = train.sample(frac=1, random_state=trial.seed).drop_duplicates(chosen.schema.unit)
    told = [_public(axis, chosen.schema) for axis in axes]
    rows, figures = _told(trial, table_of(train, tuple(axes), "training").values, told, len(chosen.train), limit)
    return Table(axes=tuple(axes), values=rows), figures


def histories(trial: Trial, train: pd.DataFrame, schema: "Schema", limit: float | None) -> tuple[pd.DataFrame, Figures]:
    """Records of as many synthetic units, and what they cost: the peer learns units and their records as two linked tables.

    At most `max_records_per_unit` records of each unit go to it, drawn at random, in their order; what is of the unit is its first's.
    """
    axes = axes_of(schema, train)
    kept = train.sample(frac=1, random_state=trial.seed).groupby(schema.unit).head(schema.max_records_per_unit)
    kept = kept.sort_index().sort_values([schema.unit, schema.order], kind="stable")
    kept = kept.assign(**kept.groupby(schema.unit)[list(schema.per_unit)].transform("first"))
    owner, found = pd.factorize(kept[schema.unit])
    units = len(found)
    unit = {"name": schema.unit, "levels": 0, "low": 0, "high": units, "whole": True, "missing": False, "unit": True}
    told = [unit, *(_public(axis, schema) for axis in axes)]
    table = np.insert(table_of(kept, axes, "training").values, 0, owner, axis=1)
    rows, figures = _told(trial, table, told, units, limit)
    frame = {schema.unit: [f"S{each:.0f}" for each in rows[:, 0]]}
    frame |= {axis.name: _words(rows[:, place], axis) for place, axis in enumerate(axes, start=1)}
    return pd.DataFrame(frame)[list(train.columns)], figures


def _told(
    trial: Trial, table: "NDArray[np.float64]", columns: list[dict[str, Any]], rows: int, limit: float | None
) -> tuple["NDArray[np.float64]", Figures]:
    """Run the peer's script on the table."""
    peer, _, method = trial.generator.partition("_")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        np.save(folder / "table.npy", table)
        task = {
            "method": method,
            "settings": dict(trial.settings),
            "epsilon": trial.epsilon,
            "delta": trial.delta,
            "seed": trial.seed,
            "rows": rows,
            "limit": limit,
            "columns": columns,
        }
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
        command = [str(python_of(peer)), str(HERE / f"{peer}_fit.py"), str(folder)]
        environment = {**ENVIRONMENT, "HOME": made, "TMPDIR": made}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) and limit is not None:
            raise TimeoutError(too_long(limit))
        if done.returncode:
            raise BadInput(f"{trial.generator} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
        figures: Figures = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
        return np.load(folder / "rows.npy"), {"epsilon_spent": trial.epsilon, **figures}


def _public(axis: Axis, schema: "Schema") -> dict[str, Any]:
    """What the schema says of a column."""
    return {
        "name": axis.name,
        "levels": 0 if axis.kind == "number" else len(axis.levels),
        "low": axis.low,
        "high": axis.high,
        "whole": axis.whole or axis.date,
        "missing": any(column.name == axis.name and getattr(column, "missing", False) for column in schema.columns),
        "unit": axis.name in schema.per_unit,
        "order": axis.name == schema.order,
    }


def _words(values: "NDArray[np.float64]", axis: Axis) -> Any:
    """A column as our frames have it."""
    if axis.date:
        return pd.to_datetime(values, unit="D")
    if axis.kind == "number":
        return values.astype(np.int64) if axis.whole and not np.isnan(values).any() else values
    words = np.array([*axis.levels, None], dtype=object)[np.where(np.isnan(values), -1, values).astype(np.int64)]
    return words == BOOLEAN[1] if axis.levels == BOOLEAN else words
