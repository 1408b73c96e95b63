"""How the artefacts of a format were made: `python tests/compat/make.py tests/compat/formatN`.

It runs on the code of its day and writes a new folder, never into one that exists. `expected.json` names the commit: `format1`
was made at 494374d. Rehearsals come out the same byte for byte when they are made again. Everything else holds chance: releases
that are no rehearsals, and the keys and times of accounts. All records are made up.

An account holds the absolute paths of the ledgers of its fits, and a checkpoint a digest of the absolute path of its account.
Everything is therefore made in `/tmp/synthdp-compat` and then moved, and tests read it at yet another place.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parent))

from test_compat import DELTA, ROWS, plain, portrait, records, told_entries, told_standing, told_statement

import synthdp
from synthdp import PATE, Budget, Schema, Synthesizer, accounting, cli, pate
from synthdp.budgets import AccountFile, Cap
from synthdp.generators import Traits
from synthdp.ledger.events import (
    Capped,
    Choice,
    Entry,
    Event,
    Gaussian,
    Laplace,
    Revealed,
    Sampled,
    Selection,
    SmoothGaussian,
    Threshold,
    Vote,
)
from synthdp.ledger.ledger import Ledger
from synthdp.options import option
from synthdp.seal.resume import Checkpoint
from synthdp.selecting import select

WORK = Path("/tmp/synthdp-compat")  # noqa: S108 - see above
BUDGET = Budget(2.0, DELTA)

COLUMNS = """\
  age: {kind: integer, bounds: [0, 99], bins: [25, 50, 75]}
  sex: {kind: categorical, categories: [female, male]}
  dose: {kind: continuous, bounds: [0, 10], bins: 3, atoms: [0], decimals: 1, missing: true}
  ill: {kind: boolean}
"""
# As a steward writes them; `draft.yaml` is added by the command `schema`.
SCHEMAS = {
    "patients": f"""\
# One record a patient counts: the unit is the record.
name: patients
declared_by: data protection office, 2026
units: 150
targets: [ill]
columns:
  patient: {{kind: identifier}}
{COLUMNS}""",
    "visits": f"""\
name: visits
declared_by: data protection office, 2026
unit: patient            # all visits of a patient are protected together
max_records_per_unit: 3
units: 50
targets: [ill]
notes: [Made up for tests.]
columns:
  patient: {{kind: identifier}}
{COLUMNS}""",
    "learned": """\
name: learned
declared_by: data protection office, 2026
units: learn
columns:
  patient: {kind: identifier}
  age: {kind: integer, bounds: learn, bins: 4}
  sex: {kind: categorical, categories: learn, missing: true}
  dose: {kind: continuous, bounds: [0, 10], bins: learn, missing: true}
  ill: {kind: boolean}
""",
    "ruled": f"""\
name: ruled
declared_by: data protection office, 2026
units: 150
targets: [ill]
rules:
  - {{if: {{ill: false}}, then: {{dose: "<= 0"}}}}
  - {{never: {{sex: male, ill: true}}}}
  - {{if: {{age: "< 10"}}, then: {{dose: "<= 5"}}}}
columns:
  patient: {{kind: identifier}}
{COLUMNS}""",
    "kinds": """\
# Every kind of column, and every option of it.
name: kinds
declared_by: data protection office, 2026
units: 60
targets: [ward]
columns:
  record: {kind: identifier}
  ward: {kind: categorical, categories: [1, 2, 3], other: 3}
  drug: {kind: categorical, categories: ["none", "<30", "≥ 30"], missing: true}
  stage: {kind: ordinal, categories: [I, II, III], missing: true}
  grade: {kind: ordinal, categories: [0, 1, 2]}
  smoker: {kind: boolean, missing: true}
  visits: {kind: integer, bounds: [0, 20], atoms: [0]}
  weight: {kind: continuous, bounds: [0.5, 200], bins: [40, 80, 120.5]}
  seen: {kind: datetime, bounds: [2020-01-01, 2020-12-31], bins: ["2020-04-01", "2020-07-01"]}
  left: {kind: datetime, bounds: ["2020-01-01", "2021-01-31T23:59:59"], bins: 3, resolution: hour, missing: true}
""",
    "pictures": """\
