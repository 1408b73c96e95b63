"""Teachers: disjoint, fixed, alone with their part, and sealed (laws 12, 15, 16, 19, 20)."""

import contextlib
import io
import math
import random
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_schema
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from stopping import stopped_after_saving
from sweeps import heavy, sweep
from torch import nn
from torch.nn import functional

from synthdp import BadInput, Budget, Synthesizer
from synthdp.generators import Traits
from synthdp.ledger.events import Capped, Entry, Vote, merged
from synthdp.options import option
from synthdp.schema.codec import Codec
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.records import reading, seal
from synthdp.seal.replay import Recorder
from synthdp.seal.teachers import Estimators, MeanEmbeddings, Stacked
from synthdp.seal.teachers.mean_embeddings import public_embedding
from synthdp.seal.teachers.protocols import dealt, public_rows
from synthdp.seal.teachers.vote_aggregation import Confident, Counts, GNMax, Interactive, LNMax, Shares

SCHEMA = make_schema(unit="patient", max_records_per_unit=3)
CODEC = Codec(SCHEMA)
ILL = CODEC.names.index("ill")
REST = [place for place in range(len(CODEC.names)) if place != ILL]
WIDTH = sum(CODEC.sizes[place] for place in REST)
LOOSE = Budget(math.inf, 1e-5)
QUERIES = CODEC.encode(make_frame(15, seed=77))
FAKES = np.random.default_rng(0).integers(0, CODEC.sizes, (50, len(CODEC.sizes))).astype(np.int32)
KEY = b"k" * 32


def one_hot(codes, places=REST):
    return torch.cat([functional.one_hot(codes[:, p].long(), CODEC.sizes[p]) for p in places], 1).float()


def awful(codes):
    """Some records are nan, infinite or huge."""
    features = one_hot(codes)
    features[codes[:, REST[0]] == 0, 0] = float("nan")
    features[codes[:, REST[0]] == CODEC.sizes[REST[0]] - 1, 1] = float("inf")
    features[codes[:, REST[1]] == 1, 2] = 1e30
    return features


def images(codes):
    return one_hot(codes)[:, None, :16].reshape(-1, 1, 4, 4)


def labels_loss(outputs, codes):
    return functional.cross_entropy(outputs, codes[:, ILL].long(), reduction="none")


def template(*layers):
    """A template with weights of its own, whatever was drawn before."""
    module = nn.Sequential(*layers)
    chance = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        parameter.data.normal_(0, 0.3, generator=chance)
    return module


MLP = template(nn.Linear(WIDTH, 9), nn.ReLU(), nn.Linear(9, 2))
CONV = template(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2))
SCORE = template(nn.Linear(WIDTH, 7), nn.Tanh(), nn.Linear(7, 1))
SMALL = {"steps": 12, "batch": 6, "learning_rate": 0.05}


def tabular(codes):
    return np.asarray(codes)[:, REST]


KINDS = {
    "mlp": Stacked(module=MLP, features=one_hot, loss=labels_loss, **SMALL),
    "sgd, stacks of two": Stacked(
        module=MLP, features=one_hot, loss=labels_loss, optimizer="sgd", side_by_side=2, **SMALL
    ),
    "conv": Stacked(module=CONV, features=images, loss=labels_loss, **SMALL),
    "awful": Stacked(module=MLP, features=awful, loss=labels_loss, **SMALL),
    "discriminators": Stacked(
        module=SCORE,
        features=one_hot,
        loss=lambda scores, _: functional.softplus(-scores[:, 0]),
        public_loss=lambda scores, _: functional.softplus(scores[:, 0]),
        **SMALL,
    ),
    "mean embeddings": MeanEmbeddings(kernel=lambda codes, queries: (codes[:, None] == queries).float().mean(2)),
    "forests": Estimators(estimator=RandomForestClassifier(4, max_depth=3), features=tabular, target="ill"),
    "regressions": Estimators(estimator=LogisticRegression(max_iter=5), features=tabular, target="ill"),
}


def public(kind, rows=FAKES):
    """Generated rows, for the kinds that compare with them."""
    return rows if isinstance(kind, MeanEmbeddings) or getattr(kind, "public_loss", None) else None


def begun(frame, kind, count=4):
    """An ensemble on the frame's records, unsealed: the trusted base's own view."""
    parts = dealt(seal(frame, SCHEMA, KEY).encoded_by(CODEC), count)
    return kind.begin(parts, CODEC, kind.check(CODEC), b"s" * 32)


def trained(frame, kind, count=4, rounds=2):
    ensemble = begun(frame, kind, count)
    for _ in range(1 if isinstance(kind, Estimators) else rounds):
        ensemble.train(public(kind))
    return ensemble


def opened(frame, seed=0, budget=LOOSE, schema=SCHEMA, recorder=None):
    data = Sensitive(frame, schema, Account(budget, unit=schema.unit or "record"), seed=seed, recorder=recorder)
    data.commit(lambda z: (Entry(Vote(z), 1000),))
    data.resolve()
    return data


def more(frame, rows=2, patient="p-new", **changes):
    extra = make_frame(rows, seed=99).assign(patient=patient, **changes)
    return pd.concat([frame, extra], ignore_index=True) if len(frame) else extra


