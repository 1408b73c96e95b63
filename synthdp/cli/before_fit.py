"""Before a fit: `check` compares a table with its schema, `plan` says what a fit would ask, `split` holds out units."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp import generators
from synthdp.cli import fits, looks, output_paths, real_records, settings
from synthdp.cli.budgets import account_of, others_beside, own, spent_of
from synthdp.errors import BadInput, listed
from synthdp.files import atomic
from synthdp.ledger.budget import Budget
from synthdp.report.information_loss import drowned_pictures
from synthdp.schema.columns import LEARN, Numeric
from synthdp.schema.history_view import hindrance
from synthdp.schema.learned import asked_for
from synthdp.schema.schema import Schema
from synthdp.tables import database_url

if TYPE_CHECKING:
    from synthdp.omop.quality_checks import Check
    from synthdp.planning import Planned, Table
    from synthdp.schema.table_review import Finding

Config = Mapping[str, Any]
KEY = "split.key"
UNITS = re.compile(r"^units:[ \t]*[0-9]+(?=[ \t]*(#.*)?$)", re.MULTILINE)  # the line of a schema's file
EPSILON = 1  # of the budget for which `check` shows the next command
MOST_NEEDED = 5  # columns that need the most units, as `plan` names them
LIFTED = 0.05  # of the synthetic records, which noise may put where nobody is


def check(config: Config) -> None:
    """What a fit of the table would meet, for the steward's eyes."""
    from synthdp.schema.table_review import left_out, review, review_tables
    from synthdp.sets import record_files

    options: settings.Check = config["options"]
    out = None if options.out is None else output_paths.file(options.out, force=options.force)
    checks = _checks_of_cdm(config["data"])
    if config["data"].format == "omop" and config["data"].schema is None:
        _of_cdm_alone(checks, out)
        return
    schema, frame = real_records.reviewed(config["data"])
    schema.check_reading()  # what the schema alone must be corrected for is corrected before anybody looks, and so is no edit after it
    written: Any = real_records.as_written(config["data"], schema, frame)
    judge: Any = review_tables if isinstance(frame, dict) else review
    found = judge(schema, frame, written, values=options.values)
    if config["data"].format == "omop" and isinstance(frame, dict):
        from synthdp.omop import cdm_tables

        found = cdm_tables.reworded(found)
        found += cdm_tables.findings(str(config["data"].path or config["data"].train), schema, frame)
    elif config["data"].format == "files" and isinstance(frame, dict):
        found += left_out(record_files.further_tables(Path(config["data"].path or config["data"].train), schema))
    found += _hidden(schema, frame[schema.tables[0].name] if isinstance(frame, dict) else frame)
    if config["data"].schema is not None:
        looks.keep(Path(config["data"].schema), looks.VALUES if options.values else looks.CHECK, schema)
    if schema.unit is None:
        output_paths.warn(
            "each record is protected by itself. Where a patient may have several, name the column in unit:"
        )
    impossible = fits.contradicted(schema)
    output_paths.say([*fits.compared(schema), *impossible])
    output_paths.say(_told_of_cdm(checks) if checks else ())
    if out is None:
        output_paths.say(_findings(found, "row" if schema.tables else "record"))
    else:
        report: dict[str, Any] = {
            "schema": looks.digest(schema),
            "when": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "values": options.values,
            "findings": [finding.to_json() for finding in found],
        }
        if checks:
            report["checks"] = [each.to_json() for each in checks]
        atomic.write(out, json.dumps(report, indent=1, ensure_ascii=False), private=True)
        print(f"check      {len(found)} findings in {out} (internal: do not release)")
    data = config["data"]
    lost = list(dict.fromkeys(finding.column for finding in found if finding.every))
    if lost:
        raise BadInput(
            f"no cell can be read as declared in {', '.join(map(repr, lost))}: a fit would learn nothing there; correct the "
            f"file or the schema"
        )
    if any(finding.refused for finding in found):
        raise BadInput(
            "a fit would refuse the records as they are: correct them or the schema, or let invalid=clamp change the cells in question"
        )
    unlinked = [finding.column for finding in found if finding.unlinked]
    if unlinked:
        raise BadInput(
            f"hardly any key in {', '.join(map(repr, unlinked))} is in the table above: a fit would accept these rows, but learn hardly "
            "anything from them; write the keys in the same way in both files"
        )
    try:
        schema.check_declared()
    except BadInput:
        print(
            "open       plan and fit refuse a draft: delete its review marks as you go through it, and fill in declared_by"
        )
    if impossible:
        print("open       no record can keep the declared rules: correct them, and check again before you plan a fit")
    elif data.path is not None and data.schema is not None:
        asked = {"data__table": data.table, "data__query_file": data.query_file}
        asked |= {} if data.format == "files" else {"data__format": data.format}
        asked |= {"data__schema": data.schema, "generator": _generator_for(schema), "budget__epsilon": EPSILON}
        if database_url.is_url(data.path):  # which has no folder for its account
            asked |= {"account": _account_of(schema)}
        print(output_paths.then("plan", data__path=data.path, **asked))


