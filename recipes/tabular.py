"""Ten tables, every generator of tables and some of others, at epsilon 0.1 to 10: train on synthetic, test on real; distances; cost.

    SYNTHDP_DATA=/path/to/data OMP_NUM_THREADS=1 python recipes/tabular.py [--data stroke meps ...] [--only mixture aim ...]
        [--epsilons 1] [--seeds 3] [--minutes 20]

Writes reports/tabular.{json,md,png}; the report is made of everything that the scratch file holds, so that it can be run in parts;
without a scratch file it goes on from the report.
A trial is one seeded fit with the generator's defaults, as many synthetic rows as there are training rows, and three models that
learn from them and are scored on the real test rows. A fit of more than `--minutes` of CPU is stopped and recorded as such.
The peers (`PEERS`) need `python recipes/peers/install.py`, and run only where they are named in `--only`.
"""

import argparse
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import tabular_page
import trials
from compare_generators import of_tables
from judging import DISTANCES, METRICS, MODELS, NUMBER_METRICS, REFERENCES, Figures, fitted, judged, references
from peers import bridge
from record import HOME, provenance, write
from tabular_page import EPSILONS
from trials import REAL, Trial

from synthdp.sets import named

DELTA = 1e-5
# Smallest first.
DATA = (
    "stroke", "support2", "randhie", "meps", "covid_testing", "nist_acs", "adult", "noshow", "diabetes130",
    "nhanes_2017_2018",
)  # fmt: skip
COSTS = ("fit_seconds", "fit_cpu_seconds", "fit_peak_mib", "epsilon_spent")
# Label -> generator and settings. AIM as in its paper has a model of at most 80 MiB; without that dpmm's outgrows memory. dpsynth's
# documentation advises 1 MiB for trials; SWIFT at its defaults had not ended on Adult after four minutes of CPU.
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "dpmm aim": ("dpmm_aim", {"max_model_size": 80}),
    "dpmm aim, 30 x 250": ("dpmm_aim", {"max_model_size": 80, "rounds": 30, "n_iters": 250}),
    "dpmm mst": ("dpmm_mst", {}),
    "dpsynth aim": ("dpsynth_aim", {"max_model_size": 1}),
    "dpsynth swift": ("dpsynth_swift", {"max_clique_size": 1e5, "pgm_iters": 1000}),
    "mostly argn": ("mostly_argn", {"minutes": 6}),
    "smartnoise aim": ("smartnoise_aim", {}),
    "smartnoise mst": ("smartnoise_mst", {}),
}

# Rows of defaults that were changed since, under what they were.
OLDER: dict[str, tuple[str, dict[str, Any]]] = {"dpgan from label x column": ("dpgan", {"start": "label"})}


def one(trial: Trial, limit: float | None = None) -> Figures:
    """A trial of ours or of a peer's."""
    maker = bridge.fitted if bridge.peer_of(trial.generator) else fitted
    return judged(trial, maker, limit)


def groups_of(data: str, seeds: int) -> dict[tuple[str, float | None], list[Trial]]:
    """(report's name, epsilon) -> the same trial over the seeds."""
    found = references(data, seeds)
    makers: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in of_tables()}
    for label, (name, settings) in (makers | OLDER | PEERS).items():
        for epsilon in EPSILONS:
            made = {"generator": name, "settings": settings, "epsilon": epsilon, "delta": DELTA}
            found[label, epsilon] = [Trial(data=data, label=label, seed=seed, **made) for seed in range(seeds)]
    return found


def chosen(trial: Trial, arguments: argparse.Namespace) -> bool:
    """Whether the command line asks for it; peers only by their label or name."""
    names = (trial.label, trial.generator)
    if arguments.only is None:
        asked = trial.label not in PEERS | OLDER
    else:
        asked = trial.generator in REFERENCES or any(name in arguments.only for name in names)
    seeded = arguments.run_seeds is None or trial.seed in arguments.run_seeds
    return (
        asked
        and seeded
        and (arguments.epsilons is None or trial.epsilon is None or trial.epsilon in arguments.epsilons)
    )


def section(
    data: str, groups: dict[tuple[str, float | None], list[Trial]], known: dict[str, Figures]
) -> dict[str, Any]:
    """What the report holds of one table."""
    figures = (*METRICS, *NUMBER_METRICS, *DISTANCES, *COSTS)
    rows = trials.rows(groups, known, figures)
    lacking = [
        {"generator": label, "epsilon": epsilon}
        for (label, epsilon), group in groups.items()
        if label not in (PEERS | OLDER) and not any(trial.key in known for trial in group)
    ]
    schema = named.schema_of(data)
    return {
        "data": data,
        "target": schema.targets[0],
        "unit": schema.unit or "record",
        "units": schema.units,
        "columns": len(schema.modelled),
        "rows": rows,
        "broken": trials.broken(groups, known),
        "not_run": lacking,
    }


def main() -> None:
    """Run what is lacking and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=None, choices=DATA, metavar="NAME", help="default: all")
    parser.add_argument("--only", nargs="*", default=None, help="generators or peers to run; default: all of ours")
    parser.add_argument("--epsilons", type=float, nargs="*", default=None, help="run these now; default: all")
    parser.add_argument("--seeds", type=int, default=3, help="fits of each kind")
    parser.add_argument("--run-seeds", type=int, nargs="*", default=None, help="run these seeds now; default: all")
    parser.add_argument("--minutes", type=float, default=20, help="of CPU that one fit may take")
    parser.add_argument(
        "--forget", nargs="*", default=(), help="generators whose kept trials are run anew, of --data and --epsilons"
    )
    parser.add_argument("--scratch", type=Path, default=HOME / "outputs" / "tabular.json")
    arguments = parser.parse_args()
    special = {*REFERENCES, *(name for name, _ in PEERS.values() if bridge.present(name))}
    groups = {data: groups_of(data, arguments.seeds) for data in DATA}
    trials.begin(arguments.scratch, "tabular", groups)
    for name in arguments.forget:
        print(trials.forget(name, arguments.scratch, arguments.data, arguments.epsilons), "trials forgotten")
    for data in arguments.data or DATA:
        run(groups[data], arguments, special)
    known = trials.kept((), one, arguments.scratch)
    sections = [part for data in DATA if (part := section(data, groups[data], known))["rows"]]
    result = {
        "delta": DELTA, "models": list(MODELS), "minutes": arguments.minutes, "tables": sections, "peers": list(PEERS),
        "facts": bridge.facts(name for name, _ in PEERS.values()), **provenance(),
    }  # fmt: skip
    write("tabular", result, tabular_page.page(result))
    tabular_page.figure(result, HOME / "reports" / "tabular.png")


def run(groups: dict[Any, list[Trial]], arguments: argparse.Namespace, special: Iterable[str]) -> None:
    """The trials of one table that are asked for and that the scratch file lacks, seed by seed."""
    wanted = [trial for group in groups.values() for trial in group if chosen(trial, arguments)]
    wanted.sort(key=lambda trial: (trial.generator != REAL, trial.seed))
    trials.kept(wanted, partial(one, limit=60 * arguments.minutes), arguments.scratch, special=special)


if __name__ == "__main__":
    main()
