"""quorum --topics-from: a new quorum whose topics are those of log directories, where no metadata log is left."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import LOGS, LOGS_4_4, TESTDATA, Kseg, Outcome
from kseg.formats.record_batch import build_batch
from kseg.recovery.metadata_log import MAX_MISSING, PRODUCER_ID_MARGIN
from kseg.sidefiles.checkpoints import build_offset_checkpoint
from kseg.sidefiles.producer_state import ProducerStateEntry, build_producer_snapshot
from node.disks import properties_of

IDS = ["-4SqQyBtRt2u9m4bPRXTrA", "5dL36qDbR2e-8DpRbXk2zQ", "TmlkU1R2SaGzu2hSkqQbWA"]
DIRECTORY_IDS = ["H2bQkJEeTKO7Ax3ZgWhC_A", "M5bQkJEeTKO7Ax3ZgWhC_A"]


class Cluster:
    """Log directories made by hand, and what kseg makes of them."""

    def __init__(self, folder: Path, kseg: Kseg) -> None:
        self.folder, self.kseg, self.out = folder, kseg, folder / "new"
        self.logs: list[Path] = []

    def add(self, node: int, directory_id: str | None = DIRECTORY_IDS[0], cluster_id: str = "the-cluster") -> Path:
        logs = self.folder / f"logs-{len(self.logs)}"
        logs.mkdir()
        line = "" if directory_id is None else f"directory.id={directory_id}\n"
        (logs / "meta.properties").write_text(f"version=1\ncluster.id={cluster_id}\nnode.id={node}\n{line}")
        self.logs.append(logs)
        return logs

    def run(self, *words: object, status: int = 0) -> Outcome:
        sources = [word for logs in self.logs for word in ("--topics-from", logs)]
        fixed = ("--new", 9, "--listener", "CONTROLLER://10.0.0.9:9093", "--output", self.out)
        return self.kseg("quorum", *fixed, *sources, *words).expect(status)

    def image(self) -> dict[str, list[dict[str, Any]]]:
        """The records of the new image by type."""
        _, *rows = self.kseg("cluster", "--format", "json", self.out).objects
        found: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            found.setdefault(row["recordType"], []).append(row["data"])
        return found

    def partitions(self, topic: str) -> dict[int, dict[str, Any]]:
        image = self.image()
        ids = [row["topicId"] for row in image["TOPIC_RECORD"] if row["name"] == topic]
        rows = (row for row in image["PARTITION_RECORD"] if [row["topicId"]] == ids)
        return {row["partitionId"]: row for row in rows}

    def settings(self, topic: str) -> dict[str, str]:
        rows = self.image()["CONFIG_RECORD"]
        return {row["name"]: row["value"] for row in rows if row["resourceName"] == topic}


@pytest.fixture
def cluster(tmp_path: Path, kseg: Kseg) -> Cluster:
    return Cluster(tmp_path, kseg)


def partition(logs: Path, name: str, topic_id: str | None, epochs: tuple[int, ...] = (), records: int = 1) -> Path:
    """A partition of which each batch has a leader epoch and the given number of records."""
    path = logs / name
    path.mkdir()
    if topic_id is not None:
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    batches = [build_batch(i * records, epoch, 1, [(b"k", b"v")] * records) for i, epoch in enumerate(epochs)]
    (path / f"{0:020}.log").write_bytes(b"".join(batches))
    return path


@pytest.fixture
def logs(cluster: Cluster) -> Path:
    """A log directory with one partition."""
    found = cluster.add(1)
    partition(found, "orders-0", IDS[0])
    return found


def test_names_ids_and_numbers_are_those_of_the_directories(cluster: Cluster) -> None:
    one, two = cluster.add(1), cluster.add(2, DIRECTORY_IDS[1])
    for number in range(3):
        partition(one if number % 2 else two, f"orders-{number}", IDS[0])
    partition(one, "a.b_c-with-dashes-0", IDS[1])
    cluster.run("--dry-run", status=1)
    assert not cluster.out.exists()
    done = cluster.run()
    assert "the settings of 2 topics are lost" in done.err
    assert "metadata.version is 3.9-IV0" in done.err
    image = cluster.image()
    assert {row["name"]: row["topicId"] for row in image["TOPIC_RECORD"]} == {
        "orders": IDS[0],
        "a.b_c-with-dashes": IDS[1],
    }
    found = cluster.partitions("orders")
    assert [row["replicas"] for row in found.values()] == [[2], [1], [2]]
    assert [row["directories"] for row in found.values()] == [[DIRECTORY_IDS[i]] for i in (1, 0, 1)]
    assert {(tuple(row["isr"]), row["leader"]) for row in found.values()} == {((1,), -1), ((2,), -1)}
    cluster.kseg("verify", cluster.out).expect(0)


def test_nothing_is_deleted_until_settings_are_set_again(cluster: Cluster) -> None:
    logs = cluster.add(1)
    for name, topic_id in zip(("orders", "__consumer_offsets", "table"), IDS, strict=True):
        partition(logs, f"{name}-0", topic_id)
    checkpoint = build_offset_checkpoint({("table", 0): 5, ("__consumer_offsets", 0): 1})
    (logs / "cleaner-offset-checkpoint").write_bytes(checkpoint)
    assert "compacted until now: table\n" in cluster.run().err
    keeps = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
    assert cluster.settings("orders") == cluster.settings("table") == keeps
    assert cluster.settings("__consumer_offsets")["cleanup.policy"] == "compact"


def test_the_replica_that_reaches_furthest_is_alone_in_sync(cluster: Cluster) -> None:
    ends = [((0, 1), 9), ((0, 3), 1), ((0, 3, 3), 1)]
    for node, (epochs, records) in enumerate(ends, start=1):
        partition(cluster.add(node, DIRECTORY_IDS[0][:-1] + "AQg"[node - 1]), "orders-0", IDS[0], epochs, records)
    cluster.run()
    (found,) = cluster.partitions("orders").values()
    assert (found["replicas"], found["isr"], found["leaderEpoch"]) == ([3, 2, 1], [3], 3)


def test_brokers_that_reach_equally_far_share_the_leaders(cluster: Cluster) -> None:
    for node in (1, 2):
        logs = cluster.add(node, DIRECTORY_IDS[node - 1])
        for number in range(4):
            partition(logs, f"orders-{number}", IDS[0], (0,))
    cluster.run()
    assert [row["replicas"] for row in cluster.partitions("orders").values()] == [[1, 2], [2, 1]] * 2


def test_a_snapshot_beyond_the_end_of_its_log_makes_no_leader(cluster: Cluster) -> None:
    for node in (1, 2):
        path = partition(cluster.add(node, DIRECTORY_IDS[node - 1]), "orders-0", IDS[0], (0,) * node)
        if node == 1:
            (path / f"{1 << 60:020}.snapshot").write_bytes(build_producer_snapshot([]))
    cluster.run()
    assert cluster.partitions("orders")[0]["replicas"] == [2, 1]


def test_leader_epochs_are_those_of_the_checkpoint_too(cluster: Cluster) -> None:
    path = partition(cluster.add(1), "orders-0", IDS[0], (2,))
    (path / "leader-epoch-checkpoint").write_text("0\n2\n2 0\n7 1\n")
    cluster.run()
    assert cluster.partitions("orders")[0]["leaderEpoch"] == 7


def test_no_producer_id_is_assigned_twice(cluster: Cluster) -> None:
    path = partition(cluster.add(1), "orders-0", IDS[0], (0,))
    entry = ProducerStateEntry(41_000, 0, 5, 0, 0, 0, 0, -1)
    (path / f"{1:020}.snapshot").write_bytes(build_producer_snapshot([entry]))
    cluster.run()
    (found,) = cluster.image()["PRODUCER_IDS_RECORD"]
    assert found["nextProducerId"] == 41_001 + PRODUCER_ID_MARGIN


def test_producer_ids_of_batches_and_transactions_count(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(TESTDATA / "kafka-4.4.0" / "internal", tmp_path / "logs"))
    before = kseg("cluster", "--format", "json", logs).objects
    known = {row["data"]["nextProducerId"] for row in before if row.get("recordType") == "PRODUCER_IDS_RECORD"}
    (logs / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    cluster = Cluster(tmp_path, kseg)
    cluster.logs = [logs]
    shutil.rmtree(logs / "__cluster_metadata-0")
    cluster.run()
    (found,) = cluster.image()["PRODUCER_IDS_RECORD"]
    assert PRODUCER_ID_MARGIN < found["nextProducerId"] <= max(known) + PRODUCER_ID_MARGIN


def test_partitions_in_no_directory_are_made_empty_and_told(cluster: Cluster) -> None:
    logs = cluster.add(4)
    for number in (1, 4):
        partition(logs, f"orders-{number}", IDS[0])
    done = cluster.run("--format", "json", status=1)
    assert "3 partitions are in none of the log directories and will be empty: 0, 2 to 3" in done.err
    assert [row["message"] for row in done.objects if row["type"] == "remains"]
    assert done.objects[-1]["damageRemains"] is True
    found = cluster.partitions("orders")
    assert [row["replicas"] for row in found.values()] == [[4]] * 5
    assert found[0]["directories"] != found[1]["directories"]


def test_numbers_of_a_hostile_name_fill_no_memory(cluster: Cluster) -> None:
    logs = cluster.add(1)
    partition(logs, f"orders-{(1 << 31) - 1}", IDS[0])
    partition(logs, f"orders-{1 << 40}", IDS[0])
    assert f"more than {MAX_MISSING} are in none" in cluster.run(status=3).err
    assert not cluster.out.exists()


@pytest.mark.parametrize(("several", "wanted"), [(("orders-1", "orders-2"), IDS[1]), (("orders-1",), IDS[0])])
def test_of_two_topic_ids_that_of_most_logs_counts(several: tuple[str, ...], wanted: str, cluster: Cluster) -> None:
    one, two = cluster.add(1), cluster.add(2, DIRECTORY_IDS[1])
    older = [partition(two, name, IDS[1]) for name in several]
    partition(one, "orders-0", IDS[0])
    for path in older:
        os.utime(path / "partition.metadata", (1, 1))
    assert f"topic orders has {wanted}: it will become -stray" in cluster.run(status=1).err
    assert {row["topicId"] for row in cluster.partitions("orders").values()} == {wanted}


def test_renamed_directories_do_not_count(cluster: Cluster, logs: Path) -> None:
    for suffix in ("stray", "delete", "future"):
        partition(logs, f"gone-0.{'a' * 32}-{suffix}", IDS[1], (0,))
        partition(logs, f"gone-1.{'a' * 32}-{suffix}", IDS[1])
    done = cluster.run(status=1)
    for suffix in ("stray", "delete", "future"):
        assert f"1 directory ends in -{suffix}: " in done.err
    assert "1 directory ends in -stray, without records: " in done.err
    assert [row["name"] for row in cluster.image()["TOPIC_RECORD"]] == ["orders"]


def test_a_cluster_that_is_all_stray_is_refused_with_the_way_back(cluster: Cluster) -> None:
    logs = cluster.add(1)
    partition(logs, f"orders-0.{'a' * 32}-stray", IDS[0], (0,))
    assert "kseg restore --undelete restores their names" in cluster.run(status=3).err
    cluster.kseg("restore", "--undelete", logs).expect(0)
    cluster.run()
    assert list(cluster.partitions("orders")) == [0]


def test_directories_without_a_topic_id_are_told(cluster: Cluster, logs: Path) -> None:
    partition(logs, "orders-1", None)
    partition(logs, "unknown-0", None)
    done = cluster.run(status=1)
    assert f"orders-1: has no valid partition.metadata: kseg recover --topic-id {IDS[0]}" in done.err
    assert "unknown-0: no partition.metadata has the topic id" in done.err
    assert [row["name"] for row in cluster.image()["TOPIC_RECORD"]] == ["orders"]
    assert sorted(cluster.partitions("orders")) == [0, 1]


def test_names_and_links_that_brokers_do_not_have_are_left_out(cluster: Cluster, logs: Path) -> None:
    partition(logs, "or\x1b[31mders-1", IDS[1])
    partition(logs, f"{'n' * 250}-0", IDS[1])
    partition(logs, "orders-01", IDS[0])
    (logs / "orders-1").symlink_to(logs / "orders-0")
    done = cluster.run(status=1)
    assert done.err.count("is no name of a partition") == 3
    assert "is a link out of the log directory" in done.err
    assert "\x1b" not in done.err
    assert list(cluster.partitions("orders")) == [0]


def test_long_lists_are_cut_for_people(cluster: Cluster, logs: Path) -> None:
    for number in range(50):
        partition(logs, f"unknown{number}-0", None)
    done = cluster.run("--format", "json", status=1)
    assert "left out: 30 more; --format json lists all" in done.err
    assert len([row for row in done.objects if row["type"] == "remains"]) == 50


def test_one_broker_cannot_have_a_partition_twice(cluster: Cluster) -> None:
    for directory_id in DIRECTORY_IDS:
        partition(cluster.add(1, directory_id), "orders-0", IDS[0])
    assert "and does not start with both" in cluster.run(status=1).err
    assert cluster.partitions("orders")[0]["replicas"] == [1]


@pytest.mark.parametrize(
    ("directories", "text"),
    [
        ([(1, "a"), (2, "b")], "of cluster b, "),
        ([(1, "a")], "no partition of a topic is in "),
    ],
)
def test_directories_of_no_cluster_are_refused(directories: list[tuple[int, str]], text: str, cluster: Cluster) -> None:
    for node, cluster_id in directories:
        cluster.add(node, cluster_id=cluster_id)
    assert text in cluster.run(status=3).err
    assert not cluster.out.exists()


@pytest.mark.parametrize("where", ["new", "deeper/new"])
def test_no_directory_is_made_inside_a_log_directory(where: str, cluster: Cluster, logs: Path) -> None:
    cluster.out = logs / where
    cluster.out.parent.mkdir(exist_ok=True)
    assert "is inside the log directory" in cluster.run(status=3).err
    assert not cluster.out.exists()


def test_topics_that_a_copying_the_log_lacks_are_added(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(LOGS_4_4, tmp_path / "logs"))
    words = ("quorum", "--new", 9, "--listener", "C://h:1", "--as-of", 20, "--output")
    kseg(*words, tmp_path / "without", logs).expect(0)
    server = properties_of([logs])
    kseg(*words, tmp_path / "with", "--topics-from", server, logs).expect(1)

    def topics(path: Path) -> dict[str, str]:
        rows = kseg("cluster", "--format", "json", path).objects
        return {row["data"]["name"]: row["data"]["topicId"] for row in rows if row.get("recordType") == "TOPIC_RECORD"}

    whole = topics(logs)
    assert "few" not in topics(tmp_path / "without")
    assert topics(tmp_path / "with") == topics(tmp_path / "without") | {name: whole[name] for name in ("few", "cmptx")}


def test_topics_that_a_damaged_log_has_lost_are_added_to_its_snapshot(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(LOGS_4_4, tmp_path / "logs"))
    ids = {name: (logs / name / "partition.metadata").read_text()[-22:] for name in ("few-0", "cmptx-1")}
    words = ("quorum", "--rewrite", "--as-of", 20, "--topics-from", logs, logs)
    kseg(*words).expect(1, "the settings of 2 topics are lost")
    rows = kseg("cluster", "--format", "json", logs).objects
    topics = {row["data"]["name"]: row["data"]["topicId"] for row in rows if row.get("recordType") == "TOPIC_RECORD"}
    assert (topics["few"], topics["cmptx"]) == (ids["few-0"], ids["cmptx-1"])
    kseg("verify", logs / "__cluster_metadata-0").expect(0)


def test_a_path_without_a_metadata_log_is_told(cluster: Cluster, logs: Path) -> None:
    assert "all is taken from the log directories" in cluster.run(logs).err
    assert list(cluster.partitions("orders")) == [0]


def test_features_are_those_of_the_bootstrap_snapshot(cluster: Cluster, logs: Path) -> None:
    shutil.copy(LOGS / "bootstrap.checkpoint", logs)
    assert "metadata.version is 4.3-IV0, as at the time of format" in cluster.run().err
    levels = {row["name"]: row["featureLevel"] for row in cluster.image()["FEATURE_LEVEL_RECORD"]}
    assert levels["group.version"] == 1


def test_offset_and_epoch_are_above_those_of_a_copy_that_is_left(cluster: Cluster, logs: Path) -> None:
    (logs / "__cluster_metadata-0").mkdir()
    (logs / "__cluster_metadata-0" / f"{5 << 40:020}-0000000007.checkpoint").touch()
    assert "give it as PATH" in cluster.run().err
    head = json.loads(cluster.kseg("cluster", "--format", "json", cluster.out).out.splitlines()[0])
    assert head["offset"] > 5 << 40
    assert head["epoch"] > 7
