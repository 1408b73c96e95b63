"""Generators: one file per algorithm, found by being there; what several share lies in packages beside them.

Third parties add one by an entry point `synthdp.generators`.
"""

import dataclasses
import difflib
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points, packages_distributions, version
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from synthdp.errors import BadInput
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import RECORD, Plan
from synthdp.schema.schema import Schema
from synthdp.tables import source as tables

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.schema.codec import Codec
    from synthdp.schema.where import Allowed
    from synthdp.seal import Sensitive  # imports torch, which a list of names does not need

GROUP = "synthdp.generators"
TABLE, IMAGES = "table", "images"  # what a generator may learn: its `data_kinds`, by default tables
DEFAULT = {TABLE: "mixture", IMAGES: "classgauss"}  # the generator of each kind that is fitted where nobody names one

ROUNDED = 1e-3  # by which shares that were added up in float32 may miss 1
SHOWN = 60  # characters of a name that is somebody else's

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

    A generator whose models can says so by the class attribute `conditional = True`.
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


class Generator(Protocol):
    """A frozen dataclass of settings. `validate` and `plan` read no data; `fit` commits the plan, asks its questions and learns a
    model."""

    name: ClassVar[str]

    def validate(self, schema: Schema, budget: Budget) -> None:
        """Raise `BadInput`, which names the option, for all that a fit of this schema would refuse: nothing is charged yet.

        What settings, schema and budget say does not refuse a fit later on. Where the schema leaves something to learn, the fit
        takes whatever is bought.
        """
        ...

    def plan(self, schema: Schema, noise: float) -> Plan:
        """The events that a fit will book, beyond what the schema leaves to learn."""
        ...

    def fit(
        self, data: "Sensitive", schema: Schema, budget: Budget, *, seed: int | None = None, progress: Progress = silent
    ) -> Model:
        """Learn a model from charged answers. `seed` fixes the generator's own randomness, not the noise."""
        ...

    def restore(self, schema: Schema, tensors: Tensors) -> Model:
        """The model that `tensors` are of; raises `BadInput` where names or shapes do not fit."""
        ...


def origin(generator: Generator) -> dict[str, str] | None:
    """The package that a generator of a third party comes from, and the version of its distribution ("not known" without one).

    None for synthdp's own: the very class, not one that only says so.
    """
    kind, name = type(generator), getattr(generator, "name", "")
    if name in _own() and importlib.import_module(f"{__name__}.{name}").GENERATOR is kind:
        return None
    package = kind.__module__.partition(".")[0]
    return {"package": package, "version": _version(package)}


@functools.cache  # the metadata of every installed distribution is read for it
def _version(package: str) -> str:
    distribution = next(iter(packages_distributions().get(package, ())), None)
    return "not known" if distribution is None else version(distribution)


def check_trust(made: Iterable[Generator], trust: str | None) -> None:
    """Refuse generators of packages that the steward did not name: a generator is trusted code, which no check can hold to its
    questions. `trust` is a package, or several joined by commas."""
    trusted = () if trust is None else tuple(name.strip() for name in trust.split(","))
    if "synthdp" in trusted:
        raise BadInput(
            "trust names 'synthdp', whose own generators need none: name the package that the generator comes from"
        )
    needed = {found["package"]: one.name for one in made if (found := origin(one)) is not None}
    for package, name in needed.items():
        if package not in trusted:
            raise BadInput(
                f"generator {name} comes from the package {package!r}, not from synthdp. A generator runs where the records are, and "
                f"can read them: say trust={package} if you trust that package; the statement will name it"
            )
    idle = [name for name in trusted if name not in needed]
    if idle:
        raise BadInput(f"trust names {idle[0]!r}, from which no generator of this fit comes: leave it out")


def names() -> tuple[str, ...]:
    """All generators, the house's own first."""
    own = _own()
    return (*own, *sorted(point.name for point in entry_points(group=GROUP) if point.name not in own))


def _own() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg))


