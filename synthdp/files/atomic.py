"""Files and folders that appear whole or not at all, also after a power cut: what was written is synced before it gets its name.

A folder takes the place of an older one in two renames, which no system call makes one. Before them the new folder is named
`.NAME.new`, which says that it is complete; `recover` makes the renames, now or, where the machine stopped in between, before
the folder is written again.

A folder may list the digests of its files. They tell later whether it is still as it was written, so that nothing of a user's is replaced.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from synthdp.errors import BadInput
from synthdp.files import private_folder


@contextmanager
def file(path: Path) -> Iterator[Path]:
    """A file to write in the place of `path`, which it becomes when the block ends well; an older one is replaced.

    Nobody else can read it until then. Raises `BadInput` if it cannot be written (the disk is full), and leaves nothing behind. What a
    killed process leaves is removed when the file is written again.
    """
    with _named(path), private_folder.beside(path) as folder:
        part = folder / path.name
        yield part
        sync(part)
        part.replace(path)
        sync(path.parent)


def write(path: Path, text: str, *, private: bool = False) -> None:
    """Write a text whole or not at all, as `file` does. With `private` nobody else can read it (mode 0600), even if the older file could
    be read."""
    with file(path) as part:
        part.touch(0o600 if private else 0o666)
        part.write_text(text, encoding="utf-8")


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """A folder to fill in the place of `path`, which it becomes when the block ends well; an older one is replaced. `BadInput` as
    for a file. Where `path` is a link to a folder, that folder is replaced, and the link stays."""
    path = _itself(path)
    with _named(path), private_folder.beside(path) as within:
        recover(path)
        part = within / path.name
        part.mkdir()
        part.chmod(0o755)
        yield part
        for inner in sorted(part.rglob("*"), reverse=True):
            sync(inner)
        sync(part)
        with _alone(path):
            _rename(part, _complete(path))
            _recover(path)


def recover(path: Path) -> None:
    """Give a complete folder its name if the machine stopped before that, and remove what stopped writers left beside `path`."""
    path = _itself(path)
    if path.parent.is_dir():
        with _alone(path):
            _recover(path)
        private_folder.clear_beside(path)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No other writer renames folders beside `path`: each of two at once would take the other's for what a stopped writer left."""
    held = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _recover(path: Path) -> None:
    new, old = _complete(path), path.with_name(f".{path.name}.old")
    if new.exists():
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
            _rename(path, old)
        _rename(new, path)
    shutil.rmtree(old, ignore_errors=True)


def interrupted(path: Path) -> Path | None:
    """The complete folder that waits for the name `path`, if the machine stopped before it got it."""
    path = path.resolve()  # a folder may be named `.` or `..`
    if not path.name or path.exists():
        return None
    new = _complete(path)
    return new if new.exists() else None


def listed(folder: Path) -> str:
    """The SHA-256 of each file in a folder, in lines as `sha256sum` writes them."""
    return "".join(f"{digest(path)}  {path.name}\n" for path in sorted(folder.iterdir()))


def is_as_listed(folder: Path, name: str) -> bool:
    """Whether a folder holds, byte for byte, the files that its file `name` lists in the lines of `listed`, and no others."""
    paths = {path.name: path for path in folder.iterdir()}
    told = paths.pop(name, None)
    if told is None or not told.is_file():
        return False
    lines = (line.split("  ", 1) for line in told.read_text(encoding="utf-8", errors="replace").splitlines())
    found = {line[1]: line[0] for line in lines if len(line) == 2}
    return found == {name: digest(path) for name, path in paths.items() if path.is_file()} and len(found) == len(paths)


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _itself(path: Path) -> Path:
    """The folder behind a link, or behind `.` and `..`, whose names cannot be extended to name a neighbour."""
    return path.resolve() if path.is_symlink() or path.name in ("", "..") else path


def _complete(path: Path) -> Path:
    return path.with_name(f".{path.name}.new")


def _rename(path: Path, name: Path) -> None:
    path.rename(name)
    sync(name.parent)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What the system refuses (no space, no permission), in one line that names the path."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror or type(error).__name__})") from error
