"""Histories: a unit's records one after another, each drawn given what came before."""

import math
import runpy
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad
from sweeps import heavy, sweep

from synthdp import Budget, Schema, Synthesizer, testing
from synthdp.cli.fits import apart
from synthdp.errors import BadInput
from synthdp.generators.histories import GENERATOR, MOST_RELATED, HistoriesSettings, _pairs
from synthdp.generators.marginals import causes, conditional_fit, history_fit, mixed_model_fit
from synthdp.generators.marginals.conditional_fit import (
    FIRST_SLOPE,
    Slopes,
    Squares,
    drawn,
    evenly,
    fit,
    indicators,
    softmax,
)
from synthdp.generators.marginals.history_fit import HistoryFit, NoisyTables, _alone, _counts
from synthdp.generators.marginals.history_times import adjust_shares
from synthdp.generators.marginals.trends import Along, _polynomials
from synthdp.planning import planned
from synthdp.report.information_loss import sentences
from synthdp.schema import history_view
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import BROAD, View
from synthdp.seal import Sensitive
from synthdp.testing.made_up import SMALL

MADE_UP = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "made_up_hospital.py"))


@pytest.mark.parametrize(
    "check",
    sweep(
        testing.checks(HistoriesSettings(**SMALL["histories"]["histories"])),
        lambda check: (
            not str(check).endswith(("seeds_repeat", "without_a_seed_fits_differ", "samples_follow_the_schema"))
        ),
    ),
    ids=str,
)
def test_the_contract(check):
    check()


def schema(patients, **changes):
    return Schema.from_dict({**MADE_UP["DECLARED"], "units": patients, **changes})


@pytest.fixture(scope="module")
def release():
    """A short fit; what it has learned well is another one's."""
    made = Synthesizer(HistoriesSettings(rounds=1, iterations=8), schema=schema(1500), budget=Budget(math.inf, 1e-6))
    return made.fit(MADE_UP["stays"](1500, 1), seed=0)


def of_next(frame):
    """(previous, this) values of the target, as shares."""
    previous = frame.groupby("patient", sort=False)["readmitted"].shift()
    return frame.assign(previous=previous).dropna().value_counts(["previous", "readmitted"], normalize=True)


@pytest.mark.heavy
def test_progress_counts_the_work_of_each_column_and_not_columns():
    """The target's mixed model takes most of the time, so the time left was underestimated until it began."""
    seen = []
    synthesizer = Synthesizer(
        HistoriesSettings(rounds=2, iterations=5, pairs=6), schema=schema(300), budget=Budget(3.0, 1e-6)
    )
    synthesizer.fit(MADE_UP["stays"](300, 1), seed=0, progress=lambda step, steps, _: seen.append((step, steps)))
    assert seen[0] == (0, history_fit.STEPS), "a line at once, while the tables are counted"
    steps = [step for step, _ in seen[1:]]
    assert steps == sorted(steps)
    assert seen[-1] == (history_fit.STEPS, history_fit.STEPS)
    columns = len(View.of(Codec(schema(300))).drawn)
    first = steps[columns - 1] - steps[columns - 2]  # that of the target in the first round
    assert first > 5 * max(np.diff(steps[: columns - 1]))
    assert steps[-1] - steps[-2] < first, "it goes on from an earlier fit"


@pytest.mark.heavy
def test_without_noise_what_follows_what_is_kept():
    """What is lost then, no budget buys."""
    stays = MADE_UP["stays"](1500, 1)
    generator = HistoriesSettings(rounds=2, iterations=60)
    release = Synthesizer(generator, schema=schema(1500), budget=Budget(math.inf, 1e-6)).fit(stays, seed=0)
    sample = release.sample(6 * len(stays), seed=0)  # so many that what differs is the model, not the draw
    assert of_next(sample).subtract(of_next(stays), fill_value=0).abs().max() < 0.03
    independent = stays["readmitted"].mean() ** 2
    assert of_next(stays)[True, True] > independent + 0.04, "there is something to keep"
    numbers = [frame["patient"].value_counts().mean() for frame in (stays, sample)]
    assert numbers[1] == pytest.approx(numbers[0], rel=0.1)
    gaps = [frame.groupby("patient")["admitted"].diff().dt.days.mean() for frame in (stays, sample)]
    assert gaps[1] == pytest.approx(gaps[0], rel=0.2)
    risk = [frame.groupby("wound")["readmitted"].mean().diff().iloc[-1] for frame in (stays, sample)]
    assert risk[1] == pytest.approx(risk[0], abs=0.06)


def test_a_patient_has_one_age_and_ascending_dates(release):
    sample = release.sample(6000, seed=0)
    by_patient = sample.groupby("patient")
    assert len(sample[["patient", "age", "sex"]].drop_duplicates()) == sample["patient"].nunique()
    assert by_patient["admitted"].is_monotonic_increasing.all()
    assert by_patient.size().max() <= 2 * release.schema.max_records_per_unit
    assert sample["admitted"].between("2021-01-01", "2024-01-01").all()
    chunks = list(release.stream(500, seed=1, chunk=120))
    assert [len(chunk) for chunk in chunks] == [120, 120, 120, 120, 20]
    names = [set(chunk["patient"]) for chunk in chunks]
    assert len(set.union(*names)) == sum(map(len, names)), "no patient is in two chunks"


def test_a_release_is_read_back_and_one_that_was_altered_is_not(release):
    tensors = dict(release.model.tensors())
    again = GENERATOR().restore(release.schema, tensors)
    pd.testing.assert_frame_equal(again.sample(300, seed=0), release.model.sample(300, seed=0))
    name = next(name for name in tensors if name.endswith(".by") and len(tensors[name]))
    for changed in (
        {name: tensors[name] + 1e3},
        {name: tensors[name][:, :1]},
        {name: np.full_like(tensors[name], -1)},
        {name.removesuffix(".by"): tensors[name.removesuffix(".by")][:-1]},
        {"seasons": tensors["seasons"] * 0},
        {"days": tensors["days"][:-1]},
    ):
        with pytest.raises(BadInput, match="altered"):
            GENERATOR().restore(release.schema, tensors | changed)


@pytest.mark.heavy
def test_whether_another_record_follows_is_kept():
    """A patient is said to be readmitted where another stay follows: neither the number of stays nor this one's place alone tells that."""
    stays = MADE_UP["stays"](1500, 1)
    stays["readmitted"] = stays["patient"].eq(stays["patient"].shift(-1))
    generator = HistoriesSettings(rounds=1, iterations=60)
    release = Synthesizer(generator, schema=schema(1500), budget=Budget(math.inf, 1e-6)).fit(stays, seed=0)
    sample = release.sample(len(stays), seed=0).iloc[:-20]  # the last patient's stays end where the rows do
    follows = sample["patient"].eq(sample["patient"].shift(-1))
    assert (follows == sample["readmitted"]).mean() > 0.93, "0.84 where only place and number of stays tell it"


@pytest.mark.heavy
def test_columns_that_stay_as_they_were_and_days_without_records_are_kept():
    """Half the stays are in the last one's ward for as many days; no stay begins on a weekend."""
    stays = MADE_UP["stays"](1500, 1)
    rng = np.random.default_rng(0)
    later, stay = stays["patient"].eq(stays["patient"].shift()), rng.random(len(stays)) < 0.5
    for name in ("ward", "days"):
        start = (~(later & stay)).cumsum()
        stays[name] = stays.groupby(start)[name].transform("first")
    stays["admitted"] -= pd.to_timedelta((stays["admitted"].dt.day_of_week - 4).clip(lower=0), unit="D")
    made = Synthesizer(HistoriesSettings(rounds=2, iterations=40), schema=schema(1500), budget=Budget(math.inf, 1e-6))
    sample = made.fit(stays, seed=0).sample(3 * len(stays), seed=0)

    def as_before(frame):
        same = frame["patient"].eq(frame["patient"].shift())
        both = frame["ward"].eq(frame["ward"].shift()) & (
            np.digitize(frame["days"], [1, 2, 3, 5, 8, 14, 30])
            == np.digitize(frame["days"].shift(), [1, 2, 3, 5, 8, 14, 30])
        )
        return both[same].mean()

    assert as_before(sample) == pytest.approx(as_before(stays), abs=0.05)
    assert as_before(stays) > 0.5
    assert (sample["admitted"].dt.day_of_week > 4).mean() < 0.02, "0.29 if all days are alike"


@pytest.mark.heavy
def test_a_column_that_stays_for_long_has_its_share():
    """In long histories, 24 % of the records have y, and 84 % of those that follow one with it."""
    rng = np.random.default_rng(0)
    number = np.where(rng.random(1500) < 0.6, rng.integers(1, 4, 1500), 12)
    owner, held, values = np.repeat(np.arange(1500), number), np.zeros(1500, np.bool_), np.zeros((1500, 12), np.bool_)
    for place in range(12):
        held = rng.random(1500) < np.where(held, 0.85, 0.06 if place else 0.15)
        values[:, place] = held
    place = np.concatenate([np.arange(each) for each in number])
    days = place * 20 + rng.integers(0, 20, len(place))
    records = pd.DataFrame({"p": owner.astype(str), "day": days, "y": values[owner, place]})
    columns = {
        "p": {"kind": "identifier"},
        "day": {"kind": "integer", "bounds": [0, 300], "bins": [60, 120, 180, 240]},
        "y": {"kind": "boolean"},
    }
    declared = {"unit": "p", "order": "day", "max_records_per_unit": 12, "units": 1500, "declared_by": "the test"}
    generator = HistoriesSettings(rounds=2, iterations=60)
    made = Synthesizer(
        generator,
        schema=Schema.from_dict({**declared, "targets": ["y"], "columns": columns}),
        budget=Budget(math.inf, 1e-6),
    )
    sample = made.fit(records, seed=0).sample(20_000, seed=0)

    def shares(frame):
        long = frame[frame.groupby("p")["y"].transform("size") > 10]
        return long["y"].mean(), long.loc[long.groupby("p")["y"].shift().eq(True), "y"].mean()

    assert shares(sample) == pytest.approx(shares(records), abs=0.05), "0.50 and 0.99 where a fit goes the whole way"


def test_a_share_of_days_comes_back_after_a_draw_that_was_far_off():
    """The first draws know nothing of the tables: how many records they put on a day says little about that day."""
    share, noise = np.ones(4), 140.0
    adjust_shares(share, np.array([-2200.0, 700.0, 800.0, 700.0]), np.array([1300.0, 700.0, 600.0, 700.0]), noise)
    assert share[0] > 0.05
    certain = np.ones(4)
    adjust_shares(certain, np.array([-2200.0, 700.0, 800.0, 700.0]), np.array([1300.0, 700.0, 600.0, 700.0]), 0.01)
    assert certain[0] < 1e-3, "without noise, a day on which nothing lies has nothing at once"


