"""Records from files and to files, by the name's ending and the schema.

Tables: CSV (.csv, .csv.gz, .tsv, .tsv.gz), Parquet (.parquet), Excel (.xlsx), Stata (.dta), SPSS (.sav, .zsav) and SAS (.xpt, and
.sas7bdat, which is only read). Pictures: .npz, or a folder of files with labels.csv (see `images`).
Errors name the file and the remedy in one line, and never repeat its contents.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype, is_string_dtype

from synthdp.errors import BadInput
from synthdp.files import atomic, limits
from synthdp.images import arrays, picture_folder
from synthdp.schema import cells
from synthdp.schema.check import warn_of_database_zone, zone_of
from synthdp.schema.columns import LEARN, Categorical, Identifier, Ordinal, in_numbers
from synthdp.schema.file_coding import PLAIN, Coded
from synthdp.schema.linked_tables import of_table
from synthdp.schema.schema import Boolean, Continuous, Datetime, Image, Integer, Schema
from synthdp.sets import dialect, stored_types
from synthdp.sets.dialect import Found
from synthdp.tables import csvfile, database_url, excel, foreign, statistics_files
from synthdp.tables.database_url import Address

TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
ENDINGS = (*TEXT_ENDINGS, ".parquet", *foreign.ENDINGS)
WRITTEN = tuple(ending for ending in ENDINGS if ending != ".sas7bdat")
LISTED = ".written.sha256"  # in a folder of linked tables: the digests of what was written there
NPZ = ".npz"
DUCKDB = (".db", ".duckdb", ".ddb")
TEXT = (".txt", ".dat", ".asc")  # names under which other programs write what is CSV here
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
FIRST_DAY, LAST_DAY = (pa.scalar((day - date(1970, 1, 1)).days, pa.int32()) for day in (date.min, date.max))


def read(path: str | Path, schema: Schema | None = None) -> pd.DataFrame:
    """The records in a file, or in a folder of pictures.

    With a schema, its columns are read as what they are declared to be: codes such as 01 stay text, empty cells and the
    usual marks (NA, NaN, null) are missing, cells that do not fit are left as text for the pre-check, and what `write`
    made harmless is restored. Without one, columns that hold numbers only are numbers, and all else is text.
    Pictures need a schema: they are brought to its window and size, and are uint8 arrays in the frame.
    Raises `BadInput` for files that are absent, empty, not readable, or have a column name twice.
    """
    where = Path(path)
    if schema is not None and schema.tables:
        raise BadInput(
            "the schema describes linked tables: read_tables(folder, schema) reads a folder with a file for each"
        )
    if schema is not None and schema.image is not None:
        return _pictures(where, schema)
    with _reading(where) as ending:
        if ending in TEXT_ENDINGS:
            return csvfile.read(where, schema)
        if ending == foreign.XLSX:
            return excel.read(where, schema)
        frame, facts = _typed(where, ending)
        if schema is None:
            return frame
        if ending in foreign.STATISTICS:
            frame = statistics_files.whole_numbers(statistics_files.labelled(frame, facts, where, schema), schema)
        return _plain(frame, schema)


def tables_in(folder: Path, schema: Schema) -> dict[str, Path]:
    """The file of each linked table in a folder: of the table's name, with the ending of a format. Raises `BadInput` where a table has no
    file there, or several."""
    if not folder.is_dir():
        raise BadInput(
            f"{folder}: is no folder; linked tables are read from a folder with a file for each, such as {schema.tables[0].name}.csv"
        )
    found = {}
    for table in schema.tables:
        files = [path for ending in ENDINGS if (path := folder / f"{table.name}{ending}").is_file()]
        if len(files) != 1:
            what = "no file" if not files else "several files"
            names = {f"{table.name}{ending}".lower() for ending in ENDINGS}
            alike = sorted(path.name for path in folder.iterdir() if path.name.lower() in names and not files)
            hint = f". Capitals count: rename {alike[0]}, or the table in the schema" if alike else ""
            raise BadInput(
                f"{folder}: has {what} of the table {table.name!r}; one is needed, such as {table.name}.csv or {table.name}.parquet{hint}"
            )
        found[table.name] = files[0]
    return found


def holds_tables(folder: Path) -> bool:
    """Whether a folder holds files of tables and nothing else; labels.csv stands beside pictures."""
    names = [path.name.lower() for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []
    return bool(names) and "labels.csv" not in names and all(name.endswith(ENDINGS) for name in names)


def files_in(folder: Path) -> dict[str, Path]:
    """The files of tables in a folder, by their names without the ending. Raises `BadInput` where two have one name."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        ending = next((each for each in ENDINGS if path.name.lower().endswith(each)), None)
        if path.name.startswith(".") or ending is None:
            continue
        name = path.name[: -len(ending)]
        if name in found:
            raise BadInput(f"{folder}: has several files of the table {name!r}; keep one")
        found[name] = path
    return found


