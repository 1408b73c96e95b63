"""The internal page: each figure is of the JSON, absent parts make no section, it lets nothing in and is stamped."""

import base64
import copy
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser

import pytest
from judged import judged
from linked_clinic import VISIT
from linked_clinic import schema as clinic_schema

from synthdp import Schema
from synthdp.cli.evaluations import headline
from synthdp.errors import BadInput
from synthdp.evaluate import answers, faithfulness, figures, findings
from synthdp.evaluate import evaluation_page as pages
from synthdp.evaluate.evaluation_page import STAMP, html, write
from synthdp.evaluate.figures import exact, figure, number, percent


class Page(HTMLParser):
    """Tags with their attributes, table cells and the answers' figures as (value to sort by, text), and the headings."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.headings, self.text, self._open = [], [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("dd", "h2") or (tag == "td" and dict(attrs).get("class") == "n"):
            self._open.append((tag, dict(attrs).get("data-value", ""), []))

    def handle_endtag(self, tag):
        if self._open and self._open[-1][0] == tag:
            _, value, parts = self._open.pop()
            kept = "".join(parts).strip()
            self.headings.append(kept) if tag == "h2" else self.cells.append((value, kept))

    def handle_data(self, data):
        self.text += data
        for *_, parts in self._open:
            parts.append(data)

    def named(self, tag):
        return [attrs for found, attrs in self.tags if found == tag]


def nodes(document):
    """Every number and every summary of a JSON document."""
    if isinstance(document, dict):
        if not isinstance(document.get("mean", document.get("value", {})), dict):
            yield document
        if "gap" in document:
            yield {"mean": document["gap"], "interval": document["gap_interval"]}
        document = list(document.values())
    if isinstance(document, list):
        for item in document:
            yield from nodes(item)
    elif isinstance(document, int | float):
        yield document


def faithful(*parts):
    """The answer on likeness to parts of a result: fidelity, histories and linked tables."""
    return answers.faithful(parts[0], findings.worst(*parts))


def with_intervals(document):
    """Numbers whose interval lies beside them."""
    for target in document["targets"].values():
        for key in ("kendall", "regret") if "ranks" in target else ():
            yield {"value": target["ranks"][key], "interval": target["ranks"][f"{key}_interval"]}


def shown_by(document):
    """The cells that a page may have of the document: (value to sort by, text)."""
    found = set()
    for node in [*nodes(document), *with_intervals(document)]:
        found |= {(exact(node), figure(node).striptags()), ("", figure(node).striptags())}
        if isinstance(node, float):
            found |= {(exact(node), percent(node))}
    return found


@pytest.fixture(scope="module")
def result():
    return judged()


@pytest.fixture(scope="module")
def text(result):
    return html(result)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.mark.heavy
def test_each_figure_of_the_tables_is_in_the_json(result, page, no_plots, tmp_path):
    data, _ = write(result, tmp_path)
    document = json.loads(data.read_text(encoding="utf-8"))
    printed = [cell for cell in page.cells if cell[1] and re.match(r"[-\d]", cell[1])]
    assert len(printed) > 300
    assert not set(printed) - shown_by(document)
    other = shown_by(judged(seed=1))
    assert sum(cell in other for cell in printed) < len(printed) / 10, "the figures of another result would do as well"


def test_a_truth_value_is_named_with_a_word_on_what_the_file_has(result, no_plots):
    name = next(name for name, each in result["targets"].items() if each["positive"] is not None)
    of_truths = {**result["targets"][name], "positive": "True"}
    told = "AUPRC and F1 are given for the class <q>True</q>, whatever word the file uses for it."
    assert told in html({**result, "targets": {**result["targets"], name: of_truths}})
    assert told not in html({**result, "targets": {name: {**of_truths, "positive": "ill"}}})


def test_names_that_end_in_a_full_stop_bring_it_to_the_end_of_a_sentence(result):
    """A class of type "Prog." was "the class Prog..", and so were verdicts that end in a name."""
    name = next(name for name, each in result["targets"].items() if each["positive"] is not None)
    found = copy.deepcopy(result)
    found["targets"] = {f"{at} Prog.": {**found["targets"][name], "positive": "Prog."} for at in "abc"}
    for entry in found["targets"].values():
        for group in entry.get("subgroups", {}).values():
            for level in group["levels"]:
                level["level"] = "Prog."
    page = Page(html(found))
    assert "AUPRC and F1 are given for the class Prog. against the other." in page.text
    assert "The worst of them is a Prog. The figures" in page.text
    assert not re.search(r"[a-z]\.\.(?!\.)", page.text)


def test_each_figure_of_the_json_that_has_a_place_is_shown(result, text):
    entry = result["targets"]["income"]
    groups = [g for target in result["targets"].values() for g in target["subgroups"].values()]
    summaries = [
        *(
            s
            for arm in (entry["tstr"], entry["trtr"], entry["floors"]["independent"])
            for m in arm.values()
            for s in m.values()
        ),
        *entry["floors"]["majority"].values(),
        *(
            level[arm]
            for group in groups
            for level in group["levels"]
            if "reason" not in level
            for arm in ("tstr", "trtr")
        ),
        *(item for attack in result["attacks"] for item in attack["figures"]),
        *(part for key, found in result["fidelity"].items() if key != "rules" for part in (found, found["floor"])),
        *(
            result["fidelity"][key]["columns"][name]
            for key in ("wasserstein", "missingness")
            for name in ("age", "weight <kg>")
        ),
    ]
    assert all(figure(value) in text for value in summaries)
    for target in result["targets"].values():
        for group in target["subgroups"].values():
            assert all(number(level["gap"]) in text for level in group["levels"] if "gap" in level)


def test_an_interval_stands_beside_each_score(result):
    mean = result["targets"]["income"]["tstr"]["lr"]["auroc"]
    low, high = mean["interval"]
    assert figure(mean).striptags() == f"{mean['mean']:.3f} [{low:.3f}, {high:.3f}]"
    spread = {key: value for key, value in mean.items() if key != "interval"}
    assert figure(spread) == f"{mean['mean']:.3f} ± {mean['sd']:.3f}"
    assert figure({**mean, "interval": None}) == figure(spread)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12349, "0.123"),
        (-0.0004, "-0.000"),
        (12.3456, "12.35"),
        (123.456, "123.5"),
        (12345.6, "12,346"),
        (7, "7"),
        (0.0, "0.000"),
    ],
)
def test_numbers_are_as_long_as_they_need(value, text):
    assert number(value) == text


def test_sections_are_those_that_the_result_has(result, page):
    assert page.headings[:2] == ["Can I use it?", "Can I share it?"]
    assert len(page.headings) == 2 + 3 + 6 + 1 + 2
    anchors = [attrs["href"].removeprefix("#") for attrs in page.named("a")]
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert set(anchors) <= set(ids)
    assert len(ids) == len(set(ids))
    assert [attrs["id"] for attrs in page.named("h2") if "id" in attrs] == anchors[1:], (
        "contents in order, after the skip link"
    )


@pytest.fixture
def no_plots(monkeypatch):
    """Plots are drawn but not written, which takes a second a page."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda _, buffer, **__: buffer.write("<svg></svg>"))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("part", "heading"),
    [
        ("attacks", "Attacks"),
        ("columns", None),
        *((f"fidelity.{key}", None) for key in judged()["fidelity"] if key != "rules"),
        ("fidelity.rules", "Rules"),
        *((f"targets.income.{key}", None) for key in ("ranks", "subgroups", "calibration")),
        ("about.claim", None),
    ],
)
def test_an_absent_part_makes_no_section_and_no_error(result, no_plots, part, heading):
    less = copy.deepcopy(result)
    node = less
    *way, last = part.split(".")
    for step in way:
        node = node[step]
    del node[last]
    if part == "fidelity.tvd_1way":  # the columns' distances are its own
        del less["columns"]
    page = Page(html(less))
    assert not heading or not [found for found in page.headings if found.startswith(heading)]


