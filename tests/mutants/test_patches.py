"""Patches of the syntax tree: what they match, what they refuse, and that every mutant's fits the package."""

from pathlib import Path

import pytest
from catalogue import MUTANTS
from patches import Mutant, Unfit, patched

import synthdp

HOME = Path(synthdp.__file__).parents[1]
SOURCE = '''
class Sums:
    @property
    def total(self):
        """Rows, clipped."""
        return clipped(  # a comment
            self.rows,
            clip=self.limits["row"],
        ).sum()

    def ask(self, event):
        self.check(event)
        if event:
            self.book(event)
            return self.answer(event)
        return self.book(event)

    @total.setter
    def total(self, value):
        self.rows = value
'''


@pytest.fixture
def folder(tmp_path):
    for module in ("sums", "other/sums"):
        file = tmp_path / "package" / f"{module}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(SOURCE, encoding="utf-8")
    return tmp_path


def text(folder, where, old, new):
    file, found = patched(Mutant("it", where, old, new, ()), folder)
    compile(found, file, "exec")
    return found


def test_layout_comments_and_quotes_do_not_matter(folder):
    found = text(folder, "package.sums:Sums.total", "clipped(self.rows, clip=self.limits['row'])", "self.rows")
    assert "return self.rows.sum()" in found
    assert '"""Rows, clipped."""' in found


def test_statements_that_follow_one_another_become_others(folder):
    old = "self.book(event)\nreturn self.answer(event)"
    found = text(folder, "package.sums:Sums.ask", old, "answer = self.answer(event)\nself.book(event)\nreturn answer")
    assert "answer = self.answer(event)\n            self.book(event)\n            return answer\n" in found
    assert "return self.book(event)" in text(folder, "package.sums:Sums.ask", "self.check(event)", "pass")


def test_a_fragment_may_be_kept_in_what_replaces_it(folder):
    found = text(folder, "package.sums:Sums.ask", "self.check(event)", "if event:\n    self.check(event)")
    assert found.count("self.check(event)") == 1


def test_all_definitions_of_a_name_are_searched(folder):
    assert "self.rows = None" in text(folder, "package.sums:Sums.total", "self.rows = value", "self.rows = None")


def test_a_decorator_may_be_patched(folder):
    assert "@cached\n" in text(folder, "package.sums:Sums.total", "property", "cached")


@pytest.mark.parametrize(
    ("where", "old", "message"),
    [
        ("package.sums:Sums.ask", "self.answer()", r"(?s)does not occur in package.sums:Sums.ask.*return self.book\(event\)"),
        ("package.sums:Sums.ask", "self.check(event)\nreturn self.book(event)", "does not occur"),
        ("package.sums:Sums.ask", "self.book(event)", "occurs 2 times in package.sums:Sums.ask"),
        ("package.gone:Sums.ask", "event", r"package.gone does not define Sums.ask; .* package.other.sums, package.sums$"),
        ("package.sums:ask", "event", "package.sums does not define ask; these modules do: none"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(folder, where, old, message):
    with pytest.raises(Unfit, match=message):
        text(folder, where, old, "None")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_fits_and_compiles(mutant):
    file, found = patched(mutant, HOME)
    compile(found, file, "exec")
    assert all((HOME / test.partition("::")[0]).is_file() for test in mutant.tests)


def test_no_two_mutants_share_a_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
