"""The command `compare`: every release under a folder judged by the same call, and what the whole sweep cost."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import synthdp
from synthdp.cli import judged, places, real_records, settings, show
from synthdp.cli.sweeps import Found, check_alike, check_schema, found, in_one_line, source_of
from synthdp.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.api import Release
    from synthdp.report.sweep import Run
    from synthdp.schema.schema import Schema

    Real = tuple[Schema, pd.DataFrame, pd.DataFrame]

Config = Mapping[str, Any]
EVALUATIONS, KEPT = "evaluations", "kept.json"  # in out: the evaluation of each release, and what it was made of


@dataclass(kw_only=True)
class Sweep:
    """What was judged so far, and what was not compared."""

    judged: "list[Run]" = field(default_factory=list)
    lacking: list[dict[str, str]] = field(default_factory=list)


def compare(config: Config) -> None:
    """Judge the releases under a folder, write the comparison, and say what all of the fits cost together."""
    from synthdp.report import sweep, sweepcost, sweeppage

    options: settings.Compare = config["options"]
    folder = Path(options.runs)
    if config["evaluate"].samples < 1:
        raise BadInput(f"evaluate.samples must be 1 or more, got {config['evaluate'].samples}")
    out = places.folder(options.out or str(folder / "comparison"), force=options.force)
    runs = found(folder, out)
    check_alike(runs)
    source = source_of(config["data"], runs)
    schema, train, test = real_records.real(source)
    for run in runs:
        check_schema(run, schema)
    charged = sweepcost.cost(
        [run.release.statement for run in runs if run.release is not None],
        [plan for run in runs for plan in run.others],
        sum(run.unreadable for run in runs),
    )
    done, complete = Sweep(), False
    try:
        judge(runs, (schema, train, test), config["evaluate"], out, done)
        if not done.judged:
            raise BadInput(f"runs={folder}: none could be compared; {_first(done.lacking, runs)}")
        complete = True
    finally:  # what was done stays, whatever ended the work
        if done.judged:
            result = sweep.comparison(done.judged, done.lacking, charged=charged, stopped=not complete)
            sweeppage.write(result, out)
            for line in headline(result):
                print(line)
            print(f"page       {out / 'compare.html'} (internal: do not release)")
            if not complete:
                print(
                    f"stopped    {len(done.judged)} of {len(runs)} compared; the same command with force=true goes on"
                )


def judge(runs: list[Found], real: "Real", how: settings.Judge, out: Path, done: Sweep) -> None:
    """Judge one run after another into `done`; a run that cannot be judged is listed there, with the reason."""
    from synthdp.report.sweep import Run

    origin = _digest_of(real, how)
    for number, run in enumerate(runs, 1):
        if run.release is None:
            done.lacking.append({"run": run.name, "reason": run.reason})
            continue
        try:
            keep = out / EVALUATIONS / re.sub(r"[^\w.,=+-]", "_", run.name)
            label = f"{number}/{len(runs)} {run.name}"
            result = _judged(run.release, run.folder, real, how, keep, origin, label)
        except BadInput as error:
            done.lacking.append({"run": run.name, "reason": in_one_line(error)})
            continue
        done.judged.append(Run(name=run.name, statement=run.release.statement, result=result))


def _first(lacking: list[dict[str, str]], runs: list[Found]) -> str:
    """Why the first release that can be read was not judged."""
    whole = {run.name for run in runs if run.release is not None}
    return next(f"{entry['run']}: {entry['reason']}" for entry in lacking if entry["run"] in whole)


def headline(result: Mapping[str, Any]) -> list[str]:
    """Every point of the curves in a line, then what was left out, then the cost."""
    lines = []
    for panel in result["panels"]:
        lines.append(f"{panel['title']} ({panel['label']}, {panel['better']} is better)")
        for line in panel["lines"]:
            for point in line["points"]:
                interval = point["interval"] and " (95 %: {:.3f} to {:.3f})".format(*point["interval"])
                lines.append(
                    f"  {line['label']:<14} epsilon {point['epsilon']:<6g} {point['mean']:.3f}{interval or ''}, "
                    f"{point['n']} release{'' if point['n'] == 1 else 's'}"
                )
        lines += [f"  {reference['label']:<36} {reference['mean']:.3f}" for reference in panel["references"]]
    lines += [f"not compared  {entry['run']}: {entry['reason']}" for entry in result["not_compared"]]
    return [*lines, result["cost"]["words"]]


def _judged(
    release: "Release", files: Path, real: "Real", how: settings.Judge, keep: Path, origin: str, label: str
) -> Mapping[str, Any]:
    """The evaluation of a release: the one that is kept, where nothing that it was made of has changed."""
    from synthdp.evaluate import write

    parts = [path.read_bytes() for path in sorted(files.iterdir()) if path.is_file()]
    made_of = hashlib.sha256(
        b"".join([origin.encode(), *(hashlib.sha256(part).digest() for part in parts)])
    ).hexdigest()
    known = _kept(keep, made_of)
    if known is not None:
        return known
    (keep / KEPT).unlink(missing_ok=True)
    schema, train, test = real
    with show.progress(label) as step:
        samples = [release.sample(len(train), seed=seed) for seed in range(how.samples)]
        result = judged.judged(samples, train, test, schema, how, judged.claim_of(release.statement), step)
    write(result, keep)
    (keep / KEPT).write_text(json.dumps({"made_of": made_of}) + "\n", encoding="utf-8")
    return result


def _kept(keep: Path, made_of: str) -> Mapping[str, Any] | None:
    try:
        if json.loads((keep / KEPT).read_text(encoding="utf-8"))["made_of"] != made_of:
            return None
        known = json.loads((keep / "evaluation.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return known if isinstance(known, dict) else None


def _digest_of(real: "Real", how: settings.Judge) -> str:
    """Of all that an evaluation is made of beside the release: real records, schema, how they are judged, our version."""
    from synthdp.budgets import fingerprint

    schema, *frames = real
    parts = {
        "schema": schema.to_dict(),
        "how": asdict(how),
        "records": [fingerprint.of_frame(frame, ordered=True)(b"compare") for frame in frames],
        "version": synthdp.__version__,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
