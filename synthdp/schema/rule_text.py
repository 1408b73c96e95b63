"""Rules as people write them, read against the columns that they name. See `rules` for the grammar."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NoReturn, cast

from synthdp.errors import BadInput, listed, nearest
from synthdp.schema.columns import LEARN, Boolean, Categorical, Column, Datetime, Ordinal, iso, microseconds
from synthdp.schema.rules import OPERATORS, Implies, Never, Operator, Order, Rule, Term, Together, Value

FORMS = "{always: ...}, {if: ..., then: ...}, {never: ...}, {together: [...], allowed: [...]} or text such as a <= b"
_SWAPPED = {"=>": ">=", "=<": "<=", "==": "="}  # what people write by mistake: what they mean
_LIMIT = re.compile(r"\s*(<=|>=|<|>|=)\s*(\S.*?)\s*")
_MOST_TEXT = 80


def parse(given: Any, columns: Sequence[Column], names: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of a list of rules, in whatever form each is. Raises `BadInput` that names the rule and the column. `names` are those that
    the schema has for its columns."""
    if not isinstance(given, list | tuple):
        raise BadInput(f"schema: rules must be a list; each item is {FORMS}")
    known = {column.name: column for column in columns}
    found = [_Reader(item, known, names).rule() for item in given]
    twice = next((rule for i, rule in enumerate(found) if rule in found[:i]), None)
    if twice is not None:
        raise BadInput(f"schema: rule {_shown(twice.plain())} is given twice; keep one of them")
    return tuple(found)


