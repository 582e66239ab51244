"""The directory that a repair changes, the other copies of that partition among the paths of a check, and what is lost
if one copy is truncated.

A broker fetches what it has truncated from the leader. That brings the records back only if a replica that may lead has
them: one in sync by the newest metadata, whose own log, if it is given, is whole. Else a truncated copy that may lead
makes the others truncate theirs, too. A dry run tells what is lost; few checks need one, so that what recovers is
imported on first use.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kseg.errors import KsegError, PathError
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import DELETED, LOG, LOG_07
from kseg.node.log_directory import ABANDONED_SUFFIXES, log_end, topic_id_at
from kseg.node.node import Node, Nodes, newest_metadata
from kseg.options.declaration import filled
from kseg.segment.files import (
    LAST_OFFSET,
    METADATA_TOPIC,
    directory_name,
    file_names,
    holds_segments,
    list_segments,
    parse_partition_name,
)
from kseg.segment.survey import FULL
from kseg.stores.place import Place
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Comparison, Finding, Report

if TYPE_CHECKING:
    from kseg.node.belonging import Siblings
    from kseg.node.cluster_metadata import Quorum, TopicSettings
    from kseg.recovery.options import TopicIds
    from kseg.segment.isolation import OpenTransactions

Options = dict[str, str | None]
"""Options by name; the value of a flag is None."""


class GivenCopies:
    """The nodes and partitions among the PATHs of a check, and of the replica that it compares with; the topic ids in
    log directories."""

    def __init__(self, *several: Nodes) -> None:
        self._several = several
        self.topic_ids = cache(self._topic_ids)

    def _topic_ids(self, root: str) -> "TopicIds":
        from kseg.recovery.options import TopicIds

        return TopicIds(self._several[0].at(root), root)

    @cached_property
    def siblings(self) -> "Siblings":
        """What is known of neighbouring partitions, for all dry runs."""
        from kseg.node.belonging import Siblings

        return Siblings()

    @cached_property
    def nodes(self) -> list[Node]:
        return [node for nodes in self._several for node in nodes.given]

    @cached_property
    def _places(self) -> dict[str, Node]:
        """The log directories, and the partitions that are given by themselves, each with its node."""
        found = {one.path: node for node in self.nodes for one in node.directories}
        for nodes in self._several:
            for path in nodes.paths:
                with suppress(KsegError, OSError):  # reported by its check
                    if path != "-" and Place(path).tree is None and Place(path).is_dir() and holds_segments(path):
                        found[path] = nodes.partition(path).node
        return found

    def metadata(self, of: Node) -> "TopicSettings | None":
        """Returns the newest metadata of the cluster of a node, which may be its own; None if there are none."""
        return newest_metadata((of, *self.of_cluster(of)))

    def of_cluster(self, of: Node) -> Iterator[Node]:
        """Yields the nodes that may be of the cluster of a node."""
        return (node for node in self.nodes if _is_same_cluster(node, of))

    def copies(self, partition: str, of: Node) -> Iterator["Copy"]:
        """Yields the other copies of a partition of a node."""
        topic_id, name = topic_id_at(partition), directory_name(partition)
        seen = {os.path.realpath(partition)}
        for place, node in self._places.items():
            path = place if holds_segments(place) else Place(place) / name
            is_named = parse_partition_name(directory_name(path)) == parse_partition_name(name)
            if not is_named or os.path.realpath(path) in seen or not Place(path).is_dir() or not holds_segments(path):
                continue
            seen.add(os.path.realpath(path))
            if _is_same_cluster(node, of) and len({topic_id, topic_id_at(path)} - {None}) < 2:
                yield Copy(path, node.number)


def _is_same_cluster(one: Node, other: Node) -> bool:
    """Whether two nodes may be of one cluster."""
    return len({one.cluster_id, other.cluster_id} - {None}) < 2


class Copy(NamedTuple):
    """Another copy of a partition; ``node``: that of its log directory, None if unknown."""

    path: str
    node: int | None


class DryRun(NamedTuple):
    """What a recovery would do. ``is_known``: it is not refused, and changes something; ``is_refused``: the
    one partition that it is for is refused; ``removed``: intact records that go; ``end``: the first offset that is cut
    off, None if none is; ``taken``, ``missing``: last offsets of ranges that come from a replica, and ranges that stay
    missing."""

    is_known: bool
    is_refused: bool
    removed: int
    end: int | None
    taken: list[int]
    missing: list[tuple[int, int]]


class RepairTarget:
    """The directory that a command changes: a partition, or a log directory if ``partition`` is None. ``root``: its log
    directory, ``node``: that of it; ``given``: where its other copies may be."""

    def __init__(self, path: str, root: str, node: Node, given: GivenCopies) -> None:
        self.path, self._root, self.node, self._given = path, root, node, given
        self.partition = None if root == path else parse_partition_name(directory_name(path))
        self._outcomes: dict[tuple[tuple[str, str | None], ...], DryRun] = {}
        self._compared_with, self._transactions_in = cache(self._compare_with), cache(self._read_transactions)

    @property
    def is_metadata(self) -> bool:
        return self.partition is not None and self.partition[0] == METADATA_TOPIC

    @property
    def is_only_voter(self) -> bool | None:
        """Of the metadata log: whether no other node has it for sure (None: unknown)."""
        return None if self.quorum is None else self.quorum.is_alone

    @cached_property
    def is_07(self) -> bool:
        """Whether offsets are positions, so that only the end of a file can be removed."""
        return self.partition is not None and any(name.endswith(LOG_07) for name in file_names(self.path))

    @cached_property
    def holds_only_copies(self) -> bool:
        """Whether a file that is marked as deleted holds offsets that are nowhere else: a recovery would remove it."""
        from kseg.recovery.leftovers import only_copies

        with suppress(KsegError):
            return any(each.records is not None for removed in only_copies(self.path).values() for each in removed)
        return False

    @property
    def topic_id(self) -> str | None:
        """The topic id by the cluster metadata, or by all other partitions of the topic; None if these disagree."""
        with suppress(PathError):
            found = None if self.partition is None else self._given.topic_ids(self._root).find(self.partition[0])
            return None if found is None else found[0]
        return None

    def would_lose(self, options: Options) -> bool:
        """Whether `kseg recover` with these options cuts off what nobody is known to have."""
        return not self.may_be_cut and self.outcome(options).end is not None

    def outcome(self, options: Options) -> DryRun:
        """Returns what `kseg recover`, or `restore`, with these options would do; nothing if it is refused."""
        from kseg.changes.driver.command import ChangeOptions, Recording, run
        from kseg.recovery.options import BROKER, SALVAGE, RecoverOptions
        from kseg.recovery.planner import RecoveryPlanner
        from kseg.recovery.restoring import RestoreOptions, RestorePlanner
        from kseg.verification.recovery_checks import RecoveryChecks

        key = tuple(sorted(options.items(), key=str))
        if key not in self._outcomes:
            given: dict[str, Any] = {"mode": SALVAGE if "--from-replica" in options else BROKER}
            given |= {name.strip("-").replace("-", "_"): value is None or value for name, value in options.items()}
            planner: Callable[..., RecoveryPlanner]
            if "--undelete" in options:
                planner = partial(RestorePlanner, filled(RestoreOptions, given))
            else:
                planner = partial(RecoveryPlanner, filled(RecoverOptions, given), siblings=self._given.siblings)
            recording = Recording()
            with suppress(KsegError, OSError):  # then the command fails, and removes nothing
                run([self.path], partial(planner, make_checks=RecoveryChecks), ChangeOptions(is_dry=True), recording)
            plans = recording.plans
            removed = sum(
                removed.records or 0
                for plan in plans
                for step in plan.steps
                # A broker serves these, or nothing else holds the records that are counted.
                if step.file.removesuffix(DELETED).endswith((LOG, LOG_07)) and step.file.partition(".")[0].isdigit()
                for removed in step.removed
            )
            ends = [fact["nextOffset"] for plan in plans for fact in plan.facts if fact["type"] == "cut"]
            taken = [row.last_offset for plan in plans for row in plan.from_replica if not row.why]
            missing = [gap for plan in plans for gap in plan.gaps]
            end = min(ends, default=None)
            is_refused = self.partition is not None and bool(recording.errors)
            self._outcomes[key] = DryRun(any(plans), is_refused, removed, end, taken, missing)
        return self._outcomes[key]

    @cached_property
    def quorum(self) -> "Quorum | None":
        """The quorum by the metadata log that the partition is; None for other partitions, or if it cannot be read."""
        if not self.is_metadata:
            return None
        from kseg.node.cluster_metadata import quorum_of

        with suppress(KsegError, OSError):
            return quorum_of(self.path, self.node.server)
        return None

    @cached_property
    def _others(self) -> list[Copy]:
        return list(self._given.copies(self.path, self.node))

    @cached_property
    def may_be_cut(self) -> bool:
        """Whether all that a truncation of the damage removes is fetched again, as far as the PATHs tell."""
        if directory_name(self.path).endswith(ABANDONED_SUFFIXES):
            return False  # nobody fetches it
        return self._is_kept_by_replicas() if self.quorum is None else self._is_kept_by_voters(self.quorum)

    def _is_kept_by_replicas(self) -> bool:
        metadata, number = self._given.metadata(self.node), self.node.number
        if metadata is None or number is None or self.partition is None:
            return False
        others = metadata.others_in_sync(self.partition, topic_id_at(self.path), number) or frozenset()
        holding = {copy.node for copy in self._others}
        if any(node.is_whole and node.number in others - holding for node in self._given.of_cluster(self.node)):
            return False  # a node that lacks the partition, and may lead it
        return bool(others) and all(self._has_all(copy) for copy in self._others if copy.node in others)

    def _is_kept_by_voters(self, quorum: "Quorum") -> bool:
        """Whether a majority of the voters knows what was committed, without this one. Of voters whose logs are not
        given nothing is known."""
        if not quorum.others:
            return quorum.is_alone is False  # no voter: it has no part in an election
        copies = {copy.node: copy for copy in self._others if copy.node in quorum.others}
        majority = len(quorum.others | {quorum.number}) // 2 + 1
        if sum(map(self._has_all, copies.values())) >= majority:
            return True
        # What fewer voters have, this one included, was not committed.
        end = self.outcome({"--full": None}).end
        reaching = sum(end is None or self._compared_with(copy)[0] > end for copy in copies.values())
        return len(copies) == len(quorum.others) and reaching + 1 < majority

    @property
    def voters_not_given(self) -> list[int]:
        """The other voters of the metadata log whose copies are not given."""
        others = self.quorum.others if self.quorum is not None else frozenset()
        return sorted(others - {copy.node for copy in self._others})

    @cached_property
    def source(self) -> str | None:
        """The path of the copy that has most of the damaged offsets; None if none has any."""
        found = {copy.path: missing for copy in self._others if (missing := self._missing_with(copy)) is not None}
        return min(found, key=lambda path: found[path], default=None)

    def _missing_with(self, copy: Copy) -> int | None:
        """Returns how many offsets stay missing behind the damage after a recovery from a copy; None if the copy has
        none of them. If only bytes were inserted, none are missing."""
        end, filled = self.outcome({"--full": None}).end or 0, self.outcome({"--from-replica": copy.path})
        missing = sum(last - max(first, end) + 1 for first, last in filled.missing if last >= end)
        if any(last >= end for last in filled.taken):
            return missing
        return 0 if filled.is_known and not missing and self._compared_with(copy)[0] > end else None

    def ended_in(self, producer_id: int, first_offset: int) -> str | None:
        """Returns the path of a longer copy that has the marker of a transaction which is open here; None if none
        has."""
        for path in self._longer:
            with suppress(KsegError, OSError):  # reported by the check of the copy
                marker = self._transactions_in(path).markers.get(producer_id)
                if marker is not None and marker.offset > first_offset:
                    return path
        return None

    @cached_property
    def _longer(self) -> list[str]:
        """The paths of the copies that end later."""
        scratch = Scratch()
        end = log_end(self.path, scratch)
        return [copy.path for copy in self._others if log_end(copy.path, scratch) > end >= 0]

    @staticmethod
    def _read_transactions(path: str) -> "OpenTransactions":
        from kseg.segment.isolation import OpenTransactions

        files = [file for file in list_segments(path) if file.kind == LOG and not file.leftover]
        return OpenTransactions.of_segments(files, Scratch())

    def _has_all(self, copy: Copy) -> bool:
        """Whether a copy has the damaged range and all behind it, with the same leader epochs, and undamaged."""
        end, (reach, is_whole) = self.outcome({"--full": None}).end or 0, self._compared_with(copy)
        if not is_whole or reach <= end or reach < (self.node.partition(self.path).state.high_watermark or 0):
            return False
        filled = self.outcome({"--from-replica": copy.path})
        return filled.is_known and not any(last >= end for _, last in filled.missing)

    def _compare_with(self, copy: Copy) -> tuple[int, bool]:
        """Returns the log end of a copy, and whether it is undamaged and has all intact records of this one."""
        from kseg.verification.replicas import compare_path

        found, results = list[Finding](), list[Comparison]()
        with suppress(KsegError, OSError):
            compare_path(self.path, copy.path, CheckSettings(FULL, 0), Report(found.append), results.append)
        lacks = any(
            each.code == "replicas-diverge" or (each.code in _LACKING and each.file.startswith(copy.path))
            for each in found
        )
        return (results[0].last_offsets[1] + 1, not lacks) if results else (LAST_OFFSET, False)


_LACKING = frozenset({"replica-lacks-records", "replica-not-compared", "replica-ends-earlier"})
"""Findings of a copy that lacks records of the other one."""
