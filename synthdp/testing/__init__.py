"""The contract suite: what every generator must keep, checked on made-up records. For generators of other packages too.

    from synthdp.testing import check_generator, checks

    check_generator(MyGenerator(steps=10))

    @pytest.mark.parametrize("check", checks(MyGenerator(steps=10)), ids=str)
    def test_my_generator(check):
        check()

It finds mistakes: a question that a neighbour moves too far, a plan that is not the ledger, a model that keeps records. It proves no
guarantee: what a generator hands in to the seal stays trusted (PRIVACY.md, section 2). "Law n" is row n of PRIVACY.md, section 9.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from synthdp import generators
from synthdp.testing.contract import CHECKS, Subject

__all__ = ["Check", "check_generator", "checks"]


@dataclass(frozen=True)
class Check:
    """One check of one generator: call it. `str` is its name, for a test's id."""

    function: Callable[[Subject], None]
    subject: Subject

    def __str__(self) -> str:
        return f"{self.subject.data}-{self.function.__name__}"

    def __call__(self) -> None:
        """Raise `AssertionError`, which says what does not hold, or whatever the generator raises."""
        self.function(self.subject)


def checks(generator: Any) -> list[Check]:
    """Every check of a generator with settings so small that a fit takes a second or less; of a class, at its defaults.

    On tables, on images, or on both, as its traits say.
    """
    made = generator() if isinstance(generator, type) else generator
    generators.check_traits(type(made), getattr(made, "name", type(made).__name__))
    return [Check(function, Subject(made, kind)) for kind in made.traits.kinds for function in CHECKS]


def check_generator(generator: Any) -> None:
    """Run all `checks`; the first that fails raises."""
    for check in checks(generator):
        check()
