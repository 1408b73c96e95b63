"""Which tables a fit counted, and what its model cannot show about the records: in the statement, and in words.

Every figure here follows from noisy answers that were paid for, or from public facts. No exact count of records is among them.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from synthdp.errors import closed
from synthdp.ledger.events import RECORD
from synthdp.schema.columns import Categorical, Numeric
from synthdp.schema.learned import unfound
from synthdp.schema.linked_tables import once, told_by
from synthdp.schema.rows_below import ROWS
from synthdp.schema.schema import CLAMPED_BELOW, Schema, clamping

if TYPE_CHECKING:
    from synthdp.report.statement import Statement

MODEL, FITNESS = "model", "fitness"  # what tables were counted for
SHOWN = 8  # columns of a line
MOST_PAIRS = 20  # pairs of columns that are named
VAGUE = 0.2  # above it a bound on a share says nothing, nor does a share with so large an error
BELOW = re.compile(
    r"(\w+): rows belong to a row of (\w+), .*, of which at most ([0-9]+) count, chosen by their content.*"
)
SLOW = 1.15  # to divide the noise by x, epsilon grows by at most x to this power, by less if it is small
SMALLEST = 8  # side, in pixels, of pictures that are worth proposing
LITTLE = 0.001  # share below which nothing is said of what became "other"


@dataclass(frozen=True, kw_only=True)
class Counted:
    """One question about tables of all records: `noise` is its multiplier, `tables` the columns of each table.

    Which tables a generator asks for follows from public facts and from earlier noisy answers.
    """

    noise: float
    tables: tuple[tuple[str, ...], ...]
    purpose: str = MODEL

    def __post_init__(self) -> None:
        if self.purpose not in (MODEL, FITNESS) or not all(self.tables):
            raise ValueError("tables were counted for something unknown, or have no columns")
        _check_range(math.inf, self.noise)

    def deviation(self, schema: Schema) -> float:
        """The standard deviation of every cell: the noise times R sqrt(m), for at most R records of a unit in m tables."""
        return self.noise * (schema.max_records_per_unit if schema.unit else 1) * math.sqrt(len(self.tables))


@dataclass(frozen=True, kw_only=True)
class Merged:
    """The share of records whose category of a column is `other`: those of merged categories, and those that say `other` themselves, such
    as concept 0 of OMOP, which no noisy count tells apart. `error` is the standard error of a share that was read off a
    noisy table; None where the share is that of synthetic records."""

    column: str
    other: str
    share: float
    error: float | None

    def __post_init__(self) -> None:
        _check_range(1, self.share)
        _check_range(math.inf, self.error or 0)

    @property
    def text(self) -> str:
        if self.error is None:
            return f"{self.column} {self.share:.1%} of synthetic records"
        if 2 * self.error > VAGUE:
            return f"{self.column} a share that noise hides"
        return f"{self.column} {self.share:.1%} ± {2 * self.error:.1%} of records"


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Declared categories of a column whose noisy counts do not stand clear of the noise, and the share of records that each of them
    has at most, two standard errors above the largest noisy one."""

    column: str
    categories: tuple[str, ...]
    share: float

    def __post_init__(self) -> None:
        if not self.categories or len(set(self.categories)) < len(self.categories):
            raise ValueError("no category is hidden, or one twice")
        _check_range(1, self.share)

    @property
    def text(self) -> str:
        told = f"{self.column} {_listed(list(self.categories))}"
        each = "each " * (len(self.categories) > 1)
        return told if self.share > VAGUE else f"{told} ({each}probably under {self.share:.1%} of records)"

    def matches(self, schema: Schema) -> bool:
        """Whether the column has these categories."""
        column = next((each for each, _ in once(schema) if each.name == self.column), None)
        return isinstance(column, Categorical) and set(self.categories) <= set(column.categories)


