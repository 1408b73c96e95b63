"""Which room may import which, and by which door: the source is read, nothing is imported.

What is allowed is a list that may only shrink: an edge that is no longer used must leave it.
"""

import ast
import contextlib
import functools
import importlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from sweeps import sweep

import synthdp
from synthdp import seal
from synthdp.ledger.events import Gaussian
from synthdp.ledger.ledger import Ledger

HOME = Path(synthdp.__file__).parent
FILES = sorted(HOME.rglob("*.py"))

# Every room, and the rooms that it imports; lazy imports and those for types alone count. `errors` has no imports and is open to all.
EDGES = {
    "options": set(),
    "files": set(),
    "noise": set(),
    "schema": {"files"},  # YAML of unknown origin, and how wide a table may be
    "ledger": {
        "files",  # JSON of unknown origin
        "options",  # Budget is a group of options
    },
    "accounting": {"ledger"},
    "tables": {"files", "schema"},
    "images": {"files", "schema", "tables"},  # the list of labels beside pictures is a CSV file
    "sets": {"files", "images", "schema", "tables"},
    "omop": {"files", "schema", "sets", "tables"},
    "pages": {"files"},
    "budgets": {
        "accounting",
        "images",  # unwanted: a fingerprint of a folder of pictures
        "ledger",
        "options",
        "tables",  # unwanted: fingerprints of files and queries
    },
    "seal": {
        "accounting",  # unwanted in ring 0: solving a plan, filters of caps, the price of votes
        "files",  # answers and checkpoints are read back as JSON of unknown origin
        "ledger",
        "noise",
        "schema",
        "tables",  # records that stay in a database
    },
    "generators": {
        "accounting",  # unwanted: how clips of several groups combine
        "ledger",  # events, which plans are made of
        "options",
        "schema",
        "seal",
        "tables",  # unwanted: whether records lie in a database
    },
    "report": {
        "accounting",
        "budgets",  # unwanted: what a statement says of an account
        "files",
        "ledger",
        "pages",
        "schema",
    },
    "evaluate": {"options", "pages", "schema"},
    "audit": {
        "accounting",
        "evaluate",  # the region of error rates
        "files",
        "generators",
        "ledger",
        "schema",
        "seal",
    },
    "pate": {"accounting", "budgets", "generators", "ledger", "options", "report", "schema", "seal"},
    "fitness": {"accounting", "generators", "ledger", "report", "schema", "seal"},
    "marginal_tables": {"generators", "report", "schema", "seal"},
    "released_tables": {"files", "generators", "marginal_tables", "report", "schema", "tables"},
    "api": {
        "budgets",
        "fitness",
        "generators",
        "ledger",
        "marginal_tables",
        "released_tables",
        "report",
        "schema",
        "seal",
        "tables",
    },
    "trainer": {
        "api",
        "budgets",  # for types alone
        "generators",
        "ledger",
        "options",
        "pate",  # codes as numbers
        "report",
        "schema",
        "seal",
    },
    "testing": {"accounting", "api", "generators", "ledger", "options", "report", "schema", "seal"},
    "planning": {"accounting", "api", "generators", "ledger", "marginal_tables", "report", "schema", "seal"},
    "selecting": {"accounting", "api", "budgets", "fitness", "generators", "ledger", "report", "schema", "seal"},
    "cli": {
        "accounting",
        "api",
        "audit",
        "budgets",
        "evaluate",
        "files",
        "generators",
        "images",
        "ledger",
        "omop",
        "options",
        "pages",
        "pate",
        "planning",
        "report",
        "schema",
        "seal",
        "selecting",
        "sets",
        "tables",
        "trainer",
    },
}
FREE = {"errors"}
ENTRANCES = ("__init__", "__main__")  # they stand above all rooms
VERSION = {"api", "cli", "evaluate", "report"}  # rooms that import the package for its version
CYCLES = {frozenset({"schema.check", "schema.schema"})}  # of modules, by lazy imports; may only shrink
DEPTH = 12  # modules in the longest chain of imports at the top of files; may only shrink

