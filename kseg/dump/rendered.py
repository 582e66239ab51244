"""The text of part of a segment that was rendered in another process, and its counts."""

import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from kseg.segment.files import SegmentFile


class Rendered(NamedTuple):
    """What a part prints, compressed, and what it counts. ``failure``: why it could not be read at all."""

    text: bytes = b""
    errors: int = 0
    damaged_ranges: int = 0
    damaged_bytes: int = 0
    batches: int = 0
    size: int = 0
    end: int = 0
    shrank: str | None = None
    failure: str | None = None


def text_of(rendered: Rendered) -> bytes:
    """What it prints."""
    return zlib.decompress(rendered.text)


class Renderer(Protocol):
    """Has segments rendered elsewhere."""

    def rendered(self, file: SegmentFile) -> list[Rendered] | None:
        """The parts of the file in order; None where it is not rendered elsewhere. Raises PathError."""
        ...


RendererOf = Callable[[Iterable[tuple[SegmentFile, bool]]], Renderer]
"""Makes the renderer of segments, each with whether it is being written to."""
