"""Held-out records, apart before any fit: a keyed hash of each unit's name says on which side all of its records lie.

The files stay as they were written: rows of CSV and of Parquet are copied, not read and written again. The cells of other formats keep
their types and labels.
"""

import csv
import gzip
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.files import atomic, limits
from synthdp.schema import cells, linked_tables
from synthdp.schema.columns import Datetime
from synthdp.schema.file_coding import PLAIN, SPACE
from synthdp.schema.linked_tables import Table, keys_of, of_table
from synthdp.schema.schema import Schema
from synthdp.sets import record_files
from synthdp.tables import csv_lines, csvfile, database_url, excel, foreign, statistics_files

Mask = NDArray[np.bool_]
Parts = Callable[[str], tuple[bool, bool]]


TRAIN, HELD_OUT = "train", "held_out"
KEY_BYTES = 32


def split(path_or_url: Path | str, schema: Schema, *, share: float, out: Path, key: Path) -> tuple[Path, Path]:
    """Write out/train and out/held_out, with the ending of the file (.parquet for a table of a database), and return both; all records
    of a unit go to the same one, a record without `unit:` by its place. Linked tables become two folders with files of the same names.

    `share`, within (0, 1), is the expected part of units that are held out. `key` is a file of 32 secret bytes, made where it is not
    there: with the same key a unit lies on the same side of every export. Pictures are written with their window and size applied: read the
    parts by `record_files.as_written(schema)`. Raises `BadInput` for what cannot be read, or a table
    without the unit column.
    """
    side = side_of(share, key)
    if schema.tables and database_url.is_url(path_or_url):
        frames = record_files.tables_from_database(database_url.address(str(path_or_url)), schema)
        return split_linked(schema.validate_tables(frames, "clamp"), schema, side, out, ".parquet")
    if schema.tables:
        return _split_folder(Path(path_or_url), schema, side, out)
    if database_url.is_url(path_or_url):
        return _split_database(database_url.address(str(path_or_url)), schema, side, out)
    path = Path(path_or_url)
    if schema.image is not None:
        targets = _targets(out, path.suffix)
        if not path.exists():
            raise BadInput(f"{path}: no such file or folder")
        _split_frame(record_files.read(path, schema), schema, side, targets)
        return targets
    targets = _targets(out, _written(_ending(path)))
    _split_file(path, schema, side.parts, targets)
    return targets


def _targets(out: Path, ending: str = "") -> tuple[Path, Path]:
    """The parts, in a folder that is made if need be."""
    out.mkdir(parents=True, exist_ok=True)
    return out / f"{TRAIN}{ending}", out / f"{HELD_OUT}{ending}"


def _ending(path: Path) -> str:
    return "".join(path.suffixes[-2:]) if path.name.lower().endswith((".csv.gz", ".tsv.gz")) else path.suffix


def _split_file(path: Path, schema: Schema, parts: Parts, targets: tuple[Path, Path]) -> None:
    """Divide the records of a table's file. `parts` tells by the name of a unit, or where the schema has none by a record's place, whether
    a record goes to the first target, and whether to the second."""
    ending = _ending(path).lower()
    if not path.exists():
        raise BadInput(f"{path}: no such file or folder")
    if ending == ".parquet":
        _split_parquet(path, schema, parts, targets)
    elif ending == foreign.XLSX:
        _split_sheet(path, schema, parts, targets)
    elif ending in foreign.STATISTICS:
        _split_statistics(path, schema, parts, targets)
    elif ending in record_files.TEXT_ENDINGS:
        _split_lines(path, schema, parts, targets)
    else:
        raise BadInput(f"{path}: split reads {', '.join(record_files.ENDINGS)} files, and pictures")


def side_of(share: float, key: Path) -> "_Side":
    """Which units are held out: see `split`."""
    if not 0 < share < 1:
        raise BadInput(f"share must lie between 0 and 1, such as 0.2, got {share}")
    return _Side(_key(key), share)


