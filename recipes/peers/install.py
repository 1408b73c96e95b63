"""A virtual environment of its own for each peer, under outputs/peers: their pins contradict ours. Never part of CI.

    PIP_FIND_LINKS=https://download.pytorch.org/whl/cpu/torch/ python recipes/peers/install.py [dpmm dpsynth mostly sdv smartnoise]

The torch of those links is built for CPUs; PyPI's weighs gigabytes. dpsynth is on GitHub alone, wants Python 3.12, and a newer
dp-accounting than PyPI's.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "outputs" / "peers"
TORCH = "torch==2.13.0+cpu"
PINS = {
    "dpmm": ("dpmm==0.1.9",),  # pins numpy 1.26.4 and pandas 2.1.0 in its turn; Python 3.10 or 3.11
    "dpsynth": (
        "jax[cpu]==0.11.0", "mbi==2.0.0", "dp-accounting==0.6.0", "pandas==3.1.1", "pydantic", "more-itertools", "pyyaml", "tqdm",
        "etils[epath]",
    ),
    "mostly": (TORCH, "mostlyai-engine==2.7.3"),
    "sdv": (TORCH, "sdv==2.0.0"),
    "smartnoise": (TORCH, "smartnoise-synth==1.0.8"),
}  # fmt: skip
PYTHON = {"dpsynth": "python3.12"}
# After the pins, so that what it asks for is not followed, or is taken back: torchvision of PyPI does not load beside this torch.
LAST = {
    "dpsynth": (
        "install", "--no-deps", "--force-reinstall",
        "git+https://github.com/google/dpsynth@cf8075f319b96c2e009e4ea6bb55378faccbbc80",
        "git+https://github.com/google/differential-privacy@b5b0286e313b64a692abfc8c528d54ef47d960a0#subdirectory=python/dp_accounting",
    ),
    "mostly": ("uninstall", "--yes", "torchvision", "torchaudio"),
}  # fmt: skip


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment, whether it is there or not."""
    return FOLDER / peer / "bin" / "python"


def install(peer: str) -> None:
    """Make the environment, anew where it is there already."""
    subprocess.run([PYTHON.get(peer, sys.executable), "-m", "venv", "--clear", str(FOLDER / peer)], check=True)
    for words in (("install", *PINS[peer]), LAST.get(peer)):
        if words:
            subprocess.run([str(python_of(peer)), "-m", "pip", "--quiet", *words], check=True)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or PINS:
        install(wanted)
