"""One function per command: from a checked configuration to files and a few lines of text."""

import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from synthdp.cli import audits, bigtables, judged, places, selections, settings, show
from synthdp.cli.budgets import brief, spent_of
from synthdp.cli.dataaccount import account_of
from synthdp.cli.settings import changed
from synthdp.data.tables import Files
from synthdp.errors import BadInput
from synthdp.privacy.accounts import AccountFile
from synthdp.privacy.budget import Budget
from synthdp.privacy.events import RECORD
from synthdp.privacy.ledger import Ledger

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.api import Release
    from synthdp.data.schema import Schema
    from synthdp.privacy.ranks import Ranks

Config = Mapping[str, Any]


def fit(config: Config) -> None:
    """Fit a release: out/release may leave, out/internal must not."""
    from synthdp.privacy.ranks import joined
    from synthdp.report import fitwords

    options: settings.Fit = config["options"]
    ranks = joined()
    if ranks.world > 1 and (options.resume or changed(config["audit"], ("canaries", "records"))):
        raise BadInput("under torchrun a fit cannot be resumed and plants no canaries: leave resume= and audit.* out")
    selections.check(config, ranks.world)
    if ranks.rank > 0:
        return _follow(config, ranks)
    out = places.folder(config["out"], force=options.force or options.resume)
    if options.resume:
        places.check_unfinished(out)
    account = account_of(config["account"], config["data"])
    schema, frame = _training(
        config["data"], config["generator"], lambda schema: _check_account(account, config, schema, out)
    )
    if isinstance(frame, Files):
        bigtables.refuse(options, canaries=changed(config["audit"], ("canaries", "records")) != [])
        account = account and dataclasses.replace(account, source=frame)
    if schema.declared_by is None:
        warnings.warn(
            "the schema names nobody in declared_by: review every line of it (a draft was read off the records), then say who "
            "declared it; the statement will tell that nobody did",
            stacklevel=1,
        )
    release = _fit(config, schema, frame, out, account, ranks)
    statement = release.statement
    print(f"release    {out / 'release'}")
    if options.select:
        print(f"generator  {statement.generator}, the best of a number of runs that is told to nobody")
    print(f"guarantee  {_guarantee(statement.epsilon, statement.delta, statement.unit, statement.accountant)}")
    for line in (*fitwords.brief(statement.fitness), *brief(account)):
        print(line)
    if statement.rehearsal:
        print("rehearsal  seeded noise can be regenerated: not for release")
    return None


def _follow(config: Config, ranks: "Ranks") -> None:
    """The part of a process that torchrun started beside the first one: it lends its shard, and writes and prints nothing."""
    from synthdp.api import Synthesizer

    options: settings.Fit = config["options"]
    schema, frame = _training(config["data"], config["generator"], lambda _: None)
    synthesizer = Synthesizer(config["generator"], schema=schema, budget=config["budget"])
    synthesizer.fit(frame, seed=options.seed, invalid=options.invalid, ranks=ranks, fitness=options.fitness)


def sample(config: Config) -> None:
    """Draw records from a release into one file, or pictures into a folder."""
    from synthdp.api import check_seed, load
    from synthdp.data import sources

    options: settings.Sample = config["options"]
    check_seed(options.seed)
    if options.rows < 0:
        raise BadInput(f"rows must be 0 or more, got {options.rows}")
    release = load(options.release)
    out = places.records(options.out, release.schema, force=options.force)
    with show.progress("sample") as step:
        sources.write(_counted(release, options, step), out, release.schema)
    print(f"{options.rows} synthetic records in {out}")
    if release.statement.rehearsal:
        print("rehearsal  the release's noise can be regenerated: not for release")


