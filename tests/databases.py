"""Databases that a test run starts for itself: PostgreSQL in a folder of its own, Spark in this machine's Java. Both skip with a
reason where they are not installed."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import ibis
import pytest

from synthdp.tables import source

USER = "postgres"  # the server refuses to run as root
HOMES = ("/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt/postgresql")


def _programs():
    """The folder of initdb and pg_ctl."""
    for home in HOMES:
        found = sorted(Path(home).glob("**/initdb")) if Path(home).is_dir() else []
        if found:
            return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


@contextmanager
def postgres():
    """The folder of the socket of a server that listens to nothing else."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    root = os.getuid() == 0
    if root and (shutil.which("setpriv") is None or subprocess.run(["id", USER], capture_output=True).returncode):
        pytest.skip(f"PostgreSQL does not run as root, and there is no setpriv or no user {USER}")
    as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if root else []
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: a socket's path has at most 107 bytes
    if root:
        shutil.chown(folder, USER, USER)

    def run(program, *words):
        done = subprocess.run([*as_user, programs / program, *words], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout[-500:]}{done.stderr[-500:]}")

    try:
        run("initdb", "-D", folder / "data", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        listens = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log", "-o", listens, "start")
        try:
            yield folder
        finally:
            run("pg_ctl", "-D", folder / "data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def to_postgres(folder):
    """A connection by Ibis."""
    with source.asking():
        return ibis.postgres.connect(host=str(folder), user=USER, database="postgres")


@contextmanager
def spark():
    """A Spark session in one thread, connected by Ibis."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, which is not installed")
    from pyspark.sql import SparkSession

    folder = tempfile.mkdtemp(prefix="spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # what runs once is not worth compiling
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder,
        "spark.sql.session.timeZone": "America/New_York",  # what instants mean must not hang on it
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session, ibis.pyspark.connect(session)
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
