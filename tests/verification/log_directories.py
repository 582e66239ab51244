"""Copies of real log directories, and what a check of a path finds."""

import shutil
from pathlib import Path
from typing import Any

from kseg.node.server_properties import ServerProperties
from kseg.segment.survey import FULL
from kseg.verification.partition import CheckSettings
from kseg.verification.report import CheckReporter
from kseg.verification.run import Check, judge_path
from verification.partitions import TESTDATA, Found

REAL = TESTDATA / "log-directories" / "4.3.1" / "logs"
INTERNAL = TESTDATA / "kafka-4.3.1" / "internal"
NOW_MS = 1795300000000
"""Behind all timestamps of the data."""

TOPIC_ID, OTHER_ID = "94z80dvgS1WwWwVWhp2zpg", "BBBBBBBBQACAAAAAAAAAAQ"


def check(path: Path | str, level: int = FULL, jobs: int = 1, ignored: tuple[str, ...] = ()) -> Found:
    found = Found(ignored)
    judge_path(str(path), CheckSettings(level, NOW_MS, jobs), found.report)
    return found


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


def check_node(*paths: Path | str, server: str | None = None, **given: Any) -> Found:
    """Checks the log directories of a node; ``server``: the content of its server.properties, without paths it names
    them."""
    settings = CheckSettings(
        given.pop("level", FULL), NOW_MS, server=None if server is None else server_of(server), may_fork=False, **given
    )
    paths = paths or tuple(settings.server.log_dirs if settings.server else ())
    found, reporter = Found(), CheckReporter()
    reporter.finding = found.findings.append  # type: ignore[method-assign]
    check = Check([str(path) for path in paths], settings, reporter)
    for path in paths:
        check.judge(str(path))
    found.report = check.finish()
    return found


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
