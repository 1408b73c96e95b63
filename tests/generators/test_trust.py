"""Law 41: a generator that is not synthdp's own runs only where its package is trusted by name, and the statement names it."""

import dataclasses
import sys

import pytest
from clinic import make_frame, make_schema

from synthdp import BadInput, Budget, Synthesizer, generators, load, verify
from synthdp.cli import run
from synthdp.generators.independent import Independent
from synthdp.report.hazards import hazards
from synthdp.selecting import select

BUDGET = Budget(1.0, 1e-5)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Foreign(Independent):
    """A third party's: the house's in all but its class."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sly(Independent):
    """One that says it is the house's own."""


Sly.__module__, Sly.__qualname__, Sly.__name__ = Independent.__module__, "Independent", "Independent"


def made(generator, **options):
    return Synthesizer(generator, schema=make_schema(), budget=BUDGET, **options)


def test_a_third_party_s_generator_needs_trust_by_name():
    with pytest.raises(BadInput, match=rf"comes from the package '{__name__}', not from synthdp.*trust={__name__}"):
        made(Foreign())
    with pytest.raises(BadInput, match="comes from the package 'synthdp'"):
        made(Sly())
    with pytest.raises(BadInput, match="comes from the package"):
        made(Foreign(), trust="another")
    with pytest.raises(BadInput, match="but no generator of this fit comes from it"):
        made(Independent(), trust="another")
    with pytest.raises(BadInput, match="whose own generators need no trust"):
        made(Sly(), trust="synthdp")
    assert made(Foreign(), trust=f"{__name__}").generator == Foreign()


def test_the_statement_names_package_and_version_and_the_page_tells():
    own = made(Independent()).fit(make_frame(50), seed=1).statement
    foreign = made(Foreign(), trust=__name__).fit(make_frame(50), seed=1).statement
    assert "generator" not in own.provenance
    assert foreign.provenance["generator"] == {"package": __name__, "version": "not known"}
    assert any(f"comes from the package {__name__}, version not known" in line for line in foreign.not_covered)
    assert any(f"package {__name__}" in hazard.text for hazard in hazards(foreign))
    assert any("part of synthdp" in hazard.text for hazard in hazards(own))


def test_the_version_is_that_of_the_distribution(monkeypatch):
    monkeypatch.setattr(generators, "packages_distributions", lambda: {__name__: ["numpy"]})
    found = generators.origin(Foreign())
    assert found is not None
    assert found["package"] == __name__
    assert found["version"][0].isdigit()
    assert generators.origin(Independent()) is None


def test_a_selection_asks_for_trust_too():
    with pytest.raises(BadInput, match="comes from the package"):
        select([Foreign(), "independent"], make_frame(50), make_schema(), BUDGET)
    release = select([Foreign()], make_frame(50), make_schema(), BUDGET, trust=__name__, mean_runs=1.5, seed=1)
    assert release.statement.provenance["generator"]["package"] == __name__


def test_trust_that_nothing_needs_is_refused_on_the_command_line(tmp_path, capsys):
    assert run(["fit", "data=digits", "generator=classgauss", "trust=somebody", f"out={tmp_path / 'run'}"]) == 2
    assert "trust names 'somebody'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


BROUGHT = """
import dataclasses
from synthdp.generators.independent import Independent

@dataclasses.dataclass(frozen=True, kw_only=True)
class Brought(Independent):
    name = "brought"
"""


def test_an_installed_package_brings_a_generator_and_who_lacks_it_is_told_its_name(tmp_path, monkeypatch, capsys):
    about = tmp_path / "site" / "brought_by-2.5.dist-info"
    about.mkdir(parents=True)
    (tmp_path / "site" / "brought_by.py").write_text(BROUGHT)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: brought-by\nVersion: 2.5\n")
    (about / "top_level.txt").write_text("brought_by\n")
    (about / "entry_points.txt").write_text("[synthdp.generators]\nbrought = brought_by:Brought\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    generators.packages_distributions.cache_clear()
    with pytest.raises(BadInput, match="trust=brought_by"):
        made("brought")
    release = made("brought", trust="brought_by").fit(make_frame(50))
    assert release.statement.provenance["generator"] == {"package": "brought_by", "version": "2.5"}
    folder = release.save(tmp_path / "release")
    assert len(load(folder).sample(7)) == 7
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "brought_by")
    generators.packages_distributions.cache_clear()
    with pytest.raises(BadInput, match=r"comes from the package brought_by, version 2\.5, which is not installed here"):
        verify(folder)
    assert run(["epsilon", f"ledger={folder / 'ledger.jsonl'}", "delta=1e-5"]) == 0
    assert f"{release.statement.epsilon:.4g}"[:4] in capsys.readouterr().out
