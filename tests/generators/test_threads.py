"""A rehearsal gives the same bytes on one thread and on two, for all generators but those that the tutorial names."""

import re
import subprocess
import sys
from pathlib import Path

import killing
import pytest
from clinic import contracts

TESTS = Path(__file__).parents[1]
TUTORIAL = TESTS.parent / "docs" / "tutorial.md"

FITS = """
import hashlib, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
torch.set_num_threads(int(sys.argv[1]))
from clinic import make_frame, make_pictures, make_schema, picture_schema, quick
from synthdp import Budget, Synthesizer

made = {"table": (make_schema(units=2000), make_frame(2000)), "images": (picture_schema(), make_pictures(300))}
for given in sys.argv[2:]:
    data, _, name = given.partition("/")
    schema, frame = made[data]
    release = Synthesizer(quick(name, data), schema=schema, budget=Budget(3.0, 1e-6)).fit(frame, seed=1)
    found = hashlib.sha256()
    for key, value in sorted(release.model.tensors().items()):
        found.update(key.encode() + np.ascontiguousarray(value).tobytes())
    for column in (sampled := release.sample(200, seed=2)):
        found.update(str(sampled[column].tolist()).encode())
    print(given, found.hexdigest())
"""


def exempt():
    """The generators that the tutorial names."""
    (said,) = re.findall(r"With other numbers of threads (.*?) differ", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    return set(re.findall(r"`(\w+)`", said))


@pytest.mark.heavy
@pytest.mark.parametrize("data", ["table", "images"])
def test_one_thread_and_two_give_the_same_bytes(data):
    named = exempt()
    assert named < {name.partition(":")[0] for name in (*contracts(), *contracts("images"))}
    asked = [f"{data}/{name}" for name in contracts(data) if name.partition(":")[0] not in named]
    said = [
        subprocess.run(
            [sys.executable, "-c", FITS, threads, *asked],
            capture_output=True,
            text=True,
            check=True,
            cwd=TESTS,
            env={"PYTHONPATH": killing.MODULES, "PATH": "", "OMP_NUM_THREADS": threads},
        ).stdout
        for threads in ("1", "2")
    ]
    assert len(said[0].splitlines()) == len(asked)
    assert said[0] == said[1]
