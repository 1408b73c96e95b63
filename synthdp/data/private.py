"""A folder for what of the records does not fit in memory: nobody else's, and gone at the end, also where a signal asks for that."""

import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ENDING = ("SIGTERM", "SIGHUP")  # signals that end a process, and ask first


@contextmanager
def private_folder(within: Path | None) -> Iterator[Path]:
    """A folder of our own (mode 0700) while the block runs; `within` is where it lies, by default where temporary files do."""
    with asked_to_end():
        folder = Path(tempfile.mkdtemp(prefix="synthdp-", dir=within))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def asked_to_end() -> Iterator[None]:
    """SIGTERM and SIGHUP interrupt the block as Ctrl-C does, where they would end the process on the spot; handlers of the
    program's own stay, and a signal that is ignored (nohup) stays ignored."""
    numbers = [getattr(signal, name) for name in ENDING if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        ours = []  # only the main one may say what a signal does

    def interrupt(number: int, frame: Any) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