@pytest.mark.heavy
def test_days_are_told_by_all_tables_of_records_together(monkeypatch):
    """By the target's tables, too; and the order column and the day of the week each have a table of their own."""
    asked, held = [], []
    honest, adjusting = history_fit.NoisyTables.of, history_fit.adjust_shares

    def of(data, question):
        asked.append(honest(data, question))
        return asked[-1]

    monkeypatch.setattr(NoisyTables, "of", of)
    monkeypatch.setattr(
        history_fit, "adjust_shares", lambda *given: (held.append((len(given[0]), given[3])), adjusting(*given))[1]
    )
    stays = MADE_UP["stays"](200, 1)
    generator = HistoriesSettings(rounds=1, iterations=5)
    Synthesizer(generator, schema=schema(200), budget=Budget(1.0, 1e-6)).fit(stays, seed=0)
    assert {("admitted",), ("weekday",)} <= set(asked[1].tables)
    alone = [_counts([each], "weekday")[1] for each in asked if any("weekday" in clique for clique in each.tables)]
    assert len(alone) > 1
    for codes, deviation in held:
        if codes == 7:
            assert deviation == pytest.approx(sum(each**-2 for each in alone) ** -0.5)


@pytest.mark.heavy
def test_rows_of_like_chances_have_the_codes_in_their_shares():
    rng = np.random.default_rng(0)
    numbers = evenly(1000, rng)
    for start in range(0, 960, 64):
        assert sorted((numbers[start : start + 64] * 64).astype(int)) == list(range(64)), "one in each part"
    alike = np.repeat([[0.25, 0.7, 0.05], [0.6, 0.1, 0.3]], 512, axis=0)[rng.permutation(1024)]
    found = drawn(alike, rng)
    for chances in np.unique(alike, axis=0):
        counts = np.bincount(found[(alike == chances).all(1)], minlength=3)
        assert np.abs(counts - 512 * chances).max() <= 2, "independent rows would deviate by 11"
    few = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]])
    counts = np.array([np.eye(3)[drawn(few, rng)] for _ in range(8000)]).mean(0)
    assert counts == pytest.approx(few, abs=0.03), "each row has its own chances all the same"
    assert [len(drawn(np.ones((rows, 2)), rng)) for rows in (0, 1, 3)] == [0, 1, 3]


@pytest.mark.heavy
def test_records_of_units_with_many_of_them_do_not_pile_up_at_the_end():
    """Most patients come once or twice, some ten times, on any of sixty days: the gaps of few-timers are long, those of others short."""
    rng = np.random.default_rng(0)
    number = rng.choice([1, 2, 10], 2000, p=[0.5, 0.4, 0.1])
    owner = np.repeat(np.arange(2000), number)
    visits = pd.DataFrame(
        {"patient": owner, "day": rng.integers(0, 60, len(owner)), "came": rng.random(len(owner)) < 0.7}
    )
    visits = visits.sort_values(["patient", "day"], ignore_index=True)
    visits = visits.assign(patient=visits["patient"].map("P{:04d}".format).astype("str"))
    declared = Schema.from_dict(
        {
            "name": "clinic",
            "declared_by": "tests",
            "unit": "patient",
            "units": 2000,
            "max_records_per_unit": 10,
            "order": "day",
            "columns": {
                "patient": {"kind": "identifier"},
                "day": {"kind": "integer", "bounds": [0, 59], "bins": 12},
                "came": {"kind": "boolean"},
            },
        }
    )
    generator = HistoriesSettings(rounds=2, iterations=40)
    made = Synthesizer(generator, schema=declared, budget=Budget(math.inf, 1e-6)).fit(visits, seed=0)
    sample = made.sample(len(visits), seed=0)

    def late(frame):
        many = frame.groupby("patient")["day"].transform("size") >= 9
        return (frame["day"] >= 55)[many].mean()

    assert late(visits) == pytest.approx(5 / 60, abs=0.02)
    assert late(sample) == pytest.approx(late(visits), abs=0.1), (
        "0.40 where gaps leave no time for the records that follow"
    )


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["at", "unit", "points", "points before"])
def test_a_column_may_have_any_name(name):
    """A fit kept places and dates beside the columns, under names of its own, and failed where a column had one of these."""
    declared = {name if each == "admitted" else each: column for each, column in MADE_UP["DECLARED"]["columns"].items()}
    stays = MADE_UP["stays"](150, 1)
    release = Synthesizer(
        HistoriesSettings(rounds=1, iterations=3, pairs=1),
        schema=schema(150, columns=declared, order=name),
        budget=Budget(math.inf, 1e-6),
    ).fit(stays.rename(columns={"admitted": name}), seed=0)
    sample = release.sample(100, seed=0)
    assert sample[name].between("2021-01-01", "2024-01-01").all()
    assert sample.groupby("patient")[name].is_monotonic_increasing.all()


@pytest.mark.parametrize("per_unit", [[], heavy(["after"])], ids=str)
def test_a_column_may_have_the_name_of_what_only_linked_tables_count(per_unit):
    """A fit broke off after its first answers were paid for."""
    patients = np.arange(60) // 3
    frame = pd.DataFrame({"p": patients.astype(str), "day": np.arange(60), "after": patients % 2 == 0, "ill": True})
    columns = {
        "p": {"kind": "identifier"},
        "day": {"kind": "integer", "bounds": [0, 60], "bins": 4},
        "after": {"kind": "boolean"},
        "ill": {"kind": "boolean"},
    }
    declared = {"declared_by": "tests", "unit": "p", "units": 20, "order": "day", "max_records_per_unit": 3}
    made = Synthesizer(
        HistoriesSettings(rounds=1, iterations=2),
        schema=Schema.from_dict({**declared, "columns": columns, "per_unit": per_unit}),
        budget=Budget(math.inf, 1e-6),
    ).fit(frame, seed=0)
    assert len(GENERATOR().restore(made.schema, made.model.tensors()).sample(20, seed=0)) == 20


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"order": None}, "learns histories: name in the schema, as unit"),
        ({"rules": ["days >= 1"], "honoured": [0]}, "give honoured: []"),
        (
            {"per_unit": [name for name in MADE_UP["DECLARED"]["columns"] if name not in ("patient", "admitted")]},
            "neither order nor",
        ),
    ],
)
def test_schemas_without_histories_are_refused_before_any_charge(changes, said, tmp_path):
    with pytest.raises(BadInput, match=said.replace("[", r"\[").replace("]", r"\]")):
        Synthesizer("histories", schema=schema(100, **changes), budget=Budget(1.0, 1e-6))
    assert not list(tmp_path.iterdir())


def test_what_only_a_target_would_make_read_is_refused_without_one():
    with pytest.raises(BadInput, match=r"generator\.pairs applies"):
        Synthesizer("histories", schema=schema(100, targets=[]), budget=Budget(1.0, 1e-6), pairs=3)
    Synthesizer("histories", schema=schema(100, targets=[]), budget=Budget(1.0, 1e-6))


def test_a_clip_that_is_lost_in_rounding_is_refused():
    with pytest.raises(BadInput, match=r"generator\.clip must be a number in \[0\.001, 1000\]"):
        HistoriesSettings(clip=1e-7)


def test_no_column_is_told_twice_by_another():
    """Without a target what a flag was before tells; one that may be missing has three codes, so whether it stays is told apart, too."""
    columns = {name: MADE_UP["DECLARED"]["columns"][name] for name in ("patient", "admitted")}
    columns["again"] = {"kind": "boolean", "missing": True}
    view = View.of(Codec(schema(60, columns=columns, targets=[], per_unit=[])))
    assert view.told == tuple(view.alike) == ("again",)
    for name in view.drawn:
        assert len(set(view.before(name))) == len(view.before(name)), name


def test_a_pair_of_many_cells_leaves_room_for_the_mixed_model():
    """Even if its column tells most of the target; and if columns alone have too many cells, no pair is left out."""

    def asked(codes):
        streets = {"kind": "categorical", "categories": [f"street {code}" for code in range(codes)]}
        columns = {**MADE_UP["DECLARED"]["columns"], "street": streets}
        per_unit = [*MADE_UP["DECLARED"]["per_unit"], "street"]
        view = View.of(Codec(schema(9000, columns=columns, per_unit=per_unit)))
        tables = {(name, view.target): np.full((view.sizes[name], 2), 9.0) for name in view.before(view.target)}
        tables["street", view.target][::2] *= [0, 2]
        pairs = _pairs(view, NoisyTables(tables, 1.0), 12)
        cliques = [*((name,) for name in view.before(view.target)), *pairs]
        return pairs, mixed_model_fit.suits(cliques, view.sizes, 2)

    few, many, too_many = asked(50), asked(500), asked(2500)
    assert ("previous readmitted", "street") in few[0]
    assert few[1]
    assert [pair for pair in few[0] if "street" not in pair] == many[0][: len(few[0]) - 1]
    assert len(many[0]) == 12, "the next one takes its place"
    assert many[1]
    assert ("previous readmitted", "street") in too_many[0]
    assert not too_many[1]


@pytest.mark.heavy
def test_a_stopped_fit_gives_the_answers_that_were_kept_again(tmp_path, monkeypatch):
    stays, places = MADE_UP["stays"](200, 1), {"ledger": tmp_path / "ledger", "checkpoint": tmp_path / "checkpoint"}
    made = Synthesizer(HistoriesSettings(rounds=1, iterations=5), schema=schema(200), budget=Budget(1.0, 1e-6))
    asking = Sensitive.ask

    def stopped(self, question):
        if question.clip is not None and len(question.cliques[-1]) == 3:
            raise KeyboardInterrupt
        return asking(self, question)

    monkeypatch.setattr(Sensitive, "ask", stopped)
    with pytest.raises(KeyboardInterrupt):
        made.fit(stays, seed=4, **places)
    monkeypatch.setattr(Sensitive, "ask", asking)
    release = made.fit(stays, seed=4, resume=True, **places)
    whole = made.fit(stays, seed=4)
    assert release.statement.epsilon == whole.statement.epsilon <= 1.0
    pd.testing.assert_frame_equal(release.sample(50, seed=0), whole.sample(50, seed=0))


def test_no_more_units_are_drawn_than_noise_leaves_worth_drawing(monkeypatch):
    """At a tiny epsilon noise told of more than 50,000 units among 60: so many were drawn and fitted, which did not end within an hour."""

    class Stop(Exception):
        pass

    def records(self, _):
        raise Stop(self.total, self.number)

    def told(epsilon, seed):
        made = Synthesizer("histories", schema=schema(60), budget=Budget(epsilon, 1e-6), iterations=1)
        with pytest.raises(Stop) as stopped:
            made.fit(MADE_UP["stays"](60, 1), seed=seed)
        return stopped.value.args

    monkeypatch.setattr(HistoryFit, "records", records)
    total, number = told(1e-6, 1)
    assert total > 50_000
    assert number == history_fit.ENOUGH_UNITS
    total, number = told(30.0, 0)
    assert number == int(total) > 50


