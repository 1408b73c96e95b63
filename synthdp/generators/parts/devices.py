"""Where a generator's networks are trained: `device=auto|cpu|cuda`, and how numbers get there.

Networks, their optimisers, noisy tables and generated rows lie on the device; so does, inside the seal, the table of codes.
Chance is drawn on the CPU by the fit's own stream and moved: the same numbers whatever the device, so that a seeded fit
differs between devices by rounding alone, and a stopped one can go on elsewhere. It goes one way, and nobody waits for it. (What
would be too much for that, the bank of `images/diffusion.Draws`, is drawn there by `chance`: reproducible on each kind of device.)
What is kept, a model, is on the CPU again.
"""

from typing import TYPE_CHECKING

from synthdp.errors import BadInput
from synthdp.options import one_of
from synthdp.seal import moved

if TYPE_CHECKING:
    import torch

__all__ = ["HELP", "RULE", "chance", "moved", "opened", "place"]

RULE = one_of("auto", "cpu", "cuda")  # of the option `device`
HELP = "where the fit computes: auto (a GPU if there is one), cpu or cuda"


def place(device: str) -> "torch.device":
    """The device that is meant, here; raises `BadInput` where it is not there. A fit asks before it is charged."""
    import torch

    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise BadInput("generator.device=cuda, but there is no CUDA device: use generator.device=auto or cpu")
    return torch.device("cpu" if device == "cpu" or not there else "cuda")


def opened(device: str) -> "torch.device":
    """The device that is meant, or else the CPU: a release opens anywhere."""
    import torch

    return torch.device("cpu") if device == "cuda" and not torch.cuda.is_available() else place(device)


def chance(device: "torch.device", seed: int) -> "torch.Generator":
    """A stream on the device itself."""
    import torch

    return torch.Generator(device).manual_seed(seed)
