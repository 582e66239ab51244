"""Partitions before and after cleaning by a real broker, and logs made for a test."""

import shutil
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from cleaner.building import TRANSACTIONAL, NewRecord, build_marker, build_record_batch
from kseg.conversion.rows_writer import make_side_files
from kseg.segment.writer import LogWriter, RollLimits
from segment.reading import records_at
from segment.segments import entries

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
COMPACTION = TESTDATA / "compaction"
KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_HEADER = struct.Struct(">qiibIhiqqqhii")


class Pair(NamedTuple):
    """One round of a real cleaner: its time, delete.retention.ms, and the partition before and after."""

    release: str
    name: str
    retention_ms: int
    now_ms: int
    checkpoint: int | None
    checkpoint_after: int

    @property
    def before(self) -> Path:
        return COMPACTION / self.release / "before" / self.name

    @property
    def after(self) -> Path:
        return COMPACTION / self.release / "after" / self.name

    @property
    def options(self) -> list[str]:
        return [
            "--min-cleanable-ratio", "0", "--segment-bytes", "32768", "--index-interval-bytes", "1024",
            "--delete-retention-ms", str(self.retention_ms), "--now", str(self.now_ms), "--memory", "1M",
            *["--drop-null-keys"] * ("null" in self.name),
        ]  # fmt: skip

    def options_with(self, *more: str) -> list[str]:
        """The options, with those in ``more`` replacing equal ones."""
        valued = self.options[: len(self.options) // 2 * 2]
        pairs = zip(valued[::2], valued[1::2], strict=True)
        return [word for name, value in pairs if name not in more for word in (name, value)] + list(more)

    def copy(self, target: Path) -> Path:
        """Copies the partition before cleaning to a writable log directory."""
        shutil.copytree(self.before, target / self.name)
        if self.checkpoint is not None:
            write_checkpoint(target, self.name, self.checkpoint)
        return target / self.name


PAIRS = [
    Pair("4.3.1", "e-idem-0", 86400000, 1795253276000, None, 210),
    Pair("4.3.1", "e-lz4-0", 86400000, 1795253276000, None, 210),
    Pair("4.3.1", "e-txn-0", 86400000, 1795253296701, 231, 232),
    Pair("4.3.1", "c-txn-long-0", 86400000000, 1795252754367, 2909, 2912),
    Pair("4.3.1", "c-tomb-short-0", 0, 1795252258000, 2702, 2704),
    Pair("3.9.1", "c-zstd-0", 86400000000, 1795252617975, None, 900),
    Pair("4.4.0", "x-null-0", 86400000, 1795739550000, None, 325),
    Pair("4.4.0", "x-abort-empty-0", 86400000, 1795739550000, None, 326),
]


def write_checkpoint(root: Path, name: str, offset: int) -> None:
    topic, number = name.rsplit("-", 1)
    (root / "cleaner-offset-checkpoint").write_text(f"0\n1\n{topic} {number} {offset}\n")


def checkpoint(root: Path, name: str) -> int | None:
    topic, number = name.rsplit("-", 1)
    path = root / "cleaner-offset-checkpoint"
    lines = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return next((int(line[2]) for line in lines if line[:2] == [topic, number]), None)


def files(partition: Path, *kinds: str) -> dict[str, bytes]:
    """Returns the files that are neither empty nor a preallocated index without entries."""
    found = {path.name: path.read_bytes() for path in sorted(partition.iterdir()) if path.suffix in (kinds or KINDS)}
    return {
        name: data.rstrip(b"\0") if not data.strip(b"\0") else data
        for name, data in found.items()
        if data or not name.endswith(".txnindex")
    }


def is_compressed(partition: Path) -> bool:
    return any(data[22] & 7 for data in files(partition, ".log").values() if data)


def headers(partition: Path) -> dict[str, list[tuple[int, ...]]]:
    """Returns the batch headers of each .log, without sizes and checksums."""
    found = {}
    for name, data in files(partition, ".log").items():
        rows = [_HEADER.unpack_from(entry) for entry in entries(data)]
        found[name] = [(row[0], *row[2:4], *row[5:]) for row in rows]
    return found


def records(partition: Path) -> list[tuple[object, ...]]:
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records_at(partition)]


def write_log(partition: Path, batches: Iterable[bytes], segment_bytes: int = 1 << 20) -> None:
    """Writes a log of these batches; the last segment is the active one."""
    partition.mkdir(parents=True)
    writer = LogWriter(str(partition), 0, RollLimits(segment_bytes=segment_bytes, interval_bytes=64))
    for batch in batches:
        writer.append(batch)
    writer.finish()


KEYS = (b"a", b"b", b"c", b"a key of some length")


def transactional_log(partition: Path, steps: Iterable[tuple[str, int, int]], segment_bytes: int) -> Path:
    """Writes a log from steps of (action, producer, key). It ends without an open transaction.

    Actions: d and t are data and a tombstone in a transaction, p is a record outside one, c and a commit or abort, also
    if no transaction is open.
    """
    partition.mkdir(parents=True)
    writer = LogWriter(str(partition), 0, RollLimits(segment_bytes=segment_bytes, interval_bytes=64))
    ends = [("c", producer, 0) for producer in range(3)]
    for offset, (kind, producer, key) in enumerate([*steps, *ends]):
        if kind in "ca":
            writer.append(build_marker(offset, producer, kind == "c"))
            continue
        rows = new_records([(KEYS[key], None if kind == "t" else b"%d" % offset)], offset)
        own = {} if kind == "p" else {"attributes": TRANSACTIONAL, "producer": producer, "epoch": 0}
        writer.append(build_record_batch(rows, **own))
    for name, content in make_side_files(writer.finish(), None):
        if name.endswith((".txnindex", ".snapshot")):
            (partition / name).write_bytes(content)
    return partition


def new_records(rows: Sequence[tuple[bytes | None, bytes | None]], first: int = 0) -> list[NewRecord]:
    """Returns records with these keys and values, a millisecond apart."""
    return [NewRecord(first + i, 1_000_000 + first + i, key, value) for i, (key, value) in enumerate(rows)]