# ---- The conditional distribution.


@pytest.mark.parametrize("squares", [False, True])
def test_a_conditional_has_the_shares_of_its_tables(squares):
    """Two columns that tell a third one: without noise the fitted shares in every cell are those that were asked."""
    rng, sizes = np.random.default_rng(0), {"a": 3, "b": 2, "y": 3}
    cells = {"a": rng.integers(0, 3, 4000), "b": rng.integers(0, 2, 4000)}
    chances = softmax(rng.normal(size=(3, 3))[cells["a"]] + rng.normal(size=(2, 3))[cells["b"]])
    y = (chances.cumsum(1) > rng.random((4000, 1))).argmax(1)
    tables = [np.zeros((sizes[name], 3)) for name in "ab"]
    for name, table in zip("ab", tables, strict=True):
        np.add.at(table, (cells[name], y), 1)
    alone = np.log(np.bincount(y) / len(y))
    settings = {"spread": 1e3, "iterations": 300, "spreads": {} if squares else None}
    found = fit(cells, np.ones(4000), [("a",), ("b",)], sizes, tables, [1e-3, 1e-3], alone, **settings)
    told = found.probabilities(cells, sizes)
    for name, table in zip("ab", tables, strict=True):
        made = np.stack([told[cells[name] == code].sum(0) for code in range(sizes[name])])
        np.testing.assert_allclose(made, table, rtol=0.01, atol=1.0)
    settings |= {"spread": 0.1, "spreads": {} if squares else None}
    nothing = fit(cells, np.ones(4000), [("a",)], sizes, tables[:1], [1e9], alone, **settings)
    np.testing.assert_allclose(
        nothing.probabilities(cells, sizes), np.tile(softmax(alone[None])[0], (4000, 1)), atol=0.01
    )


def test_a_rare_code_that_is_common_in_one_cell_is_told_by_that_cell_where_its_count_is_clear():
    """A drug that is given at nearly all visits with one of the ten diagnoses, and at no other visit."""
    visits = np.repeat(np.arange(10), 400)
    table = np.zeros((10, 5))
    table[:, 1:] = 100.0
    table[3] = [380.0, 5.0, 5.0, 5.0, 5.0]
    alone, shares = np.log(table.sum(0) / table.sum()), {}
    for deviation in (30.0, 300.0):
        noisy = table + np.random.default_rng(1).normal(0, deviation / 10, table.shape)
        for clear in (False, True):
            told = ({"a": visits}, np.ones(4000), [("a",)], {"a": 10}, [noisy], [deviation], alone)
            found = fit(*told, spread=0.5, iterations=300, of_rows=clear)
            shares[deviation, clear] = found.probabilities({"a": np.array([3, 4])}, {"a": 10})[:, 0]
    assert shares[30.0, True][0] > shares[30.0, False][0] + 0.1
    np.testing.assert_allclose(shares[300.0, True], shares[300.0, False], atol=1e-3)
    assert shares[30.0, True][1] < 0.1


@pytest.fixture(scope="module")
def told():
    """Columns of which `a` tells y, `b` does not, and `c` does by its order; tables with noise of deviation 40."""
    rng, sizes = np.random.default_rng(0), {"a": 3, "b": 30, "c": 20, "y": 2}
    cells = {name: rng.integers(0, sizes[name], 20_000) for name in "abc"}
    chance = 1 / (1 + np.exp(-(np.array([-1.5, -0.5, 0.5])[cells["a"]] + np.linspace(-1, 1, 20)[cells["c"]])))
    y = (rng.random(20_000) < chance).astype(int)
    tables = []
    for name in "abc":
        table = rng.normal(0, 40, (sizes[name], 2))
        np.add.at(table, (cells[name], y), 1)
        tables.append(table)
    return cells, sizes, tables, chance, np.log(np.bincount(y) / len(y))


def mixed(told, ordered, deviation=40.0, spread=0.25):
    cells, sizes, tables, _, alone = told
    cliques = [("a",), ("b",), ("c",)]
    return mixed_model_fit.fit(
        cells,
        np.ones(20_000),
        cliques,
        sizes,
        tables,
        [deviation] * 3,
        alone,
        ordered=ordered,
        spread=spread,
        iterations=100,
    )


def test_a_table_that_tells_nothing_adds_no_noise(told):
    cells, sizes, tables, chance, alone = told
    found = mixed(told, {"c": (0, 20)})
    assert np.abs(found.theta[3:33, 1]).max() < 0.02, "of b"
    assert np.diff(found.theta[:3, 1]) == pytest.approx([1, 1], abs=0.15), "of a"
    cliques = [("a",), ("b",), ("c",)]
    usual = fit(cells, np.ones(20_000), cliques, sizes, tables, [40.0] * 3, alone, spread=0.25, iterations=200)

    def off(conditional):
        return np.abs(conditional.probabilities(cells, sizes)[:, 1] - chance).mean()

    assert off(found) < off(mixed(told, {})) < off(usual)
    assert off(found) < 0.6 * off(usual)
    assert found.probabilities(cells, sizes).mean(0) == pytest.approx(np.exp(alone), abs=1e-4)


@pytest.mark.parametrize("codes", [2, 3])
def test_a_mixed_model_has_the_shares_of_its_tables(codes):
    """Without noise, and with a relation that is all but certain."""
    rng, sizes = np.random.default_rng(0), {"a": 3, "y": codes}
    a = rng.integers(0, 3, 20_000)
    y = np.where(rng.random(20_000) < 0.98, a % codes, rng.integers(0, codes, 20_000))
    table = np.zeros((3, codes))
    np.add.at(table, (a, y), 1)
    alone = np.log(np.bincount(y) / len(y))
    found = mixed_model_fit.fit(
        {"a": a}, np.ones(20_000), [("a",)], sizes, [table], [1e-3], alone, ordered={}, spread=0.25, iterations=100
    )
    np.testing.assert_allclose(
        found.probabilities({"a": np.arange(3)}, sizes), table / table.sum(1, keepdims=True), atol=0.01
    )


@pytest.mark.heavy
@pytest.mark.parametrize(("seed", "noise"), sweep([(0, 20.0), (1, 60.0), (2, 60.0)], lambda case: case[0] == 1))
def test_least_squares_leave_what_noisy_tables_contradict(seed, noise):
    """Ten tables of columns that go with one another, three of which tell y. By likelihood, parameters that cancel draw noise."""
    rng, names, rows = np.random.default_rng(seed), [f"c{each}" for each in range(10)], 20_000
    sizes = dict.fromkeys(names, 8)
    common = rng.normal(size=rows)
    cells = {name: np.clip(4 + 0.9 * common + 1.5 * rng.normal(size=rows), 0, 7).astype(int) for name in names}
    shares = softmax(sum(rng.normal(0, 0.35, (8, 12))[cells[name]] for name in names[:3]))
    y = (shares.cumsum(1) > rng.random((rows, 1))).argmax(1)
    tables = [rng.normal(0, noise, (8, 12)) for _ in names]
    for name, table in zip(names, tables, strict=True):
        np.add.at(table, (cells[name], y), 1)
    alone = np.log(np.bincount(y, minlength=12) / rows)
    cliques, spreads, found = [(name,) for name in names], {}, None

    def off(conditional):
        return np.abs(conditional.probabilities(cells, sizes) - shares).sum(1).mean()

    told = (cells, np.ones(rows), cliques, sizes, tables, [noise] * 10, alone)
    usual = fit(*told, spread=0.25, iterations=100)
    for _ in range(3):
        found = fit(*told, spread=0.25, iterations=100, start=found, spreads=spreads)
    assert off(found) < 0.93 * off(usual)
    assert min(spreads[name,] for name in names[:3]) > max(spreads[name,] for name in names[3:]), (
        "what tells, and what not"
    )
    assert np.abs(found.probabilities(cells, sizes).mean(0) - np.exp(alone)).sum() / 2 < 0.006, "the column by itself"


def test_the_gradient_of_the_squares_is_theirs():
    rng, sizes = np.random.default_rng(0), {"a": 3, "b": 2}
    cells = {"a": rng.integers(0, 3, 12), "b": rng.integers(0, 2, (12, 2))}
    rows = indicators(cells, [("a",), ("b",)], sizes)
    weights, noisy, deviations = rng.random(12), rng.normal(3, 2, (5, 4)), np.full((5, 1), 0.5)

    def chances(logits):
        return softmax(logits.reshape(12, 4)) * weights[:, None]

    start = rng.normal(size=48)
    squares = Squares.of(rows, rows.T.tocsr(), weights, chances(start), noisy, deviations)
    off = check_grad(
        lambda logits: squares.sum_and_gradient(chances(logits))[0],
        lambda logits: squares.sum_and_gradient(chances(logits))[1].ravel(),
        start,
    )
    assert off < 1e-5


def test_a_row_owes_its_code_to_one_of_its_cells():
    """Each diagnosis has a drug of its own, in 90 % of the rows that it causes, however many other diagnoses the visit has."""
    rng, sizes, rows = np.random.default_rng(0), {"d": 9, "y": 9}, 6000
    order = rng.permuted(np.tile(np.arange(8), (rows, 1)), axis=1)[:, :3]
    d = np.where(np.arange(3) < rng.integers(0, 4, rows)[:, None], order, -1)
    d[:, 0] = np.where((d >= 0).any(1), d[:, 0], 8)
    several = (d >= 0).sum(1)
    cause = np.take_along_axis(d, rng.integers(0, several)[:, None], 1)[:, 0]
    y = np.where(rng.random(rows) < 0.9, cause, rng.integers(0, 9, rows))
    table = np.zeros((9, 9))
    for place in d.T:
        np.add.at(table, (place[place >= 0], y[place >= 0]), 1 / several[place >= 0])
    found = None
    for _ in range(6):
        found = fit(
            {"d": d},
            np.ones(rows),
            [("d",)],
            sizes,
            [table],
            [1.0],
            np.log(np.bincount(y, minlength=9) / rows),
            spread=3.0,
            iterations=200,
            start=found,
            by_cause=True,
        )
    chances = found.probabilities({"d": d}, sizes)
    own = np.take_along_axis(chances, d * (d >= 0), 1)
    for number in (1, 2, 3):
        here = (several == number)[:, None] & (d >= 0) & (d < 8)
        assert own[here].mean() == pytest.approx(0.9 / number + 0.1 / 9, abs=0.02), "its share, whatever else there is"
    assert np.abs(indicators({"d": d}, [("d",)], sizes).T @ chances - table).sum() < 0.03 * rows
    assert (causes.change(np.full((1, 2), -1), found.theta, by_cause=True) == 0).all(), "a row of no cell"


