"""Decompression in several threads that limits large results to one at a time."""

from collections.abc import Callable
from typing import Any

from kseg.formats.byte_types import BytesLike
from kseg.formats.compression import decompress
from kseg.formats.decompressed import DecompressionError, Remarks
from kseg.limits import LARGEST_BUFFER_BYTES


def decompress_limited(
    codec: int,
    payload: BytesLike,
    magic: int,
    ceiling: int,
    before_large: Callable[[], None] | None,
    remarks: Remarks | None = None,
) -> Any:
    """Like `decompress`. ``before_large`` is called before more than LARGEST_BUFFER_BYTES are produced.

    Decompression is then restarted, because the size of a stream is known only after decompression.
    """
    if before_large is not None and ceiling > LARGEST_BUFFER_BYTES:
        try:
            return decompress(codec, payload, magic, LARGEST_BUFFER_BYTES, remarks)
        except DecompressionError as error:
            if error.problem != "decompression-limit":
                raise
        before_large()
    return decompress(codec, payload, magic, ceiling, remarks)
