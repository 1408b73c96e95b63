"""The check before every answer, and questions about tables by the names of their columns."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from synthdp.accounting.caps import Filter
from synthdp.errors import BadInput
from synthdp.ledger.events import Capped, Relation, Sampled
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal.callbacks import Guarded
from synthdp.seal.choice import Chosen, Score
from synthdp.seal.marginals import Distance, Grouping, Marginals, Table
from synthdp.seal.questions import Answer, Question, is_own
from synthdp.seal.vectors import Group, Sums, Vector

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from synthdp.seal.door import Sensitive


Cliques = Sequence[Sequence[str]]  # columns by name
Groups = Sequence[Grouping | None] | None  # see `Marginals`
NOT_COUNTED = "cannot leave a database: use generator=mixture, or load the table into memory"


def checked(question: Question[Answer], relation: Relation, *, counted: bool = False) -> Question[Answer]:
    """The question as it is asked: of plain numbers, its functions guarded (`callbacks`).

    Refuses, before it is charged or sees a record, what is not one of the house's own classes, by identity (law 41), is scaled
    for other neighbours, or asks a `counted` table for more than counts.
    """
    _check_own(type(question))
    question = plain(question)
    if not question.events:
        raise BadInput(f"{type(question).__name__} charges nothing, so it is not a question")
    if counted and not getattr(question, "counted", False):
        raise BadInput(f"{type(question).__name__} asks about records themselves, which {NOT_COUNTED}")
    if getattr(question, "relation", relation) != relation:
        raise BadInput(
            f"{type(question).__name__} was made for a relation other than {relation}: make it with `data.choice`"
        )
    return question


def plain(value: Any) -> Any:
    """A question, or a part of one, in which every number is a plain one and every function is guarded.

    A subclass of float may say one thing to the accountant and another to the noise; here both get the same number.
    """
    if isinstance(value, bool | None):
        return value
    if isinstance(value, int):
        return value if type(value) is int else int.__pos__(value)
    if isinstance(value, float):
        return value if type(value) is float else float.__pos__(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value if type(value) is np.ndarray else np.array(value)
    if isinstance(value, tuple | list):
        found = tuple(plain(each) for each in value)
        return value if type(value) is tuple and all(map(is_, found, value)) else found
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain_parts(value)
    # A network stays as it is: functions call it, and they are guarded.
    if callable(value) and not hasattr(value, "named_parameters"):
        return value if isinstance(value, Guarded) else Guarded(value)
    return value


def _plain_parts(value: Any) -> Any:
    _check_own(type(value))
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    found = {name: plain(each) for name, each in fields.items()}
    return value if all(found[name] is each for name, each in fields.items()) else dataclasses.replace(value, **found)


def _check_own(kind: type) -> None:
    if not is_own(kind):
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise BadInput(f"{name} is not one of synthdp's own questions, and only those may read records")


class Asks(ABC):
    """Questions about vectors, of all records, of a sample, or under a cap."""

    @abstractmethod
    def ask(self, question: Question[Answer]) -> Answer:
        """Charge, then answer."""

    def sums(self, groups: Sequence[Group]) -> list[Vector]:
        """Noisy sums of clipped per-unit vectors, one per group."""
        return self.ask(Sums(tuple(groups)))

    def sum(self, vectors: Callable[[Any], Any], dimension: int, clip: float, noise: float) -> Vector:
        """Noisy sum of per-unit vectors: see `Group`."""
        return self.sums([Group(vectors, dimension, clip, noise)])[0]

    def gradient(
        self, module: "nn.Module", loss: "Callable[[nn.Module, Tensor], Tensor]", clip: float, noise: float
    ) -> "Mapping[str, torch.Tensor]":
        """Noisy clipped gradient sum: see `Gradient`."""
        from synthdp.seal.gradients.question import Gradient

        return self.ask(Gradient(module, loss, clip, noise))


class AsksTables(Asks):
    """Questions about tables of named columns, as records are encoded."""

    schema: Schema
    _coarse: tuple[Grouping | None, ...]  # of each column: the code of `codec` that a code of `fine` lies in

    @property
    @abstractmethod
    def codec(self) -> Codec:
        """The codes that answers are in."""

    @property
    @abstractmethod
    def fine(self) -> Codec:
        """The codes that records are kept in: those of `codec`, or cells of finer grids."""

    @property
    @abstractmethod
    def relation(self) -> Relation:
        """What neighbours are."""

    def marginals(self, cliques: Cliques, noise: float) -> list[Table]:
        """Noisy contingency tables, one axis per column of the clique."""
        return self.ask(self.tables(cliques, noise))

    def tables(self, cliques: Cliques, noise: float, groups: Groups = None, *, fine: bool = False) -> Marginals:
        """The question behind `marginals`; public, so that its deviation can be read off. `groups` as in `Marginals`, of the
        codes of `codec`, or of those of `fine` where that is said."""
        places = self._places(cliques)
        most = self.schema.max_records_per_unit if self.schema.unit else 1
        return Marginals(places, self.fine.sizes, noise, most, self._counted_by(groups, fine))

    def _counted_by(self, groups: Groups, fine: bool = False) -> tuple[Grouping | None, ...] | None:
        """Groups of the codes that records have."""
        given = (None,) * len(self.fine.sizes) if groups is None else tuple(groups)
        if not fine:
            given = tuple(
                group if coarse is None else coarse if group is None else group[coarse]
                for coarse, group in zip(self._coarse, given, strict=True)
            )
        return None if all(group is None for group in given) else given

    def choose(
        self, candidates: Cliques, score: Score, epsilon: float, groups: Groups = None, *, fine: bool = False
    ) -> int:
        """The place of one candidate, by the exponential mechanism: see `Chosen`."""
        return self.ask(self.choice(candidates, score, epsilon, groups, fine=fine))

    def choice(
        self, candidates: Cliques, score: Score, epsilon: float, groups: Groups = None, *, fine: bool = False
    ) -> Chosen:
        """The question behind `choose`. `groups` as in `tables`."""
        most = self.schema.max_records_per_unit if self.schema.unit else 1
        places, counted_by = self._places(candidates), self._counted_by(groups, fine)
        return Chosen(places, self.fine.sizes, score, epsilon, most, counted_by, self.relation)

    def distance(self, cliques: Cliques, expected: Sequence[Table], noise: float) -> float:
        """Noisy distance of the records' tables from expected ones: see `Distance`."""
        counted_by = self._counted_by(None)
        return self.ask(Distance(self._places(cliques), self.fine.sizes, tuple(expected), noise, counted_by))

    def _places(self, cliques: Cliques) -> tuple[tuple[int, ...], ...]:
        names = self.codec.names
        unknown = sorted({name for clique in cliques for name in clique} - set(names))
        if unknown:
            raise BadInput(f"no modelled column named {', '.join(map(repr, unknown))}; known: {', '.join(names)}")
        return tuple(tuple(names.index(name) for name in clique) for clique in cliques)


