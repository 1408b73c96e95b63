"""Laws 38 and 41: functions handed in answer for each record alone; questions are the house's own, of plain numbers."""

import dataclasses
import functools
import importlib
import math
import pkgutil
import warnings

import numpy as np
import pytest
import torch
from clinic import make_frame, make_schema
from torch import nn

from synthdp import BadInput, Budget, seal
from synthdp.ledger.events import Choice, Entry, Gaussian, Sampled, Vote
from synthdp.schema.codec import Codec
from synthdp.seal import MeanEmbeddings, Shares, Stacked, questions, records
from synthdp.seal.callbacks import Guarded, made_up
from synthdp.seal.charging import Account
from synthdp.seal.choice import Dependence, Misfit
from synthdp.seal.door import Sensitive
from synthdp.seal.gradients.question import Counted, Gradient, Together
from synthdp.seal.marginals import Marginals
from synthdp.seal.records import is_open
from synthdp.seal.vectors import Group, GroupMoments, GroupSums, Joint, Scaled, Sums

ANY = Budget(math.inf, 1e-5)
ROWS = 400
MADE_UP = made_up(Codec(make_schema())).tolist()


def sealed():
    data = Sensitive(make_frame(ROWS), make_schema(), Account(ANY), seed=0)
    data.commit(lambda _: (Entry(Gaussian(1.0), 99),))
    data.resolve()
    return data


def floats(codes):
    return np.asarray(codes, np.float64)


CHANCE = np.random.default_rng(0)

IMPURE = {
    "the mean of the batch": lambda codes: floats(codes) - floats(codes).mean(axis=0),
    "the number of rows": lambda codes: floats(codes) / max(1, len(codes)),
    "the place in the batch": lambda codes: floats(codes) * (np.arange(len(codes)) % 2)[:, None],
    "the row before": lambda codes: floats(codes) + np.roll(floats(codes), 1, axis=0),
    "the largest row": lambda codes: floats(codes) / (1 + floats(codes).max(axis=0, initial=0)),
    "a sort": lambda codes: np.sort(floats(codes), axis=0),
    "chance": lambda codes: floats(codes) + CHANCE.normal(size=codes.shape),
    "whether rows are many": lambda codes: floats(codes) * (len(codes) > 50),
}


def shapes(vectors, width=6):
    """The same map in every question that takes one."""
    yield Sums((Group(lambda codes: floats(codes), width, 1.0, 1.0), Group(vectors, width, 1.0, 1.0)))
    yield Joint((Scaled(lambda codes: floats(codes), width), Scaled(vectors, width)), 1.0, 1.0)
    yield GroupSums(vectors, width, 1.0, 1.0)
    yield GroupMoments(vectors, width, 1.0, 1.0)
    yield GroupSums(
        lambda codes: floats(codes), width, 1.0, 1.0, lambda codes: (97 * vectors(codes)[:, 0]).astype(int) % 3, 3
    )
    yield Together((Sums((Group(vectors, width, 1.0, 1.0),)),))


@pytest.mark.parametrize("what", IMPURE)
def test_a_map_that_looks_at_its_batch_is_refused_by_name_before_the_charge(what):
    data = sealed()
    for question in shapes(IMPURE[what]):
        with pytest.raises(BadInput, match=r"(vectors|groups).*test_callbacks.*must treat each record on its own"):
            data.ask(question)
    with data.sample(1.0) as batch, pytest.raises(BadInput, match="must treat each record on its own"):
        batch.sum(IMPURE[what], 6, 1.0, 1.0)
    assert data.account.ledger.entries() == ()


def row_by_row(module, codes):
    return module(codes.double()).squeeze(1).square()


def by_batch(module, codes):
    said = module(codes.double()).squeeze(1)
    return (said - said.mean()).square()


