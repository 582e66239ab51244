"""Reads the local side of tiered partitions: segments, lineage, log start offsets, deletions of remote segments.

Source: RemoteLogMetadataTopic, RemoteLogSegmentState of Kafka.
"""

import os
from collections.abc import Iterator
from functools import cached_property

from kseg.decoders.framed import read_framed
from kseg.decoders.schemas.remote_log_metadata import RECORDS
from kseg.errors import PathError
from kseg.formats.schema import MessageError
from kseg.formats.suffixes import LOG
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.logdir.lineage import Lineage
from kseg.segment.batches import Batch
from kseg.segment.files import SegmentFile, list_segments, own_partitions, parse_partition_name
from kseg.segment.reader import SegmentReader
from kseg.sidefiles.checkpoints import LOG_STARTS, OffsetCheckpoint, read_offset_checkpoint
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS, plain_epochs
from kseg.sidefiles.partition_metadata import PARTITION_METADATA, PartitionMetadata, read_partition_metadata
from kseg.stores.regular_files import read_regular
from kseg.stores.remote.storage import RemotePartition
from kseg.stores.source import open_source

REMOTE_METADATA_TOPIC = "__remote_log_metadata"
_DELETE_STARTED, _DELETE_FINISHED = 2, 3


class LocalLogs:
    """One log directory. Raises PathError if the directory does not exist or one of its files cannot be read."""

    def __init__(self, directory: str) -> None:
        if not os.path.isdir(directory):
            raise PathError(f"{directory}: no such directory")
        self.directory = directory

    @cached_property
    def log_starts(self) -> dict[tuple[str, int], int]:
        content = self._read(os.path.join(self.directory, LOG_STARTS))
        items = read_offset_checkpoint(content)
        return {(item.topic, item.partition): item.offset for item in items if isinstance(item, OffsetCheckpoint)}

    @cached_property
    def deleted(self) -> set[tuple[str, int, str]]:
        """Remote segments whose deletion has begun, as (topic id, partition, segment id)."""
        states: dict[tuple[str, int, str], int] = {}
        for path in own_partitions(self.directory):
            place = parse_partition_name(os.path.basename(path))
            if place is None or place[0] != REMOTE_METADATA_TOPIC or os.path.basename(path) != f"{place[0]}-{place[1]}":
                continue
            for value in record_values(path):
                try:
                    fields = read_framed(value, RECORDS).fields
                    segment, state = fields["remoteLogSegmentId"], fields["remoteLogSegmentState"]
                    topic = segment["topicIdPartition"]
                except (MessageError, KeyError):
                    continue  # a marker, or a record about a whole partition
                key = (topic["id"], topic["partition"], segment["id"])
                states[key] = max(states.get(key, 0), state)
        return {key for key, state in states.items() if state in (_DELETE_STARTED, _DELETE_FINISHED)}

    def partition(self, remote: RemotePartition) -> "LocalPartition | None":
        """Returns the local log of a partition; None if there is none, or if its topic id differs."""
        path = os.path.join(self.directory, remote.name)
        if not os.path.isdir(path) or os.path.islink(path):
            return None
        found = LocalPartition(path, self._read(os.path.join(path, LEADER_EPOCHS)))
        metadata = self._read(os.path.join(path, PARTITION_METADATA))
        ids = [item.topic_id for item in read_partition_metadata(metadata) if isinstance(item, PartitionMetadata)]
        return found if remote.topic_id in (ids or [remote.topic_id]) else None

    def _read(self, path: str) -> bytes:
        try:
            return read_regular(path, MAX_ROOT_FILE_BYTES)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise PathError(f"{path}: {error.strerror}") from error


def record_values(directory: str) -> Iterator[bytes]:
    """Yields the values of the records in a partition's intact batches. Raises PathError."""
    for file in list_segments(directory):
        with open_source(file.path) as source:
            for item in SegmentReader(source, base_offset=file.base_offset or 0):
                if isinstance(item, Batch) and not item.check():
                    yield from (record.value for record in item if record.value is not None)


class LocalPartition:
    """A partition directory: its segments by base offset, and its lineage, empty if the file is malformed."""

    def __init__(self, directory: str, epochs: bytes) -> None:
        self.directory = directory
        self.lineage: Lineage = plain_epochs(epochs) or []
        self.segments: list[SegmentFile] = [
            file for file in list_segments(directory) if file.kind == LOG and file.base_offset is not None
        ]
