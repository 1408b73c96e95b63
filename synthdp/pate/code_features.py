"""Codes as numbers that classifiers take: a public function of the schema, row by row."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec, Codes
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Integer, Ordinal
from synthdp.schema.schema import Schema

Rows = NDArray[np.float32]
ENCODINGS = ("one_hot", "codes")


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """(rows, columns) codes of the whole table, target included -> (rows, width) float32 in [0, 1] or, for `codes`, codes.

    `one_hot`: a categorical column is a block of zeros and ones; an ordered one (numbers, instants, ordinals, truth values) is
    the middle of its bin between its bounds, and a flag where it may be missing (then the value is 0). `codes`: one entry per
    column, its code, for trees. A picture has an entry for each of its values, from 0 to 1, in the order (height, width, channels). The
    target's column is never looked at, so that queries may hold any code there.
    """

    tables: tuple[NDArray[np.float32], ...]  # per column but the target: code -> its entries, (size, entries)
    places: tuple[int, ...]

    @property
    def width(self) -> int:
        """Entries of a row."""
        return sum(table.shape[1] for table in self.tables)

    def __call__(self, codes: Codes) -> Rows:
        """See the class."""
        codes = np.asarray(codes)
        rows = np.empty((len(codes), self.width), np.float32)
        start = 0
        for place, table in zip(self.places, self.tables, strict=True):
            stop = start + table.shape[1]
            rows[:, start:stop] = table[codes[:, place]]
            start = stop
        return rows


def features(codec: Codec, target: str, encoding: str = "one_hot") -> Features:
    """The features of every column but `target`; raises `BadInput` for an unknown encoding or where no column is left."""
    if encoding not in ENCODINGS:
        raise BadInput(f"features must be one of {', '.join(ENCODINGS)}, or a function of codes, got {encoding!r}")
    place = codec.names.index(target)
    others = tuple(index for index in range(len(codec.names)) if index != place)
    if not others:
        raise BadInput(
            f"the schema has no column beside the target {target!r}, so nothing could tell its classes apart"
        )
    return Features(tables=tuple(table(codec, index, encoding) for index in others), places=others)


def feature_map(given: Any, codec: Codec, target: str) -> Callable[[Codes], NDArray[np.float32]]:
    """Codes (rows, columns) -> features (rows, width) float32: by name, or a public function that the user brought."""
    if not callable(given):
        return features(codec, target, given)

    def mapped(codes: Codes) -> NDArray[np.float32]:
        found = np.asarray(given(codes), np.float32)
        if found.ndim != 2 or len(found) != len(codes):
            raise BadInput(
                f"features must map codes of shape ({len(codes)}, columns) to shape ({len(codes)}, width), got {found.shape}"
            )
        return found

    return mapped


def classes(schema: Schema, target: str) -> tuple[str, ...]:
    """The declared classes of the target, by code. Raises `BadInput` where it has none, or only one."""
    column = schema.column(target, "target")
    if isinstance(column, Boolean):
        found: tuple[str, ...] = ("false", "true")
    elif isinstance(column, Categorical | Ordinal):
        found = () if isinstance(column.categories, str) else column.categories
    else:
        raise BadInput(
            f"target {target!r} is {column.kind}; PATE votes on classes, so name a categorical, ordinal or boolean column"
        )
    if isinstance(column, Categorical) and isinstance(column.categories, str):
        raise BadInput(f"target {target!r}: its categories are marked learn, but the classes must be declared")
    if column.missing:
        raise BadInput(f"target {target!r} may be missing; drop those records and declare missing: false")
    if len(found) < 2:
        raise BadInput(f"target {target!r} has only one class; declare at least two")
    return tuple(found)


def check_frame(name: str, frame: Any) -> None:
    """Refuse what is not a pandas DataFrame, by the argument's name."""
    if not hasattr(frame, "columns") or not hasattr(frame, "drop"):
        raise BadInput(f"{name} must be a pandas DataFrame, got {type(frame).__name__}")


def public_schema(schema: Schema, target: str | None) -> Schema:
    """What public records must look like: the schema without its target and its identifiers, each record for itself."""
    kept = tuple(column for column in schema.modelled if column.name != target)
    if not kept:
        raise BadInput(
            f"the schema has no column beside the target {target!r}, so nothing could tell its classes apart"
        )
    return replace(
        schema, columns=kept, unit=None, max_records_per_unit=1, units=None, targets=(), rules=(), honoured=None
    )


def public_codes(codec: Codec, target: str | None, frame: Any) -> Codes:
    """The codes of public records, (rows, all columns): code 0 stands in the target's place, where nothing is known."""
    known = Codec(public_schema(codec.schema, target)).encode(frame)
    return known if target is None else np.insert(known, codec.names.index(target), 0, axis=1)


def table(codec: Codec, index: int, encoding: str = "one_hot") -> NDArray[np.float32]:
    """The entries of each code of one column, (size, entries): see `Features`."""
    name, size = codec.names[index], codec.sizes[index]
    if codec.picture is not None and index in range(len(codec.names))[codec.picture.places]:
        return np.arange(size, dtype=np.float32)[:, None] / np.float32(1 if encoding == "codes" else size - 1)
    column = codec.schema.column(name)
    if encoding == "codes":
        return np.arange(size, dtype=np.float32)[:, None]
    if isinstance(column, Categorical):
        return np.eye(size, dtype=np.float32)
    missing = bool(getattr(column, "missing", False))
    known = np.linspace(0, 1, size - missing, dtype=np.float32)
    if isinstance(column, Integer | Continuous | Datetime):
        known = _middles(codec, name)
    if not missing:
        return known[:, None]
    return np.stack([np.append(known, 0).astype(np.float32), np.eye(size, dtype=np.float32)[-1]], 1)


def _middles(codec: Codec, name: str) -> NDArray[np.float32]:
    """Middles of bins, then atoms, from 0 (lowest value) to 1 (highest)."""
    edges = codec.edges(name).astype(np.float64)
    whole = isinstance(codec.schema.column(name), Integer)  # then the last edge is the upper bound + 1
    middles = (edges[:-1] + edges[1:] - whole) / 2
    values = np.concatenate([middles, codec.atoms(name).astype(np.float64)])
    low, high = edges[0], edges[-1] - whole
    found: NDArray[np.float32] = ((values - low) / (high - low if high > low else 1.0)).astype(np.float32)
    return found