def find(name: str) -> type[Generator]:
    """The settings class of a generator; raises `BadInput` for an unknown name."""
    if not isinstance(name, str) or name not in names():
        near = difflib.get_close_matches(str(name), names(), 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise BadInput(f"no generator named {name!r}{hint} Known: {', '.join(names())}")
    for point in entry_points(group=GROUP):
        if point.name == name:
            loaded: type[Generator] = point.load()
            return loaded
    module = importlib.import_module(f"{__name__}.{name}")
    found: type[Generator] = module.GENERATOR
    return found


def default(schema: Schema) -> str:
    """The generator that is fitted where nobody names one. Only the schema decides, which is public."""
    return DEFAULT[_kind(schema)]


def make(name: str, settings: Mapping[str, Any]) -> Generator:
    """A generator with these settings; raises `BadInput` for an unknown setting or a value that it refuses."""
    kind: Any = find(name)
    known = [field.name for field in dataclasses.fields(kind)]
    for given in settings:
        if given not in known:
            near = difflib.get_close_matches(given, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise BadInput(f"generator {name} has no setting {given!r}{hint} Known: {', '.join(known)}")
    made: Generator = kind(**settings)
    return made


def check(generator: Generator, schema: Schema, budget: Budget) -> None:
    """Refuse a generator that cannot be fitted to records of this schema, before account, ledger or records are opened."""
    check_kind(generator, schema)
    if not callable(getattr(generator, "validate", None)):
        raise BadInput(
            f"generator {generator.name} has no validate(schema, budget): without it wrong settings would be found only after "
            "they were charged; add one, which raises BadInput for what a fit would refuse"
        )
    generator.validate(schema, budget)


def afford(plan: Callable[[float], Plan], schema: Schema, budget: Budget, beside: Plan = ()) -> float:
    """The noise at which a plan keeps the budget, with what the schema leaves to learn and what is asked `beside` it, as a fit
    will find it. Raises `BadInput` where no noise does. Nothing is opened or charged."""
    from synthdp.seal import learn
    from synthdp.seal.charging import Account

    unit = schema.unit or RECORD
    learned = learn.prices(schema, learn.purchase(schema, budget, unit))
    return Account(budget, unit=unit).commit(lambda noise: (*learned, *plan(noise), *beside), budget)


def check_kind(generator: Generator, schema: Schema) -> None:
    """Refuse a generator of tables for images, and the other way round; `data_kinds` says what one can learn."""
    kinds, given = getattr(generator, "data_kinds", (TABLE,)), _kind(schema)
    if given not in kinds:
        able = [name for name in names() if given in getattr(find(name), "data_kinds", (TABLE,))]
        held = "has no image column" if schema.image is None else f"has the image column {schema.image.name!r}"
        what = "tables" if given == TABLE else given
        raise BadInput(
            f"generator {generator.name} does not learn {what}, and the schema {held}: use {', '.join(able)}"
        )


def _kind(schema: Schema) -> str:
    return TABLE if schema.image is None else IMAGES


def check_source(generator: Generator, given: Any) -> Any:
    """The frame or the table that is meant. Refuses, before anything is read or charged, a table that stays in its database for a
    generator that needs records: one without `counted`, which says that it asks for counts alone."""
    source = tables.source_of(given)
    if source is None:
        return given
    if not getattr(generator, "counted", False):
        able = [name for name in names() if getattr(find(name), "counted", False)]
        raise BadInput(
            f"generator {generator.name} learns from records themselves, and only counts leave a database: use one of "
            f"{', '.join(able)}, as generator=mixture, or load the table into memory"
        )
    return source


def conditional(generator: Generator, model: Model) -> Conditional:
    """The model as one that draws under conditions; raises `BadInput` where it cannot, and names the generators that can."""
    if isinstance(model, Conditional):
        return model
    able = [name for name in names() if getattr(find(name), "conditional", False)]
    raise BadInput(
        f"where: a model of generator {generator.name} cannot be conditioned exactly; those of {', '.join(able)} can. Fit one "
        "of them, or draw more rows and keep those that satisfy the condition"
    )


def check_tensors(tensors: Tensors, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a release whose arrays are not the ones its schema and settings imply: by name, shape, and as numbers that a float32
    can hold."""
    if set(tensors) != set(shapes):
        raise BadInput(f"the model holds {_some(tensors)}, its settings imply {_some(shapes)}")
    for name, shape in shapes.items():
        array = tensors[name]
        if array.dtype.kind not in "fiu" or array.shape != shape or not _finite(array):
            raise BadInput(f"array {name!r} of the model is not finite or not of shape {shape}")


def check_distributions(tensors: Tensors, names: Iterable[str]) -> None:
    """Refuse a release where one of these arrays does not hold distributions along its last axis."""
    for name in names:
        if not distributions(tensors[name]):
            raise BadInput(f"array {name!r} of the model is no distribution; the release was altered")


def distributions(array: NDArray[Any]) -> bool:
    """Whether numbers are 0 or more and add up to 1 along the last axis, as far as their rounding lets them."""
    return bool((array >= 0).all() and (np.abs(array.sum(-1, dtype=np.float64) - 1) <= ROUNDED).all())


def _finite(array: NDArray[Any]) -> bool:
    return array.size == 0 or bool(np.abs(array).max() <= np.finfo(np.float32).max)


def _some(names: Iterable[str]) -> str:
    shown = [name[:SHOWN] for name in sorted(names)[:5]]
    return f"{shown}..."
