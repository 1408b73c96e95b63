"""The checks of the contract: what every generator must keep, each a function of a `Subject`. "Law n" is row n of PRIVACY.md, section 9."""

import contextlib
import dataclasses
import functools
import io
import json
import logging
import math
import os
import secrets
import tempfile
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synthdp import accounting, generators
from synthdp.api import Release, Synthesizer, load, verify
from synthdp.errors import BadInput, NotEntered
from synthdp.generators import HISTORIES, IMAGES, TABLE, Model
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Entry, Plan, scoped
from synthdp.ledger.ledger import Ledger
from synthdp.options import shown
from synthdp.report.folder import MODEL, opened
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.seal import Sensitive
from synthdp.seal.charging import Account
from synthdp.seal.replay import Recorder
from synthdp.seal.resume import digest
from synthdp.testing.made_up import ORDERED, SIDE, cells_of, make_frame, make_pictures, make_schema, picture_schema

BUDGET = Budget(epsilon=1.0, delta=1e-5)
NEARLY = 0.95  # of the budget that a fit must use
CANARY = "canary-7f3a91c2d4e5b6a798"
HUGE = 10**30
# Values that no option of a type takes.
WRONG: dict[type, tuple[Any, ...]] = {
    int: ("7", "", True, [], [1], {}, math.nan, math.inf, -math.inf, 2.5, -1, HUGE, 1e300, 1j, object()),
    float: ("0.5", "", True, [], [0.5], {}, math.nan, math.inf, -math.inf, 10**5000, 1e300, 1j, object()),
    str: ("nosuch", "", 7, 0.5, True, [], ["none"], {}, math.nan, object()),
    bool: ("true", 0, 1, 0.5, [], {}, None, math.nan, object()),
    tuple: ("text", 7, True, {}, ["a"], [[1]], [True], [None], [math.nan], [math.inf], [-1], [0], [1e300], object()),
}


# ---- The generator that is checked, and its fits.


@dataclass(frozen=True)
class Subject:
    """A generator with small settings, and the kind of records that it is checked on: "table", "histories" or "images"."""

    generator: Any
    data: str = TABLE

    def schema(self, **changes: Any) -> Schema:
        """The made-up records' schema; of a generator that learns histories, with the order of a patient's records."""
        if self.data == IMAGES:
            return picture_schema(**changes)
        return make_schema(**({**ORDERED, **changes} if self.data == HISTORIES else changes))

    def frame(self, rows: int, seed: int = 0, repeats: int = 1) -> pd.DataFrame:
        """Made-up records."""
        return (make_frame if self.data != IMAGES else make_pictures)(rows, seed, repeats)

    def fitted(
        self, frame: pd.DataFrame, budget: Budget = BUDGET, schema: Schema | None = None, **options: Any
    ) -> Release:
        """A fit as users make it; a rehearsal, unless `seed=None` is said. A third party's generator is trusted: the caller came to
        run it."""
        origin = generators.origin(self.generator)
        trust = None if origin is None else origin["package"]
        made = Synthesizer(self.generator, schema=schema or self.schema(), budget=budget, trust=trust)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotEntered)
            return made.fit(frame, **{"seed": 3, **options})

    def run(self, frame: pd.DataFrame, schema: Schema, recorder: Recorder | None = None) -> tuple[Plan, Model]:
        """What a fit books, and its model."""
        account = Account(BUDGET, Ledger(), unit=schema.unit or RECORD)
        data = Sensitive(frame, schema, account, seed=5, recorder=recorder)
        model = self.generator.fit(data, seed=5)
        whole = all(hasattr(model, part) for part in ("schema", "sample", "tensors"))
        require(whole, "fit must return a model with schema, sample and tensors: see synthdp.generators.Model")
        return account.ledger.entries(), model

    def least_noise(self) -> float:
        """Of the plan within the budget: by pld, or by rdp where pld has no proof (a plan that is a zCDP cap)."""
        for accountant in ("pld", "rdp"):
            with contextlib.suppress(accounting.Unproven):
                return accounting.calibrate(lambda z: self.generator.plan(self.schema(), z), BUDGET, accountant)
        raise AssertionError("neither pld nor rdp has a proof for the plan")


