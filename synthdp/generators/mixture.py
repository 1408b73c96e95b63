"""A mixture of products fitted to the noisy tables of every two columns, with the label and without it.

Questions whose noise is known before the first answer: first every column by itself, numeric ones on a finer grid too,
which says how codes are grouped (the noise of a table is small against its groups); then each column with the label, which tells
what a rare label goes with where the tables of three are all noise; then each table of (column, column, label), and each of
(column, column), whose noise is not spread over the label's values. Every two ordered columns are counted in a few broad groups too,
so that correlations survive: in tables of many cells, shrinkage pulls correlations to 0, and so does the noise of empty cells, since
a model has no negative cells. From all these tables follows how strongly every two columns are related: of a relation that the noise
may explain only a part is believed (`marginals/relations.py`). Each column chooses the column that it is most related to, by the
exponential mechanism, or none. The tables of these pairs are asked once more, and so are a few of those that the broad tables show to
be related: they are few, so there is little noise in each. There ordered columns are counted in a few broad groups, beside columns
without an order too: in fewer cells, noise hides less. None of these tables shows what only three columns
together tell, such as a label that is the parity of three flags. If the schema's number of units is large compared with the noise,
columns in halves are therefore counted six at a time with the label, and the triples that the noise does not explain are fitted as
well. A mixture of product distributions is fitted to all of this at once (`marginals/product_mixture.py`), and records are drawn from
it.

Marginal-based generators measure tables and fit a graphical model to them (McKenna, Miklau & Sheldon 2021; McKenna et al. 2022);
the mixture can be fitted to all of them, since they cost one matrix product however many they are. Only where there are more
than the noise leaves worth asking, the tables are those of the columns that tell most of the label; of the others the model knows
what they are by themselves and with the label. Where noisy counts of the label show that all but its commonest value would be lost in
tables of three, each column is asked with the label once more in their place. All tables of a question have the same noise: less for
larger ones or for smaller ones made the synthetic data worse.

The label is the first target, together with those further ones that make at most 16 groups with it.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, combinations, islice, repeat
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput, listed
from synthdp.generators import Model, Progress, Tensors, Traits, silent
from synthdp.generators.marginals.evidence import (
    BROAD,
    LEAST_NOISE,
    Answers,
    Look,
    blocks,
    clear_triples,
    evidence,
    look,
    mean_of,
    numeric,
    of_label,
    ordered,
    parts,
    place_shares,
    placed,
    places,
    relations,
    told,
    varied,
)
from synthdp.generators.marginals.grouping import Places, halves, least_option
from synthdp.generators.marginals.mixture_model import MOST_CELLS, MixtureModel, beside, restored
from synthdp.generators.marginals.product_mixture import Products, Triples, components_of, fit
from synthdp.generators.marginals.relations import Pair
from synthdp.generators.parts import devices
from synthdp.generators.parts.setting_checks import changed, refuse_ignored
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Choice, Entry, Gaussian, Plan, merged
from synthdp.options import check, fraction, not_negative, number, option, positive, whole
from synthdp.schema.schema import Schema
from synthdp.seal import MOST_OFFSET, MOST_RECORDS, Misfit

if TYPE_CHECKING:
    from torch import Tensor

    from synthdp.seal import Grouping, Sensitive

Array = NDArray[np.float64]
SHOW_EVERY = 25
LEAST_ITERATIONS = 300
MOST_TABLES = 5_000  # of two columns, those of 100 columns
TOLD = 10  # names of columns that a warning lists


@dataclass(frozen=True, kw_only=True)
class Worth:
    """How many tables are worth asking: as many as leave `records` of all to one deviation of a cell, but `least` all the same:
    many vague tables tell more than few clear ones."""

    records: float
    least: int


WITH_LABEL, WITHOUT = Worth(records=200.0, least=80), Worth(records=100.0, least=500)
BROADLY = Worth(records=BROAD * 4, least=1)  # those that have two places of a column, at least
RARE = 20.0  # how many deviations of a cell the records without the commonest label are, at least, where tables of three are asked
TOGETHER = 20.0  # how many deviations of the noise of a triple's sum the public units must be for triples to be asked
LABELLED, PAIRED = (
    0.1,
    0.3,
)  # shares of tables of a column with the label, and of two columns without it, where units are many
WIDE, MOST_LABELLED = 5.0, 0.35  # share for each column whose noise is as large as all units, and the most
MOST_COLUMNS = 20  # beside the targets: 120 tables count every three of them
CHOOSING = 0.15  # share of what is spent on asking again: for the choices
OFFSET, NONE = 0.5, 1.2  # see `_chosen`; chosen on made-up tables, as was the share


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Settings of the mixture."""

    name: ClassVar[str] = "mixture"
    traits: ClassVar[Traits] = Traits(counted=True, conditional=True, chooses=True)

    share: float = option(0.12, "share of the precision spent on single columns, in (0, 1)", fraction())
    cells: int = option(
        10_000,
        "cells of the public grid on which numeric columns are counted, besides their bins; 0: bins only",
        whole(0, MOST_CELLS),
    )
    grid_share: float = option(0.04, "share of the precision spent on these grids, in (0, 1)", fraction())
    label_share: float | None = option(
        None,
        "share of the precision spent on tables of each column with the label, in (0, 1); default: 0.1, or up to 0.35 if columns are many "
        "and the schema's `units` few compared with the noise",
        fraction(),
    )
    pair_share: float | None = option(
        None,
        "share of the precision spent on tables of two columns without the label, in (0, 1); applies if there is a label; default: 0.3, "
        "less if label_share is more than 0.1",
        fraction(),
    )
    broad_share: float = option(
        0.06,
        "share of the precision spent on tables of two ordered columns in a few broad groups, from which correlations are learned, "
        "in [0, 1); 0: none",
        number("[0, 1)"),
    )
    triple_share: float = option(
        0.02,
        "share of the precision spent on tables of up to six columns in halves with the label, from which the fit learns relations "
        "that only three columns together have with it, in [0, 1); asked only if the schema's `units` is large compared with the "
        "noise; 0: none",
        number("[0, 1)"),
    )
    related_share: float = option(
        0.6,
        "share of the precision of tables of two columns without the label that is spent on choosing those whose columns are most related, "
        "and on asking them again, in [0, 1); asked only of four columns or more beside the label; 0: none",
        number("[0, 1)"),
    )
    tables: int | None = option(
        None,
        "largest number of tables of two columns with the label; default: as many as are worth asking at this noise",
        whole(),
    )
    pairs: int | None = option(
        None,
        "largest number of tables of two columns without the label; default: as many as are worth asking at this noise",
        whole(),
    )
    least: float = least_option(2.0)
    components: int | None = option(
        None,
        "number of product distributions in the mixture; default: as many as the noise lets the fit tell apart, from 100 "
        "to 800",
        whole(most=100_000),
    )
    starts: int = option(
        2, "number of fits from different random starts; their mixtures are averaged", whole(most=1000)
    )
    iterations: int | None = option(
        None, "steps of Adam in each fit; default: three for every four components, at least 300", whole()
    )
    rate: float = option(0.1, "learning rate of Adam; it falls to zero along a cosine", positive(100))
    shrinkage: float = option(
        3.0,
        "how strongly components are drawn towards the distributions of single columns; the clearer the tables, the weaker",
        not_negative(),
    )
    device: str = option("auto", devices.HELP, devices.RULE)

    def __post_init__(self) -> None:
        check(self)
        shares = ("share", "grid_share", "label_share", "broad_share", "pair_share")
        given = (self.share, self.grid_share, self.broad_share, self.label_share or LABELLED, self.pair_share or PAIRED)
        if sum(given) >= 1:
            named = ", ".join(f"generator.{name}" for name in shares)
            raise BadInput(f"the sum of {named} must be below 1, so that something is left for the tables")
        refuse_ignored(self, () if self.cells else ("grid_share",), "generator.cells=0")

    def validate(self, schema: Schema, budget: Budget) -> None:  # noqa: ARG002
        """What only targets would make read is left out where there are none, and the device is there."""
        for name in () if schema.targets else changed(self, ("tables", "label_share", "pair_share")):
            raise BadInput(
                f"generator.{name} applies to tables with a target, but the schema has no target: declare one, or leave {name} "
                "out (generator.pairs limits the tables of two columns)"
            )
        devices.place(self.device)

    def plan(self, schema: Schema, noise: float) -> Plan:
        """A Gaussian each for the single columns, their finer grids, columns with the label, two ordered columns in broad groups, two
        columns, two with the label, two that are asked again, and up to six in halves with the label; and each column's choice."""
        choices = _choices(schema)
        return merged(
            Entry(Choice(_epsilon(each, choices)), choices) if name == "choices" else Entry(Gaussian(each))
            for name, each in self.noises(schema, noise).items()
        )

    def noises(self, schema: Schema, noise: float) -> dict[str, float]:
        """Noises of what is asked of this schema; their precisions, 1 / noise^2, add up to that of `noise`. All choices together cost as
        much as a Gaussian of the noise `choices`."""
        labels = schema.targets[:1]  # further ones may be part of the label: how many groups they have is not known yet
        features = beside(schema, labels)
        shares = {"columns": self.share}
        if self.cells and numeric(schema):
            shares["grids"] = self.grid_share
        labelled, paired = self._with_label_and_without(schema, noise, len(features))
        if labels:
            shares["labels"] = labelled
        if self.broad_share and len(ordered(schema)) > 1:
            shares["broad"] = self.broad_share
        if len(features) > 1:
            shares["pairs"] = paired if labels else 1 - sum(shares.values())
        if labels:
            shares["tables"] = 1 - sum(shares.values())
        if self.related_share and len(features) > 3:
            again = self.related_share * shares["pairs"]
            shares["pairs"] -= again
            shares |= {"choices": CHOOSING * again, "related": (1 - CHOOSING) * again}
        if self._in_threes(schema, noise):
            shares["triples"] = self.triple_share / (1 - self.triple_share)
        whole = sum(shares.values())
        return {name: noise / math.sqrt(share / whole) for name, share in shares.items()}

    def _with_label_and_without(self, schema: Schema, noise: float, features: int) -> tuple[float, float]:
        """Shares of the tables of each column with the label, and of those of two columns without it. Where many columns share few
        units, by public numbers alone, tables with the label are what still stands clear of the noise: they get more, of what tables of
        two columns have."""
        if self.label_share is not None or self.pair_share is not None or not isinstance(schema.units, int):
            return self.label_share or LABELLED, self.pair_share or PAIRED
        most = schema.max_records_per_unit if schema.unit else 1
        labelled = min(max(WIDE * features * noise * most / schema.units, LABELLED), MOST_LABELLED)
        left = 1 - self.share - self.grid_share - self.broad_share
        return labelled, PAIRED * (left - labelled) / (left - LABELLED)

    def _in_threes(self, schema: Schema, noise: float) -> bool:
        """Whether what three columns tell together would stand clear of the noise: by public numbers alone."""
        features, units = sum(column.name not in schema.targets for column in schema.coded), schema.units
        if not self.triple_share or not 3 <= features <= MOST_COLUMNS or not isinstance(units, int):
            return False
        most = schema.max_records_per_unit if schema.unit else 1
        cells = math.comb(len(parts(features)), 3) * 2 ** min(features, 6)
        return units >= TOGETHER * most * noise * math.sqrt(cells / self.triple_share)

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:
        """Single columns, groups, tables, relations, mixture."""
        noise = data.commit(lambda z: self.plan(data.declared, z))
        data.resolve(cells=self.cells)
        return self.learn(data, noise, seed=seed, progress=progress)[0]

    def learn(
        self, data: "Sensitive", noise: float, *, seed: int | None = None, progress: Progress = silent
    ) -> tuple[MixtureModel, float]:
        """The questions and what follows, at a noise that was committed, of records whose schema is resolved: other generators start
        here. And the noisy number of records."""
        from synthdp.generators.parts.table_networks import random

        device = devices.place(self.device)
        noises = self.noises(data.declared, noise)  # as it was planned: nothing bought
        schema = data.schema
        most = schema.max_records_per_unit if schema.unit else 1
        features = len(schema.coded) - bool(schema.targets)

        def clear(total: float) -> float:
            return total / (noise * most) if noise > 0 else math.inf

        def vague(total: float) -> float:
            asked = min(features, _columns(clear(total), self.pairs, WITHOUT))
            return noises.get("pairs", 0.0) * most * math.sqrt(math.comb(asked, 2))

        seen = look(data, noises, self.least, vague)
        labelled, label_deviation = self._labelled(data, seen, noises.get("labels"))
        told_of = told(seen, labelled, label_deviation) if labelled else varied(seen, seen.features)
        ranked = sorted(seen.features, key=lambda name: -told_of[name])
        chosen = ranked[: _columns(clear(seen.total), self.tables, WITH_LABEL)] if labelled else ranked
        paired = ranked[: _columns(clear(seen.total), self.pairs, WITHOUT)]
        _tell([name for name in seen.features if name not in paired], len(ranked), bool(seen.labels))
        wide, of = self._broad(data, seen, ranked, noises.get("broad"))
        pairs = self._asked(data, seen, paired, noises.get("pairs"), [])
        tables = Answers()
        if labelled and _rare(seen, labelled, label_deviation, len(chosen), noises["tables"] * most):
            labelled, label_deviation = self._again(data, seen, labelled, label_deviation, noises["tables"])
        else:
            tables = self._asked(data, seen, chosen, noises.get("tables"), seen.labels)
        if "related" in noises:
            known = relations(seen, tables, pairs, wide, of)
            again = self._chosen(data, seen, of, known.pairs, noises)
            again += known.worth_asking(noises["related"] * most, again)
            pairs, wide = self._asked_again(data, pairs, wide, again, noises["related"], placed(seen, of))
        found, order = evidence(seen, tables, pairs, labelled, label_deviation, wide, of)
        found = replace(found, triples=self._threes(data, seen, order, noises.get("triples")))
        components = self.components or components_of(seen.total, min(tables.deviation, pairs.deviation))
        iterations = self.iterations or max(LEAST_ITERATIONS, 3 * components // 4)
        products = fit(
            found,
            components=components,
            starts=self.starts,
            iterations=iterations,
            rate=self.rate,
            shrinkage=self.shrinkage,
            generator=random(seed),
            device=device,
            progress=lambda step, residual: _show(progress, step, self.starts * iterations, residual),
        )
        columns = dict(zip(order, products.columns, strict=True))
        inorder = tuple(columns[name] for name in seen.features)
        products = Products(weights=products.weights, label=products.label, columns=inorder)
        model = MixtureModel(schema, tuple(seen.labels), tuple(seen.groups.values()), products, data.fine.cells)
        return model, seen.total

    def _labelled(self, data: "Sensitive", seen: Look, noise: float | None) -> tuple[dict[str, Array], float]:
        """Noisy tables (groups, labels) of every column with the label, and their deviation; none without a noise."""
        if noise is None:
            return {}, 1.0
        question = data.tables([(name, *seen.labels) for name in seen.features], noise, seen.of, fine=True)
        together = seen.size(seen.labels)
        answers = data.ask(question)
        return {
            name: table.reshape(-1, together) for name, table in zip(seen.features, answers, strict=True)
        }, question.deviation

    def _again(
        self, data: "Sensitive", seen: Look, labelled: dict[str, Array], deviation: float, noise: float
    ) -> tuple[dict[str, Array], float]:
        """The means of noisy tables of every column with the label and of such tables asked once more, weighed by their precision."""
        others, other = self._labelled(data, seen, noise)
        both = {name: mean_of((table, deviation), (others[name], other)) for name, table in labelled.items()}
        return {name: table for name, (table, _) in both.items()}, next(iter(both.values()))[1]

    def _broad(
        self, data: "Sensitive", seen: Look, ranked: list[str], noise: float | None
    ) -> tuple[Answers, dict[str, Places]]:
        """Noisy tables of every two ordered columns, none without a noise, and the places that each column is counted by."""
        if noise is None:
            return Answers(), places(data, seen, [], 0.0)
        known, most = set(ordered(data.schema)), data.schema.max_records_per_unit if data.schema.unit else 1
        clear = seen.total / (noise * most) if noise > 0 else math.inf
        names = [name for name in ranked if name in known][: _columns(clear, self.pairs, BROADLY)]
        pairs = [*combinations(names, 2)]
        of = places(data, seen, names, noise * most * math.sqrt(len(pairs)))
        question = data.tables(pairs, noise, placed(seen, of), fine=True)
        return Answers(names=names, tables=data.ask(question), deviation=max(question.deviation, LEAST_NOISE)), of

    def _threes(self, data: "Sensitive", seen: Look, order: Sequence[str], noise: float | None) -> Triples | None:
        """What noisy tables of columns in halves with the label tell of every three; none without a noise."""
        names = [name for name in order if name]
        if noise is None or len(names) < 3:
            return None
        columns = {column.name: column for column in data.schema.coded}
        of = {name: halves(seen.groups[name], seen.shares(name), columns[name], data.fine) for name in names}
        question = data.tables([(*block, *seen.labels) for block in blocks(names)], noise, placed(seen, of), fine=True)
        return clear_triples(data.ask(question), question.deviation, of, order, seen)

    def _asked(
        self, data: "Sensitive", seen: Look, names: list[str], noise: float | None, labels: Sequence[str]
    ) -> Answers:
        """Noisy tables of every two of these columns with the labels, or of what there is of them; none without a noise."""
        if noise is None:
            return Answers()
        pairs: list[tuple[str, ...]] = [*combinations(names, 2)] or [tuple(names)]
        question = data.tables([(*pair, *labels) for pair in pairs], noise, seen.of, fine=True)
        return Answers(names=names, tables=data.ask(question), deviation=max(question.deviation, LEAST_NOISE))

    def _chosen(
        self,
        data: "Sensitive",
        seen: Look,
        of: Mapping[str, Places],
        pairs: Sequence[Pair],
        noises: Mapping[str, float],
    ) -> list[Pair]:
        """For each column the pair, of those that are left, whose table lies farthest from what the columns say alone: in L1, less `OFFSET`
        of what is just told from noise. Noise hides a relation whose squares add up to less than the root of the cells times its
        variance, so that each of the cells differs by its deviation over the fourth root of their number. Or none, where a pair that chance
        makes the best of all stands as far apart: the table of no column is the number of records, which noisy answers have told.

        As many choices are asked as were planned, whatever the answers say."""
        count = _choices(data.declared)
        most = data.schema.max_records_per_unit if data.schema.unit else 1
        left: list[tuple[str, ...]] = [*pairs]
        names = dict.fromkeys(name for pair in pairs for name in pair)
        hidden = OFFSET * math.sqrt(2 / math.pi * len(names)) * noises["related"] * most
        epsilon = _epsilon(noises["choices"], count)
        total = min(seen.total, MOST_RECORDS / 2)  # a misfit refuses more, which noise may tell of
        shares, counted = {name: place_shares(seen, of, name) for name in names}, placed(seen, of)
        chosen: list[Pair] = []
        for name in islice(chain(names, repeat("")), count):
            here = [*(pair for pair in left if name in pair), ()]
            expected = tuple(
                np.asarray(reduce(np.multiply.outer, (shares[other] for other in each), np.array(total)))
                for each in here
            )
            offsets = [min(hidden * table.size**0.75, MOST_OFFSET) for table in expected[:-1]]
            none = min(NONE * math.log(len(here)) * 2 * most / epsilon, MOST_OFFSET)
            score = Misfit(expected=expected, weights=(1.0,) * len(here), offsets=(*offsets, -none))
            found = here[data.choose(here, score, epsilon, counted, fine=True)]
            if len(found) == 2:
                chosen.append(found)
                left.remove(found)
        return chosen

    def _asked_again(
        self,
        data: "Sensitive",
        pairs: Answers,
        wide: Answers,
        again: list[Pair],
        noise: float,
        of: "Sequence[Grouping | None]",
    ) -> tuple[Answers, Answers]:
        """Both answers with these tables, or with all, if none is worth more than others. Tables in which ordered columns are counted
        broadly are among the wide ones, those of two other columns among the pairs."""
        again = again or [*pairs.by_pair()]
        question = data.tables(again, noise, of, fine=True)
        found, broad = dict(zip(again, data.ask(question), strict=True)), {*ordered(data.schema)}
        more = {pair: table for pair, table in found.items() if broad & {*pair}}
        rest = {pair: table for pair, table in found.items() if pair not in more}
        return pairs.with_more(rest, question.deviation), wide.with_more(more, question.deviation)

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """Groups of every column's codes, and the mixture over groups."""
        return restored(schema, tensors)


def _choices(schema: Schema) -> int:
    """One for each column beside the label, at most: what further targets are part of it is not known yet."""
    return len(beside(schema, schema.targets[:1]))


def _epsilon(noise: float, choices: int) -> float:
    """Of each of so many choices that together have the rho of a Gaussian of this noise: epsilon^2 / 8 each."""
    return 2 / (noise * math.sqrt(choices)) if noise > 0 else math.inf


def _rare(seen: Look, labelled: dict[str, Array], deviation: float, columns: int, noise: float) -> bool:
    """Whether tables of the label with every two of so many columns would be noise, all but those of its commonest value."""
    counts, _ = of_label(seen, labelled, deviation)
    return float(counts.sum() - counts.max()) < RARE * noise * math.sqrt(max(1, math.comb(columns, 2)))


def _columns(clear: float, tables: int | None, worth: Worth) -> int:
    """The number of columns whose pairs the fit asks for: at most `tables` pairs.

    `clear` is the number of records over the standard deviation of the noise of one table that gets all the precision.
    """
    count: float = tables if tables is not None else min(MOST_TABLES, max(worth.least, (clear / worth.records) ** 2))
    return max(2, int((1 + math.sqrt(1 + 8 * count)) / 2))  # m (m - 1) / 2 tables


def _tell(left: list[str], features: int, labels: bool) -> None:
    """Say what the model does not know; which columns these are follows from noisy answers."""
    if left:
        names = listed([*map(repr, left)], TOLD)
        known = "with the label" if labels else "by themselves"
        warnings.warn(
            f"at this noise the fit of the mixture asks for pairs of {features - len(left)} of the {features} columns. The model "
            f"knows the others only {known}: {names}. Leave columns that nobody needs out of the schema, or raise epsilon",
            UserWarning,
            stacklevel=3,
        )


def _show(progress: Progress, step: int, steps: int, residual: "Tensor") -> None:
    if step % SHOW_EVERY == 0 or step == steps:
        progress(step, steps, {"residual": float(residual)})


GENERATOR = Mixture
