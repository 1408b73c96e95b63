"""Conditions on the records to draw, such as `{sex: F, age: [65, 80]}`, read against the schema.

A scalar is equality; a list is a set of values of a categorical, ordinal or boolean column, or the two ends (both included) of a
range of numbers or instants; null is a missing value. All conditions hold together. What a model needs of them is public: for
each code of a column the share of its values that are wanted, since values are uniform within a bin (`Bins.draw`). Of linked tables a
condition is one on people: it names their columns, such as `person.sex`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from pandas import DataFrame

from synthdp.errors import BadInput, nearest
from synthdp.schema import cells
from synthdp.schema.bins import Bins, bins_of, top
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Boolean, Column, Continuous, Datetime, Integer, Numeric, microseconds
from synthdp.schema.rule_rows import broken
from synthdp.schema.rule_text import parse
from synthdp.schema.rules import Order, Rule
from synthdp.schema.schema import Schema

Shares = NDArray[np.float64]
LARGEST = 1e308


@dataclass(frozen=True, kw_only=True, eq=False)
class Allowed:
    """What a condition leaves of each column that it names, by the codec's names.

    `shares` (codes,): the probability that a value of that code is wanted. `within`: the bins cut to the wanted range, from
    which the values are decoded (`Codec.decode`); codes of share 0 must not be decoded from them.
    """

    shares: Mapping[str, Shares]
    within: Mapping[str, Bins]
    named: tuple[str, ...] = ()  # the columns, as the condition names them

    def impossible(self) -> BadInput:
        """The error of a model that can draw no such record."""
        rules = ", or declared rules exclude it" if set(self.shares) - set(self.named) else ""
        return BadInput(
            f"where: no record of this model satisfies the condition on {', '.join(map(repr, self.named))}{rules}; widen it"
        )


EVERYTHING = Allowed(shares={}, within={})


def allowed(given: Any, codec: Codec) -> Allowed:
    """The condition as shares of codes. Raises `BadInput` that names the column and the rule."""
    if not isinstance(given, Mapping) or not given:
        raise BadInput(
            "where must map columns to a value, a list of values or a range, such as {sex: F, age: [65, 80]}"
        )
    shares: dict[str, Shares] = {}
    within: dict[str, Bins] = {}
    for key, wanted in given.items():
        column = _column(str(key), codec)
        if wanted is not None and isinstance(column, Integer | Continuous | Datetime):
            _check_free(column, codec)
        found, cut = _shares(column, wanted, codec)
        if cut is not None:
            within[column.name] = cut
        name, found = codec.joint(column.name, found)
        shares[name] = shares[name] * found if name in shares else found
    return Allowed(shares=shares, within=within, named=tuple(given))


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """A condition on people: for each column that it names the codes (codes,) that have a wanted value, and by `holds` which rows of a
    frame satisfy it."""

    codes: Mapping[str, NDArray[np.bool_]]
    rule: Rule | None
    missing: tuple[str, ...]
    schema: Schema

    def holds(self, frame: DataFrame) -> NDArray[np.bool_]:
        """(rows,): whether each of these people is wanted."""
        found = np.ones(len(frame), np.bool_) if self.rule is None else broken(self.rule, frame, self.schema)
        for name in self.missing:
            found &= frame[name].isna().to_numpy()
        return found


def people(given: Any, codec: Codec, columns: Sequence[str]) -> People:
    """The condition on linked tables whose columns of people are these; raises `BadInput` that names the column and the rule."""
    if not isinstance(given, Mapping) or not given:
        raise BadInput(
            "where must map columns of people to a value, a list of values or a range, such as {person.sex: F}"
        )
    codes: dict[str, NDArray[np.bool_]] = {}
    terms: dict[str, Any] = {}
    for name, wanted in given.items():
        column = _column(str(name), codec)
        if name not in columns:
            raise BadInput(
                f"where: {name!r} is not a column of people, and a condition can name only those, because people are drawn "
                f"before their histories: name {', '.join(map(repr, columns))}, and filter the tables for the rest"
            )
        if isinstance(wanted, list | tuple) and None in wanted:
            raise BadInput(
                f"where: column {name!r}: null cannot be one of several values: draw people with a value and people without one separately"
            )
        codes[column.name] = _shares(column, wanted, codec)[0] > 0
        if wanted is None:
            continue
        if isinstance(column, Integer | Continuous | Datetime):
            low, high = wanted if isinstance(wanted, list | tuple) else (wanted, wanted)
            terms[column.name] = f">= {low} and <= {high}"
        else:
            terms[column.name] = wanted
    schema = codec.schema
    rule = parse([{"never": terms}], schema.columns, schema.names)[0] if terms else None
    return People(codes=codes, rule=rule, missing=tuple(each for each in codes if each not in terms), schema=schema)


def _shares(column: Column, wanted: Any, codec: Codec) -> tuple[Shares, Bins | None]:
    """The share of each code's values that are wanted, and of numbers the bins cut to them."""
    if wanted is None:
        return _missing(column, codec.values(column.name)), None
    if isinstance(column, Integer | Continuous | Datetime):
        found, cut = _range(column, wanted, codec.cells)
        return np.append(found, np.zeros(int(column.missing))), cut
    return _labels(column, wanted, codec.values(column.name)), None


