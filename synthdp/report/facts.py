"""The facts that a stored release claims: what each is checked against, or that nothing in the folder can confirm it (law 43).

A statement says a few things of its own, and many that follow from the ledger, the schema, the settings and the model beside
it. These are recomputed and compared. The rest is claimed by whoever made the release, and so are the ledger,
the schema, the settings and the model themselves: only a signature tells whose they are.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from synthdp import accounting
from synthdp.accounting.charges import charges
from synthdp.errors import BadInput
from synthdp.ledger.events import RECORD, Capped, Gaussian, Plan, Threshold
from synthdp.report import statement as stating
from synthdp.report.fitness_words import CONFIDENCE
from synthdp.report.statement import CURVE_DELTAS, Statement, plain
from synthdp.schema.codec import Codec
from synthdp.schema.columns import LEARN, Categorical
from synthdp.schema.linked_tables import once
from synthdp.schema.schema import Schema, facts_of

# How near epsilon comes with the recorded versions and grid of its accountant, and with others (law 34).
SAME, OTHER = 1e-9, 1e-3
BOUGHT = {"categories", "other", "bounds", "bins", "atoms"}  # items that can be: see `seal.learn`
ALTERED = "the release was altered or damaged: take a fresh copy"

Limits = Callable[[tuple[str, ...]], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Held:
    """A statement and the other parts of its folder. `limits` turns the sentences of a fit into those of this kind of
    release."""

    folder: Path
    statement: Statement
    events: Plan
    schema: Schema
    generator: str
    settings: Mapping[str, Any] | None  # None: what stands there shapes no model
    old: bool = False  # a release of format 1: older versions let other accountants claim, and gave no id
    tables: bool = False  # whether noisy tables lie in the folder
    package: str | None = None  # that the generator comes from, where it is not synthdp's own
    limits: Limits = tuple

    @cached_property
    def epsilons(self) -> Mapping[str, float]:
        """Epsilon of the events by every accountant that has a proof."""
        return accounting.epsilons(self.events, self.statement.delta)

    @cached_property
    def versions(self) -> Mapping[str, Any]:
        """The versions of the accountants that are installed here."""
        found: dict[str, Any] = plain(accounting.provenance())
        return found

    @property
    def worded_here(self) -> bool:
        """Whether this version of synthdp knows the sentences that the release was written with."""
        return bool(self.statement.provenance.get("wording") == stating.wording())

    @cached_property
    def capped(self) -> bool:
        """Whether there is a cap, which stands for all that was asked under it."""
        return any(isinstance(entry.event, Capped) for entry in self.events)

    def charged(self, noise: float) -> bool:
        """Whether a Gaussian of this noise was charged: in the ledger, or under a cap."""
        return self.capped or any(
            isinstance(each.event, Gaussian) and each.event.noise == noise for each in self.events
        )

    def near(self, accountant: str, found: float, again: float) -> bool:
        """Whether a recorded figure of an accountant agrees with the one computed here."""
        same = self.statement.provenance.get(accountant) == self.versions.get(accountant)
        close = SAME if same else OTHER
        return math.isclose(found, again, rel_tol=close, abs_tol=SAME)


@dataclass(frozen=True)
class Fact:
    """A field of the statement, or a part of one. `checked` names what it must match, `claimed` the part that nobody can check.

    `holds` is None where nothing can be compared, and returns None where this version cannot compare; the fact is then only
    claimed.
    """

    name: str
    checked: str = ""
    holds: Callable[[Held], bool | None] | None = None
    _: KW_ONLY
    claimed: str = ""
    costly: bool = False  # takes the accountants seconds
    optional: bool = False  # claimed only where the statement has it


def check(held: Held, *, costly: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Fact -> what it matches, and fact -> what is only claimed. Raises `BadInput` that names a fact without a match.

    Without `costly` the accountants are not run, and the facts that need them are left out.
    """
    checked: dict[str, str] = {}
    claimed = dict(BESIDE)
    for fact in FACTS:
        absent = fact.holds is None and fact.name.partition(".")[2] not in {"", *held.statement.declared}
        if absent or (fact.costly and not costly):
            continue
        answer = _answer(fact, held)
        if answer is False:
            raise BadInput(f"{held.folder}: the statement's field {fact.name} does not match {fact.checked}; {ALTERED}")
        if answer:
            checked[fact.name] = fact.checked
        there = not fact.optional or bool(getattr(held.statement, fact.name))
        if (fact.claimed and there) or answer is None:
            claimed[fact.name] = fact.claimed or "written by another version of synthdp, so it cannot be checked here"
    known = {fact.name for fact in FACTS}
    others = (f"declared.{name}" for name in held.statement.declared)
    claimed |= {name: "a fact that this version of synthdp does not know" for name in others if name not in known}
    return checked, claimed


