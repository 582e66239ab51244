"""How the bytes of segments are read: large ones by several threads, each byte once."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import BATCH_LAST_OFFSET, BATCH_MAX_TIMESTAMP, BATCH_POSITION, BATCH_WIDTH
from kseg.kernel.state import indexing
from kseg.recovery import workspace
from kseg.recovery.broker import segments
from kseg.recovery.broker.loading import PartitionLoad, plan_partition
from kseg.recovery.broker.producer_state import ProducerStateManager
from kseg.recovery.broker.segments import AcceptedBatches, BrokerSegment
from kseg.recovery.planner import reindex
from kseg.recovery.workspace import BrokerRefusesError, Workspace
from kseg.segment import slices
from kseg.stores import windows
from kseg.stores.source import open_source
from recovery.partitions import START, TESTDATA, TRANSACTIONS, at_offset, contents, copy_of, make, real_batches, recover

# Lookups in the offset index of a segment as Kafka's AbstractIndex does them, also where it is not sorted.

BASE, ENTRIES, WARM = 100, 3000, 1024
STEM = f"{BASE:020d}"


def segment_with(directory: Path, entries: list[tuple[int, int]]) -> BrokerSegment:
    directory.mkdir()
    (directory / f"{STEM}.log").write_bytes(b"")
    data = b"".join(relative.to_bytes(4, "big") + position.to_bytes(4, "big") for relative, position in entries)
    (directory / f"{STEM}.index").write_bytes(data)
    return BrokerSegment(Workspace(str(directory)), STEM, BASE)


def rising() -> list[tuple[int, int]]:
    return [(10 * i + 10, 100 * i + 100) for i in range(ENTRIES)]


@pytest.mark.parametrize(
    ("offset", "position"),
    [(0, 0), (9, 0), (10, 100), (19, 100), (20, 200), (10 * ENTRIES - 1, 100 * ENTRIES - 100), (1 << 40, 300_000)],
)
def test_the_last_entry_up_to_the_offset_is_found(offset: int, position: int, tmp_path: Path) -> None:
    assert segment_with(tmp_path / "orders-0", rising()).lookup(BASE + offset) == position


def test_a_search_begins_in_the_warm_entries_at_the_end(tmp_path: Path) -> None:
    """The first of them decides in which of the two halves it goes on, also where it is wrong."""
    entries = rising()
    first_warm = ENTRIES - 1 - WARM
    wanted = entries[-10]
    entries[first_warm] = (1 << 30, entries[first_warm][1])
    segment = segment_with(tmp_path / "orders-0", entries)
    assert segment.lookup(BASE + wanted[0]) == entries[first_warm - 1][1]
    entries[first_warm] = (1, entries[first_warm][1])
    other = segment_with(tmp_path / "others-0", entries)
    assert other.lookup(BASE + wanted[0]) == wanted[1]
    assert other.lookup(BASE + entries[5][0]) == entries[first_warm][1]


def test_without_entries_a_search_begins_at_the_start(tmp_path: Path) -> None:
    assert segment_with(tmp_path / "orders-0", []).lookup(1 << 40) == 0


BATCHES = [*real_batches(0), *real_batches(46)]


@contextmanager
def small_parts() -> Iterator[None]:
    """Parts and windows of a few batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "PART_BYTES", 1500)
        patch.setattr(windows, "WINDOW_BYTES", 1024)
        yield


def accepted(path: Path, jobs: int, max_size: int | None = None) -> tuple[list[int], int]:
    """The columns of all rows in one list, and the position where they end."""
    with open_source(str(path)) as source:
        found = AcceptedBatches(source, path.stat().st_size, 0, max_size, jobs)
        rows = [value for some in found for value in some.rows[: some.count * BATCH_WIDTH].tolist()]
        return rows, found.position


