"""Kernel teachers on images: how pictures compare, what the student and the network learn of them, and what is refused."""

import numpy as np
import pytest
import torch
from clinic import make_pictures, picture_schema, quick
from stopping import files, same, stopped_before_step
from torch.testing import assert_close

from synthdp import BadInput, Budget, Synthesizer
from synthdp.generators.adversarial.pair_kernel import weights_of
from synthdp.generators.images.image_kernel_rounds import FINE, KernelStudent, MomentMatchingNetwork, coefficients
from synthdp.generators.images.pixel_rows import WHITE, PixelLayout
from synthdp.generators.kernel_teachers_images import KernelTeachersImages
from synthdp.ledger.events import Entry, Vote
from synthdp.schema.codec import Codec
from synthdp.seal.teachers import MeanEmbeddings

BUDGET = Budget(3.0, 1e-5)
CODEC = Codec(picture_schema())
LABEL = CODEC.names.index("finding")
LAYOUT = PixelLayout.of(CODEC, LABEL)


def pictures(rows, seed=0, lead=0):
    """Codes of noise of three classes; the pixels of class 1 are skew where `lead` is not 0."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((rows, len(CODEC.sizes)), np.int64)
    codes[:, LABEL] = rng.integers(0, 3, rows)
    places = CODEC.picture.places
    common = rng.normal(0, 25, (rows, 1)) * np.linspace(0.5, 1.5, 64)
    skew = lead * (rng.exponential(1, (rows, 1)) - 1) * (codes[:, [LABEL]] == 1)
    codes[:, places] = np.clip(128 + common + skew + rng.normal(0, 15, (rows, 64)), 0, 255).round()
    return torch.from_numpy(codes)


def space_of(codes, degree=3):
    values, label = LAYOUT.split(LAYOUT.rows(codes))
    return coefficients(LAYOUT, values, label.argmax(1), torch.full((3,), 1 / 3), degree)


@pytest.fixture(scope="module")
def space():
    return space_of(pictures(3000))


def test_coefficients_are_centred_and_of_unit_variance_within_each_label(space):
    codes = pictures(3000)
    z, labels = space.of(codes) / FINE, codes[:, LABEL]
    for label in range(3):
        own = z[labels == label]
        assert_close(own.mean(0), torch.zeros(24, dtype=torch.float64), atol=2e-3, rtol=0)
        assert_close(own.var(0), torch.ones(24, dtype=torch.float64), atol=2e-2, rtol=0)


def test_codes_and_values_have_the_same_coefficients(space):
    """What teachers see of codes, and what the network descends on."""
    codes = pictures(50, seed=1)
    values, label = LAYOUT.split(LAYOUT.rows(codes))
    assert_close(space.seen(values, label.argmax(1)).double(), space.of(codes) / FINE, atol=2e-3, rtol=0)
    assert float(values.max()) <= 1 < float(codes.max()) / WHITE * 2


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_kernel_is_that_of_its_formula_and_zero_between_labels(degree):
    space = space_of(pictures(1000), degree)
    codes, queries = pictures(20, seed=1), pictures(30, seed=2)
    found = space.kernel(codes, queries)
    for i, x in enumerate((space.of(codes) / FINE).numpy()):
        for j, q in enumerate((space.of(queries) / FINE).numpy()):
            alike = codes[i, LABEL] == queries[j, LABEL]
            assert float(found[i, j]) == pytest.approx(3 * ((1 + x @ q / 24**0.5) ** degree - 1) if alike else 0)


@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (16, 16, 3)])
def test_teachers_take_the_kernel_whatever_the_size_of_pictures(shape):
    """The seal's own check: the same bits alone, together, and wherever a record is in a batch."""
    schema = picture_schema(
        columns={
            "image": {"kind": "image", "height": shape[0], "width": shape[1], "channels": shape[2]},
            "finding": {"kind": "categorical", "categories": ["none", "left", "right"]},
        }
    )
    codec = Codec(schema)
    layout = PixelLayout.of(codec, codec.names.index("finding"))
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.random((300, layout.pixels), dtype=np.float32) ** 3)
    space = coefficients(layout, values, torch.from_numpy(rng.integers(0, 3, 300)), torch.full((3,), 1 / 3), 3)
    assert MeanEmbeddings(kernel=space.kernel).check(codec) == 2
    codes = torch.from_numpy(rng.integers(0, codec.sizes, (40, len(codec.sizes))))
    z = (space.of(codes)).numpy()
    assert np.array_equal(z, np.rint(z))
    exact = [sum(int(a) * int(b) for a, b in zip(row, space.lens[:, 0].long(), strict=True)) for row in codes[:, :-1]]
    found = (codes[:, layout.start : layout.start + layout.pixels].double() @ space.lens)[:, 0]
    assert found.long().tolist() == exact  # whole numbers below 2^53: no order of the sum rounds


def embedded(space, codes, weights, among):
    """Values of sum of weights k(., code) at other codes."""
    return space.kernel(among, codes) @ weights


