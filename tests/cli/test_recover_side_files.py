"""``kseg recover`` where side files are missing or cannot be read: rebuilt, or named."""

import shutil
import tarfile
from pathlib import Path

import pytest

from cli.command import LOGS, TESTDATA, Kseg, files, findings_of, unchanged
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS

# The marker of a clean stop, which tells a broker to trust marked_logs and indexes: it stays where only indexes are
# made.

MARKER, INDEX = ".kafka_cleanshutdown", "00000000000000000046.index"


@pytest.fixture
def marked_logs(tmp_path: Path) -> Path:
    """A log directory that was closed cleanly, in which one index is wrong and one is missing."""
    path = Path(shutil.copytree(LOGS, tmp_path / "logs"))
    (path / MARKER).write_bytes(b'{"version":0,"brokerEpoch":7}')
    (path / "dplain-0" / INDEX).write_bytes(bytes(8))
    (path / "dplain-0" / INDEX.replace(".index", ".timeindex")).unlink()
    return path


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("options", [[], ["--snapshots"]])
def test_reindex_keeps_it(kseg: Kseg, marked_logs: Path, alone: bool, options: list[str]) -> None:
    path = marked_logs / "dplain-0" if alone else marked_logs
    dry = kseg("reindex", "-n", *options, path)
    assert (dry.status, MARKER in dry.out.decode()) == (1, False)
    done = kseg("reindex", *options, path)
    assert (done.status, MARKER in done.out.decode()) == (0, False)
    assert (marked_logs / MARKER).exists()
    assert len((marked_logs / "dplain-0" / INDEX).read_bytes()) > 8
    assert kseg("verify", "--fail-on", "warning", marked_logs).status == 0
    assert kseg("undo", path).status == 0
    assert (marked_logs / "dplain-0" / INDEX).read_bytes() == bytes(8)


def test_a_change_of_one_partition_is_told_as_one(kseg: Kseg, marked_logs: Path) -> None:
    assert kseg("reindex", marked_logs).status == 0
    assert "reindex, 1 partition\n" in kseg("undo", "--list", marked_logs).out.decode()


CHANGES = {
    "reindex": ["reindex"],
    "recover": ["recover", "--full"],
    "an id": ["recover", "--mode", "salvage", "--topic-id", "AAAAAAAAQACAAAAAAAAAAg"],
    "retain": ["retain", "--retention-ms", "1", "--policy", "delete"],
    "a log start": ["retain", "--log-start-offset", "20"],
    "convert": ["convert", "--in-place", "--codec", "gzip"],
}


@pytest.fixture
def damaged(marked_logs: Path) -> Path:
    shutil.copytree(marked_logs / "dplain-0", marked_logs / "other-0")
    damage(marked_logs / "other-0")
    return marked_logs


def damage(partition: Path) -> None:
    last = max(partition.glob("*.log"))
    last.write_bytes(last.read_bytes() + bytes(100))


@pytest.mark.parametrize("words", CHANGES.values(), ids=CHANGES)
def test_undo_restores_it_with_the_partition(kseg: Kseg, damaged: Path, words: list[str]) -> None:
    path, skips = damaged / "dplain-0", ["--skip-damage"] * ("convert" in words)
    if words[0] in ("recover", "convert"):
        damage(path)
    before = files(damaged, kept=False)
    assert kseg(*words, *skips, path).status == 0
    assert files(damaged, kept=False) != before
    assert kseg("undo", path).status == 0
    assert files(damaged, kept=False) == before


@pytest.mark.sampled(4)
@pytest.mark.parametrize("second", ["other-0", "dplain-0", "."])
@pytest.mark.parametrize("first", [["recover", "--full"], ["retain", "--log-start-offset", "20"], ["reindex"]])
def test_changes_are_undone_newest_first(kseg: Kseg, damaged: Path, first: list[str], second: str) -> None:
    if first[0] == "recover":
        damage(damaged / "dplain-0")
    with unchanged(damaged):
        assert kseg(*first, damaged / "dplain-0").status == 0
        assert kseg("recover", "--mode", "salvage", "--rebuild-epochs", damaged / second).status == 0
        for path in (damaged / second, damaged / "dplain-0"):
            kseg("undo", path)


def test_undo_says_why_it_is_not_restored(kseg: Kseg, damaged: Path) -> None:
    assert kseg("recover", "--full", damaged / "dplain-0").status == 0
    assert kseg("recover", "--full", damaged / "other-0").status == 0
    kseg("undo", damaged / "dplain-0").expect(0, f"{MARKER}: is not restored: 'recover --mode broker' has changed")
    assert not (damaged / MARKER).exists()


