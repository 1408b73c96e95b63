"""`python -m synthdp`, and the `synthdp` command."""

import sys

from synthdp.cli import run


def main() -> None:
    """Run the command line and leave with its exit status."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
