"""Codes with a tree: what a schema may say of it, where each code belongs, and what synthetic cells hold."""

import dataclasses

import linked_clinic
import numpy as np
import pandas as pd
import pytest

from synthdp import BadInput
from synthdp.schema import rows_below, yamlfile
from synthdp.schema.code_lists import named
from synthdp.schema.codec import Codec
from synthdp.schema.columns import LEARN, Categorical
from synthdp.schema.history_view import View
from synthdp.schema.schema import Schema
from synthdp.schema.trees import Tree
from synthdp.seal import HistoryTables

CODES = ["A00.0", "A00.1", "A01.0", "B20.9", "V45"]
PARENTS = {"A00": "gut", "A01": "gut", "B20": "virus", "V45": "status", "status": "rest"}


def schema(tree=None, categories=CODES, **column):
    dx = {"kind": "categorical", "categories": categories, "tree": tree or {"prefix": [1, 3]}, **column}
    return Schema.from_dict({"declared_by": "the tests", "columns": {"dx": dx}})


def kept(*nodes, **declared):
    return schema(**declared).with_learned("dx", categories=nodes)


def test_declared_codes_become_the_tree_s_and_the_rest_is_to_be_learned():
    column = schema().column("dx")
    assert column.categories == LEARN
    assert column.tree.codes == tuple(CODES)
    assert column.tree.levels == 3
    assert column.tree.nodes == ("A", "A00", "A00.0", "A00.1", "A01", "A01.0", "B", "B20", "B20.9", "V", "V45")
    assert schema(categories=LEARN).column("dx").tree.codes == LEARN
    assert schema(categories=LEARN).column("dx").tree.levels == 3
    assert schema(categories=[250, 251], tree={"prefix": [2]}).column("dx").tree.codes == ("250", "251")


@pytest.mark.parametrize(
    ("most", "groups"),
    [
        (1, ["A00.0 A00.1 A01", "B", "V45", "other"]),
        (4, ["A00.0 A00.1 A01", "B", "V45", "other"]),
        (5, ["A00.0 A00.1", "A01", "B", "V45", "other"]),
        (6, ["A00.0", "A00.1", "A01", "B", "V45", "other"]),
    ],
)
def test_kept_codes_are_grouped_by_what_lies_above_them(most, groups):
    kept_codes = ("A01", "A00.0", "B", "other", "A00.1", "V45")
    found = schema().column("dx").tree.groups(kept_codes, most)
    assert sorted(set(found)) == list(range(len(groups)))
    made = [
        " ".join(sorted(code for code, group in zip(kept_codes, found, strict=True) if group == each))
        for each in set(found)
    ]
    assert sorted(made) == groups


@pytest.mark.parametrize(("most", "groups"), [(5, 5), (4, 0)])
def test_codes_with_too_many_coarsest_ones_have_no_groups(monkeypatch, most, groups):
    """Each coarsest code was a group, however many there were: under `prefix: [3]` as many as noise hides, and tables of millions of
    cells."""
    monkeypatch.setattr(rows_below, "MOST_RELATED", 8)
    monkeypatch.setattr(rows_below, "MOST_GROUPS", most)
    learned = tuple(linked_clinic.TREE["categories"])
    view = View.of(Codec(linked_clinic.with_tree().with_learned("diagnosis.code", categories=learned)))
    assert len({*view.below[0].groups[:-1]}) == groups
    assert view.below[0].related == (groups > 0)
    if groups:
        wrong = (("diagnosis group", "previous diagnosis group"),)
        with pytest.raises(BadInput, match="one column of a table may have several codes"):
            HistoryTables(view, wrong, 1.0, 1.0, "diagnosis")


def test_the_category_for_all_others_is_no_coarser_code():
    with pytest.raises(BadInput, match="column 'dx': other: 'A00' is also a coarser code of its tree"):
        schema(categories=[*CODES, "A00"], other="A00")
    with pytest.raises(BadInput, match="other: 'gut' is also a coarser code"):
        schema(tree={"prefix": [3], "parents": PARENTS}, categories=[*CODES, "gut"], other="gut")
    assert schema(categories=[*CODES, "Z"], other="Z").column("dx").tree.codes == tuple(CODES)


