"""``kseg recover`` and ``kseg reindex`` from the command line, on copies of real partitions with real damage."""

import shutil
from pathlib import Path

import pytest

from cli.command import FLIPPED, LOGS, LOGS_4_4, PLAIN, TESTDATA, Kseg, files, findings_of, flip, judged, unchanged
from kseg.quantities import shown_bytes
from segment.segments import spans

# ``kseg recover --from-replica`` from the command line.

SECOND = "00000000000000000046.log"


@pytest.fixture
def replica_partition(tmp_path: Path) -> Path:
    """A replica_partition that has lost its second segment."""
    path = Path(shutil.copytree(PLAIN, tmp_path / "logs" / "dplain-0"))
    for name in ("00000000000000000046.log", "00000000000000000046.index", "00000000000000000046.timeindex"):
        (path / name).unlink()
    return path


@pytest.mark.parametrize("replica", [PLAIN, PLAIN.parent])
def test_what_is_missing_is_taken(kseg: Kseg, replica_partition: Path, replica: Path) -> None:
    done = kseg("recover", "--from-replica", replica, replica_partition).expect(0)
    assert f"offsets 46..75\n           from {PLAIN.resolve()}/{SECOND}\n" in done.out.decode()
    assert (replica_partition / SECOND).read_bytes() == (PLAIN / SECOND).read_bytes()
    assert kseg("verify", "--level", "deep", replica_partition).status == 0
    assert kseg("undo", replica_partition).status == 0
    assert not (replica_partition / SECOND).exists()


def test_a_log_directory_is_filled_from_another(kseg: Kseg, replica_partition: Path) -> None:
    (replica_partition.parent / "meta.properties").write_bytes((PLAIN.parent / "meta.properties").read_bytes())
    shutil.copytree(replica_partition, replica_partition.parent / "orders-0")
    done = kseg("recover", "--from-replica", PLAIN.parent, replica_partition.parent)
    done.expect(0, f"orders-0: {PLAIN.parent} has no replica of it")
    assert (replica_partition / SECOND).exists()
    assert not (replica_partition.parent / "orders-0" / SECOND).exists()


def test_the_plan_as_json(kseg: Kseg, replica_partition: Path) -> None:
    before = sorted(replica_partition.iterdir())
    done = kseg("recover", "--from-replica", PLAIN, "--dry-run", "--format", "json", replica_partition).expect(1)
    assert done.of_type("taken") == [
        {
            "type": "taken", "directory": str(replica_partition), "firstOffset": 46, "lastOffset": 75,
            "from": str(PLAIN.resolve() / SECOND),
        }
    ]  # fmt: skip
    assert sorted(replica_partition.iterdir()) == before


