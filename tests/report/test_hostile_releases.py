"""Law 30: a release that was made to break its reader is refused in a line, within seconds and little memory."""

import contextlib
import copy
import json
import resource
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from clinic import chained
from safetensors.numpy import load_file, save_file

from synthdp import BadInput, load, verify
from synthdp.cli import run

KEPT = (
    Path(__file__).parents[1] / "compat" / "format1" / "releases"
)  # of a format without a manifest, which a forger needs not make
EVENT = {"type": "Gaussian", "relation": "add_remove", "unit": "record", "noise": 2.0}
MEMORY = 300  # MiB


@pytest.fixture
def hostile(tmp_path):
    """A copy of a release that was kept, and the change that is made to a part of it."""

    def made(name="independent", *, description=None, text=None, tensors=None, header=None, entries=None):
        folder = shutil.copytree(KEPT / name, tmp_path / name)
        path = folder / "release.json"
        if description is not None:
            values = json.loads(path.read_text(encoding="utf-8"))
            description(values)
            path.write_text(json.dumps(values), encoding="utf-8")
        if text is not None:
            path.write_bytes(text)
        if tensors is not None:
            arrays = load_file(folder / "model.safetensors")
            tensors(arrays)
            save_file(arrays, folder / "model.safetensors")
        if header is not None:
            said = json.dumps(header).encode() if not isinstance(header, bytes) else header
            (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(said)) + said + b"\0" * 8)
        if entries is not None:
            values = json.loads(path.read_text(encoding="utf-8"))
            values["statement"]["events"] = entries
            path.write_text(json.dumps(values), encoding="utf-8")
            (folder / "ledger.jsonl").write_text(chained(entries), encoding="utf-8")
        return folder

    return made


def refused(folder, words="", read=load):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput) as error:
        read(folder)
    assert len(str(error.value).splitlines()) == 1
    assert words in str(error.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY * 1024


def test_a_folder_that_is_not_there_or_holds_the_release_is_told_apart(hostile, tmp_path):
    refused(tmp_path / "nowhere", "nowhere: no such folder")
    hostile().rename(tmp_path / "release")
    refused(tmp_path, f"is not a release, but the folder of a fit; give {tmp_path / 'release'}")
    (tmp_path / "file.csv").write_text("a")
    refused(tmp_path / "file.csv", "is not a release: it has no model.safetensors")


def test_text_that_is_no_release(hostile):
    folder = hostile()
    for text, words in (
        (b"[" * 200_000 + b"]" * 200_000, "nested"),
        (b'{"format": ' + b"9" * 4_300 + b"}", "4300 digits"),
        (b'{"format": 1, "format": 1}', "twice"),
        (b'{"format": NaN}', "NaN"),
        (b'["\\ud800"]', "surrogate"),
        (b"\xff", "not JSON"),
        (b"5", "is not a release"),
        (b"{}", "format"),
    ):
        (folder / "release.json").write_bytes(text)
        refused(folder, words)
    with (folder / "release.json").open("wb") as file:
        file.truncate(2 << 30)
    refused(folder, "2,147,483,648 bytes")


def test_on_the_command_line_it_is_one_line_however_long_the_names_are(hostile, capsys):
    folder = hostile(description=lambda values: values["schema"].update({"\x1b[31m" + "x" * 100_000: 1}))
    for command in (["verify"], ["report", f"out={folder}/page"], ["sample", "rows=5", f"out={folder}/rows.csv"]):
        assert run([*command, f"release={folder}"]) == 2
        error = capsys.readouterr().err
        assert len(error.splitlines()) == 1
        assert 100 < len(error) < 3_000
        assert "\x1b" not in error


HUGE = 10**8


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("dpgan-small", "latent", HUGE),
        ("dpgan-small", "hidden", [HUGE]),
        ("dpgan-small", "hidden", [6] * 10_000),
        ("pategan", "latent", HUGE),
        ("dpmerf", "latent", HUGE),
        ("dpmerf", "hidden", [8, HUGE]),
        ("images-dpgan-mlp", "latent", HUGE),
        ("images-dpdm-unet", "hidden", HUGE),
        ("images-dpdm-unet", "depth", HUGE),
        ("images-dpdm-none", "depth", HUGE),
        ("classgauss", "components", HUGE),
        ("images-classgauss", "dimensions", HUGE),
    ],
)
def test_settings_that_would_need_memory_are_compared_with_the_arrays_first(hostile, name, setting, value):
    def change(values):
        values["generator"]["settings"][setting] = values["statement"]["settings"][setting] = value

    refused(hostile(name, description=change))


@pytest.mark.parametrize(
    "event",
    [
        [], "Gaussian", None, 5,
        {}, {"type": []}, {**EVENT, "type": "Nothing"}, {**EVENT, "more": 1},
        {**EVENT, "noise": None}, {**EVENT, "noise": "2"}, {**EVENT, "noise": [2]}, {**EVENT, "noise": True}, {**EVENT, "noise": -1},
        {**EVENT, "noise": 10**30},
        {**EVENT, "unit": 5}, {**EVENT, "unit": ["record"]}, {**EVENT, "relation": "none"}, {**EVENT, "relation": []},
        {**EVENT, "type": "Sampled", "rate": 0.5},
        {"type": "Sampled", "rate": "x", "queries": [EVENT]}, {"type": "Sampled", "rate": 0.5, "queries": EVENT},
        {"type": "Sampled", "rate": 0.5, "queries": [None]}, {"type": "Sampled", "rate": 0.5, "queries": [5]},
        {"type": "Sampled", "rate": 0.5, "queries": [{"type": "Capped", "filter": "zcdp", "bound": 1.0}]},
        {"type": "Selection", "mean": 2.0, "shape": 1.0, "candidates": [EVENT]},
        {"type": "Selection", "mean": 2.0, "shape": 1.0, "candidates": [[{"event": EVENT, "count": None}]]},
        {"type": "Selection", "mean": 2.0, "shape": 1.0, "candidates": []},
        {"type": "Capped", "filter": 5, "bound": 1.0}, {"type": "Threshold", "noise": 1.0, "delta": 0.1, "categories": 1.5},
    ],
    ids=str,
)  # fmt: skip
def test_events_that_are_none(hostile, event):
    refused(hostile(entries=[{"event": event, "count": 1}]))


