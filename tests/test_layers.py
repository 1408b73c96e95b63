"""Imports only point down: the source is read, nothing is imported."""

import ast
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

import synthdp
from synthdp.privacy.events import Gaussian
from synthdp.privacy.ledger import Ledger

HOME = Path(synthdp.__file__).parent
FILES = sorted(HOME.rglob("*.py"))
MAY = {
    "cli": {
        "cli",
        "auditing",
        "api",
        "selecting",
        "fitness",
        "pate",
        "report",
        "evaluate",
        "paper",
        "generators",
        "privacy",
        "data",
        "errors",
        "options",
        "",
    },
    "auditing": {"auditing", "evaluate", "generators", "privacy", "data", "errors", "options", ""},
    "pate": {"pate", "report", "generators", "privacy", "data", "errors", "options", ""},
    "api": {"fitness", "report", "generators", "privacy", "data", "errors", "options", ""},
    "fitness": {"report", "generators", "privacy", "data", "errors", "options", ""},
    "selecting": {"selecting", "fitness", "api", "report", "generators", "privacy", "data", "errors", "options", ""},
    "report": {"report", "paper", "privacy", "data", "errors", "options", ""},
    "evaluate": {"evaluate", "paper", "data", "errors", "options", ""},
    "paper": {"paper", "data", "errors", ""},
    "generators": {"generators", "privacy", "data", "errors", "options", ""},
    "privacy": {"privacy", "data", "errors", "options", ""},
    "data": {"data", "errors", "options", ""},
    "errors": set(),
    "options": {"errors"},
}
TRUSTED = {"CountedTable", "Records", "Sealed", "reading", "seal", "encoded", "Recorder"}


def imports(path):
    """(module, names) of every import in a file, lazy ones too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module or "", [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []


def layer(path):
    return path.relative_to(HOME).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))
def test_imports_point_down(path):
    own = layer(path)
    if own in ("__init__", "__main__"):
        return
    for module, names in imports(path):
        if module.split(".")[0] != "synthdp":
            continue
        parts = module.split(".")
        targets = {parts[1]} if len(parts) > 1 else {name if name in MAY else "" for name in names}
        assert targets <= MAY[own], f"{path.name} ({own}) imports {module} {names}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))
def test_only_the_trusted_base_reaches_records(path):
    if layer(path) == "privacy":
        return
    text = path.read_text(encoding="utf-8")
    for module, names in imports(path):
        if module.startswith("synthdp.privacy"):
            assert not TRUSTED & set(names), f"{path.name} imports {TRUSTED & set(names)}"
    for private in ("._records", "._sealed", "._keys", "._answer(", "._noise", "._sampled("):
        assert private not in text, f"{path.name} reaches into the seal: {private}"


@pytest.mark.parametrize(
    "path",
    [
        HOME / "data" / "schema.py",
        HOME / "privacy" / "ledger.py",
        *sorted((HOME / "privacy" / "accounting").rglob("*.py")),
    ],
    ids=lambda path: path.name,
)
def test_no_torch_where_accounting_is_done(path):
    assert not [module for module, _ in imports(path) if module.split(".")[0] == "torch"]


CHANCE = {"random", "np.random.seed", "torch.manual_seed"}
KEEPS_CHANCE = (
    HOME / "privacy" / "teachers" / "estimators.py"
)  # sets what others' estimators draw from, and puts it back


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))
def test_no_pickle_and_no_global_randomness(path):
    allowed = CHANCE if path == KEEPS_CHANCE else set()
    text = path.read_text(encoding="utf-8")
    modules = {module.split(".")[0] for module, _ in imports(path)}
    assert not modules & ({"pickle", "random", "shelve", "marshal"} - allowed)
    for forbidden in ("torch.load", "torch.save", "np.random.seed", "torch.manual_seed", "read_pickle", "joblib.load"):
        assert forbidden in allowed or forbidden not in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOME)))
def test_hydra_lives_in_the_command_line(path):
    if layer(path) != "cli":
        assert not [module for module, _ in imports(path) if module.split(".")[0] in ("hydra", "omegaconf")]


def test_light_imports_stay_light():
    code = (
        "import sys, synthdp, synthdp.cli, synthdp.privacy.ledger, synthdp.data.schema, synthdp.privacy.accounting;"
        "print([name for name in ('torch', 'pandas', 'sklearn', 'matplotlib', 'hydra', 'dp_accounting') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words",
    [
        (),
        *(("fit", "--help", f"generator={name}") for name in ("mixture", "independent", "mst", "aim", "privbayes")),
        ("epsilon", "noise=2", "accountant=rdp"),
        ("epsilon", "ledger={ledger}", "accountant=rdp"),
        ("budget", "--help"),
    ],
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
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
