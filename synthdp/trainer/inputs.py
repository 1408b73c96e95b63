"""What a module sees of a record: a public function of the schema, row by row. And arrays as tables, tables as tensors."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from synthdp.errors import BadInput
from synthdp.pate.code_features import table
from synthdp.schema.codec import Codec
from synthdp.schema.columns import LEARN, Categorical, Column, Continuous, Datetime, Image, Integer, Ordinal
from synthdp.schema.schema import Schema

BINS = 256  # of a numeric column whose bins the schema leaves open
CPU = torch.device("cpu")
NUMBERS, BOOLS = (int, float, np.integer, np.floating), (bool, np.bool_)


class Inputs:
    """Codes (rows, columns) as inputs and targets.

    Inputs of a table are (rows, width) float32: a block of zeros and ones for each categorical column, one number from 0 (lowest)
    to 1 (highest) for each other one, with a flag where it may be missing; the target is left out. A picture is (rows, channels,
    height, width) from 0 to 1. Targets are (rows,): the code of a class, a number from 0 to 1; without a target column, the inputs.
    """

    def __init__(self, codec: Codec, target: str | None, device: torch.device = CPU) -> None:
        self._picture = codec.picture
        self._target = None if target is None else codec.names.index(target)
        numeric = target is not None and isinstance(codec.schema.column(target), Integer | Continuous)
        self._numbers = _on(table(codec, self._target), device)[:, 0] if numeric and self._target is not None else None
        if self._picture is not None:
            return
        places = [place for place in range(len(codec.names)) if place != self._target]
        tables = {place: _on(table(codec, place), device) for place in places}
        # These are looked up together, in one long table.
        self._single = [place for place in places if tables[place].shape[1] == 1]
        wide = [place for place in places if place not in self._single]
        sizes = [len(tables[place]) for place in self._single]
        self._starts = torch.tensor(np.cumsum([0, *sizes])[:-1], device=device)
        self._long = (
            torch.cat([tables[place][:, 0] for place in self._single]) if sizes else torch.zeros(0, device=device)
        )
        self._wide = [(place, tables[place]) for place in wide]
        entries = [place for place in (*self._single, *wide) for _ in range(tables[place].shape[1])]
        self._order = torch.tensor(np.argsort(entries, kind="stable"), device=device)

    def rows(self, codes: Tensor) -> Tensor:
        """The inputs, float32."""
        if self._picture is not None:
            height, width, channels = self._picture.shape
            greys = codes[:, self._picture.places].reshape(-1, height, width, channels)
            return greys.permute(0, 3, 1, 2).to(torch.float32) / 255
        single = self._long[codes[:, self._single].long() + self._starts]
        return torch.cat([single, *(held[codes[:, place].long()] for place, held in self._wide)], 1)[:, self._order]

    def targets(self, codes: Tensor, rows: Tensor) -> Tensor:
        """The targets, of these inputs."""
        if self._target is None:
            return rows
        found = codes[:, self._target].long()
        return found if self._numbers is None else self._numbers[found]


def _on(values: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)


# ---- The schema of a training, and arrays in the place of tables.


def settled(schema: Schema, target: str | None) -> Schema:
    """The schema that a module is trained by: without rules, since nothing is drawn, and with fine bins where it leaves them open.

    Raises `BadInput` for what a module cannot be trained by.
    """
    if schema.learned:
        name, item = schema.learned[0]
        tree = getattr(schema.column(name), "tree", None)
        if tree is not None and tree.codes != LEARN:
            raise BadInput(
                f"column {name!r} has a tree, so a fit would learn which of its codes to keep, but a module is made for inputs that are "
                "known: take the tree out"
            )
        raise BadInput(
            f"column {name!r} leaves its {item} to learn, but a module is made for inputs that are known: declare it, or leave the "
            "column out (kind: ignore)"
        )
    others = [column.name for column in schema.modelled if column.name != target]
    if schema.image is not None and others != [schema.image.name]:
        beside = next(name for name in others if name != schema.image.name)
        raise BadInput(f"a module sees the picture alone: leave column {beside!r} out of the schema (kind: ignore)")
    if not others:
        raise BadInput(f"the schema has no column beside the target {target!r}, so there is nothing to learn it from")
    columns = tuple(
        replace(column, bins=BINS)
        if isinstance(column, Integer | Continuous | Datetime) and column.bins is None
        else column
        for column in schema.columns
    )
    return replace(schema, columns=columns, rules=(), honoured=None)


def _is_size(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def units_of(schema: Schema) -> int:
    """The declared number of units, which the batch is a share of; raises `BadInput` if none is declared."""
    if isinstance(schema.units, int):
        return schema.units
    raise BadInput("declare units in the schema, a public count or estimate: the batch is a share of them")


def array_schema(
    shape: Sequence[int],
    *,
    units: int,
    classes: int | None = None,
    bounds: tuple[float, float] | None = None,
    target_bounds: tuple[float, float] | None = None,
    bins: int = 1000,
) -> Schema:
    """The schema of arrays (x, y), where each row is a unit; all of it is declared public by the calling program.

    `shape` is that of one row of x: (width,) numbers within `bounds`, which are resolved in `bins` steps, or a uint8 picture
    (height, width) or (height, width, channels). y holds `classes` classes as 0, 1, ..., or numbers within `target_bounds`;
    without both there is no y. `units` is the number of rows, or a public estimate.
    """
    if not isinstance(shape, tuple | list) or any(not _is_size(each) for each in shape):
        raise BadInput(f"shape must list whole numbers of 1 or more, such as (8,) or (28, 28), got {shape!r}")
    if len(shape) == 1 and bounds is None:
        raise BadInput("bounds must be given for rows of numbers: the least and the largest that there may be")
    if len(shape) not in (1, 2, 3) or (classes is not None and target_bounds is not None):
        raise BadInput("shape must have one to three numbers, and y either classes or target_bounds")
    columns: list[Column]
    if len(shape) == 1:
        columns = [Continuous(name=f"x{place}", bounds=bounds or (0, 1), bins=bins) for place in range(shape[0])]
    else:
        columns = [Image(name="x", height=shape[0], width=shape[1], channels=shape[2] if len(shape) == 3 else 1)]
    if classes is not None:
        columns.append(Categorical(name="y", categories=tuple(str(label) for label in range(classes))))
    if target_bounds is not None:
        columns.append(Continuous(name="y", bounds=target_bounds, bins=bins))
    targets = ("y",) if len(columns) > 1 and columns[-1].name == "y" else ()
    return Schema(columns=tuple(columns), units=units, targets=targets)


def framed(data: Any, schema: Schema, target: str | None, *, clamped: bool = False) -> pd.DataFrame:
    """A table as it is; arrays (x, y), or x alone, as a table. Raises `BadInput` where their form is not the schema's, and where y holds
    classes that do not exist, unless `clamped`: then these count as missing."""
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, str | Path):
        raise BadInput("fit takes a frame or arrays, not the name of a file: synthdp.read(path, schema) reads it")
    x, y = data if isinstance(data, tuple) else (data, None)
    x = np.asarray(x) if hasattr(x, "__array__") else list(x)  # NumPy gives the cells of lists a type in common
    columns = [column for column in schema.modelled if column.name != target]
    if schema.image is not None:
        cells = np.empty(len(x), object)
        for place, picture in enumerate(x):
            cells[place] = picture
        made = pd.DataFrame({schema.image.name: cells})
    else:
        table = np.array(x, object) if isinstance(x, list) else x
        if table.ndim != 2 or table.shape[1] != len(columns):
            # How many rows there are is the records' secret.
            got = f"{table.ndim} dimensions" if table.ndim != 2 else f"{table.shape[1]} columns"
            raise BadInput(f"x must have shape (rows, {len(columns)}), a column for each of the schema's, got {got}")
        made = pd.DataFrame({column.name: table[:, place] for place, column in enumerate(columns)})
    if y is None:
        return made
    if target is None:
        raise BadInput("the schema has no target, so give x alone")
    if np.shape(y) != (len(x),):
        raise BadInput("y must have shape (rows,), one target for each row of x")
    return made.assign(**{target: _labels(y, schema.column(target), clamped=clamped)})


def _labels(y: Any, column: Column, *, clamped: bool) -> Any:
    """Categories in place of class numbers, cell by cell, as one missing cell makes all others floats or objects. Other cells stay."""
    if not isinstance(column, Categorical | Ordinal):
        return np.asarray(y)
    known: dict[Any, str | None] = dict(enumerate(column.categories))
    y = np.asarray(y) if isinstance(y, Tensor) else y
    cells: list[Any] = y.tolist() if isinstance(y, np.ndarray) else list(y)
    places = [place for place, cell in enumerate(cells) if isinstance(cell, NUMBERS) and not isinstance(cell, BOOLS)]
    if not clamped and any(cells[place] == cells[place] and cells[place] not in known for place in places):
        raise BadInput(f"y must hold the classes 0 to {len(known) - 1}, but it holds other numbers too")
    for place in places:
        cells[place] = known.get(cells[place])
    return pd.Series(cells, dtype=object).to_numpy()