def _split_folder(folder: Path, schema: Schema, side: "_Side", out: Path) -> tuple[Path, Path]:
    """The parts of linked tables, whose files keep their names; what SAS alone writes is written as Parquet."""
    files = record_files.tables_in(folder, schema)
    frames = record_files.read_tables(folder, schema)
    for table in schema.tables:
        for key in keys_of(schema, table):
            if key not in frames[table.name]:
                raise BadInput(
                    f"{files[table.name]}: the column {key!r}, which links the tables, must be in its header"
                )
    masks = _masks_of(frames, schema, side)
    targets = _targets(out)
    with atomic.folder(targets[0]) as train, atomic.folder(targets[1]) as held_out:
        for table in schema.tables:
            path, rows = files[table.name], _Rows(*masks[table.name])
            name = f"{table.name}{_written(path.name.removeprefix(table.name))}"
            _split_file(path, of_table(schema, table), rows.parts, (train / name, held_out / name))
            if rows.asked != len(frames[table.name]):
                raise BadInput(f"{path}: changed while it was split; split again when nobody writes there")
    return targets


def split_linked(
    frames: Mapping[str, pd.DataFrame], schema: Schema, side: "_Side", out: Path, ending: str = ".csv"
) -> tuple[Path, Path]:
    """Write linked tables as out/train and out/held_out, and return both. Each gets a file for each table, of the declared columns: people
    by their keys, and all rows that are theirs with them. A row that people of both sides hold is in both; one that is nobody's goes to
    those to fit."""
    masks = _masks_of(frames, schema, side)
    targets = _targets(out)
    for place, target in enumerate(targets):
        with atomic.folder(target) as made:
            for table in schema.tables:
                part = frames[table.name][masks[table.name][place]].reset_index(drop=True)
                record_files.write(
                    [_dated(part, schema, table)], made / f"{table.name}{ending}", of_table(schema, table)
                )
    return targets


def _masks_of(frames: Mapping[str, pd.DataFrame], schema: Schema, side: "_Side") -> dict[str, tuple[Mask, Mask]]:
    """Which rows of each linked table are for the fit, and which are held out: see `split_linked`."""
    kept, held = dict[str, set[str]](), dict[str, set[str]]()  # by key, those of each side
    found = {}
    for table in schema.tables:
        frame = frames[table.name]
        parent = None if table.parent is None else keys_of(schema, table)[-1]
        by_person = schema.unit if table.parent is None or table.with_unit or parent == schema.unit else None
        names = cells.keys(frame[by_person or str(parent)])
        if by_person is not None:
            here = np.array([side.held_out(name) for name in names], np.bool_)
            there = ~here
        else:
            here = np.array([name in held[str(parent)] for name in names], np.bool_)
            there = np.array([name in kept[str(parent)] for name in names], np.bool_) | ~here
        found[table.name] = there, here
        if table.key is not None:
            keys = np.array(cells.keys(frame[table.key]), object)
            held[table.key], kept[table.key] = set(keys[here]), set(keys[there])
    return found


def _dated(frame: pd.DataFrame, schema: Schema, table: Table) -> pd.DataFrame:
    """The frame, with days that a database or Parquet stored as dates turned into points in time, as typed formats need them."""
    found = frame.copy()
    for name, column in linked_tables.held(schema, table):
        if isinstance(column, Datetime) and any(isinstance(cell, date) for cell in frame[name]):
            read = cells.instants(frame[name])
            found[name] = pd.Series(read.cells.astype("datetime64[us]")).mask(read.missing | read.wrong)
    return found


def _written(ending: str) -> str:
    """Nobody but SAS writes .sas7bdat."""
    return ".parquet" if ending.lower() == ".sas7bdat" else ending