def further_tables(folder: Path, schema: Schema) -> set[str]:
    """The tables in a folder that a schema of linked tables does not describe; none where it is no folder."""
    return set(files_in(folder)) - {table.name for table in schema.tables} if folder.is_dir() else set()


def identity(path: Path) -> tuple[int, int]:
    """What identifies a file, whatever its name and the links to it."""
    found = path.stat()
    return found.st_dev, found.st_ino


def read_tables(folder: str | Path, schema: Schema, *, text: bool = False) -> dict[str, pd.DataFrame]:
    """The linked tables in a folder, by name, each read as `read` does with the table's part of the schema, or, if `text`, with `as_text`
    of that part. Raises `BadInput` as `read` does, and for a table without a file of its name, or with several."""
    files = tables_in(Path(folder), schema)
    of = {table.name: of_table(schema, table) for table in schema.tables}
    return {name: read(files[name], as_text(own) if text else own) for name, own in of.items()}


def as_text(schema: Schema) -> Schema:
    """The schema that reads the same columns of a file as the text that stands there."""
    reading = (
        None if schema.reading is None else replace(schema.reading, decimal=".", strip=False, missing=(), columns=())
    )
    columns = tuple(Categorical(name=name, categories=LEARN, missing=True) for name in schema.names)
    return Schema(columns=columns, ignored=schema.ignored, reading=reading)


def write_tables(
    frames: Mapping[str, pd.DataFrame],
    folder: str | Path,
    schema: Schema,
    ending: str = ".csv",
    *,
    force: bool = False,
) -> None:
    """Write a file for each linked table into a folder, which appears when all are complete, and the files' digests. Raises `BadInput` if
    the folder already holds anything; with `force` it is replaced, if it is as it was written here."""
    folder = Path(folder)
    known = {LISTED} | {
        f"{table.name}{each}"
        for table in schema.tables
        for each in (*ENDINGS, *(f"{e}.neutralised.json" for e in ENDINGS))
    }
    if folder.is_dir() and (others := sorted(path.name for path in folder.iterdir() if path.name not in known)):
        raise BadInput(
            f"{folder}: holds {others[0]}, which is not a file of these tables, so the folder is not replaced; choose another"
        )
    _check_new(folder, force=force)
    if folder.is_dir() and any(folder.iterdir()) and not atomic.is_as_listed(folder, LISTED):
        raise BadInput(
            f"{folder}: is not replaced, since {LISTED} is missing or does not fit its files; choose another folder, or remove it yourself"
        )
    with atomic.folder(folder) as part:
        for table in schema.tables:
            write([frames[table.name]], part / f"{table.name}{ending}", of_table(schema, table))
        (part / LISTED).write_text(atomic.listed(part), encoding="utf-8")


def workbooks(where: Path) -> list[Path]:
    """The Excel files of a folder that holds no other tables, sorted; none where it is no such folder."""
    if not where.is_dir():
        return []
    found = [path for path in sorted(where.iterdir()) if not path.name.startswith((".", "_", "~"))]
    tables = [path for path in found if path.name.lower().endswith(ENDINGS)]
    return tables if all(path.name.lower().endswith(foreign.XLSX) for path in tables) else []


def from_database(address: Address, schema: Schema) -> pd.DataFrame:
    """The records of a database's table, in memory, as `read` gives those of a file with types. Raises as `read`."""
    return _of_database(database_url.read(address), str(address), schema)


def tables_from_database(address: Address, schema: Schema) -> dict[str, pd.DataFrame]:
    """The linked tables in a database's schema, which the address names in place of a table; each as `from_database` gives it."""
    if address.query is not None:
        raise BadInput(
            "linked tables are read by their names: name the database's schema after #, and leave data.query_file out"
        )
    found = database_url.read_tables(address, [table.name for table in schema.tables])
    return {
        table.name: _of_database(found[table.name], f"{address}.{table.name}", of_table(schema, table))
        for table in schema.tables
    }


