"""Commands of a few lines: from a checked configuration to files and a line of text; `demo` is all of them in a row."""

import dataclasses
import datetime
import glob
import itertools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from synthdp.cli import evaluations, fits, looks, output_paths, settings
from synthdp.cli.budgets import account_of, spent_of
from synthdp.errors import BadInput
from synthdp.files import atomic
from synthdp.report.promise import sharing
from synthdp.schema import yamlfile
from synthdp.schema.code_lists import MOST_CODES
from synthdp.schema.schema import Schema
from synthdp.sets import named
from synthdp.tables import database_url, source

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from synthdp.api import Release
    from synthdp.budgets import AccountFile
    from synthdp.report.statement import Statement
    from synthdp.sets.dialect import Found
    from synthdp.sets.draft import Draft as Drafted

Config = Mapping[str, Any]
STANDARD_OUTPUT = "-"
ROWS_PER_TITLE = 10  # so many rows of numbers or more, for each line above them, make these lines seem to be titles
PART = 20_000  # people of a CDM that are drawn and written at a time
REHEARSAL = "the release is a rehearsal, whose noise can be regenerated. Do not release these records"


def sample(config: Config) -> None:
    """Draw records from a release into one file, or pictures into a folder."""
    from synthdp.api import load
    from synthdp.generators import check_seed
    from synthdp.sets import record_files

    options: settings.Sample = config["options"]
    check_seed(options.seed)
    if options.rows < 0:
        raise BadInput(f"rows must be 0 or more, got {options.rows}")
    release = load(options.release)
    if options.format == "omop":
        _cdm(release, options)
        return
    if options.vocabulary is not None:
        raise BadInput("vocabulary= belongs to format=omop")
    if release.schema.tables:
        _tables(release, options)
        return
    if options.out == STANDARD_OUTPUT or database_url.is_url(options.out):
        if release.schema.image is not None:
            raise BadInput(f"out={options.out} takes tables; give a folder or a .npz file for pictures")
        _stream(release, options) if options.out == STANDARD_OUTPUT else _into_database(release, options)
        return
    out = output_paths.records(options.out, release.schema, force=options.force)
    _check_no_records(out, options)
    with output_paths.progress("sample") as step:
        record_files.write(_counted(release, options, step), out, release.schema, force=options.force)
    _say(release, f"{options.rows} synthetic records in {out}")
    _lead_to_evaluation(options, options.out)


def _lead_to_evaluation(options: settings.Sample, synthetic: Path | str) -> None:
    """Print the command that evaluates the records, where the fit's folder says which real ones it used; those split off are held out.
    Records of a condition are judged against none."""
    from synthdp.cli.compare import judged_by

    real = {} if options.where is not None else judged_by(_fitted(options))
    if real:
        made = {"synthetic": synthetic, "release": options.release}
        print(output_paths.then("evaluate", **made, **real, out=Path(options.release).parent / "evaluation"))


def _fitted(options: settings.Sample) -> Mapping[str, Any]:
    """What the fit of the release was told of its data, where the fit's folder says it."""
    from synthdp.cli.compare import told_of_data

    return told_of_data(Path(options.release).parent / "internal") or {}


def _tables(release: "Release", options: settings.Sample) -> None:
    """Linked tables, of so many people, into a folder or a database; `rows` are people."""
    from synthdp.sets import record_files

    out = Path(options.out)
    folder, ending = source.folder_of(out)
    address = database_url.address(options.out) if database_url.is_url(options.out) else None
    if address is None:
        if options.out == STANDARD_OUTPUT or (folder is out and out.suffix):
            raise BadInput(
                f"out={options.out}: linked tables need a folder, with one file for each table, or a database: give out=FOLDER for CSV, "
                "out='FOLDER/*.parquet' for another format, or out=duckdb:///file.db#SCHEMA"
            )
        if ending not in record_files.WRITTEN:
            raise BadInput(f"out={options.out}: tables are written as {', '.join(record_files.WRITTEN)}")
        output_paths.folder(str(folder), force=options.force)
        _check_no_records(folder, options)
    else:
        _check_apart(address, options)
    frames = release.sample_tables(options.rows, where=options.where, seed=options.seed)
    if address is not None:
        record_files.write_tables_to_database(frames, address, release.schema, replace=options.force)
    else:
        record_files.write_tables(frames, folder, release.schema, ending, force=options.force)
    counts = ", ".join(f"{len(frame)} rows in {name}{'' if address else ending}" for name, frame in frames.items())
    _say(release, f"{options.rows} synthetic people in {address or folder}: {counts}")
    _lead_to_evaluation(options, folder if address is None else options.out)


