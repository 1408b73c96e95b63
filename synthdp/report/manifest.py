"""manifest.json: which files a release has, byte for byte (law 43). It detects damage; a signature over it detects forgery."""

import json
import os
from pathlib import Path
from typing import Any

from synthdp.errors import BadInput
from synthdp.files import strict_json
from synthdp.files.atomic import digest

MANIFEST, SIGNATURE = "manifest.json", "signature"
TABLES = "tables"  # the one folder in a release: noisy tables, where they were asked for
VERSION = 1
MOST_BYTES = 4 << 30  # of a model; what is JSON is read whole, and smaller: `jsonfile.MOST_BYTES`
SHOWN = 60  # characters of a name that is somebody else's


def write(folder: Path) -> None:
    """List every file of the folder; to be called when all of them are written."""
    listed = sorted(path for path in folder.rglob("*") if path.name not in (MANIFEST, SIGNATURE) and path.is_file())
    files = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": digest(path)} for path in listed
    }
    text = json.dumps({"manifest": VERSION, "files": files}, indent=2)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def check(folder: Path) -> bytes | None:
    """The bytes of the manifest, where the folder holds exactly the files that it lists; None where there is no manifest.

    Raises `BadInput` by name for a file that is missing, not listed, no plain file, or not the one that was listed.
    """
    path = folder / MANIFEST
    if not os.path.lexists(path):
        return None
    found = _plain_files(folder)
    data = strict_json.read(path)
    files = _files(strict_json.parse(data, str(path)), path)
    for name in sorted(found - set(files) - {MANIFEST, SIGNATURE}):
        raise BadInput(f"{folder}: {shown(name)} is not listed in {MANIFEST}; remove it, or take a fresh copy")
    for name, (size, sha256) in files.items():
        if name not in found:
            raise BadInput(f"{folder}: {shown(name)} is missing; take a fresh copy of the release")
        if (folder / name).stat().st_size != size or digest(folder / name) != sha256:
            raise BadInput(
                f"{folder}: {shown(name)} is not the file that {MANIFEST} lists; it was altered or damaged: take a fresh copy"
            )
    return data


def shown(name: str) -> str:
    """A name that somebody else chose, for an error in one line."""
    return repr(name if len(name) <= SHOWN else name[:SHOWN] + "...")


def _plain_files(folder: Path) -> set[str]:
    """Their names; those in the folder of tables are `tables/NAME`."""
    sizes = _sizes(folder)
    if TABLES in sizes and sizes[TABLES] is None and not (folder / TABLES).is_symlink() and (folder / TABLES).is_dir():
        del sizes[TABLES]
        sizes |= {f"{TABLES}/{name}": size for name, size in _sizes(folder / TABLES).items()}
    for name, size in sorted(sizes.items()):
        if size is None:
            raise BadInput(f"{folder}: {shown(name)} is a folder or a link; a release contains plain files only")
        large = name.endswith(".safetensors") or name.startswith(f"{TABLES}/")
        most = MOST_BYTES if large else strict_json.MOST_BYTES
        if size > most:
            raise BadInput(f"{folder}: {shown(name)} has {size:,} bytes; at most {most:,} are read")
    return set(sizes)


def _sizes(folder: Path) -> dict[str, int | None]:
    """Bytes of the plain files in a folder; None of all else."""
    with os.scandir(folder) as entries:
        return {entry.name: entry.stat().st_size if entry.is_file(follow_symlinks=False) else None for entry in entries}


def _files(values: Any, path: Path) -> dict[str, tuple[int, str]]:
    """Name -> size and SHA-256. Names are compared with those in the folder, and lead nowhere else."""
    try:
        if values["manifest"] != VERSION:
            raise BadInput(f"{path} does not have version {VERSION}: it was made by a later synthdp, or altered")
        return {str(name): (int(file["bytes"]), str(file["sha256"])) for name, file in values["files"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path} is not a manifest; it was altered or damaged: take a fresh copy") from None