# The partition


@pytest.mark.parametrize("count", [1, 2, 7, 400])
def test_parts_are_disjoint_by_patient_and_hold_everything(count):
    records = seal(make_frame(90, repeats=3), SCHEMA, KEY).encoded_by(CODEC)
    parts = dealt(records, count)
    assert parts.sizes.sum() == len(records.codes)
    for teacher in range(count):
        units = np.flatnonzero(records.keys % np.uint64(count) == teacher)
        expected = np.concatenate([records.codes[records.owner == unit] for unit in units] or [records.codes[:0]])
        assert sorted(map(tuple, parts.of(teacher))) == sorted(map(tuple, expected))


@pytest.mark.parametrize("rows", [0, 3, 90])
def test_a_patient_more_changes_one_part_and_nothing_else(rows):
    for extra in range(8):
        before, after = (
            dealt(seal(frame, SCHEMA, KEY).encoded_by(CODEC), 5)
            for frame in (make_frame(rows, repeats=3), more(make_frame(rows, repeats=3), patient=f"new {extra}"))
        )
        changed = [t for t in range(5) if not np.array_equal(before.of(t), after.of(t))]
        assert len(changed) == 1
        assert after.sizes[changed[0]] == before.sizes[changed[0]] + 2


# Isolation


def differing(one, other):
    """Teachers whose votes or scores differ by a bit."""
    votes = (one.votes(QUERIES) != other.votes(QUERIES)).any(1)
    if one.classes != 2:
        return set(np.flatnonzero(votes))
    bits = [ensemble.scores(QUERIES).view(np.int64) for ensemble in (one, other)]
    return set(np.flatnonzero(votes | (bits[0] != bits[1]).any(1)))


@pytest.mark.parametrize("name", sweep(KINDS, ["mlp", "forests", "awful", "regressions"].__contains__))
@pytest.mark.parametrize("rows", [heavy(0), heavy(3), 60])
def test_a_patient_more_changes_what_one_teacher_says_and_not_a_bit_of_the_others(name, rows):
    kind, frame = KINDS[name], make_frame(rows, repeats=2)
    before, seen = trained(frame, kind), set()
    for patient, bad in (("a", False), ("b", True), ("c", False)):
        changes = {"age": [math.nan, math.inf, 1e30], "dose": 1e30, "sex": "never declared", "ill": None} if bad else {}
        changed = differing(before, trained(more(frame, 3, patient, **changes), kind))
        assert len(changed) <= 1
        seen |= changed
    assert seen or name == "awful"  # whose teachers may all have nothing to say


def test_the_largest_part_may_grow_and_nobody_else_notices():
    """Padding is of a public size: 60 records more in the largest part change its own teacher alone."""
    frame = make_frame(60, repeats=2)
    parts = dealt(seal(frame, SCHEMA, KEY).encoded_by(CODEC), 4)
    largest, grown, number = int(parts.sizes.argmax()), frame, 0
    while len(grown) < 120:
        number += 1
        longer = more(grown, 3, f"new {number}")
        sizes = dealt(seal(longer, SCHEMA, KEY).encoded_by(CODEC), 4).sizes
        grown = longer if sizes[largest] > parts.sizes[largest] + len(grown) - 60 else grown
    for name in ("mlp", "conv", "discriminators", "mean embeddings", "forests"):
        assert differing(trained(frame, KINDS[name]), trained(grown, KINDS[name])) == {largest}


@pytest.mark.parametrize("name", ["mlp", "discriminators"])
def test_a_stack_is_a_loop_over_teachers(name):
    """Second source: each teacher trained alone by torch, from the same first weights on the same batches."""
    kind, frame = KINDS[name], make_frame(60, repeats=2)
    parts = dealt(seal(frame, SCHEMA, KEY).encoded_by(CODEC), 4)
    ensemble = kind.begin(parts, CODEC, 2, b"s" * 32)
    first = {key: value.detach().clone() for key, value in ensemble._stacks[0].weights.items()}
    ensemble.train(public(kind))
    ensemble.train(public(kind))
    for teacher in range(4):
        module = nn.Sequential(*[type(layer)(*([layer.in_features, layer.out_features] if hasattr(layer, "in_features")
                                               else [])) for layer in kind.module])  # fmt: skip
        module.load_state_dict({key: value[teacher] for key, value in first.items()})
        optimizer = torch.optim.Adam(module.parameters(), kind.learning_rate)
        own = torch.from_numpy(parts.of(teacher).copy())
        for step in range(2 * kind.steps):
            held = min(len(own), kind.batch)
            batch = own[[(step * held + place) % len(own) for place in range(held)]]
            loss = kind.loss(module(kind.features(batch)), batch).mean()
            if kind.public_loss is not None:
                rows = torch.from_numpy(FAKES)[[((teacher + step) * 6 + place) % 50 for place in range(6)]]
                loss = loss + kind.public_loss(module(kind.features(rows)), rows).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        outputs = module(kind.features(torch.from_numpy(QUERIES))).detach()
        expected = outputs[:, 0] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]
        np.testing.assert_allclose(ensemble.scores(QUERIES)[teacher], expected, rtol=1e-3, atol=1e-4)


