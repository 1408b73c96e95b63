import functools
import hashlib
import shutil

import numpy as np
import pandas as pd
import pytest

from synthdp.errors import BadInput
from synthdp.schema.codec import Codec
from synthdp.sets import named, pategan_paper_tables, patient_tables, published_pictures, survey_tables

EMBEDDED = {"meps", "digits"}


@pytest.fixture(scope="module")
def present():
    return {info.name for info in named.describe() if info.present}


@pytest.fixture
def data(present, request):
    name = request.param
    if name not in present:
        pytest.skip(f"the records of {name} are not here")
    return name, loaded(name)


@functools.cache
def loaded(name):
    return named.load(name)


@pytest.mark.parametrize("name", named.NAMES)
def test_public_schemas_load_and_need_nothing_learned(name):
    schema = named.schema_of(name)
    assert schema.name == name
    assert schema.learned == []
    assert isinstance(schema.units, int)
    assert len(schema.targets) == 1
    assert schema.declared_by
    Codec(schema)


@pytest.mark.heavy
@pytest.mark.parametrize("data", named.NAMES, indirect=True)
def test_records_fit_their_public_schema(data):
    name, held = data
    assert list(held.train.columns) == list(held.schema.names)
    held.schema.validate(held.train)
    held.schema.validate(held.test)
    codec = Codec(held.schema)
    codes = codec.encode(held.train)
    back = codec.encode(codec.decode(codes, np.random.default_rng(0)))
    np.testing.assert_array_equal(back, codes)
    # The public count is that of the training part: exact, or rounded for patients.
    unit = held.schema.unit
    units = held.train[unit].nunique() if unit else len(held.train)
    assert abs(units - held.schema.units) <= (100 if unit else 0), name


SPLITS = {
    "meps": ((8313, 2078), "income", "a2507b3b3fba"),
    "adult": ((32561, 16281), "fnlwgt", "51d29c01883a"),
    "diabetes130": ((81615, 20151), "patient_nbr", "0d8d83d25266"),
    "epileptic_seizure": ((9200, 2300), "X1", "b235d970ef24"),
    "cervical_cancer": ((687, 171), "Age", "0908b466313f"),
    "spambase": ((3681, 920), "word_freq_make", "1a5f2635f26b"),
    "isolet_part": ((1248, 311), "f1", "ccdfc78bba7b"),
    "creditcard_sample": ((45570, 11392), "V1", "3bb95cd71e65"),
    "stroke": ((4088, 1022), "age", "b4dc0c60ab85"),
    "support2": ((7284, 1821), "age", "6592f09f69f7"),
    "noshow": ((88625, 21902), "Age", "98eea0c869bf"),
    "covid_testing": ((12422, 3102), "pan_day", "dbff39e02cac"),
    "nist_acs": ((21803, 5450), "AGEP", "653f46898246"),
    "randhie": ((16179, 4011), "xage", "58c75e2f60af"),
    "nhanes_2017_2018": ((6693, 1673), "AgeInYearsAtScreening", "b06f91bc707c"),
    "digits": ((1438, 359), "digit", "ec61afc4f19d"),
    "mnist": ((60000, 10000), "digit", "85f5a8f3e9dd"),
    "pneumoniamnist": ((5232, 624), "finding", "ceb19a6465ea"),
    "mednist": ((49150, 9804), "region", "c4be22c69674"),
    "usps": ((7291, 2007), "digit", "0ab73d232f2c"),
}


@pytest.mark.heavy
@pytest.mark.parametrize("data", named.NAMES, indirect=True)
def test_splits_are_the_same_on_every_machine(data):
    name, held = data
    rows, column, digest = SPLITS[name]
    assert (len(held.train), len(held.test)) == rows
    text = "\n".join(str(cell) for cell in held.train[column].tolist())
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == digest


@pytest.mark.heavy
@pytest.mark.parametrize("data", ["diabetes130", "noshow", "covid_testing", "randhie"], indirect=True)
def test_people_are_on_one_side_of_the_split(data):
    _, held = data
    unit = held.schema.unit
    assert held.train[unit].nunique() < len(held.train), "nobody has two records: the split shows nothing"
    assert not set(held.train[unit]) & set(held.test[unit])


