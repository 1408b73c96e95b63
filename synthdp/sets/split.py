"""Held-out records, apart before any fit: a keyed hash of each unit's name says on which side all of its records lie.

The files stay as they were written: rows of CSV and of Parquet are copied, not read and written again. The cells of other formats keep
their types and labels.
"""

import csv
import gzip
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from synthdp.errors import BadInput
from synthdp.files import atomic, limits
from synthdp.schema import cells, linked_tables
from synthdp.schema.columns import Datetime
from synthdp.schema.file_coding import PLAIN, SPACE
from synthdp.schema.linked_tables import Table, keys_of, of_table
from synthdp.schema.schema import Schema
from synthdp.sets import record_files
from synthdp.tables import database_url, excel, foreign, statistics_files

if TYPE_CHECKING:
    import pandas as pd

TRAIN, HELD_OUT = "train", "held_out"
KEY_BYTES = 32


def split(path_or_url: Path | str, schema: Schema, *, share: float, out: Path, key: Path) -> tuple[Path, Path]:
    """Write out/train and out/held_out, with the ending of the file (.parquet for a table of a database), and return both; all records
    of a unit go to the same one, a record without `unit:` by its place.

    `share`, within (0, 1), is the expected part of units that are held out. `key` is a file of 32 secret bytes, made where it is not
    there: with the same key a unit lies on the same side of every export. Raises `BadInput` for what cannot be read, or a table
    without the unit column.
    """
    side = side_of(share, key)
    if schema.tables:
        if database_url.is_url(path_or_url):
            frames = record_files.tables_from_database(database_url.address(str(path_or_url)), schema)
            endings = {table.name: ".parquet" for table in schema.tables}
        else:
            files = record_files.tables_in(Path(path_or_url), schema)
            frames = record_files.read_tables(Path(path_or_url), schema)
            endings = {name: _written(file.name[len(name) :]) for name, file in files.items()}
        return split_linked(schema.validate_tables(frames, "clamp"), schema, side, out, endings)
    if database_url.is_url(path_or_url):
        return _split_database(database_url.address(str(path_or_url)), schema, side, out)
    path = Path(path_or_url)
    ending = "".join(path.suffixes[-2:]) if path.name.lower().endswith(".csv.gz") else path.suffix
    targets = out / f"{TRAIN}{ending}", out / f"{HELD_OUT}{ending}"
    out.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        raise BadInput(f"{path}: no such file or folder")
    if schema.image is not None:
        _split_frame(record_files.read(path, schema), schema, side, targets)
    elif ending.lower() == ".parquet":
        _split_parquet(path, schema, side, targets)
    elif ending.lower() == foreign.XLSX:
        _split_sheet(path, schema, side, targets)
    elif ending.lower() in foreign.STATISTICS:
        targets = out / f"{TRAIN}{_written(ending)}", out / f"{HELD_OUT}{_written(ending)}"
        _split_statistics(path, schema, side, targets)
    elif ending.lower() in record_files.TEXT_ENDINGS:
        _split_lines(path, schema, side, targets)
    else:
        raise BadInput(f"{path}: split reads {', '.join(record_files.ENDINGS)} files, and pictures")
    return targets


def side_of(share: float, key: Path) -> "_Side":
    """Which units are held out: see `split`."""
    if not 0 < share < 1:
        raise BadInput(f"share must lie between 0 and 1, such as 0.2, got {share}")
    return _Side(_key(key), share)


