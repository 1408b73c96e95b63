"""`synthdp budget`: shows the account of a data set. No record is read."""

import dataclasses
import json
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from synthdp.budgets import AccountFile, Cap, Standing, registry
from synthdp.budgets.filters import Price
from synthdp.cli import option_values, output_paths, real_records, settings
from synthdp.errors import BadInput, NotEntered, listed
from synthdp.files import strict_json
from synthdp.ledger.events import Plan, canonical
from synthdp.ledger.ledger import Ledger
from synthdp.report.statement import Statement, plain
from synthdp.tables import database_url
from synthdp.tables.source import Query

# ---- Which account a command means: the one that is named, or the data set's own; and what accounts know of a ledger.


ENDING = ".account"
NONE = "none"  # account=none


def account_of(options: settings.DataAccount, source: settings.Data) -> AccountFile | None:
    """The account that the options name, or the data set's own; None where the steward wants none."""
    if options.path == NONE:
        given = [
            name
            for name, value, _ in option_values.helps(settings.DataAccount)
            if name != "path" and _given(options, name, value)
        ]
        if given:
            raise BadInput(
                f"account=none and account.{given[0]} contradict each other: name a file or leave the option out"
            )
        _warn_of_passed_over(source)
        warnings.simplefilter("ignore", NotEntered)  # the steward said it, and the fit's last lines warn of it
        return None
    if options.path == "":
        raise BadInput("account= needs a file, or none")
    file = source.path or source.train
    return AccountFile(
        path=Path(options.path) if options.path is not None else own(source),
        cap=_cap(options.cap),
        filter=options.filter,
        head=options.head,
        by=options.by,
        add_version=options.add_version,
        change_cap=options.change_cap,
        source=None if source.name is not None or file is None else _source(source, file),
    )


def _warn_of_passed_over(source: settings.Data) -> None:
    """Name the account that a fit without account= would find, if it has a cap, and what is spent of it."""
    with suppress(BadInput):  # no records are named, or they are in a database
        account = AccountFile(path=own(source))
        standing = account.read()
        if standing is not None and standing.cap is not None:
            output_paths.warn(
                f"account=none passes over the account of these records, {account.path}, and its cap: {_spent(standing)}"
            )


def _source(options: settings.Data, file: str) -> Path | Query | None:
    address = real_records.address_of(options)
    if address is None:
        return None if database_url.is_url(file) else Path(file)
    return database_url.known_as(address)


def own(source: settings.Data) -> Path:
    """Beside the file of the records, whatever name led to it; for named sets in the user's data folder."""
    file = source.path or source.train
    if source.name is None and file is not None:
        if real_records.address_of(source) is not None or database_url.is_url(file):
            raise BadInput(
                "a database has no folder for the account of its records: give account=FILE, the same for every fit of these "
                "people, or account=none"
            )
        real = real_records.home_of(source, file)
        return real.with_name(real.name + ENDING)
    if source.name is None:
        raise BadInput("no account is named: give account=FILE, data.path=FILE or data=NAME")
    return registry.home() / "accounts" / (source.name + ENDING)


def lacking(path: Path, ledger: Ledger) -> str | None:
    """Why this ledger does not hold all that its fit was charged, where one of the user's accounts or a release beside it can tell."""
    for account, standing in registry.others():
        fit = standing.claimed(ledger.claims) or standing.last(str(path.absolute()))
        if fit is None:
            continue
        behind = bool(fit.claims) and fit.claims[-1] not in ledger.claims
        if behind or (fit.ledger_head is not None and not ledger.holds(fit.ledger_head)):
            return f"the account {account} records lines that it does not contain: it was cut off, or is an older copy"
    if _more(_released(path), ledger.entries()):
        return "the release beside it was charged for more: it was cut off, or is the ledger of another fit"
    return None


def _released(path: Path) -> Plan:
    """What the release of this ledger says, or the release beside it; nothing where there is none that can be read."""
    home = path.parent.parent / "release" if path.parent.name == "internal" else path.parent
    try:
        return Statement.from_json(strict_json.load(home / "release.json", infinite=True)["statement"]).events
    except (ValueError, LookupError, TypeError, AttributeError):  # what it is not, `load` will say
        return ()


