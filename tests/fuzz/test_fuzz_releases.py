"""Releases: JSON edited with the manifest made anew, arrays of a model changed, and bytes flipped."""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from clinic import make_frame, make_schema, reseal
from fuzzing import edited, flipped, fuzz
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from synthdp import Budget, Synthesizer, load, verify
from synthdp.errors import BadInput

KEPT = Path(__file__).parents[1] / "compat" / "format1" / "releases"
NAMES = (
    "independent",
    "mixture",
    "mst",
    "dpgan-small",
    "ruled",
    "learned",
    "visits",
    "selected",
    "images-independent",
    "classgauss",
)
pytestmark = pytest.mark.fuzz


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("releases")
    made = Synthesizer("mixture", schema=make_schema(), budget=Budget(1.0, 1e-5)).fit(make_frame(60))
    made.save(home / "made")
    for name in NAMES:
        shutil.copytree(KEPT / name, home / name)
    return [home / "made", *(home / name for name in NAMES)]


def use(folder, check):
    release = load(folder)
    with suppress(BadInput):
        release.sample(3, seed=1)
    if check:
        verify(folder)


def tried(folder, name, data, check=False):
    """The release with one file's bytes replaced, then as it was."""
    path = folder / name
    whole = path.read_bytes()
    path.write_bytes(data)
    try:
        if (folder / "manifest.json").exists() and name != "manifest.json":
            reseal(folder)
        use(folder, check)
    finally:
        path.write_bytes(whole)
        if (folder / "manifest.json").exists():
            reseal(folder)


def test_edited_json(folders):
    said = {folder: json.loads((folder / "release.json").read_text("utf-8")) for folder in folders}

    def prop(drawn, check):
        folder, values = drawn
        tried(folder, "release.json", json.dumps(values).encode(), check)

    drawn = st.sampled_from(folders).flatmap(lambda folder: st.tuples(st.just(folder), edited(said[folder])))
    fuzz(prop, drawn=drawn, check=st.sampled_from([False, False, False, True]))


def test_flipped_bytes(folders):
    names = ("release.json", "ledger.jsonl", "model.safetensors", "manifest.json")
    files = [(folder, name) for folder in folders for name in names if (folder / name).exists()]

    def prop(drawn):
        (folder, name), data = drawn
        tried(folder, name, data)

    fuzz(
        prop,
        drawn=st.sampled_from(files).flatmap(lambda at: st.tuples(st.just(at), flipped((at[0] / at[1]).read_bytes()))),
    )


def test_changed_arrays(folders):
    held = {folder: load_file(folder / "model.safetensors") for folder in folders}
    ways = (
        "zero",
        "double",
        "nan",
        "inf",
        "negative",
        "huge",
        "shorter",
        "longer",
        "flat",
        "dtype",
        "gone",
        "added",
        "one",
        "empty",
    )

    def prop(folder, data):
        arrays = dict(held[folder])
        for _ in range(data.draw(st.integers(1, 3))):
            name = data.draw(st.sampled_from(sorted(arrays) or ["x"]))
            arrays.update(changed(data, name, arrays.get(name, np.zeros(2))))
            arrays = {key: np.ascontiguousarray(value) for key, value in arrays.items() if value is not None}
        path = folder / "model.safetensors"
        whole = path.read_bytes()
        try:
            save_file(arrays, path)
            if (folder / "manifest.json").exists():
                reseal(folder)
            use(folder, False)
        finally:
            path.write_bytes(whole)

    def changed(data, name, array):
        how = data.draw(st.sampled_from(ways))
        given = array.astype(float) if how in ("nan", "inf", "huge") and array.dtype.kind in "iub" else array
        place = data.draw(st.integers(0, max(0, given.size - 1)))
        if how in ("nan", "inf", "huge", "negative", "one") and given.size:
            new = given.copy()
            values = {"nan": np.nan, "inf": np.inf, "huge": 1e30, "negative": -1, "one": 1}
            new.reshape(-1)[place] = np.array(values[how]).astype(given.dtype)
            return {name: new}
        kinds = data.draw(st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.uint8, bool, np.float16]))
        news = {
            "zero": lambda: given * 0, "double": lambda: given + given, "shorter": lambda: given[:-1] if given.ndim else given,
            "longer": lambda: np.concatenate([given, given]) if given.ndim else given, "flat": lambda: given.reshape(-1),
            "dtype": lambda: given.astype(kinds), "gone": lambda: None, "empty": lambda: given[:0] if given.ndim else given,
        }  # fmt: skip
        return {f"{name}x": given} if how == "added" else {name: news.get(how, lambda: given)()}

    with np.errstate(all="ignore"):
        fuzz(prop, folder=st.sampled_from(folders), data=st.data())
