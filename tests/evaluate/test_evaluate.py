import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from patients import make_frame
from sweeps import heavy

from synthdp.cli import evaluations
from synthdp.errors import BadInput
from synthdp.evaluate import answers, evaluate, evaluation_page, tables, write
from synthdp.evaluate.evaluation_page import STAMP
from synthdp.evaluate.figures import figure
from synthdp.schema.schema import Schema

SUMMARY = {"mean", "sd", "n", "values", "interval"}
METRICS = {"auroc", "auprc", "accuracy", "f1", "brier", "ece"}
NUMBERS = {"rmse", "mae", "r2"}
FIDELITY = {
    "tvd_1way", "tvd_2way", "tvd_3way", "correlation_difference", "detection_auc", "wasserstein", "missingness",
    "range_queries", "pmse", "pearson", "spearman", "means", "alpha_precision", "beta_recall",
}  # fmt: skip
BESIDE = ("numbers", "calendar")  # of single columns, in forms of their own
FURTHER = {"detection and pMSE", "alpha-precision and beta-recall", "range queries", "attacks"}


def again(frame):
    return frame.sample(len(frame), replace=True, random_state=0)


def reasons(result):
    return {item["metric"]: item["reason"] for item in result["not_computed"]}


ALL = ["hgb", "lr", "rf"]


@pytest.fixture(scope="module", params=[heavy(ALL), ALL[:2]], ids=str)
def models(request):
    return request.param


@pytest.fixture(scope="module")
def told(models):
    return []


@pytest.fixture(scope="module")
def result(schema, train, test, models, told):
    rows = 600 if models == ALL else 200

    def progress(step, total, label):
        told.append((step, total, label))

    return evaluate(
        again(train[:rows]),
        train[:rows],
        test[:rows],
        schema,
        targets=["ill", "age"],
        models=models,
        seeds=2,
        bootstrap=60,
        subgroups=["smoker", "seen"],
        claim={"epsilon": math.inf, "delta": 1e-5, "unit": "patient"},
        jobs=2,
        progress=progress,
    )


@pytest.fixture(scope="module")
def page(result, tmp_path_factory):
    data, html = write(result, tmp_path_factory.mktemp("page") / "new" / "out")
    document = json.loads(data.read_text(encoding="utf-8"))
    assert document.pop("answers")
    assert document.pop("associations").keys() == {"lost", "invented"}
    assert document == result
    assert sorted(p.name for p in data.parent.iterdir()) == ["evaluation.html", "evaluation.json"]
    return html.read_text(encoding="utf-8")


def test_the_frozen_form(result, models):
    assert set(result) == {"schema_version", "targets", "fidelity", "not_computed", "columns", "attacks", "about"}
    assert result["schema_version"] == 2
    assert set(result["targets"]) == {"ill", "age"}
    shared = {"kind", "tstr", "trtr", "floors", "average", "classes", "positive", "rows", "subgroups"}
    shared |= {"ranks"} if len(models) > 2 else set()
    for name, floor, metrics in (("ill", "majority", METRICS), ("age", "mean", NUMBERS)):
        entry = result["targets"][name]
        assert set(entry) == shared | ({"calibration"} if name == "ill" else set())
        if "ranks" in shared:
            assert entry["ranks"]["kendall_interval"][0] <= entry["ranks"]["kendall_interval"][1]
        assert set(entry["floors"]) == {"independent", floor}
        for arm in (entry["tstr"], entry["trtr"], entry["floors"]["independent"]):
            assert set(arm) == set(models)
            for model in arm.values():
                assert set(model) == metrics
                for found in model.values():
                    assert set(found) == SUMMARY
                    assert found["n"] == len(found["values"]) == 2
                    assert found["mean"] == pytest.approx(np.mean(found["values"]))
                    assert found["interval"][0] <= found["mean"] <= found["interval"][1]
        assert set(entry["floors"][floor]) == metrics
    assert (result["targets"]["ill"]["kind"], result["targets"]["age"]["kind"]) == ("classes", "number")
    distances = {name: found for name, found in result["fidelity"].items() if name not in BESIDE}
    assert set(distances) == FIDELITY, "a metric was added or lost: FIDELITY above names them all"
    assert all({"mean", "floor"} <= set(found) for found in distances.values())
    for found in result["fidelity"]["numbers"].values():
        assert set(found) - {"shift"} == {"real", "synthetic", "beyond", "held_out", "known", "constant"}
        assert len(found["real"]) == len(found["synthetic"]) == 5
    for found in result["fidelity"]["calendar"]:
        assert set(found) == {"column", "of", "tvd", "real", "part", "shares"}
    assert all(set(item) == {"metric", "reason"} for item in result["not_computed"])
    lacking = {item["metric"] for item in result["not_computed"]}
    assert {"subgroups.ill.seen", "subgroups.age.seen"} <= lacking
    assert {item["id"] for item in result["attacks"]} >= {"attribute", "copies"}


