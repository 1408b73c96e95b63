"""`kernel_teachers_images`: what its rounds (`adversarial/kernel_rounds.py`) are about.

The start are class Gaussians. Teachers tell, at generated pictures q, the mean of k(x, q) over records; less that over pictures
of the start, which is public, it is a noisy evaluation of the difference of the two mean embeddings (Gretton et al. 2012,
lemma 4). The student is the Gaussian process on this difference, drawn to zero where noise is all. The network retouches
pictures of the start, and descends on the squared distance of two differences: what its retouching adds to the mean embedding,
and what the student learnt. Pairs of a picture and its retouching estimate the first one with hardly any chance.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from synthdp.generators.adversarial.pair_kernel import weights_of
from synthdp.generators.images.image_generator_network import ImageGeneratorNetwork, ImageModel
from synthdp.generators.images.image_networks import principal_axes
from synthdp.generators.images.pixel_rows import WHITE, PixelLayout, Source
from synthdp.generators.parts import training_state
from synthdp.generators.parts.devices import moved
from synthdp.generators.parts.table_networks import random
from synthdp.seal import Kernel

# ---- How pictures are compared: by whitened coefficients in axes of pictures that are public.
#
# A picture's coefficients z are those along the principal axes of the start's pictures around their label's mean, each of unit
# variance within its label. Pictures of the same label compare by k(x, x') = (1 + <z, z'> / sqrt(axes))^degree - 1, whose features
# are all products of up to `degree` coefficients: of degree 3 they hold what class Gaussians cannot. Teachers must answer with
# the same bits wherever a record is in a batch: the products are sums of whole numbers below 2^53, exact in any order.


AXES = 24
BITS = 24  # of an entry of the lens: with a picture's values below 2^53 for up to 2^21 of them
FINE, MOST = 1024.0, 32.0  # whole steps in 1, and the largest coefficient
LEAST_LABEL = 0.05  # share of a label below which it gets no more weight
PSEUDO = 10  # pictures of a label that its coefficients' unit variance counts for


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """`lens` (pixels, axes): whole numbers; `unit`: what they are to be multiplied by; `centres` and `inverses` (labels, axes):
    means, and one over deviations; `weights` (labels,): of comparisons."""

    layout: PixelLayout
    lens: Tensor
    unit: float
    centres: Tensor
    inverses: Tensor
    weights: Tensor
    degree: int

    def to(self, device: torch.device) -> "Coefficients":
        """What `seen` reads elsewhere; the weights stay, since they are read one by one."""
        lens, centres, inverses = (values.to(device) for values in (self.lens, self.centres, self.inverses))
        return replace(self, lens=lens, centres=centres, inverses=inverses)

    def labels_of(self, codes: Tensor) -> Tensor:
        """(rows,) the label of each row; 0 where there is none."""
        place = self.layout.label
        return codes[:, place].long() if place is not None else torch.zeros(len(codes), dtype=torch.int64)

    def of(self, codes: Tensor) -> Tensor:
        """(rows, axes) coefficients of codes, whole numbers of steps, float64."""
        start = self.layout.start
        found = codes[:, start : start + self.layout.pixels].double() @ self.lens
        labels = self.labels_of(codes)
        scaled = (found * (self.unit / WHITE) - self.centres[labels]) * self.inverses[labels]
        return (scaled * FINE).round().clamp(-MOST * FINE, MOST * FINE)

    def seen(self, values: Tensor, labels: Tensor) -> Tensor:
        """(rows, axes) coefficients of values in [0, 1], float32, to be descended on."""
        found = values @ (self.lens * self.unit).float()
        return ((found - self.centres[labels].float()) * self.inverses[labels].float()).clamp(-MOST, MOST)

    def alike(self, products: Tensor) -> Tensor:
        """The kernel, but for labels, from inner products of coefficients."""
        base = 1 + products * torch.tensor(self.lens.shape[1], dtype=products.dtype).rsqrt()
        power = base
        for _ in range(self.degree - 1):  # the same roundings wherever an entry is
            power = power * base
        return power - 1

    def kernel(self, codes: Tensor, queries: Tensor) -> Tensor:
        """k of every row and query, (rows, queries) float64."""
        found = self.alike((self.of(codes) @ self.of(queries).T) / FINE**2)
        rows, asked = self.labels_of(codes), self.labels_of(queries)
        return torch.where(rows[:, None] == asked[None, :], found * self.weights[asked][None, :], 0.0)


def coefficients(layout: PixelLayout, values: Tensor, labels: Tensor, shares: Tensor, degree: int) -> Coefficients:
    """Of generated pictures `values` (rows, pixels) in [0, 1] and their labels (rows,), whose distribution is `shares`."""
    counts = torch.bincount(labels, minlength=layout.labels).double()[:, None]
    sums = torch.zeros(layout.labels, layout.pixels, dtype=torch.float64).index_add_(0, labels, values.double())
    means = torch.where(counts > 0, sums / counts.clamp_min(1), values.double().mean(0))
    around = values.double() - means[labels]
    axes = principal_axes(around, min(AXES, layout.pixels))[0].double()
    unit = float(axes.abs().max().clamp_min(1e-12)) / 2**BITS
    lens = (axes / unit).round()
    squares = torch.zeros(layout.labels, axes.shape[1], dtype=torch.float64)
    squares.index_add_(0, labels, (around @ (lens * unit)).square())
    return Coefficients(
        layout=layout,
        lens=lens,
        unit=unit,
        centres=means @ (lens * unit),
        inverses=((squares + PSEUDO) / (counts + PSEUDO)).rsqrt(),
        weights=1 / shares.double().clamp_min(LEAST_LABEL),
        degree=degree,
    )


# Pictures of the start; fewer where they are large: about so many values
COMPARED, LEAST_COMPARED, VALUES = 16384, 2048, 2**24
AT_ONCE = 2048
CHECKED = 1024  # pairs by which the generator's distance is checked at the end


@dataclass(frozen=True, kw_only=True)
class KernelStudent:
    """What the student learnt: queries' coefficients (queries, axes), labels and weights (queries,), in place of the difference. Labels
    are on the CPU, so that it is known there which rows have which label."""

    space: Coefficients
    queries: Tensor
    labels: Tensor
    weights: Tensor

    def distance(self, made: Tensor, given: Tensor, labels: Tensor) -> Tensor:
        """Squared distance, less a constant, of what `made` of the `given` values (rows, pixels) adds from what was learnt;
        `labels` (rows,) are on the CPU.

        It is 0 where nothing was added. Unbiased: no pair is compared with itself.
        """
        rows, device = len(labels), made.device
        there = moved(labels, device)
        ends = torch.stack([self.space.seen(made, there), self.space.seen(given, there)])
        total = torch.zeros((), device=device)
        for label in range(len(self.space.weights)):
            found = [(own == label).nonzero()[:, 0] for own in (labels, self.labels)]
            if not len(found[0]):
                continue
            mine, asked = (moved(places, device) for places in found)
            both = ends[:, mine].flatten(0, 1)
            sign = torch.ones(2, len(mine), device=device)
            sign[1] = -1
            others = 1 - torch.eye(sign.shape[1], device=device).repeat(2, 2)
            among = sign.flatten() @ (self.space.alike(both @ both.T) * others) @ sign.flatten()
            learnt = sign.flatten() @ self.space.alike(both @ self.queries[asked].T) @ self.weights[asked]
            weight = float(self.space.weights[label])
            total = total + weight * (among / max(1, rows * (rows - 1)) - 2 * learnt / rows)
        return total


class Pictures:
    """What pictures are compared by, and the pictures of the start that records are compared with; both from `seed`. Students
    are on the `device`; teachers, and so the kernel, stay on the CPU (`seal.teachers.mean_embeddings.py`)."""

    def __init__(self, source: Source, degree: int, seed: int, device: torch.device) -> None:
        self.device = device
        self.seed, generator = seed, random(seed)
        rows = min(COMPARED, max(LEAST_COMPARED, VALUES // source.layout.pixels))
        values, label, codes = source.draw(rows, generator)
        self.space = coefficients(source.layout, values, label.argmax(1), source.labels, degree)
        self.start = codes

    @property
    def kernel(self) -> Kernel:
        """Of codes."""
        return self.space.kernel

    def student(self, codes: Tensor, answers: Tensor, deviations: Tensor) -> KernelStudent:
        """The student: weights of queries, from noisy means of k(x, q) over records."""
        plain = torch.zeros_like(answers)
        for start in range(0, len(self.start), AT_ONCE):
            plain += self.kernel(self.start[start : start + AT_ONCE], codes).sum(0)
        asked = self.kernel(codes, codes), answers - plain / len(self.start), deviations
        weights = weights_of(*(values.to(self.device) for values in asked))
        queries = (self.space.of(codes) / FINE).float().to(self.device)
        return KernelStudent(
            space=self.space.to(self.device),
            queries=queries,
            labels=self.space.labels_of(codes),
            weights=weights.float(),
        )

    def state(self) -> training_state.Arrays:
        """The seed: the start is among the network's arrays."""
        return {"pictures": np.array([self.seed], np.int64)}


