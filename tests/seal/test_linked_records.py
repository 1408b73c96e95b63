"""Linked tables in the seal (law 46): one person's rows move nothing but that person's cells, whoever else holds the same keys."""

import functools
import math
import zlib
from itertools import pairwise

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from linked_clinic import TREE, clinic, finer, labs, schema, tangled, with_labs, with_tree, without
from sweeps import sweep

from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Entry, Gaussian
from synthdp.ledger.ledger import Ledger
from synthdp.schema import cells
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import View
from synthdp.schema.joined_tables import joined
from synthdp.schema.number_levels import LEVELS, earlier
from synthdp.schema.schema import CLAMPED_BELOW, clamping
from synthdp.schema.trees import Tree
from synthdp.seal import HistoryTables, Sensitive
from synthdp.seal.charging import Account
from synthdp.seal.history_records import ordered
from synthdp.seal.learn import Domain
from synthdp.seal.records import Records
from synthdp.seal.resume import Answers
from synthdp.sets import record_files
from synthdp.tables import database_url

KEY = b"k" * 32
SCHEMA, LABS = schema().settled(), with_labs().settled()
VIEW, OF_LABS = (View.of(Codec(each)) for each in (SCHEMA, LABS))
OF_UNITS = (("person.sex", "number of records"), ("person.death", "number of records"), ("number of records",))
OF_RECORDS = (
    *((name, "visit.no_show") for name in OF_LABS.before("visit.no_show")),
    ("previous visit.no_show", "gap", "visit.no_show"),
    ("previous visit.no_show", "lab.test", "visit.no_show"),
    ("diagnosis rows", "lab rows"),
    ("place",),
)
LAB_ROWS = OF_LABS.below[1]
LEVEL, BEFORE = "level of lab.value", "previous level of lab.value"
OF_ROWS = tuple(
    (each, name) for name in LAB_ROWS.columns for each in (*OF_LABS.before(name), "lab again") if each != LEVEL
)
STARTS = ((LEVEL, ((3, 4, 4, 4, 5), (1, 2, 3, 4, 5), (0, 0, 1, 5, 5))),)  # of 5 bins, by test
OF_LEVELS = (
    *((*each, LEVEL) for each in OF_LABS.cliques(LEVEL)),
    *((LEVEL, name) for name in LAB_ROWS.columns if LEVEL in OF_LABS.before(name)),
    ("lab.test", BEFORE),
)
CLIPS = (1.0, 2.0, 3.0)
QUESTIONS = {
    "clip None": HistoryTables(OF_LABS, OF_UNITS, 1.0),
    **{f"clip {clip}": HistoryTables(OF_LABS, OF_RECORDS, 1.0, clip) for clip in CLIPS},
    **{f"rows, clip {clip}": HistoryTables(OF_LABS, OF_ROWS, 1.0, clip, "lab") for clip in CLIPS},
    **{f"levels, clip {clip}": HistoryTables(OF_LABS, OF_LEVELS, 1.0, clip, "lab", STARTS) for clip in CLIPS},
}
LIGHT = ("clip None", "clip 2.0", "rows, clip 2.0")
EACH = pytest.mark.parametrize(
    "question",
    [pytest.param(each, id=name, marks=[] if name in LIGHT else pytest.mark.heavy) for name, each in QUESTIONS.items()],
)


def sealed(frames, key=KEY, of=SCHEMA):
    return ordered(frames, of, key).encoded_by(Codec(of))


def both():
    """The tangled tables, in which several people hold the same laboratory values, too, and one has many."""
    frames = labs(tangled(), seed=4)
    shared = frames["visit"]["visit_id"][7]
    more = pd.DataFrame({"visit_id": [shared] * 6, "test": "K", "value": 3.5, "taken": pd.Timestamp("2023-01-01")})
    return {**frames, "lab": pd.concat([frames["lab"], more.assign(urgent=True)], ignore_index=True)}


@functools.cache  # which every question is asked about
def everybody_but(name):
    """The sealed tables without somebody."""
    return sealed(without(both(), name), of=LABS)


@EACH
def test_no_person_moves_the_tables_by_more_than_the_sensitivity(question):
    """By brute force, each person in turn, with keys that collide, orphans and keys that stand twice."""
    frames = both()
    whole = question.bounded(sealed(frames, of=LABS))
    people = [name for name in dict.fromkeys(frames["person"]["person_id"].dropna()) if name]
    moved = [question.movement(whole, question.bounded(everybody_but(name))) for name in people]
    assert max(moved) <= question.sensitivity * (1 + 1e-15)
    assert max(moved) > 0.3 * question.sensitivity
    assert min(moved) > 0 or question.clip is not None, "everybody counts, also without a visit"
    if question.clip is None:
        return
    for table, before in zip(question.bounded(everybody_but("P0000")), whole, strict=True):
        moved = math.sqrt(((before - table) ** 2).sum())
        assert not question.rows or moved <= question.clip * (1 + 1e-15), "each table of rows has its own bound"


