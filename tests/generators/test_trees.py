"""Every generator fits codes with a tree: what is kept is an ordinary list of categories to it."""

import numpy as np
import pytest
from clinic import contracts, make_frame, make_schema, quick
from sweeps import sweep

from synthdp import Budget, Synthesizer, load
from synthdp.ledger.ledger import Ledger
from synthdp.seal.learn import Domain
from synthdp.seal.resume import Answers

FEW = {"independent", "mixture"}
CODES = [letter + digit for letter in "ABC" for digit in "0123"]
BUDGET = Budget(50.0, 1e-5)


def table(rows=500, seed=0):
    chances = np.array([80, 40, 10, 0, 80, 40, 0, 0, 30, 4, 4, 4]) / 292
    return make_frame(rows, seed=seed).assign(sex=np.random.default_rng(seed).choice(CODES, rows, p=chances))


def schema(codes, **tree):
    column = {"kind": "categorical", "categories": codes, "tree": {"prefix": [1], **tree}, "missing": True}
    return make_schema(columns={"sex": column}, unit="patient", max_records_per_unit=2)


@pytest.mark.parametrize("name", sweep(contracts(), FEW.__contains__))
@pytest.mark.parametrize("codes", ["learn", CODES], ids=["learned", "declared"])
def test_every_generator_fits_codes_with_a_tree(name, codes, tmp_path):
    release = Synthesizer(quick(name), schema=schema(codes), budget=BUDGET).fit(table(), seed=1)
    column = release.schema.column("sex")
    assert {"A0", "B0", "A1"} <= set(column.categories) <= {*CODES, "A", "B", "C", "other"}
    sampled = release.sample(300, seed=2)["sex"]
    assert set(sampled.dropna()) <= set(column.categories)
    again = load(release.save(tmp_path / "release"))
    assert again.sample(300, seed=2)["sex"].equals(sampled)


def test_synthetic_leaves_are_declared_codes_and_pass_the_pre_check():
    declared = schema(CODES, leaves=True)
    release = Synthesizer(quick("independent"), schema=declared, budget=Budget(5.0, 1e-5)).fit(table(), seed=1)
    sampled = release.sample(2000, seed=2)
    assert set(sampled["sex"].dropna()) <= {*CODES, "other"}
    hidden = {code for code in CODES if code[0] == "C"} - set(release.schema.column("sex").categories)
    assert hidden, "each has too few records to stand clear"
    assert hidden <= set(sampled["sex"].dropna())
    told = [each for each in release.statement.columns if each["name"] == "sex"]
    assert told[0]["declared"]["tree"]["leaves"] is True
    kept = sampled[sampled["sex"] != "other"]
    assert len(declared.validate(kept)) == len(kept)


def test_a_fit_that_an_older_version_began_goes_on_at_no_charge_without_the_counts(tmp_path, monkeypatch):
    """Before ec3f380 the answer about codes with a tree was their names; it is given again, and the model does without counts."""
    files = {"ledger": tmp_path / "ledger.jsonl", "checkpoint": tmp_path / "checkpoint"}
    made = Synthesizer(quick("mixture"), schema=schema(CODES), budget=BUDGET)
    noised, keep = Domain.noised, Answers.keep

    def stopped(self, ledger, line, question, *rest):
        keep(self, ledger, line, question, *rest)
        if isinstance(question, Domain):
            raise KeyboardInterrupt

    with monkeypatch.context() as older:
        older.setattr(Domain, "noised", lambda self, *given: self.passed(noised(self, *given)))
        older.setattr(Answers, "keep", stopped)
        with pytest.raises(KeyboardInterrupt):
            made.fit(table(), seed=1, **files)
    charged = Ledger.read(files["ledger"]).entries()
    with pytest.warns(UserWarning, match="column 'sex': an older version began this fit"):
        release = made.fit(table(), seed=1, resume=True, **files)
    whole = made.fit(table(), seed=1)  # warns of nothing, or the test would fail
    assert set(charged) <= set(release.ledger.entries())
    assert release.ledger.entries() == whole.ledger.entries()
    assert release.statement.epsilon == whole.statement.epsilon
    assert release.schema.column("sex").categories == whole.schema.column("sex").categories
    again = load(release.save(tmp_path / "release"))
    assert again.sample(50, seed=2).equals(release.sample(50, seed=2))
