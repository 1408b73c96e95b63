"""The account of a data set on the command line: where it is, what it refuses, what `synthdp budget` prints."""

import json
import os
import sqlite3
import subprocess
import sys
import warnings
from contextlib import closing

import pytest
from clinic import make_frame, make_schema, refused
from sweeps import heavy

from synthdp import load
from synthdp.budgets.registry import home
from synthdp.cli import run
from synthdp.seal.door import Sensitive

CAP = ["account.cap.epsilon=2", "account.cap.delta=1e-5"]


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files with spaces = (1)"
    folder.mkdir()
    make_frame(60).to_csv(folder / "a=b (1).csv", index=False)
    make_schema().save(folder / "schema.yaml")
    return folder


@pytest.fixture
def fit(files, tmp_path):
    """A fit as words; `out` is a folder of `tmp_path`."""

    def words(out, *more, data="a=b (1).csv"):
        source = [f"data.path={files / data}", f"data.schema={files / 'schema.yaml'}"]
        return ["fit", *source, "generator=independent", f"out={tmp_path / out}", *map(str, more)]

    return words


def shown(capsys, *words):
    capsys.readouterr()
    assert run(["budget", *map(str, words), "format=json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_account_is_beside_the_data_and_outlives_every_output_folder(files, fit, capsys, output_of, tmp_path):
    assert "epsilon 1 of 2" in output_of(*fit("one", *CAP)).out
    assert run(fit("two", "seed=1", "account.by=Ada")) == 0
    error = refused(capsys, *fit("three"))
    assert "epsilon 0" in error
    assert "is left" in error
    assert not (tmp_path / "three").exists()
    said = shown(capsys, f"account={files / 'a=b (1).csv.account'}")
    assert said["spent"]["epsilon"] == 2.0
    assert said["left"]["epsilon"] == 0.0
    assert [(item["by"], item["rehearsal"], item["state"]) for item in said["fits"]][1] == ("Ada", True, "finished")
    assert said["fits"][0]["plan"][0]["event"]["type"] == "Gaussian"
    assert shown(capsys, f"data.path={files / 'a=b (1).csv'}") == said
    assert load(tmp_path / "one" / "release").statement.account.cap.epsilon == 2.0


def test_a_link_leads_to_the_same_account(files, fit, capsys):
    (files / "link.csv").symlink_to(files / "a=b (1).csv")
    assert run(fit("one", data="link.csv")) == 0
    assert len(shown(capsys, f"data.path={files / 'a=b (1).csv'}")["fits"]) == 1


def test_the_text_says_what_was_spent_by_whom_and_when(fit, files, output_of):
    output_of(*fit("one", *CAP, "account.by=Ada Lovelace", "budget.epsilon=0.5"))
    text = output_of("budget", f"data.path={files / 'a=b (1).csv'}").out
    for part in (
        "epsilon 0.5 of 2",
        "epsilon 1.5",
        "Ada Lovelace",
        "independent",
        "finished",
        "account opened",
        "head",
    ):
        assert part in text


def test_another_table_is_refused_and_a_newer_version_recorded(files, fit, capsys):
    assert run(fit("one")) == 0
    make_frame(60, seed=5).to_csv(files / "a=b (1).csv", index=False)
    assert "account.add_version=true" in refused(capsys, *fit("two"))
    assert run(fit("two", "account.add_version=true")) == 0
    assert shown(capsys, f"data.path={files / 'a=b (1).csv'}")["versions"] == 2


def test_a_head_that_was_kept_is_checked_and_the_statement_says_so(files, fit, capsys, tmp_path):
    assert run(fit("one")) == 0
    account = files / "a=b (1).csv.account"
    head = shown(capsys, f"account={account}")["head"]
    assert run(fit("two", f"account.head={head}")) == 0
    assert [load(tmp_path / out / "release").statement.account.head_checked for out in ("one", "two")] == [False, True]
    account.unlink()
    assert "rolled back" in refused(capsys, *fit("three", f"account.head={head}"))
    assert not account.exists()


def test_none_is_said_in_the_statement(fit, files, capsys, output_of, tmp_path):
    assert "this fit is entered in no account" in output_of(*fit("one", "account=none")).err
    assert load(tmp_path / "one" / "release").statement.account is None
    assert not (files / "a=b (1).csv.account").exists()
    assert "contradict" in refused(capsys, *fit("two", "account=none", "account.head=abc"))


@pytest.mark.heavy
def test_none_names_the_account_beside_the_data_whose_cap_it_passes_over(fit, files, output_of):
    told = "account=none passes over the account of these records"
    assert told not in output_of(*fit("one", "account=none")).err
    output_of(*fit("two", "account.cap.epsilon=1", "account.cap.delta=1e-6"))
    said = output_of(*fit("three", "account=none")).err
    assert f"{told}, {files / 'a=b (1).csv.account'}, and its cap: epsilon 1 of 1" in said


def test_a_named_file_with_any_name(fit, capsys, tmp_path):
    account = tmp_path / "new folder" / "x=y, [z] (1).account"
    assert run(fit("one", f"account={account}", "account.by=O'Brien, {a}=b")) == 0
    said = shown(capsys, f"account={account}")
    assert said["fits"][0]["by"] == "O'Brien, {a}=b"
    assert said["account"] == str(account)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["account.cap.epsilon=1"], "both account.cap.epsilon and account.cap.delta"),
        (["account.cap.epsilon=0", "account.cap.delta=1e-6"], "account.cap.epsilon"),
        (["account.cap.epsilon=much", "account.cap.delta=1e-6"], "account.cap.epsilon must be a number"),
        (["account.cap.epsilom=1"], "did you mean 'account.cap.epsilon'"),
        (["account.filter=strong"], "account.filter must be one of"),
        (["account.filter=renyi"], "needs account.cap"),
        (["account.change_cap=true"], "needs account.cap"),
        (["account.head=00"], "account.head"),
        (["account="], "account= needs a file"),
        (["account={data}"], "is not an account"),
        (["account={data}/x"], "account=FILE"),
        (["budget.epsilon=3", "account.cap.epsilon=2", "account.cap.delta=1e-5"], "is left"),
        (["budget.epsilon=inf", "account.cap.epsilon=2", "account.cap.delta=1e-5"], "epsilon inf"),
    ],
)
def test_bad_input_gets_one_line_and_leaves_nothing(files, fit, capsys, tmp_path, words, says):
    before = sorted(files.iterdir())
    assert says in refused(capsys, *fit("x", *(word.replace("{data}", str(files / "a=b (1).csv")) for word in words)))
    assert sorted(files.iterdir()) == before
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("how", ["empty", "cut", heavy("blob"), heavy("nested")])
def test_a_damaged_account_is_refused_in_a_line_and_never_new(files, fit, capsys, tmp_path, how):
    assert run(fit("one")) == 0
    account = files / "a=b (1).csv.account"
    if how in ("empty", "cut"):
        account.write_bytes(account.read_bytes()[: {"empty": 0, "cut": 9000}[how]])
    else:
        body = {"blob": "x'00ff'", "nested": f"'{'[' * 200_000}'"}[how]
        with closing(sqlite3.connect(account, isolation_level=None)) as connection:
            connection.execute(f"UPDATE charges SET body = {body} WHERE number = 3")  # noqa: S608
    before = account.read_bytes()
    for words in (["budget", f"account={account}"], fit("two"), fit("two", *CAP)):
        error = refused(capsys, *words)
        assert f"the account {account} is damaged" in error
        assert "a new account would not know it" in error
    assert account.read_bytes() == before
    assert not (tmp_path / "two").exists()


