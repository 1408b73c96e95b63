"""The list of this user's accounts: by it a copy of a table under another name is noticed, and it holds paths alone."""

import json
import shutil
import stat
import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from clinic import make_frame, make_schema
from pate.pate_tables import fitted, problem

from synthdp import BadInput, Budget, NotEntered, Synthesizer
from synthdp.budgets import AccountFile, Cap, fingerprint, registry
from synthdp.selecting import select

KEPT = "another account knows the same table"


@pytest.fixture
def synth():
    return Synthesizer("independent", schema=make_schema(), budget=Budget(1.0, 1e-6))


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "patients.csv"
    make_frame(50).to_csv(path, index=False)
    return path


def of(tmp_path, name, source=None):
    return AccountFile(path=tmp_path / name, source=source)


def test_a_renamed_copy_of_a_file_is_noticed_once_and_named(synth, table, tmp_path):
    frame, copy = make_frame(50), Path(shutil.copy(table, tmp_path / "others.csv"))
    synth.fit(frame, account=of(tmp_path, "first", table))
    second = of(tmp_path, "second", copy)
    with pytest.warns(UserWarning, match=f"{KEPT}: {tmp_path / 'first'}"):
        synth.fit(frame, account=second)
    assert len(second.read().fits) == 1, "a warning, not a refusal"
    synth.fit(frame, account=second)


def test_the_same_frame_is_noticed_in_any_order_and_by_accounts_of_its_file(synth, table, tmp_path):
    frame = make_frame(50)
    synth.fit(frame, account=of(tmp_path, "frame"))
    with pytest.warns(UserWarning, match=f"{KEPT}: {tmp_path / 'frame'}"):
        synth.fit(frame.sample(frac=1, random_state=1), account=of(tmp_path, "shuffled"))
    with pytest.warns(UserWarning, match=f"{KEPT}: {tmp_path / 'frame'}, {tmp_path / 'shuffled'}"):
        synth.fit(frame, account=of(tmp_path, "file", table))


def test_a_file_is_known_by_its_content_too(synth, table, tmp_path):
    """The same records reversed, packed, or read by somebody else: a cap holds for all of these."""
    frame = pd.read_csv(table)
    first = AccountFile(path=tmp_path / "first", source=table, cap=Cap(epsilon=1.0, delta=1e-5))
    synth.fit(frame, account=first)
    assert first.read().versions == 1
    assert [change["form"] for change in first.read().changes[1:]] == ["file", "frame"]
    frame.iloc[::-1].to_csv(tmp_path / "reversed.csv.gz", index=False)
    refused = pytest.raises(
        BadInput, match="kept for the same table and has a cap, which a second account would bypass"
    )
    with refused:
        synth.fit(frame.iloc[::-1], account=of(tmp_path, "second", tmp_path / "reversed.csv.gz"))
    with refused:
        synth.fit(frame, account=of(tmp_path, "third"))
    # In its own account the other file is no other table, and is known from then on.
    first = replace(first, source=tmp_path / "reversed.csv.gz", cap=Cap(epsilon=2.0, delta=1e-5), change_cap=True)
    synth.fit(frame.iloc[::-1], account=first)
    assert [change["form"] for change in first.read().changes if change["kind"] == "version"] == [
        "file",
        "frame",
        "file",
    ]
    assert first.read().versions == 2


def test_a_changed_table_is_not_recognised(synth, tmp_path):
    frame = make_frame(50)
    synth.fit(frame, account=of(tmp_path, "first"))
    synth.fit(frame.iloc[1:], account=of(tmp_path, "second"))


def test_a_newer_version_that_another_account_knows_is_noticed(synth, tmp_path):
    synth.fit(make_frame(50), account=of(tmp_path, "first"))
    synth.fit(make_frame(51), account=of(tmp_path, "second"))
    newer = AccountFile(path=tmp_path / "second", add_version=True)
    with pytest.warns(UserWarning, match=f"{KEPT}: {tmp_path / 'first'}"):
        synth.fit(make_frame(50), account=newer)


