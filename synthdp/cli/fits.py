"""`synthdp fit`: from a checked configuration to a release, and what it cost."""

import dataclasses
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from synthdp import accounting, generators
from synthdp.budgets import AccountFile
from synthdp.cli import audits, looks, option_values, output_paths, real_records, settings
from synthdp.cli.budgets import account_of, brief, others_beside
from synthdp.errors import BadInput, listed, warnings_shown
from synthdp.files import CHECKPOINT, atomic
from synthdp.generators.parts.setting_checks import changed
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD
from synthdp.ledger.ledger import Ledger
from synthdp.report import fitness_words, information_loss, words
from synthdp.report.manifest import TABLES
from synthdp.report.statement import Statement, edited, read_off
from synthdp.report.words import upper
from synthdp.schema.columns import LEARN, Categorical, Column, Datetime, has_declared_tree
from synthdp.schema.contradictions import contradictions
from synthdp.schema.history_view import IN_WORDS
from synthdp.schema.linked_tables import column_of, once
from synthdp.schema.rules import Order
from synthdp.schema.schema import Schema, clamping
from synthdp.schema.tied_columns import ties
from synthdp.tables import database_url
from synthdp.tables.source import Files, Query, Source

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.api import Release, Synthesizer
    from synthdp.planning import Table
    from synthdp.seal.processes import Ranks


Config = Mapping[str, Any]
LARGE = 10  # epsilon above which a guarantee says little
MOST_BOUNDS = 40  # learned ones that a fit lists
DROWNED = 3  # tables that a line names, at most
SOME_ROWS = 1000  # to sample, where nobody says how many units there are


def check_fit(config: Config) -> None:
    """Refuse what the options, the schema and the budget say cannot be fitted. Nothing is opened or charged: a sweep is refused as a
    whole before its first fit."""
    from synthdp.seal.processes import joined

    options: settings.Fit = config["options"]
    world = joined().world
    if world > 1 and (options.resume or config["audit"] != settings.Plant()):
        raise BadInput(
            "under torchrun a fit cannot be resumed and cannot plant canaries: leave out resume= and audit.*"
        )
    schema = real_records.declared(config["data"])
    if schema.tables and config["audit"] != settings.Plant():
        raise BadInput("canaries are planted into one table: leave audit.* out for linked tables")
    check_choice(config, schema, world)
    if options.select:
        check_candidates(config, schema)
    else:
        check_settings(config, schema)


def synthesizer(config: Config, schema: Schema) -> "Synthesizer":
    """What fits the generator of these options. Raises `BadInput` where its settings do not fit the schema."""
    from synthdp.api import Synthesizer

    return Synthesizer(config["generator"], schema=schema, budget=config["budget"], trust=config["options"].trust)


def check_settings(config: Config, schema: Schema) -> None:
    """Refuse settings of a generator that do not fit the schema, or cost more than the budget."""
    options: settings.Fit = config["options"]
    synthesizer(config, schema).afford(options.fitness, answers=options.answers)


def fit(config: Config) -> None:
    """Fit a release: out/release may leave, out/internal must not."""
    from synthdp.seal.processes import joined

    options: settings.Fit = config["options"]
    ranks = joined()
    if ranks.rank > 0:
        return _follow(config, ranks)
    output_paths.say_run(config)
    with output_paths.claimed(config["out"], force=options.force or options.resume) as out:
        return _fit(config, out, ranks)


def lead_to_comparison(configs: Sequence[Config]) -> None:
    """Print the command that compares the releases of a sweep, where its real records are known (`judged_by`)."""
    from synthdp.cli.compare import judged_by
    from synthdp.seal.processes import joined

    data = configs[0]["data"]
    real = judged_by(dataclasses.asdict(data))
    if real and joined().rank == 0 and not real_records.declared(data).tables:
        print(output_paths.then("compare", runs=Path(configs[0]["out"]).parent, **real))


