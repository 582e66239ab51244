"""Segments: file names, and the reader that yields `Batch` and `Damage` items."""

from kseg.segment.items import Batch, Damage, Header, Problem, Record

__all__ = ["Batch", "Damage", "Header", "Problem", "Record"]
