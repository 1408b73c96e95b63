"""What a diffusion model runs in: vectors of records, doubled so that pixels lie in [-1, 1] and noise levels are EDM's, along the
principal axes of class Gaussians where there are some; and the model that draws there."""

import copy
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.generators import Tensors, probabilities
from synthdp.generators.gaussians.class_mixture import Mixture, plain_greys
from synthdp.generators.images.diffusion import Prior, Sampler, isotropic
from synthdp.generators.parts.record_vectors import Array, Vectors
from synthdp.generators.parts.table_networks import random
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema

ROWS = 2048  # drawn at a time
DOUBLE = 2.0  # vectors hold pixels in [-1/2, 1/2]
FLAT = 1e-6  # the least variance along an axis


def rows_of(vectors: Vectors, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Doubled vectors (rows, width), float64, and labels (rows,), on the codes' device; each row of its own codes alone."""
    parts = [codes[:, vectors.image].double() / 255 - 0.5]
    for place, block in zip(vectors.places, vectors.blocks, strict=True):
        parts.append(functional.one_hot(codes[:, place].long(), block.stop - block.start) * vectors.scale)
    label = torch.zeros_like(codes[:, 0]) if vectors.label is None else codes[:, vectors.label]
    return torch.cat(parts, 1) * DOUBLE, label.long()


def blank(schema: Schema, vectors: Vectors, counts: Array) -> Mixture:
    """A mixture without axes, which knows no more than the label's noisy counts."""
    groups = (vectors.labels, 1)
    return Mixture(
        schema=schema,
        vectors=vectors,
        labels=probabilities(counts),
        weights=np.ones(groups),
        means=np.zeros((*groups, 0)),
        factors=np.zeros((*groups, 0, 0)),
        axes=np.zeros((0, vectors.width)),
        centre=np.zeros(vectors.width),
        greys=plain_greys(),
        offsets=np.zeros((vectors.labels, vectors.width - vectors.pixels)),
    )


def prior_of(start: Mixture, sigma_data: float) -> Prior:
    """The Gaussians of a mixture of one component a class, or EDM's where it has no axes."""
    if not len(start.axes):
        return isotropic(start.vectors.width, start.vectors.labels, sigma_data)
    rotations, deviations, _ = np.linalg.svd(start.factors[:, 0])
    return Prior(
        centre=torch.from_numpy(DOUBLE * start.centre),
        means=torch.from_numpy(DOUBLE * start.means[:, 0]),
        variances=torch.from_numpy(np.square(DOUBLE * deviations)).clamp_min(FLAT),
        basis=torch.from_numpy(start.axes.T.copy()),
        rotations=torch.from_numpy(rotations),
    )


@dataclass(frozen=True)
class DiffusionModel:
    """A denoiser, what it started at, and its sampler."""

    start: Mixture
    network: nn.Module
    sampler: Sampler
    sigma_data: float
    device: torch.device  # where it is drawn; the model itself is kept on the CPU

    @property
    def schema(self) -> Schema:
        """The schema of what it samples."""
        return self.start.schema

    @torch.no_grad()
    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> pd.DataFrame:
        """A label per row, then the sampler, then codes."""
        rng, generator, codec = np.random.default_rng(seed), random(seed), Codec(self.schema)
        device = self.device
        prior = prior_of(self.start, self.sigma_data).to(device, torch.float32)
        network = copy.deepcopy(self.network).to(device)
        parts = [np.zeros((0, len(codec.sizes)), codec.dtype)]
        for begin in range(0, rows, ROWS):
            labels = rng.choice(
                len(self.start.labels), size=min(ROWS, rows - begin), p=probabilities(self.start.labels)
            )
            y = torch.from_numpy(labels).to(device)
            x = prior.pixels(self.sampler.run(network, prior, y, generator), y) / DOUBLE
            values = np.nan_to_num(x.double().cpu().numpy(), nan=0.0, posinf=1.0, neginf=-1.0)  # of wild weights
            parts.append(self.start.codes(values, labels))
        return codec.decode(np.concatenate(parts), rng, first_row=first_row)

    def tensors(self) -> Tensors:
        """The start, and the weights."""
        weights = {f"network/{name}": value.numpy() for name, value in self.network.state_dict().items()}
        return {**{f"start/{name}": value for name, value in self.start.tensors().items()}, **weights}