def test_a_result_of_nothing_is_a_page(result):
    about = result["about"]
    log = [{"metric": "utility", "reason": "no target is declared"}]
    page = Page(html({"schema_version": 2, "targets": {}, "fidelity": {}, "not_computed": log, "about": about}))
    assert page.headings == ["Can I use it?", "Can I share it?", "What was not computed, and why", "About this page"]


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("detection_auc", "detection of synthetic rows"),
        ("attacks.membership_distance", "attack (membership distance)"),
        ("tstr.home_ward.hgb", "models trained on synthetic records (home_ward.hgb)"),
        ("histories.told.person.sex", "prediction from the past (person.sex)"),
        ("means", "means of numeric columns"),
        ("another", "another"),
    ],
)
def test_what_was_not_computed_is_called_by_its_name_in_words(metric, words, result):
    log = [{"metric": metric, "reason": "there are no rows"}]
    nothing = {"schema_version": 2, "targets": {}, "fidelity": {}, "not_computed": log, "about": result["about"]}
    assert f"{words}: there are no rows." in Page(html(nothing)).text
    assert f"not computed        {words}: there are no rows" in headline(nothing)


def test_the_page_is_stamped_and_lets_nothing_in(text, page):
    assert "contains statistics of real records. Do not release" in STAMP
    body = text[text.index("<body>") :]
    assert body.count(STAMP) == 2
    assert body.index(STAMP) < body.index("<main") < body.index("</main>") < body.rindex(STAMP)
    printed = text[text.index("@page {\n") : text.index("</style>")]
    assert f'@top-center {{ content: "{STAMP}"' in printed
    assert not {"link", "img", "iframe", "object", "form", "base"} & {tag for tag, _ in page.tags}
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    policy = next(
        attrs["content"] for attrs in page.named("meta") if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy
    assert not re.search(r"https?://(?!www\.w3\.org/)", body)
    assert not re.findall(r"url\((?!#)", text)
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]


def test_names_are_escaped(text):
    assert "weight <kg>" not in text
    assert "weight &lt;kg&gt;" in text


def test_tables_and_plots_can_be_read_aloud(page):
    tables, boxes = page.named("table"), [a for a in page.named("div") if a.get("class") == "scroll"]
    assert all(attrs["class"].split()[:2] in (["sortable"], ["sortable", "stacked"]) for attrs in tables)
    assert len(page.named("caption")) == len(tables)
    assert all(attrs["tabindex"] == "0" and attrs["role"] == "region" and attrs["aria-label"] for attrs in boxes)
    assert all(attrs.get("scope") for attrs in page.named("th"))
    plots = page.named("svg")
    assert len(plots) == 5 + 1 + 1 + 1 + 4 + 2
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 30 for attrs in plots)
    assert len(page.named("title")) == 1 + len(plots)
    assert len(page.named("desc")) == len(plots)


def test_what_sorts_a_cell_is_its_full_value(result, text):
    mean = result["targets"]["income"]["tstr"]["lr"]["auroc"]["mean"]
    assert f'data-value="{mean!r}"' in text


def test_the_first_screen_names_who_loses_most(result):
    use, share = pages.first_screen(result)
    whom = next(answer for answer in use["answers"] if answer["question"] == "For whom does it fail?")
    target, column, group, level = findings.worst_group(result["targets"])
    assert level["level"] == group["worst"]
    assert whom["verdict"] == f"The largest loss is for {column} = {level['level']} when predicting {target}"
    assert "epsilon 1, delta 1e-05, per patient" in share["answers"][0]["text"]
    assert share["answers"][0]["verdict"] == "None of 3 attacks did better than its baseline"
    assert share["answers"][1]["verdict"] == "Never"
    unsure = copy.deepcopy(result)
    for entry in unsure["targets"].values():
        for found in entry["subgroups"].values():
            for each in found["levels"]:
                each["gap_interval"] = [-0.01, 0.2]
    (whom,) = [a for a in pages.first_screen(unsure)[0]["answers"] if a["question"] == "For whom does it fail?"]
    assert whom["verdict"].startswith("No group loses more than chance could explain; the largest gap is for ")
    small = min(unsure["targets"]["stage"]["subgroups"]["age"]["levels"][:2], key=lambda level: level["gap"])
    small["gap_interval"] = [0.001, 0.02]
    (whom,) = [a for a in pages.first_screen(unsure)[0]["answers"] if a["question"] == "For whom does it fail?"]
    assert whom["verdict"].startswith("The largest gap is for ")
    assert whom["verdict"].endswith(f"; chance does not explain the gap for age = {small['level']}")
    for entry in unsure["targets"].values():
        entry["subgroups"] = {}
    (whom,) = [a for a in pages.first_screen(unsure)[0]["answers"] if a["question"] == "For whom does it fail?"]
    assert whom["verdict"] == "Not asked"


