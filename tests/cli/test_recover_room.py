"""Room on the disk: what ``kseg recover`` and ``kseg reindex`` say that they need is what they take at their peak."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recovery.damages import Segments, read, write

from kseg.changes.disk import Disk

from .command import TESTDATA, Kseg

PLAIN = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
OWN_FILES = ("manifest", ".kseg-change-", ".kseg-new-", ".lock")
WRITES = ("write", "copy_range", "clone", "truncate", "link", "rename", "unlink")


def cut(segments: Segments) -> None:
    segments[76][1] = segments[76][1][:40]


def flip(segments: Segments) -> None:
    chunk = segments[46][1]
    segments[46][1] = chunk[:80] + bytes([chunk[80] ^ 1]) + chunk[81:]


def flip_many(segments: Segments) -> None:
    for chunks in segments.values():
        chunks[1] = chunks[1][:80] + bytes([chunks[1][80] ^ 1]) + chunks[1][81:]


def lose(segments: Segments) -> None:
    del segments[46][:3]


def nothing(_segments: Segments) -> None:
    """The indexes go instead."""


def taken(place: Path) -> int:
    """Bytes of all files below, each once however many names it has, without what kseg notes of its own work."""
    sizes: dict[int, int] = {}
    for folder, _, names in os.walk(place):
        for name in names:
            if name.startswith(OWN_FILES):
                continue
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def size(count: int) -> str:
    return f"{count} B" if count < 1024 else f"{count / 1024:.1f} KiB"


class Meter:
    """The most that files below a place take, looked at after each call that can change it."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.before = place, taken(place)
        self.peak = self.before
        for name in WRITES:
            monkeypatch.setattr(Disk, name, self._measured(getattr(Disk, name)))

    def _measured(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def method(disk: Disk, *arguments: Any, **named: Any) -> Any:
            result = real(disk, *arguments, **named)
            self.peak = max(self.peak, taken(self.place))
            return result

        return method


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(
    ("arguments", "damage"),
    [
        (["recover"], cut),
        (["recover", "--mode", "salvage"], flip),
        (["recover", "--mode", "salvage"], flip_many),
        (["recover", "--from-replica", PLAIN], lose),
        (["reindex"], nothing),
    ],
)
def test_the_room_that_is_told_is_the_peak(
    kseg: Kseg,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[object],
    damage: Callable[[Segments], None],
    keeps: bool,
) -> None:
    place = tmp_path / "logs"
    partition = Path(shutil.copytree(PLAIN, place / PLAIN.name))
    segments = read(partition)
    damage(segments)
    write(partition, segments)
    if damage is nothing:
        for path in partition.glob("*index"):
            path.write_bytes(b"\0" * 12)
    command = [*arguments, *([] if keeps else ["--no-quarantine"]), partition]
    [told] = [row["peakBytes"] for row in kseg(*command, "-n", "--format", "json").of_type("summary")]
    shown = " ".join(kseg(*command, "-n").out.decode().split())
    assert re.findall(r"room needed: ([0-9.]+ \w+)", shown) == [size(told)]
    meter = Meter(place, monkeypatch)
    kseg(*command)
    assert meter.peak - meter.before == told


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("mode", ["broker", "salvage"])
def test_the_room_for_several_partitions(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, keeps: bool
) -> None:
    """What one of them keeps is still there when the next one is changed."""
    place = tmp_path / "logs"
    for i in range(3):
        partition = Path(shutil.copytree(PLAIN, place / f"dplain-{i}"))
        segments = read(partition)
        flip(segments)
        write(partition, segments)
    command = ["recover", "--full", "--mode", mode, *([] if keeps else ["--no-quarantine"]), place]
    [told] = [row["peakBytes"] for row in kseg(*command, "-n", "--format", "json").of_type("summary")]
    assert f"room needed: {size(told)}\n" in kseg(*command, "-n").err
    meter = Meter(place, monkeypatch)
    kseg(*command)
    assert meter.peak - meter.before == told
