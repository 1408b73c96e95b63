"""Published tables of people who were asked in a survey, a census or an experiment."""

import csv
import importlib.util
import io
from pathlib import Path
from typing import Any

import pandas as pd

from synthdp.errors import BadInput
from synthdp.schema.columns import LEARN, Boolean, Categorical, Column, Continuous, Integer, Ordinal
from synthdp.sets import named
from synthdp.sets.files import Published, Records, Wanted, clamped, first_set, lacking_of, one_table, rounded

# Medical Expenditure Panel Survey: 10,391 people of 65 and over, their health, income, insurance and drug expenses. Agency
# for Healthcare Research and Quality, public use file, as in Cameron & Trivedi (2010), Microeconometrics using Stata,
# chapter 6; it travels inside the package linearmodels.
MEPS_REMEDY = "it comes with the package linearmodels: pip install synthdp[demo]"
# Flags in the order of the schema's categories; where none is set, the last category holds.
MEPS_HEALTH = {"poor": "poor", "fair": "fair", "good": "good", "vegood": "very good", None: "excellent"}
MEPS_INCOME = {"poverty": "poor", "lowincome": "low", "midincome": "middle", None: "high"}
MEPS_DERIVED = ("ldrugexp", "linc", "age2", "vgh", "fph", "blhisp")
NEAR_TARGET = "private"  # nearly a copy of hi_empunion
MEPS_FLAGS = ("female", "hisp", "black", "marry", "msa", "multlc", "priolist", "hi_empunion")


def meps_file() -> Path | None:
    """The file inside linearmodels, which is found, not imported: its import takes seconds."""
    spec = importlib.util.find_spec("linearmodels")
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / "datasets" / "meps" / "meps.csv.bz2"
    return file if file.is_file() else None


def read_meps(_folder: Path) -> Records:
    """The records, no official test part, and what was done to them."""
    file = meps_file()
    if file is None:
        raise BadInput(f"data set meps is not here: {MEPS_REMEDY}")
    return meps(pd.read_csv(file))


def meps(raw: pd.DataFrame) -> Records:
    """One-hot health and income as ordered categories (of two health flags the worse), derived columns dropped."""
    health, income = ([flag for flag in names if flag is not None] for names in (MEPS_HEALTH, MEPS_INCOME))
    doubled = int((raw[health].sum(axis=1) > 1).sum())
    frame = raw.drop(columns=[*MEPS_DERIVED, NEAR_TARGET, *health, *income])
    frame["health"] = first_set(raw, MEPS_HEALTH)
    frame["income_class"] = first_set(raw, MEPS_INCOME)
    frame, outside = clamped(frame, {"income": (0.0, 200.0), "ssiratio": (0.0, 1.0)})
    frame = rounded(frame, {"income": 3, "ssiratio": 3, "firmsz": 1}).astype(dict.fromkeys(MEPS_FLAGS, "bool"))
    notes = (
        f"{doubled} records have two health flags; the worse one counts",
        *outside,
        f"derived columns ({', '.join(MEPS_DERIVED)}) and {NEAR_TARGET}, nearly a copy of the target, were dropped",
    )
    return frame, None, notes


