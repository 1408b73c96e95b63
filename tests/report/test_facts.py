"""Law 43: what a release claims is worked out again and refused by name where it was edited, or marked as claimed."""

import copy
import dataclasses
import json
import shutil

import pytest
from clinic import make_frame, make_schema, reseal

from synthdp import BadInput, Budget, Synthesizer, load, verify
from synthdp.report import facts
from synthdp.report.statement import Statement

LEARNED = {
    "sex": {"kind": "categorical", "categories": "learn"},
    "age": {"kind": "integer", "bounds": "learn", "bins": 4},
}
RULES = [{"if": {"ill": False}, "then": {"dose": "<= 0"}}, {"if": {"age": "< 10"}, "then": {"dose": "<= 5"}}]


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """`rich` is a release in which every field of a statement says something, `seeded` a rehearsal with a sampled plan."""
    folder = tmp_path_factory.mktemp("releases")
    rich = make_schema(
        columns=LEARNED | {"remark": {"kind": "ignore"}},
        reading={"decimal": ","},
        unit="patient",
        max_records_per_unit=2,
        units="learn",
        rules=RULES,
        declared_by="the office",
    )
    synthesizer = Synthesizer("independent", schema=rich, budget=Budget(30.0, 1e-5))
    about = {
        "account": folder / "patients.account",
        "invalid": "clamp",
        "fitness": 0.1,
        "answers": True,
        "audit": "It was prepared.",
        "edited_after": ["a check"],
    }
    with pytest.warns(UserWarning, match="synthetic records may break these rules"):
        synthesizer.fit(make_frame(300, repeats=2), **about).save(folder / "rich")
    sampled = Synthesizer(
        "dpgan", schema=make_schema(), budget=Budget(0.5, 1e-5), rate=0.2, steps=4, hidden=(4,), latent=2
    )
    sampled.fit(make_frame(100), seed=1).save(folder / "seeded")
    return folder


@pytest.fixture(scope="module")
def folder(releases, tmp_path_factory):
    """A copy of `rich` that tests may forge, each from the start."""
    return shutil.copytree(releases / "rich", tmp_path_factory.mktemp("forged") / "rich")


def forge(folder, original, change, *, sealed=True):
    """Change release.json as a forger would, who makes the manifest anew (`sealed`)."""
    description = copy.deepcopy(json.loads((original / "release.json").read_text(encoding="utf-8")))
    change(description)
    (folder / "release.json").write_text(json.dumps(description), encoding="utf-8")
    shutil.copy(original / "manifest.json", folder)
    if sealed:
        reseal(folder)


def said(**values):
    return lambda description: description["statement"].update(values)


def inside(name, /, **values):
    return lambda description: description["statement"][name].update(values)


def column(place, **values):
    return lambda description: description["statement"]["columns"][place].update(values)


def dropped(*path):
    def change(description):
        values = description["statement"]
        for step in path[:-1]:
            values = values[step]
        del values[path[-1]]

    return change


def event(**values):
    return lambda description: description["statement"]["events"][0]["event"].update(values)


def both(*changes):
    def change(description):
        for each in changes:
            each(description)

    return change


def moved(place, item, source, target):
    def change(description):
        found = description["statement"]["columns"][place]
        found[target][item] = found[source].pop(item)

    return change


