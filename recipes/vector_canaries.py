"""White-box audits of vector questions, by canaries that each have a coordinate of their own (Nasr et al. 2021 and 2023, arXiv
2101.04535 and 2302.07956).

The adversary chooses records and questions and sees every noisy answer. A canary is a unit whose vector lies far beyond the clip,
along a direction that no other unit touches. Along it each answer is x = b m + noise: b is the coin of the sample, m the most that a
unit adds, here 1.

The canaries of one sealed table are independent replicas of one attack, so that a thousand samples cost one fit. The door bounds
every unit by itself, tosses a coin for every unit by itself, and adds independent noise to every coordinate. What the answers say about
one canary therefore depends on its own records, coins and noise alone. Its neighbouring pair is the table of all the others without
this canary, and with it.
"""

import dataclasses
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor, nn
from white_box import Noisy, side_by_side

from synthdp import accounting
from synthdp.audit.one_run import OneRun, verdict
from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Capped, Entry, Plan, Relation, Sampled, Selection, merged, scoped
from synthdp.ledger.ledger import Ledger
from synthdp.schema.codec import Codec
from synthdp.schema.history_view import View
from synthdp.schema.schema import Schema
from synthdp.seal import Gradient, GroupMoments, GroupSums, HistoryTables, Marginals, PerGroup, Sensitive, layout
from synthdp.seal.best_of import Terms
from synthdp.seal.charging import Account
from synthdp.seal.gradients.question import Together
from synthdp.seal.resume import Answers, Checkpoint
from synthdp.seal.vectors import Group, Joint, Scaled, Sums

CLIP = 0.5
FAR = 1e3  # norm of a canary's vector before the clip
TOGETHER = 1000  # canaries of one sealed table
DELTA = 1e-5  # of budgets without a bound: the plan is given, not its price
UNIT, ORDER = "patient", "turn"
MARKS = 2  # rows below a visit that count, where several visits do
SPARE = 2  # records that a unit has beyond those that count
SUPPOSED = ("nothing", "coins", "noise")
STOP = 1  # step of a loop at which a fit is stopped
LEAST = 1e-12  # noise that evidence is divided by
ONE = 0.05  # how far from 1 a difference may lie that a unit alone is to explain

