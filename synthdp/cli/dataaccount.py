"""Which account a command means: the one that is named, or the data set's own."""

import warnings
from pathlib import Path
from typing import Any

from synthdp.cli import bigtables, settings
from synthdp.errors import BadInput, NotEntered
from synthdp.privacy.accounts import AccountFile, Cap, registry

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