@EACH
def test_a_person_s_cells_are_told_by_their_own_rows_alone(question):
    """What somebody adds to the tables is what they are by themselves, wherever their rows lie, and whoever holds their keys."""
    frames = both()
    shuffled = {table: frame.sample(frac=1, random_state=5, ignore_index=True) for table, frame in frames.items()}
    everybody = question.bounded(sealed(shuffled, of=LABS))
    for name in ("alike", "P0000", "P0003", "P0011"):
        visits = frames["visit"][frames["visit"]["person_id"] == name]
        own = {
            "person": frames["person"][frames["person"]["person_id"] == name],
            "visit": visits,
            **{
                table: frames[table][frames[table]["visit_id"].isin(visits["visit_id"].dropna())]
                for table in ("diagnosis", "lab")
            },
        }
        alone, without_them = question.bounded(sealed(own, of=LABS)), question.bounded(everybody_but(name))
        for one, other, together in zip(alone, without_them, everybody, strict=True):
            np.testing.assert_array_equal(together - other, one)


CODED = with_tree().settled()
CODES_HELD = Domain("diagnosis.code", 1.0, 0.0, 2 * 3, CODED.column("diagnosis.code 1").tree, 2)


def counted(frames):
    return CODES_HELD.bounded(ordered(frames, CODED, KEY))


def test_no_person_moves_the_counts_of_a_tree_below_visits_by_more_than_the_sensitivity():
    """By brute force, as above; `alike` has all codes of the tree in visits of their own."""
    frames = finer(tangled())
    assert CODES_HELD.sensitivity == math.sqrt(6)
    start, every = pd.Timestamp("2021-01-01"), TREE["categories"]
    more = {"visit_id": [f"many {at}" for at in range(len(every))], "person_id": "alike", "start": start}
    frames["visit"] = pd.concat([frames["visit"], pd.DataFrame({**more, "ward": "a", "no_show": False})])
    some = pd.DataFrame({"visit_id": more["visit_id"], "code": every})
    frames["diagnosis"] = pd.concat([frames["diagnosis"], some], ignore_index=True)
    people = [name for name in dict.fromkeys(frames["person"]["person_id"].dropna()) if name]
    whole = counted(frames)
    moved = {name: CODES_HELD.movement(whole, counted(without(frames, name))) for name in people}
    assert max(moved.values()) <= CODES_HELD.sensitivity
    assert moved["alike"] > (1 - 1e-5) * CODES_HELD.sensitivity
    assert min(moved.values()) == 0.0, "who has no code adds nothing"


@pytest.mark.parametrize("most", [1, 3])
def test_a_person_s_codes_count_once_each_and_are_no_longer_than_the_sensitivity(most):
    """Every set of up to so many visits' codes, by a plain loop over the nodes above them."""
    tree = Tree(prefix=(1, 2), codes=("a0x", "a0y", "a1x", "b0x", "b1y"))
    question, nodes = Domain("code", 1.0, 0.0, 2 * 3, tree, 2), tree.nodes
    rng, found = np.random.default_rng(1), [np.zeros(len(nodes))]
    for _ in range(300):
        held = rng.choice([*tree.codes, "zz", None], (most, 2))
        frame = pd.DataFrame({"code 1": held[:, 0], "code 2": held[:, 1]}, dtype=object)
        made = Records(1, np.zeros(most, np.int64), frame, None, most, np.zeros(1, np.uint64))
        found.append(question.bounded(made))
        reached = {node for code in held.ravel() if code is not None for node in tree.chain(code) if node in nodes}
        vector = np.array([node in reached for node in nodes], float)
        length = np.linalg.norm(vector)
        expected = vector * min(1.0, math.sqrt(6) / length) if length else vector
        np.testing.assert_allclose(found[-1], expected, rtol=5e-6)
        assert np.linalg.norm(found[-1]) <= question.sensitivity
    apart = [question.movement(one, other) for one, other in pairwise(found)]
    assert max(apart) <= 2 * question.sensitivity, "also where one takes another's place"
    longest = max(np.linalg.norm(each) for each in found)
    assert longest > 0.99 * question.sensitivity or most == 1


def test_what_a_person_adds_to_the_counts_of_a_tree_is_told_by_their_own_rows_alone():
    frames = finer(tangled())
    weights = 1 / 2**20
    visit = frames["visit"].assign(lot=frames["visit"]["person_id"].map(lambda name: zlib.crc32(str(name).encode())))
    visit = visit.sort_values("lot", kind="stable").drop(columns="lot")  # each one's own visits stay in their order
    others = {table: frames[table].sample(frac=1, random_state=5) for table in ("person", "diagnosis")}
    everybody = counted({"visit": visit, **others}) / weights
    for name in ("alike", "P0000", "P0003", "P0011"):
        visits = frames["visit"][frames["visit"]["person_id"] == name]
        own = {
            "person": frames["person"][frames["person"]["person_id"] == name],
            "visit": visits,
            "diagnosis": frames["diagnosis"][frames["diagnosis"]["visit_id"].isin(visits["visit_id"].dropna())],
        }
        rest = counted(without(frames, name)) / weights
        np.testing.assert_array_equal(np.rint(everybody) - np.rint(rest), np.rint(counted(own) / weights))
        np.testing.assert_allclose(everybody, np.rint(everybody), rtol=1e-12)


