"""A log directory that is written partition by partition, and continued after an interruption."""

import json
import random
from pathlib import Path

import pytest

from changes.power import PowerDisk
from kseg.changes.disk import Disk
from kseg.changes.new_directories import OUTPUT_MARK, OUTPUT_TEXT, RECORD, resumable_output, resumable_store_output
from kseg.errors import KsegError, PathError, StoppedHalfwayError
from kseg.stores.object_urls import Folder, UrlObjects


class KilledError(BaseException):
    """Stands for a kill of the process: nothing is cleaned up that a kill would not let be cleaned up."""


def write(output: Path, names: list[str], request: dict[str, object] | None = None, fail_at: str = "") -> list[str]:
    """Makes partitions, each with one file; returns the names of those that were there already."""
    with resumable_output(str(output), request or {"a": 1}, takes_lock=True) as found:
        there = list(found.done)
        for name in names:
            if name in found.done:
                continue
            with found.partition(name) as folder:
                (Path(folder) / "file").write_text(name)
                if name == fail_at:
                    raise OSError(28, "No space left on device")
                found.finish_partition(name, folder, {"name": name}, {})
        found.write_file("checkpoint", b"0\n0\n")
        found.close()
    return there


def test_a_failure_leaves_what_is_whole_and_the_next_run_goes_on(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with pytest.raises(StoppedHalfwayError, match="repeat the command"):
        write(output, ["a-0", "b-0"], fail_at="b-0")
    assert sorted(path.name for path in output.iterdir()) == [RECORD, ".lock", "a-0"]
    assert write(output, ["a-0", "b-0"]) == ["a-0"]
    assert not (output / RECORD).exists()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("closes", [False, True])
def test_what_is_finished_survives_a_power_cut(closes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(12):
        root = tmp_path / str(seed) / "out"
        root.mkdir(parents=True)
        disk = PowerDisk(root)
        monkeypatch.setattr("kseg.changes.new_directories.Disk", lambda disk=disk: disk)
        with resumable_output(str(root), {}, takes_lock=False) as output:
            with output.partition("a-0") as folder:
                disk.write_file(f"{folder}/0.log", b"records", folder)
                output.finish_partition("a-0", folder, {}, {})
            if closes:
                output.close()
        disk.cut(random.Random(seed))
        assert (root / "a-0" / "0.log").read_bytes() == b"records"
        assert (root / RECORD).exists() is not closes
        if closes:
            assert (root / OUTPUT_MARK).read_bytes() == OUTPUT_TEXT
        else:
            assert json.loads((root / RECORD).read_bytes())["done"] == {"a-0": {}}


def test_a_kill_between_the_record_and_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output, rename = tmp_path / "out", Disk.rename

    def killed(self: Disk, path: str, target: str) -> None:
        if target.endswith("a-0"):
            raise KilledError
        rename(self, path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "rename", killed)
        patch.setattr(Disk, "remove_tree", lambda *_: None)
        with pytest.raises(KilledError):
            write(output, ["a-0"])
    assert (output / ".kseg-a-0.new").exists()
    assert write(output, ["a-0"]) == []
    assert (output / "a-0" / "file").read_text() == "a-0"
    assert not (output / ".kseg-a-0.new").exists()


def test_another_request_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with pytest.raises(StoppedHalfwayError):
        write(output, ["a-0"], fail_at="a-0")
    with pytest.raises(KsegError, match="other options"):
        write(output, ["a-0"], {"a": 2})
    for text in ("{", "[" * 100_000):
        (output / RECORD).write_text(text)
        with pytest.raises(KsegError, match="cannot be read"):
            write(output, ["a-0"])


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for place, reason in (
        (tmp_path, "already exists"),
        (tmp_path / "file", "no directory"),
        (tmp_path / "x/y", "No such"),
    ):
        with pytest.raises(KsegError, match=reason):
            write(place, ["a-0"])
    assert write(tmp_path / "empty", ["a-0"]) == []


def test_the_lock_is_held(tmp_path: Path) -> None:
    with resumable_output(str(tmp_path / "out"), {}, takes_lock=True) as found:
        found.close()
        assert (tmp_path / "out" / ".lock").exists()


def test_the_root_of_a_store_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    listed, folder = list[str](), UrlObjects.folder

    def counted(store: UrlObjects, name: str) -> Folder:
        listed.append(name)
        return folder(store, name)

    monkeypatch.setattr(UrlObjects, "folder", counted)
    store = UrlObjects("memory://resumed/out")
    try:
        for _ in range(2):
            with resumable_store_output(store, "", {"a": 1}):
                assert listed.pop() == ""
            assert not listed
        store.remove(RECORD)
        store.write("a-0/0.log", b"")
        with pytest.raises(PathError, match="already exists"), resumable_store_output(store, "", {"a": 1}):
            pass
        assert listed == [""]
    finally:
        store.remove_folder("")