def evaluate(config: Config) -> None:
    """Judge synthetic records; what it writes is internal."""
    from synthdp.data import sources

    options: settings.Evaluate = config["options"]
    out = places.folder(options.out, force=options.force)
    schema, train, test = real(config["data"])
    synthetic = sources.read(Path(options.synthetic), schema=sources.as_written(schema))
    samples, claim = judged.samples_of(synthetic, options.release, config["evaluate"].samples)
    result = _evaluate(samples, train, test, schema, config["evaluate"], out, claim, pdf=options.pdf)
    for line in headline(result):
        print(line)
    print(f"page       {out / 'evaluation.html'}{' and .pdf' if options.pdf else ''} (internal: do not release)")


def report(config: Config) -> None:
    """Write the statement of a release as a page and as JSON."""
    from synthdp.api import load
    from synthdp.report.page import write

    options: settings.Report = config["options"]
    release = load(options.release)
    out = places.folder(options.out, force=options.force)
    write(release.statement, out, pdf=options.pdf)
    print(f"statement  {out / 'statement.html'}{' and statement.pdf' if options.pdf else ''}")


def schema(config: Config) -> None:
    """Draft a schema from a file, or from a folder of pictures; every line is for review."""
    from synthdp.data import sources
    from synthdp.data.draft import draft
    from synthdp.data.images import look

    options: settings.Draft = config["options"]
    out = None if options.out is None else places.file(options.out, force=options.force)
    path = Path(options.path)
    text = draft(*look.drafted(path)) if look.holds_pictures(path) else draft(sources.read(path), path)
    if out is None:
        print(text, end="")
        return
    out.write_text(text, encoding="utf-8")
    print(f"{out}: a draft that was read off the records; replace what it says by public knowledge, line by line")


def data(config: Config) -> None:
    """List the named data sets."""
    from synthdp.data import named

    rows = named.describe()
    if config["options"].format == "json":
        print(json.dumps([dataclasses.asdict(row) for row in rows]))
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        state = "present" if row.present else "absent"
        print(f"{row.name:<{width}}  {state:<7}  {row.summary}")
        print(f"{'':<{width}}           {row.source if row.present else row.missing}")


def demo(config: Config) -> None:
    """Fit, sample, evaluate and report on the embedded data set."""
    from synthdp.data import named, sources
    from synthdp.report.page import write

    options: settings.Demo = config["options"]
    out = places.folder(options.out, force=options.force)
    account = account_of(config["account"], settings.Data(name="meps"))
    _check_account(account, config, named.schema_of("meps"), out)
    chosen = named.load("meps")
    for note in chosen.notes:
        print(note)
    release = _fit(config, chosen.schema, chosen.train, out, account)
    synthetic = out / "synthetic.csv"
    rows = len(chosen.test) * 4  # a public number: the split is 80 to 20
    with show.progress("sample") as step:
        request = settings.Sample(release="", rows=rows, out=str(synthetic), seed=options.seed)
        sources.write(_counted(release, request, step), synthetic, release.schema)
    write(release.statement, out / "report")
    frame = sources.read(synthetic, schema=release.schema)
    statement = release.statement
    judge, claim = settings.Judge(), judged.claim_of(statement)
    result = _evaluate([frame], chosen.train, chosen.test, chosen.schema, judge, out / "evaluation", claim)
    print()
    print(f"synthetic records   {synthetic}")
    print(f"guarantee, a page   {out / 'report' / 'statement.html'}")
    print(f"evaluation, a page  {out / 'evaluation' / 'evaluation.html'} (internal: do not release)")
    print(f"guarantee           {_guarantee(statement.epsilon, statement.delta, statement.unit, statement.accountant)}")
    for line in headline(result):
        print(line)
    print(f"account             {spent_of(account)}")


