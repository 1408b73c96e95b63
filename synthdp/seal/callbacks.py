"""Functions that a generator hands in (vectors, groups, losses): checked on made-up rows first, and guarded inside the seal.

Sensitivity rests on a callback answering for each record alone. That cannot be read off a function. So before a question with a new
callback is charged, the callback is tried on made-up rows, in several orders, numbers and companies. If the answer for a row
depends on its company, the callback is refused by name (law 38). This catches mistakes and proves nothing: that a callback is pure
is taken on trust, and PRIVACY.md says so.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.seal.records import is_open

if TYPE_CHECKING:
    from synthdp.schema.codec import Codec

Codes = NDArray[Any]
ByRow = Callable[[Codes], Any]  # codes (rows, columns) -> an answer for each row, (rows, ...)

ROWS = 12
AS_THEY_ARE = ("builtins", "numpy", "torch")  # answers; what else there is becomes an array under guard
CLOSE = 1e-9  # relative: a float64 product rounds differently in another company, by some 1e-15 of its size


class CallbackError(BadInput, RuntimeError):
    """A callback failed while records were open. The text of its exception is dropped, because it may contain a record."""


class Guarded:
    """A function whose exceptions, while records are open, become a `CallbackError`, without their text and without themselves. A question
    of the house has errors of its own that are `passed`, and answers of its own types."""

    def __init__(self, function: Callable[..., Any], *passed: type[Exception]) -> None:
        self.__wrapped__, self._passed = function, passed

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns."""
        try:
            found = self.__wrapped__(*arguments)
            return found if self._passed or _is_plain(found) else np.asarray(found)
        except BaseException as error:
            if not is_open() or isinstance(error, self._passed):
                raise  # on made-up rows, or in a generator's own hands
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            kind = type(error).__name__ if type(error).__module__ == "builtins" else "an exception"
        raise CallbackError(
            f"{named(self)} raised {kind} while sealed records were open; its text is not shown, because it may contain a record. "
            "Run it on made-up rows to see why"
        )


def _is_plain(found: Any) -> bool:
    kinds = (kind for kind in type(found).__mro__ if kind is not object)
    return any(kind.__module__.partition(".")[0] in AS_THEY_ARE for kind in kinds)


def check(name: str, function: Callable[..., Any], answer: ByRow, codec: "Codec") -> None:
    """Refuse a callback whose `answer` for a made-up row depends on the other rows, on their order or on their number."""
    rows, places, companies, found = made_up(codec), np.arange(ROWS), list(_companies()), []
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            together = np.asarray(answer(rows))
            for places in companies:
                found.append(np.asarray(answer(rows[places])))
    except BadInput:
        raise
    except Exception as error:  # of a foreign function, on public rows: its text may be read
        said = (str(error).splitlines() or [""])[0]
        raise BadInput(
            f"{name} ({named(function)}) fails on {len(places)} made-up rows: {type(error).__name__}: {said}"
        ) from error
    if together.shape[:1] != (ROWS,):
        raise BadInput(f"{name} ({named(function)}) must return one answer per record, got shape {together.shape}")
    scale = CLOSE * float(np.abs(np.where(np.isfinite(together), together, 0)).max(initial=1e-300))
    alike = all(each.shape == (len(places), *together.shape[1:]) for places, each in zip(companies, found, strict=True))
    expected = together[np.concatenate(companies)]
    if not alike or not np.allclose(np.concatenate(found), expected, rtol=CLOSE, atol=scale, equal_nan=True):
        raise BadInput(
            f"{name} ({named(function)}) must treat each record on its own: on made-up rows its answer for a row depends on "
            "the other rows of the batch. Use no statistics of the batch, no position in it and no randomness that does not "
            "come from the record itself; compute in float64, or row by row"
        )


def made_up(codec: "Codec") -> Codes:
    """Rows that are nobody's, (ROWS, columns): codes from all over every column's domain, the first and the last among them."""
    rows: Codes = np.random.default_rng(0).integers(0, codec.sizes, (ROWS, len(codec.sizes))).astype(codec.dtype)
    rows[:2] = np.stack([np.zeros(len(codec.sizes)), np.subtract(codec.sizes, 1)])
    return rows


def _companies() -> Iterator[NDArray[np.int64]]:
    """Which of the made-up rows are asked together: each alone, all in another order, a few, and many more than there are."""
    every = np.arange(ROWS)
    yield every[::-1]
    yield every[3:8]
    yield np.tile(every, 9)[:100]
    yield every[:0]
    yield from every[:, None]


def named(function: Callable[..., Any]) -> str:
    """What to call a function in a message."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__wrapped__", function)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', None) or type(function).__module__}.{name}"


def source(function: Callable[..., Any]) -> Any:
    """What two callbacks share that were made of the same lines: a loop makes a new closure in every step."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__wrapped__", function)
    return getattr(getattr(function, "__func__", function), "__code__", type(function))
