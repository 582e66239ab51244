"""Checks the log directories of each node together, when all are checked."""

import os
from collections.abc import Collection
from contextlib import suppress

from kseg.errors import KsegError
from kseg.formats.rows import Scratch
from kseg.node.coordinators import log_extent, topic_id_at
from kseg.node.log_directory import METADATA_PARTITION, LogDirectory, is_moved
from kseg.node.node import Node, Nodes, newest_metadata
from kseg.releases.metadata import MetadataRules
from kseg.releases.release import NEWEST
from kseg.segment.survey import DEEP, QUICK
from kseg.stores.place import Place
from kseg.verification.disks import judge_disks
from kseg.verification.log_directories import (
    CheckedDirectory,
    NodeCheck,
    is_output,
    judge_absent,
    judge_entries,
    start_of,
    topic_partition,
)
from kseg.verification.metadata import LogExtent, judge_commits
from kseg.verification.partition import CheckSettings, LogSpan
from kseg.verification.report import NO_DETAILS, Report


def judge_nodes(nodes: Nodes, settings: CheckSettings, report: Report) -> None:
    """Checks the log directories in ``report.directories`` by node and by cluster; adds the start of each node to
    ``report.starts``, and the clusters to ``report.clusters``."""
    of_node: dict[Node, list[CheckedDirectory]] = {}
    for one in _by_real_path(report.directories).values():
        of_node.setdefault(nodes.at(one.directory.path), []).append(one)
    for path in report.absent:
        for node in nodes.given:
            if node.server is not None and path in node.server.directories:
                of_node.setdefault(node, [])
    checks = list[NodeCheck]()
    for node, found in of_node.items():
        unchecked = _add_others(node, found, nodes, settings.level, report)
        check = NodeCheck(node, found, report.absent, unchecked)
        for code, path, text in check.contradictions():
            report.add(code, path, text)
        for code, path, text in check.quorum() if settings.level != QUICK else ():
            restored = node.restored_ids.get(Place(path).parent)
            report.add(code, path, text, details={"directoryId": restored} if restored else NO_DETAILS)
        if settings.era.release < NEWEST:
            check.judge_bootstrap(MetadataRules(settings.era.release), report)
        judge_disks(check, report)
        if not settings.is_live:
            if not check.directories or not all(map(is_output, check.directories)):
                report.starts.append(start_of(check, settings, report))
            checks.append(check)
    if settings.level == DEEP:
        _judge_commits(checks, report)
    if len(of_node) > 1 and not settings.is_live:
        from kseg.verification.clusters import judge_clusters  # few checks have several nodes

        judge_clusters(nodes, report)


def _judge_commits(checks: list[NodeCheck], report: Report) -> None:
    """Compares committed offsets with the logs, which no broker may extend meanwhile: those of the nodes of a cluster
    together, as another copy may have what one lacks."""
    of_cluster: dict[int, list[NodeCheck]] = {}
    for check in checks:
        of_cluster.setdefault(id(check.node.coordinators), []).append(check)
    for found in of_cluster.values():
        copies: dict[tuple[str, int], list[LogExtent]] = {}
        for one in (one for check in found for one in check.found):
            for name, span in one.extents.items():
                if (place := topic_partition(name)) is not None:
                    extent = LogExtent(Place(one.directory.path) / name, one.topic_ids[name], span.start, span.end)
                    copies.setdefault(place, []).append(extent)
        metadata = newest_metadata(check.node for check in found)
        ids = {} if metadata is None else metadata.ids
        judge_commits(found[0].node.coordinators.group_offsets or {}, copies, ids, report)


def _add_others(node: Node, found: list[CheckedDirectory], nodes: Nodes, level: int, report: Report) -> list[str]:
    """Checks the entries of the log directories that the node's configuration names and that are not among the PATHs;
    those that can be read are added to ``found``. Returns the ones whose partitions were not checked."""
    checked, named = _by_real_path(found), node.server.directories if node.server is not None else []
    if not any(os.path.realpath(path) in checked for path in named):
        return []  # a copy lies under other names than the configuration has
    unchecked = []
    for path in named:
        if os.path.realpath(path) in checked or path in report.absent or judge_absent(path, nodes, report):
            continue
        unchecked.append(path)
        directory = node.directory_at(path)
        if directory is not None and directory.is_marked:
            judge_entries(directory, node, report, level)
            twins = {name for one in found for name in one.directory.directories}
            found.append(_entries_of(directory, twins))
    return unchecked


def _by_real_path(found: list[CheckedDirectory]) -> dict[str, CheckedDirectory]:
    return {os.path.realpath(one.directory.path): one for one in found}


def _entries_of(directory: LogDirectory, twins: Collection[str]) -> CheckedDirectory:
    """Returns the partitions of a log directory that were not checked, with the extents of the ``twins``."""
    topic_ids: dict[str, str | None] = {}
    extents: dict[str, LogSpan] = {}
    for name in directory.directories:
        if topic_partition(name) is None or is_moved(name) or name == METADATA_PARTITION:
            continue
        path = Place(directory.path) / name
        topic_ids[name] = topic_id_at(path)
        with suppress(KsegError, OSError):
            if name in twins and (extent := log_extent(path, Scratch())) is not None:
                extents[name] = LogSpan(*extent, None)
    return CheckedDirectory(directory, topic_ids, extents)
