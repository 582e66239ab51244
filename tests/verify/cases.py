"""A case for each finding about batches: a real damaged partition, or an edit of a real one or of made batches.

Findings about other things have their cases in the test modules beside this one; test_cases.py lists codes without any.
"""

import gzip
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from made import varint
from partitions import PLAIN, TESTDATA, changed, copied, sealed, spans

from kseg.verify.verification import Settings

LAST = "00000000000000000116.log"
QUICK, FULL, DEEP = 0, 1, 2
NOW_MS = 1795300000000
DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class Case:
    """``make`` gives a partition, below a folder that it may write into; ``position`` of the finding if it is known."""

    make: Callable[[Path], Path]
    position: int | None = None
    level: int = DEEP
    now_ms: int = NOW_MS
    max_batch_bytes: int = 1 << 28

    @property
    def settings(self) -> Settings:
        return Settings(self.level, self.now_ms, max_batch_bytes=self.max_batch_bytes)


def real(name: str, position: int | None = None, **options: int) -> Case:
    """A partition below testdata/."""
    return Case(lambda _folder: TESTDATA / name, position, **options)


def edited(edit: Callable[[Path, bytes], None], position: int | None = None, **options: int) -> Case:
    """A copy of an intact partition of 4.3.1, after ``edit(its last segment, that one's bytes)``."""

    def make(folder: Path) -> Path:
        partition = copied(PLAIN, folder)
        edit(partition / LAST, (partition / LAST).read_bytes())
        return partition

    return Case(make, position, **options)


def of_bytes(data: bytes, position: int | None = None, **options: int) -> Case:
    """A partition of one segment."""

    def make(folder: Path) -> Path:
        (folder / "made-0").mkdir()
        (folder / "made-0" / f"{0:020}.log").write_bytes(data)
        return folder / "made-0"

    return Case(make, position, **options)


def record(delta: int, attributes: int = 0) -> bytes:
    body = bytes([attributes]) + varint(0) + varint(delta) + varint(1) + b"k" + varint(1) + b"v" + varint(0)
    return varint(len(body)) + body


def of_records(records: list[bytes], last_delta: int, max_timestamp: int = 1000) -> bytes:
    head = struct.pack(">hiqqqhii", 0, last_delta, 1000, max_timestamp, -1, -1, -1, len(records))
    body = head + b"".join(records)
    return sealed(struct.pack(">qiibI", 0, len(body) + 9, 0, 2, 0) + body)


def message(offset: int, value: bytes, attributes: int = 0, spoilt: int = 0) -> bytes:
    body = struct.pack(">bbii", 0, attributes, -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body) ^ spoilt) + body


def swap_epochs(path: Path, data: bytes) -> None:
    for k, (position, _) in enumerate(spans(data)):
        changed(path, position + 12, struct.pack(">i", 9 if k < 2 else 3))


def second_segment_inside(path: Path, data: bytes) -> None:
    position = spans(data)[3][0]
    base = struct.unpack_from(">q", data, position)[0]
    (path.parent / f"{base:020}.log").write_bytes(data[position:])


def name_above(path: Path, data: bytes) -> None:
    path.rename(path.with_name(f"{120:020}.log"))


INNER = message(0, b"one") + message(1, b"two", spoilt=1)

CASES: dict[str, Case] = {
    "truncated-batch": real("damaged/4.3.1-last-trunc-half-batch/dplain-0"),
    "nonsense-block": real("damaged/4.3.1-last-append-random100/dplain-0", 14274),
    "zero-block": real("damaged/4.3.1-mid-append-zeros4096/dplain-0"),
    "bad-length": real("damaged/4.3.1-last-length-zero/dplain-0", 7129),
    "bad-magic": real("damaged/1.1.1-flip-magic-dt/dt-0"),
    "crc-mismatch": real("damaged/4.3.1-last-flip-body/dplain-0", 7129),
    "undecodable-records": real("damaged/4.3.1-crcok-gzip-payload-garbage/dgzip-0"),
    "decompression-limit": real("damaged/4.3.1-crcok-gzip-payload-garbage/dgzip-0", max_batch_bytes=10),
    "count-mismatch": real("damaged/4.3.1-crcok-count-plus-1/dplain-0"),
    "offsets-not-rising": of_bytes(of_records([record(0), record(0)], 1), 0),
    "offset-out-of-range": of_bytes(of_records([record(0), record(5)], 1), 0),
    "inner-crc-mismatch": of_bytes(message(1, gzip.compress(INNER), attributes=1), 0),
    "max-timestamp-mismatch": of_bytes(of_records([record(0)], 0, max_timestamp=1001), 0),
    "record-attributes": of_bytes(of_records([record(0, attributes=1)], 0), 0),
    "unused-attributes": real("kafka-0.7.2/direct/attribute-bits-0"),
    "wrong-base-offset": real("damaged/1.1.1-offset-high-dz/dz-0", level=QUICK),
    "batch-out-of-order": real("damaged/1.1.1-dup-last-batch-dz/dz-0", level=QUICK),
    "offset-outside-segment": edited(name_above, 0, level=QUICK),
    "segments-overlap": edited(second_segment_inside, level=QUICK),
    "gap-unexplained": real("damaged/4.3.1-last-batch-removed/dplain-0", 7129, level=QUICK),
    "gap-truncated": real("damaged/4.3.1-last-length-zero/dplain-0", 7434),
    "gap-compacted": real("kafka-0.11.0.3/txn/compact-txn-0"),
    "gap-control": real("kafka-0.11.0.3/txn/compact-txn-0"),
    "gap-aborted": real("kafka-0.11.0.3/txn/compact-txn-0"),
    "leader-epoch-falls": edited(swap_epochs, level=QUICK),
    "future-timestamp": Case(lambda _folder: PLAIN, 0, FULL, 1790000000000 - 2 * DAY_MS),
    "old-message-format": real("kafka-0.8.2.2/codecs/one-gzip-0"),
}
