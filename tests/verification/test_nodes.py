"""What a node's start on all its log directories would do."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import Kseg
from kseg.decoders.framed import FramedRecord, framed
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.errors import PathError
from kseg.formats.record_batch import build_batch
from kseg.node import cluster_metadata
from kseg.output.findings import start_text, state_row
from kseg.segment.survey import DEEP, QUICK
from kseg.verification import directory_tree
from kseg.verification.report import AssignedPartition
from segment.segments import TESTDATA, entries, sealed, spans
from verification.log_directories import OTHER_ID, REAL, check, check_node, checkpoint, copied, edited, kraft, second
from verification.log_directories import TOPIC_ID as DPLAIN
from verification.partitions import Found

# What the records of internal topics say about other partitions.

G_IN = "5fWvOFbBTmuE3g0phSshGw"


@pytest.fixture
def commits(tmp_path: Path) -> tuple[Path, Path]:
    """Commits in one log directory, and in another the log that they are about, with the offsets 0 to 149."""
    partition = shutil.copytree(REAL / "dplain-0", second(tmp_path, "__consumer_offsets-0") / "x").parent
    logs = tmp_path / "logs"
    logs.mkdir()
    (partition / "x").rename(logs / "g-in-0")
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy(REAL / name, logs)
    (logs / "g-in-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {G_IN}")
    return logs, edited(tmp_path / "second", node_id="1")


def test_commits_beyond_the_end(commits: tuple[Path, Path]) -> None:
    assert not [code for code in check_node(*commits, level=DEEP).codes if code.startswith("commit-")]
    for path in (commits[0] / "g-in-0").glob("00000000000000000116.*"):
        path.unlink()
    found = check_node(*commits, level=DEEP)
    beyond = found.one("commit-beyond-end")
    assert (beyond.severity, beyond.offset, beyond.details["count"]) == ("warning", 148, 4)
    assert "the log ends at 116" in beyond.message
    assert "grp-0 148" in beyond.message
    assert "commit-beyond-end" not in check_node(*commits).codes, "records are read at level deep"
    assert "commit-beyond-end" not in check_node(*commits, level=DEEP, is_live=True).codes


def test_commits_below_the_start_of_all_copies(commits: tuple[Path, Path], tmp_path: Path) -> None:
    """A consumer reads on from the copy that has its offset."""
    other = edited(Path(shutil.copytree(commits[0], tmp_path / "third")), node_id="2")
    (commits[0] / "log-start-offset-checkpoint").write_text(checkpoint("g-in 0 149"))
    assert "commit-below-start" in check_node(*commits, level=DEEP).codes
    assert "commit-below-start" not in check_node(*commits, other, level=DEEP).codes


@pytest.mark.parametrize("topic_id", [DPLAIN, OTHER_ID])
def test_commits_for_an_earlier_topic_of_the_name(commits: tuple[Path, Path], topic_id: str) -> None:
    (commits[0] / "g-in-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (commits[0] / "log-start-offset-checkpoint").write_text(checkpoint("g-in 0 8"))
    assert "commit-below-start" not in check_node(*commits, level=DEEP).codes


@pytest.mark.parametrize(("timestamp", "is_told"), [(0, True), (1_790_000_132, True), (1_000_000, False)])
def test_timestamps_that_retention_takes_for_old(tmp_path: Path, timestamp: int, is_told: bool) -> None:
    partition = tmp_path / "dplain-0"
    partition.mkdir()
    for path in (REAL / partition.name).glob("*.log"):
        stamps = struct.pack(">qq", timestamp, timestamp)
        batches = entries(path.read_bytes())
        (partition / path.name).write_bytes(b"".join(sealed(one, 27, stamps) for one in batches))
    found = check(partition)
    assert ("early-timestamp" in found.serious) == is_told
    if is_told:
        assert "retention of 7 d 0 h deletes them at its next check" in found.one("early-timestamp").message


def test_a_topic_without_retention_keeps_old_timestamps(tmp_path: Path) -> None:
    partition = shutil.copytree(REAL / "dplain-0", tmp_path / "dplain-0")
    assert check_node(partition, server="log.retention.ms=-1").serious == []


OFFSETS, MORE_OFFSETS, STATES = "__consumer_offsets-0", "__consumer_offsets-1", "__transaction_state-0"


@pytest.fixture
def node(tmp_path: Path) -> tuple[Path, Path]:
    """The two log directories of a node."""
    return kraft(tmp_path, OFFSETS), second(tmp_path, MORE_OFFSETS)


def starts(found: Found) -> list[bool | None]:
    return [start.starts for start in found.report.starts]


@pytest.mark.parametrize("server", [None, "node.id=1"])
def test_two_directories_of_a_node(node: tuple[Path, Path], server: str | None) -> None:
    a, b = node
    assert check_node(a, b, server=server).serious == []
    found = check_node(b, a, server=server)
    assert found.serious == []
    (start,) = found.report.starts
    assert (start.starts, start.because, start.recovers, start.sets_aside, start.deletes) == (True, [], [], [], [])
    assert start.log_directories == [str(b), str(a)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("with_server", [False, True])
@pytest.mark.parametrize(
    "properties",
    [
        {"cluster_id": "BBBBBBBBQACBBBBBBBBBBA"},
        {"node_id": "9"},
        {"directory_id": "pibF-sA9R7uFamv8XAeP0w"},
        {"directory_id": "AAAAAAAAAAAAAAAAAAAAYw"},
    ],
    ids=str,
)
def test_properties_that_differ(node: tuple[Path, Path], properties: dict[str, str], with_server: bool) -> None:
    a, b = node
    edited(b, **properties)
    found = check_node(a, b, server="node.id=1" if with_server else None)
    mismatch = found.one("node-identity-mismatch")
    assert (mismatch.file, mismatch.severity) == (str(b / "meta.properties"), "error")
    assert next(iter(properties.values())) in mismatch.message
    (start,) = found.report.starts
    assert not start.starts
    assert mismatch.message in start.because[0]


def test_properties_that_a_broker_completes_or_does_not_compare(node: tuple[Path, Path]) -> None:
    edited(node[1], directory_id="", version="0", node_id="", broker_id="1")
    assert check_node(*node).serious == []


def test_without_the_id_of_the_node_it_is_not_known_what_is_its_own(node: tuple[Path, Path]) -> None:
    for logs in node:
        edited(logs, node_id="1 ")
    (start,) = check_node(*node).report.starts
    assert (start.starts, start.sets_aside, start.creates) == (False, None, None)
    assert check_node(*node, server="node.id=1").report.starts[0].sets_aside == []


def test_another_node_in_server_properties(node: tuple[Path, Path]) -> None:
    found = check_node(node[0], server="node.id=7")
    assert set(found.serious) >= {"node-identity-mismatch"}
    assert "server.properties is 7" in found.one("node-identity-mismatch").message


def test_a_failure_below_a_longer_name_is_another_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    a, b = kraft(tmp_path, OFFSETS), kraft(tmp_path / "other", OFFSETS).rename(tmp_path / "logs2")
    edited(b, node_id="2", directory_id="CBBBBBBBQACAAAAAAAAAAQ")
    judge = directory_tree.judge_partition

    def judge_readable(directory: str, *rest: Any) -> object:
        if directory == str(b / OFFSETS):
            raise PathError(f"{directory}: Permission denied")
        return judge(directory, *rest)

    monkeypatch.setattr(directory_tree, "judge_partition", judge_readable)
    found = check_node(a, b)
    assert (len(found.report.failures), starts(found)) == (1, [True, None])


def test_nodes_that_are_checked_in_one_go(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    a, b = kraft(tmp_path / "a", OFFSETS), kraft(tmp_path / "b", OFFSETS)
    c = second(tmp_path / "b", MORE_OFFSETS)
    edited(b, cluster_id="BBBBBBBBQACBBBBBBBBBBA", node_id="2", directory_id="CBBBBBBBQACAAAAAAAAAAQ")
    edited(c, cluster_id="BBBBBBBBQACBBBBBBBBBBA", node_id="2")
    found = check_node(a, b, c)
    assert {finding.code for finding in found.findings if finding.severity == "error"} == set()
    assert [start.log_directories for start in found.report.starts] == [[str(a)], [str(b), str(c)]]


def test_replicas_of_a_partition_are_of_different_nodes(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    a, b = copied(tmp_path), edited(copied(tmp_path / "other"), node_id="2", directory_id=OTHER_ID)
    assert check_node(a, b).serious == []


@pytest.mark.parametrize("with_server", [False, True])
def test_a_partition_in_two_directories(node: tuple[Path, Path], with_server: bool) -> None:
    a, b = node
    shutil.copytree(a / OFFSETS, b / OFFSETS)
    found = check_node(a, b, server="node.id=1" if with_server else None)
    assert found.one("broker-would-not-start").file == str(b / OFFSETS)
    assert starts(found) == [False]


def test_a_partition_in_two_directories_that_is_set_aside(node: tuple[Path, Path]) -> None:
    for logs in node:
        shutil.copytree(REAL / "dplain-0", logs / "dplain-0")
    found = check_node(*node)
    assert "broker-would-not-start" not in found.codes
    assert found.report.starts[0].starts
    assert found.report.starts[0].sets_aside == [str(logs / "dplain-0") for logs in node]


def test_a_copy_on_its_way_to_another_directory(node: tuple[Path, Path]) -> None:
    a, b = node
    shutil.copytree(a / OFFSETS, b / f"{OFFSETS}.0123456789abcdef0123456789abcdef-future")
    assert check_node(a, b).serious == []


@pytest.mark.parametrize(("lost", "starts_on"), [(0, True), (1, None), (2, None)])
def test_a_snapshot_that_lacks_its_end(node: tuple[Path, Path], lost: int, starts_on: bool | None) -> None:
    """A broker was seen to start without the footer; what stands in data batches that are lost is not known."""
    newest = next(path for logs in node for path in logs.glob(f"__cluster_metadata-0/{455:020}-*.checkpoint"))
    data = newest.read_bytes()
    position, size = spans(data)[-1 - lost]
    newest.write_bytes(data[: position + size])
    assert starts(check_node(*node)) == [starts_on]


def test_metadata_in_two_directories(kseg: Kseg, node: tuple[Path, Path], tmp_path: Path) -> None:
    """A new snapshot would not bring it to its place."""
    a, b = node
    (tmp_path / "server.properties").write_text(f"node.id=1\nlog.dirs={b},{a}")
    rows = kseg("verify", "--format", "json", tmp_path / "server.properties").objects
    assert [row["details"] for row in rows if row.get("code") == "broker-would-not-start"] == [{}]
    shutil.copytree(a / "__cluster_metadata-0", b / "__cluster_metadata-0")
    found = check_node(a, b, server=f"node.id=1\nlog.dirs={b},{a}")
    assert found.one("broker-would-not-start").file == str(a / "__cluster_metadata-0")


@pytest.mark.parametrize(("state", "starts_on"), [("missing", False), ("empty", False), ("file", True)])
def test_a_missing_log_directory(node: tuple[Path, Path], tmp_path: Path, state: str, starts_on: bool) -> None:
    """A file in its place goes offline as an unreadable directory does."""
    absent = tmp_path / "third"
    if state == "empty":
        absent.mkdir()
    elif state == "file":
        absent.write_bytes(b"")
    found = check_node(server=f"node.id=1\nlog.dirs={node[0]},{absent},{node[1]}")
    assert found.one("bad-meta-properties").file.startswith(str(absent))
    assert starts(found) == [starts_on]


def test_the_directory_of_the_metadata_is_missing(node: tuple[Path, Path], tmp_path: Path) -> None:
    found = check_node(node[1], f"{tmp_path}/absent/", server=f"log.dirs={node[1]}\nmetadata.log.dir={tmp_path}/absent")
    assert found.one("bad-meta-properties").file == f"{tmp_path}/absent/"
    assert not found.report.failures


def test_a_disk_of_a_node_without_files_of_its_own(node: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told however the disks are named, if the configuration has it; copies of partitions are none."""
    for path in filter(Path.is_file, node[1].iterdir()):
        path.unlink()
    assert "bad-meta-properties" not in check_node(node[1]).codes
    monkeypatch.chdir(node[1].parent)
    server = f"node.id=1\nlog.dirs={node[0]},{node[1]}"
    for paths in ([], node, node[:1], node[1:], [f"{node[1].name}/", node[0]]):
        found = check_node(*paths, server=server)
        assert Path(found.one("bad-meta-properties").file).resolve() == node[1], paths
        assert starts(found) == [False]


