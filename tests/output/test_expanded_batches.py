"""Compressed batches that the kernel decompresses are printed as if Python decompressed each."""

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