name: pictures
declared_by: data protection office, 2026
units: 60
targets: [finding]
columns:
  image: {kind: image, height: 4, width: 2}
  finding: {kind: categorical, categories: [left, right]}
""",
    "scans": """\
name: scans
declared_by: data protection office, 2026
unit: patient
max_records_per_unit: 4
units: learn
columns:
  patient: {kind: identifier}
  image: {kind: image, height: 64, width: 48, channels: 3, window: [-1000, 400], resize: fit}
  finding: {kind: categorical, categories: learn}
""",
}


def patients() -> pd.DataFrame:
    """150 visits of 50 patients; the rules of `ruled` hold but for the last."""
    rng = np.random.default_rng(1)
    age, sex = rng.integers(0, 100, 150), rng.choice(["female", "male"], 150)
    ill = (rng.random(150) < age / 100) & (sex == "female")
    dose = np.where(ill, rng.uniform(0, 10, 150).round(1), 0.0)
    dose[rng.random(150) < 0.1] = np.nan
    return pd.DataFrame(
        {"patient": [f"p{row // 3}" for row in range(150)], "age": age, "sex": sex, "dose": dose, "ill": ill}
    )


def kinds() -> pd.DataFrame:
    """60 records of `kinds`."""
    rng, rows = np.random.default_rng(2), 60
    seen = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, rows), unit="D")
    frame = pd.DataFrame(
        {
            "record": [f"r{row}" for row in range(rows)],
            "ward": rng.choice([1, 2, 3], rows, p=[0.6, 0.3, 0.1]),
            "drug": rng.choice(["none", "<30", "≥ 30"], rows),
            "stage": rng.choice(["I", "II", "III"], rows),
            "grade": rng.integers(0, 3, rows),
            "smoker": rng.choice(["yes", "no"], rows),
            "visits": np.where(rng.random(rows) < 0.5, 0, rng.integers(0, 21, rows)),
            "weight": rng.uniform(0.5, 200, rows).round(3),
            "seen": seen.strftime("%Y-%m-%d"),
            "left": (seen + pd.to_timedelta(rng.integers(0, 500, rows), unit="h")).strftime("%Y-%m-%dT%H:00:00"),
        }
    )
    for name in ("drug", "stage", "smoker", "left"):
        frame.loc[rng.random(rows) < 0.1, name] = None
    return frame


def pictures() -> dict[str, np.ndarray]:
    """60 pictures that are bright on one side, and say which."""
    rng = np.random.default_rng(3)
    image, right = rng.integers(0, 60, (60, 4, 2)), rng.integers(0, 2, 60)
    image[np.arange(60), :, right] += 150
    return {"image": image.astype(np.uint8), "finding": np.array(["left", "right"])[right]}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One release: a generator in one of its modes, or something special about the fit."""

    generator: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    schema: str = "patients"
    table: str = "patients.csv"
    budget: Budget = BUDGET
    options: Mapping[str, Any] = field(default_factory=dict)  # of `Synthesizer.fit`


def of_pictures(generator: str, settings: Mapping[str, Any] | None = None, **options: Any) -> Case:
    return Case(generator=generator, settings=settings or {}, schema="pictures", table="pictures.npz", options=options)


REHEARSED = {"seed": 7}
WIDTH = {"hidden": (6,), "fake_batch": 16}
SMALL = {**WIDTH, "latent": 3}
WALK = {"rate": 0.2, "generator_every": 2}
DIFFUSION = {"rate": 1.0, "steps": 3, "multiplicity": 1, "sampler_steps": 4}
SHARES = {"teachers": 4, "queries": 20, "steps": 4}
ORIGINAL = {"mode": "original", "teachers": 4, "rounds": 3, "queries": 10, "teacher_hidden": (4,)}

