"""Decompression by several threads at once, of which one at a time may make a large result."""

from collections.abc import Callable
from typing import Any

from kseg.formats.compression import decompress
from kseg.formats.decompressed import DecompressionError, Remarks
from kseg.limits import LARGEST_ROOM_BYTES


def decompress_in_turn(
    codec: int,
    payload: Any,
    magic: int,
    ceiling: int,
    before_large: Callable[[], None] | None,
    remarks: Remarks | None = None,
) -> Any:
    """As `decompress`. ``before_large`` is called before more than LARGEST_ROOM_BYTES are made.

    What was made until then is dropped: how much a stream holds is known only once it is decompressed.
    """
    if before_large is not None and ceiling > LARGEST_ROOM_BYTES:
        try:
            return decompress(codec, payload, magic, LARGEST_ROOM_BYTES, remarks)
        except DecompressionError as error:
            if error.problem != "decompression-limit":
                raise
        before_large()
    return decompress(codec, payload, magic, ceiling, remarks)
