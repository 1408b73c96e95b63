"""The options of each command: dataclasses, from which the command line's schema and `--help` are derived. `OPTIONS` and `GROUPS` say
which command has which."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Literal

from synthdp.evaluate.judging_options import Choices
from synthdp.ledger.budget import Budget
from synthdp.ledger.events import Relation
from synthdp.options import number, option, whole

Format = Literal["text", "json"]
Tables = Literal["files", "omop", "synthea", "mimic3"]
OMOP = "omop: the tables of an OMOP CDM"
OTHERS = "synthea: Synthea's CSV export; mimic3: MIMIC-III"
VOCABULARY = (
    "folder (or DuckDB file, or URL) of a public version of OMOP's vocabulary: concept.csv and concept_ancestor.csv"
)
STEPS = 10**12


@dataclass(frozen=True, kw_only=True)
class Data:
    """Which records: a named data set (`data=NAME`), or files with a schema."""

    name: str | None = option(None, "named data set, chosen by data=NAME; `synthdp data` lists them")
    path: str | None = option(
        None,
        "sensitive records: a .csv, .tsv, .parquet, .xlsx, .dta, .sav, .sas7bdat or .xpt file, a folder of CSV, Parquet or Excel files, "
        "or the URL of a database, with data.table=; "
        "for images a .npz file, or a folder with labels.csv",
    )
    table: str | None = option(
        None, "with data.path=postgresql://user@host/name or duckdb:///file.db: the table, or view, of the records"
    )
    query_file: str | None = option(None, "instead of the table: a file with the SELECT that returns the records")
    schema: str | None = option(None, "schema.yaml of the records")
    target: str | None = option(None, "column to predict; default: the schema's targets")
    train: str | None = option(None, "evaluate: file or folder of the records used in the fit")
    test: str | None = option(None, "evaluate: file or folder of held-out records")
    engine: Literal["auto", "memory", "duckdb"] = option(
        "auto",
        "where tables are counted: memory, or duckdb, which holds at most data.memory and serves generators that ask for "
        "counts alone. auto: duckdb for a folder or a pattern such as 'visits/*.parquet', memory for a file; files above "
        "1 GiB need an explicit engine",
    )
    memory: str = option("2GiB", "how much of a table duckdb may hold in memory")
    format: Tables = option(
        "files",
        f"files: the ending of data.path says what kind of file it is; {OMOP}; {OTHERS}; each in a folder of CSV or Parquet, a DuckDB "
        "file, or postgresql://user@host/name#schema",
    )
    vocabulary: str | None = option(
        None,
        f"with data.format=omop: {VOCABULARY}. check uses it; for plan, fit and evaluate it must "
        "have the concepts that the schema declares",
    )


@dataclass(frozen=True, kw_only=True)
class CapOf:
    """The cap of an account, as far as it is given."""

    epsilon: float | None = option(None, "largest epsilon of all fits together; fixed when the account is made")
    delta: float | None = option(None, "largest delta of all fits together; fixed when the account is made")


@dataclass(frozen=True, kw_only=True)
class DataAccount:
    """The account of the data set (the group `account`): its budget over all fits."""

    path: str | None = option(
        None,
        "account=FILE is short for this; default: beside the data, or in $SYNTHDP_HOME/accounts for named data sets; "
        "account=none enters the fit nowhere",
    )
    cap: CapOf = option(CapOf(), "what all fits together may spend")
    filter: Literal["additive", "renyi"] | None = option(
        None, "how fits add up: additive (the default) or renyi; fixed when the account is made"
    )
    head: str | None = option(
        None, "hash kept elsewhere (synthdp budget prints it); the fit is refused if the account does not hold it"
    )
    by: str | None = option(None, "who runs the fit; default: the user's name")
    add_version: bool = option(
        False, "accept the table as a newer version of the account's table, about the same people"
    )
    change_cap: bool = option(False, "replace the account's cap by account.cap, and record the change")


@dataclass(frozen=True, kw_only=True)
class Fit:
    out: str = option(MISSING, "folder to write; its release/ may leave, its internal/ must not")
    seed: int | None = option(None, "make a rehearsal: its noise is reproducible, so it is stamped 'not for release'")
    invalid: Literal["error", "clamp"] = option(
        "error", "records that break the schema: error refuses them, clamp maps them to allowed values"
    )
    force: bool = option(False, "replace the release in an existing folder; its ledgers are kept")
    resume: bool = option(False, "continue the fit that was stopped in this folder")
    select: Literal["private"] | None = option(
        None, "private: release the best of a hidden number of fits of candidates=, all charged as one event"
    )
    candidates: tuple[Any, ...] | None = option(
        None, "with select=private: generators to choose from, such as [independent,{name:mixture,starts:1}]"
    )
    mean_runs: float = option(
        5.0, "with select=private: how many fits are made on average; more fits need more noise in each"
    )
    trust: str | None = option(
        None, "package whose generator may run although it is not part of synthdp; separate several by commas"
    )
    fitness: float | None = option(
        None,
        "share of the budget's precision, such as 0.05, that buys noisy figures of how well the samples fit; they go into"
        " the statement",
    )
    answers: bool = option(
        False,
        "also release the noisy tables of counts that the fit asked for, in release/tables/, at no further charge",
    )


@dataclass(frozen=True, kw_only=True)
class PlanOf(Fit):
    """Options of `synthdp plan`: those of the fit, and how to tell."""

    out: str = option(".", "folder of the fit; nothing is written")
    time: bool = option(False, "run the whole fit on made-up records, and report its time and memory")
    format: Format = option("text", "text or json")


@dataclass(frozen=True, kw_only=True)
class PateOf:
    out: str = option(MISSING, "folder to write; its release/ and labelled records may leave, its internal/ must not")
    public: str = option(
        MISSING, "file of public records that the teachers label: the columns of the sensitive ones, without the target"
    )
    teachers: int = option(
        250,
        "number of teachers, each trained on its own part of the records; choose it from public knowledge only",
        whole(),
    )
    teacher: Literal["forest", "network", "convolutional"] = option(
        "forest",
        "what a teacher is: forest (a random forest), network (a neural network) or convolutional (for pictures)",
    )
    aggregator: Literal["gnmax", "lnmax", "counts", "shares"] = option(
        "gnmax",
        "how votes are answered: gnmax or lnmax (the class with the most votes, under Gaussian or Laplace noise), counts (noisy counts of "
        "all classes) or shares (of two classes)",
    )
    queries: int = option(
        500, "how many public records the teachers label; the noise is solved for the budget", whole()
    )
    student: Literal["network", "convolutional", "semi_supervised"] = option(
        "network",
        "what learns from the labels: network (a neural network), convolutional (for pictures) or semi_supervised (a GAN, which also "
        "learns from the other public records)",
    )
    distillation: bool = option(
        False, "with aggregator=counts or shares: the student learns the noisy shares, not the likeliest class alone"
    )
    rounds: int = option(
        1,
        "number of rounds of queries; each round after the first asks about the records that the student is least sure of",
        whole(),
    )
    features: Literal["one_hot", "codes"] = option(
        "one_hot",
        "how teachers and student see a record: one_hot (an indicator for each value) or codes (a number for each column)",
    )
    seed: int | None = option(None, "make a rehearsal: its noise is reproducible, so it is stamped 'not for release'")
    invalid: Literal["error", "clamp"] = option(
        "error", "records that break the schema: error refuses them, clamp maps them to allowed values"
    )
    force: bool = option(False, "replace the release in an existing folder; its ledgers are kept")


@dataclass(frozen=True, kw_only=True)
class Check:
    out: str | None = option(None, "file for the report as JSON (internal); default: print it")
    values: bool = option(False, "also show the cells that break a rule; the report says that they were shown")
    force: bool = option(False, "overwrite an existing file")


@dataclass(frozen=True, kw_only=True)
class Split:
    path: str = option(
        MISSING,
        "records to split: a table in a file that fit can read, URL#TABLE of a database (into .parquet), or pictures",
    )
    schema: str | None = option(None, "schema.yaml of the records")
    format: Tables = option(
        "files",
        f"files: the ending of path says what kind of file it is; {OMOP}; {OTHERS}. omop is written as CDMs, the others as files "
        "of linked tables. data.format= and data.path= say the same",
    )
    share: float = option(0.2, "expected share of units that are held out")
    out: str = option(MISSING, "folder for train and held_out, with the ending of path, and split.key (internal)")
    key: str | None = option(
        None, "file of the secret key; the key of an earlier split puts each unit in the same part again"
    )
    force: bool = option(False, "write into an existing folder")


@dataclass(frozen=True, kw_only=True)
class Plant:
    """What a fit prepares for `synthdp audit` (the group `audit`)."""

    canaries: int = option(
        0, "made-up records for synthdp audit, each added by the toss of a coin; a useful audit needs about a thousand"
    )
    records: int = option(
        0, "units of the data to use instead of made-up records; each stays in the training set by the toss of a coin"
    )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Options of `synthdp audit`: of a release by its canaries, or of a generator by many small fits."""

    release: str | None = option(None, "folder of a release that was fitted with audit.canaries= or audit.records=")
    canaries: str | None = option(None, "the file internal/canaries.json of that fit")
    rows: int = option(100_000, "number of records to draw from the release")
    runs: int = option(1000, "number of fits on each of the two tables, when a generator is audited")
    tuning_runs: int = option(400, "number of further fits on each table, from which the attack is chosen")
    pair: Literal["own", "worst_case", "rare", "linked"] = option(
        "own",
        "the two neighbouring tables on which a generator is audited: own (the most revealing pair known for this generator), worst_case "
        "(four equal records, with or without one that differs), rare (440 records, with or without one more of the rarer kind) or linked "
        "(linked tables of 72 people, with or without one whose history is extreme)",
    )
    error: float = option(0.05, "probability that the lower bound on epsilon is wrong", number("(0, 1)"))
    gate_error: float = option(1e-3, "probability that a true claim is reported as contradicted", number("(0, 1)"))
    workers: int | None = option(None, "number of processes; default: one per core")
    out: str | None = option(None, "file for the result as JSON (internal); default: print it")
    format: Format = option("text", "text or json")
    force: bool = option(False, "overwrite an existing file")


