"""What teachers refuse, found on public rows before any record is read."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.seal.records import Codes

ROWS = 32
MIXING = (nn.modules.batchnorm._BatchNorm, nn.modules.batchnorm._LazyNormBase)
CHANCE = (nn.modules.dropout._DropoutNd, nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


def public_rows(codec: Codec) -> Codes:
    """Some rows that are nobody's, (ROWS, columns): codes from all over every column's domain, always the same."""
    rows: Codes = np.random.default_rng(0).integers(0, codec.sizes, (ROWS, len(codec.sizes))).astype(np.int32)
    return rows


def check_module(module: nn.Module) -> None:
    """Refuse what mixes rows, keeps a state or draws chance that copies would share, and what has nothing to train."""
    for name, layer in module.named_modules():
        where = name or "module"
        if isinstance(layer, MIXING) or (
            isinstance(layer, nn.modules.instancenorm._InstanceNorm) and layer.track_running_stats
        ):
            raise BadInput(f"{where} ({type(layer).__name__}) mixes records; use LayerNorm or GroupNorm in teachers")
        if isinstance(layer, CHANCE) and getattr(layer, "p", 1.0) > 0:
            raise BadInput(
                f"{where} ({type(layer).__name__}) draws chance that copies would share; leave it out of teachers"
            )
    if not any(value.requires_grad for value in module.parameters()):
        raise BadInput("module of teachers has no parameters to train")
    if any(not value.is_floating_point() for value in module.parameters()):
        raise BadInput("module of teachers must have floating-point parameters")


def check_row_by_row(features: Callable[[Any], Any], codes: Any, *, exact: bool = False) -> None:
    """Refuse features that say of a row what depends on the others; `exact`: also by rounding, as matrix products do.

    `codes` are an array or a tensor, as features take them.
    """
    together = np.asarray(features(codes))
    if together.shape[:1] != codes.shape[:1]:
        raise BadInput(f"features must give one row of numbers per record, got shape {together.shape}")
    alone = np.concatenate([np.asarray(features(codes[place : place + 1])) for place in range(len(codes))])
    same = np.array_equal if exact else partial(np.allclose, rtol=1e-4, atol=1e-6)
    if not same(together, alone, equal_nan=True):
        raise BadInput("features must treat each record on its own; these depend on the other records of the batch")


def first_line(error: Exception) -> str:
    """What a library says of public rows, in one line."""
    return (str(error).splitlines() or [""])[0]