def _hidden(schema: "Schema", people: Any) -> "Iterator[Finding]":
    """A finding if the table is too small for what the schema leaves to learn."""
    from synthdp.schema.table_review import Finding

    found = generators.findable(schema, Budget(EPSILON))
    held = len(people) if schema.unit is None else people[schema.unit].nunique()
    if 0 < held <= generators.needed(found):
        yield Finding(
            column="",
            what=f"the table is too small: at budget.epsilon={EPSILON}, noise would hide nearly all of some column",
            remedy="declare the bounds and categories that are public, leave columns out (kind: ignore), or take a larger epsilon; synthdp "
            "plan says how many records a fit needs",
        )


def _generator_for(schema: "Schema") -> str | None:
    """The generator of histories if it takes this schema; else the default."""
    return None if hindrance(schema) else "histories"


def _account_of(schema: "Schema") -> str:
    """One name for the account of all exports, wherever their parts lie."""
    return f"{schema.name or 'patients'}.account"


def _checks_of_cdm(data: settings.Data) -> "list[Check]":
    """The checks of the DataQualityDashboard, of a CDM."""
    if data.format != "omop":
        return []
    from synthdp.omop.quality_checks import checked

    where = data.path or data.train
    if where is None:
        raise BadInput("data.format=omop needs data.path=, the CDM")
    real_records.address_of(data)
    return checked(where, data.vocabulary, data.memory)


def _of_cdm_alone(checks: "list[Check]", out: Path | None) -> None:
    """A CDM that no schema describes. Raises `BadInput` where a check failed."""
    output_paths.say(_told_of_cdm(checks))
    if out is not None:
        report = {"when": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "checks": [each.to_json() for each in checks]}
        atomic.write(out, json.dumps(report, indent=1, ensure_ascii=False), private=True)
        print(f"omop       {len(checks)} checks in {out} (internal: do not release)")
    failed = sum(each.status == "failed" for each in checks)
    if failed:
        raise BadInput(f"{failed} check{'s' * (failed != 1)} of the CDM failed")


def _told_of_cdm(checks: "list[Check]") -> Iterator[str]:
    counts = Counter(each.status for each in checks)
    yield (
        f"omop       {len(checks):,} checks by the rules of OHDSI's DataQualityDashboard: {counts['passed']:,} passed, "
        f"{counts['failed']:,} failed, {counts['not run']:,} not run, {counts['empty']:,} with no row to apply to"
    )
    for name in dict.fromkeys(each.name for each in checks):
        held = Counter(each.status for each in checks if each.name == name)
        told = ", ".join(
            f"{held[status]:,} {status}" for status in ("passed", "failed", "not run", "empty") if held[status]
        )
        yield f"           {name:<31}  {told}"
    fields: dict[str, list[str]] = {}
    for each in (each for each in checks if each.status == "failed"):
        if each.name == "cdmTable":
            yield f"failed     cdmTable of {each.where}: there is no such table"
        elif each.name == "cdmField":
            table, _, field = each.where.partition(".")
            fields.setdefault(table, []).append(field)
        else:
            yield f"failed     {each.name} of {each.where}: {each.violated:,} of {each.rows:,} rows"
    for table, absent in fields.items():
        yield f"failed     cdmField of {table}: there is no {' or '.join(absent)}"
    for why, times in Counter(each.why for each in checks if each.status == "not run").items():
        yield f"not run    {times:,} checks, which is no pass: {why}"


