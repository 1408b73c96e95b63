"""Import paths as they were up to version 0.1: they lead to the same modules in their new places, and warn for one version."""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# Old name -> new name. A package stands for its modules too, unless they are named themselves; None: its modules went apart.
MOVED = {
    "auditing": "audit",
    "auditing.processes": "audit.many_fits",
    "data": None,
    "data.bins": "schema.bins",
    "data.cells": "schema.cells",
    "data.check": "schema.check",
    "data.codec": "schema.codec",
    "data.coders": "schema.coders",
    "data.columns": "schema.columns",
    "data.csvfile": "tables.csvfile",
    "data.draft": "sets.draft",
    "data.images": "images",
    "data.images.folder": "images.picture_folder",
    "data.images.look": "images.first_look",
    "data.jsonfile": "files.strict_json",
    "data.named": "sets.named",
    "data.rules": "schema.rules",
    "data.schema": "schema.schema",
    "data.sets": "sets",
    "data.sources": "sets.record_files",
    "data.tables": "tables.source",
    "data.where": "schema.where",
    "data.whole": "files.whole",
    "data.yamlfile": "schema.yamlfile",
    "evaluate.audit": "audit",
    "evaluate.audit.memory": "audit.canary_scores",
    "evaluate.audit.one_run": "audit.one_run_bound",
    "evaluate.audit.region": "evaluate.error_region",
    "generators.parts.checks": "generators.parts.setting_checks",
    "generators.parts.embeddings": "generators.parts.random_features",
    "generators.parts.model": "generators.parts.gan_model",
    "generators.parts.networks": "generators.parts.table_networks",
    "generators.parts.states": "generators.parts.training_state",
    "generators.parts.tables": "generators.parts.noisy_tables",
    "generators.parts.vectors": "generators.parts.record_vectors",
    "paper": "pages",
    "privacy": None,
    "privacy.account": "seal.charging",
    "privacy.accounting": "accounting",
    "privacy.accounting.checks": "accounting.event_checks",
    "privacy.accounting.filters": "accounting.caps",
    "privacy.accounting.group": "accounting.groups",
    "privacy.accounts": "budgets",
    "privacy.answers": "seal.answers",
    "privacy.batch": "seal.sample",
    "privacy.budget": "ledger.budget",
    "privacy.checkpoint": "seal.checkpoint",
    "privacy.clipping": "seal.clipping",
    "privacy.events": "ledger.events",
    "privacy.gradients": "seal.gradients",
    "privacy.learning": "seal.learn",
    "privacy.ledger": "ledger.ledger",
    "privacy.noise": "noise.noise",
    "privacy.parsing": "ledger.parsing",
    "privacy.questions": "seal.questions",
    "privacy.questions.cost": "seal.questions.vote_cost",
    "privacy.questions.grid": "seal.questions.histogram",
    "privacy.questions.marginals": "seal.questions.contingency",
    "privacy.questions.moments": "seal.questions.second_moments",
    "privacy.questions.shares": "seal.questions.vote_shares",
    "privacy.questions.together": "seal.questions.joint",
    "privacy.ranks": "seal.processes",
    "privacy.replay": "seal.replay",
    "privacy.safe": "seal.capped",
    "privacy.selection": "seal.best_of",
    "privacy.sensitive": "seal.door",
    "privacy.teachers": "seal.teachers",
    "privacy.teachers.estimators": "seal.teachers.sklearn_teachers",
    "privacy.teachers.stacked": "seal.teachers.network_teachers",
    "privacy.teachers.witness": "seal.teachers.kernel_teachers",
}
HOME = "synthdp."


def new_name(old: str) -> str | None:
    """Where a module is now; None for a package whose modules went apart. Raises `KeyError` for a name that did not move."""
    if old in MOVED:
        return MOVED[old]
    parent, dot, last = old.rpartition(".")
    if not dot:
        raise KeyError(old)
    home = new_name(parent)
    if home is None:
        raise KeyError(old)
    return f"{home}.{last}"


class Package(ModuleType):
    """Stands under an old name before a package, so that modules imported beneath the old name are not set on the new package."""

    def __getattr__(self, name: str) -> object:
        old = f"{self.__name__.removeprefix(HOME)}.{name}"
        found = getattr(self.__dict__["__wrapped__"], name, self)
        if old in MOVED and isinstance(found, ModuleType):  # not a function that is called as its module was
            return importlib.import_module(HOME + old)
        if found is self:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return found

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(value, ModuleType):  # which is what the import system sets
            setattr(self.__dict__["__wrapped__"], name, value)


class Moved(MetaPathFinder, Loader):
    """Finds modules by their old names, and gives the very ones of the new names; before a package it puts a `Package`."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if not fullname.startswith(HOME):
            return None
        try:
            home = new_name(fullname.removeprefix(HOME))
        except KeyError:
            return None
        found = None if home is None else importlib.util.find_spec(HOME + home)
        if home is not None and found is None:
            return None
        return ModuleSpec(
            fullname,
            self,
            is_package=found is None or found.submodule_search_locations is not None,
        )

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__.removeprefix(HOME)
        home = new_name(old)
        if home is None:
            return
        warnings.warn(
            f"{HOME}{old} is now {HOME}{home}; the old name goes with the next version",
            DeprecationWarning,
            stacklevel=2,  # the line that imports: frames of the import system do not count
        )
        found = importlib.import_module(HOME + home)
        if not hasattr(module, "__path__"):
            sys.modules[module.__name__] = found
            return
        vars(module).update(__doc__=found.__doc__, __wrapped__=found)
        module.__class__ = Package


def install() -> None:
    """Let old names be found. First of all finders, before any that looks into the folder of a new package."""
    if not any(isinstance(finder, Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, Moved())
