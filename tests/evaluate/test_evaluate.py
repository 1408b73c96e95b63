import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from synthdp.data.schema import Schema
from synthdp.errors import BadInput
from synthdp.evaluate import evaluate, write
from synthdp.evaluate.page import STAMP, figure

SUMMARY = {"mean", "sd", "n", "values"}
METRICS = {"auroc", "auprc", "accuracy", "f1"}


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def result(schema, train, test, told):
    def progress(step, total, label):
        told.append((step, total, label))

    synthetic = train.sample(len(train), replace=True, random_state=0)
    return evaluate(synthetic, train, test, schema, targets=["ill", "age"], seeds=2, jobs=1, progress=progress)


@pytest.fixture(scope="module")
def page(result, tmp_path_factory):
    data, html = write(result, tmp_path_factory.mktemp("page") / "new" / "out")
    assert json.loads(data.read_text(encoding="utf-8")) == result
    assert sorted(p.name for p in data.parent.iterdir()) == ["evaluation.html", "evaluation.json"]
    return html.read_text(encoding="utf-8")


def test_the_frozen_form(result):
    assert set(result) == {"schema_version", "targets", "fidelity", "not_computed", "columns", "about"}
    assert result["schema_version"] == 1
    assert set(result["targets"]) == {"ill"}
    entry = result["targets"]["ill"]
    assert set(entry) == {"tstr", "trtr", "floors", "average", "classes", "positive", "rows"}
    assert set(entry["floors"]) == {"independent", "majority"}
    for arm in (entry["tstr"], entry["trtr"], entry["floors"]["independent"]):
        assert set(arm) == {"hgb", "lr", "rf"}
        for model in arm.values():
            assert set(model) == METRICS
            for found in model.values():
                assert set(found) == SUMMARY
                assert found["n"] == len(found["values"]) == 2
                assert found["mean"] == pytest.approx(np.mean(found["values"]))
    assert set(entry["floors"]["majority"]) == METRICS
    assert set(result["fidelity"]) == {
        "tvd_1way", "tvd_2way", "tvd_3way", "correlation_difference", "detection_auc",
    }  # fmt: skip
    assert all({"mean", "sd", "n", "floor"} <= set(found) for found in result["fidelity"].values())
    assert all(set(item) == {"metric", "reason"} for item in result["not_computed"])
    assert [item["metric"] for item in result["not_computed"]] == ["utility.age"]


def numbers(node):
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from numbers(item)
    elif isinstance(node, float):
        yield node


def test_every_number_is_finite(result):
    found = list(numbers(result))
    assert len(found) > 100
    assert all(math.isfinite(number) for number in found)
    json.dumps(result, allow_nan=False)


def test_same_rows_same_figures(result, schema, train, test):
    synthetic = train.sample(len(train), replace=True, random_state=0)
    again = evaluate(synthetic, train, test, schema, models=["hgb"], seeds=2, jobs=1)
    for arm in ("tstr", "trtr"):
        assert again["targets"]["ill"][arm]["hgb"] == result["targets"]["ill"][arm]["hgb"]
    assert again["fidelity"] == result["fidelity"]


