"""Seeded mutants (GUARANTEE 29) in the accounting of votes: a bracket, a logarithm or a factor that is missing must be caught."""

import pytest
from test_mutants import Mutant, copied, run_against

ANALYSES = "tests/privacy/test_pate_accounting.py"
SMOOTH = "tests/privacy/test_pate_smooth.py"
LIGHT = "--noconftest"  # these tests need no torch, which takes longer to import than they take to run
PATE = "privacy/accounting/pate"

VOTE_MUTANTS = (
    Mutant(
        "missing bracket in the tail bound",
        f"{PATE}/figures.py",
        "found = (whole - math.log(delta)) / orders",
        "found = whole - math.log(delta) / orders",
        (f"{ANALYSES}::test_reference",),
    ),
    Mutant(
        "missing log in the tail bound",
        f"{PATE}/figures.py",
        "found = (whole - math.log(delta)) / orders",
        "found = (whole - delta) / orders",
        (f"{ANALYSES}::test_published_figures_of_one_hundred_queries",),
    ),
    Mutant(
        "missing bracket in theorem 3",  # (1 - q)^l / (1 - e^(2 gamma) q)^l for (1 - q) ((1 - q) / (1 - e^(2 gamma) q))^l
        f"{PATE}/lnmax.py",
        "likely = (orders + 1) * stays",
        "likely = orders * stays",
        (f"{ANALYSES}::test_reference",),
    ),
    Mutant(
        "missing log in theorem 3",
        f"{PATE}/lnmax.py",
        "theorem3 = np.logaddexp(likely, log_q + loss * orders)",
        "theorem3 = np.exp(likely) + np.exp(log_q + loss * orders)",
        (f"{ANALYSES}::test_reference",),
    ),
    Mutant(
        "gamma where a vote moves two counts",
        f"{PATE}/lnmax.py",
        'loss = 2 * positive("gamma", gamma)',
        'loss = positive("gamma", gamma)',
        (f"{ANALYSES}::test_no_bound_is_below_the_exact_loss_against_any_neighbour",),
    ),
    Mutant(
        "a bracket of theorem 6",
        f"{PATE}/gnmax.py",
        "_log1mexp((log_q + e2) * (mu2 - 1) / mu2)",
        "_log1mexp(log_q + e2 * (mu2 - 1) / mu2)",
        (f"{ANALYSES}::test_reference",),
    ),
    Mutant(
        "one noise in q",
        f"{PATE}/gnmax.py",
        "log_ndtr(-lead / (math.sqrt(2) * ",
        "log_ndtr(-lead / (1.0 * ",
        (f"{ANALYSES}::test_q_is_at_least_the_exact_probability_to_miss_the_winner",),
    ),
    Mutant(
        "half of what one teacher can change",
        "privacy/accounting/charges.py",
        "return canonical(kind(noise=event.noise, relation=event.relation, unit=event.unit))",
        "return canonical(kind(noise=2 * event.noise, relation=event.relation, unit=event.unit))",
        (f"{ANALYSES}::test_a_ledger_s_vote_is_the_mechanism_that_is_analysed",),
    ),
    Mutant(
        "local in place of smooth sensitivity",
        f"{PATE}/smooth.py",
        "math.fsum(_within(each, distance * STEP)[part.cells])",
        "math.fsum(_within(each, 0)[part.cells])",
        (f"{SMOOTH}::test_the_sensitivity_is_a_smooth_bound_of_what_enumeration_finds",),
    ),
    Mutant(
        "noise of a smooth sensitivity charged as if neighbours shared it",
        "privacy/accounting/smoothed.py",
        "r = np.exp(-moves * beta)",
        "r, beta = 1.0 + 0 * beta, 0.0",
        (f"{SMOOTH}::test_the_divergence_is_the_largest_over_all_neighbours",),
    ),
)


@pytest.mark.parametrize("mutant", VOTE_MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_of_votes_is_caught(mutant, tmp_path):
    done = run_against(copied(tmp_path, mutant), (LIGHT, *mutant.tests))
    assert done.status == 1, f"{mutant.name} was not caught:\n{done.said[-4000:]}"
    assert " failed" in done.said
    assert "error" not in done.said.splitlines()[-1]


def test_the_tests_of_votes_pass_on_a_copy_that_was_not_changed(tmp_path):
    tests = tuple(sorted({test for mutant in VOTE_MUTANTS for test in mutant.tests}))
    done = run_against(copied(tmp_path, None), (LIGHT, *tests))
    assert done.status == 0, done.said[-3000:]
