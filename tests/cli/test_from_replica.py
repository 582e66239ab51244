"""``kseg recover --from-replica`` from the command line."""

import json
import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

REPLICA = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
SECOND = "00000000000000000046.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition that has lost its second segment."""
    path = tmp_path / "logs" / "dplain-0"
    shutil.copytree(REPLICA, path)
    for name in ("00000000000000000046.log", "00000000000000000046.index", "00000000000000000046.timeindex"):
        (path / name).unlink()
    return path


@pytest.mark.parametrize("replica", [REPLICA, REPLICA.parent])
def test_what_is_missing_is_taken(kseg: Kseg, partition: Path, replica: Path) -> None:
    done = kseg("recover", "--from-replica", replica, partition)
    assert done.status == 0
    assert f"offsets 46..75\n           from {REPLICA.resolve()}/{SECOND}\n" in done.out.decode()
    assert (partition / SECOND).read_bytes() == (REPLICA / SECOND).read_bytes()
    assert kseg("verify", "--level", "deep", partition).status == 0
    assert kseg("undo", partition).status == 0
    assert not (partition / SECOND).exists()


def test_a_log_directory_is_filled_from_another(kseg: Kseg, partition: Path) -> None:
    (partition.parent / "meta.properties").write_bytes((REPLICA.parent / "meta.properties").read_bytes())
    shutil.copytree(partition, partition.parent / "orders-0")
    done = kseg("recover", "--from-replica", REPLICA.parent, partition.parent)
    assert done.status == 0
    assert f"orders-0: {REPLICA.parent} has no replica of it" in done.err
    assert (partition / SECOND).exists()
    assert not (partition.parent / "orders-0" / SECOND).exists()


def test_the_plan_as_json(kseg: Kseg, partition: Path) -> None:
    before = sorted(partition.iterdir())
    done = kseg("recover", "--from-replica", REPLICA, "--dry-run", "--format", "json", partition)
    assert done.status == 1
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row for row in rows if row["type"] == "taken"] == [
        {
            "type": "taken", "directory": str(partition), "firstOffset": 46, "lastOffset": 75,
            "from": str(REPLICA.resolve() / SECOND),
        }
    ]  # fmt: skip
    assert sorted(partition.iterdir()) == before


def test_what_is_left_is_told(kseg: Kseg, partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 40\n")
    done = kseg("recover", "--from-replica", REPLICA, "--dry-run", "--format", "json", partition)
    left = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "left"]
    assert [(row["firstOffset"], row["lastOffset"]) for row in left] == [(46, 75)]
    assert left[0]["reason"] == "leader epoch 0, but by leader-epoch-checkpoint epoch 3 began at 40"
    text = kseg("recover", "--from-replica", REPLICA, "--dry-run", partition).out.decode()
    assert "epoch 3 began at 40" in " ".join(text.split())


def test_replicas_that_diverge_are_refused(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    replica = tmp_path / "other" / "dplain-0"
    shutil.copytree(REPLICA, replica)
    path = replica / "00000000000000000116.log"
    data = bytearray(path.read_bytes())
    data[15] = 9  # the leader epoch of the first batch
    path.write_bytes(data)
    before = sorted(partition.iterdir())
    done = kseg("recover", "--from-replica", replica, partition)
    assert done.status == 3
    assert "diverge at offset 116: leader epochs 0 and 9; nothing was changed" in done.err
    assert sorted(partition.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--from-replica", str(REPLICA), "--mode", "broker"], 2),
        (["--from-replica", str(REPLICA), "--mode", "salvage"], 0),
        (["--from-replica", "/no/such/place"], 3),
    ],
)
def test_options(kseg: Kseg, partition: Path, arguments: list[str], status: int) -> None:
    assert kseg("recover", *arguments, partition).status == status


def test_a_relative_path(kseg: Kseg, partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of another file of the partition, and of the replica, are found from anywhere."""
    first, third = partition / "00000000000000000000.log", partition / "00000000000000000076.log"
    whole = first.read_bytes()
    third.write_bytes(whole[:300] + third.read_bytes())
    monkeypatch.chdir(partition.parent)
    assert kseg("recover", "--from-replica", REPLICA, partition.name).status == 0
    assert third.read_bytes() == (REPLICA / third.name).read_bytes()
