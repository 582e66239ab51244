"""Topics and their settings as the newest __cluster_metadata of a node knows them.

The newest snapshot and the log behind it are read up to the first batch that is not intact. Most records are of other
kinds and only two bytes of each are looked at (the frame of `kseg.decoders.framed`).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kseg.decoders.framed import read_framed
from kseg.decoders.schemas.cluster_metadata import RECORDS
from kseg.errors import KsegError
from kseg.formats.rows import Rows, Scratch, UndecodableError
from kseg.formats.schema import MessageError
from kseg.kernel.native import ROW_OFFSET, ROW_VALUE, ROW_VALUE_SIZE, ROW_WIDTH
from kseg.segment.batches import RecordBatch
from kseg.segment.files import SegmentFile, list_segments
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.source import open_source

MAX_BYTES = 256 << 20
"""Of more than so much metadata nothing is taken: it would cost more than the topics' settings are worth."""

_TOPIC, _PARTITION, _CONFIG, _PARTITION_CHANGE, _REMOVE_TOPIC = 2, 3, 4, 5, 9
_KINDS = frozenset({_TOPIC, _CONFIG, _REMOVE_TOPIC})
_ABOUT_PARTITIONS = frozenset({_PARTITION, _PARTITION_CHANGE})
_OF_TOPIC, _OF_BROKER = 2, 4
_DEFAULTS = {
    "cleanup.policy": "log.cleanup.policy",
    "max.message.bytes": "message.max.bytes",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "index.interval.bytes": "log.index.interval.bytes",
}
"""The cluster's setting that holds for topics without their own, where there is one (ServerTopicConfigSynonyms)."""


@dataclass(slots=True)
class TopicSettings:
    """``ids`` of topics by name; ``configs`` by (resource type, resource name), then by the setting's name.

    Not ``is_complete``: something in the log could not be read, and topics may be missing.
    """

    ids: dict[str, str] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    is_complete: bool = True

    def setting(self, topic: str, name: str) -> str | None:
        """What holds for a topic: its own setting, else the cluster's; None where only a broker's own file may tell."""
        own = self.configs.get((_OF_TOPIC, topic), {}).get(name)
        return own if own is not None else self.configs.get((_OF_BROKER, ""), {}).get(_DEFAULTS.get(name, ""))

    def apply(self, kind: int, fields: dict[str, Any]) -> None:
        """One record of the log."""
        if kind == _TOPIC:
            self.ids[fields["name"]] = fields["topicId"]
        elif kind == _REMOVE_TOPIC:
            for name in [name for name, topic_id in self.ids.items() if topic_id == fields["topicId"]]:
                del self.ids[name]
                self.configs.pop((_OF_TOPIC, name), None)
        else:
            settings = self.configs.setdefault((fields["resourceType"], fields["resourceName"]), {})
            if fields["value"] is None:
                settings.pop(fields["name"], None)
            else:
                settings[fields["name"]] = fields["value"]


def read_topic_settings(directory: str) -> TopicSettings | None:
    """The settings in a __cluster_metadata directory; None where there are none to be had."""
    try:
        start, files = _newest(directory)
        if not files:
            return None
        found = TopicSettings()
        for record in _records_of(files, start, _KINDS):
            if record is None:
                found.is_complete = False
                break
            found.apply(*record)
    except (KsegError, OSError):
        return None  # the partition's own check tells what is wrong with it
    return found


def replica_counts(directory: str) -> dict[tuple[str, int], int]:
    """How many replicas each partition has, by topic id and number, as far as a __cluster_metadata directory tells."""
    found: dict[tuple[str, int], int] = {}
    try:
        start, files = _newest(directory)
        for record in _records_of(files, start, _ABOUT_PARTITIONS):
            if record is None:
                break
            _, fields = record
            if (replicas := fields.get("replicas")) is not None:
                found[fields["topicId"], fields["partitionId"]] = len(replicas)
    except (KsegError, OSError):
        return found
    return found


def _newest(directory: str) -> tuple[int, list[SegmentFile]]:
    """The newest snapshot's offset, 0 without one, and the files to read from there on; none where they are too large.

    Raises KsegError or OSError where they cannot be listed.
    """
    files = list_segments(directory)
    snapshots = [file for file in files if file.kind == ".checkpoint" and file.base_offset is not None]
    newest = max(snapshots, key=lambda file: (file.base_offset, file.epoch or 0), default=None)
    start = newest.base_offset or 0 if newest else 0
    logs = _from(start, [file for file in files if file.kind == ".log"])
    chosen = [newest, *logs] if newest else logs
    return start, chosen if sum(os.path.getsize(file.path) for file in chosen) <= MAX_BYTES else []


def _records_of(
    files: list[SegmentFile], start: int, kinds: frozenset[int]
) -> Iterator[tuple[int, dict[str, Any]] | None]:
    for file in files:
        yield from _records(file, start if file.kind == ".log" else 0, kinds)


def _from(start: int, logs: list[SegmentFile]) -> list[SegmentFile]:
    """The segments that may hold offsets of ``start`` and above."""
    ends = [file.base_offset or 0 for file in logs[1:]]
    return [file for i, file in enumerate(logs) if i >= len(ends) or ends[i] > start]


def _records(
    file: SegmentFile, first_offset: int, kinds: frozenset[int]
) -> Iterator[tuple[int, dict[str, Any]] | None]:
    """Kind and fields of each record of these kinds; None and the end where something is not intact."""
    scratch = Scratch()
    with open_source(file.path) as source:
        reader = SegmentReader(source, scratch=scratch)
        for run in reader.runs():
            if isinstance(run, Damage):
                yield None
                return
            for i in range(run.count):
                batch = reader.batch(run, i, keep=False)
                if not batch.is_valid or not isinstance(batch, RecordBatch):
                    yield None
                    return
                if not batch.is_control and batch.last_offset >= first_offset:
                    yield from _of_batch(batch, first_offset, kinds)


def _of_batch(
    batch: RecordBatch, first_offset: int, kinds: frozenset[int]
) -> Iterator[tuple[int, dict[str, Any]] | None]:
    try:
        for rows in batch.rows():
            for value in _values(rows, first_offset, kinds):
                record = read_framed(value, RECORDS)
                yield record.api_key, record.fields
    except (UndecodableError, MessageError):
        yield None


def _values(rows: Rows, first_offset: int, kinds: frozenset[int]) -> Iterator[bytes]:
    """The values of the records of these kinds."""
    columns, payload = rows.rows, rows.payload
    for at in range(0, rows.count * ROW_WIDTH, ROW_WIDTH):
        value, size = columns[at + ROW_VALUE], columns[at + ROW_VALUE_SIZE]
        if (
            size > 2
            and payload[value] == 1
            and payload[value + 1] in kinds
            and columns[at + ROW_OFFSET] >= first_offset
        ):
            yield bytes(payload[value : value + size])