@pytest.mark.parametrize("total", [2e3, 2e6])
def test_a_fit_goes_on_from_the_last_one_however_many_rows_there_are(total):
    """What rows owe must be something that rows can: fits to anything else got worse and worse."""
    rng, sizes, count = np.random.default_rng(0), {"d": 8}, 2000
    d = rng.permuted(np.tile(np.arange(8), (count, 1)), axis=1)[:, :3]
    d = np.where(np.arange(3) < rng.integers(1, 4, count)[:, None], d, -1)
    shares, weights = rng.dirichlet(np.full(8, 0.3), 8)[d[:, 0]], np.full(count, total / count)
    counted = indicators({"d": d}, [("d",)], sizes).T @ (shares * weights[:, None])
    noisy, alone = counted + rng.normal(0, 3, (8, 8)), np.log(shares.mean(0))
    found, said = None, []
    for _ in range(4):
        told = ({"d": d}, weights, [("d",)], sizes, [noisy], [3.0], alone)
        found = fit(*told, spread=1.0, iterations=120, start=found, of_rows=True, by_cause=True)
        said.append((shares * np.log(found.probabilities({"d": d}, sizes))).sum(1).mean())
    assert (np.diff(said) > 0).all()


@pytest.mark.heavy
def test_what_noise_adds_to_rare_codes_is_not_taken_from_a_frequent_one():
    """Each row of the first diagnosis has the first drug four times out of ten, among 400 others, of which noise hides all."""
    rng, codes, rows, deviation = np.random.default_rng(0), 400, 8000, 20.0
    sizes = {"d": 20, "y": codes}
    d = rng.permuted(np.tile(np.arange(20), (rows, 1)), axis=1)[:, :2]
    d = np.where(np.arange(2) < rng.integers(1, 3, rows)[:, None], d, -1)
    y = np.where((d == 0).any(1) & (rng.random(rows) < 0.4), 0, rng.integers(0, codes, rows))
    table = indicators({"d": d}, [("d",)], sizes).T @ (y[:, None] == np.arange(codes))
    noisy, found = table + rng.normal(0, deviation, table.shape), None
    for _ in range(3):
        found = fit(
            {"d": d},
            np.ones(rows),
            [("d",)],
            sizes,
            [noisy],
            [deviation],
            np.log(np.maximum(np.bincount(y, minlength=codes), 1) / rows),
            spread=1.0,
            iterations=60,
            start=found,
            of_rows=True,
            by_cause=True,
        )
    made = indicators({"d": d}, [("d",)], sizes).T @ found.probabilities({"d": d}, sizes)
    assert made[0, 0] == pytest.approx(table[0, 0], rel=0.12)


def test_what_rows_owe_to_their_cells_adds_up():
    rng = np.random.default_rng(0)
    found = np.where(rng.random((50, 3)) < 0.6, rng.permuted(np.tile(np.arange(5), (50, 1)), axis=1)[:, :3], -1)
    rows = indicators({"d": found}, [("d",)], {"d": 5})
    theta, chances, logits = rng.normal(size=(5, 4)), rng.dirichlet(np.ones(4), 50), np.zeros((50, 4))
    mixture = causes.Mixture.of(rows, [slice(0, 5)])
    means = mixture.add(logits, theta)
    assert logits == pytest.approx(causes.change(found, theta, by_cause=True))
    assert not mixture.others(rows).nnz
    into = np.zeros((5, 4))
    mixture.owed(chances, means, into)
    assert into.sum(0) == pytest.approx(chances[(found >= 0).any(1)].sum(0)), "each row to one of its cells"
    table = np.asarray(rows.T @ chances)
    exact, one = np.zeros((len(table), 1)), np.ones((len(table), 1))
    assert mixture.owed_of(table, exact, one, chances, means) == pytest.approx(into), "what is counted as it is"


def test_changes_of_any_size_are_mixed():
    """Of many rows and little noise a fit may pass them on its way."""
    found, theta = np.array([[0, 1], [1, -1], [-1, -1]]), np.array([[2e3, 0, 1e3], [-2e3, 0, 1e3]])
    rows, logits = indicators({"d": found}, [("d",)], {"d": 2}), np.zeros((3, 3))
    mixture = causes.Mixture.of(rows, [slice(0, 2)])
    means = mixture.add(logits, theta)
    assert logits == pytest.approx(causes.change(found, theta, by_cause=True))
    assert logits[0] == pytest.approx([2e3 - np.log(2), 0, 1e3])
    assert logits[1, 1:] == pytest.approx([0, 1e3])
    assert (logits[2] == 0).all(), "a row of no cell"
    chances, into = np.full((3, 3), 1 / 3), np.zeros((2, 3))
    mixture.owed(chances, means, into)
    assert into.sum(0) == pytest.approx(chances[:2].sum(0)), "each row to one of its cells"
    at_once = conditional_fit.Conditional(np.zeros(3), (("d",),), theta, by_cause=True).probabilities(
        {"d": found}, {"d": 2}
    )
    assert at_once == pytest.approx(np.array([[1, 0, 0], [0, 0, 1], [1 / 3, 1 / 3, 1 / 3]]))


def ranked(codes):
    ranks = np.arange(codes) - (codes - 1) / 2
    return ranks / ranks.std()


@pytest.fixture(scope="module")
def in_order():
    """Columns of twenty codes: y rises with `a`, not with `b`; tables with noise of deviation 60, so that single cells say little."""
    rng, sizes = np.random.default_rng(0), {"a": 20, "b": 20, "y": 20}
    cells = {name: rng.integers(0, 20, 20_000) for name in "ab"}
    shares = softmax(0.6 * np.outer(ranked(20), ranked(20)))
    y = (shares[cells["a"]].cumsum(1) > rng.random(20_000)[:, None]).argmax(1)
    tables = []
    for name in "ab":
        table = rng.normal(0, 60, (20, 20))
        np.add.at(table, (cells[name], y), 1)
        tables.append(table)
    return cells, sizes, tables, shares, np.log(np.bincount(y) / len(y))


def sloped(in_order, slopes, name="y"):
    cells, sizes, tables, _, alone = in_order
    cliques, options = [("a",), ("b",)], {"spread": 0.25, "iterations": 100}
    return fit(cells, np.ones(20_000), cliques, sizes, tables, [60.0] * 2, alone, slopes=slopes, name=name, **options)


def test_columns_in_order_have_a_slope_and_what_tells_nothing_has_none(in_order):
    cells, sizes, _, shares, _ = in_order
    slopes = Slopes(dict.fromkeys(("a", "b", "y"), (0, 20)))
    found, without = sloped(in_order, slopes), sloped(in_order, None)
    assert slopes.found["y", ("a",)][0] == pytest.approx(0.6, abs=0.1)
    assert abs(slopes.found["y", ("b",)][0]) < 0.05
    assert slopes.variance("y", ("a",)) > FIRST_SLOPE**2, "as the tables say"

    def off(conditional):
        return np.abs(conditional.probabilities(cells, sizes) - shares[cells["a"]]).sum(1).mean() / 2

    assert off(found) < 0.7 * off(without)
    again = fit_again(in_order, found, slopes)
    np.testing.assert_allclose(again.probabilities(cells, sizes), found.probabilities(cells, sizes), atol=0.02)


def fit_again(in_order, start, slopes):
    cells, sizes, tables, _, alone = in_order
    options = {"spread": 0.25, "iterations": 5, "start": start, "slopes": slopes, "name": "y"}
    return fit(cells, np.ones(20_000), [("a",), ("b",)], sizes, tables, [60.0] * 2, alone, **options)


@pytest.mark.parametrize("ordered", [("a", "b"), ("y",), ()])
def test_a_column_without_an_order_has_no_slope(in_order, ordered):
    slopes = Slopes(dict.fromkeys(ordered, (0, 20)))
    cells, sizes = in_order[:2]
    found, without = sloped(in_order, slopes), sloped(in_order, None)
    assert not slopes.found
    np.testing.assert_allclose(found.probabilities(cells, sizes), without.probabilities(cells, sizes), atol=0.01)


@pytest.fixture(scope="module")
def by_code():
    """y rises with `a` where the code is 0, falls where it is 1, and does neither where it is 2, each code in as many rows; it stands
    higher in ward 1 of code 0. Tables of two columns each, with noise of deviation 30, so that single cells say little."""
    rng, sizes = np.random.default_rng(0), {"code": 3, "a": 20, "ward": 2, "y": 20}
    cells = {name: rng.integers(0, sizes[name], 30_000) for name in ("code", "a", "ward")}
    slope = np.array([0.6, -0.6, 0.0])[cells["code"]] * ranked(20)[cells["a"]]
    slope += np.where(cells["code"] == 0, 0.5, 0.0) * (cells["ward"] - 0.5)
    shares = softmax(slope[:, None] * ranked(20)[None, :])
    y = (shares.cumsum(1) > rng.random(30_000)[:, None]).argmax(1)
    tables = {}
    for name in ("a", "ward"):
        place = cells["code"] * sizes[name] + cells[name]
        tables[name] = rng.normal(0, 30, (3 * sizes[name], 20))
        np.add.at(tables[name], (place, y), 1)
    return cells, sizes, tables, shares, np.log(np.bincount(y) / len(y))


def fitted_by_code(by_code, slopes, *names, **options):
    cells, sizes, tables, _, alone = by_code
    cliques, told = [("code", name) for name in names], [tables[name] for name in names]
    settings = {"spread": 0.25, "iterations": 100, "slopes": slopes, "name": "y", **options}
    return fit(cells, np.ones(30_000), cliques, sizes, told, [30.0] * len(names), alone, **settings)


def test_two_columns_have_a_slope_for_each_code_of_the_first(by_code):
    cells, sizes, _, shares, _ = by_code
    slopes = Slopes(dict.fromkeys(("a", "y"), (0, 20)), ("y",))
    found, without = (fitted_by_code(by_code, each, "a", "ward") for each in (slopes, None))
    slope, told = slopes.found["y", ("code", "a")]
    assert slope == pytest.approx([0.6, -0.6, 0.0], abs=0.15)
    assert told.shape == (3,)
    assert (told > 0.9).all()
    wards, _ = slopes.found["y", ("code", "ward")]  # which stand in no order: each cell has its own
    assert wards.shape == (6,)
    assert wards[1] - wards[0] == pytest.approx(0.5, abs=0.15)
    assert np.abs(np.diff(wards.reshape(3, 2), axis=1)[1:]).max() < 0.15

    def off(conditional):
        return np.abs(conditional.probabilities(cells, sizes) - shares).sum(1).mean() / 2

    assert off(found) < 0.7 * off(without)
    others = Slopes(dict.fromkeys(("a", "y"), (0, 20)), ("z",))
    fitted_by_code(by_code, others, "a", "ward", iterations=1)
    assert not others.found