def test_a_missing_file_is_what_is_complained_of(fit, capsys):
    assert "no such file" in refused(capsys, *fit("x", data="none.csv"))


def test_a_refused_budget_reads_no_record(files, fit, capsys, monkeypatch):
    assert run(fit("one", *CAP, "budget.epsilon=2")) == 0
    from synthdp.sets import record_files

    monkeypatch.setattr(record_files, "read", lambda *_, **__: pytest.fail("a record was read"))
    assert "is left" in refused(capsys, *fit("two"))


def test_budget_makes_an_account_and_changes_its_cap_only_when_told_to(capsys, tmp_path):
    account = f"account={tmp_path / 'a'}"
    assert "nothing has been fitted yet" in refused(capsys, *["budget", account])
    assert shown(capsys, account, *CAP)["left"] == {"epsilon": 2.0, "delta": 1e-5}
    other = ["account.cap.epsilon=3", "account.cap.delta=1e-5"]
    assert "account.change_cap=true" in refused(capsys, *["budget", account, *other])
    said = shown(capsys, account, *other, "account.change_cap=true", "account.by=the board")
    assert said["cap"]["epsilon"] == 3.0
    assert (said["changes"][-1]["kind"], said["changes"][-1]["by"]) == ("cap", "the board")


def test_where_accounts_of_named_sets_are(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SYNTHDP_HOME", str(tmp_path / "ours"))
    assert shown(capsys, "data=meps", *CAP)["account"] == str(tmp_path / "ours" / "accounts" / "meps.account")
    monkeypatch.delenv("SYNTHDP_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    assert home() == tmp_path / "share" / "synthdp"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home() == tmp_path / ".local" / "share" / "synthdp"


def warned(capsys, words):
    """What the command says on stderr beside doing its work, and what it prints."""
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # the command line shows them
        assert run(words) == 0
    said = capsys.readouterr()
    return [line for line in said.err.splitlines() if "warning" in line], said.out


def cut(ledger):
    """Without its last line that charges something, and what follows it."""
    lines = ledger.read_bytes().splitlines(keepends=True)
    charges = [number for number, line in enumerate(lines) if b'"event"' in line]
    ledger.write_bytes(b"".join(lines[: charges[-1]]))


@pytest.mark.parametrize("where", ["internal", heavy("release")])
def test_a_ledger_without_its_last_line_is_told_by_the_account_or_the_release(fit, tmp_path, capsys, where):
    """Of the internal one the account holds the head; the released copy has its statement beside it."""
    assert run(fit("one")) == 0
    ledger = tmp_path / "one" / where / "ledger.jsonl"
    words = ["epsilon", f"ledger={ledger}", "accountant=pld", "format=json"]
    said, whole = warned(capsys, words)
    assert not said
    cut(ledger)
    (line,), out = warned(capsys, words)
    assert f"{ledger} is not complete, so the true epsilon is larger than its lines give" in line
    assert ("records lines that it does not contain" if where == "internal" else "release beside it") in line
    assert json.loads(out)["epsilon"]["pld"] < json.loads(whole)["epsilon"]["pld"]


def test_without_an_account_the_release_beside_it_tells_of_an_internal_ledger(fit, tmp_path, capsys):
    assert run(fit("one", "account=none")) == 0
    ledger = tmp_path / "one" / "internal" / "ledger.jsonl"
    cut(ledger)
    for words in (["epsilon"], ["calibrate", "epsilon=1"]):
        (line,), _ = warned(capsys, [*words, f"ledger={ledger}"])
        assert "the release beside it was charged for more" in line


def test_a_renamed_copy_of_the_records_is_noticed(files, fit, capsys):
    """Its account is another one, with a budget of its own."""
    assert run(fit("one")) == 0
    (files / "copy.csv").write_bytes((files / "a=b (1).csv").read_bytes())
    (line,), _ = warned(capsys, fit("two", data="copy.csv"))
    assert f"another account knows the same table: {files / 'a=b (1).csv.account'}" in line


def test_a_renamed_copy_does_not_pass_by_a_cap(files, fit, capsys, tmp_path):
    """A re-export under another name is refused before anything is charged, unless it is entered in the capped account."""
    assert run(fit("one", *CAP)) == 0
    (files / "copy.csv").write_bytes((files / "a=b (1).csv").read_bytes())
    capped = files / "a=b (1).csv.account"
    for words in ([], [f"account={tmp_path / 'mine.account'}"]):
        assert f"{capped} is kept for the same table and has a cap" in refused(
            capsys, *fit("two", *words, data="copy.csv")
        )
    assert not (files / "copy.csv.account").exists()
    assert not (tmp_path / "mine.account").exists()
    assert run(fit("two", f"account={capped}", data="copy.csv")) == 0
    assert len(shown(capsys, f"account={capped}")["fits"]) == 2


def test_a_refusal_reads_as_a_sentence(files, fit, capsys):
    assert run(fit("one", *CAP)) == 0
    error = refused(capsys, *fit("two", "budget.epsilon=1.5"))
    assert "the fit asks for epsilon 1.5, delta 1e-06, but only" in error
    assert "only epsilon 1, delta 9e-06 is left" in error
    assert "Its limit is epsilon 2, delta 1e-05; epsilon 1, delta 1e-06 is spent" in error


@pytest.mark.heavy
def test_three_processes_at_once_on_a_budget_for_one(fit):
    command = [sys.executable, "-m", "synthdp"]
    cap = ["account.cap.epsilon=1", "account.cap.delta=1e-5"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    made = [
        subprocess.Popen([*command, *fit(f"run{number}", *cap)], **pipes, env={**os.environ, "OMP_NUM_THREADS": "1"})
        for number in range(3)
    ]
    answers = [process.communicate(timeout=300) for process in made]
    assert sorted(process.returncode for process in made) == [0, 2, 2], answers
    errors = [error for process, (_, error) in zip(made, answers, strict=True) if process.returncode]
    assert all("is left" in error.splitlines()[-1] and "Traceback" not in error for error in errors)


@pytest.mark.parametrize(("generator", "answers"), [heavy(("mst", 1)), ("independent", 0)])
def test_a_stopped_fit_stays_charged_and_goes_on_at_no_further_price(
    fit, files, capsys, monkeypatch, generator, answers
):
    """Stopped while a question was being answered, which was charged, and of which no noise was drawn yet."""
    honest, asked = Sensitive._answer, []

    def stop(*given, **options):
        asked.append(given)
        if len(asked) > answers:
            raise KeyboardInterrupt  # what was asked is charged by then
        return honest(*given, **options)

    words = fit("one", "account.cap.epsilon=1", "account.cap.delta=1e-5")
    words[words.index("generator=independent")] = f"generator={generator}"
    with monkeypatch.context() as patch:
        patch.setattr(Sensitive, "_answer", stop)
        assert run(words) == 130
    data = f"data.path={files / 'a=b (1).csv'}"
    assert shown(capsys, data)["fits"][0]["state"] == "interrupted"
    assert "is left" in refused(capsys, *fit("two"))
    assert run([*words, "resume=true"]) == 0
    said = shown(capsys, data)
    assert [item["state"] for item in said["fits"]] == ["finished"]
    assert said["spent"]["epsilon"] == 1.0
    assert "is left" in refused(capsys, *[*words, "force=true"])
