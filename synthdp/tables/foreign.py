"""Tables of other programs: Excel workbooks, Stata, SPSS and SAS files. They are parsed by a process of its own (`foreign_parser`)."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from synthdp.errors import BadInput
from synthdp.files import limits

XLSX = ".xlsx"
STATISTICS = (".dta", ".sav", ".zsav", ".sas7bdat", ".xpt")
ENDINGS = (XLSX, *STATISTICS)
PROGRAM = Path(__file__).with_name("foreign_parser.py")
EXTRA = "pip install 'synthdp[formats]'"


def parsed(path: Path, ending: str, sheet: str | None = None) -> "Parsed":
    """A file as its parser gives it: of a workbook one sheet, and of other files the dictionary alone where `sheet` is "dictionary".

    Raises `BadInput` where it is none of its format, or would take over `limits.RATIO` times its size (at least `limits.FREE`) in
    memory.
    """
    allowed = max(limits.FREE, limits.RATIO * path.stat().st_size)
    words = [str(path), ending, sheet or "", str(limits.MOST_COLUMNS), str(allowed)]
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-P", str(PROGRAM), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # may hold cells
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    try:
        table = pa.ipc.open_stream(done.stdout).read_all() if done.returncode == 0 else None
    except pa.ArrowException:
        table = None
    if table is None:
        raise BadInput(
            f"{path}: cannot be read as a {ending} file: it is damaged, or unpacks to over {limits.RATIO} times its size"
        )
    found = Parsed(table)
    if "lacking" in found.facts:
        raise lacking(ending, found.facts["lacking"])
    if "refused" in found.facts:
        raise BadInput(f"{path}: {found.facts['refused']}")
    return found


def lacking(ending: str, module: str) -> BadInput:
    """What is said where a library is not installed."""
    return BadInput(f"{ending} files are read and written with {module}, which is not installed: {EXTRA}")


class Parsed:
    """An Arrow table, and what its file says of it: `facts` as `foreign_parser` has them."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.facts: dict[str, Any] = json.loads((table.schema.metadata or {}).get(b"facts", b"{}"))


def labels(facts: Mapping[str, Any], name: str) -> dict[str, str]:
    """The labels of a column's codes, but for codes that a file of SPSS declares as missing, one by one or from one to another."""

    def missing(code: str) -> bool:
        ends = facts.get("missing", {}).get(name, ())
        return any(code == low or (low != high and float(low) <= float(code) <= float(high)) for low, high in ends)

    return {code: label for code, label in facts.get("labels", {}).get(name, ()) if not missing(code)}