Codes = NDArray[Any]
Array = NDArray[np.float64]
Places = NDArray[np.int64]
Coins = NDArray[np.bool_]
Said = tuple[Array, float, int]  # of each canary, at which noise, at which place of its loop


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of question of so many canaries, and how its answer is read: one number for each canary, (canaries,), which the canary
    moves by 1 and the noise by `noise`. Where a canary is replaced by its opposite the numbers are `reach` and -`reach`.
    `ordered`: of histories, where records have an order; `linked`: of linked tables, where each record also has rows below it."""

    ask: Callable[["Vectors", int, float], Any]
    read: Callable[["Vectors", Any], Array]
    reach: float = 1.0
    ordered: bool = False
    linked: bool = False


@dataclass(frozen=True, kw_only=True)
class Vectors(Noisy):
    """One question, `steps` times in each of `phases` loops, `alone` times before the first of them; of a Poisson sample of `rate`, or
    of all units where that is 1.

    With `records` above 1 a unit holds several, and more than count. Under replace_one the pair differs in one canary that is replaced
    by its opposite. The fit is stopped `stopped` times, in its last loop or under its cap, each time after an answer that it did not keep,
    and resumed. `capped`: all of it is asked under a cap, and the first answer says at which noise the rest is asked. `selected`: the
    answer is that of one of several runs, so many on average. `supposed` says what the adversary hopes was drawn twice: the coins, or
    the noise, of answers at the same place of their loops.
    """

    noise: float
    question: str = "gradient"
    rate: float = 1.0
    steps: int = 1
    phases: int = 1
    alone: int = 0
    records: int = 1
    relation: Relation = "add_remove"
    stopped: int = 0
    capped: bool = False
    selected: float = 0.0
    supposed: str = "nothing"

    def __post_init__(self) -> None:
        if self.question not in KINDS or self.supposed not in SUPPOSED:
            raise BadInput(f"question must be one of {', '.join(KINDS)}, and supposed one of {', '.join(SUPPOSED)}")
        if self._looped and (self.capped or self.selected):
            raise BadInput("under a cap, or in a selection, questions are asked of all units and outside loops")
        if self.capped and self.alone + self.phases * self.steps < 2:
            raise BadInput("under a cap there is a first question and a second part: steps must be 2 or more")
        if self.selected and (self.capped or self.steps > 1):
            raise BadInput("a run of a selection asks once and not under a cap")

    @property
    def name(self) -> str:
        """The question, its noise, and what is not at its default."""
        rest = [field for field in dataclasses.fields(self) if field.name not in ("question", "noise")]
        given = {field.name: getattr(self, field.name) for field in rest if getattr(self, field.name) != field.default}
        words = [key if value is True else f"{key} {value}" for key, value in given.items()]
        return ", ".join([self.question, f"noise {self.noise:g}", *words])

    @property
    def plan(self) -> Plan:
        """What one canary is charged for, said for its relation."""
        events = tuple(self._kind.ask(self, 1, self.noise).events)
        count = self.alone + self.phases * self.steps
        if self.capped:
            plan: Plan = (Entry(Capped("gaussian", self._distance * math.sqrt(count) / self.noise)),)
        elif self.selected:
            plan = (Entry(Selection(self.selected, 1.0, (merged(Entry(event) for event in events),))),)
        elif self._looped:
            plan = (Entry(Sampled(self.rate, events), count),)
        else:
            plan = merged(Entry(event, count) for event in events)
        return scoped(plan, relation=self.relation, unit=UNIT if self.records > 1 or self._kind.ordered else RECORD)

    def sides(self, runs: int) -> tuple[Array, Array]:
        """Evidence of `runs` canaries that were out (or opposite), and of as many that were in."""
        return side_by_side(lambda inside: self.evidence(*self.answers(inside)), runs, TOGETHER // 2)

    def answers(self, inside: Coins) -> tuple[Array, Array, Places]:
        """What was said of each canary, (answers, canaries), at which noise, (answers,), at which place of its loop, (answers,)."""
        table = _Table(self, inside)
        if self.capped:
            rows = self._under_cap(table)
        elif self.selected:
            rows = [self._chosen(table)]
        elif self.stopped:
            rows = self._resumed(table)
        else:
            rows = self._asked(table, table.sealed(Ledger()))
        values, noises, places = zip(*rows, strict=True)
        return np.stack(values), np.array(noises), np.array(places)

    def evidence(self, values: Array, noises: Array, places: Places) -> Array:
        """A score for each canary, (canaries,), higher for "in": the log-likelihood ratio under what is supposed, which is the best test
        there is (Neyman & Pearson). Coins that repeat are held as likely as coins that do not, since a test for the first alone is
        blind to too little noise. Where noise is supposed to repeat, how many differences are just what a unit adds."""
        if self.supposed == "noise":
            apart = [np.abs(np.diff(values[places == place], axis=0)) for place in np.unique(places)]
            same: Array = (np.abs(np.concatenate(apart) - 1) < ONE).sum(axis=0).astype(np.float64)
            return same
        here, there = (self._kind.reach, -self._kind.reach) if self.relation == "replace_one" else (1.0, 0.0)
        squares = np.square(np.maximum(noises, LEAST))[:, None]
        one, other = ((mean * values - mean**2 / 2) / squares for mean in (here, there))
        if self.rate == 1:
            total: Array = (one - other).sum(axis=0)
            return total
        if self.supposed == "coins":
            one, other = (self._either(ratios, places) for ratios in (one, other))
        else:
            one, other = self._mixed(one), self._mixed(other)
        found: Array = one - other
        return found

    def _either(self, ratios: Array, places: Places) -> Array:
        """Half of the odds that each answer has coins of its own, half that those at one place of their loops share them."""
        shared = np.stack([ratios[places == place].sum(axis=0) for place in np.unique(places)])
        mixed: Array = np.logaddexp(self._mixed(ratios), self._mixed(shared)) - math.log(2)
        return mixed

    def _mixed(self, ratios: Array) -> Array:
        """Log-likelihood ratios to samples without the canary, (canaries,), of samples that each hold it with probability `rate`."""
        mixed: Array = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + ratios).sum(axis=0)
        return mixed

    def _asked(self, table: "_Table", data: Sensitive, *, stop: bool = False) -> list[Said]:
        """All questions; with `stop` those up to `STOP` of the last loop."""
        if not self._looped:
            return [table.said(data.ask(table.question(self.noise)), self.noise, step) for step in range(self.steps)]
        (entry,) = self.plan
        found = [] if data.restored() is not None else [table.sampled(data, step) for step in range(self.alone)]
        for phase in range(1, self.phases + 1):
            for step in data.steps(entry.event, self.steps, dict):
                found.append(table.sampled(data, step))
                if stop and phase == self.phases and step == STOP:
                    return found
        return found

    def _resumed(self, table: "_Table") -> list[Said]:
        """All that was said, lost answers too."""
        found: list[Said] = []
        with tempfile.TemporaryDirectory() as folder:
            path, checkpoint = Path(folder, "ledger"), Checkpoint(Path(folder, "checkpoint"), {})
            for left in range(self.stopped, -1, -1):
                ledger = Ledger.resume(path) if path.exists() else Ledger(path)
                found += self._asked(table, table.sealed(ledger, checkpoint), stop=left > 0)
                ledger.close()
        return found

    def _under_cap(self, table: "_Table") -> list[Said]:
        """All that was said, lost answers too; what a resumed fit is given again was said before."""
        found: list[Said] = []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "ledger")
            for left in range(self.stopped, -1, -1):
                ledger = Ledger.resume(path) if path.exists() else Ledger(path)
                answers = _OnlyTheFirst(Path(folder, "answers"))
                answers.load(ledger)
                first, *rest = self._capped(table, table.sealed(ledger, answers=answers), stop=left > 0)
                found += rest if found and np.array_equal(first[0], found[0][0]) else [first, *rest]
                ledger.close()
        return found

    def _capped(self, table: "_Table", data: Sensitive, *, stop: bool) -> list[Said]:
        """One question, then all that the cap leaves, at once or in four parts: the last digits of the first answer decide. With `stop`
        one more question alone, at half of what is left."""
        (entry,) = self.plan
        with data.cap(cast("Capped", entry.event)) as safe:
            first = table.said(safe.ask(table.question(self.noise)), self.noise, 0)
            parts = 1 if float(first[0].sum()) % 1 < 0.5 else 4
            asked, of = (1, 2) if stop else (parts, parts)
            noise = self._distance * math.sqrt(of / safe.left)
            rest = [table.said(safe.ask(table.question(noise)), noise, 1 + part) for part in range(asked)]
        return [first, *rest]

    def _chosen(self, table: "_Table") -> Said:
        """That of the first run, since all have the same score; the others stay hidden."""
        event = cast("Selection", self.plan[0].event)
        (run,), terms = event.candidates, Terms(noise=0.0, score=(), budget=table.budget)

        def asked(place: int, door: Sensitive) -> tuple[Said, float]:  # noqa: ARG001
            door.commit(lambda _: run)
            return table.said(door.ask(table.question(self.noise)), self.noise, 0), 0.0

        return table.sealed(Ledger()).select(event, [terms], asked)

    @property
    def _kind(self) -> Kind:
        return KINDS[self.question]

    @property
    def _looped(self) -> bool:
        return self.rate < 1 or self.phases > 1 or self.alone > 0 or (self.stopped > 0 and not self.capped)

    @property
    def _distance(self) -> float:
        """Of the means of a pair's answers, in units of what one unit adds."""
        return 2.0 if self.relation == "replace_one" else 1.0


