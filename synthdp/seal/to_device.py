"""How numbers get to a GPU."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def moved(values: "torch.Tensor", device: "torch.device") -> "torch.Tensor":
    """The values on the device; to a GPU by way of pinned memory, or the CPU would wait until it is done with all before."""
    if values.device.type == "cpu" and device.type == "cuda":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
