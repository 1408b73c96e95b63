"""Teachers that need no training: each compares its records' mean embedding with that of generated rows.

Teacher t's score of a query q is its estimate of the witness function that tells both apart (Gretton et al. 2012, section 2.3),
mean of k(x, q) over its own records less the mean over generated rows, in units of k's deviation over generated rows. A
kernel on pairs of columns sees how columns go together in a handful of records, where a network would have to learn it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.seal.records import Codes
from synthdp.seal.resume import State
from synthdp.seal.teachers.protocols import Parts, Scores, Votes, check_row_by_row, public_rows

ROWS = 4096  # generated rows compared with the queries at a time
BLOCK = 1024  # records compared at a time: always so many, with padding, and
ASKED = 64  # always with so many queries: where vectors end, and threads share the work, never depends on the records
OFFSETS = (0, 1, 7, 32, 33)  # at which `check` puts public rows into a block
SMALLEST = 1e-6  # deviation of a kernel, over generated rows

Kernel = Callable[[Tensor, Tensor], Tensor]  # codes (rows, columns) and (queries, columns) -> (rows, queries)


@dataclass(frozen=True, kw_only=True)
class MeanEmbeddings:
    """`kernel(codes, queries)` compares (rows, columns) codes with (queries, columns) ones, each pair on its own: (rows, queries).

    It must be public: made of settings and of charged answers. `train(public)` takes the generated rows; nothing is learnt by
    steps, so that there is nothing to repeat.
    """

    functions: ClassVar[tuple[str, ...]] = ("kernel",)
    kernel: Kernel

    def check(self, codec: Codec) -> int:
        """Two classes: real, and generated."""
        rows = torch.from_numpy(public_rows(codec))
        check_row_by_row(lambda codes: self.kernel(codes, rows), rows, exact=True)  # rows move when a part grows
        if tuple(self.kernel(rows, rows[:3]).shape) != (len(rows), 3):
            raise BadInput("kernel must give one number per row and query")
        many = rows[torch.arange(BLOCK) % len(rows)]
        expected = compared(self.kernel, rows, rows)
        for offset in OFFSETS:
            size, queries = BLOCK - offset, len(rows) - offset % len(rows)
            places = (torch.arange(size) + offset) % len(rows)
            if not torch.equal(compared(self.kernel, many[offset:], rows[:queries]), expected[places, :queries]):
                raise BadInput("kernel must treat each row on its own; this one depends on where a row is in the batch")
        return 2

    def begin(self, parts: Parts, codec: Codec, classes: int, seed: bytes) -> "EmbeddingTeachers":  # noqa: ARG002
        """Teachers who have seen no generated row yet; they take no chances."""
        return EmbeddingTeachers(self, parts)


def public_embedding(kernel: Kernel, public: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of k(x, q) over public rows x, (queries,) float64 each; in blocks, so that memory stays small."""
    total = torch.zeros(len(queries), dtype=torch.float64)
    squares = torch.zeros_like(total)
    for start in range(0, len(public), ROWS):
        found = kernel(public[start : start + ROWS], queries).double()
        total += found.sum(0)
        squares += found.square().sum(0)
    mean = total / len(public)
    deviation = (squares / len(public) - mean.square()).clamp_min(0).sqrt().clamp_min(SMALLEST)
    return mean, deviation


def compared(kernel: Kernel, rows: Tensor, queries: Tensor) -> Tensor:
    """k of up to `BLOCK` rows and any number of queries, (rows, queries) float64, by calls of one public shape.

    Vectorised functions (exp, for one) round differently in the tail of a batch: were the batch as long as the records are
    many, one unit more would change the bits of other teachers. Rows are padded with code 0, queries with the last one.
    """
    padded = torch.zeros(BLOCK, rows.shape[1], dtype=rows.dtype)
    padded[: len(rows)] = rows
    found = []
    for start in range(0, len(queries), ASKED):
        places = torch.arange(start, start + ASKED).clamp(max=len(queries) - 1)
        found.append(kernel(padded, queries[places]).double()[: len(rows)])
    return torch.cat(found, 1)[:, : len(queries)]


class EmbeddingTeachers:
    """Teachers of one `MeanEmbeddings`."""

    classes = 2

    def __init__(self, kind: MeanEmbeddings, parts: Parts) -> None:
        self._kind, self._sizes = kind, parts.sizes
        self._codes = torch.from_numpy(np.ascontiguousarray(parts.codes))
        self._owner = torch.from_numpy(np.repeat(np.arange(len(parts.sizes)), parts.sizes))
        self._public: Codes | None = None

    @property
    def count(self) -> int:
        """As `Ensemble.count`."""
        return len(self._sizes)

    @property
    def trained(self) -> bool:
        """Whether there are generated rows to compare with."""
        return self._public is not None

    def train(self, public: Codes | None) -> None:
        """Take the generated rows; raises `BadInput` where there are none."""
        if public is None:
            raise BadInput("teachers of this kind compare records with generated rows: call train(public)")
        self._public = public

    def votes(self, queries: Codes) -> Votes:
        """1 where a teacher's records are nearer than the generated ones; an empty teacher votes 0."""
        return (np.nan_to_num(self.scores(queries), nan=0.0) > 0).astype(np.int64)

    def scores(self, queries: Codes) -> Scores:
        """(teachers, queries); an empty teacher's row is NaN. A teacher's sums are of its own rows, in their own order."""
        asked, public = torch.from_numpy(queries), torch.from_numpy(np.asarray(self._public))
        mean, deviation = public_embedding(self._kind.kernel, public, asked)
        total = torch.zeros(len(self._sizes), len(asked), dtype=torch.float64)
        for start in range(0, len(self._codes), BLOCK):
            found = compared(self._kind.kernel, self._codes[start : start + BLOCK], asked)
            total.index_add_(0, self._owner[start : start + BLOCK], found)
        sizes = torch.from_numpy(self._sizes)[:, None]
        scores = torch.where(sizes > 0, (total / sizes.clamp_min(1) - mean) / deviation, torch.nan)
        return scores.numpy()

    def state(self) -> State:
        """The generated rows; all else is the records and the settings."""
        public = np.zeros((0, self._codes.shape[1]), np.int32) if self._public is None else self._public
        return {"count": np.array([len(self._sizes)]), "public": public}

    def restore(self, state: State) -> None:
        """The inverse of `state`."""
        rows = np.asarray(state["public"])
        self._public = rows if len(rows) else None
