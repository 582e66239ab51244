"""Checks the nodes of one cluster together: what a start of these copies loses, and which nodes to start first.

A cluster that loses nothing has no finding. Sources: see `kseg.node.cluster`.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from kseg.errors import KsegError
from kseg.findings.table import WARNING
from kseg.formats.rows import Scratch
from kseg.node.cluster import Cluster, ClusterPartition, LogCopy, LosableRange, batches_between, count_records
from kseg.node.cluster_metadata import unclean_elections
from kseg.node.log_directory import log_end, topic_id_at
from kseg.node.metadata_image import RECOVERING
from kseg.node.node import Nodes, by_cluster
from kseg.node.voter_logs import VoterLogs
from kseg.quantities import named_path, plural
from kseg.segment.paths import some
from kseg.stores.place import Place
from kseg.verification.report import (
    ClusterState,
    CopyState,
    Details,
    LostRange,
    NodeCopy,
    PartitionState,
    RepairStep,
    Report,
    VoterState,
)

DEPENDS, LOST = "depends", "lost"
"""Outcomes of a start: which records are lost depends on the leader, or each leader loses some."""


def judge_clusters(nodes: Nodes, report: Report) -> None:
    """Checks the clusters of the log directories in ``report.directories``, and adds them to ``report.clusters``."""
    checked = {one.directory.path: one for one in report.directories}
    found = {id(node): node for path in checked if (node := nodes.at(path)).directories}
    extents = {
        Place(path) / name: (span.start, span.end)
        for path, one in checked.items()
        for name, span in one.extents.items()
    }
    whole = [node for node in found.values() if all(one.path in checked for one in node.directories)]
    for members in by_cluster(whole):
        _ClusterCheck(Cluster(members, extents), report).judge()


class _ClusterCheck:
    """The check of one cluster, whose findings go to ``report``."""

    def __init__(self, cluster: Cluster, report: Report) -> None:
        self.cluster, self.report = cluster, report
        self._unfit: defaultdict[int, dict[str, None]] = defaultdict(dict)
        """The codes of the findings that a node's copy has, by node."""
        self._behind: defaultdict[int, list[int]] = defaultdict(list)
        """By how many offsets each of its partitions ends before another copy, by node."""
        self._copying: list[list[str]] = []

    def judge(self) -> None:
        states = []
        for partition in self.cluster.partitions():
            end = max(copy.end for copy in partition.copies)
            for copy in partition.copies:
                self._behind[copy.node] += [end - copy.end] if copy.end < end else []
            if (state := self._partition(partition)) is not None:
                states.append(state)
        for number, path, topic_id, newest in self.cluster.other_topics():
            text = f"it is of topic id {topic_id}; by the newest metadata of the cluster, the topic of today is "
            text += f"{newest}: node {number} missed that it was deleted and created again"
            details = {"node": number, "topicId": topic_id, "newestTopicId": newest}
            self._unfit[number]["topic-recreated"] = None
            self.report.add("topic-recreated", path, text, details=details)
        logs = VoterLogs(self.cluster)
        self._judge_quorum(logs)
        of_voters = [(number, logs.logs.get(number)) for number in logs.voters]
        voters = [VoterState(number, log and log.end, log and log.epoch) for number, log in of_voters]
        copies = list[NodeCopy]()  # how they fit to each other, after all checks
        for number, node in self.cluster.nodes.items():
            log, behind, codes = logs.logs.get(number), self._behind[number], self._unfit[number]
            paths, was_clean = [one.path for one in node.directories], all(one.was_clean for one in node.directories)
            copies.append(NodeCopy(
                number, paths, was_clean, None if log is None else log.end, logs.newest_time(number), len(behind),
                max(behind, default=0), not codes, list(codes),
            ))  # fmt: skip
        # The most advanced copy can be made the only voter, if fewer than a majority is given.
        given = [log.path for _, log in of_voters if log is not None and log.path is not None]
        last_resort = None
        if given and len(given) < logs.majority:
            last_resort = ["kseg", "quorum", "--survivor", *(named_path(Place(path).parent or ".") for path in given)]
        self.report.clusters.append(ClusterState(
            self.cluster.cluster_id, list(self.cluster.nodes), voters, states, copies, self._copying, last_resort
        ))  # fmt: skip

    def _judge_quorum(self, logs: VoterLogs) -> None:
        """Reports voters that lack committed metadata, if they may be a majority, which can elect a leader."""
        if (lost := logs.lost_end()) is not None:
            numbers, source = [log.node for log in lost.lacking], lost.having[0] if lost.having else logs.longest
            is_certain = len(numbers) >= logs.majority
            for log in lost.lost_by or lost.lacking:
                text = f"the metadata log of voter {log.node} ends at offset {log.end}, and lacks offset "
                text += f"{lost.proof.offset}, which was committed: {lost.proof.text}; "
                text += f"{_voters(numbers, 'lacks', 'lack')} it"
                if not is_certain:
                    text += f", and {_voters(logs.not_given, 'is', 'are')} not given"
                text += f": as a majority of {len(logs.voters)} they can elect a leader without it, and the others cut "
                text += f"their logs off; with it go: {some(lost.records)}"
                details = {
                    "node": log.node, "logEndOffset": log.end, "offset": lost.proof.offset, "voters": logs.voters,
                    "other": source.path if source is not None and source.path else "",
                }  # fmt: skip
                severity = None if is_certain else WARNING
                self._unfit[log.node]["voter-behind"] = None
                self.report.add("voter-behind", log.path or "", text, None, None, log.end, severity, details)

    def _partition(self, partition: ClusterPartition) -> PartitionState | None:
        """Reports what a start may lose of a partition. Returns None if that is nothing."""
        losses = {copy.node: found for copy in partition.leaders if (found := self._losses(partition, copy))}
        if not losses:
            return None
        safe = [node for node in partition.may_lead if node not in losses]
        for copy in partition.leaders:
            if behind := [loss for loss in losses.get(copy.node, ()) if not loss.is_parted]:
                self._lagging(partition, copy, behind, safe)
        for copy in partition.leaders:
            for loss in losses.get(copy.node, ()):
                if loss.is_parted:
                    self._parted(partition, copy, loss, safe)
        outcome = DEPENDS if safe else LOST
        copies = [
            CopyState(copy.node, copy.path, copy.start, copy.end, copy.epoch, copy.node in partition.may_lead)
            for copy in partition.copies
        ]
        ranges = [
            LostRange(leader, loss.copy.node, loss.first, loss.last, _count(loss), loss.is_certain)
            for leader, found in losses.items()
            for loss in found
        ]
        return PartitionState(partition.topic, partition.number, copies, outcome, ranges)

    def _losses(self, partition: ClusterPartition, leader: LogCopy) -> list[LosableRange]:
        """Returns the losses that count: what was not committed for sure is no loss, as after any crash of a leader."""
        found = []
        for loss in partition.losses(leader):
            if loss.is_parted:  # of a copy that left the ISR after a clean stop, the high watermark is the last one
                is_open = not loss.copy.was_clean and self._was_unclean(partition, loss.copy)
            else:  # a follower learns the high watermark late: what only replicas in sync have may be acknowledged
                is_open = loss.copy.node in partition.may_lead
            if (loss.is_certain or is_open) and not _is_empty(loss):
                found.append(loss)
        return found

    def _was_unclean(self, partition: ClusterPartition, copy: LogCopy) -> bool:
        """Whether the metadata show that after the last records of a copy a leader was elected that was not in sync."""
        metadata = self.cluster.metadata
        if partition.image.recovery_state == RECOVERING or metadata is None:
            return True
        epochs = unclean_elections(metadata, (partition.topic_id, partition.number))
        return any(epoch > (-1 if copy.epoch is None else copy.epoch) for epoch in epochs)

    def _lagging(
        self, partition: ClusterPartition, leader: LogCopy, losses: list[LosableRange], safe: list[int]
    ) -> None:
        """Reports a copy that may lead and lacks the end of others."""
        most = max(losses, key=lambda loss: (loss.last, loss.copy.node in partition.may_lead))
        count, is_certain = _count(most), any(loss.is_certain for loss in losses)
        having = sorted(loss.copy.node for loss in losses if loss.last == most.last)
        if leader.path is None:
            text = "none of its disks has a copy"
        elif leader.end == leader.start:
            text = "its copy is empty"
        else:
            text = f"it ends at offset {leader.end}"
        if leader.high_watermark is not None and leader.high_watermark > leader.end:
            text += f", below its own high watermark {leader.high_watermark}"
        verb = "are lost" if is_certain else "are removed (no high watermark shows that they were committed)"
        text = (
            f"node {leader.node} may lead {partition.name} ({_why(partition, leader)}), and {text}: if it leads, "
            f"{_range_text(most, count)} of node{'s'[: len(having) > 1]} {_both(having)} {verb}"
            f"{self._unless(partition, safe)}"
        )
        source = most.copy.path or ""
        details = _details(partition, leader, most, count) | {"other": source}
        severity = None if is_certain else WARNING
        if leader.path is None:
            # Where the copy of the node has to lie.
            node, image = self.cluster.nodes[leader.node], partition.image
            assigned = image.directories[image.replicas.index(leader.node)]
            path = Place(node.directory_ids.get(assigned, node.directories[0]).path) / partition.name
            details["otherRepair"] = ["cp", "-a", named_path(source), named_path(path)]
            if (stray := self._stray_of(partition, leader.node, most.last)) is not None:
                text += f"; {stray} has them, which a broker has set aside"
                details["otherRepair"] = ["kseg", "restore", "--undelete", named_path(stray)]
            self._unfit[leader.node]["leader-copy-missing"] = None
            self._copying.append(details["otherRepair"])
            self.report.add("leader-copy-missing", path, text, None, None, most.first, severity, details)
            return
        self._unfit[leader.node]["leader-copy-behind"] = None
        self.report.add("leader-copy-behind", leader.path, text, None, None, most.first, severity, details)

    def _stray_of(self, partition: ClusterPartition, number: int, last: int) -> str | None:
        """Returns the directory that a node's broker has renamed to -stray and that ends at this offset or later."""
        for one in self.cluster.nodes[number].directories:
            for name in one.directories:
                path = Place(one.path) / name
                is_stray = name.startswith(f"{partition.name}.") and name.endswith("-stray")
                if is_stray and topic_id_at(path) == partition.topic_id and log_end(path, Scratch()) > last:
                    return path
        return None

    def _parted(self, partition: ClusterPartition, leader: LogCopy, loss: LosableRange, safe: list[int]) -> None:
        """Reports a copy with records that go because a leader has others there."""
        count, other = _count(loss), loss.copy
        own = LosableRange(leader, loss.first, leader.end - 1, 0, True)
        text = (
            f"it parts from the copy of node {leader.node} at offset {loss.first} (leader epochs {other.epoch} and "
            f"{leader.epoch}): a start keeps that of node {leader.node}, which may lead {partition.name} "
            f"({_why(partition, leader)}), and removes {_range_text(loss, count)} of node {other.node}; node "
            f"{leader.node} alone has {_range_text(own, _count(own))}"
        )
        if other.node in partition.may_lead:
            text += f"; if node {other.node} leads, it is the other way round"
        elif partition.is_unclean:
            text += f"; the topic allows unclean elections: if node {other.node} starts without the others, it keeps "
            text += "its own instead"
        offsets = f"{loss.first}..{loss.last}"
        saved = ["kseg", "dump", "--print-data-log", "--offsets", offsets, named_path(other.path or "")]
        details = _details(partition, leader, loss, count) | {"other": leader.path or "", "otherRepair": saved}
        self._unfit[other.node]["copies-parted"] = None
        self.report.add("copies-parted", other.path or "", text, offset=loss.first, details=details)

    def _unless(self, partition: ClusterPartition, safe: list[int]) -> str:
        """Returns who keeps the records, as the end of a sentence."""
        given = [node for node in safe if node in self.cluster.nodes]
        were_clean = all(copy.was_clean for copy in partition.copies if copy.node in given)
        if given and self.cluster.has_elr and not were_clean:
            return f"; not if {_either(given)} leads, but a node without a clean stop is no longer in sync at its start"
        if given:
            names = _either(given)
            return f"; not if {names} leads: start {names} first"
        if safe:
            return f"; node {_either(safe)} may lead, too, and is not given"
        return "; no node that may lead has them"


