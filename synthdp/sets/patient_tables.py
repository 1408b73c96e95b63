"""Published tables of patients: of hospitals, practices and their tests."""

import pandas as pd

from synthdp.sets.files import Records, clamped, one_table, rounded

# Diabetes 130-US hospitals, 1999-2008: 101,766 inpatient encounters of 71,518 patients (Strack et al. 2014). Diagnoses
# (ICD-9) become the nine groups of the paper's table 2 and specialties its groups, since 700 rare codes teach a generator
# little. The unit is the patient and one encounter of each counts, as in the paper: R encounters would cost R times the
# noise, and three of four patients have one.
DIAGNOSES = ("diag_1", "diag_2", "diag_3")
LITTLE_TOLD = ("encounter_id", "weight", "examide", "citoglipton")
COUNTS = (
    "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
    "number_emergency", "number_inpatient", "number_diagnoses",
)  # fmt: skip
# First and last ICD-9 code of each group, three digits (Strack et al. 2014, table 2).
GROUPS = {
    "circulatory": ((390, 459), (785, 785)),
    "respiratory": ((460, 519), (786, 786)),
    "digestive": ((520, 579), (787, 787)),
    "diabetes": ((250, 250),),
    "injury": ((800, 999),),
    "musculoskeletal": ((710, 739),),
    "genitourinary": ((580, 629), (788, 788)),
    "neoplasms": ((140, 239),),
}
SPECIALTIES = ("InternalMedicine", "Emergency/Trauma", "Family/GeneralPractice", "Cardiology")


def diabetes130(raw: pd.DataFrame) -> Records:
    """Codes as text, `?` as missing, diagnoses and specialties in their published groups."""
    frame = raw.drop(columns=list(LITTLE_TOLD)).astype("str")
    for column in DIAGNOSES:
        frame[column] = frame[column].map({code: diagnosis_group(code) for code in frame[column].unique()})
    column = "medical_specialty"
    frame[column] = frame[column].map({name: specialty_group(name) for name in frame[column].unique()})
    frame = frame.mask(frame == "?").astype(dict.fromkeys(COUNTS, "int64"))
    notes = (
        "one encounter per patient counts; train and test hold different patients",
        "diag_1 to diag_3 are the nine groups of Strack et al. (2014), medical_specialty their groups",
        f"{', '.join(LITTLE_TOLD)} were dropped: an identifier, 97 % missing, and two drugs that nobody was given",
    )
    return frame, None, notes


def diagnosis_group(code: str) -> str:
    """The group of an ICD-9 code; `?` stays `?`. Codes that begin with E or V (causes, contacts) are `other`."""
    whole = code.split(".", 1)[0]
    if code == "?" or not whole.isdecimal():
        return "?" if code == "?" else "other"
    number = int(whole)
    for group, ranges in GROUPS.items():
        if any(first <= number <= last for first, last in ranges):
            return group
    return "other"


def specialty_group(name: str) -> str:
    """Four specialties by name, all of surgery as one, the rest `Other`; `?` stays `?`."""
    if name.startswith("Surg"):
        return "Surgery"
    return name if name in (*SPECIALTIES, "?") else "Other"


def stroke(raw: pd.DataFrame) -> Records:
    """Flags and marriage as true or false; a body mass index that is not known is a missing value, as published."""
    frame = raw.drop(columns="id").astype(dict.fromkeys(("hypertension", "heart_disease", "stroke"), "bool"))
    frame["ever_married"] = frame["ever_married"] == "Yes"
    return frame, None, ("id was dropped: one record is one patient", "Unknown is a category of smoking_status")


# SUPPORT2 (Knaus et al. 1995): 9,105 seriously ill adults in five US hospitals, physiology, costs, function and survival.
# The target is death in hospital. What is known only afterwards (follow-up and the state two months later) tells it and is
# left out, as are the predictions of the study's own models and of the physicians.
PREDICTIONS = ("sps", "aps", "surv2m", "surv6m", "prg2m", "prg6m")
AFTERWARDS = ("death", "d.time", "sfdm2")
WHOLE = ("edu", "scoma", "dnrday", "resp", "sod", "adlp", "adls")
PLACES = {
    "age": 1, "charges": 0, "totcst": 0, "totmcst": 0, "avtisst": 1, "meanbp": 0, "wblc": 1, "hrt": 0, "temp": 1, "pafi": 0,
    "alb": 1, "bili": 1, "crea": 1, "ph": 2, "glucose": 0, "bun": 0, "urine": 0, "adlsc": 1,
}  # fmt: skip


def support2(raw: pd.DataFrame) -> Records:
    """Flags as true or false; measurements rounded to the places that they are read off with."""
    frame = raw.drop(columns=["id", *PREDICTIONS, *AFTERWARDS])
    frame = frame.astype(dict.fromkeys(("hospdead", "diabetes", "dementia"), "bool") | dict.fromkeys(WHOLE, "Int64"))
    frame, outside = clamped(frame, {"totmcst": (0, 1_000_000), "alb": (0, 10)})
    notes = (
        f"{', '.join(PREDICTIONS)} were dropped: scores and predictions that were computed from the other columns",
        f"{', '.join(AFTERWARDS)} were dropped: the follow-up tells who died in hospital",
        *outside,
    )
    return rounded(frame, PLACES), None, notes


