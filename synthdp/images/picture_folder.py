"""A folder of pictures: `labels.csv` names a file per record in its column `file`, and the schema's other columns beside it.

A DICOM series needs no list: what is not in one is read from the tags whose keywords are the columns' names.
"""

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp import errors
from synthdp.errors import BadInput
from synthdp.images import dicom, pixels
from synthdp.images.pixels import column_of, picture
from synthdp.schema import cells
from synthdp.schema.columns import (
    LEARN,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Identifier,
    Image,
    Integer,
    Ordinal,
)
from synthdp.schema.schema import Schema
from synthdp.tables import csvfile

Series: TypeAlias = "pd.Series[Any]"


# ---- Labels beside pictures, as cells of a frame: what an array of numbers, text or dates says of a column.


TEXTS = Categorical | Ordinal | Identifier


def typed(values: NDArray[Any], column: Column) -> Series:
    """The cells of a column: text for categories and identifiers, else numbers, truth values and dates as far as they are.

    Empty text (that is no category), NaN and NaT are missing. What does not fit is left to the pre-check.
    """
    if values.dtype.kind == "f" and isinstance(column, Identifier):  # which the check refuses
        return pd.Series(values)
    if values.dtype.kind in "UO" or isinstance(column, TEXTS):
        known = getattr(column, "categories", ())
        most = cells.longest(values.dtype) if isinstance(column, TEXTS) else np.inf
        texts = (cells.text(value, most) for value in values)
        held = pd.Series([None if text == "" and text not in known else text for text in texts], dtype="str")
        if isinstance(column, Datetime) and not (read := cells.instants(held)).wrong.any():
            return pd.Series(read.cells.astype("datetime64[us]")).mask(read.missing)
        return _numbers(held) if values.dtype.kind == "O" and isinstance(column, Integer | Continuous) else held
    if values.dtype.kind == "M":
        return pd.Series(values.astype("datetime64[us]"))
    if values.dtype.kind == "f" and isinstance(column, Boolean | Integer):
        return _whole(values, column)
    return pd.Series(values)


def plain(series: Series, column: Column) -> NDArray[Any]:
    """The inverse of `typed`: an array without objects. Missing is empty text, NaN or NaT."""
    if isinstance(column, TEXTS):
        texts = ["" if text is None else text for text in cells.texts(series)]
        return np.array(texts, dtype=np.str_) if texts else np.empty(0, "<U1")
    try:
        if isinstance(column, Datetime):
            return series.to_numpy("datetime64[us]")
        if isinstance(column, Continuous) or column.missing:  # type: ignore[union-attr]
            return series.to_numpy(np.float64, na_value=np.nan)
        return series.to_numpy(np.bool_ if isinstance(column, Boolean) else np.int64)
    except (TypeError, ValueError):
        raise BadInput(f"column {column.name!r}: has cells of another kind; validate the records") from None


def check(column: Column) -> None:
    """Refuse categories that an array of text cannot tell from others."""
    if not isinstance(column, Categorical | Ordinal):
        return
    if any(text.endswith("\0") for text in column.categories) or (column.missing and "" in column.categories):
        raise BadInput(f"column {column.name!r}: .npz cannot hold empty categories or ones that end with NUL; write a folder")  # fmt: skip


def _whole(values: NDArray[Any], column: Boolean | Integer) -> Series:
    """Floats as what they stand for, where all do."""
    held = pd.Series(values)
    known = held.dropna()
    fits = known.isin([0, 1]) if isinstance(column, Boolean) else (known == np.rint(known)) & (known.abs() <= 2**53)
    if not fits.all():
        return held
    held = held.astype("boolean" if isinstance(column, Boolean) else "Int64")
    return held if held.isna().any() else held.astype("bool" if isinstance(column, Boolean) else "int64")


def _numbers(texts: Series) -> Series:
    """Each text by itself: the number that it is, or the text."""
    read = [None if text is None else cells.number(text) for text in cells.texts(texts)]
    kept = [text if number is None else number for text, number in zip(texts, read, strict=True)]
    return pd.Series(kept, dtype=object)


FILE, LABELS = "file", dicom.LABELS
ENDINGS = (*pixels.ENDINGS, dicom.ENDING)
NAMED = 20  # most files that one message names
MOST_GREY = 255  # of 8 bits
OURS = re.compile(r"\d{9,}\.png|labels\.csv(\.neutralised\.json)?")  # what `write` leaves in a folder


@dataclass(frozen=True)
class Listed:
    """The files of the records, in order, and the columns that a list holds of them."""

    files: tuple[Path, ...]
    table: pd.DataFrame