def _of_database(table: pa.Table, where: str, schema: Schema) -> pd.DataFrame:
    frame = _plain(_of_arrow(table, where), schema)
    for column in schema.columns:
        if column.name in frame and zone_of(frame[column.name]) is not None:
            warn_of_database_zone(column)
    return frame


def look_into(address: Address) -> Found:
    """The same as `look`, of a database's table."""
    return _looked(database_url.read(address), Path(address.name), str(address))


def look_into_tables(address: Address) -> dict[str, Found]:
    """The same of all tables of a database's schema, by name; empty where the address names a table or a query."""
    found = {} if address.query is not None else database_url.tables_in(address)
    return {name: _looked(table, Path(name), f"{address}.{name}") for name, table in found.items()}


def _looked(table: pa.Table, path: Path, where: str) -> Found:
    return dialect.typed(path, _of_arrow(table, where), stored_types.facts(table.schema))


def _of_arrow(table: pa.Table, where: str) -> pd.DataFrame:
    _check_names(Path(where), table.column_names)
    try:
        frame = _framed(_in_the_calendar(table))
        for field in table.schema:
            if database_url.DECIMAL in (field.metadata or {}):
                texts = table.column(field.name).to_pylist()
                numbers: list[Any] = [None if text is None else _decimal(text) for text in texts]
                frame[field.name] = numbers
        return frame
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"{where}: its columns cannot be read ({type(error).__name__})") from None


