"""What the records of internal topics say about other partitions."""

import shutil
import struct
from pathlib import Path

import pytest

from kseg.segment.survey import DEEP
from verification.log_directories import OTHER_ID, REAL, check, check_node, checkpoint, edited, second
from verification.log_directories import TOPIC_ID as DPLAIN
from verification.partitions import TESTDATA, sealed, spans

G_IN = "5fWvOFbBTmuE3g0phSshGw"
REMOTE = TESTDATA / "kafka-4.3.1" / "tiered" / "__remote_log_metadata-0"


@pytest.fixture
def node(tmp_path: Path) -> tuple[Path, Path]:
    """Commits in one log directory, and in another the log that they are about, with the offsets 0 to 149."""
    partition = shutil.copytree(REAL / "dplain-0", second(tmp_path, "__consumer_offsets-0") / "x").parent
    logs = tmp_path / "logs"
    logs.mkdir()
    (partition / "x").rename(logs / "g-in-0")
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy(REAL / name, logs)
    (logs / "g-in-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {G_IN}")
    return logs, edited(tmp_path / "second", node_id="1")


def test_commits_within_the_log(node: tuple[Path, Path]) -> None:
    assert not [code for code in check_node(*node, level=DEEP).codes if code.startswith("commit-")]


def test_a_commit_below_the_log_start(node: tuple[Path, Path]) -> None:
    (node[0] / "log-start-offset-checkpoint").write_text(checkpoint("g-in 0 8"))
    found = check_node(*node, level=DEEP).one("commit-below-start")
    assert (found.severity, found.file, found.offset) == ("info", str(node[0] / "g-in-0"), 7)
    assert found.details["waitingGroups"] == [{"group": "grp-manual", "offset": 7}]


def test_commits_beyond_the_end(node: tuple[Path, Path]) -> None:
    for path in (node[0] / "g-in-0").glob("00000000000000000116.*"):
        path.unlink()
    found = check_node(*node, level=DEEP)
    beyond = found.one("commit-beyond-end")
    assert (beyond.severity, beyond.offset, beyond.details["count"]) == ("warning", 148, 4)
    assert "the log ends at 116" in beyond.message
    assert "grp-0 148" in beyond.message
    assert "commit-beyond-end" not in check_node(*node).codes, "records are read at level deep"
    assert "commit-beyond-end" not in check_node(*node, level=DEEP, is_live=True).codes


@pytest.mark.parametrize("topic_id", [DPLAIN, OTHER_ID])
def test_commits_for_an_earlier_topic_of_the_name(node: tuple[Path, Path], topic_id: str) -> None:
    (node[0] / "g-in-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (node[0] / "log-start-offset-checkpoint").write_text(checkpoint("g-in 0 8"))
    assert "commit-below-start" not in check_node(*node, level=DEEP).codes


def events(target: Path, first: int) -> Path:
    """The remote log metadata from an offset on."""
    partition = target / REMOTE.name
    partition.mkdir()
    data = (REMOTE / f"{0:020}.log").read_bytes()
    (partition / f"{first:020}.log").write_bytes(data[spans(data)[first][0] :])
    return partition


def test_remote_segments_without_a_beginning(tmp_path: Path) -> None:
    assert check(REMOTE, DEEP).serious == []
    found = check(events(tmp_path, 3), DEEP).one("remote-metadata-incomplete")
    assert found.details == {"count": 1}
    assert found.message.startswith("1 remote segment has updates only: ")


@pytest.mark.parametrize(("timestamp", "is_told"), [(0, True), (1_790_000_132, True), (1_000_000, False)])
def test_timestamps_that_retention_takes_for_old(tmp_path: Path, timestamp: int, is_told: bool) -> None:
    partition = tmp_path / "dplain-0"
    partition.mkdir()
    for path in (REAL / partition.name).glob("*.log"):
        data = path.read_bytes()
        batches = [data[at : at + size] for at, size in spans(data)]
        stamps = struct.pack(">qq", timestamp, timestamp)
        (partition / path.name).write_bytes(b"".join(sealed(one[:27] + stamps + one[43:]) for one in batches))
    found = check(partition)
    assert ("early-timestamp" in found.serious) == is_told
    if is_told:
        assert "retention of 7 d 0 h deletes them at its next check" in found.one("early-timestamp").message


def test_a_topic_without_retention_keeps_old_timestamps(tmp_path: Path) -> None:
    partition = shutil.copytree(REAL / "dplain-0", tmp_path / "dplain-0")
    assert check_node(partition, server="log.retention.ms=-1").serious == []
