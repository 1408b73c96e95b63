"""Which account a command means: the one that is named, or the data set's own; and what accounts know of a ledger."""

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from synthdp.budgets import AccountFile, Cap, registry
from synthdp.cli import bigtables, settings
from synthdp.errors import BadInput, NotEntered
from synthdp.files import strict_json
from synthdp.ledger.events import Plan, canonical
from synthdp.ledger.ledger import Ledger

ENDING = ".account"
NONE = "none"  # account=none


def account_of(options: settings.DataAccount, source: settings.Data) -> AccountFile | None:
    """The account that the options name, or the data set's own; None where the steward wants none."""
    if options.path == NONE:
        given = [
            name
            for name, value, _ in settings.helps(settings.DataAccount)
            if name != "path" and _given(options, name, value)
        ]
        if given:
            raise BadInput(
                f"account=none and account.{given[0]} contradict each other: name a file or leave the option out"
            )
        warnings.simplefilter("ignore", NotEntered)  # the steward said it, and the fit's last lines say it again
        return None
    if options.path == "":
        raise BadInput("account= needs a file, or none")
    file = source.path or source.train
    return AccountFile(
        path=Path(options.path) if options.path is not None else _own(source),
        cap=_cap(options.cap),
        filter=options.filter,
        head=options.head,
        by=options.by,
        add_version=options.add_version,
        change_cap=options.change_cap,
        source=None if source.name is not None or file is None else Path(file),
    )


def _own(source: settings.Data) -> Path:
    """Beside the file of the records, whatever name led to it; for named sets in the user's data folder."""
    file = source.path or source.train
    if source.name is None and file is not None:
        real = bigtables.home_of(Path(file))
        return real.with_name(real.name + ENDING)
    if source.name is None:
        raise BadInput("give account=FILE, data=NAME or data.path=FILE")
    return registry.home() / "accounts" / (source.name + ENDING)


def lacking(path: Path, ledger: Ledger) -> str | None:
    """Why this ledger does not hold all that its fit was charged, where one of the user's accounts or a release beside it can tell."""
    for account, standing in registry.others():
        fit = standing.claimed(ledger.claims) or standing.last(str(path.absolute()))
        if fit is None:
            continue
        behind = bool(fit.claims) and fit.claims[-1] not in ledger.claims
        if behind or (fit.ledger_head is not None and not ledger.holds(fit.ledger_head)):
            return f"the account {account} knows of lines that it does not hold: it was cut off, or is an older copy"
    if _more(_released(path), ledger.entries()):
        return "the release beside it was charged for more: it was cut off, or is the ledger of another fit"
    return None


def _released(path: Path) -> Plan:
    """What the release says that this ledger is of, or that lies beside it; nothing where there is none that can be read."""
    from synthdp.report.statement import Statement

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
