"""Lines for batches that only damage produces, as DumpLogSegments of Kafka 4.3.1 prints the same bytes."""

import gzip
import struct
import zlib
from pathlib import Path

import pytest

from kernel.rendering import batch, record
from kseg.cli.main import main
from kseg.formats.record_batch import parse_header


def dumped(tmp_path: Path, data: bytes, *flags: str) -> tuple[list[str], int]:
    """Returns the lines after the two header lines, and the exit status."""
    path, output = tmp_path / "00000000000000000000.log", tmp_path / "lines"
    path.write_bytes(data)
    command = ["dump", "--quiet", "-o", str(output), *flags, str(path)]
    status = main.main(command, prog_name="kseg", standalone_mode=False)
    return output.read_text().splitlines()[2:], status


def sized(data: bytes | None, size: int | None = None) -> bytes:
    """Returns key or value of a v0 or v1 message; ``size`` is written instead of the true size."""
    true = -1 if data is None else len(data)
    return struct.pack(">i", true if size is None else size) + (data or b"")


def message(offset: int, magic: int, attributes: int, fields: bytes, change: int = 0) -> bytes:
    """Returns a message; ``change`` is added to its CRC."""
    body = struct.pack(">bB", magic, attributes) + (struct.pack(">q", 5) if magic else b"") + fields
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body) ^ change) + body


def wrapper(offset: int, magic: int, *inner: bytes) -> bytes:
    return message(offset, magic, 1, sized(None) + sized(gzip.compress(b"".join(inner), mtime=0)))


PLAIN = sized(b"k") + sized(b"v")


def test_impossible_sizes_are_printed_unchanged(tmp_path: Path) -> None:
    data = message(7, 0, 0, sized(b"k") + sized(b"v", 4097), change=1) + message(8, 0, 0, PLAIN)
    (_, odd, _, plain), status = dumped(tmp_path, data, "--deep-iteration")
    assert odd == "| offset: 7 NoTimestampType: -1 keySize: 1 valueSize: 4097 isValid: false crc: 63599739"
    assert plain == "| offset: 8 NoTimestampType: -1 keySize: 1 valueSize: 1 isValid: true crc: 535615242"
    assert status == 1


def test_an_impossible_size_under_a_valid_crc_is_reported(tmp_path: Path) -> None:
    data = wrapper(7, 0, message(6, 0, 0, sized(b"k") + sized(b"v", 4097)), message(7, 0, 0, PLAIN))
    lines, status = dumped(tmp_path, data, "--deep-iteration")
    assert [line.split(" isValid")[0] for line in lines[1:]] == [
        "| offset: 6 NoTimestampType: -1 keySize: 1 valueSize: 4097",
        "| offset: 7 NoTimestampType: -1 keySize: 1 valueSize: 1",
    ]
    assert status == 1


def test_contents_of_impossible_size_are_not_printed(tmp_path: Path) -> None:
    data = message(7, 0, 0, sized(b"k") + sized(b"v", 4097), change=1) + message(8, 0, 0, PLAIN)
    lines, _ = dumped(tmp_path, data, "--print-data-log")
    assert lines[1] == "| damage: undecodable-records position: 0 length: 28"
    assert lines[3].endswith(" key: k payload: v")


def test_a_negative_size_is_null_but_printed_unchanged(tmp_path: Path) -> None:
    data = wrapper(3, 1, message(0, 1, 0, sized(None, -100) + sized(None, -(1 << 31))), message(1, 1, 0, PLAIN))
    lines, _ = dumped(tmp_path, data, "--print-data-log")
    assert lines[1].startswith("| offset: 2 CreateTime: 5 keySize: -100 valueSize: -2147483648 isValid: true crc: ")
    assert "payload" not in lines[1]
    assert lines[2].endswith(" key: k payload: v")


def test_inner_messages_of_any_magic_but_0_have_the_layout_of_1(tmp_path: Path) -> None:
    lines, _ = dumped(tmp_path, wrapper(1, 0, message(0, 0, 0, PLAIN), message(1, 3, 0, PLAIN)), "--deep-iteration")
    assert lines[2].startswith("| offset: 1 NoTimestampType: 5 keySize: 1 valueSize: 1 isValid: true crc: ")


def test_relative_offsets_wrap_as_longs_do(tmp_path: Path) -> None:
    lines, _ = dumped(tmp_path, wrapper((1 << 63) - 1, 1, message(-2, 1, 0, PLAIN)), "--deep-iteration")
    assert lines[1].startswith("| offset: 9223372036854775807 CreateTime: 5 ")


def test_the_sequence_of_a_record_before_its_batch(tmp_path: Path) -> None:
    data = batch([record(-43)], 313, 0, 1000, 1000, 286, 7, epoch=0)
    lines, _ = dumped(tmp_path, data, "--deep-iteration")
    assert lines[1] == ("| offset: 270 CreateTime: 1000 keySize: -1 valueSize: -1 sequence: -2147483405 headerKeys: []")


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [
        (0, 1, 1),
        (2147483647, 1, 0),
        (-1, 1, -1),
        (-(1 << 31), 1, -2147483647),
        (-(1 << 31), -1, 2147483647),
        (5, -6, 2147483647),
    ],
)
def test_the_last_sequence_is_kafkas_in_header_and_text(tmp_path: Path, base: int, delta: int, last: int) -> None:
    data = batch([record(0)], 313, 0, 1000, 1000, base, 7, epoch=0, last_delta=delta)
    lines, _ = dumped(tmp_path, data)
    assert f" baseSequence: {base} lastSequence: {last} " in lines[0]
    assert parse_header(data).last_sequence == last


def test_bytes_after_max_bytes_are_not_reported(tmp_path: Path) -> None:
    parts = [message(offset, 0, 0, PLAIN) for offset in range(3)]
    data = b"".join(parts)[:-5]
    told, status = dumped(tmp_path, data)
    assert (told[2], status) == ("Found 23 invalid bytes at the end of 00000000000000000000.log", 1)
    assert dumped(tmp_path, data, "--max-bytes", "2147483647") == (told, 1)
    assert dumped(tmp_path, data, "--max-bytes", "1000") == (told[:2], 1)  # no line, but the file does end in damage
    assert dumped(tmp_path, data, "--max-bytes", "70") == (told[:2], 0)
    assert dumped(tmp_path, data[:-12] + b"\xff" * 6, "--max-bytes", "60") == (told[:2], 0)
