"""What a stored release claims, held against its own ledger."""

from pathlib import Path

from synthdp.errors import BadInput
from synthdp.privacy.ledger import Ledger
from synthdp.report.statement import Statement

TOLERANCE = 1e-3  # between versions of the accountants (GUARANTEE 34)


def checked(path: Path, statement: Statement) -> Ledger:
    """The ledger at `path`, where it is the statement's and the statement claims what it costs. Raises `BadInput` where not."""
    folder, ledger = path.parent, Ledger.read(path)
    if ledger.entries() != statement.events:
        raise BadInput(f"{folder}: the ledger and the statement do not hold the same events; the release was altered")
    claimed = (statement.unit, statement.relation)
    if any((entry.event.unit, entry.event.relation) != claimed for entry in ledger.entries()):
        raise BadInput(
            f"{folder}: the statement speaks of other units or neighbours than its events; the release was altered"
        )
    if not statement.recompute() <= statement.epsilon * (1 + TOLERANCE) + TOLERANCE:
        raise BadInput(f"{folder}: the statement claims less epsilon than its events cost; the release was altered")
    return ledger
