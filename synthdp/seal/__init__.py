"""The seal: the only code that runs while records are open.

Generators import it from here, by the names of `__all__`, and nothing of the modules beneath: `tests/test_layers.py` says so.
Names are looked up on first use, so that what needs no network does not wait for torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synthdp.seal.asking import Batch, Safe
    from synthdp.seal.choice import MOST_OFFSET, MOST_RECORDS, Dependence, Misfit
    from synthdp.seal.clipping import ALLOCATIONS, Automatic, Flat, PerGroup, Rule, adapted, decayed, layout
    from synthdp.seal.door import Sensitive
    from synthdp.seal.gradients.buckets import Buckets
    from synthdp.seal.gradients.question import Counted, Gradient, Together
    from synthdp.seal.gradients.rows_apart import following, row_wise
    from synthdp.seal.history_tables import HistoryTables
    from synthdp.seal.marginals import Grouping, Marginals
    from synthdp.seal.replay import tried
    from synthdp.seal.teachers.mean_embeddings import Kernel, MeanEmbeddings, public_embedding
    from synthdp.seal.teachers.network_teachers import Stacked
    from synthdp.seal.teachers.protocols import first_line, public_rows
    from synthdp.seal.teachers.sealed_teachers import checked
    from synthdp.seal.teachers.sklearn_teachers import Estimators
    from synthdp.seal.teachers.vote_aggregation import Confident, Counts, GNMax, Interactive, Labels, LNMax, Shares
    from synthdp.seal.to_device import moved
    from synthdp.seal.vectors import Group, GroupMoments, GroupSums, Sums

_HOMES = {
    "asking": ("Batch", "Safe"),
    "choice": ("Dependence", "MOST_OFFSET", "MOST_RECORDS", "Misfit"),
    "clipping": ("ALLOCATIONS", "Automatic", "Flat", "PerGroup", "Rule", "adapted", "decayed", "layout"),
    "door": ("Sensitive",),
    "gradients.buckets": ("Buckets",),
    "gradients.question": ("Counted", "Gradient", "Together"),
    "gradients.rows_apart": ("following", "row_wise"),
    "history_tables": ("HistoryTables",),
    "to_device": ("moved",),
    "replay": ("tried",),
    "marginals": ("Grouping", "Marginals"),
    "teachers.mean_embeddings": ("Kernel", "MeanEmbeddings", "public_embedding"),
    "teachers.network_teachers": ("Stacked",),
    "teachers.protocols": ("first_line", "public_rows"),
    "teachers.sealed_teachers": ("checked",),
    "teachers.sklearn_teachers": ("Estimators",),
    "teachers.vote_aggregation": ("Confident", "Counts", "GNMax", "Interactive", "LNMax", "Labels", "Shares"),
    "vectors": ("Group", "GroupMoments", "GroupSums", "Sums"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ALLOCATIONS",
    "MOST_OFFSET",
    "MOST_RECORDS",
    "Automatic",
    "Batch",
    "Buckets",
    "Confident",
    "Counted",
    "Counts",
    "Dependence",
    "Estimators",
    "Flat",
    "GNMax",
    "Gradient",
    "Group",
    "GroupMoments",
    "GroupSums",
    "Grouping",
    "HistoryTables",
    "Interactive",
    "Kernel",
    "LNMax",
    "Labels",
    "Marginals",
    "MeanEmbeddings",
    "Misfit",
    "PerGroup",
    "Rule",
    "Safe",
    "Sensitive",
    "Shares",
    "Stacked",
    "Sums",
    "Together",
    "adapted",
    "checked",
    "decayed",
    "first_line",
    "following",
    "layout",
    "moved",
    "public_embedding",
    "public_rows",
    "row_wise",
    "tried",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(f"synthdp.seal.{_HOME_OF[name]}"), name)
    return found
