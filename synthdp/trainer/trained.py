"""What a training returns: a module that may leave the hospital, with the statement of its guarantee; and reading it back."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from synthdp.errors import BadInput
from synthdp.ledger.ledger import Ledger
from synthdp.pate.code_features import public_codes, public_schema
from synthdp.report.folder import MODULE, Opened, Verified, opened, put, written
from synthdp.report.statement import Statement
from synthdp.schema.codec import Codec
from synthdp.schema.columns import Boolean, Column, Continuous, Integer
from synthdp.schema.schema import Schema
from synthdp.trainer.architecture import NAME, loaded, prepared, words
from synthdp.trainer.inputs import Inputs, framed
from synthdp.trainer.losses import CLASSES, LOSSES

INDEPENDENT = "Synthetic rows are independent"  # the line of a statement that is about generators
ROWS = 4096  # at a time
HANDED_IN = (
    "What the module was before the training: its first weights are taken as public. Module and loss ran inside the seal; that they "
    "treat each record on its own was checked on made-up rows, and is otherwise trusted{own}."
)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Trained:
    """A trained module (on the CPU, in `eval` mode), the schema of what it sees, and the statement of its guarantee."""

    module: nn.Module
    schema: Schema
    statement: Statement
    ledger: Ledger
    _saved: Callable[[], None] | None = field(default=None, repr=False)  # tells the account that it was saved

    def __repr__(self) -> str:
        said = self.statement
        promise = f"epsilon {said.epsilon:.4g} at delta {said.delta:g} per {said.unit}"
        return f"Trained({type(self.module).__name__}: {promise}{', rehearsal' * said.rehearsal})"

    @property
    def target(self) -> str | None:
        """The column that was learned; None: the inputs themselves."""
        found: str | None = self.statement.settings["target"]
        return found

    def outputs(self, data: Any) -> NDArray[np.float32]:
        """The module's outputs for each record, (rows, ...). `data` is a table with the schema's columns, or an array x as in `fit`;
        target and identifiers are not needed, nor looked at. Cells that the schema does not allow are mapped as in a fit."""
        wanted, codec = public_schema(self.schema, self.target), Codec(self.schema)
        frame = framed(data[0] if isinstance(data, tuple) else data, self.schema, self.target)
        known = wanted.validate(frame[[name for name in frame.columns if name in wanted.names]], "clamp")
        codes = torch.from_numpy(public_codes(codec, self.target, known))
        inputs = Inputs(codec, self.target)
        with torch.no_grad():
            found = [self.module(inputs.rows(part)) for part in torch.split(codes, ROWS)]
        return torch.cat(found).numpy()

    def predict(self, data: Any) -> NDArray[Any]:
        """The likeliest class of each record, (rows,), as text or truth values, or the number that is expected, in its own units."""
        column, outputs = self._predicted(), self.outputs(data)
        if isinstance(column, CLASSES):
            classes = self.predict_proba(outputs=outputs).argmax(1)
            names = np.array([False, True]) if isinstance(column, Boolean) else np.array(column.categories, object)
            found: NDArray[Any] = names[classes]
            return found
        low, high = _ends(column)
        return low + outputs.reshape(len(outputs)).astype(np.float64) * (high - low)

    def predict_proba(self, data: Any = None, *, outputs: NDArray[np.float32] | None = None) -> NDArray[np.float64]:
        """(rows, classes), in the order of the declared classes; of `data`, or of `outputs` that are there already."""
        if not isinstance(self._predicted(), CLASSES):
            raise BadInput(f"target {self.target!r} is a number, which has no classes: use predict")
        scores = torch.from_numpy(self.outputs(data) if outputs is None else outputs).double()
        if self.statement.settings["loss"] == "binary_cross_entropy":
            scores = torch.stack([torch.zeros(len(scores)), scores.reshape(len(scores))], 1)
        return scores.softmax(1).numpy()

    def _predicted(self) -> Column:
        loss = self.statement.settings["loss"]
        if self.target is None or loss not in LOSSES:
            raise BadInput(
                f"without a target, or with a loss of your own, only you know what outputs mean (loss={loss}): use outputs"
            )
        return self.schema.column(self.target)

    def save(self, folder: Path | str, *, force: bool = False) -> Path:
        """Write the release folder, whole or not at all. An existing folder is refused unless `force`, which replaces a release and
        nothing else. For the account, a training that could be resumed is finished once its release is saved."""
        saved = written(folder, self._write, force=force)
        if self._saved is not None:
            self._saved()
        return saved

    def _write(self, folder: Path) -> None:
        weights = {name: value.numpy() for name, value in self.module.state_dict().items()}
        put(folder, MODULE, weights, {"kind": NAME}, self.schema, self.statement, self.ledger)


def _ends(column: Column) -> tuple[float, float]:
    if not isinstance(column, Integer | Continuous):
        raise BadInput(f"target {column.name!r} is {column.kind}, which is no number")
    low, high = (float(end) for end in column.bounds)  # none is left to learn
    return low, high


def said_of(statement: Statement) -> Statement:
    """The statement of a fit, with what it says of synthetic rows replaced by what there is to say of a module."""
    return replace(statement, not_covered=limits(statement, statement.not_covered))


def limits(statement: Statement, lines: Iterable[str]) -> tuple[str, ...]:
    """What the statement of a training does not cover, from the sentences on a fit in general."""
    own = statement.settings["own_code"]
    told = f": {', '.join(own)} (not torch's, and not synthdp's)" if own else ""
    return (*(line for line in lines if not line.startswith(INDEPENDENT)), HANDED_IN.format(own=told))


def load(folder: Path | str, module: nn.Module, *, public: Path | str | None = None) -> Trained:
    """Read a release folder; every part is checked before any of it is used, and `BadInput` says which is not right.

    `module` is one of the same architecture, which release.json describes in words: a release holds no code. It is copied, and
    the copy gets the stored weights. `public` is the file of a public key; the release must be signed by it.
    """
    found, _ = _read(folder, public, costly=False)
    settings = found.statement.settings
    made = prepared(module, Codec(found.schema), settings["target"])
    if words(made) != settings["architecture"]:
        raise BadInput(f"{folder} holds the weights of another module than the one given: {settings['architecture']}")
    return Trained(
        module=loaded(made, found.tensors), schema=found.schema, statement=found.statement, ledger=found.ledger
    )


def verify(folder: Path | str, *, public: Path | str | None = None) -> Verified:
    """As `synthdp.verify`, for a trained module; needs no module."""
    return _read(folder, public, costly=True)[1]


def _read(folder: Path | str, public: Path | str | None, *, costly: bool) -> tuple[Opened, Verified]:
    found = opened(Path(folder), MODULE, NAME, public)
    try:
        verified = found.check(NAME, None, partial(limits, found.statement), costly=costly)
        target, named = (found.statement.settings[name] for name in ("target", "architecture"))
        whole = target is None or (target in found.schema.names and isinstance(named, str))
    except BadInput:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise BadInput(f"{found.folder}: the settings are not those of a training; the release was altered") from error
    if not whole or not all(np.isfinite(value).all() for value in found.tensors.values()):
        raise BadInput(f"{found.folder}: its weights are not finite, or not of its schema; the release was altered")
    return found, verified
