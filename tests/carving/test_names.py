"""Names of carved logs: given on evidence that decides, else told as candidates."""

import base64
import os
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from carving.images import CLEAN, HAS_EXT4, batch, batches_in, carved, ext4, files_one_by_one, padded, truth_of
from carving.images import image as image
from cli.command import TESTDATA, Kseg
from kseg.carving.names import _Transactions
from kseg.formats.record_batch import build_batch
from kseg.kernel.layout.headers import CONTROL
from segment.segments import sealed

INTERNAL = TESTDATA / "kafka-4.3.1" / "internal"
COMMITTED = TESTDATA / "kafka-4.3.1" / "committed"
STATES = INTERNAL / "__transaction_state-0" / f"{192:020}.log"
TIME = 1_790_000_000_000
# Of STATES: a transaction of producer 2 was prepared and completed with this partition alone between these times.
PRODUCER, PREPARED, COMPLETED, ALONE = 2, 1795253458585, 1795253458599, "txn-compressed-0"
# Another of producer 4, with txn-a-0, txn-a-1 and txn-b-0.
OTHER, OTHERS_MARKER = 4, 1795253458590

Names = dict[str, dict[str, object]]


def names(kseg: Kseg, image: Path, *parts: bytes) -> Names:
    """The evidence by directory of what is carved out of these files."""
    return {os.path.basename(row["directory"]): row["evidence"] for row in carved(kseg, image, *parts)}


def log(start: int, end: int, epoch: int = 0) -> bytes:
    """A log in batches of 100 records, and the rest."""
    return b"".join(batch(at, min(100, end - at), TIME + at, epoch) for at in range(start, end, 100))


def checkpoint(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def dirent(inode: int, name: bytes, kind: int, size: int = 0) -> bytes:
    size = size or (8 + len(name) + 3) // 4 * 4
    return (struct.pack("<IHBB", inode, size, len(name), kind) + name).ljust(size, b"\0")


def ext4_block(inode: int, *entries: tuple[int, bytes, int], size: int = 4096) -> bytes:
    block = dirent(inode, b".", 2) + dirent(2, b"..", 2) + b"".join(dirent(*entry) for entry in entries[:-1])
    return block + dirent(*entries[-1], size - len(block))


def test_an_offset_that_only_one_partition_has_names_the_log_that_ends_there(kseg: Kseg, image: Path) -> None:
    told = checkpoint("orders 3 81237", "audit 1 90441", "clicks 0 40118")
    found = names(kseg, image, log(81_000, 81_237), told)
    assert found["orders-3"] == {
        "name": "checkpoint", "aside": False, "joined": {}, "matched": {"checkpoint": 1}, "candidates": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        (237, ("orders 3 237", "audit 1 441")),  # a small offset
        (80_000, ("orders 3 80000", "audit 1 441")),  # a round one
        (81_237, ("orders 3 81237", "audit 1 81237")),  # of two partitions
    ],
)
def test_an_offset_of_several_logs_gives_a_candidate(kseg: Kseg, image: Path, end: int, lines: tuple[str, ...]) -> None:
    (evidence,) = names(kseg, image, log(end - 200, end), checkpoint(*lines)).values()
    assert evidence["name"] is None
    assert "orders-3" in list(evidence["candidates"])  # type: ignore[call-overload]


def test_the_table_shows_candidates(kseg: Kseg, image: Path) -> None:
    image.write_bytes(padded(log(37, 237)) + checkpoint("orders 3 237", "audit 1 441"))
    shown = kseg("carve", "--dry-run", "--output", image.parent / "out", image)
    assert shown.lines[1].endswith("  orders-3?")


def test_logs_of_the_same_end_get_no_name_by_it(kseg: Kseg, image: Path) -> None:
    other = b"".join(batch(at, 79, TIME + 5, 7) for at in range(81_000, 81_237, 79))
    assert not {"orders-3"} & set(names(kseg, image, log(81_000, 81_237), other, checkpoint("orders 3 81237")))


def test_a_log_whose_last_batch_is_cut_does_not_end_there(kseg: Kseg, image: Path) -> None:
    cut = log(81_000, 81_237) + batch(81_237, 50, TIME)[:200]
    assert "orders-3" not in names(kseg, image, cut, checkpoint("orders 3 81237"))