def split_linked(
    frames: "Mapping[str, pd.DataFrame]",
    schema: Schema,
    side: "_Side",
    out: Path,
    endings: Mapping[str, str] | None = None,
) -> tuple[Path, Path]:
    """Write linked tables as out/train and out/held_out, of CSV files where no `endings` say otherwise, and return both. Each gets a file
    for each table, of the declared columns: people by their keys, and all rows that are theirs with them. A row that people of both
    sides hold is in both; one that is nobody's is with those to fit."""
    held: dict[
        str, set[str]
    ] = {}  # of each table below, the keys of the parents that are held out, and of those that are not
    kept: dict[str, set[str]] = {}
    targets = out / TRAIN, out / HELD_OUT
    parts: tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]] = ({}, {})
    for table in schema.tables:
        frame = frames[table.name]
        parent = None if table.parent is None else keys_of(schema, table)[-1]
        by_person = schema.unit if table.parent is None or table.with_unit or parent == schema.unit else None
        names = [name or "" for name in cells.texts(frame[by_person or str(parent)])]
        if by_person is not None:
            out_of = np.array([side.held_out(name) for name in names], np.bool_)
            here, there = out_of, ~out_of
        else:
            here = np.array([name in held[str(parent)] for name in names], np.bool_)
            there = np.array([name in kept[str(parent)] for name in names], np.bool_) | ~here
        for part, mask in zip(parts, (there, here), strict=True):
            part[table.name] = frame[mask].reset_index(drop=True)
        if table.key is not None:
            keys = np.array([name or "" for name in cells.texts(frame[table.key])], object)
            held[table.key], kept[table.key] = set(keys[here]), set(keys[there])
    for target, part in zip(targets, parts, strict=True):
        with atomic.folder(target) as made:
            for table in schema.tables:
                ending = (endings or {}).get(table.name, ".csv")
                record_files.write(
                    [_dated(part[table.name], schema, table)], made / f"{table.name}{ending}", of_table(schema, table)
                )
    return targets


def _dated(frame: "pd.DataFrame", schema: Schema, table: Table) -> "pd.DataFrame":
    """The frame, with days that a database or Parquet stored as dates turned into points in time, as typed formats need them."""
    import pandas as pd

    found = frame.copy()
    for name, column in linked_tables.held(schema, table):
        if isinstance(column, Datetime) and frame[name].map(lambda cell: isinstance(cell, date)).any():
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


def _split_lines(path: Path, schema: Schema, side: _Side, targets: tuple[Path, Path]) -> None:
    reading = getattr(schema, "reading", None)
    encoding = getattr(reading, "encoding", None) or "utf-8"
    mark = getattr(reading, "separator", None) or ("\t" if path.suffix.lower() == ".tsv" else ",")
    packed = path.name.lower().endswith(".gz")
    if packed:
        limits.check_unpacked(path)
    try:
        with ExitStack() as stack:
            parts = [stack.enter_context(atomic.file(target)) for target in targets]
            source = stack.enter_context(_opened(path, "rt", encoding, packed=packed))
            train, held = (stack.enter_context(_opened(part, "wt", encoding, packed=packed)) for part in parts)
            lines = _Lines(source)
            rows = csv.reader(lines, delimiter=mark)
            header = next(rows, None)
            if not header:
                raise BadInput(f"{path}: holds no header")
            place = _place(path, schema, [name.removeprefix("\ufeff").strip() for name in header])
            head = lines.taken()
            train.write(head)
            held.write(head)
            for number, row in enumerate(rows):
                text = lines.taken()
                text = text if text.endswith(("\n", "\r")) else text + "\n"
                if not row:
                    continue
                if place is not None and len(row) <= place:
                    raise BadInput(
                        f"{path}: line {rows.line_num}: fewer cells than the header, which has {len(header)}"
                    )
                (held if side.held_out(str(number) if place is None else row[place]) else train).write(text)
    except UnicodeDecodeError:
        raise BadInput(f"{path}: is not {encoding} text; say how it is coded in the schema, under reading:") from None
    except csv.Error as error:
        raise BadInput(f"{path}: line {rows.line_num} cannot be read as CSV ({type(error).__name__})") from None


def _opened(path: Path, mode: str, encoding: str, *, packed: bool) -> IO[Any]:
    if packed:
        return cast("IO[Any]", gzip.open(path, mode, encoding=encoding, newline=""))
    return path.open(mode.replace("t", ""), encoding=encoding, newline="")


