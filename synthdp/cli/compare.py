"""The command `compare`: every release under a folder judged by the same call, and what the whole sweep cost."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import synthdp
from synthdp.budgets import fingerprint
from synthdp.cli import evaluations, output_paths, real_records, settings
from synthdp.cli.compose import in_one_line
from synthdp.errors import BadInput
from synthdp.files.atomic import digest
from synthdp.ledger.events import Plan, canonical
from synthdp.ledger.ledger import Ledger
from synthdp.report import sweep, sweep_page
from synthdp.report.sweep import Run
from synthdp.sets.split import HELD_OUT, TRAIN

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.api import Release
    from synthdp.report.statement import Statement
    from synthdp.schema.schema import Schema

    Real = tuple[Schema, pd.DataFrame, pd.DataFrame]


# ---- The runs of a sweep as they lie on disk: releases, what else was charged there, and the records that they are of.


LEDGERS = "ledger*.jsonl"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A run under the folder: its release, or why there is none, what it was fitted on, and its other ledgers."""

    name: str
    folder: Path
    release: "Release | None"
    reason: str = ""
    data: Mapping[str, Any] | None = None  # as the fit was told
    others: tuple[Plan, ...] = ()  # events of fits that are not the release's
    unreadable: int = 0


def found(folder: Path, out: Path) -> list[Found]:
    """Every run under the folder, in the order of their names; raises `BadInput` where there is no release at all."""
    if not folder.is_dir():
        raise BadInput(f"runs={folder} is not a folder; give the one that fit --multirun wrote to")
    places_of = sorted({*_releases(folder), *_stopped(folder)})
    runs = [_read(folder, place) for place in places_of if not place.is_relative_to(out)]
    if not any(run.release for run in runs):
        why = f" ({runs[0].name}: {runs[0].reason})" if runs else ""
        raise BadInput(f"runs={folder}: it contains no readable release{why}; fit some there first")
    return runs


def check_alike(runs: list[Found]) -> None:
    """Refuse releases of different schemas or data: their figures would not be about the same thing."""
    released = [(run, run.release.statement) for run in runs if run.release is not None]
    first, expected = released[0]
    for run, said in released[1:]:
        if said.unit != expected.unit:
            raise BadInput(
                f"runs {first.name} and {run.name} protect different units, {expected.unit} and {said.unit}: compare them separately"
            )
        column = _difference(expected, said)
        if column is not None:
            raise BadInput(
                f"runs {first.name} and {run.name} have different schemas (column {column!r}): compare them separately"
            )
    origins = {_origin(run.data): run.name for run in reversed(runs) if run.data is not None}
    if len(origins) > 1:
        (one, a), (two, b) = sorted(origins.items(), key=lambda item: item[1])[:2]
        raise BadInput(f"runs {a} and {b} were fitted on different data ({one} and {two}): compare them separately")


def check_schema(run: Found, schema: "Schema") -> None:
    """Refuse a release whose columns are not those of the real records."""
    if run.release is None:
        return
    own = {column.name: column.kind for column in run.release.schema.columns}
    real = {column.name: column.kind for column in schema.columns}
    for name in (*own, *real):
        if own.get(name) != real.get(name):
            raise BadInput(
                f"run {run.name} and the real records have different schemas (column {name!r}): give the data= that the run was fitted on"
            )


def source_of(given: settings.Data, runs: list[Found]) -> settings.Data:
    """Where the real records are: as given, else as the runs were told when they were fitted."""
    known = next((run.data for run in runs if run.data is not None), {})
    if given.name is not None:
        return given
    usual = settings.Data()
    own = {name: value for name, value in asdict(given).items() if value != getattr(usual, name)}
    if known.get("name") is not None and set(own) <= {"target", "engine", "memory"}:
        return settings.Data(**{**own, "name": known["name"], "target": given.target or known.get("target")})
    told = {
        name: known.get(name)
        for name in ("path", "table", "query_file", "schema", "train", "test", "target")
        if known.get(name) is not None
    }
    if {"path", "train"} & set(own):  # the fitted records, not named in the way in which the fit was told them
        told = {name: value for name, value in told.items() if name not in ("path", "table", "query_file", "train")}
    source = settings.Data(**{**({} if known.get("name") else told), **own})
    if source.test is None:
        raise BadInput(
            "compare needs held-out records: give data=NAME, or data.test=FILE (and data.train= and data.schema= too if those "
            "files were moved)"
        )
    return source


