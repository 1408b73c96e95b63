"""Which cases of a sweep `make test` takes, and which are left to `make test-all`."""

import pytest


def sweep(cases, light):
    """Cases for `pytest.mark.parametrize` or a fixture's `params`: `make test` takes those for which `light` holds. A tuple is a
    case of several arguments."""
    return [pytest.param(*_arguments(case)) if light(case) else heavy(case) for case in cases]


def heavy(case):
    """A case that `make test-all` takes alone."""
    return pytest.param(*_arguments(case), marks=pytest.mark.heavy)


def lone(name):
    """Of a generator's name in the contract: no further mode of it."""
    return ":" not in name


def _arguments(case):
    return case if isinstance(case, tuple) else (case,)