# Medical appointment no-shows (Hoppen 2016): 110,527 appointments of 62,299 patients in Vitoria, Brazil, in 2016. The time
# at which an appointment was made becomes the days from then to the appointment and the hour of the day: what is published
# as two instants tells a model of tables little, and their difference is what the target hangs on.
APPOINTMENT_FLAGS = ("Scholarship", "Hipertension", "Diabetes", "Alcoholism", "SMS_received")


def noshow(raw: pd.DataFrame) -> Records:
    """Flags as true or false, the instant of booking as waiting days and hour, impossible values clamped."""
    frame = raw.drop(columns=["AppointmentID", "ScheduledDay"]).astype(dict.fromkeys(APPOINTMENT_FLAGS, "bool"))
    booked = pd.to_datetime(raw["ScheduledDay"], utc=True).dt.tz_convert(None)
    day = pd.to_datetime(raw["AppointmentDay"], utc=True).dt.tz_convert(None).dt.normalize()
    waiting = (day - booked.dt.normalize()).dt.days
    frame = frame.assign(
        AppointmentDay=day,
        WaitingDays=waiting.clip(lower=0),
        ScheduledHour=booked.dt.hour,
        Age=raw["Age"].clip(lower=0),
    )
    frame = frame.astype({"WaitingDays": "int64", "ScheduledHour": "int64", "Age": "int64"})
    frame["No-show"] = raw["No-show"] == "Yes"
    notes = (
        "one appointment of each patient counts; train and test hold different patients",
        "AppointmentID was dropped; ScheduledDay became WaitingDays (to the appointment) and ScheduledHour",
        f"{int((waiting < 0).sum())} appointments booked after their own date count as booked on that date; "
        f"{int((raw['Age'] < 0).sum())} negative ages count as 0",
    )
    return frame, None, notes


# SARS-CoV-2 tests at the Children's Hospital of Philadelphia in 2020: 15,524 tests of 12,344 subjects (medicaldata). The
# names in the file are made up and are dropped all the same; so is the PCR's cycle threshold, which the result is read off.
TEST_DETAILS = ("fake_first_name", "fake_last_name", "test_id", "ct_result")
HOURS = {"col_rec_tat": (0, 48), "rec_ver_tat": (0, 48)}


def covid_testing(raw: pd.DataFrame) -> Records:
    """Flags as true or false, ages and hours clamped to public bounds and rounded to a tenth."""
    bounds = {"age": (0, 100), **HOURS}
    frame = raw.drop(columns=list(TEST_DETAILS)).astype(dict.fromkeys(("drive_thru_ind", "orderset"), "bool"))
    frame, outside = clamped(frame, bounds)
    notes = (
        "one test of each subject counts; train and test hold different subjects",
        f"{', '.join(TEST_DETAILS)} were dropped: names, a constant, and the measurement that the result is read off",
        *outside,
    )
    return rounded(frame, dict.fromkeys(bounds, 1)), None, notes


SETS = {
    "diabetes130": one_table(
        "diabetes130",
        "101,766 hospital encounters of 71,518 diabetic patients: diagnoses, medication, readmission",
        {
            "diabetic_data.parquet": "40593d6f4fbd687c5e138a8eb44f646c2494622e419e75be2cc5d7fb18662a52",
            "diabetic_data.csv": "0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97",
        },
        "UCI Machine Learning Repository, Diabetes 130-US hospitals (Strack et al. 2014), CC BY 4.0: "
        "archive.ics.uci.edu/dataset/296",
        diabetes130,
        unit="patient_nbr",
        dtype="str",
        keep_default_na=False,
    ),
    "stroke": one_table(
        "stroke",
        "5,110 patients: age, habits, diseases, glucose, body mass index; who had a stroke",
        {"stroke.parquet": "201ca36992a080cbd7d68432d36a51d16dd90fb29e75b5a7ced9e947160fe652"},
        "Stroke Prediction Dataset (fedesoriano 2021), educational use only: "
        "kaggle.com/datasets/fedesoriano/stroke-prediction-dataset, as a Parquet file",
        stroke,
    ),
    "support2": one_table(
        "support2",
        "9,105 seriously ill hospital patients: diagnoses, physiology, costs, death in hospital",
        {"support2.parquet": "4157fca7edeeee874c4b12abb96e5ecaa562b055db42658a6ecc3fb8c291f3a0"},
        "Vanderbilt Biostatistics, SUPPORT2 (Knaus et al. 1995; UCI 880), CC BY 4.0: hbiostat.org/data, as a Parquet file",
        support2,
    ),
    "noshow": one_table(
        "noshow",
        "110,527 medical appointments of 62,299 patients in Vitoria: who did not come",
        {"noshow_may2016.parquet": "ed474a9348e00c262530e4e93646356a636d5aa74b1babab64c828b2b80cbd2c"},
        "Medical Appointment No Shows (J. Hoppen 2016), CC BY-NC-SA 4.0 (non-commercial): "
        "kaggle.com/datasets/joniarroba/noshowappointments, as a Parquet file",
        noshow,
        unit="PatientId",
    ),
    "covid_testing": one_table(
        "covid_testing",
        "15,524 COVID-19 tests of 12,344 subjects at a children's hospital: clinic, payer, times, result",
        {"covid_testing.parquet": "a8570e3ca985a0a5fd683cd5969e3490f2603c67fb63217339f3e4d572a11d68"},
        "R package medicaldata, covid_testing (donor A. Obstfeld, de-identified), MIT: "
        "github.com/higgi13425/medicaldata, as a Parquet file",
        covid_testing,
        unit="subject_id",
    ),
}
