"""The contract suite that is shipped finds what it is there to find: generators that break one promise each."""

import dataclasses
import importlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from synthdp import BadInput
from synthdp.generators.independent import Independent, IndependentModel
from synthdp.ledger.events import Entry, Gaussian
from synthdp.options import option
from synthdp.testing import check_generator, checks


@dataclass(frozen=True, kw_only=True)
class Sound(Independent):
    """The house's in all but its class: another package's."""


@dataclass(frozen=True, kw_only=True)
class Looks(Independent):
    """Adds the exact number of records to the first table."""

    def fit(self, data, **more):
        model = super().fit(data, **more)
        exact = data._sealed._Sealed__records.units
        return replace(model, columns=(model.columns[0] + exact, *model.columns[1:]))


@dataclass(frozen=True, kw_only=True)
class AsksMore(Independent):
    """Its plan says two questions, it asks one."""

    def plan(self, schema, noise):  # noqa: ARG002
        return (Entry(Gaussian(noise)), Entry(Gaussian(2 * noise)))


@dataclass(frozen=True, kw_only=True)
class AsksByRecords(Independent):
    """Asks again where there are many records."""

    def plan(self, schema, noise):  # noqa: ARG002
        return (Entry(Gaussian(noise), 2),)

    def fit(self, data, **more):  # noqa: ARG002
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        names = [(name,) for name in data.codec.names]
        tables = data.marginals(names, noise)
        if data._sealed._Sealed__records.units > 60:
            tables = data.marginals(names, noise)
        return IndependentModel(schema, tuple(np.full(len(table), 1 / len(table)) for table in tables))


@dataclass(frozen=True, kw_only=True)
class ClipsByRecords(Independent):
    """Scales its noise by the number of records, far above what clips any."""

    def plan(self, schema, noise):  # noqa: ARG002
        return (Entry(Gaussian(noise), 2),)

    def fit(self, data, **more):  # noqa: ARG002
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        tables = data.marginals([(name,) for name in data.codec.names], noise)
        clip = 1000.0 + data._sealed._Sealed__records.units
        data.sum(Ones(), 1, clip, noise)
        weights = [np.maximum(table, 1) for table in tables]
        return IndependentModel(schema, tuple(each / each.sum() for each in weights))


class Ones:
    """One for each record."""

    def __call__(self, rows):
        return np.ones((len(rows), 1))


@dataclass(frozen=True, kw_only=True)
class KeepsRows(Independent):
    """Keeps the codes of records among its arrays, all of one shape."""

    def fit(self, data, **more):
        model = super().fit(data, **more)
        codes = data._sealed._Sealed__records.codes[:9].astype(np.float64)
        rows = np.zeros((9, len(model.columns)))
        rows[: len(codes)] = codes
        return Kept(schema=model.schema, columns=model.columns, rows=rows)

    def restore(self, schema, tensors):
        model = super().restore(schema, {name: value for name, value in tensors.items() if name != "rows"})
        return Kept(schema=schema, columns=model.columns, rows=tensors["rows"])


@dataclass(frozen=True)
class Kept(IndependentModel):
    rows: np.ndarray

    def tensors(self):
        return {**super().tensors(), "rows": self.rows}


@dataclass(frozen=True, kw_only=True)
class GrowsWithRecords(KeepsRows):
    """As many rows as there are records."""

    def fit(self, data, **more):
        model = super().fit(data, **more)
        return replace(model, rows=np.zeros((data._sealed._Sealed__records.units, 2)))


@dataclass(frozen=True, kw_only=True)
class RefusesFew(Independent):
    """Needs ten records."""

    def fit(self, data, **more):
        if data._sealed._Sealed__records.units < 10:
            raise ValueError("too few records")
        return super().fit(data, **more)


@dataclass(frozen=True, kw_only=True)
class TakesAnything(Independent):
    """An option without a rule."""

    width: int = option(3, "how wide it is")


@dataclass(frozen=True, kw_only=True)
class HasNoHelp(Independent):
    """An option without help."""

    width: int = dataclasses.field(default=3)


@dataclass(frozen=True, kw_only=True)
class Prints(Independent):
    """Tells of a record, below Python's own streams."""

    def fit(self, data, **more):
        raw = data._sealed._Sealed__records.raw
        os.write(1, str(raw["patient"].tolist()).encode())
        return super().fit(data, **more)


