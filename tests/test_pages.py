"""README and docs/ are true: their commands and their Python run, their schemas load, their tables are the ones that recipes wrote."""

import ast
import inspect
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import omop_hospital
import pytest
import yaml
from clinic import make_frame, make_schema
from sweeps import sweep

import synthdp
from synthdp import Schema, generators
from synthdp.cli import COMMANDS, option_values, run, settings
from synthdp.schema import yamlfile
from synthdp.sets import made_up_clinic

HOME = Path(__file__).parents[1]
README = HOME / "README.md"
PAGES = {str(path.relative_to(HOME)): path for path in (README, *sorted((HOME / "docs").glob("*.md")))}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
STAYS = runpy.run_path(str(HOME / "recipes" / "made_up_hospital.py"))["stays"]
REFERENCE = runpy.run_path(str(HOME / "docs" / "reference.py"))

# The same commands, sooner.
JUDGE = [
    "evaluate=quick",
    "evaluate.models=[lr]",
    "evaluate.seeds=1",
    "evaluate.attacks=false",
    "evaluate.bootstrap=20",
]
GAN = ["generator.steps=40", "generator.batch=128"]
MIXTURE = ["generator.components=20", "generator.iterations=40"]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", TEXTS[page], flags=re.DOTALL)


def having(language):
    return [page for page in PAGES if blocks(page, language)]


def quick(words):
    if words[1] == "evaluate":
        return JUDGE
    if words[1] == "compare":
        return JUDGE[1:]
    if "generator=dpgan" in words:
        return GAN
    if "generator=histories" in words:
        return ["generator.rounds=1", "generator.iterations=10"]
    chosen = any(word.startswith(("generator=", "select=")) for word in words) or "data=digits" in words
    return MIXTURE if words[1] == "fit" and not chosen else []


@pytest.mark.heavy  # evaluations, several processes, sweeps, networks
@pytest.mark.parametrize("page", having("console"))
def test_the_commands_run_in_order(page, tmp_path, monkeypatch, capsys):
    """In this process (tests/cli starts them in processes of their own), but torchrun."""
    pytest.importorskip("linearmodels", reason="the embedded data set comes with the extra `demo`")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("synthdp.evaluate.detection.MOST_ROWS", 500)
    make_frame(2000).to_csv("patients.csv", index=False)  # enough for what `learn` has to find
    if page == "docs/histories.md":
        Path("clinic.yaml").write_text(blocks(page, "yaml")[0], encoding="utf-8")
        for name, seed in (("stays", 1), ("held_out", 2)):
            stays = STAYS(300, seed).drop(columns=["urgent", "wound", "diabetic", "insulin"])
            stays.to_csv(f"{name}.csv", index=False)
    if page == "docs/linked.md":
        write_clinic()
    if page == "docs/omop.md":
        pytest.importorskip("duckdb", reason="DuckDB comes with the extra `database`")
        omop_hospital.write(".", people=2000)  # as the page has it
    commands = [line[2:] for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]
    assert commands
    for command in commands:
        words = shlex.split(command)
        assert words[0] in ("synthdp", "torchrun")
        if words[0] == "torchrun":
            together(command, [*words[1:], *quick(words)])
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("default")  # the command line shows them
                status = run([*words[1:], *quick(words)])
            assert status == 0, f"{command}\n{capsys.readouterr().err}"
        if words[1] == "schema":
            declare(Path("schema.yaml"))
            if page == "docs/omop.md":  # a public number of people, after which `split` writes schema_train.yaml
                text = Path("schema.yaml").read_text(encoding="utf-8")
                Path("schema.yaml").write_text(text.replace("units: learn", "units: 2000"), encoding="utf-8")


def write_clinic():
    """The tables and the schema of docs/linked.md."""
    Path("clinic.yaml").write_text(blocks("docs/linked.md", "yaml")[0], encoding="utf-8")
    Path("tables").mkdir()
    for name, frame in made_up_clinic.tables(300, 1).items():
        frame.to_csv(f"tables/{name}.csv", index=False)


def test_the_linked_tables_of_the_guide_are_those_of_the_demo():
    declared, _ = blocks("docs/linked.md", "yaml")
    assert Schema.from_dict(yamlfile.parse(declared, "docs/linked.md")) == made_up_clinic.schema(2000)


def declare(draft):
    """What the guide asks of the steward."""
    text = re.sub(r"\n *review: true[^\n]*", "", draft.read_text(encoding="utf-8"))
    draft.write_text(text.replace("\ndeclared_by:", "\ndeclared_by: the tests"), encoding="utf-8")


def together(command, words):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"


IN_PYTHON = [page for page in having("python") if page != "docs/own_generator.md"]  # see test_testing


