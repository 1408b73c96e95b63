"""What goes wrong in a database, told without its words."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from synthdp.errors import BadInput


@contextmanager
def asking() -> Iterator[None]:
    """Errors of a database as one line without its words, which may hold cells; Ibis's remarks about pandas 3 are not passed on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The 'future.infer_string' option", module=r"ibis\.")
        warnings.filterwarnings("ignore", "The copy keyword is deprecated", module=r"ibis\.|pyspark\.")
        try:
            yield
        except _faults() as error:
            raise BadInput(
                f"the database did not answer ({type(error).__name__}); what was charged stays charged. See its own log for why, "
                "then fit again"
            ) from None


def _faults() -> tuple[type[BaseException], ...]:
    """The errors of those databases whose library is in use."""
    import duckdb
    import pyarrow as pa
    from ibis.common.exceptions import IbisError

    kinds: list[type[BaseException]] = [duckdb.Error, IbisError, pa.ArrowException, OSError]
    for module, name in (("psycopg", "Error"), ("pyspark.errors", "PySparkException"), ("py4j.protocol", "Py4JError")):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return tuple(kinds)
