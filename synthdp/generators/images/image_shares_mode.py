"""Mode `shares` of PATE-GAN on images: what its rounds of lessons (`adversarial/shares_mode.py`) are about there.

The start are class Gaussians. Teachers tell, at generated pictures q, the mean of k(x, q) over records; less that over pictures
of the start, which is public, it is a noisy evaluation of the difference of the two mean embeddings (Gretton et al. 2012,
lemma 4). The student is the Gaussian process on this difference, drawn to zero where noise is all. The network retouches
pictures of the start, and descends on the squared distance of two differences: what its retouching adds to the mean embedding,
and what was taught. Pairs of a picture and its retouching estimate the first one with hardly any chance.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from synthdp.generators import Progress, Tensors
from synthdp.generators.adversarial.pair_kernel import weights_of
from synthdp.generators.adversarial.shares_mode import Lessons, units_of
from synthdp.generators.images import image_player, starting_points
from synthdp.generators.images.coefficients import FINE, Coefficients, coefficients
from synthdp.generators.images.image_player import ImageModel, ImagePlayer, Settings
from synthdp.generators.images.pixel_rows import Source
from synthdp.generators.parts import training_state
from synthdp.generators.parts.devices import moved
from synthdp.generators.parts.table_networks import random
from synthdp.ledger.events import Plan
from synthdp.schema.schema import Schema
from synthdp.seal import Kernel, Sensitive

if TYPE_CHECKING:
    from synthdp.generators.pategan import PATEGAN

COMPARED, LEAST_COMPARED, VALUES = (
    16384,
    2048,
    2**24,
)  # pictures of the start; fewer where they are large: about so many values
AT_ONCE = 2048
CHECKED = 1024  # pairs by which the generator's distance is checked at the end


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What was taught: queries' coefficients (queries, axes), labels and weights (queries,), in place of the difference. Labels
    are on the CPU, so that which rows are of which label is known there."""

    space: Coefficients
    queries: Tensor
    labels: Tensor
    weights: Tensor

    def distance(self, made: Tensor, given: Tensor, labels: Tensor) -> Tensor:
        """Squared distance, less a constant, of what `made` of the `given` values (rows, pixels) adds from what was taught;
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
            taught = sign.flatten() @ self.space.alike(both @ self.queries[asked].T) @ self.weights[asked]
            weight = float(self.space.weights[label])
            total = total + weight * (among / max(1, rows * (rows - 1)) - 2 * taught / rows)
        return total


class Pictures:
    """What pictures are compared by, and the pictures of the start that records are compared with; both from `seed`. Lessons
    are given on the `device`; teachers, and so the kernel, stay on the CPU (`seal/teachers/kernel_teachers.py`)."""

    def __init__(self, source: Source, degree: int, seed: int, device: torch.device) -> None:
        self.device = device
        self.seed, generator = seed, random(seed)
        rows = min(COMPARED, max(LEAST_COMPARED, VALUES // source.canvas.pixels))
        values, label, codes = source.draw(rows, generator)
        self.space = coefficients(source.canvas, values, label.argmax(1), source.labels, degree)
        self.start = codes

    @property
    def kernel(self) -> Kernel:
        """Of codes."""
        return self.space.kernel

    def lesson(self, codes: Tensor, answers: Tensor, deviations: Tensor) -> Lesson:
        """The student: weights of queries, from noisy means of k(x, q) over records."""
        plain = torch.zeros_like(answers)
        for start in range(0, len(self.start), AT_ONCE):
            plain += self.kernel(self.start[start : start + AT_ONCE], codes).sum(0)
        asked = self.kernel(codes, codes), answers - plain / len(self.start), deviations
        weights = weights_of(*(values.to(self.device) for values in asked))
        queries = (self.space.of(codes) / FINE).float().to(self.device)
        return Lesson(
            space=self.space.to(self.device),
            queries=queries,
            labels=self.space.labels_of(codes),
            weights=weights.float(),
        )

    def state(self) -> training_state.Arrays:
        """The seed: the start is among the player's arrays."""
        return {"pictures": np.array([self.seed], np.int64)}


class Pupil:
    """An `ImagePlayer` that learns lessons. `weight`: of a lesson's distance."""

    def __init__(self, player: ImagePlayer, weight: float) -> None:
        self.player, self.weight = player, weight

    @property
    def loss(self) -> float:
        """Of the last step."""
        return self.player.loss

    @torch.no_grad()
    def fakes(self, rows: int) -> Tensor:
        """Generated codes, (rows, columns)."""
        given, label, _, codes = self.player.given(rows)
        return self.player.source.painted(codes, self.player.g(given, label).cpu())

    def step(self, lesson: Lesson, step: int) -> None:
        """Descend on a lesson's distance; `step` counts from 0."""
        player = self.player
        given, label, known, _ = player.given(player.settings.fake_batch)
        made = player.g(given, label)
        player.descend(self.weight * lesson.distance(made, given, known.argmax(1)), step)

    @torch.no_grad()
    def finish(self, lesson: Lesson) -> ImageModel:
        """The averaged generator, or the start where fresh pictures say that it is no nearer to what was taught."""
        player = self.player
        given, label, known, _ = player.given(CHECKED)
        if lesson.distance(player.g_average(given, label), given, known.argmax(1)) >= 0:
            player.g_average = player.beginning
        return player.finish()

    def state(self) -> training_state.Arrays:
        """The player's."""
        return self.player.state()

    def restore(self, state: training_state.State) -> None:
        """The inverse of `state`."""
        self.player.restore(state)


def pictures(player: ImagePlayer, degree: int, saved: training_state.State | None) -> Pictures:
    """Those of a stopped fit, or new ones."""
    if saved is not None:
        return Pictures(player.source, degree, int(saved["pictures"][0]), player.device)
    seed = int(torch.randint(2**62, (1,), generator=player.random))
    return Pictures(player.source, degree, seed, player.device)


def plan(settings: "PATEGAN", schema: Schema, noise: float) -> Plan:
    """What the start asks, all of it together one Gaussian of this noise; settings are settled."""
    return starting_points.plan(_known(settings), schema, noise)


def fit(
    settings: "PATEGAN", data: Sensitive, noise: float, seed: int | None, progress: Progress, device: torch.device
) -> ImageModel:
    """The answers of class Gaussians, then rounds of votes and lessons."""
    own, total = _known(settings), settings.total_rounds * int(settings.steps or 1)
    player = ImagePlayer(own, data.codec, settings.label(data.schema), total, random(seed), device)
    saved = data.restored()
    if saved is None:
        starting_points.begin(data, own, player, settings.table_noise(noise))
    pupil = Pupil(player, settings.witness_weight)

    def spaced() -> Pictures:
        return pictures(player, int(settings.degree or 1), saved)

    game = Lessons(settings, data, noise, pupil, spaced, lambda: units_of(data, None), saved, progress)
    game.catch_up(game.asked())
    for step in data.steps(settings.vote(noise), settings.votes, game.state):
        game.step(step)
    game.catch_up(settings.votes)
    return pupil.finish(game.taught())


def restored(settings: "PATEGAN", schema: Schema, tensors: Tensors) -> ImageModel:
    """The model that `tensors` are of; raises `BadInput` where names or shapes do not fit."""
    return image_player.restored(_known(settings), schema, tensors, settings.label(schema))


def _known(settings: "PATEGAN") -> Settings:
    """Settled settings, of which nothing that is read is None."""
    return cast("Settings", settings)
