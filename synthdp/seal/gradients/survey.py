"""One walk over a module: what is trained, which layers can be followed, and which layers are refused by name."""

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from synthdp.errors import BadInput
from synthdp.seal.gradients.layer_kinds import PARTS

Trained = dict[str, nn.Parameter]
Owners = dict[nn.Module, dict[str, str]]  # layer -> its parameter's short name -> the full name

SHORT = {"weight", "bias"}


def survey(module: nn.Module) -> tuple[Trained, Owners | None]:
    """The trained parameters, named and ordered as by `named_parameters`, and the layers that own them.

    The layers are None where a trained parameter belongs to a layer without a rule, to two layers, or to one with hooks
    of its own (weight normalisation and the like add parameters, hooks or a type). Raises `BadInput` where a layer mixes
    records, or writes records into the module. Once per step, hence by hand.
    """
    trained: Trained = {}
    owners: Owners = {}
    known: set[int] = set()
    followed = True
    waiting = [("", module)]
    while waiting:
        prefix, layer = waiting.pop()
        if id(layer) in known:
            continue
        known.add(id(layer))
        reason = _reason(layer)
        if reason:
            place = f"layer {prefix[:-1]!r}" if prefix else "the module itself"
            raise BadInput(f"{type(layer).__name__} ({place}) {reason}")
        mine = {}
        for short, parameter in layer._parameters.items():
            if parameter is not None and parameter.requires_grad:
                followed = followed and id(parameter) not in known
                if id(parameter) not in known:
                    known.add(id(parameter))
                    mine[short] = prefix + short
                    trained[prefix + short] = parameter
        if mine:
            owners[layer] = mine
            plain = type(layer) in PARTS and not layer._forward_hooks and not layer._forward_pre_hooks
            followed = followed and plain and mine.keys() <= SHORT
        if layer._modules:
            children = [(f"{prefix}{name}.", child) for name, child in layer._modules.items() if child is not None]
            waiting += reversed(children)
    return trained, owners if followed else None


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
