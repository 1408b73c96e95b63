"""The generator network of a game on tables: how it trains, the noisy tables that it starts at and is held to, and its average."""

import copy
import warnings
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from synthdp.generators.parts import devices, training_state
from synthdp.generators.parts.gan_model import Shape, network
from synthdp.generators.parts.noisy_tables import Tables
from synthdp.generators.parts.table_networks import Blocks, Network, average, draw_latent, with_label
from synthdp.generators.parts.training_state import BETAS
from synthdp.schema.codec import Codec

CALIBRATION_ROUNDS, CALIBRATION_BATCHES, CALIBRATION_ROWS = 8, 32, 8192

# rows (rows, width) and one-hot labels (rows, labels), which are on the CPU: what was drawn there need not be fetched -> a loss
Judgement = Callable[[Tensor, Tensor], Tensor]


class Settings(Shape, Protocol):
    """What a generator lets its user choose of this side."""

    @property
    def generator_rate(self) -> float: ...
    @property
    def fake_batch(self) -> int: ...
    @property
    def table_weight(self) -> float: ...
    @property
    def average(self) -> float: ...
    @property
    def temperature(self) -> float: ...


class TableGeneratorNetwork:
    """A generator network in training. `label` is the place of the column that it is conditional on; `steps` how many
    generator steps there will be, over which its learning rate falls to zero along a cosine. All is on the `device` but what
    chance is drawn by: the stream, and the distribution of the label."""

    def __init__(
        self,
        settings: Settings,
        codec: Codec,
        label: int | None,
        steps: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.settings, self.label, self.random, self.device = settings, label, generator, device
        self.blocks = Blocks(codec.sizes)
        labels = 1 if label is None else codec.sizes[label]
        self.g = network(settings, codec.sizes, label, generator).to(device)
        self.g_average, self.beginning = copy.deepcopy(self.g), copy.deepcopy(self.g)
        self.optimizer = torch.optim.Adam(self.g.parameters(), settings.generator_rate, betas=BETAS)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, max(1, steps))
        self.labels = torch.full((labels,), 1 / labels)
        self.tables: Tables | None = None
        self.latest: Tensor | float = 0.0

    @property
    def loss(self) -> float:
        """Of the last step. Whoever asks waits for the device."""
        return float(self.latest)

    def start(self, tables: Tables) -> None:
        """Begin at noisy tables: the biases at their logarithms, the labels as they say."""
        self.tables, self.labels = tables.to(self.device), tables.labels
        with torch.no_grad():
            for kept in (self.g, self.g_average):
                kept.bias.copy_(self.tables.logarithms())
        self.beginning = copy.deepcopy(self.g)

    def relabel(self, labels: Tensor) -> None:
        """Draw labels by another distribution from here on."""
        self.labels = labels

    def latent(self, rows: int) -> tuple[Tensor, Tensor]:
        """Latent values and one-hot labels, (rows, latent) and (rows, labels), as drawn: on the CPU."""
        return draw_latent(rows, self.settings.latent, self.labels, self.random)

    def _given(self, rows: int) -> tuple[Tensor, Tensor]:
        latent, label = self.latent(rows)
        return devices.moved(latent, self.device), devices.moved(label, self.device)

    @torch.no_grad()
    def fakes(self, rows: int) -> Tensor:
        """Generated codes, (rows, columns)."""
        latent, label = self._given(rows)
        codes = self.blocks.draw(self.g(latent, label), self.random)
        return with_label(codes, label, self.label)

    def rows(self, codes: Tensor) -> Tensor:
        """What networks see of codes."""
        return self.blocks.one_hot(codes)

    def labels_of(self, codes: Tensor) -> Tensor:
        """The one-hot labels of codes, (rows, labels)."""
        label = self.label if self.label is not None else 0
        return functional.one_hot(codes[:, label].long(), len(self.labels))

    def fake_rows(self, rows: int) -> Tensor:
        """Generated rows, (rows, width) zeros and ones."""
        return self.rows(self.fakes(rows))

    def step(self, judged: Judgement, step: int) -> None:
        """Descend on a judgement of generated rows and on the distance to the noisy tables; `step` counts from 0."""
        settings = self.settings
        drawn = self.latent(settings.fake_batch)
        latent, label = (devices.moved(values, self.device) for values in drawn)
        logits = self.g(latent, label)
        rows = self.blocks.soft_draw(logits, settings.temperature, self.random)
        if self.label is not None:
            block = self.blocks.slices[self.label]
            rows = torch.cat([rows[:, : block.start], label, rows[:, block.stop :]], 1)
        loss = judged(rows, drawn[1])
        if self.tables is not None and settings.table_weight > 0:
            loss = loss + settings.table_weight * self.tables.distance(self.blocks, logits, label, self.label)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        self.schedule.step()
        self.latest = loss.detach()
        average(self.g_average, self.g, settings.average, step)

    @torch.no_grad()
    def finish(self) -> Network:
        """The averaged generator, its biases moved until its tables are the noisy ones; a game that diverged is dropped. On the CPU."""
        kept = self.g_average
        if not all(bool(torch.isfinite(value).all()) for value in kept.state_dict().values()):
            warnings.warn(
                "the adversarial training diverged, so the model is only its start; lower the learning rates",
                stacklevel=3,
            )
            kept = self.beginning
        if self.tables is not None:
            latent, label = self._given(min(CALIBRATION_BATCHES * self.settings.fake_batch, CALIBRATION_ROWS))
            weights = label if self.tables.joint else torch.ones(len(label), 1, device=self.device)
            for _ in range(CALIBRATION_ROUNDS):
                shares = weights.T @ self.blocks.probabilities(kept(latent, label))
                shares = shares / weights.sum(0)[:, None].clamp_min(1)
                kept.bias.add_(self.tables.corrections(shares))
        return kept.cpu()

    def state(self) -> training_state.Arrays:
        """All that the next steps depend on, as arrays: `restore` in a new network of the same settings goes on from there."""
        arrays = {**training_state.training_state(self), "labels": self.labels.numpy().copy()}
        if self.tables is not None:
            arrays["tables"] = self.tables.columns.cpu().numpy().copy()
            arrays["table_figures"] = np.array([self.tables.joint, self.tables.total], np.float64)
        return arrays

    def restore(self, state: training_state.State) -> None:
        """The inverse of `state`."""
        self.labels = training_state.tensor(state["labels"])
        training_state.restore_training(self, state)
        if "tables" in state:
            joint, total = (float(value) for value in state["table_figures"])
            columns = training_state.tensor(state["tables"])
            tables = Tables(columns=columns, labels=self.labels, joint=bool(joint), total=total)
            self.tables = tables.to(self.device)
