"""`synthdp evaluate`: synthetic records judged against real ones, and the main figures in a few lines."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp import evaluate as judging
from synthdp.cli import output_paths, real_records, settings
from synthdp.errors import BadInput, listed
from synthdp.evaluate.judging_options import Choices, Progress
from synthdp.schema.linked_tables import once
from synthdp.tables import database_url

if TYPE_CHECKING:
    from synthdp.cli.real_records import Records
    from synthdp.report.statement import Statement
    from synthdp.schema.schema import Schema


# ---- What `evaluate` and `compare` share: samples of a release, what it promises, and the call that judges them.


# Any seed will do for samples of a model that is free to share; these stay clear of the small ones that people choose.
FURTHER = 1_000_000
SHOWN = 3  # columns of a message


def claim_of(statement: "Statement") -> dict[str, Any]:
    """What a release promises, as `evaluate` takes it: with its whole privacy curve, so that bounds are those of the statement; and whether
    its fit clamped."""
    claim = {name: getattr(statement, name) for name in ("epsilon", "delta", "unit", "relation", "curve")}
    return {**claim, "clamped": True} if statement.declared.get("invalid") == "clamp" else claim


def samples_of(
    first: "Records", schema: "Schema", release: str | None, count: int
) -> "tuple[list[Records], dict[str, Any] | None]":
    """The sample of the file and as many further ones of its size as asked for; and what the release promises.

    Raises BadInput for several without a release to draw them from, and for a release of other columns than the schema's.
    """
    if release is None:
        if count > 1:
            raise BadInput(f"evaluate.samples={count} needs release=FOLDER, from which the further samples are drawn")
        return [first], None
    from synthdp.api import load, verify

    verify(release)  # its claim is shown beside what attacks find
    source = load(release)
    check_same(schema, source.schema, release)
    further: list[Records]
    if isinstance(first, dict):
        people = len(first[source.schema.tables[0].name]) if source.schema.tables else 0
        further = [source.sample_tables(people, seed=FURTHER + i) for i in range(count - 1)]
    else:
        further = [source.sample(len(first), seed=FURTHER + i) for i in range(count - 1)]
    return [first, *further], claim_of(source.statement)


def check_same(schema: "Schema", released: "Schema", release: str) -> None:
    """Refuse a release of other columns than the schema's: what it promises is no promise about these records. What a fit learns, such as
    categories, may differ, and so may the number of units, caps, and columns that the schema leaves out."""
    own, theirs = (
        [column.name for column, _ in once(each) if column.kind != "identifier"] for each in (schema, released)
    )
    out = {column.name for column in schema.ignored}
    lacking = [repr(name) for name in own if name not in theirs]
    more = [repr(name) for name in theirs if name not in (*own, *out)]
    differ = [f"it has no {listed(lacking, SHOWN)}"] * bool(lacking)
    differ += [f"the schema has no {listed(more, SHOWN)}"] * bool(more)
    if differ:
        raise BadInput(
            f"release={release} has other columns than data.schema: {'; '.join(differ)}. Its guarantee does not cover these records: name "
            "the release from which the synthetic records were drawn, and the schema of its fit"
        )


def judged(
    samples: "Sequence[Records]",
    train: "Records",
    test: "Records",
    schema: "Schema",
    how: settings.Judge,
    claim: Mapping[str, Any] | None,
    progress: Progress,
) -> dict[str, Any]:
    """`synthdp.evaluate.evaluate`, or `evaluate_tables`, with the options of the group `evaluate`."""
    from synthdp.evaluate import evaluate, evaluate_tables

    run: Any = evaluate_tables if schema.tables else evaluate
    found: dict[str, Any] = run(
        list(samples),
        train,
        test,
        schema,
        **{option.name: getattr(how, option.name) for option in fields(Choices)},
        claim=claim,
        progress=progress,
    )
    return found


Config = Mapping[str, Any]


def evaluate(config: Config) -> None:
    """Judge synthetic records; what it writes is internal."""
    from synthdp.sets import record_files

    options: settings.Evaluate = config["options"]
    out = output_paths.folder(options.out, force=options.force)
    schema, train, test = real_records.real(config["data"])
    check_named(schema, config["evaluate"])
    synthetic: Records
    if schema.tables:
        form = "omop" if config["data"].format == "omop" else "files"  # as it is written
        synthetic = real_records.read(options.synthetic, schema, replace(config["data"], format=form))
    elif database_url.is_url(options.synthetic):
        synthetic = real_records.read(options.synthetic, schema, config["data"])
    else:
        synthetic = record_files.read(Path(options.synthetic), schema=record_files.as_written(schema))
    samples, claim = samples_of(synthetic, schema, options.release, config["evaluate"].samples)
    result = evaluated(samples, train, test, schema, config["evaluate"], out, claim, pdf=options.pdf)
    output_paths.say(headline(result))
    print(f"page       {out / 'evaluation.html'}{' and .pdf' if options.pdf else ''} (internal: do not release)")
    if options.release is not None:
        print(output_paths.then("report", release=options.release, out=Path(options.release).parent / "report"))


def check_named(schema: "Schema", how: settings.Judge) -> None:
    """Refuse columns that the schema does not have, before the first model is trained."""
    from synthdp.evaluate import survival

    for option in ("targets", "subgroups"):
        for name in getattr(how, option) or ():
            schema.column(name, f"evaluate.{option}")
    survival.events_of(how.survival, schema)


def evaluated(
    samples: "Sequence[Records]",
    train: "Records",
    test: "Records",
    schema: "Schema",
    judge: settings.Judge,
    out: Path,
    claim: dict[str, Any] | None,
    *,
    pdf: bool = False,
) -> Mapping[str, Any]:
    """The judgement, written to `out` as JSON and as a page."""
    if pdf:
        from synthdp.pages.pdf import check

        check()

    with output_paths.progress("evaluate") as step:
        result = judged(samples, train, test, schema, judge, claim, step)
    judging.write(result, out, pdf=pdf)
    return result


def headline(result: Mapping[str, Any]) -> list[str]:
    """What matters, a line each: utility beside its ceiling, fidelity, the subgroup that loses most, the attacks' verdicts."""
    if result.get("kind") == "images":
        from synthdp.evaluate.images.image_page import headline as told

        return told(result)
    from synthdp.evaluate.answers import brief
    from synthdp.evaluate.figures import lacked

    lines = []
    for target, scores in result["targets"].items():
        if scores.get("kind") == "number":
            lines += _number_line(target, scores["average"])
            continue
        tstr, trtr = _mean_auroc(scores["tstr"]), _mean_auroc(scores["trtr"])
        if tstr is not None and trtr is not None:
            lines.append(
                f"AUROC               {tstr:.3f} on {target}, trained on synthetic records; on real ones {trtr:.3f}; chance 0.500"
            )
    lines += [f"not computed        {lacked(item['metric'])}: {item['reason']}" for item in result["not_computed"]]
    two_way = result["fidelity"].get("tvd_2way")
    if two_way:
        lines.append(f"fidelity            mean 2-way total variation distance {two_way['mean']:.3f}; 0 is perfect")
    for name, each in result.get("linked", {}).get("apart", {}).items():
        if " per " in name:
            lines.append(
                f"{name:<18}  total variation distance {each['tvd']:.3f}; of held-out people {each['real']:.3f}"
            )
    for target, past in result.get("histories", {}).get("told", {}).items():
        made, real, without = (past[arm]["later"] for arm in ("tstr", "trtr", "without"))
        lines.append(
            f"with their past     {made:.3f} on later {target}; trained on real records {real:.3f}, without the past {without:.3f}"
        )
    for curve in result.get("histories", {}).get("survival", ()):
        happened, apart = curve["events"], f"held-out and training people {curve['real']:.3f}"
        if not happened["train"] + happened["test"]:
            apart = f"no real person has this event; synthetic people who have it: {happened['synthetic']:,}"
        lines.append(f"{'until ' + curve['event']:<18}  curves {curve['distance']:.3f} apart; {apart}")
    return lines + [f"{label:<18}  {text}" for label, text in brief(result)]


def _number_line(target: str, average: Mapping[str, Any]) -> list[str]:
    made, real = (average.get(arm, {}).get("r2") for arm in ("tstr", "trtr"))
    if made is None or real is None:
        return []
    return [
        f"R2                  {made['mean']:.3f} on {target}, trained on synthetic records; on real ones {real['mean']:.3f}; the mean 0.000"
    ]


def _mean_auroc(models: Mapping[str, Any]) -> float | None:
    values = [scores["auroc"]["mean"] for scores in models.values() if "auroc" in scores]
    return sum(values) / len(values) if values else None
