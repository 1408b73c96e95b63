"""Fits a graphical model to noisy tables, by our own mirror descent or by the field's own library.

`mbi` (McKenna, Sheldon & Miklau) runs on JAX, here in float64, switched on for its calls alone: in float32 its line search stalls on
large counts. It compiles a program for every set of tables, five to ten CPU seconds each, where our own mirror descent needs
well under one; the two agree (a test says so), and from the fitted potentials on everything is the same.
"""

import importlib.util
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.generators.marginals.junction_tree import (
    Array,
    Clique,
    Network,
    Tree,
    conditionals,
    gathered,
    joints,
    network_of,
    tree_of,
)
from synthdp.options import one_of, option

# ---- A graphical model fitted to noisy tables: mirror descent over its marginals (McKenna, Sheldon & Miklau 2019, "Graphical-model based
# estimation and inference for differential privacy", algorithm 1), in numpy.
#
# Of all distributions nearest to the tables it has the largest entropy. A step moves the potentials along the gradient of the squared
# residuals in deviations of the noise; its length is found by Armijo's rule.


LEAST_DEVIATION = 0.5  # records: a noiseless table is weighed as if it had so much
BLOCK, PATIENCE = 50, 2  # a fit ends when so many blocks of so many steps in a row have gained too little
LONGER, SHORTER = 1.1, 0.5  # the next step, after one that was taken, or was not


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """A noisy table of numbers of records, one axis per column of the clique, and the deviation of its cells."""

    clique: Clique
    table: Array
    deviation: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """`network` is the fitted distribution; `potentials` are where a fit to more tables goes on; `loss` is half of the sum of the
    squared residuals in deviations, about half the number of measured cells where the model is right."""

    network: Network
    potentials: Mapping[Clique, Array]
    loss: float


def fit(
    sizes: Sequence[int],
    measured: Sequence[Measured],
    total: float,
    *,
    iterations: int,
    tolerance: float = 1e-4,
    start: Mapping[Clique, Array] | None = None,
) -> Fitted:
    """At most `iterations` steps; fewer when `BLOCK` of them gain no more than `tolerance` of the loss, twice in a row."""
    tree = tree_of(sizes, [each.clique for each in measured])
    theta = {each.clique: np.zeros(each.table.shape) for each in measured} | dict(start or {})
    current = _evaluated(tree, theta, measured, total)
    step = 2.0 / (total * max(_curvature(tree, measured), 1e-300))
    known, stalled = current.loss, 0
    for iteration in range(1, iterations + 1):
        moved = {clique: theta[clique] - step * slope for clique, slope in current.gradient.items()}
        other = _evaluated(tree, {**theta, **moved}, measured, total)
        apart = sum(
            float((slope * (current.marginals[clique] - other.marginals[clique])).sum())
            for clique, slope in current.gradient.items()
        )
        if current.loss - other.loss >= 0.5 * step * apart or apart == 0:
            theta, current, step = {**theta, **moved}, other, LONGER * step
        else:
            step *= SHORTER
        if iteration % BLOCK == 0:
            stalled = stalled + 1 if known - current.loss <= tolerance * max(current.loss, 1.0) else 0
            known = current.loss
            if stalled == PATIENCE:
                break
    return Fitted(network=network_of(tree, current.given), potentials=theta, loss=current.loss)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Evaluated:
    given: tuple[Array, ...]
    marginals: dict[Clique, Array]  # in records
    gradient: dict[Clique, Array]
    loss: float


def _evaluated(tree: Tree, theta: Mapping[Clique, Array], measured: Sequence[Measured], total: float) -> _Evaluated:
    given = conditionals(tree, theta)
    scopes = joints(tree, given)
    marginals: dict[Clique, Array] = {}
    gradient: dict[Clique, Array] = {}
    loss = 0.0
    for each in measured:
        if each.clique not in marginals:
            column = tree.holder(each.clique)
            marginals[each.clique] = total * gathered(scopes[column], tree.scope(column), each.clique)
        apart = (marginals[each.clique] - each.table) / max(each.deviation, LEAST_DEVIATION) ** 2
        loss += 0.5 * float((apart * (marginals[each.clique] - each.table)).sum())
        gradient[each.clique] = gradient[each.clique] + apart if each.clique in gradient else apart
    return _Evaluated(given=given, marginals=marginals, gradient=gradient, loss=loss)


def _curvature(tree: Tree, measured: Sequence[Measured]) -> float:
    """A bound on the largest second derivative of the loss by a cell of a scope."""
    sums: dict[int, float] = {}
    for each in measured:
        column = tree.holder(each.clique)
        summed = float(np.prod([tree.sizes[other] for other in tree.scope(column)])) / each.table.size
        sums[column] = sums.get(column, 0.0) + summed / max(each.deviation, LEAST_DEVIATION) ** 2
    return max(sums.values())


ENGINES = ("numpy", "mbi")
EXTRA = "marginals"


def engine_option() -> Any:
    """The option `engine`."""
    told = "what fits the graphical model: numpy, or mbi (the field's library, slower here)"
    return option("numpy", told, one_of(*ENGINES))


def check_engine(engine: str) -> None:
    """Raises `BadInput` for an engine that is not installed."""
    if engine == "mbi" and importlib.util.find_spec("mbi") is None:
        raise BadInput(
            f"generator.engine=mbi needs the package mbi: pip install 'synthdp[{EXTRA}]', or take engine=numpy"
        )


def fitter(engine: str) -> Callable[..., Fitted]:
    """`descent.fit`, or the same by `mbi`."""
    return fit if engine == "numpy" else by_mbi


def by_mbi(
    sizes: Sequence[int],
    measured: Sequence[Measured],
    total: float,
    *,
    iterations: int,
    tolerance: float = 1e-4,
    start: Mapping[Clique, Array] | None = None,
) -> Fitted:
    """What `descent.fit` promises; `iterations` are rounded up to blocks of 50."""
    import jax

    with jax.enable_x64(True):
        with warnings.catch_warnings():
            # It asks for float64 in the whole process, and for no cache of compiled programs, which there is not by default.
            warnings.filterwarnings("ignore", "JAX (is running in float32|persistent compilation cache)", UserWarning)
            import mbi
        domain = mbi.Domain(tuple(range(len(sizes))), tuple(sizes))
        factors = {
            clique: mbi.Factor(domain.project(clique), jax.numpy.asarray(table))
            for clique, table in (start or {}).items()
        }
        found: Any = mbi.estimation.MirrorDescent().estimate(
            domain,
            [
                mbi.LinearMeasurement(each.table.ravel(), each.clique, stddev=max(each.deviation, LEAST_DEVIATION))
                for each in measured
            ],
            known_total=total,
            iters=iterations,
            tol=tolerance,
            patience=PATIENCE,
            warm_start=mbi.CliqueVector(domain, tuple(factors), factors) if factors else None,
        )
        potentials = {
            tuple(clique): np.asarray(found.potentials[clique].datavector(flatten=False), np.float64)
            for clique in found.potentials.cliques
        }
    tree = tree_of(sizes, [*potentials, *(each.clique for each in measured)])
    return Fitted(network=network_of(tree, conditionals(tree, potentials)), potentials=potentials, loss=math.nan)
