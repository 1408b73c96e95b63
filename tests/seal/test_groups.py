"""Several groups from one sample: joint clipping, statistics beside gradients, microbatches (McMahan, Andrew et al. 2018)."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_frame, make_schema
from gradient_sums import per_unit_reference
from modules import loss as softplus
from modules import make
from scipy.stats import kstest, norm

from synthdp import BadInput, Budget, accounting
from synthdp.ledger.events import Entry, Gaussian, Sampled
from synthdp.ledger.ledger import Ledger
from synthdp.noise.noise import Noise
from synthdp.schema.codec import Codec
from synthdp.seal.charging import Account
from synthdp.seal.clipping import Automatic, PerGroup
from synthdp.seal.door import Sensitive
from synthdp.seal.gradients import FLAT
from synthdp.seal.gradients.question import Counted, Gradient, Together, dealt
from synthdp.seal.learn import Size
from synthdp.seal.records import Records, seal
from synthdp.seal.vectors import Group, Joint, Scaled, Sums, clipped_sum

SCHEMA = make_schema(unit="patient", max_records_per_unit=3)
CODEC = Codec(SCHEMA)
WIDTH = 12


def records(frame):
    return seal(frame, SCHEMA, b"k" * 32).encoded_by(CODEC)


def plain(rows, keys=None):
    """Records of one row each whose codes are the floats themselves."""
    units = len(rows)
    keys = np.arange(units, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) if keys is None else keys
    return Records(units=units, owner=np.arange(units), raw=None, codes=rows, max_records=1, keys=keys)


def rows_of(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)


def long(codes):
    return codes[:, :2].astype(float) * 3 + 1


def tall(codes):
    return codes[:, 2:3].astype(float) - 2


JOINT = Joint((Scaled(long, 2, alpha=2.0), Scaled(tall, 1, alpha=0.25)), 1.5, 2.0)


def test_joint_clipping_by_hand():
    data = records(make_frame(40, repeats=2))
    total = np.zeros(3)
    for unit in range(data.units):
        codes = data.codes[data.owner == unit]
        vector = np.concatenate([long(codes).sum(0) / 2.0, tall(codes).sum(0) / 0.25])
        total += vector * min(1, 1.5 * (1 - 1e-4) / np.linalg.norm(vector))
    assert JOINT.bounded(data) == pytest.approx(total)
    one, other = JOINT.noised(JOINT.bounded(data), Noise(1))
    silent = replace(JOINT, noise=0.0)
    exact = silent.noised(silent.bounded(data), Noise(1))
    assert exact[0] / 2.0 == pytest.approx(total[:2])
    assert exact[1] / 0.25 == pytest.approx(total[2:])
    assert (one.shape, other.shape) == ((2,), (1,))
    assert list(JOINT.events) == [Gaussian(2.0)]


def test_a_million_units_are_added_up_nearly_exactly():
    """One by one the rounding grows with their number: 3 million units moved a sum further than the ten-thousandth that is left."""
    rows = np.full((10**6, 2), 0.1)
    found = clipped_sum(plain(rows), Group(lambda codes: codes, 2, 1.0, 1.0))
    assert abs(found - math.fsum(rows[:, 0])).max() < 1e-8


def test_joint_noise_is_its_charge_times_alpha():
    data, noise = records(make_frame(0)), Noise(2)
    answers = [JOINT.noised(JOINT.bounded(data), noise) for _ in range(1500)]
    assert kstest(np.ravel([one for one, _ in answers]), norm(0, 2.0 * 1.5 * 2.0).cdf).pvalue > 1e-4
    assert kstest(np.ravel([other for _, other in answers]), norm(0, 2.0 * 1.5 * 0.25).cdf).pvalue > 1e-4


def test_separate_groups_book_what_combines_and_joint_ones_a_single_event():
    apart = Sums((Group(long, 2, 1.0, 2.0), Group(tall, 1, 1.0, 3.0), Group(tall, 1, 5.0, 6.0)))
    plan = (Entry(Sampled(0.1, tuple(apart.events)), 50),)
    joint = (Entry(Sampled(0.1, (Gaussian(1.6035674514),)), 50),)
    assert accounting.epsilon(plan, 1e-5) == pytest.approx(accounting.epsilon(joint, 1e-5), rel=1e-6)


def module():
    return make("linear", 1)[0]


def real(module, codes):
    return softplus(module, codes.float())


RULES = {"flat": FLAT, "automatic": Automatic(), "per layer": PerGroup(noise="dimension")}


@pytest.mark.parametrize("rule", RULES)
def test_microbatches_by_hand_and_dealt_by_the_units_own_keys(rule):
    data = plain(rows_of(50))
    question = Gradient(module(), real, 0.5, 1.0, RULES[rule], 8, deal=3)
    together, counts = dealt(data, 8, 3)
    padded, held = together.padded()
    assert counts.sum() == 50
    assert sorted(map(bytes, padded[held])) == sorted(map(bytes, data.codes))
    expected = per_unit_reference(
        module(), real, torch.from_numpy(padded), torch.from_numpy(held), 0.5, RULES[rule], torch.from_numpy(counts)
    )
    for name, value in question.bounded(data).items():
        torch.testing.assert_close(value.double(), expected[name], rtol=1e-4, atol=1e-6)


def test_where_a_unit_is_dealt_depends_on_no_other_unit():
    data = plain(rows_of(200))
    place = {}
    for chosen in (np.ones(200, bool), np.arange(200) % 3 > 0, np.arange(200) > 120):
        part = data.take(chosen)
        together, _ = dealt(part, 16, 5)
        for row, owner in zip(together.codes, together.owner, strict=True):
            assert place.setdefault(bytes(row), owner) == owner
    moved = dealt(data, 16, 6)[0]
    assert any(place[bytes(row)] != owner for row, owner in zip(moved.codes, moved.owner, strict=True))
    sizes = np.concatenate([dealt(data, 16, deal)[1] for deal in range(200)])
    assert sizes.mean() == pytest.approx(200 / 16)
    assert sizes.var() == pytest.approx(200 / 16 * 15 / 16, rel=0.2)  # binomial: as good as independent coins


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("counting", [False, True])
def test_a_unit_moves_dealt_gradients_by_at_most_twice_the_clip(rule, counting):
    data = plain(rows_of(60))
    gradient = Gradient(module(), real, 0.5, 1.0, RULES[rule], 4)
    question = Counted(gradient, 3.0) if counting else gradient
    furthest = 0.0
    for seed in range(20):
        extra = 10 * rows_of(1, 100 + seed)
        extra[0, 0] = [9.0, np.inf, np.nan, 1e30][seed % 4]
        more = plain(np.concatenate([data.codes, extra]), np.append(data.keys, np.uint64(seed * 977 + 1)))
        before, after = question.bounded(data), question.bounded(more)
        assert question.movement(before, after) <= question.sensitivity
        if not counting:
            furthest = max(furthest, question.movement(before, after))
    assert question.sensitivity == (math.sqrt(2) if counting else 1.0)
    assert counting or furthest > 0.5  # more than the clip alone


class Unknown(torch.nn.Module):
    """A layer that book-keeping does not know."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, rows):
        return rows.double() @ self.weight