def test_teachers_start_apart_and_learn():
    kind = KINDS["mlp"]
    ensemble = begun(make_frame(0), kind, 300)
    starts = ensemble._stacks[0].weights["0.weight"].detach()
    flat = starts.flatten(1)
    assert abs(float(torch.corrcoef(flat).fill_diagonal_(0).abs().max())) < 0.4
    assert float(flat.std()) == pytest.approx(float(kind.module[0].weight.detach().std()), rel=0.02)
    same = begun(make_frame(0), Stacked(module=MLP, features=one_hot, loss=labels_loss, start="template"), 3)
    assert torch.equal(same._stacks[0].weights["0.weight"][2], MLP[0].weight)
    rng = np.random.default_rng(0)
    frame = make_frame(1500).assign(age=rng.integers(0, 100, 1500))
    frame["ill"] = frame["age"] > 50
    queries = CODEC.encode(frame.iloc[:200])
    for name in ("mlp", "forests", "regressions"):
        votes = trained(frame, KINDS[name], 3, rounds=20).votes(queries)
        assert (votes == queries[:, ILL]).mean() > 0.85, name


def near(codes, queries):
    """Squared distances of codes as shares of their domains, (rows, queries)."""
    sizes = torch.tensor(CODEC.sizes)
    rows, asked = ((part.float() + 0.5) / sizes for part in (codes, queries))
    return (rows[:, None] - asked[None]).square().sum(2)


CURVES = {
    "sigmoid": lambda squares: torch.sigmoid(1 - squares),
    "softplus": lambda squares: functional.softplus(1 - squares),
    "silu": lambda squares: functional.silu(1 - squares),
    "exp": lambda squares: torch.exp(-squares),
    "tanh": lambda squares: torch.tanh(1 - squares),
}


@pytest.mark.parametrize("name", sweep(CURVES, {"exp"}.__contains__))
def test_where_a_vector_ends_changes_no_other_teacher_s_bits(name):
    """Tails of a batch are rounded otherwise: as many records as there are must not decide where the tail is."""
    kind = MeanEmbeddings(kernel=lambda codes, queries: CURVES[name](near(codes, queries)))
    for rows in range(60, 75):
        frame = make_frame(rows)
        assert len(differing(trained(frame, kind, 8, 1), trained(more(frame, 1, "zz"), kind, 8, 1))) <= 1


def test_records_are_compared_in_blocks_of_public_shape_alone():
    shapes = set()

    def kernel(codes, queries):
        shapes.add((len(codes), len(queries)))
        return -near(codes, queries)

    kind = MeanEmbeddings(kernel=kernel)
    for rows in (1, 60, 1100):
        ensemble = trained(make_frame(rows), kind, 3, 1)
        public_shapes = {(len(FAKES), count) for count in (1, 15, 130)}
        shapes.clear()
        for queries in (QUERIES[:1], QUERIES, np.tile(QUERIES, (9, 1))[:130]):
            scores = ensemble.scores(queries)
            expected = [-near(torch.from_numpy(own), torch.from_numpy(queries)).mean(0).numpy() if len(own) else np.nan
                        for own in (ensemble._codes[ensemble._owner == t].numpy() for t in range(3))]  # fmt: skip
            mean, deviation = public_embedding(kind.kernel, torch.from_numpy(FAKES), torch.from_numpy(queries))
            for found, own in zip(scores, expected, strict=True):
                np.testing.assert_allclose(found, (own - mean.numpy()) / deviation.numpy(), rtol=1e-4, atol=1e-4)
        assert shapes - public_shapes == {(1024, 64)}


# What teachers say who have nothing to say


def test_empty_parts_and_single_classes_vote_a_constant():
    for kind in KINDS.values():
        empty = trained(make_frame(0), kind)
        assert not empty.votes(QUERIES).any()
        assert np.isnan(empty.scores(QUERIES)).all()
    ill = make_frame(40).assign(ill=True)
    for name in ("forests", "regressions"):
        assert (trained(ill, KINDS[name]).votes(QUERIES) == 1).all()


def test_what_is_not_finite_votes_for_class_0_and_has_no_rank():
    """Also from a teacher whose weights are lost: all of its features were infinite."""

    def broken(codes):
        return one_hot(codes) * float("inf")

    kind = Stacked(module=MLP, features=broken, loss=labels_loss, **SMALL)
    ensemble = trained(make_frame(40), kind)
    assert not ensemble.votes(QUERIES).any()
    for form in ("ranks", "margins"):
        found = Shares(1.0, form).bounded(ensemble, QUERIES)
        np.testing.assert_array_equal(found, np.full(15, 4 / 2 if form == "ranks" else 0.0))
    aggregated = Shares(1.0, "votes").bounded(ensemble, QUERIES)
    np.testing.assert_array_equal(aggregated, np.zeros(15))


