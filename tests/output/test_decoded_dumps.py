"""Dumps of internal topics: records decoded by the kernel look the same as with the Python decoders."""

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from kseg.decoders import FOR_TOPIC, decoder
from kseg.formats.rows import Scratch
from kseg.output.jsonl import JsonLinesPrinter
from kseg.output.kafka_text import KafkaTextPrinter
from kseg.output.printer import Style
from output.feeding import TESTDATA, MemorySink, feed
from segment.segments import entries, sealed

SEGMENTS = sorted(path for path in TESTDATA.glob("kafka-*/*/__*/*.log") if path.stat().st_size)
OFFSETS = [path for path in SEGMENTS if path.match("internal/__consumer_offsets-*/*.log")]
FORMS = [(KafkaTextPrinter, False), (KafkaTextPrinter, True), (JsonLinesPrinter, False)]
FORM_NAMES = ["text", "skip", "json"]


class WithoutProgram:
    """A decoder without a program for the kernel."""

    def __init__(self, name: str) -> None:
        self.decode = decoder(name).decode


class Counting(WithoutProgram):
    """A decoder with a program that counts the records left to Python."""

    def __init__(self, name: str) -> None:
        made = decoder(name)
        self.program = getattr(made, "program", None)
        self.left = 0

        def decode(*arguments: Any) -> Any:
            self.left += 1
            return made.decode(*arguments)

        self.decode = decode


def name_of(segment: Path) -> str:
    return FOR_TOPIC[segment.parent.name.rpartition("-")[0]]


def dumped(form: Any, skip: bool, made: Any, *paths: Path, is_terminal: bool = False) -> bytes:
    sink = MemorySink(is_terminal)
    printer = form(sink, Style(True, True, skip, is_terminal, made), Scratch())
    feed(printer, *paths)
    return bytes(sink.written)


def compressed(batch: bytes) -> bytes:
    """Returns the batch with its records compressed with gzip."""
    packer = zlib.compressobj(wbits=31)
    body = batch[21:22] + bytes([batch[22] | 1]) + batch[23:61] + packer.compress(batch[61:]) + packer.flush()
    return sealed(batch[:8] + struct.pack(">i", len(body) + 9) + batch[12:21] + body)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form, skip", FORMS, ids=FORM_NAMES)
@pytest.mark.parametrize("segment", SEGMENTS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_real_segments(segment: Path, form: Any, skip: bool) -> None:
    counting = Counting(name_of(segment))
    assert dumped(form, skip, counting, segment) == dumped(form, skip, WithoutProgram(name_of(segment)), segment)
    if counting.program is not None and name_of(segment) != "cluster-metadata":
        # In "committed", one metadata string needs escapes that only Python writes; it is left to Python twice.
        assert counting.left <= 2 * ("committed/__consumer_offsets-1" in segment.as_posix())


@pytest.mark.parametrize("form, skip", FORMS, ids=FORM_NAMES)
def test_compressed_batches(form: Any, skip: bool, tmp_path: Path) -> None:
    packed = tmp_path / OFFSETS[0].name
    packed.write_bytes(b"".join(map(compressed, entries(OFFSETS[0].read_bytes()))))
    counting = Counting("offsets")
    shown = dumped(form, skip, counting, packed)
    assert shown.count(b"currentStateTimestamp") > 5
    assert shown == dumped(form, skip, WithoutProgram("offsets"), packed)
    assert counting.left == 0


@pytest.mark.parametrize("form, skip", FORMS, ids=FORM_NAMES)
def test_damaged_segments(form: Any, skip: bool, tmp_path: Path) -> None:
    """Bytes changed all over the file, with the old checksum and with a corrected one."""
    data = bytearray(OFFSETS[-1].read_bytes())
    for at in range(70, len(data), 997):
        data[at] ^= 0x55
    broken = tmp_path / f"{0:020}.log"
    right = tmp_path / f"{1:020}.log"
    broken.write_bytes(data)
    changed_batches = []
    for n, batch in enumerate(entries(OFFSETS[-1].read_bytes())):
        changed = bytearray(batch)
        changed[61 + n % (len(batch) - 61)] ^= 1 << n % 8
        changed_batches.append(sealed(bytes(changed)))
    right.write_bytes(b"".join(changed_batches))
    counting = Counting("offsets")
    assert dumped(form, skip, counting, broken, right) == dumped(form, skip, WithoutProgram("offsets"), broken, right)
    assert counting.left > 5


def test_a_terminal_is_given_no_control_characters(tmp_path: Path) -> None:
    data = OFFSETS[0].read_bytes().replace(b"grp-", b"g\xc2\x9b-")
    changed = tmp_path / OFFSETS[0].name
    changed.write_bytes(b"".join(map(sealed, entries(data))))
    raw = dumped(KafkaTextPrinter, False, decoder("offsets"), changed)
    shown = dumped(KafkaTextPrinter, False, decoder("offsets"), changed, is_terminal=True)
    assert raw.count(b'"group":"g\xc2\x9b-') == shown.count(rb'"group":"g\x9b-') > 10
    assert b"\x9b" not in shown
    assert b"isvalid: false" not in raw