# Every generator in every mode of the contract suite. Where widths follow from the schema unless they are given (dpgan, dpdm), one
# release has those that nobody gave.
RELEASES = {
    "aim": Case(generator="aim", settings={"rounds": 4, "iterations": 20, "last": 40}),
    "classgauss": Case(generator="classgauss", settings={"agreement_rows": 40}),
    "dpgan": Case(generator="dpgan", settings={**WALK, "steps": 8, "latent": 4}),
    "dpgan-small": Case(generator="dpgan", settings={**SMALL, **WALK, "steps": 8, "clipping": "adaptive"}),
    "dpmerf": Case(
        generator="dpmerf", settings={"features": 40, "steps": 10, "batch": 30, "hidden": (8,), "latent": 3}
    ),
    "independent": Case(generator="independent", schema="kinds", table="kinds.csv"),
    "mixture": Case(generator="mixture", settings={"iterations": 20, "starts": 2, "components": 12, "cells": 50}),
    "mst": Case(generator="mst", settings={"iterations": 100}),
    "pategan": Case(generator="pategan", settings={**SMALL, **SHARES}),
    "pategan-original": Case(generator="pategan", settings={**SMALL, **ORIGINAL}, options=REHEARSED),
    "privbayes": Case(generator="privbayes", settings={"degree": 1}, options=REHEARSED),
    "images-classgauss": of_pictures("classgauss", {"dimensions": 6}),
    "images-dpdm": of_pictures("dpdm", {**DIFFUSION, "dimensions": 6}),
    "images-dpdm-none": of_pictures("dpdm", {**DIFFUSION, "start": "none", "hidden": 6, "depth": 1}, **REHEARSED),
    "images-dpdm-unet": of_pictures(
        "dpdm", {**DIFFUSION, "architecture": "unet", "hidden": 2, "depth": 2, "dimensions": 6}
    ),
    "images-dpgan": of_pictures("dpgan", {**WALK, "steps": 4}),
    "images-dpgan-conv": of_pictures("dpgan", {**WIDTH, **WALK, "steps": 4, "architecture": "conv", "hidden": (4,)}),
    "images-dpgan-mlp": of_pictures("dpgan", {**SMALL, **WALK, "steps": 4, "architecture": "mlp", "start": "label"}),
    "images-dpmerf": of_pictures("dpmerf", {"features": 40, "steps": 10, "batch": 30, "hidden": (8,)}),
    "images-independent": of_pictures("independent", **REHEARSED),
    "images-pategan": of_pictures("pategan", {**WIDTH, **SHARES}),
    "replaced": Case(generator="mst", settings={"iterations": 100}, budget=replace(BUDGET, relation="replace_one")),
    "visits": Case(generator="privbayes", settings={"degree": 1}, schema="visits"),
    "learned": Case(generator="independent", schema="learned", budget=Budget(30.0, DELTA)),
    "ruled": Case(
        generator="mixture", settings={"iterations": 20, "starts": 2, "components": 12, "cells": 0}, schema="ruled"
    ),
    "fitness": Case(generator="independent", options={"fitness": 0.1}),
    "unprotected": Case(
        generator="aim", settings={"rounds": 2, "iterations": 20, "last": 40}, budget=Budget(math.inf, DELTA)
    ),
}


