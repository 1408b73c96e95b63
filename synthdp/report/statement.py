"""The statement of the guarantee: machine-readable, and enough on its own to recompute epsilon (law 34)."""

import dataclasses
import hashlib
import math
import os
import platform
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import synthdp
from synthdp import accounting
from synthdp.budgets.filters import Cap, Entered
from synthdp.errors import BadInput, listed
from synthdp.files import strict_json
from synthdp.ledger import parsing
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Plan, Sampled, Selection, canonical, to_json
from synthdp.ledger.ledger import Ledger
from synthdp.report.fitness_words import Fitness
from synthdp.report.information_loss import Counted, Lost
from synthdp.report.words import upper
from synthdp.schema import linked_tables
from synthdp.schema.schema import CLAMPED as CLAMPED_CELLS
from synthdp.schema.schema import CLAMPED_BELOW, Schema, clamping, facts_of

Read = TypeVar("Read")
SCHEMA_VERSION = 1
CLASSIFIER = "pate"  # in the place of a generator: the statement is of a classifier
# What a statement of this version may lack, since it was added later.
LATER = {"release_id", "fitness", "counted", "lost", "answers"}
ROUNDED = (
    "Where gradients of records were computed: that a row is rounded alike wherever it lies, and whoever else is there. In float32 this "
    "was probed before the first charge, with kernels pinned, and holds for other rows on trust; in float64, where rows are padded to a "
    "multiple of 64, it holds on trust."
)
# Small deltas are for promises; the large ones give the tighter bounds on an attacker (`meaning.advantage`).
CURVE_DELTAS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.03, *(10.0**-power for power in range(2, 13)))

NOT_COVERED = (
    "Timing and memory use of the fit, and everything else that an observer of the machine could see.",
    "Figures computed from real records outside the fit (the internal evaluation): they are not part of the release.",
    "The content check before the fit (unknown categories, values out of bounds): its outcome was shown to the steward "
    "only.",
    "What was declared public in the schema: names, kinds, bounds, categories and counts are taken as known to "
    "everyone.",
    "Facts about the population: synthetic data reveal what is true of people in general, as any useful statistic "
    "does.",
    "Groups: the guarantee is for one unit; for k units that belong together (a family) it is weaker.",
    "What the noise rests on: AES-256, the operating system's entropy, and a machine whose snapshot was not resumed twice. "
    "Low-order bits of noisy answers tell nothing (Mironov 2012): the noise is ideal, and each answer is rounded to a public grid.",
    "Synthetic rows are independent of each other and each gets a fresh identifier: no row follows a real unit over "
    "time.",
)


