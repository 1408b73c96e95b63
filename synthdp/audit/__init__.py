"""Audits: what an attacker measures against what was claimed. Pure statistics and canaries; what runs fits is elsewhere.

Every bound here is a *lower* bound on epsilon that holds with a stated confidence. Far below the claim it says nothing
about the mechanism but that this attack was weak; above the claim, the claim is wrong.
"""

from synthdp.audit.canaries import Canaries, hold_out, plant
from synthdp.audit.thresholds import Thresholds, Verdict, judge, tune, word
from synthdp.evaluate.error_region import Claim, Region, clopper_pearson, region

__all__ = [
    "Canaries",
    "Claim",
    "Region",
    "Thresholds",
    "Verdict",
    "clopper_pearson",
    "hold_out",
    "judge",
    "plant",
    "region",
    "tune",
    "word",
]
