"""Seeded mutants (GUARANTEE 29) in the moments of groups: a bound or a factor that is missing must be caught."""

import pytest
from test_mutants import Mutant, copied, run_against

FILE = "privacy/questions/moments.py"
MOMENTS = "tests/privacy/test_moments.py"
MOVEMENT = f"{MOMENTS}::test_one_unit_moves_the_answer_by_at_most_the_sensitivity"

MOMENT_MUTANTS = (
    Mutant(
        "no clip of moments",
        FILE,
        "yield clipped(rows, self.clip), shares",
        "yield np.where(np.isfinite(rows).all(axis=1)[:, None], rows, 0.0), shares",
        (f"{MOVEMENT}[1-4-moments]",),
    ),
    Mutant(
        "sums over a unit's records for means",
        FILE,
        "shares = 1 / np.maximum(",
        "shares = np.minimum(1.0, ",
        (f"{MOVEMENT}[3-4-moments]",),
    ),
    Mutant(
        "what is not finite stays",
        "privacy/norms.py",
        "np.where(finite[:, None], rows, 0.0) * scale[:, None]",
        "rows * scale[:, None]",
        (f"{MOVEMENT}[1-90-huge moments]",),
    ),
    Mutant(
        "deviation of a vector for that of its products",
        FILE,
        "return self.clip**2",
        "return self.clip",
        (f"{MOMENTS}::test_the_noise_of_moments_is_what_is_charged",),
    ),
    Mutant(
        "too little noise off the diagonal",
        FILE,
        "np.where(np.eye(self.dimension, dtype=np.bool_), 1.0, math.sqrt(2))",
        "np.where(np.eye(self.dimension, dtype=np.bool_), 1.0, 2.0)",
        (f"{MOMENTS}::test_the_noise_of_moments_is_what_is_charged",),
    ),
    Mutant(
        "one noise for all groups",
        FILE,
        "noisy = noise.added((bounded * scale)[:, upper[0], upper[1]], self.noise * self.sensitivity)",
        "cells = (bounded * scale)[:, upper[0], upper[1]]\n"
        "        noisy = cells + noise.added(np.zeros(cells.shape[1]), self.noise * self.sensitivity)",
        (f"{MOMENTS}::test_the_noise_of_moments_is_what_is_charged",),
    ),
)


@pytest.mark.parametrize("mutant", MOMENT_MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_of_moments_is_caught(mutant, tmp_path):
    done = run_against(copied(tmp_path, mutant), mutant.tests)
    assert done.status == 1, f"{mutant.name} was not caught:\n{done.said[-4000:]}"
    assert " failed" in done.said
    assert "error" not in done.said.splitlines()[-1]


def test_the_tests_of_moments_pass_on_a_copy_that_was_not_changed(tmp_path):
    tests = tuple(sorted({test for mutant in MOMENT_MUTANTS for test in mutant.tests}))
    done = run_against(copied(tmp_path, None), tests)
    assert done.status == 0, done.said[-3000:]