SHARED = (
    "Rows that several people hold: each of them is protected with the row, and it counts once for each. What it says of all of them "
    "together is a fact about a group."
)
FOLLOWED = (
    "Synthetic people are independent of each other, and keys are fresh: they link the rows of synthetic people, and none leads to a real "
    "one."
)
TEACHERS = (
    "That a teacher's vote depends only on its own part of the records: the code of the teachers and of the features was tested on made-up "
    "rows and is otherwise taken on trust."
)
CLAMPED = "Cells that break the schema. The fit did not refuse them (invalid=clamp): {what}."
SELECTED = (
    "How long the selection took: it makes a hidden number of fits, and who timed it knows about how many. The privacy of the best "
    "one rests on that number being unknown."
)
NOBODY = "not said: the schema has no `declared_by`"
OTHER_FITS = "Other fits, tuning runs and releases from the same records: what they spend adds up, and this statement counts one fit"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What was promised, and what it rests on. All of it is public."""

    epsilon: float
    delta: float
    relation: str
    unit: str
    max_records_per_unit: int
    accountant: str
    epsilons: Mapping[str, float]
    curve: Sequence[tuple[float, float]]  # (delta, epsilon)
    events: Plan
    budget: Budget
    account: Entered | None  # of the data set, over all its fits; None where the fit was entered in none
    generator: str
    settings: Mapping[str, Any]
    columns: Sequence[Mapping[str, Any]]  # per column: name, kind, declared items, bought items
    declared: Mapping[str, Any]  # facts of the table that were declared, and by whom
    noise_source: str
    rehearsal: bool
    not_covered: Sequence[str]
    provenance: Mapping[str, Any]
    release_id: str | None = (
        None  # a random UUID, by which a release is named should it be withdrawn; None: a rehearsal
    )
    fitness: Fitness | None = None  # figures that were bought; None where none were
    counted: Sequence[Counted] | None = None  # every question about tables of all records; None: not known
    lost: Lost | None = None  # what the model cannot show; None: not known
    answers: bool = False  # whether the noisy tables themselves are part of the release

    def recompute(self) -> float:
        """Epsilon from the events alone, by the accountant that the statement names."""
        return accounting.epsilon(self.events, self.delta, self.accountant)

    def __repr__(self) -> str:
        promise = f"epsilon {upper(self.epsilon)} at delta {self.delta:g} per {self.unit}"
        return f"Statement({self.generator}: {promise}, {len(self.columns)} columns{', rehearsal' * self.rehearsal})"

    def _repr_html_(self) -> str:
        """For notebooks: the guarantee in a few rows."""
        rows = {
            "guarantee": f"epsilon {upper(self.epsilon)} at delta {self.delta:g} per {self.unit}, by {self.accountant}",
            "generator": self.generator,
            "declared by": str(self.declared.get("by", "")),
            **({"rehearsal": "the noise comes from a seed: not for release"} if self.rehearsal else {}),
        }
        lines = (f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in rows.items())
        return f"<table>{''.join(lines)}</table>"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite epsilon is written as the string "inf"."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["events"] = [{"event": to_json(entry.event), "count": entry.count} for entry in self.events]
        values["budget"] = dataclasses.asdict(self.budget)
        values["account"] = self.account and dataclasses.asdict(self.account)
        values["curve"] = [{"delta": delta, "epsilon": epsilon} for delta, epsilon in self.curve]
        values["schema_version"] = SCHEMA_VERSION
        if self.fitness is None:
            del values["fitness"]
        else:
            values["fitness"] = self.fitness.to_json()
        values["counted"] = None if self.counted is None else [dataclasses.asdict(each) for each in self.counted]
        values["lost"] = self.lost and dataclasses.asdict(self.lost)
        for name in ("counted", "lost", "answers"):
            if not values[name] and values[name] != []:
                del values[name]
        made: dict[str, Any] = plain(values)
        return made

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Statement":
        """Read a statement back; raises `BadInput` where it is not one."""
        fields = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, Mapping):
            raise BadInput("not a statement: its JSON is not an object")
        missing, unknown = (
            sorted(fields - set(values) - LATER),
            sorted(map(str, set(values) - fields - {"schema_version"})),
        )
        if unknown:
            raise BadInput(
                f"not a statement that this version of synthdp reads: it does not know {unknown[0][:40]!r}. Was it written by a newer "
                "one, or edited?"
            )
        if missing or values.get("schema_version") != SCHEMA_VERSION:
            raise BadInput(f"not a statement of version {SCHEMA_VERSION}: missing {missing or 'schema_version'}")
        return cls(**{name: _read(name, values[name]) for name in fields & set(values)})

    @classmethod
    def load(cls, path: Path | str) -> "Statement":
        """Read statement.json."""
        path = Path(path)
        if not path.is_file():
            raise BadInput(f"no statement at {path}")
        return cls.from_json(strict_json.load(path))


def state(
    *,
    ledger: Ledger,
    budget: Budget,
    declared: Schema,
    resolved: Schema,
    generator: str,
    settings: Mapping[str, Any],
    rehearsal: bool,
    package: Mapping[str, str] | None = None,
    account: Entered | None = None,
    audit: str | None = None,
    processes: int = 1,
    chance: bytes | None = None,
    fitness: Fitness | None = None,
    invalid: str = "error",
    counted: Sequence[Counted] | None = None,
    lost: Lost | None = None,
    answers: bool = False,
    edited_after: Sequence[str] = (),
) -> Statement:
    """The statement of a fit: `declared` is the schema as the steward gave it, `resolved` with what was bought; `invalid`
    and `edited_after` as in `Synthesizer.fit`.

    `package` is the name and the version of the package of a generator that is not synthdp's own. `chance` are the 16 random bytes
    that a release's identifier is made of; without them the operating system is asked. It is drawn, not derived: it says nothing of
    the records. A rehearsal is not released and has none.
    """
    accountant, epsilon = accounting.best(ledger, budget.delta)
    made = Statement(
        epsilon=epsilon,
        delta=budget.delta,
        relation=budget.relation,
        unit=declared.unit or "record",
        max_records_per_unit=declared.max_records_per_unit,
        accountant=accountant,
        epsilons=accounting.epsilons(ledger, budget.delta),
        curve=tuple(accounting.curve(ledger, CURVE_DELTAS, accountant)),
        events=canonical(ledger.entries()),
        budget=budget,
        account=account,
        generator=generator,
        settings=settings,
        columns=columns(declared, resolved),
        declared={
            **of_schema(declared),
            "units": "learned" if declared.units == "learn" else declared.units,
            **({} if audit is None else {"audit": audit}),
            **({} if processes == 1 else {"processes": processes}),
            **({} if invalid == "error" else {"invalid": invalid}),
            **({"edited_after": list(edited_after)} if edited_after else {}),
        },
        noise_source=noise_source(rehearsal=rehearsal),
        rehearsal=rehearsal,
        not_covered=(),
        provenance={
            "synthdp": synthdp.__version__,
            "wording": wording(),
            **({} if package is None else {"generator": dict(package)}),
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("torch", "numpy", "cryptography")},
            **accounting.provenance(),
        },
        release_id=None if rehearsal else str(uuid.UUID(bytes=chance or os.urandom(16), version=4)),
        fitness=fitness,
        counted=counted,
        lost=lost,
        answers=answers,
    )
    return dataclasses.replace(made, not_covered=limits(made, declared))


def foreign(generator: str, package: str, version: str) -> str:
    """What a fit by a third party's generator rests on."""
    return (
        f"The generator {generator} comes from the package {package}, version {version}, and not from "
        "synthdp. A generator is trusted code: that it learns from noisy answers alone is that package's word."
    )


