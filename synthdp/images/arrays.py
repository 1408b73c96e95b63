"""Records with pictures in one .npz file: an array per column of the schema, `image` as (n, H, W) or (n, H, W, C)."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synthdp.errors import BadInput
from synthdp.images import npz, picture_folder, pixels
from synthdp.schema.columns import Image
from synthdp.schema.schema import Schema

ENDING = ".npz"


def read(path: Path, schema: Schema) -> pd.DataFrame:
    """The records. Raises `BadInput` where an array is absent, too many, or not of a shape that fits the others."""
    found = npz.headers(path)
    _check_names(found, schema, path)
    counts = {name: header.shape[0] if header.shape else 0 for name, header in found.items()}
    first = next(iter(counts))
    apart = [name for name, count in counts.items() if count != counts[first]]
    if apart:
        raise BadInput(
            f"{path}: the arrays {first!r} and {apart[0]!r} have different lengths; every record needs a value in each"
        )
    made = {}
    for column in schema.columns:
        header = found[column.name]
        if isinstance(column, Image):
            made[column.name] = _pictures(path, header, column)
            continue
        if len(header.shape) != 1:
            raise BadInput(
                f"{path}: array {column.name!r} has {len(header.shape)} dimensions, expected one: a value for each record"
            )
        made[column.name] = picture_folder.typed(npz.array(path, header), column)
    return pd.DataFrame(made)


def write(chunks: Iterable[pd.DataFrame], part: Path, schema: Schema) -> int:
    """See `sources.write`. Pictures wait on disk, unpacked and without a name, for their number to be known."""
    column, rows = pixels.column_of(schema), 0
    others = [other for other in schema.columns if other is not column]
    for other in others:
        picture_folder.check(other)
    held: dict[str, list[Any]] = {other.name: [] for other in others}
    with tempfile.TemporaryFile(dir=part.parent) as raw:
        for chunk in chunks:
            for cell in chunk[column.name]:
                raw.write(pixels.picture(cell, column).tobytes())
            for other in others:
                held[other.name].append(picture_folder.plain(chunk[other.name], other))
            rows += len(chunk)
        raw.seek(0)
        none: Any = pd.Series([], dtype=object)
        arrays: dict[str, Any] = {
            name: (np.concatenate(parts) if parts else picture_folder.plain(none, schema.column(name)), None)
            for name, parts in held.items()
        }
        arrays[column.name] = (np.broadcast_to(np.uint8(0), (rows, *column.shape)), raw)
        npz.write(part, {name: arrays[name] for name in schema.names})
    return rows


def _pictures(path: Path, header: npz.Header, column: Image) -> Any:
    """An object array of pictures."""
    shape, where = header.shape, f"{path}, array {column.name!r}"
    if len(shape) not in (3, 4):
        raise BadInput(f"{where}: has shape {shape}, expected (n, height, width) or (n, height, width, channels)")
    channels = shape[3] if len(shape) == 4 else 1
    if channels != column.channels:
        raise BadInput(f"{where}: has {channels} channels, but the schema declares {column.channels}")
    pixels.check_size(shape[1:3], column, where)
    cells, row = np.empty(shape[0], object), 0
    for block in npz.blocks(path, header):
        if shape[1:3] == (column.height, column.width):
            done = pixels.whole(block, column, where).reshape(len(block), *column.shape)
        else:
            done = np.stack([pixels.prepared(picture, column, where) for picture in block])
        for picture in done:
            cells[row], row = picture, row + 1
    return cells


def _check_names(found: dict[str, npz.Header], schema: Schema, path: Path) -> None:
    lacking = [name for name in schema.names if name not in found]
    if lacking:
        raise BadInput(f"{path}: lacks arrays {', '.join(map(repr, lacking))} that the schema declares as columns")
    extra = [name for name in found if name not in schema.names]
    if extra:
        raise BadInput(
            f"{path}: arrays that the schema does not know: {', '.join(map(repr, extra))}; take them out, or declare them"
        )
