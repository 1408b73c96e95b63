"""Claimed against measured epsilon for every generator: `make audit` -> reports/audit.{json,md,png}.

Black box on two pairs (law 27), white box with gradient canaries in many trainings and in one, and the one-run audit
of an ordinary fit. `--quick` takes few runs, to see that it works.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import record
import torch
from matplotlib.figure import Figure

from synthdp import Budget, Schema, Synthesizer, generators
from synthdp.auditing import black_box, one_run, white_box
from synthdp.auditing.claims import Audit
from synthdp.evaluate.audit import plant

DELTA, EPSILONS = 1e-5, (1.0, 4.0, 10.0)
GATE = 1e-3  # over all audits of this report
TRAININGS = (
    white_box.Training(noise=3.73),
    white_box.Training(noise=1.0),
    white_box.Training(noise=2.0, steps=4),
    white_box.Training(noise=1.0, rate=0.5, steps=4),
    white_box.Training(noise=0.7, rate=0.1, steps=10),
)
CANARIES, UNITS = 1000, 2000

Row = dict[str, Any]


def main() -> None:
    """Run all audits and write the report; exits with status 3 where a claim is contradicted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    provenance, start = record.provenance(), time.monotonic()
    audits = len(names()) * len(EPSILONS) * (len(black_box.PAIRS) + 1) + 2 * len(TRAININGS)
    rows = []
    for row in measured(quick=quick, gate_error=GATE / audits):
        rows.append(row)
        print(f"{time.monotonic() - start:5.0f} s  {row}", flush=True)
    config = {"delta": DELTA, "epsilons": EPSILONS, "gate_error": GATE, "audits": audits, "quick": quick}
    config["settings"] = {name: getattr(type(made(name, {})), "audit_settings", {}) for name in names()}
    seconds = time.monotonic() - start
    result = {"config": config, "rows": rows, "seconds": seconds, "provenance": provenance}
    record.write("audit", result, report(rows, provenance, seconds))
    plot(rows).savefig(record.REPORTS / "audit.png", dpi=150)
    if any(row["contradicted"] for row in rows):
        sys.exit(3)


def names() -> list[str]:
    """Generators of which thousands of fits are cheap, and "name:mode" for each further mode of one."""
    found = []
    for name in generators.names():
        kind = generators.find(name)
        if hasattr(kind, "audit_settings"):
            found += [name, *(f"{name}:{mode}" for mode in getattr(kind, "contract_modes", {}))]
    return found


def made(name: str, settings: Mapping[str, Any]) -> Any:
    """The generator behind a name of `names`."""
    own, _, mode = name.partition(":")
    return generators.find(own)(**({"mode": mode} if mode else {}), **settings)


def measured(*, quick: bool, gate_error: float) -> Iterator[Row]:
    """One row per audit. The ten runs a side of `--quick` show nothing."""
    for name in names():
        generator = black_box.small(made(name, {}))
        runs = {"runs": 10, "tuning_runs": 10} if quick else {"runs": 1500, "tuning_runs": 500}
        for pair, make in black_box.PAIRS.items():
            for epsilon in EPSILONS:
                found = black_box.audit(generator, Budget(epsilon, DELTA), pair=make(), gate_error=gate_error, **runs)
                yield row(name, f"black box, {pair}", found)
    for training in TRAININGS:
        runs = {"runs": 10, "tuning_runs": 10} if quick else {"runs": 5000, "tuning_runs": 1000}
        found = white_box.audit(training, DELTA, gate_error=gate_error, **runs)
        yield row("DP-SGD", f"white box, {found.name}", found)
        yield once(
            "DP-SGD",
            f"one training, {found.name}",
            one_run.audit_training(training, CANARIES, DELTA, gate_error=gate_error),
        )
    for name in names():
        for epsilon in EPSILONS:
            yield once(name, "one run, black box", one_fit(name, epsilon, gate_error, quick=quick))


def one_fit(name: str, epsilon: float, gate_error: float, *, quick: bool) -> one_run.OneRun:
    """An ordinary fit with planted canaries, on a made-up table."""
    rng = np.random.default_rng(7)
    columns = {f"x{place}": {"kind": "categorical", "categories": list("abcdef")} for place in range(8)}
    schema = Schema.from_dict({"declared_by": "the recipe", "units": UNITS, "columns": columns})
    frame = pd.DataFrame(
        {column: rng.choice(list("abcdef"), UNITS, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02]) for column in columns}
    )
    table, canaries = plant(frame, schema, CANARIES)
    generator = made(name, {"steps": 20} if quick and name != "independent" else {})
    release = Synthesizer(generator, schema=schema, budget=Budget(epsilon, DELTA)).fit(table)
    return one_run.audit_model(release.model, canaries, release.statement.epsilon, DELTA, gate_error=gate_error)


