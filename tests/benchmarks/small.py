"""Many small segments, and the loop of Python that opens, reads and takes the CRC of each: ``… small.py FOLDER``.

The loop does nothing else that ``kseg verify`` does: it is the floor for any program in Python.
"""

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.segments import batches

BATCHES = 2
INTERVAL_BYTES = 4096


def directory(seeds: Path, partitions: int, segments: int, folder: Path) -> Path:
    """A directory of so many partitions of so many segments each, of BATCHES real batches of 16 KiB."""
    root = folder / f"small-{partitions}-{segments}"
    if (root / "done").exists():
        return root
    data = (seeds / "1k.log").read_bytes()
    places = batches(data)
    for number in range(partitions):
        partition = root / f"t-{number}"
        partition.mkdir(parents=True, exist_ok=True)
        offset = 0
        for segment in range(segments):
            base, out, index, times = offset, bytearray(), b"", b""
            largest, its_offset = -1, 0
            for k in range(BATCHES):
                position, size, offsets = places[(segment * BATCHES + k) % len(places)]
                at, last = len(out), offset + offsets - 1
                out += offset.to_bytes(8, "big") + data[position + 8 : position + size]
                timestamp = int.from_bytes(data[position + 35 : position + 43], "big")
                if timestamp > largest:
                    largest, its_offset = timestamp, last
                if at > INTERVAL_BYTES:
                    index += struct.pack(">ii", last - base, at)
                    times += struct.pack(">qi", largest, its_offset - base)
                offset += offsets
            (partition / f"{base:020}.log").write_bytes(out)
            (partition / f"{base:020}.index").write_bytes(index)
            (partition / f"{base:020}.timeindex").write_bytes(times)
        (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (root / "done").touch()
    return root


def logs(root: str) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".log"):
                yield os.path.join(folder, name)


def loop(root: str) -> int:
    """The CRC-32C of all bytes of all segments, one XORed with the other."""
    from crc32c import crc32c

    found = 0
    for path in logs(root):
        with open(path, "rb") as stream:
            found ^= crc32c(stream.read())
    return found


if __name__ == "__main__":
    loop(sys.argv[1])