def test_a_fit_of_two_columns_goes_on_where_an_earlier_one_ended(by_code):
    slopes, start = Slopes(dict.fromkeys(("a", "y"), (0, 20)), ("y",)), None
    for _ in range(4):
        start = fitted_by_code(by_code, slopes, "a", "ward", start=start, iterations=200)
    again = fitted_by_code(by_code, slopes, "a", "ward", start=start, iterations=1)
    np.testing.assert_allclose(again.theta, start.theta, atol=0.01)


def test_ranks_are_bounded_however_rare_a_code_is():
    ranks = Slopes({"a": (1, 4)}).ranks("a", np.array([9.0, 1.0, 2.0, 1.0, 5.0]))
    assert ranks.tolist() == pytest.approx([0, -(3**0.5) * 0.75, 0, 3**0.5 * 0.75, 0])
    rare = Slopes({"a": (0, 5)}).ranks("a", np.array([1.0, 0.0, 1e6, 0.0, 1e-9]))
    assert np.abs(rare).max() <= 3**0.5
    assert (np.diff(rare) >= 0).all()
    assert Slopes({"a": (0, 3)}).ranks("a", np.zeros(3)).tolist() == pytest.approx([-(3**0.5)] * 3), "of no weight"
    assert Slopes({"a": (0, 2)}).ranks("a", np.ones(2)) is None, "two codes have no order to speak of"


def told_of(rows, noise, shares, codes_of_y, seed=0, start=None, slopes=None, **options):
    """A fit of y, of these shares whatever `a` is, where a row's `a` is told by `rows`; and the shares that it has in each code of a."""
    rng, size = np.random.default_rng((1, seed)), int(rows.max()) + 1
    y = rng.choice(codes_of_y, len(rows), p=shares)
    table = rng.normal(0, noise, (size, codes_of_y))
    np.add.at(table, (rows, y), 1)
    alone = np.log(np.maximum(np.bincount(y, minlength=codes_of_y), 1) / len(y))
    slopes = slopes or Slopes({"a": (0, size), "y": (0, options.pop("last", codes_of_y))})
    fixed = {"spread": 0.25, "iterations": 100, "slopes": slopes, "name": "y", "start": start}
    found = fit(
        {"a": rows}, np.ones(len(rows)), [("a",)], {"a": size, "y": codes_of_y}, [table], [noise], alone, **fixed
    )
    return found, found.probabilities({"a": np.arange(size)}, {"a": size, "y": codes_of_y}), slopes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("most", [0.9, 0.999, 1.0])
def test_a_code_that_hardly_any_record_has_is_not_bent_by_noise(most, seed):
    """Ranks of variance 1 reached thousands there, and the rest of the column was drawn at one end."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random(20_000) < most, 0, rng.integers(1, 6, 20_000))
    rows[0] = 5
    _, shares, _ = told_of(rows, 60.0, np.full(8, 1 / 8), 8, seed)
    assert np.abs(shares - 1 / 8).sum(1).max() / 2 < 0.2


@pytest.mark.parametrize("seed", range(3))
def test_the_atom_of_a_column_tells_nothing_of_its_slope(seed):
    """In 98 % of the records, whose noise made slopes of 1."""
    rows = np.random.default_rng(seed).integers(0, 10, 20_000)
    _, _, slopes = told_of(rows, 60.0, [*[0.02 / 8] * 8, 0.98], 9, seed, last=8)
    slope, told = slopes.found["y", ("a",)]
    assert abs(slope) < 0.2
    assert told < 0.2


def test_how_large_slopes_are_is_told_by_all_of_them_and_the_noise():
    """With more noise less of a slope is told; where all slopes are small they are drawn to nought."""
    rows = np.random.default_rng(0).integers(0, 10, 20_000)
    told = [told_of(rows, noise, np.full(8, 1 / 8), 8)[2].found["y", ("a",)][1] for noise in (5.0, 60.0, 600.0)]
    assert told[0] > 0.99 > told[1] > 0.7 > told[2]
    names = ("a", "y", "previous a", *map(str, range(8)))
    slopes = Slopes(dict.fromkeys(names, (0, 8)) | {"a": (0, 10)})
    slopes.found.update({("z", (str(each),)): (np.full(1, 0.01), np.ones(1)) for each in range(8)})
    assert slopes.variance("y", ("a",)) == slopes.variance("y", ("previous a",)) < 0.1**2
    assert slopes.variance("level of y", ("a",)) == FIRST_SLOPE**2, "those of levels are apart"
    assert slopes.variance("y", ("code",)) == FIRST_SLOPE**2, "and those of codes without an order"
    assert told_of(rows, 600.0, np.full(8, 1 / 8), 8, slopes=slopes)[2].found["y", ("a",)][1] < told[2] / 2
    slopes.found.update({("level of z", ("c", f"previous {each}")): (np.full(3, 9.0), np.ones(3)) for each in range(8)})
    before, else_ = (slopes.variance("level of y", ("c", name)) for name in ("previous a", "a"))
    assert (before, else_) == (1.0, FIRST_SLOPE**2), "and there, those of previous ones"
    slopes.found.update({("z", (str(each),)): (np.full(1, 9.0), np.ones(1)) for each in range(8)})
    assert slopes.variance("y", ("a",)) == 1.0


def test_a_fit_goes_on_where_an_earlier_one_ended(in_order):
    """With as good as no more steps: a slope that is begun from nothing, or counted twice, is far off."""
    cells, sizes, tables, _, alone = in_order
    slopes = Slopes(dict.fromkeys(("a", "b", "y"), (0, 20)))
    options = {"spread": 0.25, "slopes": slopes, "name": "y"}
    start = None
    for _ in range(4):  # until what is expected of slopes is settled
        start = fit(
            cells,
            np.ones(20_000),
            [("a",), ("b",)],
            sizes,
            tables,
            [60.0] * 2,
            alone,
            start=start,
            iterations=200,
            **options,
        )
    again = fit(
        cells, np.ones(20_000), [("a",), ("b",)], sizes, tables, [60.0] * 2, alone, start=start, iterations=1, **options
    )
    np.testing.assert_allclose(again.theta, start.theta, atol=0.01)


@pytest.mark.heavy
@pytest.mark.heavy
def test_a_ward_of_children_stays_one_at_a_small_budget(monkeypatch):
    """A ward without trends along age had adults, since noise hides each age's cell."""
    rng = np.random.default_rng(0)
    people = 2500
    age, visits = rng.integers(0, 96, people), 1 + rng.poisson(1.5, people)
    owner = np.repeat(np.arange(people), visits)
    ward = np.where(age[owner] < 16, 0, rng.integers(1, 8, len(owner)))
    first = np.repeat(np.cumsum(visits) - visits, visits)
    day = rng.integers(0, 300, people)[owner] + 60 * (np.arange(len(owner)) - first)
    frame = pd.DataFrame({"patient": owner, "age": age[owner], "day": day, "ward": [f"w{each}" for each in ward]})
    declared = Schema.from_dict(
        {
            "declared_by": "tests",
            "unit": "patient",
            "units": people,
            "max_records_per_unit": 8,
            "order": "day",
            "per_unit": ["age"],
            "columns": {
                "patient": {"kind": "identifier"},
                "age": {"kind": "integer", "bounds": [0, 95], "bins": 12},
                "day": {"kind": "integer", "bounds": [0, 1000]},
                "ward": {"kind": "categorical", "categories": [f"w{each}" for each in range(8)]},
            },
        }
    )
    off = []
    for trends in (True, False):
        if not trends:
            monkeypatch.setattr(history_fit.HistoryFit, "_along", lambda *_: None)
        drawn = (
            Synthesizer("histories", schema=declared, budget=Budget(1.0, 1e-5)).fit(frame, seed=0).sample(8000, seed=0)
        )
        off.append((drawn[drawn.ward == "w0"].age >= 16).mean())
    assert off[0] < 0.7 * off[1], off


@pytest.mark.heavy
def test_a_column_that_mostly_stays_as_it_was_keeps_its_shares():
    """Its shares were forced on the few rows that have a choice, and 40 % of all records moved."""
    rng = np.random.default_rng(0)
    number = np.minimum(12, 2 + rng.poisson(4, 1500))
    owner = np.repeat(np.arange(1500), number)
    fresh = (np.diff(owner, prepend=-1) > 0) | (rng.random(len(owner)) < 0.04)
    stage = rng.choice(5, len(owner), p=[0.5, 0.25, 0.15, 0.07, 0.03])[
        np.maximum.accumulate(np.where(fresh, np.arange(len(owner)), 0))
    ]
    days = rng.integers(0, 500, 1500)[owner] + 7 * np.arange(len(owner)) - 7 * np.searchsorted(owner, owner)
    names = np.array([f"s{each}" for each in range(5)])
    real = pd.DataFrame({"patient": [f"P{each:05d}" for each in owner], "day": days, "stage": names[stage]})
    columns = {
        "patient": {"kind": "identifier"},
        "day": {"kind": "integer", "bounds": [0, 700], "bins": 12},
        "stage": {"kind": "ordinal", "categories": names.tolist()},
        "age": {"kind": "integer", "bounds": [0, 99], "bins": 5},
    }
    keys = {"unit": "patient", "order": "day", "max_records_per_unit": 12, "units": 1500, "per_unit": ["age"]}
    real["age"] = rng.integers(0, 100, 1500)[owner]
    declared = Schema.from_dict({"name": "stages", "declared_by": "tests", "columns": columns, **keys})
    made = Synthesizer("histories", schema=declared, budget=Budget(2.0, 1e-6)).fit(real, seed=0)
    shares = [
        each["stage"].value_counts(normalize=True).reindex(names) for each in (made.sample(len(real), seed=0), real)
    ]
    assert shares[0].sub(shares[1]).abs().sum() / 2 < 0.05


def readings(people, seed):
    """Blood values: of a person alike from visit to visit, and of each other in part; a third value goes with nothing."""
    rng = np.random.default_rng(seed)
    number = 1 + rng.poisson(1.5, people)
    owner = np.repeat(np.arange(people), number)
    own = rng.normal(0, 0.8, people)[owner] + rng.normal(0, 0.6, len(owner))
    days = rng.integers(0, 900, people)[owner] + np.cumsum(rng.integers(1, 40, len(owner)))
    frame = {
        "patient": [f"P{each:05d}" for each in owner],
        "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(days % 1400, "D"),
        "urea": np.clip(5 + 1.2 * own, 0, 15).round(1),
        "creatinine": np.clip(80 + 12 * own + rng.normal(0, 12, len(owner)), 0, 200).round().astype(int),
        "pulse": np.clip(rng.normal(75, 10, len(owner)), 30, 150).round().astype(int),
    }
    return pd.DataFrame(frame).sort_values(["patient", "day"], ignore_index=True)


