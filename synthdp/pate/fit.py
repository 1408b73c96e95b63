"""PATE: private aggregation of teacher ensembles, for classification (Papernot et al. 2017, 2018).

Teachers learn on disjoint parts of the sensitive records; asked about public records, they vote; only the noisy votes come out,
and a student learns from them. Everything after the votes is post-processing.
"""

import contextlib
import secrets
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.data.codec import Codes
from synthdp.data.schema import Schema
from synthdp.errors import BadInput
from synthdp.generators import Progress, silent
from synthdp.pate import aggregation
from synthdp.pate.classifier import Answers, Classifier, feature_map
from synthdp.pate.features import classes, public_codes, public_schema
from synthdp.pate.selection import Selection
from synthdp.pate.students import Constant, Learned, Lesson
from synthdp.pate.students.choice import called, settings_of, student_of
from synthdp.pate.teaching import kind_of
from synthdp.privacy import accounting
from synthdp.privacy.account import Account
from synthdp.privacy.accounts import AccountFile, entered
from synthdp.privacy.budget import Budget
from synthdp.privacy.ledger import RECORD, Ledger, scoped
from synthdp.privacy.sensitive import Sensitive
from synthdp.report.statement import Statement, state

if TYPE_CHECKING:
    import pandas as pd

NAME = "pate"
INDEPENDENT = "Synthetic rows are independent"  # the line of a statement that is about generators
PUBLIC = (
    "The public records that the teachers were asked about, {count} of {all}: the steward declared them public. They and their noisy "
    "labels are part of the release; of somebody who is in both tables, only the sensitive record is protected."
)


def forest() -> Any:
    """The default teacher and student: a random forest (Papernot et al. 2017, section 4.4)."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=100)


@dataclass(frozen=True, kw_only=True)
class PATE:
    """Settings of a fit.

    - `teachers`: how many; fixed, from public knowledge only. `teacher`: a scikit-learn classifier, a torch module, `Networks`.
    - `aggregator`: "lnmax", "gnmax", "counts" (noisy counts), "shares" (of two classes), whose noise is solved for the budget; or an
      aggregator with its own noise (`LNMax(0.05)`), or a function of the noise multiplier that returns one.
    - `queries`: how many public records are asked about; None, with an aggregator that has its noise: as many as the budget buys.
    - `student`: one of the students, a scikit-learn classifier or a torch module. `distillation`: it learns noisy shares of votes
      (from "counts" or "shares") instead of the likeliest class.
    - `selection`: which records are asked about. `features`: "one_hot", "codes", or a public function of codes (rows, columns),
      row by row, that does not look at the target.

    Epsilon is the data-independent one throughout: what is solved, stopped at, and stated (GUARANTEE 8).
    """

    teachers: int = 250
    teacher: Any = field(default_factory=forest)
    aggregator: Any = "gnmax"
    queries: int | None = 500
    student: Any = field(default_factory=forest)
    distillation: bool = False
    selection: Selection = field(default_factory=Selection)
    features: str | Callable[[Codes], Any] = "one_hot"

    def __post_init__(self) -> None:
        for name, value in (("teachers", self.teachers), ("queries", self.queries)):
            if name == "queries" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{name} must be a whole number of 1 or more, got {value!r}")
        make = aggregation.maker(self.aggregator)
        if self.queries is None and not aggregation.fixed(self.aggregator):
            raise BadInput(
                "queries=None needs an aggregator that has its noise, such as LNMax(0.05); else give the number"
            )
        object.__setattr__(self, "student", student_of(self.student))
        if self.distillation and type(make(1.0)).__name__ not in ("Counts", "Shares"):
            raise BadInput("distillation needs noisy counts: take aggregator='counts' (or 'shares' for two classes)")

    def fit(
        self,
        frame: "pd.DataFrame",
        *,
        schema: Schema,
        target: str,
        public: "pd.DataFrame",
        budget: Budget,
        seed: int | None = None,
        invalid: str = "error",
        ledger: Path | str | None = None,
        account: AccountFile | Path | str | None = None,
        progress: Progress = silent,
        recorder: Any = None,
    ) -> Classifier:
        """Seal the frame, train the teachers, ask about `public` records within the budget, and train a student.

        `schema` describes `frame`; `public` has the same columns without the target (identifiers are not needed). `target` is
        the class to learn: categorical, ordinal or boolean. `seed`, `invalid`, `ledger` and `account` are as in
        `Synthesizer.fit`; a fit that is stopped cannot be resumed, and what was asked stays charged. `recorder` is for tests and
        for the steward's internal figures: it sees exact votes, so that it needs a seed, which makes the run a rehearsal.
        Raises `BadInput` for frames that do not fit the schema, and for a budget too small for the plan.
        """
        _check(schema, target, budget, seed, recorder)
        known = _checked_public(public, schema, target, invalid)
        about: dict[str, Any] = {"generator": NAME, "settings": self.settings(), "rehearsal": seed is not None}
        unit = schema.unit or RECORD
        book = Ledger(None if ledger is None else Path(ledger))
        with (
            contextlib.closing(book),
            entered(account, frame, budget, unit, ledger=ledger, **about) as entry,
        ):
            valid = schema.validate(frame, invalid=invalid)
            entry.check_table()
            charged = Account(budget, book, unit=unit, enter=entry.enter)
            data = Sensitive(valid, schema, charged, seed=seed, recorder=recorder)
            run = _Run(self, data, target, known, seed)
            run.commit(budget)
            run.learn(progress)
            charged.settle()
            said = state(
                ledger=book,
                budget=budget,
                declared=schema,
                resolved=data.schema,
                generator=NAME,
                settings=run.settings(),
                rehearsal=data.rehearsal,
                account=entry.statement,
            )
        return run.classifier(_with_public(said, len(run.asked), len(public)), book)

    def plan_queries(self, budget: Budget, unit: str = RECORD) -> int:
        """How many queries a fit asks: the number given or, with an aggregator's own noise, the most that keep the budget."""
        if self.queries is not None:
            return self.queries
        made = aggregation.maker(self.aggregator)(0.0)
        most = accounting.calibrate_steps(
            lambda count: scoped(aggregation.planned(made, self.split(count)), relation=budget.relation, unit=unit),
            budget,
        )
        if most == 0:
            raise BadInput(f"the budget does not pay for a single query of {made}; more noise, or a larger budget")
        return most

    def split(self, queries: int) -> list[int]:
        """The number of queries of each round."""
        return aggregation.split(queries, self.selection.rounds)

    def settings(self) -> dict[str, Any]:
        """As a statement shows them."""
        return {
            "teachers": self.teachers,
            "teacher": called(self.teacher),
            "aggregator": called(self.aggregator),
            "queries": self.queries,
            "student": {"name": self.student.name, **settings_of(self.student)},
            "distillation": self.distillation,
            "selection": asdict(self.selection),
            "features": called(self.features),
        }