@dataclass(frozen=True, kw_only=True)
class Sample:
    release: str = option(MISSING, "folder of a release")
    rows: int = option(MISSING, "number of synthetic records, or of people for linked tables")
    out: str = option(
        MISSING,
        "file to write: .csv, .csv.gz, .tsv, .parquet, .xlsx, .dta, .sav or .xpt, URL#TABLE of a database, or - for CSV on "
        "standard output; for images .npz, or a folder of PNG files; for linked tables a folder, or 'FOLDER/*.parquet'",
    )
    format: Literal["files", "omop"] = option(
        "files",
        f"files: the ending of out says what is written; {OMOP} from a release of one, to a folder (CSV), 'FOLDER/*.parquet' or "
        "FILE.duckdb",
    )
    vocabulary: str | None = option(
        None,
        f"with format=omop: {VOCABULARY}. It also leaves out rows whose concepts only people of another gender can have",
    )
    where: Mapping[str, Any] | None = option(
        None,
        "draw records that satisfy a condition, such as 'where={sex: F, age: [65, 80]}'; a condition is a value, a list, "
        "a range, or null",
    )
    seed: int | None = option(None, "the same seed gives the same records")
    force: bool = option(False, "overwrite an existing file")


@dataclass(frozen=True, kw_only=True)
class Judge(Choices):
    """How to judge (the group `evaluate`)."""

    samples: int = option(
        1,
        "number of synthetic samples to judge; evaluate draws further ones from release=, compare draws all from each "
        "release; for images always one",
        whole(),
    )


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    synthetic: str = option(
        MISSING, "synthetic records, as `synthdp sample` wrote them: a file, or URL#TABLE of a database"
    )
    release: str | None = option(
        None, "folder of the release that they come from; its guarantee is shown beside the attacks"
    )
    out: str = option(MISSING, "folder for evaluation.json and evaluation.html (internal)")
    force: bool = option(False, "write into an existing folder")
    pdf: bool = option(False, "also write evaluation.pdf; needs Chromium or a browser of its family on the PATH")


