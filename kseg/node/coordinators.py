"""The state that coordinators keep in a log directory: transactions, committed offsets, and verdicts drawn from them.

Sources: KIP-664 (hanging transactions), TransactionState, TransactionLogKey and TransactionLogValue of Kafka 4.3.1.
"""

import os
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from itertools import chain, zip_longest
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple

from kseg.decoders.keyed import coordinator_decoder
from kseg.decoders.schemas import STATUSES, TRANSACTION_STATE
from kseg.errors import KsegError
from kseg.formats.control import parse_control
from kseg.formats.json_values import name_value, unset
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import Rows, Scratch, UndecodableError
from kseg.formats.schema import ZERO_UUID, MessageError
from kseg.formats.suffixes import LOG
from kseg.limits import TRANSACTION_LIMIT_MS
from kseg.node.log_directory import (
    checkpoint_offsets,
    intact_batches,
    log_extent,
    longest_copy,
    partitions_in,
    records_in,
    topic_id_at,
)
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile, list_segments
from kseg.segment.isolation import LastMarker, OpenTransaction, OpenTransactions
from kseg.segment.items import Batch, RecordBatch
from kseg.sidefiles.checkpoints import LOG_STARTS
from kseg.sidefiles.hash_order import coordinator_partition
from kseg.stores.place import Place

Partition = tuple[str, int]
"""Topic and number."""
TOPIC = "__transaction_state"
MAX_STATE_BYTES = 64 << 20
"""Limit of bytes read, newest segments of each partition first: names in messages justify no longer read."""

_KEY, _VALUE, _VERSION = struct.Struct(">hh"), struct.Struct(">hq"), struct.Struct(">h")


class TransactionState(NamedTuple):
    """The last record of a transactional id. All but ``name`` are None if the record cannot be decoded;
    ``state`` also if its number is unknown.

    ``partitions``: the partitions of the ongoing transaction, as (topic, number); ``start_ms`` and ``update_ms``: when
    it began, and when its state changed last.
    """

    name: str
    producer_epoch: int | None = None
    state: str | None = None
    timeout_ms: int | None = None
    partitions: frozenset[tuple[str, int]] | None = None
    start_ms: int | None = None
    update_ms: int | None = None


def _states_in(file: SegmentFile, scratch: Scratch) -> Iterator[tuple[int, tuple[str, bytes]]]:
    """Yields producer id, transactional id and value of each record of __transaction_state that has them.

    key     i16 record type 0, then the id (i16 length, bytes)
    value   i16 version, then i64 producer id in all versions; null if the id has expired
    """
    for _, key, value in records_in([file], scratch):
        if not key or not value or len(key) < _KEY.size or len(value) < _VALUE.size:
            continue
        (record_type, length), (_, producer_id) = _KEY.unpack_from(key), _VALUE.unpack_from(value)
        name = key[_KEY.size : _KEY.size + length]
        if record_type == 0 and len(name) == length:
            yield producer_id, (os.fsdecode(name), value)


def _state(name: str, value: bytes) -> TransactionState:
    message, (version,) = TRANSACTION_STATE.values[0], _VERSION.unpack_from(value)
    if not 0 <= version <= message.highest:
        return TransactionState(name)
    try:
        fields, _ = message.read(value, version, _VERSION.size)
    except MessageError:
        return TransactionState(name)
    number = fields["transactionStatus"]
    return TransactionState(
        name,
        fields["producerEpoch"],
        STATUSES[number] if 0 <= number < len(STATUSES) else None,
        fields["transactionTimeoutMs"],
        frozenset(
            (each["topic"], partition)
            for each in fields["transactionPartitions"] or ()
            for partition in each["partitionIds"]
        ),
        fields["transactionStartTimestampMs"],
        fields["transactionLastUpdateTimestampMs"],
    )