class _Run:
    """One fit, from the committed plan to the student."""

    def __init__(self, pate: PATE, data: Sensitive, target: str, public: "pd.DataFrame", seed: int | None) -> None:
        self._pate, self._data, self._target, self._public = pate, data, target, public
        self._classes = len(classes(data.schema, target))
        streams = np.random.SeedSequence(secrets.randbits(128) if seed is None else seed).spawn(2)
        self._rng = np.random.default_rng(streams[0])
        self._draw = int(streams[1].generate_state(1, np.uint32)[0])
        self.asked: list[int] = []  # places of public records, in the order of asking
        self._answered: list[NDArray[np.int64]] = []
        self._targets: list[NDArray[np.float32]] = []
        self._learned: Learned | None = None

    def commit(self, budget: Budget) -> None:
        """Fix the number of queries and the noise, before anything is asked."""
        count = self._pate.plan_queries(budget, self._data.account.unit)
        if count > len(self._public):
            raise BadInput(f"{count} queries need as many public records, and there are {len(self._public)}")
        self._rounds = self._pate.split(count)
        make = aggregation.maker(self._pate.aggregator)
        noise = self._data.commit(lambda noise: aggregation.planned(make(noise), self._rounds), budget)
        self._aggregator = make(noise)

    def learn(self, progress: Progress) -> None:
        """Train the teachers, ask in rounds, and train the student after the rounds that need one."""
        self.schema = self._data.resolve()
        self._codes = public_codes(self._data.codec, self._target, self._public)
        self._map = feature_map(self._pate.features, self._data.codec, self._target)
        self._pool = self._map(self._codes)
        teachers = self._teachers()
        for place, size in enumerate(self._rounds):
            progress(place, len(self._rounds), {"queries": len(self.asked), "answers": sum(map(len, self._answered))})
            self._ask(teachers, size)
            if self._guesses and place + 1 < len(self._rounds):
                self._learned = self._taught()
        self._learned = self._taught()
        progress(len(self._rounds), len(self._rounds), {"queries": len(self.asked), "answers": len(self._places)})

    def _teachers(self) -> Any:
        kind = kind_of(self._pate.teacher, self._data.codec, self._target, self._map)
        teachers = self._data.partition(self._pate.teachers, kind)
        if teachers.classes != self._classes:
            raise BadInput(f"the teachers tell {teachers.classes} classes apart, the target has {self._classes}")
        teachers.train()
        return teachers

    @property
    def _guesses(self) -> bool:
        """Whether the next round depends on what the student makes of the public records."""
        return self._pate.selection.active or hasattr(self._aggregator, "predictions")

    def _ask(self, teachers: Any, size: int) -> None:
        left = np.setdiff1d(np.arange(len(self._codes)), np.array(self.asked, np.int64))
        guess = None if self._learned is None else self._learned.probabilities(self._pool[left])
        chosen = self._pate.selection.choose(size, left, guess, self._rng)
        expected = np.full((size, self._classes), 1 / self._classes)
        if self._learned is not None:
            expected = self._learned.probabilities(self._pool[chosen])
        answer = teachers.ask(self._codes[chosen], aggregation.shown(self._aggregator, expected))
        found, answered = aggregation.targets(answer, self._pate.teachers, self._classes, soft=self._pate.distillation)
        self.asked += chosen.tolist()
        self._answered.append(chosen[answered])
        self._targets.append(found[answered])

    @property
    def _places(self) -> NDArray[np.int64]:
        return np.concatenate(self._answered)

    def _taught(self) -> Learned:
        targets = np.concatenate(self._targets)
        if len(np.unique(targets.argmax(1))) < 2:
            warnings.warn(
                f"all {len(targets)} noisy labels are of one class, so that the student can learn no other: ask more queries, "
                "or spend more",
                stacklevel=4,
            )
        if len(targets) == 0:
            return Constant(0, self._classes)
        lesson = Lesson(rows=self._pool[self._places], targets=targets, pool=self._pool)
        learned: Learned = self._pate.student.learn(lesson, self._draw)
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


