"""statement.json and statement.html: the guarantee for machines, and for the person who must answer for it."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthdp import pages
from synthdp.accounting import COMPARED
from synthdp.errors import BadInput, closed
from synthdp.ledger.events import Capped, Gaussian, Threshold
from synthdp.report import fitness_words, information_loss, plots, promise, words
from synthdp.report.folder import Verified
from synthdp.report.hazards import hazards
from synthdp.report.information_loss import FITNESS, MODEL, Counted
from synthdp.report.statement import CLASSIFIER, Statement, read_off
from synthdp.schema.learned import unfound

# ---- The data dictionary: what is public of each column, in words.


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
        fact(name, value, bought=source == "bought", decimals=column["declared"].get("decimals"))
        for source in ("declared", "bought")
        for name, value in column[source].items()
    ]
    if column["kind"] == "boolean":
        found.insert(0, Fact(phrase="true or false"))
    if "missing" not in column["declared"] and "missing" not in column["bought"]:
        found.append(Fact(phrase="never missing"))
    return found


def fact(name: str, value: Any, *, bought: bool, decimals: int | None = None) -> Fact:
    """One item of a column's schema in words; `decimals` are the column's."""
    match name, value:
        case "bounds", (low, high):
            if bought and low == high:
                return Fact(phrase=f"only {words.plain(low)}: no other value stood clear of the noise", bought=bought)
            hidden = "not learned: noise hid the bounds, so the widest possible ones stand, "
            hidden *= bought and unfound(low, high, decimals)
            return Fact(phrase=f"{hidden}from {words.plain(low)} to {words.plain(high)}", bought=bought)
        case "categories", [value] if bought:
            phrase = "no category was learned: noise hid them all, and every value counts as"
            return Fact(phrase=phrase, values=texts([value]), bought=True)
        case "categories", [*values]:
            noun = "category" if len(values) == 1 else "categories"
            return Fact(phrase=f"{len(values)} {noun}", values=texts(values), bought=bought)
        case "bins", [*values]:
            return Fact(phrase=f"{len(values)} bin edges", values=texts(values), bought=bought)
        case "bins", int():
            return Fact(phrase="one bin" if value == 1 else f"{value} bins of equal width", bought=bought)
        case "atoms", [*values]:
            return Fact(phrase="values with a bin of their own", values=texts(values), bought=bought)
        case "tree", {**tree}:
            codes: Any = tree.get("codes", "learn")
            listed = "" if isinstance(codes, str) else f" of {len(codes):,} declared codes"
            drawn = "; synthetic codes are drawn uniformly below the category that was kept" * bool(tree.get("leaves"))
            return Fact(phrase=f"a tree{listed}{drawn}", bought=bought)
        case "missing", bool():
            return Fact(phrase="may be missing" if value else "never missing", bought=bought)
        case "other", _:
            return Fact(phrase="unknown values become", values=texts([value]), bought=bought)
        case "decimals", _:
            return Fact(phrase=f"{value} decimal{'' if value == 1 else 's'}", bought=bought)
        case "step", _:
            return Fact(phrase=f"in steps of {value}", bought=bought)
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


# ---- The questions: what was asked in the same way is told once, with each asking and the columns that it counted.


@dataclass(frozen=True, kw_only=True)
class Asking:
    """A question of one size of noise, how often it was asked, and the tables that it counted, by the number of their columns."""

    times: int
    parameters: tuple[tuple[str, str], ...]
    counted: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What was asked in the same way, whatever its noise."""

    title: str
    sentence: str
    inner: tuple[words.Told, ...]
    askings: tuple[Asking, ...]


def questions(statement: Statement) -> list[Question]:
    """Every event that touched the records."""
    found: dict[tuple[Any, ...], list[Asking]] = {}
    learned, buying = tuple(promise.bought(statement)), promise.asked_for(statement)
    noises = {entry.event.noise for entry in statement.events if isinstance(entry.event, Gaussian)}
    for entry in statement.events:
        told, event = words.tell(entry.event), entry.event
        held = [
            each
            for each in statement.counted or ()
            if (isinstance(event, Gaussian) and each.noise == event.noise)
            or (isinstance(event, Capped) and each.noise not in noises)
        ]
        learnt = learned if statement.counted and not held and isinstance(event, Gaussian | Threshold) else ()
        if learnt and len(buying) >= entry.count:  # purchases come first, and one after the other
            learnt, buying = tuple(dict.fromkeys(buying[: entry.count])), buying[entry.count :]
        listed = (("to learn facts of", learnt),) if learnt else tuple(_counted(held))
        asking = Asking(times=entry.count, parameters=told.parameters, counted=listed)
        found.setdefault((told.title, told.sentence, told.inner), []).append(asking)
    return [
        Question(title=title, sentence=sentence, inner=inner, askings=tuple(askings))
        for (title, sentence, inner), askings in found.items()
    ]


