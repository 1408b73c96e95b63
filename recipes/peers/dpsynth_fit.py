"""dpsynth's AIM or SWIFT (Google) on a table of numbers, at 32 bins of its private quantiles, as by default.

Its guarantee does not hold as claimed: its AIM chooses a table by the exponential mechanism as if adding a record moved all scores the
same way. They are distances, which it moves both ways, so that the choice costs four times what is booked: a tenth of the whole
is four tenths. `max_records_per_user` is assumed, not held to. Noise is that of numpy's generator in double precision, not
rounded.
"""

import dpsynth
import mbi
import numpy as np
import pandas as pd
import task
from dpsynth import discrete_mechanisms

METHODS = {"aim": discrete_mechanisms.AIMConfig, "swift": discrete_mechanisms.SWIFTConfig}


def fit(table, given):
    """The algorithm's own fit; rows are drawn anew from its model, in as many as are asked for."""
    frame, domains = {}, {}
    for place, column in enumerate(given["columns"]):
        values = pd.Series(table[:, place])
        name, missing = column["name"], column["missing"]
        if column["levels"]:
            frame[name] = values.fillna(-1).astype("int64")
            domains[name] = dpsynth.CategoricalAttribute([*range(column["levels"]), *([-1] if missing else [])])
        else:
            frame[name] = values
            domains[name] = dpsynth.NumericalAttribute(
                column["low"],
                column["high"],
                clip_to_range=not missing,
                dtype="int" if column["whole"] else "float",
                interval_handling="sample",
            )
    config = dpsynth.TabularConfig(domains=domains, discrete_mechanism=METHODS[given["method"]](**given["settings"]))
    rng = np.random.default_rng(given["seed"])
    found = config.calibrate(epsilon=given["epsilon"], delta=given["delta"])(rng, pd.DataFrame(frame))

    def draw(rows):
        made = mbi.extensions.synthetic_data(found.discrete_mechanism_result.model, rows)
        decoded = found.codec.decode(made, rng, list(domains))
        coded = [column["name"] for column in given["columns"] if column["levels"]]
        return decoded.assign(**{name: pd.to_numeric(decoded[name]).replace(-1, np.nan) for name in coded})

    return {}, draw


if __name__ == "__main__":
    task.run(fit)