OPEN, HANGING, ENDING = "open", "hanging", "ending"
ENDING_STATES = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
"""The states of transactions whose markers are being written."""
_ONGOING = "Ongoing"
_ABORT_DELAY_MS = 10_000
"""Default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""


class Prepared(NamedTuple):
    """A transaction that the coordinator does not complete although its marker is in the partition.

    ``marker``: None if the partition is gone. ``age_ms``: since its state changed last, None if unknown.
    """

    producer_id: int
    state: TransactionState
    marker: LastMarker | None
    age_ms: int | None


class Judged(NamedTuple):
    """``verdict`` is OPEN, HANGING or ENDING, ``why`` its reason, "" if there is none to tell. ``state`` is None if no
    __transaction_state names the producer."""

    transaction: OpenTransaction
    state: TransactionState | None
    age_ms: int | None
    verdict: str
    why: str


def judge(
    transaction: OpenTransaction,
    states: Mapping[int, TransactionState],
    partition: tuple[str | None, int | None],
    now_ms: int | None,
    knows_all: bool = False,
) -> Judged:
    """Judges one open transaction of a partition, given by topic and number. ``now_ms``: a time at which the
    coordinator was running, in ms since the epoch; None if unknown; ``knows_all``: see `Coordinators`."""
    state, age_ms = states.get(transaction.producer_id), transaction.age_ms(now_ms)
    return Judged(
        transaction, state, age_ms, *verdict_of(transaction.producer_epoch, state, partition, age_ms, knows_all)
    )


def verdict_of(
    producer_epoch: int, state: TransactionState | None, partition: tuple[str | None, int | None], age_ms: int | None,
    knows_all: bool = False,
) -> tuple[str, str]:  # fmt: skip
    """Returns OPEN, HANGING or ENDING, and the reason for HANGING; ``state``: the coordinator's record of the
    producer."""
    if state is None and knows_all:
        return HANGING, f"hanging: no copy of {TOPIC} in the cluster has its producer, so nothing ends it"
    if state is None or state.state is None:
        # The record may be on another broker. Then only the age counts: brokers allow no longer timeout by default.
        if age_ms is None or age_ms <= TRANSACTION_LIMIT_MS:
            return OPEN, ""
        return HANGING, f"hanging by its age, unless a {TOPIC} that is not here has its producer"
    if state.state in ENDING_STATES:
        return ENDING, ""
    is_ongoing = state.state == _ONGOING
    latest_ms = None if state.timeout_ms is None else state.timeout_ms + _ABORT_DELAY_MS
    if is_ongoing and latest_ms is not None and age_ms is not None and age_ms > latest_ms:
        return HANGING, "hanging: it is older than its timeout, and the coordinator has not aborted it"
    if is_ongoing and state.producer_epoch == producer_epoch and partition in (state.partitions or ()):
        return OPEN, ""
    return HANGING, "hanging: the coordinator does not know this transaction, so nothing ends it"


def prepared(
    states: Mapping[int, TransactionState],
    partition: tuple[str | None, int | None],
    transactions: OpenTransactions,
    now_ms: int | None,
) -> list[Prepared]:
    """Returns the transactions of a partition that are prepared, and whose marker it already has.

    A coordinator whose markers other partitions reject keeps a transaction in this state for ever (KAFKA-19999).
    """
    still_open = {each.producer_id for each in transactions.found}
    found = []
    for producer_id, state in states.items():
        marker = transactions.markers.get(producer_id)
        if (
            marker is not None
            and state.state in ENDING_STATES
            and producer_id not in still_open
            and partition in (state.partitions or ())
            and marker.producer_epoch >= (state.producer_epoch or 0)
            and marker.timestamp >= (state.start_ms or 0)  # not that of an earlier transaction
        ):
            age_ms = None if now_ms is None or state.update_ms is None else now_ms - state.update_ms
            found.append(Prepared(producer_id, state, marker, age_ms))
    return found


def abort_command(topic: str | None, partition: int | None, first_offset: int) -> list[str]:
    """Returns the command that aborts a transaction on a live cluster (Kafka 3.0 and later)."""
    return [
        "kafka-transactions.sh", "--bootstrap-server", "HOST:9092", "abort", "--topic", topic or "TOPIC",
        "--partition", "N" if partition is None else str(partition), "--start-offset", str(first_offset),
    ]  # fmt: skip


_NO_PRODUCER = -1
_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT = b"\0\0", b"\0\1"
_LENGTH = struct.Struct(">h")
_PARTITION_BYTES = 4
_VERSION_AND_OFFSET, _EPOCH, _FIRST_WITH_EPOCH = struct.Struct(">hq"), struct.Struct(">i"), 3

Spans = Callable[[Rows], Iterable[tuple[int, int]]]

CommittedOffset = dict[str, Any]
"""An offset committed by a group, as in JSON: ``group``, ``topic``, ``partition``, ``offset``, ``leaderEpoch``,
``metadata``, ``commitTimestamp``, ``expireTimestamp``, ``topicId``, ``recordOffset`` (of the commit record in
__consumer_offsets) and ``error``.

