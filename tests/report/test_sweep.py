"""Sums over a sweep: what it cost, against closed forms; what its curves show; and the page that says both."""

import json
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from synthdp import Budget, pages
from synthdp.ledger.events import Entry, Gaussian, Revealed, Threshold
from synthdp.report import plots, sweep_page
from synthdp.report.sweep import STAMP, Run, comparison, cost, mean_interval, told, verdict

from test_statement import make_statement  # isort: skip

DELTA = 1e-5


def analytic(mu, delta=DELTA):
    """Epsilon of a Gaussian whose means lie mu deviations apart (Balle & Wang 2018, theorem 8; Dong et al. 2019)."""
    return brentq(
        lambda e: norm.cdf(-e / mu + mu / 2) - math.exp(e) * norm.cdf(-e / mu - mu / 2) - delta, 1e-9, 50, xtol=1e-12
    )


def summary(mean, *values, interval=None):
    found = {"mean": mean, "sd": 0.0, "n": len(values) or 1, "values": list(values) or [mean]}
    return found if interval is None else {**found, "interval": interval}


def run(name, generator="dpgan", epsilon=1.0, auroc=0.8, tvd=0.1, settings=None, interval=None, **changes):
    said = make_statement(
        generator=generator,
        settings=settings or {"steps": 10},
        epsilon=epsilon,
        budget=Budget(epsilon, DELTA),
        **changes,
    )
    arms = {"tstr": summary(auroc, interval=interval), "trtr": summary(0.9), "independent": summary(0.51)}
    entry = {
        "average": {arm: {"auroc": figure} for arm, figure in arms.items()},
        "floors": {"majority": {"auroc": summary(0.5)}},
    }
    result = {
        "targets": {"ill": entry},
        "fidelity": {"tvd_2way": {"mean": tvd, "sd": 0.1, "n": 9, "max": 0.3, "floor": {"mean": 0.02}}},
        "not_computed": [],
        "about": {"data": "clinic", "rows": {"synthetic": 5, "train": 5, "test": 5}, "models": {"lr": "LR"}},
    }
    return Run(name=name, statement=said, result=result)


def test_the_cost_of_a_sweep_is_that_of_all_its_events_together():
    found = cost([make_statement(), make_statement(), make_statement(events=(Entry(Gaussian(2.0), 4),))])
    assert found["epsilon"] == pytest.approx(analytic(math.sqrt(1 + 1 + 4 / 4)), rel=1e-3)
    assert found["epsilon"] >= analytic(math.sqrt(3))
    assert "per record, for all events" in told(found)
    assert "per Patienten-ID, for all events" in told({**found, "unit": ["Patienten-ID"]})
    assert found["epsilon"] < sum([4.377178] * 3)
    assert (found["delta"], found["runs"], found["unit"]) == (DELTA, 3, ["record"])
    assert found["added"] == pytest.approx([3 * 4.377178, 3e-5])


def test_rehearsals_are_no_part_of_the_sum_and_are_told():
    found = cost([make_statement(), make_statement(rehearsal=True), make_statement(rehearsal=True)])
    assert found["epsilon"] == pytest.approx(analytic(1.0), rel=1e-3)
    assert (found["runs"], found["rehearsals"]) == (1, 2)
    assert "2 rehearsals are not in the sum" in told(found)
    alone = cost([make_statement(rehearsal=True)])
    assert alone["epsilon"] == 0.0
    assert "rehearsals only" in verdict(alone)


def test_stopped_fits_are_charged_and_what_cannot_be_read_is_not_guessed():
    stopped = (Entry(Gaussian(1.0), 2),)
    found = cost([make_statement()], [stopped])
    assert found["epsilon"] == pytest.approx(analytic(math.sqrt(3)), rel=1e-3)
    assert "1 fit that stopped" in told(found)
    lost = cost([make_statement()], [], unreadable=1)
    assert lost["epsilon"] is None
    assert "is unknown" in told(lost)


def test_mixed_relations_and_units_have_no_sum():
    replaced = make_statement(relation="replace_one", events=(Entry(Gaussian(1.0, relation="replace_one"), 1),))
    patient = make_statement(unit="patient", events=(Entry(Gaussian(1.0, unit="patient"), 1),))
    for other, word in ((replaced, "relations"), (patient, "units")):
        found = cost([make_statement(), other])
        assert found["epsilon"] is None
        assert word in told(found)


