"""The session of ``--engine spark``: an existing one, which stays unchanged, or a new one.

In a new session, workers run this Python, local ones use only the loopback interface, there is no web UI, and the
output of the JVM and its workers goes to a file, from which only the reason of a failure is reported.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kseg.errors import KsegError
from kseg.spark.reasons import reason_of

MIN_JAVA_VERSION = 17
MEMORY = "1g"
"""Memory of the driver's JVM. It holds findings, counts, and the text of one wave of a dump (`kseg.spark.dump`)."""


@contextmanager
def session(master: str | None = None, cores: int | None = None) -> Iterator[Any]:
    """Yields a SparkSession. ``master``: its URL; None: this machine, with ``cores``.

    Raises KsegError if PySpark or Java is missing, or if no session can be created.
    """
    _check_installed()
    active = _active()
    if active is not None:
        yield active
        return
    _check_java()
    from pyspark.sql import SparkSession

    folder = tempfile.mkdtemp(prefix="kseg-spark-")
    log = os.path.join(folder, "log")
    spark = None
    try:
        try:
            with _environment(master, folder), _output_to(log):
                spark = _builder(SparkSession, master, cores, folder).getOrCreate()
        except Exception as error:  # Java's and py4j's errors have no common class
            raise KsegError(f"no Spark session: {_last_error(log) or reason_of(error)}") from error
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        if spark is not None:
            with suppress(Exception):  # the command is done, or has failed and reported an error
                spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _active() -> Any:
    """Returns the session of the calling program, None if there is none."""
    found = sys.modules.get("pyspark.sql")
    return None if found is None else found.SparkSession.getActiveSession()


def _check_installed() -> None:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise KsegError("--engine spark needs PySpark: pip install 'kseg[spark]'")


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    needed = f"--engine spark needs Java {MIN_JAVA_VERSION} or later"
    if java is None or not os.path.exists(java):
        where = f"{java} does not exist (JAVA_HOME)" if home else "there is no java on PATH, and JAVA_HOME is not set"
        raise KsegError(f"{needed}: {where}")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', output)
    if version and int(version[1]) < MIN_JAVA_VERSION:
        raise KsegError(f"{needed}: {java} is {version[1]}")


@contextmanager
def _environment(master: str | None, folder: str) -> Iterator[None]:
    """Sets the environment variables that PySpark reads when it starts its JVM, for the block; existing values stay."""
    wanted = {"SPARK_WORKER_DIR": folder}
    if _is_local(master):
        # Other machines may have Python elsewhere, and need an address that they can reach.
        wanted |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _is_local(master: str | None) -> bool:
    return master is None or master.startswith("local")


@contextmanager
def _output_to(path: str) -> Iterator[None]:
    """Redirects standard output and error of processes started in the block to a file, for their whole lifetime."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 1)
        os.dup2(file, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.close(file)
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _builder(kind: Any, master: str | None, cores: int | None, folder: str) -> Any:
    builder = kind.builder.appName("kseg").master(master or f"local[{cores or '*'}]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": MEMORY,
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder,
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONSAFEPATH": "1",
    }
    if _is_local(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _last_error(log: str) -> str | None:
    """Returns the last line of the JVM's output that names an error."""
    try:
        with open(log, encoding="utf-8", errors="replace") as stream:
            errors = [line.strip() for line in stream if "rror" in line or "xception" in line]
    except OSError:
        return None
    return errors[-1] if errors else None
