"""Disk space: what ``kseg recover`` and ``kseg reindex`` say that they need is what they take at their peak."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import PLAIN, Kseg, Outcome
from conditions import with_free_bytes
from kseg.changes.disk import Disk
from kseg.changes.quarantine import read_change
from recovery.damages import Segments, read, write

OWN_FILES = ("manifest", "recipe-", ".kseg-change-", ".kseg-new-", ".lock")
WRITES = ("write", "copy_range", "clone", "truncate", "link", "rename", "unlink")


def cut(segments: Segments) -> None:
    segments[76][1] = segments[76][1][:40]


def flip(segments: Segments) -> None:
    chunk = segments[46][1]
    segments[46][1] = chunk[:80] + bytes([chunk[80] ^ 1]) + chunk[81:]


def flip_many(segments: Segments) -> None:
    for chunks in segments.values():
        chunks[1] = chunks[1][:80] + bytes([chunks[1][80] ^ 1]) + chunks[1][81:]


def flip_many_and_move(segments: Segments) -> None:
    """A batch of the second segment lies in the first, too."""
    flip_many(segments)
    segments[0].insert(3, segments[46].pop(3))


def move_all(segments: Segments) -> None:
    """What the second segment is to hold lies in the others."""
    batches = segments[46]
    segments[0][2:2] = batches[:4]
    segments[76][5:5] = batches[4:]
    segments[46] = segments[116][:1]
    del segments[116][:1]


def lose(segments: Segments) -> None:
    del segments[46][:3]


def lose_many(segments: Segments) -> None:
    for chunks in segments.values():
        del chunks[2:4]


def nothing(_segments: Segments) -> None:
    """The indexes go instead."""


def harmed(folder: Path, harm: Callable[[Segments], None], name: str = PLAIN.name) -> Path:
    """A copy of the partition whose segments have taken harm."""
    partition = Path(shutil.copytree(PLAIN, folder / name))
    segments = read(partition)
    harm(segments)
    write(partition, segments)
    return partition


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


@pytest.mark.sampled(7)
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(
    ("arguments", "damage"),
    [
        (["recover"], cut),
        (["recover", "--mode", "salvage"], flip),
        (["recover", "--mode", "salvage"], flip_many),
        (["recover", "--mode", "salvage"], flip_many_and_move),
        (["recover", "--mode", "salvage"], move_all),
        (["recover", "--from-replica", PLAIN], lose),
        (["recover", "--from-replica", PLAIN], lose_many),
        (["reindex"], nothing),
    ],
)
def test_the_printed_space_is_the_peak(
    kseg: Kseg,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[object],
    damage: Callable[[Segments], None],
    keeps: bool,
) -> None:
    place = tmp_path / "logs"
    partition = harmed(place, damage)
    if damage is nothing:
        for path in partition.glob("*index"):
            path.write_bytes(b"\0" * 12)
    command = [*arguments, *([] if keeps else ["--no-quarantine"]), partition]
    [told] = [row["peakBytes"] for row in kseg(*command, "-n", "--format", "json").of_type("summary")]
    shown = " ".join(kseg(*command, "-n").out.decode().split())
    assert re.findall(r"disk space needed: ([0-9.]+ \w+)", shown) == [size(told)]
    meter = Meter(place, monkeypatch)
    kseg(*command)
    assert meter.peak - meter.before == told


def test_segments_that_are_remade_take_one_of_them(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "logs"
    segments = read(PLAIN)
    broken, moved = sum(len(chunks[1]) for chunks in segments.values()), len(segments[46][3])
    partition = harmed(place, flip_many_and_move)
    before = everything(partition)
    meter = Meter(place, monkeypatch)
    kseg("recover", "--mode", "salvage", partition)
    side_files = sum(path.stat().st_size for path in partition.iterdir() if path.is_file() and path.suffix != ".log")
    largest = max(path.stat().st_size for path in partition.glob("*.log"))
    assert meter.peak - meter.before <= broken + moved + largest + side_files
    assert taken(place) - meter.before <= moved + side_files
    logs = [k for k, step in enumerate(read_change(str(partition), 1).steps) if step.file.endswith(".log")]
    kept = [partition / f".kseg-quarantine/1/old/{k}" for k in logs]
    assert sum(path.stat().st_size for path in kept) == broken + moved
    [listed] = kseg("undo", "--list", "--format", "json", partition).of_type("change")
    assert listed["keptBytes"] == sum(path.stat().st_size for path in partition.glob(".kseg-quarantine/1/old/*"))
    peak = Meter(place, monkeypatch)
    [told] = [row["peakBytes"] for row in kseg("undo", partition, "-n", "--format", "json").of_type("summary")]
    assert kseg("undo", partition).status == 0
    assert peak.peak - peak.before == told
    assert told <= broken + moved + max(len(content) for content, *_ in before.values())
    assert everything(partition) == before


def everything(partition: Path) -> dict[str, tuple[bytes, int, int]]:
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
        for path in partition.iterdir()
        if path.is_file()
    }


@pytest.mark.parametrize("options", [(), ("--no-quarantine",)])
def test_too_small_a_disk_is_reported_before_anything_changes(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Logs are written, so the record of the change needs space, too, whether or not removed bytes are kept."""
    partition = harmed(tmp_path / "logs", flip_many_and_move)
    before = everything(partition)
    words = ("recover", "--mode", "salvage", *options, partition)
    [told] = [row["peakBytes"] for row in kseg(*words, "-n", "--format", "json").of_type("summary")]
    real = os.statvfs

    def run(free: int) -> Outcome:
        with monkeypatch.context() as patch:
            patch.setattr(os, "statvfs", lambda path: with_free_bytes(real(path), free))
            return kseg(*words)

    def refused(free: int) -> int:
        """Returns the bytes that are said to be needed."""
        done = run(free)
        done.expect(3, "nothing was changed")
        [needed] = map(int, re.findall(r"([0-9]+) bytes of disk space are needed", done.err))
        assert f"{free} bytes are free: {needed - free} bytes have to be freed first" in done.err
        assert "without them it works" not in done.err
        assert everything(partition) == before
        return needed

    needed = refused(told)
    assert told < needed == refused(0) == refused(needed - 1)
    run(needed).expect(0)
    assert everything(partition) != before


@pytest.mark.sampled(5)
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(("mode", "jobs"), [("broker", 1), ("broker", 2), ("salvage", 2)])
def test_the_space_for_several_partitions(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, jobs: int, keeps: bool
) -> None:
    """What one of them keeps is still there when the next one is changed."""
    place = tmp_path / "logs"
    for i in range(3):
        harmed(place, flip, f"dplain-{i}")
    command = ["recover", "--full", "--mode", mode, "--jobs", jobs, *([] if keeps else ["--no-quarantine"]), place]
    [told] = [row["peakBytes"] for row in kseg(*command, "-n", "--format", "json").of_type("summary")]
    assert f"disk space needed: {size(told)}\n" in kseg(*command, "-n").err
    meter = Meter(place, monkeypatch)
    kseg(*command)
    if (mode, jobs) == ("broker", 2):  # who comes first is not known
        assert meter.peak - meter.before <= told
    else:
        assert meter.peak - meter.before == told
