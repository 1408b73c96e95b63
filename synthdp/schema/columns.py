"""The column kinds of a schema. Each is a frozen value that refuses contradictions when it is made."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from synthdp.errors import BadInput, about

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from synthdp.schema.trees import Tree

LEARN: Literal["learn"] = "learn"
OTHER = "other"  # the category of all values that were not learned, unless `other` is declared
TODO = "TODO"  # what a draft leaves to whoever reviews it
Learn = Literal["learn"]
Resolution = Literal["day", "hour", "minute", "second", "microsecond"]
Resize = Literal["none", "fit"]
MICROSECONDS: dict[str, int] = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "microsecond": 1,
}
EXACT = 2**53  # the codec counts grid points in float64; beyond this, neighbouring integers are one number
WIDEST = 10**300
MAX_BINS = 10_000
MAX_PIXELS = 1 << 20
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, kw_only=True)
class Named:
    """What every column has: a name, and where its facts come from.

    `review`: somebody guessed what the column is, as a draft does, and nobody has confirmed it: such a schema is not fitted.
    `observed`: facts of the column were read off the records and taken as they are. It may be fitted; its release says that
    these facts were not charged, and that it is not to be shared.
    """

    name: str
    review: bool = False
    observed: bool = False

    def __post_init__(self) -> None:
        with about(f"column {self.name!r}"):
            self._check()

    def _check(self) -> None:
        """Raise `BadInput` where what is declared contradicts itself; the message needs no name of the column."""


@dataclass(frozen=True, kw_only=True)
class Categorical(Named):
    """Unordered categories. `other` is the category that unknown values map to; it is one of `categories`.

    Categories are text; where all were declared as whole numbers they are so in what is sampled (`numbers`).

    `tree`: what lies above the codes that cells hold. Those that are declared stand in `tree.codes`, and `categories` is `learn` until
    a fit has bought which nodes of the tree it keeps; categories given beside a tree without codes move there.
    """

    kind: ClassVar[Literal["categorical"]] = "categorical"
    categories: tuple[str, ...] | Learn
    missing: bool = False
    other: str | None = None
    numbers: bool = False
    tree: "Tree | None" = None

    def _check(self) -> None:
        _freeze(self)
        _as_text(self)
        if self.tree is not None:
            _hang(self, self.tree)
        if not isinstance(self.other, str | None):
            raise BadInput("other must name a category as text, such as others")
        if self.categories != LEARN:
            _check_categories(self.categories)
            if self.other is not None and self.other not in self.categories:
                raise BadInput(f"other must be one of its categories; add {self.other!r} to them")


@dataclass(frozen=True, kw_only=True)
class Ordinal(Named):
    """Categories in a meaningful order, lowest first, text or whole numbers as those of `Categorical`; declared, never learned."""

    kind: ClassVar[Literal["ordinal"]] = "ordinal"
    categories: tuple[str, ...]
    missing: bool = False
    numbers: bool = False

    def _check(self) -> None:
        _freeze(self)
        _as_text(self)
        if isinstance(self.categories, str):  # type: ignore[unreachable]
            raise BadInput("ordinal categories cannot be learned, because only a declaration gives their order")
        _check_categories(self.categories)


@dataclass(frozen=True, kw_only=True)
class Boolean(Named):
    """True or false. Cells may read true, false, yes, no, t, f, y, n, 1 or 0, in any case."""

    kind: ClassVar[Literal["boolean"]] = "boolean"
    missing: bool = False


@dataclass(frozen=True, kw_only=True)
class Integer(Named):
    """Whole numbers within `bounds` (both ends included).

    `bins`: None (32 of equal width, or one per value where there are fewer), a count of equal-width bins, edges
    (as in numpy.histogram: each bin holds its lower edge, the last one both), or `learn` (quantiles bought).
    `atoms`: single values with a bin of their own. `step`: the column holds only multiples of it, as a score of 0, 5, 10 does.
    """

    kind: ClassVar[Literal["integer"]] = "integer"
    bounds: tuple[int, int] | Learn
    bins: int | tuple[float, ...] | Learn | None = None
    atoms: tuple[int, ...] = ()
    missing: bool = False
    step: int = 1

    def _check(self) -> None:
        _freeze(self)
        _check_numbers(self.bounds, self.bins, self.atoms)
        whole = (*(() if isinstance(self.bounds, str) else self.bounds), *self.atoms)
        if any(value != int(value) or abs(value) > EXACT for value in whole):
            raise BadInput("bounds and atoms of an integer are whole numbers of at most 2^53")
        for key in ("bounds", "atoms"):
            value = getattr(self, key)
            if value != LEARN:
                object.__setattr__(self, key, tuple(int(number) for number in value))
        _check_step(self.bounds, self.atoms, self.step)


@dataclass(frozen=True, kw_only=True)
class Continuous(Named):
    """Real numbers within `bounds` (both ends included); `decimals` places, or any number where None.

    `bins` and `atoms` as for `Integer`.
    """

    kind: ClassVar[Literal["continuous"]] = "continuous"
    bounds: tuple[float, float] | Learn
    bins: int | tuple[float, ...] | Learn | None = None
    atoms: tuple[float, ...] = ()
    missing: bool = False
    decimals: int | None = None

    def _check(self) -> None:
        _freeze(self)
        _check_numbers(self.bounds, self.bins, self.atoms)
        if self.decimals is not None:
            _check_decimals(self.bounds, self.atoms, self.decimals)


@dataclass(frozen=True, kw_only=True)
class Datetime(Named):
    """Instants within `bounds` (ISO 8601, both ends included; UTC where a zone is given), on a grid of `resolution`.

    `bins` as for `Integer`, with edges as ISO 8601 text.
    """

    kind: ClassVar[Literal["datetime"]] = "datetime"
    bounds: tuple[str, str] | Learn
    bins: int | tuple[str, ...] | Learn | None = None
    missing: bool = False
    resolution: Resolution = "day"

    def _check(self) -> None:
        _freeze(self)
        if self.resolution not in get_args(Resolution):
            raise BadInput(f"resolution must be one of {', '.join(get_args(Resolution))}")
        ends = self.bounds if isinstance(self.bounds, str) else tuple(self._instant(end) for end in self.bounds)
        edges = tuple(self._instant(edge) for edge in self.bins) if isinstance(self.bins, tuple) else self.bins
        _check_numbers(ends, edges, ())
        if not isinstance(ends, str):
            step = MICROSECONDS[self.resolution]
            if -(-ends[0] // step) > ends[1] // step:
                raise BadInput(f"bounds contain no whole {self.resolution}; widen them")

    def _instant(self, text: Any) -> int:
        try:
            found = microseconds(text)
            iso(found)
            return found
        except (ValueError, OverflowError):
            example = "such as 2020-01-31 or 2020-01-31T08:00:00"
            raise BadInput(f"bounds and bins of a datetime are ISO 8601 text {example}") from None


@dataclass(frozen=True, kw_only=True)
class Image(Named):
    """Pictures of `height` x `width` pixels, uint8: arrays (height, width), or (height, width, channels) where there are
    several channels.

    `window` = (low, high): raw intensities are mapped linearly from it to 0 .. 255 when files are read, and cut off at both
    ends; without it they must be 8 bits already. `resize`: files of other sizes are refused (`none`), averaged or interpolated to
    the declared size (`fit`). Both work on one picture at a time and are public.
    """

    kind: ClassVar[Literal["image"]] = "image"
    height: int
    width: int
    channels: int = 1
    window: tuple[float, float] | None = None
    resize: Resize = "none"

    def _check(self) -> None:
        for key in ("height", "width", "channels"):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise BadInput(f"{key} must be a whole number of at least 1, got {value!r}")
        if self.pixels > MAX_PIXELS:
            raise BadInput(f"a picture may have at most {MAX_PIXELS:,} values, got {self.pixels:,}")
        if self.resize not in get_args(Resize):
            raise BadInput(f"resize must be one of {', '.join(get_args(Resize))}")
        if self.window is not None:
            object.__setattr__(self, "window", tuple(self.window))
            low, high = _pair(self.window, "window")
            if low == high:
                raise BadInput("the ends of window must differ")

    @property
    def pixels(self) -> int:
        """Values of one picture: height x width x channels."""
        return self.height * self.width * self.channels

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one picture in a frame: (height, width), or (height, width, channels)."""
        return (self.height, self.width) if self.channels == 1 else (self.height, self.width, self.channels)


