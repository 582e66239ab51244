"""Opens packed files and archives as trees.

A packed file that is not an archive is read under its own path, as if it were not packed. A tar file is read in place,
or where it was unpacked to; members of a zip file are unpacked when they are opened.
"""

import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from threading import Lock

from kseg.errors import PathError
from kseg.formats.rows import BytesLike, int64s
from kseg.kernel.layout.rows import BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH, FRAME_WIDTH
from kseg.kernel.scan import frames, headers
from kseg.kernel.scan.frames import FrameScan
from kseg.limits import FRAMES_PER_CALL
from kseg.stores.archives import forms, members
from kseg.stores.archives.members import Member, Packed
from kseg.stores.archives.spool import Spool
from kseg.stores.archives.unpack import unpacked
from kseg.stores.extent import Extent
from kseg.stores.redpanda import as_kafka_segment
from kseg.stores.source import FileBytes, Source, read_around
from kseg.stores.trees import FILE, ArchiveProblem, Tree, TreeNode
from kseg.stores.windows import LARGEST_WINDOW_BYTES, ROW_BYTES, ProvenBatches, claimed_bytes

# Unpacks a file and checks segments on the way: batches that are proven intact are not written to the spool.
#
# A full verification reads only their header rows, which are kept instead. Anything that begins with intact batches
# is taken for a segment: whatever was wrongly left out is unpacked again when a reader opens it.
#
# Its worth: temporary space for a part of a backup in place of all of it, and verify of a log in zstd takes 1.3 to 1.6
# times as long without it (of batches in lz4 1.1, with gzip 1.0 to 1.1), measured at 150 to 220 MB in the page cache.

WINDOW_BYTES = 1 << 19
KEPT_BYTES = 64 << 10
"""So many bytes of the start of each member are kept: readers look there for the type of the file."""
_LEAST_BATCH_BYTES = 4 * ROW_BYTES
"""Rows of smaller batches (on average) would need too much of the spool: their bytes are written to it instead."""
_HELD_BYTES = 64 << 10
"""Rows that are written together."""
_FIRST_ROWS = 64
"""Rows without regard to the size of their batches."""
_BEFORE_OTHERS = b"xgLK"
"""Types of tar members: data about the next member."""

PlacedBytes = tuple[int, BytesLike]
"""Bytes for the spool, and their position in the unpacked file."""


