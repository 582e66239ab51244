"""Segments: file names, and the reader that yields `Batch` and `Damage` items."""

from kseg.segment.batches import Batch
from kseg.segment.items import Damage, Header, Problem, Record

__all__ = ["Batch", "Damage", "Header", "Problem", "Record"]