@dataclass(frozen=True, kw_only=True)
class Compare:
    runs: str = option(MISSING, "folder that holds the releases, as fit --multirun out=FOLDER wrote them")
    out: str | None = option(None, "folder for compare.json, .html and .svg (internal); default: RUNS/comparison")
    force: bool = option(
        False,
        "write into an existing folder; releases that it has judged already are judged again only if they changed",
    )


@dataclass(frozen=True, kw_only=True)
class Report:
    release: str = option(MISSING, "folder of a release")
    out: str = option(MISSING, "folder for statement.html and statement.json")
    public: str | None = option(
        None, "public key (public.pem) that must have signed the release; never take it from the release itself"
    )
    pdf: bool = option(False, "also write statement.pdf; needs Chromium or a browser of its family on the PATH")
    force: bool = option(False, "write into an existing folder")


@dataclass(frozen=True, kw_only=True)
class Verify:
    release: str = option(MISSING, "folder of a release")
    public: str | None = option(
        None, "public key (public.pem) that must have signed the release; never take it from the release itself"
    )


@dataclass(frozen=True, kw_only=True)
class Keygen:
    out: str = option(
        MISSING,
        "folder for private.pem and public.pem; set SYNTHDP_PASSPHRASE in the environment to encrypt the private key",
    )


