"""Finds side files, and directories of ext4 and XFS, in the raw bytes of an image.

Each is known by its own form at the start of a block, and by its checksum if it has one. All of it may be hostile:
every length is checked, and at most MOST_ENTRIES entries are held. Nothing is read inside of batches, whose records any
producer can write.
"""

import re
import struct
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import accumulate

from kseg.carving.image import BLOCK_BYTES
from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import be32, be64
from kseg.kernel.scan.pieces import MAY_BE_DIRECTORY, MAY_BE_FILE, mark_blocks
from kseg.segment.files import parse_partition_name
from kseg.sidefiles import producer_state
from kseg.sidefiles.checkpoints import EpochEntry, plain_epochs, read_offset_checkpoint
from kseg.sidefiles.indexes import OffsetIndexEntry, TimeIndexEntry
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.text_files import MetaProperties, read_meta_properties, topic_id_in
from kseg.stores.extent import next_data
from kseg.stores.remote.recognition import is_topic
from kseg.stores.source import Source

Partition = tuple[str, int]
"""Topic and number."""

MOST_ENTRIES = 1 << 20
"""Entries of side files and names in directories that are held: those of many brokers."""

SMALL_BLOCK_BYTES = 1024
"""The block of small ext4 file systems."""

SMALL_IMAGE_BYTES = 512 << 20
"""In a larger image, only multiples of BLOCK_BYTES are looked at."""

_EFFORT = 8
"""Side files of an image are read up to so many times its size: many may claim the same bytes."""

_WINDOW_BYTES = 4 << 20
_CHECKPOINT = re.compile(rb"0\n([0-9]{1,7})\n")
_MAX_TEXT_BYTES = 4 << 20
_METADATA_BYTES = 128
"""A partition.metadata has 43."""
FEWEST_ENTRIES = 3
"""An index with fewer tells nothing that is not by chance."""

_TIME_ENTRY, _POSITION_ENTRY = struct.Struct(">qi"), struct.Struct(">ii")
_FIRST_ENTRIES = 32
"""Entries of an index that are read first; twice as many each time."""
_SAMPLED_ENTRIES = 16
"""Entries of a producer snapshot that are looked at before its checksum."""
_MAX_INDEX_BYTES = 10 << 20
"""Brokers' default of segment.index.bytes."""

_DOT = b"\x0c\0\x01\x02.\0\0\0"
"""The rest of the first entry of an ext4 directory, behind its inode: length 12, name length 1, a directory, "."."""
_EXT4_ENTRY = struct.Struct("<IHBB")
_EXT4_NAME = re.compile(rb"[\x03-\xff]\x02(?=[\w.-])")
"""Length of a name, and the type of a directory."""
_FILE_NAME = re.compile(rb"(?<![0-9])([0-9]{20})\.(?:log|index|timeindex|txnindex|snapshot)")
"""All of them begin a segment but the last snapshot, which stands at the log's end."""
_XFS_BLOCKS, _XFS_OWNER, _XFS_ENTRIES = (b"XDB3", b"XDD3"), 40, 64
_XFS_UNUSED = b"\xff\xff"
_XFS_INODE_BYTES, _XFS_INODE, _XFS_NUMBER, _XFS_FORK = 512, b"IN\x00\x00\x03\x01", 152, 176
"""An inode of version 3 whose directory stands in it; without the mode, which is 0 once it is freed."""


class SideFiles:
    """The contents of the side files and directories of an image.

    ``snapshots``: the entries of each producer snapshot that is whole by its checksum; ``epochs``: those of each
    leader-epoch-checkpoint; ``indexes``, ``time_indexes``: those of each .index and .timeindex, whose offsets are
    relative to an unknown base offset; ``told``: by offset, the partitions of which a checkpoint or a directory tells
    that a segment or the log begins or ends there, and which of the two does; ``topic_ids`` of partition.metadata;
    ``nodes``: cluster and node of each meta.properties; ``left``: how many entries more are held.
    """

    def __init__(self) -> None:
        self.snapshots: list[list[producer_state.ProducerStateEntry]] = []
        self.epochs: list[list[EpochEntry]] = []
        self.indexes: list[list[OffsetIndexEntry]] = []
        self.time_indexes: list[list[TimeIndexEntry]] = []
        self.told: dict[int, dict[Partition, str]] = defaultdict(dict)
        self.topic_ids: set[str] = set()
        self.nodes: set[tuple[str, int]] = set()
        self.left = MOST_ENTRIES

    def tell(self, partition: Partition, offset: int, kind: str) -> None:
        """Adds an offset of a partition, whose name becomes that of a directory."""
        if offset >= 0 and partition[1] >= 0 and is_topic(partition[0]):
            self.told[offset].setdefault(partition, kind)

    def take(self, entries: int) -> bool:
        """Whether so many entries more are held."""
        self.left -= entries
        return self.left >= 0


