"""Are synthetic linked tables like real ones: visits as a table of histories, people, numbers of rows, and links?"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pandas as pd

from synthdp.errors import BadInput
from synthdp.evaluate import history_fidelity
from synthdp.evaluate.association import Rows, agreement
from synthdp.evaluate.courses import repeated, rows_below, unpivoted
from synthdp.evaluate.faithfulness import by_level
from synthdp.evaluate.fidelity import apart, calendar
from synthdp.evaluate.judging_options import JudgingOptions, Progress
from synthdp.evaluate.numbers_by_code import numbers_by_code
from synthdp.evaluate.run import ROLES, judge
from synthdp.schema import cells
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Categorical, Continuous, Datetime, Integer, on_grid
from synthdp.schema.history_view import DAY
from synthdp.schema.joined_tables import joined, rows_of
from synthdp.schema.linked_tables import Table, alone, keys_of, of_rows, of_table, once
from synthdp.schema.rule_rows import broken
from synthdp.schema.schema import Schema

Frames = Mapping[str, pd.DataFrame]
Shares = np.ndarray[Any, np.dtype[np.float64]]


LATE = (0, 1, 2, 8, 32)  # days after a visit, from which on a date of its rows has another code
ROUNDING = 1e-9  # of ranks, which are shares
MOST_PAIRS = 10  # of codes of the same visit
LEAST_VISITS = 50  # with a code, among the training ones: fewer are no basis for a share
LEAST_MADE = 10  # the same, among the synthetic or the held-out ones
LONGEST = 2  # times max_rows: numbers of visits that are told apart


def evaluate_tables(
    synthetic: Frames | Sequence[Frames],
    train: Frames,
    test: Frames,
    schema: Schema,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Judge linked tables, each set of them as frames by their names: as `evaluate` of the visits, each with its person's columns and the
    codes below it, and `linked` beside: what the visits alone do not show. Options as there. Raises `BadInput` where the real tables do
    not fit the schema."""
    if isinstance(synthetic, Mapping):
        synthetic = [synthetic]
    checked = [schema.validate_tables(frames, "clamp") for frames in (*synthetic, train, test)]
    schema = _as_kept(schema, checked[:-2])
    whole = [joined(frames, schema) for frames in checked]
    visits = [each.frame[each.there].reset_index(drop=True) for each in whole]
    if not all(len(frame) for frame in visits):
        raise BadInput(
            "there is nothing to judge: one of the sets of tables has no visit of a person in its table of people"
        )
    one = alone(schema)
    how, three = JudgingOptions.of(options), (whole[0], *whole[-2:])
    result = judge(visits[:-2], visits[-2], visits[-1], one, how, progress, (schema, three))
    visits = [visits[0], *visits[-2:]]
    if below := _broken_by_rows(schema, visits):
        result["fidelity"]["rules"] = [*result["fidelity"].get("rules", ()), *below]
    seen = history_fidelity.as_seen(one, visits[0], visits[1])
    people = [each.frame.drop_duplicates(schema.unit) for each in three]
    number = [
        np.bincount(_owner(each.frame, schema)[each.there], minlength=len(of))
        for each, of in zip(three, people, strict=True)
    ]
    most = LONGEST * schema.max_records_per_unit
    found = {"visits per person": apart(*(_shares(np.minimum(each, most), most + 1) for each in number))}
    codec = Codec(seen.counting())
    coded = [codec.encode(frame) for frame in people]
    for name in schema.per_unit:
        place = codec.names.index(name)
        found[name] = apart(*(_shares(codes[:, place], codec.sizes[place]) for codes in coded))
    onward = (result.get("histories") or {}).get("onward")
    numbers: list[dict[str, Any]] = []
    calendars: list[dict[str, Any]] = result["fidelity"].setdefault("calendar", [])
    for table in schema.tables[2:]:
        if onward is not None:
            onward["pairs"] += _onward(visits, table, schema)
        rows = [rows_below(frame, table).sum(axis=1).to_numpy(np.int64) for frame in visits]
        most = int(table.max_rows or 0)
        found[f"{table.name} per {schema.tables[1].name}"] = apart(*(_shares(each, most + 1) for each in rows))
        found |= _rows_apart(visits, table, schema)
        calendars += _calendars(visits, table, schema)
        judged, lacking = numbers_by_code(visits, table, schema)
        numbers += judged
        result["not_computed"] += lacking
    if codes := _by_level(visits, schema):
        levels = result["fidelity"].setdefault("code_levels", {})
        for table in schema.tables[2:]:
            for name in (name for name in schema.names if name.startswith(f"{table.name}.")):
                levels.pop(name, None)
        levels |= codes
    links = [_links(checked[0], table, schema) for table in schema.tables]
    together = list(codes_together(visits, schema))
    result["linked"] = {"apart": found, "together": together, "numbers": numbers, "links": links}
    return result


