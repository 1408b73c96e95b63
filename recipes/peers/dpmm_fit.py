"""dpmm's AIM, MST or PrivBayes on a table of numbers.

Epsilon is the total: a tenth is for binning, as its pipeline has it at epsilon 1 (0.1 beside 0.9). A column with missing values is
filled with one value drawn from the records, and a column that never varies is told as it is: dpmm spends nothing on
either, so its guarantee does not hold as claimed for such columns.
"""

import pandas as pd
import task
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline

METHODS = {"aim": AIMPipeline, "mst": MSTPipeline, "privbayes": PrivBayesPipeline}
BINNING = 0.1  # of epsilon


def framed(table, columns):
    """Numbers as float64 (int64 where whole and never missing), categories as codes; and the public domain of each."""
    frame, domain = {}, {}
    for place, column in enumerate(columns):
        values = pd.Series(table[:, place])
        if column["levels"]:
            frame[column["name"]] = values.astype("Int64").astype("category")
            domain[column["name"]] = {"categories": list(range(column["levels"]))}
        else:
            whole = column["whole"] and not values.isna().any()
            frame[column["name"]] = values.astype("int64") if whole else values
            domain[column["name"]] = {"lower": column["low"], "upper": column["high"]}
    return pd.DataFrame(frame), domain


def fit(table, given):
    """The pipeline's own fit."""
    frame, domain = framed(table, given["columns"])
    settings = dict(given["settings"])
    pipeline = METHODS[given["method"]](
        epsilon=given["epsilon"] * (1 - BINNING),
        delta=given["delta"],
        proc_epsilon=given["epsilon"] * BINNING,
        max_model_size=settings.pop("max_model_size", None),
        n_jobs=1,
        gen_kwargs=settings,
    )
    pipeline.fit(frame, domain, random_state=given["seed"])
    return {}, lambda rows: pipeline.generate(n_records=rows, random_state=given["seed"])


if __name__ == "__main__":
    task.run(fit)
