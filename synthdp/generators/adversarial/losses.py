"""What a discriminator minimises: over records one loss each, and over generated rows, whose gradients are exact, its slope.

Both losses separate over records, and nothing in the generated half comes from them (law 14).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

STRONGEST = 5.0  # factor by which the penalty may scale a generated row's gradient


class Loss(Protocol):
    """The two halves of a discriminator's loss."""

    def real(self, scores: Tensor) -> Tensor:
        """One per record, (rows,)."""
        ...

    def slope(self, scores: Tensor) -> Tensor:
        """Derivative of a generated row's loss by its score, (rows,)."""
        ...

    def squares(self, squares: Tensor, slope: Tensor) -> Tensor:
        """Squared norms (layers, rows) that generated rows' clips are taken by, from those of the scores' gradients."""
        ...

    def smoothing(self, steepness: Callable[[], Tensor]) -> Tensor | None:
        """What is added for how steep the scores are at generated rows, from squared norms (rows,); None: nothing."""
        ...


@dataclass(frozen=True)
class Linear:
    """-D of records, D + penalty D^2 / 2 of generated rows: at its best D is (p / q - 1) / penalty, so that the square keeps
    the scores near zero where the generator q is close to the records' p, as from noisy tables of few columns."""

    penalty: float

    def real(self, scores: Tensor) -> Tensor:
        return -scores

    def slope(self, scores: Tensor) -> Tensor:
        return (1 + self.penalty * scores).clamp(-STRONGEST, STRONGEST)

    def squares(self, squares: Tensor, slope: Tensor) -> Tensor:  # noqa: ARG002
        return squares

    def smoothing(self, steepness: Callable[[], Tensor]) -> Tensor | None:  # noqa: ARG002
        return None


@dataclass(frozen=True)
class Logistic:
    """log(1 + e^-D) of records, log(1 + e^D) of generated rows (Goodfellow et al. 2014, with the generator's loss -D): pictures
    that are easily told from records, where p / q has no bound, pull no harder than others. The penalty is on the squared
    gradients of D by its input, at generated pictures alone (R2 of Mescheder, Geiger & Nowozin 2018)."""

    penalty: float

    def real(self, scores: Tensor) -> Tensor:
        return functional.softplus(-scores)

    def slope(self, scores: Tensor) -> Tensor:
        return torch.sigmoid(scores)

    def squares(self, squares: Tensor, slope: Tensor) -> Tensor:
        return squares * slope.square()

    def smoothing(self, steepness: Callable[[], Tensor]) -> Tensor | None:
        return self.penalty / 2 * steepness().mean() if self.penalty > 0 else None
