"""Mutants as patches of the syntax tree: they fit whatever a function's layout and comments, and wherever in its file it stands."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Mutant:
    """A change that breaks one promise.

    `where` names a function, method or class, decorators included: "package.module:Qualified.name". Inside it the fragment
    `old` occurs exactly once and becomes `new`: both an expression, or else both statements that follow one another. `tests`
    are pytest's ids; one of these tests must fail.
    """

    name: str
    where: str
    old: str
    new: str
    tests: tuple[str, ...]


class Unfit(Exception):
    """A patch does not fit the source."""


def patched(mutant: Mutant, folder: Path) -> tuple[Path, str]:
    """(file, its new text): what a mutant changes in the package under `folder`. Raises `Unfit`."""
    file, tree, scopes = _found(mutant.where, folder)
    old, new = _parsed(mutant.old), _parsed(mutant.new)
    if isinstance(old[0], ast.Expr) and isinstance(new[0], ast.Expr) and len(old) == len(new) == 1:
        old, new = [old[0].value], [new[0].value]
    places = [place for scope in scopes for place in _places(scope, old)]
    if len(places) != 1:
        count = f"occurs {len(places)} times" if places else "does not occur"
        now = "\n\n".join(ast.unparse(scope) for scope in scopes)
        raise Unfit(f"the fragment\n\n{mutant.old}\n\n{count} in {mutant.where}, which now reads\n\n{now}")
    parent, field, start = places[0]
    if start is None:
        setattr(parent, field, new[0])
    else:
        getattr(parent, field)[start : start + len(old)] = new
    return file, ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _found(where: str, folder: Path) -> tuple[Path, ast.Module, list[ast.AST]]:
    """The file of `where`, its tree and the definitions that are meant."""
    module, _, name = where.partition(":")
    path = folder.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            tree = ast.parse(file.read_text(encoding="utf-8"))
            if scopes := list(_definitions(tree, name)):
                return file, tree, scopes
    package = folder / module.partition(".")[0]
    elsewhere = [
        ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for file in sorted(package.rglob("*.py"))
        if any(_definitions(ast.parse(file.read_text(encoding="utf-8")), name))
    ]
    raise Unfit(f"{module} does not define {name}; these modules do: {', '.join(elsewhere) or 'none'}")


def _definitions(parent: ast.AST, name: str) -> Iterator[ast.AST]:
    """All definitions of a qualified name: several where a function is overloaded, or registered as `_`."""
    first, _, rest = name.partition(".")
    for child in ast.iter_child_nodes(parent):
        if not isinstance(child, DEFINITIONS):
            yield from _definitions(child, name)
        elif child.name == first:
            yield from _definitions(child, rest) if rest else (child,)


def _parsed(fragment: str) -> list[ast.stmt]:
    return ast.parse(fragment).body


def _places(scope: ast.AST, old: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, str, int | None]]:
    """(node, field, index) wherever the nodes `old` stand; the index is None where a field holds one node, not a list."""
    wanted = [ast.dump(node) for node in old]
    for parent in ast.walk(scope):
        for field, value in ast.iter_fields(parent):
            nodes = value if isinstance(value, list) else [value]
            dumps = [ast.dump(node) if isinstance(node, ast.AST) else None for node in nodes]
            for start in range(len(dumps) - len(old) + 1):
                if dumps[start : start + len(old)] == wanted:
                    yield parent, field, start if isinstance(value, list) else None
