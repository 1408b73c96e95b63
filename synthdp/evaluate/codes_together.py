"""Do codes of the same visit occur together as often as they should, such as a drug and its diagnosis?"""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any

import pandas as pd

from synthdp.evaluate.courses import unpivoted
from synthdp.schema.linked_tables import Table, of_table
from synthdp.schema.schema import Schema

MOST_PAIRS = 10
LEAST_VISITS = 50  # with a code, among the training ones: fewer are no basis for a share
LEAST_MADE = 10  # the same, among the synthetic or the held-out ones


def codes_together(visits: Sequence[pd.DataFrame], schema: Schema) -> Iterator[dict[str, Any]]:
    """For each two tables below visits, and within each of them, the pairs of codes that training visits have most often beyond chance:
    of the visits with a code of the first table, the share that also have the code of the second. `visits` are the joined synthetic,
    training and held-out ones.

    {"columns": [first, second], "pairs"}, each pair {"code", "other", "visits", "synthetic", "train", "test", "chance"}: "visits" is the
    number of training visits with the code, and "chance" the share of all training visits that have the other one. A share is None where
    a set has fewer than `LEAST_MADE` visits with the code. Within one table the code is the rarer of the two. Tables without a pair, or
    whose codes have fewer than `LEAST_VISITS` training visits, are left out.
    """
    for tables in combinations_with_replacement(schema.tables[2:], 2):
        columns = [of_table(schema, table).modelled[0].name for table in tables]
        first, second = ([_codes(frame, *each) for frame in visits] for each in zip(tables, columns, strict=True))
        held, other = ([rows["code"].value_counts() for rows in each] for each in (first, second))
        both = [
            one.merge(two, on="visit").groupby(["code", "other"]).size()
            for one, two in zip(first, (rows.rename(columns={"code": "other"}) for rows in second), strict=True)
        ]
        pairs = both[1].rename("together").reset_index()
        pairs["visits"], pairs["others"] = pairs["code"].map(held[1]), pairs["other"].map(other[1])
        pairs["chance"] = pairs["others"] / len(visits[1])
        pairs["beyond"] = pairs["together"] - pairs["visits"] * pairs["chance"]
        kept = (pairs["visits"] >= LEAST_VISITS) & (pairs["beyond"] > 0)
        if tables[0] is tables[1]:
            alike = pairs["visits"] == pairs["others"]
            kept &= (pairs["visits"] < pairs["others"]) | (alike & (pairs["code"] < pairs["other"]))
        most = pairs[kept].sort_values(["beyond", "code", "other"], ascending=[False, True, True])[:MOST_PAIRS]
        if len(most):
            sets = list(zip(("synthetic", "train", "test"), both, held, strict=True))
            yield {
                "columns": [f"{table.name}.{column}" for table, column in zip(tables, columns, strict=True)],
                "pairs": [
                    {"code": code, "other": other, "visits": int(count)}
                    | {name: _share(together, of, code, other) for name, together, of in sets}
                    | {"chance": float(chance)}
                    for code, other, count, chance in most[["code", "other", "visits", "chance"]].to_numpy()
                ],
            }


def _codes(frame: pd.DataFrame, table: Table, column: str) -> pd.DataFrame:
    """The different codes of each visit."""
    codes = unpivoted(frame, table, [column])[column].astype(object).dropna().map(str)
    return pd.DataFrame({"visit": codes.index, "code": codes.to_numpy()}).drop_duplicates()


def _share(together: "pd.Series[int]", held: "pd.Series[int]", code: str, other: str) -> float | None:
    visits = int(held.get(code, 0))
    return None if visits < LEAST_MADE else float(together.get((code, other), 0) / visits)
