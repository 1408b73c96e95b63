"""How many rows break the rules that the schema declares (data.rules)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthdp.data.rulerows import broken

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.data.schema import Schema


def violations(
    schema: Schema, synthetic: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame
) -> list[dict[str, Any]]:
    """Per declared rule {"rule": its text, "synthetic", "train", "test": share of the rows that break it, in [0, 1]}.

    A missing value never breaks a rule. A share is None where a frame has no rows. The real shares stand beside the
    synthetic one, since a rule that the records break too says something about the rule. Raises BadInput where a frame
    lacks a column of a rule.
    """
    frames = {"synthetic": synthetic, "train": train, "test": test}
    return [
        {"rule": rule.text, **{role: _share(broken(rule, f, schema)) for role, f in frames.items()}}
        for rule in schema.rules
    ]


def _share(mask: Any) -> float | None:
    return float(mask.mean()) if len(mask) else None
