"""What a round of the fuzzer gives to kseg: a partition with wrong insides, in one of some kinds."""

import random
import re
import shutil
import struct
from pathlib import Path

from fuzz.batches import ODD_NUMBERS, TESTDATA, out_of_place, real_batches, twist, twisted, twisted_07

BATCHES = 12
SIDE_FILES = sorted(
    path
    for folder in ("side-files", "log-directories/4.3.1/logs", "kafka-4.3.1/internal", "kafka-0.11.0.3/txn")
    for path in (TESTDATA / folder).rglob("*")
    if path.is_file()
    and path.stat().st_size < 20000
    and (path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot", ".metadata") or "checkpoint" in path.name)
)
PARTITIONS = sorted(
    {
        path.parent
        for pattern in ("kafka-*/*/*-0/*.log", "log-directories/4.3.1/logs/*/*.log", "verify/**/*.log")
        for path in TESTDATA.glob(pattern)
        if sum(file.stat().st_size for file in path.parent.iterdir()) < 40000
    }
)


def insides(folder: Path, chance: random.Random, magic: int, codec: int) -> None:
    """Batches of one format and codec, each changed under a right checksum; offsets that go on mostly."""
    offset, made = 0, b""
    for _ in range(BATCHES):
        batch = twisted(chance.choice(real_batches()[magic, codec]), chance)
        if chance.random() < 0.9:
            batch = struct.pack(">q", offset + (0 if batch[16] == 2 else 1000)) + batch[8:]
        offset += 100_000
        made += batch
    (folder / f"{0:020}.log").write_bytes(made)


def insides_07(folder: Path, chance: random.Random, codec: int) -> None:
    entries = [twisted_07(chance.choice(real_batches()[-7, codec]), chance) for _ in range(BATCHES)]
    (folder / f"{0:020}.kafka").write_bytes(b"".join(entries))


def frames(folder: Path, chance: random.Random) -> None:
    """Batches of all formats, and damage across them."""
    kinds = [kind for kind in real_batches() if kind[0] >= 0]
    data = b"".join(chance.choice(real_batches()[chance.choice(kinds)]) for _ in range(BATCHES))
    (folder / f"{chance.choice((0, 7, 2**62)):020}.log").write_bytes(out_of_place(data, chance))


def frames_07(folder: Path, chance: random.Random) -> None:
    kinds = [kind for kind in real_batches() if kind[0] < 0]
    data = b"".join(chance.choice(real_batches()[chance.choice(kinds)]) for _ in range(BATCHES))
    (folder / f"{0:020}.kafka").write_bytes(out_of_place(data, chance))


def beside(folder: Path, chance: random.Random) -> None:
    """A real partition, one or two of whose files are changed, those beside its .log above all."""
    shutil.copytree(chance.choice(PARTITIONS), folder, dirs_exist_ok=True)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for path in chance.sample(files, min(len(files), chance.choice((1, 1, 2)))):
        path.write_bytes(changed(path.read_bytes(), chance))


def strangers(folder: Path, chance: random.Random) -> None:
    """A real partition with side files of others in it, under its names and theirs, changed."""
    shutil.copytree(chance.choice(PARTITIONS), folder, dirs_exist_ok=True)
    logs = sorted(folder.glob("*.log")) or [folder / f"{0:020}.log"]
    for path in chance.sample(SIDE_FILES, 3):
        name = path.name
        if chance.random() < 0.7 and re.match(r"\d{20}\.", name):
            name = chance.choice(logs).stem + path.suffix
        data = path.read_bytes()
        (folder / name).write_bytes(changed(data, chance) if chance.random() < 0.7 else data)


def changed(data: bytes, chance: random.Random) -> bytes:
    """Bytes of any file; of text the numbers and lines."""
    if data.isascii() and b"\n" in data and chance.random() < 0.8:
        lines = data.split(b"\n")
        at = chance.randrange(len(lines))
        kind = chance.randrange(5)
        if kind == 0:
            lines[at] = re.sub(rb"-?\d+", lambda _: b"%d" % chance.choice((*ODD_NUMBERS, 10**30)), lines[at], count=1)
        elif kind == 1:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif kind == 2:
            del lines[at]
        elif kind == 3:
            lines[at] += chance.choice((b" 1", b"\t", b"\r", b"=", b"\xff", b" " * 300))
        else:
            lines[at] = twist(lines[at], chance)
        return b"\n".join(lines)
    for _ in range(chance.choice((1, 2, 4))):
        data = twist(data, chance)
    return data


def kinds() -> dict[str, object]:
    """Names of all kinds of rounds, and what fills the folder."""
    found: dict[str, object] = {"frames": frames, "frames-v07": frames_07, "beside": beside, "strangers": strangers}
    for magic, codec in real_batches():
        if magic < 0:
            found[f"insides-v07-{codec}"] = lambda folder, chance, codec=codec: insides_07(folder, chance, codec)
        else:
            found[f"insides-v{magic}-{codec}"] = (
                lambda folder, chance, magic=magic, codec=codec: insides(folder, chance, magic, codec)
            )  # fmt: skip
    return found
