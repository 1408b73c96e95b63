"""A virtual environment of its own for each peer, under outputs/peers: their pins contradict ours. Never part of CI.

python recipes/peers/install.py [dpmm]
"""

import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "outputs" / "peers"
PINS = {"dpmm": ("dpmm==0.1.9",)}  # pins numpy 1.26.4 and pandas 2.1.0 in its turn; Python 3.10 or 3.11


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment, whether it is there or not."""
    return FOLDER / peer / "bin" / "python"


def install(peer: str) -> None:
    """Make the environment, anew where it is there already."""
    venv.create(FOLDER / peer, clear=True, with_pip=True)
    subprocess.run([str(python_of(peer)), "-m", "pip", "install", "--quiet", *PINS[peer]], check=True)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or PINS:
        install(wanted)
