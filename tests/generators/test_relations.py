"""What the mixture believes of noisy relations, and which tables it asks again."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from synthdp import Budget, Schema, Synthesizer
from synthdp.evaluate.association import associations
from synthdp.evaluate.tables import axes_of, table_of
from synthdp.generators.marginals.evidence import LEAST_NOISE, Answers, Look, evidence
from synthdp.generators.marginals.evidence import relations as relations_of
from synthdp.generators.marginals.grouping import Counts, Groups
from synthdp.generators.marginals.product_mixture import CLEAR
from synthdp.generators.marginals.relations import BELIEVED, STRENGTHS, Coordinates, NoisyTable, Relations, relation_of
from synthdp.generators.mixture import Mixture
from synthdp.ledger.events import Choice, Gaussian

RECORDS = 10_000


def seen(rng, strength, deviation, shape=(6, 8)):
    """A noisy table of counts, whose relation has a mean square contingency of about strength^2."""
    first, second = (rng.dirichlet(np.full(count, 5.0)) for count in shape)
    relation = relation_of(rng.normal(size=shape), first, second)
    size = strength * np.sqrt((first @ first) * (second @ second))
    relation *= size / np.sqrt(max(1e-30, (relation**2).sum()))
    table = RECORDS * (np.outer(first, second) + relation) + rng.normal(0, deviation, shape)
    return NoisyTable(table=table, first=first, second=second, variance=deviation**2)


def relations(rng, strengths, deviation, broadly=False, **shape):
    def table(strength):
        return seen(rng, strength, deviation, **shape)

    both = {(str(place), ""): (table(each), table(each) if broadly else None) for place, each in enumerate(strengths)}
    return Relations.of(both, RECORDS)


OTHERS = [("chosen", str(place)) for place in range(40)]


def wholly(found):
    return [whole for whole, _ in found.kept().values()]


def test_a_relation_is_what_no_change_of_a_margin_explains():
    rng = np.random.default_rng(0)
    first, second, table = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(3)), rng.normal(size=(4, 3))
    left, right = (np.eye(len(each)) - np.outer(each, each) / (each @ each) for each in (first, second))
    found = relation_of(table, first, second)
    np.testing.assert_allclose(found, left @ table @ right, atol=1e-12)
    changed = table + np.outer(first, rng.normal(size=3)) + np.outer(rng.normal(size=4), second)
    np.testing.assert_allclose(relation_of(changed, first, second), found, atol=1e-12)


def test_a_vague_relation_is_believed_only_where_others_are_clear():
    """Strengths between what noise alone shows and what is clear: in the company of noise they are taken for it, else not."""
    rng = np.random.default_rng(1)
    vague = [0.08] * 40
    among_noise = relations(rng, [0.0] * 200 + vague, 60.0)
    among_clear = relations(rng, [0.3] * 200 + vague, 60.0)
    kept = [np.mean(wholly(found)[200:]) for found in (among_noise, among_clear)]
    assert kept[0] < kept[1] - 0.2
    noise, clear = (np.mean(wholly(found)[:200]) for found in (among_noise, among_clear))
    assert noise < 0.2
    assert clear > 0.95


def test_strengths_are_recovered_in_their_shares():
    rng = np.random.default_rng(2)
    found = relations(rng, [0.0] * 300 + [0.2] * 100, 40.0)
    assert found.chances.mean(0) @ (STRENGTHS < 0.05) == pytest.approx(0.75, abs=0.05)
    assert (found.chances[300:] @ STRENGTHS).mean() == pytest.approx(0.2, abs=0.05)


def test_the_broad_tables_that_are_asked_again_are_those_of_related_columns():
    rng = np.random.default_rng(3)
    found = relations(rng, [0.0] * 300 + [0.4] * 12, 80.0, broadly=True)
    related = {pair for pair in found.pairs if int(pair[0]) >= 300}
    again = found.worth_asking(5.0, OTHERS)
    assert related <= set(again)
    assert len(again) <= 20, "half as many as are asked besides"
    assert set(found.worth_asking(5.0, OTHERS[:12])) < related
    assert related.isdisjoint(found.worth_asking(5.0, [*related, *OTHERS])), "those are asked anyway"
    assert found.worth_asking(5.0, []) == []


def test_of_nothing_and_of_constant_columns_nothing_is_asked_again():
    rng = np.random.default_rng(4)
    assert relations(rng, [0.0] * 4, 50.0, broadly=True, shape=(1, 5)).worth_asking(10.0, OTHERS) == []
    assert Relations.of({}, RECORDS).worth_asking(10.0, OTHERS) == []
    assert Relations.of({}, RECORDS).kept() == {}
    assert relations(rng, [0.3], 50.0).worth_asking(10.0, OTHERS) == []  # without a broad table
    assert relations(rng, [0.3], 50.0, broadly=True).worth_asking(0.0, OTHERS) == [("0", "")]  # without noise


def test_a_broad_table_tells_of_a_relation_that_the_whole_one_does_not_show():
    rng = np.random.default_rng(6)
    both = {
        (str(place), ""): (seen(rng, strength, 300.0, (12, 15)), seen(rng, strength, 60.0, (3, 3)))
        for place, strength in enumerate([0.0] * 60 + [0.5] * 20)
    }
    found = Relations.of(both, RECORDS)
    alone = Relations.of({pair: (whole, None) for pair, (whole, _) in both.items()}, RECORDS)
    whole, broad = np.array([*found.kept().values()])[60:].mean(0)
    assert whole < 0.5 < 0.9 < broad
    related = {pair for pair in found.pairs if int(pair[0]) >= 60}
    assert related <= set(found.worth_asking(5.0, OTHERS))
    assert alone.worth_asking(5.0, OTHERS) == []
    assert {broad for _, broad in alone.kept().values()} == {0.0}


def test_further_answers_are_weighed_by_their_precision():
    tables = [np.full((2, 2), 1.0), np.full((2, 2), 2.0), np.full((2, 2), 3.0)]
    answers = Answers(names=["a", "b", "c"], tables=tables, deviation=2.0)
    more = {("a", "c"): np.full((2, 2), 7.0), ("b", "d"): np.full((2, 3), 4.0)}
    both = answers.with_more(more, 1.0).by_pair()
    table, deviation = both["a", "c"]
    np.testing.assert_allclose(table, (2 / 4 + 7) / (1 / 4 + 1))
    assert deviation == pytest.approx((1 / 4 + 1) ** -0.5)
    assert both["a", "b"] == (tables[0], 2.0)
    np.testing.assert_array_equal(both["b", "d"][0], more["b", "d"])
    assert both["b", "d"][1] == 1.0
    assert Answers().with_more(more, 1.0).deviation == 1.0
    exact = Answers().with_more(more, 0.0)  # without noise the tables weigh as much as any others
    assert exact.deviation == exact.by_pair()["b", "d"][1] == LEAST_NOISE
    alone = Answers(names=["a"], tables=tables[:1], deviation=2.0)  # further targets left no column to make a pair with
    assert alone.with_more({}, 1.0).tables == tables[:1]


def test_half_of_a_relation_is_believed_where_it_is_about_as_large_as_is_just_told():
    """Noise and chance together hide it: what is told has a sum of squares of about their variance times the root of the freedom."""
    noise, chance, freedom = np.array([3.0, 3.0]), np.array([0.0, 5.0]), np.array([4.0, 100.0])
    just = (noise + chance) / (BELIEVED * np.sqrt(freedom))
    table = Coordinates(signals=np.outer(just, np.ones(len(STRENGTHS))), noise=noise, chance=chance, freedom=freedom)
    chances = np.full((2, len(STRENGTHS)), 1 / len(STRENGTHS))
    np.testing.assert_allclose(table.kept(chances), 0.5)


def test_what_chance_makes_of_unrelated_records_is_not_believed():
    """Without noise, too: the records of unrelated columns are related by chance."""
    rng = np.random.default_rng(8)
    made = {}
    for place in range(60):
        first, second = rng.dirichlet(np.full(12, 5.0)), rng.dirichlet(np.full(15, 5.0))
        table = rng.multinomial(RECORDS, np.outer(first, second).ravel()).reshape(12, 15).astype(float)
        made[str(place), ""] = NoisyTable(table=table, first=first, second=second, variance=0.25), None
    assert np.mean(wholly(Relations.of(made, RECORDS))) < 0.1


def test_a_table_of_a_part_of_the_records_tells_as_much_as_one_of_so_few():
    rng = np.random.default_rng(9)
    table = seen(rng, 0.3, 20.0)
    np.testing.assert_allclose(replace(table, part=0.25).logs(RECORDS), table.logs(RECORDS / 4))


def looked(rng):
    """Two columns in six groups each, and a label, 3 : 1; a relation that broad tables of two places show."""
    tilt = np.array([-1.0, -1, -1, 1, 1, 1])
    table = RECORDS * (np.full((6, 6), 1 / 36) + 0.3 * np.outer(tilt, tilt) / 36)
    sizes = {"a": table.sum(1), "b": table.sum(0), "ill": RECORDS * np.array([0.75, 0.25])}
    seen = Look(
        labels=["ill"],
        features=["a", "b"],
        counts={name: Counts.of(held, 1.0) for name, held in sizes.items()},
        groups={name: Groups(of=np.arange(len(held)), within=np.ones(len(held))) for name, held in sizes.items()},
        deviation=1.0,
        total=float(RECORDS),
    )
    labelled = {name: np.outer(sizes[name], [0.75, 0.25]) for name in "ab"}
    return seen, labelled, table, rng.normal(size=table.shape)


def test_tables_with_the_label_tell_of_relations_without_it():
    """Summed over the label, weighed by their precision."""
    look, _, table, noise = looked(np.random.default_rng(10))
    pairs = Answers(names=["a", "b"], tables=[400 * noise], deviation=400.0)
    tables = Answers(names=["a", "b"], tables=[table[..., None] * [0.75, 0.25]], deviation=30.0)
    alone = relations_of(look, Answers(), pairs, Answers(), {})
    both = relations_of(look, tables, pairs, Answers(), {})
    assert alone.whole.noise == pytest.approx(400.0**2)
    assert both.whole.noise == pytest.approx(1 / (1 / 400**2 + 1 / (2 * 30**2)))
    assert alone.kept()["a", "b"][0] < 0.5 < both.kept()["a", "b"][0]


@pytest.mark.parametrize("again", [False, True])
def test_broad_tables_stand_in_for_what_whole_ones_do_not_show(again):
    """For each label in its share, as far as they are believed; tables that were asked again weigh more."""
    look, labelled, table, noise = looked(np.random.default_rng(11))
    of = {name: np.array([0, 0, 0, 1, 1, 1]) for name in "ab"}
    broad = table.reshape(2, 3, 2, 3).sum((1, 3))
    pairs = Answers(names=["a", "b"], tables=[table + 300_000 * noise], deviation=300_000.0)
    tables = Answers(names=["a", "b"], tables=[table[..., None] * [0.75, 0.25]], deviation=300_000.0)
    wide = Answers(names=["a", "b"], tables=[broad], deviation=1_500.0)
    if again:
        wide = wide.with_more({("a", "b"): broad}, 750.0)
        pairs = pairs.with_more({("a", "b"): table + 300_000 * noise}, 150_000.0)
    found, _ = evidence(look, tables, pairs, labelled, 1.0, wide, of)
    whole, broadly = relations_of(look, tables, pairs, wide, of).kept()["a", "b"]
    assert whole < 0.01
    assert 0.2 < broadly < 0.9
    shares = relation_of(broad, np.ones(2), np.ones(2)) / RECORDS  # what the broad table shows beyond its margins
    for block, share in zip([found.pairs, *found.tables], [1.0, 0.75, 0.25], strict=True):
        made = block[:6, 6:].numpy().reshape(2, 3, 2, 3).sum((1, 3))
        told = relation_of(made, np.ones(2), np.ones(2)) / shares / share
        np.testing.assert_allclose(told, broadly, atol=0.02)
    weight = np.sqrt(5.0) if again else 1.0
    assert float(found.pairs_measured.max()) == pytest.approx(np.sqrt(CLEAR) * weight if again else 1.0)
    assert float(found.broad.measured.max()) == pytest.approx(weight)  # all of them weigh `CLEAR` in the fit
    assert found.cells == 3 * 36


def test_a_clear_relation_is_kept_in_each_vague_table_with_the_label():
    look, labelled, table, _ = looked(np.random.default_rng(12))
    pairs = Answers(names=["a", "b"], tables=[table], deviation=5.0)
    tables = Answers(names=["a", "b"], tables=[table[..., None] * [0.75, 0.25]], deviation=30_000.0)
    found, _ = evidence(look, tables, pairs, labelled, 1.0, Answers(), {})
    np.testing.assert_allclose(found.tables[1, :6, 6:].numpy(), table / RECORDS / 4, atol=1e-4)


def test_what_is_worth_asking_reckons_with_the_noise_that_it_is_asked_with(monkeypatch):
    """Units of several records make a question's noise larger."""
    rng = np.random.default_rng(13)
    reckoned, asked = [], []
    found = Relations.worth_asking
    monkeypatch.setattr(
        Relations, "worth_asking", lambda self, noise, others: reckoned.append(noise) or found(self, noise, others)
    )
    more = Answers.with_more
    monkeypatch.setattr(
        Answers,
        "with_more",
        lambda self, tables, deviation: asked.append((len(tables), deviation)) or more(self, tables, deviation),
    )
    frame = pd.DataFrame({f"v{place}": rng.integers(0, 10, 900) for place in range(4)})
    frame["who"] = np.repeat(np.arange(300), 3)
    kinds = {f"v{place}": {"kind": "integer", "bounds": [0, 9]} for place in range(4)}
    schema = Schema.from_dict(
        {
            "declared_by": "a test",
            "unit": "who",
            "units": 300,
            "max_records_per_unit": 3,
            "columns": kinds | {"who": {"kind": "identifier"}},
        }
    )
    made = Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5), components=4, iterations=2, starts=1)
    release = made.fit(frame, seed=0)
    noises = {entry.event.noise for entry in release.statement.events if isinstance(entry.event, Gaussian)}
    (pairs, deviation), (wide, same) = asked
    assert (pairs, same) == (0, deviation), "all four columns are ordered"
    assert deviation == pytest.approx(reckoned[0] * np.sqrt(wide))
    assert any(reckoned[0] == pytest.approx(3 * noise) for noise in noises)


