"""Pictures moved to one place, slant and size, and back: what a handful of numbers say of a picture need not be learnt as pixels.

The ink of a picture is how far each pixel is from the background, the median of its border. Its centre, its slant and its sizes
are moments of the ink (Hu 1962; LeCun, Bottou, Bengio & Haffner 1998, section III, deslant digits so). All is a public function
of one picture: sums of whole numbers, which no order of adding changes, and then arithmetic of each entry alone.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pictures = NDArray[np.uint8]  # (rows, height, width, channels)
FRAME = 5  # numbers that tell a frame
# Of a centre (shares of the sides), a slant, and sizes (shares of the sides).
LOWEST = np.array([-0.25, -0.25, -1.0, 0.0, 0.0])
HIGHEST = np.array([0.25, 0.25, 1.0, 0.5, 0.5])
STRETCH = (0.6, 1.6)  # how far sizes may lie from the standard's
SMALLEST = 1 / 16  # of the sides: the least size of a standard
THINNEST = 1 / 16  # of the sides: the least size that a slant is told from
TOGETHER = 64  # pictures of 28 x 28 that are moved at a time


def frames(pictures: Pictures) -> Array:
    """(rows, FRAME) of pictures (rows, height, width, channels): the centre of the ink down and across, its slant, its height and
    its width, each within its public range. A picture of one grey is upright in the middle, of no size."""
    rows, height, width, _ = pictures.shape
    grey = pictures.sum(3, dtype=np.int64)
    border = np.concatenate([grey[:, 0], grey[:, -1], grey[:, 1:-1, 0], grey[:, 1:-1, -1]], 1)
    background = np.sort(border, 1)[:, border.shape[1] // 2]
    ink = np.abs(grey - background[:, None, None]).reshape(rows, height * width)
    sums = ink.astype(np.float64) @ _powers(height, width)  # exact: below 2^53 for sides of up to 4,096 and 2^20 values
    _, y, x, yy, yx, xx = (sums / np.maximum(sums[:, :1], 1)).T
    y, x, yy, yx, xx = y / 2, x / 2, yy / 4, yx / 4, xx / 4
    tall, lean, wide = np.maximum(yy - y * y, 0), yx - y * x, np.maximum(xx - x * x, 0)
    slant = lean / np.maximum(tall, (height * THINNEST) ** 2)
    upright = np.maximum(wide - 2 * slant * lean + slant * slant * tall, 0)
    found = np.stack([y / height, x / width, slant, np.sqrt(tall) / height, np.sqrt(upright) / width], 1)
    clipped: Array = np.clip(found, LOWEST, HIGHEST)
    return clipped


def _powers(height: int, width: int) -> Array:
    """(pixels of a channel, 6): one, y, x, y y, y x, x x, in half pixels from the middle; whole numbers."""
    y, x = (side.ravel() for side in np.indices((height, width), np.float64))
    y, x = 2 * y - (height - 1), 2 * x - (width - 1)
    return np.stack([np.ones_like(y), y, x, y * y, y * x, x * x], 1)


@dataclass(frozen=True)
class Alignment:
    """Moves pictures of `shape` (height, width, channels) so that their frames are the `standard` (FRAME,)."""

    shape: tuple[int, int, int]
    standard: Array

    def entries(self, pictures: Pictures) -> Array:
        """(rows, FRAME) of 0 to 1: the frames, sizes over the standard's."""
        own = frames(pictures)
        own[:, 3:] = np.clip(own[:, 3:] / self.standard[3:], *STRETCH)
        lowest, highest = _ends()
        return (own - lowest) / (highest - lowest)

    def aligned(self, pictures: Pictures, entries: Array) -> Pictures:
        """Pictures with these entries, moved to the standard."""
        y0, x0, slant0 = self._placed(self.standard[None, :3])
        y, x, slant, tall, wide = self._told(entries)
        down, across = (np.arange(side) - (side - 1) / 2 for side in self.shape[:2])
        ys = (down - y0) * tall
        xs = (
            x[..., None]
            + (across - x0[..., None] - (slant0 * (down - y0))[..., None]) * wide[..., None]
            + (slant * ys)[..., None]
        )
        return self._resampled(pictures, y + ys, xs)

    def moved(self, pictures: Pictures, entries: Array) -> Pictures:
        """The inverse of `aligned`: pictures at the standard, moved to where these entries say."""
        y0, x0, slant0 = self._placed(self.standard[None, :3])
        y, x, slant, tall, wide = self._told(entries)
        down, across = (np.arange(side) - (side - 1) / 2 for side in self.shape[:2])
        ys = (down - y) / tall
        xs = (
            (across - x[..., None] - (slant * (down - y))[..., None]) / wide[..., None]
            + x0[..., None]
            + (slant0 * ys)[..., None]
        )
        return self._resampled(pictures, y0 + ys, xs)

    def _placed(self, frames: Array) -> tuple[Array, Array, Array]:
        """Centre in pixels, and slant, each (rows, 1)."""
        return frames[:, :1] * self.shape[0], frames[:, 1:2] * self.shape[1], frames[:, 2:3]

    def _told(self, entries: Array) -> tuple[Array, ...]:
        """Centre, slant, and sizes over the standard's, each (rows, 1)."""
        lowest, highest = _ends()
        own = np.clip(entries, 0, 1) * (highest - lowest) + lowest
        return *self._placed(own[:, :3]), own[:, 3:4], own[:, 4:5]

    def _resampled(self, pictures: Pictures, ys: Array, xs: Array) -> Pictures:
        """Grey values at ys (rows, height) and, in each of these rows, xs (rows, height, width), from the middle: cubic convolution
        (Keys 1981), first down, then across. Beyond its edge a picture goes on as it ends."""
        height, width, channels = self.shape
        found = np.empty_like(pictures)
        step = max(1, TOGETHER * 28 * 28 // (height * width * channels))
        for start in range(0, len(pictures), step):
            some = slice(start, start + step)
            values = pictures[some].astype(np.float32)
            down, rows = np.zeros_like(values), height * np.arange(len(values))[:, None]
            for place, weight in _taps(ys[some] + (height - 1) / 2, height):
                down += values.reshape(-1, width, channels).take(rows + place, 0) * weight[..., None, None]
            across, lines = np.zeros_like(values), width * np.arange(len(values) * height).reshape(-1, height, 1)
            for place, weight in _taps(xs[some] + (width - 1) / 2, width):
                across += down.reshape(-1, channels).take(lines + place, 0) * weight[..., None]
            found[some] = np.clip(np.rint(across), 0, 255)
        return found


def nearest_standard(frame: Array) -> Array:
    """The standard nearest to a noisy frame: in the public range, and of sizes that pictures can be brought to."""
    lowest = np.append(LOWEST[:3], [SMALLEST] * 2)
    return np.clip(np.nan_to_num(frame), lowest, HIGHEST)


def _ends() -> tuple[Array, Array]:
    """Of entries before they are scaled to 0 to 1."""
    return np.append(LOWEST[:3], [STRETCH[0]] * 2), np.append(HIGHEST[:3], [STRETCH[1]] * 2)


def _taps(places: Array, side: int) -> list[tuple[NDArray[np.intp], NDArray[np.float32]]]:
    """The four neighbours of each place, and what they weigh."""
    before = np.floor(places)
    t = (places - before).astype(np.float32)
    first, square = before.astype(np.intp), t * t
    cube = square * t
    weights = (
        (2 * square - t - cube) / 2,
        (3 * cube - 5 * square + 2) / 2,
        (t + 4 * square - 3 * cube) / 2,
        (cube - square) / 2,
    )
    return [(np.clip(first + each - 1, 0, side - 1), weight) for each, weight in enumerate(weights)]