def with_commands(cluster: ClusterState, steps: Iterable[RepairStep]) -> ClusterState:
    """Returns a cluster with the repairs of its nodes before what it copies."""
    roots = [path for copy in cluster.copies for path in copy.log_directories]
    own = [
        step.argv
        for step in steps
        if any(word == root or word.startswith(root.rstrip("/") + "/") for word in step.argv for root in roots)
    ]
    return cluster._replace(commands=[*own, *cluster.commands])


def _is_empty(loss: LosableRange) -> bool:
    """Whether the copy has no batch there, as before the base offset of an empty last segment."""
    path, first, last = loss.copy.path, loss.first, loss.last
    with suppress(KsegError):
        return path is not None and first <= last and not any(batches_between(path, first, last))
    return False


def _count(loss: LosableRange) -> int | None:
    if loss.copy.path is None or loss.last < loss.first:
        return None
    return count_records(loss.copy.path, loss.first, loss.last)


def _details(partition: ClusterPartition, leader: LogCopy, loss: LosableRange, count: int | None) -> Details:
    return {
        "leader": leader.node, "node": loss.copy.node, "firstOffset": loss.first, "lastOffset": loss.last,
        "count": count, "mayLead": list(partition.may_lead), "logEndOffset": leader.end,
    }  # fmt: skip


def _why(partition: ClusterPartition, leader: LogCopy) -> str:
    if leader.node in partition.image.isr:
        return "in sync by the newest metadata"
    return "eligible by the newest metadata" if leader.node in partition.image.elr else "the last known leader"


def _range_text(loss: LosableRange, count: int | None) -> str:
    if loss.last < loss.first:
        return "nothing there"
    span = f"offset {loss.first}" if loss.first == loss.last else f"offsets {loss.first} to {loss.last}"
    return span if count is None else f"{span} ({plural(count, 'record', 'records')})"


def _both(nodes: Iterable[int]) -> str:
    return " and ".join(map(str, nodes))


def _voters(nodes: Sequence[int], verb: str, verb_of_several: str) -> str:
    return f"voter {nodes[0]} {verb}" if len(nodes) == 1 else f"voters {_both(nodes)} {verb_of_several}"


def _either(nodes: Iterable[int]) -> str:
    return " or ".join(map(str, nodes))
