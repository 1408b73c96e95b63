import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency, f_oneway, spearmanr

from synthdp.evaluate import answers, association, detection, fidelity, findings
from synthdp.evaluate.findings import lost_associations
from synthdp.evaluate.run import beyond_chance, calendars
from synthdp.evaluate.tables import axes_of, table_of
from synthdp.schema.schema import Categorical, Continuous, Integer, Schema

PAIR = Schema(
    columns=(
        Categorical(name="a", categories=("x", "y"), missing=True),
        Categorical(name="b", categories=("p", "q", "r")),
    )
)


def make_frame(rows, seed):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    site = rng.choice(["north", "south"], rows)
    return pd.DataFrame({"age": age, "site": site, "stage": np.where(age + rng.normal(0, 20, rows) > 50, "III", "I")})


def tables(schema, *frames):
    axes = axes_of(schema, frames[0])
    return [table_of(frame, axes, "synthetic") for frame in frames]


def brute(left, right, columns):
    """Half the L1 distance of the shares of every value tuple, by counting tuples."""
    keys = [[tuple(str(row[c]) for c in columns) for _, row in frame.iterrows()] for frame in (left, right)]
    cells = set(keys[0]) | set(keys[1])
    return 0.5 * sum(abs(keys[0].count(c) / len(keys[0]) - keys[1].count(c) / len(keys[1])) for c in cells)


def test_tvd_by_hand():
    left = pd.DataFrame({"a": ["x", "x", "y", None], "b": ["p", "q", "q", "r"]})
    right = pd.DataFrame({"a": ["x", "y", "y", "y"], "b": ["p", "p", "p", "p"]})
    s, t = (fidelity.cells_of(x) for x in tables(PAIR, left, right))
    assert fidelity.distance(s, t, (0,)) == pytest.approx(0.5)  # x .5/.25, y .25/.75, missing .25/0
    assert fidelity.distance(s, t, (1,)) == pytest.approx(0.75)
    assert fidelity.distance(s, t, (0, 1)) == pytest.approx(0.75)  # only (x, p) is shared, .25 of each


def test_tvd_against_counting(monkeypatch):
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"a": rng.choice(["x", "y"], n, p=[p, 1 - p]), "b": rng.choice(["p", "q", "r"], n)})
        for n, p in ((37, 0.3), (50, 0.6))
    ]
    s, t = (fidelity.cells_of(x) for x in tables(PAIR, *frames))
    expected = brute(*frames, ["a", "b"])
    assert fidelity.distance(s, t, (0, 1)) == pytest.approx(expected)
    monkeypatch.setattr(fidelity, "DENSE_CELLS", 1)  # the way of large tables
    assert fidelity.distance(s, t, (0, 1)) == pytest.approx(expected)


def test_number_cells_follow_the_declared_bounds():
    schema = Schema(columns=(Continuous(name="x", bounds=(0.0, 20.0), missing=True), Integer(name="k", bounds=(3, 5))))
    frame = pd.DataFrame({"x": [0.0, 0.99, 1.0, 20.0, 19.5, -7.0, 99.0, np.nan], "k": [3, 4, 5, 5, 4, 3, 2, 9]})
    cells = fidelity.cells_of(tables(schema, frame)[0])
    assert cells.sizes == (21, 4)
    assert cells.codes[:, 0].tolist() == [0, 0, 1, 19, 19, 0, 19, 20]
    assert cells.codes[:, 1].tolist() == [0, 1, 2, 2, 1, 0, 0, 2]


def test_same_rows_have_no_distance(schema, train, test):
    s, t, v = tables(schema, train, train.sample(frac=1.0, random_state=0), test)
    found = fidelity.total_variation(s, t, v, "ill")
    for ways, sets in ((1, 7), (2, 21), (3, 15)):
        entry = found[f"tvd_{ways}way"]
        assert (entry["mean"], entry["max"], entry["n"]) == (0.0, 0.0, sets)
        assert 0 < entry["floor"]["mean"] < 0.5
    assert association.difference(s, t, v)["mean"] == pytest.approx(0.0, abs=1e-12)


def test_triples_are_a_fixed_draw_with_the_target():
    first, again = (fidelity.sets_of(20, 3, 4) for _ in range(2))
    assert first == again
    assert len(set(first)) == fidelity.TRIPLES
    assert all(4 in columns and len(set(columns)) == 3 for columns in first)


