"""Logs of producers and transactions to be judged: real ones, copies with a change, and batches made by hand."""

import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from kernel import rendering
from kseg.node.log_directory import BrokerState
from kseg.segment.files import list_segments
from kseg.segment.survey import FULL
from kseg.stores.windows import Buffers
from kseg.verification.batches import BatchRule
from kseg.verification.partition import CheckSettings, PartitionCheck, judge_segments
from kseg.verification.report import Finding, Report
from kseg.verification.side_files import EpochRule
from kseg.verification.transactions import ProducerRule
from verification.partitions import LATER_MS as NOW_MS
from verification.partitions import TESTDATA

TRANSACTIONS = TESTDATA / "verify" / "4.3.1-transactions" / "dtxn-0"
DAMAGED = TESTDATA / "side-files" / "damaged"
START_MS = 1_700_000_000_000
ABORT, COMMIT = 0, 1


def findings(
    partition: Path,
    level: int = FULL,
    broker: BrokerState | None = None,
    now_ms: int = NOW_MS,
    is_live: bool = False,
    names: Iterable[str] | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> list[Finding]:
    """What the rules for producers and epochs find, errors of batches left out; ``names``: of these files alone."""
    found: list[Finding] = []
    files = [file for file in list_segments(str(partition)) if names is None or file.name in names]
    judged = PartitionCheck(
        str(partition), files[0].topic, files[0].partition, names is None,
        CheckSettings(level, now_ms, is_live=is_live), Report(lambda _: None), broker or BrokerState(), Buffers(),
    )  # fmt: skip
    batches = BatchRule(judged)
    judged.report = Report(found.append)
    judged.report.advance = lambda done: progress(done) and None
    judge_segments(judged, files, [batches, ProducerRule(judged), EpochRule(judged)])
    return found


def codes(found: Iterable[Finding]) -> list[str]:
    return [finding.code for finding in found]


def record(delta: int, key: bytes = b"key", value: bytes = b"value") -> bytes:
    return rendering.record(delta, key=key, value=value)


def batch(
    offset: int,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    *,
    transactional: bool = False,
    timestamp: int = START_MS,
    leader_epoch: int = 0,
) -> bytes:
    """A v2 batch of ``count`` records, all at ``timestamp``."""
    records = b"".join(record(delta) for delta in range(count))
    return sealed(offset, 16 * transactional, count, timestamp, producer_id, epoch, sequence, records, leader_epoch)


def marker(
    offset: int,
    kind: int,
    producer_id: int,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    *,
    timestamp: int = START_MS,
    leader_epoch: int = 0,
) -> bytes:
    """The control batch that ends a transaction."""
    body = record(0, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch))
    return sealed(offset, 48, 1, timestamp, producer_id, epoch, -1, body, leader_epoch)


def sealed(
    offset: int, attributes: int, count: int, timestamp: int, producer_id: int, epoch: int, sequence: int,
    records: bytes, leader_epoch: int,
) -> bytes:  # fmt: skip
    if producer_id < 0:
        epoch = sequence = -1
    return rendering.batch(
        [records], offset, attributes, timestamp, timestamp, sequence, producer_id, epoch=epoch, count=count,
        last_delta=max(count, 1) - 1, leader_epoch=leader_epoch,
    )  # fmt: skip


def log_of(place: Path, *segments: Iterable[bytes], first: int = 0) -> Path:
    """A partition of segments of batches; each is named by the offset in its first bytes (``first`` if empty).

    All of it is of leader epoch 0.
    """
    partition = place / "topic-0"
    partition.mkdir()
    for batches in segments:
        data = b"".join(batches)
        base = struct.unpack_from(">q", data)[0] if data else first
        (partition / f"{base:020}.log").write_bytes(data)
        (partition / f"{base:020}.index").touch()
    (partition / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {first}\n")
    return partition
