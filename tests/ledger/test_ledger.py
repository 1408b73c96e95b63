"""The ledger: durable before it answers, chained, never saying less than was charged (laws 22, 23, 25)."""

import json
import math
import os

import pytest

from synthdp.accounting import epsilon
from synthdp.errors import BadInput
from synthdp.ledger import events as module
from synthdp.ledger import ledger as ledgers
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import (
    EVENTS,
    Capped,
    Choice,
    Entry,
    Event,
    Gaussian,
    Laplace,
    Revealed,
    Sampled,
    Selection,
    SmoothGaussian,
    Threshold,
    Vote,
    from_json,
    merged,
    to_json,
)
from synthdp.ledger.ledger import Ledger

ALL = (
    Gaussian(noise=1.25, relation="replace_one", unit="patient_id"),
    Laplace(noise=0.1),
    Choice(epsilon=1 / 3),
    Threshold(noise=3.0, delta=1e-300, categories=4),
    Sampled(rate=0.1, queries=(Gaussian(noise=1.0), Sampled(rate=0.5, queries=(Laplace(noise=2.0),)))),
    Sampled(rate=1.0, queries=(), sampler="shuffled"),
    Vote(noise=10.0, law="laplace"),
    SmoothGaussian(noise=3.0, beta=0.01),
    Gaussian(noise=math.inf),
    Capped(filter="renyi", bound=0.5, order=12.0, delta=1e-9, relation="replace_one"),
    Revealed(reason="a steward's look, ünïcode\nand a line break"),
    Selection(3.0, 1.0, ((Entry(Gaussian(2.0), 4), Entry(Sampled(0.1, (Gaussian(1.0),)), 9)), (Entry(Laplace(5.0)),))),
)


def test_every_event_comes_back_from_json():
    assert {type(event) for event in ALL} == {kind for kind in EVENTS.values() if kind.__module__ == module.__name__}
    for event in ALL:
        assert from_json(json.loads(json.dumps(to_json(event)))) == event


@pytest.mark.parametrize(
    "values", [{"type": "Nobody"}, {}, {"type": "Gaussian"}, {"type": "Gaussian", "noise": 1, "x": 2}]
)
def test_unknown_events_and_fields_are_refused(values):
    with pytest.raises(BadInput):
        from_json(values)


def written(path):
    ledger = Ledger(path)
    for event in ALL[:4]:
        ledger.append(event, 3)
    ledger._write({"unused": 2, "line": 1})  # as older versions gave back what was not asked
    ledger.append(ALL[3], 1)
    return ledger


def test_round_trip(tmp_path):
    ledger = written(tmp_path / "new" / "ledger.jsonl")
    again = Ledger.read(tmp_path / "new" / "ledger.jsonl")
    assert (
        again.entries()
        == ledger.entries()
        == (*(Entry(ALL[0], 3), Entry(ALL[1], 1), Entry(ALL[2], 3), Entry(ALL[3], 4)),)
    )
    assert again.head == ledger.head != Ledger().head


def test_a_line_is_on_disk_before_append_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    for lines in (1, 2, 3):
        synced.clear()
        ledger.append(ALL[0])
        assert path.stat().st_size in synced
        assert Ledger.read(path).entries() == (Entry(ALL[0], lines),)


