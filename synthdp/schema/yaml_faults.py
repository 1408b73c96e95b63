"""What is wrong in a YAML file, and how to mend it: PyYAML's errors in words for whoever wrote the file."""

import re

import yaml

# What PyYAML says -> what we say. `{1}` is a group of the pattern, `{opened}` where the bracket or quote stands that is not closed.
_FAULTS = (
    (r"found character '\\t'", "a tab stands where only spaces may; indent with spaces"),
    (r"found character '(.)' that cannot start", "a value cannot begin with {1}; put it in quotes"),
    (r"expected ',' or '([\]}])'", "the bracket{opened} needs a comma after each value, and {1} after the last"),
    (r"found unexpected end of stream", "the quote{opened} is not closed; add the second one"),
    (r"but found '<scalar>'", "text follows a closing quote; a quote within quotes is doubled, as in 'it''s'"),
    (
        r"but found '[-?]'",
        "a block has both entries with - and keys; indent what belongs to a key further than the key",
    ),
    (r"expected <block end>", "the line is indented differently from its neighbours; indent all keys of a block alike"),
    (r"expected alphabetic or numeric", "a value cannot begin with & or *; put it in quotes"),
    (r"found undefined alias", "a value cannot begin with *; put it in quotes"),
    (r"could not determine a constructor", "a value cannot begin with !; put it in quotes"),
    (
        r"unknown escape character|escape sequence of",
        "in double quotes \\ begins an escape; use single quotes, or write \\\\",
    ),
    (r"but found another document", "a second document begins; a file holds one, so leave the line --- out"),
    (r"expected chomping", "after | or > the text begins on the next line; put it there, or in quotes"),
    (
        r"expected the node content",
        "a value is missing, or a bracket has no partner; write the value, or delete the bracket",
    ),
)
_SECOND_COLON = "a second ': ' follows on the line; put text that holds one in quotes, and several keys in braces { }"
_NO_COLON = "the text before this line has no ':' after its key; write it as `key: value`"
_UNKNOWN = "it cannot be understood from here on; check indentation, colons, quotes and brackets"


class Refused(yaml.MarkedYAMLError):
    """What valid YAML says, but a schema must not: `fault` is told as it is."""

    def __init__(self, fault: str, node: yaml.Node) -> None:
        super().__init__(problem=fault, problem_mark=node.start_mark)


def told(error: yaml.YAMLError, text: str | None = None) -> tuple[str, str]:
    """Where the fault is, as ", line 2, column 5", and the fault with its remedy. `text`: the whole file, if it is known."""
    if isinstance(error, yaml.reader.ReaderError):
        before = "" if text is None else text[: error.position]
        place = "" if text is None else _place(before.count("\n"), len(before.rpartition("\n")[2]))
        return place, f"the character U+{error.character:04X} cannot stand in a text file; delete it"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "", _UNKNOWN
    mark = error.problem_mark
    return _place(mark.line, mark.column), _fault(error, text, mark)


def _place(line: int, column: int) -> str:
    return f", line {line + 1}, column {column + 1}"


def _fault(error: yaml.MarkedYAMLError, text: str | None, mark: yaml.Mark) -> str:
    problem = error.problem or ""
    if isinstance(error, Refused):
        return problem
    if problem.startswith("mapping values are not allowed"):
        before = "" if text is None else text.splitlines()[mark.line][: mark.column]
        return _SECOND_COLON if text is None or ": " in before else _NO_COLON
    start = error.context_mark
    opened = "" if start is None else f" opened in line {start.line + 1}, column {start.column + 1},"
    for pattern, fault in _FAULTS:
        match = re.search(pattern, problem)
        if match:
            return fault.format("", *match.groups(), opened=opened)
    return _UNKNOWN
