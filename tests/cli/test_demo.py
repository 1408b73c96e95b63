"""`synthdp demo`: the whole job on the embedded table, and the two answers that it ends with."""

import dataclasses
import functools

import pytest

from synthdp.cli import run, settings
from synthdp.sets import named

QUICK = functools.partial(settings.Judge, models=("lr",), seeds=1, bootstrap=20, attacks=False)


@pytest.mark.heavy
def test_the_demo_ends_with_the_two_answers_and_the_way_to_the_pages(tmp_path, monkeypatch, capsys):
    pytest.importorskip("linearmodels", reason="the embedded data set comes with the extra `demo`")
    whole = named.load("meps")
    part = dataclasses.replace(whole, train=whole.train[:200], test=whole.test[:60])
    monkeypatch.setattr("synthdp.sets.named.load", lambda _: part)
    monkeypatch.setattr("synthdp.cli.commands.settings.Judge", QUICK)
    words = [f"out={tmp_path / 'out'}", f"account={tmp_path / 'account'}", "generator.components=20"]
    assert run(["demo", *words, "generator.iterations=100"]) == 0
    answers, pages = capsys.readouterr().out.strip().split("\n\n")[-2:]
    share, use = answers.splitlines()
    assert share.startswith("Can I share it?     Yes")
    assert use.startswith("Is it useful?       ")
    assert "what real rows offer above chance" in use
    statement, evaluation = (
        tmp_path / "out" / name for name in ("report/statement.html", "evaluation/evaluation.html")
    )
    assert statement.as_uri() in pages
    assert evaluation.as_uri() in pages
    assert statement.exists()
    assert evaluation.exists()
