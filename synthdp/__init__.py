"""Synthetic data under differential privacy: train a generator on sensitive records, and say exactly what was promised."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from synthdp.api import Release, Synthesizer, load, verify
    from synthdp.errors import BadInput, InFloat64, NotEntered
    from synthdp.ledger.budget import Budget
    from synthdp.pate.fit import PATE
    from synthdp.schema.schema import Schema
    from synthdp.sets.record_files import read, read_tables, write, write_tables
    from synthdp.trainer.private_trainer import PrivateTrainer

__all__ = [
    "PATE",
    "BadInput",
    "Budget",
    "InFloat64",
    "NotEntered",
    "PrivateTrainer",
    "Release",
    "Schema",
    "Synthesizer",
    "__version__",
    "load",
    "read",
    "read_tables",
    "verify",
    "write",
    "write_tables",
]

_HOMES = {
    "BadInput": "synthdp.errors",
    "Budget": "synthdp.ledger.budget",
    "InFloat64": "synthdp.errors",
    "NotEntered": "synthdp.errors",
    "PATE": "synthdp.pate.fit",
    "PrivateTrainer": "synthdp.trainer.private_trainer",
    "Release": "synthdp.api",
    "Schema": "synthdp.schema.schema",
    "Synthesizer": "synthdp.api",
    "load": "synthdp.api",
    "read": "synthdp.sets.record_files",
    "read_tables": "synthdp.sets.record_files",
    "verify": "synthdp.api",
    "write": "synthdp.sets.record_files",
    "write_tables": "synthdp.sets.record_files",
}


# Rooms with functions of their own, which docs/api.md lists: `synthdp.evaluate.evaluate` needs no import but that of synthdp.
_ROOMS = ("evaluate", "pate", "testing", "trainer")


def __dir__() -> list[str]:
    # What a notebook completes after `synthdp.`: lazy names are not among the module's own.
    return sorted({*globals(), *_HOMES, *_ROOMS})


def __getattr__(name: str) -> Any:
    # Lazy, so that `import synthdp` and `synthdp --help` do not wait for pandas and torch.
    if name not in _HOMES and name not in _ROOMS:
        raise AttributeError(f"module 'synthdp' has no attribute {name!r}")
    import importlib

    if name in _ROOMS:
        return importlib.import_module(f"synthdp.{name}")
    return getattr(importlib.import_module(_HOMES[name]), name)