Timestamps are in ms. Leader epoch, expiry and topic id are None if the commit has none. If the value cannot be decoded,
``error`` is the reason, and ``offset`` and what else it holds is None.
"""

_Held = tuple[int, bytes, bytes]
"""Offset, key and value of a commit record; decoded only if the commit is in effect at the end."""


class CommittedOffsets:
    """Replays one partition of __consumer_offsets to the committed offsets that are in effect, as a group coordinator
    loads them. Memory grows with the number of effective and pending offsets.

    A commit with a producer id is pending until a marker ends its transaction. COMMIT puts it into effect unless a
    later record has set the same offset; ABORT drops it. A null value removes an offset, including the pending ones of
    every transaction. Key versions 0 and 1 of a commit are equivalent. Offsets beyond their retention stay: the
    coordinator writes a null value when it removes one. Source: OffsetMetadataManager, GroupCoordinatorShard and
    CoordinatorLoaderImpl of Kafka 4.3.1; KIP-98, KIP-447.

    ``undecodable`` counts unreadable commit keys, and batches whose records become unreadable.
    """

    def __init__(self) -> None:
        self.undecodable = 0
        self.deleted: set[bytes] = set()
        """The places of offsets that null values have deleted, and that no group has committed again."""
        self._offsets: dict[bytes, _Held] = {}
        self._pending: dict[int, dict[bytes, _Held]] = defaultdict(dict)
        self._pending_in: dict[bytes, set[int]] = defaultdict(set)

    @property
    def pending(self) -> int:
        """Number of commits in transactions that no marker has ended."""
        return sum(map(len, self._pending.values()))

    def add(self, batch: Batch, spans: Spans | None = None) -> None:
        """Adds the next batch of the partition; ``spans`` are the row ranges (first, stop) to read, None for all."""
        producer_id = batch.header.producer_id if isinstance(batch, RecordBatch) else _NO_PRODUCER
        try:
            for rows in batch.rows():
                for first, stop in ((0, rows.count),) if spans is None else spans(rows):
                    if batch.is_control:
                        self._end(producer_id, rows, first, stop)
                    else:
                        self._take(producer_id, rows, first, stop)
        except UndecodableError:
            self.undecodable += 1

    def add_rows(self, rows: Rows) -> None:
        """Adds the next records of batches that no producer with an id has written."""
        self._take(_NO_PRODUCER, rows, 0, rows.count)

    def found(self) -> Iterator[CommittedOffset]:
        """Yields the offsets in effect, in no particular order."""
        read = coordinator_decoder("offsets")
        for record_offset, key, value in self._offsets.values():
            decoded = read.decode_fields(key, value, record_offset)
            data = decoded.value.get("data", {})
            topic_id = data.get("topicId", ZERO_UUID)
            yield {
                **decoded.key["data"],
                "offset": data.get("offset"),
                "leaderEpoch": unset(data.get("leaderEpoch", -1)),
                "metadata": data.get("metadata"),
                "commitTimestamp": data.get("commitTimestamp"),
                "expireTimestamp": unset(data.get("expireTimestamp", -1)),
                "topicId": None if topic_id == ZERO_UUID else topic_id,
                "recordOffset": record_offset,
                "error": decoded.value.get("error"),
            }

    def positions(self) -> Iterator[tuple[bytes, int, int, int | None]]:
        """Yields topic, partition, committed offset and leader epoch of the offsets in effect, which are at the same
        place in all versions of a value; an epoch of -1 or of an older version as None."""
        for place, (_, _, value) in self._offsets.items():
            if _VERSION_AND_OFFSET.size <= len(value):
                version, offset = _VERSION_AND_OFFSET.unpack_from(value)
                has_epoch = version >= _FIRST_WITH_EPOCH and len(value) >= _VERSION_AND_OFFSET.size + _EPOCH.size
                epoch = _EPOCH.unpack_from(value, _VERSION_AND_OFFSET.size)[0] if has_epoch else -1
                topic_at = _LENGTH.size + _LENGTH.unpack_from(place)[0] + _LENGTH.size
                topic, partition = place[topic_at:-_PARTITION_BYTES], place[-_PARTITION_BYTES:]
                yield topic, int.from_bytes(partition, "big", signed=True), offset, unset(epoch)

    def _take(self, producer_id: int, rows: Rows, first: int, stop: int) -> None:
        for offset, key, value in rows.entries(first, stop):
            if key is None or not key.startswith((_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT)):
                continue
            place = _place(key)
            if place is None:
                self.undecodable += 1
            elif value is None:
                if self._offsets.pop(place, None) is not None:
                    self.deleted.add(place)
                for pending_in in self._pending_in.pop(place, ()):
                    self._pending[pending_in].pop(place, None)
            elif producer_id == _NO_PRODUCER:
                self._offsets[place] = offset, key, value
                self.deleted.discard(place)
            else:
                self._pending[producer_id][place] = offset, key, value
                self._pending_in[place].add(producer_id)

    def _end(self, producer_id: int, rows: Rows, first: int, stop: int) -> None:
        for _, key, value in rows.entries(first, stop):
            kind = parse_control(key, value).type_id
            if kind not in (ABORT, COMMIT):
                continue
            for place, held in self._pending.pop(producer_id, {}).items():
                others = self._pending_in[place]
                others.discard(producer_id)
                if not others:
                    del self._pending_in[place]
                if kind == COMMIT and (place not in self._offsets or held[0] > self._offsets[place][0]):
                    self._offsets[place] = held
                    self.deleted.discard(place)


def _place(key: bytes) -> bytes | None:
    """Returns the part of a commit's key that identifies group, topic and partition; None if the key is too short."""
    at = 2
    for _ in ("group", "topic"):
        if len(key) < at + _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(key, at)
        if length < 0:
            return None
        at += _LENGTH.size + length
    end = at + _PARTITION_BYTES
    return key[2:end] if end <= len(key) else None


