"""Records as columns: whatever a segment holds record by record. tests/api has what real consumers got."""

import os
import shutil
import struct
import threading
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from api.consumed import TESTDATA
from cli.command import flip
from export.chunk_rows import Row, read_chunks, read_rows, rows_of
from kernel.rendering import batch, record, varint
from kseg.export import scanning
from kseg.export.chunk import NAMES, Chunks
from kseg.export.pushdown import Bounds
from kseg.export.scanning import PartReader, ScanRequest, parts_of_scan
from kseg.formats.compressing import compress, target_of
from kseg.formats.rows import Scratch
from kseg.kernel import COMPILED
from kseg.kernel.layout.rows import HEADER_WIDTH
from kseg.limits import HEADERS_PER_CALL, ROWS_PER_CALL
from kseg.segment import slices
from kseg.segment.files import SegmentFile, list_segments
from kseg.segment.isolation import Transactions
from kseg.segment.items import DAMAGE_CODES, Damage
from kseg.segment.slices import Slice
from kseg.segment.writer import LogWriter
from segment.reading import items_at

OLD = sorted(TESTDATA.glob("kafka-0.7.2/*/*/*.kafka"))
SEGMENTS = sorted(path for path in TESTDATA.glob("**/*.log") if not {"recovery", "findings"} & {*path.parts})
KINDS = {None: -1, "NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
LARGE = TESTDATA / "speed/100b.log"


def told_rows(path: Path) -> list[Row]:
    """What the Python objects of a file say, control records left out."""
    found = []
    for item in items_at(path):
        if isinstance(item, Damage) or not item.is_valid or item.is_control:
            continue
        for each in item:
            if each.is_valid:
                kind = KINDS[each.timestamp_type]
                headers = tuple((header.key, header.value) for header in each.headers)
                found.append(
                    (each.offset, None if each.timestamp == -1 else each.timestamp, kind, each.key, each.value, headers)
                )
    return found


expected_rows = cache(told_rows)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", [*SEGMENTS, *OLD], ids=lambda path: str(path.relative_to(TESTDATA)))
def test_rows_are_the_records_of_the_file(path: Path) -> None:
    assert read_rows(path) == expected_rows(path)
    assert expected_rows(path) or path not in OLD


def offsets_by_headers(path: Path, *arguments: Any, **options: Any) -> list[int]:
    chunks = read_chunks(path, *arguments, names=["offset"], **options)
    return [offset for chunk in chunks for offset in chunk.numbers["offset"][: chunk.count]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_offsets_alone_are_those_of_the_rows(path: Path) -> None:
    told: list[Damage] = []
    rows_told: list[Damage] = []
    expected = [row[0] for row in read_rows(path, left_out=rows_told)]
    found = offsets_by_headers(path, left_out=told)
    unread = [each for each in rows_told if each not in told]
    if unread:  # batches with right checksums, whose records turn out to be wrong only when they are read
        assert {each.code for each in unread}.isdisjoint({"crc-mismatch", *DAMAGE_CODES})
        assert [at for at in found if at in expected] == expected
        return
    assert (found, told) == (expected, rows_told)
    for first in expected[len(expected) // 2 :][:1]:
        wanted = Bounds(first_offset=first, last_offset=first + 5)
        assert offsets_by_headers(path, wanted, rows=3) == [at for at in expected if first <= at <= first + 5]


def test_offsets_of_slices_and_of_threads_are_those_of_the_rows() -> None:
    expected = [row[0] for row in expected_rows(LARGE)]
    cuts = [0, 1000, 20_000, None]
    slices = [Slice(start or 0, end) for start, end in pairwise(cuts)]
    assert [at for part in slices for at in offsets_by_headers(LARGE, None, part)] == expected
    assert offsets_by_headers(LARGE, jobs=2) == expected


def test_chunks_of_offsets_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.export.chunk.MAX_OFFSET_ROWS", 64)
    expected = [row[0] for row in expected_rows(LARGE)]
    counts = [chunk.count for chunk in read_chunks(LARGE, names=["offset"], rows=16)]
    assert counts[:5] == [16, 32, 64, 64, 64]
    assert sum(counts) == len(expected)
    assert offsets_by_headers(LARGE, rows=16) == expected
    assert {chunk.count for chunk in read_chunks(LARGE, rows=16)[:-1]} == {16}


def test_records_are_not_read_for_offsets(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(batch([b"not zstd"], attributes=4, base_offset=0, count=1, last_delta=0) + batch([record(0)], 1))
    told: list[Damage] = []
    assert offsets_by_headers(path, left_out=told) == [0, 1]
    assert told == []
    assert [row[0] for row in read_rows(path, left_out=told)] == [1]
    assert len(told) == 1


def test_what_is_left_out_is_told() -> None:
    told: list[Damage] = []
    path = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
    (segment,) = (found for found in path.glob("*.log") if found.stat().st_size)
    rows = read_rows(segment, left_out=told)
    whole = {item.position for item in items_at(segment) if not isinstance(item, Damage) and not item.is_valid}
    assert rows
    assert {(found.code, found.position) for found in told} == {("crc-mismatch", at) for at in whole}
    assert whole


@given(
    rows=st.integers(1, 70),
    chunk_bytes=st.integers(1, 3000),
    first=st.integers(0, 2000),
    count=st.integers(0, 2000),
    times=st.booleans(),
)
def test_chunks_of_any_size_hold_wanted_rows(rows: int, chunk_bytes: int, first: int, count: int, times: bool) -> None:
    path = TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log"
    everything = expected_rows(path)
    middle = sorted(row[1] for row in everything if row[1] is not None)
    earliest, latest = (
        (middle[len(middle) // 3], middle[2 * len(middle) // 3]) if times else (-(1 << 63), (1 << 63) - 1)
    )
    wanted = Bounds(first, first + count, earliest, latest)
    expected = [
        row
        for row in everything
        if first <= row[0] <= first + count and (not times or (row[1] is not None and earliest <= row[1] <= latest))
    ]
    chunks = read_chunks(path, wanted, rows=rows, chunk_bytes=chunk_bytes)
    assert [row for chunk in chunks for row in rows_of(chunk)] == expected
    for chunk in chunks:
        held = [len(row[3] or b"") + len(row[4] or b"") for row in rows_of(chunk)]
        assert chunk.count <= rows
        assert sum(held) <= max(chunk_bytes, *held)


@pytest.mark.parametrize("path", SEGMENTS[::7], ids=lambda path: str(path.relative_to(TESTDATA)))
def test_rows_of_a_key_are_those_with_that_key(path: Path) -> None:
    everything = expected_rows(path)
    keys = {row[3] for row in everything if row[3] is not None}
    for key in [*sorted(keys)[:3], b"", b"no such key"]:
        assert read_rows(path, Bounds(keys=frozenset([key]))) == [row for row in everything if row[3] == key]


def segment_with_bad_ends(folder: Path) -> Path:
    """A segment of 30 batches of 100 KB, with its indexes: offsets 0 to 29, a second each. The first and the last batch
    are damaged.
    """
    log = LogWriter(str(folder), 0)
    for i in range(30):
        area = record(0, value=b"%d" % i * 50_000)
        log.append(batch([area], i, base_timestamp=1000 * i + 1, max_timestamp=1000 * i + 1))
    (segment,) = log.finish()
    path = Path(segment.paths[".log"])
    for at in (100, -100):
        flip(path, at)
    return path


@pytest.mark.parametrize("wanted", [Bounds(5, 9), Bounds(earliest_ms=5001, last_offset=9)], ids=["offsets", "time"])
def test_only_the_bytes_that_may_hold_wanted_records_are_read(wanted: Bounds, tmp_path: Path) -> None:
    path = segment_with_bad_ends(tmp_path)
    told: list[Damage] = []
    assert [row[0] for row in read_rows(path, left_out=told)] == list(range(1, 29))
    assert len(told) == 2
    told.clear()
    assert [row[0] for row in read_rows(path, wanted, left_out=told)] == [5, 6, 7, 8, 9]
    assert told == []


def test_columns_that_are_not_wanted_are_not_there() -> None:
    (chunk,) = read_chunks(LARGE, names=("offset", "value"))
    assert (set(chunk.numbers), set(chunk.bytes), chunk.valid) == ({"offset"}, {"value"}, None)
    assert list(chunk.numbers["offset"][: chunk.count]) == [row[0] for row in expected_rows(LARGE)]


def test_timestamps_are_scaled_and_null_where_that_is_too_much(tmp_path: Path) -> None:
    largest = (1 << 63) - 1
    records = [record(i, time) for i, time in enumerate((0, 5, largest - 1000, largest // 1000 - 1000, -1002, -1001))]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch(records, base_timestamp=1000, max_timestamp=largest))
    assert [row[1] for row in read_rows(path)] == [1000, 1005, largest, largest // 1000, -2, None]
    scaled = [row[1] for row in read_rows(path, timestamp_scale=1000)]
    assert scaled == [1_000_000, 1_005_000, None, largest // 1000 * 1000, -2000, None]
    assert [chunk.overflows for chunk in read_chunks(path, timestamp_scale=1000)] == [1]
    of_several_calls = [record(i, largest - 1000 if i == 0 else 0) for i in range(2 * ROWS_PER_CALL)]
    path.write_bytes(batch(of_several_calls, base_timestamp=1000, max_timestamp=largest))
    assert [chunk.overflows for chunk in read_chunks(path, timestamp_scale=1000)] == [1]


def test_a_record_with_more_headers_than_the_buffer_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [(b"h%d" % i, None if i % 3 else b"v") for i in range(20_000)]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch([record(0, key=b"a"), record(1, headers=many), record(2, headers=many[:2])]))
    rows = read_rows(path)
    assert [len(row[5]) for row in rows] == [0, 20_000, 2]
    assert rows[1][5] == tuple(many)
    monkeypatch.setattr(scanning, "_MAX_HEADER_INT64S", (2 * HEADERS_PER_CALL + 8) * HEADER_WIDTH)
    path.write_bytes(batch([record(i, headers=many[:50]) for i in range(2000)]))  # together more than it ever holds
    assert [row[5] for row in read_rows(path)] == [tuple(many[:50])] * 2000


def test_claimed_sizes_take_no_memory(tmp_path: Path) -> None:
    """A record that claims to be large makes its batch undecodable, and nothing is set aside for it."""
    wrong = varint(60) + b"\0\0\2\1" + varint(1 << 30) + b"x" * 54
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch([record(0, key=b"a"), wrong]) + batch([record(0, key=b"b")], base_offset=2))
    told: list[Damage] = []
    assert [row[3] for row in read_rows(path, left_out=told)] == [b"a", b"b"]
    assert [found.code for found in told] == ["undecodable-records"]
    assert struct.unpack_from(">i", path.read_bytes(), 57) == (2,)


SAMPLES = [
    TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0/00000000000000000000.log",
    TESTDATA / "kafka-4.3.1/clients/librdkafka-lz4-0/00000000000000000000.log",
    TESTDATA / "kafka-2.8.2/upgraded-from-0.8.2.2/one-mixcodec-0/00000000000000000000.log",
    TESTDATA / "kafka-0.8.2.2/codecs/compact-0/00000000000000000351.log",
]


@given(
    path=st.sampled_from(SAMPLES),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=4),
    cut=st.floats(0.2, 1),
    has_right_checksum=st.booleans(),
)
def test_damaged_bytes_give_the_rows_that_are_left(
    path: Path,
    flips: list[tuple[float, int]],
    cut: float,
    has_right_checksum: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = bytearray(path.read_bytes()[:6000])
    for place, mask in flips:
        data[int(place * len(data))] ^= mask
    if has_right_checksum and len(data) > 100 and data[16] == 2:
        end = min(12 + max(struct.unpack_from(">i", data, 8)[0], 50), len(data))
        struct.pack_into(">I", data, 17, crc32c(bytes(data[21:end])))
    damaged = tmp_path_factory.mktemp("damaged-0") / path.name
    damaged.write_bytes(data[: int(cut * len(data))])
    assert read_rows(damaged) == told_rows(damaged)


@given(
    kinds=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([0, 3, 400, 9000, 300_000]), st.integers(0, 7)), max_size=24
    ),
    first=st.integers(0, 60),
)
def test_codec_batches(kinds: list[tuple[int, int, int]], first: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """``kinds``: codec, bytes of each value, and 0 for a control batch, 1 for a record too many in its header, 2 for
    compressed bytes that are nonsense under a right CRC."""
    data = b""
    for i, (codec, size, what) in enumerate(kinds):
        records = [record(k, key=b"%d" % i, value=bytes([i]) * size) for k in range(3)]
        area = compress(target_of(codec), b"".join(records)) if codec else b"".join(records)
        if what == 2 and codec:
            area = area[: len(area) // 2] + b"\xff" * 9
        data += batch(
            [area], 3 * i, codec | (what == 0) << 5, last_delta=2, count=4 if what == 1 else 3, max_timestamp=1000
        )
    path = tmp_path_factory.mktemp("codecs-0") / "00000000000000000000.log"
    path.write_bytes(data)
    told: list[Damage] = []
    expected = [row for row in told_rows(path) if row[0] >= first]
    assert read_rows(path, Bounds(first_offset=first), left_out=told) == expected
    assert not any(found.code == "crc-mismatch" for found in told)


def test_batches_that_hold_more_than_one_and_less_than_another(tmp_path: Path) -> None:
    """What lies open grows with the largest batch."""
    sizes = [10, 700_000, 5_000_000, 20, 2_000_000, 17_000_000, 30]
    records = [[record(0, value=b"%d" % i * size)] for i, size in enumerate(sizes)]
    areas = [compress(target_of(3 + i % 2), each[0]) for i, each in enumerate(records)]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batch([area], i, 3 + i % 2) for i, area in enumerate(areas)))
    assert [len(row[4]) for row in read_rows(path)] == sizes
    assert read_rows(path) == told_rows(path)


PREFETCHED = [
    *sorted(TESTDATA.glob("speed/*.log")),
    *sorted(TESTDATA.glob("kafka-4.3.1/clients/*/*.log")),
    *OLD[:4],
    *sorted(TESTDATA.glob("damaged/*/*/*.log")),
]


@pytest.mark.parametrize("path", PREFETCHED, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_rows_and_what_is_left_out(path: Path) -> None:
    told: tuple[list[Damage], list[Damage]] = ([], [])
    rows = [read_rows(path, left_out=each, jobs=jobs) for each, jobs in zip(told, (1, 3), strict=True)]
    assert rows[0] == rows[1]
    assert told[0] == told[1]


def test_no_aborted_records() -> None:
    partition = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
    files = list_segments(str(partition))
    hidden = Transactions.of_segments(files, Scratch())
    for file in files:
        assert read_rows(Path(file.path), hidden=hidden, jobs=2) == read_rows(Path(file.path), hidden=hidden)


@pytest.mark.skipif(not COMPILED, reason="an interpreted kernel decodes on one thread")
def test_chunks_that_are_not_asked_for_are_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much a batch expands to, a thread stops where it holds enough, and the reader goes on from there."""
    monkeypatch.setattr(scanning, "AHEAD_BYTES", 20_000)
    records = b"".join(record(k, value=b"\0" * 1000) for k in range(500))
    areas = [compress(target_of(4), records)] * 12
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(batch([area], 500 * i, 4, last_delta=499, count=500) for i, area in enumerate(areas)))
    held: list[int] = []
    read_ahead = scanning._read_ahead

    def counted(items: Any) -> list[Any]:
        found = read_ahead(items)
        held.append(sum(len(list(rows_of(chunk))) for chunk in found if not isinstance(chunk, Damage)))
        return found

    monkeypatch.setattr(scanning, "_read_ahead", counted)
    chunks = read_chunks(path, chunk_bytes=10_000, jobs=2)
    assert [row[0] for chunk in chunks for row in rows_of(chunk)] == list(range(6000))
    assert held
    assert max(held) <= 30


SPEED = TESTDATA / "speed"


def open_files(folder: Path) -> list[str]:
    """Returns the open files below a folder. Of other tests there are mappings that the next `Source.close` closes."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [name for name in found if name.startswith(f"{folder}/")]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are named by /proc")
def test_a_scan_that_is_given_up_leaves_no_thread_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "PART_BYTES", 0)
    for number in range(9):
        shutil.copy(SPEED / "zstd.log", tmp_path / f"{number:020}.log")
    threads = threading.active_count()
    request = ScanRequest(tuple(map(str, sorted(tmp_path.iterdir()))))

    def refuse(_file: SegmentFile, left_out: Damage) -> None:
        raise InterruptedError(left_out.code)

    reader = PartReader(request, Chunks(NAMES), refuse, 3)
    chunks = reader.chunks_of(part for _, part in parts_of_scan(request))
    next(chunks)
    assert open_files(tmp_path)
    chunks.close()  # type: ignore[attr-defined]
    assert (threading.active_count(), open_files(tmp_path)) == (threads, [])
    flip(tmp_path / f"{3:020}.log")
    found = []
    with pytest.raises(InterruptedError, match="crc-mismatch"):
        found += [part.file.path for part, _ in reader.chunks_of(part for _, part in parts_of_scan(request))]
    assert (threading.active_count(), open_files(tmp_path)) == (threads, [])