class _OnlyTheFirst(Answers):
    """Keeps the first answer of a fit, and loses the others: the fit was stopped before they were kept."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._full = path.exists()

    def keep(self, ledger: Ledger, line: int | None, *arguments: Any) -> None:
        """The first, as ever."""
        if not self._full:
            super().keep(ledger, line, *arguments)
        elif line is None:
            ledger.asking()
        self._full = True


class _Table:
    """Canaries of which some are in (or as they are, the others replaced by their opposite), and one unit that no question is about."""

    def __init__(self, attack: Vectors, inside: Coins) -> None:
        self.attack, self.canaries = attack, len(inside)
        there = np.arange(len(inside)) if attack.relation == "replace_one" else np.flatnonzero(inside)
        names = [*(f"c{place}" for place in there), "nobody"]
        self.budget = Budget(math.inf, DELTA, attack.relation)
        if KINDS[attack.question].linked:
            self.schema = _linked_schema(len(inside), attack.records)
            self.frame: pd.DataFrame | dict[str, pd.DataFrame] = _linked(names, [*inside[there], True], attack.records)
            return
        frame = pd.DataFrame({"who": names, "twin": names, "sign": [*inside[there], True]})
        ordered = KINDS[attack.question].ordered
        if attack.records > 1 or ordered:
            frame[UNIT] = names
        if attack.records > 1:
            frame = pd.concat([frame] * (attack.records + SPARE), ignore_index=True)
        if ordered:
            frame[ORDER] = 0
        self.frame, self.schema = frame, _schema(len(inside), attack.records, ordered)

    def sealed(self, ledger: Ledger, checkpoint: Checkpoint | None = None, answers: Answers | None = None) -> Sensitive:
        """The records behind the door, the plan committed; a fit goes on from the checkpoint that its ledger says was kept, and from
        its answers."""
        kept = checkpoint.load(ledger) if checkpoint is not None and ledger.kept else None
        account = Account(self.budget, ledger, unit=self.schema.unit or RECORD, noise=0.0 if ledger.lines else None)
        data = Sensitive(self.frame, self.schema, account, checkpoint=checkpoint, resumed=kept, answers=answers)
        data.commit(lambda _: self.attack.plan)
        data.resolve()
        return data

    def question(self, noise: float) -> Any:
        """The attack's, at this noise."""
        return KINDS[self.attack.question].ask(self.attack, self.canaries, noise)

    def sampled(self, data: Sensitive, step: int) -> Said:
        """The question asked of a sample."""
        with data.sample(self.attack.rate) as batch:
            return self.said(batch.ask(self.question(self.attack.noise)), self.attack.noise, step)

    def said(self, answer: Any, noise: float, step: int) -> Said:
        """The answer as it is read."""
        return KINDS[self.attack.question].read(self.attack, answer), noise, step


