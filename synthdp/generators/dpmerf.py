"""DP-MERF: mean embeddings in random Fourier features, released once for each class (Harder, Adamczewski & Park 2021).

Two questions: how many records each class has, and the sum of their features, a vector of L2 norm 1 a record. A network is
then trained, at no further charge, so that what it draws of each class has the same mean features. As in their section on
unbalanced data, sums are divided by the class's own noisy count. The frequencies are public coins; the kernel's width is a
public number, never a median over records.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.errors import BadInput
from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.parts import devices, gan_model
from synthdp.generators.parts.record_vectors import Array, Vectors
from synthdp.generators.parts.table_networks import (
    WIDTH,
    Blocks,
    draw_latent,
    draw_weights,
    nearest_distribution,
    random,
)
from synthdp.generators.parts.training_state import kept_of, rebuilt
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Plan, merged
from synthdp.options import check, fraction, option, positive, several, whole
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal import GroupSums, Sensitive

# ---- Random Fourier features of vectors, and the networks that are trained to have the same mean features as records.


CHANNELS = 16  # of a picture's network, at a quarter of its size
KERNEL = 5
SLOPE = 0.1


class Features:
    """sqrt(2 / D) (cos Wx, sin Wx), with W (D / 2, width) drawn from N(0, 1 / sigma^2): their inner products approach the
    Gaussian kernel exp(-|x - y|^2 / (2 sigma^2)) (Rahimi & Recht 2007). Their L2 norm is 1 whatever x is."""

    def __init__(self, width: int, count: int, sigma: float, rng: np.random.Generator) -> None:
        self.count = count
        self.frequencies: Array = rng.standard_normal((width, count // 2)) / sigma
        self._tensors: dict[torch.device, Tensor] = {}

    def of(self, rows: Array) -> Array:
        """(rows, width) -> (rows, D), float64."""
        angles = rows @ self.frequencies
        found: Array = np.concatenate([np.cos(angles), np.sin(angles)], 1)
        found *= math.sqrt(2 / self.count)
        return found

    def of_tensor(self, rows: Tensor) -> Tensor:
        """The same in float32, differentiable, on the rows' device."""
        if rows.device not in self._tensors:
            self._tensors[rows.device] = torch.from_numpy(self.frequencies.astype(np.float32)).to(rows.device)
        angles = rows @ self._tensors[rows.device]
        return torch.cat([angles.cos(), angles.sin()], 1) * math.sqrt(2 / self.count)


