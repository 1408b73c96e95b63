"""MOSTLY AI's engine (TabularARGN) with differential privacy, on one table or on units and their records as two linked ones.

`max_epsilon` is the total, a tenth of it for its value protection (whose default of 1 would be all of it at epsilon 1). All else is as by
default; it trains until epsilon is spent, or for `minutes`, its own time limit, which counts CPU time here.

Of linked tables, half of epsilon, of delta and of the time is for the units, half for the records given their unit.

- The noise is set for ten epochs: at its default not even one would fit within half of epsilon. On noshow, a step of 512 histories
  takes two CPU seconds, so that three minutes end after half an epoch of the records.
- Three tenths of epsilon protect values: with one tenth, all protected history lengths of 50,000 patients are 1; with three, they reach 3.
- The clip of the records' gradients is 1 / 512: its code divides a unit's loss by the number of records in the batch of 512 units, so
  that gradients are of norm 0.006, and drown in the noise of the default clip of 1.

Its guarantee does not hold as claimed, since its code

- finds the categories of a column by Laplace noise on the counts of those that occur, kept from a noisy 5 on: at so small a share, a
  category of a single record comes out about every second time, and no delta is booked for it. Signs, missing values, digits and
  the number of decimals are read off as they are;
- sets its learning rate, stops, and keeps the best epoch, by the exact loss on a fifth of the records, which books nothing;
- keeps the last state where not one epoch ended within epsilon: on 3,000 units, asked for 1, its accountant said 1.22
  (`epsilon_spent` is what it says of the state that was kept);
- protects values, in the records of a unit, as if each were of another unit; and by that division, which comes before the clip, lets
  one unit move the gradients of all others.

Noise is that of torch's ordinary generator, in single precision.
"""

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import task
from mostlyai.engine import TabularARGN
from mostlyai.engine._tabular import training
from mostlyai.engine.domain import DifferentialPrivacyConfig
from opacus.accountants.utils import get_noise_multiplier

VALUES, OF_LINKED = 0.1, 0.3  # of epsilon: as by default (1 of 10), and where lengths of histories are among the values
EPOCHS, BATCH, TRAINED = (
    10,
    512,
    0.8,
)  # of linked tables: its own batch for as many units, and its share of them to learn from
RARE = {"rare_category_replacement_method": "sample"}  # another category instead of the word for rare ones


def framed(table, columns):
    """Categories as words, whole numbers as such, dates as dates."""
    frame = {}
    for place, column in enumerate(columns):
        values = pd.Series(table[:, place])
        if column.get("order"):
            frame[column["name"]] = pd.to_datetime(values, unit="D")
        elif column["levels"]:
            frame[column["name"]] = values.astype("Int64").astype("string")
        else:
            frame[column["name"]] = values.astype("Int64") if column["whole"] else values
    return pd.DataFrame(frame)


def trained(frame, given, seed, units=None, **more):
    """A model that may spend the guarantee, or half of it where it is of linked tables of so many units; and what its accountant says."""
    share = 1.0 if units is None else 0.5
    epsilon, values = given["epsilon"] * share, VALUES if units is None else OF_LINKED
    private = DifferentialPrivacyConfig(
        max_epsilon=epsilon, delta=given["delta"] * share, value_protection_epsilon=epsilon * values
    )
    if units is not None:
        rate = BATCH / (TRAINED * units)
        left = {"target_epsilon": epsilon * (1 - values), "target_delta": private.delta}
        private.noise_multiplier = get_noise_multiplier(**left, sample_rate=rate, epochs=EPOCHS, accountant="rdp")
        private.max_grad_norm = 1 / BATCH if more else private.max_grad_norm
        more |= {"batch_size": BATCH}
    model = TabularARGN(
        max_training_time=given["settings"]["minutes"] * share,
        differential_privacy=private,
        workspace_dir=tempfile.mkdtemp(),
        random_state=seed,
        device="cpu",
        **more,
    )
    model.fit(frame)
    said = pd.concat(map(pd.read_csv, Path(model.workspace_dir).rglob("progress-messages.csv")))
    return model, said[said["is_checkpoint"] == 1].iloc[-1]


def fit(table, given):
    """One table, or the units and then their records."""
    columns = given["columns"]
    frame = framed(table, columns)
    if not any(column.get("order") for column in columns):
        model, said = trained(frame, given, given["seed"])
        return figures(said), lambda rows: read(model.sample(n_samples=rows, **RARE), given["seed"])
    key = columns[0]["name"]
    of_units = [column["name"] for column in columns if column["unit"]]
    units = frame[of_units].drop_duplicates(key)
    records = frame[[key, *(name for name in frame if name not in of_units)]]
    about, said = trained(units.drop(columns=key), given, given["seed"], len(units))
    linked = {"tgt_context_key": key, "ctx_primary_key": key, "ctx_data": units}
    model, also = trained(records, given, given["seed"] + 1, len(units), **linked)

    def draw(rows):
        people = about.sample(n_samples=rows, **RARE)
        people[key] = np.arange(len(people))
        return read(model.sample(ctx_data=people, **RARE).merge(people, on=key), given["seed"])

    return figures(said, also), draw


def read(made, seed):
    """Numbers and codes, dates in days; another value of the column for the word for rare ones, which it still draws now and then."""
    dates = made.select_dtypes("datetime")
    made = made.assign(**{name: (dates[name] - pd.Timestamp(0)) / pd.Timedelta(days=1) for name in dates})
    rng = np.random.default_rng(seed)
    for name in made.select_dtypes(["object", "string"]):
        rare = (made[name] == "_RARE_").fillna(False).to_numpy(bool)
        if rare.any() and not rare.all():
            made.loc[rare, name] = rng.choice(made.loc[~rare, name], rare.sum())
    return made.apply(pd.to_numeric, errors="coerce")


def figures(*said):
    """What the accountant says, and how many epochs the kept states had."""
    return {
        "epsilon_spent": float(sum(each["dp_eps"] for each in said)),
        "epochs": [float(each["epoch"]) for each in said],
    }


if __name__ == "__main__":
    training.time = SimpleNamespace(time=time.process_time)
    task.run(fit)
