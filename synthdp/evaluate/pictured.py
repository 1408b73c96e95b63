"""The way from `evaluate` to `images.evaluate`: presets by name, threads, and what images do not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from synthdp.evaluate.how import How, Progress
    from synthdp.schema.schema import Schema


def pictured(
    samples: Sequence[pd.DataFrame],
    train: pd.DataFrame,
    test: pd.DataFrame,
    schema: Schema,
    how: How,
    progress: Progress | None,
) -> dict[str, Any]:
    """`images.evaluate` with at most `how.threads` threads. Raises BadInput for more than one sample."""
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from synthdp.evaluate import images

    if len(samples) > 1:
        raise BadInput(
            f"{len(samples)} synthetic samples of images were given, but pictures are judged one sample at a time. Give one frame; "
            "on the command line leave evaluate.samples at 1, and evaluate further samples in separate runs."
        )
    before = torch.get_num_threads()
    torch.set_num_threads(how.threads)
    try:
        with threadpool_limits(limits=how.threads):
            result = images.evaluate(
                samples[0],
                train,
                test,
                schema,
                targets=how.targets,
                models=chosen(how.models),
                seeds=how.seeds,
                attacks=how.attacks,
                claim=how.claim,
                progress=progress,
            )
    finally:
        torch.set_num_threads(before)
    result["about"] |= how.told
    reason = "groups are scored for tables only"
    names = dict.fromkeys(how.subgroups)
    result["not_computed"] += [{"metric": f"subgroups.{name}", "reason": reason} for name in names]
    return result


def chosen(models: str | Sequence[str] | None) -> tuple[str, ...]:
    """The ids of image classifiers: a set's name stands for its ids, None for all."""
    from synthdp.evaluate.images import MODELS

    presets = {"default": tuple(MODELS), "paper": tuple(MODELS), "quick": ("lr",)}
    wanted = ["default"] if models is None else [models] if isinstance(models, str) else list(models)
    return tuple(dict.fromkeys(name for item in wanted for name in presets.get(item, (item,))))