@dataclass(frozen=True, kw_only=True)
class Identifier(Named):
    """Names a record or a person: dropped on the way in, made anew on the way out."""

    kind: ClassVar[Literal["identifier"]] = "identifier"


@dataclass(frozen=True, kw_only=True)
class Ignored(Named):
    """Left out: not checked, not learned, and in no synthetic table. A table may have it or not."""

    kind: ClassVar[Literal["ignore"]] = "ignore"


Column = Categorical | Ordinal | Boolean | Integer | Continuous | Datetime | Image | Identifier
Numeric = Integer | Continuous | Datetime
KINDS: dict[str, type[Column | Ignored]] = {kind.kind: kind for kind in (*get_args(Column), Ignored)}


def microseconds(text: Any) -> int:
    """Microseconds from 1970-01-01 (UTC) to an ISO 8601 date or time; `ValueError` for anything else."""
    if isinstance(text, date) and not isinstance(text, datetime):
        text = text.isoformat()
    instant = text if isinstance(text, datetime) else datetime.fromisoformat(_require_text(text))
    since = instant.replace(tzinfo=None) - _EPOCH - (instant.utcoffset() or timedelta())  # may leave the calendar
    return since // timedelta(microseconds=1)


def on_grid(column: "Column", values: "NDArray[Any]") -> "NDArray[Any]":
    """Instants in microseconds, brought down to their column's resolution: a model sees nothing finer. Values of other columns stay."""
    step = MICROSECONDS[column.resolution] if isinstance(column, Datetime) else 1
    return values // step * step if step > 1 else values


