"""`PrivateTrainer`: any torch module, trained within a budget."""

import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import nn

from synthdp import generators
from synthdp.api import Synthesizer
from synthdp.budgets import AccountFile
from synthdp.errors import BadInput
from synthdp.generators import Progress, silent
from synthdp.ledger.budget import Budget
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.trainer.architecture import own_code, prepared, words
from synthdp.trainer.inputs import framed, settled, units_of
from synthdp.trainer.losses import loss_of
from synthdp.trainer.trained import Trained, said_of
from synthdp.trainer.training import Training, Weights

Arrays = NDArray[np.generic] | tuple[NDArray[np.generic], NDArray[np.generic]]

FOUND = ("module", "function", "units", "architecture", "own_code", "loss", "target")  # out of the other arguments


@dataclass(frozen=True, init=False)
class PrivateTrainer:
    """A torch module, its loss, the schema of the records and the budget. `fit` seals the records and returns the trained module."""

    training: Training
    schema: Schema
    budget: Budget

    def __init__(
        self,
        module: nn.Module,
        loss: Any = "cross_entropy",
        *,
        schema: Schema,
        budget: Budget,
        target: str | None = None,
        **settings: Any,
    ) -> None:
        """`module` maps a batch of inputs to a tensor with a row for each (`Inputs` says what inputs are; layers may be lazy). It is
        copied. `loss` is cross_entropy, binary_cross_entropy (of one logit), squared_error, absolute_error, huber, or a function of
        outputs and targets that returns one number per record, of that record alone. `target` is the column to learn; without it the
        schema's first target or, where it has none, the inputs themselves.

        The settings are those of `Training`: epochs, batch, sampling, microbatches, optimizer, learning_rate, learning_rate_end, momentum,
        weight_decay, clip, clipping (with clip_groups, clip_shares, clip_allocation, clip_quantile, clip_speed, clip_count_noise,
        clip_decay, clip_gamma) and device. Raises `BadInput` for everything that `fit` would refuse, except in the records; the module is
        tried on made-up rows.
        """
        if not isinstance(schema, Schema) or not isinstance(budget, Budget):
            raise BadInput("PrivateTrainer needs schema=Schema(...) and budget=Budget(epsilon, delta)")
        known = [field.name for field in fields(Training) if field.name not in FOUND]
        generators.check_known("PrivateTrainer", settings, known)
        target = target or next(iter(schema.targets), None)
        if target is not None:
            schema.column(target, "target")
        schema = settled(schema, target)
        named, function = loss_of(loss)
        made = prepared(module, Codec(schema), target)
        training = Training(
            module=made,
            function=function,
            units=units_of(schema),
            architecture=words(made),
            own_code=own_code(made, named),
            loss=named,
            target=target,
            **settings,
        )
        generators.check(training, schema, budget)
        if "batch" in settings and training.batch > training.units:
            warnings.warn(
                f"batch={training.batch} is more than the {training.units} units that the schema declares, so every step takes all of them",
                UserWarning,
                stacklevel=2,
            )
        if training.one_by_one(schema):
            warnings.warn(
                "the module, or its loss, has an operation that may mix the rows of a batch, or is not known to keep them apart: each unit "
                "goes through it by itself, which is just as private, but slower",
                UserWarning,
                stacklevel=2,
            )
        for name, value in (("training", training), ("schema", schema), ("budget", budget)):
            object.__setattr__(self, name, value)

    @property
    def noise(self) -> float:
        """The noise multiplier that the budget buys. Raises `BadInput` where it buys none; opens and charges nothing."""
        return generators.afford(lambda noise: self.training.plan(self.schema, noise), self.schema, self.budget)

    def fit(
        self,
        data: pd.DataFrame | Arrays,
        *,
        seed: int | None = None,
        invalid: str = "error",
        ledger: Path | str | None = None,
        checkpoint: Path | str | None = None,
        resume: bool = False,
        account: AccountFile | Path | str | None = None,
        progress: Progress = silent,
    ) -> Trained:
        """Train on the records of a table, or of arrays: (x, y), or x alone (see `array_schema`).

        All other arguments, and what is refused, are as in `Synthesizer.fit`.
        """
        frame = framed(data, self.schema, self.training.target, clamped=invalid == "clamp")
        release = Synthesizer(self.training, schema=self.schema, budget=self.budget).fit(
            frame,
            seed=seed,
            invalid=invalid,
            ledger=ledger,
            checkpoint=checkpoint,
            resume=resume,
            account=account,
            progress=progress,
        )
        if not isinstance(release.model, Weights):
            raise TypeError("a training returns weights")
        return Trained(
            module=release.model.module,
            schema=release.schema,
            statement=said_of(release.statement),
            ledger=release.ledger,
            _saved=release._saved,
        )
