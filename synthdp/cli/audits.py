"""The command `audit`, and what a fit prepares for it: canaries whose membership a coin decided."""

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.cli import output_paths, settings
from synthdp.errors import BadInput
from synthdp.files import atomic
from synthdp.files.atomic import digest
from synthdp.generators.parts.setting_checks import changed
from synthdp.report.statement import plain

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.schema.schema import Schema

Config = Mapping[str, Any]
RELEASE = "release"  # in it: a digest of the model that was fitted with them
MODEL = "model.safetensors"  # in the folder of the release
CONTRADICTED = 3  # exit status


def audit(config: Config) -> None:
    """Audit a release by its canaries, or a generator by many small fits; exits with status 3 on a contradiction."""
    options: settings.Audit = config["options"]
    if (options.release is None) != (options.canaries is None):
        raise BadInput("audit needs release=FOLDER and canaries=FILE together, or generator=NAME")
    of_generator = ("runs", "tuning_runs", "pair", "workers")
    unused = changed(options, ("rows",) if options.release is None else of_generator)
    if unused:
        what = "of a release by its canaries" if options.release is None else "of a generator by many fits"
        raise BadInput(f"{unused[0]}= belongs to an audit {what} and would be ignored here; leave it out")
    out = None if options.out is None else output_paths.file(options.out, force=options.force)
    lines, result = _release(options) if options.release is not None else _generator(config)
    text = json.dumps(plain(result), indent=1)
    if out is not None:
        atomic.write(out, text + "\n")
    print(text if options.format == "json" else "\n".join(lines))
    if result["contradicted"]:
        raise SystemExit(CONTRADICTED)


def planted(
    plant: settings.Plant, frame: "pd.DataFrame", schema: "Schema", internal: Path, *, resume: bool
) -> "pd.DataFrame":
    """The table to fit, with its canaries written to internal/canaries.json; a resumed fit keeps those that it had."""
    path = internal / output_paths.CANARIES
    if resume and path.exists():
        from synthdp.audit import Canaries

        return Canaries.load(path).applied(frame, schema)
    path.unlink(missing_ok=True)  # of an earlier fit: they say nothing of this one
    if not (plant.canaries or plant.records):
        return frame
    if plant.canaries and plant.records:
        raise BadInput("give audit.canaries= or audit.records=, not both")
    from synthdp.audit import canaries

    chosen = canaries.plant if plant.canaries else canaries.hold_out
    table, coins = chosen(frame, schema, plant.canaries or plant.records)
    coins.save(path)
    return table


def told(internal: Path) -> str | None:
    """The statement's sentence about the canaries; which of them were included stays inside."""
    path = internal / output_paths.CANARIES
    if not path.exists():
        return None
    from synthdp.audit import Canaries

    found = Canaries.load(path)
    what = (
        "made-up records whether it was added"
        if found.kind == "made_up"
        else "units of the records whether it was left out"
    )
    return f"For an audit, a fair coin toss before the fit decided for each of {len(found.included)} {what}."


def bind(internal: Path, release: Path) -> None:
    """Say in the canaries' file which release they belong to."""
    path = internal / output_paths.CANARIES
    if path.exists():
        body = json.loads(path.read_text(encoding="utf-8"))
        atomic.write(path, json.dumps({**body, RELEASE: digest(release / MODEL)}, ensure_ascii=False), private=True)


def _check_bound(canaries: Path, release: Path) -> None:
    """Refuse canaries of another fit: guesses about them would mean nothing, yet would reassure."""
    body = json.loads(canaries.read_text(encoding="utf-8"))
    if body.get(RELEASE) != digest(release / MODEL):
        raise BadInput(
            f"{canaries} belongs to another fit than {release}: give internal/{output_paths.CANARIES} of the same fit"
        )


def forget(internal: Path) -> None:
    """Remove canaries of a fit that was refused before its first charge, or of an earlier fit, which this one must not report."""
    (internal / output_paths.CANARIES).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        internal.rmdir()  # only where nothing else is in it


def _release(options: settings.Audit) -> tuple[list[str], dict[str, Any]]:
    from synthdp.api import load, verify
    from synthdp.audit import Canaries, one_run

    verify(str(options.release))  # its claim is what the audit is held against
    release = load(str(options.release))
    canaries = Canaries.load(Path(str(options.canaries)))
    _check_bound(Path(str(options.canaries)), Path(str(options.release)))
    statement = release.statement
    if statement.relation != "add_remove":
        raise BadInput(
            f"the canaries were added or left out, but the release promises {statement.relation}, so no comparison is valid"
        )
    found = one_run.audit_model(
        release.model,
        canaries,
        statement.epsilon,
        statement.delta,
        rows=options.rows,
        error=options.error,
        gate_error=options.gate_error,
    )
    lines = [
        f"claimed   epsilon {found.claimed:.4g} at delta {found.delta:g}",
        f"guessed   {found.correct} of {found.guesses} right, on {found.canaries} canaries (half by chance)",
        f"measured  epsilon of {found.epsilon:.4g} or more, with {1 - found.error:.0%} confidence (internal: do not release)",
        _told(found.word, found.gate_error, "plant more canaries"),
    ]
    return lines, {**dataclasses.asdict(found), "verdict": found.word}


def _generator(config: Config) -> tuple[list[str], dict[str, Any]]:
    from synthdp.audit import black_box, worst_pairs

    options: settings.Audit = config["options"]
    generator = worst_pairs.small(config["generator"], options.pair)
    pair = worst_pairs.case_of(generator).pair if options.pair == "own" else worst_pairs.PAIRS[options.pair]
    with output_paths.progress(f"audit {generator.name}") as step:
        found = black_box.audit(
            generator,
            config["budget"],
            runs=options.runs,
            tuning_runs=options.tuning_runs,
            pair=pair(),
            error=options.error,
            gate_error=options.gate_error,
            workers=options.workers,
            progress=step,
        )
    verdict = found.verdict
    result = {
        "generator": generator.name,
        "settings": dataclasses.asdict(generator),  # type: ignore[call-overload]
        "pair": options.pair,
        "claimed": found.epsilon,
        "delta": found.delta,
        "epsilon": verdict.epsilon,
        "gaussian_epsilon": found.gaussian_epsilon,
        "gaussian_plan": found.claim.mu is not None,
        "gaussian_estimate": found.estimate,
        "error": verdict.error,
        "runs": verdict.runs,
        "tuning_runs": found.tuning_runs,
        "verdict": found.word,
        "contradicted": verdict.contradicted,
        "gate_error": verdict.gate_error,
    }
    diagnostic = "" if found.claim.mu is not None else " (a diagnostic: the plan is not Gaussian)"
    lines = [
        f"claimed   epsilon {found.epsilon:.4g} at delta {found.delta:g}",
        f"measured  epsilon of {verdict.epsilon:.4g} or more, with {1 - verdict.error:.0%} confidence, "
        f"from {verdict.runs} fits a side",
        f"          {found.gaussian_epsilon:.4g} or more by the Gaussian bound{diagnostic}",
        _told(found.word, verdict.gate_error, "raise runs=, or choose another pair="),
    ]
    return lines, result


def _told(word: str, gate_error: float, remedy: str) -> str:
    if word == "contradicted":
        return (
            f"CONTRADICTED: the claim is false (this verdict is wrong with a probability of at most {gate_error:g}). Do not release; "
            "report this."
        )
    if word == "no power":
        return (
            "verdict   no power: this attack finds next to nothing, so it would hardly notice a false claim and does not support "
            f"this one; {remedy}"
        )
    return "verdict   not contradicted: this attack finds something, but no more than the claim allows"