def test_no_log_directory_is_there(tmp_path: Path) -> None:
    found = check_node(server=f"node.id=1\nlog.dirs={tmp_path}/a,{tmp_path}/b")
    assert found.serious == ["bad-meta-properties"] * 2
    (start,) = found.report.starts
    assert (start.starts, start.sets_aside) == (False, [])
    assert start_text(start).startswith(f"node of {tmp_path}/a, {tmp_path}/b: does not start, because {tmp_path}/a: ")


def test_paths_are_compared_by_what_they_name(node: tuple[Path, Path]) -> None:
    edited(node[1], node_id="9")
    assert check_node(f"{node[0]}/", f"{node[1]}/").serious == ["node-identity-mismatch"]
    assert starts(check_node(node[0], f"{node[0]}/")) == [True]


def test_the_line_about_a_start(node: tuple[Path, Path]) -> None:
    logs = edited(node[0], node_id="99")
    (logs / ".kafka_cleanshutdown").unlink()
    (start,) = check_node(logs).report.starts
    recovered, aside = f"recovers 1 partition ({OFFSETS})", f"sets aside as -stray 1 partition ({OFFSETS})"
    releases = "its metadata are for Kafka 4.3 to 4.4"
    assert start_text(start) == f"node of {logs}: starts; {recovered}; {aside}; {releases}"
    more = start._replace(starts=False, because=list("abcde"), recovers=[], sets_aside=None, deleted_files=3)
    assert start_text(more) == (
        f"node of {logs}: does not start, because a; b; c; 2 more reasons; "
        "which it sets aside as -stray is not known; deletes 3 files (.deleted); "
        f"{releases}"
    )
    assert start_text(more._replace(starts=None, because=["x"])).startswith(f"node of {logs}: start not judged: x; ")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("which", "name", "text", "starts_on"),
    [
        # The node goes on without an unreadable directory, unless it is that of the metadata.
        (0, "meta.properties", "version=2\n", False), (1, "meta.properties", "version=2\n", True),
        (1, "meta.properties", None, False),
        # A broken partition.metadata takes its directory offline, too; what its reader does not foresee ends the node.
        *((1, f"{MORE_OFFSETS}/partition.metadata", text, False) for text in (
            "version: 0", "", "version: 0\ntopic_id: x", "version: x\ntopic_id: x",
        )),
        *((1, f"{MORE_OFFSETS}/partition.metadata", text, True) for text in (
            "version: 0\n\n", f"version: x\ntopic_id: {OTHER_ID}", f"version: 0\ntopic_id: {'A' * 22}",
        )),
    ],
)  # fmt: skip
def test_a_file_that_no_broker_reads(
    node: tuple[Path, Path], which: int, name: str, text: str | None, starts_on: bool
) -> None:
    path = node[which] / name
    path.unlink() if text is None else path.write_text(text)
    found = check_node(*node)
    assert f"bad-{path.name.replace('.', '-')}" in found.codes
    assert starts(found) == [starts_on]


