"""Formats of dates in files, such as dd.mm.yyyy: a cell to ISO 8601, and back."""

import re
from dataclasses import dataclass
from functools import cached_property

from synthdp.errors import BadInput

TOKENS = {
    "yyyy": r"[0-9]{4}",
    "yy": r"[0-9]{2}",
    "mmm": r"[A-Za-z]{3}",
    "mm": r"[0-9]{2}",
    "m": r"[0-9]{1,2}",
    "dd": r"[0-9]{2}",
    "d": r"[0-9]{1,2}",
    "HH": r"[0-9]{2}",
    "MM": r"[0-9]{2}",
    "SS": r"[0-9]{2}",
}
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_TOKEN = re.compile(rf"{'|'.join(TOKENS)}|T|h|[^A-Za-z0-9]")


@dataclass(frozen=True)
class DateFormat:
    """A format of dates such as dd.mm.yyyy, yyyy-mm-dd HH:MM or dd/mm/yyyy HHhMM, in the tokens yyyy yy mmm mm m dd d HH MM SS.

    `mmm` is the English month in three letters, `m` and `d` are numbers without a leading zero; years of two digits (`yy`) run
    up to `latest`.
    """

    text: str
    latest: int | None = None

    def __post_init__(self) -> None:
        rule = "a date format must look like dd.mm.yyyy or yyyy-mm-dd HH:MM:SS"
        if "".join(_TOKEN.findall(self.text)) != self.text:
            raise BadInput(f"{rule}; its parts are {', '.join(TOKENS)}")
        for part in (("yyyy", "yy"), ("mmm", "mm", "m"), ("dd", "d")):
            if sum(self.tokens.count(token) for token in part) != 1:
                raise BadInput(f"{rule}, with one year, one month and one day")
        times = [token for token in self.tokens if token in ("HH", "MM", "SS")]
        if times != ["HH", "MM", "SS"][: len(times)]:
            raise BadInput(f"{rule}; minutes follow hours, and seconds follow minutes")
        if ("yy" in self.tokens) != (self.latest is not None):
            raise BadInput(
                f"{rule}; two-digit years, and only these, need `latest`, the last year that they may mean, such as latest: 2026"
            )
        if self.latest is not None and not 100 <= self.latest <= 9999:
            raise BadInput("latest must be a four-digit year: the last one that a two-digit year may mean")

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Its parts and the signs between them."""
        return tuple(_TOKEN.findall(self.text))

    @cached_property
    def pattern(self) -> str:
        """A regular expression of the cells, with one group for each part."""
        return "".join(f"({TOKENS[token]})" if token in TOKENS else re.escape(token) for token in self.tokens)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    @property
    def parts(self) -> tuple[str, ...]:
        """The tokens that have a group in `pattern`, in order."""
        return tuple(token for token in self.tokens if token in TOKENS)

    @property
    def resolution(self) -> str:
        """The finest resolution that it can write."""
        return next(
            (name for token, name in (("SS", "second"), ("MM", "minute"), ("HH", "hour")) if token in self.tokens),
            "day",
        )

    def iso(self, text: str) -> str | None:
        """The cell in ISO 8601, None where it is not of this format. Whether there is such a day is not asked."""
        match = self._compiled.fullmatch(text)
        if match is None:
            return None
        found = dict(zip(self.parts, match.groups(), strict=True))
        month = found.get("mm") or found.get("m") or found["mmm"].upper()
        if "mmm" in found:
            if month not in MONTHS:
                return None
            month = str(MONTHS.index(month) + 1)
        day = found.get("dd") or found["d"]
        year = found.get("yyyy") or self._year(int(found["yy"]))
        date = f"{year}-{month:0>2}-{day:0>2}"
        return f"{date}T{found['HH']}:{found.get('MM', '00')}:{found.get('SS', '00')}" if "HH" in found else date

    def _year(self, short: int) -> str:
        last = self.latest or 0
        return f"{last - (last - short) % 100:04d}"

    def write(self, iso: str) -> str:
        """A cell of this format for an instant in ISO 8601 (`2020-01-31T08:00:00`)."""
        year, month, day, hour, minute, second = (
            iso[0:4], iso[5:7], iso[8:10], iso[11:13] or "00", iso[14:16] or "00", iso[17:19] or "00",
        )  # fmt: skip
        known = {
            "yyyy": year, "yy": year[2:], "mmm": MONTHS[int(month) - 1], "mm": month, "m": str(int(month)), "dd": day,
            "d": str(int(day)), "HH": hour, "MM": minute, "SS": second,
        }  # fmt: skip
        return "".join(known.get(token, token) for token in self.tokens)
