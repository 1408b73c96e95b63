"""Membership by the nearest neighbour: GAN-Leaks (Chen, Yu, Zhang & Fritz 2020, section 5.2, full black-box)."""

from __future__ import annotations

from synthdp.evaluate.attacks.case import Case, Found, Lacking
from synthdp.evaluate.attacks.distances import nearest
from synthdp.evaluate.attacks.membership import figures

TITLE = "Membership, by nearest neighbour"
QUESTION = "Does a close synthetic row give away that a record was used?"
SOURCE = "Chen, Yu, Zhang & Fritz, GAN-Leaks, CCS 2020"
ORDER = 1


def attack(case: Case) -> Found | Lacking:
    """Score: minus the distance to the nearest synthetic row."""
    inside, outside = (-nearest(case.points(x), case.made, case.jobs)[1] for x in (case.members, case.outsiders))
    text = (
        f"The attacker takes records with a close synthetic row for training records. {len(inside):,} training records and as many "
        f"held-out ones were tested against {case.made.rows:,} synthetic rows."
    )
    return Found(figures=figures(inside, outside, case.claim, "membership_distance"), text=text)