@pytest.mark.heavy
@pytest.mark.parametrize("data", ["diabetes130"], indirect=True)
def test_readmissions_are_as_often_as_published(data):
    _, held = data
    counts = held.train["readmitted"].value_counts(normalize=True)
    assert counts["NO"] == pytest.approx(0.54, abs=0.01)


@pytest.mark.parametrize("data", ["meps"], indirect=True)
def test_meps_is_decoded(data):
    _, held = data
    assert held.notes[0] == "29 records have two health flags; the worse one counts"
    frame = pd.concat([held.train, held.test])
    assert frame["health"].value_counts()["poor"] == 692
    assert frame["income_class"].value_counts()["middle"] == 3294
    assert "private" not in frame
    assert frame["hi_empunion"].mean() == pytest.approx(0.3797, abs=1e-4)
    assert frame["income"].between(0, 200).all()


def test_of_two_health_flags_the_worse_counts():
    flags = ["vegood", "good", "fair", "poor", "poverty", "lowincome", "midincome"]
    raw = pd.DataFrame(
        0,
        index=range(4),
        columns=[*flags, *survey_tables.MEPS_DERIVED, survey_tables.NEAR_TARGET, *survey_tables.MEPS_FLAGS],
    )
    raw = raw.assign(income=[-1.0, 300.0, 5.0, 0.0], ssiratio=[-2.0, 9.0, 0.5, 1.0], firmsz=0.1)
    raw.loc[0, ["good", "poor"]] = 1
    raw.loc[1, ["vegood", "fair"]] = 1
    raw.loc[2, "vegood"] = 1
    frame, test, notes = survey_tables.meps(raw)
    assert test is None
    assert frame["health"].tolist() == ["poor", "fair", "very good", "excellent"]
    assert frame["income_class"].tolist() == ["high"] * 4
    assert frame["income"].tolist() == [0, 200, 5, 0]
    assert "2 records have two health flags" in notes[0]


# Published: 2,300 of 11,500 windows; 55 of 858 patients; 1,813 of 4,601 messages; 98 frauds in this part; two vowels of
# each kind from 30 speakers of the test part: 300 of 1,559; 249 strokes; 2,360 deaths in hospital; 22,319 no-shows.
POSITIVE = {
    "epileptic_seizure": 2300,
    "cervical_cancer": 55,
    "spambase": 1813,
    "isolet_part": 300,
    "creditcard_sample": 98,
    "stroke": 249,
    "support2": 2360,
    "noshow": 22319,
}


@pytest.mark.heavy
@pytest.mark.parametrize("data", list(POSITIVE), indirect=True)
def test_targets_are_as_often_true_as_published(data):
    name, held = data
    target = pd.concat([held.train, held.test])[held.schema.targets[0]]
    assert target.dtype == bool
    assert int(target.sum()) == POSITIVE[name]


def test_a_seizure_is_class_one_of_five():
    raw = pd.DataFrame({"X1": [1, 2, 3, 4, 5], "y": [1, 2, 3, 4, 5]}, dtype="int16")
    frame, test, _ = pategan_paper_tables.epileptic_seizure(raw)
    assert test is None
    assert frame["seizure"].tolist() == [True, False, False, False, False]
    assert "y" not in frame


def test_vowels_are_the_letters_a_e_i_o_u():
    raw = pd.DataFrame({"f1": 0.5, "class": np.arange(1, 27, dtype=np.float64)})
    frame, test, _ = pategan_paper_tables.isolet_part(raw)
    assert test is None
    assert "".join(chr(64 + int(letter)) for letter in raw["class"][frame["vowel"]]) == "AEIOU"
    assert "class" not in frame