def _answer(fact: Fact, held: Held) -> bool | None:
    if fact.holds is None:
        return None
    try:
        return fact.holds(held)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError) as error:
        raise BadInput(f"{held.folder}: the statement's field {fact.name} has the wrong form; {ALTERED}") from error


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON values, in which true is not 1."""
    return bool(_told(plain(one)) == _told(plain(other)))


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _told(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_told(item) for item in value]
    return (bool, value) if isinstance(value, bool) else value


def _events(held: Held) -> bool:
    """Possible ones, too: the accountants' first step says so, and it is quick."""
    charges(held.events)
    return held.statement.events == held.events


def _neighbours(held: Held, name: str) -> bool:
    return {getattr(entry.event, name) for entry in held.events} <= {getattr(held.statement, name)}


def _accountant(held: Held) -> bool | None:
    """One that may make a claim, and of these the one that says least. An older version let the older theorems claim, too."""
    name, least = accounting.best(held.events, held.statement.delta)
    claimed = held.statement.accountant
    if claimed not in accounting.CLAIMING:
        return None if claimed in held.epsilons and held.old else False
    return name == claimed or held.near(claimed, held.epsilons[claimed], least)


def _epsilons(held: Held) -> bool:
    """Those of all accountants that were there when the statement was written, and none besides."""
    found, again = held.statement.epsilons, held.epsilons
    expected = {name for name in again if name in held.statement.provenance}
    return expected <= set(found) <= set(again) and all(held.near(name, found[name], again[name]) for name in found)


def _curve(held: Held) -> bool:
    deltas = [delta for delta, _ in held.statement.curve]
    if not deltas or (held.worded_here and deltas != list(CURVE_DELTAS)):
        return False
    again = accounting.curve(held.events, deltas, held.statement.accountant)
    pairs = zip(held.statement.curve, again, strict=True)
    return all(held.near(held.statement.accountant, found, epsilon) for (_, found), (_, epsilon) in pairs)


def _budget(held: Held) -> bool:
    """Records that were handed out beside a plan pass every budget."""
    said = held.statement
    within = said.epsilon <= said.budget.epsilon * (1 + OTHER) or math.isinf(said.epsilon)
    return said.budget.relation == said.relation and within


def _columns(held: Held) -> bool:
    """Every column with the items that the schema has for it, each either declared or bought, and bought ones paid for."""
    known = {column.name: facts_of(column) for column, _ in once(held.schema)}
    said = held.statement.columns
    names = [column["name"] for column in said]
    if names == list(held.schema.names):  # older ones tell each place of a column below visits
        known = {column.name: facts_of(column) for column in held.schema.columns}
    if names != list(known):
        return False
    for column in said:
        declared, bought = column["declared"], column["bought"]
        items = {"kind": column["kind"], **declared, **bought}
        if set(declared) & set(bought) or set(bought) - BOUGHT or not _same(items, known[column["name"]]):
            return False
        # Of single values only 0 is found, on a grid that buys bounds or bins.
        if "atoms" in bought and not (_same(bought["atoms"], [0]) and {"bounds", "bins"} & set(bought)):
            return False
    return _paid(held)


def _paid(held: Held) -> bool:
    """Whether there are events enough to have bought what is said to be bought."""
    if held.capped:
        return True
    trees = {
        c.name for c, _ in once(held.schema) if isinstance(c, Categorical) and c.tree is not None and c.tree.declared
    }
    bought = [each["name"] for each in held.statement.columns if "categories" in each["bought"]]
    grids = sum(name in trees for name in bought)  # whose nodes are public: counted without a threshold
    lists = len(bought) - grids
    for column in held.statement.columns:  # bounds take a coarse grid and a fine one
        grids += 2 if "bounds" in column["bought"] else int("bins" in column["bought"])
    asked: Counter[type] = Counter()
    for entry in held.events:
        asked[type(entry.event)] += entry.count
    learned = held.statement.declared.get("units") == "learned"
    return asked[Threshold] >= lists and asked[Gaussian] >= grids + learned


def _units(held: Held) -> bool:
    found, units = held.statement.declared["units"], held.schema.units
    return _same(found, units) or (found == "learned" and units is not None and units != LEARN and _paid(held))


def _noise_source(held: Held) -> bool | None:
    expected = stating.noise_source(rehearsal=held.statement.rehearsal)
    return held.statement.noise_source == expected if held.worded_here else None


def _not_covered(held: Held) -> bool | None:
    said = held.statement
    again = held.limits(stating.limits(said, held.schema))
    return tuple(said.not_covered) == tuple(again) if held.worded_here else None


def _provenance(held: Held) -> bool:
    """A generator of another package is named with it, and one of synthdp's own is not."""
    told = held.statement.provenance.get("generator")
    return (None if told is None else told["package"]) == held.package


def _release_id(held: Held) -> bool:
    """Releases of format 1 may have none."""
    said = held.statement
    return said.release_id is None if said.rehearsal else said.release_id is not None or held.old