def _fit(config: Config, out: Path, ranks: "Ranks") -> None:
    options: settings.Fit = config["options"]
    if options.resume:
        output_paths.check_unfinished(out)
    account = account_of(config["account"], config["data"])
    schema, frame = real_records.training(
        config["data"],
        config["generator"],
        lambda schema: check_account(account, config, schema, out, resume=options.resume),
    )
    if isinstance(frame, Files | Query):
        real_records.refuse(options, canaries=config["audit"] != settings.Plant())
        account = account and dataclasses.replace(account, source=frame)
    warn_of_large(config["budget"])
    output_paths.say([*others_beside(account), *foretold(schema, config["budget"])])
    if not options.select and not options.resume:
        output_paths.say(_drowned_histories(config, schema))
    if options.invalid == "clamp":
        print(f"clamped    {clamping(below=len(schema.tables) > 2)}; the statement says so")
    with database_url.closing(frame) if isinstance(frame, Query) else nullcontext():
        release = fitted(config, schema, frame, out, account, ranks)
    statement = release.statement
    print(f"release    {out / 'release'}")
    if options.select:
        print(f"generator  {statement.generator}, the best of several fits; their number stays secret")
    print(f"guarantee  {guarantee(statement.epsilon, statement.delta, statement.unit, statement.accountant)}")
    if statement.answers:
        print(f"tables     {out / 'release' / TABLES}: the noisy counts that were asked for, as CSV and Parquet")
    ignored = [] if config["data"].format == "omop" else output_paths.left_out(release.schema)
    output_paths.say([*bought_bounds(statement), *ignored, *fitness_words.brief(statement.fitness)])
    output_paths.say([*information_loss.brief(statement), *brief(account)])
    for line in cautions(statement, account):
        output_paths.warn(line)
    form, ending = "omop" if config["data"].format == "omop" else None, _ending(config["data"])
    file = "synthetic.npz" if release.schema.image is not None else f"synthetic{ending}"
    if release.schema.tables:
        file = "synthetic" if ending == ".csv" or form else f"synthetic/*{ending}"
    units, most = release.schema.units, release.schema.max_records_per_unit
    rows = units if isinstance(units, int) else SOME_ROWS
    if isinstance(units, int) and information_loss.several(release.schema) and not release.schema.tables:
        whose = f"{units:,} units of {release.schema.unit!r} are declared, with up to {most:,} records each"
        print(f"rows       sample counts records, not units: {whose}")
    print(output_paths.then("sample", release=out / "release", rows=rows, format=form, out=file))


def _ending(data: settings.Data) -> str:
    """The ending of the records' file, or of the first in their folder, if a file of synthetic records may have it; else .csv."""
    given = data.path or data.train or ""
    inside = sorted(Path(given).glob("[!.]*")) if given else []
    name = str(inside[0] if inside else given).lower()
    return next((each for each in (".parquet", ".xlsx", ".dta", ".sav", ".xpt", ".tsv") if name.endswith(each)), ".csv")


def bought_bounds(statement: Statement) -> list[str]:
    """The closing line that lists the learned bounds of each column."""
    found = [(each["name"], each["bought"]["bounds"]) for each in statement.columns if "bounds" in each["bought"]]
    listed = [f"{name} {words.plain(low)} to {words.plain(high)}" for name, (low, high) in found[:MOST_BOUNDS]]
    more = [f"and {len(found) - MOST_BOUNDS} more, see the statement"] * (len(found) > MOST_BOUNDS)
    return [f"bounds     learned: {'; '.join([*listed, *more])}"] if found else []


def cautions(statement: Statement, account: AccountFile | None) -> Iterator[str]:
    """What speaks against a release, or for a second look at its schema or its account."""
    if math.isinf(statement.epsilon):
        yield "epsilon is infinite, so nothing protects the records. Do not release this"
    if statement.rehearsal:
        yield "this is a rehearsal: its noise comes from a seed and can be regenerated. Do not release this"
    yield from edited(statement.declared.get("edited_after", ()))
    if seen := read_off(statement.columns):
        yield f"{seen} Not for release"
    if account is None:
        yield "this fit is entered in no account, so what it spends is not added to the other fits of these records"


