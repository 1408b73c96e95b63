"""Declared rules: what every record satisfies by its meaning, as frozen values in the conjunctions of a schema.

A schema's `rules:` is a list; each item is one of

    admission <= discharge                                   two columns of an ordered kind (< <= = >= >)
    age >= 18                                                one column against a constant
    {always: {age: ">= 18 and < 65", unit: [icu, ward]}}     every row satisfies all of it
    {if: {sex: M}, then: {pregnant: false}}                  an implication
    {never: {sex: M, pregnant: true}}                        a structural zero: no row satisfies all of it
    {together: [city, postcode], allowed: [[Bonn, 53111]]}   fixed combinations

A condition maps columns to a value, a list of values (one of them must hold) or, for numbers and datetimes, inequalities
joined by `and`; all its columns must hold. A value of a column with a tree stands for all codes below it. Columns win over
constants where a name is both.

A rule is a public fact, declared like bounds: it is in the release, so its constants must not be read off the records.
A missing value never breaks a rule: a row breaks one only if the values that it has do so, whatever the missing ones are
(`together` needs all of its columns).
"""

from dataclasses import dataclass
from typing import Any, Literal

from synthdp.errors import BadInput

Operator = Literal["<", "<=", "=", ">=", ">"]
Value = bool | int | float | str
OPERATORS: tuple[Operator, ...] = ("<=", ">=", "<", ">", "=")  # in the order in which a text is searched for them
MOST_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Term:
    """One column in one of several values (op `in`), or on one side of the only value there is (`<`, `<=`, `>`, `>=`).

    Values are as the column's kind has them: text for categories (ordinals always have op `in`), true or false for
    booleans, numbers, ISO 8601 text for datetimes.
    """

    column: str
    op: Literal["in", "<", "<=", ">", ">="]
    constants: tuple[Value, ...]

    @property
    def text(self) -> str:
        if self.op != "in":
            return f"{self.column} {self.op} {_word(self.constants[0])}"
        if len(self.constants) == 1:
            return f"{self.column} = {_word(self.constants[0])}"
        more = ", ..." if len(self.constants) > MOST_SHOWN else ""
        return f"{self.column} in [{', '.join(_word(value) for value in self.constants[:MOST_SHOWN])}{more}]"


@dataclass(frozen=True, kw_only=True)
class Order:
    """Two columns in order: numbers, datetimes, ordinals of the same categories; `=` for any two of one kind."""

    left: str
    op: Operator
    right: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.left, self.right)

    @property
    def text(self) -> str:
        return f"{self.left} {self.op} {self.right}"

    def plain(self) -> str:
        """The form that a schema file holds, as for every rule."""
        return self.text


@dataclass(frozen=True, kw_only=True)
class Implies:
    """Where all terms of `given` hold, all of `then` do; without any given, in every row."""

    given: tuple[Term, ...] = ()
    then: tuple[Term, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return _columns((*self.given, *self.then))

    @property
    def text(self) -> str:
        return f"if {_all(self.given)} then {_all(self.then)}" if self.given else _all(self.then)

    def plain(self) -> dict[str, Any]:
        then = _condition(self.then)
        return {"if": _condition(self.given), "then": then} if self.given else {"always": then}


@dataclass(frozen=True, kw_only=True)
class Never:
    """No row in which all terms hold: a structural zero."""

    terms: tuple[Term, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return _columns(self.terms)

    @property
    def text(self) -> str:
        return f"never {_all(self.terms)}"

    def plain(self) -> dict[str, Any]:
        return {"never": _condition(self.terms)}


@dataclass(frozen=True, kw_only=True)
class Together:
    """The values of `columns`, where none is missing, are one of the `allowed` combinations."""

    columns: tuple[str, ...]
    allowed: tuple[tuple[Value, ...], ...]

    @property
    def text(self) -> str:
        return f"{', '.join(self.columns)} in {len(self.allowed):,} allowed combination{'s'[: len(self.allowed) > 1]}"

    def plain(self) -> dict[str, Any]:
        return {"together": list(self.columns), "allowed": [list(row) for row in self.allowed]}


Rule = Order | Implies | Never | Together


def rule_places(given: Any, count: int) -> tuple[int, ...]:
    """What `honoured` lists, of so many rules. Raises `BadInput`."""
    whole = isinstance(given, list | tuple) and all(isinstance(i, int) and not isinstance(i, bool) for i in given)
    if not whole or len(set(given)) < len(given) or any(not 0 <= place < count for place in given):
        raise BadInput(
            f"schema: honoured must list positions of rules, from 0 to {count - 1}, each once"
            if count
            else "schema: honoured names rules, but the schema has none; leave it out"
        )
    return tuple(given)


def _columns(terms: tuple[Term, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term.column for term in terms))


def _all(terms: tuple[Term, ...]) -> str:
    return " and ".join(term.text for term in terms)


def _condition(terms: tuple[Term, ...]) -> dict[str, Any]:
    """Column -> value, list of values, or inequalities joined by `and`."""
    found: dict[str, Any] = {}
    for term in terms:
        if term.op == "in":
            found[term.column] = list(term.constants) if len(term.constants) > 1 else term.constants[0]
        else:
            limit = f"{term.op} {_word(term.constants[0])}"
            found[term.column] = f"{found[term.column]} and {limit}" if term.column in found else limit
    return found


def _word(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