@pytest.mark.parametrize("page", sweep(IN_PYTHON, ["README.md", "docs/evaluate.md"].__contains__))
def test_the_python_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_schema().save("schema.yaml")
    make_frame(300).to_csv("patients.csv", index=False)
    if page == "docs/linked.md":
        write_clinic()
    unlabelled = make_frame(60, seed=1).drop(columns="ill")
    names = {"df": make_frame(300), "public": unlabelled, "new": unlabelled, "held_out": make_frame(80, seed=2)}
    for block in blocks(page, "python"):
        sooner = (
            block.replace("teachers=250", "teachers=10")
            .replace("queries=500", "queries=30")
            .replace('"readmitted"', '"ill"')
        )
        exec(compile(sooner, page, "exec"), names)  # noqa: S102
    for said in capsys.readouterr().out.split():
        assert float(said) <= 1.0  # they print epsilon


def schemas(page):
    """Those blocks of YAML that are whole: others show a part."""
    return [text for text in blocks(page, "yaml") if "kind:" in text and "columns:" in text]


@pytest.mark.parametrize("page", having("yaml"))
def test_the_schemas_load(page):
    for text in schemas(page):
        Schema.from_dict(yaml.safe_load(text)).check_declared()


def test_the_schema_of_the_guide_leaves_something_to_learn():
    (text,) = schemas("docs/steward.md")
    assert Schema.from_dict(yaml.safe_load(text)).learned == [("creatinine", "bounds")]


TABLES = [(page, mark) for page, text in TEXTS.items() for mark in re.findall(r"<!-- (reports/\S+\.md.*?) -->", text)]


@pytest.mark.parametrize(("page", "mark"), TABLES)
def test_the_tables_are_those_of_the_reports(page, mark):
    """Of the whole report, or of the section whose heading follows its name."""
    match = re.search(rf"<!-- {re.escape(mark)} -->\n(.*?)<!-- end -->", TEXTS[page], flags=re.DOTALL)
    report, _, heading = mark.partition(": ")
    text = (HOME / report).read_text(encoding="utf-8")
    if heading:
        text = re.split(rf"^## {re.escape(heading)}$", text, flags=re.MULTILINE)[1]
        text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert table
    assert match[1].strip().splitlines() == table


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXTS[page]):
        assert (PAGES[page].parent / link).exists(), link


def test_every_cell_of_the_notebook_runs():
    """As a notebook shows them: the last expression of a cell is what it shows."""
    book = json.loads((HOME / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    assert book["nbformat"] == 4
    names, shown = {}, []
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "outputs are not kept"
            *body, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))  # noqa: S307
            else:
                exec(compile(ast.Module([last], []), "cell", "exec"), names)  # noqa: S102
    assert len(names["synthetic"]) == len(names["records"])
    assert sum(hasattr(each, "_repr_html_") for each in shown) >= 5


def test_the_readme_is_one_page():
    assert len(TEXTS["README.md"].splitlines()) <= 150


def test_every_generator_has_its_row():
    rows = {name for page in ("README.md", "docs/generators.md") for name in re.findall(r"`(\w+)`", TEXTS[page])}
    assert set(generators.names()) <= rows


def test_the_reference_names_every_option():
    text = REFERENCE["commands"]()
    for command in COMMANDS:
        assert f"\n## {command}\n" in f"\n{text}"
        for name, _, _ in option_values.helps(settings.OPTIONS[command]):
            assert f"| `{name}` |" in text
    told = REFERENCE["of_generators"]()
    for name in generators.names():
        for option, _, _ in option_values.helps(generators.find(name)):
            assert f"| `{option}` |" in told.partition(f"## {name}\n")[2]


def rows(mark):
    """The rows of the house's table behind a mark."""
    table = TEXTS["docs/house.md"].partition(f"<!-- {mark} -->")[2].partition("<!-- end -->")[0]
    return [line for line in table.splitlines() if line.startswith("|")][2:]


def test_the_house_has_these_rooms():
    home = Path(synthdp.__file__).parent
    files = {path.stem for path in home.glob("*.py") if not path.name.startswith("__")}
    rooms = files | {path.name for path in home.iterdir() if any(path.glob("*.py"))}
    assert {row.split("`")[1] for row in rows("rooms")} == rooms


def test_what_the_house_points_to_is_there():
    paths = [path for row in rows("places") for path in re.findall(r"`([\w./]+)`", row)]
    assert len(paths) > 20
    for path in paths:
        assert (HOME / path).exists(), path


def test_the_docstring_of_fit_names_all_its_arguments():
    told = str(inspect.getdoc(synthdp.Synthesizer.fit))
    assert not [
        name
        for name in inspect.signature(synthdp.Synthesizer.fit).parameters
        if name != "self" and f"`{name}" not in told
    ]
