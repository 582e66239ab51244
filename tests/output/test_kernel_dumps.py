"""The kernel prints compressed batches and records of internal topics as Python does."""

import struct
import zlib
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import batch, record
from kseg.decoders import FOR_TOPIC, decoder
from kseg.formats.compression import expansion_buffer
from kseg.formats.rows import Scratch
from kseg.kernel import COMPILED
from kseg.output import printer as printers
from kseg.output.jsonl import JsonLinesPrinter
from kseg.output.kafka_text import KafkaTextPrinter
from kseg.output.printer import Style
from output.feeding import SEGMENTS, TESTDATA, MemorySink, feed
from segment.segments import entries, sealed

FORMS = [(KafkaTextPrinter, False), (KafkaTextPrinter, True), (JsonLinesPrinter, False)]
FORM_NAMES = ["text", "skip", "json"]
PACKED = {3: lambda data: lz4.frame.compress(data, block_linked=False), 4: zstandard.ZstdCompressor().compress}


def printed(
    form: Any, skip: bool, made: Any, *paths: Path, is_terminal: bool = False, limit: int | None = None,
    ceiling: int = 256 << 20,
) -> tuple[bytes, int, int]:  # fmt: skip
    """Returns the dump, the number of errors, and the number of batches that the kernel skips. ``limit``: bytes into
    which it may decompress a batch; ``ceiling``: those into which Python may."""
    sink = MemorySink(is_terminal)
    printer = form(sink, Style(True, True, skip, is_terminal, made), Scratch(ceiling))
    if limit is not None:
        printer._expansion = expansion_buffer(limit)
    with patch.object(printer, "batch", wraps=printer.batch) as skipped:
        feed(printer, *paths)
    return bytes(sink.written), printer.errors, skipped.call_count


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("form", "skip"), FORMS, ids=FORM_NAMES)
def test_real_segments(form: Any, skip: bool) -> None:
    paths = [*SEGMENTS, *sorted(TESTDATA.glob("speed/*.log"))]
    found, alone = (printed(form, skip, None, *paths, limit=limit) for limit in (None, 1))
    assert found[:2] == alone[:2]
    assert not COMPILED or found[2] < alone[2] - 20


@pytest.mark.parametrize(("form", "skip"), FORMS, ids=FORM_NAMES)
def test_internal_topics(form: Any, skip: bool) -> None:
    for path in sorted(TESTDATA.glob("kafka-*/*/__*/*.log")):
        if path.stat().st_size:
            made = decoder(FOR_TOPIC[path.parent.name.rpartition("-")[0]])
            assert printed(form, skip, made, path)[:2] == printed(form, skip, made, path, limit=1)[:2]


