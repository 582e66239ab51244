"""Finds the rows of checkpoints that a partition has left on another disk of its node, and those to be removed there.

A partition that was moved by hand has no row on its new disk: a broker then starts it with recovery point, high
watermark and log start 0. A row on its own disk wins. Source: LogManager and LogCleanerManager of Kafka 4.4.0.
"""

import os
from collections.abc import Collection, Iterable, Mapping

from kseg.changes.copies import Rows
from kseg.changes.journal import TopicPartition, read_root_file, topic_partition_of
from kseg.changes.plan import Plan
from kseg.node.log_directory import LogDirectory
from kseg.node.node import Nodes
from kseg.segment.files import METADATA_TOPIC, own_partitions
from kseg.segment.paths import some
from kseg.sidefiles.checkpoints import (
    CLEANER_OFFSETS,
    OFFSET_CHECKPOINTS,
    build_offset_checkpoint,
    offsets_of,
    read_offset_checkpoint,
)
from kseg.sidefiles.problems import problems_of


def rows_at(directory: str) -> Rows:
    """Returns the rows in the checkpoints of a log directory as they are now; none of a damaged file, which a broker
    takes for empty. Raises KsegError."""
    found: Rows = {}
    for name in OFFSET_CHECKPOINTS:
        file = read_root_file(directory, name)
        items = list(read_offset_checkpoint(file.content if file else b""))
        found[name] = {} if problems_of(items) else offsets_of(items)
    return found


class MovedRows:
    """The rows of partitions on other disks of their nodes. Everything is read anew: files change during a run."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.ambiguous: list[str] = []
        """A sentence for each row that `carried` does not take, because other disks have different ones."""

    def is_possible(self, directory: str) -> bool:
        """Whether a row can have moved to another log directory: the node of ``directory`` has several."""
        return bool(self._disks(directory)[1])

    def _disks(self, directory: str) -> tuple[str, list[str]]:
        """Returns the path of a log directory as its node has it, and the other disks of the node."""
        node = self._nodes.at(directory)
        own = node.directory_at(directory)
        if own is None:
            return directory, []
        return own.path, [one.path for one in node.directories if one is not own and _are_of_one_node(one, own)]

    def _homes(self, disks: Iterable[str]) -> dict[TopicPartition, list[str]]:
        """Returns the disks on which each partition stands; those that a broker has renamed do not count."""
        found: dict[TopicPartition, list[str]] = {}
        for disk in disks:
            for path in own_partitions(disk):
                if (place := topic_partition_of(path)) is not None and place[0] != METADATA_TOPIC:
                    found.setdefault(place, []).append(disk)
        return found

    def carried(
        self, directory: str, places: Collection[TopicPartition], own: Mapping[str, Mapping[TopicPartition, int]]
    ) -> Rows:
        """Returns the rows of other disks for these partitions of a log directory that have none in ``own``."""
        self.ambiguous = []
        here, others = self._disks(directory)
        if not others:
            return {}
        homes, rows = self._homes([here, *others]), {disk: rows_at(disk) for disk in (here, *others)}
        found: Rows = {}
        for place in sorted(places):
            if homes.get(place) != [here]:
                continue  # on two disks, and no broker starts
            for name in OFFSET_CHECKPOINTS:
                if place in own.get(name, {}):
                    continue
                # An interrupted run may have put the row here, and removed it there.
                at = [here] if place in rows[here][name] else [disk for disk in others if place in rows[disk][name]]
                offsets = [rows[disk][name][place] for disk in at]
                if len(set(offsets)) > 1 and name != CLEANER_OFFSETS:
                    self.ambiguous.append(
                        f"{os.path.join(directory, name)}: has no entry for {names_of([place])}, and those of other "
                        "disks differ: none is taken"
                    )
                elif offsets:
                    found.setdefault(name, {})[place] = offsets[-1]  # the last disk wins, as for the log cleaner
        return found

    def plan_left(
        self, directory: str, places: Collection[TopicPartition], own: Rows, planned: Mapping[str, Rows] | None
    ) -> Plan:
        """Plans the checkpoints of a log directory, which have the rows ``own``, without those of ``places`` that stand
        on another disk, with a row there. ``planned``: the rows by disk that a dry run would leave."""
        plan, (here, others) = Plan(directory), self._disks(directory)
        if not others:
            return plan
        homes, rows = self._homes([here, *others]), dict[str, Rows]()
        for disk in (here, *others):
            kept = (planned or {}).get(os.path.realpath(disk))
            rows[disk] = rows_at(disk) if kept is None else kept
        for name in OFFSET_CHECKPOINTS:
            left = set[TopicPartition]()
            for place in rows[here].get(name, {}).keys() & set(places):
                home = homes.get(place, [])
                if len(home) == 1 and home != [here] and place in rows[home[0]].get(name, {}):
                    left.add(place)
            if left:
                reason = f"without the entries of partitions that stand on another disk: {names_of(left)}"
                content = {place: offset for place, offset in own[name].items() if place not in left}
                plan.write(name, [build_offset_checkpoint(content)], reason)
        return plan


def names_of(places: Iterable[TopicPartition]) -> str:
    """Returns the names of partitions, for messages."""
    return some(sorted("{}-{}".format(*place) for place in places))


def _are_of_one_node(one: LogDirectory, other: LogDirectory) -> bool:
    """Whether the ids of two log directories do not say otherwise."""
    return one.meta is None or other.meta is None or one.ids == other.ids
