"""The options of each command: dataclasses, from which the command line's schema and `--help` are derived."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Literal, TypeVar

from synthdp.errors import BadInput
from synthdp.options import HELP, option
from synthdp.privacy.budget import Budget, Relation

Made = TypeVar("Made")
Format = Literal["text", "json"]


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which records: a named data set (`data=NAME`), or files with a schema."""

    name: str | None = option(None, "named data set; chosen by data=NAME, see `synthdp data`")
    path: str | None = option(
        None,
        "sensitive records: a .csv, .csv.gz or .parquet file, or a folder of them; pictures: a .npz file, or a folder with labels.csv",
    )
    schema: str | None = option(None, "schema.yaml of the records")
    target: str | None = option(None, "column to predict; default: the schema's targets")
    train: str | None = option(None, "file or folder of the records that were fitted (evaluate)")
    test: str | None = option(None, "file or folder of held-out records (evaluate)")
    engine: Literal["auto", "memory", "duckdb"] = option(
        "auto",
        "fit: where tables are counted: memory, or duckdb, which holds no more than data.memory (generators that ask for counts alone); "
        "auto: duckdb for a folder and a pattern such as 'visits/*.parquet', memory for a file, which from 1 GiB on must be said",
    )
    memory: str = option("2GiB", "what duckdb may hold of a table")


@dataclass(frozen=True, kw_only=True)
class CapOf:
    """The cap of an account, as far as it is given."""

    epsilon: float | None = option(None, "epsilon of all fits together; fixed when the account is made")
    delta: float | None = option(None, "delta of all fits together; fixed when the account is made")


