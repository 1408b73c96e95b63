"""What the figures say, in a sentence or two each: the page's first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANCE = 0.5
# A ceiling closer to chance than this says nothing about the synthetic rows.
LEAST_SIGNAL = 0.02


def useful(target: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """{"question", "verdict", "figures", "text"} on what models trained on the synthetic rows are worth."""
    averages = {arm: scores["auroc"]["mean"] for arm, scores in entry["average"].items() if "auroc" in scores}
    ceiling, made, floor = (averages.get(arm) for arm in ("trtr", "tstr", "independent"))
    answer: dict[str, Any] = {"question": f"Is it useful for predicting {target}?", "figures": []}
    if made is None or ceiling is None or floor is None:
        return {**answer, "verdict": "Not computed", "text": "See the list of what was not computed, below."}
    answer["figures"] = [("synthetic", made), ("real", ceiling), ("floor", floor)]
    text = (
        f"Models trained on the synthetic rows reach a mean AUROC of {made:.3f} on real held-out rows. The same models "
        f"trained on real rows reach {ceiling:.3f} (the ceiling); on columns without relations {floor:.3f}."
    )
    signal = ceiling - CHANCE
    if signal < LEAST_SIGNAL:
        text += " Real rows hardly predict this column either, so this target is no test of the synthetic rows."
        return {**answer, "verdict": "Cannot be told", "text": text}
    kept = (made - CHANCE) / signal
    share = f"{100 * max(kept, 0):.0f} %"
    text += f" That keeps {share} of what real rows offer above chance ({CHANCE})."
    return {**answer, "verdict": _grade(kept), "text": text}


def _grade(kept: float) -> str:
    if kept >= 0.95:
        return "Nearly as useful as real rows"
    if kept >= 0.85:
        return "Useful, with a visible loss"
    if kept >= 0.5:
        return "Partly useful: much of the signal is lost"
    if kept >= 0.1:
        return "Hardly useful"
    return "Not useful: no better than chance"


def faithful(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same on how close the synthetic rows are to the real ones."""
    answer: dict[str, Any] = {"question": "Is it faithful?", "figures": []}
    if "tvd_1way" not in found:
        return {**answer, "verdict": "Not computed", "text": "See the list of what was not computed, below."}
    one = found["tvd_1way"]
    answer["figures"] = [("single columns", one["mean"])]
    parts = [f"single columns differ from the real training rows by {_apart(one)}"]
    excess = one["mean"] - one["floor"]["mean"]
    if "tvd_2way" in found:
        two = found["tvd_2way"]
        answer["figures"].append(("pairs", two["mean"]))
        parts.append(f"pairs of columns by {_apart(two)}")
        excess = two["mean"] - two["floor"]["mean"]
    text = (
        "On average "
        + " and ".join(parts)
        + " (total variation distance; real held-out rows differ by the figure in brackets)."
    )
    detection = 1.0
    if "detection_auc" in found:
        detection = found["detection_auc"]["mean"]
        answer["figures"].append(("detection", detection))
        text += f" A classifier tells synthetic from real rows with AUROC {detection:.2f} (0.5: not at all; 1: always)."
    return {**answer, "verdict": _closeness(excess, detection), "text": text}


def _apart(entry: Mapping[str, Any]) -> str:
    return f"{entry['mean']:.3f} ({entry['floor']['mean']:.3f})"


def _closeness(excess: float, detection: float) -> str:
    if excess <= 0.01 and detection <= 0.55:
        return "As close as real rows are to each other"
    if excess <= 0.05 and detection <= 0.75:
        return "Close to the real rows"
    if excess <= 0.15:
        return "Recognisable, with visible differences"
    return "Far from the real rows"