class Maker:
    """Writes the parts of one format into `folder`, and what is to be expected of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kinds = ("releases", "classifiers", "ledgers", "accounts", "checkpoints", "canaries", "schemas")
        self.expected: dict[str, Any] = {kind: {} for kind in kinds}
        for kind in (*kinds, "tables"):
            (folder / kind).mkdir(parents=True)
        self.capped = AccountFile(
            path=WORK / "capped.account",
            cap=Cap(epsilon=6.0, delta=1e-4),
            by="steward",
            source=self.table("patients.csv"),
        )

    def table(self, name: str) -> Path:
        return self.folder / "tables" / name

    def schema(self, name: str) -> Schema:
        return Schema.load(self.folder / "schemas" / f"{name}.yaml")

    def public(self) -> None:
        """Tables and schemas, the draft too."""
        patients().to_csv(self.table("patients.csv"), index=False)
        kinds().to_csv(self.table("kinds.csv"), index=False)
        np.savez_compressed(self.table("pictures.npz"), **pictures())
        for name, text in SCHEMAS.items():
            (self.folder / "schemas" / f"{name}.yaml").write_text(text, encoding="utf-8")
        run("schema", f"path={self.table('kinds.csv')}", f"out={self.folder / 'schemas' / 'draft.yaml'}")
        for path in sorted((self.folder / "schemas").iterdir()):
            self.expected["schemas"][path.stem] = plain(Schema.load(path).to_dict())

    def fit(self, case: Case, **options: Any) -> synthdp.Release:
        made = Synthesizer(case.generator, schema=self.schema(case.schema), budget=case.budget, **case.settings)
        return made.fit(records(self.table(case.table)), **{**case.options, **options})

    def release(self, name: str, made: synthdp.Release) -> None:
        made.save(self.folder / "releases" / name)
        self.tell_release(name, made)

    def tell_release(self, name: str, made: synthdp.Release) -> None:
        sample = portrait(made.sample(4 * ROWS, seed=2), made.schema)
        self.expected["releases"][name] = {"statement": told_statement(made.statement), "sample": sample}

    def releases(self) -> None:
        for name, case in RELEASES.items():
            self.release(name, self.fit(case))
        candidates = ["independent", ("classgauss", {"agreement_rows": 40})]
        table, schema = records(self.table("patients.csv")), self.schema("patients")
        self.release("selected", select(candidates, table, schema, BUDGET, mean_runs=2.0))

    def canaries(self) -> None:
        """A fit of the command line, which knows how to plant them."""
        out, files = WORK / "canaries", [f"data.path={self.table('patients.csv')}"]
        files.append(f"data.schema={self.folder / 'schemas' / 'patients.yaml'}")
        run(
            "fit",
            *files,
            "generator=independent",
            "budget.epsilon=2",
            "audit.canaries=20",
            "account=none",
            f"out={out}",
        )
        shutil.copytree(out / "release", self.folder / "releases" / "canaries")
        shutil.copy(out / "internal" / "canaries.json", self.folder / "canaries" / "planted.json")
        made = synthdp.load(out / "release")
        self.tell_release("canaries", made)
        about = {"release": "canaries", "number": 20, "claimed": made.statement.epsilon}
        self.expected["canaries"]["planted"] = about

    def classifiers(self) -> None:
        """Of PATE: a student that is stored, and one that learns again from the stored answers."""
        frame = records(self.table("patients.csv"))
        public = frame.drop(columns=["patient", "ill"]).assign(age=frame["age"].to_numpy()[::-1])
        settings: dict[str, Any] = {"teachers": 10, "teacher": LogisticRegression(), "queries": 30}
        for name, student, aggregator in (
            ("network", pate.Network(hidden=(4,), steps=50), "gnmax"),
            ("estimator", pate.Estimator(LogisticRegression()), pate.LNMax(0.05)),
        ):
            made = PATE(**settings, student=student, aggregator=aggregator).fit(
                frame, schema=self.schema("patients"), target="ill", public=public, budget=Budget(6.0, DELTA)
            )
            made.save(self.folder / "classifiers" / name)
            self.expected["classifiers"][name] = {
                "statement": told_statement(made.statement),
                "stored": name == "network",
                "table": "patients.csv",
                "probabilities": plain(made.predict_proba(frame.head(8)).round(4).tolist()),
            }

    def ledger(self, name: str, path: Path) -> None:
        """Keep a ledger. A torn line reads as a charge whose wording is the reader's."""
        shutil.copy(path, self.folder / "ledgers" / f"{name}.jsonl")
        found, torn = Ledger.read(path), Ledger._read(path).torn is not None
        entries = told_entries(found.entries())
        if torn:
            del entries[-1]["event"]["reason"]
        self.expected["ledgers"][name] = {
            "entries": entries,
            "epsilons": accounting.epsilons(found, DELTA),
            "head": None if torn else found.head,
            "resumed": sorted(found.resumed),
            "kept": found.kept,
        }

    def ledgers(self) -> None:
        path = WORK / "ledgers"
        self.fit(RELEASES["mst"], ledger=path / "plain.jsonl")
        self.ledger("plain", path / "plain.jsonl")
        for generator in (Interrupted(), Looked()):
            name = generator.name
            with suppress(KeyboardInterrupt):
                made = Synthesizer(generator, schema=self.schema("visits"), budget=BUDGET)
                made.fit(records(self.table("patients.csv")), ledger=path / f"{name}.jsonl")
            self.ledger(name, path / f"{name}.jsonl")
        for name, entries in EVENTS.items():
            book = Ledger(path / f"{name}.jsonl")
            for entry in entries:
                book.append(entry.event, entry.count)
            book.close()
            self.ledger(name, path / f"{name}.jsonl")
        case = STOPPED["dpgan"]
        files = {"ledger": path / "resumed.jsonl", "checkpoint": path / "checkpoint.safetensors"}
        with suppress(KeyboardInterrupt), stopping():
            self.fit(case, **files)
        whole = files["ledger"].read_bytes()
        for name, length in (("torn", len(whole) - 40), ("unended", len(whole) - 1)):
            (path / f"{name}.jsonl").write_bytes(whole[:length])
            self.ledger(name, path / f"{name}.jsonl")
        self.fit(case, **files, resume=True)
        self.ledger("resumed", files["ledger"])

    def checkpoints(self) -> None:
        """Of fits that were stopped after their third block; one of them is entered in an account."""
        for name, case in STOPPED.items():
            folder, bound = WORK / name, name == "in-an-account"
            files = {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}
            with suppress(KeyboardInterrupt), stopping():
                self.fit(case, **files, account=self.capped if bound else None)
            shutil.copytree(folder, self.folder / "checkpoints" / name)
            self.expected["checkpoints"][name] = {
                "generator": case.generator,
                "settings": plain(case.settings),
                "schema": case.schema,
                "table": case.table,
                "budget": {"epsilon": BUDGET.epsilon, "delta": BUDGET.delta},
                "account": "capped" if bound else None,
                "entries": told_entries(Ledger.read(folder / "ledger.jsonl").entries()),
            }

    def accounts(self) -> None:
        small = Case(generator="independent", budget=Budget(0.5, 1e-7))
        table, capped = self.table("patients.csv"), self.capped

        # A cap, which is raised; the file's bytes are known, and then a newer version; fits that end in every way.
        self.release("accounted", self.fit(small, account=capped))
        for error in (ValueError("a bug"), KeyboardInterrupt()):
            with suppress(type(error)):
                ledger = WORK / f"{type(error).__name__}.jsonl"
                self.fit(small, account=capped, ledger=ledger, progress=raising(error))
        child = os.fork()
        if child == 0:
            self.fit(small, account=capped, ledger=WORK / "killed.jsonl", progress=lambda *_: os._exit(9))
            os._exit(1)
        os.waitpid(child, 0)
        wider = replace(capped, cap=Cap(epsilon=9.0, delta=1e-4), change_cap=True, by="the board")
        self.fit(small, account=wider)
        newer = replace(capped, cap=None, source=None, add_version=True)
        made = Synthesizer("independent", schema=self.schema("patients"), budget=small.budget)
        made.fit(records(table).head(100), account=newer)
        self.account("capped", "patients", by_file=True)

        # Renyi divergences add up; all records of a patient are the unit; the frame's content is known.
        renyi = AccountFile(path=WORK / "renyi.account", cap=Cap(epsilon=4.0, delta=1e-5), filter="renyi", by="steward")
        visits = replace(small, schema="visits")
        self.fit(visits, account=renyi)
        self.fit(replace(RELEASES["visits"], budget=small.budget), account=renyi)
        self.account("renyi", "visits", by_file=False)

        # No cap: all is recorded, what was handed out too.
        open_ended = AccountFile(path=WORK / "uncapped.account", by="steward")
        self.fit(small, account=open_ended, **REHEARSED)
        self.fit(replace(small, budget=Budget(math.inf, 1e-7)), account=open_ended)
        with suppress(KeyboardInterrupt):
            made = Synthesizer(Looked(), schema=self.schema("patients"), budget=small.budget)
            made.fit(records(table), account=open_ended)
        self.account("uncapped", "patients", by_file=False)

    def account(self, name: str, schema: str, *, by_file: bool) -> None:
        path = WORK / f"{name}.account"
        standing = AccountFile(path=path).read()
        shutil.copy(path, self.folder / "accounts")
        self.expected["accounts"][name] = {
            "schema": schema,
            "table": "patients.csv",
            "by_file": by_file,
            "head": standing.head,
            "standing": told_standing(standing),
        }

    def make(self) -> None:
        self.public()
        self.releases()
        self.canaries()
        self.classifiers()
        self.ledgers()
        self.checkpoints()
        self.accounts()
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        made_by = {"commit": commit, "synthdp": synthdp.__version__}
        everything = {"made_by": made_by, "accounting": plain(accounting.provenance()), **self.expected}
        text = json.dumps(everything, indent=1, ensure_ascii=False)
        (self.folder / "expected.json").write_text(text + "\n", encoding="utf-8")


