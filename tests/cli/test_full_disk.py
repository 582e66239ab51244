"""Full disks: what frees space needs none, and is completed by the same command after a kill."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from changes.failing import CountingDisk, KillingDisk, every_call
from cli.command import PLAIN, Kseg, files
from cli.dying import on, on_disk, outcome
from cli.test_recover_disk_space import flip, harmed
from conditions import with_free_bytes
from kseg.changes.quarantine import FOLDER, LINK
from retention.partitions import RETENTION
from retention.test_planner import TIME_HALF, TIMES


def expired(target: Path) -> Path:
    (target / "log-start-offset-checkpoint").write_text("0\n1\nother 0 1\n")
    return Path(shutil.copytree(RETENTION / "before" / "r-delrec-0", target / "r-delrec-0"))


def damaged(target: Path) -> Path:
    """A broker's recovery cuts the second of four segments and deletes the later ones."""
    return harmed(target, flip)


def cleaning(target: Path) -> Path:
    """A broker died while its cleaner replaced the first two segments, and then while it wrote the next."""
    partition = Path(shutil.copytree(PLAIN, target / PLAIN.name))
    stems = sorted(path.stem for path in partition.glob("*.log"))
    for path in partition.glob(f"{stems[0]}.*"):
        if path.suffix != ".snapshot":
            shutil.copy2(path, f"{path}.swap")
    shutil.copy2(partition / f"{stems[2]}.log", partition / f"{stems[2]}.log.cleaned")
    (partition / f"{stems[2]}.index.cleaned").write_bytes(bytes(16))
    return partition


def fill(directory: Path, monkeypatch: pytest.MonkeyPatch, free: int = 0) -> None:
    """From now on only so many bytes are free, and what files of the directory give back."""
    size = used(directory) + free

    def statvfs(path: str) -> os.statvfs_result:
        is_full = Path(path).is_relative_to(directory)
        return with_free_bytes(REAL(path), max(size - used(directory), 0)) if is_full else REAL(path)

    monkeypatch.setattr(os, "statvfs", statvfs)


REAL = os.statvfs


def used(directory: Path) -> int:
    found = {path.stat().st_ino: path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file()}
    return sum(found.values())


CASES: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "retain": (expired, ("retain", "--log-start-offset", "60")),
    "retain all": (expired, ("retain", "--policy", "delete", "--retention-ms", "1", "--now", "1900000000000")),
    "recover": (damaged, ("recover", "--full")),
    "recover after a cleaner": (cleaning, ("recover", "--full")),
}


