"""What the noisy tables that a fit asked for say of what was lost; free, since they were paid for.

`NoisyTables` stands outside the seal and is told noisy answers alone, of questions about tables of all records. It hears
nothing of samples, of losing runs of a selection, or of other questions. All that is computed from the answers here is post-processing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.generators import Linked, Model, Related
from synthdp.report.information_loss import (
    LITTLE,
    MODEL,
    MOST_PAIRS,
    Apart,
    Bare,
    Counted,
    Hidden,
    HiddenPairs,
    Levels,
    Lost,
    Merged,
    alone,
    codes_of,
    several,
)
from synthdp.schema import linked_tables
from synthdp.schema.codec import Codec
from synthdp.schema.coders import LabelCoder
from synthdp.schema.columns import Categorical, Column, Image, Numeric
from synthdp.schema.learned import supposed
from synthdp.schema.schema import Schema
from synthdp.schema.trees import Tree
from synthdp.seal import Marginals

FEW_PEOPLE, FEW = 2_000, 0.1  # people drawn to find bare tables; the share of visits with rows below which one is bare
FEW_ROWS, FEW_PICTURES = 20_000, 2_000  # that show a share where no table does
CLEAR = 2.0  # standard errors
SURE = 6.0  # the same of a bin that holds somebody: an empty one among a thousand passes it once in a million fits
WIDE, FEW_BINS = (
    0.25,
    8,
)  # bounds are wide where the bins that surely hold somebody lie in such a part of them, of so many bins or more
NEXT_TO_NONE = (
    0.05  # of the records, which may lie elsewhere in a column that lies where clamping puts what breaks the schema
)
# Cells that no column allows, or that go to the ends of a range: where the codec puts them is where clamping does.
BROKEN = (None, "\x00 no such value", 1e300, -1e300, "0001-01-02", "9999-12-30")

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One noisy table. `groups` are, for each of its columns, what the codes of records are counted by."""

    names: tuple[str, ...]
    groups: tuple[NDArray[np.int64], ...]
    cells: Array
    deviation: float

    @property
    def total(self) -> float:
        """The noisy number of records that the table has."""
        return float(self.cells.sum())


@dataclass(eq=False)
class NoisyTables:
    """What a fit was told of tables, in the order of its questions; `purpose` is what it asks for from now on."""

    purpose: str = MODEL
    _questions: list[tuple[Marginals, list[Array], str]] = field(default_factory=list)

    def __call__(self, question: Marginals, answer: Sequence[Array]) -> None:
        """Copied: a generator may go on computing in the arrays that it was given."""
        self._questions.append((question, [np.array(table) for table in answer], self.purpose))

    def __len__(self) -> int:
        return len(self._questions)

    def of_model(self) -> list[Marginals]:
        """The questions whose answers the model was learned from."""
        return [question for question, _, purpose in self._questions if purpose == MODEL]

    def counted(self, fine: Codec) -> tuple[Counted, ...]:
        """The questions, by the names of columns; all values of a picture are one."""
        names, picture = list(fine.names), fine.picture
        if picture is not None:
            names[picture.places] = [picture.column.name] * picture.column.pixels
        return tuple(
            Counted(
                noise=question.noise,
                tables=tuple(dict.fromkeys(tuple(names[place] for place in clique) for clique in question.cliques)),
                purpose=purpose,
            )
            for question, _, purpose in self._questions
        )

    def answers(self, fine: Codec) -> Iterator[Answer]:
        """Every table, by the codes `fine` in which records were kept."""
        for question, tables, _ in self._questions:
            for clique, cells in zip(question.cliques, tables, strict=True):
                given = question.groups or (None,) * len(fine.sizes)
                groups = [np.arange(fine.sizes[place]) if given[place] is None else given[place] for place in clique]
                yield Answer(
                    names=tuple(fine.names[place] for place in clique),
                    groups=tuple(np.asarray(group) for group in groups),
                    cells=cells,
                    deviation=question.deviation,
                )


