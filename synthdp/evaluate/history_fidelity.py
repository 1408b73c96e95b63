"""Are synthetic histories like real ones: how many records a unit has, how far apart, what follows what, and does the past tell as much?"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from synthdp.errors import BadInput
from synthdp.evaluate.fidelity import apart
from synthdp.evaluate.tables import words_of
from synthdp.schema.cells import instants, numbers
from synthdp.schema.codec import Codec
from synthdp.schema.columns import LEARN, Categorical, Datetime, Numeric
from synthdp.schema.history_view import ALIKE, GAP, LEFT, NUMBER, PLACE, View
from synthdp.schema.rows_below import PREVIOUS
from synthdp.schema.schema import Schema

Cells = dict[str, np.ndarray[Any, np.dtype[np.int64]]]


MOST_CLASSES = 8  # of a target whose transitions are counted
LEAST_RECORDS = 50  # of each class, and of later records, that are worth a figure
TREES = {"max_iter": 150, "learning_rate": 0.08, "max_leaf_nodes": 15, "early_stopping": False}


def judge(
    synthetic: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, schema: Schema, seed: int = 0
) -> dict[str, Any]:
    """Figures of histories, of a schema with `order`: total variation distances of the synthetic records from the training ones, each
    beside that of the held-out ones ("real"); and the AUROC of a target predicted from its record and its unit's past, on held-out records.

    `records_per_unit`, `gaps`, and by target `transitions` (previous value, value). `told`, by target with two classes: trained on
    synthetic records (`tstr`), on real ones (`trtr`), and on real ones without their past (`without`), on all records and on later ones;
    and on two floors, see `_floors`.
    """
    view = View.of(Codec(schema))
    parts = {
        name: cells(frame, schema, view) for name, frame in (("synthetic", synthetic), ("train", train), ("test", test))
    }
    found: dict[str, Any] = {}
    for figure, names, where in (("records_per_unit", [NUMBER], "first"), ("gaps", [GAP], "later")):
        found[figure] = _apart(parts, view, names, where)
    targets = [name for name in schema.targets if name in view.own]
    found["transitions"] = {
        name: _apart(parts, view, [PREVIOUS + name, name], "later")
        for name in targets
        if view.sizes[name] <= MOST_CLASSES
    }
    two = [name for name in targets if view.sizes[name] == 2]
    parts |= _floors(synthetic, schema, view, seed) if two else {}
    found["told"] = {name: told for name in two if (told := _told(parts, view, name, seed))}
    return found


BINS = 10  # of equal weight, where a schema leaves bins to learn


def as_seen(schema: Schema, synthetic: pd.DataFrame, train: pd.DataFrame) -> Schema:
    """The schema with what it leaves to learn read off the rows: the categories of the synthetic ones, bounds and bins of the training
    ones. Allowed here, for all of this is internal."""
    for name in dict.fromkeys(name for name, _ in schema.learned):
        column = schema.column(name)
        items: dict[str, Any] = {}
        if isinstance(column, Categorical):
            items["categories"] = words_of(synthetic[name])
        elif isinstance(column, Numeric):
            read = (instants if isinstance(column, Datetime) else numbers)(train[name])
            values = np.asarray(read.cells, float)[~(read.missing | read.wrong)]
            values = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
            if column.bounds == LEARN:
                items["bounds"] = [float(values.min()), float(values.max())]
            if column.bins == LEARN:
                items["bins"] = sorted({float(edge) for edge in np.quantile(values, np.arange(1, BINS) / BINS)})
        schema = schema.with_learned(name, **items)
    return schema


def cells(frame: pd.DataFrame, schema: Schema, view: View) -> Cells:
    """The columns of every record's history, unit by unit; records of one time as they stand in the frame."""
    if schema.unit is None or schema.unit not in frame:
        raise BadInput(f"histories need the unit column {schema.unit!r}, which tells whose a record is")
    codec = Codec(schema)
    owner = pd.factorize(frame[schema.unit])[0].astype(np.int64)
    points = codec.numeric(view.order).read(frame[view.order])[0].astype(np.int64)
    rank = np.lexsort((points, owner))
    return view.cells(codec.encode(frame)[rank], points[rank], owner[rank], {})


def _floors(synthetic: pd.DataFrame, schema: Schema, view: View, seed: int) -> dict[str, Cells]:
    """What histories must beat to be worth having: `dealt`, the same synthetic records dealt to units at random, each with its own
    unit's columns, so that no record says anything of another; and `single`, one record of each unit, drawn at random, as a generator
    of one row per unit would give."""
    unit = str(schema.unit)
    mixed = synthetic.sample(frac=1.0, random_state=seed, ignore_index=True)
    loose = replace(schema, per_unit=())
    return {
        "dealt": cells(mixed.assign(**{unit: synthetic[unit].to_numpy()}), loose, View.of(Codec(loose))),
        "single": cells(mixed.drop_duplicates(unit), schema, view),
    }


def _apart(parts: Mapping[str, Cells], view: View, names: list[str], where: str) -> dict[str, float] | None:
    shares = {}
    for part, held in parts.items():
        chosen = held[PLACE] == 0 if where == "first" else held[PLACE] > 0
        if chosen.sum() == 0:
            return None
        place = np.zeros(int(chosen.sum()), np.int64)
        for name in names:
            place = place * view.sizes[name] + held[name][chosen]
        shares[part] = np.bincount(place, minlength=int(np.prod([view.sizes[name] for name in names]))) / len(place)
    return apart(*shares.values())


def _told(parts: Mapping[str, Cells], view: View, target: str, seed: int) -> dict[str, Any] | None:
    # Two of these columns say what is still to come; one, how other columns stay.
    past = [name for name in view.before(target) if name not in (NUMBER, LEFT, ALIKE)]
    alone = [name for name in past if name in (*view.unit, *view.own, view.order)]
    truth, later = parts["test"][target], parts["test"][PLACE] > 0
    if (
        min(np.bincount(truth, minlength=2)) < LEAST_RECORDS
        or min(np.bincount(truth[later], minlength=2)) < LEAST_RECORDS
    ):
        return None
    found: dict[str, Any] = {}
    arms = (("tstr", "synthetic", past), ("trtr", "train", past), ("without", "train", alone))
    for arm, part, names in (*arms, ("dealt", "dealt", past), ("single", "single", past)):
        rows = np.stack([parts[part][name] for name in names], 1)
        if len(np.unique(parts[part][target])) < 2:
            if part == "single":
                continue
            return None
        model = HistGradientBoostingClassifier(random_state=seed, **TREES).fit(rows, parts[part][target])
        score = model.predict_proba(np.stack([parts["test"][name] for name in names], 1))[:, 1]
        found[arm] = {
            "all": float(roc_auc_score(truth, score)),
            "later": float(roc_auc_score(truth[later], score[later])),
        }
    return found