def warn_of_large(budget: Budget) -> None:
    """Warn of a budget so large that the guarantee promises little."""
    if budget.epsilon > LARGE:
        output_paths.warn(
            f"epsilon {budget.epsilon:g} is large: above {LARGE} the guarantee rules out little of what an attacker could learn"
        )


def foretold(schema: Schema, budget: Budget) -> list[str]:
    """What public facts say of a fit before it is charged."""
    lines = []
    those = "records" if schema.unit is None else f"units of {schema.unit!r}"
    found = generators.findable(schema, budget)
    found = {name: least for name, least in found.items() if not has_declared_tree(column_of(schema, name))}
    if found:
        lines.append(
            f"learned    {listed([*found])}: noise hides a category or a range of numbers that fewer than about {max(found.values()):,.0f} "
            f"{those} share; numbers beyond the learned bounds count as the nearest bound. Declare what is public"
        )
        if coded := [name for name in found if isinstance(column_of(schema, name), Categorical)]:
            least = max(found[name] for name in coded)
            known = schema.units if isinstance(schema.units, int) else None
            some = "" if known is None else f", and {known:,} show at most {max(1, int(known / least)):,} of them"
            lines.append(
                f"categories ten equally common ones need about {10 * least:,.0f} {those}{some}; rarer ones of {listed(coded)} become one "
                "category for all others. Declare them"
            )
        if not isinstance(schema.units, int):  # else `afford` refuses such a fit
            lines.append(
                f"needs      more than about {generators.needed(found):,.0f} {those}: with fewer, noise hides nearly "
                f"all that is learned about {len(found)} column{'s' * (len(found) > 1)} at this budget. Declare bounds and categories, "
                "take a larger epsilon, or leave columns out (kind: ignore)"
            )
    return [*lines, *constant(schema), *tied(schema), *compared(schema), *contradicted(schema)]


def drowned(tables: "Sequence[Table]") -> list[str]:
    """A line for the single columns that noise hides, and one for the tables of several."""
    lines = []
    for name, single in (("columns", True), ("tables", False)):
        these = [table for table in tables if (len(table.columns) == 1) == single]
        if hidden := [table for table in these if table.drowned]:
            worst = sorted(hidden, key=lambda table: (table.expected or 0.0) / table.noise)[:DROWNED]
            shown = "; ".join(
                f"{' x '.join(IN_WORDS.get(name, name) for name in table.columns)} ({table.cells} cells)"
                for table in worst
            )
            more = f" and {len(hidden) - DROWNED} more" if len(hidden) > DROWNED else ""
            distinct, have = len({table.columns for table in these}), "has" if len(hidden) == 1 else "have"
            lines.append(
                f"drowned    {len(hidden)} of {distinct} {name} {have} cells that hold, on average, fewer records than two standard "
                f"deviations of the noise: {shown}{more}. Declare fewer categories or wider bins, leave out columns that nobody needs, "
                "or raise epsilon"
            )
    return lines


def apart(pairs: "Sequence[tuple[str, str]]") -> list[str]:
    """A line for the pairs of a visit's columns that no table relates."""
    if not pairs:
        return []
    return [
        f"apart      noise would hide any relation of {listed([' and '.join(pair) for pair in pairs])}: no table is asked of the two "
        "together. Declare fewer bins or categories, leave out columns that nobody needs, or raise epsilon"
    ]


def _drowned_histories(config: Config, schema: Schema) -> list[str]:
    """The same for a fit of histories, as `plan` says it: the end of a fit judges tables of type `Marginals` alone."""
    from synthdp.planning import planned

    if generators.HISTORIES not in config["generator"].traits.kinds or not isinstance(schema.units, int | float):
        return []
    found = planned(synthesizer(config, schema))
    return [*drowned(found.tables), *apart(found.apart)]


