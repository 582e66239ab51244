"""What producer snapshots prove of the offset of a batch."""

import struct
from itertools import accumulate
from pathlib import Path

import pytest

from kseg.formats.record_batch import parse_header
from kseg.recovery.salvage.header_repair import OffsetEvidence
from kseg.recovery.salvage.segment_draft import SalvagedBatches
from kseg.recovery.workspace import Workspace
from kseg.sidefiles.producer_state import ProducerStateEntry, build_producer_snapshot
from kseg.stores.source import open_source
from recovery.partitions import TRANSACTIONS, copy_of
from segment.segments import entries


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The first segment of a partition without snapshots."""
    directory = copy_of(TRANSACTIONS, tmp_path)
    for path in directory.glob("*.snapshot"):
        path.unlink()
    return min(directory.glob("*.log"))


@pytest.mark.parametrize(("others", "expected"), [([], 0), ([0], 0), ([7], None), ([0, 7], None)])
def test_contradicting_snapshots_prove_nothing(others: list[int], expected: int | None, log: Path) -> None:
    """``others``: how far the offset of the same batch lies from its own in further snapshots."""
    batches = entries(log.read_bytes())
    number = next(i for i, batch in enumerate(batches) if parse_header(batch).producer_id >= 0)
    head = parse_header(batches[number])
    for k, shift in enumerate([0, *others]):
        entry = ProducerStateEntry(
            head.producer_id, head.producer_epoch, head.last_sequence, head.last_offset + shift,
            head.last_offset_delta, head.max_timestamp, -1, -1,
        )  # fmt: skip
        log.with_name(f"{1000 + k:020d}.snapshot").write_bytes(build_producer_snapshot([entry]))
    at = sum(map(len, batches[:number]))
    part = SalvagedBatches(at, at + len(batches[number]), head.base_offset, head.last_offset)
    with open_source(str(log)) as source:
        found = OffsetEvidence(Workspace(str(log.parent))).proven_offset(source, part)
    assert found == (None if expected is None else head.base_offset)


@pytest.mark.parametrize("has_last_offsets", [True, False])
@pytest.mark.parametrize("others", [(1,), (1, 3)], ids=str)
def test_neighbours_tell_offsets_of_entries(others: tuple[int, ...], has_last_offsets: bool, log: Path) -> None:
    """The first offset of the batch, or the last one. ``others``: the batches that have entries, beside the doubtful
    one.
    """
    batches = entries(log.read_bytes())
    number, starts = 2, [0, *accumulate(map(len, batches))]
    heads = [parse_header(batch) for batch in batches]
    log.with_suffix(".index").write_bytes(
        b"".join(
            struct.pack(">2i", heads[k].last_offset if has_last_offsets else heads[k].base_offset, starts[k])
            for k in sorted({number, *others})
        )
    )
    log.with_suffix(".timeindex").unlink()
    head = heads[number]
    assert head.last_offset > head.base_offset
    part = SalvagedBatches(starts[number], starts[number + 1], head.base_offset + 1000, head.last_offset + 1000)
    with open_source(str(log)) as source:
        assert OffsetEvidence(Workspace(str(log.parent))).indicated_offset(source, part) == head.base_offset
