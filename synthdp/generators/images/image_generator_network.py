"""The generator network of a game on images: how it trains, the start that it retouches, and what a fit returns."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from synthdp.generators import Tensors
from synthdp.generators.adversarial.table_generator_network import Judgement
from synthdp.generators.classgauss import ClassGauss
from synthdp.generators.gaussians.class_mixture import Mixture
from synthdp.generators.images.image_networks import LatentGenerator, ResidualGenerator, principal_axes
from synthdp.generators.images.pixel_rows import PixelLayout, Source
from synthdp.generators.parts import devices, training_state
from synthdp.generators.parts.gan_model import labels_of
from synthdp.generators.parts.table_networks import nearest_distribution, random
from synthdp.ledger.events import Entry, Gaussian, Plan
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive

ROWS = 2048  # sampled at a time
LENS = 64  # most coefficients of architecture=basis
LOOKED_AT = 4096  # pictures of the start whose principal axes are the basis
MIXTURE = "start/"
# Widths of the discriminator -> of the generator in the code that goes with Waites 2019.
WAITES: dict[tuple[int, ...], tuple[int, ...]] = {(512, 256): (128, 256, 512, 1024)}


class Settings(Protocol):
    """What a generator lets its user choose of this side."""

    @property
    def architecture(self) -> str: ...
    @property
    def widths(self) -> tuple[int, ...]: ...
    @property
    def latent(self) -> int: ...
    @property
    def start(self) -> str: ...
    @property
    def condition(self) -> str | None: ...
    @property
    def generator_rate(self) -> float: ...
    @property
    def fake_batch(self) -> int: ...
    @property
    def average(self) -> float: ...


class ImageGeneratorNetwork(training_state.Training):
    """A generator network in training, as `TableGeneratorNetwork`: `steps` is how many generator steps there will be. Pictures of the
    start are drawn on the CPU and moved to the `device`."""

    def __init__(
        self,
        settings: Settings,
        codec: Codec,
        label: int | None,
        steps: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.settings, self.label, self.random, self.schema = settings, label, generator, codec.schema
        self.device = device
        self.layout = PixelLayout.of(codec, label)
        self.begin_at(network_of(settings, self.layout, generator).to(device), settings.generator_rate, steps)
        labels = torch.full((self.layout.labels,), 1 / self.layout.labels)
        self.source = Source(layout=self.layout, labels=labels, mixture=None, latent=settings.latent)

    @property
    def labels(self) -> Tensor:
        """The distribution of the label."""
        return self.source.labels

    def start(self, labels: Tensor, mixture: Mixture | None) -> None:
        """Begin at a noisy distribution of the label, and at class Gaussians or none. Principal axes of pictures drawn of
        them are the basis of architecture=basis: public by then."""
        self.source = replace(self.source, labels=labels, mixture=mixture)
        count = lens_of(self.settings, self.layout)
        if count is not None:
            axes = principal_axes(self.source.draw(LOOKED_AT, self.random)[0], count)
            for kept in (self.g, self.g_average, self.beginning):
                if isinstance(kept, ResidualGenerator):
                    kept.focus(*axes)

    def relabel(self, labels: Tensor) -> None:
        """Draw labels by another distribution from here on."""
        self.source = replace(self.source, labels=labels)

    def rows(self, codes: Tensor) -> Tensor:
        """What networks see of codes."""
        return self.layout.rows(codes)

    def labels_of(self, codes: Tensor) -> Tensor:
        """The one-hot labels of codes, (rows, labels)."""
        return self.layout.rows(codes)[:, self.layout.pixels :]

    def given(self, rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As `Source.draw`, what the network is given and one-hot labels, both moved; then, still on the CPU, the labels once more
        and the codes."""
        given, label, codes = self.source.draw(rows, self.random)
        here = devices.moved(given, self.device), devices.moved(label, self.device)
        return *here, label, codes

    @torch.no_grad()
    def fake_rows(self, rows: int) -> Tensor:
        """Generated pictures and their labels, (rows, pixels + labels)."""
        given, label, *_ = self.given(rows)
        return torch.cat([self.g(given, label), label], 1)

    def step(self, judged: Judgement, step: int) -> None:
        """Descend on a judgement of generated pictures; `step` counts from 0."""
        given, label, known, _ = self.given(self.settings.fake_batch)
        self.follow(judged(torch.cat([self.g(given, label), label], 1), known), self.settings.average, step)

    def finish(self) -> "ImageModel":
        """The averaged generator; a game that diverged is dropped, and what it started from is the model. On the CPU."""
        diverged = (
            "the adversarial training diverged, so the model is only its starting point; lower the learning rates"
        )
        kept = training_state.kept_of(self.g_average, self.beginning, diverged)
        return ImageModel(schema=self.schema, source=self.source, network=kept.cpu())

    def state(self) -> training_state.Arrays:
        """All that the next steps depend on, as arrays: `restore` in a new network of the same settings goes on from there."""
        arrays = {**super().state(), "labels": self.labels.numpy().copy()}
        if self.source.mixture is not None:
            arrays.update({MIXTURE + name: value.copy() for name, value in self.source.mixture.tensors().items()})
        return arrays

    def restore(self, state: training_state.State) -> None:
        mixture = begun(self.settings, self.schema, state) if self.settings.start == "gauss" else None
        self.source = replace(self.source, labels=training_state.tensor(state["labels"]), mixture=mixture)
        super().restore(state)