HIDDEN = {"column": "sex", "categories": ["female"], "share": 0.01}
MERGED = {"column": "sex", "other": "other", "share": 0.25, "error": 0.01}
UUID = "123e4567-e89b-42d3-a456-426614174000"
# field -> edits of it, each refused by its name (True; a text names what contradicts it) or marked as claimed (False)
EDITS = {
    "epsilon": [(said(epsilon=0.5), True), (said(epsilon=29.0), True), (said(epsilon="inf"), True), (said(epsilon="nan"), True)],
    "delta": [
        (said(delta=1e-9), True),
        (both(said(delta=1e-9), inside("budget", delta=1e-9)), "epsilons"),
        (said(delta=0), True),
        (said(delta=None), True),
    ],
    "relation": [
        (said(relation="replace_one"), True),
        (both(said(relation="replace_one"), inside("budget", relation="replace_one")), True),
        (said(relation=["add_remove"]), True),
    ],
    "unit": [(said(unit="record"), True), (said(unit="nobody"), True), (said(unit=None), True)],
    "max_records_per_unit": [
        (said(max_records_per_unit=1), True),
        (said(max_records_per_unit=20), True),
        (said(max_records_per_unit=True), True),
    ],
    "accountant": [
        (said(accountant="naive"), True),
        (said(accountant="rdp"), True),
        (said(accountant="none"), True),
        (said(accountant={}), True),
    ],
    "epsilons": [
        (inside("epsilons", pld=0.5), True),
        (inside("epsilons", naive=0.5), True),
        (inside("epsilons", oracle=0.1), True),
        (dropped("epsilons", "rdp"), True),
        (said(epsilons=[]), True),
    ],
    "curve": [
        (lambda d: d["statement"]["curve"][0].update(epsilon=0.0), True),
        (lambda d: d["statement"]["curve"][-1].update(epsilon=50.0), True),
        (lambda d: d["statement"]["curve"].pop(), True),
        (lambda d: d["statement"]["curve"].append({"delta": 1e-20, "epsilon": 0.1}), True),
        (said(curve=[]), True),
    ],
    "events": [
        (event(noise=1e6), True),
        (event(type="Laplace"), True),
        (lambda d: d["statement"]["events"][0].update(count=0), True),
        (lambda d: d["statement"]["events"].pop(), True),
        (said(events=[]), True),
    ],
    "budget": [
        (inside("budget", epsilon=1.0), True),
        (inside("budget", relation="replace_one"), True),
        (inside("budget", epsilon=1e6), False),
        (said(budget=None), True),
    ],
    "account": [
        (inside("account", head_checked=True), False),
        (said(account=None), "not_covered"),
        (inside("account", filter="renyi"), False),
        (inside("account", filter="none"), True),
    ],
    "generator": [
        (said(generator="mst"), True),
        (lambda d: (d["statement"].update(generator="mst"), d["generator"].update(name="mst")), "the model has"),
        (said(generator=5), True),
    ],
    "settings": [(said(settings={"rate": 1}), True), (said(settings=[]), True)],
    "columns": [
        (column(1, kind="continuous"), True),
        (column(1, name="years"), True),
        (lambda d: d["statement"]["columns"].pop(0), True),
        (lambda d: d["statement"]["columns"].reverse(), True),
        (lambda d: d["statement"]["columns"][2]["bought"].update(categories=["a"]), True),
        (lambda d: d["statement"]["columns"][2]["bought"].pop("categories"), True),
        (moved(3, "categories", "declared", "bought"), True),  # two lists were not paid for
        (moved(2, "categories", "bought", "declared"), False),
        (moved(4, "missing", "declared", "bought"), True),  # nobody sells that
        (moved(4, "atoms", "declared", "bought"), True),  # they come with bounds or bins
        (column(2, bought=None), True),
        (said(columns=5), True),
    ],
    "declared": [
        (inside("declared", by="the ethics board"), True),
        (inside("declared", units=10_000_000), True),
        (inside("declared", units=None), True),
        (inside("declared", targets=["sex"]), True),
        (inside("declared", name="other"), True),
        (inside("declared", rules={"kept": [], "counted": []}), True),
        (dropped("declared", "rules"), True),
        (dropped("declared", "by"), True),
        (inside("declared", audit="It was audited by the best."), False),
        (dropped("declared", "audit"), None),  # what is not said cannot be marked
        (inside("declared", processes=7), "not_covered"),
        (inside("declared", invalid="error"), "not_covered"),
        (dropped("declared", "invalid"), "not_covered"),
        (inside("declared", reviewed=True), False),
        (inside("declared", ignored=["dose"]), True),
        (dropped("declared", "ignored"), True),
        (inside("declared", reading={"decimal": "."}), True),
        (dropped("declared", "edited_after"), "not_covered"),
        (inside("declared", edited_after=["a draft"]), "not_covered"),
    ],
    "noise_source": [(said(noise_source="the purest chance"), True), (said(noise_source=None), True)],
    "rehearsal": [(said(rehearsal=True), "noise_source"), (said(rehearsal=1), True), (said(rehearsal=None), True)],
    "not_covered": [
        (said(not_covered=[]), True),
        (lambda d: d["statement"]["not_covered"].pop(0), True),
        (lambda d: d["statement"]["not_covered"].append("Nothing else."), True),
        (both(said(not_covered=[]), inside("provenance", wording="another")), False),
        (said(not_covered=[5]), True),
    ],
    "provenance": [
        (inside("provenance", synthdp="9.9"), False),
        (inside("provenance", torch="1.0"), False),
        (inside("provenance", generator={"package": "another", "version": "1"}), True),
        (inside("provenance", generator=5), True),
        (said(provenance=1), True),
    ],
    "release_id": [(said(release_id=UUID), False), (said(release_id=None), True), (said(release_id="mine"), True)],
    "fitness": [
        (inside("fitness", noise=1.0), True),
        (lambda d: d["statement"]["fitness"]["single"].update(worst=[0.0, 0.001]), True),
        (lambda d: d["statement"]["fitness"]["single"].update(mean=[0.0, 0.001]), False),
        (lambda d: d["statement"]["fitness"]["single"]["tables"][0].update(columns=["nothing"]), True),
        (lambda d: d["statement"]["fitness"]["single"]["tables"][0].update(interval=[2, 1]), True),
        (lambda d: d["statement"]["fitness"]["single"]["tables"][0].update(cells=5), True),
        (lambda d: d["statement"]["fitness"]["with_target"]["tables"][0].update(cells=1), True),
        (inside("fitness", confidence=0.99), True),
        (inside("fitness", rows=5_000_000), False),
    ],
    "counted": [
        (lambda d: d["statement"]["counted"][0].update(noise=0.01), True),
        (lambda d: d["statement"]["counted"][0]["tables"][0].append("nothing"), True),
        (lambda d: d["statement"]["counted"][0].update(purpose="fun"), True),
        (lambda d: d["statement"]["counted"].pop(), "tables"),  # of which more are there
        (said(counted=5), True),
    ],
    "lost": [
        (lambda d: d["statement"]["lost"].update(alone=["age"]), True),
        (lambda d: d["statement"]["lost"].update(alone=[]), False),
        (lambda d: d["statement"]["lost"].update(merged=[MERGED | {"column": "age"}]), True),
        (lambda d: d["statement"]["lost"].update(merged=[MERGED | {"share": 1.5}]), True),
        (lambda d: d["statement"]["lost"].update(merged=[MERGED]), False),
        (lambda d: d["statement"]["lost"].update(empty=5), True),
        (lambda d: d["statement"]["lost"].update(hidden=[HIDDEN]), False),
        (lambda d: d["statement"]["lost"].update(hidden=[HIDDEN | {"categories": ["no such sex"]}]), True),
        (lambda d: d["statement"]["lost"].update(hidden=[HIDDEN | {"categories": []}]), True),
        (lambda d: d["statement"]["lost"].update(hidden=[HIDDEN | {"share": -0.1}]), True),
        (lambda d: d["statement"]["lost"].update(unlinked=1), True),
        (lambda d: d["statement"]["lost"].update(unlinked=True), False),
        (lambda d: d["statement"]["lost"].update(bare=[{"table": "lab", "share": 2.0}]), True),
        (lambda d: d["statement"]["lost"].update(bare=[{"table": "no such table", "share": 0.01}]), True),
        (lambda d: d["statement"]["lost"].update(apart=[{"column": "a.x", "other": "b.y", "earlier": True}]), True),
        (lambda d: d["statement"]["lost"].update(apart=[{"column": "a.x", "other": "b.y", "earlier": 1}]), True),
        (said(lost=[]), True),
    ],
    "answers": [
        (said(answers=False), True),
        (dropped("answers"), True),
        (said(answers="yes"), True),
        (lambda d: d["statement"]["lost"].update(alone=[]), False),
    ],
}  # fmt: skip


