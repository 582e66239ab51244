"""Reads and writes segments with Apache Spark: ``spark.read.format("kseg")``. Needs ``kseg[spark]`` and Java 17 or
later.

Spark finds an installed kseg by its name. If it does not (workers run another Python), `register` it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["reason", "register"]


def reason(error: BaseException) -> str:
    """Returns the cause of an error that Spark has raised, also of a stream, as one line.

    Spark's own text has the stack traces of Python and Java, and of a stream its plan.
    """
    from kseg.spark.session import reason_of

    return str(reason_of(error))


def register(spark: "SparkSession") -> None:
    """Registers ``spark.read.format("kseg")`` in a session.

    Settings of S3, Azure, Google and HDFS are read from the Hadoop configuration of a classic session; register again
    after a change. Such a session gets an optimizer rule, with which queries read only the columns that they need, and
    filters are pushed down, unless its configuration has spark.sql.python.filterPushdown.enabled=false. It is not
    changed otherwise. If the Python of local workers is not configured, kseg's readers use the
    Python of this process, because the ``python3`` of the PATH may not have kseg.

    From then on the text of an exception of PySpark ends with its cause, if that is an error of kseg.
    """
    import os
    import sys

    from kseg.spark.hadoop import hadoop_settings
    from kseg.spark.session import end_with_reasons, prune_columns, push_filters
    from kseg.spark.source import configured

    kinds: tuple[type[Exception], ...]  # of errors that the session raises, for queries, tasks and streams
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        from pyspark.errors.exceptions import connect

        kinds = (connect.SparkConnectGrpcException,)
    else:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors.exceptions import captured

        kinds = captured.CapturedException, captured.PythonException, Py4JJavaError
    for kind in kinds:
        end_with_reasons(kind)
    context: Any = getattr(spark, "sparkContext", None)
    chosen = None if context is None else context.pythonExec
    is_unset = (
        context is not None
        and context.master.startswith("local")
        and "PYSPARK_PYTHON" not in os.environ
        and context.getConf().get("spark.pyspark.python") is None
    )
    try:
        if is_unset:
            context.pythonExec = sys.executable
        plans_apart = prune_columns(spark)
        pushes_filters = plans_apart and push_filters(spark)
        spark.dataSource.register(configured(hadoop_settings(spark), plans_apart, pushes_filters))
    finally:
        if is_unset:
            context.pythonExec = chosen
