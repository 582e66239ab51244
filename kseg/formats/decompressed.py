"""The output of a decompressor, limited by a ceiling, and its errors."""

from kseg.formats.rows import UndecodableError

Remarks = list[tuple[str, str]]
"""Ignored bytes, as (problem code, sentence)."""


class DecompressionError(UndecodableError):
    """A compressed area that yields no records; `str()` is one line.

    `problem` is ``"undecodable-records"`` for a malformed stream, ``"decompression-limit"`` for one that expands beyond
    the ceiling.
    """


def undecodable_error(message: str) -> DecompressionError:
    return DecompressionError("undecodable-records", message)


def over(ceiling: int) -> DecompressionError:
    return DecompressionError("decompression-limit", f"records decompress to more than {ceiling} bytes")


def reason(error: BaseException) -> str:
    """Returns a library's error message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


class DecompressedBytes:
    """The decompressed bytes. `size` is their number; exceeding `ceiling` raises DecompressionError.

    Ignored trailing bytes are reported in `remarks`, if given.
    """

    def __init__(self, ceiling: int, remarks: Remarks | None = None):
        self.ceiling = ceiling
        self.size = 0
        self._remarks = remarks
        self._pieces: list[bytes | bytearray] = []
        self._before = bytearray()

    @property
    def remaining(self) -> int:
        return self.ceiling - self.size

    def add(self, piece: bytes | bytearray) -> None:
        self.size += len(piece)
        if self.size > self.ceiling:
            raise over(self.ceiling)
        self._pieces.append(piece)
        if len(self._pieces) == 256:
            # A malicious stream may have a piece of one byte per few input bytes; as separate objects they use too much
            # memory.
            self._before += b"".join(self._pieces)
            self._pieces.clear()

    def leave(self, count: int) -> None:
        """Reports that the last `count` bytes are not part of the stream and that Kafka's readers ignore them."""
        if count and self._remarks is not None:
            self._remarks.append(("bytes-behind-records", f"{count} bytes after the compressed records"))

    def refuse_rest(self, message: str) -> None:
        """Reports that the rest is not part of the stream. Raises DecompressionError if there are no `remarks`."""
        if self._remarks is None:
            raise undecodable_error(message)
        self._remarks.append(("undecodable-records", message))

    def whole(self) -> bytes | bytearray:
        if self._before:
            self._before += b"".join(self._pieces)
            return self._before
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