def _more(released: Plan, held: Plan) -> bool:
    """Whether the release was charged for something that the ledger does not hold."""
    beyond: Counter[Any] = Counter()
    for entry in released:
        beyond[entry.event] += entry.count
    for entry in canonical(held):
        beyond[entry.event] -= entry.count
    return any(count > 0 for count in beyond.values())


def _cap(given: settings.CapOf) -> Cap | None:
    if given.epsilon is None and given.delta is None:
        return None
    if given.epsilon is None or given.delta is None:
        raise BadInput("a cap needs both account.cap.epsilon and account.cap.delta")
    return Cap(epsilon=given.epsilon, delta=given.delta)


def _given(options: settings.DataAccount, name: str, default: Any) -> bool:
    value: Any = options
    for part in name.split("."):
        value = getattr(value, part)
    return bool(value != default)


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
            f"no account at {account.path}: nothing has been fitted yet, or the account has another name. account.cap.epsilon= and "
            "account.cap.delta= make a new one"
        )
    if config["options"].format == "json":
        print(json.dumps(plain(told(account.path, standing)), allow_nan=False))
        return
    output_paths.say(lines(account.path, standing))


def brief(account: AccountFile | None) -> list[str]:
    """What a fit prints about its account when it ends."""
    if account is None:
        return []
    standing = account.read()
    return [f"account    {spent_of(account)}", *([] if standing is None else [f"head       {standing.head}"])]


def spent_of(account: AccountFile | None) -> str:
    """One line: where the account is, and how much of it is spent."""
    if account is None:
        return "none: this fit is not added to any other"
    standing = account.read()
    return f"{account.path}: {'new, with this fit as its first entry' if standing is None else _spent(standing)}"


def others_beside(account: AccountFile | None) -> list[str]:
    """A line that names the accounts in the folder where a new one would be made; those of named data sets all lie in one folder."""
    if account is None or account.path.parent == registry.home() / "accounts" or account.read() is not None:
        return []
    names = sorted(each.name for each in account.path.parent.glob(f"*{ENDING}"))
    return [
        f"accounts   a new account would be made beside {listed(names)}. If the same people are in these records, give account=FILE and "
        "account.add_version=true instead, so that epsilon adds up"
    ] * bool(names)


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
        versions = f"{standing.versions} version{'s' * (standing.versions != 1)}"
        said.append(f"protects   the unit {neighbours[1]}, relation {neighbours[0]}; {versions} of the table known")
    said += [
        f"head       {standing.head}",
        "           keep it elsewhere; account.head=... then detects entries that were removed",
    ]
    rows = [("fit", "time", "by", "generator", "epsilon", "delta", "state")]
    rows += [
        (
            str(number),
            output_paths.name(fit.time),
            output_paths.name(fit.by),
            f"{output_paths.name(fit.body['generator'])}{' (rehearsal)' if fit.body['rehearsal'] else ''}",
            f"{fit.budget[0]:.6g}",
            f"{fit.budget[1]:.3g}",
            fit.state,
        )
        for number, fit in enumerate(standing.fits, 1)
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    table = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    changes = [
        f"{output_paths.name(change['time'])}  {output_paths.name(change['by'])}  {_change(change)}"
        for change in standing.changes
    ]
    return [*said, "", *(table if standing.fits else ["no fits yet"]), "", *changes]


def told(path: Path, standing: Standing) -> dict[str, Any]:
    """The account as JSON values, with every fit's settings and plan."""
    hidden = ("kind", "fingerprint", "price", "by", "time", "place")
    return {
        "account": str(path),
        "filter": standing.filter.name,
        "order": standing.filter.order,
        "cap": standing.cap and dataclasses.asdict(standing.cap),
        "spent": _pair(standing, standing.spent),
        "limit": _pair(standing, standing.limit),
        "left": _pair(standing, standing.left),
        "head": standing.head,
        "versions": standing.versions,
        "fits": [
            {"number": number, "time": fit.time, "by": fit.by, "state": fit.state}
            | {name: value for name, value in fit.body.items() if name not in hidden}
            | {"epsilon": fit.budget[0]}
            for number, fit in enumerate(standing.fits, 1)
        ],
        "changes": [
            {name: value for name, value in change.items() if name not in ("fingerprint", "place")}
            for change in standing.changes
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
