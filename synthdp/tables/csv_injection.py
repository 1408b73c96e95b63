"""Text that a spreadsheet would run as a formula (CSV injection): harmless on the way out, restored on the way in."""

import re

MARK = "'"
DANGER = re.compile(r"'*[=+\-@\t\r\x00]")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def neutral(text: str) -> str:
    """The text with a mark before it if it begins with = + - @ TAB CR or NUL; plain numbers are harmless and stay.

    Text that begins with marks and then one of these gets one more, so that `restored` is exact.
    """
    return MARK + text if DANGER.match(text) and not NUMBER.fullmatch(text) else text


def restored(text: str) -> str:
    """The inverse of `neutral`."""
    return text[1:] if text.startswith(MARK) and neutral(text[1:]) == text else text