def _as_kept(schema: Schema, synthetic: Sequence[Frames]) -> Schema:
    """The schema with the codes of synthetic rows below visits as the categories of trees there (`faithfulness.as_kept`)."""
    for column, places in once(schema):
        if places and isinstance(column, Categorical) and isinstance(column.categories, str):
            table, _, name = column.name.partition(".")
            held = {text for frames in synthetic for text in cells.texts(frames[table][name].drop_duplicates())}
            schema = schema.with_learned(column.name, categories=sorted(text for text in held if text is not None))
    return schema


def _by_level(visits: Sequence[pd.DataFrame], schema: Schema) -> dict[str, Any]:
    """`faithfulness.by_level` of the codes below visits that have a tree, over all of their places."""
    found: dict[str, Any] = {}
    for column, places in once(schema):
        if places and getattr(column, "tree", None) is not None:
            three = []
            for frame in visits:
                every = [frame[f"{column.name} {place + 1}"].astype(object) for place in range(places)]
                three.append(pd.DataFrame({column.name: pd.concat(every, ignore_index=True)}))
            synthetic, train, test = three
            found |= by_level(Schema(columns=(column,)), synthetic, train, test)
    return found


def _rows_apart(visits: Sequence[pd.DataFrame], table: Table, schema: Schema) -> dict[str, dict[str, float]]:
    """Of the rows below visits that count: what they are, and each other column alone and together with that. Of a date its days after the
    visit count, in codes from before it to more than a month, both at their declared resolution: a day is not before a time of that day."""
    own = of_table(schema, table)
    codec, names = Codec(own), [column.name for column in own.modelled]
    parts = []
    for frame in visits:
        rows = unpivoted(frame, table, names)
        rows = rows[rows[names[0]].notna()]
        visited = on_grid(schema.column(str(schema.order)), cells.instants(frame[schema.order].iloc[rows.index]).cells)
        codes = codec.encode(rows)
        held = {name: (codes[:, place], codec.sizes[place]) for place, name in enumerate(codec.names)}
        for name in names:
            if isinstance(own.column(name), Datetime):
                at = cells.instants(rows[name])
                days = np.searchsorted(LATE, (on_grid(own.column(name), at.cells) - visited) // DAY, side="right")
                held[name] = np.where(at.missing, len(LATE) + 1, days), len(LATE) + 2
        parts.append(held)
    first = names[0]
    found = {f"{table.name}.{name}": apart(*(_shares(*part[name]) for part in parts)) for name in names}
    for name in names[1:]:
        both = [
            _shares(part[first][0] * part[name][1] + part[name][0], part[first][1] * part[name][1]) for part in parts
        ]
        found[f"{table.name}.{first}, {name}"] = apart(*both)
    return found


def _calendars(visits: Sequence[pd.DataFrame], table: Table, schema: Schema) -> Iterator[dict[str, Any]]:
    """`fidelity.calendar` of the dates of rows below visits."""
    for column in of_table(schema, table).modelled:
        if isinstance(column, Datetime):
            dates = {}
            for role, frame in zip(ROLES, visits, strict=True):
                rows = unpivoted(frame, table, [column.name])[column.name]
                at = cells.instants(rows)
                days = np.where(at.missing | at.wrong, np.nan, np.asarray(at.cells, float) / DAY)
                dates[role] = days, _owner(frame, schema)[rows.index]
            yield from calendar(f"{table.name}.{column.name}", dates, hours=column.resolution != "day")


def _onward(visits: Sequence[pd.DataFrame], table: Table, schema: Schema) -> list[dict[str, Any]]:
    """How rows below visits are associated with those of earlier visits, in the form of `courses.onward`: codes by `_come_again`; numbers
    by their rank correlation with the person's last one of the same code, within codes, or 0 where a set's values do not vary. Left out
    where there is nothing to compare in one of the sets."""
    own = of_table(schema, table)
    first, *rest = own.modelled
    found = []
    again = {role: _come_again(frame, table, schema, first.name) for role, frame in zip(ROLES, visits, strict=True)}
    if all(len(each.owner) for each in again.values()):
        name = f"{table.name}.{first.name}"
        found.append({"last": name, "present": name, **repeated(again)})
    for column in rest:
        if isinstance(column, (Integer, Continuous)):
            both = {
                role: _both(frame, table, schema, first.name, column.name)
                for role, frame in zip(ROLES, visits, strict=True)
            }
            if min(map(len, both.values())) > 1:
                name = f"{table.name}.{column.name}"
                pair = {"last": f"{name} of the same {first.name}", "present": name}
                goes_on, same = ({role: of(each) for role, each in both.items()} for of in (_goes_on, _same))
                found.append({**pair, **repeated(goes_on), "same": repeated(same)})
    return found


def _come_again(frame: pd.DataFrame, table: Table, schema: Schema, code: str) -> Rows:
    """The share of a visit's codes that the person's next visit has, too, beyond what chance gives: 0 where codes say nothing of the next
    ones, 1 where all come again (as Cohen's kappa, 1960)."""
    frame = frame.sort_values([str(schema.unit), str(schema.order)], kind="stable", ignore_index=True)
    rows = unpivoted(frame, table, [code]).set_axis(["code"], axis=1).astype(object).rename_axis("visit").reset_index()
    rows = rows.dropna().drop_duplicates()
    again = rows.assign(visit=rows["visit"] - 1, again=1.0)
    later = pd.Series(_owner(frame, schema)).diff(-1).eq(0)
    pairs = rows[later[rows["visit"]].to_numpy()].merge(again, on=["visit", "code"], how="left")
    following = rows[later.shift(fill_value=False)[rows["visit"]].to_numpy()]
    chance = pairs["code"].map(following["code"].value_counts() / later.sum()).fillna(0)
    return agreement(
        pairs["again"].notna().to_numpy(), np.asarray(chance, np.float64), _owner(frame, schema)[pairs["visit"]]
    )


def _both(frame: pd.DataFrame, table: Table, schema: Schema, code: str, name: str) -> pd.DataFrame:
    """A row for each number that is not the person's first one of its code: `who`, the `number` and its `rank` among those of the code, its
    `share` of them, and of the person's last one all three."""
    rows = unpivoted(frame, table, [code, name]).set_axis(["code", "number"], axis=1)
    rows["code"], read = rows["code"].astype(object), cells.numbers(rows["number"])
    rows["number"] = np.where(read.missing | read.wrong, np.nan, np.asarray(read.cells, float))
    rows["who"], rows["when"] = _owner(frame, schema)[rows.index], frame[schema.order].to_numpy()[rows.index]
    rows = rows.dropna().drop_duplicates(["who", "code", "when"])
    rows = rows.sort_values(["who", "code", "when"], kind="stable", ignore_index=True)
    ranks = rows.groupby("code")["number"].rank(pct=True)
    rows["rank"] = ranks - ranks.groupby(rows["code"]).transform("mean")
    counts = rows.groupby(["code", "number"])["number"].transform("size")
    rows["share"] = counts / rows.groupby("code")["number"].transform("size")
    names = ["number", "rank", "share"]
    last = rows.groupby(["who", "code"])[names].shift().add_prefix("last ")
    return rows[["who", *names]].join(last).dropna()


def _goes_on(both: pd.DataFrame) -> Rows:
    ranks = both[["rank", "last rank"]].to_numpy()

    def figure(rows: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
        varies = rows.sum() > 1 and ranks[rows].std(axis=0).min() >= ROUNDING
        return float(np.corrcoef(ranks[rows].T)[0, 1]) if varies else 0.0

    return Rows(figure, both["who"].to_numpy())


def _same(both: pd.DataFrame) -> Rows:
    """How often a number is the person's last one of its code."""
    same = (both["number"] == both["last number"]).to_numpy()
    return agreement(same, both["last share"].to_numpy(), both["who"].to_numpy())


def _broken_by_rows(schema: Schema, visits: Sequence[pd.DataFrame]) -> list[dict[str, Any]]:
    """The share of rows that break each rule on rows below visits, in the form of `faithfulness.violations`."""
    found = []
    for table in schema.tables[2:]:
        rules, of = (*table.orders, *table.rules), of_rows(schema, table)
        names = dict.fromkeys(name for rule in rules for name in rule.columns)
        rows = [rows_of(frame, schema, table, names) for frame in visits] if rules else []
        for rule in rules:
            shares: dict[str, Any] = {"rule": rule.text}
            for role, frame in zip(("synthetic", "train", "test"), rows, strict=True):
                shares[role] = float(broken(rule, frame, of).mean()) if len(frame) else None
            found.append(shares)
    return found


def _owner(frame: pd.DataFrame, schema: Schema) -> np.ndarray[Any, np.dtype[np.int64]]:
    return pd.factorize(frame[schema.unit])[0].astype(np.int64)


def _shares(codes: np.ndarray[Any, Any], size: int) -> Shares:
    return np.bincount(codes, minlength=size) / max(1, len(codes))


def _links(frames: Frames, table: Table, schema: Schema) -> dict[str, Any]:
    """Of a synthetic table: how many rows it has, how many of them link to nothing, and how many share their key with another."""
    frame, parent = frames[table.name], next((each for each in schema.tables if each.name == table.parent), None)
    lost = 0
    if parent is not None:
        name = keys_of(schema, table)[-1]
        known = set(cells.texts(frames[parent.name][name]))
        lost = sum(text is None or text not in known for text in cells.texts(frame[name]))
    twice = 0 if table.key is None else int(frame[table.key].duplicated(keep=False).sum())
    return {"table": table.name, "rows": len(frame), "orphans": lost, "duplicates": twice}


# ---- Do codes of the same visit occur together as often as they should, such as a drug and its diagnosis?


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
                    | {name: _share_of(together, of, code, other) for name, together, of in sets}
                    | {"chance": float(chance)}
                    for code, other, count, chance in most[["code", "other", "visits", "chance"]].to_numpy()
                ],
            }


def _codes(frame: pd.DataFrame, table: Table, column: str) -> pd.DataFrame:
    """The different codes of each visit."""
    codes = unpivoted(frame, table, [column])[column].astype(object).dropna().map(str)
    return pd.DataFrame({"visit": codes.index, "code": codes.to_numpy()}).drop_duplicates()


def _share_of(together: "pd.Series[int]", held: "pd.Series[int]", code: str, other: str) -> float | None:
    visits = int(held.get(code, 0))
    return None if visits < LEAST_MADE else float(together.get((code, other), 0) / visits)
