"""The survey of a segment: its items tile the file, and parts in threads give the same items as one pass."""

import gzip
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import kseg
from kernel.rendering import batch, message, record
from kseg.kernel import COMPILED
from kseg.kernel.layout.rows import BATCH_POSITION, BATCH_SIZE, BATCH_STATE, BATCH_WIDTH
from kseg.segment import slices
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader, open_segment
from kseg.segment.survey import DEEP, FULL, QUICK, SCAN_OPTIONS, BatchProblem, HeaderRows, SegmentSurvey, record_count
from kseg.stores import windows
from kseg.stores.source import open_source
from segment.cases import mutated
from segment.segments import SAMPLES, TESTDATA, entries, sample

LEVELS = pytest.mark.parametrize("level", [QUICK, FULL, DEEP], ids=["quick", "full", "deep"])
V2 = b"".join(entries((TESTDATA / SAMPLES["v2"]).read_bytes()))

Flat = list[tuple[Any, ...]]


def surveyed(
    path: Path, level: int, jobs: int = 1, live: bool = False, max_bytes: int | None = None
) -> tuple[Flat, int]:
    """Returns header rows (one by one), damage and problems in order, and the end of the pass."""
    found: Flat = []
    options, is_07 = SCAN_OPTIONS[level], path.suffix == ".kafka"
    with open_segment(str(path), is_07=is_07, live=live, max_bytes=max_bytes, scan_options=options) as reader:
        scan = SegmentSurvey(reader, level, jobs)
        for item in scan:
            if isinstance(item, HeaderRows):
                rows = item.rows.tolist()
                found += (("row", *rows[i : i + BATCH_WIDTH]) for i in range(0, item.count * BATCH_WIDTH, BATCH_WIDTH))
            elif isinstance(item, Damage):
                found.append(("damage", item.code, item.position, item.length))
            else:
                assert isinstance(item, BatchProblem)
                found.append(("problem", item.code, item.position, item.size))
    return sorted(found, key=lambda flat: (place_of(flat)[0], flat[0] == "problem")), scan.position


def place_of(flat: tuple[Any, ...]) -> tuple[int, int]:
    at = 1 if flat[0] == "row" else 2
    return flat[at + BATCH_POSITION], flat[at + BATCH_SIZE]


def assert_tiled(found: Flat, size: int) -> None:
    at = 0
    for flat in found:
        if flat[0] != "problem":
            position, length = place_of(flat)
            assert (position, length > 0) == (at, True)
            at += length
    assert at == size


def real_files() -> list[Path]:
    found = [*TESTDATA.glob("kafka-*/*/*/*.log"), *TESTDATA.glob("kafka-*/*/*/*.kafka")]
    found += [*TESTDATA.glob("damaged/*/*/*.log"), *TESTDATA.glob("damaged/*/*/*.kafka")]
    return sorted(path for path in found if 0 < path.stat().st_size < 200_000)