def iso(instant: int) -> str:
    """The ISO 8601 text of that many microseconds since 1970-01-01; a date alone at midnight."""
    moment = _EPOCH + timedelta(microseconds=instant)
    return moment.date().isoformat() if moment.time() == datetime.min.time() else moment.isoformat()


def _freeze(column: Any) -> None:
    """Lists given from Python become tuples, so that equal schemas are equal and can be hashed."""
    for key in ("categories", "bounds", "bins", "atoms"):
        value = getattr(column, key, None)
        if isinstance(value, list):
            object.__setattr__(column, key, tuple(value))


def _hang(column: Any, tree: "Tree") -> None:
    """The codes that were declared beside a tree become the tree's; which nodes are kept is to be learned."""
    object.__setattr__(column, "numbers", False)
    if tree.codes is not None:
        return
    if column.categories != LEARN:
        _check_categories(column.categories)
    hung = tree.of(column.categories, column.other)
    if column.other in hung.nodes:
        raise BadInput(
            f"other: {column.other!r} is also a coarser code of its tree, and no record could tell them apart; "
            "give it a text that no code begins with"
        )
    object.__setattr__(column, "tree", hung)
    object.__setattr__(column, "categories", LEARN)


def spoken(column: Any) -> tuple[str, ...]:
    """The texts that synthetic cells of a label column may hold: its categories, or the codes below them (`Tree.leaves`)."""
    if isinstance(column, Categorical) and column.tree is not None and column.tree.leaves:
        return tuple(code for codes in column.tree.below(column.categories) for code in codes)
    return tuple(column.categories)


def has_declared_tree(column: Column) -> bool:
    """Whether a column's codes are declared under a tree: a fit learns which of them it keeps, and none of the codes."""
    return isinstance(column, Categorical) and column.tree is not None and column.tree.declared


def in_numbers(column: Any) -> bool:
    """Whether a frame holds the column's categories as whole numbers."""
    return isinstance(column, Categorical | Ordinal) and column.numbers


def _as_text(column: Any) -> None:
    """Whole numbers among the categories become text; `numbers` says whether all of them are, and were declared so."""
    given = column.categories
    if isinstance(given, tuple):
        texts = tuple(str(int(value)) if _is_int(value) else value for value in given)
        whole = column.numbers or all(_is_int(value) for value in given)
        object.__setattr__(column, "categories", texts)
        object.__setattr__(
            column, "numbers", whole and all(isinstance(text, str) and _is_whole(text) for text in texts)
        )
    if _is_int(getattr(column, "other", None)):
        object.__setattr__(column, "other", str(int(column.other)))


def _is_whole(text: str) -> bool:
    return re.fullmatch("0|-?[1-9][0-9]{0,15}", text) is not None


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not text")
    return value


def _check_categories(categories: Sequence[str]) -> None:
    if isinstance(categories, str) or not categories:
        raise BadInput("categories must be a list of one or more; write learn to buy them")
    if not all(isinstance(category, str) for category in categories):
        raise BadInput("categories must be text; put quotes around true, false, null and decimals")
    repeated = sorted(category for category, times in Counter(categories).items() if times > 1)
    if repeated:
        raise BadInput(f"categories listed twice: {', '.join(map(repr, repeated))}; keep one of each")


