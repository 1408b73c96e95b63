"""Generators: one file per algorithm, found by being there; what several share lies in packages beside them.

Third parties add one by an entry point `synthdp.generators`.
"""

import dataclasses
import functools
import importlib
import importlib.metadata
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput, listed, nearest, outside
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Plan
from synthdp.options import MOST
from synthdp.schema import linked_tables
from synthdp.schema.bins import BINS
from synthdp.schema.columns import LEARN, Categorical, Continuous, Integer
from synthdp.schema.history_view import check_counted
from synthdp.schema.schema import Schema
from synthdp.tables import source as tables

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.schema.codec import Codec
    from synthdp.schema.where import Allowed
    from synthdp.seal import Sensitive  # imports torch, which a list of names does not need

HOUSE, GROUP = "synthdp", "synthdp.generators"
TABLE, IMAGES, HISTORIES = "table", "images", "histories"  # what a generator may learn: `Traits.kinds`
DEFAULT = {TABLE: "mixture", IMAGES: "classgauss"}  # the generator of each kind that is fitted where nobody names one

# Up to version 0.1 `pategan` was two generators: its setting `mode` chose one, and the settings of the other kept their defaults.
MODES: dict[Any, tuple[str, dict[str, Any]]] = {
    "shares": (
        "kernel_teachers",
        {
            "gamma": None,
            "teacher_hidden": [16],
            "teacher_steps": 5,
            "teacher_batch": 64,
            "teacher_rate": 1e-2,
            "student_steps": 5,
            "student_rate": 1e-3,
        },
    ),
    "original": ("pategan_original", {"witness_weight": 1.0, "degree": None, "rare_floor": 0.02, "clip_quantile": 0.5}),
}

# Up to version 0.1 these learned images too: what was their image half is a generator of its own.
IMAGE_HALVES = {"dpgan": "dpgan_images", "kernel_teachers": "kernel_teachers_images"}

# Settings that have other names since.
KERNELS = {"witness_weight": "student_weight"}
SETTINGS = {"kernel_teachers": KERNELS, "kernel_teachers_images": KERNELS}

ROUNDED = 1e-3  # by which shares that were added up in float32 may miss 1
MANY_SCALES = 1000  # how far apart the bounds of numbers below visits may be before bins are asked for
SHOWN = 60  # characters of a name that is somebody else's
# Half a second: it lists all installed files
packages_distributions = functools.cache(importlib.metadata.packages_distributions)

Tensors = dict[str, NDArray[Any]]
Progress = Callable[[int, int, Mapping[str, float]], None]  # step, steps, public figures of the training


def silent(step: int, steps: int, figures: Mapping[str, float]) -> None:
    """A progress callback that shows nothing."""


class Model(Protocol):
    """What a fit returns: free to share. All of it is a function of charged answers and public facts."""

    @property
    def schema(self) -> Schema:
        """The fully declared schema of what it samples."""
        ...

    def sample(self, rows: int, *, seed: int | None = None, first_row: int = 0) -> "pd.DataFrame":
        """`rows` synthetic records in the schema's columns; identifiers are numbered from `first_row`."""
        ...

    def tensors(self) -> Tensors:
        """The arrays that, with schema and settings, are the model."""
        ...


@runtime_checkable
class Conditional(Protocol):
    """What a model may do besides: draw records that satisfy a condition, exactly as often as it draws them among all.

    A generator whose models can says so: `Traits(conditional=True)`.
    """

    @property
    def codec(self) -> "Codec":
        """Of the codes that conditions are about."""
        ...

    def sample_where(
        self, rows: int, allowed: "Allowed", *, seed: int | None = None, first_row: int = 0
    ) -> "pd.DataFrame":
        """`rows` records of the model's distribution given the condition; `BadInput` where that has probability zero."""
        ...


@runtime_checkable
class Linked(Protocol):
    """What a model of linked tables does: draw people with their rows in all tables."""

    def sample_tables(
        self, people: int, *, where: Mapping[str, Any] | None = None, seed: int | None = None, first_row: int = 0
    ) -> "dict[str, pd.DataFrame]":
        """The tables of so many people; identifiers are numbered from `first_row`. `where`: a condition on people, see `schema.where`."""
        ...


