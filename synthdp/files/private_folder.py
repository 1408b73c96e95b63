"""A folder for what of the records does not fit in memory: nobody else's, and gone at the end, also where a signal asks for that.
Where the process is killed, the next run finds by its lock that nobody uses it, and removes it."""

import fcntl
import glob
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from synthdp.errors import BadInput

ENDING = ("SIGTERM", "SIGHUP")  # signals that end a process, and ask first
SPILL = "synthdp-spill-"
LOCK = "lock"  # in such a folder: held by flock for as long as its run lives, on every machine that sees the file


@contextmanager
def private_folder(within: Path | None) -> Iterator[Path]:
    """A folder of our own (mode 0700, its files 0600) while the block runs; `within` is where it lies, by default where temporary
    files do. `within` is made (0700) where it is missing. What killed runs left, there and among the temporary files, is removed."""
    temporary = Path(tempfile.gettempdir())
    place = within or temporary
    missing = [each for each in (place, *place.parents) if not each.exists()]
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with asked_to_end(), owner_only():
        clear(place)
        clear(temporary)
        folder, lock = _new(place)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            with suppress(OSError):  # something else is in it by now
                for each in missing:
                    each.rmdir()


@contextmanager
def alone(folder: Path, refusal: str) -> Iterator[None]:
    """A folder (mode 0700 if it is made here) that this function gives to no other process while the block runs: that one gets `BadInput`
    with the `refusal`. Folders that were made here and are empty at the end are removed."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = _locked(folder)
    if lock is None:
        raise BadInput(refusal)
    try:
        yield
    finally:
        with suppress(OSError):  # something else is in them
            (folder / LOCK).unlink(missing_ok=True)
            os.close(lock)
            for each in missing or [folder]:
                each.rmdir()


def clear(place: Path, prefix: str = SPILL) -> None:
    """Remove the private folders in `place` that killed runs of this user left; those of living ones stay."""
    for folder in place.glob(glob.escape(prefix) + "*"):
        with suppress(OSError):  # it is being removed by another run, or cannot be locked here: then nobody may judge
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
                continue
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A private folder (mode 0700) beside a file or folder, in which that is written. What killed writers of it left is removed."""
    clear_beside(path)
    folder, lock = _new(path.parent, _prefix(path))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def clear_beside(path: Path) -> None:
    """Remove what killed writers of a file or folder left beside it."""
    clear(path.parent, _prefix(path))


def _prefix(path: Path) -> str:
    return f".{path.name}.part-"


def _new(place: Path, prefix: str = SPILL) -> tuple[Path, int]:
    """A new folder and its lock, which is ours until it is closed."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        lock = _locked(folder)
        if lock is not None:  # else another run took it for a left-over before it was locked
            return folder, lock


def _locked(folder: Path) -> int | None:
    """The lock of a folder; None where another run holds it, or the folder is gone."""
    try:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file), (folder / LOCK).stat()):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


@contextmanager
def owner_only() -> Iterator[None]:
    """Whatever is made while the block runs is nobody else's: DuckDB gives its files the mode that the umask leaves."""
    if threading.current_thread() is not threading.main_thread():  # blocks of several threads would end in any order
        yield
        return
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def asked_to_end() -> Iterator[None]:
    """SIGTERM and SIGHUP interrupt the block as Ctrl-C does, where they would end the process on the spot; handlers of the
    program's own stay, and a signal that is ignored (nohup) stays ignored."""
    numbers = [getattr(signal, name) for name in ENDING if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        ours = []  # only the main one may say what a signal does

    def interrupt(number: int, frame: Any) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def interrupted_after() -> Iterator[None]:
    """An interrupt waits until the block has run, since some libraries turn it into errors of their own, or lose it. A second one
    does not wait."""
    names = ("SIGINT", *ENDING)
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    ours = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():
        ours = {}
    waiting: list[int] = []

    def wait(number: int, frame: Any) -> None:
        waiting.append(number)
        if len(waiting) > 1:
            ours[number](number, frame)

    for number in ours:
        signal.signal(number, wait)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        if waiting:
            ours[waiting[0]](waiting[0], None)
