"""Compaction beside Kafka's own cleaner: ``python -m benchmarks.compaction``.

Processor's seconds of the same work on one core, and the memory of both processes; the seconds of a clock only where
two threads are compared with one. Kafka's process has cleaned a smaller log before, so that its code is compiled;
kseg's number holds the start of the process too. ``--mib 1024 --rounds 1`` takes some seven minutes.
"""

import random
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from itertools import chain
from pathlib import Path

from benchmarks.peers import Peers
from benchmarks.process import KSEG, POLL_SECONDS, largest_bytes, parser_of
from cleaner.building import NewRecord, build_record_batch
from kseg.cleaner.log import RecordBuffers
from kseg.cleaner.rounds import OffsetMap
from kseg.formats.compressing import compress, target_of
from kseg.formats.compression import CODEC_NAMES
from kseg.formats.rows import int64s
from kseg.kernel.compact import key_map
from kseg.kernel.layout.rows import DONE, FULL
from kseg.kernel.records.building import seal
from kseg.segment.writer import SegmentWriter, batch_rows

RECORDS_PER_BATCH = 145
RECORD_BYTES = 100
HEADER_BYTES = 61
WARMING_MIB = 64
KEYS = 2_000_000
MEMORY_BYTES = 512 << 20
KINDS = (("none", 0.1), ("none", 0.8), ("lz4", 0.8), ("zstd", 0.8))


def batch(first: int, names: list[int], values: list[bytes], codec: str) -> bytes:
    records = [
        NewRecord(first + i, 1_700_000_000_000 + first + i, b"key-%012d" % name, values[(first + i) % len(values)])
        for i, name in enumerate(names)
    ]
    return build_record_batch(records, CODEC_NAMES.index(codec))


class Maker:
    """Makes batches of RECORDS_PER_BATCH records by filling one in, since a GiB is built of 10 million of them."""

    def __init__(self, values: list[bytes], codec: str) -> None:
        key, value = b"#" * 12, b"@" * len(values[0])
        model = [NewRecord(i, i, b"key-" + key, value) for i in range(RECORDS_PER_BATCH)]
        self._model = build_record_batch(model)
        areas = self._model[HEADER_BYTES:].replace(b"%", b"%%")
        self._form = areas.replace(key, b"%012d").replace(value, b"%b")
        self._values, self._codec = values, CODEC_NAMES.index(codec)
        self._compress = partial(compress, target_of(self._codec)) if self._codec else bytes

    def batch(self, first: int, names: Iterable[int]) -> bytes:
        """What `batch` builds."""
        values = (self._values[(first + i) % len(self._values)] for i in range(RECORDS_PER_BATCH))
        area = self._compress(self._form % tuple(chain.from_iterable(zip(names, values, strict=True))))
        out, base = bytearray(self._model[:HEADER_BYTES] + area), 1_700_000_000_000 + first
        out[:8] = first.to_bytes(8, "big")
        last = base + RECORDS_PER_BATCH - 1
        seal(out, 0, len(out), bytes(out[:HEADER_BYTES]), self._codec, base, last, RECORDS_PER_BATCH)
        return bytes(out)


def grown(partition: Path, mib: int, share: float, codec: str) -> None:
    """A log of one segment and an active one, of which this share survives."""
    if partition.exists():
        return
    making = partition.parent / "making-0"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    chosen, count = random.Random(7), mib * (1 << 20) // RECORD_BYTES
    values = [bytes(chosen.randrange(97, 105) for _ in range(72)) for _ in range(512)]
    maker, distinct, offset = Maker(values, codec), int(count * share), 0
    writer = SegmentWriter(str(making), 0)
    while offset < count:
        numbers = range(offset, offset + RECORDS_PER_BATCH)
        names = [o if o < distinct else int(chosen.random() * distinct) for o in numbers]
        made = maker.batch(offset, names)
        if not offset:
            assert made == batch(offset, names, values, codec)
        writer.append(made)
        offset += RECORDS_PER_BATCH
    writer.finish()
    active = SegmentWriter(str(making), offset)
    active.append(batch(offset, [0], values, "none"))
    active.finish()
    making.rename(partition)


class Best:
    """The least of all rounds: processor's and clock's seconds, and bytes of memory."""

    def __init__(self) -> None:
        self.cpu = self.clock = self.memory = float("inf")

    def take(self, cpu: float, clock: float, memory: float) -> None:
        self.cpu, self.clock, self.memory = min(self.cpu, cpu), min(self.clock, clock), min(self.memory, memory)