def test_patients_who_did_not_answer_have_missing_values():
    flags = [c.name for c in named.schema_of("cervical_cancer").columns if c.kind == "boolean"]
    numbers = [c.name for c in named.schema_of("cervical_cancer").columns if c.kind != "boolean"]
    raw = pd.DataFrame(1.0, index=range(2), columns=[*numbers, *flags]).assign(Biopsy=[0.0, 1.0])
    raw.loc[1, ["Smokes", "IUD (years)", "STDs (number)"]] = np.nan
    raw.loc[0, ["IUD (years)", "Smokes (packs/year)"]] = [0.123456, 0.123456]
    frame, test, _ = pategan_paper_tables.cervical_cancer(raw)
    assert test is None
    assert frame["Smokes"].isna().tolist() == [False, True]
    assert frame["STDs (number)"].isna().tolist() == [False, True]
    assert frame.loc[0, ["IUD (years)", "Smokes (packs/year)"]].tolist() == [0.12, 0.123]
    assert frame["Biopsy"].tolist() == [False, True]
    named.schema_of("cervical_cancer").validate(frame.assign(Age=20))


def test_costs_beyond_the_bounds_are_clamped_and_outcomes_left_out():
    columns = [*named.schema_of("support2").names, "id", *patient_tables.PREDICTIONS, *patient_tables.AFTERWARDS]
    raw = pd.DataFrame(1.0, index=range(2), columns=list(columns)).assign(totmcst=[-3.0, 5.4], alb=[29.0, np.nan])
    frame, test, notes = patient_tables.support2(raw)
    assert test is None
    assert set(frame.columns) == set(named.schema_of("support2").names)
    assert frame["totmcst"].tolist() == [0, 5]
    assert frame["alb"].isna().tolist() == [False, True]
    assert frame["alb"][0] == 10
    assert "1 values of alb were clamped" in " ".join(notes)


def test_a_booking_becomes_days_of_waiting_and_an_hour():
    raw = pd.DataFrame(
        {
            "PatientId": ["1", "2", "3"],
            "AppointmentID": [1, 2, 3],
            "Gender": "F",
            "ScheduledDay": ["2016-04-29T18:38:08Z", "2016-05-01T23:59:59Z", "2016-05-03T07:00:00Z"],
            "AppointmentDay": ["2016-04-29T00:00:00Z", "2016-05-02T00:00:00Z", "2016-05-02T00:00:00Z"],
            "Age": [-1, 0, 50],
            "Neighbourhood": "CENTRO",
            "Handcap": 0,
            "No-show": ["No", "Yes", "No"],
            **dict.fromkeys(patient_tables.APPOINTMENT_FLAGS, 0),
        }
    )
    frame, _, notes = patient_tables.noshow(raw)
    assert frame["WaitingDays"].tolist() == [0, 1, 0]
    assert frame["ScheduledHour"].tolist() == [18, 23, 7]
    assert frame["Age"].tolist() == [0, 0, 50]
    assert frame["No-show"].tolist() == [False, True, False]
    assert notes[2].startswith("1 appointments")
    assert set(frame.columns) == set(named.schema_of("noshow").names)


def test_names_and_the_measurement_behind_a_result_are_dropped():
    raw = pd.DataFrame(
        0.0, index=range(2), columns=[*named.schema_of("covid_testing").names, *patient_tables.TEST_DETAILS]
    )
    frame, _, notes = patient_tables.covid_testing(raw.assign(age=[138.0, 3.04], rec_ver_tat=[-18.6, 2.0]))
    assert not set(patient_tables.TEST_DETAILS) & set(frame.columns)
    assert frame["age"].tolist() == [100.0, 3.0]
    assert frame["rec_ver_tat"].tolist() == [0.0, 2.0]
    assert "1 values of age were clamped to the public bounds [0, 100]" in notes


def test_what_does_not_apply_is_missing():
    names = named.schema_of("nist_acs").names
    raw = pd.DataFrame("1", index=range(2), columns=[*names, *survey_tables.ACS_DERIVED, *survey_tables.ACS_WEIGHTS])
    frame, _, _ = survey_tables.nist_acs(raw.assign(MSP=["N", "2"], POVPIP=["501", "N"], PUMA="01-01301", NPF="2"))
    assert tuple(sorted(frame.columns)) == tuple(sorted(names))
    assert frame["MSP"].isna().tolist() == [True, False]
    assert frame["POVPIP"].tolist()[0] == 501
    assert frame["POVPIP"].isna().tolist() == [False, True]
    named.schema_of("nist_acs").validate(frame[list(names)])


