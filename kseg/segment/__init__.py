"""Segments: file names, byte sources, and the reader that yields `Batch` and `Damage` items."""

from typing import TYPE_CHECKING, Any

from kseg.segment.batches import Batch
from kseg.segment.items import Damage, Header, Problem, Record

if TYPE_CHECKING:
    from kseg.segment.log import Log, open_path

__all__ = ["Batch", "Damage", "Header", "Log", "Problem", "Record", "open_path"]


def __getattr__(name: str) -> Any:
    """Imports the path-opening API on first use: commands do not need it."""
    if name not in ("Log", "open_path"):
        raise AttributeError(f"module 'kseg.segment' has no attribute {name!r}")
    from kseg.segment import log

    return getattr(log, name)
