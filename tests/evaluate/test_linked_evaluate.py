"""Linked tables judged: the visits as histories, and beside them people, numbers of rows, and links."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from linked_clinic import clinic, finer, labs, schema, with_labs, with_tree

from synthdp.errors import BadInput
from synthdp.evaluate import (
    answers,
    association,
    evaluate,
    evaluate_tables,
    findings,
    numbers_by_code,
    write,
)
from synthdp.evaluate.figures import beyond_chance
from synthdp.evaluate.linked import _come_again, _onward, _rows_apart, codes_together
from synthdp.evaluate.run import owners_of
from synthdp.evaluate.tables import parts_of
from synthdp.schema.joined_tables import joined
from synthdp.schema.linked_tables import alone

QUICK = {"models": ["lr"], "seeds": 1, "attacks": False, "bootstrap": 20}


def judged(synthetic, monkeypatch):
    monkeypatch.setattr("synthdp.evaluate.detection.MOST_ROWS", 200)
    return evaluate_tables([synthetic], clinic(150, seed=1), clinic(80, seed=2), schema(), **QUICK)


def test_judging_in_python_says_what_to_call_and_which_options_there_are():
    frames = clinic(30, seed=1)
    with pytest.raises(BadInput, match=r"linked tables: synthdp\.evaluate\.evaluate_tables\("):
        evaluate(frames, frames, frames, schema())
    with pytest.raises(BadInput, match="no option 'target'; did you mean 'targets'"):
        evaluate_tables(frames, frames, frames, schema(), target=["visit.no_show"])


@pytest.mark.heavy
def test_what_visits_alone_do_not_show_is_judged(tmp_path, monkeypatch):
    frames = clinic(150, seed=3)
    result = judged(frames, monkeypatch)
    apart = result["linked"]["apart"]
    people = {"visits per person", "person.sex", "person.birth", "person.death"}
    assert set(apart) == {*people, "diagnosis per visit", "diagnosis.code"}
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
    page = (tmp_path / "page" / "evaluation.html").read_text(encoding="utf-8")
    for shown in (
        "Rows that link to nothing",
        "Histories of 10 synthetic people",
        "People without person.death",
        "after a",
    ):
        assert shown in page
    assert [each["event"] for each in result["histories"]["survival"]] == ["person.death"]
    assert result["histories"]["orders"]["tvd"] < 0.5


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
    with pytest.raises(BadInput, match="no visit of a person in its table of people"):
        judged(empty, monkeypatch)


def test_rows_below_visits_are_judged_alone_and_with_their_code():
    """Values that another test would have are found, and dates by their distance from the visit."""
    made, train, test = (labs(clinic(people, seed=seed), seed=seed) for people, seed in ((150, 3), (150, 1), (150, 2)))

    def apart(train=train, **changed):
        frames = {**made, "lab": made["lab"].assign(**changed)}
        checked = [with_labs().validate_tables(each, "clamp") for each in (frames, train, test)]
        whole = [joined(each, with_labs()) for each in checked]
        return _rows_apart([each.frame[each.there] for each in whole], with_labs().tables[-1], with_labs())

    found = apart()
    assert {"lab.test", "lab.value", "lab.taken", "lab.urgent", "lab.test, value"} <= set(found)
    assert max(found[name]["tvd"] for name in ("lab.test", "lab.value", "lab.taken", "lab.test, value")) < 0.25
    shuffled = apart(
        value=made["lab"]["value"].sample(frac=1, random_state=1).to_numpy(),
        taken=made["lab"]["taken"] + pd.Timedelta(20, "D"),
    )
    assert shuffled["lab.value"]["tvd"] < 0.25
    assert shuffled["lab.test, value"]["tvd"] > 0.4
    assert shuffled["lab.taken"]["tvd"] > 0.9
    timed = train["visit"].assign(start=train["visit"]["start"] + pd.Timedelta(14, "h"))
    assert apart(train={**train, "visit": timed}) == found, "the hours of visits that are declared as days mean nothing"


@pytest.mark.heavy
def test_rows_below_a_visit_are_counted_and_not_their_cells(monkeypatch):
    monkeypatch.setattr("synthdp.evaluate.detection.MOST_ROWS", 200)
    made, train, test = (labs(clinic(100, seed=seed), seed=seed) for seed in (3, 1, 2))
    apart = []
    for value in (made["lab"]["value"], np.nan):
        frames = {**made, "lab": made["lab"].assign(value=value)}
        apart.append(evaluate_tables([frames], train, test, with_labs(), **QUICK)["linked"]["apart"])
    assert apart[0]["lab per visit"] == apart[1]["lab per visit"]
    assert apart[1]["lab.value"]["tvd"] > 0.8


@pytest.mark.heavy
def test_codes_below_visits_are_compared_at_each_level_of_their_tree(monkeypatch):
    """Over all places of a row together. Of codes that a fit lost to their parents the finest level is wrong, and no other."""
    monkeypatch.setattr("synthdp.evaluate.detection.MOST_ROWS", 200)
    made, train, test = (finer(clinic(150, seed=seed), seed=seed) for seed in (3, 1, 2))
    for frames in (made, train, test):  # all rows of a visit count: of more, which do would hang on their codes
        frames["diagnosis"] = frames["diagnosis"].groupby("visit_id").head(2).reset_index(drop=True)
    lost = {**made, "diagnosis": made["diagnosis"].assign(code=made["diagnosis"]["code"].str[:3])}
    found = {}
    for name, frames in (("kept", made), ("lost", lost)):
        result = evaluate_tables([frames], train, test, with_tree(), **QUICK)
        assert list(result["fidelity"]["code_levels"]) == ["diagnosis.code"]
        found[name] = [level["tvd"] for level in result["fidelity"]["code_levels"]["diagnosis.code"]]
        assert result["linked"]["apart"]["diagnosis.code"]["tvd"] < 0.2, "at the level that was kept"
    assert found["lost"][:2] == pytest.approx(found["kept"][:2], rel=1e-12), (
        "but for the order in which shares are added"
    )
    assert found["lost"][2] > 0.9 > 0.2 > found["kept"][2]


@pytest.mark.heavy
def test_laboratory_values_are_followed_from_visit_to_visit_within_a_test():
    """A person's values lie high or low in every test; among synthetic people they follow nothing, however different the tests are."""

    def made(seed, own):
        frames = labs(clinic(400, seed=seed), seed=seed)
        person = frames["lab"].merge(frames["visit"], on="visit_id")["person_id"]
        level = person.map(
            dict(zip(frames["person"]["person_id"], np.random.default_rng(seed).normal(0, 6, 400), strict=True))
        )
        frames["lab"]["value"] = (frames["lab"]["value"] + own * level.to_numpy()).clip(0, 100).round(2)
        return frames

    sets = made(3, 0), made(1, 1), made(2, 1)
    whole = [joined(with_labs().validate_tables(each, "clamp"), with_labs()) for each in sets]
    found = _onward([each.frame[each.there] for each in whole], with_labs().tables[-1], with_labs())
    codes, pair = found
    assert codes["last"] == codes["present"] == "lab.test"
    assert max(abs(codes[role]) for role in ("synthetic", "train", "test")) < 0.1, (
        "tests are taken whatever was taken before"
    )
    assert pair["last"] == "lab.value of the same test"
    assert pair["present"] == "lab.value"
    assert abs(pair["synthetic"]) < 0.15
    assert pair["train"] > 0.2 < pair["test"]

    kept = with_labs().validate_tables(sets[1], "clamp")
    rows = kept["visit"].merge(kept["lab"], on="visit_id").sort_values("start", kind="stable")
    rows = rows[rows.groupby("visit_id").cumcount() < 3].dropna(subset="value")
    rows["rank"] = rows.groupby("test")["value"].rank(pct=True)
    pairs = []
    for _, each in rows.groupby(["person_id", "test"]):
        first = each.drop_duplicates("start")["rank"].to_numpy()
        pairs += [*pairwise(first)]
    assert np.corrcoef(np.array(pairs).T)[0, 1] == pytest.approx(pair["train"], abs=0.06), "by a loop, over all visits"
    lost = findings.lost_associations({}, {"onward": {"pairs": found}})
    assert [each.what for each in lost] == ["lab.value and the last lab.value of the same test"]