def _fitness(held: Held) -> bool:
    """Its noise is that of a question that was asked, its confidence that of every such figure, its tables have cells for the schema's
    codes, and its ends are in order."""
    found = held.statement.fitness
    if found is None:
        return True
    codec = Codec(held.schema)
    sizes = dict(zip(codec.names, codec.sizes, strict=True))
    return (
        held.charged(found.noise)
        and found.confidence == CONFIDENCE
        and all(
            set() < set(table.columns) <= set(sizes)
            and table.cells == math.prod(sizes[name] for name in table.columns)
            and group.worst[1] == max(each.interval[1] for each in group.tables)
            for group in (found.single, found.with_target)
            if group is not None
            for table in group.tables
        )
    )


def _counted(held: Held) -> bool:
    """Tables of columns that the schema has, with a noise that was charged: in the ledger, or under a cap."""
    names = {column.name for column in held.schema.coded}
    return all(
        held.charged(each.noise) and all(set(table) <= names and len(set(table)) == len(table) for table in each.tables)
        for each in held.statement.counted or ()
    )


def _lost(held: Held) -> bool:
    said = held.statement
    clamped = said.declared.get("invalid") == "clamp"
    return said.lost is None or said.lost.matches(held.schema, said.counted, clamped=clamped)


def _declared(name: str) -> Callable[[Held], bool]:
    """Whether the statement says about this what follows from the schema."""
    return lambda held: _same(held.statement.declared.get(name), stating.of_schema(held.schema).get(name))


BESIDE = {
    "ledger": "that these questions were asked, and no others",
    "schema": "what is public of the columns, and that it was not read off the records",
    "model": "that it was made from the answers",
}
FACTS = (
    Fact("events", "the ledger", _events),
    Fact("relation", "the relation of the ledger's events", lambda held: _neighbours(held, "relation")),
    Fact(
        "unit",
        "the unit of the schema and of the ledger's events",
        lambda held: held.statement.unit == (held.schema.unit or RECORD) and _neighbours(held, "unit"),
    ),
    Fact(
        "max_records_per_unit",
        "the schema",
        lambda held: _same(held.statement.max_records_per_unit, held.schema.max_records_per_unit),
    ),
    Fact("delta", "the delta of the budget", lambda held: held.statement.delta == held.statement.budget.delta),
    Fact("epsilons", "what the ledger's events cost by each accountant", _epsilons, costly=True),
    Fact(
        "accountant",
        "the accountant with the least epsilon, among those that may set the claim",
        _accountant,
        costly=True,
    ),
    Fact(
        "epsilon",
        "what the ledger's events cost by that accountant",
        lambda held: held.near(
            held.statement.accountant, held.statement.epsilon, held.epsilons[held.statement.accountant]
        ),
        costly=True,
    ),
    Fact("curve", "what the ledger's events cost at each delta", _curve, costly=True),
    Fact(
        "budget",
        "the events, which cost at most that much under their relation",
        _budget,
        claimed="how much was granted beyond what was spent",
    ),
    Fact("account", claimed="in which account the fit was entered, if in any, and what that account allows"),
    Fact("generator", "the generator that reads the model", lambda held: held.statement.generator == held.generator),
    Fact(
        "settings",
        "the settings that the model is read with",
        lambda held: None if held.settings is None else _same(held.statement.settings, held.settings),
        claimed="settings that leave no trace in the model",
    ),
    Fact(
        "columns",
        "the columns of the schema, whose bought facts the ledger pays for",
        _columns,
        claimed="which facts were declared and which were bought",
    ),
    Fact("declared.by", "the person or body that the schema names", _declared("by")),
    Fact("declared.units", "the schema", _units),
    *(
        Fact(f"declared.{name}", "the schema", _declared(name))
        for name in ("targets", "name", "rules", "tables", "ignored", "reading")
    ),
    Fact("declared.edited_after", claimed="after which looks at the records the schema was edited"),
    Fact("declared.audit", claimed="how the records were prepared for an audit"),
    Fact("declared.processes", claimed="how many processes held the records"),
    Fact("declared.invalid", claimed="that cells that break the schema were mapped to allowed values"),
    Fact("declared.public_records", claimed="how many public records there were"),
    Fact("noise_source", "the sentence that this version writes", _noise_source),
    Fact("rehearsal", claimed="that the noise came from the operating system, or from a seed"),
    Fact(
        "provenance",
        "the package that the generator comes from",
        _provenance,
        claimed="the versions that the fit ran on",
    ),
    Fact("not_covered", "the sentences that follow from the other facts", _not_covered),
    Fact(
        "release_id",
        "the rule that a release has an id and a rehearsal has none",
        _release_id,
        claimed="the withdrawal id",
    ),
    Fact(
        "fitness",
        "the schema's columns and codes, the noise in the ledger and the confidence of every such figure",
        _fitness,
        claimed="the figures of fitness",
        optional=True,
    ),
    Fact(
        "counted", "the schema's columns and the noise in the ledger", _counted, claimed="which tables were asked for"
    ),
    Fact("lost", "the schema and the tables that were counted", _lost, claimed="the shares of merged categories"),
    Fact(
        "answers",
        "the folder, which has noisy tables or has none",
        lambda held: held.statement.answers == held.tables,
        claimed="the cells and noisy counts in the tables",
        optional=True,
    ),
)