def test_imputed_answers_are_missing_and_health_is_one_answer():
    flags = [flag for flag in survey_tables.RAND_HEALTH if flag]
    names = [name for name in named.schema_of("randhie").names if name != "health"]
    raw = pd.DataFrame(0.0, index=range(3), columns=[*names, *flags, *survey_tables.RAND_DERIVED])
    raw = raw.assign(black=[0.511, 1.0, 0.0], hlthp=[1, 0, 0], hlthg=[0, 0, 1], zper=[125024, 125025, 125026])
    frame, _, notes = survey_tables.randhie(raw)
    assert frame["black"].isna().tolist() == [True, False, False]
    assert frame["health"].tolist() == ["poor", "excellent", "good"]
    assert frame["zper"].tolist()[0] == "125024"
    assert "1 values of black" in " ".join(notes)


def test_answers_beyond_the_bounds_of_a_survey_are_missing():
    schema = named.schema_of("nhanes_2017_2018")
    raw = pd.DataFrame(1.0, index=range(2), columns=list(schema.names))
    raw = raw.assign(**dict.fromkeys(survey_tables.CLOCK, "b'23:30'"), MaritalStatus="Married")
    raw = raw.assign(
        OfMealsNotHomePrepared=[9999.0, 5.397605346934028e-79], DiabeticDiet=[7.0, np.nan], OnSpecialDiet=[0.0, np.nan]
    )
    raw["1StCancerWhatKindWasIt"] = [99.0, 14.0]
    frame, _, notes = survey_tables.nhanes(raw)
    assert frame["OfMealsNotHomePrepared"].isna().tolist() == [True, False]
    assert frame["OfMealsNotHomePrepared"][1] == 0
    assert frame["DiabeticDiet"].tolist() == [True, False]
    assert frame["OnSpecialDiet"].isna().tolist() == [False, True]
    assert frame[list(survey_tables.CLOCK)].iloc[0].tolist() == [11.5, 23.5]
    assert frame["1StCancerWhatKindWasIt"].isna().tolist() == [True, False]
    assert frame["MaritalStatus"].tolist() == ["Married"] * 2
    assert "missing values" in notes[0]


@pytest.mark.parametrize(
    ("code", "group"),
    [
        ("390", "circulatory"), ("459.9", "circulatory"), ("785", "circulatory"), ("786", "respiratory"),
        ("466", "respiratory"), ("530", "digestive"), ("787.2", "digestive"), ("250.83", "diabetes"), ("250", "diabetes"),
        ("800", "injury"), ("999", "injury"), ("715", "musculoskeletal"), ("584", "genitourinary"),
        ("788", "genitourinary"), ("140", "neoplasms"), ("239", "neoplasms"), ("240", "other"), ("251", "other"),
        ("V57", "other"), ("E888", "other"), ("8", "other"), ("780", "other"), ("?", "?"),
    ],
)  # fmt: skip
def test_diagnoses_are_grouped_as_published(code, group):
    assert patient_tables.diagnosis_group(code) == group


