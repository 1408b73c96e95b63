"""Questions to a Poisson sample of the units."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput
from synthdp.ledger.events import Sampled
from synthdp.seal.questions import Answer, Question
from synthdp.seal.questions.sums import Group, Sums, Vector

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from synthdp.seal.door import Sensitive


class Batch:
    """One Poisson sample. It answers once: two answers from one sample are not two independent samples, so what belongs
    together is asked together (`sums`).
    """

    def __init__(self, data: "Sensitive", rate: float) -> None:
        self._data = data
        self._rate = rate
        self._open = True

    def ask(self, question: Question[Answer]) -> Answer:
        """Charge the question as asked of a sample, then draw the sample and answer."""
        if not self._open:
            raise BadInput("a sample answers one question, while it is open; ask several sums at once with `sums`")
        question = self._data.check(question)
        self._open = False
        return self._data._asked(question, [(Sampled(self._rate, tuple(question.events)), 1)], self._rate)

    def sums(self, groups: Sequence[Group]) -> list[Vector]:
        """Noisy sums of clipped per-unit vectors over the sample, one per group."""
        return self.ask(Sums(tuple(groups)))

    def sum(self, vectors: Callable[[Any], Any], dimension: int, clip: float, noise: float) -> Vector:
        """Noisy sum of per-unit vectors over the sample."""
        return self.sums([Group(vectors, dimension, clip, noise)])[0]

    def gradient(
        self, module: "nn.Module", loss: "Callable[[nn.Module, Tensor], Tensor]", clip: float, noise: float
    ) -> "dict[str, torch.Tensor]":
        """Noisy clipped gradient sum over the sample: see `Gradient`."""
        from synthdp.seal.questions.gradient import Gradient

        return self.ask(Gradient(module, loss, clip, noise))

    def close(self) -> None:
        """No answer after this."""
        self._open = False