def _findings(found: "list[Finding]", each: str) -> Iterator[str]:
    """The findings in words; `each` is what they count, such as a record."""
    if not found:
        yield "check      the records fit their schema"
        return
    for finding in found:
        where = f"column {finding.column!r}: " if finding.column else ""
        rows = (
            f" ({each}{'s' * (len(finding.rows) > 1)} {', '.join(map(str, finding.rows))}{_more(finding)})"
            if finding.rows
            else ""
        )
        count = ""
        if finding.count is not None and not finding.rows:
            count = f": {finding.count:,} {each}{'s' * (finding.count != 1)}"
        shown = f": {', '.join(map(repr, finding.cells))}" if finding.cells else ""
        yield f"check      {where}{finding.what}{count}{rows}{shown}"
        yield f"           {finding.remedy}"
    yield (
        "internal   these lines are about real records: do not release them. What they say is not public: do not copy it into "
        "the schema"
    )


def evenly(schema: "Schema", name: str) -> bool:
    """Whether a column has bins of equal width between declared bounds."""
    column = schema.column(name)
    return isinstance(column, Numeric) and column.bounds != LEARN and not isinstance(column.bins, tuple | str)


def _more(finding: "Finding") -> str:
    rest = (finding.count or 0) - len(finding.rows)
    return f" and {rest:,} more" if rest > 0 else ""


def plan(config: Config) -> None:
    """What a fit with these arguments would ask, and how much noise its answers would hold. No record is read."""
    from synthdp.api import warn_of_counted_rules
    from synthdp.generators import warn_of_large_delta, warn_of_shared_bins
    from synthdp.planning import planned

    options: settings.PlanOf = config["options"]
    if options.select is not None:
        raise BadInput("plan shows one generator: leave select= and candidates= out, and plan each candidate")
    schema = real_records.declared(config["data"])
    real_records.check_declared(config["data"], schema)
    fits.check_settings(config, schema)
    account = account_of(config["account"], config["data"])
    fits.check_account(account, config, schema, Path(options.out), resume=options.resume)
    fits.warn_of_large(config["budget"])
    warn_of_large_delta(config["budget"], schema)
    warn_of_shared_bins(schema)
    warn_of_counted_rules(schema)
    found = planned(fits.synthesizer(config, schema), time=options.time)
    if options.format == "json":
        print(json.dumps(found.to_json(), allow_nan=False))
        return
    output_paths.say_run(config)
    output_paths.say(_lines(found, schema, fits.foretold(schema, config["budget"])))
    print(f"account    {spent_of(account)}")
    output_paths.say(others_beside(account))
    data = config["data"]
    whole = data.path is not None and data.test is None and not (Path(data.path).parent / KEY).exists()
    if whole and data.query_file is None:
        path = data.path if data.table is None else f"{data.path}#{data.table}"
        form = None if data.format == "files" else data.format
        print(output_paths.then("split", format=form, path=path, schema=data.schema, out="parts"))


def split(config: Config) -> None:
    """Part a table into records to fit and records to hold out, unit by unit."""
    from synthdp.sets import record_files
    from synthdp.sets.split import HELD_OUT, TRAIN, side_of, split_linked
    from synthdp.sets.split import split as parted

    options: settings.Split = config["options"]
    out = output_paths.folder(options.out, force=options.force)
    if options.schema is None:
        raise BadInput("split needs schema=FILE.yaml, which says whose record a row is (unit:)")
    schema, key = Schema.load(options.schema), Path(options.key or out / KEY)
    new = not key.exists()
    try:
        if options.format == "omop":
            from synthdp.omop import cdm, cdm_tables

            cdm.check(schema)
            train, held_out = out / TRAIN, out / HELD_OUT
            side = side_of(options.share, key)
            out.mkdir(parents=True, exist_ok=True)
            cdm_tables.split(options.path, side.held_out, (train, held_out))
        elif options.format != "files":
            from synthdp.omop import patient_files

            frames = schema.validate_tables(patient_files.read(options.format, options.path, schema), "clamp")
            train, held_out = split_linked(frames, schema, side_of(options.share, key), out)
        else:
            train, held_out = parted(options.path, schema, share=options.share, out=out, key=key)
    except BaseException:
        if new:  # a split that failed leaves nothing behind
            key.unlink(missing_ok=True)
        with suppress(OSError):
            out.rmdir()
        raise
    whose = "each record by itself" if schema.unit is None else f"all records of one {schema.unit} together"
    print(f"train      {train}: give it to fit and, as data.train=, to evaluate")
    print(f"held out   {held_out}: give it to evaluate as data.test=")
    print(
        f"split      {whose}, about {options.share:.0%} held out by a keyed hash; key= splits a later export in the same way"
    )
    described, copied = Path(options.schema), True
    meant = schema if schema.image is None else record_files.as_written(schema)
    applied = meant != schema  # window and size of pictures
    if isinstance(schema.units, int):
        meant = replace(meant, units=max(1, round(schema.units * (1 - options.share))))
    if meant != schema:
        described = described.with_name(f"{described.stem}_{TRAIN}{described.suffix}")
        copied, said = _copied(Path(options.schema), schema, described, meant)
    if applied:
        print(
            f"pictures   in the parts they have their window and size already, and {options.schema} would apply them again: for fit and "
            f"evaluate, {said}"
        )
    if isinstance(schema.units, int):
        print(
            f"units      {options.schema} declares {schema.units:,} units, a number meant for the whole table. A fit plans its "
            f"tables by the declared number: {said}"
        )
    if not copied:
        return
    try:  # where `plan` and a fit of the whole table find it
        beside = own(settings.Data(path=options.path, format=options.format))
        account = str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)
    except BadInput:  # a database has no folder for it
        account = _account_of(schema)
    print(
        output_paths.then(
            "fit",
            **({"data__format": options.format} if options.format == "omop" else {}),
            data__path=train,
            data__schema=described,
            generator=_generator_for(schema),
            budget__epsilon=1,
            account=account,
            out="run",
        )
    )


