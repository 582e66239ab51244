"""The lock of a log directory: taken as Java takes it, refused where another process holds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kseg.changes.lock import locked, log_directory_of
from kseg.errors import BrokerRunningError, KsegError

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "a+")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""
TAKER = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'a+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


def test_a_lock_that_is_held_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BrokerRunningError, match="holds the log directory; nothing was changed"):
            with locked(str(tmp_path)):
                pytest.fail("it is locked")
        with locked(str(tmp_path), is_wanted=False):
            pass
        holder.communicate(b"")
    with locked(str(tmp_path)):
        pass


def test_it_is_held_until_the_end(tmp_path: Path) -> None:
    taker = [sys.executable, "-c", TAKER, str(tmp_path / ".lock")]
    with locked(str(tmp_path)):
        assert subprocess.run(taker, capture_output=True, check=False).returncode != 0
    assert subprocess.run(taker, capture_output=True, check=False).returncode == 0
    assert (tmp_path / ".lock").read_bytes() == b""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_lock_of_roots_can_be_opened_by_the_broker(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 2345)
    with locked(str(tmp_path)):
        found = (tmp_path / ".lock").stat()
    assert (found.st_uid, found.st_gid) == (1234, 2345)


def test_a_directory_that_is_not_there_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(KsegError, match="--no-lock goes on without"):
        with locked(str(tmp_path / "gone")):
            pytest.fail("it is locked")


def test_the_lock_of_a_partition_is_that_of_the_directory_it_is_named_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other" / "orders-0").mkdir(parents=True)
    (tmp_path / "orders-0").symlink_to(tmp_path / "other" / "orders-0")
    assert log_directory_of(f"{tmp_path}/orders-0/") == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert log_directory_of("orders-0") == str(tmp_path)
