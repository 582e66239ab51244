"""Reads topics, settings, nodes and the quorum from the files of __cluster_metadata, which it replays as a node does: a
snapshot, then the log batch by batch.

A transaction counts when it has ended. The bootstrap snapshot of offset 0 is none: a node takes its records into the
log. Sources: MetadataLoader, MetadataBatchLoader, KafkaRaftLog of Kafka 4.4.0; KIP-630, KIP-868.
"""

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import zip_longest
from typing import Any, NamedTuple

from kseg.decoders.framed import read_framed, type_name
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.errors import KsegError, PathError, errors_at
from kseg.formats.control import parse_control
from kseg.formats.record_batch import KRAFT_VERSION, KRAFT_VOTERS
from kseg.formats.rows import UndecodableError
from kseg.formats.schema import MessageError, json_text
from kseg.formats.suffixes import CHECKPOINT, LOG
from kseg.node.log_directory import records_in
from kseg.node.metadata_image import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    NO_LEADER_CHANGE,
    RECOVERING,
    TOPIC_RESOURCE,
    Fields,
    MetadataImage,
    PartitionImage,
    ReplayError,
)
from kseg.node.server_properties import SYNONYMS, ServerProperties
from kseg.releases.metadata import MetadataRules
from kseg.segment.files import LAST_OFFSET, QUORUM_STATE, SegmentFile, list_segments, segment_file
from kseg.segment.items import RecordBatch
from kseg.segment.reader import open_segment
from kseg.sidefiles import text_files
from kseg.stores.place import Place

Kinds = frozenset[int]
"""Types of records, by their api keys."""

Bag = Counter[tuple[int, int, str]]
"""Records of an image: apiKey, version, JSON."""

_MARKERS: Kinds = frozenset({BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION})

_NONE, _OPEN, _ENDED, _ABORTED = range(4)
"""States of a transaction."""


class RefusedRecordError(KsegError):
    """The first record that no node can replay: at `offset`, in the file `path`."""

    def __init__(self, path: str, offset: int, why: str) -> None:
        super().__init__(f"{path}: no node can replay the record at offset {offset}: {why}")
        self.path, self.offset, self.why = path, offset, why


class BatchLoader:
    """Replays batch after batch into ``image``, which has no part of a transaction that has not ended.

    ``skipped``: gets the records that no node can replay, which are left out; None: they are errors. ``kinds``: the
    types of records that are replayed besides markers of transactions; None: all. Records below ``start`` are not.
    """

    def __init__(
        self, image: MetadataImage, skipped: "list[RefusedRecordError] | None" = None, kinds: Kinds | None = None
    ) -> None:
        self.image, self.start = image, 0
        self._skipped, self._kinds = skipped, None if kinds is None else kinds | _MARKERS
        self._transaction = _NONE
        self._batches = 0

    def load(self, path: str, batch: RecordBatch, end: int | None = None) -> None:
        """Replays the records of a batch below ``end``. Raises RefusedRecordError; what the image was before is lost
        then."""
        for index, (offset, value) in enumerate(record_values(batch)):
            if end is not None and offset >= end:
                break
            if offset < self.start or not _is_of(value, self._kinds):
                continue
            try:
                record = read_framed(value, CLUSTER_METADATA)
                self._replay(record.api_key, record.fields, index)
            except (MessageError, ReplayError) as error:
                refused = RefusedRecordError(path, offset, str(error))
                if self._skipped is None:
                    raise refused from error
                self._skipped.append(refused)
        self._batches += 1
        if self._transaction == _ABORTED:
            self.image.discard()
        elif self._transaction in (_NONE, _ENDED):
            self.image.apply()
        else:
            return
        self._transaction, self._batches = _NONE, 0

    def _replay(self, api_key: int, fields: Fields, index: int) -> None:
        is_open = self._transaction == _OPEN
        if api_key == BEGIN_TRANSACTION:
            if is_open:
                raise ReplayError("a transaction begins within another")
            if index or self._batches:
                self.image.apply()
                self._batches = 0
            self._transaction = _OPEN
        elif api_key in (END_TRANSACTION, ABORT_TRANSACTION):
            if not is_open:
                raise ReplayError("a transaction ends that has not begun")
            self._transaction = _ENDED if api_key == END_TRANSACTION else _ABORTED
        else:
            self._transaction = _OPEN if is_open else _NONE
            self.image.replay(api_key, fields)

    def finish(self) -> bool:
        """Takes back a transaction that has not ended. Returns whether there was one."""
        was_open = self._transaction == _OPEN
        self.image.discard()
        self._transaction, self._batches = _NONE, 0
        return was_open


