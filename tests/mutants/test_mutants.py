"""Seeded mutants (GUARANTEE 29): each is a patch that breaks one promise; the tests that guard it must fail.

A mutant is applied to a copy of the package, and the tests named with it run against that copy in a process of their own
(`forge.py`). The
same tests must pass on a copy that was not changed, or being caught would mean nothing.
"""

import atexit
import compileall
import functools
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import synthdp

HOME = Path(__file__).parents[2]
PACKAGE = Path(synthdp.__file__).parent


@dataclass(frozen=True)
class Mutant:
    """`old` occurs once in `file` and becomes `new`; `tests` are what should notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """How a run of pytest ended, and what it printed."""

    status: int
    said: str


QUESTIONS = "tests/privacy/test_questions.py"
SENSITIVE = "tests/privacy/test_sensitive.py"
GRADIENTS = "tests/privacy/test_gradients.py"
CONTRACT = "tests/generators/test_contract.py"
LAPLACE = "return winners(bounded if math.isinf(self.gamma) else noise.added_laplace(bounded, 1 / self.gamma))"
CHARGE = "        for event, equal in groupby(question.events):\n            self.account.book(event, len(list(equal)))"
VOTES = "tests/privacy/test_votes.py"
TEACHERS = "tests/privacy/test_teachers.py"

MUTANTS = (
    Mutant(
        "no clip of sums",
        "privacy/questions/sums.py",
        "total: Vector = clipped(per_unit, group.clip).sum(axis=0)",
        "total: Vector = np.where(np.isfinite(per_unit).all(axis=1)[:, None], per_unit, 0.0).sum(axis=0)",
        (f"{QUESTIONS}::test_one_unit_moves_the_bounded_value_by_at_most_the_sensitivity",),
    ),
    Mutant(
        "no clip of gradients",
        "privacy/gradients/bound.py",
        "return squares.clamp_min(limit * limit).rsqrt_().mul_(limit)",
        "return torch.ones_like(squares)",
        (f"{GRADIENTS}::test_one_unit_more_moves_the_sum_by_at_most_the_clip",),
    ),
    Mutant(
        "clip after averaging",
        "privacy/questions/sums.py",
        "total: Vector = clipped(per_unit, group.clip).sum(axis=0)",
        "finite = per_unit[np.isfinite(per_unit).all(axis=1)]\n"
        "    total: Vector = clipped(finite.sum(0, keepdims=True) / max(1, records.units), group.clip)[0] * records.units",
        (f"{QUESTIONS}::test_one_unit_moves_the_bounded_value_by_at_most_the_sensitivity",),
    ),
    Mutant(
        "each record clipped, not each unit",
        "privacy/questions/sums.py",
        "np.add.at(per_unit, records.owner, vectors)",
        "lengths = np.linalg.norm(vectors, axis=1, keepdims=True)\n"
        "        np.add.at(per_unit, records.owner, vectors * np.minimum(1.0, group.clip / np.maximum(lengths, 1e-300)))\n"
        "        return per_unit.sum(0)",
        (f"{SENSITIVE}::test_sums_clip_each_unit_not_each_record_nor_the_batch",),
    ),
    Mutant(
        "noise divided by the batch twice",
        "privacy/questions/gradient.py",
        "deviation = self.noise * self.sensitivity",
        "deviation = self.noise * self.sensitivity / 64",
        (f"{QUESTIONS}::test_the_gradient_s_noise_is_its_charge_and_differs_each_time",),
    ),
    Mutant(
        "noise drawn once",
        "privacy/noise.py",
        "return self._rounded(here, deviation).float().to(sums.device)",
        "kept = self.__dict__.setdefault('_once', {})\n"
        "        if len(here) not in kept:\n"
        "            kept[len(here)] = self._rounded(torch.zeros_like(here), deviation)\n"
        "        return (here + kept[len(here)]).float()",
        (f"{QUESTIONS}::test_the_gradient_s_noise_is_its_charge_and_differs_each_time",),
    ),
    Mutant(
        "the same seed each step",
        "privacy/noise.py",
        "            return hardened.rounded(flat, deviation, self._stream)",
        "            self._stream = Stream(self._master or bytes(32), b'synthdp stream')\n"
        "            return hardened.rounded(flat, deviation, self._stream)",
        (f"{QUESTIONS}::test_the_gradient_s_noise_is_its_charge_and_differs_each_time",),
    ),
    Mutant(
        "deviation in place of the noise multiplier",
        "privacy/questions/marginals.py",
        "return self.max_records * math.sqrt(len(self.cliques))",
        "return float(self.max_records)",
        (f"{QUESTIONS}::test_one_unit_moves_the_bounded_value_by_at_most_the_sensitivity",),
    ),
    Mutant(
        "missing bracket in the moments",
        "privacy/accounting/accountants/moments.py",
        "found: Array = (whole - math.log(delta)) / orders",
        "found: Array = whole - math.log(delta) / orders",
        ("tests/privacy/test_accounting_reference.py::test_published_figures_of_strong_composition_and_moments",),
    ),
    Mutant(
        "missing log in the moments",
        "privacy/accounting/accountants/moments.py",
        "found: Array = (whole - math.log(delta)) / orders",
        "found: Array = (whole - delta) / orders",
        ("tests/privacy/test_accounting_reference.py::test_published_figures_of_strong_composition_and_moments",),
    ),
    Mutant(
        "divisor is the batch that came",
        "privacy/questions/gradient.py",
        "        return self.measured(records, counting=False)[0]",
        "        found = self.measured(records, counting=False)[0]\n"
        "        found.flat.div_(max(1, records.units))\n"
        "        return found",
        (f"{SENSITIVE}::test_a_gradient_is_the_sum_over_the_units_that_came_whatever_their_number",),
    ),
    Mutant(
        "bounds from the data",
        "privacy/sensitive.py",
        "                schema = learning.resolve(self.schema.settled(), self._terms, self)",
        "                schema = learning.resolve(self.schema.settled(), self._terms, self)\n"
        "                with reading():\n"
        "                    age = self._sealed.read().column('age')\n"
        "                schema = schema.with_learned('age', bounds=(min(0, int(age.min())), max(99, int(age.max()))))",
        ("tests/generators/test_laws.py::test_an_outlier_or_a_rare_category_changes_no_shape",),
    ),
    Mutant(
        "accountant skipped on an early return",
        "privacy/sensitive.py",
        "        self.check(question)\n" + CHARGE,
        "        self.check(question)\n"
        "        with reading():\n"
        "            if not self._sealed.read().units:\n"
        "                return self._answer(question)\n" + CHARGE,
        (f"{CONTRACT}::test_the_ledger_is_the_plan_whatever_the_records_are",),
    ),
    Mutant(
        "answered before it is charged",
        "privacy/sensitive.py",
        CHARGE + "\n        return self._answer(question)",
        "        answer = self._answer(question)\n" + CHARGE + "\n        return answer",
        (f"{SENSITIVE}::test_the_charge_is_on_disk_before_the_answer",),
    ),
    Mutant(
        "stop one step late",
        "privacy/account.py",
        "if self._left[event] < count:",
        "if self._left[event] < count - 1:",
        (f"{SENSITIVE}::test_a_question_outside_the_plan_is_refused_and_not_charged",),
    ),
    Mutant(
        "ledger reset on resume",
        "privacy/ledger.py",
        "            ledger = cls._read(path)",
        "            path.write_text('')\n            ledger = cls()",
        ("tests/privacy/test_resume.py::test_redone_steps_are_charged_again_and_leave_fewer",),
    ),
    Mutant(
        "a redone step repeats its noise",
        "privacy/sensitive.py",
        "            self._noise.turn(self._place)",
        "            self._noise.turn(0) if self._place == 1 else None",
        (
            "tests/privacy/test_resume.py::test_a_rehearsal_resumed_before_its_first_redone_step_equals_an_uninterrupted_one",
        ),
    ),
    Mutant(
        "gradients in float32",
        "privacy/gradients/__init__.py",
        "    own, module = module, in_float64(module)\n"
        "    records = records.double() if records.is_floating_point() else records",
        "    own = module",
        (f"{GRADIENTS}::test_rounding_that_adds_up_stays_within_the_margin",),
    ),
    Mutant(
        "two fits on one ledger",
        "privacy/ledger.py",
        "        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "        pass",
        ("tests/privacy/test_resume.py::test_a_fit_that_runs_cannot_be_resumed",),
    ),
    Mutant(
        "a checkpoint resumed twice",
        "privacy/checkpoint.py",
        "            if each.name not in ledger.resumed:",
        "            if True:",
        ("tests/privacy/test_resume.py::test_a_checkpoint_is_resumed_once",),
    ),
    Mutant(
        "noise on labels instead of votes",
        "privacy/questions/votes.py",
        LAPLACE,
        "labels = np.eye(bounded.shape[1])[winners(bounded)]\n"
        "        return winners(noise.added_laplace(labels, 1 / self.gamma))",
        (f"{VOTES}::test_lnmax_errs_as_often_as_two_laplace_noises_make_it",),
    ),
    Mutant(
        "gamma for 1/gamma",
        "privacy/questions/votes.py",
        LAPLACE,
        "return winners(noise.added_laplace(bounded, self.gamma))",
        (f"{VOTES}::test_lnmax_errs_as_often_as_two_laplace_noises_make_it",),
    ),
    Mutant(
        "noise on one count only",
        "privacy/questions/votes.py",
        LAPLACE,
        "noisy = noise.added_laplace(bounded, 1 / self.gamma)\n"
        "        return winners(np.column_stack([noisy[:, :1], bounded[:, 1:]]))",
        (f"{VOTES}::test_lnmax_errs_as_often_as_two_laplace_noises_make_it",),
    ),
    Mutant(
        "margins not clipped",
        "privacy/questions/shares.py",
        "clipped(scores, clip).sum(axis=0)",
        "np.where(np.isfinite(scores), scores, 0.0).sum(axis=0)",
        (f"{VOTES}::test_one_teacher_moves_shares_by_at_most_the_sensitivity_and_comes_near_it",),
    ),
    Mutant(
        "stale partition index",  # all teachers learn from the part that the last loop left its index at
        "privacy/teachers/stacked.py",
        "own = self._starts[teachers, None] +",
        "own = self._starts[-1] +",
        (f"{TEACHERS}::test_a_patient_more_changes_what_one_teacher_says_and_not_a_bit_of_the_others",),
    ),
    Mutant(
        "partition drawn again each step",
        "privacy/teachers/stacked.py",
        "                own, weight = self._batch(teachers, step)",
        "                own, weight = self._batch(teachers, step)\n                own = own.roll(step, 0)",
        (f"{TEACHERS}::test_a_patient_more_changes_what_one_teacher_says_and_not_a_bit_of_the_others",),
    ),
    Mutant(
        "partition drawn again on resume",
        "privacy/sensitive.py",
        'return bytes.fromhex(kept["seal"]) if "seal" in kept else drawn',
        "return drawn",
        (f"{TEACHERS}::test_a_release_that_is_resumed_keeps_its_partition",),
    ),
    Mutant(
        "partition by records, not by patients",
        "privacy/teachers/parts.py",
        "    teacher = (keys % np.uint64(count)).astype(np.int64)",
        "    teacher = ((keys + np.arange(len(keys), dtype=np.uint64)) % np.uint64(count)).astype(np.int64)",
        (f"{TEACHERS}::test_parts_are_disjoint_by_patient_and_hold_everything",),
    ),
    Mutant(
        "real rows kept in the artefact",
        "generators/independent.py",
        "        schema = data.resolve()",
        "        schema = data.resolve()\n"
        "        rows, plain = data._sealed._Sealed__records.codes, IndependentModel.tensors\n"
        "        IndependentModel.tensors = lambda own: {**plain(own), 'rows': rows}",
        (f"{CONTRACT}::test_the_release_holds_no_rows",),
    ),
)


@functools.lru_cache(1)
def compiled() -> Path:
    """The package with its bytecode, which holds as long as the source has the same hash: a patched file's does not."""
    folder = Path(tempfile.mkdtemp(prefix="mutants"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(PACKAGE, folder / "synthdp", ignore=shutil.ignore_patterns("__pycache__"))
    by_content = py_compile.PycInvalidationMode.CHECKED_HASH
    assert compileall.compile_dir(folder / "synthdp", quiet=1, invalidation_mode=by_content)
    return folder / "synthdp"


def copied(folder: Path, mutant: Mutant | None) -> Path:
    """A copy of the package, with the mutant's patch."""
    shutil.copytree(compiled(), folder / "synthdp")
    (folder / "conf").symlink_to(HOME / "conf")
    if mutant is not None:
        file = folder / "synthdp" / mutant.file
        text = file.read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, f"the patch of {mutant.name!r} does not fit {mutant.file} any more"
        file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    return folder


@functools.lru_cache(1)
def forge() -> subprocess.Popen[str]:
    """The process whose forks run the tests."""
    worker = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("forge.py"))],
        cwd=HOME,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # Hydra brings one, and pytest would rewrite all of Hydra for each mutant
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(worker.communicate)  # closes its input, at which it ends
    return worker


