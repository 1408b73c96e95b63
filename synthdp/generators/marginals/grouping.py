"""Codes of a column put together until the noise is small against their counts, and told apart again when records are drawn.

The counts are noisy answers, so all of this is post-processing. A numeric column is counted twice, in its declared bins and on a
finer public grid; the two are made to agree by least squares (Hay et al. 2010, section 4). Small bins join their neighbours, from low
to high; bins that hold enough for the tables of two columns are parted. Within a group, finer parts and values that people round to
keep the shares that the noise lets be told apart. Frequent atoms and the missing value stay by themselves, as do very frequent round
values. Rare categories become one group.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.generators import Tensors, check_tensors, distributions
from synthdp.generators.marginals.product_mixture import allotted
from synthdp.options import not_negative, option
from synthdp.schema.codec import Codec
from synthdp.schema.columns import LEARN, Boolean, Categorical, Column, Continuous, Datetime, Integer, Ordinal
from synthdp.schema.schema import Schema
from synthdp.schema.where import Allowed, Shares
from synthdp.seal import MOST_RECORDS, Marginals

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

Array = NDArray[np.float64]
Places = NDArray[np.int64]
WINDOW = 8  # codes to each side that say what a code is expected to hold
SURE = 4.5  # deviations of the noise above it: by chance, one code of 300,000
CLEAR = 4.0  # how many deviations of a half's noise its bin must hold to be halved
EMPTY = 2.0  # deviations: bins at both ends of a number's bounds that together hold less are taken to be empty; tried on made-up columns
BEYOND = 0.5  # they must also reach beyond the bins between them by this share of those bins' joint width
MOST_GROUPS = 64  # of a column that is counted alone
UNFIT = "the model's groups or network do not fit the columns of its schema"
FEWER = 1.25  # where there are too many groups, what each holds at least is raised by so much


def least_option(default: float) -> Any:
    """The option `least`."""
    told = "least noisy count of a group of codes, in standard deviations of that count's noise; 0 turns grouping off"
    return option(default, told, not_negative())


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """`of` (codes,) is each code's group, 0 .. count - 1; `within` (codes,) its share of that group."""

    of: Places
    within: Array

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.of.max(initial=0)) + 1

    @property
    def shared(self) -> bool:
        """Whether the shares of every group are a distribution of its codes."""
        return distributions(np.bincount(self.of, self.within, self.count)[:, None]) and bool((self.within >= 0).all())

    def ungrouped(self, groups: Places, rng: np.random.Generator) -> NDArray[np.int32]:
        """A code of each group (rows,), by the codes' shares."""
        order = np.argsort(self.of, kind="stable")
        first = np.searchsorted(self.of[order], np.arange(self.count + 1))
        if self.count == len(order):  # a code each
            return order[groups].astype(np.int32)
        return order[allotted(self.within[order], first, groups, rng)].astype(np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """What is known of a column: noisy counts (codes,), and the bin of each code, within which they are told apart up to the
    noise `deviation` of a code, or at most that: `variances` are those of each code. `of_bins` is the deviation of a bin's count."""

    held: Array
    bins: Places
    deviation: float
    variances: Array
    of_bins: float

    @classmethod
    def of(cls, held: Array, deviation: float) -> "Counts":
        """Counts of codes that were asked for once."""
        variances = np.full(len(held), deviation**2)
        return cls(held=held, bins=np.arange(len(held)), deviation=deviation, variances=variances, of_bins=deviation)

    def and_of(
        self, nodes: Mapping[str, float], deviation: float, column: Categorical, known: float, most: int
    ) -> "Counts":
        """Together with the noisy numbers of units of a tree's `nodes`, which had this `deviation` when they were weighed, by inverse
        variance. A kept node has what its code and the codes below hold that belong to no finer one. A unit counts once at a node, with up
        to `most` records: the numbers are scaled to all records, `known`, less the missing and other ones."""
        tree, kept = column.tree, [node for node in column.categories if node in nodes]
        if tree is None or not kept:
            return self
        place = {node: column.categories.index(node) for node in kept}
        own, doubt = np.zeros(len(self.held)), np.zeros(len(self.held))
        variance = dict(zip(tree.nodes, (max(deviation, 1e-9) / tree.weights) ** 2, strict=True))
        for node in kept:
            own[place[node]] += nodes[node]
            doubt[place[node]] += variance[node]
            above = next((each for each in tree.chain(node)[1:] if each in place), None)
            if above is not None:
                own[place[above]] -= nodes[node]
                doubt[place[above]] += variance[node]
        told = doubt > 0
        scale = (known - self.held[~told].sum()) / max(own.sum(), 1.0)
        scale = float(np.clip(scale, 1.0, most))
        theirs = np.where(told, 1 / np.where(told, doubt * scale**2, 1.0), 0.0)
        mine = 1 / np.maximum(self.variances, 1e-18)
        held = (self.held * mine + scale * own * theirs) / (mine + theirs)
        return replace(self, held=held, variances=1 / (mine + theirs))


def agreed(bins: Array, deviation: float, codes: Array, fine: float, of: Places) -> Counts:
    """Counts of bins (bins,) and of the codes (codes,) that they are made of, to whose bin `of` leads, both noisy: codes are
    moved alike within a bin, to the best estimate of its sum."""
    size, sums = np.bincount(of, minlength=len(bins)), np.bincount(of, weights=codes, minlength=len(bins))
    precise = 1 / max(deviation, 1e-9) ** 2, 1 / (np.maximum(size, 1) * max(fine, 1e-9) ** 2)
    best = (bins * precise[0] + sums * precise[1]) / (precise[0] + precise[1])
    held = codes + ((best - sums) / np.maximum(size, 1))[of]
    return Counts(held=held, bins=of, deviation=fine, variances=np.full(len(held), fine**2), of_bins=deviation)


def grouped(
    counts: Counts, column: Column, codec: Codec, least: float, most: int, apart: float = 0.0, *, learned: bool = False
) -> Groups:
    """Groups whose noisy counts are at least `least`, and at most `most` of them, beside the missing value. With `least` 0 every
    code is a group, unless there are more than `most`.

    Groups of numbers are runs of whole declared bins, or parts of one bin that hold at least `apart` each. Where there are too
    many groups, parts of bins go first. Where the bounds were `learned`, and so may be far too wide, bins far beyond the others can be
    emptied (`_emptied`); not where they were declared, since what noise hides there may be the long tail that the bounds are for.
    """
    held, size = counts.held, len(counts.held)
    known = size - bool(getattr(column, "missing", False))
    if least == 0 and known <= most:
        return Groups(of=np.arange(size), within=np.ones(size))
    of, leaves, spikes = np.zeros(size, np.int64), np.arange(size), np.zeros(size, bool)
    ordered = isinstance(column, Integer | Continuous | Datetime | Ordinal)
    order = _by_value(column, codec, known) if ordered else []
    finer = len(np.unique(counts.bins)) < size
    whole = float(np.clip(held[:known], 0, None).sum()) if ordered and finer else -1.0  # above it no bin has parts
    parted = _Leaves.of(counts, order, least) if ordered else None
    while True:
        if parted is not None:
            of[:known], leaves[:known], spikes[:known] = _neighbours(counts, known, parted, least, max(apart, least))
        else:
            of[:known] = _rare(held[:known], least)
        found = int(of[:known].max(initial=-1)) + 1
        if found <= max(2, most):
            break
        if apart <= whole:
            apart = max(apart * FEWER, 1.0)
        else:
            least = max(least * FEWER, 1.0)
            parted = _Leaves.of(counts, order, least) if ordered else None
    of[known:] = found
    edges = codec.edges(column.name).astype(np.float64) if learned else None
    return Groups(of=of, within=_within(counts, leaves, of, spikes, edges))


def broad(groups: Groups, shares: Array, column: Column, codec: Codec, most: int) -> Places:
    """A place for each group (groups,): groups of near values together, up to `most` places that hold about as many records each,
    given the groups' `shares`. The missing value has a place of its own, the last one."""
    missing = bool(getattr(column, "missing", False))
    known = len(groups.of) - missing
    rank = np.zeros(len(groups.of))
    rank[[code for code, _ in _by_value(column, codec, known)]] = np.arange(known)
    rank[known:] = math.inf
    with np.errstate(invalid="ignore"):
        middle = np.bincount(groups.of, np.where(groups.within > 0, groups.within * rank, 0.0), groups.count)
    order = np.argsort(middle, kind="stable")[: groups.count - missing]
    upto = np.cumsum(shares[order])
    found = np.full(groups.count, most)
    found[order] = np.clip((upto - shares[order] / 2) / max(float(upto[-1]), 1e-9) * most, 0, most - 1).astype(np.int64)
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def halves(groups: Groups, shares: Array, column: Column, codec: Codec) -> Places:
    """0 or 1 for each group (groups,): low and high values, or categories, the most frequent ones first, so that each half holds about
    as many records, given the groups' `shares`. The missing value is among the last."""
    if not isinstance(column, Categorical | Boolean):
        return np.minimum(broad(groups, shares, column, codec, 2), 1)
    order = np.argsort(-shares, kind="stable")
    upto = np.cumsum(shares[order])
    found = np.zeros(groups.count, np.int64)
    found[order] = 2 * upto - shares[order] >= upto[-1]
    found[order[-1]] = groups.count > 1
    return found


def _by_value(column: Column, codec: Codec, known: int) -> list[tuple[int, bool]]:
    """Codes from low to high, and whether each is an atom."""
    if isinstance(column, Ordinal):
        return [(code, False) for code in range(known)]
    atoms: Any = codec.atoms(column.name)
    edges: Any = codec.edges(column.name)[: known - len(atoms)]
    keyed = [(value, 0, code, False) for code, value in enumerate(edges)]
    keyed += [(value, 1, len(edges) + place, True) for place, value in enumerate(atoms)]
    return [(code, atom) for _, _, code, atom in sorted(keyed, key=lambda item: item[:2])]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Leaves:
    """Codes in order, before they are put together: `frequent` atoms, `spikes`, and `parts` in the order of their bins, which are the
    spikes and the halved bins without them, each with what it holds and its bin. Noise lets nothing within a part be told apart."""

    frequent: set[int]
    spikes: set[int]
    parts: list[tuple[Places, float, int]]

    @classmethod
    def of(cls, counts: Counts, order: list[tuple[int, bool]], least: float) -> "_Leaves":
        """Those of counts that a group must hold `least` of."""
        held = counts.held
        frequent = {code for code, atom in order if atom and held[code] >= least}
        spikes = _spikes(counts, [code for code, atom in order if not atom], least)
        plain = np.array([code for code, _ in order if code not in spikes and code not in frequent], np.int64)
        parts = [plain[start:end] for start, end in _halved(counts, plain, least)]
        parts += [np.array([code]) for code in spikes]
        rank = {code: place for place, (code, _) in enumerate(order)}
        parts.sort(key=lambda codes: rank[int(codes[0])])
        told = [(codes, float(held[codes].sum()), int(counts.bins[codes[0]])) for codes in parts]
        return cls(frequent=frequent, spikes=spikes, parts=told)


def _neighbours(
    counts: Counts, size: int, known: _Leaves, least: float, apart: float
) -> tuple[Places, Places, NDArray[np.bool_]]:
    """The group of every code (size,), the leaf of that group (a part that the noise does not let be told apart further), and whether the
    code is a spike."""
    alone = known.frequent | {code for code in known.spikes if counts.held[code] >= apart}
    parts = [part for part in known.parts if int(part[0][0]) not in alone]
    of, leaves = np.zeros(size, np.int64), np.zeros(size, np.int64)
    runs = _runs([held for _, held, _ in parts], [at for _, _, at in parts], least, apart)
    if parts:
        codes = np.concatenate([each for each, _, _ in parts])
        leaves[codes] = np.repeat(np.arange(len(parts)), [len(each) for each, _, _ in parts])
        of[codes] = np.repeat(np.arange(len(runs)), [len(run) for run in runs])[leaves[codes]]
    for place, code in enumerate(sorted(alone)):
        of[code], leaves[code] = len(runs) + place, len(parts) + place
    return of, leaves, np.isin(np.arange(size), list(known.spikes))


def _runs(sums: Sequence[float], bins: Sequence[int], least: float, apart: float) -> list[list[int]]:
    """Places of the parts in order that make a group, given what each part holds and its bin: bins together until they hold `least`, and
    parts of a bin that hold `apart` each. What is left over at the end joins the group before."""
    runs: list[list[int]] = []
    run: list[int] = []
    held = 0.0
    for block in np.split(np.arange(len(sums)), np.flatnonzero(np.diff(bins)) + 1):
        inside = [sums[place] for place in block]
        left = float(np.sum(inside))
        parted = left >= 2 * apart
        for place, part in zip(block.tolist(), inside, strict=True):
            run.append(place)
            held += part
            left -= part
            full = parted and apart <= min(held, left)
            if full or (place == block[-1] and held >= least):
                runs.append(run)
                run, held = [], 0.0
    if run and runs and held < least:
        runs[-1] += run
        run = []
    return [*runs, run] if run else runs


def _spikes(counts: Counts, order: list[int], least: float) -> set[int]:
    """Codes in order that hold `least`, and more than their neighbours and the noise explain: values that people round to."""
    if len(order) < 2 * WINDOW:
        return set()
    held = counts.held[order]
    beside = np.lib.stride_tricks.sliding_window_view(np.pad(held, WINDOW, mode="reflect"), 2 * WINDOW + 1)
    level = np.clip(np.median(beside, axis=1), 0, None)
    high = (held >= least) & (held > 2 * level + SURE * counts.deviation)
    return {order[place] for place in np.flatnonzero(high)}


def _halved(counts: Counts, rest: Places, least: float) -> list[tuple[int, int]]:
    """Runs of the codes in order: the bins, halved as long as they hold enough for two, and the noise of a half is small."""
    sums = np.append(0.0, np.cumsum(counts.held[rest]))
    cuts = np.flatnonzero(np.diff(counts.bins[rest])) + 1
    waiting = [(int(a), int(b)) for a, b in zip([0, *cuts], [*cuts, len(rest)], strict=True) if b > a][::-1]
    runs = []
    while waiting:
        start, end = waiting.pop()
        inside = sums[end] - sums[start]
        noise = counts.deviation * np.sqrt(end - start) / 2
        if end - start > 1 and inside >= max(2 * least, CLEAR * noise):
            middle = (start + end) // 2
            waiting += [(middle, end), (start, middle)]
        else:
            runs.append((start, end))
    return runs


def _rare(counts: Array, least: float) -> Places:
    """Frequent categories by themselves, the others together."""
    frequent = counts >= least
    if (~frequent).sum() <= 1:
        return np.arange(len(counts))
    of = np.full(len(counts), int(frequent.sum()), np.int64)
    of[frequent] = np.arange(int(frequent.sum()))
    return of


def _smooth(held: Array, size: Places, of: Places, deviation: float) -> Array:
    """Counts `held` (parts,) shrunk towards an even spread over the codes of all parts with the same `of`, as far as the noise explains
    their differences (James & Stein 1961). `size` (parts,) is the number of codes in each part; `deviation` is the noise of one code."""
    level = np.bincount(of, weights=held) / np.maximum(np.bincount(of, weights=size), 1)
    apart = held - level[of] * size
    seen = np.bincount(of, weights=apart**2 / size)
    factor = np.clip(1 - (np.bincount(of) - 1) * deviation**2 / np.maximum(seen, 1e-12), 0, 1)
    return level[of] * size + factor[of] * apart


def _within(counts: Counts, leaves: Places, of: Places, spikes: NDArray[np.bool_], edges: Array | None) -> Array:
    """Shares of the leaves of each group, times shares of the codes of each leaf: so that the noise of many codes together
    cannot outweigh what their leaf holds. Leaves of one bin, spikes aside, are shrunk towards an even distribution. `edges` are those of
    a number's codes if bins far beyond the others hold nothing where the noise explains what they hold (`_emptied`)."""
    codes = _shares(_smooth(counts.held, np.ones(len(of), np.int64), leaves, counts.deviation), leaves)
    parts, first, of_part, size = np.unique(leaves, return_index=True, return_inverse=True, return_counts=True)
    sums = np.bincount(of_part, weights=counts.held).astype(np.float64)
    alike = np.stack([of[first], counts.bins[first], np.where(spikes[first], parts + 1, 0)])
    sums = _smooth(sums, size, np.unique(alike, axis=1, return_inverse=True)[1].ravel(), counts.deviation)
    if edges is not None and len(edges) > 1:
        whole = size == np.bincount(counts.bins)[counts.bins[first]]
        noise = np.where(whole, np.minimum(np.sqrt(size) * counts.deviation, counts.of_bins), 0.0)
        sums = _emptied(sums, noise, of[first], of_part[: len(edges) - 1], edges)
    return codes * _shares(sums, of[first])[of_part]


def _emptied(sums: Array, noise: Array, of: Places, leaf_of: Places, edges: Array) -> Array:
    """`sums` (leaves,) with the outer bins of a number set to 0 if noise explains their joint count and they reach far beyond the others:
    noise there would be drawn as real values, such as a temperature of 60. `leaf_of` (codes,) leads from codes between
    `edges` to leaves; a leaf that is part of a bin has no `noise`. No group (`of`) is left with nothing."""
    line = list(dict.fromkeys(leaf_of.tolist()))
    low, high = np.full(len(sums), math.inf), np.full(len(sums), -math.inf)
    np.minimum.at(low, leaf_of, edges[:-1])
    np.maximum.at(high, leaf_of, edges[1:])
    runs: list[list[int]] = []
    for ends in (line, line[::-1]):
        told = np.cumsum(sums[ends]) >= EMPTY * np.sqrt(np.cumsum(noise[ends] ** 2))
        told |= noise[ends] == 0
        runs.append(ends[: int(np.argmax(told)) if told.any() else 0])
    core = [leaf for leaf in line if leaf not in runs[0] and leaf not in runs[1]]
    if not core:
        return sums
    least, most = low[core[0]], high[core[-1]]
    room = BEYOND * (most - least)
    found = sums.copy()
    for leaf in (*runs[0], *runs[1]):
        beside = (of == of[leaf]) & (found > 0) & (np.arange(len(sums)) != leaf)
        if beside.any() and (low[leaf] < least - room or high[leaf] > most + room):
            found[leaf] = 0.0
    return found


def _shares(counts: Array, of: Places) -> Array:
    import torch

    from synthdp.generators.parts.table_networks import nearest_distribution

    within = np.ones(len(counts))
    order = np.argsort(of, kind="stable")
    for codes in np.split(order, np.flatnonzero(np.diff(of[order])) + 1):
        if len(codes) == 1:  # as most are where little noise is added
            continue
        within[codes] = nearest_distribution(torch.from_numpy(counts[codes])).numpy()
    return within


# ---- The first look that generators on tables take: every column alone, with noise, and the groups of codes that the noise allows.


@dataclass(frozen=True, kw_only=True, eq=False)
class Binned:
    """`columns` are the noisy counts of each column's groups; a group of c codes has a deviation of sqrt(c) times `deviation`."""

    groups: tuple[Groups, ...]
    columns: tuple[Array, ...]
    deviation: float
    total: float  # noisy number of records, from 1 to what a choice can score

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Groups of each column."""
        return tuple(each.count for each in self.groups)

    @property
    def of(self) -> list[NDArray[np.int64]]:
        """What questions count by."""
        return [each.of for each in self.groups]

    def codes(self, column: int) -> NDArray[np.int64]:
        """How many codes each group of a column holds."""
        return np.bincount(self.groups[column].of, minlength=self.groups[column].count)


def bounds_learned(declared: Schema) -> set[str]:
    """The columns whose bounds the declared schema leaves to learn."""
    return {column.name for column in declared.columns if getattr(column, "bounds", None) == LEARN}


def binned(data: "Sensitive", counts: list[Array], question: Marginals, least: float) -> Binned:
    """From the answer to `question`, every column alone: groups that hold at least `least` deviations of its noise each, at most
    about `MOST_GROUPS` of a column."""
    total = float(np.average([each.sum() for each in counts], weights=[1 / len(each) for each in counts]))
    total = min(max(1.0, total), MOST_RECORDS / 2)
    floor, learned = min(least * question.deviation, total / 2), bounds_learned(data.declared)
    groups = tuple(
        grouped(Counts.of(each, question.deviation), one, data.codec, floor, MOST_GROUPS, learned=one.name in learned)
        for each, one in zip(counts, data.schema.coded, strict=True)
    )
    columns = tuple(
        np.bincount(group.of, each, group.count).astype(np.float64) for group, each in zip(groups, counts, strict=True)
    )
    return Binned(groups=groups, columns=columns, deviation=question.deviation, total=total)


# ---- Groups as arrays of a model, and back.


def tensors_of(groups: Sequence[Groups]) -> Tensors:
    """The arrays of the groups of every column."""
    arrays: Tensors = {}
    for place, each in enumerate(groups):
        arrays |= {f"of.{place}": each.of.astype(np.float64), f"within.{place}": each.within}
    return arrays


def groups_of(tensors: Tensors, sizes: Sequence[int]) -> tuple[Groups, ...]:
    """The groups of columns of these sizes, from a model's arrays; raises `BadInput` where they do not fit."""
    shapes = {f"{kind}.{place}": (size,) for place, size in enumerate(sizes) for kind in ("of", "within")}
    check_tensors({name: tensors[name] for name in shapes if name in tensors}, shapes)
    found = tuple(
        Groups(
            of=whole_numbers(tensors[f"of.{place}"], size), within=np.asarray(tensors[f"within.{place}"], np.float64)
        )
        for place, size in enumerate(sizes)
    )
    if not all(each.shared for each in found):
        raise BadInput(UNFIT)
    return found


def whole_numbers(values: NDArray[np.generic], most: int) -> NDArray[np.int64]:
    """Numbers of a model's array as whole ones below `most`; raises `BadInput` where they are not."""
    found = np.asarray(values, np.int64)
    if (found != values).any() or found.min(initial=0) < 0 or found.max(initial=0) >= max(most, 1):
        raise BadInput(UNFIT)
    return found


# ---- A condition on codes as an event of their groups, and codes of groups as the condition leaves them.


def events(allowed: Allowed, names: Sequence[str], groups: Sequence[Groups]) -> dict[str, Array]:
    """By name, for the columns that the condition is about: how often each group satisfies it, (groups,), by its codes' shares."""
    return {
        name: np.bincount(each.of, weights=each.within * allowed.shares[name], minlength=each.count)
        / np.maximum(np.bincount(each.of, weights=each.within, minlength=each.count), np.finfo(float).tiny)
        for name, each in zip(names, groups, strict=True)
        if name in allowed.shares
    }


def code_of(
    groups: Groups, chosen: NDArray[np.int64], shares: Shares | None, rng: np.random.Generator
) -> NDArray[np.int32]:
    """A code of each chosen group (rows,), of those that the condition leaves; `shares` None: of all."""
    if shares is None:
        return groups.ungrouped(chosen, rng)
    within = groups.within * shares
    kept = np.flatnonzero(within > 0)
    left = Groups(of=groups.of[kept], within=within[kept])
    return kept[left.ungrouped(chosen, rng)].astype(np.int32)