def audit_in_one_run(
    attack: Vectors,
    canaries: int,
    delta: float,
    *,
    error: float = 0.05,
    gate_error: float = 1e-3,
    drawn: Vectors | None = None,
) -> OneRun:
    """Every canary has a coordinate of its own, and all are guessed in one run. With `drawn`, it is run in place of the attack."""
    included = np.random.default_rng().random(canaries) < 0.5
    run = drawn or attack
    scores = run.evidence(*run.answers(included))
    claimed = accounting.best(attack.plan, delta)[1]
    return verdict(scores, included, claimed, delta, error=error, gate_error=gate_error)


@lru_cache(maxsize=8)
def _schema(canaries: int, records: int, ordered: bool) -> Schema:
    names = [*(f"c{place}" for place in range(canaries)), "nobody"]
    columns: dict[str, Any] = {name: {"kind": "categorical", "categories": names} for name in ("who", "twin")}
    columns["sign"] = {"kind": "boolean"}
    declared: dict[str, Any] = {"units": canaries, "columns": columns}
    if records > 1 or ordered:
        columns[UNIT] = {"kind": "identifier"}
        declared |= {"unit": UNIT, "max_records_per_unit": records}
    if ordered:
        columns[ORDER] = {"kind": "integer", "bounds": [0, 1]}
        declared |= {"order": ORDER}
    return Schema.from_dict(declared)


@lru_cache(maxsize=8)
def _linked_schema(canaries: int, records: int) -> Schema:
    """People whose visits have a sign, and below each visit rows that say whose they are."""
    who = {"kind": "categorical", "categories": [*(f"c{place}" for place in range(canaries)), "nobody"]}
    visit = {ORDER: {"kind": "integer", "bounds": [0, 1]}, "sign": {"kind": "boolean"}}
    tables = {
        "person": {"key": UNIT, "columns": {"twin": who}},
        "visit": {"parent": "person", "key": "visit_id", "order": ORDER, "max_rows": records, "columns": visit},
        "mark": {"parent": "visit", "max_rows": min(records, MARKS), "columns": {"who": who}},
    }
    return Schema.from_dict({"unit": UNIT, "units": canaries, "tables": tables})


