"""How close the release as a whole lies to training and to held-out rows: by distance, and by exact copies.

Distance to the closest record (DCR) and nearest-neighbour distance ratio (NNDR), Platzer & Reutterer 2021 (Frontiers in Big
Data 4, 679939): synthetic rows that know no more of the training records than of the population lie nearer to a training row
half of the time, of equally many of both. Distances alone, without held-out rows, say nothing; and these averages miss single
outliers (Ganev & De Cristofaro 2025), which membership attacks look for.
"""

import numpy as np
from numpy.typing import NDArray

from synthdp.evaluate.attacks.bounds import percentiles, proportion
from synthdp.evaluate.attacks.case import Attack, Case, Figure, Found, stream
from synthdp.evaluate.attacks.distances import two_nearest
from synthdp.evaluate.tables import Table

ERROR = 0.05
MOST_ROWS = 2_000
LOW = 0.05


def closeness(case: Case) -> Found | str:
    """The share of synthetic rows nearer to training, and 5th percentiles over training by those over held-out rows."""
    rng = stream("closeness")
    rows = np.sort(rng.permutation(case.made.rows)[:MOST_ROWS])
    made = case.made.take(rows)
    (near_train, to_train), (near_test, to_test) = (
        two_nearest(made, case.points(table), case.jobs) for table in (case.train, case.test)
    )
    nearer = to_train[:, 0] < to_test[:, 0]
    tied = to_train[:, 0] == to_test[:, 0]
    owner = np.where(nearer, near_train, case.train.rows + near_test)
    figures = [_share(case, nearer, tied, owner)]
    ratios = {"DCR": (to_train[:, 0], to_test[:, 0]), "NNDR": (_ratio(to_train), _ratio(to_test))}
    zero = []
    for name, (ours, theirs) in ratios.items():
        if np.quantile(theirs, LOW) <= 0:
            zero.append(name)
            continue
        figures.append(_percentile(name, ours, theirs, owner, rng))
    text = (
        f"Each of {len(rows):,} synthetic rows was compared with the nearest of {case.train.rows:,} training rows and of as many "
        f"held-out rows: {int(nearer.sum()):,} are nearer to training rows, and {int(tied.sum()):,} are ties, which count half."
    )
    if zero:
        text += f" No ratio of the 5th percentiles of {' and '.join(zero)}: it is 0 for held-out rows."
    return Found(figures=tuple(figures), text=text)


def _share(case: Case, nearer: NDArray[np.bool_], tied: NDArray[np.bool_], owner: NDArray[np.int64]) -> Figure:
    """Rows that share their nearest real record stand or fall together: as many trials as (sum w)^2 / sum w^2 (Kish 1965)
    for records that are nearest to w rows each. A tie is neither and narrows nothing."""
    decided = int((~tied).sum())
    value, interval = 0.5, (0.5, 0.5)
    if decided:
        sizes = np.bincount(owner[~tied]).astype(np.float64)
        trials = float(sizes.sum() ** 2 / (sizes**2).sum())
        share, weight = float(nearer[~tied].mean()), decided / len(tied)
        low, high = proportion(share * trials, trials, ERROR / 3)
        value, interval = 0.5 + weight * (share - 0.5), (0.5 + weight * (low - 0.5), 0.5 + weight * (high - 0.5))
    return Figure(
        label="synthetic rows nearer to training than to held-out rows",
        value=value,
        interval=interval,
        baseline=0.5,
        bound=case.claim.nearer(case.train.rows) if case.claim else None,
        better="chance",
    )


def _percentile(
    name: str,
    ours: NDArray[np.float64],
    theirs: NDArray[np.float64],
    owner: NDArray[np.int64],
    rng: np.random.Generator,
) -> Figure:
    """Bootstrap over the real records that are nearest, each with all its synthetic rows."""
    group = np.unique(owner, return_inverse=True)[1]
    records, orders = int(group.max()) + 1, (np.argsort(ours), np.argsort(theirs))

    def one() -> float:
        counts = np.bincount(rng.integers(0, records, records), minlength=records)[group]
        above, below = (
            float(values[order[np.searchsorted(np.cumsum(counts[order]), LOW * counts.sum())]])
            for values, order in zip((ours, theirs), orders, strict=True)
        )
        return above / below if below > 0 else 1.0

    return Figure(
        label=f"5th percentile of {name}, training divided by held-out",
        value=float(np.quantile(ours, LOW) / np.quantile(theirs, LOW)),
        interval=percentiles(one, ERROR / 3),
        baseline=1.0,
        better="higher",
    )


def _ratio(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nearest by second nearest distance; 1 where both are 0: twins in the real rows single nobody out."""
    return np.where(pairs[:, 1] > 0, pairs[:, 0] / np.where(pairs[:, 1] > 0, pairs[:, 1], 1.0), 1.0)


def copies(case: Case) -> Found | str:
    """Share of training records with an equal synthetic row minus the same of held-out records.

    In small domains many records are repeated by chance; held-out ones are then repeated as often.
    """
    made = set(_keys(case.synthetic))
    ours, theirs = (sum(key in made for key in _keys(table)) for table in (case.train, case.test))
    counts = (ours, case.train.rows), (theirs, case.test.rows)
    figure = case.gap("share copied, training minus held-out records", *counts, ERROR)
    text = (
        f"A synthetic row equals {ours:,} of {case.train.rows:,} training records and {theirs:,} of {case.test.rows:,} "
        "held-out records in every column."
    )
    return Found(figures=(figure,), text=text)


def _keys(table: Table) -> list[bytes]:
    """One key a row; equal rows have equal keys (missing is one value, and so are 0 and -0)."""
    plain = np.where(np.isnan(table.values), np.nan, table.values) + 0.0
    return [row.tobytes() for row in plain]


CLOSENESS = Attack(
    title="Distance to the closest record",
    question="Do synthetic rows lie closer to training records than to records that were never seen?",
    source="Platzer & Reutterer, Frontiers in Big Data 2021; Lowe, SIFT, 2004 for the ratio",
    attack=closeness,
)

COPIES = Attack(
    title="Exact copies",
    question="Are training records repeated more often than records that were never seen?",
    source="Identical match share, with held-out records as the control",
    attack=copies,
)
