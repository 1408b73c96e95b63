"""The sealed door: what it charges, what it refuses, how it samples and bounds."""

import dataclasses
import math
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_schema
from gradient_sums import per_unit_reference

from synthdp import BadInput, Budget, Schema, accounting
from synthdp.ledger.events import Entry, Gaussian, Revealed, Sampled
from synthdp.ledger.ledger import Ledger
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.learn import Domain, Grid
from synthdp.seal.marginals import Distance, Marginals
from synthdp.seal.records import seal

LOOSE, NO_NOISE = Budget(epsilon=20.0, delta=1e-5), Budget(epsilon=float("inf"), delta=1e-5)


def sealed(frame, schema, budget=LOOSE, seed=0, ledger=None):
    return Sensitive(frame, schema, Account(budget, ledger, unit=schema.unit or "record"), seed=seed)


def ones(codes):
    return np.ones((len(codes), 1))


def test_a_question_outside_the_plan_is_refused_and_not_charged(frame, schema):
    data = sealed(frame, schema)
    noise = data.commit(lambda z: (Entry(Gaussian(z)),))
    data.sum(ones, 1, 1.0, noise)
    with pytest.raises(BadInput, match="not in the committed plan"):
        data.sum(ones, 1, 1.0, noise)
    assert data.account.ledger.entries() == (Entry(Gaussian(noise)),)


def test_nothing_is_answered_before_a_plan_is_committed(frame, schema):
    with pytest.raises(BadInput, match="commit a plan"):
        sealed(frame, schema).sum(ones, 1, 1.0, 5.0)


def test_a_plan_is_committed_once(frame, schema):
    data = sealed(frame, schema)
    data.commit(lambda z: (Entry(Gaussian(z)),))
    with pytest.raises(BadInput, match="already"):
        data.commit(lambda z: (Entry(Gaussian(z)),))


def test_the_charge_is_on_disk_before_the_answer(frame, schema, tmp_path):
    path = tmp_path / "ledger.jsonl"
    data = sealed(frame, schema, ledger=Ledger(path))
    noise = data.commit(lambda z: (Entry(Gaussian(z)),))
    seen = []

    def spy(codes):
        if len(codes) == len(frame):  # before, it is asked about made-up rows
            seen.append(Ledger.read(path).entries())
        return ones(codes)

    data.sum(spy, 1, 1.0, noise)
    assert seen == [(Entry(Gaussian(noise)),)]


