"""A first look at pictures without a schema, for the draft of one: sizes, depth, labels. For the steward's eyes only."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synthdp.errors import BadInput
from synthdp.images import arrays, dicom, npz, picture_folder, pixels
from synthdp.tables import csvfile

LOOKED = 100  # pictures that are looked at


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What `looked` of `count` pictures are like: the commonest size, whether all have it, and the range of raw intensities
    where these are not 8 bits."""

    name: str
    looked: int
    count: int
    size: tuple[int, int, int]
    same: bool
    span: tuple[float, float] | None
    tagged: bool = False  # DICOM: further columns may be read from headers


def holds_pictures(path: Path) -> bool:
    """Whether the path is of a kind that only pictures have."""
    return path.is_dir() or path.name.lower().endswith(arrays.ENDING)


def drafted(path: Path) -> "tuple[pd.DataFrame, Path, Seen]":
    """What `draft` needs to know of pictures: the labels beside them, where they are, and what they are like."""
    labels, seen = _folder(path) if path.is_dir() else _arrays(path)
    return labels, path.resolve(), seen


def _arrays(path: Path) -> "tuple[pd.DataFrame, Seen]":
    found = npz.headers(path)
    stacks = [header for header in found.values() if len(header.shape) in (3, 4)]
    if len(stacks) != 1:
        raise BadInput(
            f"{path}: has {len(stacks)} arrays of pictures (n, height, width[, channels]); exactly one is needed"
        )
    stack = stacks[0]
    labels = {name: header for name, header in found.items() if header is not stack}
    odd = [name for name, header in labels.items() if header.shape != stack.shape[:1]]
    if odd:
        raise BadInput(f"{path}: array {odd[0]!r} does not have one value per picture; take it out")
    span = None
    if stack.dtype != np.uint8:
        ends = [(float(part.min()), float(part.max())) for part in npz.blocks(path, stack) if part.size]
        span = (min(low for low, _ in ends), max(high for _, high in ends)) if ends else (0.0, 1.0)
    size = (stack.shape[1], stack.shape[2], stack.shape[3] if len(stack.shape) == 4 else 1)
    count = stack.shape[0]
    seen = Seen(name=stack.name, looked=count, count=count, size=size, same=True, span=span)
    return pd.DataFrame({name: npz.array(path, header) for name, header in labels.items()}), seen


def _folder(path: Path) -> "tuple[pd.DataFrame, Seen]":
    names, table = picture_folder.pictures(path), picture_folder.list_of(path)
    if not names:
        raise BadInput(
            f"{path}: the folder has no pictures ({', '.join(picture_folder.ENDINGS)}){picture_folder.unnamed(path)}"
        )
    labels = pd.DataFrame() if table is None else csvfile.read(table, None)
    chosen = [path / names[place] for place in sorted({int(at) for at in np.linspace(0, len(names) - 1, LOOKED)})]
    sizes: Counter[tuple[int, int, int]] = Counter()
    ends: list[tuple[float, float]] = []
    for size, span in picture_folder.each(chosen, _file, path):
        sizes[size] += 1
        ends += [] if span is None else [span]
    seen = Seen(
        name="image",
        looked=len(chosen),
        count=len(names),
        size=sizes.most_common(1)[0][0],
        same=len({size[:2] for size in sizes}) == 1,
        span=(min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
        tagged=any(file.suffix.lower() == dicom.ENDING for file in chosen),
    )
    return labels.drop(columns=[picture_folder.FILE], errors="ignore"), seen


def _file(path: Path) -> tuple[tuple[int, int, int], tuple[float, float] | None]:
    if path.suffix.lower() == dicom.ENDING:
        size, low, high = dicom.span(path)
        return size, (low, high) if size[2] == 1 else None
    with pixels.opened(path) as picture:
        grey = picture.mode in ("1", "L", "LA") or pixels.deep(path, picture)
        size = (picture.height, picture.width, 1 if grey else 3)
        if not pixels.deep(path, picture):
            return size, None
        raw: Any = np.asarray(picture)
        return size, (float(raw.min()), float(raw.max()))