def constant(schema: Schema) -> list[str]:
    """A line that names the columns for which only one value is declared."""
    names = [column.name for column, below in once(schema) if not below and len(set(_values(column))) == 1]
    return [
        f"constant   {listed(names)}: with only one declared value, a column is the same in all synthetic records. Declare it as "
        "kind: ignore, so that it takes no share of the budget, and add it to the synthetic records afterwards"
    ] * bool(names)


def _values(column: Column) -> tuple[Any, ...]:
    """The categories, or both bounds, if they are declared and no cell may be missing."""
    if getattr(column, "missing", False):
        return ()
    declared = getattr(column, "categories", getattr(column, "bounds", LEARN))
    return () if declared == LEARN else tuple(declared)


def tied(schema: Schema) -> list[str]:
    """A line for the columns that rules on categories make one column of a model, and what that costs."""
    if schema.tables:
        return []
    lines, found = [], ties(schema)
    for made in found.compounds:
        if len(made.names) == 1:
            continue
        places = [place for place in found.honoured if {*schema.rules[place].columns} <= {*made.names}]
        rules = " and ".join(repr(schema.rules[place].text) for place in places)
        others = [place for place in found.honoured if place not in places]
        lines.append(
            f"tied       {listed(made.names)}: learned as one column of {len(made.combinations):,} combinations, so that no synthetic "
            f"record breaks {rules}. In more cells, noise more easily hides how each of them goes with other columns. With "
            f"honoured: {others} in the schema they are learned apart, and evaluate counts the records that break a rule, which may be many"
        )
    return lines


def compared(schema: Schema) -> list[str]:
    """A line for each rule by which a time must not be later than a day: every time on that day breaks it."""
    lines = []
    known = {column.name: column for column, _ in once(schema)}
    for rule in (*schema.rules, *(order for table in schema.tables for order in table.orders)):
        if not isinstance(rule, Order):
            continue
        earlier, later = (known[name] for name in rule.columns[:: 1 if rule.op in ("<", "<=", "=") else -1])
        if not isinstance(earlier, Datetime) or not isinstance(later, Datetime):
            continue
        if rule.op == "=" and earlier.resolution == "day":
            earlier, later = later, earlier
        if later.resolution == "day" and earlier.resolution != "day":
            lines.append(
                f"rule       {rule.text!r}: a day in {later.name!r} counts as its midnight, so a time in {earlier.name!r} on the "
                "same day breaks the rule. Leave the rule out, or declare both with resolution: day where the hours are not needed"
            )
    return lines


def contradicted(schema: Schema) -> list[str]:
    """A line for rules that no record can keep, alone or together."""
    lines = []
    for rules, given in contradictions(schema):
        named = " and ".join(repr(rule.text) for rule in rules)
        where = f" where {' and '.join(term.text for term in given)}" if given else ""
        what = "it" if len(rules) == 1 else "them together"
        lines.append(
            f"rule       {named}: no record with values in these columns{where} can keep {what} within the declared bounds and categories. "
            f"Correct {'the rule' if len(rules) == 1 else 'one of them'}, or what is declared of the columns"
        )
    return lines


def _follow(config: Config, ranks: "Ranks") -> None:
    """The part of a process that torchrun started beside the first one: it lends its shard, and writes and prints nothing."""
    options: settings.Fit = config["options"]
    schema, frame = real_records.training(config["data"], config["generator"], lambda _: None)
    synthesizer(config, schema).fit(
        frame, seed=options.seed, invalid=options.invalid, ranks=ranks, fitness=options.fitness, answers=options.answers
    )


def edited_after(config: Config, schema: Schema) -> tuple[str, ...]:
    """The looks at the records after which the schema's file was edited; a named data set has no such file."""
    file = config["data"].schema
    return () if file is None else looks.edited_after(Path(file), schema)