def test_what_was_judged_is_said(result, models):
    about = result["about"]
    assert (about["samples"], about["seeds"], about["bootstrap"]) == (1, [0, 1], 60)
    assert set(about["models"]) == set(about["regressors"]) == set(models)
    assert set(about["limits"]) == {*about["models"], *FURTHER}
    assert "2,000 records of either side" in about["limits"]["attacks"]
    assert about["claim"] == {"epsilon": None, "delta": 1e-5, "unit": "patient"}


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


@pytest.mark.heavy
@pytest.mark.parametrize("models", [ALL], indirect=True)
def test_same_rows_same_figures_whatever_the_threads(result, schema, train, test):
    same = evaluate(again(train), train, test, schema, models=["hgb"], seeds=2, bootstrap=60, attacks=False, jobs=1)
    for arm in ("tstr", "trtr"):
        assert same["targets"]["ill"][arm]["hgb"] == result["targets"]["ill"][arm]["hgb"]
    assert same["fidelity"] == result["fidelity"]
    assert "attacks" not in same


def test_progress_counts_up_to_the_total(result, told):
    steps, totals = [step for step, _, _ in told], {total for _, total, _ in told}
    assert len(totals) == 1
    assert steps == sorted(steps)
    assert steps[0] == 0
    assert steps[-1] == totals.pop()
    assert all(label for _, _, label in told)


def test_the_page_holds_the_figures_of_a_real_result(page, result):
    assert STAMP in page
    for entry in result["targets"].values():
        for arm in (entry["tstr"], entry["trtr"], entry["floors"]["independent"]):
            for model in arm.values():
                for found in model.values():
                    assert figure(found) in page
    for name in ("tvd_1way", "tvd_2way", "detection_auc", "wasserstein", "range_queries"):
        assert figure(result["fidelity"][name]) in page
    assert "<b>east</b>" not in page
    assert "&lt;b&gt;east" in page


@pytest.mark.heavy
def test_several_samples(schema, train, test):
    """Two samples of two seeds are four runs; real rows are none of the samples' business."""
    found = evaluate(
        [again(train), make_frame(300, 5)], train, test, schema,
        models=["hgb"], seeds=2, attacks=False, bootstrap=60, jobs=1,
    )  # fmt: skip
    entry = found["targets"]["ill"]
    assert (entry["tstr"]["hgb"]["auroc"]["n"], entry["trtr"]["hgb"]["auroc"]["n"]) == (4, 2)
    assert found["about"]["samples"] == 2
    alone = evaluate(
        make_frame(300, 5), train, test, schema, models=["hgb"], seeds=2, attacks=False, bootstrap=60, jobs=1
    )["targets"]["ill"]
    assert entry["tstr"]["hgb"]["auroc"]["values"][2:] == alone["tstr"]["hgb"]["auroc"]["values"]
    assert entry["trtr"] == alone["trtr"]