def test_partitions_without_a_topic_in_the_other_directory(node: tuple[Path, Path]) -> None:
    a, b = node
    shutil.copytree(REAL / "dplain-0", b / "dplain-0")
    (b / MORE_OFFSETS / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    found = check_node(a, b)
    assert sorted(found.serious) == ["topic-id-mismatch", "unknown-topic"]
    of_another = found.one("topic-id-mismatch")  # to take its records into the topic of today is a decision
    assert (of_another.repair, of_another.needs) == (None, "decision")
    assert of_another.details["otherRepair"][:3] == ["kseg", "recover", "--topic-id"]
    assert found.report.starts[0].sets_aside == [str(b / MORE_OFFSETS), str(b / "dplain-0")]


def test_what_a_start_recovers_and_deletes(node: tuple[Path, Path]) -> None:
    a, b = node
    (a / ".kafka_cleanshutdown").unlink()
    shutil.copytree(a / OFFSETS, a / f"{STATES}.0123456789abcdef0123456789abcdef-delete")
    next((b / MORE_OFFSETS).glob("*.index")).unlink()
    (start,) = check_node(a, b).report.starts
    assert start.starts
    assert start.recovers == [str(a / OFFSETS), str(b / MORE_OFFSETS)]
    assert start.deletes == [str(a / f"{STATES}.0123456789abcdef0123456789abcdef-delete")]


def test_nothing_is_called_fine_that_was_not_judged(node: tuple[Path, Path], tmp_path: Path) -> None:
    assert starts(check_node(*node, level=QUICK)) == [None]
    (start,) = check_node(node[1]).report.starts
    assert (start.starts, start.sets_aside) == (None, None)
    assert "__cluster_metadata-0 is not here" in start.because[0]
    assert starts(check_node(*node, is_live=True)) == []
    shutil.copytree(node[0] / OFFSETS, tmp_path / OFFSETS)
    assert starts(check_node(tmp_path / OFFSETS)) == []


# Lost metadata


def test_metadata_that_are_gone_on_a_controller(node: tuple[Path, Path]) -> None:
    shutil.rmtree(node[0] / "__cluster_metadata-0")
    text = f"node.id=1\nlog.dirs={node[0]},{node[1]}\nprocess.roles="
    assert check_node(server=text + "broker,controller").one("metadata-lost").severity == "error"
    assert check_node(server=text + "broker").serious == []


def test_metadata_that_lack_most_topics(tmp_path: Path) -> None:
    """One finding, however many partitions there are."""
    logs = kraft(tmp_path, OFFSETS)
    for name in ("a-0", "b-0", "b-1"):
        shutil.copytree(REAL / "dplain-0", logs / name)
    found = check_node(logs)
    assert "unknown-topic" not in found.codes
    assert "lacks 2 of the 3 topics" in found.one("metadata-lost").message
    assert found.report.starts[0].sets_aside == [str(logs / name) for name in ("a-0", "b-0", "b-1")]


def test_damaged_metadata_do_not_tell_what_is_assigned(tmp_path: Path) -> None:
    logs = kraft(tmp_path, OFFSETS)
    metadata = logs / "__cluster_metadata-0"
    for path in metadata.glob("*.checkpoint"):
        path.unlink()
    data = bytearray((metadata / f"{0:020}.log").read_bytes())
    data[data.index(b"__consumer_offsets")] ^= 1
    (metadata / f"{0:020}.log").write_bytes(data)
    found = check_node(logs)
    assert not {"unknown-topic", "unassigned-replica", "unknown-node"} & set(found.codes)
    start = found.report.starts[0]
    assert start.sets_aside == [str(logs / OFFSETS)], "the only voter cuts its log off there"
    assert len(names_of(start.creates)) < ASSIGNED
    assert not any(name.startswith("__consumer_offsets-") for name in names_of(start.creates))
    edited(logs, node_id="7")
    assert check_node(logs).report.starts[0].sets_aside is None, "others have the rest"


@pytest.mark.parametrize("number", [0, 1])
def test_a_metadata_log_without_one_of_its_segments(tmp_path: Path, number: int) -> None:
    logs = kraft(tmp_path)
    metadata = logs / "__cluster_metadata-0"
    for path in metadata.glob("*.checkpoint"):
        path.unlink()
    sorted(metadata.glob("*.log"))[number].unlink()
    shutil.copytree(REAL / "dplain-0", logs / "dplain-0")
    found = check_node(logs)
    assert "unknown-topic" not in found.codes
    assert found.report.totals.errors
    assert found.report.starts[0].sets_aside is None


# The partitions that the metadata assign to the node, and no directory has.

ASSIGNED = 41
"""Partitions of INTERNAL, all in the log directory of the fixture `node` that has the metadata."""


def names_of(partitions: list[AssignedPartition] | None) -> list[str]:
    assert partitions is not None
    return [each.partition for each in partitions]


@pytest.mark.parametrize("has_server", [False, True])
def test_partitions_that_a_start_creates(node: tuple[Path, Path], has_server: bool) -> None:
    a, b = node
    server = f"node.id=1\nlog.dirs={a},{b}" if has_server else None
    (start,) = check_node(*node, server=server).report.starts
    created = names_of(start.creates)
    assert len(created) == len(set(created)) == ASSIGNED - 2
    assert not {OFFSETS, MORE_OFFSETS} & set(created)
    assert {each.log_directory for each in start.creates or ()} == {str(a)}
    assert start.lacks == []
    assert f"; creates empty {ASSIGNED - 2} partitions (" in start_text(start)
    row = state_row(start)
    assert row["creates"][0] == {"partition": created[0], "logDirectory": str(a)}
    assert (len(row["creates"]), row["lacks"]) == (ASSIGNED - 2, [])


def test_a_partition_of_another_topic_is_created_anew(node: tuple[Path, Path]) -> None:
    (node[1] / MORE_OFFSETS / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    (start,) = check_node(*node).report.starts
    assert start.sets_aside == [str(node[1] / MORE_OFFSETS)]
    assert MORE_OFFSETS in names_of(start.creates)


def test_what_is_in_a_directory_that_is_not_here_is_not_known(node: tuple[Path, Path]) -> None:
    a, b = node
    edited(a, directory_id=OTHER_ID)
    for found in (check_node(a), check_node(b)):
        assert (found.report.starts[0].creates, found.report.starts[0].lacks) == (None, [])


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda disk: None, None),
        (shutil.rmtree, "bad-meta-properties"),
        (lambda disk: edited(disk, cluster_id="another"), "node-identity-mismatch"),
        (lambda disk: (disk / "b").mkdir(), "broker-would-not-start"),
        (lambda disk: shutil.copytree(disk.parent / "logs" / OFFSETS, disk / OFFSETS), "broker-would-not-start"),
    ],
)
def test_all_disks_judge_a_start(damage: Callable[[Path], object], code: str | None, node: tuple[Path, Path]) -> None:
    """Only one of them is checked, so that the node starts is never said."""
    a, b = node
    damage(b)
    found = check_node(a, server=f"node.id=1\nlog.dirs={a},{b}")
    (start,) = found.report.starts
    assert start.log_directories == [str(a), str(b)]
    assert start.starts is (None if code is None else False)
    if code is None:
        assert start.because == [f"the partitions in {b} were not checked: give all log directories of the node"]
        assert (found.serious, start.sets_aside, len(names_of(start.creates))) == ([], [], ASSIGNED - 2)
    else:
        assert str(b) in found.one(code).message + found.one(code).file
        assert start.because[0].startswith(found.one(code).file)


