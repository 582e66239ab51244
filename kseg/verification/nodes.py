"""Checks the log directories of each node together, when all are checked."""

import os

from kseg.node.node import Node, Nodes
from kseg.releases.metadata import MetadataRules
from kseg.releases.release import NEWEST
from kseg.segment.survey import DEEP, QUICK
from kseg.stores.place import Place
from kseg.verification.disks import judge_disks
from kseg.verification.log_directories import CheckedDirectory, NodeCheck, start_of
from kseg.verification.partition import CheckSettings
from kseg.verification.report import NO_DETAILS, Report


def judge_nodes(nodes: Nodes, settings: CheckSettings, report: Report) -> None:
    """Checks the log directories in ``report.directories`` by node, and adds the start of each node to
    ``report.starts``."""
    of_node: dict[Node, list[CheckedDirectory]] = {}
    for one in {os.path.realpath(one.directory.path): one for one in report.directories}.values():
        of_node.setdefault(nodes.at(one.directory.path), []).append(one)
    for path in report.absent:
        for node in nodes.given:
            if node.server is not None and path in node.server.directories:
                of_node.setdefault(node, [])
    for node, found in of_node.items():
        check = NodeCheck(node, found, report.absent)
        for code, path, text in check.contradictions():
            report.add(code, path, text)
        for code, path, text in check.quorum() if settings.level != QUICK else ():
            restored = node.restored_ids.get(Place(path).parent)
            report.add(code, path, text, details={"directoryId": restored} if restored else NO_DETAILS)
        if settings.era.release < NEWEST:
            check.judge_bootstrap(MetadataRules(settings.era.release), report)
        judge_disks(check, report)
        if not settings.is_live:
            if settings.level == DEEP:
                check.judge_commits(report)
            report.starts.append(start_of(check, settings, report))