def read(folder: Path, schema: Schema) -> pd.DataFrame:
    """The records that the list names, or all pictures where the headers of DICOM files hold what there is to list.

    Pictures that no line names are left out, with a warning. Raises `BadInput` that names the file.
    """
    column, found = column_of(schema), listed(folder, schema)
    tagged = [other for other in _others(schema) if other.name not in found.table]
    if tagged:
        _check_tagged(found.files, tagged, folder)
    names = tuple(other.name for other in tagged)
    cells, values = np.empty(len(found.files), object), {name: np.empty(len(found.files), object) for name in names}
    depths = set[bool]()

    def one(file: Path) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        if file.suffix.lower() == dicom.ENDING:
            return dicom.read(file, column, names)
        made, deep = pixels.read(file, column)
        depths.add(deep)
        return made, {}

    for row, (cell, tags) in enumerate(each(found.files, one, folder)):
        cells[row] = cell
        for name in names:
            values[name][row] = tags[name]
    if column.window is not None and len(depths) > 1:
        warnings.warn(
            f"{folder}: some pictures have 8 bits and others 16, but one window applies to all: rescale them to the same range",
            stacklevel=2,
        )
    if column.window is not None and depths == {False} and column.window[1] > MOST_GREY:
        warnings.warn(
            f"{folder}: the pictures have 8 bits, so no value is above {MOST_GREY}, but the window ends at {column.window[1]:g}: they "
            "become darker than they are. Leave window out, or declare one within 8 bits",
            stacklevel=2,
        )
    made: dict[str, Any] = {other.name: typed(values[other.name], other) for other in tagged}
    made[column.name] = pd.Series(cells, dtype=object)
    made |= {str(name): found.table[name] for name in found.table}
    extra = [name for name in made if name not in schema.names]  # for the pre-check to refuse
    return pd.DataFrame({name: made[name] for name in (*schema.names, *extra)})


def each(files: Sequence[Path], read: "Callable[[Path], Any]", folder: Path) -> Iterator[Any]:
    """What `read` returns for each file that it can read. At the end, or after `NAMED` that it cannot read, one `BadInput` names these."""
    faults: dict[str, list[Path]] = {}
    for file in files:
        try:
            found = read(file)
        except BadInput as error:
            faults.setdefault(str(error).removeprefix(f"{file}: "), []).append(file)
            if sum(map(len, faults.values())) == NAMED:
                break
        else:
            yield found
    wrong = [file for found in faults.values() for file in found]
    if len(wrong) == 1:
        raise BadInput(f"{wrong[0]}: {next(iter(faults))}")
    if wrong:
        told = ". ".join(
            f"{', '.join(file.relative_to(folder).as_posix() for file in found)}: {fault}"
            for fault, found in faults.items()
        )
        raise BadInput(f"{folder}: {f'the first {NAMED} faults: ' * (len(wrong) == NAMED)}{told}")


def listed(folder: Path, schema: Schema) -> Listed:
    """Which pictures count; each is there, inside the folder, and named once."""
    held = pictures(folder)
    path = list_of(folder)
    if path is None:
        if not held:
            raise BadInput(
                f"{folder}: the folder has no pictures ({', '.join(ENDINGS)}) and no {LABELS}{unnamed(folder)}"
            )
        if told := unnamed(folder):
            warnings.warn(f"{folder}: some files are left out{told}", stacklevel=2)
        for name in held:
            _real(folder, name, str(folder / name))
        return Listed(tuple(folder / name for name in held), pd.DataFrame(index=range(len(held))))
    table = _table(path, schema)
    seen: dict[str, int] = {}
    files, absent, twice = [], [], []
    for row, name in enumerate(table[FILE].astype(object)):
        real = _named(folder, name, f"{path}: record {row + 1}")
        absent += [] if os.path.isfile(real) else [str(row + 1)]
        twice += [f"{seen[real] + 1} and {row + 1}"] if real in seen else []
        seen.setdefault(real, row)
        files.append(folder / name)
    if twice:
        raise BadInput(f"{path}: records {errors.listed(twice, 20)} name the same picture; keep one record per picture")
    if absent:
        records = f"record{'s' * (len(absent) > 1)} {errors.listed(absent, 20)}"
        raise BadInput(f"{path}: {records}: no such {FILE} in {folder}; add it, or take the line out")
    if set(held) - {file.relative_to(folder).as_posix() for file in files}:
        warnings.warn(f"{path} does not name all pictures in the folder: the others are left out", stacklevel=2)
    return Listed(tuple(files), table.drop(columns=FILE))


def pictures(folder: Path) -> list[str]:
    """The relative names of all picture files in a folder and the folders in it, sorted; hidden ones do not count."""
    return sorted(path.relative_to(folder).as_posix() for path in _walked(folder) if _is_picture(path))


def unnamed(folder: Path) -> str:
    """What to add to a message if a folder holds DICOM files whose names do not end in .dcm; otherwise empty."""
    if any(not _is_picture(path) and dicom.is_one(path) for path in _walked(folder)):
        return f"; there are DICOM files whose names do not end in {dicom.ENDING}: rename them"
    return ""