def test_the_distance_is_that_of_the_differences_of_mean_embeddings(space):
    """Against sums over all pairs, one by one."""
    made, given, queries = pictures(12, seed=1), pictures(12, seed=2), pictures(9, seed=3)
    made[:, LABEL] = given[:, LABEL]
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=9))
    student = KernelStudent(
        space=space, queries=(space.of(queries) / FINE).float(), labels=queries[:, LABEL], weights=weights.float()
    )
    expected = 0.0
    for i in range(12):
        for j in range(12):
            if i != j:
                for one, sign in ((made, 1), (given, -1)):
                    for other, back in ((made, 1), (given, -1)):
                        expected += sign * back * float(space.kernel(one[[i]], other[[j]])) / (12 * 11)
    expected -= 2 * float((embedded(space, queries, weights, made) - embedded(space, queries, weights, given)).mean())
    values = [LAYOUT.split(LAYOUT.rows(codes))[0] for codes in (made, given)]
    assert float(student.distance(*values, given[:, LABEL])) == pytest.approx(expected, rel=5e-3)
    assert float(student.distance(values[1], values[1], given[:, LABEL])) == pytest.approx(0, abs=1e-4)


@pytest.mark.heavy
def test_the_student_recovers_exact_evaluations():
    """Without noise, and with more queries than features (324 a label), it tells records from the start as they are, at
    pictures that nobody asked about; what noise drowns it takes for nothing."""
    space = space_of(pictures(1000), degree=2)
    records, start = pictures(2000, seed=4, lead=30), pictures(2000, seed=5)
    queries, others = pictures(1500, seed=6), pictures(200, seed=7)

    def difference(codes):
        return space.kernel(records, codes).mean(0) - space.kernel(start, codes).mean(0)

    weights = weights_of(space.kernel(queries, queries), difference(queries), torch.full((1500,), 1e-6).double())
    found, exact = embedded(space, queries, weights, others), difference(others)
    assert float((found - exact).norm() / exact.norm()) < 0.1
    drowned = weights_of(space.kernel(queries, queries), difference(queries), torch.full((1500,), 1e3).double())
    assert float(embedded(space, queries, drowned, others).norm() / exact.norm()) < 0.05


def test_a_network_that_is_no_nearer_gives_way_to_the_start():
    schema = picture_schema()
    release = Synthesizer(quick("kernel_teachers_images", "images"), schema=schema, budget=BUDGET).fit(
        make_pictures(150), seed=1
    )
    source = release.model.source

    class TrainedNetwork:
        def __init__(self):
            self.source, self.random = source, torch.Generator().manual_seed(0)
            self.beginning = lambda values, _: values
            self.g_average = lambda values, _: 1 - values

        def given(self, rows):
            values, label, codes = self.source.draw(rows, self.random)
            return values, label, label, codes

        def finish(self):
            return self.g_average

    network, codes = TrainedNetwork(), pictures(5)
    space = space_of(pictures(500))
    student = KernelStudent(
        space=space, queries=(space.of(codes) / FINE).float(), labels=codes[:, LABEL], weights=torch.zeros(5)
    )
    assert MomentMatchingNetwork(network, 1.0).finish(student) is network.beginning


def test_plans_hold_one_event_a_vote_and_the_starts_share():
    settings = quick("kernel_teachers_images", "images", rounds=3, tables=0.75)
    *start, votes = settings.plan(picture_schema(), 2.0)
    assert votes == Entry(Vote(2.0, "gaussian"), 3)
    own = sum(entry.count * entry.event.noise**-2 for entry in start)
    assert own / (own + 3 / 4) == pytest.approx(0.75)


@pytest.mark.heavy
@pytest.mark.parametrize("number", [5, 25])
def test_a_fit_stopped_while_it_learns_loses_no_answer_and_no_step(number, tmp_path):
    """Law 23 in a rehearsal: killed in a round, after its answer, the same model comes out as if it had not been."""

    def fit(folder, *, resume=False):
        synth = Synthesizer(quick("kernel_teachers_images", "images"), schema=picture_schema(), budget=BUDGET)
        return synth.fit(make_pictures(150), seed=3, resume=resume, **files(folder))

    with stopped_before_step(MomentMatchingNetwork, number):
        fit(tmp_path / "stopped")
    same(fit(tmp_path / "stopped", resume=True), fit(tmp_path / "whole"))


def test_teachers_follow_from_public_numbers():
    assert KernelTeachersImages().teachers_of(4000) == 1000
    assert KernelTeachersImages(teachers=7).teachers_of(4000) == 7
    with pytest.raises(BadInput, match="units"):
        KernelTeachersImages().validate(picture_schema(units=None), BUDGET)
    KernelTeachersImages(teachers=5).validate(picture_schema(units=None), BUDGET)


def test_pictures_without_a_label_and_with_other_columns():
    columns = {
        "image": {"kind": "image", "height": 8, "width": 8},
        "finding": {"kind": "categorical", "categories": ["none", "left", "right"]},
        "sex": {"kind": "categorical", "categories": ["female", "male"]},
    }
    frame = make_pictures(150).drop(columns="patient").assign(sex="male")
    schema = picture_schema(columns=columns, targets=[])
    sample = (
        Synthesizer(quick("kernel_teachers_images", "images"), schema=schema, budget=BUDGET)
        .fit(frame, seed=1)
        .sample(30, seed=1)
    )
    schema.validate(sample, "error")
