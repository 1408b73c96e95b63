"""dpmm's AIM, MST or PrivBayes on a table of numbers; runs in its own environment (`install.py`), knows nothing of ours.

    outputs/peers/dpmm/bin/python recipes/peers/dpmm_fit.py FOLDER

Reads FOLDER/table.npy, float64 (rows, columns) with NaN for missing, and FOLDER/task.json: the public facts of each column,
method, settings, epsilon, delta, seed, rows. Writes FOLDER/rows.npy, alike, and FOLDER/figures.json: CPU seconds and peak of memory.

Epsilon is the total: a tenth is for binning, as its pipeline has it at epsilon 1 (0.1 beside 0.9). A column with missing values is
filled with one value drawn from the records, and a column that never varies is told as it is: dpmm spends nothing on
either, so its guarantee does not hold as claimed for such columns.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

METHODS = {"aim": AIMPipeline, "mst": MSTPipeline, "privbayes": PrivBayesPipeline}
BINNING = 0.1  # of epsilon


def framed(table, columns):
    """Numbers as float64 (int64 where whole and never missing), categories as codes; and the public domain of each."""
    frame, domain = {}, {}
    for place, column in enumerate(columns):
        values = pd.Series(table[:, place])
        if column["levels"]:
            frame[column["name"]] = values.astype("Int64").astype("category")
            domain[column["name"]] = {"categories": list(range(column["levels"]))}
        else:
            whole = column["whole"] and not values.isna().any()
            frame[column["name"]] = values.astype("int64") if whole else values
            domain[column["name"]] = {"lower": column["low"], "upper": column["high"]}
    return pd.DataFrame(frame), domain


def peak():
    """MiB; getrusage would tell the peak of the process that started this one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main(folder):
    """Fit, draw, write."""
    given = json.loads((folder / "task.json").read_text())
    columns = given["columns"]
    if given["limit"]:
        resource.setrlimit(resource.RLIMIT_CPU, (int(given["limit"]), resource.RLIM_INFINITY))
    frame, domain = framed(np.load(folder / "table.npy"), columns)
    settings = dict(given["settings"])
    pipeline = METHODS[given["method"]](
        epsilon=given["epsilon"] * (1 - BINNING),
        delta=given["delta"],
        proc_epsilon=given["epsilon"] * BINNING,
        max_model_size=settings.pop("max_model_size", None),
        n_jobs=1,
        gen_kwargs=settings,
    )
    start, cpu = time.perf_counter(), time.process_time()
    pipeline.fit(frame, domain, random_state=given["seed"])
    figures = {
        "fit_seconds": time.perf_counter() - start,
        "fit_cpu_seconds": time.process_time() - cpu,
        "fit_peak_mib": peak(),
    }
    made = pipeline.generate(n_records=given["rows"], random_state=given["seed"])
    rows = np.column_stack([made[column["name"]].astype("float64").to_numpy() for column in columns])
    for place, column in enumerate(columns):
        if column["whole"]:
            rows[:, place] = np.round(rows[:, place])
    np.save(folder / "rows.npy", rows)
    (folder / "figures.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
