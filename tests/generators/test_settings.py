"""Law 36: a wrong setting is refused before account, ledger or records are opened.

Every option of every generator, found by its fields, in every mode of the contract, of tables and of images. A refusal names
the option. What is not refused comes to its first question: nothing that settings, schema and budget say refuses a fit that was
charged.
"""

import dataclasses
import itertools
import math
import re

import numpy as np
import pytest
from clinic import (
    SIDE,
    Opened,
    contracts,
    kind_of,
    make_frame,
    make_pictures,
    make_schema,
    picture_schema,
    quick,
    untouched,
)
from sweeps import lone, sweep

from synthdp import BadInput, Budget, Schema, Synthesizer, accounting, generators
from synthdp.generators.parts.gan_model import MOST_LABELS
from synthdp.ledger.events import RECORD
from synthdp.ledger.ledger import Ledger
from synthdp.options import check, fraction, number, one_of, option, several, whole
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.testing.contract import WRONG, type_of

BUDGET = Budget(epsilon=0.5, delta=1e-5)
EVERY = [(data, name) for data in ("table", "images") for name in contracts(data)]
OPTIONS = [(data, name, field.name) for data, name in EVERY for field in dataclasses.fields(kind_of(name))]
FEW = {"mixture", "dpgan", "classgauss"}  # of unlike kinds of options
# Values that one option or another takes.
PERHAPS = {
    int: (0, 1, 2),
    float: (0, -1.0, 0.5, 1e-9, 1.0),
    str: (),
    bool: (True, False),
    tuple: ((), [2], (2, 3), (1, 1, 1), (0.5, 1.5, 2.5)),
}


@pytest.fixture
def unpriced(monkeypatch):
    """Plans are made and not solved, which takes seconds for some: what a budget refuses has tests of its own."""
    monkeypatch.setattr(accounting, "calibrate", lambda plan, *_, **__: (plan(2.0), 2.0)[1])


def schema_of(data, **changes):
    return make_schema(**changes) if data == "table" else picture_schema(**changes)


def refusal(make, schema, folder, budget=BUDGET, **options):
    """What a fit of the generator that `make` makes says before anything is opened; None where it goes on to the records."""
    files = {"ledger": folder / "ledger.jsonl", "account": folder / "records.account"}
    try:
        Synthesizer(make(), schema=schema, budget=budget).fit(untouched(), **files, **options)
    except Opened:
        return None
    except BadInput as refused:
        assert not list(folder.iterdir())
        return str(refused)
    raise AssertionError("a fit of no records")


