"""Students by name, and as a statement shows them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from synthdp.errors import BadInput
from synthdp.pate.students import Student
from synthdp.pate.students.estimator import Estimator


def student_of(given: Any) -> Student:
    """A student as it is; a scikit-learn classifier or a torch module in a student that trains it."""
    if hasattr(given, "learn"):
        found: Student = given
        return found
    if hasattr(given, "state_dict"):
        from synthdp.pate.students.network import Network

        return Network(module=given)
    return Estimator(given)


def of_name(name: Any, settings: Any) -> Student | None:
    """The student that a release describes, None where its file alone does not say what it was; `BadInput` for nonsense."""
    from synthdp.pate.students.network import Network
    from synthdp.pate.students.semi_supervised import SemiSupervised

    kinds: dict[str, Any] = {kind.name: kind for kind in (Network, SemiSupervised)}
    if name == Estimator.name:
        return None
    if name not in kinds or not isinstance(settings, Mapping):
        raise BadInput("the release names a student that is not known; it was altered")
    if settings.get("module") is not None:
        return None
    try:
        made: Student = kinds[name](**settings)
    except TypeError as error:
        raise BadInput("the release's student has settings that are not known; it was altered") from error
    return made


def settings_of(student: Any) -> dict[str, Any]:
    """The settings as JSON has them; what is no plain value by what it is called."""
    known = dataclasses.fields(student) if dataclasses.is_dataclass(student) else ()
    return {field.name: called(getattr(student, field.name)) for field in known}


def called(value: Any) -> Any:
    """Plain values as they are; of anything else its name, or how it shows itself (scikit-learn: its changed settings)."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [called(item) for item in value]
    if hasattr(value, "get_params"):
        return " ".join(str(value).split())
    return getattr(value, "__qualname__", type(value).__qualname__)
