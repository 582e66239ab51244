"""Exit status and summary tell what was done, whatever fails: a call, one partition of several, standard output."""

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from changes.failing import CountingDisk, FailingDisk
from cli.command import CHANGING, LOGS, Kseg, files, flip, spawned
from cli.dying import on_disk, outcome, points
from kseg.segment.files import CLEAN_SHUTDOWN

LOG, INDEX = "00000000000000000116.log", "00000000000000000046.index"
ALL = pytest.mark.parametrize("name", CHANGING)


def make(target: Path, name: str, partitions: int = 1) -> Path:
    """A log directory, with a marker of a clean stop where that keeps no damage from being looked into."""
    shutil.copytree(LOGS, target)
    for number in range(1, partitions):
        shutil.copytree(LOGS / "dplain-0", target / f"dplain-{number}")
    if name in ("recover", "salvage"):
        (target / "recovery-point-offset-checkpoint").write_text("0\n1\ndplain 0 0\n")
        if name == "recover":
            (target / CLEAN_SHUTDOWN).unlink()
    for partition in target.glob("dplain-*"):
        if name in ("recover", "salvage"):
            flip(partition / LOG, -20)
        if name == "reindex":
            (partition / INDEX).unlink()
    return target


@pytest.mark.slow
@ALL
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("whole", [True, False], ids=["log-directory", "partition"])
def test_a_call_that_fails_is_told_as_it_is(
    name: str, number: int, whole: bool, kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:  # fmt: skip
    command, counting = CHANGING[name], CountingDisk()

    def place(directory: Path) -> Path:
        return directory if whole else directory / "dplain-0"

    wanted = make(tmp_path / "whole", name)
    assert on_disk(counting, monkeypatch, *command, place(wanted)) == 0
    statuses = set()
    for at in points(len(counting.calls), 25):
        logs = make(tmp_path / "logs", name)
        before = files(logs)
        capfdbinary.readouterr()
        status = on_disk(FailingDisk(at, number), monkeypatch, *command, place(logs))
        err = capfdbinary.readouterr().err.decode()
        statuses.add(status)
        if status == 3:
            assert outcome(logs) == {k: v for k, v in before.items() if ".kseg-" not in k}, (at, err)
        if status:
            assert status in (3, 4), (at, err)
            assert "kseg: done" not in err, (at, err)
            assert kseg(*command, place(logs)).status == 0, (at, err)
        assert outcome(logs) == outcome(wanted), (at, err)
        shutil.rmtree(logs)
    assert 3 in statuses


def test_json_tells_whether_anything_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    command, counting, seen = (*CHANGING["convert"], "--format", "json"), CountingDisk(), set()
    assert on_disk(counting, monkeypatch, *command, make(tmp_path / "whole", "convert")) == 0
    for at in points(len(counting.calls), 12):
        logs = make(tmp_path / "logs", "convert")
        before = outcome(logs)
        capfdbinary.readouterr()
        status = on_disk(FailingDisk(at, errno.EIO), monkeypatch, *command, logs)
        summary = json.loads(capfdbinary.readouterr().out.splitlines()[-1])
        seen.add(status)
        assert summary["changed"] is (status in (0, 4)), at
        assert summary["changed"] or outcome(logs) == before, at
        shutil.rmtree(logs)
    assert {3, 4} <= seen


class FailingIn(CountingDisk):
    """Makes no folder below one of the partitions."""

    def __init__(self, partition: str) -> None:
        super().__init__()
        self._partition = partition

    def make_directory(self, path: str) -> None:
        if f"/{self._partition}/" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        super().make_directory(path)


@pytest.mark.sampled(4)
@ALL
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_of_several_partitions_the_others_are_done(
    name: str, failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    wanted = make(tmp_path / "whole", name, 3)
    assert on_disk(CountingDisk(), monkeypatch, *CHANGING[name], wanted) == 0
    logs = make(tmp_path / "logs", name, 3)
    before, after = files(logs), outcome(wanted)
    capfdbinary.readouterr()
    disk = FailingIn(f"dplain-{failing}")
    assert on_disk(disk, monkeypatch, *CHANGING[name], logs) == 3
    err = capfdbinary.readouterr().err.decode()
    assert f"/dplain-{failing}" in err
    assert "Input/output error" in err
    assert "kseg: partly done: " in err
    found = outcome(logs)
    for number in range(3):
        inside = f"dplain-{number}/"
        expected = before if number == failing else after
        assert {k: v for k, v in found.items() if k.startswith(inside)} == {
            k: v for k, v in expected.items() if k.startswith(inside)
        }


def test_a_path_that_fails_is_not_counted_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    parts = sorted(make(tmp_path / "logs", "recover", 3).glob("dplain-*"))
    assert on_disk(FailingIn("dplain-0"), monkeypatch, *CHANGING["recover"], *parts) == 3
    assert b" in 2 directories" in (err := capfdbinary.readouterr().err)
    assert b"; not done: " in err


@pytest.mark.sampled(3)
@ALL
def test_a_failed_one_is_repeated(name: str, kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated, the command does what is left: checkpoints beside the partitions do not say that it is done."""
    wanted = make(tmp_path / "whole", name, 3)
    assert on_disk(CountingDisk(), monkeypatch, *CHANGING[name], wanted) == 0
    logs = make(tmp_path / "logs", name, 3)
    assert on_disk(FailingIn("dplain-1"), monkeypatch, *CHANGING[name], logs) == 3
    assert kseg(*CHANGING[name], logs).status == 0
    assert in_any_order(outcome(logs)) == in_any_order(outcome(wanted))


def in_any_order(files: dict[str, bytes]) -> dict[str, object]:
    """Lines of checkpoints come in the order in which partitions were done."""
    return {name: sorted(data.splitlines()) if name.endswith("-checkpoint") else data for name, data in files.items()}


def run_into(stdout: int, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return spawned(*arguments, capture_output=False, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.mark.sampled(4)
@ALL
@pytest.mark.parametrize("where", ["pipe", "full"])
def test_what_prints_the_report_going_away_changes_nothing(name: str, where: str, kseg: Kseg, tmp_path: Path) -> None:
    wanted, logs = make(tmp_path / "whole", name), make(tmp_path / "logs", name)
    assert kseg(*CHANGING[name], wanted).status == 0
    if where == "pipe":
        source, target = os.pipe()
        os.close(source)
    elif not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here")
    else:
        target = os.open("/dev/full", os.O_WRONLY)
    done = run_into(target, *CHANGING[name], logs)
    os.close(target)
    assert done.returncode == 0
    assert outcome(logs) == outcome(wanted)
    reason = "Broken pipe" if where == "pipe" else "No space left on device"
    assert f"kseg: the report could not be delivered: standard output: {reason}\n" in done.stderr


@pytest.mark.sampled(3)
@ALL
def test_a_dry_run_into_a_closed_pipe_ends_silently(name: str, tmp_path: Path) -> None:
    logs = make(tmp_path / "logs", name)
    source, target = os.pipe()
    os.close(source)
    done = run_into(target, *CHANGING[name], "--dry-run", logs)
    os.close(target)
    assert done.returncode == 0
    assert "report" not in done.stderr


@pytest.mark.parametrize("step", [11, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_while_files_are_staged_leaves_everything_as_it_was(
    name: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    import signal

    from kseg.signals import Terminated

    ending = signal.Signals[name]

    class Ending(CountingDisk):
        def strike(self, name: str, number: int) -> None:
            if number == self.at:
                raise KeyboardInterrupt if ending == signal.SIGINT else Terminated(ending)

    for command in ("recover", "convert"):
        arguments, counting = (*CHANGING[command], "--jobs", "1"), CountingDisk()
        wanted = make(tmp_path / f"whole-{command}", command)
        on_disk(counting, monkeypatch, *arguments, wanted)
        committed = counting.calls.index("rename", counting.calls.index("link"))
        for at in sorted({*range(0, committed, step), committed - 1}):
            logs = make(tmp_path / "logs", command)
            before = files(logs)
            capfdbinary.readouterr()
            assert on_disk(Ending(at), monkeypatch, *arguments, logs) == 128 + ending
            assert capfdbinary.readouterr().err
            assert files(logs) == before, at
            shutil.rmtree(logs)