# ---- Questions to a random sample of the units.


class Batch(Asks):
    """One sample of units. It answers once: two answers from one sample are not two independent samples, so what belongs
    together is asked together (`sums`).
    """

    def __init__(self, data: "Sensitive", sample: Sampled) -> None:
        self._data = data
        self._sample = sample  # but for what is asked of it
        self._open = True

    def ask(self, question: Question[Answer]) -> Answer:
        """Charge the question as asked of a sample, then draw the sample and answer."""
        if not self._open:
            raise BadInput("a sample answers one question while it is open; ask for several sums at once with `sums`")
        question = self._data.check(question)
        self._open = False
        event = dataclasses.replace(self._sample, queries=tuple(question.events))
        return self._data._asked(question, [(event, 1)], self._sample)

    def close(self) -> None:
        """No answer after this."""
        self._open = False


# ---- Questions under a cap, whose parameters are chosen from earlier answers.


class Safe(Asks):
    """Questions under a cap: a privacy filter refuses whatever would exceed it (Feldman & Zrnic 2021)."""

    def __init__(self, data: "Sensitive", event: Capped) -> None:
        self._data = data
        self._filter = Filter(cast("Capped", data.account.scoped_event(event)))
        self._open = True

    @property
    def left(self) -> float:
        """What the cap still admits, in the unit of its filter: public, a function of the parameters asked for."""
        self._data.spend_lost(self._filter)
        return self._filter.left

    def ask(self, question: Question[Answer]) -> Answer:
        """Answer from all records, unless that passes the cap: then `BadInput`, and nothing is read."""
        if not self._open:
            raise BadInput("the cap is closed; ask while it is open")
        question = self._data.check(question)
        return self._data._capped(question, self._filter)

    def marginals(self, cliques: Cliques, noise: float) -> list[Table]:
        """Noisy contingency tables, under the cap."""
        return self.ask(self._data.tables(cliques, noise))

    def close(self) -> None:
        """No answer after this."""
        self._open = False
