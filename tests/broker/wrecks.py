"""One damage each to a partition, and what of it cannot be had any more. Reckoned from the intact files alone."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = 4096
CHECKSUM_END = 21
"""Bytes of a batch up to the end of its checksum; of an old message they are 16."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A record batch, or a message of old."""

    position: int
    size: int
    first: int
    last: int
    is_control: bool = False

    @property
    def end(self) -> int:
        return self.position + self.size


@dataclass(frozen=True, slots=True)
class Wreck:
    """What was done. ``lost``: first and last offset of entries that have lost bytes; ``behind``: the first offset that
    a broker does not keep, None where it notices nothing."""

    lost: tuple[tuple[int, int], ...]
    behind: int | None

    def spares(self, offset: int) -> bool:
        return not any(first <= offset <= last for first, last in self.lost)


def entries(data: bytes) -> list[Entry]:
    """Those of intact bytes, one behind the other."""
    found: list[Entry] = []
    position, last = 0, -1
    while position < len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        offset = int.from_bytes(data[position : position + 8], "big")
        if data[position + 16] == 2:
            delta = int.from_bytes(data[position + 23 : position + 27], "big")
            entry = Entry(position, size, offset, offset + delta, bool(data[position + 22] & 32))
        else:
            entry = Entry(position, size, last + 1, offset)
        found.append(entry)
        position, last = entry.end, entry.last
    return found


def logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def amid(found: list[Entry]) -> Entry:
    """A batch of data with others before and behind it."""
    return next(entry for entry in found[len(found) // 2 :] if not entry.is_control)


def middle(partition: Path) -> Path:
    """A segment of several batches, none of the outermost where there are more."""
    paths = [path for path in logs(partition) if len(entries(path.read_bytes())) > 4]
    return paths[len(paths) // 2]


def _wreck(path: Path, data: bytes, start: int, end: int) -> Wreck:
    """Writes ``data``, from which bytes ``start`` to ``end`` of the old content are gone, or no longer the same."""
    found = entries(path.read_bytes())
    path.write_bytes(data)
    lost = tuple((one.first, one.last) for one in found if one.position < end and one.end > start)
    return Wreck(lost, next(one.first for one in found if one.end > start))


def flipped(partition: Path) -> Wreck:
    """A byte of a record."""
    path = middle(partition)
    data = bytearray(path.read_bytes())
    at = amid(entries(data)).end - 3
    data[at] ^= 0x20
    return _wreck(path, data, at, at + 1)


def zeroed(partition: Path) -> Wreck:
    """A page that was never written, of those that end behind a checksum: what is before one may be put back."""
    path = middle(partition)
    data = bytearray(path.read_bytes())
    found = entries(data)
    pages = range(len(data) // PAGE_BYTES // 2 * PAGE_BYTES, len(data) - PAGE_BYTES + 1, PAGE_BYTES)
    at = next(at for at in pages if not any(0 < at + PAGE_BYTES - one.position < CHECKSUM_END for one in found))
    data[at : at + PAGE_BYTES] = bytes(PAGE_BYTES)
    return _wreck(path, data, at, at + PAGE_BYTES)


def torn(partition: Path) -> Wreck:
    """The last segment ends within its last batch."""
    path = logs(partition)[-1]
    data = path.read_bytes()
    at = entries(data)[-1].position + 40
    return _wreck(path, data[:at], at, len(data))


def stuffed(partition: Path) -> Wreck:
    """Bytes of something else between two batches."""
    path = middle(partition)
    data = path.read_bytes()
    at = amid(entries(data)).position
    return _wreck(path, data[:at] + random.Random(7).randbytes(333) + data[at:], at, at)


def overlong(partition: Path) -> Wreck:
    """A length field that claims more than the file; nothing else is wrong, so that no record is lost."""
    path = middle(partition)
    data = bytearray(path.read_bytes())
    at = amid(entries(data)).position
    data[at + 8] = 0x40
    return Wreck((), _wreck(path, data, at, at + 12).behind)


def shifted(partition: Path) -> Wreck:
    """A base offset, which no checksum covers, one too high: a broker serves its records under wrong offsets."""
    path = middle(partition)
    data = bytearray(path.read_bytes())
    entry = amid(entries(data))
    data[entry.position : entry.position + 8] = (entry.first + 1).to_bytes(8, "big")
    path.write_bytes(data)
    return Wreck((), None)


def unmarked(partition: Path) -> Wreck:
    """The end of a transaction."""
    for path in logs(partition):
        data = bytearray(path.read_bytes())
        for entry in entries(data):
            if entry.is_control:
                data[entry.end - 1] ^= 1
                return _wreck(path, data, entry.end - 1, entry.end)
    raise ValueError(f"{partition} has no transaction")


PLAIN: tuple[Callable[[Path], Wreck], ...] = (flipped, zeroed, torn, stuffed, overlong, shifted)
TRANSACTIONS: tuple[Callable[[Path], Wreck], ...] = (flipped, torn, unmarked)
