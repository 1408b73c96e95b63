"""SDV's PAR on histories, with no guarantee at all.

`units` drawn at random, and their records, are what it learns from, and as many are drawn: in each of its 128 steps it goes through all
sequences one by one, 0.15 CPU seconds a unit in all, so that the whole table would take hours.
"""

import numpy as np
import pandas as pd
import task
import torch
from sdv.metadata import Metadata
from sdv.sequential import PARSynthesizer


def fit(table, given):
    """The synthesizer's own fit, by the public kinds of the columns."""
    torch.manual_seed(given["seed"])
    rng = np.random.default_rng(given["seed"])
    columns, most = given["columns"], given["settings"]["units"]
    kept = rng.permutation(int(table[:, 0].max()) + 1)[:most]
    frame = pd.DataFrame(table[np.isin(table[:, 0], kept)], columns=[column["name"] for column in columns])
    key, order = columns[0]["name"], next(column["name"] for column in columns if column.get("order"))
    kinds = {}
    for column in columns:
        name = column["name"]
        if name in (key, order):
            kinds[name] = {"sdtype": "id"} if name == key else {"sdtype": "datetime"}
        else:
            kinds[name] = {"sdtype": "categorical" if column["levels"] else "numerical"}
        if column["levels"] or name == key:
            frame[name] = frame[name].astype("Int64").astype("string").astype(object)
    frame[order] = pd.to_datetime(frame[order], unit="D")
    told = {"columns": kinds, "sequence_key": key, "sequence_index": order}
    context = [column["name"] for column in columns[1:] if column["unit"]]
    metadata = Metadata.load_from_dict({"tables": {"records": told}})
    model = PARSynthesizer(metadata, context_columns=context, cuda=False)
    model.fit({"records": frame})

    def draw(_):
        made = model.sample_sequences(num_sequences=most)["records"]
        made[order] = (pd.to_datetime(made[order]) - pd.Timestamp(0)) / pd.Timedelta(days=1)
        return made.assign(**{key: pd.factorize(made[key])[0]})

    return {"units": most}, draw


if __name__ == "__main__":
    task.run(fit)