@pytest.mark.heavy
def test_one_column_and_no_target(train, test, schema):
    lone = Schema(columns=(schema.column("age"),))
    found = evaluate(train, train, test, lone, seeds=1, jobs=1, attacks=False)
    assert {"tvd_1way", "detection_auc", "wasserstein"} <= set(found["fidelity"])
    assert {"utility", "tvd_2way", "tvd_3way", "correlation_difference"} <= set(reasons(found))


@pytest.mark.heavy
def test_columns_that_synthetic_rows_lack_are_listed_and_left_out(schema, train, test):
    """Schemas that differ: what is shared is judged, what is not is named, and no cell is quoted."""
    bad = train.drop(columns=["age"]).assign(seen="someday", stage=3)
    found = evaluate(bad, train, test, schema, models=["lr"], seeds=1, attacks=False, targets=["ill", "stage"], jobs=1)
    why = reasons(found)
    assert "lack the column 'age'" in why["columns.age"]
    assert "'seen' of the synthetic rows: 600 of 600 values are not dates" in why["columns.seen"]
    assert "has none of the 3 categories" in why["columns.stage"]
    assert "lack the target" in why["utility.stage"]
    assert "someday" not in json.dumps(found)
    assert set(found["columns"]) == {"weight $kg$", "site", "smoker", "ill"}
    assert found["about"]["columns"] == 4
    assert found["targets"]["ill"]["tstr"]["lr"]["auroc"]["mean"] > 0.5