def _group_of(place: bytes) -> str:
    """Returns the group in the result of `_place`."""
    (length,) = _LENGTH.unpack_from(place)
    return os.fsdecode(place[_LENGTH.size : _LENGTH.size + length])


MAX_BYTES = 256 << 20
"""Limit of __consumer_offsets in a log directory; more would take too long to read for this."""


class GroupOffset(NamedTuple):
    """An offset that a group has committed for a partition; ``topic_id``: None if the commit has none."""

    group: str
    offset: int
    topic_id: str | None

    def as_object(self) -> dict[str, Any]:
        return {"group": name_value(self.group), "offset": self.offset}


GroupOffsets = dict[Partition, list[GroupOffset]]


def waiting_groups(
    offsets: GroupOffsets | None, partition: tuple[str | None, int | None], stable: int, topic_id: str | None = None
) -> list[GroupOffset] | None:
    """Returns the groups that cannot read beyond the last stable offset ``stable``, by descending offset.

    A commit does not show whether its group reads only committed records; a group that reads all does not wait.
    ``topic_id``: that of the partition; commits for an earlier topic of the same name are skipped. None if no offsets
    are known.
    """
    if offsets is None or partition[0] is None or partition[1] is None:
        return None
    of_topic = [
        each
        for each in offsets.get((partition[0], partition[1]), ())
        if each.offset <= stable and (topic_id is None or each.topic_id in (None, topic_id))
    ]
    return sorted(of_topic, key=lambda each: (-each.offset, each.group))


