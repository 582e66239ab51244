"""A node of several disks knows about each partition what it knows where all lie in one directory."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA
from kseg.node.log_directory import LogDirectory
from kseg.node.node import Nodes
from kseg.node.server_properties import CHECKPOINT, DEFAULT, NAME, TOPIC, UNKNOWN, read_server_properties
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool
from node.disks import dealt, properties_of

CLEAN = TESTDATA / "log-directories" / "4.3.1-rounds" / "clean"
NODES = [CLEAN, TESTDATA / "log-directories" / "4.4.0" / "logs", TESTDATA / "retention" / "4.3.1" / "before"]


def partitions_of(disks: list[Path]) -> dict[str, Path]:
    return {path.name: path for disk in disks for path in disk.iterdir() if path.is_dir()}


@pytest.mark.parametrize("source", NODES, ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.parametrize("count", [2, 3])
def test_each_partition_is_known_as_in_one_directory(source: Path, count: int, tmp_path: Path) -> None:
    disks, one = dealt(source, tmp_path, count), Nodes([str(source)])
    for paths in (disks, [properties_of(disks)], [tmp_path]):
        nodes = Nodes(map(str, paths))
        assert [len(node.directories) for node in nodes.given] == [count]
        for name, path in partitions_of(disks).items():
            whole, found = one.partition(str(source / name)), nodes.partition(str(path))
            assert found.state == whole.state
            assert (found.policy, found.topic_id) == (whole.policy, whole.topic_id)
            assert found.interval_bytes[0] == whole.interval_bytes[0]


def test_a_partition_in_an_archive_is_known_as_in_a_directory(tmp_path: Path) -> None:
    packed = shutil.make_archive(str(tmp_path / "logs"), "zip", CLEAN.parent, CLEAN.name)
    with archives_at([packed], Spool()) as (place,):
        for name, path in partitions_of([CLEAN]).items():
            whole = Nodes().partition(f"{path}/").state
            assert whole.is_known
            assert whole._replace(owner=None) == Nodes().partition(place / CLEAN.name / name).state


def test_the_configuration_brings_the_other_disks(tmp_path: Path) -> None:
    disks = dealt(CLEAN, tmp_path, 2)
    server = read_server_properties(str(properties_of(disks)))
    nodes, alone = Nodes([str(disks[1])], server), Nodes([str(disks[1])])
    (path,) = [path for path in partitions_of(disks).values() if path.name == "cmptx-4"]
    assert nodes.partition(str(path)).policy == Nodes([str(CLEAN)]).partition(str(CLEAN / "cmptx-4")).policy
    assert nodes.paths == [str(disks[1])], "only the given disk is worked on"
    assert (alone.given[0].topics is None) == (path.parent == disks[1])


def test_a_configuration_is_read_anew_each_time(tmp_path: Path) -> None:
    path = properties_of([tmp_path / "one", tmp_path / "two"])
    assert Nodes([str(path)]).paths == [str(tmp_path / "one"), str(tmp_path / "two")]
    path.write_text(f"log.dirs={tmp_path / 'three'}\n")
    assert Nodes([str(path)]).paths == [str(tmp_path / "three")]


def test_what_no_disk_tells_is_unknown(tmp_path: Path) -> None:
    disks = dealt(CLEAN, tmp_path, 2)
    node = Nodes([str(disks[1])]).given[0]
    assert node.elsewhere().endswith("directories of the node, or --server-properties FILE")
    server = read_server_properties(str(properties_of(disks)))
    assert Nodes([str(disks[1])], server).given[0].topics is not None
    shutil.rmtree(disks[0])
    assert Nodes([str(disks[1])], server).given[0].elsewhere().endswith("give all log directories of the node")
    policies = {name: node.partition(str(path)).policy for name, path in partitions_of(disks[1:]).items()}
    assert {policy.source for policy in policies.values()} == {CHECKPOINT, UNKNOWN}
    assert {policy.text for policy in policies.values()} == {"compact", None}
    compacted = {f"{topic}-{number}" for topic, number in node.cleaner_offsets}
    assert {name for name, policy in policies.items() if policy.source == CHECKPOINT} == compacted
    assert node.partition(str(disks[1] / "__consumer_offsets-0")).policy.source == NAME
    whole = Nodes([str(CLEAN)]).given[0]
    assert {whole.partition(str(CLEAN / name)).policy.source for name in policies} <= {TOPIC, DEFAULT}


def test_two_nodes_given_together_are_two(tmp_path: Path) -> None:
    one, two = dealt(CLEAN, tmp_path / "1", 2), dealt(CLEAN, tmp_path / "2", 2)
    for disk in two:
        meta = disk / "meta.properties"
        meta.write_text(meta.read_text().replace("node.id=1\n", "node.id=2\n"))
    for paths in ([*one, *two], [one[0], two[0], one[1], two[1]]):
        nodes = Nodes(map(str, paths))
        assert [node.number for node in nodes.given] == [1, 2]
        assert nodes.at(str(one[1])).topics is nodes.at(str(one[0])).topics is not nodes.at(str(two[0])).topics


def test_two_copies_of_a_node_are_two(tmp_path: Path) -> None:
    """They have the same ids; each has a metadata log of its own."""
    one, two = dealt(CLEAN, tmp_path / "1", 1), dealt(CLEAN, tmp_path / "2", 1)
    assert [len(node.directories) for node in Nodes(map(str, [*one, *two])).given] == [1, 1]


def test_a_disk_without_meta_properties_belongs_to_the_node(tmp_path: Path) -> None:
    disks = dealt(CLEAN, tmp_path, 3)
    (disks[2] / "meta.properties").unlink()
    (node,) = Nodes(map(str, disks)).given
    assert [one.path for one in node.directories] == [str(disk) for disk in disks]
    assert node.number == 1


@pytest.mark.parametrize("names", ["*", "*-[0-9]"], ids=["whole", "without the files of a log directory"])
def test_partitions_and_segments_are_of_the_log_directory_around_them(names: str, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(CLEAN, tmp_path / "logs"))
    for path in {*logs.iterdir()} - {*logs.glob(names)}:
        path.unlink()
    for path in (logs / "txn-5", next((logs / "txn-5").glob("*.log"))):
        (node,) = Nodes([str(path)]).given
        (directory,) = node.directories
        assert isinstance(directory, LogDirectory)
        assert directory.path == str(logs)
