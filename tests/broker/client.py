"""A client of real brokers: one JVM that is asked line by line (Client.java)."""

import json
import subprocess
from pathlib import Path
from typing import Any

from broker import jars

VERSION = "4.4.0"
"""Its clients talk to brokers from 2.1 on."""

Served = list[dict[str, Any]]


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
