"""The command line: `synthdp COMMAND key=value ...`. It starts in a blink; each command imports what it needs.

Exit status: 0 done, 2 bad input (one clear line on stderr), 3 an audit contradicts its claim, 130 interrupted, 141 whoever read the output
has gone, as in `| head`.
"""

import importlib
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import synthdp
from synthdp.errors import BadInput, nearest, without_passwords
from synthdp.files.private_folder import asked_to_end, owner_only

COMMANDS = {
    "check": "compare a table with its schema, for the steward's eyes (internal)",
    "plan": "show what a fit would ask and how much noise its answers would hold; reads no record",
    "split": "hold out some units' records, before a fit, for the evaluation (internal)",
    "fit": "learn a generator from sensitive records, within a privacy budget",
    "pate": "label public records by the noisy votes of teachers, and train a classifier on them",
    "sample": "draw synthetic records from a release",
    "evaluate": "judge synthetic records against real ones (internal)",
    "compare": "judge all releases of a sweep, and plot utility against epsilon (internal)",
    "report": "check a release and write the statement of its guarantee, as a page and as JSON",
    "verify": "check a release: whether it was altered, its epsilon, who signed it, and what is only claimed",
    "keygen": "make a pair of keys to sign releases with",
    "sign": "sign a release, so that whoever has the public key can detect every change",
    "budget": "show what the fits of a data set have spent, and what is left",
    "audit": "attack a release or a generator, and compare what leaks with what was claimed",
    "epsilon": "compute the epsilon of a mechanism, of a ledger, or of the votes of teachers",
    "calibrate": "find the noise that keeps a budget",
    "schema": "draft a schema from a file or a folder of pictures, for review",
    "data": "list the named data sets",
    "demo": "run the whole job on the embedded data set",
    "completion": "write the script that completes commands and options in a shell: completion bash, or completion zsh",
}
# Commands that are not in commands.py.
ELSEWHERE = {
    "check": "before_fit",
    "plan": "before_fit",
    "split": "before_fit",
    "fit": "fits",
    "pate": "pate_fits",
    "evaluate": "evaluations",
    "epsilon": "epsilon",
    "calibrate": "epsilon",
    "budget": "budgets",
    "audit": "audits",
    "compare": "compare",
    "report": "releases",
    "verify": "releases",
    "keygen": "releases",
    "sign": "releases",
}
# What they write is about real records: nobody else's to read.
INTERNAL = ("check", "split", "evaluate", "compare", "audit")
ANSWERING = ("plan", "verify", "budget", "epsilon", "calibrate", "data", "completion")  # with an answer, and no file
ANSWERING_UNLESS = ("check", "audit", "schema")  # the same, where no file is given for the answer
BAD_INPUT, INTERRUPTED, UNHEARD = 2, 130, 141
STANDARD_OUTPUT = 1  # its file descriptor
LONG, LONGEST = 1_000, 10_000  # characters of a word and of a line that are shown of an error


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit status."""
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [*arguments[1:], "--help"]
    warnings.showwarning = _show_warning
    if not arguments or arguments[0] in ("-h", "--help", "help", "-V", "--version"):
        return _ended(lambda: _about(arguments))
    try:
        words, streams = _messages_of(arguments[0], arguments[1:])
        with streams:
            return _ended(lambda: _run(arguments[0], words))
    except BadInput as error:
        return _refuse(error)


def _ended(command: Callable[[], int]) -> int:
    """The exit status of a command; why it ended early is said."""
    try:
        with asked_to_end():
            status = command()
            sys.stdout.flush()
            return status
    except BadInput as error:
        return _refuse(error)
    except BrokenPipeError:
        # Else Python tries once more when it ends, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
        return UNHEARD
    except OSError as error:
        return _refuse(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
    except MemoryError:  # its text has the shape of an array: how many records there are
        return _refuse("there is not enough memory; what a fit was charged stays charged")
    except KeyboardInterrupt:
        print("synthdp: interrupted", file=sys.stderr)
        return INTERRUPTED


def _messages_of(command: str, words: Sequence[str]) -> "tuple[list[str], AbstractContextManager[Any]]":
    """The words without `quiet=true` and `log=FILE`, which every command takes, and where what it says goes meanwhile."""
    told = dict(word.split("=", 1) for word in words if word.startswith(("quiet=", "log=")))
    rest = [word for word in words if not word.startswith(("quiet=", "log="))]
    if told.get("quiet", "false") not in ("true", "false"):
        raise BadInput("quiet must be true or false")
    if told.get("log") == "":
        raise BadInput("log must name a file")
    if not told:
        return rest, nullcontext()
    quiet = told.get("quiet") == "true"
    to_file = any(word.startswith("out=") for word in rest)
    answers = command in ANSWERING or (command in ANSWERING_UNLESS and not to_file)
    return rest, messages(command, quiet=quiet, silent=quiet and not answers, log=told.get("log"))


def overview() -> str:
    """What `synthdp --help` prints."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: synthdp COMMAND key=value ...",
            "       synthdp COMMAND --help      every option with its default",
            "       synthdp --version",
            "every command takes quiet=true (no progress, no closing lines) and log=FILE (also appends all messages to a file; internal)",
            "",
            *rows,
        ]
    )


