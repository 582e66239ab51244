"""``kseg serve`` beside a real broker on the same files, read by librdkafka: ``python -m benchmarks.served``.

Both serve one log directory, and take turns; the median of the rounds counts. The broker has the settings and the JVM
of its distribution. Where other work disturbs, run all of it by ``nice -n -15``, as root.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.process import KSEG, largest_bytes, parser_of, spent_so_far
from benchmarks.segments import SEEDS, grown
from broker.client import Client
from broker.nodes import KraftNode, java

KINDS = ("1k", "100b", "lz4")
GIB = 1 << 30


class Broker(KraftNode):
    """A broker as it comes: by default the tests have smaller ones."""

    def command(self) -> list[str]:
        _, *words = java(self._class_path, "kafka.Kafka", str(self.properties))
        given = [word for word in words if not word.startswith("-XX") and not word.startswith("-Xmx")]
        return ["java", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", *given]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def settings(self) -> str:
        defaults = {"num.network.threads": 3, "num.io.threads": 8, "log.index.size.max.bytes": 10 << 20}
        return super().settings() + "".join(f"{name}={value}\n" for name, value in defaults.items())


@contextmanager
def broker(folder: Path, files: dict[str, Path]) -> Iterator[Broker]:
    """A broker that has a topic of each file: it takes them over when it starts again."""
    with Client(folder) as client, Broker(folder / "node", client) as node:
        node.start()
        for kind in files:
            node.create(kind, 1, "retention.ms=-1")
        node.stop()
        (node.logs / ".kafka_cleanshutdown").unlink()
        for kind, path in files.items():
            shutil.copy(path, node.logs / f"{kind}-0")
        node.start()
        yield node


@contextmanager
def served(logs: Path) -> Iterator[tuple[str, int]]:
    """The address and process id of ``kseg serve``."""
    command = [*KSEG, "serve", "--quiet", "--listen", "127.0.0.1:0", str(logs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1], process.pid
        finally:
            process.terminate()


def kcat(address: str, topic: str, form: str = "") -> str:
    """Reads all records of a topic; returns what is printed of them."""
    words = ["kcat", "-q", "-C", "-b", address, "-t", topic, "-p", "0", "-o", "beginning", "-e", "-f", form]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def compared(
    servers: dict[str, tuple[str, int]], topic: str, rounds: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Wall seconds of the client, and processor's seconds of each server, of all rounds."""
    offsets = {name: kcat(address, topic, "%o\n") for name, (address, _) in servers.items()}
    if len({*offsets.values()}) != 1 or not all(offsets.values()):
        raise SystemExit(
            f"{topic}: the servers give other records: { ({n: len(o) for n, o in offsets.items()}) } bytes"
        )
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in servers}
    for _ in range(rounds):
        for name, (address, pid) in servers.items():
            before, begun = spent_so_far(pid), perf_counter()
            kcat(address, topic)
            found[name][0].append(perf_counter() - begun)
            found[name][1].append(spent_so_far(pid) - before)
    return found


def main() -> None:
    parser = parser_of(__doc__, 512, 9, KINDS)
    options = parser.parse_args()
    missing = [tool for tool in ("java", "mvn", "kcat") if shutil.which(tool) is None]
    if missing:
        print(f"not measured: no {', '.join(missing)} on PATH")
        return
    kinds = options.kinds.split(",")
    options.folder.mkdir(parents=True, exist_ok=True)
    files = {kind: grown(SEEDS, kind, options.mib, options.folder) for kind in kinds}
    print("| kind | kseg serve: broker | its best round | CPU s/GiB, kseg | broker | most MB, kseg | broker |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as place,
        broker(Path(place), files) as node,
        served(node.logs) as ours,
    ):
        servers = {"kseg": ours, "broker": (node.address, node.pid)}
        for kind in kinds:
            found, gib = compared(servers, kind, options.rounds), files[kind].stat().st_size / GIB
            walls, spent = ({name: of[i] for name, of in found.items()} for i in (0, 1))
            cells = [median(walls["broker"]) / median(walls["kseg"]), min(walls["broker"]) / min(walls["kseg"])]
            cells += [median(spent[name]) / gib for name in servers]
            sizes = [largest_bytes(pid) >> 20 for _, pid in servers.values()]
            print("|", kind, *(f"| {cell:.2f}" for cell in cells), *(f"| {size}" for size in sizes), "|", flush=True)


if __name__ == "__main__":
    main()
