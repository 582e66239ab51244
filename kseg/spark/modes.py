"""The module of each mode of the data source."""

from importlib import import_module
from typing import Any


def module_of(mode: str) -> Any:
    """Returns the module of a mode. It is imported on demand, because Spark plans in a new process each time."""
    return import_module(f"kseg.spark.{mode}")
