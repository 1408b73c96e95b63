"""A first schema.yaml, drafted by looking at a table or at pictures: kinds for the data steward to confirm, and `learn` for all else."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.schema import cells, yamlfile
from synthdp.schema.columns import LEARN, MAX_PIXELS, iso, microseconds
from synthdp.schema.file_coding import TODO

if TYPE_CHECKING:
    from synthdp.images.first_look import Seen
    from synthdp.sets.dialect import Found

    Series = pd.Series[Any]

WHOSE = {"id", "identifier", "mrn", "participant", "patient", "person", "pseudonym", "ssn", "subject", "uid", "uuid"}
TREES = {  # the form of codes -> the beginnings that stand for chapters and groups
    r"[A-Z][0-9]{2}[A-Z]{2}[0-9]{2}": [1, 3, 4, 5],  # ATC
    r"[A-Z][0-9][0-9A-Z](?:\.?[0-9A-Z]{1,4})?": [1, 3],  # ICD-10
}
ALIKE = 0.95  # of the distinct codes
CALENDAR = (microseconds("0001-01-01"), microseconds("9999-12-31T23:59:59"))
NAMES = 0.5  # of the records: texts of more different values name somebody, who may have several records
LISTED = 30  # categories are listed up to here
HEAD = """\
# DRAFT of a schema for {file}: what may be known to everyone about these records.
# The form was guessed from the cells: how the file is written, the kinds of the columns, the resolution of dates, the size of
# pictures. Nothing else here was read off them, unless the file's value labels were. What stays at `learn` is bought with a part of
# the budget. What you declare instead, from a code book, a form or a round number, costs nothing and is not protected.
#
# 1. Go through `reading`, where it is there, and the columns. Where one is as you declare it, delete its line `review: true`.
# 2. If a person may have several records, name in `unit` the column that tells whose they are.
# 3. Say in `declared_by` who stands for this. Until 1 and 3 are done, `synthdp fit` refuses this file.
"""
SEEN = """\
# INTERNAL, not to be shared: what the columns of {file} were seen to hold, to compare with public knowledge.
# An entry that is copied from here into the schema keeps its mark `observed: true`. Its facts were read off the records at no
# charge: a release made with them says so, and that it is not to be shared.
"""
WHY = {
    "name": "of the table; a release shows it",
    "declared_by": 'such as "A. Meier, data protection office, May 2026"',
    "unit": "the column that says whose record it is; then max_records_per_unit too",
    "units": "or a public number or estimate of records, or of persons where there is a unit",
    "targets": "the columns that users will predict",
    "columns": "are these all, and are they all needed?",
    "categories": "or all that may occur, from the code book, such as [a, b, other]",
    "tree": "rare codes count under these beginnings of theirs; from a list: {file: codes.csv, column: code, parent: block}",
    "bounds": "or the least and the largest plausible value, such as [0, 120]",
    "missing": "may cells be empty? If not, delete this line",
    "resolution": "or day, hour, minute, second, microsecond",
    "height": "of most pictures; fewer pixels are learned with less noise, and resize: fit averages",
    "window": "raw intensities that become black and white, from the protocol, such as [-1000, 400]",
    "resize": "none refuses other sizes; fit averages or interpolates to this one",
    "reading": "how the file is written; synthetic records are written so too",
    "review": "delete this line when the column is as you declare it",
}
WHY_READ = {
    "strip": "the space around cells is no part of them",
    "columns": "missing: texts that say so, and the first is what synthetic records have; words: for false and for true",
}
KINDS = {
    "ignore": "left out, as free text is; it cannot be learned",
    "identifier": "says whose record it is: dropped, and made anew. Is it the unit?",
    "categorical": "ordinal, if the categories have an order",
    "integer": "whole numbers, or categorical if they are codes",
    "continuous": "with `decimals` where the numbers are rounded",
}


TIMES = "times of day have no kind: store minutes since midnight as integers, bounds [0, 1439], to keep them"


class Draft(NamedTuple):
    """Two texts: `schema`, which holds no fact of the records but the kinds of their columns, and `seen`, which holds such facts."""

    schema: str
    seen: str


LABELLED = (
    "from the value labels of the file. Where a program made these of the cells (encode, AUTORECODE, factors), they are facts of the "
    "records: take them from a code book, or add observed: true"
)
CODINGS = {"date": ("datetime",), "latest": ("datetime",), "words": ("boolean",), "decimal": ("integer", "continuous")}
CODINGS["labels"] = ("categorical", "ordinal")
CODINGS["places"] = CODINGS["decimal"]  # which kinds have what of a column's coding


def draft(frame: pd.DataFrame, path: str | Path, pictures: "Seen | None" = None, found: "Found | None" = None) -> Draft:
    """YAML that loads as a `Schema` to review and to declare, and YAML of what was seen, for the steward's eyes only.

    `path` is where the frame came from, `pictures` what was seen of pictures beside it. Kinds are guessed and marked for review (with
    them the resolution of instants, and the size of pictures); bounds, categories and the number of units are left to learn, cells may
    be missing. `found` is how a CSV file is written. Nothing is guessed about unit and targets. What was seen has bounds rounded
    outward and at most 30 categories.
    """
    guesses = {} if pictures is None else {pictures.name: _picture(pictures)}
    guesses |= {name: _guess(frame[name]) for name in frame.columns}
    if pictures is not None:
        guesses |= {name: _label(frame[name]) for name, guess in guesses.items() if guess["kind"] == "integer"}
    for column, resolution in ({} if found is None else found.resolutions).items():
        if guesses[column].get("resolution") == "second":
            guesses[column]["resolution"] = resolution
    places = (
        {} if found is None or found.reading is None else {name: each.places for name, each in found.reading.columns}
    )
    if found is not None:
        guesses |= {name: {"kind": "categorical"} for name in found.categories}
    if all(guess["kind"] in ("identifier", "ignore") for guess in guesses.values()):  # a schema needs a column to model
        guesses[frame.columns[-1]] = {"kind": "categorical", "categories": LEARN}
    file, name = Path(path).name, Path(path).name.split(".")[0]
    lines = [HEAD.format(file=file)]
    top: dict[str, Any] = {"name": name, "declared_by": None, "unit": None, "units": LEARN, "targets": []}
    lines += [_line(0, key, value, WHY[key]) for key, value in top.items()]
    if found is not None and found.reading is not None:
        lines += _written(found, {column: guess["kind"] for column, guess in guesses.items()})
    lines.append(f"columns:  # {WHY['columns']}")
    for column, guess in guesses.items():
        lines.append(f"  {_scalar(str(column))}:")
        entry = _proposed(guess)
        if found is not None and column in found.categories:
            kind = "ordinal" if column in found.ordered else "categorical"
            entry = {**entry, "kind": kind, "categories": list(found.categories[column])}
        decimals = places.get(column, guess.get("decimals")) if found is not None else None
        if entry["kind"] == "continuous" and decimals is not None:
            entry = {**entry, "decimals": decimals, "review": entry.pop("review")}
        labelled = found is not None and column in found.categories
        why = {key: _why(key, entry["kind"], pictures) for key in entry} | (
            {"categories": LABELLED} if labelled else {}
        )
        if _are_times(frame.get(column)):
            why["kind"] = TIMES
        lines += [_line(4, key, value, why[key]) for key, value in entry.items()]
    seen = {
        str(column): {**guess, **({"observed": True} if _read_off(guess) else {})}
        for column, guess in guesses.items()
        if len(guess) > 1
    }
    head = SEEN.format(file=file)
    if pictures is not None:
        head += f"# Of the pictures, {pictures.looked} of {pictures.count} were looked at.\n"
    return Draft("\n".join(lines) + "\n", head + yamlfile.dump({"columns": seen}, width=math.inf))


def _written(found: "Found", kinds: dict[str, str]) -> list[str]:
    """How the file is written, with what is left open for the steward."""
    reading = {} if found.reading is None else found.reading.to_dict()
    review = reading.pop("review", True)
    codings, columns = reading.pop("columns", {}), {}
    for name, kind in kinds.items():
        each = {**codings.get(name, {}), **dict.fromkeys(found.open.get(name, ()), TODO)}
        columns[name] = {
            key: item for key, item in each.items() if kind in CODINGS.get(key, (kind,)) and kind != "ignore"
        }
    lines = [f"reading:  # {WHY['reading']}"]
    lines += [_line(2, key, value, WHY_READ.get(key, "")) for key, value in reading.items()]
    if any(columns.values()):
        lines.append(f"  columns:  # {WHY_READ['columns']}")
    for name, each in columns.items():
        why = "; ".join(f"{key} is {text}" for key, text in found.open.get(name, {}).items() if key in each)
        if each:
            shown = ", ".join(f"{key}: {_scalar(item)}" for key, item in each.items())
            lines.append(f"    {_scalar(name)}: {{{shown}}}{why and f'  # {TODO}: {why}'}")
    return [*lines, _line(2, "review", review, "delete this line when the file is as it says")]


def _read_off(guess: dict[str, Any]) -> bool:
    """Whether a fact in it is the records': neither its kind nor an item that is left to learn."""
    return any(value != LEARN for key, value in guess.items() if key not in ("kind", "tree"))


