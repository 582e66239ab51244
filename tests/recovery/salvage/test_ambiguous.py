"""Two batches of a compacted log claim the same offsets: what proves one of them wrong, and what nothing proves."""

import shutil
from itertools import product
from pathlib import Path

import pytest

from kseg.recovery.options import BrokerStart
from kseg.recovery.planner import reindex
from kseg.recovery.result import Salvage
from kseg.recovery.salvage import segment_scan
from kseg.recovery.salvage.segment_draft import EXCESS_OFFSETS
from kseg.recovery.workspace import Workspace
from kseg.sidefiles.indexes import TimeIndex, TimeIndexEntry
from recovery.ambiguity import told_offsets
from recovery.damages import Segments, first_offset, read, write
from recovery.partitions import TESTDATA, at_offset, copy_of, salvage, up_to
from recovery.salvage.test_salvage import PARTITIONS, assert_all_is_kept, copied, errors_of
from recovery.test_replica import fill
from sidefiles.index_bytes import time_index_bytes

CLEANED = TESTDATA / "verify/4.3.1-cleaned/cmp-2"
COMPACTED = PARTITIONS["v1 compressed and compacted"]
BASE, LEFT, RIGHT = 1934, 5, 6
"""A segment, and two batches of it: of offsets 2219 to 2225 with 4 records, and of 2228 to 2229 with 2."""


def flipped(segments: Segments, base: int, number: int, bit: int) -> Segments:
    damaged = {one: list(chunks) for one, chunks in segments.items()}
    batch = damaged[base][number]
    damaged[base][number] = at_offset(batch, first_offset(batch) ^ (1 << bit))
    return damaged


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return copy_of(COMPACTED, tmp_path)


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["v1 compressed and compacted", "compacted"])
def test_one_bit_of_an_offset(name: str, step: int) -> None:
    """No other batch goes or moves, but for what may just as well have been the one that was hit."""
    before = read(PARTITIONS[name])
    batches = [(base, number) for base, chunks in before.items() for number in range(len(chunks))]
    for (base, number), bit in [*product(batches, range(10))][::step]:
        with copied(PARTITIONS[name]) as directory:
            damaged, told = flipped(before, base, number, bit), told_offsets(directory)
            write(directory, damaged)
            found = salvage(directory)
            assert_all_is_kept(before, damaged, read(directory), found, told)


def test_two_logs_of_which_damage_makes_the_same_files(partition: Path, tmp_path: Path) -> None:
    """In one of them the offset of the left batch is hit, in the other that of the right one."""
    one = read(partition)
    other = {base: list(chunks) for base, chunks in one.items()}
    other[BASE][LEFT], other[BASE][RIGHT] = at_offset(one[BASE][LEFT], 2229), at_offset(one[BASE][RIGHT], 2231)
    twin = Path(shutil.copytree(partition, tmp_path / "twin" / partition.name))
    write(twin, other)
    assert [error.code for error in errors_of(twin)] == [error.code for error in errors_of(partition)]
    damaged = flipped(one, BASE, LEFT, 2)
    assert damaged == flipped(other, BASE, RIGHT, 1)
    write(partition, damaged)
    assert_is_in_doubt(partition, salvage(partition), damaged)


def assert_is_in_doubt(partition: Path, found: Salvage, damaged: Segments) -> None:
    """Nothing is moved; of the two the one with fewer records is cut out, and both are named."""
    assert read(partition)[BASE] == [*damaged[BASE][:RIGHT], *damaged[BASE][RIGHT + 1 :]]
    assert (found.repaired, found.moved, found.ambiguous) == (0, 0, 1)
    assert [cut.message for cut in found.cuts] == [
        "offsets 2228 to 2229 or 2223 to 2229 of the batch at position 864 are wrong: which is ambiguous, and that "
        "batch has no fewer records"
    ]


