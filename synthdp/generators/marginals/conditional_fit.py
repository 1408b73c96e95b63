"""The distribution of one column given others, fitted to noisy tables of it with each of them, or with several.
A row that lies in several cells of a table, such as a visit with several codes, takes their mean, or owes its code to one: see `causes`.

P(y | x) is proportional to P(y) exp(sum_q theta_q[x_q, y]), where P(y) is what the tables say of the column by itself: of all
conditional distributions with the same tables the one that is nearest to it (Berger, Della Pietra & Della Pietra 1996). The tables are
noisy, so a parameter pays for its size as much as its cell's noise outweighs what the cell can tell (Dudik, Phillips & Schapire 2007,
with an L2 penalty). The `x` are drawn, not records: what a model has drawn so far.

Of two columns that stand in order, such as a value and the one before it, each cell says little, and all together say much. So theta_q
has a second part, slope_q u(x) v(y), where u and v are ranks: linear-by-linear association (Agresti 2013, section 10.4). How large slopes
are is estimated from all of them together (MacKay 1992): where tables tell nothing, slopes are next to nothing. Where only y stands in
order, such as a length of stay by diagnoses, each code of x has a slope of its own.

Many noisy tables contradict one another: each says something else about how many records have each code. Parameters that fit all of them
are large and cancel each other. So tables are first made to agree on that (Hay et al. 2010). A fit by least squares then leaves what they
still contradict unless it is more than noise explains, and estimates how large the parameters of each table are (MacKay 1992), so that
a table that tells nothing adds hardly any noise.

Where codes have no order but another column has one, such as diagnoses along age, each code has a trend along it: see `trends`.

What mostly stays, such as an insurance or a chronic diagnosis, has one parameter for being as before, which all those cells tell together.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthdp.generators.marginals import causes
from synthdp.generators.marginals.staying import LEAST_CHANCE, LEAST_TOLD, Again, Stay, as_before
from synthdp.generators.marginals.trends import Along, Trends
from synthdp.schema.history_view import BROAD, cell
from synthdp.schema.number_levels import LEVEL
from synthdp.schema.rows_below import PREVIOUS

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Clique = tuple[str, ...]
# Given the codes of other columns, and how many rows there are: (rows, codes), true where a row cannot have a code.
Closed = Callable[[Mapping[str, Whole], int], NDArray[np.bool_] | None]
ROWS, CHANCES = 50_000, 10_000_000  # of which probabilities are made at a time
CLOSED = -1e6  # the logarithm of a chance that is none
ALIKE = 2.0**30  # of a code's place: means that differ by less than a part of so many are alike
FIRST_SLOPE, LEAST_SLOPE, MOST_SLOPE = 0.25, 0.02, 1.0  # what is expected of one: at first, and as the tables say
LEAST_SPREAD, MOST_SPREAD = 0.01, 2.0  # of a table's parameters, where it is estimated
LEAST = 1e-300  # of a share, before its logarithm
SURE = 2.0  # deviations of noise that a table's relation must stand above, where it may be large
ASSUMED = 15.0  # parameters of the expected spread, which count beside those that a table tells
SAMPLED = 0.1  # of the variance of sampling, which all tables share: what is left of it as a cell's error
CLEAR = 2.0  # deviations of noise: the part of a count beyond them says how much its cell can tell
KNOWN = 0.1  # of the drawn rows in a cell: how far real records may differ in number
LEAST_ORDERED = 3  # codes of a column that stands in order


@dataclass(frozen=True, eq=False)
class Conditional:
    """`margin` (codes,): logarithms of the column by itself. `theta` (cells of all cliques end to end, codes): what they change. `gains`,
    by column (codes,): what is added to the codes that a row has in that column. `by_cause`: see `causes`."""

    margin: Array
    cliques: tuple[Clique, ...]
    theta: Array
    gains: Mapping[str, Array] = field(default_factory=dict)
    by_cause: bool = False

    def probabilities(self, cells: Mapping[str, Whole], sizes: Mapping[str, int], offset: Array | None = None) -> Array:
        """(rows, codes). `offset` (rows, codes) are logarithms of what multiplies the chances."""
        logits = np.tile(self.margin, (len(next(iter(cells.values()))), 1))
        start = 0
        for clique in self.cliques:
            found, end = cell(cells, clique, sizes), start + math.prod(sizes[name] for name in clique)
            theta = self.theta[start:end]
            logits += theta[found] if found.ndim == 1 else causes.change(found, theta, self.by_cause)
            start = end
        for name, gains in self.gains.items():
            there, had = as_before(cells[name], len(gains))
            logits[there, had] += gains[had]
        return softmax(logits if offset is None else logits + offset)

    def draw(
        self,
        cells: Mapping[str, Whole],
        sizes: Mapping[str, int],
        rows: int,
        rng: np.random.Generator,
        closed: Closed | None = None,
    ) -> Whole:
        """A code for each row of `cells`; if no other column tells this one, from its own distribution. `closed` says which codes a row
        cannot have."""
        found = np.empty(rows, np.int64)
        step = max(1, min(ROWS, CHANCES // len(self.margin)) if self.cliques else rows)
        for start in range(0, rows, step):
            part = {name: values[start : start + step] for name, values in cells.items()}
            here = min(step, rows - start)
            found[start : start + step] = drawn(self.chances(part, sizes, here, closed and closed(part, here)), rng)
        return found

    def chances(
        self, cells: Mapping[str, Whole], sizes: Mapping[str, int], rows: int, closed: NDArray[np.bool_] | None
    ) -> Array:
        """The chance of each code (rows, codes): 0 for those that are `closed`."""
        offset = None if closed is None else np.where(closed, CLOSED, 0.0)
        if self.cliques:
            return self.probabilities(cells, sizes, offset)
        logits = np.tile(self.margin, (rows, 1))
        return softmax(logits if offset is None else logits + offset)


def halfway(one: Conditional, other: Conditional) -> Conditional:
    """The conditional between two of the same cliques."""
    gains = {name: (one.gains.get(name, found) + found) / 2 for name, found in other.gains.items()}
    margin, theta = (one.margin + other.margin) / 2, (one.theta + other.theta) / 2
    return Conditional(margin, other.cliques, theta, gains, other.by_cause)


def drawn(chances: Array, rng: np.random.Generator) -> Whole:
    """A place of each row's distribution, (rows, codes). Rows are not independent of each other: among rows of like chances every code
    comes nearly as often as its chances say."""
    ends = chances.cumsum(1)
    means = ends.sum(1) / np.maximum(ends[:, -1], LEAST_CHANCE)  # of places, counted from the end
    numbers = np.empty(len(ends))
    alike = np.rint(means * ALIKE)  # so that rounding, which differs between machines, does not order rows
    numbers[np.argsort(alike, kind="stable")] = evenly(len(ends), rng)
    # Just below the sum of all chances at most: otherwise rounding could draw a code that has no chance.
    reached = np.minimum(numbers[:, None] * ends[:, -1:], np.nextafter(ends[:, -1:], 0))
    found: Whole = (ends > reached).argmax(1)
    return found


def evenly(count: int, rng: np.random.Generator) -> Array:
    """Numbers between 0 and 1, (count,), each of them uniform: of the first 2^k, of the next 2^k and so on, one lies in each 2^k-th part
    (a scrambled net in one dimension; Owen 1995)."""
    parts = np.arange(1 << max(0, count - 1).bit_length(), dtype=np.int32)[None, :]
    while parts.shape[1] > 1:  # neighbours part: one into the first half of the rows, one into the second
        one, other = parts[:, ::2], parts[:, 1::2]
        swapped = rng.integers(0, 2, one.shape).astype(np.bool_)
        halves = [np.where(swapped, other, one), np.where(swapped, one, other)]
        parts = np.stack(halves, 1).reshape(2 * len(parts), -1)
    return (parts[:count, 0] + rng.random(count)) / len(parts)


def softmax(logits: Array) -> Array:
    """Along the last axis, of (rows, codes)."""
    found, sums, _ = _exponentials(logits)
    found /= sums
    return found


def _exponentials(logits: Array) -> tuple[Array, Array, Array]:
    """Exponentials of (rows, codes) less a number that keeps them in range, their sums (rows, 1), and that number: one for all rows where
    this is enough, since what is largest in each short row takes long to find."""
    most = np.max(logits, initial=-np.inf, keepdims=True)
    if not most.item() - np.min(logits, initial=np.inf) < causes.IN_RANGE:
        most = logits.max(1, keepdims=True)
    found = np.exp(logits - most)
    return found, (found @ np.ones(found.shape[1]))[:, None], most


@dataclass(frozen=True)
class Slopes:
    """How columns that stand in order go with others that do: `ordered` are the codes [first, end) of all of these. Each fit keeps here,
    by its column and a clique, the slopes that it found and which shares of them the tables told, the penalty telling the rest. Only of
    columns in `by_two` do cliques of two columns have slopes, too."""

    ordered: Mapping[str, tuple[int, int]]
    by_two: Collection[str] = ()
    found: dict[tuple[str, Clique], tuple[Array, Array]] = field(default_factory=dict)

    def variance(self, name: str, clique: Clique) -> float:
        """That of slopes, as is expected: one for all of a kind, since a single slope says too little of how large it should be. Kinds are
        those of levels with their previous ones, of levels with all else, of broad columns, of codes without an order, and all others."""
        held = [each for of, each in self.found.items() if self._kind(*of) == self._kind(name, clique)]
        told = sum(float(share.sum()) for _, share in held)
        squares = sum(float(slope @ slope) for slope, _ in held)
        if clique[0].startswith(BROAD):  # they are few, and each clear of the noise: weak ones say little of the next
            told, squares = told + 1, squares + MOST_SLOPE**2
        if told <= 0:
            return FIRST_SLOPE**2
        return float(min(max(squares / told, LEAST_SLOPE**2), MOST_SLOPE**2))

    def _kind(self, name: str, clique: Clique) -> tuple[bool, bool, bool, bool]:
        of_level, unordered = name.startswith(LEVEL), len(clique) == 1 and clique[0] not in self.ordered
        return of_level, of_level and clique[-1].startswith(PREVIOUS), clique[0].startswith(BROAD), unordered

    def ranks(self, name: str, weights: Array) -> Array | None:
        """(codes,) ranks of the codes that stand in order, from -sqrt(3) to sqrt(3) at most: of mean 0 by these weights, and of variance 1
        where all weigh the same and are many. 0 for codes that have no place in the order; None where the column has no order."""
        first, end = self.ordered.get(name, (0, 0))
        if end - first < LEAST_ORDERED:
            return None
        held = np.maximum(weights[first:end], 0.0)
        total = held.sum() or 1.0
        found = np.zeros(len(weights))
        found[first:end] = math.sqrt(3) * (2 * (np.cumsum(held) - held / 2) / total - 1)
        return found


def fit(
    cells: Mapping[str, Whole],
    weights: Array,
    cliques: Sequence[Clique],
    sizes: Mapping[str, int],
    tables: Sequence[Array],
    deviations: Sequence[float],
    alone: Array,
    *,
    spread: float | Sequence[float],
    iterations: int,
    start: Conditional | None = None,
    offset: Array | None = None,
    slopes: Slopes | None = None,
    name: str = "",
    before: str = "",
    gains: Mapping[str, Array] | None = None,
    spreads: dict[Clique, float] | None = None,
    along: Along | None = None,
    again: tuple[tuple[str, ...], Array, float] | None = None,
    of_rows: bool = False,
    by_cause: bool = False,
    together: Whole | None = None,
    related: Collection[Clique] = (),
) -> Conditional:
    """The conditional that has, in every cell of a clique, the shares of the codes that the noisy `tables` (cells, codes) have there.

    `alone` (codes,) are logarithms of the column by itself. Tables are held against the rows `cells`, weighted: a table's cell counts as
    much as the rows in it. `spread` is the deviation of parameters that is expected, of all or of each table: a parameter's penalty is
    (1 + deviation^2 / h) / spread^2 / 2 times its square, where h is the variance of its count among the rows. A table of a clique in
    `related` whose relation stands clear of the noise as a whole, even if its cells do not, has a larger spread (see `_clear_spread`),
    unless it has a slope; codes then keep the shares that `alone` says. With `of_rows`, for rows below records, the drawn rows say how
    many a cell has where noise hides that, and h is larger where a count stands clear of the noise, as for a drug that is rare except with
    one diagnosis. `offset` (rows, codes) are logarithms of factors on the probabilities, `CLOSED` for codes that a row cannot have. By
    L-BFGS, from `start` where its cliques are the same.
    With `slopes`, each clique of one column that stands in order has one, if this column, `name`, does as well, and of a `related` column
    without an order each code has one. The clique of `before` alone tells the parameter for being as before, which is 0 or more. `gains`
    are given ones of other columns. With `by_cause`, a row in several cells of a table owes its code to one of them: see `causes`.

    With `spreads` the fit is by least squares, without a parameter for being as before. They hold the spread of each clique's parameters
    that an earlier fit estimated; this fit puts its own there. Codes have trends `along` the columns there (see `trends`). Instead of one
    parameter for being as before, `again` has columns, their table and its deviation, for parameters of each code: see `Again`. Cliques of
    a broad column stand last: their tables tell the mean of the codes in each place, as `together` has it, and change all these alike.
    """
    from scipy.optimize import Bounds, minimize

    levelled = Levelled.of(together, cliques, sizes)
    for column, added in (gains or {}).items():
        there, had = as_before(cells[column], len(added))
        offset = np.zeros((len(weights), len(added))) if offset is None else offset.copy()
        offset[there, had] += added[had]
    rows = indicators(cells, cliques, sizes)
    columns = rows.T.tocsr()
    base, margin = alone, softmax(alone[None, :])[0]
    mass = (columns @ weights)[:, None]
    noisy = np.concatenate(tables)
    lengths = [len(table) for table in tables]
    noise = np.repeat(np.asarray(deviations, np.float64), lengths)[:, None]
    lines = _Lines.of(slopes, name, cliques, sizes, mass[:, 0], margin, related)
    total = noisy.sum(1, keepdims=True)
    if of_rows:  # noise adds equally to the counts of all codes, except those that a cell cannot have
        possible = (noisy != 0) & (alone > CLOSED)
        many = np.maximum(possible.sum(1, keepdims=True), 1)
        held, parts = _numbers(mass, total, many * noise**2), possible / many
    else:
        held, parts = np.maximum(total, noise), margin  # of the records in a cell; no fewer than the noise hides
    target = mass * (noisy + (held - total) * parts) / held
    # Slopes add up over all cells: one of which the noise left little may not speak for as many records as were drawn.
    full = np.maximum(held, mass)
    sloped = levelled(mass * (noisy - total * margin) / full) @ lines.v
    previous = start if start is not None and start.cliques == tuple(cliques) else None
    noisy_tables = {each[0]: each[1:] for each in zip(cliques, tables, deviations, strict=True)}
    chances = None
    if previous is not None and before in cells and cells[before].ndim > 1:  # some rows have several codes before
        chances = previous.probabilities(cells, sizes)
    stay: Stay | Again = Stay.of(before, cells, weights, noisy_tables, margin, chances)
    if again is not None:
        columns_had, table_had, deviation_had = again
        stay = Again.of(columns_had, cells, weights, table_had, deviation_had, margin)
    del chances
    deviations_of_cells = noise
    noise, slope_noise = noise * mass / held, lines.sums((noise * mass / full)[:, 0] ** 2 * (lines.v @ lines.v), 2)
    told = mass * (margin * (1 - margin))[None, :]
    if of_rows:
        told = np.maximum(told, np.minimum(target - CLEAR * noise, mass / 4))
    expected = dict(zip(cliques, np.broadcast_to(spread, len(tables)).tolist(), strict=True))
    now = told
    if spreads is None and previous is not None and related:  # a relation changes what counts tell
        likely = previous.probabilities(cells, sizes, offset)
        now = np.maximum(told, columns @ (likely * (1 - likely) * weights[:, None]))
    clear: set[Clique] = set()
    for clique, first, length in zip(cliques, np.cumsum([0, *lengths]), lengths, strict=False):
        if clique in related and clique not in lines.parts:
            part = slice(first, first + length)
            larger = _clear_spread(noisy[part], mass[part], deviations_of_cells[part], margin)
            if larger > expected[clique]:
                clear.add(clique)
                expected[clique], told[part] = larger, now[part]
                excess = target[part].sum(0) - mass[part].sum() * margin
                target[part] -= mass[part] / mass[part].sum() * excess
    each = np.repeat([(spreads or {}).get(*pair) for pair in expected.items()], lengths)[:, None]
    penalty = (1 + noise**2 / np.maximum(told, LEAST_TOLD)) / each**2
    free = weights if offset is None else weights * ((offset > CLOSED).sum(1) > 1)  # of rows that have a choice
    slope_told, slope_target = lines.sums(columns @ free, 2) * (margin @ lines.v**2), lines.sums(sloped)
    target = levelled(target)
    theta, slope, stays = np.zeros(target.shape), np.zeros(lines.count), np.zeros(stay.count)
    if previous is not None:
        for clique, part in lines.parts.items():
            slope[part] = slopes.found.get((name, clique), (0.0, 0.0))[0] if slopes else 0.0
        theta, stays = previous.theta - levelled(lines.changes(slope)), stay.parameter(previous.gains)
    size, shape = theta.size, theta.shape
    variance = np.ones(lines.count)
    for clique, part in lines.parts.items():
        variance[part] = slopes.variance(name, clique) if slopes else 1.0
    slope_penalty = (1 + slope_noise / np.maximum(slope_told, LEAST_TOLD)) / variance
    squares = None
    if spreads is not None:
        logits = base + rows @ (theta + levelled(lines.changes(slope)))
        chances = softmax(logits if offset is None else logits + offset) * weights[:, None]
        agreed = _agreeing(tables, margin)
        squares = Squares.of(rows, columns, weights, chances, agreed, deviations_of_cells, levelled)
        told, target, slope_target = squares.told, np.zeros_like(target), np.zeros_like(slope_target)
        penalty, slope_penalty = np.broadcast_to(1 / each**2, told.shape), 1 / variance
        slope_told = lines.sums(told @ lines.v**2, 2)
        del logits, chances
    several = [by_cause and cell(cells, clique, sizes).ndim > 1 for clique in cliques]
    ends = zip(np.cumsum(lengths).tolist(), lengths, several, strict=True)
    mixture = causes.Mixture.of(rows, [slice(last - length, last) for last, length, held in ends if held])

    def changed(changes: Array, same: Array) -> tuple[Array, list[tuple[Array, Array]]]:
        logits = base + rows @ changes if offset is None else base + rows @ changes + offset
        means = mixture.add(logits, changes)
        stay.add(logits, same)
        return logits, means

    if mixture.parts:
        rows = mixture.others(rows)
        columns = rows.T.tocsr()
        logits, means = changed(theta + levelled(lines.changes(slope)), stays)
        target = mixture.owed_of(target, noise, each, softmax(logits) * weights[:, None], means)
        del logits, means
    # What squares tell has the noise in it already.
    trends = Trends.of(along, cliques, lengths, mass, told, noise if squares is None else np.zeros_like(noise))
    trend = trends.within(theta)
    theta = theta - trends.basis @ trend
    scale = 1 / np.sqrt(penalty + 3 * told)  # 3: a row lies in a cell of every table, which share what they tell
    slope_scale = 1 / np.sqrt(slope_penalty + 3 * slope_told)

    def objective(scaled: Array) -> tuple[float, Array]:
        own, bend, same = (
            scaled[:size].reshape(shape) * scale,
            scaled[size:end] * slope_scale,
            scaled[end:last] * stay.scale,
        )
        changes, bent = own + lines.changes(bend) if len(bend) else own, scaled[last:].reshape(trend.shape)
        changes = levelled(changes)
        if len(bent):
            bent = bent * trends.scale
            changes = changes + trends.basis @ bent
        logits, means = changed(changes, same)
        shares, sums, most = _exponentials(logits)
        chances = shares * (weights[:, None] / sums)
        if squares is None:
            value, pull = float(weights @ (np.log(sums) + most)[:, 0]), chances
        else:
            value, pull = squares.sum_and_gradient(chances)
        value -= (own * target).sum() + bend @ slope_target + same @ stay.target + (bent * trend_target).sum()
        value += ((penalty * own**2).sum() + slope_penalty @ bend**2 + stay.penalty @ same**2) / 2
        value += (trends.penalty * bent**2).sum() / 2
        pulled = columns @ pull
        mixture.owed(pull, means, pulled)
        pulled = levelled(pulled)
        of_slopes = lines.sums(pulled @ lines.v) - slope_target + slope_penalty * bend
        staying = stay.sums(pull) - stay.target + stay.penalty * same
        slope_of_own = (pulled - target + penalty * own) * scale
        bending = (trends.basis.T @ pulled - trend_target + trends.penalty * bent) * trends.scale
        return float(value), np.concatenate(
            [slope_of_own.ravel(), of_slopes * slope_scale, staying * stay.scale, bending.ravel()]
        )

    end, trend_target = size + lines.count, trends.basis.T @ target
    last = end + stay.count
    options = {"maxiter": iterations, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-3}
    first = np.concatenate(
        [(theta / scale).ravel(), slope / slope_scale, stays / stay.scale, (trend / trends.scale).ravel()]
    )
    least = np.repeat([-np.inf, stay.least, -np.inf], [end, stay.count, trend.size])
    bounds = Bounds(least, np.inf) if stay.count else None
    found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options, bounds=bounds).x
    theta, slope = found[:size].reshape(shape) * scale, found[size:end] * slope_scale
    if spreads is not None:
        firsts = np.cumsum([0, *lengths[:-1]])
        sums, sure = (np.add.reduceat(cell.sum(1), firsts) for cell in (theta**2, told / (told + penalty)))
        assumed = np.square(list(expected.values()))
        found_spreads = np.sqrt((sums + ASSUMED * assumed) / (sure + ASSUMED))
        spreads.update(zip(cliques, np.clip(found_spreads, LEAST_SPREAD, MOST_SPREAD).tolist(), strict=True))
    if slopes is not None:
        shares = slope_told / (slope_told + slope_penalty)
        slopes.found.update({(name, clique): (slope[part], shares[part]) for clique, part in lines.parts.items()})
    theta = levelled(theta + lines.changes(slope))
    if along is not None and trend.size:
        trend = found[last:].reshape(trend.shape) * trends.scale
        theta += trends.basis @ trend
        sums, sure = (trend**2).sum(1), (trends.told / (trends.told + trends.penalty)).sum(1)
        estimated = np.sqrt((sums + ASSUMED * along.spread**2) / (sure + ASSUMED))
        along.found.update(zip(trends.keys, np.clip(estimated, LEAST_SPREAD, MOST_SPREAD).tolist(), strict=True))
    same = found[end:last] * stay.scale
    if clear:  # large parameters are drawn towards 0 more in some codes than in others
        logits, _ = changed(theta, same)
        base = matched(base, logits - base, weights, margin)
    gained = {**stay.of_parameter(same), **(gains or {})}
    return Conditional(base, tuple(cliques), theta, gained, by_cause)


def matched(margin: Array, changes: Array, weights: Array, wanted: Array) -> Array:
    """The margin with which the codes have the `wanted` shares of all rows."""
    for _ in range(20):
        shares = weights @ softmax(margin + changes) / weights.sum()
        margin = np.where(wanted > 0, margin + np.log(np.maximum(wanted, LEAST) / np.maximum(shares, LEAST)), margin)
    return margin


def _agreeing(tables: Sequence[Array], margin: Array) -> Array:
    """The tables (cells, codes), end to end, each as near as can be among those in which codes have the shares `margin` (codes,)
    (Hay et al. 2010, section 4)."""
    excess = [(table.sum(0) - table.sum() * margin) / len(table) for table in tables]
    return np.concatenate([table - each for table, each in zip(tables, excess, strict=True)])


def clearness(table: Array, deviation: float) -> float:
    """By how many deviations of its noise the relation in a noisy table (codes, codes) stands out: a sum of squares."""
    total = max(float(table.sum()), deviation * math.sqrt(table.size))  # no fewer than the noise hides
    relation = table - np.outer(table.sum(1), table.sum(0)) / total
    freedom = max(1, (table.shape[0] - 1) * (table.shape[1] - 1))
    return float(((relation / deviation) ** 2).sum() - freedom) / math.sqrt(2 * freedom)


def _clear_spread(table: Array, mass: Array, noise: Array, margin: Array) -> float:
    """How large the parameters of a noisy table (cells, codes) are, from its sum of squared differences from no relation, as far as it is
    more than noise explains. A parameter t moves the count of a cell by about told * t; `spoilt` is what noise adds to each square."""
    codes, cells, share = len(margin), len(mass), mass / max(float(mass.sum()), LEAST_CHANCE)
    relation = table - table.sum(1, keepdims=True) * margin
    relation = relation - share * relation.sum(0)
    told = mass * margin * (1 - margin)
    spoilt = noise**2 * ((1 - margin) ** 2 + margin**2 * (codes - 1)) * ((1 - share) ** 2 + share**2 * (cells - 1))
    excess = (told * (relation**2 - spoilt)).sum() - SURE * math.sqrt(2 * ((told * spoilt) ** 2).sum())
    return min(math.sqrt(max(0.0, float(excess)) / max(float((told**3).sum()), LEAST_CHANCE)), MOST_SPREAD)


def _numbers(mass: Array, total: Array, variance: Array) -> Array:
    """(cells, 1): how many records each cell has: the noisy `total`, of this `variance`, as far as it is clear, and the `mass` of the drawn
    rows where noise hides it."""
    known = (KNOWN * mass) ** 2
    clear = known / np.maximum(known + variance, LEAST_CHANCE)
    return np.asarray(np.maximum(np.maximum(mass + clear * (total - mass), mass / 4), LEAST_CHANCE), np.float64)


@dataclass(frozen=True)
class Levelled:
    """Takes means over the codes of one place, in the cells from `first` on: those of broad tables, which stand last. `means` (codes,
    codes) takes them; without it values stay."""

    first: int = 0
    means: Array | None = None

    @classmethod
    def of(cls, places: Whole | None, cliques: Sequence[Clique], sizes: Mapping[str, int]) -> "Levelled":
        """Of a column whose codes lie in these places."""
        if places is None:
            return cls()
        first = sum(math.prod(sizes[name] for name in clique) for clique in cliques if not clique[0].startswith(BROAD))
        return cls(first, (places[:, None] == places) / np.bincount(places)[places])

    def __call__(self, values: Array) -> Array:
        """Of values (cells, codes)."""
        if self.means is None or self.first == len(values):
            return values
        return np.concatenate([values[: self.first], values[self.first :] @ self.means])


@dataclass(frozen=True)
class Squares:
    """How far the tables of the rows are from the noisy ones (cells, codes), `target`, whose squared errors are `error`."""

    rows: "csr_matrix"
    columns: "csr_matrix"
    weights: Array
    target: Array
    error: Array
    told: Array  # (cells, codes) of each parameter, by the chances where the fit starts
    levelled: Levelled = Levelled()

    @classmethod
    def of(
        cls,
        rows: "csr_matrix",
        columns: "csr_matrix",
        weights: Array,
        chances: Array,
        noisy: Array,
        deviations: Array,
        levelled: Levelled = Levelled(),
    ) -> "Squares":
        """For `noisy` tables with noise of these `deviations` (cells, 1); `chances` (rows, codes) are weighted.

        There are seldom as many drawn rows in a cell as records. So each noisy table is scaled to as many: a cell's number of records is
        the noisy one as far as that is clear, and that of the drawn rows where noise hides it. What noise added to the number is then
        taken away by the shares that the drawn rows have.
        """
        mass, drawn_there = (columns @ weights)[:, None], columns @ chances
        total = noisy.sum(1, keepdims=True)
        held = _numbers(mass, total, noisy.shape[1] * deviations**2)
        target = mass * (noisy + (held - total) * drawn_there / np.maximum(mass, LEAST_CHANCE)) / held
        varies = drawn_there - columns @ (chances**2 / np.maximum(weights, LEAST_CHANCE)[:, None])
        error = levelled(np.maximum((deviations * mass / held) ** 2 + SAMPLED * varies, LEAST_TOLD))
        return cls(rows, columns, weights, levelled(target), error, varies**2 / error, levelled)

    def sum_and_gradient(self, chances: Array) -> tuple[float, Array]:
        """Half the sum of squares for weighted `chances` (rows, codes), and its gradient with respect to the rows' logits."""
        lacking = self.levelled(self.columns @ chances) - self.target
        pull = self.rows @ (lacking / self.error)
        pull -= (pull * chances).sum(1, keepdims=True) / np.maximum(self.weights, LEAST_CHANCE)[:, None]
        pull *= chances
        return float((lacking**2 / self.error).sum()) / 2, pull


