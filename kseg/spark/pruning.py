"""Gives a classic session an optimizer rule, with which scans of kseg read only the columns that a query needs.

Spark (up to 4.3) passes the columns of a query to no source in Python. The rule, ColumnPruning.java, is compiled in the
JVM of the session by Janino, which Spark itself uses to compile queries: it needs no jar for each release of Spark.
"""

import logging
from importlib.resources import files
from typing import Any

from kseg.spark.reasons import reason_of

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
        _add_rule(spark._jvm, session)
    except (Py4JError, PySparkException) as error:
        _log.warning("queries read all columns of format kseg: Spark refuses the rule for them: %s", reason_of(error))
        return False
    return True


def _add_rule(jvm: Any, session: Any) -> None:
    experimental = session.experimental()
    rules = experimental.extraOptimizations()
    if any(rules.apply(k).ruleName() == _RULE for k in range(rules.size())):
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(session.getClass().getClassLoader())
    compiler.cook(files("kseg.spark").joinpath("ColumnPruning.java").read_text("utf-8"))
    rule = compiler.getClassLoader().loadClass(_RULE).newInstance()
    getattr(experimental, "extraOptimizations_$eq")(rules.appended(rule))