FAR = 1e307  # beyond it bounds cannot be learned


def _check_numbers(bounds: Any, bins: Any, atoms: Iterable[float]) -> None:
    """Refuse bounds, bins and atoms that contradict each other. All are numbers here (datetimes: microseconds)."""
    if bounds == LEARN:
        if isinstance(bins, tuple):
            raise BadInput("bins has edges but bounds is learn; declare the bounds too")
        low, high = -FAR, FAR
    else:
        low, high = _pair(bounds)
    _check_bins(low, high, bins)
    given = tuple(atoms)
    if not all(_is_number(atom) and math.isfinite(atom) for atom in given):
        raise BadInput("atoms must be a list of numbers")
    if len(set(given)) < len(given):
        raise BadInput("atoms must be distinct")
    if any(not low <= atom <= high for atom in given):
        within = "between -1e307 and 1e307" if bounds == LEARN else "within bounds"
        raise BadInput(
            f"atoms must lie {within}; list a code for missing values, such as 9999, under missing in reading"
        )


def _check_bins(low: float, high: float, bins: Any) -> None:
    if bins is None or bins == LEARN:
        return
    if isinstance(bins, tuple):
        if not bins or not all(_is_number(edge) and math.isfinite(edge) for edge in bins):
            raise BadInput("bins must be a count, a list of edges (numbers), or learn")
        if any(a >= b for a, b in pairwise(bins)) or bins[0] < low or bins[-1] > high:
            raise BadInput("edges in bins must rise strictly and lie within bounds")
        if len(bins) > MAX_BINS:
            raise BadInput(f"at most {MAX_BINS} edges, got {len(bins)}")
    elif not _is_number(bins) or not math.isfinite(bins) or bins != int(bins) or not 1 <= bins <= MAX_BINS:
        raise BadInput(f"bins must be a count of 1 to {MAX_BINS}, a list of edges, or learn")


def _pair(bounds: Any, key: str = "bounds") -> tuple[float, float]:
    rule = f"{key} must be two finite numbers [lower, upper]"
    if isinstance(bounds, str) or len(bounds) != 2 or not all(_is_number(end) for end in bounds):
        raise BadInput(f"{rule}; write learn to buy them" if key == "bounds" else rule)
    low, high = bounds
    if not math.isfinite(high - low):
        far = all(map(math.isfinite, (low, high)))
        raise BadInput(f"{rule}{', less than 1.8e308 apart' if far else ''}; choose the widest plausible values")
    if low > high:
        raise BadInput(f"{rule}: {low} is above {high}; swap them")
    return low, high


def _check_decimals(bounds: Any, atoms: Iterable[float], decimals: Any) -> None:
    if not isinstance(decimals, int) or isinstance(decimals, bool) or not 0 <= decimals <= 15:
        raise BadInput("decimals must be a whole number from 0 to 15, or null for any number")
    scale = 10.0**decimals
    if any(abs(atom * scale - round(atom * scale)) > 1e-6 for atom in atoms):
        raise BadInput(f"atoms must have at most {decimals} decimals, as declared")
    if bounds == LEARN:
        if any(abs(atom) * scale > EXACT / 4 for atom in atoms):
            raise BadInput(f"atoms are too large for {decimals} decimals; declare fewer decimals")
        return
    low, high = bounds
    if max(abs(low), abs(high)) * scale > EXACT:
        raise BadInput(f"bounds are too wide for {decimals} decimals; declare fewer")
    if math.ceil(round(low * scale, 6)) > math.floor(round(high * scale, 6)):
        raise BadInput(f"bounds contain no number with {decimals} decimals; widen them")


def _check_step(bounds: Any, atoms: Iterable[int], step: Any) -> None:
    if not _is_int(step) or not 1 <= step <= EXACT:
        raise BadInput("step must be a whole number of at least 1, such as 5 for a score of 0, 5, 10")
    if any(atom % step for atom in atoms):
        raise BadInput(f"atoms must be multiples of {step}, the declared step")
    if bounds != LEARN and -(-bounds[0] // step) > bounds[1] // step:
        raise BadInput(f"bounds contain no multiple of {step}, the declared step; widen them")


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """A whole number beyond what a float holds is none: it can be compared with no bound."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and (type(value) is float or abs(value) < WIDEST)
    )
