"""Tables of histories: what one unit adds, and that nobody else's records have a say in it."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from synthdp import Schema
from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian, Sampled
from synthdp.ledger.ledger import Ledger
from synthdp.schema import history_view
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import View
from synthdp.seal import HistoryTables, Sensitive
from synthdp.seal.charging import Account
from synthdp.seal.history_records import ordered

KEY = b"k" * 32
SCHEMA = Schema.from_dict(
    {
        "declared_by": "the tests",
        "unit": "who",
        "max_records_per_unit": 3,
        "order": "day",
        "per_unit": ["sex"],
        "targets": ["ill"],
        "columns": {
            "who": {"kind": "identifier"},
            "sex": {"kind": "boolean"},
            "day": {"kind": "datetime", "bounds": ["2020-01-01", "2020-02-29"], "bins": 6},
            "ward": {"kind": "categorical", "categories": ["a", "b", "c"], "missing": True},
            "ill": {"kind": "boolean"},
        },
    }
)
CODEC = Codec(SCHEMA)
VIEW = View.of(CODEC)
OF_RECORDS = [(name, "ill") for name in VIEW.before("ill")] + [("previous ill", "gap", "ill"), ("place",)]


# Two columns whose codes are taken together, which makes records alike that otherwise are not.
BROAD = (("ward", (0, 0, 1, 1)), ("ill", (0, 0)))
BROADLY = (("broad ward", "broad ill"), ("broad ward",), ("broad ward", "place"))


def people(number, seed=0, most=7):
    """Records of people in no order, of whom some have more than count, and some two on one day."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(number), rng.integers(1, most + 1, number))
    rng.shuffle(who)
    rows = len(who)
    return pd.DataFrame(
        {
            "who": pd.Series([f"p{each}" for each in who], dtype="str"),
            "sex": rng.random(rows) < 0.5,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 20, rows) * 3, unit="D"),
            "ward": pd.Series(rng.choice(["a", "b", "c", None], rows), dtype="str"),
            "ill": rng.random(rows) < 0.3,
        }
    )


def sealed(frame, key=KEY):
    return ordered(frame, SCHEMA, key).encoded_by(CODEC)


def questions():
    return [
        HistoryTables(VIEW, (("sex", "number of records"), ("number of records",)), 1.0),
        HistoryTables(VIEW, tuple(OF_RECORDS), 1.0, 1.0),
        HistoryTables(VIEW, tuple(OF_RECORDS), 1.0, 2.0),
        HistoryTables(VIEW, tuple(OF_RECORDS), 1.0, 3.0),
        HistoryTables(VIEW, BROADLY, 1.0, 1.5, broad=BROAD),
    ]


@pytest.mark.parametrize("question", questions(), ids=lambda question: f"clip {question.clip}")
def test_no_unit_moves_the_tables_by_more_than_the_sensitivity(question):
    """By brute force: people drawn at random, and one whose records all lie in the same cells, are left out in turn."""
    frame = people(40)
    alike = pd.concat([frame.iloc[:1].assign(who="alike", ill=True)] * 9, ignore_index=True)
    broadly = alike.assign(who="broadly alike", ward=["a", "b"] * 4 + ["a"], ill=[True, True, False] * 3)
    frame = pd.concat([frame, alike, broadly], ignore_index=True)
    whole = question.bounded(sealed(frame))
    moved = {
        name: question.movement(whole, question.bounded(sealed(frame[frame["who"] != name])))
        for name in frame["who"].unique()
    }
    rounded = 1 + 1e-15  # a movement of sqrt(117) is the last bit above 3 sqrt(13), which it equals
    assert max(moved.values()) <= question.sensitivity * rounded
    assert max(moved.values()) > 0.3 * question.sensitivity
    assert question.events == [Gaussian(1.0)]


def test_the_bound_is_reached_by_one_whose_records_are_alike():
    question = HistoryTables(VIEW, (("sex", "ward"), ("ward",)), 1.0, 2.0)
    frame = people(1).iloc[:1]
    alike = pd.concat([frame] * 3, ignore_index=True)
    moved = question.movement(question.bounded(sealed(alike)), question.bounded(sealed(alike.iloc[:0])))
    assert moved == pytest.approx(question.sensitivity, rel=1e-5)
    assert moved <= question.sensitivity == 2 * math.sqrt(2)


