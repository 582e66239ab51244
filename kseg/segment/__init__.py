"""Segments: names on disk, where bytes come from, and the reader that turns them into `Batch` and `Damage` items."""

from kseg.segment.batches import Batch
from kseg.segment.items import Damage, Header, Problem, Record
from kseg.segment.log import Log, open_path

__all__ = ["Batch", "Damage", "Header", "Log", "Problem", "Record", "open_path"]
