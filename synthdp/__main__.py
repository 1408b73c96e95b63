"""`python -m synthdp`, and the `synthdp` command."""

import os
import signal
import sys

# Threads that wait must not burn the cores that other work needs; read by OpenMP when it is first loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from synthdp.cli import INTERRUPTED, run


def main() -> None:
    """Run the command line and leave with its exit status."""
    status = run(sys.argv[1:])
    if status == INTERRUPTED:  # a second Ctrl-C, while Python ends, would only show a traceback
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(status)


if __name__ == "__main__":
    main()