def test_every_field_of_a_statement_is_in_the_table_and_in_the_edits():
    fields = {field.name for field in dataclasses.fields(Statement)}
    assert {fact.name.partition(".")[0] for fact in facts.FACTS} == fields == set(EDITS)
    for fact in facts.FACTS:
        assert bool(fact.checked) == (fact.holds is not None), fact.name
        assert fact.checked or fact.claimed, fact.name


@pytest.mark.parametrize(
    ("name", "change", "refused"),
    [
        pytest.param(name, *edit, id=f"{name}-{place}")
        for name, edits in EDITS.items()
        for place, edit in enumerate(edits)
    ],
)
def test_an_edited_fact_is_refused_by_name_or_marked_as_claimed(releases, folder, name, change, refused):
    forge(folder, releases / "rich", change)
    if refused:
        with pytest.raises(BadInput, match=rf"statement('s field|:) {name}\b" if refused is True else refused) as error:
            verify(folder)
        assert len(str(error.value).splitlines()) == 1
        return
    found = verify(folder)
    if refused is False:
        assert [fact for fact in found.claimed if fact.partition(".")[0] == name]


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_without_a_new_manifest_names_the_file(releases, folder, name):
    forge(folder, releases / "rich", EDITS[name][0][0], sealed=False)
    for read in (load, verify):
        with pytest.raises(BadInput, match=r"'release\.json' is not the file that manifest\.json lists"):
            read(folder)


