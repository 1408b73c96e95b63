"""Black-box audit of a generator (law 27): many small fits on a worst-case pair, and a guess which side each came from.

Every fit takes the production path: a frame sealed anew, noise from the operating system, the generator's own `fit`.
Only the noise multiplier was found beforehand, once, since it is a function of the plan. The generator's own coins
(initial weights, latent draws) are fixed, as the adversary of differential privacy may know all but the noise.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp import generators
from synthdp.auditing import processes
from synthdp.auditing.claims import Audit, claim_of
from synthdp.auditing.direction import Direction
from synthdp.data.codec import Codec
from synthdp.data.schema import Schema
from synthdp.errors import BadInput
from synthdp.evaluate.audit import judge, tune
from synthdp.generators import Generator, Model
from synthdp.privacy.account import Account
from synthdp.privacy.budget import Budget
from synthdp.privacy.events import RECORD, merged
from synthdp.privacy.ledger import Ledger
from synthdp.privacy.sensitive import Sensitive

COINS = 0  # of the generator, public
CHUNK = 50  # fits per job
DRAWN = 1000  # rows drawn from each model
MOST_FEATURES = 400  # numbers of a model's arrays that are looked at

Table = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two frames of which one holds one more unit, under one schema."""

    schema: Schema
    without: pd.DataFrame
    with_: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class Fits:
    """One job: `runs` fits on one frame."""

    generator: Generator
    schema: Schema
    frame: pd.DataFrame
    budget: Budget
    noise: float
    runs: int


def worst_case() -> Pair:
    """Law 27's pair: D = 4 x (0, 0, 0) against D + (1, 1, 1). Most of the noise is then cut off at zero."""
    return _pair(zeros=4, ones=0)


def rare() -> Pair:
    """400 x (0, 0, 0) and 40 x (1, 1, 1) against one (1, 1, 1) more: counts that the noise leaves above zero, and a total
    that hardly varies, so that shares keep almost all that the noisy counts say.
    """
    return _pair(zeros=400, ones=40)


PAIRS = {"worst_case": worst_case, "rare": rare}


def small(generator: Generator) -> Generator:
    """The generator with its `audit_settings` wherever a setting is at its default: what makes thousands of fits cheap."""
    kind: Any = type(generator)
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    chosen = getattr(kind, "audit_settings", {}).items()
    changed = {name: value for name, value in chosen if getattr(generator, name) == defaults[name]}
    made: Generator = dataclasses.replace(generator, **changed)  # type: ignore[type-var]
    return made


def audit(
    generator: Generator,
    budget: Budget,
    *,
    runs: int = 1000,
    tuning_runs: int = 500,
    pair: Pair | None = None,
    error: float = 0.05,
    gate_error: float = 1e-3,
    workers: int | None = None,
    progress: processes.Progress = processes.silent,
) -> Audit:
    """Fit `runs` + `tuning_runs` models on each side of the pair, and judge the claim by the test runs alone.

    Raises `BadInput` where a fit's ledger differs between runs: it would depend on the records.
    """
    if runs < 1 or tuning_runs < 2:
        raise BadInput(f"runs must be 1 or more and tuning_runs 2 or more, got {runs} and {tuning_runs}")
    pair = pair or worst_case()
    generators.check(generator, pair.schema, budget)
    noise = generators.afford(lambda z: generator.plan(pair.schema, z), pair.schema, budget)
    sides = [
        _jobs(generator, pair.schema, frame, budget, noise, runs + tuning_runs) for frame in (pair.without, pair.with_)
    ]
    mixed = [job for both in zip(*sides, strict=True) for job in both]  # the machine's state touches both sides alike
    results = processes.each(fits, mixed, workers, progress)
    if len({head for _, heads in results for head in heads}) != 1:
        raise BadInput(f"{generator.name}: its ledger differs between fits; it must depend on public facts alone")
    without, with_ = (np.concatenate([table for table, _ in results[side::2]]) for side in (0, 1))
    epsilon, claim = claim_of(generator.plan(pair.schema, noise), budget.delta)
    half = tuning_runs // 2  # the direction from one half, the thresholds from the other: the fit flatters itself
    direction = Direction.between(without[:half], with_[:half])
    scores = [direction(side[half:]) for side in (without, with_)]
    rest = tuning_runs - half
    cuts = tune(scores[0][:rest], scores[1][:rest], budget.delta, runs)
    verdict = judge(
        cuts, scores[0][rest:], scores[1][rest:], claim, delta=budget.delta, error=error, gate_error=gate_error
    )
    return Audit(
        name=generator.name, epsilon=epsilon, delta=budget.delta, claim=claim, verdict=verdict, tuning_runs=tuning_runs
    )


def fits(job: Fits) -> tuple[Table, list[str]]:
    """Features of each fitted model, (runs, features), and the head of each fit's ledger."""
    rows, heads = [], []
    for _ in range(job.runs):
        account = Account(job.budget, Ledger(), unit=job.schema.unit or RECORD, noise=job.noise)
        data = Sensitive(job.frame, job.schema, account)
        model = job.generator.fit(data, job.schema, job.budget, seed=COINS)
        if account.plan != merged(account.scoped(job.generator.plan(job.schema, job.noise))):
            raise BadInput(
                f"{job.generator.name}: a fit books other events than its plan says; give all that decides how many"
            )
        account.settle()
        rows.append(features(model))
        heads.append(account.ledger.head)
    return np.stack(rows), heads


def features(model: Model) -> Table:
    """What the adversary sees: the model's arrays (the first `MOST_FEATURES` numbers) and frequencies of drawn records."""
    arrays = [array.ravel().astype(np.float64) for _, array in sorted(model.tensors().items())]
    codec = Codec(model.schema)
    codes = codec.encode(model.sample(DRAWN, seed=COINS))
    drawn = [np.bincount(codes[:, place], minlength=size)[1:] for place, size in enumerate(codec.sizes)]
    full = [[float((codes == codes[:, :1]).all(axis=1).mean()), float((codes > 0).all(axis=1).mean())]]
    return np.concatenate([np.concatenate(arrays)[:MOST_FEATURES], *drawn, *full])


def _jobs(
    generator: Generator, schema: Schema, frame: pd.DataFrame, budget: Budget, noise: float, runs: int
) -> list[Fits]:
    return [
        Fits(generator=generator, schema=schema, frame=frame, budget=budget, noise=noise, runs=size)
        for size in processes.parts(runs, CHUNK)
    ]


def _pair(zeros: int, ones: int) -> Pair:
    names = ("x", "y", "z")
    schema = Schema.from_dict({"units": zeros + ones, "columns": {name: {"kind": "boolean"} for name in names}})
    with_ = pd.DataFrame({name: [False] * zeros + [True] * (ones + 1) for name in names})
    return Pair(schema=schema, without=with_.iloc[:-1].reset_index(drop=True), with_=with_)
