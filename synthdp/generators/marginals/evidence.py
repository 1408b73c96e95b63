"""Turns noisy answers about columns into the tables that a mixture is fitted to.

Every column is looked at by itself first: its codes are grouped by what the noise can tell apart. Then each is looked at with the
label; where there are more pairs of columns than the noise leaves worth asking, the pairs are those of the columns that tell
most about it.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthdp.generators.marginals.grouping import Counts, Groups, Places, agreed, bounds_learned, broad, grouped
from synthdp.generators.marginals.mixture_model import beside
from synthdp.generators.marginals.product_mixture import CLEAR, Broad, Evidence, Triples
from synthdp.generators.marginals.relations import NoisyTable, Pair, Relations, relation_of
from synthdp.schema.columns import Categorical, Continuous, Datetime, Integer, Ordinal
from synthdp.schema.schema import Schema
from synthdp.seal import Grouping

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

Array = NDArray[np.float64]
MOST_LABELS = 16  # groups of the label: each is a table of its own for every pair of columns
MOST_GROUPS = 32  # of a column
APART = (
    2.0  # how many deviations of its noise a cell of two parts of bins holds, at least, were their columns independent
)
BROAD = 4.0  # how many deviations of its noise a cell of a broad table holds, at least, were its columns independent
MOST_PLACES = 8  # of a column in broad tables
SURE = 4.5  # deviations of the noise: by chance, one triple of 150,000
MOST_TRIPLES = 100
LEAST_NOISE = 0.5  # records: a noiseless fit is weighed as if it had so much


@dataclass(frozen=True, kw_only=True, eq=False)
class Look:
    """What single columns told. `counts` and `groups` by name, in the order of the codes; `labels` the targets that make the
    label, `features` the other columns; `deviation` that of a declared code's count; `total` the noisy number of records, 1 or more."""

    labels: Sequence[str]
    features: Sequence[str]
    counts: Mapping[str, Counts]
    groups: Mapping[str, Groups]
    deviation: float
    total: float

    @property
    def of(self) -> list[Grouping | None]:
        """What questions count by."""
        return [each.of for each in self.groups.values()]

    def size(self, names: Sequence[str]) -> int:
        """Groups of these columns together."""
        return math.prod(self.groups[name].count for name in names)

    def sums(self, name: str) -> Array:
        """Noisy counts of a column's groups."""
        groups = self.groups[name]
        return np.bincount(groups.of, weights=self.counts[name].held, minlength=groups.count).astype(np.float64)

    def shares(self, name: str) -> Array:
        """Their nearest distribution."""
        return self._shares[name]

    @cached_property
    def _shares(self) -> dict[str, Array]:
        """Of every column: tables of thousands of pairs ask for them."""
        import torch

        from synthdp.generators.parts.table_networks import nearest_distribution

        return {
            name: nearest_distribution(torch.from_numpy(self.sums(name) / self.total)).numpy() for name in self.groups
        }

    def noise(self, name: str) -> Array:
        """About the deviation of each group's count: of its codes together, and at most of the bins that they lie in."""
        counts, groups = self.counts[name], self.groups[name]
        codes = np.bincount(groups.of, weights=counts.variances, minlength=groups.count)
        bins = int(counts.bins.max(initial=0)) + 1
        met = np.bincount(np.unique(groups.of * bins + counts.bins) // bins, minlength=groups.count)
        return np.minimum(np.sqrt(codes), self.deviation * np.sqrt(met))


def numeric(schema: Schema) -> list[str]:
    """Names of the columns that have a finer grid."""
    return [column.name for column in schema.coded if isinstance(column, Integer | Continuous | Datetime)]


def ordered(schema: Schema) -> list[str]:
    """Names of the columns that have an order and are no targets."""
    kinds = Integer | Continuous | Datetime | Ordinal
    return [column.name for column in schema.coded if isinstance(column, kinds) and column.name not in schema.targets]


def look(data: "Sensitive", noises: Mapping[str, float], least: float, deviation: Callable[[float], float]) -> Look:
    """Ask every column by itself with the noise `columns`, and numeric ones on their grids with the noise `grids`, if there is one.

    `least`: see the setting of `mixture`. `deviation`: that of a cell of the tables of two columns, given the number of records.
    """
    schema, codec = data.schema, data.fine
    alone = data.tables([(name,) for name in codec.names], noises["columns"])
    bins = dict(zip(codec.names, data.ask(alone), strict=True))
    sums = [table.sum() for table in bins.values()]
    total = max(1.0, float(np.average(sums, weights=[1 / len(table) for table in bins.values()])))
    counts = {name: Counts.of(table, alone.deviation) for name, table in bins.items()}
    if "grids" in noises:
        question = data.tables([(name,) for name in numeric(schema)], noises["grids"], fine=True)
        ways = dict(zip(codec.names, codec.coarse(), strict=True))
        for name, codes in zip(numeric(schema), data.ask(question), strict=True):
            way = ways[name]
            of = np.arange(len(codes)) if way is None else way
            counts[name] = agreed(bins[name], alone.deviation, codes, question.deviation, of)
    most = schema.max_records_per_unit if schema.unit else 1
    for column in schema.coded:
        if isinstance(column, Categorical) and column.name in data.nodes:
            nodes, noise = data.nodes[column.name]
            counts[column.name] = counts[column.name].and_of(nodes, noise, column, total, most)
        elif isinstance(column, Categorical) and column.tree is not None and column.tree.declared:
            warnings.warn(
                f"column {column.name!r}: an older version began this fit, and kept which codes stood clear, but not their counts. The "
                "model does without these counts; a fit that is begun anew would use them, and be charged",
                stacklevel=2,
            )
    floor = min(least * alone.deviation, total / 2)
    apart = math.sqrt(APART * total * deviation(total))
    learned = bounds_learned(data.declared)
    groups = {
        column.name: grouped(
            counts[column.name],
            column,
            codec,
            floor,
            MOST_LABELS if column.name in schema.targets else MOST_GROUPS,
            apart,
            learned=column.name in learned,
        )
        for column in schema.coded
    }
    labels = _labels(schema, groups)
    return Look(
        labels=labels,
        features=beside(schema, labels),
        counts=counts,
        groups=groups,
        deviation=alone.deviation,
        total=total,
    )


def _labels(schema: Schema, groups: Mapping[str, Groups]) -> list[str]:
    """The targets that make the label together: the first, and each further one with which it has no more than `MOST_LABELS`
    groups and which leaves a column beside it. The others are columns like any other."""
    chosen: list[str] = []
    together = 1
    for name in schema.targets:
        left = len(schema.coded) - len(chosen) > 1
        if not chosen or (left and together * groups[name].count <= MOST_LABELS):
            chosen.append(name)
            together *= groups[name].count
    return [column.name for column in schema.coded if column.name in chosen]


def of_label(seen: Look, labelled: Mapping[str, Array], deviation: float) -> tuple[Array, Array]:
    """Noisy counts of the label's groups, and their deviations, (labels,) each: from its tables with single columns, whose noise has
    this deviation, and from the label's own answer where it is one column."""
    sums = [(table.sum(0), np.full(table.shape[1], len(table) * deviation**2)) for table in labelled.values()]
    if len(seen.labels) == 1:
        name = seen.labels[0]
        sums.append((seen.sums(name), seen.noise(name) ** 2))
    if not sums:
        return np.full(seen.size(seen.labels), seen.total), np.full(seen.size(seen.labels), np.inf)
    weights = np.array([1 / np.maximum(variance, LEAST_NOISE**2) for _, variance in sums])
    held = (weights * np.array([each for each, _ in sums])).sum(0) / weights.sum(0)
    return held, 1 / np.sqrt(weights.sum(0))


def told(seen: Look, labelled: Mapping[str, Array], deviation: float) -> dict[str, float]:
    """How far each column is from independent of the label: the squared distance of its noisy table (groups, labels) from the
    product of its margins, less what the noise adds to it, in shares."""
    found = {}
    for name, table in labelled.items():
        margins = np.outer(table.sum(1), table.sum(0)) / max(1.0, float(table.sum()))
        found[name] = float(((table - margins) ** 2).sum() - table.size * deviation**2) / seen.total**2
    return found


def varied(seen: Look, names: Sequence[str]) -> dict[str, float]:
    """The entropy of each column, in nats: what stands in for relevance where there is no label."""
    return {
        name: float(-(shares * np.log(np.maximum(shares, 1e-12))).sum())
        for name in names
        for shares in [seen.shares(name)]
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Noisy tables of every two of `names`, or of the one that there is, and the deviation of a cell; none without names. `again` are
    tables that were asked once more, or for the first time: the mean, and its deviation."""

    names: Sequence[str] = ()
    tables: Sequence[Array] = ()
    deviation: float = math.inf
    again: Mapping[Pair, tuple[Array, float]] = field(default_factory=dict)

    def by_pair(self) -> dict[Pair, tuple[Array, float]]:
        """The table of each pair, and the deviation of its cells; not that of a single column."""
        pairs = zip(combinations(self.names, 2), self.tables, strict=False)
        return {pair: (table, self.deviation) for pair, table in pairs} | dict(self.again)

    def with_more(self, tables: Mapping[Pair, Array], deviation: float) -> "Answers":
        """With further tables of some pairs: means, weighed by their precision, where there were tables of these pairs."""
        before, deviation = self.by_pair(), max(deviation, LEAST_NOISE)
        more = {pair: (table, deviation) for pair, table in tables.items()}
        more = {pair: mean_of(before[pair], each) if pair in before else each for pair, each in more.items()}
        return replace(self, again={**self.again, **more}, deviation=self.deviation if self.names else deviation)

    def padded(self) -> "Answers":
        """With constant columns, named "", where there are tables but fewer than two columns to make a pair."""
        constants = [""] * max(0, 2 - len(self.names)) if self.tables else []
        return replace(self, names=[*self.names, *constants])

    def laid(
        self,
        order: Sequence[str],
        seen: Look,
        margins: Array,
        expected: Mapping[Pair, tuple[Array | float, Array | float]],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Shares (labels, part, part) above the diagonal, in the order of the columns, and what was measured: 0, 1, or more in tables that
        were asked again, the less noise a cell has beside `deviation`; `part` is as wide as the columns up to the last one that was
        asked. Of the relation of each pair as much is left as is to be believed, and what is expected takes the place of the rest.
        `margins` (labels, width) are the noisy shares of single columns for each label, 0 where none were asked."""
        sizes = [seen.groups[name].count if name else 1 for name in order]
        places = [order.index(name) for name in self.names]
        part, ends = max(places, default=-1) + 1, np.cumsum([0, *sizes])
        width, labels = int(ends[part]), len(margins)
        held, measured = np.zeros((labels, width, width), np.float32), np.zeros((width, width), np.float32)
        for pair, (table, deviation) in self.by_pair().items():
            a, b = map(order.index, pair)
            first, second = slice(ends[a], ends[a + 1]), slice(ends[b], ends[b + 1])
            blocks = table.reshape(sizes[a], sizes[b], labels).transpose(2, 0, 1) / seen.total
            for label, block in enumerate(blocks):
                margin = margins[label, first], margins[label, second]
                if pair in expected and margin[0].any() and margin[1].any():
                    kept, rest = expected[pair]
                    lost = 1 - np.broadcast_to(kept, labels)[label]
                    block = block - lost * (relation_of(block, *margin) - margin[0].sum() * rest)
                held[label, first, second] = block
            measured[first, second] = math.sqrt(CLEAR) * self.deviation / deviation if pair in self.again else 1.0
        return held, measured


def mean_of(one: tuple[Array, float], other: tuple[Array, float]) -> tuple[Array, float]:
    """Of two noisy tables of the same, by their precision, and its deviation."""
    first, second = (1 / max(deviation, LEAST_NOISE) ** 2 for _, deviation in (one, other))
    table = (first * one[0] + second * other[0].reshape(one[0].shape)) / (first + second)
    return table, 1 / math.sqrt(first + second)


def relations(seen: Look, tables: Answers, pairs: Answers, wide: Answers, of: Mapping[str, Places]) -> Relations:
    """What noisy tables with the label, without it and in the places `of` tell of every two columns that were asked without it."""
    labelled, broadly = tables.by_pair(), wide.by_pair()
    found: dict[Pair, tuple[NoisyTable, NoisyTable | None]] = {}
    for pair, (table, deviation) in pairs.by_pair().items():
        first, second = (seen.shares(name) for name in pair)
        both = table.reshape(len(first), len(second)), deviation
        if pair in labelled:
            cells, apart = labelled[pair]
            each = cells.reshape(len(first), len(second), -1)
            both = mean_of(both, (each.sum(2), apart * math.sqrt(each.shape[2])))
        whole = NoisyTable(table=both[0], first=first, second=second, variance=max(both[1], LEAST_NOISE) ** 2)
        found[pair] = whole, _broad(seen, pair, broadly, of)
    return Relations.of(found, seen.total, {*pairs.again, *wide.again})


def _with_label(
    expected: Mapping[Pair, tuple[float, Array | float]], seen: Look, tables: Answers, labelled: Mapping[str, Array]
) -> dict[Pair, tuple[Array, Array | float]]:
    """What is expected of the tables with the label, and how much to believe of the relation of each pair for each label (labels,): as
    much as without the label, or more if that label's part of the table says so. Two columns may be unrelated in all records and yet
    related for each label, such as two flags of which the label is the parity."""
    kept = []
    for label in range(seen.size(seen.labels)):
        found: dict[Pair, tuple[NoisyTable, None]] = {}
        for pair, (table, deviation) in tables.by_pair().items():
            first, second = (np.clip(labelled[name][:, label], 0, None) for name in pair)
            records = max(1.0, float(first.sum() + second.sum()) / 2)
            apart = NoisyTable(
                table=table.reshape(len(first), len(second), -1)[..., label],
                first=first / max(1.0, float(first.sum())),
                second=second / max(1.0, float(second.sum())),
                variance=max(deviation, LEAST_NOISE) ** 2,
                part=records / seen.total,
            )
            found[pair] = apart, None
        kept.append(Relations.of(found, seen.total).kept())
    made: dict[Pair, tuple[Array, Array | float]] = {}
    for pair in tables.by_pair():
        whole, rest = expected.get(pair, (0.0, 0.0))
        made[pair] = np.array([max(whole, each[pair][0]) if pair in each else whole for each in kept]), rest
    return made


def _broad(
    seen: Look, pair: Pair, broadly: Mapping[Pair, tuple[Array, float]], of: Mapping[str, Places]
) -> NoisyTable | None:
    """The broad table of a pair, if it was asked."""
    if pair not in broadly:
        return None
    table, deviation = broadly[pair]
    first, second = (place_shares(seen, of, name) for name in pair)
    return NoisyTable(table=table, first=first, second=second, variance=max(deviation, LEAST_NOISE) ** 2)


def place_shares(seen: Look, of: Mapping[str, Places], name: str) -> Array:
    """The distribution of a column's places."""
    return np.bincount(of[name], weights=seen.shares(name)).astype(np.float64)


def _expected(
    seen: Look, found: Relations, wide: Answers, of: Mapping[str, Places]
) -> dict[Pair, tuple[float, Array | float]]:
    """How much to believe of each relation, and what is expected in place of the rest, in shares (rows, columns): what the broad table
    says, spread over the groups of a place by their shares, or no relation."""
    broadly, expected = wide.by_pair(), {}
    for pair, (kept, kept_broadly) in found.kept().items():
        rest: Array | float = 0.0
        small = _broad(seen, pair, broadly, of)
        if small is not None and small.freedom:
            sizes = np.outer(small.first, small.second)
            dense = np.divide(
                kept_broadly * small.relation / seen.total, sizes, out=np.zeros_like(sizes), where=sizes > 0
            )
            rest = np.outer(seen.shares(pair[0]), seen.shares(pair[1])) * dense[np.ix_(of[pair[0]], of[pair[1]])]
        expected[pair] = kept, rest
    return expected


def places(data: "Sensitive", seen: Look, names: Sequence[str], deviation: float) -> dict[str, Places]:
    """The place of each group of a column: of these columns, as many places as leave a cell of a broad table `BROAD` deviations, from 2
    to `MOST_PLACES`, and one more for the missing value; of the others, each group is one."""
    most = math.sqrt(seen.total / (BROAD * deviation)) if deviation > 0 else math.inf
    count = int(np.clip(most, 2, MOST_PLACES))
    columns = {column.name: column for column in data.schema.coded}
    alone = {name: np.arange(groups.count) for name, groups in seen.groups.items()}
    return alone | {
        name: broad(seen.groups[name], seen.shares(name), columns[name], data.fine, count) for name in names
    }


def placed(seen: Look, of: Mapping[str, Places]) -> list[Grouping | None]:
    """What questions count by: places of the columns that have them, groups of the others."""
    return [of[name][groups.of] if name in of else groups.of for name, groups in seen.groups.items()]


def laid_broadly(
    answers: Answers, found: Relations, of: Mapping[str, Places], order: Sequence[str], seen: Look
) -> Broad | None:
    """Broad tables in the order of the columns; none without answers. Of the relation of an ordered column with another one as much is
    left as is to be believed; those of two ordered columns stay as they are, since correlations would be pulled to 0."""
    import torch

    tables, kept = answers.by_pair(), found.kept()
    if not tables:
        return None
    asked = {name for pair in tables for name in pair}
    names = [name for name in order if name in asked]
    counts = {name: int(of[name].max()) + 1 for name in names}
    ends = dict(zip(names, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    whole = sum(counts.values())
    maps = [np.zeros((seen.groups[name].count if name else 1, whole), np.float32) for name in order]
    for name, one in zip(order, maps, strict=True):
        if name in asked:
            one[np.arange(len(one)), ends[name] + of[name]] = 1
    held, measured = np.zeros((whole, whole), np.float32), np.zeros((whole, whole), np.float32)
    for pair, (table, deviation) in tables.items():
        first, second = (slice(ends[name], ends[name] + counts[name]) for name in pair)
        small = None if {*pair} <= {*answers.names} else _broad(seen, pair, tables, of)
        if small is not None and small.freedom:
            table = table - (1 - kept[pair][1]) * small.relation
        held[first, second], measured[first, second] = table / seen.total, answers.deviation / deviation
    return Broad(
        of=torch.from_numpy(np.concatenate(maps)),
        held=torch.from_numpy(held),
        measured=torch.from_numpy(measured),
        precision=seen.total / max(answers.deviation, LEAST_NOISE),
    )


def parts(count: int) -> list[Array]:
    """Places 0 .. count - 1 in pairs, or in three parts where that makes fewer."""
    return np.array_split(np.arange(count), max(3, (count + 1) // 2))


def blocks(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Every three parts of the names together: up to six names each, so that any three of the names are in one."""
    return [tuple(names[place] for part in three for place in part) for three in combinations(parts(len(names)), 3)]


def clear_triples(
    tables: Sequence[Array], deviation: float, halved: Mapping[str, Places], order: Sequence[str], seen: Look
) -> Triples | None:
    """The triples of the `halved` columns, which are in order, that tell more together than any two do, from noisy tables of their
    blocks with the label: at most `MOST_TRIPLES`, the clearest ones of those whose third cumulant, given a label, has at least
    `SURE` deviations of its noise. None where there are none."""
    import torch

    names, labels = [*halved], seen.size(seen.labels)
    found: dict[tuple[int, ...], list[Array]] = {}
    summed: dict[tuple[int, ...], list[int]] = {}  # cells that make one of a triple's
    for block, table in zip(blocks(names), tables, strict=True):
        whole = table.reshape(*table.shape[: len(block)], labels)
        for three in combinations(range(len(block)), 3):
            others = tuple(axis for axis in range(len(block)) if axis not in three)
            triple = tuple(names.index(block[axis]) for axis in three)
            found.setdefault(triple, []).append(whole.sum(others))
            summed.setdefault(triple, []).append(math.prod(whole.shape[axis] for axis in others))
    triples = [triple for triple in found if all(halved[names[place]].any() for place in triple)]
    cubes = np.array([np.mean(found[triple], 0) for triple in triples]).reshape(-1, 2, 2, 2, labels)
    cells = np.array([sum(summed[triple]) / len(summed[triple]) ** 2 for triple in triples])
    noise = max(deviation, LEAST_NOISE) * np.sqrt(cells)  # of a cell
    clear = _third_cumulants(cubes, noise)
    kept = np.argsort(-clear, kind="stable")[: min(MOST_TRIPLES, int((clear >= SURE).sum()))]
    if not len(kept):
        return None
    ends = np.cumsum([0, *(len(halved.get(name, [0])) for name in order)])
    signs = np.zeros((int(ends[-1]), len(names)))
    for place, name in enumerate(order):
        if name in halved:
            signs[ends[place] : ends[place + 1], names.index(name)] = 2 * halved[name] - 1
    sign = np.array([-1.0, 1.0])
    held = np.einsum("tabcl,a,b,c->lt", cubes[kept], sign, sign, sign) / seen.total
    return Triples(
        signs=torch.from_numpy(signs).float(),
        of=torch.tensor([triples[place] for place in kept]).T,
        held=torch.from_numpy(held).float(),
        precision=torch.from_numpy(seen.total / (noise[kept] * math.sqrt(8))).float(),
    )


def _third_cumulants(cubes: Array, noise: Array) -> Array:
    """The largest over the labels, in deviations, of noisy tables (triples, 2, 2, 2, labels) whose cells have the deviations
    `noise` (triples,): the sum over records of the product of three signs less their means, which is 0 where of three columns one
    is independent of the two others."""
    sums = np.maximum(cubes.sum((1, 2, 3)), noise[:, None])
    apart = []
    for axis in (1, 2, 3):
        high, low = (cubes.take(place, axis).sum((1, 2)) for place in (1, 0))
        mean = np.clip((high - low) / sums, -1, 1)
        apart.append(np.stack([-1 - mean, 1 - mean], 1))  # (triples, 2, labels)
    told = np.abs(np.einsum("tabcl,tal,tbl,tcl->tl", cubes, *apart))
    spread = np.sqrt(np.prod([(each**2).sum(1) for each in apart], 0))
    most: Array = (told / (spread * noise[:, None])).max(1)
    return most


def evidence(
    seen: Look,
    tables: Answers,
    pairs: Answers,
    labelled: Mapping[str, Array],
    label_deviation: float,
    wide: Answers,
    of: Mapping[str, Places],
) -> tuple[Evidence, list[str]]:
    """What to fit, and the names of its columns in order: those of the tables with the label, of the pairs without it, the others.
    `labelled` (groups, labels) are single columns with the label, `wide` the tables in which ordered columns are counted in the places
    `of`."""
    import torch

    together = seen.size(seen.labels)
    found = relations(seen, tables, pairs, wide, of)
    expected = _expected(seen, found, wide, of)
    with_label = _with_label(expected, seen, tables, labelled)
    tables, pairs = tables.padded(), pairs.padded()
    order = list(dict.fromkeys([*tables.names, *pairs.names, *seen.features]))
    sizes = tuple(seen.groups[name].count if name else 1 for name in order)
    ones = np.concatenate([*(seen.shares(name) if name else np.ones(1) for name in order), np.zeros(0)])
    noises = [seen.noise(name) if name else np.full(1, seen.deviation) for name in order]
    spread = np.maximum(np.concatenate([*noises, np.zeros(0)]), LEAST_NOISE)
    beside, known = _beside(order, sizes, seen, together, labelled, label_deviation)
    held, measured = tables.laid(order, seen, np.clip(beside, 0, None), with_label)
    paired, pairs_measured = pairs.laid(order, seen, ones[None], expected)
    label, label_noise = of_label(seen, labelled, label_deviation)
    made = Evidence(
        label=torch.from_numpy(label / seen.total).float(),
        label_precision=torch.from_numpy(seen.total / np.maximum(label_noise, LEAST_NOISE)).float(),
        sizes=sizes,
        tables=torch.from_numpy(held),
        measured=torch.from_numpy(measured),
        precision=seen.total / max(tables.deviation, LEAST_NOISE),
        pairs=torch.from_numpy(paired[0]),
        pairs_measured=torch.from_numpy(pairs_measured),
        pairs_precision=seen.total / max(pairs.deviation, LEAST_NOISE),
        ones=torch.from_numpy(ones).float(),
        ones_precision=torch.from_numpy(seen.total / spread).float(),
        labelled=torch.from_numpy(beside).float(),
        labelled_precision=torch.from_numpy(known).float(),
        broad=laid_broadly(wide, found, of, order, seen),
    )
    return made, order


def _beside(
    order: Sequence[str], sizes: Sequence[int], seen: Look, labels: int, labelled: Mapping[str, Array], deviation: float
) -> tuple[Array, Array]:
    """Shares of single columns with the label, (labels, width), and their precision (width,), 0 where none were asked."""
    ends = np.cumsum([0, *sizes])
    held, known = np.zeros((labels, int(ends[-1]))), np.zeros(int(ends[-1]))
    for place, name in enumerate(order):
        if name in labelled:
            held[:, ends[place] : ends[place + 1]] = labelled[name].T / seen.total
            known[ends[place] : ends[place + 1]] = seen.total / max(deviation, LEAST_NOISE)
    return held, known
