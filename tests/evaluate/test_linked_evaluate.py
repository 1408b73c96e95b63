"""Linked tables judged: the visits as histories, and beside them people, numbers of rows, and links."""

import numpy as np
import pytest
from linked_clinic import clinic, schema

from synthdp.errors import BadInput
from synthdp.evaluate import evaluate_tables, write

QUICK = {"models": ["lr"], "seeds": 1, "attacks": False, "bootstrap": 20}


def judged(synthetic, monkeypatch):
    monkeypatch.setattr("synthdp.evaluate.detection.MOST_ROWS", 200)
    return evaluate_tables([synthetic], clinic(150, seed=1), clinic(80, seed=2), schema(), **QUICK)


@pytest.mark.heavy
def test_what_visits_alone_do_not_show_is_judged(tmp_path, monkeypatch):
    frames = clinic(150, seed=3)
    result = judged(frames, monkeypatch)
    apart = result["linked"]["apart"]
    assert set(apart) == {"visits per person", "person.sex", "person.birth", "person.death", "diagnosis per visit"}
    held, number = clinic(150, seed=1), {}
    for name, tables in (("made", frames), ("real", held)):
        counts = tables["person"]["person_id"].map(tables["visit"]["person_id"].value_counts()).fillna(0)
        number[name] = np.bincount(counts.astype(int), minlength=7) / 150
    assert apart["visits per person"]["tvd"] == pytest.approx(np.abs(number["made"] - number["real"]).sum() / 2)
    shares = [tables["person"]["sex"].eq("F").mean() for tables in (frames, held)]
    assert apart["person.sex"]["tvd"] == pytest.approx(abs(shares[0] - shares[1]))
    assert [each["orphans"] + each["duplicates"] for each in result["linked"]["links"]] == [0, 0, 0]
    assert result["targets"]["visit.no_show"]
    assert "transitions" in result["histories"]
    write(result, tmp_path / "page")
    assert "Rows that link to nothing" in (tmp_path / "page" / "evaluation.html").read_text(encoding="utf-8")


@pytest.mark.heavy
def test_people_without_visits_and_broken_links_are_found(monkeypatch):
    frames = clinic(150, seed=3)
    some = frames["person"]["person_id"].isin(frames["visit"]["person_id"])
    frames["person"] = frames["person"][some].reset_index(drop=True)
    frames["visit"].loc[0, "visit_id"] = frames["visit"]["visit_id"][1]
    frames["diagnosis"].loc[0, "visit_id"] = "nosuch"
    result = judged(frames, monkeypatch)
    assert result["linked"]["apart"]["visits per person"]["tvd"] > 0.15
    links = {each["table"]: each for each in result["linked"]["links"]}
    assert links["visit"]["duplicates"] == 2
    assert links["diagnosis"]["orphans"] >= 1
    empty = {**frames, "visit": frames["visit"].iloc[:0]}
    with pytest.raises(BadInput, match="no visit of anybody"):
        judged(empty, monkeypatch)
