"""Offset and time indexes against their logs: real ones are right, each wrong entry is found, no bytes raise."""

import os
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.findings.table import ERROR, INFO, WARNING
from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import BATCH_WIDTH
from kseg.kernel.scan.headers import EVENT_WIDTH
from kseg.kernel.state import indexing as kernel
from kseg.node.log_directory import BrokerState
from kseg.segment.survey import FULL, QUICK, HeaderRows
from kseg.sidefiles import indexes
from kseg.stores.windows import Buffers
from kseg.verification.directory_tree import judge_partition
from kseg.verification.indexes import IndexWalk
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Finding, Report
from kseg.verification.run import judge_path
from segment.header_rows import header_row
from segment.segments import entries as batches_of
from verification.partitions import LATER_MS, STEM, TESTDATA, Found, set_entry
from verification.partitions import copied as copy_of


def closed(partition: Path) -> Path:
    """The partition with one more, empty segment, so that the one before it counts as closed."""
    (partition / f"{1 << 40:020}.log").touch()
    (partition / f"{1 << 40:020}.index").touch()
    return partition


def findings(
    partition: Path, level: int = FULL, broker: BrokerState | None = None, live: bool = False
) -> list[Finding]:
    """What is found about indexes in a partition directory, or of a file."""
    found, settings = Found(), CheckSettings(level, LATER_MS, is_live=live)
    if partition.is_file():
        judge_path(str(partition), settings, found.report)
    else:
        judge_partition(str(partition), settings, found.report, broker or BrokerState(), Buffers())
    return [finding for finding in found.findings if "index" in finding.code or finding.code == "unreadable-bytes"]


def codes(partition: Path, level: int = FULL) -> list[str]:
    return [finding.code for finding in findings(partition, level)]


def entries(index: Path) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">ii" if index.name.endswith(".index") else ">qi", index.read_bytes()))


def repeated_batch(count: int, least_bytes: int = 0) -> bytes:
    """A log of ``count`` times one real batch of 3 records or more, base offsets going on (no checksum covers them)."""
    log = (TESTDATA / "kafka-4.3.1" / "codecs" / "codec-mix-0" / f"{STEM}.log").read_bytes()
    large = (batch for batch in batches_of(log) if len(batch) >= least_bytes)
    batch = next(batch for batch in large if int.from_bytes(batch[23:27], "big") >= 2)
    step = int.from_bytes(batch[23:27], "big") + 1
    return b"".join((i * step).to_bytes(8, "big") + batch[8:] for i in range(count))


# The walk along header rows, against a judgement of each entry by itself, in windows of any size.

SIZE = 100
Log = list[tuple[int, int, int]]
"""First offset, last offset and largest timestamp of each batch; all have SIZE bytes."""


def rows_of(log: Log) -> memoryview:
    rows = [
        header_row(position=i * SIZE, size=SIZE, records=last - first + 1, first_offset=first, last_offset=last,
                   max_timestamp=timestamp)
        for i, (first, last, timestamp) in enumerate(log)
    ]  # fmt: skip
    return HeaderRows.of(rows or [header_row()]).rows


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log, offset = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 30))):
        last = offset + draw(st.integers(0, 4))
        log.append((offset, last, draw(st.integers(1, 50))))
        offset = last + 1 + draw(st.sampled_from([0, 0, 0, 3]))
    return log


def walk_of(width: int, data: bytes, log: Log, cut: int, window: int, path: Path) -> IndexWalk:
    """Shows the batches in two calls, with windows of so many entries."""
    path.write_bytes(data)
    walk = IndexWalk(width, 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "FIRST_BYTES", min(16 << 10, window * width))
        patch.setattr(indexes, "READ_BYTES", window * width)
        patch.setattr(indexes, "_ZEROS", bytes(window * width))
        assert walk.open(str(path), 0)
        for part in (log[:cut], log[cut:]):
            rows = rows_of(log)[log.index(part[0]) * BATCH_WIDTH :] if part else rows_of([])
            walk.follow(rows, len(part))
        walk.drain(len(log) * SIZE)
    walk.close()
    return walk


