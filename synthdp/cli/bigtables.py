"""Which files are counted where they are, by DuckDB, and which are read into memory."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.cli import settings
from synthdp.errors import BadInput
from synthdp.tables import source

if TYPE_CHECKING:
    from synthdp.schema.schema import Schema

LARGE = (
    1 << 30
)  # bytes of a file from which on the steward says where it is counted, if the generator asks for counts alone


def source_of(options: settings.Data, generator: Any, schema: "Schema") -> source.Files | None:
    """The table that stays where it is: a folder of tables, a pattern, or what `data.engine=duckdb` says.

    A model may differ in shape by where its table was counted (`Sensitive.fine`), and one record more must not decide that
    (law 21): a large file is refused until the steward has said it.
    """
    path = Path(options.path or options.train or "")
    several = is_several(path) and schema.image is None
    if options.engine == "memory" or (options.engine == "auto" and not several):
        large = path.is_file() and path.stat().st_size >= LARGE and getattr(generator, "counted", False)
        if options.engine == "auto" and large and schema.image is None:
            raise BadInput(
                f"{path} is a large file: say data.engine=duckdb to count it where it lies, or data.engine=memory to read it into "
                "memory (the model may depend on which, so that the size of a file does not decide it)"
            )
        return None
    return source.files(path, memory=options.memory)


def is_several(path: Path) -> bool:
    """Whether a path means several tables: a pattern, or a folder."""
    return path.is_dir() or (not path.exists() and bool(source.GLOB & set(str(path))))


def home_of(path: Path) -> Path:
    """What an account lies beside: the file, the folder, or the folder in which a pattern begins."""
    while source.GLOB & set(str(path)) and not path.exists():
        path = path.parent
    return path.resolve()


def refuse(options: settings.Fit, *, canaries: bool) -> None:
    """Refuse what a fit of a table in its database cannot do."""
    if options.select is not None or canaries:
        raise BadInput(
            "select=private and audit.* work on records in memory: leave them out, or give data.engine=memory"
        )