@dataclass(frozen=True, kw_only=True)
class DataAccount:
    """The account of the data set (the group `account`): its budget over all fits."""

    path: str | None = option(
        None,
        "account=FILE; default: beside the data, for named sets in $SYNTHDP_HOME/accounts; account=none enters the fit nowhere",
    )
    cap: CapOf = option(CapOf(), "what all fits together may spend")
    filter: Literal["additive", "renyi"] | None = option(
        None, "how fits add up, fixed when the account is made: additive (default) or renyi"
    )
    head: str | None = option(None, "hash that was kept elsewhere (synthdp budget prints it): the account must hold it")
    by: str | None = option(None, "who fits; default: the user's name")
    add_version: bool = option(
        False, "the table is a newer version of the one that the account is kept for: same people"
    )
    change_cap: bool = option(False, "record account.cap as a new cap")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Options of `synthdp fit`."""

    out: str = option(MISSING, "folder to write: release/ may leave, internal/ must not")
    seed: int | None = option(None, "make a rehearsal: reproducible noise, stamped not for release")
    invalid: Literal["error", "clamp"] = option(
        "error", "records that break the schema: error, or clamp to allowed values"
    )
    force: bool = option(False, "replace the release in an existing folder (its ledgers are kept)")
    resume: bool = option(False, "go on with the fit that was stopped in this folder")
    select: Literal["private"] | None = option(
        None, "private: release the best of a hidden number of fits of candidates=, all charged by one event"
    )
    candidates: tuple[Any, ...] | None = option(
        None, "select: generators to choose from, as [independent,{name:dpgan,steps:100}]"
    )
    mean_runs: float = option(5.0, "select: how many fits are made on average; more cost more of epsilon")
    trust: str | None = option(
        None, "package whose generator may run, where it is not synthdp's own; several are joined by commas"
    )
    fitness: float | None = option(
        None,
        "share of the budget's precision, as 0.05, that pays for figures of how well the samples fit, in the statement",
    )


@dataclass(frozen=True, kw_only=True)
class Plant:
    """What a fit prepares for `synthdp audit` (the group `audit`)."""

    canaries: int = option(0, "made-up records to plant, each by a coin, for synthdp audit (a thousand say something)")
    records: int = option(0, "units of the data to use in their place: each stays in the training set by a coin")


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Options of `synthdp audit`: of a release by its canaries, or of a generator by many small fits."""

    release: str | None = option(None, "folder of a release that was fitted with audit.canaries= or audit.records=")
    canaries: str | None = option(None, "internal/canaries.json of that fit")
    rows: int = option(100_000, "records to draw from the release")
    runs: int = option(1000, "fits a side that judge a generator")
    tuning_runs: int = option(400, "further fits a side that choose what to look at")
    pair: Literal["own", "worst_case", "rare"] = option(
        "own", "the two neighbouring tables of a generator's audit; own: those that tell most of it, as far as is known"
    )
    error: float = option(0.05, "probability that the lower bound on epsilon is wrong")
    gate_error: float = option(1e-3, "probability that a true claim is called contradicted")
    workers: int | None = option(None, "processes; default: one per core")
    out: str | None = option(None, "file for the result as JSON (internal); default: print")
    format: Format = option("text", "text or json")
    force: bool = option(False, "write over an existing file")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Options of `synthdp sample`."""

    release: str = option(MISSING, "folder of a release")
    rows: int = option(MISSING, "number of synthetic records")
    out: str = option(MISSING, "file to write, .csv, .csv.gz or .parquet; pictures: .npz, or a folder of PNG files")
    where: Mapping[str, Any] | None = option(
        None,
        "draw records that satisfy a condition, as 'where={sex: F, age: [65, 80]}': a value, a list, a range, or null",
    )
    seed: int | None = option(None, "the same seed gives the same records")
    force: bool = option(False, "write over an existing file")


@dataclass(frozen=True, kw_only=True)
class Judge:
    """How to judge (the group `evaluate`)."""

    models: tuple[str, ...] | None = option(
        None,
        "models, as [hgb,lr,rf] (default): lr rf gnb bnb svm tree lda ada bag hgb mlp xgb, or a set: quick, paper; "
        "of images lr, mlp, cnn (default: all three)",
    )
    seeds: int = option(3, "repetitions of every model, with seeds 0, 1, ...")
    targets: tuple[str, ...] | None = option(None, "columns to predict; default: the schema's targets")
    samples: int = option(
        1,
        "synthetic samples to judge: evaluate draws those beyond the file from release=, compare all from each release; "
        "of images one",
    )
    bootstrap: int = option(200, "draws of the test records behind each interval of 95 %; 0 gives none")
    subgroups: tuple[str, ...] = option((), "columns whose groups are scored apart, as [sex,age]")
    attacks: bool = option(
        True, "attack the synthetic records, beside what the guarantee of their release allows (evaluate: release=)"
    )


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Options of `synthdp evaluate`."""

    synthetic: str = option(MISSING, "synthetic records, as `synthdp sample` wrote them")
    release: str | None = option(None, "folder of the release that they come from: its guarantee stands beside attacks")
    out: str = option(MISSING, "folder for evaluation.json and evaluation.html (internal)")
    force: bool = option(False, "write into an existing folder")
    pdf: bool = option(False, "also write evaluation.pdf; needs a browser of the Chromium family on the PATH")


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Options of `synthdp compare`."""

    runs: str = option(MISSING, "folder under which the releases lie, as fit --multirun out=FOLDER wrote them")
    out: str | None = option(
        None, "folder for compare.json, .md, .html and .svg (internal); default: comparison, under runs"
    )
    force: bool = option(
        False,
        "write into an existing folder; releases that were judged there and have not changed are not judged again",
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    """Options of `synthdp report`."""

    release: str = option(MISSING, "folder of a release")
    out: str = option(MISSING, "folder for statement.html and statement.json")
    public: str | None = option(
        None, "public key (public.pem) that the release must be signed by; never one from the release"
    )
    pdf: bool = option(False, "also write statement.pdf; needs a browser of the Chromium family on the PATH")
    force: bool = option(False, "write into an existing folder")


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Options of `synthdp verify`."""

    release: str = option(MISSING, "folder of a release")
    public: str | None = option(
        None, "public key (public.pem) that the release must be signed by; never one from the release"
    )


@dataclass(frozen=True, kw_only=True)
class Keygen:
    """Options of `synthdp keygen`."""

    out: str = option(
        MISSING, "folder for private.pem and public.pem; SYNTHDP_PASSPHRASE in the environment encrypts the private key"
    )


@dataclass(frozen=True, kw_only=True)
class Sign:
    """Options of `synthdp sign`."""

    release: str = option(MISSING, "folder of a release")
    key: str = option(
        MISSING, "private key (private.pem); SYNTHDP_PASSPHRASE in the environment opens an encrypted one"
    )
    force: bool = option(False, "replace an existing signature")


