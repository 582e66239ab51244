"""Printing on threads gives the bytes of printing on one, and leaves nothing behind when it fails."""

import pytest

from kseg.decoders import decoder
from kseg.formats.rows import Scratch
from kseg.output.jsonl import JsonLinesPrinter
from kseg.output.kafka_text import KafkaTextPrinter
from kseg.output.parallel import SERIAL_BYTES, ParallelPrinter
from kseg.output.printer import Style
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.source import open_source

STYLE = Style(deep=True, contents=True)


class Memory:
    """A sink that keeps all, or fails once it has taken ``room`` bytes."""

    is_terminal = False

    def __init__(self, room=1 << 62):
        self.data = bytearray()
        self.room = room

    def write(self, data):
        if len(self.data) + len(data) > self.room:
            raise BrokenPipeError
        self.data += data

    write_view = write

    def flush(self):
        pass


@pytest.fixture(scope="module")
def segment(tmp_path_factory, request):
    """Several MiB: plain and compressed batches, and damage between them."""
    seeds = request.config.rootpath / "testdata" / "speed"
    parts = [(seeds / f"{kind}.log").read_bytes() for kind in ("tiny", "100b", "lz4", "1k", "zstd")]
    whole = b"".join(parts)
    path = tmp_path_factory.mktemp("parallel") / f"{0:020}.log"
    path.write_bytes(whole + b"\xff" * 5000 + whole + parts[0][:-1])
    assert path.stat().st_size > 2 * SERIAL_BYTES
    return path


def dump(printer, path):
    file = SegmentFile(str(path), ".log", "", 0, None, None, None)
    with open_source(str(path)) as source:
        reader = SegmentReader(source)
        try:
            printer.begin(file)
            for item in reader.runs():
                if isinstance(item, Damage):
                    printer.damage(item)
                else:
                    printer.run(reader, item)
            printer.finish()
        except BaseException:
            printer.abandon()
            raise


def parallel(form, sink, jobs):
    return ParallelPrinter(sink, lambda turn: form(turn, STYLE, Scratch()), jobs)


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("form", [KafkaTextPrinter, JsonLinesPrinter])
def test_threads_print_what_one_prints(segment, form, jobs):
    alone, together = Memory(), Memory()
    serial = form(alone, STYLE, Scratch())
    dump(serial, segment)
    printer = parallel(form, together, jobs)
    dump(printer, segment)
    dump(printer, segment)
    assert together.data == alone.data * 2
    assert printer.errors == 2 * serial.errors == 4


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
    assert together.data == alone.data


@pytest.mark.parametrize("room", [0, SERIAL_BYTES * 4, SERIAL_BYTES * 8])
def test_a_sink_that_fails_ends_the_dump(segment, room):
    sink = Memory(room)
    with pytest.raises(BrokenPipeError):
        dump(parallel(KafkaTextPrinter, sink, 3), segment)
    assert len(sink.data) <= room


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
