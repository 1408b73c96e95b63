"""The records dealt to teachers: each unit to one of them, by its own secret key alone (law 19)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthdp.seal.records import Codes, Records


@dataclass(frozen=True)
class Parts:
    """The encoded records (records, columns), teacher by teacher: those of teacher t are `sizes[t]` rows from `starts[t]` on."""

    codes: Codes
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def of(self, teacher: int) -> Codes:
        """The records of one teacher."""
        start = int(self.starts[teacher])
        return self.codes[start : start + int(self.sizes[teacher])]


def dealt(records: Records, count: int) -> Parts:
    """All records of a unit to teacher (key of the unit) mod `count`.

    No unit's place depends on the others, so one unit more changes one part: its records are put in where their key belongs
    (parts are ordered by key, which is a random order), and every other part stays as it is. Over neighbours the secret keys
    are the same, so that the parts are disjoint and fixed.
    """
    keys = records.keys[records.owner]
    teacher = (keys % np.uint64(count)).astype(np.int64)
    order = np.lexsort((keys, teacher))  # stable: a unit's records stay in their own order
    sizes = np.bincount(teacher, minlength=count).astype(np.int64)
    return Parts(records.encoded()[order], np.cumsum(sizes) - sizes, sizes)
