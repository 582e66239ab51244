"""Which repair of damage keeps most, by the metadata and the other copies among the paths of a check."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import LOGS_4_4, Kseg, flip, judged
from kseg.decoders.framed import FramedRecord, framed
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.formats.control import control_record
from kseg.formats.record_batch import KRAFT_VOTERS, build_batch
from segment.segments import sealed, spans
from verification.log_directories import edited

LOG = f"{0:020}.log"
PARTITION, METADATA, OFFSETS = "cmptx-1", "__cluster_metadata-0", 132
TOPIC_ID = "y7w0xMHITqSe0Dcb7oWgag"
END = 222
"""Where the metadata log ends."""
FIRST, MIDDLE = 400, 6000
"""Positions in the first batch of the partition, and in one of the others."""

Nodes = Callable[..., list[Path]]


def append(log: Path, *batches: bytes) -> None:
    with log.open("ab") as file:
        file.write(b"".join(batches))


def ends(log: Path) -> list[int]:
    """Where its batches end."""
    return [at + size for at, size in spans(log.read_bytes())]


def shorten(log: Path, batches: int) -> None:
    """Cuts the last batches off."""
    os.truncate(log, ends(log)[-batches - 1])


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    """The log directories of brokers 1 to 3 of a cluster, which are voters, too, if that is wanted; its newest
    metadata, in each of them, say who is in sync with the partition, and who may lead if nobody is."""

    def make(isr: list[int], elr: list[int], replicas: tuple[int, ...] = (1, 2, 3), are_voters: bool = False) -> Any:
        change = {
            "partitionId": 1, "topicId": TOPIC_ID, "isr": isr, "leader": -2, "replicas": list(replicas),
            "removingReplicas": None, "addingReplicas": None, "leaderRecoveryState": -1,
            "directories": [TOPIC_ID] * len(replicas),
            "eligibleLeaderReplicas": elr, "lastKnownElr": None,
        }  # fmt: skip
        batches = [build_batch(END, 1, 1, [(None, framed(FramedRecord(5, 2, change), CLUSTER_METADATA))])]
        if are_voters:
            voters = [
                {
                    "voterId": number,
                    "voterDirectoryId": f"{'BCD'[number - 1] * 21}A",
                    "endpoints": [{"name": "C", "host": "h", "port": 1}],
                    "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
                }
                for number in (1, 2, 3)
            ]
            batches.append(build_batch(END + 1, 1, 1, [control_record(KRAFT_VOTERS, {"voters": voters})], True))
        found = []
        for number in (1, 2, 3):
            logs = Path(shutil.copytree(LOGS_4_4, tmp_path / f"n{number}"))
            edited(logs, node_id=str(number), directory_id=f"{'BCD'[number - 1] * 21}A")
            append(logs / METADATA / LOG, *batches)
            found.append(logs)
        return found

    return make


def cut(logs: Path, partition: str = PARTITION) -> list[str]:
    return ["kseg", "recover", "--full", f"{logs}/{partition}"]


def salvage(logs: Path) -> list[str]:
    return ["kseg", "recover", "--mode", "salvage", f"{logs}/{PARTITION}"]


def filled(logs: Path, other: Path, partition: str = PARTITION) -> list[str]:
    return ["kseg", "recover", "--from-replica", f"{other}/{partition}", f"{logs}/{partition}"]


@pytest.mark.parametrize(
    ("isr", "elr", "is_cut"),
    [
        ([1, 2], [], True),
        ([2], [], True),
        ([], [2], True),
        ([1], [2], False),
        ([], [1], False),
        ([], [], False),
        ([1], [], False),
    ],
)
def test_replicas_that_may_lead_restore(isr: list[int], elr: list[int], is_cut: bool, nodes: Nodes, kseg: Kseg) -> None:
    logs, *_ = nodes(isr, elr)
    flip(logs / PARTITION / LOG, FIRST)
    errors, following = judged(kseg, logs)
    assert following == [cut(logs) if is_cut else salvage(logs)]
    assert ("--full" in json.dumps(errors)) == is_cut
    (damaged,) = (row for row in errors if row["code"] == "crc-mismatch")
    assert damaged["details"].get("otherRepair") == (salvage(logs) if is_cut else None)


def test_a_copy_that_the_broker_sets_aside_is_not_filled_again(nodes: Nodes, kseg: Kseg) -> None:
    logs, *_ = nodes([2, 3], [], (2, 3))
    flip(logs / PARTITION / LOG, FIRST)
    steps = judged(kseg, logs)[1]  # one is for meta.properties, whose directory.id the test has changed
    assert [step for step in steps if step[-1].endswith(PARTITION)] == [salvage(logs)]


def test_the_newest_metadata_of_those_given_count(nodes: Nodes, kseg: Kseg) -> None:
    logs, other, _ = nodes([1, 2], [])
    change = {"partitionId": 1, "topicId": TOPIC_ID, "isr": [1], "leader": -2, "eligibleLeaderReplicas": None}
    change |= {"replicas": None, "removingReplicas": None, "addingReplicas": None, "leaderRecoveryState": -1}
    change |= {"directories": None, "lastKnownElr": None}
    record = framed(FramedRecord(5, 2, change), CLUSTER_METADATA)
    append(other / METADATA / LOG, build_batch(END + 1, 1, 1, [(None, record)]))
    shutil.rmtree(other / PARTITION)
    flip(logs / PARTITION / LOG, FIRST)
    assert judged(kseg, logs)[1] == [cut(logs)]
    assert salvage(logs) in judged(kseg, logs, other)[1]
    edited(other, cluster_id="another")
    assert cut(logs) in judged(kseg, logs, other)[1]


def test_metadata_that_lack_records_prove_nothing(nodes: Nodes, kseg: Kseg) -> None:
    logs, *_ = nodes([1, 2], [])
    flip(logs / PARTITION / LOG, FIRST)
    flip(logs / METADATA / LOG, ends(logs / METADATA / LOG)[-3] - 2)
    assert salvage(logs) in judged(kseg, logs)[1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_against", [False, True])
@pytest.mark.parametrize(
    ("at", "damage", "expected"),
    [
        (FIRST, None, "fill"),
        (FIRST, lambda log: shorten(log, 1), "fill"),  # it lacks what is behind the damage
        (FIRST, lambda log: flip(log, MIDDLE), "fill"),
        (FIRST, lambda log: flip(log, FIRST), "salvage"),
        (-5, lambda log: shorten(log, 1), "salvage"),
        (-5, None, "fill"),
    ],
)
def test_a_replica_in_sync_that_is_given_must_have_the_range(
    at: int, damage: Callable[[Path], None] | None, expected: str, is_against: bool, nodes: Nodes, kseg: Kseg
) -> None:
    logs, other, _ = nodes([1, 2], [])
    flip(logs / PARTITION / LOG, at)
    if damage is not None:
        damage(other / PARTITION / LOG)
    words = (logs / PARTITION, "--against", other / PARTITION) if is_against else (logs, other)
    following = [argv for argv in judged(kseg, *words)[1] if argv[-1] == f"{logs}/{PARTITION}"]
    if expected == "fill":
        assert following == [filled(logs, other)]
        kseg(*following[0][1:]).expect(0)
        left = {(row["code"], row["file"]) for row in judged(kseg, *words)[0]}
        assert ("leader-copy-behind", f"{logs}/{PARTITION}") not in left
    elif is_against:  # what the comparison itself finds names the other replica, too
        assert cut(logs) not in following
    else:
        assert following == [salvage(logs)]


@pytest.mark.parametrize("number", [0, -2])
def test_nothing_is_cut_where_bytes_were_inserted(number: int, nodes: Nodes, kseg: Kseg) -> None:
    """The copy that was cut would be behind the other one, even if it only lacks the last batch, a marker."""
    logs, other, _ = nodes([1, 2], [])
    log = logs / PARTITION / LOG
    whole, at = log.read_bytes(), ends(log)[number]
    log.write_bytes(whole[:at] + bytes(100) + whole[at:])
    following = [argv for argv in judged(kseg, logs, other)[1] if argv[-1] == f"{logs}/{PARTITION}"]
    assert following == [filled(logs, other)]
    kseg(*following[0][1:]).expect(0)
    assert log.read_bytes() == whole


def test_a_copy_out_of_sync_that_has_the_range_fills_it(nodes: Nodes, kseg: Kseg) -> None:
    logs, short, other = nodes([], [1])
    shorten(short / PARTITION / LOG, 47)
    shorten(other / PARTITION / LOG, 20)
    whole = (logs / PARTITION / LOG).read_bytes()
    flip(logs / PARTITION / LOG, MIDDLE)
    following = [argv for argv in judged(kseg, logs, short, other)[1] if argv[-1] == f"{logs}/{PARTITION}"]
    assert following == [filled(logs, other)]
    kseg(*following[0][1:]).expect(0)
    assert (logs / PARTITION / LOG).read_bytes() == whole


def test_a_copy_with_another_record_is_not_filled(nodes: Nodes, kseg: Kseg) -> None:
    logs, other, _ = nodes([1, 2], [])
    log = logs / PARTITION / LOG
    shorten(log, 1)
    data, first = log.read_bytes(), ends(log)[0]
    log.write_bytes(sealed(data[: first - 5] + b"x" + data[first - 4 : first]) + data[first:])
    log.with_suffix(".index").unlink()
    errors, following = judged(kseg, logs, other)
    assert filled(logs, other) not in following
    (behind,) = (row for row in errors if row["code"] == "leader-copy-behind" and row["file"] == f"{logs}/{PARTITION}")
    against = ["kseg", "verify", "--against", f"{other}/{PARTITION}", f"{logs}/{PARTITION}"]
    assert (behind["needs"], behind["details"]["otherRepair"]) == ("decision", against)
    assert b": error: replicas-diverge: " in kseg(*against[1:]).out


def test_copies_that_part_ways_fill_nothing(nodes: Nodes, kseg: Kseg) -> None:
    logs, other, _ = nodes([], [1])
    log = other / PARTITION / LOG
    data = bytearray(log.read_bytes())
    for start in [0, *ends(log)[:-1]]:
        data[start + 12 : start + 16] = struct.pack(">i", 9)  # no checksum covers the leader epoch
    log.write_bytes(data)
    flip(logs / PARTITION / LOG, MIDDLE)
    assert salvage(logs) in judged(kseg, logs, other)[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("lagging", "damaged", "expected"),
    [
        ([], [], "cut"),
        ([2], [], "fill"),
        ([], [2], "fill"),
        ([2, 3], [], "cut"),  # nobody else has it, so it was not committed
        ([2], [3], "decision"),
    ],
)
def test_needed_voters_stay(lagging: list[int], damaged: list[int], expected: str, nodes: Nodes, kseg: Kseg) -> None:
    three = nodes([1, 2], [], are_voters=True)
    logs, *_ = three
    at = ends(logs / METADATA / LOG)[-4] - 2
    for number, one in enumerate(three, 1):
        if number in lagging:
            shorten(one / METADATA / LOG, 5)
        if number in {1, *damaged}:
            flip(one / METADATA / LOG, at)
    errors, following = judged(kseg, *three)
    mine = [argv for argv in following if argv[-1] == f"{logs}/{METADATA}"]
    named = {"cut": [cut(logs, METADATA)], "fill": [filled(logs, three[2], METADATA)], "decision": []}[expected]
    assert mine == named
    own = [row for row in errors if row["file"].startswith(str(logs)) and row["code"] == "crc-mismatch"]
    assert [row["needs"] for row in own] == ["decision" if expected == "decision" else None]
    if expected == "fill":
        kseg(*mine[0][1:]).expect(0)
        assert [
            (row["code"], row["message"]) for row in judged(kseg, *three)[0] if row["file"].startswith(str(logs))
        ] == []


@pytest.mark.parametrize("number", ["1", "7"])
def test_a_voter_whose_peers_are_not_given_is_cut_as_by_its_start(number: str, nodes: Nodes, kseg: Kseg) -> None:
    """With what is to be heeded then; node 7 is no voter."""
    logs, *_ = nodes([1, 2], [], are_voters=True)
    edited(logs, node_id=number)
    flip(logs / METADATA / LOG, ends(logs / METADATA / LOG)[-4] - 2)
    (logs / METADATA / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 900\n")
    (logs / METADATA / LOG).with_suffix(".timeindex").write_bytes(bytes(12))
    errors, following = judged(kseg, logs)
    mine = [argv for argv in following if argv[-1] == f"{logs}/{METADATA}"]
    assert mine == [cut(logs, METADATA)]
    (damaged,) = (row for row in errors if row["code"] == "crc-mismatch")
    assert (number == "7") is not damaged["message"].endswith(
        "; as a start does, kseg recover --full removes offsets from 220 on, which may be committed: give the log "
        "directories of voters 2, 3, too, or start this node once the others have a leader"
    )


@pytest.mark.parametrize(
    ("isr", "text"), [([1, 3], "is also broker 3"), ([1], "is no other broker"), (None, "salvage would keep them")]
)
def test_a_recovery_says_who_is_in_sync(isr: list[int] | None, text: str, nodes: Nodes, kseg: Kseg) -> None:
    logs, *_ = nodes(isr or [], [])
    if isr is None:
        shutil.rmtree(logs / METADATA)
    flip(logs / PARTITION / LOG, FIRST)
    done = kseg("recover", "--full", "--dry-run", logs / PARTITION)
    (line,) = (line for line in done.err.splitlines() if "--mode salvage would keep them" in line)
    assert line.endswith(text)
