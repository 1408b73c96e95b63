"""One fit's place in an account: entered before its first question, marked when it ends."""

import os
import secrets
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.budgets import fingerprint
from synthdp.budgets.chain import Committed
from synthdp.budgets.file import AccountFile, overtaken
from synthdp.budgets.filters import Entered
from synthdp.budgets.standing import Standing
from synthdp.errors import BadInput, NotEntered, outside
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Plan
from synthdp.ledger.ledger import Ledger
from synthdp.tables import source

if TYPE_CHECKING:
    from synthdp.budgets.fingerprint import Records


class Entry:
    """Enters one fit. Without an account nothing is entered anywhere."""

    def __init__(
        self,
        account: AccountFile | None,
        frame: "Records",
        budget: Budget,
        unit: str,
        *,
        ledger: Ledger,
        resume: bool,
        planted: bool,
        about: Mapping[str, Any],
    ) -> None:
        self._account = account
        self._unit = unit
        self._ledger = ledger
        self._about = {**about, "ledger": None if ledger.path is None else str(ledger.path.absolute())}
        self._number: int | None = None
        self._claim: str | None = None
        self._statement: Entered | None = None
        self._process = os.getpid()
        if account is not None:
            self._number = account.check(budget, unit, resumed=ledger.path if resume else None)
            forms = _forms(account, frame, planted=planted)
            self._prints = [lru_cache(maxsize=None)(fingerprint.of(_named(table))) for table in forms]
        self._stopped = self._number is not None

    def check_table(self) -> None:
        """Refuse a table that the account is not kept for, before any work is done; `enter` checks it again."""
        if self._account is not None:
            self._account.check_table(*self._prints)

    def enter(self, plan: Plan, budget: Budget) -> None:
        """Charge the plan to the account; what comes after the first plan (records handed out) is charged beside it.

        The ledger holds the fit's new claim before the account does: whenever the process is killed, the account's claim is
        among those of the ledger, so that the fit can go on.
        """
        if self._account is None:
            return
        if os.getpid() != self._process:
            raise BadInput("this fit was forked, and only the process that began it may charge its account")
        if self._number is not None and not self._stopped:
            self._account.enter_more(self._number, plan, budget)
        elif self._number is None:
            self._enter_first(self._account, plan, budget)
        else:
            self._go_on(self._account, self._number, plan, budget)
        standing = self._account.read()
        if standing is not None:
            self._statement = _statement(standing, head_checked=self._account.head is not None)

    def _enter_first(self, account: AccountFile, plan: Plan, budget: Budget) -> None:
        claim = self._new_claim()
        try:
            self._number = account.enter(self._about, plan, budget, self._unit, *self._prints, claim=claim)
        except Committed:
            raise
        except BadInput:
            self._ledger.discard(refused=True)
            raise
        self._claim = claim

    def _go_on(self, account: AccountFile, number: int, plan: Plan, budget: Budget) -> None:
        held, claim = self._ledger.claims, secrets.token_hex(16)
        self._ledger.claim(claim)
        self._number = None  # where another copy went on, what becomes of the fit is not ours to say
        account.go_on(number, plan, budget, ledger=self._ledger, held=held, claim=claim)
        self._number, self._claim, self._stopped = number, claim, False

    def _new_claim(self) -> str | None:
        """A token that the ledger holds durably; None for a ledger that ends with this process, which nobody can resume."""
        if self._ledger.path is None:
            return None
        claim = secrets.token_hex(16)
        self._ledger.claim(claim)
        return claim

    def mark(self, state: str) -> None:
        """What became of the fit. It is charged in any case, so an account that cannot be written costs a warning only.

        Raises `BadInput` for a fit that has its model where another copy of it was resumed while it ran (its process was frozen, or its
        machine is a snapshot): one charge does not pay for both models.
        """
        if self._account is None or self._number is None:
            return
        if os.getpid() != self._process:
            if state in ("fitted", "finished"):
                raise BadInput("this fit was forked, and only the process that began it may hand out its model")
            return
        head = None if self._claim is None else self._ledger.head
        try:
            ours = self._account.mark(self._number, state, claim=self._claim, ledger_head=head)
        except BadInput as error:
            warnings.warn(
                f"the fit is charged, but the account could not record that it {state}: {error}", stacklevel=2
            )
            return
        if state in ("fitted", "finished") and not ours:
            raise BadInput(overtaken(self._account.path))

    @property
    def statement(self) -> Entered | None:
        """What the fit's statement says of its account; None where it was entered nowhere."""
        return self._statement


@contextmanager
def entered(
    account: AccountFile | Path | str | None,
    frame: "Records",
    budget: Budget,
    unit: str,
    *,
    ledger: Ledger,
    resume: bool = False,
    resumable: bool = False,
    planted: bool = False,
    **about: Any,
) -> Iterator[Entry]:
    """A fit's entry while the block runs, marked "finished", "failed" or "interrupted" when it ends. One that can be resumed is
    "fitted" then, and "finished" when its release is saved: if the process is killed before that, it can still go on.

    `about` is written beside the charge: generator, settings, rehearsal. `planted`: the frame holds canaries of an audit, other ones
    each time, so it is not the table that the account is kept for. With `resume` a fit that wrote `ledger` and did not
    finish is continued: what it was charged counts. Raises `BadInput` where the account refuses.
    """
    file = AccountFile(path=Path(account)) if isinstance(account, str | Path) else account
    entry = Entry(file, frame, budget, unit, ledger=ledger, resume=resume, planted=planted, about=about)
    try:
        yield entry
    except KeyboardInterrupt:
        entry.mark("interrupted")
        raise
    except BaseException:
        entry.mark("failed")
        raise
    entry.mark("fitted" if resumable else "finished")


def warn_of_no_account() -> None:
    """A fit of real records that nobody keeps count of: the user should know before it."""
    warnings.warn(
        "this fit is entered in no account, so what it spends is not added to the other fits of these records. Give account=FILE "
        "to keep count of all of them",
        NotEntered,
        stacklevel=outside(),
    )


def warn_of_others() -> None:
    """Warn a process that fits alone beside others of the same program: each of them spends the budget again, on a model of its own."""
    said = os.environ.get("WORLD_SIZE", "")  # by torchrun
    started = int(said) if said.isdecimal() else 1
    if "torch.distributed" in sys.modules:
        from torch import distributed

        if distributed.is_available() and distributed.is_initialized():
            started = distributed.get_world_size()
    if started > 1:
        warnings.warn(
            f"this is one of {started} processes, and each one that fits makes a fit of its own, which is charged separately. Fit in one "
            "process only; Synthesizer.fit makes a single fit in all of them with ranks=synthdp.seal.processes.joined()",
            stacklevel=outside(),
        )


def _forms(account: AccountFile, frame: "Records", *, planted: bool) -> "list[Records]":
    """The table in the form in which the account knows it, and as the frame that it was read into, by which others may."""
    if account.source is None or account.source is frame:
        return [frame]
    return [account.source] if planted or isinstance(frame, source.Source) else [account.source, frame]


def _named(table: "Records") -> "Records":
    if isinstance(table, source.Query) and table.name is None:
        raise BadInput(
            "an account identifies a database table by its public name; give one, as in tables.table(expression, name='visits of "
            "2025')"
        )
    return table


def _statement(standing: Standing, *, head_checked: bool) -> Entered:
    chosen = standing.filter
    return Entered(filter=chosen.name, order=chosen.order, cap=standing.cap, head_checked=head_checked)
