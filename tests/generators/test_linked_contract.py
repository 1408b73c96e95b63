"""The contract suite over linked tables: its checks hand in records, which are people with visits and findings behind the door."""

from dataclasses import dataclass

import pandas as pd
import pytest
from sweeps import sweep

from synthdp import Schema
from synthdp.generators.histories import HistoriesSettings
from synthdp.testing import contract
from synthdp.testing.contract import CHECKS, Subject
from synthdp.testing.made_up import SMALL, make_schema

VISIT = ("seen", "age", "dose", "ill")
# They need a frame from a model, or the codes of one. `test_linked_histories.py` has the same of tables.
OF_FRAMES = {
    contract.samples_follow_the_schema,
    contract.zero_and_one_record_fit,
    contract.saved_and_restored_it_is_the_same,
    contract.a_release_holds_no_rows,
}

# Of which `make test` takes those of one table, in test_histories.
REPEATED = (
    contract.arrays_that_do_not_fit_are_refused,
    contract.replay_of_patients,  # the unit is a patient in either replay
    contract.seeds_repeat,
    contract.strange_records_change_no_shape,
    contract.the_budget_is_kept_and_nearly_used,
    contract.without_a_seed_fits_differ,
)


def tables(frame):
    """The records as linked tables: a patient's columns by the first record, a visit for each, and a finding where there is a stage."""
    keyed = frame.reset_index(drop=True)
    keyed.insert(0, "visit", [f"v{place}" for place in range(len(keyed))])
    return {
        "person": keyed[["patient", "sex"]].drop_duplicates("patient"),
        "visit": keyed[["patient", "visit", *VISIT]],
        "finding": keyed.loc[keyed["stage"].notna(), ["visit", "stage"]],
    }


@dataclass(frozen=True)
class Drawn:
    """A release whose samples are frames of visits."""

    release: object

    def __getattr__(self, name):
        return getattr(self.release, name)

    def sample(self, rows, *, seed=None):
        drawn = self.release.sample_tables(rows, seed=seed)
        return drawn["visit"].merge(drawn["person"]).merge(drawn["finding"], how="left")


@dataclass(frozen=True)
class Linked(Subject):
    """Histories over linked tables."""

    data: str = "table"

    def schema(self, **changes):
        changes.pop("unit", None)
        changes.pop("max_records_per_unit", None)
        columns = make_schema(**changes).to_dict()["columns"]
        stage = {key: value for key, value in columns["stage"].items() if key != "missing"}
        below = {"parent": "visit", "max_rows": 2, "columns": {"stage": stage}}
        visit = {"parent": "person", "key": "visit", "order": "seen", "max_rows": 2}
        return Schema.from_dict(
            {
                "name": "clinic",
                "declared_by": "the tests",
                "unit": "patient",
                "units": 400,
                "targets": ["visit.ill"],
                "tables": {
                    "person": {"key": "patient", "columns": {"sex": columns["sex"]}},
                    "visit": {**visit, "columns": {name: columns[name] for name in VISIT}},
                    "finding": below,
                },
            }
        )

    def fitted(self, frame, *arguments, **options):
        return Drawn(super().fitted(tables(frame), *arguments, **options))

    def run(self, frame, schema, recorder=None):
        return super().run(tables(frame), schema, recorder)


@pytest.mark.parametrize(
    "check",
    sweep(
        [each for each in CHECKS if each not in OF_FRAMES],
        lambda check: check not in REPEATED,
    ),
    ids=lambda check: check.__name__,
)
def test_the_contract(check):
    check(Linked(HistoriesSettings(**SMALL["histories"]["histories"])))


def test_the_records_are_linked_tables():
    """So that the checks above look at what they are meant to look at."""
    subject = Linked(HistoriesSettings())
    checked = subject.schema().validate_tables(tables(subject.frame(40, repeats=3)), "error")
    assert {name: len(frame) for name, frame in checked.items()} == {
        "person": 14,
        "visit": 40,
        "finding": int(subject.frame(40)["stage"].notna().sum()),
    }
    assert isinstance(checked["person"], pd.DataFrame)
