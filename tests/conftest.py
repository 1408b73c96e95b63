"""What the suites share."""

import collections
import gc
import itertools
import os

# Tests run side by side, and so do processes that they start: threads that outnumber the cores wait for each other. Libraries
# read this when they are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # of the few that are asked for: they sleep while they wait

import pytest

gc.disable()  # until tests are collected: what is imported stays, and to look for garbage among it takes a third of the time


def pytest_collection_finish():
    """In a process that runs tests. The one that deals them out to others needs none of what they import, so it starts without."""
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # what has been imported and collected by now is not looked through again
    gc.enable()


def pytest_terminal_summary(terminalreporter):
    """What was skipped, by name, beside its reason."""
    skipped = collections.defaultdict(set)
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        skipped[reason.removeprefix("Skipped: ")].add(report.nodeid.partition("[")[0])
    for reason, names in sorted(skipped.items()):
        terminalreporter.write_line(f"skipped ({reason}): {' '.join(sorted(names))}")


HOMES = itertools.count()


@pytest.fixture(scope="session")
def homes(tmp_path_factory):
    return tmp_path_factory.mktemp("homes")


def own_home(homes):
    """The user's data folder, which lists accounts and keeps those of named sets: one that no other test has, and that is not made
    before it is needed. Processes that tests start inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SYNTHDP_HOME", str(homes / str(next(HOMES))))
        yield


home_of_a_module = pytest.fixture(autouse=True, scope="module")(own_home)
home_of_a_test = pytest.fixture(autouse=True)(own_home)


@pytest.fixture(autouse=True)
def warnings_end_fits(monkeypatch):
    """A user's fit goes on after a warning; in tests a warning is an error."""
    monkeypatch.setattr("synthdp.errors.ENDING", ())


@pytest.fixture(scope="module")
def server():
    """The folder of the socket of a PostgreSQL."""
    import databases

    with databases.postgres() as folder:
        yield folder


@pytest.fixture
def output_of(capsys):
    """`output_of("plan", ..., status=2).err`: runs a command, which must end with that status, and gives what was written since the last
    look."""
    from synthdp.cli import run

    def output_of(*words, status=0):
        ended, said = run([*words]), capsys.readouterr()
        assert ended == status, said.err + said.out
        return said

    return output_of


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def schema():
    from clinic import make_schema

    return make_schema()


@pytest.fixture
def frame():
    from clinic import make_frame

    return make_frame(400)


@pytest.fixture
def budget():
    from synthdp import Budget

    return Budget(epsilon=1.0, delta=1e-5)
