"""A rehearsal gives the same bytes on one thread and on two, for the generators that the tutorial names."""

import re
import subprocess
import sys
from pathlib import Path

import killing
import pytest
from clinic import contracts

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "tutorial.md").read_text(encoding="utf-8")

FITS = """
import hashlib, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd, torch
torch.set_num_threads(int(sys.argv[1]))
from clinic import kind_of, quick
from synthdp import Budget, Schema, Synthesizer

rng, letters = np.random.default_rng(0), list("abcdef")
first = rng.choice(letters, 30_000)
frame = pd.DataFrame({f"x{place}": np.where(rng.random(30_000) < 0.4, first, rng.choice(letters, 30_000)) for place in range(12)})
columns = {name: {"kind": "categorical", "categories": letters} for name in frame}
table = Schema.from_dict({"declared_by": "t", "units": 30_000, "targets": ["x0"], "columns": columns}), frame
image = {"kind": "image", "height": 28, "width": 28}
pictures = pd.DataFrame({"image": pd.Series(list(rng.integers(0, 256, (3000, 28, 28)).astype(np.uint8)), dtype=object)})
images = Schema.from_dict({"declared_by": "t", "units": 3000, "columns": {"image": image}}), pictures
for name in sys.argv[2:]:
    for data, (schema, frame) in {"table": table, "images": images}.items():
        if data not in kind_of(name).traits.kinds:
            continue
        release = Synthesizer(quick(name, data), schema=schema, budget=Budget(3.0, 1e-6)).fit(frame, seed=1)
        found = hashlib.sha256()
        for key, value in sorted(release.model.tensors().items()):
            found.update(key.encode() + np.ascontiguousarray(value).tobytes())
        sampled = release.sample(200, seed=2)
        for column in sampled:
            found.update(np.array(sampled[column].tolist()).tobytes())
        print(name, data, found.hexdigest())
"""


def named():
    """The generators of which the page says that they repeat on any number of threads."""
    (said,) = re.findall(r"another number of threads only (.*?)still do", PAGE, re.DOTALL)
    return re.findall(r"`(\w+)`", said)


def test_the_page_names_generators():
    assert set() < set(named()) < set(contracts())


@pytest.mark.heavy
def test_one_thread_and_two_give_the_same_bytes():
    """On a table and on pictures of an ordinary size, where products are split among threads: on small ones others repeat too."""
    said = [
        subprocess.run(
            [sys.executable, "-c", FITS, threads, *named()],
            capture_output=True,
            text=True,
            check=True,
            cwd=TESTS,
            env={"PYTHONPATH": killing.MODULES, "PATH": "", "OMP_NUM_THREADS": threads},
        ).stdout
        for threads in ("1", "2")
    ]
    assert len(said[0].splitlines()) == len(named()) + 1  # independent learns pictures too
    assert said[0] == said[1]
