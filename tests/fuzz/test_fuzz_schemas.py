"""Schemas and conditions: YAML edited value by value and byte by byte; what loads must be encoded, written and read again."""

import json
from pathlib import Path

import pytest
import yaml
from dictionaries import CSVW, FRICTIONLESS, REDCAP
from fuzzing import WRONG, edited, flipped, fuzz
from hypothesis import strategies as st

from synthdp import load
from synthdp.schema import where, yamlfile
from synthdp.schema.codec import Codec
from synthdp.schema.schema import Schema
from synthdp.sets.dictionary import schema_text

COMPAT = Path(__file__).parents[1] / "compat" / "format1"
KEPT = sorted((COMPAT / "schemas").glob("*.yaml"))
pytestmark = pytest.mark.fuzz


def use(path):
    schema = Schema.load(path)
    assert Schema.from_dict(schema.to_dict()) == schema
    schema.settled()
    if not schema.learned:
        Codec(schema)


def test_edited_values(tmp_path):
    held = [yamlfile.load(path) for path in KEPT]
    tree = {"prefix": [1, 3], "parents": {"A": "gut", "B": "gut"}, "leaves": True}
    dx = {"kind": "categorical", "categories": ["A00.1", "A00.2", "B1"], "tree": tree}
    held += [{"columns": {"dx": dx}}, {"columns": {"dx": {**dx, "tree": {**tree, "codes": ["A00.1", "B1"]}}}}]

    def prop(values, form):
        path = tmp_path / "a.yaml"
        text = json.dumps(values) if form == "json" else yaml.safe_dump(values, sort_keys=False)
        path.write_text(text, "utf-8", errors="replace")
        use(path)

    fuzz(prop, values=st.sampled_from(held).flatmap(edited), form=st.sampled_from(["json", "yaml"]))


def test_flipped_bytes(tmp_path):
    def prop(data):
        path = tmp_path / "b.yaml"
        path.write_bytes(data)
        use(path)

    fuzz(prop, data=st.sampled_from(KEPT).flatmap(lambda path: flipped(path.read_bytes())))


def test_conditions():
    releases = [load(COMPAT / "releases" / name) for name in ("mixture", "ruled", "independent")]

    def prop(drawn, rows):
        release, condition = drawn
        where.allowed(condition, Codec(release.schema))
        release.sample(rows, where=condition, seed=1)

    def conditions(release):
        names = st.sampled_from([*release.schema.names, "nothing"])
        values = {
            c.name: getattr(c, "categories", None) or getattr(c, "bounds", None) or [True, False]
            for c in release.schema.columns
        }
        whole = {name: list(each) for name, each in values.items() if isinstance(each, tuple | list)}
        numbers = st.lists(st.one_of(st.integers(-10, 200), st.floats(-10, 200)), max_size=3)
        plain = st.sampled_from([*whole.values(), *(each[0] for each in whole.values())])
        return st.one_of(WRONG, edited(whole), st.dictionaries(names, st.one_of(WRONG, plain, numbers), max_size=4))

    drawn = st.sampled_from(releases).flatmap(lambda release: st.tuples(st.just(release), conditions(release)))
    fuzz(prop, drawn=drawn, rows=st.integers(0, 5))


@pytest.mark.parametrize("known", [FRICTIONLESS, CSVW], ids=["frictionless", "csvw"])
def test_dictionaries_in_json(tmp_path, known):
    def prop(values):
        (tmp_path / "d.json").write_text(json.dumps(values))
        Schema.from_dict(yamlfile.parse(schema_text(tmp_path / "d.json"), "draft"))

    fuzz(prop, values=edited(known))


def test_dictionaries_of_redcap(tmp_path):
    def prop(data):
        (tmp_path / "d.csv").write_bytes(data)
        Schema.from_dict(yamlfile.parse(schema_text(tmp_path / "d.csv"), "draft"))

    fuzz(prop, data=flipped(REDCAP.encode()))