def test_a_unit_whose_records_lie_in_different_cells_weighs_more():
    """In two tables, of which one has the records in one cell, they reach the bound; in one table half of the pairs are taken to lie in one
    cell, and they stay below it."""
    frame = pd.concat([people(1).iloc[:1]] * 3, ignore_index=True).assign(ward=["a", "b", "c"])
    for cliques, square in (((("ward",),), 6), ((("ward",), ("sex",)), 12)):
        question = HistoryTables(VIEW, cliques, 1.0, 1.0)
        found = question.bounded(sealed(frame))
        np.testing.assert_allclose(found[0][:3], math.sqrt(len(cliques) / square), rtol=1e-5)
        moved = question.movement(found, question.bounded(sealed(frame.iloc[:0])))
        assert moved == pytest.approx(
            math.sqrt((3 if len(cliques) == 1 else 12) / square) * question.sensitivity, rel=1e-5
        )
        assert moved <= question.sensitivity


def test_broad_columns_hold_the_sums_of_the_codes_taken_together():
    frame = people(40)
    plain, *_ = HistoryTables(VIEW, (("ward", "ill"),), 1.0, 1000.0).bounded(sealed(frame))
    broad, one = HistoryTables(VIEW, BROADLY[:2], 1.0, 1000.0, broad=BROAD).bounded(sealed(frame))
    np.testing.assert_array_equal(broad, plain.reshape(2, 2, 2).sum((1, 2))[:, None])
    np.testing.assert_array_equal(one, broad[:, 0])


def test_outcomes_taken_together_tell_no_weight_either():
    assert VIEW.apart([("broad ward", "broad ill"), ("ward", "ill")]) == {("broad ward",): 1, ("ward",): 1}


def test_records_that_are_alike_in_broad_columns_alone_weigh_less():
    frame = pd.concat([people(1).iloc[:1]] * 2, ignore_index=True).assign(ward=["a", "b"])
    question = HistoryTables(VIEW, (("broad ward",),), 1.0, 1.0, broad=BROAD)
    (found,) = question.bounded(sealed(frame))
    np.testing.assert_allclose(found, [1, 0], rtol=1e-5)  # two records, of half a weight each


def test_a_target_says_nothing_of_a_unit_s_weight():
    frame = pd.concat([people(1).iloc[:1]] * 3, ignore_index=True)
    question = HistoryTables(VIEW, tuple(OF_RECORDS), 1.0, 1.0)
    sums = {
        tuple(ill): [table.sum() for table in question.bounded(sealed(frame.assign(ill=list(ill))))]
        for ill in ((False, False, False), (True, False, True))
    }
    assert len(set(map(tuple, sums.values()))) == 1


def test_a_unit_s_cells_are_told_by_its_own_records_alone():
    """Law 18: whoever else is there, and wherever in the file records lie."""
    frame = people(30)
    question = HistoryTables(VIEW, tuple(OF_RECORDS), 1.0, 2.0)
    for name in ("p3", "p17"):
        own = frame[frame["who"] == name]
        alone = question.bounded(sealed(own))
        others = frame[frame["who"] != name]
        apart = question.bounded(sealed(pd.concat([own.iloc[::-1], others], ignore_index=True)))
        rest = question.bounded(sealed(others))
        for one, both, without in zip(alone, apart, rest, strict=True):
            np.testing.assert_array_equal(both - without, one)


