"""One model trained on one set of rows and scored on the real test rows, with everything that its predictions tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.evaluate.calibration import sums
from synthdp.evaluate.classifiers import chances
from synthdp.evaluate.floors import independent
from synthdp.evaluate.intervals import Resamples, auroc_draws, class_draws, number_draws
from synthdp.evaluate.regressors import guesses
from synthdp.evaluate.scores import errors, score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from synthdp.evaluate.estimators import Model
    from synthdp.evaluate.subgroups import Group
    from synthdp.evaluate.tasks import Task

# Each floor's draws have a stream of their own, whatever else uses the seed.
FLOOR_STREAM = 7
Run = tuple[int, int]  # synthetic sample (0 for real rows), seed


@dataclass(frozen=True, kw_only=True)
class Trial:
    """scores: metric -> value. draws: metric -> (draws,) over test rows. curve: calibration sums of a binary target.
    groups: (column, level) -> value and draws of the groups' metric."""

    scores: dict[str, float]
    draws: dict[str, NDArray[np.float64]]
    curve: NDArray[np.float64] | None
    groups: dict[tuple[str, str], tuple[float, NDArray[np.float64]]]


@dataclass(frozen=True, kw_only=True)
class Court:
    """What every trial of a task shares: the task, its bootstrap draws and its groups."""

    work: Task
    again: Resamples
    groups: tuple[Group, ...]
    seeds: int

    def runs(self, arm: str, model: Model) -> dict[Run, Trial]:
        """The trials of one model in one arm: synthetic samples x seeds, or seeds where it trains on real rows; in one thread.

        A model without a random part is fitted once where its training rows are the same. Raises ValueError where the
        model has no answer for these rows.
        """
        found: dict[Run, Trial] = {}
        for sample in range(len(self.work.samples) if arm == "tstr" else 1):
            for seed in range(self.seeds):
                if seed and not model.seeded and arm != "independent":
                    found[sample, seed] = found[sample, 0]
                    continue
                found[sample, seed] = self.judge(self._predict(arm, model, sample, seed))
        return found

    def judge(self, guess: NDArray[np.float64]) -> Trial:
        """Predictions for the test rows, (rows, classes) or (rows,) of a number, as a trial."""
        work, truth = self.work, self.work.test[1]
        if work.is_number:
            scores, draws = errors(truth, guess), number_draws(truth, guess, self.again)
        else:
            scores = score(truth, guess, work.positive)
            draws = class_draws(truth, guess, work.positive, self.again)
        within = {
            (group.column, level.name): self._within(truth[level.inside], guess[level.inside], level.inside)
            for group in self.groups
            for level in group.levels
            if level.reason is None
        }
        curve = None if work.positive is None else sums(truth == work.positive, guess[:, work.positive])
        return Trial(scores=scores, draws=draws, curve=curve, groups=within)

    def _within(
        self, truth: NDArray[Any], guess: NDArray[np.float64], rows: NDArray[np.bool_]
    ) -> tuple[float, NDArray[np.float64]]:
        """auroc (or rmse) of some rows, and its draws; the rows as they are go along as one more draw."""
        again = self.again.of(rows).beside_itself()
        positive = self.work.positive
        number = self.work.is_number
        found = number_draws(truth, guess, again)["rmse"] if number else auroc_draws(truth, guess, positive, again)
        return float(found[0]), found[1:]

    def _predict(self, arm: str, model: Model, sample: int, seed: int) -> NDArray[np.float64]:
        work = self.work
        table, labels = work.samples[sample] if arm == "tstr" else work.train
        if arm == "independent":
            rng = np.random.default_rng((FLOOR_STREAM, seed))
            table, labels = independent(table, rng), rng.choice(labels, size=len(labels))
        if work.is_number:
            return guesses(model, table, labels, work.test[0], seed=seed, jobs=1)
        return chances(model, table, labels, work.test[0], len(work.classes), seed=seed, jobs=1)
