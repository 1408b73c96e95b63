"""Input that was made to break its reader, through the command line: one line, status 2, little time and memory."""

import gzip
import resource
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sweeps import heavy, sweep

from synthdp.accounting import epsilons
from synthdp.cli import run
from synthdp.files import limits
from synthdp.ledger.events import Choice, Entry, Gaussian, Laplace, Sampled
from synthdp.ledger.ledger import Ledger

SCHEMA = "declared_by: us\nunits: 200\ncolumns:\n  age: {kind: integer, bounds: [0, 120]}\n  sex: {kind: categorical, categories: [M, F]}\n"
MOST_SECONDS, MOST_MIB = 10, 400


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(SCHEMA)
    (tmp_path / "good.csv").write_text("age,sex\n" + "30,M\n40,F\n" * 20)
    return tmp_path


@pytest.fixture
def refused(folder, capsys):
    """Runs a command that must be refused; what it says, in one line."""

    def tried(*words):
        peak, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        status = run(words)
        assert time.process_time() - start < MOST_SECONDS
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < MOST_MIB << 10
        error = capsys.readouterr().err
        assert (status, len(error.splitlines())) == (2, 1), error
        assert len(error) < 3_000
        assert error[:-1].isprintable()
        return error

    return tried


def fit(*words, schema="good.yaml", path="good.csv"):
    chosen = {word.split("=")[0] for word in words}
    usual = (
        "generator=independent",
        f"data.path={path}",
        f"data.schema={schema}",
        "budget.epsilon=1",
        "account=none",
        "out=o",
    )
    return ("fit", *(word for word in usual if word.split("=")[0] not in chosen), *words)


def made(change):
    return SCHEMA.replace("[0, 120]", f"[0, 120]{change}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SCHEMA.replace("categorical", "[a]"), "unknown kind"),
        (SCHEMA.replace("categorical", "{a: b}"), "unknown kind"),
        (made(", bins: 1e400"), "too large for a float"),
        (made(f", bins: 1{'0' * 4_300}"), "whole number of 4301 digits"),
        (SCHEMA.replace("integer, bounds: [0, 120]", "datetime, bounds: learn, resolution: {}"), "resolution"),
        (SCHEMA.replace("200", "1" + "0" * 30), "units"),
        (SCHEMA.replace("[0, 120]", f"[0, 1{'0' * 39}]").replace("integer", "continuous, decimals: 2"), "bounds"),
        heavy(("[" * 50_000, "nested too deep")),
        ("a: &a [*a]\n", "refers back to itself"),
        ("a: &b0 [1, 1]\n" + "".join(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" for n in range(1, 40)), "more than"),
        ("x" * (3 << 20), "bytes; at most"),
        heavy((f"columns:\n  ? {'x' * 1_000_000}\n  : {{kind: [a]}}\n", "unknown kind")),
        ('columns: {"\\e[31m": {kind: [a]}}', "\\x1b[31m"),
        heavy((SCHEMA + "".join(f"  c{n}: {{kind: boolean}}\n" for n in range(limits.MOST_COLUMNS)), "columns; at most")),
    ],
    ids=lambda value: value[:20],
)  # fmt: skip
def test_schemas(folder, refused, text, says):
    (folder / "bad.yaml").write_text(text)
    assert says in refused(*fit(schema="bad.yaml"))


def test_devices_are_no_files(folder, refused):
    assert "not a plain file" in refused(*fit("data.schema=/dev/zero"))


@pytest.mark.heavy
def test_tables_that_unpack_to_far_more_than_they_are(folder, refused, monkeypatch):
    monkeypatch.setattr(limits, "FREE_TEXT", 1 << 22)
    monkeypatch.setattr(limits, "FREE", 1 << 22)
    with gzip.open(folder / "bomb.csv.gz", "wb") as file:
        file.write(b"age,sex\n")
        for _ in range(8):
            file.write(b"30,M\n" * (1 << 18))
    for engine in ("memory", "duckdb"):
        assert "over 200 times its size" in refused(*fit(f"data.engine={engine}", path="bomb.csv.gz"))
    assert "over 200 times its size" in refused("schema", "path=bomb.csv.gz")
    assert "over 200 times its size" in refused("split", "path=bomb.csv.gz", "schema=good.yaml", "out=parts")
    (folder / "torn.csv.gz").write_bytes(gzip.compress(b"age,sex\n30,M\n" * 1_000)[:-30])
    assert "not a complete gzip file" in refused("schema", "path=torn.csv.gz")
    ages = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()).take(pa.array([0] * 100_000)), pa.array([30]))
    with pq.ParquetWriter(folder / "bomb.parquet", pa.schema([("age", ages.type)])) as writer:
        for _ in range(10):
            writer.write_table(pa.table({"age": ages}))
    assert "over 200 times its size" in refused("schema", "path=bomb.parquet")
    texts = pa.table({"age": ["x" * 10_000] * 20_000, "sex": ["M"] * 20_000})  # each text is stored once
    dictionary = pa.table({"age": pa.array(texts["age"].combine_chunks().dictionary_encode()), "sex": texts["sex"]})
    for name, table in (("texts.parquet", texts), ("dictionary.parquet", dictionary)):
        pq.write_table(table, folder / name)
        assert "over 200 times its size" in refused("schema", f"path={name}")
        assert "over 200 times its size" in refused(*fit(path=name))
        assert "over 200 times its size" in refused("split", f"path={name}", "schema=good.yaml", f"out=parts of {name}")


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["wide.csv", "wide.parquet"])
def test_tables_of_200_000_columns(folder, refused, name):
    if name == "wide.csv":  # more names than fit in what is read of a header
        (folder / name).write_text(",".join(f"c{n}" for n in range(200_000)) + "\n" + ",".join("1" * 200_000) + "\n")
    else:
        pq.write_table(pa.table({f"c{n}": [1] for n in range(20_000)}), folder / name)
    for words in (("schema", f"path={name}"), fit(path=name), fit("data.engine=duckdb", path=name)):
        assert "columns; at most 10,000" in refused(*words)


