"""A disk with simulated power cuts: any subset of the unsynced changes survives.

The model: names in a directory are durable once the directory is synced, together with the operations that they depend
on; operations on names are atomic; bytes of a file are durable once the file is synced. Hard links in a hidden folder
keep inodes alive, so that the state after a cut is built from the same inodes. A directory whose names are all durable
has its modification time.
"""

import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from changes.failing import Killed, KillingDisk, struck
from kseg.changes.disk import Disk

KILLED, CUT, TWICE = "killed", "power cut", "killed, then power cut"
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
endings = pytest.mark.parametrize(
    "ending", [KILLED, pytest.param(CUT, marks=needs_proc), pytest.param(TWICE, marks=needs_proc)]
)
"""How a run ends at a call: it is killed, the power fails, or it is killed and the power fails in the next run."""


class PowerCut(Killed):
    """The power is off."""


@dataclass
class Operation:
    """An operation on ``name``, which gets an inode, or loses it (None). ``source``: the old name of a rename."""

    name: str
    inode: int | None
    source: str = ""
    is_directory: bool = False

    @property
    def directories(self) -> set[str]:
        return {os.path.dirname(path) for path in (self.name, self.source) if path}


@dataclass
class Content:
    """The durable state of a file: its bytes and modification time."""

    data: bytes
    mtime_ns: int


@dataclass
class PowerDisk(Disk):
    """Works on ``root``. ``at``: the number of the call before which the power fails."""

    root: Path
    at: int | None = None
    calls: int = 0
    pending: list[Operation] = field(default_factory=list)
    lasting: dict[int, Content] = field(default_factory=dict)
    unsynced: set[int] = field(default_factory=set)
    names: dict[str, int] = field(default_factory=dict)
    folders: list[int] = field(default_factory=list)
    """Open directories: otherwise the inode of one that is removed could become that of a new file."""

    def __post_init__(self) -> None:
        self.keep = self.root.parent / (self.root.name + ".inodes")
        self.keep.mkdir()
        for path in self.root.rglob("*"):
            self.names[str(path)] = path.stat().st_ino
            if path.is_dir():
                self.folders.append(os.open(path, os.O_RDONLY))
            else:
                self._hold(path)

    def _hold(self, path: Path | str) -> int:
        """Keeps the inode of a file. Its content so far is durable."""
        status = os.stat(path)
        inode = status.st_ino
        if inode not in self.lasting:
            self.lasting[inode] = Content(Path(path).read_bytes(), status.st_mtime_ns)
        if not (self.keep / str(inode)).exists():
            os.link(path, self.keep / str(inode))
        return inode

    def _count(self) -> None:
        is_off = self.at is not None and self.calls >= self.at
        self.calls += 1
        if is_off:
            raise PowerCut

    @property
    def count(self) -> int:
        return self.calls

    def _note(self, operation: Operation) -> None:
        self.pending.append(operation)

    def make_directory(self, path: str) -> None:
        self._count()
        super().make_directory(path)
        self.folders.append(os.open(path, os.O_RDONLY))
        self._note(Operation(path, os.stat(path).st_ino, is_directory=True))

    def create(self, path: str) -> int:
        self._count()
        descriptor = super().create(path)
        inode = self._hold(path)
        self.lasting[inode] = Content(b"", 0)
        self.unsynced.add(inode)
        self._note(Operation(path, inode))
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        self._count()
        self.unsynced.add(os.fstat(descriptor).st_ino)
        super().write(descriptor, data)

    def copy_range(self, source: int, position: int, length: int, target: int) -> None:
        self._count()
        self.unsynced.add(os.fstat(target).st_ino)
        super().copy_range(source, position, length, target)

    def has_second_link(self, descriptor: int) -> bool:
        """Ignores the links that keep inodes alive."""
        status = os.fstat(descriptor)
        return status.st_nlink > 1 + (self.keep / str(status.st_ino)).exists()

    def link(self, path: str, name: str) -> bool:
        self._count()
        done = super().link(path, name)
        if done:
            self._note(Operation(name, self._hold(name)))
        return done

    def rename(self, path: str, target: str) -> None:
        self._count()
        inode, is_directory = os.stat(path).st_ino, os.path.isdir(path)
        super().rename(path, target)
        self._note(Operation(target, inode, path, is_directory))

    def unlink(self, path: str) -> None:
        self._count()
        super().unlink(path)
        self._note(Operation(path, None))

    def truncate(self, descriptor: int, size: int) -> None:
        self._count()
        self.unsynced.add(os.fstat(descriptor).st_ino)
        super().truncate(descriptor, size)

    def set_time(self, path: str, mtime_ns: int) -> None:
        self._count()
        self.unsynced.add(os.stat(path).st_ino)
        super().set_time(path, mtime_ns)

    def remove_directory(self, path: str) -> None:
        self._count()
        super().remove_directory(path)
        self._note(Operation(path, None, is_directory=True))

    def flush_all(self, descriptor: int) -> None:
        self._count()
        for inode in self.unsynced:
            held = self.keep / str(inode)
            self.lasting[inode] = Content(held.read_bytes(), held.stat().st_mtime_ns)
        self.unsynced.clear()
        for operation in self.pending:
            _perform(self.names, operation)
        self.pending.clear()

    def flush(self, descriptor: int) -> None:
        self._count()
        inode = os.fstat(descriptor).st_ino
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            self._make_lasting(os.readlink(f"/proc/self/fd/{descriptor}"))
        else:
            held = self.keep / str(inode)
            self.lasting[inode] = Content(held.read_bytes(), held.stat().st_mtime_ns)
            self.unsynced.discard(inode)

    def _make_lasting(self, directory: str) -> None:
        """Makes the operations on names of a directory durable, and the earlier ones that they need: those on the same
        names, and renames and removals of the directories that these are in.
        """
        needed: list[Operation] = []
        touched: set[str] = set()
        above: set[str] = set()
        for operation in reversed(self.pending):
            paths = {operation.name, operation.source} - {""}
            creates = operation.inode is not None and not operation.source
            if directory in operation.directories or touched & paths or (above & paths and not creates):
                needed.append(operation)
                touched |= paths
                above |= {str(parent) for path in paths for parent in Path(path).parents}
        for operation in reversed(needed):
            _perform(self.names, operation)
            self.pending.remove(operation)

    def cut(self, rng: random.Random) -> None:
        """Leaves in ``root`` a state that a power cut can leave: each operation that is not durable was done or not.

        At times only the last one was done.
        """
        chance, last = rng.choice(((0.0, 0.0), (0.0, 1.0), (0.5, 0.5), (1.0, 1.0)))
        names = dict(self.names)
        for operation in self.pending:
            if rng.random() < (last if operation is self.pending[-1] else chance):
                _perform(names, operation)
        held = {int(path.name): path for path in self.keep.iterdir()}
        for inode in self.unsynced:
            self._lose(held[inode], self.lasting[inode], rng)
        times = self._empty()
        for name, inode in sorted(names.items()):
            if not os.path.isdir(os.path.dirname(name)):
                continue  # in a directory that does not exist
            if inode in held:
                os.link(held[inode], name)
            elif (self.keep / str(inode)).is_dir():
                (self.keep / str(inode)).rename(name)
            else:
                os.mkdir(name)
        for path in (self.root, *self.root.rglob("*")):
            if path.is_dir() and path.stat().st_ino in times:
                os.utime(path, ns=(times[path.stat().st_ino],) * 2)
        for descriptor in self.folders:
            os.close(descriptor)
        shutil.rmtree(self.keep)

    def _empty(self) -> dict[int, int]:
        """Empties ``root``, and keeps its directories, so that their inodes last. Returns the modification times of the
        directories whose names are all durable.
        """
        touched = {directory for operation in self.pending for directory in operation.directories}
        directories = [path for path in (self.root, *self.root.rglob("*")) if path.is_dir()]
        times = {path.stat().st_ino: path.stat().st_mtime_ns for path in directories if str(path) not in touched}
        for path in reversed(directories):  # what is inside comes first
            for file in path.iterdir():
                file.unlink()
            if path != self.root:
                path.rename(self.keep / str(path.stat().st_ino))
        return times

    @staticmethod
    def _lose(path: Path, lasting: Content, rng: random.Random) -> None:
        now, kind = path.read_bytes(), rng.randrange(3)
        if kind == 0:
            return  # all of it is on the disk
        same = next((i for i, (a, b) in enumerate(zip(now, lasting.data, strict=False)) if a != b), len(lasting.data))
        keeps = now[:same]
        lost = lasting.data if kind == 1 else keeps + bytes(len(now) - len(keeps))  # without the bytes
        path.write_bytes(lost)
        if kind == 1:
            os.utime(path, ns=(lasting.mtime_ns, lasting.mtime_ns))