def _say(release: "Release", *text: str, file: TextIO | None = None) -> None:
    """Print what was drawn, which columns it lacks, any further lines, and what speaks against releasing it."""
    print("\n".join([text[0], *output_paths.left_out(release.schema), *text[1:]]), file=file)
    if release.statement.rehearsal:
        output_paths.warn(REHEARSAL)


def _cdm(release: "Release", options: settings.Sample) -> None:
    """A CDM of so many people, in parts."""
    from synthdp.omop import cdm, cdm_draft, cdm_files, cdm_store, quality_checks

    cdm_files.check_target(options.out)
    cdm.check(release.schema)
    if options.vocabulary is not None:
        cdm_draft.check_apart(options.vocabulary)
    path = Path(options.out)
    if cdm_files.is_server(options.out):
        if cdm_store.Cdm(options.out).fields() and not options.force:
            raise BadInput(
                f"{options.out}: holds tables; name another schema, or pass force=true to replace a synthetic CDM"
            )
    elif path.suffix.lower() in cdm_store.DUCKDB:
        output_paths.file(options.out, force=options.force)
    else:
        output_paths.folder(str(source.folder_of(path)[0]), force=options.force)
    said = release.statement
    told = cdm_files.Told(
        name=release.schema.name or "CDM",
        guarantee=fits.guarantee(said.epsilon, said.delta, said.unit, said.accountant),
        day=datetime.datetime.now(tz=datetime.UTC).date(),
        vocabulary=None if options.vocabulary is None else cdm_draft.version_of(options.vocabulary),
    )
    gendered = None if options.vocabulary is None else quality_checks.gendered(options.vocabulary)
    with output_paths.progress("sample") as step:
        drawn = release.stream_tables(options.rows, where=options.where, seed=options.seed, chunk=PART)
        parts = _told(drawn, options.rows, step, lambda _: PART)
        rows = cdm_files.write(parts, release.schema, options.out, told, gendered)
    print(
        f"{options.rows} synthetic people in {options.out}: {', '.join(f'{count} rows of {name}' for name, count in rows.items())}"
    )
    if gendered is None:
        print(
            "genders    not compared: with vocabulary=, rows whose concept only people of another gender can have are left out"
        )
    if said.rehearsal:
        output_paths.warn(REHEARSAL)
    place = options.out if cdm_files.is_server(options.out) else source.folder_of(path)[0]
    print(output_paths.then("check", data__format="omop", data__path=place, data__vocabulary=options.vocabulary))


def _into_database(release: "Release", options: settings.Sample) -> None:
    from synthdp.sets import record_files

    address = database_url.address(options.out)
    _check_apart(address, options)
    with output_paths.progress("sample") as step:
        chunks = _counted(release, options, step)
        record_files.write_to_database(chunks, address, release.schema, replace=options.force)
    _say(release, f"{options.rows} synthetic records in {address}")
    _lead_to_evaluation(options, options.out)


def _check_apart(address: database_url.Address, options: settings.Sample) -> None:
    """Refuse to replace the records that were fitted, as the fit's folder names them: a DuckDB file keeps cells of tables that are gone."""
    told = _fitted(options)
    real, _, named = str(told.get("path") or told.get("train")).partition("#")
    named = named or str(told.get("table") or address.table)  # a query may read any table
    same = named.rpartition(".")[2].casefold() == str(address.table).rpartition(".")[2].casefold()
    if (
        options.force
        and same
        and database_url.is_url(real)
        and database_url.same_database(address, database_url.Address(real))
    ):
        raise BadInput(
            f"{address}: holds the records that were fitted, which force=true does not replace: they would be lost, and a DuckDB file "
            "would still hold some of their cells. Name another database"
        )


