"""Pictures on the command line: from a folder or an .npz file to a release, and to pictures again."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image as Pillow
from sweeps import sweep

from synthdp import Budget, Synthesizer, api, evaluate, load
from synthdp.cli import evaluations, run
from synthdp.planning import planned
from synthdp.report import information_loss
from synthdp.schema.schema import Schema
from synthdp.sets import named, record_files

SIDES = ["none", "left", "right"]


def ward(where, rows, seed=0):
    """A folder of 16-bit pictures of 12x12 pixels: bright on the left, on the right, or nowhere."""
    rng = np.random.default_rng(seed)
    where.mkdir()
    lines = ["file,patient,finding"]
    for row in range(rows):
        found = int(rng.integers(3))
        picture = rng.integers(1000, 4000, (12, 12))
        if found:
            picture[:, slice(0, 6) if found == 1 else slice(6, 12)] += 9000
        Pillow.fromarray(picture.astype(np.uint16)).save(where / f"{row}.png")
        lines.append(f"{row}.png,p{row},{SIDES[found]}")
    (where / "labels.csv").write_text("\n".join(lines) + "\n")
    return where


def made(folder):
    """A ward and its schema."""
    image = {"kind": "image", "height": 6, "width": 6, "window": [0, 16000], "resize": "fit"}
    columns = {
        "patient": {"kind": "identifier"},
        "image": image,
        "finding": {"kind": "categorical", "categories": SIDES},
    }
    schema = {
        "name": "ward",
        "unit": "patient",
        "max_records_per_unit": 1,
        "units": 60,
        "targets": ["finding"],
        "declared_by": "us",
        "columns": columns,
    }
    Schema.from_dict(schema).save(folder / "schema.yaml")
    ward(folder / "ward", 60)
    return folder


@pytest.fixture
def files(tmp_path):
    return made(tmp_path)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """The same, with a release of it in run/."""
    folder = made(tmp_path_factory.mktemp("fitted"))
    assert fit(folder, "budget.epsilon=50") == 0
    return folder


def fit(files, *more, data="ward", out="run"):
    words = [f"data.path={files / data}", f"data.schema={files / 'schema.yaml'}", "generator=independent"]
    return run(["fit", *words, f"out={files / out}", "budget.delta=1e-5", *more])


def refused(capsys, status):
    error = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("sample:")]
    assert status == 2
    assert len(error) == 1, error
    return error[0]


def test_from_a_folder_to_pictures_and_to_their_evaluation(fitted, capsys, monkeypatch):
    assert (fitted / "ward.account").is_file()
    release = fitted / "run" / "release"
    schema = record_files.as_written(load(release).schema)
    expected = load(release).sample(40, seed=1)
    assert np.stack(expected["image"]).max() > 100
    ward(fitted / "test", 30, seed=1)
    data = [f"data.train={fitted / 'ward'}", f"data.test={fitted / 'test'}", f"data.schema={fitted / 'schema.yaml'}"]
    judged = []

    def judge(synthetic, train, test, schema, **settings):
        judged.append((synthetic, train, test))
        return {"targets": {}, "fidelity": {}, "not_computed": []}

    monkeypatch.setattr(evaluate, "evaluate", judge)
    monkeypatch.setattr(evaluate, "write", lambda *_, **__: None)
    monkeypatch.setattr(evaluations, "headline", lambda _: [])
    for name in ("made.npz", "made"):
        assert run(["sample", f"release={release}", "rows=40", f"out={fitted / name}", "seed=1"]) == 0
        assert "40 synthetic records in" in capsys.readouterr().out
        out = fitted / f"judged-{name}"
        assert run(["evaluate", f"synthetic={fitted / name}", *data, f"out={out}"]) == 0
        (back,), train, test = judged[-1]
        schema.validate(back)
        np.testing.assert_array_equal(np.stack(back["image"]), np.stack(expected["image"]))  # no window again
        assert back["finding"].astype(str).tolist() == expected["finding"].astype(str).tolist()
        assert (len(train), len(test)) == (60, 30)
        assert np.stack(train["image"]).shape == (60, 6, 6)
        assert 16 <= np.stack(train["image"]).min() < np.stack(train["image"]).max() <= 208  # by the window
    assert (fitted / "made" / "labels.csv").read_text().startswith('"file","patient","finding"\n"000000001.png"')


def test_many_large_pictures_are_drawn_in_parts(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(api, "PIXELS", 7 * 36)
    release = load(fitted / "run" / "release")
    parts = list(release.stream(20, seed=1))
    assert [len(part) for part in parts] == [7, 7, 6]
    assert record_files.write(parts, tmp_path / "made", release.schema) == 20
    assert len(list((tmp_path / "made").glob("*.png"))) == 20


@pytest.mark.heavy
def test_an_account_knows_its_folder(files, capsys):
    cap = ["account.cap.epsilon=3", "account.cap.delta=1e-4"]
    assert fit(files, *cap) == 0
    (files / "ward" / "notes.txt").write_text("read me")
    assert fit(files, out="again") == 0
    (files / "ward" / "0.png").write_bytes((files / "ward" / "1.png").read_bytes())
    capsys.readouterr()
    assert "account.add_version=true" in refused(capsys, fit(files, out="third"))
    assert not (files / "third").exists()
    assert fit(files, "account.add_version=true", out="third") == 0
    capsys.readouterr()
    assert "limit is epsilon 3" in refused(capsys, fit(files, out="fourth"))


@pytest.mark.heavy
def test_names_that_hold_no_pictures_are_refused_before_anything_is_written(fitted, tmp_path, capsys, output_of):
    files = tmp_path
    capsys.readouterr()
    sample = ["sample", f"release={fitted / 'run' / 'release'}", "rows=5"]
    for name in ("made.csv", "made.parquet", "made.csv.gz", "made.zip"):
        error = refused(capsys, run([*sample, f"out={files / 'new' / name}"]))
        assert ".npz" in error
        assert "folder" in error
    assert not (files / "new").exists()
    (files / "mine").mkdir()
    (files / "mine" / "thesis.txt").write_text("a year of work")
    assert "force=true" in refused(capsys, run([*sample, f"out={files / 'mine'}"]))
    assert "synthdp did not write" in refused(capsys, run([*sample, f"out={files / 'mine'}", "force=true"]))
    output_of(*sample, f"out={files / 'new' / 'made'}/")
    assert "force=true" in refused(capsys, run([*sample, f"out={files / 'new' / 'made'}"]))
    assert run(["sample", *sample[1:2], "rows=2", f"out={files / 'new' / 'made'}", "force=true"]) == 0
    assert len(list((files / "new" / "made").iterdir())) == 3


@pytest.mark.parametrize("option", ["audit.canaries=5", "audit.records=5"])
def test_canaries_are_for_tables(files, capsys, option):
    assert "pictures" in refused(capsys, fit(files, option))
    assert not (files / "run").exists()
    assert not (files / "ward.account").exists()


@pytest.mark.heavy
def test_bad_folders_get_one_line_and_leave_nothing(files, capsys):
    (files / "ward" / "7.png").write_bytes(b"CANARY" * 40)
    error = refused(capsys, fit(files))
    assert "7.png: cannot be read" in error
    assert "CANARY" not in error
    (files / "empty").mkdir()
    assert "has no pictures" in refused(capsys, fit(files, data="empty"))
    assert "no such file or folder" in refused(capsys, fit(files, data="nowhere"))
    assert "pictures are in a file" in refused(capsys, fit(files, data="schema.yaml"))
    assert not (files / "run").exists()


def test_labels_that_the_schema_does_not_know_are_never_shown(files, capsys):
    path = files / "ward" / "labels.csv"
    path.write_text(path.read_text().replace(",left", ",CANARY"))
    error = refused(capsys, fit(files))
    assert "column 'finding'" in error
    assert "not one of the declared categories" in error
    assert "CANARY" not in error
    assert fit(files, "invalid=clamp") == 0


def test_a_schema_is_drafted_from_pictures(files, capsys, output_of):
    assert run(["schema", f"path={files / 'ward'}", f"out={files / 'draft.yaml'}"]) == 0
    drafted = Schema.load(files / "draft.yaml")
    assert (drafted.image.height, drafted.image.width) == (12, 12)
    assert drafted.image.review
    assert drafted.image.window is None  # of the records
    assert drafted.learned == [("finding", "categories")]
    seen = Schema.load(files / "draft.seen.internal.yaml")
    assert seen.image.window is not None
    assert seen.column("finding").categories == ("left", "none", "right")
    np.savez(files / "x.npz", image=np.zeros((3, 5, 4), np.uint8), finding=np.array(["a", "b", "a"]))
    capsys.readouterr()
    text = output_of("schema", f"path={files / 'x.npz'}").out
    assert "height: 5" in text


@pytest.mark.heavy
def test_the_embedded_pictures(tmp_path, output_of):
    text = output_of("data").out
    assert all(name in text for name in ("digits", "mnist", "pneumoniamnist", "mednist", "usps"))
    assert run(["fit", "data=digits", "generator=independent", f"out={tmp_path / 'a'}"]) == 0
    assert run(["sample", f"release={tmp_path / 'a' / 'release'}", "rows=100", f"out={tmp_path / 'b.npz'}"]) == 0
    schema = named.schema_of("digits")
    schema.validate(record_files.read(tmp_path / "b.npz", schema))


def pictures(units, side=32, **facts):
    columns = {
        "patient": {"kind": "identifier"},
        "image": {"kind": "image", "height": side, "width": side},
        "finding": {"kind": "categorical", "categories": SIDES},
    }
    told = {"unit": "patient", "max_records_per_unit": 4, "units": units, "targets": ["finding"], "declared_by": "us"}
    return Schema.from_dict({"columns": columns, **told, **facts})


def drowned(name, schema, epsilon, **settings):
    return planned(Synthesizer(name, schema=schema, budget=Budget(epsilon, 1e-5), **settings)).drowned


FROM_GAUSSIANS = ["classgauss", "dpgan_images", "kernel_teachers_images", "dpdm"]


@pytest.mark.parametrize(
    ("epsilon", "smaller", "name"),
    sweep(
        [(*case, name) for case in ((3, True), (1, False)) for name in FROM_GAUSSIANS],
        lambda case: case == (3, True, "classgauss"),
    ),
)
def test_a_plan_says_when_noise_will_hide_pictures_and_what_helps(tmp_path, capsys, output_of, name, epsilon, smaller):
    """1,204 pictures of 384 patients gave noise, and nobody had said so. Each remedy that is named must be one."""
    pictures(384).save(tmp_path / "schema.yaml")
    words = [
        "plan",
        f"data.path={tmp_path / 'a.npz'}",
        f"data.schema={tmp_path / 'schema.yaml'}",
        f"generator={name}",
        "budget.delta=1e-5",
        "account=none",
    ]
    assert run([*words, f"budget.epsilon={epsilon}"]) == 0
    (said,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("drowned    Noise is likely")]
    assert "(384 are declared)" in said
    units = int(re.search(r"about ([0-9,]+) patients", said)[1].replace(",", ""))
    assert drowned(name, pictures(units), epsilon) < 1 < drowned(name, pictures(int(0.8 * units)), epsilon)
    enough = float(re.search(r"or epsilon ([0-9.]*[0-9])", said)[1])
    assert drowned(name, pictures(384), enough) < 1 < drowned(name, pictures(384), 0.7 * enough)
    proposed = re.search(r"or pictures of ([0-9]+) x ([0-9]+) ", said)
    assert (proposed is not None) == smaller
    if proposed is not None:
        assert drowned(name, pictures(384, side=int(proposed[1])), epsilon) < 1
    pictures(4000).save(tmp_path / "schema.yaml")
    assert "Noise is likely" not in output_of(*words, f"budget.epsilon={epsilon}").out


def test_noise_is_said_to_hide_pictures_where_the_start_is_class_gaussians():
    assert drowned("classgauss", pictures(384), 1) > 1
    for name, start in (("dpgan_images", {"start": "label", "architecture": "conv"}), ("dpdm", {"start": "none"})):
        assert drowned(name, pictures(384), 1, **start) == 0
    assert drowned("classgauss", pictures("learn"), 1) == 0, "nobody knows of how many"
    table = {"columns": {"a": {"kind": "boolean"}, "b": {"kind": "boolean"}}, "units": 100, "declared_by": "us"}
    assert drowned("classgauss", Schema.from_dict(table), 0.1) == 0


def test_a_plan_of_pictures_by_their_values_alone_ends():
    """It ended with an IndexError: a picture has many values, and one name."""
    found = planned(Synthesizer("independent", schema=pictures(384, side=6), budget=Budget(1, 1e-5)))
    assert [table.columns for table in found.tables] == [("image",), ("finding",)]


@pytest.mark.parametrize(("units", "epsilon", "hidden"), [(100, 0.5, True), (2000, 3, False)])
def test_the_statement_says_what_noise_hid_of_pictures(tmp_path, units, epsilon, hidden):
    """The synthetic pictures' means show which side is bright, or noise alone, as it was said."""
    rng, side = np.random.default_rng(1), 8
    label = rng.integers(3, size=units)
    shown = rng.integers(20, 80, (units, side, side))
    shown[label == 1, :, : side // 2] += 150
    shown[label == 2, :, side // 2 :] += 150
    named = [SIDES[each] for each in label]
    frame = pd.DataFrame({"patient": range(units), "image": list(shown.astype(np.uint8)), "finding": named})
    budget = Budget(epsilon, 1e-5)
    release = Synthesizer("classgauss", schema=pictures(units, side), budget=budget).fit(frame, seed=2)
    assert (release.statement.lost.drowned >= 1) == hidden
    lines = [line for line in information_loss.brief(release.statement) if "Noise is likely to hide" in line]
    assert len(lines) == hidden
    made = release.sample(600, seed=1)
    means = [np.stack(made["image"][made["finding"] == each]).mean(0) for each in SIDES[1:]]
    truth = np.stack([shown[label == each].mean(0) for each in (1, 2)])
    alike = np.corrcoef((means[0] - means[1]).ravel(), (truth[0] - truth[1]).ravel())[0, 1]
    assert (alike < 0.5) if hidden else (alike > 0.9)
    release.save(tmp_path / "release")
    loaded = load(tmp_path / "release")
    assert loaded.statement.lost == release.statement.lost
    table = Schema.from_dict({"columns": {"a": {"kind": "boolean"}}})
    assert loaded.statement.lost.matches(pictures(units, side), (), clamped=False)
    alone = dataclasses.replace(loaded.statement.lost, unlinked=False, hidden=())
    assert not alone.matches(table, None, clamped=False), "which has no pictures"
    assert dataclasses.replace(alone, drowned=0.0).matches(table, None, clamped=False)


def test_a_fit_of_pictures_says_what_comes_next(files, capsys):
    assert fit(files, "budget.epsilon=50", "account=none") == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == (
        f"next       synthdp sample release={files / 'run' / 'release'} rows=60 out=synthetic.npz"
    )


def test_the_parts_of_a_split_are_not_windowed_again(tmp_path, capsys):
    """A fit with the schema of the raw pictures applied their window to the parts once more."""
    raw = np.random.default_rng(3).integers(0, 1000, (40, 6, 6)).astype(np.uint16)
    np.savez(tmp_path / "raw.npz", image=raw, finding=np.array(["left", "right"] * 20))
    image = {"kind": "image", "height": 6, "width": 6, "window": [100, 900]}
    columns = {"image": image, "finding": {"kind": "categorical", "categories": ["left", "right"]}}
    schema = Schema.from_dict({"columns": columns, "units": 40, "declared_by": "us"})
    schema.save(tmp_path / "schema.yaml")
    assert (
        run(["split", f"path={tmp_path / 'raw.npz'}", f"schema={tmp_path / 'schema.yaml'}", f"out={tmp_path / 'p'}"])
        == 0
    )
    said, copy = capsys.readouterr().out, tmp_path / "schema_train.yaml"
    assert f"would apply them again: for fit and evaluate, {copy} is a copy with units: 32 and without window" in said
    parts = [record_files.read(tmp_path / "p" / f"{part}.npz", Schema.load(copy)) for part in ("train", "held_out")]
    whole = record_files.read(tmp_path / "raw.npz", schema)
    shown = [sorted(each.tobytes() for each in frame["image"]) for frame in (whole, pd.concat(parts))]
    assert shown[0] == shown[1]
    assert f"data.schema={copy}" in said.splitlines()[-1]