class MomentMatchingNetwork:
    """An `ImageGeneratorNetwork` whose loss is its distance from what a student learnt, times `weight`: it matches moments (Li, Swersky
    & Zemel 2015)."""

    def __init__(self, network: ImageGeneratorNetwork, weight: float) -> None:
        self.network, self.weight = network, weight

    @property
    def loss(self) -> float:
        """Of the last step."""
        return self.network.loss

    @torch.no_grad()
    def fakes(self, rows: int) -> Tensor:
        """Generated codes, (rows, columns)."""
        given, label, _, codes = self.network.given(rows)
        return self.network.source.with_pixels(codes, self.network.g(given, label).cpu())

    def step(self, student: KernelStudent, step: int) -> None:
        """Descend on the distance from what the student learnt; `step` counts from 0."""
        network = self.network
        given, label, known, _ = network.given(network.settings.fake_batch)
        made = network.g(given, label)
        loss = self.weight * student.distance(made, given, known.argmax(1))
        network.follow(loss, network.settings.average, step)

    @torch.no_grad()
    def finish(self, student: KernelStudent) -> ImageModel:
        """The averaged generator, or the start where fresh pictures say that it is no nearer to what the student learnt."""
        network = self.network
        given, label, known, _ = network.given(CHECKED)
        if student.distance(network.g_average(given, label), given, known.argmax(1)) >= 0:
            network.g_average = network.beginning
        return network.finish()

    def state(self) -> training_state.Arrays:
        """The network's."""
        return self.network.state()

    def restore(self, state: training_state.State) -> None:
        self.network.restore(state)


def pictures(network: ImageGeneratorNetwork, degree: int, saved: training_state.State | None) -> Pictures:
    """Those of a stopped fit, or new ones."""
    if saved is not None:
        return Pictures(network.source, degree, int(saved["pictures"][0]), network.device)
    seed = int(torch.randint(2**62, (1,), generator=network.random))
    return Pictures(network.source, degree, seed, network.device)