def test_columns_that_are_related_only_given_the_label_keep_their_relation():
    """Two flags are unrelated in all records, and the label is their parity."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({f"f{place}": rng.random(5_000) < 0.5 for place in range(6)})
    frame["odd"] = frame["f0"] ^ frame["f1"]
    schema = Schema.from_dict(
        {
            "declared_by": "a test",
            "units": len(frame),
            "targets": ["odd"],
            "columns": {name: {"kind": "boolean"} for name in frame},
        }
    )
    made = Synthesizer("mixture", schema=schema, budget=Budget(10.0, 1e-5), components=40, iterations=200)
    drawn = made.fit(frame, seed=0).sample(4_000, seed=0).astype(bool)
    assert (drawn["odd"] == drawn["f0"] ^ drawn["f1"]).mean() > 0.85


def paired(rows):
    """24 columns, of which every two that follow each other are related, and a label that is not."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(rows, 24))
    values[:, 1::2] = 0.9 * values[:, ::2] + np.sqrt(1 - 0.81) * values[:, 1::2]
    frame = pd.DataFrame((50 + 12 * values).round(1).clip(0, 100), columns=[f"v{place}" for place in range(24)])
    frame["ill"] = rng.random(rows) < 0.2
    columns = {name: {"kind": "continuous", "bounds": [0, 100], "bins": 12} for name in frame if name != "ill"}
    schema = Schema.from_dict(
        {
            "declared_by": "a test",
            "units": rows,
            "targets": ["ill"],
            "columns": columns | {"ill": {"kind": "boolean"}},
        }
    )
    return frame, schema


