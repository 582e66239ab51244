"""What recovering and indexing a segment takes beside judging it, and beside Kafka's own recovery of it.

All work on the same file in memory; kseg only plans, so that neither side waits for a disk.
"""

import os
import subprocess
from pathlib import Path

from benchmarks.peers import Peers
from benchmarks.process import spent

JAVA_ROUNDS = 4

Taken = tuple[float, float]
"""Seconds, and the processor's seconds."""


def beside(path: Path) -> Path:
    """A partition with nothing but a second name of a segment."""
    partition = path.parent.with_name(f"{path.parent.name}-recovered-0")
    partition.mkdir(exist_ok=True)
    for old in partition.iterdir():
        old.unlink()
    os.link(path, partition / path.name)
    return partition


class Recoveries:
    """Measures for one segment. Each is of a whole process but `kafka_warm`, the best of some rounds in one."""

    def __init__(self, path: Path, kseg: list[str], peers: Peers | None) -> None:
        self._folder = str(path.parent)
        self._kseg = kseg
        self._peers = peers
        self._twin = beside(path)

    def verify(self) -> Taken:
        return spent([*self._kseg, "verify", "--quiet", "--level", "full", self._folder])

    def recover(self) -> Taken:
        return spent([*self._kseg, "recover", "-n", "--quiet", self._folder], status=1)

    def reindex(self) -> Taken:
        return spent([*self._kseg, "reindex", "-n", "--quiet", self._folder], status=1)

    def kafka_warm(self) -> Taken:
        """Raises SystemExit where kseg would not leave the indexes that Kafka has built."""
        if self._peers is None:
            return float("nan"), float("nan")
        done = subprocess.run(
            self._peers.recover(self._twin, JAVA_ROUNDS), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
        )
        wall, processor = map(float, done.stdout.split())
        spent([*self._kseg, "reindex", "--check", "--quiet", str(self._twin)])
        return wall, processor

    def kafka(self) -> Taken:
        """A JVM that starts, recovers the segment once, and ends."""
        return spent(self._peers.recover(self._twin, 1)) if self._peers else (float("nan"), float("nan"))
