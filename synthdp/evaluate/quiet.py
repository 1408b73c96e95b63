"""One OpenMP and BLAS thread and no remarks of convergence while models are fitted, also from several threads."""

from __future__ import annotations

import threading
import warnings
from contextlib import ExitStack


class Quiet:
    """A context that may be entered by several threads: both switches belong to the process, so the first one in sets
    them and the last one out puts back what was.

    One thread a fit: on cores that others use too, the spinning of OpenMP cost minutes (Adult: 265 s against 33 s).
    The remarks (no convergence, collinear or constant columns) are about ordinary synthetic rows.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._stack = threading.Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        with self._lock:
            if self._inside == 0:
                self._stack.enter_context(threadpool_limits(limits=1))
                self._stack.enter_context(warnings.catch_warnings())
                for kind in (UserWarning, RuntimeWarning, FutureWarning):  # ConvergenceWarning is a UserWarning
                    warnings.simplefilter("ignore", kind)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._stack.close()


QUIET = Quiet()
