"""Medical appointment no-shows (Hoppen 2016): 110,527 appointments of 62,299 patients in Vitoria, Brazil, in 2016.

The time at which an appointment was made becomes the days from then to the appointment and the hour of the day: what is
published as two instants tells a model of tables little, and their difference is what the target hangs on.
"""

from pathlib import Path

import pandas as pd

from synthdp.sets.files import Wanted

SUMMARY = "110,527 medical appointments of 62,299 patients in Vitoria: who did not come"
SOURCE = (
    "Medical Appointment No Shows (J. Hoppen 2016), CC BY-NC-SA 4.0 (non-commercial): "
    "kaggle.com/datasets/joniarroba/noshowappointments, as a Parquet file"
)
UNIT = "PatientId"
TABLE = Wanted(
    "noshow", {"noshow_may2016.parquet": "ed474a9348e00c262530e4e93646356a636d5aa74b1babab64c828b2b80cbd2c"}, SOURCE
)
FLAGS = ("Scholarship", "Hipertension", "Diabetes", "Alcoholism", "SMS_received")
lacking = TABLE.lacking


def read(folder: Path) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """The appointments, no official test part, and what was done to them."""
    return typed(TABLE.parquet(folder))


def typed(raw: pd.DataFrame) -> tuple[pd.DataFrame, None, tuple[str, ...]]:
    """Flags as true or false, the instant of booking as waiting days and hour, impossible values clamped."""
    frame = raw.drop(columns=["AppointmentID", "ScheduledDay"]).astype(dict.fromkeys(FLAGS, "bool"))
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