@runtime_checkable
class Related(Protocol):
    """A model of histories that knows which columns and codes it relates to each other."""

    def unrelated(self) -> "list[tuple[str, str, bool]]":
        """Pairs of columns of a visit, or of codes below visits, that no table relates; true if the second column's codes are those of the
        previous visit, false if both are of one visit."""
        ...


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What every generator of one class is like, whatever its settings: known before a fit, and asked without one."""

    kinds: tuple[Literal["table", "images", "histories"], ...] = ("table",)
    """What it learns."""
    counted: bool = False
    """It asks for tables of counts and nothing else, so the records may stay in a database."""
    conditional: bool = False
    """Its models are `Conditional`."""
    chooses: bool = False
    """Its model's shape is itself a charged answer, or follows from one."""
    draws: bool = True
    """Its models draw synthetic records."""


class Generator(Protocol):
    """A frozen dataclass of settings. `validate` and `plan` read no data; `fit` commits the plan, asks its questions and learns a
    model."""

    name: ClassVar[str]
    traits: ClassVar[Traits]

    def validate(self, schema: Schema, budget: Budget) -> None:
        """Raise `BadInput`, which names the option, for all that a fit of this schema would refuse: nothing is charged yet.

        What settings, schema and budget say does not refuse a fit later on. Where the schema leaves something to learn, the fit
        takes whatever is bought.
        """
        ...

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The events that a fit will book, beyond what the schema leaves to learn."""
        ...

    def fit(self, data: "Sensitive", *, seed: int | None = None, progress: Progress = silent) -> Model:
        """Learn a model from charged answers: commit the plan for `data.declared`, resolve the schema, ask questions.

        `seed` fixes the generator's own randomness, not the noise.
        """
        ...

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The model with these `tensors`; raises `BadInput` where names or shapes do not fit."""
        ...


def origin(generator: Generator) -> dict[str, str] | None:
    """The package that a generator of a third party comes from, and the version of its distribution ("not known" without one).

    None for synthdp's own: the very class that its module holds, not one that only says so.
    """
    kind = type(generator)
    package = kind.__module__.partition(".")[0]
    if package == HOUSE and getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind:
        return None
    return {"package": package, "version": _version(package)}


def _version(package: str) -> str:
    distribution = next(iter(packages_distributions().get(package, ())), None)
    return "not known" if distribution is None else version(distribution)


def check_trust(made: Iterable[Generator], trust: str | None) -> None:
    """Refuse generators of packages that the steward did not name: a generator is trusted code, which no check can hold to its
    questions. `trust` is a package, or several joined by commas."""
    trusted = () if trust is None else tuple(name.strip() for name in trust.split(","))
    if "synthdp" in trusted:
        raise BadInput(
            "trust names 'synthdp', whose own generators need no trust: name the package that the generator comes from"
        )
    needed = {found["package"]: one.name for one in made if (found := origin(one)) is not None}
    for package, name in needed.items():
        if package not in trusted:
            raise BadInput(
                f"generator {name} comes from the package {package!r}, not from synthdp. A generator runs where the records are "
                f"and can read them. Give trust={package} if you trust that package; the statement will name it"
            )
    idle = [name for name in trusted if name not in needed]
    if idle:
        raise BadInput(f"trust names {idle[0]!r}, but no generator of this fit comes from it: leave it out")


def names() -> tuple[str, ...]:
    """All generators, the house's own first."""
    own = _own()
    return (*own, *sorted(point.name for point in entry_points(group=GROUP) if point.name not in own))


@functools.cache
def _own() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg))


def find(name: str) -> type[Generator]:
    """The settings class of a generator; raises `BadInput` for an unknown name."""
    if name in _own():
        found: type[Generator] = importlib.import_module(f"{__name__}.{name}").GENERATOR
        return found
    for point in entry_points(group=GROUP):  # reads the metadata of every installed distribution
        if point.name == name:
            loaded: type[Generator] = point.load()
            check_traits(loaded, name)
            return loaded
    raise BadInput(f"no generator named {name!r}{nearest(str(name), names()) or '.'} Known: {', '.join(names())}")


def check_traits(kind: type[Generator], name: str) -> None:
    """Refuse a class that does not say what it learns."""
    if not hasattr(kind, "traits"):
        raise BadInput(
            f"the class of generator {name} has no traits: give it `traits: ClassVar[Traits] = Traits(...)`, with `Traits` of "
            "synthdp.generators"
        )


def default(schema: Schema) -> str:
    """The generator that is fitted where nobody names one. Only the schema decides, which is public."""
    return HISTORIES if schema.tables else DEFAULT[_kind(schema)]


UNREAD_TABLES = {"dpgan": 0.25, "pategan": 0.5}  # defaults of older releases, which start=none does not read
OLD_START = "label"  # what None stood for in older releases


