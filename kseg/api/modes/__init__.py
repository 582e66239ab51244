"""The modes of a scan besides records, for Python and Spark: a module each, with ``works`` and ``rows``.

``works(request, slice_bytes)`` yields the parts that can be read on their own, each with its size in bytes.
``rows(works, request, report)`` yields their rows by column name; ``report`` gets the ranges that are skipped because
of damage. A module is imported when its mode is used.
"""

from importlib import import_module
from typing import Any

ROW_MODES = ("batches", "findings", "entries", "commits")


def module_of(mode: str) -> Any:
    """Returns the module of one of ROW_MODES."""
    return import_module(f"kseg.api.modes.{mode}")
