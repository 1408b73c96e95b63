"""The real records that a command's `data` options name."""

import dataclasses
import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.cli import settings
from synthdp.errors import BadInput
from synthdp.schema import linked_tables
from synthdp.schema.schema import Schema
from synthdp.sets import named
from synthdp.tables import database_url, source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pandas as pd

    from synthdp.tables.database_url import Address

    Records = pd.DataFrame | dict[str, pd.DataFrame]  # a table, or linked ones by name


# ---- Which files are counted where they are, by DuckDB, and which are read into memory.


# From this many bytes of a file on, the steward must say where it is counted, if the generator asks for counts alone.
LARGE = 1 << 30


def address_of(data: settings.Data) -> "Address | None":
    """The table of a database that the options name. Raises `BadInput` where they name a table and no database."""
    url = data.path or data.train
    if data.vocabulary is not None and data.format != "omop":
        raise BadInput("data.vocabulary belongs to data.format=omop")
    if data.format != "files":
        if data.table is not None or data.query_file is not None:
            raise BadInput(
                f"data.table and data.query_file name one table: with data.format={data.format} leave them out"
            )
        return None
    if url is not None and database_url.is_url(url):
        return database_url.address(url, data.table, data.query_file)
    if data.table is not None or data.query_file is not None:
        raise BadInput("data.table and data.query_file belong to data.path=URL, such as postgresql://user@host/name")
    return None


def source_of(data: settings.Data, generator: Any, schema: "Schema") -> "source.Source | None":
    """The table that stays where it is: one of a database, a folder of tables, a pattern, or what `data.engine=duckdb` says.

    A model may differ in shape by where its table was counted (`Sensitive.fine`), and one record more must not decide that
    (law 21): a large file is refused until the steward has said it.
    """
    address = address_of(data)
    if schema.tables and address is None:
        if data.engine == "duckdb":
            raise BadInput(
                "linked tables in files are fitted in memory: leave data.engine=duckdb out, or copy the tables to a DuckDB file and give "
                "its URL, such as data.path=duckdb:///clinic.duckdb#main"
            )
        return None
    if address is not None:
        if data.engine == "duckdb" and not address.url.startswith("duckdb:"):
            raise BadInput(
                "data.engine=duckdb takes files and duckdb: URLs: leave it out to count the table where it is, or give data.engine=memory"
            )
        if data.engine == "memory":
            return None
        if schema.tables:
            return database_url.linked(address, [each.name for each in schema.tables], data.memory)
        return dataclasses.replace(
            database_url.query(address), memory=data.memory if address.url.startswith("duckdb:") else None
        )
    path = Path(data.path or data.train or "")
    if data.engine == "memory" or (data.engine == "auto" and not _counted_together(path, schema)):
        large = path.is_file() and path.stat().st_size >= LARGE and generator.traits.counted
        if data.engine == "auto" and large and schema.image is None:
            raise BadInput(
                f"{path} is a large file: give data.engine=duckdb to count it on disk, or data.engine=memory to read it into "
                "memory. The model may depend on the engine; if the file's size chose it, a single record could change it"
            )
        return None
    return source.files(path, memory=data.memory)


def check_declared(data: settings.Data, schema: "Schema") -> None:
    """Refuse, before a table in a database is opened, a schema that leaves something to learn about it."""
    where = data.path or data.train
    if data.engine == "memory" or where is None:
        return
    if data.engine == "duckdb" or address_of(data) is not None or _counted_together(Path(where), schema):
        from synthdp.tables import coded

        for each in [linked_tables.of_table(schema, table) for table in schema.tables] or [schema]:
            coded.check_declared(each)


def _counted_together(path: Path, schema: "Schema") -> bool:
    """Whether a path means several files of one table, which are counted where they are unless the steward says otherwise."""
    from synthdp.sets import record_files

    several = is_several(path) and schema.image is None and not schema.tables
    return several and not record_files.workbooks(path)


ONE_TABLE = "{what} takes one table, and the schema describes linked ones: join them and describe the joined table"


def one_table(records: "Records", what: str) -> "pd.DataFrame":
    """The table of a command that takes one. Raises `BadInput` for linked ones."""
    if isinstance(records, dict):
        raise BadInput(ONE_TABLE.format(what=what))
    return records


