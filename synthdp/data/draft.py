"""A first schema.yaml, drafted by looking at a table or at pictures: a form for the data steward to fill in, not a public schema."""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.data import cells, yamlfile
from synthdp.data.columns import MAX_PIXELS, iso

if TYPE_CHECKING:
    from synthdp.data.images.look import Seen

    Series = pd.Series[Any]

MARK = "# REVIEW"
WHOSE = {"id", "identifier", "mrn", "participant", "patient", "person", "pseudonym", "ssn", "subject", "uid", "uuid"}
LISTED = 30  # categories are listed up to here; more are left to be learned
HEAD = """\
# DRAFT, READ OFF THE DATA in {file}. Not a public schema yet, and not to be shared: every line below says
# something about the records. Replace each by what is public knowledge (a code book, a form, a round number), or by
# `learn` to buy it with budget, and take its REVIEW mark away. A bound or category that stays as drafted is treated as
# known to everyone, and the guarantee does not cover it.
"""
WHY = {
    "unit": "name the patient column if a person may have several records, and set max_records_per_unit",
    "units": "a public number or estimate of units, or learn",
    "targets": "the columns that users will predict, if any",
    "declared_by": "who declares these facts public",
    "identifier": "by its name or its values it says whose record it is: dropped, and made anew. Is it the unit?",
    "categorical": "list all that may occur, from the code book; or learn",
    "ordinal": "list all that may occur, lowest first",
    "boolean": "true or false?",
    "integer": "widest plausible values, not those of the records; or learn",
    "continuous": "widest plausible values, not those of the records; or learn",
    "datetime": "first and last possible date; or learn",
    "missing": "may cells be empty?",
    "height": "pixels; fewer are learned with less noise, and resize: fit averages",
    "width": "pixels",
    "channels": "1 grey, 3 colour",
    "window": "raw intensities that become black and white: public ones, not those of the records",
    "resize": "none refuses other sizes; fit averages or interpolates to this one",
}


def draft(frame: pd.DataFrame, path: str | Path, pictures: "Seen | None" = None) -> str:
    """YAML text that loads as a `Schema`, each line marked for review. `path` is where the frame came from, `pictures` what
    was seen of pictures beside it.

    Looks at the records, and so is for the steward's eyes only, as its first lines say. Kinds are guessed, bounds rounded
    outward, categories listed where there are at most 30, else left to learn. Nothing is guessed about unit and targets.
    """
    lines = [HEAD.format(file=Path(path).name)]
    for key, value in (("name", Path(path).name.split(".")[0]), ("unit", None), ("units", "learn")):
        lines.append(_line(0, key, value, WHY.get(key, "a name for the table")))
    lines += [_line(0, "targets", [], WHY["targets"]), _line(0, "declared_by", None, WHY["declared_by"])]
    lines.append(f"columns:  {MARK}: are these all columns, and are they all needed?")
    guesses = {} if pictures is None else {pictures.name: _picture(pictures)}
    guesses |= {name: _guess(frame[name]) for name in frame.columns}
    if pictures is not None:
        guesses |= {name: _label(frame[name]) for name, guess in guesses.items() if guess["kind"] == "integer"}
    if all(guess["kind"] == "identifier" for guess in guesses.values()):  # a schema needs a column to model
        guesses[frame.columns[-1]] = {"kind": "categorical", "categories": "learn"}
    for name, column in guesses.items():
        why = WHY[column["kind"]] if column["kind"] != "image" or pictures is None else _seen(pictures)
        lines.append(f"  {_scalar(str(name))}:  {MARK}: {why}")
        lines += [_line(4, key, value, WHY.get(key, "guessed")) for key, value in column.items()]
    return "\n".join(lines) + "\n"


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


def _seen(pictures: "Seen") -> str:
    headers = (
        "; a column named as a DICOM keyword, such as PatientID, is read from the headers" if pictures.tagged else ""
    )
    return f"pictures; what follows was read off {pictures.looked} of {pictures.count}{headers}"


def _line(indent: int, key: str, value: Any, why: str) -> str:
    return f"{' ' * indent}{key}: {_scalar(value)}  {MARK}: {why}"


def _scalar(value: Any) -> str:
    """A value as YAML on one line."""
    text = yamlfile.dump([value], width=math.inf).strip()
    return text[1:-1] if text.startswith("[") and not isinstance(value, list) else text.removeprefix("- ")


def _guess(series: "Series") -> dict[str, Any]:
    held = series.dropna()
    column = _kind(series, held)
    if len(held) < len(series) and column["kind"] != "identifier":
        column["missing"] = True
    return column


def _kind(series: "Series", held: "Series") -> dict[str, Any]:
    texts = cells.texts(held)
    distinct = sorted({text for text in texts if text is not None})
    if distinct and all(text.lower() in cells.TRUTHS for text in distinct) and len(distinct) <= 2:
        return {"kind": "boolean"}
    if len(distinct) > 2 and _names_somebody(series.name):
        return {"kind": "identifier"}
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype) and len(held):
        return _numeric(held, len(distinct))
    if isinstance(series.dtype, pd.CategoricalDtype):
        ordered = "ordinal" if series.cat.ordered else "categorical"
        listed = [cells.text(category) for category in series.cat.categories]
        return {"kind": ordered, "categories": listed} if listed else {"kind": "categorical", "categories": "learn"}
    read = cells.instants(held)
    if len(held) and not read.wrong.any():
        return _dated(read.cells)
    if len(distinct) > LISTED and len(distinct) > 0.9 * len(held):
        return {"kind": "identifier"}
    return {"kind": "categorical", "categories": distinct if 0 < len(distinct) <= LISTED else "learn"}


def _names_somebody(name: Any) -> bool:
    """Whether a column is called as those are that say whose record it is: its values are no categories to list."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name)).lower())
    return bool(words) and words[-1] in WHOSE


def _numeric(held: "Series", distinct: int) -> dict[str, Any]:
    values = cells.numbers(held).cells
    values = values[np.isfinite(values)]
    if not len(values) or np.abs(values).max() > 1e15:
        return {"kind": "continuous", "bounds": "learn"}
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
    if value == 0:
        return 0.0
    step = 10.0 ** math.floor(math.log10(abs(value))) / 2
    rounded = math.floor(value / step) * step
    return float(f"{rounded:.12g}") + 0.0  # never -0.0


def _dated(instants: NDArray[Any]) -> dict[str, Any]:
    day = 86_400_000_000
    whole = bool((instants % day == 0).all())
    first, last = iso(int(instants.min()))[:4], iso(int(instants.max()))[:4]
    bounds = [f"{first}-01-01", f"{last}-12-31" if whole else f"{last}-12-31T23:59:59"]
    return {"kind": "datetime", "bounds": bounds, "resolution": "day" if whole else "second"}
