"""A planner for tests of what all changing commands share: it cuts logs."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from cli.command import TESTDATA
from kseg.changes.driver.command import ChangeOptions, Planner, Reporter
from kseg.changes.journal import Known
from kseg.changes.plan import Plan, Removed
from kseg.errors import KsegError

CLEAN = TESTDATA / "damaged/4.3.1-control-clean/dplain-0"
POINTS = "recovery-point-offset-checkpoint"
LOG = "00000000000000000116.log"
SIZE = 7129


def make_logs(directory: Path) -> Path:
    """A log directory with two partitions."""
    for name in ("dplain-0", "dplain-1"):
        shutil.copytree(CLEAN, directory / name)
    (directory / "meta.properties").write_bytes(b"version=1\n")
    (directory / POINTS).write_bytes(b"0\n1\ndplain 0 150\n")
    return directory


def files(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Contents and times of all files but locks."""
    found = [path for path in directory.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


class Cutting(Planner):
    """Truncates each log, and sets its recovery point. A partition named dplain-2 cannot be planned."""

    command = "cut"
    root_names = (POINTS,)

    def __init__(self, change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter)
        self.is_dry = change.is_dry
        self.seen: list[str] = []

    def plan_partition(self, directory: str, known: Known) -> Plan:
        self.seen.append(directory)
        if directory.endswith("dplain-2"):
            raise KsegError(f"{directory}: cannot be cut")
        plan = Plan(directory)
        if (before := (Path(directory) / LOG).stat().st_size) > SIZE:
            plan.truncate(LOG, SIZE, "is damaged", [Removed(SIZE, before - SIZE, "bad-length", 134, 149, 16)])
        self.reporter.summary([{"type": "cut", "directory": directory}])
        return plan

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        for path in sorted(Path(directory).glob("dplain-*")):
            with self.failures.of(str(path)):
                yield self.plan_partition(str(path), known)

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        root = Plan(directory)
        if has_changed:
            root.write(POINTS, [b"0\n1\ndplain 0 134\n"], "pointed beyond the end")
        return root

    def conclusion(self) -> list[str]:
        return [f"{len(self.seen)} partitions"] if self.seen else []