def _counted(held: Sequence[Counted]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What tables were counted, in words, and their columns."""
    for purpose, ending in ((MODEL, ""), (FITNESS, ", for the figures of fitness")):
        tables = list(dict.fromkeys(table for each in held if each.purpose == purpose for table in each.tables))
        for ways in sorted({len(table) for table in tables}):
            these = tuple(" × ".join(table) for table in tables if len(table) == ways)
            what = "column by itself" if ways == 1 else f"table of {ways} columns"
            if len(these) > 1:
                what = "columns, each by itself" if ways == 1 else f"tables of {ways} columns each"
            yield f"{len(these)} {what}{ending}", these


FOLD = 8  # longer lists are folded
TEMPLATES = Path(__file__).parent / "templates"


def write(statement: Statement, out: Path, *, verified: Verified | None = None, pdf: bool = False) -> None:
    """Write statement.json, statement.html and, if asked, statement.pdf into the folder `out`; older ones are replaced.

    Each appears whole or not at all. The page is one file that loads nothing; its only script sorts tables. It says what of the
    statement was `verified`. Raises `BadInput` where `out` is a file, or where a PDF is asked for and no browser can print one.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file; give a folder for statement.json and statement.html")
    texts = {"statement.json": to_text(statement), "statement.html": render(statement, verified)}
    pages.write(out, texts, "statement.html" if pdf else None)


def to_text(statement: Statement) -> str:
    """What statement.json holds."""
    return json.dumps(statement.to_json(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def render(statement: Statement, verified: Verified | None = None) -> str:
    """The page as text. Names and categories are other people's words, so everything is escaped."""
    from markupsafe import Markup

    named = ("number", "percent", "at_least", "scientific", "one_in")
    filters: dict[str, Any] = {name: getattr(words, name) for name in named}
    filters |= {"upper_bound": words.upper, "closed": closed, "between": fitness_words.between}
    environment = pages.environment(TEMPLATES, filters=filters)
    plot = plots.epsilon_curve(statement.curve, statement.delta, statement.epsilon)
    return environment.get_template("statement.html.j2").render(
        s=statement,
        classifier=statement.generator == CLASSIFIER,
        verified=verified,
        script=Markup(pages.SORT),  # noqa: S704 - a file of this package
        policy=Markup(pages.policy(pages.SORT)),  # noqa: S704 - fixed words and a hash
        infinite=math.isinf(statement.epsilon),
        unit=promise.unit(statement),
        attack=promise.attack(statement),
        factor=promise.factor(statement.epsilon),
        loose_delta=promise.loose_delta(statement),
        sharing=promise.sharing(statement),
        hazards=(found := hazards(statement)),
        weak=[hazard for hazard in found if hazard.finding == "weak point"],
        lineage=promise.lineage(statement),
        questions=questions(statement),
        sampler=words.sampler(tuple(entry.event for entry in statement.events)),
        accountants=sorted(statement.epsilons.items(), key=lambda item: (item[0] in COMPARED, item[1], item[0])),
        older_theorems=COMPARED,
        about_accountants=words.ACCOUNTANTS,
        curve=sorted(statement.curve),
        trade_off=Markup(plots.trade_off(promise.points(statement))),  # noqa: S704 - as the other
        plot=Markup(plot),  # noqa: S704 - made by plots.py from numbers and fixed words alone
        columns=[(column, facts(column, statement)) for column in statement.columns],
        bought=bool(promise.bought(statement)),
        seen=read_off(statement.columns),
        reading=_written(statement.declared.get("reading", {})),
        lost=list(information_loss.sentences(statement)),
        rows_below=information_loss.rows_below(statement),
        fits=[] if statement.fitness is None else fitness_words.told(statement.fitness),
        fold=FOLD,
        versions=rows(statement.provenance),
        settings=rows(statement.settings),
        digest=hashlib.sha256(to_text(statement).encode()).hexdigest(),
        delta_text=repr(statement.delta),
    )


def _written(reading: Mapping[str, Any]) -> list[str]:
    """How files are written, a text for the file and one for each column that is written otherwise."""
    columns = reading.get("columns", {})
    whole = {name: value for name, value in reading.items() if name != "columns"}
    return [*filter(None, [_said(whole)]), *(f"{name}: {_said(each)}" for name, each in columns.items())]


def _said(coding: Mapping[str, Any]) -> str:
    """Signs stand in quotation marks, so that a comma is not taken for one of the list."""
    found = []
    for name, value in coding.items():
        held = value if isinstance(value, list) else [value]
        if isinstance(value, Mapping):
            held = [f"{code} = {label}" for code, label in value.items()]
        texts = [words.number(each) if isinstance(each, bool | int) else f"\u201c{each}\u201d" for each in held]
        found.append(f"{name} {' '.join(texts)}")
    return ", ".join(found)


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