def test_a_footer_that_is_longer_than_a_table_needs(folder, refused, monkeypatch):
    monkeypatch.setattr(limits, "MOST_FOOTER", 1_000)
    pq.write_table(pa.table({f"c{n}": [1] for n in range(50)}), folder / "long.parquet")
    for words in (("schema", "path=long.parquet"), fit("data.engine=duckdb", path="long.parquet")):
        assert "its footer has" in refused(*words)


def test_a_table_without_columns_and_instants_beyond_the_calendar(folder, refused):
    pq.write_table(pa.table({}), folder / "none.parquet")
    assert "no columns" in refused("schema", "path=none.parquet")
    instants = pa.array([-62_135_596_800_000_001, 0], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"seen": instants}), folder / "early.parquet")
    assert run(["schema", "path=early.parquet"]) == 0


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("budget", "epslon: 3\n", "did you mean budget.epsilon"),
        ("budget", "epsilon: [\n", "not valid YAML"),
        ("budget", "\x00", "not valid YAML"),
        ("budget", "epsilon: 1\nepsilon: 2\n", "not valid YAML"),
        ("budget", "a: &a [*a]\n", "nested too deep"),
        ("budget", f"epsilon: {'[' * 5_000}", "nested too deep"),
        ("budget", f"epsilon: {'9' * 5_000}", "cannot be read"),
        ("data", "pat: x\n", "did you mean data.path"),
        ("data", "path: postgresql://me:HUSH@host/visits\n", "data.path contains a password"),
        ("generator", "nam: x\n", "needs the key name"),
        ("generator", "# @package _global_\n", "generator must be a mapping"),
        ("experiment", "# @package _global_\ngenerator: {x: 1}\n", "generator.x"),
    ],
    ids=repr,
)  # fmt: skip
def test_files_of_config_dir(folder, refused, file, text, says):
    (folder / "conf" / file).mkdir(parents=True)
    (folder / "conf" / file / "mine.yaml").write_text(text)
    others = [word for word in fit() if not word.startswith(("data.", f"{file}.", f"{file}="))]
    error = refused(*(others if file == "data" else fit()), f"{file}=mine", "--config-dir=conf")
    assert says in error
    assert "HUSH" not in error


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("data=null", "data=null chooses nothing"),
        ("generator=null", "chooses nothing"),
        (f"seed={'9' * 5_000}", "cannot be read"),
        (f"{'x' * 5_000}=1", "File name too long"),
        (f"data.path={'x' * 1_000_000}", "an option has 1,000,010 characters"),
    ],
    ids=lambda value: value[:20],
)
def test_words(refused, word, says):
    assert says in refused(*fit(word))


