"""How to judge: each option once, for Python and for the command line."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from synthdp.errors import BadInput, nearest
from synthdp.options import check, option, whole


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What is judged and how thoroughly: the options that the command line has too."""

    models: tuple[str, ...] | None = option(
        None,
        "models to train, such as [hgb,lr,rf] (the default): lr rf gnb bnb svm tree lda ada bag hgb mlp xgb, or a set: "
        "quick, paper; for images lr, mlp, cnn (default: all three)",
    )
    seeds: int = option(3, "how often each model is trained, with seeds 0, 1, ...", whole())
    targets: tuple[str, ...] | None = option(None, "columns to predict; default: the schema's targets")
    bootstrap: int = option(
        200, "resamples of the test records behind each 95 % interval; 0 gives no intervals", whole(0)
    )
    subgroups: tuple[str, ...] = option((), "columns whose groups are scored separately, such as [sex,age]")
    survival: tuple[Any, ...] | None = option(
        None,
        "for histories, the events of Kaplan-Meier curves from the first visit: dates of people, and conditions, such as "
        "[person.death,{diagnosis.code: E11}]; default: dates of people that a rule puts after all visits",
    )
    attacks: bool = option(
        True, "attack the synthetic records; with release= the guarantee's bound stands beside each attack"
    )

    def __post_init__(self) -> None:
        check(self, "evaluate.")


@dataclass(frozen=True, kw_only=True)
class JudgingOptions(Choices):
    """All options of `synthdp.evaluate.evaluate`."""

    claim: dict[str, Any] | None = option(
        None, '{"epsilon", "delta", "unit", "relation", "curve"} of the release, for the bound beside each attack'
    )
    jobs: int | None = option(None, "threads; default: every core", whole())

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "JudgingOptions":
        """The options by these names. Raises `BadInput` for a name that none has."""
        known = [each.name for each in fields(cls)]
        for name in options:
            if name not in known:
                raise BadInput(f"evaluate has no option {name!r}{nearest(name, known)}. It has {', '.join(known)}")
        return cls(**options)

    @property
    def threads(self) -> int:
        return self.jobs or os.cpu_count() or 1

    @property
    def told(self) -> dict[str, Any]:
        """The claim for the result's `about`, as JSON can hold it: an infinite epsilon is None; empty without a claim."""
        if self.claim is None:
            return {}
        epsilon = self.claim.get("epsilon")
        finite = isinstance(epsilon, int | float) and epsilon < float("inf")
        further = {name: self.claim[name] for name in ("relation",) if name in self.claim}
        unit = self.claim.get("unit", "record")
        return {
            "claim": {"epsilon": epsilon if finite else None, "delta": self.claim.get("delta"), "unit": unit, **further}
        }


# ---- Counts the steps of one evaluation for the progress callback.


class Progress(Protocol):
    """Told before each step: how many are done, how many there are, and what comes."""

    def __call__(self, step: int, total: int, label: str) -> None: ...


class Steps:
    """Tells a callback, where there is one, of each step before it runs."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, label: str) -> None:
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total, label)
        self._done += 1

    def skip(self, steps: int) -> None:
        self._done += steps

    def finish(self) -> None:
        if self._progress is not None:
            self._progress(self._total, self._total, "done")