def _split_parquet(path: Path, schema: Schema, side: _Side, targets: tuple[Path, Path]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        record_files.check_parquet(path)
        with ExitStack() as stack:
            file = stack.enter_context(pq.ParquetFile(path))
            place = _place(path, schema, file.schema_arrow.names)
            parts = [stack.enter_context(atomic.file(target)) for target in targets]
            writers = [stack.enter_context(pq.ParquetWriter(part, file.schema_arrow)) for part in parts]
            done = 0
            for batch in file.iter_batches():
                names = _numbered(done, len(batch)) if place is None else batch.column(place).to_pylist()
                held = np.array([side.held_out(cells.text(name) or "") for name in names], np.bool_)
                done += len(batch)
                for writer, mask in zip(writers, (~held, held), strict=True):
                    writer.write_batch(batch.filter(pa.array(mask)))
    except (pa.ArrowException, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path}: cannot be read as Parquet ({type(error).__name__})") from None


def _split_sheet(path: Path, schema: Schema, side: _Side, targets: tuple[Path, Path]) -> None:
    reading = schema.reading or PLAIN
    sheet = excel.declared(path, schema)
    place = _place(path, schema, [name.strip(SPACE) if reading.strip else name for name in sheet.names])
    names = _numbered(0, len(sheet.lines)) if place is None else sheet.texts[place].to_pylist()
    held = np.array([side.held_out(name or "") for name in names], np.bool_)
    for target, mask in zip(targets, (~held, held), strict=True):
        cells = [
            (text.filter(mask).to_pylist(), kind[mask]) for text, kind in zip(sheet.texts, sheet.kinds, strict=True)
        ]
        with atomic.file(target) as part:
            excel.write_cells([cells], part, target, sheet.names, reading.sheet)


def _split_statistics(path: Path, schema: Schema, side: _Side, targets: tuple[Path, Path]) -> None:
    import pyarrow.parquet as pq

    ending = path.suffix.lower()
    found = foreign.parsed(path, ending, "coded")
    place = _place(path, schema, found.table.column_names)
    names = _numbered(0, len(found.table)) if place is None else found.table.column(place).to_pylist()
    held = np.array([side.held_out(cells.text(name) or "") for name in names], np.bool_)
    for target, mask in zip(targets, (~held, held), strict=True):
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
    import pyarrow.parquet as pq

    table = database_url.read(address)
    place = _place(Path(address.name), schema, table.column_names)
    names = _numbered(0, len(table)) if place is None else table.column(place).to_pylist()
    held = np.array([side.held_out(cells.text(name) or "") for name in names], np.bool_)
    out.mkdir(parents=True, exist_ok=True)
    targets = out / f"{TRAIN}.parquet", out / f"{HELD_OUT}.parquet"
    for target, mask in zip(targets, (~held, held), strict=True):
        with atomic.file(target) as part:
            pq.write_table(table.filter(mask), part)
    return targets


def _split_frame(frame: "pd.DataFrame", schema: Schema, side: _Side, targets: tuple[Path, Path]) -> None:
    names: Iterable[str] = _numbered(0, len(frame))
    if schema.unit is not None:
        names = [name or "" for name in cells.texts(frame[schema.unit])]
    held = np.array([side.held_out(name) for name in names], np.bool_)
    for target, mask in zip(targets, (~held, held), strict=True):
        record_files.write([frame[mask].reset_index(drop=True)], target, schema)


def _numbered(first: int, count: int) -> list[str]:
    return [str(first + number) for number in range(count)]


def _place(path: Path, schema: Schema, names: list[str]) -> int | None:
    """Where the unit column is; None where each record is a unit."""
    if schema.unit is None:
        return None
    if names.count(schema.unit) != 1:
        raise BadInput(f"{path}: the unit column {schema.unit!r} must be in its header, once")
    return names.index(schema.unit)
