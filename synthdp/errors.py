"""The error for input that cannot be used, and the warnings that users may want to silence by name."""

import re

# `scheme://user:password@host`, also where a path has made one slash of two; a password may hold an @ itself.
IN_URL = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*:/+[^\s:/@'\"]*):.{0,500}@")
IN_WORDS = re.compile(r"(?i)(password|passwd|pwd|secret)(\s*=\s*)('[^']*'|[^\s&;]+)")


class BadInput(ValueError):
    """A mistake in what the user gave, worded for them: what, where, and the remedy; never a cell's value, nor a password.

    The command line prints it as one line and exits with status 2.
    """

    def __init__(self, *words: object) -> None:
        super().__init__(*(without_passwords(word) if isinstance(word, str) else word for word in words))


def without_passwords(text: str) -> str:
    """The text with `***` in place of every password of a URL or of a database's connection string."""
    return IN_WORDS.sub(r"\1\2***", IN_URL.sub(r"\1:***@", text))


class NotEntered(UserWarning):
    """A fit of real records is entered in no account, so what it spends is not added to what other fits spend."""


class InFloat64(UserWarning):
    """This machine rounds a row by its place in a batch, so a fit computes its gradients in float64: as private, and slower."""
