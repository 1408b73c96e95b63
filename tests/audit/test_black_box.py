"""Black-box audits (law 27): 1,000 models a side through the production path, for every generator with cheap fits."""

import dataclasses

import numpy as np
import pytest
from clinic import contracts, kind_of
from gate import DELTA, GATE_ERROR

from synthdp import BadInput, Budget, generators
from synthdp.auditing import black_box, processes
from synthdp.privacy.questions.marginals import Marginals
from synthdp.privacy.sensitive import Sensitive

NAMES = [name for name in contracts() if hasattr(kind_of(name), "audit_settings")]
RUNS, TUNING = 1000, 300


def small(name):
    mode = name.partition(":")[2]
    return black_box.small(kind_of(name)(**({"mode": mode} if mode else {})))


def audited(name, epsilon, pair, **options):
    options = {"runs": RUNS, "tuning_runs": TUNING, "gate_error": GATE_ERROR, "workers": 1, **options}
    return black_box.audit(small(name), Budget(epsilon, DELTA), pair=pair(), **options)


# Half a minute and more: the choices of privbayes have proofs of their own in test_choice, and its Gaussians are those of others;
# the votes of the paper's PATE-GAN are audited by themselves in test_vote_audit.
SLOW = ("privbayes", "pategan:original")
JUDGED = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NAMES]


@pytest.mark.parametrize("name", JUDGED)
def test_no_generator_leaks_more_than_it_claims(name):
    found = audited(name, 4.0, black_box.worst_case)
    assert found.verdict.runs == RUNS
    assert 3.8 <= found.epsilon <= 4.0
    assert not found.verdict.contradicted
    assert found.verdict.epsilon <= found.epsilon


def test_shares_of_large_tables_show_nearly_what_is_claimed():
    """The auditor is no straw man: on counts that the noise leaves above zero it finds most of epsilon 4, and no more."""
    found = audited("independent", 4.0, black_box.rare)
    assert not found.verdict.contradicted
    assert found.gaussian_epsilon >= 1.5


def test_halved_noise_is_found(monkeypatch):
    honest = Marginals.noised

    def halved(self, bounded, noise):
        return honest(dataclasses.replace(self, noise=self.noise / 2), bounded, noise)

    monkeypatch.setattr(Marginals, "noised", halved)
    assert audited("independent", 4.0, black_box.rare).verdict.contradicted


def test_every_fit_seals_anew_and_draws_its_own_noise(monkeypatch):
    """No shortcut: each model comes of records sealed for it, without a seed, and no two are alike."""
    seals = []
    sealing = Sensitive.__init__

    def counted(self, *arguments, **options):
        sealing(self, *arguments, **options)
        seals.append(self.rehearsal)

    monkeypatch.setattr(Sensitive, "__init__", counted)
    pair = black_box.worst_case()
    generator = small("independent")
    job = black_box.Fits(
        generator=generator, schema=pair.schema, frame=pair.with_, budget=Budget(1e4, DELTA), noise=1.0, runs=30
    )
    features, heads = black_box.fits(job)
    assert seals == [False] * 30
    assert len(set(heads)) == 1
    assert len({row.tobytes() for row in features}) > 20  # models may meet where noise is cut off at zero


def test_the_pair_is_neighbouring():
    for make in black_box.PAIRS.values():
        pair = make()
        assert len(pair.with_) == len(pair.without) + 1
        assert pair.with_.iloc[:-1].equals(pair.without)
        assert pair.with_.iloc[-1].all()
    law = black_box.worst_case()
    assert len(law.without) == 4
    assert not law.without.to_numpy().any()


def test_a_ledger_that_depends_on_the_records_is_refused(monkeypatch):
    def uneven(job):
        return np.zeros((job.runs, 2)), ["one" if len(job.frame) == 4 else "other"] * job.runs

    monkeypatch.setattr(black_box, "fits", uneven)
    with pytest.raises(BadInput, match="ledger"):
        audited("independent", 1.0, black_box.worst_case, runs=10, tuning_runs=10)


def test_settings_that_no_fit_keeps_are_refused_before_the_first(monkeypatch):
    monkeypatch.setattr(processes, "each", lambda *_: pytest.fail("a fit was made"))
    with pytest.raises(BadInput, match=r"generator\.condition: no modelled column named 'nosuch'"):
        black_box.audit(generators.make("dpgan", {"condition": "nosuch"}), Budget(1.0, DELTA))


def test_a_fit_that_books_more_than_its_plan_says_is_refused():
    many = generators.make("pategan", {"mode": "original", "gamma": 0.01, "queries": 2, "teachers": 2, "hidden": (4,)})
    with pytest.raises(BadInput, match="pategan: a fit books other events than its plan says"):
        black_box.audit(many, Budget(1.0, DELTA), runs=1, tuning_runs=2, workers=1)


def test_settings_that_were_given_stay():
    kind = generators.find("dpgan")
    assert black_box.small(kind(steps=7)).steps == 7
    assert black_box.small(kind()).steps == kind.audit_settings["steps"]


def test_jobs_keep_their_order_on_processes():
    assert processes.each(abs, [-3, 2, -1], workers=2) == [3, 2, 1]
    assert processes.parts(120, 50) == [50, 50, 20]
    assert sum(processes.parts(1000, 50)) == 1000
