"""``kseg recover`` where side files are missing or cannot be read: rebuilt, or named."""

import json
import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

SOURCE = TESTDATA / "log-directories/4.3.1/logs"
EPOCHS, METADATA = "leader-epoch-checkpoint", "partition.metadata"
OTHER_ID = "IkYnvhBNSWeHGzcaFR3aYg"


@pytest.fixture
def logs(tmp_path: Path, kseg: Kseg) -> Path:
    """A log directory with two partitions of one topic, both alike, in which nothing is left to be recovered."""
    path = tmp_path / "logs"
    shutil.copytree(SOURCE, path)
    shutil.copytree(SOURCE / "dplain-0", path / "dplain-1")
    assert kseg("recover", path).status == 0
    return path


def files(directory: Path) -> dict[str, bytes]:
    kept = (path for path in directory.rglob("*") if path.is_file() and ".kseg" not in str(path))
    return {str(path.relative_to(directory)): path.read_bytes() for path in kept if path.name != ".lock"}


def told(out: bytes) -> str:
    """The text without its line breaks."""
    return " ".join(out.decode().split())


def test_epochs_that_cannot_be_read_stop_and_are_rebuilt_where_asked(kseg: Kseg, logs: Path) -> None:
    epochs = logs / "dplain-0" / EPOCHS
    expected = epochs.read_bytes()
    assert expected == b"0\n1\n0 0\n"
    epochs.write_bytes(b"garbage")
    before = files(logs)
    refused = kseg("recover", logs)
    assert (refused.status, "--rebuild-epochs" in refused.err, files(logs)) == (3, True, before)
    done = kseg("recover", "--rebuild-epochs", logs)
    assert done.status == 0
    assert "rebuilt from the batches" in told(done.out)
    assert epochs.read_bytes() == expected
    changed = [name for name, data in files(logs).items() if before.get(name) != data]
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


def test_epochs_of_a_partition_that_is_named_are_made_anew(kseg: Kseg, logs: Path) -> None:
    path = logs / "dplain-0"
    expected = (path / EPOCHS).read_bytes()
    (path / EPOCHS).write_bytes(b"0\n1\n7 3\n")
    assert kseg("recover", path).status == 0
    assert (path / EPOCHS).read_bytes() == b"0\n1\n7 3\n"
    assert kseg("recover", "--rebuild-epochs", path).status == 0
    assert (path / EPOCHS).read_bytes() == expected


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
    done = kseg("recover", "--mode", mode, "--format", "json", logs)
    assert done.status == 0
    assert path.read_bytes() == expected
    reasons = [
        row["reason"] for row in map(json.loads, done.out.splitlines()) if row.get("file", "").endswith(METADATA)
    ]
    assert reasons == ["the id of the topic, as in dplain-1"]


def test_without_another_partition_it_has_to_be_given(kseg: Kseg, logs: Path) -> None:
    path = logs / "dplain-0"
    shutil.rmtree(logs / "dplain-1")
    (path / METADATA).unlink()
    named = kseg("recover", path)
    assert (named.status, f"has no {METADATA}" in named.err) == (1, True)
    (path / METADATA).write_bytes(b"garbage")
    before = files(logs)
    refused = kseg("recover", path)
    assert (refused.status, "--topic-id UUID" in refused.err, files(logs)) == (3, True, before)
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


@pytest.mark.parametrize("topic_id", ["", "abc", "A" * 22, "IkYnvhBNSWeHGzcaFR3aYg+"])
def test_what_is_no_topic_id_is_refused(kseg: Kseg, logs: Path, topic_id: str) -> None:
    assert kseg("recover", "--topic-id", topic_id, logs / "dplain-0").status == 2


def test_one_id_is_not_for_several_topics(kseg: Kseg, logs: Path) -> None:
    shutil.copytree(logs / "dplain-0", logs / "orders-0")
    before = files(logs)
    assert kseg("recover", "--topic-id", OTHER_ID, logs).status == 2
    assert kseg("recover", "--topic-id", OTHER_ID, logs / "dplain-0", logs / "orders-0").status == 2
    assert files(logs) == before


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
)
def test_checkpoints_that_cannot_be_read_are_emptied_and_named(kseg: Kseg, logs: Path, name: str) -> None:
    (logs / name).write_bytes(b"garbage")
    done = kseg("recover", logs)
    assert done.status == 0
    assert name in told(done.out)
    assert "cannot be read" in told(done.out)
    assert (logs / name).read_bytes() == b"0\n0\n"


def test_a_partition_that_is_named_alone_leaves_a_checkpoint_that_cannot_be_read(kseg: Kseg, logs: Path) -> None:
    """It has rows of other partitions, too."""
    (logs / "recovery-point-offset-checkpoint").write_bytes(b"garbage")
    (logs / "log-start-offset-checkpoint").write_text("0\n1\ndplain 0 99999\n")
    assert kseg("recover", logs / "dplain-1").status == 0
    assert (logs / "recovery-point-offset-checkpoint").read_bytes() == b"garbage"
    assert kseg("recover", logs).status == 0
    assert (logs / "log-start-offset-checkpoint").read_text() == "0\n1\ndplain 0 99999\n"


def test_the_marker_stays_where_nothing_is_changed(kseg: Kseg, logs: Path) -> None:
    (logs / ".kafka_cleanshutdown").write_bytes(b"")
    before = files(logs)
    assert kseg("recover", logs).status == 0
    assert files(logs) == before


@pytest.mark.parametrize("mode", ["broker", "salvage"])
def test_a_topic_id_is_taken_from_the_clusters_metadata(kseg: Kseg, tmp_path: Path, mode: str) -> None:
    logs = Path(shutil.copytree(TESTDATA / "retention/4.3.1/before", tmp_path / "logs"))
    path = logs / "r-time-half-0" / METADATA
    expected = path.read_bytes()
    path.write_bytes(b"garbage")
    assert kseg("recover", "--mode", mode, path.parent).status == 0
    assert path.read_bytes() == expected