@dataclass(frozen=True, kw_only=True)
class Sign:
    release: str = option(MISSING, "folder of a release")
    key: str = option(
        MISSING, "private key (private.pem); SYNTHDP_PASSPHRASE in the environment opens an encrypted one"
    )
    force: bool = option(False, "replace an existing signature")


@dataclass(frozen=True, kw_only=True)
class EpsilonOf:
    """Options of `synthdp epsilon`: a mechanism by rate, noise and steps, a ledger, or the votes of teachers (PATE)."""

    rate: float = option(1.0, "probability that a unit is in the sample; 1 means no sampling", number("[0, 1]"))
    noise: float | None = option(None, "noise multiplier: standard deviation / L2 sensitivity")
    steps: int = option(1, "number of compositions", whole(0, STEPS))
    sampler: Literal["poisson", "without_replacement", "shuffle"] = option(
        "poisson",
        "how batches are drawn: poisson, without_replacement (with relation=replace_one), or shuffle (refused)",
    )
    ledger: str | None = option(None, "ledger.jsonl to account for, instead of rate, noise and steps")
    votes: str | None = option(
        None,
        "teachers' votes to account for instead: counts as a matrix of queries x classes, .npy or .csv; needs aggregator=",
    )
    aggregator: Literal["lnmax", "gnmax", "confident"] | None = option(
        None, "how votes are answered: lnmax (gamma=), gnmax (sigma=), or confident (threshold=, sigma1=, sigma2=)"
    )
    gamma: float | None = option(None, "votes: inverse scale of the Laplace noise on each count")
    sigma: float | None = option(None, "votes: standard deviation of the Gaussian noise on each count")
    threshold: float | None = option(None, "votes: a query is answered only if its noisy largest count reaches this")
    sigma1: float | None = option(None, "votes: standard deviation of the noise at the threshold")
    sigma2: float | None = option(None, "votes: standard deviation of the noise on each count of an answer")
    queries: int | None = option(None, "votes: how many rows of the matrix to account for; default: all")
    answers: int | None = option(None, "votes: declared maximum of answers above the threshold; default: queries")
    orders: tuple[float, ...] | None = option(
        None, "votes: orders to try, such as [1,2,3]; default: 1 to 8 (lnmax), 2 to 1,000 (gnmax, confident)"
    )
    delta: float = option(1e-6, "delta at which epsilon is computed")
    accountant: tuple[str, ...] = option(
        ("all",), "one accountant, several such as [moments,strong], or all that have a proof"
    )
    relation: Relation = option("add_remove", "neighbouring data sets: add_remove or replace_one")
    group: int = option(1, "number of units that belong to one person and are protected together")
    plot: str | None = option(None, "file for a plot of epsilon against steps: .png, .pdf or .svg")
    by_order: bool = option(
        False, "also print what each Renyi order gives, by moments and rdp; with plot=, draw that instead"
    )
    format: Format = option("text", "text or json")
    force: bool = option(False, "overwrite an existing plot")


