"""What DuckDB writes to disk where memory does not suffice: no unit's name, in no place of a block, also where the fit is killed."""

import hashlib
import os
import re
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from synthdp.files import private_folder
from synthdp.schema.schema import Schema

KEY = b"k" * 32
LOTS = hashlib.blake2b(b"lots", key=KEY, digest_size=16).hexdigest()
MARKER = "NAME-of-a-patient-"
PIECES = [MARKER.encode()[start : start + 8] for start in range(len(MARKER) - 7)]
BLOCK = 1 << 18  # bytes that DuckDB compresses together
ROWS = 200_000
SCHEMA = Schema.from_dict(
    {
        "name": "many visits",
        "declared_by": "the tests",
        "unit": "patient",
        "max_records_per_unit": 3,
        "columns": {"patient": {"kind": "identifier"}, "dose": {"kind": "continuous", "bounds": [0, 1], "bins": 16}},
    }
)
SCRIPT = """
import os, sys
from pathlib import Path
os.umask(0)  # the least careful user
from synthdp.tables import source as tables
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal.database import CountedTable

here = Path(sys.argv[1])
schema = Schema.load(here / "schema.yaml")
source = tables.files(here / sys.argv[2], memory=sys.argv[3], threads=1, folder=here / "internal")
with tables.opened(source) as table:
    store = CountedTable.of(table, schema, b"k" * 32)
    while True:
        assert store.units == int(sys.argv[4])
        store.encoded_by(Codec(schema))
"""


@pytest.fixture(scope="module")
def visits():
    """Five visits a patient, whose name is the longest thing in them."""
    names = [f"{MARKER}{row // 5:012d}" for row in range(ROWS)]
    return pa.table({"patient": names, "dose": np.random.default_rng(0).random(ROWS)})


def blocks(file):
    """The bytes of one of DuckDB's files, and what they are when they are no longer compressed."""
    raw = file.read_bytes()
    slot = re.search(r"_S(\d+)K-", file.name)
    if slot is None:
        return raw
    size, found = int(slot[1]) << 10, [raw]
    for start in range(0, len(raw), size):
        length = int.from_bytes(raw[start : start + 8], "little")
        try:
            found.append(pa.decompress(raw[start + 8 : start + 8 + length], BLOCK, codec="zstd", asbytes=True))
        except (OSError, pa.ArrowException):  # it was being written, or is encrypted
            continue
    return b"".join(found)


def spilled(folder):
    return [file for file in folder.glob(f"{private_folder.SPILL}*/*") if file.name != private_folder.LOCK]


@contextmanager
def stopped_while_it_spills(folder, *, before="", file="visits.parquet", memory="30MB", until=lambda: True):
    """A process that encodes the visits again and again; stopped where it has spilled and `until` is true, killed at the end."""
    SCHEMA.save(folder / "schema.yaml")
    words = [sys.executable, "-c", before + SCRIPT, folder, file, memory, str(ROWS // 5)]
    # This process may have set the one that is left out.
    own = {name: value for name, value in os.environ.items() if name != "DUCKDB_JE_MALLOC_CONF"}
    process = subprocess.Popen(words, cwd=folder, env=own)  # where no other copy of the package lies
    try:
        deadline = time.monotonic() + 120
        while True:
            if sum(file.stat().st_size for file in spilled(folder / "internal") if file.exists()) >= 1 << 20:
                process.send_signal(signal.SIGSTOP)
                if until():
                    break
                process.send_signal(signal.SIGCONT)
            assert process.poll() is None, "it came to its end"
            assert time.monotonic() < deadline, "it never spilled"
            time.sleep(0.002)
        yield
    finally:
        process.kill()
        process.wait()


def names_in(held):
    return [piece for piece in PIECES if piece in held]


@cache
def hashes():
    names = (f"{LOTS}/{MARKER}{unit:012d}".encode() for unit in range(ROWS // 5))
    return {hashlib.md5(name).hexdigest() for name in names}  # noqa: S324 - what every engine has


def held_in(folder):
    return b"".join(blocks(file) for file in spilled(folder / "internal"))


def hashes_in(held):
    return hashes() & {found.decode() for found in re.findall(rb"[0-9a-f]{32}", held)}


def test_a_spill_holds_keyed_hashes_and_no_units_name_and_goes_with_the_next_run(tmp_path, visits):
    pq.write_table(visits, tmp_path / "visits.parquet")
    internal = tmp_path / "internal"
    with stopped_while_it_spills(tmp_path, until=lambda: hashes_in(held := held_in(tmp_path)) or names_in(held)):
        assert stat.S_IMODE(internal.stat().st_mode) == 0o700
        (folder,) = internal.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
        private_folder.clear(internal)  # another run, while this one lives
        assert len(spilled(internal)) > 0
    held = held_in(tmp_path)
    assert names_in(held) == []
    assert LOTS.encode() not in held
    with private_folder.private_folder(internal) as own:
        assert list(internal.iterdir()) == [own]
    assert list(internal.iterdir()) == []


@pytest.mark.heavy
def test_where_duckdb_does_not_clear_its_memory_the_spill_is_encrypted(tmp_path, visits):
    """Blocks are written with what memory held before in the places that they did not fill."""
    pq.write_table(visits, tmp_path / "visits.parquet")
    with stopped_while_it_spills(tmp_path, before="import duckdb\n"):
        pass
    held = held_in(tmp_path)
    assert names_in(held) == []
    assert not hashes_in(held)


@pytest.mark.heavy
@pytest.mark.parametrize("file", ["visits.csv", "visits.csv.gz"])
def test_a_spill_of_a_csv_file_holds_no_units_name(tmp_path, visits, file):
    """DuckDB reads it in buffers of 32 MB, which leave little of what it may hold."""
    with pa.output_stream(tmp_path / file) as out:
        pc.write_csv(pa.concat_tables([visits] * 8), out)
    # What it spills first may be something else than what is sorted by unit.
    with stopped_while_it_spills(tmp_path, file=file, memory="140MB", until=lambda: hashes_in(held_in(tmp_path))):
        pass
    assert names_in(held_in(tmp_path)) == []