def lost(
    noisy: NoisyTables,
    model: Model | None,
    fine: Codec,
    *,
    counts: bool,
    clamped: bool,
    seed: int | None,
    unlinked: bool = False,
    drowned: float = 0.0,
) -> Lost:
    """What the model cannot show, from noisy answers and public facts. `counts`: the generator learns from tables alone, so that a
    column that is in none with another column is known only by itself. `seed`: of synthetic records, looked at where no table
    shows a column. `unlinked`: the model draws each record by itself, also where several records of a unit count. `model`: none, if it
    draws no records; nothing is lost of them then. `drowned`: see `Lost`."""
    if model is None:
        return Lost()
    single = _most_exact(noisy, fine)
    unrelated = model.unrelated() if isinstance(model, Related) else []
    frame: pd.DataFrame | None = None
    merged, empty, levels, hidden = [], [], [], []
    bins = _most_exact(noisy, fine, dict(zip(fine.names, Codec(fine.schema).sizes, strict=True)))
    wide = [column.name for column in fine.columns if _is_wide(bins.get(column.name), column, fine)]
    every = linked_tables.once(fine.schema) if fine.schema.tables else ((column, 0) for column in fine.columns)
    for column, places in every:
        answer = single.get(column.name)
        if clamped and answer is not None and _as_clamped(answer, column, fine):
            empty.append(column.name)
        if isinstance(column, Categorical) and column.name in fine.schema.names and (one := _hidden(answer, column)):
            hidden.append(one)
        if not isinstance(column, Categorical) or column.other is None:
            continue
        found = None if answer is None else _share(answer, column.categories.index(column.other))
        share, error = found or (0.0, None)
        if frame is None and (found is None or (column.tree is not None and _counts(answer, column) is None)):
            frame = model.sample(FEW_ROWS if fine.picture is None else FEW_PICTURES, seed=seed)
        if found is None and frame is not None:
            share = float((_cells(frame, column.name, places).astype(str) == column.other).mean())
        if column.tree is not None:
            levels.append(
                _levels(answer, column, column.tree, None if frame is None else _cells(frame, column.name, places))
            )
        if share >= LITTLE and share > CLEAR * (error or 0.0):
            merged.append(Merged(column=column.name, other=column.other, share=round(share, 4), error=error))
    known = alone(fine.schema, noisy.counted(fine)) if counts else ()
    return Lost(
        merged=tuple(sorted(merged, key=lambda each: -each.share)),
        alone=known,
        empty=tuple(empty),
        levels=tuple(levels),
        wide=tuple(wide),
        hidden=tuple(hidden),
        unlinked=unlinked and several(fine.schema),
        bare=tuple(_bare(model, fine.schema, seed)),
        drowned=float(f"{drowned:.2g}"),
        apart=tuple(Apart(column=one, other=other, earlier=earlier) for one, other, earlier in unrelated),
        pairs=hidden_pairs(noisy.of_model(), fine.schema) if counts else None,
    )


