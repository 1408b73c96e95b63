"""The membership attack by nearest neighbour on vectors: pictures as features or pixels, where no column has a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthdp.evaluate.attacks import membership
from synthdp.evaluate.attacks.bounds import claim_of, entry
from synthdp.evaluate.attacks.case import MIN_ROWS, MOST_ATTACKED, MOST_SYNTHETIC, Found, stream
from synthdp.evaluate.attacks.methods import membership_distance as method
from synthdp.evaluate.attacks.units import Codes, check, chosen, too_few

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


QUESTION = "Does a close synthetic record give away that a record was used?"


def run(
    synthetic: NDArray[Any],
    train: NDArray[Any],
    test: NDArray[Any],
    *,
    claim: Mapping[str, Any] | None = None,
    units: Codes | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """GAN-Leaks (Chen et al. 2020) on (rows, dimensions) arrays of finite numbers, in the form of `attacks.run`: one entry.

    At most 2,000 records of either side against 50,000 synthetic ones, by Euclidean distance; draws are of fixed streams.
    The vectors' features must not be learnt from the training records, which makes these special by that alone. units:
    `unit_codes` of train and test; one record of each is then attacked.
    """
    promised = claim_of(claim)
    if units is not None:
        check(units, len(train), len(test))
        keep, rest = chosen(units)
        train, test = train[keep], test[rest]
    head = {"id": "membership_distance", "title": method.TITLE, "question": QUESTION}
    rows = min(len(train), len(test), MOST_ATTACKED)
    if min(rows, len(synthetic)) < MIN_ROWS:
        reason = too_few(units, len(test), MIN_ROWS) or f"one of the three sets has fewer than {MIN_ROWS} records"
        told: dict[str, Any] = {"verdict": "not computed", "text": f"{reason}.", "figures": []}
        return [{**head, **told, "source": method.SOURCE}], [{"metric": f"attacks.{head['id']}", "reason": reason}]
    from synthdp.evaluate.images.neighbours import nearest

    made = synthetic[stream("synthetic").permutation(len(synthetic))[:MOST_SYNTHETIC]]
    inside, outside = (
        -nearest(part[stream(name).permutation(len(part))[:rows]], made)[1]
        for name, part in (("train", train), ("test", test))
    )
    text = f"{rows:,} training and as many held-out records against {len(made):,} synthetic ones."
    found = Found(figures=membership.figures(inside, outside, promised, head["id"]), text=text)
    return [{**head, **entry(found, promised, by_unit=units is not None), "source": method.SOURCE}], []