def _is_of(value: bytes | None, kinds: Kinds | None) -> bool:
    """Whether a record is of one of these types, by its first bytes (`kseg.decoders.framed`); None: of any."""
    return kinds is None or (value is not None and len(value) > 2 and value[0] == 1 and value[1] in kinds)


def record_values(batch: RecordBatch) -> Iterator[tuple[int, bytes | None]]:
    """Yields offset and value of each record. Raises UndecodableError."""
    for rows in batch.rows():
        yield from ((offset, value) for offset, _, value in rows.entries())


def _batches_in(files: Iterable[SegmentFile]) -> Iterator[tuple[str, RecordBatch | None]]:
    """Yields the intact batches of files with the path of each, None for each damaged range or batch. Raises
    KsegError."""
    for file in files:
        with open_segment(file.path) as reader:
            for item in reader:
                yield file.path, item if isinstance(item, RecordBatch) and item.is_valid else None


def bag(image: MetadataImage) -> Bag:
    """Returns the records of an image, to be compared with those of another."""
    return Counter((api_key, version, json_text(fields)) for api_key, version, fields in image.records())


@dataclass(slots=True)
class LoadedImage:
    """An image and where it ends: the offset of the next record, and the leader epoch of the last batch.

    ``snapshot``: the name of the file it begins with. ``lacking``: why later records are not in it, "" if all are;
    ``is_cut``: because of damage, at which a node's start cuts the log off.
    """

    image: MetadataImage
    offset: int = 0
    epoch: int = 0
    snapshot: str | None = None
    lacking: str = ""
    is_cut: bool = False


def load_snapshot(path: str, kinds: Kinds | None = None, is_whole: bool = True) -> LoadedImage:
    """Returns the image of a snapshot. ``kinds``: as for `BatchLoader`; ``is_whole`` false: the image of what can be
    read. Raises RefusedRecordError, and KsegError if it is damaged or not complete."""
    file, image, is_complete = segment_file(path), MetadataImage(), False  # a snapshot ends with a control batch

    def failed(error: KsegError) -> None:
        if is_whole:
            raise error

    for _, batch in _batches_in([file]):
        is_complete = batch is not None and batch.is_control
        if batch is None:
            failed(KsegError(f"{path}: it is damaged"))
        if batch is None or batch.is_control:
            continue
        try:
            for offset, value in record_values(batch):
                if not _is_of(value, kinds):
                    continue
                try:
                    record = read_framed(value, CLUSTER_METADATA)
                    image.replay(record.api_key, record.fields)
                except (MessageError, ReplayError) as error:
                    failed(RefusedRecordError(path, offset, str(error)))
        except UndecodableError as error:
            failed(KsegError(f"{path}: it has a record that cannot be read: {error}"))
    if not is_complete:
        failed(KsegError(f"{path}: it is not complete"))
    image.apply()
    return LoadedImage(image, file.base_offset or 0, file.epoch or 0, file.name)


def snapshots_among(files: list[SegmentFile]) -> list[SegmentFile]:
    """Returns the snapshots that a node loads, by rising offset."""
    found = [file for file in files if file.kind == CHECKPOINT and not file.leftover and file.epoch is not None]
    return sorted((file for file in found if file.base_offset), key=lambda file: (file.base_offset or 0, file.epoch))


def load_image(files: list[SegmentFile], end: int | None = None) -> LoadedImage:
    """Returns the image that the records below ``end`` make (None: all). ``files``: those of the directory.

    Raises KsegError if the newest snapshot below ``end`` cannot be read. Damage of the log, and a record that no node
    can replay, end the image: see `LoadedImage.lacking`.
    """
    snapshots = [file for file in snapshots_among(files) if end is None or (file.base_offset or 0) <= end]
    found = load_snapshot(snapshots[-1].path) if snapshots else LoadedImage(MetadataImage())
    start, loader = found.offset, BatchLoader(found.image)
    try:
        for path, batch in _batches_in(_logs(files)):
            if batch is None:
                found.lacking = f"{os.path.basename(path)} is damaged behind offset {found.offset - 1}"
                found.is_cut = True
                return found
            if batch.last_offset < start:
                continue
            if end is not None and batch.base_offset >= end:
                return found
            if batch.base_offset > found.offset:
                found.lacking = f"the log lacks offsets {found.offset} to {batch.base_offset - 1}"
                return found
            if not batch.is_control:
                loader.load(path, batch, end)
            found.offset = batch.last_offset + 1 if end is None else min(batch.last_offset + 1, end)
            found.epoch = batch.header.partition_leader_epoch
    except (RefusedRecordError, UndecodableError) as error:
        found.lacking = str(error)
    finally:
        was_open = loader.finish()
        if was_open and found.lacking:
            found.lacking += "; the transaction that is open there is left out"
    return found