_records = st.lists(
    st.tuples(st.none() | st.binary(max_size=9), st.binary(max_size=60) | st.just(b"x" * 5000), st.integers(0, 3)),
    max_size=20,
)
_batches = st.lists(
    st.tuples(
        _records,
        st.sampled_from([0, 3, 4]),
        st.sampled_from([0, 8, 16, 16 + 32, 64]),
        st.sampled_from([None, None, None, "count", "bytes", "area", "more"]),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=12,
)


def segment(found: Any) -> bytes:
    """Returns batches, some of them with errors that the checksums do not reveal."""
    data, offset = b"", 0
    for records, codec, attributes, wrong, where in found:
        area = bytearray()
        for k, (key, value, headers) in enumerate(records):
            area += record(k, 0, key, value, [(b"h", b"\xff\n")] * headers)
        count = len(records)
        if wrong == "count":
            count += 1 - 2 * (where & 1)
        elif wrong == "bytes" and area:
            area[where % len(area)] ^= 1 << where % 8
        elif wrong == "more":
            area += b"rest"
        packed = bytearray(PACKED[codec](bytes(area)) if codec else area)
        if wrong == "area" and packed:
            packed[where % len(packed)] ^= 1 << where % 8
        data += batch(
            [bytes(packed)], offset, codec | attributes, 5, 5, 3, 7, epoch=1, leader_epoch=2, count=count,
            last_delta=max(count - 1, 0),
        )  # fmt: skip
        offset += max(len(records), 1) + 1
    return data


@given(_batches, st.booleans(), st.sampled_from([4096, 5000, 1 << 20]), st.sampled_from([1000, 20_000]), st.data())
def test_any_batches(found: Any, is_terminal: bool, out_bytes: int, limit: int, data: Any) -> None:
    import tempfile

    form, skip = data.draw(st.sampled_from(FORMS))
    is_terminal = is_terminal and form is KafkaTextPrinter
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        path = Path(folder, f"{0:020}.log")
        path.write_bytes(segment(found))
        expected = printed(form, skip, None, path, is_terminal=is_terminal, limit=1)[:2]
        patched.setattr(printers, "OUTPUT_BYTES", out_bytes)
        assert printed(form, skip, None, path, is_terminal=is_terminal, limit=limit)[:2] == expected


@pytest.mark.parametrize(("form", "skip"), FORMS, ids=FORM_NAMES)
def test_a_batch_that_expands_beyond_the_ceiling_stands_between_others(form: Any, skip: bool, tmp_path: Path) -> None:
    small, large = [(b"k", b"v", 0)], [(b"k", b"v" * 100_000, 0)] * 3
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(segment([(records, 4, 0, None, 0) for records in (small, small, large, small)]))
    found, alone = (printed(form, skip, None, path, limit=limit, ceiling=200_000)[:2] for limit in (200_000, 1))
    assert found == alone
    assert found[1] == 1


INTERNAL = sorted(path for path in TESTDATA.glob("kafka-*/*/__*/*.log") if path.stat().st_size)
OFFSETS = [path for path in INTERNAL if path.match("internal/__consumer_offsets-*/*.log")]


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


def decoder_of(segment: Path) -> str:
    return FOR_TOPIC[segment.parent.name.rpartition("-")[0]]


def dumped(form: Any, skip: bool, made: Any, *paths: Path, is_terminal: bool = False) -> bytes:
    return printed(form, skip, made, *paths, is_terminal=is_terminal)[0]


def compressed(batch: bytes) -> bytes:
    """Returns the batch with its records compressed with gzip."""
    packer = zlib.compressobj(wbits=31)
    body = batch[21:22] + bytes([batch[22] | 1]) + batch[23:61] + packer.compress(batch[61:]) + packer.flush()
    return sealed(batch[:8] + struct.pack(">i", len(body) + 9) + batch[12:21] + body)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form, skip", FORMS, ids=FORM_NAMES)
@pytest.mark.parametrize("segment", INTERNAL, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_real_internal_topics(segment: Path, form: Any, skip: bool) -> None:
    counting = Counting(decoder_of(segment))
    assert dumped(form, skip, counting, segment) == dumped(form, skip, WithoutProgram(decoder_of(segment)), segment)
    if counting.program is not None and decoder_of(segment) != "cluster-metadata":
        # In "committed", one metadata string needs escapes that only Python writes; it is left to Python twice.
        assert counting.left <= 2 * ("committed/__consumer_offsets-1" in segment.as_posix())


@pytest.mark.parametrize("form, skip", FORMS, ids=FORM_NAMES)
def test_compressed_batches_of_internal_topics(form: Any, skip: bool, tmp_path: Path) -> None:
    packed = tmp_path / OFFSETS[0].name
    packed.write_bytes(b"".join(map(compressed, entries(OFFSETS[0].read_bytes()))))
    counting = Counting("offsets")
    shown = dumped(form, skip, counting, packed)
    assert shown.count(b"currentStateTimestamp") > 5
    assert shown == dumped(form, skip, WithoutProgram("offsets"), packed)
    assert counting.left == 0


@pytest.mark.parametrize("form, skip", FORMS, ids=FORM_NAMES)
def test_damaged_internal_topics(form: Any, skip: bool, tmp_path: Path) -> None:
    """Bytes changed all over the file, with the old checksum and with a corrected one."""
    data = bytearray(OFFSETS[-1].read_bytes())
    for at in range(70, len(data), 997):
        data[at] ^= 0x55
    broken = tmp_path / f"{0:020}.log"
    right = tmp_path / f"{1:020}.log"
    broken.write_bytes(data)
    changed_batches = []
    for n, intact in enumerate(entries(OFFSETS[-1].read_bytes())):
        changed = bytearray(intact)
        changed[61 + n % (len(intact) - 61)] ^= 1 << n % 8
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