@pytest.mark.parametrize("epsilon", [0.5, np.inf])
def test_columns_choose_those_that_they_are_most_related_to(epsilon, monkeypatch):
    """Every one of 24 columns has one that goes with it: both are asked together again, and no pair twice. The second one of two finds
    their pair taken, and where there is noise mostly chooses none."""
    asked, found = [], Mixture._chosen
    monkeypatch.setattr(Mixture, "_chosen", lambda *given: asked.append(found(*given)) or [*asked[0]])
    frame, schema = paired(6_000)
    if epsilon == np.inf:
        frame, schema = frame.head(600), replace(schema, units=600)
    budget = Budget(epsilon, 1e-5) if epsilon < np.inf else Budget(epsilon)
    made = Synthesizer("mixture", schema=schema, budget=budget, components=4, iterations=2, starts=1)
    release = made.fit(frame, seed=0)
    chosen = {frozenset(pair) for pair in asked[0]}
    assert len(chosen) == len(asked[0])
    assert len(chosen) == 24 if epsilon == np.inf else len(chosen) < 24
    assert {frozenset((f"v{place}", f"v{place + 1}")) for place in range(0, 24, 2)} <= chosen
    assert [entry.count for entry in release.statement.events if isinstance(entry.event, Choice)] == [24]


def coded(rows):
    """A code that decides of a number whether it is high; seven numbers, seven codes and a label, which go with nothing."""
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({f"v{place}": rng.integers(0, 100, rows) for place in range(7)})
    for place in range(8):
        frame[f"c{place}"] = rng.choice([*"abcdefgh"], rows)
    frame["high"] = np.where(frame["c0"].isin([*"abc"]), rng.integers(60, 100, rows), rng.integers(0, 75, rows))
    frame["ill"] = rng.random(rows) < 0.2
    columns = {name: {"kind": "integer", "bounds": [0, 99], "bins": 20} for name in frame if name[0] in "vh"}
    columns |= {name: {"kind": "categorical", "categories": [*"abcdefgh"]} for name in frame if name[0] == "c"}
    columns["ill"] = {"kind": "boolean"}
    schema = Schema.from_dict({"declared_by": "a test", "units": rows, "targets": ["ill"], "columns": columns})
    return frame, schema