def renamed(name: str, settings: Mapping[str, Any], schema: Schema) -> tuple[str, Mapping[str, Any]]:
    """Name and settings of an older release, as they are called now. A `pategan` with a `mode` is one of the two that it was
    (`MODES`); what learned images beside tables is, for a schema with an image column, the generator of images (`IMAGE_HALVES`)."""
    if name == "pategan" and "mode" in settings:
        name, settings = _without_mode(settings)
    now = SETTINGS.get(name, {})
    settings = {now.get(key, key): value for key, value in settings.items()}
    if settings.get("start") == "none" and settings.get("tables", -1.0) == UNREAD_TABLES.get(name):
        settings = {key: value for key, value in settings.items() if key != "tables"}
    if name not in IMAGE_HALVES:
        return name, {key: value for key, value in settings.items() if (key, value) != ("start", None)}
    pictures = schema.image is not None
    if not pictures and settings.get("start", "") is None:
        settings = {**settings, "start": OLD_START}
    settings = {key: value for key, value in settings.items() if value is not None}  # which stood for a default
    if not pictures:
        return name, settings
    return IMAGE_HALVES[name], _of_images(name, settings)


def _of_images(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a generator of tables and images, as its image half has them."""
    read = {field.name for field in dataclasses.fields(find(IMAGE_HALVES[name]))}  # type: ignore[arg-type]
    read -= {"batch"} if "rate" in settings else set()
    read -= {"tables"} if settings.get("start") == "none" else set()
    for field in dataclasses.fields(find(name)):  # type: ignore[arg-type]
        if field.name not in read and settings.get(field.name) == field.default:  # releases held every default
            settings.pop(field.name, None)
    if name == "kernel_teachers" and settings.get("start") == "gauss":  # there is no other
        settings.pop("start")
    if name == "dpgan":
        if "steps" in settings:  # were taken however few the records
            settings.setdefault("passes", MOST)
        if settings.get("architecture") == "conv" and "hidden" in settings:
            settings["channels"] = settings.pop("hidden")
        elif settings.get("architecture") == "mlp":
            settings.setdefault("hidden", [512, 256])
    return settings


def _without_mode(settings: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    mode = settings["mode"]
    if not isinstance(mode, str) or mode not in MODES:
        raise BadInput(
            "generator.mode: pategan has no such setting; kernel_teachers was shares, pategan_original original"
        )
    now, unread = MODES[mode]
    return now, {
        key: value
        for key, value in settings.items()
        if key != "mode" and (value is not None or key == "start") and not (key in unread and value == unread[key])
    }


def make(name: str, settings: Mapping[str, Any]) -> Generator:
    """A generator with these settings. Raises `BadInput` for an unknown setting or a value that it refuses."""
    kind: Any = find(name)
    check_known(f"generator {name}", settings, [field.name for field in dataclasses.fields(kind)])
    made: Generator = kind(**settings)
    return made


def check_known(what: str, settings: Iterable[str], known: Sequence[str]) -> None:
    """Refuse a setting that `what` does not have."""
    for given in settings:
        if given not in known:
            hint = nearest(given, known) or "."
            raise BadInput(f"{what} has no setting {given!r}{hint} Known: {', '.join(known)}")


def check(generator: Generator, schema: Schema, budget: Budget) -> None:
    """Refuse a generator that cannot be fitted to records of this schema, before account, ledger or records are opened."""
    check_traits(type(generator), generator.name)
    check_kind(generator, schema)
    if not callable(getattr(generator, "validate", None)):
        raise BadInput(
            f"generator {generator.name} has no validate(schema, budget), so wrong settings would be found only after the charge; "
            "add one that raises BadInput for whatever a fit would refuse"
        )
    generator.validate(schema, budget)


def afford(plan: Callable[[float], Plan], schema: Schema, budget: Budget, beside: Plan = ()) -> float:
    """The noise at which a plan keeps the budget, with what the schema leaves to learn and what is asked `beside` it, as a fit
    will find it. Raises `BadInput` where no noise does, and where noise would hide what is to be learned. Nothing is opened
    or charged."""
    from synthdp.seal.charging import Account

    learned = bought(schema, budget)
    noise = Account(budget, unit=schema.unit or RECORD).commit(lambda noise: (*learned, *plan(noise), *beside))
    if isinstance(schema.units, int):
        check_enough(schema, budget, schema.units)
    return noise


def drowned(generator: Generator, schema: Schema, noise: float) -> float:
    """How large a plan's noise is relative to what pictures show, from public facts alone: at 1 or more it is likely to hide them.
    Generators of pictures may define a method of this name; 0 if this one has none, or the facts do not tell."""
    told = getattr(generator, "drowned", None)
    return float(told(schema, noise)) if callable(told) else 0.0


def warn_of_large_delta(budget: Budget, schema: Schema) -> None:
    """Warn of a delta of one over the number of units or more, since it promises nothing."""
    if isinstance(schema.units, int) and budget.delta >= 1 / schema.units:
        warnings.warn(
            f"budget.delta={budget.delta:g} is not below 1 / units = {1 / schema.units:.1e}: such a delta would allow the release "
            "of one whole record, drawn at random. Choose a smaller delta",
            stacklevel=outside(),
        )


def warn_of_shared_bins(schema: Schema) -> None:
    """Warn of numbers below visits, such as values of many laboratory tests, whose even bins are too wide for any test of a small scale."""
    for table in schema.tables[2:]:
        (_, code), *others = linked_tables.modelled(schema, table)
        one = isinstance(code, Categorical) and code.categories != LEARN and len(code.categories) == 1
        for name, column in () if one else others:
            if not isinstance(column, Integer | Continuous) or column.bounds == LEARN:
                continue
            if column.bins is not None and not isinstance(column.bins, int):
                continue
            low, high = map(float, column.bounds)
            if high - low >= MANY_SCALES:
                width = (high - low) / (column.bins or BINS)
                warnings.warn(
                    f"column '{table.name}.{name}': all codes share even bins, each {width:.3g} wide. If a code's numbers all fall in one "
                    "bin, the synthetic ones are spread evenly over it. Unless every code's numbers spread over many bins, declare bins "
                    "that are narrow where numbers are small, such as [0.1, 0.2, 0.5, 1, 2, 5, 10]",
                    stacklevel=outside(),
                )


def check_seed(seed: Any) -> None:
    """Refuse a seed that is not a whole number of 0 or more (or None)."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise BadInput(f"seed must be a whole number of 0 or more, got {seed!r}")


def check_enough(schema: Schema, budget: Budget, units: float) -> None:
    """Raises `BadInput` if noise would hide what is to be learned of a table with this many units."""
    hidden = {name: least for name, least in findable(schema, budget).items() if needed({name: least}) >= units}
    if hidden:
        of = f"of the {units:,} units" if units == schema.units else "units"
        raise BadInput(
            f"noise would hide what is to be learned of {listed([*map(repr, hidden)])}: a category or a range of numbers is found only if "
            f"about {max(hidden.values()):,.0f} {of} share it. Declare what is public of these columns, leave fewer of them to learn, "
            "or raise budget.epsilon"
        )


def check_units(
    schema: Schema, budget: Budget, valid: "pd.DataFrame | Mapping[str, pd.DataFrame]", invalid: str
) -> None:
    """Part of the pre-check, which no budget covers: `check_enough` where the number of units is to be learned, too."""
    if schema.units == LEARN and invalid == "error":
        people = valid[schema.tables[0].name] if isinstance(valid, Mapping) else valid
        check_enough(schema, budget, len(people) if schema.unit is None else int(people[schema.unit].nunique()))


def bought(schema: Schema, budget: Budget) -> Plan:
    """The questions that learn what the schema leaves to learn."""
    from synthdp.seal import learn

    return learn.prices(schema, learn.purchase(schema, budget, schema.unit or RECORD))


def findable(schema: Schema, budget: Budget) -> dict[str, float]:
    """How many units must share a category, or a range of numbers, of each column with something to learn, so that noise does not
    hide it. A public fact: no record is read."""
    from synthdp.seal import learn

    if not schema.learned:
        return {}
    terms = learn.purchase(schema, budget, schema.unit or RECORD)
    most, every = schema.max_records_per_unit, linked_tables.once(schema)
    found = {column.name: learn.least(column, places, most, terms) for column, places in every}
    return {name: least for name, least in found.items() if least > 0}


def needed(found: Mapping[str, float]) -> float:
    """The number of units above which noise does not hide all but a table's most common categories and ranges (`findable`)."""
    return 2 * max(found.values(), default=0.0)


def check_kind(generator: Generator, schema: Schema) -> None:
    """Refuse a generator of tables for images, and the other way round, or one of histories where the schema does not tell in which
    order a unit's records stand; its traits say what it can learn."""
    if schema.tables and HISTORIES not in generator.traits.kinds:
        linked_ones = ", ".join(table.name for table in schema.tables)
        raise BadInput(
            f"generator {generator.name} learns one table, and the schema describes linked ones ({linked_ones}): "
            f"use generator={', '.join(able(lambda traits: HISTORIES in traits.kinds))}, or join them and describe the joined table"
        )
    given = _kind(schema)
    found = (given, HISTORIES) if schema.order is not None else (given,)
    if set(found) & set(generator.traits.kinds):
        return
    if generator.traits.kinds == (HISTORIES,) and given == TABLE:
        raise BadInput(
            f"generator {generator.name} learns histories: name in the schema, as unit, the column that says whose record a row is, and, "
            "as order, the column by which a unit's records follow one another; per_unit lists the columns that describe the unit itself"
        )
    held = "has no image column" if schema.image is None else f"has the image column {schema.image.name!r}"
    what = "tables" if given == TABLE else given
    raise BadInput(
        f"generator {generator.name} does not learn {what}, but the schema {held}: use "
        f"{', '.join(able(lambda traits: given in traits.kinds))}"
    )


def able(what: Callable[[Traits], bool]) -> list[str]:
    """Names of the generators whose traits are such."""
    return [name for name in names() if what(find(name).traits)]


def _kind(schema: Schema) -> str:
    return TABLE if schema.image is None else IMAGES


def check_source(generator: Generator, schema: Schema, given: Any) -> Any:
    """The frames or the tables that are meant. Refuses, before anything is read or charged, one table where the schema links several, and
    a table that stays in its database for a generator that needs records: one whose traits do not say that it asks for counts alone."""
    source = tables.source_of(given)
    linked = isinstance(given, Mapping) if source is None else bool(getattr(source, "tables", ()))
    if schema.tables and not linked:
        raise BadInput(
            "the schema describes linked tables: give a mapping from their names to frames, or synthdp.tables.source.linked(...) of "
            "tables in DuckDB or PostgreSQL, not a single frame or table"
        )
    if source is None:
        return given
    if linked and not schema.tables:
        raise BadInput("the schema describes one table: give it, or declare linked tables under tables")
    if not generator.traits.counted:
        raise BadInput(
            f"generator {generator.name} learns from records themselves, but only counts can leave a database: use one of "
            f"{', '.join(able(lambda traits: traits.counted))}, such as generator=mixture, or load the table into memory"
        )
    if HISTORIES in generator.traits.kinds:
        check_counted(schema, tables.engine_of(source))
    return source


def linked(generator: Generator, model: Model) -> Linked:
    """The model as one of linked tables; raises `BadInput` where it is none."""
    if isinstance(model, Linked):
        return model
    raise BadInput(
        f"a model of generator {generator.name} draws records, and no linked tables: its `sample_tables` is missing"
    )


def conditional(generator: Generator, model: Model) -> Conditional:
    """The model as one that draws under conditions; raises `BadInput` where it cannot, and names the generators that can."""
    if isinstance(model, Conditional):
        return model
    raise BadInput(
        f"where: a model of generator {generator.name} cannot be conditioned exactly; those of "
        f"{', '.join(able(lambda traits: traits.conditional))} can. Fit one of them, or draw more rows and keep those that satisfy "
        "the condition"
    )


def check_tensors(tensors: Tensors, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a release whose arrays are not the ones its schema and settings imply: by name, shape, and as numbers that a float32
    can hold."""
    if set(tensors) != set(shapes):
        raise BadInput(
            f"the model has {_some(tensors)}, but its settings imply {_some(shapes)}: the release was altered, or `tensors` and "
            "`restore` of the generator disagree"
        )
    for name, shape in shapes.items():
        array = tensors[name]
        if array.dtype.kind not in "fiu" or array.shape != shape or not _finite(array):
            raise BadInput(
                f"array {name!r} of the model is not finite, or does not have shape {shape}; the release was altered"
            )


def check_distributions(tensors: Tensors, names: Iterable[str]) -> None:
    """Refuse a release where one of these arrays does not hold distributions along its last axis."""
    for name in names:
        if not distributions(tensors[name]):
            raise BadInput(f"array {name!r} of the model is not a distribution; the release was altered")


def distributions(array: NDArray[Any]) -> bool:
    """Whether numbers are 0 or more and add up to 1 along the last axis, as far as their rounding lets them."""
    return bool((array >= 0).all() and (np.abs(array.sum(-1, dtype=np.float64) - 1) <= ROUNDED).all())


def probabilities(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noisy counts as a distribution: negative ones are zero; nothing left is uniform."""
    kept = np.clip(counts, 0, None)
    total = kept.sum()
    return kept / total if total > 0 else np.full(kept.shape, 1 / kept.size)


def _finite(array: NDArray[Any]) -> bool:
    return array.size == 0 or bool(np.abs(array).max() <= np.finfo(np.float32).max)


def _some(names: Iterable[str]) -> str:
    shown = [name[:SHOWN] for name in sorted(names)[:5]]
    return f"{shown}..."
