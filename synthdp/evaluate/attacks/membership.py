"""Membership attacks: was a record used? By its nearest synthetic row, and by how dense synthetic rows are around it.

Nearest neighbour: GAN-Leaks (Chen, Yu, Zhang & Fritz 2020, section 5.2, full black-box), on rows of a table and on vectors
(pictures as features or pixels, where no column has a name).

Density ratio: DOMIAS (van Breugel, Sun, Qian & van der Schaar 2023, equation 2). Where synthetic rows are denser than the
population is, the generator overfitted. Both densities use one kernel, exp(-distance / bandwidth): the product of a
Laplace kernel per number and of Aitchison & Aitken's per category.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate.attacks.bounds import Claim, auroc, auroc_interval, claim_of, proportion
from synthdp.evaluate.attacks.case import (
    MIN_ROWS,
    MOST_ATTACKED,
    MOST_SYNTHETIC,
    Attack,
    Case,
    Figure,
    Found,
    entry,
    one_per_unit,
    stream,
    too_few,
)
from synthdp.evaluate.attacks.distances import Points, log_density, nearest
from synthdp.evaluate.tables import Codes

SUREST = 0.05
ERROR = 0.05
PROBES = 500


def distance(case: Case) -> Found | str:
    """Score: minus the distance to the nearest synthetic row."""
    inside, outside = (-nearest(case.points(x), case.made, case.jobs)[1] for x in (case.members, case.outsiders))
    text = (
        f"The attacker takes records with a close synthetic row for training records. {len(inside):,} training records and as many "
        f"held-out ones were tested against {case.made.rows:,} synthetic rows."
    )
    return Found(figures=figures(inside, outside, case.claim, "membership_distance"), text=text)


DISTANCE = Attack(
    title="Membership, by nearest neighbour",
    question="Does a close synthetic row give away that a record was used?",
    source="Chen, Yu, Zhang & Fritz, GAN-Leaks, CCS 2020",
    attack=distance,
)


def density_ratio(case: Case) -> Found | str:
    """Score: log density of the synthetic rows minus that of the reference rows."""
    if case.reference.rows < MIN_ROWS:
        return f"only {case.reference.rows} held-out rows are left for reference"
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


DENSITY_RATIO = Attack(
    title="Membership, by density ratio",
    question="Are synthetic rows denser around training records than the population is?",
    source="van Breugel, Sun, Qian & van der Schaar, DOMIAS, AISTATS 2023",
    attack=density_ratio,
)


def figures(
    inside: NDArray[np.float64], outside: NDArray[np.float64], claim: Claim | None, name: str
) -> tuple[Figure, ...]:
    """AUROC, the advantage of guessing `member` above the median of all scores, and the share of members among the 5 % of
    highest scores (Carlini et al. 2022: an attack that is right on a few records is a breach too).

    inside, outside: (n,) scores, higher for likelier members. Ties are broken by a fixed stream. All three are chance where
    the scores know nothing of membership.
    """
    rng, rows, each = stream(name), len(inside), ERROR / 3
    scores = np.concatenate([inside, outside])
    order = np.lexsort((rng.random(2 * rows), -scores))
    member = order < rows
    hits, top = int(member[:rows].sum()), max(1, round(SUREST * 2 * rows))
    low, high = proportion(2 * hits, 2 * rows, each)  # as many right among the lower half
    best = int(member[:top].sum())
    return (
        Figure(
            label="AUROC",
            value=auroc(inside, outside),
            interval=auroc_interval(inside, outside, rng, each),
            baseline=0.5,
            bound=claim.auroc if claim else None,
            better="chance",
        ),
        Figure(
            label="advantage at the median",
            value=2 * hits / rows - 1,
            interval=(2 * low - 1, 2 * high - 1),
            baseline=0.0,
            bound=claim.advantage if claim else None,
        ),
        Figure(
            label="members among the surest 5 %",
            value=best / top,
            interval=proportion(best, top, each),
            baseline=0.5,
            bound=claim.surest(top / (2 * rows)) if claim else None,
            better="chance",
        ),
    )


def of_vectors(
    synthetic: NDArray[Any],
    train: NDArray[Any],
    test: NDArray[Any],
    *,
    claim: Mapping[str, Any] | None = None,
    units: Codes | None = None,
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """GAN-Leaks (Chen et al. 2020) on (rows, dimensions) arrays of finite numbers, in the form of `attacks.run`: one entry.

    At most 2,000 records of either side against 50,000 synthetic ones, by Euclidean distance; draws come from fixed streams.
    The vectors' features must not be learned from the training records, which makes these special by that alone. units:
    `unit_codes` of train and test; one record of each is then attacked.
    """
    promised = claim_of(claim)
    if units is not None:
        keep, rest = one_per_unit(units, len(train), len(test))
        train, test = train[keep], test[rest]
    name, attack = "membership_distance", replace(DISTANCE, question=DISTANCE.question.replace(" row ", " record "))
    rows = min(len(train), len(test), MOST_ATTACKED)
    outcome: Found | str
    if min(rows, len(synthetic)) < MIN_ROWS:
        outcome = too_few(units, len(test), MIN_ROWS) or f"one of the three sets has fewer than {MIN_ROWS} records"
    else:
        from synthdp.evaluate.images import neighbours

        made = synthetic[stream("synthetic").permutation(len(synthetic))[:MOST_SYNTHETIC]]
        inside, outside = (
            -neighbours.nearest(part[stream(side).permutation(len(part))[:rows]], made)[1]
            for side, part in (("train", train), ("test", test))
        )
        text = f"{rows:,} training and as many held-out records against {len(made):,} synthetic ones."
        outcome = Found(figures=figures(inside, outside, promised, name), text=text)
    told, lacking = entry(name, attack, outcome, promised, by_unit=units is not None)
    return [told], lacking
