"""System calls that a file system or its rules refuse: which refusals `Disk` works around, and which it reports."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.changes import disk as disk_module
from kseg.changes.apply import Keeping, apply
from kseg.changes.disk import Disk, stored_end
from kseg.changes.plan import Plan
from kseg.stores.no_follow import open_to_copy

KIB = 1 << 10
DATA = bytes(range(256)) * 40


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def copied(source: Path, position: int, length: int, target: Path) -> bytes:
    """What `Disk.copy_range` appends to a file that holds "x"."""
    target.write_bytes(b"x")
    found = open_to_copy(str(source))
    descriptor = os.open(target, os.O_RDWR)
    try:
        Disk().copy_range(found, position, length, descriptor)
    finally:
        os.close(descriptor)
        found.close()
    return target.read_bytes()


@pytest.mark.parametrize("call, at_most", [("open", 2), ("fstat", 1), ("stat", 1), ("readlink", 0)])
def test_calls_for_each_replaced_file(call: str, at_most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, count, calls, real = Plan(str(tmp_path)), 100, 0, getattr(os, call)
    for number in range(count):
        (tmp_path / f"{number:020}.index").write_bytes(DATA)
        plan.write(f"{number:020}.index", [b""], "is empty now")

    def counting(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return real(*arguments, **named)

    monkeypatch.setattr(os, call, counting)
    monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, counting})
    apply(plan, "test", Keeping(keeps=False))
    assert calls < (at_most + 1) * count


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, errno.EPERM, errno.EIO])
def test_bytes_are_copied_without_copy_file_range(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "copy_file_range", failing(number), raising=False)
    monkeypatch.setattr(disk_module, "_COPY_BYTES", 100)
    (tmp_path / "a").write_bytes(DATA)
    if number == errno.EIO:
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            copied(tmp_path / "a", 0, 10, tmp_path / "b")
        return
    assert copied(tmp_path / "a", 7, 1001, tmp_path / "b") == b"x" + DATA[7:1008]


def test_a_copy_of_more_than_there_is_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    assert copied(tmp_path / "a", 0, len(DATA), tmp_path / "b") == b"x" + DATA
    with pytest.raises(OSError, match="shorter than it was"):
        copied(tmp_path / "a", 1, len(DATA), tmp_path / "b")


def test_a_hole_stays_a_hole(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    with source.open("wb") as file:
        file.write(b"begin")
        file.truncate(1 << 20)
    assert copied(source, 0, 1 << 20, target) == b"x" + source.read_bytes()
    for path, begin in ((source, 5), (target, 6)):
        with path.open("rb") as file:
            end = stored_end(file.fileno(), os.fstat(file.fileno()).st_size)
        assert begin <= end < 64 * KIB


@pytest.mark.parametrize(
    "number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EACCES, errno.EIO]
)
def test_a_link_that_is_refused_is_a_copy(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(DATA)
    (tmp_path / "a").chmod(0o640)
    os.utime(tmp_path / "a", ns=(5, 7_000_000_000))
    monkeypatch.setattr(os, "link", failing(number))
    if number in (errno.EACCES, errno.EIO):
        with pytest.raises(OSError, match=os.strerror(number)):
            Disk().link_or_copy(str(tmp_path / "a"), str(tmp_path / "b"))
        return
    Disk().link_or_copy(str(tmp_path / "a"), str(tmp_path / "b"))
    status = (tmp_path / "b").stat()
    assert (tmp_path / "b").read_bytes() == DATA
    assert (stat.S_IMODE(status.st_mode), status.st_mtime_ns, status.st_nlink) == (0o640, 7_000_000_000, 1)


def test_only_a_clone_is_not_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(DATA)
    for clones in (False, True):
        monkeypatch.setattr(Disk, "clone", lambda *_, clones=clones: clones)
        assert Disk().copy_file(str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path), only_clone=True) == clones
        assert (tmp_path / "b").exists() == clones


def of_owner(monkeypatch: pytest.MonkeyPatch, path: Path, user: int, group: int) -> None:
    """Makes a path appear as a file of another user and group."""
    real = disk_module.status_of

    def status_of(name: str) -> os.stat_result:
        found = real(name)
        if name != str(path):
            return found
        fields = list(found)
        fields[stat.ST_UID], fields[stat.ST_GID] = user, group
        return os.stat_result(fields)

    monkeypatch.setattr(disk_module, "status_of", status_of)


@pytest.mark.parametrize("is_other_user", [False, True])
def test_a_user_must_be_set_but_no_group(is_other_user: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = tmp_path / "model", tmp_path / "made"
    model.write_bytes(b"")
    model.chmod(0o640)
    made.write_bytes(b"")
    of_owner(monkeypatch, model, os.getuid() + is_other_user, os.getgid() + 1)
    monkeypatch.setattr(os, "fchown", failing(errno.EPERM))
    if is_other_user:
        with pytest.raises(PermissionError):
            Disk().copy_owner(str(made), str(model))
    else:
        Disk().copy_owner(str(made), str(model))
    assert stat.S_IMODE(made.stat().st_mode) == 0o640


def test_a_copy_gets_at_least_the_owner_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(DATA)
    source.chmod(0o600)
    of_owner(monkeypatch, source, os.getuid() + 1, os.getgid())
    monkeypatch.setattr(os, "fchown", failing(errno.EPERM))
    assert Disk().copy_file(str(source), str(target), str(tmp_path))
    assert (target.read_bytes(), target.stat().st_uid) == (DATA, os.getuid())
    with pytest.raises(PermissionError):
        Disk().copy_file(str(source), str(tmp_path / "c"), None)


@pytest.mark.parametrize(("mode", "owner"), [(0o644, "folder"), (0o640, "file")])
def test_owners_of_public_files(mode: int, owner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a broker, which runs as another user than the owner of the model, can open and remove it."""
    model, made = tmp_path / "model", tmp_path / "made"
    model.write_bytes(b"")
    model.chmod(mode)
    made.write_bytes(b"")
    given = list[tuple[int, int]]()
    of_owner(monkeypatch, model, os.getuid() + 1, os.getgid() + 1)
    monkeypatch.setattr(os, "fchown", lambda _, user, group: given.append((user, group)))
    Disk().copy_owner(str(made), str(model))
    assert given == ([(os.getuid() + 1, os.getgid() + 1)] if owner == "file" else [])


