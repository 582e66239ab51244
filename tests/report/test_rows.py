"""The rows that a report is made of."""

from kseg.report.rows import RowSink


def test_rows_are_complete_at_any_time() -> None:
    """The sink writes in large pieces: what it still holds belongs to the rows."""
    sink = RowSink()
    sink.write(b'{"type":"summary","files":1}\n')
    assert sink.rows() == [{"type": "summary", "files": 1}]
    sink.write(b'{"type":"summary","files":2}\n')
    assert [row["files"] for row in sink.rows()] == [1, 2]