@functools.lru_cache(maxsize=64)
def usual(subject: Subject) -> Release:
    """One release for all checks that look at an ordinary one; nothing in it changes."""
    return subject.fitted(_ordinary(subject))


def _ordinary(subject: Subject) -> pd.DataFrame:
    return subject.frame(400 if subject.data != IMAGES else 200)


def require(condition: Any, sentence: str) -> None:
    """Raise `AssertionError` with the sentence where the condition does not hold."""
    if not condition:
        raise AssertionError(sentence)


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Raise `AssertionError` where frames differ, pictures cell by cell (pandas compares arrays by identity)."""
    pictures = [name for name in one.columns if len(one) and isinstance(one[name].iloc[0], np.ndarray)]
    pd.testing.assert_frame_equal(one.drop(columns=pictures), other.drop(columns=pictures))
    for name in pictures:
        np.testing.assert_array_equal(np.stack(list(one[name])), np.stack(list(other[name])))


def equal(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether `same` finds no difference."""
    try:
        same(one, other)
    except AssertionError:
        return False
    return True


# ---- The checks.


def settings_are_frozen_and_explained(subject: Subject) -> None:
    """A frozen dataclass of keyword-only settings, each with its help; and it has what a generator must have."""
    kind = type(subject.generator)
    require(dataclasses.is_dataclass(kind), "a generator is a dataclass of its settings")
    require(kind.__dataclass_params__.frozen, "settings must be frozen: @dataclass(frozen=True, kw_only=True)")
    for field in dataclasses.fields(kind):
        require(field.kw_only, f"setting {field.name} must be keyword-only")
        require(field.metadata.get("help"), f"setting {field.name} has no help: declare it by synthdp.options.option")
    for name in ("validate", "plan", "fit", "restore"):
        require(callable(getattr(kind, name, None)), f"a generator needs {name}(): see synthdp.generators.Generator")
    require(isinstance(getattr(kind, "name", None), str), "a generator needs the class attribute `name`")
    require(isinstance(kind.traits, generators.Traits), "a generator's `traits` are a synthdp.generators.Traits")


def wrong_settings_are_refused(subject: Subject) -> None:
    """Law 36: values that no option of the type takes are refused by name, by the settings or by `validate`."""
    for field in dataclasses.fields(subject.generator):
        kind, nullable = type_of(type(subject.generator), field.name)
        for value in (*WRONG.get(kind, ()), *(() if nullable else (None,))):
            try:
                made = dataclasses.replace(subject.generator, **{field.name: value})
                generators.check(made, subject.schema(), BUDGET)
            except BadInput as refused:
                said = f"the refusal of {field.name}={shown(value)} does not name the option: {refused}"
                require(f"generator.{field.name}" in str(refused), said)
            else:
                raise AssertionError(
                    f"{field.name}={shown(value)} would be fitted: give the option a rule, or refuse it in validate"
                )


def type_of(kind: type, name: str) -> tuple[type, bool]:
    """The type of an option, and whether it may be None."""
    hint = typing.get_type_hints(kind)[name]
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    plain = hint if typing.get_origin(hint) is tuple or not parts else parts[0]
    return typing.get_origin(plain) or plain, type(None) in typing.get_args(hint)


def plans_read_no_data_and_repeat(subject: Subject) -> None:
    """A plan is a function of schema and noise."""
    one, other = (subject.generator.plan(subject.schema(), 2.0) for _ in range(2))
    require(one == other, "plan(schema, noise) gave two plans for the same arguments")
    require(all(isinstance(entry, Entry) for entry in one), "a plan is a tuple of `synthdp.ledger.events.Entry`")


