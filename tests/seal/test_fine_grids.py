"""Records on finer grids than their declared bins: what is asked by declared codes answers the same; the rest is refused."""

import numpy as np
import pytest
from clinic import make_frame, make_schema

from synthdp import BadInput, Budget
from synthdp.ledger.events import RECORD, Entry, Gaussian
from synthdp.ledger.ledger import Ledger
from synthdp.seal.charging import Account
from synthdp.seal.choice import Dependence
from synthdp.seal.door import Sensitive
from synthdp.seal.records import reading

SCHEMA, BUDGET = make_schema(), Budget(float("inf"), 1e-5)


def resolved(cells, rows=300):
    account = Account(BUDGET, Ledger(), unit=RECORD)
    data = Sensitive(make_frame(rows), SCHEMA, account, seed=0)
    data.commit(lambda _: (Entry(Gaussian(0.0), 50),))
    data.resolve(cells=cells)
    return data


def test_tables_by_declared_codes_do_not_depend_on_the_grid():
    plain, fine = resolved(0), resolved(500)
    cliques = [("age",), ("dose", "ill"), ("seen", "stage", "age")]
    pairs = [
        None if name != "age" else np.arange(size) // 2
        for name, size in zip(plain.codec.names, plain.codec.sizes, strict=True)
    ]
    for groups in (None, pairs):
        for one, other in zip(
            plain.ask(plain.tables(cliques, 0.0, groups)), fine.ask(fine.tables(cliques, 0.0, groups)), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_distances_and_choices_go_by_declared_codes():
    plain, fine = resolved(0), resolved(500)
    cliques, expected = [("age", "ill"), ("dose", "ill")], [np.full((5, 2), 9.0), np.full((6, 2), 9.0)]
    assert plain.distance(cliques, expected, 0.0) == fine.distance(cliques, expected, 0.0)
    with reading():
        one, other = (data.choice(cliques, Dependence(), 1.0).bounded(data._sealed.read()) for data in (plain, fine))
    np.testing.assert_array_equal(one, other)


def test_fine_tables_add_up_to_declared_ones():
    data = resolved(500)
    (fine,) = data.ask(data.tables([("age", "ill")], 0.0, fine=True))
    (declared,) = data.ask(data.tables([("age", "ill")], 0.0))
    way = data.fine.coarse()[data.codec.names.index("age")]
    added = np.zeros_like(declared)
    np.add.at(added, way, fine)
    np.testing.assert_array_equal(added, declared)
    assert fine.shape == (100, 2)
    assert (fine.sum(1) == np.bincount(make_frame(300)["age"], minlength=100)).all()


def test_what_would_read_fine_codes_is_refused_before_it_is_charged():
    data = resolved(500)
    charged = data.account.ledger.charges
    with pytest.raises(BadInput, match="Sums cannot be asked of records that were resolved with `cells`"):
        data.sum(lambda codes: codes[:, :, 0].sum(1), 1, 1.0, 1.0)
    with pytest.raises(BadInput, match="Sums cannot be asked"), data.sample(0.5) as batch:
        batch.sum(lambda codes: codes[:, :, 0].sum(1), 1, 1.0, 1.0)
    with pytest.raises(BadInput, match="teachers"):
        data.partition(2, None)
    assert data.account.ledger.charges == charged


def test_records_that_were_encoded_stay_as_they_are():
    data = resolved(0)
    data.resolve(cells=500)
    assert data.fine is data.codec
