"""The lock of a log directory: compatible with Java's, refused if another process holds it."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from changes.holding import held
from kseg.changes import lock
from kseg.changes.lock import directories_to_lock, locked, log_directory_of
from kseg.errors import BrokerRunningError, KsegError

TAKER = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'a+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def check_refused(directory: Path, error: type[KsegError], text: str, is_shared: bool = False) -> None:
    with pytest.raises(error, match=text), locked(str(directory), is_shared=is_shared):
        pytest.fail("it is locked")


def test_a_held_lock_is_refused(tmp_path: Path) -> None:
    with held(tmp_path):
        check_refused(tmp_path, BrokerRunningError, "holds the log directory; nothing was changed")
        with locked(str(tmp_path), is_wanted=False):
            pass
    with locked(str(tmp_path)):
        pass


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="lists the open files")
def test_a_lock_that_is_created_leaves_no_file_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with locked(str(tmp_path)):
        assert len(os.listdir("/proc/self/fd")) == before + 1
    assert len(os.listdir("/proc/self/fd")) == before


def is_free(path: Path) -> bool:
    """Whether another process, such as a broker, could take the lock."""
    taker = [sys.executable, "-c", TAKER, str(path / ".lock")]
    return subprocess.run(taker, capture_output=True, check=False).returncode == 0


def test_threads_exclude_each_other(tmp_path: Path) -> None:
    """The system's locks are those of the process, and closing the file would release them."""
    with locked(str(tmp_path)):
        for is_shared in (False, True):
            text = "this process is changing the log directory already"
            check_refused(tmp_path, BrokerRunningError, text, is_shared)
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_writers_of_new_directories_share_a_lock_that_keeps_others_out(tmp_path: Path) -> None:
    with locked(str(tmp_path), is_shared=True) as first:
        with locked(str(tmp_path), is_shared=True) as second, second.alone():
            pass
        check_refused(tmp_path, BrokerRunningError, "this process is changing the log directory already")
        with first.alone():
            assert not is_free(tmp_path)
    with locked(str(tmp_path)):
        assert not is_free(tmp_path)


def test_a_child_process_holds_no_lock(tmp_path: Path) -> None:
    with locked(str(tmp_path)):
        child = os.fork()
        if not child:
            try:
                with locked(str(tmp_path)):
                    os._exit(1)
            except BrokerRunningError as error:
                os._exit("another kseg" not in str(error))
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_lock_created_by_root_can_be_opened_by_the_broker(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 2345)
    with locked(str(tmp_path)):
        found = (tmp_path / ".lock").stat()
    assert (found.st_uid, found.st_gid) == (1234, 2345)


def test_a_missing_directory_cannot_be_locked(tmp_path: Path) -> None:
    check_refused(tmp_path / "gone", KsegError, "--no-lock goes on without")


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (
            errno.EROFS,
            "nothing can be changed there: mount it for writing, or write the result elsewhere with --output",
        ),
        (errno.ENOSPC, "free some space there first"),
        (errno.EACCES, "run kseg as the owner of the directory; --no-lock goes on without"),
        (errno.ENOLCK, "--no-lock goes on without"),
    ],
)
def test_the_advice_names_the_reason(number: int, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(lock, "_open", failing)
    with pytest.raises(KsegError) as refused, locked(str(tmp_path)):
        pytest.fail("it is locked")
    assert str(refused.value) == f"{tmp_path}/.lock: cannot be locked: {os.strerror(number)} ({hint})"


def test_the_lock_of_a_partition_is_its_log_directorys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other" / "orders-0").mkdir(parents=True)
    (tmp_path / "orders-0").symlink_to(tmp_path / "other" / "orders-0")
    assert log_directory_of(f"{tmp_path}/orders-0/") == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert log_directory_of("orders-0") == str(tmp_path)


def test_a_link_to_a_partition_leads_to_the_lock_around_it_and_to_those_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "other" / "orders-0").mkdir(parents=True)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "orders-0").symlink_to(tmp_path / "other" / "orders-0")
    (tmp_path / "link").symlink_to("logs/orders-0")
    real, beside = str(tmp_path / "other" / "orders-0"), [str(tmp_path / "other")]
    for path in (tmp_path / "link", tmp_path / "logs" / "orders-0", tmp_path / "other" / "orders-0"):
        assert directories_to_lock(str(path), real, is_partition=True) == beside
    (tmp_path / "logs" / ".lock").touch()  # a broker runs, or ran, there
    for path in (tmp_path / "link", tmp_path / "logs" / "orders-0"):
        assert directories_to_lock(str(path), real, is_partition=True) == [*beside, str(tmp_path / "logs")]


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o2775, 0o700])
def test_the_lock_has_the_rights_of_its_directory(mode: int, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs").chmod(mode)
    with locked(str(tmp_path / "logs")):
        assert (tmp_path / "logs" / ".lock").stat().st_mode & 0o7777 == mode & 0o666


def test_a_user_who_cannot_set_the_owner_creates_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1234)
    check_refused(tmp_path, KsegError, "run kseg as the owner of the directory")
    assert not (tmp_path / ".lock").exists()
    (tmp_path / ".lock").touch()
    with locked(str(tmp_path)):
        assert (tmp_path / ".lock").exists()
