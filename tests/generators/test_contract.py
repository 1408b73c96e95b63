"""One contract suite: all generators x all laws. A generator that is added is found and judged here.

The checks are those of `synthdp.testing`, which other packages run too; wrong settings have a suite of their own (`test_settings.py`).
"""

import json
import math
import re
from pathlib import Path

import pytest
from clinic import contracts, kind_of, make_frame, quick, reseal
from sweeps import heavy, lone, sweep

from synthdp import BadInput, Budget, Synthesizer, load, verify
from synthdp.testing import contract
from synthdp.testing.contract import Subject

NAMES = contracts()
# Settings at which a generator learns shares as well as it can.
MARGINALS = {
    "dpmerf": {"features": 400, "steps": 400, "batch": 200},
    "kernel_teachers": {"start": "label"},
    "pategan": {"start": "label"},
    "pategan_original": {"start": "label"},
}
SOURCE = Path(__file__).read_text(encoding="utf-8")
PICTURES = " of images"
EVERY = [*NAMES, *(name + PICTURES for name in contracts("images"))]
# One of each family, for the checks that need several fits; `make test-all` takes the others.
TYPICAL = {"mixture", "aim", "dpgan", "dpmerf", "classgauss" + PICTURES}


# Fewer steps do for what is judged here. The table that a network starts from is dpgan:mixture's to learn.
QUICKER = {
    "aim": {"iterations": 15, "last": 30},
    "dpdm": {"steps": 3},
    "dpgan": {"steps": 6},
    "dpgan_images": {"steps": 8},
    "dpmerf": {"steps": 10},
    "kernel_teachers": {"steps": 15},
    "kernel_teachers_images": {"steps": 8},
    "mixture": {"iterations": 15},
    "pategan": {"steps": 15, "start": "label"},
}


def usual(name):
    return contract.usual(made(name))


@pytest.fixture(params=sweep(NAMES, lone))
def name(request):
    return request.param


def made(case):
    """The subject of a case of EVERY."""
    data = "images" if case.endswith(PICTURES) else "table"
    name = case.removesuffix(PICTURES)
    return Subject(quick(name, data, **QUICKER.get(name, {})), data)


@pytest.fixture(params=sweep(EVERY, lone))
def subject(request):
    return made(request.param)


@pytest.fixture(params=sweep(EVERY, TYPICAL.__contains__))
def typical(request):
    return made(request.param)


def test_every_check_is_made_here():
    """But for wrong settings."""
    made = {name.removeprefix("contract.") for name in re.findall(r"contract\.\w+(?=\((?:subject|typical)\b)", SOURCE)}
    assert made == {check.__name__ for check in contract.CHECKS} - {"wrong_settings_are_refused"}


def test_settings_are_frozen_keyword_only_and_documented(subject):
    contract.settings_are_frozen_and_explained(subject)


def test_plans_read_no_data_and_count_the_same_twice(subject):
    contract.plans_read_no_data_and_repeat(subject)


def test_the_ledger_is_the_plan_whatever_the_records_are(subject):
    contract.the_ledger_is_the_plan(subject, (0, 41))


@pytest.mark.heavy
def test_the_ledger_is_the_plan_of_one_record_more_or_less_too(subject):
    contract.the_ledger_is_the_plan(subject)


@pytest.mark.parametrize("epsilon", [contract.BUDGET.epsilon, heavy(0.5), heavy(3.0)])
def test_the_budget_is_kept_and_nearly_used(subject, epsilon):
    contract.the_budget_is_kept_and_nearly_used(subject, (epsilon,))


def test_too_small_a_budget_is_refused_with_nothing_charged(subject):
    contract.too_small_a_budget_charges_nothing(subject)


def test_replay(subject):
    contract.replay(subject)


def test_replay_of_patients(typical):
    contract.replay_of_patients(typical)


def test_zero_and_one_record_fit_like_any_other_number(typical):
    contract.zero_and_one_record_fit(typical)


def test_samples_follow_the_schema(subject):
    contract.samples_follow_the_schema(subject)


def test_the_same_seed_gives_the_same_frame(typical):
    contract.seeds_repeat(typical)


def test_without_a_seed_two_fits_differ_and_are_no_rehearsal(typical):
    contract.without_a_seed_fits_differ(typical)


