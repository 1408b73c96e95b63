"""What every generator does at seed 1, so that a change of the code can show that it changed nothing.

    python tests/goldens/compare.py OTHER    compares this worktree with another one, bit for bit
    python tests/goldens/compare.py --write  writes the ledgers that `test_goldens.py` reads back

Ledgers are kept in `ledgers/`. The bits of arrays and frames differ between kinds of processors, so they are not kept: one job
computes them for both worktrees, each with its own package and its own `tests/clinic.py`.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
LEDGERS = HERE / "ledgers"
ROWS = 40
CHAIN = ("hash", "previous")  # functions of the rest, down to the last bit of a noise that was solved for


def fit(data, name, ledger):
    """A fit of the contract `name` to a made-up table, or to made-up images, that writes its ledger to `ledger`."""
    from clinic import make_frame, make_pictures, make_schema, picture_schema, quick

    from synthdp import Budget, Synthesizer

    schema, frame = (make_schema(), make_frame(ROWS)) if data == "table" else (picture_schema(), make_pictures(ROWS))
    made = Synthesizer(quick(name, data), schema=schema, budget=Budget(epsilon=1.0, delta=1e-5))
    return made.fit(frame, seed=1, ledger=ledger)


def cases():
    from clinic import contracts

    return [(data, name) for data in ("table", "images") for name in contracts(data)]


def golden(data, name):
    """Where the ledger of a contract is kept."""
    return LEDGERS / f"{data}-{name.replace(':', '-')}.jsonl"


def rows(ledger):
    """The rows of a ledger's text without the chain that binds them."""
    bodies = (json.loads(line) for line in ledger.splitlines())
    return [{key: value for key, value in body.items() if key not in CHAIN} for body in bodies]


def write():
    """Write all ledgers anew."""
    LEDGERS.mkdir(exist_ok=True)
    for old in LEDGERS.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        for number, (data, name) in enumerate(cases()):
            ledger = Path(folder) / str(number)
            fit(data, name, ledger)
            text = "".join(f"{json.dumps(row, sort_keys=True)}\n" for row in rows(ledger.read_text(encoding="utf-8")))
            golden(data, name).write_text(text, encoding="utf-8")


def digest(*parts):
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()


def digest_of_array(array):
    array = np.ascontiguousarray(array)
    return digest(str(array.dtype).encode(), str(array.shape).encode(), array.tobytes())


def digest_of_frame(frame):
    """Of all cells; pictures by their pixels."""
    pictures = [name for name in frame if len(frame) and isinstance(frame[name].iloc[0], np.ndarray)]
    pixels = [digest_of_array(np.stack(list(frame[name]))).encode() for name in pictures]
    return digest(frame.drop(columns=pictures).to_csv().encode(), repr(frame.dtypes.to_dict()).encode(), *pixels)


def digests():
    """Of ledger, arrays and a sampled frame, for each contract: {what: digest}."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (data, name) in enumerate(cases()):
            ledger = Path(folder) / str(number)
            release = fit(data, name, ledger)
            case = f"{data} {name}"
            found[f"{case}: ledger"] = digest(ledger.read_bytes())
            found[f"{case}: sample"] = digest_of_frame(release.sample(ROWS, seed=1))
            tensors = release.model.tensors()
            found |= {f"{case}: array {key}": digest_of_array(value) for key, value in tensors.items()}
    return found


def digests_of(worktree):
    """`digests` of the package in another folder, by a process of its own on one thread."""
    worktree = Path(worktree).resolve()
    paths = {"PYTHONPATH": f"{worktree}{os.pathsep}{worktree / 'tests'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(HERE / "compare.py"), "--digests", str(worktree)]
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{worktree}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?", help="a worktree of the commit to compare with")
    parser.add_argument("--write", action="store_true", help="write the ledgers anew")
    parser.add_argument("--digests", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.digests or given.write:
        import synthdp

        home = Path(given.digests or HERE.parents[1]).resolve()
        if Path(synthdp.__file__).resolve().parents[1] != home:
            raise SystemExit(f"synthdp was imported from {synthdp.__file__}, not from {home}: set PYTHONPATH")
    warnings.simplefilter("ignore")
    if given.digests:
        print(json.dumps(digests()))
    elif given.write:
        write()
    elif given.other:
        one, other = digests_of(HERE.parents[1]), digests_of(given.other)
        differ = sorted(what for what in one.keys() | other.keys() if one.get(what) != other.get(what))
        print("\n".join([*(f"differs: {what}" for what in differ), f"{len(one)} compared, {len(differ)} differ"]))
        sys.exit(bool(differ))
    else:
        parser.error("name a worktree, or say --write")


if __name__ == "__main__":
    main()