def test_progress_counts_up_to_the_total(result, told):
    steps, totals = [step for step, _, _ in told], {total for _, total, _ in told}
    assert len(totals) == 1
    assert steps == sorted(steps)
    assert steps[0] == 0
    assert steps[-1] == totals.pop()
    assert all(label for _, _, label in told)


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.ids, self.images, self.links = [], [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href") and v and not v.startswith("#")]
        if tag == "svg":
            self.images.append(values)


def test_the_page_is_stamped_and_on_its_own(page):
    reader = Reader()
    reader.feed(page)
    body = page[page.index("<body>") :]
    assert body.count(STAMP) == 2
    assert body.index(STAMP) < body.index("<main>") < body.index("</main>") < body.rindex(STAMP)
    assert not reader.links
    assert "data:" not in page
    assert not {"script", "link", "img", "iframe"} & set(reader.tags)
    assert not re.findall(r"url\((?!#)", page)
    assert len(reader.ids) == len(set(reader.ids))


def test_every_plot_is_labelled_and_follows_the_page(page, result):
    reader = Reader()
    reader.feed(page)
    assert len(reader.images) == 2 + len(result["columns"]) + 2
    assert all(image["role"] == "img" and len(image["aria-label"]) > 30 for image in reader.images)
    assert "currentColor" in page
    assert "#010203" not in page
    assert "prefers-color-scheme: dark" in page


def test_the_page_holds_every_figure_of_its_tables(page, result):
    entry = result["targets"]["ill"]
    for arm in (entry["tstr"], entry["trtr"], entry["floors"]["independent"], {"-": entry["floors"]["majority"]}):
        for model in arm.values():
            for found in model.values():
                assert figure(found) in page
    for found in result["fidelity"].values():
        assert figure(found) in page
        assert figure(found["floor"]) in page
    assert f"{entry['average']['tstr']['auroc']['mean']:.3f}" in page
    assert result["not_computed"][0]["reason"] in page


def test_names_and_values_are_escaped(page):
    assert "<b>east</b>" not in page
    assert "&lt;b&gt;east" in page
    assert "weight $kg$" in page


def test_the_result_may_say_little(tmp_path, schema, train, test):
    few = evaluate(train.head(1), train.head(1), test.head(1), schema, seeds=1, jobs=1)
    assert few["targets"] == {}
    assert {item["metric"] for item in few["not_computed"]} >= {
        "utility.ill",
        "detection_auc",
        "correlation_difference",
    }
    write(few, tmp_path)
    none = evaluate(train.head(0), train, test, schema, seeds=1, jobs=1, models=["lr"])
    assert none["fidelity"] == {}
    assert none["targets"]["ill"]["tstr"] == {}
    assert set(none["targets"]["ill"]["trtr"]) == {"lr"}
    write(none, tmp_path)
    json.dumps([few, none], allow_nan=False)


def test_constant_columns(schema, train, test, tmp_path):
    flat = train.assign(age=7, site="north", stage="I", smoker=True, ill="no", seen=pd.Timestamp("2020-02-02"))
    found = evaluate(flat.assign(**{"weight $kg$": np.nan}), train, test, schema, seeds=1, jobs=1, models=["hgb", "lr"])
    assert found["targets"]["ill"]["tstr"]["hgb"]["auroc"]["mean"] == 0.5
    assert found["fidelity"]["correlation_difference"]["mean"] > 0
    write(found, tmp_path)
    target_flat = evaluate(train, train.assign(ill="no"), test, schema, seeds=1, jobs=1)
    assert "one class" in next(i["reason"] for i in target_flat["not_computed"] if i["metric"] == "utility.ill")


def test_one_column_and_no_target(train, test, schema):
    lone = Schema(columns=(schema.column("age"),))
    found = evaluate(train, train, test, lone, seeds=1, jobs=1)
    assert set(found["fidelity"]) == {"tvd_1way", "detection_auc"}
    reasons = {item["metric"] for item in found["not_computed"]}
    assert reasons == {"utility", "tvd_2way", "tvd_3way", "correlation_difference"}


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda f: f.drop(columns=["age"]), {}, "synthetic rows lack 1 of the schema's 7 columns: 'age'"),
        (lambda f: f.assign(age="old"), {}, "'age' of the synthetic rows: 600 of 600 values are not numbers"),
        (lambda f: f.assign(seen="someday"), {}, "'seen' of the synthetic rows: 600 of 600 values are not dates"),
        (lambda f: f.assign(stage=3), {}, "'stage' of the synthetic rows holds none of the 3 categories"),
        (lambda f: pd.concat([f, f[["age"]]], axis=1), {}, "two columns of the same name"),
        (lambda f: f, {"seeds": 0}, "seeds"),
        (lambda f: f, {"models": ["svm"]}, "known are hgb, lr, rf"),
        (lambda f: f, {"targets": ["il"]}, "did you mean 'ill'"),
        (lambda f: f, {"targets": ["patient"]}, "identifier"),
    ],
)
def test_bad_input_is_named(schema, train, test, change, options, message):
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        evaluate(change(train), train, test, schema, **options)
    assert "someday" not in str(caught.value)


def test_values_as_files_give_them(schema, train, test):
    """Text dates, 0/1 for booleans and extra columns, as a CSV file gives them, change nothing."""
    as_read = train.assign(seen=train["seen"].dt.strftime("%Y-%m-%d"), smoker=train["smoker"].astype(int), note="x")
    found = evaluate(as_read, train, test, schema, targets=[], seeds=1, jobs=1)
    assert found["fidelity"]["tvd_2way"]["max"] == 0.0


def test_importing_is_light():
    code = "import sys, synthdp.evaluate; print([m for m in ('torch', 'sklearn', 'matplotlib', 'pandas') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