@pytest.mark.parametrize("wrap", [lambda g: g, lambda g: Counted(g, 1.0), lambda g: Together((g,))])
def test_a_loss_that_looks_at_its_batch_is_refused_before_the_charge(wrap):
    data = sealed()
    with pytest.raises(BadInput, match=r"loss .*by_batch.* must treat each record on its own"):
        data.ask(wrap(Gradient(nn.Linear(6, 1), by_batch, 1.0, 1.0)))
    assert data.account.ledger.entries() == ()


def test_a_layer_that_mixes_records_is_refused_before_the_charge():
    data = sealed()
    module = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    with pytest.raises(BadInput, match="BatchNorm1d"):
        data.gradient(module, row_by_row, 1.0, 1.0)
    assert data.account.ledger.entries() == ()


def test_dropout_is_no_company_and_the_module_stays_as_it_is():
    data = sealed()
    module = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 1)).double()
    data.gradient(module, row_by_row, 1.0, 1.0)
    assert all(layer.training for layer in module.modules())


def test_numbers_that_are_none_say_nothing_of_the_records():
    """A warning of a division by zero would tell that somebody has the first code."""
    data = sealed()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.sum(lambda codes: 1 / codes[:, :1].astype(float), 1, 1.0, 1.0)


def test_a_function_that_fails_on_made_up_rows_is_refused_before_the_charge():
    data = sealed()
    with pytest.raises(BadInput, match=r"vectors of group 0 .* fails on 12 made-up rows: IndexError"):
        data.sum(lambda codes: codes[:, 99:100] + np.ones(1)[7], 1, 1.0, 1.0)
    with pytest.raises(BadInput, match="must return one answer per record"):
        data.sum(lambda _: np.ones((3, 1)), 1, 1.0, 1.0)
    assert data.account.ledger.entries() == ()


def test_a_loop_s_closures_are_checked_once():
    data, asked = sealed(), []

    def step(scale):
        def vectors(codes):
            asked.append(len(codes))
            return scale * floats(codes)

        return vectors

    before = 0
    for place in data.steps(Gaussian(1.0), 2, dict):
        data.sum(step(2.0 + place), 6, 1.0, 1.0)
        before = before or len(asked)
    assert before > 1
    assert asked[before:] == [ROWS]


class Centred:
    """One class, whose instances do different things."""

    def __init__(self, share):
        self.share = share

    def __call__(self, codes):
        return floats(codes) - self.share * floats(codes).mean(axis=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda share: lambda codes: floats(codes) - share * floats(codes).mean(axis=0),
        lambda share: functools.partial(lambda codes, by: floats(codes) - by * floats(codes).mean(axis=0), by=share),
        Centred,
    ],
)
def test_the_same_lines_with_other_values_are_another_function(make):
    data = sealed()
    data.sum(make(0.0), 6, 1.0, 1.0)
    with pytest.raises(BadInput, match="must treat each record on its own"):
        data.sum(make(1.0), 6, 1.0, 1.0)
    assert data.account.ledger.entries() == (Entry(Gaussian(1.0)),)


def failing(codes):
    if len(codes) == ROWS:
        raise ValueError(f"a canary: {codes[:3].tolist()}")
    return floats(codes)


def failing_loss(module, codes):
    if codes.tolist()[0] not in MADE_UP:
        raise KeyError(f"a canary: {codes[:3].tolist()}")
    return row_by_row(module, codes)


class Lazy:
    """What fails only when it becomes an array."""

    def __init__(self, codes):
        self.codes = codes

    def __array__(self, *_, **__):
        raise ValueError(f"a canary: {self.codes[:3].tolist()}")


def lazily_failing(codes):
    return Lazy(codes) if len(codes) == ROWS else floats(codes)


def exiting_failing(codes):
    if len(codes) == ROWS:
        raise SystemExit(f"a canary: {codes[:3].tolist()}")
    return floats(codes)


