"""Reads topics with their settings, registered nodes, partitions and the quorum from a node's __cluster_metadata.

All that can be read and replayed counts. Most records are of other types; of these only two bytes are looked at.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from kseg.errors import KsegError, PathError, errors_at
from kseg.formats.control import ControlRecord, parse_control
from kseg.formats.record_batch import KRAFT_VERSION, KRAFT_VOTERS
from kseg.formats.rows import UndecodableError
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.logdir.metadata_image import TOPIC_RESOURCE, MetadataImage, PartitionImage
from kseg.logdir.metadata_replay import LoadedImage, intact_batches, load_image, load_readable, snapshots_among
from kseg.logdir.server_properties import SYNONYMS, ServerProperties
from kseg.segment.batches import RecordBatch
from kseg.segment.files import QUORUM_STATE, SegmentFile, list_segments
from kseg.sidefiles.text_files import (
    MAX_PROPERTIES_BYTES,
    MAX_TEXT_BYTES,
    META_PROPERTIES,
    MetaProperties,
    QuorumState,
    read_meta_properties,
    read_quorum_state,
)
from kseg.stores import trees
from kseg.stores.regular_files import read_regular

MAX_BYTES = 256 << 20
"""Larger metadata are ignored: reading them would take too long for the settings that they give."""

_BROKER, _BROKER_GONE, _TOPIC, _PARTITION, _CONFIG = 0, 1, 2, 3, 4
_PARTITION_CHANGE, _REMOVE_TOPIC, _BROKER_CHANGE, _CONTROLLER, _CONTROLLER_GONE = 5, 9, 17, 27, 29
"""Record types, by their api keys."""
_OF_TOPICS = frozenset({_BROKER, _BROKER_GONE, _BROKER_CHANGE, _TOPIC, _CONFIG, _REMOVE_TOPIC})
_OF_TOPICS |= {_CONTROLLER, _CONTROLLER_GONE}
_OF_PARTITIONS = frozenset({_TOPIC, _PARTITION, _PARTITION_CHANGE, _REMOVE_TOPIC})
_BROKER_RESOURCE = 4
"""Resource types of a config record (ConfigResource.Type)."""


@dataclass
class TopicSettings:
    """``image``: topics, settings and registered nodes. ``lacking``: why records are missing or unreadable, so that
    topics may be unknown; "" if all are there."""

    image: MetadataImage
    lacking: str
    _files: list[SegmentFile]
    _whole: LoadedImage | None = None
    """The same with partitions, if it was loaded."""

    @property
    def is_complete(self) -> bool:
        return not self.lacking

    @property
    def ids(self) -> Mapping[str, str]:
        """Topic ids by name."""
        return self.image.topic_ids

    def setting(self, topic: str, name: str) -> str | None:
        """A topic's own setting, else the cluster's default; None if neither is set (a broker's file may set it)."""
        configs = self.image.configs
        own = configs.get((TOPIC_RESOURCE, topic), {}).get(name)
        if own is not None or name not in SYNONYMS:
            return own
        return configs.get((_BROKER_RESOURCE, ""), {}).get(next(iter(SYNONYMS[name])))

    @cached_property
    def _of_partitions(self) -> tuple[LoadedImage, list[KsegError]]:
        if self._whole is not None:
            return self._whole, []
        return load_readable(self._files, kinds=_OF_PARTITIONS)  # few readers need them

    @property
    def knows_partitions(self) -> bool:
        """Whether no record of a topic or partition is missing or unreadable."""
        return self.is_complete and not self._of_partitions[1]

    @cached_property
    def partitions(self) -> dict[tuple[str, int], PartitionImage]:
        """The partitions by topic id and number, as far as they can be read."""
        topics = self._of_partitions[0].image.topics.values()
        return {(topic.topic_id, number): one for topic in topics for number, one in topic.partitions.items()}

    def at_start(self) -> "TopicSettings | None":
        """Returns what is left at the start of a node that has its log from no other, and cuts it off at damage; None
        if that is not known."""
        try:
            loaded = load_image(self._files)
        except KsegError:
            return None
        return TopicSettings(loaded.image, "", self._files, loaded) if loaded.is_cut else None


def read_topic_settings(directory: str) -> TopicSettings | None:
    """Returns the settings in a __cluster_metadata directory; None if there are no files, more than MAX_BYTES, or they
    cannot be read."""
    try:
        files = list_segments(directory)
        snapshots, logs = snapshots_among(files), [file for file in files if file.kind == LOG and not file.leftover]
        start = snapshots[-1].base_offset or 0 if snapshots else 0
        ends = [file.base_offset or 0 for file in logs[1:]]
        read = [*snapshots[-1:], *(file for i, file in enumerate(logs) if i >= len(ends) or ends[i] > start)]
        if not read or sum(trees.getsize(file.path) for file in read) > MAX_BYTES:
            return None
        loaded, errors = load_readable(files, kinds=_OF_TOPICS)
    except (KsegError, OSError):
        return None  # verification of the metadata partition itself reports the error
    lacking = str(errors[0]) if errors else "" if logs else "no .log file is left"
    return TopicSettings(loaded.image, lacking, files)


# What a node's copy of __cluster_metadata says about the quorum, and whether the node is its only voter.
#
# Sources: KRaftControlRecordStateMachine, QuorumState and MetaProperties of Kafka 4.4.0; KIP-630, KIP-853.


class Raft(NamedTuple):
    """What a copy of the log says about the quorum: offset and epoch that none of its files exceeds, the newest
    timestamp, kraft.version, and the voters as the newest KRAFT_VOTERS has them."""

    offset: int
    epoch: int
    timestamp: int
    version: int
    voters: list[dict[str, Any]]

    @property
    def voter_directories(self) -> Mapping[int, str | None]:
        """The directory.id of each voter, by its id."""
        return {voter["voterId"]: voter.get("voterDirectoryId") for voter in self.voters}


def read_raft(directory: str, files: list[SegmentFile]) -> Raft:
    """Reads the control records of all snapshots, also of the bootstrap snapshot, and logs. Raises KsegError."""
    offset = epoch = version = 0
    timestamp, voters, newest = -1, list[dict[str, Any]](), -1
    read = [file for file in files if not file.leftover and (file.kind == LOG or file.epoch is not None)]
    for file in sorted(read, key=lambda file: file.kind == LOG):
        is_snapshot = file.kind == CHECKPOINT
        base, file_epoch = file.base_offset or 0, file.epoch or 0
        offset, epoch = max(offset, base), max(epoch, file_epoch)
        with suppress(KsegError):  # a snapshot that is not readable
            for batch in intact_batches(file.path):
                if batch is None:
                    continue
                at = base if is_snapshot else batch.base_offset
                timestamp = max(timestamp, batch.header.max_timestamp)
                if not is_snapshot:
                    offset, epoch = max(offset, batch.last_offset + 1), max(epoch, batch.header.partition_leader_epoch)
                for control in _control_records(batch) if at >= newest else ():
                    if control.type_id == KRAFT_VERSION:
                        version = control.fields["kRaftVersion"]
                    elif control.type_id == KRAFT_VOTERS:
                        newest, voters = at, control.fields["voters"]
    epoch = max(epoch, quorum_state_in(directory).leader_epoch or 0)
    return Raft(offset, epoch, timestamp, version, voters)


def _control_records(batch: RecordBatch) -> list[ControlRecord]:
    """Returns the control records of a batch that can be read."""
    if not batch.is_control:
        return []
    try:
        found = [parse_control(record.key, record.value) for record in batch]
    except UndecodableError:
        return []
    return [control for control in found if control.error is None]


def quorum_state_in(directory: str) -> QuorumState:
    """Returns the quorum-state, without contents if it is lost or unreadable: then the node makes it anew."""
    with suppress(KsegError, OSError):
        state = next(read_quorum_state(read_regular(os.path.join(directory, QUORUM_STATE), MAX_TEXT_BYTES)))
        if isinstance(state, QuorumState):
            return state
    return QuorumState(*(None for _ in QuorumState._fields))


def is_only_voter(directory: str, server: ServerProperties | None = None) -> bool | None:
    """Whether this copy of the log is that of the only voter of its quorum; None if its files do not tell.

    Voters are those of the newest KRAFT_VOTERS, of controller.quorum.voters, or of quorum-state; the node is that of
    meta.properties.
    """
    if server is not None and not server.may_be_controller:
        return False
    try:
        own = properties_of(os.path.dirname(os.path.abspath(directory)))
        number, directory_id = own.number, own.directory_id
    except PathError:
        number, directory_id = None, None
    number = server.node_id if number is None and server is not None else number
    voters = read_raft(directory, list_segments(directory)).voter_directories
    if not voters:
        static = server.quorum_voters if server is not None else frozenset()
        voters = dict.fromkeys(static or quorum_state_in(directory).current_voters or ())
    if not voters or number is None:
        return None if len(voters) < 2 else False
    ids = {directory_id, voters.get(number)} - {None}
    if set(voters) != {number}:
        return False
    return True if len(ids) < 2 else None  # of the voter under another directory.id nobody has a copy for sure


def properties_of(directory: str) -> MetaProperties:
    """Reads the meta.properties of a log directory. Raises PathError."""
    path = os.path.join(directory, META_PROPERTIES)
    with errors_at(path):
        found = next(read_meta_properties(read_regular(path, MAX_PROPERTIES_BYTES)))
    if not isinstance(found, MetaProperties):
        raise PathError(f"{path}: cannot be read")
    return found
