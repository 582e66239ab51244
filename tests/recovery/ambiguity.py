"""Damage after which nothing tells what was there: two intact logs that it makes the same files of.

In a compacted log gaps are no sign of damage. Where two batches claim the same offsets, one has a wrong one; both may,
if each fits between its neighbours at an offset that is one bit away, and no side file names either of them.
"""

from pathlib import Path

from kseg.recovery.result import Salvage
from kseg.segment.items import Message
from kseg.sidefiles.indexes import OffsetIndex, TimeIndex
from kseg.sidefiles.producer_state import ProducerSnapshot
from recovery.damages import Segments, covered, first_offset, last_offset
from recovery.partitions import at_offset


def told_offsets(directory: Path) -> set[int]:
    """All offsets that indexes and producer snapshots name."""
    found: set[int] = set()
    for path in directory.iterdir():
        data = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".index":
            found |= {entry.offset for entry in OffsetIndex(data, int(path.stem))}
        elif path.suffix == ".timeindex":
            found |= {entry.offset for entry in TimeIndex(data, int(path.stem))}
        elif path.suffix == ".snapshot":
            found |= {entry.last_offset for entry in ProducerSnapshot(data)}
    return found


def offsets_in(batch: bytes) -> range:
    """From its first to its last offset; a compressed message of v1 is opened for it."""
    last = last_offset(batch)
    if batch[16] != 1 or not batch[17] & 7:
        return range(first_offset(batch), last + 1)
    far = at_offset(batch, last + (1 << 40))  # inside, offsets count from a number that may be too small for it
    records = list(Message(far, 0, len(far), 1, True))
    return range(last - (records[-1].offset - records[0].offset), last + 1)


def overlap(one: range, two: range) -> bool:
    return one.start < two.stop and two.start < one.stop


def other_offsets(batch: bytes, low: int, high: int) -> list[int]:
    """Offsets for the header, one bit away, with which a batch lies between two others."""
    reach, offset = offsets_in(batch), first_offset(batch)
    shifts = [(offset ^ (1 << bit)) - offset for bit in range(63)]
    return [offset + shift for shift in shifts if low < reach.start + shift and reach[-1] + shift < high]


def is_ambiguous(
    batch: bytes, whole: list[bytes], damaged: Segments, after: Segments, found: Salvage, told: set[int]
) -> bool:
    """Whether another batch rightly stands where an intact one was, and the intact one was rightly not kept there."""
    if not has_gaps(whole):
        return False
    for base, chunks in damaged.items():
        for i, k in [(i, i + step) for i, chunk in enumerate(chunks) if chunk == batch for step in (-1, 1)]:
            if 0 <= k < len(chunks) and chunks[k] in after.get(base, []) and chunks[k] not in whole:
                if _is_either(batch, chunks, i, k, after, found, told):
                    return True
    return False


def has_gaps(whole: list[bytes]) -> bool:
    """Whether a cleaner was there: a batch of several offsets has lost some."""
    return any(
        batch[16] == 1 and len(offsets_in(batch)) > len(list(Message(batch, 0, len(batch), 1, True)))
        for batch in whole
        if batch[17] & 7
    ) or any(batch[16] == 2 and int.from_bytes(batch[57:61], "big") < len(offsets_in(batch)) for batch in whole)


def _is_either(
    batch: bytes, chunks: list[bytes], i: int, k: int, after: Segments, found: Salvage, told: set[int]
) -> bool:
    mine, its = offsets_in(batch), offsets_in(chunks[k])
    first, second = min(i, k), max(i, k)
    low = offsets_in(chunks[first - 1])[-1] if first else -1
    high = offsets_in(chunks[second + 1]).start if second + 1 < len(chunks) else 1 << 62
    if not overlap(mine, its) or told & {mine.start, mine[-1], its.start, its[-1]}:
        return False
    my_others = other_offsets(batch, *((low, its.start) if i < k else (its[-1], high)))
    its_others = other_offsets(chunks[k], *((low, mine.start) if k < i else (mine[-1], high)))
    if its_others and not my_others:
        return False  # it alone may have been hit
    is_reported = any(
        cut.message.startswith(f"offsets {mine.start} to {mine[-1]} or {its.start} to {its[-1]} of the batch")
        for cut in found.cuts
    )
    is_there = any(covered(one) == covered(batch) for kept in after.values() for one in kept)
    return (is_reported and not is_there) or not its_others
