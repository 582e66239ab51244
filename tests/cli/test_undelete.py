"""``kseg restore --undelete``, ``--as`` and ``--for-cluster`` on local directories, with partitions of real brokers."""

import shutil
from pathlib import Path

import pytest

from cli.command import CLEAN, LOGS, Kseg, Outcome, copying, findings_of, flip, unchanged
from kseg.sidefiles.checkpoints import plain_epochs
from segment.segments import entries

HEX = "0123456789abcdef0123456789abcdef"
NEW_ID = "AAECAwQFBgcICQoLDA0ODw"
STARTS, EPOCHS, METADATA = "log-start-offset-checkpoint", "leader-epoch-checkpoint", "partition.metadata"
NOW = ("--now", "1790000000000")
logs = copying(CLEAN, "logs")
"""A log directory of a KRaft broker that was stopped cleanly."""
plain = copying(LOGS, "plain")
"""A log directory with one partition of four segments, 0, 46, 76 and 116."""


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and not any(part.startswith(".k") or part == ".lock" for part in path.parts)
    }


def topic_id(directory: Path) -> str:
    return (directory / METADATA).read_text().split("topic_id: ")[1].strip()


def undelete(kseg: Kseg, *words: object) -> Outcome:
    return kseg("restore", "--undelete", *NOW, *words)


def log_of(directory: Path) -> dict[str, bytes]:
    """The segments and the topic id, and the names of indexes."""
    found = {name: data for name, data in files(directory).items() if not name.endswith(".snapshot")}
    return {name: data if name.endswith((".log", METADATA)) else b"" for name, data in found.items()}


@pytest.mark.parametrize("suffix", ["delete", "stray", "future"])
def test_a_directory_gets_its_name_back(kseg: Kseg, logs: Path, suffix: str) -> None:
    (logs / "gz-0").rename(logs / f"gz-0.{HEX}-{suffix}")
    with unchanged(logs, files):
        undelete(kseg, logs).expect(0)
        assert log_of(logs / "gz-0") == log_of(CLEAN / "gz-0")
        assert not list(logs.glob("gz-0.*"))
        assert findings_of(kseg, "--level", "deep", logs, severity="error") == []
        assert kseg("undo", logs).status == 0
    assert (logs / ".kafka_cleanshutdown").exists()


def test_one_directory_by_its_own_path(kseg: Kseg, logs: Path) -> None:
    for name in ("gz-0", "lz-2"):
        (logs / name).rename(logs / f"{name}.{HEX}-stray")
    with unchanged(logs, files):
        assert undelete(kseg, logs / f"gz-0.{HEX}-stray").status == 0
        assert log_of(logs / "gz-0") == log_of(CLEAN / "gz-0")
        assert (logs / f"lz-2.{HEX}-stray").exists()
        assert kseg("undo", logs / "gz-0").status == 0


def test_bytes_kept_elsewhere_are_found_after_the_renaming(kseg: Kseg, logs: Path, tmp_path: Path) -> None:
    moved, kept = (logs / "gz-0").rename(logs / f"gz-0.{HEX}-delete"), tmp_path / "kept"
    flip(moved / f"{0:020}.log", -1)
    with unchanged(logs, files):
        undelete(kseg, "--mode", "salvage", "--quarantine", kept, logs).expect(0)
        assert list(kept.glob(f"{moved.name}.*"))
        kseg("undo", logs).expect(0)
    undelete(kseg, "--mode", "salvage", "--quarantine", kept, logs).expect(0)
    kseg("undo", "--purge", logs).expect(0)
    assert not list(kept.iterdir())


def test_one_of_several_is_not_undone_alone(kseg: Kseg, logs: Path) -> None:
    for name in ("gz-0", "lz-2"):
        (logs / name).rename(logs / f"{name}.{HEX}-stray")
    assert undelete(kseg, logs).status == 0
    done = kseg("undo", logs / "gz-0")
    assert (done.status, done.err.splitlines()[-1]) == (3, f"    kseg undo {logs}")


def test_a_dry_run_shows_the_new_name_and_changes_nothing(kseg: Kseg, logs: Path) -> None:
    moved = logs / f"gz-0.{HEX}-delete"
    (logs / "gz-0").rename(moved)
    before = files(logs)
    done = undelete(kseg, "--dry-run", "--format", "json", logs)
    (renamed,) = [row for row in done.of_type("action") if row["action"] == "rename"]
    assert (renamed["file"], renamed["target"]) == (str(moved), str(logs / "gz-0"))
    assert (done.status, files(logs), (logs / ".lock").exists()) == (1, before, False)


