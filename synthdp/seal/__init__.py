"""The seal: the only code that runs while records are open.

Generators import it from here, by the names of `__all__`, and nothing of the modules beneath: `tests/test_layers.py` says so.
Names are looked up on first use, so that what needs no network does not wait for torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synthdp.seal.capped import Safe
    from synthdp.seal.clipping import (
        ALLOCATIONS,
        Automatic,
        Flat,
        PerGroup,
        Rule,
        adapted,
        decayed,
        layout,
    )
    from synthdp.seal.door import Sensitive
    from synthdp.seal.questions.choice import (
        MOST_OFFSET,
        MOST_RECORDS,
        Dependence,
        Misfit,
    )
    from synthdp.seal.questions.contingency import Grouping, Marginals
    from synthdp.seal.questions.gradient import Gradient
    from synthdp.seal.questions.joint import Counted
    from synthdp.seal.questions.second_moments import GroupMoments, GroupSums
    from synthdp.seal.questions.vote_shares import Shares
    from synthdp.seal.questions.votes import (
        Confident,
        Counts,
        GNMax,
        Interactive,
        Labels,
        LNMax,
    )
    from synthdp.seal.records import moved
    from synthdp.seal.sample import Batch
    from synthdp.seal.teachers.kernel_teachers import Kernel, Witness, against
    from synthdp.seal.teachers.network_teachers import Stacked
    from synthdp.seal.teachers.sealed_teachers import checked
    from synthdp.seal.teachers.sklearn_teachers import Estimators
    from synthdp.seal.teachers.teacher_checks import first_line, public_rows

_HOMES = {
    "capped": ("Safe",),
    "clipping": (
        "ALLOCATIONS",
        "Automatic",
        "Flat",
        "PerGroup",
        "Rule",
        "adapted",
        "decayed",
        "layout",
    ),
    "door": ("Sensitive",),
    "questions.choice": ("MOST_OFFSET", "MOST_RECORDS", "Dependence", "Misfit"),
    "questions.contingency": ("Grouping", "Marginals"),
    "questions.gradient": ("Gradient",),
    "questions.joint": ("Counted",),
    "questions.second_moments": ("GroupMoments", "GroupSums"),
    "questions.vote_shares": ("Shares",),
    "questions.votes": (
        "Confident",
        "Counts",
        "GNMax",
        "Interactive",
        "LNMax",
        "Labels",
    ),
    "records": ("moved",),
    "sample": ("Batch",),
    "teachers.kernel_teachers": ("Kernel", "Witness", "against"),
    "teachers.network_teachers": ("Stacked",),
    "teachers.sealed_teachers": ("checked",),
    "teachers.sklearn_teachers": ("Estimators",),
    "teachers.teacher_checks": ("first_line", "public_rows"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ALLOCATIONS",
    "MOST_OFFSET",
    "MOST_RECORDS",
    "Automatic",
    "Batch",
    "Confident",
    "Counted",
    "Counts",
    "Dependence",
    "Estimators",
    "Flat",
    "GNMax",
    "Gradient",
    "GroupMoments",
    "GroupSums",
    "Grouping",
    "Interactive",
    "Kernel",
    "LNMax",
    "Labels",
    "Marginals",
    "Misfit",
    "PerGroup",
    "Rule",
    "Safe",
    "Sensitive",
    "Shares",
    "Stacked",
    "Witness",
    "adapted",
    "against",
    "checked",
    "decayed",
    "first_line",
    "layout",
    "moved",
    "public_rows",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'synthdp.seal' has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(f"synthdp.seal.{_HOME_OF[name]}"), name)
    return found
