"""Decompression buffers, which the kernel fills through liblz4 and libzstd."""

from kseg.formats import liblz4, libzstd
from kseg.kernel.codecs.expand import ExpansionBuffer
from kseg.kernel.layout.headers import LZ4
from kseg.limits import LARGEST_BUFFER_BYTES


def expansion_buffer(max_bytes: int) -> ExpansionBuffer:
    """Allocates a reusable decompression buffer for the records of one batch, at most ``max_bytes``."""
    return ExpansionBuffer(min(max_bytes, LARGEST_BUFFER_BYTES), addresses)


def addresses(codec: int) -> tuple[int, ...] | None:
    """Returns the addresses of the functions that decompress a codec, None if its library is not available."""
    return liblz4.addresses() if codec == LZ4 else libzstd.addresses()
