"""Disks that fail at the n-th system call, or on which the process dies there."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import pytest

from kseg.changes.disk import Disk
from kseg.errors import KsegError

PRIMITIVES = (
    "make_directory", "create", "write", "copy_range", "link", "symbolic_link", "rename", "unlink", "truncate",
    "set_time", "copy_owner", "copy_attributes", "flush", "flush_all", "remove_directory", "restore",
    "set_default_mode", "clone",
)  # fmt: skip


every_call = pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
"""Gives `struck` its step: some calls in the quick tests, all of them in the slow ones."""


class Killed(BaseException):
    """Stands for SIGKILL: no later call reaches the disk."""


class CountingDisk(Disk):
    """Counts calls. ``at`` (from 0): `strike` is called instead of this call, or in the middle of a write."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.calls: list[str] = []
        self._lock = Lock()

    @property
    def count(self) -> int:
        return len(self.calls)

    def strike(self, name: str, number: int) -> None:
        """Called at the chosen call, and at all later ones if it does not raise."""

    def struck(self, name: str, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with self._lock:  # partitions may be changed concurrently
            number = len(self.calls)
            self.calls.append(name)
        if name in ("flush", "flush_all"):
            real = _unneeded  # not needed without power cuts, and slow
        if self.at is None or number < self.at:
            return real(*arguments, **named)
        if number == self.at and name == "write" and len(arguments[1]) > 1:
            real(arguments[0], memoryview(arguments[1])[: len(arguments[1]) // 2])
        if number == self.at and name == "copy_range" and arguments[2] > 1:
            real(arguments[0], arguments[1], arguments[2] // 2, arguments[3])
        self.strike(name, number)
        return real(*arguments, **named)


def _unneeded(_descriptor: int) -> None:
    """Does nothing: after a kill, written data is in the system's memory, synced or not."""


def _counted(name: str) -> Any:
    def method(self: CountingDisk, *arguments: Any, **named: Any) -> Any:
        return self.struck(name, getattr(super(CountingDisk, self), name), *arguments, **named)

    return method


for _name in PRIMITIVES:
    setattr(CountingDisk, _name, _counted(_name))


QUICK = CountingDisk()
"""Makes all calls except syncs."""


class KillingDisk(CountingDisk):
    def strike(self, name: str, number: int) -> None:
        raise Killed


class FailingDisk(CountingDisk):
    """Raises an OSError at the chosen call; with ``stays``, also at all later ones."""

    def __init__(self, at: int | None, number: int, stays: bool = False) -> None:
        super().__init__(at)
        self._errno = number
        self._stays = stays

    def strike(self, name: str, number: int) -> None:
        if number == self.at or self._stays:
            raise OSError(self._errno, os.strerror(self._errno))


class Struck(NamedTuple):
    """A run in a directory of its own, on a disk that struck it at a call. ``error``: what ended it."""

    directory: Path
    disk: Any
    error: BaseException | None


def struck(
    step: int,
    folder: Path,
    prepare: Callable[[Path], object],
    run: Callable[[Path, Any], object],
    make_disk: Callable[[Path, int], Any] = lambda _directory, at: KillingDisk(at),
    first: int = 0,
) -> Iterator[Struck]:
    """Yields runs that were struck at calls ``step`` apart and at the last one; the last run is not struck."""

    def strike(at: int) -> Struck:
        directory, error = folder / str(at) / "orders-0", None
        prepare(directory)
        disk = make_disk(directory, at)
        try:
            run(directory, disk)
        except (Killed, KsegError) as ended:
            error = ended
        return Struck(directory, disk, error)

    for at in range(first, 10_000, step):
        found = strike(at)
        if at >= found.disk.count:
            assert found.error is None
            if found.disk.count and (last := found.disk.count - 1) % step != first:
                yield strike(last)
            yield found
            return
        yield found
    raise AssertionError("it never ends")


def killed_at(
    step: int, folder: Path, prepare: Callable[[Path], object], run: Callable[[Path, Any], object]
) -> Iterator[Path]:
    """The directories of `struck`: in all but the last one ``run`` was killed."""
    return (found.directory for found in struck(step, folder, prepare, run))