# What rooms take from beneath the face of the seal. None of it reads records; each name that goes is a step.
BENEATH = {
    "planning.py": {"charging.Account", "replay.Recorder"},  # of made-up records alone
    "api.py": {
        "resume.Answers",
        "charging.Account",
        "resume.Checkpoint",
        "resume.Kept",
        "processes.ALONE",
        "processes.Ranks",
    },
    "audit/black_box.py": {"charging.Account"},
    "cli/fits.py": {"processes.ALONE", "processes.Ranks", "processes.joined"},
    "generators/__init__.py": {"charging.Account", "learn"},
    "pate/fit.py": {"charging.Account"},
    "selecting.py": {"best_of.Terms", "charging.Account"},
    "testing/contract.py": {"charging.Account", "replay.Recorder", "resume.digest"},
}
FINDS = {"generators/__init__.py"}  # imports generators by their names
HIDING = {"import_module", "__import__", "__loader__", "__builtins__"}
PRIVATE = ("._records", "._sealed", "._keys", "._answer(", "._noise", "._sampled(")


@dataclass(frozen=True)
class Import:
    """`from module import name`, or `import module` where there is no name."""

    module: str
    name: str | None
    lazy: bool = False  # within a function
    typing: bool = False  # under `if TYPE_CHECKING`


def imports_of(text):
    """Every import of a file, lazy ones and those for types alone too."""

    def walk(node, lazy, typing):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):  # holds no statement
                continue
            if isinstance(child, ast.ImportFrom):
                assert child.level == 0, "relative import"
                for alias in child.names:
                    yield Import(child.module, alias.name, lazy, typing)
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, None, lazy, typing)
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            types = isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"
            yield from walk(child, lazy or function, typing or types)

    return list(walk(parsed(text), False, False))


@functools.cache
def parsed(text):
    return ast.parse(text)


@functools.cache
def text_of(path):
    return path.read_text(encoding="utf-8")


@functools.cache
def imports(path):
    return imports_of(text_of(path))


def place(path):
    return path.relative_to(HOME).as_posix()


def room(path):
    return path.relative_to(HOME).parts[0].removesuffix(".py")


def rooms_of(found):
    """The rooms that an import leads to; "" is the package itself, for its version."""
    parts = found.module.split(".")
    if parts[0] != "synthdp":
        return set()
    if len(parts) > 1:
        return {parts[1]}
    return {found.name if found.name in {*EDGES, *FREE, *ENTRANCES} else ""}


def test_imports_point_down():
    """The edges between rooms are those of the list: none more, and none on the list that nobody uses."""
    found = {name: set() for name in EDGES}
    versions = set()
    for path in FILES:
        own = room(path)
        if own in ENTRANCES or own in FREE:
            continue
        for each in imports(path):
            for other in rooms_of(each) - {own} - FREE:
                (versions.add(own) if other == "" else found[own].add(other))
    assert found == EDGES
    assert versions == VERSION


def test_what_is_open_to_all_imports_nothing():
    for path in FILES:
        if room(path) in FREE:
            assert not any(rooms_of(each) for each in imports(path))


def test_rooms_form_no_cycle():
    left = dict(EDGES)
    while left:
        done = [name for name, others in left.items() if not others & left.keys()]
        assert done, f"a cycle among {sorted(left)}"
        for name in done:
            del left[name]


def modules():
    names = {}
    for path in FILES:
        parts = path.relative_to(HOME).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def graph(lazy):
    """Module -> modules that it imports. A name from the face of the seal leads to where it is defined."""
    known = modules()
    faces = {name: f"seal.{home}" for home, names in seal._HOMES.items() for name in names}
    edges = {name: set() for name in known}
    for name, path in known.items():
        for each in imports(path):
            if each.typing or (each.lazy and not lazy) or each.module.split(".")[0] != "synthdp" or name == "":
                continue
            module = each.module.removeprefix("synthdp").removeprefix(".")
            whole = f"{module}.{each.name}".removeprefix(".")
            if module == "seal" and each.name in faces:
                edges[name].add(faces[each.name])
            edges[name].add(whole if whole in known else module)
    return {name: others & known.keys() - {name, ""} for name, others in edges.items()}


