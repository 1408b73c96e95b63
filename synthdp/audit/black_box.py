"""Black-box audit of a generator (law 27): many small fits on a worst-case pair, and a guess at which side each came from.

Every fit that is judged takes the production path: a frame sealed anew, noise from the operating system, the generator's own `fit`.
Only the noise multiplier was found beforehand, once, since it is a function of the plan. The generator's own coins (initial weights,
latent draws) are fixed, as the adversary of differential privacy may know all but the noise.

The adversary prepares by fits of their own on both tables of the pair, which are rehearsals: fit i of either side has the same noise,
so that what is left of the difference is the record's doing.
"""

import dataclasses
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from synthdp import generators
from synthdp.audit.claims import Audit, judged
from synthdp.audit.worst_pairs import Pair, case_of
from synthdp.errors import BadInput
from synthdp.generators import Generator, Model, Tensors
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, merged
from synthdp.ledger.ledger import Ledger
from synthdp.schema.codec import Codec
from synthdp.seal import Sensitive
from synthdp.seal.charging import Account

# ---- Many small fits on a few processes.


Job = TypeVar("Job")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]  # jobs done, jobs


def silent(done: int, of: int) -> None:
    """A progress callback that shows nothing."""


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parts(number: int, size: int) -> list[int]:
    """`number` runs in parts of at most `size`."""
    return [size] * (number // size) + ([number % size] if number % size else [])


def each(
    work: Callable[[Job], Result], jobs: Sequence[Job], workers: int | None = None, progress: Progress = silent
) -> list[Result]:
    """`work` of each job, in their order, on `workers` fresh processes (default: all cores; 1: in this one).

    The processes are spawned, not forked: none starts with a copy of this one's state, one thread each. `work` must be
    importable. An interrupt ends them and passes on.
    """
    count, results = min(workers or cores(), len(jobs)), list[Result]()
    with ExitStack() as stack:
        found: Iterator[Result] = map(work, jobs)
        if count > 1:
            pool = ProcessPoolExecutor(count, get_context("spawn"), _start)
            stack.callback(pool.shutdown, cancel_futures=True)
            found = pool.map(work, jobs)
        for result in found:
            results.append(result)
            progress(len(results), len(jobs))
    return results


def _start() -> None:
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and says what to do


# ---- Which way to look: the direction in feature space that best tells models with a record from those without.

Table = NDArray[np.float64]
CONSTANT = 1e-9  # features that vary less than this, relative to their size, say nothing
STRONGEST = 100  # most features in a direction: so few runs cannot tell how more of them vary together


@dataclass(frozen=True, kw_only=True)
class Direction:
    """A linear score of standardised features."""

    centre: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def between(cls, without: Table, with_: Table) -> "Direction":
        """Fisher's discriminant of the features whose means lie farthest apart in deviations, learned from runs of both sides; the
        covariance is shrunk as Ledoit & Wolf (2004) say.

        Where run i of both sides had the same noise, most of it cancels in the difference of the means: then few runs suffice.
        """
        from sklearn.covariance import ledoit_wolf

        both = np.concatenate([without, with_])
        centre, spread = both.mean(axis=0), both.std(axis=0)
        live = np.flatnonzero(spread > CONSTANT * (1 + np.abs(centre)))
        weights = np.zeros(both.shape[1])
        if len(live):
            apart = np.abs(with_.mean(axis=0) - without.mean(axis=0))[live] / spread[live]
            live = live[np.argsort(-apart, kind="stable")[:STRONGEST]]
            means = [(side[:, live].mean(axis=0) - centre[live]) / spread[live] for side in (without, with_)]
            parts = zip((without, with_), means, strict=True)
            rest = np.concatenate([(side[:, live] - centre[live]) / spread[live] - mean for side, mean in parts])
            covariance = ledoit_wolf(rest, assume_centered=True)[0] + CONSTANT * np.eye(len(live))
            weights[live] = np.linalg.solve(covariance, means[1] - means[0]) / spread[live]
        return cls(centre=centre, weights=weights)

    def __call__(self, features: Table) -> NDArray[np.float64]:
        """One score per run, higher for "with the record"."""
        return (features - self.centre) @ self.weights


COINS = 0  # of the generator, public
CHUNK = 50  # fits per job
DRAWN = 1000  # rows drawn from a model that has no arrays


@dataclass(frozen=True, kw_only=True)
class Fits:
    """One job: `runs` fits on one side of the pair at `noise`, rehearsals of the seeds from `seed` on where there is one."""

    generator: Generator
    pair: Pair
    inside: bool
    budget: Budget
    noise: float
    runs: int
    seed: int | None = None


def audit(
    generator: Generator,
    budget: Budget,
    *,
    runs: int = 1000,
    tuning_runs: int = 400,
    pair: Pair | None = None,
    share: float = 1.0,
    error: float = 0.05,
    gate_error: float = 1e-3,
    workers: int | None = None,
    progress: Progress = silent,
) -> Audit:
    """Fit `runs` + `tuning_runs` models on each side of the pair, and judge the claim by the test runs alone.

    `share` of the noise is drawn and all of it claimed: below 1 a claim is false, and the audit shows whether it would be noticed.
    Raises `BadInput` where a fit's ledger differs between runs: it would depend on the records.
    """
    if runs < 1 or tuning_runs < 4:
        raise BadInput(f"runs must be 1 or more and tuning_runs 4 or more, got {runs} and {tuning_runs}")
    pair = pair or case_of(generator).pair()
    generators.check(generator, pair.schema, budget)
    noise = generators.afford(lambda z: generator.plan(pair.schema, z), pair.schema, budget)
    job = Fits(generator=generator, pair=pair, inside=False, budget=budget, noise=noise * share, runs=0)
    if share != 1:
        job = dataclasses.replace(job, budget=dataclasses.replace(budget, epsilon=math.inf))
    jobs = [*_jobs(dataclasses.replace(job, seed=COINS), tuning_runs), *_jobs(job, runs)]
    results = each(fits, jobs, workers, progress)
    if len({head for _, heads in results for head in heads}) != 1:
        raise BadInput(f"{generator.name}: its ledger differs between fits, but must depend on public facts alone")
    tables = _stacked([table for table, _ in results])
    without, with_ = (np.concatenate(tables[side::2]) for side in (0, 1))
    half = tuning_runs // 2  # the direction from one half, the thresholds from the other: the fit flatters itself
    direction = Direction.between(without[:half], with_[:half])
    scores = [direction(side[half:]) for side in (without, with_)]
    plan = generator.plan(pair.schema, noise)
    found = judged(
        generator.name, plan, budget.delta, *scores, tuning_runs=tuning_runs - half, error=error, gate_error=gate_error
    )
    return dataclasses.replace(found, tuning_runs=tuning_runs)


def fits(job: Fits) -> tuple[Table, list[str]]:
    """Features of each fitted model, (runs, features), and the head of each fit's ledger."""
    rows, heads = [], []
    schema, frame = job.pair.schema, job.pair.with_ if job.inside else job.pair.without
    for run in range(job.runs):
        account = Account(job.budget, Ledger(), unit=schema.unit or RECORD, noise=job.noise)
        data = Sensitive(frame, schema, account, seed=None if job.seed is None else job.seed + run)
        model = job.generator.fit(data, seed=COINS)
        if account.plan != merged(account.scoped(job.generator.plan(schema, job.noise))):
            raise BadInput(
                f"{job.generator.name}: a fit charges other events than its plan; make the plan depend on everything that decides "
                "their number"
            )
        account.settle()
        rows.append(features(model)[None])
        heads.append(account.ledger.head)
    return np.concatenate(_stacked(rows)), heads


def features(model: Model) -> Table:
    """What the adversary looks at, (features,): the model's arrays, and frequencies of drawn records where it has none."""
    arrays = parameters(model.tensors()) or _frequencies(model)
    found: Table = np.nan_to_num(np.concatenate([array.ravel().astype(np.float64) for array in arrays]))
    return found


def parameters(tensors: Tensors) -> list[NDArray[np.float64]]:
    """A model's arrays as the noise moves them smoothly: Gaussians in principal axes, which may turn and change their sign, as the means
    and covariances of the vectors themselves."""
    rest, found = dict(tensors), []
    kinds = [name.removesuffix("factors") for name in tensors if name.endswith("factors")]
    for kind in kinds:
        if not {kind + "axes", kind + "means", kind + "centre"} <= set(tensors):
            continue
        axes, factors, means = (rest.pop(kind + part) for part in ("axes", "factors", "means"))
        roots = np.einsum("...ij,ib->...jb", factors, axes)
        found += [means @ axes + rest[kind + "centre"], np.einsum("...ja,...jb->...ab", roots, roots)]
    return [*found, *(rest[name] for name in sorted(rest))]


def _frequencies(model: Model) -> list[NDArray[np.float64]]:
    codec = Codec(model.schema)
    codes = codec.encode(model.sample(DRAWN, seed=COINS))
    drawn = [np.bincount(codes[:, place], minlength=size)[1:] for place, size in enumerate(codec.sizes)]
    full = [(codes == codes[:, :1]).all(axis=1).mean(keepdims=True), (codes > 0).all(axis=1).mean(keepdims=True)]
    return [*drawn, *full]


def _jobs(job: Fits, runs: int) -> list[Fits]:
    """Both sides by turns, so that the machine's state touches them alike."""
    found, done = [], 0
    for size in parts(runs, CHUNK):
        seed = None if job.seed is None else job.seed + done
        found += [dataclasses.replace(job, inside=inside, runs=size, seed=seed) for inside in (False, True)]
        done += size
    return found


def _stacked(tables: Sequence[Table]) -> list[Table]:
    """Tables of one width: models whose shape is an answer are filled up with zeros."""
    width = max(table.shape[1] for table in tables)
    return [np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in tables]
