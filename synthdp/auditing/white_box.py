"""White-box audit of DP-SGD: gradient canaries (Nasr et al. 2021 and 2023, arXiv 2101.04535 and 2302.07956).

The adversary chooses the network and sees every noisy gradient. The canary's gradient is far beyond the clip, along a
direction that no other record touches, so that each step says x_t = b_t + noise, b_t the coin of the sample. The questions are
the production ones: `sample(rate)` and `gradient` of sealed records.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor, nn

from synthdp.auditing import processes
from synthdp.auditing.claims import Audit, claim_of
from synthdp.data.schema import Schema
from synthdp.evaluate.audit import judge, tune
from synthdp.privacy.account import Account
from synthdp.privacy.budget import Budget
from synthdp.privacy.events import Entry, Event, Gaussian, Plan, Sampled
from synthdp.privacy.ledger import Ledger
from synthdp.privacy.sensitive import Sensitive

CLIP = 0.5
FAR = 1e3  # norm of a canary's gradient before the clip
CHUNK = 100  # trainings per job
ANY = Budget(math.inf, 1e-5)  # the plan is given, not its price

Scores = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Training:
    """DP-SGD of `steps` steps at `rate` and `noise`; rate 1 takes every record in every step."""

    noise: float
    rate: float = 1.0
    steps: int = 1

    @property
    def event(self) -> Event:
        """One step."""
        return Sampled(self.rate, (Gaussian(self.noise),))

    @property
    def plan(self) -> Plan:
        """All steps."""
        return (Entry(self.event, self.steps),)

    def gradients(self, canaries: int, included: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The noisy gradient along each canary's direction, in units of the clip, (steps, canaries).

        Trained on the `included` canaries and on one record without a gradient. Its coins and noise are the seal's.
        """
        frame = pd.DataFrame({"who": ["nobody", *(f"c{place}" for place in np.flatnonzero(included))]})
        data = Sensitive(frame, _schema(canaries), Account(ANY, Ledger()))
        data.commit(lambda _: self.plan, ANY)
        data.resolve()
        module = nn.Linear(canaries, 1, bias=False)
        rows = []
        for _ in data.steps(self.event, self.steps, dict):
            with data.sample(self.rate) as batch:
                answer = batch.gradient(module, _loss, CLIP, self.noise)
            rows.append(answer["weight"].reshape(-1).double().numpy() / CLIP)
        return np.stack(rows)

    def evidence(self, gradients: NDArray[np.float64]) -> Scores:
        """Log-likelihood ratio of "in" to "out" for each canary, (canaries,): the best test there is, by Neyman and Pearson."""
        z = max(self.noise, 1e-12)
        inside = (gradients - 0.5) / z**2
        if self.rate == 1:
            total: Scores = inside.sum(axis=0)
        else:
            total = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + inside).sum(axis=0)
        return total


@dataclass(frozen=True, kw_only=True)
class Trainings:
    """One job: `runs` trainings with the canary in, or out."""

    training: Training
    inside: bool
    runs: int


def scores(job: Trainings) -> Scores:
    """The evidence of each training that its canary was in, (runs,)."""
    coins = np.array([job.inside])
    return np.concatenate([job.training.evidence(job.training.gradients(1, coins)) for _ in range(job.runs)])


def audit(
    training: Training,
    delta: float,
    *,
    runs: int = 1000,
    tuning_runs: int = 500,
    error: float = 0.05,
    gate_error: float = 1e-3,
    workers: int | None = None,
    progress: processes.Progress = processes.silent,
) -> Audit:
    """`runs` + `tuning_runs` trainings with the canary and as many without; the claim is judged by the test runs alone."""
    sizes = processes.parts(runs + tuning_runs, CHUNK)
    jobs = [Trainings(training=training, inside=inside, runs=size) for size in sizes for inside in (False, True)]
    results = processes.each(scores, jobs, workers, progress)
    without, with_ = (np.concatenate(results[side::2]) for side in (0, 1))
    epsilon, claim = claim_of(training.plan, delta)
    cuts = tune(without[:tuning_runs], with_[:tuning_runs], delta, runs)
    verdict = judge(
        cuts, without[tuning_runs:], with_[tuning_runs:], claim, delta=delta, error=error, gate_error=gate_error
    )
    name = ", ".join(f"{key} {value:g}" for key, value in dataclasses.asdict(training).items())
    return Audit(name=name, epsilon=epsilon, delta=delta, claim=claim, verdict=verdict, tuning_runs=tuning_runs)


@lru_cache(maxsize=4)
def _schema(canaries: int) -> Schema:
    categories = [*(f"c{place}" for place in range(canaries)), "nobody"]
    return Schema.from_dict({"units": canaries, "columns": {"who": {"kind": "categorical", "categories": categories}}})


def _loss(module: nn.Module, codes: Tensor) -> Tensor:
    """FAR times the weight of the record's own direction; the last code has none."""
    ones = nn.functional.one_hot(codes[:, 0].long(), _width(module) + 1)[:, :-1].float()
    values: Tensor = module(FAR * ones)
    return values.squeeze(1)


def _width(module: nn.Module) -> int:
    weight = module.get_parameter("weight")
    return weight.shape[1]
