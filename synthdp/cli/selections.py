"""`synthdp fit select=private candidates=[...]`: the best of a hidden number of fits, charged for."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp import generators
from synthdp.budgets import AccountFile
from synthdp.cli import settings
from synthdp.cli.settings import changed
from synthdp.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from synthdp.api import Release
    from synthdp.schema.schema import Schema

Config = Mapping[str, Any]
FORM = "candidates=[independent,{name:mixture,starts:1}]"


def check(config: Config, schema: "Schema", processes: int) -> None:
    """Refuse, before a record is read, options that do not go together."""
    options: settings.Fit = config["options"]
    if options.select is None:
        given = changed(options, ("candidates", "mean_runs"))
        if given:
            raise BadInput(f"{', '.join(given)} belong to a choice among fits: add select=private, or leave them out")
        return
    if not options.candidates:
        raise BadInput(f"select=private needs the fits to choose from, such as {FORM}")
    for candidate in options.candidates:
        generators.make(*_candidate(candidate))
    if config["generator"] != generators.find(generators.default(schema))():
        raise BadInput(
            "select=private fits its candidates: name generators and their settings there, not by generator="
        )
    if options.fitness is not None:
        raise BadInput("select=private measures no fitness beside its choice: leave fitness= out, or fit one generator")
    if options.resume or processes > 1 or changed(config["audit"], ("canaries", "records")):
        raise BadInput(
            "select=private runs in one process, cannot be resumed and plants no canaries: leave resume=, torchrun and audit.* out"
        )


def offered(config: Config, schema: "Schema") -> None:
    """Refuse candidates that do not fit the schema, or cost more than the budget."""
    from synthdp.selecting import offered as made

    options: settings.Fit = config["options"]
    candidates = [_candidate(candidate) for candidate in options.candidates or ()]
    made(candidates, schema, config["budget"], mean_runs=options.mean_runs, trust=options.trust)


def best(
    config: Config, schema: "Schema", frame: "pd.DataFrame", ledger: Path, account: AccountFile | None
) -> "Release":
    """The release of the best run; how many there were is not told."""
    from synthdp.selecting import select

    options: settings.Fit = config["options"]
    return select(
        [_candidate(candidate) for candidate in options.candidates or ()],
        frame,
        schema,
        config["budget"],
        mean_runs=options.mean_runs,
        seed=options.seed,
        invalid=options.invalid,
        ledger=ledger,
        account=account,
        trust=options.trust,
    )


def _candidate(given: Any) -> tuple[str, Mapping[str, Any]]:
    """A name, or a mapping that holds one beside its settings."""
    if isinstance(given, str):
        return given, {}
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise BadInput(f"a candidate is a generator's name, or a name with settings, as in {FORM}")
    found = settings.made(
        generators.find(given["name"]), {**settings.defaults(generators.find(given["name"])), **_known(given)}
    )
    return given["name"], {name: getattr(found, name) for name in given if name != "name"}


def _known(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, refused where the generator has none of that name."""
    rest = {str(name): value for name, value in given.items() if name != "name"}
    known = [name for name, _, _ in settings.helps(generators.find(given["name"]))]
    unknown = sorted(set(rest) - set(known))
    if unknown:
        raise BadInput(f"generator {given['name']} has no setting {unknown[0]!r}; known: {', '.join(known)}")
    return rest
