"""Files and folders that appear whole or not at all, also after a power cut: what was written is synced before it gets its name.

A folder takes the place of an older one in two renames, which no system call makes one. Before them the new folder is named
`.NAME.new`, which says that it is complete; `recover` makes the renames, now or, where the machine stopped in between, before
the folder is written again.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from synthdp.errors import BadInput
from synthdp.files import private_folder


@contextmanager
def file(path: Path) -> Iterator[Path]:
    """A file to write in the place of `path`, which it becomes when the block ends well; an older one is replaced.

    Nobody else can read it until then. Raises `BadInput` where it cannot be written (the disk is full). Nothing is left behind then or,
    where the process is killed, once the file is written again.
    """
    with _named(path), private_folder.beside(path) as folder:
        part = folder / path.name
        yield part
        sync(part)
        part.replace(path)
        sync(path.parent)


def write(path: Path, text: str, *, private: bool = False) -> None:
    """Write a text as a whole or not at all, as `file` says; what is `private` is nobody else's to read (mode 0600), also where it was."""
    with file(path) as part:
        part.touch(0o600 if private else 0o666)
        part.write_text(text, encoding="utf-8")


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """A folder to fill in the place of `path`, which it becomes when the block ends well; an older one is replaced. `BadInput` as
    for a file. Where `path` is a link to a folder, that folder is replaced, and the link stays."""
    path = path.resolve() if path.is_symlink() else path
    with _named(path):
        recover(path)
        part = Path(tempfile.mkdtemp(prefix=_prefix(path), dir=path.parent))
        held = os.open(part, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)  # until the end of the process, however it comes: see `recover`
            part.chmod(0o755)
            yield part
            for inner in sorted(part.rglob("*"), reverse=True):
                sync(inner)
            sync(part)
            _rename(part, _complete(path))
            recover(path)
        finally:
            os.close(held)
            shutil.rmtree(part, ignore_errors=True)


def recover(path: Path) -> None:
    """Give a complete folder its name if the machine stopped before that, and remove what stopped writers left beside `path`."""
    path = path.resolve() if path.is_symlink() else path
    new, old = _complete(path), path.with_name(f".{path.name}.old")
    if new.exists():
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
            _rename(path, old)
        _rename(new, path)
    shutil.rmtree(old, ignore_errors=True)
    for left in _left(path):
        shutil.rmtree(left, ignore_errors=True)


def interrupted(path: Path) -> Path | None:
    """The complete folder that waits for the name `path`, if the machine stopped before it got it."""
    new = _complete(path.resolve() if path.is_symlink() else path)
    return new if new.exists() and not path.exists() else None


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _complete(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _prefix(path: Path) -> str:
    return f".{path.name}.part-"


def _left(path: Path) -> Iterator[Path]:
    """Folders of writers that are gone: a live one holds a lock on its own."""
    if not path.parent.is_dir():
        return
    for found in path.parent.iterdir():
        if not found.name.startswith(_prefix(path)) or found.is_symlink() or not found.is_dir():
            continue
        descriptor = os.open(found, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)
        yield found


def _rename(path: Path, name: Path) -> None:
    path.rename(name)
    sync(path.parent)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What the system refuses (no space, no permission), in one line that names the path."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror or type(error).__name__})") from error