def _check_no_records(out: Path, options: settings.Sample) -> None:
    """The same for files and folders: no records that the fit was given, by name, in a folder or by a pattern, are replaced."""
    told = _fitted(options)
    given = [str(told[name]) for name in ("path", "train", "test") if told.get(name)]
    real = [name for each in given for name in (each, *glob.glob(each), *glob.glob(f"{glob.escape(each)}/*"))]
    if options.force and out.exists() and any(os.path.exists(each) and os.path.samefile(out, each) for each in real):
        raise BadInput(
            f"out={out}: holds the records that were fitted, which force=true does not replace; choose another name"
        )


def _stream(release: "Release", options: settings.Sample) -> None:
    """The records as CSV on standard output; everything else is said on standard error."""
    from synthdp.tables import csvfile

    out = sys.stdout.buffer
    with output_paths.progress("sample") as step:
        parts = _counted(release, options, step)
        first = next(parts)  # a refusal comes before the header
        _, found = csvfile.stream(itertools.chain([first], parts), out, release.schema, Path("-.csv"))
    out.flush()
    changed = ", ".join(sorted(name or "the header" for name in found))
    more = [f"neutralised  a ' stands before text that a spreadsheet would run, in {changed}"] if changed else []
    _say(release, f"{options.rows} synthetic records on standard output", *more, file=sys.stderr)


def schema(config: Config) -> None:
    """Draft a schema from a file, or from a folder of pictures, for review; and show beside it what was seen."""
    from synthdp.images import picture_draft
    from synthdp.sets import record_files
    from synthdp.sets.draft import draft
    from synthdp.tables import foreign

    options: settings.Draft = config["options"]
    out = None if options.out is None else output_paths.file(options.out, force=options.force)
    if options.format != "files":
        for name in ("dictionary", "table", "query_file", "sheet"):
            if getattr(options, name) is not None:
                raise BadInput(f"{name}= does not go with format={options.format}: leave it out")
    if options.format == "omop":
        _of_cdm(options, out)
        return
    if options.vocabulary is not None:
        raise BadInput("vocabulary= belongs to format=omop")
    if options.format != "files":
        _of_patient_files(options, out)
        return
    if (options.path is None) == (options.dictionary is None):
        raise BadInput("schema needs either path=RECORDS or dictionary=FILE; with a dictionary, no record is read")
    if options.dictionary is not None:
        _from_dictionary(Path(options.dictionary), out)
        return
    seen = None if out is None else output_paths.file(str(output_paths.seen(out)), force=options.force)
    given = str(options.path)
    path = Path(given)
    found: Found | None
    if database_url.is_url(given):
        address = database_url.address(given, options.table, options.query_file)
        if tables := record_files.look_into_tables(address):
            _of_tables(tables, Path(Path(address.database or address.name).stem), given, out, seen)
            return
        found, path = record_files.look_into(address), Path(address.name)
    elif options.table is not None or options.query_file is not None:
        raise BadInput("table= and query_file= belong to path=URL, such as postgresql://user@host/name")
    else:
        if record_files.holds_tables(path):
            looked = {name: record_files.look(file) for name, file in record_files.files_in(path).items()}
            _of_tables(looked, path, given, out, seen)
            return
        found = None if picture_draft.holds_pictures(path) else record_files.look(path, options.sheet)
    drafted = draft(*picture_draft.drafted(path)) if found is None else draft(found.frame, path, found=found)
    for line in () if found is None else found.lines():
        print(line, file=sys.stderr if out is None else sys.stdout)
    if found is not None and path.name.lower().endswith(
        (*record_files.TEXT_ENDINGS, foreign.XLSX)
    ):  # others name their columns
        _doubt_header(path, found.frame)
    if out is None or seen is None:
        print(drafted.schema, end="")
        return
    _keep(drafted, {"": [] if found is None else found.open}, "its review marks", out, seen)
    asked = {"data__table": options.table, "data__query_file": options.query_file}
    print(output_paths.then("check", data__path=given, **asked, data__schema=out))