@dataclass(frozen=True, kw_only=True)
class Levels:
    """At which level of its tree a column's codes are kept, coarsest first: how many codes of the level are kept, and the share of
    records that have one. `errors` are the standard errors of shares that were read off a noisy table, or none."""

    column: str
    codes: tuple[int, ...]
    shares: tuple[float, ...]
    errors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.shares) != len(self.codes) or (self.errors and len(self.errors) != len(self.codes)):
            raise ValueError("levels hold other figures")
        _check_range(1, *self.shares)
        _check_range(math.inf, *self.codes, *self.errors)

    @property
    def text(self) -> str:
        """The levels in words, finest first."""
        last, parts = len(self.codes), []
        for level in range(last, 0, -1):
            doubt = f" ± {2 * self.errors[level - 1]:.1%}" if self.errors else ""
            if self.codes[level - 1]:
                parts.append(
                    f"{self.shares[level - 1]:.1%}{doubt} at level {level} of {last} ({self.codes[level - 1]:,} codes)"
                )
        return f"{self.column} {', '.join(parts) or 'none'}"

    def matches(self, schema: Schema) -> bool:
        """Whether the schema keeps this many codes of each level."""
        column = next((each for each, _ in once(schema) if each.name == self.column), None)
        return isinstance(column, Categorical) and column.tree is not None and self.codes == codes_of(column)


def codes_of(column: Categorical) -> tuple[int, ...]:
    """How many nodes of each level of its tree are among a column's categories, coarsest first."""
    if column.tree is None:
        return ()
    depths = [column.tree.depth(node) for node in column.categories if node != column.other]
    return tuple(depths.count(level) for level in range(1, column.tree.levels + 1))


@dataclass(frozen=True, kw_only=True)
class Bare:
    """A table below visits in which few of the drawn visits have a row, and the share of those that do."""

    table: str
    share: float

    def __post_init__(self) -> None:
        _check_range(1, self.share)

    @property
    def text(self) -> str:
        return f"{self.table} ({self.share:.1%})"


@dataclass(frozen=True, kw_only=True)
class Apart:
    """Two columns of a visit, or of codes below visits, that no table relates, since noise would hide the relation. Both are of one visit,
    or (`earlier`) the second is of the previous one."""

    column: str
    other: str
    earlier: bool

    @property
    def text(self) -> str:
        # Another code of its own column: how often the same one comes again is counted (`again`).
        other = f"{'another ' if self.other == self.column else ''}{self.other}"
        return f"{self.column} and {other} of the {'visit before' if self.earlier else 'same visit'}"


@dataclass(frozen=True, kw_only=True)
class HiddenPairs:
    """Of `counted` pairs of columns that tables relate, noise is likely to hide `number`: an average cell of each of their tables holds
    fewer of the declared units than `CLEAR` deviations of its noise. `named` are those of most cells, at most `MOST_PAIRS`, and
    `columns` those of which it hides more than half of the pairs."""

    counted: int
    number: int
    named: tuple[tuple[str, str], ...]
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.number <= self.counted or len(set(self.named)) != min(self.number, MOST_PAIRS):
            raise ValueError("other pairs are hidden than were counted or are named")

    def matches(self, counted: Iterable[Counted]) -> bool:
        """Whether tables relate these pairs."""
        tables = [{*table} for each in counted if each.purpose == MODEL for table in each.tables]
        return all(any(table.issuperset(pair) for table in tables) for pair in self.named)

    @property
    def text(self) -> str:
        """For a terminal and for the page."""
        more = f"; and {self.number - len(self.named)} more" if self.number > len(self.named) else ""
        mostly = f" Of {_listed(self.columns)} it is likely to hide most relations." if self.columns else ""
        return (
            f"Noise is likely to hide how {self.number} of {self.counted} pairs of columns go together, since their tables have cells that "
            "hold, on average, fewer records than two standard deviations of the noise: "
            f"{closed('; '.join(map(' and '.join, self.named)) + more)}{mostly} Synthetic records may show these relations too weakly, and "
            "others that are not there."
        )


