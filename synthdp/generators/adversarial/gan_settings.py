"""Settings of the DP-GAN that differ between tables and images: what None stands for, and what would not be read."""

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol, cast

from synthdp.errors import BadInput
from synthdp.generators import IMAGES, TABLE
from synthdp.generators.adversarial import clipping_strategies, table_player
from synthdp.generators.images import image_player
from synthdp.generators.images.image_player import STARTS as IMAGE_STARTS
from synthdp.generators.parts.gan_model import MOST_LABELS, check_label, surely_label
from synthdp.generators.parts.noisy_tables import STARTS as TABLE_STARTS
from synthdp.generators.parts.setting_checks import refuse_ignored
from synthdp.schema.columns import Image
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.generators.dpgan import DPGAN

STARTS = tuple(dict.fromkeys((*TABLE_STARTS, *IMAGE_STARTS)))
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
FOR_TABLES, FOR_IMAGES = ("table_weight", "temperature", "weight_clip"), ("architecture",)


class Settings(clipping_strategies.Settings, table_player.Settings, image_player.Settings, Protocol):
    """The settings of a fit, with nothing left to choose."""

    @property
    def hidden(self) -> tuple[int, ...]: ...  # `clipping_strategies` takes None as well
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
    def weight_clip(self) -> float | None: ...
    @property
    def batch(self) -> int: ...
    @property
    def tables(self) -> float | None: ...


def overruled(settings: "DPGAN") -> list[str]:
    """Settings that another one overrules and that hold the default of tables: releases that were written when it was
    no None hold both. They are None from now on."""
    names = ("batch",) * (settings.rate is not None) + ("tables",) * (settings.start == "none")
    return [name for name in names if getattr(settings, name) == DEFAULTS[TABLE][name]]


def settled(settings: "DPGAN", schema: Schema) -> Settings:
    """The settings with every None chosen for what the schema holds."""
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
    return cast("Settings", dataclasses.replace(settings, **chosen))


def _steps(settings: "DPGAN", schema: Schema, defaults: dict[str, Any]) -> int:
    """The default for images: no more than `PASSES` over the records, since on few of them a longer game leaves its start behind."""
    rate = settings.rate
    if rate is None and isinstance(schema.units, int):
        rate = min(1.0, (settings.batch or defaults["batch"]) / max(1, schema.units))
    return int(defaults["steps"]) if rate is None else min(int(defaults["steps"]), max(1, round(PASSES / rate)))


def check(settings: "DPGAN", schema: Schema) -> None:
    """Refuse settings that a schema of this kind would not read, or that cannot learn its columns."""
    images = schema.image is not None
    starts = IMAGE_STARTS if images else TABLE_STARTS
    if settings.start is not None and settings.start not in starts:
        what = "images" if images else "tables"
        raise BadInput(f"generator.start of {what} must be one of {', '.join(starts)}, got {settings.start!r}")
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for name in FOR_TABLES if images else FOR_IMAGES:
        if getattr(settings, name) != defaults[name]:
            kind, held = ("tables", "has an") if images else ("images", "has no")
            raise BadInput(f"generator.{name} is for {kind} and would be ignored: the schema {held} image column")
    check_label(settings.condition, schema)
    if schema.image is not None:
        _check_images(settled(settings, schema), schema, schema.image)


def _check_images(settings: Settings, schema: Schema, image: Image) -> None:
    gauss = settings.start == "gauss"
    if settings.architecture == "basis" and not gauss:
        raise BadInput(
            f"generator.architecture=basis sees pictures along the axes of start=gauss, and start is {settings.start}: "
            "choose architecture=conv or mlp"
        )
    refuse_ignored(
        settings, ("latent",) if gauss else (), "generator.start=gauss, whose pictures are what the network is given"
    )
    least = 2 ** len(settings.hidden)
    if settings.architecture == "conv" and min(image.height, image.width) < least:
        raise BadInput(
            f"generator.hidden: {len(settings.hidden)} convolutions need pictures of {least} x {least} pixels or more"
        )
    label = surely_label(settings.condition, schema)
    if settings.start == "label" and label is None:
        raise BadInput(
            "generator.start=label needs a label column: name it by generator.condition or, where its categories are declared "
            f"and at most {MOST_LABELS}, by targets; or choose start=none"
        )
    names = [column.name for column in schema.coded if column.kind != "image" and column.name != label]
    if not gauss and names:
        raise BadInput(
            f"generator.start={settings.start} of images learns the image and its label alone, and the schema also has "
            f"{', '.join(names)}: leave columns out, name the label by generator.condition, or start=gauss, which models all"
        )