def test_the_log_of_a_deleted_topic_takes_the_place_and_id_of_the_new_one(kseg: Kseg, logs: Path) -> None:
    """The topic was made anew: a broker has begun an empty log under its new id, which the cluster's metadata have."""
    new_id, records = topic_id(logs / "gz-0"), (logs / "gz-0" / "00000000000000000000.log").read_bytes()
    moved = logs / f"gz-0.{HEX}-stray"
    (logs / "gz-0").rename(moved)
    (moved / METADATA).write_text(f"version: 0\ntopic_id: {NEW_ID}")
    (logs / "gz-0").mkdir()
    (logs / "gz-0" / "00000000000000000000.log").touch()
    (logs / "gz-0" / METADATA).write_text(f"version: 0\ntopic_id: {new_id}")
    with unchanged(logs, files):
        undelete(kseg, moved).expect(0)
        assert topic_id(logs / "gz-0") == new_id
        assert (logs / "gz-0" / "00000000000000000000.log").read_bytes() == records
        (aside,) = logs.glob("gz-0.*")
        assert aside.name.endswith("-delete")
        assert findings_of(kseg, "--level", "deep", logs / "gz-0", severity="error") == []
        assert kseg("undo", logs / "gz-0").status == 0


def test_a_directory_with_records_is_never_replaced(kseg: Kseg, logs: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(logs / "gz-0", logs / f"gz-0.{HEX}-stray"))
    with unchanged(logs, files):
        done = undelete(kseg, moved).expect(3)
        assert "gz-0 is there and holds records: take it back under another name, with --output and --as" in done.err
    undelete(kseg, "--as", "saved-7", "--output", tmp_path / "out", moved).expect(0)
    assert (tmp_path / "out" / "saved-7" / "00000000000000000000.log").exists()


def test_two_directories_of_one_name_are_not_guessed(kseg: Kseg, logs: Path) -> None:
    (logs / "gz-0").rename(logs / f"gz-0.{HEX}-stray")
    shutil.copytree(logs / f"gz-0.{HEX}-stray", logs / f"gz-0.{HEX[::-1]}-delete")
    undelete(kseg, logs).expect(3, "2 directories were gz-0: name the one to restore")
    assert not (logs / "gz-0").exists()
    assert undelete(kseg, logs / f"gz-0.{HEX}-stray").status == 0
    assert (logs / "gz-0").exists()


def test_a_topic_that_the_cluster_lacks_is_told(kseg: Kseg, logs: Path) -> None:
    (logs / "gz-0").rename(logs / f"gone-0.{HEX}-delete")
    done = undelete(kseg, logs).expect(0)
    assert "the cluster has no topic gone: create it, stop the broker, and repeat the command" in done.err


def test_the_log_start_comes_from_the_leader_epochs(kseg: Kseg, logs: Path) -> None:
    """The entry of a checkpoint goes with the directory; its first epoch starts at the log start."""
    (logs / "gz-0" / EPOCHS).write_text("0\n1\n0 100\n")
    (logs / "gz-0").rename(logs / f"gz-0.{HEX}-delete")
    with unchanged(logs, files):
        assert undelete(kseg, logs).status == 0
        assert "gz 0 100" in (logs / STARTS).read_text().splitlines()
        assert kseg("undo", logs).status == 0


def deleted_by_retention(kseg: Kseg, plain: Path, start: int) -> None:
    """Brokers remove snapshots and epochs of deleted segments, too."""
    assert (
        kseg("retain", "--topic", "*", "--policy", "delete", "--log-start-offset", start, plain / "dplain-0").status
        == 0
    )
    assert kseg("undo", "--purge", plain / "dplain-0").status == 0


def test_deleted_segments_come_back(kseg: Kseg, plain: Path) -> None:
    partition = plain / "dplain-0"
    (partition / EPOCHS).write_text("0\n2\n0 0\n1 100\n")
    before = files(plain)
    deleted_by_retention(kseg, plain, 80)
    left = files(plain)
    assert "dplain-0/00000000000000000046.log.deleted" in left
    assert "dplain 0 80" in left[STARTS].decode()
    done = undelete(kseg, "--topic", "dplain", "--index-interval-bytes", "1024", plain).expect(0)
    assert files(plain) == before
    assert "the log starts at offset 0 again; retention deletes old segments again" in done.err
    assert findings_of(kseg, "--level", "deep", plain, severity="error") == []
    assert kseg("undo", plain).status == 0
    assert files(plain) == left
    assert undelete(kseg, "--index-interval-bytes", "1024", partition).status == 0
    assert {name: data for name, data in files(plain).items() if name.endswith(".log")} == {
        name: data for name, data in before.items() if name.endswith(".log")
    }