@dataclass(slots=True)
class ReplayedLog:
    """What a replay of a whole log found: ``refused``, the record that stopped it; ``refused_snapshots``: such records
    of snapshots, by the snapshot's name; ``different``: the snapshots that are not what the log gives, each with the
    records that only it has and those that only the log gives; ``image`` at the end of the log, None if records there
    are missing, damaged or refused."""

    image: MetadataImage | None = None
    refused: RefusedRecordError | None = None
    refused_snapshots: dict[str, RefusedRecordError] = field(default_factory=dict)
    different: dict[str, tuple[Bag, Bag]] = field(default_factory=dict)


def load_readable(
    files: list[SegmentFile], end: int | None = None, kinds: Kinds | None = None
) -> tuple[LoadedImage, list[KsegError]]:
    """Returns the image of all records below ``end`` that can be read and replayed, and what cannot: damaged files,
    missing offsets, refused records, the rest of a transaction whose beginning is missing. ``kinds``: as for
    `BatchLoader`. It begins with the newest snapshot that is whole; with a damaged one if the log does not go on
    there."""
    logs = _logs(files)
    found, unread = _first_readable(snapshots_among(files), logs, end, kinds)
    start, errors, skipped = found.offset, list[KsegError](), list[RefusedRecordError]()
    loader, damaged, markers = BatchLoader(found.image, skipped, kinds), "", list[tuple[int, int]]()
    logs = _logs(files, start)

    def missing(path: str, what: str) -> None:
        cut = "; the transaction that is open there" if loader.finish() else ""
        errors.append(KsegError(f"{path}: {what}{cut}"))
        if not markers:
            ends = sorted((offset, value[1]) for offset, value in _values_in(logs, _MARKERS))
            markers.extend([*ends, (LAST_OFFSET, BEGIN_TRANSACTION)])
        offset, kind = markers[bisect_left(markers, (found.offset, 0))]
        if kind != BEGIN_TRANSACTION and offset >= loader.start:
            loader.start = offset + 1
            errors.append(KsegError(f"{path}: the transaction that ends at offset {offset}"))

    for path, batch in _batches_in(logs):
        if batch is None:
            damaged = path
            continue
        if batch.last_offset < start:
            damaged = ""
            continue
        stop = batch.base_offset if end is None else min(batch.base_offset, end)
        if stop > found.offset:
            why = "damaged bytes in the place of" if damaged else "the missing"
            last = f"s {found.offset} to {stop - 1}" if stop > found.offset + 1 else f" {found.offset}"
            missing(damaged or path, f"{why} offset{last}")
        damaged = ""
        if end is not None and batch.base_offset >= end:
            break
        if not batch.is_control:
            try:
                loader.load(path, batch, end)
            except UndecodableError as error:
                missing(path, f"the batch at offset {batch.base_offset}: {error}")
        found.offset = batch.last_offset + 1 if end is None else min(batch.last_offset + 1, end)
        found.epoch = max(found.epoch, batch.header.partition_leader_epoch)
    if damaged:
        missing(damaged, f"damaged bytes where offset {found.offset} is expected")
    loader.finish()
    lost = [error for offset, error in unread if offset > found.offset]  # the log has the records of the others
    return found, [*lost, *errors, *skipped]


def _first_readable(
    snapshots: list[SegmentFile], logs: list[SegmentFile], end: int | None, kinds: Kinds | None
) -> tuple[LoadedImage, list[tuple[int, KsegError]]]:
    """Returns what `load_readable` begins with, and the errors of newer snapshots, each with the offset behind it."""
    unread: list[tuple[int, KsegError]] = []
    damaged: SegmentFile | None = None
    found = LoadedImage(MetadataImage())
    for snapshot in reversed(snapshots):
        if end is None or (snapshot.base_offset or 0) <= end:
            try:
                found = load_snapshot(snapshot.path, kinds)
                break
            except KsegError as error:
                unread.append((snapshot.base_offset or 0, error))
                damaged = damaged or snapshot
    if damaged is not None and (not logs or (logs[0].base_offset or 0) > found.offset):
        found = load_snapshot(damaged.path, kinds, is_whole=False)
        unread = [(LAST_OFFSET, unread[0][1])]  # nothing else has its records
    return found, unread


