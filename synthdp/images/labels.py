"""Labels beside pictures, as cells of a frame: what an array of numbers, text or dates says of a column."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.schema import cells
from synthdp.schema.columns import Boolean, Categorical, Column, Continuous, Datetime, Identifier, Integer, Ordinal

if TYPE_CHECKING:
    Series = pd.Series[Any]

TEXTS = Categorical | Ordinal | Identifier


def typed(values: NDArray[Any], column: Column) -> "Series":
    """The cells of a column: text for categories and identifiers, else numbers, truth values and dates as far as they are.

    Empty text (that is no category), NaN and NaT are missing. What does not fit is left to the pre-check.
    """
    if values.dtype.kind in "UO" or isinstance(column, TEXTS):
        unique, places = pd.unique(pd.Series(values)), pd.factorize(pd.Series(values))[0]
        known = getattr(column, "categories", ())
        texts = [cells.text(value) for value in unique if not pd.isna(value)]
        found = [None if text == "" and text not in known else text for text in texts]
        held = pd.Series([*found, None], dtype="str").take(places).reset_index(drop=True)
        return _numbers(held) if values.dtype.kind == "O" and isinstance(column, Integer | Continuous) else held
    if values.dtype.kind == "M":
        return pd.Series(values.astype("datetime64[us]"))
    if values.dtype.kind == "f" and isinstance(column, Boolean | Integer):
        return _whole(values, column)
    return pd.Series(values)


def plain(series: "Series", column: Column) -> NDArray[Any]:
    """The inverse of `typed`: an array without objects. Missing is empty text, NaN or NaT."""
    if isinstance(column, TEXTS):
        texts = ["" if text is None else text for text in cells.texts(series)]
        return np.array(texts, dtype=np.str_) if texts else np.empty(0, "<U1")
    try:
        if isinstance(column, Datetime):
            return series.to_numpy("datetime64[us]")
        if isinstance(column, Continuous) or column.missing:  # type: ignore[union-attr]
            return series.to_numpy(np.float64, na_value=np.nan)
        return series.to_numpy(np.bool_ if isinstance(column, Boolean) else np.int64)
    except (TypeError, ValueError):
        raise BadInput(f"column {column.name!r}: holds cells of another kind; validate the records") from None


def check(column: Column) -> None:
    """Refuse categories that an array of text cannot tell from others."""
    if not isinstance(column, Categorical | Ordinal):
        return
    if any(text.endswith("\0") for text in column.categories) or (column.missing and "" in column.categories):
        raise BadInput(f"column {column.name!r}: an empty category, or one that ends with NUL, cannot be told apart in .npz; "
                       "write a folder")  # fmt: skip


def _whole(values: NDArray[Any], column: Boolean | Integer) -> "Series":
    """Floats as what they stand for, where all do."""
    gone = np.isnan(values)
    held = values[~gone]
    allowed = (0.0, 1.0) if isinstance(column, Boolean) else np.rint(held)
    fits = np.isin(held, allowed).all() if isinstance(column, Boolean) else (held == allowed).all()
    if not fits or (np.abs(held) > 2**53).any():
        return pd.Series(values)
    filled = np.where(gone, 0, values)
    if isinstance(column, Boolean):
        return pd.Series(pd.arrays.BooleanArray(filled == 1, gone) if gone.any() else filled == 1)
    return pd.Series(pd.arrays.IntegerArray(filled.astype(np.int64), gone) if gone.any() else filled.astype(np.int64))


def _numbers(texts: "Series") -> "Series":
    try:
        return texts.astype("float64")
    except ValueError:
        return texts
