"""Records as real vectors and back: grey values around one half, and one-hot blocks of the other columns; the label is apart."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthdp.generators.parts.aligned_pictures import FRAME, Alignment

if TYPE_CHECKING:
    from synthdp.schema.codec import Codec

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
BESIDE = 1 / 8  # what an entry of a one-hot block counts beside an image, times the root of the number of pixels


class Vectors:
    """How codes (rows, columns) become vectors (rows, width): a public function of the schema, record by record.

    First the `pixels` of the image, each value v as v / 255 - 1/2; then one block of zeros and ones for each other column but
    the label, times `scale`. A vector has L2 norm at most `bound`. Without a label there is one class. With a `standard`
    (`aligned_pictures.Alignment`) pictures are moved to it, and where they were stands last, FRAME entries times `scale`.
    """

    def __init__(self, codec: "Codec", label: int | None, standard: Array | None = None) -> None:
        self.codec = codec
        self.label = label if len(codec.sizes) > 1 else None  # a target alone is a column like any other
        picture = codec.picture
        self.pixels = 0 if picture is None else picture.column.pixels
        self.image = slice(0, 0) if picture is None else picture.places
        inside = range(len(codec.sizes))[self.image]
        self.places = [place for place in range(len(codec.sizes)) if place != self.label and place not in inside]
        ends = np.cumsum([self.pixels, *(codec.sizes[place] for place in self.places)])
        self.blocks = [slice(int(start), int(end)) for start, end in pairwise(ends)]
        self.alignment = None if picture is None or standard is None else Alignment(picture.shape, standard)
        self.frame = 0 if self.alignment is None else FRAME
        self.width = int(ends[-1]) + self.frame
        self.scale = max(1.0, BESIDE * self.pixels**0.5)
        self.bound = max(1.0, self.pixels / 4 + self.scale**2 * (len(self.places) + self.frame)) ** 0.5
        self.labels = 1 if self.label is None else codec.sizes[self.label]

    def of(self, codes: NDArray[Any]) -> Array:
        """The vectors, float64."""
        rows, greys = np.zeros((len(codes), self.width)), codes[:, self.image]
        if self.alignment is not None:
            pictures = greys.astype(np.uint8).reshape(len(codes), *self.alignment.shape)
            entries = self.alignment.entries(pictures)
            greys = self.alignment.aligned(pictures, entries).reshape(len(codes), self.pixels)
            rows[:, -self.frame :] = entries * self.scale
        np.divide(greys, 255.0, out=rows[:, : self.pixels])
        rows[:, : self.pixels] -= 0.5
        for place, block in zip(self.places, self.blocks, strict=True):
            rows[np.arange(len(codes)), block.start + codes[:, place].astype(np.int64)] = self.scale
        return rows

    def label_of(self, codes: NDArray[Any]) -> Labels:
        """The label's codes; zeros where there is none."""
        if self.label is None:
            return np.zeros(len(codes), np.int64)
        return codes[:, self.label].astype(np.int64)

    def placed(self, rows: Array) -> Array:
        """The pixels (rows, pixels) of vectors, moved back to where the vectors say that their pictures were."""
        pixels = rows[:, : self.pixels]
        if self.alignment is None:
            return pixels
        greys = (
            np.clip(np.rint((pixels + 0.5) * 255), 0, 255).astype(np.uint8).reshape(len(rows), *self.alignment.shape)
        )
        return self.alignment.moved(greys, rows[:, -self.frame :] / self.scale).reshape(pixels.shape) / 255 - 0.5

    def codes(self, greys: NDArray[np.uint8], chosen: Sequence[Labels], labels: Labels) -> NDArray[Any]:
        """Codes of grey values (rows, pixels), of a category (rows,) for each block, and of labels (rows,)."""
        found = np.empty((len(labels), len(self.codec.sizes)), self.codec.dtype)
        found[:, self.image] = greys
        for place, column in zip(self.places, chosen, strict=True):
            found[:, place] = column
        if self.label is not None:
            found[:, self.label] = labels
        return found
