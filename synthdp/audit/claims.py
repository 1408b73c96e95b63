"""What a plan promises, as an audit wants it (a whole curve, not a single pair), and what was found beside it."""

import math
from dataclasses import dataclass
from functools import lru_cache

from synthdp import accounting
from synthdp.accounting.analytic_gaussian import gaussian_epsilon
from synthdp.accounting.charges import charges, contributions
from synthdp.audit import Claim, Scores, Verdict, judge, tune, word
from synthdp.ledger.events import Gaussian, Plan

# From the smallest deltas that runs can tell apart to the largest that leave epsilon above 0.
DELTAS = (1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.8)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What was claimed and what was measured; `epsilon` is the claim at `delta`."""

    name: str
    epsilon: float
    delta: float
    claim: Claim
    verdict: Verdict
    tuning_runs: int

    @property
    def gaussian_epsilon(self) -> float:
        """The Gaussian bound as epsilon at `delta`: valid where the claim is Gaussian, a diagnostic elsewhere."""
        return gaussian_epsilon(self.verdict.mu, self.delta)

    @property
    def estimate(self) -> tuple[float, float, float]:
        """The Gaussian point estimate of epsilon at `delta`, and epsilon one standard error below and above; no bound."""
        mu, error = self.verdict.mu_estimate, self.verdict.mu_error
        low, middle, high = (gaussian_epsilon(max(0.0, mu + step * error), self.delta) for step in (-1, 0, 1))
        return middle, low, high

    @property
    def found(self) -> float:
        """The largest lower bound that is valid for this claim."""
        return max(self.verdict.epsilon, 0.0 if self.claim.mu is None else self.gaussian_epsilon)

    @property
    def word(self) -> str:
        """ "contradicted", "stands" or "no power"."""
        return word(self.found, self.epsilon, contradicted=self.verdict.contradicted)


def judged(
    name: str,
    plan: Plan,
    delta: float,
    without: Scores,
    with_: Scores,
    *,
    tuning_runs: int,
    error: float,
    gate_error: float,
) -> Audit:
    """What a plan claims at `delta`, judged by scores of both sides: the first `tuning_runs` choose the thresholds, the others judge."""
    epsilon, claim = claim_of(plan, delta)
    cuts = tune(without[:tuning_runs], with_[:tuning_runs], delta, len(without) - tuning_runs)
    verdict = judge(
        cuts, without[tuning_runs:], with_[tuning_runs:], claim, delta=delta, error=error, gate_error=gate_error
    )
    return Audit(name=name, epsilon=epsilon, delta=delta, claim=claim, verdict=verdict, tuning_runs=tuning_runs)


@lru_cache(maxsize=256)
def claim_of(plan: Plan, delta: float) -> tuple[float, Claim]:
    """The claimed epsilon at `delta`, and the claim of these events at many deltas.

    Every pair is the least bound that an accountant proves. Where all events are Gaussians of the whole table, mu is exact.
    """
    epsilon = accounting.best(plan, delta)[1]
    pairs = [(delta, epsilon), *((each, accounting.best(plan, each)[1]) for each in DELTAS if each > delta)]
    return epsilon, Claim(curve=tuple(pairs), mu=gaussian_mu(plan))


def gaussian_mu(plan: Plan) -> float | None:
    """mu of a plan of unsampled Gaussians, votes with Gaussian noise and Gaussian caps: the root of the sum of the squared distances of
    their means (Dong, Roth & Su 2022, corollary 3.3; of caps, Smith & Thakurta 2022). None for any other plan."""
    charged = charges(plan)
    if charged.own_delta:
        return None
    squares = 0.0
    for entry in charged.entries:
        if not isinstance(entry.event, Gaussian):
            return None
        squares += entry.count * (contributions(entry.event) / entry.event.noise) ** 2
    return math.sqrt(squares)
