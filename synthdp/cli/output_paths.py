"""Where commands write: folders and files that are refused before any work is done, and ledgers that are never lost."""

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from synthdp.cli import NEXT
from synthdp.errors import BadInput, listed
from synthdp.files import CHECKPOINT, atomic, private_folder
from synthdp.ledger.ledger import check_free
from synthdp.schema.schema import Schema


def folder(name: str, *, force: bool) -> Path:
    """The folder to write to; refused where it is a file, holds something (unless `force`) or cannot be written."""
    chosen = Path(name)
    nearest = next(place for place in (chosen, *chosen.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise BadInput(f"out={chosen}{'' if chosen == nearest else f': {nearest}'} is a file; give a folder")
    if not os.access(nearest, os.W_OK):
        raise BadInput(f"out={chosen} cannot be written, because {nearest} does not permit it; choose another folder")
    if chosen.is_dir() and _holds_something(chosen) and not force:
        if (chosen / "internal" / NEW).exists():
            raise BadInput(
                f"out={chosen} holds a fit that is running or was stopped; resume=true with the same arguments continues a stopped one "
                "at no further charge. A new fit needs another folder, or force=true, and is charged again"
            )
        raise BadInput(f"out={chosen} exists and is not empty; choose another folder or pass force=true")
    return chosen


def _holds_something(chosen: Path) -> bool:
    """Whether a folder holds more than the lock of a fit that works there, or was killed before it wrote anything."""
    internal = chosen / "internal"
    return any(each not in (internal, internal / private_folder.LOCK) for each in chosen.rglob("*"))


@contextmanager
def claimed(name: str, *, force: bool) -> Iterator[Path]:
    """The folder of a fit, for it alone until the block ends. Raises `BadInput` if another fit has it, and as `folder` does."""
    folder(name, force=True)
    taken = f"out={name}: another fit is working in this folder; wait until it ends, or choose another folder"
    with private_folder.alone(Path(name) / "internal", taken):
        clear(name)
        yield folder(name, force=force)


def clear(name: str) -> None:
    """Remove what a killed fit could not: records that did not fit in memory and, where it had no ledger yet, what it had prepared."""
    internal = Path(name) / "internal"
    if not internal.is_dir():
        return
    private_folder.clear(internal)
    if not (internal / NEW).exists() and not (internal / LEDGER).exists():
        for leftover in (*SAVED, CANARIES):
            (internal / leftover).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # only where nothing else is in it
        internal.rmdir()


def file(name: str, *, force: bool) -> Path:
    """The file to write, its folder made; refused where it exists (unless `force`)."""
    chosen = Path(name)
    if chosen.is_dir():
        raise BadInput(f"out={chosen} is a folder, but a file is needed")
    if chosen.exists() and not force:
        raise BadInput(f"out={chosen} exists; choose another file or pass force=true")
    chosen.parent.mkdir(parents=True, exist_ok=True)
    return chosen


def seen(schema: Path) -> Path:
    """Where it is written what a draft saw in the records."""
    return schema.with_name(f"{schema.stem}.seen.internal.yaml")


def records(name: str, schema: Schema, *, force: bool) -> Path:
    """The file to write records to, or the folder where they are pictures and the name has no ending."""
    from synthdp.sets import record_files

    if schema.image is None or record_files.picture_ending(Path(name)):
        return file(name, force=force)
    chosen = folder(name, force=force)
    if chosen.is_dir():
        from synthdp.images.picture_folder import check_replaced

        check_replaced(chosen)
    chosen.parent.mkdir(parents=True, exist_ok=True)
    return chosen


NEW, LEDGER, RELEASE = "ledger.new.jsonl", "ledger.jsonl", "release"
ANSWERS = f"{CHECKPOINT}.answers"
# The files of a fit that may go on.
SAVED = tuple(f"{name}{ending}" for name in (CHECKPOINT, ANSWERS) for ending in ("", ".next"))
CANARIES = "canaries.json"


def open_ledger(internal: Path, *, resume: bool) -> Path:
    """The ledger that a fit charges until it ends. A ledger that a stopped fit left there is continued, or first put among the
    old ones. Raises `BadInput` where a running fit writes it."""
    if not resume:
        check_free(internal / NEW)
        close_ledger(internal)
    return internal / NEW


def check_unfinished(out: Path) -> None:
    """Refuse to resume where no fit was stopped. A release that was complete when its writer was stopped takes its place first."""
    atomic.recover(out / "release")
    if (out / "internal" / NEW).exists():
        return
    if (out / RELEASE).exists():
        raise BadInput(
            f"out={out}: the fit there finished, so there is nothing to resume; leave resume= out, or choose another folder"
        )
    raise BadInput(
        f"out={out}: no fit was stopped there after its first answer, so there is nothing to resume; leave resume= out to start a "
        "new one (the account keeps what an earlier one was charged)"
    )


def close_ledger(internal: Path) -> None:
    """The new ledger, if anything was charged, becomes ledger.jsonl, and the one before it ledger.N.jsonl: none is lost. The
    checkpoint and the answers that were kept are of no use any more."""
    new, ledger = internal / NEW, internal / LEDGER
    for name in SAVED:
        (internal / name).unlink(missing_ok=True)
    if not new.exists():
        return
    if ledger.exists():
        number = 1
        while (internal / f"ledger.{number}.jsonl").exists():
            number += 1
        ledger.rename(internal / f"ledger.{number}.jsonl")
    new.rename(ledger)


# ---- What long work shows while it runs: a bar on a terminal, a few lines elsewhere. Only public figures.


MOST_NAME = 60  # characters of a name that somebody else chose
LINES = 10  # printed where there is no terminal
Step = Callable[..., None]


def say(lines: Iterable[str]) -> None:
    """Print one line after another."""
    for line in lines:
        print(line)


def warn(text: str) -> None:
    """Print a warning to standard error, which `quiet=true` does not hide."""
    print(f"synthdp: warning: {text}", file=sys.stderr)


def say_run(config: Mapping[str, Any]) -> None:
    """Print which run of a sweep the lines below are about; nothing where there is no sweep."""
    if config.get("run"):
        print(f"run        {config['run']}", flush=True)


def left_out(schema: Schema) -> list[str]:
    """A line that names the columns which synthetic files lack, because the schema ignores them; none where there are none."""
    names = [column.name for column in schema.ignored]
    return [f"left out   synthetic files lack ignored columns: {listed(names)}"] if names else []


def then(command: str, **given: Any) -> str:
    """A line that says which command comes next, to be copied."""
    words = (shlex.quote(f"{name.replace('__', '.')}={value}") for name, value in given.items() if value is not None)
    return f"{NEXT:<11}synthdp {command} {' '.join(words)}"


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
    first: tuple[int, float] | None = None  # when the first step was done: what came before was setting up

    def show(step: int, steps: int, note: Mapping[str, float] | str = "") -> None:
        nonlocal printed, first
        tenth = step * LINES // max(1, steps)
        if tenth != printed:
            printed = tenth
            took = time.monotonic() - start
            if first is None and step > 0:
                first = step, took
            done, since = first or (step, took)
            rest = (took - since) * (steps - step) / (step - done) if done < step < steps else None
            left = "" if rest is None else f", about {rest:.0f} s left"
            print(f"{label}: {step}/{steps} {_note(note)} {took:.0f} s{left}", file=sys.stderr, flush=True)

    return show


def _note(note: Mapping[str, float] | str) -> str:
    return note if isinstance(note, str) else "  ".join(f"{name} {value:.3g}" for name, value in note.items())


def name(given: Any) -> str:
    """A name that somebody else chose, in a table on a terminal: shortened, and without what moves the cursor or colours."""
    text = str(given)
    text = text if len(text) <= MOST_NAME else f"{text[:MOST_NAME]}..."
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