@pytest.mark.parametrize("is_left", [True, False])
def test_an_index_tells_which_is_wrong(partition: Path, is_left: bool) -> None:
    segments = read(partition)
    if not is_left:
        segments[BASE][LEFT], segments[BASE][RIGHT] = (
            at_offset(segments[BASE][LEFT], 2229),
            at_offset(segments[BASE][RIGHT], 2231),
        )
        write(partition, segments)
    workspace = Workspace(str(partition))
    reindex(workspace, BrokerStart(interval_bytes=1))
    name = f"{BASE:020d}.index"
    (partition / name).write_bytes(workspace.read(name))
    write(partition, flipped(segments, BASE, LEFT if is_left else RIGHT, 2 if is_left else 1))
    assert salvage(partition).repaired == 1
    assert read(partition) == segments


@pytest.mark.parametrize("offset", [2225, 2229])
def test_a_time_index_tells_which_is_wrong(partition: Path, offset: int) -> None:
    segments = read(partition)
    path = partition / f"{BASE:020d}.timeindex"
    entries = [TimeIndexEntry(1500000000000 + 10 * offset, offset), *TimeIndex(path.read_bytes(), BASE)]
    path.write_bytes(time_index_bytes(entries, BASE))
    write(partition, flipped(segments, BASE, LEFT, 2))
    salvage(partition)
    assert read(partition) == segments


def test_an_index_of_other_batches_tells_nothing(partition: Path) -> None:
    """Its entries are those of no batch that is there now."""
    (partition / f"{BASE:020d}.index").write_bytes(bytes.fromhex("000000bd0000008e00000122000003600000013b00000468"))
    damaged = flipped(read(partition), BASE, LEFT, 2)
    write(partition, damaged)
    assert_is_in_doubt(partition, salvage(partition), damaged)


def test_a_producer_snapshot_proves_an_offset_that_nothing_disputes(tmp_path: Path) -> None:
    partition = copy_of(PARTITIONS["compacted"], tmp_path)
    segments = read(partition)
    write(partition, flipped(segments, 0, 1, 2))  # 50 becomes 54, which is free
    assert salvage(partition).repaired == 1
    assert read(partition) == segments


def test_a_segment_that_never_held_a_batch_gets_none(partition: Path) -> None:
    segments = read(partition)
    write(partition, flipped(segments, 2259, 0, 11))  # 2280 becomes 232
    assert salvage(partition).repaired == 1
    assert read(partition) == segments


def test_a_replica_tells_which_is_wrong(partition: Path) -> None:
    segments = read(partition)
    write(partition, flipped(segments, BASE, LEFT, 2))
    fill(partition, COMPACTED)
    assert read(partition) == segments


def test_the_next_segment_wins_over_an_end_that_no_record_reaches(tmp_path: Path) -> None:
    partition = copy_of(CLEANED, tmp_path)
    segments = read(partition)
    whole = segments[0][-1]
    segments[0][-1] = up_to(whole, 239)
    write(partition, segments)
    found = salvage(partition)
    assert read(partition) == {**segments, 0: segments[0][:-1]}
    assert [cut.message for cut in found.cuts] == [f"offsets 217 to 239 {EXCESS_OFFSETS}"]


def test_an_offset_one_bit_off_wins_over_an_end_that_no_record_reaches(tmp_path: Path) -> None:
    partition = copy_of(CLEANED, tmp_path)
    segments = read(partition)
    damaged = [*segments[0][:-1], up_to(segments[0][-1], 237)]
    write(partition, {**segments, 0: [*damaged[:-1], at_offset(damaged[-1], 217 ^ 4)]})
    assert salvage(partition).cuts == []
    assert read(partition) == {**segments, 0: damaged}


@pytest.mark.parametrize("rows", [1024, 1, 2])
def test_the_next_batch_wins_over_an_end_that_no_record_reaches(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch after it follows the next one without a gap, wherever the scan divides them."""
    monkeypatch.setattr(segment_scan, "_FEWEST_ROWS", rows)
    partition = copy_of(CLEANED, tmp_path)
    segments = read(partition)
    segments[239][0] = up_to(segments[239][0], 247)
    write(partition, segments)
    found = salvage(partition)
    assert read(partition) == {**segments, 239: segments[239][1:]}
    assert [cut.message for cut in found.cuts] == [f"offsets 239 to 247 {EXCESS_OFFSETS}"]
