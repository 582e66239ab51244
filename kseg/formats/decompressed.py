"""What a decompressor has made so far, held against a ceiling, and why it may give nothing."""

Remarks = list[tuple[str, str]]
"""What was read past, as (problem code, sentence)."""


class DecompressionError(Exception):
    """A compressed area that gives no records; `str()` is one line.

    `problem` is ``"undecodable-records"`` where the stream is bad, ``"decompression-limit"`` where it holds more bytes
    than the ceiling allows.
    """

    def __init__(self, problem: str, message: str):
        super().__init__(message)
        self.problem = problem


def undecodable(message: str) -> DecompressionError:
    return DecompressionError("undecodable-records", message)


def over(ceiling: int) -> DecompressionError:
    return DecompressionError("decompression-limit", f"records decompress to more than {ceiling} bytes")


def reason(error: BaseException) -> str:
    """The words of a library on one line."""
    return " ".join(str(error).split()) or type(error).__name__


class Output:
    """The bytes of a stream so far. `size` counts them; adding more than `ceiling` raises DecompressionError.

    With `remarks` bytes that belong to no record are noted there.
    """

    def __init__(self, ceiling: int, remarks: Remarks | None = None):
        self.ceiling = ceiling
        self.size = 0
        self._remarks = remarks
        self._pieces: list[bytes | bytearray] = []
        self._before = bytearray()

    @property
    def room(self) -> int:
        return self.ceiling - self.size

    def add(self, piece: bytes | bytearray) -> None:
        self.size += len(piece)
        if self.size > self.ceiling:
            raise over(self.ceiling)
        self._pieces.append(piece)
        if len(self._pieces) == 256:
            # A hostile stream may hold a piece of one byte for every few of its own; as objects they'd be huge.
            self._before += b"".join(self._pieces)
            self._pieces.clear()

    def leave(self, count: int) -> None:
        """Notes that the last `count` bytes of the stream are none of it, and that Kafka's readers pass over them."""
        if count and self._remarks is not None:
            self._remarks.append(("bytes-behind-records", f"{count} bytes behind the compressed records"))

    def refuse_rest(self, message: str) -> None:
        """Notes that what follows is no part of the stream. Raises DecompressionError where nobody takes notes."""
        if self._remarks is None:
            raise undecodable(message)
        self._remarks.append(("undecodable-records", message))

    def whole(self) -> bytes | bytearray:
        if self._before:
            self._before += b"".join(self._pieces)
            return self._before
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