def test_one_run_without_a_guarantee_leaves_none_to_the_sweep():
    found = cost([make_statement(), make_statement(epsilon=math.inf, events=(Entry(Revealed("")),))])
    assert math.isinf(found["epsilon"])
    assert "infinite" in verdict(found)


def test_events_with_a_delta_of_their_own_are_summed_at_the_sum_of_the_deltas():
    each = make_statement(events=(Entry(Threshold(2.0, 6e-6, 1)),))
    found = cost([each, each])
    assert found["delta"] == pytest.approx(2e-5)
    assert analytic(math.sqrt(2) / 2, 2e-5) < found["epsilon"] < analytic(math.sqrt(2) / 2, 7e-6)


def test_the_interval_of_a_mean_is_student_s():
    found = mean_interval([{"mean": value} for value in (0.8, 0.9, 1.0)])
    half = 4.302652729911275 * 0.1 / math.sqrt(3)  # the 97.5 % point of Student's t with 2 degrees of freedom
    assert found["mean"] == pytest.approx(0.9)
    assert found["interval"] == pytest.approx([0.9 - half, 0.9 + half])
    assert found["over"] == "runs"
    assert mean_interval([summary(0.7, interval=[0.6, 0.8])])["interval"] == [0.6, 0.8]
    assert mean_interval([summary(0.7, 0.6, 0.8)])["over"] == "seeds"
    assert mean_interval([summary(0.7)])["interval"] is None


SWEEP = (
    run("a", epsilon=0.5, auroc=0.70, settings={"steps": 10, "rate": 0.1}),
    run("b", epsilon=0.5, auroc=0.80, settings={"steps": 20, "rate": 0.1}),
    run("c", epsilon=3.0, auroc=0.85, settings={"steps": 10, "rate": 0.1}, rehearsal=True),
    run("<b>d</b>", generator="independent", epsilon=0.5, auroc=0.5, interval=[0.45, 0.55]),
    run("e", generator="independent", epsilon=math.inf, auroc=0.55, interval=[0.5, 0.6]),
)


def test_runs_of_one_generator_and_epsilon_are_one_point():
    found = comparison(SWEEP)
    utility, fidelity = found["panels"]
    lines = {line["generator"]: line["points"] for line in utility["lines"]}
    assert [(point["epsilon"], point["n"]) for point in lines["dpgan"]] == [(0.5, 2), (3.0, 1)]
    assert lines["dpgan"][0]["mean"] == pytest.approx(0.75)
    assert lines["dpgan"][0]["values"] == [0.70, 0.80]
    assert lines["dpgan"][0]["settings"] == 2
    assert [point["epsilon"] for point in lines["independent"]] == [0.5, math.inf]
    assert {line["kind"]: line["mean"] for line in utility["references"]} == {
        "ceiling": 0.9,
        "floor": 0.51,
        "majority": 0.5,
    }
    assert (fidelity["metric"], fidelity["better"]) == ("tvd_2way", "lower")
    assert {row["run"]: row["settings"] for row in found["runs"]}["a"] == {"steps": 10}


def test_runs_of_different_deltas_are_different_lines():
    other = run("x", auroc=0.7)
    other = replace(other, statement=replace(other.statement, budget=Budget(1.0, 1e-9)))
    labels = [line["label"] for line in comparison([run("y"), other])["panels"][0]["lines"]]
    assert labels == ["dpgan, delta 1e-09", "dpgan, delta 1e-05"]


@pytest.mark.heavy
def test_long_names_of_releases_break_at_their_commas(tmp_path):
    sweep_page.write(comparison([run("generator=x,budget.epsilon=1")]), tmp_path)
    assert "generator=x,<wbr>budget.epsilon=1" in (tmp_path / "compare.html").read_text()