def test_a_number_beside_a_code_is_counted_broadly(monkeypatch):
    """In three places of the number, and all codes, because it was chosen."""
    asked, more = [], Answers.with_more
    monkeypatch.setattr(Answers, "with_more", lambda self, tables, d: asked.append(tables) or more(self, tables, d))
    frame, schema = coded(3_000)
    made = Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5), components=4, iterations=2, starts=1)
    made.fit(frame, seed=0)
    pairs, wide = asked
    assert sorted(wide[next(pair for pair in wide if {*pair} == {"c0", "high"})].shape) == [3, 8]
    assert all(name[0] == "c" for pair in pairs for name in pair)


def test_columns_whose_relations_noise_hides_may_choose_none(monkeypatch):
    """Of 17 columns two are related. Each asks its choice all the same."""
    asked, found = [], Mixture._chosen
    monkeypatch.setattr(Mixture, "_chosen", lambda *given: asked.append(found(*given)) or [*asked[-1]])
    frame, schema = coded(500)
    made = Synthesizer("mixture", schema=schema, budget=Budget(0.3, 1e-5), components=4, iterations=2, starts=1)
    release = made.fit(frame, seed=0)
    assert len(asked[0]) < 9
    assert [entry.count for entry in release.statement.events if isinstance(entry.event, Choice)] == [16]


