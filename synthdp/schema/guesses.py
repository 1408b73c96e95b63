"""What kind a column seems to be, guessed by looking at its cells: for a draft of a schema that somebody reviews."""

import math
import re
from collections import Counter
from datetime import timedelta
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.schema import cells
from synthdp.schema.columns import LEARN, iso, microseconds

Series: TypeAlias = "pd.Series[Any]"


WHOSE = {
    "bsn",
    "cpr",
    "dni",
    "id",
    "identifier",
    "ipp",
    "mrn",
    "nhc",
    "nip",
    "nss",
    "participant",
    "patient",
    "person",
    "pesel",
    "pid",
    "pseudonym",
    "ssn",
    "subject",
    "uid",
    "uuid",
}
THEIRS = re.compile("(pat|patient|pers|person|fall|case|subject)[a-z]*(nr|nummer|no|num|number|kennung|id)")
# Numbers that a state gives to people. A table of people whose key is such a number may be called anything.
NATIONAL = re.compile(
    "(personn(ummer|r)|pnr|cpr|cpr[ _-]?n(umme)?r|f[\u00f8o]dsels?n(umme)?r|henkil[\u00f6o]tunnus|hetu)", re.IGNORECASE
)
TREES = {  # the form of codes -> the beginnings that stand for chapters and groups
    r"[A-Z][0-9]{2}[A-Z]{2}[0-9]{2}": [1, 3, 4, 5],  # ATC
    r"[A-Z][0-9][0-9A-Z](?:\.?[0-9A-Z]{1,4})?": [1, 3],  # ICD-10
}
CODED = {
    "atc",
    "cod",
    "code",
    "codes",
    "codice",
    "codigo",
    "cpt",
    "diag",
    "drg",
    "dx",
    "hcpcs",
    "icd",
    "item",
    "itemid",
    "loinc",
    "ndc",
    "ops",
    "plz",
    "snomed",
    "zip",
}
CODED_STEMS = ("diagnos", "postal", "postcode", "postleit", "procedure", "prozedur", "zipcode")
ALIKE = 0.95  # of the distinct codes
DAY_AS_TEXT = re.compile(  # in another form than ISO 8601, which is read as it is
    r"([0-9]{1,2}([./-])[0-9]{1,2}\2([0-9]{4}|[0-9]{2})|[0-9]{4}([./])[0-9]{1,2}\4[0-9]{1,2}"
    r"|[0-9]{1,2}[ -]?[A-Za-z]{3}[ -]?([0-9]{4}|[0-9]{2}))(?P<time>[T :][0-9]{2}([:h][0-9]{2})*)?"
)
STEPS = (100, 50, 25, 20, 10, 5)  # of scores and of rounded numbers
ENOUGH = 20  # values that tell a step: by chance all of them lie on one with a probability of 5^-20 at most
NUMBER_AS_TEXT = re.compile(  # or a limit of detection, with signs between thousands, decimals and a unit
    r"([<>\u2264\u2265]=? ?)?[+-]?(0|[1-9][0-9]{0,2}([.,' \u2019\u00a0\u202f]?[0-9]{3})*)([.,][0-9]+)?"
    r"( ?[%\u2030\u20ac$\u00a3]| ([^\W\d_]|/){1,7})?"
)
WITH_UNIT = re.compile(r"[+-]?[0-9]+([.,][0-9]+)? ?(?P<unit>[^\W\d_][^0-9]{0,10})")
UNITS, MEASURED = 3, 20  # at most so many units after at least so many different texts of a column
PAIR = re.compile("[0-9]{1,3} ?/ ?[0-9]{1,3}")
CALENDAR = (microseconds("0001-01-01"), microseconds("9999-12-31T23:59:59"))
LONGEST = 1e15  # numbers beyond it are no longer told apart, and so long ones measure nothing: they name something
NAMES = 0.5  # of the records: texts of more different values name somebody, who may have several records
REPEATED = 0.05  # of the cells have the same text: it stands for something, as a missing value does
SENTENCE, NOTE = (4, 20), (3, 20)  # least words and characters of a text, on average
LEAST_DIGITS = 6  # of a number that names somebody
FEW = 6  # records a text, on average: below, notes count as prose
VISITS = 10  # records of a person, on average: above, numbers in one form are codes
HELD_BY_NO_KIND = (list, tuple, set, dict, bytes, np.ndarray, timedelta)
LISTED = 30  # categories are listed up to here


def guessed(series: Series) -> dict[str, Any]:
    held = series.dropna()
    column = _kind(series, held)
    if len(held) < len(series) and column["kind"] not in ("identifier", "ignore"):
        column["missing"] = True
    return column


