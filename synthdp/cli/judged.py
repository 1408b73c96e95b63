"""What `evaluate` and `compare` share: samples of a release, what it promises, and the call that judges them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from synthdp.cli import settings
from synthdp.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.evaluate.progress import Progress
    from synthdp.report.statement import Statement
    from synthdp.schema.schema import Schema

# Any seed will do for samples of a model that is free to share; these stay clear of the small ones that people choose.
FURTHER = 1_000_000


def claim_of(statement: "Statement") -> dict[str, Any]:
    """What a release promises, as `evaluate` takes it."""
    return {"epsilon": statement.epsilon, "delta": statement.delta, "unit": statement.unit}


def samples_of(
    first: "pd.DataFrame", release: str | None, count: int
) -> "tuple[list[pd.DataFrame], dict[str, Any] | None]":
    """The sample of the file and as many further ones of its size as asked for; and what the release promises.

    Raises BadInput for fewer than one sample, or several without a release to draw them from.
    """
    if count < 1:
        raise BadInput(f"evaluate.samples must be 1 or more, got {count}")
    if release is None:
        if count > 1:
            raise BadInput(f"evaluate.samples={count} needs release=FOLDER, to draw the further ones from")
        return [first], None
    from synthdp.api import load, verify

    verify(release)  # its claim is shown beside what attacks find
    source = load(release)
    further = [source.sample(len(first), seed=FURTHER + i) for i in range(count - 1)]
    return [first, *further], claim_of(source.statement)


def judged(
    samples: "Sequence[pd.DataFrame]",
    train: "pd.DataFrame",
    test: "pd.DataFrame",
    schema: "Schema",
    how: settings.Judge,
    claim: Mapping[str, Any] | None,
    progress: "Progress",
) -> dict[str, Any]:
    """`synthdp.evaluate.evaluate` with the options of the group `evaluate`."""
    from synthdp.evaluate import evaluate

    return evaluate(
        list(samples),
        train,
        test,
        schema,
        targets=how.targets,
        models=how.models,
        seeds=how.seeds,
        bootstrap=how.bootstrap,
        subgroups=how.subgroups,
        attacks=how.attacks,
        claim=claim,
        progress=progress,
    )