def test_whatever_else_a_function_raises_says_nothing_either():
    for function, kind in ((lazily_failing, "ValueError"), (exiting_failing, "SystemExit")):
        with pytest.raises(BadInput, match=rf"{function.__name__} raised {kind} while sealed records") as caught:
            sealed().sum(function, 6, 1.0, 1.0)
        assert "canary" not in str(caught.value)
        assert caught.value.__context__ is None

    def stopped(codes):
        if len(codes) == ROWS:
            raise KeyboardInterrupt(f"a canary: {codes[:3].tolist()}")
        return floats(codes)

    with pytest.raises(KeyboardInterrupt) as interrupted:
        sealed().sum(stopped, 6, 1.0, 1.0)
    assert not interrupted.value.args


@pytest.mark.parametrize(
    "ask", [lambda d: d.sum(failing, 6, 1.0, 1.0), lambda d: d.gradient(nn.Linear(6, 1), failing_loss, 1.0, 1.0)]
)
def test_the_text_of_an_exception_on_records_is_not_shown(ask):
    data = sealed()
    with pytest.raises(
        BadInput, match=r"failing(_loss)? raised (ValueError|KeyError) while sealed records were open"
    ) as caught:
        ask(data)
    error = caught.value
    assert "canary" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert data.account.ledger.entries() == (Entry(Gaussian(1.0)),)


def test_an_error_of_our_own_code_on_records_says_nothing_either(monkeypatch):
    """Such as torch's, which tells how many rows met a condition."""

    def failing_question(self, records):
        raise RuntimeError(f"a canary: {records.units} units")

    monkeypatch.setattr(Marginals, "bounded", failing_question)
    data = sealed()
    with pytest.raises(BadInput, match="raised RuntimeError while sealed records were open") as caught:
        data.ask(data.tables([("age",)], 1.0))
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None


def test_what_prints_records_prints_none_of_them():
    """A log of local variables, such as that of an error reporter, calls repr."""
    for schema in (make_schema(), make_schema(unit="patient", max_records_per_unit=2)):
        held = records.seal(make_frame(20), schema, b"k" * 32)
        assert " object at " in repr(held)


class Sly(float):
    """1 to the accountant, 0 to whoever multiplies by it."""

    def __mul__(self, other):
        return 0.0

    __rmul__ = __mul__


class SlyInt(int):
    def __mul__(self, other):
        return 0

    __rmul__ = __mul__


def test_numbers_in_a_question_are_plain_ones():
    """A subclass of float could tell the accountant one noise and add another."""
    data = sealed()
    (answer,) = data.sums([Group(floats, 6, Sly(1.0), Sly(1.0))])
    assert (answer != np.rint(answer)).any()  # there is noise in it
    assert data.account.ledger.entries() == (Entry(Gaussian(1.0)),)
    question = data.check(Sums((Group(floats, SlyInt(6), Sly(1.0), np.float64(1.0)),)))
    group = question.groups[0]
    assert [type(each) for each in (group.dimension, group.clip, group.noise)] == [int, float, float]
    assert (group.dimension, group.clip, group.noise) == (6, 1.0, 1.0)


class AlwaysMore(float):
    def __ge__(self, other):
        return True


def test_numbers_in_an_event_and_the_rate_of_a_sample_are_plain_ones():
    event = Sampled(Sly(0.5), (Gaussian(np.float64(2.0)),), "poisson")
    assert [type(each) for each in (event.rate, event.queries[0].noise)] == [float, float]
    assert type(Entry(event, SlyInt(3)).count) is int
    data = Sensitive(make_frame(ROWS), make_schema(), Account(ANY), seed=0)
    data.commit(lambda _: (Entry(Sampled(0.01, (Gaussian(1e-6),))),))
    with data.sample(AlwaysMore(0.01)) as batch:
        found = batch.sum(lambda codes: np.ones((len(codes), 1)), 1, 1.0, 1e-6)
    assert found[0] < ROWS / 4


@dataclasses.dataclass(frozen=True)
class Same(Marginals):
    """A question of the house's but for one method."""

    def noised(self, bounded, _noise):
        return bounded


@dataclasses.dataclass(frozen=True)
class Marginals2:
    """What a plug-in might write that reads the records."""

    events = (Gaussian(1.0),)

    def bounded(self, records):
        return records.encoded()

    def noised(self, bounded, _noise):
        return bounded


