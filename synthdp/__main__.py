"""`python -m synthdp`, and the `synthdp` command."""

import os
import sys

# Threads that wait must not burn the cores that other work needs; read by OpenMP when it is first loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from synthdp.cli import run


def main() -> None:
    """Run the command line and leave with its exit status."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
