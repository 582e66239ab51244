"""Checks of partitions and log directories that decide what a recovery or a rebuild changes."""

import time
from dataclasses import replace

from kseg.changes.plan import CREATE, Plan
from kseg.findings.table import ERROR, INFO, KINDS, WARNING, texts_of
from kseg.formats.suffixes import TIME_INDEX
from kseg.node.log_directory import METADATA_PARTITION
from kseg.node.node import Nodes
from kseg.recovery.planner import ReindexPlanner
from kseg.segment import files as segment_files
from kseg.segment.survey import FULL, QUICK
from kseg.stores.place import Place
from kseg.stores.windows import Buffers
from kseg.verification.directory_tree import DirectoryCheck, judge_task, tasks_of
from kseg.verification.metadata import is_newest, judge_snapshot
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Finding, Report


class RecoveryChecks:
    """Checks of `verify` that decide what a recovery changes."""

    def __init__(self, nodes: Nodes) -> None:
        self._settings = CheckSettings(FULL, int(time.time() * 1000), server=nodes.server)
        self._buffers = Buffers(self._settings.max_batch_bytes)
        self._nodes = nodes

    def is_damaged(self, partition: str) -> bool:
        """Whether a check of a partition finds an error or anything to repair, whatever the command, or fails."""
        found, failure = self._judged(partition, self._settings)
        return failure is not None or any(
            finding.severity == ERROR or (finding.severity == WARNING and KINDS[finding.code].repair)
            for finding in found
        )

    def metadata_refusal(self, directory: str) -> str:
        """Returns why a node does not start on the cluster's metadata in a log directory, "" if it does."""
        found, _ = self._judged(Place(directory) / METADATA_PARTITION, replace(self._settings, level=QUICK))
        bootstrap = Place(directory) / segment_files.BOOTSTRAP
        if bootstrap.lexists():
            judge_snapshot(bootstrap, Report(found.append), FULL)
        for finding in found:
            if finding.code == "broker-would-not-start" or (
                finding.code == "bad-metadata-snapshot" and is_newest(finding.file)
            ):
                return f"{finding.file}: {finding.message}: {texts_of(finding.code).means}"
        return ""

    def _judged(self, partition: str, settings: CheckSettings) -> tuple[list[Finding], str | None]:
        """Returns the findings of a partition, and why it could not be checked."""
        found: list[Finding] = []
        (task,) = tasks_of(self._nodes.partition(partition).node, [partition])
        outcome = judge_task(task, settings, Report(found.append), self._buffers)
        return found, outcome.failure


class ReindexCheck(ReindexPlanner):
    """``reindex --check``: plans only for files that are missing or that a verification calls wrong, not for those that
    only differ from a rebuild. The message of the verification is the reason.

    A broker adds an entry for each append, and a rebuild for each batch, so that right indexes of one log can differ.
    """

    def chosen(self, plan: Plan) -> Plan:
        if plan:
            found: list[Finding] = []
            settings = CheckSettings(FULL, int(time.time() * 1000), self._start.jobs)
            DirectoryCheck(settings, Report(found.append)).judge(plan.directory)
            wrong = {finding.file: finding.message for finding in reversed(found) if finding.severity != INFO}
            # Brokers up to 0.10.0 wrote no time indexes.
            is_old = any(finding.code == "time-index-missing" and finding.severity == INFO for finding in found)
            steps, plan.steps = plan.steps, []
            for step in steps:
                if step.action == CREATE:
                    plan.steps += [] if is_old and step.file.endswith(TIME_INDEX) else [step]
                elif (message := wrong.get(Place(plan.directory) / step.file)) is not None:
                    plan.steps.append(replace(step, reason=message))
        return plan