def test_names_of_files_in_a_directory_name_the_log_with_these_segments(kseg: Kseg, image: Path) -> None:
    root = ext4_block(11, (12, b"orders-3", 2), (13, b"audit-1", 2))
    orders = ext4_block(12, (20, f"{81_000:020}.log".encode(), 1), (21, f"{90_317:020}.snapshot".encode(), 1))
    audit = ext4_block(13, (22, f"{60_011:020}.log".encode(), 1), (23, f"{70_011:020}.snapshot".encode(), 1))
    found = names(kseg, image, root, orders, audit, log(81_000, 90_317))
    assert found["orders-3"]["matched"] == {"directory": 2}


def test_a_directory_whose_inode_several_partitions_had_names_none(kseg: Kseg, image: Path) -> None:
    roots = [ext4_block(11, (12, name, 2)) for name in (b"orders-3", b"audit-1")]
    segments = ext4_block(12, (20, f"{81_000:020}.log".encode(), 1), (21, f"{90_317:020}.snapshot".encode(), 1))
    (evidence,) = names(kseg, image, *roots, segments, log(81_000, 90_317)).values()
    assert evidence["name"] is None


@pytest.mark.skipif(not HAS_EXT4, reason="no mke2fs and debugfs (e2fsprogs)")
@pytest.mark.parametrize("block", [1024, 4096])
def test_directories_of_a_real_ext4_name_logs(kseg: Kseg, image: Path, block: int) -> None:
    logs = image.parent / "logs"
    for name, start, end in (("orders-3", 81_013, 90_317), ("audit-1", 70_077, 79_391)):
        (logs / name).mkdir(parents=True)
        (logs / name / f"{start:020}.log").write_bytes(log(start, end))
        (logs / name / f"{end:020}.snapshot").write_bytes(b"")
    ext4(image.parent, logs, image, block=block)
    assert set(names(kseg, image, image.read_bytes())) == {"orders-3", "audit-1"}


def test_a_transaction_with_one_partition_names_the_log_with_its_marker(kseg: Kseg, image: Path) -> None:
    data = batch(0, 5, TIME, producer=PRODUCER) + batch(5, 1, PREPARED + 5, producer=PRODUCER, is_marker=True)
    found = names(kseg, image, STATES.read_bytes(), data)
    assert found[ALONE]["name"] == "transactions"


@pytest.mark.parametrize(
    ("producer", "time", "candidates"),
    [
        (OTHER, OTHERS_MARKER, ["txn-a-0", "txn-a-1", "txn-b-0"]),  # several partitions
        (PRODUCER, COMPLETED + 1, []),  # no transaction ended then
        (PRODUCER + 50, PREPARED + 5, []),  # no such producer
    ],
)
def test_other_markers_only_suggest(kseg: Kseg, image: Path, producer: int, time: int, candidates: list[str]) -> None:
    data = batch(0, 5, TIME, producer=producer) + batch(5, 1, time, producer=producer, is_marker=True)
    found = names(kseg, image, STATES.read_bytes(), data)
    (evidence,) = [evidence for evidence in found.values() if evidence["name"] is None]
    assert evidence["candidates"] == candidates


@pytest.mark.parametrize(
    ("time", "candidates"), [(150, {"first-0"}), (190, {"first-0", "second-0"}), (270, {"first-0", "second-0"})]
)
def test_the_clocks_of_two_brokers_differ_a_little(time: int, candidates: set[str]) -> None:
    """A marker may be that of a transaction that begins shortly after it, or has ended shortly before."""
    known: Any = _Transactions(())
    known._of[PRODUCER] = [(100, 200, frozenset({("first", 0)})), (260, 300, frozenset({("second", 0)}))]
    known._longest[PRODUCER] = 100
    run = SimpleNamespace(attributes=[CONTROL], producer_ids=[PRODUCER], max_timestamps=[time])
    assert {f"{topic}-{number}" for topic, number in known.candidates(SimpleNamespace(runs=[run]))} == candidates