def test_values_that_are_the_last_ones_far_too_often_are_invented():
    """Most synthetic values of a test are the person's last value of it; of real ones, hardly any. Both go on from visit to visit."""

    def made(seed, equal):
        frames = labs(clinic(300, seed=seed), seed=seed)
        rows = frames["lab"].merge(frames["visit"], on="visit_id").sort_values("start", kind="stable")
        level = rows["person_id"].map(
            dict(zip(frames["person"]["person_id"], np.random.default_rng(seed).normal(0, 9, 300), strict=True))
        )
        rows["value"] = (rows["value"] + level).clip(0, 100).round(2)
        first = rows.groupby(["person_id", "test"])["value"].transform("first")
        rows["value"] = rows["value"].mask(np.random.default_rng(seed).random(len(rows)) < equal, first)
        return {**frames, "lab": rows[list(frames["lab"])]}

    def found(equal):
        sets = [
            with_labs().validate_tables(made(seed, often), "clamp")
            for seed, often in ((3, equal), (1, 0.05), (2, 0.05))
        ]
        whole = [joined(each, with_labs()) for each in sets]
        visits = [each.frame[each.there].reset_index(drop=True) for each in whole]
        return {"onward": {"pairs": _onward(visits, with_labs().tables[-1], with_labs())}}, visits[0]

    histories, rows = found(0.8)
    (finding,) = findings.invented_associations({}, histories)
    assert finding.what == "lab.value and the last lab.value of the same test (how often they are equal)"
    assert finding.synthetic > 0.5 > 0.15 > finding.real
    (_, pair) = histories["onward"]["pairs"]
    assert min(pair[role] for role in ("synthetic", "train", "test")) > 0.3, "all go on"
    told = dict(answers.brief({"about": {}, "fidelity": {}, "targets": {}, "histories": histories}))["invented"]
    assert told.startswith(
        "associations that are too strong: lab.value and the last lab.value of the same test (how often"
    )
    answer = answers.faithful(CLOSE, findings.worst({}, histories))
    assert "invents a strong association" in answer.verdict.words
    assert f"is farthest off: {finding.real:.2f} among real rows, {finding.synthetic:.2f}" in answer.text
    rows = rows.sort_values(["person_id", "visit.start"], kind="stable")
    equal = []
    for _, each in rows.groupby("person_id"):
        last = {}
        for _, visit in each.iterrows():
            here = {}
            for place in (1, 2, 3):
                code, value = visit[f"lab.test {place}"], visit[f"lab.value {place}"]
                if pd.notna(code) and pd.notna(value):
                    here.setdefault(code, value)
            equal += [value == last[code] for code, value in here.items() if code in last]
            last |= here
    assert np.mean(equal) == pytest.approx(pair["same"]["synthetic"], abs=0.03), "by a loop; by chance, hardly any is"
    histories, _ = found(0.05)
    assert findings.invented_associations({}, histories) == []
    assert "invented" not in findings.worst({}, histories)


