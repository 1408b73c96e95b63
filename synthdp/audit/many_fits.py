"""Many small fits on a few processes."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]  # jobs done, jobs


def silent(done: int, of: int) -> None:
    """A progress callback that shows nothing."""


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parts(number: int, size: int) -> list[int]:
    """`number` runs in parts of at most `size`."""
    return [size] * (number // size) + ([number % size] if number % size else [])


def each(
    work: Callable[[Job], Result], jobs: Sequence[Job], workers: int | None = None, progress: Progress = silent
) -> list[Result]:
    """`work` of each job, in their order, on `workers` fresh processes (default: all cores; 1: in this one).

    The processes are spawned, not forked: none starts with a copy of this one's state, one thread each. `work` must be
    importable. An interrupt ends them and passes on.
    """
    if (workers or cores()) == 1 or len(jobs) < 2:
        results = []
        for done, job in enumerate(jobs, 1):
            results.append(work(job))
            progress(done, len(jobs))
        return results
    with _pool(min(workers or cores(), len(jobs))) as pool:
        places = {pool.submit(work, job): place for place, job in enumerate(jobs)}
        found: dict[int, Result] = {}
        for future in as_completed(places):
            found[places[future]] = future.result()
            progress(len(found), len(jobs))
    return [found[place] for place in range(len(jobs))]


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _start() -> None:
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and says what to do