def test_nothing_shared_is_refused(schema, train, test):
    with pytest.raises(BadInput, match="have none of the schema's 7 columns"):
        evaluate(pd.DataFrame({"x": [1, 2]}), train, test, schema)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda f: pd.concat([f, f[["age"]]], axis=1), {}, "two columns of the same name"),
        (lambda _: [], {}, "list of samples is empty"),
        (lambda f: f, {"seeds": 0}, "seeds"),
        (lambda f: f, {"bootstrap": -1}, "bootstrap"),
        (lambda f: f, {"jobs": 0}, "jobs"),
        (lambda f: f, {"models": ["gbm"]}, "known are hgb, lr, rf"),
        (lambda f: f, {"models": []}, "none given"),
        (lambda f: f, {"targets": ["il"]}, "did you mean 'ill'"),
        (lambda f: f, {"targets": ["patient"]}, "identifier"),
    ],
)
def test_bad_input_is_named(schema, train, test, change, options, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        evaluate(change(train), train, test, schema, **options)


def test_real_rows_must_fit_the_schema(schema, train, test):
    with pytest.raises(BadInput, match="real test rows lack 1 of the schema's 7 columns: 'age'"):
        evaluate(train, train, test.drop(columns=["age"]), schema)
    with pytest.raises(BadInput, match="'age' of the real training rows: 600 of 600 values are not numbers"):
        evaluate(train, train.assign(age="old"), test, schema)


def test_cells_that_the_fit_of_a_release_took_as_missing_are_missing_in_its_evaluation_too(schema, train, test):
    """A fit with invalid=clamp was paid for, and then its evaluation refused the same records."""
    wrong = np.arange(len(train)) % 3 == 0
    age, seen = train["age"].astype(object).mask(wrong, "old"), train["seen"].astype(object).mask(wrong, "31/02/1960")
    real = train.assign(age=age, seen=seen)
    points = {"epsilon": 1.0, "delta": 1e-5, "relation": "add_remove", "unit": "record", "curve": ()}
    statement = SimpleNamespace(**points, declared={"invalid": "clamp"})
    how = {"models": ["lr"], "seeds": 1, "attacks": False, "jobs": 1}
    with pytest.raises(BadInput, match=r"not numbers.*\(invalid=clamp\), name its release: release=FOLDER"):
        evaluate(train, real, test, schema, claim=points, **how)
    found = evaluate(train, real, test, schema, claim=evaluations.claim_of(statement), **how)
    why = reasons(found)
    assert why["unread.age"] == "200 of 600 real training rows hold something else than a number: it counts as missing"
    assert why["unread.seen"] == "200 of 600 real training rows hold something else than a date: it counts as missing"
    blank = evaluate(train, train.assign(age=age.mask(wrong), seen=seen.mask(wrong)), test, schema, claim=points, **how)
    assert found["fidelity"] == blank["fidelity"]
    assert found["targets"] == blank["targets"]


@pytest.mark.parametrize(("faults", "refused"), [(30, False), (31, True)])
def test_a_few_cells_that_cannot_be_read_count_as_missing_as_in_a_fit_that_clamps(schema, train, test, faults, refused):
    wrong = np.arange(len(train)) < faults  # 600 rows
    age, seen = train["age"].astype(object).mask(wrong, "old"), train["seen"].astype(object).mask(wrong, "31/02/1960")
    real = train.assign(age=age, seen=seen)
    if refused:
        with pytest.raises(BadInput, match="'age' of the real training rows: 31 of 600 values are not numbers"):
            evaluate(train, real, test, schema, models=["lr"], seeds=1, attacks=False, jobs=1)
        return
    found = evaluate(train, real, test, schema, models=["lr"], seeds=1, attacks=False, jobs=1)
    why = reasons(found)
    assert why["unread.age"] == "30 of 600 real training rows hold something else than a number: it counts as missing"
    assert why["unread.seen"] == "30 of 600 real training rows hold something else than a date: it counts as missing"
    assert "31/02" not in json.dumps(found)
    blank = evaluate(
        train,
        real.assign(age=age.mask(wrong), seen=seen.mask(wrong)),
        test,
        schema,
        models=["lr"],
        seeds=1,
        attacks=False,
        jobs=1,
    )
    assert found["columns"] == blank["columns"], "as if the cells were blank"


@pytest.mark.heavy
def test_values_as_files_give_them(schema, train, test):
    """Text dates, 0/1 for booleans and extra columns, as a CSV file gives them, change nothing."""
    as_read = train.assign(seen=train["seen"].dt.strftime("%Y-%m-%d"), smoker=train["smoker"].astype(int), note="x")
    found = evaluate(as_read, train, test, schema, targets=[], seeds=1, jobs=1, attacks=False)
    assert found["fidelity"]["tvd_2way"]["max"] == 0.0


def test_importing_is_light():
    code = "import sys, synthdp.evaluate; print([m for m in ('torch', 'sklearn', 'matplotlib', 'pandas') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_held_out_records_that_were_fitted_are_told(schema, train, test):
    """Rows alike by chance are not: this table has few values a column."""
    rows = replace(schema, unit=None, max_records_per_unit=1)
    apart = tables.parts_of([train], train, test, rows)
    same = tables.parts_of([train], train, train.sample(frac=1, random_state=0), rows)
    assert apart.overlap is None
    assert tables.parts_of([train], train.head(0), test, rows).overlap is None
    first, second = (
        frame.assign(patient=[f"p{row}" for row in range(start, start + len(frame))])
        for frame, start in ((train, 0), (test, len(train) - 5))
    )
    units = tables.parts_of([train], first, second, schema)
    assert same.overlap == {"of": "rows", "shared": len(train), "all": len(train)}
    assert units.overlap == {"of": "units", "shared": 5, "all": len(test)}
    told = answers.overlapping({"about": {"overlap": units.overlap}})
    assert told.startswith("5 of the ")
    assert "patients" in told
    assert answers.overlapping({"about": {}}) == ""


@pytest.mark.heavy
def test_a_column_that_the_fit_destroyed_is_judged_and_wrong(train, test, schema):
    """Noise that hides every category leaves `other` in all rows: that is the worst figure, and not a column left out."""
    learned = schema.to_dict()
    learned["columns"]["stage"] = {"kind": "categorical", "categories": "learn"}
    learned["columns"]["site"] = {"kind": "categorical", "categories": "learn"}
    ruined = train.assign(stage="other", site="other")
    found = evaluate(
        ruined,
        train,
        test,
        Schema.from_dict(learned),
        models=["lr"],
        seeds=1,
        attacks=False,
        targets=["stage", "ill"],
        jobs=1,
    )
    assert not {"columns.stage", "columns.site"} & set(reasons(found))
    assert found["fidelity"]["tvd_1way"]["columns"]["site"] == 1.0
    assert found["columns"]["site"]["synthetic"][found["columns"]["site"]["labels"].index("(undeclared)")] == 1.0
    told = {
        answer["question"]: answer["verdict"]
        for ask in evaluation_page.first_screen(found)
        for answer in ask["answers"]
    }
    assert told["Is it useful for predicting stage?"] == "Not useful: this column was lost"
    assert found["targets"]["ill"]["tstr"]["lr"]


def test_whoever_judges_few_synthetic_rows_hears_that_more_cost_nothing(result):
    rows = result["about"]["rows"]
    for made, few in ((rows["train"], False), (rows["train"] // 2 + 1, False), (rows["train"] // 2 - 1, True)):
        found = {**result, "about": {**result["about"], "rows": {**rows, "synthetic": made}}}
        told = f"{made:,} synthetic rows are few for {rows['train']:,} training rows"
        assert (told in evaluation_page.first_screen(found)[0]["answers"][0]["text"]) is few
        assert ("rows" in dict(answers.brief(found))) is few


def test_a_target_that_is_never_missed_is_told_to_have_been_given_away():
    def told(real, made=0.99, by=()):
        scores = {"trtr": real, "tstr": made, "independent": 0.5}
        return answers.useful("ill", {"average": {arm: {"auroc": {"mean": at}} for arm, at in scores.items()}}, by=by)

    assert "another column may give this one away" in told(1.0).text
    assert "give this one away" not in told(0.999, by=["cause"]).text
    known = told(1.0, 0.8, by=["cause"])
    assert known.verdict.words == "Cannot be told by a target that another column gives away"
    assert "because cause gives this column away: the figures say how well synthetic rows keep" in known.text
    assert "Synthetic rows keep 60 % of what" in known.text
    assert known.kept is None, "it is not the worst of several targets"


@pytest.mark.parametrize(
    ("interval", "verdict"), [([0.46, 0.66], "Cannot be told"), ([0.53, 0.6], "Nearly as useful as real rows")]
)
def test_what_real_rows_hardly_predict_judges_nothing(interval, verdict):
    """With 18 positives, real rows at 0.56 are no better than chance for all that is known, and luck would rank releases."""
    figures = {"trtr": {"mean": 0.562, "interval": interval}, "tstr": {"mean": 0.592}, "independent": {"mean": 0.5}}
    told = answers.useful("dead", {"average": {arm: {"auroc": figure} for arm, figure in figures.items()}})
    assert told.verdict.words == verdict
    assert ("not clearly better than chance" in told.text) == (verdict == "Cannot be told")


@pytest.mark.heavy
def test_what_a_fit_merged_into_other_counts_as_wrong(train, test, schema):
    """Also by the schema of the release, which lists what was found and `other`."""
    listed = schema.to_dict()
    words = sorted(str(word) for word in train["site"].dropna().unique())
    listed["columns"]["site"] = {
        "kind": "categorical",
        "categories": [words[0], "other"],
        "other": "other",
        "missing": True,
    }
    merged = train.assign(
        site=train["site"].astype(object).where(train["site"].isna() | (train["site"] == words[0]), "other")
    )
    found = evaluate(
        merged, train, test, Schema.from_dict(listed), models=["lr"], seeds=1, attacks=False, targets=[], jobs=1
    )
    wrong = found["fidelity"]["tvd_1way"]["columns"]["site"]
    assert wrong == pytest.approx(float((train["site"].notna() & (train["site"] != words[0])).mean()), abs=1e-9)
