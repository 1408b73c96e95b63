"""Law 43: a file or folder is whole or not there, whatever stops the machine or fills the disk."""

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sweeps import heavy

from synthdp.errors import BadInput
from synthdp.files import atomic
from synthdp.schema.columns import Identifier
from synthdp.schema.schema import Boolean, Image, Integer, Schema
from synthdp.sets import record_files

OLD, NEW = {"a": b"old", "b": b"old b"}, {"a": b"new" * 1000, "c/d": b"new too"}
STEPS = ("fsync", "rename", "replace", "mkdir", "rmdir", "unlink")


def fill(folder, content):
    for name, data in content.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def put(path):
    with atomic.folder(path) as new:
        fill(new, NEW)


def stopped(work, steps):
    """Run `work` in a process that is gone, without another word, before it takes a system call of STEPS for the n-th time, where
    n is `steps` + 1. Returns whether it got that far."""
    left = steps

    def counted(call):
        def instead(*arguments, **options):
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1
            return call(*arguments, **options)

        return instead

    child = os.fork()
    if child == 0:
        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("older", [heavy(None), OLD], ids=["new", "in the place of an older one"])
def test_a_power_cut_leaves_the_old_folder_or_the_new_one_and_the_next_writer_clears_up(tmp_path, older):
    seen = set()
    for steps in range(60):
        path = tmp_path / str(steps) / "release"
        path.parent.mkdir()
        if older is not None:
            path.mkdir()
            fill(path, older)
        if not stopped(lambda: put(path), steps):  # noqa: B023 - called at once
            break
        if not path.exists() and older is not None:
            assert atomic.interrupted(path), "there is a way back"
        atomic.recover(path)
        found = content(path) if path.exists() else None
        assert found in (older, NEW)
        seen.add(found == NEW)
        assert [each.name for each in path.parent.iterdir()] == ([] if found is None else ["release"])
    assert content(path) == NEW, "steps enough"
    assert seen == {True, False}


def test_a_file_is_the_old_one_or_the_new_one(tmp_path):
    for steps in range(20):
        path = tmp_path / f"file{steps}"
        path.write_bytes(b"old")

        def work(path=path):
            with atomic.file(path) as part:
                part.write_bytes(b"new")

        if not stopped(work, steps):
            break
        assert path.read_bytes() in (b"old", b"new")
    assert path.read_bytes() == b"new"
    assert steps > 2


def test_what_a_killed_writer_of_a_file_left_is_nobody_elses_and_gone_once_it_is_written_again(tmp_path):
    """It may be records: `split` writes them so."""
    path = tmp_path / "train.csv"

    def work():
        with atomic.file(path) as part:
            part.write_bytes(b"records")
            os._exit(9)

    assert stopped(work, 100)
    (left,) = tmp_path.iterdir()
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    with atomic.file(path) as part:
        assert not left.exists()
        with atomic.file(path) as other:  # of a writer that lives
            other.write_bytes(b"first")
        part.write_bytes(b"last")
    assert path.read_bytes() == b"last"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("old", "new"), [heavy(("=1", "x")), ("x", "=1"), heavy(("=1", "+2")), heavy(("'x", "x"))])
def test_a_csv_file_is_read_as_it_was_written_whenever_its_writer_stopped(tmp_path, old, new):
    """What was neutralised is listed in a second file, which cannot appear or go at the same moment."""
    schema = Schema(columns=(Identifier(name="patient"), Boolean(name="b")))
    seen = set()
    for steps in range(40):
        path = tmp_path / f"{steps}.csv"
        record_files.write(pd.DataFrame({"patient": [old], "b": [True]}), path, schema)
        frame = pd.DataFrame({"patient": [new], "b": [True]})
        if not stopped(lambda: record_files.write(frame, path, schema, force=True), steps):  # noqa: B023 - called at once
            break
        (found,) = record_files.read(path, schema)["patient"]
        seen.add(found)
    assert seen == {old, new}


