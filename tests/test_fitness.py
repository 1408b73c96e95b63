"""Fitness that was bought: what it costs, that its intervals hold, and that nothing changes without it."""

import json
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from clinic import contracts, make_frame, make_pictures, make_schema, picture_schema, quick
from scipy.special import erf
from sweeps import sweep

import synthdp.fitness
from synthdp import BadInput, Budget, Synthesizer, accounting, load
from synthdp.fitness import Noisy, Purchase, apart, cliques, counts, interval, size
from synthdp.generators import Traits, probabilities
from synthdp.generators.independent import IndependentModel
from synthdp.ledger.events import Capped, Entry, Gaussian
from synthdp.ledger.ledger import Ledger
from synthdp.report.statement import Statement
from synthdp.schema.codec import Codec
from synthdp.seal.door import Sensitive

BUDGET = Budget(2.0, 1e-5)
SHARE = 0.1
RUNS = 600


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """A small sample is compared: these are tests of the question, not of the model."""
    monkeypatch.setattr(synthdp.fitness, "ROWS", 2_000)
    monkeypatch.setattr(synthdp.fitness, "ROWS_OF_IMAGES", 200)


@dataclass(frozen=True, kw_only=True)
class Walk:
    """A generator that asks for one table several times, in steps that can be resumed."""

    name: ClassVar[str] = "walk"
    traits: ClassVar[Traits] = Traits()

    def validate(self, schema, budget):
        """Nothing to refuse."""

    def plan(self, schema, noise):  # noqa: ARG002
        return (Entry(Gaussian(noise), 4),)

    def fit(self, data, *, seed=None, progress=None):  # noqa: ARG002
        noise = data.commit(lambda z: self.plan(data.declared, z))
        kept = data.restored() or {"table": np.zeros(2)}
        table, schema = kept["table"].copy(), data.resolve()
        for _ in data.steps(Gaussian(noise), 4, lambda: {"table": table.copy()}):
            np.add(table, data.marginals([("sex",)], noise)[0], out=table)
        others = [probabilities(np.ones(size)) for size in data.codec.sizes]
        others[data.codec.names.index("sex")] = probabilities(table)
        return IndependentModel(schema, tuple(others))


@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """A generator that chooses its questions as it goes, under a cap."""

    name: ClassVar[str] = "adaptive"
    traits: ClassVar[Traits] = Traits()

    def validate(self, schema, budget):
        """Nothing to refuse."""

    def plan(self, schema, noise):  # noqa: ARG002
        return (Entry(Capped("gaussian", 1 / noise)),)

    def fit(self, data, *, seed=None, progress=None):  # noqa: ARG002
        noise = data.commit(lambda z: self.plan(data.declared, z))
        schema = data.resolve()
        with data.cap(Capped("gaussian", 1 / noise)) as safe:
            first = safe.marginals([("sex",)], 2 * noise)[0]
            safe.marginals([("age",) if first[0] > first[1] else ("ill",)], 2 * noise)
        return IndependentModel(schema, tuple(probabilities(np.ones(size)) for size in data.codec.sizes))


OWN = {"walk": Walk, "adaptive": Adaptive}


def fitted(name, rows=200, schema=None, budget=BUDGET, fitness=SHARE, **more):
    frame = make_frame(rows)
    generator = OWN[name]() if name in OWN else quick(name)
    trust = __name__ if name in OWN else None
    synthesizer = Synthesizer(generator, schema=schema or make_schema(), budget=budget, trust=trust)
    return synthesizer.fit(frame, seed=1, fitness=fitness, **more)


def total(entries):
    return {entry.event: entry.count for entry in entries}


NAMES = [*OWN, *(name for name in contracts() if not name.startswith("dpgan"))]  # that one is fitted to pictures below