def test_an_event_that_hides_nothing_needs_no_grid(hostile):
    refused(hostile(entries=[{"event": {**EVENT, "type": "Laplace", "noise": 1e-12}, "count": 1}]), "epsilons", verify)


@pytest.mark.parametrize("count", [None, "1", 1.0, 1e300, -1, True, 10**12, [1]], ids=str)
def test_counts_that_are_none(hostile, count):
    refused(hostile(entries=[{"event": EVENT, "count": count}]), "count")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[" * 200_000, "line 1: refused, because it is nested"),
        ("{}", "line 1 of the ledger is not an event"),
        ("[]", "line 1 of the ledger is not an event"),
        ('{"kept":true,"previous":"","hash":""}', "line 1 of the ledger is not an event"),
        (json.dumps({"event": EVENT, "count": 1, "previous": 5, "hash": None}), "altered"),
        (chained([{"unused": 7}]).strip(), "line 1 of the ledger is not an event with a count"),
        (chained([{"count": None}]).strip(), "line 1 of the ledger is not an event with a count"),
        ('{"event":{"type":"Gaussian","noise":NaN},"count":1,"previous":"","hash":""}', "NaN"),
    ],
)  # fmt: skip
def test_lines_of_a_ledger_that_are_none(hostile, line, words):
    folder = hostile()
    (folder / "ledger.jsonl").write_text(line + "\n", encoding="utf-8")
    refused(folder, words)


def test_an_infinite_bound_of_a_ledger_stays_readable():
    """What synthdp writes of a fit without noise is no JSON, and is read all the same."""
    assert "Infinity" in (KEPT / "unprotected" / "ledger.jsonl").read_text(encoding="utf-8")
    assert verify(KEPT / "unprotected").statement.epsilon == float("inf")


DISTRIBUTIONS = [
    ("independent", "column.0"),
    ("mixture", "weights"),
    ("mixture", "label"),
    ("mixture", "column.sex"),
    ("mixture", "within.0"),
    ("mst", "table.0"),
    ("mst", "within.0"),
    ("classgauss", "labels"),
    ("classgauss", "weights"),
    ("dpgan-small", "labels"),
    ("dpmerf", "labels"),
    ("images-dpgan-mlp", "labels"),
    ("images-dpdm-unet", "start/labels"),
]


@pytest.mark.parametrize(("name", "array"), DISTRIBUTIONS)
def test_arrays_that_are_no_distributions(hostile, name, array):
    folder = hostile(name)
    arrays = load_file(folder / "model.safetensors")
    load(folder)
    given = arrays[array]
    for wrong in (given * 2, given * 0, given - 1, given * np.nan, given.astype(bool), given[..., :0]):
        save_file({**arrays, array: np.ascontiguousarray(wrong)}, folder / "model.safetensors")
        with pytest.raises(BadInput):
            load(folder)
    if given.shape[-1] > 1:
        wrong = given.copy()
        wrong[..., 0] -= 2
        wrong[..., 1] += 2  # adds up to 1, and is below 0
        save_file({**arrays, array: wrong}, folder / "model.safetensors")
        with pytest.raises(BadInput):
            load(folder)


def test_numbers_that_no_float32_holds(hostile):
    def change(arrays):
        arrays["out.weight"] = np.full(arrays["out.weight"].shape, 1e300)

    refused(hostile("dpgan-small", tensors=change), "out.weight")


@pytest.mark.parametrize(
    "header",
    [
        {"column.0": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]}},
        {"column.0": {"dtype": "F64", "shape": [2**62, 2**62], "data_offsets": [0, 8]}},
        {"column.0": {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]}},
        {"column.0": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}},
        {"column.0": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}},
        {"column.0": {"dtype": "X", "shape": [1], "data_offsets": [0, 8]}},
        {f"{'a' * 1000}{place}": {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for place in range(2000)},
        b"[" * 100_000 + b"]" * 100_000,
        b"{}",
        b"",
    ],
    ids=str,
)
def test_headers_of_a_model_that_lie(hostile, header):
    refused(hostile(header=header))


@pytest.mark.heavy
def test_no_value_in_any_place_of_a_release_escapes_as_another_error(hostile):
    """A little of what a fuzzer does: every place that is not under `statement`, which is held against the rest."""
    folder = hostile("dpgan-small")
    whole = json.loads((folder / "release.json").read_text(encoding="utf-8"))

    def places(value, at=()):
        yield at
        if isinstance(value, dict):
            for name in value:
                yield from places(value[name], (*at, name))

    tried = 0
    for at in [at for at in places({**whole, "statement": 0}) if at]:
        for wrong in (None, -1, 10**30, "inf", [], {}, [[1]]):
            changed = copy.deepcopy(whole)
            inside = changed
            for step in at[:-1]:
                inside = inside[step]
            inside[at[-1]] = wrong
            (folder / "release.json").write_text(json.dumps(changed), encoding="utf-8")
            tried += 1
            with contextlib.suppress(BadInput):
                load(folder)
    assert tried > 300