def _proposed(guess: dict[str, Any]) -> dict[str, Any]:
    """What a draft says of a column: what kind it is, and no value of a record."""
    kind = "categorical" if guess["kind"] == "ordinal" else guess["kind"]
    column: dict[str, Any] = {"kind": kind}
    if kind == "categorical":
        column["categories"] = LEARN
    elif kind in ("integer", "continuous", "datetime"):
        column["bounds"] = LEARN
    kept = ("tree", "resolution", "height", "width", "channels", "resize")
    column |= {key: value for key, value in guess.items() if key in kept}
    if "window" in guess:
        column["window"] = None
    if kind not in ("identifier", "ignore", "image"):
        column["missing"] = True
    return {**column, "review": True}


def _why(key: str, kind: str, pictures: "Seen | None") -> str:
    if key == "kind":
        return _tags(pictures) if kind == "image" and pictures is not None else KINDS.get(kind, "")
    if (kind, key) == ("datetime", "bounds"):
        return "or the first and the last possible day, such as [2020-01-01, 2025-12-31]"
    return WHY.get(key, "")


def _picture(seen: "Seen") -> dict[str, Any]:
    """The commonest size, halved until a schema can hold it."""
    height, width, channels = seen.size
    while height * width * channels > MAX_PIXELS:
        height, width = max(1, height // 2), max(1, width // 2)
    found: dict[str, Any] = {"kind": "image", "height": height, "width": width, "channels": channels}
    if seen.span is not None:
        low, high = outward(seen.span[0]), 0.0 - outward(-seen.span[1])
        found["window"] = [low, high if high > low else low + 1]
    return {**found, "resize": "none" if seen.same and (height, width) == seen.size[:2] else "fit"}


def _label(series: "Series") -> dict[str, Any]:
    """Beside pictures few whole numbers are classes."""
    values = sorted({int(value) for value in series.dropna()})
    if len(values) > LISTED:
        return _guess(series)
    lacking: dict[str, Any] = {"missing": True} if series.isna().any() else {}
    return {"kind": "categorical", "categories": [str(value) for value in values], **lacking}


def _tags(pictures: "Seen") -> str:
    return "a column named as a DICOM keyword, such as PatientID, is read from the headers" if pictures.tagged else ""


def _line(indent: int, key: str, value: Any, why: str) -> str:
    text = "" if value is None else f" {_scalar(value)}"
    return f"{' ' * indent}{key}:{text}{why and f'  # {why}'}"


def _scalar(value: Any) -> str:
    """A value as YAML on one line."""
    text = yamlfile.dump([value], width=math.inf).strip()
    if isinstance(value, dict) and not text.removeprefix("- ").startswith("{"):
        return f"{{{text.removeprefix('- ')}}}"
    return text[1:-1] if text.startswith("[") and not isinstance(value, list) else text.removeprefix("- ")


def _guess(series: "Series") -> dict[str, Any]:
    held = series.dropna()
    column = _kind(series, held)
    if len(held) < len(series) and column["kind"] not in ("identifier", "ignore"):
        column["missing"] = True
    return column


def _kind(series: "Series", held: "Series") -> dict[str, Any]:
    texts = cells.texts(held)
    distinct = sorted({text for text in texts if text is not None})
    if distinct and all(text.lower() in cells.TRUTHS for text in distinct) and len(distinct) <= 2:
        return {"kind": "boolean"}
    if len(distinct) > 2 and names_somebody(series.name):
        return {"kind": "identifier"}
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype) and len(held):
        return _numeric(held, len(distinct))
    if isinstance(series.dtype, pd.CategoricalDtype):
        ordered = "ordinal" if series.cat.ordered else "categorical"
        listed = [cells.text(category) for category in series.cat.categories]
        return {"kind": ordered, "categories": listed} if listed else {"kind": "categorical", "categories": LEARN}
    read = cells.instants(held)
    if len(held) and not read.wrong.any():
        return _dated(read.cells)
    if _are_times(held) or (len(distinct) > LISTED and _is_prose(distinct)):
        return {"kind": "ignore"}
    if len(distinct) > LISTED and len(distinct) > NAMES * len(held) and not _tree(distinct):
        return {"kind": "identifier"}
    if not 0 < len(distinct) <= LISTED:
        return {"kind": "categorical", "categories": LEARN, **_tree(distinct)}
    return {"kind": "categorical", "categories": distinct}


