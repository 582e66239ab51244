"""The marker of a clean stop, which tells a broker to trust logs and indexes: it stays where only indexes are made."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

MARKER, INDEX = ".kafka_cleanshutdown", "00000000000000000046.index"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory that was closed cleanly, in which one index is wrong and one is missing."""
    path = tmp_path / "logs"
    shutil.copytree(TESTDATA / "log-directories/4.3.1/logs", path)
    (path / MARKER).write_bytes(b'{"version":0,"brokerEpoch":7}')
    (path / "dplain-0" / INDEX).write_bytes(bytes(8))
    (path / "dplain-0" / INDEX.replace(".index", ".timeindex")).unlink()
    return path


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("options", [[], ["--snapshots"]])
def test_reindex_keeps_it(kseg: Kseg, logs: Path, alone: bool, options: list[str]) -> None:
    path = logs / "dplain-0" if alone else logs
    dry = kseg("reindex", "-n", *options, path)
    assert (dry.status, MARKER in dry.out.decode()) == (1, False)
    done = kseg("reindex", *options, path)
    assert (done.status, MARKER in done.out.decode()) == (0, False)
    assert (logs / MARKER).exists()
    assert len((logs / "dplain-0" / INDEX).read_bytes()) > 8
    assert kseg("verify", "--fail-on", "warning", logs).status == 0
    assert kseg("undo", path).status == 0
    assert (logs / "dplain-0" / INDEX).read_bytes() == bytes(8)


def test_recover_removes_it_where_a_log_changes(kseg: Kseg, logs: Path) -> None:
    with (logs / "dplain-0" / "00000000000000000116.log").open("ab") as out:
        out.write(b"\0" * 10)
    assert kseg("recover", "--full", logs).status == 0
    assert not (logs / MARKER).exists()


def test_a_change_of_one_partition_is_told_as_one(kseg: Kseg, logs: Path) -> None:
    assert kseg("reindex", logs).status == 0
    assert "reindex, 1 partition\n" in kseg("undo", "--list", logs).out.decode()