def cycles(edges):
    """Sets of modules each of which leads to all others of its set."""
    reached = {}
    for start in edges:
        seen, left = set(), list(edges[start])
        while left:
            if (name := left.pop()) not in seen:
                seen.add(name)
                left += edges[name]
        reached[start] = seen
    return {
        frozenset(other for other in reached[name] if name in reached[other]) for name in edges if name in reached[name]
    }


def test_modules_form_no_cycle_beyond_those_that_are_named():
    assert cycles(graph(lazy=False)) == set()
    assert cycles(graph(lazy=True)) == CYCLES


def test_no_chain_of_imports_is_longer_than_it_was():
    edges = graph(lazy=False)

    @functools.cache
    def depth(name):
        return 1 + max(map(depth, edges[name]), default=0)

    assert max(map(depth, edges)) <= DEPTH


def breaches(own, text):
    """How a file outside the seal passes by its door: what it imports from beneath the face, and how it could hide that it does."""
    found = []
    for each in imports_of(text):
        if each.module.startswith("synthdp.seal."):
            found.append(f"{each.module.removeprefix('synthdp.seal.')}{'' if each.name is None else '.' + each.name}")
        elif each.module == "synthdp.seal" and each.name not in seal.__all__:
            found.append(each.name or "the whole of the seal")
        elif each.module == "synthdp" and each.name == "seal":
            found.append("the whole of the seal")
        elif each.name is None and each.module.split(".")[0] == "synthdp" and own.startswith(("generators/", "pate/")):
            found.append(f"import {each.module}")  # from where attributes lead anywhere
    if own.startswith(("generators/", "pate/")) and own not in FINDS:
        for node in ast.walk(parsed(text)):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
            if name in HIDING or (isinstance(node, ast.Name) and name in ("exec", "eval")):
                found.append(name)
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.modules":
                found.append("sys.modules")
            if isinstance(node, ast.ImportFrom) and {alias.name for alias in node.names} & {"import_module", "modules"}:
                found.append("import_module")
    fields = (
        () if own.startswith("accounting/") else PRIVATE
    )  # which has such a field of its own, and nothing of the seal
    return found + [private for private in fields if private in text]


def test_only_the_trusted_base_reaches_records():
    """Who stands outside takes names of `seal.__all__`, and what is listed by name."""
    found = {place(path): set(breaches(place(path), text_of(path))) for path in FILES if room(path) != "seal"}
    assert {own: names for own, names in found.items() if names} == BENEATH


THROUGH_THE_STORE = {
    "by the module": "from synthdp.seal import records\n\ndef look(data):\n    return records.reading()",
    "by a name of the module": "from synthdp.seal.records import reading",
    "by another name": "from synthdp.seal.door import reading as seen",
    "by the question that reads": "from synthdp.seal.marginals import within",
    "by the seal as a whole": "from synthdp import seal",
    "by the package": "import synthdp.seal.records as store",
    "by an attribute": "import synthdp\n\nstore = synthdp.seal.records",
    "within a function": "def fit():\n    from synthdp.seal.records import Sealed",
    "by a string": "import importlib\n\nstore = importlib.import_module('synthdp.seal.records')",
    "by a string, shorter": "from importlib import import_module as find\n\nstore = find('synthdp.seal.records')",
    "by what is loaded": "import sys\n\nstore = sys.modules['synthdp.seal.records']",
    "by a private field": "def fit(data):\n    return data._sealed",
}


def test_a_generator_that_reads_exact_tables_is_found():
    for how, text in THROUGH_THE_STORE.items():
        outside = {other for each in imports_of(text) for other in rooms_of(each)} - EDGES["generators"] - {"seal", ""}
        assert breaches("generators/sly.py", text) or outside, how
    assert not breaches("generators/honest.py", "from synthdp.seal import GroupSums, Sensitive")


def test_the_face_of_the_seal_is_its_names():
    """Each name is given by the module that it is listed under, and `__all__` lists all of them."""
    homes = {name: home for home, names in seal._HOMES.items() for name in names}
    assert set(homes) == set(seal.__all__)
    assert len(homes) == sum(map(len, seal._HOMES.values()))
    for name, home in homes.items():
        assert getattr(seal, name) is getattr(importlib.import_module(f"synthdp.seal.{home}"), name)
    typed = {
        each.name: each.module for each in imports(HOME / "seal" / "__init__.py") if each.typing and each.name != "Any"
    }
    assert typed == {name: f"synthdp.seal.{home}" for name, home in homes.items()}