@dataclass(frozen=True, kw_only=True)
class AccountOf:
    """Options of `synthdp account`: a mechanism by rate, noise and steps, a ledger, or the votes of teachers (PATE)."""

    rate: float = option(1.0, "probability of a unit to be in the sample; 1 is no sampling")
    noise: float | None = option(None, "noise multiplier: standard deviation / L2 sensitivity")
    steps: int = option(1, "number of compositions")
    sampler: Literal["poisson", "without_replacement", "shuffle"] = option(
        "poisson",
        "how batches are drawn: poisson, without_replacement (with relation=replace_one) or shuffle (refused)",
    )
    ledger: str | None = option(None, "ledger.jsonl to account instead of rate, noise and steps")
    votes: str | None = option(
        None, "matrix of teachers' votes to account instead, .npy or .csv: queries x classes, counts (give aggregator=)"
    )
    aggregator: Literal["lnmax", "gnmax", "confident"] | None = option(
        None, "how votes are answered: lnmax (gamma=), gnmax (sigma=), confident (threshold=, sigma1=, sigma2=)"
    )
    gamma: float | None = option(None, "votes: inverse scale of the Laplace noise on each count")
    sigma: float | None = option(None, "votes: deviation of the Gaussian noise on each count")
    threshold: float | None = option(None, "votes: what the noisy largest count must reach to be answered")
    sigma1: float | None = option(None, "votes: deviation of the noise at the threshold")
    sigma2: float | None = option(None, "votes: deviation of the noise on each count of an answer")
    queries: int | None = option(None, "votes: how many rows of the matrix; default: all")
    answers: int | None = option(None, "votes: most answers behind the threshold that were declared; default: queries")
    orders: tuple[float, ...] | None = option(
        None, "votes: orders to try, as [1,2,3]; default: 1 to 8 (lnmax), 2 to 1,000 (gnmax, confident)"
    )
    delta: float = option(1e-6, "delta at which epsilon is computed")
    accountant: tuple[str, ...] = option(
        ("all",), "one accountant, several as [moments,strong], or all that have a proof"
    )
    relation: Relation = option("add_remove", "neighbouring data sets: add_remove or replace_one")
    group: int = option(1, "units of one person that are protected together")
    plot: str | None = option(None, "file to draw epsilon against steps into, .png, .pdf or .svg")
    curve: bool = option(False, "also print epsilon at other deltas")
    format: Format = option("text", "text or json")
    force: bool = option(False, "write over an existing plot")


@dataclass(frozen=True, kw_only=True)
class Calibrate:
    """Options of `synthdp calibrate`: solves for the noise; with noise=... and rate=... for the steps; with noise=... and
    steps=... for the rate."""

    epsilon: float = option(MISSING, "epsilon to keep")
    delta: float = option(1e-6, "delta to keep")
    noise: float | None = option(None, "noise multiplier; default: the least that keeps the budget")
    rate: float | None = option(
        None, "Poisson sampling probability; default: 1, no sampling, or the largest where noise= and steps= are given"
    )
    steps: int | None = option(None, "number of compositions; default: 1, or the most where noise= and rate= are given")
    ledger: str | None = option(None, "ledger.jsonl of earlier fits, which the budget covers too")
    accountant: str = option("pld", "accountant to solve with")
    relation: Relation = option("add_remove", "neighbouring data sets: add_remove or replace_one")
    format: Format = option("text", "text or json")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Options of `synthdp schema`."""

    path: str = option(MISSING, "records to draft a schema from: a file, or a folder of pictures")
    out: str | None = option(
        None, "file to write, with what was seen in NAME.seen.internal.yaml beside it; default: print the draft"
    )
    force: bool = option(False, "write over an existing file")


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Options of `synthdp data`."""

    format: Format = option("text", "text or json")


