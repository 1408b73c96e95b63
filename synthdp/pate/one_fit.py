"""One fit of PATE, from the committed plan to the student that learned from noisy votes."""

import secrets
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.generators import Progress, bought
from synthdp.ledger.ledger import Ledger
from synthdp.options import check, flag, number, option, whole
from synthdp.pate import aggregation
from synthdp.pate.classifier import Answers, Classifier
from synthdp.pate.code_features import classes, feature_map, public_codes
from synthdp.pate.students import Constant, Learned, Probabilities, TrainingSet, margins
from synthdp.pate.teaching import kind_of
from synthdp.report.statement import Statement
from synthdp.seal import Sensitive

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.pate.fit import PATE


# ---- Which public records are asked about: at random, or those that the student so far is least sure of.


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Queries are asked in `rounds`; the first is drawn at random from the public records.

    With `active`, a student learns from the answers after each round and the next one asks where the margin between its two
    likeliest classes is smallest, but for a share `explore`, which is drawn at random. It sees noisy answers and public records
    alone: choosing costs nothing, since the number of queries and the noise were fixed before.
    """

    rounds: int = option(1, "rounds in which the queries are asked", whole())
    active: bool = option(False, "from the second round on, ask where the student is least sure", flag())
    explore: float = option(0.25, "share of such a round that is drawn at random", number("[0, 1]"))

    def __post_init__(self) -> None:
        check(self, "selection.")
        if self.active and self.rounds == 1:
            raise BadInput(
                "selection.active needs rounds=2 or more, because the first round is asked before there is a student"
            )

    def choose(
        self, size: int, left: NDArray[np.int64], guess: Probabilities | None, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """`size` of the places in `left`; `guess` (left, classes) is what the student makes of them, None in round one."""
        if guess is None or not self.active:
            return np.sort(rng.choice(left, size, replace=False))
        unsure = left[np.lexsort((rng.random(len(left)), margins(guess)))]  # ties in random order
        sure = round(size * (1 - self.explore))
        explored = rng.choice(unsure[sure:], size - sure, replace=False)
        return np.sort(np.concatenate([unsure[:sure], explored]))


class Run:
    """Call `commit`, then `learn`; then `settings` and `classifier` say what came of it. `asked` are places of public records."""

    def __init__(self, pate: "PATE", data: Sensitive, target: str, public: "pd.DataFrame", seed: int | None) -> None:
        self._pate, self._data, self._target, self._public = pate, data, target, public
        self._classes = len(classes(data.schema, target))
        streams = np.random.SeedSequence(secrets.randbits(128) if seed is None else seed).spawn(2)
        self._rng = np.random.default_rng(streams[0])
        self._draw = int(streams[1].generate_state(1, np.uint32)[0])
        self.asked: list[int] = []  # places of public records, in the order of asking
        self._answered: list[NDArray[np.int64]] = []
        self._targets: list[NDArray[np.float32]] = []
        self._learned: Learned | None = None

    def commit(self) -> None:
        """Fix the number of queries and the noise, before anything is asked."""
        cap, unit = self._data.account.cap, self._data.account.unit
        count = self._pate.plan_queries(cap, unit, bought(self._data.declared, cap))
        self._rounds = self._pate.split(count)
        make = aggregation.maker(self._pate.aggregator)
        noise = self._data.commit(lambda noise: aggregation.planned(make(noise), self._rounds))
        self._aggregator = make(noise)

    def learn(self, progress: Progress) -> None:
        """Train the teachers, ask in rounds, and train the student after the rounds that need one."""
        self.schema = self._data.resolve()
        self._codes = public_codes(self._data.codec, self._target, self._public)
        self._map = feature_map(self._pate.features, self._data.codec, self._target)
        self._pool = self._map(self._codes)
        kind = kind_of(self._pate.teacher, self._data.codec, self._target, self._map)
        teachers = self._data.partition(self._pate.teachers, kind)
        progress(0, len(self._rounds), {"queries": 0})  # from here on the teachers learn
        teachers.train()
        for place, size in enumerate(self._rounds):
            progress(place, len(self._rounds), {"queries": len(self.asked), "answers": sum(map(len, self._answered))})
            self._ask(teachers, size)
            if self._guesses and place + 1 < len(self._rounds):
                self._learned = self._taught()
        self._learned = self._taught()
        progress(len(self._rounds), len(self._rounds), {"queries": len(self.asked), "answers": len(self._places)})

    @property
    def _guesses(self) -> bool:
        """Whether the next round depends on what the student makes of the public records."""
        return self._pate.selection.active or hasattr(self._aggregator, "predictions")

    def _ask(self, teachers: Any, size: int) -> None:
        left = np.setdiff1d(np.arange(len(self._codes)), np.array(self.asked, np.int64))
        guess = None if self._learned is None else self._expected(left)
        chosen = self._pate.selection.choose(size, left, guess, self._rng)
        expected = self._expected(chosen)
        answer = teachers.ask(self._codes[chosen], aggregation.shown(self._aggregator, expected))
        found, answered = aggregation.targets(answer, self._pate.teachers, self._classes, soft=self._pate.distillation)
        self.asked += chosen.tolist()
        self._answered.append(chosen[answered])
        self._targets.append(found[answered])

    def _expected(self, places: NDArray[np.int64]) -> Probabilities:
        """The student's probabilities for public records, (places, classes). Equal ones if there is no student yet, or if it gives none:
        what is charged goes on even if a student diverged."""
        if self._learned is None:
            return np.full((len(places), self._classes), 1 / self._classes)
        found = self._learned.probabilities(self._pool[places])
        sound = ((found >= 0) & (found <= 1)).all(axis=1, keepdims=True)
        return np.where(sound, found, 1 / self._classes)

    @property
    def _places(self) -> NDArray[np.int64]:
        return np.concatenate(self._answered)

    def _taught(self) -> Learned:
        targets = np.concatenate(self._targets)
        if len(np.unique(targets.argmax(1))) < 2:
            warnings.warn(
                f"all {len(targets)} noisy labels are of one class, so the student can learn no other; give each teacher more records "
                "(fewer teachers), ask more queries, or raise epsilon",
                stacklevel=4,
            )
        if len(targets) == 0:
            return Constant(0, self._classes)
        training = TrainingSet(rows=self._pool[self._places], targets=targets, pool=self._pool)
        learned: Learned = self._pate.student.learn(training, self._draw)
        return learned

    def settings(self) -> dict[str, Any]:
        """The fit's settings with what was solved."""
        solved = {"aggregator": aggregation.described(self._aggregator), "queries": sum(self._rounds)}
        return {**self._pate.settings(), **solved}

    def classifier(self, statement: Statement, ledger: Ledger) -> Classifier:
        """What may leave."""
        if self._learned is None:
            raise BadInput("the student has not learned yet")
        return Classifier(
            student=self._pate.student,
            learned=self._learned,
            answers=Answers(
                codes=self._codes[self._places], places=self._places, targets=np.concatenate(self._targets)
            ),
            schema=self.schema,
            target=self._target,
            features=self._pate.features,
            draw=self._draw,
            statement=statement,
            ledger=ledger,
        )
