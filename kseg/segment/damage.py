"""Classifies damage: the bytes between two batches, or after the last one."""

from collections.abc import Callable, Iterator

from kseg.formats import message_set, record_batch, v07
from kseg.formats.rows import BytesLike, Sliceable
from kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OFFSET,
    ENTRY_OVERHEAD,
    ENTRY_SIZE,
    LEGACY_CRC,
    MAGIC_V2,
    V2_CRC,
)
from kseg.kernel.layout.rows import be32, be64
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.kernel.scan.plausibility import continues, leading_zeros, long_zeros, offset_continues
from kseg.limits import MAX_BATCH_BYTES, WINDOW_BYTES
from kseg.segment.items import Damage
from kseg.stores.extent import Extent, next_data

_OFFSET_BYTES = 8
_LARGEST = (1 << 31) - 1
_ZERO_RUN_BYTES = 64
_NONSENSE_07 = ("nonsense-block", "bytes that belong to no message")


def describe(
    buffer: Sliceable,
    position: int,
    stop: int,
    is_followed: bool,
    is_07: bool,
    last_offset: int,
    extent: Extent | None = None,
) -> Damage:
    """Returns the damage that covers ``[position, stop)`` of a segment.

    ``is_followed``: an intact batch begins at ``stop``; otherwise the file ends there. ``last_offset`` is that of the
    previous batch, -1 if there is none. Holes of ``extent``, if given, are not read.
    """
    if is_followed and is_zero(buffer, position, stop, extent):
        return Damage("zero-block", position, stop - position, f"{stop - position} zero bytes")
    if is_followed and stop - position < _OFFSET_BYTES:
        return Damage("nonsense-block", position, stop - position, f"{stop - position} bytes that belong to no batch")
    code, message = _diagnose(buffer, position, stop, is_07, last_offset, extent)
    if not is_followed:
        message += "; no intact batch follows"
    return Damage(code, position, stop - position, message)


def _diagnose(
    buffer: Sliceable, position: int, stop: int, is_07: bool, last_offset: int, extent: Extent | None
) -> tuple[str, str]:
    length = stop - position
    # A few zero bytes may also be the start of an offset field.
    least = 8 if is_07 or not offset_continues(0, last_offset) else 12
    if length >= least and is_zero(buffer, position, stop, extent):
        return "zero-block", f"{length} zero bytes"
    if is_07:
        return _diagnose_07(buffer, position, stop, extent)
    head = bytes(buffer[position : min(position + record_batch.HEADER_BYTES, stop)])
    claimed = be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD if length >= message_set.MIN_BYTES else 0
    whole = _with_length(head, length)
    if claimed and length <= MAX_BATCH_BYTES and continues(whole, last_offset) and crc_holds(buffer, position, stop):
        return "bad-length", f"a complete batch of {length} bytes, whose length field says {claimed}"
    if length < record_batch.HEADER_BYTES and _is_cut_header(head, last_offset):
        return "truncated-batch", f"only {length} bytes of a batch"
    if length < message_set.MIN_BYTES:
        return "nonsense-block", f"{length} bytes that belong to no batch"
    if continues(head, last_offset) and claimed > length:
        return "truncated-batch", f"{length} of the {claimed} bytes of a batch"
    if continues(head, last_offset):
        return (
            "nonsense-block",
            f"a batch of {claimed} bytes and the bytes after it{_zeros_in(buffer, position, stop, extent)}",
        )
    for magic in range(3):
        if continues(head[:ENTRY_MAGIC] + bytes([magic]) + head[ENTRY_MAGIC + 1 :], last_offset):
            return "bad-magic", f"a batch whose magic is {head[ENTRY_MAGIC]}"
    if continues(whole, last_offset):
        return "bad-length", f"a batch of {length} bytes up to the next one, whose length field says {claimed}"
    return "nonsense-block", f"{length} bytes that belong to no batch{_zeros_in(buffer, position, stop, extent)}"