def proposed(guess: dict[str, Any]) -> dict[str, Any]:
    """What a draft says of a column: what kind it is, and no value of a record."""
    kind = "categorical" if guess["kind"] == "ordinal" else guess["kind"]
    column: dict[str, Any] = {"kind": kind}
    if kind == "categorical":
        column["categories"] = LEARN
    elif kind in ("integer", "continuous", "datetime"):
        column["bounds"] = guess.get("day", LEARN)  # of times of day: all of it, which is no fact of a record
    kept = ("tree", "resolution", "height", "width", "channels", "resize")
    column |= {key: value for key, value in guess.items() if key in kept}
    if "window" in guess:
        column["window"] = None
    if kind not in ("identifier", "ignore", "image"):
        column["missing"] = True
    return {**column, "review": True}


def _kind(series: Series, held: Series) -> dict[str, Any]:
    texts = cells.texts(held)
    distinct = sorted({text for text in texts if text is not None})
    if distinct and all(text.lower() in cells.TRUTHS for text in distinct) and len(distinct) <= 2:
        return {"kind": "boolean"}
    if len(distinct) > 2 and names_somebody(series.name):
        return {"kind": "identifier"}
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype) and len(held):
        return _numeric(held, len(distinct))
    if not len(held):  # nothing to learn, and a category that noise alone makes would change the column's type
        return {"kind": "ignore"}
    if isinstance(series.dtype, pd.CategoricalDtype):
        ordered = "ordinal" if series.cat.ordered else "categorical"
        listed = [cells.text(category) for category in series.cat.categories]
        return {"kind": ordered, "categories": listed} if listed else {"kind": "categorical", "categories": LEARN}
    if any(isinstance(cell, HELD_BY_NO_KIND) for cell in held):
        return {"kind": "ignore"}
    read = cells.instants(held)
    if len(held) and not read.wrong.any():
        return _dated(read.cells)
    if are_times(held) or (len(distinct) > LISTED and _is_prose(distinct, len(held))):
        return {"kind": "ignore"}
    if len(distinct) > LISTED and not _tree(distinct):
        numbered = _are_numbered(distinct) and len(held) < VISITS * len(distinct) and not names_codes(series.name)
        if numbered or (len(distinct) > NAMES * len(held) and not repeats_a_word(held)):
            return {"kind": "identifier"}
    if not 0 < len(distinct) <= LISTED:
        return {"kind": "categorical", "categories": LEARN, **_tree(distinct)}
    return {"kind": "categorical", "categories": distinct}


def stands_for(series: Series) -> dict[str, Any]:
    """What the texts of a column stand for, as a guess: numbers, or dates or numbers that are written as in files of some country, with
    `coded` true, since a fit does not read these in a frame. Empty for other columns."""
    if not pd.api.types.is_string_dtype(series.dropna().dtype) and not are_times(series):
        return {}
    texts = [text.strip() for text in set(cells.texts(series.dropna())) if text is not None]
    if not texts or all(text.lower() in cells.TRUTHS for text in texts) or names_somebody(series.name):
        return {}
    if are_times(series):
        seconds = any(text.count(":") > 1 for text in texts)
        return {"kind": "integer", "day": [0, 86_399 if seconds else 1439], "coded": True}
    dates = [match for text in texts if (match := DAY_AS_TEXT.fullmatch(text))]
    if len(dates) >= ALIKE * len(texts):
        times = any(match["time"] for match in dates)
        return {"kind": "datetime", "bounds": LEARN, "resolution": "second" if times else "day", "coded": True}
    numbers = [text for text in texts if NUMBER_AS_TEXT.fullmatch(text)]
    if len(numbers) < ALIKE * len(texts) or len(texts) <= 2:
        return {}
    plain = all(cells.number(text) is not None for text in texts)
    if plain and all(text.lstrip("+-").isdecimal() for text in texts):  # codes or numbers: the cells do not tell
        return {}
    return {"kind": "continuous", "bounds": LEARN, "coded": not plain}


def _tree(codes: list[str]) -> dict[str, Any]:
    """The tree above codes that look like those of a list that everybody has, and come from several of its chapters."""
    for form, prefix in TREES.items():
        if len({code[:1] for code in codes}) > 1 and sum(
            re.fullmatch(form, code) is not None for code in codes
        ) >= ALIKE * len(codes):
            return {"tree": {"prefix": prefix}}
    return {}


def are_times(series: "Series | None") -> bool:
    """Whether all values of a column are times of day."""
    texts = [] if series is None or pd.api.types.is_numeric_dtype(series.dtype) else cells.texts(series.dropna())
    return bool(texts) and all(re.fullmatch(cells.TIME, text or "") is not None for text in texts)


def are_pairs(series: "Series | None") -> bool:
    """Whether nearly all of many different texts are two numbers, as blood pressures are: 120/80."""
    texts = _distinct(series)
    return len(texts) > LISTED and sum(PAIR.fullmatch(text) is not None for text in texts) >= ALIKE * len(texts)


def have_units(series: "Series | None") -> bool:
    """Whether nearly all of many different texts are a number with one of a few units after it: 1 day, 9 days."""
    texts = _distinct(series)
    units = Counter(match["unit"] for match in map(WITH_UNIT.fullmatch, texts) if match)
    return len(texts) >= MEASURED and sum(count for _, count in units.most_common(UNITS)) >= ALIKE * len(texts)


