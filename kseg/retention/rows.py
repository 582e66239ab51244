"""The results of retention as JSON objects: one for the partition, and one for each segment."""

from typing import Any

from kseg.logdir.known_topics import POLICY
from kseg.releases.retention import LOG_START
from kseg.retention.amounts import Amounts
from kseg.retention.explanation import SegmentExplanation
from kseg.retention.partition_plan import Retention
from kseg.retention.settings import RETENTION_BYTES, RETENTION_MS, PartitionLimits


def partition_row(found: Retention, settings: PartitionLimits, now_ms: int, amount: Amounts | None) -> dict[str, Any]:
    """Returns the object of type ``retention``; ``amount`` if segments are deleted."""
    records = amount.records if amount else None
    return {
        "type": "retention",
        "directory": found.log.directory,
        "segments": len(found.log.segments),
        "bytes": found.log.size,
        "logStartOffset": found.state.log_start_offset,
        "highWatermark": found.state.high_watermark,
        "logEndOffset": found.state.end_offset,
        "cleanupPolicy": settings.policy,
        "retentionMs": settings.limits.retention_ms,
        "retentionBytes": settings.limits.retention_bytes,
        "sources": {name: settings.sources[name] for name in (POLICY, RETENTION_MS, RETENTION_BYTES)},
        "now": now_ms,
        "goes": len(found.selection.why),
        "rolls": found.selection.rolls,
        "segmentsAfter": len(found.left),
        "bytesAfter": sum(span.size for span in found.left),
        "records": records[0] if records else None,
        "recordsAfter": records[1] if records else None,
    }


def segment_row(verdict: SegmentExplanation, records: int | None) -> dict[str, Any]:
    """Returns the object of type ``segmentRetention``."""
    segment = verdict.segment
    return {
        "type": "segmentRetention",
        "file": segment.file.name,
        "size": segment.size,
        "records": records,
        "baseOffset": segment.base_offset,
        "lastOffset": verdict.last_offset,
        "rule": ("logStart" if verdict.rule == LOG_START else verdict.rule) or None,
        "largestTimestamp": segment.largest.timestamp,
        "largestTimestampSource": "fileTime" if segment.largest.offset is None else "timeIndex",
        "recordOffset": verdict.record_offset,
        "isFuture": verdict.is_future,
        "goesAt": verdict.goes_at_ms,
        "goesAfterBytes": verdict.goes_after_bytes,
        "blockedBy": verdict.blocked_by or None,
        "held": verdict.held or None,
    }