def test_the_columns_are_those_of_a_plain_loop():
    frame, low = people(25, seed=4), np.datetime64("2020-01-01")
    records = sealed(frame)
    cells, owner = records.histories.cells, records.histories.owner
    names = list(dict.fromkeys(frame["who"]))
    for unit, name in enumerate(names):
        rows = frame[frame["who"] == name].sort_values("day")
        days = (rows["day"].to_numpy() - low).astype("timedelta64[D]").astype(int)
        chosen = np.flatnonzero(owner == unit)
        assert len(chosen) == min(3, len(rows)) == records.histories.count[unit]
        first = cells["place"][chosen[0]] if len(rows) <= 4 else None  # places beyond the third share a code
        for step, row in enumerate(chosen):
            assert cells["number of records"][row] == min(len(rows), 4) - 1
            if first is None:
                continue
            place = first + step
            gap = days[place] - days[place - 1] if place else None
            assert cells["place"][row] == min(place, 3)
            assert cells["weekday"][row] == pd.Timestamp(low + days[place]).day_of_week
            assert cells["gap"][row] == (0 if gap is None else sum(gap >= least for least in VIEW.gaps))
            if len(set(days)) == len(days):  # no two of a day
                assert cells["ill"][row] == rows["ill"].iloc[place]
                assert cells["previous ill"][row] == (rows["ill"].iloc[place - 1] if place else 2)
                assert cells["earlier ill 1"][row] == min(3, rows["ill"].iloc[:place].sum())
                assert cells["sex"][row] == rows["sex"].iloc[0]


def test_which_records_count_is_not_always_the_first():
    starts = set()
    for seed in range(40):
        frame = people(1, most=1).iloc[:1]
        days = pd.date_range("2020-01-01", periods=10, freq="3D")
        frame = pd.concat([frame.assign(day=day) for day in days], ignore_index=True)
        starts.add(int(sealed(frame, key=bytes([seed]) * 32).histories.cells["day"][0]))
    assert len(starts) > 2


def test_weights_add_up_exactly_in_any_order():
    frame = people(200, seed=5)
    question = HistoryTables(VIEW, (("ward", "ill"),), 1.0, 0.7)
    one = question.bounded(sealed(frame))[0]
    other = question.bounded(sealed(frame.sample(frac=1.0, random_state=3, ignore_index=True)))[0]
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("clip", [0.7, 1.0, 2.0, 1 / 3, 1000.0])
def test_weights_are_the_largest_that_keep_the_norm(clip):
    """Against plain whole numbers: one millionth more would be too much."""
    squares, one = np.array([1, 2, 3, 7, 84, 85, 10**6 + 1, 10**15 + 7, 4 * 10**17]), history_view.UNIT_WEIGHT
    for tables in (1, 3, 400):
        most = Fraction(clip) ** 2 * tables * one**2
        for square, weight in zip(
            squares, history_view.weights(squares, history_view.largest(clip, tables)), strict=True
        ):
            assert int(weight) ** 2 * int(square) <= most
            assert weight == one or (int(weight) + 1) ** 2 * int(square) > most