@pytest.mark.heavy
def test_values_go_with_one_another_and_with_the_last_ones():
    """What is told by single cells alone kept half of this: each of their parameters is small, and the noise is as large."""
    columns = {
        "patient": {"kind": "identifier"},
        "day": {"kind": "datetime", "bounds": ["2023-01-01", "2026-12-31"], "resolution": "day", "bins": 12},
        "urea": {"kind": "continuous", "bounds": [0, 15], "bins": [3, 3.8, 4.5, 5, 5.5, 6.2, 7], "decimals": 1},
        "creatinine": {"kind": "integer", "bounds": [0, 200], "bins": [60, 68, 76, 84, 92, 100]},
        "pulse": {"kind": "integer", "bounds": [30, 150], "bins": [62, 68, 72, 76, 80, 86]},
    }
    declared = {"unit": "patient", "order": "day", "max_records_per_unit": 4, "units": 4000, "columns": columns}
    real = readings(4000, 0)
    made = Synthesizer(
        HistoriesSettings(rounds=2, iterations=60),
        schema=Schema.from_dict({"name": "blood", "declared_by": "tests", **declared}),
        budget=Budget(3.0, 1e-6),
    ).fit(real, seed=0)

    def together(frame, one, other):
        last = frame.groupby("patient", sort=False)[other].shift() if one == other else frame[other]
        return frame[one].corr(last, method="spearman")

    sample = made.sample(len(real), seed=0)
    for pair in (("urea", "urea"), ("urea", "creatinine")):
        assert together(real, *pair) > 0.5, "there is something to keep"
        assert together(sample, *pair) > 0.75 * together(real, *pair)
    for other in ("urea", "pulse"):
        assert abs(together(sample, "pulse", other)) < 0.1


def stays(people, seed):
    """Visits whose cost follows from their length; the pulse goes with nothing."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(people), 1 + rng.poisson(1.2, people))
    size = rng.normal(size=len(owner))
    days = rng.integers(0, 900, people)[owner] + 30 * (np.arange(len(owner)) - np.searchsorted(owner, owner))
    frame = {
        "patient": [f"P{each:05d}" for each in owner],
        "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(days, "D"),
        "length": np.clip(np.exp(1.3 + 0.7 * size), 0, 60).astype(int),
        "cost": np.clip(np.exp(6.5 + 0.7 * size + 0.3 * rng.normal(size=len(owner))), 0, 30_000).astype(int),
        "pulse": np.clip(rng.normal(75, 10, len(owner)), 30, 150).astype(int),
        "ward": rng.choice(["a", "b", "c", "d", "e"], len(owner)),
        "urgent": rng.random(len(owner)) < 0.5,
    }
    return pd.DataFrame(frame)


def of_stays(people):
    columns = {
        "patient": {"kind": "identifier"},
        "day": {"kind": "datetime", "bounds": ["2023-01-01", "2026-12-31"], "resolution": "day", "bins": 12},
        "length": {"kind": "integer", "bounds": [0, 60], "bins": [1, 2, 3, 4, 5, 6, 8, 10, 14, 21, 30]},
        "cost": {"kind": "integer", "bounds": [0, 30_000], "bins": [200, 350, 500, 700, 1000, 1400, 2000, 3000, 4500]},
        "pulse": {"kind": "integer", "bounds": [30, 150], "bins": [50, 55, 60, 65, 70, 75, 80, 85, 90, 95]},
        "ward": {"kind": "categorical", "categories": ["a", "b", "c", "d", "e"]},
        "urgent": {"kind": "boolean"},
    }
    keys = {"unit": "patient", "order": "day", "max_records_per_unit": 5, "units": people, "targets": ["urgent"]}
    return Schema.from_dict({"name": "stays", "declared_by": "tests", "columns": columns, **keys})


@pytest.mark.heavy
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_two_numbers_of_a_visit_that_go_together_do_so_at_a_small_budget(epsilon):
    """Noise hides the cells of their table; in a few broad places their relation stands clear of it."""
    real = stays(2500, 0)
    declared = of_stays(2500)
    made = Synthesizer("histories", schema=declared, budget=Budget(epsilon, 1e-6)).fit(real, seed=0)
    sample = made.sample(len(real), seed=0)
    assert real["length"].corr(real["cost"], method="spearman") > 0.85, "there is something to keep"
    assert sample["length"].corr(sample["cost"], method="spearman") > 0.5
    for other in ("length", "cost"):
        assert abs(sample["pulse"].corr(sample[other], method="spearman")) < 0.2
    assert not made.statement.lost.apart


def test_broad_tables_are_asked_as_planned_in_places_for_their_noise(monkeypatch):
    asked, reckoned = [], []
    of, places = NoisyTables.of.__func__, HistoryFit.places
    monkeypatch.setattr(
        NoisyTables, "of", classmethod(lambda cls, data, question: asked.append(question) or of(cls, data, question))
    )
    monkeypatch.setattr(
        HistoryFit,
        "places",
        lambda self, names, deviation: reckoned.append(deviation) or places(self, names, deviation),
    )
    declared, settings = of_stays(200), HistoriesSettings(rounds=1, iterations=2)
    made = Synthesizer(settings, schema=declared, budget=Budget(100.0, 1e-6)).fit(stays(200, 0), seed=0)
    (broad,) = (question for question in asked if all(name.startswith(BROAD) for name in question.cliques[0]))
    assert set(broad.cliques) == {
        (f"broad {one}", f"broad {other}") for one, other in combinations(dict(broad.broad), 2)
    }
    assert set(dict(broad.broad)) == {"length", "cost", "pulse"}
    assert reckoned == [pytest.approx(broad.deviation)]
    planned = [entry.event.noise for entry in made.statement.events for _ in range(entry.count)]
    assert sorted(planned) == pytest.approx(sorted(question.noise for question in asked))
    assert sum(1 / noise**2 for noise in settings.noises(declared, 0.1).values()) == pytest.approx(100)


def test_a_column_whose_values_are_all_atoms_has_no_places_in_order():
    columns = {
        "day": {"kind": "integer", "bounds": [0, 9]},
        "grade": {"kind": "integer", "bounds": [0, 1], "atoms": [0, 1]},
        "cost": {"kind": "integer", "bounds": [0, 99], "bins": 5},
        "patient": {"kind": "identifier"},
    }
    facts = {"declared_by": "us", "unit": "patient", "order": "day", "max_records_per_unit": 2, "units": 1000}
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"day": rng.integers(0, 10, 1000), "grade": rng.integers(0, 2, 1000), "patient": np.arange(1000) // 2}
    )
    frame["cost"] = rng.integers(0, 50, 1000) + 50 * frame["grade"]
    made = Synthesizer(
        HistoriesSettings(rounds=1, iterations=5),
        schema=Schema.from_dict(facts | {"columns": columns}),
        budget=Budget(50.0, 1e-5),
    )
    sample = made.fit(frame, seed=0).sample(1000, seed=1)
    assert set(sample["grade"]) == {0, 1}
    assert sample.groupby("grade")["cost"].mean().diff()[1] > 35


def test_a_fit_s_model_needs_no_broad_columns_to_say_what_they_told(monkeypatch):
    rng, narrow, told = np.random.default_rng(0), HistoryFit._narrow, []

    def compared(self, found):
        made = narrow(self, found)
        if any(name in self.broad for (name, *_) in made.cliques) and len(made.cliques) < len(found.cliques):
            names = {name for clique in made.cliques for name in clique} | {*self.broad}
            cells = {name: rng.integers(0, self.sizes[name], 50) for name in names}
            wide = found.probabilities(cells | history_view.broadly(cells, self.broad), self.sizes)
            np.testing.assert_allclose(made.probabilities(cells, self.sizes), wide, atol=1e-9)
            told.append(max(float(np.abs(part).max()) for part in found.theta[len(made.theta) :]))
        return made

    monkeypatch.setattr(HistoryFit, "_narrow", compared)
    made = HistoriesSettings(rounds=1, iterations=5)
    Synthesizer(made, schema=of_stays(200), budget=Budget(100.0, 1e-6)).fit(stays(200, 0), seed=0)
    assert max(told) > 0.01


def test_pairs_that_noise_hides_are_in_no_table_and_are_named():
    real, declared = stays(60, 0), of_stays(60)
    synthesizer = Synthesizer(HistoriesSettings(rounds=1, iterations=5), schema=declared, budget=Budget(0.2, 1e-6))
    made = synthesizer.fit(real, seed=0)
    hidden = {frozenset(pair) for pair in combinations(("length", "cost", "pulse"), 2)}
    assert {frozenset((each.column, each.other)) for each in made.statement.lost.apart} == hidden
    foretold = planned(synthesizer).apart
    assert {frozenset(pair) for pair in foretold} == hidden
    (line,) = apart(foretold)
    assert "length and cost" in line or "cost and length" in line
    assert "no table relates" in " ".join(sentences(made.statement))


def wards(people, seed, others=0):
    """`stays` whose ward follows from a diagnosis that mostly stays, and columns that go with nothing; with their schema."""
    rng, frame, declared = np.random.default_rng(seed), stays(people, seed), of_stays(people).to_dict()
    usual = rng.integers(0, 5, people)[frame["patient"].str[1:].astype(int)]
    diagnosis = np.where(rng.random(len(frame)) < 0.6, usual, rng.integers(0, 5, len(frame)))
    ward = np.where(rng.random(len(frame)) < 0.92, diagnosis, rng.integers(0, 5, len(frame)))
    found = {"ward": ward, "diagnosis": diagnosis}
    found |= {f"other {place}": rng.integers(0, 5, len(frame)) for place in range(others)}
    for name, codes in found.items():
        frame[name] = np.array(["a", "b", "c", "d", "e"])[codes]
        declared["columns"][name] = {"kind": "categorical", "categories": ["a", "b", "c", "d", "e"]}
    return frame, Schema.from_dict(declared)


def longer_with(people, seed):
    """`wards` whose stays are long with some diagnoses, and short with others; the pulse goes with nothing."""
    frame, declared = wards(people, seed)
    rng = np.random.default_rng(seed)
    long = frame["diagnosis"].map({"a": 1.2, "b": 0.6, "c": 0.0, "d": -0.6, "e": -1.2})
    frame["length"] = np.clip(np.exp(1.5 + 0.7 * long + 0.7 * rng.normal(size=len(frame))), 0, 60).astype(int)
    return frame, declared


def eta(frame, code, number):
    ranks = frame[number].rank()
    return ranks.groupby(frame[code]).transform("mean").std() / ranks.std()


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [0, 1])
def test_stays_are_longer_with_some_diagnoses_at_a_small_budget(seed):
    real, declared = longer_with(2500, seed)
    made = Synthesizer("histories", schema=declared, budget=Budget(3.0, 1e-6)).fit(real, seed=seed)
    sample = made.sample(len(real), seed=seed)
    assert eta(real, "diagnosis", "length") > 0.6, "there is something to keep"
    assert eta(sample, "diagnosis", "length") > 0.4
    assert eta(sample, "diagnosis", "pulse") < 0.15


def test_a_table_of_a_code_and_a_number_is_asked_once_more_in_places_and_both_answers_are_used():
    """Without noise in the second one, each place has just what it says, spread over the place's codes by their shares."""
    rng = np.random.default_rng(0)
    cells = {"code": rng.integers(0, 3, 4000), "number": rng.integers(0, 6, 4000)}
    places = np.array([0, 0, 1, 1, 1, 2])
    cells["broad number"] = places[cells["number"]]
    real = np.arange(1.0, 10.0).reshape(3, 3) * 100
    vague = rng.normal(100, 50, (3, 6))
    held = SimpleNamespace(
        _of_records=[
            NoisyTables({("code", "number"): vague}, 50.0, 1.0),
            NoisyTables({("code", "broad number"): real}, 1e-9, 1.0),
        ],
        weights=[np.ones(4000)] * 2,
        broad={"number": places},
        alone={"number": np.log([0.1, 0.3, 0.1, 0.1, 0.2, 0.2])},
        _reweighed=lambda table, *_: table,
        _thinned=lambda _: math.sqrt(2),
    )
    found, deviation = HistoryFit._broadly(held, ("code",), "number", vague, 50.0, cells, np.ones(4000))
    share = np.array([0.25, 0.75, 0.25, 0.25, 0.5, 1.0])
    np.testing.assert_allclose(found, real[:, places] * share, rtol=1e-9)
    assert deviation < 1e-8
    held._of_records[1] = replace(held._of_records[1], deviation=1e9)
    found, deviation = HistoryFit._broadly(held, ("code",), "number", vague, 50.0, cells, np.ones(4000))
    np.testing.assert_allclose(found[:, :2].sum(1), vague[:, :2].sum(1), rtol=1e-6)
    assert deviation == pytest.approx(50.0), (
        "places hold two codes on average: the root of two more, and thinned by as much"
    )


