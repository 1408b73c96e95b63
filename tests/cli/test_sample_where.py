"""`synthdp sample ... where=`, as a shell hands it over."""

import shlex
import subprocess
import sys

import pytest
from clinic import make_frame, make_schema

from synthdp import Budget, Synthesizer
from synthdp.cli import run
from synthdp.sets import record_files


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    made = Synthesizer("independent", schema=make_schema(), budget=Budget(5, 1e-5)).fit(make_frame(300), seed=0)
    folder = tmp_path_factory.mktemp("fit") / "release"
    made.save(folder)
    return folder


@pytest.mark.heavy
def test_in_a_shell(release, tmp_path):
    out = tmp_path / "old.csv"
    line = (
        f"{shlex.quote(sys.executable)} -m synthdp sample release={release} rows=40 seed=1 out={out} "
        "'where={sex: female, age: [65, 80], seen: [2020-02-01, 2020-03-31], stage: [II, null]}'"
    )
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    frame = record_files.read(out, schema=make_schema())
    assert len(frame) == 40
    assert (frame["sex"] == "female").all()
    assert frame["age"].astype(int).between(65, 80).all()
    assert frame["seen"].astype(str).between("2020-02-01", "2020-04").all()
    assert set(frame["stage"].dropna()) <= {"II"}


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("{sexx: female}", "where: 'sexx' is not one of the columns; did you mean 'sex'?"),
        (
            "{age: [120, 130]}",
            "where: column 'age': none of its possible values within its bounds [0, 99] lies in [120, 130]",
        ),
        ("3", "where must map columns"),
        ("{sex: female", "cannot be read"),
    ],
)
def test_refusals_are_one_line_and_leave_no_file(release, tmp_path, output_of, where, said):
    out = tmp_path / "s.csv"
    error = output_of("sample", f"release={release}", "rows=5", f"out={out}", f"where={where}", status=2).err
    assert said in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_writes_nothing_to_standard_output(release, capfdbinary):
    assert run(["sample", f"release={release}", "rows=5", "out=-", "where={age: [120, 130]}"]) == 2
    out, err = capfdbinary.readouterr()
    assert b"none of its possible values" in err
    assert out == b""