def test_a_file_with_another_name_gets_no_other_owner(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "a").chmod(0o600)
    os.link(tmp_path / "a", tmp_path / "b")
    with pytest.raises(OSError, match="has another name"):
        Disk().copy_owner(str(tmp_path / "a"), str(tmp_path))
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600


@pytest.mark.parametrize(("number", "is_ignored"), [(errno.EPERM, True), (errno.ENOTSUP, True), (errno.EIO, False)])
@pytest.mark.skipif(not hasattr(os, "listxattr"), reason="this system has no extended attributes")
def test_refused_attributes(number: int, is_ignored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["user.first", "security.capability", "user.second", "system.posix_acl_access"]
    given = dict[str, bytes]()

    def set_one(_: int, name: str, value: bytes) -> None:
        if name == "user.first":
            raise OSError(number, os.strerror(number))
        given[name] = value

    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setattr(os, "listxattr", lambda _, **_named: names)
    monkeypatch.setattr(os, "getxattr", lambda _, name, **_named: name.encode())
    monkeypatch.setattr(os, "setxattr", set_one)
    if is_ignored:
        Disk().copy_attributes(str(tmp_path / "a"), str(tmp_path / "b"))
        assert given == {name: name.encode() for name in ("user.second", "system.posix_acl_access")}
        monkeypatch.setattr(os, "listxattr", failing(number))
        Disk().copy_attributes(str(tmp_path / "a"), str(tmp_path / "b"))
        return
    with pytest.raises(OSError, match=os.strerror(number)):
        Disk().copy_attributes(str(tmp_path / "a"), str(tmp_path / "b"))


def test_links_in_a_folder_are_removed_and_not_followed(tmp_path: Path) -> None:
    kept, removed = tmp_path / "kept", tmp_path / "removed"
    kept.mkdir()
    (kept / "file").write_bytes(DATA)
    (removed / "inner").mkdir(parents=True)
    (removed / "inner" / "link").symlink_to(kept, target_is_directory=True)
    Disk().remove_tree(str(removed))
    assert not removed.exists()
    assert (kept / "file").read_bytes() == DATA


@pytest.mark.parametrize("depth", [4, 5])
def test_a_folder_that_is_too_deep_for_one_of_kseg_stays(depth: int, tmp_path: Path) -> None:
    path = tmp_path.joinpath("top", *"abcd"[: depth - 1])
    path.mkdir(parents=True)
    if depth == 4:
        Disk().remove_tree(str(tmp_path / "top"))
        assert not (tmp_path / "top").exists()
        return
    with pytest.raises(OSError, match="holds more directories"):
        Disk().remove_tree(str(tmp_path / "top"))
    assert path.exists()


def test_of_a_mode_only_reading_and_writing_is_restored(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    with path.open("rb") as file:
        Disk().restore(file.fileno(), 0o4775, 3_000_000_000)
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_mtime_ns) == (0o664, 3_000_000_000)


def test_an_output_gets_no_permission_that_the_umask_forbids(tmp_path: Path) -> None:
    model, target = tmp_path / "model", tmp_path / "target"
    for path in (model, target):
        path.touch()
        path.chmod(0o666)
    before = os.umask(0o027)
    try:
        Disk().copy_owner_if_allowed(str(target), str(model))
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are named by /proc")
def test_files_and_directories_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with open(path, "rb") as file:
        Disk().sync(file.fileno())
    Disk().sync_directory(str(tmp_path))
    assert synced == [str(path), str(tmp_path)]


def replace(path: Path, content: bytes) -> None:
    with Disk().replacement(str(path)) as temporary:
        Path(temporary).touch(exist_ok=False)
        Path(temporary).write_bytes(content)


def interrupt(path: Path) -> None:
    with Disk().replacement(str(path)) as temporary:
        Path(temporary).write_bytes(b"half")
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["points", ".hidden"])
def test_a_left_temporary_file_is_removed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        interrupt(path)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(name, b"old")]
    left = tmp_path / f".kseg-new-{name.lstrip('.')}"
    left.write_bytes(b"left by a kill")
    replace(path, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(name, b"new")]
    others = {name, ".kseg-change-1.jsonl", ".kseg-ne", "kseg-new-b"}
    for each in {*others, left.name}:
        (tmp_path / each).touch()
    Disk().remove_temporary_files(str(tmp_path))
    assert {each.name for each in tmp_path.iterdir()} == others
