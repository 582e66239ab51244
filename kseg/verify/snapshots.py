"""Snapshots of the cluster's metadata (.checkpoint, bootstrap.checkpoint): whole, or of no use to a KRaft node.

    a control batch that begins with SNAPSHOT_HEADER, data batches, a control batch that ends with SNAPSHOT_FOOTER

Sources: Snapshots, RecordsSnapshotReader and KafkaRaftLog.recoverSnapshots of Kafka 4.3.1; KIP-630.
"""

from kseg.errors import KsegError
from kseg.formats.control import parse_control
from kseg.formats.control_types import SNAPSHOT_FOOTER, SNAPSHOT_HEADER
from kseg.segment.items import Damage, Record
from kseg.segment.reader import SegmentReader
from kseg.segment.source import open_source
from kseg.verify.report import Report


def judge_snapshot(path: str, report: Report) -> bool:
    """Whether the snapshot is whole; tells what is wrong."""
    first: Record | None = None
    last: Record | None = None
    try:
        with open_source(path) as source:
            for item in SegmentReader(source):
                if isinstance(item, Damage):
                    report.add("bad-metadata-snapshot", path, item.message, item.position, item.length)
                    return False
                if not item.is_valid:
                    text = item.problems[0].message
                    report.add("bad-metadata-snapshot", path, text, item.position, item.size, item.base_offset)
                    return False
                records = list(item) if item.is_control else []
                if first is None and records:
                    first = records[0]
                last = records[-1] if records else None
            size = source.size
    except KsegError as error:
        report.add("bad-metadata-snapshot", path, str(error))
        return False
    for record, wanted, what in ((first, SNAPSHOT_HEADER, "header"), (last, SNAPSHOT_FOOTER, "footer")):
        if record is None or parse_control(record.key, record.value).type_id != wanted:
            report.add("bad-metadata-snapshot", path, f"no {what}: it is not complete", size if wanted else 0)
            return False
    return True
