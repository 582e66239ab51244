"""What a log directory says of itself and of its partitions."""

import shutil
from pathlib import Path

import pytest

from kseg.errors import PathError
from kseg.recovery.options import node_file_problems
from kseg.verification.log_directories import topic_partition
from segment.segments import spans
from verification.log_directories import OTHER_ID, REAL, check, checkpoint, copied, kraft


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return copied(tmp_path)


def test_no_directory_around_a_partition_says_nothing(tmp_path: Path) -> None:
    shutil.copytree(REAL / "dplain-0", tmp_path / "dplain-0")
    assert check(tmp_path / "dplain-0").codes == []
    assert check(tmp_path).codes == []


def test_a_directory_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(PathError, match="nothing of Kafka's in it"):
        check(tmp_path)


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("replication-offset-checkpoint", "high-watermark-beyond-end"),
        ("log-start-offset-checkpoint", "log-start-beyond-end"),
        ("recovery-point-offset-checkpoint", "recovery-point-beyond-end"),
        ("cleaner-offset-checkpoint", "cleaner-checkpoint-beyond-end"),
    ],
)
def test_a_checkpoint_beyond_the_end(logs: Path, file: str, code: str) -> None:
    (logs / file).write_text(checkpoint("dplain 0 151"))
    for path in (logs, logs / "dplain-0"):  # a partition is judged by the directory around it
        found = check(path)
        assert (found.serious, found.one(code).offset) == ([code], 151)
        assert found.one(code).message.endswith("is 151, the log ends at 150")
    (logs / file).write_text(checkpoint("dplain 0 150"))
    assert check(logs).serious == []


@pytest.mark.parametrize("name", ["log-start-offset-checkpoint", "recovery-point-offset-checkpoint"])
@pytest.mark.parametrize(
    "text", ["zz", "1\n0\n", "0\n2\ndplain 0 1\n", "0\n1\ndplain 0\n", "0\n1\ndplain x 1\n", "0\n7\ndplain 0 99999\n"]
)
def test_a_checkpoint_that_no_broker_reads(logs: Path, name: str, text: str) -> None:
    (logs / name).write_text(text)
    found = check(logs)
    assert found.serious == ["unreadable-checkpoint"]
    assert found.one("unreadable-checkpoint").file == str(logs / name)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "stops_old", "stops_kraft"),
    [
        ("version=2\n", True, True), ("version=1\ncluster.id=x\n", True, True), ("version=1\nnode.id=1\n", True, True),
        ("version=1\nnode.id=x\ncluster.id=x\n", True, True), ("", False, True), ("garbage", False, True),
        ("\0" * 7, False, True), ("broker.id=1\n", False, True), ("version=0\ncluster.id=x\n", False, True),
        ("version=0\nbroker.id=1\ncluster.id=x\n", False, False),
    ],
)  # fmt: skip
def test_meta_properties_that_stop_a_broker(tmp_path: Path, text: str, stops_old: bool, stops_kraft: bool) -> None:
    for place, stops in ((kraft(tmp_path), stops_kraft), (copied(tmp_path / "old"), stops_old)):
        (place / "meta.properties").write_text(text)
        assert set(check(place).serious) == ({"bad-meta-properties"} if stops else set())
    assert len(list(node_file_problems(str(tmp_path / "logs")))) == stops_kraft


def test_who_needs_meta_properties(tmp_path: Path) -> None:
    for place in (logs := kraft(tmp_path), old := copied(tmp_path / "old")):
        assert check(place).serious == []
        (place / "meta.properties").unlink()
        assert check(place).serious == ["bad-meta-properties"]
    (old / "dplain-0" / "partition.metadata").unlink()  # which brokers write since 2.8
    assert (check(old).serious, check(logs).serious) == ([], ["bad-meta-properties"])


