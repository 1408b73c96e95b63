"""Which way to look: the direction in feature space that best tells models with a record from those without."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
CONSTANT = 1e-9  # features that vary less than this, relative to their size, say nothing
STRONGEST = 100  # most features in a direction: so few runs cannot tell how more of them vary together


@dataclass(frozen=True, kw_only=True)
class Direction:
    """A linear score of standardised features."""

    centre: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def between(cls, without: Table, with_: Table) -> "Direction":
        """Fisher's discriminant of the features whose means lie farthest apart in deviations, learned from runs of both sides; the
        covariance is shrunk as Ledoit & Wolf (2004) say.

        Where run i of both sides had the same noise, most of it cancels in the difference of the means: then few runs suffice.
        """
        from sklearn.covariance import ledoit_wolf

        both = np.concatenate([without, with_])
        centre, spread = both.mean(axis=0), both.std(axis=0)
        live = np.flatnonzero(spread > CONSTANT * (1 + np.abs(centre)))
        weights = np.zeros(both.shape[1])
        if len(live):
            apart = np.abs(with_.mean(axis=0) - without.mean(axis=0))[live] / spread[live]
            live = live[np.argsort(-apart, kind="stable")[:STRONGEST]]
            means = [(side[:, live].mean(axis=0) - centre[live]) / spread[live] for side in (without, with_)]
            parts = zip((without, with_), means, strict=True)
            rest = np.concatenate([(side[:, live] - centre[live]) / spread[live] - mean for side, mean in parts])
            covariance = ledoit_wolf(rest, assume_centered=True)[0] + CONSTANT * np.eye(len(live))
            weights[live] = np.linalg.solve(covariance, means[1] - means[0]) / spread[live]
        return cls(centre=centre, weights=weights)

    def __call__(self, features: Table) -> NDArray[np.float64]:
        """One score per run, higher for "with the record"."""
        scores: NDArray[np.float64] = (features - self.centre) @ self.weights
        return scores
