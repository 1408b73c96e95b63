"""Rows of the small ward, for every test of the evaluation."""

import pandas as pd
import pytest
from patients import make_frame, make_schema

from synthdp.schema.schema import Schema


@pytest.fixture(scope="session")
def schema() -> Schema:
    return make_schema()


@pytest.fixture(scope="session")
def train() -> pd.DataFrame:
    return make_frame(600, 1)


@pytest.fixture(scope="session")
def test() -> pd.DataFrame:
    return make_frame(400, 2)
