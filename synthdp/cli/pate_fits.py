"""`synthdp pate`: teachers on sensitive records label public ones by noisy votes, and a student learns from these labels."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.cli import fits, output_paths, real_records, settings
from synthdp.cli.budgets import account_of, brief
from synthdp.errors import BadInput, about, warnings_shown
from synthdp.schema.schema import CLAMPED, Schema

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.budgets import AccountFile
    from synthdp.pate import PATE, Classifier
    from synthdp.schema.columns import Column

Config = Mapping[str, Any]
CHANNELS = (16, 32)  # of convolutions
LABELLED = "labelled"  # the public records, with the student's labels


def pate(config: Config) -> None:
    """Fit a classifier: out/release may leave, and so may the labelled public records; out/internal must not."""
    with output_paths.claimed(config["out"], force=config["options"].force) as out:
        _pate(config, out)


def _pate(config: Config, out: Path) -> None:
    from synthdp.pate.code_features import public_schema
    from synthdp.report.folder import check_replaced
    from synthdp.sets import record_files

    options: settings.PateOf = config["options"]
    check_replaced(out / "release")  # which would be too late once all is charged
    schema = real_records.declared(config["data"])
    if schema.tables:
        raise BadInput(real_records.ONE_TABLE.format(what="pate"))
    target, made = target_of(schema), teaching(options, schema)
    wanted = public_schema(schema, target)
    public = _public(Path(options.public), schema, target)
    known = _valid(wanted, public, options)
    made.validate(schema, config["budget"], target=target, public=len(known))
    account = account_of(config["account"], config["data"])
    fits.check_account(account, config, schema, out)
    frame = real_records.one_table(real_records.reviewed(config["data"])[1], "pate")
    fits.warn_of_large(config["budget"])
    if isinstance(schema.units, int):
        each = f"{schema.units // made.teachers:,} of the {schema.units:,} declared units"
        print(f"teachers   {made.teachers}, each learns from about {each}; if these are too few, choose fewer teachers")
    output_paths.say(fits.foretold(schema, config["budget"]))
    if options.invalid == "clamp":
        print(f"clamped    {CLAMPED}; the statement says so")
    classifier = _fitted(made, config, schema, target, frame, public, account)
    ending = "".join(suffix for suffix in Path(options.public).suffixes[-2:] if suffix in (".csv", ".gz", ".parquet"))
    labelled = out / f"{LABELLED}{ending or ('.csv' if schema.image is None else '.npz')}"
    columns = tuple(column for column in schema.columns if column.name in (*wanted.names, target))
    with_target = known.assign(**{target: classifier.predict(known)})[[column.name for column in columns]]
    record_files.write([with_target], labelled, _rows_of(schema, columns), force=True)
    statement = classifier.statement
    print(f"release    {out / 'release'}: the student, its noisy labels, and the statement")
    left = [column.name for column in schema.columns if column not in columns] + [each.name for each in schema.ignored]
    without = f", without {', '.join(map(repr, left))}" if left else ""
    print(f"labelled   {labelled}: {len(known)} public records{without}, with {target!r} as the student predicts it")
    print(f"guarantee  {fits.guarantee(statement.epsilon, statement.delta, statement.unit, statement.accountant)}")
    output_paths.say(brief(account))
    for line in fits.cautions(statement, account):
        output_paths.warn(line)


def target_of(schema: Schema) -> str:
    """The class that is learned: `data.target`, or the schema's only target."""
    if len(schema.targets) != 1:
        raise BadInput(
            f"pate learns one column, but the schema names {len(schema.targets) or 'no'} targets: give data.target=COLUMN"
        )
    return schema.targets[0]


def teaching(options: settings.PateOf, schema: Schema) -> "PATE":
    """The settings of the fit."""
    from synthdp.pate import PATE, Network, Networks, Selection, SemiSupervised
    from synthdp.pate.fit import forest
    from synthdp.pate.teaching import shape_of

    teachers: dict[str, Callable[[], Any]] = {
        "forest": forest,
        "network": Networks,
        "convolutional": lambda: Networks(channels=CHANNELS),
    }
    students: dict[str, Callable[[], Any]] = {
        "network": Network,
        "convolutional": lambda: Network(picture=shape_of(schema), channels=CHANNELS),
        "semi_supervised": SemiSupervised,
    }
    return PATE(
        teachers=options.teachers,
        teacher=teachers[options.teacher](),
        aggregator=options.aggregator,
        queries=options.queries,
        student=students[options.student](),
        distillation=options.distillation,
        selection=Selection(rounds=options.rounds, active=options.rounds > 1),
        features=options.features,
    )


def _public(path: Path, schema: Schema, target: str) -> "pd.DataFrame":
    """The public records, read as the sensitive ones are, without what says whose they are. A label that lies in the file is refused,
    not ignored."""
    from synthdp.sets import record_files

    frame = record_files.read(path, _rows_of(schema, tuple(each for each in schema.columns if each.name != target)))
    if target in frame:
        raise BadInput(
            f"public={path} has the target {target!r}: its labels would not be used. Drop the column only if these "
            "records need no protection: their other columns leave the hospital unchanged"
        )
    return frame.drop(columns=[each.name for each in schema.columns if each.kind == "identifier"], errors="ignore")


def _rows_of(schema: Schema, columns: "tuple[Column, ...]") -> Schema:
    """Rows of some of the schema's columns, written as its files are."""
    return dataclasses.replace(
        schema, columns=columns, unit=None, max_records_per_unit=1, units=None, targets=(), rules=(), honoured=None
    )


def _valid(wanted: Schema, public: "pd.DataFrame", options: settings.PateOf) -> "pd.DataFrame":
    """The public records as teachers are asked about them; an error names their file."""
    with about(f"public={options.public}"):
        return wanted.validate(
            public.drop(columns=[each.name for each in wanted.ignored], errors="ignore"), options.invalid
        )


def _fitted(
    made: "PATE",
    config: Config,
    schema: Schema,
    target: str,
    frame: "pd.DataFrame",
    public: "pd.DataFrame",
    account: "AccountFile | None",
) -> "Classifier":
    options, internal = config["options"], Path(config["out"]) / "internal"
    if account is not None and account.source is None:
        account = dataclasses.replace(account, source=frame)
    ledger = output_paths.open_ledger(internal, resume=False)
    with output_paths.progress("pate") as step, warnings_shown():
        try:
            classifier = made.fit(
                frame,
                schema=schema,
                target=target,
                public=public,
                budget=config["budget"],
                seed=options.seed,
                invalid=options.invalid,
                ledger=ledger,
                account=account,
                edited_after=fits.edited_after(config, schema),
                progress=step,
            )
            classifier.save(Path(config["out"]) / "release", force=True)
        except BaseException:
            fits.say_what_was_charged(
                ledger, config["budget"], "What was asked stays charged: a fit of PATE starts anew", account
            )
            raise
    output_paths.close_ledger(internal)
    return classifier
