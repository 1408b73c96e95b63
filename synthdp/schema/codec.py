"""From a table to an array of codes and back, by the schema alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema.bins import Bins
from synthdp.schema.coders import Coder, Codes, NumericCoder, coder_of, cut
from synthdp.schema.columns import Image
from synthdp.schema.schema import Schema
from synthdp.schema.tied_columns import ties

__all__ = ["Codec", "Codes", "Picture"]


class Codec:
    """A pure function of a schema with nothing left to learn (`BadInput` otherwise).

    Column j of the codes is `names[j]`, with values 0 .. sizes[j] - 1: categories in order; or false, true; or bins,
    then atoms. Where a column may be missing, that is the last code. Every code stands for some value, and
    `encode(decode(codes)) == codes`. An image takes one column of codes 0 .. 255 per value, in the order (height, width,
    channels); `picture` tells which. Codes are int32, or uint8 where there is an image and every size is at most 256.
    With `cells`, the bins of numeric columns are cut further into about this many each; `coarse` leads back.

    Where honoured rules tie columns (`tied_columns`) a code stands for several of them, or for a gap. Every decoded record keeps those
    rules, whatever the codes, and the law above holds for the codes of records that keep them.
    """

    def __init__(self, schema: Schema, cells: int = 0) -> None:
        learned = schema.learned
        if learned:
            name, item = learned[0]
            raise BadInput(f"column {name!r}: {item} is still marked learn; declare it or let a fit buy it")
        self.schema, self.cells = schema, cells
        self.columns = schema.coded
        self._ties = ties(schema) if schema.rules and not schema.tables else None
        self._single = {c.name: coder_of(c, 0 if c.name in self.ordered else cells) for c in schema.modelled}
        changed = {column.name for column in self.columns if column not in schema.modelled}
        self._coders = tuple(coder_of(c) if c.name in changed else self._single[c.name] for c in self.columns)
        self._widths = tuple(coder.width for coder in self._coders)
        names: list[str] = []
        sizes: list[int] = []
        self.picture: Picture | None = None
        for column, coder in zip(self.columns, self._coders, strict=True):
            if isinstance(column, Image):
                self.picture = Picture(column, len(names))
                names += [f"{column.name}[{place}]" for place in range(column.pixels)]
            else:
                names.append(column.name)
            sizes += [coder.size] * coder.width
        self.names: tuple[str, ...] = tuple(names)
        self.sizes: tuple[int, ...] = tuple(sizes)
        self.dtype: Any = np.uint8 if self.picture is not None and max(sizes) <= 256 else np.int32

    def encode(self, frame: pd.DataFrame) -> Codes:
        """Codes (rows, columns), row i of record i alone. Total: every cell has a code.

        Out of bounds and infinite: the nearest end. Unknown category: `other`, else missing, else the first. Unreadable
        or missing: missing where that is allowed, else the lower bound, false, or `other`, else the first category.
        Raises `BadInput` only for absent or duplicate columns.
        """
        held = list(frame.columns)
        for name in self._single:
            if held.count(name) != 1:
                problem = "there twice; keep one" if name in held else "missing; add it"
                raise BadInput(f"column {name!r} must be in the table exactly once, but it is {problem}")
        tied = self._encode_tied(frame)
        codes: Codes = np.empty((len(frame), len(self.names)), dtype=self.dtype)
        for name, coder, places in self._blocks():
            found = tied[name] if name in tied else coder.encode(frame[name])
            codes[:, places] = found.reshape(len(frame), coder.width)
        return codes

    def decode(
        self,
        codes: NDArray[Any],
        rng: np.random.Generator,
        *,
        first_row: int = 0,
        within: Mapping[str, Bins] | None = None,
    ) -> pd.DataFrame:
        """Records (rows) with the schema's columns, dtypes, categories and bounds; uniform within a bin.

        Identifiers are made anew from `first_row` on, so that chunks of one table do not repeat them. `within` has, for some
        numeric columns, bins cut to a range (`schema.where`): values are drawn from those.
        """
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.shape[1] != len(self.names):
            raise BadInput(f"codes must have shape (rows, {len(self.names)}), got {codes.shape}")
        if codes.size and (codes.min() < 0 or (codes.max(axis=0) >= np.array(self.sizes)).any()):
            raise BadInput("codes must lie between 0 and the size of their column minus 1")
        made = self._decode_tied(codes, rng)
        for name, coder, places in self._blocks():
            if coder.width > 1:
                made[name] = coder.decode(codes[:, places].astype(self.dtype), rng)
            elif name in self._single and name not in made:
                made[name] = cut(coder, (within or {}).get(name)).decode(codes[:, places.start].astype(np.int32), rng)
        fresh = (
            [f"S{first_row + row + 1:09d}" for row in range(len(codes))] if len(made) < len(self.schema.names) else []
        )
        columns = {name: made[name] if name in made else pd.array(fresh, dtype="str") for name in self.schema.names}
        return pd.DataFrame(columns)

    def coarse(self) -> tuple[NDArray[np.int64] | None, ...]:
        """For every column of the codes, the code that `Codec(schema)` has for what each code stands for; None where that is
        the same code."""
        if not self.cells:
            return (None,) * len(self.names)
        plain = Codec(self.schema)
        found: list[NDArray[np.int64] | None] = []
        for mine, its in zip(self._coders, plain._coders, strict=True):
            way = None
            if isinstance(mine, NumericCoder) and isinstance(its, NumericCoder) and mine.size > its.size:
                way = mine.onto(its)
            found += [way] * mine.width
        return tuple(found)

    def edges(self, name: str) -> NDArray[Any]:
        """Ascending edges (bins + 1,) of a numeric column: bin i holds edges[i] <= x < edges[i + 1].

        The last edge of a continuous column or a datetime is its upper bound, which the last bin holds; that of an
        integer column is its upper bound + 1. Datetimes: datetime64[us]. Atoms are apart: see `atoms`.
        """
        coder = self._coder_of(name)
        if not isinstance(coder, NumericCoder):
            raise BadInput(f"column {name!r} has no bin edges, because it is not numeric")
        return coder.edges()

    def atoms(self, name: str) -> NDArray[Any]:
        """The atoms of a numeric column, ascending: the codes after the bins; (0,) where it has none."""
        coder = self._coder_of(name)
        return coder.atoms() if isinstance(coder, NumericCoder) else np.empty(0)

    @property
    def ordered(self) -> tuple[str, ...]:
        """The columns whose values honoured orders tie to one another."""
        gaps = None if self._ties is None else self._ties.gaps
        return () if gaps is None else gaps.order

    def values(self, name: str) -> int:
        """How many codes a modelled column has by itself, which are those of `names` where nothing ties it."""
        return self.sizes[self.names.index(name)] if name in self.ordered else self._single[name].size

    def joint(self, name: str, shares: NDArray[np.float64]) -> tuple[str, NDArray[np.float64]]:
        """Figures (codes,) of a modelled column by itself, as figures of the column of `names` that it is coded in."""
        for each in () if self._ties is None else self._ties.compounds:
            if name in each.names:
                return each.column.name, shares[each.combinations[:, each.names.index(name)]]
        return name, shares

    def _encode_tied(self, frame: pd.DataFrame) -> dict[str, Codes]:
        """Codes of compounds, and of gaps."""
        found: dict[str, Codes] = {}
        if self._ties is None:
            return found
        for each in self._ties.compounds:
            single = [self._single[name].encode(frame[name]) for name in each.names]
            found[each.column.name] = each.encode(np.stack(single, axis=1))
        if self._ties.gaps is not None:
            read = {name: self.numeric(name).read(frame[name]) for name in self._ties.gaps.order}
            points = {name: values for name, (values, _) in read.items()}
            gone = {name: missing for name, (_, missing) in read.items()}
            for name, codes in self._ties.gaps.encode(points, gone).items():
                found[name] = self.numeric(name, coded=True).or_missing(codes, gone[name])
        return found

    def _decode_tied(self, codes: Codes, rng: np.random.Generator) -> dict[str, Any]:
        """Cells of the columns that are tied."""
        made: dict[str, Any] = {}
        if self._ties is None:
            return made
        for each in self._ties.compounds:
            single = each.decode(codes[:, self.names.index(each.column.name)])
            for place, name in enumerate(each.names):
                made[name] = self._single[name].decode(single[:, place], rng)
        if self._ties.gaps is not None:
            known = {
                name: self.numeric(name, coded=True).known(codes[:, self.names.index(name)].astype(np.int32))
                for name in self._ties.gaps.order
            }
            inner = {name: codes for name, (codes, _) in known.items()}
            gone = {name: missing for name, (_, missing) in known.items()}
            for name, points in self._ties.gaps.decode(inner, gone, rng).items():
                made[name] = self.numeric(name).cells(points, gone[name])
        return made

    def numeric(self, name: str, *, coded: bool = False) -> NumericCoder:
        """The coder of a numeric column by itself, or of the column that it is `coded` in; `BadInput` for any other."""
        coder = self._coder_of(name) if coded else self._single[name]
        if not isinstance(coder, NumericCoder):
            raise BadInput(f"column {name!r} is not numeric")
        return coder

    def _blocks(self) -> Iterator[tuple[str, Coder, slice]]:
        """Name, coder and place in the codes of every modelled column."""
        ends = np.cumsum(self._widths)
        for column, coder, end in zip(self.columns, self._coders, ends, strict=True):
            yield column.name, coder, slice(int(end) - coder.width, int(end))

    def _coder_of(self, name: str) -> Coder:
        for column, coder in zip(self.columns, self._coders, strict=True):
            if column.name == name:
                return coder
        known = ", ".join(column.name for column in self.columns)
        raise BadInput(f"no modelled column named {name!r}; known: {known}")


@dataclass(frozen=True)
class Picture:
    """Where the image lies in the codes, and its size."""

    column: Image
    start: int  # place of its first value among the codes

    @property
    def places(self) -> slice:
        """Its columns of the codes."""
        return slice(self.start, self.start + self.column.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, channels)."""
        return self.column.height, self.column.width, self.column.channels
