"""A cluster of HDFS with two name nodes, for tests: Hadoop's own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from broker.jars import class_path

RELEASE = "3.5.0"
"""Of Hadoop, whatever client PySpark contains: the name nodes in this package of 3.4.2 answer WebHDFS with 404."""
SERVICE = "archive"
"""The name service."""


class MiniHdfs:
    """``properties``: those by which clients find the name nodes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.properties = dict(line.split("=", 1) for line in self._lines())

    def _lines(self) -> Iterator[str]:
        """Yields the lines until the next empty one."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "\n":
                return
            yield line.strip()
        raise AssertionError("the cluster has ended")

    def fail_over(self) -> None:
        """Makes the other name node active."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert list(self._lines()) == []


@contextmanager
def mini_hdfs(folder: Path) -> Iterator[MiniHdfs]:
    """Starts a cluster with its files in a folder. Skips the test, with the reason, without Hadoop's jars."""
    jars = class_path("hadoop-client-minicluster", RELEASE, group="org.apache.hadoop")
    program = str(Path(__file__).with_name("MiniHdfs.java"))
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", jars, program, str(folder)]
    with (folder / "errors").open("w") as errors, started(command, errors) as process:
        yield MiniHdfs(process)


@contextmanager
def started(command: list[str], errors: IO[str]) -> "Iterator[subprocess.Popen[str]]":
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