def _values_in(files: list[SegmentFile], kinds: Kinds) -> Iterator[tuple[int, bytes]]:
    """Yields offset and value of the records of these types in the .log files that can be read."""
    for offset, _, value in records_in(files):
        if value is not None and _is_of(value, kinds):
            yield offset, value


def _logs(files: list[SegmentFile], start: int = -1) -> list[SegmentFile]:
    """Returns the .log files that may hold offsets above ``start``."""
    logs = [file for file in files if file.kind == LOG and not file.leftover]
    return [file for file, behind in zip_longest(logs, logs[1:]) if not behind or (behind.base_offset or 0) > start]


def replay_log(files: list[SegmentFile]) -> ReplayedLog:
    """Replays the log from its start, and compares each snapshot with it. Where records are missing, damaged or
    refused, it goes on at the next snapshot. Raises KsegError."""
    found, at = ReplayedLog(), 0
    unread = {file.base_offset: file for file in snapshots_among(files)}
    loader: BatchLoader | None = BatchLoader(MetadataImage())
    for path, batch in _batches_in(_logs(files)):
        if batch is None or batch.base_offset != at:
            loader = None
        if batch is None:
            continue
        loader = _at_snapshot(loader, unread.pop(batch.base_offset, None), found)
        at = batch.last_offset + 1
        if loader is None or batch.is_control:
            continue
        try:
            loader.load(path, batch)
        except RefusedRecordError as error:
            found.refused = found.refused or error
            loader = None
        except UndecodableError:  # a finding of its own
            loader = None
    _at_snapshot(loader, unread.pop(at, None), found)
    found.image = None if loader is None else loader.image
    for snapshot in unread.values():  # no batch of the log begins where it ends
        _at_snapshot(None, snapshot, found)
    return found


def unaccepted_records(files: list[SegmentFile], rules: MetadataRules) -> Iterator[tuple[str, int, str]]:
    """Yields path, offset and a sentence for the first record of each type and version that a node of the release
    reads at its start and does not accept. Raises KsegError."""
    newest = snapshots_among(files)[-1:]
    start, seen = newest[0].base_offset or 0 if newest else 0, set[tuple[int, int]]()
    for path, batch in _batches_in([*newest, *_logs(files, start)]):
        is_of_log = not newest or path != newest[0].path
        if batch is None or (is_of_log and batch.last_offset < start):
            continue
        with suppress(UndecodableError):
            if batch.is_control:
                kinds = {parse_control(record.key, record.value).type_id for record in batch}
                if not rules.has_voter_records and not kinds.isdisjoint((KRAFT_VERSION, KRAFT_VOTERS)):
                    yield path, batch.base_offset, f"Kafka {rules.name} does not know the control records of KIP-853"
                continue
            for offset, value in record_values(batch):
                with suppress(MessageError):
                    record = read_framed(value, CLUSTER_METADATA)
                    kind = record.api_key, record.version
                    if kind not in seen and not rules.accepts_record(*kind):
                        name = type_name(CLUSTER_METADATA[record.api_key])
                        yield path, offset, f"Kafka {rules.name} cannot read {name} version {record.version}"
                    seen.add(kind)


def _at_snapshot(loader: BatchLoader | None, snapshot: SegmentFile | None, found: ReplayedLog) -> BatchLoader | None:
    """Compares a snapshot with the replayed log; where that has stopped, begins anew with the snapshot."""
    if snapshot is None:
        return loader
    try:
        image = load_snapshot(snapshot.path).image
    except RefusedRecordError as error:
        found.refused_snapshots[snapshot.name] = error
        return loader
    except KsegError:
        return loader  # a finding of its own
    if loader is None:
        return BatchLoader(image)
    theirs, ours = bag(image), bag(loader.image)
    if theirs != ours:
        found.different[snapshot.name] = theirs - ours, ours - theirs
    return loader


MAX_BYTES = 256 << 20
"""Larger metadata are ignored: reading them would take too long for the settings that they give."""

_OF_TOPICS = frozenset({0, 1, 2, 4, 9, 12, 17, 27, 29})
"""Records of brokers, topics, settings, features and controllers, by their api keys."""
_CHANGES = frozenset({5})
"""Records that change a partition."""
_OF_PARTITIONS = frozenset({2, 3, 5, 9})
"""Records of topics and partitions."""
_BROKER_RESOURCE = 4
"""Resource types of a config record (ConfigResource.Type)."""