def measured(command: list[str]) -> tuple[str, float, float, int]:
    """What a program prints, the processor's and the clock's seconds, and the largest memory in bytes."""
    before, begin, memory = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            memory = max(memory, largest_bytes(process.pid))
            time.sleep(POLL_SECONDS)
        clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        if process.returncode:
            raise SystemExit(f"{command} ended with {process.returncode}")
        printed.seek(0)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return printed.read().decode(), cpu, clock, memory


def put_keys(count: int) -> float:
    """Seconds to read so many records of 100 bytes, hash their keys and put them into the map; the best of three."""
    step = 64 * RECORDS_PER_BATCH
    windows = []
    for start in range(0, count, step):
        parts = range(start, min(start + step, count), RECORDS_PER_BATCH)
        data = b"".join(batch(o, [*range(o, o + RECORDS_PER_BATCH)], [b"x" * 72], "none") for o in parts)
        windows.append((data, list(batch_rows(data, 0))))
    buffers, verdicts, found = RecordBuffers(1 << 20), int64s(100), []
    for _ in range(3):
        offset_map, begin = OffsetMap(40 * count), time.process_time()
        for data, all_rows in windows:
            for rows, batches in all_rows:
                reader, status = key_map.KeyReader(offset_map.keys.secret, 0), FULL
                while status != DONE:
                    status = reader.read(data, rows, batches, verdicts, buffers.rows, buffers.hashes, buffers.offsets,
                                         buffers.expansion)  # fmt: skip
                    offset_map.put(buffers.hashes, buffers.offsets, reader.keys)
                    reader.keys = 0
        found.append(time.process_time() - begin)
        assert len(offset_map) >= count
        offset_map.close()
    return min(found)


def main() -> None:
    chosen = parser_of(__doc__, 64, 2).parse_args()
    peers = Peers(chosen.folder)
    print("| log | kseg, s | Kafka, s | Kafka : kseg | 1 : 2 threads | kseg, MiB | Kafka, MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for codec, share in KINDS:
        logs = []
        for mib in (chosen.mib, min(chosen.mib, WARMING_MIB)):
            logs.append(chosen.folder / f"compact-{codec}-{share}-{mib}" / "t-0")
            grown(logs[-1], mib, share, codec)
        one, two, kafka = Best(), Best(), Best()
        for _ in range(chosen.rounds):
            one_round(peers, logs, chosen.folder / "work", one, two, kafka)
        print(f"| {codec}, {share:.0%} survive | {one.cpu:.2f} | {kafka.cpu:.2f} | {kafka.cpu / one.cpu:.2f} | "
              f"{one.clock / two.clock:.2f} | {one.memory / (1 << 20):.0f} | {kafka.memory / (1 << 20):.0f} |",
              flush=True)  # fmt: skip

    theirs = float(subprocess.run(peers.clean("keys", str(KEYS)), stdout=subprocess.PIPE, check=True).stdout)
    ours = put_keys(KEYS)
    print(f"map, {KEYS} keys: kseg {ours / KEYS * 1e9:.0f} ns with reading the records, "
          f"Kafka {theirs / KEYS * 1e9:.0f} ns: {theirs / ours:.1f} times as fast")  # fmt: skip


def one_round(peers: Peers, logs: list[Path], work: Path, one: Best, two: Best, kafka: Best) -> None:
    """``logs``: the one that is measured, and the one that Kafka's process warms up with."""
    shutil.rmtree(work, ignore_errors=True)
    left = set()
    for jobs, best in ((1, one), (2, two)):
        copy = shutil.copytree(logs[0], work / "kseg" / "t-0")
        command = [*KSEG, "compact", "--quiet", "--no-quarantine", "--min-cleanable-ratio", "0"]
        _, *used = measured([*command, "--jobs", str(jobs), "--memory", str(MEMORY_BYTES), str(copy)])
        best.take(*used)
        left.add(segment_bytes(copy))
        shutil.rmtree(work)
    copies = [shutil.copytree(log, work / name / "t-0") for log, name in zip(logs[::-1], ("warm", "own"), strict=True)]
    printed, _, clock, memory = measured(peers.clean(str(MEMORY_BYTES), *map(str, copies)))
    kafka.take(float(printed.split()[-1]), clock, memory)
    assert len(left) == 1, left
    if logs[0].parent.name.startswith("compact-none"):  # other libraries compress to other sizes
        assert left == {segment_bytes(copies[-1])}, left
    shutil.rmtree(work)


def segment_bytes(partition: Path) -> int:
    return (partition / f"{0:020d}.log").stat().st_size


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
