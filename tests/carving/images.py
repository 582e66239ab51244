"""Images of disks with the files of real log directories, and what is in them."""

import os
import random
import shutil
import struct
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command import TESTDATA, Kseg, Outcome
from kseg.formats.record_batch import build_batch
from segment.segments import sealed

ROUNDS = TESTDATA / "log-directories" / "4.3.1-rounds"
CLEAN, KILLED = ROUNDS / "clean", ROUNDS / "kill"
BLOCK = 4096
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
HAS_EXT4 = all(shutil.which(tool, path=PATH) for tool in ("mke2fs", "debugfs"))

Truth = dict[bytes, set[str]]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The place of an image."""
    return tmp_path / "disk.img"


def carve(kseg: Kseg, image: Path, *words: object, of: bytes | None = None) -> Outcome:
    """Carves the image; ``of``: its new contents."""
    if of is not None:
        image.write_bytes(of)
    return kseg("carve", "--format", "json", "--output", image.parent / "out", *words, image)


def carved(kseg: Kseg, image: Path, *parts: bytes) -> list[dict[str, Any]]:
    """What is carved out of an image of these files."""
    return carve(kseg, image, "--dry-run", of=b"".join(map(padded, parts))).of_type("carved")


def batches_in(data: bytes) -> Iterator[bytes]:
    """The entries from the start on; every one has a length in bytes 8 to 11."""
    at = 0
    while len(data) - at >= 17:
        size = struct.unpack_from(">i", data, at + 8)[0] + 12
        if size < 26 or at + size > len(data):
            return
        yield data[at : at + size]
        at += size


def segments(logs: Path) -> Iterator[tuple[str, Path]]:
    """The logs and snapshots of a log directory, with the partition that holds each ("" for bootstrap.checkpoint)."""
    yield from (("", file) for file in logs.glob("*.checkpoint"))
    for directory in sorted(path for path in logs.iterdir() if path.is_dir()):
        for file in sorted(directory.iterdir()):
            if ".log" in file.name or ".checkpoint" in file.name:
                yield directory.name, file


def truth_of(logs: Path) -> Truth:
    """Which partitions hold each batch."""
    found: Truth = defaultdict(set)
    for name, file in segments(logs):
        for batch in batches_in(file.read_bytes()):
            found[batch].add(name)
    return found


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def files_one_by_one(logs: Path, with_side_files: bool = True) -> bytes:
    """All files, as a file system that is filled once lays them out."""
    paths = sorted(path for path in logs.rglob("*") if path.is_file())
    chosen = (path for path in paths if with_side_files or ".log" in path.name)
    return b"".join(padded(path.read_bytes()[: 1 << 20].rstrip(b"\0")) for path in chosen)


def shuffled(logs: Path, seed: int, names: Iterable[str] = (), sizes: tuple[int, ...] = (4096, 8192, 65536)) -> bytes:
    """The segments of some partitions in extents of these sizes, in any order, with foreign blocks between them."""
    rng, blocks = random.Random(seed), []
    chosen = set(names)
    for name, file in segments(logs):
        data = file.read_bytes() if not chosen or name in chosen else b""
        while data:
            size = rng.choice(sizes)
            blocks.append(padded(data[:size]))
            data = data[size:]
    blocks += [rng.randbytes(BLOCK) for _ in range(20)]
    blocks += [b"".join(plausible_header(rng) for _ in range(70))[:BLOCK] for _ in range(10)]
    rng.shuffle(blocks)
    return b"".join(blocks)


def plausible_header(rng: random.Random) -> bytes:
    """The header of a v2 batch that is not there."""
    return struct.pack(">qiib", rng.randrange(10**6), rng.randrange(49, 5000), 0, 2) + rng.randbytes(44)


def batch(offset: int, count: int, time: int, epoch: int = 0, producer: int = -1, is_marker: bool = False) -> bytes:
    """A batch of records of their own; of a producer with an id, a transactional one or its COMMIT."""
    records: list[tuple[bytes | None, bytes]] = [(b"key", b"%d of %d" % (i, offset)) for i in range(count)]
    if is_marker:
        records = [(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 0))]
    data = bytearray(build_batch(offset, epoch, time, records, is_control=is_marker))
    if producer >= 0:
        struct.pack_into(">qhi", data, 43, producer, 0, -1 if is_marker else offset)
        data[22] |= 0x10
    return sealed(bytes(data))


def ext4(folder: Path, logs: Path, image: Path, megabytes: int = 24, block: int = BLOCK) -> None:
    """A real file system in which all files of the partitions of a log directory were deleted."""
    copy = Path(shutil.copytree(logs, folder / "copied"))
    _made(image, megabytes, "mke2fs", "-q", "-F", "-t", "ext4", "-b", str(block), "-d", str(copy), str(image))
    paths = [path.relative_to(copy) for path in sorted(copy.rglob("*")) if path.is_file() and path.parent != copy]
    script = "".join(f"rm /{path}\n" for path in paths).encode()
    remove = ["debugfs", "-w", "-f", "/dev/stdin", str(image)]
    subprocess.run(remove, env={**os.environ, "PATH": PATH}, input=script, check=True, capture_output=True)


def xfs(folder: Path, logs: Path, image: Path) -> None:
    """A real XFS with the files of a log directory, populated by mkfs itself. At least 300 MiB, mostly holes."""
    lines = ["/", "0 0", "d--755 0 0"]
    for path in sorted(logs.iterdir()):
        inside = sorted(path.iterdir()) if path.is_dir() else []
        lines.append(f"{path.name} d--755 0 0" if path.is_dir() else f"{path.name} ---644 0 0 {path}")
        lines += [f"{file.name} ---644 0 0 {file}" for file in inside]
        lines += ["$"] * path.is_dir()
    (folder / "prototype").write_text("\n".join([*lines, "$", ""]))
    _made(image, 320, "mkfs.xfs", "-q", "-p", str(folder / "prototype"), str(image))


def btrfs(folder: Path, logs: Path, image: Path) -> None:
    _made(image, 128, "mkfs.btrfs", "-q", "--rootdir", str(logs), str(image))


def _made(image: Path, megabytes: int, *command: str) -> None:
    with open(image, "wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(command, env={**os.environ, "PATH": PATH}, check=True, capture_output=True)


FILE_SYSTEMS = {"xfs": xfs, "btrfs": btrfs}