class _Side:
    """Which names are held out: a pseudo-random function of the key, so that nobody's side tells anything about another's."""

    def __init__(self, key: bytes, share: float) -> None:
        self._key, self._bound = key, int(share * 2**64)

    def held_out(self, name: str) -> bool:
        digest = hashlib.blake2b(name.strip().encode("utf-8", "surrogatepass"), key=self._key, digest_size=8).digest()
        return int.from_bytes(digest, "big") < self._bound

    def parts(self, name: str) -> tuple[bool, bool]:
        """Whether the records of that name are to be fitted, and whether they are held out."""
        held_out = self.held_out(name)
        return not held_out, held_out


class _Rows:
    """Where the rows of a linked table go, by their places; `asked`: how many were asked for."""

    def __init__(self, train: Mask, held_out: Mask) -> None:
        self._parts, self.asked = list(zip(train.tolist(), held_out.tolist(), strict=True)), 0

    def parts(self, place: str) -> tuple[bool, bool]:
        """As `_Side.parts`; a row that was not there before goes nowhere."""
        self.asked += 1
        return self._parts[int(place)] if int(place) < len(self._parts) else (False, False)


def _masks(parts: Parts, names: Iterable[Any]) -> tuple[Mask, Mask]:
    found = np.array([parts(cells.text(name) or "") for name in names], np.bool_).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _key(path: Path) -> bytes:
    if path.exists():
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise BadInput(f"key={path} does not hold {KEY_BYTES} bytes: give a file that split made, or another name")
        return key
    path.parent.mkdir(parents=True, exist_ok=True)
    key = os.urandom(KEY_BYTES)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key)
    return key