# UCI Adult (Becker & Kohavi 1996): 1994 census extract, 32,561 training and 16,281 test records. `?` stays a category of
# its own: whether somebody named an occupation says much about their income, and the published comparisons train on it.
ADULT_SOURCE = (
    "UCI Machine Learning Repository, Adult (Becker & Kohavi 1996), CC BY 4.0: archive.ics.uci.edu/dataset/2/adult"
)
ADULT = tuple(
    Wanted("adult", {name: sha256}, ADULT_SOURCE, packed=True)
    for name, sha256 in (
        ("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
        ("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
    )
)
ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


def read_adult(folder: Path) -> Records:
    """The training records, the official test records, and what was done to them."""
    missing = lacking_of(ADULT, folder)
    if missing:
        raise BadInput(f"data set adult is not here: {missing}")
    train, test = (_adult(part.content(folder)[1]) for part in ADULT)
    return train, test, ("? (not known) is a category of its own in workclass, occupation and native-country",)


def _adult(raw: bytes) -> pd.DataFrame:
    """No header; `, ` between cells; the test file has a first line to skip and a full stop after each label."""
    rows = list(csv.reader(io.StringIO(raw.decode("ascii")), skipinitialspace=True))
    whole = [row for row in rows if len(row) == len(ADULT_COLUMNS)]
    frame = pd.DataFrame(whole, columns=list(ADULT_COLUMNS), dtype="str")
    frame["income"] = frame["income"].str.removesuffix(".")
    return frame.astype(dict.fromkeys(ADULT_NUMBERS, "int64"))


# NIST Diverse Communities excerpt of the American Community Survey 2019, national part: 27,253 people in 20 areas (PUMAs).
# The benchmark table of NIST's Collaborative Research Cycle. `N` (not applicable, such as the income of children) is read
# as a missing value, so that ordered columns stay ordered.
ACS_DERIVED = ("DENSITY", "INDP", "PINCP")
ACS_WEIGHTS = ("PWGTP", "WGTP")
NOT_APPLICABLE = "N"


def nist_acs(raw: pd.DataFrame) -> Records:
    """Codes as text, `N` as missing, age, counts and the ratio of income to poverty as numbers."""
    numbers = {"AGEP": "int64", "NOC": "Int64", "NPF": "Int64", "POVPIP": "Int64"}
    frame = raw.drop(columns=[*ACS_DERIVED, *ACS_WEIGHTS])
    frame = frame.mask(frame == NOT_APPLICABLE).astype(numbers)
    notes = (
        f"{NOT_APPLICABLE} (not applicable) is a missing value",
        "DENSITY (a figure of the area), INDP (INDP_CAT gives its sector) and PINCP (the target is its decile) were dropped",
        f"{', '.join(ACS_WEIGHTS)} were dropped: survey weights describe the design, not the people",
    )
    return frame, None, notes


# RAND Health Insurance Experiment (Newhouse 1993): 20,190 person-years of 5,912 people on 18 insurance plans. As in Deb &
# Trivedi (2002). The target, visits to a physician in a year, is a number. Transforms of other columns (logarithms, sums,
# products) are left out, and values that were imputed by a mean are read as missing.
RAND_DERIVED = (
    "meddol", "lnmeddol", "binexp", "linc", "lnum", "lfam", "lpi", "logc", "fmde", "fchild", "xghindx",
)  # fmt: skip
RAND_HEALTH = {"hlthp": "poor", "hlthf": "fair", "hlthg": "good", None: "excellent"}
RAND_FLAGS = ("tookphys", "female", "inpmis", "idp", "child")
IMPUTED = ("black", "physlm")
RAND_PLACES = {
    "income": 0, "xage": 1, "educdec": 1, "time": 2, "outpdol": 2, "drugdol": 2, "suppdol": 2, "mentdol": 2, "inpdol": 2,
    "mhi": 1, "disea": 1, "ghindx": 1, "mdeoff": 0, "pioff": 0,
}  # fmt: skip


def randhie(raw: pd.DataFrame) -> Records:
    """Health as one ordered answer, flags as true or false, money in cents."""
    flags = [flag for flag in RAND_HEALTH if flag is not None]
    frame = raw.drop(columns=[*RAND_DERIVED, *flags]).astype(dict.fromkeys(RAND_FLAGS, "bool"))
    frame["health"] = first_set(raw, RAND_HEALTH)
    imputed = {name: ~frame[name].isin([0, 1]) for name in IMPUTED}
    frame = frame.assign(**{name: frame[name].mask(where).astype("boolean") for name, where in imputed.items()})
    frame = rounded(frame, RAND_PLACES).astype({"zper": "str"})
    notes = (
        "one year of each person counts; train and test hold different people",
        f"{', '.join(RAND_DERIVED)} were dropped: they are computed from other columns",
        *(
            f"{int(where.sum())} values of {name} that are a mean, not an answer, are missing"
            for name, where in imputed.items()
        ),
    )
    return frame, None, notes


# NHANES 2017-2018 (CDC/NCHS): 8,366 people, 198 columns of questionnaires, diet, examination and blood. A wide and sparse
# table: most questions are asked of some ages only. Which cells are answers is read off the public schema: what lies beyond
# its bounds (777 refused, 999 not known, ...) is missing.
ZERO = 1e-70  # the file's zeros are 5.4e-79, as its SAS transport format wrote them
BEDTIME = "UsualSleepTimeOnWeekdaysOrWorkdays"
CLOCK = (BEDTIME, "UsualWakeTimeOnWeekdaysOrWorkdays")
NOON = 12.0


def nhanes(raw: pd.DataFrame) -> Records:
    """Boxes and flags as true or false, clock times as hours, numbers beyond the public bounds as missing."""
    schema = named.schema_of("nhanes_2017_2018")
    raw = raw.assign(**{name: _hours(raw[name], NOON if name == BEDTIME else 0.0) for name in CLOCK})
    frame, beyond = {}, 0
    for column in schema.columns:
        frame[column.name], lost = _typed(raw[column.name], column)
        beyond += lost
    notes = (
        f"{beyond} answers beyond the public bounds (refused, not known, never) are missing values",
        "boxes that were ticked or left empty are true or false; clock times are hours; bedtimes are hours after noon",
    )
    return pd.DataFrame(frame), None, notes


def _typed(series: "pd.Series[Any]", column: Column) -> tuple["pd.Series[Any]", int]:
    """The column as its kind, and how many numbers lay beyond its bounds."""
    if isinstance(column, Boolean):
        ticked = series.notna()
        return (series.abs().gt(ZERO).astype("boolean").mask(~ticked) if column.missing else ticked), 0
    if isinstance(column, Integer | Continuous) and column.bounds != LEARN:
        numbers, (low, high) = series.mask(series.abs() < ZERO, 0.0), column.bounds
        beyond = (numbers < low) | (numbers > high)
        if isinstance(column, Continuous):
            return numbers.mask(beyond).round(column.decimals or 0), int(beyond.sum())
        return numbers.mask(beyond).astype("Int64" if column.missing else "int64"), int(beyond.sum())
    words = series.astype("Int64").astype("str") if series.dtype.kind == "f" else series.astype("str")
    if not isinstance(column, Categorical | Ordinal):
        return words, 0
    known = words.isin(column.categories)
    return words.where(known), int((series.notna() & ~known).sum())


def _hours(series: "pd.Series[Any]", start: float) -> "pd.Series[Any]":
    """Hours from `start` to what the file writes as b'23:30'."""
    clock = series.str.extract(r"(\d\d):(\d\d)").astype("float64")
    return (clock[0] + clock[1] / 60 - start) % 24


SETS = {
    "meps": Published(
        summary="10,391 people aged 65 and over: health, income, insurance, drug expenses (embedded default)",
        source="AHRQ Medical Expenditure Panel Survey (public use), inside the Python package linearmodels (NCSA licence)",
        lacking=lambda _folder: MEPS_REMEDY if meps_file() is None else "",
        read=read_meps,
    ),
    "adult": Published(
        summary="UCI Adult census extract: 32,561 training and 16,281 test records, income above 50K",
        source=ADULT_SOURCE,
        lacking=lambda folder: lacking_of(ADULT, folder),
        read=read_adult,
    ),
    "nist_acs": one_table(
        "nist_acs",
        "27,253 people of the American Community Survey 2019 in 20 areas: household, work, income decile",
        {"national2019.csv": "9e039c8e47c9e998d60f66fd50ec620fc2d0703decdc21f3069c9844fbef979b"},
        "US Census ACS PUMS 2019, Diverse Communities excerpt by NIST (SDNist), public domain: "
        "github.com/usnistgov/SDNist, national2019.csv",
        nist_acs,
        packed=True,
        dtype="str",
        keep_default_na=False,
    ),
    "randhie": one_table(
        "randhie",
        "20,190 years of 5,912 people in an insurance experiment: plan, health, spending, visits to a physician",
        {"randhie.parquet": "9f4728f3aeeaf92cc16502091fa4520233ea50bc1b7c035d980433260ee9bef2"},
        "RAND Health Insurance Experiment (Newhouse 1993; Deb & Trivedi 2002), public domain: "
        "github.com/statsmodels/statsmodels, randhie.csv, as a Parquet file",
        randhie,
        unit="zper",
    ),
    "nhanes_2017_2018": one_table(
        "nhanes_2017_2018",
        "8,366 people, 198 columns of questionnaires, diet, examination and blood: general health (wide, 46 % missing)",
        {"nhanes_2017_2018.parquet": "9f24bc790f27eb9fafd9d2cf7a068680b16eb032e1ecf602f16969f2dcc0d9c2"},
        "National Health and Nutrition Examination Survey 2017-2018 (CDC/NCHS), public domain; this table: the Python package "
        "nhanes 0.5.1, as a Parquet file",
        nhanes,
    ),
}
