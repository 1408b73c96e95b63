"""A comparison of several releases of the same records: how useful each is, its epsilon, and what all of them cost together.

The figures come from the internal evaluation of each release, given as plain values, so everything here is internal too.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthdp import accounting
from synthdp.accounting.charges import charges
from synthdp.errors import BadInput
from synthdp.ledger.events import Plan
from synthdp.report.statement import Statement
from synthdp.report.words import scientific, upper

# ---- What a whole sweep cost: the events of all its fits put one after another, and accounted as one ledger.
#
# Composition is over the union of the ledgers (law 26: failed, repeated and tuning runs are charged), never a sum of epsilons
# at an unchanged delta. It holds as it stands where the runs were fixed before the first answer was seen, as `--multirun`
# fixes them (law 11).


FREE = "Tuning on public data, or on made-up data as a rehearsal, costs nothing."


def cost(statements: Sequence[Statement], others: Sequence[Plan] = (), unreadable: int = 0) -> dict[str, Any]:
    """{"runs", "rehearsals", "others", "unreadable", "epsilon", "delta", "accountant", "unit", "relation", "added", "reason"}.

    `others` are the events of fits that left a ledger and no release that can be read: stopped, replaced or broken ones; of
    `unreadable` ledgers nothing is known but that they are there. `epsilon` is the least that an accountant proves of all the
    events together at `delta`, the largest of the runs' own; where the events claim as much delta for themselves (law 10), at
    the sum of the runs' deltas. `added` is basic composition: (sum of epsilons, sum of deltas) of the releases. Rehearsals are
    counted apart: no epsilon holds for them. Where nothing can be said epsilon is None, and `reason` tells why.
    """
    counted = [said for said in statements if not said.rehearsal]
    found: dict[str, Any] = {
        "runs": len(counted),
        "rehearsals": len(statements) - len(counted),
        "others": len(others),
        "unreadable": unreadable,
        "unit": sorted({said.unit for said in counted}),
        "relation": sorted({said.relation for said in counted}),
        "added": [math.fsum(said.epsilon for said in counted), math.fsum(said.delta for said in counted)],
        "epsilon": None,
        "delta": None,
        "accountant": None,
        "reason": None,
    }
    if unreadable:
        which = "a ledger" if unreadable == 1 else f"one of {unreadable} ledgers"
        return {**found, "reason": f"{which} cannot be read, so what was charged in it is not known"}
    events = tuple(entry for plan in (*(said.events for said in counted), *others) for entry in plan)
    if not events:
        return {**found, "epsilon": 0.0}
    deltas = [said.delta for said in counted or statements]
    try:
        claimed = charges(events).own_delta
        delta = max(deltas) if claimed < max(deltas) else math.fsum(deltas)
        accountant, epsilon = accounting.best(events, delta)
    except BadInput as error:  # mixed units or relations, or events that no accountant knows together
        return {**found, "reason": str(error)}
    return {**found, "epsilon": epsilon, "delta": delta, "accountant": accountant}


def told(found: dict[str, Any]) -> str:
    return " ".join((*_sum(found), *_apart(found), FREE))


def verdict(found: dict[str, Any]) -> str:
    """The cost in a few words."""
    if found["epsilon"] is None:
        return "Unknown"
    if not found["runs"] and not found["others"]:
        return "No epsilon applies: rehearsals only" if found["rehearsals"] else "Nothing"
    if found["epsilon"] == 0.0:
        return "Nothing"
    if math.isinf(found["epsilon"]):
        return "No guarantee: epsilon is infinite"
    return f"Epsilon {upper(found['epsilon'])} at delta {scientific(found['delta'])}"


def _sum(found: dict[str, Any]) -> list[str]:
    fits = _fits(found["runs"] + found["others"])
    if found["epsilon"] is None:
        return [f"The cost of the whole sweep is unknown: {found['reason']}."]
    if not found["runs"] and not found["others"]:
        return ["Only rehearsals were run, and no epsilon holds for a rehearsal."] if found["rehearsals"] else []
    if found["epsilon"] == 0.0:
        return [f"The whole sweep cost epsilon 0: {fits} asked nothing of the records."]
    if math.isinf(found["epsilon"]):
        return [
            f"The whole sweep cost an infinite epsilon, since at least one fit has no guarantee. Nothing limits what {fits} reveal "
            "together."
        ]
    per = " or ".join(found["unit"]) or "unit"
    said = (
        f"The whole sweep cost epsilon {upper(found['epsilon'])} at delta {scientific(found['delta'])} per {per}, for all events of "
        f"{fits} composed (by {found['accountant']})."
    )
    plural = found["runs"] > 1
    epsilon, delta = found["added"]
    added = f" Their own epsilons and deltas add up to {upper(epsilon)} and {scientific(delta)}." if plural else ""
    fixed = (
        " This holds if all runs were fixed before the first answer was seen, as --multirun fixes them."
        if plural
        else ""
    )
    return [said + added + fixed]


def _apart(found: dict[str, Any]) -> list[str]:
    said = []
    if found["others"]:
        said.append(
            f"The sum includes {_fits(found['others'])} that stopped, {'were' if found['others'] > 1 else 'was'} replaced or cannot be "
            "read (rehearsals too, since a ledger does not tell them apart)."
        )
    if found["rehearsals"]:
        said.append(
            f"{found['rehearsals']} rehearsal{'s are' if found['rehearsals'] > 1 else ' is'} not in the sum: seeded noise can be "
            "removed, so no epsilon holds. Do not release what a rehearsal made."
        )
    return said


def _fits(number: int) -> str:
    return f"{number} fit{'' if number == 1 else 's'}"


SCHEMA_VERSION = 1
STAMP = "Internal: contains statistics of real records. Do not release."
CONFIDENCE = 0.95
# What a target is judged by, the first that is there; rmse and mae alone are better when they are smaller.
MAIN = ("auroc", "r2", "accuracy", "balanced_accuracy")
SHOWN = ("auroc", "auprc", "accuracy", "balanced_accuracy", "r2", "rmse")
LABELS = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "r2": "R2",
    "rmse": "RMSE",
    "tvd_1way": "1-way TVD",
    "tvd_2way": "2-way TVD",
    "tvd_3way": "3-way TVD",
    "detection_auc": "detection",
    "fid": "FID",
}
FIDELITY = ("tvd_1way", "tvd_2way", "tvd_3way", "detection_auc", "fid")
FAITHFUL = ("tvd_2way", "fid")  # the panel's measure, the first that is there


@dataclass(frozen=True, kw_only=True)
class Run:
    """A release of the sweep: its name in the folder, its statement, and its evaluation in the form of `evaluation.json`."""

    name: str
    statement: Statement
    result: Mapping[str, Any]


def comparison(
    runs: Sequence[Run],
    not_compared: Sequence[Mapping[str, str]] = (),
    *,
    charged: Mapping[str, Any] | None = None,
    stopped: bool = False,
) -> dict[str, Any]:
    """The comparison as plain values for `compare.json`: about, cost, panels, runs, not_compared, stopped.

    A panel has a line per generator with a point per epsilon; a point is the mean over its runs with a 95 % interval:
    Student's t over the runs where there are several, else the evaluation's own interval, else Student's t over its seeds;
    None where there is one figure. `charged` is the sweep's `cost`, by default that of the runs' statements.
    """
    spent = dict(charged) if charged is not None else cost([run.statement for run in runs])
    about = dict(runs[0].result["about"]) if runs else {}
    return {
        "schema_version": SCHEMA_VERSION,
        "internal": STAMP,
        "about": {name: about.get(name) for name in ("data", "rows", "seeds", "models", "versions")},
        "stopped": stopped,
        "cost": {**spent, "words": told(spent)},
        "panels": [*_utility(runs), *_fidelity(runs)],
        "runs": [_row(run, _differing(runs, run.statement.generator)) for run in runs],
        "not_compared": [dict(entry) for entry in not_compared],
    }


def mean_interval(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """{"mean", "interval", "over", "n", "values"} of the same figure of several runs, each a summary with its mean."""
    values = [float(figure["mean"]) for figure in runs]
    found: dict[str, Any] = {"mean": statistics.fmean(values), "n": len(values), "values": values}
    if len(values) > 1:
        return {**found, "interval": student(values), "over": "runs"}
    only = runs[0]
    if only.get("interval") is not None:
        return {**found, "interval": [float(end) for end in only["interval"]], "over": "evaluation"}
    if len(only.get("values", ())) > 1:
        return {**found, "interval": student(only["values"]), "over": "seeds"}
    return {**found, "interval": None, "over": None}


def student(values: Sequence[float]) -> list[float]:
    """The 95 % interval of the mean of two or more values by Student's t, which takes them for independent and normal."""
    from scipy.stats import t

    mean = statistics.fmean(values)
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return [mean - half, mean + half]


