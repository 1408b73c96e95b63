"""What a command says: also to a file (`log=FILE`), or only where something is amiss (`quiet=true`)."""

import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TextIO

from synthdp.errors import BadInput

AMISS = "synthdp:"  # how warnings and errors begin


class Both(io.TextIOBase):
    """Text that goes to a stream and to a file. `only`: the stream gets no lines but those that begin so."""

    def __init__(self, stream: TextIO | None, file: TextIO | None, only: str = "") -> None:
        self._stream, self._file, self._only = stream, file, only
        self._begun = ""  # of a line that is not at its end
        self.buffer = getattr(stream, "buffer", None)  # of records on standard output, which are no message

    def write(self, text: str) -> int:
        """Line by line where only some are passed on."""
        if self._file is not None:
            self._file.write(text)
            self._file.flush()
        if self._stream is not None and not self._only:
            self._stream.write(text)
        *lines, self._begun = (self._begun + text).split("\n")
        if self._stream is not None and self._only:
            self._stream.writelines(f"{line}\n" for line in lines if line.startswith(self._only))
        return len(text)

    def flush(self) -> None:
        """The stream's."""
        if self._stream is not None:
            self._stream.flush()


@contextmanager
def heard(*, quiet: bool, log: str | None) -> Iterator[None]:
    """Redirect both streams meanwhile. The file is the owner's alone: what is said of real records is internal. Raises `BadInput` where
    it cannot be written."""
    with ExitStack() as stack:
        file = None
        if log is not None:
            try:
                descriptor = os.open(Path(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            except OSError as error:
                raise BadInput(f"log={log}: cannot be written ({error.strerror})") from None
            file = stack.enter_context(os.fdopen(descriptor, "a", encoding="utf-8"))
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} synthdp\n")
        out = Both(None if quiet else sys.stdout, file)
        out.buffer = sys.stdout.buffer if hasattr(sys.stdout, "buffer") else None
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(Both(sys.stderr, file, AMISS if quiet else "")))
        yield