def _check_free(column: Column, codec: Codec) -> None:
    """Values of columns in a declared order are drawn together: what share of a bin lies in a range hangs on the others."""
    if column.name in codec.ordered:
        _refuse(
            column,
            f"a declared rule ties its values to those of {', '.join(map(repr, _tied(column.name, codec)))}, so null is the only "
            "condition that it can have; draw more rows and keep those that satisfy the condition",
        )


def _tied(name: str, codec: Codec) -> list[str]:
    """The other columns that orders tie to this one, of each a chain of rules."""
    found = [name]
    orders = [
        rule for rule in codec.schema.rules if isinstance(rule, Order) and set(rule.columns) <= set(codec.ordered)
    ]
    for each in found:  # grows meanwhile
        found += [other for rule in orders if each in rule.columns for other in rule.columns if other not in found]
    return found[1:]


def _column(name: str, codec: Codec) -> Column:
    schema = codec.schema
    if name not in schema.names:
        raise BadInput(f"where: {name!r} is not one of the columns{nearest(name, schema.names)}")
    column = schema.column(name)
    if column.kind in ("identifier", "image"):
        why = "are made anew for every record" if column.kind == "identifier" else "cannot be a condition"
        raise BadInput(f"where: column {name!r} is an {column.kind}, whose values {why}; leave it out")
    return column


def _missing(column: Any, size: int) -> Shares:
    if not column.missing:
        raise BadInput(f"where: column {column.name!r} is null, but its schema says that it is never missing")
    shares = np.zeros(size)
    shares[-1] = 1
    return shares


def _labels(column: Any, wanted: Any, size: int) -> Shares:
    values = list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    if not values:
        raise BadInput(
            f"where: column {column.name!r}: no record can satisfy an empty list of values; name at least one"
        )
    shares = np.zeros(size)
    for value in values:
        if value is None:
            shares += _missing(column, size)
        else:
            shares[_code(column, value)] = 1
    return np.minimum(shares, 1)


def _code(column: Any, value: Any) -> int:
    word = str(cells.text(value))
    boolean = isinstance(column, Boolean)
    code = cells.TRUTHS.get(word.lower()) if boolean else cells.table_of(column.categories).get(word)
    if code is None:
        rule = "true or false" if boolean else "one of its categories"
        hint = "" if boolean else nearest(str(value), column.categories)
        raise BadInput(f"where: column {column.name!r}: {value!r} is not {rule}{hint}")
    return int(code)


def _range(column: Numeric, wanted: Any, cells: int) -> tuple[Shares, Bins]:
    """The share of each bin and atom that lies within, and the bins cut to it."""
    ends = list(wanted) if isinstance(wanted, list | tuple) else [wanted, wanted]
    bins = bins_of(column, cells)
    if len(ends) != 2:
        _refuse(column, f"needs a value or the two ends of a range, got {len(ends)} values")
    (low, first), (high, last) = (_points(column, bins, end) for end in ends)
    if low > high:
        _refuse(column, f"{ends[0]} is above {ends[1]}; swap them")
    first, last = max(first[1], bins.edges[0]), min(last[0], top(bins))
    if first > last:
        bounds = f"[{column.bounds[0]}, {column.bounds[1]}]"
        _refuse(column, f"none of its possible values within its bounds {bounds} lies in {_shown(wanted)}")
    cut = replace(bins, edges=np.clip(bins.edges, first, last if bins.scale is None else last + 1))
    room = _room(bins)
    lower = bins.edges[: bins.count]
    alone = (first <= lower) & (lower <= last)  # of bins of a single value
    shares = np.where(room > 0, _room(cut) / np.where(room > 0, room, 1), alone)
    shares = np.append(shares, (bins.atoms >= first) & (bins.atoms <= last))
    if not shares.any():
        _refuse(column, f"{_shown(wanted)} has probability zero among real numbers; give a range")
    return shares, cut


def _points(column: Numeric, bins: Bins, end: Any) -> tuple[Any, tuple[Any, Any]]:
    """An end as a number, and the last point of the grid up to it and the first one from it."""
    if isinstance(column, Datetime):
        try:
            value = microseconds(end)
        except (ValueError, OverflowError):
            _refuse(column, f"{end!r} is not ISO 8601 text such as 2020-01-31 or 2020-01-31T08:00:00")
        return value, (value // bins.period, -(-value // bins.period))
    number = isinstance(end, int | float | np.integer | np.floating) and not isinstance(end, bool)
    if not number or not -LARGEST <= end <= LARGEST:
        _refuse(column, f"{end!r} is not a finite number")
    if bins.scale is None:
        return end, (end, end)
    point = round(end * bins.scale, 6) if bins.scale != 1.0 else end  # 0.07 * 100 is 7
    return end, (math.floor(point), math.ceil(point))


def _room(bins: Bins) -> Shares:
    """How many values each bin has: points of the grid that are no atoms, or its length."""
    room = np.diff(bins.edges)
    if bins.scale is not None:
        room = room - np.diff(np.searchsorted(bins.atoms, bins.edges))
    return room[: bins.count].astype(np.float64)


def _shown(wanted: Any) -> str:
    return (
        f"[{wanted[0]}, {wanted[1]}]" if isinstance(wanted, Sequence) and not isinstance(wanted, str) else f"{wanted}"
    )


def _refuse(column: Column, why: str) -> NoReturn:
    raise BadInput(f"where: column {column.name!r}: {why}")
