"""SmartNoise's MST or AIM on a table of numbers, which it counts in 32 bins of equal width within their public bounds.

Its guarantee does not hold as claimed: its code reads categories, and the number of records, off the records and books nothing for
them. Its noise is OpenDP's, added to counts in double precision.
"""

import numpy as np
import pandas as pd
import task
from snsynth import Synthesizer
from snsynth.transform import BinTransformer, LabelTransformer
from snsynth.transform.table import TableTransformer

BINS = 32


def fit(table, given):
    """Epsilon is for the algorithm as a whole: public bounds cost it nothing."""
    np.random.seed(given["seed"])
    frame, transformers = {}, []
    for place, column in enumerate(given["columns"]):
        values = pd.Series(table[:, place])
        if column["levels"]:
            frame[column["name"]] = values.astype("Int64").astype(object).where(values.notna(), None)
            transformers.append(LabelTransformer(nullable=column["missing"]))
        else:
            frame[column["name"]] = values
            bounds = {"lower": column["low"], "upper": column["high"]}
            transformers.append(BinTransformer(bins=BINS, nullable=column["missing"], **bounds))
    settings = {"delta": given["delta"], **given["settings"]}
    synthesizer = Synthesizer.create(given["method"], epsilon=given["epsilon"], **settings)
    synthesizer.fit(pd.DataFrame(frame), transformer=TableTransformer(transformers))
    return {}, synthesizer.sample


if __name__ == "__main__":
    task.run(fit)