def test_a_sweep_of_a_billion_runs(refused):
    assert "more than 10,000 times" in refused(*fit("budget.epsilon=range(0,1000000000)", "--multirun"))


@pytest.mark.parametrize(
    "words", [("epsilon", "rate=${0}"), ("epsilon", "rate=${oc.env:NOBODY_SETS_THIS}"), ("fit", "data=${a}")]
)
def test_a_reference_to_nothing_is_refused(refused, words):
    assert "interpolation" in refused(*words).lower()


URLS = [
    "postgresql://me:HUSH@host/visits",
    "postgresql://me:HU@SH@host/visits.csv",
    "s3://KEY:HUSH@bucket/visits.parquet",
    "host=h user=me password=HUSH",
]  # fmt: skip


@pytest.mark.parametrize("url", sweep(URLS, lambda url: url == URLS[1]))
def test_a_password_is_never_echoed(refused, url):
    for words in (
        fit(f"data.path={url}"), fit(f"data.schema={url}"), fit(f"out={url}/x", f"data.schema={url}"), ("schema", f"path={url}"),
        ("verify", f"release={url}"), ("epsilon", f"ledger={url}"), ("budget", f"account={url}"), (url,), ("fit", url),
        ("fit", f"{url}=3"),
    ):  # fmt: skip
        error = refused(*words)
        assert "HUSH" not in error
        assert "SH@" not in error


def test_hundreds_of_costly_events_are_refused(folder, refused):
    ledger = Ledger.of([Entry(Sampled(0.001, (Gaussian(1 + n / 100),)), 10) for n in range(300)])
    ledger.write(folder / "ledger.jsonl")
    assert "at most 64 can be accounted together" in refused("epsilon", "ledger=ledger.jsonl")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("entry", "delta"),
    [
        (Entry(Choice(1e-10), 10**9), 1e-6),
        (Entry(Laplace(1e-320), 10**9), 1e-6),
        (Entry(Laplace(1.0), 10**9), 1e-6),
        (Entry(Sampled(0.5, (Gaussian(1e-3),)), 10**9), 1e-6),
        heavy((Entry(Sampled(1e-9, (Gaussian(0.3),)), 10**9), 1e-6)),
        heavy((Entry(Laplace(15.0), 10**4), 1 - 1e-12)),
        (Entry(Sampled(5e-324, (Gaussian(1.0),)), 1), 1e-6),
        (
            Entry(Sampled(0.6, (Gaussian(1.0, relation="replace_one"),), relation="replace_one"), 10**4),
            1e-6,
        ),  # by the fuzzer: no accountant but pld knows it, which began on too fine a grid
        heavy((Entry(Laplace(7.0), 10**6), 1 - 1e-12)),
    ],
    ids=str,
)
def test_absurd_events_have_an_epsilon(entry, delta):
    start = time.process_time()
    assert all(value >= 0 for value in epsilons([entry], delta).values())
    assert time.process_time() - start < MOST_SECONDS


def test_names_in_an_account_do_not_reach_the_terminal_raw():
    from synthdp.cli import output_paths

    shown = output_paths.name("\x1b[31m" + "x" * 1_000)
    assert shown.startswith("\\x1b[31m")
    assert len(shown) < 100
