"""Segments on Apache Spark: ``spark.read.format("kseg")``. Needs the extra ``kseg[spark]`` and Java 17 or later.

An installed kseg is found by its name; where it is not (a session whose workers run another Python), `register` it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Makes ``spark.read.format("kseg")`` known to a session.

    The session is left as it is. But where nobody has said which Python its workers run and they run on this machine,
    those that read segments run the one of this process: the ``python3`` of the PATH need not have kseg.
    """
    import os
    import sys

    from kseg.spark.source import KsegDataSource

    context: Any = getattr(spark, "sparkContext", None)
    chosen = None if context is None else context.pythonExec
    is_open = (
        context is not None
        and context.master.startswith("local")
        and "PYSPARK_PYTHON" not in os.environ
        and context.getConf().get("spark.pyspark.python") is None
    )
    try:
        if is_open:
            context.pythonExec = sys.executable
        spark.dataSource.register(KsegDataSource)
    finally:
        if is_open:
            context.pythonExec = chosen