def test_absent_files_are_named_with_folder_and_source(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNTHDP_DATA", str(tmp_path))
    for name, file in (("adult", "adult.data"), ("diabetes130", "diabetic_data.csv")):
        with pytest.raises(BadInput) as caught:
            named.load(name)
        message = str(caught.value)
        assert file in message
        assert str(tmp_path / name) in message
        assert "SYNTHDP_DATA" in message
        assert "CC BY 4.0" in message
    assert {info.name for info in named.describe() if not info.present} == set(named.NAMES) - EMBEDDED
    for name in set(named.NAMES) - EMBEDDED:
        with pytest.raises(BadInput, match=f"put .* into {tmp_path / name} .*; source: ."):
            named.load(name)


def test_without_the_extra_its_name_is_told(monkeypatch):
    monkeypatch.setattr(survey_tables, "meps_file", lambda: None)
    with pytest.raises(BadInput, match=r"pip install synthdp\[demo\]"):
        named.load("meps")


def test_altered_files_are_refused(tmp_path, monkeypatch):
    (tmp_path / "adult").mkdir()
    for file in ("adult.data", "adult.test"):
        (tmp_path / "adult" / file).write_text("39, State-gov\n")
    monkeypatch.setenv("SYNTHDP_DATA", str(tmp_path))
    with pytest.raises(BadInput, match="sha256 differs"):
        named.load("adult")


@pytest.mark.heavy
def test_unpacked_files_do_as_well(tmp_path, monkeypatch, present):
    if "adult" not in present:
        pytest.skip("the records of adult are not here")
    import gzip

    source = named.folder() / "adult"
    (tmp_path / "adult").mkdir()
    (tmp_path / "adult" / "adult.data").write_bytes(gzip.decompress((source / "adult.data.gz").read_bytes()))
    shutil.copy(source / "adult.test.gz", tmp_path / "adult")
    expected = named.load("adult")
    monkeypatch.setenv("SYNTHDP_DATA", str(tmp_path))
    pd.testing.assert_frame_equal(named.load("adult").train, expected.train)


PUBLISHED = {  # how many of the commonest class, of all parts
    "digits": ("digit", "3", 183),
    "mnist": ("digit", "1", 7877),
    "pneumoniamnist": ("finding", "pneumonia", 4273),
    "mednist": ("region", "BreastMRI", 8954),
    "usps": ("digit", "0", 1553),
}


@pytest.mark.heavy
@pytest.mark.parametrize("data", list(PUBLISHED), indirect=True)
def test_pictures_are_those_of_their_labels(data):
    name, held = data
    column, label, count = PUBLISHED[name]
    assert int((pd.concat([held.train, held.test])[column] == label).sum()) == count
    sizes = {(cell.dtype, cell.shape) for cell in held.test["image"]}
    assert sizes == {(np.dtype(np.uint8), held.schema.image.shape)}
    # A centroid per class, of public pictures, tells far more than chance: pictures and labels belong together.
    train, test = (
        np.stack(part["image"]).reshape(len(part), -1).astype(np.float32) for part in (held.train, held.test)
    )
    classes = sorted(held.train[column].unique())
    means = np.stack([train[(held.train[column] == one).to_numpy()].mean(axis=0) for one in classes])
    nearest = ((test**2).sum(1)[:, None] - 2 * test @ means.T + (means**2).sum(1)).argmin(axis=1)
    assert np.mean(np.array(classes)[nearest] == held.test[column].to_numpy()) > 0.75


def test_the_order_of_pneumonia_pictures_in_the_file_does_not_matter():
    rng = np.random.default_rng(0)
    pictures, labels = rng.integers(0, 256, (20, 4, 4), dtype=np.uint8), rng.integers(0, 2, 20, dtype=np.uint8)
    order = rng.permutation(20)
    (one, total), (other, same) = (
        published_pictures.ordered(pictures, labels),
        published_pictures.ordered(pictures[order], labels[order]),
    )
    assert total == same
    assert one["finding"].tolist() == other["finding"].tolist()
    np.testing.assert_array_equal(np.stack(one["image"]), np.stack(other["image"]))
    assert {(cell.tobytes(), finding) for cell, finding in zip(one["image"], one["finding"], strict=True)} == {
        (cell.tobytes(), ("normal", "pneumonia")[label]) for cell, label in zip(pictures, labels, strict=True)
    }
    labels[0] = 1 - labels[0]
    assert published_pictures.ordered(pictures, labels)[1] != total


def test_altered_pictures_are_refused(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    arrays = {
        f"{what}_{part}": np.zeros((3, 28, 28) if what == "x" else 3, np.uint8)
        for what in ("x", "y")
        for part in ("train", "test")
    }
    np.savez(tmp_path / "mnist" / "mnist.npz", **arrays)
    monkeypatch.setenv("SYNTHDP_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=r"mnist\.npz.*sha256 differ"):
        named.load("mnist")
    (tmp_path / "pneumoniamnist").mkdir()
    parts = {f"{part}_{what}": np.zeros((2, 28, 28) if what == "images" else (2, 1), np.uint8)
             for part in ("train", "val", "test") for what in ("images", "labels")}  # fmt: skip
    np.savez(tmp_path / "pneumoniamnist" / "pneumoniamnist.npz", **parts)
    with pytest.raises(BadInput, match=r"pneumoniamnist\.npz.*sha256 differs"):
        named.load("pneumoniamnist")


def test_unknown_names():
    with pytest.raises(BadInput, match="did you mean 'meps'"):
        named.load("mep")
