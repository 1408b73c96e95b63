"""Import paths of the version before lead to the same modules, and warn."""

import importlib
import subprocess
import sys

import pytest

from synthdp import moved

PLUG_IN = """
from synthdp.data.schema import Schema
from synthdp.privacy import accounting, events
from synthdp.privacy.budget import Budget
from synthdp.privacy.questions.moments import GroupSums
from synthdp.privacy.sensitive import Sensitive
import synthdp.privacy.accounting.charges
import synthdp.data.tables
"""


def forget(monkeypatch):
    """Old names as a process finds them that never heard of them."""
    for name in list(sys.modules):
        try:
            moved.new_name(name.removeprefix("synthdp."))
        except KeyError:
            continue
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("old", [old for old, new in moved.MOVED.items() if new is not None])
def test_an_old_name_gives_what_the_new_one_gives_and_warns(old, monkeypatch):
    forget(monkeypatch)
    new = moved.new_name(old)
    with pytest.warns(DeprecationWarning, match="drops the old name") as caught:
        found = importlib.import_module(f"synthdp.{old}")
    real = importlib.import_module(f"synthdp.{new}")
    if hasattr(real, "__path__"):
        assert all(getattr(found, name) is getattr(real, name) for name in getattr(real, "__all__", ()))
    else:
        assert found is real
    assert real.__name__ == real.__spec__.name == f"synthdp.{new}"
    said = [str(warning.message) for warning in caught]
    assert f"synthdp.{old} is now synthdp.{new}; the next version drops the old name" in said


@pytest.mark.heavy
def test_a_plug_in_with_old_imports_loads_and_is_warned_where_it_imports(tmp_path):
    (tmp_path / "plug_in.py").write_text(PLUG_IN)
    code = (
        "import warnings; warnings.simplefilter('always');"
        "import plug_in, synthdp, synthdp.seal; from synthdp.accounting import charges;"
        "assert plug_in.Budget is synthdp.Budget and plug_in.Sensitive is synthdp.seal.Sensitive;"
        "assert plug_in.synthdp.privacy.accounting.charges is charges"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    warned = [line for line in done.stderr.splitlines() if "DeprecationWarning" in line]
    assert len(warned) == 8, "each old name once"
    assert all("plug_in.py" in line for line in warned)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("synthdp.seal", "Witness", "MeanEmbeddings"),
        ("synthdp.seal", "against", "public_embedding"),
        ("synthdp.seal.teachers", "Witness", "MeanEmbeddings"),
        ("synthdp.seal.teachers.mean_embeddings", "Witness", "MeanEmbeddings"),
        ("synthdp.seal.teachers.mean_embeddings", "against", "public_embedding"),
        ("synthdp.pate.students", "Lesson", "TrainingSet"),
    ],
)
def test_an_old_class_name_gives_the_class_and_warns_where_it_is_imported(module, old, new):
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}; the next version drops the old name") as caught:
        found = getattr(importlib.import_module(module), old)
    assert found is getattr(importlib.import_module(module), new)
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match="nothing"):
        _ = importlib.import_module(module).nothing


def test_an_old_name_takes_no_new_one_s_place(monkeypatch):
    """Two modules were called `one_run`, and one of them still is."""
    forget(monkeypatch)
    with pytest.warns(DeprecationWarning, match="drops the old name"):
        bound = importlib.import_module("synthdp.evaluate.audit.one_run")
    from synthdp.audit import one_run, one_run_bound

    assert sys.modules["synthdp.evaluate.audit"].one_run is bound is one_run_bound
    assert one_run.__name__ == "synthdp.audit.one_run"


@pytest.mark.parametrize(
    "name",
    [
        "synthdp.privacy.nothing",
        "synthdp.privacy.accounting.nothing",
        "synthdp.nothing",
    ],
)
def test_what_never_was_is_not_found(name):
    with pytest.raises(ModuleNotFoundError, match=name.rpartition(".")[2]):
        importlib.import_module(name)
