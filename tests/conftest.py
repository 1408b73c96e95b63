"""What the suites share."""

import os

# Tests run side by side, and so do processes that they start: threads that outnumber the cores wait for each other. Libraries
# read this when they are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from clinic import make_frame, make_schema

from synthdp import Budget

torch.set_num_threads(1)
LONGEST = (
    "test_black_box",
    "test_mutants",
    "test_contract",
    "test_white_box",
    "test_accounting_laws",
    "test_accounting_reference",
    "test_readme",
    "test_stopped",
    "test_cli",
)


def pytest_collection_modifyitems(items):
    """Files that take minutes come first, so that no process is left alone with one of them at the end."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(LONGEST)))


@pytest.fixture(autouse=True, scope="session")
def home(tmp_path_factory):
    """Accounts of named data sets are kept in a folder of the test's own; processes that tests start inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNTHDP_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture
def schema():
    return make_schema()


@pytest.fixture
def frame():
    return make_frame(400)


@pytest.fixture
def budget():
    return Budget(epsilon=1.0, delta=1e-5)