class ProvingUnpacker:
    """One pass over an unpacked file. ``runs``: proven batches by the position of the first."""

    def __init__(self, unpacked: Iterator[bytes], spool: Spool) -> None:
        self.runs: dict[int, ProvenBatches] = {}
        self.rows = Extent(spool.new_file(0))
        self._row_count = 0
        self._held_rows = bytearray()
        self._unpacked, self._spool = unpacked, spool
        self._window, self._position = bytearray(), 0
        """The next bytes, and their position in the file."""
        self._frames = int64s(FRAMES_PER_CALL * FRAME_WIDTH)
        self._headers = int64s(FRAMES_PER_CALL * BATCH_WIDTH)

    def pieces(self) -> Iterator[PlacedBytes]:
        """Yields all bytes but those of proven batches. Raises SpoolFullError, KsegError, OSError."""
        form = forms.form_of(self._peek(forms.HEAD_BYTES))
        while form == forms.TAR and (block := self._peek(forms.BLOCK_BYTES)):
            size = (forms.tar_number(block[124:136]) or 0) if forms.is_tar_header(block) else 0
            kind = block[156:157]
            yield from self._kept(len(block))
            end = self._position + forms.tar_padded(size)
            if kind in forms.TAR_REGULAR:
                yield from self._file(size)
            if kind in forms.TAR_REGULAR or kind in _BEFORE_OTHERS:
                yield from self._kept(end - self._position)
        if form not in (forms.TAR, forms.ZIP):
            yield from self._file(sys.maxsize)
        yield from self._kept(sys.maxsize)
        self._write_rows()

    def _write_rows(self) -> None:
        self._spool.write(self.rows, self._held_rows, self._row_count * ROW_BYTES - len(self._held_rows))
        self._held_rows = bytearray()

    def _fill(self, size: int = WINDOW_BYTES) -> bool:
        """Unpacks until the window has ``size`` bytes or more. Returns whether there were any."""
        before = len(self._window)
        while len(self._window) < size and (piece := next(self._unpacked, b"")):
            self._window += piece
        return len(self._window) > before

    def _peek(self, size: int) -> bytes:
        """Returns the next bytes, fewer at the end."""
        if len(self._window) < size:
            self._fill()
        return bytes(self._window[:size])

    def _drop(self, size: int) -> None:
        del self._window[:size]
        self._position += size

    def _kept(self, size: int) -> Iterator[PlacedBytes]:
        """Yields the next ``size`` bytes."""
        while size > 0 and (self._window or self._fill()):
            position, piece = self._position, self._window[:size]
            self._drop(len(piece))
            yield position, piece
            size -= len(piece)

    def _file(self, size: int) -> Iterator[PlacedBytes]:
        """Yields the bytes of a file of at most ``size`` bytes, except its proven batches; ends behind the last."""
        start, end, first_row = self._position, self._position + size, self._row_count
        if size < KEPT_BYTES or len(head := self._peek(KEPT_BYTES)) < KEPT_BYTES:
            return
        yield start, head
        last, last_batch, scan = start, b"", FrameScan()
        while count := self._scan(scan, end):
            rows = self._headers[: count * BATCH_WIDTH]
            headers.read(self._window, self._frames, count, False, self._position - start, rows)
            self._held_rows += rows.cast("B")
            self._row_count += count
            if len(self._held_rows) >= _HELD_BYTES:
                self._write_rows()
            last_row = (count - 1) * BATCH_WIDTH
            last = start + rows[last_row + BATCH_POSITION]
            at = last - self._position
            last_batch = bytes(self._window[at : at + rows[last_row + BATCH_SIZE]])
            self._drop(scan.position)
            found = self._row_count - first_row
            if found > _FIRST_ROWS and self._position - start < found * _LEAST_BATCH_BYTES:
                break
        if last_batch:
            yield last, last_batch
            found = self._row_count - first_row
            rows_of_run = Extent(self.rows.descriptor, first_row * ROW_BYTES, found * ROW_BYTES)
            self.runs[start] = ProvenBatches(self._position - start, found, rows_of_run)

    def _scan(self, scan: FrameScan, end: int) -> int:
        """Returns the number of intact frames at the start of the window, which is filled as needed."""
        while True:
            left = end - self._position
            stop, wanted = min(len(self._window), left), WINDOW_BYTES
            scan.position = 0
            frames.scan(scan, self._window, stop, self._frames)
            if scan.count or stop == left:
                return int(scan.count)
            if stop >= WINDOW_BYTES:
                wanted = claimed_bytes(self._window)
                if not stop < wanted <= min(LARGEST_WINDOW_BYTES, left):
                    return 0
            if not self._fill(wanted):
                return 0


# The spool lacks the proven batches of an unpacked file. Readers of header rows do not need them (`Source.proven`); any
# other reader makes the whole file be unpacked again, once.


class Omitted:
    """The proven batches of an unpacked file, which the spool lacks. Unpacked again from ``packed`` on demand."""

    def __init__(self, packed: Extent, made: Extent, unpacker: ProvingUnpacker, spool: Spool) -> None:
        self._packed, self._made, self._spool = packed, made, spool
        self._runs, self._rows = unpacker.runs, unpacker.rows
        self._lock = Lock()
        self._is_restored = mmap.mmap(-1, 1)  # forked processes share it; two that restore write the same bytes

    def proven(self, start: int, size: int) -> ProvenBatches | None:
        """Returns the proven batches at the start of these bytes of the unpacked file, None if there are none."""
        run = self._runs.get(start)
        return None if run is None or run.end > size else run

    def require(self, start: int, end: int) -> None:
        """Restores all omitted bytes if some are in a range. Raises KsegError, OSError."""
        if any(at < end and start < at + run.end for at, run in self._runs.items()):
            self.restore()

    def restore(self) -> None:
        """Writes all omitted bytes to the spool. Raises KsegError, OSError."""
        with self._lock:
            if self._is_restored[0]:
                return
            position, end = 0, max(at + run.end for at, run in self._runs.items())
            with suppress(forms.UnpackError):
                for piece in unpacked(self._packed):
                    # Members between the runs are written once more, with the same bytes.
                    self._spool.write(self._made, memoryview(piece), position)
                    position += len(piece)
                    if position >= end:
                        self._is_restored[0] = 1
                        return
            raise PathError("an archive has changed while it was read")

    def close(self) -> None:
        self._rows.close()
        self._packed.close()