@given(st.data(), logs(), st.integers(0, 30), st.integers(3, 9), st.sampled_from(["last", "first", "append"]))
def test_entries_as_brokers_write_them(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, log: Log, cut: int, window: int, form: str
) -> None:
    indexed = data.draw(
        st.builds(lambda picks: [i for i in range(1, len(log)) if picks >> i & 1], st.integers(0, 1 << 30))
    )
    packed, times = b"", b""
    largest = -1
    for k, i in enumerate(indexed):
        until = indexed[k + 1] - 1 if k + 1 < len(indexed) else len(log) - 1
        offset = {"last": log[i][1], "first": log[i][0], "append": log[until][1]}[form]
        packed += struct.pack(">ii", offset, i * SIZE)
        seen = log[: i + 1]
        if max(stamp for *_, stamp in seen) > largest:
            largest = max(stamp for *_, stamp in seen)
            times += struct.pack(">qi", largest, next(last for _, last, stamp in seen if stamp == largest))
    path = tmp_path_factory.mktemp("walk") / "0.index"
    assert walk_of(kernel.OFFSETS, packed, log, cut, window, path).events == []
    walk = walk_of(kernel.TIMES, times, log, cut, window, path)
    assert walk.events == []
    assert walk.state.largest == max(stamp for *_, stamp in log)