def test_codes_that_come_again_are_told_from_those_that_do_not():
    """Beyond chance: a quarter of all visits have each code."""
    rng = np.random.default_rng(0)
    people, visits = 2000, np.arange(4000)
    sets, shares = [], (0.5, 1.0, 0.75)
    for share in shares:
        first = rng.integers(0, 4, people)
        second = np.where(rng.random(people) < share, first, rng.integers(0, 4, people))
        codes = np.stack([first, second], 1).reshape(-1)
        frame = pd.DataFrame({"person_id": np.repeat(np.arange(people), 2).astype(str), "visit.start": visits})
        frame["lab.test 1"] = np.array(["a", "b", "c", "d"], object)[codes]
        for place in (2, 3):
            frame[f"lab.test {place}"] = None
        sets.append(frame)
    table = with_labs().tables[-1]
    found = [_come_again(frame, table, with_labs(), "test").value for frame in sets]
    assert found == pytest.approx(shares, abs=0.04)
    sets[0]["person_id"] = visits.astype(str)
    assert not len(_come_again(sets[0], table, with_labs(), "test").owner), "nobody has a second visit"


def by_code(changed=lambda rows: rows, real=lambda rows: rows):
    """Laboratory values by test, as judged; what was not judged; and the training rows."""
    sets = []
    for seed, change in ((3, changed), (1, real), (2, real)):
        frames = labs(clinic(200, seed=seed), seed=seed)
        rows = frames["lab"].groupby("visit_id").head(3).reset_index(drop=True)
        sets.append(with_labs().validate_tables({**frames, "lab": change(rows)}, "clamp"))
    whole = [joined(each, with_labs()) for each in sets]
    found = numbers_by_code.numbers_by_code(
        [each.frame[each.there] for each in whole], with_labs().tables[-1], with_labs()
    )
    return *found, sets[1]["lab"]