def limits(said: Statement, schema: Schema) -> tuple[str, ...]:
    """What the statement of a fit does not cover, in sentences: a function of its other facts and of the schema."""
    seen, package, processes = (
        read_off(said.columns),
        said.provenance.get("generator"),
        said.declared.get("processes", 1),
    )
    events = [entry.event for entry in said.events]
    return (
        other_fits(said.account),
        *(() if package is None else (foreign(said.generator, package["package"], package["version"]),)),
        *(NOT_COVERED[:-1] if schema.tables else NOT_COVERED),
        *((SHARED,) if len(schema.tables) > 2 else ()),
        *((FOLLOWED,) if schema.tables else ()),
        *((seen,) if seen else ()),
        *edited(said.declared.get("edited_after", ())),
        *broken_rules(schema),
        *(() if processes == 1 else (together(processes),)),
        *(
            (CLAMPED.format(what=clamping(below=len(schema.tables) > 2)),)
            if said.declared.get("invalid") == "clamp"
            else ()
        ),
        *((SELECTED,) if any(isinstance(event, Selection) for event in events) else ()),
        *((ROUNDED,) if any(isinstance(event, Sampled) for event in events) else ()),
    )


def wording() -> str:
    """A digest of what this version of synthdp writes of its own accord: its sentences, and the deltas of the curve.

    A statement of the same wording is held against these; of another, they are as claimed by whoever made the release.
    """
    capped = Entered(filter="additive", order=None, cap=Cap(epsilon=1.0, delta=1e-6), head_checked=False)
    accounts = (None, dataclasses.replace(capped, cap=None), capped)
    sources = (noise_source(rehearsal=False), noise_source(rehearsal=True))
    said = (
        NOT_COVERED,
        CLAMPED,
        CLAMPED_CELLS,
        CLAMPED_BELOW,
        SELECTED,
        ROUNDED,
        SHARED,
        FOLLOWED,
        TEACHERS,
        CURVE_DELTAS,
        together(2),
        edited(("a check",)),
        *sources,
        *map(other_fits, accounts),
    )
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def together(processes: int) -> str:
    """What a fit in several processes rests on."""
    return (
        f"The {processes} processes of the fit, which trust each other: each held a part of the units, exact clipped sums and counts "
        "passed between them, and the first one drew the noise, once for all."
    )