def _copied(path: Path, schema: "Schema", copy: Path, meant: "Schema") -> tuple[bool, str]:
    """Copy a schema's file as `meant`, another number of units or pictures as they were written, with the log of earlier looks at records.
    A file that is already there stays as it is. Returns whether the copy can be fitted by, and what the command says about it."""
    from synthdp.schema.yamlfile import read_text

    changes = [f"units: {meant.units}"] * (meant.units != schema.units)
    if meant.columns != schema.columns:
        changes.append("without window and resize")
    told = " and ".join(changes)
    try:
        looks.carry(path, schema, copy, meant)
    except (OSError, BadInput):
        return False, (
            f"the log of drafts and checks of {path} cannot be carried over to {copy}, so a fit with a copy would not say that facts were "
            f"edited after a look at records; put {looks.log_of(path)} right, and split again"
        )
    with suppress(OSError, BadInput):
        text, times = UNITS.subn(f"units: {meant.units}", read_text(path))
        if meant.columns != schema.columns and not copy.exists():
            meant.save(copy)
        elif times == 1 and not copy.exists():
            atomic.write(copy, text)
        if looks.digest(Schema.load(copy)) == looks.digest(meant):
            return True, f"{copy} is a copy {_with(told)}. Use it for the fit, and make any further changes there"
    if copy.exists():
        return False, f"{copy} is there already, and is not {path} {_with(told)}: correct it, or write a new one"
    return False, f"copy the schema to {copy}, and write {told} there, before the fit"


def _with(changes: str) -> str:
    return changes if changes.startswith("without") else f"with {changes}"


