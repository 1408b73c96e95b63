"""Pictures as rows of numbers: what the networks of an adversarial game on images see of codes, and what they start from."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from synthdp.errors import BadInput
from synthdp.generators.gaussians.class_mixture import Mixture
from synthdp.generators.parts.table_networks import draw_latent
from synthdp.schema.codec import Codec

WHITE = 255
LEAK = 0.1  # share of the gradient that passes where a value lies outside [0, 1]


@dataclass(frozen=True, kw_only=True)
class PixelLayout:
    """A row is one picture, values in [0, 1] in the order (height, width, channels), then its label, one-hot."""

    shape: tuple[int, int, int]  # height, width, channels
    start: int  # place of the first pixel among the codes
    columns: int  # number of codes
    label: int | None  # place of the label among the codes
    labels: int  # 1 where there is none

    @classmethod
    def of(cls, codec: Codec, label: int | None) -> "PixelLayout":
        """The layout of a schema's image."""
        picture = codec.picture
        if picture is None:
            raise BadInput("the schema has no image column")
        labels = 1 if label is None else codec.sizes[label]
        return cls(shape=picture.shape, start=picture.start, columns=len(codec.sizes), label=label, labels=labels)

    @property
    def pixels(self) -> int:
        """Values of one picture."""
        return math.prod(self.shape)

    def rows(self, codes: Tensor) -> Tensor:
        """(rows, columns) codes -> (rows, pixels + labels), each row of its own codes alone."""
        pixels = codes[:, self.start : self.start + self.pixels].float() / WHITE
        if self.label is None:
            return torch.cat([pixels, torch.ones(len(codes), 1, device=codes.device)], 1)
        return torch.cat([pixels, functional.one_hot(codes[:, self.label].long(), self.labels).float()], 1)

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Values (rows, pixels) and one-hot labels (rows, labels)."""
        return rows[:, : self.pixels], rows[:, self.pixels :]

    def image(self, values: Tensor) -> Tensor:
        """(rows, pixels) -> (rows, channels, height, width)."""
        return values.reshape(-1, *self.shape).permute(0, 3, 1, 2)

    def flat(self, image: Tensor) -> Tensor:
        """The inverse of `image`."""
        return image.permute(0, 2, 3, 1).reshape(len(image), -1)


@dataclass(frozen=True, kw_only=True)
class Source:
    """What a generator's network is given: pictures drawn of the start, or latent values where it starts at none. All of it
    on the CPU."""

    layout: PixelLayout
    labels: Tensor  # (labels,), the distribution of the label
    mixture: Mixture | None
    latent: int

    @torch.no_grad()
    def draw(self, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Pictures or latent values (rows, pixels or latent), one-hot labels, and codes (rows, columns) to put values into."""
        latent, label = draw_latent(rows, self.latent, self.labels, generator)
        layout = self.layout
        if self.mixture is None:
            codes = torch.zeros(rows, layout.columns, dtype=torch.int64)
            if layout.label is not None:
                codes[:, layout.label] = label.argmax(1)
            return latent, label, codes
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        chosen = label.argmax(1).numpy()
        codes = torch.from_numpy(self.mixture.codes(self.mixture.drawn(chosen, rng), chosen).astype(np.int64))
        return layout.split(layout.rows(codes))[0], label, codes

    def with_pixels(self, codes: Tensor, values: Tensor) -> Tensor:
        """The codes with these values (rows, pixels), each rounded to the nearest of 0 .. 255."""
        places = slice(self.layout.start, self.layout.start + self.layout.pixels)
        codes[:, places] = (values.nan_to_num() * WHITE).round().clamp(0, WHITE).long()
        return codes


def in_range(values: Tensor) -> Tensor:
    """Values cut off at 0 and 1; a tenth of the gradient passes there, so that what is cut off can come back."""
    cut = values.clamp(0, 1)
    beyond = LEAK * (values - cut)
    return cut + (beyond - beyond.detach())