def test_a_start_on_fewer_disks_than_are_registered_is_not_judged(node: tuple[Path, Path]) -> None:
    change = {"brokerId": 1, "brokerEpoch": 320, "fenced": 0, "inControlledShutdown": 0, "cordonedLogDirs": None}
    change["logDirs"] = ["pibF-sA9R7uFamv8XAeP0w", OTHER_ID]
    record = framed(FramedRecord(17, 2, change), CLUSTER_METADATA)
    with max((node[0] / "__cluster_metadata-0").glob("*.log")).open("ab") as file:
        file.write(build_batch(458, 1, 2, [(None, record)]))
    assert starts(check_node(*node)) == [True]
    (start,) = check_node(node[0]).report.starts
    assert start.starts is None
    assert "1 more log directory" in start.because[0]


def test_what_may_be_in_an_offline_directory_is_not_created(node: tuple[Path, Path], tmp_path: Path) -> None:
    a, gone = node[0], tmp_path / "gone"
    server = f"node.id=1\nlog.dirs={a},{gone}"
    (start,) = check_node(a, gone, server=server).report.starts
    assert (len(names_of(start.creates)), start.lacks) == (ASSIGNED - 1, [])
    edited(a, directory_id=OTHER_ID)
    (start,) = check_node(a, gone, server=server).report.starts
    assert (start.creates, len(start.lacks), start.lacks[0].log_directory) == ([], ASSIGNED - 1, None)


