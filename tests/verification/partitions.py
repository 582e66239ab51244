"""What the tests of verify share: copies of real partitions, batches made by hand, a report that keeps its findings."""

import shutil
import struct
import zlib
from pathlib import Path

from kernel import rendering
from kernel.rendering import batch, record
from kseg.verification.report import Finding, Report

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
PLAIN = TESTDATA / "damaged/4.3.1-control-clean/dplain-0"
STEM = "00000000000000000000"
LATER_MS = 4_000_000_000_000
"""Behind all timestamps that brokers have written."""


def copied(source: Path, folder: Path) -> Path:
    """A copy of a partition, or of a folder of partitions, below ``folder``."""
    return Path(shutil.copytree(source, folder / source.name))


def log_of(target: Path, *segments: bytes, first: int | None = None) -> Path:
    """A partition of so many segments, each named by the offset in its first bytes, the first one by ``first``."""
    folder = target / "made-0"
    folder.mkdir()
    for number, data in enumerate(segments):
        base = first if first is not None and not number else int.from_bytes(data[:8], "big")
        (folder / f"{base:020}.log").write_bytes(data)
    return folder


def changed(path: Path, position: int, data: bytes) -> None:
    """Writes over bytes of a file."""
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)


def set_entry(index: Path, entry: int, first: int | None = None, second: int | None = None) -> None:
    """Changes the fields of one entry: relative offset and position, or timestamp and relative offset."""
    layout = struct.Struct(">ii" if index.name.endswith(".index") else ">qi")
    data = bytearray(index.read_bytes())
    old = layout.unpack_from(data, entry * layout.size)
    layout.pack_into(
        data, entry * layout.size, *(o if n is None else n for o, n in zip(old, (first, second), strict=True))
    )
    index.write_bytes(data)


# Record batches made field by field, for what no real file shows.


def batch_of(offsets: "range | list[int]", epoch: int = 0, value: bytes = b"value", **fields: bytes) -> bytes:
    """A v2 batch of records at these offsets, each with a key and a header of its own; ``fields`` by offset: oN=…"""
    first, last = min(offsets), max(offsets)
    records = [
        record(at - first, at, struct.pack(">h", at), fields.get(f"o{at}", value), [(b"h", None)]) for at in offsets
    ]
    return batch(records, first, max_timestamp=1000 + last, last_delta=last - first, leader_epoch=epoch)


def plain_record(delta: int, attributes: int = 0) -> bytes:
    """A v2 record of the smallest kind."""
    made = record(delta, key=b"k", value=b"v")
    return made[:1] + bytes([attributes]) + made[2:]


def of_records(records: list[bytes], last_delta: int, max_timestamp: int = 1000, attributes: int = 0) -> bytes:
    """A v2 batch at offset 0, whatever its records are."""
    return batch(records, 0, attributes, max_timestamp=max_timestamp, last_delta=last_delta)


def stored_gzip(data: bytes) -> bytes:
    """A gzip member that no library had a say in, so that it is the same everywhere: one block, not compressed."""
    size = struct.pack("<H", len(data))
    block = b"\1" + size + bytes(byte ^ 0xFF for byte in size) + data
    return b"\x1f\x8b\b" + bytes(6) + b"\xff" + block + struct.pack("<II", zlib.crc32(data), len(data))


def message(offset: int, value: bytes, attributes: int = 0) -> bytes:
    """A v0 message without key."""
    return rendering.message(offset, 0, None, value, attributes=attributes)


class Found:
    """A report, and its findings in the order they came."""

    def __init__(self, ignored: tuple[str, ...] = ()) -> None:
        self.findings: list[Finding] = []
        self.report = Report(self.findings.append, ignored)

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]

    @property
    def serious(self) -> list[str]:
        return [found.code for found in self.findings if found.severity != "info"]

    @property
    def errors(self) -> list[str]:
        return [found.code for found in self.findings if found.severity == "error"]

    def one(self, code: str) -> Finding:
        """The finding of that code, which must be the only one."""
        found = [finding for finding in self.findings if finding.code == code]
        assert len(found) == 1, self.findings
        return found[0]

    def places(self) -> list[tuple[str, str, int | None, int | None]]:
        return [(found.code, Path(found.file).name, found.position, found.length) for found in self.findings]
