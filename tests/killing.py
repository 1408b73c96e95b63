"""Fits in forked children, killed at their n-th durable write: before it, after it, or in the middle of it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import synthdp

HOWS = ("before", "after", "torn")
HERE = Path(__file__).parent
MODULES = os.pathsep.join(
    [str(Path(synthdp.__file__).parents[1]), str(HERE), *(str(each) for each in HERE.iterdir() if each.is_dir())]
)


def killed(act: Callable[[], object], number: int, how: str) -> int:
    """The exit status of a child that does `act` and is killed at its n-th durable write: 9; 0 where it came to its end, 3 where
    it raised."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    from synthdp.budgets import AccountFile
    from synthdp.ledger import ledger
    from synthdp.seal import resume

    seen = 0
    plain, replace = ledger._append, os.replace
    keep, enter = resume._append, AccountFile.enter

    def count(write, torn=None):
        nonlocal seen
        seen += 1
        if seen == number:
            if how == "torn" and torn is not None:
                torn()
            elif how == "after":
                write()
            os._exit(9)
        return write()

    def append(file, row):
        return count(lambda: plain(file, row), lambda: os.write(file, row[: 5 + 7 * number % len(row)].encode()))

    def kept(path, record, **options):
        part = record[: max(1, len(record) * (number % 7) // 7)]
        return count(lambda: keep(path, record, **options), lambda: keep(path, part, **options))

    ledger._append, resume._append = append, kept
    os.replace = lambda *paths: count(lambda: replace(*paths))
    AccountFile.enter = lambda *arguments, **options: count(lambda: enter(*arguments, **options))
    try:
        act()
    except BaseException as error:
        print(type(error).__name__, error, file=sys.stderr)
        os._exit(3)
    os._exit(0)


def in_a_process(script: str, *arguments: str) -> str:
    """What a script prints in a process of its own, which has no threads that a fork would lose."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": MODULES, "OMP_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
