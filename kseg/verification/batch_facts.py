"""Header fields of a batch with a problem, for the details of findings."""

from kseg.formats import message_set, record_batch, v07
from kseg.formats.byte_types import Sliceable
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2, V2_ATTRIBUTES
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.verification.report import Details

_V2_FROM, _V1_FROM = V2_ATTRIBUTES, ENTRY_MAGIC
"""Start of the bytes that the checksum covers."""


def batch_facts(buffer: Sliceable, position: int, size: int, is_07: bool) -> Details:
    """Returns the header fields of a batch, and the checksum of its bytes; nothing if its format is unknown.

    Unset producers and epochs, and fields that the format lacks, are null.
    """
    data = buffer[position : position + size]
    if is_07:
        old = v07.parse_header(data)
        begin = 9 + (old.magic != 0)
        return {"magic": old.magic, "storedChecksum": old.crc, "computedChecksum": crc32(bytes(data[begin:]))}
    if size < message_set.MIN_BYTES:
        return {}
    magic = int.from_bytes(data[ENTRY_MAGIC : ENTRY_MAGIC + 1], "big", signed=True)
    if magic == MAGIC_V2 and size >= record_batch.HEADER_BYTES:
        header = record_batch.parse_header(data)
        return {
            "magic": magic,
            "storedChecksum": header.crc,
            "computedChecksum": crc32c(bytes(data[_V2_FROM:])),
            "firstOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "recordCount": header.record_count,
            "producerId": _known(header.producer_id),
            "producerEpoch": _known(header.producer_epoch),
            "leaderEpoch": _known(header.partition_leader_epoch),
        }
    if magic not in (0, 1):
        return {"magic": magic}
    message = message_set.parse_header(data)
    return {
        "magic": magic,
        "storedChecksum": message.crc,
        "computedChecksum": crc32(bytes(data[_V1_FROM:])),
        "firstOffset": None if message.codec else message.offset,
        "lastOffset": message.offset,
        "recordCount": None if message.codec else 1,
        "producerId": None,
        "producerEpoch": None,
        "leaderEpoch": None,
    }


def _known(number: int) -> int | None:
    return number if number >= 0 else None