def test_one_attack_is_spoken_of_as_one(result):
    """As of images."""
    assert "No attack was run." in pages.first_screen({**result, "attacks": []})[1]["answers"][0]["text"]
    alone = {**result, "attacks": copy.deepcopy(result["attacks"][:1])}
    verdict = pages.first_screen(alone)[1]["answers"][0]["verdict"]
    assert verdict == "The one attack did no better than its baseline"
    alone["attacks"][0]["verdict"] = "concern"
    assert pages.first_screen(alone)[1]["answers"][0]["verdict"].startswith(
        "The one attack found something, within what"
    )


@pytest.mark.parametrize(
    ("change", "verdict", "sharing", "bad"),
    [
        (
            {"verdict": "concern"},
            "1 of 3 attacks found something, within what",
            "Only if you accept what epsilon allows",
            True,
        ),
        ({"verdict": "concern", "bound": None}, "1 of 3 attacks found something: Density", "Not before", True),
        (
            {"verdict": "concern", "value": 0.9, "interval": [0.1, 0.95]},
            "1 of 3 attacks found something, not clearly more than the guarantee allows",
            "Only if you accept what epsilon allows",
            True,
        ),
        (
            {"verdict": "concern", "value": 0.9, "interval": [0.88, 0.92]},
            "Density ratio finds more than",
            "No: the gua",
            True,
        ),
        ({"verdict": "not computed", "figures": []}, "None of 2 attacks", "The attacks found no reason not to", False),
    ],
)
def test_sharing_follows_the_attacks_and_their_bounds(result, no_plots, change, verdict, sharing, bad):
    found = copy.deepcopy(result)
    attack = found["attacks"][0]
    for key, value in change.items():
        (attack if key in ("verdict", "figures") else attack["figures"][0])[key] = value
    share = pages.first_screen(found)[1]
    assert share["answers"][0]["verdict"].startswith(verdict)
    assert share["verdict"].startswith(sharing)
    assert share["bad"] is bad
    chance = "one of 3 may find something by chance" in share["answers"][0]["text"]
    assert chance == verdict.startswith("1 of 3"), (
        "not where the guarantee is contradicted, nor where nothing was found"
    )
    html(found)


def test_the_figure_that_decided_is_shown_and_marked(result, no_plots):
    """Not the one furthest above its baseline, whose interval covers it."""
    found = copy.deepcopy(result)
    row = {
        "label": "AUROC",
        "value": 0.559,
        "baseline": 0.5,
        "interval": [0.456, 0.658],
        "better": "lower",
        "bound": None,
    }
    copies = {**row, "label": "exact copies", "value": 0.031, "baseline": 0.01, "interval": [0.02, 0.04]}
    found["attacks"][0] |= {"verdict": "concern", "figures": [row, copies]}
    text = pages.first_screen(found)[1]["answers"][0]["text"]
    assert "exact copies" in text
    assert "0.559" not in text
    page = html(found)
    rows = [each.split("</tr>")[0] for each in page.split("<tr")[1:]]
    verdicts = {
        label: "concern" in each for each in rows for label in ("AUROC</td>", "exact copies</td>") if label in each
    }
    assert verdicts["exact copies</td>"]
    assert not verdicts["AUROC</td>"]


def test_an_infinite_epsilon_and_the_relation_are_said_in_words(result, no_plots):
    found = {**result, "about": {**result["about"], "claim": {"epsilon": None, "delta": 1e-5, "unit": "record"}}}
    said = Page(html(found)).text
    assert "epsilon infinite" in said
    assert "replace_one" not in said
    found["about"]["claim"]["relation"] = "replace_one"
    said = Page(html(found)).text
    assert "per record under replace_one, where one record takes the place of another" in said
    assert "per record under replace_one) holds" in said


def test_the_json_holds_what_the_first_screen_says(result, no_plots, tmp_path):
    data, _ = write(result, tmp_path)
    document = json.loads(data.read_text(encoding="utf-8"))
    told, associations = document.pop("answers"), document.pop("associations")
    assert document == result
    assert told == pages.first_screen(result)
    assert {*associations} == {"lost", "invented"}
    assert [ask["question"] for ask in told] == ["Can I use it?", "Can I share it?"]


@pytest.mark.parametrize("most", [1, 4])
def test_with_many_targets_the_worst_is_told(result, most):
    found = copy.deepcopy(result)
    entry = found["targets"]["income"]
    found["targets"] = {f"t{i}": copy.deepcopy(entry) for i in range(most)}
    found["targets"][f"t{most - 1}"]["average"]["tstr"]["auroc"]["mean"] = 0.51
    first = pages.first_screen(found)[0]["answers"][0]
    assert first["verdict"] == "Not useful: hardly better than guessing"
    assert pages.first_screen(found)[0]["bad"]
    assert first["target"] == f"t{most - 1}"


def test_a_target_that_a_column_gives_away_makes_no_verdict_on_use(result):
    """ "Partly useful: 27 % of the signal is lost" spoke of one association, that of death and the discharge by death."""
    found = copy.deepcopy(result)
    found["targets"] = {"income": found["targets"]["income"]}
    entry = found["fidelity"]["correlation_difference"]
    i, other = entry["names"].index("income"), next(name for name in entry["names"] if name != "income")
    j = entry["names"].index(other)
    for arm, mean in (("trtr", 1.0), ("tstr", 0.87)):
        found["targets"]["income"]["average"][arm]["auroc"] = {"mean": mean}
    breaks = ", and the table breaks a declared rule"
    assert pages.first_screen(found)[0]["verdict"] == f"Partly useful: 26 % of the signal is lost{breaks}"
    entry["train"][i][j] = entry["train"][j][i] = 0.9999
    screen = pages.first_screen(found)[0]
    assert screen["verdict"] == "Cannot be told by a target that another column gives away"
    assert f"because {other} gives this column away" in screen["answers"][0]["text"]
    assert answers.in_a_sentence(found).startswith("Predicting income: cannot be told by a target that another")


