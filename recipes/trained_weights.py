"""Black-box audits of `PrivateTrainer`, end to end: one training after another through the public class, judged by the weight that leaves.

The pair is the worst for the smallest module that there is, one weight. The gradient of the other units is zero. That of the pair's
unit is longer than the clip at every step, since the learning rate leaves the weight where it began. Under replace_one the gradient
of the other unit points the other way. The weight that leaves then adds up all noisy gradients, and grows with the likelihood ratio.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from synthdp import accounting
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Plan, Relation, scoped
from synthdp.schema.schema import Schema
from synthdp.trainer import PrivateTrainer

START = 0.5  # the weight: half way between the targets
SETTINGS: dict[str, Any] = {"epochs": 1.5, "optimizer": "sgd", "learning_rate": 1e-3, "clip": 0.1}
SAMPLING = {"add_remove": "poisson", "replace_one": "without_replacement"}


@dataclass(frozen=True, kw_only=True)
class Trainings:
    """Two steps on `units` units, of which three quarters are expected in a sample: Poisson samples under add_remove, under replace_one
    samples without replacement."""

    budget: Budget
    units: int = 8
    share: float = 1.0  # of the noise that the budget buys

    @property
    def name(self) -> str:
        """What is trained, and how."""
        return f"PrivateTrainer, {SAMPLING[self.budget.relation].replace('_', ' ')}"

    @property
    def plan(self) -> Plan:
        """Of one training."""
        return self._planned(self._trainer.noise)

    def halved(self) -> "Trainings":
        """The same at half the noise."""
        return replace(self, share=self.share / 2)

    def sides(self, runs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How far each training moved the weight towards the target of the pair's unit."""
        trainer = self._trainer
        if self.share != 1:
            epsilon = accounting.best(self._planned(trainer.noise * self.share), self.budget.delta)[1]
            trainer = self._made(replace(self.budget, epsilon=epsilon))

        def moved(inside: bool) -> NDArray[np.float64]:
            table = self._table(inside)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that no account counts them
                trained = [trainer.fit(table).module for _ in range(runs)]
            return np.array([module.get_parameter("0.weight").item() - START for module in trained])

        return moved(False), moved(True)

    @cached_property
    def _trainer(self) -> PrivateTrainer:
        return self._made(self.budget)

    def _made(self, budget: Budget) -> PrivateTrainer:
        columns = {"x": {"kind": "boolean"}, "y": {"kind": "continuous", "bounds": [0, 1], "bins": 2}}
        declared = {"units": self.units, "columns": columns, "targets": ["y"]}
        module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Flatten(0))
        with torch.no_grad():
            module.get_parameter("0.weight").fill_(START)
        return PrivateTrainer(
            module,
            "squared_error",
            schema=Schema.from_dict({**declared, "declared_by": "the audit"}),
            budget=budget,
            batch=3 * self.units // 4,
            sampling=SAMPLING[budget.relation],
            **SETTINGS,
        )

    def _planned(self, noise: float) -> Plan:
        plan = self._trainer.training.plan(self._trainer.schema, noise)
        return scoped(plan, relation=self._relation, unit=RECORD)

    @property
    def _relation(self) -> Relation:
        return self.budget.relation

    def _table(self, inside: bool) -> pd.DataFrame:
        own = [(True, float(inside))] if inside or self._relation == "replace_one" else []
        return pd.DataFrame([(False, 0.0)] * (self.units - 1) + own, columns=["x", "y"])
