"""The sealed door: records go in, only charged and noised answers come out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.data.codec import Codec
from synthdp.data.schema import Schema
from synthdp.errors import BadInput
from synthdp.privacy import learning
from synthdp.privacy.account import Account
from synthdp.privacy.budget import Budget
from synthdp.privacy.ledger import RECORD, Event, Plan, Sampled
from synthdp.privacy.noise import Noise
from synthdp.privacy.questions import Answer, Question
from synthdp.privacy.questions.marginals import Marginals, Table
from synthdp.privacy.questions.reveal import Reveal
from synthdp.privacy.questions.sums import Group, Sums, Vector
from synthdp.privacy.store import Records, encoded, seal

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from torch import Tensor, nn

    from synthdp.privacy.replay import Recorder

ALL_COINS = 2.0**64
QUESTIONS = "synthdp.privacy.questions."  # a new question is trusted code


class Sensitive:
    """The records of one data set, sealed, and the only thing that can answer questions about them.

    Every answer is charged to the account first, then each unit's contribution is bounded, then noise is added. With a
    `seed` the noise can be regenerated: the run is a rehearsal, not for release. `recorder` is for tests (replay).
    """

    def __init__(
        self,
        frame: "pd.DataFrame",
        schema: Schema,
        account: Account,
        *,
        seed: int | None = None,
        recorder: "Recorder | None" = None,
    ) -> None:
        if account.unit != (schema.unit or RECORD):
            raise BadInput(f"the account is kept per {account.unit!r}, the schema's unit is {schema.unit or RECORD!r}")
        self.schema = schema
        self.account = account
        self._noise = Noise(seed)
        self._recorder = recorder
        self._records, self._keys = seal(frame, schema, self._noise.bits(32))
        self._terms: learning.Purchase | None = None
        self._codec: Codec | None = None
        self._step = 0

    def commit(self, plan: Callable[[float], Plan], budget: Budget) -> float:
        """Fix every event of the fit before its first answer, and return the noise that keeps the budget.

        `plan(noise)` holds the generator's own events; what the schema leaves to learn is added to it. Raises `BadInput`
        where the budget does not suffice.
        """
        terms = learning.purchase(self.schema, budget, self.account.unit)
        learned = learning.prices(self.schema, terms)
        noise = self.account.commit(lambda z: (*learned, *plan(z)), budget)
        self._terms = terms
        return noise

    def resolve(self) -> Schema:
        """Buy each `learn` item of the schema, encode the records, and return the fully declared schema."""
        if self._codec is None:
            if self._terms is None:
                raise BadInput("commit a plan before the first question")
            schema = learning.resolve(self.schema, self._terms, self)
            self._codec = Codec(schema)
            self._records = encoded(self._records, self._codec)
            self.schema = schema
        return self.schema

    @property
    def codec(self) -> Codec:
        """The public codec of the resolved schema."""
        self.resolve()
        if self._codec is None:
            raise BadInput("the schema is not resolved")
        return self._codec

    def ask(self, question: Question[Answer]) -> Answer:
        """Charge a question, then answer it from all records."""
        check_question(question)
        for event in question.events:
            self.account.book(event)
        return self._answer(question, self._records)

    @contextmanager
    def sample(self, rate: float) -> Iterator["Batch"]:
        """A Poisson sample of units: each is in it with probability `rate`, by a coin of its own."""
        if not 0 <= rate <= 1:
            raise BadInput(f"rate must lie in [0, 1], got {rate}")
        self.resolve()
        batch = Batch(self, rate)
        yield batch
        batch.close()

    @contextmanager
    def reserve(self, event: Event, count: int) -> Iterator[None]:
        """Charge a block of equal events before the first of them; what is not asked is given back at the end."""
        with self.account.reserve(event, count):
            yield

    def sums(self, groups: Sequence[Group]) -> list[Vector]:
        """Noisy sums of clipped per-unit vectors, one per group."""
        self.resolve()
        return self.ask(Sums(tuple(groups)))

    def sum(self, vectors: Callable[[Any], Any], dimension: int, clip: float, noise: float) -> Vector:
        """Noisy sum of per-unit vectors: see `Group`."""
        return self.sums([Group(vectors, dimension, clip, noise)])[0]

    def gradient(
        self, module: "nn.Module", loss: "Callable[[nn.Module, Tensor], Tensor]", clip: float, noise: float
    ) -> "dict[str, torch.Tensor]":
        """Noisy clipped gradient sum over all units: see `Gradient`."""
        from synthdp.privacy.questions.gradient import Gradient

        self.resolve()
        return self.ask(Gradient(module, loss, clip, noise))

    def marginals(self, cliques: Sequence[Sequence[str]], noise: float) -> list[Table]:
        """Noisy contingency tables, one axis per column of the clique."""
        return self.ask(self.tables(cliques, noise))

    def tables(self, cliques: Sequence[Sequence[str]], noise: float) -> Marginals:
        """The question behind `marginals`; public, so that its deviation can be read off."""
        codec = self.codec
        unknown = sorted({name for clique in cliques for name in clique} - set(codec.names))
        if unknown:
            raise BadInput(f"no modelled column named {', '.join(map(repr, unknown))}; known: {', '.join(codec.names)}")
        places = tuple(tuple(codec.names.index(name) for name in clique) for clique in cliques)
        return Marginals(places, codec.sizes, noise, self._records.max_records)

    def reveal(self, reason: str) -> "pd.DataFrame | None":
        """The records themselves: epsilon becomes infinite, and the statement says why."""
        if self._codec is not None:
            raise BadInput("reveal the records before the schema is resolved; afterwards only codes are kept")
        return self.ask(Reveal(reason))

    @property
    def rehearsal(self) -> bool:
        """Whether the noise could be regenerated from a seed."""
        return self._noise.rehearsal

    def _answer(self, question: Question[Answer], records: Records) -> Answer:
        bounded = question.bounded(records)
        if self._recorder is not None:
            return self._recorder.answer(question, bounded, lambda: question.noised(bounded, self._noise))
        return question.noised(bounded, self._noise)

    def _sampled(self, rate: float) -> Records:
        coins = self._noise.coins(self._keys, self._step)
        self._step += 1
        # An exact comparison of integers; rate 1 takes everyone.
        chosen = np.ones(len(coins), np.bool_) if rate >= 1 else coins < np.uint64(rate * ALL_COINS)
        return self._records.take(chosen)


class Batch:
    """One Poisson sample. It answers once: two answers from one sample are not two independent samples, so what belongs
    together is asked together (`sums`).
    """

    def __init__(self, data: Sensitive, rate: float) -> None:
        self._data = data
        self._rate = rate
        self._open = True

    def ask(self, question: Question[Answer]) -> Answer:
        """Charge the question as asked of a sample, then draw the sample and answer."""
        if not self._open:
            raise BadInput("a sample answers one question, while it is open; ask several sums at once with `sums`")
        check_question(question)
        self._open = False
        self._data.account.book(Sampled(self._rate, tuple(question.events)))
        return self._data._answer(question, self._data._sampled(self._rate))

    def sums(self, groups: Sequence[Group]) -> list[Vector]:
        """Noisy sums of clipped per-unit vectors over the sample, one per group."""
        return self.ask(Sums(tuple(groups)))

    def sum(self, vectors: Callable[[Any], Any], dimension: int, clip: float, noise: float) -> Vector:
        """Noisy sum of per-unit vectors over the sample."""
        return self.sums([Group(vectors, dimension, clip, noise)])[0]

    def gradient(
        self, module: "nn.Module", loss: "Callable[[nn.Module, Tensor], Tensor]", clip: float, noise: float
    ) -> "dict[str, torch.Tensor]":
        """Noisy clipped gradient sum over the sample: see `Gradient`."""
        from synthdp.privacy.questions.gradient import Gradient

        return self.ask(Gradient(module, loss, clip, noise))

    def close(self) -> None:
        """No answer after this."""
        self._open = False


def check_question(question: Question[Answer]) -> None:
    """Refuse a question that is not the house's own, before it is charged or sees a record."""
    own = type(question).__module__
    if not own.startswith(QUESTIONS) or not question.events:
        raise BadInput(
            f"{own}.{type(question).__name__} is not one of the house's questions, which alone may read records"
        )