def run_against(folder: Path, tests: tuple[str, ...]) -> Done:
    """The tests, run against the package in `folder`."""
    words = ["-x", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    output, worker = folder / "output.txt", forge()
    worker.stdin.write(json.dumps({"folder": str(folder), "arguments": words, "output": str(output)}) + "\n")
    worker.stdin.flush()
    status = worker.stdout.readline()
    return Done(status=int(status), said=output.read_text(encoding="utf-8"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_caught(mutant, tmp_path):
    done = run_against(copied(tmp_path, mutant), mutant.tests)
    assert done.status == 1, f"{mutant.name} was not caught:\n{done.said[-4000:]}"
    assert " failed" in done.said
    assert "error" not in done.said.splitlines()[-1]


def test_the_same_tests_pass_on_a_copy_that_was_not_changed(tmp_path):
    tests = tuple(sorted({test for mutant in MUTANTS for test in mutant.tests}))
    done = run_against(copied(tmp_path, None), tests)
    assert done.status == 0, done.said[-3000:]


def test_the_copy_is_what_is_tested(tmp_path):
    copied(tmp_path, None)
    (tmp_path / "synthdp" / "errors.py").write_text("raise RuntimeError('this is the copy')\n", encoding="utf-8")
    done = run_against(tmp_path, (f"{QUESTIONS}",))
    assert done.status != 0
    assert "this is the copy" in done.said
