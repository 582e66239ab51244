"""Committed offsets and open transactions of the nodes of one cluster: one copy tells what another one lacks."""

import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cli.command import Kseg
from segment.segments import TESTDATA
from verification.log_directories import OTHER_ID, edited

COMMITS = TESTDATA / "damaged" / "findings" / "commit-beyond-end" / "logs"
KILLED = TESTDATA / "log-directories" / "4.3.1-rounds" / "kill"
STATES = TESTDATA / "verify" / "4.3.1-transactional-ids" / "__transaction_state-0"
OTHER_STATES = TESTDATA / "kafka-4.4.0" / "internal" / "__transaction_state-0"
NODE_2 = {"node_id": "2", "directory_id": OTHER_ID}
LONGER = TESTDATA / "damaged" / "findings" / "leader-copy-behind" / "cluster" / "node1" / "d-0"


def found(kseg: Kseg, code: str, *paths: Path) -> list[dict[str, Any]]:
    rows = kseg("verify", "--level", "deep", "--format", "json", "--now", "1799000000000", *paths).of_type("finding")
    return [row for row in rows if row["code"] == code]


def two_of(logs: Path, target: Path) -> tuple[Path, Path]:
    one, two = (Path(shutil.copytree(logs, target / name)) for name in ("node1", "node2"))
    return one, edited(two, **NODE_2)


def test_an_archive_tells_the_same_of_transactions(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(KILLED, tmp_path / "logs"))
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        archive.add(logs, "logs")
    there, here = (found(kseg, "open-transaction", path) for path in (tmp_path / "logs.tar", logs))
    assert [(row["message"], row["details"]) for row in there] == [(row["message"], row["details"]) for row in here]


def test_a_commit_is_beyond_the_end_of_every_copy(kseg: Kseg, tmp_path: Path) -> None:
    one, two = two_of(COMMITS, tmp_path)
    assert [row["message"].partition(";")[0] for row in found(kseg, "commit-beyond-end", one)] == [
        "the log ends at 116"
    ]
    (both,) = found(kseg, "commit-beyond-end", one, two)
    assert both["message"].startswith("no copy of 2 ends after 116; committed offsets of groups: ")
    (below,) = found(kseg, "commit-below-start", one, two)
    assert below["message"].startswith("no copy of 2 starts before 97")


def test_a_longer_copy_has_what_was_committed(kseg: Kseg, tmp_path: Path) -> None:
    """That of node 2 goes from 0 to 349; the commits lie on node 1 alone."""
    one, two = two_of(COMMITS, tmp_path)
    shutil.rmtree(two / "__consumer_offsets-0")
    for log in (two / "g-in-0").glob("*"):
        if log.name != "partition.metadata":
            log.unlink()
    for file in LONGER.iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, two / "g-in-0")
    assert found(kseg, "commit-beyond-end", one, two) == []
    assert found(kseg, "commit-below-start", one, two) == []
    assert len(found(kseg, "commit-beyond-end", one)) == 1


def test_the_longest_copy_of_the_commits_counts(kseg: Kseg, tmp_path: Path) -> None:
    """Node 2 has only the first commits, none of which is beyond the end."""
    one, two = two_of(COMMITS, tmp_path)
    log = two / "__consumer_offsets-0" / "00000000000000000000.log"
    data = log.read_bytes()
    log.write_bytes(data[: 12 + int.from_bytes(data[8:12], "big")])
    assert found(kseg, "commit-beyond-end", two) == []
    for nodes in ((one, two), (two, one)):
        assert len(found(kseg, "commit-beyond-end", *nodes)) == 1


def with_states(target: Path, states: Path, *numbers: int) -> Path:
    """Node 2, which has these partitions of __transaction_state, and a replica of few-1."""
    node = target / "node2"
    shutil.copytree(KILLED / "few-1", node / "few-1")
    shutil.copy(KILLED / "meta.properties", node)
    for number in numbers:
        shutil.copytree(states, node / f"__transaction_state-{number}")
    return edited(node, **NODE_2)


def test_the_coordinator_of_another_node_names_the_producer(kseg: Kseg, tmp_path: Path) -> None:
    one, two = Path(shutil.copytree(KILLED, tmp_path / "node1")), with_states(tmp_path, STATES, 0)
    alone, together = found(kseg, "open-transaction", one), found(kseg, "open-transaction", one, two)
    assert [row["details"]["transactionalId"] for row in alone] == [None, None]
    assert "tx-txn-2" in [row["details"]["transactionalId"] for row in together]


@pytest.mark.parametrize(
    ("numbers", "is_clean", "is_told"), [((0, 1), True, True), ((0,), True, False), ((0, 1), False, False)]
)
def test_a_transaction_that_no_coordinator_knows_hangs(
    kseg: Kseg, tmp_path: Path, numbers: tuple[int, ...], is_clean: bool, is_told: bool
) -> None:
    """By the metadata __transaction_state has two partitions. In copies of running nodes, or with a partition that is
    not given, another copy may have the producer."""
    one, two = Path(shutil.copytree(KILLED, tmp_path / "node1")), with_states(tmp_path, OTHER_STATES, *numbers)
    for node in (one, two) if is_clean else ():
        (node / ".kafka_cleanshutdown").write_text('{"version":1,"brokerEpoch":5}')
    rows = found(kseg, "open-transaction", one, two)
    assert [row["details"]["verdict"] for row in rows] == (["hanging"] * 2 if is_told else ["open"] * 2)
    told = "hanging: no copy of __transaction_state in the cluster has its producer, so nothing ends it"
    assert all((told in row["message"], bool(row["details"]["abort"])) == (is_told, is_told) for row in rows)
    listed = kseg("transactions", str(one / "txn-0"), str(two)).out.decode()
    assert (told in listed) == is_told


def test_the_marker_may_be_in_a_longer_copy(kseg: Kseg, tmp_path: Path) -> None:
    """The copy of node 2 was taken before the marker: what is open there has ended."""
    one, two = two_of(KILLED, tmp_path)
    last = two / "txn-0" / "00000000000000000435.log"
    data, end, batches = last.read_bytes(), 0, list[tuple[int, int]]()
    while end < len(data):
        size = 12 + int.from_bytes(data[end + 8 : end + 12], "big")
        batches.append((end, int.from_bytes(data[end + 21 : end + 23], "big")))
        end += size
    marker = max(at for at, attributes in batches if attributes & 0x20)
    last.write_bytes(data[:marker])
    alone = {row["offset"]: row for row in found(kseg, "open-transaction", two)}
    both = {row["offset"]: row for row in found(kseg, "open-transaction", one, two) if row["file"].startswith(str(two))}
    (ended,) = alone.keys() - {row["offset"] for row in found(kseg, "open-transaction", one)}
    told = f"its marker is in the copy {one / 'txn-0'}, from which this one is to fetch it"
    assert told not in alone[ended]["message"]
    assert told in both[ended]["message"]
    assert (both[ended]["details"]["verdict"], both[ended]["details"]["abort"]) == ("ending", None)
    assert [told in row["message"] for offset, row in both.items() if offset != ended] == [False] * (len(both) - 1)
    assert told in kseg("transactions", one, two).out.decode()
    for paths, verdicts in (([two], {"open", "hanging"}), ([one, two], {"ending"})):
        rows = kseg("transactions", "--format", "json", *paths).objects
        listed = [row for row in rows if row["file"].startswith(str(two)) and row["firstOffset"] == ended]
        assert {row["verdict"] for row in listed} <= verdicts
        assert listed
