"""What long work shows while it runs: a bar on a terminal, a few lines elsewhere. Only public figures."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

MOST_NAME = 60  # characters of a name that somebody else chose
LINES = 10  # printed where there is no terminal
Step = Callable[..., None]


@contextmanager
def progress(label: str) -> Iterator[Step]:
    """A callback `(step, steps, figures or text)` that draws on stderr while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(label)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=None, note="")

        def show(step: int, steps: int, note: Mapping[str, float] | str = "") -> None:
            bar.update(task, completed=step, total=steps, note=_note(note))

        yield show


def _lines(label: str) -> Step:
    printed = -1
    start = time.monotonic()

    def show(step: int, steps: int, note: Mapping[str, float] | str = "") -> None:
        nonlocal printed
        tenth = step * LINES // max(1, steps)
        if tenth != printed:
            printed = tenth
            print(
                f"{label}: {step}/{steps} {_note(note)} {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True
            )

    return show


def _note(note: Mapping[str, float] | str) -> str:
    return note if isinstance(note, str) else "  ".join(f"{name} {value:.3g}" for name, value in note.items())


def name(given: Any) -> str:
    """A name that somebody else chose, in a table on a terminal: shortened, and without what moves the cursor or colours."""
    text = str(given)
    text = text if len(text) <= MOST_NAME else f"{text[:MOST_NAME]}..."
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
