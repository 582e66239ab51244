"""``kseg quorum --survivor``: when most voters of a quorum are gone, one copy of the metadata log goes on as that of
the only voter, under its own node.id and directory.id.

Elections compare the leader epoch of the last record, then the end of the log: so is the copy chosen, of a damaged log
by what a start keeps. Its snapshot is above all that the copies given have, so that brokers take it over. Static voters
are also in quorum-state, with which a node compares its settings. Sources: KafkaRaftClient, QuorumState, OffsetAndEpoch
of Kafka 4.4.0; KIP-595, KIP-853.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from kseg.changes.driver.command import ChangeOptions, Reporter
from kseg.changes.journal import Known
from kseg.changes.plan import Plan, Removed
from kseg.errors import KsegError, PathError, RequestError
from kseg.formats.schema import ZERO_UUID
from kseg.node.cluster import LogCopy
from kseg.node.cluster_metadata import Raft, load_image, properties_of, quorum_of, read_raft
from kseg.node.log_directory import METADATA_PARTITION
from kseg.node.voter_logs import voter_log
from kseg.quantities import shell_line
from kseg.recovery.metadata_log import (
    Listener,
    NewSnapshot,
    QuorumOptions,
    RewritePlanner,
    common_cluster_id,
    log_directory_properties,
    new_snapshot,
)
from kseg.segment.files import QUORUM_STATE, directory_name, list_segments
from kseg.stores.place import Place


class VoterCopy(NamedTuple):
    """A voter's copy of the metadata log. ``epoch`` and ``end``: of what a start of it keeps; ``lacking``: why that is
    not all, "" if it is; ``voters``: their ids, none if its files do not tell."""

    path: str
    node: int
    directory_id: str | None
    raft: Raft
    log: LogCopy
    epoch: int
    end: int
    lacking: str
    voters: frozenset[int]

    @classmethod
    def read(cls, path: str, options: QuorumOptions) -> "VoterCopy":
        """Raises KsegError for a path that holds no copy, and one that cannot be read."""
        is_partition = directory_name(path) == METADATA_PARTITION
        directory = path if is_partition else Place(path) / METADATA_PARTITION
        if not Place(directory).is_dir():
            raise PathError(f"{path}: holds no {METADATA_PARTITION}")
        own, quorum = properties_of(Place(directory).absolute.parent), quorum_of(directory, options.server)
        if own.number is None:
            raise PathError(f"{path}: meta.properties has no node.id")
        files = list_segments(directory)
        raft, kept = read_raft(directory, files), load_image(files)
        log = voter_log(own.number, directory, (0, raft.offset))
        epoch = max((entry.epoch for entry in log.epochs if entry.start_offset < kept.offset), default=0)
        voters = frozenset(quorum.voters)
        return cls(directory, own.number, own.directory_id, raft, log, epoch, kept.offset, kept.lacking, voters)

    @property
    def is_voter(self) -> bool:
        return not self.voters or self.node in self.voters


class Survivor(NamedTuple):
    """The copy that goes on, and the others that were given."""

    copy: VoterCopy
    others: list[VoterCopy]

    @classmethod
    def among(cls, paths: Sequence[str], options: QuorumOptions) -> "Survivor":
        """Raises KsegError, also for copies of several clusters, and where no copy is a voter's."""
        found = [VoterCopy.read(path, options) for path in paths]
        common_cluster_id(log_directory_properties(Place(one.path).absolute.parent for one in found))
        if len({one.node for one in found}) < len(found):
            raise RequestError("two of the paths are copies of one node")
        voters = [one for one in found if one.is_voter]
        if not voters:
            known = ", ".join(map(str, sorted(found[0].voters)))
            raise KsegError(
                f"{found[0].path}: node {found[0].node} is none of the voters {known}: kseg quorum --new makes a new "
                "controller of any node's copy"
            )
        if len(found) == 1 and found[0].voters == {found[0].node}:
            raise KsegError(f"{found[0].path}: the node is the only voter: there is nothing that --rewrite does not do")
        copy = max(voters, key=lambda one: (one.epoch, one.end))
        for endpoint in options.endpoints:
            if copy.voters and endpoint.node not in copy.voters:
                raise RequestError(f"--endpoints: {endpoint.node} is none of the voters")
        return cls(copy, [one for one in found if one is not copy])

    def losses(self) -> list[str]:
        """Returns what other copies have that the new quorum does not know, as sentences."""
        texts = []
        for one in self.others:
            agreed = one.log.agrees_to(self.copy.log)
            if agreed < one.end:
                shown = shell_line(["kseg", "cluster", "--since", str(agreed), one.path])
                texts.append(
                    f"{one.path}: offsets {agreed} to {one.end - 1} of node {one.node} (leader epoch {one.epoch}) are "
                    f"not in the copy of node {self.copy.node} and will be lost: {shown} tells what they change"
                )
        return texts

    def remarks(self, options: QuorumOptions) -> list[str]:
        """Returns what else users should know, the settings that all nodes need last."""
        copy, texts = self.copy, []
        if copy.lacking:
            texts.append(f"{copy.path}: {copy.lacking}; what can be read behind it is taken over")
        given = {copy.node, *(one.node for one in self.others)}
        if absent := sorted(copy.voters - given):
            names = f"voter{'s'[: len(absent) > 1]} {', '.join(map(str, absent))}"
            texts.append(f"what only {names} had is not known: no log of it is given")
        endpoints = self.voter(options)["endpoints"]
        address = Listener("", endpoints[0]["host"], endpoints[0]["port"]).address if endpoints else "HOST:PORT"
        if copy.raft.version:
            settings = f"controller.quorum.bootstrap.servers={address}"
            rest = "format other controllers anew with --no-initial-controllers, then add them to the quorum"
        else:
            settings, rest = f"controller.quorum.voters={copy.node}@{address}", "format other controllers anew"
        texts.append(
            f"set {settings} on all nodes; move away the metadata logs of the other voters, which would elect a leader "
            f"of their own; start node {copy.node}, then restart the brokers; {rest}"
        )
        return texts

    def voter(self, options: QuorumOptions) -> dict[str, Any]:
        """Returns the only voter as KRAFT_VOTERS has it, or would have it if voters are static."""
        copy = self.copy
        known = next((voter for voter in copy.raft.voters if voter["voterId"] == copy.node), dict[str, Any]())
        endpoints = known.get("endpoints", [])
        if moved := [{"host": one.host, "port": one.port} for one in options.endpoints if one.node == copy.node][-1:]:
            endpoints = [endpoint | moved[0] for endpoint in endpoints or ({"name": ""},)]
        own = {"voterId": copy.node, "voterDirectoryId": copy.directory_id or ZERO_UUID, "endpoints": endpoints}
        return known | own


