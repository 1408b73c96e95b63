"""A folder that is written whole or not at all, and refused where one stands."""

from collections.abc import Callable
from pathlib import Path

from synthdp.data import whole
from synthdp.errors import BadInput

PARTS = frozenset({"model.safetensors", "student.safetensors", "release.json", "ledger.jsonl"})


def check_replaced(folder: Path) -> None:
    """Refuse to replace what is no release."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file, a release is a folder; choose another name")
    other = sorted({path.name for path in folder.iterdir()} - PARTS) if folder.is_dir() else []
    if other:
        raise BadInput(
            f"{folder}: holds {other[0]!r}, which is no part of a release and would be lost; choose another folder"
        )


def written(folder: Path | str, write: Callable[[Path], None], *, force: bool) -> Path:
    """The folder, filled by `write(new)` under another name first. Raises `BadInput` where it exists, unless
    with `force` an older release is replaced."""
    folder = Path(folder)
    if folder.exists() and not force:
        raise BadInput(f"{folder} exists; choose another folder or pass force=true")
    check_replaced(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole.folder(folder) as new:
        write(new)
    return folder
