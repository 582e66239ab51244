"""Text and counts of a part of a segment that was rendered in another process."""

import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from kseg.segment.files import SegmentFile


class Rendered(NamedTuple):
    """The compressed text of a part, its counts and warnings. ``failure``: why it could not be read at all."""

    text: bytes = b""
    errors: int = 0
    damaged_ranges: int = 0
    damaged_bytes: int = 0
    batches: int = 0
    size: int = 0
    end: int = 0
    warnings: tuple[str, ...] = ()
    shrank: str | None = None
    failure: str | None = None


def rendered_text(rendered: Rendered) -> bytes:
    """Returns the text."""
    return zlib.decompress(rendered.text)


class SegmentRenderer(Protocol):
    """Renders segments in other processes."""

    def rendered(self, file: SegmentFile) -> list[Rendered] | None:
        """Returns the parts of the file in order; None if it is not rendered elsewhere. Raises PathError."""
        ...


RendererOf = Callable[[Iterable[tuple[SegmentFile, bool]]], SegmentRenderer]
"""Creates the renderer of segments. Each comes with a flag: whether a broker is still writing to it."""