# Fits that do not end well.

STOPPED = {
    "dpgan": Case(generator="dpgan", settings={**SMALL, **WALK, "steps": 8}),
    "pategan": Case(generator="pategan", settings={**SMALL, **ORIGINAL, "rounds": 6}),
    "dpdm": of_pictures("dpdm", {**DIFFUSION, "steps": 6, "hidden": 6, "depth": 1, "dimensions": 6}),
    "in-an-account": Case(generator="dpgan", settings={**SMALL, **WALK, "steps": 8, "start": "none"}),
}


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """A block of twenty questions is charged, and Ctrl-C comes after the thirteenth."""

    name: ClassVar[str] = "unused"
    traits: ClassVar[Traits] = Traits()
    questions: int = option(20, "questions")

    def plan(self, schema: Schema, noise: float) -> tuple[Entry, ...]:  # noqa: ARG002
        return (Entry(Gaussian(noise), self.questions),)

    def fit(self, data: Any, **_: Any) -> Any:
        noise = data.commit(lambda z: self.plan(data.declared, z))
        data.resolve()
        with data.reserve(Gaussian(noise), self.questions):
            for _ in range(13):
                data.marginals([("sex",)], noise)
            raise KeyboardInterrupt


@dataclass(frozen=True, kw_only=True)
class Looked:
    """The records are handed out beside what was planned."""

    name: ClassVar[str] = "revealed"
    traits: ClassVar[Traits] = Traits()

    def plan(self, schema: Schema, noise: float) -> tuple[Entry, ...]:  # noqa: ARG002
        return (Entry(Gaussian(noise)),)

    def fit(self, data: Any, **_: Any) -> Any:
        noise = data.commit(lambda z: self.plan(data.declared, z))
        data.reveal("shown to the steward")
        data.marginals([("sex",)], noise)
        raise KeyboardInterrupt