def test_segments_whose_offsets_the_log_has_stay_deleted(kseg: Kseg, plain: Path) -> None:
    """The cleaner marks the segments that it has replaced in the same way."""
    partition = plain / "dplain-0"
    old = partition / "00000000000000000000.log"
    (partition / "00000000000000000030.log.deleted").write_bytes(old.read_bytes())
    before = {path.name: path.read_bytes() for path in partition.glob("*.log")}
    assert "30.log.deleted: not restored: the log has these offsets" in undelete(kseg, partition).err
    assert {path.name: path.read_bytes() for path in partition.glob("*.log")} == before


def test_segments_of_a_lost_leader_stay_deleted(kseg: Kseg, plain: Path) -> None:
    """A follower deletes what its new leader lacks; batches of a higher epoch hold later offsets."""
    partition = plain / "dplain-0"
    last = partition / "00000000000000000116.log"
    shutil.move(last, f"{last}.deleted")
    middle = partition / "00000000000000000076.log"
    middle.write_bytes(b"".join(batch[:12] + b"\0\0\0\5" + batch[16:] for batch in entries(middle.read_bytes())))
    done = undelete(kseg, partition)
    assert "116.log.deleted: not restored: its leader epochs do not fit to the segments beside it" in done.err
    assert not last.exists()


def test_damage_of_a_deleted_segment_is_told(kseg: Kseg, plain: Path) -> None:
    deleted_by_retention(kseg, plain, 50)
    path = plain / "dplain-0" / "00000000000000000000.log.deleted"
    flip(path, 200)
    assert "the segment of offset 0 is damaged: kseg verify" in undelete(kseg, "--topic", "dplain", plain).err


@pytest.mark.parametrize("mode", ["broker", "salvage"])
def test_another_name_and_number(kseg: Kseg, plain: Path, tmp_path: Path, mode: str) -> None:
    source, output = plain / "dplain-0", tmp_path / "out"
    before = files(plain)
    done = kseg(
        "restore", "--mode", mode, *NOW, "--as", "copy-3", "--topic-id", NEW_ID, "--output", output, source
    )  # fmt: skip
    assert done.status == 0, done.err
    assert sorted(path.name for path in output.iterdir() if path.is_dir()) == ["copy-3"]
    assert topic_id(output / "copy-3") == NEW_ID
    logs = {name: data for name, data in files(output / "copy-3").items() if name.endswith(".log")}
    assert logs == {name.split("/")[1]: data for name, data in before.items() if name.endswith(".log")}
    assert findings_of(kseg, "--level", "deep", output, severity="error") == []


def test_the_id_of_another_topic_is_not_copied(kseg: Kseg, logs: Path, tmp_path: Path) -> None:
    done = kseg("restore", *NOW, "--as", "copy", "--output", tmp_path / "out", logs / "gz-0")
    assert (done.status, (tmp_path / "out" / "copy-0").is_dir()) == (0, True)
    assert not (tmp_path / "out" / "copy-0" / METADATA).exists()
    assert "the id of topic copy is not known: copy-0 has no partition.metadata" in done.err
    assert kseg("restore", *NOW, "--as", "gz-9", "--output", tmp_path / "other", logs / "gz-0").status == 0
    assert topic_id(tmp_path / "other" / "gz-9") == topic_id(logs / "gz-0")


def test_a_topic_of_several_partitions_gets_a_new_name(kseg: Kseg, logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs / "txn-5", logs / "txn-6")
    kseg("restore", *NOW, "--topic", "txn", "--as", "copy-5", "--output", tmp_path / "out", logs)
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == ["copy-5-5", "copy-5-6"]
    points = (tmp_path / "out" / "recovery-point-offset-checkpoint").read_text().splitlines()
    assert points == ["0", "1", next(line for line in points if line.startswith("copy-5 5 "))]


def test_the_log_start_goes_with_the_name(kseg: Kseg, plain: Path, tmp_path: Path) -> None:
    (plain / STARTS).write_text("0\n1\ndplain 0 50\n")
    for name, path in (("alone", plain / "dplain-0"), ("all", plain)):
        assert kseg("restore", *NOW, "--as", "copy", "--output", tmp_path / name, path).status == 0
        assert (tmp_path / name / STARTS).read_text().splitlines() == ["0", "1", "copy 0 50"]


