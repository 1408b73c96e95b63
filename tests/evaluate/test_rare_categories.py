"""Associations do not change because synthetic rows lack a rare category."""

from dataclasses import replace

import numpy as np
import pytest

from synthdp.evaluate import answers, association
from synthdp.evaluate.tables import Axis, Table


def test_a_rare_category_that_synthetic_rows_lack_changes_no_association() -> None:
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 5000).astype(float)
    clinic = np.where(rng.random(5000) < 0.4, sex, rng.integers(0, 4, 5000))
    axes = tuple(
        Axis(name=name, kind="category", low=0.0, high=float(many - 1), levels=tuple("abcd"[:many]))
        for name, many in (("sex", 3), ("clinic", 4))
    )
    real = Table(axes=axes, values=np.stack([sex, clinic], 1))
    real.values[:10, 0] = 2  # 0.2 %
    made = replace(real, values=real.values[10:])
    found = association.difference(made, real, real)
    assert found is not None
    assert found["synthetic"][0][1] == pytest.approx(found["train"][0][1], abs=0.01)
    assert found["train"][0][1] == pytest.approx(association.associations(made)[0, 1], abs=0.01)


def test_the_headline_tells_of_lost_associations_beside_invented_ones() -> None:
    lost, invented = "loses 9 strong associations", "invents a strong association"
    assert answers._chief([lost, invented]) == f"{lost} and {invented}"
    assert answers._chief([lost]) == lost
    assert not answers._chief([])