def the_ledger_is_the_plan(subject: Subject, sizes: Sequence[int] = (0, 1, 40, 41)) -> None:
    """Whatever the records are: what a fit books is its plan, at the least noise that keeps the budget (laws 12 and 16)."""
    schema = subject.schema()
    ledgers = {subject.run(subject.frame(rows), schema)[0] for rows in sizes}
    differ = f"fits of {', '.join(map(str, sizes[:-1]))} and {sizes[-1]} records differ"
    require(len(ledgers) == 1, f"what a fit books depends on the records: {differ}")
    expected = scoped(
        subject.generator.plan(schema, subject.least_noise()), relation="add_remove", unit=schema.unit or RECORD
    )
    booked = next(iter(ledgers))
    require(
        booked == expected,
        f"the fit booked {booked}, its plan at the least noise is {expected} (equal events are one entry with a count)",
    )


def the_budget_is_kept_and_nearly_used(subject: Subject, epsilons: Sequence[float] = (0.5, 3.0)) -> None:
    """The statement's epsilon is at most the budget's, and at least 95 % of it."""
    for epsilon in epsilons:
        budget = Budget(epsilon, BUDGET.delta)
        release = usual(subject) if budget == BUDGET else subject.fitted(_ordinary(subject), budget)
        found = release.statement.epsilon
        require(found <= epsilon, f"a fit with a budget of epsilon {epsilon} spent {found}")
        require(
            found >= NEARLY * epsilon,
            f"a fit with a budget of epsilon {epsilon} used {found} only: plan with `data.commit`",
        )