def headline(result: Mapping[str, Any]) -> list[str]:
    """What matters, a line each: utility beside its ceiling, fidelity, the subgroup that loses most, the attacks' verdicts."""
    if result.get("kind") == "images":
        from synthdp.evaluate.images.words import headline as told

        return told(result)
    lines = []
    for target, scores in result["targets"].items():
        if scores.get("kind") == "number":
            lines += _number_line(target, scores["average"])
            continue
        tstr, trtr = _mean_auroc(scores["tstr"]), _mean_auroc(scores["trtr"])
        if tstr is not None and trtr is not None:
            lines.append(
                f"TSTR AUROC          {tstr:.3f} on {target}; trained on real records {trtr:.3f}; chance 0.500"
            )
    lines += [f"not computed        {item['metric']}: {item['reason']}" for item in result["not_computed"]]
    two_way = result["fidelity"].get("tvd_2way")
    if two_way:
        lines.append(f"fidelity            mean 2-way total variation distance {two_way['mean']:.3f}; 0 is perfect")
    from synthdp.evaluate.words import brief

    return lines + [f"{label:<18}  {text}" for label, text in brief(result)]


def _check_account(account: AccountFile | None, config: Config, schema: "Schema", out: Path) -> None:
    """Refuse what the account refuses, before a record is read."""
    if account is None or (isinstance(account.source, Path) and not account.source.exists()):
        return  # that the records are not there will be said
    ledger = out / "internal" / places.NEW
    resumed = ledger if getattr(config["options"], "resume", False) and ledger.exists() else None
    account.check(config["budget"], schema.unit or RECORD, resumed=resumed)


def _fit(
    config: Config,
    schema: "Schema",
    frame: "pd.DataFrame | Files",
    out: Path,
    account: AccountFile | None,
    ranks: "Ranks | None" = None,
) -> "Release":
    from synthdp.api import Synthesizer
    from synthdp.privacy.ranks import ALONE

    ranks = ranks or ALONE
    options = config["options"]
    internal, history = out / "internal", []
    resume = getattr(options, "resume", False)
    ledger = places.open_ledger(internal, resume=resume)
    if account is not None and account.source is None:
        account = dataclasses.replace(account, source=frame)  # the account knows the table without its canaries
    if not isinstance(frame, Files):
        frame = audits.planted(config.get("audit"), frame, schema, internal, resume=resume)
    select = getattr(options, "select", None)
    synthesizer = None if select else Synthesizer(config["generator"], schema=schema, budget=config["budget"])
    start = time.monotonic()
    with show.progress("select" if select else f"fit {config['generator'].name}") as step:

        def seen(done: int, steps: int, figures: Mapping[str, float]) -> None:
            finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
            history.append({"step": done, **finite})
            step(done, steps, figures)

        try:
            if synthesizer is None:
                release = selections.best(config, schema, cast("pd.DataFrame", frame), ledger, account)
            else:
                release = synthesizer.fit(
                    frame,
                    seed=options.seed,
                    invalid=getattr(options, "invalid", "error"),
                    ledger=ledger,
                    checkpoint=internal / "checkpoint.safetensors" if ranks.world == 1 else None,
                    ranks=ranks,
                    resume=resume,
                    account=account,
                    audit=audits.told(internal),
                    fitness=getattr(options, "fitness", None),
                    progress=seen,
                )
            release.save(out / "release", force=True)
            audits.bind(internal, out / "release")
        except BaseException:
            _say_what_was_charged(ledger, config["budget"])
            if not ledger.exists():
                audits.forget(internal)
            raise
    places.close_ledger(internal)
    internal.mkdir(parents=True, exist_ok=True)
    (internal / "config.yaml").write_text(yaml.safe_dump(config["plain"], sort_keys=False), encoding="utf-8")
    run = {"training": history} if select else {"seconds": time.monotonic() - start, "training": history}
    (internal / "training.json").write_text(json.dumps(run, indent=1), encoding="utf-8")
    return release