def test_an_estimator_that_refuses_its_part_votes_a_constant_and_warns_nobody():
    """Content never raises, nor reaches the console: both would say something of the records."""
    frame = make_frame(60)
    longer = pd.concat(
        [frame, frame.iloc[:1].assign(patient="old", age=95, dose=9.9, stage="II", sex="male", ill=None)],
        ignore_index=True,
    )
    odd = CODEC.encode(longer.iloc[-1:])[0, REST]
    assert not any((rows[:, REST] == odd).all(1).any() for rows in (CODEC.encode(frame), public_rows(CODEC), QUERIES))

    def features(codes):
        found = tabular(codes).astype(float)
        found[(found == odd).all(1)] = np.nan  # which naive Bayes refuses
        return found

    kind = Estimators(estimator=GaussianNB(), features=features, target="ill")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before, after = trained(frame, kind), trained(longer, kind)
        changed = [t for t in range(4) if before._fitted[t] is not None and after._fitted[t] is None]
        assert len(changed) == 1
        assert before.votes(QUERIES)[changed].any()
        assert not after.votes(QUERIES)[changed].any()
        assert np.isnan(after.scores(QUERIES)[changed]).all()


def test_every_estimator_has_chances_of_its_own():
    ensemble = trained(make_frame(200), KINDS["forests"])
    states = [fitted.random_state for fitted in ensemble._fitted]
    assert len(set(states)) == 4
    assert [fitted.random_state for fitted in trained(make_frame(200), KINDS["forests"])._fitted] == states
    assert KINDS["forests"].estimator.random_state is None


class Odd(ClassifierMixin, BaseEstimator):
    """An estimator of whatever habit: what it does is `act(X, y)`, of the part that it was fitted to and of the queries."""

    def __init__(self, predicts=None, fits=None, scores=None, verbose=0):
        self.predicts, self.fits, self.scores, self.verbose = predicts, fits, scores, verbose

    def fit(self, X, y):
        self.y_ = y
        if self.fits is not None:
            self.fits(self, X, y)
        return self

    def predict(self, X):
        return self.predicts(self, X) if self.predicts else np.zeros(len(X), int)

    def predict_proba(self, X):
        return self.scores(self, X) if self.scores else np.full((len(X), 2), 0.5)


def odd(**habits):
    return Estimators(estimator=Odd(**habits), features=tabular, target="ill")


def is_public(own):
    """Whether it was fitted to the public rows of `check`."""
    return len(own.y_) == 2 * len(public_rows(CODEC))


@pytest.mark.parametrize("shape", [(40,), (1,)])
def test_a_prediction_of_many_answers_is_refused_and_in_the_seal_a_constant(shape):
    def many(own, X):
        return np.ones((len(X), *shape), int)

    for what, kind in (
        ("predict", odd(predicts=many)),
        ("score", odd(scores=lambda _, X: np.ones((len(X), 2, *shape)))),
    ):
        with pytest.raises(BadInput, match=f"{what} of estimator Odd must be one number per row"):
            kind.check(CODEC)
    later = odd(
        predicts=lambda own, X: np.ones(len(X), int) if is_public(own) else many(own, X),
        scores=lambda own, X: np.ones((len(X), 2) if is_public(own) else (len(X), 2, *shape)),
    )
    ensemble = trained(make_frame(60), later)
    np.testing.assert_array_equal(ensemble.votes(QUERIES), np.zeros((4, 15)))
    assert np.isnan(ensemble.scores(QUERIES)).all()


def test_no_content_makes_a_fit_or_an_answer_raise():
    """Whatever the error: its message, and that there is one, would tell of the records."""

    class Strange(Exception):
        pass

    def fails(own, *_):
        if not is_public(own):
            raise Strange(f"{len(own.y_)} records")
        return np.zeros(64, int)

    for habits in ({"fits": fails}, {"predicts": fails}):
        assert not trained(make_frame(60), odd(**habits)).votes(QUERIES).any()
    fails_late = odd(scores=lambda own, X: np.ones((len(X), 2)) if is_public(own) else fails(own))
    assert np.isnan(trained(make_frame(60), fails_late).scores(QUERIES)).all()
    # categories of the queries that a part never held: an IndexError of scikit-learn's
    small = Estimators(estimator=CategoricalNB(), features=tabular, target="ill")
    ensemble = trained(make_frame(20), small, 8)
    assert any(not isinstance(fitted, int | None) for fitted in ensemble._fitted)
    with pytest.raises(IndexError):
        [fitted.predict(tabular(QUERIES)) for fitted in ensemble._fitted if not isinstance(fitted, int | None)]
    assert ensemble.votes(QUERIES).shape == (8, 15)


class Sharing(ClassifierMixin, BaseEstimator):
    """Keeps what it learned in the class, so that every clone says what the last one learned."""

    known: ClassVar[dict] = {}

    def fit(self, X, y):
        Sharing.known.update(zip(map(bytes, X), y, strict=True))
        return self

    def predict(self, X):
        return np.array([Sharing.known.get(bytes(row), 0) for row in X])


class Counting(ClassifierMixin, BaseEstimator):
    """Says how many clones were fitted before it."""

    fits: ClassVar[int] = 0

    def fit(self, X, y):  # noqa: ARG002
        self.before_, Counting.fits = Counting.fits, Counting.fits + 1
        return self

    def predict(self, X):
        return np.full(len(X), self.before_ % 3)


