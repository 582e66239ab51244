"""A client of real brokers: one JVM that is asked line by line (Client.java)."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from broker import jars

VERSION = "4.4.0"
"""Its clients talk to brokers from 2.1 on."""

Served = list[dict[str, Any]]


class Leadership(NamedTuple):
    """``leader``: of a partition, -1 if there is none; ``in_sync``: by the metadata of the broker that was asked."""

    leader: int
    in_sync: list[int]


class Client:
    """Ends with the block it is used in."""

    def __init__(self, folder: Path) -> None:
        class_path = jars.class_path("kafka_2.13", VERSION, ("org.slf4j", "slf4j-simple", "1.7.36"))
        driver = str(Path(__file__).with_name("Client.java"))
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with (folder / "client.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["java", *options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path, driver],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
            )

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()

    def ask(self, *words: object) -> list[str]:
        """The lines of the answer. Raises AssertionError where the client met an exception."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line == "\n":
                break
            assert not line.startswith("error"), f"{words}: {line}"
            lines.append(line.rstrip("\n"))
        else:
            raise AssertionError(f"{words}: the client ended")
        return lines

    def replicas(self, address: str, topic: str) -> Leadership:
        """Of partition 0."""
        leader, *in_sync = map(int, self.ask("replicas", address, topic))
        return Leadership(leader, in_sync)

    def fetch(self, address: str, topic: str, partition: int, offsets: list[int]) -> Served:
        """Of each offset the first record that is not below it."""
        return [json.loads(line) for line in self.ask("at", address, topic, partition, *offsets)]

    def offsets_for_times(self, address: str, topic: str, partition: int, times: list[int]) -> list[int]:
        """Of each timestamp the offset of the first record that is not older; -1 without one."""
        return [int(line) for line in self.ask("times", address, topic, partition, *times)]

    def next_of_group(self, address: str, group: str, topic: str, count: int, isolation: str) -> Served:
        """The next records for a member of a group, which commits them and leaves."""
        return [json.loads(line) for line in self.ask("group", address, group, topic, count, isolation)]

    def consume(self, address: str, topic: str, partition: int, isolation: str = "read_uncommitted") -> Served:
        return [json.loads(line) for line in self.ask("consume", address, topic, partition, isolation)]


class Writer:
    """Writes in a thread while the block runs. ``write``: writes records from a number on, by a client that nobody
    else uses meanwhile; ``step``: how many; ``acknowledged``: the numbers of those that were; ``failures``: of the
    others."""

    def __init__(self, write: Callable[[int], None], first: int, step: int) -> None:
        self.acknowledged: list[int] = []
        self.failures: list[str] = []
        self._write, self._first, self._step = write, first, step
        self._is_over, self._thread = Event(), Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        first = self._first
        while not self._is_over.wait(0.05):
            try:
                self._write(first)
                self.acknowledged += range(first, first + self._step)
            except AssertionError as failure:  # not acknowledged: some of it may be there all the same
                self.failures.append(str(failure))
            first += self._step