def test_fit_for_another_cluster(kseg: Kseg, logs: Path, plain: Path, tmp_path: Path) -> None:
    """The ids of the new cluster's topics, and its log starts with those of the partitions."""
    (logs / STARTS).write_text("0\n2\ngz 0 7\nfew 1 3\n")
    (plain / STARTS).write_text("0\n1\ndplain 0 50\n")
    output = tmp_path / "out"
    words = ["restore", *NOW, "--for-cluster", logs, "--output", output]
    kseg(*words, plain).expect(3, "the cluster has no topic dplain: create it first")
    shutil.rmtree(output, ignore_errors=True)
    kseg(*words, "--as", "gz-0", "--reset-epochs", plain).expect(0)
    assert topic_id(output / "gz-0") == topic_id(logs / "gz-0")
    assert (output / STARTS).read_text().splitlines() == ["0", "2", "few 1 3", "gz 0 50"]
    assert sorted(path.name for path in output.iterdir() if path.is_file() and path.name != ".lock") == [STARTS]
    assert plain_epochs((output / "gz-0" / EPOCHS).read_bytes()) == [(0, 50)]
    assert findings_of(kseg, "--level", "deep", output / "gz-0", severity="error") == []


def test_a_copied_directory_is_made_fit_in_its_place(kseg: Kseg, logs: Path, plain: Path) -> None:
    old = topic_id(plain / "dplain-0")
    shutil.rmtree(logs / "gz-0")
    shutil.copytree(plain / "dplain-0", logs / "gz-0")
    (logs / "gz-0" / EPOCHS).write_text("0\n1\n0 20\n")
    new = topic_id(CLEAN / "gz-0")
    assert kseg("restore", *NOW, "--for-cluster", logs, logs / "gz-0").status == 0
    assert topic_id(logs / "gz-0") == new != old
    assert (logs / STARTS).read_text().splitlines() == ["0", "1", "gz 0 20"]
    assert kseg("undo", logs / "gz-0").status == 0
    assert (topic_id(logs / "gz-0"), (logs / STARTS).read_text()) == (old, (CLEAN / STARTS).read_text())


def test_epochs_are_set_to_0_in_all_batches(kseg: Kseg, logs: Path, tmp_path: Path) -> None:
    def epochs(directory: Path) -> set[int]:
        return {row["partitionLeaderEpoch"] for row in kseg("dump", "--format", "json", directory).of_type("batch")}

    def records(directory: Path) -> list[dict[str, object]]:
        rows = kseg("dump", "--print-data-log", "--deep-iteration", "--format", "json", directory).of_type("record")
        return [{name: row.get(name) for name in ("offset", "timestamp", "key", "value")} for row in rows]

    assert epochs(logs / "gz-0") != {0}
    output = tmp_path / "out"
    words = ["--as", "gz-0", "--reset-epochs", "--output", output]
    for mode in ("broker", "salvage"):
        shutil.rmtree(output, ignore_errors=True)
        assert kseg("restore", "--mode", mode, *NOW, *words, logs / "gz-0").status == 0
        assert epochs(output / "gz-0") == {0}
        assert records(output / "gz-0") == records(logs / "gz-0")
        assert findings_of(kseg, "--level", "deep", output / "gz-0", severity="error") == []


def test_json_and_python_tell_the_same_plan(kseg: Kseg, logs: Path) -> None:
    (logs / "gz-0").rename(logs / f"gz-0.{HEX}-delete")
    summary = undelete(kseg, "--format", "json", logs).objects[-1]
    assert (summary["changed"], summary["actions"].get("rename")) == (True, 1)


def test_a_partition_that_another_disk_has_is_not_made(plain: Path, tmp_path: Path, kseg: Kseg) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(plain / "meta.properties", other)
    shutil.copytree(plain / "dplain-0", other / "dplain-0.0123456789abcdef0123456789abcdef-future")
    with unchanged(other):
        assert "lies in" in undelete(kseg, plain, other).err


def test_a_name_that_a_broker_has_cut_needs_another(plain: Path, kseg: Kseg) -> None:
    ending = f"-0.{5:032x}-delete"
    cut = plain / ("a" * (255 - len(ending)) + ending)
    shutil.copytree(plain / "dplain-0", cut)
    assert "has cut its name" in undelete(kseg, plain).err
    assert cut.is_dir()
    assert not [path for path in plain.iterdir() if path.name.startswith("aaa") and path != cut]
