"""Compaction beside Kafka's own cleaner: ``python -m tests.benchmarks.compaction`` from the repository's root.

Processor's seconds of the same work on one core, and the memory of both processes. Kafka's process has cleaned a copy
before, so that its code is compiled; kseg's number holds the start of the process too.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kseg.cleaner.offset_map import OffsetMap
from kseg.cleaner.opening import RecordRooms
from kseg.formats.compression import CODEC_NAMES
from kseg.formats.rows import int64s
from kseg.kernel import keys
from kseg.segment.writer import SegmentWriter, batch_rows
from tests.benchmarks.peers import Peers
from tests.cleaner.building import BatchFields, NewRecord, build_record_batch

RECORDS_PER_BATCH = 145
RECORD_BYTES = 100
KEYS = 2_000_000
MEMORY_BYTES = 512 << 20
KINDS = (("none", 0.1), ("none", 0.8), ("lz4", 0.8), ("zstd", 0.8))


def batch(first: int, names: list[int], values: list[bytes], codec: str) -> bytes:
    records = [
        NewRecord(first + i, 1_700_000_000_000 + first + i, b"key-%012d" % name, values[(first + i) % len(values)])
        for i, name in enumerate(names)
    ]
    return build_record_batch(records, BatchFields(CODEC_NAMES.index(codec)))


def grown(partition: Path, mib: int, share: float, codec: str) -> None:
    """A log of one segment and an active one, of which this share survives."""
    if partition.exists():
        return
    partition.mkdir(parents=True)
    chosen, count = random.Random(7), mib * (1 << 20) // RECORD_BYTES
    values = [bytes(chosen.randrange(97, 105) for _ in range(72)) for _ in range(512)]
    distinct, offset = int(count * share), 0
    writer = SegmentWriter(str(partition), 0)
    while offset < count:
        names = [o if o < distinct else chosen.randrange(distinct) for o in range(offset, offset + RECORDS_PER_BATCH)]
        writer.append(batch(offset, names, values, codec))
        offset += RECORDS_PER_BATCH
    writer.finish()
    active = SegmentWriter(str(partition), offset)
    active.append(batch(offset, [0], values, "none"))
    active.finish()


def measured(command: list[str]) -> tuple[str, float, int]:
    """What a program prints, the processor's seconds and the largest memory in bytes."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    printed = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    scale = 1 if sys.platform == "darwin" else 1024
    return printed, used.ru_utime + used.ru_stime, used.ru_maxrss * scale


def put_keys(count: int) -> float:
    """Seconds to read so many records of 100 bytes, hash their keys and put them into the map; the best of three."""
    step = 64 * RECORDS_PER_BATCH
    windows = []
    for start in range(0, count, step):
        parts = range(start, min(start + step, count), RECORDS_PER_BATCH)
        data = b"".join(batch(o, [*range(o, o + RECORDS_PER_BATCH)], [b"x" * 72], "none") for o in parts)
        windows.append((data, list(batch_rows(data, 0))))
    rooms, verdicts, found = RecordRooms(1 << 20), int64s(100), []
    for _ in range(3):
        offset_map, begin = OffsetMap(40 * count), time.process_time()
        for data, all_rows in windows:
            for rows, batches in all_rows:
                state, status = int64s(8), keys.FULL
                while status != keys.DONE:
                    status = keys.read(data, rows, batches, verdicts, 0, offset_map.secret, rooms.rows, rooms.hashes,
                                       rooms.offsets, state, rooms.room)  # fmt: skip
                    offset_map.put(rooms.hashes, rooms.offsets, state[keys.KEYS])
                    state[keys.KEYS] = 0
        found.append(time.process_time() - begin)
        assert len(offset_map) >= count
        offset_map.close()
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compaction", description=__doc__)
    parser.add_argument("--mib", type=int, default=64, help="size of each log before it is compressed (default: 64)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds, of which the best counts (default: 2)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "kseg-benchmarks"))
    chosen = parser.parse_args()
    peers = Peers(chosen.folder)
    print("| log | kseg, s | Kafka, s | Kafka : kseg | kseg, MiB | Kafka, MiB |\n| --- | --- | --- | --- | --- | --- |")
    for codec, share in KINDS:
        source = chosen.folder / f"compact-{codec}-{share}-{chosen.mib}" / "t-0"
        grown(source, chosen.mib, share, codec)
        results = [one_round(peers, source, chosen.folder / "work") for _ in range(chosen.rounds)]
        kseg, kafka, kseg_bytes, kafka_bytes = map(min, zip(*results, strict=True))
        print(f"| {codec}, {share:.0%} survive | {kseg:.2f} | {kafka:.2f} | {kafka / kseg:.2f} | "
              f"{kseg_bytes / (1 << 20):.0f} | {kafka_bytes / (1 << 20):.0f} |", flush=True)  # fmt: skip

    theirs = float(subprocess.run(peers.clean("keys", str(KEYS)), stdout=subprocess.PIPE, check=True).stdout)
    ours = put_keys(KEYS)
    print(f"map, {KEYS} keys: kseg {ours / KEYS * 1e9:.0f} ns with reading the records, "
          f"Kafka {theirs / KEYS * 1e9:.0f} ns: {theirs / ours:.1f} times as fast")  # fmt: skip


def one_round(peers: Peers, source: Path, work: Path) -> tuple[float, float, int, int]:
    shutil.rmtree(work, ignore_errors=True)
    copies = [Path(shutil.copytree(source, work / name / "t-0")) for name in ("a", "b", "c")]
    command = [sys.executable, "-m", "kseg", "compact", "--quiet", "--no-quarantine", "--min-cleanable-ratio", "0"]
    _, kseg, kseg_bytes = measured([*command, "--memory", str(MEMORY_BYTES), str(copies[0])])
    printed, _, kafka_bytes = measured(peers.clean(str(MEMORY_BYTES), *map(str, copies[1:])))
    left = {(copy / f"{0:020d}.log").stat().st_size for copy in copies}
    assert len(left) == 1 or source.parent.name.startswith(("compact-lz4", "compact-zstd")), left
    shutil.rmtree(work)
    return kseg, float(printed.split()[-1]), kseg_bytes, kafka_bytes


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
