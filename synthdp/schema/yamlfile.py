"""Schema files: YAML read so that what stands there is what is meant.

YAML 1.1 turns `No` into false, `01` into 1 and `2020-01-31` into a date, which would change categories and bounds in
silence. Here only true, false, null and plain decimal numbers are anything but text, and a key given twice is refused.
"""

import math
import re
from pathlib import Path
from typing import Any

import yaml

from synthdp.errors import BadInput
from synthdp.files import atomic, limits
from synthdp.files.strict_json import DIGITS
from synthdp.schema.yaml_faults import Refused, told

MOST_BYTES = 2 << 20
MOST_VALUES = 1_000_000


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own type)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node; `Refused` where it does not fit a tag that the file gives it, as in `!!int x`."""
        try:
            return super().construct_object(node, deep)
        except (AttributeError, LookupError, ValueError):
            raise Refused(
                "the value does not fit its tag, the word that begins with !!; delete the tag", node
            ) from None


class _Dumper(yaml.SafeDumper):
    """Quotes whatever either YAML 1.1 or our reader would take for something else than text, and writes what is there twice twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's hook
        return True


_NUMBER_STARTS = list("-+.0123456789")
_RULES = (
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", r"[-+]?(?:0|[1-9][0-9]*)", _NUMBER_STARTS),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(?=\.?[0-9])(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?",
        _NUMBER_STARTS,
    ),
)
for _tag, _pattern, _first in _RULES:
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str | int | float | bool | None):
            raise Refused("a key is a list or a mapping; write a name, in quotes if it begins with [ or {", key_node)
        if key in result:
            raise Refused(f"key {key!r} is given twice; delete one", key_node)
        result[key] = loader.construct_object(value_node, deep=True)
    return result


def _whole(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    if len(text) > DIGITS:
        raise Refused(f"a whole number of {len(text)} digits; if it is a code, put it in quotes", node)
    return int(text)


def _finite(loader: _Loader, node: yaml.ScalarNode) -> float:
    value = float(loader.construct_yaml_float(node))
    if not math.isfinite(value):
        raise Refused("a number too large for a float; if it is a code, put it in quotes", node)
    return value


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _finite)


def load(path: Path) -> Any:
    """The content of a YAML file. Raises `BadInput` in one line that names the file and the place."""
    return parse(read_text(path), str(path))


def parse(text: str, where: str) -> Any:
    """The content of YAML text; `where` names it in the error."""
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        _check_size(root, where)
        return None if root is None else loader.construct_document(root)
    except BadInput:
        raise
    except RecursionError:
        raise BadInput(f"{where}: refused, because it is nested too deep") from None
    except yaml.YAMLError as error:
        place, fault = told(error, text)
        raise BadInput(f"{where}{place}: not valid YAML: {fault}") from None


def _check_size(root: yaml.Node | None, where: str) -> None:
    """Refuse aliases (`*name`) that lead back to themselves, or that a few lines make millions of values of."""
    sizes: dict[int, int] = {}
    above: set[int] = set()

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in above:
            raise BadInput(f"{where}: refused, because an alias in it refers back to itself")
        above.add(id(node))
        inside = node.value if isinstance(node, yaml.CollectionNode) else ()
        children = (child for each in inside for child in (each if isinstance(each, tuple) else (each,)))
        total = 1 + sum(map(size, children))
        above.discard(id(node))
        sizes[id(node)] = total
        return total

    if root is not None and size(root) > MOST_VALUES:
        raise BadInput(f"{where}: refused, because it has more than {MOST_VALUES:,} values")


def read_text(path: Path) -> str:
    """The text of a file; `BadInput` in one line where it cannot be had."""
    if path.is_dir():
        raise BadInput(f"{path}: is a folder; give a YAML file")
    with limits.faults_of(path, (OSError, UnicodeDecodeError)):
        if path.exists() and not path.is_file():
            raise BadInput(f"{path}: is not a plain file")
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path}: has {path.stat().st_size:,} bytes; at most {MOST_BYTES:,} are read")
        return path.read_text(encoding="utf-8")


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """On one line: PyYAML would break it where it has a line end of its own, as names of columns in Excel may have."""
    lines = any(end in text for end in "\n\r\x85\u2028\u2029")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if lines else None)


_Dumper.add_representer(str, _text)


def dump(values: Any, width: float = 120) -> str:
    """YAML text, keys in the order given, innermost lists and mappings on one line of at most `width`."""
    text = yaml.dump(values, Dumper=_Dumper, width=width, sort_keys=False, allow_unicode=True, default_flow_style=None)
    return str(text)


def save(values: Any, path: Path) -> None:
    """Write YAML to a file, whole or not at all."""
    atomic.write(path, dump(values))