def test_a_gradient_without_a_norm_is_counted_in_its_own_microbatch_alone():
    """Microbatches that hold no unit have a gradient of zero, whatever is in the others."""
    question = Counted(Gradient(Unknown(), lambda module, rows: module(rows).sqrt(), 1.0, 1.0, microbatches=16), 1.0)
    rows = np.ones((3, WIDTH), np.float32)
    rows[0] = 0.0  # the root has no slope there
    keys = np.arange(3, dtype=np.uint64)
    without = question.bounded(plain(rows[1:], keys[1:]))
    assert question.movement(question.bounded(plain(rows, keys)), without) <= question.sensitivity


def test_the_noise_of_microbatches_is_twice_the_clip_s():
    question = Gradient(module(), real, 0.5, 2.0, FLAT, 4)
    data, noise = plain(rows_of(0)), Noise(3)
    exact = question.bounded(data)
    draws = torch.cat([question.noised(exact, noise).flat for _ in range(20)]).double().numpy()
    assert kstest(draws, norm(0, 2.0 * 2 * 0.5).cdf).pvalue > 1e-4
    assert list(question.events) == [Gaussian(2.0)]


def test_the_reference_s_microbatch_row():
    """`tfp_stmt`: a deviation of 2 clips and microbatches are the noise 1 at which 1.199 is published."""
    question = Gradient(module(), real, 0.5, 1.0, FLAT, 4)
    assert question.noise * question.sensitivity == 2 * question.clip
    plan = (Entry(Sampled(0.0064, tuple(question.events)), 782),)
    assert accounting.epsilon(plan, 1e-6) == pytest.approx(1.1986507746750674, abs=1e-3)


def test_group_noise_of_a_gradient_is_by_the_layout():
    rule = PerGroup(shares=(3.0, 1.0), noise="dimension")
    question = Gradient(module(), real, 0.5, 2.0, rule)
    data, noise = plain(rows_of(0)), Noise(4)
    exact = question.bounded(data)
    answers = [question.noised(exact, noise) for _ in range(60)]
    sizes = {"0": 12 * 9 + 9, "2": 9 + 1}
    for layer, share in (("0", 3.0), ("2", 1.0)):
        draws = torch.cat([answer[f"{layer}.{kind}"].flatten() for answer in answers for kind in ("weight", "bias")])
        deviation = 2.0 * math.sqrt(sum(sizes.values()) / sizes[layer]) * 0.5 * share / math.hypot(3, 1)
        assert kstest(draws.double().numpy(), norm(0, deviation).cdf).pvalue > 1e-4