Marginals2.__module__, Marginals2.__qualname__ = Marginals.__module__, Marginals.__qualname__


@dataclasses.dataclass(frozen=True)
class Wide(Group):
    @property
    def clip(self):
        return 1.0

    @clip.setter
    def clip(self, value):
        pass


def test_what_only_says_that_it_is_a_question_of_the_house_is_refused():
    data = sealed()
    tables = data.tables([("sex",)], 1.0)
    same = Same(tables.cliques, tables.sizes, 1.0, 1)
    for rogue in (same, Marginals2(), Sums((Wide(floats, 6, 1.0, 1.0),)), object()):
        with pytest.raises(BadInput, match="not one of synthdp's own questions"):
            data.ask(rogue)
    assert data.account.ledger.entries() == ()


class Changing:
    """A group that adds no noise once it was charged for."""

    dimension, clip, asked = 1, 1.0, 0

    def vectors(self, codes):
        return np.ones((len(codes), 1))

    @property
    def noise(self):
        self.asked += 1
        return 1.0 if self.asked < 3 else 0.0


class Uncounted:
    """Forty tables, of which it says that there are none."""

    def __iter__(self):
        return iter([(1,)] * 40)

    def __len__(self):
        return 0


def test_what_only_stands_for_a_part_of_a_question_is_refused_before_the_charge():
    data = sealed()
    for question in (Sums((Changing(),)), Marginals(Uncounted(), data.fine.sizes, 1.0, 1), Sums((np.array([None]),))):
        with pytest.raises(BadInput, match=r"a question holds a (Changing|Uncounted|ndarray)"):
            data.ask(question)
    assert data.account.ledger.entries() == ()


def test_what_was_put_into_a_question_later_is_not_asked():
    data, taken = sealed(), []
    tables = data.tables([("sex",)], 1.0)
    object.__setattr__(tables, "noised", lambda bounded, _: bounded)
    (answer,) = data.ask(tables)
    assert (answer != np.rint(answer)).any()

    groups = [None, np.arange(2), *[None] * 4]
    tables = data.tables([("sex",)], 1.0, groups)
    assert tables.groups[1].tolist() == [0, 1]
    tables.groups[1][0] = -1
    with pytest.raises(BadInput, match="a group of 0 or more"):
        data.ask(tables)

    def vectors(codes):
        object.__setattr__(group, "noise", 0.0)
        return np.zeros((len(codes), 1))

    group = Group(Guarded(vectors), 1, 1.0, 1.0)
    (answer,) = data.sums([group])
    assert answer[0] != 0 == group.noise

    data = Sensitive(make_frame(ROWS), make_schema(), Account(ANY), seed=0)
    data.commit(lambda _: (Entry(Choice(1.0), 2),))
    data.resolve()
    choice = data.choice([("sex",), ("ill",)], Dependence(), 1.0)

    class Thief:
        def bounded(self, records):
            taken.append(records.encoded())
            return [np.zeros((2, 2))] * 2

    object.__setattr__(choice, "_tables", (Thief(),))
    assert data.ask(choice) in (0, 1)
    assert not taken
    expected = tuple(np.zeros(size) for size in (data.fine.sizes[1], data.fine.sizes[5]))
    score = Misfit(expected=expected, weights=(1.0, 1.0), offsets=(0.0, 0.0))
    object.__setattr__(score, "weights", (1.0, -1e6))  # the second would move a million times as far as is charged
    with pytest.raises(BadInput, match="weights of candidates"):
        data.choose([("sex",), ("ill",)], score, 1.0)
    booked = data.account.ledger.entries()
    object.__setattr__(choice, "score", score)
    with pytest.raises(BadInput, match="weights of candidates"):
        data.ask(choice)
    assert data.account.ledger.entries() == booked == (Entry(Choice(1.0)),)


# What several questions have in common; nobody asks these.
SHARED = {
    "synthdp.seal.vectors:_Grouped",
    "synthdp.seal.teachers.vote_aggregation:_Checked",
    "synthdp.seal.teachers.vote_aggregation:_GaussianCounts",
}


