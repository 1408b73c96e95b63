"""`synthdp epsilon votes=FILE`: epsilon of teachers' votes, with the data-dependent figure marked as internal."""

import json
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from clinic import refused

from synthdp.accounting import best
from synthdp.cli import run
from synthdp.ledger.events import Entry, Vote


def reference(n=100):
    """Row i gives 250 - (7 i mod 150) votes to class i mod 10 and the rest evenly to the others, earlier ones first."""
    found = np.zeros((n, 10), dtype=int)
    for i in range(n):
        others = [j for j in range(10) if j != i % 10]
        found[i, i % 10] = 250 - i * 7 % 150
        np.add.at(found[i], [others[place % 9] for place in range(i * 7 % 150)], 1)
    return found


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "votes, all = (1).npy"
    np.save(path, reference())
    return f"votes={path}"


def answer(capsys, *words):
    assert run(["epsilon", *words, "format=json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_both_figures_side_by_side_and_the_private_one_is_marked(file, output_of):
    lines = output_of("epsilon", file, "aggregator=lnmax", "gamma=0.05", "queries=100", "delta=1e-5").out.splitlines()
    assert [line.split()[0] for line in lines] == ["data-independent", "statement", "data-dependent"]
    assert [line.split()[2] for line in (lines[0], lines[2])] == ["5.30259", "2.0511"]
    assert ["INTERNAL, not for release" in line for line in lines] == [False, False, True]
    assert len({line.index("epsilon") for line in lines}) == len({line.index("at delta") for line in lines}) == 1


@pytest.mark.heavy
def test_as_a_process(file, tmp_path):
    """The words of the task, as someone types them; a bad option ends with status 2 and one line."""
    words = [sys.executable, "-m", "synthdp", "epsilon", file, "aggregator=lnmax", "delta=1e-5", "queries=100"]
    done = subprocess.run([*words, "gamma=0.05"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "2.0511" in done.stdout
    failed = subprocess.run([*words, "gamma=0"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (2, "", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["votes, all = (1).npy"]


def test_json_of_each_aggregator(file, capsys):
    lnmax = answer(capsys, file, "aggregator=lnmax", "gamma=0.05", "delta=1e-5")
    assert lnmax["data_independent"] == {"epsilon": pytest.approx(5.302585092994046, abs=1e-9), "order": 5}
    assert lnmax["data_dependent"]["epsilon"] == pytest.approx(2.0511043461769454, abs=1e-9)
    assert lnmax["data_dependent"]["internal"] is True
    assert "private" in lnmax["data_dependent"]["warning"]
    assert lnmax["statement"]["epsilon"] == best([Entry(Vote(10.0, "laplace"), 100)], 1e-5)[1]
    gnmax = answer(capsys, file, "aggregator=gnmax", "sigma=40", "delta=1e-5")
    assert gnmax["data_dependent"]["epsilon"] == pytest.approx(1.2079779976703795, abs=1e-9)
    assert gnmax["statement"]["epsilon"] == best([Entry(Vote(40 / math.sqrt(2)), 100)], 1e-5)[1]
    words = ["aggregator=confident", "threshold=200", "sigma1=150", "sigma2=40", "delta=1e-5"]
    confident, fewer = answer(capsys, file, *words), answer(capsys, file, *words, "answers=45")
    assert confident["data_dependent"] == fewer["data_dependent"]
    assert confident["data_dependent"]["epsilon"] == pytest.approx(0.7976089060871585, abs=1e-9)
    assert confident["data_dependent"]["answered"] == pytest.approx(44.7913, abs=5e-5)
    events = [Entry(Vote(150.0), 100), Entry(Vote(40 / math.sqrt(2)), 45)]
    assert fewer["statement"]["epsilon"] == best(events, 1e-5)[1] < confident["statement"]["epsilon"]
    assert fewer["data_independent"]["epsilon"] < confident["data_independent"]["epsilon"]
    for found in (lnmax, gnmax, confident):
        assert found["data_dependent"]["epsilon"] < found["statement"]["epsilon"] < found["data_independent"]["epsilon"]


@pytest.mark.heavy
def test_some_rows_some_orders_and_csv(file, tmp_path, capsys):
    words = ["aggregator=lnmax", "gamma=0.05", "delta=1e-5"]
    part = answer(capsys, file, *words, "queries=40")
    for name, header in (("plain", ""), ("headed", ",".join(f"class {j}" for j in range(10)))):
        np.savetxt(tmp_path / f"{name}.csv", reference()[:40], fmt="%d", delimiter=",", header=header, comments="")
        assert answer(capsys, f"votes={tmp_path / name}.csv", *words) == part
    assert part["queries"] == 40
    assert part["data_dependent"]["epsilon"] < answer(capsys, file, *words)["data_dependent"]["epsilon"]
    assert answer(capsys, file, *words, "orders=[5]")["data_independent"]["order"] == 5
    assert answer(capsys, file, *words, "orders=[2,3]")["data_dependent"]["order"] == 3


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "aggregator"),
        (["aggregator=most"], "aggregator"),
        (["aggregator=lnmax"], "gamma"),
        (["aggregator=lnmax", "gamma=0"], "gamma"),
        (["aggregator=lnmax", "gamma=-0.1"], "gamma"),
        (["aggregator=lnmax", "gamma=many"], "gamma"),
        (["aggregator=lnmax", "gamma=0.1", "sigma=3"], "sigma"),
        (["aggregator=lnmax", "gamma=0.1", "answers=3"], "answers"),
        (["aggregator=gnmax", "sigma=0"], "sigma"),
        (["aggregator=gnmax"], "sigma"),
        (["aggregator=gnmax", "sigma=1", "orders=[1]"], "orders"),
        (["aggregator=confident", "sigma1=1", "sigma2=1"], "threshold"),
        (["aggregator=confident", "threshold=9", "sigma1=0", "sigma2=1"], "sigma1"),
        (["aggregator=confident", "threshold=inf", "sigma1=1", "sigma2=1"], "threshold"),
        (["aggregator=confident", "threshold=9", "sigma1=1", "sigma2=1", "answers=101"], "answers"),
        (["aggregator=lnmax", "gamma=0.1", "queries=101"], "queries"),
        (["aggregator=lnmax", "gamma=0.1", "queries=0"], "queries"),
        (["aggregator=lnmax", "gamma=0.1", "delta=1"], "delta"),
        (["aggregator=lnmax", "gamma=0.1", "noise=2"], "noise"),
        (["aggregator=lnmax", "gamma=0.1", "rate=0.1"], "rate"),
        (["aggregator=lnmax", "gamma=0.1", "ledger=x.jsonl"], "ledger"),
        (["aggregator=lnmax", "gamma=0.1", "relation=replace_one"], "relation"),
        (["aggregator=lnmax", "gamma=0.1", "group=2"], "group"),
    ],
)
def test_options_that_cannot_be(words, named, file, capsys):
    assert named in refused(capsys, "epsilon", file, *words)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("matrix", "named"),
    [
        (np.array([1, 2, 3]), "dimensions"),
        (np.array([[3], [3]]), "classes"),
        (np.array([[4, -1]]), "0 or more"),
        (np.array([[1.5, 1.5]]), "whole"),
        (np.array([[math.nan, 3.0]]), "whole"),
        (np.array([[3, 1], [3, 2]]), "same number"),
        (np.zeros((0, 3)), "no row"),
        (np.array([["3", "1"]]), "numbers"),
        (np.array([[True, False]]), "numbers"),
    ],
)
def test_matrices_that_are_none(matrix, named, tmp_path, capsys):
    np.save(tmp_path / "votes.npy", matrix)
    error = refused(capsys, "epsilon", f"votes={tmp_path / 'votes.npy'}", "aggregator=lnmax", "gamma=0.1")
    assert named in error


@pytest.mark.heavy
def test_files_that_are_none(tmp_path, capsys):
    words = ["aggregator=lnmax", "gamma=0.1"]
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps([1]))
    np.save(tmp_path / "objects.npy", np.array([[3, None]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "archive.npz", votes=np.eye(2))
    (tmp_path / "archive.npz").rename(tmp_path / "archive.npy")
    (tmp_path / "text.csv").write_text("1,2\n1,secret\n", encoding="utf-8")
    (tmp_path / "ragged.csv").write_text("1,2\n3\n", encoding="utf-8")
    (tmp_path / "nothing.csv").write_text("", encoding="utf-8")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00\x01")
    (tmp_path / "votes.txt").write_text("1,2\n", encoding="utf-8")
    (tmp_path / "folder.npy").mkdir()
    for path in sorted(tmp_path.iterdir()):
        error = refused(capsys, "epsilon", f"votes={path}", *words)
        assert "secret" not in error
    assert "no file" in refused(capsys, "epsilon", f"votes={tmp_path / 'absent.npy'}", *words)
    assert "gamma" in refused(capsys, "epsilon", "gamma=0.1", "noise=1")
