"""Settings of the DP-GAN that differ between tables and images: what None stands for, and what would not be read."""

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol, cast

from synthdp.data.schema import Schema
from synthdp.errors import BadInput
from synthdp.generators import IMAGES, TABLE
from synthdp.generators.adversarial import player, strategies
from synthdp.generators.images import player as image_player
from synthdp.generators.images.starts import STARTS as IMAGE_STARTS
from synthdp.generators.parts.checks import refuse_ignored
from synthdp.generators.parts.tables import STARTS

if TYPE_CHECKING:
    from synthdp.generators.dpgan import DPGAN

DEFAULTS: dict[str, dict[str, Any]] = {  # what None stands for; batch and tables: only where they are read
    TABLE: {"steps": 3000, "batch": 384, "start": "label", "tables": 0.25, "hidden": (128, 128), "penalty": 5.0},
    IMAGES: {"steps": 300, "batch": 2048, "start": "gauss", "tables": 0.8, "architecture": "basis", "penalty": 0.1},
}
PASSES = 25  # over the records of images; MNIST's 300 steps are 10
ARCHITECTURES = {
    "basis": "linear layers on coefficients along principal axes of the start",
    "mlp": "linear layers on pixels (Waites 2019)",
    "conv": "convolutions of stride 2",
}
WIDTHS = {"basis": (128, 128), "mlp": (512, 256), "conv": (16, 32)}  # hidden of each
FOR_TABLES, FOR_IMAGES = ("table_weight", "temperature"), ("architecture",)


class Settings(strategies.Settings, player.Settings, image_player.Settings, Protocol):
    """The settings of a fit, with nothing left to choose."""

    @property
    def hidden(self) -> tuple[int, ...]: ...  # `strategies` takes None as well
    @property
    def generator_every(self) -> int: ...
    @property
    def optimizer(self) -> str: ...
    @property
    def momentum(self) -> float: ...
    @property
    def discriminator_rate(self) -> float: ...
    @property
    def discriminator_average(self) -> float: ...
    @property
    def penalty(self) -> float: ...
    @property
    def batch(self) -> int: ...
    @property
    def tables(self) -> float | None: ...


def check(settings: "DPGAN") -> None:
    """Refuse settings that no kind of data could be learnt with."""
    if settings.architecture is not None and settings.architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise BadInput(f"generator.architecture must be one of {known}, got {settings.architecture!r}")
    known_starts = tuple(dict.fromkeys((*STARTS, *IMAGE_STARTS)))
    if settings.start is not None and settings.start not in known_starts:
        raise BadInput(f"generator.start must be one of {', '.join(known_starts)}, got {settings.start!r}")


def overruled(settings: "DPGAN") -> list[str]:
    """Settings that another one overrules and that hold the default of tables: releases that were written when it was
    no None hold both. They are None from now on."""
    names = ("batch",) * (settings.rate is not None) + ("tables",) * (settings.start == "none")
    return [name for name in names if getattr(settings, name) == DEFAULTS[TABLE][name]]


def settled(settings: "DPGAN", schema: Schema) -> Settings:
    """The settings with every None chosen for what the schema holds; raises `BadInput` for one that it would not read."""
    images = schema.image is not None
    defaults = DEFAULTS[IMAGES if images else TABLE]
    chosen = {name: value for name, value in defaults.items() if getattr(settings, name) is None}
    if settings.rate is not None:
        chosen.pop("batch", None)
    if (settings.start or chosen.get("start")) == "none":
        chosen.pop("tables", None)
    if images:
        chosen["steps"] = settings.steps or _steps(settings, schema, defaults)
        chosen["hidden"] = settings.hidden or WIDTHS[settings.architecture or chosen["architecture"]]
    _refuse(settings, images)
    own = dataclasses.replace(settings, **chosen)
    if images:
        _check_images(own, schema)
    return cast("Settings", own)


def _steps(settings: "DPGAN", schema: Schema, defaults: dict[str, Any]) -> int:
    """The default for images: no more than `PASSES` over the records, since on few of them a longer game leaves its start behind."""
    rate = settings.rate
    if rate is None and isinstance(schema.units, int):
        rate = min(1.0, (settings.batch or defaults["batch"]) / max(1, schema.units))
    return int(defaults["steps"]) if rate is None else min(int(defaults["steps"]), max(1, round(PASSES / rate)))


def _refuse(settings: "DPGAN", images: bool) -> None:
    starts = IMAGE_STARTS if images else STARTS
    if settings.start is not None and settings.start not in starts:
        what = "images" if images else "tables"
        raise BadInput(f"generator.start of {what} must be one of {', '.join(starts)}, got {settings.start!r}")
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for name in FOR_TABLES if images else FOR_IMAGES:
        if getattr(settings, name) != defaults[name]:
            kind, held = ("tables", "has an") if images else ("images", "has no")
            raise BadInput(f"generator.{name} is for {kind} and would be ignored: the schema {held} image column")


def _check_images(settings: "DPGAN", schema: Schema) -> None:
    image, gauss = schema.image, settings.start == "gauss"
    if image is None:
        return
    if settings.architecture == "basis" and not gauss:
        raise BadInput(
            f"generator.architecture=basis sees pictures along the axes of start=gauss, and start is {settings.start}: "
            "choose architecture=conv or mlp"
        )
    refuse_ignored(settings, ("latent",) if gauss else (), "start=gauss, whose pictures are what the network is given")
    least = 2 ** (len(settings.hidden or ()))
    if settings.architecture == "conv" and min(image.height, image.width) < least:
        raise BadInput(f"{len(settings.hidden or ())} convolutions need pictures of {least} x {least} pixels or more")
    label = settings.label(schema)
    if settings.start == "label" and label is None:
        raise BadInput(
            "generator.start=label needs a label column: name it by targets or generator.condition, or start=none"
        )
    names = [column.name for column in schema.coded if column.kind != "image"]
    if not gauss and len(names) > (label is not None):
        raise BadInput(
            f"generator.start={settings.start} of images learns the image and its label alone, and the schema also has "
            f"{', '.join(names)}: leave columns out, or start=gauss, which models them"
        )