def settings(values: Mapping[str, Any]) -> str:
    """Settings as `name=value` words; a dash where there is none."""
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "-"


def _utility(runs: Sequence[Run]) -> Iterable[dict[str, Any]]:
    for target in _every(run.result["targets"] for run in runs):
        entries = [(run, run.result["targets"][target]) for run in runs if target in run.result["targets"]]
        arms = [entry["average"] for _, entry in entries]
        metric = next((name for name in MAIN if any(name in arm.get("tstr", {}) for arm in arms)), None)
        if metric is None:
            continue
        first = entries[0][1]
        real, floors = first["average"].get("trtr", {}), first.get("floors", {})
        lines = [
            ("real training rows (ceiling)", "ceiling", real.get(metric)),
            ("floor: unrelated columns", "floor", first["average"].get("independent", {}).get(metric)),
            ("floor: always predicting the majority class", "majority", floors.get("majority", {}).get(metric)),
        ]
        yield {
            "id": f"utility-{target}",
            "title": f"Utility: predicting {target}",
            "metric": metric,
            "label": LABELS[metric],
            "better": "higher",
            "references": [_reference(*line) for line in lines if line[2] is not None],
            "lines": _lines([(run, entry["average"].get("tstr", {}).get(metric)) for run, entry in entries]),
        }


