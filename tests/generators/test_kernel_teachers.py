"""Kernel teachers: what they ask, what the student learns, and what is refused."""

import numpy as np
import pytest
import torch
from clinic import make_frame, make_schema, quick
from stopping import files, same, stopped_after_saving, stopped_before_step
from sweeps import heavy

from synthdp import BadInput, Budget, Schema, Synthesizer, api, generators
from synthdp.api import settings_of as api_settings
from synthdp.generators.adversarial.pair_kernel import interactions, learnt
from synthdp.generators.adversarial.table_generator_network import TableGeneratorNetwork
from synthdp.generators.kernel_teachers import KernelTeachers
from synthdp.generators.parts.table_networks import Blocks
from synthdp.generators.pategan import PATEGAN
from synthdp.ledger.events import Entry, Gaussian, Vote
from synthdp.ledger.ledger import Ledger
from synthdp.schema.codec import Codec
from synthdp.seal.teachers import MeanEmbeddings
from synthdp.seal.teachers.mean_embeddings import compared
from synthdp.seal.teachers.protocols import Parts

BUDGET = Budget(3.0, 1e-5)
NAME = "kernel_teachers"


def even_space(schema, blocks, label):
    labels = 1 if label is None else blocks.sizes[label]
    columns = torch.cat([torch.full((size,), 1 / size) for size in blocks.sizes]).expand(labels, -1)
    return interactions(schema, blocks, label, columns, torch.full((labels,), 1 / labels), degree=2, floor=0.02)


@pytest.fixture
def space():
    schema = make_schema()
    sizes = Codec(schema).sizes
    return even_space(schema, Blocks(sizes), len(sizes) - 1), sizes


def rows_of(sizes, rows, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.stack([rng.integers(0, size, rows) for size in sizes], 1))


def test_the_kernel_is_the_product_of_interactions(space):
    """k(x, q) = <moments of x, moments of q> over pairs of different columns, and 0 between labels."""
    space, sizes = space
    codes, queries = rows_of(sizes, 7), rows_of(sizes, 9, seed=1)

    def moments(row):
        one = row[None]
        return space.moments(space.blocks.one_hot(one), space.labels_of(one), torch.ones(1))

    found = space.kernel(codes, queries)
    for i, row in enumerate(codes):
        for j, query in enumerate(queries):
            expected = float((moments(row) * moments(query)).sum()) / 2
            assert float(found[i, j]) == pytest.approx(expected, rel=1e-4, abs=1e-4)
            assert found[i, j] == 0 or row[-1] == query[-1]


def test_features_are_centred_and_orthonormal_under_their_tables():
    schema = make_schema()
    sizes = Codec(schema).sizes
    space = even_space(schema, Blocks(sizes), None)
    for place, block in enumerate(space.blocks.slices):
        columns = (space.owner[:-1] == place).nonzero()[:, 0]
        features = space.maps[0][block][:, columns]
        torch.testing.assert_close(features.mean(0), torch.zeros(len(columns)), atol=1e-5, rtol=0)
        if schema.modelled[place].kind in ("integer", "continuous", "ordinal", "datetime"):
            gram = features.T @ features / len(features)
            torch.testing.assert_close(gram, torch.eye(len(columns)), atol=1e-4, rtol=0)


def test_the_student_recovers_exact_evaluations(space):
    """Without noise, and with more queries than there are interactions, it is the records' mean interactions."""
    space, sizes = space
    records, queries = rows_of(sizes, 400, seed=2), rows_of(sizes, 1500, seed=3)
    answers = space.kernel(records, queries).double().mean(0)
    found = learnt(space, queries, answers, torch.full((1500,), 1e-6, dtype=torch.float64))
    hot = space.blocks.one_hot(records)
    exact = space.moments(hot, space.labels_of(records), torch.full((400,), 1 / 400))
    assert float((found - exact).norm() / exact.norm()) < 0.1