@pytest.mark.parametrize("ordered", [False, True])
def test_of_a_vague_broad_table_of_a_number_and_a_code_a_part_is_believed(ordered):
    """Those of two ordered columns are fitted as they are."""
    look, labelled, table, noise = looked(np.random.default_rng(11))
    of = {"a": np.array([0, 0, 0, 1, 1, 1]), "b": np.arange(6), "ill": np.arange(2)}
    broad = table.reshape(2, 3, 6).sum(1)
    pairs = Answers(names=["a", "b"], tables=[table + 300_000 * noise], deviation=300_000.0)
    both = Answers(names=["a", "b"], tables=[broad], deviation=400.0)
    wide = both if ordered else Answers().with_more({("a", "b"): broad}, 400.0)
    found, _ = evidence(look, Answers(), pairs, labelled, 1.0, wide, of)
    kept = 1.0 if ordered else relations_of(look, Answers(), pairs, wide, of).kept()["a", "b"][1]
    assert ordered or 0.2 < kept < 0.9
    margins = np.full(2, 0.5), np.full(6, 1 / 6)
    held = relation_of(found.broad.held.numpy()[:2, 2:], *margins)
    np.testing.assert_allclose(held, kept * relation_of(broad, *margins) / RECORDS, atol=1e-6)


def test_a_number_of_records_that_only_noise_tells_of_stops_no_choice():
    """A person may have 10,000 records, so the noise says that there are billions: more than a score may be compared with."""
    frame = pd.DataFrame(np.random.default_rng(0).random((40, 6)) < 0.5, columns=[f"f{place}" for place in range(6)])
    frame["who"] = [str(place) for place in range(40)]
    flags = {f"f{place}": {"kind": "boolean"} for place in range(6)}
    schema = Schema.from_dict(
        {
            "declared_by": "a test",
            "unit": "who",
            "units": 40,
            "max_records_per_unit": 10_000,
            "columns": flags | {"who": {"kind": "identifier"}},
        }
    )
    made = Synthesizer("mixture", schema=schema, budget=Budget(1e-6, 1e-5), components=2, iterations=2, starts=1)
    for seed in range(12):
        assert len(made.fit(frame, seed=seed).sample(5, seed=0)) == 5


