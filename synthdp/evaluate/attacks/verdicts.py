"""What an attack's figures mean, in the plain form of the report and in words that know what DP promises.

An attack at chance passes: its interval covers the baseline. One above it is a concern, and whether the claim allows it is
said beside it: a guarantee does not promise that nothing leaks but how little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from synthdp.evaluate.attacks.bounds import Claim
    from synthdp.evaluate.attacks.case import Figure, Found

NOT_BY_UNIT = (
    " Records were attacked, not patients, as it is not said whose they are: the bound holds for any one record, but where "
    "a patient has several the intervals are too narrow, and an alarm may be false."
)
ALWAYS = "A pass is no proof: a stronger attack may exist. The guarantee is what holds against all of them."


def above(figure: Figure) -> bool:
    """Whether the attack does better than its baseline beyond the uncertainty."""
    low, high = figure.interval
    return high < figure.baseline if figure.better == "higher" else low > figure.baseline


def entry(found: Found, claim: Claim | None, *, by_unit: bool) -> dict[str, Any]:
    """{"verdict", "text", "figures"} in plain types. by_unit: whether one record of each patient was attacked."""
    note = NOT_BY_UNIT if claim is not None and claim.unit != "record" and not by_unit else ""
    over = [figure for figure in found.figures if above(figure)]
    words = _concern(over, claim) if over else _pass(found.figures)
    return {
        "verdict": "concern" if over else "pass",
        "text": f"{words} {found.text}{note}",
        "figures": [_plain(figure) for figure in found.figures],
    }


def _pass(figures: Sequence[Figure]) -> str:
    below = any(figure.better != "higher" and figure.interval[1] < figure.baseline for figure in figures)
    words = f"At chance: {'the 95 % interval covers' if len(figures) == 1 else 'all intervals (95 % together) cover'} "
    if below:
        words = "No better than chance, and in part worse: check that hold-out rows were drawn at random. Not above "
    return f"{words}what records that were never used give. {ALWAYS}"


def _concern(over: Sequence[Figure], claim: Claim | None) -> str:
    labels = ", ".join(figure.label for figure in over)
    words = (
        f"Above chance ({labels}): the release tells something of the records that were used that it does not tell of others, "
        "or the hold-out rows were not drawn as the training rows were."
    )
    if claim is None:
        return f"{words} No guarantee was given that would bound it."
    beyond = [figure for figure in over if figure.bound is not None and figure.interval[0] > figure.bound]
    promise = f"(epsilon {claim.epsilon:g}, delta {claim.delta:g}) per {claim.unit}"
    if beyond:
        return (
            f"{words} It is also more than {promise} allows: either the claim does not hold, or training and hold-out "
            "rows differ. Do not release before this is explained."
        )
    return f"{words} It is within what {promise} allows; a smaller epsilon would allow less."


def _plain(figure: Figure) -> dict[str, Any]:
    return {
        "label": figure.label,
        "value": float(figure.value),
        "interval": [float(end) for end in figure.interval],
        "baseline": float(figure.baseline),
        "bound": None if figure.bound is None else float(figure.bound),
        "better": figure.better,
    }