def test_interrupted_while_its_file_is_opened_a_ledger_can_be_closed(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    ledger = Ledger(tmp_path / "ledger.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(ledgers.weakref, "finalize", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.append(ALL[0])
    ledger.close()


def test_a_ledger_is_never_written_over(tmp_path):
    written(tmp_path / "ledger.jsonl")
    with pytest.raises(BadInput, match="exists"):
        Ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(BadInput, match="no ledger"):
        Ledger.read(tmp_path / "other.jsonl")


def test_torn_at_every_byte_never_says_less(tmp_path):
    """A crash at any point of the last write: the reader charges all that was answered, or everything."""
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.append(Gaussian(noise=2.0), 2)
    answered = epsilon(ledger, 1e-5)
    size = path.stat().st_size
    ledger.append(Gaussian(noise=1.0), 5)
    whole = path.read_bytes()
    for length in range(size, len(whole) + 1):
        path.write_bytes(whole[:length])
        spent = epsilon(Ledger.read(path), 1e-5)
        if length == size:
            assert spent == answered
        elif length >= len(whole) - 1:  # only the line break may be missing
            assert spent == epsilon(ledger, 1e-5)
        else:
            assert spent == math.inf


def test_a_fit_that_goes_on_is_charged_for_a_torn_line(tmp_path):
    """In full where its count can be read, else for as much of its plan as one line would charge."""
    path, plan = tmp_path / "ledger.jsonl", (Entry(Gaussian(noise=2.0), 2), Entry(Gaussian(noise=1.0), 40))
    ledger = Ledger(path)
    ledger.append(plan[0].event, 2)
    size = path.stat().st_size
    ledger.append(plan[1].event, 5)
    ledger.close()
    whole = path.read_bytes()
    for length in range(size + 1, len(whole), 6):
        path.write_bytes(whole[:length])
        resumed = Ledger.resume(path)
        resumed.mend(plan)
        resumed.close()
        counted = length - size >= len('{"count":5,')
        assert Ledger.read(path).booked() == (plan[0], Entry(plan[1].event, 5 if counted else 2))


@pytest.mark.parametrize("rest", [b"\x00" * 40, b"\xff\xfe{", b"5", b"[]", b'"text"', b"{}"])
def test_garbage_at_the_end_is_everything_or_refused(tmp_path, rest):
    path = tmp_path / "ledger.jsonl"
    written(path)
    path.write_bytes(path.read_bytes() + rest)
    try:
        found = Ledger.read(path)
    except BadInput:
        return
    assert epsilon([entry for entry in found.entries() if isinstance(entry.event, Revealed)], 1e-5) == math.inf


def test_interior_edits_are_detected(tmp_path):
    path = tmp_path / "ledger.jsonl"
    written(path)
    rows = path.read_text().splitlines(keepends=True)
    edits = {
        "noise": [rows[0].replace("1.25", "9.25"), *rows[1:]],
        "count": [rows[0], rows[1].replace('"count":3', '"count":1'), *rows[2:]],
        "removed": [*rows[:2], *rows[3:]],
        "first removed": rows[1:],
        "swapped": [rows[1], rows[0], *rows[2:]],
        "repeated": [*rows, rows[-1]],
        "torn inside": [rows[0][:20] + "\n", *rows[1:]],
        "field added": [rows[0].replace("{", '{"extra":1,', 1), *rows[1:]],
    }
    for name, edited in edits.items():
        assert edited != rows, name
        path.write_text("".join(edited))
        with pytest.raises(BadInput, match="line"):
            Ledger.read(path)


def test_the_head_detects_truncation(tmp_path):
    path = tmp_path / "ledger.jsonl"
    head = written(path).head
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert Ledger.read(path).head != head


def test_a_ledger_that_charged_something_is_never_discarded(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.append(ALL[0])
    ledger.discard(refused=True)
    assert Ledger.read(path).entries() == (Entry(ALL[0]),)


def test_lines_of_older_versions_that_give_back_are_read(tmp_path):
    ledger = Ledger()
    line = ledger.append(ALL[0], 10)
    ledger._write({"unused": 4, "line": line})
    assert ledger.entries() == (Entry(ALL[0], 6),)
    ledger._write({"unused": 6, "line": line})
    assert ledger.entries() == ()
    ledger._write({"unused": 1, "line": line})
    with pytest.raises(BadInput, match="more than it charged"):
        ledger.entries()


def test_counts_below_zero_are_refused():
    with pytest.raises(BadInput, match="count"):
        Ledger().append(ALL[0], -1)


def test_the_released_copy_is_canonical(tmp_path):
    ledger = written(tmp_path / "internal.jsonl")
    ledger.write(tmp_path / "one.jsonl")
    Ledger.of(ledger.entries()).write(tmp_path / "two.jsonl")
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert Ledger.read(tmp_path / "one.jsonl").entries() == ledger.entries()
    assert "unused" not in (tmp_path / "one.jsonl").read_text()


def test_merging_keeps_order_and_drops_nothing():
    a, b = ALL[0], ALL[1]
    assert merged([Entry(a), Entry(a, 2), Entry(b, 0), Entry(a), Entry(b), Entry(a)]) == (
        *(Entry(a, 4), Entry(b, 1), Entry(a, 1)),
    )


def test_plug_in_events_are_read_back(tmp_path, monkeypatch):
    from dataclasses import dataclass

    monkeypatch.setattr(module, "EVENTS", dict(EVENTS))

    @module.register
    @dataclass(frozen=True)
    class Coin(Event):
        bias: float

    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(Coin(bias=0.25), 2)
    assert Ledger.read(tmp_path / "ledger.jsonl").entries() == (Entry(Coin(bias=0.25), 2),)


@pytest.mark.parametrize(("epsilon", "delta"), [(10**400, 1e-6), (-(10**400), 1e-6), (1.0, 5e-324), (1.0, 1e-301)])
def test_a_budget_that_no_float_computes_is_refused_by_name(epsilon, delta):
    with pytest.raises(BadInput, match=r"budget\.(epsilon|delta) must"):
        Budget(epsilon, delta)
    assert Budget(1.0, 1e-300).delta == 1e-300