def _of_tables(found: "dict[str, Found]", name: Path, given: str, out: Path | None, seen: Path | None) -> None:
    """A draft of the linked tables in a folder or a database."""
    from synthdp.sets.draft import draft_tables

    drafted = draft_tables(found, name)
    for table, each in found.items():
        for line in each.lines():
            print(f"{table}: {line}", file=sys.stderr if out is None else sys.stdout)
    if out is None or seen is None:
        print(drafted.schema, end="")
        return
    _keep(drafted, {table: each.open for table, each in found.items()}, "the links and review marks", out, seen)
    print(output_paths.then("check", data__path=given, data__schema=out))


def _keep(drafted: "Drafted", left: Mapping[str, Iterable[str]], marks: str, out: Path, seen: Path) -> None:
    """Write a draft and what was seen in the records, and say so. `left` has, by table ("" for a single one), the columns whose reading
    still has a TODO; the look is logged with a schema without these readings. Raises `BadInput` before anything is written if the draft
    makes no valid schema."""
    values = yamlfile.parse(drafted.schema, "draft")
    for table, columns in left.items():
        for name in columns:
            (values["tables"][table] if table else values)["reading"]["columns"].pop(name, None)
    made = Schema.from_dict(values)
    atomic.write(seen, drafted.seen, private=True)
    atomic.write(out, drafted.schema)
    looks.keep(out, looks.DRAFT, made)
    open_ = [f"{table}.{name}" if table else name for table, columns in left.items() for name in columns]
    first = f"replace TODO under reading ({', '.join(map(repr, open_))}), " if open_ else ""
    print(f"draft     {out}: {first}go through {marks}, and name in declared_by who answers for it")
    print(f"internal  {seen}: what was seen in the records, for your eyes only")


def _put(text: str, out: Path | None, said: str) -> None:
    """Print a draft that saw no record, or write it to its file and say so."""
    if out is None:
        print(text, end="")
        return
    atomic.write(out, text)
    print(f"draft     {out}: {said}")


UNREAD = (
    "no record was read. Answer its questions, go through its review marks, and name in declared_by who answers for it"
)


def _of_cdm(options: settings.Draft, out: Path | None) -> None:
    """A draft for a CDM: no record is read."""
    from synthdp.omop import cdm_draft

    if options.vocabulary is not None:
        cdm_draft.check_apart(options.vocabulary, options.path)
        if out is None:
            raise BadInput("vocabulary= needs out=FILE, beside which the lists of concepts are written")
    lists, version = None, None
    if options.vocabulary is not None and out is not None:
        folder = output_paths.folder(str(out.with_name(f"{out.stem}.concepts")), force=options.force)  # edited by hand
        lists, version = cdm_draft.concept_lists(options.vocabulary, folder), cdm_draft.version_of(options.vocabulary)
    _put(cdm_draft.draft(options.path, lists, version), out, UNREAD)
    if out is None:
        return
    for each in (lists or {}).values():
        most = f", at most {MOST_CODES:,}" if each.number > MOST_CODES else ""
        print(
            f"concepts  {out.parent / each.file}: {each.number:,} concepts; keep those that may be known to occur{most}"
        )
    if options.path is not None:
        told = {"data__path": options.path, "data__vocabulary": options.vocabulary, "data__schema": out}
        print(output_paths.then("check", data__format="omop", **told))


def _of_patient_files(options: settings.Draft, out: Path | None) -> None:
    """A draft for Synthea's export or MIMIC-III: no record is read."""
    from synthdp.omop import patient_files

    _put(patient_files.draft(options.format, options.path), out, UNREAD)
    if out is not None and options.path is not None:
        print(output_paths.then("check", data__format=options.format, data__path=options.path, data__schema=out))


