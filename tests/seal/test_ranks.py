"""A fit in two processes is the fit in one: the same answers, the same charge, noise drawn once."""

import json
import os
import socket
import subprocess
import sys

import killing
import numpy as np
import pandas as pd
import pytest
from clinic import make_frame, make_schema, quick

from synthdp import BadInput, Budget, Synthesizer, load
from synthdp.budgets import AccountFile
from synthdp.ledger.events import Choice
from synthdp.ledger.ledger import Ledger
from synthdp.seal.processes import ALONE, Ranks, _walk, check_shared, joined
from synthdp.seal.records import seal, shard

BUDGET = Budget(2.0, 1e-5)
TWO = """
import os, sys
import numpy as np
import torch
from clinic import make_frame, make_schema, quick
from synthdp import BadInput, Budget, Synthesizer
from synthdp.seal.charging import Account
from synthdp.ledger.events import Entry, Gaussian
from synthdp.seal.processes import joined
from synthdp.seal.door import Sensitive
from synthdp.seal.marginals import Marginals

out, port = sys.argv[1:]
rank = 0 if os.fork() else 1
os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}  # as torchrun does
ranks, budget = joined(), Budget(2.0, 1e-5)
made = Synthesizer("independent", schema=make_schema(), budget=budget)
release = made.fit(make_frame(300), seed=3, ranks=ranks, fitness=0.2, ledger=f"{out}/fitness.jsonl")
np.savez(f"{out}/fitness{ranks.rank}.npz", mean=release.statement.fitness.single.mean)
if ranks.rank == 0:
    release.save(f"{out}/fitness")
for name in ("mst", "mixture"):
    made = Synthesizer(quick(name), schema=make_schema(), budget=budget)
    release = made.fit(make_frame(300), seed=3, ranks=ranks, ledger=f"{out}/{name}.jsonl")
    if ranks.rank == 0:
        release.save(f"{out}/{name}")

# Without a seed: noise of one deviation in all, the same answer everywhere, and every unit counted once.
data = Sensitive(make_frame(300), make_schema(), Account(budget), ranks=ranks)
noise = data.commit(lambda z: (Entry(Gaussian(z)), Entry(Gaussian(2 * z))))
zeros = data.sum(lambda codes: np.zeros((len(codes), 40000)), 40000, 1.0, noise)
ones = data.sum(lambda codes: np.ones((len(codes), 1)), 1, 1.0, 2 * noise)
near = ranks.total(torch.tensor([2.0 ** (-30 * rank)]))
np.savez(f"{out}/answers{ranks.rank}.npz", zeros=zeros, ones=ones, noise=noise, near=near)

try:
    Synthesizer("independent", schema=make_schema(), budget=budget).fit(make_frame(300 + ranks.rank), ranks=ranks)
except BadInput as error:
    open(f"{out}/refused{ranks.rank}.txt", "w").write(str(error))

ranks, plain = joined(), Marginals.bounded  # the fit that was refused left the group


def fails_in_one(question, records):
    if rank == 0:
        raise OSError
    return plain(question, records)


Marginals.bounded = fails_in_one
try:
    Synthesizer("independent", schema=make_schema(), budget=budget).fit(make_frame(300), ranks=ranks)
except BadInput as error:
    open(f"{out}/failed{ranks.rank}.txt", "w").write(str(error))
if rank == 0:  # and waits: it does not end, which would tell the other one
    assert os.wait()[1] == 0
else:
    os._exit(0)
"""
GAN = """
import sys
from clinic import make_frame, make_schema, quick
from synthdp import Budget, Synthesizer
from synthdp.seal.processes import joined

out, ranks = sys.argv[1], joined()
for unit in (None, "patient"):
    changes = {"unit": unit, "max_records_per_unit": 2} if unit else {}
    made = Synthesizer(quick("dpgan"), schema=make_schema(**changes), budget=Budget(2.0, 1e-5))
    release = made.fit(make_frame(300, repeats=2), seed=3, ranks=ranks, ledger=f"{out}/{unit}.jsonl")
    if ranks.rank == 0:
        release.save(f"{out}/{unit}")
"""


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """What two processes wrote that share one import."""
    out = tmp_path_factory.mktemp("together")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    killing.in_a_process(TWO, str(out), str(port))
    return out


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What two processes wrote that torchrun started."""
    out = tmp_path_factory.mktemp("trained")
    (out / "script.py").write_text(GAN)
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "script.py", "."]
    environment = {**os.environ, "PYTHONPATH": killing.MODULES, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=out, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.heavy
@pytest.mark.parametrize("unit", [None, "patient"])
def test_two_processes_learn_what_one_learns(trained, tmp_path, unit):
    """A rehearsal, coin by coin and draw by draw: only the order of float sums differs."""
    changes = {"unit": unit, "max_records_per_unit": 2} if unit else {}
    alone = Synthesizer(quick("dpgan"), schema=make_schema(**changes), budget=BUDGET).fit(
        make_frame(300, repeats=2), seed=3
    )
    release = load(trained / str(unit))
    assert release.ledger.entries() == alone.ledger.entries() == Ledger.read(trained / f"{unit}.jsonl").entries()
    assert release.statement.epsilon == alone.statement.epsilon
    for one, other in zip(release.model.tensors().values(), alone.model.tensors().values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    assert any("2 processes" in line for line in release.statement.not_covered)
    assert release.statement.declared["processes"] == 2


@pytest.mark.heavy
def test_noise_is_drawn_once_and_every_unit_counts_once(together):
    first, second = (np.load(together / f"answers{rank}.npz") for rank in (0, 1))
    np.testing.assert_array_equal(first["zeros"], second["zeros"])
    np.testing.assert_array_equal(first["ones"], second["ones"])
    deviation = float(first["noise"])
    assert np.std(first["zeros"]) == pytest.approx(deviation, rel=0.02)  # 40,000 draws: 5.6 standard errors
    assert first["ones"][0] == pytest.approx(300, abs=6 * 2 * deviation)


@pytest.mark.heavy
def test_sums_of_shards_add_up_in_float64(together):
    assert all(np.load(together / f"answers{rank}.npz")["near"].tolist() == [1 + 2.0**-30] for rank in (0, 1))


@pytest.mark.heavy
def test_bought_figures_of_fitness_are_those_of_one_process(together):
    alone = Synthesizer("independent", schema=make_schema(), budget=BUDGET).fit(make_frame(300), seed=3, fitness=0.2)
    release = load(together / "fitness")
    assert release.statement.fitness == alone.statement.fitness
    assert release.ledger.entries() == alone.ledger.entries()
    for rank in (0, 1):
        assert tuple(np.load(together / f"fitness{rank}.npz")["mean"]) == alone.statement.fitness.single.mean


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["mst", "mixture"])
def test_what_is_chosen_by_counts_is_chosen_by_those_of_all_processes(together, name):
    alone = Synthesizer(quick(name), schema=make_schema(), budget=BUDGET).fit(make_frame(300), seed=3)
    release = load(together / name)
    assert any(isinstance(entry.event, Choice) for entry in alone.ledger.entries())
    assert release.ledger.entries() == alone.ledger.entries()
    for one, other in zip(release.model.tensors().values(), alone.model.tensors().values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.heavy
def test_processes_with_different_records_are_refused_on_every_one(together):
    for rank in (0, 1):
        assert "the same records in the same order" in (together / f"refused{rank}.txt").read_text()


@pytest.mark.heavy
def test_a_fit_that_fails_in_one_process_fails_in_all(together):
    """The other one waited for a sum as long as the process of the first lived, or took what its next fit passed on for that sum."""
    assert "raised OSError" in (together / "failed0.txt").read_text()
    assert "another process of this fit has ended" in (together / "failed1.txt").read_text()


def test_shards_are_a_partition_by_unit():
    schema = make_schema(unit="patient", max_records_per_unit=2)
    records = seal(make_frame(90, repeats=3), schema, b"k" * 32)
    parts = [shard(records, place, 3) for place in range(3)]
    assert sum(part.units for part in parts) == records.units == 30
    assert np.array_equal(np.sort(np.concatenate([part.keys for part in parts])), np.sort(records.keys))
    for part in parts:
        assert np.bincount(part.owner).tolist() == [2] * part.units
        pd.testing.assert_series_equal(
            part.raw.groupby(part.owner)["patient"].nunique(),
            pd.Series([1] * part.units, name="patient"),
            check_names=False,
        )


class Pair(Ranks):
    """The first of two processes, of which the other one keeps silent."""

    rank, world = 0, 2


LEARNED = {
    "categories": {"sex": {"kind": "categorical", "categories": "learn"}},
    "bounds": {"age": {"kind": "integer", "bounds": "learn"}},
}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "columns", "said"),
    [
        ("independent", LEARNED["categories"], "declare them in the schema"),
        ("dpgan", LEARNED["categories"] | LEARNED["bounds"], "declare them in the schema"),
        ("kernel_teachers", {}, "teachers learn in one process"),
        ("pategan_original", {}, "teachers learn in one process"),
        ("kernel_teachers", LEARNED["bounds"], "teachers learn in one process"),
        ("aim", {}, "under a cap"),
    ],
)
def test_what_several_processes_cannot_answer_is_refused_with_nothing_charged(tmp_path, name, columns, said):
    made = Synthesizer(quick(name), schema=make_schema(columns=columns), budget=BUDGET)
    account = AccountFile(path=tmp_path / "account")
    with pytest.raises(BadInput, match=said):
        made.fit(make_frame(60), ranks=Pair(), ledger=tmp_path / "ledger.jsonl", account=account)
    assert not (tmp_path / "ledger.jsonl").exists()
    assert account.read() is None


def test_what_is_learned_by_sums_is_learned_together(tmp_path):
    tree = {"kind": "categorical", "categories": ["female", "male"], "tree": {"prefix": [1]}}
    schema = make_schema(units="learn", columns={**LEARNED["bounds"], "sex": tree})
    made = Synthesizer("independent", schema=schema, budget=Budget(50.0, 1e-5))
    made.fit(make_frame(600), ranks=Pair(), ledger=tmp_path / "ledger.jsonl")
    counts = [entry.count for entry in Ledger.read(tmp_path / "ledger.jsonl").entries()]
    assert sum(counts) == 5  # units, two grids of the bounds, the nodes of a public tree, the tables


def test_a_sum_over_processes_has_the_shape_of_its_parts():
    """Of no columns a table is one number."""
    found = _walk([np.array(3.0), np.zeros((2, 0)), np.ones((2, 3))], lambda leaf: leaf)
    assert [each.shape for each in found] == [(), (2, 0), (2, 3)]


def test_what_is_no_sum_is_refused_by_name():
    class Odd:
        pass

    with pytest.raises(BadInput, match="Odd"):
        check_shared(Odd(), Pair())
    check_shared(Odd(), ALONE)
    made = Synthesizer(quick("independent"), schema=make_schema(), budget=BUDGET)
    with pytest.raises(BadInput, match="checkpoint"):
        made.fit(make_frame(10), ranks=Pair(), checkpoint="x")
    assert joined() is ALONE


def test_one_fit_of_several_processes_is_not_told_to_be_several(monkeypatch, recwarn):
    made = Synthesizer(quick("independent"), schema=make_schema(), budget=BUDGET)
    monkeypatch.setenv("WORLD_SIZE", "2")
    made.fit(make_frame(30), seed=1, ranks=Pair())
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"one of 2 processes.*ranks=synthdp\.seal\.processes\.joined\(\)"):
        made.fit(make_frame(30), seed=1)


@pytest.mark.heavy
def test_the_command_under_torchrun_writes_one_release(tmp_path):
    schema, frame = make_schema(), make_frame(120)
    schema.save(tmp_path / "clinic.yaml")
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    words = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "synthdp",
        "fit",
    ]
    words += ["data.path=clinic.csv", "data.schema=clinic.yaml", "generator=independent", "out=out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("guarantee") == 1
    assert len((tmp_path / "out" / "internal" / "ledger.jsonl").read_text().splitlines()) >= 1
    assert (
        json.loads((tmp_path / "out" / "release" / "release.json").read_text())["statement"]["declared"]["processes"]
        == 2
    )
    assert len(load(tmp_path / "out" / "release").ledger.entries()) == 1