@pytest.mark.heavy
def test_strong_pairs_of_a_wide_table_are_kept():
    """Twelve pairs among 24 columns: most tables are noise, and asking the related ones again tells them better."""
    rows = 6_000
    frame, schema = paired(rows)
    axes = axes_of(schema, frame)

    def lost(share):
        made = Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5), related_share=share)
        drawn = made.fit(frame, seed=0).sample(rows, seed=0)
        real, synthetic = (associations(table_of(each, axes, "a test")) for each in (frame, drawn))
        return np.mean([abs(real[place, place + 1] - synthetic[place, place + 1]) for place in range(0, 24, 2)])

    assert lost(0.6) < 0.7 * lost(0.0)


@pytest.mark.heavy
def test_what_a_code_tells_of_a_number_is_kept_among_much_that_is_unrelated():
    frame, schema = coded(3_000)
    columns = [column.name for column in schema.coded]
    axes, code, number = axes_of(schema, frame), columns.index("c0"), columns.index("high")

    def strength(each):
        return abs(associations(table_of(each, axes, "a test"))[code, number])

    found = []
    for seed in range(3):
        made = Synthesizer("mixture", schema=schema, budget=Budget(1.0, 1e-5)).fit(frame, seed=seed)
        found.append(strength(made.sample(3_000, seed=0)))
    assert np.median(found) > 0.7 * strength(frame)
