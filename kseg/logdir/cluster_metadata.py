"""Reads topics with their settings, registered nodes and replicas from a node's __cluster_metadata.

Reads the newest snapshot and the log after it, up to the first batch that is not intact. Most records are of other
types; of these only two bytes are looked at (the framing of `kseg.decoders.framed`).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kseg.decoders.framed import read_framed
from kseg.decoders.schemas.metadata import CLUSTER_METADATA
from kseg.errors import KsegError
from kseg.formats.rows import Rows, UndecodableError
from kseg.formats.schema import MessageError
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.logdir.metadata_replay import intact_batches
from kseg.logdir.server_properties import SYNONYMS
from kseg.segment.files import list_segments
from kseg.stores import trees

MAX_BYTES = 256 << 20
"""Larger metadata are ignored: reading them would take too long for the settings that they give."""

_BROKER, _BROKER_GONE, _TOPIC, _PARTITION, _CONFIG = 0, 1, 2, 3, 4
_PARTITION_CHANGE, _REMOVE_TOPIC, _CONTROLLER = 5, 9, 27
"""Record types, by their api keys."""
_ABOUT_PARTITIONS = frozenset({_PARTITION, _PARTITION_CHANGE})
_KINDS = _ABOUT_PARTITIONS | {_BROKER, _BROKER_GONE, _TOPIC, _CONFIG, _REMOVE_TOPIC, _CONTROLLER}
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
"""Resource types of a config record (ConfigResource.Type)."""


@dataclass(slots=True)
class TopicSettings:
    """``ids`` by topic name; ``configs`` by (resource type, resource name), then by setting name; ``brokers`` and
    ``controllers``: the ids of registered nodes.

    ``lacking``: why records are missing or unreadable, so that topics may be unknown; "" if all are there.
    """

    ids: dict[str, str] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)
    controllers: set[int] = field(default_factory=set)
    lacking: str = ""
    about_partitions: list[bytes] = field(default_factory=list)
    """Records that few readers need; `replicas` decodes them."""

    @property
    def is_complete(self) -> bool:
        return not self.lacking

    def setting(self, topic: str, name: str) -> str | None:
        """A topic's own setting, else the cluster's default; None if neither is set (a broker's file may set it)."""
        own = self.configs.get((_TOPIC_RESOURCE, topic), {}).get(name)
        if own is not None or name not in SYNONYMS:
            return own
        return self.configs.get((_BROKER_RESOURCE, ""), {}).get(SYNONYMS[name][0].name)

    def replicas(self) -> dict[tuple[str, int], list[int]]:
        """Returns the brokers of each partition, by topic id and partition number; those before the first record that
        cannot be read."""
        found: dict[tuple[str, int], list[int]] = {}
        with suppress(MessageError):
            for value in self.about_partitions:
                fields = read_framed(value, CLUSTER_METADATA).fields
                if (replicas := fields.get("replicas")) is not None:
                    found[fields["topicId"], fields["partitionId"]] = replicas
        return found

    def take(self, value: bytes) -> None:
        """Applies one record of the log. Raises MessageError."""
        if (kind := value[1]) in _ABOUT_PARTITIONS:
            self.about_partitions.append(value)
        else:
            self.apply(kind, read_framed(value, CLUSTER_METADATA).fields)

    def apply(self, kind: int, fields: dict[str, Any]) -> None:
        """Applies one record of this type."""
        if kind == _TOPIC:
            self.ids[fields["name"]] = fields["topicId"]
        elif kind == _BROKER:
            self.brokers.add(fields["brokerId"])
        elif kind == _BROKER_GONE:
            self.brokers.discard(fields["brokerId"])
        elif kind == _CONTROLLER:
            self.controllers.add(fields["controllerId"])
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
        replay = _Replay(directory)
        if not replay.files:
            return None
        replay.run()
    except (KsegError, OSError):
        return None  # verification of the metadata partition itself reports the error
    return replay.found


class _Replay:
    """The newest snapshot and the log after it, up to the first batch that is not intact.

    ``files``: none if they are too large. Raises KsegError or OSError if the files cannot be listed or read.
    """

    def __init__(self, directory: str) -> None:
        files = list_segments(directory)
        snapshots = [
            file for file in files if file.kind == CHECKPOINT and not file.leftover and file.base_offset is not None
        ]
        newest = max(snapshots, key=lambda file: (file.base_offset, file.epoch or 0), default=None)
        self.start = newest.base_offset or 0 if newest else 0
        logs = [file for file in files if file.kind == LOG and not file.leftover]
        ends = [file.base_offset or 0 for file in logs[1:]]
        chosen = [file for i, file in enumerate(logs) if i >= len(ends) or ends[i] > self.start]
        self.files = [newest, *chosen] if newest else chosen
        if sum(trees.getsize(file.path) for file in self.files) > MAX_BYTES:
            self.files = []
        self.found = TopicSettings(lacking="" if chosen else "no .log file is left")
        if chosen and (base := chosen[0].base_offset or 0) > self.start:
            self.found.lacking = f"the log starts at offset {base}, and no snapshot reaches it"

    def run(self) -> None:
        """Applies the records of all files to ``found``."""
        found, next_offset = self.found, self.start
        for file in self.files:
            is_snapshot = file.kind == CHECKPOINT
            is_complete = False  # a snapshot ends with a control batch
            for batch in intact_batches(file.path):
                if batch is None:
                    found.lacking = f"{file.name} is damaged"
                    return
                if not is_snapshot and batch.base_offset > next_offset:
                    found.lacking = f"offsets {next_offset} to {batch.base_offset - 1} are missing in the log"
                is_complete = batch.is_control
                if not is_snapshot:
                    next_offset = batch.last_offset + 1
                if not batch.is_control and (is_snapshot or batch.last_offset >= self.start):
                    try:
                        for rows in batch.rows():
                            for value in _values(rows, 0 if is_snapshot else self.start):
                                found.take(value)
                    except (UndecodableError, MessageError):
                        found.lacking = f"{file.name} has a record that cannot be read"
                        return
            if is_snapshot and not is_complete:
                found.lacking = f"{file.name} is not complete"


def _values(rows: Rows, first_offset: int) -> Iterator[bytes]:
    """Yields the values of the records whose types are known here."""
    for offset, _, value in rows.entries():
        if value is not None and len(value) > 2 and value[0] == 1 and value[1] in _KINDS and offset >= first_offset:
            yield value
