"""What the texts of one column tell: numbers, dates, truth values or categories, how they are written, and what stays open.

Signs, suffixes, formats of dates and codes for missing values are looked for among public lists.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from synthdp.errors import BadInput
from synthdp.schema import cells, odd_cells
from synthdp.schema.columns import Boolean, Categorical, Column, Continuous, Datetime, Integer
from synthdp.schema.date_formats import DateFormat
from synthdp.schema.file_coding import POINTS, SPACE, THOUSANDS, TIMES_OF_DAY, Coding, Reading
from synthdp.tables import csv_lines, csvfile

TEXTS = (
    "NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "(null)", "<NA>", "#N/A", "#NV", "\\N", ".", "-", "--", "?", "k. A.", "k.A.",
    "n. b.", "n.b.", "n. v.", "n.v.", "n. d.", "n.d.", "o. A.", "o.A.", "n. a.", "n.a.",
    "nvt", "n.v.t.", "NVT", "n/d", "N/D", "s/d", "S/D", "brak danych", "nie dotyczy",
)  # fmt: skip
# Beside other cells, and in any capitals.
WORDS = frozenset(
    {
        "unknown", "missing", "unbekannt", "fehlt", "keine angabe", "inconnu", "nd", "nr", "non renseign\u00e9", "onbekend", "niet bekend",
        "b.d.", "bd", "b/d", "brak", "nieznane", "desconocido", "desconhecido", "sconosciuto", "ok\u00e4nd", "ukendt", "s/ inf.", "s/ inf",
        "s/inf", "s/inf.", "sem informa\u00e7\u00e3o", "sin informaci\u00f3n", "sin datos",
        "saknas", "uppgift saknas", "uns", "iu", "ok\u00e4nt", "ej k\u00e4nt", "ej k\u00e4nd", "ej utf\u00f6rt", "ej utf\u00f6rd",
        "ej angivet", "ukjent", "mangler", "uoppgitt", "ikke oppgitt", "ikke utf\u00f8rt", "uoplyst", "ikke oplyst", "ikke udf\u00f8rt",
        "puuttuu", "tuntematon", "ei tiedossa", "ei tietoa", "ei tehty",
    }
)  # fmt: skip
SHORT = 3  # letters of a word that may be one of somebody's codes, such as those of states
NUMBERS = re.compile(r"-(9{1,4}|8{1,4}|7{1,4})([.,]0*)?")  # codes where nothing else is negative
LONE = re.compile(r"(-1|9{2,6})([.,]0*)?")  # codes where all other values are far from them
MAY_BE_CODE = re.compile(f"{NUMBERS.pattern}|{LONE.pattern}")
FAR = 3  # times the largest other value
DOUBTFUL = 2  # times it: such a number may be a code
LEAST = 10  # -1 is a code if all other values are at least this
OFTEN = 5  # a code must occur in at least so many cells
KNOWN = frozenset(csvfile.ABSENT)  # they are missing values without being declared
TRUTHS = (
    ("no", "yes"), ("nein", "ja"), ("non", "oui"), ("no", "s\u00ed"), ("no", "si"), ("no", "s\u00ec"), ("n\u00e3o", "sim"), ("nee", "ja"),
    ("nej", "ja"), ("nie", "tak"), ("ne", "ano"), ("nem", "igen"), ("false", "true"), ("falsch", "wahr"), ("faux", "vrai"), ("f", "t"),
    ("f", "v"), ("n", "y"), ("n", "j"), ("n", "t"), ("n", "s"), ("n", "o"), ("0", "1"), ("-", "+"), ("negative", "positive"),
    ("negativ", "positiv"), ("neg", "pos"),
)  # fmt: skip
POINT, COMMA = (re.compile(rf"[+-]?([0-9]+{sign}?[0-9]*|{sign}[0-9]+)([eE][+-]?[0-9]+)?") for sign in (r"\.", ","))
A_CODE = re.compile("[+-]?0[0-9]|[+][0-9]{7}")  # leading zeros, and telephone numbers
THOUSAND = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")
GROUPED = re.compile(
    "[+-]?[0-9]{1,3}(([.][0-9]{3})+,[0-9]+|(,[0-9]{3})+[.][0-9]+|([.,][0-9]{3}){2,}|(['\u2019 \u00a0\u202f][0-9]{3})+([.,][0-9]+)?)"
)
# A result that a laboratory gives no number for.
LIMIT = re.compile(r"([<>]=?|[\u2264\u2265])[ ]?([0-9]+([.,][0-9]+)?)")
MOST_LIMITS = 20  # different ones in a column
REMEDY = (
    "; the internal file (out=) has such texts: list those that mean a missing value under reading, as missing of the column, and correct "
    "the others"
)
SUFFIXES = (
    "%", "\u2030", "\u20ac", "$", "\u00a3", "EUR", "CHF", "USD", "GBP", "PLN", "CZK", "HUF", "SEK", "NOK", "DKK", "kg", "g", "mg", "l",
    "ml", "cm", "mm", "m", "\u00b0C", "mmHg", "h", "min", "d", "s", "/min", "bpm", "kg/m\u00b2", "kPa", "lb", "lbs", "kcal", "Hz", "mm/h",
    "z\u0142", "K\u010d", "kr", "Ft", "\u00b5g", "ug", "\u00b5l", "cm\u00b2", "m\u00b2", "y", "yr", "yrs", "years", "Jahre", "ans",
    "a\u00f1os", "anos", "anni", "jaar", "\u00e5r", "lat", "let", "\u00e9v", "mo", "months", "Monate", "mois", "meses", "mesi", "maanden",
    "wk", "weeks", "Wochen", "semaines", "semanas", "days", "Tage", "jours", "d\u00edas", "dias", "giorni", "dagen", "dagar", "dage", "dni",
    "hrs", "hours", "Stunden", "heures", "horas", "ore", "uur", "timer", "timmar", "godz", "minutes", "Minuten", "minutos",
    "mmol/l", "mmol/L", "\u00b5mol/l", "\u00b5mol/L", "mg/dl", "mg/dL", "mg/l", "mg/L", "g/dl", "g/dL", "g/l", "g/L", "ng/ml", "ng/mL",
    "U/l", "U/L", "IU/l", "IU/L",
)  # fmt: skip
SUFFIX = re.compile(rf"([{SPACE}]?)({'|'.join(map(re.escape, sorted(SUFFIXES, key=len, reverse=True)))})$")
LIKE_A_DATE = re.compile(r"[0-9]{1,4}[./ -]?([0-9]{1,2}|[A-Za-z]{3})[./ -]?[0-9]{2,4}([T :].*)?")
YEAR_FIRST = ("yyyy-mm-dd", "yyyy/mm/dd", "yyyy.mm.dd")
DAY_FIRST = tuple(
    f"{d}{sign}{m}{sign}{y}" for y in ("yyyy", "yy") for d, m in (("dd", "mm"), ("d", "m")) for sign in "./-"
)
MONTH_FIRST = tuple(
    f"{m}{sign}{d}{sign}{y}" for y in ("yyyy", "yy") for d, m in (("dd", "mm"), ("d", "m")) for sign in "./-"
)
NAMED = tuple(f"{d}{sign}mmm{sign}{y}" for y in ("yyyy", "yy") for d in ("dd", "d") for sign in ("", "-", " "))
TIMES = ("", " HH:MM:SS", " HH:MM", "THH:MM:SS", "THH:MM", " HH", ":HH:MM:SS", " HHhMM")
# The stricter (dd) before the looser (d).
FORMATS = tuple(f"{day}{time}" for time in TIMES for day in (*YEAR_FIRST, *DAY_FIRST, *MONTH_FIRST, *NAMED))
MOST = 0.95  # of a column's values are numbers, or dates: then the others are mistakes, and not the kind of the column
FEW = 20  # values by which that can be told
HALF = 0.5  # of them are enough where the others are dates too, or a few words
FEW_WORDS = 3  # different ones
CENTURY = 2026  # where years of two digits may end, as an example


@dataclass(frozen=True)
class Values:
    """The distinct texts of a column, each with how often it is there and the record where it is first; and the number of blank cells."""

    held: tuple[tuple[str, int, int], ...]
    blank: int

    @property
    def texts(self) -> list[str]:
        return [text for text, _, _ in self.held]

    @property
    def counts(self) -> list[int]:
        return [count for _, count, _ in self.held]

    def but(self, codes: Collection[str]) -> "Values":
        """Without these texts."""
        return replace(self, held=tuple(each for each in self.held if each[0] not in codes))

    def without(self, suffix: str) -> "Values":
        """The texts, which all end so, without it."""
        sign = suffix.strip(SPACE)
        return replace(
            self,
            held=tuple((text.removesuffix(sign).rstrip(SPACE), count, first) for text, count, first in self.held),
        )

    def matching(self, fits: Any) -> float:
        """The share of the cells whose text fits."""
        total = sum(self.counts)
        return sum(count for text, count, _ in self.held if fits(text)) / total if total else 0.0


def values_of(array: pa.ChunkedArray, *, strip: bool) -> Values:
    """Of an array of texts; blank cells are counted apart."""
    if strip:
        array = pc.utf8_trim(array, characters=SPACE)
    encoded = array.combine_chunks().dictionary_encode()
    places = pc.drop_null(encoded.indices).to_numpy(zero_copy_only=False)
    texts = encoded.dictionary.to_pylist()
    counts = np.bincount(places, minlength=len(texts)).tolist()
    _, first = np.unique(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), return_index=True)
    firsts = first[-len(texts) :].tolist() if texts else []
    held = tuple(zip(texts, counts, firsts, strict=True))
    return Values(held, encoded.null_count + sum(count for text, count, _ in held if not text)).but(("",))


def decimal_sign(columns: list[Values]) -> str:
    """The sign before decimals of most columns of numbers: a comma where some need it, and more than need a point."""
    needs = Counter[str]()
    for values in columns:
        codes = (text for text in values.texts if text in TEXTS or NUMBERS.fullmatch(text))
        kept = values.but(tuple(codes))
        if not kept.texts:
            continue
        for sign, pattern in ((",", COMMA), (".", POINT)):
            if any(sign in text for text in kept.texts) and kept.matching(pattern.fullmatch) >= MOST:
                needs[sign] += 1
    return "," if needs[","] > needs["."] else "."


class ColumnFormat:
    """What one column's texts tell: its family (number, date, truth or text), its coding, and what is left open. `lines`: where its records
    stand, found in the file if not given; records that are not `in_lines` are told by their number alone."""

    def __init__(
        self,
        path: Path,
        reading: Reading,
        name: str,
        values: Values,
        *,
        typed: bool = False,
        lines: Any = None,
        in_lines: bool = True,
    ) -> None:
        self.lines, self.in_lines = lines, in_lines
        self.path, self.reading, self.name, self.values = path, reading, name, values
        self.open: dict[str, str] = {}
        self.mind = ""
        self.coding, self.column = Coding(), self._text()
        rest = values.but(TEXTS)
        signed = values.but(set(TEXTS) - {"-"})  # which is a truth value beside +
        codes = _codes(rest)
        words = tuple(text for text in rest.texts if text.casefold() in WORDS)
        if any(map(self._truths, (values, signed, rest))):
            pass
        elif words and len(words) < len(rest.texts) and not typed and self._is_number_or_date(rest.but(words)):
            self.codes += words
        elif (codes or words) and self._truths(rest.but((*codes, *words))):
            self.codes = (*codes, *words)
        elif typed and any(LIMIT.fullmatch(text) for text in rest.texts) and self._numbers(rest):
            pass
        elif typed:
            numbers = rest.texts and all(map(_is_number, rest.texts)) and len(codes) < len(rest.texts)
            self.codes = codes if numbers else _among_labels(rest, words, codes)
        elif rest.texts and not self._is_number_or_date(rest) and not self._beside_words(rest, words):
            self.codes = _among_labels(rest, words, codes)
        self._missing()

    def _is_number_or_date(self, values: Values) -> bool:
        return self._numbers(values) or self._times(values) or self._dates(values)

    def _beside_words(self, values: Values, words: tuple[str, ...]) -> bool:
        """Whether all but a few texts without digits, each in several cells, are numbers or dates: these texts, beside the `words` that are
        known, are for the steward to judge."""
        rest = values.but(words)
        odd = _repeated(rest)
        if not odd or not self._is_number_or_date(rest.but(odd)):
            return False
        self.codes += words
        if self.remedy != REMEDY:
            self.remedy = f"{self.remedy.removesuffix(REMEDY)}{REMEDY}"
        others = {*odd, *self.others}
        what = "a date" if isinstance(self.column, Datetime) else "a time" if self.coding.time else "a number"
        self._note(rest, lambda text: text not in others, what)
        return True

    def _text(self) -> Column:
        return Categorical(name=self.name, categories="learn", missing=True)

    def _truths(self, values: Values) -> bool:
        decimal = self.reading.decimal
        spelled: dict[str, list[tuple[int, str]]] = {}
        for text, count, _ in values.held:
            plain = text.replace(",", ".") if decimal == "," and re.fullmatch("[+-]?[0-9]+,0*", text) else text
            spelled.setdefault(cells.truth(plain), []).append((-count, text))
        if not 1 <= len(spelled) <= 2:
            return False
        pair = next((pair for pair in TRUTHS if set(spelled) <= set(pair)), None)
        if pair is None or (len(spelled) == 1 and not set(spelled) & set(cells.TRUTHS)):
            return False
        shown = {word: min(texts)[1] for word, texts in spelled.items()}
        if len(shown) == 1:
            (word, text), other = next(iter(shown.items())), pair[0] if next(iter(shown)) == pair[1] else pair[1]
            shown[other] = _alike(text, word, other)
        words = shown[pair[0]], shown[pair[1]]
        self.column = Boolean(name=self.name, missing=True)
        self.coding = Coding(words=None if words == ("false", "true") else words)
        return True

    def _numbers(self, values: Values) -> bool:
        codes = _codes(values)
        rest = values.but(codes)
        if not rest.texts:
            codes, rest = (), values
        limits = tuple(text for text in rest.texts if LIMIT.fullmatch(text))
        if limits and len(limits) <= MOST_LIMITS and len(limits) < len(rest.texts):
            if not self._numbers(values.but(limits)):
                return False
            self.limits = limits
            self.open["numbers"] = (
                'the mapping of texts such as <5 to the numbers that they stand for, as in {"<5": 2.5}; list these numbers '
                "under atoms of the column too"
            )
            return True
        if any(A_CODE.match(text) for text in rest.texts):  # codes of somebody's list
            return False
        if (suffix := _suffix(rest)) is not None:
            odd = tuple(text for text in rest.texts if not _has_suffix(text, suffix))
            if odd:
                self._note(rest, lambda text: text not in odd, f"a number with {suffix.strip(SPACE)!r} after it")
            rest = rest.but(odd).without(suffix)
        grouped = rest.matching(GROUPED.fullmatch)
        if grouped and rest.matching(lambda text: _is_number(text) or GROUPED.fullmatch(text)) >= MOST:
            return self._grouped(rest, codes, suffix)
        shares = {",": rest.matching(COMMA.fullmatch), ".": rest.matching(POINT.fullmatch)}
        both = rest.matching(_is_number)
        usual = self.reading.decimal
        decimal = usual if shares[usual] >= max(shares.values()) else max(shares, key=lambda sign: shares[sign])
        pattern = COMMA if decimal == "," else POINT
        others = [text for text in rest.texts if not _is_number(text)]
        worded = len(others) <= FEW_WORDS and not any(map(LIKE_A_DATE.fullmatch, others)) and shares[decimal] >= HALF
        pointed = [text for text in rest.texts if pattern.fullmatch(text) and decimal in text]
        least = HALF if worded and 2 * len(pointed) >= len(rest.texts) else MOST
        if shares[decimal] < 1 and (both < least or len(rest.texts) < FEW):
            return False
        if both == 1 and shares[decimal] < 1:
            raise BadInput(
                f"{self.path}: {self._place(rest, pattern.fullmatch)}: column {self.name!r}: expected {decimal!r} before "
                "decimals, as in most of the column"
            )
        if shares[decimal] < least:
            return False
        if shares[decimal] < 1:
            self._note(rest, pattern.fullmatch, "a number")
        numbers = [text for text in rest.texts if pattern.fullmatch(text)]
        if (code := _doubtful(rest)) is not None and not self.mind:
            self.mind = (
                f"column {self.name!r}: {code} in many cells is far above all other values; if it stands for a missing value, write "
                f"missing: [{code}] under reading, or it is learned as a number"
            )
        # 950 beside 1.234, and semicolons, are signs of points between thousands.
        doubtful = decimal != usual or self.reading.separator == ";" or len(pointed) < len(numbers)
        if pointed and doubtful and all(THOUSAND.fullmatch(text) for text in pointed):
            other = "" if decimal != usual else f'decimal: "{"." if decimal == "," else ","}", '
            self.open["decimal"] = (
                f'"{decimal}" if 1{decimal}234 is a little more than one; if it is a thousand, write {other}thousands: "{decimal}" in its '
                "place, and kind: integer under columns"
            )
        return self._continuous(numbers, decimal, codes, Coding(suffix=suffix))

    def _continuous(self, texts: list[str], decimal: str, codes: tuple[str, ...], coding: Coding) -> bool:
        """Numbers with this sign before decimals; the number of decimals is declared if all have as many."""
        places = {len(text.partition(decimal)[2]) for text in texts}
        fixed = places.pop() if len(places) == 1 and not any(sign in text for text in texts for sign in "eE") else 0
        self.column = Continuous(name=self.name, bounds="learn", missing=True)
        usual = self.reading.decimal
        self.coding = replace(coding, decimal=None if decimal == usual else decimal, places=fixed or None)
        self.codes = codes
        return True

    def _grouped(self, rest: Values, codes: tuple[str, ...], suffix: str | None) -> bool:
        """Numbers with one sign between thousands and another before decimals; what mixes them is refused."""
        usual = self.reading.decimal
        for decimal in (usual, *(sign for sign in POINTS if sign != usual)):
            for sign in THOUSANDS:
                if sign == decimal:
                    continue
                coded = Reading(decimal=decimal).of(Continuous(name=self.name, bounds="learn"))
                coded = replace(coded, coding=Coding(thousands=sign))
                pattern = COMMA if decimal == "," else POINT
                if all(pattern.fullmatch(text) or re.fullmatch(coded.in_thousands, text) for text in rest.texts):
                    return self._continuous(rest.texts, decimal, codes, Coding(thousands=sign, suffix=suffix))
        place = self._place(rest, lambda text: not GROUPED.fullmatch(text))
        raise BadInput(
            f"{self.path}: {place}: column {self.name!r}: expected the same sign between the thousands of all numbers, and another "
            "one before decimals; save the file so, or without the signs between thousands"
        )

    def _times(self, values: Values) -> bool:
        """Times of day, which are whole numbers of minutes or seconds since midnight."""
        for form in ("HH:MM", "HH:MM:SS", "HHhMM"):
            pattern, _, last = TIMES_OF_DAY[form]
            fits = {
                t for t in values.texts if re.fullmatch(pattern, t) and t.count(":") == form.count(":")
            }.__contains__
            share = values.matching(fits)
            if share == 1 or (share >= MOST and len(values.texts) >= FEW):
                times = [text for text in values.texts if fits(text)]
                self.column = Integer(name=self.name, bounds=(0, last), missing=True)
                self.coding = Coding(
                    time=form.removeprefix("H") if any(not text[1].isdigit() for text in times) else form
                )
                if share < 1:
                    self._note(values, fits, f"a time such as {form}")
                return True
        return False

    def _dates(self, values: Values) -> bool:
        least = MOST if len(values.texts) >= FEW else 1.0
        if values.matching(LIKE_A_DATE.fullmatch) < least:
            return False
        shares, fitting, alike = {}, set[str](), dict[str, list[str]]()
        for cell in values.texts:  # a format takes all cells that differ in digits alone, or none of them
            alike.setdefault(re.sub("[0-9]", "0", cell), []).append(cell)
        for text in FORMATS:
            form = DateFormat(text, None if "yyyy" in text else CENTURY)
            likely = [cell for shape, texts in alike.items() if form.iso(shape) is not None for cell in texts]
            fits = {cell for cell in likely if _is_day(form, cell)}
            shares[text] = values.matching(fits.__contains__) if fits else 0.0
            fitting |= fits
        best = max(shares.values())
        mixed = best >= HALF and len(values.texts) >= FEW and values.matching(fitting.__contains__) >= MOST
        if best < least and all(cells.instant(text) is not None for text in values.texts):
            return self._dated([], values)
        return (best >= least or mixed) and self._dated(
            [text for text, share in shares.items() if share == best], values
        )

    def _dated(self, forms: list[str], values: Values) -> bool:
        form = forms[0] if forms else None
        first = None if form is None else DateFormat(form, None if "yyyy" in form else CENTURY)
        resolution = "second" if first is None else first.resolution
        self.resolution = resolution
        self.column = Datetime(name=self.name, bounds="learn", missing=True, resolution=resolution)  # type: ignore[arg-type]
        if first is None or form is None:
            return True
        usual = {"day": "yyyy-mm-dd", "second": "yyyy-mm-dd HH:MM:SS"}.get(resolution)
        self.coding = Coding(date=None if form == usual else form, latest=first.latest if form != usual else None)
        if not all(_is_day(first, text) for text in values.texts):
            self._second_form(values.but([text for text in values.texts if _is_day(first, text)]), sum(values.counts))
            self._note(values, lambda text: _is_day(first, text), f"a date such as {form}")
        orders = {_order(each) for each in forms}
        if len(orders) > 1:
            choices = " or ".join(next(each for each in forms if _order(each) == order) for order in sorted(orders))
            self.open["date"] = f"{choices}: every day of the column is one in both"
        if first.latest is not None:
            self.open["latest"] = f"the last year that two digits may mean, such as {CENTURY}"
        return True

    def _second_form(self, others: Values, total: int) -> None:
        """What is said of another form of dates that several of the other cells have: a column declares one."""
        forms = {text: DateFormat(text, None if "yyyy" in text else CENTURY) for text in FORMATS}
        shares = {text: others.matching(lambda cell, form=form: _is_day(form, cell)) for text, form in forms.items()}
        best = max(shares, key=lambda text: shares[text])
        count = round(shares[best] * sum(others.counts))
        if count >= OFTEN:
            share = f"{count / total:.0%}" if 100 * count >= total else "less than 1%"
            self.remedy = f"; {share} of its cells are dates such as {best}, and a column can have one form only: write all its dates alike"
            self.remedy += REMEDY if shares[best] < 1 else ""

    remedy = REMEDY
    codes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    resolution = ""

    def _missing(self) -> None:
        """The codes that are there, the one first that synthetic records will have: plain pandas must find the same types."""
        known = self.coding.words or ()
        there = {text: count for text, count, _ in self.values.held}
        codes = [text for text in there if (text in TEXTS or text in self.codes) and text not in known]
        if not codes:
            return
        if self.values.blank:
            there[""] = self.values.blank

        def rank(text: str) -> tuple[int, int]:
            numeric = POINT.fullmatch(text) or COMMA.fullmatch(text)
            return (2 if numeric else 1 if not text or text in KNOWN else 0), -there[text]

        first = min((text for text in ("", *codes) if text in there), key=rank)
        self.coding = replace(self.coding, missing=tuple(dict.fromkeys([first, *sorted(codes, key=rank)])))

    def _note(self, values: Values, fits: Any, what: str) -> None:
        """Note texts that do not fit, and the place of the first."""
        odd = [(text, first) for text, _, first in values.held if not fits(text)]
        self.others = tuple(text for text, _ in odd)[:MOST_LIMITS]
        last = sum(count for _, count, _ in values.held) + values.blank - 1
        if len(odd) == 1 and odd[0][1] == last and odd_cells.says_total(odd[0][0]):
            self.mind = odd_cells.ENDS_IN_TOTAL
            return
        place = self._place(values, fits)
        self.mind = f"column {self.name!r}: {place}: expected {what}, as in most of the column{self.remedy}"

    def _place(self, values: Values, fits: Any) -> str:
        """Where the first text stands that does not fit: its line, and its record as `synthdp check` counts them."""
        record = min(first for text, _, first in values.held if not fits(text))
        if not self.in_lines:
            return f"record {record + 1}"
        reading = self.reading
        known = self.lines is not None
        line = (
            self.lines[record] if known else csv_lines.line_of(self.path, reading.encoding, reading.separator, record)
        )
        return f"line {line} (record {record + 1})"


def _codes(values: Values) -> tuple[str, ...]:
    """Numbers that stand for a missing value: -9, -99 and the like where nothing else is negative; -1 or 9999, in several cells, far from
    all others."""
    lone = [text for text in values.texts if LONE.fullmatch(text)]
    others = [float(text.replace(",", ".")) for text in values.but(lone).texts if _is_number(text)]
    often = {text for text, count, _ in values.held if count >= OFTEN}
    found: tuple[str, ...] = ()
    if others and len(others) == len(values.texts) - len(lone):
        far = FAR * max(map(abs, others))
        far_off = (text for text in lone if text in often)
        found = tuple(
            text
            for text in far_off
            if (min(others) >= LEAST if text[0] == "-" else float(text.replace(",", ".")) > far)
        )
    codes = tuple(text for text in values.texts if NUMBERS.fullmatch(text))
    if any(text.startswith("-") for text in values.but((*codes, *found)).texts):
        codes = ()
    return tuple(dict.fromkeys((*codes, *found)))


def _among_labels(values: Values, words: tuple[str, ...], codes: tuple[str, ...]) -> tuple[str, ...]:
    """Which of these stand for a missing value beside two other texts or more; no number among numbers, and no short word such as ND
    among other texts as short, which may all be codes."""
    others = values.but((*words, *codes)).texts
    if len(others) < 2:
        return ()
    lengths = {len(text) for text in others if text.isalpha()}
    kept = tuple(word for word in words if len(word) > SHORT or not word.isalpha() or len(word) not in lengths)
    return kept + (() if any(_is_number(text) and not A_CODE.match(text) for text in others) else codes)


def _repeated(values: Values) -> tuple[str, ...]:
    """The few texts without digits that are in several cells each, and in at most half of all, beside many different texts with digits."""
    odd = {t: n for t, n in zip(values.texts, values.counts, strict=True) if not any(map(str.isdecimal, t))}
    few = 0 < len(odd) <= FEW_WORDS and min(odd.values()) >= OFTEN and len(values.texts) >= FEW + len(odd)
    return tuple(odd) if few and sum(odd.values()) <= HALF * sum(values.counts) else ()


def _doubtful(values: Values) -> str | None:
    """A number such as 99 that is well above all others, in several cells, but not so far that it must be a code."""
    numbers = {text: float(text.replace(",", ".")) for text in values.texts if _is_number(text)}
    *others, (most, text) = sorted((number, text) for text, number in numbers.items()) or [(0.0, "")]
    often = text in numbers and next(count for each, count, _ in values.held if each == text) >= OFTEN
    doubtful = often and others and LONE.fullmatch(text) and most > DOUBTFUL * max(abs(number) for number, _ in others)
    return text if doubtful else None


def _is_number(text: str) -> bool:
    return COMMA.fullmatch(text) is not None or POINT.fullmatch(text) is not None


def _suffix(values: Values) -> str | None:
    """What follows the number in every text, or in most of many, of a public list."""
    found = Counter(match[0] for match in map(SUFFIX.search, values.texts) if match)
    if not found:
        return None
    suffix = found.most_common(1)[0][0]
    share = values.matching(lambda text: _has_suffix(text, suffix))
    return suffix if share == 1 or (share >= MOST and len(values.texts) >= FEW) else None


def _has_suffix(text: str, suffix: str) -> bool:
    match, bare = SUFFIX.search(text), text.removesuffix(suffix)
    return match is not None and match[0] == suffix and (_is_number(bare) or GROUPED.fullmatch(bare) is not None)


def _alike(text: str, word: str, other: str) -> str:
    """The other word of a pair in the spelling of this text."""
    if word in ("0", "1"):
        return text.replace(word, other)
    return other.upper() if text.isupper() else other.capitalize() if text[:1].isupper() else other


def _is_day(form: DateFormat, text: str) -> bool:
    iso = form.iso(text)
    return iso is not None and cells.instant(iso) is not None


def _order(form: str) -> str:
    return "".join(part[0] for part in DateFormat(form, None if "yyyy" in form else CENTURY).parts if part[0] in "ymd")