def _distinct(series: "Series | None") -> set[str]:
    """The different texts of a column of texts, without space around them."""
    if series is None or not pd.api.types.is_string_dtype(series.dropna().dtype):
        return set()
    return {text.strip() for text in cells.texts(series.dropna()) if text is not None}


def _is_prose(texts: list[str], records: int) -> bool:
    """Whether distinct texts read as sentences, not codes or names; below `FEW` records a text on average, short notes count too."""
    words, length = SENTENCE if records >= FEW * len(texts) else NOTE
    return sum(len(text.split()) for text in texts) >= words * len(texts) and sum(map(len, texts)) >= length * len(
        texts
    )


def _are_numbered(texts: list[str]) -> bool:
    """Whether all are a long number in one form, as patients have: IPP0011918."""
    forms = {re.sub("[0-9]", "#", text) for text in texts}
    return len(forms) == 1 and forms.pop().count("#") >= LEAST_DIGITS


def names_codes(name: Any) -> bool:
    """Whether a column's name suggests codes of a public list, such as diagnoses and postcodes."""
    words = _words(name)
    return not CODED.isdisjoint(words) or any(stem in word for word in words for stem in CODED_STEMS)


def repeats_a_word(series: Series) -> bool:
    """Whether one text without digits stands in many cells of a column whose other texts differ: it names nobody."""
    counts = Counter(text for text in cells.texts(series.dropna()) if text)
    text, most = counts.most_common(1)[0] if counts else ("", 0)
    many = len(counts) > NAMES * counts.total() and most >= max(2, REPEATED * counts.total())
    return many and not any(map(str.isdecimal, text))


def _words(name: Any) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name)).lower())


def names_somebody(name: Any) -> bool:
    """Whether a column is called as those are that say whose record it is: its values are no categories to list."""
    words = _words(name)
    if NATIONAL.fullmatch(str(name)):
        return True
    return bool(words) and (words[-1] in WHOSE or THEIRS.fullmatch("".join(words)) is not None)


def _numeric(held: Series, distinct: int) -> dict[str, Any]:
    values = cells.numbers(held).cells
    values = values[np.isfinite(values)]
    if not len(values) or np.abs(values).max() > LONGEST:
        names = (
            len(values)
            and distinct > LISTED
            and bool((values == np.rint(values)).all() and np.median(values) > LONGEST)
        )
        return {"kind": "identifier"} if names else {"kind": "continuous", "bounds": LEARN}
    if bool((values == np.rint(values)).all()):
        if distinct > LISTED and distinct == len(held) and values.min() > 0:
            return {"kind": "identifier"}
        low, high = outward(float(values.min())), 0.0 - outward(-float(values.max()))
        return {"kind": "integer", "bounds": [int(low), int(high)], **_atoms(values, int), **_step(values, distinct)}
    low, high = outward(float(values.min())), 0.0 - outward(-float(values.max()))
    found: dict[str, Any] = {"kind": "continuous", "bounds": [low, high], **_atoms(values, float)}
    near = 1e-9 * min(1.0, float(np.abs(values).max()))  # tiny numbers are not zeros
    decimals = next((d for d in range(1, 7) if np.allclose(values, np.round(values, d), rtol=0, atol=near)), None)
    return found if decimals is None else {**found, "decimals": decimals}


def _step(values: NDArray[Any], distinct: int) -> dict[str, int]:
    """The largest of the usual steps between which no value lies, where there are values enough to tell."""
    if distinct < 3 or len(values) < ENOUGH:
        return {}
    common = int(np.gcd.reduce(values.astype(np.int64)))
    return next(({"step": step} for step in STEPS if common % step == 0), {})


def _atoms(values: NDArray[Any], kind: type) -> dict[str, Any]:
    """Zero gets a bin of its own where a tenth of the records hold it and there are many other values."""
    many = len(np.unique(values)) > LISTED
    return {"atoms": [kind(0)]} if many and np.mean(values == 0) > 0.1 else {}


def outward(value: float) -> float:
    """The next lower number with one significant digit and a half (…, 5, 10, 15, 20, …): round, so less of a record."""
    if abs(value) < 1e-300:  # below, the step itself would be zero
        return -1e-300 if value < 0 else 0.0
    step = 10.0 ** math.floor(math.log10(abs(value))) / 2
    rounded = math.floor(value / step) * step
    return float(f"{rounded:.12g}") + 0.0  # never -0.0


def _dated(instants: NDArray[Any]) -> dict[str, Any]:
    day = 86_400_000_000
    whole = bool((instants % day == 0).all())
    # A table may hold instants beyond the years 1 to 9999, for which Python has no word.
    first, last = (iso(int(end))[:4] for end in np.clip([instants.min(), instants.max()], *CALENDAR))
    bounds = [f"{first}-01-01", f"{last}-12-31" if whole else f"{last}-12-31T23:59:59"]
    return {"kind": "datetime", "bounds": bounds, "resolution": "day" if whole else "second"}
