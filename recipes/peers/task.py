"""What the fit scripts of all peers share: they run in the peers' environments, where nothing of ours is installed.

    outputs/peers/PEER/bin/python recipes/peers/PEER_fit.py FOLDER

Read: FOLDER/table.npy, float64 (rows, columns), codes for categories and NaN for missing, and FOLDER/task.json: `method`,
`settings`, `epsilon`, `delta`, `seed`, `rows` to draw, `limit` of CPU seconds, and the public facts of each of the `columns`. Where one
of them has `order`, the table holds histories: column 0 is whose record it is, columns with `unit` are of the unit, and `rows` are units.
Written: FOLDER/rows.npy, alike, and FOLDER/figures.json: seconds and CPU seconds of the fit, and the peak of its memory.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd


def run(fit):
    """`fit(table, task)` gives figures that it alone knows, and `draw(rows)` -> a frame of numbers and codes, columns as in the task."""
    folder = Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text())
    if task["limit"]:
        resource.setrlimit(resource.RLIMIT_CPU, (int(task["limit"]), resource.RLIM_INFINITY))
    table = np.load(folder / "table.npy")
    start, cpu = time.perf_counter(), time.process_time()
    figures, draw = fit(table, task)
    figures |= {
        "fit_seconds": time.perf_counter() - start,
        "fit_cpu_seconds": time.process_time() - cpu,
        "fit_peak_mib": peak(),
    }
    made = draw(task["rows"])
    columns = task["columns"]
    read = {"errors": "coerce"}  # a peer's word for rare values is missing
    rows = np.column_stack(
        [pd.to_numeric(made[column["name"]], **read).astype("float64").to_numpy() for column in columns]
    )
    for place, column in enumerate(columns):
        if column["whole"]:
            rows[:, place] = np.round(rows[:, place])
    np.save(folder / "rows.npy", rows)
    (folder / "figures.json").write_text(json.dumps(figures))


def peak():
    """MiB; getrusage would tell the peak of the process that started this one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
