"""Questions under a cap, whose parameters are chosen from earlier answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from synthdp.accounting.caps import Filter
from synthdp.errors import BadInput
from synthdp.ledger.events import Capped
from synthdp.seal.questions import Answer, Question
from synthdp.seal.questions.choice import Score
from synthdp.seal.questions.contingency import Grouping, Table
from synthdp.seal.questions.sums import Group, Sums, Vector

if TYPE_CHECKING:
    from synthdp.seal.door import Sensitive


class Safe:
    """Asks under a cap: a privacy filter stops what would pass it (Feldman & Zrnic 2021)."""

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
            raise BadInput("the cap was closed; ask while it is open")
        question = self._data.check(question)
        return self._data._capped(question, self._filter)

    def choose(
        self,
        candidates: Sequence[Sequence[str]],
        score: Score,
        epsilon: float,
        groups: Sequence[Grouping | None] | None = None,
    ) -> int:
        """The place of one candidate, under the cap."""
        return self.ask(self._data.choice(candidates, score, epsilon, groups))

    def marginals(self, cliques: Sequence[Sequence[str]], noise: float) -> list[Table]:
        """Noisy contingency tables, under the cap."""
        return self.ask(self._data.tables(cliques, noise))

    def sums(self, groups: Sequence[Group]) -> list[Vector]:
        """Noisy sums of clipped per-unit vectors, under the cap."""
        return self.ask(Sums(tuple(groups)))

    def close(self) -> None:
        """No answer after this."""
        self._open = False
