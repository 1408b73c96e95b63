"""Codes computed in DuckDB are those of the codec, cell for cell."""

import awkward
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Integer
from synthdp.schema.schema import Schema
from synthdp.tables import source
from synthdp.tables.table_check import validated


def test_typed_cells_have_the_codecs_codes(tmp_path):
    held = awkward.table()
    pq.write_table(held, tmp_path / "awkward.parquet")
    frame, codec = held.to_pandas(), Codec(awkward.SCHEMA)
    with source.opened(source.parquet(tmp_path / "awkward.parquet")) as opened:
        found = awkward.codes_in(opened, awkward.SCHEMA)
    assert awkward.differing(found, codec.encode(frame), codec, frame) == {}


def test_a_number_between_the_steps_is_refused_in_a_database_and_one_beside_the_bounds_is_no_such(tmp_path):
    schema = Schema(columns=(Integer(name="score", bounds=(0, 100), step=5, missing=True),))
    for cells, said in (
        ([0, 35, None], ""),
        ([0, 37], "not multiples of the declared step 5"),
        ([105], "outside"),
        ([1.5], "not whole"),
    ):
        pq.write_table(pa.table({"score": pa.array(cells, pa.float64())}), tmp_path / "t.parquet")
        if not said:
            with validated(schema, source.parquet(tmp_path / "t.parquet"), "error"):
                continue
        with (
            pytest.raises(BadInput, match=said) as refused,
            validated(schema, source.parquet(tmp_path / "t.parquet"), "error"),
        ):
            pass
        assert str(refused.value).count("some values are") == 1
