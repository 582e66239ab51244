"""A row group is the same wherever it is encoded: in room that is used again, and where that is too small."""

from typing import Any

import pytest

from kseg.columns import encoding
from kseg.columns.encoding import Encoded, GroupEncoder

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def table(size: int, first: int = 0) -> Any:
    """Of about so many bytes that no codec makes fewer."""
    rows = size // 1000
    values = [b"".join(b"%x" % hash((first, i, k)) for k in range(60)) for i in range(rows)]
    return pa.table({"value": pa.array(values)})


def encoder() -> GroupEncoder:
    return GroupEncoder(lambda _: {"compression": "none"})


def read(group: Encoded) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(pa.BufferReader(bytes(group.file)))


def test_room_is_used_again() -> None:
    made = encoder()
    one, other = table(1 << 20), table(1 << 19, first=1)
    first = made.encode(one)
    second = made.encode(other)
    assert first.room is not None
    assert second.room is not None
    assert first.room is not second.room
    assert (read(first), first.rows) == (one, one.num_rows)
    assert (read(second), second.rows) == (other, other.num_rows)
    made.take_back(first)
    third = made.encode(other)
    assert third.room is first.room
    assert bytes(third.file) == bytes(second.file)


def test_a_group_that_room_is_too_small_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = table(1 << 20)
    roomy = encoder().encode(wanted)
    for size in (10, roomy.size - 1, roomy.size - 100, roomy.size // 2, 1000, roomy.size):
        monkeypatch.setattr(encoding, "_ROOM_BYTES", size)
        made = encoder()
        for _ in range(2):
            found = made.encode(wanted)
            assert bytes(found.file) == bytes(roomy.file)
            assert found.size == roomy.size
            assert (found.room is None) == (size < roomy.size)
            made.take_back(found)
