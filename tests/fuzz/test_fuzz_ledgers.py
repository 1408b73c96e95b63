"""Ledgers: lines edited with their chain made anew, bytes flipped, and events that no fit books, through every accountant; and what
a stopped fit keeps beside its ledger."""

import hashlib
import json
from pathlib import Path

import pytest
from clinic import chained
from fuzzing import NUMBERS, WRONG, edited, flipped, fuzz
from hypothesis import strategies as st

from synthdp import accounting
from synthdp.ledger.ledger import Ledger
from synthdp.seal.resume import Answers, Checkpoint

COMPAT = Path(__file__).parents[1] / "compat" / "format1"
KEPT = sorted(COMPAT.glob("**/*.jsonl"))
STOPPED = sorted((COMPAT / "checkpoints").glob("**/*.safetensors*"))
pytestmark = pytest.mark.fuzz


def use(path, delta=1e-6):
    accounting.answers(Ledger.read(path).entries(), delta)


def test_edited_lines(tmp_path):
    held = [[json.loads(line) for line in path.read_text("utf-8").splitlines() if line.endswith("}")] for path in KEPT]

    def prop(rows):
        path = tmp_path / "a.jsonl"
        path.write_text(chained(rows), "utf-8")
        use(path)

    fuzz(prop, rows=st.sampled_from(held).flatmap(edited))


def test_flipped_bytes(tmp_path):
    def prop(data):
        path = tmp_path / "b.jsonl"
        path.write_bytes(data)
        use(path)

    fuzz(prop, data=st.sampled_from(KEPT).flatmap(lambda path: flipped(path.read_bytes())))


def kind(name, **fields):
    return st.fixed_dictionaries({"type": st.just(name), "relation": RELATIONS, "unit": st.just("record"), **fields})


RELATIONS = st.shared(st.sampled_from(["add_remove", "replace_one"]), key="relation")
POSITIVE = st.one_of(NUMBERS, st.floats(1e-3, 1e3), st.floats(0, 1), st.integers(1, 50))
RATES = st.one_of(st.floats(0, 1), st.sampled_from([1e-300, 1e-9, 1e-5, 0.01, 0.5, 1 - 1e-16, 1.0, 0.0]))
PLAIN = st.one_of(
    kind("Gaussian", noise=POSITIVE),
    kind("Laplace", noise=POSITIVE),
    kind("Choice", epsilon=POSITIVE),
    kind("Threshold", noise=POSITIVE, delta=RATES, categories=st.integers(0, 10**12)),
    kind("Vote", noise=POSITIVE, law=st.sampled_from(["gaussian", "laplace"])),
    kind("SmoothGaussian", noise=POSITIVE, beta=POSITIVE),
)
CAPS = kind(
    "Capped", filter=st.sampled_from(["gaussian", "zcdp", "renyi"]), bound=POSITIVE, order=POSITIVE, delta=RATES
)
SAMPLED = kind(
    "Sampled",
    rate=RATES,
    queries=st.lists(PLAIN, max_size=3),
    sampler=st.sampled_from(["poisson", "without_replacement", "shuffle"]),
)
COUNTS = st.one_of(st.integers(0, 100), st.sampled_from([10**4, 10**6, 10**9]))
ENTRY = st.fixed_dictionaries({"event": st.one_of(PLAIN, CAPS, SAMPLED), "count": COUNTS})
SELECTED = kind(
    "Selection", mean=POSITIVE, shape=POSITIVE, candidates=st.lists(st.lists(ENTRY, max_size=3), max_size=3)
)
ENTRIES = st.lists(
    st.one_of(ENTRY, st.fixed_dictionaries({"event": SELECTED, "count": COUNTS})), min_size=1, max_size=4
)


def test_events_that_no_fit_books(tmp_path):
    def prop(rows, delta):
        path = tmp_path / "c.jsonl"
        path.write_text(chained(rows), "utf-8")
        use(path, delta)

    fuzz(prop, rows=ENTRIES, delta=st.sampled_from([1e-6, 1e-300, 0.5, 1 - 1e-12, 1e-18]))


def test_what_a_stopped_fit_keeps(tmp_path):
    def prop(data, facts):
        path = tmp_path / "checkpoint.safetensors"
        path.write_bytes(data)
        Checkpoint(path, {}).load(Ledger())
        record = json.dumps({"__metadata__": {"synthdp": json.dumps(facts)}}).encode()
        blob = len(record).to_bytes(8, "little") + record
        path.write_bytes((len(blob).to_bytes(8, "little") + hashlib.sha256(blob).digest() + blob) * 2)
        Answers(path, {}).load(Ledger())

    data = st.sampled_from(STOPPED).flatmap(lambda path: flipped(path.read_bytes()))
    facts = st.one_of(
        WRONG, edited({"of": {}, "line": 0, "question": {"type": "x"}, "answer": {"list": [{"float": "0x1p1"}]}})
    )
    fuzz(prop, data=data, facts=facts)
