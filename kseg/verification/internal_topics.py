"""Checks the records of internal topics together: groups that no coordinator loads, schemas that live on, tasks that no
worker runs, and remote segments that were updated but never begun.

Sources: GroupCoordinatorShard.replay and GroupMetadataManager of Kafka 4.4.0 (KIP-848); SchemaKey of Schema Registry;
KafkaConfigBackingStore of Kafka 4.4.0 (KAFKA-16838); RemoteLogMetadataCache of Kafka 4.3.1.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress

from kseg.errors import KsegError
from kseg.findings.table import INFO
from kseg.node.log_directory import records_in
from kseg.quantities import plural
from kseg.segment.files import OFFSETS_TOPIC, REMOTE_METADATA_TOPIC
from kseg.segment.paths import some
from kseg.segment.survey import DEEP
from kseg.verification.partition import PartitionCheck

MAX_BYTES = 256 << 20
"""A larger partition is not read once more for these checks."""
SCHEMAS_TOPIC = "_schemas"
CONNECTORS_TOPIC = "connect-configs"
TOPICS = frozenset({OFFSETS_TOPIC, SCHEMAS_TOPIC, CONNECTORS_TOPIC, REMOTE_METADATA_TOPIC})
_CLASSIC, _OF_CONSUMER_GROUPS = 2, frozenset({3, 5, 6, 7, 8, 16})
"""Versions of the keys in __consumer_offsets."""
_METADATA = 3
_SEGMENT, _UPDATE = 0, 1
"""Record types of __remote_log_metadata."""
_DELETED = 3
"""DELETE_SEGMENT_FINISHED."""

Entry = tuple[int, bytes, bytes | None]
"""Offset, key and value of a record."""


def judge_internal_topic(partition: PartitionCheck) -> None:
    """Reads the records of a partition of one of TOPICS once more, at level deep."""
    if partition.settings.level != DEEP or partition.directory is None:
        return
    if partition.topic == REMOTE_METADATA_TOPIC:
        _judge_remote_segments(partition)
    elif sum(segment.size for segment in partition.segments) <= MAX_BYTES:
        checks = {OFFSETS_TOPIC: _judge_groups, SCHEMAS_TOPIC: _judge_schemas, CONNECTORS_TOPIC: _judge_connectors}
        found = records_in(segment.file for segment in partition.segments)
        entries = ((offset, key, value) for offset, key, value in found if key is not None)
        checks[partition.topic or ""](partition, entries)


def _judge_groups(partition: PartitionCheck, entries: Iterator[Entry]) -> None:
    """Reports groups with records of two protocols, between which no null value has ended the first."""
    classic: dict[bytes, int] = {}
    consumer: dict[bytes, int] = {}
    reported: set[bytes] = set()
    for offset, key, value in entries:
        version, length = int.from_bytes(key[:2], "big"), int.from_bytes(key[2:4], "big")
        group = key[4 : 4 + length]
        if version == _CLASSIC:
            own, other = classic, consumer
        elif version in _OF_CONSUMER_GROUPS:
            own, other = consumer, classic
        else:
            continue
        if value is None:
            if version in (_CLASSIC, _METADATA):
                own.pop(group, None)
        elif group in other and group not in reported:
            reported.add(group)
            kinds = ("consumer group", "classic group")
            new, old = kinds if own is consumer else kinds[::-1]
            text = f"group {os.fsdecode(group)!r}: a record of a {new} at offset {offset}, after one of a {old} at "
            text += f"{other[group]} that no null value has ended: the coordinator of this partition does not load"
            partition.report.add("group-not-loaded", partition.name, text, offset=offset)
        else:
            own.setdefault(group, offset)


def _judge_schemas(partition: PartitionCheck, entries: Iterator[Entry]) -> None:
    """Reports versions of schemas that are deleted under one form of their key and alive under another."""
    states: dict[tuple[str, int], dict[bytes, bool]] = {}
    for _, key, value in entries:
        fields = _json(key)
        version = fields.get("version")
        if fields.get("keytype") == "SCHEMA" and "subject" in fields and isinstance(version, int):
            is_alive = value is not None and not _json(value).get("deleted", False)
            states.setdefault((str(fields["subject"]), version), {})[key] = is_alive
    for (subject, number), forms in states.items():
        alive = [key.decode("utf-8", "replace") for key, is_alive in forms.items() if is_alive]
        if alive and len(alive) < len(forms):
            text = f"version {number} of subject {subject!r} is deleted, but alive under another form of its key: "
            partition.report.add("schema-alive", partition.name, text + some(alive))


def _judge_connectors(partition: PartitionCheck, entries: Iterator[Entry]) -> None:
    """Reports task configurations that a worker ignores: when it reads their commit, it has no connector of the name. A
    deletion leaves those of the connector, and after a compaction a newer connector follows its tasks."""
    tasks: dict[str, set[str]] = {}
    alive, ignored = set[str](), dict[str, None]()
    for _, key, value in entries:
        kind, dash, name = key.decode("utf-8", "replace").partition("-")
        if not dash:
            continue
        if kind == "connector":
            (alive.discard if value is None else alive.add)(name)
        elif kind == "task":
            name, _, number = name.rpartition("-")
            of = tasks.setdefault(name, set())
            (of.discard if value is None else of.add)(number)
        elif kind == "commit" and value is not None:
            ignored.pop(name, None)
            ignored.update({name: None} if name not in alive else {})
    ignored.update({name: None for name in tasks if name not in alive})
    counts = {name: len(tasks[name]) for name in ignored if tasks.get(name)}
    found = [f"{name} ({_why_ignored(name in alive, count)})" for name, count in counts.items()]
    if found:
        text = f"task configurations that no worker uses: {some(found)}"
        partition.report.add("tasks-ignored", partition.name, text, details={"count": len(found)})


def _why_ignored(is_alive: bool, count: int) -> str:
    of = plural(count, "task", "tasks")
    return f"{of}, committed before the connector's newest configuration" if is_alive else f"{of}, no connector"


def _judge_remote_segments(partition: PartitionCheck) -> None:
    """Reports remote segments that __remote_log_metadata has updates of, but not the record that begins them."""
    from kseg.decoders.framed import read_framed
    from kseg.decoders.schemas import REMOTE_LOG_METADATA
    from kseg.formats.schema import MessageError
    from kseg.node.remote_partitions import record_values

    begun: set[str] = set()
    updated: dict[str, int] = {}
    try:
        for value in record_values(partition.name):
            with suppress(MessageError):  # reported by dump
                record = read_framed(value, REMOTE_LOG_METADATA)
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
    if lacking := sorted(updated.keys() - begun):
        text = f"{plural(len(lacking), 'remote segment has', 'remote segments have')} updates only: {some(lacking)}"
        severity, details = INFO if all(updated[key] == _DELETED for key in lacking) else None, {"count": len(lacking)}
        partition.report.add("remote-metadata-incomplete", partition.name, text, severity=severity, details=details)


def _json(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
