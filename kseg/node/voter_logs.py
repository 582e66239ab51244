"""The metadata logs of a cluster's voters: how far each has what was committed, and which of them can elect a leader
without it.

A voter votes for whoever's log ends at least where its own does (leader epoch, then offset), so a majority that lacks
committed records elects a leader without them, and the others cut theirs off. No file has the high watermark of this
log; but what nodes have acted on, and what is in a snapshot, was committed. Sources: QuorumState, KafkaRaftClient,
KafkaRaftLog of Kafka 4.4.0; KIP-595, KIP-630, KIP-853.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from kseg.decoders.framed import read_framed, type_name
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.errors import KsegError
from kseg.formats.schema import MessageError
from kseg.node.cluster import Cluster, LogCopy, batches_between, log_copy, logs_between
from kseg.node.cluster_metadata import quorum_of, snapshots_among
from kseg.node.log_directory import METADATA_PARTITION, records_in
from kseg.segment.files import CLEAN_SHUTDOWN, LAST_OFFSET, list_segments
from kseg.sidefiles.checkpoints import EpochEntry
from kseg.sidefiles.text_files import MAX_TEXT_BYTES, CleanShutdown, read_clean_shutdown
from kseg.stores.place import Place

_REGISTRATION, _TOPIC, _NO_OP = 0, 2, 20
"""Records of the registration of a broker, of a topic, and of nothing, by their api keys."""
_MAX_NAMES = 20


class Proof(NamedTuple):
    """A record that was committed for sure: its offset, the node that has acted on it, and how, in words."""

    offset: int
    node: int
    text: str


class LostEnd(NamedTuple):
    """The records of the longest log that a majority of the voters may lack.

    ``proof``: the last one that was committed for sure; ``lacking``: the voters that do not have it, ``having``: those
    that do; ``lost_by``: those of the former that had it, as they have acted on it; ``records``: what the records are.
    """

    proof: Proof
    lacking: list[LogCopy]
    having: list[LogCopy]
    lost_by: list[LogCopy]
    records: list[str]


class VoterLogs:
    """The metadata logs of the nodes of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @cached_property
    def logs(self) -> dict[int, LogCopy]:
        """The metadata log of each node that has one that can be read."""
        found = {}
        for number, node in self._cluster.nodes.items():
            if node.metadata is not None:
                path = Place(node.metadata.path) / METADATA_PARTITION
                with suppress(KsegError, OSError):
                    found[number] = voter_log(number, path, self._cluster.extent_of(path))
        return found

    @cached_property
    def longest(self) -> LogCopy | None:
        """The log that wins an election against all others."""
        return max(self.logs.values(), key=lambda log: (log.epoch or 0, log.end), default=None)

    @cached_property
    def voters(self) -> list[int]:
        """The voters by the longest log, else by the quorum-state or the configuration of its node; none if they do
        not tell."""
        if self.longest is None or self.longest.path is None:
            return []
        with suppress(KsegError, OSError):
            return sorted(quorum_of(self.longest.path, self._cluster.nodes[self.longest.node].server).voters)
        return []

    def newest_time(self, number: int) -> int | None:
        """Returns the time of the last record in a node's metadata log, in ms by the clock of the active controller,
        which appends one every 500 ms (metadata.max.idle.interval.ms); None if there is none."""
        log, times = self.logs.get(number), [-1]
        if log is not None and log.path is not None:
            with suppress(KsegError, OSError):
                times += [batch.max_timestamp for batch in batches_between(log.path, log.end - 1, LAST_OFFSET)]
        return None if max(times) < 0 else max(times)

    @property
    def not_given(self) -> list[int]:
        """The voters whose logs are not given."""
        return [number for number in self.voters if number not in self.logs]

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def lost_end(self) -> LostEnd | None:
        """Returns what a majority of the voters can elect a leader without although it was committed; None if there is
        nothing. Voters that are not given may lack it."""
        longest = self.longest
        given = [self.logs[number] for number in self.voters if number in self.logs]
        if longest is None or not given:
            return None
        reached = {log.node: log.agrees_to(longest) for log in self.logs.values()}
        least = min(reached[log.node] for log in given)
        proofs = list(self._proofs(longest, least)) if least < longest.end else []
        proof = max(proofs, key=lambda one: one.offset, default=None)
        if proof is None:
            return None
        lacking = [log for log in given if reached[log.node] <= proof.offset]
        # Of a majority that lacks it, the longest log wins.
        reaches = sorted(reached[log.node] for log in lacking)
        lost_by = {one.node for one in proofs if one.offset >= reached.get(one.node, LAST_OFFSET)}
        # A voter that was down lacks what the others have: one that is not given lacks it only if something was lost.
        possible = len(self.not_given) if lost_by else 0
        if len(lacking) + possible < self.majority:
            return None
        return LostEnd(
            proof, lacking,
            [log for log in self.logs.values() if reached[log.node] > proof.offset],
            [log for log in lacking if log.node in lost_by],
            self._shown(longest, reaches[min(self.majority, len(reaches)) - 1]),
        )  # fmt: skip

    def _proofs(self, longest: LogCopy, start: int) -> Iterator[Proof]:
        """Yields records of the longest log from an offset on that were committed, with each node that shows it."""
        topics = {number: self._cluster.topic_ids(number) for number in self._cluster.nodes}
        for offset, api_key, fields in _records(longest, start):
            for number in topics:
                if api_key == _TOPIC and (path := topics[number].get(fields["topicId"])) is not None:
                    yield Proof(offset, number, f"node {number} has a partition of topic {fields['name']}: {path}")
                elif api_key == _REGISTRATION and fields["brokerId"] == number:
                    if fields["brokerEpoch"] == self._broker_epochs.get(number):
                        yield Proof(offset, number, f"node {number} was registered by it, as {CLEAN_SHUTDOWN} shows")
        for log in self.logs.values():
            with suppress(KsegError, OSError):
                ends = [file.base_offset or 0 for file in snapshots_among(list_segments(log.path or ""))]
                if ends and ends[-1] > start and ends[-1] <= longest.end:
                    yield Proof(ends[-1] - 1, log.node, f"a snapshot of node {log.node} has it")

    @cached_property
    def _broker_epochs(self) -> dict[int, int]:
        """The epoch of each node's last registration, as its clean stop has it."""
        found = {}
        for number, node in self._cluster.nodes.items():
            for one in node.directories:
                with suppress(KsegError, OSError):
                    for item in read_clean_shutdown((Place(one.path) / CLEAN_SHUTDOWN).head(MAX_TEXT_BYTES)):
                        if isinstance(item, CleanShutdown) and item.broker_epoch is not None:
                            found[number] = item.broker_epoch
        return found

    @staticmethod
    def _shown(longest: LogCopy, start: int) -> list[str]:
        """Returns what the records from an offset on are: topics by name, the others by their type."""
        found = dict[str, None]()
        for _, api_key, fields in _records(longest, start):
            name = fields.get("name") or fields.get("resourceName")
            shown = type_name(CLUSTER_METADATA[api_key])
            if api_key != _NO_OP:
                found[f"{shown} {name}" if name else shown] = None
        return list(found)[:_MAX_NAMES]


def _records(log: LogCopy, start: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yields offset, apiKey and fields of the records from an offset on that can be read."""
    with suppress(KsegError, OSError):
        for offset, _, value in records_in(logs_between(log.path or "", start, LAST_OFFSET)):
            if offset < start:
                continue
            with suppress(MessageError):
                record = read_framed(value, CLUSTER_METADATA)
                yield offset, record.api_key, record.fields


def voter_log(node: int, path: str, extent: tuple[int, int] | None) -> LogCopy:
    """Returns a node's metadata log: one that ends at its newest snapshot, or below, has the snapshot's end and epoch
    (KafkaRaftLog.lastFetchedEpoch). Raises KsegError if it cannot be read."""
    log, newest = log_copy(node, path, extent), snapshots_among(list_segments(path))[-1:]
    end, epoch = (newest[0].base_offset or 0, newest[0].epoch or 0) if newest else (0, 0)
    if not newest or end < log.end or (end == log.end and log.epochs):
        return log
    return log._replace(start=end, end=end, epochs=(*log.epochs, EpochEntry(epoch, end - 1)))