@pytest.mark.parametrize(
    "name", ["lost+found", "data", "dplain-", "-0", "x-y", "x-99999999999", "x-0-delete", "x-0-stray", "dplain-00"]
)
def test_a_directory_that_keeps_a_broker_from_starting(logs: Path, name: str) -> None:
    (logs / name).mkdir()
    found = check(logs)
    assert set(found.serious) <= {"broker-would-not-start", "segments-missing"}
    assert name in found.one("broker-would-not-start").message


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("remote-log-index-cache", []), (".kseg-x", []),
        ("__cluster_metadata-0", ["segments-missing"]), ("a.b_c-17", ["segments-missing"]),
    ],
)  # fmt: skip
def test_an_empty_directory_may_be_there_but_not_as_a_partition(logs: Path, name: str, codes: list[str]) -> None:
    (logs / name).mkdir()
    assert check(logs).serious == codes


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("orders-3", ("orders", 3)),
        ("a-b-12", ("a-b", 12)),
        ("t-0.0123456789abcdef0123456789abcdef-delete", ("t", 0)),
        ("t-0.x-future", ("t", 0)),
        ("t-0-future", None),
        ("t", None),
        ("t-2147483648", None),
    ],
)
def test_names_as_a_broker_reads_them(name: str, place: tuple[str, int] | None) -> None:
    assert topic_partition(name) == place


# partition.metadata


def test_another_topic_id_than_the_clusters_metadata_says(tmp_path: Path) -> None:
    logs = kraft(tmp_path, "__consumer_offsets-0")
    (logs / "__consumer_offsets-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    for path in (logs, logs / "__consumer_offsets-0"):
        assert check(path).serious == ["topic-id-mismatch"]
    assert "Y2rdlpQ9R2qbu70MnjhEQg" in check(logs).one("topic-id-mismatch").message


def test_partition_metadata_that_is_missing(logs: Path) -> None:
    """A KRaft node puts such a partition aside; one without records has not got so far."""
    (logs / "dplain-0" / "partition.metadata").unlink()
    assert check(logs).serious == ["no-partition-metadata"]
    (logs / "empty-0").mkdir()
    for suffix in (".log", ".index", ".timeindex"):
        (logs / "empty-0" / f"{0:020}{suffix}").touch()
    assert check(logs / "empty-0").serious == []
    (logs / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=x\n")
    assert check(logs).serious == []


# __cluster_metadata


def test_damaged_metadata_knows_no_topic_to_be_gone(tmp_path: Path) -> None:
    logs = kraft(tmp_path)
    shutil.copytree(REAL / "dplain-0", logs / "dplain-0")
    newest = logs / "__cluster_metadata-0" / f"{455:020}-{2:010}.checkpoint"
    newest.write_bytes(newest.read_bytes()[:3000])
    assert "unknown-topic" in check(logs).codes  # an older snapshot and the log have all
    for snapshot in (logs / "__cluster_metadata-0").glob("*-0000000001.checkpoint"):
        snapshot.unlink()
    (logs / "__cluster_metadata-0" / f"{0:020}.log").unlink()
    assert "unknown-topic" not in check(logs).codes


def test_a_snapshot_that_is_cut_short(tmp_path: Path) -> None:
    logs = kraft(tmp_path)
    snapshot = logs / "bootstrap.checkpoint"
    data = snapshot.read_bytes()
    sizes = [at + size for at, size in spans(data)]
    for left, told, position in (
        (data[: sizes[-2]], "no footer", sizes[-2]), (data[sizes[0] :], "no header", 0), (b"", "no header", 0),
        (data[:-1], "", sizes[-2]), (data[: sizes[0] + 9], "", sizes[0]),
    ):  # fmt: skip
        snapshot.write_bytes(left)
        found = check(logs).one("bad-metadata-snapshot")
        assert (told in found.message, found.position, found.file) == (True, position, str(snapshot))


def test_a_log_start_that_no_snapshot_reaches(tmp_path: Path) -> None:
    metadata = kraft(tmp_path) / "__cluster_metadata-0"
    for path in metadata.glob("0000000000000000000*.log"):
        path.unlink()
    assert "broker-would-not-start" not in check(metadata).codes
    for path in metadata.glob("*.checkpoint"):
        path.unlink()
    assert check(metadata).one("broker-would-not-start").offset == 164