def test_codes_without_an_order_have_slopes_where_noise_hides_cells():
    """Of a table of five codes and twelve numbers in order, whose cells are noise, what all cells of a code say together is left."""
    rng = np.random.default_rng(1)
    code, place = rng.integers(0, 5, 20_000), np.arange(12)
    slope = np.array([0.8, 0.4, 0.0, -0.4, -0.8])
    chances = conditional_fit.softmax(slope[code][:, None] * math.sqrt(3) * (2 * (place + 0.5) / 12 - 1))
    number = conditional_fit.drawn(chances, rng)
    table = np.zeros((5, 12))
    np.add.at(table, (code, number), 1.0)
    noisy = table + rng.normal(0, 150, table.shape)
    alone = np.log(np.bincount(number) / len(number))
    means = {}
    for related in ((), {("code",)}):
        options = {"spread": 0.25, "iterations": 80, "name": "number", "slopes": Slopes({"number": (0, 12)})}
        found = fit(
            {"code": code},
            np.ones(20_000),
            [("code",)],
            {"code": 5, "number": 12},
            [noisy],
            [150.0],
            alone,
            related=related,
            **options,
        )
        means[bool(related)] = found.probabilities({"code": np.arange(5)}, {"code": 5}) @ place
    wanted = table @ place / table.sum(1)
    error = {with_slopes: np.abs(mean - wanted).mean() for with_slopes, mean in means.items()}
    assert error[True] < 0.5 * error[False]


def cramer(frame, one, other):
    counts = pd.crosstab(frame[one], frame[other]).to_numpy().astype(float)
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    return math.sqrt(((counts - expected) ** 2 / expected).sum() / counts.sum() / (min(counts.shape) - 1))


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [0, 1])
def test_two_columns_without_order_that_go_together_do_so_at_a_small_budget(seed):
    real, declared = wards(2500, seed, others=2)
    made = Synthesizer("histories", schema=declared, budget=Budget(1.0, 1e-6)).fit(real, seed=seed)
    sample = made.sample(len(real), seed=seed)
    assert cramer(real, "ward", "diagnosis") > 0.85, "there is something to keep"
    assert cramer(sample, "ward", "diagnosis") > 0.6
    assert cramer(sample, "other 0", "other 1") < 0.15


def test_the_tables_of_related_columns_are_asked_once_more_as_planned(monkeypatch):
    asked, of = [], NoisyTables.of.__func__
    monkeypatch.setattr(
        NoisyTables, "of", classmethod(lambda cls, data, question: asked.append(question) or of(cls, data, question))
    )
    (real, declared), settings = wards(300, 0, others=3), HistoriesSettings(rounds=1, iterations=2)
    made = Synthesizer(settings, schema=declared, budget=Budget(30.0, 1e-6)).fit(real, seed=0)
    records = next(each for each in asked if ("gap", "ward") in each.cliques)
    pairs = {frozenset(pair) for pair in combinations(["ward", "diagnosis", *(f"other {i}" for i in range(3))], 2)}
    assert pairs <= {frozenset(clique) for clique in records.cliques}
    (again,) = (each for each in asked if each is not records and frozenset(each.cliques[0]) in pairs)
    plain = {tuple(name.removeprefix(BROAD) for name in clique) for clique in again.cliques}
    assert len(plain) == MOST_RELATED
    assert plain <= set(records.cliques)
    assert set(again.cliques[0]) == {"ward", "diagnosis"}, "the clearest relation comes first"
    planned = [entry.event.noise for entry in made.statement.events for _ in range(entry.count)]
    assert sorted(planned) == pytest.approx(sorted(question.noise for question in asked))
    assert sum(1 / noise**2 for noise in settings.noises(declared, 0.1).values()) == pytest.approx(100)


def test_columns_without_order_whose_relation_noise_hides_are_named():
    real, declared = wards(60, 0)
    synthesizer = Synthesizer(HistoriesSettings(rounds=1, iterations=5), schema=declared, budget=Budget(0.2, 1e-6))
    made = synthesizer.fit(real, seed=0)
    hidden = {frozenset(("ward", "diagnosis"))}
    assert hidden <= {frozenset((each.column, each.other)) for each in made.statement.lost.apart}
    assert hidden <= {frozenset(pair) for pair in planned(synthesizer).apart}
    clear = Synthesizer(synthesizer.generator, schema=wards(6000, 0)[1], budget=Budget(0.2, 1e-6))
    assert not hidden & {frozenset(pair) for pair in planned(clear).apart}


def test_noise_does_not_add_up_over_the_bins_of_a_date_that_few_people_have():
    """Of 2,000 people 160 died, on average over noises that are larger than the count of any bin."""
    rng, counts = np.random.default_rng(0), np.array([23.0] * 7 + [1839.0])
    view = SimpleNamespace(of_row=lambda _: None, ending=(), unit=("death",), sizes={"death": 8})
    died = []
    for _ in range(400):
        answer = NoisyTables({("death",): counts + rng.normal(0, 55, 8)}, 55.0)
        died.append(1 - math.exp(_alone([answer], "death", view, (slice(0, 7), np.ones(7)))[-1]))
    assert np.mean(died) == pytest.approx(0.08, abs=0.015)


@pytest.mark.parametrize("seed", range(3))
def test_a_relation_that_only_the_whole_table_shows_is_kept(seed):
    """The noise of a cell is as large as most counts. What a table of unrelated columns shows is shrunk as before, and codes stay as
    common as they are."""
    rng, codes, rows, noise = np.random.default_rng(seed), 6, 4000, 100.0
    cells = {"a": rng.integers(0, codes, rows)}
    for share in (0.9, 0.0):
        shares = share * np.eye(codes) + (1 - share) / codes
        counts = np.bincount(cells["a"])[:, None] * shares
        noisy, alone = counts + rng.normal(0, noise, counts.shape), np.log(counts.sum(0) / rows)
        told = cells, np.ones(rows), [("a",)], {"a": codes, "y": codes}, [noisy], [noise], alone
        found = fit(*told, spread=0.25, iterations=200, related=[("a",)])
        found = fit(*told, spread=0.25, iterations=200, related=[("a",)], start=found)
        chances = found.probabilities({"a": np.arange(codes)}, {"a": codes})
        if share:
            assert np.diag(chances).mean() > 0.6
        else:
            assert np.abs(chances - np.exp(alone)).max() < 0.1
        np.testing.assert_allclose(np.bincount(cells["a"]) / rows @ chances, np.exp(alone), atol=0.01)


@pytest.mark.parametrize("squares", [False, True])
def test_a_broad_table_tells_the_sums_over_places(squares):
    """With next to no noise, cells of places have the shares of their table, in places that have nothing to do with one another."""
    rng, sizes, rows = np.random.default_rng(0), {"broad a": 3, "y": 6}, 6000
    cells, places = {"broad a": rng.integers(0, 3, rows)}, np.array([0, 0, 1, 1, 1, 2])
    shares = rng.dirichlet([1.0] * 3, 3)
    alone = np.log(rng.dirichlet([3.0] * 6))
    inside = np.exp(alone) / np.bincount(places, np.exp(alone))[places]
    held = np.bincount(cells["broad a"])[:, None] * shares
    alone = np.log((held.sum(0) / rows)[places] * inside)
    spread = (held / np.bincount(places))[:, places]
    told = cells, np.ones(rows), [("broad a",)], sizes, [spread], [1e-3], alone
    found, spreads = None, dict[tuple[str, ...], float]() if squares else None
    for _ in range(3):
        found = fit(*told, spread=5.0, iterations=500, start=found, spreads=spreads, together=places)
    chances = found.probabilities({"broad a": np.arange(3)}, sizes)
    for place in range(3):
        np.testing.assert_allclose(chances[:, places == place].sum(1), shares[:, place], atol=0.02)
        within = chances[:, places == place] / chances[:, places == place].sum(1, keepdims=True)
        np.testing.assert_allclose(within, np.tile(inside[places == place], (3, 1)), atol=1e-6)