def test_no_torch_where_accounting_is_done():
    for path in FILES:
        if room(path) in ("schema", "ledger", "accounting"):
            assert not [each for each in imports(path) if each.module.split(".")[0] == "torch"], place(path)


CHANCE = {"random", "np.random.seed", "torch.manual_seed"}
KEEPS_CHANCE = "seal/teachers/sklearn_teachers.py"  # sets what others' estimators draw from, and puts it back


def test_no_pickle_and_no_global_randomness():
    for path in FILES:
        allowed = CHANCE if place(path) == KEEPS_CHANCE else set()
        found = {each.module.split(".")[0] for each in imports(path)}
        assert not found & ({"pickle", "random", "shelve", "marshal"} - allowed), place(path)
        for forbidden in (
            "torch.load",
            "torch.save",
            "np.random.seed",
            "torch.manual_seed",
            "read_pickle",
            "joblib.load",
        ):
            assert forbidden in allowed or forbidden not in text_of(path), place(path)


SERVERS = {  # modules that open a port, of the standard library and of others
    "aiohttp", "asyncio", "bottle", "cherrypy", "dash", "fastapi", "flask", "gradio", "http", "jupyter_server", "notebook", "panel",
    "sanic", "selectors", "socket", "socketserver", "starlette", "streamlit", "tornado", "twisted", "uvicorn", "voila", "waitress",
    "webbrowser", "websockets", "werkzeug", "wsgiref", "xmlrpc",
}  # fmt: skip


def test_nothing_is_served():
    """Law 48: pages are files. No module opens a port, but for torch's own between the processes of one fit under torchrun."""
    groups = set()
    for path in FILES:
        text = text_of(path)
        assert not {each.module.split(".")[0] for each in imports(path)} & SERVERS, place(path)
        called = {node.func.attr for node in ast.walk(parsed(text)) if isinstance(node, ast.Call) and
                  isinstance(node.func, ast.Attribute)}  # fmt: skip
        assert not called & {"serve_forever", "listen", "create_server", "start_server", "run_server"}, place(path)
        groups |= {place(path)} if "init_process_group" in called else set()
    assert groups <= {"seal/processes.py"}


def test_hydra_lives_in_the_command_line():
    for path in FILES:
        if room(path) != "cli":
            used = {each.module.split(".")[0] for each in imports(path)}
            assert not used & {"hydra", "omegaconf"}, place(path)


def test_light_imports_stay_light():
    code = (
        "import sys, synthdp, synthdp.cli, synthdp.ledger.ledger, synthdp.schema.schema, synthdp.accounting, synthdp.seal;"
        "print([name for name in ('torch', 'pandas', 'sklearn', 'matplotlib', 'hydra', 'dp_accounting') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_have_names_of_their_own():
    """A name that stands for two files is no name."""
    names = [path.name for path in FILES if path.name != "__init__.py"]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize(
    "words",
    sweep(
        [
            ((),),
            *(
                (("fit", "--help", f"generator={name}"),)
                for name in ("mixture", "independent", "mst", "aim", "privbayes")
            ),
            (("epsilon", "noise=2", "accountant=rdp"),),
            (("epsilon", "ledger={ledger}", "accountant=rdp"),),
            (("budget", "--help"),),
        ],
        lambda case: not case[0] or case[0][-1] == "generator=mixture",
    ),
    ids=" ".join,
)
def test_what_needs_no_networks_starts_without_torch(words, tmp_path):
    """`import synthdp`, helps of generators that count tables, and epsilon of a mechanism or of a ledger."""
    with contextlib.closing(Ledger(tmp_path / "ledger.jsonl")) as ledger:
        ledger.append(Gaussian(2.0))
    given = [word.format(ledger=tmp_path / "ledger.jsonl") for word in words]
    code = f"""
import sys, synthdp
from synthdp.cli import run
assert not {given} or run({given}) == 0
assert not {{"torch", "pyreadstat", "python_calamine", "xlsxwriter", "ibis", "duckdb"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