@dataclass(frozen=True, kw_only=True)
class DrawsAnyhow(Independent):
    """Its samples do not follow their seed."""

    def fit(self, data, **more):
        model = super().fit(data, **more)
        return Anyhow(schema=model.schema, columns=model.columns)


class Anyhow(IndependentModel):
    def sample(self, rows, *, seed=None, first_row=0):  # noqa: ARG002
        return super().sample(rows, seed=None, first_row=first_row)


@dataclass(frozen=True, kw_only=True)
class ForgetsArrays(Independent):
    """Takes whatever arrays a release holds."""

    def restore(self, schema, tensors):
        return IndependentModel(schema, tuple(tensors[name] for name in sorted(tensors) if name.startswith("column")))


@dataclass(frozen=True, kw_only=True)
class FitsAnyhow(Independent):
    """Its fits draw chance that does not come from their seed."""

    def fit(self, data, **more):
        model = super().fit(data, **more)
        chance = np.random.default_rng().random(len(model.columns[0]))
        return replace(model, columns=(chance / chance.sum(), *model.columns[1:]))


@dataclass(frozen=True, kw_only=True)
class RestoresAnother(Independent):
    """What it reads back is not what was saved."""

    def restore(self, schema, tensors):
        model = super().restore(schema, tensors)
        return replace(model, columns=tuple(column[::-1] for column in model.columns))


@dataclass(frozen=True, kw_only=True)
class ReturnsNothing(Independent):
    """Its fit forgets to return the model."""

    def fit(self, data, **more):
        super().fit(data, **more)


BROKEN = {
    Looks: "replay",
    AsksMore: "the_ledger_is_the_plan",
    AsksByRecords: "replay",
    ClipsByRecords: "replay",
    KeepsRows: "a_release_holds_no_rows",
    GrowsWithRecords: "strange_records_change_no_shape",
    RefusesFew: "zero_and_one_record_fit",
    TakesAnything: "wrong_settings_are_refused",
    HasNoHelp: "settings_are_frozen_and_explained",
    Prints: "canaries_are_nowhere",
    DrawsAnyhow: "seeds_repeat",
    ForgetsArrays: "arrays_that_do_not_fit_are_refused",
    FitsAnyhow: "seeds_repeat",
    RestoresAnother: "saved_and_restored_it_is_the_same",
}


def failing(generator):
    """Names of the checks on tables that fail."""
    found = set()
    for check in checks(generator):
        if check.subject.data == "table":
            try:
                check()
            except (AssertionError, ValueError):
                found.add(check.function.__name__)
    return found


def test_a_sound_generator_of_another_package_passes():
    check_generator(Sound)
    assert {str(check) for check in checks(Sound())} >= {"table-replay", "images-replay"}


@pytest.mark.heavy
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_generator_is_found(kind):
    """By the check that is about it, and not by all."""
    found = failing(kind())
    assert BROKEN[kind] in found
    assert len(found) < len(checks(kind())) / 4
    with pytest.raises((AssertionError, ValueError)):
        check_generator(kind)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (FitsAnyhow, "or the fit draws chance that does not come from `seed`"),
        (RestoresAnother, "the model that `restore` returns draws other samples"),
        (DrawsAnyhow, "two samples of one seed differ: draw all chance of `sample` from its `seed`"),
        (ReturnsNothing, "fit must return a model with schema, sample and tensors"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_mistake_of_a_newcomer_is_told_in_a_sentence(kind, said):
    with pytest.raises(AssertionError, match=re.escape(said)):
        check_generator(kind)


def test_two_fits_of_one_seed_that_differ_are_told_apart_from_samples_that_do():
    (check,) = (check for check in checks(FitsAnyhow()) if str(check) == "table-seeds_repeat")
    with pytest.raises(AssertionError, match="two fits of one seed give different models"):
        check()


def test_a_class_without_traits_is_told_so():
    @dataclass(frozen=True, kw_only=True)
    class Bare:
        pass

    with pytest.raises(BadInput, match="generator Bare has no traits"):
        check_generator(Bare)


def test_the_generator_of_the_docs_keeps_the_contract(tmp_path, monkeypatch):
    """As a third party's package: a module that is found on the path, and the test beside it."""
    page = (Path(__file__).parents[1] / "docs" / "own_generator.md").read_text(encoding="utf-8")
    code, test = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "naive_bayes.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("naive_bayes")
    assert "checks(NaiveBayes())" in test
    check_generator(module.NaiveBayes())
