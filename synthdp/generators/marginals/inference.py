"""By what a graphical model is fitted to noisy tables: our own mirror descent, or the field's own library.

`mbi` (McKenna, Sheldon & Miklau) runs on JAX, here in float64, switched on for its calls alone: in float32 its line search stalls on
large counts. It compiles a program for every set of tables, five to ten CPU seconds each, where `mirror_descent.py` needs well under one;
the two agree (a test says so), and from the fitted potentials on everything is the same.
"""

import importlib.util
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.generators.marginals import mirror_descent
from synthdp.generators.marginals.bayesian_network import Array
from synthdp.generators.marginals.junction_tree import Clique, conditionals, network_of, tree_of
from synthdp.generators.marginals.mirror_descent import LEAST_DEVIATION, PATIENCE, Fitted, Measured

ENGINES = ("numpy", "mbi")
EXTRA = "marginals"


def check_engine(engine: str) -> None:
    """Raises `BadInput` for an engine that is not installed."""
    if engine == "mbi" and importlib.util.find_spec("mbi") is None:
        raise BadInput(
            f"generator.engine=mbi needs the package mbi: pip install 'synthdp[{EXTRA}]', or take engine=numpy"
        )


def fitter(engine: str) -> Callable[..., Fitted]:
    """`descent.fit`, or the same by `mbi`."""
    return mirror_descent.fit if engine == "numpy" else by_mbi


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