def _tree(codes: list[str]) -> dict[str, Any]:
    """The tree above codes that look like those of a list that everybody has, and come from several of its chapters."""
    for form, prefix in TREES.items():
        if len({code[:1] for code in codes}) > 1 and sum(
            re.fullmatch(form, code) is not None for code in codes
        ) >= ALIKE * len(codes):
            return {"tree": {"prefix": prefix}}
    return {}


def _are_times(series: "Series | None") -> bool:
    """Whether all values of a column are times of day."""
    texts = [] if series is None or pd.api.types.is_numeric_dtype(series.dtype) else cells.texts(series.dropna())
    return bool(texts) and all(re.fullmatch(cells.TIME, text or "") is not None for text in texts)


def _is_prose(texts: list[str]) -> bool:
    """Whether texts are sentences rather than codes or names."""
    return sum(len(text.split()) for text in texts) >= 4 * len(texts) and sum(map(len, texts)) >= 20 * len(texts)


def names_somebody(name: Any) -> bool:
    """Whether a column is called as those are that say whose record it is: its values are no categories to list."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name)).lower())
    return bool(words) and words[-1] in WHOSE


def _numeric(held: "Series", distinct: int) -> dict[str, Any]:
    values = cells.numbers(held).cells
    values = values[np.isfinite(values)]
    if not len(values) or np.abs(values).max() > 1e15:
        return {"kind": "continuous", "bounds": LEARN}
    if bool((values == np.rint(values)).all()):
        if distinct > LISTED and distinct == len(held) and values.min() > 0:
            return {"kind": "identifier"}
        low, high = outward(float(values.min())), 0.0 - outward(-float(values.max()))
        return {"kind": "integer", "bounds": [int(low), int(high)], **_atoms(values, int)}
    low, high = outward(float(values.min())), 0.0 - outward(-float(values.max()))
    found: dict[str, Any] = {"kind": "continuous", "bounds": [low, high], **_atoms(values, float)}
    decimals = next((d for d in range(1, 7) if np.allclose(values, np.round(values, d), rtol=0, atol=1e-9)), None)
    return found if decimals is None else {**found, "decimals": decimals}


def _atoms(values: NDArray[Any], kind: type) -> dict[str, Any]:
    """Zero gets a bin of its own where a tenth of the records hold it and there are many other values."""
    many = len(np.unique(values)) > LISTED
    return {"atoms": [kind(0)]} if many and np.mean(values == 0) > 0.1 else {}


def outward(value: float) -> float:
    """The next lower number with one significant digit and a half (…, 5, 10, 15, 20, …): round, so less of a record."""
    if abs(value) < 1e-300:  # below, the step itself would be zero
        return -1e-300 if value < 0 else 0.0
    step = 10.0 ** math.floor(math.log10(abs(value))) / 2
    rounded = math.floor(value / step) * step
    return float(f"{rounded:.12g}") + 0.0  # never -0.0


def _dated(instants: NDArray[Any]) -> dict[str, Any]:
    day = 86_400_000_000
    whole = bool((instants % day == 0).all())
    # A table may hold instants beyond the years 1 to 9999, for which Python has no word.
    first, last = (iso(int(end))[:4] for end in np.clip([instants.min(), instants.max()], *CALENDAR))
    bounds = [f"{first}-01-01", f"{last}-12-31" if whole else f"{last}-12-31T23:59:59"]
    return {"kind": "datetime", "bounds": bounds, "resolution": "day" if whole else "second"}