@contextmanager
def stopping(after: int = 3) -> Iterator[None]:
    """Ctrl-C once so many checkpoints were kept."""
    whole, kept = Checkpoint.save, 0

    def save(self: Checkpoint, *given: Any) -> None:
        nonlocal kept
        whole(self, *given)
        kept += 1
        if kept > after:
            raise KeyboardInterrupt

    Checkpoint.save = save
    try:
        yield
    finally:
        Checkpoint.save = whole


def raising(error: BaseException) -> Any:
    """A progress callback that ends the fit."""

    def progress(*_: Any) -> None:
        raise error

    return progress


# Events as ledgers hold them: those that one accountant adds up together, and those that are under replace_one or have no proof.


def entries(*events: Event, count: int = 2) -> tuple[Entry, ...]:
    return tuple(Entry(event, count) for event in events)


SAMPLE = Sampled(0.05, (Gaussian(4.0), Gaussian(20.0)))
OTHER: dict[str, Any] = {"relation": "replace_one", "unit": "patient"}
EVENTS = {
    "events": entries(
        Gaussian(8.0),
        Laplace(30.0),
        Choice(0.02),
        Threshold(9.0, 1e-7, 2),
        SAMPLE,
        Vote(12.0),
        Vote(40.0, "laplace"),
        SmoothGaussian(25.0, 1e-3),
        Capped("gaussian", 0.1),
        Capped("zcdp", 0.005),
        Capped("renyi", 0.01, 8.0, 1e-8),
        Selection(3.0, 1.0, (entries(Gaussian(20.0)), (*entries(Choice(0.01)), *entries(SAMPLE, count=5)))),
    ),
    "replaced": entries(
        Gaussian(8.0, **OTHER),
        Sampled(0.05, (Gaussian(8.0, **OTHER),), "without_replacement", **OTHER),
        Vote(12.0, "laplace", **OTHER),
        count=3,
    ),
    "shuffled": (*entries(Sampled(0.05, (Sampled(0.5, (Laplace(2.0),)),), "shuffled")), *entries(Revealed("by hand"))),
}


def run(*arguments: str) -> None:
    if cli.run(arguments) != 0:
        raise SystemExit(f"synthdp {' '.join(arguments)} failed")


def main(target: Path) -> None:
    if target.exists():
        raise SystemExit(f"{target} exists: what was written once is never written again")
    WORK.mkdir(mode=0o700)
    try:
        Maker(WORK / "made").make()
        shutil.move(WORK / "made", target)
    finally:
        shutil.rmtree(WORK)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
