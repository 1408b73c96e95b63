"""Randomised response (Warner 1965): every unit answers one question about itself, and lies by a coin of known bias.

    SYNTHDP_DATA=/path/to/data python recipes/randomised_response.py

Writes reports/randomised_response.{json,md}. Nobody has to be trusted with the records: each report is private by itself, under
replace_one. A fit of synthdp trusts the hospital and is given the records, so this is no option of it; the report shows what that
trust is worth. Question: does this person earn more than 50,000 dollars (Adult's training rows)?
"""

import math
import statistics
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import provenance, spread, write

from synthdp import Budget, accounting
from synthdp.accounting.accountants import pld
from synthdp.ledger.events import Entry, Gaussian
from synthdp.noise.noise import Noise
from synthdp.sets import named

EPSILONS, SEEDS, DELTA = (0.1, 0.3, 1.0, 3.0), range(1000), 1e-5
REPORTS_OF_ONE = (1, 10, 100)  # questions that the same units answer
GRID = 1e-4  # of the privacy loss distribution


def reports(truth: NDArray[np.bool_], epsilon: float, noise: Noise) -> NDArray[np.bool_]:
    """One report per unit: the truth with probability e^epsilon / (1 + e^epsilon), else its contrary.

    Whatever a unit's answer is, either report has at most e^epsilon times the probability that it has under the other answer: that is
    epsilon-differential privacy under replace_one, for a single report, with delta 0.
    """
    lies = noise.uniform(len(truth)) < 1 / (1 + math.exp(epsilon))
    found: NDArray[np.bool_] = truth ^ lies
    return found


def share(reported: NDArray[np.bool_], epsilon: float) -> float:
    """The unbiased estimate of the share of true answers."""
    honest = math.exp(epsilon) / (1 + math.exp(epsilon))
    return float((reported.mean() - (1 - honest)) / (2 * honest - 1))


def deviation(epsilon: float, units: int) -> float:
    """That of `share` around the units' own share: of as many coins."""
    honest = math.exp(epsilon) / (1 + math.exp(epsilon))
    return math.sqrt(honest * (1 - honest) / units) / (2 * honest - 1)


def composed(epsilon: float, count: int) -> float:
    """Epsilon at `DELTA` of so many reports of one unit; each is the very mechanism that dominates what is epsilon-DP."""
    whole = pld.pure(epsilon)(GRID).self_compose(count)
    return min(count * epsilon, float(whole.get_epsilon_for_delta(DELTA)))


def main() -> None:
    """Ask, estimate, account, write."""
    chosen = named.load("adult")
    truth = (chosen.train["income"].astype(str) == chosen.schema.column("income").categories[-1]).to_numpy()
    true, rows = float(truth.mean()), []
    for epsilon in EPSILONS:
        found = [share(reports(truth, epsilon, Noise(seed=seed)), epsilon) for seed in SEEDS]
        errors = [each - true for each in found]
        noise = accounting.calibrate(
            lambda z: (Entry(Gaussian(z, relation="replace_one")),), Budget(epsilon, DELTA, "replace_one")
        )
        rows.append(
            {
                "epsilon": epsilon,
                "error": spread(errors),
                "root_mean_squared_error": math.sqrt(statistics.fmean(each**2 for each in errors)),
                "deviation": deviation(epsilon, len(truth)),
                "trusted": noise
                / len(truth),  # as a fit asks for a count, which charges two changes for one replaced unit
                "composed": {str(count): composed(epsilon, count) for count in REPORTS_OF_ONE},
            }
        )
    result = {"data": "adult", "units": len(truth), "share": true, "delta": DELTA, "rows": rows, **provenance()}
    write("randomised_response", result, page(result))


def page(result: dict[str, Any]) -> str:
    """The table as Markdown."""
    lines = [
        "# Randomised response",
        "",
        f"Each of {result['units']:,} units (Adult's training rows) says once whether it earns more than 50,000 dollars, and says the "
        "contrary with probability 1 / (1 + e^epsilon) (Warner 1965): epsilon-differential privacy of each report by itself, under "
        f"replace_one, delta 0. {result['share']:.4f} of them do. Root mean squared error of the estimated share over {len(SEEDS)} seeds, "
        "the deviation that the formula gives, and that of a Gaussian count at the same epsilon (delta 1e-5, replace_one) where a "
        "hospital is trusted with the records. On the right: epsilon at delta 1e-5 of one person who answers so many questions. "
        "Written by `recipes/randomised_response.py`.",
        "",
        "| epsilon | error | by the formula | with a trusted hospital | times | "
        + " | ".join(f"{count} report{'s' * (count > 1)}" for count in REPORTS_OF_ONE)
        + " |",
        "|" + "---|" * (5 + len(REPORTS_OF_ONE)),
    ]
    for row in result["rows"]:
        cells = [
            f"{row['root_mean_squared_error']:.5f}",
            f"{row['deviation']:.5f}",
            f"{row['trusted']:.6f}",
            f"{row['deviation'] / row['trusted']:.0f}",
            *(f"{value:.4g}" for value in row["composed"].values()),
        ]
        lines.append(f"| {row['epsilon']:g} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"Commit {result['commit']}; {result['processor']}.", ""])


if __name__ == "__main__":
    main()