def test_a_table_that_is_partly_useful_also_says_what_it_loses(result):
    """Only verdicts on useful tables named it."""
    found = copy.deepcopy(result)
    found["targets"] = {"income": found["targets"]["income"]}
    found["fidelity"].pop("rules", None)
    for arm, mean in (("trtr", 0.95), ("tstr", 0.8)):
        found["targets"]["income"]["average"][arm]["auroc"] = {"mean": mean}
    plain = pages.first_screen(found)[0]
    assert plain["verdict"] == "Partly useful: 33 % of the signal is lost"
    entry = found["fidelity"]["correlation_difference"]
    (i, j), (k, m) = [(i, j) for i in range(3) for j in range(i)][:2]
    for one, other in ((i, j), (k, m)):
        for part, value in (("train", 0.8), ("synthetic", 0.05)):
            entry[part][one][other] = entry[part][other][one] = value
    screen = pages.first_screen(found)[0]
    assert screen["verdict"].startswith(f"{plain['verdict']}, and the table loses ")
    assert screen["bad"]


def test_histories_are_judged_with_their_past_where_it_tells_more(result):
    found = copy.deepcopy(result)
    found["targets"] = {"income": found["targets"]["income"]}
    told = {arm: {"all": value, "later": 1.0} for arm, value in (("tstr", 0.77), ("trtr", 0.95), ("without", 0.6))}
    found["histories"] = {"told": {"income": told}}
    first = pages.first_screen(found)[0]["answers"][0]
    assert [(each["label"], each["value"]) for each in first["figures"]] == [
        ("synthetic", 0.77), ("real", 0.95), ("real, no past", 0.6)
    ]  # fmt: skip
    assert first["verdict"] == "Partly useful: 40 % of the signal is lost"
    assert "60 % of what real rows offer" in first["text"]
    told["trtr"]["all"] = 0.51
    assert (
        pages.first_screen(found)[0]["answers"][0] == pages.first_screen({**found, "histories": None})[0]["answers"][0]
    )


def test_the_first_screen_names_what_of_histories_is_farthest_apart(result):
    histories = {
        "records_per_unit": {"tvd": 0.03, "real": 0.05},
        "gaps": {"tvd": 0.279, "real": 0.037},
        "transitions": {"seen": None},
        "survival": [{"event": "death", "distance": 0.08, "real": 0.042}],
    }
    told = faithful(result["fidelity"], histories).text
    assert (
        "Among the histories, the largest difference is in gaps between records: 0.279 (0.037 in held-out ones)."
        in told
    )
    del histories["gaps"]
    assert (
        "the largest difference is in times until death: 0.080 (0.042 in held-out ones)"
        in faithful(result["fidelity"], histories).text
    )
    linked = {"apart": {"lab.code": {"tvd": 0.05, "real": 0.04}, "lab.code, result": {"tvd": 0.76, "real": 0.08}}}
    answer = faithful(result["fidelity"], histories, linked)
    assert (
        "Among the histories, the largest difference is in rows by lab.code and result: 0.760 (0.080 in held-out ones)."
        in answer.text
    )
    assert "distorts the histories" in answer.verdict.words
    assert "Below the visits" not in answer.text, "it is told once"
    histories["gaps"] = {"tvd": 0.9, "real": 0.037}
    text = faithful(result["fidelity"], histories, linked).text
    below = "rows by lab.code and result"
    assert "the largest difference is in gaps between records: 0.900 (0.037 in held-out ones)." in text
    assert f"Below the visits, the largest difference is in {below}: 0.760 (0.080 in held-out ones)." in text
    told = dict(answers.brief({**result, "linked": linked}))
    assert told["below visits"] == f"{below} total variation distance 0.760; of held-out people 0.080"
    del histories["survival"], histories["gaps"]
    assert "Among the histories" not in faithful(result["fidelity"], histories).text


@pytest.mark.heavy
def test_a_code_whose_numbers_lie_elsewhere_is_on_the_first_screen_and_in_the_terminal(result):
    def code(name, made, distance):
        return {
            "code": name,
            "rows": {"synthetic": 90, "train": 1200},
            "missing": {"synthetic": 0.0 if made else None, "train": 0.25},
            "quantiles": {"synthetic": made, "train": [0.6, 1.0, 1.4]},
            "distance": distance,
            "real": None if made is None else 0.01,
        }

    codes = [code("K<sup>+", [0.7, 1.0, 1.4], 0.042), code("crea", [18, 20.5, 22], 23.958), code("CRP", None, None)]
    column = {"column": "lab.value", "by": "lab.test", "distance": 12.0, "real": 0.01, "codes": codes}
    linked = {"apart": {}, "links": [], "numbers": [column]}
    wrong = {**result, "linked": linked}
    said = "lab.value of lab.test = crea is farthest off: 10 %, 50 % and 90 % of synthetic ones lie below 18 / 20.5 / 22, of real ones "
    close = next(
        answer for answer in pages.first_screen(wrong)[0]["answers"] if answer["question"] == "Is it faithful?"
    )
    assert f"Among the numbers below the visits, {said}below 0.6 / 1 / 1.4." in close["text"]
    assert close["verdict"].endswith("misplaces numbers below visits")
    assert pages.first_screen(wrong)[0]["bad"]
    assert dict(answers.brief(wrong))["numbers"].startswith(said)
    told = Page(html(wrong))
    cells = [cell for cell in told.cells if " / " in cell[1]]
    assert [text for _, text in cells[:5]] == ["1,200 / 90", "0.6 / 18", "1 / 20.5", "1.4 / 22", "25.0 % / 0.0 %"], (
        "the farthest off first"
    )
    assert ("23.958", "23.96") in told.cells
    assert ("0.25", "25.0 % / no rows") in told.cells
    assert "K<sup>+" in told.text, "codes are escaped"
    right = {**wrong, "linked": {**linked, "numbers": [{**column, "codes": codes[::2]}]}}
    assert "numbers" not in dict(answers.brief(right))
    del linked["numbers"]
    assert "Each cell shows" not in html({**wrong, "linked": linked}), "a result of before opens"