def _linked(names: list[str], signs: list[bool], records: int) -> dict[str, pd.DataFrame]:
    """Where several visits count, everybody has more, and each visit more rows than count below it."""
    several, marks = (records + SPARE, MARKS + 1) if records > 1 else (1, 1)
    whose, sign = np.repeat(names, several), np.repeat(signs, several)
    keys = np.array([f"v{place}" for place in range(len(whose))])
    return {
        "person": pd.DataFrame({UNIT: names, "twin": names}),
        "visit": pd.DataFrame({"visit_id": keys, UNIT: whose, ORDER: 0, "sign": sign}),
        "mark": pd.DataFrame({"visit_id": np.repeat(keys, marks), "who": np.repeat(whose, marks)}),
    }


def _towards(codes: Codes, canaries: int) -> Array:
    """(records, canaries): `FAR` along the own direction of each record, or against it; nobody has none."""
    found = np.zeros((len(codes), canaries + 1))
    found[np.arange(len(codes)), codes[:, 0]] = np.where(codes[:, 2] == 1, FAR, -FAR)
    return found[:, :-1]


def _loss(module: nn.Module, codes: Tensor) -> Tensor:
    """The product of each layer's weights with `_towards`, whose gradient that is."""
    width = next(module.parameters()).shape[1]
    own = nn.functional.one_hot(codes[:, 0].long(), width + 1)[:, :-1].float()
    values: Tensor = module(FAR * own * (2 * codes[:, 2:3].float() - 1))
    return values.squeeze(1)


def _gradient(attack: Vectors, canaries: int, noise: float) -> Gradient:  # noqa: ARG001
    return Gradient(nn.Linear(canaries, 1, bias=False), _loss, CLIP, noise)


def _of_gradient(attack: Vectors, answer: Any) -> Array:  # noqa: ARG001
    found: Array = answer["weight"].reshape(-1).double().numpy() / CLIP
    return found


class _Two(nn.Module):
    """Two linear layers side by side, each a group of parameters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.other = (nn.Linear(width, 1, bias=False) for _ in PARTS)

    def forward(self, rows: Tensor) -> Tensor:
        found: Tensor = self.one(rows) + self.other(rows)
        return found


def _in_groups(attack: Vectors, canaries: int, noise: float) -> Gradient:
    """In buckets of float32 where units hold one record; two groups of different clips, with noise of their own."""
    rule = PerGroup(groups=(("one",), ("other",)), shares=PARTS, noise=PARTS)
    return Gradient(_Two(canaries), _loss, CLIP, noise, rule, expected=attack.rate * canaries)


def _of_groups(attack: Vectors, answer: Any) -> Array:  # noqa: ARG001
    """Both groups' share of the evidence: z_g^-2 of z^-2, in units of their clips."""
    layer = layout(PerGroup(groups=(("one",), ("other",)), shares=PARTS, noise=PARTS), dict.fromkeys(answer, 1))
    found: Array = sum(
        answer[name].reshape(-1).double().numpy() * layer.bounds[place] / layer.scales[place] ** 2
        for name, place in layer.places.items()
    )
    return found / CLIP


def _sums(attack: Vectors, canaries: int, noise: float) -> Sums:  # noqa: ARG001
    """Two groups of different clips, together as precise as one question of `noise`."""
    each = noise * math.sqrt(len(PARTS))
    return Sums(tuple(Group(lambda codes: _towards(codes, canaries), canaries, CLIP * part, each) for part in PARTS))


def _of_sums(attack: Vectors, answer: Any) -> Array:  # noqa: ARG001
    found: Array = np.mean([values / (CLIP * part) for values, part in zip(answer, PARTS, strict=True)], axis=0)
    return found


def _joint(attack: Vectors, canaries: int, noise: float) -> Joint:  # noqa: ARG001
    """Two groups of different alphas, clipped as one vector: a canary's is their inverses, over the norm of these."""
    groups = tuple(Scaled(lambda codes: _towards(codes, canaries), canaries, alpha=part) for part in PARTS)
    return Joint(groups, CLIP, noise)


def _of_joint(attack: Vectors, answer: Any) -> Array:  # noqa: ARG001
    norm = math.hypot(*(1 / part for part in PARTS))
    found: Array = sum(values / (part**2 * norm) for values, part in zip(answer, PARTS, strict=True)) / CLIP
    return found


def _together(attack: Vectors, canaries: int, noise: float) -> Together:
    """A gradient and a sum of one sample, together as precise as one question of `noise`."""
    each = noise * math.sqrt(2)
    group = Group(lambda codes: _towards(codes, canaries), canaries, CLIP, each)
    return Together((_gradient(attack, canaries, each), Sums((group,))))


