"""Lets PySpark find the data source ``kseg`` where kseg is installed: it imports all modules ``pyspark_*``."""

from kseg.spark.source import KsegDataSource as DefaultSource

__all__ = ["DefaultSource"]