@given(st.integers(0, 10**6), st.sampled_from([None, 0, 2, 5]), st.sampled_from([None, 1 << 20]))
def test_threads_take_the_same_batches_as_one(
    tmp_path_factory: pytest.TempPathFactory, seed: int, magic: int | None, max_size: int | None
) -> None:
    rng = random.Random(seed)
    data = bytearray(b"".join(BATCHES * 3))
    if magic is None:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    else:
        data[16] = magic  # of the first batch; a broker reads any above 2 as 2
    path = tmp_path_factory.mktemp("threads") / f"{0:020d}.log"
    path.write_bytes(data)
    with small_parts():
        assert accepted(path, 3, max_size) == accepted(path, 1, max_size)


def test_a_recovery_on_threads_leaves_the_same_files(tmp_path: Path) -> None:
    offset, batches = 0, []
    for batch in BATCHES * 20:
        batches.append(at_offset(batch, offset))
        offset += 1 + int.from_bytes(batch[23:27], "big")
    alone = make(tmp_path / "alone-0", {0: batches})
    together = make(tmp_path / "together-0", {0: batches})
    recover(alone)
    with small_parts():
        recover(together, jobs=3)
    assert contents(together) == contents(alone)
    assert len((alone / f"{0:020d}.index").read_bytes()) > 80


def count_scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the segments that are scanned from now on."""
    scanned: list[str] = []
    original = BrokerSegment.recover

    def counted(segment: BrokerSegment, *rest: object) -> object:
        scanned.append(segment.log)
        return original(segment, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(BrokerSegment, "recover", counted)
    return scanned


@pytest.mark.parametrize("damage", [False, True], ids=["intact", "damaged"])
def test_a_segment_without_index_is_scanned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bool) -> None:
    directory = make(tmp_path / "orders-0", {0: real_batches(0), 46: real_batches(46)})
    if damage:
        with (directory / f"{46:020d}.log").open("ab") as out:
            out.write(b"\xff" * 100)
    scanned = count_scans(monkeypatch)
    found = recover(directory)
    assert scanned == [f"{0:020d}.log", f"{46:020d}.log"]
    assert [(cut.file, cut.length) for cut in found.cuts] == [(f"{46:020d}.log", 100)] * damage
    assert not recover(directory).plan


FOLDERS = ("log-directories/4.3.1/logs", "recovery/*/before", "verify/*")
PARTITIONS = sorted({path.parent for folder in FOLDERS for path in TESTDATA.glob(f"{folder}/*/*.log")})


@pytest.mark.parametrize("partition", PARTITIONS, ids=[f"{path.parent.name}-{path.name}" for path in PARTITIONS])
@pytest.mark.parametrize("loses_snapshots", [False, True], ids=["snapshots", "none"])
def test_recalled_scan(partition: Path, loses_snapshots: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = copy_of(partition, tmp_path)
    for lost in [*directory.glob("*.index"), *(directory.glob("*.snapshot") if loses_snapshots else ())]:
        lost.unlink()
    with_recall = plan_partition(str(directory), START)
    monkeypatch.setattr(PartitionLoad, "_recall", lambda *_: None)
    without = plan_partition(str(directory), START)
    assert with_recall.plan.steps == without.plan.steps
    assert with_recall.cuts == without.cuts
    assert with_recall.next_offset == without.next_offset


def test_a_scan_is_made_again_where_producers_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot at a segment's base that tells of a transaction which the segment before it does not hold."""
    directory = copy_of(TRANSACTIONS, tmp_path)
    recover(directory)
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    last = f"{bases[-1]:020d}"
    (directory / f"{last}.snapshot").write_bytes((directory / f"{bases[1]:020d}.snapshot").read_bytes())
    (directory / f"{last}.index").unlink()
    scanned = count_scans(monkeypatch)
    with_recall = plan_partition(str(directory), START)
    assert scanned.count(f"{last}.log") == 2
    monkeypatch.setattr(PartitionLoad, "_recall", lambda *_: None)
    assert with_recall.plan.steps == plan_partition(str(directory), START).plan.steps


