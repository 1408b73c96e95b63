"""What the adversarial generators of tables return: a network, the distribution of its label, and how rows are drawn from
them."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from synthdp.errors import BadInput
from synthdp.generators import Tensors, check_distributions
from synthdp.generators.parts.table_networks import Blocks, Network, draw_latent, random, with_label
from synthdp.generators.parts.training_state import rebuilt
from synthdp.options import option, text
from synthdp.schema.codec import Codec
from synthdp.schema.coders import coder_of
from synthdp.schema.schema import Schema

ROWS = 4096  # sampled at a time
MOST_LABELS = 64  # a target with more codes than this is a column like any other
FIRST_TARGET = f"the first target, if it has at most {MOST_LABELS} codes"
CLASSES = "whose values are the classes"  # what a label column is to a generator of classes


class Shape(Protocol):
    """The settings that a network's shapes follow from."""

    @property
    def hidden(self) -> tuple[int, ...]: ...
    @property
    def latent(self) -> int: ...


@dataclass(frozen=True)
class NetworkModel:
    """The averaged generator and the distribution of its label."""

    schema: Schema
    network: Network
    labels: Tensor
    label: int | None
    latent: int

    @torch.no_grad()
    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> pd.DataFrame:
        """Latent values and a label per row, then one category per column."""
        codec, generator = Codec(self.schema), random(seed)
        blocks = Blocks(codec.sizes)
        parts = [torch.zeros((0, len(codec.sizes)), dtype=torch.int64)]
        for start in range(0, rows, ROWS):
            latent, label = draw_latent(min(ROWS, rows - start), self.latent, self.labels, generator)
            codes = blocks.draw(self.network(latent, label), generator)
            parts.append(with_label(codes, label, self.label))
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        return codec.decode(torch.cat(parts).numpy().astype(np.int32), rng, first_row=first_row)

    def tensors(self) -> Tensors:
        """The weights, and the label's distribution."""
        return tensors_of(self.network, self.labels)


def tensors_of(network: nn.Module, labels: Tensor) -> Tensors:
    """The weights of a network, and the distribution of its label."""
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    return {**weights, "labels": labels.numpy()}


def check_widths(tensors: Tensors, hidden: tuple[int, ...]) -> None:
    """Refuse layers of other widths than the settings say, before anything of these widths is allocated."""
    widths = tuple(tensors[f"layers.{place}.weight"].shape[0] for place in range(len(hidden)))
    if widths != hidden:
        raise BadInput(
            f"the model's layers have widths {widths}, but its settings give {hidden}; the release was altered"
        )


def label_option(role: str = "that the generator is conditioned on", default: str = FIRST_TARGET) -> Any:
    """The option that names the label column: what it is for, and what None stands for."""
    return option(None, f"label column {role}; default: {default}", text())


def check_label(condition: str | None, schema: Schema, *, beside: bool = False) -> None:
    """Refuse a `condition` that is no column to go by, or, where there must be one `beside` it, the only column."""
    names = [column.name for column in schema.coded if column.kind != "image"]
    if condition is None:
        return
    if condition not in names:
        raise BadInput(f"generator.condition: no modelled column named {condition!r}; known: {', '.join(names)}")
    if beside and len(schema.coded) == 1:
        raise BadInput(
            f"generator.condition: {condition!r} is the only column, so none is left to learn; leave generator.condition out"
        )


def label_place(condition: str | None, schema: Schema) -> int | None:
    """Place of the label among the codes of a resolved schema: `condition`, or else the first target up to `MOST_LABELS` codes."""
    check_label(condition, schema)
    name = label_name(condition, schema)
    return None if name is None else Codec(schema).names.index(name)


def label_name(condition: str | None, schema: Schema) -> str | None:
    """The label as far as the schema knows: a target with something still to learn may turn out to be none."""
    if condition is not None or not schema.targets:
        return condition
    target = schema.column(schema.targets[0])
    known = target.name not in dict(schema.learned)
    return None if known and coder_of(target).size > MOST_LABELS else target.name


def surely_label(condition: str | None, schema: Schema) -> str | None:
    """The label, where nothing that is learned can make it none."""
    name = label_name(condition, schema)
    return condition if name in dict(schema.learned) else name


def network(
    settings: Shape, sizes: tuple[int, ...], label: int | None, generator: torch.Generator | None, components: int = 0
) -> Network:
    """The generator's network for columns of these sizes, which retouches a mixture of so many `components`."""
    labels = 1 if label is None else sizes[label]
    return Network(settings.latent, labels, settings.hidden, sum(sizes), generator, components)


def restored(
    settings: Shape, schema: Schema, tensors: Tensors, label: int | None, *, mixed: bool = False
) -> NetworkModel:
    """The model with these `tensors`, among which is a mixture that the network retouches if it is `mixed`. Raises `BadInput` where names
    or shapes do not fit."""
    sizes = Codec(schema).sizes
    check_widths(tensors, settings.hidden)
    components = len(tensors["logs"]) if mixed and "logs" in tensors and tensors["logs"].ndim == 2 else 0
    if mixed and not components:
        raise BadInput("generator.start=mixture, but the model holds no mixture; the release was altered")
    labels = {"labels": (1 if label is None else sizes[label],)}
    made = rebuilt(lambda stream: network(settings, sizes, label, stream, components), tensors, labels)
    return NetworkModel(schema, made, labels_of(tensors), label, settings.latent)


def labels_of(tensors: Tensors) -> Tensor:
    """The distribution of the label; raises `BadInput` where it is none."""
    check_distributions(tensors, ["labels"])
    return torch.from_numpy(np.array(tensors["labels"], np.float32))
