"""Membership by the ratio of densities: DOMIAS (van Breugel, Sun, Qian & van der Schaar 2023, equation 2).

Where synthetic rows are denser than the population is, the generator overfitted. Both densities are of one kernel,
exp(-distance / bandwidth): the product of a Laplace kernel per number and of Aitchison & Aitken's per category.
"""

from __future__ import annotations

import numpy as np

from synthdp.evaluate.attacks.case import MIN_ROWS, Case, Found, Lacking
from synthdp.evaluate.attacks.distances import Points, log_density, nearest
from synthdp.evaluate.attacks.membership import figures

TITLE = "Membership, by density ratio"
QUESTION = "Are synthetic rows denser around training records than the population is?"
SOURCE = "van Breugel, Sun, Qian & van der Schaar, DOMIAS, AISTATS 2023"
ORDER = 2
PROBES = 500


def attack(case: Case) -> Found | Lacking:
    """Score: log density of the synthetic rows minus that of the reference rows."""
    if case.reference.rows < MIN_ROWS:
        return Lacking(reason=f"only {case.reference.rows} held-out rows are left for reference")
    reference = case.points(case.reference)
    width = bandwidth(reference, case.jobs)
    inside, outside = (
        log_density(x, case.made, width, case.jobs) - log_density(x, reference, width, case.jobs)
        for x in (case.points(case.members), case.points(case.outsiders))
    )
    text = (
        f"The density of {case.made.rows:,} synthetic rows was divided by that of {reference.rows:,} other held-out rows, at "
        f"{len(inside):,} training and as many held-out records."
    )
    return Found(figures=figures(inside, outside, case.claim, "membership_density"), text=text)


def bandwidth(reference: Points, jobs: int) -> float:
    """A quarter of the median distance from a reference row to its nearest other one; where most rows have a twin, an eighth of
    one category's difference. It depends on no record that is attacked."""
    probes = min(PROBES, reference.rows // 2)
    first, rest = np.arange(probes), np.arange(probes, reference.rows)
    gaps = nearest(reference.take(first), reference.take(rest), jobs)[1]
    columns = len(reference.numbers) + len(reference.codes)
    return max(float(np.median(gaps)) / 4, 0.125 / columns)