def read_off(columns: Sequence[Mapping[str, Any]]) -> str:
    """A sentence on the columns whose declared facts were read off the records; empty where there are none."""
    names = [str(column["name"]) for column in columns if column["declared"].get("observed")]
    if not names:
        return ""
    return (
        f"Facts of {listed(names, others='others')} were read off the records at no charge, as the schema says (observed: true): "
        "a bound or a category may be that of one person."
    )


def edited(after: Sequence[str]) -> tuple[str, ...]:
    """A sentence on a schema that was edited after somebody had looked at the records by it."""
    if not after:
        return ()
    return (
        f"The public facts of the schema were edited after {' and '.join(after)} of the records, which epsilon does not cover: "
        "a fact that was read off them and declared is not protected.",
    )


def of_schema(schema: Schema) -> dict[str, Any]:
    """What the schema alone tells: who declares it, which rules every synthetic record keeps and which evaluation counts, the columns that
    are left out, how files are written, and linked tables in words."""
    kept, counted = ([rule.text for rule in part] for part in schema.rules_apart())
    ignored = [column.name for column in schema.ignored]
    return {
        "by": schema.declared_by or NOBODY,
        "targets": list(schema.targets),
        "name": schema.name,
        **linked(schema),
        **({"rules": {"kept": kept, "counted": counted}} if kept or counted else {}),
        **({"ignored": ignored} if ignored else {}),
        **({} if schema.reading is None else {"reading": schema.reading.to_dict()}),
    }


def linked(schema: Schema) -> dict[str, Any]:
    """Linked tables in words: whose rows they are, and how many count."""
    if not schema.tables:
        return {}
    people, visits, *items = schema.tables
    told = [
        f"{people.name}: one row for each {schema.unit}; all rows of one {schema.unit} in all tables are protected together",
        f"{visits.name}: rows belong to the {schema.unit} that they name. Of one {schema.unit} at most {visits.max_rows} that follow one "
        f"another by {visits.order} count, wherever they begin; numbers, gaps and what came before are told by the whole history",
    ]
    for table in items:
        whose = f"by {visits.key}" + (f" and {schema.unit}" if table.with_unit else "")
        shared = (
            "" if table.with_unit else f"; a row whose {visits.key} several people hold counts once for each of them"
        )
        told.append(
            f"{table.name}: rows belong to a row of {visits.name}, {whose}, of which at most {table.max_rows} count, chosen by their "
            f"content{shared}"
        )
    for column, places in linked_tables.once(schema):
        if places and getattr(column, "tree", None) is not None:
            told.append(
                f"{column.name}: which codes are kept depends on how many {schema.unit} have each, and each code above it. Whoever has "
                f"more than {places} different ones may count less for each of them"
            )
    told += [note for note in schema.notes if note.startswith("OMOP CDM")]
    return {"tables": told}


def broken_rules(schema: Schema) -> tuple[str, ...]:
    """A sentence on the rules that no construction keeps, if there are any."""
    _, counted = schema.rules_apart()
    if not counted:
        return ()
    return (f"Declared rules that synthetic records may break: {'; '.join(rule.text for rule in counted)}.",)


def other_fits(account: Entered | None) -> str:
    """What the statement does not say of other fits of the same records, in view of the account that keeps count of them."""
    if account is None:
        return f"{OTHER_FITS}. It was entered in no account, so nobody keeps count here."
    if account.cap is None:
        return f"{OTHER_FITS}. The steward's account records it with the other fits; no cap limits their sum."
    return (
        f"{OTHER_FITS}. The steward's account refuses fits that would bring all those entered in it above epsilon "
        f"{account.cap.epsilon:g}, delta {account.cap.delta:g}; it cannot know of uses that were not entered, and only the "
        "steward can change the cap."
    )


