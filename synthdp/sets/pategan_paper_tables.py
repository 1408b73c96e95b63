"""Tables on which the PATE-GAN paper reports (Jordon et al. 2019), each with the question that the paper asks of it."""

import pandas as pd

from synthdp.sets.files import Records, one_table

# Cervical cancer risk factors (Fernandes, Cardoso & Fernandes 2017): 858 patients of a hospital in Caracas, one record
# each. The target is Biopsy; the three other examinations (Hinselmann, Schiller, Cytology) stay among the columns, as in
# the paper's 35 features.
YEARS = ("Smokes (years)", "Hormonal Contraceptives (years)", "IUD (years)")
PACKS = "Smokes (packs/year)"
KNOWN_COUNTS = ("Age", "STDs: Number of diagnosis")
ASKED_COUNTS = (
    "Number of sexual partners", "First sexual intercourse", "Num of pregnancies", "STDs (number)",
    "STDs: Time since first diagnosis", "STDs: Time since last diagnosis",
)  # fmt: skip
KNOWN_FLAGS = ("Dx:Cancer", "Dx:CIN", "Dx:HPV", "Dx", "Hinselmann", "Schiller", "Cytology", "Biopsy")


def cervical_cancer(raw: pd.DataFrame) -> Records:
    """Counts and years as numbers, every other column as yes or no; `?` as missing."""
    frame = raw.astype("float64")
    frame = frame.assign(**{name: frame[name].round(2) for name in YEARS}, **{PACKS: frame[PACKS].round(3)})
    counts = dict.fromkeys(KNOWN_COUNTS, "int64") | dict.fromkeys(ASKED_COUNTS, "Int64")
    flags = {name: "boolean" for name in frame.columns if name not in (*counts, *YEARS, PACKS)}
    frame = frame.astype({**counts, **flags, **dict.fromkeys(KNOWN_FLAGS, "bool")})
    notes = (
        "questions that a patient did not answer are missing values",
        "years are rounded to two decimals, packs per year to three",
    )
    return frame, None, notes


# Epileptic Seizure Recognition: 11,500 one-second windows of EEG, 178 samples each (Andrzejak et al. 2001). The question
# is seizure or not. The published table cut 23 windows out of each of 500 recordings without saying which: what can be
# protected here is a window, not a person.
SEIZURE = 1  # of five published classes, that of the windows recorded during a seizure


def epileptic_seizure(raw: pd.DataFrame) -> Records:
    """The five classes as one question."""
    seizure = (raw["y"] == SEIZURE).rename("seizure")
    frame = pd.concat([raw.drop(columns="y").astype("int64"), seizure], axis=1)
    notes = (
        "seizure is class 1 of the published classes 1 to 5; the other four are recordings without a seizure",
        "the file does not tell which windows belong to one person: they may be on both sides of the split, and each is a unit",
    )
    return frame, None, notes


# ISOLET, the published test part (Cole & Fanty 1994): 1,559 spoken letters, 617 features each. The question is vowel or
# consonant. The training part (6,238 letters of 120 other speakers) is not here: figures are not those of the whole.
VOWELS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ".index(letter) + 1 for letter in "AEIOU")


def isolet_part(raw: pd.DataFrame) -> Records:
    """The 26 letters as one question."""
    letters = raw["class"].isin(VOWELS).rename("vowel")
    frame = pd.concat([raw.drop(columns="class"), letters], axis=1)
    notes = (
        "only the published test part (isolet5) is here; it is split anew",
        "vowel is one of the letters A, E, I, O, U",
        "speakers are not named: letters of one speaker may be on both sides of the split, and each is a unit",
    )
    return frame, None, notes


def spambase(raw: pd.DataFrame) -> Records:
    """4,601 messages, percentages of words and characters, runs of capitals (Hopkins et al. 1999); spam or not."""
    return raw.astype({"spam": "bool"}), None, ("391 rows repeat others, as published; each is a unit",)


# Credit card fraud (Dal Pozzolo et al. 2015), a fifth of it: 56,962 payments of two days in 2013, 98 of them frauds. V1 to
# V28 are principal components, whose meaning the donors withhold. This part came without the column Time and through
# 16-bit numbers (three digits): for trials, not for comparisons with published figures.
def creditcard_sample(raw: pd.DataFrame) -> Records:
    """Amounts in cents again: after 16 bits, those beyond 2,048 had been rounded to whole units and more."""
    components = raw.drop(columns="Class").astype("float64")
    frame = components.assign(Amount=components["Amount"].round(2), Class=raw["Class"].astype("bool"))
    notes = (
        "a fifth of the published payments, with numbers of three digits and without Time: figures cannot be compared with "
        "published ones",
        "cards are not named: payments of one card may be on both sides of the split, and each is a unit",
    )
    return frame, None, notes


SETS = {
    "epileptic_seizure": one_table(
        "epileptic_seizure",
        "11,500 one-second EEG windows of 178 samples: seizure or not",
        {"epileptic_seizure.parquet": "521c322cd865192b05a8febfa7e3f69d30edf5a2fe7bbec4039f15c1e71d322d"},
        "Epileptic Seizure Recognition, once in the UCI Machine Learning Repository and since withdrawn, as a Parquet file of "
        "X1 to X178 and y; made from the recordings of Andrzejak et al. (2001), Phys. Rev. E 64, 061907; licence unclear",
        epileptic_seizure,
    ),
    "cervical_cancer": one_table(
        "cervical_cancer",
        "858 patients, habits, contraception and diseases: biopsy for cervical cancer",
        {"risk_factors_cervical_cancer.csv": "f749419274544950bdb971781b26187bc16440b0a86ad96f932854ac7dc530a7"},
        "UCI Machine Learning Repository, Cervical Cancer (Risk Factors) (Fernandes et al. 2017), CC BY 4.0: "
        "archive.ics.uci.edu/dataset/383",
        cervical_cancer,
        na_values="?",
    ),
    "spambase": one_table(
        "spambase",
        "4,601 e-mail messages as percentages of words and characters: spam or not",
        {"spambase.parquet": "39ed78014e2da9dce700a5b10dc84c40c2182f9d349ffa39329c4a9e8f42ddc7"},
        "UCI Machine Learning Repository, Spambase (Hopkins et al. 1999), CC BY 4.0: archive.ics.uci.edu/dataset/94, as a "
        "Parquet file with the column names of spambase.names",
        spambase,
    ),
    "isolet_part": one_table(
        "isolet_part",
        "1,559 spoken letters (the test part of ISOLET), 617 features: vowel or consonant",
        {"isolet5_test.csv": "e14eb62addf13e4268e011929e2829e78fd21b7ebb07829ee477fd7daaf2c244"},
        "UCI Machine Learning Repository, ISOLET (Cole & Fanty 1994), CC BY 4.0: archive.ics.uci.edu/dataset/54, the test part "
        "isolet5 as a CSV file with the header f1 to f617, class",
        isolet_part,
        packed=True,
    ),
    "creditcard_sample": one_table(
        "creditcard_sample",
        "56,962 card payments (a fifth of the published ones), 28 principal components: fraud or not",
        {"creditcard_20pct.parquet": "f2162319ba356f0f28662060f02a54dbdfecef03855836000082daacefa3b501"},
        "Credit Card Fraud Detection, Machine Learning Group of ULB (Dal Pozzolo et al. 2015), DbCL 1.0: "
        "kaggle.com/datasets/mlg-ulb/creditcardfraud; this part: github.com/spalabucr/pategan-audit, as a Parquet file",
        creditcard_sample,
    ),
}