def _releases(folder: Path) -> Iterator[Path]:
    """The folders that hold a release: of `fit`, the run's folder around it."""
    for path in folder.rglob("release.json"):
        place = path.parent
        yield place.parent if place.name == output_paths.RELEASE and place != folder else place


def _stopped(folder: Path) -> Iterator[Path]:
    for path in folder.rglob(LEDGERS):
        if path.parent.name == "internal":
            yield path.parent.parent


def _read(folder: Path, place: Path) -> Found:
    """A run with its release, if that can be read, and with what else was charged there."""
    from synthdp.api import load, verify

    named = str(place.relative_to(folder))
    name = place.resolve().name if named == "." else named
    where = place / output_paths.RELEASE if (place / output_paths.RELEASE).is_dir() else place
    release, reason = None, "its fit was not finished, so there is no release (fit resume=true continues it)"
    if (where / "release.json").exists():
        try:
            verify(where)
            release, reason = load(where), ""
        except (BadInput, OSError) as error:
            reason = in_one_line(error)
    others, unreadable = _others(place / "internal", None if release is None else release.statement.events)
    return Found(
        name=name,
        folder=where,
        release=release,
        reason=reason,
        data=told_of_data(place / "internal"),
        others=others,
        unreadable=unreadable,
    )


def _others(internal: Path, own: Plan | None) -> tuple[tuple[Plan, ...], int]:
    """The events of a run's ledgers that are not its release's, and how many ledgers cannot be read."""
    plans, unreadable = [], 0
    for path in sorted(internal.glob(LEDGERS), key=lambda path: (path.name != output_paths.LEDGER, path.name)):
        try:
            events = canonical(Ledger.read(path).entries())
        except (BadInput, OSError):
            unreadable += 1
            continue
        if events == own:
            own = None  # the release's own, once
        elif events:
            plans.append(events)
    return tuple(plans), unreadable


