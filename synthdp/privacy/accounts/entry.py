"""One fit's place in an account: entered before its first question, marked when it ends."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.data import tables
from synthdp.errors import BadInput
from synthdp.privacy import fingerprint
from synthdp.privacy.accounts.file import AccountFile
from synthdp.privacy.accounts.filters import FILTERS, Cap, FilterName
from synthdp.privacy.accounts.standing import Standing
from synthdp.privacy.budget import Budget
from synthdp.privacy.events import Plan

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Entered:
    """What a statement says of the account that a fit was entered in: nothing of the data, of people or of places.

    `cap` is what all fits of the account may spend together, as it stood then; `order` is that of the filter renyi.
    """

    filter: FilterName
    order: float | None
    cap: Cap | None
    head_checked: bool

    def __post_init__(self) -> None:
        typed = isinstance(self.head_checked, bool) and isinstance(self.order, float | None)
        if self.filter not in FILTERS or not typed:
            raise BadInput("a statement's account has a filter that is not known, or a field of the wrong form")


class Entry:
    """Enters one fit. Without an account nothing is entered anywhere."""

    def __init__(
        self,
        account: AccountFile | None,
        frame: "pd.DataFrame | tables.Source",
        budget: Budget,
        unit: str,
        *,
        resumed: Path | None,
        about: Mapping[str, Any],
    ) -> None:
        self._account = account
        self._unit = unit
        self._about = about
        self._number: int | None = None
        self._statement: Entered | None = None
        if account is not None:
            self._number = account.check(budget, unit, resumed=resumed)
            source = account.source
            table = frame if source is None else source
            if isinstance(table, tables.Query) and table.name is None:
                raise BadInput(
                    "an account knows a table of a database by its public name: give tables.table(expression, name='visits of 2025')"
                )
            found = fingerprint.of(table)
            self._fingerprint = lru_cache(maxsize=1)(found)
        self._resumed = self._number is not None
        self.mark("running")

    def check_table(self) -> None:
        """Refuse a table that the account is not kept for, before any work is done; `enter` checks it again."""
        if self._account is not None:
            self._account.check_table(self._fingerprint)

    def enter(self, plan: Plan, budget: Budget) -> None:
        """Charge the plan to the account; what comes after the first plan (records handed out) is charged beside it."""
        if self._account is None:
            return
        if self._number is None:
            self._number = self._account.enter(self._about, plan, budget, self._unit, self._fingerprint)
        else:
            self._account.enter_more(self._number, plan, budget, instead=self._resumed)
            self._resumed = False
        standing = self._account.read()
        if standing is not None:
            self._statement = _statement(standing, head_checked=self._account.head is not None)

    def mark(self, state: str) -> None:
        """What became of the fit. It is charged in any case, so an account that cannot be written costs a warning only."""
        if self._account is None or self._number is None:
            return
        try:
            self._account.mark(self._number, state)
        except BadInput as error:
            warnings.warn(f"the fit is charged, but that it {state} could not be recorded: {error}", stacklevel=2)

    @property
    def statement(self) -> Entered | None:
        """What the fit's statement says of its account; None where it was entered nowhere."""
        return self._statement


@contextmanager
def entered(
    account: AccountFile | Path | str | None,
    frame: "pd.DataFrame | tables.Source",
    budget: Budget,
    unit: str,
    *,
    ledger: Path | str | None = None,
    resume: bool = False,
    **about: Any,
) -> Iterator[Entry]:
    """A fit's entry while the block runs, marked "finished", "failed" or "interrupted" when it ends.

    `about` is written beside the charge: generator, settings, rehearsal. With `resume` a fit that wrote `ledger` and did not
    finish is gone on with: what it was charged counts. Raises `BadInput` where the account refuses.
    """
    file = AccountFile(path=Path(account)) if isinstance(account, str | Path) else account
    written = None if ledger is None else Path(ledger).absolute()
    about["ledger"] = None if written is None else str(written)
    # A ledger that is gone proves nothing about what was asked: then the fit is charged anew.
    resumed = written if resume and written is not None and written.exists() else None
    entry = Entry(file, frame, budget, unit, resumed=resumed, about=about)
    try:
        yield entry
    except KeyboardInterrupt:
        entry.mark("interrupted")
        raise
    except BaseException:
        entry.mark("failed")
        raise
    entry.mark("finished")


def _statement(standing: Standing, *, head_checked: bool) -> Entered:
    chosen = standing.filter
    return Entered(filter=chosen.name, order=chosen.order, cap=standing.cap, head_checked=head_checked)
