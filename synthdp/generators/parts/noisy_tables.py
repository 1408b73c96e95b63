"""Noisy tables that a generator starts at and is held to: every column's distribution, for each label where there is one."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from synthdp.generators.parts.table_networks import Blocks, nearest_distribution

if TYPE_CHECKING:
    from synthdp.seal import Sensitive

STARTS = ("label", "columns", "none")
SMALL = 2e-5  # of a probability: what a cell keeps though its noisy count is zero


@dataclass(frozen=True, kw_only=True)
class Tables:
    """What the noisy tables say. `total` is the noisy number of records."""

    columns: Tensor  # P(column | label), (labels, width)
    labels: Tensor  # P(label), (labels,)
    joint: bool  # whether the tables tell labels apart
    total: float

    def to(self, device: torch.device) -> "Tables":
        return replace(self, columns=self.columns.to(device), labels=self.labels.to(device))

    def logarithms(self) -> Tensor:
        """Biases at which a generator draws from the tables, (labels, width)."""
        return (self.columns + SMALL).log()

    def corrections(self, shares: Tensor) -> Tensor:
        """What to add to the biases where they give `shares` in place of the tables."""
        tables = self.columns if self.joint else self.columns[:1]
        return ((tables + SMALL) / (shares + SMALL)).log().clamp(-1, 1)

    def distance(self, blocks: Blocks, logits: Tensor, label: Tensor, place: int | None) -> Tensor:
        """Squared distance of the joint (label x column) tables, relative to each cell; the two halves of the rows make
        the square unbiased. `place` is the label's column, left out."""
        shares = blocks.probabilities(logits)
        target = self.columns * self.labels[:, None]
        half = len(label) // 2
        halves = [label[:half], label[half:]], [shares[:half], shares[half:]]
        one, other = (y.T @ p / max(1, len(y)) - target for y, p in zip(*halves, strict=True))
        if not self.joint:  # one-way tables say nothing of the labels apart
            one, other, target = one.sum(0, keepdim=True), other.sum(0, keepdim=True), target.sum(0, keepdim=True)
        cells = one * other / (target + 1e-3)
        if place is not None:
            block = blocks.slices[place]
            cells = torch.cat([cells[:, : block.start], cells[:, block.stop :]], 1)
        return cells.sum()


def ask(data: "Sensitive", blocks: Blocks, label: int | None, start: str, labels: Tensor, noise: float) -> Tables:
    """Ask for the tables that `start` names, "label" or "columns": one Gaussian for all. `labels` stands for the label's
    distribution where there is no label."""
    names = data.codec.names
    joint = label is not None and start == "label" and len(names) > 1
    columns = [place for place in range(len(names)) if not (joint and place == label)]
    cliques = [(names[label], names[place]) if joint and label is not None else (names[place],) for place in columns]
    answers = [torch.from_numpy(table) for table in data.marginals(cliques, noise)]
    total = torch.stack([table.sum() for table in answers]).mean().clamp_min(1.0)
    if joint:
        labels = nearest_distribution(torch.stack([table.sum(1) for table in answers]).mean(0)).float()
    elif label is not None:
        labels = nearest_distribution(answers[label]).float()
    expected = total * (labels.double().clamp_min(1e-3) if joint else torch.ones(1, dtype=torch.float64))
    tables = torch.zeros(len(labels), blocks.width)
    for place, table in zip(columns, answers, strict=True):
        rows = zip(table.reshape(len(expected), -1), expected, strict=True)
        shares = torch.stack([nearest_distribution(row / count) for row, count in rows])
        tables[:, blocks.slices[place]] = shares.float()  # one row serves all labels where it is one-way
    if label is not None:
        tables[:, blocks.slices[label]] = torch.eye(len(labels))
    return Tables(columns=tables, labels=labels, joint=joint or label is None, total=float(total))
