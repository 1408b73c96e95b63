"""What the figures of images say, in a sentence or two each: the page's first screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthdp.evaluate.findings import found as attacked

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING = {"verdict": "Not computed", "text": "See the list of what was not computed, below."}
# A ceiling closer to the majority class than this says nothing about the synthetic pictures.
LEAST_SIGNAL = 0.02
# Beyond so many standard errors from 0.5 the share of pictures that are nearer to training records is no accident.
TELLING = 3.0


def useful(target: str, entry: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """{"question", "verdict", "figures", "text"} by balanced accuracy of the best model on real records (the CNN, as a
    rule), which a rare class cannot flatter."""
    answer: dict[str, Any] = {"question": f"Is it useful for predicting {target}?", "figures": []}
    metric = "balanced_accuracy"
    shared = [model for model in entry["trtr"] if model in entry["tstr"]]
    if not shared:
        return {**answer, **NOTHING}
    best = max(shared, key=lambda model: entry["trtr"][model][metric]["mean"])
    made, ceiling = (entry[arm][best][metric]["mean"] for arm in ("tstr", "trtr"))
    floor = entry["floors"]["majority"][metric]["mean"]
    answer["figures"] = [("synthetic", made), ("real", ceiling), ("majority class", floor)]
    text = (
        f"The {_inside(names[best])}, the best model here on real records, reaches a balanced accuracy of {made:.3f} on real held-out "
        f"pictures when trained on synthetic ones, and {ceiling:.3f} when trained on real ones (the ceiling)."
    )
    if ceiling - floor < LEAST_SIGNAL:
        text += " Real pictures hardly predict this label either, so it does not test the synthetic ones."
        return {**answer, "verdict": "Cannot be told", "text": text}
    kept = (made - floor) / (ceiling - floor)
    text += f" That keeps {100 * max(kept, 0):.0f} % of what real pictures offer above the majority class."
    return {**answer, "verdict": _grade(kept), "text": text}


def _grade(kept: float) -> str:
    if kept >= 0.98:
        return "Nearly as useful as real pictures"
    if kept >= 0.9:
        return "Useful, with a visible loss"
    if kept >= 0.6:
        return "Partly useful: much of the signal is lost"
    if kept >= 0.1:
        return "Hardly useful"
    return "Not useful: no better than always predicting the majority class"


def faithful(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same on how far the synthetic pictures cover the real ones, and lie among them."""
    answer: dict[str, Any] = {"question": "Do they look like the real ones?", "figures": []}
    if "fid" not in found and "coverage" not in found:
        return {**answer, **NOTHING}
    parts = []
    if "fid" in found:
        answer["figures"].append(("FID (features below)", found["fid"]["mean"]))
        parts.append(
            f"The Fréchet distance to the real training pictures is {found['fid']['mean']:.2f}; real held-out pictures "
            f"are {found['fid']['floor']['mean']:.2f} away (the floor)."
        )
    verdict = "See the figures below"
    if "coverage" in found:
        inside, covered = found["precision"], found["coverage"]
        answer["figures"] += [("precision", inside["mean"]), ("coverage", covered["mean"])]
        parts.append(
            f"{100 * inside['mean']:.0f} % of the synthetic pictures lie among the real ones "
            f"({100 * inside['floor']['mean']:.0f} % of held-out real pictures do), and "
            f"{100 * covered['mean']:.0f} % of the real ones have a synthetic picture near them "
            f"({100 * covered['floor']['mean']:.0f} %)."
        )
        verdict = _closeness(
            inside["mean"] / max(inside["floor"]["mean"], 1e-9), covered["mean"] / max(covered["floor"]["mean"], 1e-9)
        )
    return {**answer, "verdict": verdict, "text": " ".join(parts)}


def _closeness(inside: float, covered: float) -> str:
    """inside, covered: precision and coverage as parts of what held-out real pictures reach."""
    if min(inside, covered) >= 0.95:
        return "As close as real pictures are to each other"
    if min(inside, covered) >= 0.75:
        return "Close to the real pictures"
    if inside >= 0.75:
        return "Plausible, but part of the variety is missing"
    if min(inside, covered) >= 0.3:
        return "Recognisable, with visible differences"
    return "Far from the real pictures"


def near(found: Mapping[str, Any]) -> dict[str, Any]:
    """The same on nearness to the training records."""
    answer: dict[str, Any] = {"question": "Do they lie too near the training records?", "figures": []}
    if "pixels" not in found:
        return {**answer, **NOTHING}
    share = found["pixels"]["closer_to_train"]
    copied, rows = found["copies"]["synthetic"], found["pixels"]["rows"]
    answer["figures"] = [("nearer to training", share["mean"])]
    text = (
        f"{100 * share['mean']:.0f} % of {rows['synthetic']:,} synthetic pictures are nearer to a training record than to a "
        f"held-out one (without copying, 50 % would be; ± {100 * share['standard_error']:.1f} % is one standard error). Exact "
        f"copies of training records: {copied:,} (among held-out real pictures: {found['copies']['test']:,}). This is an "
        "inspection, not a proof: the guarantee is in the statement of the release."
    )
    if copied > found["copies"]["test"]:
        return {**answer, "verdict": "Training records are copied", "text": text}
    if share["mean"] - 0.5 > TELLING * max(share["standard_error"], 1e-9):
        # Real MNIST digits of the training writers are at 0.57: its test writers are others.
        text += " More than 50 % is a sign of copying, or of training and held-out records that come from different populations."
        return {**answer, "verdict": "Nearer to training than to held-out records", "text": text}
    return {**answer, "verdict": "No nearer than chance", "text": text}


def headline(result: Mapping[str, Any]) -> list[str]:
    """The figures that matter, a line each, for the command line: utility beside its ceiling, likeness beside its floor."""
    names, found, lines = result["about"]["models"], result["fidelity"], []
    for target, entry in result["targets"].items():
        floor = entry["floors"]["majority"]["accuracy"]["mean"]
        for model, scores in entry["tstr"].items():
            made, ceiling = scores["accuracy"]["mean"], entry["trtr"][model]["accuracy"]["mean"]
            lines.append(
                f"accuracy            {made:.3f} on {target}, {_inside(names[model])}, trained on synthetic pictures; "
                f"on real ones {ceiling:.3f}; majority class {floor:.3f}"
            )
    lines += [f"not computed        {item['metric']}: {item['reason']}" for item in result["not_computed"]]
    if "fid" in found:
        lines.append(
            f"FID                 {found['fid']['mean']:.2f}; real held-out pictures {found['fid']['floor']['mean']:.2f} "
            "(on features learned here, not Inception's)"
        )
    copied = result["neighbours"].get("copies", {}).get("synthetic", 0)
    if copied:
        lines.append(f"copies              {copied} synthetic pictures equal a training record")
    if result.get("attacks"):
        lines.append(f"attacks             {attacked(result)['answers'][0]['verdict']}")
    return lines


def _inside(name: str) -> str:
    """A model's name inside a sentence."""
    return name if name.isupper() else name.lower()