@given(
    logs(), st.integers(0, 30), st.integers(3, 9),
    st.lists(st.tuples(st.integers(0, 150), st.integers(1, 33 * SIZE)), max_size=12, unique=True),
)  # fmt: skip
def test_any_rising_entries(
    tmp_path_factory: pytest.TempPathFactory, log: Log, cut: int, window: int, pairs: list[tuple[int, int]]
) -> None:
    """Offsets and positions that rise, of which some lead astray: exactly those are told."""
    offsets, positions = sorted({a for a, _ in pairs}), sorted({b for _, b in pairs})
    expected = {}
    kept = list(zip(offsets, positions, strict=False))
    for entry, (offset, position) in enumerate(kept):
        if position >= len(log) * SIZE:
            expected[entry] = {kernel.BEYOND}
        elif position % SIZE:
            expected[entry] = {kernel.NO_BATCH}
        else:
            first, last, _ = log[position // SIZE]
            if offset < first:
                expected[entry] = {kernel.TOO_LOW}
            elif offset not in (first, last):
                expected[entry] = {kernel.IMPRECISE, None}
    path = tmp_path_factory.mktemp("walk") / "0.index"
    packed = b"".join(struct.pack(">ii", *pair) for pair in kept)
    walk = walk_of(kernel.OFFSETS, packed, log, cut, window, path)
    found = {event.entry: event.kind for event in walk.events}
    pending = walk.state.pending_entry if walk.state.pending >= 0 else None
    for entry, (offset, _) in enumerate(kept):
        if pending == entry:
            assert offset > log[-1][1]
        else:
            assert found.get(entry) in expected.get(entry, {None}), (entry, kept)
    assert set(found) <= set(expected)


@given(
    logs(), st.integers(0, 30), st.integers(3, 9),
    st.lists(st.tuples(st.integers(-3, 150), st.integers(1, 60)), max_size=12),
)  # fmt: skip
def test_any_time_entries(
    tmp_path_factory: pytest.TempPathFactory, log: Log, cut: int, window: int, pairs: list[tuple[int, int]]
) -> None:
    """In any order: what is told of an entry in line is what the log's timestamps up to its offset say."""
    path = tmp_path_factory.mktemp("walk") / "0.timeindex"
    walk = walk_of(kernel.TIMES, b"".join(struct.pack(">qi", t, o) for o, t in pairs), log, cut, window, path)
    found = {event.entry: event.kind for event in walk.events}
    assert len(found) == len(walk.events)
    for entry, (offset, timestamp) in enumerate(pairs):
        kind = found.get(entry)
        if kind == kernel.UNSORTED:
            continue
        if offset < 0 or offset > log[-1][1]:
            assert kind == (kernel.BELOW_BASE if offset < 0 else kernel.BEYOND)
            continue
        largest = max((stamp for first, _, stamp in log if first <= offset), default=-1)
        told = kernel.TOO_OLD if timestamp < largest else kernel.TOO_NEW if timestamp > largest else None
        # An offset between two batches may stand for the one behind it.
        assert kind == told or not any(first <= offset <= last for first, last, _ in log)


def test_counts_are_exact_where_events_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(b"".join(struct.pack(">ii", i, 7 + i) for i in range(5000)))
    walk = IndexWalk(kernel.OFFSETS, 8)
    assert walk.open(str(path), 0)
    walk.follow(rows_of([(0, 6000, 1)]), 1)
    walk.drain(SIZE)
    walk.close()
    assert [event.entry for event in walk.events] == [*range(8), *range(93, 101)]
    assert (walk.state.totals[kernel.NO_BATCH], walk.state.totals[kernel.BEYOND]) == (93, 4907)
    assert walk.state.last_about[kernel.BEYOND] == 4999


def test_offsets_near_the_largest_do_not_overflow(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(struct.pack(">iiii", 5, 100, 0x7FFFFFFF, 200))
    walk = IndexWalk(kernel.OFFSETS, 8)
    assert walk.open(str(path), (1 << 63) - 7)
    walk.drain(-1)
    walk.close()
    assert [(event.kind, event.entry) for event in walk.events] == [(kernel.BELOW_BASE, 1)]


def test_an_index_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no such index"):
        kernel.EntryWalk(10, 8, int64s(EVENT_WIDTH))


DAMAGED = TESTDATA / "side-files" / "damaged"
MIX = TESTDATA / "kafka-4.3.1" / "codecs" / "codec-mix-0"
OLD = TESTDATA / "kafka-0.8.2.2" / "codecs" / "one-none-0"
UPGRADED = TESTDATA / "kafka-2.8.2" / "upgraded-from-0.8.2.2" / "one-mixcodec-0"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return copy_of(MIX, tmp_path)


@pytest.mark.parametrize("partition", [MIX, OLD, UPGRADED], ids=lambda path: path.name)
def test_each_entry_of_an_offset_index_is_compared(partition: Path, tmp_path: Path) -> None:
    copied = copy_of(partition, tmp_path)
    index = copied / f"{STEM}.index"
    whole = index.read_bytes()
    for i, (offset, position) in enumerate(entries(index)):
        set_entry(index, i, second=position + 1)
        found = findings(copied)
        assert [(f.code, f.position, f.length, f.offset) for f in found] == [("index-misleads", 8 * i, 8, offset)], i
        assert f"at position {position + 1}" in found[0].message
        assert found[0].severity == ERROR
        index.write_bytes(whole)


def test_entries_of_a_time_index_may_share_an_offset(partition: Path) -> None:
    """TimeIndex.maybeAppend refuses a lower offset than that of the entry before, not the same."""
    times = partition / f"{STEM}.timeindex"
    set_entry(times, 1, second=entries(times)[2][1])
    found = findings(partition)
    assert [(f.code, f.position) for f in found] == [("time-index-mismatch", 12)]
    assert "up to offset 80 is later" in found[0].message


def test_each_entry_of_a_time_index_is_compared(partition: Path) -> None:
    times = partition / f"{STEM}.timeindex"
    whole = times.read_bytes()
    for i, (timestamp, _) in enumerate(entries(times)):
        for other in (timestamp - 1, timestamp + 1):
            set_entry(times, i, first=other)
            found = findings(partition)
            assert [(f.code, f.severity, f.position, f.length) for f in found] == [
                ("time-index-mismatch", WARNING, 12 * i, 12)
            ]
            times.write_bytes(whole)


def test_offsets_of_appends_and_of_nothing(tmp_path: Path) -> None:
    """The last offset, the first, that of a whole append; and offsets that are none of these."""
    partition = tmp_path / "t-0"
    partition.mkdir()
    log = repeated_batch(12)
    size = len(log) // 12
    step = int.from_bytes(log[23:27], "big") + 1
    assert step > 2
    (partition / f"{STEM}.log").write_bytes(log)
    index = partition / f"{STEM}.index"

    def found_for(*pairs: tuple[int, int]) -> list[tuple[str, str, int | None]]:
        index.write_bytes(b"".join(a.to_bytes(4, "big") + b.to_bytes(4, "big") for a, b in pairs))
        return [(f.code, f.severity, f.position) for f in findings(partition) if f.code != "time-index-missing"]

    last = [step * (i + 1) - 1 for i in range(12)]
    assert found_for((last[2], 2 * size), (last[7], 7 * size)) == []
    assert found_for((last[1] + 1, 2 * size), (last[6] + 1, 7 * size)) == []
    assert found_for((last[5], 2 * size), (last[11], 7 * size)) == []
    assert found_for((last[2] - 1, 2 * size)) == [("index-imprecise", WARNING, 0)]
    assert found_for((last[5] - 1, 2 * size)) == [("index-imprecise", WARNING, 0)]
    assert found_for((last[8], 2 * size), (last[9], 7 * size)) == [("index-imprecise", WARNING, 0)]
    assert found_for((last[1], 2 * size)) == [("index-misleads", ERROR, 0)]
    assert found_for((last[2], 2 * size), (last[11] + 1, 7 * size)) == [("index-beyond-log", ERROR, 8)]
    assert found_for((last[2], 2 * size), (last[11] + 1, 12 * size)) == [("index-beyond-log", ERROR, 8)]
    # Entries one behind the other are one finding.
    found_for((last[2] - 1, 2 * size), (last[5] - 1, 5 * size), (last[7], 7 * size), (last[9] - 1, 9 * size))
    imprecise = [(f.position, f.length) for f in findings(partition) if f.code == "index-imprecise"]
    assert imprecise == [(0, 16), (24, 8)]
    cleaned = findings(partition, broker=BrokerState(is_compacted=True))
    assert {f.severity for f in cleaned if f.code == "index-imprecise"} == {INFO}
    assert found_for((last[2], 2 * size + 5)) == [("index-misleads", ERROR, 0)]
    assert found_for((last[2], 2 * size), (last[1], 3 * size), (last[4], 4 * size)) == [("index-unsorted", ERROR, 8)]
    # One entry far too high: the two behind it go on from the one before.
    assert found_for((last[2], 2 * size), (last[2] + 1, 1 << 30), (last[4], 4 * size), (last[5], 5 * size)) == [
        ("index-unsorted", ERROR, 8)
    ]


def test_an_index_without_log(partition: Path) -> None:
    orphan = DAMAGED / "orphan-index" / "dplain-0" / "00000000000000007777.index"
    (partition / orphan.name).write_bytes(orphan.read_bytes())
    (partition / "00000000000000008888.index").touch()
    (partition / "00000000000000008888.log.swap").touch()  # which a broker's start makes the .log
    found = findings(partition)
    assert [(f.code, f.severity, Path(f.file).name) for f in found] == [("orphan-index", WARNING, orphan.name)]


def test_an_index_of_a_log_with_a_shorter_name(partition: Path) -> None:
    """A broker finds no index by the number of such a segment, and no segment by that of the index."""
    log = min(partition.glob("*.log"))
    orphans = sorted(log.with_suffix(suffix) for suffix in (".index", ".timeindex"))
    log.rename(partition / f"{int(log.stem)}.log")
    found = [f.file for f in findings(partition) if f.code == "orphan-index"]
    assert found == [str(path) for path in orphans]


def test_an_index_of_a_deleted_log(tmp_path: Path) -> None:
    """Its records are not gone: the .deleted file has them."""
    partition = Path(shutil.copytree(TESTDATA / "log-directories/4.3.1/logs/dplain-0", tmp_path / "dplain-0"))
    log = sorted(partition.glob("*.log"))[1]
    log.rename(f"{log}.deleted")
    told = "offsets 46 to 75 are in no segment; retention may have deleted them"
    assert [told in found.message for found in findings(partition)] == [True, True]


def test_preallocated_bytes(tmp_path: Path) -> None:
    """An active segment has it, a closed one must not, nor one that was closed with the broker."""
    partition = copy_of(DAMAGED / "preallocated" / "dplain-0", tmp_path)
    assert findings(partition) == []
    was_clean = BrokerState(was_clean=True, is_known=True)
    expected = [("index-zero-tail", 24, 8168), ("time-index-zero-tail", 36, 8148)]
    found = findings(partition, broker=was_clean)
    assert [(f.code, f.severity) for f in found] == [("index-zero-tail", WARNING), ("time-index-zero-tail", WARNING)]
    found = findings(closed(partition))
    assert [(f.code, f.position, f.length) for f in found] == expected
    assert [f.severity for f in found] == [WARNING, ERROR]
    for suffix in (".index", ".timeindex"):
        path = partition / f"00000000000000000116{suffix}"
        path.write_bytes(bytes(path.stat().st_size))
    assert [(f.code, f.position, f.length) for f in findings(partition)] == [
        ("index-zero-tail", 0, 8192),
        ("time-index-zero-tail", 0, 8184),
    ]


def test_a_log_that_lost_its_end(partition: Path) -> None:
    log = partition / f"{STEM}.log"
    last = entries(partition / f"{STEM}.index")[-1]
    os.truncate(log, last[1])
    found = findings(partition)
    assert {f.code for f in found} == {"index-beyond-log", "time-index-beyond-log"}
    assert next(f for f in found if f.code == "index-beyond-log").offset == last[0]
    assert {f.severity for f in found} == {ERROR}
    assert codes(partition, QUICK) == []
    assert findings(partition, live=True) == [], "a live segment may lag behind its index"
    # No broker appends to a closed segment's time index any more.
    severities = {f.code: f.severity for f in findings(closed(partition))}
    assert severities == {"index-beyond-log": ERROR, "time-index-beyond-log": WARNING}


def test_what_the_next_start_rebuilds_is_a_warning(partition: Path) -> None:
    set_entry(partition / f"{STEM}.index", 0, second=1)
    scanned = BrokerState(recovery_point=0, was_clean=False, is_known=True)
    below = BrokerState(recovery_point=1 << 40, was_clean=False, is_known=True)
    clean = BrokerState(recovery_point=0, was_clean=True, is_known=True)
    assert [f.severity for f in findings(partition, broker=scanned)] == [WARNING]
    assert [f.severity for f in findings(partition, broker=below)] == [ERROR]
    assert [f.severity for f in findings(partition, broker=clean)] == [ERROR]


def test_a_log_that_grows_meanwhile(partition: Path) -> None:
    log = partition / f"{STEM}.log"
    os.truncate(log, entries(partition / f"{STEM}.index")[-1][1])
    told: list[Finding] = []
    whole = (MIX / log.name).read_bytes()
    report = Report(told.append, ("gap-truncated",), lambda _: log.write_bytes(whole) and None)
    judge_path(str(partition), CheckSettings(FULL, LATER_MS), report)
    assert [finding for finding in told if "beyond" in finding.code] == []
    assert log.read_bytes() == whole


def test_damage_of_the_log_is_not_told_again(partition: Path) -> None:
    """Entries that lead to damage, or to a batch whose checksum is wrong, may be right."""
    log, index = partition / f"{STEM}.log", partition / f"{STEM}.index"
    data = bytearray(log.read_bytes())
    position = entries(index)[4][1]
    data[position + 40] ^= 1  # the largest timestamp: under the checksum
    log.write_bytes(data)
    assert findings(partition) == []
    data[position + 8 : position + 12] = b"\x7f\xff\xff\xff"
    log.write_bytes(data)
    assert findings(partition) == []
    log.write_bytes(data[: entries(index)[-1][1] + 40])
    assert findings(partition) == []


def test_a_wrong_base_offset_is_not_the_fault_of_an_index(partition: Path) -> None:
    log, index = partition / f"{STEM}.log", partition / f"{STEM}.index"
    data = bytearray(log.read_bytes())
    position = entries(index)[4][1]
    for wrong in (0, 1 << 20, 1 << 62, (1 << 64) - 5):
        data[position : position + 8] = wrong.to_bytes(8, "big")
        log.write_bytes(data)
        assert findings(partition) == [], wrong


def test_missing_indexes(partition: Path, tmp_path: Path) -> None:
    (partition / f"{STEM}.timeindex").unlink()
    (partition / f"{STEM}.index").unlink()
    assert codes(partition) == codes(partition, QUICK) == ["index-missing"]
    assert codes(partition / f"{STEM}.log") == []  # a copy of the .log alone lacks nothing
    (partition / f"{STEM}.timeindex").touch()
    assert codes(partition / f"{STEM}.log") == ["index-missing"]

    many = copy_of(TESTDATA / "kafka-4.3.1" / "internal" / "__cluster_metadata-0", tmp_path)
    for index in many.glob("*.timeindex"):
        index.unlink()
    assert [(f.code, f.file) for f in findings(many)] == [("time-index-missing", str(many))]
    next(many.glob("*.index")).unlink()
    assert sorted(codes(many)) == ["index-missing", "time-index-missing", "time-index-missing"]
    for index in many.glob("*.index"):
        index.unlink()
    assert [(f.code, f.severity, f.file) for f in findings(many)] == [("index-missing", WARNING, str(many))]


def test_releases_that_wrote_no_time_index(tmp_path: Path) -> None:
    assert not list(OLD.glob("*.timeindex"))
    assert findings(OLD) == []
    v1 = copy_of(TESTDATA / "kafka-0.10.2.2" / "codecs" / "rec-gzip-0", tmp_path)
    (v1 / f"{STEM}.timeindex").unlink()  # as 0.10.0 leaves it
    assert [(f.code, f.severity) for f in findings(v1)] == [("time-index-missing", INFO)]
    (v1 / f"{STEM}.timeindex").touch()  # as the release after it opens it
    assert [(f.code, f.severity) for f in findings(closed(v1))] == [("time-index-incomplete", INFO)]


def test_the_last_timestamp_of_a_closed_segment(partition: Path) -> None:
    times = partition / f"{STEM}.timeindex"
    os.truncate(times, times.stat().st_size - 12)
    assert findings(partition) == []
    found = findings(closed(partition))
    assert [(f.code, f.severity) for f in found] == [("time-index-incomplete", WARNING)]
    assert codes(partition / times.name) == ["time-index-incomplete"]
    times.write_bytes(b"")
    assert "no entry" in findings(partition)[0].message


def test_many_wrong_entries_are_told_as_one_range(partition: Path) -> None:
    index = partition / f"{STEM}.index"
    count = len(entries(index))
    for i, (_, position) in enumerate(entries(index)):
        set_entry(index, i, second=position + 1)
    found = findings(partition)
    assert [(f.code, f.position, f.length) for f in found] == [("index-misleads", 0, 8 * count)]
    assert f"{count} of {count}" in found[0].message


def test_sparse_indexes(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    one = repeated_batch(1, least_bytes=4000)
    count = (17 << 20) // len(one)
    step = int.from_bytes(one[23:27], "big") + 1
    (partition / f"{STEM}.log").write_bytes(repeated_batch(count, least_bytes=4000))
    (partition / f"{STEM}.timeindex").touch()
    index = partition / f"{STEM}.index"
    index.touch()
    assert [(f.code, f.severity) for f in findings(partition)] == [("index-sparse", WARNING)]
    middle = count // 2
    index.write_bytes((step * (middle + 1) - 1).to_bytes(4, "big") + (middle * len(one)).to_bytes(4, "big"))
    assert findings(partition) == []


def test_structure_alone_at_the_quick_level(partition: Path) -> None:
    index, times = partition / f"{STEM}.index", partition / f"{STEM}.timeindex"
    set_entry(index, 2, second=entries(index)[2][1] + 1)
    assert codes(partition, QUICK) == []
    set_entry(index, 2, second=entries(index)[1][1])
    set_entry(times, 0, second=-1)
    with index.open("ab") as stream:
        stream.write(b"\1\2\3")
    assert codes(partition, QUICK) == ["index-unsorted", "index-bad-size", "time-index-below-base"]
    set_entry(index, 0, second=-7)
    found = findings(partition, QUICK)
    assert found[0].code == "index-misleads"
    assert "negative" in found[0].message


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_what_cannot_be_read(suffix: str, partition: Path) -> None:
    path = partition / f"{STEM}{suffix}"
    path.unlink()
    os.mkfifo(path)  # opening it to read must not wait for a writer
    assert codes(partition) == ["unreadable-bytes"]
    path.unlink()
    path.mkdir()
    assert codes(partition) == ["unreadable-bytes"]
