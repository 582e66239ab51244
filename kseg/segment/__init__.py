"""Segments: file names, and the reader that yields `Batch` and `Damage` items."""
