"""Replaces the records of one batch of any format; what cannot be read of it becomes random bytes.

Sizes of records stay, so that an uncompressed batch keeps its size and all its positions. A compressed batch is packed
anew with its codec. A checksum that was wrong stays wrong by the same difference.
"""

import os
import re
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from kseg.formats import message_set, record_batch, v07
from kseg.formats.compressing import Target, build_batch, build_wrapper, compress
from kseg.formats.compression import (
    GZIP,
    KAFKA_0_7,
    LZ4,
    NONE,
    SNAPPY,
    decompress,
    decompress_limited,
    expansion_buffer,
)
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Rows, Scratch, UndecodableError, int64s
from kseg.kernel.codecs.expand import ExpansionBuffer
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OVERHEAD,
    ENTRY_SIZE,
    LEGACY_CRC,
    MAGIC_V2,
    V0_HEADER_BYTES,
    V07_MAGIC,
    V07_MIN_BYTES,
    V07_SIZE_BYTES,
    V1_HEADER_BYTES,
    V2_ATTRIBUTES,
    V2_CRC,
)
from kseg.kernel.records.messages import MessageWalk
from kseg.kernel.records.records import RecordWalk
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.kernel.scan.frames import continues
from kseg.limits import MAX_HEADERS, MAX_NESTING
from kseg.redaction.internal_records import RecordRule, of_control
from kseg.redaction.pseudonyms import Pseudonyms
from kseg.segment.items import Batch, Message, Message07, RecordBatch

ZEROS = re.compile(rb"\0{8,}")
"""Runs of zeros that stay: lost pages, holes, preallocated space."""
_TEXT = re.compile(rb"[\x20-\x7e]{8,}")
"""Text among numbers: foreign bytes, as of a misdirected block."""
_ATTEMPTS = 8
_INT32 = struct.Struct(">i")
_SIZE_BYTES = 4
_MIN_CHUNK = 5
_MAX_MESSAGES = 1 << 19
"""Messages inside of one compressed message of the old formats, of which each takes a call; the rest is lost."""
_FAST = {"gzip": 1, "lz4": 9, "zstd": -3}
"""Levels: what replaces a payload packs well at any. That of zstd takes half the time of level 1 for 9 % more bytes."""


def random_like(data: bytes | bytearray | memoryview) -> bytes:
    """Returns as many random bytes; runs of zeros stay."""
    data = bytes(data)
    if not data.strip(b"\0"):
        return data
    out = bytearray(os.urandom(len(data)))
    for found in ZEROS.finditer(data):
        out[found.start() : found.end()] = bytes(found.end() - found.start())
    return bytes(out)


def numbers(data: bytes) -> bytes:
    """Returns the bytes of numbers without text. Every other byte stays, so that what was out of order still is."""

    def other(found: "re.Match[bytes]") -> bytes:
        text = bytearray(found[0])
        text[1::2] = bytes(0x20 + byte % 0x5F for byte in os.urandom(len(text[1::2])))
        return bytes(text)

    return _TEXT.sub(other, data)


def true_magic(head: bytes, last_offset: int = -1) -> int:
    """Returns the magic that the other fields of a header fit behind ``last_offset``: its own, if they fit none."""
    for magic in (head[ENTRY_MAGIC], 0, 1, MAGIC_V2):
        if continues(_with_magic(head, magic), last_offset):
            return magic
    return head[ENTRY_MAGIC]


def _with_magic(data: bytes, magic: int) -> bytes:
    return data[:ENTRY_MAGIC] + bytes((magic,)) + data[ENTRY_MAGIC + 1 :]


def target_of(codec: int) -> Target:
    """Returns the codec at the level for twins."""
    target = Target(codec, None)
    return Target(codec, _FAST.get(target.name))


def reseal(old: bytes | bytearray, new: bytearray, crc_at: int, start: int, is_v2: bool) -> None:
    """Writes the checksum of the bytes from ``start`` on: right if the old one was, else wrong by the same bits."""
    crc_of = crc32c if is_v2 else crc32
    wrong = int.from_bytes(old[crc_at : crc_at + 4], "big") ^ crc_of(memoryview(old)[start:])
    new[crc_at : crc_at + 4] = (crc_of(memoryview(new)[start:]) ^ wrong).to_bytes(4, "big")


COUNTED = ("files", "bytes", "records", "keys", "values", "headerValues", "randomBytes")
"""What is counted of a twin. ``randomBytes``: of broken batches and other damage, and of files of no known kind."""


