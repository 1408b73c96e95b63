"""What an attack is, and what it is given: whose records are attacked, what the attacker has, and what is promised.

One record of each patient is attacked, so that the guarantee's unit and the attack's are the same.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.evaluate.attacks.bounds import REPLACE_ONE, Claim, difference
from synthdp.evaluate.attacks.distances import Points, points
from synthdp.evaluate.tables import Axis, Codes, Table

# Below so many rows of any kind a rate says nothing.
MIN_ROWS = 30
# Attacked records per side: an interval of +- 2 points. The synthetic rows are (nearly) all searched, or copies would be missed.
MOST_ATTACKED, MOST_REFERENCE, MOST_SYNTHETIC, MOST_REAL = 2_000, 10_000, 50_000, 20_000
# Without targets or sensitive columns, so many categorical columns have their values guessed.
MOST_SECRETS = 3
STREAM = 23

Count = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """value against baseline, what an attacker without the training records gets. better: `lower` and `chance` are a concern
    where the interval lies above the baseline, `higher` where it lies below."""

    label: str
    value: float
    interval: tuple[float, float]
    baseline: float
    bound: float | None = None
    better: Literal["lower", "higher", "chance"] = "lower"


@dataclass(frozen=True, kw_only=True)
class Found:
    """An attack's figures, whose intervals hold together at 95 %, and what was done and counted, in words."""

    figures: tuple[Figure, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack, which returns what it found or why it cannot be made, and what a page says of it: `source` is the paper."""

    title: str
    question: str
    source: str
    attack: "Callable[[Case], Found | str]"


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """The tables after subsampling by fixed streams.

    members: training rows; outsiders: as many held-out rows; reference: hold-out rows that are not attacked; train and test:
    equally many of both, for what looks at the release as a whole. All share the synthetic rows' axes.
    """

    synthetic: Table
    members: Table
    outsiders: Table
    reference: Table
    train: Table
    test: Table
    secrets: tuple[str, ...]
    claim: Claim | None
    jobs: int

    @cached_property
    def made(self) -> Points:
        return self.points(self.synthetic)

    def points(self, table: Table) -> Points:
        """The rows of a table with the case's axes, as points of its distance."""
        return points(table, self.synthetic)

    def gap(self, label: str, ours: Count, theirs: Count, error: float) -> Figure:
        """The rate of success on training records minus that on held-out ones; a count is (successes, trials)."""
        return Figure(
            label=label,
            value=ours[0] / ours[1] - theirs[0] / theirs[1],
            interval=difference(ours, theirs, error),
            baseline=0.0,
            bound=self.claim.advantage if self.claim else None,
        )


def stream(name: str) -> np.random.Generator:
    """A stream of an attack's own, the same in every run."""
    return np.random.default_rng((STREAM, zlib.crc32(name.encode())))


def refusal(synthetic: Table, train: Table, test: Table) -> str | None:
    """Why no attack can be made, or None."""
    if not train.axes:
        return "there is no column"
    least = (("synthetic", synthetic, MIN_ROWS), ("real training", train, MIN_ROWS), ("real test", test, 2 * MIN_ROWS))
    for role, table, rows in least:
        if table.rows < rows:
            return f"there are {table.rows} {role} rows; at least {rows} are needed"
    real = np.concatenate([train.values, test.values])
    if not any(len(np.unique(column)) > 1 for column in real.T):  # missing is one value
        return "no column varies among the real rows"
    return None


def case_of(
    synthetic: Table, train: Table, test: Table, *, secrets: Sequence[str], claim: Claim | None, jobs: int
) -> Case:
    """Draws who is attacked. The tables are such that `refusal` has nothing against them."""
    order, held = (stream(name).permutation(part.rows) for name, part in (("train", train), ("test", test)))
    attacked = min(train.rows, test.rows // 2, MOST_ATTACKED)
    both = min(train.rows, test.rows, MOST_REAL)
    return Case(
        synthetic=synthetic.take(np.sort(stream("synthetic").permutation(synthetic.rows)[:MOST_SYNTHETIC])),
        members=train.take(order[:attacked]),
        outsiders=test.take(held[:attacked]),
        reference=test.take(held[attacked:][:MOST_REFERENCE]),
        train=train.take(order[:both]),
        test=test.take(held[:both]),
        secrets=tuple(secrets),
        claim=claim,
        jobs=jobs,
    )


def secrets_of(axes: Sequence[Axis], targets: Sequence[str], sensitive: Sequence[str]) -> tuple[str, ...]:
    """Columns whose values are guessed: targets, then sensitive ones; else the first three with classes."""
    names = [axis.name for axis in axes]
    wanted = list(dict.fromkeys([*targets, *sensitive]))
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise BadInput(
            f"sensitive: {unknown[0]!r} is not a column that the attacks can read; name one of the schema's."
        )
    return tuple(wanted or [axis.name for axis in axes if axis.is_classes][:MOST_SECRETS])


# ---- Units: one record of each patient.


def one_per_unit(units: Codes, train: int, test: int) -> Codes:
    """Places among `train` training and `test` test records: one record of each unit, drawn at random, and no test record of a unit that
    also has training records. units: (rows,) for the training and for the test records, the same code for the same unit. An attack on
    these records is an attack on patients. Raises BadInput unless there is one code for each record."""
    own, other = units
    if (len(own), len(other)) != (train, test):
        raise BadInput("units: give one code for each real training row and one for each real test row.")
    keep, rest = _one_each(own, stream("units of train")), _one_each(other, stream("units of test"))
    return keep, rest[~np.isin(other[rest], own)]


def too_few(units: Codes | None, left: int, least: int) -> str | None:
    """Why those that are left of the test records cannot be attacked, where that is because of their patients."""
    if units is None or not len(units[1]) or left >= least or left == len(np.unique(units[1])):
        return None
    if left == 0:
        return (
            "every patient of the test records has training records too, so nobody is left whose records were not used; split the "
            "records by patient"
        )
    return (
        f"only {left} patients of the test records have no training records; at least {least} are needed: split the "
        "records by patient"
    )


def _one_each(units: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    order = rng.permutation(len(units))
    first = np.unique(units[order], return_index=True)[1]
    return np.asarray(np.sort(order[first]))


# ---- What an attack's figures mean, in the plain form of the report and in words that know what DP promises.
#
# An attack at chance passes: its interval covers the baseline. One above it is a concern, and whether the claim allows it is
# shown beside it: a guarantee does not promise that nothing leaks; it limits how much leaks.


NOT_BY_UNIT = (
    " Single records were attacked, not patients, because the schema does not tell whose they are. The bound holds for any one "
    "record, but where patients have several records the intervals are too narrow and an alarm may be false."
)
ALWAYS = "A pass proves nothing, since a stronger attack may exist; only the guarantee holds against all attacks."


def above(figure: Figure) -> bool:
    """Whether the attack does better than its baseline beyond the uncertainty."""
    low, high = figure.interval
    return high < figure.baseline if figure.better == "higher" else low > figure.baseline


def entry(
    name: str, attack: Attack, outcome: Found | str, claim: Claim | None, *, by_unit: bool
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """{"id", "title", "question", "verdict", "text", "figures", "source"} in plain types, and what was not computed. by_unit: whether one
    record of each patient was attacked."""
    lacking = []
    if isinstance(outcome, str):
        told: dict[str, Any] = {"verdict": "not computed", "text": f"{outcome}.", "figures": []}
        lacking.append({"metric": f"attacks.{name}", "reason": outcome})
    else:
        note = NOT_BY_UNIT if claim is not None and claim.unit != "record" and not by_unit else ""
        over = [figure for figure in outcome.figures if above(figure)]
        words = _concern(over, claim) if over else _pass(outcome.figures)
        told = {
            "verdict": "concern" if over else "pass",
            "text": f"{words} {outcome.text}{note}",
            "figures": [_plain(figure) for figure in outcome.figures],
        }
    return {"id": name, "title": attack.title, "question": attack.question, **told, "source": attack.source}, lacking


def _pass(figures: Sequence[Figure]) -> str:
    below = any(figure.better != "higher" and figure.interval[1] < figure.baseline for figure in figures)
    words = f"At chance: {'the 95 % interval covers' if len(figures) == 1 else 'all intervals (95 % together) cover'} "
    if below:
        words = (
            "No better than chance, and in part worse (check that the held-out rows were drawn at random). Not above "
        )
    return f"{words}the value for records that were never used. {ALWAYS}"


def _concern(over: Sequence[Figure], claim: Claim | None) -> str:
    labels = ", ".join(figure.label for figure in over)
    words = (
        f"Above chance ({labels}): either the release reveals more about the records that were used than about others, or the "
        "held-out rows were not drawn like the training rows."
    )
    if claim is None:
        return f"{words} There is no guarantee that would limit it."
    beyond = [figure for figure in over if figure.bound is not None and figure.interval[0] > figure.bound]
    relation = " under replace_one" if claim.relation == REPLACE_ONE else ""
    promise = f"(epsilon {claim.epsilon:g}, delta {claim.delta:g}) per {claim.unit}{relation}"
    if beyond:
        return (
            f"{words} It is also more than {promise} allows: either the claim is false, or training and held-out rows differ. Do "
            "not release before this is explained."
        )
    return f"{words} It is within what {promise} allows; a smaller epsilon would allow less."


def _plain(figure: Figure) -> dict[str, Any]:
    return {
        "label": figure.label,
        "value": float(figure.value),
        "interval": [float(end) for end in figure.interval],
        "baseline": float(figure.baseline),
        "bound": None if figure.bound is None else float(figure.bound),
        "better": figure.better,
    }
