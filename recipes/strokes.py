"""Fixed features of small grey images: upright strokes, histograms of their directions. Public, image by image, nothing learned.

Deskewing by second moments (LeCun et al. 1998, section "pairwise classifiers"; used there for MNIST) and histograms of oriented
gradients (Dalal & Triggs 2005), here with overlapping cells of a quarter of the side.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

Images = NDArray[np.float32]
DIRECTIONS = 8
QUARTER = 4


def strokes(images: Images) -> NDArray[np.float32]:
    """(images, side, side) grey values from 0 to 1 -> (images, features), each of length 1."""
    return directions(upright(images))


def upright(images: Images) -> Images:
    """Each image centred on its mass, and sheared until rows and columns of its mass are uncorrelated."""
    side = images.shape[1]
    row, column = np.mgrid[:side, :side].astype(np.float32)
    mass = images.sum((1, 2)) + 1e-6
    middle_row, middle_column = ((images * place).sum((1, 2)) / mass for place in (row, column))
    down, across = row - middle_row[:, None, None], column - middle_column[:, None, None]
    shear = (images * down * across).sum((1, 2)) / ((images * down * down).sum((1, 2)) + 1e-6)
    half = (side - 1) / 2
    from_row = middle_row[:, None, None] + (row - half)
    from_column = middle_column[:, None, None] + (column - half) + shear[:, None, None] * (row - half)
    grid = torch.from_numpy(np.stack([from_column / half - 1, from_row / half - 1], -1).astype(np.float32))
    moved = functional.grid_sample(torch.from_numpy(images)[:, None], grid, align_corners=True)
    found: Images = moved[:, 0].numpy()
    return found


def directions(images: Images) -> NDArray[np.float32]:
    """Gradients by direction (not sign), shared between the two nearest of 8, averaged over overlapping cells."""
    across, down = np.zeros_like(images), np.zeros_like(images)
    across[:, :, 1:-1] = images[:, :, 2:] - images[:, :, :-2]
    down[:, 1:-1] = images[:, 2:] - images[:, :-2]
    strength = np.hypot(across, down)
    angle = (np.arctan2(down, across) % np.pi) / np.pi * DIRECTIONS
    low = np.floor(angle)
    rest = angle - low
    maps = [
        strength * ((low % DIRECTIONS == place) * (1 - rest) + ((low + 1) % DIRECTIONS == place) * rest)
        for place in range(DIRECTIONS)
    ]
    cell = images.shape[1] // QUARTER
    pooled = functional.avg_pool2d(torch.from_numpy(np.stack(maps, 1).astype(np.float32)), cell, cell // 2)
    flat = pooled.numpy().reshape(len(images), -1)
    found: NDArray[np.float32] = flat / (np.linalg.norm(flat, axis=1, keepdims=True) + 1e-6)
    return found
