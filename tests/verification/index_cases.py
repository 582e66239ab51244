"""Partitions whose indexes are judged: real ones, and copies of them with one thing changed."""

import struct
from pathlib import Path

from kseg.node.log_directory import BrokerState
from kseg.segment.survey import FULL
from kseg.stores.windows import Buffers
from kseg.verification.batches import BatchRule
from kseg.verification.indexes import IndexRule
from kseg.verification.partition import CheckSettings, PartitionCheck, judge_segments
from kseg.verification.report import Finding, Report
from kseg.verification.run import judge_path
from segment.segments import entries as batches_of
from verification.partitions import TESTDATA

DAMAGED = TESTDATA / "side-files" / "damaged"
NOW_MS = 4_000_000_000_000
STEM = "00000000000000000000"


def closed(partition: Path) -> Path:
    """The partition with one more, empty segment, so that the one before it counts as closed."""
    (partition / f"{1 << 40:020}.log").touch()
    (partition / f"{1 << 40:020}.index").touch()
    return partition


def findings(
    partition: Path, level: int = FULL, broker: BrokerState | None = None, live: bool = False
) -> list[Finding]:
    """What is found about indexes in a partition directory, or of a file."""
    found: list[Finding] = []
    report = Report(found.append)
    if broker is None and not live:
        judge_path(str(partition), CheckSettings(level, NOW_MS), report)
    else:
        from kseg.segment.files import list_segments

        settings = CheckSettings(level, NOW_MS, is_live=live)
        judged = PartitionCheck(str(partition), "t", 0, True, settings, report, broker or BrokerState(), Buffers())
        rules = [BatchRule(judged), IndexRule(judged)]
        judge_segments(judged, [file for file in list_segments(str(partition)) if file.kind == ".log"], rules)
    return [finding for finding in found if "index" in finding.code or finding.code == "unreadable-bytes"]


def codes(partition: Path, level: int = FULL) -> list[str]:
    return [finding.code for finding in findings(partition, level)]


def set_entry(index: Path, entry: int, first: int | None = None, second: int | None = None) -> None:
    """Changes the fields of one entry: relative offset and position, or timestamp and relative offset."""
    layout = struct.Struct(">ii" if index.name.endswith(".index") else ">qi")
    data = bytearray(index.read_bytes())
    old = layout.unpack_from(data, entry * layout.size)
    layout.pack_into(
        data, entry * layout.size, *(o if n is None else n for o, n in zip(old, (first, second), strict=True))
    )
    index.write_bytes(data)


def entries(index: Path) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">ii" if index.name.endswith(".index") else ">qi", index.read_bytes()))


def repeated_batch(count: int, least_bytes: int = 0) -> bytes:
    """A log of ``count`` times one real batch of 3 records or more, base offsets going on (no checksum covers them)."""
    log = (TESTDATA / "kafka-4.3.1" / "codecs" / "codec-mix-0" / f"{STEM}.log").read_bytes()
    large = (batch for batch in batches_of(log) if len(batch) >= least_bytes)
    batch = next(batch for batch in large if int.from_bytes(batch[23:27], "big") >= 2)
    step = int.from_bytes(batch[23:27], "big") + 1
    return b"".join((i * step).to_bytes(8, "big") + batch[8:] for i in range(count))
