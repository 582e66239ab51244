"""Copies of real log directories, and what a check of a path finds."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kseg.node.server_properties import ServerProperties
from kseg.segment.survey import FULL
from kseg.verification.partition import CheckSettings
from kseg.verification.report import CheckReporter, Finding, Report
from kseg.verification.run import Check, judge_path
from verification.partitions import TESTDATA

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
    judge_path(str(path), CheckSettings(level, NOW_MS, jobs), report)
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
    return edited(logs, directory_id="pibF-sA9R7uFamv8XAeP0w")  # that of the only voter


def checkpoint(*lines: str) -> str:
    return "\n".join(["0", str(len(lines)), *lines, ""])


def check_node(*paths: Path | str, server: str | None = None, **given: Any) -> Checked:
    """Checks the log directories of a node; ``server``: the content of its server.properties, without paths it names
    them."""
    settings = CheckSettings(
        given.pop("level", FULL), NOW_MS, server=None if server is None else server_of(server), may_fork=False, **given
    )
    paths = paths or tuple(settings.server.log_dirs if settings.server else ())
    found: list[Finding] = []
    reporter = CheckReporter()
    reporter.finding = found.append  # type: ignore[method-assign]
    check = Check([str(path) for path in paths], settings, reporter)
    for path in paths:
        check.judge(str(path))
    return Checked(found, check.finish())


def server_of(text: str) -> ServerProperties:
    return ServerProperties("server.properties", dict(line.split("=", 1) for line in text.split()))


def edited(logs: Path, **properties: str) -> Path:
    """The log directory, with other values in meta.properties; of an empty one the line is gone."""
    path = logs / "meta.properties"
    lines = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
    lines |= {key.replace("_", "."): value for key, value in properties.items()}
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items() if value))
    return logs


def second(target: Path, *partitions: str) -> Path:
    """The other log directory of the node of `kraft`."""
    logs = target / "second"
    logs.mkdir()
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy(REAL / name, logs)
    for name in partitions:
        shutil.copytree(INTERNAL / name, logs / name)
    return edited(logs, directory_id="BBBBBBBBQACAAAAAAAAAAQ")
