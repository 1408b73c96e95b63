"""What a GPU gains: `make bench-gpu` -> reports/bench_gpu.{json,md}. Without a CUDA device it says so and writes nothing.

Steps a second of DP-SGD and their ratio to a plain step of the same network and batch, peak memory, and pictures sampled a
second by `dpdm`; and whole fits of `dpgan_images` and `dpmerf` on the digits, on the GPU and on the CPU of the same machine. Wall-clock
seconds with the device synchronised, ways interleaved, medians of ratios.
"""

import statistics
import time
from typing import Any

import record
import torch
from bench_step import CLIP, MULTIPLIER, Case, dcgan, loss, mlp

from synthdp import Budget, Synthesizer
from synthdp.noise.noise import Noise
from synthdp.seal import gradients
from synthdp.sets import named

CASES = (
    Case(name="MLP 784-512-256-1", network=mlp(784, 512, 256, 1), shape=(784,), batch=1024, rounds=100, slow_rounds=0),
    Case(name="DCGAN D, width 32", network=dcgan(32), shape=(1, 28, 28), batch=1024, rounds=50, slow_rounds=0),
    Case(name="DCGAN D, width 64", network=dcgan(64), shape=(1, 28, 28), batch=2048, rounds=30, slow_rounds=0),
)
WARM = 3
PICTURES = 20_000
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
    device, noise = torch.device("cuda"), Noise()
    rows = torch.randn(case.batch, *case.shape, generator=torch.Generator().manual_seed(1)).to(device)
    plain_network, network = case.network().to(device), case.network().to(device)
    plain_optimiser = torch.optim.SGD(plain_network.parameters(), lr=0.05)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05)

    def plain() -> None:
        plain_optimiser.zero_grad()
        loss(plain_network, rows).mean().backward()  # type: ignore[no-untyped-call]
        plain_optimiser.step()

    def private() -> None:
        sums = gradients.clipped_gradient_sum(network, loss, rows, None, CLIP)
        noisy = gradients.add_noise(sums, MULTIPLIER * CLIP, noise)
        noisy.flat.div_(case.batch)
        for parameter, gradient in zip(network.parameters(), noisy.values(), strict=True):
            parameter.grad = gradient
        optimiser.step()

    torch.cuda.reset_peak_memory_stats()
    pairs = [(seconds(plain), seconds(private)) for _ in range(WARM + case.rounds)][WARM:]
    ours = statistics.median(pair[1] for pair in pairs)
    return {
        "model": case.name,
        "batch": case.batch,
        "steps_a_second": 1 / ours,
        "ratio": statistics.median(own / base for base, own in pairs),
        "peak_mib": torch.cuda.max_memory_allocated() / 2**20,
        "rounds": case.rounds,
    }


def sampled() -> float:
    """Pictures a second that a dpdm of the digits draws on the device."""
    chosen = named.load("digits")
    release = Synthesizer("dpdm", schema=chosen.schema, budget=Budget(10.0, 1e-5), device="cuda", steps=20).fit(
        chosen.train, seed=0
    )
    release.sample(1000, seed=0)
    return PICTURES / seconds(lambda: release.sample(PICTURES, seed=1))


def fits() -> list[dict[str, Any]]:
    """Seconds of a whole fit on the digits, by device; the first round warms up."""
    chosen, rows = named.load("digits"), []
    for name, settings in FITS.items():
        kind = name.partition(",")[0]

        def fit(device: str, kind: str = kind, settings: dict[str, Any] = settings) -> None:
            made = Synthesizer(kind, schema=chosen.schema, budget=Budget(1.0, 1e-5), device=device, **settings)
            made.fit(chosen.train, seed=0)

        rounds = [
            {device: seconds(lambda device=device: fit(device)) for device in ("cuda", "cpu")}
            for _ in range(1 + FIT_ROUNDS)
        ]
        taken = {device: statistics.median(each[device] for each in rounds[1:]) for device in ("cuda", "cpu")}
        ratio = statistics.median(each["cpu"] / each["cuda"] for each in rounds[1:])
        rows.append({"generator": name, "seconds": taken, "gain": ratio, "rounds": FIT_ROUNDS})
    return rows


def table(result: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = [
        "| model | batch | DP-SGD steps a second | ratio to a plain step | peak GPU MiB |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['model']} | {row['batch']} | {row['steps_a_second']:.1f} | {row['ratio']:.2f} | {row['peak_mib']:.0f} |"
        for row in result["rows"]
    ]
    whole = ["| fit of digits | seconds, GPU | seconds, CPU | times faster |", "|---|---|---|---|"]
    whole += [
        f"| {row['generator']} | {row['seconds']['cuda']:.1f} | {row['seconds']['cpu']:.1f} | {row['gain']:.1f} |"
        for row in result["fits"]
    ]
    said = f"dpdm samples {result['sampled']:,.0f} pictures a second."
    return "\n".join([f"# {result['device']}", "", *lines, "", *whole, "", said, ""])


def main() -> None:
    """Measure and write, or say why not."""
    if not torch.cuda.is_available():
        raise SystemExit("bench_gpu: no CUDA device is there; nothing was measured")
    rows = [measure(case) for case in CASES]
    result = {
        "device": torch.cuda.get_device_name(),
        "rows": rows,
        "fits": fits(),
        "sampled": sampled(),
        **record.provenance(),
    }
    print(table(result))
    record.write("bench_gpu", result, table(result))


if __name__ == "__main__":
    main()
