"""Messages for errors of Spark; pyspark is not needed."""

import socket
from pathlib import Path

import pytest

from kseg.errors import KsegError, PathError
from kseg.spark import reason
from kseg.spark.session import _check_master, _last_error, end_with_reasons, reason_of

TRACEBACK = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source: Traceback (most recent call last):
  File "worker.py", line 9, in plan
    raise PathError(path)
kseg.errors.PathError: nowhere: no such file or directory
"""
JOB = """An error occurred while calling o30.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure
Traceback (most recent call last):
  File "worker.py", line 9, in main
MemoryError: out of it

\tat org.apache.spark.api.python.BasePythonRunner.scala:581)
"""
FULL = """An error occurred while calling o66.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/p. SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:823)
Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
\tat org.apache.hadoop.fs.RawLocalFileSystem$LocalFSFileOutputStream.write(RawLocalFileSystem.java:547)
\tSuppressed: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
\t\tCaused by: java.io.IOException: No space left on device
\t\t... 14 more
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TRACEBACK, "nowhere: no such file or directory"),
        (JOB, "MemoryError: out of it"),
        ("Job 3 cancelled\nas asked", "Spark: Job 3 cancelled"),
        ("", "Spark: RuntimeError"),
        (FULL, "Spark: An error occurred while calling o66.parquet.: No space left on device"),
    ],
)
def test_the_reason_is_reported_without_a_stack_trace(text: str, told: str) -> None:
    assert str(reason_of(RuntimeError(text))) == told


def test_an_error_of_kseg_stays_unchanged() -> None:
    error = PathError("nowhere")
    assert reason_of(error) is error
    assert isinstance(reason_of(ValueError("x")), KsegError)


def test_the_cause_of_a_failed_stream_is_in_its_java_trace() -> None:
    error = RuntimeError("[STREAM_FAILED] [TASK_WRITE_FAILED] Task failed. SQLSTATE: 58030 SQLSTATE: XXKST\n=== Query")
    error._stackTrace = FULL  # type: ignore[attr-defined]
    assert reason(error) == "Spark: [STREAM_FAILED] [TASK_WRITE_FAILED] Task failed.: No space left on device"


class StreamError(Exception):
    """As StreamingQueryException, which exists only beside a JVM."""


def test_the_text_of_a_stream_error_ends_with_an_error_of_kseg_once() -> None:
    for _ in range(2):
        end_with_reasons(StreamError)
    error = StreamError(f"{TRACEBACK}\nLogical Plan:\nScan kseg\n")
    assert str(error) == f"{TRACEBACK}\nLogical Plan:\nScan kseg\n\nkseg: nowhere: no such file or directory"
    assert reason(error) == "nowhere: no such file or directory"
    assert str(StreamError(JOB)) == JOB


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with k8s\n'
            "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)\n",
            "SparkException: Master must either be yarn or start with k8s",
        ),
        (
            "26/11/27 17:53:59 WARN StandaloneAppClient: Failed to connect to master 127.0.0.1:7999\n"
            "org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
            "Caused by: io.netty.channel.AbstractChannel$AnnotatedConnectException: Connection refused: /127.0.0.1:1\n"
            "Caused by: java.net.ConnectException: Connection refused\n"
            "\tat io.netty.channel.unix.Errors.handleConnectErrno(Errors.java:131)\n",
            "ConnectException: Connection refused",
        ),
        ("26/11/27 17:54:18 ERROR SparkContext: Error initializing SparkContext.\n", None),
    ],
)
def test_the_last_exception_is_why_there_is_no_session(output: str, told: str | None, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(output)
    assert _last_error(str(tmp_path / "log")) == told


def test_a_master_that_cannot_be_reached_is_reported_at_once() -> None:
    with socket.socket() as listening, socket.socket() as closed:
        for each in (listening, closed):
            each.bind(("127.0.0.1", 0))
        listening.listen()
        there, nowhere = (f"127.0.0.1:{each.getsockname()[1]}" for each in (listening, closed))
        _check_master(f"spark://{nowhere},{there}")
        with pytest.raises(KsegError, match=f"master cannot be reached: {nowhere}: Connection refused"):
            _check_master(f"spark://{nowhere}")
    for master in ("", "yarn", "spark://host"):
        _check_master(master)
