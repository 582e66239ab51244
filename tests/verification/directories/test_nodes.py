"""What a node's start on all its log directories would do."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from kseg.errors import PathError
from kseg.output.findings.text import start_text
from kseg.segment.survey import QUICK
from kseg.verification import directory_tree
from verification.log_directories import OTHER_ID, REAL, Checked, check_node, copied, edited, kraft, second
from verification.partitions import spans

OFFSETS, MORE_OFFSETS, STATES = "__consumer_offsets-0", "__consumer_offsets-1", "__transaction_state-0"


@pytest.fixture
def node(tmp_path: Path) -> tuple[Path, Path]:
    """The two log directories of a node."""
    return kraft(tmp_path, OFFSETS), second(tmp_path, MORE_OFFSETS)


def starts(found: Checked) -> list[bool | None]:
    return [start.starts for start in found.report.starts]


@pytest.mark.parametrize("server", [None, "node.id=1"])
def test_two_directories_of_a_node(node: tuple[Path, Path], server: str | None) -> None:
    a, b = node
    assert check_node(a, b, server=server).serious == []
    found = check_node(b, a, server=server)
    assert found.serious == []
    (start,) = found.report.starts
    assert (start.starts, start.because, start.recovers, start.sets_aside, start.deletes) == (True, [], [], [], [])
    assert start.directories == [str(b), str(a)]


@pytest.mark.parametrize("with_server", [False, True])
@pytest.mark.parametrize(
    "properties",
    [
        {"cluster_id": "BBBBBBBBQACBBBBBBBBBBA"},
        {"node_id": "9"},
        {"directory_id": "RdZ0TiwWTfi_zGntLPyOIg"},
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


def test_another_node_in_server_properties(node: tuple[Path, Path]) -> None:
    found = check_node(node[0], server="node.id=7")
    assert set(found.serious) >= {"node-identity-mismatch"}
    assert "server.properties is 7" in found.one("node-identity-mismatch").message


def test_a_failure_below_a_directory_with_a_longer_name_is_another_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert [start.directories for start in found.report.starts] == [[str(a)], [str(b), str(c)]]


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


def test_metadata_in_two_directories(node: tuple[Path, Path]) -> None:
    a, b = node
    shutil.copytree(a / "__cluster_metadata-0", b / "__cluster_metadata-0")
    found = check_node(a, b, server=f"node.id=1\nlog.dirs={b},{a}")
    assert found.one("broker-would-not-start").file == str(a / "__cluster_metadata-0")


@pytest.mark.parametrize(("state", "starts_on"), [("missing", False), ("empty", False), ("file", True)])
def test_a_log_directory_that_is_not_there(
    node: tuple[Path, Path], tmp_path: Path, state: str, starts_on: bool
) -> None:
    """A file in its place goes offline as an unreadable directory does."""
    absent = tmp_path / "third"
    if state == "empty":
        absent.mkdir()
    elif state == "file":
        absent.write_bytes(b"")
    found = check_node(server=f"node.id=1\nlog.dirs={node[0]},{absent},{node[1]}")
    assert found.one("bad-meta-properties").file.startswith(str(absent))
    assert starts(found) == [starts_on]


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
    assert start_text(start) == f"node of {logs}: starts; {recovered}; {aside}"
    more = start._replace(starts=False, because=list("abcde"), recovers=[], sets_aside=None, deleted_files=3)
    assert start_text(more) == (
        f"node of {logs}: does not start, because a; b; c; 2 more reasons; "
        "which it sets aside as -stray is not known; deletes 3 files (.deleted)"
    )
    assert start_text(more._replace(starts=None, because=["x"])).startswith(f"node of {logs}: start not judged: x; ")


@pytest.mark.parametrize(("which", "starts_on"), [(0, False), (1, True)])
def test_an_unreadable_directory_goes_offline(node: tuple[Path, Path], which: int, starts_on: bool) -> None:
    """The node goes on without it, unless it is that of the metadata."""
    (node[which] / "meta.properties").write_text("version=2\n")
    found = check_node(*node)
    assert "bad-meta-properties" in found.serious
    assert starts(found) == [starts_on]


@pytest.mark.parametrize(
    ("text", "starts_on"),
    [
        ("version: 0", False), ("", False), ("version: 0\ntopic_id: x", False), ("version: x\ntopic_id: x", False),
        ("version: 0\n\n", True), (f"version: x\ntopic_id: {OTHER_ID}", True),
        (f"version: 0\ntopic_id: {'A' * 22}", True),
    ],
)  # fmt: skip
def test_a_partition_metadata_that_no_broker_reads(node: tuple[Path, Path], text: str, starts_on: bool) -> None:
    """It takes the log directory offline; what its reader does not foresee ends the node."""
    (node[1] / MORE_OFFSETS / "partition.metadata").write_text(text)
    found = check_node(*node)
    assert "bad-partition-metadata" in found.codes
    assert starts(found) == [starts_on]


def test_no_meta_properties_in_one_of_two(node: tuple[Path, Path]) -> None:
    (node[1] / "meta.properties").unlink()
    assert starts(check_node(*node)) == [False]


def test_a_node_that_the_metadata_do_not_know(tmp_path: Path) -> None:
    logs = edited(kraft(tmp_path, OFFSETS), node_id="99")
    found = check_node(logs)
    assert found.one("unknown-node").severity == "warning"
    assert found.one("unassigned-replica").file == str(logs / OFFSETS / "partition.metadata")
    (start,) = found.report.starts
    assert start.sets_aside == [str(logs / OFFSETS)]


def test_partitions_without_a_topic_in_the_other_directory(node: tuple[Path, Path]) -> None:
    a, b = node
    shutil.copytree(REAL / "dplain-0", b / "dplain-0")
    (b / MORE_OFFSETS / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    found = check_node(a, b)
    assert sorted(found.serious) == ["topic-id-mismatch", "unknown-topic"]
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


def test_only_snapshots_are_left(tmp_path: Path) -> None:
    logs = kraft(tmp_path, OFFSETS)
    for path in (logs / "__cluster_metadata-0").glob("*.log"):
        path.unlink()
    found = check_node(logs)
    assert found.one("metadata-lost").file == str(logs / "__cluster_metadata-0")
    assert found.report.starts[0].sets_aside is None
    assert "unknown-topic" not in found.codes


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
    at = data.index(b"__consumer_offsets") + 60  # the record of the topic has been read, those of its partitions not
    end = next(position + size for position, size in spans(bytes(data)) if position + size > at)
    data[end + 70] ^= 1
    (metadata / f"{0:020}.log").write_bytes(data)
    found = check_node(logs)
    assert not {"unknown-topic", "unassigned-replica", "unknown-node"} & set(found.codes)
    assert found.report.starts[0].sets_aside is None


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