def test_everything_is_synced_before_it_gets_its_name_and_the_name_after(tmp_path, monkeypatch):
    happened = []
    synced, renamed = os.fsync, os.rename

    def fsync(descriptor):
        happened.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced(descriptor)

    def rename(old, new):
        happened.append((str(old), str(new)))
        renamed(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    put(tmp_path / "release")
    first = next(place for place, each in enumerate(happened) if isinstance(each, tuple))
    part = happened[first][0]
    assert set(happened[:first]) == {f"{part}/a", f"{part}/c/d", f"{part}/c", part}
    assert happened[first - 1] == part, "a folder after what is in it"
    assert happened[first:] == [
        (part, str(tmp_path / ".release.new")),
        str(tmp_path),
        (str(tmp_path / ".release.new"), str(tmp_path / "release")),
        str(tmp_path),
    ]


@pytest.mark.parametrize("call", ["fsync", "rename", "open"])
def test_a_full_disk_is_told_in_a_line_and_leaves_what_was_there(tmp_path, monkeypatch, call):
    """At every call in turn."""
    path = tmp_path / "release"
    path.mkdir()
    fill(path, OLD)
    original, said = getattr(os, call), []
    for turn in range(20):
        left = turn

        def full(*arguments, **options):
            nonlocal left
            left -= 1
            if left == -1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return original(*arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(os, call, full)
            try:
                put(path)
            except BadInput as error:
                said.append(str(error))
        atomic.recover(path)
        assert content(path) in (OLD, NEW)
        assert [each.name for each in tmp_path.iterdir()] == ["release"]
    assert len(said) >= 2
    assert set(said) == {f"{path}: cannot be written (No space left on device)"}


def test_a_disk_that_fills_up_while_a_file_is_written(tmp_path):
    """By a limit on the size of files, which the system holds itself."""
    code = (
        "import resource, sys; from pathlib import Path; from synthdp.files import atomic\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); path = Path(sys.argv[1])\n"
        "with atomic.folder(path) as new: (new / 'a').write_bytes(b'x' * 2000)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "release")], capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1].endswith(f"{tmp_path / 'release'}: cannot be written (File too large)")
    assert list(tmp_path.iterdir()) == []


def test_two_writers_do_not_clear_up_after_each_other(tmp_path):
    path = tmp_path / "release"
    with atomic.folder(path) as new:
        put(path)
        assert new.is_dir()
        fill(new, OLD)
    assert content(path) == OLD
    assert [each.name for each in tmp_path.iterdir()] == ["release"]


def test_two_writers_that_end_at_once_do_not_take_each_other_s_folder_for_a_stopped_one_s(tmp_path, monkeypatch):
    """One was told that its release cannot be written, or both were lost."""
    path, rename, others = tmp_path / "release", os.rename, []
    put(path)

    def renamed(old, new):
        rename(old, new)
        if Path(new).name == ".release.old":
            monkeypatch.setattr(os, "rename", rename)
            others.append(threading.Thread(target=put, args=[path]))
            others[0].start()
            others[0].join(0.3)

    monkeypatch.setattr(os, "rename", renamed)
    with atomic.folder(path) as new:
        fill(new, OLD)
    others[0].join()
    assert content(path) == NEW
    assert [each.name for each in tmp_path.iterdir()] == ["release"]


@pytest.mark.heavy
def test_what_was_complete_when_its_writer_was_stopped_is_not_replaced_unasked(tmp_path):
    schema = Schema(columns=(Integer(name="day", bounds=(0, 9)), Image(name="scan", height=2, width=2)))
    frame = pd.DataFrame({"day": [7], "scan": [np.zeros((2, 2, 1), np.uint8)]})
    seen = set()
    for steps in range(60):
        path = tmp_path / str(steps) / "scans"
        path.parent.mkdir()
        if not stopped(lambda: record_files.write(frame, path, schema), steps):  # noqa: B023 - called at once
            break
        complete = path.exists() or (path.parent / ".scans.new").exists()
        seen.add((complete, path.exists()))
        if complete:
            with pytest.raises(BadInput, match="exists"):
                record_files.write(frame.assign(day=8), path, schema)
        else:
            record_files.write(frame.assign(day=8), path, schema)
        assert list(record_files.read(path, schema)["day"]) == [7 if complete else 8]
        assert os.listdir(path.parent) == ["scans"]
    assert seen == {(False, False), (True, False), (True, True)}


def test_a_link_or_a_folder_of_somebody_else_s_stays(tmp_path):
    (tmp_path / ".release.part-mine").symlink_to(tmp_path)
    (tmp_path / ".releases").mkdir()
    (tmp_path / ".release.part-file").write_text("mine")
    put(tmp_path / "release")
    assert len(list(tmp_path.iterdir())) == 4
    assert Path(tmp_path / ".release.part-file").read_text() == "mine"


def test_a_link_to_a_folder_stays_one(tmp_path):
    put(tmp_path / "release")
    (tmp_path / "link").symlink_to("release")
    with atomic.folder(tmp_path / "link") as new:
        fill(new, OLD)
    assert content(tmp_path / "release") == OLD
    assert (tmp_path / "link").is_symlink()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "release"]
