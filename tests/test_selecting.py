"""select: the best of K hidden fits as a release, its budget, and what it refuses before anything is charged."""

import json
import math

import numpy as np
import pytest
from clinic import make_frame, make_schema, picture_schema, untouched

from synthdp import Budget, Schema, accounting, generators, load
from synthdp.budgets import AccountFile
from synthdp.errors import BadInput
from synthdp.ledger.events import Entry, Gaussian, Laplace, Selection
from synthdp.ledger.ledger import Ledger
from synthdp.report.statement_page import write
from synthdp.report.words import tell
from synthdp.schema.codec import Codec
from synthdp.seal.door import Sensitive
from synthdp.seal.marginals import Distance
from synthdp.selecting import pairs, select, tables

BUDGET = Budget(2.0, 1e-5)
BOTH = ["independent", "classgauss"]


@pytest.fixture
def distances(monkeypatch):
    """The noisy distances of all runs, in their order, which nobody is shown outside a test."""
    found = []
    ask = Sensitive.distance

    def kept(self, *given):
        found.append(ask(self, *given))
        return found[-1]

    monkeypatch.setattr(Sensitive, "distance", kept)
    return found


def test_the_release_is_the_best_run_s_and_its_charge_one_event(frame, schema, distances, monkeypatch, tmp_path):
    models = []
    for name in BOTH:
        fit = generators.find(name).fit

        def kept(self, *given, fit=fit, **more):
            models.append((self.name, fit(self, *given, **more)))
            return models[-1][1]

        monkeypatch.setattr(generators.find(name), "fit", kept)
    release = select(BOTH, frame, schema, BUDGET, mean_runs=6.0, seed=4, ledger=tmp_path / "ledger.jsonl")
    assert len(distances) == len(models) > 1
    name, model = models[int(np.argmin(distances))]
    assert release.model is model
    assert release.generator.name == release.statement.generator == name
    (entry,) = release.ledger.entries()
    assert isinstance(entry.event, Selection)
    assert (entry.count, entry.event.mean, len(entry.event.candidates)) == (1, 6.0, 2)
    assert 0.99 * BUDGET.epsilon <= release.statement.epsilon <= BUDGET.epsilon
    assert release.statement.epsilon == accounting.epsilon([entry], BUDGET.delta, "rdp")
    assert Ledger.read(tmp_path / "ledger.jsonl").entries() == (entry,)
    assert Ledger.read(tmp_path / "ledger.jsonl").charges == 1
    again = load(release.save(tmp_path / "release"))
    assert again.sample(20, seed=1).equals(release.sample(20, seed=1))
    assert again.statement.recompute() == pytest.approx(release.statement.epsilon, rel=1e-9)
    text = (tmp_path / "release" / "release.json").read_text()
    assert all(f"{distance}" not in text for distance in distances)
    assert "selection took" in " ".join(release.statement.not_covered)


def test_its_page_tells_what_was_charged(frame, schema, tmp_path):
    release = select(BOTH, frame, schema, BUDGET, mean_runs=2.0, seed=1)
    told = tell(release.statement.events[0].event)
    assert "candidates" in told.sentence
    assert told.inner
    write(release.statement, tmp_path)
    assert told.title in (tmp_path / "statement.html").read_text(encoding="utf-8")


def test_what_leaves_does_not_depend_on_how_many_runs_there_were(frame, schema, distances, tmp_path):
    counts, said = set(), set()
    for seed in range(8):
        distances.clear()
        release = select(["independent"], frame, schema, BUDGET, mean_runs=3.0, seed=seed)
        counts.add(len(distances))
        plain = release.statement.to_json() | {"release_id": None}
        said.add(json.dumps([plain, [list(array.shape) for array in release.model.tensors().values()]]))
    assert len(counts) > 2
    assert len(said) == 1


def test_a_rehearsal_repeats(frame, schema):
    one, two, other = (select(BOTH, frame, schema, BUDGET, mean_runs=3.0, seed=seed) for seed in (2, 2, 3))
    same = [
        np.array_equal(a, b) for a, b in zip(one.model.tensors().values(), two.model.tensors().values(), strict=True)
    ]
    assert all(same)
    assert one.statement.rehearsal
    assert one.sample(50, seed=1).equals(two.sample(50, seed=1))
    assert not one.sample(50, seed=1).equals(other.sample(50, seed=1))


def test_a_release_has_no_seed_and_learns_what_is_not_declared(frame):
    schema = make_schema(columns={"sex": {"kind": "categorical", "categories": "learn"}}, units="learn")
    release = select(["independent"], frame, schema, Budget(8.0, 1e-4), mean_runs=2.0)
    assert not release.statement.rehearsal
    assert [type(entry.event).__name__ for entry in release.statement.events] == ["Gaussian", "Threshold", "Selection"]
    assert 7.9 <= release.statement.epsilon <= 8.0
    assert isinstance(release.schema.units, int)


def test_runs_are_priced_alike_and_scores_take_a_tenth(frame, schema):
    release = select(["independent", "independent"], frame, schema, BUDGET, mean_runs=2.0, seed=1)
    (first, second) = release.statement.events[0].event.candidates
    assert first == second
    fit, score = (entry.event.noise for entry in first)
    assert 1 / score**2 == pytest.approx(0.1 / fit**2 / 0.9, rel=1e-5)


