"""Can synthetic rows be told from real ones? The classifier two-sample test (Lopez-Paz & Oquab 2017), and pMSE."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from synthdp.evaluate.estimators import CLASSIFIERS, chances, limited
from synthdp.evaluate.features import Features
from synthdp.evaluate.scores import summary
from synthdp.evaluate.tables import Table

FOLDS = 3
# Per side: more rows only sharpen a figure that is read to two digits.
MOST_ROWS = 5_000
MIN_ROWS = 30
# The null expectation of pMSE is an asymptotic one: so many rows for each parameter of the propensity model.
ROWS_PER_PARAMETER = 10
PROPENSITY = (
    "logistic regression on the main effects of all columns: standardised numbers and ordinals, and indicators for each of a "
    "column's 30 most frequent categories, for all its other categories together and for missing values"
)


def detection_auc(left: Table, right: Table, seed: int, jobs: int) -> float:
    """Cross-validated AUROC of gradient boosting telling left (1) from right (0): 0.5 is best, 1 worst.

    Equally many rows of both, drawn without replacement; the mean over folds that the seed draws.
    """
    rng = np.random.default_rng((11, seed))
    rows = min(left.rows, right.rows, MOST_ROWS)
    parts = [table.values[rng.choice(table.rows, size=rows, replace=False)] for table in (left, right)]
    both = Table(axes=left.axes, values=np.concatenate(parts))
    labels = np.repeat(np.array([1, 0]), rows)
    fold = np.concatenate([_folds(rows, rng), _folds(rows, rng)])
    found = []
    for k in range(FOLDS):
        inside, outside = both.take(fold != k), both.take(fold == k)
        guess = chances(CLASSIFIERS["hgb"], inside, labels[fold != k], outside, 2, seed=seed, jobs=jobs)
        found.append(roc_auc_score(labels[fold == k], guess[:, 1]))
    return float(np.mean(found))


def _folds(rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(rows,): a fold each, sizes as equal as can be, so that both sides are balanced in every fold."""
    return rng.permutation(np.arange(rows) % FOLDS)


def pmse(synthetic: Table, train: Table, test: Table, *, seeds: int = 3) -> tuple[dict[str, Any] | None, str | None]:
    """Propensity score mean squared error (Snoke, Raab, Nowok, Dibben & Slavkovic 2018) against training rows.

    {"mean", "sd", "n", "values"} over draws of equally many rows a side without replacement (at most 5,000; a side with no
    more is whole); "ratio": the mean of pMSE / its null expectation; "floor": the same of the real test rows as if
    synthetic, with its own "ratio"; "model" and "parameters" (mean number, no intercept) of the propensity model.

    pMSE = mean of (p - c)^2 over both sides, in [0, 1/4] at c = 1/2: 0 where nothing tells them apart. The null
    expectation (k - 1)(1 - c)^2 c / N is that of rows drawn from the right model with the training rows' own
    parameters: a ratio of 1. New rows of the same population, which differ from the training rows by chance too, come
    to 1 / (1 - c) = 2: read the ratio beside the floor's. Main effects see margins and hardly dependence, which
    `detection_auc` sees too. None and the reason where there are too few rows or no column varies.
    """
    rows = min(synthetic.rows, train.rows, test.rows, MOST_ROWS)
    if rows < MIN_ROWS:
        return None, f"the smallest of the three sets has {rows} rows; at least {MIN_ROWS} are needed"
    found: dict[str, list[tuple[float, int]]] = {"synthetic": [], "test": []}
    for role, table in (("synthetic", synthetic), ("test", test)):
        for seed in range(seeds):
            rng = np.random.default_rng((13, seed))
            real, other = (x.take(np.sort(rng.choice(x.rows, size=rows, replace=False))) for x in (train, table))
            found[role].append(propensity_error(other, real))
    most = max(effects for draws in found.values() for _, effects in draws)
    if most == 0:
        return None, "no column varies"
    if 2 * rows < ROWS_PER_PARAMETER * most:
        return None, f"{rows} rows on each side are too few for a propensity model with {most} parameters"
    entries = {role: _ratios(draws, 2 * rows) for role, draws in found.items()}
    about = {"model": PROPENSITY, "parameters": float(np.mean([effects for _, effects in found["synthetic"]]))}
    return {**entries["synthetic"], "floor": entries["test"], **about}, None


def propensity_error(left: Table, right: Table) -> tuple[float, int]:
    """pMSE of the model that tells left (1) from right (0), fitted on all rows of both; its number of main effects."""
    both = Table(axes=left.axes, values=np.concatenate([left.values, right.values]))
    labels = np.repeat(np.array([1, 0]), [left.rows, right.rows])
    design = Features.fit(both).dense(both)
    design -= design.mean(axis=0)
    share = left.rows / len(labels)
    with limited(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Columns that others explain are dropped: they change no propensity, but the number of parameters must be theirs.
        upper, order = qr(design, mode="r", pivoting=True)[:2]
        sizes = np.abs(np.diag(upper))
        effects = int((sizes > 1e-9 * np.sqrt(len(labels))).sum())
        if effects == 0:
            return 0.0, 0
        # As good as no penalty; without any, a category that only one side has would have no finite coefficient.
        model = LogisticRegression(C=1e6, solver="newton-cholesky", max_iter=100)
        model.fit(design[:, order[:effects]], labels)
        chance = model.predict_proba(design[:, order[:effects]])[:, 1]
    return float(np.mean((chance - share) ** 2)), effects


def null_expectation(effects: int, rows: int, share: float) -> float:
    """Of pMSE where synthesis was right: effects (k - 1) main effects, rows of both sides, share of them synthetic."""
    return effects * (1 - share) ** 2 * share / rows


def _ratios(draws: list[tuple[float, int]], rows: int) -> dict[str, Any]:
    ratios = [value / null_expectation(effects, rows, 0.5) if effects else 0.0 for value, effects in draws]
    return {**summary([value for value, _ in draws]), "ratio": float(np.mean(ratios))}