def _fidelity(runs: Sequence[Run]) -> Iterable[dict[str, Any]]:
    metric = next((name for name in FAITHFUL if any(name in run.result["fidelity"] for run in runs)), None)
    if metric is None:
        return
    figures = [(run, run.result["fidelity"].get(metric)) for run in runs]
    floor = next((figure.get("floor") for _, figure in figures if figure is not None), None)
    words = "pairs of columns, by total variation distance" if metric == "tvd_2way" else LABELS[metric]
    # the spread over pairs of columns in it says nothing of how sure its mean is
    means = [(run, figure and {"mean": figure["mean"]}) for run, figure in figures]
    yield {
        "id": "fidelity",
        "title": f"Fidelity: {words}",
        "metric": metric,
        "label": LABELS[metric],
        "better": "lower",
        "references": [] if floor is None else [_reference("real held-out rows in their place", "ceiling", floor)],
        "lines": _lines(means),
    }


def _reference(label: str, kind: str, figure: Mapping[str, Any]) -> dict[str, Any]:
    return {"label": label, "kind": kind, "mean": figure["mean"], "interval": figure.get("interval")}


def _lines(figures: Sequence[tuple[Run, Mapping[str, Any] | None]]) -> list[dict[str, Any]]:
    """A line per generator (and delta, where the deltas differ), its points in the order of epsilon."""
    deltas = {run.statement.budget.delta for run, _ in figures}
    groups: dict[tuple[str, float], dict[float, list[tuple[Run, Mapping[str, Any]]]]] = {}
    for run, figure in figures:
        if figure is not None:
            said = run.statement
            points = groups.setdefault((said.generator, said.budget.delta), {})
            points.setdefault(said.budget.epsilon, []).append((run, figure))
    return [
        {
            "generator": name,
            "label": name if len(deltas) == 1 else f"{name}, delta {delta:g}",
            "delta": delta,
            "points": [
                {
                    "epsilon": epsilon,
                    **mean_interval([figure for _, figure in group]),
                    "runs": [run.name for run, _ in group],
                    "settings": len({repr(run.statement.settings) for run, _ in group}),
                }
                for epsilon, group in sorted(points.items())
            ],
        }
        for (name, delta), points in sorted(groups.items())
    ]


def _row(run: Run, differing: Sequence[str]) -> dict[str, Any]:
    """One release: its guarantee, the settings in which it differs from its generator's other runs, its figures."""
    said, result = run.statement, run.result
    return {
        "run": run.name,
        "generator": said.generator,
        "epsilon": said.epsilon,
        "delta": said.delta,
        "budget": said.budget.epsilon,
        "unit": said.unit,
        "relation": said.relation,
        "accountant": said.accountant,
        "rehearsal": said.rehearsal,
        "settings": {name: said.settings.get(name) for name in differing},
        "utility": {
            target: _main(entry.get("average", {}).get("tstr", {})) for target, entry in result["targets"].items()
        },
        "fidelity": {name: result["fidelity"][name]["mean"] for name in FIDELITY if name in result["fidelity"]},
        "not_computed": list(result["not_computed"]),
    }


def _main(arm: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {key: arm[name].get(key) for key in ("mean", "sd", "n", "interval")} for name in SHOWN if name in arm}


def _differing(runs: Sequence[Run], generator: str) -> list[str]:
    """The settings that are not the same in all runs of a generator."""
    values = [run.statement.settings for run in runs if run.statement.generator == generator]
    return [name for name in _every(values) if len({repr(value.get(name)) for value in values}) > 1]


def _every(groups: Iterable[Iterable[str]]) -> list[str]:
    """The names in any group, each once, in the order of their first appearance."""
    return list(dict.fromkeys(name for group in groups for name in group))