def is_several(path: Path) -> bool:
    """Whether a path means several tables: a pattern, or a folder."""
    return path.is_dir() or (not path.exists() and bool(source.GLOB & set(str(path))))


def home_of(data: settings.Data, file: str) -> Path:
    """What an account lies beside: the file, the folder, or the folder in which a pattern begins. For a CDM in a DuckDB file, the name of
    its schema may follow after #."""
    path = Path(file)
    if data.format != "files" and not path.exists():
        path = Path(file.partition("#")[0])
    while source.GLOB & set(str(path)) and not path.exists():
        path = path.parent
    return path.resolve()


def refuse(options: settings.Fit, *, canaries: bool) -> None:
    """Refuse what a fit of a table in its database cannot do."""
    if options.select is not None or canaries:
        raise BadInput(
            "select=private and audit.* work on records in memory: leave them out, or give data.engine=memory"
        )


def declared(data: settings.Data) -> "Schema":
    """The public schema of the records, with the target that the options name. No record is read."""
    _refuse_both(data)
    if data.name is not None:
        return _targeted(named.schema_of(data.name), data.target)
    _, file = _needed(path=data.path or data.train, schema=data.schema)
    if data.format == "omop" and data.vocabulary is not None:
        from synthdp.omop import cdm_draft

        cdm_draft.check_apart(data.vocabulary, data.path, data.train, data.test)
    schema = _loaded(data, file)
    schema.check_declared()
    _refuse_own_codes(data, Path(file), schema)
    return schema


def _loaded(data: settings.Data, file: str) -> "Schema":
    """The schema in a file, with the target that the options name; of a CDM with its note, and held against the vocabulary."""
    address_of(data)  # which refuses options that contradict each other
    schema = _targeted(Schema.load(file), data.target)
    if data.format != "omop":
        return schema
    from synthdp.omop import cdm, cdm_draft

    schema = cdm.noted(schema)
    if data.vocabulary is not None:
        cdm_draft.check_known(schema, data.vocabulary)
    return schema


def _refuse_own_codes(data: settings.Data, file: Path, schema: "Schema") -> None:
    """Refuse categories, or a tree above them, that a schema takes from the records themselves: a list of codes is public."""
    from synthdp.schema import code_lists, yamlfile
    from synthdp.sets.record_files import identity

    lists = code_lists.named(yamlfile.load(file), file.parent)
    if not lists:
        return
    paths = [Path(each) for each in (data.path, data.train, data.test) if each is not None]
    held = {identity(each) for path in paths for each in _files_of(path, data, schema)}
    homes = [path.resolve() for path in paths] if data.format == "omop" else []
    for name, of in lists:
        if identity(of) in held or any(home in of.resolve().parents for home in homes):
            raise BadInput(
                f"{file}: column {name!r} takes its categories from the records ({of}), where one patient's code would "
                "be published: name a public list of codes, or write categories: learn"
            )


def _files_of(path: Path, data: settings.Data, schema: "Schema") -> "Iterable[Path]":
    """The files at a path that hold records; none where it is a database."""
    from synthdp.sets import record_files

    if path.is_dir() and schema.tables and data.format == "files":
        return record_files.tables_in(path, schema).values()
    found = (
        path.rglob("*") if path.is_dir() else [Path(name) for name in glob.glob(str(path), recursive=True)] or [path]
    )
    return [each for each in found if each.is_file()]


def training(
    data: settings.Data, generator: Any, check: "Callable[[Schema], None]"
) -> "tuple[Schema, Records | source.Source]":
    """The schema and the records, which are read when `check` does not refuse; or where they stay."""
    schema = declared(data)
    check(schema)
    if data.name is not None:
        return schema, named.load(data.name).train
    held = source_of(data, generator, schema)
    return schema, read(str(data.path or data.train), schema, data) if held is None else held


def reviewed(data: settings.Data) -> "tuple[Schema, Records]":
    """The schema, which nobody needs to have declared yet, and the records, in memory."""
    _refuse_both(data)
    if data.name is not None:
        return _targeted(named.schema_of(data.name), data.target), named.load(data.name).train
    path, file = _needed(path=data.path or data.train, schema=data.schema)
    schema = _loaded(data, file)
    return schema, read(path, schema, data)


