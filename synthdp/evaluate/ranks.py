"""Do synthetic rows choose the same model as real ones? Kendall's tau between the models' scores, and the regret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.intervals import LEAST, LEVEL
from synthdp.evaluate.scores import LOWER_IS_BETTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from synthdp.evaluate.trials import Run, Trial

# Two models agree or do not: that is a coin.
MIN_MODELS = 3
STREAM = 11  # of the runs that a draw takes


def ranks(
    metric: str,
    tstr: Mapping[str, Mapping[str, Any]],
    trtr: Mapping[str, Mapping[str, Any]],
    arms: Mapping[str, Mapping[str, Mapping[Run, Trial]]] | None = None,
) -> tuple[dict[str, Any] | None, str | None]:
    """The entry `ranks` of a target, or why there is none. tstr, trtr: model -> metric -> summary.

    kendall: tau-b (Kendall 1945). regret: what the model that synthetic rows put first scores less, on real rows, than
    the one that real rows put first, never below 0. pairs: how many pairs of models are compared. Their intervals, of the
    trials in arms, are percentiles over draws of test rows and of runs; a draw without an order is left out.
    """
    shared = [name for name in tstr if name in trtr and metric in tstr[name] and metric in trtr[name]]
    if len(shared) < MIN_MODELS:
        few = {0: "no model was", 1: "only one model was"}.get(len(shared), f"only {len(shared)} models were")
        return None, f"{few} scored on both synthetic and real training rows; an order needs at least {MIN_MODELS}"
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    made, real = (np.array([sign * arm[name][metric]["mean"] for name in shared]) for arm in (tstr, trtr))
    tau = kendall(made, real)
    if tau is None:
        return None, "all models score the same"
    found: dict[str, Any] = {
        "metric": metric,
        "kendall": tau,
        "pairs": len(shared) * (len(shared) - 1) // 2,
        "best_synthetic": shared[int(made.argmax())],
        "best_real": shared[int(real.argmax())],
        "regret": regret(made, real),
    }
    if arms is not None:
        made, real = (sign * _draws(metric, {name: arms[arm][name] for name in shared}) for arm in ("tstr", "trtr"))
        known = np.isfinite(made + real).all(axis=0)
        pairs = [(kendall(a, b), regret(a, b)) for a, b in zip(made.T[known], real.T[known], strict=True)]
        values = np.array([pair for pair in pairs if pair[0] is not None], dtype=np.float64)
        if len(values) >= max(LEAST, made.shape[1] / 2):
            low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
            found |= {
                "kendall_interval": [float(low[0]), float(high[0])],
                "regret_interval": [float(low[1]), float(high[1])],
            }
    return found, None


def _draws(metric: str, models: Mapping[str, Mapping[Run, Trial]]) -> NDArray[np.float64]:
    """(models, draws): scores on drawn test rows, the mean over drawn runs. Runs are drawn as a whole: synthetic samples where
    there are several, else seeds; all models have the same ones."""
    runs = sorted(next(iter(models.values())))
    whole = len({sample for sample, _ in runs}) > 1
    units = np.unique([sample if whole else seed for sample, seed in runs], return_inverse=True)[1]
    # (models, runs, draws)
    scores = np.array([[trials[run].draws[metric] for run in runs] for trials in models.values()], dtype=np.float64)
    count, draws = int(units.max()) + 1, scores.shape[2]
    rng = np.random.default_rng(STREAM)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=draws)[:, units].T.astype(np.float64)
    mean: NDArray[np.float64] = (scores * (weights / weights.sum(axis=0))).sum(axis=1)
    return mean


def regret(made: NDArray[np.float64], real: NDArray[np.float64]) -> float:
    """By how much the best of real is better than what made puts first."""
    return float(real.max() - real[int(made.argmax())])


def kendall(left: NDArray[np.float64], right: NDArray[np.float64]) -> float | None:
    """Kendall's tau-b; None where one side has only ties."""
    pairs = np.triu_indices(len(left), 1)
    a, b = (np.sign(side[:, None] - side)[pairs] for side in (left, right))
    ties = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum() / ties) if ties > 0 else None