def test_clones_that_share_what_they_learn_are_refused():
    """One record would move the votes of all teachers (law 19)."""
    kind = Estimators(estimator=Sharing(), features=tabular, target="ill")
    with pytest.raises(BadInput, match=r"estimator Sharing must depend .* predictions changed after another clone"):
        kind.check(Codec(make_schema()))
    Counting.fits = 0
    counting = Estimators(estimator=Counting(), features=tabular, target="ill")
    with pytest.raises(BadInput, match=r"estimator Counting must depend .* a clone that was fitted twice"):
        counting.check(Codec(make_schema()))
    Estimators(estimator=RandomForestClassifier(5), features=tabular, target="ill").check(Codec(make_schema()))


def test_a_pipeline_leaves_nothing_in_the_folder_of_its_memory(tmp_path):
    memory = tmp_path / "memory"
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(), memory=str(memory))
    ensemble = trained(make_frame(200), Estimators(estimator=pipeline, features=tabular, target="ill"))
    assert ensemble.votes(QUERIES).shape == (4, 15)
    assert not memory.exists()
    assert pipeline.memory == str(memory)


def test_an_estimator_without_scores_is_asked_for_votes_only():
    kind = Estimators(estimator=LogisticRegression(), features=tabular, target="ill")

    class Plain(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):  # noqa: ARG002
            return self

        def predict(self, X):
            return np.ones(len(X), int)

    plain = trained(make_frame(0), Estimators(estimator=Plain(), features=tabular, target="ill"))
    assert plain.votes(QUERIES).shape == (4, 15)
    with pytest.raises(BadInput, match="ask for votes"):
        plain.scores(QUERIES)
    assert trained(make_frame(0), kind).scores(QUERIES).shape == (4, 15)


def chancy():
    """A splitter draws from global chance, as often as the part makes it; so does an estimator, in fit and in predict."""
    split = CalibratedClassifierCV(DecisionTreeClassifier(max_depth=3), cv=ShuffleSplit(3, test_size=0.5))

    def fits(own, _, y):
        own.p_ = [np.random.random(len(y))[-1], random.random(), float(torch.rand(len(y))[-1])]  # noqa: S311

    def scores(own, X):
        return np.tile([0.0, sum(own.p_) + np.random.random() + len(own.y_)], (len(X), 1))

    return [Estimators(estimator=split, features=tabular, target="ill"), odd(fits=fits, scores=scores)]


@pytest.mark.parametrize("kind", [heavy(chancy()[0]), *chancy()[1:]], ids=["splitter", "global"])
def test_global_chance_is_every_teacher_s_own_and_left_as_it_was(kind):
    frame, changes = make_frame(200), set()

    def scores(frame, seed):
        np.random.seed(seed)
        random.seed(seed)
        torch.manual_seed(seed)
        found = trained(frame, kind).scores(QUERIES)
        drawn = np.random.random(), random.random(), float(torch.rand(1))  # noqa: S311
        np.random.seed(seed)
        random.seed(seed)
        torch.manual_seed(seed)
        assert drawn == (np.random.random(), random.random(), float(torch.rand(1)))  # noqa: S311
        return found

    before = scores(frame, 0)
    np.testing.assert_array_equal(before, scores(frame, 1))
    for patient in "abcdef":
        changed = np.flatnonzero((before != scores(more(frame, 1, patient), 0)).any(1))
        assert len(changed) <= 1
        changes |= set(changed)
    assert changes


def test_splitters_are_seeded_by_teacher_and_the_given_one_is_left_alone():
    kind = chancy()[0]
    fitted = trained(make_frame(200), kind)._fitted
    assert len({own.cv.random_state for own in fitted}) == 4
    assert kind.estimator.cv.random_state is None


def test_queries_that_one_teacher_spoils_reach_the_next_as_they_were():
    """In place, a scaler of one part would change what all later teachers are asked."""
    kind = Estimators(
        estimator=make_pipeline(StandardScaler(copy=False), LogisticRegression()),
        features=lambda codes: tabular(codes).astype(float),
        target="ill",
    )
    before = trained(make_frame(60), kind)
    for patient in "abc":
        assert len(differing(before, trained(more(make_frame(60), 3, patient), kind))) <= 1


@pytest.mark.parametrize("nested", [False, True])
def test_estimators_print_nothing_of_the_records(nested, capfd):
    """Losses on the console are exact. Verbose is off, for what prints from below Python, and what is printed all the same is lost."""
    loud = MLPClassifier((4,), max_iter=2, verbose=True)
    loud = make_pipeline(StandardScaler(), loud, verbose=True) if nested else loud
    talks = odd(
        fits=lambda own, *_: print(own.verbose), predicts=lambda _, X: print(X) or np.zeros(len(X), int), verbose=3
    )
    for kind in (Estimators(estimator=loud, features=tabular, target="ill"), talks):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            ensemble = trained(make_frame(60), kind)
            ensemble.votes(QUERIES)
        assert out.getvalue() + err.getvalue() + "".join(capfd.readouterr()) == ""
        for fitted in ensemble._fitted:
            said = {name: value for name, value in fitted.get_params().items() if name.split("__")[-1] == "verbose"}
            assert said
            assert not any(said.values())