@pytest.mark.parametrize("name", sweep(NAMES, (*OWN, "mixture", "aim").__contains__))
def test_the_question_is_charged_beside_the_plan_within_the_budget(name):
    bought = Purchase.of(SHARE, make_schema(), BUDGET)
    ledgers = []
    for rows in (0, 1, 200) if name == "independent" else (1,):
        release = fitted(name, rows)
        said = release.statement
        ledgers.append(release.ledger.entries())
        assert said.epsilon <= BUDGET.epsilon
        assert said.fitness.noise == bought.noise
        assert total(ledgers[-1])[Gaussian(bought.noise)] == 1
        assert said.recompute() == pytest.approx(said.epsilon, rel=1e-9)
        for group in (said.fitness.single, said.fitness.with_target):
            for low, high in (group.mean, group.worst, *(table.interval for table in group.tables)):
                assert 0 <= low <= high <= 1
    assert ledgers == [ledgers[0]] * len(ledgers)  # laws 11, 12: the records change nothing
    assert said.epsilon >= 0.99 * BUDGET.epsilon


@pytest.mark.heavy
def test_votes_of_fixed_noise_are_as_many_as_the_question_leaves():
    generator = quick("pategan_original", gamma=0.2, rounds=None, queries=1, student_steps=1)
    made = Synthesizer(generator, schema=make_schema(), budget=BUDGET)
    (vote,) = made.fit(make_frame(50), seed=1).ledger.entries()
    asked = made.fit(make_frame(50), seed=1, fitness=SHARE).ledger.entries()
    assert 0 < total(asked)[vote.event] < vote.count
    one_more = (*asked, Entry(vote.event))
    assert accounting.best(asked, BUDGET.delta)[1] <= BUDGET.epsilon < accounting.best(one_more, BUDGET.delta)[1]


