"""What the rows of an account say: its terms, its fits, what they spent and what is left. A pure function of the rows."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from synthdp.privacy.accounts import filters
from synthdp.privacy.accounts.chain import Rows
from synthdp.privacy.accounts.filters import Cap, Filter, Price

CHARGED, MORE = "fit", "more"  # a fit's plan; what the same fit asked for beside it


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One fit of an account: what was entered before its first question, and what became of it.

    `state` is "running" until it ends; a fit that was killed stays so. Whatever the state, it is charged.
    """

    number: int
    time: str
    by: str
    state: str
    price: Price
    body: Mapping[str, Any]  # generator, settings, plan, budget, relation, unit, rehearsal

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
        return "epsilon" if order is None else f"divergence of order {order:g}"

    def fit(self, number: int) -> Fit:
        """The fit of that number."""
        return next(fit for fit in self.fits if fit.number == number)

    def unfinished(self, ledger: str) -> int | None:
        """The last fit that wrote this ledger, if it did not finish."""
        fits = [fit for fit in self.fits if fit.body["ledger"] == ledger]
        return fits[-1].number if fits and fits[-1].state != "finished" else None

    @property
    def neighbours(self) -> tuple[str, str] | None:
        """(relation, unit) of the fits; None before the first one."""
        return (self.fits[0].body["relation"], self.fits[0].body["unit"]) if self.fits else None


def standing(rows: Rows) -> Standing:
    """Read an account's rows."""
    first = rows.charges[0].body
    cap = _cap(first["cap"])
    # The order was fixed with the account, by the cap that it was opened with.
    chosen = filters.made(first["filter"], first["order"], cap)
    changes = [row.body for row in rows.charges if row.body["kind"] not in (CHARGED, MORE)]
    for change in changes[1:]:
        if change["kind"] == "cap":
            cap = _cap(change["cap"])
    return Standing(
        key=rows.key,
        filter=chosen,
        cap=cap,
        fits=_fits(rows),
        fingerprints=tuple(change["fingerprint"] for change in changes if change["kind"] == "version"),
        changes=tuple(changes),
        hashes=tuple(row.hash for row in rows.charges),
    )


def _fits(rows: Rows) -> tuple[Fit, ...]:
    states: dict[int, str] = {row.body["fit"]: row.body["state"] for row in rows.states}
    prices: dict[int, list[Price]] = {}
    for row in rows.charges:
        if row.body["kind"] in (CHARGED, MORE):
            loss, delta = (float(row.body["price"][name]) for name in ("loss", "delta"))
            prices.setdefault(row.body.get("fit", row.number), []).append(Price(loss=loss, delta=delta))
    return tuple(
        Fit(
            number=row.number,
            time=row.body["time"],
            by=row.body["by"],
            state=states.get(row.number, "running"),
            price=filters.total(prices[row.number]),
            body=row.body,
        )
        for row in rows.charges
        if row.body["kind"] == CHARGED
    )


def _cap(values: Mapping[str, Any] | None) -> Cap | None:
    return None if values is None else Cap(**dict(values))