class Coordinators:
    """The coordinators of a node, or of the nodes of a cluster that are given, by their ``log_directories``.

    ``state_partitions``: returns the number of partitions of __transaction_state if nobody else can have another copy;
    else None.
    """

    def __init__(
        self, log_directories: Iterable[str], state_partitions: Callable[[], int | None] = lambda: None
    ) -> None:
        self._log_directories, self._state_partitions = list(log_directories), state_partitions

    @cached_property
    def transaction_states(self) -> Mapping[int, TransactionState]:
        """The state in the last record of each producer id; ids that are not UTF-8 are decoded like file names.

        The id of an expired producer is known until the log cleaner removes its record.
        """
        found: dict[int, tuple[str, bytes]] = {}
        scratch, left = Scratch(), float(MAX_STATE_BYTES)
        ranked = zip_longest(*map(reversed, self._logs(TOPIC)))
        for file in filter(None, chain.from_iterable(ranked)):  # the last segment of each partition first
            left -= _bytes_of([file])
            if left < 0:
                break
            found = dict(_states_in(file, scratch)) | found
        return {producer_id: _state(*record) for producer_id, record in found.items()}

    @cached_property
    def group_offsets(self) -> GroupOffsets | None:
        """The committed offsets by topic and partition; None if there is no readable __consumer_offsets, or more than
        MAX_BYTES."""
        found: defaultdict[Partition, list[GroupOffset]] = defaultdict(list)
        partitions, scratch = self._logs(OFFSETS_TOPIC), Scratch()
        if not partitions or _bytes_of(chain.from_iterable(partitions)) > MAX_BYTES:
            return None
        for files in partitions:
            replay = CommittedOffsets()
            for batch in intact_batches(files, scratch):
                replay.add(batch)
            for each in replay.found():
                if each["offset"] is not None:
                    group = GroupOffset(each["group"], each["offset"], each["topicId"])
                    found[each["topic"], each["partition"]].append(group)
        return dict(found)

    @cached_property
    def knows_all(self) -> bool:
        """Whether a producer that ``transaction_states`` lacks is one that no coordinator knows."""
        logs = self._logs(TOPIC)
        return len(logs) == self._state_partitions() and _bytes_of(chain.from_iterable(logs)) <= MAX_STATE_BYTES

    def _logs(self, topic: str) -> list[list[SegmentFile]]:
        """Returns the .log files of each partition of a topic; of several copies those of the one that ends last, which
        the others fetch. An empty list if they cannot be listed."""
        paths: dict[Partition, list[str]] = defaultdict(list)
        scratch = Scratch()
        with suppress(KsegError, OSError):
            for one in self._log_directories:
                for place, path in partitions_in(one, topic):
                    paths[place].append(path)
            longest = [longest_copy(some, scratch) for some in paths.values()]
            return [[file for file in list_segments(path) if file.kind == LOG] for path in longest]
        return []


def _bytes_of(files: Iterable[SegmentFile]) -> float:
    """Returns the size of files; infinity if it is not known."""
    with suppress(OSError):
        return sum(Place(file.path).size() for file in files)
    return inf