def of_test(name, value):
    """Rows whose values of one test are others."""
    return lambda rows: rows.assign(value=rows["value"].where(rows["test"] != name, value))


def test_numbers_lie_where_they_should_for_each_code():
    (column,), lacking, rows = by_code()
    assert (column["column"], column["by"], lacking) == ("lab.value", "lab.test", [])
    assert [code["code"] for code in column["codes"]] == ["CRP", "Hb", "K"], "the most frequent first"
    for code in column["codes"]:
        own = rows.loc[rows["test"] == code["code"], "value"].astype(float)
        assert code["rows"]["train"] == len(own)
        assert code["missing"]["train"] == pytest.approx(own.isna().mean())
        assert code["quantiles"]["train"] == pytest.approx(own.quantile([0.1, 0.5, 0.9]).tolist())
        low, _, high = code["quantiles"]["train"]
        far = np.abs(np.subtract(code["quantiles"]["synthetic"], code["quantiles"]["train"])).mean()
        assert code["distance"] == pytest.approx(far / (high - low))
        assert code["distance"] < 0.2 > code["real"]
        assert code["outside"]["synthetic"] < 0.03
    assert column["distance"] == pytest.approx(np.mean([code["distance"] for code in column["codes"]]))
    assert not findings.worst({}, linked={"numbers": [column]})


def test_numbers_outside_the_real_range_of_their_code_are_counted():
    """One in ten values of Hb is that of another test: no quantile from 10 % to 90 % moves far, but people notice."""

    def change(rows):
        tenth = (rows["test"] == "Hb") & (np.arange(len(rows)) % 10 == 0)
        return rows.assign(value=rows["value"].mask(tenth, 99.0))

    (column,), _, rows = by_code(change)
    (code,) = (code for code in column["codes"] if code["code"] == "Hb")
    assert rows.loc[rows["test"] == "Hb", "value"].astype(float).max() < 99
    assert 0.05 < code["outside"]["synthetic"] < 0.2
    assert code["outside"]["test"] < 0.03
    code["rows"]["train"] *= 100  # which are too few to name it
    assert (
        "lab.value of lab.test = Hb lie outside the range"
        in dict(answers.brief({"about": {}, "fidelity": {}, "targets": {}, "linked": {"numbers": [column]}}))["outside"]
    )


def told(column):
    """What a terminal is told of its numbers."""
    return dict(answers.brief({"about": {}, "fidelity": {}, "targets": {}, "linked": {"numbers": [column]}}))["numbers"]


def test_a_code_whose_numbers_are_wrong_is_named():
    """The values of K are those of another test, which neither the codes nor the values alone show."""
    (column,), _, _ = by_code(of_test("K", 50.0))
    wrong = {code["code"]: code["distance"] for code in column["codes"]}
    assert wrong["K"] > 2 > 0.2 > max(wrong["CRP"], wrong["Hb"])
    said = told(column)
    assert said.startswith(
        "lab.value of lab.test = K is farthest off: 10 %, 50 % and 90 % of synthetic ones lie below 50 / 50 / 50, of real ones below "
    )
    assert "more code" not in said
    (column,), _, _ = by_code(lambda rows: rows.assign(value=100.0 - rows["value"]))
    assert told(column).endswith(", and one more code is far off"), "Hb lies in the middle"


@pytest.mark.heavy
def test_few_rows_or_numbers_of_a_code_tell_no_quantiles():
    (column,), _, _ = by_code(of_test("K", np.nan))
    (gone,) = [code for code in column["codes"] if code["code"] == "K"]
    assert gone["quantiles"]["synthetic"] is gone["distance"] is None
    assert gone["missing"]["synthetic"] == 1.0
    assert column["distance"] is not None, "of the other codes"
    (column,), _, _ = by_code(lambda rows: rows[rows["test"] != "K"])
    (lost,) = [code for code in column["codes"] if code["code"] == "K"]
    assert (lost["rows"]["synthetic"], lost["missing"]["synthetic"], lost["distance"]) == (0, None, None)
    (column,), _, _ = by_code(real=of_test("K", np.nan))
    (empty,) = [code for code in column["codes"] if code["code"] == "K"]
    assert empty["quantiles"]["train"] is empty["distance"] is None
    (column,), _, _ = by_code(real=lambda rows: rows[(rows["test"] != "K") | (rows.index < 100)])
    assert [code["code"] for code in column["codes"]] == ["CRP", "Hb"], "with fewer than 50 real rows no code is shown"
    found, lacking, _ = by_code(real=lambda rows: rows.iloc[:60])
    assert not found
    assert lacking == [
        {"metric": "linked.numbers.lab.value", "reason": "no code of lab.test has 50 real training rows"}
    ]


