"""The session of ``--engine spark``: an existing one, which stays unchanged, or a new one.

In a new session, workers run this Python, local ones use only the loopback interface, there is no web UI, and the
output of the JVM and its workers goes to a file, from which only the reason of a failure is reported.
"""

import importlib.util
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from importlib.resources import files
from typing import Any

from kseg.errors import KsegError, text_of
from kseg.stores.place import Place

# The reasons of Spark's errors, without the stack traces of Python and Java and the plans of streams.

_OWN_ERROR = re.compile(r"^kseg\.errors\.\w+: (.*)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^(\w[\w.]*(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE)
_JAVA_CAUSE = re.compile(r"^\s*Caused by: [\w.$]+: (.*)$", re.MULTILINE)
_JAVA_ERROR = re.compile(r"^(?:Caused by: |Exception in .*? )?(?:\w+\.)+(\w+: .*)$", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+")


def reason_of(error: BaseException) -> KsegError:
    """Returns an error of Spark, also of a stream, as a KsegError: the original message, without the stack trace."""
    if isinstance(error, KsegError):
        return error
    text = str(error)
    for pattern in (_OWN_ERROR, _PYTHON_ERROR):
        if found := pattern.findall(text):
            return KsegError(found[-1])
    java = getattr(error, "java_exception", None)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    message = str(java.getMessage() if java is not None else first).splitlines()[0]
    # Of an error of the JVM, such as a full disk of another format, the message names the step and not the cause.
    trace = getattr(error, "_stackTrace", None) or ""  # of a stream's error, whose text lacks it
    causes = [cause for cause in _JAVA_CAUSE.findall(f"{text}\n{trace}") if cause not in message]
    return KsegError(_STATE.sub("", ": ".join([f"Spark: {message}", *causes[-1:]])))


def end_with_reasons(kind: type[Exception]) -> None:
    """Lets the texts of an exception of PySpark end with the error of kseg that caused it, in this process.

    ``kind``: a class whose text ends with stack traces of Java or the plan of a stream, far behind the cause; PySpark
    has no hook for it. Errors with other causes keep their text. A second call changes nothing.
    """
    text_of_spark = kind.__str__
    if getattr(text_of_spark, "has_reason", False):
        return

    @wraps(text_of_spark)
    def text_with_reason(error: BaseException) -> str:
        text = text_of_spark(error)
        found = _OWN_ERROR.findall(text)
        return f"{text.rstrip()}\n\nkseg: {found[-1]}" if found and f"\nkseg: {found[-1]}" not in text else text

    text_with_reason.has_reason = True  # type: ignore[attr-defined]
    kind.__str__ = text_with_reason  # type: ignore[method-assign]


# Classes and functions for workers whose Python may lack kseg: they are pickled so that loading them says so.


def _loader() -> Callable[[bytes], Any]:
    """Returns the function that loads a pickle in a worker. Being nested, it is pickled by value and needs no kseg."""

    def load(pickled: bytes) -> Any:
        import pickle
        import socket
        import sys

        try:
            make, arguments = pickle.loads(pickled)
        except ModuleNotFoundError as error:
            missing = str(error.name).partition(".")[0]
            text = (
                f"{sys.executable} on {socket.gethostname()}, the Python of Spark's workers, has no module {missing}: "
                f"{sys.executable} -m pip install 'kseg[spark-worker]', or set PYSPARK_PYTHON (spark.pyspark.python) "
                "to a Python that has it"
            )
            raise type("KsegError", (Exception,), {"__module__": "kseg.errors"})(text) from None
        return make(*arguments)

    return load


def for_workers(work: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """Returns a partial function of ``work`` that raises KsegError where its modules cannot be imported."""
    load, pickled = _loader(), _pickled((partial, (work, *first)))
    return lambda *arguments: load(pickled)(*arguments)


class ForWorkers:
    """Base of objects that workers load. Loading them raises KsegError where their modules cannot be imported."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _loader(), (_pickled((_restored, (type(self), self.__dict__))),)


def _pickled(call: tuple[Callable[..., Any], tuple[Any, ...]]) -> bytes:
    from pyspark import cloudpickle

    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return dumps(call)


def _restored(kind: type[Any], state: dict[str, Any]) -> Any:
    found = object.__new__(kind)
    found.__dict__.update(state)
    return found


# Gives a classic session an optimizer rule, with which scans of kseg read only the columns that a query needs.
#
# Spark (up to 4.3) passes the columns of a query to no source in Python. The rule, ColumnPruning.java, is compiled in
# the JVM of the session by Janino, which Spark itself uses to compile queries: it needs no jar for each release of
# Spark.

_RULE = "kseg.spark.ColumnPruning"
_log = logging.getLogger("kseg.spark")


def prune_columns(spark: Any) -> bool:
    """Adds the rule to the optimizer of a session, once. Returns whether the session has it.

    A Connect session cannot have it. If Spark refuses it, a warning is logged, and all columns are read as before.
    """
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return False
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        experimental = session.experimental()
        rules = experimental.extraOptimizations()
        if not any(rules.apply(k).ruleName() == _RULE for k in range(rules.size())):
            compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(session.getClass().getClassLoader())
            compiler.cook(files("kseg.spark").joinpath("ColumnPruning.java").read_text("utf-8"))
            rule = compiler.getClassLoader().loadClass(_RULE).newInstance()
            getattr(experimental, "extraOptimizations_$eq")(rules.appended(rule))
    except (Py4JError, PySparkException) as error:
        _log.warning("queries read all columns of format kseg: Spark refuses the rule for them: %s", reason_of(error))
        return False
    return True


_PUSHES_FILTERS = "spark.sql.python.filterPushdown.enabled"


def push_filters(spark: Any) -> bool:
    """Lets a session push filters down to sources in Python. Returns False if its configuration forbids it."""
    if spark.sparkContext.getConf().get(_PUSHES_FILTERS) is None:
        spark.conf.set(_PUSHES_FILTERS, "true")
    return bool(spark.conf.get(_PUSHES_FILTERS) == "true")


MIN_JAVA_VERSION = 17
CONNECT_SECONDS = 10
MEMORY = "1g"
"""Memory of the driver's JVM. It holds findings, counts, and the text of one wave of a dump (`kseg.spark.jobs`)."""


@contextmanager
def session(master: str | None = None, cores: int | None = None) -> Iterator[Any]:
    """Yields a SparkSession. ``master``: its URL; None: this machine, with ``cores``.

    Raises KsegError if PySpark or Java is missing, or if no session can be created.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise KsegError("--engine spark needs PySpark: pip install 'kseg[spark]'")
    loaded = sys.modules.get("pyspark.sql")
    active = None if loaded is None else loaded.SparkSession.getActiveSession()  # of the calling program
    if active is not None:
        yield active
        return
    _check_java()
    _check_master(master or "")
    from pyspark.sql import SparkSession

    folder = tempfile.mkdtemp(prefix="kseg-spark-")
    log = Place(folder) / "log"
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": MEMORY,
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder,
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONSAFEPATH": "1",
    }
    variables = {"SPARK_WORKER_DIR": folder}
    if master is None or master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        # Other machines may have Python elsewhere, and need an address that they can reach.
        variables |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    spark = None
    try:
        try:
            with _environment(variables), _output_to(log):
                builder = SparkSession.builder.appName("kseg").master(master or f"local[{cores or '*'}]")
                spark = builder.config(map=settings).getOrCreate()
        except Exception as error:  # Java's and py4j's errors have no common class
            at = "" if master is None else f" at {master}"
            raise KsegError(f"no Spark session{at}: {_last_error(log) or reason_of(error)}") from error
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        if spark is not None:
            with suppress(Exception):  # the command is done, or has failed and reported an error
                spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = Place(home) / "bin" / "java" if home else shutil.which("java")
    needed = f"--engine spark needs Java {MIN_JAVA_VERSION} or later"
    if java is None or not Place(java).exists():
        where = f"{java} does not exist (JAVA_HOME)" if home else "there is no java on PATH, and JAVA_HOME is not set"
        raise KsegError(f"{needed}: {where}")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', output)
    if version and int(version[1]) < MIN_JAVA_VERSION:
        raise KsegError(f"{needed}: {java} is {version[1]}")


def _check_master(master: str) -> None:
    """Raises KsegError if no machine of a standalone master accepts a connection: Spark would try for a minute."""
    failures = []
    for address in master.removeprefix("spark://").split(",") if master.startswith("spark://") else ():
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        except ValueError:
            return  # Spark says what its URLs look like
        except OSError as error:
            failures.append(f"{address}: {text_of(error)}")
        else:
            return
    if failures:
        raise KsegError(f"no Spark session: the master cannot be reached: {', '.join(failures)}")


@contextmanager
def _environment(wanted: dict[str, str]) -> Iterator[None]:
    """Sets the environment variables that PySpark reads when it starts its JVM, for the block; existing values stay."""
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


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


def _last_error(log: str) -> str | None:
    """Returns the last exception of the JVM's output, with the name of its class."""
    with suppress(OSError), open(log, encoding="utf-8", errors="replace") as stream:
        if errors := _JAVA_ERROR.findall(stream.read()):
            return str(errors[-1])
    return None