def test_a_mean_embedding_is_over_its_own_records_alone(space):
    space, sizes = space
    codes = rows_of(sizes, 30).numpy().astype(np.int32)
    queries, generated = rows_of(sizes, 11, seed=1), rows_of(sizes, 200, seed=2)
    kind = MeanEmbeddings(kernel=space.kernel)
    starts, counts = np.array([0, 10, 10]), np.array([10, 0, 20])
    ensemble = kind.begin(Parts(codes, starts, counts), None, 2, b"")
    with pytest.raises(BadInput, match="generated"):
        ensemble.train(None)
    ensemble.train(generated.numpy())
    found = ensemble.scores(queries.numpy())
    against = space.kernel(generated, queries).double()
    own = space.kernel(torch.from_numpy(codes[10:]), queries).double()
    expected = (own.mean(0) - against.mean(0)) / against.std(0, correction=0)
    np.testing.assert_allclose(found[2], expected.numpy(), rtol=1e-4, atol=1e-6)
    assert np.isnan(found[1]).all()
    # Another teacher's part grows: not a bit of the first one's answers moves.
    more = np.concatenate([codes[:10], codes[:3], codes[10:]])
    other = kind.begin(Parts(more, np.array([0, 10, 13]), np.array([10, 3, 20])), None, 2, b"")
    other.train(generated.numpy())
    np.testing.assert_array_equal(other.scores(queries.numpy())[[0, 2]], found[[0, 2]])