@dataclass
class TopicSettings:
    """Topics with their settings, registered nodes and partitions, of all that can be read and replayed. Most records
    are of other types; of these only two bytes are looked at.

    ``image``: topics, settings and registered nodes. ``lacking``: why records are missing or unreadable, so that
    topics may be unknown; "" if all are there."""

    image: MetadataImage
    lacking: str
    files: list[SegmentFile]

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
        return load_readable(self.files, kinds=_OF_PARTITIONS)  # few readers need them

    @property
    def knows_partitions(self) -> bool:
        """Whether no record of a topic or partition is missing or unreadable."""
        return not self.lacking and not self._of_partitions[1]

    @cached_property
    def partitions(self) -> dict[tuple[str, int], PartitionImage]:
        """The partitions by topic id and number, as far as they can be read."""
        topics = self._of_partitions[0].image.topics.values()
        return {(topic.topic_id, number): one for topic in topics for number, one in topic.partitions.items()}

    @property
    def reached(self) -> tuple[int, int]:
        """Leader epoch and offset where they end: of two copies the larger is the newer one."""
        return self._of_partitions[0].epoch, self._of_partitions[0].offset

    def others_in_sync(self, place: tuple[str, int], topic_id: str | None, node: int | None) -> frozenset[int] | None:
        """Returns the brokers that have all that was committed to a partition, besides a node; None if they are not
        known, or the node has no replica of it. ``topic_id``: that of the node's copy, None if unknown."""
        if node is None or not self.knows_partitions:
            return None
        named = self.ids.get(place[0])
        partition = self.partitions.get((named or "", place[1])) if topic_id in (None, named) else None
        if partition is None or node not in partition.replicas:
            return None
        return frozenset(partition.may_lead) - {node}

    def at_start(self) -> "TopicSettings | None":
        """Returns what is left at the start of a node that has its log from no other, and cuts it off at damage; None
        if that is not known."""
        try:
            loaded = load_image(self.files)
        except KsegError:
            return None
        found = TopicSettings(loaded.image, "", self.files)
        found._of_partitions = loaded, []
        return found if loaded.is_cut else None


def unclean_elections(metadata: TopicSettings, partition: tuple[str, int]) -> list[int]:
    """Returns the leader epochs of a partition for which a leader was elected that may have lacked what was committed,
    as far as the log reaches back. ``partition``: topic id and number."""
    found, elections = list[int](), 0
    for _, value in _values_in(metadata.files, _CHANGES):
        with suppress(MessageError):
            fields = read_framed(value, CLUSTER_METADATA).fields
            is_own = (fields.get("topicId"), fields.get("partitionId")) == partition
            if is_own and fields.get("leader", NO_LEADER_CHANGE) != NO_LEADER_CHANGE:
                elections += 1
                if fields.get("leaderRecoveryState") == RECOVERING:
                    found.append(elections)
    last = metadata.partitions[partition].leader_epoch
    return [last - elections + number for number in found]


