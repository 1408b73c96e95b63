"""The diffusion model on MNIST with a GPU's number of steps: train on synthetic, test on real.

    SYNTHDP_DATA=/path/to/data python recipes/dpdm_gpu.py fit OUT [--seconds 400]    # needs a CUDA device
    SYNTHDP_DATA=/path/to/data python recipes/dpdm_gpu.py judge OUT                  # anywhere -> reports/dpdm_gpu.{json,md}

`fit` takes the trials in order, as many as it has time for, and keeps of each the pictures that it and its start draw. Settings were
set beforehand, by hand, and tried on no data but for their speed.
"""

import argparse
import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from record import provenance, spread, write

from synthdp import Budget, Synthesizer, load
from synthdp.evaluate.images import accuracies
from synthdp.sets import named

DELTA, MODELS = 1e-5, ("lr", "mlp", "cnn")
COMMON: dict[str, Any] = {"share": 0.5, "device": "cuda"}
SETTINGS: dict[str, dict[str, Any]] = {
    "mlp": {**COMMON, "hidden": 512, "depth": 2, "steps": 1000, "batch": 4096, "multiplicity": 8, "average": 0.99},
    "unet": {**COMMON, "architecture": "unet", "hidden": 16, "steps": 150, "batch": 2048, "multiplicity": 8},
}
EPSILONS, SEEDS = (10.0, 1.0), (0, 1, 2)
TRIALS = [(name, epsilon, seed) for seed in SEEDS for name in SETTINGS for epsilon in EPSILONS]
MACHINE = "machine.json"


def fit(out: Path, limit: float, wanted: list[str] | None) -> None:
    """Fit, draw, keep, while there is time for one more of the kind."""
    began, chosen = time.perf_counter(), named.load("mnist")
    label = chosen.schema.targets[0]
    took: dict[str, float] = {}
    out.mkdir(parents=True, exist_ok=True)
    seen = {"device": torch.cuda.get_device_name(), **provenance()}
    (out / MACHINE).write_text(json.dumps(seen), encoding="utf-8")
    for name, epsilon, seed in TRIALS:
        late = time.perf_counter() - began + took.get(name, 0.0) > limit
        if late or (wanted is not None and place(name, epsilon, seed) not in wanted):
            continue
        start = time.perf_counter()
        made = Synthesizer("dpdm", schema=chosen.schema, budget=Budget(epsilon, DELTA), **SETTINGS[name])
        release = made.fit(chosen.train, seed=seed)
        fitted = time.perf_counter() - start
        release.save(out / place(name, epsilon, seed))
        frame = release.sample(len(chosen.train), seed=seed)
        np.savez_compressed(
            out / f"{place(name, epsilon, seed)}.npz",
            seconds=fitted,
            images=np.stack([pixels(cell) for cell in frame["image"]]),
            labels=np.array(frame[label].astype(str), "U"),
        )
        took[name] = time.perf_counter() - start
        print(f"{name}, epsilon {epsilon:g}, seed {seed}: fit {fitted:.1f} s, in all {took[name]:.1f} s", flush=True)


def judge(out: Path) -> None:
    """Accuracies on the real test pictures, of what was drawn and of the start of the same fits."""
    chosen = named.load("mnist")
    label = chosen.schema.targets[0]
    rows = []
    for name, settings in SETTINGS.items():
        for epsilon in EPSILONS:
            found: dict[str, list[float]] = {}
            for seed in SEEDS:
                kept = out / f"{place(name, epsilon, seed)}.npz"
                if not kept.exists():
                    continue
                with np.load(kept) as held:
                    frame = pd.DataFrame({"image": list(held["images"]), label: held["labels"].astype(object)})
                    found.setdefault("fit_seconds", []).append(float(held["seconds"]))
                model: Any = load(out / place(name, epsilon, seed)).model
                begun = model.start.sample(len(chosen.train), seed=seed)
                for prefix, each in (("", frame), ("start_", begun)):
                    scores = accuracies(each, chosen.test, chosen.schema, models=MODELS)
                    for which, value in scores.items():
                        found.setdefault(prefix + which, []).append(value)
                print(name, epsilon, seed, {key: value[-1] for key, value in found.items()}, flush=True)
            if found:
                figures = {key: spread(values) for key, values in found.items()}
                rows.append({"network": name, "settings": settings, "epsilon": epsilon, "figures": figures})
    machine = json.loads((out / MACHINE).read_text(encoding="utf-8"))
    result = {"delta": DELTA, "rows": rows, "fitted_on": machine, **provenance()}
    write("dpdm_gpu", result, page(result))


def place(name: str, epsilon: float, seed: int) -> str:
    """The name of a trial's files."""
    return f"{name}_{epsilon:g}_{seed}"


def pixels(cell: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A picture's grey values."""
    if isinstance(cell, bytes):
        return np.asarray(Image.open(io.BytesIO(cell)))
    return np.asarray(cell, np.uint8)


def page(result: dict[str, Any]) -> str:
    """The report, in words."""
    lines = [
        "| network | epsilon | seeds | logistic regression | MLP | CNN | CNN, its start alone | fit, seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        figures = row["figures"]
        cells = [percent(figures[key]) for key in (*MODELS, "start_cnn")]
        seconds = figures["fit_seconds"]
        lines.append(
            f"| {row['network']} | {row['epsilon']:g} | {seconds['n']} | {' | '.join(cells)} | {seconds['mean']:.0f} |"
        )
    said = "; ".join(
        f"`{name}`: " + ", ".join(f"{key}={value}" for key, value in settings.items() if key != "device")
        for name, settings in SETTINGS.items()
    )
    machine = result["fitted_on"]
    return f"""# `dpdm` on MNIST with a GPU's number of steps

Accuracy on real test pictures, trained on as many synthetic ones as there are real ones; delta {DELTA:g}; mean ± standard deviation
over seeds. Settings were set beforehand and tried on no data but for their speed: {said}.

{chr(10).join(lines)}

Its start alone: the class Gaussians that the network begins at, with the noise of the same fits.
Fitted on one {machine["device"]}, {machine["cores"]} cores, torch {machine["versions"]["torch"]}. Written by `recipes/dpdm_gpu.py`.
"""


def percent(found: dict[str, Any]) -> str:
    """Mean and spread, of a hundred."""
    return f"{100 * found['mean']:.1f}" + (f" ± {100 * found['sd']:.1f}" if found["n"] > 1 else "")


def main() -> None:
    """Fit or judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("fit", "judge"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=400.0, help="of fits, in all")
    parser.add_argument("--trials", nargs="*", default=None, help="NETWORK_EPSILON_SEED to fit; default: all")
    arguments = parser.parse_args()
    if arguments.what == "judge":
        judge(arguments.out)
    elif torch.cuda.is_available():
        fit(arguments.out, arguments.seconds, arguments.trials)
    else:
        raise SystemExit("dpdm_gpu: no CUDA device is there; nothing was fitted")


if __name__ == "__main__":
    main()