@pytest.mark.parametrize("seed", range(6))
def test_of_all_weights_whose_squares_a_chain_bounds_a_tree_s_make_the_variances_least(seed):
    rng = np.random.default_rng(seed)
    above = {f"{level}{node}": f"{level - 1}{rng.integers(node // 4 + 1)}" for level in (1, 2, 3) for node in range(9)}
    tree = Tree(parents=tuple(above.items()), codes=tuple(rng.choice(list(above), 12, replace=False)))
    place = {node: at for at, node in enumerate(tree.nodes)}
    chains = [[place[node] for node in tree.chain(code)] for code in tree.nodes]

    def longest(weights):
        return max((weights[chain] ** 2).sum() for chain in chains)

    best = (tree.weights**-2).sum()
    assert tree.levels * (1 - 3e-6) < longest(tree.weights) < tree.levels
    for size in (0.01, 0.1, 1.0):
        for _ in range(50):
            other = tree.weights * np.exp(size * rng.normal(size=len(place)))
            other *= np.sqrt(longest(tree.weights) / longest(other))
            assert (other**-2).sum() >= best * (1 - 1e-9)


@pytest.mark.parametrize("declared", [{}, {"categories": LEARN}, {"tree": {"prefix": [1], "leaves": True}}])
def test_a_schema_with_a_tree_comes_back_before_and_after_it_is_learned(declared, tmp_path):
    for made in (schema(**declared), kept("A", "A00", **declared)):
        assert Schema.from_dict(made.to_dict()) == made
        made.save(tmp_path / "s.yaml")
        assert Schema.load(tmp_path / "s.yaml") == made
        assert hash(made) == hash(Schema.load(tmp_path / "s.yaml"))


def test_a_code_s_parent_in_a_file_comes_in_the_place_of_its_beginning(tmp_path):
    (tmp_path / "icd.csv").write_text("code;up\n" + "\n".join(f"{a};{b}" for a, b in PARENTS.items()) + "\nA02;\n")
    text = """
declared_by: the tests
columns:
  dx: {kind: categorical, categories: learn, tree: {prefix: [3], file: icd.csv, column: code, parent: up, leaves: false}}
  by: {kind: categorical, categories: {file: icd.csv, column: code}, tree: {file: icd.csv, parent: up}}
"""
    (tmp_path / "s.yaml").write_text(text)
    read = Schema.load(tmp_path / "s.yaml")
    tree = read.column("dx").tree
    assert dict(tree.parents) == PARENTS
    assert tree.chain("A00.1") == ("A00.1", "A00", "gut")
    assert tree.chain("V45") == ("V45", "status", "rest")
    assert tree.chain("V45.8") == ("V45.8", "V45", "status", "rest")
    assert tree.chain("gut") == ("gut",)
    assert tree.levels == 4
    assert read.column("by").tree.levels == 3
    assert read.column("by").tree.codes == (*PARENTS, "A02")


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"prefix": []}, "needs prefix"),
        ({"prefix": [3, 1]}, "shortest first"),
        ({"prefix": [0]}, "shortest first"),
        ({"prefix": [True]}, "shortest first"),
        ({"prefix": 3}, "list of lengths"),
        ({"prefixes": [1]}, "unknown key 'prefixes'"),
        ({"parents": {"A": "B", "B": "A"}}, "above itself"),
        ({"parents": {"A": 3}}, "as text"),
        ({"parents": [["A", "B"]]}, "map codes"),
        ({"prefix": [1], "codes": [1]}, "list of texts"),
        ({"prefix": [1], "codes": []}, "each once"),
        ({"prefix": [1], "codes": ["A", "A"]}, "each once"),
        ({"prefix": [1], "leaves": "yes"}, "true or false"),
        ("prefix", "expected a mapping"),
        ([1, 3], "expected a mapping"),
    ],
)
def test_a_tree_that_is_none_is_refused_by_column(tree, said):
    with pytest.raises(BadInput, match=f"column 'dx'.*{said}"):
        schema(tree)


@pytest.mark.parametrize(
    "dx",
    ["categories: {file: t/icd.csv, column: code}", "categories: learn, tree: {file: t/icd.csv, column: a, parent: b}"],
)
def test_a_list_that_is_not_there_is_said_to_be_missing(tmp_path, dx):
    (tmp_path / "s.yaml").write_text(f"columns:\n  dx: {{kind: categorical, {dx}}}\n")
    with pytest.raises(BadInput, match=r"t/icd.csv: no such file; its name is relative to the folder of the schema"):
        Schema.load(tmp_path / "s.yaml")
    (tmp_path / "t" / "icd.csv").mkdir(parents=True)
    with pytest.raises(BadInput, match=r"t/icd.csv is not a file of at most 67,108,864 bytes"):
        Schema.load(tmp_path / "s.yaml")


