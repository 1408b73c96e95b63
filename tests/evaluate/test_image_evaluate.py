"""The evaluation of images as a whole: its form, its page, and records that define little."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
from clinic import make_pictures, picture_schema
from scipy.stats import binom
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_info

from synthdp import Schema
from synthdp.cli.evaluations import headline
from synthdp.errors import BadInput
from synthdp.evaluate import evaluate, images, write
from synthdp.evaluate.images import feature_networks, image_run
from synthdp.evaluate.images.image_page import STAMP

pytestmark = pytest.mark.heavy  # a network of features is trained

MODELS = {"lr", "mlp", "cnn"}
ATTACK = "attacks.membership_distance"
CLOUDS = {"fid", "kid", "precision", "recall", "density", "coverage"}


@pytest.fixture
def quick(monkeypatch):
    """Networks of few steps, for tests that judge no accuracy."""
    monkeypatch.setattr(feature_networks, "LEAST_STEPS", 30)


@pytest.fixture(scope="module")
def digits():
    """Schema, training and test records of scikit-learn's digits."""
    found = load_digits()
    schema = Schema.from_dict(
        {
            "name": "digits",
            "targets": ["digit"],
            "columns": {
                "image": {"kind": "image", "height": 8, "width": 8},
                "digit": {"kind": "categorical", "categories": [str(i) for i in range(10)]},
            },
        }
    )
    pixels = np.rint(found.images * (255 / 16)).astype(np.uint8)
    frame = pd.DataFrame({"image": pd.Series(list(pixels), dtype=object), "digit": found.target.astype(str)})
    order = np.random.default_rng(0).permutation(len(frame))
    return schema, frame.iloc[order[:1400]].reset_index(drop=True), frame.iloc[order[1400:]].reset_index(drop=True)


def blurred(frame, amount, seed=0):
    """Rows of the frame drawn again, with noise on their pixels: a synthetic set that is good and not perfect."""
    rng = np.random.default_rng(seed)
    out = frame.iloc[rng.integers(0, len(frame), len(frame))].reset_index(drop=True)
    noisy = [np.clip(cell + rng.normal(0, amount, cell.shape), 0, 255).astype(np.uint8) for cell in out["image"]]
    return out.assign(image=pd.Series(noisy, dtype=object))


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def result(digits, told):
    schema, train, test = digits

    def progress(*step):
        told.append(step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_networks, "LEAST_STEPS", 250)
        return evaluate(blurred(train, 60), train, test, schema, seeds=1, progress=progress)


def test_the_frozen_form(result):
    assert set(result) == {
        "schema_version", "kind", "targets", "fidelity", "neighbours", "shares", "columns", "pictures", "attacks",
        "not_computed", "about",
    }  # fmt: skip
    assert (result["schema_version"], result["kind"]) == (2, "images")
    entry = result["targets"]["digit"]
    assert set(entry) == {"tstr", "trtr", "floors", "average", "classes", "rows"}
    for arm in ("tstr", "trtr"):
        assert set(entry[arm]) == MODELS
        for scores in entry[arm].values():
            assert set(scores) == {"accuracy", "balanced_accuracy", "auroc", "recall"}
            assert set(scores["recall"]) == set(entry["classes"])
            assert scores["accuracy"]["n"] == 1
    assert set(result["fidelity"]) == {*CLOUDS, "features", "tvd_1way", "intensities", "mean_pictures"}
    assert "trained on the real training records to predict digit" in result["fidelity"]["features"]
    assert result["not_computed"] == []
    json.dumps(result, allow_nan=False)


def test_ceilings_stand_above_synthetic_above_floors(result):
    entry = result["targets"]["digit"]
    floor = entry["floors"]["majority"]["accuracy"]["mean"]
    for model in MODELS:
        made, ceiling = (entry[arm][model]["accuracy"]["mean"] for arm in ("tstr", "trtr"))
        assert ceiling > 0.95
        assert 5 * floor < made < ceiling
    for metric in ("fid", "kid", "intensities"):
        assert result["fidelity"][metric]["mean"] > result["fidelity"][metric]["floor"]["mean"]
    for metric in ("precision", "coverage"):
        assert result["fidelity"][metric]["mean"] < result["fidelity"][metric]["floor"]["mean"]


def test_progress_is_told(told):
    assert told[0][0] == 0
    assert [step for step, _, _ in told] == sorted(step for step, _, _ in told)
    assert {total for _, total, _ in told} == {11}
    assert told[-1] == (11, 11, "done")
    assert "digit: trained on real, CNN" in [label for _, _, label in told]


