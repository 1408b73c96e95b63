"""Files and folders that appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file(path: Path) -> Iterator[Path]:
    """A file to write in the place of `path`, which it becomes when the block ends well; an older one is replaced."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def folder(path: Path) -> Iterator[Path]:
    """A folder to fill in the place of `path`, which it becomes when the block ends well; an older one is replaced."""
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        new.chmod(0o755)
        yield new
        if path.exists():
            shutil.rmtree(path)
        new.replace(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)
