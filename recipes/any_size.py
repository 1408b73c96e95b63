"""A table larger than memory: made by sampling our own model, fitted from where it lies, and sampled again, each step in a process of
its own whose peak memory is measured.

    OMP_NUM_THREADS=2 python recipes/any_size.py --rows 100000000 --folder /tmp

The model that makes the table is a mixture fitted to public toy records (no real ones), so that every figure can be made again.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import record

from synthdp import Budget, Schema, Synthesizer, load
from synthdp.sets import record_files
from synthdp.tables import source as tables

BUDGET = Budget(epsilon=1.0, delta=1e-9)
PART = 10_000_000  # rows of a file
LIMIT = 4 * 2**30
STEPS = ("make", "fit", "sample")
SITES = ("north", "east", "south", "west")


def toy_schema(rows: int) -> Schema:
    """Fifteen columns of every kind, their facts declared."""
    return Schema.from_dict(
        {
            "name": "any size",
            "declared_by": "recipes/any_size.py",
            "units": rows,
            "targets": ["readmitted"],
            "columns": {
                "age": {"kind": "integer", "bounds": [0, 110]},
                "sex": {"kind": "categorical", "categories": ["female", "male"]},
                "site": {"kind": "categorical", "categories": list(SITES)},
                "insurance": {
                    "kind": "categorical",
                    "categories": ["public", "private", "none", "other"],
                    "missing": True,
                },
                "diagnosis": {"kind": "categorical", "categories": [f"D{code:02d}" for code in range(40)]},
                "severity": {"kind": "ordinal", "categories": ["low", "moderate", "high", "extreme"]},
                "smoker": {"kind": "boolean", "missing": True},
                "visits": {"kind": "integer", "bounds": [0, 50], "atoms": [0]},
                "days": {"kind": "integer", "bounds": [0, 365], "atoms": [0]},
                "cost": {"kind": "continuous", "bounds": [0, 100000], "decimals": 2, "atoms": [0]},
                "pressure": {"kind": "continuous", "bounds": [60, 240], "missing": True},
                "glucose": {"kind": "continuous", "bounds": [40, 500], "decimals": 1},
                "bmi": {"kind": "continuous", "bounds": [10, 70], "decimals": 1},
                "admitted": {"kind": "datetime", "bounds": ["2015-01-01", "2024-12-31"]},
                "readmitted": {"kind": "boolean"},
            },
        }
    )


def toy_records(rows: int) -> pd.DataFrame:
    """Made-up records in which everything hangs on age and severity."""
    rng = np.random.default_rng(0)
    age = np.clip(rng.normal(58, 20, rows), 0, 110).astype(int)
    severity = np.clip(rng.poisson(age / 45), 0, 3)
    days = np.where(rng.random(rows) < 0.2, 0, np.clip(rng.gamma(1 + severity, 3, rows), 0, 365)).astype(int)
    readmitted = rng.random(rows) < 0.05 + 0.1 * severity
    frame = {
        "age": age,
        "sex": rng.choice(["female", "male"], rows),
        "site": rng.choice(SITES, rows, p=[0.4, 0.3, 0.2, 0.1]),
        "insurance": pd.Series(rng.choice(["public", "private", "none", "other", None], rows), dtype="str"),
        "diagnosis": [f"D{code:02d}" for code in np.minimum(rng.geometric(0.1 + 0.05 * (age < 40)), 40) - 1],
        "severity": np.array(["low", "moderate", "high", "extreme"])[severity],
        "smoker": pd.array(np.where(rng.random(rows) < 0.1, None, rng.random(rows) < 0.25), "boolean"),
        "visits": np.minimum(rng.poisson(severity), 50),
        "days": days,
        "cost": np.round(np.clip(days * rng.lognormal(6, 0.6, rows), 0, 100000), 2),
        "pressure": np.where(rng.random(rows) < 0.05, np.nan, np.clip(rng.normal(115 + age / 4, 15), 60, 240)),
        "glucose": np.round(np.clip(rng.normal(100 + 15 * severity, 25), 40, 500), 1),
        "bmi": np.round(np.clip(rng.normal(27, 5, rows), 10, 70), 1),
        "admitted": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3653, rows), unit="D"),
        "readmitted": readmitted,
    }
    return pd.DataFrame(frame)


def make(folder: Path, rows: int) -> dict[str, float]:
    """The table, in files of at most ten million rows."""
    release = Synthesizer("mixture", schema=toy_schema(20_000), budget=BUDGET).fit(toy_records(20_000), seed=0)
    (folder / "table").mkdir()
    for number, start in enumerate(range(0, rows, PART)):
        part = folder / "table" / f"part-{number:03d}.parquet"
        record_files.write(release.stream(min(PART, rows - start), seed=1 + number), part, release.schema)
    held = sum(path.stat().st_size for path in (folder / "table").iterdir())
    return {"rows": rows, "columns": len(release.schema.names), "bytes": held}


def fit(folder: Path, rows: int) -> dict[str, float]:
    """A release of the table, counted where it lies."""
    source = tables.parquet(folder / "table", folder=folder)
    synthesizer = Synthesizer("mixture", schema=toy_schema(rows), budget=BUDGET)
    release = synthesizer.fit(source, ledger=folder / "ledger.jsonl")
    release.save(folder / "release")
    return {"epsilon": release.statement.epsilon, "delta": release.statement.delta}


def sample(folder: Path, rows: int) -> dict[str, float]:
    """As many rows again, in one file."""
    release = load(folder / "release")
    record_files.write(release.stream(rows, seed=3), folder / "sampled.parquet", release.schema)
    return {"rows": rows, "bytes": (folder / "sampled.parquet").stat().st_size}


def step(name: str, folder: Path, rows: int) -> None:
    """Run one step in this process and write what it took."""
    start, cpu = time.monotonic(), time.process_time()
    figures = {"make": make, "fit": fit, "sample": sample}[name](folder, rows)
    took = {"seconds": time.monotonic() - start, "cpu_seconds": time.process_time() - cpu}
    (folder / f"{name}.json").write_text(json.dumps({**figures, **took}), encoding="utf-8")


def measured(name: str, folder: Path, rows: int) -> dict[str, float]:
    """The figures of one step in a process of its own, with its peak memory and the most that the folder held beside the files."""
    words = [sys.executable, __file__, "--rows", str(rows), "--folder", str(folder), "--step", name]
    process = subprocess.Popen(words)
    spilled = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        spilled = max(spilled, sum(_size(path) for part in folder.glob("synthdp-*") for path in part.rglob("*")))
        if pid:
            break
        time.sleep(0.5)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"step {name} failed")
    found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return {**found, "peak_bytes": usage.ru_maxrss * 1024, "spilled_bytes": spilled}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:  # it was there a moment ago
        return 0


def text(result: dict) -> str:
    """The page."""
    lines = [
        "# A table larger than memory",
        "",
        f"{result['rows']:,} rows x {result['make']['columns']} columns, made by sampling a mixture that was fitted to toy records, fitted",
        f"from its Parquet files (epsilon {BUDGET.epsilon:g}, delta {BUDGET.delta:g}) through DuckDB and sampled again, by"
        f" `recipes/any_size.py` on {result['about']['cores']} cores ({result['about']['processor']}).",
        "",
        "| step | seconds | CPU seconds | peak memory, GiB | temporary files, GiB |",
        "|---|---|---|---|---|",
    ]
    for name in STEPS:
        each = result[name]
        sizes = f"{each['peak_bytes'] / 2**30:.2f} | {each['spilled_bytes'] / 2**30:.2f}"
        lines.append(f"| {name} | {each['seconds']:.0f} | {each['cpu_seconds']:.0f} | {sizes} |")
    held = result["make"]["bytes"] / 2**30
    return "\n".join(
        [*lines, "", f"The table takes {held:.2f} GiB as Parquet. The limit is {LIMIT / 2**30:g} GiB of memory.", ""]
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000_000)
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options.add_argument("--step", choices=STEPS, help="one step alone, in this process")
    options.add_argument("--name", default="any_size", help="of the report")
    given = options.parse_args()
    if given.step:
        step(given.step, given.folder, given.rows)
        return
    folder = Path(tempfile.mkdtemp(prefix="any-size-", dir=given.folder))
    try:
        result = {"rows": given.rows, "limit_bytes": LIMIT, "about": record.provenance()}
        for name in STEPS:
            result[name] = measured(name, folder, given.rows)
            print(name, result[name], flush=True)
    finally:
        shutil.rmtree(folder)
    record.write(given.name, result, text(result))


if __name__ == "__main__":
    main()
