"""A release of linked tables with numbers below visits from before these were drawn by levels: it samples the rows that it sampled.

`linked` was made at a7675a24 by a rehearsal (`histories`, rounds=1, iterations=5, pairs=1, epsilon 3, seed 1) of sixty people of
`linked_clinic`, with `labs`. Its CSV files are `sample_tables(12, seed=1)` there. Nothing in it is written again.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthdp import load, verify
from synthdp.errors import BadInput
from synthdp.generators.histories import restored

HERE = Path(__file__).parent / "linked"


def test_numbers_below_visits_are_drawn_as_they_were(tmp_path):
    release = load(HERE / "release")
    verify(HERE / "release")
    assert not release.model.levels
    again = load(release.save(tmp_path / "release"))
    for made in (release, again):
        sample = made.sample_tables(12, seed=1)
        for name, frame in sample.items():
            frame.to_csv(tmp_path / f"{name}.csv", index=False)
            now, then = (pd.read_csv(folder / f"{name}.csv") for folder in (tmp_path, HERE))
            pd.testing.assert_frame_equal(now, then)


def test_levels_are_not_added_to_it():
    release = load(HERE / "release")
    tensors = {**release.model.tensors(), "levels.0": np.tile([1.0, 2, 3, 4, 5], (3, 1))}
    with pytest.raises(BadInput, match="altered"):
        restored(release.schema, tensors)
