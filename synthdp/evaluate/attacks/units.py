"""Whose records are attacked: one record of each patient, so that the guarantee's unit and the attack's are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from synthdp.errors import BadInput
from synthdp.evaluate.attacks.case import stream

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from synthdp.evaluate.tables import Table

Codes = tuple["NDArray[np.int64]", "NDArray[np.int64]"]


def unit_codes(train: pd.DataFrame, test: pd.DataFrame, name: str) -> Codes:
    """(rows,) codes of the unit column of both frames, the same for the same unit; a missing one is a unit of its own."""
    import pandas as pd

    # As words, for 7 in one file may be "7" or, beside a missing one, 7.0 in the other.
    words = pd.concat([frame[name].convert_dtypes().astype("string") for frame in (train, test)])
    codes = pd.factorize(words)[0]
    own = np.where(codes < 0, len(codes) + np.arange(len(codes)), codes).astype(np.int64)
    return own[: len(train)], own[len(train) :]


def chosen(units: Codes) -> Codes:
    """Rows of the training and of the test records: one of each unit, drawn; no test record of a unit that has training
    records. units: (rows,) of each, one code per unit, shared by both. An attack on these is an attack on patients."""
    own, other = units
    keep, rest = _one_each(own, stream("units of train")), _one_each(other, stream("units of test"))
    return keep, rest[~np.isin(other[rest], own)]


def one_per_unit(train: Table, test: Table, units: Codes) -> tuple[Table, Table]:
    """The records of both tables that `chosen` names."""
    check(units, train.rows, test.rows)
    keep, rest = chosen(units)
    return train.take(keep), test.take(rest)


def check(units: Codes, train: int, test: int) -> None:
    """Raises BadInput where there is not one code for each row."""
    if (len(units[0]), len(units[1])) != (train, test):
        raise BadInput("units: give one code for each real training row and one for each real test row.")


def too_few(units: Codes | None, left: int, least: int) -> str | None:
    """Why those that are left of the test records cannot be attacked, where that is because of their patients."""
    if units is None or not len(units[1]) or left >= least or left == len(np.unique(units[1])):
        return None
    if left == 0:
        return (
            "every patient of the test records has training records too, so nobody is left whose records were not used; split the "
            "records by patient"
        )
    return (
        f"only {left} patients of the test records have no training records; at least {least} are needed: split the "
        "records by patient"
    )


def _one_each(units: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    order = rng.permutation(len(units))
    first = np.unique(units[order], return_index=True)[1]
    return np.asarray(np.sort(order[first]))
