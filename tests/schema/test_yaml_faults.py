"""A schema whose YAML is broken is refused in our words: file, line, column and remedy."""

import pytest
import yaml

from synthdp import BadInput, Schema
from synthdp.schema import yaml_faults

TAG = "the value does not fit its tag, the word that begins with !!; delete the tag"
CASES = {
    "columns:\n\tage: {kind: integer}": ((2, 1), "a tab stands where only spaces may; indent with spaces"),
    "columns:\n  age: {kind: integer\n  sex: {kind: boolean}": (
        (3, 6),
        "the bracket opened in line 2, column 8, needs a comma after each value, and } after the last",
    ),
    "columns:\n  age: {bounds: [0, 1}": (
        (2, 22),
        "the bracket opened in line 2, column 17, needs a comma after each value, and ] after the last",
    ),
    "columns:\n  age: kind: integer": ((2, 12), "a second ': ' follows on the line; put text that holds one in quotes"),
    "name meps\ncolumns: {}": ((2, 8), "the text before this line has no ':' after its key; write it as `key: value`"),
    "columns:\n  age: {}\n sex: {}": ((3, 2), "the line is indented differently from its neighbours"),
    "- a\nb: 1": ((2, 1), "a block has both entries with - and keys"),
    "name: 'abc\ncolumns: {}": ((2, 12), "the quote opened in line 1, column 7, is not closed; add the second one"),
    "name: 'a'b": ((1, 10), "text follows a closing quote; a quote within quotes is doubled, as in 'it''s'"),
    "name: *, a": ((1, 8), "a value cannot begin with & or *; put it in quotes"),
    "name: *a": ((1, 7), "a value cannot begin with *; put it in quotes"),
    "name: @a": ((1, 7), "a value cannot begin with @; put it in quotes"),
    "name: !a b": ((1, 7), "a value cannot begin with !; put it in quotes"),
    'name: "\\q"': ((1, 9), r"in double quotes \ begins an escape; use single quotes, or write \\"),
    "name: a\n---\nname: b": ((2, 1), "a second document begins; a file holds one, so leave the line --- out"),
    "name: |x\n b": ((1, 8), "after | or > the text begins on the next line; put it there, or in quotes"),
    "name: ]": ((1, 7), "a value is missing, or a bracket has no partner"),
    "name: a\nname: b": ((2, 1), "key 'name' is given twice; delete one"),
    "[a]: b": ((1, 1), "a key is a list or a mapping; write a name, in quotes if it begins with [ or {"),
    f"name: {'9' * 400}": ((1, 7), "a whole number of 400 digits; if it is a code, put it in quotes"),
    "name: 1e999": ((1, 7), "a number too large for a float; if it is a code, put it in quotes"),
    "name: a\nunit: \x07": ((2, 7), "the character U+0007 cannot stand in a text file; delete it"),
    "name: !!int a": ((1, 7), TAG),
    "name: !!bool a": ((1, 7), TAG),
    "name: !!timestamp a": ((1, 7), TAG),
    "%YAML 3.0\n---\nname: a": ((1, 1), "it cannot be understood from here on"),
}


@pytest.mark.parametrize(("text", "told"), CASES.items(), ids=map(repr, CASES))
def test_the_place_and_the_remedy_are_told(text, told, tmp_path):
    (line, column), fault = told
    file = tmp_path / "broken.yaml"
    file.write_bytes(text.encode())
    with pytest.raises(BadInput) as caught:
        Schema.load(file)
    assert str(caught.value).startswith(f"{file}, line {line}, column {column}: not valid YAML: {fault}")


def test_the_library_s_words_are_still_those_that_are_translated():
    """Each pattern is met by a case above: a library that says things otherwise would be told by the last resort alone."""
    said = set()
    for text in CASES:
        try:
            yaml.load(text, yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            said.add(error.problem)
        except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, ValueError):
            continue
    for pattern, _ in yaml_faults._FAULTS:
        assert any(yaml_faults.re.search(pattern, problem) for problem in said), pattern