class CommitTable:
    """The committed offsets in partitions of __consumer_offsets, which are read one after the other, with their lags.

    Lag is computed from the log ends in the log directories that contain the files, and in those of `add_directory`; of
    several copies of a log the one that ends last counts. If two partitions hold the same offset, the newest commit is
    used. ``warn`` gets the reason of each unknown log end.

    ``newest``: the newest timestamp read. ``pending``: commits in open transactions. ``undecodable``: unreadable keys
    of commits and batches; ``errors``: unreadable values.
    """

    def __init__(self, scratch: Scratch, warn: Callable[[str], None]) -> None:
        self._scratch, self._warn = scratch, warn
        self._directories: set[str] = set()
        self._copies: dict[Partition, list[str]] = defaultdict(list)
        """The paths of all partitions in the log directories."""
        self._extents: dict[str, tuple[int, int] | None] = {}
        self._log_starts, self._topic_id_at = cache(checkpoint_offsets), cache(topic_id_at)
        self._longest = cache(lambda *copies: longest_copy(copies, scratch))
        self._replay = CommittedOffsets()
        self._place: str | None = None
        self._found: dict[tuple[str, str, int], CommittedOffset] = {}
        self._number: int | None = None
        self.deleted: dict[str, dict[str, None]] = {}
        """The groups with deleted offsets, by the partition of __consumer_offsets that has their last commits."""
        self.newest = -1
        self.pending = self.undecodable = self.errors = 0

    def add_directory(self, directory: str) -> None:
        """Adds a log directory whose partitions are used for log ends."""
        directory = Place(directory).absolute
        if directory in self._directories:
            return
        self._directories.add(directory)
        try:
            for place, path in partitions_in(directory):
                self._copies[place].append(path)
        except KsegError as error:
            self._warn(f"{error}; its log ends are not known")

    def _path_of(self, found: CommittedOffset) -> str | None:
        """Returns the path of the partition, None if no log directory has it. A topic recreated under the same name has
        another id and does not count."""
        copies, topic_id = self._copies.get((found["topic"], found["partition"]), []), found["topicId"]
        if topic_id is not None:
            copies = [path for path in copies if self._topic_id_at(path) in (None, topic_id)]
        return self._longest(*copies) if copies else None

    def paths_of(self, topic: str) -> list[str]:
        """Returns the paths of a topic's partitions, by number."""
        return [self._longest(*copies) for place, copies in sorted(self._copies.items()) if place[0] == topic]

    def begin(self, file: SegmentFile) -> None:
        """Begins with the next segment."""
        place = Place(file.path).absolute.parent
        if place != self._place:
            self._end_partition()
            self._place, self._number = place, file.partition
        if file.topic is not None:
            self.add_directory(place.parent)

    def add(self, batch: Batch, spans: Spans | None = None) -> bool:
        """Adds the next valid batch; ``spans`` as in `CommittedOffsets.add`. Returns whether all of it is decoded."""
        undecodable = self._replay.undecodable
        self.newest = max(self.newest, batch.max_timestamp)
        self._replay.add(batch, spans)
        return self._replay.undecodable == undecodable

    def take(self) -> list[CommittedOffset]:
        """Returns the committed offsets of the partitions read since the last call, by group, topic and partition; each
        with ``logStartOffset``, ``logEndOffset``, ``lag``, and in ``outside`` how many offsets it is after the log end,
        or (negative) before the log start: 0 within the log. They are None if unknown."""
        from kseg.node.group_lags import records_in_lags  # few commands list offsets

        self._end_partition()
        rows, count = list[CommittedOffset](), self._partition_count
        for each in sorted(self._found.values(), key=itemgetter("group", "topic", "partition")):
            extent, lag, outside = self._extent(each), None, None
            if extent is not None and each["offset"] is not None:
                lag = max(0, extent[1] - max(each["offset"], extent[0]))
                outside = max(0, each["offset"] - extent[1]) or min(0, each["offset"] - extent[0])
            start, end = extent or (None, None)
            wanted = None if count is None else coordinator_partition(each["group"], count)
            rows.append(each | {
                "logStartOffset": start, "logEndOffset": end, "lag": lag, "outside": outside,
                "coordinatorPartition": wanted,
            })  # fmt: skip
        records_in_lags(rows, self._path_of, self._scratch)
        self._found.clear()
        return rows

    @cached_property
    def _partition_count(self) -> int | None:
        from kseg.node.group_lags import offsets_partition_count

        return offsets_partition_count(self._directories)

    def topic_names(self) -> dict[str, str]:
        """Returns the names of topics by their ids, as metadata logs and partition.metadata have them."""
        from kseg.node.group_lags import metadata_in

        names = {each: topic for found in metadata_in(self._directories) for topic, each in found.ids.items()}
        found = ((self._topic_id_at(path), topic) for (topic, _), copies in self._copies.items() for path in copies)
        return names | {topic_id: topic for topic_id, topic in found if topic_id is not None}

    def _end_partition(self) -> None:
        if self._place is not None and self._replay.deleted:
            names = sorted({_group_of(place) for place in self._replay.deleted})
            self.deleted.setdefault(self._place, {}).update(dict.fromkeys(names))
        for offset in self._replay.found():
            offset["offsetsPartition"] = self._number
            key = offset["group"], offset["topic"], offset["partition"]
            other, time = self._found.get(key), offset["commitTimestamp"] or -1
            if other is None or (other["commitTimestamp"] or -1) <= time:
                self._found[key] = offset
            self.newest = max(self.newest, time)
            self.errors += offset["error"] is not None
        self.pending += self._replay.pending
        self.undecodable += self._replay.undecodable
        self._replay = CommittedOffsets()

    def _extent(self, found: CommittedOffset) -> tuple[int, int] | None:
        """Returns the log start offset and the offset after the last intact batch of the partition; None if they are
        unknown."""
        if (path := self._path_of(found)) is None:
            return None
        if path not in self._extents:
            self._extents[path] = None  # so that a read error is reported only once
            try:
                extent = log_extent(path, self._scratch)
            except KsegError as error:
                self._warn(f"{error}; the log end is not known")
                return None
            if extent is not None:
                starts = self._log_starts(Place(path).parent / LOG_STARTS)
                start = starts.get((found["topic"], found["partition"]), 0)
                self._extents[path] = max(extent[0], start), extent[1]
        return self._extents[path]