@dataclass(frozen=True, kw_only=True)
class Lost:
    """What the model cannot show. `merged` by noisy counts or synthetic records; `alone` the columns that a generator of tables
    counted in no table of several columns; `empty` those whose noisy counts lie nearly all where clamping puts cells that break the
    schema; `levels` of the columns whose codes have a tree; `wide` the numeric ones whose noisy counts stand clear of the noise in a
    small part of their declared bounds alone; `hidden` the declared categories that do not stand clear of it; `unlinked` whether
    several records of a unit count, and each synthetic one is drawn by itself; `bare` the tables below visits in which few
    drawn visits have a row; `apart` the pairs of columns, of visits or of codes below them, that no table relates; `drowned` how large the
    noise is relative to what pictures show, which it is likely to hide at 1 or more (0: no pictures, or not known); `pairs` of columns that
    noise is likely to hide although tables relate them (None: no such pairs, or not known)."""

    merged: tuple[Merged, ...] = ()
    alone: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    levels: tuple[Levels, ...] = ()
    wide: tuple[str, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    unlinked: bool = False
    bare: tuple[Bare, ...] = ()
    drowned: float = 0.0
    apart: tuple[Apart, ...] = ()
    pairs: HiddenPairs | None = None

    def __post_init__(self) -> None:
        _check_range(math.inf, self.drowned)

    def matches(self, schema: Schema, counted: Iterable[Counted] | None, *, clamped: bool) -> bool:
        """Whether this can be said of a schema and of the tables that were counted."""
        known = {column.name: column for column in (*schema.coded, *(each for each, _ in once(schema)))}
        others = all(getattr(known.get(each.column), "other", None) == each.other for each in self.merged)
        apart = counted is None or not self.alone or self.alone == alone(schema, counted)
        levelled = all(each.matches(schema) for each in self.levels) and all(
            each.matches(schema) for each in self.hidden
        )
        numeric = {column.name for column in schema.columns if isinstance(column, Numeric)}
        named = set(self.alone) <= set(known) and set(self.wide) <= numeric
        linked = not self.unlinked or several(schema)
        linked &= {each.table for each in self.bare} <= {table.name for table in schema.tables[2:]}
        codes = {f"{table.name}.{told_by(schema, table)}" for table in schema.tables[2:]}
        codes |= {column.name for column in schema.modelled if column.name not in schema.per_unit}
        codes |= {table.name + ROWS for table in schema.tables[2:]}
        linked &= {name for each in self.apart for name in (each.column, each.other)} <= codes
        linked &= not self.drowned or schema.image is not None
        if self.pairs is not None:
            named &= {name for pair in self.pairs.named for name in pair} | {*self.pairs.columns} <= set(known)
            named &= counted is None or self.pairs.matches(counted)
        return others and apart and levelled and named and linked and (clamped or not self.empty)


def several(schema: Schema) -> bool:
    """Whether more than one record of a unit counts."""
    return schema.unit is not None and schema.max_records_per_unit > 1


def alone(schema: Schema, counted: Iterable[Counted]) -> tuple[str, ...]:
    """The columns that are in no table of several columns. A compound of columns that rules tie is a table of these by itself."""
    together = {
        name for each in counted if each.purpose == MODEL for table in each.tables if table[1:] for name in table
    }
    return tuple(column.name for column in schema.coded if column.name in schema.names and column.name not in together)


def by_target(statement: "Statement") -> list[str]:
    """The columns that were counted with columns to predict alone, where others could have been counted with them."""
    company = dict[str, set[str]]()
    for each in statement.counted or ():
        for table in each.tables if each.purpose == MODEL else ():
            for name in table:
                company.setdefault(name, set()).update(table)
    targets = set(statement.declared["targets"])
    others = [str(each["name"]) for each in statement.columns if each["name"] in company.keys() - targets]
    return (
        [name for name in others if company[name] - {name} and company[name] - {name} <= targets] if others[1:] else []
    )


def _ruled(statement: "Statement", names: Iterable[str]) -> bool:
    """Whether a rule that all synthetic records keep seems to name one of these columns, and may relate it to others."""
    kept = (statement.declared.get("rules") or {}).get("kept", ())
    return any(name in rule for name in names for rule in kept)


def brief(statement: "Statement") -> list[str]:
    return [f"lost       {sentence}" for sentence in sentences(statement)]


def sentences(statement: "Statement") -> Iterator[str]:
    """What was lost, for a terminal and for the page; of the cap and of clamping the rule alone, never how many."""
    unit, most = statement.unit, statement.max_records_per_unit
    clamped, lost = statement.declared.get("invalid") == "clamp", statement.lost or Lost()
    if lost.merged:
        yield (
            "In the category for all others, whether merged into it or recorded so: "
            f"{_listed([each.text for each in lost.merged], '; ')}."
        )
    if lost.levels:
        yield (
            "Codes kept at the finest level of their tree that stands clear of the noise, rarer codes under their parents: "
            f"{_listed([each.text for each in lost.levels], '; ')}."
        )
    drawn = [str(each["name"]) for each in statement.columns if (each["declared"].get("tree") or {}).get("leaves")]
    if drawn:
        yield (
            f"Synthetic codes of {_listed(drawn)} were drawn uniformly below the code that was kept: below that level they show what "
            "was declared, and nothing of the records."
        )
    if lost.hidden:
        yield (
            f"Categories that cannot be told from noise: {closed(_listed([each.text for each in lost.hidden], '; '))} Synthetic "
            "records may contain too few or too many of them."
        )
    unknown = [
        str(each["name"])
        for each in statement.columns
        if (ends := each["bought"].get("bounds")) and unfound(ends[0], ends[1], each["declared"].get("decimals"))
    ]
    if unknown:
        yield (
            f"Noise hid the bounds of these columns, so the widest possible ones stand: {closed(_listed(unknown))} Most of their synthetic "
            "values probably lie where no real one does; declare their bounds."
        )
    if lost.alone:
        yield (
            f"Known only by themselves, without any relation to another column: {closed(_listed(lost.alone))} Synthetic records show no "
            f"association of these columns but by chance{' or by a rule that all of them keep' * _ruled(statement, lost.alone)}."
        )
    if named := by_target(statement):
        yield (
            f"Counted together with {_listed(statement.declared['targets'])} and with no other column: {closed(_listed(named))} Synthetic "
            "records show no other relations of these columns than those that follow from this one"
            f"{', or from a rule that all of them keep' * _ruled(statement, named)}."
        )
    if lost.pairs is not None:
        yield lost.pairs.text
    if lost.wide:
        yield (
            f"Bounds far wider than where the noisy counts stand clear of the noise: {closed(_listed(lost.wide))} Noise spreads rare "
            "values over the rest, so that means and tails of these columns are too large or too wide; declare plausible bounds, or bins."
        )
    if linked := rows_below(statement):
        yield f"At most {linked[0]} of each {unit} counted, and of each of these at most {linked[1]}."
        if numbers := _numbers_below(statement):
            yield (
                f"Numbers below visits ({_listed(numbers)}) depend on the code and the earlier columns of their own row, on the person, "
                "the visit and the person's last number with that code, but not on other rows: a laboratory value says little about "
                "codes in other rows of its visit, such as diagnoses, however large epsilon is."
            )
    elif unit != RECORD:
        weight = ""
        if statement.generator != "histories" and most == 1:
            weight = (
                f" Of several, one drawn at random counted, so a synthetic record stands for one {unit}: what ends a history, such as a "
                "death, is more common among synthetic records than among real ones, and what recurs in long histories is less common."
            )
        elif statement.generator != "histories":
            weight = f" Of more, {most} drawn at random counted, so what long histories hold is less common than among real records."
        yield f"At most {most} record{'s' * (most != 1)} of each {unit} counted.{weight}"
    if lost.bare:
        yield (
            f"Few synthetic visits have rows in these tables: {_listed([each.text for each in lost.bare])}. If more of the real visits do, "
            "check the keys that link them: rows whose key is not found count for nobody."
        )
    if lost.apart:
        yield (
            f"Too much noise for so many codes or columns: no table relates {_listed([each.text for each in lost.apart], '; ')}. "
            "In synthetic rows they are related only as far as both depend on the person and the visit."
        )
    units = statement.declared.get("units")
    if lost.drowned >= 1 and isinstance(units, int | float):
        shape = next(each["declared"] for each in statement.columns if each["kind"] == "image")
        yield drowned_pictures(
            lost.drowned,
            units=units,
            unit=unit,
            epsilon=statement.budget.epsilon,
            height=shape["height"],
            width=shape["width"],
        )
    if lost.unlinked:
        pictures = any(each["kind"] == "image" for each in statement.columns)
        remedy = (
            ""
            if pictures
            else " generator=histories would learn that; it needs order: in the schema, which names the column that puts records in order."
        )
        yield (
            f"Each synthetic record has a {unit} of its own: the model does not know which records belong to one {unit}, how many "
            f"there are and how they follow one another.{remedy}"
        )
    if clamped:
        below = any(CLAMPED_BELOW in sentence for sentence in statement.not_covered)
        yield f"Cells that break the schema may have been changed: {clamping(below=below)}."
    if lost.empty:
        yield (
            f"The noisy counts of {_listed(lost.empty)} lie nearly all where invalid=clamp also puts cells that break the schema (missing, "
            "a bound, or a category that stands for them). That is as it should be if the records are like that. If they are not, synthdp "
            "check names the rows that break the schema."
        )


def drowned_pictures(drowned: float, *, units: float, unit: str, epsilon: float, height: int, width: int) -> str:
    """That noise is likely to hide what pictures show, and what would help. `drowned` is proportional to 1 / units, nearly to 1 / epsilon,
    and to the square root of a side, so smaller pictures help too, unless they are too small to show anything."""
    least = f"about {_up(units * drowned):,.0f} {unit}s ({units:,.0f} are declared) or epsilon {_up(epsilon * drowned**SLOW):,g}"
    sides = [math.floor(side / drowned**2) for side in (height, width)]
    smaller = (
        f", or pictures of {sides[0]} x {sides[1]} (height and width in the schema; resize: fit averages pictures to that size)"
        if min(sides) >= SMALLEST
        else ""
    )
    return (
        f"Noise is likely to hide what the pictures show: synthetic ones look like noise, and a model learns little from them. What "
        f"would be enough: {least}{smaller}. Fewer categories in the label help a little."
    )


def _up(number: float) -> float:
    """Rounded up to two digits."""
    step = 10.0 ** (math.floor(math.log10(number)) - 1)
    return math.ceil(number / step - 1e-9) * step


def rows_below(statement: "Statement") -> tuple[str, str] | None:
    """How many visits of a unit count, and how many rows below each of them, as the statement of linked tables says; None if no table
    lies below visits."""
    found = [BELOW.fullmatch(str(text)) for text in statement.declared.get("tables", ())]
    told = [(match[1], match[2], int(match[3])) for match in found if match]
    if not told:
        return None
    below = [f"{most} row{'s' * (most != 1)} of {name}" for name, _, most in told]
    most = statement.max_records_per_unit
    last = f"{', '.join(below[:-1])} and " if below[1:] else ""
    return f"{most} row{'s' * (most != 1)} of {told[0][1]}", f"{last}{below[-1]}"


def _numbers_below(statement: "Statement") -> list[str]:
    """The numbers in tables below visits; `histories` relates the rows of these tables by their codes alone."""
    below = {match[1] for text in statement.declared.get("tables", ()) if (match := BELOW.fullmatch(str(text)))}
    names = [str(each["name"]) for each in statement.columns if each["kind"] in ("integer", "continuous")]
    return [name for name in names if name.partition(".")[0] in below]


def _listed(names: Any, between: str = ", ") -> str:
    more = f"{between}and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return between.join(names[:SHOWN]) + more


def _check_range(most: float, *values: float) -> None:
    if not all(0 <= value <= most for value in values):
        raise ValueError("a number is out of its range")
