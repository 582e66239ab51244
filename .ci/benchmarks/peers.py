"""Kafka's own programs, brought by Maven: kafka-dump-log's class, a walk over MemoryRecords, recovery, the cleaner."""

import shutil
import subprocess
from pathlib import Path

VERSION = "4.3.1"
DRIVERS = ("Walk", "Recover", "Clean")
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>kseg</groupId><artifactId>peers</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


class PeerError(Exception):
    """Kafka's programs are not to be had; the message says why."""


class Peers:
    """Commands that run Kafka's programs. Raises PeerError without Java, Maven or a way to Maven's repository."""

    def __init__(self, folder: Path) -> None:
        missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
        if missing:
            raise PeerError(f"no {', '.join(missing)} on PATH")
        self._folder = folder / f"kafka-{VERSION}"
        if not all((self._folder / f"{driver}.class").exists() for driver in DRIVERS):
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / "pom.xml").write_text(POM)
            _run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"], self._folder)
            sources = [str(Path(__file__).with_name(f"{driver}.java")) for driver in DRIVERS]
            _run(["javac", "-cp", "jars/*", "-d", ".", *sources], self._folder)

    def _java(self, *arguments: str) -> list[str]:
        return ["java", "-cp", f"{self._folder}:{self._folder}/jars/*", *arguments]

    def dump(self, path: Path, *flags: str) -> list[str]:
        name = "org.apache.kafka.tools.DumpLogSegments"
        return self._java(name, "--deep-iteration", "--print-data-log", *flags, "--files", str(path))

    def walk(self, path: Path, rounds: int) -> list[str]:
        return self._java("Walk", str(path), str(rounds))

    def recover(self, partition: Path, rounds: int) -> list[str]:
        return self._java("Recover", str(partition), str(rounds))

    def clean(self, *words: str) -> list[str]:
        """Clean.java."""
        return ["java", "-Xmx2g", *self._java("Clean", *words)[1:]]


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise PeerError(f"{command[0]} failed: {done.stdout.strip()[-200:]}")
