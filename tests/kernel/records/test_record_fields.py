"""Records of a v2 batch at the end of a file."""

from kernel.rendering import batch, int64s, sized, varint
from kseg.kernel.layout.rows import DONE, ROW_VALUE_SIZE, ROW_WIDTH
from kseg.kernel.records.records import RecordWalk


def test_a_tombstone_may_end_where_the_file_does():
    """Behind its key there are two bytes only, and no third one to look at."""
    body = b"\0" + varint(0) + varint(0) + sized(b"key of some length") + sized(None) + varint(0)
    data = varint(len(body)) + body
    walk, rows = RecordWalk(batch([data])), int64s(ROW_WIDTH)
    assert walk.read(data, rows, int64s(0)) == DONE
    assert (walk.index, walk.position, rows[ROW_VALUE_SIZE]) == (1, len(data), -1)