class BatchRanges:
    """The parts of an image that batches fill: what stands inside them was written by producers, and proves nothing."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(ranges)
        self._starts = array("q", (start for start, _ in ordered))
        self._ends = array("q", accumulate((end for _, end in ordered), max))

    def room_at(self, position: int) -> int:
        """Returns how many bytes from the position on are in no batch: 0 inside one."""
        i = bisect_right(self._starts, position)
        if i and self._ends[i - 1] > position:
            return 0
        return (self._starts[i] if i < len(self._starts) else 1 << 62) - position


class SideFileSearch:
    """Searches one image: `find` remembers where side files and directories may begin, and `read` reads them once all
    batches are known. ``shift``: where blocks begin, modulo their size, the ``step``."""

    def __init__(self, found: SideFiles, source: Source, shift: int = 0) -> None:
        self._found, self._source = found, source
        self.step = BLOCK_BYTES if source.size > SMALL_IMAGE_BYTES else SMALL_BLOCK_BYTES
        self.shift = shift
        self._effort = _EFFORT * source.size
        self._marks = int64s(2 * (_WINDOW_BYTES // self.step + 1))
        self._candidates = array("q")
        self._seen: set[int] = set()
        self._index_end = self._stop = 0
        self._is_xfs = False
        self._directories: dict[int, set[Partition]] = defaultdict(set)
        self._files: dict[int, set[int]] = defaultdict(set)

    def find(self, start: int, stop: int) -> None:
        """Remembers the blocks that begin in [start, stop) and may begin a side file or a directory."""
        step, source = self.step, self._source
        start += (self.shift - start) % step
        while start < stop:
            start += (next_data(source.extent, start, stop) - start) // step * step
            size = min(_WINDOW_BYTES, stop - start)
            window = source.buffer[start : start + size + BLOCK_BYTES]
            found = mark_blocks(window, size, step, self._marks)
            for at, mark in zip(self._marks[:found:2], self._marks[1:found:2], strict=True):
                if mark & MAY_BE_DIRECTORY or _HEAD.match(window, at):
                    self._candidates.extend((start + at, mark))
            start += _WINDOW_BYTES

    def read(self, batches: BatchRanges) -> None:
        """Reads what stands outside of batches. Then tells the offsets in the names of files, with the partition whose
        directory has them: none if several directories had its inode, one after the other or on several file
        systems."""
        for at, mark in zip(self._candidates[::2], self._candidates[1::2], strict=True):
            room = batches.room_at(at)
            self._stop = min(at + room, self._source.size)
            if not room or self._found.left <= 0:
                continue
            if mark & MAY_BE_FILE and (search := _BY_FIRST_BYTE.get(self._source.buffer[at])):
                search(self, at)
            if mark & MAY_BE_DIRECTORY:
                self.ext4_directory(at)
        for inode, partitions in self._directories.items():
            if len(partitions) == 1:
                for offset in self._files.get(inode, ()):
                    self._found.tell(next(iter(partitions)), offset, "directory")

    def _read(self, at: int, size: int) -> bytes:
        size = min(size, self._stop - at)
        self._effort -= size
        return bytes(self._source.buffer[at : at + size]) if self._effort > 0 and self._found.left > 0 else b""

    def _is_new(self, content: bytes) -> bool:
        """Whether this was not read before: journals and old blocks have many copies."""
        key = hash(content)
        if key in self._seen or len(self._seen) >= MOST_ENTRIES:
            return False
        self._seen.add(key)
        return True

    # Side files

    def binary(self, at: int) -> None:
        """A producer snapshot or an index: both begin with a zero byte."""
        head = bytes(self._source.buffer[at : at + producer_state.HEADER_BYTES])
        if len(head) == producer_state.HEADER_BYTES and any(head):
            if head[1] == producer_state.SNAPSHOT_VERSION:
                self._snapshot(at, head)
            elif head[1] == 0:
                self._index(at)

    def _snapshot(self, at: int, head: bytes) -> None:
        count = be32(head, producer_state.CRC_START)
        size = producer_state.HEADER_BYTES + count * producer_state.ENTRY.size
        if not 0 < count <= MOST_ENTRIES or size > min(self._effort, self._stop - at):
            return
        step = -(-count // _SAMPLED_ENTRIES) * producer_state.ENTRY.size
        ids = range(at + producer_state.HEADER_BYTES, at + size, step)
        if any(map(self._source.buffer.__getitem__, ids)):  # producer ids are given from 0 on: none reaches 2^56
            return
        content = self._read(at, size)
        snapshot = producer_state.ProducerSnapshot(content)
        if snapshot.crc == snapshot.computed_crc() and self._is_new(content) and self._found.take(snapshot.capacity):
            self._found.snapshots.append(list(snapshot))

    def _index(self, at: int) -> None:
        """An index of times, or of positions. A block in the middle of one is no beginning."""
        if at >= self._index_end:
            times = self._rising(at, _TIME_ENTRY) if any(self._source.buffer[at : at + 3]) else []
            entries = times or self._rising(at, _POSITION_ENTRY)
            if entries and self._is_new(repr(entries).encode()) and self._found.take(len(entries)):
                if times:
                    self._found.time_indexes.append([TimeIndexEntry(*entry) for entry in times])
                else:
                    self._found.indexes.append([OffsetIndexEntry(*entry) for entry in entries])

    def _rising(self, at: int, layout: struct.Struct) -> list[tuple[int, int]]:
        """Returns entries whose fields rise, up to zeros at the end of a block; at least FEWEST_ENTRIES or none."""
        found: list[tuple[int, int]] = []
        end, last, piece = at, (0, -1), _FIRST_ENTRIES * layout.size
        while end < at + _MAX_INDEX_BYTES:
            content = self._read(end, piece)
            for entry in layout.iter_unpack(content[: len(content) // layout.size * layout.size]):
                if entry[0] <= last[0] or entry[1] <= last[1]:
                    break
                last = entry
                found.append(entry)
            full, end, piece = end + piece, at + len(found) * layout.size, min(2 * piece, BLOCK_BYTES * layout.size)
            if end < full:
                break
        if len(found) < FEWEST_ENTRIES or any(self._source.buffer[end : end + -end % SMALL_BLOCK_BYTES]):
            return []
        self._index_end = end
        return found

    def _text(self, at: int) -> bytes:
        """The bytes up to the zeros that fill the last block of a file."""
        size, text = SMALL_BLOCK_BYTES, b""
        while size <= _MAX_TEXT_BYTES and 0 not in text and len(text) < self._stop - at:
            text = self._read(at, size)
            if not text:
                break
            size *= 2
        return text.partition(b"\0")[0]

    def checkpoint(self, at: int) -> None:
        """A checkpoint of offsets or of leader epochs."""
        head = _CHECKPOINT.match(bytes(self._source.buffer[at : at + 16]))
        if head is None:
            return
        *lines, _ = self._text(at).split(b"\n", int(head[1]) + 2)
        text = b"\n".join([*lines, b""])
        if len(lines) < int(head[1]) + 2 or not self._is_new(text) or not self._found.take(len(lines)):
            return
        epochs = plain_epochs(text)
        if epochs:
            self._found.epochs.append(epochs)
            return
        items = list(read_offset_checkpoint(text))
        if not problems_of(items):
            for entry in entries_of(items):
                self._found.tell((entry.topic, entry.partition), entry.offset, "checkpoint")

    def partition_metadata(self, at: int) -> None:
        if self._source.buffer[at : at + 9] == b"version: ":
            topic_id = topic_id_in(self._read(at, _METADATA_BYTES).partition(b"\0")[0])
            if topic_id is not None and topic_id not in self._found.topic_ids and self._found.take(1):
                self._found.topic_ids.add(topic_id)

    def meta_properties(self, at: int) -> None:
        text = self._read(at, SMALL_BLOCK_BYTES).partition(b"\0")[0]
        if b"\ncluster.id=" not in text or not self._is_new(text):
            return
        items = list(read_meta_properties(text))
        properties = items[0]
        if isinstance(properties, MetaProperties) and not items[1:] and properties.cluster_id is not None:
            if properties.number is not None and self._found.take(1):
                self._found.nodes.add((properties.cluster_id, properties.number))

    # Directories: names of partitions by inode, and the files in each inode

    def ext4_directory(self, at: int) -> None:
        """A block of a directory, with the names that were deleted from it. Its first block tells whose it is."""
        head = self._read(at, BLOCK_BYTES)
        size = 0
        while size + _EXT4_ENTRY.size <= len(head) and (not size or size % SMALL_BLOCK_BYTES):
            inode, length, name_bytes, kind = _EXT4_ENTRY.unpack_from(head, size)
            if length < 12 or length % 4 or name_bytes > length - _EXT4_ENTRY.size or (kind > 7 and inode):
                return
            size += length
        block = head[:size]
        if not self._is_new(block):
            return
        for match in _EXT4_NAME.finditer(block):
            start = match.start() - 6
            if start >= 0 and start % 4 == 0:
                inode, _, name_bytes, _ = _EXT4_ENTRY.unpack_from(block, start)
                self._is_directory(inode, block[start + _EXT4_ENTRY.size :][:name_bytes])
        if block[4:12] == _DOT:
            self._has_files(_EXT4_ENTRY.unpack_from(block)[0], block)

    def xfs_block(self, at: int) -> None:
        """A block of a directory, or of the superblock, which tells that inodes are worth a look."""
        head = bytes(self._source.buffer[at : at + 4])
        self._is_xfs |= head == b"XFSB"
        if head not in _XFS_BLOCKS:
            return
        block = self._read(at, BLOCK_BYTES)
        if len(block) < BLOCK_BYTES or not self._is_new(block):
            return
        self._has_files(be64(block, _XFS_OWNER), block)
        start = _XFS_ENTRIES
        while start + 12 <= len(block):
            if block[start : start + 2] == _XFS_UNUSED:
                size = int.from_bytes(block[start + 2 : start + 4], "big")
            else:
                size = -(-(block[start + 8] + 12) // 8) * 8  # inode, name length, name, type, place
                self._is_directory(be64(block, start), block[start + 9 :][: block[start + 8]])
            if size < 8:
                break
            start += size

    def xfs_inodes(self, at: int) -> None:
        """Inodes that hold a small directory."""
        block = self._read(at, SMALL_BLOCK_BYTES) if self._is_xfs else b""
        for start in range(0, len(block), _XFS_INODE_BYTES):
            inode = block[start : start + _XFS_INODE_BYTES]
            if inode[:2] + b"\0\0" + inode[4:6] == _XFS_INODE and len(inode) == _XFS_INODE_BYTES:
                self._has_files(be64(inode, _XFS_NUMBER), inode[_XFS_FORK:])
                size = 8 if inode[_XFS_FORK + 1] else 4
                place = _XFS_FORK + 2 + size
                for _ in range(inode[_XFS_FORK]):
                    end = place + 3 + inode[place] + 1 + size if place < len(inode) else len(inode) + 1
                    if end > len(inode):
                        break
                    number = int.from_bytes(inode[end - size : end], "big")
                    self._is_directory(number, inode[place + 3 :][: inode[place]])
                    place = end

    def _is_directory(self, inode: int, name: bytes) -> None:
        partition = parse_partition_name(name.decode("latin-1"))
        if partition is not None and is_topic(partition[0]) and inode and self._found.take(1):
            self._directories[inode].add(partition)

    def _has_files(self, inode: int, block: bytes) -> None:
        for name in _FILE_NAME.findall(block):
            if inode and self._found.take(1):
                self._files[inode].add(int(name))


_HEAD = re.compile(rb"\0|0\n[0-9]|version: |#|X(?:FSB|DB3|DD3)|IN")
"""How side files and blocks of XFS begin."""

_BY_FIRST_BYTE: dict[int, Callable[[SideFileSearch, int], None]] = {
    0: SideFileSearch.binary,
    ord("0"): SideFileSearch.checkpoint,
    ord("v"): SideFileSearch.partition_metadata,
    ord("#"): SideFileSearch.meta_properties,
    ord("X"): SideFileSearch.xfs_block,
    ord("I"): SideFileSearch.xfs_inodes,
}