class Sketcher(nn.Module):
    """Latent values and a one-hot label -> pixels (rows, pixels) in -1/2 .. 1/2, and logits (rows, width - pixels) of the
    blocks. A picture is drawn small and doubled twice: by interpolation, then by a convolution to four values per place (Shi et al.
    2016), which costs a quarter of Harder et al.'s two convolutions."""

    def __init__(self, vectors: Vectors, latent: int, hidden: Sequence[int], generator: torch.Generator | None) -> None:
        super().__init__()
        picture = vectors.codec.picture
        self._shape = (0, 0, 0) if picture is None else picture.shape
        self._small = (math.ceil(self._shape[0] / 4), math.ceil(self._shape[1] / 4))
        sizes = [latent + vectors.labels, *hidden]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.beside = nn.Linear(sizes[-1], vectors.width - vectors.pixels) if vectors.blocks else None
        self.picture = nn.ModuleList()
        if vectors.pixels:
            first = nn.Linear(sizes[-1], CHANNELS * math.prod(self._small))
            last = nn.Conv2d(CHANNELS, 4 * self._shape[2], KERNEL, padding=KERNEL // 2)
            self.picture = nn.ModuleList([first, last])
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                draw_weights(module, (2 / module.weight[0].numel()) ** 0.5, generator)

    def forward(self, latent: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels and logits."""
        values = torch.cat([latent, label], 1)
        for layer in self.layers:
            values = functional.leaky_relu(_normalised(layer(values)), SLOPE)
        pixels, logits = values.new_zeros(len(values), 0), values.new_zeros(len(values), 0)
        if len(self.picture):
            pixels = torch.sigmoid(self._drawn(values)) - 0.5
        if self.beside is not None:
            logits = self.beside(values)
        return pixels, logits

    def _drawn(self, values: Tensor) -> Tensor:
        first, last = self.picture
        values = _normalised(first(values))  # or steps of Adam drive the grey values to an end
        values = functional.leaky_relu(values, SLOPE).reshape(len(values), -1, *self._small)
        values = functional.interpolate(values, scale_factor=2.0, mode="bilinear", align_corners=False)
        values = functional.pixel_shuffle(last(values), 2)
        height, width, _ = self._shape
        return values[:, :, :height, :width].permute(0, 2, 3, 1).flatten(1)


def _normalised(values: Tensor) -> Tensor:
    return functional.layer_norm(values, values.shape[1:])


def rows_of(
    vectors: Vectors, blocks: Blocks, pixels: Tensor, logits: Tensor, temperature: float, generator: torch.Generator
) -> Tensor:
    """Vectors (rows, width) as `Vectors.of` makes them: pixels, and categories, those of `blocks`, drawn with gradients that
    pass straight through (Jang, Gu & Poole 2017)."""
    if not vectors.blocks:
        return pixels
    return torch.cat([pixels, vectors.scale * blocks.soft_draw(logits, temperature, generator)], 1)


SHOW_EVERY = 50
ROWS = 4096  # sampled at a time
# What None stands for. Of images a step costs some 0.1 s of one core.
TABLES = {"features": 4000, "steps": 1500}
IMAGES = {"features": 2000, "steps": 600}


@dataclass(frozen=True, kw_only=True)
class DPMERF:
    """Settings of DP-MERF."""

    name: ClassVar[str] = "dpmerf"
    traits: ClassVar[Traits] = Traits(kinds=("table", "images"))

    features: int | None = option(
        None,
        f"number of random Fourier features, even; default: {TABLES['features']} for tables, {IMAGES['features']} for images",
        whole(2, 100_000),
    )
    sigma: float | None = option(
        None,
        "width of the Gaussian kernel; default, from the schema alone: the usual distance of two pictures whose grey "
        "values deviate by a quarter of the range, or of two table rows that agree in half of the columns",
        positive(),
    )
    counts: float = option(0.05, "share of the precision spent on the number of records in each class", fraction())
    condition: str | None = gan_model.label_option(gan_model.CLASSES)
    hidden: tuple[int, ...] = option((200,), "widths of the network's hidden layers", several(WIDTH, 1))
    latent: int = option(10, "latent values per row", WIDTH)
    steps: int | None = option(
        None,
        f"training steps of the network, which read no record; default: {TABLES['steps']} for tables, {IMAGES['steps']} for images",
        whole(),
    )
    batch: int = option(500, "rows drawn per step", whole())
    learning_rate: float = option(3e-3, "learning rate of Adam; it falls to zero along a cosine", positive(100))
    temperature: float = option(1.0, "temperature of the straight-through Gumbel draws of categories", positive())
    device: str = option("auto", devices.HELP, devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        if self.features is not None and self.features % 2:
            raise BadInput(
                f"generator.features must be even, because each feature has a cosine and a sine; got {self.features}"
            )

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """The label is a column, there is another one, and the device is there."""
        gan_model.check_label(self.condition, schema, beside=True)
        devices.place(self.device)

    def plan(self, schema: Schema, noise: float) -> Plan:  # noqa: ARG002
        """One Gaussian for the counts, one for the embeddings."""
        return merged(Entry(Gaussian(each)) for each in self.noises(noise))

    def noises(self, noise: float) -> tuple[float, float]:
        """Of the counts and of the embeddings."""
        return noise / math.sqrt(self.counts), noise / math.sqrt(1 - self.counts)

    def width(self, vectors: Vectors) -> float:
        """The kernel's sigma: half of the expected squared distance of two vectors that the option's help describes."""
        varying = vectors.pixels / 8 + vectors.scale**2 * len(vectors.blocks)
        return self.sigma or math.sqrt(max(1.0, varying))

    def fit(self, data: Sensitive, *, seed: int | None = None, progress: Progress = silent) -> Model:
        """Two questions, then the training."""
        device = devices.place(self.device)
        of_counts, of_sums = self.noises(data.commit(lambda z: self.plan(data.declared, z)))
        schema = data.resolve()
        vectors, generator = Vectors(data.codec, gan_model.label_place(self.condition, schema)), random(seed)
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        chosen = {**(TABLES if schema.image is None else IMAGES)}
        chosen |= {name: given for name in TABLES if (given := getattr(self, name)) is not None}
        features = Features(vectors.width, chosen["features"], self.width(vectors), rng)
        labels = vectors.labels
        counts = data.ask(
            GroupSums(lambda codes: np.ones((len(codes), 1)), 1, 1.0, of_counts, vectors.label_of, labels)
        )
        question = GroupSums(
            lambda codes: features.of(vectors.of(codes)), features.count, 1.0, of_sums, vectors.label_of, labels
        )
        means = data.ask(question) / np.maximum(counts, 1.0)
        beginning = Sketcher(vectors, self.latent, self.hidden, generator)
        network = copy.deepcopy(beginning).to(device)
        targets = torch.from_numpy(means).float().to(device)
        self._train(network, vectors, features, targets, chosen["steps"], generator, progress)
        shares = nearest_distribution(torch.from_numpy(counts[:, 0])).float()
        kept = cast("Sketcher", kept_of(network.cpu(), beginning))
        return Embedded(schema, vectors, kept, shares, self.latent)

    def _train(
        self,
        network: Sketcher,
        vectors: Vectors,
        features: Features,
        means: Tensor,
        steps: int,
        generator: torch.Generator,
        progress: Progress,
    ) -> None:
        """Adam on the squared distance of mean embeddings, the mean over classes; on the device of `means` and the network."""
        optimizer = torch.optim.Adam(network.parameters(), self.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        even, blocks = torch.full((len(means),), 1 / len(means)), blocks_of(vectors)
        for step in range(steps):
            drawn = draw_latent(self.batch, self.latent, even, generator)
            latent, label = (devices.moved(values, means.device) for values in drawn)
            pixels, logits = network(latent, label)
            rows = rows_of(vectors, blocks, pixels, logits, self.temperature, generator)
            loss = _distance(features.of_tensor(rows), label, means)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            if (step + 1) % SHOW_EVERY == 0 or step + 1 == steps:
                progress(step + 1, steps, {"distance": loss.item()})

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The weights and the label's distribution."""
        vectors = Vectors(Codec(schema), gan_model.label_place(self.condition, schema))
        gan_model.check_widths(tensors, self.hidden)
        labels = {"labels": (vectors.labels,)}
        network = rebuilt(lambda stream: Sketcher(vectors, self.latent, self.hidden, stream), tensors, labels)
        return Embedded(schema, vectors, network, gan_model.labels_of(tensors), self.latent)


def blocks_of(vectors: Vectors) -> Blocks:
    """The one-hot blocks of vectors, without the pixels."""
    return Blocks([block.stop - block.start for block in vectors.blocks])


def _distance(found: Tensor, label: Tensor, means: Tensor) -> Tensor:
    """Squared distance of mean features to `means`, without bias: the product of what two halves of the rows lack. The square of one
    mean would also count its own variance, and a network could lower that by drawing the same row again and again."""
    apart = []
    for half in (slice(None, None, 2), slice(1, None, 2)):
        present = label[half].sum(0)
        mean = label[half].T @ found[half] / present.clamp_min(1)[:, None]
        apart.append((mean - means) * (present > 0)[:, None])
    return (apart[0] * apart[1]).sum(1).mean()


@dataclass(frozen=True)
class Embedded:
    """The trained network and the distribution of its label."""

    schema: Schema
    vectors: Vectors
    network: Sketcher
    labels: Tensor
    latent: int

    @torch.no_grad()
    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> pd.DataFrame:
        """Latent values and a label per row, then grey values, and one category per column."""
        generator, codec = random(seed), self.vectors.codec
        blocks = blocks_of(self.vectors)
        parts = [np.zeros((0, len(codec.sizes)), codec.dtype)]
        for start in range(0, rows, ROWS):
            latent, label = draw_latent(min(ROWS, rows - start), self.latent, self.labels, generator)
            pixels, logits = self.network(latent, label)
            greys = ((pixels + 0.5) * 255).round().clamp(0, 255).byte().numpy()
            chosen = list(blocks.draw(logits, generator).T.numpy()) if blocks.sizes else []
            parts.append(self.vectors.codes(greys, chosen, label.argmax(1).numpy()))
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        return codec.decode(np.concatenate(parts), rng, first_row=first_row)

    def tensors(self) -> Tensors:
        """The weights, and the label's distribution."""
        return gan_model.tensors_of(self.network, self.labels)


GENERATOR = DPMERF