def hidden_pairs(questions: Iterable[Marginals], schema: Schema) -> HiddenPairs | None:
    """The pairs of columns that noise is likely to hide, those of most cells first, by the noise, the declared units and the size of tables
    alone: those of which no table, summed over its other columns and to the declared bins, has an average cell of `CLEAR` deviations.
    A column without an order is told by the tables that have most groups of it: the halves of a list of codes say little about a code.
    None where units are not declared, or nothing is hidden."""
    units, codec = schema.units, Codec(supposed(schema))
    if not isinstance(units, int | float) or schema.image is not None:
        return None
    tables = [
        ({place: size_in(each, place) for place in clique}, each.deviation)
        for each in questions
        for clique in each.cliques
        if len(clique) > 1
    ]
    plain = [place for place, column in enumerate(codec.columns) if column.name in schema.names]
    most = dict.fromkeys(range(len(codec.columns)), 0)
    for held, _ in tables:
        for place, size in held.items():
            if isinstance(codec.columns[place], Categorical):
                most[place] = max(most[place], size)
    clear: dict[
        tuple[int, int], tuple[float, int]
    ] = {}  # deviations of an average cell in the clearest table, and how many cells
    for held, deviation in tables:
        for pair in combinations(sorted(held.keys() & set(plain)), 2):
            cells = math.prod(min(held[place], codec.sizes[place]) for place in pair)
            noise = deviation * math.sqrt(math.prod(held.values()) / cells)
            if all(held[place] >= most[place] for place in pair):
                clear[pair] = max(clear.get(pair, (0.0, 0)), (units / cells / noise if noise else math.inf, cells))
    hidden = sorted((pair for pair in clear if clear[pair][0] < CLEAR), key=lambda pair: (-clear[pair][1], clear[pair]))
    if not hidden:
        return None
    mostly = [
        place for place in plain if 2 * sum(place in pair for pair in hidden) > sum(place in pair for pair in clear)
    ]
    names = codec.names
    return HiddenPairs(
        counted=len(clear),
        number=len(hidden),
        named=tuple((names[one], names[other]) for one, other in hidden[:MOST_PAIRS]),
        columns=tuple(names[place] for place in mostly),
    )


def size_in(question: Marginals, place: int) -> int:
    """How many groups a column of the code table has in a question's tables."""
    groups = None if question.groups is None else question.groups[place]
    return question.sizes[place] if groups is None else int(groups.max()) + 1


def _bare(model: Model, schema: Schema, seed: int | None) -> Iterator[Bare]:
    """The tables below visits in which few of the drawn visits have a row."""
    if not schema.tables[2:] or not isinstance(model, Linked):
        return
    drawn = model.sample_tables(FEW_PEOPLE, seed=seed)
    visits = schema.tables[1]
    for table in schema.tables[2:]:
        share = drawn[table.name][visits.key].nunique() / max(1, len(drawn[visits.name]))
        if share < FEW:
            yield Bare(table=table.name, share=round(share, 4))


def _is_wide(answer: Answer | None, column: Column, fine: Codec) -> bool:
    """Whether the bins that stand clear of the noise lie within a small part of declared bounds, which evenly wide bins share, and the
    others surely hold few records: where noise hides too much, nothing is said."""
    if not isinstance(column, Numeric) or isinstance(column.bins, tuple) or answer is None:
        return False
    if column.name not in fine.schema.names or fine.schema.column(column.name) != column:
        return False
    cells = answer.cells[: len(answer.cells) - column.missing - len(getattr(column, "atoms", ()))]
    clear = np.flatnonzero(cells > max(SURE * answer.deviation, 0.5))
    if len(cells) < FEW_BINS or not len(clear) or answer.deviation <= 0:
        return False
    first, last = int(clear[0]), int(clear[-1]) + 1
    rest = np.concatenate([cells[:first], cells[last:]])
    most = max(0.0, float(rest.sum())) + CLEAR * answer.deviation * math.sqrt(max(1, len(rest)))
    return last - first <= len(cells) * WIDE and most < WIDE * answer.total


def _counts(answer: Answer | None, column: Categorical) -> Array | None:
    """The noisy count of each category, where they were counted one by one and noise does not hide all."""
    if answer is None or answer.total <= CLEAR * answer.deviation * math.sqrt(answer.cells.size):
        return None
    group = answer.groups[0]
    return None if len(np.unique(group)) < len(group) else answer.cells[group[: len(column.categories)]]


def _hidden(answer: Answer | None, column: Categorical) -> Hidden | None:
    """The categories whose noisy counts are not clear of the noise, where those may be worth a word."""
    if answer is None or column.tree is not None or len(np.unique(answer.groups[0])) < len(answer.groups[0]):
        return None
    counts, doubt = answer.cells[answer.groups[0][: len(column.categories)]], CLEAR * answer.deviation
    unclear = [
        place for place, count in enumerate(counts) if count <= doubt and column.categories[place] != column.other
    ]
    share = (max(0.0, *(float(counts[place]) for place in unclear), 0.0) + doubt) / max(answer.total, 1.0)
    if not unclear or share < LITTLE:
        return None
    return Hidden(
        column=column.name,
        categories=tuple(column.categories[place] for place in unclear),
        share=round(min(1.0, share), 4),
    )