def _perform(names: dict[str, int], operation: Operation) -> None:
    """Performs an operation on names if its source exists; renaming a directory moves its contents, too."""
    if operation.source:
        if names.get(operation.source) != operation.inode:
            return
        for name in [name for name in names if name.startswith(operation.source + "/")]:
            names[operation.name + name[len(operation.source) :]] = names.pop(name)
        del names[operation.source]
    if operation.inode is None:
        names.pop(operation.name, None)
        for name in [name for name in names if operation.is_directory and name.startswith(operation.name + "/")]:
            del names[name]
    else:
        names[operation.name] = operation.inode


def ended_at(
    ending: str,
    step: int,
    folder: Path,
    prepare: Callable[[Path], object],
    run: Callable[[Path, Disk], object],
    seed: int = 0,
) -> Iterator[Path]:
    """The directories of `struck`, whose runs ended so; the last run came to its end, and must be durable."""

    def make_disk(directory: Path, at: int) -> Disk:
        return KillingDisk(at) if ending == KILLED else PowerDisk(directory, at)

    for directory, disk, error in struck(step, folder, prepare, run, make_disk, seed % step):
        rng = random.Random(seed + disk.at)
        if ending == TWICE and error is not None:
            disk.at = disk.calls + rng.randrange(80)
            with suppress(PowerCut):
                run(directory, disk)
        if ending != KILLED:
            disk.cut(rng)
        yield directory