def test_spearman_against_scipy(train, schema):
    (table,) = tables(schema, train)
    names = [axis.name for axis in table.axes]
    found = association.associations(table)
    i, j, k = names.index("age"), names.index("stage"), names.index("weight $kg$")
    age, stage, weight = (table.column(names[place]) for place in (i, j, k))
    assert found[i, j] == pytest.approx(spearmanr(age, stage).statistic)
    known = ~np.isnan(weight)
    # Ranks are taken before rows with a missing partner are dropped: close to scipy's, not equal.
    expected = spearmanr(age[known], weight[known]).statistic
    assert found[i, k] == pytest.approx(expected, abs=5e-3)
    assert np.array_equal(found, found.T)


def test_a_pair_of_columns_that_few_rows_have_has_no_association():
    """Such as the date of death and the third diagnosis of a visit, which chance alone associates."""
    schema = Schema(columns=tuple(Continuous(name=name, bounds=(0.0, 1.0), missing=True) for name in "xyz"))
    rng = np.random.default_rng(0)
    train, made = (pd.DataFrame(rng.random((400, 3)), columns=list("xyz")) for _ in range(2))
    train.loc[5:, "y"] = np.nan
    train.loc[:4, "y"] = train.loc[:4, "x"]
    train["z"] = train["x"]
    found = association.difference(*tables(schema, made, train, train.sample(frac=0.5, random_state=0)))
    assert found["n"] == 1
    assert [each.what for each in lost_associations({"correlation_difference": found})] == ["x and z"]
    few = train.loc[:4]
    assert association.difference(*tables(schema, few, few, few))["n"] == 3, "a small table has no more"


NUMBER, CODE = {"kind": "continuous", "bounds": [-9, 9]}, {"kind": "categorical", "categories": ["a", "b", "c", "rare"]}
PEOPLE = Schema.from_dict(
    {"name": "people", "unit": "who", "max_records_per_unit": 9, "columns": {"who": {"kind": "identifier"}} | dict.fromkeys("xy", NUMBER)
    | dict.fromkeys("klm", CODE)}
)  # fmt: skip


def rows_of_people(people, seed, tied=False, rows=3):
    """Five columns of which the rows of a person differ little; nothing relates them, unless the last number and code are `tied` to the
    first ones."""
    rng = np.random.default_rng(seed)
    own = pd.DataFrame(rng.normal(size=(people, 2)).clip(-4, 4), columns=list("xy"))
    for name in "klm":
        own[name] = rng.choice(["a", "b", "c", "rare"], people, p=[0.5, 0.3, 0.19, 0.01])
    frame = own.loc[np.repeat(np.arange(people), rows)].reset_index(drop=True)
    frame[["x", "y"]] += rng.normal(0, 0.1, (len(frame), 2))
    if tied:
        frame["y"], frame["l"] = frame["x"] + rng.normal(0, 1, len(frame)).clip(-4, 4), frame["k"]
    return frame.assign(who=np.repeat(np.arange(people), rows))


def judged(*frames):
    three = tables(PEOPLE, *frames)
    found = association.difference(*three)
    return found | beyond_chance(found, three, frames, PEOPLE)


def test_what_synthetic_rows_relate_and_real_ones_do_not_is_invented():
    found = judged(*(rows_of_people(300, seed, tied=seed == 3) for seed in (3, 1, 2)))
    assert sorted(found["invented"]) == [["k", "l"], ["x", "y"]]
    named = findings.invented_associations({"correlation_difference": found})
    assert [(each.what, each.kind) for each in named] == [("k and l", "invented"), ("x and y", "invented")]
    assert named[1].synthetic > 0.5 > 0.2 > abs(named[1].real)
    assert not lost_associations({"correlation_difference": found})
    told = dict(answers.brief({"about": {}, "fidelity": {"correlation_difference": found}, "targets": {}}))["invented"]
    assert told.startswith("associations that are too strong: k and l 0.")
    assert "synthetic ones; x and y " in told
    few = judged(*(rows_of_people(18, seed, tied=seed == 3) for seed in (3, 1, 2)))
    assert not few["invented"], "so few people, however many rows they have, show nothing beyond chance"


def test_real_rows_invent_nothing():
    """Though some pairs are stronger by 0.1 or more in one set of real people than in two others."""
    stronger = 0
    for seed in range(0, 60, 3):
        found = judged(*(rows_of_people(40, seed + part, rows=5) for part in range(3)))
        made, train, test = (
            np.abs(np.array(found[role]))[np.triu_indices(5, 1)] for role in ("synthetic", "train", "test")
        )
        stronger += (made - np.maximum(train, test) >= 0.1).sum()
        assert found["invented"] == []
    assert stronger > 20