COSTLY = {fact.name for fact in facts.FACTS if fact.costly}


@pytest.mark.parametrize(("atom", "refused"), [(0, False), (4, True)])
def test_the_only_atom_that_is_bought_is_zero(folder, releases, atom, refused):
    """Any other may have been read off the records."""

    def change(description):
        description["schema"]["columns"]["dose"]["atoms"] = [atom]
        row = description["statement"]["columns"][4]
        row["bought"] = {"bins": row["declared"].pop("bins"), "atoms": [atom]}
        del row["declared"]["atoms"]

    forge(folder, releases / "rich", change)
    if not refused:
        verify(folder)
        return
    with pytest.raises(BadInput, match="columns"):
        verify(folder)


@pytest.mark.heavy
def test_loading_refuses_what_costs_nothing_to_check_and_asks_no_accountant(releases, folder, monkeypatch):
    monkeypatch.setattr(facts.accounting, "epsilons", None)
    monkeypatch.setattr(facts.accounting, "curve", None)
    shutil.copytree(releases / "rich", folder, dirs_exist_ok=True)
    load(folder)
    for name in set(EDITS) - COSTLY:
        for change, refused in EDITS[name]:
            if refused and name not in ("delta",):
                forge(folder, releases / "rich", change)
                with pytest.raises(BadInput):
                    load(folder)
    forge(folder, releases / "rich", said(epsilon=0.5))
    assert load(folder).statement.epsilon == 0.5, "that is for verify to find"


def test_a_rehearsal_made_a_release_leaves_no_fact_that_nobody_marked(releases, tmp_path):
    """A seed leaves no trace in the folder: where all that follows from it is edited with it, the rest is marked as claimed."""
    folder = shutil.copytree(releases / "seeded", tmp_path / "seeded")
    real = json.loads((releases / "rich" / "release.json").read_text(encoding="utf-8"))["statement"]
    forge(folder, releases / "seeded", said(rehearsal=False))
    with pytest.raises(BadInput, match="noise_source"):
        load(folder)
    forge(folder, releases / "seeded", said(rehearsal=False, noise_source=real["noise_source"]))
    with pytest.raises(BadInput, match="release_id"):
        load(folder)
    forge(folder, releases / "seeded", said(rehearsal=False, noise_source=real["noise_source"], release_id=UUID))
    assert {"rehearsal", "release_id"} <= set(verify(folder).claimed)


def test_epsilon_comes_to_nine_digits_with_the_recorded_versions_and_to_three_with_others(releases, tmp_path):
    folder = shutil.copytree(releases / "seeded", tmp_path / "seeded")
    epsilon = verify(folder).statement.epsilon
    near = said(epsilon=epsilon * (1 - 1e-6))
    forge(folder, releases / "seeded", near)
    with pytest.raises(BadInput, match="epsilon"):
        verify(folder)
    forge(folder, releases / "seeded", both(near, inside("provenance", pld={"dp_accounting": "0.0"})))
    assert verify(folder).statement.epsilon < epsilon
    forge(folder, releases / "seeded", both(said(epsilon=epsilon * 0.99), inside("provenance", pld={})))
    with pytest.raises(BadInput, match="epsilon"):
        verify(folder)


def test_another_sentence_is_another_wording(monkeypatch):
    before = facts.stating.wording()
    monkeypatch.setattr(facts.stating, "SELECTED", "Something else.")
    assert facts.stating.wording() != before


def test_a_small_epsilon_is_held_to_its_own_digits(tmp_path):
    made = Synthesizer("independent", schema=make_schema(), budget=Budget(0.002, 1e-6))
    folder = made.fit(make_frame(50), seed=1).save(tmp_path / "made")
    epsilon = verify(folder).statement.epsilon
    copied = shutil.copytree(folder, tmp_path / "copied")
    lower = both(said(epsilon=epsilon / 2), inside("provenance", pld={"dp_accounting": "0.0"}))
    forge(copied, folder, lower)
    with pytest.raises(BadInput, match="epsilon"):
        verify(copied)


def test_a_field_that_no_version_wrote_is_refused(releases, folder):
    forge(folder, releases / "rich", said(epsilon_per_year=0.01))
    with pytest.raises(BadInput, match="does not know 'epsilon_per_year'"):
        load(folder)


def test_another_wording_lets_no_older_accountant_claim_and_no_id_be_left_out(releases, folder):
    for change in (said(accountant="strong"), said(release_id=None)):
        forge(folder, releases / "rich", both(change, inside("provenance", wording="another")))
        with pytest.raises(BadInput, match=r"accountant|release_id"):
            verify(folder)