@pytest.mark.heavy
def test_what_goes_together_is_learnt_from_votes():
    """Two columns that agree in nine rows of ten, which no one-way table knows of; more than the tables alone say."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 4000)
    second = np.where(rng.random(4000) < 0.9, first, 1 - first)
    frame = make_frame(4000).assign(sex=np.where(first, "male", "female"), ill=second.astype(bool))
    schema = make_schema(units=4000)
    settings = {"start": "columns", "steps": 250, "queries": 300, "hidden": (32,), "rounds": 1}
    release = Synthesizer(NAME, schema=schema, budget=BUDGET, **settings).fit(frame, seed=1)
    sample = release.sample(4000, seed=1)
    assert ((sample["sex"] == "male") == sample["ill"]).mean() > 0.7


@pytest.mark.parametrize("start", ["label", "columns", "none"])
def test_plans_hold_one_event_a_round(start):
    settings = quick(NAME, start=start)
    *tables, votes = settings.plan(make_schema(), 2.0)
    assert len(tables) == (start != "none")
    assert votes == Entry(Vote(2.0), 2)
    if tables:
        precision = votes.count / 4
        own = tables[0].event.noise ** -2
        assert isinstance(tables[0].event, Gaussian)
        assert own / (own + precision) == pytest.approx(0.5)


@pytest.mark.heavy
def test_a_fit_stopped_while_it_learns_loses_no_answer_and_no_step(tmp_path):
    """Killed in the middle of a round, after its answer: the same model comes out as if it had not been."""

    def fit(folder, *, resume=False):
        synth = Synthesizer(quick(NAME), schema=make_schema(), budget=BUDGET)
        seen, kept = [], files(folder)
        release = synth.fit(
            make_frame(150), seed=3, resume=resume, progress=lambda step, steps, _: seen.append((step, steps)), **kept
        )
        return release, seen

    whole, all_seen = fit(tmp_path / "whole")
    assert all_seen[-1] == (80, 80)
    for number in (10, 50):  # generator steps of the first round, and of the second
        with stopped_before_step(TableGeneratorNetwork, number):
            fit(tmp_path / str(number))
        resumed, seen = fit(tmp_path / str(number), resume=True)
        assert seen[-1] == (80, 80)
        same(resumed, whole)


@pytest.mark.heavy
@pytest.mark.parametrize("generator", [NAME, "pategan_original"])
def test_a_stopped_fit_goes_on_as_if_it_had_not_been(generator, tmp_path):
    """Law 23 in a rehearsal, teachers included: same parts, same states, same model."""

    def fit(folder, *, resume=False):
        synth = Synthesizer(quick(generator, start="columns"), schema=make_schema(), budget=BUDGET)
        return synth.fit(make_frame(150), seed=3, resume=resume, **files(folder))

    with stopped_after_saving(2):
        fit(tmp_path / "stopped")
    same(fit(tmp_path / "stopped", resume=True), fit(tmp_path / "whole"))


@pytest.mark.parametrize(("kind", "records"), [(KernelTeachers, 8), (PATEGAN, 4)])
def test_the_number_of_teachers_follows_from_public_numbers(kind, records):
    assert kind().teachers_of(4000) == 4000 / records
    assert kind().teachers_of(3) == 2
    assert kind(teachers=7).teachers_of(4000) == 7
    with pytest.raises(BadInput, match="units"):
        kind(start="none").validate(make_schema(units=None), BUDGET)
    kind().validate(make_schema(units=None), BUDGET)  # the tables tell a noisy total


@pytest.mark.parametrize("generator", [NAME, "pategan", "pategan_original"])
def test_more_teachers_than_declared_units_are_refused_before_the_charge(generator):
    units = make_schema().units
    generators.find(generator)(teachers=units).validate(make_schema(), BUDGET)
    with pytest.raises(BadInput, match=f"generator.teachers={units + 1}: .* declares only {units} units"):
        generators.find(generator)(teachers=units + 1).validate(make_schema(), BUDGET)


@pytest.mark.parametrize("targets", [["ill"], []])
@pytest.mark.parametrize(
    ("generator", "settings"),
    [
        (NAME, {"start": "columns"}),
        heavy(("pategan_original", {"start": "columns"})),
        *(heavy(("pategan", changes)) for changes in ({"start": "columns"}, {"units": 0}, {"replay": 1})),
    ],
)
def test_with_and_without_a_target(generator, settings, targets):
    schema = make_schema(targets=targets)
    release = Synthesizer(quick(generator, **settings), schema=schema, budget=BUDGET).fit(make_frame(200), seed=1)
    schema.validate(release.sample(50, seed=1), "error")


@pytest.mark.parametrize("seed", range(3))
def test_a_kernels_answer_to_a_query_does_not_depend_on_the_other_queries(seed):
    """Bit by bit, in calls of the teachers' shape: a wide table, two labels, noisy distributions."""
    columns = {f"v{place}": {"kind": "continuous", "bounds": [-5, 5]} for place in range(29)}
    schema = Schema.from_dict({"columns": {**columns, "ill": {"kind": "boolean"}}})
    blocks, label = Blocks(Codec(schema).sizes), Codec(schema).names.index("ill")
    drawn = torch.Generator().manual_seed(seed)
    shares = torch.rand(2, blocks.width, generator=drawn)
    space = interactions(schema, blocks, label, shares, torch.tensor([0.9, 0.1]), degree=4, floor=0.02)
    codes = torch.stack([torch.randint(0, size, (300,), generator=drawn) for size in blocks.sizes], 1)
    whole = compared(space.kernel, codes, codes[:64])
    for few in (63, 57, 40, 17, 3):
        assert torch.equal(compared(space.kernel, codes, codes[:few]), whole[:, :few])
        assert torch.equal(compared(space.kernel, codes[few:], codes[:64]), whole[few:])


def test_a_fit_that_began_before_a_setting_was_renamed_goes_on(tmp_path, monkeypatch):
    """Which fit a checkpoint belongs to is told by the names of its settings, too."""
    made = Synthesizer(quick(NAME, start="columns", steps=2), schema=make_schema(), budget=BUDGET)
    names = {"student_weight": "witness_weight"}
    with monkeypatch.context() as older:
        older.setattr(generators, "SETTINGS", {})
        older.setattr(
            api, "settings_of", lambda of: {names.get(name, name): value for name, value in api_settings(of).items()}
        )
        with stopped_after_saving(1):
            made.fit(make_frame(60), seed=3, **files(tmp_path / "stopped"))
    charged = Ledger.read(tmp_path / "stopped" / "ledger.jsonl").entries()
    release = made.fit(make_frame(60), seed=3, resume=True, **files(tmp_path / "stopped"))
    assert release.ledger.entries()[: len(charged)] == charged
    same(release, made.fit(make_frame(60), seed=3))