def test_what_is_left_is_told(kseg: Kseg, replica_partition: Path) -> None:
    (replica_partition / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 40\n")
    left = kseg("recover", "--from-replica", PLAIN, "--dry-run", "--format", "json", replica_partition).of_type("left")
    assert [(row["firstOffset"], row["lastOffset"]) for row in left] == [(46, 75)]
    assert left[0]["reason"] == "leader epoch 0, but by leader-epoch-checkpoint epoch 3 began at 40"
    text = kseg("recover", "--from-replica", PLAIN, "--dry-run", replica_partition).out.decode()
    assert "epoch 3 began at 40" in " ".join(text.split())


def test_replicas_that_diverge_are_refused(kseg: Kseg, replica_partition: Path, tmp_path: Path) -> None:
    replica = Path(shutil.copytree(PLAIN, tmp_path / "other" / "dplain-0"))
    path = replica / "00000000000000000116.log"
    flip(path, 15, bits=9)  # the leader epoch of the first batch
    before = sorted(replica_partition.iterdir())
    done = kseg("recover", "--from-replica", replica, replica_partition)
    done.expect(3, "diverge at offset 116: leader epochs 0 and 9; nothing was changed")
    assert sorted(replica_partition.iterdir()) == before


def test_a_relative_path(kseg: Kseg, replica_partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of another file of the replica_partition, and of the replica, are found from anywhere."""
    first, third = replica_partition / "00000000000000000000.log", replica_partition / "00000000000000000076.log"
    whole = first.read_bytes()
    third.write_bytes(whole[:300] + third.read_bytes())
    monkeypatch.chdir(replica_partition.parent)
    assert kseg("recover", "--from-replica", PLAIN, replica_partition.name).status == 0
    assert third.read_bytes() == (PLAIN / third.name).read_bytes()


DAMAGED = TESTDATA / "damaged"
LAST = "00000000000000000116.log"
CUT_AT = 7129
"""Where the batch with the flipped byte begins."""


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A log directory with one partition, in whose last segment a byte of a batch is flipped."""
    return damaged(tmp_path, "4.3.1-last-flip-body")


def test_a_cut_says_how_many_intact_records_it_removes(kseg: Kseg, tmp_path: Path) -> None:
    """Headers of compressed messages of v0 and v1 have no count."""
    old = shutil.copytree(DAMAGED / "0.8.2.2-flip-body-dz" / "dz-0", tmp_path / "dz-0")
    plan = kseg("recover", "--dry-run", old)
    assert "intact in the removed bytes: 11 batches, 96 records, offsets 604 to 699" in plan.err
    assert "offsets 604..699, 96 records" in " ".join(plan.out.decode().split())


def test_only_removed_bytes_are_said_to_be_kept(kseg: Kseg, tmp_path: Path) -> None:
    partition = Path(shutil.copytree(PLAIN, tmp_path / "dplain-0"))
    ask = ("reindex", "--index-interval-bytes", "1024", partition)
    lost = partition / f"{46:020}.index"
    before = lost.read_bytes()
    lost.unlink()
    assert "no bytes were removed; kseg undo reverts the change" in kseg(*ask).err
    lost.write_bytes(before[:8])
    assert "removed bytes are kept in" in kseg(*ask).err


def test_a_copy_without_a_change_is_reported(kseg: Kseg, tmp_path: Path) -> None:
    """The output is complete, so 'nothing to change' alone would be misleading."""
    whole, new = PLAIN, tmp_path / "new"
    ask = ("reindex", "--index-interval-bytes", "1024", "--output")
    assert "copied without a change" not in kseg(*ask, new, "--dry-run", whole).err
    assert f"kseg: {new}: copied without a change: 1 partition" in kseg(*ask, new, whole).err
    assert files(new / "dplain-0").keys() == files(whole).keys()


def test_an_index_that_is_built_anew_counts_as_replaced(kseg: Kseg, partition: Path) -> None:
    size = shown_bytes((partition / LAST).stat().st_size - CUT_AT)
    (partition / LAST).with_suffix(".index").write_bytes(bytes(10 << 20))
    done = kseg("recover", "--dry-run", partition)
    assert any(line.startswith(f"  In all: {size} removed, 10.0 MiB replaced") for line in done.lines)
    assert f"{size} removed, 10.0 MiB replaced" in done.err


def of_kraft(partition: Path) -> Path:
    """Makes what is around a partition the log directory of a KRaft node."""
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: IkYnvhBNSWeHGzcaFR3aYg")
    (partition.parent / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    return partition.parent


def test_a_log_directory_loses_its_marker_and_keeps_its_checkpoints(kseg: Kseg, partition: Path) -> None:
    root = of_kraft(partition)
    (root / ".kafka_cleanshutdown").write_text("")
    (root / "replication-offset-checkpoint").write_text("0\n2\ndplain 0 150\nother 0 7\n")
    assert kseg("recover", "--full", root).status == 0
    assert not (root / ".kafka_cleanshutdown").exists()
    assert (root / "replication-offset-checkpoint").read_text() == "0\n2\ndplain 0 134\nother 0 7\n"


def test_with_the_marker_of_a_clean_stop_nothing_is_scanned(kseg: Kseg, partition: Path) -> None:
    root = of_kraft(partition)
    (root / ".kafka_cleanshutdown").write_text("")
    for suffix in (".index", ".timeindex"):
        (partition / LAST).with_suffix(suffix).write_bytes(b"")
    log = (partition / LAST).read_bytes()
    kseg("recover", root).expect(0, f"{root}: 1 of 1 segment skipped")
    assert (partition / LAST).read_bytes() == log


@pytest.mark.parametrize(("era", "rewritten"), [("4.4", []), ("4.3", ["00000000000000000000.timeindex"])])
def test_what_a_clean_stop_of_4_4_leaves_is_left_as_it_is(kseg: Kseg, era: str, rewritten: list[str]) -> None:
    """The metadata log has preallocated indexes, the time index without its last entry."""
    done = kseg("recover", "--era", era, "--dry-run", "--format", "json", LOGS_4_4)
    replaced = [Path(action["file"]).name for action in done.of_type("action") if action["action"] == "replace"]
    assert (done.status, replaced) == (int(bool(rewritten)), rewritten)


def test_a_damaged_partition_does_not_keep_the_others_from_being_indexed(kseg: Kseg, partition: Path) -> None:
    root = partition.parent
    (root / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    shutil.copytree(DAMAGED / "4.3.1-control-clean" / "dplain-0", root / "a-0")
    shutil.copytree(DAMAGED / "4.3.1-control-clean" / "dplain-0", root / "z-0")
    kseg("reindex", "--index-interval-bytes", "1024", root).expect(1, "kseg recover repairs it")
    assert [(root / name / LAST).with_suffix(".index").exists() for name in ("a-0", "dplain-0", "z-0")] == [
        True,
        False,
        True,
    ]


def damaged(tmp_path: Path, case: str) -> Path:
    """A log directory with the partition of a case."""
    return Path(shutil.copytree(DAMAGED / case / "dplain-0", tmp_path / "logs" / "dplain-0"))


@pytest.mark.parametrize(
    ("case", "code"), [("crcok-count-plus-1", "count-mismatch"), ("last-batch-removed", "gap-unexplained")]
)
def test_damage_that_a_broker_does_not_mind_is_told(kseg: Kseg, tmp_path: Path, case: str, code: str) -> None:
    path = damaged(tmp_path, f"4.3.1-{case}")
    whole = (path / LAST).read_bytes()
    for _ in range(2):  # the second time there is nothing else to do
        done = kseg("recover", "--format", "json", path)
        done.expect(1, f"stays as it is: {code}: the batch at position 7129, offset 13")
        (found,) = done.of_type("remains")
        assert (found["code"], found["file"], found["position"]) == (code, str(path / LAST), 7129)
        assert done.objects[-1]["damageRemains"] is True
    assert (path / LAST).read_bytes() == whole
    assert [row["code"] for row in judged(kseg, path)[0]] == [code]


def test_a_magic_that_a_broker_does_not_look_at_is_told(kseg: Kseg, partition: Path) -> None:
    flip(partition / LAST, 16, bits=7)
    kseg("recover", partition).expect(1, "stays as it is: bad-magic: the batch at position 0")


def test_gaps_that_a_cleaner_leaves_are_no_damage(kseg: Kseg, tmp_path: Path) -> None:
    path = damaged(tmp_path, "4.3.1-last-batch-removed")
    (path.parent / "cleaner-offset-checkpoint").write_text("0\n1\ndplain 0 140\n")
    rows = kseg("recover", "--format", "json", path).expect(0).objects
    assert rows[-1]["damageRemains"] is False
    assert "remains" not in {row["type"] for row in rows}


def test_gaps_that_a_salvage_has_left_are_no_news(kseg: Kseg, partition: Path) -> None:
    assert kseg("recover", "--mode", "salvage", partition).status == 0
    done = kseg("recover", partition)
    assert (done.status, "stays" in done.err) == (0, False)


def test_segments_that_overlap_are_told(kseg: Kseg, tmp_path: Path) -> None:
    path = damaged(tmp_path, "4.3.1-last-flip-body")
    data = (path / LAST).read_bytes()
    (_, length), *_ = spans(data)
    (path / LAST).write_bytes(data[:CUT_AT])
    (path / f"{117:020d}.log").write_bytes((117).to_bytes(8, "big") + data[8:length])
    kseg("recover", path).expect(1, "stays as it is: segments-overlap")


def test_a_segment_that_is_cut_off_is_looked_into(kseg: Kseg, tmp_path: Path) -> None:
    """Nothing stays of it that --full would look into."""
    partition = Path(shutil.copytree(PLAIN, tmp_path / "logs" / "dplain-0"))
    log = partition / "00000000000000000046.log"
    log.write_bytes(log.read_bytes()[:-1] + b"\1")
    shown = kseg("recover", "-n", "--full", tmp_path / "logs").err
    assert "(crc-mismatch): " in shown
    assert " and 2 later segments are cut" in shown
    assert "skipped:" not in shown
    [cut] = kseg("recover", "-n", "--format", "json", "--full", tmp_path / "logs").of_type("cut")
    assert cut["code"] == "crc-mismatch"


def test_gaps_of_a_compacted_log_are_not_all_told_as_losses(kseg: Kseg, tmp_path: Path) -> None:
    name = "kafka-0.10.2.2/codecs/compact-lz4-0"
    partition = Path(shutil.copytree(TESTDATA / name, tmp_path / "compact-lz4-0"))
    log = partition / "00000000000000001934.log"
    log.write_bytes(log.read_bytes()[:1000] + b"\0" + log.read_bytes()[1001:])
    shown = kseg("recover", "-n", "--mode", "salvage", partition).err
    assert "offsets stay missing (around damage this includes offsets that a log cleaner removed): " in shown
    [summary] = kseg("recover", "-n", "--mode", "salvage", "--format", "json", partition).of_type("summary")
    [gap] = summary["gaps"]
    assert summary["missingOffsets"] == gap["lastOffset"] - gap["firstOffset"] + 1


def test_a_batch_that_is_named_is_dropped_into_quarantine(kseg: Kseg, partition: Path) -> None:
    before = files(partition)
    done = kseg("recover", "--drop-batch", "116", "--drop-batch", "999999", "--drop-undecodable", partition)
    done.expect(0, "no intact batch holds offset 999999", "dropped-batch")
    assert kseg("verify", "--level", "deep", partition).status == 0
    assert kseg("undo", partition).status == 0
    assert {name: data for name, data in files(partition).items() if name in before} == before


@pytest.fixture
def misnamed(tmp_path: Path) -> Path:
    """One segment under a wrong name, another one's bytes in two damaged copies, a third one empty and too far off."""
    path = Path(shutil.copytree(LOGS, tmp_path / "logs")) / "dplain-0"
    first, second, *_ = sorted(path.glob("*.log"))
    data = first.read_bytes()
    (path / "copy.log").write_bytes(data[:3000] + bytes(400) + data[3400:])
    first.write_bytes(data[:500] + bytes(300) + data[800:])
    second.rename(path / f"{int(second.stem) + 2:020d}.log")
    (path / f"{9000:020d}.log").touch()
    return path


@pytest.mark.parametrize("options", [[], ["--no-quarantine"]])
def test_segments_are_put_together_of_several_files(kseg: Kseg, misnamed: Path, options: list[str]) -> None:
    source = PLAIN
    before = files(misnamed)
    assert kseg("recover", "--mode", "salvage", *options, misnamed).status == 0
    logs = {path.name: path.read_bytes() for path in source.glob("*.log")}
    assert {path.name: path.read_bytes() for path in misnamed.glob("*.log")} == logs
    assert kseg("verify", "--level", "deep", misnamed).status == 0
    if not options:
        assert kseg("undo", misnamed).status == 0
        assert {name: data for name, data in files(misnamed).items() if ".kseg" not in name} == before


@pytest.mark.parametrize("refusal", ["a segment of 0.7", "a link"])
def test_salvage_does_the_partitions_not_refused(kseg: Kseg, partition: Path, tmp_path: Path, refusal: str) -> None:
    root, other, target = of_kraft(partition), partition.parent / "old-0", tmp_path / "records.jsonl"
    if refusal == "a link":
        other.mkdir()
        (other / LAST).symlink_to(partition / LAST)
    else:
        shutil.copytree(DAMAGED / "0.7.2-09-attr-codec-3" / "rec-0", other)
    before = sorted((path, path.lstat().st_ino, path.lstat().st_mtime_ns) for path in other.iterdir())
    dry = kseg("recover", "--mode", "salvage", "--dry-run", root)
    done = kseg("recover", "--mode", "salvage", "--records", target, root)
    for one in (dry, done):
        assert (one.status, f"{other}" in one.err) == (3, True)
    assert kseg("verify", "--level", "deep", "--quiet", partition).status == 0
    assert target.stat().st_size > 0
    assert sorted((path, path.lstat().st_ino, path.lstat().st_mtime_ns) for path in other.iterdir()) == before


def test_mode_broker_changes_nothing_where_one_partition_is_refused(kseg: Kseg, partition: Path) -> None:
    """Without the marker of a clean stop, the broker's next start may cut that partition instead."""
    root = of_kraft(partition)
    (root / ".kafka_cleanshutdown").write_text("")
    other = Path(shutil.copytree(partition, root / "other-0"))
    (other / "leader-epoch-checkpoint").write_bytes(b"garbage")
    with unchanged(root):
        kseg("recover", "--full", root).expect(3, f"{other}/leader-epoch-checkpoint")


def test_a_salvage_accepts_that_a_whole_segment_is_missing(kseg: Kseg, tmp_path: Path) -> None:
    clean = TESTDATA / "log-directories/4.3.1-rounds/clean/txn-5"
    partition = Path(shutil.copytree(clean, tmp_path / "txn-5"))
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for path in partition.glob(f"{0:020}.*"):
        path.write_bytes(b"")
    assert "gap-unexplained" in kseg("verify", partition).out.decode()
    assert kseg("recover", "--mode", "salvage", partition).status == 0
    assert "gap-unexplained" not in kseg("verify", partition).out.decode()
    assert kseg("undo", "--purge", partition).status == 0
    assert not list(partition.parent.glob(".kseg-change-*"))
    assert [row["severity"] for row in findings_of(kseg, partition) if row["code"].startswith("gap-")] == ["info"]
    kseg("recover", "--mode", "salvage", "--dry-run", partition).expect(0, out=b"")


def test_empty_logs_whose_epochs_alone_change_are_one_line(kseg: Kseg, tmp_path: Path) -> None:
    damaged = FLIPPED
    shutil.copytree(damaged, tmp_path / "dplain-0")
    for number in range(12):
        (empty := tmp_path / f"empty-{number}").mkdir()
        (empty / "00000000000000000000.log").write_bytes(b"")
        (empty / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        for suffix in ("index", "timeindex"):
            (empty / f"00000000000000000000.{suffix}").write_bytes(b"")
    found = kseg("recover", "--dry-run", tmp_path)
    assert found.lines[-1] == "12 partitions: leader-epoch-checkpoint of empty logs, 8 B replaced by 4 B each"
    assert not any("empty-" in line for line in found.lines)
    assert any("dplain-0" in line for line in found.lines)
    rows = kseg("recover", "--dry-run", "--format", "json", tmp_path).objects
    assert sum("empty-" in row["file"] for row in rows if row["type"] == "action") == 12