# The seal


@pytest.mark.parametrize("name", ["mlp", "forests"])
def test_teachers_open_only_while_a_question_is_answered(name):
    data = opened(make_frame(60))
    teachers = data.partition(4, KINDS[name])
    for act in (lambda: None, teachers.train, lambda: teachers.ask(QUERIES, Shares(0.0))):
        act()
        with pytest.raises(RuntimeError, match="outside a question"):
            teachers._sealed.read()
    assert {key for key in vars(teachers) if not key.startswith("_")} == {"count", "classes"}


def test_training_is_free_and_every_answer_is_charged_before_it(monkeypatch):
    data = Sensitive(make_frame(60), SCHEMA, Account(Budget(50, 1e-5), unit="patient"), seed=1)
    aggregators = [LNMax(0.4), GNMax(3.0), Confident(3.0, 3.0, 3.0, 4), Shares(2.0, "ranks")]
    plan = merged(Entry(event) for aggregator in aggregators for event in aggregator.events(len(QUERIES)))
    data.commit(lambda _: plan)
    teachers = data.partition(4, KINDS["mlp"])
    teachers.train()
    teachers.train()
    assert data.account.ledger.entries() == ()
    booked = []
    for aggregator in aggregators:
        plain = type(aggregator).bounded
        monkeypatch.setattr(
            type(aggregator),
            "bounded",
            lambda own, *rest, plain=plain: booked.append(len(data.account.ledger.entries())) or plain(own, *rest),
        )
        teachers.ask(QUERIES, aggregator)
    assert booked == [1, 2, 4, 5]
    assert data.account.ledger.entries() == data.account.plan
    with pytest.raises(BadInput, match="not in the committed plan"):
        teachers.ask(QUERIES, aggregators[0])


def test_teachers_answer_for_their_own_records_only():
    data, other = opened(make_frame(60)), opened(make_frame(50, seed=5))
    teachers = data.partition(4, KINDS["forests"])
    teachers.train()
    question = teachers.question(QUERIES, Shares(0.0))
    with pytest.raises(BadInput, match="all of the records"):
        other.ask(question)
    records = seal(make_frame(60), SCHEMA, KEY).encoded_by(CODEC)
    with reading(), pytest.raises(BadInput, match="not for a sample"):
        question.bounded(records.take(np.ones(records.units, np.bool_)))


class Own:
    """A kind of teachers, and an aggregator, of somebody else's."""

    def check(self, *_):
        return 2

    def begin(self, *_):
        raise AssertionError("saw records")


def test_kinds_and_aggregators_from_elsewhere_are_refused():
    data = opened(make_frame(60))
    with pytest.raises(BadInput, match="synthdp's own kinds"):
        data.partition(4, Own())
    teachers = data.partition(4, KINDS["forests"])
    teachers.train()
    with pytest.raises(BadInput, match="synthdp's own aggregators"):
        teachers.ask(QUERIES, Own())


def test_under_a_cap_teachers_answer_until_it_is_spent():
    data = Sensitive(make_frame(60), SCHEMA, Account(Budget(5.0, 1e-5), unit="patient"), seed=1)
    cap = Capped("gaussian", 0.5)
    data.commit(lambda _: (Entry(cap),))
    teachers = data.partition(4, KINDS["forests"])
    teachers.train()
    with data.cap(cap) as safe:
        for _ in range(4):
            assert safe.ask(teachers.question(QUERIES, Shares(4.0))).shape == (15,)
        with pytest.raises(BadInput, match="cap"):
            safe.ask(teachers.question(QUERIES, Shares(4.0)))


# Replay

AGGREGATORS = (
    LNMax(0.5),
    GNMax(2.0),
    Counts(2.0),
    Confident(2.0, 1.0, 1.0, 5),
    Interactive(1.0, 1.0, 1.0, 5, np.full((15, 2), 0.5)),
    *(Shares(0.3, form) for form in ("votes", "ranks", "margins")),
)


def played(frame, kind, recorder):
    """Partition, then two rounds of training and of all questions; fakes and queries follow from earlier answers."""
    data = opened(frame, recorder=recorder)
    data.account.book = lambda *_: None  # what is charged has tests of its own
    teachers = data.partition(4, kind)
    fakes, queries = FAKES, QUERIES
    for turn in range(2):
        if turn == 0 or not isinstance(kind, Estimators):
            teachers.train(public(kind, fakes))
        for aggregator in AGGREGATORS:
            answer = teachers.ask(queries, aggregator)
        order = np.argsort(answer)
        fakes, queries = FAKES[::-1][: 10 + int(order[0])], QUERIES[order]
    return recorder


@pytest.mark.parametrize("name", sweep(KINDS, ["mlp", "forests", "awful", "regressions"].__contains__))
@pytest.mark.parametrize(("rows", "bad"), [heavy((0, False)), heavy((1, True)), heavy((60, False)), (60, True)])
def test_replay(name, rows, bad):
    """The answers of a run on D, fed to runs on neighbours: every exact value moves by at most its sensitivity."""
    frame, kind = make_frame(rows, repeats=2), KINDS[name]
    first = played(frame, kind, Recorder())
    extra = {"age": [math.nan, math.inf, 1e30], "dose": -1e30, "sex": "never declared", "ill": None} if bad else {}
    for patient in ("a", "b"):
        second = played(more(frame, 3, patient, **extra), kind, Recorder(of=first))
        assert len(second.asked) == len(first.asked) == 2 * len(AGGREGATORS)
        for moved, sensitivity in second.movements:
            assert moved <= sensitivity


