"""Copies of real log directories, and what a check of a path finds."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from kseg.segment.survey import FULL
from kseg.verification.path_check import judge_path
from kseg.verification.report import Finding, Report
from kseg.verification.settings import CheckSettings

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
REAL = TESTDATA / "log-directories" / "4.3.1" / "logs"
INTERNAL = TESTDATA / "kafka-4.3.1" / "internal"
NOW_MS = 1795300000000
"""Behind all timestamps of the data."""

TOPIC_ID, OTHER_ID = "94z80dvgS1WwWwVWhp2zpg", "BBBBBBBBQACAAAAAAAAAAQ"


@dataclass(frozen=True)
class Checked:
    findings: list[Finding]
    report: Report

    @property
    def codes(self) -> list[str]:
        return [found.code for found in self.findings]

    @property
    def serious(self) -> list[str]:
        return [found.code for found in self.findings if found.severity != "info"]

    def one(self, code: str) -> Finding:
        """The finding of that code, which must be the only one."""
        found = [finding for finding in self.findings if finding.code == code]
        assert len(found) == 1, self.findings
        return found[0]


def check(path: Path | str, level: int = FULL, jobs: int = 1, ignored: tuple[str, ...] = ()) -> Checked:
    found: list[Finding] = []
    report = Report(found.append, ignored)
    judge_path(str(path), CheckSettings(level, NOW_MS, jobs), report, lambda _: None)
    return Checked(found, report)


def copied(target: Path) -> Path:
    """A log directory with the partition dplain-0."""
    return Path(shutil.copytree(REAL, target / "logs"))


def kraft(target: Path, *partitions: str) -> Path:
    """A log directory with __cluster_metadata-0, that knows the topics of ``partitions``, and those."""
    logs = target / "logs"
    logs.mkdir()
    for name in ("meta.properties", "bootstrap.checkpoint", ".kafka_cleanshutdown"):
        shutil.copy(REAL / name, logs)
    for name in ("__cluster_metadata-0", *partitions):
        shutil.copytree(INTERNAL / name, logs / name)
    return logs


def checkpoint(*lines: str) -> str:
    return "\n".join(["0", str(len(lines)), *lines, ""])
