"""Reads topic ids, topic settings and replica counts from a node's __cluster_metadata.

Reads the newest snapshot and the log after it, up to the first batch that is not intact. Most records are of other
types; of these only two bytes are read (the framing of `kseg.decoders.framed`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kseg.decoders.framed import read_framed
from kseg.decoders.schemas.cluster_metadata import RECORDS
from kseg.errors import KsegError
from kseg.formats.rows import Rows, Scratch, UndecodableError
from kseg.formats.schema import MessageError
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.kernel.layout.rows import ROW_OFFSET, ROW_VALUE, ROW_VALUE_SIZE, ROW_WIDTH
from kseg.logdir.server_properties import SYNONYMS
from kseg.segment.batches import RecordBatch
from kseg.segment.files import SegmentFile, list_segments
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.stores import trees
from kseg.stores.source import open_source

MAX_BYTES = 256 << 20
"""Larger metadata are ignored: reading them would take too long for the settings that they give."""

_TOPIC, _PARTITION, _CONFIG, _PARTITION_CHANGE, _REMOVE_TOPIC = 2, 3, 4, 5, 9
"""Record types, by their api keys."""
_ABOUT_TOPICS = frozenset({_TOPIC, _CONFIG, _REMOVE_TOPIC})
_ABOUT_PARTITIONS = frozenset({_PARTITION, _PARTITION_CHANGE})
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
"""Resource types of a config record (ConfigResource.Type)."""


@dataclass(slots=True)
class TopicSettings:
    """``ids`` by topic name; ``configs`` by (resource type, resource name), then by setting name.

    ``is_complete`` is false if part of the log could not be read; topics may then be missing.
    """

    ids: dict[str, str] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    is_complete: bool = True

    def setting(self, topic: str, name: str) -> str | None:
        """A topic's own setting, else the cluster's default; None if neither is set (a broker's file may set it)."""
        own = self.configs.get((_TOPIC_RESOURCE, topic), {}).get(name)
        if own is not None or name not in SYNONYMS:
            return own
        return self.configs.get((_BROKER_RESOURCE, ""), {}).get(SYNONYMS[name][0].name)

    def apply(self, kind: int, fields: dict[str, Any]) -> None:
        """Applies one record of the log."""
        if kind == _TOPIC:
            self.ids[fields["name"]] = fields["topicId"]
        elif kind == _REMOVE_TOPIC:
            for name in [name for name, topic_id in self.ids.items() if topic_id == fields["topicId"]]:
                del self.ids[name]
                self.configs.pop((_TOPIC_RESOURCE, name), None)
        else:
            settings = self.configs.setdefault((fields["resourceType"], fields["resourceName"]), {})
            if fields["value"] is None:
                settings.pop(fields["name"], None)
            else:
                settings[fields["name"]] = fields["value"]


def read_topic_settings(directory: str) -> TopicSettings | None:
    """Returns the settings in a __cluster_metadata directory; None if there are no files, more than MAX_BYTES, or they
    cannot be read."""
    try:
        start, files = _newest(directory)
        if not files:
            return None
        found = TopicSettings()
        for record in _records_of(files, start, _ABOUT_TOPICS):
            if record is None:
                found.is_complete = False
                break
            found.apply(*record)
    except (KsegError, OSError):
        return None  # verification of the metadata partition itself reports the error
    return found


def replica_counts(directory: str) -> dict[tuple[str, int], int]:
    """Returns replicas per partition, by topic id and partition number; those before the first damage or error."""
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
    """Returns the newest snapshot's offset (0 if there is none) and the files to read from there; none if too large.

    Raises KsegError or OSError if they cannot be listed.
    """
    files = list_segments(directory)
    snapshots = [file for file in files if file.kind == CHECKPOINT and file.base_offset is not None]
    newest = max(snapshots, key=lambda file: (file.base_offset, file.epoch or 0), default=None)
    start = newest.base_offset or 0 if newest else 0
    logs = _from(start, [file for file in files if file.kind == LOG])
    chosen = [newest, *logs] if newest else logs
    return start, chosen if sum(trees.getsize(file.path) for file in chosen) <= MAX_BYTES else []


def _records_of(
    files: list[SegmentFile], start: int, kinds: frozenset[int]
) -> Iterator[tuple[int, dict[str, Any]] | None]:
    for file in files:
        yield from _records(file, start if file.kind == LOG else 0, kinds)


def _from(start: int, logs: list[SegmentFile]) -> list[SegmentFile]:
    """Returns the segments that may hold offsets of ``start`` and above."""
    ends = [file.base_offset or 0 for file in logs[1:]]
    return [file for i, file in enumerate(logs) if i >= len(ends) or ends[i] > start]


def _records(
    file: SegmentFile, first_offset: int, kinds: frozenset[int]
) -> Iterator[tuple[int, dict[str, Any]] | None]:
    """Yields type and fields of each record of these types; None, as the last item, at the first damage."""
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
    """Yields the values of the records of these types."""
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