class ProvenSource(Source):
    """A segment that begins with proven batches. ``restore`` writes the bytes that are missing in the spool.

    Its first KEPT_BYTES, the last proven batch and all bytes after it are there.
    """

    def __init__(self, extent: Extent, path: str, proven: ProvenBatches, restore: Callable[[], None]) -> None:
        super().__init__(extent, path)
        self.proven = proven
        self._restore = restore
        self._behind: Source | None = None

    def _opened(self) -> "memoryview | FileBytes | bytes":
        self._restore()
        return super()._opened()

    @property
    def extent(self) -> Extent:
        self._restore()
        return self._extent

    def behind_proven(self) -> Source:
        if self._behind is None:
            self._behind = Source(self._extent.again(), self.path, self.size)
        return self._behind

    def head(self, size: int) -> bytes:
        return read_around(self._extent, 0, min(self.size, size, KEPT_BYTES))

    def close(self) -> None:
        if self._behind is not None:
            self._behind.close()
        super().close()


_PIECE_BYTES = 256 << 10


class MemberTree(Tree):
    """A packed file, or the members of an archive, which are parts of its file.

    Sparse members of a tar file, and packed ones of a zip file, are written to the spool when they are opened; packed
    ones once.
    """

    is_archive = True

    def __init__(
        self, extent: Extent, owner: int, listed: members.Members, spool: Spool, omitted: Omitted | None = None,
        is_shared: bool = True,
    ) -> None:  # fmt: skip
        """``omitted``: what ``extent`` lacks of an unpacked file."""
        super().__init__(owner, listed.problems)
        self.is_shared = is_shared
        self._extent, self._members, self._spool, self._omitted = extent, listed, spool, omitted
        self._unpacked: dict[str, Extent] = {}

    def node(self, inner: str) -> TreeNode | None:
        found = self._members.at(inner)
        if found is None:
            return None
        made, node = self._unpacked.get(inner), members.node_of(found)
        # A damaged member has less than its header says.
        return node if made is None else node._replace(size=made.size or 0)

    def nodes(self, inner: str) -> Iterable[tuple[str, TreeNode]]:
        found = self._members.at(inner)
        return [(name, members.node_of(member)) for name, member in found.items()] if isinstance(found, dict) else []

    def _part(self, member: Member) -> Extent:
        start = self._extent.start + member.start
        return Extent(os.dup(self._extent.descriptor), start, member.size, member.modified_ns)

    def open(self, inner: str) -> Extent:
        found = self._members.at(inner)
        if not isinstance(found, Member):
            raise FileNotFoundError(inner)
        if isinstance(found.data, Packed) and found.data.method != members.STORED:
            if inner not in self._unpacked:
                pieces = members.unpacked_member(self._extent, found)
                self._unpacked[inner] = self._spool.add(_up_to_damage(pieces, self.problems))
            made = self._unpacked[inner].again()
        elif isinstance(found.data, tuple) and not isinstance(found.data, Packed):
            made = self._spool.add_ranges(self._stored(found, found.data), found.size)
        else:
            if self._omitted is not None:
                self._omitted.require(found.start, found.start + found.size)
            return self._part(found)
        made.modified_ns = found.modified_ns
        return made

    def source(self, inner: str, path: str) -> Source | None:
        """Returns the source of a file that begins with proven batches, None for others."""
        found, omitted = self._members.at(inner), self._omitted
        if omitted is None or not isinstance(found, Member) or found.kind != FILE or isinstance(found.data, tuple):
            return None
        proven = omitted.proven(found.start, found.size)
        return None if proven is None else ProvenSource(self._part(found), path, proven, omitted.restore)

    def _stored(self, member: Member, ranges: members.Map) -> Iterator[tuple[int, bytes]]:
        at = member.start
        for position, size in ranges:
            for done in range(0, size, _PIECE_BYTES):
                piece = min(_PIECE_BYTES, size - done)
                yield position + done, self._extent.pread(piece, at + done)
            at += size

    def close(self) -> None:
        for each in (*self._unpacked.values(), self._extent, self._omitted):
            if each is not None:
                each.close()