@pytest.mark.parametrize("name", ["a/../../bin", "../", "a\0b"])
def test_names_of_hostile_records_become_no_directories(kseg: Kseg, image: Path, name: str) -> None:
    old = b"txn-compressed"
    states = STATES.read_bytes()
    hostile = b"".join(sealed(each.replace(old, name.encode().ljust(len(old), b"/"))) for each in batches_in(states))
    data = batch(0, 5, TIME, producer=PRODUCER) + batch(5, 1, PREPARED + 5, producer=PRODUCER, is_marker=True)
    found = names(kseg, image, hostile, data)
    assert not [directory for directory in found if "carved" not in directory]


def test_transactions_decide_between_partitions_of_one_end(kseg: Kseg, image: Path) -> None:
    marker = batch(81_236, 1, OTHERS_MARKER, producer=OTHER, is_marker=True)
    parts = [batch(81_200, 36, TIME, producer=OTHER) + marker, checkpoint("txn-b 0 81237", "orders 0 81237")]
    assert not {"txn-b-0", "orders-0"} & set(names(kseg, image, *parts))
    found = names(kseg, image, *parts, STATES.read_bytes())
    assert found["txn-b-0"]["matched"] == {"checkpoint": 1, "transactions": 1}


def test_internal_topics_get_the_partition_that_their_keys_and_the_metadata_tell(kseg: Kseg, image: Path) -> None:
    image.write_bytes(files_one_by_one(INTERNAL))
    truth = truth_of(INTERNAL)
    expected = {path.name for path in INTERNAL.iterdir() if path.name.startswith("__")}
    assert expected <= named_rightly(kseg, image, truth)


def test_a_snapshot_of_the_metadata_is_not_taken_for_their_log(kseg: Kseg, image: Path) -> None:
    snapshots = sorted((INTERNAL / "__cluster_metadata-0").glob("*.checkpoint"))
    found = names(kseg, image, *(path.read_bytes() for path in snapshots))
    assert "__cluster_metadata-0" not in found
    assert all(name.startswith("__cluster_metadata.carved-") for name in found)


@pytest.mark.parametrize("segments", [(0, 164, 322), (322,)])
def test_a_snapshot_goes_to_the_log_in_which_it_ends(kseg: Kseg, image: Path, segments: tuple[int, ...]) -> None:
    metadata = INTERNAL / "__cluster_metadata-0"
    parts = [(metadata / f"{base:020}.log").read_bytes() for base in segments]
    snapshots = sorted(metadata.glob("*.checkpoint"))[1:]
    image.write_bytes(b"".join(map(padded, [*(path.read_bytes() for path in snapshots), *parts])))
    output = image.parent / "out"
    kseg("carve", "--output", output, image).expect(0)
    found = {path.name: path.read_bytes() for path in output.glob("__cluster_metadata-0/*.checkpoint")}
    assert found == {path.name: path.read_bytes() for path in snapshots if int(path.name[:20]) > segments[0]}
    kseg("verify", output / "__cluster_metadata-0").expect(0)


def test_a_snapshot_that_may_end_in_two_places_is_not_written(kseg: Kseg, image: Path) -> None:
    metadata = INTERNAL / "__cluster_metadata-0"
    (snapshot,) = metadata.glob("*455-*.checkpoint")
    last = list(batches_in((metadata / f"{322:020}.log").read_bytes()))
    ends = next(
        each for each in last if struct.unpack_from(">q", each)[0] + struct.unpack_from(">i", each, 23)[0] == 454
    )
    image.write_bytes(padded(snapshot.read_bytes()) + padded(b"".join(last) + struct.pack(">q", 458) + ends[8:]))
    output = image.parent / "out"
    kseg("carve", "--output", output, image).expect(0)
    assert not list(output.rglob("*.checkpoint"))


def test_a_coordinator_with_few_keys_has_no_number_unless_the_metadata_tell_it(kseg: Kseg, image: Path) -> None:
    offsets = next((COMMITTED / "__consumer_offsets-1").glob("*.log")).read_bytes()
    few = b"".join([next(batches_in(offsets))])
    (name,) = names(kseg, image, few)
    assert name.startswith("__consumer_offsets.carved-")


