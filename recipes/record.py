"""What every recipe writes beside its figures: config, commit, seeds, machine."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[1]
REPORTS = HOME / "reports"


def provenance(*code: str) -> dict[str, Any]:
    """Commit, versions and machine of this run; whether the package, or `code` beside it, has changes that are not committed."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HOME, capture_output=True, text=True, check=False)
    changed = subprocess.run(
        ["git", "status", "--porcelain", "synthdp", *code], cwd=HOME, capture_output=True, text=True, check=False
    )
    return {
        "commit": commit.stdout.strip() or None,
        "uncommitted_changes": bool(changed.stdout.strip()),
        "python": platform.python_version(),
        "versions": {
            name: metadata.version(name) for name in ("torch", "numpy", "pandas", "scikit-learn", "dp-accounting")
        },
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
    }


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (of the sample), number and the values themselves."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "sd": deviation, "n": len(values), "values": list(values)}


def write(name: str, result: Mapping[str, Any], text: str) -> None:
    """reports/NAME.json and reports/NAME.md."""
    REPORTS.mkdir(exist_ok=True)
    (REPORTS / f"{name}.json").write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    (REPORTS / f"{name}.md").write_text(text, encoding="utf-8")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