def test_the_frozen_set_is_all_questions_there_are():
    """A new question, or a new way of adding up votes, stands in the set by name, or is asked by nobody."""
    found, house = set(), set()
    for info in pkgutil.walk_packages(seal.__path__, "synthdp.seal."):
        for name, kind in vars(importlib.import_module(info.name)).items():
            if dataclasses.is_dataclass(kind) and kind.__module__ == info.name and hasattr(kind, "bounded"):
                found.add(f"{info.name}:{name}")
    for name in questions.HOUSE:
        module, _, kind = name.partition(":")
        own = getattr(importlib.import_module(module), kind)
        assert questions.is_own(own)
        house |= {name} if hasattr(own, "bounded") else set()
    assert found - SHARED == house
    assert len(house) > 15


def kinds_that_fail():
    """Kinds of teachers with a function that fails on the records, and says one of them."""

    def fails(codes, *_):
        if is_open() and len(codes):
            raise ValueError("a canary")

    def kernel(codes, queries):
        fails(codes)
        return torch.ones(len(codes), len(queries))

    def features(codes):
        fails(codes)
        return codes.float()

    def loss(outputs, codes):
        fails(codes)
        return outputs.square().sum(-1) + codes.sum(-1) * 0

    class Failing(nn.Linear):
        def forward(self, rows):
            fails(rows)
            return super().forward(rows)

    yield MeanEmbeddings(kernel=kernel)
    yield Stacked(module=nn.Linear(6, 2), features=features, loss=loss, steps=1)
    yield Stacked(module=nn.Linear(6, 2), features=lambda codes: codes.float(), loss=loss, steps=1)
    yield Stacked(
        module=Failing(6, 2), features=lambda codes: codes.float(), loss=lambda said, _: said.sum(-1), steps=1
    )


@pytest.mark.parametrize("place", range(4))
def test_what_a_function_of_teachers_raises_says_nothing_either(place):
    kind, public = list(kinds_that_fail())[place], np.zeros((3, 6), np.int32)
    data = Sensitive(make_frame(ROWS), make_schema(), Account(ANY), seed=0)
    data.commit(lambda _: (Entry(Vote(1.0)),))
    teachers = data.partition(4, kind)

    def failing():
        teachers.train(public if isinstance(kind, MeanEmbeddings) else None)
        teachers.ask(public, Shares(1.0, "margins"))

    with pytest.raises(BadInput, match="while sealed records were open; its text is not shown") as caught:
        failing()
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_function_that_cannot_take_no_rows_is_told_so():
    data = sealed()
    with pytest.raises(BadInput, match="fails on 0 made-up rows: ValueError: cannot reshape"):
        data.sum(lambda codes: codes[:, :2].astype(float).reshape(len(codes), -1), 2, 1.0, 1.0)


def test_a_function_that_knows_too_few_codes_is_refused_before_the_charge():
    """Else it would fail only where a record has the last code."""
    data = sealed()
    place = max(range(len(data.codec.sizes)), key=lambda column: data.codec.sizes[column])
    known = np.eye(data.codec.sizes[place] - 1)
    with pytest.raises(BadInput, match="IndexError"):
        data.sum(lambda codes: known[codes[:, place]], len(known), 1.0, 1.0)


def test_a_module_that_cannot_have_made_up_weights_is_tried_at_its_own():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.scale = nn.Parameter(torch.ones(6)), nn.Parameter(torch.tensor(0.5))

        def forward(self, rows):
            if bool((self.weight != 1).any()):
                raise ValueError("no such weights")
            return (rows @ self.weight).unsqueeze(1) * self.scale

    data = sealed()
    data.gradient(Scaled().double(), row_by_row, 1.0, 1.0)
    with pytest.raises(BadInput, match=r"loss .*by_batch.* must treat each record on its own"):
        data.gradient(Scaled().double(), by_batch, 1.0, 1.0)
