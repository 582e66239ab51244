"""Messages for errors of Spark; pyspark is not needed."""

import pytest

from kseg.errors import KsegError, PathError
from kseg.spark.session import reason_of

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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TRACEBACK, "nowhere: no such file or directory"),
        (JOB, "MemoryError: out of it"),
        ("Job 3 cancelled\nas asked", "Spark: Job 3 cancelled"),
        ("", "Spark: RuntimeError"),
    ],
)
def test_the_reason_is_reported_without_a_stack_trace(text: str, told: str) -> None:
    assert str(reason_of(RuntimeError(text))) == told


def test_an_error_of_kseg_stays_unchanged() -> None:
    error = PathError("nowhere")
    assert reason_of(error) is error
    assert isinstance(reason_of(ValueError("x")), KsegError)