@dataclass(frozen=True, kw_only=True)
class BudgetOf:
    """Options of `synthdp budget`."""

    format: Format = option("text", "text or json")


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Options of `synthdp demo`."""

    out: str = option("outputs/demo", "folder for everything that the demo writes")
    seed: int | None = option(None, "make a rehearsal: reproducible noise, stamped not for release")
    force: bool = option(False, "run again in an existing folder")


# The flat options of each command, and its groups with the option that is chosen when none is named.
OPTIONS: dict[str, Any] = {
    "fit": Fit,
    "sample": Sample,
    "evaluate": Evaluate,
    "compare": Compare,
    "report": Report,
    "verify": Verify,
    "keygen": Keygen,
    "sign": Sign,
    "account": AccountOf,
    "calibrate": Calibrate,
    "schema": Draft,
    "data": Listing,
    "budget": BudgetOf,
    "audit": Audit,
    "demo": Demo,
}
GROUPS: dict[str, dict[str, str]] = {
    "fit": {"data": "meps", "generator": "dpgan", "budget": "default", "account": "default", "audit": "default"},
    "evaluate": {"data": "meps", "evaluate": "default"},
    "compare": {"data": "files", "evaluate": "default"},
    "budget": {"data": "meps", "account": "default"},
    "audit": {"generator": "dpgan", "budget": "default"},
    "demo": {"generator": "dpgan", "budget": "demo", "account": "default"},
}
KINDS: dict[str, Any] = {"data": Data, "budget": Budget, "evaluate": Judge, "account": DataAccount, "audit": Plant}
# Text that Hydra's grammar must not read: file names may hold spaces, commas, brackets and equals signs.
TEXT = (
    "out",
    "runs",
    "release",
    "public",
    "key",
    "canaries",
    "synthetic",
    "path",
    "ledger",
    "votes",
    "plot",
    "data.path",
    "data.schema",
    "data.train",
    "data.test",
    "data.target",
    "account.path",
    "account.head",
    "account.by",
)


def defaults(kind: Any) -> dict[str, Any]:
    """A settings class as plain values; "???" where a value is required."""
    return {field.name: _default(field) for field in dataclasses.fields(kind)}


def changed(options: Any, names: Iterable[str]) -> list[str]:
    """Those of the named options that are not at their default."""
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    return [name for name in names if getattr(options, name) != defaults[name]]


def helps(kind: Any) -> Iterator[tuple[str, Any, str]]:
    """Name, default and help of each field; those of a group within by their full name."""
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.default):
            yield from ((f"{field.name}.{name}", value, text) for name, value, text in helps(type(field.default)))
            continue
        yield field.name, _default(field), field.metadata.get(HELP, "")


def made(kind: type[Made], values: Mapping[str, Any], where: str = "") -> Made:
    """The dataclass with these values, each checked against its type; raises `BadInput` that names the option."""
    hints = typing.get_type_hints(kind)
    for name in values:
        if name not in hints:
            close = difflib.get_close_matches(str(name), hints, 1)
            hint = f"; did you mean {where}{close[0]}?" if close else ""
            raise BadInput(f"no option {f'{where}{name}'!r}{hint} (a file of --config-dir may set it)")
    return kind(**{name: _checked(value, hints[name], where + name) for name, value in values.items()})


def _default(field: "dataclasses.Field[Any]") -> Any:
    if dataclasses.is_dataclass(field.default):
        return defaults(type(field.default))
    if field.default is not MISSING:
        return list(field.default) if isinstance(field.default, tuple) else field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    return "???"


def _checked(value: Any, hint: Any, name: str) -> Any:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        rest = [part for part in parts if part is not type(None)]
        return _checked(value, rest[0], name) if len(rest) == 1 else value
    if origin is Literal:
        if value not in parts:
            raise BadInput(f"{name} must be one of {', '.join(map(str, parts))}, got {value!r}")
        return value
    if origin is tuple:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_checked(item, parts[0], name) for item in items)
    if dataclasses.is_dataclass(hint):
        return made(typing.cast("type[Any]", hint), value, f"{name}.")
    return _plain(value, hint, name)


def _plain(value: Any, hint: Any, name: str) -> Any:
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if hint in (int, bool, str) and type(value) is not hint:
        raise BadInput(f"{name} must be {_A[hint]}, got {value!r}")
    if hint is float:
        raise BadInput(f"{name} must be a number, got {value!r}")
    return value


_A = {int: "a whole number", bool: "true or false", str: "text"}