@LEVELS
def test_a_survey_ends_where_its_reader_does(level: int, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(V2)
    whole, end = surveyed(path, level)
    middle = len(whole) // 2
    part, stop = surveyed(path, level, max_bytes=place_of(whole[middle])[0])
    assert part == whole[:middle]
    assert (stop, end) == (place_of(whole[middle])[0], len(V2))


@LEVELS
def test_batches_are_damage_in_a_file_of_messages(level: int, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.kafka"
    path.write_bytes(V2)
    assert {flat[:2] for flat in surveyed(path, level)[0]} == {("damage", "nonsense-block")}


@LEVELS
def test_items_tile_every_real_file(level: int) -> None:
    files = real_files()
    assert len(files) > 60
    for path in files[:: 1 if COMPILED else 5]:
        found, position = surveyed(path, level)
        assert_tiled(found, path.stat().st_size)
        assert position == path.stat().st_size


@pytest.mark.parametrize("level", [FULL, DEEP], ids=["full", "deep"])
def test_items_are_those_of_the_reader(level: int) -> None:
    for path in real_files()[:: 3 if COMPILED else 9]:
        with open_source(str(path)) as source:
            expected: Flat = []
            for item in SegmentReader(source, path.suffix == ".kafka"):
                if isinstance(item, Damage):
                    expected.append(("damage", item.position, item.length))
                else:
                    expected.append(("row", item.position, item.size, item.is_valid))
        found = []
        for flat in surveyed(path, level)[0]:
            if flat[0] == "damage":
                found.append(("damage", *place_of(flat)))
            elif flat[0] == "row":
                found.append(("row", *place_of(flat), bool(flat[1 + BATCH_STATE] & 1)))
        assert found == expected, path


def write(folder: Path, data: bytes) -> Path:
    path = folder / "00000000000000000000.log"
    path.write_bytes(data)
    return path


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes parts and windows of a few batches, so that small files have many of both."""
    monkeypatch.setattr(slices, "PART_BYTES", 3000)
    monkeypatch.setattr(windows, "WINDOW_BYTES", 2048)


@LEVELS
def test_parts_on_threads_are_one_pass(level: int, small_parts: None, tmp_path: Path) -> None:
    path = write(tmp_path, b"".join(sample(name, 3) for name in SAMPLES) * 4)
    alone, together = surveyed(path, level), surveyed(path, level, jobs=3)
    assert alone == together
    assert_tiled(alone[0], path.stat().st_size)


def embedding(payload: bytes, count: int) -> bytes:
    """Returns intact v0 messages whose values are whole segments."""
    return b"".join(message(offset, 0, None, payload) for offset in range(count))


@LEVELS
def test_batches_inside_a_value_are_not_taken_for_parts(level: int, small_parts: None, tmp_path: Path) -> None:
    data = embedding(sample("v2", 2) * 3, 12)
    path = write(tmp_path, data)
    found, position = surveyed(path, level, jobs=3)
    assert [flat[0] for flat in found] == ["row"] * 12
    assert position == len(data)
    assert surveyed(path, level)[0] == found


@given(st.integers(0, 10**6), st.sampled_from([QUICK, FULL, DEEP]), st.booleans())
@example(175, QUICK, True)  # damage at the end of the last part, classified by the offsets before it
def test_damage_anywhere(seed: int, level: int, embeds: bool) -> None:
    between = embedding(sample("v2", 2), 2) if embeds else b""
    data = mutated(random.Random(seed)) + between + mutated(random.Random(seed + 1))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "PART_BYTES", 1500)
        patch.setattr(windows, "WINDOW_BYTES", 1024)
        path = write(Path(folder), data)
        alone, together = surveyed(path, level), surveyed(path, level, jobs=2)
    assert alone == together
    assert_tiled(alone[0], len(data))


@pytest.mark.parametrize("level", [FULL, DEEP], ids=["full", "deep"])
def test_a_part_that_was_begun_in_the_wrong_place_is_dropped(level: int, small_parts: None, tmp_path: Path) -> None:
    """A length that reaches over the start of the next part invalidates the parts after it, not the result."""
    rng = random.Random(4)
    batches = entries(V2) * 6
    data = bytearray(b"".join(batches))
    at = len(b"".join(batches[: len(batches) // 3]))
    data[at + 8 : at + 12] = rng.randrange(5000, 9000).to_bytes(4, "big")
    path = write(tmp_path, bytes(data))
    assert surveyed(path, level, jobs=4) == surveyed(path, level)


def test_a_live_tail_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, V2[:-5])
    found, position = surveyed(path, FULL, live=True)
    assert {flat[0] for flat in found} == {"row"}
    assert position == sum(place_of(flat)[1] for flat in found) < len(V2) - 5


def test_levels_look_as_deep_as_they_say(tmp_path: Path) -> None:
    """A wrong checksum is found from level full on, errors under a valid one only at level deep."""
    case = next((TESTDATA / "damaged").glob("4.3.1-crcok-gzip-payload-garbage/dgzip-0/*.log"))
    kinds = [{flat[0] for flat in surveyed(case, level)[0]} for level in (QUICK, FULL, DEEP)]
    assert kinds == [{"row"}, {"row"}, {"row", "problem"}]
    flipped = bytearray(V2)
    flipped[len(entries(V2)[0]) - 1] ^= 1
    path = write(tmp_path, bytes(flipped))
    first = [surveyed(path, level)[0][0][1 + BATCH_STATE] & 1 for level in (QUICK, FULL, DEEP)]
    assert first == [1, 0, 0]


# Record counts from headers alone, compared with the reader, which reads every record.

LOGS = sorted(TESTDATA.glob("kafka-*/*/*-0/*.log"))


def counted(path: Path) -> int | None:
    """Returns None for a log with a compressed v0 or v1 message, whose header has no record count."""
    if any(part[16] < 2 and part[17] & 7 for part in entries(path.read_bytes())):
        return None
    return sum(len(list(item)) for item in kseg.open(path) if isinstance(item, kseg.Batch))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parts[-4]}-{path.parent.name}-{path.stem[-6:]}")
def test_real_segments(path: Path) -> None:
    assert record_count(str(path)) == counted(path)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(("largest", "problems"), [(-1, 0), (-5, 1)])
def test_the_largest_time_counts_from_minus_one(largest: int, problems: int, is_packed: bool, tmp_path: Path) -> None:
    """As Kafka does (NO_TIMESTAMP), whatever the codec; records before 1970 have no larger one."""
    records, path = [record(0), record(1)], tmp_path / f"{0:020d}.log"
    packed = {"attributes": 1, "count": 2, "last_delta": 1} if is_packed else {}
    data = [gzip.compress(b"".join(records))] if is_packed else records
    path.write_bytes(batch(data, base_timestamp=-5, max_timestamp=largest, **packed))
    found = [flat[1] for flat in surveyed(path, DEEP)[0] if flat[0] == "problem"]
    assert found == ["max-timestamp-mismatch"] * problems


def test_batches_that_are_larger_than_a_look(tmp_path: Path) -> None:
    small = sample("v2", 1)
    large = bytearray(small + bytes(12 << 10))
    large[8:12] = (len(large) - 12).to_bytes(4, "big")
    path = tmp_path / "0.log"
    path.write_bytes(small + large + small + large)
    one = int.from_bytes(small[57:61], "big")
    assert record_count(str(path)) == 4 * one
    path.write_bytes((small + large)[:-1])
    assert record_count(str(path)) is None


@pytest.mark.parametrize("junk", [b"\0", b"\0" * 100, b"\xff" * 4096])
def test_damage_is_not_counted(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(sample("v2") + junk)
    assert record_count(str(path)) is None
    path.write_bytes(b"")
    assert record_count(str(path)) == 0
