"""Codes computed in DuckDB are those of the codec, cell for cell."""

import awkward
import pyarrow.parquet as pq

from synthdp.schema.codec import Codec
from synthdp.tables import source


def test_typed_cells_have_the_codecs_codes(tmp_path):
    held = awkward.table()
    pq.write_table(held, tmp_path / "awkward.parquet")
    frame, codec = held.to_pandas(), Codec(awkward.SCHEMA)
    with source.opened(source.parquet(tmp_path / "awkward.parquet")) as opened:
        found = awkward.codes_in(opened, awkward.SCHEMA)
    assert awkward.differing(found, codec.encode(frame), codec, frame) == {}
