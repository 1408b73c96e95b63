"""Tables counted by groups of codes: the same as counting codes and adding up, at the same sensitivity."""

import numpy as np
import pytest
from clinic import make_frame, make_schema

from synthdp import Budget
from synthdp.errors import BadInput
from synthdp.ledger.events import Entry, Gaussian
from synthdp.ledger.ledger import Ledger
from synthdp.seal.charging import Account
from synthdp.seal.door import Sensitive
from synthdp.seal.marginals import Marginals
from synthdp.seal.records import reading


@pytest.fixture
def data():
    schema = make_schema()
    sealed = Sensitive(make_frame(400), schema, Account(Budget(1e9, 1e-5), Ledger()), seed=0)
    sealed.commit(lambda noise: (Entry(Gaussian(noise)),))
    sealed.resolve()
    return sealed


def groups_of(codec):
    return [np.arange(size) // 2 if size > 2 else None for size in codec.sizes]


def test_counting_by_groups_is_adding_up(data):
    codec = data.codec
    cliques, groups = [("age",), ("stage", "ill"), ("dose", "sex", "ill")], groups_of(codec)
    whole, parts = data.tables(cliques, 1.0), data.tables(cliques, 1.0, groups)
    with reading():
        records = data._sealed.read()
        wide, narrow = whole.bounded(records), parts.bounded(records)
    for clique, table, found in zip(cliques, wide, narrow, strict=True):
        for axis, name in enumerate(clique):
            group = groups[codec.names.index(name)]
            if group is not None:
                ends = np.flatnonzero(np.diff(group, prepend=-1))
                table = np.add.reduceat(table, ends, axis=axis)
        assert np.array_equal(table, found)
    assert parts.sensitivity == whole.sensitivity == np.sqrt(3)
    assert list(parts.events) == list(whole.events)


@pytest.mark.parametrize("group", [np.zeros(3, np.int64), np.array([-1, 0])])
def test_a_grouping_that_does_not_fit_is_refused(group):
    with pytest.raises(BadInput, match="grouping must give each of a column's 2 codes"):
        Marginals(((0,),), (2,), 1.0, 1, (group,))
