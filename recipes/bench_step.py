"""What one DP-SGD step costs against one plain SGD step, one thread: `make bench` -> reports/bench_step.{json,md}.

The ways of taking the step are interleaved, each round gives one ratio per way, and the median over rounds is reported:
what else the machine does then touches numerator and denominator alike. `--quick` takes fewer rounds.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import record
import torch
import torch.nn.functional as F  # noqa: N812
import trials
from torch import Tensor, nn

from synthdp.noise.noise import Noise
from synthdp.seal import gradients
from synthdp.seal.gradients import buckets, explicit, in_float64
from synthdp.seal.gradients.bound import Batch, Bound, Sums

CLIP, MULTIPLIER, RATE_OF_LEARNING = 1.0, 1.0, 0.05
PLAIN = "plain SGD"
NOISE = "torch's noise alone"
SLOW = ("vmap(grad) fallback", "microbatches of one")  # one round of every few

Step = Callable[[], None]
Total = Callable[[nn.Module], gradients.Gradients]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row of the table: a discriminator, the shape of its records, a batch size."""

    name: str
    network: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int
    rounds: int
    slow_rounds: int


def mlp(*widths: int) -> Callable[[], nn.Module]:
    """Linear layers with ReLU between them."""

    def build() -> nn.Module:
        layers: list[nn.Module] = []
        for one, other in pairwise(widths):
            layers += [nn.Linear(one, other), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    return build


def dcgan(width: int) -> Callable[[], nn.Module]:
    """The DCGAN discriminator of 28 x 28 images, group norm in place of batch norm."""
    return lambda: nn.Sequential(
        nn.Conv2d(1, width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.GroupNorm(4, 2 * width),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(2 * width * 49, 1),
    )


CASES = (
    Case(name="MLP 108-256-256-1", network=mlp(108, 256, 256, 1), shape=(108,), batch=256, rounds=300, slow_rounds=6),
    Case(name="MLP 108-256-256-1", network=mlp(108, 256, 256, 1), shape=(108,), batch=1024, rounds=120, slow_rounds=3),
    Case(name="MLP 784-512-256-1", network=mlp(784, 512, 256, 1), shape=(784,), batch=256, rounds=80, slow_rounds=3),
    Case(name="MLP 784-512-256-1", network=mlp(784, 512, 256, 1), shape=(784,), batch=600, rounds=50, slow_rounds=3),
    Case(name="DCGAN D, width 32", network=dcgan(32), shape=(1, 28, 28), batch=256, rounds=20, slow_rounds=3),
)


class TorchNoise:
    """torch's own generator: fast, and not fit for a release."""

    def __init__(self, device: str = "cpu") -> None:
        self._generator = torch.Generator(device).manual_seed(0)

    def added_flat(self, sums: Tensor, deviation: float) -> Tensor:
        """`sums` (n,) plus independent N(0, deviation^2), float32."""
        drawn = torch.empty(len(sums), device=sums.device).normal_(0.0, deviation, generator=self._generator)
        return drawn.add_(sums.float())  # of two types at once torch adds at half the speed


def loss(module: nn.Module, rows: Tensor) -> Tensor:
    """Real records should score high: one value per record."""
    scores = module(rows).squeeze(1)
    return F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores), reduction="none")


def plain_step(module: nn.Module, rows: Tensor) -> Step:
    """Steps of plain SGD."""
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE_OF_LEARNING)

    def step() -> None:
        optimiser.zero_grad()
        loss(module, rows).mean().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def private_step(module: nn.Module, total: Total, noise: Noise | TorchNoise, batch: int) -> Step:
    """Steps of DP-SGD, of which `total` gives the clipped sum."""
    parameters = list(module.parameters())
    optimiser = torch.optim.SGD(parameters, lr=RATE_OF_LEARNING)

    def step() -> None:
        noisy = gradients.add_noise(total(module), MULTIPLIER * CLIP, noise)
        noisy.flat.div_(batch)
        for parameter, gradient in zip(parameters, noisy.values(), strict=True):
            parameter.grad = gradient
        optimiser.step()

    return step


def steps(case: Case) -> dict[str, Step]:
    """The ways to take one step, each on a network and an optimiser of its own."""
    rows = torch.randn(case.batch, *case.shape, generator=torch.Generator().manual_seed(1))

    def private(total: Total, noise: Noise | TorchNoise) -> Step:
        return private_step(case.network(), total, noise, case.batch)

    def in_double(module: nn.Module) -> gradients.Gradients:
        return gradients.sum_and_count(module, loss, rows, None, CLIP, counting=False)[0]

    def in_buckets() -> Total:
        keys = np.random.default_rng(3).integers(0, 2**64, case.batch, dtype=np.uint64)
        known: list[buckets.Prepared] = []

        def total(module: nn.Module) -> gradients.Gradients:
            if not known:
                found = buckets.probed(module, loss, rows[:4], buckets.Buckets.of(case.batch))
                if found is None:
                    raise RuntimeError(f"{case.name} has no buckets")
                known.append(found)
            return gradients.sum_and_count(
                module, loss, rows, None, CLIP, keys=keys, prepared=known[0], counting=False
            )[0]

        return total

    def by_vmap(module: nn.Module) -> gradients.Gradients:
        double = in_float64(module)
        trained = dict(double.named_parameters())
        sums = Sums(trained)
        explicit.add(double, loss, Batch.of(rows.double(), None), Bound(CLIP), trained, sums)
        return sums.finished()

    def one_at_a_time(module: nn.Module) -> gradients.Gradients:
        trained = dict(module.named_parameters())
        sums = {name: torch.zeros_like(parameter, dtype=torch.float64) for name, parameter in trained.items()}
        for row in rows.split(1):
            parts = [part.double() for part in torch.autograd.grad(loss(module, row).sum(), list(trained.values()))]
            norm = torch.stack([part.square().sum() for part in parts]).sum().sqrt()
            for total, part in zip(sums.values(), parts, strict=True):
                total += part * (CLIP / norm.clamp_min(CLIP))
        return gradients.Gradients(torch.cat([value.flatten() for value in sums.values()]), sums)

    def noise_alone() -> None:
        numbers.normal_(0.0, CLIP, generator=generator)

    numbers = torch.empty(sum(parameter.numel() for parameter in case.network().parameters()))
    generator = torch.Generator().manual_seed(2)
    return {
        PLAIN: plain_step(case.network(), rows),
        NOISE: noise_alone,
        "buckets, torch's noise": private(in_buckets(), TorchNoise()),
        "buckets, hardened noise": private(in_buckets(), Noise()),
        "float64, torch's noise": private(in_double, TorchNoise()),
        SLOW[0]: private(by_vmap, TorchNoise()),
        SLOW[1]: private(one_at_a_time, TorchNoise()),
    }


