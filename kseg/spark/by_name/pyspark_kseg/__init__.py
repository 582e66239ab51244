"""By this name PySpark finds the data source ``kseg`` where kseg is installed: it looks for modules ``pyspark_*``."""

from kseg.spark.source import KsegDataSource as DefaultSource

__all__ = ["DefaultSource"]
