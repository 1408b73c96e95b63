"""statement.json and statement.html: the guarantee for machines, and for the person who must answer for it."""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthdp.errors import BadInput
from synthdp.privacy.events import RECORD
from synthdp.report import meaning, plots, words
from synthdp.report.statement import Statement

FALSE_ALARMS = (0.001, 0.01, 0.1)
WEAK = 0.9  # an attacker who may be right this often is called a weak guarantee
FOLD = 8  # longer lists are folded
TEMPLATES = Path(__file__).parent / "templates"


def write(statement: Statement, out: Path) -> None:
    """Write statement.json and statement.html into the folder `out`, each whole or not at all; older ones are replaced.

    The page is one file: no script, nothing is loaded. Raises `BadInput` where `out` is a file.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file; give a folder for statement.json and statement.html")
    text = to_text(statement)
    page = render(statement)
    out.mkdir(parents=True, exist_ok=True)
    for name, content in (("statement.json", text), ("statement.html", page)):
        draft = out / f".{name}.part"
        draft.write_text(content, encoding="utf-8")
        os.replace(draft, out / name)


def to_text(statement: Statement) -> str:
    """What statement.json holds."""
    return json.dumps(statement.to_json(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def render(statement: Statement) -> str:
    """The page as text. Names and categories are other people's words, so everything is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": words.number,
        "upper_bound": words.upper,
        "percent": words.percent,
        "scientific": words.scientific,
        "one_in": words.one_in,
    }
    plot = plots.epsilon_curve(statement.curve, statement.delta, statement.epsilon)
    return environment.get_template("statement.html.j2").render(
        s=statement,
        infinite=math.isinf(statement.epsilon),
        unit=unit(statement),
        attack=attack(statement),
        factor=factor(statement.epsilon),
        loose_delta=loose_delta(statement),
        events=[(entry.count, words.tell(entry.event)) for entry in statement.events],
        sampler=words.sampler(tuple(entry.event for entry in statement.events)),
        accountants=sorted(statement.epsilons.items(), key=lambda item: (item[1], item[0])),
        about_accountants=words.ACCOUNTANTS,
        curve=sorted(statement.curve),
        plot=Markup(plot),  # noqa: S704 - made by plots.py from numbers and fixed words alone
        columns=[(column, facts(column, statement)) for column in statement.columns],
        bought=any(column["bought"] for column in statement.columns) or statement.declared.get("units") == "learned",
        fold=FOLD,
        versions=rows(statement.provenance),
        settings=rows(statement.settings),
        digest=hashlib.sha256(to_text(statement).encode()).hexdigest(),
        delta_text=repr(statement.delta),
    )


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
        case _, [*values]:
            return Fact(phrase=name, values=texts(values), bought=bought)
        case _:
            return Fact(phrase=name, values=texts([value]), bought=bought)


def texts(values: list[Any]) -> tuple[str, ...]:
    """Each value as text; numbers as they were declared, not grouped."""
    return tuple(words.plain(value) for value in values)


def rows(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str, bool]]:
    """Settings or versions as (name, text, whether it is so long that it is folded); groups within are unfolded."""
    found: list[tuple[str, str, bool]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += rows(value, f"{prefix}{name}.")
        else:
            text = words.number(value)
            found.append((f"{prefix}{name}", text, len(text) > 120))
    return found


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Whom the guarantee protects, as words in a sentence."""

    one: str  # "patient"
    theirs: str  # "a patient’s records"
    patient: bool


def unit(statement: Statement) -> Unit:
    """The unit of privacy: a record, or all records of one patient."""
    if statement.unit == RECORD:
        return Unit(one="record", theirs="a record", patient=False)
    return Unit(one="patient", theirs="a patient’s records", patient=True)


def attack(statement: Statement) -> dict[str, Any]:
    """Bounds on any attacker, from every point of the curve that holds and the promised pair."""
    points = [*statement.curve, (statement.delta, statement.epsilon)]
    accuracy = meaning.accuracy(points)
    return {
        "accuracy": accuracy,
        "advantage": meaning.advantage(points),
        "weak": accuracy >= WEAK,
        "detection": [(rate, meaning.detection(points, rate)) for rate in FALSE_ALARMS],
    }


def factor(epsilon: float) -> str:
    """e^epsilon rounded up, or that it is beyond meaning."""
    return words.upper(math.exp(epsilon), 3) if epsilon < math.log(1e6) else "more than a million"


def loose_delta(statement: Statement) -> bool:
    """Delta is no promise where it is not below one over the declared number of units."""
    units = statement.declared.get("units")
    return isinstance(units, int) and statement.delta * units >= 1