def test_what_damaged_metadata_assign(node: tuple[Path, Path]) -> None:
    log = max((node[0] / "__cluster_metadata-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-5])
    (start,) = check_node(*node).report.starts
    assert (len(names_of(start.creates)), start.sets_aside) == (ASSIGNED - 2, []), (
        "of the only voter but the last batch"
    )
    (start,) = check_node(*node, server="node.id=1\nprocess.roles=broker").report.starts
    assert (start.creates, start.lacks, start.sets_aside) == (None, [], None)


# The voters of the metadata log, and what the node's files say of them.

VOTER = "H2bQkJEeTKO7Ax3ZgWhC_A"
"""The directory.id of the voter of testdata/log-directories/4.4.0, whose node.id is 1."""


@pytest.fixture(params=["4.4.0/logs", "4.3.1-rounds/clean"])
def controller(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The log directory of the only voter: the log has the voters, or server.properties."""
    logs = TESTDATA / "log-directories" / request.param
    return Path(shutil.copytree(logs, tmp_path / "logs", ignore=shutil.ignore_patterns("[a-z]*-[0-9]")))


def changed_state(logs: Path, **changes: Any) -> None:
    path = logs / "__cluster_metadata-0" / "quorum-state"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def quorum_of(found: Found) -> list[tuple[str, str, str]]:
    return [(each.code, each.severity, each.message) for each in found.findings
            if each.code in ("quorum-mismatch", "node-identity-mismatch")]  # fmt: skip


STATIC = "node.id=1\nprocess.roles=controller\ncontroller.quorum.voters=1@localhost:9093"


@pytest.mark.parametrize(
    "changes", [{}, {"leaderEpoch": 7}, {"leaderEpoch": 7, "leaderId": -1, "votedId": 1}, {"leaderId": -1}], ids=str
)
def test_a_vote_or_a_later_epoch_is_no_contradiction(controller: Path, changes: dict[str, Any]) -> None:
    changed_state(controller, **changes)
    assert quorum_of(check_node(controller)) == quorum_of(check_node(controller, server=STATIC)) == []


@pytest.mark.parametrize("name", ["leaderId", "votedId"])
def test_a_node_that_is_no_voter(controller: Path, name: str) -> None:
    changed_state(controller, **{name: 8})
    wanted = [("quorum-mismatch", "warning", f"{name} is 8, the voters are 1")]
    assert quorum_of(check_node(controller)) == quorum_of(check_node(controller, server=STATIC)) == wanted
    assert quorum_of(check_node(controller, level=QUICK)) == []


def test_voters_that_are_not_those_of_server_properties(controller: Path) -> None:
    server = "node.id=1\ncontroller.quorum.voters=1@a:1,2@b:1"
    is_dynamic = "votedDirectoryId" in (controller / "__cluster_metadata-0" / "quorum-state").read_text()
    text = "its voters are 1, those of controller.quorum.voters 1, 2"
    wanted = [] if is_dynamic else [("quorum-mismatch", "warning", text)]
    assert quorum_of(check_node(controller, server=server)) == wanted


def test_the_directory_of_the_only_voter_is_another(tmp_path: Path) -> None:
    logs = Path(shutil.copytree(TESTDATA / "log-directories" / "4.4.0" / "logs", tmp_path / "logs"))
    edited(logs, directory_id=OTHER_ID)
    ((code, severity, text),) = quorum_of(check_node(logs))
    assert (code, severity) == ("node-identity-mismatch", "error")
    assert text.startswith(f"directory.id is {OTHER_ID}, that of the voter with this node.id is {VOTER}")
    assert starts(check_node(logs)) == [False]
    assert cluster_metadata.quorum_of(str(logs / "__cluster_metadata-0")).is_alone is None
    assert quorum_of(check_node(logs, server="node.id=1\nprocess.roles=broker")) == []
    assert quorum_of(check_node(edited(logs, directory_id=""))) == []
