"""A fetched log: chunks that cannot be restored, and what is left of it after trimming."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kseg.changes.disk import Disk
from kseg.recovery.remote import fetch, reset_epochs_in_place, trim
from kseg.stores.remote.segment import ChunkError, RemoteSegment
from kseg.stores.windows import Buffers
from recovery.damages import broken, first_offset, last_offset, with_epoch
from recovery.partitions import keyed_batch, real_batches

PIECES = st.one_of(
    st.integers(0, 12).map(lambda first: keyed_batch(first, b"ab")),
    st.integers(0, 12).map(lambda first: broken(keyed_batch(first, b"ab"))),
    st.just(b"\xff" * 70),
)


@example(pieces=[keyed_batch(0, b"ab"), b"\xff" * 70, keyed_batch(2, b"ab")], first=0, last=3)
@example(pieces=[keyed_batch(0, b"ab"), broken(keyed_batch(2, b"ab")), keyed_batch(4, b"ab")], first=0, last=5)
@example(pieces=[keyed_batch(2, b"ab"), keyed_batch(4, b"ab"), keyed_batch(6, b"ab")], first=4, last=5)
@example(pieces=[keyed_batch(2, b"ab"), keyed_batch(3, b"ab"), keyed_batch(4, b"ab")], first=0, last=9)
@given(pieces=st.lists(PIECES, max_size=6), first=st.integers(0, 6), last=st.integers(3, 14))
def test_only_rising_intact_batches_of_the_offsets_stay(pieces: list[bytes], first: int, last: int) -> None:
    expected, reached = list[bytes](), -1
    for piece in pieces:
        is_batch = piece[:1] != b"\xff" and piece == keyed_batch(first_offset(piece), b"ab")
        if is_batch and max(first, reached) <= first_offset(piece) and last_offset(piece) <= last:
            expected.append(piece)
            reached = last_offset(piece) + 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{0:020d}.log"
        path.write_bytes(b"".join(pieces))
        found = trim(str(path), first, last, Disk())
        assert path.read_bytes() == b"".join(expected)
        assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert found == reached


def test_the_epochs_of_all_batches_are_reset(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    batches = real_batches(0)
    changed = [with_epoch(batch, 7) for batch in batches]
    path.write_bytes(b"".join(changed[:3]) + b"\xff" * 90 + b"".join(changed[3:]))
    reset_epochs_in_place(str(path), Buffers())
    reset = [with_epoch(batch, 0) for batch in batches]
    assert path.read_bytes() == b"".join(reset[:3]) + b"\xff" * 90 + b"".join(reset[3:])


def test_its_files_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced = tmp_path / f"{0:020d}.log", list[int]()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    path.write_bytes(keyed_batch(0, b"ab"))
    trim(str(path), 0, 9, Disk())
    assert path.stat().st_ino in synced
    synced.clear()
    reset_epochs_in_place(str(path), Buffers())
    assert synced == [path.stat().st_ino]


class Chunks:
    def original_range(self, number: int) -> tuple[int, int]:
        return (5 * number, 5 * number + 5)


class Segment:
    """A segment of three chunks, of which the second one is damaged."""

    chunks, size = Chunks(), 15
    write_chunks = RemoteSegment.write_chunks

    def path(self) -> str:
        return "a/segment.log"

    def read_chunks(self, _first: int, _stop: int | None) -> Iterator[tuple[int, Any]]:
        yield 0, b"first"
        yield 1, ChunkError("is encrypted with another key")
        yield 2, b"third"


def test_a_chunk_that_cannot_be_restored_is_filled_with_zeros(tmp_path: Path) -> None:
    segment: Any = Segment()
    path, before = tmp_path / "fetched", os.umask(0o027)
    try:
        failures = fetch(segment, str(path), Disk())
    finally:
        os.umask(before)
    assert failures == ["a/segment.log: chunk 1: is encrypted with another key"]
    assert path.read_bytes() == b"first" + bytes(5) + b"third"
    assert path.stat().st_mode & 0o777 == 0o640
