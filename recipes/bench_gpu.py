"""What a GPU gains: `make bench-gpu` -> reports/bench_gpu.{json,md}. Without a CUDA device it says so and writes nothing.

It times DP-SGD steps, as a fit takes them and in float64, against a plain step of the same network and batch; and whole fits on the
digits, on the GPU and on the CPU of the same machine. Wall-clock seconds with the device synchronised, ways interleaved, medians of
ratios.
"""

import statistics
import time
from typing import Any

import numpy as np
import record
import torch
from bench_step import CLIP, Case, Step, TorchNoise, dcgan, loss, mlp, plain_step, private_step
from torch import nn

from synthdp import Budget, Synthesizer
from synthdp.noise.noise import Noise
from synthdp.seal import gradients
from synthdp.seal.gradients import buckets
from synthdp.sets import named

CASES = (
    Case(name="MLP 108-256-256-1", network=mlp(108, 256, 256, 1), shape=(108,), batch=256, rounds=60, slow_rounds=0),
    Case(name="MLP 784-512-256-1", network=mlp(784, 512, 256, 1), shape=(784,), batch=600, rounds=60, slow_rounds=0),
    Case(name="MLP 784-512-256-1", network=mlp(784, 512, 256, 1), shape=(784,), batch=4096, rounds=40, slow_rounds=0),
    Case(name="DCGAN D, width 32", network=dcgan(32), shape=(1, 28, 28), batch=256, rounds=40, slow_rounds=0),
    Case(name="DCGAN D, width 64", network=dcgan(64), shape=(1, 28, 28), batch=2048, rounds=20, slow_rounds=0),
)
WARM = 3
PLAIN, FIT, HARDENED, DOUBLE = (
    "plain",
    "as a fit, the GPU's noise",
    "as a fit, hardened noise",
    "float64, the GPU's noise",
)
FITS: dict[str, dict[str, Any]] = {"dpgan_images": {}, "dpgan_images, conv": {"architecture": "conv"}, "dpmerf": {}}
FIT_ROUNDS = 3


def seconds(step: Any) -> float:
    """Of one step, from an idle device to an idle device."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(case: Case) -> dict[str, Any]:
    """One row of the table."""
    rows = torch.randn(case.batch, *case.shape, generator=torch.Generator().manual_seed(1)).to("cuda")
    keys = np.random.default_rng(3).integers(0, 2**64, case.batch, dtype=np.uint64)
    found: list[str] = []  # what a fit uses

    def private(noise: Noise | TorchNoise, *, double: bool) -> Step:
        module = case.network().to("cuda")
        prepared = None if double else buckets.prepared(module, loss, case.batch, rows[:4])
        if not double:
            found.append("float64" if prepared is None else _number(prepared.buckets.count))

        def total(module: nn.Module) -> gradients.Gradients:
            return gradients.sum_and_count(
                module, loss, rows, None, CLIP, keys=keys, prepared=prepared, counting=False
            )[0]

        return private_step(module, total, noise, case.batch)

    ways = {
        PLAIN: plain_step(case.network().to("cuda"), rows),
        FIT: private(TorchNoise("cuda"), double=False),
        HARDENED: private(Noise(), double=False),
        DOUBLE: private(TorchNoise("cuda"), double=True),
    }
    torch.cuda.reset_peak_memory_stats()
    rounds = [{name: seconds(step) for name, step in ways.items()} for _ in range(WARM + case.rounds)][WARM:]
    return {
        "model": case.name,
        "batch": case.batch,
        "a_fit_takes": found[0],
        "plain_milliseconds": 1e3 * statistics.median(each[PLAIN] for each in rounds),
        "ratios": {name: statistics.median(each[name] / each[PLAIN] for each in rounds) for name in ways},
        "peak_mib": torch.cuda.max_memory_allocated() / 2**20,
        "rounds": case.rounds,
    }


def fits() -> list[dict[str, Any]]:
    """Seconds of a whole fit on the digits, by device; the first round warms up."""
    chosen, rows = named.load("digits"), []
    for name, settings in FITS.items():
        kind = name.partition(",")[0]

        def fit(device: str, kind: str = kind, settings: dict[str, Any] = settings) -> None:
            made = Synthesizer(kind, schema=chosen.schema, budget=Budget(1.0, 1e-5), device=device, **settings)
            made.fit(chosen.train, seed=0)

        devices = ("cuda", "cpu")
        rounds = [
            {device: seconds(lambda device=device: fit(device)) for device in devices} for _ in range(1 + FIT_ROUNDS)
        ][1:]
        taken = {device: statistics.median(each[device] for each in rounds) for device in devices}
        gain = statistics.median(each["cpu"] / each["cuda"] for each in rounds)
        rows.append({"generator": name, "settings": settings, "seconds": taken, "gain": gain, "rounds": FIT_ROUNDS})
        print(rows[-1], flush=True)
    return rows


def _number(buckets: int) -> str:
    return "1 bucket" if buckets == 1 else f"{buckets} buckets"


def table(result: dict[str, Any]) -> str:
    """The report, in words."""
    names = (FIT, HARDENED, DOUBLE)
    lines = [
        f"| model | batch | plain step | a fit uses | {' | '.join(names)} | peak GPU MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['model']} | {row['batch']} | {row['plain_milliseconds']:.2f} ms | {row['a_fit_takes']} | "
        + " | ".join(f"{row['ratios'][name]:.2f}" for name in names)
        + f" | {row['peak_mib']:.0f} |"
        for row in result["rows"]
    ]
    whole = ["| fit of digits | seconds, GPU | seconds, CPU | times faster |", "|---|---|---|---|"]
    whole += [
        f"| {row['generator']} | {row['seconds']['cuda']:.1f} | {row['seconds']['cpu']:.1f} | {row['gain']:.1f} |"
        for row in result["fits"]
    ]
    return f"""# On a GPU: {result["device"]}

How long a DP-SGD step takes, as a multiple of a plain step (forward, backward, update) of the same network: ratios of wall-clock time,
medians over interleaved rounds. "As a fit" is what a fit uses on this GPU: float32 in buckets of units, or float64 for networks without
convolutions if the GPU is fast in it. Hardened noise is drawn on the CPU; the GPU's own noise is not fit for a release.

## One step

{chr(10).join(lines)}

## Whole fits

{chr(10).join(whole)}

Medians of {FIT_ROUNDS} fits. {result["cores"]} cores; torch {result["versions"]["torch"]}, Python {result["python"]},
commit {result["commit"] or "unknown"}. Written by `recipes/bench_gpu.py`.
"""


def main() -> None:
    """Measure and write, or say why not."""
    if not torch.cuda.is_available():
        raise SystemExit("bench_gpu: no CUDA device is there; nothing was measured")
    rows = []
    for case in CASES:
        rows.append(measure(case))
        print(rows[-1], flush=True)
    result = {"device": torch.cuda.get_device_name(), "rows": rows, "fits": fits(), **record.provenance()}
    print(table(result))
    record.write("bench_gpu", result, table(result))


if __name__ == "__main__":
    main()
