"""Checks snapshots of the cluster metadata (.checkpoint, bootstrap.checkpoint); a KRaft node needs complete ones.

    a control batch that begins with SNAPSHOT_HEADER, data batches, a control batch that ends with SNAPSHOT_FOOTER

Sources: Snapshots, RecordsSnapshotReader and KafkaRaftLog.recoverSnapshots of Kafka 4.3.1; KIP-630.
"""

import os

from kseg.errors import KsegError
from kseg.formats.control import parse_control
from kseg.formats.record_batch import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kseg.formats.suffixes import CHECKPOINT
from kseg.segment.batches import RecordBatch
from kseg.segment.files import BOOTSTRAP, SegmentFile
from kseg.segment.items import Damage, Record
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import DEEP
from kseg.stores import trees
from kseg.stores.source import open_source
from kseg.verification.report import Report


def is_snapshot(file: SegmentFile) -> bool:
    """Whether the name is one of a snapshot of a KRaft node."""
    return not file.leftover and file.kind == CHECKPOINT and (file.epoch is not None or file.name == BOOTSTRAP)


def judge_snapshot(path: str, report: Report, level: int) -> bool:
    """Checks a snapshot, at level deep each record. Returns whether it is complete."""
    first: Record | None = None
    last: Record | None = None
    totals = report.totals
    try:
        with open_source(path) as source:
            totals.files += 1
            totals.bytes += source.size
            for item in SegmentReader(source):
                if isinstance(item, Damage):
                    report.add("bad-metadata-snapshot", path, item.message, item.position, item.length)
                    return False
                totals.batches += 1
                if problems := item.check() if level == DEEP else item.problems:
                    report.add(
                        "bad-metadata-snapshot", path, problems[0].message, item.position, item.size, item.base_offset
                    )
                    return False
                totals.records += (
                    0 if item.is_control else item.header.record_count if isinstance(item, RecordBatch) else 1
                )
                records = list(item) if item.is_control else []
                if first is None and records:
                    first = records[0]
                last = records[-1] if records else None
            size = source.size
    except KsegError as error:
        report.add("bad-metadata-snapshot", path, str(error))
        return False
    for record, wanted, name in ((first, SNAPSHOT_HEADER, "header"), (last, SNAPSHOT_FOOTER, "footer")):
        if record is None or parse_control(record.key, record.value).type_id != wanted:
            report.add(
                "bad-metadata-snapshot",
                path,
                f"no {name}: it is not complete",
                size if wanted == SNAPSHOT_FOOTER else 0,
            )
            return False
    return True


def is_newest(snapshot: str) -> bool:
    """Whether no snapshot follows this one."""
    try:
        names = [name for name in trees.listdir(os.path.dirname(snapshot) or ".") if name.endswith(CHECKPOINT)]
    except (KsegError, OSError):
        return True
    return os.path.basename(snapshot) >= max(names, default="")
