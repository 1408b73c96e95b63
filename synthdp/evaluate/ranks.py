"""Do synthetic rows choose the same model as real ones? Kendall's tau between the models' scores, and the regret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.scores import LOWER_IS_BETTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# Two models agree or do not: that is a coin.
MIN_MODELS = 3


def ranks(
    metric: str, tstr: Mapping[str, Mapping[str, Any]], trtr: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any] | None, str | None]:
    """The entry `ranks` of a target, or why there is none. tstr, trtr: model -> metric -> summary.

    kendall: tau-b (Kendall 1945). regret: what the model that synthetic rows put first scores less, on real rows, than
    the one that real rows put first, never below 0. pairs: how many pairs of models are compared.
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
    first, best = int(made.argmax()), int(real.argmax())
    return {
        "metric": metric,
        "kendall": tau,
        "pairs": len(shared) * (len(shared) - 1) // 2,
        "best_synthetic": shared[first],
        "best_real": shared[best],
        "regret": float(real[best] - real[first]),
    }, None


def kendall(left: NDArray[np.float64], right: NDArray[np.float64]) -> float | None:
    """Kendall's tau-b; None where one side has only ties."""
    pairs = np.triu_indices(len(left), 1)
    a, b = (np.sign(side[:, None] - side)[pairs] for side in (left, right))
    ties = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum() / ties) if ties > 0 else None
