"""The models that predict a number. Their ids are those of the classifiers they resemble."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.evaluate import estimators
from synthdp.evaluate.estimators import Model, Setting
from synthdp.evaluate.features import Features
from synthdp.evaluate.quiet import QUIET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Table

Regressor = Model

REGRESSORS: dict[str, Regressor] = {
    entry.id: entry
    for entry in (
        Regressor(
            id="hgb",
            label="Gradient boosting",
            form="codes",
            seeded=True,
            make=estimators.hist_gradient_boosting_regressor,
            note="100 trees over histograms, half of the columns per split",
        ),
        Regressor(
            id="lr", label="Ridge regression", form="one_hot", seeded=False, make=estimators.ridge, note="penalty 1"
        ),
        Regressor(
            id="rf",
            label="Random forest",
            form="codes",
            seeded=True,
            make=estimators.random_forest_regressor,
            note="100 trees with at least 5 rows a leaf, a third of the columns per split",
        ),
    )
}


def regressors(chosen: Sequence[Model]) -> tuple[Regressor, ...]:
    """The regressors that resemble the chosen classifiers; none where nothing does."""
    return tuple(REGRESSORS[model.id] for model in chosen if model.id in REGRESSORS)


def guesses(
    regressor: Regressor, train: Table, values: NDArray[np.float64], test: Table, *, seed: int, jobs: int
) -> NDArray[np.float64]:
    """(test rows,): predicted numbers after training on (train, values). jobs: threads. Raises ValueError where there is no
    answer."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    features = Features.fit(train)
    estimator = regressor.make(Setting(features=features, seed=seed, jobs=jobs))
    centre, spread = float(values.mean()), float(values.std()) or 1.0
    with QUIET, threadpool_limits(limits=jobs, user_api="openmp"):
        # Scaled, so that days since 1970 are no harder than a share.
        estimator.fit(features.encode(train, regressor.form), (values - centre) / spread)
        found = np.asarray(estimator.predict(features.encode(test, regressor.form)), dtype=np.float64)
    if not np.isfinite(found).all():
        raise ValueError("predictions that are no numbers")
    return centre + spread * found