@pytest.mark.heavy
def test_the_page_holds_the_figures_and_nothing_from_elsewhere(result, tmp_path):
    data, page = write(result, tmp_path / "new" / "out")
    document = json.loads(data.read_text(encoding="utf-8"))
    assert [answer["question"] for answer in document.pop("answers")] == ["Can I use it?", "Can I share it?"]
    assert document == result
    assert sorted(path.name for path in data.parent.iterdir()) == ["evaluation.html", "evaluation.json"]
    text = page.read_text(encoding="utf-8")
    body = text[text.index("<body>") :]
    assert body.count(STAMP) == 2
    assert f'@top-center {{ content: "{STAMP}"' in text
    assert "contains statistics of real records. Do not release" in STAMP
    assert body.count("<script>") == 1
    assert not re.findall(r"<script |<link|https?://(?!www\.w3\.org)", body)
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'<img[^>]* src="([^"]*)"', body))
    assert len(re.findall("<img", body)) == 10 * 2 * 2 + 4 * 2
    assert all('alt="' in tag for tag in re.findall(r"<img[^>]*>", body))
    entry = result["targets"]["digit"]
    for arm in ("tstr", "trtr"):
        for scores in entry[arm].values():
            assert f"{scores['accuracy']['mean']:.3f}" in body
    for metric in CLOUDS:
        assert f"{result['fidelity'][metric]['mean']:.3f}" in body
        assert f"{result['fidelity'][metric]['floor']['mean']:.3f}" in body
    assert result["fidelity"]["features"].split("'")[0] in body


def test_the_headline_names_accuracy_beside_ceiling_and_floor(result):
    lines = headline(result)
    entry = result["targets"]["digit"]
    cnn = next(line for line in lines if "CNN" in line)
    for figure in (entry["tstr"]["cnn"], entry["trtr"]["cnn"], entry["floors"]["majority"]):
        assert f"{figure['accuracy']['mean']:.3f}" in cnn
    assert any(line.startswith("FID") and "Inception" in line for line in lines)


@pytest.mark.heavy
def test_accuracies_are_those_of_the_evaluation(quick):
    schema = picture_schema()
    made, test = make_pictures(200, 1), make_pictures(100, 2)
    found = images.accuracies(made, test, schema, seeds=2, models=("cnn", "lr"))
    whole = evaluate(made, make_pictures(100, 3), test, schema, seeds=2, models=("cnn", "lr"))
    tstr = whole["targets"]["finding"]["tstr"]
    assert found == {model: tstr[model]["accuracy"]["mean"] for model in ("cnn", "lr")}


@pytest.fixture
def ward(quick):
    """A small schema with patients, and its three sets."""
    return picture_schema(), make_pictures(80, 1), make_pictures(80, 2), make_pictures(60, 3)


def reasons(result):
    json.dumps(result, allow_nan=False)
    return {entry["metric"]: entry["reason"] for entry in result["not_computed"]}


def test_no_synthetic_records(ward, tmp_path):
    schema, made, train, test = ward
    result = evaluate(made[:0], train, test, schema, seeds=1)
    assert set(reasons(result)) == {"fidelity", "tstr.finding", ATTACK}
    entry = result["targets"]["finding"]
    assert entry["tstr"] == {}
    assert set(entry["trtr"]) == MODELS
    assert "Not computed" in write(result, tmp_path)[1].read_text(encoding="utf-8")
    assert headline(result)


@pytest.mark.parametrize("role", [1, 2])
def test_no_real_records(ward, role, tmp_path):
    schema, *frames = ward
    frames[role] = frames[role][:0]
    result = evaluate(*frames, schema, seeds=1)
    assert set(reasons(result)) == {"fidelity", "utility.finding", ATTACK}
    assert result["targets"] == {}
    write(result, tmp_path)


@pytest.mark.heavy
def test_one_synthetic_class(ward, tmp_path):
    schema, made, train, test = ward
    result = evaluate(made[made["finding"] == "left"], train, test, schema, seeds=1)
    found = reasons(result)
    assert "lack 2 of the 3 classes" in found["tstr.finding.absent_classes"]
    for scores in result["targets"]["finding"]["tstr"].values():
        assert scores["recall"]["left"]["mean"] == 1
        assert scores["balanced_accuracy"]["mean"] == pytest.approx(1 / 3)
    write(result, tmp_path)


def test_one_real_class_leaves_features_of_pixels(ward, tmp_path):
    schema, made, train, test = ward
    result = evaluate(made, train.assign(finding="left"), test.assign(finding="left"), schema, seeds=1)
    assert "hold one class of the target" in reasons(result)["utility.finding"]
    assert "principal components" in result["fidelity"]["features"]
    assert {"kid", "coverage"} <= set(result["fidelity"])
    write(result, tmp_path)


