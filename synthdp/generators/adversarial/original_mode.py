"""Mode `original` of PATE-GAN: Jordon, Yoon & van der Schaar 2019, algorithm 1, with what it asks counted as it is.

k teachers on disjoint parts tell records from generated rows; a student, who sees generated rows alone, learns to tell them
apart from the teachers' noisy majority; the generator tries to pass the student. Each labelled row is one vote with Laplace
noise of scale 1 / gamma on both counts. Unlike the paper it stops by the bound that does not depend on the votes: how many
votes agree is the records' doing, and so is a fit's length that follows from it.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from synthdp.generators.adversarial.table_player import Player
from synthdp.generators.parts import training_state
from synthdp.generators.parts.table_networks import SLOPE, Discriminator
from synthdp.generators.parts.training_state import BETAS
from synthdp.seal import LNMax, Sensitive, Stacked

if TYPE_CHECKING:
    from synthdp.generators.pategan import PATEGAN

CENTRED_OVER = 1024  # generated rows


class Original:
    """The state of one training in this mode. A step is one generated row that teachers label; `queries` steps are a round."""

    def __init__(
        self,
        settings: "PATEGAN",
        data: Sensitive,
        aggregator: LNMax,
        player: Player,
        saved: training_state.State | None,
    ) -> None:
        self.settings, self.player, self.aggregator = settings, player, aggregator
        blocks, columns = player.blocks, len(data.codec.sizes)
        self.student = Discriminator(blocks.width, settings.hidden, columns, player.random).to(player.device)
        self.optimizer = torch.optim.Adam(self.student.parameters(), settings.student_rate, betas=BETAS)
        self.asked = torch.zeros((0, columns), dtype=torch.int64)
        self.votes = torch.zeros(0, dtype=torch.int64)
        template = teacher(blocks.width, settings.teacher_hidden, player.random).to(player.device)
        if saved is not None:  # the stream of chances goes on from there
            self.restore(saved)
        kind = Stacked(
            module=template,
            features=blocks.one_hot,
            loss=lambda scores, _: functional.softplus(-scores.squeeze(-1)),
            public_loss=lambda scores, _: functional.softplus(scores.squeeze(-1)),
            steps=settings.teacher_steps,
            batch=settings.teacher_batch,
            learning_rate=settings.teacher_rate,
        )
        self.teachers = data.partition(settings.teachers_of(None), kind)

    def step(self, number: int) -> None:
        """One labelled row; at the end of a round the student and the generator learn."""
        queries = self.settings.queries_a_round
        place = number % queries
        if place == 0:
            rows = self.settings.teacher_batch * self.settings.teacher_steps
            self.teachers.train(self.player.fakes(rows).cpu().numpy())
            self.asked = self.player.fakes(queries).cpu()
            self.votes = torch.zeros(0, dtype=torch.int64)
        said = self.teachers.ask(self.asked[place : place + 1].numpy(), self.aggregator)
        self.votes = torch.cat([self.votes, torch.from_numpy(np.asarray(said))])
        if place == queries - 1:
            self._learn(number // queries)

    def _learn(self, number: int) -> None:
        there = self.player.device
        rows, real = self.player.blocks.one_hot(self.asked.to(there)), self.votes.float().to(there)
        if number == 0:
            self.student.recentre(self.player.blocks.one_hot(self.player.fakes(CENTRED_OVER)), 1.0)
        for _ in range(self.settings.student_steps):
            loss = functional.binary_cross_entropy_with_logits(self.student(rows), real)
            self.optimizer.zero_grad()
            torch.autograd.backward(loss)
            self.optimizer.step()
        steps = int(self.settings.steps or 1)
        for step in range(number * steps, (number + 1) * steps):
            self.player.step(self._passed, step)

    def _passed(self, rows: Tensor, label: Tensor) -> Tensor:  # noqa: ARG002
        """Mean of log(1 - S(x)) over generated rows, which the generator lowers (the paper's equation for its loss)."""
        return -functional.softplus(self.student(rows)).mean()

    def state(self) -> training_state.Arrays:
        """All that the next steps depend on, beside the teachers' own."""
        return {
            **self.player.state(),
            **training_state.module_state("student", self.student),
            **training_state.optimizer_state("student_optimizer", self.optimizer),
            "asked": self.asked.numpy().copy(),
            "votes": self.votes.numpy().copy(),
        }

    def restore(self, state: training_state.State) -> None:
        """The inverse of `state`."""
        self.player.restore(state)
        training_state.restore_module("student", self.student, state)
        training_state.restore_optimizer("student_optimizer", self.optimizer, state)
        self.asked = training_state.tensor(np.asarray(state["asked"]))
        self.votes = training_state.tensor(np.asarray(state["votes"]))


def teacher(width: int, hidden: tuple[int, ...], generator: torch.Generator) -> nn.Module:
    """A teacher's network: one-hot rows to one score; without hidden layers a logistic regression."""
    sizes = [width, *hidden]
    layers: list[nn.Module] = []
    for place, size in enumerate(hidden):
        layers += [nn.Linear(sizes[place], size), nn.LeakyReLU(SLOPE)]
    layers.append(nn.Linear(sizes[-1], 1))
    with torch.no_grad():
        for layer in layers:
            if isinstance(layer, nn.Linear):
                layer.weight.normal_(0, layer.in_features**-0.5, generator=generator)
                layer.bias.zero_()
    return nn.Sequential(*layers)
