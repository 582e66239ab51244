"""Rows of batch headers, for tests that need no bytes."""

from kseg.segment.survey import BatchRow


def header_row(**fields: int) -> BatchRow:
    """Returns the row of an intact v2 batch; other fields are 0."""
    return BatchRow(**{**dict.fromkeys(BatchRow._fields, 0), "magic": 2, "state": 1, **fields})
