"""Joins segments that were converted independently, with the result of converting them in sequence.

If an effect crosses the end of a segment, the results differ; then the whole partition must be converted together.
"""

from kseg.conversion.losses import Losses
from kseg.conversion.partition import Converted, Piece, finished
from kseg.conversion.request import Request
from kseg.segment.files import SegmentFile


def is_divisible(files: list[SegmentFile], request: Request) -> bool:
    """Whether segments can be converted independently: segment boundaries stay, and all base offsets are known."""
    is_known = all(file.kind == ".log" and file.base_offset is not None for file in files)
    return len(files) > 1 and is_known and request.segment_bytes is None


def joined(name: str, files: list[SegmentFile], request: Request, pieces: list[Piece]) -> Converted | None:
    """Returns the partition of these pieces; None if they depend on each other. Raises LossError."""
    whole = Converted(Losses(request.magic, request.committed_only, request.target is not None))
    next_offset, ends_in_damage = 0, False
    for file, piece in zip(files, pieces, strict=True):
        found = piece.found
        if ends_in_damage or next_offset > (file.base_offset or 0) or _gap_continues(whole.gaps, found.gaps):
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


def _gap_continues(before: list[tuple[int, int]], behind: list[tuple[int, int]]) -> bool:
    """Whether a gap continues from one segment into the next."""
    firsts = {first for first, _ in behind}
    return any(last + 1 in firsts for _, last in before)