@pytest.mark.heavy
def test_what_mostly_stays_as_it_was_does_so_at_a_small_budget():
    """One cell of many that says so is lost in the noise, and 38 % kept their insurance from visit to visit in place of 97 %."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(2500), 1 + rng.poisson(1.5, 2500))
    stays = {"ward": (14, 0.5), "doctor": (12, 0.6), "insurance": (6, 0.97), "grade": (9, 0.9), "test": (7, 0.0)}
    real = pd.DataFrame({"patient": [f"P{each:05d}" for each in owner]})
    real["day"] = rng.integers(0, 500, 2500)[owner] + 7 * np.arange(len(owner)) - 7 * np.searchsorted(owner, owner)
    columns = {"patient": {"kind": "identifier"}, "day": {"kind": "integer", "bounds": [0, 700], "bins": 12}}
    for name, (codes, share) in stays.items():
        fresh = (np.diff(owner, prepend=-1) > 0) | (rng.random(len(owner)) >= share)
        held = rng.choice(codes, len(owner), p=rng.dirichlet(np.full(codes, 2.0)))
        held = held[np.maximum.accumulate(np.where(fresh, np.arange(len(owner)), 0))]
        real[name] = np.array([f"{name} {each}" for each in range(codes)])[held]
        kind = "ordinal" if name == "grade" else "categorical"
        columns[name] = {"kind": kind, "categories": [f"{name} {each}" for each in range(codes)]}
    keys = {"unit": "patient", "order": "day", "max_records_per_unit": 6, "units": 2500}
    declared = Schema.from_dict({"name": "stays", "declared_by": "tests", "columns": columns, **keys})
    made = Synthesizer("histories", schema=declared, budget=Budget(2.0, 1e-6)).fit(real, seed=0)
    sample = made.sample(len(real), seed=0)

    def kept(frame, name):
        last = frame.groupby("patient", sort=False)[name].shift()
        return (last == frame[name])[last.notna()].mean()

    assert kept(real, "insurance") > 0.95, "there is something to keep"
    for name in stays:
        assert kept(sample, name) == pytest.approx(kept(real, name), abs=0.12), name


@pytest.mark.parametrize("several", ["one", "some", "one of them twice"])
def test_a_parameter_for_being_as_before_has_the_share_that_the_table_says(several):
    """Also where a row has several codes before it: each of them is then as likely to stay as a single one."""
    rng = np.random.default_rng(0)
    codes, rows, size = 40, 6000, {"previous c": 41, "c": 40}
    chances = rng.dirichlet(np.full(codes, 1.0))
    before = rng.choice(codes, (rows, 3), p=chances)
    before[np.arange(3)[None, :] >= (np.ones(rows) if several == "one" else rng.integers(1, 4, rows))[:, None]] = -1
    if several == "one of them twice":
        before[:, 1] = before[:, 0]
    stays = rng.random(rows) < 0.6
    place = rng.integers(0, (before >= 0).sum(1))
    values = np.where(stays, before[np.arange(rows), place], rng.choice(codes, rows, p=chances))
    table = np.zeros((41, 40))
    for held, value in zip(before, values, strict=True):
        there = held[held >= 0]
        np.add.at(table, (there, np.full(len(there), value)), 1 / len(there))
    noisy = table + rng.normal(0, 8, table.shape)
    cells = {"previous c": before[:, 0] if several == "one" else before}

    def agree(chosen):
        return (chosen[:, None] == before).any(1).mean()

    for of in ("previous c", ""):
        held = None
        for _ in range(3):  # a fit tells the next one how much a code gains in a row of several
            held = conditional_fit.fit(
                *(cells, np.ones(rows), [("previous c",)], size, [noisy], [8.0], np.log(chances)),
                spread=0.25,
                iterations=100,
                before=of,
                start=held,
            )
        found = agree(held.draw(cells, size, rows, rng))
        assert (found == pytest.approx(agree(values), abs=0.08)) == bool(of), found


def test_codes_come_again_as_often_as_their_table_says():
    """Codes that stay for good and others that come once, so that no share is that of all of them; half of the rows had theirs long ago."""
    rng = np.random.default_rng(0)
    codes, rows, columns = 40, 20_000, ("previous c", "t had")
    chances, often = rng.dirichlet(np.full(codes, 1.0)), np.where(np.arange(codes) % 4, 0.02, 0.8)
    had = rng.choice(codes, (rows, 2), p=chances)
    had[had[:, 0] == had[:, 1], 1] = -1
    had[np.arange(rows), np.where(rng.random(rows) < 0.3, rng.integers(0, 2, rows), 0)] = -1
    stays = (rng.random(had.shape) < np.where(had >= 0, often[had], 0)) & (had >= 0)
    values = np.where(stays.any(1), had[np.arange(rows), stays.argmax(1)], rng.choice(codes, rows, p=chances))
    again = np.where(values == had[:, 0], 1, np.where(values == had[:, 1], 2, 0))
    table = np.zeros((3, codes))
    np.add.at(table, (again, values), 1.0)
    cells, sizes = (
        dict(zip(columns, had.T[:, :, None], strict=True)) | {"x": np.zeros(rows, np.int64)},
        {"x": 1, "c": codes},
    )
    alone = np.log((np.bincount(values, minlength=codes) + 1) / (rows + codes))
    found = conditional_fit.fit(
        *(cells, np.ones(rows), [("x",)], sizes, [table.sum(0, keepdims=True)], [5.0], alone),
        spread=0.25,
        iterations=100,
        again=(columns, table + rng.normal(0, 5, table.shape), 5.0),
    )
    drawn = found.draw(cells, sizes, rows, rng)
    for place in range(2):
        for mostly in (True, False):
            there = (had[:, place] >= 0) & ((often[had[:, place]] > 0.5) == mostly)
            shares = [(each[there] == had[there, place]).mean() for each in (values, drawn)]
            assert shares[1] == pytest.approx(shares[0], rel=0.1, abs=0.02), (place, mostly)
    plain = replace(found, gains={})
    assert (plain.draw(cells, sizes, rows, rng) == had[:, 0]).mean() < 0.5 * (values == had[:, 0]).mean(), (
        "gains tell that"
    )


@pytest.mark.parametrize("stays", [0.0, 0.999])
def test_what_never_stays_and_what_always_does_keep_to_that(stays):
    """A share was taken to be between 0.01 and 0.95: a drug that always changes stayed in one of nine visits."""
    rng = np.random.default_rng(0)
    before = rng.integers(0, 6, 6000)
    values = np.where(rng.random(6000) < stays, before, (before + 1) % 6)
    table = np.zeros((7, 6))
    np.add.at(table, (before, values), 1.0)
    cells, sizes = {"previous c": before}, {"previous c": 7, "c": 6}
    found = conditional_fit.fit(
        *(cells, np.ones(6000), [("previous c",)], sizes, [table], [0.001], np.log(np.full(6, 1 / 6))),
        spread=0.25,
        iterations=100,
        before="previous c",
    )
    assert (found.draw(cells, sizes, len(before), rng) == before).mean() == pytest.approx(stays, abs=0.02)


@pytest.mark.parametrize(("codes", "noise", "share"), [(3, 150.0, 0.75), heavy((4, 150.0, 0.4))])
def test_a_column_of_few_codes_stays_as_often_as_its_table_says_whatever_noise_hides(codes, noise, share):
    """Each cell of a table by the previous code says little under noise, so a mixed model took most of what stays for noise."""
    sizes = {"previous c": codes + 1, "c": codes}
    stayed = {"previous c": [], "": []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        before, often = rng.integers(0, codes, 4000), 0.3 + 0.7 / codes
        y = np.where(rng.random(4000) < 0.3, before, rng.integers(0, codes, 4000))
        table = rng.normal(0, noise, (codes + 1, codes))
        np.add.at(table, (before, y), 1)
        cells, alone = {"previous c": before}, np.log(np.bincount(y) / len(y))
        for name, found in stayed.items():
            fitted = mixed_model_fit.fit(
                *(cells, np.ones(4000), [("previous c",)], sizes, [table], [noise], alone),
                ordered={},
                spread=0.25,
                iterations=100,
                before=name,
            )
            found.append(abs((fitted.draw(cells, sizes, 4000, rng) == before).mean() - often))
    assert np.mean(stayed["previous c"]) < share * np.mean(stayed[""]), stayed


def by_age(rows, rng):
    """Ages, and codes of which the first is common up to the third of eleven ages, then rare, and none from the seventh on."""
    age = rng.integers(0, 11, rows)
    first = rng.random(rows) < np.array([0.3, 0.3, 0.3, 0.15, 0.05, 0.01, 0, 0, 0, 0, 0])[age]
    table = np.zeros((11, 15))
    np.add.at(table, (age, np.where(first, 0, rng.integers(1, 15, rows))), 1.0)
    return age, table


@pytest.mark.parametrize("deviation", [0.001, 40.0])
def test_what_many_ages_say_together_outweighs_noise_in_each(deviation):
    """Of old people with a code of the young, noise left a third of what would be without age: each age's cell alone says little."""
    rng, missed, sizes = np.random.default_rng(1), {True: [], False: []}, {"age": 11, "code": 15}
    for _ in range(3):
        age, table = by_age(12_000, rng)
        noisy, alone = table + rng.normal(0, deviation, table.shape), np.log(table.sum(0) / table.sum())
        for along in (False, True):
            found = conditional_fit.fit(
                *({"age": age}, np.ones(len(age)), [("age",)], sizes, [noisy], [deviation], alone),
                spread=0.5,
                iterations=200,
                along=Along({"age": (0, 11)}, 0.25) if along else None,
            )
            chances = found.probabilities({"age": np.arange(11)}, sizes)[:, 0]
            missed[along].append(np.abs(chances - table[:, 0] / table.sum(1)).mean())
    for with_trends, without in zip(missed[True], missed[False], strict=True):
        assert with_trends < 0.75 * without, missed
        assert deviation > 1 or with_trends < 0.01, "without noise next to nothing is missed"


def test_trends_are_estimated_and_start_where_the_last_fit_ended():
    age, table = by_age(12_000, np.random.default_rng(2))
    sizes, along = {"age": 11, "code": 15}, Along({"age": (0, 11)}, 0.25)
    given = ({"age": age}, np.ones(len(age)), [("age",)], sizes, [table], [20.0], np.log(table.sum(0) / table.sum()))
    once = conditional_fit.fit(*given, spread=0.5, iterations=300, along=along)
    assert set(along.found) == {(("age",), 1), (("age",), 2)}
    assert along.found[("age",), 1] > 0.25, "what falls with age is told by much"
    again = conditional_fit.fit(*given, spread=0.5, iterations=300, along=Along({"age": (0, 11)}, 0.25), start=once)
    assert np.abs(again.theta - once.theta).max() < 0.05


@pytest.mark.parametrize("share", [np.full(7, 1 / 7), np.array([0.4, 0.0, 0.3, 0.1, 0.1, 0.05, 0.05])])
def test_trends_are_orthogonal_over_the_rows(share):
    basis = np.stack([np.ones(7), *_polynomials(share)])
    np.testing.assert_allclose((basis * share) @ basis.T, np.eye(3), atol=1e-9)
