"""Checks the records of internal topics against other partitions, at level deep: committed offsets, remote segments.

Sources: OffsetMetadataManager, RemoteLogMetadataCache of Kafka 4.3.1.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kseg.decoders.framed import read_framed
from kseg.decoders.schemas.metadata import REMOTE_LOG_METADATA
from kseg.errors import KsegError
from kseg.findings.table import INFO
from kseg.formats.schema import MessageError
from kseg.logdir.coordinators import GroupOffset, GroupOffsets
from kseg.logdir.remote_partitions import REMOTE_METADATA_TOPIC, record_values
from kseg.quantities import plural
from kseg.segment.paths import some
from kseg.segment.survey import DEEP
from kseg.verification.report import Report
from kseg.verification.rule import Rule

_SEGMENT, _UPDATE = 0, 1
"""Record types of __remote_log_metadata."""
_DELETED = 3
"""DELETE_SEGMENT_FINISHED."""


class LogExtent(NamedTuple):
    """A partition that was checked: log start and end offset."""

    path: str
    topic_id: str | None
    start: int
    end: int


def judge_commits(offsets: GroupOffsets, extents: Mapping[tuple[str, int], LogExtent], report: Report) -> None:
    """Reports groups whose committed offset is outside of the log."""
    for place, of_place in sorted(offsets.items()):
        extent = extents.get(place)
        if extent is None:
            continue
        found = [one for one in of_place if extent.topic_id is None or one.topic_id in (None, extent.topic_id)]
        for code, groups, text in (
            ("commit-beyond-end", [one for one in found if one.offset > extent.end], f"the log ends at {extent.end}"),
            ("commit-below-start", [one for one in found if one.offset < extent.start],
             f"the log starts at {extent.start}"),
        ):  # fmt: skip
            if groups:
                _add_groups(code, extent.path, groups, text, report)


def _add_groups(code: str, path: str, groups: list[GroupOffset], text: str, report: Report) -> None:
    groups = sorted(groups, key=lambda one: (-one.offset, one.group))
    names = some([f"{one.group} {one.offset}" for one in groups])
    details = {"waitingGroups": [one.as_object() for one in groups], "count": len(groups)}
    report.add(code, path, f"{text}; committed offsets of groups: {names}", offset=groups[0].offset, details=details)


class RemoteMetadataRule(Rule):
    """Reads __remote_log_metadata after its segments."""

    def finish(self) -> None:
        partition = self.partition
        if partition.topic != REMOTE_METADATA_TOPIC or partition.level != DEEP or not partition.is_whole:
            return
        begun: set[str] = set()
        updated: dict[str, int] = {}
        try:
            for value in record_values(partition.name):
                try:
                    record = read_framed(value, REMOTE_LOG_METADATA)
                except MessageError:
                    continue  # reported by dump
                if record.api_key not in (_SEGMENT, _UPDATE):
                    continue
                segment = record.fields["remoteLogSegmentId"]
                place = segment["topicIdPartition"]
                key = f"{place['name']}-{place['partition']} {segment['id']}"
                if record.api_key == _SEGMENT:
                    begun.add(key)
                elif key not in begun:
                    updated[key] = record.fields["remoteLogSegmentState"]
        except (KsegError, OSError):
            return  # reported for the segment
        lacking = sorted(updated.keys() - begun)
        if lacking:
            text = f"{plural(len(lacking), 'remote segment has', 'remote segments have')} updates only: {some(lacking)}"
            are_gone = all(updated[key] == _DELETED for key in lacking)
            details = {"count": len(lacking)}
            self.report.add(
                "remote-metadata-incomplete", partition.name, text, severity=INFO if are_gone else None, details=details
            )