def told_of_data(internal: Path) -> Mapping[str, Any] | None:
    """What the fit was told of its data; None where that was not kept, or is not what a fit writes."""
    try:
        kept = yaml.safe_load((internal / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    data = kept.get("data") if isinstance(kept, dict) else None
    return data if isinstance(data, dict) else None


def judged_by(told: Mapping[str, Any]) -> dict[str, Any]:
    """The options that name the real records to judge by, if what a fit was told of its data identifies them: a named data set, or the part
    that was split off for it, with those held out beside it. Empty otherwise."""
    if told.get("name") is not None:
        return {"data": told["name"]}
    train, schema = Path(str(told.get("path") or told.get("train"))), Path(str(told.get("schema")))
    held_out = train.with_name(train.name.replace(TRAIN, HELD_OUT, 1))
    if train.name.startswith(TRAIN) and all(path.exists() for path in (train, held_out, schema)):
        return {"data__train": train, "data__test": held_out, "data__schema": schema}
    return {}


def _origin(data: Mapping[str, Any] | None) -> str:
    """Which records, in a word: the name of the data set, or the file."""
    if data is None or data.get("name") is not None:
        return str(data and data["name"])
    return os.path.realpath(str(data.get("path") or data.get("train")))


def _difference(one: "Statement", other: "Statement") -> str | None:
    """The first column whose declared facts are not the same in both."""
    columns = [{column["name"]: column for column in said.columns} for said in (one, other)]
    for name in {**columns[0], **columns[1]}:
        first, second = (found.get(name) for found in columns)
        if first is None or second is None or any(first[key] != second[key] for key in ("kind", "declared")):
            return str(name)
    return None


Config = Mapping[str, Any]
EVALUATIONS, KEPT = "evaluations", "kept.json"  # in out: the evaluation of each release, and what it was made of


def compare(config: Config) -> None:
    """Judge the releases under a folder, write the comparison, and say what all of the fits cost together."""
    options: settings.Compare = config["options"]
    folder = Path(options.runs)
    out = output_paths.folder(options.out or str(folder / "comparison"), force=options.force)
    runs = found(folder, out)
    check_alike(runs)
    source = source_of(config["data"], runs)
    schema, *real = real_records.real(source)
    train, test = (real_records.one_table(each, "compare") for each in real)
    evaluations.check_named(schema, config["evaluate"])
    for run in runs:
        check_schema(run, schema)
    charged = sweep.cost(
        [run.release.statement for run in runs if run.release is not None],
        [plan for run in runs for plan in run.others],
        sum(run.unreadable for run in runs),
    )
    done, lacking, complete = list[Run](), list[dict[str, str]](), False
    try:
        judge(runs, (schema, train, test), config["evaluate"], out, done, lacking)
        if not done:
            raise BadInput(f"runs={folder}: none could be compared; {_first(lacking, runs)}")
        complete = True
    finally:  # what was done stays, whatever ended the work
        if done:
            from synthdp.evaluate.figures import lacked

            result = sweep.comparison(done, lacking, charged=charged, stopped=not complete)
            for row in result["runs"]:
                row["not_computed"] = [{**each, "words": lacked(each["metric"])} for each in row["not_computed"]]
            sweep_page.write(result, out)
            output_paths.say(headline(result))
            print(f"page       {out / 'compare.html'} (internal: do not release)")
            if not complete:
                print(f"stopped    {len(done)} of {len(runs)} compared; the same command with force=true continues")


def judge(
    runs: list[Found], real: "Real", how: settings.Judge, out: Path, done: list[Run], lacking: list[dict[str, str]]
) -> None:
    """Judge one run after another into `done`; a run that cannot be judged goes into `lacking`, with the reason."""
    origin = _digest_of(real, how)
    for number, run in enumerate(runs, 1):
        if run.release is None:
            lacking.append({"run": run.name, "reason": run.reason})
            continue
        try:
            keep = out / EVALUATIONS / re.sub(r"[^\w.,=+-]", "_", run.name)
            label = f"{number}/{len(runs)} {run.name}"
            _judge(run, run.release, real, how, keep, origin, label, done)
        except BadInput as error:
            lacking.append({"run": run.name, "reason": in_one_line(error)})


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


def _judge(
    run: Found,
    release: "Release",
    real: "Real",
    how: settings.Judge,
    keep: Path,
    origin: str,
    label: str,
    done: list[Run],
) -> None:
    """Judge a release into `done`, or take the evaluation that is kept where nothing that it was made of has changed. A new one is in
    `done` before it is kept, so that whatever is kept when the work is stopped is compared too."""
    from synthdp.evaluate import write

    parts = [digest(path) for path in sorted(run.folder.iterdir()) if path.is_file()]
    made_of = hashlib.sha256(" ".join([origin, *parts]).encode()).hexdigest()
    known = _kept(keep, made_of)
    if known is not None:
        done.append(Run(name=run.name, statement=release.statement, result=known))
        return
    (keep / KEPT).unlink(missing_ok=True)
    schema, train, test = real
    with output_paths.progress(label) as step:
        samples = [release.sample(len(train), seed=seed) for seed in range(how.samples)]
        result = evaluations.judged(samples, train, test, schema, how, evaluations.claim_of(release.statement), step)
    write(result, keep)
    done.append(Run(name=run.name, statement=release.statement, result=result))
    (keep / KEPT).write_text(json.dumps({"made_of": made_of}) + "\n", encoding="utf-8")


def _kept(keep: Path, made_of: str) -> Mapping[str, Any] | None:
    try:
        if json.loads((keep / KEPT).read_text(encoding="utf-8"))["made_of"] != made_of:
            return None
        known = json.loads((keep / "evaluation.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return known if isinstance(known, dict) else None


def _digest_of(real: "Real", how: settings.Judge) -> str:
    """A digest of everything besides the release that an evaluation depends on: real records, schema, options and version."""
    schema, *frames = real
    parts = {
        "schema": schema.to_dict(),
        "how": asdict(how),
        "records": [fingerprint.of_frame(frame, ordered=True)(b"compare") for frame in frames],
        "version": synthdp.__version__,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