def as_written(data: settings.Data, schema: "Schema", records: "Records") -> "Records":
    """The records again, each cell as the file has it; records that are in no file are given back as they are."""
    from synthdp.sets import record_files

    path = data.path or data.train
    if path is None or data.name is not None or data.format != "files" or schema.image is not None:
        return records
    if address_of(data) is not None:
        return records
    return (
        record_files.read_tables(Path(path), schema, text=True)
        if schema.tables
        else _read(path, record_files.as_text(schema))
    )


def real(data: settings.Data) -> "tuple[Schema, Records, Records]":
    """The schema, and the real records: those that were fitted and those that were held out."""
    _refuse_both(data)
    if data.name is not None:
        chosen = named.load(data.name)
        return _targeted(chosen.schema, data.target), chosen.train, chosen.test
    train, test, file = _needed(train=data.train or data.path, test=data.test, schema=data.schema)
    address = address_of(data)
    if (str(address) if address else Path(train).resolve()) == (test if address else Path(test).resolve()):
        raise BadInput(
            "data.test is the same file as data.train: models would be judged on records that they were trained on. synthdp split "
            "holds records out, before a fit"
        )
    schema = _loaded(data, file)
    return (
        schema,
        read(train, schema, data),
        read(test, schema, dataclasses.replace(data, table=None, query_file=None)),
    )


FORM = {
    "path": "data.path=FILE",
    "train": "data.train=FILE",
    "test": "data.test=FILE",
    "schema": "data.schema=FILE.yaml",
}


def _needed(**given: str | None) -> list[str]:
    """The files that a command needs; raises `BadInput` that names those that are missing."""
    missing = [FORM[name] for name, value in given.items() if value is None]
    if len(missing) == len(given):
        first, *rest = missing
        raise BadInput(
            f"no records are named: give {first} with {' and '.join(rest)} (synthdp schema path=FILE drafts a schema), or "
            "data=NAME (synthdp data lists the names)"
        )
    if missing:
        raise BadInput(f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing")
    return [value for value in given.values() if value is not None]


def read(path: str, schema: "Schema", data: settings.Data) -> "Records":
    """The records at a path, as `data.format` says; those of `data.path` or `data.train` also by the table that the options name."""
    if data.format == "omop":
        from synthdp.omop import cdm_tables

        return cdm_tables.read(path, schema)
    if data.format != "files":
        from synthdp.omop import patient_files

        return patient_files.read(data.format, path, schema)
    return _read(path, schema, address_of(data) if path == (data.path or data.train) else None)


def _read(path: str, schema: "Schema", address: "Address | None" = None) -> "Records":
    """The records of a file, of a database's table, of a folder of pictures, or of all tables in a folder or of a pattern, in memory; of
    linked tables a frame for each."""
    import pandas as pd

    from synthdp.schema import check
    from synthdp.sets import record_files

    if schema.tables:
        if address is not None or database_url.is_url(path):
            return record_files.tables_from_database(address or database_url.address(path), schema)
        return record_files.read_tables(Path(path), schema)
    if address is not None or database_url.is_url(path):
        return record_files.from_database(address or database_url.address(path), schema)
    where = Path(path)
    if schema.image is not None or not is_several(where):
        return record_files.read(where, schema=schema)
    files = record_files.workbooks(where) or source.files(where).found()
    parts = [record_files.read(file, schema=schema) for file in files]
    for file, part in zip(files, parts, strict=True):
        for problem in check.unit(schema, part):  # a fault that text in another file would hide
            raise BadInput(f"{file}: {problem}")
    for name in {name for part in parts for name in part}:  # no file decides how another one's cells are read
        if len({part[name].dtype if name in part else None for part in parts}) > 1:
            parts = [part.astype({name: object}) if name in part else part for part in parts]
    return pd.concat(parts, ignore_index=True)


def _refuse_both(data: settings.Data) -> None:
    files = [
        name
        for name in ("path", "table", "query_file", "schema", "train", "test", "vocabulary")
        if getattr(data, name) is not None
    ]
    files += ["format"] if data.format != "files" else []
    if data.name is not None and files:
        raise BadInput(f"data={data.name} and data.{files[0]} contradict each other: give a named data set or files")
    if data.path is not None and data.train is not None:
        raise BadInput("data.path and data.train both name the records that are fitted: give one of them")


def _targeted(schema: "Schema", target: str | None) -> "Schema":
    return schema if target is None else schema.with_targets(target)
