"""The sealed door: records go in, only charged and noised answers come out."""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from synthdp.accounting.caps import Filter
from synthdp.errors import BadInput
from synthdp.ledger.events import RECORD, Capped, Event, Plan, Relation, Sampled, Selection
from synthdp.ledger.ledger import block
from synthdp.noise.noise import Noise
from synthdp.schema.codec import Codec
from synthdp.schema.columns import LEARN
from synthdp.schema.schema import Schema
from synthdp.seal import best_of, callbacks, learn
from synthdp.seal.asking import NOT_COUNTED, AsksTables, Batch, Safe, checked, plain
from synthdp.seal.charging import Account
from synthdp.seal.choice import Chosen
from synthdp.seal.learn import Domain, Size
from synthdp.seal.marginals import Distance, Grouping, Marginals, Table
from synthdp.seal.processes import ALONE, AllShards, Ranks, check_plan, check_shared
from synthdp.seal.questions import Answer, Question, Reveal
from synthdp.seal.records import Records, Sealed, reading, seal, shard
from synthdp.seal.resume import Answers, Checkpoint, Kept, State
from synthdp.tables.source import Opened

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.seal.replay import Recorder
    from synthdp.seal.teachers import Teachers
    from synthdp.seal.teachers.protocols import Kind
    from synthdp.seal.teachers.sealed_teachers import Ballot

ALL_COINS = 2.0**64
SAMPLERS = ("poisson", FIXED := "without_replacement")
HIDDEN = "sealed/teachers/"  # what a checkpoint holds of them, which no generator is handed
IN_DATABASES = 256  # cells of a grid there, where each is a branch of a statement
OF_TABLES: tuple[type, ...] = (Marginals, Chosen, Distance, Size)


