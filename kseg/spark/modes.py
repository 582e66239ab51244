"""The module of each mode of the data source."""

from importlib import import_module
from typing import Any


def module_of(mode: str) -> Any:
    """The module of a mode, imported when it is asked for: Spark plans in a fresh process each time."""
    return import_module(f"kseg.spark.{mode}")