@pytest.mark.heavy
@pytest.mark.parametrize("constant", ["synthetic", "all"])
def test_constant_pictures(ward, constant, tmp_path):
    schema, *frames = ward
    for i in range(1 if constant == "synthetic" else 3):
        flat = pd.Series([np.full((8, 8), 9, dtype=np.uint8)] * len(frames[i]), dtype=object, index=frames[i].index)
        frames[i] = frames[i].assign(image=flat)
    result = evaluate(*frames, schema, seeds=1)
    near = result["neighbours"]
    assert near["distinct"]["synthetic"] == 1
    if constant == "all":
        assert set(reasons(result)) >= CLOUDS
        assert near["copies"] == {"synthetic": 80, "test": 60}
        assert near["pixels"]["closer_to_train"]["mean"] == 0.5
    else:
        # 60 records do not fill a covariance of 64 features
        assert set(reasons(result)) == {"fid"}
        assert result["fidelity"]["coverage"]["mean"] < result["fidelity"]["coverage"]["floor"]["mean"]
    write(result, tmp_path)


@pytest.mark.heavy
def test_copies_of_training_records_are_told(ward, tmp_path):
    schema, _, train, test = ward
    result = evaluate(train, train, test, schema, seeds=1, models=("lr",))
    assert result["neighbours"]["copies"] == {"synthetic": 80, "test": 0}
    assert result["neighbours"]["pixels"]["closer_to_train"]["mean"] > 0.7
    assert "Training records are copied" in write(result, tmp_path)[1].read_text(encoding="utf-8")
    assert any(line.startswith("copies") for line in headline(result))


@pytest.mark.heavy
def test_copies_are_attacked_and_the_page_says_so(ward, tmp_path):
    schema, _, train, test = ward
    claim = {"epsilon": 0.5, "delta": 1e-5, "unit": "record"}
    result = evaluate(train, train, test, schema, seeds=1, models="quick", claim=claim)
    (found,) = result["attacks"]
    assert found["verdict"] == "concern"
    assert found["figures"][0]["value"] > 0.9
    assert found["figures"][0]["bound"] < 0.7
    assert result["about"]["claim"] == claim
    page = write(result, tmp_path)[1].read_text(encoding="utf-8")
    for item in found["figures"]:
        for end in (item["value"], *item["interval"], item["baseline"], item["bound"]):
            assert f"{end:.3f}" in page
    assert found["source"].split(",")[0] in page
    assert 'href="#attacks"' in page
    assert "No: the guarantee does not hold for these records" in page
    assert any(line.startswith("attacks") for line in headline(result))
    without = evaluate(train, train, test, schema, seeds=1, models="quick", attacks=False)
    assert "attacks" not in without
    write(without, tmp_path)


@pytest.mark.heavy
def test_pictures_that_know_nothing_of_their_training_records_pass(quick):
    schema = picture_schema()
    alarms = 0
    for seed in range(4):
        frames = [make_pictures(200, 10 * seed + place) for place in range(3)]
        found = evaluate(*frames, schema, seeds=1, models="quick")["attacks"]
        alarms += sum(attack["verdict"] == "concern" for attack in found)
    assert alarms <= binom.ppf(0.9999, 4, 0.025)


@pytest.mark.heavy
def test_patients_are_attacked_not_their_pictures(quick):
    """The schema of mixed labels names patients; each has three pictures here."""
    made, train, test = (mixed_frame(rows, seed) for rows, seed in ((150, 1), (150, 2), (150, 3)))
    train, test = (
        frame.assign(patient=[f"{side}{i // 3}" for i in range(150)]) for side, frame in (("a", train), ("b", test))
    )
    found = evaluate(made, train, test, mixed_schema(), seeds=1, models="quick")
    assert "50 training and as many held-out records" in found["attacks"][0]["text"]
    found = evaluate(made, train, train, mixed_schema(), seeds=1, models="quick")
    assert "every patient of the test records has training records too" in reasons(found)[ATTACK]


def test_images_keep_to_the_threads_that_they_are_given(ward, monkeypatch):
    seen, before = [], torch.get_num_threads()
    marginals = image_run._marginals

    def watched(*args, **kwargs):
        seen.append((torch.get_num_threads(), {pool["num_threads"] for pool in threadpool_info()}))
        return marginals(*args, **kwargs)

    monkeypatch.setattr(image_run, "_marginals", watched)
    schema, *frames = ward
    one, two = (evaluate(*frames, schema, seeds=1, models="quick", jobs=jobs) for jobs in (1, 2))
    assert [threads for threads, _ in seen] == [1, 2]
    assert seen[0][1] == {1}
    assert torch.get_num_threads() == before
    assert one["targets"] == two["targets"]
    with pytest.raises(BadInput, match="jobs"):
        evaluate(*frames, schema, jobs=0)