class BatchRedaction:
    """Replaces batch after batch. ``rule``: of records of an internal topic; None: all payloads are replaced.

    ``lost_bytes``: the number of bytes that became random.
    """

    def __init__(
        self, names: Pseudonyms, rule: RecordRule | None, scratch: Scratch, expansion: ExpansionBuffer
    ) -> None:
        self.replacer = names.replacer()
        self.lost_bytes = 0
        self.scratch, self.expansion = scratch, expansion
        self._names, self._rule = names, rule
        self._budget = scratch.max_batch_bytes
        """Bytes to which the sets inside of a batch may still decompress in all."""
        self._messages_left = _MAX_MESSAGES

    def taken(self) -> Counter[str]:
        """Returns what was replaced since the last call, by the names of `COUNTED`."""
        found = self.replacer
        numbers = 0, 0, found.replaced, found.keys, found.values, found.header_values, self.lost_bytes
        counts = Counter(dict(zip(COUNTED, numbers, strict=True)))
        found.replaced = found.keys = found.values = found.header_values = self.lost_bytes = 0
        return counts

    def frames(self, data: bytes, rows: memoryview, out: bytearray) -> int:
        """Replaces in frames from ``replacer.frame`` on, whose bytes are ``data``. Returns as
        `Replacer.replace_frames`; with a rule, compressed ones are NOT_PLAIN."""
        count, replacer, scratch = len(rows) // layout.FRAME_WIDTH, self.replacer, self.scratch
        if self._rule is None:
            return replacer.replace_frames(data, rows, count, scratch.rows, scratch.headers, out, self.expansion)
        status = layout.DONE
        while status == layout.DONE and replacer.frame < count:
            first = replacer.frame
            status = replacer.read_frames(data, rows, count, scratch.rows, scratch.headers)
            if replacer.row_count:
                self._rows(out, Rows(data, scratch.rows, scratch.headers, replacer.row_count))
            replacer.seal(rows, first, out)
        return status

    def batch(self, batch: Batch) -> bytes:
        """Returns the bytes of the batch in the twin."""
        self._budget, self._messages_left = self.scratch.max_batch_bytes, _MAX_MESSAGES
        if not batch.is_valid and not isinstance(batch, Message07):
            old = bytes(batch.data)
            if (mended := self.mended(old)) is not None:
                return mended
            if isinstance(batch, RecordBatch):
                magic = true_magic(old[:HEADER_BYTES])
                if magic < MAGIC_V2:  # else payload counts as a header
                    new = bytearray(self._message(_with_magic(old, magic), MAX_NESTING))
                    new[ENTRY_MAGIC] = batch.magic
                    return bytes(new)
                old = numbers(old[:HEADER_BYTES]) + old[HEADER_BYTES:]  # a block of another file may lie over it
                batch = RecordBatch(old, 0, len(old), batch.magic, False, self.scratch)
        if isinstance(batch, RecordBatch):
            return self._v2(batch)
        if isinstance(batch, Message07):
            return self._entry_07(bytes(batch.data))
        assert isinstance(batch, Message)
        return self._message(bytes(batch.data), MAX_NESTING)

    def mended(self, old: bytes) -> bytes | None:
        """Returns the twin of a batch whose checksum is right, once its length or its magic v2 is: the checksum does
        not cover them. What mends the batch then mends its twin. None if it is no such batch."""
        if len(old) < message_set.MIN_BYTES:
            return None
        self._budget, self._messages_left = self.scratch.max_batch_bytes, _MAX_MESSAGES
        size = _INT32.pack(len(old) - ENTRY_OVERHEAD)
        crc = int.from_bytes(old[V2_CRC:V2_ATTRIBUTES], "big")
        is_v2 = len(old) >= HEADER_BYTES and crc == crc32c(old[V2_ATTRIBUTES:])
        if is_v2:
            magic = bytes((MAGIC_V2,))
            right = old[:ENTRY_SIZE] + size + old[ENTRY_OVERHEAD:ENTRY_MAGIC] + magic + old[V2_CRC:]
            new = bytearray(self._v2(RecordBatch(right, 0, len(right), MAGIC_V2, True, self.scratch)))
            new[ENTRY_MAGIC] = old[ENTRY_MAGIC]
        elif old[ENTRY_MAGIC] < MAGIC_V2 and int.from_bytes(old[LEGACY_CRC:ENTRY_MAGIC], "big") == crc32(
            old[ENTRY_MAGIC:]
        ):
            new = bytearray(self._message(old[:ENTRY_SIZE] + size + old[ENTRY_OVERHEAD:], MAX_NESTING))
        else:
            return None
        _with_claim(old, new, ENTRY_SIZE)
        return bytes(new)

    # v2

    def _v2(self, batch: RecordBatch) -> bytes:
        old, header = bytes(batch.data), batch.header
        remarks: list[tuple[str, str]] = []
        try:
            opened = record_batch.open_records(old, header, self.scratch.max_batch_bytes, None, remarks)
        except UndecodableError:
            return self._same_problems(batch, lambda: old[:HEADER_BYTES] + self._lost(old[HEADER_BYTES:]))
        if header.codec == NONE or header.record_count == 0:
            new = bytearray(old)
            self._records(new, HEADER_BYTES, header)
            reseal(old, new, V2_CRC, V2_ATTRIBUTES, True)
            return bytes(new)
        area = bytearray(opened[0])
        self._records(area, 0, header)
        if not remarks:
            new = bytearray(build_batch(header, area, target_of(header.codec)))
            reseal(old, new, V2_CRC, V2_ATTRIBUTES, True)
            return bytes(new)
        areas = _forms(header.codec, area)
        return self._same_problems(batch, lambda: old[:HEADER_BYTES] + next(areas, b""))

    def _same_problems(self, batch: RecordBatch, make: Callable[[], bytes]) -> bytes:
        """Returns a batch of ``make``, sealed, with the problems of the old one, if a few attempts give it."""
        wanted = sorted(problem.code for problem in batch.check())
        first, lost_bytes = b"", self.lost_bytes
        for _ in range(_ATTEMPTS):
            self.lost_bytes = lost_bytes
            new = bytearray(make())
            if len(new) <= HEADER_BYTES < batch.size:
                break
            if len(new) != batch.size:
                new[ENTRY_SIZE:ENTRY_OVERHEAD] = _INT32.pack(len(new) - ENTRY_OVERHEAD)
            reseal(bytes(batch.data), new, V2_CRC, V2_ATTRIBUTES, True)
            first = first or bytes(new)
            twin = RecordBatch(bytes(new), 0, len(new), batch.magic, batch.is_valid, self.scratch)
            if sorted(problem.code for problem in twin.check()) == wanted:
                return bytes(new)
        return first

    def _records(self, area: bytearray, start: int, header: record_batch.RecordBatchHeader) -> None:
        """Replaces the records in place; from the first one that cannot be read on, all is lost."""
        walk, headers = RecordWalk(record_batch.HEADER.pack(*header), start), self.scratch.headers
        rows = self.scratch.rows
        while header.record_count:
            status = walk.read(area, rows, headers)
            if walk.row_count:
                self._rows(area, Rows(area, rows, headers, walk.row_count), header.is_control)
            if status == layout.DONE:
                return
            if status == layout.MORE_HEADERS and len(headers) < MAX_HEADERS * layout.HEADER_WIDTH:
                headers = int64s(MAX_HEADERS * layout.HEADER_WIDTH)
            elif status != layout.FULL:
                break
        area[walk.position :] = self._lost(area[walk.position :])

    def _rows(self, area: bytearray, rows: Rows, is_control: bool = False) -> None:
        """Replaces the fields of rows in place."""
        columns, headers = rows.rows, rows.headers
        if self._rule is None and not is_control:
            self.replacer.replace(area, columns, rows.count, headers)
            return
        end = rows.count * layout.ROW_WIDTH
        if any(columns[layout.ROW_HEADER_COUNT : end : layout.ROW_WIDTH]):
            of_headers = int64s(end)
            of_headers[:] = columns[:end]
            for at in range(0, end, layout.ROW_WIDTH):  # keys and values are not for the kernel
                of_headers[at + layout.ROW_KEY_SIZE] = of_headers[at + layout.ROW_VALUE_SIZE] = -1
            self.replacer.replace(area, of_headers, rows.count, headers)
        elif not is_control:
            self.replacer.replaced += rows.count
        replace = partial(of_control, self._names) if is_control or self._rule is None else self._rule
        payload = rows.payload
        fields = (layout.ROW_KEY, layout.ROW_KEY_SIZE, layout.ROW_VALUE, layout.ROW_VALUE_SIZE)
        places = (columns[field : end : layout.ROW_WIDTH].tolist() for field in fields)
        for key_at, key_size, value_at, value_size in zip(*places, strict=True):
            key = None if key_size < 0 else bytes(payload[key_at : key_at + key_size])
            value = None if value_size < 0 else bytes(payload[value_at : value_at + value_size])
            new_key, new_value = replace(key, value)
            if new_key:
                area[key_at : key_at + key_size] = new_key
            if new_value and new_value is not value:
                area[value_at : value_at + value_size] = new_value
            if not is_control:
                self.replacer.keys += bool(key)
                self.replacer.values += bool(value)

    def _lost(self, data: bytes | bytearray) -> bytes:
        self.lost_bytes += len(data)
        return random_like(data)

    # v0 and v1

    def _message(self, old: bytes, depth: int) -> bytes:
        header = message_set.parse_header(old)
        start = (V1_HEADER_BYTES if header.magic else V0_HEADER_BYTES) + _SIZE_BYTES
        if header.codec == NONE:
            walk, new, rows = MessageWalk(), bytearray(old), self.scratch.rows
            if walk.read(old, rows) == layout.DONE and walk.row_count == 1:
                self._rows(new, Rows(new, rows, self.scratch.headers, 1))
                start = rows[layout.ROW_VALUE] + max(rows[layout.ROW_VALUE_SIZE], 0)
            new[start:] = self._lost(old[start:])
            reseal(old, new, LEGACY_CRC, ENTRY_MAGIC, False)
            return bytes(new)
        try:
            value = message_set.value_of(old, 0, len(old))
            if value is None or depth == 0:
                raise UndecodableError("")
            inner = bytes(decompress_limited(header.codec, bytes(value), header.magic, self._budget, None, []))
            self._budget -= len(inner)
        except UndecodableError:
            new = bytearray(old[:start] + self._lost(old[start:]))
            new[start : start + _SIZE_BYTES] = old[start : start + _SIZE_BYTES]  # the size of the value, if no key
            reseal(old, new, LEGACY_CRC, ENTRY_MAGIC, False)
            return bytes(new)
        attributes = header.attributes & ~7
        replace = partial(self._message, depth=depth - 1)
        inner = self._set(inner, replace, V0_HEADER_BYTES + 2 * _SIZE_BYTES, ENTRY_SIZE, ENTRY_OVERHEAD)
        packed = build_wrapper(
            header.magic, header.offset, header.timestamp, attributes, inner, target_of(header.codec)
        )  # fmt: skip
        new = bytearray(packed)
        if header.magic not in (0, 1):
            new[ENTRY_MAGIC] = old[ENTRY_MAGIC]
        reseal(old, new, LEGACY_CRC, ENTRY_MAGIC, False)
        return bytes(new)

    def _set(self, inner: bytes, replace: Callable[[bytes], bytes], least: int, size_at: int, kept: int) -> bytes:
        """Returns a set of messages, each replaced. ``least``: size of the smallest one; ``size_at``: place of the
        size, which counts the bytes behind it; ``kept``: bytes that stay of the rest that is no message."""
        out, at = [], 0
        while len(inner) - at >= least and self._messages_left > 0:
            size = _INT32.unpack_from(inner, at + size_at)[0] + size_at + _SIZE_BYTES
            if not least <= size <= len(inner) - at:
                break
            self._messages_left -= 1
            out.append(replace(inner[at : at + size]))
            at += size
        kept = 0 if inner[at : at + 1].strip(b"\0") else kept  # offsets and sizes begin with zero, and no text does
        return b"".join((*out, inner[at : at + kept], self._lost(inner[at + kept :])))

    # 0.7

    def _entry_07(self, old: bytes, depth: int = 0, is_short: bool = False) -> bytes:
        header = v07.parse_header(old)
        start = V07_MIN_BYTES + (header.magic != 0)
        payload = old[start:]
        try:
            if header.codec == NONE:
                new = self._names.payload(payload)
                if is_short:
                    new = bytes((97 + new[0] % 26,)) * len(new) if new else new
                self.replacer.replaced += 1
                self.replacer.values += bool(payload)
            elif depth >= MAX_NESTING:
                raise UndecodableError("")
            else:
                inner = bytes(decompress(header.codec, payload, KAFKA_0_7, self._budget, []))
                self._budget -= len(inner)
                counted = self.replacer.replaced, self.replacer.values, self.lost_bytes
                left = self._budget, self._messages_left
                for is_inner_short in (False, True):  # which packs better
                    self.replacer.replaced, self.replacer.values, self.lost_bytes = counted
                    self._budget, self._messages_left = left
                    new_set = self._set_07(inner, depth + 1, is_inner_short)
                    new = _filled(header.codec, compress(target_of(header.codec), new_set), payload)
                    if len(new) == len(payload) or depth:
                        break
        except UndecodableError:
            new = self._lost(payload)
        out = bytearray(old[:start] + new)
        if len(new) != len(payload):
            out[:V07_SIZE_BYTES] = _INT32.pack(len(out) - V07_SIZE_BYTES)
        reseal(old, out, start - 4, start, False)
        return bytes(out)

    def mended_07(self, old: bytes) -> bytes | None:
        """Returns as `mended` the twin of a message of 0.7 whose length is wrong."""
        start = V07_MIN_BYTES + (old[V07_MAGIC : V07_MAGIC + 1] > b"\0")
        if len(old) < start or int.from_bytes(old[start - 4 : start], "big") != crc32(old[start:]):
            return None
        self._budget, self._messages_left = self.scratch.max_batch_bytes, _MAX_MESSAGES
        new = bytearray(self._entry_07(_INT32.pack(len(old) - V07_SIZE_BYTES) + old[V07_SIZE_BYTES:]))
        _with_claim(old, new, 0)
        return bytes(new)

    def _set_07(self, inner: bytes, depth: int, is_short: bool) -> bytes:
        replace = partial(self._entry_07, depth=depth, is_short=is_short)
        return self._set(inner, replace, V07_MIN_BYTES + 1, 0, V07_MIN_BYTES)


