"""The error for input that cannot be used, and the warnings that users may want to silence by name."""

import contextlib
import difflib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence

# `scheme://user:password@host`, also where a path has made one slash of two; a password may hold an @ itself. DuckDB's URLs are paths.
IN_URL = re.compile(r"(?<![\w+.-])(?!duckdb:)([A-Za-z][\w+.-]*:/+[^\s:/@'\"]*):.{0,500}@")
IN_WORDS = re.compile(r"(?i)(password|passwd|pwd|secret)(\s*=\s*)('[^']*'|[^\s&;]+)")

ENDING = ("error",)  # what a warning filter does if it ends the program


class BadInput(ValueError):
    """A mistake in what the user gave, worded for them: what, where, and the remedy; never a cell's value, nor a password.

    The command line prints it as one line and exits with status 2.
    """

    def __init__(self, *words: object) -> None:
        super().__init__(*(without_passwords(word) if isinstance(word, str) else word for word in words))


@contextlib.contextmanager
def about(what: str) -> Iterator[None]:
    """Errors within the block say first what they are about, such as "column 'age'"."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{what}: {error}") from None


def without_passwords(text: str) -> str:
    """The text with `***` in place of every password of a URL or of a database's connection string."""
    return IN_WORDS.sub(r"\1\2***", IN_URL.sub(r"\1:***@", text))


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the one that was probably meant."""
    meant = closest(word, known)
    return "" if meant is None else f"; did you mean {meant!r}?"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant, also if only capitals differ or its table is missing or another one."""
    names = list(known)
    alike = [name for name in names if name.casefold() == word.casefold()]
    own = word.rpartition(".")[2]  # digits are the end of a code, such as E11.4, which lies in no table
    elsewhere = [name for name in names if name.rpartition(".")[2] == own and "." in name and not own.isdigit()]
    there = difflib.get_close_matches(word, elsewhere, n=1, cutoff=0.0)
    close = alike or there or difflib.get_close_matches(word, names, n=1)
    return close[0] if close else None


def check_keys(where: str, values: Iterable[object], known: Iterable[str], also: Sequence[str] = ()) -> None:
    """Raise `BadInput` for a key that is not known, with the nearest one that is. `also`: keys that are read elsewhere."""
    names = [*known]
    for key in values:
        if key not in names:
            raise BadInput(
                f"{where}: unknown key {key!r}{nearest(str(key), names)}; known keys: {', '.join([*names, *also])}"
            )


def listed(names: Sequence[str], most: int = 8, others: str = "more") -> str:
    """The first `most` of the names, and how many others there are."""
    left = len(names) - most
    rest = others.removesuffix("s") if left == 1 else others
    return ", ".join(names[:most]) + (f" and {left} {rest}" if left > 0 else "")


def closed(text: str) -> str:
    """A sentence with its full stop: names at its end, such as "n.a.", may have brought one."""
    return text if text.endswith(".") else f"{text}."


class NotEntered(UserWarning):
    """A fit of real records is entered in no account, so what it spends is not added to what other fits spend."""


class InFloat64(UserWarning):
    """This machine rounds a row by its place in a batch, so a fit computes its gradients in float64: as private, and slower."""


def outside() -> int:
    """The `stacklevel` of a warning that is to name the line of the user's program, however deep in synthdp its caller is."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "synthdp":
        level, frame = level + 1, frame.f_back
    return level


@contextlib.contextmanager
def warnings_shown() -> Iterator[None]:
    """Where warnings end a program (`python -W error`), show them instead: a library's warning must not end a fit that is charged."""
    with warnings.catch_warnings():
        warnings.filters = [("default" if each[0] in ENDING else each[0], *each[1:]) for each in warnings.filters]
        warnings.simplefilter("default", append=True)  # which also makes Python forget what the earlier filters decided
        yield