def check_account(
    account: AccountFile | None, config: Config, schema: Schema, out: Path, *, resume: bool = False
) -> None:
    """Refuse what the account refuses, before a record is read."""
    if account is None or (isinstance(account.source, Path) and not account.source.exists()):
        return  # that the records are not there will be said
    ledger = out / "internal" / output_paths.NEW
    resumed = ledger if resume and ledger.exists() else None
    account.check(config["budget"], schema.unit or RECORD, resumed=resumed)


def fitted(
    config: Config,
    schema: Schema,
    frame: "pd.DataFrame | dict[str, pd.DataFrame] | Source",
    out: Path,
    account: AccountFile | None,
    ranks: "Ranks | None" = None,
) -> "Release":
    """A fit with its ledger, its checkpoint and its canaries in out/internal, saved as out/release."""
    from synthdp.report.folder import check_replaced
    from synthdp.seal.processes import ALONE

    check_replaced(out / "release")  # which would be too late once all is charged
    ranks = ranks or ALONE
    options: settings.Fit = config["options"]
    internal, history, resume, select = out / "internal", [], options.resume, options.select
    ledger = output_paths.open_ledger(internal, resume=resume)
    if account is not None and (account.source is None or isinstance(frame, dict)):
        account = dataclasses.replace(account, source=frame)  # the account knows the table without its canaries
    if not isinstance(frame, Files | Query | dict):
        frame = audits.planted(config["audit"], frame, schema, internal, resume=resume)
    else:
        audits.forget(internal)  # of an earlier fit
        frame = dataclasses.replace(frame, folder=internal) if isinstance(frame, Files) else frame
    made = None if select else synthesizer(config, schema)
    start = time.monotonic()
    with output_paths.progress("select" if select else f"fit {config['generator'].name}") as step, warnings_shown():

        def seen(done: int, steps: int, figures: Mapping[str, float]) -> None:
            finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
            history.append({"step": done, **finite})
            step(done, steps, figures)

        try:
            if made is None:
                release = best_of(config, schema, cast("pd.DataFrame", frame), ledger, account)
            else:
                release = made.fit(
                    frame,
                    seed=options.seed,
                    invalid=options.invalid,
                    ledger=ledger,
                    checkpoint=internal / CHECKPOINT if ranks.world == 1 else None,
                    ranks=ranks,
                    resume=resume,
                    account=account,
                    audit=audits.told(internal),
                    fitness=options.fitness,
                    answers=options.answers,
                    edited_after=edited_after(config, schema),
                    progress=seen,
                )
            release.save(out / "release", force=True)
            audits.bind(internal, out / "release")
        except BaseException as error:
            saved = "the last checkpoint" if (internal / CHECKPOINT).exists() else "the answers that were kept"
            go_on = f"Run the same command with resume=true to continue from {saved}, at no further charge"
            if select:
                go_on = "A choice among fits cannot be resumed: it stays charged, and a new one needs another folder, or force=true"
            if resume and isinstance(error, BadInput):  # which says what can be done
                go_on = ""
            say_what_was_charged(ledger, config["budget"], go_on, account)
            if not ledger.exists():
                audits.forget(internal)
            raise
    output_paths.close_ledger(internal)
    internal.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic.write(internal / "config.yaml", yaml.safe_dump(config["plain"], sort_keys=False), private=True)
    run = {"training": history} if select else {"seconds": time.monotonic() - start, "training": history}
    atomic.write(internal / "training.json", json.dumps(run, indent=1), private=True)
    return release


def say_what_was_charged(ledger: Path, budget: Budget, next_step: str, account: AccountFile | None) -> None:
    """Say what a fit that ended without a release has cost, if anything, and what can be done."""
    if not ledger.exists():
        return
    held = Ledger.read(ledger)
    accountant, epsilon = accounting.best(held, budget.delta)
    output_paths.warn(
        f"charged so far: epsilon {upper(epsilon)} at delta {budget.delta:g} ({accountant}); see {ledger}{_entered(account, held)}"
        + (next_step and f". {next_step}")
    )