def commits(*committed: tuple[bytes, int, int, int]) -> bytes:
    """A log of __consumer_offsets: what a group has committed, as (topic, partition, offset, leader epoch)."""
    records = [
        (
            struct.pack(f">hh5sh{len(topic)}si", 1, 5, b"group", len(topic), topic, partition),
            struct.pack(">hqihq", 3, offset, epoch, 0, TIME),
        )
        for topic, partition, offset, epoch in committed
    ]
    return build_batch(0, 0, TIME, records)


def test_an_offset_that_a_group_has_committed_names_the_log_that_ends_there(kseg: Kseg, image: Path) -> None:
    found = names(kseg, image, log(81_000, 81_237), commits((b"orders", 3, 81_237, 0), (b"audit", 1, 90_441, 0)))
    assert found["orders-3"]["matched"] == {"commits": 1}


def test_of_many_commits_the_newest_are_read(kseg: Kseg, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = commits((b"orders", 3, 81_237, 0)), commits((b"audit", 1, 90_441, 0))
    parts = log(81_000, 81_237), log(90_000, 90_441), old + sealed(struct.pack(">q", 1) + new[8:], 21, b"\0\0")
    assert {"orders-3", "audit-1"} <= set(names(kseg, image, *parts))
    monkeypatch.setattr("kseg.carving.names.LEAST_READ_BYTES", len(new))
    monkeypatch.setattr("kseg.carving.names.READ_SHARE", 1 << 20)
    found = names(kseg, image, *parts)
    assert "audit-1" in found
    assert "orders-3" not in found
    done = kseg("carve", "--dry-run", "--output", image.parent / "out", image)
    done.expect(1, "1 log of internal topics read only in part")


@pytest.mark.parametrize(
    ("offset", "epoch"),
    [(90_000, 0), (81_100, 7)],  # the partition reaches further; it has another leader epoch at an offset
)
def test_a_commit_contradicts_what_a_checkpoint_tells(kseg: Kseg, image: Path, offset: int, epoch: int) -> None:
    parts = log(81_000, 81_237), checkpoint("orders 3 81237")
    assert "orders-3" in names(kseg, image, *parts, commits((b"orders", 3, 81_200, 0)))
    assert "orders-3" not in names(kseg, image, *parts, commits((b"orders", 3, offset, epoch)))


@pytest.mark.parametrize(
    ("made", "on_disk", "written"), [([1], [], 1), ([1, 2], [], None), ([1, 2], [1], 1), ([1, 2], [1, 2], None)]
)
def test_the_topic_id_of_the_metadata_is_written_unless_there_are_several(
    kseg: Kseg, image: Path, made: list[int], on_disk: list[int], written: int | None
) -> None:
    def text(number: int) -> str:
        return base64.urlsafe_b64encode(bytes([number]) * 16).decode().rstrip("=")

    records = [(None, b"\1\2\0\7orders" + bytes([number]) * 16 + b"\0") for number in made]
    parts = [build_batch(0, 1, TIME, records), log(81_000, 81_237), checkpoint("orders 3 81237")]
    parts += [f"version: 0\ntopic_id: {text(number)}".encode() for number in on_disk]
    image.write_bytes(b"".join(map(padded, parts)))
    kseg("carve", "--output", image.parent / "out", image).expect(0)
    metadata = image.parent / "out" / "orders-3" / "partition.metadata"
    assert metadata.exists() is (written is not None)
    assert written is None or metadata.read_text().endswith(text(written))


def named_rightly(kseg: Kseg, image: Path, truth: dict[bytes, set[str]]) -> set[str]:
    """The names that logs got; fails if one is wrong."""
    output = image.parent / "named"
    kseg("carve", "--output", output, image).expect(0)
    found = set()
    for directory in (path for path in output.iterdir() if path.is_dir() and "carved-" not in path.name):
        batches = [each for log in directory.glob("*.log") for each in batches_in(log.read_bytes())]
        assert all(directory.name in truth[each] for each in batches)
        found.add(directory.name)
    return found


@pytest.mark.skipif(not HAS_EXT4, reason="no mke2fs and debugfs (e2fsprogs)")
def test_no_log_of_a_real_disk_gets_a_wrong_name(kseg: Kseg, image: Path) -> None:
    ext4(image.parent, CLEAN, image)
    assert "__cluster_metadata-0" in named_rightly(kseg, image, truth_of(CLEAN))