def _lines(found: "Planned", schema: "Schema", foretold: list[str]) -> list[str]:
    unit, units = schema.unit or "record", schema.units
    singles = [table for table in found.tables if len(table.columns) == 1]
    larger = [table for table in found.tables if len(table.columns) > 1]
    lines = [
        f"plan       {found.generator}: noise {found.noise:.3g} times what one {unit} can change; "
        f"epsilon {found.epsilon:.3g} at delta {found.delta:g} ({found.accountant})"
    ]
    items: dict[str, list[str]] = {}
    for name, item in schema.learned:
        items.setdefault(name, []).append(item)
    buying = asked_for(items.items(), units=units == LEARN)
    for part in found.parts:
        if "filter" in part.event:
            lines.append(
                "question   as many as a limit allows, each chosen by the answers to those before it: epsilon "
                f"{part.epsilon:.3g} for all of them together, which is spent whether or not all of them are asked"
            )
            continue
        times = "asked once" if part.count == 1 else f"asked {part.count:,} times"
        whose, buying = list(dict.fromkeys(buying[: part.count])), buying[part.count :]
        what = f" to learn {listed(whose)}" if whose else ""
        what += " for " + " and ".join(map(_tables_of, part.tables)) if part.tables else ""
        what += " for " + "; ".join(part.histories) if part.histories else ""
        asked = (
            part.event["type"] if part.histories else _told(part.event)
        )  # `tables` says the noise of these, in records
        lines.append(f"question   {asked}, {times}{what}: epsilon {part.epsilon:.3g} by itself")
    lines += foretold
    lines += _of_histories([table for table in found.tables if table.of])
    if singles and not singles[0].of:
        noise, clear = (max(getattr(table, key) for table in singles) for key in ("noise", "clear"))
        lines.append(
            f"columns    a cell holds noise of up to {noise:.3g} records: a count below {clear} cannot be told from zero"
        )
    if larger and not larger[0].of:
        noise = max(table.noise for table in larger)
        lines.append(f"tables     {len(larger)} of several columns, with noise of up to {noise:.3g} records in a cell")
    if not isinstance(units, int | float):
        lines.append(_unknown_units([table for table in singles if table.columns[0] not in found.learned], f"{unit}s"))
    if found.drowned >= 1 and isinstance(units, int | float) and (image := schema.image) is not None:
        size = {"height": image.height, "width": image.width}
        told = drowned_pictures(found.drowned, units=units, unit=unit, epsilon=found.epsilon, **size)
        lines.append(f"drowned    {told}")
    lines += [*fits.drowned(found.tables), *fits.apart(found.apart)]
    if found.pairs is not None:
        lines.append(
            f"hidden     noise is likely to hide how about {found.pairs.number} of {found.pairs.counted} pairs of columns go together; "
            "what is asked again, with less noise, may depend on the records, and the statement names what stays hidden"
        )
    lifted = [table for table in singles if not table.fine and not table.of and table.lifted > LIFTED]
    wide = [table for table in lifted if evenly(schema, table.columns[0])]
    if wide:
        names = listed([table.columns[0] for table in wide])
        lines.append(
            f"spread     {names}: noise alone puts up to {max(table.lifted for table in wide):.0%} of synthetic records into bins that "
            "hold nobody. To keep these values where real ones may be, declare bounds no wider than plausible, or bins: at public marks"
        )
    if found.seconds is not None:
        few = "" if units == found.rehearsed else "; more units may take longer"
        lines.append(
            f"rehearsal  {found.seconds:.0f} s and {found.megabytes:.0f} MiB on made-up records of {found.rehearsed:,} units, on this "
            f"machine as it is now{few}"
        )
    else:
        lines.append("rehearsal  time=true runs the whole fit on made-up records and says how long it takes")
    return lines


def _unknown_units(tables: "list[Table]", those: str) -> str:
    """How many units the columns with the most declared categories or bins need for an average one to stand clear of the noise."""
    needed: dict[str, int] = {}
    for table in tables:
        if not (table.of or table.fine):
            needed[table.columns[0]] = max(table.cells * table.clear, needed.get(table.columns[0], 0))
    worst = sorted(needed, key=lambda name: -needed[name])
    if not worst:
        return "units      not declared, so nothing is said about how full the cells are"
    shown = ", ".join(f"{name} {needed[name]:,}" for name in worst[:MOST_NEEDED])
    more = f"; the {len(worst) - MOST_NEEDED} others need fewer" * (len(worst) > MOST_NEEDED)
    return f"units      not declared; with fewer {those} than this, noise hides a column's typical category or bin: {shown}{more}"


def _of_histories(tables: "list[Table]") -> list[str]:
    """How many tables are asked of people, of their records and of the rows below these, and with how much noise."""
    lines = []
    for what in dict.fromkeys(table.of for table in tables):
        held = [table for table in tables if table.of == what]
        least, most = (f"{bound(table.noise for table in held):.3g}" for bound in (min, max))
        noise = most if least == most else f"{least} to {most}"
        lines.append(
            f"tables     {len(held)} of {what}, of up to {max(table.cells for table in held):,} cells, and noise moves each count by about "
            f"{noise}"
        )
    return lines


def _tables_of(sizes: tuple[int, int]) -> str:
    columns, tables = sizes
    return f"{tables:,} table{'s' * (tables > 1)} of {columns if columns > 1 else 'one'} column{'s' * (columns > 1)}"


def _told(event: Mapping[str, Any]) -> str:
    """An event in a few words."""
    inner = event.get("queries") or [event]
    noise = next((each["noise"] for each in inner if "noise" in each), None)
    sampled = f" of a sample of {event['rate']:.2%} of the units" if "rate" in event else ""
    size = "" if noise is None else f" with noise {noise:.3g}"
    if noise is None and "epsilon" in event:
        size = f" of epsilon {event['epsilon']:.3g}"
    return f"{inner[0]['type']}{size}{sampled}"
