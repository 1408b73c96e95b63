"""PRIVACY.md is true: each law has its row, and every test that a row names exists and runs in CI."""

import ast
import re
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
TO_COME = {46, 47, 48}  # laws that nothing promises yet
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


def functions(file):
    """Tests of a file that run in CI: those without the mark `slow`."""
    found = {}
    for node in ast.walk(ast.parse((HOME / "tests" / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            found[node.name] = not any("slow" in ast.dump(decorator) for decorator in node.decorator_list)
    return found


def test_every_law_has_its_row():
    assert [int(row[0]) for row in rows()] == [law for law in range(1, 49) if law not in TO_COME]
    for number, _, tests in rows():
        assert list(named(tests)), f"law {number}"


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"law {row[0]}")
def test_every_test_that_it_names_exists_and_runs_in_ci(row):
    for file, test in named(row[2]):
        assert (HOME / "tests" / file).is_file(), file
        assert functions(file).get(test), f"{file}::{test} does not exist, or is slow"


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