def opened(extent: Extent, owner: int, spool: Spool, name: str = "") -> Tree | None:
    """Returns the tree of a packed file or archive, which then owns ``extent``; None if it is neither.

    A segment of Redpanda, known by its first header or its ``name``, is a packed file with a problem that names it.

    Raises KsegError if the spool cannot hold it, OSError.
    """
    head = extent.pread(forms.HEAD_BYTES, 0)
    form = forms.form_of(head)
    named = forms.REDPANDA_NAME.fullmatch(name)
    is_redpanda = form == forms.REDPANDA or (form is None and named is not None)
    if not is_redpanda and forms.packing_name(head) is None:
        return _archive(extent, form, owner, spool)
    problems, omitted, found = list[ArchiveProblem](), None, None
    if is_redpanda:
        made = spool.add(as_kafka_segment(extent, named))
        text = "its batches are read as Kafka's, which have the same positions, records and checksums"
        problems.append(ArchiveProblem(forms.REDPANDA_SEGMENT, None, text))
    else:
        made, omitted = _spooled(extent, spool, problems)
        found = _archive(made, forms.form_of(made.pread(forms.HEAD_BYTES, 0)), owner, spool, omitted)
    made.modified_ns = os.fstat(extent.descriptor).st_mtime_ns
    if omitted is None:
        extent.close()
    if found is None:  # the root of the tree is the file
        listed = members.Members(Member(FILE, size=made.size or 0, modified_ns=made.modified_ns))
        listed.problems = problems
        return MemberTree(made, owner, listed, spool, omitted)
    # Positions in the unpacked archive are no positions in the file.
    inside = [problem._replace(position=None) for problem in found.problems if problem.position != made.size]
    found.problems = problems + inside if problems else [one._replace(position=None) for one in found.problems]
    return found


def _spooled(extent: Extent, spool: Spool, problems: list[ArchiveProblem]) -> tuple[Extent, Omitted | None]:
    """Unpacks a file into the spool. Returns it, and what was left out, if anything was: it then needs ``extent``.

    Damage is added to ``problems``. Raises KsegError, OSError.
    """
    pieces = _up_to_damage(unpacked(extent), problems)
    if not spool.omits_batches:
        return spool.add(pieces), None
    unpacker = ProvingUnpacker(pieces, spool)
    made = spool.add_ranges(unpacker.pieces())
    if not unpacker.runs:
        unpacker.rows.close()
        return made, None
    return made, Omitted(extent, made, unpacker, spool)


def _archive(extent: Extent, form: str | None, owner: int, spool: Spool, omitted: Omitted | None = None) -> Tree | None:
    if form == forms.TAR:
        return MemberTree(extent, owner, members.TarListing(extent).members(), spool, omitted)
    if form == forms.ZIP:
        return MemberTree(extent, owner, members.zip_members(extent), spool, is_shared=False)
    return None


def _up_to_damage(pieces: Iterator[bytes], problems: list[ArchiveProblem]) -> Iterator[bytes]:
    """Yields unpacked bytes; ends early where they are damaged, which is recorded."""
    try:
        yield from pieces
    except forms.UnpackError as error:
        problems.append(ArchiveProblem(members.DAMAGED, error.position, str(error), True))
