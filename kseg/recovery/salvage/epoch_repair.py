"""Repairs leader epochs in headers of v2 batches, which no checksum covers.

Epochs rise with offsets, so all batches between two batches of an epoch have that epoch.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import BATCH_FIRST_OFFSET, BATCH_LEADER_EPOCH, BATCH_MAGIC, BATCH_WIDTH
from kseg.recovery.salvage.layout import Layout
from kseg.recovery.salvage.parts import Parts, SalvagedBatches, batches_of, leading_bytes
from kseg.recovery.salvage.segment_draft import SegmentDraft
from kseg.stores.source import open_source


def repair_epochs(draft: SegmentDraft) -> None:
    """Gives wrong batches of a segment the epoch of the batches around them."""
    epochs = dict(_wrong(draft.layout()))
    if epochs:
        set_epochs(draft, epochs)


def set_epochs(draft: SegmentDraft, epochs: dict[int, int]) -> None:
    """Gives batches of a segment new epochs, by first offset."""
    path, kept = draft.contents.path, draft.contents
    parts = Parts(kept.base)
    for part in _split(kept.parts, epochs, path):
        parts.append(part)
    kept.parts, kept.has_repaired = parts, True
    draft.extra[:] = _split(draft.extra, epochs, path)


def _wrong(layout: Layout) -> Iterator[tuple[int, int]]:
    """Yields first offset and right epoch of each batch with a wrong epoch."""
    before, epoch, first = -1, -1, -1
    for headers in layout.headers():
        rows, end = headers.rows, headers.count * BATCH_WIDTH
        firsts, epochs, magics = (
            rows[column:end:BATCH_WIDTH].tolist() for column in (BATCH_FIRST_OFFSET, BATCH_LEADER_EPOCH, BATCH_MAGIC)
        )
        for next_first, next_epoch, magic in zip(firsts, epochs, magics, strict=True):
            if 0 <= before == next_epoch != epoch and first >= 0:
                yield first, before
                epoch = before
            before, epoch, first = epoch, next_epoch, next_first if magic == MAGIC_V2 else -1


def _split(parts: Iterable[SalvagedBatches], epochs: dict[int, int], path: str) -> Iterator[SalvagedBatches]:
    """Yields the parts; batches that get a new epoch become parts of their own."""
    wanted = sorted(epochs)
    for part in parts:
        i = bisect_left(wanted, part.first)
        if i == len(wanted) or wanted[i] > part.last:
            yield part
            continue
        with open_source(part.path or path) as source:
            held: SalvagedBatches | None = None
            for batch in batches_of(source, part):
                if batch.first not in epochs:
                    held = held._replace(end=batch.end, last=batch.last) if held else batch
                    continue
                if held:
                    yield held
                head = leading_bytes(source, batch, ENTRY_MAGIC + 1)
                head = head[:V2_LEADER_EPOCH] + epochs[batch.first].to_bytes(4, "big") + head[ENTRY_MAGIC:]
                yield batch._replace(head=head, why="its leader epoch was repaired")
                held = None
            if held:
                yield held