class SurvivorPlanner(RewritePlanner):
    """Plans ``quorum --survivor``: files of the old log go, quorum-state names the new quorum."""

    command = "quorum --survivor"

    def __init__(self, survivor: Survivor, options: QuorumOptions, change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(options, change, reporter)
        self._survivor = survivor

    def snapshot(self, directory: str) -> NewSnapshot:
        others = [one.raft for one in self._survivor.others]
        losses = self._survivor.losses()
        self.damage_remains |= bool(losses)
        for text in (*losses, *self._survivor.remarks(self.options)):
            self.reporter.warning(text)
        voters, topics = [self._survivor.voter(self.options)], self.topics(directory)
        return new_snapshot(directory, self.options.as_of, voters, topics, others)

    def plan_partition(self, directory: str, known: Known) -> Plan:
        plan = super().plan_partition(directory, known)
        state = Place(directory) / QUORUM_STATE
        if state.lexists():
            size, content = state.size(), _quorum_state(self._survivor.copy)
            removed = [Removed(0, size, "replaced")] if size else []
            plan.write(QUORUM_STATE, [content], "this voter is the quorum", removed)
        return plan


def _quorum_state(copy: VoterCopy) -> bytes:
    """Returns a quorum-state in which nobody has been elected or voted for. The log tells the epoch."""
    if copy.raft.version:
        fields = {"leaderId": -1, "leaderEpoch": copy.raft.epoch, "votedId": -1, "votedDirectoryId": ZERO_UUID}
        return json.dumps(fields | {"data_version": 1}).encode()
    voters = [{"voterId": copy.node}]
    fields = {"clusterId": "", "leaderId": -1, "leaderEpoch": copy.raft.epoch, "votedId": -1, "appliedOffset": 0}
    return json.dumps(fields | {"currentVoters": voters, "data_version": 0}).encode()
