"""`synthdp budget`: what the account of a data set says. No record is read."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthdp.budgets import AccountFile, Standing
from synthdp.budgets.filters import Price
from synthdp.cli import show
from synthdp.cli.dataaccount import account_of
from synthdp.errors import BadInput

Config = Mapping[str, Any]


def budget(config: Config) -> None:
    """What was spent by whom and on what, what is left, and the head to keep."""
    account = account_of(config["account"], config["data"])
    if account is None:
        raise BadInput("account=none names no account: give account=FILE, data=NAME or data.path=FILE")
    standing = account.read()
    if account.cap is not None:  # makes the account before its first fit, or changes its cap
        standing = account.open()
    if standing is None:
        raise BadInput(
            f"no account at {account.path}: nothing was fitted yet. Give account.cap.epsilon= and account.cap.delta= to make one"
        )
    if config["options"].format == "json":
        print(json.dumps(_plain(told(account.path, standing)), allow_nan=False))
        return
    for line in lines(account.path, standing):
        print(line)


def brief(account: AccountFile | None) -> list[str]:
    """What a fit says of its account when it ends."""
    standing = None if account is None else account.read()
    return [f"account    {spent_of(account)}", *([] if standing is None else [f"head       {standing.head}"])]


def spent_of(account: AccountFile | None) -> str:
    """Where the account is and what was spent of it, in a line."""
    standing = None if account is None else account.read()
    if account is None or standing is None:
        return "none: this fit is not added to any other"
    return f"{account.path}: {_spent(standing)}"


def lines(path: Path, standing: Standing) -> list[str]:
    """The account as text, a line each."""
    neighbours = standing.neighbours
    left = standing.left
    said = [f"account    {path}", f"spent      {_spent(standing)}"]
    said.append(
        "left       the account has no cap"
        if left is None
        else f"left       {standing.measure} {left.loss:.6g}, delta {left.delta:.3g}"
    )
    if standing.cap is not None:
        said.append(f"cap        epsilon {standing.cap.epsilon:g}, delta {standing.cap.delta:g} for all fits together")
    if neighbours is not None:
        versions = f"{len(standing.fingerprints)} version{'s' if len(standing.fingerprints) > 1 else ''}"
        said.append(f"protects   the unit {neighbours[1]}, relation {neighbours[0]}; {versions} of the table known")
    said += [
        f"head       {standing.head}",
        "           keep it elsewhere; account.head=... then detects entries that were removed",
    ]
    rows = [("fit", "time", "by", "generator", "epsilon", "delta", "state")]
    rows += [
        (
            str(number),
            show.name(fit.time),
            show.name(fit.by),
            f"{show.name(fit.body['generator'])}{' (rehearsal)' if fit.body['rehearsal'] else ''}",
            f"{fit.budget[0]:.6g}",
            f"{fit.budget[1]:.3g}",
            fit.state,
        )
        for number, fit in enumerate(standing.fits, 1)
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    table = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    changes = [
        f"{show.name(change['time'])}  {show.name(change['by'])}  {_change(change)}" for change in standing.changes
    ]
    return [*said, "", *(table if standing.fits else ["no fits yet"]), "", *changes]


def told(path: Path, standing: Standing) -> dict[str, Any]:
    """The account as JSON values, with every fit's settings and plan."""
    hidden = ("kind", "fingerprint", "price", "by", "time")
    return {
        "account": str(path),
        "filter": standing.filter.name,
        "order": standing.filter.order,
        "cap": standing.cap and dataclasses.asdict(standing.cap),
        "spent": _pair(standing, standing.spent),
        "limit": _pair(standing, standing.limit),
        "left": _pair(standing, standing.left),
        "head": standing.head,
        "versions": len(standing.fingerprints),
        "fits": [
            {"number": number, "time": fit.time, "by": fit.by, "state": fit.state}
            | {name: value for name, value in fit.body.items() if name not in hidden}
            | {"epsilon": fit.budget[0]}
            for number, fit in enumerate(standing.fits, 1)
        ],
        "changes": [
            {name: value for name, value in change.items() if name != "fingerprint"} for change in standing.changes
        ],
    }


def _spent(standing: Standing) -> str:
    spent, limit = standing.spent, standing.limit
    of = ("", "") if limit is None else (f" of {limit.loss:.6g}", f" of {limit.delta:.3g}")
    fits = f"{len(standing.fits)} fit{'' if len(standing.fits) == 1 else 's'}"
    return f"{standing.measure} {spent.loss:.6g}{of[0]}, delta {spent.delta:.3g}{of[1]}, by {fits}"


def _change(change: Mapping[str, Any]) -> str:
    if change["kind"] == "version":
        return f"a version of the table was recorded, known by its {'bytes' if change['form'] == 'file' else 'content'}"
    cap = change.get("cap")
    said = "no cap" if cap is None else f"cap epsilon {cap['epsilon']:g}, delta {cap['delta']:g}"
    return f"{'account opened' if change['kind'] == 'opened' else 'new cap'}: {said}"


def _pair(standing: Standing, price: Price | None) -> dict[str, float] | None:
    loss = "epsilon" if standing.filter.order is None else "divergence"
    return None if price is None else {loss: price.loss, "delta": price.delta}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return "inf" if value == float("inf") else value
