"""A folder that is written whole or not at all, and refused where one stands."""

from collections.abc import Callable
from pathlib import Path

from synthdp.data import whole
from synthdp.errors import BadInput


def written(folder: Path | str, write: Callable[[Path], None], *, force: bool) -> Path:
    """The folder, filled by `write(new)` under another name first. Raises `BadInput` where it exists, unless `force`."""
    folder = Path(folder)
    if folder.exists() and not force:
        raise BadInput(f"{folder} exists; choose another folder or pass force=true")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole.folder(folder) as new:
        write(new)
    return folder
