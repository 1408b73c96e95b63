"""What a fit costs as a table grows, and a draw: `make bench` -> reports/growth.{json,md,png}.

    OMP_NUM_THREADS=1 python recipes/growth.py [--only rows columns units drawn spark] [--forget]

Five questions: rows from 10^4 to 10^7 at fifteen columns (counted in DuckDB from Parquet beyond 10^6), columns from 10 to 200 at ten
thousand rows, 1, 5 or 20 records a unit at 10^5 rows, up to 10^6 rows drawn of a fit of 10^5, and rows that Spark counts as it is by
settings (200 shuffle partitions; needs the extra spark and Java). Each runs in a process of its own. Shown are its CPU seconds and peak
memory; for Spark, elapsed seconds, and the memory of Python alone, since Spark counts in another process. What a process costs before
counts towards its memory, not its seconds. Records are made up and no folder of data is needed. Budget: 25 CPU minutes; a fit that takes
more than ten is stopped and listed.
"""

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import record
from any_size import toy_records, toy_schema
from matplotlib.figure import Figure

from synthdp import Budget, Schema, Synthesizer
from synthdp.tables import source

KEPT = record.HOME / "outputs" / "growth.jsonl"
BUDGET = Budget(epsilon=1.0, delta=1e-9)
LIMIT = 600  # CPU seconds of one fit
IN_MEMORY = 1_000_000  # rows: beyond, DuckDB counts them where they lie
GENERATORS = {
    "rows": ("independent", "mixture"),
    "columns": ("mixture", "aim", "mst"),
    "units": ("mixture", "aim"),
    "drawn": ("independent", "mixture", "aim"),
    "spark": ("independent", "mixture"),
}
SIZES = {
    "rows": (10**4, 10**5, 10**6, 10**7),
    "columns": (10, 20, 50, 100, 200),
    "units": (1, 5, 20),
    "drawn": (10**4, 10**5, 10**6),
    "spark": (3_000, 30_000),
}
WHAT = {
    "rows": "rows",
    "columns": "columns",
    "units": "records a unit",
    "drawn": "rows drawn",
    "spark": "rows in Spark",
}
# Which figure is shown, and its heading; Spark spends its CPU time in another process.
COST = {"spark": ("seconds", "elapsed seconds")}
CPU = ("cpu", "CPU seconds")


def wide(columns: int, rows: int) -> tuple[Schema, pd.DataFrame]:
    """Columns of four categories of which each follows the one before it in half of the rows, and a label."""
    rng = np.random.default_rng(columns)
    frame, last = {}, rng.integers(0, 4, rows)
    for place in range(columns - 1):
        last = np.where(rng.random(rows) < 0.5, last, rng.integers(0, 4, rows))
        frame[f"c{place}"] = np.array(list("abcd"))[last]
    frame["label"] = last % 2 == 0
    declared: dict[str, Any] = {name: {"kind": "categorical", "categories": list("abcd")} for name in frame}
    declared["label"] = {"kind": "boolean"}
    facts = {"declared_by": "recipes/growth.py", "units": rows, "targets": ["label"], "columns": declared}
    return Schema.from_dict(facts), pd.DataFrame(frame)


def repeated(records: int, rows: int) -> tuple[Schema, pd.DataFrame]:
    """The toy table, whose rows belong to patients of so many records each."""
    facts = toy_schema(rows // records).to_dict()
    facts["columns"] = {"patient": {"kind": "identifier"}, **facts["columns"]}
    schema = Schema.from_dict({**facts, "unit": "patient", "max_records_per_unit": records})
    frame = toy_records(rows)
    frame.insert(0, "patient", np.arange(rows) // records)
    return schema, frame


def measured(question: str, size: int, generator: str) -> dict[str, float]:
    """One fit, or one draw, in this process."""
    if question == "spark":
        return in_spark(size, generator)
    with tempfile.TemporaryDirectory() as home:
        data: Any
        if question == "columns":
            schema, data = wide(size, 10_000)
        elif question == "units":
            schema, data = repeated(size, 100_000)
        else:
            rows = 10**5 if question == "drawn" else size
            schema = toy_schema(rows)
            data = toy_records(min(rows, IN_MEMORY))
            if rows > IN_MEMORY:
                for part in range(rows // IN_MEMORY):
                    data.to_parquet(Path(home) / f"{part}.parquet")
                data = source.parquet(Path(home), folder=Path(home))
        synthesizer = Synthesizer(generator, schema=schema, budget=BUDGET)
        release = synthesizer.fit(data) if question == "drawn" else None
        start, clock = time.process_time(), time.monotonic()
        if release is None:
            synthesizer.fit(data)
        else:
            release.sample(size)
        return cost(start, clock)


def cost(start: float, clock: float) -> dict[str, float]:
    """CPU and elapsed seconds since `start` and `clock`, and this process's peak memory in GiB."""
    return {
        "cpu": time.process_time() - start,
        "seconds": time.monotonic() - clock,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def in_spark(rows: int, generator: str) -> dict[str, float]:
    """The first fit that a local Spark of two threads counts; its address is set and its page turned off, all else is at the default."""
    import ibis
    from pyspark.sql import SparkSession

    here: dict[str, Any] = {f"spark.driver.{name}": "127.0.0.1" for name in ("host", "bindAddress")} | {
        "spark.ui.enabled": "false"
    }
    session = SparkSession.builder.master("local[2]").config(map=here).getOrCreate()
    try:
        with tempfile.TemporaryDirectory() as home:
            toy_records(rows).to_parquet(Path(home) / "0.parquet")
            session.read.parquet(home).createOrReplaceTempView("records")
            records = source.table(ibis.pyspark.connect(session).table("records"), name="records")
            synthesizer = Synthesizer(generator, schema=toy_schema(rows), budget=BUDGET)
            start, clock = time.process_time(), time.monotonic()
            synthesizer.fit(records)
            return cost(start, clock)
    finally:
        session.stop()


def exponent(sizes: list[int], costs: list[float]) -> float:
    """Of the power of size that the cost follows over the last two sizes."""
    return math.log(costs[-1] / costs[-2]) / math.log(sizes[-1] / sizes[-2])


def page(found: dict[tuple[str, int, str], dict[str, Any]], about: dict[str, Any]) -> str:
    """The report."""
    lines = [
        "# What a fit costs as a table grows, and a draw",
        "",
        "<!-- written by recipes/growth.py -->",
        "",
        "CPU seconds of the fit (of rows drawn, of the draw alone), and the peak memory of its process in GiB (Python, libraries and "
        "the table included). One each, "
        f"at epsilon {BUDGET.epsilon:g}; made-up records. The exponent is that of the last two sizes: 1 is linear. "
        "For Spark: elapsed seconds of the first fit in a session of two local threads and 200 shuffle partitions; the peak leaves out "
        "Spark's own process.",
        "",
        "![CPU seconds by size](growth.png)",
        "",
    ]
    for question, sizes in SIZES.items():
        key, unit = COST.get(question, CPU)
        lines += [f"## By {WHAT[question]}", "", f"| {WHAT[question]} | generator | {unit} | peak, GiB |"]
        lines += ["|---|---|---|---|"]
        for generator in GENERATORS[question]:
            curve = [(size, found[question, size, generator]) for size in sizes if (question, size, generator) in found]
            for size, fit in curve:
                digits = 1 if fit.get(key, 1) >= 1 else 2
                told = f"{fit[key]:.{digits}f} | {fit['peak']:.2f}" if key in fit else f"{fit['ended']} | -"
                lines.append(f"| {size:,} | {generator} | {told} |")
        lines.append("")
        for generator in GENERATORS[question]:
            whole = [
                size
                for size in sizes
                if "cpu" in found.get((question, size, generator), {}) and question not in ("units", "spark")
            ]
            if len(whole) > 1:
                power = exponent(whole, [found[question, size, generator]["cpu"] for size in whole])
                told = f"from {whole[-2]:,} to {whole[-1]:,} {WHAT[question]} its CPU time grows as their number"
                lines.append(f"- `{generator}`: {told} to the power {power:.2f}.")
        lines.append("")
    lacking = [
        f"{generator} at {size:,} {WHAT[question]}"
        for question, sizes in SIZES.items()
        for size, generator in itertools.product(sizes, GENERATORS[question])
        if (question, size, generator) not in found
    ]
    lines += [f"Not run: {'; '.join(lacking) or 'nothing'}.", ""]
    commits = ", ".join(sorted({each["commit"] for each in found.values()}))
    machines = ", ".join(sorted({each.get("processor", about["processor"]) for each in found.values()}))
    lines += [f"Code of commits {commits}, on {machines}, beside other work.", ""]
    return "\n".join(lines)


def drawn(found: dict[tuple[str, int, str], dict[str, Any]]) -> Figure:
    """CPU seconds against size, one panel a question, without Spark."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    shown = {question: sizes for question, sizes in SIZES.items() if question != "spark"}
    for axes, (question, sizes) in zip(figure.subplots(1, len(shown)), shown.items(), strict=True):
        for generator in GENERATORS[question]:
            curve = [size for size in sizes if "cpu" in found.get((question, size, generator), {})]
            if curve:
                axes.plot(curve, [found[question, size, generator]["cpu"] for size in curve], "o-", label=generator)
        axes.set(xlabel=WHAT[question], ylabel="CPU seconds")
        if axes.lines:
            axes.set(xscale="log", yscale="log")
            axes.legend(frameon=False)
    return figure


def main() -> None:
    """All fits that are not kept yet, one after another, and the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--forget", action="store_true", help="measure anew what was kept of these questions")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        question, size, generator = options.one
        print(json.dumps(measured(question, int(size), generator)))
        return
    KEPT.parent.mkdir(exist_ok=True)
    if KEPT.exists():
        kept = [json.loads(line) for line in KEPT.read_text().splitlines()]
    else:
        report = record.REPORTS / "growth.json"
        kept = json.loads(report.read_text())["fits"] if report.exists() else []
    kept = [each for each in kept if not (options.forget and each["question"] in options.only)]
    KEPT.write_text("".join(json.dumps(each) + "\n" for each in kept))
    found = {(each["question"], each["size"], each["generator"]): each for each in kept}
    for question in options.only:
        for generator, size in itertools.product(GENERATORS[question], SIZES[question]):
            if (question, size, generator) in found:
                continue
            fit = in_a_process(question, size, generator)
            here = record.provenance()
            told = {"question": question, "size": size, "generator": generator, "processor": here["processor"]}
            told["commit"] = (here["commit"] or "unknown")[:7]
            found[question, size, generator] = {**told, **fit}
            with KEPT.open("a") as file:
                file.write(json.dumps(found[question, size, generator]) + "\n")
            print(question, size, generator, fit, flush=True)
    about = record.provenance()
    record.write("growth", {"provenance": about, "fits": list(found.values())}, page(found, about))
    drawn(found).savefig(record.REPORTS / "growth.png", dpi=110)


def in_a_process(question: str, size: int, generator: str) -> dict[str, Any]:
    """What the fit cost, or how it ended."""
    limit = f"ulimit -t {LIMIT + 60}; exec "  # the table is made in the same process
    command = [sys.executable, "-W", "ignore", __file__, "--one", question, str(size), generator]
    done = subprocess.run(
        ["bash", "-c", limit + '"$@"', "bash", *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {"ended": f"stopped after {LIMIT} s" if done.returncode < 0 else f"refused: {last}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