def measure(case: Case, quick: bool) -> dict[str, dict[str, float]]:
    """Median ratio, median milliseconds of processor time and number of rounds, by way."""
    ways = steps(case)
    rounds = max(5, case.rounds // (4 if quick else 1))
    slow = max(1, case.slow_rounds // (4 if quick else 1))
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    ratios: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(-3, rounds):  # three rounds to warm up
        for name, step in ways.items():
            if name in SLOW and not 0 <= turn < slow:
                continue
            start = time.thread_time()
            step()
            seconds[name].append(time.thread_time() - start)
            ratios[name].append(seconds[name][-1] / seconds[PLAIN][-1])
    skip = {name: 0 if name in SLOW else 3 for name in ways}
    return {
        name: {
            "ratio": statistics.median(ratios[name][skip[name] :]),
            "milliseconds": 1e3 * statistics.median(seconds[name][skip[name] :]),
            "rounds": len(ratios[name]) - skip[name],
        }
        for name in ways
    }


def table(results: list[dict[str, Any]]) -> str:
    """The ratios as Markdown."""
    names = list(results[0]["ways"])
    lines = ["| model | batch | plain step | " + " | ".join(names[1:]) + " |", "|---" * (len(names) + 2) + "|"]
    for result in results:
        ways = result["ways"]
        ratios = [f"{ways[name]['ratio']:.2f}" for name in names[1:]]
        lines.append(
            f"| {result['model']} | {result['batch']} | {ways[PLAIN]['milliseconds']:.2f} ms | {' | '.join(ratios)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure every case, print the table, write the reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rounds")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    results: list[dict[str, Any]] = []
    for case in CASES:
        ways = measure(case, quick)
        results.append({"model": case.name, "batch": case.batch, "ways": ways})
        print(
            f"{case.name}, batch {case.batch}: " + ", ".join(f"{k} {v['ratio']:.2f}" for k, v in ways.items()),
            flush=True,
        )
    config = {"clip": CLIP, "noise": MULTIPLIER, "optimiser": "SGD", "threads": torch.get_num_threads(), "quick": quick}
    seen = record.provenance()
    result = {"config": config, "results": results, "provenance": seen, "elsewhere": elsewhere(seen["processor"])}
    record.write("bench_step", result, text(result))
    print("\n" + table(results))


def elsewhere(processor: str) -> list[dict[str, Any]]:
    """What the report has of other processors, the last run of each."""
    last = trials.report_of("bench_step")
    runs = [{"results": last["results"], "provenance": last["provenance"]}, *last.get("elsewhere", ())] if last else []
    return [run for run in runs if run["provenance"]["processor"] != processor]


def text(result: dict[str, Any]) -> str:
    """The report, in words."""
    headings = ("The last run", *("Another processor, earlier" for _ in result["elsewhere"]))
    runs = "\n\n".join(
        f"## {heading}\n\n{table(run['results'])}\n\n{where(run['provenance'])}"
        for heading, run in zip(headings, (result, *result["elsewhere"]), strict=True)
    )
    return f"""# One DP-SGD step against one plain SGD step

Ratios of processor time: forward, backward, per-unit norms, clipping, weighted sum, noise on every parameter and the SGD
update, over forward, backward and update of a plain step. One thread, every unit one record, medians of ratios over
interleaved rounds. "Buckets" is what fits use for modules that allow it: float32, each bucket of units padded to one shape,
the batch being just the expected one; "float64" is what they use elsewhere. Asked of buckets with torch's noise: 1.5 at batch
256 and 1.9 at 1,024 for the MLPs, 2.8 for the DCGAN. "torch's noise alone" is the part of it that nothing but fewer normals could save
(four nanoseconds or so for each). The fallback keeps every per-unit gradient; microbatches of one are the definition, in a loop.

{runs}

Written by `recipes/bench_step.py`.
"""


def where(seen: dict[str, Any]) -> str:
    """Machine and code of a run, in a line."""
    changed = " with uncommitted changes" if seen["uncommitted_changes"] else ""
    return (
        f"torch {seen['versions']['torch']}, Python {seen['python']}, {seen['processor']}, "
        f"commit {seen['commit'] or 'unknown'}{changed}."
    )


if __name__ == "__main__":
    main()
