"""Who may be asked what: the check before every answer, and questions about tables in the names of columns."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from synthdp.errors import BadInput
from synthdp.ledger.budget import Relation
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal.callbacks import Guarded
from synthdp.seal.questions import Answer, Question, is_own
from synthdp.seal.questions.choice import Chosen, Score
from synthdp.seal.questions.contingency import Grouping, Marginals, Table
from synthdp.seal.questions.distance import Distance

NOT_COUNTED = "do not leave a database: use generator=mixture, or load the table into memory"


def checked(question: Question[Answer], relation: Relation, *, counted: bool = False) -> Question[Answer]:
    """The question as it is asked: of plain numbers, its functions guarded (`callbacks`).

    Refuses, before it is charged or sees a record, what is not one of the house's own classes, by identity (law 41), is scaled
    for other neighbours, or asks a `counted` table for more than counts.
    """
    _check_own(type(question))
    question = plain(question)
    if not question.events:
        raise BadInput(f"{type(question).__name__} charges nothing: it is no question")
    if counted and not getattr(question, "counted", False):
        raise BadInput(f"{type(question).__name__} asks about records themselves, which {NOT_COUNTED}")
    if getattr(question, "relation", relation) != relation:
        raise BadInput(
            f"{type(question).__name__} is asked for other neighbours than {relation}: make it with `data.choice`"
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
        return value if type(value) is tuple and all(map(_same, found, value)) else found
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain_parts(value)
    if callable(value) and not hasattr(
        value, "named_parameters"
    ):  # a network is called by functions, which are guarded
        return value if isinstance(value, Guarded) else Guarded(value)
    return value


def _plain_parts(value: Any) -> Any:
    _check_own(type(value))
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
    found = {name: plain(each) for name, each in fields.items()}
    return (
        value if all(_same(found[name], each) for name, each in fields.items()) else dataclasses.replace(value, **found)
    )


def _check_own(kind: type) -> None:
    if not is_own(kind):
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise BadInput(f"{name} is not one of the house's questions, which alone may read records")


def _same(one: Any, other: Any) -> bool:
    return one is other


class AsksTables(ABC):
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

    @abstractmethod
    def ask(self, question: Question[Answer]) -> Answer:
        """Charge, then answer."""

    def marginals(self, cliques: Sequence[Sequence[str]], noise: float) -> list[Table]:
        """Noisy contingency tables, one axis per column of the clique."""
        return self.ask(self.tables(cliques, noise))

    def tables(
        self,
        cliques: Sequence[Sequence[str]],
        noise: float,
        groups: Sequence[Grouping | None] | None = None,
        *,
        fine: bool = False,
    ) -> Marginals:
        """The question behind `marginals`; public, so that its deviation can be read off. `groups` as in `Marginals`, of the
        codes of `codec`, or of those of `fine` where that is said."""
        places = self._places(cliques)
        most = self.schema.max_records_per_unit if self.schema.unit else 1
        return Marginals(places, self.fine.sizes, noise, most, self._counted_by(groups, fine))

    def _counted_by(
        self, groups: Sequence[Grouping | None] | None, fine: bool = False
    ) -> tuple[Grouping | None, ...] | None:
        """Groups of the codes that records have."""
        given = (None,) * len(self.fine.sizes) if groups is None else tuple(groups)
        if not fine:
            given = tuple(
                group if coarse is None else coarse if group is None else group[coarse]
                for coarse, group in zip(self._coarse, given, strict=True)
            )
        return None if all(group is None for group in given) else given

    def choose(
        self,
        candidates: Sequence[Sequence[str]],
        score: Score,
        epsilon: float,
        groups: Sequence[Grouping | None] | None = None,
    ) -> int:
        """The place of one candidate, by the exponential mechanism: see `Chosen`."""
        return self.ask(self.choice(candidates, score, epsilon, groups))

    def choice(
        self,
        candidates: Sequence[Sequence[str]],
        score: Score,
        epsilon: float,
        groups: Sequence[Grouping | None] | None = None,
    ) -> Chosen:
        """The question behind `choose`. `groups` as in `Marginals`."""
        most = self.schema.max_records_per_unit if self.schema.unit else 1
        places, counted_by = self._places(candidates), self._counted_by(groups)
        return Chosen(places, self.fine.sizes, score, epsilon, most, counted_by, self.relation)

    def distance(self, cliques: Sequence[Sequence[str]], expected: Sequence[Table], noise: float) -> float:
        """Noisy distance of the records' tables from expected ones: see `Distance`."""
        counted_by = self._counted_by(None)
        return self.ask(Distance(self._places(cliques), self.fine.sizes, tuple(expected), noise, counted_by))

    def _places(self, cliques: Sequence[Sequence[str]]) -> tuple[tuple[int, ...], ...]:
        names = self.codec.names
        unknown = sorted({name for clique in cliques for name in clique} - set(names))
        if unknown:
            raise BadInput(f"no modelled column named {', '.join(map(repr, unknown))}; known: {', '.join(names)}")
        return tuple(tuple(names.index(name) for name in clique) for clique in cliques)
