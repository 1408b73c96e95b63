"""What a Gaussian number costs, one thread: `make bench` -> reports/bench_noise.{json,md}.

Every way makes a fresh tensor of as many numbers. The ways are interleaved; each repetition takes the median over its
rounds of the time and of the ratio to torch's `normal_` in the same round, and the repetitions give the spread.
"""

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import record
import torch

from synthdp.noise.noise import Noise
from synthdp.seal.gradients import keep_freed_memory

SIZES = (1_000, 100_000, 1_000_000)
REPETITIONS = 5
NUMBERS = 6_000_000  # made by each way in one repetition, where that takes 400 rounds or fewer
TORCH = "torch `normal_`, float32"
PLAIN = "plain stream, float32"
HARDENED = "hardened, float32 sums"

Way = Callable[[], object]


def ways(size: int, noise: Noise) -> dict[str, Way]:
    """How `size` numbers can be had."""
    generator = torch.Generator().manual_seed(0)
    sums, doubles, table = torch.zeros(size), torch.zeros(size, dtype=torch.float64), np.zeros(size)
    return {
        TORCH: lambda: torch.empty(size).normal_(generator=generator),
        PLAIN: lambda: plain(size, noise, np.int32),
        "plain stream, float64": lambda: plain(size, noise, np.int64),
        HARDENED: lambda: noise.added_flat(sums, 1.0),
        "hardened, float64 sums to float32": lambda: noise.added_flat(doubles, 1.0),
        "hardened, float64 tables": lambda: noise.added(table, 1.0),
        "AES-256-CTR, 8 bytes": lambda: noise.bits(8 * size),
        "os.urandom, 8 bytes": lambda: os.urandom(8 * size),
    }


def plain(size: int, noise: Noise, word: type[np.signedinteger]) -> torch.Tensor:
    """Box & Muller (1958) in plain floating point, which says of a sum what exact rounding hides, of the type as wide as the words."""
    half, width = (size + 1) // 2, np.dtype(word).itemsize
    words = torch.frombuffer(bytearray(noise.bits(2 * half * width)), dtype=getattr(torch, np.dtype(word).name))
    dtype, unit = (torch.float32, 2.0**-31) if width == 4 else (torch.float64, 2.0**-63)
    radius = words[:half].to(dtype).add_(0.5).abs_().mul_(unit).log_().mul_(-2.0).sqrt_()
    angle = words[half:].to(dtype).mul_(math.pi * unit)
    return torch.cat([angle.cos().mul_(radius), angle.sin_().mul_(radius)])[:size]


def repetition(size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Median nanoseconds of processor time per number, and median ratio, by way."""
    made = ways(size, Noise())
    taken: dict[str, list[float]] = {name: [] for name in made}
    for turn in range(-2, rounds):  # two to warm up
        for name, way in made.items():
            start = time.thread_time()
            way()
            if turn >= 0:
                taken[name].append((time.thread_time() - start) / size * 1e9)
    return {
        name: {
            "nanoseconds": statistics.median(values),
            "ratio": statistics.median(a / b for a, b in zip(values, taken[TORCH], strict=True)),
        }
        for name, values in taken.items()
    }


def measure(size: int, quick: bool) -> dict[str, Any]:
    """Spread over the repetitions, by way."""
    rounds = max(4, min(400, NUMBERS // size) // (10 if quick else 1))
    seen = [repetition(size, rounds) for _ in range(3 if quick else REPETITIONS)]
    return {
        "size": size,
        "rounds": rounds,
        "ways": {
            name: {kind: record.spread([one[name][kind] for one in seen]) for kind in ("nanoseconds", "ratio")}
            for name in seen[0]
        },
    }


def table(results: list[dict[str, Any]]) -> str:
    """Nanoseconds per number, and the ratio, as Markdown."""
    lines = ["| | " + " | ".join(f"{result['size']:,}" for result in results) + " |", "|---" * (len(results) + 1) + "|"]
    for name in results[0]["ways"]:
        cells = [cell(result["ways"][name]) for result in results]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(way: dict[str, Any]) -> str:
    """One cell: mean and standard deviation of both."""
    time_taken, ratio = way["nanoseconds"], way["ratio"]
    return f"{time_taken['mean']:.2f} ± {time_taken['sd']:.2f} ns, {ratio['mean']:.2f} ± {ratio['sd']:.2f} x"


def main() -> None:
    """Measure every size, print the table, write the reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds, three repetitions")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    keep_freed_memory()  # as a step of DP-SGD does
    results = [measure(size, quick) for size in SIZES]
    config = {"repetitions": 3 if quick else REPETITIONS, "threads": torch.get_num_threads(), "quick": quick}
    seen = record.provenance()
    record.write("bench_noise", {"config": config, "results": results, "provenance": seen}, text(results, config, seen))
    print(table(results))


def text(results: list[dict[str, Any]], config: dict[str, Any], seen: dict[str, Any]) -> str:
    """The report, in words."""
    return f"""# What a Gaussian number costs

Nanoseconds of processor time per number, and the ratio to torch's `normal_` in the same round, for calls that make as many
numbers as the column says. One thread; mean and standard deviation over {config["repetitions"]} repetitions of the median over rounds.
"Hardened" adds the noise to sums and rounds to the public grid, exactly (`synthdp/noise/gaussian.py`); "plain" only draws.
A call has a fixed cost, the same for one number and for thousands, which is what the first column shows.

{table(results)}

torch {seen["versions"]["torch"]}, Python {seen["python"]}, {seen["processor"]}, commit {seen["commit"] or "unknown"}\
{" with uncommitted changes" if seen["uncommitted_changes"] else ""}. Written by `recipes/bench_noise.py`.
"""


if __name__ == "__main__":
    main()