def test_a_code_whose_numbers_leave_the_real_range_is_named(result):
    """The quantiles from 10 % to 90 % hide a haemoglobin of 50,000."""

    def code(name, made, real, numbers=4_000):
        return {
            "code": name,
            "rows": {"synthetic": 4_000, "train": numbers},
            "missing": {"synthetic": 0.0, "train": 0.0},
            "quantiles": {"synthetic": [0.6, 1.0, 1.4], "train": [0.6, 1.0, 1.4]},
            "distance": 0.0,
            "real": 0.0,
            "outside": {"synthetic": made, "test": real},
        }

    def told(*codes):
        column = {"column": "lab.value", "by": "lab.test", "distance": 0.0, "real": 0.0, "codes": codes}
        return {**result, "linked": {"apart": {}, "links": [], "numbers": [column]}}

    wrong = told(code("Hb", 0.03, 0.004), code("Na", 0.06, 0.055), code("K", 0.02, 0.0), code("CRP", None, None))
    said = (
        "3.0 % of synthetic lab.value of lab.test = Hb lie outside the range of the real training ones; 0.4 % of held-out ones do, and too "
        "many of one more code do"
    )
    assert dict(answers.brief(wrong))["outside"] == said
    close = next(each for each in pages.first_screen(wrong)[0]["answers"] if each["question"] == "Is it faithful?")
    assert f"{said}." in close["text"]
    assert ("0.03", "0.4 % / 3.0 %") in Page(html(wrong)).cells
    few = code("Hb", 0.1, 0.0, numbers=100)  # the ends of the range are chance
    assert "outside" not in dict(answers.brief(told(code("Na", 0.06, 0.055), code("CRP", None, None), few)))


def test_columns_whose_values_leave_the_real_range_or_shift_are_named(result):
    """Only numbers below visits were: of a single table the first screen told neither."""
    plain = {"real": [1.0, 2.0, 3.0, 4.0, 2.5], "synthetic": [1.0, 2.0, 3.0, 4.0, 2.5], "constant": False}
    inside = plain | {"beyond": 0.004, "held_out": 0.002, "known": 4_000}
    numbers = {
        "potassium": inside | {"beyond": 0.06},
        "sodium": inside | {"beyond": 0.08, "held_out": 0.07},
        "few": inside | {"beyond": 0.1, "known": 100},
        "none held out": inside | {"beyond": 0.1, "held_out": None},
        "earlier": plain | {"beyond": 0.1},
        "weight": inside | {"beyond": 0.03},
    }

    def told(numbers):
        found = {**result, "fidelity": {**result["fidelity"], "numbers": numbers}}
        return dict(answers.brief(found)), faithful(found["fidelity"]).text

    lines, text = told(numbers)
    said = (
        "6.0 % of synthetic values of potassium lie outside the range of the real training ones; 0.2 % of held-out ones do, and too many "
        "of one more column do"
    )
    assert lines["out of range"] == said
    assert f"{said}." in text
    assert "shifted" not in lines
    mean = {"of": "mean", "distance": 0.2, "synthetic": 899.0, "train": 737.0, "test": 741.0}
    tail = {"of": 0.95, "distance": 0.15, "synthetic": 600.0, "train": 300.0, "test": 301.0}
    lines, text = told({"cost": inside | {"shift": mean}, "came": inside | {"shift": tail, "time": "HH:MM"}})
    said = "the mean of cost is farthest off beyond chance: 899 (+22 %) among synthetic rows, 737 among real ones"
    assert lines["shifted"] == f"{said}. One more column is shifted"
    assert f"Of the means and tails of numbers, {said}. One more column is shifted." in text
    assert "out of range" not in lines
    lines, _ = told({"came": inside | {"shift": tail, "time": "HH:MM"}})
    assert lines["shifted"] == (
        "the 95 % quantile of came is farthest off beyond chance: 10:00 among synthetic rows, 05:00 among real ones"
    )
    linked = {"apart": {"lab.value": {"tvd": 0.1, "real": 0.1}}, "links": [], "numbers": []}
    below = {"lab.value 1": inside | {"beyond": 0.1, "shift": mean}}
    found = {**result, "linked": linked, "fidelity": {**result["fidelity"], "numbers": below}}
    assert not {"out of range", "shifted"} & set(dict(answers.brief(found))), "codes speak for rows below visits"


def test_weekdays_and_values_that_end_histories_have_tables_of_their_own(result, no_plots):
    week = {
        "column": "seen<b>",
        "of": "weekdays",
        "tvd": 0.21,
        "real": 0.01,
        "part": "on a Sunday",
        "shares": [0.14, 0.02],
    }
    day = {"column": "seen<b>", "of": "hours", "tvd": 0.011, "real": 0.012, "part": "", "shares": []}
    people = {"synthetic": 90, "train": 1200, "test": 80}
    final = {"column": "end", "value": "died<i>", "people": people, "synthetic": 0.375, "train": 0.0, "test": 0.01}
    assert "Values that end histories" not in html(result)
    assert "Weekdays and hours" not in html(result)
    found = {**result, "fidelity": {**result["fidelity"], "calendar": [week, day]}}
    found["histories"] = {
        **dict.fromkeys(("records_per_unit", "gaps", "onward")),
        "transitions": {},
        "told": {},
        "final": [final],
    }
    told = Page(html(found))
    for cell in (("0.14", "14.0 %"), ("0.02", "2.0 %"), ("0.375", "37.5 %"), ("1200", "1,200"), ("0.01", "1.0 %")):
        assert cell in told.cells
    assert "end = died<i>" in told.text
    assert "seen<b>weekdays0.2100.010on a Sunday14.0 %2.0 %" in told.text


def test_the_age_at_which_a_code_is_farthest_off_is_named(result):
    def row(code, ages, made, real, held_out):
        return {"code": code, "ages": ages, "synthetic": made, "train": real, "test": held_out}

    def told(*rows):
        by_age = {"distance": 0.5, "real": 0.1, "farthest": list(rows), "rows": []}
        ever = {"column": "diagnosis.code", "distance": 0.1, "real": 0.1, "codes": [], "by_age": by_age}
        return {**result, "histories": {**(result.get("histories") or {}), "ever": [ever]}}

    far = row("K35", "under 18", 0.14, 0.5, 0.48)
    said = "14.0 % of synthetic people aged under 18 at their first visit ever have diagnosis.code = K35; 50.0 % of real ones do"
    near = row("I10", "18 to 39", 0.15, 0.1, 0.1)
    assert dict(answers.brief(told(near, far)))["by age"] == said
    second = row("I10", "18 to 39", 0.2, 0.1, 0.1)
    assert dict(answers.brief(told(second, far)))["by age"] == f"{said}. One more age of a code is far off"
    assert "by age" not in dict(answers.brief(told(row("K35", "under 18", 0.14, 0.5, 0.2)))), (
        "held-out people are as far off"
    )
    without = told()
    without["histories"]["ever"][0]["by_age"] = None
    assert "by age" not in dict(answers.brief(without))


