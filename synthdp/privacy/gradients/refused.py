"""Layers that can have no per-unit gradient, or keep something of the records: refused by name."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from synthdp.errors import BadInput


def refuse(module: nn.Module) -> None:
    """Raise `BadInput` where a layer mixes records, or writes records into the module."""
    for name, layer in module.named_modules():
        reason = _reason(layer)
        if reason:
            place = f"layer {name!r}" if name else "the module itself"
            raise BadInput(f"{type(layer).__name__} ({place}) {reason}")


def _reason(layer: nn.Module) -> str:
    if isinstance(layer, _InstanceNorm):
        return (
            "keeps running statistics of the records; set track_running_stats=False"
            if layer.track_running_stats
            else ""
        )
    if isinstance(layer, _BatchNorm):
        return "mixes the records of a batch, so no unit's gradient is its own; use GroupNorm or LayerNorm"
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        if layer.max_norm is not None:
            return "rewrites its weights when it reads them (max_norm); leave max_norm out"
        if layer.scale_grad_by_freq:
            return "scales gradients by counts over the batch; leave scale_grad_by_freq out"
    return ""