def together(deviation=2.0):
    gradient = Gradient(module(), real, 0.5, 2.0)
    losses = Group(lambda codes: real(module(), torch.from_numpy(codes)).detach().numpy()[:, None], 1, 1.0, 8.0)
    return Together((Counted(gradient, deviation), Sums((losses,))))


def test_statistics_beside_a_gradient_are_those_asked_alone():
    data, question = plain(rows_of(80)), together()
    (sums, count), (losses,) = question.bounded(data)
    alone = Gradient(module(), real, 0.5, 2.0).bounded(data)
    assert torch.equal(sums.flat, alone.flat)
    by_hand = real(module(), torch.from_numpy(data.codes)).detach().numpy().clip(0, 1 - 1e-4).sum()
    assert losses[0] == pytest.approx(by_hand, rel=1e-5)
    assert -40 <= count <= 40
    assert list(question.events) == [Gaussian(2.0), Gaussian(4.0), Gaussian(8.0)]


def test_the_count_s_noise_is_what_is_charged():
    """A sum of bits of one half with deviation sigma_b is a Gaussian of noise 2 sigma_b."""
    question, data, noise = Counted(Gradient(module(), real, 0.5, 2.0), 2.0), plain(rows_of(0)), Noise(5)
    exact = question.bounded(data)
    assert kstest([question.noised(exact, noise)[1] for _ in range(2000)], norm(0, 2.0).cdf).pvalue > 1e-4
    dealt_out = Counted(Gradient(module(), real, 0.5, 2.0, FLAT, 4), 2.0)
    assert list(dealt_out.events) == [Gaussian(2.0), Gaussian(2.0)]


def test_a_sample_books_all_its_parts_as_one_event():
    rate, queries = 0.3, (Gaussian(2.0), Gaussian(4.0), Gaussian(8.0))
    event = Sampled(rate, queries)
    account = Account(Budget(math.inf, 1e-5), Ledger())
    data = Sensitive(make_frame(50), make_schema(), account, seed=1)
    data.commit(lambda _: (Entry(event, 2),))
    data.resolve()
    small = torch.nn.Sequential(torch.nn.Linear(len(Codec(make_schema()).sizes), 1))

    def own(module, codes):
        return module(codes.float()).squeeze(1)

    question = Together((Counted(Gradient(small, own, 0.5, 2.0), 2.0), Sums((Group(lambda c: c[:, :1], 1, 1.0, 8.0),))))
    with data.sample(rate) as batch:
        (sums, count), (total,) = batch.ask(question)
    assert list(sums) == ["0.weight", "0.bias"]
    assert math.isfinite(count)
    assert total.shape == (1,)
    assert account.ledger.entries() == (Entry(event),)


def test_adaptive_clipping_as_a_whole_costs_what_the_total_noise_does():
    """The reference row `adaptive_clip`: gradient and count together are a Gaussian of noise 1.1."""
    queries = (Gaussian((1.1**-2 - (2 * 5.0) ** -2) ** -0.5), Gaussian(2 * 5.0))
    assert accounting.epsilon((Entry(Sampled(0.01, queries), 1000),), 1e-5) == pytest.approx(1.51537, abs=1e-3)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Together(()),
        lambda: Together((Size(1.0),)),
        lambda: Joint((), 1.0, 1.0),
        lambda: Scaled(long, 2, alpha=0.0),
        lambda: Joint((Scaled(long, 2),), -1.0, 1.0),
        lambda: Gradient(module(), real, 1.0, 1.0, FLAT, 0),
        lambda: Counted(Gradient(module(), real, 1.0, 1.0), 0.0),
    ],
)
def test_questions_that_make_no_sense_are_refused(bad):
    with pytest.raises(BadInput):
        bad()


def test_a_foreign_part_is_refused():
    class Sly(Sums):
        pass

    with pytest.raises(BadInput, match="Sly"):
        Together((Sly((Group(long, 2, 1.0, 1.0),)),))


def test_awful_units_of_several_records_move_groups_by_at_most_their_sensitivity():
    frame = make_frame(30, repeats=3)
    extra = make_frame(5, seed=99).assign(patient="p-new", age=1e30, dose=math.inf, sex="never declared")
    before, after = records(frame), records(pd.concat([frame, extra], ignore_index=True))
    net = torch.nn.Sequential(torch.nn.Linear(len(CODEC.sizes), 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    gradient = Gradient(net, lambda m, codes: m(codes.float()).squeeze(1), 0.5, 1.0, PerGroup(), 3)
    for question in (JOINT, Together((JOINT, Counted(gradient, 1.0)))):
        moved = question.movement(question.bounded(before), question.bounded(after))
        assert 0 < moved <= question.sensitivity
