"""Names damage: what the bytes between two batches, or behind the last one, once were."""

import re
from typing import Any

from kseg.formats import message_set, record_batch, v07
from kseg.kernel.checksum import crc32, crc32c
from kseg.kernel.native import be32, be64
from kseg.limits import WINDOW_BYTES
from kseg.segment.items import Damage

_OFFSET_BYTES = 8
_STREAM_STARTS = {1: b"\x1f\x8b", 2: b"\x82SNAPPY\0", 3: b"\x04\x22\x4d\x18"}
_ZERO_RUN = re.compile(rb"\0{64,}")
_NONSENSE_07 = ("nonsense-block", "bytes that belong to no message")


def describe(buffer: Any, position: int, stop: int, is_followed: bool, era_07: bool, last_offset: int) -> Damage:
    """The damage that covers ``[position, stop)`` of a segment.

    ``is_followed``: an intact batch begins at ``stop`` (else the file ends there). ``last_offset`` is that of the batch
    before, -1 where there is none.
    """
    if is_followed and is_zero(buffer, position, stop):
        return Damage("zero-block", position, stop - position, f"{stop - position} zero bytes")
    if is_followed and stop - position < _OFFSET_BYTES:
        return Damage("nonsense-block", position, stop - position, f"{stop - position} bytes that belong to no batch")
    code, message = _diagnose(buffer, position, stop, era_07, last_offset)
    if not is_followed:
        message += "; no intact batch follows"
    return Damage(code, position, stop - position, message)


def _diagnose(buffer: Any, position: int, stop: int, era_07: bool, last_offset: int) -> tuple[str, str]:
    length = stop - position
    if _may_be_zero_block(length, era_07, last_offset) and is_zero(buffer, position, stop):
        return "zero-block", f"{length} zero bytes"
    if era_07:
        return _diagnose_07(buffer, position, stop)
    head = bytes(buffer[position : min(position + record_batch.HEADER_BYTES, stop)])
    if length < record_batch.HEADER_BYTES and _is_cut_header(head, last_offset):
        return "truncated-batch", f"only {length} bytes of a batch are there"
    if length < message_set.LEAST_BYTES:
        return "nonsense-block", f"{length} bytes that belong to no batch"
    claimed = be32(head, 8) + 12
    whole = _with_length(head, length)
    if continues(whole, last_offset) and crc_holds(buffer, position, stop):
        return "bad-length", f"a whole batch of {length} bytes whose length field makes it {claimed}"
    if continues(head, last_offset) and claimed > length:
        return "truncated-batch", f"{length} of the {claimed} bytes of a batch are there"
    if continues(head, last_offset):
        return (
            "nonsense-block",
            f"a batch of {claimed} bytes and what leads on from it{_zeros_in(buffer, position, stop)}",
        )
    for magic in range(3):
        if continues(_with_magic(head, magic), last_offset):
            return "bad-magic", f"a batch whose magic is {head[16]}"
    if continues(whole, last_offset):
        return "bad-length", f"a batch whose length field makes it {claimed} bytes, in {length} bytes up to the next"
    return "nonsense-block", f"{length} bytes that belong to no batch{_zeros_in(buffer, position, stop)}"


def _may_be_zero_block(length: int, era_07: bool, last_offset: int) -> bool:
    """A few zero bytes can also be the beginning of an offset field."""
    return length >= (8 if era_07 or not _offset_continues(0, last_offset) else 12)


def _with_length(head: bytes, length: int) -> bytes:
    return head[:8] + (length - 12).to_bytes(4, "big", signed=True) + head[12:]


def _with_magic(head: bytes, magic: int) -> bytes:
    return head[:16] + bytes([magic]) + head[17:]


def _is_cut_header(head: bytes, last_offset: int) -> bool:
    """Whether fewer bytes than a header holds could be the beginning of one."""
    if len(head) < 8:
        return True
    if not _offset_continues(be64(head, 0), last_offset):
        return False
    return len(head) < 12 or (be32(head, 8) + 12 > len(head) and (len(head) < 17 or head[16] <= 2))


def _zeros_in(buffer: Any, start: int, stop: int) -> str:
    """Names the zero bytes of long runs, as lost pages leave them."""
    zeros = sum(
        len(run)
        for at in range(start, stop, WINDOW_BYTES)
        for run in _ZERO_RUN.findall(bytes(buffer[at : min(at + WINDOW_BYTES, stop)]))
    )
    return f" ({zeros} bytes of it are zero)" if zeros else ""