def _entered(account: AccountFile | None, held: Ledger) -> str:
    """What the account holds of a fit: its whole plan is charged there before its first question."""
    if account is None or not held.claims:
        return ""
    try:
        standing = account.read()
    except BadInput:
        return f". The account {account.path} cannot be read now, and may hold the fit's whole plan"
    fit = None if standing is None else standing.claimed(held.claims)
    if fit is None:
        return f". The account {account.path} holds nothing of this fit"
    epsilon, delta = fit.budget
    return f". The account {account.path} holds its whole plan, for epsilon {epsilon:g} at delta {delta:g}"


def guarantee(epsilon: float, delta: float, unit: str, accountant: str) -> str:
    return f"epsilon {upper(epsilon)} at delta {delta:g} per {unit} (by {accountant})"


# ---- `synthdp fit select=private candidates=[...]`: the best of a hidden number of fits, charged for.


FORM = "candidates=[independent,{name:mixture,starts:1}]"


def check_choice(config: Config, schema: Schema, processes: int) -> None:
    """Refuse, before a record is read, options that do not go together."""
    options: settings.Fit = config["options"]
    if options.select is None:
        given = changed(options, ("candidates", "mean_runs"))
        if given:
            raise BadInput(f"{', '.join(given)} apply to a choice among fits: add select=private, or leave them out")
        return
    if not options.candidates:
        raise BadInput(f"select=private needs the fits to choose from, such as {FORM}")
    for candidate in options.candidates:
        generators.make(*_candidate(candidate))
    if config["generator"] != generators.find(generators.default(schema))():
        raise BadInput(
            "select=private fits its candidates only: name generators and their settings in candidates=, not in generator="
        )
    if options.fitness is not None:
        raise BadInput("select=private cannot buy figures of fitness: leave fitness= out, or fit one generator")
    if options.answers:
        raise BadInput("select=private hides the answers of its fits: leave answers= out, or fit one generator")
    if options.resume or processes > 1 or config["audit"] != settings.Plant():
        raise BadInput(
            "select=private runs in one process, cannot be resumed and cannot plant canaries: leave out resume=, torchrun and audit.*"
        )


def check_candidates(config: Config, schema: Schema) -> None:
    """Refuse candidates that do not fit the schema, or cost more than the budget."""
    from synthdp.selecting import offered

    options: settings.Fit = config["options"]
    candidates = [_candidate(candidate) for candidate in options.candidates or ()]
    offered(candidates, schema, config["budget"], mean_runs=options.mean_runs, trust=options.trust)


def best_of(
    config: Config, schema: Schema, frame: "pd.DataFrame", ledger: Path, account: AccountFile | None
) -> "Release":
    """The release of the best run; how many there were is not told."""
    from synthdp.selecting import select

    options: settings.Fit = config["options"]
    return select(
        [_candidate(candidate) for candidate in options.candidates or ()],
        frame,
        schema,
        config["budget"],
        mean_runs=options.mean_runs,
        seed=options.seed,
        invalid=options.invalid,
        ledger=ledger,
        account=account,
        trust=options.trust,
        edited_after=edited_after(config, schema),
    )


def _candidate(given: Any) -> tuple[str, Mapping[str, Any]]:
    """A name, or a mapping that holds one beside its settings."""
    if isinstance(given, str):
        return given, {}
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise BadInput(f"a candidate is a generator's name, or a name with settings, as in {FORM}")
    found = option_values.made(
        generators.find(given["name"]), {**option_values.defaults(generators.find(given["name"])), **_known(given)}
    )
    return given["name"], {name: getattr(found, name) for name in given if name != "name"}


def _known(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, refused where the generator has none of that name."""
    rest = {str(name): value for name, value in given.items() if name != "name"}
    known = [name for name, _, _ in option_values.helps(generators.find(given["name"]))]
    unknown = sorted(set(rest) - set(known))
    if unknown:
        raise BadInput(f"generator {given['name']} has no setting {unknown[0]!r}; known: {', '.join(known)}")
    return rest
