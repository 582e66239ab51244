"""Decompresses the batches that the kernel leaves to Python: gzip, snappy, and all that it fails to decompress."""

from typing import NoReturn

from kseg.cleaner.reading import Window
from kseg.formats import record_batch
from kseg.formats.expansion import expansion_buffer
from kseg.formats.rows import Scratch, UndecodableError, int64s
from kseg.kernel.layout.headers import CODEC, ENTRY_MAGIC, V2_FLAGS
from kseg.kernel.layout.rows import BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH, ROW_WIDTH
from kseg.kernel.records import opening
from kseg.kernel.records.record_fields import REASONS
from kseg.limits import MAX_BATCH_BYTES, ROWS_PER_CALL
from kseg.segment.batches import Message
from kseg.segment.items import HARMLESS_CODES


class RecordBuffers:
    """Reused buffers of one thread: rows, key hashes, key offsets and survivor flags of a batch, and its output."""

    def __init__(self, out_bytes: int, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        self.scratch = Scratch(max_batch_bytes)
        self.expansion = expansion_buffer(max_batch_bytes)
        self.out = bytearray(out_bytes)
        self.widen(2 * ROWS_PER_CALL)

    def widen(self, records: int) -> None:
        """Enlarges the buffers for a batch of ``records`` records."""
        self.rows = int64s(records * ROW_WIDTH)
        self.hashes, self.offsets = int64s(2 * records), int64s(records)
        self.keep = bytearray(records)

    def expand(self, window: Window, i: int) -> bool:
        """Enlarges the decompression buffer for batch i; returns False if the kernel cannot decompress it at all."""
        position = window.rows[i * BATCH_WIDTH + BATCH_POSITION]
        return bool(self.expansion.extend(window.data[position + V2_FLAGS] & CODEC))


def batch_bytes(window: Window, i: int) -> memoryview:
    at = i * BATCH_WIDTH
    return window.data[window.rows[at + BATCH_POSITION] :][: window.rows[at + BATCH_SIZE]]


def open_records(window: Window, i: int, buffers: RecordBuffers) -> bytes | memoryview:
    """Returns the decompressed records of v2 batch i. Raises DamagedError."""
    data = batch_bytes(window, i)
    try:
        payload, start = record_batch.open_records(
            data, record_batch.parse_header(data), buffers.scratch.max_batch_bytes
        )
    except UndecodableError as error:
        raise window.damage(i, str(error)) from error
    return memoryview(payload)[start:]


def open_message(window: Window, i: int, buffers: RecordBuffers) -> Message:
    """Returns message i (v0 or v1). Raises DamagedError if an inner message is not intact."""
    data = batch_bytes(window, i)
    message = Message(data, 0, len(data), data[ENTRY_MAGIC], True, buffers.scratch)
    if problems := [problem for problem in message.check() if problem.code not in HARMLESS_CODES]:
        raise window.damage(i, problems[0].message)
    return message


def refuse(window: Window, i: int, reason: int) -> NoReturn:
    """Raises DamagedError for malformed records (a REASON of the kernel)."""
    raise window.damage(i, opening.REASONS.get(reason) or REASONS.get(reason, "its records make no sense"))