def _with_length(head: bytes, length: int) -> bytes:
    """Returns the header with the length of a batch of so many bytes; 0, which none has, if no field can hold it."""
    size = length - ENTRY_OVERHEAD if length <= _LARGEST else 0
    return head[:ENTRY_SIZE] + size.to_bytes(4, "big", signed=True) + head[ENTRY_OVERHEAD:]


def _is_cut_header(head: bytes, last_offset: int) -> bool:
    """Whether these bytes, fewer than a header, can be the start of one."""
    if len(head) < 8:
        return True
    if not offset_continues(be64(head, ENTRY_OFFSET), last_offset):
        return False
    if len(head) < ENTRY_OVERHEAD:
        return True
    has_known_magic = len(head) <= ENTRY_MAGIC or head[ENTRY_MAGIC] <= MAGIC_V2
    return be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD > len(head) and has_known_magic


def _zeros_in(buffer: Sliceable, start: int, stop: int, extent: Extent | None) -> str:
    """Describes the long runs of zero bytes, such as lost pages."""
    written = list(_written(start, stop, extent))
    zeros = stop - start - sum(end - at for at, end in written)
    zeros += sum(long_zeros(buffer[at:end], _ZERO_RUN_BYTES) for at, end in written)
    return f" ({zeros} of them zero)" if zeros else ""


def _diagnose_07(buffer: Sliceable, position: int, stop: int, extent: Extent | None) -> tuple[str, str]:
    length = stop - position
    head = bytes(buffer[position : min(position + 10, stop)])
    size = be32(head, 0) if length >= 4 else 0
    if length < v07.MIN_BYTES:
        is_cut = length < 4 or (size > length - 4 and (length < 5 or head[4] <= 1))
        return ("truncated-batch", f"only {length} bytes of a message") if is_cut else _NONSENSE_07
    stored = be32(head, 5 + head[4]) & 0xFFFFFFFF if head[4] <= 1 else -1
    if 0 <= stored and length <= MAX_BATCH_BYTES and _crc_of(crc32, buffer, position + 9 + head[4], stop) == stored:
        return "bad-length", f"a complete message of {length} bytes, whose length field says {size + 4}"
    if size + 4 > length and head[4] <= 1:
        return "truncated-batch", f"{length} of the {size + 4} bytes of a message"
    return _NONSENSE_07[0], _NONSENSE_07[1] + _zeros_in(buffer, position, stop, extent)


def _crc_of(crc_with: Callable[[BytesLike, int], int], buffer: Sliceable, start: int, stop: int) -> int:
    crc = 0
    for at in range(start, stop, WINDOW_BYTES):
        crc = crc_with(buffer[at : min(at + WINDOW_BYTES, stop)], crc)
    return crc


def is_zero(buffer: Sliceable, start: int, stop: int, extent: Extent | None = None) -> bool:
    """Whether all bytes of the range are zero; ``extent`` as in `describe`."""
    if buffer[start] or buffer[stop - 1]:
        return False
    return all(leading_zeros(buffer[at:end]) == end - at for at, end in _written(start, stop, extent))


def _written(start: int, stop: int, extent: Extent | None) -> Iterator[tuple[int, int]]:
    """Yields the windows of a range, without its holes."""
    at = start
    while at < stop:
        data = at if extent is None else next_data(extent, at, stop)
        if data - at > WINDOW_BYTES:
            at = data
            continue
        end = min(at + WINDOW_BYTES, stop)
        yield at, end
        at = end


def crc_holds(buffer: Sliceable, position: int, stop: int, is_v2: bool | None = None) -> bool:
    """Whether the CRC in the header at ``position`` matches the bytes up to ``stop``, ignoring the length field.
    ``is_v2``: the format, None for that of the magic."""
    is_v2 = buffer[position + ENTRY_MAGIC] == MAGIC_V2 if is_v2 is None else is_v2
    at = position + (V2_CRC if is_v2 else LEGACY_CRC)
    stored = int.from_bytes(bytes(buffer[at : at + 4]), "big")
    return _crc_of(crc32c if is_v2 else crc32, buffer, at + 4, stop) == stored
