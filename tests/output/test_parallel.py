"""Several threads print the same bytes as one, and nothing is left after an error."""

import random
import threading
import tracemalloc
from functools import partial

import pytest

from cleaner.building import NewRecord, build_record_batch
from kernel.rendering import batch, record
from kseg.decoders import decoder
from kseg.formats.rows import Scratch
from kseg.kernel import COMPILED
from kseg.limits import LARGEST_BUFFER_BYTES
from kseg.output.jsonl import JsonLinesPrinter
from kseg.output.kafka_text import KafkaTextPrinter
from kseg.output.printer import SERIAL_BYTES, ParallelPrinter, Style
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from output.feeding import MemorySink, feed

STYLE = Style(deep=True, contents=True)


class Memory(MemorySink):
    """A sink in memory that fails after ``limit`` bytes."""

    def __init__(self, limit=1 << 62):
        super().__init__()
        self.limit = limit

    def _write_all(self, view):
        if len(self.data) + len(view) > self.limit:
            raise BrokenPipeError
        super()._write_all(view)


@pytest.fixture(scope="module")
def segment(tmp_path_factory, request):
    """Several MiB: uncompressed and compressed batches, and damage between them."""
    seeds = request.config.rootpath / "testdata" / "speed"
    parts = [(seeds / f"{kind}.log").read_bytes() for kind in ("tiny", "100b", "lz4", "1k", "zstd")]
    whole = b"".join(parts)
    path = tmp_path_factory.mktemp("parallel") / f"{0:020}.log"
    path.write_bytes(whole + b"\xff" * 5000 + whole + parts[0][:-1])
    assert path.stat().st_size > 2 * SERIAL_BYTES
    return path


dump = partial(feed, unproven=True)


def parallel(form, sink, jobs):
    return ParallelPrinter(sink, lambda turn: form(turn, STYLE, Scratch()), jobs)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("form", [KafkaTextPrinter, JsonLinesPrinter])
def test_threads_print_the_same_as_one(segment, form, jobs):
    alone, together = Memory(), Memory()
    serial = form(alone, STYLE, Scratch())
    dump(serial, segment)
    printer = parallel(form, together, jobs)
    dump(printer, segment)
    dump(printer, segment)
    assert together.written == alone.written * 2
    assert printer.errors == 2 * serial.errors == 4


@pytest.mark.slow
@pytest.mark.parametrize("form", [KafkaTextPrinter, JsonLinesPrinter])
def test_threads_share_no_rows_of_broken_batches(form, tmp_path):
    """Each second batch has a wrong length, so that many threads read records of damaged ranges at once."""
    whole = bytearray()
    for number in range(60):
        value = b"%d" % number * 20
        data = bytearray(batch([record(i, value=value) for i in range(1000)], number * 1000))
        data[10] ^= number % 2
        whole += data
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(whole)
    alone, together = Memory(), Memory()
    dump(form(alone, STYLE, Scratch()), path)
    printer = parallel(form, together, 4)
    dump(printer, path)
    assert printer._threads
    assert together.written == alone.written
    assert alone.written.count(b"proven") == 30_000


@pytest.mark.parametrize("form", [KafkaTextPrinter, JsonLinesPrinter])
def test_threads_share_a_decoder(form, tmp_path, request):
    internal = request.config.rootpath / "testdata" / "kafka-4.3.1" / "internal"
    real = b"".join(path.read_bytes() for path in sorted(internal.glob("__consumer_offsets-*/*.log")))
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(real * (2 * SERIAL_BYTES // len(real)))
    style = Style(deep=True, contents=True, decoder=decoder("offsets"))
    alone, together = Memory(), Memory()
    dump(form(alone, style, Scratch()), path)
    printer = ParallelPrinter(together, lambda turn: form(turn, style, Scratch()), 3)
    dump(printer, path)
    assert printer._threads
    assert together.written == alone.written


@pytest.mark.parametrize("limit", [0, SERIAL_BYTES * 4, SERIAL_BYTES * 8])
def test_a_sink_that_fails_ends_the_dump(segment, limit):
    sink = Memory(limit)
    with pytest.raises(BrokenPipeError):
        dump(parallel(KafkaTextPrinter, sink, 3), segment)
    assert len(sink.data) <= limit


def test_an_interrupt_leaves_the_file_alone(segment, monkeypatch):
    printer = parallel(KafkaTextPrinter, Memory(), 2)
    runs = SegmentReader.runs

    def interrupted(reader):
        for number, item in enumerate(runs(reader)):
            if number == 12:
                raise KeyboardInterrupt
            yield item

    monkeypatch.setattr(SegmentReader, "runs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dump(printer, segment)
    monkeypatch.undo()
    printer._sink.data.clear()
    dump(printer, segment)
    assert printer._sink.data.startswith(b"Dumping ")


class Discarding(Memory):
    def _write_all(self, view):
        self.limit -= len(view)


@pytest.mark.skipif(not COMPILED, reason="an interpreted kernel takes minutes for it, and dumps on one thread")
@pytest.mark.slow
@pytest.mark.parametrize("codec", [1, 4], ids=["gzip", "zstd"])
@pytest.mark.parametrize("form", [JsonLinesPrinter, KafkaTextPrinter], ids=["json", "text"])
def test_one_large_batch_at_a_time_is_in_memory(form, codec, segment, tmp_path):
    """With any number of threads, memory is limited to one large batch and several small ones."""
    size = 2 * LARGEST_BUFFER_BYTES
    large = [build_record_batch([NewRecord(n, 0, None, b"a" * size)], codec) for n in range(8)]
    small = build_record_batch([NewRecord(0, 0, None, random.Random(1).randbytes(SERIAL_BYTES))])
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(small + b"".join(large))
    sink = Discarding()
    tracemalloc.start()
    try:
        dump(parallel(form, sink, 8), path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (1 << 62) - sink.limit > 8 * size
    assert peak < 5 * size


def test_no_task_runs_in_the_thread_that_submits_them() -> None:
    """Ctrl-C is raised there, and would break the order in which the threads write."""
    used = []

    class Printing(KafkaTextPrinter):
        def damage(self, damage: Damage) -> None:
            used.append(threading.get_ident())

    printer = ParallelPrinter(Memory(), lambda sink: Printing(sink, STYLE, Scratch()), 2)
    printer._rendered = SERIAL_BYTES
    for _ in range(100):
        printer.damage(Damage("zero-block", 0, 1, ""))
    printer.finish()
    assert len(used) == 100
    assert threading.get_ident() not in used
