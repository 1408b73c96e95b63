"""Seeded mutants (law 29): each breaks one promise, and a test that guards the promise must fail.

A mutant is patched into a copy of the package, and the tests that it names run against that copy in a process of their own
(`forge.py`). The same tests must pass on the copy as it was, or being caught would mean nothing.
"""

import atexit
import compileall
import functools
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from catalogue import KINDS, MUTANTS
from patches import Mutant, patched
from sweeps import sweep

import synthdp

HOME = Path(__file__).parents[2]
PACKAGE = Path(synthdp.__file__).parent
CRASHES = {
    "AttributeError",
    "ImportError",
    "IndexError",
    "ModuleNotFoundError",
    "NameError",
    "TypeError",
    "UnboundLocalError",
}


@dataclass(frozen=True)
class Done:
    """How a run of pytest ended, and what it printed."""

    status: int
    said: str

    @property
    def raised(self) -> str:
        """The kind of exception that ended the test; a traceback of pytest's ends with "file:line: kind"."""
        return ["", *re.findall(r"^.+:\d+: (\w+)$", self.said, re.MULTILINE)][-1]


@functools.lru_cache(1)
def copy() -> Path:
    """A folder with a copy of the package. Its bytecode holds as long as the source has the same hash: a patched file's does not."""
    folder = Path(tempfile.mkdtemp(prefix="mutants"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(PACKAGE, folder / "synthdp", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "conf").symlink_to(HOME / "conf")
    by_content = py_compile.PycInvalidationMode.CHECKED_HASH
    assert compileall.compile_dir(folder / "synthdp", quiet=1, invalidation_mode=by_content)
    return folder


@contextmanager
def changed(file: Path, text: str) -> Iterator[None]:
    """While the file of the copy holds another text."""
    plain = file.read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(plain, encoding="utf-8")


@functools.lru_cache(1)
def forge() -> subprocess.Popen[str]:
    """The process whose forks run the tests."""
    worker = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("forge.py"))],
        cwd=HOME,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # Hydra brings one, and pytest would rewrite all of Hydra for each mutant
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(worker.communicate)  # closes its input, at which it ends
    return worker


def run_against_copy(tests: Iterable[str]) -> Done:
    """Pytest against the copy as it is now, up to the first test that fails."""
    words = ["-x", "--assert=plain", "-p", "no:cacheprovider", *tests]
    output, worker = copy() / "output.txt", forge()
    worker.stdin.write(json.dumps({"folder": str(copy()), "arguments": words, "output": str(output)}) + "\n")
    worker.stdin.flush()
    status = worker.stdout.readline()
    return Done(status=int(status), said=output.read_text(encoding="utf-8"))


def check_that_it_is_caught(mutant: Mutant) -> None:
    with changed(*patched(mutant, copy())):
        done = run_against_copy(mutant.tests)
    assert done.status == 1, f"{mutant.name} was not caught:\n{done.said[-4000:]}"
    assert " failed" in done.said
    assert "error" not in done.said.splitlines()[-1]
    assert done.raised not in CRASHES, f"{mutant.name} breaks no promise: it does not run\n{done.said[-4000:]}"


FEW = tuple(kind[0] for kind in KINDS[::4])  # one of every fourth kind, which `make test` takes


@pytest.mark.parametrize("mutant", sweep(MUTANTS, FEW.__contains__), ids=lambda mutant: mutant.name)
def test_every_mutant_is_caught(mutant):
    check_that_it_is_caught(mutant)


@pytest.mark.parametrize(
    "mutants", [pytest.param(FEW, id="a few"), pytest.param(MUTANTS, id="all", marks=pytest.mark.heavy)]
)
def test_the_same_tests_pass_on_a_copy_that_was_not_changed(mutants):
    done = run_against_copy(sorted({test for mutant in mutants for test in mutant.tests}))
    assert done.status == 0, done.said[-3000:]


def test_a_mutant_that_changes_nothing_or_does_not_run_is_not_caught():
    harmless = next(mutant for mutant in MUTANTS if mutant.name == "no clip of moments")
    with pytest.raises(AssertionError, match="was not caught"):
        check_that_it_is_caught(replace(harmless, new=harmless.old))
    with pytest.raises(AssertionError, match="does not run"):
        check_that_it_is_caught(replace(harmless, new="no_such_name"))


def test_the_copy_is_what_is_tested():
    with changed(copy() / "synthdp" / "errors.py", "raise RuntimeError('this is the copy')\n"):
        done = run_against_copy(MUTANTS[0].tests)
    assert done.status != 0
    assert "this is the copy" in done.said
