"""Private folders and files: nobody else's whatever the umask is, and gone when their run is."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from synthdp.files import atomic, private_folder

CHILD = """
import sys
from pathlib import Path
from synthdp.files import private_folder as private
with private.private_folder(Path(sys.argv[1])) as folder:
    (folder / "records").write_text("of somebody")
    print(folder, flush=True)
    sys.stdin.read()
"""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def other(tmp_path):
    """Another run that lives, and its folder."""
    words = [sys.executable, "-c", CHILD, tmp_path / "internal"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process, tmp_path / "internal" / process.stdout.readline().strip().rpartition("/")[2]
    finally:
        process.kill()
        process.communicate()


def test_a_living_runs_folder_stays_and_a_killed_ones_goes(tmp_path, other):
    process, folder = other
    with private_folder.private_folder(tmp_path / "internal") as own:
        assert own != folder
        assert (folder / "records").exists()
    assert (folder / "records").exists()
    process.kill()
    process.wait()
    assert (folder / "records").exists()
    with private_folder.private_folder(tmp_path / "internal"):
        assert not folder.exists()


def test_left_overs_among_temporary_files_go_with_any_run(tmp_path, monkeypatch, other):
    process, folder = other
    monkeypatch.setattr(private_folder.tempfile, "tempdir", str(tmp_path / "internal"))
    with private_folder.private_folder(tmp_path / "elsewhere"):
        assert (folder / "records").exists()
    process.kill()
    process.wait()
    with private_folder.private_folder(tmp_path / "elsewhere"):
        assert not folder.exists()


def test_only_folders_of_that_name_that_are_ours_are_removed(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / f"{private_folder.SPILL}link").symlink_to(tmp_path / "kept")
    (tmp_path / f"{private_folder.SPILL}file").touch()
    (tmp_path / f"{private_folder.SPILL}old").mkdir()
    (tmp_path / "synthdp-paper-1").mkdir()
    private_folder.clear(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"kept", f"{private_folder.SPILL}link", f"{private_folder.SPILL}file", "synthdp-paper-1"}
    assert (tmp_path / "kept" / "file").exists()


def test_a_folder_that_was_taken_for_a_left_over_before_its_lock_is_made_again(tmp_path, monkeypatch):
    plain, seen = private_folder._locked, []

    def late(folder):
        seen.append(folder)
        if len(seen) == 1:
            monkeypatch.setattr(private_folder, "_locked", plain)
            private_folder.clear(tmp_path)
            monkeypatch.setattr(private_folder, "_locked", late)
        return plain(folder)

    monkeypatch.setattr(private_folder, "_locked", late)
    folder, lock = private_folder._new(tmp_path)
    os.close(lock)
    assert seen[-1] == folder
    assert list(tmp_path.iterdir()) == [folder]
    assert len(seen) == 2


def test_what_is_made_is_nobody_elses_under_any_umask(tmp_path, no_umask):
    place = tmp_path / "run" / "internal"
    with private_folder.private_folder(place) as folder:
        (folder / "file").touch()  # as another library makes one
        assert [mode(place), mode(folder), mode(folder / "file")] == [0o700, 0o700, 0o600]
        (place / "stays").touch()
    assert [path.name for path in place.iterdir()] == ["stays"]
    (tmp_path / "file").touch(0o666)
    atomic.write(tmp_path / "file", "text", private=True)
    assert mode(tmp_path / "file") == 0o600
    assert os.umask(0) == 0  # what it was


def test_what_was_made_for_it_alone_goes_with_it(tmp_path):
    with private_folder.private_folder(tmp_path / "run" / "internal"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_beside_the_main_thread_the_umask_stays(tmp_path, no_umask):
    """Blocks of several threads end in any order: the last one would leave its umask to the program."""

    def other():
        with private_folder.private_folder(tmp_path / "internal") as folder:
            (folder / "file").touch()
            found.extend([mode(folder), mode(folder / "file")])

    found = []
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [0o700, 0o666]