def test_without_it_the_ledger_is_what_it_was(tmp_path):
    schema = make_schema()
    plain = Synthesizer("independent", schema=schema, budget=BUDGET)
    plain.fit(make_frame(50), seed=1, ledger=tmp_path / "a")
    plain.fit(make_frame(50), seed=1, fitness=None, ledger=tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    release = fitted("independent", 50, fitness=None)
    assert release.statement.fitness is None
    assert "fitness" not in release.statement.to_json()
    noise = accounting.calibrate(lambda z: (Entry(Gaussian(z)),), BUDGET)
    assert Ledger.read(tmp_path / "a").entries() == (Entry(Gaussian(noise)),)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_share_is_that_part_of_the_precision(relation):
    budget = Budget(1.0, 1e-5, relation)
    bought = Purchase.of(0.2, make_schema(), budget)
    release = fitted("independent", budget=budget, fitness=0.2)
    rest = next(entry.event.noise for entry in release.ledger.entries() if entry.event.noise != bought.noise)
    share = bought.noise**-2 / (bought.noise**-2 + rest**-2)
    assert share == pytest.approx(0.2, abs=0.002)  # calibrations come within 0.1 %


@pytest.mark.filterwarnings(
    "ignore:column 'dose'. most values lie within"
)  # nearly all are 0, and the noise hides the others
def test_what_is_learned_and_a_plan_of_fixed_noise_leave_room_for_it():
    schema = make_schema(units="learn", columns={"dose": {"kind": "continuous", "bounds": "learn", "missing": True}})
    release = fitted("classgauss", 2000, schema=schema)
    assert 0.97 * BUDGET.epsilon <= release.statement.epsilon <= BUDGET.epsilon
    assert release.statement.fitness.single is not None


def test_infinite_budgets_give_the_exact_distance():
    release = fitted("independent", 300, budget=Budget(math.inf, 1e-5), fitness=0.5)
    said = release.statement.fitness
    assert said.records == pytest.approx((300.0, 300.0))
    assert said.single.mean[0] == said.single.mean[1] < 0.05  # sampling alone
    assert fitted("independent", 0, budget=Budget(math.inf, 1e-5)).statement.fitness.single.mean == (0.0, 1.0)


def test_the_statement_and_the_release_keep_it(tmp_path):
    release = fitted("independent")
    again = load(release.save(tmp_path / "release"))
    assert again.statement == release.statement
    old = release.statement.to_json()
    del old["fitness"]
    assert Statement.from_json(json.loads(json.dumps(old))).fitness is None


@pytest.mark.parametrize("change", [{"noise": "x"}, {"single": {"tables": []}}, {"records": [5, 1]}, {"share": "nan"}])
def test_a_statement_with_broken_figures_is_refused(change):
    values = fitted("independent").statement.to_json()
    values["fitness"] = {**values["fitness"], **change}
    with pytest.raises(BadInput, match="statement"):
        Statement.from_json(values)


@pytest.mark.parametrize("share", [0, -0.1, 0.6, 1, math.nan, math.inf, True, "much"])
def test_a_share_that_is_none_is_refused_before_anything_is_written(share, tmp_path):
    with pytest.raises(BadInput, match="fitness must be a share"):
        fitted("independent", fitness=share, ledger=tmp_path / "ledger.jsonl")
    assert not list(tmp_path.iterdir())


@pytest.mark.heavy
def test_pictures_are_compared_by_what_stands_beside_them():
    frame, schema = make_pictures(60), picture_schema()
    release = Synthesizer(quick("dpgan_images", "images"), schema=schema, budget=BUDGET).fit(
        frame, seed=1, fitness=SHARE
    )
    said = release.statement.fitness
    assert [table.columns for table in said.single.tables] == [("finding",)]
    assert said.with_target is None
    alone = picture_schema(targets=[], columns={"image": {"kind": "image", "height": 8, "width": 8}})
    with pytest.raises(BadInput, match="compares columns other than the image"):
        Purchase.of(SHARE, alone, BUDGET)


def stopped(tmp_path, monkeypatch, when):
    """A fit that dies at `when` and is resumed."""
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint"}
    with monkeypatch.context() as patch:
        when(patch)
        with pytest.raises(KeyboardInterrupt):
            fitted("walk", **files)
    return files


def test_a_resumed_fit_asks_once(tmp_path, monkeypatch):
    noise = Purchase.of(SHARE, make_schema(), BUDGET).noise
    whole = fitted("walk")

    def before(patch):
        def stop(*given, **more):
            raise KeyboardInterrupt

        patch.setattr("synthdp.api.measure", stop)

    files = stopped(tmp_path / "a", monkeypatch, before)
    release = fitted("walk", **files, resume=True)
    assert release.statement.fitness == whole.statement.fitness  # a rehearsal: the same noise
    assert total(release.ledger.entries())[Gaussian(noise)] == 1

    def after(patch):
        def stop(*given, **more):
            raise KeyboardInterrupt

        patch.setattr(Noisy, "of", stop)

    files = stopped(tmp_path / "b", monkeypatch, after)
    assert total(Ledger.read(files["ledger"]).entries())[Gaussian(noise)] == 1
    monkeypatch.setattr(Sensitive, "ask", None)  # nothing may be asked any more
    release = fitted("walk", **files, resume=True)
    assert "not asked a second time" in release.statement.fitness.reason
    assert release.statement.fitness.single is None
    assert total(release.ledger.entries()) == total(whole.ledger.entries())


def test_a_fit_is_resumed_with_the_share_that_it_began_with(tmp_path, monkeypatch):
    def stop(*given, **more):
        raise KeyboardInterrupt

    files = stopped(tmp_path, monkeypatch, lambda patch: patch.setattr("synthdp.api.measure", stop))
    for other in (None, 0.2):
        with pytest.raises(BadInput, match="differs in fitness"):
            fitted("walk", fitness=other, **files, resume=True)


def test_tables_are_those_of_pandas_and_each_pair_is_asked_once():
    schema = make_schema(targets=["ill", "sex"])
    codec, frame = Codec(schema), make_frame(300)
    single, pairs = cliques(schema, codec)
    assert [name for (name,) in single] == list(codec.names)
    assert len(pairs) == 5 + 4
    assert len({frozenset(pair) for pair in pairs}) == 9
    (table,) = counts(codec.encode(frame), codec, [("sex", "ill")])
    for place, sex in enumerate(("female", "male")):
        for ill in (False, True):
            assert table[place, int(ill)] == ((frame["sex"] == sex) & (frame["ill"] == ill)).sum()


def test_size_inverts_the_mean_of_a_folded_normal():
    for u in (0.0, 1e-3, 0.5, 2.0, 7.9, 8.1, 1e6):
        mean = math.sqrt(2 / math.pi) * math.exp(-u * u / 2) + u * float(erf(u / math.sqrt(2)))
        assert size(mean) == pytest.approx(u, abs=1e-4)
    draws = np.abs(1.3 + np.random.default_rng(1).standard_normal(400_000))
    assert size(float(draws.mean())) == pytest.approx(1.3, abs=0.01)


def tables_of(kind, rng):
    """Records' counts and samples' shares of several tables."""
    sizes = {"few": (2, 3, 5), "many": (200, 40), "one": (2,)}.get(kind, (4, 12, 30, 6))
    for cells in sizes:
        shares = rng.dirichlet(np.full(cells, 0.3 if kind == "rare" else 2.0))
        counted = rng.multinomial(3000, shares)
        expected = counted / 3000
        if kind in ("shifted", "many", "one"):
            expected = 0.8 * expected + 0.2 * rng.dirichlet(np.ones(cells))
        if kind == "single cell":
            expected = 0.9 * expected + 0.1 * np.eye(cells)[0]
        yield counted.astype(float), expected


@pytest.mark.heavy
@pytest.mark.parametrize("deviation", [1.0, 40.0, 150.0])
@pytest.mark.parametrize("kind", ["equal", "shifted", "few", "many", "one", "rare", "single cell"])
def test_intervals_cover_the_true_distance(kind, deviation):
    """At least 95 % each, up to the error of the simulation (3 deviations of its own)."""
    rng = np.random.default_rng(7)
    tables = list(tables_of(kind, rng))
    true = [float(np.abs(counted / 3000 - shares).sum() / 2) for counted, shares in tables]
    held = np.zeros((RUNS, len(true) + 2), np.bool_)
    names = [(str(place),) for place in range(len(true))]
    for run in range(RUNS):
        answers = [counted + deviation * rng.standard_normal(len(counted)) for counted, _ in tables]
        noisy = Noisy.of(answers, deviation)
        group = synthdp.fitness._group(names, answers, [shares for _, shares in tables], noisy)
        found = [table.interval for table in group.tables] + [group.mean, group.worst]
        wanted = [*true, float(np.mean(true)), max(true)]
        held[run] = [low <= value <= high for (low, high), value in zip(found, wanted, strict=True)]
    slack = 3 * math.sqrt(0.05 * 0.95 / RUNS)
    assert (held.mean(axis=0) >= 0.95 - slack).all(), held.mean(axis=0)


def test_intervals_are_of_use_and_a_plain_distance_is_not():
    """Equal tables, noise as in a fit of 20,000 records at epsilon 1: a plain distance lies above the truth, and the interval
    shuts out a difference of 3 %."""
    rng = np.random.default_rng(3)
    counted = np.full(20, 1000.0)
    plain, low, high = [], [], []
    for _ in range(200):
        answer = counted + 60 * rng.standard_normal(20)
        noisy = Noisy.of([answer], 60.0)
        far = float(np.abs(answer - noisy.records * counted / 20000).sum())
        plain.append(far / (2 * noisy.records))
        found = interval(answer, counted / 20000, noisy)
        low.append(found[0])
        high.append(found[1])
    assert min(plain) > 0.01
    assert max(low) == 0.0
    assert np.mean(high) < 0.07
    shifted = counted * np.repeat([0.8, 1.2], 10)
    answer = shifted + 60 * rng.standard_normal(20)
    seen = interval(answer, counted / 20000, Noisy(deviation=60.0, records=20000.0, spread=300.0))
    assert 0.02 < seen[0] < 0.1 < seen[1] < 0.15


def test_extremes_over_the_number_of_records_are_those_of_a_fine_search():
    rng = np.random.default_rng(5)
    for cells in (1, 2, 9):
        for low, high in ((90.0, 110.0), (-5.0, 300.0), (100.0, 100.0)):
            shares = rng.dirichlet(np.ones(cells))
            shares[0] *= cells == 1 or rng.random() < 0.5  # a cell that no sample holds
            answer = 100 * shares + 10 * rng.standard_normal(cells)
            found = apart(answer, shares, low, high)
            searched = np.abs(answer - np.linspace(low, high, 20_001)[:, None] * shares).sum(1)
            assert found == pytest.approx((searched.min(), searched.max()), abs=0.02)
