"""What a start of the copies of several nodes loses: real nodes of one cluster, with the disk of one changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from cleaner.partitions import PAIRS
from cli.command import Kseg, flip
from kseg.output.json_schema import schema
from segment.segments import TESTDATA
from verification.log_directories import OTHER_ID, edited

CASES = TESTDATA / "damaged" / "findings"


def nodes_of(code: str, target: Path) -> list[Path]:
    """A copy of the nodes of a case."""
    return sorted(Path(shutil.copytree(CASES / code / "cluster", target / "cluster")).iterdir())


class Judged:
    def __init__(self, kseg: Kseg, *paths: Path) -> None:
        result = kseg("verify", "--format", "json", "--now", "1799000000000", *paths)
        self.status, (*rows, self.summary) = result.status, result.objects
        jsonschema.Draft202012Validator(schema("verify")).validate(self.summary)
        self.findings = {row["code"]: row for row in rows if row["severity"] != "info"}
        """The last finding of each code."""


def test_a_high_watermark_may_lag_after_a_clean_stop(kseg: Kseg, tmp_path: Path) -> None:
    """A follower learns it late, and a leader that is elected while a cluster stops keeps what it had as a follower."""
    nodes = nodes_of("leader-copy-behind", tmp_path)
    for node in nodes:
        (node / "replication-offset-checkpoint").write_text("0\n1\nd 0 200\n")
        assert (node / ".kafka_cleanshutdown").exists()
    found = Judged(kseg, *nodes).findings["leader-copy-behind"]
    assert found["severity"] == "warning"
    assert "offsets 200 to 349 (150 records) of node 1 are removed (no high watermark shows" in found["message"]


def test_each_node_alone_tells_nothing_of_others(kseg: Kseg, tmp_path: Path) -> None:
    for node in nodes_of("copies-parted", tmp_path):
        judged = Judged(kseg, node)
        assert (judged.status, judged.findings, judged.summary["clusters"]) == (0, {}, [])


def test_the_records_of_parted_copies_can_be_saved(kseg: Kseg, tmp_path: Path) -> None:
    found = Judged(kseg, *nodes_of("copies-parted", tmp_path)).findings["copies-parted"]
    saved = kseg(*found["details"]["otherRepair"][1:])
    assert (saved.status, saved.out.count(b"payload: b")) == (0, 150)


def test_no_copy_fits(kseg: Kseg, tmp_path: Path) -> None:
    """Each may lead, and by leader-epoch-checkpoint they part at offset 100."""
    one, two = nodes_of("leader-copy-behind", tmp_path)
    shutil.copytree(one / "d-0", two / "d-0", dirs_exist_ok=True)
    (two / "d-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 100\n")
    text = "no two copies fit together; node 1: does not fit (copies-parted)"
    kseg("verify", one, two).expect(1, text)


def test_an_empty_last_segment_is_no_loss(kseg: Kseg, tmp_path: Path) -> None:
    one, two = nodes_of("leader-copy-behind", tmp_path)
    shutil.copytree(one / "d-0", two / "d-0", dirs_exist_ok=True)
    (one / "d-0" / f"{500:020}.log").touch()
    assert "leader-copy-behind" not in Judged(kseg, one, two).findings


def uncommitted(two: Path, three: Path) -> None:
    """Node 2 was stopped cleanly, so its high watermark is the last one: what lies behind was never committed."""
    (two / "replication-offset-checkpoint").write_text("0\n1\nu 0 200\n")
    shutil.copy(three / ".kafka_cleanshutdown", two)


def another_topic(two: Path, three: Path) -> None:
    del three
    (two / "u-0" / "partition.metadata").write_text("version: 0\ntopic_id: BBBBBBBBQACAAAAAAAAAAQ\n")


def twice(two: Path, three: Path) -> None:
    """Both are copies of one node: only one of them can start."""
    (three / "meta.properties").write_bytes((two / "meta.properties").read_bytes())


@pytest.mark.parametrize("change", [uncommitted, another_topic, twice])
def test_no_loss(kseg: Kseg, tmp_path: Path, change: Callable[[Path, Path], None]) -> None:
    two, three = nodes_of("copies-parted", tmp_path)
    change(two, three)
    assert "copies-parted" not in Judged(kseg, two, three).findings


def put_in_place(node: Path, source: Path) -> Path:
    """Puts the log of another partition in the place of ``d-0``, under its topic id."""
    target = node / "d-0"
    for path in target.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.is_file() and path.name != "partition.metadata":
            shutil.copy(path, target)
    (node / "replication-offset-checkpoint").unlink()
    return target


def cleaned(one: Path, two: Path) -> None:
    """A real cleaner has been at work on one node only."""
    pair = next(pair for pair in PAIRS if pair.name == "c-tomb-short-0")
    put_in_place(one, pair.before)
    put_in_place(two, pair.after)


def tiered(one: Path, two: Path) -> None:
    """One node has deleted more of the segments that lie in remote storage, too."""
    for node in (one, two):
        put_in_place(node, TESTDATA / "remote" / "both" / "logs" / "t-txn-0")
    for path in (one / "d-0").glob("*216.*"):
        path.unlink()


@pytest.mark.parametrize("change", [cleaned, tiered])
@pytest.mark.parametrize("is_shorter", [False, True])
def test_copies_of_one_log_that_keep_other_records(
    kseg: Kseg, tmp_path: Path, change: Callable[[Path, Path], None], is_shorter: bool
) -> None:
    """Only what lies beyond the end of a copy that may lead is a difference."""
    one, two = nodes_of("leader-copy-behind", tmp_path)
    change(one, two)
    if is_shorter:
        *_, last = sorted((two / "d-0").glob("*.log"))
        for path in (two / "d-0").glob(f"{last.stem}.*"):
            path.unlink()
    found = Judged(kseg, one, two).summary["clusters"][0]["partitions"]
    assert [one["outcome"] for one in found] == ["depends"] * is_shorter


def test_a_copy_on_another_disk_of_its_node(kseg: Kseg, tmp_path: Path) -> None:
    """Of two copies on the disks of a node, the metadata tell which one is the replica."""
    one, two = nodes_of("leader-copy-behind", tmp_path)
    other = tmp_path / "cluster" / "node2-b"
    other.mkdir()
    shutil.copy(two / "meta.properties", other)
    edited(two, directory_id=OTHER_ID)
    for name in ("d-0", ".kafka_cleanshutdown", "replication-offset-checkpoint"):
        shutil.move(two / name, other)
    for is_moving in (False, True):
        if is_moving:
            shutil.copytree(one / "d-0", two / "d-0")
        judged = Judged(kseg, one, two, other)
        found = judged.findings["leader-copy-behind"]
        (partition,) = judged.summary["clusters"][0]["partitions"]
        assert [Path(copy["directory"]) for copy in partition["copies"]] == [one / "d-0", other / "d-0"]
        assert found["repair"][-1] == str(other / "d-0")


def test_a_missing_copy_may_lie_on_a_disk_that_is_not_given(kseg: Kseg, tmp_path: Path) -> None:
    one, two = nodes_of("leader-copy-missing", tmp_path)
    assert "leader-copy-missing" in Judged(kseg, one, two).findings
    edited(two, directory_id=OTHER_ID)
    assert "leader-copy-missing" not in Judged(kseg, one, two).findings


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_missing_copy_that_a_broker_has_set_aside_is_taken_back(kseg: Kseg, tmp_path: Path, is_whole: bool) -> None:
    one, two = nodes_of("leader-copy-missing", tmp_path)
    stray = Path(shutil.copytree(one / "d-0", two / f"d-0.{'0' * 32}-stray"))
    if not is_whole:
        (stray / "00000000000000000000.log").write_bytes(b"")
    found = Judged(kseg, one, two).findings["leader-copy-missing"]
    taking = ["kseg", "restore", "--undelete", str(stray)]
    assert (found["details"]["otherRepair"] == taking) == is_whole


def test_a_node_without_a_copy_does_not_keep_what_another_cuts_off(kseg: Kseg, tmp_path: Path) -> None:
    one, two = nodes_of("leader-copy-missing", tmp_path)
    flip(one / "d-0" / "00000000000000000000.log", 1000)
    for nodes, mode in (([one], ["--full"]), ([one, two], ["--mode", "salvage"])):
        assert Judged(kseg, *nodes).summary["next"][0] == ["kseg", "recover", *mode, str(one / "d-0")]
    moved = one / "d-0"
    for ending in ("delete", "stray"):
        moved = moved.rename(one / f"d-0.{'0' * 32}-{ending}")
        assert Judged(kseg, one).summary["next"][0] == ["kseg", "recover", "--mode", "salvage", str(moved)]


def test_a_voter_that_is_not_given_may_have_the_records(kseg: Kseg, tmp_path: Path) -> None:
    _, two, three = nodes_of("voter-behind", tmp_path)
    found = Judged(kseg, two, three).findings["voter-behind"]
    assert found["severity"] == "warning"
    assert "voter 2 lacks it, and voter 1 is not given" in found["message"]


def test_an_observer_has_no_vote(kseg: Kseg, tmp_path: Path) -> None:
    """Node 2 of the voters 1 and 3 only follows; what it lacks decides nothing."""
    one, two, three = nodes_of("voter-behind", tmp_path)
    for node in (one, two, three):
        state = node / "__cluster_metadata-0" / "quorum-state"
        state.write_text(state.read_text().replace('{"voterId":2},', ""))
    shutil.rmtree(one / "__cluster_metadata-0")
    shutil.copytree(three / "__cluster_metadata-0", one / "__cluster_metadata-0")
    judged = Judged(kseg, one, two, three)
    assert [voter["node"] for voter in judged.summary["clusters"][0]["voters"]] == [1, 3]
    assert "voter-behind" not in judged.findings


@pytest.mark.parametrize("is_told", [True, False])
def test_only_traces_show_that_records_were_committed(kseg: Kseg, tmp_path: Path, is_told: bool) -> None:
    """Two voters lack the registrations of all brokers; that a clean stop names them is the only trace."""
    nodes = nodes_of("voter-behind", tmp_path)
    for node in nodes:
        shutil.rmtree(node / "z-0", ignore_errors=True)
        if not is_told:
            (node / ".kafka_cleanshutdown").unlink(missing_ok=True)
    for node in nodes[:2]:
        log = node / "__cluster_metadata-0" / "00000000000000000000.log"
        data, end = log.read_bytes(), 0
        while int.from_bytes(data[end : end + 8], "big") < 10:
            end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
        log.write_bytes(data[:end])
    found = Judged(kseg, *nodes).findings.get("voter-behind")
    assert (found is not None) == is_told
    assert not is_told or "as .kafka_cleanshutdown shows" in str(found)


def test_the_clusters_are_data(tmp_path: Path) -> None:
    import kseg

    one, two = nodes_of("leader-copy-behind", tmp_path)
    (cluster,) = kseg.verify([one, two], now=1799000000000).clusters
    (partition,) = cluster.partitions
    assert (cluster.nodes, partition.topic, partition.ranges[0].records) == ([1, 2], "d", 150)


def test_a_missing_copy_is_copied_behind_all_repairs(kseg: Kseg, tmp_path: Path) -> None:
    one, two = nodes_of("leader-copy-behind", tmp_path)
    shutil.rmtree(two / "d-0")
    (one / "d-0" / "00000000000000000000.timeindex").unlink()
    (cluster,) = Judged(kseg, one, two).summary["clusters"]
    *repairs, copying = cluster["commands"]
    assert repairs == [["kseg", "reindex", str(one / "d-0")]]
    assert copying == ["cp", "-a", str(one / "d-0"), str(two / "d-0")]
    assert kseg(*repairs[0][1:]).status == 0
    shutil.copytree(one / "d-0", two / "d-0")
    (cluster,) = Judged(kseg, one, two).summary["clusters"]
    assert (cluster["commands"], [copy["fits"] for copy in cluster["copies"]]) == ([], [True, True])


def test_a_majority_that_is_gone_leaves_a_last_resort(kseg: Kseg, tmp_path: Path) -> None:
    """Two of five voters: the commands that keep what they have, and the one that makes a quorum of one of them."""
    nodes = nodes_of("voter-behind", tmp_path)
    for node in nodes:
        state = node / "__cluster_metadata-0" / "quorum-state"
        state.write_text(state.read_text().replace('{"voterId":3}', '{"voterId":3},{"voterId":4},{"voterId":5}'))
    _, two, three = nodes
    (cluster,) = Judged(kseg, two, three).summary["clusters"]
    assert cluster["lastResort"] == ["kseg", "quorum", "--survivor", str(two), str(three)]
    assert "only if the voters 1, 4 and 5 are gone for good" in kseg("verify", str(two), str(three)).err
    for argv in [*cluster["commands"], cluster["lastResort"]]:
        assert kseg(*argv[1:]).status == 0, argv
    judged = Judged(kseg, two, three)
    assert [voter["node"] for voter in judged.summary["clusters"][0]["voters"]] == [2]
    assert judged.summary["clusters"][0]["lastResort"] is None


def test_two_topics_of_one_name_are_never_merged(kseg: Kseg, tmp_path: Path) -> None:
    """Node 1 missed that z was deleted and made again: both ids are told, and no command fills one from the other."""
    old, new = nodes_of("topic-recreated", tmp_path)
    judged = Judged(kseg, old, new)
    found, (cluster,) = judged.findings["topic-recreated"], judged.summary["clusters"]
    ids = [next(node.glob("z-0/partition.metadata")).read_text().split()[-1] for node in (old, new)]
    assert [found["details"]["topicId"], found["details"]["newestTopicId"]] == ids
    assert all(topic_id in found["message"] for topic_id in ids)
    assert (cluster["partitions"], cluster["commands"], judged.summary["next"]) == ([], [], [])
    before = {path: path.read_bytes() for path in tmp_path.rglob("z-0/*") if path.is_file()}
    assert len(before) > 2
    for here, there in ((old, new), (new, old)):
        for paths in ((there / "z-0", here / "z-0"), (there, here / "z-0"), (there, here)):
            result = kseg("recover", "--from-replica", *map(str, paths))
            assert result.status == 3, result.err
            assert "belongs to topic id" in result.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("z-0/*") if path.is_file()} == before
