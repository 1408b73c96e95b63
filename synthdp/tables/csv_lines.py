"""The lines of a CSV file as they are, for those who must say which of them is wrong: by its number, never by what is in it."""

import codecs
import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from synthdp.errors import BadInput
from synthdp.files import limits

BLOCK = 1 << 20
MOST_LINE = 1 << 20  # characters of a line, or of a record of several lines
ONE_BYTE = {"cp1252": "Windows-1252", "cp1250": "Windows-1250", "iso8859-2": "ISO 8859-2"}  # a byte for each letter
NAMES = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8", **ONE_BYTE, "utf-16": "UTF-16"}


def opened(path: Path) -> Any:
    """The file's bytes, unpacked."""
    return gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb")


def lines(path: Path, encoding: str) -> Iterator[str]:
    """The lines without their ends. Raises `BadInput` with the number of the line that is not text of the encoding, or is too long."""
    decoder, rest, number = codecs.getincrementaldecoder(encoding)("strict"), "", 0
    try:
        with opened(path) as file:
            more = True
            while more:
                block = file.read(BLOCK)
                more = bool(block)
                try:
                    rest += decoder.decode(block, not more)
                except UnicodeDecodeError as error:
                    before = rest + error.object[: error.start].decode(encoding, "ignore")
                    line = number + 1 + len(re.findall("\r\n|\r|\n", before))
                    raise BadInput(
                        f"{path}: line {line}: expected {NAMES[encoding]} text; save the file as UTF-8, or, unless it is a list of "
                        "pictures, declare its encoding in the schema (reading: encoding)"
                    ) from None
                held = "\r" if more and rest.endswith("\r") else ""  # its \n may be in the next block
                found = rest.removesuffix(held).replace("\r\n", "\n").replace("\r", "\n").split("\n")
                rest = found.pop() + held
                sizes = [*map(len, found), len(rest)]
                if number == 0 and found:
                    sizes[0] = 0  # a long header is refused by its number of columns
                if max(sizes) > MOST_LINE:  # told by the line alone, not by where it is
                    line = number + 1 + next(place for place, size in enumerate(sizes) if size > MOST_LINE)
                    raise BadInput(f"{path}: line {line}: a row is longer than a MiB; is a quote left open?")
                number += len(found)
                yield from found
            if rest:
                yield rest
    except limits.BROKEN:
        raise BadInput(f"{path}: is not a complete gzip file") from None


def ends(path: Path, encoding: str, *, everywhere: bool = False) -> dict[str, int]:
    """How many lines end with each of \\n, \\r\\n and \\r, outside of quotes or `everywhere`."""
    found = {"\n": 0, "\r\n": 0, "\r": 0}
    quoted, held = False, ""
    with opened(path) as file:
        text = io.TextIOWrapper(file, encoding=encoding, newline="")
        while block := text.read(BLOCK):
            block, held = held + block, ""
            if block.endswith("\r"):  # its \n may be in the next block
                block, held = block[:-1], "\r"
            parts = [block] if everywhere else block.split('"')
            for part in parts[quoted::2]:
                pairs = part.count("\r\n")
                found["\r\n"] += pairs
                found["\n"] += part.count("\n") - pairs
                found["\r"] += part.count("\r") - pairs
            quoted ^= len(parts) % 2 == 0
    found["\r"] += held == "\r" and not quoted
    return found


def records(path: Path, encoding: str, separator: str, *, strict: bool = False) -> Iterator[tuple[int, int]]:
    """The number of the line where each record begins (the header is a record too), and how many cells it has; blank lines are none.

    Raises `BadInput` for a quote that is not closed, with the number of the line where it was opened; if `strict`, for text beside a quoted
    cell too, which programs read in different ways.
    """
    closing = re.compile(f'"(?:[^"]|"")*"[^{re.escape(separator)}]*|[^{re.escape(separator)}]*')
    beside = re.compile(f'"(?:[^"]|"")*"[^"{re.escape(separator)}]| +"')
    begun, cells, opened, size = 0, 0, 0, 0
    for number, line in enumerate(lines(path, encoding), 1):
        if not opened:
            begun, cells, size = number, 1, 0
            if not line:
                continue
        place = 0
        if opened:
            end = _closed(line, 0)
            size += len(line)
            if size > MOST_LINE:
                break
            if end < 0:
                continue
            if strict and line[end : end + 1] not in ("", separator):
                raise _beside(path, number)
            opened, place = 0, line.find(separator, end)
            place = len(line) + 1 if place < 0 else place + 1
            cells += place <= len(line)
        if '"' not in line[place:]:
            cells += line.count(separator, place)
            place = len(line) + 1
        while place <= len(line):
            if strict and beside.match(line, place):
                raise _beside(path, number)
            if line.startswith('"', place) and _closed(line, place + 1) < 0:
                opened = number
                break
            match = closing.match(line, place)
            place = (match.end() if match else len(line)) + 1
            cells += place <= len(line)
        if not opened:
            yield begun, cells
    if opened:
        raise BadInput(f"{path}: line {opened}: a quote is opened and not closed; expected a closing quote")


def _beside(path: Path, number: int) -> BadInput:
    return BadInput(
        f"{path}: line {number}: expected nothing beside a quoted cell; write each quote within it twice, and no spaces around it"
    )


def _closed(line: str, start: int) -> int:
    """The place after the quote that closes a cell which began before `start`; -1 where it goes on in the next line."""
    place = line.find('"', start)
    while place >= 0 and line.startswith('"', place + 1):
        place = line.find('"', place + 2)
    return place + 1 if place >= 0 else -1


def check(path: Path, encoding: str, separator: str, width: int, *, strict: bool = False) -> int:
    """How many records follow the header. Raises `BadInput` with the number of the first line that is not as the header, which has
    `width` cells, or whose quotes `records` refuses."""
    count = 0
    for line, cells in records(path, encoding, separator, strict=strict):
        if cells != width:
            raise BadInput(
                f"{path}: line {line}: expected {width} cell{'s' * (width > 1)}, as many as in the header, found {cells}"
            )
        count += 1
    return count - 1


def line_of(path: Path, encoding: str, separator: str, record: int) -> int:
    """The number of the line where a record begins; the first one after the header is 0."""
    return next((line for place, (line, _) in enumerate(records(path, encoding, separator)) if place == record + 1), 0)


def held(path: Path, signs: bytes) -> bytes:
    """Which of these bytes, such as a quote, are anywhere in a file."""
    missing = signs
    with opened(path) as file:
        while missing and (block := file.read(BLOCK)):
            missing = bytes(sign for sign in missing if sign not in block)
    return bytes(sign for sign in signs if sign not in missing)