def comes_to_its_first_question(make, schema, monkeypatch, budget=BUDGET):
    """What was not refused commits its plan, and asks."""

    def answer(*_, **__):
        raise Opened

    frame = make_frame(0) if schema.image is None else make_pictures(0)
    frame = frame.reindex(columns=list(schema.names))
    data = Sensitive(frame, schema, Account(budget, Ledger(), unit=schema.unit or RECORD), seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(Sensitive, "_answer", answer)
        with pytest.raises(Opened):
            make().fit(data, seed=1)


@pytest.mark.usefixtures("unpriced")
@pytest.mark.parametrize(("data", "name", "option"), OPTIONS)
def test_a_wrong_value_is_refused_by_name_before_anything_is_opened(data, name, option, tmp_path):
    kind, nullable = type_of(kind_of(name), option)
    wrong = [value for value in WRONG[kind] if value is not None]
    for value in (*wrong, *(() if nullable else (None,))):
        said = refusal(lambda value=value: quick(name, data, **{option: value}), schema_of(data), tmp_path)
        assert said is not None, f"{option}={value!r} would be fitted"
        assert f"generator.{option}" in said, f"{option}={value!r}: {said}"


@pytest.mark.usefixtures("unpriced")
@pytest.mark.parametrize(("data", "name", "option"), sweep(OPTIONS, lambda case: case[0] == "table" and case[1] in FEW))
def test_what_is_not_refused_comes_to_its_first_question(data, name, option, tmp_path, monkeypatch):
    kind, _ = type_of(kind_of(name), option)
    rule = next(field for field in dataclasses.fields(kind_of(name)) if field.name == option).metadata["rule"]
    for value in (*PERHAPS[kind], *rule.choices):

        def make(value=value):
            return quick(name, data, **{option: value})

        said = refusal(make, schema_of(data), tmp_path)
        if said is None:
            comes_to_its_first_question(make, schema_of(data), monkeypatch)
        else:
            assert re.search(rf"\b{option}\b", said), f"{option}={value!r}: {said}"


def choices(data, name):
    """(option, value) of every option whose values can be listed."""
    fields = [(field.name, field.metadata["rule"].choices) for field in dataclasses.fields(kind_of(name))]
    return [(option, value) for option, values in fields for value in values if option != "device"]


@pytest.mark.usefixtures("unpriced")
@pytest.mark.parametrize(
    ("data", "name"), sweep([case for case in EVERY if lone(case[1])], lambda case: "dpgan" not in case[1])
)
def test_choices_that_do_not_go_together_are_refused_by_name(data, name, tmp_path, monkeypatch):
    for (one, first), (other, second) in itertools.combinations(choices(data, name), 2):
        if one == other:
            continue

        def make(settings={one: first, other: second}):  # noqa: B006
            return quick(name, data, **settings)

        said = refusal(make, schema_of(data), tmp_path)
        if said is None:
            comes_to_its_first_question(make, schema_of(data), monkeypatch)
        else:
            assert re.search(rf"\b({one}|{other})\b", said), f"{one}={first}, {other}={second}: {said}"


@pytest.mark.usefixtures("unpriced")
@pytest.mark.filterwarnings("ignore:budget.delta")
@pytest.mark.parametrize(("data", "name"), sweep(EVERY, lambda case: case[1] in FEW))
def test_a_schema_that_does_not_fit_is_refused_before_anything_is_opened(data, name, tmp_path, monkeypatch):
    columns = schema_of(data).to_dict()["columns"]
    for changes in (
        {"columns": {"only": {"kind": "boolean"}}, "targets": ["only"]},
        {"columns": {"only": {"kind": "categorical", "categories": "learn"}}, "targets": ["only"]},
        {"columns": {"image": {"kind": "image", "height": 1, "width": 1}}, "targets": []},
        {"units": None},
        {"units": "learn"},
        {"units": 10**12},
        {"targets": []},
        {"columns": {**columns, "wide": {"kind": "integer", "bounds": [0, 999], "bins": 1000}}, "targets": ["wide"]},
    ):
        declared = {**schema_of(data).to_dict(), **changes}
        schema = Schema.from_dict({key: value for key, value in declared.items() if value is not None})
        if refusal(lambda: quick(name, data), schema, tmp_path) is None:
            comes_to_its_first_question(lambda: quick(name, data), schema, monkeypatch)


@pytest.mark.parametrize(
    ("data", "name"), sweep(EVERY, lambda case: case in (("table", "mixture"), ("table", "dpgan")))
)
def test_whatever_is_learned_is_fitted(data, name):
    """A target may turn out to have more codes than a label has, or to stand alone."""
    many, budget = MOST_LABELS + 6, Budget(math.inf, 1e-5)
    learned = {"kind": "categorical", "categories": "learn"}
    frame = make_frame(many) if data == "table" else make_pictures(many)
    name_of = "sex" if data == "table" else "finding"
    frame[name_of] = [f"code {row}" for row in range(many)]
    schema = schema_of(data, targets=[name_of])
    declared = schema.to_dict()
    wide = Schema.from_dict({**declared, "columns": {**declared["columns"], name_of: learned}})
    alone = Schema.from_dict(
        {"declared_by": "the tests", "units": 400, "targets": ["sex"], "columns": {"sex": learned}}
    )
    short = {"steps": 2} if "steps" in {field.name for field in dataclasses.fields(kind_of(name))} else {}
    short |= {"agreement_rows": 40} if kind_of(name).name == "classgauss" else {}
    for each in (wide, alone) if data == "table" else (wide,):
        generator = quick(name, data, **short)
        release = Synthesizer(generator, schema=each, budget=budget).fit(frame[list(each.names)], seed=1)
        release.schema.validate(release.sample(5, seed=1), "error")


@pytest.mark.parametrize(
    ("data", "name", "settings", "schema", "said"),
    [
        ("table", "dpgan", {"condition": "patient"}, {}, "generator.condition"),
        (
            "table",
            "classgauss",
            {"condition": "nowhere"},
            {},
            "generator.condition: no modelled column named 'nowhere'",
        ),
        ("table", "dpmerf", {"condition": "nowhere"}, {}, "generator.condition"),
        ("images", "dpgan_images:mlp", {"start": "label"}, {"targets": []}, "generator.start"),
        ("images", "dpgan_images:conv", {"channels": (4,) * (SIDE.bit_length() + 1)}, {}, "generator.channels"),
        ("images", "dpdm", {"architecture": "unet", "depth": 20}, {}, "generator.depth"),
        ("table", "dpgan", {"clipping": "adaptive", "clip_count_noise": 1e-3}, {}, "generator.clip_count_noise fixes"),
        ("table", "pategan_original", {"gamma": 5.0}, {}, "generator.gamma fixes"),
        ("table", "pategan_original", {"gamma": 5.0, "rounds": None, "queries": 90}, {}, "generator.gamma fixes"),
        ("table", "classgauss", {"condition": "sex"}, {"columns": {"sex": {"kind": "boolean"}}, "targets": []}, "only"),
        ("table", "dpmerf", {"condition": "sex"}, {"columns": {"sex": {"kind": "boolean"}}, "targets": []}, "only"),
        ("table", "aim", {"degree": 4}, {"columns": {f"x{n}": {"kind": "boolean"} for n in range(60)}}, "degree"),
        ("table", "privbayes", {"degree": 9}, {"columns": {f"x{n}": {"kind": "boolean"} for n in range(60)}}, "degree"),
        ("table", "mixture", {"label_share": 0.2}, {"targets": []}, "generator.label_share"),
    ],
)
def test_settings_that_do_not_fit_schema_or_budget_are_refused_by_name(data, name, settings, schema, said, tmp_path):
    declared = {**schema_of(data).to_dict(), **schema}
    declared["targets"] = [name for name in declared.get("targets", []) if name in declared["columns"]]
    found = refusal(lambda: quick(name, data, **settings), Schema.from_dict(declared), tmp_path)
    assert found is not None
    assert said in found


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("aim", {"rounds": 0}),
        ("aim", {"model_size": -1.0}),
        ("aim", {"share": 1.0}),
        ("classgauss", {"dimensions": 0}),
        ("classgauss", {"components": 1.5}),
        ("classgauss", {"quantile": 1.0}),
        ("classgauss", {"basis": 0.0}),
        ("classgauss", {"middle": 0.9}),
        ("dpgan", {"steps": 0}),
        ("dpgan", {"clip": 0.0}),
        ("dpgan", {"tables": 1.0}),
        ("dpgan", {"tables": 0.0}),
        ("dpgan", {"rate": 1.5}),
        ("dpgan", {"hidden": ()}),
        ("dpgan", {"average": 1.0}),
        ("dpgan", {"clip_quantile": 1.0, "clipping": "adaptive"}),
        ("dpgan", {"clip_speed": 0.0, "clipping": "adaptive"}),
        ("dpgan", {"clip_count_noise": 0.0, "clipping": "adaptive"}),
        ("dpgan", {"clip_decay": 0.0, "clipping": "decay"}),
        ("dpgan", {"clip_gamma": -1.0, "clipping": "automatic"}),
        ("dpgan", {"clip_shares": (1.0,), "clipping": "per_group"}),
        ("dpgan", {"clip_shares": (1.0, 0.0, 1.0), "clipping": "per_group"}),
        ("dpgan", {"clip_allocation": "x", "clipping": "per_group"}),
        ("dpgan", {"momentum": 1.0, "optimizer": "momentum"}),
        ("dpmerf", {"features": 7}),
        ("dpmerf", {"steps": 0}),
        ("dpmerf", {"sigma": -1.0}),
        ("dpmerf", {"counts": 1.0}),
        ("dpmerf", {"hidden": ()}),
        ("kernel_teachers", {"teachers": 0}),
        ("kernel_teachers", {"queries": 0}),
        ("kernel_teachers", {"degree": 11}),
        ("kernel_teachers", {"tables": 1.0}),
        ("kernel_teachers", {"tables": 0.2, "start": "none"}),
        ("kernel_teachers", {"rounds": 30, "queries": 1000}),
        ("kernel_teachers", {"hidden": ()}),
        ("kernel_teachers", {"average": 1.0}),
        ("mst", {"share": 0.6, "structure": 0.5}),
        ("mst", {"iterations": 0}),
        ("pategan", {"teachers": 0}),
        ("pategan", {"queries": 0}),
        ("pategan", {"clip_quantile": 0.9, "answers": "ranks"}),
        ("pategan", {"tables": 1.0}),
        ("pategan", {"tables": 0.2, "start": "none"}),
        ("pategan", {"units": -1}),
        ("pategan", {"replay": 0}),
        ("pategan_original", {"teachers": 0}),
        ("pategan_original", {"queries": 0}),
        ("pategan_original", {"gamma": 0.0}),
        ("pategan_original", {"gamma": 0.1, "start": "label"}),
        ("pategan_original", {"tables": 0.2, "start": "none"}),
        ("pategan_original", {"hidden": ()}),
        ("privbayes", {"structure": 0.0}),
        ("privbayes", {"usefulness": -1.0}),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(name, settings):
    """At the ends of their ranges, and such as contradict others: the first one is named."""
    with pytest.raises(BadInput, match=rf"generator\.{next(iter(settings))}\b"):
        kind_of(name)(**settings)


def test_a_budget_that_does_not_suffice_is_refused_before_anything_is_opened(tmp_path, schema):
    """Also where it would suffice, but for figures of fitness or for what is left to learn."""
    dear = Budget(0.05, 1e-5)
    vote = {"gamma": 1e-3, "queries": 20, "teachers": 4, "student_steps": 1}

    def make(**more):
        return lambda: generators.make("pategan_original", {**vote, **more})

    assert refusal(make(), schema, tmp_path, dear) is None
    said = refusal(make(rounds=20), schema, tmp_path, dear)
    assert "above the budget's 0.05" in said
    assert refusal(make(rounds=1, gamma=2e-3), schema, tmp_path, dear) is None
    said = refusal(make(rounds=1, gamma=2e-3), schema, tmp_path, dear, fitness=0.5)
    assert "above the budget's 0.05" in said


def test_a_generator_without_validate_is_refused_by_name(schema):
    class Old:
        name = "old"
        traits = generators.Traits()

    with pytest.raises(BadInput, match=r"generator old has no validate\(schema, budget\)"):
        Synthesizer(Old(), schema=schema, budget=BUDGET, trust=__name__)
    del Old.traits
    with pytest.raises(BadInput, match="the class of generator old has no traits"):
        Synthesizer(Old(), schema=schema, budget=BUDGET, trust=__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """One option of each rule."""

    count: int = option(1, "a count", whole(1, 10))
    level: float | None = option(None, "a level", number("(0, 1]"))
    part: float = option(0.5, "a part", fraction())
    way: str = option("a", "a way", one_of("a", "b"))
    widths: tuple[int, ...] = option((), "widths", several(whole(), most=2))

    def __post_init__(self) -> None:
        check(self, "settings.")


def test_values_are_kept_as_plain_ones_and_refused_by_their_rule():
    kept = Settings(count=np.int64(3), level=np.float32(0.5), widths=[np.int32(2)])
    assert [type(value) for value in (kept.count, kept.level, kept.widths[0])] == [int, float, int]
    assert (Settings(level=1).level, Settings(level=None).level, Settings(widths=[1, 2]).widths) == (1.0, None, (1, 2))
    for bad, rule in (
        ({"count": 11}, "be a whole number from 1 to 10, got 11"),
        ({"level": 0}, r"be a number in \(0, 1\], got 0"),
        ({"part": None}, r"be a number in \(0, 1\), .*, got None"),
        ({"way": "c"}, "be one of a, b, got 'c'"),
        ({"widths": [1, 2, 3]}, "be a list of 0 to 2 values, each of which must be a whole number"),
        ({"count": 10**5000}, "be a whole number from 1 to 10, got a value of type int"),
    ):
        with pytest.raises(BadInput, match=f"settings.{next(iter(bad))} must {rule}"):
            Settings(**bad)
