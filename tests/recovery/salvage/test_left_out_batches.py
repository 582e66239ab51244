"""Intact batches that salvage leaves out: those that a broker's loader fails at, and those that the user drops."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from kseg.formats.rows import Scratch
from kseg.output.jsonl import UnprovenRecords
from kseg.output.sink import open_sink
from kseg.recovery.salvage.salvage import broken_batches, files_of, remove_leftovers
from kseg.recovery.salvage.segment_scan import BatchFilter
from kseg.recovery.workspace import Workspace
from kseg.sidefiles.producer_state import ProducerStateEntry, build_producer_snapshot
from recovery.damages import Damage, damaged_by, read, write
from recovery.partitions import NOW_MS, PLAIN, START, TRANSACTIONS, copy_of, make, real_batches, salvage
from recovery.salvage.test_salvage import DAMAGES, PARTITIONS, copied, errors_of
from segment.segments import sealed
from verification.producer_cases import batch as produced

# Whatever was done to a partition, what is dug out of it are records in broken batches, and lines of JSON.


def dig(directory: Path, target: Path) -> int:
    """The records of all broken batches, counted as they are written."""
    scratch, batches = Scratch(), 0
    with open_sink(str(target)) as sink:
        records = UnprovenRecords(sink, scratch)
        for file in files_of(str(directory)):
            records.begin(file)
            for batch in broken_batches(file, scratch):
                # The checksum of a message does not cover its offset.
                assert not batch.is_valid or batch.last_offset < 0
                batches += 1
                records.batch(batch)
            records.finish()
    rows = [json.loads(line) for line in target.read_bytes().splitlines()]
    assert records.count == len(rows)
    assert all(row["type"] == "record" and row["proven"] is False for row in rows)
    return batches


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PARTITIONS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damages=DAMAGES)
def test_any_damage(name: str, damages: list[Damage]) -> None:
    with copied(PARTITIONS[name]) as directory:
        write(directory, damaged_by(read(directory), damages))
        dig(directory, directory.parent / "records.jsonl")


@pytest.mark.parametrize("name", PARTITIONS)
def test_an_intact_partition_has_none(name: str, tmp_path: Path) -> None:
    assert dig(PARTITIONS[name], tmp_path / "records.jsonl") == 0


@pytest.mark.parametrize(
    ("at", "data", "batches"), [(8, bytes(4), 0), (16, b"\5", 0), (100, b"\xff\xff", 1)],
    ids=["length", "magic", "records"],
)  # fmt: skip
def test_a_batch_whose_header_is_repaired_is_not_among_them(at: int, data: bytes, batches: int, tmp_path: Path) -> None:
    """Salvage keeps it: its records would be there twice."""
    directory = copy_of(PLAIN, tmp_path)
    good = read(directory)[0]
    broken = good[1][:at] + data + good[1][at + len(data) :]
    write(directory, {0: [good[0], broken, *good[2:]]})
    assert dig(directory, tmp_path / "records.jsonl") == batches


# The files that salvage removes because a broker would remove them, or would not start.

STEM = f"{7:020d}"
REMOVED = {
    f"{STEM}.log.deleted": "was to be deleted",
    f"{STEM}.index.swap": "was left by an unfinished cleaning, and has no batches",
    f"{STEM}.log.cleaned": "was left by an unfinished cleaning, and has no batches",
    "7.index": "belongs to no segment",
    f"{STEM}.old.timeindex": "belongs to no segment",
    f"{'x' * 20}.index": "belongs to no segment",
    f"{'9' * 20}.index": "belongs to no segment",
}
CHOSEN = f"{8:020d}.log.swap"
KEPT = (f"{STEM}.index", f"{STEM}.timeindex", f"{STEM}.log", "leader-epoch-checkpoint", "notes.txt", CHOSEN)


def test_leftovers_are_removed_and_indexes_of_segments_stay(tmp_path: Path) -> None:
    for name in (*REMOVED, *KEPT):
        (tmp_path / name).write_bytes(b"")
    workspace = Workspace(str(tmp_path))
    remove_leftovers(workspace, {CHOSEN})
    assert sorted(workspace.files) == sorted(KEPT)
    assert {step.file: step.reason for step in workspace.plan().steps} == REMOVED


_ATTRIBUTES_AT, _COUNT_AT, _RECORDS_AT = 21, 57, 61
_TRANSACTIONAL, _CONTROL = 16, 32


def is_control(batch: bytes) -> bool:
    return bool(batch[_ATTRIBUTES_AT + 1] & _CONTROL)


def has_producer(batch: bytes) -> bool:
    return batch[43] < 128


def changed(partition: Path, base: int, number: int, batch: bytes) -> list[list[bytes]]:
    """Puts a batch in the place of another one; the batches of each segment that are to be kept."""
    segments = read(partition)
    segments[base][number] = batch
    write(partition, segments)
    return [[one for one in segments[at] if one != batch] for at in sorted(segments)]


def kept(partition: Path) -> list[list[bytes]]:
    segments = read(partition)
    return [segments[base] for base in sorted(segments)]


def the_batch(partition: Path, wanted: Callable[[bytes], bool]) -> tuple[int, int, bytes]:
    """The first batch with some property, but for the first of each segment."""
    for base, batches in sorted(read(partition).items()):
        for number, batch in enumerate(batches[1:], 1):
            if wanted(batch):
                return base, number, batch
    raise AssertionError("no such batch")


def under_control(batch: bytes) -> bytes:
    """Data with the control bit."""
    return sealed(batch, _ATTRIBUTES_AT, bytes([batch[_ATTRIBUTES_AT], batch[_ATTRIBUTES_AT + 1] | _CONTROL]))


def written(at: int, new: bytes) -> Callable[[bytes], bytes]:
    return lambda batch: sealed(batch, at, new)


UNREADABLE: dict[str, tuple[Path, Callable[[bytes], bool], Callable[[bytes], bytes]]] = {
    "count -1": (TRANSACTIONS, is_control, written(_COUNT_AT, b"\xff\xff\xff\xff")),
    "key version -1": (TRANSACTIONS, is_control, written(_RECORDS_AT + 5, b"\xff\xff")),
    "type 9": (TRANSACTIONS, is_control, written(_RECORDS_AT + 7, b"\0\x09")),
    "value version -1": (TRANSACTIONS, is_control, written(_RECORDS_AT + 10, b"\xff")),
    "short key": (TRANSACTIONS, is_control, written(_RECORDS_AT + 4, b"\x06")),
    "data of a producer": (TRANSACTIONS, lambda one: has_producer(one) and not is_control(one), under_control),
    "data of no producer": (PLAIN, lambda _: True, under_control),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_control_batch_that_a_loader_cannot_read_is_left_out(tmp_path: Path, name: str) -> None:
    source, wanted, change = UNREADABLE[name]
    partition = copy_of(source, tmp_path)
    base, number, batch = the_batch(partition, wanted)
    want = changed(partition, base, number, change(batch))
    assert [cut.loss.code for cut in salvage(partition).cuts] == ["bad-control-record"]
    assert kept(partition) == want
    assert errors_of(partition) == []


def test_a_batch_outside_of_its_producers_transaction_is_left_out(tmp_path: Path) -> None:
    partition = copy_of(TRANSACTIONS, tmp_path)
    for path in partition.glob("*.snapshot"):
        path.unlink()
    segments = read(partition)
    for base, batches in segments.items():
        for number, (one, two) in enumerate(pairwise(batches), 1):
            if has_producer(one) and one[43:53] == two[43:53] and not (is_control(one) or is_control(two)):
                plain = bytes([two[_ATTRIBUTES_AT], two[_ATTRIBUTES_AT + 1] & ~_TRANSACTIONAL])
                want = changed(partition, base, number, sealed(two, _ATTRIBUTES_AT, plain))
                found = salvage(partition)
                assert [cut.loss.code for cut in found.cuts] == ["transaction-state"]
                assert kept(partition) == want
                return
    raise AssertionError("no transaction of two batches")


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_of_a_producers_batches_the_one_of_another_kind_is_left_out(tmp_path: Path, wrong: int) -> None:
    """However many records it has; nothing follows that would end its transaction."""
    counts = [2, 2, 2]
    counts[wrong] = 40
    firsts = [0, counts[0], counts[0] + counts[1]]
    batches = [produced(firsts[i], 7, sequence=firsts[i], count=counts[i], transactional=i == wrong) for i in range(3)]
    partition = make(tmp_path / "a-0", {0: batches})
    salvage(partition)
    want = [one for i, one in enumerate(batches) if i != wrong or wrong == 2]
    assert kept(partition) == [want]  # the last one contradicts nothing that follows


def test_of_two_batches_that_of_the_kind_that_is_rarer_in_the_log_is_left_out(tmp_path: Path) -> None:
    wrong, other = produced(0, 7, count=40, transactional=True), produced(40, 7, count=2)
    more = [produced(first, 8, count=2) for first in (42, 44)]
    partition = make(tmp_path / "a-0", {0: [wrong, other, *more]})
    salvage(partition)
    assert kept(partition) == [[other, *more]]


def test_a_misnamed_file_is_read_again_for_conflicts(tmp_path: Path) -> None:
    """The plan has renamed it by then."""
    begun = [produced(at, 7, sequence=at, transactional=True) for at in range(3)]
    wrong = produced(3, 7, sequence=3)
    partition = make(tmp_path / "a-0", {0: begun[:1], 1: begun[1:2], 2: [begun[2], wrong]})
    (partition / f"{1:020d}.log").rename(partition / f"{2:021d}.log")
    assert [cut.loss.code for cut in salvage(partition).cuts] == ["transaction-state"]
    assert kept(partition) == [begun[:1], begun[1:2], begun[2:]]


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("counts", [(40, 2), (2, 40)])
def test_of_two_batches_the_snapshots_kind_stays(counts: tuple[int, int], is_known: bool, tmp_path: Path) -> None:
    """Without a snapshot the one with more records."""
    wrong = produced(0, 7, count=counts[0], transactional=True)
    other = produced(counts[0], 7, sequence=counts[0], count=counts[1])
    partition = make(tmp_path / "a-0", {0: [wrong, other]})
    entry = ProducerStateEntry(7, 0, 41, 41, counts[1] - 1, NOW_MS, -1, -1)
    (partition / f"{42:020}.snapshot").write_bytes(build_producer_snapshot([entry] * is_known))
    assert [cut.loss.code for cut in salvage(partition).cuts] == ["transaction-state"]
    assert kept(partition) == [[wrong if not is_known and counts[0] > counts[1] else other]]


def test_a_batch_that_ends_before_it_begins_is_left_out(tmp_path: Path) -> None:
    """Where an index takes its offset, a broker's recovery empties the segment."""
    batches = real_batches(0)
    odd = sealed(batches[-1], 23, b"\xff\xff\xff\xff")
    partition = make(tmp_path / "a-0", {0: [*batches[:-1], odd], 46: real_batches(46)})
    found = salvage(partition, start=replace(START, interval_bytes=1))
    assert kept(partition) == [batches[:-1], real_batches(46)]
    assert [cut.loss.code for cut in found.cuts] == ["batch-out-of-order"]


def test_undecodable_batches_stay_unless_dropped(tmp_path: Path) -> None:
    partition = copy_of(PLAIN, tmp_path)
    base, number, batch = the_batch(partition, lambda batch: True)
    wrong = sealed(batch, _COUNT_AT, b"\x7f\xff\xff\xff")
    want = changed(partition, base, number, wrong)
    assert salvage(partition).cuts == []
    assert any(wrong in batches for batches in kept(partition))
    found = salvage(partition, BatchFilter(drops_undecodable=True))
    assert len(found.cuts) == 1
    assert kept(partition) == want
    assert errors_of(partition) == []


def test_named_batches_are_dropped(tmp_path: Path) -> None:
    partition = copy_of(PLAIN, tmp_path)
    _, _, batch = the_batch(partition, lambda batch: True)
    want = [[one for one in batches if one != batch] for batches in kept(partition)]
    offset = int.from_bytes(batch[:8], "big")
    found = salvage(partition, BatchFilter(offsets=frozenset({offset, 1 << 40})))
    assert (found.not_dropped, [cut.loss.code for cut in found.cuts]) == ([1 << 40], ["dropped-batch"])
    assert kept(partition) == want
    assert errors_of(partition) == []