def _evaluate(
    samples: "list[pd.DataFrame]",
    train: "pd.DataFrame",
    test: "pd.DataFrame",
    schema: "Schema",
    judge: settings.Judge,
    out: Path,
    claim: dict[str, Any] | None,
    *,
    pdf: bool = False,
) -> Mapping[str, Any]:
    from synthdp import evaluate as judging

    if pdf:
        from synthdp.paper.pdf import check

        check()

    with show.progress("evaluate") as step:
        result = judged.judged(samples, train, test, schema, judge, claim, step)
    judging.write(result, out, pdf=pdf)
    return result


def _training(
    source: settings.Data, generator: Any, check: "Callable[[Schema], None]"
) -> "tuple[Schema, pd.DataFrame | Files]":
    """The schema and the records, which are read when `check` does not refuse; or where they stay."""
    from synthdp.data import named, sources
    from synthdp.data.schema import Schema

    _refuse_both(source)
    if source.name is not None:
        check(named.schema_of(source.name))
        chosen = named.load(source.name)
        return _targeted(chosen.schema, source.target), chosen.train
    path = source.path or source.train
    if path is None or source.schema is None:
        raise BadInput(
            "records need data=NAME, or data.path=FILE with data.schema=FILE.yaml (synthdp schema path=FILE drafts one)"
        )
    schema = _targeted(Schema.load(source.schema), source.target)
    check(schema)
    held = bigtables.source_of(source, generator, schema)
    return schema, sources.read(Path(path), schema=schema) if held is None else held


def real(source: settings.Data) -> "tuple[Schema, pd.DataFrame, pd.DataFrame]":
    """The schema, and the real records: those that were fitted and those that were held out."""
    from synthdp.data import named, sources
    from synthdp.data.schema import Schema

    _refuse_both(source)
    if source.name is not None:
        chosen = named.load(source.name)
        return _targeted(chosen.schema, source.target), chosen.train, chosen.test
    train = source.train or source.path
    if train is None or source.test is None or source.schema is None:
        raise BadInput("evaluate needs data=NAME, or data.train=FILE data.test=FILE data.schema=FILE.yaml")
    schema = _targeted(Schema.load(source.schema), source.target)
    return schema, sources.read(Path(train), schema=schema), sources.read(Path(source.test), schema=schema)


def _refuse_both(source: settings.Data) -> None:
    files = [name for name in ("path", "schema", "train", "test") if getattr(source, name) is not None]
    if source.name is not None and files:
        raise BadInput(f"data={source.name} and data.{files[0]} contradict each other: give a named data set or files")


def _targeted(schema: "Schema", target: str | None) -> "Schema":
    return schema if target is None else schema.with_targets(target)


def _counted(release: "Release", options: settings.Sample, step: show.Step) -> Any:
    done = 0
    for frame in release.stream(options.rows, where=options.where, seed=options.seed):
        done += len(frame)
        step(done, options.rows)
        yield frame


def _say_what_was_charged(ledger: Path, budget: Budget) -> None:
    from synthdp.privacy import accounting
    from synthdp.report.words import upper

    if not ledger.exists():
        return
    accountant, epsilon = accounting.best(Ledger.read(ledger), budget.delta)
    print(
        f"charged so far: epsilon {upper(epsilon)} at delta {budget.delta:g} ({accountant}); "
        f"see {ledger}; resume=true goes on from there"
    )


def _guarantee(epsilon: float, delta: float, unit: str, accountant: str) -> str:
    from synthdp.report.words import upper

    return f"epsilon {upper(epsilon)} at delta {delta:g} per {unit} (by {accountant})"


def _number_line(target: str, average: Mapping[str, Any]) -> list[str]:
    made, real = (average.get(arm, {}).get("r2") for arm in ("tstr", "trtr"))
    if made is None or real is None:
        return []
    return [
        f"TSTR R2             {made['mean']:.3f} on {target}; trained on real records {real['mean']:.3f}; the mean 0.000"
    ]


def _mean_auroc(models: Mapping[str, Any]) -> float | None:
    values = [scores["auroc"]["mean"] for scores in models.values() if "auroc" in scores]
    return sum(values) / len(values) if values else None