class _Lines:
    """The lines of a file, and those that were read since the last look: the raw text of a row, however many lines it has."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._read = file, list[str]()

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self._read.append(line)
            yield line

    def taken(self) -> str:
        """The lines since the last call."""
        text = "".join(self._read)
        self._read.clear()
        return text


def _split_lines(path: Path, schema: Schema, parts: Parts, targets: tuple[Path, Path]) -> None:
    encoding = (schema.reading or PLAIN).encoding.removesuffix("-sig")  # the mark is copied with the header
    packed = path.name.lower().endswith(".gz")
    if packed:
        limits.check_unpacked(path)
    try:
        with ExitStack() as stack:
            made = [stack.enter_context(atomic.file(target)) for target in targets]
            source = stack.enter_context(_opened(path, "rt", encoding, packed=packed))
            train, held = (stack.enter_context(_opened(part, "wt", encoding, packed=packed)) for part in made)
            lines = _Lines(source)
            header, mark = csvfile.header(path, schema.reading)
            place = _place(path, schema, [name.strip() for name in header])
            stack.callback(csv.field_size_limit, csv.field_size_limit(csv_lines.MOST_LINE))  # as long as a fit reads
            rows = csv.reader(lines, delimiter=mark)
            next(row for row in rows if row)
            head = lines.taken()
            train.write(head)
            held.write(head)
            number = 0
            for row in rows:
                text = lines.taken()
                if not row and (place is not None or len(header) > 1):
                    continue
                if place is not None and len(row) <= place:
                    raise BadInput(
                        f"{path}: line {rows.line_num}: fewer cells than the header, which has {len(header)}"
                    )
                for part, taken in zip((train, held), parts(str(number) if place is None else row[place]), strict=True):
                    if taken:
                        part.write(text)
                number += 1
    except UnicodeDecodeError:
        raise BadInput(f"{path}: is not {encoding} text; say how it is coded in the schema, under reading:") from None
    except csv.Error as error:
        raise BadInput(f"{path}: line {rows.line_num} cannot be read as CSV ({type(error).__name__})") from None


def _opened(path: Path, mode: str, encoding: str, *, packed: bool) -> IO[Any]:
    if packed:
        return cast("IO[Any]", gzip.open(path, mode, encoding=encoding, newline=""))
    return path.open(mode.replace("t", ""), encoding=encoding, newline="")


def _split_parquet(path: Path, schema: Schema, parts: Parts, targets: tuple[Path, Path]) -> None:
    with record_files.reading_parquet(path), ExitStack() as stack:
        record_files.check_parquet(path)
        file = stack.enter_context(pq.ParquetFile(path))
        place = _place(path, schema, file.schema_arrow.names)
        made = [stack.enter_context(atomic.file(target)) for target in targets]
        writers = [stack.enter_context(pq.ParquetWriter(part, file.schema_arrow)) for part in made]
        done = 0
        for batch in file.iter_batches():
            names = _numbered(done, len(batch)) if place is None else batch.column(place).to_pylist()
            done += len(batch)
            for writer, mask in zip(writers, _masks(parts, names), strict=True):
                writer.write_batch(batch.filter(pa.array(mask)))


def _split_sheet(path: Path, schema: Schema, parts: Parts, targets: tuple[Path, Path]) -> None:
    reading = schema.reading or PLAIN
    sheet = excel.declared(path, schema)
    place = _place(path, schema, [name.strip(SPACE) if reading.strip else name for name in sheet.names])
    names = _numbered(0, len(sheet.lines)) if place is None else sheet.texts[place].to_pylist()
    for target, mask in zip(targets, _masks(parts, names), strict=True):
        columns = [
            (text.filter(mask).to_pylist(), kind[mask]) for text, kind in zip(sheet.texts, sheet.kinds, strict=True)
        ]
        with atomic.file(target) as part:
            excel.write_cells([columns], part, target, sheet.names, reading.sheet)


def _split_statistics(path: Path, schema: Schema, parts: Parts, targets: tuple[Path, Path]) -> None:
    ending = path.suffix.lower()
    found = foreign.parsed(path, ending, "coded")
    place = _place(path, schema, found.table.column_names)
    names = _numbered(0, len(found.table)) if place is None else found.table.column(place).to_pylist()
    for target, mask in zip(targets, _masks(parts, names), strict=True):
        rows = found.table.filter(mask)
        with atomic.file(target) as part:
            if _written(ending) == ".parquet":
                pq.write_table(rows.replace_schema_metadata(None), part)
                continue
            frame, facts = statistics_files.frame(rows), found.facts
            place_in = {int(row): place for place, row in enumerate(np.flatnonzero(mask))}
            extended = {
                name: {place_in[row]: letter for row, letter in letters if row in place_in}
                for name, letters in facts["extended"].items()
            }
            statistics_files.write(
                frame, part, target, ending, facts["labels"], facts["titles"], facts["missing"], extended
            )


def _split_database(address: database_url.Address, schema: Schema, side: _Side, out: Path) -> tuple[Path, Path]:
    table = database_url.read(address)
    place = _place(Path(address.name), schema, table.column_names)
    names = _numbered(0, len(table)) if place is None else table.column(place).to_pylist()
    targets = _targets(out, ".parquet")
    for target, mask in zip(targets, _masks(side.parts, names), strict=True):
        with atomic.file(target) as part:
            pq.write_table(table.filter(mask), part)
    return targets


def _split_frame(frame: pd.DataFrame, schema: Schema, side: _Side, targets: tuple[Path, Path]) -> None:
    names = _numbered(0, len(frame)) if schema.unit is None else cells.keys(frame[schema.unit])
    for target, mask in zip(targets, _masks(side.parts, names), strict=True):
        record_files.write([frame[mask].reset_index(drop=True)], target, schema, force=True)


def _numbered(first: int, count: int) -> list[str]:
    return [str(first + number) for number in range(count)]


def _place(path: Path, schema: Schema, names: list[str]) -> int | None:
    """Where the unit column is; None where each record is a unit."""
    if schema.unit is None:
        return None
    if names.count(schema.unit) != 1:
        raise BadInput(f"{path}: the unit column {schema.unit!r} must be in its header, once")
    return names.index(schema.unit)