def _of_together(attack: Vectors, answer: Any) -> Array:
    found: Array = (_of_gradient(attack, answer[0]) + answer[1][0] / CLIP) / 2
    return found


def _tables(attack: Vectors, canaries: int, noise: float) -> Marginals:
    """Two tables; in each, a canary has a cell of its own, and another for its opposite."""
    return Marginals(((0, 2), (1, 2)), (canaries + 1, canaries + 1, 2), noise, attack.records)


def _of_tables(attack: Vectors, answer: Any) -> Array:
    cells = np.mean(answer, axis=0)[:-1] / attack.records
    found: Array = (cells[:, 1] - cells[:, 0]) * ACROSS if attack.relation == "replace_one" else cells[:, 1]
    return found


def _histories(attack: Vectors, canaries: int, noise: float) -> HistoryTables:
    """As `_tables`, of the histories of units that weigh one record."""
    view = View.of(Codec(_schema(canaries, attack.records, True)))
    return HistoryTables(view, (("who", "sign"), ("twin", "sign")), noise, 1.0)


def _of_histories(attack: Vectors, answer: Any) -> Array:
    return _of_tables(dataclasses.replace(attack, records=1), answer)


def _linked_tables(attack: Vectors, canaries: int, noise: float) -> HistoryTables:
    """As `_histories`, but of the rows below visits."""
    view = View.of(Codec(_linked_schema(canaries, attack.records)))
    return HistoryTables(view, (("mark.who", "visit.sign"), ("person.twin", "visit.sign")), noise, 1.0, "mark")


def _of_linked_tables(attack: Vectors, answer: Any) -> Array:
    of_people = len(answer[1])  # the other table also has a code for no row
    return _of_histories(attack, [table[:of_people] for table in answer])


def _group_sums(attack: Vectors, canaries: int, noise: float) -> GroupSums:  # noqa: ARG001
    """A group for each canary, and in it a vector or its opposite."""
    return GroupSums(lambda codes: np.where(codes[:, 2:] == 1, LEANING, -LEANING), 2, CLIP, noise, _group, canaries)


def _of_group_sums(attack: Vectors, answer: Any) -> Array:  # noqa: ARG001
    found: Array = answer @ LEANING / (CLIP * FAR)
    return found


def _group_moments(attack: Vectors, canaries: int, noise: float) -> GroupMoments:  # noqa: ARG001
    """A group for each canary, and in it a vector or one at right angles."""
    return GroupMoments(lambda codes: np.where(codes[:, 2:] == 1, LEANING, ASIDE), 2, CLIP, noise, _group, canaries)


def _of_group_moments(attack: Vectors, answer: Any) -> Array:
    along, aside = (np.einsum("gij,i,j->g", answer, each, each) / (CLIP * FAR) ** 2 for each in (LEANING, ASIDE))
    found: Array = (along - aside) * ACROSS if attack.relation == "replace_one" else along
    return found


def _group(codes: Codes) -> Codes:
    """Each canary's own; nobody's is none of those that are counted."""
    group: Codes = codes[:, 0].astype(np.int64)
    return group


PARTS = (1.0, 3.0)  # of the clip, or alphas, of two groups
LEANING, ASIDE = FAR * np.array([0.6, 0.8]), FAR * np.array([0.8, -0.6])
ACROSS = math.sqrt(0.5)  # two cells, or vectors at right angles: 1 apart each, sqrt(2) together
KINDS = {
    "gradient": Kind(ask=_gradient, read=_of_gradient),
    "gradient in groups": Kind(ask=_in_groups, read=_of_groups),
    "sums": Kind(ask=_sums, read=_of_sums),
    "joint": Kind(ask=_joint, read=_of_joint),
    "together": Kind(ask=_together, read=_of_together),
    "tables": Kind(ask=_tables, read=_of_tables, reach=ACROSS),
    "history tables": Kind(ask=_histories, read=_of_histories, reach=ACROSS, ordered=True),
    "linked tables": Kind(ask=_linked_tables, read=_of_linked_tables, reach=ACROSS, ordered=True, linked=True),
    "group sums": Kind(ask=_group_sums, read=_of_group_sums),
    "group moments": Kind(ask=_group_moments, read=_of_group_moments, reach=ACROSS),
}
