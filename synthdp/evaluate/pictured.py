"""The way from `evaluate` to `images.evaluate`: presets by name, threads, and what images do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from synthdp.data.schema import Schema
    from synthdp.evaluate.steps import Progress


def pictured(
    samples: Sequence[pd.DataFrame],
    train: pd.DataFrame,
    test: pd.DataFrame,
    schema: Schema,
    targets: Sequence[str] | None,
    models: str | Sequence[str] | None,
    seeds: int,
    subgroups: Sequence[str],
    claim: Mapping[str, Any] | None,
    jobs: int,
    progress: Progress | None,
) -> dict[str, Any]:
    """`images.evaluate` with at most `jobs` threads. Raises BadInput for more than one sample."""
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from synthdp.evaluate import images
    from synthdp.evaluate.run import plain

    if len(samples) > 1:
        raise BadInput(f"synthetic: {len(samples)} samples; images are judged one sample at a time.")
    threads = torch.get_num_threads()
    torch.set_num_threads(jobs)
    try:
        with threadpool_limits(limits=jobs):
            result = images.evaluate(
                samples[0], train, test, schema, targets=targets, models=chosen(models), seeds=seeds, progress=progress
            )
    finally:
        torch.set_num_threads(threads)
    if claim is not None:
        result["about"]["claim"] = plain(claim)
    reason = "groups are scored of tables only"
    result["not_computed"] += [{"metric": f"subgroups.{name}", "reason": reason} for name in dict.fromkeys(subgroups)]
    return result


def chosen(models: str | Sequence[str] | None) -> tuple[str, ...]:
    """The ids of image classifiers: a set's name stands for its ids, None for all."""
    from synthdp.evaluate.images import MODELS

    presets = {"default": tuple(MODELS), "paper": tuple(MODELS), "quick": ("lr",)}
    wanted = ["default"] if models is None else [models] if isinstance(models, str) else list(models)
    return tuple(dict.fromkeys(name for item in wanted for name in presets.get(item, (item,))))