def test_real_rows_lose_nothing_and_synthetic_ones_lose_what_is_gone():
    """Both numbers and both codes go together in small sets of real people, in some more than in others."""

    def related(people, seed, *, gone=False):
        frame, rng = rows_of_people(people, seed, rows=1), np.random.default_rng(seed)
        frame["y"] = 0.45 * frame["x"] + rng.normal(0, 0.9, people)
        frame["l"] = np.where(rng.random(people) < 0.4, frame["k"], frame["l"])
        return frame.assign(y=frame["y"].sample(frac=1, random_state=seed).to_numpy()) if gone else frame

    def lost(*frames):
        return [each.what for each in lost_associations({"correlation_difference": judged(*frames)})]

    weaker = 0
    for seed in range(0, 120, 3):
        frames = [related(100, seed + part) for part in range(3)]
        plain = association.difference(*tables(PEOPLE, *frames))
        weaker += len(lost_associations({"correlation_difference": plain}))
        assert lost(*frames) == []
    assert weaker > 8, "of results that say nothing of chance, all are named"
    for people in (100, 300):
        assert lost(related(people, 1, gone=True), related(people, 2), related(people, 3)) == ["x and y"]


def test_of_very_many_losses_those_that_lost_most_tell_what_is_chance(monkeypatch):
    monkeypatch.setattr(association, "MOST_TRIED", 2)
    told = {
        name: {"synthetic": 0.3 - gone, "train": 0.3, "test": 0.3}
        for name, gone in (("c", 0.1), ("a", 0.3), ("b", 0.2), ("d", 0.01))
    }
    for people, chance in ((60, ["a", "b", "c"]), (6_000, [])):
        owner = np.arange(people)

        def rows(name, role, owner=owner):
            return association.Rows(lambda _: told[name][role], owner)

        assert association.by_chance(told.items(), rows) == chance


def test_a_rare_coincidence_of_few_people_is_not_invented():
    """Three of 300 people have both rare codes, which makes a perfect association of what is rare."""
    made, train, test = (rows_of_people(300, seed, rows=1) for seed in (3, 1, 2))
    made[["k", "l"]] = made[["k", "l"]].replace("rare", "a")
    made.loc[:2, ["k", "l"]] = "rare"
    found = judged(made, train, test)
    first, second = (found["names"].index(name) for name in "kl")
    assert found["synthetic"][first][second] > 0.5 > 0.2 > found["train"][first][second]
    assert found["invented"] == []


def test_how_far_chance_moves_a_figure_of_people_however_many_rows_they_have():
    owner = np.repeat(np.arange(400), 5)
    value = np.random.default_rng(0).normal(size=400)[owner]
    mean = association.Rows(lambda rows: float(value[rows].mean()), owner, spread=0.0)
    assert mean.value == pytest.approx(value.mean())
    assert mean.deviation == pytest.approx(1 / 20, rel=0.4)
    assert mean._replace(spread=2.0).deviation == pytest.approx(0.1)
    for few in (np.arange(49), np.repeat(np.arange(19), 9)):
        assert association.Rows(lambda rows: float(rows.sum()), few).deviation == math.inf


DATED = Schema.from_dict(
    {
        "name": "dated",
        "columns": {
            "day": {"kind": "datetime", "bounds": ["2020-01-01", "2024-01-01"], "resolution": "day"},
            "seen": {
                "kind": "datetime",
                "bounds": ["2020-01-01", "2024-01-01"],
                "resolution": "minute",
                "missing": True,
            },
        },
    }
)


def dated(rows, seed, *, flat=False):
    """Days and times; those that are not `flat` lie on weekdays, from eight to eleven in the morning, but for one in ten."""
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2020-01-06") + pd.to_timedelta(rng.integers(0, 1400, rows), "D")
    hour = rng.integers(0, 24, rows)
    if not flat:
        tenth = rng.random(rows) < 0.1
        day = pd.DatetimeIndex(np.where(tenth | (day.day_of_week < 5), day, day - pd.Timedelta(3, "D")))
        hour = np.where(tenth, hour, 8 + hour % 4)
    seen = pd.Series(day + pd.to_timedelta(hour * 60 + rng.integers(0, 60, rows), "min"))
    return pd.DataFrame({"day": day, "seen": seen.where(rng.random(rows) < 0.9)})


def by_calendar(*frames):
    owners = {role: np.arange(len(frame)) for role, frame in zip(("synthetic", "train", "test"), frames, strict=True)}
    return calendars(tables(DATED, *frames), owners, DATED)


