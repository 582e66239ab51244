"""Segments of Redpanda: Kafka's batches under headers of another byte order with a checksum of their own."""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from cli.command import Kseg, findings_of
from kernel.rendering import record

TIME = 1_700_000_000_000
COUNT = 3
PER_BATCH = 3


def frame(base: int) -> bytes:
    payload = b"".join(record(i, key=b"k%d" % (base + i), value=b"v" * 20) for i in range(PER_BATCH))
    fields = (0, PER_BATCH - 1, TIME, TIME, -1, -1, -1, PER_BATCH)
    crc = crc32c(struct.pack(">hiqqqhii", *fields) + payload)
    header = struct.pack("<iqbIhiqqqhii", 61 + len(payload), base, 1, crc, *fields)
    return struct.pack("<I", crc32c(header)) + header + payload


FRAMES = [frame(i * PER_BATCH) for i in range(COUNT)]
SECOND = len(FRAMES[0])
SEGMENT = b"".join(FRAMES)


def write(tmp_path: Path, data: bytes, name: str = "0-7-v1.log") -> Path:
    path = tmp_path / "t" / "0_12" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def verified(kseg: Kseg, path: Path) -> list[tuple[str, int | None, int | None]]:
    return [(row["code"], row["position"], row["length"]) for row in findings_of(kseg, "--level", "deep", path)]


NAMED = ("redpanda-segment", None, None)


@pytest.mark.parametrize("name", ["0-7-v1.log", f"{0:020d}.log"])
def test_a_segment_is_named_and_read(kseg: Kseg, tmp_path: Path, name: str) -> None:
    path = write(tmp_path, SEGMENT, name)
    assert verified(kseg, path) == [NAMED]
    done = kseg("dump", "--print-data-log", "--format", "json", path).expect(0, "redpanda-segment")
    batches = done.of_type("batch")
    assert [row["position"] for row in batches] == [0, SECOND, 2 * SECOND]
    assert all(row["isValid"] and row["partitionLeaderEpoch"] == (7 if "-" in name else None) for row in batches)
    assert [row["key"] for row in done.of_type("record")] == [f"k{i}" for i in range(COUNT * PER_BATCH)]


@pytest.mark.parametrize("at", [0, 4, 5, 7, 8, 15, 16, 17, 21, 23, 30, 57, 60, 61, 100])
def test_a_flipped_bit_is_found_in_its_batch(kseg: Kseg, tmp_path: Path, at: int) -> None:
    data = bytearray(SEGMENT)
    data[SECOND + at] ^= 4
    found = verified(kseg, write(tmp_path, bytes(data)))
    assert (found[0], found[-1]) == (("crc-mismatch", SECOND, SECOND), NAMED)


def test_a_damaged_first_header_under_a_name_of_redpanda(kseg: Kseg, tmp_path: Path) -> None:
    assert verified(kseg, write(tmp_path, b"?" + SEGMENT[1:])) == [("crc-mismatch", 0, SECOND), NAMED]


@pytest.mark.parametrize("left", [1, 30, 60, 61, 80])
def test_a_cut_batch(kseg: Kseg, tmp_path: Path, left: int) -> None:
    path = write(tmp_path, SEGMENT[: 2 * SECOND + left])
    assert verified(kseg, path) == [("truncated-batch", 2 * SECOND, left), NAMED]


def test_bytes_that_are_no_batch(kseg: Kseg, tmp_path: Path) -> None:
    path = write(tmp_path, FRAMES[0] + b"garbage" * 30 + FRAMES[1] + FRAMES[2] + b"rubbish" * 30)
    size = path.stat().st_size
    assert verified(kseg, path) == [("crc-mismatch", SECOND, 210), ("truncated-batch", size - 210, 210), NAMED]


@pytest.mark.parametrize(
    ("base", "name"), [((1 << 63) - PER_BATCH, "0-7-v1.log"), (0, f"{'9' * 40}-7-v1.log")], ids=["offset", "name"]
)
def test_no_offset_is_above_the_largest(kseg: Kseg, tmp_path: Path, base: int, name: str) -> None:
    assert verified(kseg, write(tmp_path, (frame(base) if base else b"") + b"garbage" * 30, name))[-1] == NAMED


def test_preallocated_zeros(kseg: Kseg, tmp_path: Path) -> None:
    assert verified(kseg, write(tmp_path, SEGMENT + bytes(1 << 21))) == [("zero-block", len(SEGMENT), 1 << 21), NAMED]


@pytest.mark.parametrize("words", [("recover",), ("reindex",), ("compact",), ("retain",), ("convert", "--in-place")])
def test_nothing_is_changed(kseg: Kseg, tmp_path: Path, words: tuple[str, ...]) -> None:
    path = write(tmp_path, SEGMENT)
    for place in (path, path.parent):
        kseg(*words, place).expect(3, "Redpanda")
    if words[0] in ("recover", "reindex"):
        kseg(*words, "--output", tmp_path / "new", path).expect(3, "is no directory; give a partition or log directory")
    assert path.read_bytes() == SEGMENT
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_directory(kseg: Kseg, tmp_path: Path) -> None:
    directory = write(tmp_path, SEGMENT).parent
    assert verified(kseg, directory) == [NAMED]
    kseg("dump", directory).expect(3, "segments of Redpanda in it")


def test_conversion_to_kafka(kseg: Kseg, tmp_path: Path) -> None:
    assert kseg("convert", "--output", tmp_path / "out", write(tmp_path, SEGMENT)).status == 0
    (made,) = (tmp_path / "out").glob("*/*.log")
    assert verified(kseg, made) == []
    assert made.stat().st_size == len(SEGMENT)
