"""The clinic's tables as histories, for tests of what is judged of them."""

from linked_clinic import schema

from synthdp.evaluate.courses import Histories
from synthdp.evaluate.tables import axes_of
from synthdp.schema.joined_tables import joined


def histories_of(frames, declared=None, role="real training"):
    """The frames of a schema as one set."""
    declared = declared or schema()
    checked = declared.validate_tables(frames, "clamp")
    whole = joined(checked, declared)
    axes = axes_of(declared, whole.frame[whole.there])
    return Histories.of(whole.frame, whole.there, declared, axes, role)