def test_saved_and_loaded_it_gives_the_same_frame(subject):
    contract.saved_and_restored_it_is_the_same(subject)


def test_arrays_that_do_not_fit_are_refused(subject):
    contract.arrays_that_do_not_fit_are_refused(subject)


def test_the_release_holds_no_rows(typical):
    contract.a_release_holds_no_rows(typical)


def test_canaries_are_nowhere(subject):
    contract.canaries_are_nowhere(subject)


def test_an_outlier_or_a_rare_category_changes_no_shape(typical):
    contract.strange_records_change_no_shape(typical)


def test_frames_have_the_schemas_columns_dtypes_and_values(name, schema):
    release = usual(name)
    sample = release.sample(700, seed=1)
    assert list(sample.columns) == list(schema.names)
    assert len(sample) == 700
    schema.validate(sample, "error")
    assert sample["patient"].is_unique
    assert list(sample["sex"].cat.categories) == ["female", "male"]
    assert sample["stage"].cat.ordered
    assert sample["age"].dtype == "int64"
    assert sample["dose"].isna().any()
    assert not sample["age"].isna().any()
    assert len(release.sample(0)) == 0
    assert len(release.sample(1)) == 1


def test_an_altered_release_is_refused(name, tmp_path):
    usual(name).save(tmp_path / "release")
    files = sorted(file.name for file in (tmp_path / "release").iterdir())
    assert files == ["ledger.jsonl", "manifest.json", "model.safetensors", "release.json"]
    ledger = tmp_path / "release" / "ledger.jsonl"
    text = ledger.read_text()
    ledger.write_text(re.sub('"(noise|bound)":', r'"\1":1', text, count=1))
    with pytest.raises(BadInput, match=r"'ledger\.jsonl' is not the file"):
        load(tmp_path / "release")
    reseal(tmp_path / "release")
    with pytest.raises(BadInput, match="altered"):
        load(tmp_path / "release")
    ledger.write_text(text)
    description = json.loads((tmp_path / "release" / "release.json").read_text())
    description["schema"]["columns"]["sex"]["categories"].append("x")
    sex = next(column for column in description["statement"]["columns"] if column["name"] == "sex")
    sex["declared"]["categories"].append("x")
    (tmp_path / "release" / "release.json").write_text(json.dumps(description))
    reseal(tmp_path / "release")
    with pytest.raises(BadInput, match="model"):
        load(tmp_path / "release")


def test_a_release_that_claims_too_little_is_refused(name, tmp_path):
    usual(name).save(tmp_path / "release")
    file = tmp_path / "release" / "release.json"
    description = json.loads(file.read_text())
    description["statement"]["epsilon"] = description["statement"]["epsilons"][
        description["statement"]["accountant"]
    ] = 0.01
    file.write_text(json.dumps(description))
    reseal(tmp_path / "release")
    with pytest.raises(BadInput, match="statement's field epsilons does not match what the ledger's events cost"):
        verify(tmp_path / "release")


@pytest.mark.parametrize("name", sweep(NAMES, {"mixture", "aim", "dpgan"}.__contains__))
def test_an_infinite_budget_recovers_the_marginals(name, schema):
    frame = make_frame(1500)
    generator = quick(name, **MARGINALS.get(kind_of(name).name, {}))
    release = Synthesizer(generator, schema=schema, budget=Budget(math.inf, 1e-5)).fit(frame, seed=0)
    assert release.statement.epsilon == math.inf
    real, fake = frame, release.sample(4000, seed=1)
    for column in ("sex", "ill", "stage"):
        expected = real[column].value_counts(normalize=True)
        found = fake[column].astype(object).value_counts(normalize=True)
        assert float((expected - found.reindex(expected.index, fill_value=0.0)).abs().sum()) / 2 < 0.08


def test_a_release_is_printed_in_one_line(name):
    said = repr(usual(name))
    assert len(said) < 140
    assert kind_of(name).name in said
    assert "rehearsal" in said


def test_unknown_settings_are_refused_by_name(name, schema, budget):
    with pytest.raises(BadInput, match="no_such_setting"):
        Synthesizer(kind_of(name).name, schema=schema, budget=budget, no_such_setting=1)