def test_a_copied_account_is_noticed(synth, tmp_path):
    """It would have the whole budget a second time."""
    synth.fit(make_frame(50), account=of(tmp_path, "first"))
    shutil.copy(tmp_path / "first", tmp_path / "copy")
    with pytest.warns(UserWarning, match=f"{KEPT}: {tmp_path / 'first'}"):
        synth.fit(make_frame(50), account=of(tmp_path, "copy"))


def test_the_list_holds_paths_alone_and_is_its_user_s(synth, table, tmp_path):
    synth.fit(make_frame(50), account=of(tmp_path, "first", table))
    synth.fit(make_frame(51), account=of(tmp_path, "second"))
    file = registry.home() / registry.NAME
    assert [json.loads(line) for line in file.read_text().splitlines() if line] == [
        str(tmp_path / "first"),
        str(tmp_path / "second"),
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in registry.home().iterdir()] == [registry.NAME]


def test_accounts_that_are_gone_or_unreadable_are_left_out_in_silence(synth, tmp_path):
    frame = make_frame(50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("gone", "damaged", "none", "folder"):
            synth.fit(frame, account=of(tmp_path, name))
    (tmp_path / "gone").unlink()
    (tmp_path / "damaged").write_bytes((tmp_path / "damaged").read_bytes()[:5000])
    (tmp_path / "none").write_bytes(b"no account")
    (tmp_path / "folder").unlink()
    (tmp_path / "folder").mkdir()
    with (registry.home() / registry.NAME).open("ab") as file:
        file.write(
            b'\n"torn\n[1]\n7\n"\\u0000"\n\xff\xfe\n' + b"[" * 100_000 + b'\n"/etc/passwd"\n"' + b"x" * 5000 + b'"\n'
        )
    synth.fit(frame, account=of(tmp_path, "own"))
    assert registry.holds(tmp_path / "own")


@pytest.mark.parametrize("home", ["a file", "none"])
def test_where_the_list_cannot_be_kept_one_warning_says_so(synth, tmp_path, monkeypatch, home):
    monkeypatch.setenv(registry.HOME, str(tmp_path / "file"))
    (tmp_path / "file").touch()
    if home == "none":
        monkeypatch.delenv(registry.HOME)
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.warns(UserWarning, match="list of this user's accounts cannot be written") as caught:
        synth.fit(make_frame(50), account=of(tmp_path, "a"))
    assert len(caught) == 1
    assert len(of(tmp_path, "a").read().fits) == 1


def test_a_table_that_is_known_is_compared_with_no_other_account(synth, tmp_path):
    """It was compared when it was new: fits of large tables would wait for every account."""
    frame = make_frame(50)
    synth.fit(frame, account=of(tmp_path, "first"))
    synth.fit(make_frame(51), account=of(tmp_path, "second"))
    own = AccountFile(path=tmp_path / "first").read().key
    asked = []

    def print_of(key):
        asked.append(key)
        return fingerprint.of_frame(frame)(key)

    of(tmp_path, "first").check_table(print_of)
    assert set(asked) == {own}


# Fits that are entered nowhere


def test_a_fit_without_an_account_warns_once_that_it_is_entered_nowhere(synth):
    with pytest.warns(NotEntered, match="entered in no account.*account=FILE") as caught:
        synth.fit(make_frame(50))
    assert len(caught) == 1
    assert Path(caught[0].filename) == Path(__file__), "of the line that asked for the fit"


def test_a_rehearsal_and_a_fit_with_an_account_do_not_warn_of_it(synth, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        synth.fit(make_frame(50), seed=1)
        synth.fit(make_frame(50), account=tmp_path / "a")
        with pytest.raises(NotEntered):
            synth.fit(make_frame(50))


def one_of_several(frame):
    return select(["independent", "classgauss"], frame, make_schema(), Budget(2.0, 1e-5))


def teachers(frame):
    return fitted(frame, seed=None)


@pytest.mark.parametrize(
    ("fit", "frame"),
    [
        (
            lambda frame: Synthesizer("independent", schema=make_schema(), budget=Budget(1.0, 1e-6)).fit(frame),
            make_frame(50),
        ),
        (one_of_several, make_frame(50)),
        (teachers, problem(50, 0)),
    ],
    ids=["fit", "select", "pate"],
)
def test_a_refused_fit_is_told_of_no_account(fit, frame):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(BadInput):
            fit(frame.drop(columns=frame.columns[0]))