def _cells(frame: pd.DataFrame, name: str, places: int) -> pd.Series:
    """A column of synthetic records; for a column below visits, the cells of all rows there."""
    if not places:
        return frame[name]
    return pd.concat([frame[f"{name} {place + 1}"] for place in range(places)], ignore_index=True).dropna()


def _levels(answer: Answer | None, column: Categorical, tree: Tree, shown: pd.Series | None) -> Levels:
    """At which levels the column's codes are kept, by its noisy table or else by synthetic cells."""
    counts, codes = _counts(answer, column), codes_of(column)
    if counts is None or answer is None:
        if shown is None:
            raise ValueError("synthetic records are needed where no table shows a column")
        places = LabelCoder(column).encode(shown)
        counts = np.bincount(places, minlength=len(column.categories))[: len(column.categories)].astype(np.float64)
        total, deviation = max(1.0, float(len(shown))), 0.0
    else:
        total, deviation = answer.total, answer.deviation
    depths = [0 if node == column.other else tree.depth(node) for node in column.categories]
    held = np.bincount(depths, weights=counts, minlength=tree.levels + 1)[1:]
    return Levels(
        column=column.name,
        codes=codes,
        shares=tuple(round(min(max(float(each) / total, 0.0), 1.0), 4) for each in held),
        errors=tuple(float(f"{deviation * math.sqrt(number) / total:.2g}") for number in codes) if deviation else (),
    )


def _most_exact(noisy: NoisyTables, fine: Codec, sizes: Mapping[str, int] | None = None) -> dict[str, Answer]:
    """For every column the table of it alone that has the least noise, by codes that nothing ties; of those with as many cells as
    `sizes` says."""
    found: dict[str, Answer] = {}
    for answer in noisy.answers(fine):
        name = answer.names[0]
        fits = sizes is None or answer.cells.size == sizes[name]
        if len(answer.names) == 1 and fits and (name not in found or answer.deviation < found[name].deviation):
            found[name] = answer
    return found


def _share(answer: Answer, code: int) -> tuple[float, float] | None:
    """The noisy share of a code and its standard error; None where it was counted with others, or where noise hides all."""
    group = answer.groups[0][code]
    if (answer.groups[0] == group).sum() > 1 or answer.total <= CLEAR * answer.deviation * math.sqrt(answer.cells.size):
        return None
    share = min(max(float(answer.cells[group]) / answer.total, 0.0), 1.0)
    return share, float(f"{answer.deviation / answer.total:.2g}")


def _as_clamped(answer: Answer, column: Column, fine: Codec) -> bool:
    """Whether the noisy counts say, with little doubt, that nearly all records lie where clamping puts what breaks the schema: because
    they break it, or because they are like that. Of numbers and dates some cells may be read even in a wrong form, such as whole
    numbers; of labels none may, so that a rare event that surely happens is not named."""
    if column.name not in fine.schema.names or column.name in fine.ordered or isinstance(column, Image):
        return False
    row = {each: [None] * len(BROKEN) for each in fine.schema.names} | {column.name: list(BROKEN)}
    codes = fine.encode(pd.DataFrame(row, dtype=object))[:, fine.names.index(column.name)]
    landed = np.unique(answer.groups[0][codes])
    rest = np.delete(answer.cells, landed)
    if not rest.size:
        return False
    noise = answer.deviation * math.sqrt(rest.size)
    if not isinstance(column, Numeric) and float(rest.sum()) > SURE * noise:
        return False
    others, few = max(0.0, float(rest.sum())), NEXT_TO_NONE * float(answer.cells[landed].sum())
    return others < few and others + CLEAR * noise < 2 * few