def test_a_broker_that_ran_meanwhile_is_noticed(kseg: Kseg, damaged: Path) -> None:
    assert kseg("recover", "--full", damaged / "dplain-0").status == 0
    (damaged / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    kseg("undo", damaged / "dplain-0").expect(0, "is not restored: the log directory has changed since")
    assert not (damaged / MARKER).exists()


def test_a_linked_log_directory_has_no_pending_change(kseg: Kseg, marked_logs: Path) -> None:
    link = marked_logs.with_name("link")
    link.symlink_to(marked_logs)
    assert kseg("reindex", link / "dplain-0").status == 0
    assert [row["file"] for row in findings_of(kseg, link, code="pending-change")] == []


def test_a_changed_partition_in_an_archive_has_no_pending_change(kseg: Kseg, marked_logs: Path) -> None:
    assert kseg("reindex", marked_logs / "dplain-0").status == 0
    with tarfile.open(marked_logs.with_name("logs.tar"), "w") as archive:
        archive.add(marked_logs, "logs")
    kseg("verify", marked_logs.with_name("logs.tar")).expect(kseg("verify", marked_logs).status)


EPOCHS, METADATA = "leader-epoch-checkpoint", "partition.metadata"
OTHER_ID = "IkYnvhBNSWeHGzcaFR3aYg"


@pytest.fixture
def logs(tmp_path: Path, kseg: Kseg) -> Path:
    """A log directory with two partitions of one topic, both alike, in which nothing is left to be recovered."""
    path = Path(shutil.copytree(LOGS, tmp_path / "logs"))
    shutil.copytree(LOGS / "dplain-0", path / "dplain-1")
    assert kseg("recover", path).status == 0
    return path


def told(out: bytes) -> str:
    """The text without its line breaks."""
    return " ".join(out.decode().split())


def test_epochs_that_cannot_be_read_stop_and_are_rebuilt_where_asked(kseg: Kseg, logs: Path) -> None:
    epochs = logs / "dplain-0" / EPOCHS
    expected = epochs.read_bytes()
    assert expected == b"0\n1\n0 0\n"
    epochs.write_bytes(b"garbage")
    before = files(logs, kept=False)
    refused = kseg("recover", logs)
    assert (refused.status, "--rebuild-epochs" in refused.err, files(logs, kept=False)) == (3, True, before)
    assert "rebuilt from the batches" in told(kseg("recover", "--rebuild-epochs", logs).expect(0).out)
    assert epochs.read_bytes() == expected
    changed = [name for name, data in files(logs, kept=False).items() if before.get(name) != data]
    assert [name for name in changed if not name.endswith(".snapshot")] == [f"dplain-0/{EPOCHS}"]


def test_epochs_come_from_segments_that_are_not_scanned_too(kseg: Kseg, logs: Path) -> None:
    """The recovery point in the checkpoint lies at the end of the log."""
    epochs = logs / "dplain-0" / EPOCHS
    expected = epochs.read_bytes()
    epochs.unlink()
    (logs / ".kafka_cleanshutdown").touch()
    assert kseg("recover", logs).status == 0
    assert not epochs.exists()
    assert kseg("recover", "--rebuild-epochs", logs).status == 0
    assert epochs.read_bytes() == expected


@pytest.mark.parametrize(
    "content", [None, b"version: 0\n", b"garbage", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"]
)
@pytest.mark.parametrize("mode", ["broker", "salvage"])
def test_a_topic_id_is_taken_from_another_partition(kseg: Kseg, logs: Path, content: bytes | None, mode: str) -> None:
    path = logs / "dplain-0" / METADATA
    expected = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    done = kseg("recover", "--mode", mode, "--format", "json", logs).expect(0)
    assert path.read_bytes() == expected
    reasons = [row["reason"] for row in done.objects if row.get("file", "").endswith(METADATA)]
    assert reasons == ["the id of the topic, as in dplain-1"]


def test_without_another_partition_it_has_to_be_given(kseg: Kseg, logs: Path) -> None:
    path = logs / "dplain-0"
    shutil.rmtree(logs / "dplain-1")
    (path / METADATA).unlink()
    kseg("recover", path).expect(1, f"has no {METADATA}")
    (path / METADATA).write_bytes(b"garbage")
    before = files(logs, kept=False)
    refused = kseg("recover", path)
    assert (refused.status, "--topic-id UUID" in refused.err, files(logs, kept=False)) == (3, True, before)
    assert kseg("recover", "--topic-id", OTHER_ID, path).status == 0
    assert (path / METADATA).read_text() == f"version: 0\ntopic_id: {OTHER_ID}"


def test_partitions_that_disagree_tell_no_id(kseg: Kseg, logs: Path) -> None:
    shutil.copytree(logs / "dplain-1", logs / "dplain-2")
    (logs / "dplain-2" / METADATA).write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    (logs / "dplain-0" / METADATA).unlink()
    assert kseg("recover", logs / "dplain-0").status == 1
    assert not (logs / "dplain-0" / METADATA).exists()


def test_an_id_that_is_given_replaces_another(kseg: Kseg, logs: Path) -> None:
    assert kseg("recover", "--topic-id", OTHER_ID, logs).status == 0
    assert all(OTHER_ID in (path / METADATA).read_text() for path in logs.glob("dplain-*"))


def test_no_file_is_made_for_nodes_with_zookeeper(kseg: Kseg, logs: Path) -> None:
    (logs / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    for path in logs.glob(f"*/{METADATA}"):
        path.unlink()
    assert kseg("recover", logs).status == 0
    assert not list(logs.glob(f"*/{METADATA}"))
    (logs / "meta.properties").unlink()
    assert kseg("recover", logs / "dplain-0").status == 0


def test_one_id_is_not_for_several_topics(kseg: Kseg, logs: Path) -> None:
    shutil.copytree(logs / "dplain-0", logs / "orders-0")
    with unchanged(logs):
        assert kseg("recover", "--topic-id", OTHER_ID, logs).status == 2
        assert kseg("recover", "--topic-id", OTHER_ID, logs / "dplain-0", logs / "orders-0").status == 2


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_checkpoints_that_cannot_be_read_are_emptied_and_named(kseg: Kseg, logs: Path, name: str) -> None:
    (logs / name).write_bytes(b"garbage")
    done = kseg("recover", logs).expect(0)
    assert name in told(done.out)
    assert "cannot be read" in told(done.out)
    assert (logs / name).read_bytes() == b"0\n0\n"


@pytest.mark.parametrize("mode", ["broker", "salvage"])
@pytest.mark.parametrize("ending", ["delete", "stray"])
def test_a_topic_that_was_deleted_changes_no_entry_of_one_of_its_name(
    kseg: Kseg, logs: Path, mode: str, ending: str
) -> None:
    old = Path(shutil.copytree(logs / "dplain-0", logs / f"dplain-0.{'0' * 32}-{ending}"))
    for path in old.glob("*116.*"):
        path.unlink()
    with (old / "00000000000000000076.log").open("ab") as log:
        log.write(bytes(9))
    (logs / MARKER).unlink(missing_ok=True)
    before = {name: (logs / name).read_bytes() for name in OFFSET_CHECKPOINTS if (logs / name).exists()}
    kseg("recover", "--mode", mode, logs).expect(0)
    assert {name: (logs / name).read_bytes() for name in before} == before


def test_a_partition_that_is_named_alone_leaves_a_checkpoint_that_cannot_be_read(kseg: Kseg, logs: Path) -> None:
    """It has rows of other partitions, too."""
    (logs / "recovery-point-offset-checkpoint").write_bytes(b"garbage")
    (logs / "log-start-offset-checkpoint").write_text("0\n1\ndplain 0 99999\n")
    assert kseg("recover", logs / "dplain-1").status == 0
    assert (logs / "recovery-point-offset-checkpoint").read_bytes() == b"garbage"
    assert kseg("recover", logs).status == 0
    assert (logs / "log-start-offset-checkpoint").read_text() == "0\n1\ndplain 0 99999\n"


@pytest.mark.parametrize("mode", ["broker", "salvage"])
def test_a_topic_id_is_taken_from_the_clusters_metadata(kseg: Kseg, tmp_path: Path, mode: str) -> None:
    logs = Path(shutil.copytree(TESTDATA / "retention/4.3.1/before", tmp_path / "logs"))
    path = logs / "r-time-half-0" / METADATA
    expected = path.read_bytes()
    path.write_bytes(b"garbage")
    assert kseg("recover", "--mode", mode, path.parent).status == 0
    assert path.read_bytes() == expected
