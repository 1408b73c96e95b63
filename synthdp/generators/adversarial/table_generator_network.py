"""The generator network of a game on tables: how it trains, the noisy answers that it starts at and is held to, and its average."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from synthdp.generators.adversarial.pair_kernel import Interactions, interactions
from synthdp.generators.parts import devices, noisy_tables, training_state
from synthdp.generators.parts.gan_model import Shape, network
from synthdp.generators.parts.noisy_tables import Tables
from synthdp.generators.parts.table_networks import Blocks, Network, draw_latent, with_label
from synthdp.ledger.events import Entry, Gaussian, Plan
from synthdp.options import fraction, one_of, option
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive

if TYPE_CHECKING:
    from synthdp.generators.marginals.mixture_model import MixtureModel
    from synthdp.generators.mixture import Mixture

STARTS = ("mixture", *noisy_tables.STARTS)
LEAST = 1e-7  # of a probability of a component
CALIBRATION_ROUNDS, CALIBRATION_BATCHES, CALIBRATION_ROWS = 8, 32, 8192

# rows (rows, width) and one-hot labels (rows, labels), which are on the CPU: what was drawn there need not be fetched -> a loss
Judgement = Callable[[Tensor, Tensor], Tensor]


def start_option(default: str, more: str = "") -> Any:
    """The option `start`."""
    told = "noisy answers that the generator starts from: mixture (the fit of generator mixture, which the network retouches), label "
    return option(default, f"{told}(label x column), columns (one-way) or none{more}", one_of(*STARTS))


def tables_option(shares: Mapping[str, float]) -> Any:
    """The option `tables`, whose default follows from the start."""
    told = ", ".join(f"{share:g} for {start}" for start, share in shares.items())
    return option(None, f"share of the precision spent on the start, in (0, 1); default: {told}", fraction())


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
    @property
    def device(self) -> str: ...


class TableGeneratorNetwork(training_state.Training):
    """A generator network in training. `label` is the place of the column that it is conditional on; `steps` how many
    generator steps there will be, over which its learning rate falls to zero along a cosine. All is on the `device` but what
    chance is drawn by: the stream, and the distribution of the label."""

    g: Network
    g_average: Network

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
        self.steps = steps
        self._make(0)
        self.labels = torch.full((labels,), 1 / labels)
        self.tables: Tables | None = None

    def _make(self, components: int) -> None:
        made = network(self.settings, self.blocks.sizes, self.label, self.random, components)
        self.begin_at(made.to(self.device), self.settings.generator_rate, self.steps)

    def start(self, tables: Tables, mixed: "Mixed | None" = None) -> None:
        """Begin at noisy tables, the biases at their logarithms and the labels as they say; or at a mixture, whose tables these are."""
        self.tables, self.labels = tables.to(self.device), tables.labels
        if mixed is not None:
            self._make(len(mixed.logs))
            self.g.begin(mixed.logs, mixed.ends)
        else:
            with torch.no_grad():
                self.g.bias.copy_(self.tables.logarithms())
        self.g_average, self.beginning = copy.deepcopy(self.g), copy.deepcopy(self.g)

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
        self.follow(loss, settings.average, step)

    @torch.no_grad()
    def finish(self) -> Network:
        """The averaged generator, its biases moved until its tables are the noisy ones; a game that diverged is dropped. On the CPU."""
        diverged = "the adversarial training diverged, so the model is only its start; lower the learning rates"
        kept = cast("Network", training_state.kept_of(self.g_average, self.beginning, diverged))
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
        arrays = {**super().state(), "labels": self.labels.numpy().copy()}
        if self.tables is not None:
            arrays["tables"] = self.tables.columns.cpu().numpy().copy()
            arrays["table_figures"] = np.array([self.tables.joint, self.tables.total], np.float64)
        return arrays

    def restore(self, state: training_state.State) -> None:
        self.labels = training_state.tensor(state["labels"])
        if "g/logs" in state:
            self._make(len(state["g/logs"]))
        super().restore(state)
        if "tables" in state:
            joint, total = (float(value) for value in state["table_figures"])
            columns = training_state.tensor(state["tables"])
            tables = Tables(columns=columns, labels=self.labels, joint=bool(joint), total=total)
            self.tables = tables.to(self.device)


def features_of(network: TableGeneratorNetwork, schema: Schema, *, degree: int, floor: float) -> Interactions:
    """Features of pairs of columns under the noisy tables, or under even ones where none were asked for: see `interactions`."""
    blocks, tables = network.blocks, network.tables
    even = torch.cat([torch.full((size,), 1 / size) for size in blocks.sizes]).expand(len(network.labels), -1)
    columns = even if tables is None else tables.columns.cpu()
    return interactions(schema, blocks, network.label, columns, network.labels, degree=degree, floor=floor)


# ---- What a game on tables buys before its first step.


@dataclass(frozen=True)
class Mixed:
    """A mixture as a network begins at it: see `table_networks.Network`."""

    logs: Tensor
    ends: Tensor


def plan(start: str, schema: Schema, noise: float) -> Plan:
    """What `begin` asks, all of it together one Gaussian of this noise."""
    if start == "none":
        return ()
    return mixture().plan(schema, noise) if start == "mixture" else (Entry(Gaussian(noise)),)


def begin(data: Sensitive, start: str, network: TableGeneratorNetwork, noise: float) -> None:
    """Ask what was planned, and let the network begin there."""
    if start == "none":
        return
    if start != "mixture":
        network.start(noisy_tables.ask(data, network.blocks, network.label, start, network.labels, noise))
        return
    seed = int(torch.randint(2**62, (1,), generator=network.random))
    model, total = mixture(network.settings.device).learn(data, noise, seed=seed)
    network.start(*of_mixture(model, network.label, total))


def mixture(device: str = "auto") -> "Mixture":
    """In the declared bins, as networks see columns."""
    from synthdp.generators.mixture import Mixture

    return Mixture(cells=0, device=device)


def of_mixture(model: "MixtureModel", label: int | None, total: float) -> tuple[Tables, Mixed]:
    """The mixture's tables of every column and the label at this place, (labels, width), and the mixture as a network begins at it.
    Where several columns make its label together, a component becomes one for each of their values."""
    weights, columns = _spread(model)
    kept = weights > 0
    weights, columns = weights[kept], [column[kept] for column in columns]
    joint = weights[:, None] * (np.ones((len(weights), 1)) if label is None else columns[label])
    labels = joint.sum(0)
    given = np.where(labels > 0, joint, weights[:, None]) / np.where(labels > 0, labels, weights.sum())
    shares = given.T @ np.concatenate(columns, 1)
    if label is not None:
        first = sum(column.shape[1] for column in columns[:label])
        shares[:, first : first + len(labels)] = np.eye(len(labels))
    logs = torch.from_numpy(np.log(np.concatenate(columns, 1) + LEAST)).float()
    ends = torch.from_numpy(np.cumsum(given, 0).T.copy()).float()
    chances = torch.from_numpy(labels / labels.sum()).float()
    return Tables(columns=torch.from_numpy(shares).float(), labels=chances, joint=True, total=total), Mixed(logs, ends)


def _spread(model: "MixtureModel") -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Weights (components,) and, in the order of the codes, distributions (components, codes) of the columns."""
    from synthdp.generators.marginals.mixture_model import beside

    names, products = model.codec.names, model.products
    sizes = [model.groups[names.index(name)].count for name in model.labels]
    weights, groups = products.weights, dict(zip(beside(model.schema, model.labels), products.columns, strict=True))
    if len(sizes) == 1:
        groups[model.labels[0]] = products.label
    elif sizes:
        values = np.unravel_index(np.arange(products.label.shape[1]), sizes)
        groups = {name: np.repeat(column, len(values[0]), 0) for name, column in groups.items()}
        for name, size, each in zip(model.labels, sizes, values, strict=True):
            groups[name] = np.tile(np.eye(size)[each], (len(weights), 1))
        weights = (weights[:, None] * products.label).ravel()
    held = zip(names, model.groups, strict=True)
    return weights, [groups[name][:, each.of] * each.within for name, each in held]
