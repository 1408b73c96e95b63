"""Oddities in cells that no rule of a schema refuses: other spellings of a category, columns of one value, and a last row that is a
total.

For the steward's eyes: findings give places, and no cell. Nothing is changed, and nothing here reaches a fit.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.schema import cells
from synthdp.schema.guesses import repeats_a_word

MOST = 200  # different values of a column whose spellings are compared
WORD = 3  # letters of a word that its first letter may stand for
# What spreadsheets and their pivot tables write in a row of totals, language by language.
TOTALS = frozenset(
    {
        "sum", "total", "totals", "grand total",
        "summe", "gesamt", "gesamtsumme", "insgesamt", "endsumme", "gesamtergebnis",
        "somme", "total g\u00e9n\u00e9ral", "totale", "totale complessivo", "suma", "total general", "total geral",
        "totaal", "eindtotaal", "summa", "totalt", "i alt", "yhteens\u00e4",
        "razem", "og\u00f3\u0142em", "\u0142\u0105cznie", "suma ko\u0144cowa", "celkem", "celkov\u00fd sou\u010det", "spolu",
        "\u00f6sszesen", "ukupno",
    }
)  # fmt: skip
RENAMED = "some values differ from others only in capitals, leading zeros, a final .0, spaces or signs, and may name the same patient"
RESPELLED = "some values seem to be other spellings of the same category: other capitals or spaces, or the first letter in place of a word"
TOTAL = "seems to be a total: one of its cells is a word such as Total or Summe, which its column has nowhere else"
ENDS_IN_TOTAL = f"the last row {TOTAL}; take it out and draft again, or it counts as a record"


SAME = (
    "the same value in every record: nothing can be learned from it; leave it out (kind: ignore) and, if everyone may know the value, "
    "add it to the synthetic records"
)


WORD_AMONG_NAMES = (
    "one text is in many cells, and most others differ from row to row; if that text means a missing value, list it under reading, as "
    "missing of the column"
)


COPIED, LEAVE_OUT = "the same as column {} in every row", "leave one of them out (kind: ignore)"


def copies(frame: pd.DataFrame) -> dict[Any, Any]:
    """Columns of more than two values whose cells are those of an earlier column, and that one. Two answers may agree by chance."""
    first, found = dict[tuple[str | None, ...], list[Any]](), dict[Any, Any]()
    for name in frame.columns:
        alike = first.setdefault(tuple(cells.texts(frame[name].head(MOST))), [])
        same = next((other for other in alike if frame[name].equals(frame[other])), None)
        if same is None:
            alike.append(name)
        elif len({text for text in cells.texts(frame[name].drop_duplicates().head(4)) if text}) > 2:
            found[name] = same
    return found


def respelled(series: "pd.Series[Any]") -> NDArray[np.int64]:
    """Places of cells whose category has a more frequent spelling; none for columns with more than `MOST` different values."""
    texts = cells.texts(series)
    counts = Counter(text for text in texts if text)
    forms: dict[str, list[str]] = {}
    for text in counts if len(counts) <= MOST else ():
        forms.setdefault(_plain(text), []).append(text)
    usual = {form: max(held, key=lambda text: counts[text]) for form, held in forms.items()}
    odd = {text for form, held in forms.items() for text in held if text != usual[form]}
    shares = {form: sum(counts[text] for text in held) for form, held in forms.items()}
    odd |= {text for letter in _letters(shares) for text in forms[letter]}
    return np.array([place for place, text in enumerate(texts) if text in odd], np.int64)


def renamed(series: "pd.Series[Any]") -> NDArray[np.int64]:
    """Places of names, such as patient numbers, that seem to be other spellings of a name that more cells have (or as many, and an
    earlier one): `p00127` beside `P-127`, `943 476` beside `943476`."""
    texts = cells.texts(series)
    counts = Counter(text for text in texts if text)
    runs = {text: _runs(text) for text in counts}
    whole = set(runs.values())
    forms: dict[tuple[str, ...], list[str]] = {}
    for text, held in runs.items():
        joined = (re.sub("^0+(?=.)", "", "".join(held)),)
        forms.setdefault(joined if joined in whole and "".join(held).isdecimal() else held, []).append(text)
    odd = {
        text for each in forms.values() if len(each) > 1 for text in each if text != max(each, key=lambda t: counts[t])
    }
    return np.array([place for place, text in enumerate(texts) if text in odd], np.int64)


def _runs(text: str) -> tuple[str, ...]:
    """The letters and the digits of a name, apart, without leading zeros of the first digits; a name that has neither, whole."""
    held = re.findall(r"[^\W\d_]+|[0-9]+", re.sub(r"(?<=[0-9])\.0+$", "", text.casefold()))
    first = next((place for place, run in enumerate(held) if run.isdecimal()), None)
    if first is not None:
        held[first] = held[first].lstrip("0") or "0"
    return tuple(held) or (text,)


def recased(series: "pd.Series[Any]", categories: Any) -> bool:
    """Whether some cells are one of the categories but for capitals or the space within."""
    names = {str(each) for each in categories}
    forms = {_plain(each) for each in names}
    return any(text and text.strip() not in names and _plain(text) in forms for text in set(cells.texts(series)))


def _letters(shares: Mapping[str, int]) -> Iterator[str]:
    """Letters that seem to stand for the one word that begins with them: those rarer than the word, or all of several letters if at
    least half of the longer values have theirs. Of `K` and `Krea` in a list of tests, each may be a code."""
    longer = [form for form in shares if len(form) > 1]
    begun = {form: [each for each in longer if each[0] == form] for form in shares if len(form) == 1}
    regular = len(begun) > 1 and 2 * len(begun) >= len(longer) and all(len(each) == 1 for each in begun.values())
    for letter, held in begun.items():
        words = [each for each in held if len(each) >= WORD and each.isalpha()]
        if len(words) == 1 and (regular or shares[letter] < shares[words[0]]):
            yield letter


def ends_in_total(frame: pd.DataFrame) -> bool:
    """Whether the last row seems to be a total of those above it."""
    if len(frame) < 2:
        return False
    for name in frame.columns:
        (text,) = cells.texts(frame[name].iloc[-1:])
        if text and says_total(text):
            return sum(each == text for each in cells.texts(frame[name])) == 1
    return False


def told(frame: pd.DataFrame) -> Iterator[str]:
    """The findings about a table to draft, in words. A column with a value of its own in most rows has no categories."""
    full = [name for name in frame.columns if len(frame) > 1 and frame[name].notna().all()]
    same = [repr(str(name)) for name in full if frame[name].eq(frame[name].iloc[0]).all()]
    if same:
        yield f"column{'s' * (len(same) > 1)} {', '.join(same)}: {SAME}"
    for name in frame.columns:
        if frame[name].dtype.kind in "OUT" and repeats_a_word(frame[name]):
            yield f"column {str(name)!r}: {WORD_AMONG_NAMES}"
    for name, other in copies(frame).items():
        yield f"column {str(name)!r}: {COPIED.format(repr(str(other)))}; {LEAVE_OUT}"
    found = [
        repr(str(name))
        for name in frame.columns
        if frame[name].dtype.kind in "OUT" and frame[name].nunique() <= len(frame) / 2 and len(respelled(frame[name]))
    ]
    if found:
        where = f"column{'s' * (len(found) > 1)} {', '.join(found)}"
        yield f"{where}: {RESPELLED}; write them alike, or each spelling counts as a category of its own"
    if ends_in_total(frame):
        yield ENDS_IN_TOTAL


def says_total(text: str) -> bool:
    """Whether a cell says that its row is a total."""
    return _plain(text).rstrip(" :") in TOTALS


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