def test_weekdays_and_hours_that_synthetic_dates_lose_are_named():
    made, train, test = dated(600, 3, flat=True), dated(600, 1), dated(300, 2)
    found = {(each["column"], each["of"]): each for each in by_calendar(made, train, test)}
    assert set(found) == {("day", "weekdays"), ("seen", "weekdays"), ("seen", "hours")}, "days have no hours"
    shares = [frame["day"].dt.day_of_week.value_counts(normalize=True) for frame in (made, train)]
    week = found["day", "weekdays"]
    assert week["tvd"] == pytest.approx(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)
    assert week["part"] == "on a Saturday or Sunday"
    assert week["shares"] == pytest.approx([each.get(5, 0) + each.get(6, 0) for each in shares])
    hours = found["seen", "hours"]
    assert hours["part"] == "between 06:00 and 11:59"
    assert hours["shares"] == pytest.approx([f["seen"].dropna().dt.hour.between(6, 11).mean() for f in (made, train)])
    fidelity = {"calendar": list(found.values())}
    told = dict(answers.brief({"about": {}, "fidelity": fidelity, "targets": {}}))["calendar"]
    assert told.startswith(
        f"{100 * hours['shares'][0]:.1f} % of synthetic dates in seen fall between 06:00 and 11:59; "
    )
    assert told.endswith(" of real ones do. Weekdays or hours are far off in 2 more cases")
    assert answers.faithful(
        {"tvd_1way": {"mean": 0, "floor": {"mean": 0}}}, findings.worst(fidelity)
    ).verdict.words.endswith(", and misplaces weekdays or hours")
    turned = by_calendar(train, made, dated(300, 4, flat=True))
    assert findings.worst({"calendar": turned})["calendar"].synthetic > 0.8, "what real dates do not prefer"


def test_real_dates_are_spread_over_the_week_as_others_are():
    for seed in range(0, 30, 3):
        found = by_calendar(*(dated(100, seed + part) for part in range(3)))
        assert not findings.worst({"calendar": found})
    empty = dated(100, 1).assign(seen=pd.NaT)
    assert [each["column"] for each in by_calendar(empty, dated(100, 2), dated(100, 3))] == ["day"]


def test_cramers_v_by_hand():
    same = np.repeat([0, 1], 50)
    assert association.cramers_v(same, same) == pytest.approx(1.0)
    crossed = np.tile([0, 1], 50)
    assert association.cramers_v(same, crossed) == 0.0
    # Table [[30, 20], [20, 30]]: chi2 / n = .04; corrected phi2 = .04 - 1/99, sides 2 - 1/99.
    a, b = np.repeat([0, 0, 1, 1], [30, 20, 20, 30]), np.repeat([0, 1, 0, 1], [30, 20, 20, 30])
    assert association.cramers_v(a, b) == pytest.approx(np.sqrt((0.04 - 1 / 99) / (1 - 1 / 99)))
    assert association.cramers_v(a, np.zeros(100, dtype=np.int64)) == 0.0


def test_correlation_ratio_by_hand():
    groups, values = np.array([0, 0, 1, 1, -1]), np.array([1.0, 3.0, 5.0, 7.0, 100.0])
    # Within 4 on 2 degrees, total 20 on 3: 1 - 2 / (20 / 3) = 0.7.
    assert association.correlation_ratio(groups, values) == pytest.approx(np.sqrt(0.7))
    assert association.correlation_ratio(groups, np.ones(5)) == 0.0


@pytest.mark.parametrize(("r", "k", "n"), [(2, 2, 40), (3, 5, 200), (7, 2, 90)])
def test_associations_against_scipy_tests(r, k, n):
    """Bergsma's correction from the chi-squared test's statistic; Kelley's from the F statistic of an analysis of variance."""
    rng = np.random.default_rng(n)
    a = rng.permutation(np.arange(n) % r)
    b = np.where(rng.random(n) < 0.4, a % k, rng.permutation(np.arange(n) % k))
    chi2 = chi2_contingency(
        np.array([[((a == i) & (b == j)).sum() for j in range(k)] for i in range(r)]), correction=False
    )
    excess = max(0.0, chi2.statistic / n - (k - 1) * (r - 1) / (n - 1))
    sides = [m - (m - 1) ** 2 / (n - 1) for m in (k, r)]
    assert association.cramers_v(a, b) == pytest.approx(np.sqrt(excess / (min(sides) - 1)))
    y = a + rng.normal(0, 1, n)
    f = f_oneway(*(y[a == i] for i in range(r))).statistic
    expected = (f - 1) * (r - 1) / (f * (r - 1) + n - r)
    assert association.correlation_ratio(a, y) == pytest.approx(np.sqrt(max(0.0, expected)))


