"""What a plan promises, as an audit wants it: a whole curve, not a single pair."""

import math
from dataclasses import dataclass

from synthdp.evaluate.audit import Claim, Verdict
from synthdp.privacy import accounting
from synthdp.privacy.accounting.gaussian import gaussian_epsilon
from synthdp.privacy.events import Gaussian, Plan, Sampled

# From the smallest deltas that runs can tell apart to the largest that leave epsilon above 0.
DELTAS = (1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


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
        """The Gaussian bound as epsilon at `delta`: valid for unsampled Gaussian plans, a diagnostic elsewhere."""
        return gaussian_epsilon(self.verdict.mu, self.delta)


def claim_of(plan: Plan, delta: float) -> tuple[float, Claim]:
    """The claimed epsilon at `delta`, and the claim of these events at many deltas.

    Every pair is the least bound that an accountant proves. Where all events are Gaussians of the whole table, mu is exact:
    the square root of the sum of 1 / noise^2.
    """
    epsilon = accounting.best(plan, delta)[1]
    pairs = [(delta, epsilon), *((each, accounting.best(plan, each)[1]) for each in DELTAS if each > delta)]
    return epsilon, Claim(curve=tuple(pairs), mu=gaussian_mu(plan))


def gaussian_mu(plan: Plan) -> float | None:
    """mu of a plan of unsampled Gaussians (Dong, Roth & Su 2022, corollary 3.3), None for any other plan."""
    squares = 0.0
    for entry in plan:
        event = entry.event
        if isinstance(event, Sampled) and event.rate == 1 and len(event.queries) == 1:
            event = event.queries[0]
        if not isinstance(event, Gaussian) or event.relation != "add_remove":
            return None
        squares += entry.count / event.noise**2 if event.noise else math.inf
    return math.sqrt(squares)
