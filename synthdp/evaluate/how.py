"""How to judge: the options of `evaluate`, checked once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from synthdp.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class How:
    """The options of `synthdp.evaluate.evaluate`, where they are explained. Raises BadInput for counts that cannot be."""

    targets: Sequence[str] | None
    models: str | Sequence[str] | None
    seeds: int
    bootstrap: int
    subgroups: Sequence[str]
    attacks: bool
    claim: Mapping[str, Any] | None
    jobs: int | None

    def __post_init__(self) -> None:
        check("seeds", self.seeds, 1)
        check("bootstrap", self.bootstrap, 0)
        check("jobs", 1 if self.jobs is None else self.jobs, 1)

    @property
    def threads(self) -> int:
        return self.jobs or os.cpu_count() or 1

    @property
    def told(self) -> dict[str, Any]:
        """The claim for the result's `about`, as JSON can hold it: an infinite epsilon is None; empty without a claim."""
        if self.claim is None:
            return {}
        epsilon = self.claim.get("epsilon")
        finite = isinstance(epsilon, int | float) and epsilon < float("inf")
        unit = self.claim.get("unit", "record")
        return {"claim": {"epsilon": epsilon if finite else None, "delta": self.claim.get("delta"), "unit": unit}}


def check(name: str, value: object, least: int) -> None:
    """Raises BadInput for what is no whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadInput(f"{name}: {value!r}; give a whole number of at least {least}.")


# ---- Counts the steps of one evaluation for the progress callback.


class Progress(Protocol):
    """Told before each step: how many are done, how many there are, and what comes."""

    def __call__(self, step: int, total: int, label: str) -> None: ...


class Steps:
    """Tells a callback, where there is one, of each step before it runs."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, label: str) -> None:
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total, label)
        self._done += 1

    def skip(self, steps: int) -> None:
        self._done += steps

    def finish(self) -> None:
        if self._progress is not None:
            self._progress(self._total, self._total, "done")