def completion(config: Config) -> None:
    """What a shell reads to complete synthdp's words."""
    from synthdp.cli import completion as written

    print(written.text(config["options"].shell), end="")


def _from_dictionary(path: Path, out: Path | None) -> None:
    from synthdp.sets import dictionary

    said = "from the dictionary, without a look at records\n          go through its review marks"
    _put(dictionary.schema_text(path), out, f"{said}, and name in declared_by who answers for it")


def _doubt_header(path: Path, frame: "DataFrame") -> None:
    """Warn where names of columns look like a record's cells: of a file without a header they are."""
    from synthdp.schema import cells

    names = list(map(str, frame.columns))
    form = re.compile(f"{cells.NUMBER}|{cells.INSTANT}")
    found = [name for name in names if form.fullmatch(name) or name.lower() in cells.TRUTHS]
    what, cause = "numbers, dates or truth values", ""
    if not found:
        found = [name for name in names if (frame[name].astype(str) == name).any()]
        what, cause = (
            "among the cells of their columns",
            ". If the header is repeated among the records, take it out there",
        )
    if found:
        output_paths.warn(
            f"{path}: is the first line a header? {len(found)} of {len(names)} names of columns are {what}. If it is a record, "
            f"add a header and draft again: a draft states these names as public{cause}"
        )
        return
    joined = len(names) == 1 and (frame[names[0]].astype(str).str.contains(r"[,;|\t]")).mean() > 0.5
    late = [name for name in names if _begins_late(frame[name])]
    if joined or late:
        why = (
            "It names one column, and most cells hold separators" if joined else "Numbers begin only some rows below it"
        )
        output_paths.warn(
            f"{path}: is the first line a header? {why}. If the table begins further down, delete the lines above its header and draft "
            "again: a draft states the first line as public"
        )


def _begins_late(column: "Series[Any]") -> bool:
    """Whether only the first few cells of a column of texts are no numbers."""
    from synthdp.schema import cells

    texts = column.dropna() if column.dtype.kind in "OUT" else column[:0]
    if len(texts) == 0 or not re.fullmatch(cells.NUMBER, str(texts.iloc[-1])):
        return False
    numbers = texts.astype(str).str.fullmatch(cells.NUMBER).to_numpy(bool)
    first = int(numbers.argmax())
    return first > 0 and bool(numbers[first:].all()) and len(numbers) > ROWS_PER_TITLE * first


def data(config: Config) -> None:
    """List the named data sets."""
    rows = named.describe()
    if config["options"].format == "json":
        print(json.dumps([dataclasses.asdict(row) for row in rows]))
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        state = "present" if row.present else "absent"
        print(f"{row.name:<{width}}  {state:<7}  {row.summary}")
        print(f"{'':<{width}}           {row.source if row.present else row.missing}")


PEOPLE = (2_000, 500)  # of the made-up clinic: to fit, and held out


def demo(config: Config) -> None:
    """Fit, sample, evaluate and report on the embedded data set, or on linked tables of a made-up clinic."""
    options: settings.Demo = config["options"]
    with output_paths.claimed(options.out, force=options.force) as out:
        _demo(config, out)


def _demo(config: Config, out: Path) -> None:
    from synthdp.api import verify
    from synthdp.report.statement_page import write

    options: settings.Demo = config["options"]
    fits.warn_of_large(config["budget"])
    fit = settings.Fit(out=options.out, seed=options.seed)
    config = {**config, "options": fit, "audit": settings.Plant(), "data": settings.Data(name="meps")}
    release, account, judged = (_demo_of_tables if options.histories else _demo_of_one)(config, out)
    write(release.statement, out / "report", verified=verify(out / "release"))
    statement = release.statement
    result = judged()
    print()
    print(f"synthetic records   {out / ('synthetic' if options.histories else 'synthetic.csv')}")
    print(f"guarantee, a page   {out / 'report' / 'statement.html'}")
    print(f"evaluation, a page  {out / 'evaluation' / 'evaluation.html'} (internal: do not release)")
    print(
        f"guarantee           {fits.guarantee(statement.epsilon, statement.delta, statement.unit, statement.accountant)}"
    )
    output_paths.say(evaluations.headline(result))
    print(f"account             {spent_of(account)}")
    print()
    output_paths.say(_answers(statement, result, out))
    for line in fits.cautions(statement, account):
        output_paths.warn(line)


