"""`data.cap`: adaptive questions under a privacy filter (law 11)."""

import math

import numpy as np
import pytest
from clinic import make_frame, make_schema

from synthdp import BadInput, Budget, accounting
from synthdp.ledger.events import Capped, Entry, Gaussian
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.replay import Recorder
from synthdp.seal.vectors import Group

BUDGET = Budget(1.0, 1e-5)


def capped(filter, noise):
    bound = 1 / noise if filter == "gaussian" else 1 / (2 * noise * noise)
    return Capped(filter, bound if filter != "renyi" else 24 * bound, order=24.0 if filter == "renyi" else 0.0)


def opened(filter="gaussian", frame=None, recorder=None):
    data = Sensitive(
        make_frame(300) if frame is None else frame, make_schema(), Account(BUDGET), seed=1, recorder=recorder
    )
    noise = data.commit(lambda z: (Entry(capped(filter, z)),))
    return data, capped(filter, noise)


def adaptive(data, cap):
    """Ever finer questions about whatever looked largest so far, until the filter says stop; returns how many it got."""
    names, asked = ["sex", "stage", "ill"], 0
    noise = 40.0
    with data.cap(cap) as safe:
        while True:
            try:
                table = safe.marginals([(names[asked % 3],)], noise)[0]
            except BadInput:
                return asked
            asked += 1
            noise = max(5.0, noise * (0.8 if table[0] > table[-1] else 1.1))


@pytest.mark.parametrize("filter", ["gaussian", "zcdp", "renyi"])
def test_a_cap_stops_the_analyst_and_is_charged_whole(filter):
    data, cap = opened(filter)
    assert adaptive(data, cap) > 3
    assert data.account.ledger.entries() == data.account.plan == (Entry(cap),)
    assert 0.95 <= accounting.best(data.account.ledger, 1e-5)[1] <= 1.0


def test_a_cap_is_charged_though_nothing_was_asked():
    data, cap = opened()
    with data.cap(cap):
        pass
    assert data.account.ledger.entries() == (Entry(cap),)
    with pytest.raises(BadInput, match="committed plan"), data.cap(cap):
        pass


def test_every_event_of_a_question_is_spent():
    data, cap = opened()

    def ones(codes):
        return np.ones((len(codes), 1))

    with data.cap(cap) as safe:
        before = safe.left
        safe.sums([Group(ones, 1, 1.0, 20.0), Group(ones, 1, 1.0, 30.0)])
        assert safe.left == pytest.approx(before - 1 / 400 - 1 / 900)


def test_a_refused_question_reads_nothing_and_leaves_the_rest():
    data, cap = opened()
    recorder = Recorder()
    data._recorder = recorder
    with data.cap(cap) as safe:
        before = safe.left
        with pytest.raises(BadInput, match="would exceed"):
            safe.marginals([("sex",)], 0.1)
        assert recorder.asked == []
        assert safe.left == before
        safe.marginals([("sex",)], 20.0)
        assert safe.left == pytest.approx(before - 1 / 400)
    with pytest.raises(BadInput, match="closed"):
        safe.marginals([("sex",)], 20.0)


@pytest.mark.parametrize("filter", ["gaussian", "zcdp", "renyi"])
def test_a_refused_question_of_several_events_spends_none_of_them(filter):
    """The events before the one that did not fit stayed spent, though the question was not answered."""
    data, cap = opened(filter)

    def ones(codes):
        return np.ones((len(codes), 1))

    recorder = data._recorder = Recorder()
    with data.cap(cap) as safe:
        before, lines = safe.left, data.account.ledger.lines
        with pytest.raises(BadInput, match="would exceed"):
            safe.sums([Group(ones, 1, 1.0, 20.0), Group(ones, 1, 1.0, 0.1)])
        with pytest.raises(BadInput, match="would exceed"):
            safe.sums([Group(ones, 1, 1.0, 20.0)] * 40)
        assert (safe.left, data.account.ledger.lines, recorder.asked) == (before, lines, [])


def test_the_analyst_branches_on_noisy_answers_only():
    """Replay under a cap: given the answers, a neighbour is asked the very same, and every table moves by its bound."""
    frame = make_frame(301)
    first = Recorder()
    data, cap = opened(frame=frame.iloc[:-1], recorder=first)
    asked = adaptive(data, cap)
    second = Recorder(of=first)
    data, cap = opened(frame=frame, recorder=second)
    assert adaptive(data, cap) == asked
    assert all(moved <= sensitivity for moved, sensitivity in second.movements)


def test_an_infinite_budget_has_no_bound():
    data = Sensitive(make_frame(20), make_schema(), Account(Budget(math.inf, 1e-5)), seed=1)
    noise = data.commit(lambda z: (Entry(Gaussian(z)),))
    assert noise == 0.0
