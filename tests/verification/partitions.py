"""What the tests of verify share: copies of real partitions, their batches, and a report that keeps its findings."""

import shutil
import struct
from pathlib import Path

from crc32c import crc32c

from kseg.verification.report import Finding, Report

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
PLAIN = TESTDATA / "damaged/4.3.1-control-clean/dplain-0"


def copied(source: Path, folder: Path) -> Path:
    """A copy of a partition, or of a folder of partitions, below ``folder``."""
    return Path(shutil.copytree(source, folder / source.name))


def spans(data: bytes) -> list[tuple[int, int]]:
    """(position, size) of each batch of an intact .log, by the length fields alone."""
    found, at = [], 0
    while at < len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        found.append((at, size))
        at += size
    return found


def sealed(batch: bytes) -> bytes:
    """A v2 batch with the checksum that its bytes want."""
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def changed(path: Path, position: int, data: bytes) -> None:
    """Writes over bytes of a file."""
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)


class Found:
    """A report, and its findings in the order they came."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.report = Report(self.findings.append)

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]

    def places(self) -> list[tuple[str, str, int | None, int | None]]:
        return [(found.code, Path(found.file).name, found.position, found.length) for found in self.findings]
