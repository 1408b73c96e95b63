"""The generator that is fitted where nobody names one: the schema alone decides."""

import pytest
from clinic import make_schema

from synthdp import BadInput, Budget, Schema, Synthesizer, generators
from synthdp.cli import compose, settings
from synthdp.options import MOST

BUDGET = Budget(1.0, 1e-5)
PICTURES = Schema.from_dict(
    {
        "name": "pictures",
        "declared_by": "the tests",
        "units": 100,
        "columns": {
            "image": {"kind": "image", "height": 4, "width": 4},
            "kind": {"kind": "categorical", "categories": ["a", "b"]},
        },
    }
)


@pytest.mark.parametrize(("schema", "name"), [(make_schema(), "mixture"), (PICTURES, "classgauss")])
def test_in_python(schema, name):
    assert Synthesizer(schema=schema, budget=BUDGET).generator.name == name


def test_settings_without_a_name_are_the_default_s():
    assert Synthesizer(schema=make_schema(), budget=BUDGET, starts=1).generator.starts == 1
    with pytest.raises(BadInput, match="generator mixture has no setting 'hidden'"):
        Synthesizer(schema=make_schema(), budget=BUDGET, hidden=3)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("command", "words", "name"),
    [
        ("fit", ["data=meps"], "mixture"),
        ("fit", ["data=digits"], "classgauss"),
        ("fit", ["data=digits", "generator=default"], "classgauss"),
        ("fit", ["data=digits", "generator=independent"], "independent"),
        ("fit", ["experiment=adult_dpgan"], "dpgan"),
        ("fit", ["experiment=adult_dpgan", "generator=independent"], "independent"),
        ("demo", [], "mixture"),
        ("audit", [], "mixture"),
    ],
)
def test_on_the_command_line(command, words, name):
    (config,) = compose.compose(command, [*words, *(["out=out"] if command == "fit" else [])])
    assert config["generator"].name == name


@pytest.mark.parametrize("name", ["dpgan", "kernel_teachers"])
def test_a_generator_of_tables_is_refused_for_images_and_names_that_of_images(name):
    with pytest.raises(BadInput, match=f"generator {name} does not learn images, but .* use .*{name}_images"):
        Synthesizer(name, schema=PICTURES, budget=BUDGET)


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("dpgan", {"rate": 0.5, "batch": 384, "table_weight": 2.0}, {"rate": 0.5}),
        (
            "dpgan",
            {"start": "none", "architecture": "mlp", "tables": 0.25},
            {"start": "none", "architecture": "mlp", "hidden": (512, 256)},
        ),
        (
            "dpgan",
            {"architecture": "conv", "hidden": [4], "steps": 9},
            {"architecture": "conv", "channels": (4,), "steps": 9, "passes": MOST},
        ),
        ("kernel_teachers", {"start": "gauss", "latent": 32, "degree": None}, {}),
    ],
)
def test_settings_of_images_are_found_by_those_of_the_older_generator(name, then, now):
    """Releases held every default, and None for those that tables and images did not share."""
    older = {"steps": None, "tables": None, "architecture": None, "temperature": 1.0, **then}
    found = generators.make(*generators.renamed(name, older, PICTURES))
    assert found == generators.find(f"{name}_images")(**now)


def test_what_was_for_tables_is_refused_for_images():
    with pytest.raises(BadInput, match="has no setting 'temperature'"):
        generators.make(*generators.renamed("dpgan", {"temperature": 0.5}, PICTURES))


@pytest.mark.parametrize(
    ("name", "setting"), [("kernel_teachers", {"witness_weight": 2.0}), ("pategan", {"mode": "shares"})]
)
def test_settings_of_older_releases_are_for_releases_alone(name, setting):
    with pytest.raises(BadInput, match=f"has no setting '{next(iter(setting))}'"):
        Synthesizer(name, schema=make_schema(), budget=BUDGET, **setting)


@pytest.mark.heavy
def test_a_sweep_over_data_sets_gets_the_generator_of_each():
    configs = compose.compose("fit", ["--multirun", "data=meps,digits", "out=out"])
    assert [config["generator"].name for config in configs] == ["mixture", "classgauss"]


@pytest.mark.heavy
def test_its_settings_need_no_name():
    (config,) = compose.compose("fit", ["out=out", "generator.starts=1"])
    assert config["generator"].starts == 1
    with pytest.raises(BadInput, match=r"generator mixture has no option 'generator.hidden'"):
        compose.compose("fit", ["out=out", "generator.hidden=3"])


def test_files_of_pictures(tmp_path):
    PICTURES.save(tmp_path / "schema.yaml")
    (config,) = compose.compose("fit", ["out=out", "data.path=x.npz", f"data.schema={tmp_path / 'schema.yaml'}"])
    assert config["generator"].name == "classgauss"


def test_help_says_which(capsys):
    text = compose.help_text("fit", "", [])
    assert "(default: mixture, or classgauss where the schema has an image column)" in text
    assert "(default: mixture)" in compose.help_text("demo", "", [])
    assert set(settings.GROUPS["fit"]) <= set(text.replace("=", " ").split())