@dataclass(frozen=True, kw_only=True)
class Calibrate:
    """Options of `synthdp calibrate`: solves for the noise; with noise=... and rate=... for the steps; with noise=... and
    steps=... for the rate."""

    epsilon: float = option(MISSING, "epsilon to keep")
    delta: float = option(1e-6, "delta to keep")
    noise: float | None = option(None, "noise multiplier; default: the least that keeps the budget")
    rate: float | None = option(
        None,
        "Poisson sampling probability; default: 1 (no sampling), or the largest if noise= and steps= are given",
        number("[0, 1]"),
    )
    steps: int | None = option(
        None, "number of compositions; default: 1, or the most if noise= and rate= are given", whole(1, STEPS)
    )
    ledger: str | None = option(None, "ledger.jsonl of earlier fits, which the budget has to cover as well")
    accountant: str = option("pld", "accountant to solve with")
    relation: Relation = option("add_remove", "neighbouring data sets: add_remove or replace_one")
    format: Format = option("text", "text or json")


@dataclass(frozen=True, kw_only=True)
class Draft:
    path: str | None = option(
        None, "records to draft a schema from: a file, the URL of a database, or a folder of pictures"
    )
    dictionary: str | None = option(
        None,
        "instead of path: a data dictionary of REDCap (.csv), Frictionless or CSVW (.json), or an SPSS or Stata file; only "
        "labels are read from it, no records",
    )
    table: str | None = option(
        None, "with path=postgresql://user@host/name or duckdb:///file.db: the table of the records"
    )
    query_file: str | None = option(None, "instead of the table: a file with the SELECT that returns the records")
    format: Tables = option(
        "files",
        f"files: the ending of path says what kind of file it is; {OMOP}; {OTHERS}. These three go with or without path=, and no "
        "record of theirs is read. data.format=, data.path= and data.vocabulary= say the same",
    )
    vocabulary: str | None = option(
        None, f"with format=omop and out=: {VOCABULARY}. Lists of its standard concepts are written beside the draft"
    )
    sheet: str | None = option(None, "sheet of an .xlsx workbook; default: the first visible one with a table")
    out: str | None = option(
        None, "file to write; what the draft saw goes to NAME.seen.internal.yaml beside it; default: print the draft"
    )
    force: bool = option(False, "overwrite an existing file")


@dataclass(frozen=True, kw_only=True)
class Listing:
    format: Format = option("text", "text or json")


@dataclass(frozen=True, kw_only=True)
class Demo:
    out: str = option("outputs/demo", "folder for everything that the demo writes")
    histories: bool = option(False, "linked tables of a made-up clinic, in place of the embedded table")
    seed: int | None = option(None, "make a rehearsal: its noise is reproducible, so it is stamped 'not for release'")
    force: bool = option(False, "run again in an existing folder")


@dataclass(frozen=True, kw_only=True)
class Completion:
    shell: Literal["bash", "zsh"] = option("bash", "bash or zsh; `synthdp completion zsh` also works")


# The flat options of each command, and its groups with the option that is chosen when none is named.
OPTIONS: dict[str, Any] = {
    "check": Check,
    "plan": PlanOf,
    "split": Split,
    "fit": Fit,
    "pate": PateOf,
    "sample": Sample,
    "evaluate": Evaluate,
    "compare": Compare,
    "report": Report,
    "verify": Verify,
    "keygen": Keygen,
    "sign": Sign,
    "epsilon": EpsilonOf,
    "calibrate": Calibrate,
    "schema": Draft,
    "data": Listing,
    "budget": Listing,
    "audit": Audit,
    "demo": Demo,
    "completion": Completion,
}
GROUPS: dict[str, dict[str, str]] = {
    "check": {"data": "files"},
    "plan": {"data": "files", "generator": "default", "budget": "default", "account": "default", "audit": "default"},
    "fit": {"data": "files", "generator": "default", "budget": "default", "account": "default", "audit": "default"},
    "pate": {"data": "files", "budget": "default", "account": "default"},
    "evaluate": {"data": "files", "evaluate": "default"},
    "compare": {"data": "files", "evaluate": "default"},
    "budget": {"data": "files", "account": "default"},
    "audit": {"generator": "default", "budget": "default"},
    "demo": {"generator": "default", "budget": "demo", "account": "default"},
}
KINDS: dict[str, Any] = {"data": Data, "budget": Budget, "evaluate": Judge, "account": DataAccount, "audit": Plant}
