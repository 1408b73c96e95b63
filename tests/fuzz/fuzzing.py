"""What the fuzzers share: their time, the box in which each input is tried, and strategies that edit what is valid.

`SYNTHDP_FUZZ_SECONDS` is the time of each target, `SYNTHDP_FUZZ_SEED` where its examples start: `make fuzz-short` tries the same
ones on every machine, as far as its time goes, and `make fuzz` others each time. Every input either passes or is refused by
`BadInput`, within 10 seconds and 1 GiB: what is measured is the peak above what the process held before.
"""

import itertools
import os
import random
import resource
import signal
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from synthdp.errors import BadInput

SECONDS = float(os.environ.get("SYNTHDP_FUZZ_SECONDS", "15"))
SEED = int(os.environ.get("SYNTHDP_FUZZ_SEED") or random.SystemRandom().getrandbits(32))
MOST_SECONDS, MOST_KIB = 10.0, 1 << 20
FENCE = 6 << 30  # bytes of address space beyond what is there: what runs away ends as a MemoryError
ROUND = 50  # examples between two looks at the clock


class Hung(AssertionError):
    """An input took more than its time."""


def fuzz(prop, **strategies):
    """Try examples of the strategies on `prop` until the time is up."""
    tried, failed, end = 0, False, time.monotonic() + SECONDS

    def boxed(**drawn):
        nonlocal tried, failed
        if time.monotonic() > end and not failed:  # what failed is made small, however long that takes
            return
        tried += 1
        try:
            with box():
                prop(**drawn)
        except BaseException:
            failed = True
            raise

    checks = list(HealthCheck)
    rounds = settings(max_examples=ROUND, deadline=None, print_blob=True, suppress_health_check=checks)
    for number in itertools.count(SEED):
        if time.monotonic() > end:
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HypothesisWarning)  # long bytes are what is shown
            seed(number)(rounds(given(**strategies)(boxed)))()
    print(f"{tried} examples in {SECONDS:g} s from seed {SEED}")


@contextmanager
def box():
    """Run a block within time and memory; `BadInput` is an answer like another."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") * 1024 + FENCE, limits[1]))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    previous = signal.signal(signal.SIGPROF, _hung)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)  # of this process, since others share the cores
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(BadInput):
                yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert _status("VmHWM") - before < MOST_KIB


def _hung(*_):
    raise Hung


def _status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            "",
            "learn",
            "null",
            "\x1b[31m",
            "\x00",
            "\ud800",
            "a\nb",
            "../x",
            "${x}",
            "1e400",
            "inf",
            "NaN",
            "=1",
            "\ufeff",
            "x" * 5000,
        ]
    ),
)
NUMBERS = st.one_of(
    st.integers(-3, 300),
    st.sampled_from([2**31, 2**53 + 1, 2**63, 2**64, 10**30, 10**39, -(10**18), 10**8, 10**12]),
    st.floats(),
    st.sampled_from([1e-320, 1e-300, 1e-12, 1e12, 1e300, 1.5, 0.1, -0.0, 0.999999, float("inf")]),
)
WRONG = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def edited(draw, values, most=4):
    """A JSON value with some of its parts replaced, removed, renamed, repeated, or put elsewhere."""
    for _ in range(draw(st.integers(1, most))):
        places = list(_places(values))
        at = draw(st.sampled_from(places))
        how = draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "copy", "repeat"]))
        if how == "replace" or not at:
            new = draw(WRONG)
        elif how == "copy":
            new = _at(values, draw(st.sampled_from(places)))
        elif how == "repeat":
            new = [_at(values, at)] * draw(st.integers(0, 5))
        else:
            new = draw(TEXTS) if how == "rename" else None
        values = _edit(values, at, how, new)
    return values


def _places(value, at=()):
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(inner, (*at, key))


def _at(value, at):
    for step in at:
        value = value[step]
    return value


def _edit(value, at, how, new):
    if not at:
        return new
    first, rest = at[0], at[1:]
    if rest or how in ("replace", "copy", "repeat"):
        changed = dict(value) if isinstance(value, dict) else list(value)
        changed[first] = _edit(value[first], rest, how, new)
        return changed
    if isinstance(value, list):
        return [each for place, each in enumerate(value) if place != first]
    pairs = ((new if how == "rename" and key == first else key, each) for key, each in value.items())
    return {key: each for key, each in pairs if how == "rename" or key != first}


@st.composite
def flipped(draw, data, most=6):
    """Bytes with some of them changed, cut, repeated or put in."""
    data = bytearray(data)
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        length = draw(st.one_of(st.integers(0, 8), st.integers(0, 2000)))
        how = draw(st.sampled_from(["flip", "put", "cut", "end", "repeat"]))
        if how == "flip" and data:
            data[at] = draw(st.integers(0, 255))
        elif how == "put":
            data[at:at] = draw(
                st.one_of(
                    st.binary(max_size=16),
                    st.sampled_from([b"[" * 9000, b"9" * 5000, b"\xff", b"\x00", b'"', b",", b"\n"]),
                )
            )
        elif how == "cut":
            del data[at : at + length]
        elif how == "end":
            del data[at:]
        elif how == "repeat":
            data[at:at] = data[at : at + length] * draw(st.integers(1, 20))
    return bytes(data)
