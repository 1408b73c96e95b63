"""A process that has imported what takes seconds, and no line of the package: each run of pytest is a fork of it.

It reads one JSON line per run, {"folder", "arguments", "output"}: the package's folder, pytest's arguments, a file for all that it
prints; and answers with its exit status on a line. `torch._dynamo` is among the imports because torch loads it, in most of a
second, for the first optimiser.
"""

import gc
import json
import os
import signal
import sys

import cryptography.hazmat.primitives.ciphers  # noqa: F401
import dp_accounting  # noqa: F401
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pytest
import safetensors.torch  # noqa: F401
import scipy.stats  # noqa: F401
import sklearn.ensemble
import sklearn.linear_model  # noqa: F401
import torch._dynamo
import torch.func  # noqa: F401

MOST_SECONDS = 600


def run(folder: str, arguments: list[str], output: str) -> None:
    """In the child: pytest against the package in `folder`. Does not return."""
    signal.alarm(MOST_SECONDS)
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ["PYTHONPATH"] = folder  # for processes that tests start
    sys.path.insert(0, folder)
    status = 3
    try:
        status = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def serve() -> None:
    """Until the input ends."""
    gc.freeze()  # pytest collects garbage several times at its end; what was imported here need not be searched
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    if any(name.partition(".")[0] == "synthdp" for name in sys.modules):
        raise RuntimeError("the package must not be imported before the fork")
    serve()
