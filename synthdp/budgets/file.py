"""The account of a data set: one file that every fit of its records is entered in, before its first question."""

import getpass
import json
import math
import os
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.budgets import chain, filters, registry
from synthdp.budgets.chain import PLACE
from synthdp.budgets.filters import FILTERS, Cap, FilterName, Price
from synthdp.budgets.fingerprint import Fingerprint
from synthdp.budgets.standing import CAP, CHARGED, MORE, OPENED, STATES, VERSION, Fit, Standing, standing
from synthdp.errors import BadInput, outside
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Plan, to_json
from synthdp.ledger.ledger import GENESIS, Ledger
from synthdp.tables import source as tables

if TYPE_CHECKING:
    from synthdp.budgets.fingerprint import Records

NEW = "account.add_version=true (in Python account=AccountFile(path=..., add_version=True), from synthdp.budgets)"
FILE, FRAME = "file", "frame"  # what a fingerprint is of
ANEW = "Leave resume out to start a new fit, which is charged separately"


@dataclass(frozen=True, kw_only=True)
class AccountFile:
    """The budget of one data set over all its fits, kept in one file that outlives every output folder.

    `cap` and `filter` are fixed when the file is made; given later they must agree, but `change_cap` records a new cap (additive
    only). Without a cap everything is recorded and nothing refused. `head` is the hash that was kept elsewhere: the file must still hold
    it. `by` says who fits (default: the user's name). `add_version` records a table that the account does not know as a newer
    version of the same people's. `source` is the file of the records, whose bytes then are what is recognised, or the table itself
    where what is fitted has canaries in it; without it, the content of the fitted frame is.
    """

    path: Path
    cap: Cap | None = None
    filter: FilterName | None = None
    head: str | None = None
    by: str | None = None
    add_version: bool = False
    change_cap: bool = False
    source: "Records | None" = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.filter is not None and self.filter not in FILTERS:
            raise BadInput(f"account.filter must be one of {', '.join(FILTERS)}, got {self.filter!r}")
        if self.cap is not None and type(self.cap) is not Cap:
            raise BadInput(
                f"account.cap must be Cap(epsilon=..., delta=...) of synthdp.budgets, got {type(self.cap).__name__}"
            )
        if self.change_cap and self.cap is None:
            raise BadInput("account.change_cap=true needs account.cap.epsilon and account.cap.delta")
        if not isinstance(self.by, str | None):
            raise BadInput(f"account.by must be a name, got {self.by!r}")

    def read(self) -> Standing | None:
        """The account as it stands, its chains and the kept head checked; None where there is no file yet."""
        rows = chain.read(self.path)
        found = None if rows is None else standing(rows)
        self._check_head(found)
        return found

    def check(self, budget: Budget, unit: str, *, resumed: Path | None = None) -> int | None:
        """Refuse what can be refused before anything is read: nothing is written.

        `resumed` is the ledger of a fit that was stopped: where the account holds that fit, its charge counts for this one too,
        and its number is returned. Raises `BadInput` where another copy of the ledger went on since, where lines of it are
        gone, or where the fit finished.
        """
        if not _writable(self.path):
            raise BadInput(f"the account {self.path} cannot be written; name another file with account=FILE")
        rows = chain.read(self.path)
        if rows is not None:
            self._check_alone(rows)
        found = self.read() or self._imagined()
        if self._agreed(found) != found.cap:
            found = replace(found, cap=self.cap)
        self._check_neighbours(found, budget, unit)
        number = None if resumed is None else self._stopped(found, resumed)
        if number is None:  # what a plan costs by its events is known later
            self._afford(found, found.filter.price((), budget))
        return number

    def check_table(self, fingerprint: Fingerprint, *more: Fingerprint) -> None:
        """Refuse a table that the account is not kept for, and one for which an account elsewhere has a cap. Warn of accounts
        without a cap that are kept for it too: what was spent there does not count here. Nothing is charged yet. `more` are the
        table's fingerprints in other forms, by which other accounts may know it."""
        found = self.read()
        if found is not None:
            known = self._known(found, fingerprint, *more)
            self._check_table(found, known)
            if set(known) <= set(found.fingerprints) and registry.holds(self.path):
                return  # they were compared when the later of the two was first used for it
        copies = self._copies((fingerprint, *more))
        capped = [str(path) for path, other in copies if other.cap is not None]
        if capped:
            raise BadInput(
                f"{capped[0]} is kept for the same table and has a cap, which a second account would bypass: give "
                f"account={capped[0]}"
            )
        kept = [str(path) for path, _ in copies]
        if kept:
            warnings.warn(
                f"another account knows the same table: {', '.join(kept)}. {self.path} does not count what was spent there, and "
                f"that account's cap does not apply here. Give account={kept[0]} to enter the fit there",
                stacklevel=outside(),
            )

    def _copies(self, fingerprints: Iterable[Fingerprint]) -> list[tuple[Path, Standing]]:
        """The registered accounts whose key finds the table among theirs."""
        prints = tuple(fingerprints)
        return [
            (path, other)
            for path, other in registry.others(self.path)
            if other.fingerprints and any(of(other.key) in other.fingerprints for of in prints)
        ]

    def open(self) -> Standing:
        """Make the account where there is none, and record a change of the cap that was asked for."""
        try:
            registry.add(self.path)
        except (OSError, BadInput) as error:
            warnings.warn(
                f"the list of this user's accounts cannot be written ({error}), so synthdp will not notice a copy of this table in "
                "another account",
                stacklevel=outside(),
            )
        if not self.path.exists():
            self._check_head(None)
            imagined = self._imagined()
            chosen, cap = imagined.filter, imagined.cap and asdict(imagined.cap)
            opened = {"kind": OPENED, "filter": chosen.name, "order": chosen.order, "cap": cap}
            chain.make(self.path, self._signed(opened))
        with chain.transaction(self.path) as book:
            return self._opened(book)

    def enter(
        self,
        fit: Mapping[str, Any],
        plan: Plan,
        budget: Budget,
        unit: str,
        fingerprint: Fingerprint,
        *more: Fingerprint,
        claim: str | None = None,
    ) -> int:
        """Charge a fit's whole plan, durably, in one transaction with every check; returns its number.

        `fit` holds what is written beside it: generator, settings, rehearsal. `more` are the table's fingerprints in other forms, by which
        it is known again if it comes in another file. `claim` is a random token, which the fit's ledger
        holds already: by it a stopped fit is known again (`go_on`). Raises `BadInput`, and charges nothing, where the cap would
        be passed, or the relation, unit, table or head is not the account's.
        """
        opened = self.open()
        known = self._known(opened, fingerprint, *more)
        price = opened.filter.price(plan, budget)  # seconds, in which nobody waits
        with chain.transaction(self.path) as book:
            found = self._opened(book)
            self._check_neighbours(found, budget, unit)
            self._afford(found, price)
            self._recognise(book, found, known)
            body = {
                "kind": CHARGED,
                **fit,
                "relation": budget.relation,
                "unit": unit,
                "epsilon": budget.epsilon,
                "delta": budget.delta,
                "price": asdict(price),
                "plan": _told(plan),
                "fingerprint": known[0],
            }
            number = book.append("charges", self._signed(body)).number
            self._mark(book, number, "running", claim=claim)
            return number

    def enter_more(self, number: int, plan: Plan, budget: Budget) -> None:
        """Charge what a fit asks for beside its plan. Raises `BadInput` as `enter` does."""
        with chain.transaction(self.path) as book:
            found = self._opened(book)
            self._charge_more(book, found, number, found.filter.price(plan, budget), plan)

    def go_on(
        self, number: int, plan: Plan, budget: Budget, *, ledger: Ledger, held: Collection[str], claim: str
    ) -> None:
        """Let a stopped fit go on, in one transaction: swap its claim, and charge what `plan` costs beyond the
        earlier plan, all of which it holds.

        The findings of `check` are checked again: the fit may have finished while a copy of it was read.

        `held` are the claims that its ledger holds; `claim` is a new one, which it holds durably, too. The account's claim must be
        among `held`. Of several copies of a stopped fit only the first to come knows it; the others are refused. A ledger that
        holds a new claim which the account does not have yet (its process was killed in between) holds the account's as well,
        and goes on. A fit of an older version has no claim, and is given its first one. Raises `BadInput` as `enter` does, too.
        """
        price = self._existing().filter.price(plan, budget)
        with chain.transaction(self.path) as book:
            found = self._opened(book)
            fit = found.fit(number)
            self._check_claim(fit, held)
            self._check_stopped(fit, ledger, f"the ledger {ledger.path}")
            self._charge_more(book, found, number, price.above(fit.price), plan)
            self._mark(book, number, "running", claim=claim)

    def mark(self, number: int, state: str, *, claim: str | None = None, ledger_head: str | None = None) -> bool:
        """Say what became of a fit; it stays charged. `ledger_head` is where its ledger ends: a ledger that is cut is then told.

        With the `claim` under which the fit ran, False is returned and nothing said where another copy of it was resumed since.
        """
        if state not in STATES:
            raise ValueError(f"state must be one of {STATES}, got {state!r}")
        with chain.transaction(self.path) as book:
            if claim is not None and standing(book.rows()).fit(number).claims[-1:] != (claim,):
                return False
            self._mark(book, number, state, ledger=ledger_head)
            return True

    def _existing(self) -> Standing:
        found = self.read()
        if found is None:
            raise BadInput(f"no account at {self.path}")
        return found

    def _charge_more(self, book: chain.Book, found: Standing, number: int, price: Price, plan: Plan) -> None:
        if price.loss > 0 or price.delta > 0:
            self._afford(found, price)
            body = {"kind": MORE, "fit": number, "price": asdict(price), "plan": _told(plan)}
            book.append("charges", self._signed(body))

    def _mark(self, book: chain.Book, number: int, state: str, **more: str | None) -> None:
        """States name the head of the charges, so that charges cannot be cut off without them."""
        head = book.rows().charges[-1].hash
        said = {name: value for name, value in more.items() if value is not None}
        book.append("states", self._signed({"fit": number, "state": state, "head": head, **said}))
        standing(book.rows())  # what is written here can be read again

    def _stopped(self, found: Standing, path: Path) -> int | None:
        """The fit that wrote this ledger, by its claim or, in accounts of older versions, by its path; None where there is none."""
        ledger = Ledger.read(path) if path.exists() else Ledger()
        fit = found.claimed(ledger.claims)
        if fit is not None:
            self._check_claim(fit, ledger.claims)
        else:
            number = found.unfinished(str(path.absolute()))
            if number is None or (ledger.claims and not ledger.charges):  # one of its own, that was not entered yet
                return None
            fit = found.fit(number)
            if fit.claims or ledger.head == GENESIS:
                raise BadInput(
                    f"{path} is gone, was emptied or was replaced. The account {self.path} contains fit {number}, which wrote its "
                    f"ledger there and did not finish. Put that ledger back to continue the fit. {ANEW}"
                )
        self._check_stopped(fit, ledger, str(path))
        return fit.number

    def _check_stopped(self, fit: Fit, ledger: Ledger, named: str) -> None:
        if fit.state == "finished":
            raise BadInput(f"the fit that wrote {named} finished, so there is nothing to resume. {ANEW}")
        if fit.ledger_head is not None and not ledger.holds(fit.ledger_head):
            raise BadInput(
                f"{named} lacks lines that the account {self.path} records: it was cut off, or is an older copy. Put the whole "
                f"ledger back to continue the fit. {ANEW}"
            )

    def _check_claim(self, fit: Fit, held: Collection[str]) -> None:
        if fit.claims and fit.claims[-1] not in held:
            raise BadInput(f"{overtaken(self.path)}. {ANEW}")

    def _opened(self, book: chain.Book) -> Standing:
        """What stands, after the row that a new cap needs; the head is checked."""
        self._check_alone(book.rows())
        found = standing(book.rows())
        self._check_head(found)
        if self._agreed(found) == found.cap:
            return found
        book.append("charges", self._signed({"kind": CAP, "cap": self.cap and asdict(self.cap)}))
        return standing(book.rows())

    def _check_alone(self, rows: chain.Rows) -> None:
        """SQLite rolls back a transaction that a kill cut short once it finds the journal, beside the name under which the file was open. A
        charge that was made under another name in between would vanish with it."""
        own = os.path.realpath(self.path)
        places = {place for row in (*rows.charges, *rows.states) if isinstance(place := row.body.get(PLACE), str)}
        gone = {place for place in places if not os.path.exists(place)}
        same = {place for place in places | set(map(str, registry.listed())) if _is_same(place, own)}
        for place in sorted((gone | same) - {own}):
            if chain.is_hot(place):
                raise BadInput(
                    f"a process that was writing the account {self.path} was killed while the file was called {place}, and "
                    f"{place}-journal has not been rolled back yet. Rename the account back to {place} (or use that name), run synthdp "
                    f"budget account={place} once, and then use either name"
                )
        if chain.is_mounted(self.path):
            raise BadInput(
                f"the account {self.path} is mounted as a single file, so SQLite's journal would not lie beside it. Mount the folder that "
                "contains it"
            )

    def _imagined(self) -> Standing:
        """The account that opening it would make."""
        chosen = filters.made(self.filter or "additive", None, self.cap)
        return Standing(key=b"", filter=chosen, cap=self.cap, fits=(), fingerprints=(), changes=(), hashes=())

    def _agreed(self, found: Standing) -> Cap | None:
        """The cap that holds; a different one is taken only where a change was asked for."""
        if self.filter is not None and self.filter != found.filter.name:
            raise BadInput(
                f"account.filter={self.filter}, but {self.path} uses the filter {found.filter.name}, which cannot be changed; "
                "leave account.filter out"
            )
        if self.cap is None or self.cap == found.cap:
            return found.cap
        held = "no cap" if found.cap is None else f"a cap of {_pair(filters.Additive().limit(found.cap))}"
        if not self.change_cap:
            raise BadInput(
                f"account.cap of {_pair(filters.Additive().limit(self.cap))}, but {self.path} has {held}; account.change_cap=true (in "
                "Python change_cap=True) replaces it and records the change"
            )
        if found.filter.name == "renyi":
            raise BadInput(f"{self.path} has {held} and the filter renyi, whose cap cannot be changed")
        return self.cap

    def _check_head(self, found: Standing | None) -> None:
        if self.head is not None and (found is None or self.head.strip().lower() not in found.hashes):
            raise BadInput(
                f"account.head is not among the charges of {self.path}: the account was rolled back, cut off or replaced. Find out "
                "what happened before you fit anything else"
            )

    def _check_neighbours(self, found: Standing, budget: Budget, unit: str) -> None:
        for name, held, asked in zip(
            ("relation", "unit"), found.neighbours or (budget.relation, unit), (budget.relation, unit), strict=True
        ):
            if held != asked:
                declared = f"Declare unit: {held}" if held != RECORD else "Take unit out of the schema"
                remedy = declared if name == "unit" else f"Give budget.relation={held}"
                raise BadInput(
                    f"the fit's {name} is {asked!r}, but that of the account {self.path} is {held!r}, and no accountant can add them up. "
                    f"{remedy}, or give the fit an account of its own (account=FILE), which is not added to this one"
                )

    def _afford(self, found: Standing, asked: Price) -> None:
        if found.limit is None or found.left is None:
            return
        if filters.within(filters.total([found.spent, asked]), found.limit):
            return
        measure = found.measure
        raise BadInput(
            f"the fit asks for {_pair(asked, measure)}, but only {_pair(found.left, measure)} is left in the account {self.path}. "
            f"Its limit is {_pair(found.limit, measure)}; {_pair(found.spent, measure)} is spent (filter {found.filter.name}). "
            "Ask for less, or sample from a release that these records have already paid for, which costs nothing"
        )

    def _known(self, found: Standing, first: Fingerprint, *more: Fingerprint) -> list[str]:
        """The table's fingerprints under the account's key: of its content, which takes seconds, only until both are known."""
        known = [first(found.key)]
        if known[0] not in found.fingerprints or all(change.get("form") != FRAME for change in found.changes):
            known += [of(found.key) for of in more]
        return known

    def _check_table(self, found: Standing, known: Sequence[str]) -> None:
        if found.fingerprints and set(known).isdisjoint(found.fingerprints) and not self.add_version:
            raise BadInput(
                f"the account {self.path} belongs to another table. If this is a newer version of that table, or the same table in "
                f"another form, give {NEW} to record it; otherwise give this table an account of its own with account=FILE"
            )

    def _recognise(self, book: chain.Book, found: Standing, known: Sequence[str]) -> None:
        self._check_table(found, known)
        first = FILE if isinstance(self.source, Path | tables.Files) else FRAME
        for form, each in zip((first, *[FRAME] * (len(known) - 1)), known, strict=True):
            if each not in found.fingerprints:
                book.append("charges", self._signed({"kind": VERSION, "form": form, "fingerprint": each}))

    def _signed(self, body: Mapping[str, Any]) -> dict[str, Any]:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        written = {"by": self.by or _user(), "time": time, PLACE: os.path.realpath(self.path)}
        signed: dict[str, Any] = json.loads(json.dumps(_plain({**body, **written})))
        return signed


def overtaken(path: Path) -> str:
    """What to say to a copy of a fit that is not the one to go on."""
    return f"another copy of this fit has been resumed meanwhile, as {path} shows; only one copy of a stopped fit can be resumed"


def _is_same(place: str, own: str) -> bool:
    try:
        return os.path.samefile(place, own)
    except OSError:
        return False


def _told(plan: Plan) -> list[dict[str, Any]]:
    return [{"event": to_json(entry.event), "count": entry.count} for entry in plan]


def _pair(price: Price, measure: str = "epsilon") -> str:
    return f"{measure} {price.loss:.6g}, delta {price.delta:.3g}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # no name for this process's user, as in some containers
        return "unknown"


def _writable(path: Path) -> bool:
    try:
        nearest = next(place for place in path.absolute().parents if place.exists())
        folder = nearest.is_dir() and os.access(nearest, os.W_OK)  # SQLite keeps a journal beside the file
        return folder and (not path.exists() or (path.is_file() and os.access(path, os.W_OK)))
    except PermissionError:  # a folder on the way that may not be searched
        return False


def _plain(value: Any) -> Any:
    """JSON has no infinity: it is written as text."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
