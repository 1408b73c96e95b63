"""What the rows of an account say: its terms, its fits, what they spent and what is left. A pure function of the rows."""

import hashlib
import math
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from synthdp.budgets import filters
from synthdp.budgets.filters import FILTERS, Cap, Filter, Price
from synthdp.errors import BadInput

if TYPE_CHECKING:
    from synthdp.budgets.chain import Row, Rows

OPENED, CAP, VERSION = "opened", "cap", "version"  # the account's terms and tables
CHARGED, MORE = "fit", "more"  # a fit's plan; what the same fit asked for beside it
STATES = ("running", "fitted", "finished", "failed", "interrupted")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One fit of an account: what was entered before its first question, and what became of it.

    `state` is "running" until it ends; a fit that was killed stays so. It is "fitted" when its model is made and not saved yet.
    Whatever the state, it is charged. `claims` are the tokens
    under which it ran, oldest first: whoever goes on with it must know the last one. `ledger_head` is the head of its ledger
    when it last ended; None where it never did, or an older version wrote the account.
    """

    number: int
    time: str
    by: str
    state: str
    price: Price
    body: Mapping[str, Any]  # generator, settings, plan, budget, relation, unit, rehearsal
    claims: tuple[str, ...] = ()
    ledger_head: str | None = None

    @property
    def budget(self) -> tuple[float, float]:
        """The (epsilon, delta) that it asked for; epsilon is infinite where it handed out records."""
        epsilon = float(self.body["epsilon"])
        return math.inf if math.isinf(self.price.loss) else epsilon, float(self.body["delta"])


@dataclass(frozen=True, kw_only=True)
class Standing:
    """An account as it stands."""

    key: bytes
    filter: Filter
    cap: Cap | None
    fits: tuple[Fit, ...]
    fingerprints: tuple[str, ...]
    changes: tuple[Mapping[str, Any], ...]  # openings, new caps, new versions of the table
    hashes: tuple[str, ...]  # of the charges, oldest first

    @property
    def head(self) -> str:
        """The hash of the last charge: kept elsewhere, it tells of rows that were cut off."""
        return self.hashes[-1]

    @property
    def versions(self) -> int:
        """How many versions of the table are known: each by its bytes, its content, or both, one after the other."""
        forms = [change["form"] if change["kind"] == VERSION else "" for change in self.changes]
        return sum(bool(form) and (before, form) != ("file", "frame") for before, form in pairwise(["", *forms]))

    @property
    def spent(self) -> Price:
        """What the filter has added up over all fits."""
        return filters.total(fit.price for fit in self.fits)

    @property
    def limit(self) -> Price | None:
        """Where the sums must stay; None without a cap."""
        return None if self.cap is None else self.filter.limit(self.cap)

    @property
    def left(self) -> Price | None:
        """What further fits may add; None without a cap."""
        return None if self.limit is None else self.limit.above(self.spent)

    @property
    def measure(self) -> str:
        """What the filter adds up, in words."""
        order = self.filter.order
        return "epsilon" if order is None else f"Renyi divergence (order {order:g})"

    def fit(self, number: int) -> Fit:
        """The fit of that number; raises `BadInput` where there is none."""
        for fit in self.fits:
            if fit.number == number:
                return fit
        raise BadInput(f"the account does not contain fit {number}: it was rolled back or replaced while the fit ran")

    def last(self, ledger: str) -> Fit | None:
        """The last fit that was entered with a ledger at this path."""
        return next((fit for fit in reversed(self.fits) if fit.body["ledger"] == ledger), None)

    def unfinished(self, ledger: str) -> int | None:
        """The number of that fit, if it did not finish."""
        fit = self.last(ledger)
        return None if fit is None or fit.state == "finished" else fit.number

    def claimed(self, tokens: Collection[str]) -> Fit | None:
        """The fit that ran under one of these tokens, which its ledger holds."""
        return next((fit for fit in reversed(self.fits) if not set(fit.claims).isdisjoint(tokens)), None)

    @property
    def neighbours(self) -> tuple[str, str] | None:
        """(relation, unit) of the fits; None before the first one."""
        return (self.fits[0].body["relation"], self.fits[0].body["unit"]) if self.fits else None


def standing(rows: "Rows") -> Standing:
    """Read an account's rows. Raises `BadInput` where one of them is not such as synthdp writes, or they contradict each other."""
    _check(rows)
    first = rows.charges[0].body
    cap = _cap(first["cap"])
    # The order was fixed with the account, by the cap that it was opened with.
    chosen = filters.made(first["filter"], first["order"], cap)
    changes = [row.body for row in rows.charges if row.body["kind"] not in (CHARGED, MORE)]
    for change in changes[1:]:
        if change["kind"] == CAP:
            cap = _cap(change["cap"])
    return Standing(
        key=rows.key,
        filter=chosen,
        cap=cap,
        fits=_fits(rows),
        fingerprints=tuple(change["fingerprint"] for change in changes if change["kind"] == VERSION),
        changes=tuple(changes),
        hashes=tuple(row.hash for row in rows.charges),
    )


