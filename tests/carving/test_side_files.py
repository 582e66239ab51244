"""Side files and directories in images: what they tell, and that hostile ones cost little."""

import random
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from carving.images import BLOCK, CLEAN, batch, carved, padded
from carving.images import image as image
from cli.command import Kseg
from kseg.carving.side_files import MOST_ENTRIES, BatchRanges, SideFiles, SideFileSearch
from kseg.sidefiles.checkpoints import EpochEntry, build_leader_epochs
from kseg.stores.source import open_source

GZ = CLEAN / "gz-0"
TIME = 1_790_000_000_000


def found_in(image: Path, *parts: bytes) -> SideFiles:
    image.write_bytes(b"".join(map(padded, parts)))
    found = SideFiles()
    with open_source(str(image)) as source:
        search = SideFileSearch(found, source)
        search.find(0, source.size)
        search.read(BatchRanges([]))
    return found


def test_each_side_file_of_a_log_directory_is_known_by_its_form(image: Path) -> None:
    """Copies, as in a journal of the file system, count once."""
    files = [CLEAN / "meta.properties", *sorted(CLEAN.glob("*-checkpoint")), *sorted(GZ.iterdir())]
    found = found_in(image, *(path.read_bytes() for path in files * 2 if ".log" not in path.name))
    assert found.nodes == {("AAAAAAAAQACAAAAAAAAAAQ", 1)}
    assert len(found.topic_ids) == 1
    assert found.told[318] == {("gz", 0): "checkpoint"}
    assert [len(index) for index in found.time_indexes] == [(GZ / f"{0:020}.timeindex").stat().st_size // 12]
    assert [len(epochs) for epochs in found.epochs] == [2]
    assert len(found.snapshots) == len(list(GZ.glob("*.snapshot")))


def test_a_side_file_with_a_wrong_checksum_or_count_tells_nothing(image: Path) -> None:
    snapshot = bytearray(next(iter(sorted(GZ.glob("*.snapshot")))).read_bytes())
    snapshot[-1] ^= 1
    texts = b"0\n2\norders 3 81237\n", b"0\n1\norders 3 x\n", b"version: 0\ntopic_id: x"
    found = found_in(image, bytes(snapshot), *texts)
    assert (found.snapshots, found.told, found.topic_ids) == ([], {}, set())


def test_a_snapshot_is_read_only_if_its_first_producer_is_valid(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(SideFileSearch, "_read", lambda search, at, size: read.append(size) or b"")
    claims = [(2, b"\x7f"), (MOST_ENTRIES + 1, b"\0"), (2, b"\0")]
    found_in(image, *(padded(struct.pack(">hIi", 1, 5, count) + first * 4000) for count, first in claims))
    assert sum(size > 64 for size in read) == 1


def xfs_entry(inode: int, name: bytes) -> bytes:
    entry = struct.pack(">QB", inode, len(name)) + name + b"\2\0\0"
    return entry + bytes(-len(entry) % 8)


def test_directories_of_xfs_tell_the_segments_of_a_partition(image: Path) -> None:
    super_block = b"XFSB"
    root = (b"XDB3" + bytes(36) + struct.pack(">Q", 128)).ljust(64, b"\0")
    root += xfs_entry(131, b"orders-3") + xfs_entry(132, b"audit-1")
    block = (b"XDD3" + bytes(36) + struct.pack(">Q", 132)).ljust(64, b"\0") + xfs_entry(140, b"%020d.log" % 70_011)
    inode = (b"IN\x41\xed\x03\x01".ljust(152, b"\0") + struct.pack(">Q", 131)).ljust(176, b"\0")
    name = b"%020d.log" % 81_237
    inode += bytes([1, 0]) + struct.pack(">I", 128) + bytes([len(name), 0, 0]) + name + b"\1" + struct.pack(">I", 150)
    found = found_in(image, super_block, root, block, b"IN".ljust(512, b"\0") + inode.ljust(512, b"\0"))
    assert found.told == {81_237: {("orders", 3): "directory"}, 70_011: {("audit", 1): "directory"}}


HOSTILE = {
    "snapshots": struct.pack(">hIi", 1, 0, 1 << 18),
    "checkpoints": b"0\n999999\n" + b"a 0 5\n" * 600,
    "wrong counts": b"0\n0\n" * 1000,
    "names": b"0\n500\n" + b"".join(b"%d 0 5\n" % i for i in range(500)),
    "times": b"".join(struct.pack(">qi", TIME + i, i) for i in range(341)),
    "positions": b"".join(struct.pack(">ii", i + 1, i + 1) for i in range(512)),
    "directories": b"\1\0\0\0\x0c\0\1\2.\0\0\0\2\0\0\0\xf4\x0f\2\2..\0\0" + b"\5\0\0\0\x10\0\x05\2aaa-1\0\0\0" * 250,
    "xfs": (b"XDB3" + bytes(36) + struct.pack(">Q", 9)).ljust(64, b"\0") + xfs_entry(9, b"a-1") * 160,
    "inodes": b"IN\x41\xed\3\1" + b"\xff" * 4000,
    "properties": b"#\ncluster.id=a\nnode.id=1\n" * 160,
    "topics": b"version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ" + b"\n" * 4000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_side_files_take_bounded_resources(image: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.carving.side_files.MOST_ENTRIES", 1000)
    monkeypatch.setattr("kseg.carving.side_files._MAX_TEXT_BYTES", 256 << 10)
    content = HOSTILE[kind][:BLOCK].ljust(BLOCK, HOSTILE[kind][-1:])
    blocks = [content[:-4] + struct.pack(">I", i) for i in range(600)] if kind != "names" else [content] * 600
    image.write_bytes(b"XFSB".ljust(BLOCK, b"\0") + b"".join(blocks))
    found, read = SideFiles(), 0

    class Counted:
        def __getitem__(self, key: slice) -> bytes:
            nonlocal read
            data = bytes(buffer[key])
            read += len(data)
            return data

    with open_source(str(image)) as source:
        buffer: Any = source.buffer
        monkeypatch.setattr(source, "_buffer", Counted())
        search = SideFileSearch(found, source)
        search.find(0, source.size)
        search.read(BatchRanges([]))
        assert read < 12 * source.size
    held = [
        *found.snapshots,
        *found.epochs,
        *found.time_indexes,
        *found.indexes,
        found.topic_ids,
        found.nodes,
        *found.told.values(),
    ]
    assert sum(map(len, held)) <= 1000 < MOST_ENTRIES


def joined(kseg: Kseg, image: Path, *parts: bytes) -> list[dict[str, int]]:
    """How the pieces of each log were joined."""
    return [row["evidence"]["joined"] for row in carved(kseg, image, *parts)]


@pytest.mark.parametrize(("suffix", "evidence"), [("timeindex", "time index"), ("index", "index"), ("", "")])
def test_an_index_joins_what_a_lost_block_has_parted(kseg: Kseg, image: Path, suffix: str, evidence: str) -> None:
    data = (GZ / f"{0:020}.log").read_bytes()
    parts = [data[: 3 * BLOCK], bytes(BLOCK), random.Random(3).randbytes(BLOCK), data[5 * BLOCK :]]
    found = joined(kseg, image, *parts, *([(GZ / f"{0:020}.{suffix}").read_bytes()] if suffix else []))
    assert len(found) == (1 if suffix else 2)
    assert not suffix or found[0][evidence] > 0


def test_an_index_of_batches_of_equal_sizes_joins_nothing(kseg: Kseg, image: Path) -> None:
    batches = [batch(at, 100, TIME + at) for at in range(1000, 9000, 100)]
    size = len(batches[0])
    index = b"".join(struct.pack(">ii", 100 * i + 99, size * i) for i in range(2, 80, 2))
    assert len({len(each) for each in batches}) == 1
    rest = bytes(41 * size % BLOCK) + b"".join(batches[41:])  # at the same place in a block as in the file
    assert len(joined(kseg, image, b"".join(batches[:40]), rest, index)) == 2


def test_an_index_of_times_that_fits_two_logs_joins_none(kseg: Kseg, image: Path) -> None:
    logs = [
        [batch(at, 100, TIME + at, epoch) for at in (*range(0, 1000, 100), *range(2000, 3000, 100))] for epoch in (0, 1)
    ]
    index = b"".join(struct.pack(">qi", TIME + at, at + 99) for at in (100, 300, 500, 2100, 2300, 2500))
    parts = [b"".join(log[k : k + 10]) for k in (0, 10) for log in logs]
    assert not any("time index" in found for found in joined(kseg, image, *parts, index))
    assert any("time index" in found for found in joined(kseg, image, *parts[::2], index))


@pytest.mark.parametrize(("starts", "count"), [((40_121, 91_337), 1), ((41, 97), 2), ((0, 91_337), 2)])
def test_leader_epochs_join_pieces_they_begin_in(kseg: Kseg, image: Path, starts: tuple[int, int], count: int) -> None:
    """Each log begins at offset 0."""
    epochs = [*map(EpochEntry, (3, 5), starts)]
    parts = [batch(start, 10, TIME + start, epoch) for epoch, start in epochs]
    assert all(one != two for one, two in pairwise(parts))
    assert len(joined(kseg, image, *parts, build_leader_epochs(epochs))) == count
