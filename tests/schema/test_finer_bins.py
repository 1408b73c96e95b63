"""Codecs with `cells`: declared bins cut further, and the way back to the declared codes."""

import numpy as np
import pandas as pd
import pytest
from mixed_tables import AWFUL, MIXED, every_code

from synthdp.schema.codec import Codec
from synthdp.schema.schema import Continuous, Datetime, Integer, Schema

CELLS = (1, 7, 64, 1000)


def both_ways(schema, frame, cells):
    """The declared codes of a frame, and its fine codes led back to them."""
    fine, plain = Codec(schema, cells), Codec(schema)
    codes = fine.encode(frame)
    ways = fine.coarse()
    back = [codes[:, place] if way is None else way[codes[:, place]] for place, way in enumerate(ways)]
    return plain.encode(frame), np.stack(back, 1)


@pytest.mark.parametrize("cells", CELLS)
def test_every_cell_of_awkward_tables_is_led_back_to_its_declared_code(cells):
    drawn = Codec(MIXED).decode(every_code(Codec(MIXED).sizes), np.random.default_rng(0))
    awful = pd.DataFrame({name: list(AWFUL) for name in MIXED.names}, dtype=object)
    for frame in (awful, drawn):
        wanted, found = both_ways(MIXED, frame, cells)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("cells", CELLS)
def test_fine_codes_come_back(cells):
    codec = Codec(MIXED, cells)
    codes = every_code(codec.sizes)
    np.testing.assert_array_equal(codec.encode(codec.decode(codes, np.random.default_rng(1))), codes)


@pytest.mark.parametrize(
    "column",
    [
        Integer(name="x", bounds=(0, 99_999), bins=(1000, 3137, 99_999), atoms=(0, 99_999)),
        Integer(name="x", bounds=(0, 3), bins=(1, 2), atoms=(0, 1)),
        Integer(name="x", bounds=(-5, 5), atoms=(-5, 0)),
        Continuous(name="x", bounds=(0.0, 1.0), bins=(0.1, 0.30000000000000004, 0.7), atoms=(0.3,)),
        Continuous(name="x", bounds=(0.0, 10.0), bins=3, decimals=2, atoms=(5.0,), missing=True),
        Datetime(name="x", bounds=("2020-01-01", "2020-12-31"), bins=6, missing=True),
    ],
    ids=lambda column: f"{column.kind}-{column.bounds}",
)
@pytest.mark.parametrize("cells", CELLS)
def test_edges_atoms_and_the_missing_agree(column, cells):
    schema = Schema(columns=(column,))
    plain, fine = Codec(schema), Codec(schema, cells)
    atoms = [] if column.kind == "datetime" else [plain.atoms("x")]
    values = np.concatenate([plain.edges("x"), fine.edges("x"), *atoms])
    frame = pd.DataFrame({"x": values})
    if column.missing:
        frame = pd.concat([frame, pd.DataFrame({"x": [None]}, dtype=frame["x"].dtype)], ignore_index=True)
    wanted, found = both_ways(schema, frame, cells)
    np.testing.assert_array_equal(found, wanted)
    assert np.isin(plain.edges("x"), fine.edges("x")).all()


def test_there_are_about_so_many_cells_and_never_more_than_values():
    schema = Schema(
        columns=(
            Integer(name="wide", bounds=(0, 99_999)),
            Integer(name="narrow", bounds=(0, 9)),
            Continuous(name="real", bounds=(0.0, 1.0), bins=(0.1234,)),
        )
    )
    assert Codec(schema, 1000).sizes == (1000 + 32 - 8, 10, 1001)  # eight of the 32 edges are among the thousand
    assert Codec(schema, 0).sizes == Codec(schema).sizes
