"""What a Python user sees: `Synthesizer` fits, `Release` is what may leave, `load` reads one back."""

import contextlib
import dataclasses
import hashlib
import json
import operator
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import synthdp
from synthdp import generators, marginal_tables, released_tables
from synthdp.budgets import AccountFile, entered, fingerprint, warn_of_no_account, warn_of_others
from synthdp.errors import BadInput, nearest, outside, warnings_shown
from synthdp.fitness import Purchase, measure
from synthdp.generators import Generator, Model, Progress
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Plan
from synthdp.ledger.ledger import Ledger
from synthdp.report.folder import MODEL, Verified, opened, put, written
from synthdp.report.information_loss import FITNESS
from synthdp.report.manifest import TABLES
from synthdp.report.statement import Statement, state
from synthdp.schema import structural_zeros
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.schema.where import allowed
from synthdp.seal.charging import Account
from synthdp.seal.processes import ALONE, Ranks
from synthdp.seal.resume import Answers, Checkpoint, Kept
from synthdp.tables.source import Opened, Source
from synthdp.tables.table_check import validated

if TYPE_CHECKING:
    import ibis

CHUNK = 50_000  # rows sampled at a time
PIXELS = 1 << 26  # of all pictures sampled at a time


@dataclass(frozen=True, repr=False)
class Release:
    """A model, its schema and the statement of its guarantee: the folder that may leave the hospital."""

    generator: Generator
    model: Model
    statement: Statement
    ledger: Ledger
    _saved: Callable[[], None] | None = dataclasses.field(default=None, compare=False)  # says that it was
    _tables: Mapping[str, pd.DataFrame] | None = dataclasses.field(default=None, compare=False)

    def __repr__(self) -> str:
        return repr(self.statement).replace("Statement", "Release", 1)

    def _repr_html_(self) -> str:
        """For notebooks: the guarantee, and the columns."""
        return f"{self.statement._repr_html_()}{self.schema._repr_html_()}"

    @property
    def schema(self) -> Schema:
        """The fully declared schema of the synthetic records."""
        return self.model.schema

    def stream(
        self,
        rows: int,
        *,
        where: Mapping[str, Any] | None = None,
        seed: int | None = None,
        chunk: int | None = None,
    ) -> Iterator[pd.DataFrame]:
        """`rows` synthetic records in frames of at most `chunk` rows (by default 50,000, or fewer for large pictures); the same seed and
        chunk give the same records. `where`: see `sample`."""
        if self.schema.tables:
            raise BadInput(
                "this release is of linked tables: sample_tables(people) draws people with their rows in all of them"
            )
        rows = _count("rows", rows, 0)
        chunk = None if chunk is None else _count("chunk", chunk, 1)
        generators.check_seed(seed)
        draw = self.model.sample if where is None else self._conditioned(where)
        if rows == 0:
            yield draw(0, seed=seed)
            return
        image = self.schema.image
        chunk = chunk or (CHUNK if image is None else max(1, min(CHUNK, PIXELS // image.pixels)))
        starts = range(0, rows, chunk)
        for start, part in zip(
            starts, np.random.SeedSequence(seed).generate_state(len(starts), np.uint64), strict=True
        ):
            yield draw(min(chunk, rows - start), seed=int(part), first_row=start)

    def sample(self, rows: int, *, where: Mapping[str, Any] | None = None, seed: int | None = None) -> pd.DataFrame:
        """`rows` synthetic records: the schema's columns, dtypes, categories, bounds and missing values.

        `where={"sex": "F", "age": [65, 80]}`: records of the model given that condition, exactly and without rejection; its
        grammar is in `schema.where`. Raises `BadInput` for a condition that does not fit the schema or has probability zero,
        and for a model that cannot be conditioned.
        """
        return pd.concat(list(self.stream(rows, where=where, seed=seed)), ignore_index=True)

    def sample_tables(
        self, people: int, *, where: Mapping[str, Any] | None = None, seed: int | None = None
    ) -> dict[str, pd.DataFrame]:
        """For a release of linked tables: this many synthetic people with their rows in all tables, as frames by the tables' names. Keys
        are fresh, and link the rows as the schema says. `where={"person.sex": "F", "person.birth": ["1950-01-01", "1959-12-31"]}`: people
        of the model under that condition on their columns. Raises `BadInput` for a release of one table, and for a condition that does
        not fit the schema or that hardly anybody satisfies."""
        people = _count("people", people, 0)
        generators.check_seed(seed)
        if not self.schema.tables:
            raise BadInput("this release is of one table: sample(rows) draws its records")
        return generators.linked(self.generator, self.model).sample_tables(people, where=where, seed=seed)

    def stream_tables(
        self, people: int, *, where: Mapping[str, Any] | None = None, seed: int | None = None, chunk: int = CHUNK
    ) -> Iterator[dict[str, pd.DataFrame]]:
        """The same in parts of at most `chunk` people, whose keys no other part has; the same seed and chunk give the same tables."""
        people, chunk = _count("people", people, 0), _count("chunk", chunk, 1)
        generators.check_seed(seed)
        if not self.schema.tables:
            raise BadInput("this release is of one table: stream(rows) draws its records")
        model, starts = generators.linked(self.generator, self.model), range(0, max(people, 1), chunk)
        seeds = np.random.SeedSequence(seed).generate_state(len(starts), np.uint64)
        for start, part in zip(starts, seeds, strict=True):
            yield model.sample_tables(min(chunk, people - start), where=where, seed=int(part), first_row=start)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The noisy tables that the fit asked for, by the number of their columns: "one_way", "two_way" ...

        A row is a cell. `table` tells the tables apart; `column` and `value` (`column_1`, `value_1` ...) say which cell it is; `count` is
        the noisy answer, `standard_error` the deviation of its noise, and `model` what as many records of the model have there. The
        guarantee covers them. Raises `BadInput` for a release that was made without `answers=True`.
        """
        if self._tables is None:
            raise BadInput(
                "this release has no noisy tables: a fit keeps them with answers=true (in Python answers=True)"
            )
        return {name: table.copy() for name, table in self._tables.items()}

    def _conditioned(self, where: Mapping[str, Any]) -> Callable[..., pd.DataFrame]:
        model = generators.conditional(self.generator, self.model)
        return partial(model.sample_where, allowed=allowed(where, model.codec))

    def save(self, folder: Path | str, *, force: bool = False) -> Path:
        """Write the release folder, whole or not at all. An existing one is refused unless `force`, which replaces a release and
        nothing else. A fit that could be resumed is finished, for its account, when its release is saved."""
        saved = written(folder, self._write, force=force)
        if self._saved is not None:
            self._saved()
        return saved

    def _write(self, folder: Path) -> None:
        about = {"generator": {"name": self.statement.generator, "settings": self.statement.settings}}
        put(folder, MODEL, self.model.tensors(), about, self.schema, self.statement, self.ledger)
        if self._tables is not None:
            released_tables.write(self._tables, folder / TABLES, self.schema.reading)


def load(folder: Path | str, *, public: Path | str | None = None) -> Release:
    """Read a release folder. Every part is checked before any of it is used; raises `BadInput` for a part that is not right.

    The files must be those of the manifest, and the statement must say what follows from the other parts. Epsilon is not worked out
    again, because that can take seconds: `verify` does so. `public` is the file of a public key; the release must be signed by it.
    """
    release, _ = _read(Path(folder), public, costly=False)
    return release


def verify(folder: Path | str, *, public: Path | str | None = None) -> Verified:
    """Check a release folder as `load` does, and recompute the epsilon of its events (law 34).

    Returns what was checked, and what is only claimed by whoever made the release. Raises a `BadInput` that names what does not hold.
    """
    _, verified = _read(Path(folder), public, costly=True)
    return verified


def _read(folder: Path, public: Path | str | None, *, costly: bool) -> tuple[Release, Verified]:
    found = opened(folder, MODEL, public=public)
    try:
        name, settings = (found.description["generator"][key] for key in ("name", "settings"))
        brought = found.statement.provenance.get("generator")
        if brought is not None and name not in generators.names():
            package, version = (f"{brought[key]!s:.80}" for key in ("package", "version"))
            raise BadInput(
                f"{folder}: the generator {name!s:.80} comes from the package {package}, version {version}, which is not installed here. "
                f"Install it to read the model; `synthdp epsilon ledger={folder / 'ledger.jsonl'}` computes epsilon without it"
            )
        generator = generators.make(*generators.renamed(name, settings, found.schema))
        origin = generators.origin(generator)
        verified = found.check(name, settings, package=None if origin is None else origin["package"], costly=costly)
        model = generator.restore(found.schema, found.tensors)
        said = found.statement
        tables = released_tables.read(found.folder, said.counted, found.schema) if said.answers else None
    except BadInput:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise BadInput(f"{folder}: the settings do not fit the model; the release was altered") from error
    return Release(generator, model, found.statement, found.ledger, _tables=tables), verified


@dataclass(frozen=True, init=False)
class Synthesizer:
    """A generator with its settings, the schema and the budget. `fit` seals a frame and returns a release.

    `get_params` and `set_params` are those of scikit-learn, so that its `clone` and its searches take a `Synthesizer`."""

    generator: Generator
    schema: Schema
    budget: Budget
    trust: str | None = dataclasses.field(default=None, repr=False)

    def __init__(
        self,
        generator: str | Generator | None = None,
        *,
        schema: Schema | Path | str,
        budget: Budget,
        trust: str | None = None,
        **settings: Any,
    ) -> None:
        """`schema` may be the path of a YAML file.

        `generator` is a name with its `settings`, or a generator that has them. Without one it is `mixture`, or `classgauss`
        where the schema has an image column. A generator that is not synthdp's own runs only where `trust` names its package:
        generators are trusted code (PRIVACY.md, section 2)."""
        if isinstance(schema, Path | str):
            schema = Schema.load(schema)
        if not isinstance(schema, Schema) or not isinstance(budget, Budget):
            raise BadInput(
                "Synthesizer needs schema=Schema(...), or the path of one, and budget=Budget(epsilon, delta)"
            )
        if generator is None:
            generator = generators.default(schema)
        if isinstance(generator, str):
            generator = generators.make(generator, settings)
        elif settings:
            raise BadInput("give settings with a generator's name, or a generator that has them already, not both")
        if isinstance(generator, type) or not hasattr(generator, "name"):
            raise BadInput(
                f"generator must be a name, such as mixture, or a generator with its settings, got {_named(generator)}"
            )
        generators.check_trust([generator], trust)
        generators.check(generator, schema, budget)
        object.__setattr__(self, "generator", generator)
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "trust", trust)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What it was made of; with `deep` the generator's settings too, such as `generator__iterations`."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        own = _settings_of(self.generator) if deep else []
        return found | {f"generator__{name}": getattr(self.generator, name) for name in own}

    def set_params(self, **params: Any) -> "Synthesizer":
        """Change settings, named as in `get_params`, all of them or none, and return self. Nothing else changes a `Synthesizer`.
        Raises `BadInput` as the constructor does."""
        given = self.get_params(deep=False)
        own = {name.partition("__")[2]: value for name, value in params.items() if name.startswith("generator__")}
        mine = {name: value for name, value in params.items() if not name.startswith("generator__")}
        generator = mine.get("generator", self.generator)
        known = [*given, *(f"generator__{name}" for name in _settings_of(generator))]
        if unknown := [name for name in [*mine, *(f"generator__{each}" for each in own)] if name not in known]:
            raise BadInput(f"Synthesizer has no parameter {unknown[0]!r}{nearest(unknown[0], known)}")
        if own and not isinstance(generator, str):
            generator, own = dataclasses.replace(generator, **own), {}
        made = Synthesizer(**{**given, **mine, "generator": generator}, **own)
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, getattr(made, field.name))
        return self

    def fit(
        self,
        frame: "pd.DataFrame | Mapping[str, pd.DataFrame] | Source | ibis.Table",
        *,
        seed: int | None = None,
        invalid: str = "error",
        ledger: Path | str | None = None,
        checkpoint: Path | str | None = None,
        resume: bool = False,
        account: AccountFile | Path | str | None = None,
        audit: str | None = None,
        ranks: Ranks = ALONE,
        fitness: float | None = None,
        answers: bool = False,
        edited_after: Sequence[str] = (),
        progress: Progress = generators.silent,
    ) -> Release:
        """Check the frame (for the steward's eyes), seal it, and learn a model within the budget.

        `frame` is a frame, or a table that stays where it is and is counted there: `synthdp.tables.source` (Parquet and CSV files of
        any size, Ibis expressions of DuckDB, PostgreSQL and Spark), for generators that ask for counts alone. For a schema with `tables`
        it is a mapping from the names of the tables to their frames, or `synthdp.tables.source.linked` of tables in DuckDB or PostgreSQL.
        `seed` makes a rehearsal: reproducible, stamped "not for release". `invalid="clamp"` lets cells that the schema does
        not allow pass, mapped to allowed ones inside the seal. `ledger` is a new file that keeps the charges durably even
        if the fit dies. With a `checkpoint` file beside it, a stopped fit continues when it is called again with
        `resume=True`: what was charged counts, kept answers (beside the checkpoint, `.answers`) are given again at no
        charge, and steps that are repeated are charged again. Both files are internal, because teachers in a checkpoint
        learned without noise: remove them once the release is saved. `account` is the file (or an
        `AccountFile`) in which all fits of these records are entered before their first question. Without it the fit is
        entered nowhere: it warns of that (`NotEntered`), and the statement says so. `audit` is a sentence for the
        statement that says how the frame was prepared for an audit (planted canaries). `ranks` are the processes that share this fit
        (`synthdp.seal.processes.joined()` under torchrun): all are given the same frame and arguments, each keeps its shard of
        the units, the first one charges and draws the noise, and all return the release. `fitness` is a share of the budget's
        precision that is set aside to measure, with noise, how far the samples' tables are from those of the records
        (`synthdp.fitness`); the statement reports the result. With `answers` the noisy tables that the fit asked for become part of the
        release (`Release.tables`), at no charge. `edited_after` names, for the statement, the looks at these records ("a check") after
        which the schema was edited. `progress` is called at each step with the
        step's number, the number of steps and public figures. By default nothing is shown; `progress=print` prints them. Raises
        `BadInput` for a schema that nobody declares (`Schema.check_declared`), a frame that does not fit it, a budget too small
        for the plan, an account that refuses it, or a checkpoint of another fit.
        """
        from synthdp.seal import Sensitive  # loads torch, which those who only read releases do without

        generators.check_seed(seed)
        self.schema.check_declared()
        generators.warn_of_large_delta(self.budget, self.schema)
        warn_of_counted_rules(self.schema)
        generators.warn_of_shared_bins(self.schema)
        if ranks.world == 1:
            warn_of_others()
        unit, settings = self.schema.unit or RECORD, settings_of(self.generator)
        frame = generators.check_source(self.generator, self.schema, frame)
        if self.schema.tables and ranks.world > 1:
            raise BadInput("linked tables are fitted in one process: fit without torchrun")
        if ranks.world > 1 and (resume or checkpoint is not None):
            raise BadInput(
                "a fit in several processes keeps no checkpoint and cannot be resumed: leave out checkpoint= and resume="
            )
        if ranks.rank > 0:
            ledger, account = None, None  # the first process charges for all
        bought, planned = self._afford(fitness, answers=answers)
        about = {"generator": self.generator.name, "settings": settings, "rehearsal": seed is not None}
        own = int.from_bytes(ranks.told(_public_seed(seed)), "little")
        kept, stored = None, Answers()
        if checkpoint is not None:
            of = self._made_of(frame, seed, account, fitness)
            kept = Checkpoint(Path(checkpoint), of)
            stored = Answers(answers_beside(checkpoint), of, own)
        noisy = marginal_tables.NoisyTables()
        with contextlib.ExitStack() as stack:
            stack.enter_context(ranks)
            book, found = _opened(ledger, kept, stored, resume=resume)
            stack.enter_context(contextlib.closing(book))
            entry = stack.enter_context(
                entered(
                    account,
                    frame,
                    self.budget,
                    unit,
                    ledger=book,
                    resume=resume,
                    resumable=kept is not None,
                    planted=audit is not None,
                    **about,
                )
            )
            valid = stack.enter_context(validated(self.schema, frame, invalid))
            if account is None and seed is None and ranks.rank == 0:
                warn_of_no_account()  # of a fit that its records allow, and where warnings still end a program
            stack.enter_context(warnings_shown())
            if answers and found is not None:
                raise BadInput("answers given before the checkpoint are not given again: resume without answers=")
            entry.check_table()
            _check_same(valid, ranks)
            facts = stored.facts if found is None else found.facts
            noise = None if facts is None else float(facts["noise"])
            if facts is None and not isinstance(valid, Opened):  # of a table in a database, only `units` can be learned
                generators.check_units(self.schema, self.budget, valid, invalid)
            own = own if stored.facts is None else int(stored.facts["seed"])

            def enter(plan: Plan, budget: Budget) -> None:
                """The account recognises the table by its present content, which must be what was opened."""
                check_unchanged(valid)
                entry.enter(plan, budget)
                check_unchanged(valid)

            charged = Account(self.budget, book, unit=unit, noise=noise, enter=enter)
            data = Sensitive(
                valid,
                self.schema,
                charged,
                seed=seed,
                checkpoint=kept,
                resumed=found,
                answers=stored,
                ranks=ranks,
                beside=() if bought is None else bought.plan,
                listener=noisy,
            )
            model = self.generator.fit(data, seed=own, progress=progress)
            noisy.purpose = FITNESS
            figures = None if bought is None else measure(data, model, bought, seed=own)
            fine = data.fine if noisy else Codec(model.schema)
            counts = found is None and self.generator.traits.counted
            counts &= generators.HISTORIES not in self.generator.traits.kinds
            lost = marginal_tables.lost(
                noisy,
                model if self.generator.traits.draws else None,
                fine,
                counts=counts,
                clamped=invalid == "clamp",
                seed=own,
                unlinked=generators.HISTORIES not in self.generator.traits.kinds,
                drowned=generators.drowned(self.generator, self.schema, planned),
            )
            tables = released_tables.frames(noisy, model, fine, seed=own) if answers else None
            charged.settle()
            statement = state(
                ledger=book,
                budget=self.budget,
                declared=self.schema,
                resolved=model.schema,
                generator=self.generator.name,
                package=generators.origin(self.generator),
                settings=settings,
                rehearsal=data.rehearsal,
                account=entry.statement,
                audit=audit,
                processes=ranks.world,
                chance=ranks.told(os.urandom(16)),
                fitness=figures,
                invalid=invalid,
                counted=None if found is not None else noisy.counted(fine),
                lost=lost,
                answers=answers,
                edited_after=edited_after,
            )
        return Release(
            self.generator, model, statement, book, None if kept is None else partial(entry.mark, "finished"), tables
        )

    def afford(self, fitness: float | None = None, *, answers: bool = False) -> Purchase | None:
        """What a fit would set aside for figures of fitness. Raises `BadInput` where that and the generator's plan are more than
        the budget allows, or where there are no `answers` to give. Opens and charges nothing; `fit` does so first."""
        return self._afford(fitness, answers=answers)[0]

    def _afford(self, fitness: float | None, *, answers: bool) -> tuple[Purchase | None, float]:
        """What `afford` returns, and the noise of the plan."""
        if self.schema.tables and fitness is not None:
            raise BadInput("figures of fitness are measured on one table: leave fitness= out for linked tables")
        if answers:
            released_tables.check_offered(self.generator, self.schema)
        bought = None if fitness is None else Purchase.of(fitness, self.schema, self.budget)
        beside = () if bought is None else bought.plan
        noise = generators.afford(lambda z: self.generator.plan(self.schema, z), self.schema, self.budget, beside)
        return bought, noise

    def _made_of(
        self,
        frame: pd.DataFrame | Mapping[str, pd.DataFrame] | Source,
        seed: int | None,
        account: AccountFile | Path | str | None,
        fitness: float | None,
    ) -> dict[str, str]:
        """Which fit a checkpoint belongs to: a digest of each thing that a fit is made of. Internal, as the checkpoint is."""
        path = account.path if isinstance(account, AccountFile) else account
        names = {new: old for old, new in generators.SETTINGS.get(self.generator.name, {}).items()}
        settings = {names.get(name, name): value for name, value in settings_of(self.generator).items()}  # as at first
        made = {
            "version": synthdp.__version__,
            "generator": [self.generator.name, settings],
            "schema": self.schema.to_dict(),
            "budget": asdict(self.budget),
            "seed": seed,
            "account": None if path is None else str(Path(path).resolve()),
            "records": fingerprint.of(frame)(b"checkpoint"),
            **({} if fitness is None else {"fitness": fitness}),
        }
        return {
            name: hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
            for name, value in made.items()
        }


def answers_beside(checkpoint: Path | str) -> Path:
    """Where the answers of a fit are kept beside its checkpoint: internal, as that is."""
    return Path(checkpoint).with_name(Path(checkpoint).name + ".answers")


def check_unchanged(table: pd.DataFrame | Mapping[str, pd.DataFrame] | Opened) -> None:
    """Refuse files that are no longer those that were opened; a frame stays what it is."""
    if isinstance(table, Opened):
        table.check_unchanged()


def _opened(
    ledger: Path | str | None, kept: Checkpoint | None, answers: Answers, *, resume: bool
) -> tuple[Ledger, Kept | None]:
    """The ledger to write and the checkpoint to continue from; answers that were kept are read."""
    if kept is not None and ledger is None:
        raise BadInput("checkpoint= needs ledger= too: a fit cannot continue unless it is known what was charged")
    if not resume:
        return Ledger(None if ledger is None else Path(ledger)), None
    if ledger is None or kept is None:
        raise BadInput("resume needs ledger= and checkpoint= of the fit that was stopped")
    if not Path(ledger).exists():
        return Ledger(Path(ledger)), None  # stopped before its first charge: nothing was asked yet
    book = Ledger.resume(Path(ledger))
    try:
        found = kept.load(book)
        since = (
            book.replanned if found is None else int(found.facts.get("line", book.lines))
        )  # older checkpoints did not say
        if not answers.load(book, since) and found is not None:
            raise BadInput(
                "the answer to a question that the stopped fit asked after its last checkpoint is lost, so the fit cannot "
                "continue. Start a new fit, which is charged in addition"
            )
        return book, found
    except BaseException:
        book.close()
        raise


def _check_same(frame: pd.DataFrame | Mapping[str, pd.DataFrame] | Opened, ranks: Ranks) -> None:
    """Processes that were given different records could each hold the same unit, which would then count twice."""
    if ranks.world > 1:
        if isinstance(frame, Opened | Mapping):
            raise BadInput("only one process can count a table in a database: fit without torchrun")
        key = ranks.told(os.urandom(16))
        mine = bytes.fromhex(fingerprint.of_frame(frame, ordered=True)(key))
        if ranks.total(float(ranks.told(mine) != mine)) > 0:
            raise BadInput(
                "the processes of a fit must be given the same records in the same order: each keeps its own part of them"
            )


def _public_seed(seed: int | None) -> bytes:
    """The seed of the generator's own randomness, which all processes share; the noise does not depend on it."""
    return os.urandom(7) if seed is None else seed.to_bytes(8, "little")


def _count(name: str, value: Any, least: int) -> int:
    """A whole number, also one of NumPy's; raises `BadInput` for anything else."""
    try:
        found = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = -1
    if found < least:
        raise BadInput(f"{name} must be a whole number of {least} or more, got {value!r}")
    return found


def _named(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _settings_of(generator: Any) -> list[str]:
    """Names of the settings of a generator, or of the one of that name."""
    kind: Any = generators.find(generator) if isinstance(generator, str) else generator
    return [field.name for field in dataclasses.fields(kind) if field.init]


def settings_of(generator: Any) -> Mapping[str, Any]:
    """The settings as JSON has them: lists for tuples. A field with `told: False` in its metadata is left out: it holds code."""
    told = [field.name for field in dataclasses.fields(generator) if field.metadata.get("told", True)]
    values = {name: getattr(generator, name) for name in told}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def warn_of_counted_rules(schema: Schema) -> None:
    """Warn, before the fit, of rules that the model will not keep by construction; not where the schema chose them (`honoured`).
    For linked tables, it gives each its reason."""
    _, counted = schema.rules_apart()
    if counted and schema.honoured is None:
        why = structural_zeros.why_counted(schema) if schema.tables else {}
        told = [f"{rule.text} ({why[rule]})" if rule in why else rule.text for rule in counted]
        warnings.warn(
            f"synthetic records may break these rules; evaluate counts how often: {'; '.join(told)}",
            stacklevel=outside(),
        )
