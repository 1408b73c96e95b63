"""The data dictionary: what is public of each column, in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from synthdp.report import words
from synthdp.report.statement import Statement


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One public fact of a column: a phrase, or a phrase about a list."""

    phrase: str
    values: tuple[str, ...] = ()
    bought: bool = False


def facts(column: Mapping[str, Any], statement: Statement) -> list[Fact]:
    """What is public of a column, in the order of the schema's items, declared ones first."""
    if column["kind"] == "identifier":
        whose = " It says whose record a row is." if column["name"] == statement.unit else ""
        return [Fact(phrase=f"Left out of the model and made anew in the synthetic data.{whose}")]
    found = [
        fact(name, value, bought=source == "bought")
        for source in ("declared", "bought")
        for name, value in column[source].items()
    ]
    if column["kind"] == "boolean":
        found.insert(0, Fact(phrase="true or false"))
    if "missing" not in column["declared"] and "missing" not in column["bought"]:
        found.append(Fact(phrase="never missing"))
    return found


def fact(name: str, value: Any, *, bought: bool) -> Fact:
    """One item of a column's schema in words."""
    match name, value:
        case "bounds", (low, high):
            return Fact(phrase=f"from {words.plain(low)} to {words.plain(high)}", bought=bought)
        case "categories", [*values]:
            noun = "category" if len(values) == 1 else "categories"
            return Fact(phrase=f"{len(values)} {noun}", values=texts(values), bought=bought)
        case "bins", [*values]:
            return Fact(phrase=f"{len(values)} bin edges", values=texts(values), bought=bought)
        case "bins", int():
            return Fact(phrase=f"{value} bins of equal width", bought=bought)
        case "atoms", [*values]:
            return Fact(phrase="values with a bin of their own", values=texts(values), bought=bought)
        case "missing", bool():
            return Fact(phrase="may be missing" if value else "never missing", bought=bought)
        case "other", _:
            return Fact(phrase="unknown values become", values=texts([value]), bought=bought)
        case "decimals", _:
            return Fact(phrase=f"{value} decimal{'' if value == 1 else 's'}", bought=bought)
        case "resolution", _:
            return Fact(phrase=f"precise to the {value}", bought=bought)
        case "observed", _:
            return Fact(phrase="read off the records at no charge", bought=bought)
        case _, [*values]:
            return Fact(phrase=name, values=texts(values), bought=bought)
        case _:
            return Fact(phrase=name, values=texts([value]), bought=bought)


def texts(values: list[Any]) -> tuple[str, ...]:
    """Each value as text; numbers as they were declared, not grouped."""
    return tuple(words.plain(value) for value in values)