def _diagnose_07(buffer: Any, position: int, stop: int) -> tuple[str, str]:
    length = stop - position
    head = bytes(buffer[position : min(position + 10, stop)])
    size = be32(head, 0) if length >= 4 else 0
    if length < v07.LEAST_BYTES:
        is_cut = length < 4 or (size > length - 4 and (length < 5 or head[4] <= 1))
        return ("truncated-batch", f"only {length} bytes of a message are there") if is_cut else _NONSENSE_07
    if head[4] <= 1 and zlib_crc(buffer, position + 9 + head[4], stop) == be32(head, 5 + head[4]) & 0xFFFFFFFF:
        return "bad-length", f"a whole message of {length} bytes whose length field makes it {size + 4}"
    if size + 4 > length and head[4] <= 1:
        return "truncated-batch", f"{length} of the {size + 4} bytes of a message are there"
    return _NONSENSE_07[0], _NONSENSE_07[1] + _zeros_in(buffer, position, stop)


def zlib_crc(buffer: Any, start: int, stop: int) -> int:
    crc = 0
    for at in range(start, stop, WINDOW_BYTES):
        crc = crc32(buffer[at : min(at + WINDOW_BYTES, stop)], crc)
    return crc


def _offset_continues(offset: int, last_offset: int) -> bool:
    return offset >= 0 and (last_offset < 0 or 0 < offset - last_offset < 1 << 31)


def is_zero(buffer: Any, start: int, stop: int) -> bool:
    """Whether all bytes of the range are zero."""
    if buffer[start] or buffer[stop - 1]:
        return False
    return all(not any_set(buffer[at : min(at + WINDOW_BYTES, stop)]) for at in range(start, stop, WINDOW_BYTES))


def any_set(window: Any) -> bool:
    return bytes(window).strip(b"\0") != b""


def crc_holds(buffer: Any, position: int, stop: int) -> bool:
    """Whether the CRC in the header at position is that of the bytes up to stop, whatever the length field says."""
    is_v2 = buffer[position + 16] == 2
    at = position + (17 if is_v2 else 12)
    stored = int.from_bytes(bytes(buffer[at : at + 4]), "big")
    crc = 0
    for start in range(at + 4, stop, WINDOW_BYTES):
        window = buffer[start : min(start + WINDOW_BYTES, stop)]
        crc = crc32c(window, crc) if is_v2 else crc32(window, crc)
    return crc == stored


def last_offset_claimed(head: bytes) -> int:
    """The last offset that the header in ``head`` claims, -1 if that is no offset."""
    last = be64(head, 0)
    if len(head) >= 27 and 2 <= head[16] < 128:
        last += be32(head, 23)
    return last if 0 <= last < 1 << 62 else -1


def compressed_bytes(head: bytes, last_offset: int) -> int:
    """Bytes of the compressed v0 or v1 message that the header in ``head`` begins, told by its key and value sizes; 0
    where it begins none, or one that does not go on from ``last_offset`` (-1: unknown).
    """
    if len(head) < message_set.LEAST_BYTES or head[16] > 1 or not 1 <= head[17] & 7 <= 3:
        return 0
    if not _offset_continues(be64(head, 0), last_offset):
        return 0
    at = 18 + 8 * head[16]
    if be32(head, at) != -1 or be32(head, at + 4) < 0:
        return 0
    at += 8
    found = at + be32(head, at - 4)
    # Nonsense can look like this much of a header, and must not hide an intact message behind it.
    is_stream = head[at:].startswith(_STREAM_STARTS[head[17] & 7])
    return found if is_stream or found == be32(head, 8) + 12 else 0


def continues(head: bytes, last_offset: int) -> bool:
    """Whether the bytes look like the header of the batch behind ``last_offset`` (-1: unknown), whatever its CRC and
    end.

    Tests fields that random bytes do not get right: offset, magic, attributes, and counts or key and value sizes.
    """
    if len(head) < message_set.LEAST_BYTES or head[16] > 2:
        return False
    offset, size = be64(head, 0), be32(head, 8)
    if not _offset_continues(offset, last_offset):
        return False
    if head[16] == 2:
        if size < 49 or len(head) < record_batch.HEADER_BYTES:
            return False
        header = record_batch.parse_header(head)
        return (
            header.attributes & ~0x7F == 0
            and header.codec <= 4
            and 0 <= header.record_count <= header.last_offset_delta + 1
            and (header.codec != 0 or header.record_count * 7 <= size - 49)
            and min(header.producer_id, header.producer_epoch, header.base_sequence, header.partition_leader_epoch)
            >= -1
        )
    return message_sizes_fit(head, size)


def message_sizes_fit(head: bytes, size: int) -> bool:
    """Whether key and value of the v0 or v1 entry fill its size exactly, as far as ``head`` tells."""
    magic, attributes = head[16], head[17]
    at = 18 + 8 * magic
    if attributes & (0xF0 if magic else 0xF8) or attributes & 7 > 3 or size < 14 + 8 * magic or len(head) < at + 4:
        return False
    key_size = max(be32(head, at), 0)
    if be32(head, at) < -1 or key_size > size - 14 - 8 * magic:
        return False
    at += 4 + key_size
    if at + 4 > len(head):
        return True
    value_size = be32(head, at)
    return value_size >= -1 and size == 14 + 8 * magic + key_size + max(value_size, 0)