def _with_claim(old: bytes, new: bytearray, size_at: int) -> None:
    """Writes the wrong length of a batch to its twin, as far from the right one; a negative one stays."""
    claimed = _INT32.unpack_from(old, size_at)[0]
    grown = claimed + len(new) - len(old) if claimed >= 0 else claimed
    new[size_at : size_at + _SIZE_BYTES] = (grown & 0xFFFFFFFF).to_bytes(4, "big")


class Workers:
    """A redaction for each thread, with buffers of its own."""

    def __init__(self, names: Pseudonyms, max_batch_bytes: int) -> None:
        self._names, self._max_batch_bytes = names, max_batch_bytes
        self._of_thread = threading.local()

    def of_thread(self) -> BatchRedaction:
        """Returns this thread's redaction of records of no internal topic."""
        found: BatchRedaction | None = getattr(self._of_thread, "worker", None)
        if found is None:
            scratch, expansion = Scratch(self._max_batch_bytes), expansion_buffer(self._max_batch_bytes)
            found = self._of_thread.worker = BatchRedaction(self._names, None, scratch, expansion)
        return found

    def with_rule(self, rule: RecordRule | None) -> BatchRedaction:
        """Returns a redaction by a rule with the buffers of this thread."""
        return BatchRedaction(self._names, rule, self.of_thread().scratch, self.of_thread().expansion)