def test_numbers_that_do_not_vary_are_judged_by_their_size():
    (column,), _, _ = by_code(of_test("K", 20.0), real=of_test("K", 1.0))
    (code,) = [code for code in column["codes"] if code["code"] == "K"]
    assert (code["distance"], code["real"]) == (19.0, 0.0)


@pytest.mark.heavy
def test_that_no_value_can_be_followed_is_said(monkeypatch):
    frames = clinic(150, seed=3)
    frames["visit"] = frames["visit"].drop_duplicates("person_id").reset_index(drop=True)
    frames["diagnosis"] = frames["diagnosis"][frames["diagnosis"]["visit_id"].isin(frames["visit"]["visit_id"])]
    result = judged(frames, monkeypatch)
    assert result["histories"]["onward"] is None
    assert "histories.onward" in [each["metric"] for each in result["not_computed"]]


def with_lactate(seed, people=250, tied=True, labelled=False):
    """The clinic with values of K that are high where a visit was missed and low for women, if they are `tied`; values of Hb follow
    nothing, unless they are `labelled` by the ward."""
    frames, rng = labs(clinic(people, seed=seed), seed=seed), np.random.default_rng(seed)
    rows = frames["lab"].merge(frames["visit"], on="visit_id").merge(frames["person"], on="person_id")
    value = rng.normal(20, 4, len(rows)) + tied * (6 * rows["no_show"] - 5 * (rows["sex"] == "F"))
    value = value.where(rows["test"] == "K", 50 + 9 * labelled * (rows["ward"] == "a") + rng.normal(0, 3, len(rows)))
    return {**frames, "lab": rows[list(frames["lab"])].assign(value=value.clip(0, 100).round(2))}


def beside_numbers(*sets):
    whole = [joined(with_labs().validate_tables(each, "clamp"), with_labs()) for each in sets]
    frames = [each.frame[each.there].reset_index(drop=True) for each in whole]
    parts = parts_of(frames[:1], *frames[1:], alone(with_labs()))
    each = zip(frames, parts.three, owners_of(frames, with_labs()).values(), strict=True)
    visits = dict(zip(("synthetic", "train", "test"), map(numbers_by_code.Visits._make, each), strict=True))
    return {"numbers_by_code": numbers_by_code.related(visits, with_labs())}


def test_numbers_of_a_code_that_no_longer_go_with_the_visit_or_the_person_are_named():
    """No figure showed it: the values of K lie where they should, and over all codes together little goes with the visit."""
    fidelity = beside_numbers(with_lactate(3, tied=False), with_lactate(1), with_lactate(2))
    lost = {each.what: each for each in findings.lost_associations(fidelity)}
    assert set(lost) == {"lab.value of lab.test = K and visit.no_show", "lab.value of lab.test = K and person.sex"}
    made, train = with_lactate(3, tied=False), with_lactate(1)
    for each, figure in ((made, "synthetic"), (train, "real")):
        kept = with_labs().validate_tables(each, "clamp")
        rows = kept["lab"].groupby("visit_id").head(3).merge(kept["visit"], on="visit_id")
        rows = rows[(rows["test"] == "K") & rows["value"].notna()]
        missed = pd.factorize(rows["no_show"].astype(bool))[0]
        by_hand = association.correlation_ratio(missed, rows["value"].astype(float).rank().to_numpy())
        assert getattr(lost["lab.value of lab.test = K and visit.no_show"], figure) == pytest.approx(
            by_hand, abs=0.05
        ), "but for visits with more rows than count"
    told = dict(answers.brief({"about": {}, "fidelity": fidelity, "targets": {}}))["associations"]
    assert "half or more: lab.value of lab.test = K and person.sex 0." in told
    assert "loses 2 strong associations" in answers.faithful(CLOSE, findings.worst(fidelity)).verdict.words


