"""Segments converted apart from each other, put together: as if one had been converted behind the other.

That is not so where something reaches over the end of a segment: then the partition has to be converted as a whole.
"""

from kseg.convert.losses import Losses
from kseg.convert.partition import Converted, Piece, finished
from kseg.convert.request import Request
from kseg.segment.files import SegmentFile


def is_divisible(files: list[SegmentFile], request: Request) -> bool:
    """Whether segments may be tried one by one: new ones begin where old ones do, and all tell their first offset."""
    is_told = all(file.kind == ".log" and file.base_offset is not None for file in files)
    return len(files) > 1 and is_told and request.segment_bytes is None


def joined(name: str, files: list[SegmentFile], request: Request, pieces: list[Piece]) -> Converted | None:
    """The partition of these pieces; None where they hang together. Raises LossError."""
    whole = Converted(Losses(request.magic, request.committed_only, request.target is not None))
    next_offset, ends_in_damage = 0, False
    for file, piece in zip(files, pieces, strict=True):
        found = piece.found
        if ends_in_damage or next_offset > (file.base_offset or 0) or _go_on(whole.gaps, found.gaps):
            return None
        whole.losses.counts.update(found.losses.counts)
        whole.segments += found.segments
        whole.skipped += found.skipped
        whole.gaps += found.gaps
        whole.left_out += found.left_out
        whole.batches += found.batches
        whole.old_bytes += found.old_bytes
        next_offset, ends_in_damage = piece.next_offset, piece.ends_in_damage
    return finished(name, files, request, whole, any(piece.has_changed for piece in pieces))


def _go_on(before: list[tuple[int, int]], behind: list[tuple[int, int]]) -> bool:
    """Whether a gap reaches from one segment into the next, and is one gap."""
    firsts = {first for first, _ in behind}
    return any(last + 1 in firsts for _, last in before)