def test_rows_of_one_code_share_a_weight_and_their_columns_are_those_of_a_plain_loop():
    """Three visits of a person with two, none and three rows; dates are gaps to the visit, and a value knows what it was before."""
    person = clinic(1)["person"].assign(death=pd.NaT)
    days = pd.to_datetime(["2021-01-01", "2021-02-01", "2021-03-01"])
    visit = pd.DataFrame(
        {"visit_id": ["u", "v", "w"], "person_id": "P0000", "start": days, "ward": "a", "no_show": False}
    )
    lab = pd.DataFrame(
        [
            ("w", "Hb", 50.0, days[2], True),
            ("u", "K", 5.0, days[0] + pd.Timedelta(3, "D"), False),
            ("u", "CRP", 85.0, days[0], True),
            ("w", "CRP", None, days[2], True),
            ("w", "CRP", 90.0, days[2] + pd.Timedelta(1, "D"), False),
        ],
        columns=["visit_id", "test", "value", "taken", "urgent"],
    )
    diagnosis = pd.DataFrame({"visit_id": ["w"], "code": ["I10"]})
    records = sealed({"person": person, "visit": visit, "diagnosis": diagnosis, "lab": lab}, of=LABS)
    cells, below = records.histories.cells, OF_LABS.below[1]
    assert cells["lab rows"].tolist() == [2, 0, 3]
    assert cells["lab.test"].tolist() == [[2, 0, -1], [3, -1, -1], [1, 0, 0]], "in the order of their hashes"
    assert cells["previous lab.test"].tolist() == [[3, -1, -1], [2, 0, -1], [3, -1, -1]]
    names = (*below.columns, "lab row", "lab last", "previous lab.value", "visit.ward")
    rows, record = below.rows(cells, OF_LABS.sizes, names)
    assert record.tolist() == [0, 0, 2, 2, 2]
    assert rows["lab row"].tolist() == [0, 1, 0, 1, 2]
    assert rows["lab last"].tolist() == [3, 2, 3, 1, 0]
    assert rows["lab.taken"].tolist() in ([3, 0, 0, 0, 1], [3, 0, 0, 1, 0])
    assert sorted(rows["lab.value"].tolist()) == [0, 2, 4, 4, 5]
    assert rows["previous lab.value"].tolist() == [6] * 5, "the visit before the third has none"
    cliques = (("lab.test",), ("diagnosis.code", "lab.test"), ("visit.ward", "lab.urgent"))
    table, pair, other = HistoryTables(OF_LABS, cliques, 1.0, 2.0, "lab").bounded(records)
    by_code = np.floor(2 / math.sqrt(3**2 + 1 + 1) * 2**20) / 2**20  # three rows of one test and one each of two others
    np.testing.assert_array_equal(table, by_code * np.array([3, 1, 1, 0]))
    np.testing.assert_array_equal(pair.sum(0), table)
    np.testing.assert_array_equal(other.sum(0)[:2], np.floor(2 / 5 * 2**20) / 2**20 * np.array([2, 3]))
    third = np.floor(2 / 3 * 2**20)
    expected = np.array([third // 2 + 2 * (third // 3), third // 3, third // 2, 0]) / 2**20
    (visits,) = HistoryTables(OF_LABS, (("lab.test", "visit.no_show"),), 1.0, 2.0).bounded(records)
    np.testing.assert_array_equal(visits.sum(1), expected + np.array([0, 0, 0, third]) / 2**20)


@EACH
def test_a_row_of_an_undeclared_code_is_none_and_leaves_no_gap(question):
    """As under `invalid=clamp`: the rows beside it are what they are without it."""
    frames = labs(clinic(40, seed=1), seed=1)
    visits = frames["visit"]["visit_id"].head(3)
    some = [("CRP", 85.0), ("D, not declared", 4.0), ("Hb", 50.0)]  # in this order among a visit's rows
    rows = [(visit, code, value, pd.Timestamp("2023-01-01"), True) for visit in visits for code, value in some]
    lab = pd.DataFrame(rows, columns=["visit_id", "test", "value", "taken", "urgent"])
    with_it = question.bounded(sealed({**frames, "lab": lab}, of=LABS))
    declared = lab[lab["test"] != "D, not declared"].reset_index(drop=True)
    for one, other in zip(with_it, question.bounded(sealed({**frames, "lab": declared}, of=LABS)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_a_value_was_before_is_told_by_the_row_of_its_code():
    frames = labs(clinic(40, seed=1), seed=1)
    histories = sealed(frames, of=LABS).histories
    rows, record = LAB_ROWS.rows(histories.cells, OF_LABS.sizes, ("lab.test", "previous lab.value"))
    for place, visit in enumerate(record):
        codes = histories.cells["previous lab.test"][visit].tolist()
        code = rows["lab.test"][place]
        held = histories.cells["previous lab.value"][visit][codes.index(code)] if code in codes else 6
        assert rows["previous lab.value"][place] == held


def test_a_level_is_told_by_the_numbers_of_its_code_and_what_was_before_by_the_last_record_with_it():
    """Four visits: K in the first, none in the second, CRP twice in the third, of which the first row tells, and K again in the last."""
    person = clinic(1)["person"].assign(death=pd.NaT)
    days = pd.to_datetime(["2021-01-01", "2021-02-01", "2021-03-01", "2021-04-01"])
    visit = {"visit_id": list("uvwx"), "person_id": "P0000", "start": days, "ward": "a", "no_show": False}
    rows = [
        ("u", "K", 30.0),
        ("u", "CRP", 90.0),
        ("w", "CRP", 70.0),
        ("w", "CRP", None),
        ("x", "K", 90.0),
        ("x", "CRP", 1.0),
    ]
    lab = pd.DataFrame(rows, columns=["visit_id", "test", "value"]).assign(taken=days[3], urgent=True)
    frames = {"person": person, "visit": pd.DataFrame(visit), "diagnosis": clinic(1)["diagnosis"].iloc[:0], "lab": lab}
    declared = with_labs(tables={"visit": {"max_rows": 4}}, rules=None).settled()
    view = View.of(Codec(declared))
    histories = sealed(frames, of=declared).histories
    starts = {name: np.array(each) for name, each in STARTS}
    found, record = view.below[1].rows(
        histories.cells, view.sizes, ("lab.test", "lab.value", LEVEL, BEFORE, "lab again"), starts, histories.owner
    )
    told = list(zip(record.tolist(), *(each.tolist() for each in found.values()), strict=True))
    assert (
        told
        == [  # visit, code, value, level, level at its last record, and whether that is the visit before, or this one has the code twice
            (0, 0, 4, 4, 6, 0),
            (0, 2, 1, 3, 6, 0),
            (2, 0, 3, 1, 4, 2),
            (2, 0, 5, 5, 4, 3),
            (3, 0, 0, 0, 1, 1),
            (3, 2, 4, 3, 3, 2),
        ]
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_last_level_of_a_code_is_that_of_a_plain_loop(seed):
    """Of records that count, whoever holds their rows, and of made-up rows in which codes come often."""
    rng, histories = np.random.default_rng(seed), sealed(both(), of=LABS).histories
    starts = {name: np.array(each) for name, each in STARTS}
    names = ("lab.test", LEVEL, BEFORE, "lab again")
    rows, record = LAB_ROWS.rows(histories.cells, OF_LABS.sizes, names, starts, histories.owner)
    none = LEVELS + 1
    looped = of_loop(histories.owner[record], record, rows["lab.test"])
    assert rows[BEFORE].tolist() == [none if at < 0 else rows[LEVEL][at] for at in looped]
    assert len(set(rows[BEFORE])) > 4
    again, seen = [], set()
    for here, code, at in zip(record, rows["lab.test"], looped, strict=True):
        again.append(3 if (here, code) in seen else 0 if at < 0 else 1 if record[at] == here - 1 else 2)
        seen.add((here, code))
    assert rows["lab again"].tolist() == again
    assert set(again) == {0, 1, 2, 3}
    count = rng.integers(0, 5, 60)
    record = np.repeat(np.arange(60), count)
    owner, code = np.sort(rng.integers(0, 9, 60))[record], rng.integers(0, 3, len(record))
    assert earlier(owner, record, code).tolist() == of_loop(owner, record, code)
    nothing = np.zeros(0, np.int64)
    assert earlier(nothing, nothing, nothing).tolist() == []


def of_loop(owner, record, code):
    """The place of the first row of each one's last record before this one that has the same code, or -1."""
    found = []
    for place in range(len(code)):
        before = [
            other
            for other in range(place)
            if owner[other] == owner[place] and record[other] < record[place] and code[other] == code[place]
        ]
        last = max((record[other] for other in before), default=-1)
        found.append(min((other for other in before if record[other] == last), default=-1))
    return found


@pytest.mark.parametrize(
    ("cliques", "rows", "levels", "said"),
    [
        (((LEVEL,),), "lab", (), "no column 'level of lab.value'"),
        (((BEFORE, "lab.test"),), "lab", (), "no column 'previous level of lab.value'"),
        (((LEVEL,),), "", STARTS, "whole numbers"),
        (((LEVEL,),), "diagnosis", STARTS, "whole numbers"),
        (((LEVEL,),), "lab", ((LEVEL, STARTS[0][1][:2]),), "whole numbers"),
        (((LEVEL,),), "lab", ((LEVEL, (*STARTS[0][1][:2], (0, 1))),), "whole numbers"),
        (((LEVEL,),), "lab", ((LEVEL, (*STARTS[0][1][:2], (0, 1, 2, 3, 4.5))),), "whole numbers"),
        (((LEVEL,),), "lab", ((LEVEL, (*STARTS[0][1][:2], (0, 1, 2, 3, "4"))),), "whole numbers"),
        ((("lab.test",),), "lab", (("level of lab.taken", STARTS[0][1]),), "whole numbers"),
        ((("lab.test",),), "lab", (("lab.value", STARTS[0][1]),), "whole numbers"),
        ((("lab again", "lab.test"),), "", (), "no column 'lab again'"),
        ((("lab row",),), "", (), "no column 'lab row'"),
        ((("lab last",),), "diagnosis", (), "no column 'lab last'"),
        ((("lab.test", "diagnosis.code"),), "", (), "several codes of a record"),
        ((("previous lab.test", "diagnosis.code"),), "lab", (), "several codes of a record"),
    ],
)
def test_what_cannot_be_counted_is_refused_before_a_charge(cliques, rows, levels, said):
    with pytest.raises(BadInput, match=said):
        HistoryTables(OF_LABS, cliques, 1.0, 2.0, rows, levels)


def test_a_shared_row_counts_for_each_holder_and_an_orphan_for_nobody():
    person = clinic(3)["person"]
    start = pd.Timestamp("2021-01-01")
    visit = pd.DataFrame(
        {
            "visit_id": ["v", "v", "w", "x"],
            "person_id": ["P0000", "P0001", "P0001", "P9999"],
            "start": start,
            "ward": "a",
            "no_show": False,
        }
    )
    diagnosis = pd.DataFrame({"visit_id": ["v", "v", "x", "none", None], "code": ["I10", "E11", "J45", "J45", "J45"]})
    found = joined({"person": person, "visit": visit, "diagnosis": diagnosis}, SCHEMA, KEY)
    assert found.there.tolist() == [True, True, True, False]
    assert found.frame["person_id"].tolist() == ["P0000", "P0001", "P0001", "P0002"]
    assert cells.texts(found.frame["diagnosis.code 1"]) == ["I10", "I10", None, None]
    assert cells.texts(found.frame["diagnosis.code 2"]) == ["E11", "E11", None, None]


def test_a_row_that_names_a_person_is_that_person_s_alone():
    own = schema(tables={"diagnosis": {"columns": {"person_id": {"kind": "identifier"}, "code": SCHEMA_OF_CODES}}})
    frames = clinic(2)
    start = pd.Timestamp("2021-01-01")
    frames["visit"] = pd.DataFrame(
        {"visit_id": ["v", "v"], "person_id": ["P0000", "P0001"], "start": start, "ward": "a", "no_show": False}
    )
    frames["diagnosis"] = pd.DataFrame(
        {"visit_id": ["v", "v"], "person_id": ["P0001", "P0007"], "code": ["I10", "E11"]}
    )
    assert cells.texts(joined(own.validate_tables(frames), own, KEY).frame["diagnosis.code 1"]) == [None, "I10"]


SCHEMA_OF_CODES = {"kind": "categorical", "categories": ["E11", "I10", "J45", "K21"]}


def test_which_rows_below_a_visit_count_is_told_by_content_and_key():
    """Of more than may count, not the first of the file; the same for the same key, wherever they stand."""
    person, start = clinic(1)["person"], pd.Timestamp("2021-01-01")
    visit = pd.DataFrame({"visit_id": ["v"], "person_id": ["P0000"], "start": start, "ward": "a", "no_show": False})
    codes = ["E11", "I10", "J45", "K21"]
    kept = set()
    for seed in range(30):
        found = []
        for order in (codes, codes[::-1]):
            frames = {"person": person, "visit": visit, "diagnosis": pd.DataFrame({"visit_id": "v", "code": order})}
            row = joined(frames, SCHEMA, bytes([seed]) * 32).frame.iloc[0]
            found.append((row["diagnosis.code 1"], row["diagnosis.code 2"]))
        assert found[0] == found[1]
        kept.add(found[0])
    assert len(kept) > 3


def test_neither_place_nor_neighbour_tells_of_a_code():
    """Each visit has the same two codes: each of them comes first at about half of the visits."""
    names = [f"v{each}" for each in range(400)]
    visit = {"visit_id": names, "person_id": "P0000", "start": pd.Timestamp("2021-01-01"), "ward": "a"}
    diagnosis = pd.DataFrame({"visit_id": np.repeat(names, 2), "code": ["E11", "I10"] * 400})
    frames = {"person": clinic(1)["person"], "visit": pd.DataFrame(visit).assign(no_show=False), "diagnosis": diagnosis}
    found = joined(frames, SCHEMA, KEY).frame
    first, second = (cells.texts(found[f"diagnosis.code {place}"]) for place in (1, 2))
    assert set(zip(first, second, strict=True)) == {("E11", "I10"), ("I10", "E11")}
    assert 160 < first.count("E11") < 240


def test_cells_that_read_alike_side_by_side_are_told_apart():
    """Which of a person's rows counts does not hang on their order, also where a cell has what stands between two cells."""
    learned = {"kind": "categorical", "categories": "learn"}
    of = schema(tables={"person": {"columns": {"one": learned, "two": learned}}}, rules=None)
    rows = pd.DataFrame({"person_id": "P1", "one": ["a,b", "a", "a/b", ""], "two": ["c", "b,c", "c", "a,b,c"]})
    visit, diagnosis = clinic(1)["visit"].iloc[:0], clinic(1)["diagnosis"].iloc[:0]
    for key in range(20):
        frames = [{"person": each, "visit": visit, "diagnosis": diagnosis} for each in (rows, rows[::-1])]
        one, other = (joined(each, of, bytes([key]) * 32).frame for each in frames)
        assert one[["person.one", "person.two"]].equals(other[["person.one", "person.two"]])


def test_people_without_visits_have_cells_of_their_own():
    frames = clinic(60, seed=2)
    held = frames["person"]["person_id"].map(frames["visit"]["person_id"].value_counts()).fillna(0)
    (table,) = HistoryTables(VIEW, (("number of records",),), 1.0).bounded(sealed(frames))
    np.testing.assert_array_equal(table, np.bincount(np.minimum(held, 4).astype(int), minlength=5))
    assert table[0] > 5
    nobody = {**frames, "visit": frames["visit"].iloc[:0], "diagnosis": frames["diagnosis"].iloc[:0]}
    records = sealed(nobody)
    assert len(records.histories.owner) == 0
    assert HistoryTables(VIEW, (("place",),), 1.0, 2.0).bounded(records)[0].sum() == 0


def test_the_columns_are_those_of_a_plain_loop():
    frames = clinic(30, seed=4)
    records = sealed(frames)
    cells, count = records.histories.cells, records.histories.count
    wards = {"a": 0, "b": 1}
    names = dict.fromkeys([*frames["visit"]["person_id"], *frames["person"]["person_id"]])
    for unit, name in enumerate(names):
        visits = frames["visit"][frames["visit"]["person_id"] == name].sort_values("start", ignore_index=True)
        rows = np.flatnonzero(records.histories.owner == unit)
        assert len(rows) == count[unit] == min(3, len(visits))
        if len(visits) > 4 or visits["start"].duplicated().any():
            continue  # places beyond the third share a code
        for step, row in enumerate(rows):
            place = int(cells["place"][rows[0]]) + step
            assert cells["place"][row] == min(place, 3)
            assert cells["number of records"][row] == min(4, len(visits))
            assert cells["visit.ward"][row] == wards[visits["ward"][place]]
            assert cells["previous visit.no_show"][row] == (visits["no_show"][place - 1] if place else 2)
            codes = frames["diagnosis"]["code"][frames["diagnosis"]["visit_id"] == visits["visit_id"][place]]
            if len(codes) < 3:
                held = sorted(SCHEMA_OF_CODES["categories"].index(code) for code in codes) or [4]
                found = cells["diagnosis.code"][row].tolist()
                assert [*sorted(found[: len(held)]), *found[len(held) :]] == held + [-1] * (2 - len(held))
                assert cells["diagnosis rows"][row] == len(codes)


def test_no_cell_is_read_otherwise_for_another_person_s_sake():
    """Whole numbers beyond 2^53 stay what they are, whether or not somebody has no visit."""
    codes = [str(2**60 + each) for each in range(3)]
    numbered = schema(
        tables={"visit": {"columns": {**DECLARED_VISIT, "ward": {"kind": "categorical", "categories": codes}}}}
    )
    frames = clinic(8, seed=5)
    frames["visit"]["ward"] = 2**60 + np.arange(len(frames["visit"])) % 3
    assert not set(frames["person"]["person_id"]) <= set(frames["visit"]["person_id"])
    found = sealed(frames, of=numbered)
    held = HistoryTables(found.histories.view, (("visit.ward",),), 1.0, 3.0).bounded(found)[0]
    some = frames["person"][frames["person"]["person_id"].isin(frames["visit"]["person_id"])]
    everybody = sealed({**frames, "person": some}, of=numbered)
    np.testing.assert_array_equal(
        HistoryTables(found.histories.view, (("visit.ward",),), 1.0, 3.0).bounded(everybody)[0], held
    )
    assert (held > 0).all()


DECLARED_VISIT = {
    "start": {"kind": "datetime", "bounds": ["2020-01-01", "2024-01-01"], "bins": 6},
    "no_show": {"kind": "boolean"},
}


def test_the_door_takes_linked_tables_and_says_what_they_are():
    data = Sensitive(clinic(50), SCHEMA, Account(Budget(math.inf, 1e-5), Ledger(), unit="person_id"), seed=2)
    data.commit(lambda _: (Entry(Gaussian(0.0)),))
    data.resolve()
    (table,) = data.ask(HistoryTables(View.of(data.codec), (("number of records",),), 0.0))
    assert table.sum() == 50


def test_several_tables_need_a_schema_that_links_them():
    from synthdp.testing.made_up import make_schema

    with pytest.raises(BadInput, match="need a schema with tables"):
        ordered({"one": pd.DataFrame({"a": [1]})}, make_schema(), KEY)


@pytest.mark.parametrize(
    "where", [("visit", "visit_id"), ("diagnosis", "visit_id"), ("visit", "ward"), ("person", "sex")]
)
def test_text_that_no_encoding_holds_refuses_nothing_under_clamp(where):
    """pandas takes an array of texts for one of Arrow's, which cannot hold half a character: then one cell decided."""
    table, column = where
    frames = {name: frame.astype(object) for name, frame in clinic(20).items()}
    frames[table].loc[0, column] = "\ud800"
    of = schema().settled()
    ordered(of.validate_tables(frames, "clamp"), of, KEY).encoded_by(Codec(of))


def test_half_a_character_is_no_other_key():
    """pandas takes it for its spelling in an array of nothing but text: two people were one, until one of them left."""
    half, spelled = "\ud800", repr("\ud800")
    frames = {name: frame.astype(object) for name, frame in clinic(20).items()}
    for name in frames:
        rows = frames[name].iloc[[0, 1, 0]].reset_index(drop=True)
        keys = [each for each in rows if each.endswith("_id")]
        rows = rows.assign(**{key: pd.Series([half, spelled, spelled], dtype=object) for key in keys})
        frames[name] = pd.concat([frames[name], rows], ignore_index=True)
    assert sealed(frames).units == 22
    for name in (half, spelled):
        rest = without(frames, name)
        assert sealed(rest).units == 21
        for question in KEYED:
            moved = question.movement(*(question.bounded(sealed(each)) for each in (frames, rest)))
            assert 0 < moved <= question.sensitivity


KEYED = (
    HistoryTables(VIEW, (("number of records",),), 1.0),
    HistoryTables(VIEW, (("place", "visit.no_show"), ("diagnosis.code",)), 1.0, 2.0),
)


def test_a_key_that_many_visits_and_many_rows_share_costs_their_sum():
    """Such as that of an unknown visit: 20,000 of each, whose pairs would not fit in memory."""
    people = [f"p{number}" for number in range(20_000)]
    born = pd.Timestamp("1950-01-01")
    frames = {
        "person": pd.DataFrame({"person_id": people, "sex": "F", "birth": born, "death": pd.NaT}),
        "visit": pd.DataFrame(
            {"visit_id": "0", "person_id": people, "start": pd.Timestamp("2021-01-01"), "ward": "a", "no_show": False}
        ),
        "diagnosis": pd.DataFrame({"visit_id": "0", "code": np.resize(["E11", "I10", "J45"], len(people))}),
    }
    found = joined(frames, schema().settled(), KEY).frame
    assert len(found) == len(people)
    assert set(found["diagnosis.code 1"]) == {found["diagnosis.code 1"][0]}, "the same rows, chosen once"


@pytest.mark.parametrize(("column", "bad"), [("taken", "2023-02-31"), ("urgent", "perhaps"), ("value", "a")])
def test_a_cell_of_a_file_that_cannot_be_read_chooses_nobody_else_s_rows(tmp_path, column, bad):
    """It leaves its column as text, and more rows than count below a visit are chosen by their content."""
    declared, frames = with_labs().settled(), labs(clinic(100, seed=1), seed=1)
    lab, who = frames["lab"], frames["visit"]["person_id"].iloc[0]
    many = pd.concat(
        [lab, lab.sample(frac=1, random_state=1).assign(test=lab["test"].to_numpy()), lab.assign(value=1.5)]
    )
    many = many.assign(urgent=many["urgent"].map({True: "yes", False: "no"}), value=many["value"].round(0))
    many = many.assign(taken=pd.to_datetime(many["taken"]).dt.strftime("%Y-%m-%d"), row=range(len(many)))
    odd = many.iloc[[0]].astype(object).assign(visit_id=frames["visit"]["visit_id"].iloc[0], **{column: bad})
    person = frames["person"].assign(birth=frames["person"]["birth"].astype(str))
    twice = pd.concat([person, person.assign(sex="F")], ignore_index=True)
    read = {}
    for name in ("with", "without"):
        held = {
            **frames,
            "lab": pd.concat([many.astype(object), odd]).drop(columns="row"),
            "person": twice.astype(object),
        }
        if column == "taken":
            held["person"].loc[held["person"]["person_id"] == who, "birth"] = bad
        held = held if name == "with" else without(held, who)
        (tmp_path / name).mkdir()
        for table, frame in held.items():
            frame.to_csv(tmp_path / name / f"{table}.csv", index=False)
        found = declared.validate_tables(record_files.read_tables(tmp_path / name, declared), "clamp")
        frame = joined(found, declared, b"k" * 32).frame
        codes = Codec(declared).encode(frame[frame["person_id"] != who].reset_index(drop=True))
        read[name] = codes
    assert (read["with"] == read["without"]).all()


@pytest.mark.parametrize(
    "kind",
    sweep(
        ["TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"],
        ["BIGINT", "UTINYINT"].__contains__,
    ),
)
def test_a_missing_key_makes_no_floats_of_whole_numbers_that_a_file_stores(tmp_path, kind):
    """As floats all keys were refused, or not, because of one person's row; everybody else's codes stay what they are."""
    frames = {name: frame.astype(object) for name, frame in clinic(12, seed=1).items()}
    for key, of in (("person_id", "person"), ("visit_id", "visit")):
        known = {name: number for number, name in enumerate(frames[of][key])}
        for name in frames:
            if key in frames[name]:
                frames[name] = frames[name].assign(**{key: frames[name][key].map(known)})
    person = frames["person"].iloc[[-1]].assign(person_id=100)
    visits = frames["visit"].iloc[[0, 0]].assign(person_id=[100, None], visit_id=[None, 100])
    lonely = {"person": person, "visit": visits, "diagnosis": pd.DataFrame({"visit_id": [None], "code": ["E11"]})}
    told = {}
    for who in ("alone", "beside"):
        made = {name: pd.concat([frame, lonely[name]]) if who == "beside" else frame for name, frame in frames.items()}
        with duckdb.connect(f"{tmp_path}/{who}.duckdb") as connection:
            (tmp_path / who).mkdir()
            for name, frame in made.items():
                held = pa.table({each: [None if pd.isna(cell) else cell for cell in frame[each]] for each in frame})
                columns = [f"{each}::{kind} AS {each}" if each.endswith("_id") else each for each in frame]
                connection.from_arrow(held).project(", ".join(columns)).create(name)
                connection.execute(f"COPY {name} TO '{tmp_path}/{who}/{name}.parquet'")
        address = database_url.address(f"duckdb:////{tmp_path}/{who}.duckdb#main")
        for read in (
            record_files.tables_from_database(address, SCHEMA),
            record_files.read_tables(tmp_path / who, SCHEMA),
        ):
            found = sealed(SCHEMA.validate_tables(read, "clamp"))
            told.setdefault(who, []).append(
                (dict(zip(found.keys[found.owner].tolist(), found.codes.tolist(), strict=True)), found.units)
            )
    for (one, units), (other, more) in zip(told["alone"], told["beside"], strict=True):
        assert more == units + 1
        assert one.items() <= other.items()


def test_clamping_does_below_visits_what_it_is_said_to_do():
    """As `CLAMPED_BELOW` has it, which the statement quotes."""
    test, value = {"kind": "categorical", "categories": ["CRP", "Hb"]}, {"kind": "integer", "bounds": [4, 9]}
    own = schema(
        tables={"lab": {"parent": "visit", "max_rows": 2, "columns": {"test": test, "value": value}}}
    ).settled()
    frames = clinic(20)
    keys = frames["visit"]["visit_id"][:6].tolist()
    tests = ["CRP", "CRP", "CRP", "CRP", "unheard of", None]
    values = [5, 44, "no number", None, 5, 5]
    frames["lab"] = pd.DataFrame({"visit_id": keys, "test": tests, "value": values}).astype(object)
    told = sealed(own.validate_tables(frames, "clamp"), of=own).histories
    missing = told.view.sizes["lab.value"] - 1
    found = told.cells["lab.value"][told.cells["lab rows"] > 0, 0]
    assert sorted(found.tolist()) == [1, 5, missing, missing]  # 5, the nearest bound, and none of both others
    assert told.cells["lab rows"].sum() == 4
    assert CLAMPED_BELOW in clamping(below=True)
    assert CLAMPED_BELOW not in clamping(below=False)


@pytest.mark.parametrize(("name", "rows"), [("gap", ""), ("lab.test", "lab")])
def test_kept_answers_are_not_given_where_rows_weigh_or_stand_otherwise(tmp_path, monkeypatch, name, rows):
    """The question is the same, bit for bit, and its deviation: the model would be fitted to something else than was counted. How rows
    stand also tells a person's records of one time apart."""
    of, budget, path = with_labs().settled(), Budget(9.0, 1e-5), tmp_path / "answers"
    question = HistoryTables(View.of(Codec(of)), ((name,),), 2.0, 1.0, rows)

    def begun(ledger, answers, noise=None):
        account = Account(budget, ledger, unit="person_id", noise=noise)
        data = Sensitive(labs(clinic(20)), of, account, answers=answers)
        data.commit(lambda _: (Entry(Gaussian(2.0), 2),))
        data.resolve()
        return data

    with monkeypatch.context() as older:
        older.setattr(HistoryTables, "meaning", 0)
        data = begun(ledger := Ledger(tmp_path / "ledger"), Answers(path))
        data.ask(question)
        ledger.close()
    ledger, answers = Ledger.resume(tmp_path / "ledger"), Answers(path)
    assert answers.load(ledger)
    data = begun(ledger, answers, noise=1.0)
    with pytest.raises(BadInput, match="HistoryTables differs in what it counts"):
        data.ask(question)