def too_small_a_budget_charges_nothing(subject: Subject) -> None:
    """A budget that does not suffice is refused before anything is charged, or is kept; also where something is left to learn."""
    learned = {"columns": {"sex": {"kind": "categorical", "categories": "learn"}}} if subject.data != IMAGES else {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        try:
            subject.fitted(subject.frame(40), Budget(1e-9, 1e-300), subject.schema(**learned), ledger=path)
        except BadInput:
            require(not path.exists(), "a fit that was refused for its budget charged something before")
        else:
            spent = accounting.epsilon(Ledger.read(path), 1e-300)
            require(spent <= 1e-9, f"a fit with a budget of epsilon 1e-9 spent {spent}")


def replay(subject: Subject, unit: str | None = None) -> None:
    """Laws 12 and 14: the answers of a run on D, fed to a run on D plus one unit, whose cells are awkward.

    The same questions are asked in the same order, with the same public numbers, each moves by at most its sensitivity, and the model
    stays the same bit for bit.
    """
    schema = subject.schema(**({"unit": unit, "max_records_per_unit": 2} if unit else {}))
    fewer, more = subject.frame(60, repeats=3), _awkward(subject, 3 if unit else 1)
    whole = pd.concat([fewer, more], ignore_index=True)
    first = Recorder()
    ledger, model = subject.run(fewer, schema, first)
    second = Recorder(of=first)
    try:
        again, other = subject.run(whole, schema, second)
    except (IndexError, RuntimeError) as error:
        raise AssertionError(f"given the same answers, one unit more changes what is asked: {error}") from error
    require(again == ledger, "given the same answers, one unit more changes what is booked")
    tensors = model.tensors(), other.tensors()
    require(tensors[0].keys() == tensors[1].keys(), "given the same answers, one unit more changes the model's arrays")
    for name, array in tensors[0].items():
        message = (
            f"given the same answers, one unit more changes the model: its array {name} saw a record, or the fit draws chance that "
            "does not come from `seed`"
        )
        require(np.array_equal(array, tensors[1][name], equal_nan=True), message)
    require(
        len(second.movements) == len(first.asked) > 0,
        "given the same answers, one unit more changes how often is asked",
    )
    _require_same(first, second, "one unit more changes")
    for (question, *_), (moved, sensitivity) in zip(second.asked, second.movements, strict=True):
        message = f"one unit moves {type(question).__name__} by {moved:g}, its sensitivity is {sensitivity:g}"
        require(moved <= sensitivity * (1 + 1e-9), message)
    require(max(moved for moved, _ in second.movements) > 0, "no question is about the records: one unit moves none")


def _require_same(one: Recorder, other: Recorder, what: str) -> None:
    """The same questions in all that is public, such as the clips that scale noise; what their functions return shows in their movement."""
    asked = [[digest(question, None, None) for question, *_ in run.asked] for run in (one, other)]
    require(asked[0] == asked[1], f"given the same answers, {what} what is asked")


def _awkward(subject: Subject, rows: int) -> pd.DataFrame:
    """Records of one more unit, with cells that are nothing: NaN, infinity, unknown categories, pictures of another size."""
    more = subject.frame(rows, seed=8).assign(patient="p-new")
    if subject.data != IMAGES:
        cells: dict[str, Any] = {
            "age": math.nan,
            "dose": math.inf,
            "sex": CANARY,
            "stage": None,
            "ill": None,
            "seen": pd.NaT,
        }
        return more.assign(**cells)
    pictures = [np.full((SIDE, SIDE), 255, np.uint8), np.full((3, 9), 255, np.uint8), None]
    return more.assign(image=cells_of(pictures[:rows]))


def replay_of_patients(subject: Subject) -> None:
    """The same where a unit is a patient with several records."""
    replay(subject, "patient")


def zero_and_one_record_fit(subject: Subject) -> None:
    """Law 17: 0 and 1 records are ordinary input."""
    for rows in (0, 1):
        release = subject.fitted(subject.frame(rows))
        require(release.statement.epsilon <= BUDGET.epsilon, f"a fit of {rows} records spent more than its budget")
        subject.schema().validate(release.sample(20, seed=1), "error")


def samples_follow_the_schema(subject: Subject) -> None:
    """Columns, types, bounds and categories of samples; any number of rows, none too."""
    release, schema = usual(subject), subject.schema()
    sample = release.sample(200, seed=1)
    require(list(sample.columns) == list(schema.names), f"a sample has the columns {list(sample.columns)}")
    if subject.data != HISTORIES:
        require(sample["patient"].is_unique, "identifiers of a sample must differ: decode codes with `Codec.decode`")
    else:
        apart = (sample["patient"] != sample["patient"].shift()).sum()
        require(apart == sample["patient"].nunique(), "a sample's records of one patient must follow one another")
        require(
            sample.groupby("patient")["seen"].is_monotonic_increasing.all(), "a patient's records must stand in order"
        )
        require(
            len(sample[["patient", "sex"]].drop_duplicates()) == sample["patient"].nunique(),
            "a patient's records must agree in per_unit",
        )
    for rows in (0, 1, 200):
        found = len(release.sample(rows, seed=1))
        require(found == rows, f"sample({rows}) gave {found} rows")
    schema.validate(sample, "error")


def seeds_repeat(subject: Subject) -> None:
    """A rehearsal repeats, bit for bit, and so does a seeded sample; another seed draws another."""
    release, again = usual(subject), subject.fitted(_ordinary(subject))
    first = release.sample(50, seed=9)
    repeats = equal(first, release.sample(50, seed=9))
    require(repeats, "two samples of one seed differ: draw all chance of `sample` from its `seed`")
    repeats = equal(first, again.sample(50, seed=9))
    require(repeats, "two fits of one seed give different models: draw all chance of `fit` from its `seed`")
    for one, other in ((9, 10), (None, None)):
        differ = not equal(release.sample(50, seed=one), release.sample(50, seed=other))
        require(differ, f"samples of seeds {one} and {other} are the same")


def without_a_seed_fits_differ(subject: Subject) -> None:
    """Law 33: only rehearsals have a seed; two releases have different noise."""
    frame = subject.frame(200)
    one, other = (subject.fitted(frame, seed=None) for _ in range(2))
    require(not one.statement.rehearsal, "a fit without a seed is no rehearsal")
    require(usual(subject).statement.rehearsal, "a fit with a seed is a rehearsal")
    arrays = zip(one.model.tensors().values(), other.model.tensors().values(), strict=True)
    require(any(not np.array_equal(a, b) for a, b in arrays), "two fits without a seed gave the same model")


def saved_and_restored_it_is_the_same(subject: Subject) -> None:
    """What is read back from a release draws the same records; the whole of it is verified where the generator has a name."""
    release = usual(subject)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "release"
        release.save(folder)
        found = opened(folder, MODEL)
        model = subject.generator.restore(found.schema, found.tensors)
        restored = equal(release.model.sample(60, seed=2), model.sample(60, seed=2))
        require(restored, "the model that `restore` returns draws other samples than the one that was saved")
        name = subject.generator.name
        if name in generators.names() and generators.find(name) is type(subject.generator):
            back = load(folder)
            same(release.sample(60, seed=2), back.sample(60, seed=2))
            require(back.statement == release.statement, "the statement that is read back is another")
            missing = {"epsilon", "columns", "not_covered", "settings"} - set(verify(folder).checked)
            require(not missing, f"verify did not check {missing}")


def arrays_that_do_not_fit_are_refused(subject: Subject) -> None:
    """`restore` raises for arrays of other names or shapes: `BadInput`, or what `load` makes one of."""
    schema, tensors = usual(subject).model.schema, usual(subject).model.tensors()
    name = next(iter(tensors))
    wider = {**tensors, name: np.zeros((*tensors[name].shape, 2))}
    for bad in ({}, {**tensors, "more": np.zeros(3)}, wider):
        try:
            subject.generator.restore(schema, bad)
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            continue
        raise AssertionError("restore takes arrays of other names or shapes: use `synthdp.generators.check_tensors`")


def a_release_holds_no_rows(subject: Subject) -> None:
    """Law 22: neither canaries nor the bytes of records' codes are in a release."""
    frame, schema = subject.frame(200), subject.schema()
    text = "sex" if subject.data != IMAGES else "finding"
    frame["patient"] = [f"{CANARY}-{row}" for row in range(len(frame))]
    frame[text] = frame[text].astype(object)
    frame.loc[3, text] = CANARY
    release = subject.fitted(frame, invalid="clamp")
    with tempfile.TemporaryDirectory() as home:
        release.save(Path(home) / "release")
        content = b"".join(file.read_bytes() for file in (Path(home) / "release").iterdir())
    require(CANARY.encode() not in content, "the text of a record is in the release")
    codes, codec = Codec(schema).encode(frame)[:20], Codec(schema)
    parts = [codes] if codec.picture is None else [codes, codes[:, codec.picture.places]]
    for dtype in (np.uint8, np.int32, np.int64, np.float32, np.float64):
        for row in (row for part in parts for row in part.astype(dtype)):
            require(row.tobytes() not in content, f"the codes of a record are in the release, as {np.dtype(dtype)}")


def canaries_are_nowhere(subject: Subject) -> None:
    """Law 22: random text in cells of records is in no release, sample, ledger, log, warning or progress."""
    frame, canaries = subject.frame(200), [secrets.token_hex(32) for _ in range(12)]
    for name in ("patient", "sex", "stage") if subject.data != IMAGES else ("patient", "finding"):
        frame[name] = [*canaries, *frame[name].astype(object)[12:]]
    said = io.StringIO()

    def progress(step: int, steps: int, figures: Any) -> None:
        said.write(repr((step, steps, dict(figures))))

    with tempfile.TemporaryDirectory() as home, _heard(said):
        folder = Path(home)
        release = subject.fitted(frame, seed=None, invalid="clamp", ledger=folder / "ledger.jsonl", progress=progress)
        release.save(folder / "release")
        release.sample(200).drop(columns="image", errors="ignore").to_csv(folder / "sample.csv")
        content = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    for canary in canaries:
        require(
            canary not in said.getvalue(), "the text of a record is in what was printed, logged or told as progress"
        )
        found = canary.encode() in content or bytes.fromhex(canary) in content
        require(not found, "the text of a record is in a release, a sample or a ledger")


@contextlib.contextmanager
def _heard(said: io.StringIO) -> Iterator[None]:
    """Everything that is printed, also from below Python, logged or warned of goes to `said`."""
    handler, root = logging.StreamHandler(said), logging.getLogger()
    kept, level = {number: os.dup(number) for number in (1, 2)}, root.level
    with (
        tempfile.TemporaryFile() as file,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        warnings.catch_warnings(record=True) as warned,
    ):
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        for number in kept:
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            for number, copy in kept.items():
                os.dup2(copy, number)
                os.close(copy)
            root.removeHandler(handler)
            root.setLevel(level)
            file.seek(0)
            said.write(file.read().decode(errors="replace"))
            said.writelines(str(each.message) for each in warned)


def strange_records_change_no_shape(subject: Subject) -> None:
    """Law 21: schema, codec, statement and the model's arrays (names, shapes, types) do not depend on the records.

    Where the model's shape is itself a charged answer (`chooses`: which columns hang together), the second fit is given the first
    one's answers: the shape is a function of these. So is every question, with all its public numbers. Which categories the noise hides,
    and which tables are chosen, follows from noisy answers, so it may differ between statements.
    """
    schema, found, recorder = subject.schema(), [], None
    for frame in (subject.frame(150), _strange(subject)):
        release = subject.fitted(frame, seed=2, invalid="clamp")
        model = release.model
        if subject.generator.traits.chooses:
            recorder = Recorder(of=recorder)
            _, model = subject.run(frame, schema, recorder)
            if recorder.of is not None:
                _require_same(recorder.of, recorder, "strange records change")
        arrays = {name: (array.shape, str(array.dtype)) for name, array in model.tensors().items()}
        said = release.statement.to_json()
        (said["lost"] or {}).pop("hidden", None)
        if (
            subject.generator.traits.chooses
        ):  # which tables it asks for, and so what noise hides, depends on its choices
            (said["lost"] or {}).pop("pairs", None)
            for each in said["counted"] or ():
                each.pop("tables", None)
        described = release.schema.to_dict(), said, Codec(release.schema).sizes, arrays
        found.append(json.dumps(described, sort_keys=True, default=str))
    require(
        found[0] == found[1], "an outlier or a rare category changes the schema, the statement or the model's arrays"
    )


def _strange(subject: Subject) -> pd.DataFrame:
    frame = subject.frame(150)
    if subject.data != IMAGES:
        frame = frame.astype({"sex": object})
        cells: list[Any] = ["p-strange", 10**9, "never seen", "IX", 1e30, pd.Timestamp("1066-10-14"), True]
        frame.loc[150] = cells
        return frame
    frame["image"] = cells_of([*frame["image"][:3], np.zeros((90, 2)), None, *frame["image"][5:]])
    frame.loc[5, "finding"] = "never seen"
    return frame


CHECKS: tuple[Callable[[Subject], None], ...] = (
    settings_are_frozen_and_explained,
    wrong_settings_are_refused,
    plans_read_no_data_and_repeat,
    the_ledger_is_the_plan,
    the_budget_is_kept_and_nearly_used,
    too_small_a_budget_charges_nothing,
    replay,
    replay_of_patients,
    zero_and_one_record_fit,
    samples_follow_the_schema,
    seeds_repeat,
    without_a_seed_fits_differ,
    saved_and_restored_it_is_the_same,
    arrays_that_do_not_fit_are_refused,
    a_release_holds_no_rows,
    canaries_are_nowhere,
    strange_records_change_no_shape,
)