def _fits(rows: "Rows") -> tuple[Fit, ...]:
    prices: dict[int, list[Price]] = {}
    for row in rows.charges:
        if row.body["kind"] in (CHARGED, MORE):
            loss, delta = (float(row.body["price"][name]) for name in ("loss", "delta"))
            fit = row.body["fit"] if row.body["kind"] == MORE else row.number
            prices.setdefault(fit, []).append(Price(loss=loss, delta=delta))
    said: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows.states:
        said.setdefault(row.body["fit"], []).append(row.body)
    return tuple(
        _fit(row, prices[row.number], said.get(row.number, [])) for row in rows.charges if row.number in prices
    )


def _fit(row: "Row", prices: list[Price], said: list[Mapping[str, Any]]) -> Fit:
    heads = [state["ledger"] for state in said if "ledger" in state]
    return Fit(
        number=row.number,
        time=row.body["time"],
        by=row.body["by"],
        state=said[-1]["state"] if said else "running",
        price=filters.total(prices),
        body=row.body,
        claims=tuple(state["claim"] for state in said if "claim" in state),
        ledger_head=heads[-1] if heads else None,
    )


# What a row must hold. Whoever can write the file can write hashes that fit, so that nothing is taken for granted.


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _no_or_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _number(value: Any) -> bool:
    """A finite number of 0 or more, which float() can hold."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _amount(value: Any) -> bool:
    return value == "inf" or _number(value)


def _price(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"loss", "delta"} and all(map(_amount, value.values()))


def _terms(value: Any) -> bool:
    named = isinstance(value, dict) and value.keys() == {"epsilon", "delta"}
    return value is None or (named and all(map(_number, value.values())) and value["epsilon"] > 0 < value["delta"] < 1)


FORMS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    OPENED: {
        "filter": lambda value: value in FILTERS,
        "order": lambda value: value is None or (_number(value) and value > 1),
        "cap": _terms,
    },
    CAP: {"cap": _terms},
    VERSION: {"form": _text, "fingerprint": _text},
    CHARGED: {
        "generator": _text,
        "settings": lambda value: isinstance(value, dict),
        "rehearsal": lambda value: isinstance(value, bool),
        "ledger": _no_or_text,
        "relation": _text,
        "unit": _text,
        "epsilon": _amount,
        "delta": _amount,
        "price": _price,
        "plan": lambda value: isinstance(value, list),
        "fingerprint": _text,
    },
    MORE: {"fit": lambda value: type(value) is int, "price": _price, "plan": lambda value: isinstance(value, list)},
}
STATE: Mapping[str, Callable[[Any], bool]] = {
    "fit": lambda value: type(value) is int,
    "state": lambda value: value in STATES,
}
SIGNED: Mapping[str, Callable[[Any], bool]] = {"by": _text, "time": _text}
# What older versions did not write.
ADDED: Mapping[str, Callable[[Any], bool]] = {"claim": _text, "ledger": _text, "head": _text, "place": _text}


def _check(rows: "Rows") -> None:
    fits: set[int] = set()
    for row in rows.charges:
        kind = row.body.get("kind")
        if not isinstance(kind, str) or kind not in FORMS or (kind == OPENED) != (row.number == 1):
            raise _wrong(rows, row, "charges", "kind")
        placed = {"place": _text} if "place" in row.body else {}  # older versions did not write it
        _check_form(rows, row, "charges", {**FORMS[kind], **SIGNED, **placed})
        if kind == CHARGED:
            fits.add(row.number)
        elif kind == MORE and row.body["fit"] not in fits:
            raise _wrong(rows, row, "charges", "fit")
    key = rows.charges[0].body.get("key")  # older versions did not write it
    if key is not None and key != hashlib.sha256(rows.key).hexdigest():
        raise rows.damaged("its key is not the one with which it was opened")
    hashes = {row.hash for row in rows.charges}
    for row in rows.states:
        optional = {name: form for name, form in ADDED.items() if name in row.body}
        _check_form(rows, row, "states", {**STATE, **SIGNED, **optional})
        if row.body["fit"] not in fits or row.body.get("head", rows.charges[-1].hash) not in hashes:
            raise rows.damaged(f"row {row.number} of its states names charges that are not there; they were cut off")


def _check_form(rows: "Rows", row: "Row", table: str, form: Mapping[str, Callable[[Any], bool]]) -> None:
    for name, holds in form.items():
        if name not in row.body or not holds(row.body[name]):
            raise _wrong(rows, row, table, name)


def _wrong(rows: "Rows", row: "Row", table: str, name: str) -> BadInput:
    return rows.damaged(f"row {row.number} of its {table} has no {name} in the form that synthdp writes")


def _cap(values: Mapping[str, Any] | None) -> Cap | None:
    return None if values is None else Cap(**dict(values))
