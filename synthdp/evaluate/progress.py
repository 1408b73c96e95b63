"""Counts the steps of one evaluation for the progress callback."""

from __future__ import annotations

from typing import Protocol


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