# Bad input


@pytest.mark.parametrize(("moved", "refused"), [(6e-6, False), (6e-3, True)])
def test_what_rounding_leaves_of_a_number_near_zero_is_no_other_record(moved, refused):
    """A product of many terms that cancel moves with the shape of the batch by as much as its largest terms are rounded."""

    def features(codes):
        found = one_hot(codes) * 60
        found[:, 0] = torch.where(found[:, 0] == 0, 0.01 + moved * (len(codes) > 1), found[:, 0])
        return found

    kind = Stacked(module=MLP, features=features, loss=labels_loss, **SMALL)
    with pytest.raises(BadInput, match="treat each record on its own") if refused else contextlib.nullcontext():
        kind.check(CODEC)


def mixing(codes):
    features = one_hot(codes)
    return features - features.mean(0)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Stacked(module=template(nn.Linear(WIDTH, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), features=one_hot,
                         loss=labels_loss), "BatchNorm1d"),
        (lambda: Stacked(module=template(nn.Linear(WIDTH, 4), nn.Dropout(0.5), nn.Linear(4, 2)), features=one_hot,
                         loss=labels_loss), "Dropout"),
        (lambda: Stacked(module=nn.ReLU(), features=one_hot, loss=labels_loss), "no parameters"),
        (lambda: Stacked(module=MLP, features=one_hot, loss=labels_loss, steps=0), "steps"),
        (lambda: Stacked(module=MLP, features=one_hot, loss=labels_loss, batch=0), "batch"),
        (lambda: Stacked(module=MLP, features=one_hot, loss=labels_loss, learning_rate=0.0), "learning_rate"),
        (lambda: Stacked(module=MLP, features=one_hot, loss=labels_loss, optimizer="lbfgs"), "adam, sgd"),
        (lambda: Stacked(module=MLP, features=one_hot, loss=labels_loss, start="zero"), "own, template"),
        (lambda: Stacked(module=MLP, features=mixing, loss=labels_loss).check(CODEC), "on its own"),
        (lambda: Stacked(module=MLP, features=images, loss=labels_loss).check(CODEC), "cannot take the output of features"),
        (lambda: Stacked(module=MLP, features=one_hot, loss=lambda o, _: o.mean()).check(CODEC), "one number per record"),
        (lambda: Estimators(estimator=GaussianNB(), features=tabular, target="none").check(CODEC), "no modelled column"),
        (lambda: Estimators(estimator=GaussianNB(), features=lambda c: c, target="ill").check(CODEC), "leave it out"),
        (lambda: Estimators(estimator=GaussianNB(), features=lambda c: c[:, 0], target="ill").check(CODEC), "shape"),
        (lambda: Estimators(estimator=LogisticRegression(C=-1), features=tabular, target="ill").check(CODEC), "fitted"),
        (lambda: MeanEmbeddings(kernel=lambda codes, queries: torch.full((len(codes), len(queries)), 1 + 1e-6 * len(codes))).check(CODEC),
         "on its own"),
        (lambda: MeanEmbeddings(kernel=lambda codes, queries: (torch.arange(len(codes)) // 40)[:, None].float().expand(-1, len(queries)))
         .check(CODEC), "where a row is in the batch"),
        (lambda: begun(make_frame(9), KINDS["mlp"]).train(FAKES), "no public_loss"),
        (lambda: begun(make_frame(9), KINDS["discriminators"]).train(None), "against public rows"),
        (lambda: begun(make_frame(9), KINDS["forests"]).train(FAKES), "no public rows"),
    ],
)  # fmt: skip
def test_bad_settings_are_one_clear_line(make, word):
    with pytest.raises(BadInput, match=word) as error:
        make()
    assert "\n" not in str(error.value)


def test_bad_queries_and_counts_are_refused_before_they_are_charged():
    data = opened(make_frame(60))
    for count in (0, -1, 2.5, "4"):
        with pytest.raises(BadInput, match="count of teachers"):
            data.partition(count, KINDS["mlp"])
    teachers = data.partition(4, KINDS["mlp"])
    with pytest.raises(BadInput, match="before they were trained"):
        teachers.ask(QUERIES, Shares(0.0))
    teachers.train()
    far = QUERIES.copy()
    far[0, 0] = CODEC.sizes[0]
    for queries in (QUERIES[:, 1:], QUERIES[0], QUERIES[:0], QUERIES.astype(float), far, far - 9):
        with pytest.raises(BadInput, match="queries"):
            teachers.ask(queries, Shares(0.0))
    with pytest.raises(BadInput, match="predictions"):
        teachers.ask(QUERIES, Interactive(1.0, 1.0, 1.0, 5, np.full((3, 2), 0.5)))
    assert data.account.ledger.entries() == ()


