"""The page: self-contained, escaped, honest about what it is, and well-formed."""

import base64
import hashlib
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest
from clinic import make_frame, make_schema
from linked_clinic import DECLARED, with_labs

from synthdp import Budget, Schema, Synthesizer, pages
from synthdp.budgets import Cap, Entered
from synthdp.ledger.events import Capped, Choice, Entry, Gaussian, Laplace, Revealed, Sampled, Threshold
from synthdp.report import fitness_words, information_loss, plots
from synthdp.report import statement as stating
from synthdp.report.fitness_words import Compared, Fitness, Group
from synthdp.report.hazards import hazards
from synthdp.report.information_loss import FITNESS, Counted, Hidden, Lost, Merged
from synthdp.report.statement_page import TEMPLATES, fact, questions, render
from synthdp.schema.learned import asked_for
from synthdp.seal import learn

from test_statement import make_statement  # isort: skip

VOID = {"meta", "link", "br", "img", "hr", "input"}
EVIL = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>{{ 7*7 }}"


class Page(HTMLParser):
    """Elements, attributes, text; fails on tags that do not nest."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self.open, self.scripts = [], [], [], [], []
        self.feed(text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(autouse=True, scope="module")
def drawn_once():
    """Plots of the same numbers, which take longer than the rest of a page."""

    def once(draw):
        kept = {}

        def drawn(*numbers):
            if repr(numbers) not in kept:
                kept[repr(numbers)] = draw(*numbers)
            return kept[repr(numbers)]

        return drawn

    with pytest.MonkeyPatch.context() as patch:
        for name in ("epsilon_curve", "trade_off"):
            patch.setattr(plots, name, once(getattr(plots, name)))
        yield


def make_fitness(tables=2, name="age", **changes):
    """Bought figures made by hand."""
    group = Group(
        tables=tuple(
            Compared(columns=(name, f"c{place}"), cells=12, interval=(0.0123, 0.0567)) for place in range(tables)
        ),
        mean=(0.011, 0.0444),
        worst=(0.02, 0.0789),
    )
    about = {"share": 0.05, "noise": 16.5, "rows": 100_000, "confidence": 0.95}
    return Fitness(**{**about, "records": (391.2, 420.5), "single": group, "with_target": None, **changes})


VARIANTS = {
    "fitness": {"fitness": make_fitness()},
    "fitness of many": {"fitness": make_fitness(40), "unit": "patient_nbr", "max_records_per_unit": 5},
    "fitness lost": {"fitness": make_fitness(single=None, records=None, reason="It was lost.")},
    "release": {},
    "rehearsal": {"rehearsal": True, "noise_source": "a seed"},
    "patients": {"unit": "patient_nbr", "max_records_per_unit": 5},
    "replaced": {"relation": "replace_one"},
    "infinite": {
        "epsilon": math.inf,
        "epsilons": {"pld": math.inf},
        "curve": ((0.1, math.inf), (1e-5, math.inf)),
        "events": (Entry(Revealed("a reason in free text")),),
        "budget": Budget(math.inf, 1e-5),
    },
    "weak": {"epsilon": 20.0, "epsilons": {"pld": 20.0}, "curve": ()},
    "nothing": {"epsilon": 0.0, "epsilons": {"pld": 0.0}, "events": (), "curve": (), "settings": {}, "columns": ()},
    "undeclared": {"declared": {"by": "not said", "units": None, "targets": [], "name": ""}},
    "bought size": {"declared": {"by": "us", "units": "learned", "targets": [], "name": "x"}},
    "account": {"account": Entered(filter="additive", order=None, cap=None, head_checked=False)},
    "capped account": {
        "account": Entered(filter="renyi", order=5.5, cap=Cap(epsilon=3.0, delta=1e-5), head_checked=True)
    },
    "every event": {
        "events": (
            Entry(Gaussian(1.5), 2),
            Entry(Laplace(3.0)),
            Entry(Choice(0.1)),
            Entry(Threshold(20.0, 1e-7, 3)),
            Entry(Sampled(0.01, (Gaussian(2.0), Laplace(5.0))), 700),
        )
    },
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_page_is_well_formed_and_loads_nothing(name):
    text = render(make_statement(**VARIANTS[name]))
    page = Page(text)
    assert ("html", "lang", "en") in page.attributes
    assert page.scripts == [pages.SORT]
    assert not {"iframe", "link", "img", "object", "embed", "base", "form"} & set(page.tags)
    for tag, attribute, value in page.attributes:
        assert not attribute.startswith("on")
        if attribute in ("href", "src", "xlink:href"):
            assert value.startswith("#"), f"{tag} {attribute}={value}"
    assert "@import" not in text
    assert not re.findall(r"url\((?!#)", text)
    ids = [value for _, attribute, value in page.attributes if attribute == "id"]
    assert len(ids) == len(set(ids))
    for _, attribute, value in page.attributes:
        if attribute in ("aria-labelledby", "href"):
            assert {part.removeprefix("#") for part in value.split()} <= set(ids)
    assert page.tags.count("h1") == 1
    assert page.tags.count("table") == page.tags.count("caption")
    assert all(pair[:2] == ("th", "scope") for pair in page.attributes if pair[1] == "scope")
    assert page.tags.count("th") == sum(attribute == "scope" for _, attribute, _ in page.attributes)
    digest = base64.b64encode(hashlib.sha256(page.scripts[0].encode()).digest()).decode()
    policies = [value for tag, attribute, value in page.attributes if (tag, attribute) == ("meta", "content")]
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in policies


def test_names_and_categories_are_text_and_nothing_else():
    column = {"name": EVIL, "kind": "categorical", "declared": {"categories": [EVIL], "other": EVIL}, "bought": {}}
    statement = make_statement(
        columns=({**column, "bought": {"anything": [EVIL] * 20}},),
        declared={"by": EVIL, "units": 5, "targets": [EVIL], "name": EVIL},
        settings={EVIL: EVIL},
        generator=EVIL,
        unit=EVIL,
        not_covered=(EVIL,),
        provenance={EVIL: {EVIL: EVIL}},
        noise_source=EVIL,
        relation=EVIL,
        accountant=EVIL,
        epsilons={EVIL: 1.0},
    )
    text = render(statement)
    page = Page(text)
    assert page.scripts == [pages.SORT]
    assert "img" not in page.tags
    assert not [pair for pair in page.attributes if pair[1].startswith("on")]
    assert "alert('x')" in page.text, "it is shown as it was written"
    assert "{{ 7*7 }}" in page.text, "it is no template"


def test_a_release_says_whom_it_protects_and_how_far():
    page = Page(render(make_statement()))
    for words in ("Every record: one row of the table", "row by row", "4.378", "10⁻⁵", "1 in 100,000", "79.7 times"):
        assert words in page.text
    assert "Not for release" not in page.text
    assert "No guarantee" not in page.text


def test_patients_are_protected_as_a_whole():
    page = Page(render(make_statement(unit="patient_nbr", max_records_per_unit=5)))
    assert "all records with the same patient_nbr" in page.text
    assert "At most 5 records of a patient count." in page.text
    assert "row by row" not in page.text


@pytest.mark.heavy
def test_the_attackers_bound_is_the_tightest_of_the_curve():
    loose = make_statement(curve=())
    tight = make_statement(curve=((0.1, 0.0),))
    assert "98.8 %" in Page(render(loose)).text  # (1 + tanh(4.377178 / 2)) / 2 and a little for delta
    assert "55.0 %" in Page(render(tight)).text  # total variation 0.1
    assert "weak guarantee" in Page(render(loose)).text
    assert "nobody can say" not in Page(render(loose)).text
    assert "weak guarantee" not in Page(render(tight)).text


def test_a_rehearsal_is_loud():
    page = Page(render(make_statement(rehearsal=True)))
    assert "Rehearsal: its noise can be regenerated. Not for release." in page.text
    assert "no guarantee holds for these data" in page.text
    assert "against anyone" not in page.text


def test_an_infinite_epsilon_is_loud():
    page = Page(render(make_statement(**VARIANTS["infinite"])))
    assert "No guarantee: epsilon is infinite." in page.text
    assert "The records themselves" in page.text
    assert "a reason in free text" not in page.text
    assert "never saw the records" not in page.text
    assert "svg" not in page.tags


def test_a_delta_of_one_over_the_number_of_units_is_named():
    declared = {"by": "us", "units": 100_000, "targets": [], "name": "x"}
    assert "Delta is too large" in Page(render(make_statement(declared=declared))).text
    assert "Delta is too large" not in Page(render(make_statement(declared={**declared, "units": 99_999}))).text
    assert "Delta is too large" not in Page(render(make_statement(declared={**declared, "units": None}))).text


def test_what_was_bought_is_marked_where_it_stands():
    statement = make_statement()
    text = render(statement)
    rows = {row.split("</span>")[0].split(">")[-1]: row for row in text.split("<tr>") if 'class="name"' in row}
    assert "bought" in rows["ward"]
    assert "bought" not in rows["age"]
    assert "from 0 to 99" in rows["age"]
    assert "Nothing about the table was learned" not in text
    assert "Nothing about the table was learned" in render(make_statement(columns=statement.columns[:1]))


def test_long_lists_are_folded_and_short_ones_are_not():
    def page(count):
        names = [f"c{number}" for number in range(count)]
        column = {"name": "ward", "kind": "categorical", "declared": {"categories": names}, "bought": {}}
        return Page(render(make_statement(columns=(column,), curve=())))

    assert page(9).tags.count("details") == page(8).tags.count("details") + 1
    assert "c899" in page(900).text


def test_accountants_curve_and_recipe_are_there():
    page = Page(render(make_statement()))
    assert "pld counts 4.378" in page.text
    assert "rdp 4.729" in page.text
    assert 'Statement.load("statement.json").recompute()' in page.text
    assert "synthdp epsilon ledger=ledger.jsonl delta=1e-05 accountant=pld" in page.text
    assert "4.377178" in page.text
    assert {"svg", "title", "desc"} <= set(page.tags)
    for limit in make_statement().not_covered:
        assert limit in page.text
    for value in ("256, 256", "0.01", "clinic"):
        assert value in page.text


def test_the_plot_takes_the_pages_colours_and_no_metadata():
    text = render(make_statement())
    found = [part.split("</svg>")[0] for part in text.split("<svg")[1:]]
    assert len(found) == 2
    for svg in found:
        check_plot(svg)
    assert ">10⁻⁵<" in found[1], "labels stay text"
    assert ">any attack, at most<" in found[0]


def check_plot(svg):
    assert "var(--ink)" in svg
    assert "var(--accent)" in svg
    assert not re.findall(r"(?:fill|stroke): #", svg)
    for unwanted in ("matplotlib.org", "rdf", "dc:date", "http://purl"):
        assert unwanted not in svg.lower()
    assert 'role="img"' in svg
    assert "<desc" in svg


def test_there_is_no_date_and_no_path():
    text = render(make_statement(columns=(), provenance={}))
    assert not re.findall(r"\b20\d\d-\d\d-\d\d\b", text)
    assert not re.findall(r"(?:/home|/work|/tmp|/usr|/root)\b", text)


def test_the_page_says_what_the_account_holds():
    says = {
        name: Page(render(make_statement(**VARIANTS[name]))).text for name in ("release", "account", "capped account")
    }
    assert "entered in no account" in says["release"]
    assert "no cap limits them" in says["account"]
    assert "was not checked" in says["account"]
    assert "epsilon 3, delta 10" in says["capped account"].replace("\u207b", "-")
    assert "order 5.5" in says["capped account"]
    assert "kept elsewhere" in says["capped account"]


@pytest.mark.heavy
def test_the_first_screen_answers_whether_the_data_may_be_shared():
    def answer(**changes):
        text = Page(render(make_statement(**changes))).text
        return text[text.index("Can I share it?") : text.index("Who is protected")]

    good = {"curve": ((0.1, 0.0),)}
    assert "Yes, within the limits" in answer(**good)
    assert "no account keeps count" in answer(**good)
    assert "account keeps count" in answer(**good, **VARIANTS["account"])
    assert "whom you would trust" in answer(curve=())
    for other in (
        VARIANTS["infinite"],
        VARIANTS["rehearsal"],
        {"declared": {"by": "us", "units": 100_000, "targets": [], "name": "x"}},
    ):
        assert "Yes" not in answer(**{**good, **other})


def test_belief_and_accuracy_at_a_prior_are_told():
    text = Page(render(make_statement(epsilon=1.0, epsilons={"pld": 1.0}, curve=()))).text
    assert "at most 23.2 % and at least 3.9 % likely" in text  # 1 / (1 + 9 / e) rounded up, 1 / (1 + 9 e) rounded down
    assert "1.0 % 0.3 % 2.7 % 99.0 % 99.1 %" in text  # delta 1e-5 lets the last one above 99 by a little
    replaced = Page(render(make_statement(relation="replace_one"))).text
    assert "your record was among" not in replaced


def test_every_hazard_is_answered_from_the_statement():
    """Each figure of the section stands in the statement; what is weak is called so."""

    def found(**changes):
        return {item.name.split(":")[0]: item for item in hazards(make_statement(**changes))}

    plain = found()
    assert len(plain) == 14
    assert found(curve=())["Epsilon too large to mean anything"].finding == "weak point", "98.8 %"
    assert found(curve=((0.1, 0.0),))["Epsilon too large to mean anything"].finding == "answered"
    assert "0.004 / N" in plain["Delta"].text
    fits = "Other fits and other releases of the same records"
    assert plain[fits].finding == "weak point"
    assert found(**VARIANTS["account"])[fits].finding == "left to the steward"
    assert found(**VARIANTS["capped account"])[fits].finding == "answered"
    assert "patient_nbr" in found(**VARIANTS["patients"])["Unit of privacy smaller than a person"].text
    assert found(**VARIANTS["infinite"])["Algorithm whose proof does not fit it"].finding == "weak point"
    assert "the clinic" in plain["Facts taken as public that are not"].text
    assert "ward" in plain["Facts taken as public that are not"].text, "bought"
    assert found(rehearsal=True)["Implementation"].finding == "weak point"


def test_a_withdrawal_id_is_shown_where_there_is_one():
    name = "7d7c7c5e-1f0d-4d7e-8f9b-9b7e3f0f3a11"
    assert render(make_statement(release_id=name)).count(name) == 2, "lineage and citation"
    assert "before identifiers were given" in Page(render(make_statement())).text
    assert "a rehearsal is not released" in Page(render(make_statement(rehearsal=True))).text


def luminance(colour):
    """Relative luminance of #rgb or #rrggbb (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_text_stands_out_in_light_in_dark_and_on_paper():
    """WCAG 2.2, 1.4.3 (AA): a contrast of at least 4.5 for every colour of text on every ground that it is used on."""
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    colours = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", block)) for block in re.findall(r":root {([^}]*)}", style)]
    assert len(colours) == 3
    light = colours[0]
    pairs = [(ink, ground) for ink in ("ink", "soft", "accent") for ground in ("page", "card")]
    pairs += [
        ("ink", "warn-page"),
        ("warn", "warn-page"),
        ("soft", "warn-page"),
        ("warn", "page"),
        ("banner-ink", "banner"),
    ]
    for scheme in colours:
        values = {**light, **scheme}
        for ink, ground in pairs:
            low, high = sorted((luminance(values[ink]), luminance(values[ground])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"{ink} {values[ink]} on {ground} {values[ground]}"


def test_bought_figures_are_told_with_their_bounds_rounded_outwards():
    page = Page(render(make_statement(fitness=make_fitness(name=EVIL))))
    assert "How well the data fit, measured under the guarantee" in page.text
    for words in ("1.1 % to 4.5 %", "2.0 % to 7.9 %", "1.2 %", "5.7 %", "391 to 421 records", "100,000", "16.5"):
        assert words in page.text
    assert "Close to the records." in page.text
    assert "None was released" not in page.text
    assert "No budget was spent on figures of fitness" not in page.text
    assert "1.1 % to 4.5 % for single columns" in page.text  # in the answer to NIST's hazard
    assert EVIL in "".join(page.words)  # as text


def test_without_bought_figures_the_page_says_that_there_are_none():
    text = Page(render(make_statement())).text
    assert "No budget was spent on figures of fitness" in text
    assert "measured under the guarantee" not in text


@pytest.mark.parametrize(("variant", "said"), [("release", True), ("rehearsal", False), ("infinite", False)])
def test_bought_figures_may_be_shared_where_a_guarantee_holds(variant, said):
    text = Page(render(make_statement(**VARIANTS[variant], fitness=make_fitness()))).text
    assert ("so the figures may be shared" in text) is said


def test_lost_figures_are_told():
    text = Page(render(make_statement(**VARIANTS["fitness lost"]))).text
    assert text.count("It was lost.") == 2


@pytest.mark.parametrize(
    ("interval", "start"),
    [
        ((0.0, 0.04), "Close"),
        ((0.0, 0.9), "No verdict"),
        ((0.2, 0.3), "Clearly different"),
        ((0.01, 0.2), "Different"),
        ((0.0, 0.2), "No difference shown"),
    ],
)
def test_an_interval_has_a_verdict(interval, start):
    assert fitness_words.verdict(interval).startswith(start)


def test_each_sort_of_question_is_told_once_with_the_columns_that_each_counted():
    counted = (
        Counted(noise=3.5, tables=(("age",), ("sex",))),
        Counted(noise=7.25, tables=(("age", "sex"),)),
        Counted(noise=9.5, tables=(("age",),), purpose=FITNESS),
    )
    events = tuple(Entry(Gaussian(each.noise)) for each in counted)
    page = Page(render(make_statement(events=events, counted=counted)))
    assert page.text.count("A sum with Gaussian noise") == 1
    assert "Once, noise multiplier 3.5 2 columns, each by itself: age , sex" in page.text
    assert "noise multiplier 7.25 1 table of 2 columns: age × sex" in page.text
    assert "noise multiplier 9.5 1 column by itself, for the figures of fitness: age" in page.text
    capped = (Entry(Capped("gaussian", 1.0)), Entry(Gaussian(3.5)))
    page = Page(render(make_statement(events=capped, counted=counted[:2])))
    assert "age × sex" in page.text.split("Questions chosen one after another")[1].split("A sum with")[0]


def test_no_page_says_that_a_patient_s_further_records_were_not_used():
    """They do not count, but what histories looks back on is the whole history."""
    page = Page(render(make_statement(generator="histories", unit="patient", max_records_per_unit=5, lost=Lost())))
    assert "At most 5 records of a patient count." in page.text
    assert "at most 5 of them count." in page.text
    assert "any others" not in page.text


def test_linked_tables_are_said_to_be_protected_together_with_what_counts_of_each():
    tables = ["person: one row for each who", "visit: at most 4 count; a row that several people hold counts for each"]
    declared = {"by": "us", "units": 100, "targets": [], "name": "x", "tables": tables}
    page = Page(render(make_statement(generator="histories", unit="who", max_records_per_unit=4, declared=declared)))
    assert "Every patient: all rows in all tables with the same who" in page.text
    told = page.text.split("Linked tables, and which rows count")[1].split("Columns to predict")[0]
    assert all(each in told for each in tables)


def test_rows_of_each_table_that_count_are_told_at_the_top_and_among_what_was_lost():
    """With the words of a fit's statement. Both places once left out rows below visits."""
    of = with_labs(tables={"visit": {**DECLARED["tables"]["visit"], "max_rows": 1}})
    told = {"by": "us", "units": 100, "targets": [], "name": "x", **stating.linked(of)}
    made = make_statement(generator="histories", unit="person_id", max_records_per_unit=1, declared=told, lost=Lost())
    page = Page(render(made))
    below = "and of each of these at most 2 rows of diagnosis and 3 rows of lab."
    assert f"At most 1 row of visit of a patient count, {below}" in page.text
    assert f"At most 1 row of visit of each person_id counted, {below}" in page.text
    assert f"lost       At most 1 row of visit of each person_id counted, {below}" in information_loss.brief(made)
    two = {key: table for key, table in DECLARED["tables"].items() if key != "diagnosis"}
    two_tables = stating.linked(Schema.from_dict({**DECLARED, "tables": two}))
    plain = make_statement(generator="histories", unit="person_id", declared={**told, **two_tables}, lost=Lost())
    assert any(
        line.startswith("lost       At most 1 record of each person_id") for line in information_loss.brief(plain)
    )


def test_what_a_cap_on_records_does_to_shares_is_said_where_records_are_drawn_one_by_one():
    """Deaths were 2.0 % of visits and 3.1 % of one random visit of each patient; no page said why."""

    def said(most, generator="mixture"):
        made = make_statement(generator=generator, unit="patient", max_records_per_unit=most, lost=Lost())
        return next(line for line in information_loss.brief(made) if " of each patient counted." in line)

    one = "a synthetic record stands for one patient: what ends a history, such as a death, is more common"
    assert one in said(1)
    assert (
        "of each patient counted. Of more, 3 drawn at random counted, so what long histories hold is less common"
        in said(3)
    )
    assert one not in said(3)
    assert said(3, "histories") == "lost       At most 3 records of each patient counted.", (
        "which keeps histories together"
    )


def test_numbers_below_visits_are_said_not_to_be_related_to_other_rows():
    of = with_labs()
    told = {"by": "us", "units": 100, "targets": [], "name": "x", **stating.linked(of)}
    columns = [
        {"name": name, "kind": kind, "declared": {}, "bought": {}}
        for name, kind in (("visit.days", "integer"), ("lab.test", "categorical"), ("lab.value", "continuous"))
    ]
    made = make_statement(generator="histories", unit="person_id", declared=told, lost=Lost(), columns=columns)
    (said,) = (line for line in information_loss.brief(made) if "Numbers below visits" in line)
    assert said.startswith(
        "lost       Numbers below visits (lab.value) depend on the code and the earlier columns of their own row,"
    )


def test_bounds_and_shares_that_noise_hid_are_told_without_a_figure():
    """100 % plus or minus 64 % of the records says nothing."""
    told = [
        {
            "name": "cost",
            "kind": "continuous",
            "declared": {"decimals": 2},
            "bought": {"bounds": [-(2.0**40), 2.0**40]},
        },
        {"name": "age", "kind": "integer", "declared": {}, "bought": {"bounds": [16, 128]}},
        {"name": "day", "kind": "datetime", "declared": {}, "bought": {"bounds": ["1900-01-01", "2100-12-01"]}},
        {"name": "born", "kind": "datetime", "declared": {}, "bought": {"bounds": ["1911-01-01", "2010-12-31"]}},
    ]
    lost = Lost(merged=tuple(Merged(column=f"v{each}", other="other", share=1.0, error=each) for each in (0.32, 0.02)))
    said = information_loss.brief(make_statement(columns=told, lost=lost))
    assert any(
        "Noise hid the bounds of these columns, so the widest possible ones stand: cost, day, born." in line
        for line in said
    )
    assert any("v0.32 a share that noise hides; v0.02 100.0% ± 4.0% of records" in line for line in said)


def test_what_was_lost_is_told():
    lost = Lost(merged=(Merged(column="code", other="rest", share=0.4, error=0.01),), alone=("age",), empty=("day",))
    page = Page(
        render(
            make_statement(
                lost=lost,
                answers=True,
                unit="patient",
                declared={"by": "me", "units": None, "targets": [], "name": "", "invalid": "clamp"},
            )
        )
    )
    for words in (
        "code 40.0% ± 2.0% of records",
        "Known only by themselves, without any relation to another column: age.",
        "of each patient counted.",
        "Cells that break the schema may have been changed",
        "The noisy counts of day lie nearly all where invalid=clamp also puts cells that break the schema",
        "as it should be if the records are like that",
        "The noisy tables that it was given are part of the release",
    ):
        assert words in page.text
    assert "No category was merged" in Page(render(make_statement(lost=Lost()))).text


@pytest.mark.parametrize(("kept", "ruled"), [(["systolic > diastolic"], True), (["age >= 18"], False), ([], False)])
def test_columns_that_a_rule_relates_are_not_called_unrelated(kept, ruled):
    """`aim` counted both pressures with the label alone; no record has a diastolic one above the systolic one all the same."""
    names = ["dead", "systolic", "diastolic", "age", "weight"]
    columns = [{"name": name, "kind": "integer", "declared": {}, "bought": {}} for name in names]
    declared = {"by": "me", "units": None, "targets": ["dead"], "name": "", "rules": {"kept": kept, "counted": []}}
    counted = Counted(noise=9.0, tables=(("systolic", "dead"), ("diastolic", "dead"), ("age", "weight")))
    made = {"columns": columns, "declared": declared}
    (told,) = information_loss.sentences(make_statement(**made, counted=(counted,), lost=Lost()))
    assert told.endswith(f"that follow from this one{', or from a rule that all of them keep' * ruled}.")
    (told,) = information_loss.sentences(make_statement(**made, lost=Lost(alone=("systolic", "diastolic"))))
    assert told.endswith(f"but by chance{' or by a rule that all of them keep' * ruled}.")


def test_columns_that_were_counted_with_the_label_alone_are_told():
    """A wide table at a small epsilon: the fit asks for pairs of a part of the columns, and a fit says this in a warning only."""
    names = ["dead", "age", "ward", "urea", "sex"]
    columns = [{"name": name, "kind": "boolean", "declared": {}, "bought": {}} for name in names]
    declared = {"by": "me", "units": None, "targets": ["dead"], "name": ""}
    with_label = Counted(noise=9.0, tables=tuple((name, "dead") for name in names[1:]))
    pairs = Counted(noise=9.0, tables=(("age", "ward"), ("age",)))
    told = "Counted together with dead and with no other column: urea, sex."
    made = make_statement(columns=columns, declared=declared, counted=(with_label, pairs), lost=Lost())
    assert told in Page(render(made)).text
    assert any(told in line for line in information_loss.brief(made))
    for counted in (
        None,
        (),
        (replace(with_label, purpose=FITNESS),),
        (replace(with_label, tables=(("age", "dead"),)),),
    ):
        made = make_statement(columns=columns, declared=declared, counted=counted, lost=Lost())
        assert "No category was merged" in Page(render(made)).text, "of one column besides there is no other relation"


def test_names_with_a_full_stop_of_their_own_end_no_sentence_with_two():
    lost = Lost(
        hidden=(Hidden(column="code", categories=("x", "n.a."), share=0.5),), alone=("no.",), wide=("temp.",), empty=()
    )
    declared = {"by": "Klinik e.V.", "units": 100, "targets": [], "name": "x"}
    unfound = {"kind": "continuous", "declared": {"decimals": 2}, "bought": {"bounds": [-(2.0**40), 2.0**40]}}
    made = make_statement(lost=lost, declared=declared, columns=[{"name": "cost p.a.", **unfound}])
    text = Page(render(made)).text
    for words in (
        "code x, n.a. Synthetic records",
        "another column: no. Synthetic",
        "the noise: temp. Noise",
        "possible ones stand: cost p.a. Most",
        "Declared by: Klinik e.V. Facts marked",
        "Declared by: Klinik e.V. The guarantee",
    ):
        assert words in text, words
    assert ".." not in text


def test_fitness_that_tells_nothing_is_no_figure():
    group = make_fitness().single
    wide = replace(
        group,
        mean=(0.0, 1.0),
        worst=(0.0, 1.0),
        tables=tuple(replace(each, interval=(0.0, 1.0)) for each in group.tables),
    )
    text = Page(render(make_statement(fitness=make_fitness(single=wide)))).text
    assert "0.0 % to 100.0 %" not in text
    assert "hidden by noise" in text
    assert "Distance, at most" not in text, "no table of it either"
    assert fitness_words.brief(make_fitness(single=wide)) == [
        "fitness    single columns: noise hides how far they are off"
    ]


def test_rules_that_are_imposed_on_every_record_are_shown():
    declared = {**make_statement().declared, "rules": {"kept": ["came <= left"], "counted": ["a < b"]}}
    text = Page(render(make_statement(declared=declared))).text
    assert "Rules that every synthetic record keeps, whether the records do or not came <= left" in text


def test_what_was_learned_and_how_files_are_written_is_told_by_column():
    columns = {"sex": {"kind": "categorical", "categories": "learn"}}
    values = make_schema().to_dict()
    values["columns"] = {name: columns.get(name, column) for name, column in values["columns"].items()}
    values["reading"] = {"separator": ";", "decimal": ",", "columns": {"dose": {"suffix": " mg", "thousands": "."}}}
    release = Synthesizer("independent", schema=Schema.from_dict(values), budget=Budget(20.0, 1e-5)).fit(
        make_frame(400)
    )
    (asking,) = (
        each
        for question in questions(release.statement)
        for each in question.askings
        if each.counted[0][0] == "to learn facts of"
    )
    assert asking.counted == (("to learn facts of", ("sex",)),)
    page = render(release.statement)
    assert "separator \u201c;\u201d, decimal \u201c,\u201d" in page
    assert "dose: thousands \u201c.\u201d, suffix \u201c mg\u201d" in page
    assert "columns.dose" not in page


def test_each_purchase_names_the_column_that_it_was_made_for():
    columns = {
        "patient": {"kind": "identifier"},
        "code": {"kind": "categorical", "categories": "learn", "tree": {"prefix": [1]}, "missing": True},
        "sex": {"kind": "categorical", "categories": "learn"},
        "ward": {"kind": "categorical", "categories": "learn"},
        "age": {"kind": "integer", "bounds": "learn"},
        "ill": {"kind": "boolean"},
    }
    facts = {"declared_by": "the tests", "unit": "patient", "max_records_per_unit": 2, "units": "learn"}
    schema, budget = Schema.from_dict({**facts, "columns": columns}), Budget(20.0, 1e-5)
    items = [(name, [item]) for name, item in schema.learned]
    assert len(asked_for(items, units=True)) == len(learn.prices(schema, learn.purchase(schema, budget, "patient")))
    rows = range(600)
    frame = pd.DataFrame(
        {"patient": rows, "code": [f"{'AB'[row % 2]}{row % 3}" for row in rows], "sex": ["m", "w"] * 300, "ward": "x"}
    ).assign(age=[row % 90 for row in rows], ill=False)
    release = Synthesizer("independent", schema=schema, budget=budget).fit(frame)
    told = [
        (asking.times, each[1])
        for question in questions(release.statement)
        for asking in question.askings
        for each in asking.counted
        if each[0] == "to learn facts of"
    ]
    assert sorted(told) == [(1, ("code",)), (1, ("the number of units",)), (2, ("age",)), (2, ("sex", "ward"))]


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("bounds", [-(2.0**40), 2.0**40], True),
        ("bounds", [0.0, 2.0**40], False),
        ("bounds", [0, 0], True),
        ("bounds", ["1900-01-01", "2100-12-01"], True),
        ("bounds", ["1950-01-01", "2100-12-01"], False),
        ("categories", ["other"], True),
        ("categories", ["a", "other"], False),
    ],
)
def test_the_page_says_where_noise_hid_what_was_to_be_learned(name, value, hidden):
    told = ("noise hid", "stood clear of the noise")
    assert any(words in fact(name, value, bought=True).phrase for words in told) == hidden
    assert not any(words in fact(name, value, bought=False).phrase for words in told)


def test_hidden_bounds_of_a_column_with_decimals_are_told():
    schema = Schema.from_dict({"columns": {"x": {"kind": "continuous", "bounds": "learn", "decimals": 4}}})
    low, high = schema.with_learned("x", bounds=(-(2.0**40), 2.0**40)).columns[0].bounds
    assert "noise hid" in fact("bounds", [low, high], bought=True, decimals=4).phrase
    assert "noise hid" not in fact("bounds", [low, 5.0], bought=True, decimals=4).phrase