@pytest.mark.sampled(3)
@every_call
@pytest.mark.parametrize("case", CASES)
def test_a_full_disk_and_a_kill_change_nothing_in_the_result(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, step: int
) -> None:
    make, words = CASES[case]
    words = (*words, "--no-quarantine", "-q")

    def made(name: str) -> Path:
        root = folder(tmp_path / name)
        (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')
        return make(root)

    roomy = made("roomy")
    before = outcome(roomy.parent)
    kseg(*words, roomy).expect(0)
    after = outcome(roomy.parent)
    assert after != before
    full = made("full")
    fill(full.parent, monkeypatch)
    disk = CountingDisk()
    on(disk, monkeypatch, *words, full)
    assert outcome(full.parent) == after
    assert [name for name in files(full.parent) if ".kseg-" in name] == []
    for at in range(0, disk.count, step):
        partition = made(str(at))
        fill(partition.parent, monkeypatch)
        on(KillingDisk(at), monkeypatch, *words, partition)
        kseg(*words, partition).expect(0)
        assert outcome(partition.parent) == after, (at, disk.calls[at])
        shutil.rmtree(partition.parent)


@pytest.mark.sampled(8)
@every_call
@pytest.mark.parametrize("case", CASES)
def test_kept_on_another_disk(
    kseg: Kseg, tmp_path: Path, spare: Path, monkeypatch: pytest.MonkeyPatch, case: str, step: int
) -> None:
    """Killed before the record is written, undo takes everything back, and so does the same command before it starts
    anew; undone, everything is as before."""
    make, words = CASES[case]
    roomy = make(folder(tmp_path / "roomy"))
    before = outcome(roomy.parent)
    kseg(*words, "--no-quarantine", "-q", roomy).expect(0)
    after = outcome(roomy.parent)
    words = (*words, "--quarantine", str(spare), "-q")
    full = make(folder(tmp_path / "full"))
    fill(full.parent, monkeypatch, 8192)
    disk = CountingDisk()
    on(disk, monkeypatch, *words, full)
    assert outcome(full.parent) == after
    monkeypatch.undo()
    kseg("undo", "-q", full).expect(0)
    assert outcome(full.parent) == before
    assert list(spare.iterdir()) == []
    for at in range(0, disk.count, step):
        partition = make(folder(tmp_path / str(at)))
        fill(partition.parent, monkeypatch, 8192)
        on(KillingDisk(at), monkeypatch, *words, partition)
        if at % 2:
            monkeypatch.undo()
            has_record = any((partition / FOLDER).glob("[0-9]"))
            if (partition / LINK).is_symlink() and outcome(partition.parent) != before and not has_record:
                assert "before its record" in kseg("verify", partition).out.decode()
                kseg("undo", "--dry-run", partition).expect(1, "would be taken back first")
                kseg("undo", partition).expect(0, "and is taken back")
            kseg("undo", "-q", partition)
            assert outcome(partition.parent) == before, (at, disk.calls[at])
            assert not [*partition.glob(".kseg*"), *spare.rglob("*.json")]
        kseg(*words, partition).expect(0)
        assert outcome(partition.parent) == after, (at, disk.calls[at])
        monkeypatch.undo()
        shutil.rmtree(spare)
        spare.mkdir()


def test_an_undo_of_a_log_directory_undoes_what_was_recorded_too(
    kseg: Kseg, tmp_path: Path, spare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command was killed in its second partition, before that had its record."""
    words = ("retain", "--topic", "*", "--policy", "delete", "--retention-ms", "0", "--now", str(TIMES[0] + 1))
    words = (*words, "--quarantine", str(spare), "-q")

    def killed_at(at: int | None) -> tuple[Path, CountingDisk]:
        disk, logs = KillingDisk(at), folder(tmp_path / str(at))
        for name in ("a-0", "b-0"):
            shutil.copytree(TIME_HALF, logs / name)
        with monkeypatch.context() as patch:
            fill(logs, patch, 8192)
            on(disk, patch, *words, logs)
        return logs, disk

    logs, disk = killed_at(None)
    kseg("undo", "-q", logs).expect(0)
    before = outcome(logs)
    _, begun = (at for at, call in enumerate(disk.calls) if call == "symbolic_link")
    for at in range(begun + 1, begun + 30, 4):
        logs, _ = killed_at(at)
        assert (logs / "b-0" / LINK).is_symlink()
        kseg("undo", logs).expect(0)
        assert outcome(logs) == before


class MountedQuarantine(CountingDisk):
    """The quarantine of the partition is a mount point, which cannot be removed."""

    def remove_directory(self, path: str) -> None:
        if path.endswith(FOLDER):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        super().remove_directory(path)


def test_a_quarantine_that_is_a_mount_point_stays_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = damaged(folder(tmp_path / "logs"))
    before = outcome(partition)
    folder(partition / FOLDER)
    for words in (("recover", "--full"), ("undo",)):
        assert on_disk(MountedQuarantine(), monkeypatch, *words, "-q", partition) == 0
        assert (outcome(partition) == before) == (words == ("undo",))
    assert list((partition / FOLDER).iterdir()) == []


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_without_room_the_working_command_is_named(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = expired(folder(tmp_path / "logs"))
    fill(partition.parent, monkeypatch)
    before = outcome(partition.parent)
    words = ("retain", "--log-start-offset", "60", str(partition))
    told = kseg(*words).expect(3, "nothing was changed", "bytes are free").err
    assert f"kseg {' '.join(words)} --no-quarantine" in map(str.strip, told.splitlines())
    assert outcome(partition.parent) == before
    kseg(*words, "--no-quarantine").expect(0)


def test_a_purge_tells_what_comes_back_now(kseg: Kseg, tmp_path: Path) -> None:
    """A file that retention has renamed to .deleted is still held by that name."""
    partition = expired(folder(tmp_path / "logs"))
    kseg("retain", "-q", "--log-start-offset", "60", partition).expect(0)
    deleted = sum(path.stat().st_size for path in partition.glob("*.deleted"))
    size = sum({path.stat().st_ino: path.stat().st_size for path in partition.rglob("*") if path.is_file()}.values())
    [row] = kseg("undo", "--purge", "--format", "json", partition).objects
    assert row["heldBytes"] == deleted > 0
    left = sum({path.stat().st_ino: path.stat().st_size for path in partition.rglob("*") if path.is_file()}.values())
    assert 0 < row["freedBytes"] <= size - left