def test_a_block_stays_charged_whatever_ends_it(frame, schema, tmp_path):
    """Law 37: an exception that a generator catches gives nothing back; it may have stopped at a lucky answer."""
    path = tmp_path / "ledger.jsonl"
    data = sealed(frame, schema, NO_NOISE, ledger=Ledger(path))
    noise = data.commit(lambda z: (Entry(Sampled(0.5, (Gaussian(z),)), 64),))
    event, asked = Sampled(0.5, (Gaussian(noise),)), 0

    class Lucky(Exception):
        pass

    def until_lucky():
        nonlocal asked
        for step in data.steps(event, 64, dict):
            assert Ledger.read(path).entries() == (Entry(event, 2 * (step // 2 + 1)),)
            with data.sample(0.5) as batch:
                batch.sum(ones, 1, 1.0, noise)
            asked += 1
            if step == 22:
                raise Lucky

    with pytest.raises(Lucky):
        until_lucky()
    assert asked == 23
    assert Ledger.read(path).entries() == (Entry(event, 24),)
    data.account.settle()  # a model comes of it after all
    assert Ledger.read(path).entries() == data.account.plan == (Entry(event, 64),)


def test_a_block_pays_for_what_it_holds_and_for_no_more():
    account = Account(LOOSE)
    noise = account.commit(lambda z: (Entry(Gaussian(z), 8),))
    with account.charged(Gaussian(noise), 3):
        account.book(Gaussian(noise), 2)
        account.book(Gaussian(noise), 2)  # one is left
        assert account.ledger.entries() == (Entry(Gaussian(noise), 5),)
        account.book(Gaussian(noise))
        assert account.ledger.entries() == (Entry(Gaussian(noise), 5),)


def test_noise_that_was_found_earlier_is_checked_against_the_budget():
    """A resumed fit reads its noise from a file."""
    budget = Budget(epsilon=1.0, delta=1e-6)
    noise = Account(budget).commit(lambda z: (Entry(Gaussian(z), 7),))
    assert Account(budget, noise=noise).commit(lambda z: (Entry(Gaussian(z), 7),)) == noise
    with pytest.raises(BadInput, match="above the budget of 1"):
        Account(budget, noise=noise * 0.995).commit(lambda z: (Entry(Gaussian(z), 7),))


def test_a_sample_answers_once(frame, schema):
    data = sealed(frame, schema, NO_NOISE)
    noise = data.commit(lambda z: (Entry(Sampled(0.5, (Gaussian(z),)), 2),))
    with data.sample(0.5) as batch:
        batch.sum(ones, 1, 1.0, noise)
        with pytest.raises(BadInput, match="one question"):
            batch.sum(ones, 1, 1.0, noise)


def test_batch_sizes_are_binomial(frame, schema):
    data = sealed(frame, schema, Budget(float("inf"), 1e-5))
    data.commit(lambda z: (Entry(Sampled(0.3, (Gaussian(z),)), 400),))
    sizes = []
    for _ in range(400):
        with data.sample(0.3) as batch:
            sizes.append(batch.sum(ones, 1, 1.0, 0.0)[0])
    n, rate = 400, 0.3
    assert np.mean(sizes) == pytest.approx(n * rate, abs=5 * (n * rate * (1 - rate) / 400) ** 0.5)
    assert np.var(sizes) == pytest.approx(n * rate * (1 - rate), rel=0.35)  # chi-square with 399 degrees: 5 sigma


def test_an_empty_sample_is_a_noise_only_step_at_the_same_charge(schema):
    data = sealed(make_frame(0), schema)
    noise = data.commit(lambda z: (Entry(Sampled(1.0, (Gaussian(z),)), 1),))
    with data.sample(1.0) as batch:
        answer = batch.sum(ones, 1, 1.0, noise)
    assert answer.shape == (1,)
    assert answer[0] != 0
    assert data.account.ledger.entries() == (Entry(Sampled(1.0, (Gaussian(noise),))),)


def test_sums_clip_each_unit_not_each_record_nor_the_batch():
    schema = make_schema(unit="patient", max_records_per_unit=3)
    data = sealed(make_frame(30, repeats=3), schema, Budget(float("inf"), 1e-5))
    data.commit(lambda z: (Entry(Gaussian(z), 2),))
    clipped = data.sum(lambda codes: np.full((len(codes), 2), 5.0), 2, 1.0, 0.0)
    np.testing.assert_allclose(clipped, [10 / 2**0.5] * 2, rtol=2e-4)  # 10 patients, each of norm 1
    below = data.sum(lambda codes: np.full((len(codes), 2), 0.1), 2, 1.0, 0.0)
    np.testing.assert_allclose(below, [3.0, 3.0], rtol=1e-12)  # 30 records, none clipped


def test_a_unit_keeps_at_most_its_records_and_the_choice_is_its_own():
    schema = make_schema(unit="patient", max_records_per_unit=2)
    frame = make_frame(50, repeats=5)

    def kept(frame):
        data = sealed(frame, schema, Budget(float("inf"), 1e-5))
        data.commit(lambda z: (Entry(Gaussian(z)),))
        return data.sum(lambda codes: np.eye(100)[codes[:, 0] * 3], 100, 100.0, 0.0)

    everyone = kept(frame)
    assert everyone.sum() == pytest.approx(20)
    # Without the last patient, and without the first, whose records stand before all others
    for rows in (slice(None, -5), slice(5, None)):
        difference = everyone - kept(frame.iloc[rows])
        assert difference.min() >= -1e-9
        assert difference.sum() == pytest.approx(2)


def test_non_finite_contributions_count_as_zero(frame, schema):
    data = sealed(frame, schema, Budget(float("inf"), 1e-5))
    data.commit(lambda z: (Entry(Gaussian(z)),))

    def bad(codes):
        return np.array([np.nan, np.inf, 1e100, 0.5, 0.0])[codes[:, 0]][:, None]

    _, _, huge, halves, _ = np.bincount(pd.cut(frame["age"], [-1, 19, 39, 59, 79, 99], labels=False), minlength=5)
    assert data.sum(bad, 1, 1.0, 0.0)[0] == pytest.approx(huge + halves / 2, rel=2e-4)


def test_marginals_match_a_count_and_their_noise(frame, schema):
    data = sealed(frame, schema, Budget(float("inf"), 1e-5))
    data.commit(lambda z: (Entry(Gaussian(z)),))
    (table,) = data.marginals([("sex", "ill")], 0.0)
    for place, sex in enumerate(["female", "male"]):
        for ill in (False, True):
            expected = ((frame["sex"] == sex) & (frame["ill"] == ill)).sum()
            assert table[place, int(ill)] == expected


def test_reveal_costs_everything(frame, schema, tmp_path):
    data = sealed(frame, schema)
    assert len(data.reveal("a test")) == len(frame)
    data.account.ledger.write(tmp_path / "released.jsonl")
    assert "a test" not in (tmp_path / "released.jsonl").read_text()
    assert data.account.ledger.entries() == (Entry(Revealed("a test")),)
    assert accounting.epsilon(data.account.ledger, 1e-5) == float("inf")


def test_learned_items_are_bought_and_the_schema_is_complete():
    learn = {
        "age": {"kind": "integer", "bounds": "learn"},
        "sex": {"kind": "categorical", "categories": "learn"},
        "dose": {"kind": "continuous", "bounds": [0, 10], "bins": "learn", "missing": True},
        "seen": {"kind": "datetime", "bounds": "learn"},
    }
    schema = make_schema(columns=learn, units="learn")
    data = sealed(make_frame(5000), schema)
    data.commit(lambda z: (Entry(Gaussian(z)),))
    resolved = data.resolve()
    assert not resolved.learned
    assert resolved.units == pytest.approx(5000, abs=50)
    assert {"female", "male"} <= set(resolved.column("sex").categories)
    low, high = resolved.column("age").bounds
    assert -3 <= low <= 3
    assert 96 <= high <= 103
    assert resolved.column("seen").bounds[0].startswith(("2019-12", "2020-01"))
    assert len(resolved.column("dose").bins) >= 3
    learned = data.account.ledger.entries()
    assert sum(entry.count for entry in learned) == 1 + 2 + 1 + 1 + 2
    data.marginals([("sex",)], data.account.plan[-1].event.noise)
    assert data.account.ledger.entries() == data.account.plan


def test_a_rare_category_is_not_learned():
    frame = make_frame(3000)
    frame["sex"] = frame["sex"].astype(object)
    frame.loc[0, "sex"] = "a-canary-of-one"
    schema = make_schema(columns={"sex": {"kind": "categorical", "categories": "learn"}})
    for seed in range(20):
        data = sealed(frame, schema, Budget(epsilon=1.0, delta=1e-6), seed=seed)
        data.commit(lambda z: (Entry(Gaussian(z)),))
        assert "a-canary-of-one" not in data.resolve().column("sex").categories


def test_a_fit_that_stops_early_is_charged_its_whole_plan(frame, schema):
    """Law 11: when to stop may depend on answers, so the ledger never says less than the plan."""
    data = sealed(frame, schema)
    noise = data.commit(lambda z: (Entry(Gaussian(z), 10),))
    for _ in range(6):
        data.sum(ones, 1, 1.0, noise)
    data.account.settle()
    assert data.account.ledger.entries() == data.account.plan


@pytest.mark.parametrize("category", ["a", "c"])
def test_sizes_that_are_not_the_codec_s_are_refused_whatever_the_records_hold(category):
    """Else only a record of the last category would make the fit end, after the charge."""
    schema = Schema.from_dict({"units": 1, "columns": {"a": {"kind": "categorical", "categories": ["a", "b", "c"]}}})
    data = sealed(pd.DataFrame({"a": [category]}), schema)
    noise = data.commit(lambda z: (Entry(Gaussian(z)),))
    with pytest.raises(BadInput, match="sizes differ"):
        data.ask(Marginals(((0,),), (2,), noise, 1))
    assert data.account.ledger.entries() == ()
    with pytest.raises(BadInput, match="a grouping must give"):
        Distance(((0,),), (3,), (np.zeros(2),), 1.0, (np.array([0, 1]),))


def test_a_question_that_assumes_fewer_records_of_a_unit_is_refused():
    schema = make_schema(unit="patient", max_records_per_unit=3)
    data = sealed(make_frame(30, repeats=3), schema)
    noise = data.commit(lambda z: (Entry(Gaussian(z), 2),))
    question = dataclasses.replace(data.tables([("sex",)], noise), max_records=1)
    with pytest.raises(BadInput, match="assumes at most 1"):
        data.ask(question)
    for bought in (Grid("age", (0.0, 50.0, 100.0), noise, 1), Domain("sex", noise, 1e-6, 1)):
        with pytest.raises(BadInput, match="assumes at most 1"):
            bought.bounded(seal(make_frame(30, repeats=3), schema, bytes(32)))
    sizes = dataclasses.replace(data.tables([("age",)], noise), sizes=(2,) * 6)
    with pytest.raises(BadInput, match="sizes"):
        data.ask(sizes)


@pytest.mark.parametrize(
    "cell", [10**5000, "\ud800", float("nan"), 1e308, b"\xff"], ids=lambda cell: type(cell).__name__
)
def test_a_sealed_fit_never_refuses_on_content(frame, cell):
    schema = make_schema(unit="patient", max_records_per_unit=2)
    bad = frame.astype(object)
    for column in ("patient", "age", "sex", "dose", "ill"):
        bad.loc[0, column] = cell
    data = sealed(bad, schema)
    data.commit(lambda z: (Entry(Gaussian(z)),))
    assert data.marginals([("sex",)], data.account.plan[0].event.noise)[0].shape == (2,)


class Rogue:
    """A question that charges nothing and answers with the records."""

    events = ()
    sensitivity = 0.0

    def bounded(self, records):
        return records.raw

    def noised(self, bounded, _noise):
        return bounded


def test_a_question_from_elsewhere_is_refused_before_it_sees_a_record(frame, schema):
    with pytest.raises(BadInput, match="synthdp's own questions"):
        sealed(frame, schema).ask(Rogue())


def test_sealed_records_open_only_while_a_question_is_answered():
    """Law 20: whoever holds the seal, a read outside a question raises."""
    data = sealed(make_frame(20), make_schema())
    noise = data.commit(lambda z: (Entry(Gaussian(z)),))
    data.resolve()
    with pytest.raises(RuntimeError, match="outside a question"):
        data._sealed.read()
    data.sum(ones, 1, 1.0, noise)
    with pytest.raises(RuntimeError, match="outside a question"):
        data._sealed.read()


def test_a_gradient_is_the_sum_over_the_units_that_came_whatever_their_number():
    """Law 16: no batch size divides it. Without noise the answer is the reference's, and twice the records give twice."""
    answers = []
    for frame in (make_frame(30), pd.concat([make_frame(30)] * 2, ignore_index=True)):
        data = sealed(frame, make_schema(), Budget(math.inf, 1e-5))
        data.commit(lambda z: (Entry(Gaussian(z)),))
        data.resolve()
        module = torch.nn.Linear(6, 1)
        with torch.no_grad():
            module.weight.fill_(0.1)
            module.bias.zero_()

        def loss(module, codes):
            return module(codes.float()).squeeze(1).square()

        answers.append(data.gradient(module, loss, 0.5, 0.0))
        codes = torch.from_numpy(data.codec.encode(frame))
        reference = per_unit_reference(module, loss, codes, None, 0.5)
        for name, value in answers[-1].items():
            torch.testing.assert_close(value.double(), reference[name], rtol=1e-4, atol=1e-5)
    for name, value in answers[0].items():
        torch.testing.assert_close(2 * value, answers[1][name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_learned_bounds_hold_nearly_all_records_at_any_budget(epsilon):
    """Where the noise hides the ends, they are left in: bounds of a single cell would cut the column to nothing."""
    rng = np.random.default_rng(0)
    frame = make_frame(900).assign(dose=np.exp(rng.normal(0, 0.45, 900)).clip(0.26, 3.51))
    learned = {"dose": {"kind": "continuous", "bounds": "learn"}}
    schema = make_schema(columns=learned, unit="patient", max_records_per_unit=3, units=900)
    data = sealed(frame, schema, Budget(epsilon, 1e-6))
    data.commit(lambda z: (Entry(Gaussian(z)),))
    low, high = data.resolve().to_dict()["columns"]["dose"]["bounds"]
    assert frame["dose"].between(low, high).mean() > 0.9
    assert high - low < 20


def test_bounds_of_a_skewed_column_are_not_those_of_its_densest_part():
    """Spread over ten powers of two, such as C-reactive protein, a column stands clear of the noise in one or two of them."""
    rng = np.random.default_rng(3)
    values = np.round(rng.lognormal(np.where(rng.random(3000) < 0.5, 1.2, 4.2), 0.8), 1)
    values = np.where(rng.random(3000) < 0.3, 0.5, values)
    dose = {"kind": "continuous", "bounds": "learn", "decimals": 1, "atoms": [0.5]}
    schema = make_schema(columns={"dose": dose}, units=3000)
    cut, said = [], []
    for seed in range(6):
        data = sealed(make_frame(3000).assign(dose=values), schema, Budget(0.2, 1e-6), seed=seed)
        data.commit(lambda z: (Entry(Gaussian(z)),))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            low, high = data.resolve().column("dose").bounds
        cut.append(np.mean((values < low) | (values > high)))
        said += [str(each.message) for each in caught]
    assert np.mean(cut) < 0.15, cut
    assert sum("% of the values lie below" in each and "were widened to" in each for each in said) >= 4


def test_bounds_that_cannot_be_told_from_noise_are_warned_of():
    schema = make_schema(columns={"dose": {"kind": "continuous", "bounds": "learn"}})
    data = sealed(make_frame(5), schema, Budget(0.1, 1e-6))
    data.commit(lambda z: (Entry(Gaussian(z)),))
    with pytest.warns(UserWarning, match="'dose': at this budget noise hides the bounds"):
        data.resolve()


def test_learned_bounds_reach_over_months_that_hold_few_records_each():
    """Thirty years of births, none of whose months stands clear of the noise."""
    rng, days = np.random.default_rng(5), 30 * 365
    born = pd.Timestamp("1980-01-01") + pd.to_timedelta(rng.integers(0, days, 4000), unit="D")
    schema = make_schema(columns={"seen": {"kind": "datetime", "bounds": "learn"}})
    for seed in range(3):
        data = sealed(make_frame(4000).assign(seen=born), schema, Budget(2.0, 1e-6), seed=seed)
        data.commit(lambda z: (Entry(Gaussian(z)),))
        low, high = (pd.Timestamp(end) for end in data.resolve().column("seen").bounds)
        assert ((born < low) | (born > high)).mean() < 0.1
        assert (high - low).days < 1.5 * days


def test_dates_beyond_learned_bounds_are_warned_of():
    rng = np.random.default_rng(6)
    days = np.concatenate([rng.integers(0, 20 * 365, 100), 20 * 365 + rng.integers(0, 300, 200)])
    schema = make_schema(columns={"seen": {"kind": "datetime", "bounds": "learn"}})
    seen = pd.Timestamp("2000-01-01") + pd.to_timedelta(days, unit="D")
    data = sealed(make_frame(300).assign(seen=seen), schema, Budget(16.0, 1e-6), seed=1)
    data.commit(lambda z: (Entry(Gaussian(z)),))
    with pytest.warns(
        UserWarning,
        match="'seen': about (2|3|4)[0-9]% of the values lie before 20[12].* or after 20.* learns these two days",
    ):
        data.resolve()


@pytest.mark.parametrize(
    ("kind", "values", "ends"),
    [
        ("continuous", np.full(300, 3e18), "from -1.09951e[+]12 to 1.09951e[+]12"),
        ("continuous", np.full(300, -3e18), "from -1.09951e[+]12"),
        ("datetime", np.full(300, "2137-05-01"), "from 1900-01-01 to 2100-12-01"),
        ("datetime", np.full(300, "1850-05-01"), "from 1900-01-01 to 2100-12-01"),
    ],
)
def test_values_beyond_where_bounds_are_looked_for_are_warned_of(kind, values, ends):
    """They are moved to the ends, such as dates that were shifted into another century; noisy counts say so."""
    schema = make_schema(columns={"dose": {"kind": kind, "bounds": "learn"}})
    data = sealed(make_frame(300).assign(dose=values), schema, Budget(8.0, 1e-6))
    data.commit(lambda z: (Entry(Gaussian(z)),))
    with pytest.warns(
        UserWarning,
        match=f"'dose': bounds are looked for {ends}.* and many values lie at one of these limits or beyond it",
    ):
        data.resolve()


@pytest.mark.parametrize(("scale", "warned"), [(3e-9, True), (3e-5, False)])
def test_values_too_near_to_zero_to_be_told_apart_are_warned_of(scale, warned):
    """Concentrations in mol/l: uniform over a cell of the finest grid they would be far too large."""
    values = np.random.default_rng(0).gamma(2, scale, 600)
    schema = make_schema(columns={"dose": {"kind": "continuous", "bounds": "learn"}})
    data = sealed(make_frame(600).assign(dose=values), schema, Budget(8.0, 1e-6))
    data.commit(lambda z: (Entry(Gaussian(z)),))
    says = (
        pytest.warns(UserWarning, match="'dose': most values lie within .* of each other near 0")
        if warned
        else nullcontext()
    )
    with says:
        data.resolve()
