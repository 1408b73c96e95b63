"""Rules of a schema say nothing to PATE: it labels public records as they are."""

import numpy as np
import pytest
from pate.pate_tables import accuracy, fitted, problem, problem_schema

from synthdp.pate import load


@pytest.mark.heavy
def test_rules_change_nothing(tmp_path):
    rules = ["x <= y", {"always": {"side": "left"}}]
    made, plain = fitted(schema=problem_schema(rules=rules)), fitted()
    assert accuracy(made) == accuracy(plain) > 0.85
    made.save(tmp_path / "release")
    np.testing.assert_array_equal(
        load(tmp_path / "release", student=made.student).predict(problem(50, 4)), made.predict(problem(50, 4))
    )
