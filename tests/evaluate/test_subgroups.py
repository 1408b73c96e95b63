"""Utility within groups: bands, groups too small, and the group that synthetic rows fail, planted and found."""

import numpy as np
import pytest
from patients import make_frame, make_schema

from synthdp.evaluate import estimators, scores, subgroups, tasks, utility
from synthdp.evaluate.tables import Axis, axes_of, table_of
from synthdp.schema.schema import Categorical, Continuous, Integer, Schema


def work_of(synthetic, train, test, schema, target="ill"):
    axes = axes_of(schema, train)
    s, t, v = (table_of(frame, axes, "synthetic") for frame in (synthetic, train, test))
    return tasks.task(next(axis for axis in axes if axis.name == target), s, t, v)


def judged(work, columns, models=("lr",), seeds=1):
    chosen = estimators.classifiers(models)
    if work.is_number:
        chosen = estimators.regressors(chosen)
    return utility.judge(work, chosen, seeds, 1, lambda _: None, draws=60, columns=columns)


@pytest.mark.parametrize(
    ("low", "high", "whole", "names"),
    [
        (17, 90, True, ["10 to 19", "20 to 29", "30 to 39", "40 to 49", "50 to 59", "60 to 69", "70 to 79", "80 to 89"]),
        (0, 3, True, ["0 to 0", "1 to 1", "2 to 2"]),
        (0.0, 1.0, False, ["0 to 0.2", "0.2 to 0.4", "0.4 to 0.6", "0.6 to 0.8", "0.8 to 1"]),
        (5.0, 5.0, False, ["5 to 6"]),
    ],
)  # fmt: skip
def test_bands_cover_every_known_row_once(low, high, whole, names):
    axis = Axis(name="x", kind="number", low=low, high=high, whole=whole)
    column = np.r_[np.linspace(low - 5, high + 5, 101), np.nan]
    bands = subgroups._bands(axis, column)
    assert [name for name, _ in bands] == names
    assert (sum(inside.astype(int) for _, inside in bands) == np.isfinite(column)).all()


def test_groups_that_cannot_be_have_a_reason():
    train, test = make_frame(300, 1), make_frame(200, 2)
    work = work_of(train, train, test, make_schema())
    made, log = subgroups.groups(["site", "seen", "ill", "patient", "nowhere", "site"], work)
    assert [group.column for group in made] == ["site"]
    why = {entry["metric"]: entry["reason"] for entry in log}
    assert set(why) == {f"subgroups.ill.{name}" for name in ("seen", "ill", "patient", "nowhere")}
    assert why["subgroups.ill.ill"] == "it is the target"
    entry, _ = judged(work_of(train, train, test.assign(site="north"), make_schema()), ["site"])
    levels = {level["level"]: level for level in entry["subgroups"]["site"]["levels"]}
    assert levels["south"] == {"level": "south", "rows": 0, "reason": "no test row"}
    assert levels["north"]["tstr"]["mean"] == pytest.approx(entry["tstr"]["lr"]["auroc"]["mean"], rel=1e-6)
    few = judged(work_of(train, train, test.assign(site=["south"] * 20 + ["north"] * 180), make_schema()), ["site"])[0]
    levels = {level["level"]: level for level in few["subgroups"]["site"]["levels"]}
    assert levels["south"]["reason"] == "20 test rows; at least 50 are needed"
    assert few["subgroups"]["site"]["worst"] == "north"


def test_a_group_s_score_is_that_of_its_rows():
    train, test = make_frame(400, 1), make_frame(300, 2)
    schema = make_schema()
    entry, _ = judged(work_of(train, train, test, schema), ["smoker"])
    for level in entry["subgroups"]["smoker"]["levels"]:
        part = test[test["smoker"] == (level["level"] == "True")]
        assert level["rows"] == len(part)
        alone, _ = judged(work_of(train, train, part, schema), [])
        assert level["tstr"]["mean"] == pytest.approx(alone["tstr"]["lr"]["auroc"]["mean"], rel=1e-6)
        assert level["gap"] == pytest.approx(0.0, abs=1e-12)


def make_two_wards(rows, seed, spoiled=False):
    """x tells y in both groups; where spoiled, group b's y is a coin."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    x, group = rng.normal(size=rows), rng.choice(["a", "b"], rows)
    y = x + 0.5 * rng.normal(size=rows)
    if spoiled:
        y = np.where(group == "b", rng.normal(size=rows), y)
    return pd.DataFrame(
        {"x": x, "group": group, "y": np.where(y > 0, "yes", "no"), "z": y, "age": rng.integers(0, 9, rows)}
    )


WARDS = Schema(
    targets=("y",),
    columns=(
        Continuous(name="x", bounds=(-5.0, 5.0)),
        Categorical(name="group", categories=("a", "b", "c")),
        Categorical(name="y", categories=("no", "yes")),
        Continuous(name="z", bounds=(-8.0, 8.0)),
        Integer(name="age", bounds=(0, 8)),
    ),
)


@pytest.mark.heavy
@pytest.mark.parametrize("target", ["y", "z"])
def test_the_group_that_synthetic_rows_fail_is_named(target):
    drop = {"y": "z", "z": "y"}[target]
    train, test, synthetic = (
        make_two_wards(800, seed, spoiled).drop(columns=[drop]) for seed, spoiled in ((1, False), (2, False), (3, True))
    )
    schema = Schema(targets=(target,), columns=tuple(c for c in WARDS.columns if c.name != drop))
    entry, _ = judged(work_of(synthetic, train, test, schema, target), ["group"], models=("hgb",))
    found = entry["subgroups"]["group"]
    levels = {level["level"]: level for level in found["levels"]}
    assert (found["worst"], found["worst_by"]) == ("b", "gap")
    assert found["metric"] == ("auroc" if target == "y" else "rmse")
    assert levels["b"]["gap_interval"][0] > 0.05
    assert levels["b"]["gap"] > 3 * abs(levels["a"]["gap"])
    assert levels["c"] == {"level": "c", "rows": 0, "reason": "no test row"}
    assert scores.RANGES[found["metric"]][0] <= levels["b"]["tstr"]["interval"][0]