def test_a_group_is_marked_as_the_worst_only_if_chance_cannot_explain_it(result):
    for low, marked in ((-0.01, False), (0.01, True)):
        found = copy.deepcopy(result)
        (group, *_) = [each for entry in found["targets"].values() for each in entry.get("subgroups", {}).values()]
        for level in group["levels"]:
            level["gap_interval"] = [low, 0.2]
        shown, *_ = pages.subgroups(found)
        assert [level["level"] for level in shown["levels"] if level["worst"]] == [group["worst"]] * marked


def test_the_terminal_is_told_of_subgroups_and_attacks(result):
    lines = dict(answers.brief(result))
    _, column, _, level = findings.worst_group(result["targets"])
    assert lines["subgroups"].startswith(f"The largest loss is for {column} = {level['level']} when predicting ")
    assert f"{level['tstr']['mean']:.3f} [" in lines["subgroups"]
    assert lines["attacks"] == "None of 3 attacks did better than its baseline"


def test_the_terminal_is_told_of_a_broken_rule_and_of_numbers(result):
    rule = {"rule": "admitted <= discharged", "synthetic": 0.515, "train": 0.0, "test": 0.0}
    found = {**result, "fidelity": {**result["fidelity"], "rules": [rule]}}
    assert (
        dict(answers.brief(found))["rules"]
        == "51.5 % of synthetic rows and 0.0 % of real rows break admitted <= discharged"
    )
    assert faithful(found["fidelity"]).verdict.words.endswith(", and breaks a declared rule")
    kept = {**found, "fidelity": {**found["fidelity"], "rules": [{**rule, "train": 0.6}]}}
    assert "rules" not in dict(answers.brief(kept))
    (number,) = [name for name, entry in result["targets"].items() if entry["kind"] == "number"]
    r2 = result["targets"][number]["average"]["tstr"]["r2"]["mean"]
    assert f"R2                  {r2:.3f} on {number}, trained on synthetic records; on real ones " in "\n".join(
        headline(result)
    )


def test_no_pdf_without_a_browser_and_nothing_is_written(result, no_plots, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="Chromium"):
        write(result, tmp_path / "out", pdf=True)
    assert not (tmp_path / "out").exists()


def test_bad_news_is_never_in_the_colour_of_good_news(result, no_plots):
    found = copy.deepcopy(result)
    use, share = pages.first_screen(found)
    assert not (use["good"] and use["bad"])
    assert share["good"]
    for entry in found["targets"].values():
        for arm in ("tstr",):
            for metric, value in entry["average"][arm].items():
                real = entry["average"]["trtr"][metric]["mean"]
                entry["average"][arm][metric] = {**value, "mean": 0.5 + 0.6 * (real - 0.5)}
    use = pages.first_screen(found)[0]
    assert use["bad"]
    assert not use["good"]
    assert 'class="verdict bad"' in html(found)


def test_a_release_far_from_the_real_rows_is_no_use_even_if_the_target_cannot_be_told(result):
    found = {**copy.deepcopy(result), "histories": None}
    for entry in found["targets"].values():
        for scores in entry["average"].values():
            for value in scores.values():
                value["mean"] = 0.0 if entry.get("kind") == "number" else 0.5
    assert pages.first_screen(found)[0]["verdict"] == "Cannot be told"
    for name in ("tvd_1way", "tvd_2way"):
        found["fidelity"][name]["mean"] = 0.7
    use = pages.first_screen(found)[0]
    assert use["verdict"].startswith("No: far from the real rows")
    assert use["bad"]
    assert use["answers"][0]["verdict"] == "Cannot be told"


def test_the_page_begins_with_a_sentence(result, page):
    sentence = answers.in_a_sentence(result)
    assert sentence in page.text
    assert sentence.endswith("attacks: none of 3 attacks did better than its baseline.")
    assert page.text.index(sentence) < page.text.index("Is it useful for predicting")


def test_a_verdict_says_that_a_strong_association_is_lost(result):
    found = copy.deepcopy(result["fidelity"])
    entry = found["correlation_difference"]
    first = len(entry["names"]) - 1
    for arm, value in (("train", 1.0), ("synthetic", 0.9)):
        entry[arm][first][0] = value
    assert "loses a strong association" not in faithful(found).verdict.words
    for value, made, told in ((0.36, 0.1, True), (0.36, 0.2, False), (0.29, 0.0, False)):
        entry["train"][first][0], entry["synthetic"][first][0] = value, made
        assert ("loses a strong association" in faithful(found).verdict.words) == told, (value, made)
    entry["train"][first][0], entry["synthetic"][first][0] = 1.0, -0.04
    answer = faithful(found)
    assert ", loses a strong association, and breaks a declared rule" in answer.verdict.words
    wide = pages.MOST_LOST + 4
    arms = {arm: [[value] * wide] * wide for arm, value in (("train", 0.9), ("synthetic", 0.1))}
    told = {**found, "correlation_difference": {"names": [f"x{at}" for at in range(wide)], **arms}}
    assert f", loses {wide * (wide - 1) // 2} strong associations, and" in faithful(told).verdict.words, (
        "not only those listed"
    )
    assert answer.verdict.bad
    assert not answer.verdict.good
    assert (
        f"{entry['names'][0]} and {entry['names'][first]} loses half or more: 1.00 among real rows, -0.04 among"
        in answer.text
    )