@pytest.mark.heavy
def test_the_page_says_what_the_json_says(tmp_path):
    found = comparison(SWEEP, [{"run": "f & g", "reason": "broken"}])
    sweep_page.write(found, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compare.html", "compare.json", "compare.svg"]
    page = (tmp_path / "compare.html").read_text()
    text = (tmp_path / "compare.json").read_text()
    assert json.loads(text)["panels"][0]["lines"][1]["points"][1]["epsilon"] == "inf"
    assert page.count(STAMP) >= 2
    assert "<b>d</b>" not in page
    assert "f &amp; g" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert not re.search(r"<(link|img|iframe|script src)", page)
    assert "nan" not in (page.replace(pages.SORT, "") + text).lower()
    assert len(re.findall(r'\bid="([^"]+)"', page)) == len(set(re.findall(r'\bid="([^"]+)"', page)))
    for row in found["runs"]:
        assert f"{row['utility']['ill']['auroc']['mean']:.4f}" in page
    assert found["cost"]["words"].replace("'", "&#39;") in page


def test_the_plot_is_an_svg_that_ends_in_infinity_and_can_be_read_out():
    panels = comparison(SWEEP)["panels"]
    drawn = ET.fromstring(plots.together(panels))  # noqa: S314 - our own
    told_ = "".join(drawn.itertext())
    assert "∞" in told_
    assert "independent: 0.500 (0.450 to 0.550) at epsilon 0.5, 0.550 (0.500 to 0.600) at infinite epsilon" in told_
    assert "real training rows (ceiling): 0.900" in told_


def test_every_generator_has_a_line_of_its_own():
    found = comparison(
        [run(f"{name}{epsilon}", generator=name, epsilon=epsilon) for name in "abcdefghi" for epsilon in (1.0, 3.0)]
    )
    drawn = plots.together(found["panels"][:1])
    strokes = set(re.findall(r"stroke: (#[0-9a-f]{6}); stroke-width: 1\.5", drawn))
    assert len(strokes) == 9


def test_the_best_is_named_only_where_intervals_lie_apart():
    panel = comparison(
        [run("a", auroc=0.8, interval=[0.7, 0.9]), run("b", generator="x", auroc=0.75, interval=[0.7, 0.8])]
    )
    assert "its lead over x may be chance" in sweep_page.best(panel["panels"][0])["text"]
    panel = comparison(
        [run("a", auroc=0.8, interval=[0.78, 0.9]), run("b", generator="x", auroc=0.7, interval=[0.6, 0.75])]
    )
    assert "may be chance" not in sweep_page.best(panel["panels"][0])["text"]


def test_a_lead_over_several_is_told_in_english_and_no_lead_is_an_answer():
    def runs(epsilon, **means):
        for name, mean in means.items():
            interval = [mean - 0.05, mean + 0.05]
            yield run(f"{name}{epsilon}", generator=name, epsilon=epsilon, auroc=mean, interval=interval)

    unclear = [*runs(1.0, a=0.6, b=0.59, c=0.58, d=0.57), *runs(3.0, a=0.6, b=0.61, c=0.4)]
    told = sweep_page.best(comparison(unclear)["panels"][0])
    assert "a with 0.600 (its lead over b, c and d may be chance)" in told["text"]
    assert "b with 0.610 (its lead over a may be chance)" in told["text"]
    assert told["verdict"] == "No generator leads by more than chance could explain"
    told = sweep_page.best(comparison([*runs(1.0, a=0.6, b=0.4), *runs(3.0, a=0.6, b=0.61)])["panels"][0])
    assert told["verdict"] == "It depends on epsilon"


def test_no_table_of_the_page_is_wider_than_a_screen():
    """Three targets of three measures would make eighteen columns, of which a screen cut the last ones."""
    wide = run("one")
    arms = {
        arm: {metric: summary(0.8) for metric in ("auroc", "auprc", "accuracy")}
        for arm in ("tstr", "trtr", "independent")
    }
    targets = {name: {**wide.result["targets"]["ill"], "average": arms} for name in ("ill", "readmitted", "stay")}
    text = sweep_page.html(comparison([replace(wide, result={**wide.result, "targets": targets})]))
    heads = [
        head.count("<th ") for head in re.findall(r'<table class="wide sortable">.*?</thead>', text, flags=re.DOTALL)
    ]
    assert len(heads) == 2 + 1
    assert max(heads) <= sweep_page.MOST_COLUMNS
    for title in ("AUROC, ill", "accuracy, stay", "Unit"):
        assert text.count(f">{title}</th>") == 1