def _check(schema: Schema, target: str, budget: Budget, seed: int | None, recorder: Any) -> None:
    if not isinstance(schema, Schema) or not isinstance(budget, Budget):
        raise BadInput("PATE.fit needs schema=Schema(...) and budget=Budget(epsilon, delta)")
    classes(schema, target)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise BadInput(f"seed must be a whole number of 0 or more, got {seed!r}")
    if recorder is not None and seed is None:
        raise BadInput(
            "a recorder sees exact votes: give a seed too, which stamps the run as a rehearsal, not for release"
        )
    if isinstance(schema.units, int) and budget.delta >= 1 / schema.units:
        warnings.warn(
            f"budget.delta={budget.delta:g} is not below 1 / units = {1 / schema.units:.1e}: choose a smaller delta",
            stacklevel=3,
        )


def _checked_public(public: "pd.DataFrame", schema: Schema, target: str, invalid: str) -> "pd.DataFrame":
    """The public records' columns; raises `BadInput` where one is missing or the target is among them."""
    wanted = public_schema(schema, target)
    identifiers = [name for name in schema.names if schema.column(name).kind == "identifier"]
    if target in getattr(public, "columns", ()):
        raise BadInput(
            f"public: drop the column {target!r}; its labels would not be used, they are what the teachers give"
        )
    try:
        return wanted.validate(public.drop(columns=identifiers, errors="ignore"), invalid)
    except BadInput as error:
        raise BadInput(f"public: {error}") from None


def _with_public(statement: Statement, asked: int, records: int) -> Statement:
    """The statement, with what it says of synthetic rows replaced by what there is to say of public records."""
    lines = [line for line in statement.not_covered if not line.startswith(INDEPENDENT)]
    return replace(
        statement,
        not_covered=(*lines, PUBLIC.format(count=asked, all=records)),
        declared={**statement.declared, "public_records": records},
    )