def test_the_page_says_how_many_associations_its_tables_leave_out_and_evaluation_json_has_all(result, tmp_path):
    names = [f"x{at}" for at in range(7)]
    arms = {arm: [[value] * 7] * 7 for arm, value in (("train", 0.9), ("test", 0.9), ("synthetic", 0.1))}
    entry = result["fidelity"]["correlation_difference"] | {"names": names, **arms, "by_chance": [["x0", "x1"]]}
    found = {**result, "fidelity": {**result["fidelity"], "correlation_difference": entry}, "histories": None}
    written, page = pages.write(found, tmp_path)
    told = json.loads(written.read_text(encoding="utf-8"))["associations"]
    assert told["invented"] == []
    assert {"pair": "x0 and x2", "real": 0.9, "synthetic": 0.1} in told["lost"]
    assert {each["pair"] for each in told["lost"]} == {
        f"{one} and {other}" for one, other in itertools.combinations(names, 2) if (one, other) != ("x0", "x1")
    }
    text = page.read_text(encoding="utf-8")
    assert (
        "Associations that were lost, with their sign and strength: the 10 farthest off of 20; evaluation.json has all"
        in text
    )
    assert sum(f'<th scope="row">{each["pair"]}</th>' in text for each in told["lost"]) == pages.MOST_LOST


@pytest.mark.parametrize(("made", "heading"), [(0.9, ""), (0.1, ", but loses a strong association")])
def test_the_heading_of_useful_records_says_what_is_lost_all_the_same(result, monkeypatch, made, heading):
    found = copy.deepcopy(result)
    found["fidelity"].pop("rules", None)
    entry = found["fidelity"]["correlation_difference"]
    first = len(entry["names"]) - 1
    entry["train"][first][0], entry["synthetic"][first][0] = 1.0, made
    monkeypatch.setattr(answers, "_uses", lambda *_: [answers.Answer("", findings.GRADES[0][1])])
    assert pages.first_screen(found)[0]["verdict"] == "Nearly as useful as real rows" + heading


def test_what_is_lost_from_record_to_record_is_named_with_the_rest(result):
    pairs = [
        {"last": "urea", "present": "urea", "synthetic": -0.12, "train": 0.62, "test": 0.6},
        {"last": "ward", "present": "urea", "synthetic": 0.2, "train": 0.25, "test": 0.2},
    ]
    histories = {"onward": {"mean": 0.3, "real": 0.02, "pairs": pairs}}
    lost = findings.lost_associations(result["fidelity"], histories)
    assert lost[0] == findings.Finding("association", "urea and the last urea", -0.12, 0.62)
    assert not any("ward" in each.what and "the last" in each.what for each in lost), "0.05 is not much"
    assert "loses a strong association" in faithful(result["fidelity"], histories).verdict.words
    (told,) = (words for label, words in answers.brief({**result, "histories": histories}) if label == "associations")
    assert told.startswith("lost most: urea and the last urea 0.62 among real rows, -0.12 among synthetic ones")
    assert "half or more" not in told
    pairs.append({"last": "urea", "present": "ward", "synthetic": 0.0, "train": -0.5, "test": -0.5})
    (told,) = (words for label, words in answers.brief({**result, "histories": histories}) if label == "associations")
    assert told == (
        "2 of 0.3 or more lost half or more: urea and the last urea 0.62 among real rows, -0.12 among synthetic ones; "
        "ward and the last urea -0.50 among real rows, 0.00 among synthetic ones"
    )
    assert findings.lost_associations({}, {"onward": None}) == []


def test_the_associations_that_are_named_are_those_that_are_counted(result):
    """One that lost most of all, but less than half of itself, stood beside a count of others."""
    lost = [(0.9, 0.5), *[(0.6 - at / 100, 0.25 - at / 100) for at in range(4)]]  # 0.4 and, of each other, 0.35
    pairs = [
        {"last": "urea", "present": f"p{at}", "synthetic": made, "train": real, "test": real}
        for at, (real, made) in enumerate(lost)
    ]
    found = {**result, "fidelity": {}, "histories": {"onward": {"mean": 0.3, "real": 0.02, "pairs": pairs}}}
    assert findings.lost_associations({}, found["histories"])[0].what == "p0 and the last urea"
    told = dict(answers.brief(found))["associations"]
    assert told.startswith("4 of 0.3 or more lost half or more, among them: p1 and the last urea 0.60 among real rows")
    assert "p0 " not in told
    assert told.count("among real rows") == answers.BRIEFLY
    text = faithful(result["fidelity"] | {"correlation_difference": None}, found["histories"]).text
    assert "Of the associations of 0.3 or more, that of p1 and the last urea loses half or more: 0.60 among" in text
    assert "0.25 among synthetic ones, and so do 3 more." in text


@pytest.mark.parametrize("share", [0.95, 0.94, 0.81, 0.5, 0.3, 0.08, 0.0, -0.2])
def test_a_verdict_and_the_share_beside_it_agree(result, share):
    """At 81 % the verdict said that much of the signal was lost, and at 8 % that there was none."""
    found = copy.deepcopy(result)
    found["targets"] = {"income": found["targets"]["income"]}
    average = found["targets"]["income"]["average"]
    average["trtr"]["auroc"]["mean"], average["tstr"]["auroc"]["mean"] = 0.7, 0.5 + 0.2 * share
    average["trtr"]["auroc"].pop("interval", None)
    first = pages.first_screen(found)[0]["answers"][0]
    kept = int(re.search(r"keep (\d+) %", first["text"])[1])
    lost = re.search(r"(\d+) % of the signal is lost", first["verdict"])
    assert (lost is not None) == (50 <= kept < 85)
    assert lost is None or kept + int(lost[1]) == 100
    assert "much of" not in first["verdict"]
    assert ("hardly better than guessing" in first["verdict"]) == (kept < 10)


def test_what_is_invented_is_on_the_page_and_in_its_verdict(result, no_plots):
    found = copy.deepcopy(result)
    entry = found["fidelity"]["correlation_difference"]
    one, other = entry["names"][:2]
    assert "Associations that were invented" not in html(found)
    for made, real, told in ((0.9, 0.01, True), (0.9, 0.5, False), (0.25, 0.0, False)):
        entry["train"][0][1], entry["synthetic"][0][1], entry["invented"] = real, made, [[one, other]]
        answer = faithful(found["fidelity"])
        assert ("invents a strong association" in answer.verdict.words) == told, (made, real)
        said = (
            f"that of {one} and {other} is farthest off: {real:.2f} among real rows, {made:.2f} among synthetic ones."
        )
        assert said in answer.text
    entry["train"][0][1], entry["train"][0][2] = 0.01, 0.01
    entry["synthetic"][0][1], entry["synthetic"][0][2] = 0.9, -0.8
    several = {**entry, "invented": [[one, other], [one, entry["names"][2]]]}
    words = faithful({**found["fidelity"], "correlation_difference": several}).verdict.words
    assert "invents strong associations" in words
    text = Page(html(found)).text
    assert "Associations that were invented, with their sign and strength" in text
    assert f"{one} and {other}" in text


