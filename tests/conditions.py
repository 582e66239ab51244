"""Conditions of the cases in testdata/damaged/findings that files alone cannot have, by the name in case.json."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failing_disk import PAGE, FailingDisk
from kseg.node import log_directory
from kseg.sidefiles import producer_state
from kseg.stores.source import Source
from kseg.verification import partition


def _shrink(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    """Whatever is opened loses half of its bytes at once."""
    opened = Source.__init__

    def cut_later(source: Source, *arguments: Any, **options: Any) -> None:
        opened(source, *arguments, **options)
        os.truncate(source.path, source.size // 2)

    patch.setattr(Source, "__init__", cut_later)


def _fail_disk(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """The second page of each .log cannot be read."""
    disk = FailingDisk(patch)
    for path in folder.rglob("*.log"):
        disk.fail(path, PAGE, 2 * PAGE)


def _give_away(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    """The log directory belongs to another user than the files and partitions in it."""
    patch.setattr(log_directory, "owner_of", lambda _: (os.getuid() + 1, os.getgid() + 1))


def with_free_bytes(found: os.statvfs_result, free: int) -> os.statvfs_result:
    """The status of a file system with so many bytes left."""
    values = list(found)
    values[1], values[3], values[4] = 1, free, free  # bytes a block, and free blocks
    return os.statvfs_result(values)


def _fill(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    status = os.statvfs
    patch.setattr(os, "statvfs", lambda path: with_free_bytes(status(path), 4096))


CONDITIONS: dict[str, Callable[[pytest.MonkeyPatch, Path], None]] = {
    "file-shrinks": _shrink,
    "disk-fails": _fail_disk,
    "of-another-owner": _give_away,
    "disk-is-full": _fill,
    "segments-are-small": lambda patch, _: patch.setattr(partition, "MAX_SEGMENT_BYTES", 1000),
    "few-are-followed": lambda patch, _: patch.setattr(producer_state, "MAX_PRODUCERS", 16),
}
PASSING = {"file-shrinks"}
"""Those that are over when a check has met them: nobody writes any more when files are repaired."""
