"""Gradients of records whose table stays on a device (`elsewhere.py`): the sums of the CPU, and what is copied and waited for."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from clinic import make_frame, make_schema
from elsewhere import DEVICE, elsewhere
from gradient_sums import clipped_gradient_sum
from torch import nn

from synthdp.schema.codec import Codec
from synthdp.seal import records as store
from synthdp.seal.clipping import Automatic, PerGroup
from synthdp.seal.gradients.bound import Bound
from synthdp.seal.gradients.question import Counted, Gradient
from synthdp.seal.processes import Together
from synthdp.seal.records import seal

ALONE, PATIENTS = make_schema(), make_schema(unit="patient", max_records_per_unit=3)
RULES = {"flat": {}, "automatic": {"rule": Automatic()}, "layers": {"rule": PerGroup()}, "means": {"microbatches": 7}}


def records(schema, rows=60):
    return seal(make_frame(rows, repeats=2), schema, b"k" * 32).encoded_by(Codec(schema))


def network(*, tied=False):
    """With `tied` a weight is used twice, which book-keeping cannot follow."""
    torch.manual_seed(0)
    layers = [nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh()]
    return nn.Sequential(*layers, *(layers[2:] if tied else []), nn.Linear(5, 1))


def loss(module, codes):
    """Of the oldest it is not finite."""
    return module(codes.double())[:, 0] * torch.where(codes[:, 0] == 4, torch.inf, 1.0)


def half(data):
    return data.take(np.arange(data.units) % 2 == 0)


@pytest.mark.heavy
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("schema", [ALONE, PATIENTS], ids=["records", "patients"])
@pytest.mark.parametrize("resident", [True, False])
def test_sums_and_counts_are_those_of_the_cpu(schema, rule, tied, resident, monkeypatch):
    monkeypatch.setattr(store, "RESIDENT", 1 << 30 if resident else 0)
    answers = []
    for there in (False, True):
        data = half(half(records(schema)))
        question = Gradient(network(tied=tied), loss, 0.5, 1.0, **RULES[rule])
        if there:
            with elsewhere(monkeypatch) as mode:
                question = replace(question, module=question.module.to(DEVICE))
                sums, count = Counted(question, 1.0).bounded(data)
                assert sums.flat.device == DEVICE
                assert mode.waits.keys() == {"bound.py:within"}  # nothing but the count, which is noised on the CPU
                answers.append((sums.flat.cpu(), count))
        else:
            sums, count = Counted(question, 1.0).bounded(data)
            answers.append((sums.flat, count))
    (one, first), (other, second) = answers
    assert torch.equal(one, other)
    assert first == second
    assert one.abs().sum() > 0


@pytest.mark.parametrize("schema", [ALONE, PATIENTS], ids=["records", "patients"])
def test_the_table_is_copied_once_and_then_only_places(schema, monkeypatch):
    data = records(schema)
    codes = data.encoded()
    places = 8 if schema is ALONE else 24  # bytes of a record: its row; of patients its slot, and which slots are held
    with elsewhere(monkeypatch) as mode:
        question = Gradient(network().to(DEVICE), loss, 0.5, 1.0)
        before = mode.sent
        question.bounded(data)
        whole = mode.sent - before
        assert whole >= codes.nbytes
        for _ in range(3):
            before, sample = mode.sent, half(data)
            question.bounded(sample)
            assert mode.sent - before == places * len(sample.owner)
    np.testing.assert_array_equal(codes, records(schema).encoded())  # nobody wrote to it


def test_another_table_is_never_answered_from_the_copy_of_the_first(monkeypatch):
    data = records(ALONE)
    with elsewhere(monkeypatch):
        assert torch.equal(data.encoded_on(DEVICE).cpu(), torch.from_numpy(data.encoded()))
        other = replace(data, codes=data.encoded()[::-1].copy())
        assert torch.equal(other.encoded_on(DEVICE).cpu(), torch.from_numpy(other.encoded()))
        assert torch.equal(half(data).encoded_on(DEVICE).cpu(), torch.from_numpy(half(data).encoded()))


def test_what_is_taken_of_a_sample_is_what_is_taken_of_its_rows():
    data = records(PATIENTS)
    again, codes = half(half(data)), data.encoded()
    units = np.arange(data.units)[::2][::2]
    np.testing.assert_array_equal(again.encoded(), codes[np.isin(data.owner, units)])
    np.testing.assert_array_equal(again.keys, data.keys[units])
    padded, mask = again.padded()
    np.testing.assert_array_equal(padded[mask], again.encoded())
    assert not padded[~mask].any()


def test_units_that_are_left_out_are_left_out_either_way(monkeypatch):
    """On the CPU the pass that leaves units out is made where there are some; on a device always."""
    rows, module = torch.randn(40, 6, generator=torch.Generator().manual_seed(1)), network()
    rows[7] = torch.inf
    for given in (rows, rows[:5]):
        asked = {"records": given, "mask": None, "clip": 0.5}
        expected = clipped_gradient_sum(module, lambda own, x: own(x)[:, 0], **asked)
        with elsewhere(monkeypatch):
            moved = {**asked, "records": given.to(DEVICE)}
            found = clipped_gradient_sum(network().to(DEVICE), lambda own, x: own(x)[:, 0], **moved)
            assert torch.equal(found.flat.cpu(), expected.flat)


def test_a_count_over_several_passes_adds_up_in_order():
    bound = Bound(1.0, counting=True)
    squares = torch.rand(300, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 2
    total = 0.0
    for part in squares.split(100):
        bound.count(part)
        alone = Bound(1.0, counting=True)
        alone.count(part)
        total += alone.within
    assert bound.within == total
    assert bound.within == bound.within


def test_the_sum_over_processes_is_where_the_gradient_is(monkeypatch):
    """Of a group that is a stand-in, in which the other process holds the same."""
    with elsewhere(monkeypatch):
        there = torch.arange(6, dtype=torch.float64).to(DEVICE)
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
        monkeypatch.setattr(torch.distributed, "get_backend", lambda: "gloo")
        monkeypatch.setattr(torch.distributed, "all_reduce", lambda flat: flat.mul_(2))
        (found, plain) = Together().total([there, there.cpu().numpy()])
        assert found.device == DEVICE
        assert torch.equal(found.cpu(), 2 * torch.arange(6, dtype=torch.float64))
        np.testing.assert_array_equal(plain, 2 * np.arange(6))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("schema", [ALONE, PATIENTS], ids=["records", "patients"])
def test_on_a_gpu_sums_are_those_of_the_cpu(schema):
    data = half(records(schema))
    here = Gradient(network(), loss, 0.5, 1.0).bounded(data)
    there = Gradient(network().cuda(), loss, 0.5, 1.0).bounded(data)
    assert there.flat.is_cuda
    torch.testing.assert_close(there.flat.cpu(), here.flat, rtol=1e-6, atol=1e-9)
