"""Segments that hold batches of another partition: a segment of one real partition over one of another."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import Kseg
from kseg.node import belonging
from kseg.node.belonging import COPIES, Siblings, foreign_segments
from kseg.segment.survey import SegmentSurvey, open_survey
from recovery.partitions import TESTDATA
from segment.segments import sealed, spans
from verification.partitions import changed

CLEAN = TESTDATA / "log-directories/4.3.1-rounds/clean"
KILLED = TESTDATA / "log-directories/4.3.1-rounds/kill"
CLEANED = TESTDATA / "verify/4.3.1-cleaned/cmp-2"
RETENTION = TESTDATA / "retention/4.3.1/before"
PARTITIONS = ("txn-5", "zs-2", "lz-2", "cmptx-4")


def logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def copied(target: Path, *names: str, source: Path = CLEAN) -> Path:
    """A log directory with these partitions."""
    shutil.copytree(source, target, ignore=lambda _, found: {one for one in found if (source / one).is_dir()})
    for name in names:
        shutil.copytree(source / name, target / name)
    return target


def replaced(target: Path, name: str, other: str, number: int, beside: bool) -> Path:
    """A log directory in which a segment of a partition has the batches of another partition. The segment's path."""
    root = copied(target, name, *[other] * beside)
    there = logs(root / name)[number]
    shutil.copyfile(logs(CLEAN / other)[number], there)
    return there


def own_batches(partition: Path) -> set[bytes]:
    found = (path.read_bytes() for path in logs(partition))
    return {data[at : at + size] for data in found for at, size in spans(data)}


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("name", "other"), [(a, b) for a in PARTITIONS for b in PARTITIONS if a != b])
def test_a_replaced_segment_is_told(name: str, other: str, number: int, beside: bool, tmp_path: Path) -> None:
    is_single, is_cleaned = (other, number) == ("lz-2", 1), (name, other) in (("zs-2", "cmptx-4"), ("cmptx-4", "txn-5"))
    if not beside and (is_single or is_cleaned):
        pytest.skip("a single batch may have a wrong offset instead, and the gaps of a compacted log say nothing")
    there = replaced(tmp_path / "logs", name, other, number, beside)
    found = foreign_segments(str(there.parent))
    assert [one.path for one in found] == [str(there)]
    assert (COPIES in {one.kind for one in found[0].evidence}) == beside
    data = there.read_bytes()
    assert found[0].records == sum(int.from_bytes(data[at + 57 : at + 61], "big") for at, _ in spans(data))


