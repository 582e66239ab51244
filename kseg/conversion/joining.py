"""Joins segments that were converted independently, if the result is that of converting them in sequence.

If an effect crosses the end of a segment, it is not; then the partition must be converted as a whole.
"""

from kseg.conversion.losses import Losses
from kseg.conversion.options import ConversionRequest
from kseg.conversion.partition import Converted, ConvertedSegment, finished
from kseg.formats.suffixes import LOG
from kseg.segment.files import SegmentFile


def is_divisible(files: list[SegmentFile], request: ConversionRequest) -> bool:
    """Whether segments can be converted independently: segment boundaries stay, and all base offsets are known."""
    is_known = all(file.kind == LOG and file.base_offset is not None for file in files)
    return len(files) > 1 and is_known and request.segment_bytes is None


def joined(
    name: str, files: list[SegmentFile], request: ConversionRequest, converted: list[ConvertedSegment]
) -> Converted | None:
    """Returns the partition of these segments; None if they depend on each other. Raises LossError."""
    whole = Converted(Losses(request.magic, request.committed_only, request.target is not None))
    next_offset, ends_in_damage = 0, False
    for file, segment in zip(files, converted, strict=True):
        found = segment.found
        if ends_in_damage or next_offset > (file.base_offset or 0) or _gap_continues(whole.gaps, found.gaps):
            return None
        whole.losses.counts.update(found.losses.counts)
        whole.segments += found.segments
        whole.skipped += found.skipped
        whole.gaps += found.gaps
        whole.left_out += found.left_out
        whole.batches += found.batches
        whole.old_bytes += found.old_bytes
        next_offset, ends_in_damage = segment.next_offset, segment.ends_in_damage
    return finished(name, files, request, whole, any(segment.has_changed for segment in converted))


def _gap_continues(before: list[tuple[int, int]], behind: list[tuple[int, int]]) -> bool:
    """Whether a gap continues from one segment into the next."""
    firsts = {first for first, _ in behind}
    return any(last + 1 in firsts for _, last in before)