def test_a_stopped_selection_stays_charged(frame, schema, tmp_path, monkeypatch):
    def stopped(self, *given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(generators.find("independent"), "fit", stopped)
    account = AccountFile(path=tmp_path / "account", by="the tests")
    with pytest.raises(KeyboardInterrupt):
        select(["independent"], frame, schema, BUDGET, ledger=tmp_path / "ledger.jsonl", account=account)
    (entry,) = Ledger.read(tmp_path / "ledger.jsonl").entries()
    assert isinstance(entry.event, Selection)
    (fit,) = account.read().fits
    assert (fit.state, fit.budget, fit.body["generator"]) == ("interrupted", (2.0, 1e-5), "select")
    assert fit.body["plan"][0]["event"]["type"] == "Selection"


@pytest.mark.parametrize(
    ("extra", "named"), [(Laplace(1e6), "than the selection was charged"), (Gaussian(1.0), "costs")]
)
def test_a_fit_beyond_its_plan_is_refused_and_charged(extra, named, frame, schema, tmp_path, monkeypatch):
    """However little more it asks."""
    kind = generators.find("independent")
    fit, plan = kind.fit, kind.plan

    def greedy(self, data, *given, **more):
        monkeypatch.setattr(kind, "plan", lambda self, schema, noise: (*plan(self, schema, noise), Entry(extra)))
        return fit(self, data, *given, **more)

    monkeypatch.setattr(kind, "fit", greedy)
    with pytest.raises(BadInput, match=named):
        select(["independent"], frame, schema, BUDGET, ledger=tmp_path / "ledger.jsonl")
    assert isinstance(Ledger.read(tmp_path / "ledger.jsonl").entries()[0].event, Selection)


def test_the_score_is_the_distance_of_the_pairs(schema):
    """Against counting by hand: samples of a model, in numbers of units, and one table per pair of columns."""
    frame = make_frame(300)
    release = select(["independent"], frame, schema, BUDGET, mean_runs=1.0, seed=1)

    class Door:
        codec = Codec(release.schema)
        schema = release.schema

    cliques = pairs(release.schema, Door.codec.names, Door.codec.sizes)
    names = Door.codec.names
    assert len(cliques) == len(names) * (len(names) - 1) // 2
    assert all("ill" in pair for pair in cliques[: len(names) - 1])  # the target's pairs first
    found = tables(release.model, Door, cliques, 7)
    assert all(table.sum() == pytest.approx(400) for table in found)  # declared units
    codes = Door.codec.encode(release.model.sample(1000, seed=7))
    first, second = (names.index(name) for name in cliques[0])
    count = int(((codes[:, first] == 1) & (codes[:, second] == 0)).sum())
    assert found[0][1, 0] == pytest.approx(0.4 * count)
    assert Distance(((first, second),), Door.codec.sizes, (found[0],), 1.0).sensitivity == 1.0


@pytest.mark.parametrize(
    ("candidates", "options", "named"),
    [
        ([], {}, "one generator or more"),
        (["nobody"], {}, "no generator named"),
        ([("independent", {"depth": 3})], {}, "no setting"),
        (["independent"], {"mean_runs": 0.5}, "mean_runs"),
        (["independent"], {"mean_runs": math.inf}, "mean_runs"),
        (["independent", ("classgauss", {"condition": "nosuch"})], {}, r"generator\.condition"),
        (["independent"], {"budget": Budget(1e-12, 1e-300)}, "above the budget"),
        (["independent"], {"schema": make_schema(units=2**30)}, "the schema declares 1,073,741,824"),
        (["independent"], {"budget": Budget(math.inf, 1e-5)}, "inf"),
        (["independent"], {"schema": make_schema(units=None)}, "units"),
        (["independent"], {"schema": picture_schema()}, "image column"),
        ([("pategan_original", {"gamma": 0.05, "start": "none", "rounds": 1})], {}, "fixes the noise"),
    ],
)
@pytest.mark.filterwarnings("ignore:budget.delta")
def test_what_cannot_be_selected_is_refused_before_anything_is_opened(candidates, options, named, schema, tmp_path):
    schema, budget = options.pop("schema", schema), options.pop("budget", BUDGET)
    with pytest.raises(BadInput, match=named):
        select(
            candidates,
            untouched(),
            schema,
            budget,
            ledger=tmp_path / "ledger.jsonl",
            account=tmp_path / "account",
            **options,
        )
    assert not list(tmp_path.iterdir())


def test_many_columns_have_a_limit():
    columns = {f"c{place}": {"kind": "boolean"} for place in range(40)}
    schema = Schema.from_dict({"columns": {**columns, "wide": {"kind": "integer", "bounds": [0, 9], "bins": 10}}})
    names = [column.name for column in schema.columns]
    assert len(pairs(schema, names, [2] * 41)) == 300
    assert pairs(schema, names[:1], [2]) == [("c0",)]
    assert pairs(schema, names[:2], [10**4, 10**4]) == [("c0",), ("c1",)]