@pytest.mark.parametrize("count", [2, 6])
def test_partitions_with_the_same_batches_are_not_read_for_each_pair(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(tmp_path / "logs", "zs-2")
    paths = [root / f"t-{number}" for number in range(count)]
    for number, path in enumerate(paths):
        shutil.copytree(CLEAN / "txn-5", path)
        first, last = logs(path)
        shutil.copyfile(logs(CLEAN / "zs-2")[0], first)
        data, time = last.read_bytes(), number.to_bytes(8, "big")
        last.write_bytes(b"".join(sealed(data[at : at + size], 27, time) for at, size in spans(data)))
    opened = list[str]()

    def opening(path: str, *more: Any, **named: Any) -> SegmentSurvey:
        opened.append(path)
        return open_survey(path, *more, **named)

    monkeypatch.setattr(belonging, "open_survey", opening)

    def found(siblings: Siblings | None) -> list[list[tuple[str, dict[str, Any]]]]:
        opened.clear()
        every = [foreign_segments(str(path), siblings=siblings) for path in paths]
        return [[(one.path, one.details()) for one in of_partition] for of_partition in every]

    alone, siblings = found(None), Siblings()
    assert [[Path(path).name for path, _ in one] for one in alone] == [[logs(paths[0])[0].name]] * count
    assert len(opened) == count * (2 + count), "its own segments, that of zs-2 and those of all others"
    assert found(siblings) == alone
    assert len(opened) == count * 2 + count + 1


@pytest.mark.parametrize("name", PARTITIONS)
def test_own_segments_are_never_foreign(name: str, tmp_path: Path) -> None:
    root = copied(tmp_path / "logs", *PARTITIONS)
    first, last = logs(root / name)
    assert foreign_segments(str(root / name)) == []
    one, two = first.read_bytes(), last.read_bytes()
    first.write_bytes(two)
    assert foreign_segments(str(root / name)) == [], "the same batches in two segments"
    last.write_bytes(one)
    assert foreign_segments(str(root / name)) == [], "segments with each other's batches"
    first.write_bytes(one[: spans(one)[-1][0]])
    last.write_bytes(two)
    for index in (root / name).glob("*index"):
        index.unlink()
    assert foreign_segments(str(root / name)) == [], "the last batch lost, and all indexes"


def test_a_copied_partition_is_its_own(tmp_path: Path) -> None:
    root = copied(tmp_path / "logs", "txn-0", source=KILLED)
    shutil.copytree(root / "txn-0", root / "copy-0")
    log = logs(root / "txn-0")[1]
    log.write_bytes(log.read_bytes()[: spans(log.read_bytes())[-1][0]])
    assert foreign_segments(str(root / "txn-0")) == []


@pytest.mark.parametrize("position", [0, 20_000, 57_000])
def test_a_copied_partition_of_one_damaged_segment_is_its_own(position: int, tmp_path: Path) -> None:
    for name in ("a-0", "b-0"):
        shutil.copytree(TESTDATA / "kafka-4.3.1/clients/kafka-python-zstd-0", tmp_path / name)
        changed(tmp_path / name / "00000000000000000000.log", position, b"\xff" * 40)
    assert foreign_segments(str(tmp_path / "a-0")) == []


def test_segments_added_from_another_partition(kseg: Kseg, tmp_path: Path) -> None:
    root = tmp_path / "logs"
    shutil.copytree(RETENTION, root)
    mine, other = root / "r-delrec-0", root / "r-time-half-0"
    own = own_batches(mine)
    added = [path for path in other.iterdir() if path.is_file() and not (mine / path.name).exists()]
    for path in added:
        shutil.copy(path, mine)
    found = {Path(one.path).name for one in foreign_segments(str(mine))}
    assert found == {path.name for path in added if path.suffix == ".log"} != set()
    assert kseg("recover", "--mode", "salvage", mine).status == 0
    assert own_batches(mine) == own


def test_no_command_is_named_and_salvage_keeps_the_own_batches(kseg: Kseg, tmp_path: Path) -> None:
    there = replaced(tmp_path / "logs", "txn-5", "cmptx-4", 0, beside=True)
    root, stray = there.parents[1], there.read_bytes()
    own = own_batches(there.parent) - {stray[at : at + size] for at, size in spans(stray)}
    judged = kseg("verify", "--format", "json", root)
    told = next(row for row in judged.objects if row.get("code") == "foreign-batches")
    assert (judged.status, judged.objects[-1]["next"], told["needs"]) == (1, [], "decision")
    assert told["details"]["otherRepair"] == ["kseg", "recover", "--mode", "salvage", str(there.parent)]
    assert told["details"]["removedRecords"] == told["details"]["records"] > 0
    side_files = {path: path.read_bytes() for path in there.parent.iterdir()}
    assert kseg("reindex", "--snapshots", there.parent).status == 1
    assert {path: path.read_bytes() for path in there.parent.iterdir()} == side_files
    assert kseg("recover", "--mode", "salvage", there.parent).status == 0
    assert own_batches(there.parent) == own
    assert stray in {path.read_bytes() for path in there.parent.rglob(".kseg-quarantine/**/*") if path.is_file()}
    assert "foreign-batches" not in {row.get("code") for row in kseg("verify", "--format", "json", root).objects}
    assert kseg("undo", there.parent).status == 0
    assert there.read_bytes() == stray


def test_healthy_partitions_are_not_weighed(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copied(tmp_path / "logs", *PARTITIONS)
    log = logs(root / "txn-5")[0]
    changed(log, 100, b"\xff\xff")
    monkeypatch.setattr("kseg.node.belonging.foreign_segments", lambda *_: pytest.fail("nothing contradicts"))
    assert kseg("verify", root / "zs-2", root / "cmptx-4").status == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", ["last offset 2^31 higher", "first offset higher", "first offset lower"])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("partition", [CLEAN / "cmptx-4", CLEANED], ids=lambda path: path.name)
def test_offsets_of_one_batch_decide_nothing(partition: Path, number: int, change: str, tmp_path: Path) -> None:
    """Nor in a compacted log, where any offset above the one before may follow."""
    there = logs(Path(shutil.copytree(partition, tmp_path / partition.name)))[number]
    data = there.read_bytes()
    for at, size in spans(data):
        batch = data[at : at + size]
        if change == "last offset 2^31 higher":
            batch = sealed(batch, 23, b"\x7f\xff\xff\xff")
        else:
            first = int.from_bytes(batch[:8], "big")
            batch = (first + 100_000 if "higher" in change else first // 2).to_bytes(8, "big") + batch[8:]
        there.write_bytes(data[:at] + batch + data[at + size :])
        assert foreign_segments(str(there.parent)) == []
