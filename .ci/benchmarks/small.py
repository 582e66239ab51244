"""Many small segments, and the loop of Python that reads each and checks the CRC of its batches: ``… small.py FOLDER``.

The loop does nothing else that ``kseg verify`` does: it is the floor for any program in Python.
"""

import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

INTERVAL_BYTES = 4096


def directory(
    seeds: Path, partitions: int, segments: int, folder: Path, kind: str = "1k", batches_each: int = 2
) -> Path:
    """A directory of so many partitions of so many segments each: two real batches of 16 KiB, or others."""
    from benchmarks.segments import batches  # not for the loop, which is a process of its own

    root = folder / f"small-{kind}-{partitions}-{segments}"
    if (root / "done").exists():
        return root
    data = (seeds / f"{kind}.log").read_bytes()
    places = batches(data)
    for number in range(partitions):
        partition = root / f"t-{number}"
        partition.mkdir(parents=True, exist_ok=True)
        offset = 0
        for segment in range(segments):
            base, out, index, times = offset, bytearray(), b"", b""
            largest, its_offset = -1, 0
            for k in range(batches_each):
                position, size, offsets = places[(segment * batches_each + k) % len(places)]
                at, last = len(out), offset + offsets - 1
                out += offset.to_bytes(8, "big") + data[position + 8 : position + size]
                timestamp = int.from_bytes(data[position + 35 : position + 43], "big")
                if timestamp > largest:
                    largest, its_offset = timestamp, last
                if at > INTERVAL_BYTES:
                    index += struct.pack(">ii", last - base, at)
                    times += struct.pack(">qi", largest, its_offset - base)
                offset += offsets
            if times[-12:] != (end := struct.pack(">qi", largest, its_offset - base)):
                times += end  # as when a broker rolls the segment
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
    """The number of batches with a wrong CRC-32C in all segments."""
    from crc32c import crc32c

    wrong = 0
    for path in logs(root):
        with open(path, "rb") as stream:
            data = stream.read()
        position = 0
        while position < len(data):
            end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            wrong += crc32c(data[position + 21 : end]) != int.from_bytes(data[position + 17 : position + 21], "big")
            position = end
    return wrong


if __name__ == "__main__":
    loop(sys.argv[1])