def test_squares_are_those_of_a_plain_loop():
    """Of people with up to 40 records, more of them than are compared with one another."""
    rng = np.random.default_rng(3)
    count = np.array([1, 0, 5, 12, history_view.MOST_PAIRED, 40, 2])
    owner, cliques = np.repeat(np.arange(len(count)), count), {("a",): 1, ("a", "b"): 2, ("b", "c"): 1, (): 1}
    cells = {name: rng.integers(0, 3, len(owner)) for name in ("a", "b", "c")}
    found = history_view.squares(cells, owner, count, cliques)
    for unit, rows in enumerate(count):
        mine = np.flatnonzero(owner == unit)
        held = {clique: Counter(tuple(cells[name][row] for name in clique) for row in mine) for clique in cliques}
        square = sum(cliques[clique] * number**2 for clique in cliques for number in held[clique].values())
        few = max(square, 5 * rows * (rows + 1) // 2)
        assert square <= found[unit] == (few if rows <= history_view.MOST_PAIRED else 5 * rows**2) <= 5 * rows**2


def test_the_noise_has_the_deviation_that_is_said():
    question = HistoryTables(VIEW, (("ward", "ill"), ("place",)), 3.0, 2.0)
    data = door(people(30), Gaussian(3.0))
    exact = question.bounded(sealed(people(30)))
    told = np.concatenate(
        [(noisy - plain).ravel() for _ in range(300) for noisy, plain in zip(data.ask(question), exact, strict=True)]
    )
    assert question.deviation == 3.0 * 2.0 * math.sqrt(2)
    assert np.std(told) == pytest.approx(question.deviation, rel=0.06)


def door(frame, event):
    account = Account(Budget(math.inf, 1e-5), Ledger(), unit="who")
    data = Sensitive(frame, SCHEMA, account, seed=2)
    data.commit(lambda _: (Entry(event, 300),))
    data.resolve()
    return data


class Shard:
    """One of two processes that share a fit."""

    world = 2

    def __init__(self, rank):
        self.rank = rank

    def wait(self):
        pass

    def total(self, values):
        return values

    told = total


def test_two_processes_share_the_units_with_their_histories():
    """Each holds the histories of its units, so that the sum over both is that of one process."""
    frame, question = people(40), HistoryTables(VIEW, tuple(OF_RECORDS), 0.0, 2.0)

    def asked(**ranks):
        account = Account(Budget(math.inf, 1e-5), Ledger(), unit="who")
        data = Sensitive(frame, SCHEMA, account, seed=2, **ranks)
        data.commit(lambda _: (Entry(Gaussian(0.0)),))
        data.resolve()
        return data.ask(question)

    whole, shards = asked(), [asked(ranks=Shard(rank)) for rank in (0, 1)]
    for one, *parts in zip(whole, *shards, strict=True):
        assert all(part.sum() > 0 for part in parts)
        np.testing.assert_array_equal(sum(parts), one)


NUMBER = {"kind": "integer", "bounds": [0, 3]}
OTHERS = {
    "rules": {"rules": ["low <= high"], "columns": {"low": NUMBER, "high": NUMBER}},
    "a name that histories gives": {"columns": {"gap": {"kind": "boolean"}}},
    "no column of a record's own": {"per_unit": ["sex", "ward", "ill"]},
    "very many records": {"max_records_per_unit": 10**12},
    "pictures": {"columns": {"picture": {"kind": "image", "height": 2, "width": 2}}},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_an_order_that_only_histories_need_stops_no_other_question(change):
    """Other generators fit a schema of which histories can make nothing. Their fits would otherwise stop where records are encoded, after
    what is to learn was charged."""
    given = SCHEMA.to_dict()
    schema = Schema.from_dict({**given, **change, "columns": {**given["columns"], **change.get("columns", {})}})
    frame = people(10).assign(gap=False, low=1, high=2)
    frame["picture"] = [np.zeros((2, 2), np.uint8)] * len(frame)
    data = Sensitive(frame, schema, Account(Budget(math.inf, 1e-5), Ledger(), unit="who"), seed=2)
    data.commit(lambda _: (Entry(Gaussian(0.0)),))
    data.resolve()
    assert data.marginals([data.codec.names[:1]], 0.0)[0].sum() > 0
    with pytest.raises(BadInput, match="histor"):
        View.of(data.codec)


def test_a_sample_has_no_histories():
    event = Sampled(0.5, (Gaussian(1.0),))
    data = door(people(5), event)
    with data.sample(0.5) as batch, pytest.raises(BadInput, match="only all records"):
        batch.ask(HistoryTables(VIEW, (("ward",),), 1.0, 1.0))


@pytest.mark.parametrize(
    ("cliques", "clip", "said"),
    [
        ((("nosuch",),), 1.0, "no column 'nosuch'"),
        (((),), 1.0, "no column"),
        ((("ward",),), None, "no column 'ward'"),
        ((("ward",),), 0.0, "clip must be"),
        ((("ward",),), math.inf, "clip must be"),
        ((("ward",),), math.nan, "clip must be"),
    ],
)
def test_questions_that_mean_nothing_are_refused(cliques, clip, said):
    with pytest.raises(BadInput, match=said):
        HistoryTables(VIEW, cliques, 1.0, clip)


@pytest.mark.parametrize(
    ("name", "places", "clip"),
    [
        ("ward", (0, 0, 1), 1.0),
        ("ward", (0, 0, 1, 4), 1.0),
        ("ward", (0, 0, 1, -1), 1.0),
        ("ward", (0, 0, 1, 1.0), 1.0),
        ("ward", (0, 0, 1, True), 1.0),
        ("sex", (0, 0), 1.0),
        ("nosuch", (0, 0), 1.0),
        ("ward", (0, 0, 1, 1), None),
    ],
)
def test_places_that_mean_nothing_are_refused(name, places, clip):
    with pytest.raises(BadInput, match="places of broad columns"):
        HistoryTables(VIEW, (("number of records",),), 1.0, clip, broad=((name, places),))