@dataclass(frozen=True, kw_only=True)
class ImageModel:
    """The averaged generator, and what it is given."""

    schema: Schema
    source: Source
    network: nn.Module

    @torch.no_grad()
    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> pd.DataFrame:
        """A label and a picture of the start, or latent values, per row; then the network."""
        codec, generator = Codec(self.schema), random(seed)
        parts = [torch.zeros((0, len(codec.sizes)), dtype=torch.int64)]
        for start in range(0, rows, ROWS):
            given, label, codes = self.source.draw(min(ROWS, rows - start), generator)
            parts.append(self.source.with_pixels(codes, self.network(given, label)))
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        return codec.decode(torch.cat(parts).numpy(), rng, first_row=first_row)

    def tensors(self) -> Tensors:
        """The weights, the label's distribution, and the start's arrays."""
        arrays = {name: value.numpy() for name, value in self.network.state_dict().items()}
        if self.source.mixture is not None:
            arrays.update({MIXTURE + name: value for name, value in self.source.mixture.tensors().items()})
        return {**arrays, "labels": self.source.labels.numpy()}


def starter(settings: Settings) -> ClassGauss:
    """The one-shot generator whose answers a game with start=gauss buys."""
    return ClassGauss(condition=settings.condition)


def begun(settings: Settings, schema: Schema, arrays: training_state.State) -> Mixture:
    """The start that is among the arrays of a state or a model."""
    own = {name.removeprefix(MIXTURE): value for name, value in arrays.items() if name.startswith(MIXTURE)}
    return cast("Mixture", starter(settings).restore(schema, own))


def lens_of(settings: Settings, layout: PixelLayout) -> int | None:
    """How many coefficients the networks see in place of values; None: values."""
    return min(LENS, layout.pixels) if settings.architecture == "basis" else None


def network_of(settings: Settings, layout: PixelLayout, generator: torch.Generator | None) -> nn.Module:
    """The generator's network: with start=gauss it retouches pictures of the start, else it paints from latent values."""
    convolutional = settings.architecture == "conv"
    if settings.start == "gauss":
        return ResidualGenerator(layout, convolutional, settings.widths, lens_of(settings, layout), generator)
    hidden = settings.widths if convolutional else WAITES.get(settings.widths, settings.widths[::-1])
    return LatentGenerator(layout, convolutional, hidden, settings.latent, generator)


def restored(settings: Settings, schema: Schema, tensors: Tensors, label: int | None) -> ImageModel:
    """The model with these `tensors`; raises `BadInput` where names or shapes do not fit."""
    layout = PixelLayout.of(Codec(schema), label)
    mixture = begun(settings, schema, tensors) if settings.start == "gauss" else None
    own = {name: value for name, value in tensors.items() if not name.startswith(MIXTURE)}
    made = training_state.rebuilt(partial(network_of, settings, layout), own, {"labels": (layout.labels,)})
    source = Source(layout=layout, labels=labels_of(own), mixture=mixture, latent=settings.latent)
    return ImageModel(schema=schema, source=source, network=made)


# ---- What a game on images buys before its first step: the answers of class Gaussians, the label's counts, or nothing.


STARTS = ("gauss", "label", "none")


def plan(settings: Settings, schema: Schema, noise: float) -> Plan:
    """What `begin` asks, all of it together one Gaussian of this noise."""
    if settings.start == "gauss":
        return starter(settings).plan(schema, noise)
    return (Entry(Gaussian(noise)),) if settings.start == "label" else ()


def begin(data: Sensitive, settings: Settings, network: ImageGeneratorNetwork, noise: float) -> None:
    """Ask, and let the network begin there."""
    if settings.start == "gauss":
        own = starter(settings)
        seed = int(torch.randint(2**62, (1,), generator=network.random))
        mixture = own.learn(data, own.noises(data.schema, noise), seed=seed)
        network.start(torch.from_numpy(mixture.labels).float(), mixture)
        return
    codec, label = data.codec, network.label
    if label is None:
        return
    (counts,) = data.marginals([(codec.names[label],)], noise)
    network.start(nearest_distribution(torch.from_numpy(counts)).float(), None)
