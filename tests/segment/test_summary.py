"""The summary of a segment compared with a count record by record, for every real segment of testdata."""

import os
import random
import statistics
from itertools import pairwise
from pathlib import Path

import pytest

from kseg.formats.rows import Scratch, UndecodableError
from kseg.kernel.scan.checksums import crc32c
from kseg.kernel.state import tally
from kseg.segment import summary as module
from kseg.segment.items import Damage, Message07
from kseg.segment.reader import SegmentReader
from kseg.segment.summary import LogSummary, ratio_of
from kseg.stores.source import open_source
from segment.reading import items_at
from segment.segments import TESTDATA

SEGMENTS = sorted(
    path
    for path in [*TESTDATA.glob("**/*.log"), *TESTDATA.glob("**/*.kafka")]
    if path.is_file() and path.stat().st_size < 200_000
)


def summarize(path: Path) -> LogSummary:
    found = LogSummary(Scratch())
    with open_source(str(path)) as source:
        reader = SegmentReader(source, path.suffix == ".kafka")
        found.add_file(source.size)
        for item in reader.runs():
            if isinstance(item, Damage):
                found.add_damage(item)
            else:
                found.add_run(reader, item)
    return found


def whole_records(batch):
    """Returns the records of a batch, and whether they are complete."""
    try:
        for _ in batch.rows():
            pass
    except UndecodableError:
        return list(batch), False
    return list(batch), True


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_numbers_are_those_of_the_records(path: Path) -> None:
    compare(path)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(80))
def test_numbers_are_those_of_the_records_of_mutated_segments(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    source = chance.choice(SEGMENTS)
    data = bytearray(source.read_bytes()[:8000])
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(data) + 1)
        data[at : at + chance.choice((0, 1, 1, 1, 20))] = bytes([chance.choice((0, 1, 128, 255))])
        make_right(data, source.suffix)
    path = tmp_path / f"00000000000000000000{source.suffix}"
    path.write_bytes(data)
    compare(path)


def make_right(data: bytearray, suffix: str) -> None:
    """Gives every v2 batch a valid CRC, so that malformed records come with valid checksums."""
    at = 0
    while suffix == ".log" and len(data) - at > 61 and data[at + 16] == 2:
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if not at + 61 <= end <= len(data):
            return
        data[at + 17 : at + 21] = crc32c(bytes(data[at + 21 : end])).to_bytes(4, "big")
        at = end


def compare(path: Path) -> None:
    found = summarize(path)
    count = found.counters()
    items = list(items_at(path))
    batches = [item for item in items if not isinstance(item, Damage)]
    damage = [item for item in items if isinstance(item, Damage)]
    valid = [batch for batch in batches if batch.is_valid]
    opened = [(batch, *whole_records(batch)) for batch in valid]
    records = [record for batch, part, _ in opened if not batch.is_control for record in part]
    control = [record for batch, part, _ in opened if batch.is_control for record in part]
    keys = {record.key for record in records if record.key is not None}
    every = [record for _, part, _ in opened for record in part]
    assert (found.files, found.bytes) == (1, path.stat().st_size)
    wrong = [batch for batch in batches if batch.problems]
    assert found.damaged_bytes == sum(item.length for item in damage) + sum(batch.size for batch in wrong)
    assert count["batches"] == len(batches)
    assert (count["records"], count["control_records"]) == (len(records), len(control))
    assert count["null_keys"] == sum(record.key is None for record in records)
    assert count["tombstones"] == sum(record.key is not None and record.value is None for record in records)
    assert count["headers"] == sum(len(record.headers) for record in records)
    assert found.as_object()["distinctKeys"] == {"count": len(keys), "isExact": True}
    times = [record.timestamp for record in every if record.timestamp is not None and record.timestamp >= 0]
    assert count["with_timestamp"] == len(times)
    if times:
        assert (count["least_timestamp"], count["largest_timestamp"]) == (min(times), max(times))
    assert sum(form["batches"] for form in found.forms()) == len(valid)
    assert sum(form["records"] for form in found.forms()) == len(every)
    assert sum(form["bytes"] for form in found.forms()) == sum(batch.size for batch in valid)
    assert sum(found.problems.values()) == (
        len(batches) - len(valid) + sum(not whole for *_, whole in opened) + sum(len(batch.passed()) for batch in valid)
    )
    sizes = [len(record.value) for record in records if record.value is not None]
    values = found.distribution("value_sizes")
    if not sizes:
        assert values is None
    else:
        assert values is not None
        assert [values[name] for name in ("count", "total", "least", "largest")] == [
            len(sizes), sum(sizes), min(sizes), max(sizes)
        ]  # fmt: skip
        assert values["median"] == pytest.approx(statistics.median_low(sizes), rel=1 / 50, abs=0)
    if every and not isinstance(valid[0], Message07):
        offsets = [record.offset for record in every]
        steps = [(b, a) for a, b in pairwise(offsets)]
        assert (count["first_offset"], count["last_offset"]) == (offsets[0], offsets[-1])
        assert count["missing_offsets"] == sum(b - a - 1 for b, a in steps if b > a >= 0)
        assert count["gaps"] == sum(b > a + 1 > 0 for b, a in steps)
        assert count["steps_back"] == sum(b <= a for b, a in steps)


def test_ratio_of_a_compressed_segment() -> None:
    path = TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0/00000000000000000000.log"
    (form,) = [form for form in summarize(path).forms() if form["compression"] == "gzip"]
    packed, unpacked = form["recordBytes"], form["uncompressedRecordBytes"]
    assert ratio_of(form) == unpacked / packed
    assert form["ratio"] == round(unpacked / packed, 3)
    assert unpacked > packed


def test_many_different_keys_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEYS_TABLE", 1 << 10)
    found = LogSummary()
    for i in range(60_000):
        tally.add(found._keys, b"key-%d" % i)
    keys = found.as_object()["distinctKeys"]
    assert not keys["isExact"]
    assert keys["count"] == pytest.approx(60_000, rel=0.03)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux has /proc/self/statm")
def test_a_summary_of_few_keys_takes_little_memory() -> None:
    before, found = resident_bytes(), []
    for _ in range(16):
        found.append(LogSummary())
        for i in range(10):
            tally.add(found[-1]._keys, b"key-%d" % i)
    assert resident_bytes() - before < 8 * module.KEYS_TABLE * len(found) / 8
    assert {summary.as_object()["distinctKeys"]["count"] for summary in found} == {10}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