def row(name: str, how: str, found: Audit) -> Row:
    """An audit by many runs as plain values."""
    verdict = found.verdict
    return {
        "what": name,
        "how": how,
        "claimed": found.epsilon,
        "measured": verdict.epsilon,
        "gaussian": found.gaussian_epsilon,
        "gaussian_plan": found.claim.mu is not None,
        "runs": verdict.runs,
        "tuning_runs": found.tuning_runs,
        "contradicted": verdict.contradicted,
    }


def once(name: str, how: str, found: one_run.OneRun) -> Row:
    """A one-run audit as plain values."""
    values = dataclasses.asdict(found)
    return {"what": name, "how": how, "measured": values.pop("epsilon"), "gaussian": None, "runs": 1, **values}


def report(rows: list[Row], provenance: Mapping[str, Any], seconds: float) -> str:
    """Markdown: a table of claimed against measured."""
    lines = [
        "# Audits: claimed against measured epsilon",
        "",
        f"delta {DELTA:g}; lower bounds with 95 % confidence each; the gate's error over the whole report is {GATE:g}. A measured",
        "epsilon far below the claim says that the attack is weak, above the claim that the claim is false. The Gaussian bound",
        "is valid where the plan is one Gaussian (unsampled), a diagnostic in brackets elsewhere.",
        "",
        "| mechanism | audit | runs a side | claimed | measured | Gaussian bound | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in rows:
        gaussian = "" if each["gaussian"] is None else f"{each['gaussian']:.2f}"
        gaussian = gaussian if each.get("gaussian_plan", True) else f"({gaussian})"
        verdict = "**contradicted**" if each["contradicted"] else "stands"
        cells = [each["what"], each["how"], str(each["runs"]), f"{each['claimed']:.2f}", f"{each['measured']:.2f}"]
        lines.append("| " + " | ".join([*cells, gaussian, verdict]) + " |")
    machine = f"{provenance['processor']}, {provenance['cores']} cores"
    lines += [
        "",
        "![claimed against measured](audit.png)",
        "",
        f"{seconds:.0f} s on {machine}; commit {provenance['commit']}.",
        "",
    ]
    return "\n".join(lines)


def plot(rows: list[Row]) -> Figure:
    """One panel per mechanism: measured against claimed, the claim as a line that nothing may pass."""
    panels = list(dict.fromkeys(each["what"] for each in rows))
    figure = Figure(figsize=(4.2 * len(panels), 4.4), layout="constrained")
    most = 1.05 * max(each["claimed"] for each in rows)
    for axes, what in zip(np.atleast_1d(figure.subplots(1, len(panels), sharey=True)), panels, strict=True):
        axes.fill_between([0, most], [0, most], most, color="#b03a2e", alpha=0.08, linewidth=0)
        axes.plot([0, most], [0, most], color="#b03a2e", linewidth=1.2, label="the claim")
        kinds = list(dict.fromkeys(each["how"].split(", noise")[0] for each in rows if each["what"] == what))
        for kind, marker, colour in zip(
            kinds, "osD^v", ("#1f5f8b", "#2e8b57", "#8b6f1f", "#6a3d9a", "#444444"), strict=False
        ):
            own = [each for each in rows if each["what"] == what and each["how"].split(", noise")[0] == kind]
            axes.scatter(
                [e["claimed"] for e in own], [e["measured"] for e in own], marker=marker, color=colour, label=kind, s=34
            )
            bounds = [(e["claimed"], e["gaussian"]) for e in own if e["gaussian"] is not None]
            if bounds:
                x, y = zip(*bounds, strict=True)
                axes.scatter(
                    x, y, marker=marker, facecolor="none", edgecolor=colour, label=f"{kind}, Gaussian bound", s=34
                )
        axes.set(title=what, xlabel="claimed epsilon", xlim=(0, most), ylim=(-0.02 * most, most))
        axes.legend(fontsize=7, frameon=False, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("measured epsilon (lower bound, 95 %)")
    figure.suptitle(f"Claimed against measured epsilon, delta {DELTA:g}", fontsize=11)
    return figure


if __name__ == "__main__":
    main()