def _decimal(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:  # money, with its sign
        return text


def look(path: str | Path, sheet: str | None = None) -> Found:
    """The records in a file that no schema describes, and how it seems to be written; of a workbook those of the named
    sheet. Raises as `read`."""
    where = Path(path)
    with _reading(where) as ending:
        if sheet is not None and ending != foreign.XLSX:
            raise BadInput(f"{where}: has no sheets; leave sheet= out")
        if ending in TEXT_ENDINGS:
            return dialect.look(where)
        if ending == foreign.XLSX:
            return dialect.sheet(where, sheet)
        return dialect.typed(where, *_typed(where, ending))


def _typed(where: Path, ending: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A table whose columns have types, and what its file says of them."""
    if ending == ".parquet":
        return _parquet(where), stored_types.facts(pq.read_schema(where))
    found = foreign.parsed(where, ending)
    _check_names(where, found.table.column_names)
    return statistics_files.frame(found.table), found.facts


@contextmanager
def _reading(where: Path) -> Iterator[str]:
    """The ending of a file that is there."""
    if not where.suffix and not where.exists():
        raise BadInput(f"{where}: no such file or folder")
    ending = _ending(where)
    if where.is_dir():
        raise BadInput(f"{where}: is a folder, expected a {ending} file")
    try:
        if not where.exists():
            raise BadInput(f"{where}: no such file")
        if where.stat().st_size == 0:
            raise BadInput(f"{where}: the file is empty")
        yield ending
    except OSError as error:
        raise BadInput(f"{where}: cannot be read ({error.strerror or 'not a whole ' + ending + ' file'})") from None


def write(
    chunks: Iterable[pd.DataFrame] | pd.DataFrame, path: str | Path, schema: Schema, *, force: bool = False
) -> int:
    """Write a frame of the schema's columns, or several one after the other, and return the number of records.

    Whole or not at all: the file appears under its name only when it is complete. Raises `BadInput` if there is already a file or folder of
    that name; `force` replaces it. CSV: text cells that begin with = + - @ TAB CR or NUL are neutralised, and listed in
    `<path>.neutralised.json`. Pictures: a `.npz` file, or (a name without an ending) a folder of PNG files with labels.csv; a folder that
    holds anything else is not replaced.
    """
    where = Path(path)
    chunks = _frames(chunks, schema)
    if schema.tables:
        raise BadInput(
            "the schema describes linked tables: write_tables(frames, folder, schema) writes a file for each"
        )
    if schema.image is not None:
        return _write_pictures(chunks, where, schema, force=force)
    ending = _ending(where, WRITTEN)
    if where.is_dir():
        raise BadInput(f"{where}: is a folder, expected the name of a {ending} file")
    _check_new(where, force=force)
    with _writing(where):
        if ending in TEXT_ENDINGS:
            return csvfile.write(chunks, where, schema)
        with atomic.file(where) as part:
            if ending == ".parquet":
                return _write_parquet(chunks, part, schema)
            if ending == foreign.XLSX:
                return excel.write(chunks, part, schema, where)
            return _write_statistics(chunks, part, schema, where, ending)


@contextmanager
def _writing(where: Path) -> Iterator[None]:
    """Errors within the block become a `BadInput` that names the file or folder that is written."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        # Arrow's first argument may hold a cell.
        found = re.fullmatch("Conversion failed for column (.+) with type [^ ]+", str(error.args[-1]))
        column = f"column {found[1]!r} is" if found else "the records are"
        raise BadInput(
            f"{where}: not written, since {column} not of the schema's kind; schema.validate(frame) names what is wrong"
        ) from None
    except OSError as error:
        raise BadInput(f"{where}: cannot be written ({error.strerror or type(error).__name__})") from None


def _check_new(path: Path, *, force: bool) -> None:
    atomic.recover(path)  # a folder that was complete when its writer was stopped is there
    if not force and (any(path.iterdir()) if path.is_dir() else path.exists()):
        raise BadInput(f"{path} exists; choose another name, or pass force=true (in Python force=True)")


def _frames(chunks: Iterable[pd.DataFrame] | pd.DataFrame, schema: Schema) -> Iterator[pd.DataFrame]:
    """The frames. Identifiers and categories that they hold as numbers or instants, which a schema accepts, become text."""
    for chunk in [chunks] if isinstance(chunks, pd.DataFrame) else chunks:
        lacking = [name for name in schema.names if name not in chunk]
        if lacking:
            raise BadInput(f"a frame to be written lacks columns of the schema: {', '.join(map(repr, lacking))}")
        for column, kind in zip(schema.columns, _types(schema).types, strict=True):
            held = chunk[column.name]
            typed = not isinstance(held.dtype, pd.CategoricalDtype | pd.StringDtype) and held.dtype != object
            if typed and pa.types.is_string(kind) and isinstance(column, Categorical | Ordinal | Identifier):
                chunk = chunk.assign(**{column.name: pd.Series(cells.texts(held), index=held.index, dtype=object)})
        yield chunk


def write_to_database(chunks: Iterable[pd.DataFrame], address: Address, schema: Schema, *, replace: bool) -> int:
    """Make a table of a database of frames of the schema's columns, in the coding of a file with types, and return their number."""
    types = _types(schema)
    parts = (_table(chunk, schema, types) for chunk in chunks)
    return database_url.write(parts, types, address, replace=replace)


def write_tables_to_database(
    frames: Mapping[str, pd.DataFrame], address: Address, schema: Schema, *, replace: bool
) -> None:
    """Make a table of each linked table in the database's schema that the address names in place of a table: all or none."""
    found = {}
    for table in schema.tables:
        own = of_table(schema, table)
        found[table.name] = ([_table(frames[table.name], own, _types(own))], _types(own))
    database_url.write_tables(found, address, replace=replace)


def as_written(schema: Schema) -> Schema:
    """The schema that reads what `write` wrote: its pictures have been brought to their window and size already."""
    done = tuple(replace(c, window=None, resize="none") if isinstance(c, Image) else c for c in schema.columns)
    return replace(schema, columns=done)


def picture_ending(path: Path) -> str:
    """`.npz`, or nothing for a folder. Raises `BadInput` for names that hold no pictures."""
    if path.name.lower().endswith(NPZ):
        return NPZ
    if path.is_dir() or (not path.suffix and not path.is_file()):
        return ""
    raise BadInput(
        f"{path}: pictures are in a file whose name ends in {NPZ}, or in a folder with labels.csv (a name without ending)"
    )


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow types that the codec's frames are written with."""
    return pa.schema([(column.name, _arrow_type(column)) for column in schema.columns])


def _ending(path: Path, named: tuple[str, ...] = ENDINGS) -> str:
    """That of a table. Refusals name the endings in `named`."""
    for ending in ENDINGS:
        if path.name.lower().endswith(ending):
            return ending
    if path.is_dir():
        raise BadInput(f"{path}: is a folder, which holds pictures; a table's name must end in {', '.join(named)}")
    if path.name.lower().endswith(NPZ):
        raise BadInput(f"{path}: {NPZ} holds pictures; a table's name must end in {', '.join(named)}")
    ending = path.suffix.lower()
    remedy = "; rename a text file of columns between separators to .csv" if ending in TEXT else ""
    if ending in DUCKDB:
        remedy = (
            f"; a DuckDB database is given as duckdb:///{path}#TABLE, and linked tables in it as duckdb:///{path}#main"
        )
    raise BadInput(f"{path}: the name must end in {', '.join(named)}{remedy}")


def _pictures(where: Path, schema: Schema) -> pd.DataFrame:
    try:
        packed = picture_ending(where) == NPZ
        if not where.exists():
            raise BadInput(f"{where}: no such file or folder")
        if packed and where.is_dir():
            raise BadInput(f"{where}: is a folder, expected a {NPZ} file")
        return arrays.read(where, schema) if packed else picture_folder.read(where, schema)
    except OSError as error:
        raise BadInput(
            f"{error.filename or where}: cannot be read ({error.strerror or type(error).__name__})"
        ) from None


def _write_pictures(chunks: Iterable[pd.DataFrame], where: Path, schema: Schema, *, force: bool) -> int:
    packed = picture_ending(where) == NPZ
    if packed and where.is_dir():
        raise BadInput(f"{where}: is a folder, expected the name of a {NPZ} file")
    if not packed and where.is_dir():
        picture_folder.check_replaced(where)
    _check_new(where, force=force)
    with _writing(where):
        if packed:
            with atomic.file(where) as part:
                return arrays.write(chunks, part, schema)
        with atomic.folder(where) as part:
            return picture_folder.write(chunks, part, schema)


def check_parquet(path: Path) -> None:
    """Raise `BadInput` for a Parquet file whose footer is too long, or that would unpack to far more than it is: a text that is stored
    once may be that of every record. Texts are counted by their places in the dictionary, and not unpacked."""
    limits.check_footer(path)
    with pq.ParquetFile(path) as file:
        names, packed = file.schema_arrow.names, file.metadata
        _check_names(path, names)
        done = 8 * packed.num_rows * len(names)
        _check_size(path, done)
        rows = range(packed.num_row_groups)
        columns = [packed.row_group(row).column(place) for row in rows[:1] for place in range(packed.num_columns)]
        texts = [column.path_in_schema for column in columns if column.physical_type == "BYTE_ARRAY"]
        if packed.num_rows * sum(packed.row_group(row).total_byte_size for row in rows) <= limits.FREE:
            return  # were the longest text that of every record
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for row in rows:
            for name in texts:
                done += _unpacked(file.read_row_group(row, columns=[name]))
                _check_size(path, done)


def _unpacked(table: pa.Table) -> int:
    """Bytes of texts, which stay packed."""
    chunks = [chunk for column in table.columns for chunk in column.chunks if pa.types.is_dictionary(chunk.type)]
    texts = [chunk for chunk in chunks if not pa.types.is_primitive(chunk.type.value_type)]
    return sum(pc.sum(pc.take(pc.binary_length(chunk.dictionary), chunk.indices)).as_py() or 0 for chunk in texts)


def _check_size(path: Path, unpacked: int) -> None:
    if unpacked > limits.FREE and unpacked > limits.RATIO * path.stat().st_size:
        raise BadInput(
            f"{path}: would unpack to over {limits.RATIO} times its size; data.engine=duckdb counts it where it lies"
        )


def reading_parquet(path: Path) -> AbstractContextManager[None]:
    """What goes wrong within the block is the fault of the Parquet file: see `limits.faults_of`."""
    return limits.faults_of(path, (pa.ArrowException, ValueError), " as Parquet")


def _parquet(path: Path) -> pd.DataFrame:
    with reading_parquet(path):
        check_parquet(path)
        with pq.ParquetFile(path) as file:
            table = _in_the_calendar(file.read())
            table.validate(full=True)  # text that is no UTF-8 would be found later, one cell at a time
            return _framed(table)


def _framed(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = _flat(table).to_pandas(types_mapper=_whole_numbers(table))
    # An index with a name was a column of the table that somebody saved.
    return frame.reset_index() if any(name is not None for name in frame.index.names) else frame


def _check_names(path: Path, names: list[str]) -> None:
    if not names:
        raise BadInput(f"{path}: holds no columns")
    limits.check_width(path, len(names))
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise BadInput(f"{path}: duplicate columns {', '.join(map(repr, repeated))}; keep one of each")


def _whole_numbers(table: pa.Table) -> Callable[[pa.DataType], Any] | None:
    """pandas' nullable types where whole numbers or truth values have missing cells: else one empty cell would make floats of all other
    numbers, which name nobody, and of two long patient numbers one, and objects of truth values, which are no numbers then."""
    kinds: dict[pa.DataType, Any] = {kind: pd.Int64Dtype() for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())}
    kinds |= {kind: pd.UInt64Dtype() for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())}
    kinds[pa.bool_()] = pd.BooleanDtype()
    held = zip(table.schema.types, table.columns, strict=True)
    gaps = {kind for kind, column in held if kind in kinds and column.null_count}
    return {kind: kinds[kind] for kind in gaps}.get if gaps else None


def _in_the_calendar(table: pa.Table) -> pa.Table:
    """The table with the first or last day of the years 1 to 9999 for those beyond them, and for times whole microseconds, the last of the
    day for 24:00: Python has no words for others."""
    for place, field in enumerate(table.schema):
        if pa.types.is_time(field.type):
            whole = pa.int32() if pa.types.is_time32(field.type) else pa.int64()
            held, per_second = table.column(place).cast(whole), PER_SECOND[field.type.unit]
            grain = max(1, per_second // PER_SECOND["us"])
            held = pc.min_element_wise(held, pa.scalar(86_400 * per_second - 1, whole), skip_nulls=False)
            held = pc.multiply(pc.divide(held, pa.scalar(grain, whole)), pa.scalar(grain, whole))
            table = table.set_column(place, field, held.cast(field.type))
        if pa.types.is_date(field.type):
            days = table.column(place).cast(pa.date32()).cast(pa.int32())
            held = pc.max_element_wise(
                pc.min_element_wise(days, LAST_DAY, skip_nulls=False), FIRST_DAY, skip_nulls=False
            )
            table = table.set_column(place, field.with_type(pa.date32()), held.cast(pa.int32()).cast(pa.date32()))
    return table


def _flat(table: pa.Table) -> pa.Table:
    """The table with lists and structures as texts: in pandas one without a number would make floats of the numbers in all others."""
    for place, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            texts = [_said(cell) for cell in table.column(place)]
            table = table.set_column(place, field.with_type(pa.string()), pa.array(texts, pa.string()))
    return table


def _said(cell: pa.Scalar) -> str | None:
    try:
        return str(cell.as_py()) if cell.is_valid else None
    except (ValueError, OverflowError):  # it holds a day beyond the years 1 to 9999
        return cells.UNREADABLE


def _plain(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Cells of declared types in the plain coding, numbers that are stored as text among them, without the columns that are left
    out."""
    frame = frame.drop(columns=[column.name for column in schema.ignored], errors="ignore")
    for column in schema.columns:
        if column.name not in frame or is_datetime64_any_dtype(frame[column.name].dtype):
            continue
        series, coded = frame[column.name], (schema.reading or PLAIN).of(column)
        if isinstance(column, Identifier) and cells.in_floats(series.dtype):  # which the check refuses
            continue
        if is_numeric_dtype(series.dtype):  # which has no sign before decimals
            coded = coded.of_number()
        if coded.numeric and is_bool_dtype(series.dtype):  # 1 and 0, as in a database
            series = series.astype("Int8")
        if not coded.is_plain or (coded.numeric and is_string_dtype(series.dtype)):
            array = pa.chunked_array([pa.array(cells.texts(series, math.inf if coded.numeric else None), pa.string())])
            frame = frame.assign(**{column.name: csvfile.typed(array, coded).set_axis(frame.index)})
    return frame


def _is_counted(coded: Coded) -> bool:
    """Whether fresh identifiers are whole numbers without leading zeros."""
    return coded.coding.pattern == "#"


def _coded(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The columns of a schema, with the words and the codes of its reading where a typed column can hold them."""
    frame = frame[list(schema.names)]
    if schema.reading is None:
        return frame
    for column in schema.columns:
        coded = schema.reading.of(column)
        if coded.labels:
            codes = frame[column.name].astype(object).map(coded.code, na_action="ignore")
            frame = frame.assign(**{column.name: codes.astype("Int64") if _in_digits(coded) else codes})
        elif coded.coding.pattern is not None:
            names = frame[column.name].map(coded.named, na_action="ignore")
            frame = frame.assign(**{column.name: names.astype("Int64") if _is_counted(coded) else names})
        elif coded.coding.numbers or coded.coding.time is not None:  # a column that holds such texts is text
            texts = pd.Series(csvfile.written(frame, coded, {}), index=frame.index, dtype=object)
            frame = frame.assign(**{column.name: texts.where(frame[column.name].notna() | bool(coded.missing), None)})
        elif isinstance(column, Boolean) and coded.coding.words is not None:
            words = [int(word) if _in_digits(coded) else word for word in coded.coding.words]
            held = frame[column.name].map({False: words[0], True: words[1]}, na_action="ignore")
            frame = frame.assign(**{column.name: held})
        elif isinstance(column, Integer | Continuous) and column.missing and (code := _code(column, coded)) is not None:
            frame = frame.assign(**{column.name: frame[column.name].fillna(code)})
    return frame


def _code(column: Integer | Continuous, coded: Coded) -> float | None:
    """The number that is stored for a missing value; None where its text is none, or none of the column's kind."""
    code = cells.number(coded.absent)
    if isinstance(column, Integer) and code is not None:
        return int(code) if code.is_integer() else None
    return code


def _in_digits(coded: Coded) -> bool:
    """Whether truth values, or the codes of all categories, are written as whole numbers."""
    written: Iterable[str] = coded.coding.words or ()
    if coded.labels:
        known = getattr(coded.column, "categories", ())
        written = [coded.code(category) for category in (() if isinstance(known, str) else known)] or coded.labels
    return bool(written) and all(re.fullmatch("0|-?[1-9][0-9]{0,14}", word) for word in written)


def _table(frame: pd.DataFrame, schema: Schema, types: pa.Schema) -> pa.Table:
    """Records as they are written to a Parquet file or a database."""
    made = _coded(frame, schema)
    for column, kind in zip(schema.columns, types.types, strict=True):
        if isinstance(column, Integer | Continuous) or pa.types.is_decimal(kind):
            made = made.assign(**{column.name: stored_types.within(made[column.name], kind, column)})
    return pa.Table.from_pandas(made, schema=types, preserve_index=False)


def _write_parquet(chunks: Iterable[pd.DataFrame], part: Path, schema: Schema) -> int:
    types, rows = _types(schema), 0
    with pq.ParquetWriter(part, types, compression="zstd") as writer:
        for chunk in chunks:
            writer.write_table(_table(chunk, schema, types))
            rows += len(chunk)
    return rows


def _types(schema: Schema) -> pa.Schema:
    """The Arrow types of `_coded`."""
    types = arrow_schema(schema)
    for place, column in enumerate(schema.columns):
        coded = None if schema.reading is None else schema.reading.of(column)
        if coded is not None and (coded.labels or (isinstance(column, Boolean) and coded.coding.words is not None)):
            types = types.set(place, pa.field(column.name, pa.int64() if _in_digits(coded) else pa.string()))
        elif coded is not None and (_is_counted(coded) or coded.coding.numbers or coded.coding.time):
            types = types.set(place, pa.field(column.name, pa.int64() if _is_counted(coded) else pa.string()))
        if coded is not None and coded.coding.stored is not None:
            types = types.set(place, pa.field(column.name, stored_types.fitting(coded, types.field(place).type)))
    return types


def _write_statistics(chunks: Iterable[pd.DataFrame], part: Path, schema: Schema, where: Path, ending: str) -> int:
    """These files are written as a whole: all records are in memory."""
    statistics_files.check_names(where, ending, schema.names)
    frames = list(chunks) or [arrow_schema(schema).empty_table().to_pandas()]
    frame = pd.concat([_coded(each, schema) for each in frames], ignore_index=True)
    codings = [] if schema.reading is None else [schema.reading.of(column) for column in schema.columns]
    labels = {each.column.name: each.coding.labels for each in codings if each.labels}
    titles = {each.column.name: each.coding.title for each in codings if each.coding.title is not None}
    return statistics_files.write(frame, part, where, ending, labels, titles)


def _arrow_type(column: Any) -> pa.DataType:
    if isinstance(column, Boolean):
        return pa.bool_()
    if isinstance(column, Integer) or in_numbers(column):
        return pa.int64()
    if isinstance(column, Continuous):
        return pa.float64()
    return pa.timestamp("us") if isinstance(column, Datetime) else pa.string()