class _Reader:
    """Reads one item; keeps what every error must name."""

    def __init__(self, item: Any, columns: Mapping[str, Column], names: Sequence[str]) -> None:
        self.item: Any = item.plain() if isinstance(item, Order | Implies | Never | Together) else item
        self.columns = columns
        self.names = names

    def rule(self) -> Rule:
        if isinstance(self.item, str):
            return self._sentence(self.item)
        keys: set[Any] = set(self.item) if isinstance(self.item, Mapping) else set()
        if keys == {"always"}:
            return Implies(then=self._condition("always"))
        if keys == {"if", "then"}:
            return Implies(given=self._condition("if"), then=self._condition("then"))
        if keys == {"never"}:
            return Never(terms=self._condition("never"))
        if keys != {"together", "allowed"}:
            self._refuse(f"expected {FORMS}")
        return self._together()

    def _sentence(self, text: str) -> Rule:
        """`left op right`: split at the only operator that has a column's name before it."""
        splits = {(text[:at].strip(), op, text[at + len(op) :].strip()) for at, op in _operators(text)}
        found = [split for split in splits if split[0] in self.columns and split[2]]
        if any(self._is_sum(side) for left, _, right in splits for side in (left, right)):
            self._refuse(
                "sums and other arithmetic are not supported: a rule compares a column with one column or one constant. Declare the column "
                "that follows from the others as kind: ignore, and compute it in the synthetic records"
            )
        if not found:
            lefts = sorted({left for left, _, right in splits if left and right}, key=len)
            if not lefts:
                self._refuse("expected a column, one of < <= = >= >, and a column or a constant")
            self._column(lefts[0])
        if len(found) > 1:
            self._refuse("can be read in more than one way, since names of columns contain operators; rename a column")
        left, op, right = found[0]
        if right in self.columns:
            return self._order(left, op, right)
        return Implies(then=tuple(self._limit(self._column(left), op, right)))

    def _is_sum(self, side: str) -> bool:
        """Whether it is arithmetic on columns, and no column's name or category itself."""
        parts = [part.strip() for part in re.split(r"[-+*/]", side.lstrip("= "))]
        labels = {str(value) for column in self.columns.values() for value in getattr(column, "categories", ())}
        named = [part in self.columns for part in parts]
        numbers = [bool(re.fullmatch(r"[0-9.]+", part)) for part in parts]
        return len(parts) > 1 and side not in {*self.columns, *labels} and any(named) and all(map(max, named, numbers))

    def _order(self, left: str, op: Operator, right: str) -> Order:
        a, b = self._column(left), self._column(right)
        if left == right:
            self._refuse(f"column {left!r} is compared with itself")
        if _family(a) != _family(b):
            self._refuse(f"column {left!r} ({a.kind}) and column {right!r} ({b.kind}) cannot be compared")
        if op != "=" and isinstance(a, Categorical | Boolean):
            self._refuse(f"column {left!r} ({a.kind}) has no order; use = or make it ordinal")
        if isinstance(a, Ordinal) and isinstance(b, Ordinal) and a.categories != b.categories:
            self._refuse(
                f"columns {left!r} and {right!r} are ordinals with different categories, so they cannot be compared"
            )
        return Order(left=left, op=op, right=right)

    def _condition(self, key: str) -> tuple[Term, ...]:
        given = self.item[key]
        if not isinstance(given, Mapping) or not given:
            self._refuse(f"{key} must map at least one column to a value, a list of values or inequalities")
        return tuple(term for name, wanted in given.items() for term in self._terms(self._column(name), wanted))

    def _terms(self, column: Column, wanted: Any) -> Iterable[Term]:
        if isinstance(wanted, list | tuple):
            if not wanted:
                self._refuse(f"column {column.name!r}: no row can satisfy an empty list of values; name at least one")
            values = tuple(dict.fromkeys(self._value(column, value) for value in wanted))
            return (Term(column=column.name, op="in", constants=values),)
        categories = getattr(column, "categories", ())
        if isinstance(wanted, str) and not isinstance(column, Categorical | Boolean) and wanted not in categories:
            limits = [_LIMIT.fullmatch(part) for part in wanted.split(" and ")]
            if all(limits):
                return [term for m in limits if m for term in self._limit(column, cast("Operator", m[1]), m[2])]
        return (Term(column=column.name, op="in", constants=(self._value(column, wanted),)),)

    def _limit(self, column: Column, op: Operator, word: str) -> Iterator[Term]:
        self._check_operator(column, op, word)
        value = self._value(column, word if not _is_number(column) else _number(word))
        if op == "=":
            yield Term(column=column.name, op="in", constants=(value,))
        elif isinstance(column, Ordinal):
            yield Term(column=column.name, op="in", constants=self._side(column, op, str(value)))
        elif isinstance(column, Categorical | Boolean):
            self._refuse(f"column {column.name!r} ({column.kind}) has no order; use = or make it ordinal")
        else:
            yield Term(column=column.name, op=op, constants=(value,))

    def _check_operator(self, column: Column, op: Operator, word: str) -> None:
        """Refuse `a => b`, which would otherwise be read as `=` and the value `> b`, unless a category may be so called."""
        meant, value = _SWAPPED.get(op + word[:1]), word[1:].strip()
        given = getattr(column, "categories", ())
        categories = () if isinstance(given, str) else given
        label = isinstance(column, Categorical | Ordinal) and value not in (*categories, *self.columns)
        if meant is not None and word not in categories and not label:
            self._refuse(f"there is no operator {op}{word[0]}; did you mean {column.name} {meant} {value}?")

    def _side(self, column: Ordinal, op: Operator, value: str) -> tuple[str, ...]:
        """The categories on one side of a category: an ordinal's inequality, said without its order."""
        at = column.categories.index(value) + (op in ("<=", ">"))
        found = column.categories[:at] if op in ("<", "<=") else column.categories[at:]
        if not found:
            self._refuse(f"column {column.name!r}: no category is {op} {value!r}")
        return found

    def _together(self) -> Together:
        names, allowed = self.item["together"], self.item["allowed"]
        if not isinstance(names, list | tuple) or len(names) < 2 or any(names.count(name) > 1 for name in names):
            self._refuse("together must list at least two different columns")
        columns = [self._column(name) for name in names]
        rows = allowed if isinstance(allowed, list | tuple) else []
        if not rows or not all(isinstance(row, list | tuple) and len(row) == len(names) for row in rows):
            self._refuse(f"allowed must list combinations of {len(names)} values, one for each column of together")
        found = (tuple(self._value(c, value) for c, value in zip(columns, row, strict=True)) for row in rows)
        return Together(columns=tuple(names), allowed=tuple(dict.fromkeys(found)))

    def _column(self, name: Any) -> Column:
        column = self.columns.get(name) if isinstance(name, str) else None
        if column is None:
            self._refuse(f"{name!r} is not one of the columns{nearest(str(name), self.names)}")
        if column.kind in ("identifier", "image"):
            self._refuse(f"column {name!r} is an {column.kind}, for which no rule can be kept")
        return column

    def _value(self, column: Column, value: Any) -> Value:
        where = f"column {column.name!r} ({column.kind})"
        if isinstance(column, Boolean):
            truth = _truth(value)
            if truth is None:
                self._refuse(f"{where}: {value!r} is not true or false")
            return truth
        if isinstance(column, Datetime):
            try:
                return iso(microseconds(value))
            except (ValueError, OverflowError):
                self._refuse(f"{where}: {self._nothing(value)} ISO 8601 text such as 2020-01-31{self._meant(value)}")
        if isinstance(column, Categorical | Ordinal):
            return self._category(column, where, value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self._refuse(f"{where}: {self._nothing(value)} a finite number{self._meant(value)}")
        return value

    def _meant(self, value: Any) -> str:
        """The column whose name `value` is perhaps meant to be, in a comparison that may name two."""
        return nearest(value, self.names) if isinstance(self.item, str) and isinstance(value, str) else ""

    def _nothing(self, value: Any) -> str:
        return f"{value!r} is neither one of the columns nor" if self._meant(value) else f"{value!r} is not"

    def _category(self, column: Categorical | Ordinal, where: str, value: Any) -> str:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if value is None:
            self._refuse(
                f"{where}: a rule cannot say that a cell is empty; name the categories that it may or may not have"
            )
        if not isinstance(text, str):
            self._refuse(f"{where}: {value!r} must be text; put quotes around it")
        # With `other`, values that are not listed are cells like any other; bought categories always have it.
        tree = column.tree if isinstance(column, Categorical) else None
        if isinstance(column, Categorical) and tree is not None and tree.declared:
            if text not in tree.every and text != column.other:
                self._refuse(f"{where}: {text!r} is neither one of its codes nor above one{nearest(text, tree.nodes)}")
            return text
        free = column.categories == LEARN or getattr(column, "other", None) is not None
        if not free and text not in column.categories:
            meant = nearest(text, column.categories) or f": {listed(column.categories)}"
            self._refuse(f"{where}: {text!r} is not one of its categories{meant}")
        return text

    def _refuse(self, why: str) -> NoReturn:
        raise BadInput(f"schema: rule {_shown(self.item)}: {why}")


def _operators(text: str) -> Iterator[tuple[int, Operator]]:
    """Each place at which an operator stands; of `<=` not the `=` too."""
    at = 0
    while at < len(text):
        op = next((op for op in OPERATORS if text.startswith(op, at)), None)
        if op is not None:
            yield at, op
        at += len(op or " ")


def _family(column: Column) -> Literal["number"] | str:
    return "number" if _is_number(column) else column.kind


def _is_number(column: Column) -> bool:
    return column.kind in ("integer", "continuous")


def _number(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    from synthdp.schema.cells import TRUTHS

    found = TRUTHS.get(str(value).lower())
    return None if found is None else bool(found)


def _shown(item: Any) -> str:
    text = repr(item) if isinstance(item, str) else json.dumps(item, default=str, ensure_ascii=False)
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 4]} ..."