def _about(words: Sequence[str]) -> int:
    """What is asked of the program itself, or nothing at all."""
    print(f"synthdp {synthdp.__version__}" if words and words[0] in ("-V", "--version") else overview())
    return 0 if words else BAD_INPUT


def _run(command: str, arguments: list[str]) -> int:
    if command not in COMMANDS:
        hint = nearest(command, COMMANDS) or "."
        raise BadInput(f"no command {command!r}{hint} Commands: {' '.join(COMMANDS)}")
    if command == "completion" and arguments[:1] and arguments[0].isalpha():
        arguments = [f"shell={arguments[0]}", *arguments[1:]]
    compose = importlib.import_module("synthdp.cli.compose")
    commands = importlib.import_module(f"synthdp.cli.{ELSEWHERE.get(command, 'commands')}")
    if any(argument in ("-h", "--help") for argument in arguments):
        print(compose.help_text(command, COMMANDS[command], arguments))
        return 0
    configs = compose.compose(command, arguments)
    for config in configs if command == "fit" else ():
        commands.check_fit(config)
    with owner_only() if command in INTERNAL else nullcontext():
        for config in configs:
            getattr(commands, command)(config)
    if command == "fit" and len(configs) > 1:
        commands.lead_to_comparison(configs)
    return 0


def _refuse(reason: Any) -> int:
    print("synthdp: " + _line(str(reason)), file=sys.stderr)
    return BAD_INPUT


def _line(text: str) -> str:
    """The text in one line that a terminal can show: names that it quotes may be long, and somebody else's."""
    words = (word if len(word) <= LONG else f"{word[:LONG]}..." for word in without_passwords(text).split())
    line = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in " ".join(words))
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning):
        print(f"synthdp: warning: {_line(str(message))}", file=sys.stderr)


AMISS, NEXT = "synthdp:", "next "  # how warnings and errors begin, and the line that says which command comes next
Shown = Callable[[str], bool]


class Both(io.TextIOBase):
    """Text that goes to a stream and to a file. `shown`: which lines the stream gets, if not all."""

    def __init__(self, stream: TextIO | None, file: TextIO | None, shown: Shown | None = None) -> None:
        self._stream, self._file, self._shown = stream, file, shown
        self._begun = ""  # of a line that is not at its end
        self.buffer = getattr(stream, "buffer", None)  # of records on standard output, which are no message

    def write(self, text: str) -> int:
        """Line by line where only some are passed on."""
        if self._file is not None:
            self._file.write(text)
            self._file.flush()
        if self._stream is not None and self._shown is None:
            self._stream.write(text)
        *lines, self._begun = (self._begun + text).split("\n")
        if self._stream is not None and self._shown is not None:
            self._stream.writelines(f"{line}\n" for line in lines if self._shown(line))
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()


@contextmanager
def messages(command: str, *, quiet: bool, silent: bool, log: str | None) -> Iterator[None]:
    """Redirect both streams while a command runs. `quiet`: only warnings and errors go to standard error; `silent`: nothing but
    records goes to standard output. The file is the owner's alone: what is said of real records is internal. Raises `BadInput` where
    it cannot be written."""
    with ExitStack() as stack:
        file = None
        if log is not None:
            try:
                descriptor = os.open(Path(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            except OSError as error:
                raise BadInput(f"log={log}: cannot be written ({error.strerror})") from None
            file = stack.enter_context(os.fdopen(descriptor, "a", encoding="utf-8"))
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} synthdp {_line(command)}\n")
        out = Both(None if silent else sys.stdout, file, (lambda line: not line.startswith(NEXT)) if quiet else None)
        out.buffer = sys.stdout.buffer if hasattr(sys.stdout, "buffer") else None
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(
            redirect_stderr(Both(sys.stderr, file, (lambda line: line.startswith(AMISS)) if quiet else None))
        )
        yield