def test_the_corrections_leave_nothing_of_chance():
    """Independent columns of many levels in few rows: without the corrections the mean would be about 0.3."""
    rng = np.random.default_rng(5)
    pairs = [(rng.integers(0, 10, 100), rng.integers(0, 10, 100)) for _ in range(200)]
    assert np.mean([association.cramers_v(*pair) for pair in pairs]) < 0.1
    assert np.mean([association.correlation_ratio(a, b.astype(float)) for a, b in pairs]) < 0.15


@pytest.mark.heavy
def test_detection_tells_what_can_be_told(schema):
    few = Schema(columns=tuple(schema.column(name) for name in ("age", "site", "stage")))
    alike = [tables(few, make_frame(600, seed), make_frame(600, seed + 100)) for seed in range(3)]
    assert np.mean([detection.detection_auc(*pair, 0, 1) for pair in alike]) == pytest.approx(0.5, abs=0.06)
    off = make_frame(600, 0).assign(age=50)
    assert detection.detection_auc(*tables(few, off, make_frame(600, 1)), 0, 1) > 0.95


def test_shares_sum_to_one(schema, train, test):
    found = fidelity.columns(*tables(schema, train, test, test))
    assert list(found) == [name for name in schema.names if name != "patient"]
    for column in found.values():
        for role in ("synthetic", "train", "test"):
            assert sum(column[role]) == pytest.approx(1.0)
            assert len(column[role]) == len(column["labels"])
    assert found["site"]["labels"][-1] == fidelity.MISSING
    assert "(undeclared)" not in found["site"]["labels"]


def test_numbers_show_quantiles_what_lies_beyond_and_what_is_constant():
    columns = (Integer(name="age", bounds=(0, 200)), Continuous(name="hours", bounds=(0, 100)), *PAIR.columns)
    schema = Schema(columns=columns)
    rest = {"a": "x", "b": "p"}
    real = pd.DataFrame({"age": np.arange(101), "hours": np.arange(101) % 7 * 1.0, **rest})
    made = pd.DataFrame({"age": np.arange(101) + 20, "hours": 0.0, **rest})
    held = pd.DataFrame({"age": [5, 101, 102, None], "hours": None, **rest})
    found = fidelity.numbers(*tables(schema, made, real, held))
    assert list(found) == ["age", "hours"]
    assert found["age"]["real"] == pytest.approx([1, 50, 95, 99, 50])
    assert found["age"]["synthetic"] == pytest.approx([21, 70, 115, 119, 70])
    assert found["age"]["beyond"] == pytest.approx(20 / 101)
    assert found["age"]["held_out"] == pytest.approx(2 / 3)
    assert found["hours"]["held_out"] is None
    assert found["age"]["known"] == 101
    assert not found["age"]["constant"]
    assert found["hours"]["constant"]
    assert found["hours"]["beyond"] == 0


def shifted(made, train=None, test=None, owner=None):
    rng = np.random.default_rng(5)
    real = [rng.lognormal(6.3, 0.8, rows) for rows in (1_400, 600)]
    train, test = real[0] if train is None else train, real[1] if test is None else test
    values = {"synthetic": made, "train": train, "test": test}
    return association.shift(
        {role: (each, np.arange(len(each)) if owner is None else owner(each)) for role, each in values.items()}
    )


def test_a_mean_or_a_tail_that_chance_does_not_explain_is_found():
    rng = np.random.default_rng(6)
    costs = [rng.lognormal(6.3, 0.8, 4_000) for _ in range(20)]
    assert not any(shifted(each) for each in costs), "nothing is shifted"
    dearer = shifted(1.3 * costs[0])
    assert dearer["of"] == 0.95, "the tail moves farthest"
    assert dearer["synthetic"] == pytest.approx(1.3 * np.quantile(costs[0], 0.95))
    assert dearer["distance"] > association.LEAST_SHIFT
    rare = np.where(rng.random(4_000) < 0.01, 20_000.0, costs[0])
    assert shifted(rare)["of"] == "mean", "few large values move the mean alone"
    assert shifted(rare[:40]) is None, "so few rows show nothing"
    assert shifted(1.3 * costs[0], owner=lambda each: np.arange(len(each)) % 15) is None, "nor do so few people"
    assert shifted(1.02 * costs[0]) is None
    assert shifted(1.3 * costs[0], test=1.3 * costs[1]) is None, "held-out rows are shifted as well"
    assert shifted(costs[0][:0]) is None
