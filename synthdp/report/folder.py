"""A folder that is written whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from synthdp.errors import BadInput


def written(folder: Path | str, write: Callable[[Path], None], *, force: bool) -> Path:
    """The folder, filled by `write(new)` under another name first. Raises `BadInput` where it exists, unless `force`."""
    folder = Path(folder)
    if folder.exists() and not force:
        raise BadInput(f"{folder} exists; choose another folder or pass force=true")
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        new.chmod(0o755)
        write(new)
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder
