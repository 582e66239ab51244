"""Directories as data, random plans for them, and a model that computes the result of a plan."""

import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

from kseg.changes.plan import Plan, Range, Removed
from kseg.changes.quarantine import FOLDER

Tree = dict[str, tuple[bytes, int, int]]
"""Content, modification time in ns and mode of each file, by name."""

NAMES = ("a.log", "a.index", "b.log", "b.index", "c.log.swap", "epochs")
OLD_NS = 1_600_000_000_123_456_789


def make(directory: Path, files: dict[str, bytes]) -> None:
    """Creates a directory with these files, each with its own modification time and mode."""
    directory.mkdir(parents=True, exist_ok=True)
    for i, (name, content) in enumerate(sorted(files.items())):
        path = directory / name
        path.write_bytes(content)
        path.chmod((0o644, 0o640, 0o600)[i % 3])
        os.utime(path, ns=(OLD_NS + i, OLD_NS + i))


def tree(directory: Path) -> Tree:
    """Returns the files of a directory without subdirectories."""
    found = {}
    for path in directory.iterdir():
        if path.is_file():
            status = path.stat()
            found[path.name] = (path.read_bytes(), status.st_mtime_ns, status.st_mode & 0o7777)
    return found


def contents(directory: Path) -> dict[str, bytes]:
    return {name: found[0] for name, found in tree(directory).items()}


def all_files(directory: Path) -> dict[str, bytes]:
    """Contents by path, also in subdirectories, but for the records of changes and what they keep."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and FOLDER not in path.parts and not path.name.startswith(".kseg-change-")
    }


def kept_bytes(*places: Path) -> list[bytes]:
    """Returns the bytes of all files in quarantines and other folders."""
    return [path.read_bytes() for place in places for path in place.rglob("*") if path.is_file()]


def quarantine(directory: Path) -> Path:
    return directory / FOLDER


def plan_of(directory: Path, *steps: tuple[Any, ...], **more: Any) -> Plan:
    """Returns a plan of these steps, each the name of a method of `Plan` and its arguments."""
    plan = Plan(str(directory), **more)
    for name, *arguments in steps:
        getattr(plan, name)(*arguments)
    return plan


def random_files(rng: random.Random) -> dict[str, bytes]:
    return {name: rng.randbytes(rng.choice((0, 1, 300, 5000, 30_000))) for name in NAMES if rng.random() < 0.7}


def random_plan(rng: random.Random, directory: Path, steps: int) -> tuple[Plan, dict[str, bytes]]:
    """Returns a plan of random steps, and the expected contents."""
    plan, files = Plan(str(directory)), contents(directory)
    start = dict(files)
    for _ in range(steps):
        name, other = rng.choice(NAMES), rng.choice(NAMES)
        try:
            _add_step(rng, plan, files, start, name, other)
        except ValueError as error:  # not allowed in a plan
            if "twice" not in str(error):
                raise
    return plan, files


def _add_step(
    rng: random.Random, plan: Plan, files: dict[str, bytes], start: dict[str, bytes], name: str, other: str
) -> None:
    kind = rng.choice(("truncate", "write", "remake", "move", "move", "delete", "rename", "keep"))
    if kind == "move" and name != other and name in start and other in start:
        moved = piece_of(rng, {name: start[name]})
        assert isinstance(moved, Range)
        end = moved.position + moved.length
        rest = [Range(name, 0, moved.position), Range(name, end, len(start[name]) - end)]
        for file, pieces in ((name, rest), (other, cut_pieces(rng, other, len(start[other]), [moved]))):
            plan.write(file, pieces, "without what moves, or with it")
            files[file] = b"".join(bytes_of(piece, start) for piece in pieces)
    if kind in ("write", "remake"):
        pieces = [rng.choice((b"", rng.randbytes(40), piece_of(rng, start))) for _ in range(rng.randrange(3))]
        if kind == "remake" and name in start:
            pieces = cut_pieces(rng, name, len(start[name]), pieces)
        plan.write(name, pieces, "new content", removed_of(files.get(name, b"")))
        files[name] = b"".join(bytes_of(piece, start) for piece in pieces)
    elif kind == "truncate" and files.get(name):
        size = rng.randrange(len(files[name]))
        plan.truncate(name, size, "cut", [Removed(size, len(files[name]) - size, "tail", 5, 9, 5)])
        files[name] = files[name][:size]
    elif kind == "delete" and name in files:
        plan.delete(name, "goes", removed_of(files[name]))
        del files[name]
    elif kind in ("rename", "keep") and name in files and other not in files:
        plan.rename(name, other, "moves", keeps=kind == "keep")
        files[other] = files.pop(name)


def cut_pieces(rng: random.Random, name: str, size: int, others: list[bytes | Range]) -> list[bytes | Range]:
    """Returns a file without some ranges, with other pieces in between, sometimes reordered or with a duplicate."""
    ends = sorted(rng.randrange(size + 1) for _ in range(rng.choice((0, 2, 4))))
    bounds = [0, *ends, size]
    found: list[bytes | Range] = [
        Range(name, start, max(end - start - rng.choice((0, 1, 100)), 0)) for start, end in pairwise(bounds)
    ]
    for piece in others:
        found.insert(rng.randrange(len(found) + 1), piece)
    if rng.random() < 0.3:
        rng.shuffle(found)
    return found + found[:1] * (rng.random() < 0.2)


def piece_of(rng: random.Random, files: dict[str, bytes]) -> bytes | Range:
    if not files:
        return b"made"
    name = rng.choice(sorted(files))
    position = rng.randrange(len(files[name]) + 1)
    return Range(name, position, rng.randrange(len(files[name]) - position + 1))


def bytes_of(piece: bytes | Range, files: dict[str, bytes]) -> bytes:
    if isinstance(piece, bytes):
        return piece
    return files[piece.file][piece.position : piece.position + piece.length]


def removed_of(content: bytes) -> list[Removed]:
    return [Removed(0, len(content), "all of it")] if content else []


def is_within(data: bytes, places: list[bytes]) -> bool:
    """Whether bytes occur completely in one of the places."""
    return not data or any(data in place for place in places)
