"""Which way to look: the direction in feature space that best tells models with a record from those without."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
CONSTANT = 1e-9  # features that vary less than this, relative to their size, say nothing


@dataclass(frozen=True, kw_only=True)
class Direction:
    """A linear score of standardised features."""

    centre: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def between(cls, without: Table, with_: Table) -> "Direction":
        """Fisher's discriminant, the covariance shrunk as Ledoit & Wolf (2004) say, learned from runs of both sides."""
        from sklearn.covariance import ledoit_wolf

        both = np.concatenate([without, with_])
        centre, spread = both.mean(axis=0), both.std(axis=0)
        live = spread > CONSTANT * (1 + np.abs(centre))
        weights = np.zeros(both.shape[1])
        if live.any():
            means = [(side[:, live].mean(axis=0) - centre[live]) / spread[live] for side in (without, with_)]
            parts = zip((without, with_), means, strict=True)
            rest = np.concatenate([(side[:, live] - centre[live]) / spread[live] - mean for side, mean in parts])
            covariance = ledoit_wolf(rest, assume_centered=True)[0] + CONSTANT * np.eye(int(live.sum()))
            weights[live] = np.linalg.solve(covariance, means[1] - means[0]) / spread[live]
        return cls(centre=centre, weights=weights)

    def __call__(self, features: Table) -> NDArray[np.float64]:
        """One score per run, higher for "with the record"."""
        scores: NDArray[np.float64] = (features - self.centre) @ self.weights
        return scores