@dataclass(frozen=True)
class _Lines:
    """The cliques that have slopes, and which of all these are theirs; ranks `u` of all cells end to end, which slope each of them has,
    and ranks `v` of the codes. A clique of one column has one slope. One of two has a slope for each code of the first; where the second
    does not stand in order, each cell has its own, and so has each of a single `related` column without an order, such as a diagnosis that
    longer stays go with."""

    parts: dict[Clique, slice]
    count: int
    place: Whole
    u: Array
    v: Array

    @classmethod
    def of(
        cls,
        slopes: Slopes | None,
        name: str,
        cliques: Sequence[Clique],
        sizes: Mapping[str, int],
        mass: Array,
        margin: Array,
        related: Collection[Clique] = (),
    ) -> "_Lines":
        v = None if slopes is None else slopes.ranks(name, margin)
        place, u, parts, count = np.zeros(len(mass), np.int64), np.zeros(len(mass)), dict[Clique, slice](), 0
        if slopes is None or v is None:
            return cls(parts, count, place, u, np.zeros(len(margin)))
        end = 0
        for clique in cliques:
            shape = [math.prod(sizes[each] for each in clique[:-1]), sizes[clique[-1]]]
            first, end = end, end + math.prod(shape)
            if len(clique) > (2 if name in slopes.by_two else 1):
                continue
            ranks = [
                each for held in mass[first:end].reshape(shape) if (each := slopes.ranks(clique[-1], held)) is not None
            ]
            if ranks:
                u[first:end], made = np.concatenate(ranks), np.repeat(np.arange(shape[0]), shape[1])
            elif len(clique) == 2 or clique in related:
                u[first:end], made = 1.0, np.arange(end - first)
            else:
                continue
            place[first:end], parts[clique] = count + made, slice(count, count + int(made[-1]) + 1)
            count += int(made[-1]) + 1
        return cls(parts, count, place, u, v)

    def changes(self, slope: Array) -> Array:
        """(cells, codes): what the slopes change."""
        if not len(slope):
            return np.zeros((len(self.u), len(self.v)))
        return np.outer(self.u * slope[self.place], self.v)

    def sums(self, values: Array, power: int = 1) -> Array:
        """(slopes,) sums of values (cells,) times ranks to this power."""
        found = np.bincount(self.place, weights=self.u**power * values, minlength=self.count)
        return np.asarray(found[: self.count], np.float64)


def indicators(cells: Mapping[str, Whole], cliques: Sequence[Clique], sizes: Mapping[str, int]) -> "csr_matrix":
    """(rows, cells of all cliques): 1 where a row lies in a cell, and its share where it lies in several."""
    from scipy.sparse import csr_matrix

    starts = np.cumsum([0, *(math.prod(sizes[name] for name in clique) for clique in cliques)])
    found, shares = [], []
    for clique, first in zip(cliques, starts[:-1], strict=True):
        each = cell(cells, clique, sizes)
        each = each[:, None] if each.ndim == 1 else each
        found.append(np.where(each >= 0, each + first, -1))
        shares.append(causes.shares(each))
    places, parts = np.concatenate(found, 1), np.concatenate(shares, 1)
    there = places >= 0
    ends = np.cumsum([0, *there.sum(1)])
    return csr_matrix((parts[there], places[there], ends), shape=(len(places), int(starts[-1])))