def test_numbers_of_a_code_that_go_with_the_visit_too_strongly_are_named():
    fidelity = beside_numbers(with_lactate(3, labelled=True), with_lactate(1), with_lactate(2))
    named = [each.what for each in findings.invented_associations(fidelity)]
    assert "lab.value of lab.test = Hb and visit.ward" in named
    assert not any("K" in what for what in named)
    assert not findings.lost_associations(fidelity)
    same = beside_numbers(with_lactate(3), with_lactate(1), with_lactate(2))
    assert not findings.lost_associations(same)
    assert not findings.invented_associations(same)


def drugs(frames, seed, given):
    """Two drugs: metformin at a share `given` of the visits with E11, and another at two fifths of all visits; some rows occur twice."""
    rng = np.random.default_rng(seed)
    diabetic = frames["visit"]["visit_id"].isin(frames["diagnosis"].query("code == 'E11'")["visit_id"])
    rows = [
        (visit, name)
        for visit, has in zip(frames["visit"]["visit_id"], diabetic, strict=True)
        for name, often in (("metformin", given if has else 0.02), ("paracetamol", 0.4))
        if rng.random() < often
    ]
    rows += rows[:10]
    return {**frames, "drug": pd.DataFrame(rows, columns=["visit_id", "name"])}


def together(given):
    drug = {"kind": "categorical", "categories": ["metformin", "paracetamol"]}
    described = schema(tables={"drug": {"parent": "visit", "max_rows": 4, "columns": {"name": drug}}})
    sets = [drugs(clinic(300, seed=seed), seed, often) for seed, often in ((3, given), (1, 0.95), (2, 0.95))]
    whole = [joined(described.validate_tables(each, "clamp"), described) for each in sets]
    visits = [each.frame[each.there] for each in whole]
    return list(codes_together(visits, described)), visits


def having(visits, start, code):
    """Which visits have this code in a place of the table."""
    return visits[[name for name in visits if name.startswith(f"{start} ")]].eq(code).any(axis=1)


def test_a_drug_that_is_lost_beside_its_diagnosis_is_named():
    found, (made, train, _) = together(0.3)
    by_columns = {tuple(each["columns"]): each["pairs"] for each in found}
    pairs = by_columns["diagnosis.code", "drug.name"]
    first = pairs[0]
    assert (first["code"], first["other"]) == ("E11", "metformin")
    for name, visits in (("train", train), ("synthetic", made)):
        diabetic = having(visits, "diagnosis.code", "E11")
        assert first[name] == pytest.approx(having(visits, "drug.name", "metformin")[diabetic].mean())
    assert first["visits"] == having(train, "diagnosis.code", "E11").sum()
    assert first["chance"] == pytest.approx(having(train, "drug.name", "metformin").mean())
    assert first["train"] > 0.9 > 0.4 > first["synthetic"]
    own = by_columns.get(("diagnosis.code", "diagnosis.code"), [])
    assert len({frozenset((pair["code"], pair["other"])) for pair in own}) == len(own), "each pair once"
    assert all(pair["code"] != pair["other"] for pair in own)
    close = {"tvd_1way": {"mean": 0, "floor": {"mean": 0}}}
    lost = findings.worst(close, linked={"together": found})
    said = answers.faithful(close, lost).text
    assert " % of synthetic visits with diagnosis.code = E11 have drug.name = metformin; 9" in said
    assert " % of real ones do" in said
    assert not findings.worst({}, linked={"together": together(0.9)[0]})


def test_pairs_of_codes_with_few_visits_are_not_judged():
    found, _ = together(0.3)
    (pairs,) = [each["pairs"] for each in found if each["columns"] == ["diagnosis.code", "drug.name"]]
    assert all(pair["visits"] >= 50 for pair in pairs)
    kept = {"person", "visit"}
    sets = [
        {name: rows if name in kept else rows[:0] for name, rows in clinic(60, seed=seed).items()} for seed in (1, 2, 3)
    ]
    whole = [joined(schema().validate_tables(each, "clamp"), schema()) for each in sets]
    assert not list(codes_together([each.frame[each.there] for each in whole], schema())), "no codes at all"
    few = [{**each, "pairs": [{**pair, "synthetic": None} for pair in each["pairs"]]} for each in found]
    assert not findings.worst({}, linked={"together": few})


CLOSE = {"tvd_1way": {"mean": 0, "floor": {"mean": 0}}}