def test_a_lost_association_is_lost_whatever_its_sign(result, page):
    assert figures.kept(-0.5, 0.0) == figures.kept(0.5, 0.0) == -0.5
    assert figures.kept(-0.5, 0.25) == figures.kept(0.5, -0.25) == -0.75, "and one of the other sign is lost more"
    assert figures.kept(-0.25, -0.75) == figures.kept(0.25, 0.75) == 0.5
    assert figures.is_lost({"train": -0.1, "test": -0.2, "synthetic": 0.0})
    assert not figures.is_lost({"train": -0.02, "test": -0.3, "synthetic": 0.3}), "what was not there cannot be lost"
    assert not figures.is_lost({"train": -0.3, "test": -0.02, "synthetic": 0.3}), (
        "what training rows alone have is chance"
    )
    assert not figures.is_lost({"train": -0.3, "test": 0.3, "synthetic": 0.0}), "and so is what has two signs"
    assert figures.is_lost({"train": -0.3, "synthetic": 0.0}), "results of earlier versions have no held-out one"
    entry = {"names": ["a", "b", "c"], "train": [[1, -0.6, 0.1], [-0.6, 1, 0.05], [0.1, 0.05, 1]]}
    entry["synthetic"] = [[1, 0.1, 0.5], [0.1, 1, -0.2], [0.5, -0.2, 1]]
    entry["test"] = [[1, -0.5, 0.1], [-0.5, 1, 0.05], [0.1, 0.05, 1]]
    assert findings.lost_associations({"correlation_difference": entry}) == [
        findings.Finding("association", "a and b", 0.1, -0.6)
    ]


def test_distances_to_records_come_last_and_decide_only_where_they_alarm(result, no_plots):
    text = html(result)
    assert text.index("Density ratio") < text.index('id="appendix"') < text.index(">Distance to the closest record<")
    assert "a consensus of experts advises against them" in text
    found = copy.deepcopy(result)
    distance = next(attack for attack in found["attacks"] if attack["id"] == "closeness")
    distance["verdict"] = "concern"
    distance["figures"][0] |= {"value": 0.9, "interval": [0.85, 0.95], "baseline": 0.5, "bound": None}
    assert pages.first_screen(found)[1]["answers"][0]["verdict"].startswith("1 of 4 attacks found something")


def test_bounds_and_verdicts_have_labels_of_their_own_on_a_narrow_screen(text):
    for label in ("Value", "Baseline", "Bound", "Verdict", "AUROC"):
        assert f'data-label="{label}"' in text


def test_a_new_measure_needs_a_label_and_a_meaning_and_nothing_more(monkeypatch):
    monkeypatch.setitem(pages.FIDELITY, "distinct", ("Distinct rows", "0"))
    monkeypatch.setitem(pages.GLOSSARY, "distinct", "rows that differ from all others.")
    found = pages.glossary({"targets": {}, "fidelity": {"distinct": {}, "pmse": {}}})
    assert ("Distinct rows", "rows that differ from all others.") in found
    assert "pMSE" in dict(found)


def test_numbers_that_became_constant_or_lie_outside_the_real_range_come_first():
    entry = {
        "real": [1.0, 2.5, 12000.0, 20000.0, 3.0],
        "synthetic": [1.0, 2.0, 9.0, 9.5, 3.25],
        "beyond": 0.0,
        "constant": False,
    }
    found = {"a": entry, "b": entry | {"beyond": 0.2}, "c": entry | {"constant": True}}
    rows = pages.numbers({"numbers": found})
    assert [(name, beyond, constant) for name, _, beyond, constant in rows] == [
        ("c", 0, True),
        ("b", 0.2, False),
        ("a", 0, False),
    ]
    assert rows[0][1] == ["1 / 1", "2.5 / 2", "12,000 / 9", "20,000 / 9.5", "3 / 3.25"]
    assert pages.numbers({}) == []


@pytest.mark.heavy
def test_categories_that_became_constant_are_marked(result):
    """A rare event that vanished hardly moves the distance of its column."""
    found = copy.deepcopy(result)
    shares = {"kind": "category", "labels": ["no", "yes"], "train": [0.99, 0.01], "test": [0.99, 0.01]}
    found["columns"]["sex"] = shares | {"synthetic": [1.0, 0.0]}
    marked = "sex (<strong>always one value</strong>)"
    assert marked in html(found)
    for other in (shares | {"synthetic": [0.995, 0.005]}, shares | {"synthetic": [1.0, 0.0], "train": [1.0, 0.0]}):
        assert marked not in html({**found, "columns": {**found["columns"], "sex": other}})


def test_times_of_day_are_shown_as_such():
    entry = {"real": [320.8], "synthetic": [73.97], "beyond": 0.0, "constant": False}
    rows = pages.numbers({"numbers": {"a": entry | {"time": "HH:MM"}, "b": entry | {"time": "H:MM:SS"}, "c": entry}})
    assert [pairs for _, pairs, _, _ in rows] == [["05:21 / 01:14"], ["00:05 / 00:01"], ["320.8 / 73.97"]]
    columns = {"came": {"kind": "integer", "bounds": [0, 1439]}, "age": {"kind": "integer", "bounds": [0, 99]}}
    schema = Schema.from_dict({"columns": columns, "reading": {"columns": {"came": {"time": "HH:MM"}}}})
    assert [faithfulness.time_of_day(schema, name) for name in columns] == ["HH:MM", None]
    reading = {"columns": {"size": {"time": "HhMM"}}}
    size = {"size": {"kind": "integer", "bounds": [0, 1439]}}
    tables = {"visit": {**VISIT, "columns": {**VISIT["columns"], **size}, "reading": reading}}
    linked = clinic_schema(tables=tables)
    assert [faithfulness.time_of_day(linked, name) for name in ("visit.size", "visit.ward")] == ["HhMM", None]
