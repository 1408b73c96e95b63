"""Which files are counted where they are, by DuckDB, and which are read into memory."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.cli import settings
from synthdp.data import tables
from synthdp.errors import BadInput

if TYPE_CHECKING:
    from synthdp.data.schema import Schema

LARGE = 1 << 30  # bytes of a file from which on it is not read into memory, where the generator asks for counts alone


def source_of(options: settings.Data, generator: Any, schema: "Schema") -> tables.Files | None:
    """The table that stays where it is: a folder of tables, a pattern, a large file, or what `data.engine=duckdb` says."""
    path = Path(options.path or options.train or "")
    several = is_several(path) and schema.image is None
    large = path.is_file() and path.stat().st_size >= LARGE and getattr(generator, "counted", False)
    if options.engine == "memory" or (options.engine == "auto" and not (several or (large and schema.image is None))):
        return None
    return tables.files(path, memory=options.memory)


def is_several(path: Path) -> bool:
    """Whether a path means several tables: a pattern, or a folder."""
    return path.is_dir() or (not path.exists() and bool(tables.GLOB & set(str(path))))


def home_of(path: Path) -> Path:
    """What an account lies beside: the file, the folder, or the folder in which a pattern begins."""
    while tables.GLOB & set(str(path)) and not path.exists():
        path = path.parent
    return path.resolve()


def refuse(options: settings.Fit, *, canaries: bool) -> None:
    """Refuse what a fit of a table in its database cannot do."""
    if options.select is not None or canaries:
        raise BadInput(
            "select=private and audit.* work on records in memory: leave them out, or give data.engine=memory"
        )
