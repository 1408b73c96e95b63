"""Import paths up to version 0.1 lead to the same modules in their new places, and warn for one version."""

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
    "auditing.canary_scores": "audit.canaries",
    "auditing.direction": "audit.black_box",
    "auditing.processes": "audit.black_box",
    "cli.accounts": "cli.epsilon",
    "cli.bigtables": "cli.real_records",
    "cli.dataaccount": "cli.budgets",
    "cli.judged": "cli.evaluations",
    "cli.places": "cli.output_paths",
    "cli.preparing": "cli.before_fit",
    "cli.selections": "cli.fits",
    "cli.show": "cli.output_paths",
    "cli.sweeps": "cli.compare",
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
    "data.images.labels": "images.picture_folder",
    "data.images.look": "images.picture_draft",
    "data.images.raster": "images.pixels",
    "data.jsonfile": "files.strict_json",
    "data.named": "sets.named",
    "data.rules": "schema.rules",
    "data.schema": "schema.schema",
    "data.sets": "sets",
    "data.sources": "sets.record_files",
    "data.tables": "tables.source",
    "data.where": "schema.where",
    "data.whole": "files.atomic",
    "data.yamlfile": "schema.yamlfile",
    "evaluate.attacks.methods": None,
    "evaluate.attacks.methods.singling_out": "evaluate.attacks.singling_out",
    "evaluate.attacks.predicates": "evaluate.attacks.singling_out",
    "evaluate.attacks.rates": "evaluate.attacks.bounds",
    "evaluate.attacks.units": "evaluate.attacks.case",
    "evaluate.attacks.verdicts": "evaluate.attacks.bounds",
    "evaluate.audit": "audit",
    "evaluate.audit.canary_scores": "audit.canaries",
    "evaluate.audit.direction": "audit.black_box",
    "evaluate.audit.memory": "audit.canaries",
    "evaluate.audit.one_run": "audit.one_run_bound",
    "evaluate.audit.region": "evaluate.error_region",
    "evaluate.audit.thresholds": "audit",
    "evaluate.calibration": "evaluate.scores",
    "evaluate.curves": "evaluate.evaluation_plots",
    "evaluate.floors": "evaluate.utility",
    "evaluate.how": "evaluate.judging_options",
    "evaluate.images.accuracy": "evaluate.images.image_run",
    "evaluate.images.coverage": "evaluate.images.clouds",
    "evaluate.images.image_distances": "evaluate.images.clouds",
    "evaluate.images.image_plots": "evaluate.images.image_page",
    "evaluate.images.image_scores": "evaluate.images.image_utility",
    "evaluate.images.pixel_marginals": "evaluate.images.samples",
    "evaluate.images.sample_grid": "evaluate.images.samples",
    "evaluate.intervals": "evaluate.scores",
    "evaluate.judged_histories": "evaluate.history_fidelity",
    "evaluate.marginals": "evaluate.fidelity",
    "evaluate.missing": "evaluate.fidelity",
    "evaluate.numeric": "evaluate.fidelity",
    "evaluate.pictured": "evaluate.images.image_run",
    "evaluate.progress": "evaluate.judging_options",
    "evaluate.queries": "evaluate.association",
    "evaluate.quiet": "evaluate.estimators",
    "evaluate.ranks": "evaluate.utility",
    "evaluate.regressors": "evaluate.estimators",
    "evaluate.risk": "evaluate.findings",
    "evaluate.sections": "evaluate.evaluation_page",
    "evaluate.trials": "evaluate.utility",
    "files.whole": "files.atomic",
    "generators.adversarial.gan_settings": "generators.adversarial.game",
    "generators.adversarial.losses": "generators.adversarial.clipping_strategies",
    "generators.adversarial.optimizers": "generators.parts.training_state",
    "generators.adversarial.original_mode": "generators.pategan_original",
    "generators.adversarial.shares_mode": "generators.adversarial.kernel_rounds",
    "generators.adversarial.table_player": "generators.adversarial.table_generator_network",
    "generators.gaussians.estimates": "generators.gaussians.one_shot",
    "generators.images.coefficients": "generators.images.image_kernel_rounds",
    "generators.images.denoisers": "generators.images.diffusion",
    "generators.images.image_player": "generators.images.image_generator_network",
    "generators.images.image_shares_mode": "generators.images.image_kernel_rounds",
    "generators.images.latent": "generators.images.diffusion_model",
    "generators.images.starting_points": "generators.images.image_generator_network",
    "generators.marginals.bayesian_network": "generators.marginals.junction_tree",
    "generators.marginals.binned": "generators.marginals.grouping",
    "generators.marginals.conditioned": "generators.marginals.grouping",
    "generators.marginals.mirror_descent": "generators.marginals.inference",
    "generators.parts.checks": "generators.parts.setting_checks",
    "generators.parts.embeddings": "generators.dpmerf",
    "generators.parts.model": "generators.parts.gan_model",
    "generators.parts.networks": "generators.parts.table_networks",
    "generators.parts.random_features": "generators.dpmerf",
    "generators.parts.states": "generators.parts.training_state",
    "generators.parts.tables": "generators.parts.noisy_tables",
    "generators.parts.vectors": "generators.parts.record_vectors",
    "images.first_look": "images.picture_draft",
    "paper": "pages",
    "pate.query_choice": "pate.one_fit",
    "pate.students.estimator": "pate.students.named_students",
    "pate.students.layers": "pate.students.network",
    "pate.trial": "pate.teaching",
    "privacy": None,
    "privacy.account": "seal.charging",
    "privacy.accounting": "accounting",
    "privacy.accounting.checks": "accounting.charges",
    "privacy.accounting.event_checks": "accounting.charges",
    "privacy.accounting.filters": "accounting.caps",
    "privacy.accounting.gaussian_mixture": "accounting.groups",
    "privacy.accounting.group": "accounting.groups",
    "privacy.accounting.pate.tail_bounds": "accounting.pate.vote_counts",
    "privacy.accounting.sampled_gaussian": "accounting.accountants.moments",
    "privacy.accounting.smooth_gaussian": "accounting.analytic_gaussian",
    "privacy.accounts": "budgets",
    "privacy.answers": "seal.resume",
    "privacy.batch": "seal.asking",
    "privacy.budget": "ledger.budget",
    "privacy.checkpoint": "seal.resume",
    "privacy.clipping": "seal.clipping",
    "privacy.events": "ledger.events",
    "privacy.gradients": "seal.gradients",
    "privacy.gradients.convolution": "seal.gradients.layers",
    "privacy.gradients.fallback": "seal.gradients.explicit",
    "privacy.gradients.float64": "seal.gradients",
    "privacy.gradients.freed_memory": "seal.gradients",
    "privacy.gradients.layer_kinds": "seal.gradients.layers",
    "privacy.gradients.layer_rules": "seal.gradients.layers",
    "privacy.gradients.reference": "seal.gradients.explicit",
    "privacy.gradients.rows": "seal.gradients.bound",
    "privacy.gradients.survey": "seal.gradients.bookkeeping",
    "privacy.learning": "seal.learn",
    "privacy.ledger": "ledger.ledger",
    "privacy.noise": "noise.noise",
    "privacy.parsing": "ledger.parsing",
    "privacy.questions": None,
    "privacy.questions.ballots": "seal.teachers.sealed_teachers",
    "privacy.questions.choice": "seal.choice",
    "privacy.questions.contingency": "seal.marginals",
    "privacy.questions.distance": "seal.marginals",
    "privacy.questions.domain": "seal.learn",
    "privacy.questions.gradient": "seal.gradients.question",
    "privacy.questions.grid": "seal.learn",
    "privacy.questions.histogram": "seal.learn",
    "privacy.questions.joint": "seal.gradients.question",
    "privacy.questions.marginals": "seal.marginals",
    "privacy.questions.moments": "seal.vectors",
    "privacy.questions.reveal": "seal.questions",
    "privacy.questions.second_moments": "seal.vectors",
    "privacy.questions.shares": "seal.teachers.vote_aggregation",
    "privacy.questions.size": "seal.learn",
    "privacy.questions.sums": "seal.vectors",
    "privacy.questions.together": "seal.gradients.question",
    "privacy.questions.vote_shares": "seal.teachers.vote_aggregation",
    "privacy.questions.votes": "seal.teachers.vote_aggregation",
    "privacy.ranks": "seal.processes",
    "privacy.replay": "seal.replay",
    "privacy.safe": "seal.asking",
    "privacy.selection": "seal.best_of",
    "privacy.sensitive": "seal.door",
    "privacy.teachers": "seal.teachers",
    "privacy.teachers.estimators": "seal.teachers.sklearn_teachers",
    "privacy.teachers.partition": "seal.teachers.protocols",
    "privacy.teachers.stacked": "seal.teachers.network_teachers",
    "privacy.teachers.teacher_checks": "seal.teachers.protocols",
    "privacy.teachers.witness": "seal.teachers.mean_embeddings",
    "report.compared": "report.plots",
    "report.dictionary": "report.statement_page",
    "report.fitness_figures": "report.fitness_words",
    "report.lost": "report.information_loss",
    "report.meaning": "report.promise",
    "report.sweepcost": "report.sweep",
    "report.sweeppage": "report.sweep_page",
    "report.sweepplot": "report.plots",
    "schema.gaps": "schema.ordered_columns",
    "schema.ties": "schema.tied_columns",
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
            f"{HOME}{old} is now {HOME}{home}; the next version drops the old name",
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