class Sensitive(AsksTables):
    """The records of one data set, sealed, and the only thing that can answer questions about them.

    Every answer is charged to the account first, then each unit's contribution is bounded, then noise is added. With a
    `seed` the noise can be regenerated: the run is a rehearsal, not for release. A stopped fit continues from `resumed` and from
    `answers`; `checkpoint` is where the state of its loops is kept meanwhile, and `answers` holds the answers that it got outside loops.
    `ranks` are the processes that share the records: this one keeps its shard of the units. `declared` is the schema as it was given,
    which plans are made of; `schema` is the same until `resolve` completes it. `nodes` gives, for each column of declared codes with a
    tree, the noisy number of units that hold each node, and its deviation: `resolve` bought it. `recorder` is for tests (replay).
    `listener` gets each noisy table of all records and its question, once the answer is kept. `beside` is what will be asked of these
    records beside the plan that is committed: events of fixed noise, committed with it.
    """

    def __init__(
        self,
        frame: "pd.DataFrame | Mapping[str, pd.DataFrame] | Opened",
        schema: Schema,
        account: Account,
        *,
        seed: int | None = None,
        recorder: "Recorder | None" = None,
        checkpoint: Checkpoint | None = None,
        resumed: Kept | None = None,
        answers: Answers | None = None,
        ranks: Ranks = ALONE,
        beside: Plan = (),
        listener: Callable[[Marginals, list[Table]], None] | None = None,
    ) -> None:
        if account.unit != (schema.unit or RECORD):
            raise BadInput(
                f"the account counts per {account.unit!r}, but the schema's unit is {schema.unit or RECORD!r}"
            )
        self.declared = self.schema = schema
        self.account = account
        self._noise = Noise(seed)
        self._recorder = recorder
        self._checkpoint, self._resumed = checkpoint, resumed
        self._answers = answers or Answers()
        self._ranks = ranks
        self._key = ranks.told(self._seal_key())
        self._counted = isinstance(frame, Opened)
        if isinstance(frame, Opened):
            if ranks.world > 1:
                raise BadInput("only one process can count a table in a database: fit without torchrun")
            self._sealed: Sealed[Any] = Sealed(_counted(frame, schema, self._key))
        elif not isinstance(frame, Mapping) and (schema.order is None or schema.unit is None):
            self._sealed = Sealed(shard(seal(frame, schema, self._key), ranks.rank, ranks.world))
        else:
            from synthdp.seal.history_records import ordered

            self._sealed = Sealed(ordered(frame, schema, self._key, ranks.rank, ranks.world))
        self._teachers: list[Sealed[Ballot]] = []
        self._terms: learn.Purchase | None = None
        self._codec: Codec | None = None
        self._fine: Codec | None = None
        self._coarse: tuple[Grouping | None, ...] = ()
        self._plan_noise, self._most = 0.0, 0
        self._place = 0
        self._tosses = 0  # of the sampling coins: grows with every sample of the fit, and is never set back (law 35)
        self._loop = -1  # which loop of `steps` this is
        self._beside = beside
        self._listener = listener
        self.nodes: dict[str, tuple[dict[str, float], float]] = {}
        self._by_row: set[Any] = set()  # functions of loops that were checked on made-up rows
        self._process = os.getpid()

    def commit(self, plan: Callable[[float], Plan]) -> float:
        """Fix every event of the fit before its first answer, and return the least noise that keeps the account's budget.

        `plan(noise)` holds the generator's own events; what the schema leaves to learn is added to it. Raises `BadInput`
        where the budget does not suffice.
        """
        terms, learned = self._purchase()
        if self._ranks.world > 1:
            # Which questions there are does not hang on the noise.
            check_plan((*learned, *plan(1.0), *self._beside), self._ranks)
        noise = self.account.commit(lambda z: (*learned, *plan(z), *self._beside))
        events = (entry.event for entry in self.account.plan)
        self._check_fixed([event.rate for event in events if isinstance(event, Sampled) and event.sampler == FIXED])
        self._terms, self._plan_noise = terms, noise
        # A resumed fit draws anew what the stopped one may have drawn.
        self._tosses = self.account.ledger.samples - self.account.unasked_samples
        self.account.begin = partial(self._answers.begin, {"noise": noise, "most": self._most})
        if self._resumed is not None or self._answers.waiting:
            self.account.enter()  # of two copies of a stopped fit one goes on: the account says which, before anything is drawn
        if self._resumed is not None and self._checkpoint is not None:
            self._checkpoint.take(self._resumed, self.account.ledger)
        return noise

    def _purchase(self) -> tuple[learn.Purchase, Plan]:
        """What the schema leaves to learn: its terms, and its plan. A schema that declares all needs nothing of `seal/learn.py`."""
        if not self.schema.learned and self.schema.units != LEARN:
            return learn.NOTHING, ()
        terms = learn.purchase(self.schema, self.account.cap, self.account.unit)
        return terms, learn.prices(self.schema, terms)

    def _check_fixed(self, rates: Sequence[float]) -> None:
        """Samples of a fixed size are private among tables of one public size, and no unit may decide which one that is. Their own size
        must be whole: rounded up, a sample would hold a larger share of the units than is charged."""
        if not rates:
            return
        with reading():
            units = self._sealed.read().units
        if self.relation != "replace_one" or self._ranks.world > 1 or units != self.schema.units:
            raise BadInput(
                "samples without replacement need budget.relation=replace_one, one process, and `units:` in the schema equal to the "
                "table's number of units. Otherwise take Poisson samples, for which an estimate of units is enough"
            )
        if any(not math.isclose(rate * units, round(rate * units), rel_tol=1e-12, abs_tol=1e-9) for rate in rates):
            raise BadInput(f"a sample without replacement holds a whole number of units: give a rate of k / {units}")

    def most(self, plan: Callable[[int], Plan]) -> int:
        """The most repetitions whose `plan(count)` keeps the budget, beside what the schema leaves to learn: for a plan of
        fixed noise, which is committed afterwards. Asked once a fit; one that is resumed keeps the number."""
        facts = self._answers.facts if self._resumed is None else self._resumed.facts
        if facts is not None:
            self._most = int(facts["most"])
            return self._most
        _, learned = self._purchase()
        self._most = self.account.most(lambda count: (*learned, *plan(count), *self._beside))
        return self._most

    def resolve(self, cells: int = 0) -> Schema:
        """Buy each `learn` item of the schema, encode the records, and return the fully declared schema.

        With `cells`, numeric columns are kept on finer grids than their bins (see `fine`), and nothing but tables can be asked.
        Records that were encoded already stay as they are.
        """
        if self._codec is None:
            if self._terms is None:
                raise BadInput("commit a plan before the first question")
            schema = self.schema.settled()
            if self._resumed is not None:
                schema = Schema.from_dict(self._resumed.facts["schema"])
            elif self._terms is not learn.NOTHING:
                schema = learn.resolve(schema, self._terms, self.ask)
            self._codec = Codec(schema)
            cells = min(cells, IN_DATABASES) if self._counted else cells
            self._fine = Codec(schema, cells) if cells else self._codec
            self._coarse = self._fine.coarse()
            with reading():
                self._sealed = Sealed(self._sealed.read().encoded_by(self._fine))
            self.schema = schema
        return self.schema

    @property
    def codec(self) -> Codec:
        """The public codec of the resolved schema."""
        self.resolve()
        return cast("Codec", self._codec)

    @property
    def fine(self) -> Codec:
        """The public codec by which the records are encoded: `codec`, unless they were resolved with `cells`."""
        self.resolve()
        return cast("Codec", self._fine)

    @property
    def relation(self) -> Relation:
        """What neighbours are, by the account's budget."""
        return self.account.cap.relation

    def ask(self, question: Question[Answer]) -> Answer:
        """Charge a question, then answer it from all records."""
        question = self.check(question)
        answer = self._asked(question, [(event, len(list(equal))) for event, equal in groupby(question.events)])
        self._tell(question, answer)
        return answer

    def _tell(self, question: Any, answer: Any) -> None:
        """Tell `listener` of tables, and keep `nodes`: the answer is noisy, charged, and kept."""
        if type(question) is Domain and question.tree is not None and isinstance(answer, np.ndarray):
            self.nodes[question.column] = dict(zip(question.tree.nodes, answer, strict=True)), question.deviation
        if self._listener is not None and type(question) is Marginals:
            self._listener(question, answer)

    def _asked(
        self, question: Question[Answer], events: Sequence[tuple[Event, int]], sample: Sampled | None = None
    ) -> Answer:
        """Charge, then answer: from a block of a loop; or by itself, and then the answer is kept, or was and is given again."""
        blocked = all(self.account.blocked(event, count) for event, count in events)
        if self._answers.waiting and not blocked:
            return cast("Answer", self._answers.again(question, None if sample is None else sample.rate, self._codec))
        for event, count in events:
            self.account.book(event, count)
        return self._answer(question, sample, blocked=blocked)

    def _capped(self, question: Question[Answer], filtered: Filter) -> Answer:
        """The same under a cap: nothing is charged, but what is asked is on disk before it is answered, and counts as spent."""
        self.spend_lost(filtered)
        events = [self.account.scoped_event(event) for event in question.events]
        filtered.spend_all(events)
        if self._answers.waiting:
            answer = cast("Answer", self._answers.again(question, None, self._codec))
        else:
            answer = self._answer(question, first=lambda: self.account.ledger.asking("inner", events))
        self._tell(question, answer)
        return answer

    def spend_lost(self, filtered: Filter) -> None:
        """Under a cap: what the part of this fit that was stopped asked here, and lost the answer of, counts as spent."""
        for event in self._answers.lost():
            filtered.spend(event)

    @contextmanager
    def cap(self, event: Capped) -> Iterator[Safe]:
        """Questions whose parameters are chosen from earlier answers, refused where they would pass the cap. The committed
        plan holds `event`; all of it is charged, now (law 11)."""
        self.resolve()
        if not self._answers.opened():
            self.account.book(event)
            self.account.ledger.asking("cap")
        safe = Safe(self, event)
        yield safe
        safe.close()

    def select(
        self,
        event: Selection,
        terms: Sequence[best_of.Terms],
        run: "Callable[[int, Sensitive], tuple[best_of.Result, float]]",
    ) -> best_of.Result:
        """The best of K runs, K drawn and kept in here. The committed plan holds `event`; it is charged, now, as a whole.

        `run(place, data)` fits candidate `place` by questions to `data`, which answers what that candidate's plan holds and no
        more, and returns a result and its score; `terms` has, for each candidate, at which noise and within which budget. See
        `best_of.best` for what comes out where a run fails.
        """
        best_of.check(event, terms)
        if self._ranks.world > 1 or self._checkpoint is not None:
            raise BadInput(
                "a selection runs in one process and keeps no checkpoint: leave out torchrun and checkpoint= (a selection that "
                "stops is charged and must start anew)"
            )
        self.resolve()
        self.account.book(event)
        self.account.ledger.asking()
        self._turn()
        scoped = cast("Selection", self.account.scoped_event(event))
        return best_of.best(scoped, self._noise, lambda place: self._again(scoped, place, terms[place]), run)

    def _again(self, event: Selection, place: int, terms: best_of.Terms) -> "Sensitive":
        """The same records behind a door of their own, with noise of its own, for one run of a selection."""
        seed = int.from_bytes(self._noise.bits(7), "little") if self.rehearsal else None
        twin = copy(self)
        # It authorises what the charged candidate holds, and is kept nowhere: the selection is charged as a whole.
        held = best_of.only(event.candidates[place])
        twin.account = Account(terms.budget, unit=self.account.unit, noise=terms.noise, enter=held)
        twin._noise = Noise(seed)
        twin._key = twin._noise.bits(32)  # deals units to teachers anew
        twin._teachers, twin._terms, twin._answers = [], None, Answers()
        twin._listener = None  # of runs that are not chosen nothing is told
        twin._plan_noise, twin._most, twin._place, twin._tosses, twin._loop = 0.0, 0, 0, 0, -1
        twin._beside = terms.score
        return twin

    def restored(self) -> State | None:
        """What `state` of `steps` returned in the part of this fit that was stopped; None in a fresh fit."""
        if self._resumed is None:
            return None
        return {name: value for name, value in self._resumed.state.items() if not name.startswith(HIDDEN)}

    def steps(self, event: Event, count: int, state: Callable[[], State], *, times: int = 1) -> Iterator[int]:
        """The numbers of `count` steps, each of which asks for `event` once, or `times`, charged in durable blocks.

        After every block `state()` is kept for `restored`. A fit may have several such loops, one after another. A resumed fit
        skips the loops that were done, and begins after the last kept block; what a stopped one had charged beyond it is
        charged again, so that there may be fewer steps.
        """
        self._loop += 1
        loop, done, last, size = self._loop, 0, count, block(count)
        if self._resumed is not None:
            stopped = int(self._resumed.facts.get("loop", 0))  # checkpoints of one loop did not say
            if loop < stopped:
                return
            done = int(self._resumed.facts["step"]) if loop == stopped else 0
            last = min(count, done + self.account.left(event) // times)
        if self._resumed is None or loop > stopped:
            self._keep(done, state)
        while done < last:
            until = min(last, done - done % size + size)
            with self.account.charged(event, (until - done) * times):
                self._turn()
                yield from range(done, until)
            done = until
            self._keep(done, state)

    def keep(self, step: int, state: Callable[[], State]) -> None:
        """In the middle of a step of `steps`, after its answer: keep `state` now. A fit that is stopped in the rest of the step
        is resumed after it, and has that rest to do."""
        self._keep(step + 1, state)

    def _turn(self) -> None:
        """Noise of this place in the ledger, before each answer and each block: what is asked again after a stop draws other noise,
        and a rehearsal that was stopped and resumed just here draws the same."""
        if self.account.ledger.place > self._place:
            self._place = self.account.ledger.place
            self._noise.turn(self._place)

    def _keep(self, step: int, state: Callable[[], State]) -> None:
        if self._checkpoint is not None:
            self.account.enter()  # the ledger's first line comes before what it says of checkpoints
            facts = {
                "noise": self._plan_noise,
                "most": self._most,
                "schema": self.schema.to_dict(),
                "loop": self._loop,
                "step": step,
                "line": self.account.ledger.lines,
            }
            if self._teachers:
                facts["seal"] = self._key.hex()
            with reading():
                taught = [sealed.read().state() for sealed in self._teachers]
            hidden = {f"{HIDDEN}{i}/{name}": value for i, each in enumerate(taught) for name, value in each.items()}
            self._checkpoint.save(facts, {**state(), **hidden})
            self.account.ledger.keep()

    def _seal_key(self) -> bytes:
        """Names units, and so deals them to teachers: drawn once for a fit, and kept where it goes on with teachers."""
        drawn = self._noise.bits(32)
        kept = {} if self._resumed is None else self._resumed.facts
        return bytes.fromhex(kept["seal"]) if "seal" in kept else drawn

    @contextmanager
    def sample(self, rate: float, sampler: str = "poisson") -> Iterator[Batch]:
        """A sample of units. `poisson`: each is in it with probability `rate`, by a coin of its own. `without_replacement`: exactly
        the share `rate` of them, with every set of that size equally likely (see `_check_fixed`)."""
        rate = plain(rate)
        if not 0 <= rate <= 1:
            raise BadInput(f"rate must lie in [0, 1], got {rate}")
        if sampler not in SAMPLERS:
            raise BadInput(f"sampler must be one of {', '.join(SAMPLERS)}, got {sampler!r}")
        if self._counted:
            raise BadInput(f"a sample of records {NOT_COUNTED}")
        self.resolve()
        batch = Batch(self, Sampled(rate, (), sampler))
        yield batch
        batch.close()

    def partition(self, count: int, teacher: "Kind") -> "Teachers":
        """`count` sealed teachers on disjoint parts of the units: unit to teacher by its secret key, fixed for the fit, also
        where it was stopped and resumed. Costs nothing; their answers do (`Teachers.ask`).

        `teacher` says of which kind they are: `Stacked` or `Estimators` of `synthdp.seal.teachers`.
        """
        from synthdp.noise.stream import derived
        from synthdp.seal.teachers import partitioned

        if self._ranks.world > 1:
            raise BadInput("teachers learn in one process only: fit without torchrun")
        if self._counted:
            raise BadInput(f"teachers need records, which {NOT_COUNTED}")

        units, place = self.resolve().units, len(self._teachers)
        if self._fine is not self._codec:
            raise BadInput("teachers cannot learn from records that were resolved with `cells`: ask for tables")
        if isinstance(units, int | float) and isinstance(count, int) and count > units:
            warnings.warn(
                f"{count} teachers share {units:g} declared units, so most teachers get none; lower the number of teachers",
                UserWarning,
                stacklevel=2,
            )
        mark, kept = f"{HIDDEN}{place}/", {} if self._resumed is None else self._resumed.state
        state = {name.removeprefix(mark): value for name, value in kept.items() if name.startswith(mark)} or None
        seed = derived(self._key, b"teachers %d" % place)
        teachers, sealed = partitioned(self, self._sealed, count, teacher, seed, state)
        self._teachers.append(sealed)
        return teachers

    def reveal(self, reason: str) -> "pd.DataFrame | None":
        """The records themselves: epsilon becomes infinite, and the statement says why."""
        if self._codec is not None:
            raise BadInput("records can be revealed only before the schema is resolved; afterwards only codes are kept")
        return self.ask(Reveal(reason))

    @property
    def rehearsal(self) -> bool:
        """Whether the noise could be regenerated from a seed."""
        return self._noise.rehearsal

    def check(self, question: Question[Answer]) -> Question[Answer]:
        """The question as it is asked: see `asking.checked`. Refuses, before it is charged or sees a record, what is not the
        house's own, what is not private under the account's relation, functions that do not treat each record on its own, and
        all but tables where records are on finer grids than others know."""
        question = checked(question, self.relation, counted=self._counted)
        check_shared(question, self._ranks)
        sizes = getattr(question, "sizes", None)
        # With others, whether a code lies beyond them would be a record's doing.
        if sizes is not None and tuple(sizes) != self.fine.sizes:
            raise BadInput("the question's sizes differ from those of the codec: make the question with `data.tables`")
        if self._fine is not self._codec and type(question) not in OF_TABLES:
            raise BadInput(
                f"{type(question).__name__} cannot be asked of records that were resolved with `cells`: ask for tables"
            )
        for name, function, answer in getattr(question, "by_row", ()):
            mark = self._loop, type(question), name, callbacks.source(function)
            if not (self.account.looping and mark in self._by_row):
                callbacks.check(name, function, answer, self.codec)
                self._by_row.add(mark)
        return question

    def _answer(
        self,
        question: Question[Answer],
        sample: Sampled | None = None,
        *,
        blocked: bool = False,
        first: Callable[[], int] | None = None,
    ) -> Answer:
        """The exact value, bounded, with noise; unless it is of a block, the answer is then kept, a line says so, and it is given.

        A fit that is stopped before that line gave its answer to nobody: its charge is good for the same question, with other
        noise. `first` writes its line before noise is drawn: under a cap that line is what counts as spent.
        """
        if os.getpid() != self._process:
            raise BadInput(
                "this fit was forked, and a charge pays for one answer only: ask in the process that began the fit"
            )
        self._ranks.wait()  # until the first process has charged
        with reading():
            records = self._sealed.read()
            chosen = records if sample is None else self._sampled(records, sample)
            of_all = self._ranks.world > 1 and getattr(question, "of_counts", False)
            store: Any = AllShards(chosen, self._ranks) if of_all else chosen
            bounded = callbacks.Guarded(question.bounded, BadInput, MemoryError)(store)
        line = None if first is None else first()
        if not blocked:
            self._turn()
        if self._ranks.world > 1:
            whole = bounded if of_all else self._ranks.total(bounded)
            answer = cast("Answer", self._ranks.told(question.noised(whole, self._noise)))
        elif self._recorder is not None:
            answer = self._recorder.answer(question, bounded, lambda: question.noised(bounded, self._noise))
        else:
            answer = question.noised(bounded, self._noise)
        if not blocked:
            kept = self._answers if self._ranks.world == 1 and self._recorder is None else Answers()
            rate = None if sample is None else sample.rate
            kept.keep(self.account.ledger, line, question, rate, self._codec, answer)
        return answer

    def _sampled(self, records: Records, sample: Sampled) -> Records:
        if self._tosses >= self.account.ledger.samples:
            raise RuntimeError("the sample has not been charged: ask through `Sensitive.sample`")
        coins = self._noise.coins(records.keys, self._tosses)
        self._tosses += 1
        if sample.sampler == FIXED:  # the units of the least coins: whichever they are, their number is public
            chosen = np.zeros(len(coins), np.bool_)
            chosen[np.argsort(coins, kind="stable")[: round(sample.rate * len(coins))]] = True
            return records.take(chosen)
        # An exact comparison of integers; rate 1 takes everyone.
        chosen = np.ones(len(coins), np.bool_) if sample.rate >= 1 else coins < np.uint64(sample.rate * ALL_COINS)
        return records.take(chosen)


def _counted(table: Opened, schema: Schema, key: bytes) -> Any:
    """The store of a table that stays in its database."""
    from synthdp.seal.counted_histories import OrderedTable
    from synthdp.seal.database import CountedTable

    return (CountedTable if schema.order is None or schema.unit is None else OrderedTable).of(table, schema, key)