def read_topic_settings(directory: str) -> TopicSettings | None:
    """Returns the settings in a __cluster_metadata directory; None if there are no files, more than MAX_BYTES, or they
    cannot be read."""
    try:
        files = list_segments(directory)
        newest = snapshots_among(files)[-1:]
        logs = _logs(files, newest[0].base_offset or 0 if newest else 0)
        read = [*newest, *logs]
        found = {file: Place(file.path).status() for file in files}  # of older snapshots, too: they may be needed
        if not read or sum(found[file].st_size for file in read) > MAX_BYTES:
            return None
        states = tuple(
            (one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found.values()
        )
        settings = _settings_in if Place(directory).tree is None else _settings_in.__wrapped__  # an archive is closed
        return settings(tuple(files), states, "" if logs else "no .log file is left")
    except (KsegError, OSError):
        return None  # verification of the metadata partition itself reports the error


@lru_cache(4)  # each damaged copy of a partition is recovered in dry runs, and each run asks for the settings
def _settings_in(files: tuple[SegmentFile, ...], _states: tuple[object, ...], lacking: str) -> TopicSettings:
    loaded, errors = load_readable(list(files), kinds=_OF_TOPICS)
    return TopicSettings(loaded.image, str(errors[0]) if errors else lacking, list(files))


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
    """Reads the control records of all snapshots, also of the bootstrap snapshot, and logs. Raises KsegError. Sources:
    KRaftControlRecordStateMachine and QuorumState of Kafka 4.4.0; KIP-630, KIP-853."""
    offset = epoch = version = 0
    timestamp, voters, newest = -1, list[dict[str, Any]](), -1
    read = [file for file in files if not file.leftover and (file.kind == LOG or file.epoch is not None)]
    for file in sorted(read, key=lambda file: file.kind == LOG):
        is_snapshot = file.kind == CHECKPOINT
        base, file_epoch = file.base_offset or 0, file.epoch or 0
        offset, epoch = max(offset, base), max(epoch, file_epoch)
        with suppress(KsegError):  # a snapshot that is not readable
            for _, batch in _batches_in([file]):
                if batch is None:
                    continue
                at = base if is_snapshot else batch.base_offset
                timestamp = max(timestamp, batch.header.max_timestamp)
                if not is_snapshot:
                    offset, epoch = max(offset, batch.last_offset + 1), max(epoch, batch.header.partition_leader_epoch)
                for record in batch if batch.is_control and at >= newest else ():
                    control = parse_control(record.key, record.value)
                    if control.error is None and control.type_id == KRAFT_VERSION:
                        version = control.fields["kRaftVersion"]
                    elif control.error is None and control.type_id == KRAFT_VOTERS:
                        newest, voters = at, control.fields["voters"]
    epoch = max(epoch, quorum_state_in(directory).leader_epoch or 0)
    return Raft(offset, epoch, timestamp, version, voters)


def quorum_state_in(directory: str) -> text_files.QuorumState:
    """Returns the quorum-state, without contents if it is lost or unreadable: then the node makes it anew."""
    with suppress(KsegError, OSError):
        content = (Place(directory) / QUORUM_STATE).read(text_files.MAX_TEXT_BYTES)
        state = next(text_files.read_quorum_state(content))
        if isinstance(state, text_files.QuorumState):
            return state
    return text_files.QuorumState(*(None for _ in text_files.QuorumState._fields))


class Quorum(NamedTuple):
    """The node of a copy of the log, and the quorum by it. ``number``, ``directory_id``: of the node, None if unknown;
    ``voters``: the directory.id of each by its id, none if the files do not tell; ``is_broker``: the node is no
    controller by its settings."""

    number: int | None
    directory_id: str | None
    voters: Mapping[int, str | None]
    is_broker: bool = False

    @property
    def is_alone(self) -> bool | None:
        """Whether the node is the only voter; None if its files do not tell."""
        if self.is_broker:
            return False
        if not self.voters or self.number is None:
            return None if len(self.voters) < 2 else False
        if set(self.voters) != {self.number}:
            return False
        # Of the voter under another directory.id nobody has a copy for sure.
        return True if len({self.directory_id, self.voters[self.number]} - {None}) < 2 else None

    @property
    def others(self) -> frozenset[int]:
        """The other voters, if the node is one or may be one; none if it is not."""
        is_voter = not self.is_broker and (self.number is None or self.number in self.voters)
        return frozenset(self.voters) - {self.number} if is_voter else frozenset()


def quorum_of(directory: str, server: ServerProperties | None = None) -> Quorum:
    """Returns the quorum by a copy of the log: voters are those of the newest KRAFT_VOTERS, of
    controller.quorum.voters, or of quorum-state; the node is that of meta.properties."""
    try:
        own = properties_of(Place(directory).absolute.parent)
        number, directory_id = own.number, own.directory_id
    except PathError:
        number, directory_id = None, None
    number = server.node_id if number is None and server is not None else number
    if server is not None and not server.may_be_controller:
        return Quorum(number, directory_id, {}, is_broker=True)
    voters = read_raft(directory, list_segments(directory)).voter_directories
    if not voters:
        static = server.quorum_voters if server is not None else frozenset()
        voters = dict.fromkeys(static or quorum_state_in(directory).current_voters or ())
    return Quorum(number, directory_id, voters)


def properties_of(directory: str) -> text_files.MetaProperties:
    """Reads the meta.properties of a log directory. Raises PathError."""
    path = Place(directory) / text_files.META_PROPERTIES
    with errors_at(path):
        found = next(text_files.read_meta_properties(path.read(text_files.MAX_PROPERTIES_BYTES)))
    if not isinstance(found, text_files.MetaProperties):
        raise PathError(f"{path}: cannot be read")
    return found