def test_several_samples_of_images_are_refused_in_words(ward):
    schema, made, train, test = ward
    with pytest.raises(BadInput, match=r"2 synthetic samples of images.*one sample at a time.*evaluate.samples at 1"):
        evaluate([made, made], train, test, schema)


MIXED = ("mlp", "lr")


def mixed_schema():
    return Schema.from_dict(
        {
            "name": "skin <b>",
            "targets": ["ill", "grade", "age"],
            "columns": {
                "patient": {"kind": "identifier"},
                "age": {"kind": "integer", "bounds": [0, 99]},
                "photo": {"kind": "image", "height": 10, "width": 12, "channels": 3},
                "ill": {"kind": "boolean"},
                "grade": {"kind": "ordinal", "categories": ["I", "<i>II</i>", "III"], "missing": True},
            },
            "unit": "patient",
            "max_records_per_unit": 1,
        }
    )


def mixed_frame(rows, seed):
    rng = np.random.default_rng(seed)
    ill, grade = rng.random(rows) < 0.3, rng.integers(0, 3, rows)
    pixels = rng.integers(0, 100, (rows, 10, 12, 3))
    pixels[ill, :, :, 0] += 100
    pixels[np.arange(rows), :, grade * 4] += 50
    word = pd.Series(np.array(["I", "<i>II</i>", "III"])[grade], dtype="str")
    word[rng.random(rows) < 0.1] = None
    return pd.DataFrame(
        {
            "patient": [f"p{i}" for i in range(rows)],
            "age": rng.integers(0, 100, rows),
            "photo": pd.Series(list(pixels.astype(np.uint8)), dtype=object),
            "ill": ill,
            "grade": word,
        }
    )


@pytest.mark.heavy
def test_mixed_labels_in_colour(quick, tmp_path):
    result = evaluate(
        mixed_frame(120, 1), mixed_frame(150, 2), mixed_frame(100, 3), mixed_schema(), seeds=2, models=MIXED
    )
    assert set(result["targets"]) == {"ill", "grade"}
    assert "number" in reasons(result)["utility.age"]
    assert result["targets"]["ill"]["classes"] == ["False", "True"]
    rows = result["targets"]["grade"]["rows"]
    assert rows["train"] == mixed_frame(150, 2)["grade"].notna().sum()
    assert set(result["shares"]) == {"ill", "grade"}
    assert result["shares"]["grade"]["labels"][-1] == "(missing or undeclared)"
    assert sum(result["shares"]["grade"]["train"]) == pytest.approx(1)
    assert set(result["columns"]) == {"age"}
    assert set(result["fidelity"]["tvd_1way"]["columns"]) == {"age", "ill", "grade"}
    assert result["targets"]["ill"]["trtr"]["mlp"]["accuracy"]["n"] == 2
    page = write(result, tmp_path)[1].read_text(encoding="utf-8")
    assert "<i>II</i>" not in page
    assert "skin <b>" not in page
    assert "&lt;i&gt;II" in page


@pytest.mark.heavy
def test_pictures_without_any_label(quick, tmp_path):
    schema = Schema.from_dict({"columns": {"image": {"kind": "image", "height": 8, "width": 8}}})
    frames = [make_pictures(rows, seed)[["image"]] for rows, seed in ((80, 1), (90, 2), (70, 3))]
    result = evaluate(*frames, schema, seeds=1)
    assert set(reasons(result)) == {"utility"}
    assert CLOUDS - {"fid"} <= set(result["fidelity"])
    assert result["fidelity"]["mean_pictures"]["mean"] < 0.1
    write(result, tmp_path)


@pytest.mark.heavy
def test_the_same_seeds_give_the_same_figures(ward):
    schema, *frames = ward
    assert evaluate(*frames, schema, seeds=1) == evaluate(*frames, schema, seeds=1)


def test_what_does_not_fit_is_refused(ward):
    schema, made, train, test = ward
    small = made.assign(image=pd.Series([np.zeros((4, 4), dtype=np.uint8)] * 80, dtype=object))
    with pytest.raises(BadInput, match="synthetic rows: 80 of 80 values are not uint8 arrays of 8 x 8"):
        evaluate(small, train, test, schema)
    with pytest.raises(BadInput, match="lack 1 of the schema"):
        evaluate(made.drop(columns="image"), train, test, schema)
    with pytest.raises(BadInput, match="known for images are lr, mlp, cnn"):
        evaluate(made, train, test, schema, models=("hgb",))
    with pytest.raises(BadInput, match="targets"):
        evaluate(made, train, test, schema, targets=["image"])
    with pytest.raises(BadInput, match="seeds"):
        evaluate(made, train, test, schema, seeds=0)
    with pytest.raises(BadInput, match="at least 10"):
        images.accuracies(made[:3], test, schema)
    with pytest.raises(BadInput, match="target"):
        images.accuracies(made, test, picture_schema(targets=[]))