Demonstrated = tuple["Release", "AccountFile | None", Callable[[], Mapping[str, Any]]]  # and its evaluation, when asked


def _demo_of_one(config: Config, out: Path) -> Demonstrated:
    from synthdp.sets import record_files

    account = account_of(config["account"], config["data"])
    fits.check_settings(config, named.schema_of("meps"))
    fits.check_account(account, config, named.schema_of("meps"), out)
    chosen = named.load("meps")
    for note in chosen.notes:
        print(note)
    release = fits.fitted(config, chosen.schema, chosen.train, out, account)
    synthetic = out / "synthetic.csv"
    rows = len(chosen.test) * 4  # a public number: the split is 80 to 20
    with output_paths.progress("sample") as step:
        request = settings.Sample(release="", rows=rows, out=str(synthetic), seed=config["options"].seed)
        record_files.write(_counted(release, request, step), synthetic, release.schema, force=True)
    frame = record_files.read(synthetic, schema=release.schema)
    judge, claim = settings.Judge(), evaluations.claim_of(release.statement)
    real = chosen.train, chosen.test, chosen.schema
    return release, account, lambda: evaluations.evaluated([frame], *real, judge, out / "evaluation", claim)


def _demo_of_tables(config: Config, out: Path) -> Demonstrated:
    from synthdp.sets import made_up_clinic, record_files

    schema, folder = made_up_clinic.schema(PEOPLE[0]), out / "tables"
    config = {**config, "data": settings.Data(path=str(folder))}
    account = account_of(config["account"], config["data"])
    fits.check_settings(config, schema)
    fits.check_account(account, config, schema, out)
    train, test = (made_up_clinic.tables(people, seed) for seed, people in enumerate(PEOPLE, 1))
    print("a made-up clinic: people, their visits, and the diagnoses of a visit")
    out.mkdir(parents=True, exist_ok=True)
    record_files.write_tables(train, folder, schema, force=True)
    release = fits.fitted(config, schema, train, out, account)
    made = release.sample_tables(PEOPLE[0], seed=config["options"].seed)
    record_files.write_tables(made, out / "synthetic", release.schema, force=True)
    judge = settings.Judge(survival=("person.death", {"diagnosis.code": "E11"}))
    claim = evaluations.claim_of(release.statement)
    return (
        release,
        account,
        lambda: evaluations.evaluated([made], train, test, schema, judge, out / "evaluation", claim),
    )


def _answers(statement: "Statement", result: Mapping[str, Any], out: Path) -> list[str]:
    """The steward's two questions as the pages answer them, and how to open the pages."""
    from synthdp.evaluate.evaluation_page import first_screen

    share, (use, *_) = sharing(statement), first_screen(result)
    pages = [(out / name).resolve().as_uri() for name in ("report/statement.html", "evaluation/evaluation.html")]
    return [
        f"Can I share it?     {share.short} {share.text}",
        f"Is it useful?       {use['verdict']}. {use['answers'][0]['text']}",
        "",
        f"Open the pages in a browser: {pages[0]} (the guarantee)",
        f"                             {pages[1]} (internal: do not release)",
    ]


def _counted(release: "Release", options: settings.Sample, step: output_paths.Step) -> Any:
    return _told(release.stream(options.rows, where=options.where, seed=options.seed), options.rows, step, len)


def _told(parts: Iterable[Any], rows: int, step: output_paths.Step, size: Callable[[Any], int]) -> Iterator[Any]:
    done = 0
    for part in parts:
        done = min(rows, done + size(part))
        step(done, rows)
        yield part
