"""The hex view: no byte is left out or shown wrong, whatever the bytes are, and fields say what they mean."""

import gzip
import random
import re
import struct
from pathlib import Path

import pytest

from kernel.rendering import varint
from kseg.formats.rows import Scratch
from kseg.output.hex_view import HexPrinter
from kseg.output.notices import Paint
from kseg.output.terminal import display_width
from output.feeding import SEGMENTS, TESTDATA, MemorySink, feed
from segment.segments import sealed
from verification.partitions import message, of_records, plain_record

LINE = re.compile(r"^ *(\d+)  ((?:[0-9a-f]{8} )*[0-9a-f]{2,8})(?:  |$)")
ZEROS = re.compile(r"^ *(\d+)  \.\.\. (\d+) zero bytes$")
EVERYTHING = (0, 1 << 62)
TRANSACTIONS = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0/00000000000000001187.log"
DAMAGED = TESTDATA / "damaged/4.3.1-mid-append-zeros4096"


def view(path: Path, **options) -> list[str]:
    sink = MemorySink()
    scratch = Scratch(1 << 20)
    feed(HexPrinter(sink, scratch, **options), path, scratch=scratch)
    return sink.lines


def bytes_shown(lines: list[str]) -> dict[int, int]:
    """Position to byte of all lines about the file itself; a position shown twice must be shown alike."""
    shown: dict[int, int] = {}
    for line in lines[1:]:
        zeros, found = ZEROS.match(line), LINE.match(line)
        if zeros:
            data = bytes(int(zeros[2]))
            position = int(zeros[1])
        elif found and line[10:12] == "  ":
            data, position = bytes.fromhex(found[2]), int(found[1])
        else:
            continue
        for at, byte in enumerate(data, position):
            assert at not in shown, line
            shown[at] = byte
    return shown


@pytest.mark.sampled(56)
@pytest.mark.parametrize("path", SEGMENTS, ids=lambda path: str(path.relative_to(TESTDATA)))
def test_every_byte_is_shown_once_in_80_columns(path: Path) -> None:
    lines, data = view(path, positions=EVERYTHING, unpacked=True), path.read_bytes()
    shown = bytes_shown(lines)
    assert sorted(shown) == list(range(len(data)))
    assert bytes(shown[at] for at in range(len(data))) == data
    assert [line for line in lines[1:] if display_width(line) > 80] == []
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(100))
def test_every_byte_of_a_mutated_segment_is_shown_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    source = chance.choice(SEGMENTS)
    data = bytearray(source.read_bytes()[:6000])
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(max(len(data), 1))
        if chance.random() < 0.7:
            data[at : at + 1] = bytes([chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))])
        elif chance.random() < 0.5:
            del data[at : at + chance.randrange(40)]
        else:
            data[at:at] = bytes(chance.randrange(200))
    path = tmp_path / f"00000000000000000000{source.suffix}"
    path.write_bytes(data)
    shown = bytes_shown(view(path, positions=EVERYTHING, unpacked=True))
    assert sorted(shown) == list(range(len(data)))
    assert bytes(shown[at] for at in range(len(data))) == bytes(data)


@pytest.mark.parametrize("data", ["sets", "records", "headers"])
def test_compressed_contents_are_shown_to_a_limit(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few KiB may hold millions of messages, records or headers."""
    monkeypatch.setattr("kseg.output.hex_view.UNPACKED_ENTRIES", 1_000)
    if data == "sets":
        inner = message(0, b"") * 2_000
        made = message(1_999, gzip.compress(inner), attributes=1)
    else:
        area = plain_record(0) * 2_000
        if data == "headers":
            body = b"\0\0\0\1\1" + varint(2_000) + b"\0\1" * 2_000
            area = varint(len(body)) + body
        made = of_records([gzip.compress(area)], 1_999, attributes=1)
        made = sealed(made[:57] + struct.pack(">i", 1 if data == "headers" else 2_000) + made[61:])
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(made)
    lines = view(path, unpacked=True)
    assert any("are not shown" in line for line in lines)
    assert len(lines) < 15_000


def test_batches_with_problems_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(of_records([plain_record(0)], 0) + of_records([plain_record(0), b"\2\0"], 1))
    printer = HexPrinter(MemorySink(), Scratch(1 << 20))
    feed(printer, path)
    assert printer.errors == 1


def test_no_colour_unless_it_is_asked_for() -> None:
    assert not any("\x1b" in line for line in view(TRANSACTIONS))
    assert any("\x1b[36m" in line for line in view(TRANSACTIONS, paint=Paint("always")))
    assert not any("\x1b" in line for line in view(TRANSACTIONS, paint=Paint("never", is_terminal=True)))
