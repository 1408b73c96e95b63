"""How many rows break the rules that the schema declares (`schema.rules`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthdp.errors import BadInput
from synthdp.schema.rule_rows import broken

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.schema.schema import Schema


def violations(
    schema: Schema, synthetic: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Per declared rule {"rule": its text, "synthetic", "train", "test": share of the rows that break it, in [0, 1]}; and rule -> why
    it could not be counted, where a frame lacks a column of it.

    A missing value never breaks a rule. A share is None where a frame has no rows. The real shares stand beside the
    synthetic one, since a rule that the records break too says something about the rule.
    """
    frames, found, lacking = {"synthetic": synthetic, "train": train, "test": test}, [], {}
    for rule in schema.rules:
        try:
            shares = {role: _share(broken(rule, frame, schema)) for role, frame in frames.items()}
            found.append({"rule": rule.text, **shares})
        except BadInput as error:
            lacking[rule.text] = str(error)
    return found, lacking


def _share(mask: Any) -> float | None:
    return float(mask.mean()) if len(mask) else None
