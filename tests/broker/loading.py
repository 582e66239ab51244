"""Kafka's own loader of partitions (LogLoader.java), and what it leaves beside what kseg makes of the same bytes."""

import select
import shutil
import subprocess
from pathlib import Path

from broker import jars
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import read_producer_snapshot

LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
PATIENCE_SECONDS = 60
INDEX_BYTES = 65536
"""As the loader sets it; brokers wrote the partitions of testdata with it."""
RECOVERY_POINTS, LOG_STARTS = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"
MARKER = ".kafka_cleanshutdown"
INDEXES = {".index": 8, ".timeindex": 12, ".txnindex": 34}
"""Bytes of an entry of each kind."""


class Loader:
    """One Java process, begun anew when it hangs or dies; ends with the block it is used in."""

    def __init__(self, release: str, folder: Path) -> None:
        self.release, self._folder = release, folder / f"loader-{release}"
        self._class_path = jars.class_path("kafka_2.13", release, LOGGING)
        if not self._folder.exists():
            source = str(Path(__file__).with_name("LogLoader.java"))
            subprocess.run(["javac", "-cp", self._class_path, "-d", str(self._folder), source], check=True)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def load(self, partition: Path, now_ms: int, interval_bytes: int) -> str:
        """ "taken", or "refused: " and why."""
        root = partition.parent
        point, start = (offset_in(root / name, partition.name) for name in (RECOVERY_POINTS, LOG_STARTS))
        was_clean = int((root / MARKER).exists())
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\t".join(map(str, [partition, start, point, was_clean, now_ms, interval_bytes])) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
        answer = process.stdout.readline().rstrip("\n") if ready else ""
        if not answer:
            self._end()
        assert answer, f"{partition}: the loader hung or died"
        return answer

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            options = ["-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dorg.apache.logging.log4j.level=OFF"]
            command = ["java", *options, "-cp", f"{self._folder}:{self._class_path}", "LogLoader"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
            )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            with self._process:
                self._process.kill()
            self._process = None


def offset_in(checkpoint: Path, partition: str) -> int:
    """A partition's offset in a checkpoint, 0 where it has none."""
    rows = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    found = (row.split() for row in rows)
    return next((int(offset) for topic, number, offset in found if f"{topic}-{number}" == partition), 0)


def with_preallocated_indexes(partition: Path) -> None:
    """Preallocates the indexes of the last segment, as a killed broker leaves them."""
    last = max(partition.glob("*.log")).stem
    for suffix, width in ((".index", 8), (".timeindex", 12)):
        path = partition / (last + suffix)
        path.write_bytes(path.read_bytes().ljust(INDEX_BYTES // width * width, b"\0"))


def state(partition: Path) -> dict[str, object]:
    """What is compared of a partition: bytes of logs and indexes without preallocated ones, the entries of snapshots
    and leader epochs in any order, the names of all else."""
    found: dict[str, object] = {}
    for path in sorted(partition.iterdir()):
        name = path.name
        if name.endswith(".deleted") or path.is_dir():
            continue
        found[name] = True
        if name.endswith(".log"):
            found[name] = path.read_bytes()
        elif name.endswith(tuple(INDEXES)):
            data, width = path.read_bytes(), INDEXES[path.suffix]
            whole = len(data) // width * width  # an odd end is cut off when the index is closed, and never read
            found[name] = data[:whole].rstrip(b"\0")
        elif name.endswith(".snapshot"):
            items = list(read_producer_snapshot(path.read_bytes()))
            found[name] = sorted(entries_of(items)), bool(problems_of(items))
        elif name == "leader-epoch-checkpoint":
            found[name] = sorted(path.read_text().splitlines()[2:])
    return {name: value for name, value in found.items() if value or not name.endswith(".txnindex")}


def differences(theirs: Path, ours: Path, loader: Loader, now_ms: int, interval_bytes: int) -> list[str]:
    """Names of files that are not alike. An index that the loader leaves empty for good may be rebuilt."""
    left, made = state(theirs), state(ours)
    differing = [name for name in sorted({*left, *made}) if left.get(name) != made.get(name)]
    empty = [name for name in differing if name.endswith(tuple(INDEXES)) and left.get(name) == b"" and made.get(name)]
    if not empty:
        return differing
    alone = theirs.parent / "alone" / theirs.name
    for name in empty:
        shutil.rmtree(alone.parent, ignore_errors=True)
        alone.mkdir(parents=True)
        log = name.partition(".")[0] + ".log"
        for needed in (log, "partition.metadata"):
            shutil.copyfile(theirs / needed, alone / needed)
        row = f"{' '.join(theirs.name.rsplit('-', 1))} {int(log[:-4])}"
        (alone.parent / LOG_STARTS).write_text(f"0\n1\n{row}\n")
        if loader.load(alone, now_ms, interval_bytes) == "taken" and state(alone).get(name) == made[name]:
            differing.remove(name)
    shutil.rmtree(alone.parent, ignore_errors=True)
    return differing


def logs_of(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in partition.glob("*.log")}
