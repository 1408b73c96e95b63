"""PRIVACY.md is true: each law has its row, and every test that a row names exists; at least one of each row runs in `make test`."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
LAWS = 48
TEXT = (HOME / "PRIVACY.md").read_text(encoding="utf-8")


def rows():
    table = TEXT.split("<!-- laws -->")[1].split("<!-- end -->")[0]
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.strip().splitlines()[2:]]


def named(cell):
    """(file, test) of every test in a cell; `::name` is of the file named before it."""
    file = ""
    for word in re.findall(r"`([^`]+)`", cell):
        before, _, test = word.partition("::")
        file = before or file
        yield file, test


@functools.cache
def functions(file):
    """The functions of a file of tests."""
    tree = ast.parse((HOME / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_law_has_its_row():
    assert [int(row[0]) for row in rows()] == list(range(1, LAWS + 1))
    for number, _, tests in rows():
        assert list(named(tests)), f"law {number}"


SOURCES = [
    path
    for folder in ("synthdp", "tests", "recipes", "conf", "docs")
    for path in sorted((HOME / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".yaml", ".j2", ".html") and "_build" not in path.parts
]


def laws(text):
    """The numbers of "law 12", "laws 9 and 15", "Laws 9, 12, 15"."""
    for found in re.findall(r"\blaws? (\d+(?:(?:,| and|, and) \d+)*)", text, flags=re.IGNORECASE):
        yield from map(int, re.findall(r"\d+", found))


def test_every_law_that_is_named_has_its_row():
    known = {int(row[0]) for row in rows()}
    named = {(str(path), law) for path in SOURCES for law in laws(path.read_text(encoding="utf-8"))}
    assert len(named) > 50
    assert not {(path, law) for path, law in named if law not in known}


def test_every_document_that_is_named_is_in_the_repository():
    """Documents of the top are called by names in capitals."""
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for name in set(re.findall(r"\b[A-Z]{4,}\.md\b", text)) - {"NAME.md"}:  # which stands for any
            assert (HOME / name).is_file(), f"{path}: {name}"
        assert not re.search(r"\b(GUARANTEE|DESIGN|PRIVACY) \d", text), path  # a law is called "law 12"


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"law {row[0]}")
def test_every_test_that_it_names_exists(row):
    for file, test in named(row[2]):
        assert (HOME / "tests" / file).is_file(), file
        assert test in functions(file), f"{file}::{test} does not exist"


@pytest.mark.heavy
def test_make_test_takes_a_test_of_each_law():
    files = sorted({str(HOME / "tests" / file) for row in rows() for file, _ in named(row[2])})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-m", "not heavy and not fuzz", *files]
    run = subprocess.run(command, capture_output=True, text=True, cwd=HOME, check=True)
    taken = {line.partition("[")[0] for line in run.stdout.splitlines()}
    assert len(taken) > 100
    for number, _, tests in rows():
        assert taken & {f"tests/{file}::{test}" for file, test in named(tests)}, f"law {number}"


@pytest.mark.parametrize("marker", re.findall(r"<!-- (reports/\S+\.md.*?) -->", TEXT))
def test_the_tables_are_those_of_the_reports(marker):
    """Of the section whose heading follows the report's name."""
    own = TEXT.split(f"<!-- {marker} -->")[1].split("<!-- end -->")[0].strip().splitlines()
    report, _, heading = marker.partition(": ")
    section = (HOME / report).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")]
    assert table
    assert own == table


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (HOME / target).exists(), target