def _walked(folder: Path) -> Iterator[Path]:
    """All files in a folder and the folders in it, but for hidden ones."""
    for place, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if not name.startswith((".", "__"))]
        yield from (Path(place) / name for name in names if not name.startswith("."))


def _is_picture(path: Path) -> bool:
    return path.name.lower().endswith(ENDINGS)


def list_of(folder: Path) -> Path | None:
    """The list of labels: labels.csv, or the only CSV file there is."""
    lists = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".csv" and not path.name.startswith("."))
    named = [path for path in lists if path.name == LABELS]
    if len(lists) > 1 and not named:
        raise BadInput(
            f"{folder}: has {len(lists)} CSV files. In a folder of pictures, call the one with the labels {LABELS}. A folder of linked "
            "tables must hold nothing else. Of several tables that are not linked, give one file at a time"
        )
    found = next(iter((*named, *lists)), None)
    if found is not None:
        _real(folder, found.name, str(found))
    return found


def files(folder: Path) -> list[str]:
    """The relative names of everything that `read` may look at, sorted."""
    found = list_of(folder)
    return sorted([*pictures(folder), *([] if found is None else [found.name])])


def check_replaced(folder: Path) -> None:
    """Refuse to replace a folder that holds anything but what `write` leaves."""
    if any(not OURS.fullmatch(path.name) or path.is_dir() for path in folder.iterdir()):
        raise BadInput(f"{folder}: has files that synthdp did not write; choose another folder")


def write(chunks: Iterable[pd.DataFrame], folder: Path, schema: Schema) -> int:
    """See `sources.write`: 000000001.png and so on, and labels.csv."""
    column = column_of(schema)
    if column.channels not in pixels.MODES:
        raise BadInput(f"column {column.name!r}: PNG allows 1 to 4 channels, not {column.channels}; write .npz")
    return csvfile.write(_drawn(chunks, folder, column), folder / LABELS, _listing(schema))


def _drawn(chunks: Iterable[pd.DataFrame], folder: Path, column: Image) -> Iterator[pd.DataFrame]:
    row = 0
    for chunk in chunks:
        names = []
        for cell in chunk[column.name]:
            row += 1
            names.append(f"{row:09d}.png")
            pixels.write(picture(cell, column), folder / names[-1])
        yield chunk.drop(columns=column.name).assign(**{FILE: names})


def _table(path: Path, schema: Schema) -> pd.DataFrame:
    table = csvfile.read(path, _listing(schema))
    if FILE not in table:
        raise BadInput(f"{path}: needs a column {FILE!r} with the pictures' names, relative to the folder")
    if column_of(schema).name in table:
        raise BadInput(
            f"{path}: column {column_of(schema).name!r} is the image column; call the column of the pictures' names {FILE!r}"
        )
    return table


def _listing(schema: Schema) -> Schema:
    """The schema of the list of labels: `file`, then all columns but the image."""
    if FILE in schema.names:
        raise BadInput(f"schema: a column named {FILE!r} would be taken for the pictures' names; rename it")
    names = Categorical(name=FILE, categories=LEARN)
    return replace(schema, columns=(names, *_others(schema)))


def _others(schema: Schema) -> list[Column]:
    return [column for column in schema.columns if not isinstance(column, Image)]


def _check_tagged(files: tuple[Path, ...], tagged: list[Column], folder: Path) -> None:
    names = ", ".join(repr(column.name) for column in tagged)
    if any(file.suffix.lower() != dicom.ENDING for file in files) or not files:
        if list_of(folder) is None:
            raise BadInput(
                f"{folder}: has no {LABELS}; it names each picture in its column {FILE!r}, and has the columns {names} beside it"
            )
        raise BadInput(f"{folder}: {LABELS} lacks columns {names} (add them, or take them out of the schema)")
    dicom.check_keywords([column.name for column in tagged], folder)


def _named(folder: Path, name: Any, line: str) -> str:
    """Where the file really is that a line names."""
    if not isinstance(name, str) or not name:
        raise BadInput(f"{line}: has no name in column {FILE!r}")
    if not name.isprintable():
        raise BadInput(f"{line}: its {FILE} has characters that cannot be shown")
    if not name.lower().endswith(ENDINGS):
        raise BadInput(f"{line}: its {FILE} must end in {', '.join(ENDINGS)}")
    return _real(folder, name, f"{line}: its {FILE}")


def _real(folder: Path, name: str, what: str) -> str:
    """Where a name leads, which must be within the folder, through links too."""
    parts = {*PurePosixPath(name).parts, *PureWindowsPath(name).parts}
    if not (PurePosixPath(name).is_absolute() or PureWindowsPath(name).anchor or ".." in parts):
        root = os.path.realpath(folder)
        real = os.path.realpath(os.path.join(root, name))
        if real.startswith(root.rstrip(os.sep) + os.sep):
            return real
    raise BadInput(f"{what} leads outside the folder; give a path within {folder}")