def columns(declared: Schema, resolved: Schema) -> list[dict[str, Any]]:
    """Each column's public facts, split into what was declared and what was bought; a column below visits is one, whatever its place."""
    rows = []
    pairs = zip(linked_tables.once(declared), linked_tables.once(resolved), strict=True)
    for (before, _), (after, _) in pairs:
        old, new = facts_of(before), facts_of(after)
        bought = {name: value for name, value in new.items() if old.get(name) != value}
        kept = {name: value for name, value in old.items() if name not in bought and name != "kind"}
        rows.append({"name": before.name, "kind": before.kind, "declared": kept, "bought": bought})
    return rows


def noise_source(*, rehearsal: bool) -> str:
    """Where the noise came from."""
    if rehearsal:
        return "a seed: the noise can be regenerated, so this is a rehearsal and not for release"
    return (
        "AES-256-CTR keyed by the operating system's entropy; ideal Gaussian or Laplace noise, as the event says, sampled exactly and "
        "rounded to a public grid of at most 1/64 of its scale; choices drawn with whole numbers in proportion to their probabilities; "
        "no seed exists"
    )


def plain(value: Any) -> Any:
    """The value as JSON has it: lists for tuples, and the text "inf" for what JSON has no number for."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _read(name: str, value: Any) -> Any:
    """A field as it is in memory; `BadInput` where it has another form. Text stays text: a category may be called inf."""
    try:
        return _READERS[name](value)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = f" ({error})" if isinstance(error, BadInput) else ""
        raise BadInput(f"not a statement: {name} has the wrong form{why}; take a fresh copy of the release") from error


def _a(kind: type[Read]) -> Callable[[Any], Read]:
    """Reads a value that is of this kind already; a truth value is no number."""

    def read(value: Any) -> Read:
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise TypeError(f"expected {kind.__name__}")
        return value

    return read


def _events(values: Any) -> Plan:
    return tuple(parsing.entry({**item, "event": _numbers(item["event"])}) for item in values)


def _column(values: Any) -> dict[str, Any]:
    parts = (_a(str)(values["name"]), _a(str)(values["kind"]), dict(values["declared"]), dict(values["bought"]))
    return dict(zip(("name", "kind", "declared", "bought"), parts, strict=True))


def _entered(values: Mapping[str, Any]) -> Entered:
    cap = None if values["cap"] is None else Cap(**values["cap"])
    return Entered(**{**values, "cap": cap})


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping with its infinite numbers read back, inner events too; `reason` and `unit` are text."""
    return {name: value if name in ("reason", "unit") else _number(value) for name, value in values.items()}


def _real(value: Any) -> float:
    found = _number(value)
    if isinstance(found, bool) or not isinstance(found, int | float) or math.isnan(found):
        raise TypeError("expected a number")
    return float(found)


def _number(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _numbers(value)
    if isinstance(value, list):
        return [_number(item) for item in value]
    return float(value) if value in ("inf", "-inf") else value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("relation", "unit", "accountant", "generator", "noise_source"), _a(str)),
    **dict.fromkeys(("declared", "provenance"), _a(dict)),
    "epsilon": _real,
    "delta": _real,
    "max_records_per_unit": _a(int),
    "epsilons": lambda values: {name: _real(value) for name, value in values.items()},
    "curve": lambda values: tuple((_real(point["delta"]), _real(point["epsilon"])) for point in values),
    "events": _events,
    "budget": lambda values: Budget(**_numbers(values)),
    "account": lambda values: None if values is None else _entered(values),
    "settings": _numbers,
    "columns": lambda values: [_column(column) for column in _a(list)(values)],
    "rehearsal": _a(bool),
    "not_covered": lambda values: tuple(_a(str)(line) for line in _a(list)(values)),
    "release_id": lambda value: None if value is None else str(uuid.UUID(value)),
    "fitness": lambda values: None if values is None else strict_json.made(Fitness, values),
    "counted": lambda values: tuple(strict_json.made(Counted, each) for each in _a(list)(values)),
    "lost": lambda values: strict_json.made(Lost, values),
    "answers": _a(bool),
}