def test_a_rule_names_a_column_of_a_list(tmp_path):
    (tmp_path / "icd.csv").write_text("code,of_women\nA1,\nO8,O8\nO9,O9\nA2,\n")
    columns = "sex: {kind: categorical, categories: [F, M]}, dx: {kind: categorical, categories: {file: icd.csv, column: code}}"
    made = tmp_path / "s.yaml"
    made.write_text(f"columns: {{{columns}}}\nrules: [{{never: {{sex: M, dx: {{file: icd.csv, column: of_women}}}}}}]")
    (rule,) = Schema.load(made).rules
    assert rule.text == "never sex = M and dx in [O8, O9]"
    assert [name for name, _ in named(yamlfile.load(made), tmp_path)] == ["dx", "dx"]
    for wanted, said in (
        ("{file: icd.csv}", "rule on column 'dx': expected a value, a list of them, or the name of a list"),
        ("{file: icd.csv, column: of_men}", "rule on column 'dx': .*no column 'of_men'"),
        ("{file: none.csv, column: code}", "no such file"),
    ):
        made.write_text(f"columns: {{{columns}}}\nrules: [{{never: {{sex: M, dx: {wanted}}}}}]")
        with pytest.raises(BadInput, match=said):
            Schema.load(made)


def test_leaves_need_declared_codes_and_files_their_columns(tmp_path):
    with pytest.raises(BadInput, match="column 'dx': tree: leaves: true draws from the declared codes"):
        schema({"prefix": [1], "leaves": True}, categories=LEARN)
    for content, tree, said in (
        ("code,up\nA,B\n", "{file: icd.csv, parent: up}", "needs the columns of its file"),
        ("code,up\nA,B\n", "{file: icd.csv, column: code, parent: above}", "no column 'above'"),
        ("code,up\nA,B\nA,C\n", "{file: icd.csv, column: code, parent: up}", "'A' two parents"),
    ):
        (tmp_path / "icd.csv").write_text(content)
        (tmp_path / "s.yaml").write_text(f"columns: {{dx: {{kind: categorical, categories: learn, tree: {tree}}}}}")
        with pytest.raises(BadInput, match=said):
            Schema.load(tmp_path / "s.yaml")


def test_each_code_is_encoded_as_the_finest_node_that_was_kept():
    made = kept("A", "A00.0", "V45", "A00", missing=True)
    frame = pd.DataFrame({"dx": ["A00.0", "A00.1", "A01.0", "B20.9", "V45", "A77.7", "other", None, "A00"]})
    codec = Codec(made)
    words = [
        None if code == codec.sizes[0] - 1 else made.column("dx").categories[code] for code in codec.encode(frame)[:, 0]
    ]
    assert words == ["A00.0", "A00", "A", "other", "V45", "A", "other", None, "A00"]
    back = codec.decode(codec.encode(frame), np.random.default_rng(0))
    assert (codec.encode(back) == codec.encode(frame)).all()


def test_leaves_are_drawn_uniformly_below_what_was_kept():
    made = kept("A", "A00.0", "V45", tree={"prefix": [1, 3], "leaves": True})
    codec = Codec(made)
    place = made.column("dx").categories.index("A")
    cells = codec.decode(np.full((3000, 1), place), np.random.default_rng(0))["dx"]
    assert set(cells) == {"A00.1", "A01.0"}  # A00.0 was kept by itself
    assert abs((cells == "A01.0").mean() - 0.5) < 0.05
    for code in range(codec.sizes[0]):
        again = codec.decode(np.full((50, 1), code), np.random.default_rng(1))
        assert (codec.encode(again) == code).all()


def test_nodes_whose_codes_are_all_kept_finer_are_no_categories():
    tree = schema().column("dx").tree
    assert tree.used(["A", "A00", "A00.0", "A00.1", "V", "V45"]) == ("A", "A00.0", "A00.1", "V45")
    assert schema(categories=LEARN).column("dx").tree.used(["B", "A"]) == ("A", "B")


def test_the_pre_check_knows_declared_codes_only():
    with pytest.raises(BadInput, match="column 'dx': some values are not one of the declared categories"):
        schema().validate(pd.DataFrame({"dx": ["A00.7"]}))
    schema().validate(pd.DataFrame({"dx": CODES}))
    schema(categories=LEARN).validate(pd.DataFrame({"dx": ["A00.7"]}))
    schema(categories=[*CODES, "else"], other="else").validate(pd.DataFrame({"dx": ["Z"]}))


def test_a_column_made_in_python_is_the_same():
    made = Categorical(name="dx", categories=CODES, tree=Tree(prefix=(1, 3)))
    assert made == schema().column("dx")
    assert dataclasses.replace(made, missing=True).tree.codes == tuple(CODES)