@pytest.mark.parametrize(("made", "named", "fault"), [(0.02, False, False), (0.16, True, False), (0.31, True, True)])
def test_codes_that_people_of_the_wrong_age_have_are_named(made, named, fault):
    rows = [
        {"code": "I10", "ages": "under 18", "synthetic": made, "train": 0.0, "test": 0.01},
        {"code": "I10", "ages": "80 and over", "synthetic": 0.7, "train": 0.75, "test": 0.5},
    ]
    ever = [{"column": "diagnosis.code", "by_age": {"farthest": rows}}, {"column": "drug.name", "by_age": None}]
    found = findings.worst({}, {"ever": [{**each, "distance": 0.0, "real": 0.0} for each in ever]})
    assert ("ages" in found) == named
    answer = answers.faithful(CLOSE, found)
    who = "synthetic people aged under 18 at their first visit"
    said = f"{100 * made:.1f} % of {who} ever have diagnosis.code = I10; 0.0 % of real ones do."
    assert (said in answer.text) == named
    assert ("wrong age" in answer.verdict.words) == fault


def test_shares_differ_beyond_chance_if_few_pairs_of_samples_would():
    rng = np.random.default_rng(0)
    for share, people in ((0.02, 400), (0.3, 40), (0.6, 2000)):
        one, other = rng.binomial(people, share, (2, 20_000)) / people
        assert beyond_chance(one, people, other, people).mean() < 5e-4
    assert beyond_chance(0.14, 300, 0.51, 300)
    assert not beyond_chance(0.14, 20, 0.40, 20)


@pytest.mark.parametrize(("made", "named"), [(19, True), (41, False), (199, False), (241, True)])
@pytest.mark.parametrize("train", [100, 19])
def test_an_event_that_far_too_few_or_too_many_people_have_is_named(made, named, train):
    people = {"synthetic": 1000, "train": 10 * train, "test": 100}
    curve = {"event": "person.death", "people": people, "events": {"synthetic": made, "train": train, "test": 8}}
    found = findings.worst({}, {"survival": [{**curve, "distance": 0.0, "real": 0.0}]})
    named = named and train >= 20
    assert ("event" in found) == named
    answer = answers.faithful(CLOSE, found)
    said = f"{made / 10:.1f} % of synthetic people have the event person.death; 10.0 % of real ones do."
    assert (said in answer.text) == named == ("gets the number of events wrong" in answer.verdict.words)


def test_associations_below_visits_are_named_without_the_places_of_their_rows():
    names = [
        "person.birth",
        "stage 2",
        "diagnosis.code 1",
        "diagnosis.code 2",
        "drug.name 1",
        "drug.name 2",
        "diagnosis.code 3",
    ]
    zero, one = np.zeros((7, 7)).tolist(), np.full((7, 7), 0.5).tolist()
    fidelity = {"correlation_difference": {"names": names, "synthetic": zero, "train": one}}
    linked = {"apart": {"diagnosis.code": {}, "drug.name": {}, "diagnosis.code, kind": {}}}
    lost = [each.what for each in findings.lost_associations(fidelity, None, linked)]
    assert lost == [
        "person.birth and stage 2",
        "person.birth and diagnosis.code",
        "stage 2 and diagnosis.code",
        "diagnosis.code of two rows of a visit",
        "person.birth and drug.name",
        "stage 2 and drug.name",
        "diagnosis.code and drug.name",
        "drug.name of two rows of a visit",
    ]


def test_the_verdict_counts_the_pairs_of_codes_that_are_lost():
    pair = {"code": "E11", "other": "metformin", "chance": 0.1, "train": 0.8, "test": 0.8}
    for made, words in (((0.2, 0.7), "loses a strong association"), ((0.2, 0.1), "loses 2 strong associations")):
        pairs = [{**pair, "synthetic": each} for each in made]
        found = findings.worst({}, linked={"together": [{"columns": ["diagnosis.code", "drug.name"], "pairs": pairs}]})
        verdict = answers.faithful(CLOSE, found).verdict.words
        assert verdict.endswith(f", and {words}")
        both = answers.faithful(
            CLOSE, found | {"ages": findings.Finding("ages", "people", 0.5, 0.1, fault=True)}
        ).verdict
        assert both.words == verdict.replace(", and", ",") + ", and gives codes to people of the wrong age"
