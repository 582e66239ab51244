"""What tests of commands that are killed have in common: they run in this process, on a disk that ends it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from changes.failing import CountingDisk, Killed
from cli.command import files
from kseg.changes import apply, journal, quarantine, undo
from kseg.changes.driver import command, undoing
from kseg.cli.main import run
from kseg.erasure import certificate

MODULES = (apply, certificate, journal, command, quarantine, undo, undoing)
"""Modules that write to the disk."""


def outcome(directory: Path) -> dict[str, bytes]:
    """All but the records of what was done, which name times."""
    return {name: data for name, data in files(directory).items() if ".kseg-" not in name}


def on(disk: CountingDisk, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> SystemExit | Killed:
    """Runs a command to its end, or to that which the disk makes."""
    with monkeypatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "Disk", lambda: disk)
        with pytest.raises((SystemExit, Killed)) as ended:
            run([str(argument) for argument in arguments])
        return ended.value


def on_disk(disk: CountingDisk, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Runs a command on a disk that kills no process; its exit status."""
    ended = on(disk, monkeypatch, *arguments)
    assert isinstance(ended, SystemExit)
    assert isinstance(ended.code, int)
    return ended.code


def points(count: int, most: int) -> Iterator[int]:
    """About ``most`` of so many calls."""
    yield from range(0, count, max(1, count // most))
