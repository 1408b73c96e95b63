"""The noisy clipped gradient sum of a network: the fast path of `sum`, under the same event (Abadi et al. 2016)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from synthdp.errors import BadInput
from synthdp.privacy.gradients import Gradients, add_noise, clipped_gradient_sum
from synthdp.privacy.ledger import Event, Gaussian
from synthdp.privacy.noise import Noise
from synthdp.privacy.store import Records


@dataclass(frozen=True)
class Gradient:
    """Sum over units of the gradient of the unit's loss, clipped to `clip`, plus N(0, (noise * clip)^2).

    `loss(module, codes)` maps codes (records, columns) to one loss per record and must treat each record on its own; a
    unit's loss is the sum over its records.
    """

    module: nn.Module
    loss: Callable[[nn.Module, Tensor], Tensor]
    clip: float
    noise: float

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise BadInput(f"clip must be greater than 0, got {self.clip}")
        if not self.noise >= 0:
            raise BadInput(f"noise must be 0 or more, got {self.noise}")

    @property
    def events(self) -> Sequence[Event]:
        """One Gaussian."""
        return [Gaussian(self.noise)]

    @property
    def sensitivity(self) -> float:
        """The clip."""
        return self.clip

    def bounded(self, records: Records) -> Gradients:
        """The clipped sum, by parameter name."""
        if records.max_records == 1:
            codes, mask = torch.from_numpy(np.ascontiguousarray(records.encoded())), None
        else:
            padded, held = records.padded()
            codes, mask = torch.from_numpy(padded), torch.from_numpy(held)
        return clipped_gradient_sum(self.module, self.loss, codes, mask, self.clip)

    def noised(self, bounded: Gradients, noise: Noise) -> Gradients:
        """The noisy sum, by parameter name; one draw for all parameters."""
        return add_noise(bounded, self.noise * self.clip, noise)

    def movement(self, one: Gradients, other: Gradients) -> float:
        """L2 distance over all parameters."""
        return float((one.flat.double() - other.flat.double()).norm())