def test_more_teachers_than_declared_units_is_warned_of_from_declared_numbers_alone():
    schema = make_schema(units=30)
    for rows in (0, 500):
        with pytest.warns(UserWarning, match="31 teachers share 30 declared units"):
            opened(make_frame(rows), schema=schema).partition(31, KINDS["forests"])
        opened(make_frame(rows), schema=schema).partition(30, KINDS["forests"])


# Resume


@dataclass(frozen=True)
class Totals:
    schema: object
    total: np.ndarray
    seen: tuple

    def sample(self, rows, *, seed=None, first_row=0):
        raise NotImplementedError

    def tensors(self):
        return {"total": self.total}


@dataclass(frozen=True, kw_only=True)
class Taught:
    """A generator in miniature: teachers that are trained on, and asked, in every step."""

    name: ClassVar[str] = "taught"
    traits: ClassVar[Traits] = Traits()
    kind: str = option("mlp", "kind of teachers")
    steps: int = option(8, "steps")

    def validate(self, schema, budget):
        """Nothing to refuse."""

    def plan(self, schema, noise):  # noqa: ARG002
        return (Entry(Vote(noise), 3 * self.steps),)

    def fit(self, data, *, seed=None, progress=None):  # noqa: ARG002
        noise = data.commit(lambda z: self.plan(data.declared, z))
        data.resolve()
        teachers = data.partition(4, KINDS[self.kind])
        saved = data.restored()
        total = np.zeros(15) if saved is None else saved["total"].copy()
        if saved is None and self.kind == "forests":
            teachers.train()
        with reading():
            parts = [tuple(map(tuple, dealt(data._sealed.read(), 4).of(t))) for t in range(4)]
        for step in data.steps(Vote(noise), self.steps, lambda: {"total": total}, times=3):  # noqa: B023
            if self.kind != "forests":
                teachers.train(FAKES if self.kind == "discriminators" else None)
            for _ in range(3):
                total = total + (1 + step) * teachers.ask(QUERIES, Shares(noise, "margins"))
        return Totals(data.schema, total, (tuple(saved or ()), parts))


def fit(folder, *, resume=False, seed=3, schema=SCHEMA, backwards=False, **settings):
    synth = Synthesizer(Taught(**settings), schema=schema, budget=Budget(5.0, 1e-5), trust=__name__)
    files = {"ledger": folder / "ledger.jsonl", "checkpoint": folder / "checkpoint.safetensors"}
    return synth.fit(make_frame(60, repeats=2)[:: -1 if backwards else 1], seed=seed, resume=resume, **files)


def stopped(folder, blocks=3, **settings):
    """A fit that was stopped right after its n-th block was kept."""

    with stopped_after_saving(blocks + 1) as saves:
        fit(folder, **settings)
    return saves[-1]


@pytest.mark.parametrize("kind", ["mlp", *map(heavy, ("sgd, stacks of two", "discriminators", "forests"))])
def test_a_rehearsal_that_is_resumed_has_the_same_teachers(kind, tmp_path):
    whole = fit(tmp_path / "whole", kind=kind)
    kept = stopped(tmp_path / "part", kind=kind)
    assert any(name.startswith("sealed/teachers/0/") for name in kept)
    resumed = fit(tmp_path / "part", resume=True, kind=kind)
    np.testing.assert_array_equal(resumed.model.total, whole.model.total)
    assert resumed.model.seen[0] == ("total",)  # no generator is handed what teachers hold


def test_a_release_that_is_resumed_keeps_its_partition(tmp_path):
    """Its noise is new after a resume, and so would be a key that was drawn again."""
    dealt_before = []
    plain = Sensitive.partition

    def spied(self, count, teacher):
        with reading():
            dealt_before.append([tuple(map(tuple, dealt(self._sealed.read(), 4).of(t))) for t in range(4)])
        return plain(self, count, teacher)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sensitive, "partition", spied)
        stopped(tmp_path / "a", seed=None)
        resumed = fit(tmp_path / "a", resume=True, seed=None)
        stopped(tmp_path / "b", seed=None)
    assert dealt_before[0] == dealt_before[1] == resumed.model.seen[1]
    assert dealt_before[2] != dealt_before[0]  # another fit deals anew


@pytest.mark.parametrize("unit", [{}, {"unit": "patient"}], ids=["records", "patients of whom one record counts"])
def test_a_table_in_another_order_is_not_dealt_again_to_teachers_who_have_learned(tmp_path, unit):
    """The account and the checkpoint take it for the same table, but what names a record is its place."""
    schema = make_schema(**unit)
    stopped(tmp_path, schema=schema)
    with pytest.raises(BadInput, match="rows of the table now stand in another order"):
        fit(tmp_path, schema=schema, resume=True, backwards=True)
    assert fit(tmp_path, schema=schema, resume=True).model.total.any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_teachers_learn_the_same():
    there = Stacked(module=template(*(layer for layer in MLP)).cuda(), features=one_hot, loss=labels_loss, **SMALL)
    np.testing.assert_allclose(
        trained(make_frame(60), there).scores(QUERIES),
        trained(make_frame(60), KINDS["mlp"]).scores(QUERIES),
        rtol=1e-2,
        atol=1e-2,
    )
