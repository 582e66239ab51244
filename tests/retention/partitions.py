"""Partitions before and after retention by a real broker."""

import hashlib
import shutil
from pathlib import Path

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
RETENTION = TESTDATA / "retention" / "4.3.1"
RELEASES = {"4.3.1": 1_795_251_919_567, "4.4.0": 1_795_738_458_927}
"""The clock of each release's broker at the deletion by time."""
NOW_MS = RELEASES["4.3.1"]
ARGUMENTS = {
    "r-time-half-0": ["--retention-ms", "3600000"],
    "r-delrec-0": ["--log-start-offset", "123", "--retention-ms", "-1"],
}


def log_directory(target: Path, release: str = "4.3.1") -> Path:
    """Returns a writable copy of the log directory before retention."""
    return Path(shutil.copytree(TESTDATA / "retention" / release / "before", target / "logs"))


def digests(partition: Path) -> dict[str, str]:
    """Digests of the files that retention renames or creates: segments, side files, producer snapshots."""
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = [path for path in partition.iterdir() if path.name.removesuffix(".deleted").endswith(kinds)]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def left_by_broker(name: str, release: str = "4.3.1") -> dict[str, str]:
    """The same digests after the broker's retention."""
    lines = (TESTDATA / "retention" / release / "after" / name / "sha256.txt").read_text().splitlines()
    found = {line.split()[1]: line.split()[0] for line in lines}
    return {file: digest for file, digest in found.items() if "." in file and not file.endswith(".metadata")}


def epochs(file: Path, end: int = 500) -> list[tuple[int, ...]]:
    """Epochs that begin below the log end; a broker's start adds one at the log end."""
    rows = [tuple(map(int, line.split())) for line in file.read_text().splitlines()[2:]]
    return [row for row in rows if row[1] < end]
