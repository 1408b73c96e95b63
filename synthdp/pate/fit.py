"""PATE: private aggregation of teacher ensembles, for classification (Papernot et al. 2017, 2018).

Teachers learn on disjoint parts of the sensitive records; asked about public records, they vote; only the noisy votes come out,
and a student learns from them. Everything after the votes is post-processing.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synthdp import accounting, generators
from synthdp.budgets import AccountFile, entered, warn_of_no_account, warn_of_others
from synthdp.budgets.fingerprint import of_frame
from synthdp.errors import BadInput, warnings_shown
from synthdp.generators import Progress, silent
from synthdp.generators.parts.setting_checks import check_teachers
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Plan, scoped
from synthdp.ledger.ledger import Ledger
from synthdp.pate import aggregation
from synthdp.pate.classifier import KIND, Classifier, limits
from synthdp.pate.code_features import check_frame, classes, public_schema
from synthdp.pate.one_fit import Run, Selection
from synthdp.pate.students.named_students import called, settings_of, student_of
from synthdp.pate.teaching import tried
from synthdp.report.statement import Statement, state
from synthdp.schema.codec import Codes
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive
from synthdp.seal.charging import Account

MOST_TEACHERS = 100_000  # each is trained and asked by itself


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

    Epsilon is the data-independent one throughout: in calibration, in stopping and in the statement (law 8).
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
        if self.teachers > MOST_TEACHERS:
            raise BadInput(f"teachers must be at most {MOST_TEACHERS:,}, got {self.teachers}")
        if not isinstance(self.selection, Selection):
            raise BadInput(
                f"selection must be a Selection, such as Selection(rounds=5, active=True), got {self.selection!r}"
            )
        make = aggregation.maker(self.aggregator)
        if self.queries is None and not aggregation.fixed(self.aggregator):
            raise BadInput(
                "queries=None needs an aggregator with its noise, such as LNMax(0.05); give that, or the number of queries"
            )
        object.__setattr__(self, "student", student_of(self.student))
        if self.distillation and type(make(1.0)).__name__ not in ("Counts", "Shares"):
            raise BadInput("distillation needs noisy counts: take aggregator='counts' (or 'shares' for two classes)")

    def fit(
        self,
        frame: pd.DataFrame,
        *,
        schema: Schema,
        target: str,
        public: pd.DataFrame,
        budget: Budget,
        seed: int | None = None,
        invalid: str = "error",
        ledger: Path | str | None = None,
        account: AccountFile | Path | str | None = None,
        edited_after: Sequence[str] = (),
        progress: Progress = silent,
        recorder: Any = None,
    ) -> Classifier:
        """Seal the frame, train the teachers, ask about `public` records within the budget, and train a student.

        `schema` describes `frame`; `public` has the same columns without the target (identifiers are not needed). `target` is
        the class to learn: categorical, ordinal or boolean. `seed`, `invalid`, `ledger`, `account` and `edited_after` are as in
        `Synthesizer.fit`; a fit that is stopped cannot be resumed, and what was asked stays charged. `recorder` is for tests and
        for the steward's internal figures: it sees exact votes, so that it needs a seed, which makes the run a rehearsal.
        Raises `BadInput` for frames that do not fit the schema, and for a budget too small for the plan.
        """
        _check(schema, target, budget, seed, recorder)
        generators.warn_of_large_delta(budget, schema)
        warn_of_others()
        # Public records are labelled as they are: there is none to keep
        schema = replace(schema, rules=(), honoured=None)
        known = _checked_public(public, schema, target, invalid)
        self.validate(schema, budget, target=target, public=len(known))
        about: dict[str, Any] = {"generator": KIND, "settings": self.settings(), "rehearsal": seed is not None}
        unit = schema.unit or RECORD
        book = Ledger(None if ledger is None else Path(ledger))
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.closing(book))
            entry = stack.enter_context(entered(account, frame, budget, unit, ledger=book, **about))
            valid = schema.validate(frame, invalid=invalid)
            _check_apart(known, valid)
            if account is None and seed is None:
                warn_of_no_account()
            stack.enter_context(warnings_shown())
            entry.check_table()
            generators.check_units(schema, budget, valid, invalid)
            charged = Account(budget, book, unit=unit, enter=entry.enter)
            data = Sensitive(valid, schema, charged, seed=seed, recorder=recorder)
            run = Run(self, data, target, known, seed)
            run.commit()
            run.learn(progress)
            charged.settle()
            said = state(
                ledger=book,
                budget=budget,
                declared=schema,
                resolved=data.schema,
                generator=KIND,
                settings=run.settings(),
                rehearsal=data.rehearsal,
                account=entry.statement,
                invalid=invalid,
                edited_after=edited_after,
            )
        return run.classifier(_with_public(said, len(public)), book)

    def validate(self, schema: Schema, budget: Budget, *, target: str, public: int) -> None:
        """Raise `BadInput` for what settings, schema, budget and the number of public records leave no fit to make. Nothing is opened
        or charged; teachers and student are tried on made-up records."""
        check_teachers(self.teachers, schema, "PATE", where="")
        found = len(classes(schema, target))
        count = self.plan_queries(budget, schema.unit or RECORD, generators.bought(schema, budget))
        if count > public:
            raise BadInput(f"{count} queries need as many public records, but there are {public}")
        rounds, make = self.split(count), aggregation.maker(self.aggregator)
        for size in set(rounds):
            aggregation.shown(make(1.0), np.full((size, found), 1 / found)).check(size, found)
        tried(self, schema, target, found, count)
        generators.afford(lambda noise: aggregation.planned(make(noise), rounds), schema, budget)

    def plan_queries(self, budget: Budget, unit: str = RECORD, beside: Plan = ()) -> int:
        """How many queries a fit asks: the number given or, with an aggregator's own noise, the most that keep the budget together
        with what is asked `beside` them."""
        if self.queries is not None:
            return self.queries
        made = aggregation.maker(self.aggregator)(0.0)
        most = accounting.calibrate_steps(
            lambda count: scoped(
                (*beside, *aggregation.planned(made, self.split(count))), relation=budget.relation, unit=unit
            ),
            budget,
        )
        if most == 0:
            raise BadInput(
                f"the budget does not pay for a single query of {made}; choose more noise or a larger budget"
            )
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


def _check(schema: Schema, target: str, budget: Budget, seed: int | None, recorder: Any) -> None:
    if not isinstance(schema, Schema) or not isinstance(budget, Budget):
        raise BadInput("PATE.fit needs schema=Schema(...) and budget=Budget(epsilon, delta)")
    schema.check_declared()
    if schema.tables:
        raise BadInput(
            "PATE learns one table, and the schema describes linked ones: join them and describe the joined table"
        )
    classes(schema, target)
    generators.check_seed(seed)
    if recorder is not None and seed is None:
        raise BadInput(
            "a recorder sees exact votes: give a seed too, so that the run is stamped as a rehearsal and not released"
        )


def _checked_public(public: pd.DataFrame, schema: Schema, target: str, invalid: str) -> pd.DataFrame:
    """The public records' columns; raises `BadInput` where one is missing or the target is among them."""
    check_frame("public", public)
    wanted = public_schema(schema, target)
    identifiers = [name for name in schema.names if schema.column(name).kind == "identifier"]
    if target in getattr(public, "columns", ()):
        raise BadInput(
            f"public: drop the column {target!r}; its labels would not be used, since the teachers give the labels"
        )
    try:
        return wanted.validate(public.drop(columns=identifiers, errors="ignore"), invalid)
    except BadInput as error:
        raise BadInput(f"public: {error}") from None


def _check_apart(public: pd.DataFrame, records: pd.DataFrame) -> None:
    """Refuse public records that are the sensitive ones: labelled public records leave the hospital as they are."""
    if len(public) != len(records):
        return
    key = b"two tables in memory"
    if of_frame(public)(key) == of_frame(records[[*public.columns]])(key):
        raise BadInput(
            "public: these are the sensitive records, without their labels. Public records leave the hospital as they are, labelled, so "
            "give records that need no protection"
        )


def _with_public(statement: Statement, records: int) -> Statement:
    """The statement, with what it says of synthetic rows replaced by what there is to say of public records."""
    said = replace(statement, declared={**statement.declared, "public_records": records})
    return replace(said, not_covered=limits(said, statement.not_covered))
