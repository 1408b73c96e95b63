"""What a fit would ask and how much noise its answers would hold, before it is made: from public facts alone, no record is read.

Generators that ask for counts, of records or of histories, are rehearsed on made-up records, which shows every table that they ask
for. What they choose from answers (`aim`, `mst`, `privbayes`, the groups of `mixture`, the pairs of `histories`) may differ on the real
ones. The plan of the others is shown event by event.
"""

import math
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from synthdp import accounting, generators
from synthdp.api import Synthesizer
from synthdp.ledger.events import RECORD, Capped, Entry, Plan, to_json
from synthdp.marginal_tables import hidden_pairs, size_in
from synthdp.report.information_loss import HiddenPairs
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Image
from synthdp.schema.history_view import BROAD, IN_WORDS
from synthdp.schema.learned import supposed
from synthdp.schema.schema import Schema
from synthdp.schema.tied_columns import JOINT
from synthdp.seal import HistoryTables, Marginals, Sensitive
from synthdp.seal.charging import Account
from synthdp.seal.replay import Recorder

CLEAR = 2.0  # deviations: a count below that cannot be told from zero
ROWS, MOST_ROWS = 2_000, 50_000  # made-up records, of which few ask the same as many


@dataclass(frozen=True, kw_only=True)
class Part:
    """A question of the plan, how often it is asked, and what it would cost alone, at the budget's delta. `tables` says how many tables of
    one column, of two and so on it asks for, as pairs (columns, tables); `histories` names those that it asks for of histories; both
    are empty for other questions."""

    event: Mapping[str, Any]
    count: int
    epsilon: float
    tables: tuple[tuple[int, int], ...] = ()
    histories: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table that would be asked: `noise` is the standard deviation of a cell, in records; `expected` the mean number of units in
    a cell, None where the number of units is not declared. `fine`: on a grid finer than the column's bins, which smooths and is
    not read cell by cell. `of`: of histories, what is counted: units, or records (or rows below them) by their weight, of which a unit
    has at least 1 where it has a record at all."""

    columns: tuple[str, ...]
    cells: int
    noise: float
    expected: float | None
    fine: bool = False
    of: str = ""

    @property
    def clear(self) -> int:
        """The least count that stands out of the noise: two standard deviations."""
        return math.ceil(CLEAR * self.noise)

    @property
    def lifted(self) -> float:
        """About which share of all that is counted noise puts there, were the cells empty but for a few; 0 where the number of units is
        not known. Half of the cells are lifted, by 0.8 deviations each on average."""
        lift = 0.4 * self.noise
        return 0.0 if not self.expected else lift / (self.expected + lift)

    @property
    def drowned(self) -> bool:
        """Whether the noise hides an average cell."""
        return not self.fine and self.expected is not None and self.expected < CLEAR * self.noise


@dataclass(frozen=True, kw_only=True)
class Planned:
    """See `planned`. The rehearsal took `seconds` and `megabytes` on records of as many made-up units as `rehearsed` says; all three are
    None where there was no rehearsal. `drowned`: see `generators.drowned`. `apart`: the pairs of columns of a record of histories that no
    table would relate; `pairs` those that noise is likely to hide, of all that tables of a generator of counts would relate."""

    generator: str
    noise: float
    epsilon: float
    delta: float
    accountant: str
    parts: tuple[Part, ...]
    tables: tuple[Table, ...]
    learned: tuple[str, ...]
    seconds: float | None
    megabytes: float | None
    rehearsed: int | None
    drowned: float = 0.0
    apart: tuple[tuple[str, str], ...] = ()
    pairs: HiddenPairs | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        tables = [{**asdict(table), "clear": table.clear, "drowned": table.drowned} for table in self.tables]
        return {**asdict(self), "tables": tables}


def planned(synthesizer: Synthesizer, *, time: bool = False) -> Planned:
    """What `synthesizer.fit` would ask. With `time` the whole fit is rehearsed on made-up records, as many as units are declared
    (at most `MOST_ROWS`). Raises `BadInput` where the budget does not suffice."""
    budget, schema, generator = synthesizer.budget, synthesizer.schema, synthesizer.generator
    units = schema.units if time and isinstance(schema.units, int | float) else ROWS
    made = min(int(units), MOST_ROWS)
    frame, unit = made_up(schema, made), schema.unit or RECORD
    account = Account(budget, unit=unit)
    noise = Sensitive(frame, schema, account, seed=0).commit(lambda z: generator.plan(schema, z))
    plan = account.plan
    recorder = _Watch(
        last=sum(entry.count for entry in plan), whole=time or any(isinstance(entry.event, Capped) for entry in plan)
    )
    seconds = megabytes = None
    if time or generator.traits.counted or "histories" in generator.traits.kinds:
        start, before = perf_counter(), _peak()
        rehearsed = Sensitive(frame, schema, Account(budget, unit=unit), seed=0, recorder=recorder)
        with warnings.catch_warnings(), suppress(_AllAskedError):
            warnings.simplefilter("ignore")  # what made-up records are like concerns nobody
            generator.fit(rehearsed, seed=0)
        if time:
            seconds, megabytes = perf_counter() - start, max(0.0, _peak() - before)
    accountant, epsilon = accounting.best(plan, budget.delta)
    return Planned(
        generator=generator.name,
        noise=noise,
        epsilon=epsilon,
        delta=budget.delta,
        accountant=accountant,
        parts=tuple(_parts(plan, budget.delta, unit, recorder)),
        tables=tuple(_tables(recorder, schema)),
        learned=tuple(dict.fromkeys(name for name, _ in schema.learned)),
        seconds=seconds,
        megabytes=megabytes,
        rehearsed=made if time else None,
        drowned=generators.drowned(generator, schema, noise),
        apart=tuple(_apart(recorder)),
        pairs=_hidden_pairs(recorder, schema) if generator.traits.counted else None,
    )


class _AllAskedError(Exception):
    """Nothing more will be asked: what a generator computes from its answers would only take time."""


@dataclass
class _Watch(Recorder):
    """Records what is asked, and stops the rehearsal after the last question unless the whole of it is wanted."""

    last: int = 0
    whole: bool = False
    seen: list[Any] = field(default_factory=list)

    def answer(self, question: Any, bounded: Any, draw: Callable[[], Any]) -> Any:
        """Nothing of what the made-up records say is kept. Noise is drawn where a fit is timed or answers guide a choice."""
        self.seen.append(question)
        if not self.whole and sum(len(list(each.events)) for each in self.seen) >= self.last:
            raise _AllAskedError
        return bounded if isinstance(question, HistoryTables) and not self.whole else draw()


def made_up(schema: Schema, units: int = ROWS) -> pd.DataFrame:
    """Records drawn uniformly from the schema, with something made up where it leaves facts to be learned. Where records have an order, a
    unit has from one to `max_records_per_unit` of them, and few units have many."""
    codec, rng = Codec(supposed(schema)), np.random.default_rng(0)
    number = np.ones(units, np.int64)
    if schema.order is not None:
        number = np.floor((schema.max_records_per_unit + 1) ** rng.random(units)).astype(np.int64)
    codes = np.stack([rng.integers(0, size, number.sum()) for size in codec.sizes], axis=1)
    frame = codec.decode(codes, rng)
    if schema.order is not None and schema.unit is not None:
        frame[schema.unit] = np.repeat([f"S{unit + 1:09d}" for unit in range(units)], number)
    return frame


def _parts(plan: Plan, delta: float, unit: str, recorder: _Watch) -> Iterator[Part]:
    asked: dict[Any, Counter[int]] = {}
    followed: dict[Any, list[str]] = {}
    for question in recorder.seen:
        if isinstance(question, HistoryTables):
            for event in question.events:
                followed.setdefault(replace(event, unit=unit), []).append(_asked_of(question, unit))
        if isinstance(question, Marginals):
            for event in question.events:
                asked.setdefault(replace(event, unit=unit), Counter()).update(map(len, question.cliques))
    for entry in plan:
        _, epsilon = accounting.best((Entry(entry.event, entry.count),), delta)
        tables = tuple(sorted(asked.get(entry.event, {}).items()))
        waiting = followed.get(entry.event, [])  # in the order of the plan
        told, waiting[: entry.count] = tuple(dict.fromkeys(waiting[: entry.count])), []
        yield Part(event=to_json(entry.event), count=entry.count, epsilon=epsilon, tables=tables, histories=told)


def _asked_of(question: HistoryTables, unit: str) -> str:
    """What a question about histories asks for, in words: how many tables, of what, and the largest of them."""
    number, sizes = len(question.cliques), question.codes
    clique = max(question.cliques, key=lambda clique: math.prod(sizes[name] for name in clique))
    largest = " x ".join(IN_WORDS.get(name, name) for name in clique)
    which = f"the table {largest}" if number == 1 else f"{number:,} tables up to {largest}"
    return f"{which}, of {_counted(question, unit)}"


def _counted(question: HistoryTables, unit: str) -> str:
    if question.rows:
        return f"rows of {question.rows}"
    return f"each {unit}" if question.clip is None else "records"


def _tables(recorder: _Watch, schema: Schema) -> Iterator[Table]:
    """Each table once, with its most exact answer if it is asked more than once. All values of a picture share one table."""
    names = [  # a compound of columns that rules tie is a table of these
        (column.name,) if column.name in schema.names else tuple(column.name.split(JOINT))
        for column in schema.coded
        for _ in range(column.pixels if isinstance(column, Image) else 1)
    ]
    sizes = Codec(supposed(schema)).sizes
    units = schema.units if isinstance(schema.units, int | float) else None
    found: dict[tuple[Any, ...], Table] = {}
    for question in recorder.seen:
        if isinstance(question, HistoryTables):
            found |= _of_histories(question, schema, units)
        if not isinstance(question, Marginals):
            continue
        for clique in question.cliques:
            held = [size_in(question, place) for place in clique]
            fine = any(size > sizes[place] for size, place in zip(held, clique, strict=True))
            columns = tuple(name for place in clique for name in names[place])
            table = Table(
                columns=columns,
                cells=math.prod(held),
                noise=question.deviation,
                expected=None if units is None else units / math.prod(held),
                fine=fine,
            )
            before = found.get((columns, fine))
            if before is None or table.noise < before.noise:
                found[columns, fine] = table
    yield from found.values()


def _of_histories(question: HistoryTables, schema: Schema, units: float | None) -> dict[tuple[Any, ...], Table]:
    what = _counted(question, schema.unit or RECORD)
    found: dict[tuple[Any, ...], Table] = {}
    sizes = question.codes
    for clique in question.cliques:
        cells = math.prod(sizes[name] for name in clique)
        expected = None if units is None else units / cells
        found[clique, what] = Table(columns=clique, cells=cells, noise=question.deviation, expected=expected, of=what)
    return found


def _hidden_pairs(recorder: _Watch, schema: Schema) -> HiddenPairs | None:
    return hidden_pairs((each for each in recorder.seen if isinstance(each, Marginals)), schema)


def _apart(recorder: _Watch) -> Iterator[tuple[str, str]]:
    """The pairs of a record's own columns that are in no table together."""
    asked = [each for each in recorder.seen if isinstance(each, HistoryTables)]
    together = {frozenset(name.removeprefix(BROAD) for name in clique) for each in asked for clique in each.cliques}
    for pair in combinations(asked[0].view.own if asked else (), 2):
        if not any(held.issuperset(pair) for held in together):
            yield pair


def _peak() -> float:
    """The most memory that this process has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