def _forms(codec: int, area: bytes | bytearray) -> Iterator[bytes]:
    """Yields forms of a compressed area, the usual one first, and those with what readers pass over or refuse."""
    packed = compress(target_of(codec), area)
    yield packed
    yield packed + os.urandom(5)
    if codec == LZ4:
        from lz4 import frame

        form = {"block_size": frame.BLOCKSIZE_MAX64KB, "store_size": False}
        yield bytes(frame.compress(bytes(area), block_linked=True, **form))
        yield packed[:6] + bytes((packed[6] ^ 1,)) + packed[7:]


def _filled(codec: int, packed: bytes, old: bytes) -> bytes:
    """Returns a stream of the size of the old one, if there is room: 0.7 counts offsets in bytes, so none may move.

    A member of gzip has a field for more, a stream of snappy takes empty chunks: a length, and a size of zero in 1 to 5
    bytes.
    """
    room = len(old) - len(packed)
    if codec == GZIP and 2 <= room < 1 << 16:
        return packed[:3] + b"\x04" + packed[4:10] + (room - 2).to_bytes(2, "little") + bytes(room - 2) + packed[10:]
    chunks = []
    while codec == SNAPPY and room >= _MIN_CHUNK:
        size = min(room, 2 * _MIN_CHUNK - 1) if room < 2 * _MIN_CHUNK else _MIN_CHUNK
        room -= size
        chunks.append(_INT32.pack(size - 4) + b"\x80" * (size - 5) + b"\0")
    return packed + b"".join(chunks)
