"""``reindex --check``: the indexes that are wrong, not those that only differ from a rebuild.

A broker adds an entry for each append, and a rebuild for each batch, so that right indexes of one log can differ.
"""

import os
import time
from dataclasses import replace

from kseg.changes.plan import CREATE, Plan, Step
from kseg.findings.table import INFO
from kseg.formats.suffixes import TIME_INDEX
from kseg.recovery.planner import ReindexPlanner
from kseg.segment.survey import FULL
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Finding, Report
from kseg.verification.run import judge_path


class ReindexCheck(ReindexPlanner):
    """Plans only for files that are missing or that a verification calls wrong; its message is the reason."""

    def chosen(self, plan: Plan) -> Plan:
        if plan:
            found: list[Finding] = []
            settings = CheckSettings(FULL, time.time_ns() // 1_000_000, self._start.jobs, may_fork=False)
            judge_path(plan.directory, settings, Report(found.append), lambda _: None)
            wrong = {finding.file: finding.message for finding in reversed(found) if finding.severity != INFO}
            # Brokers up to 0.10.0 wrote no time indexes.
            is_old = any(finding.code == "time-index-missing" and finding.severity == INFO for finding in found)
            steps = [_with_reason(step, wrong.get(os.path.join(plan.directory, step.file))) for step in plan.steps]
            plan.steps = [step for step in steps if step is not None and not (is_old and _is_new_time_index(step))]
        return plan


def _with_reason(step: Step, message: str | None) -> Step | None:
    """Returns the step with its reason, None if its file is right."""
    if step.action == CREATE:
        return step
    return None if message is None else replace(step, reason=message)


def _is_new_time_index(step: Step) -> bool:
    return step.action == CREATE and step.file.endswith(TIME_INDEX)