def test_only_scans_while_loading_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment with an index is scanned once, and its producers are compared with none."""
    directory = make(tmp_path / "orders-0", {0: real_batches(0), 46: real_batches(46)})
    recover(directory)
    (directory / f"{0:020d}.index").unlink()
    scanned, compared, original = count_scans(monkeypatch), list[int](), ProducerStateManager.fingerprint

    def counted(manager: ProducerStateManager) -> int:
        compared.append(manager.end_offset)
        return original(manager)

    monkeypatch.setattr(ProducerStateManager, "fingerprint", counted)
    plan_partition(str(directory), START)
    assert scanned == [f"{0:020d}.log", f"{46:020d}.log"]
    assert compared == [0, 0]


def test_remembered_snapshots_lie_in_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = copy_of(TRANSACTIONS, tmp_path)
    for lost in [*directory.glob("*.index"), *directory.glob("*.snapshot")]:
        lost.unlink()
    expected = plan_partition(str(directory), START).plan.steps
    monkeypatch.setattr(workspace, "SPILL_BYTES", 0)
    monkeypatch.setattr(workspace, "SPILL_PART_BYTES", 300)
    monkeypatch.setattr(Workspace, "made_bytes", 0)
    load = PartitionLoad(Workspace(str(directory)), START)
    load.run()
    snapshots = [scan.snapshot for scan in load._scans.values() if scan.snapshot is not None]
    assert len(snapshots) > 1
    assert sum(len(piece) for _, file in snapshots for piece in file.pieces if isinstance(piece, bytes)) <= 300
    assert load.workspace.plan().steps == expected


def test_batches_beyond_what_an_index_can_point_to_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = make(tmp_path / "orders-0", {0: real_batches(0)})
    size = (directory / f"{0:020d}.log").stat().st_size
    monkeypatch.setattr(segments, "LARGEST_POSITION", size - 1)
    for plan in (lambda: plan_partition(str(directory), START), lambda: reindex(Workspace(str(directory)), START)):
        with pytest.raises(BrokerRefusesError, match="beyond 2 GiB"):
            plan()
    monkeypatch.setattr(segments, "LARGEST_POSITION", size)
    assert plan_partition(str(directory), START).plan


_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.lists(st.tuples(_INT64, _INT64, st.integers(1, 1 << 20)), max_size=20), _INT64, st.integers(0, 1 << 19))
def test_entries_are_those_of_the_files(batches: list[tuple[int, int, int]], base: int, interval: int) -> None:
    """Offsets that no index can hold included, of which 1.1 and older keep the low 32 bits."""
    rows, position = int64s(max(len(batches), 1) * BATCH_WIDTH), 0
    state = indexing.IndexBuild(base, interval, takes_any=True)
    state.largest_timestamp_offset = 0
    offsets, times, indexed, largest, last_offset, told = b"", b"", 0, (-1, 0), -1, (-1, -1)
    for i, (last, timestamp, size) in enumerate(batches):
        rows[i * BATCH_WIDTH + BATCH_LAST_OFFSET] = last
        rows[i * BATCH_WIDTH + BATCH_MAX_TIMESTAMP] = timestamp
        rows[i * BATCH_WIDTH + BATCH_POSITION] = position
        largest = max(largest, (timestamp, last), key=lambda pair: pair[0])
        if position - indexed > interval:
            if 0 <= last_offset >= last:
                break
            offsets += pack(">II", (last - base) % (1 << 32), position)
            indexed, last_offset = position, last
            if largest[0] > told[0]:
                if 0 <= told[1] > largest[1]:
                    break
                times += pack(">qI", largest[0], (largest[1] - base) % (1 << 32))
                told = largest
        position += size
    entries, stamps = memoryview(bytearray(8 * 20)), memoryview(bytearray(12 * 20))
    indexing.index(rows, len(batches), state, entries, stamps)
    assert bytes(entries[: 8 * state.offsets]) == offsets
    assert bytes(stamps[: 12 * state.times]) == times
