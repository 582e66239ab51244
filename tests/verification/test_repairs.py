"""What repairs a finding, and the commands that repair all of a check."""

import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from kseg.findings.table import KINDS, texts_of
from kseg.verification import repairs
from kseg.verification.repairs import MAX_STEPS, Repairs
from kseg.verification.report import Finding
from verification.log_directories import edited, kraft
from verification.partitions import batch_of

SALVAGE = ["kseg", "recover", "--mode", "salvage"]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory of a few partitions."""
    for number in range(MAX_STEPS + 5):
        partition = tmp_path / f"a-{number}"
        partition.mkdir()
        (partition / f"{0:020}.log").touch()
    return tmp_path


def found(code: str, partition: Path, suffix: str = ".log") -> Finding:
    return Finding(code, KINDS[code].severity, str(partition / f"{0:020}{suffix}"), 5, None, None, "what is wrong")


def commands(repairs: Repairs) -> list[list[str]]:
    return [step.argv for step in repairs.steps()]


@pytest.mark.parametrize(
    ("codes", "salvaged", "indexed"),
    [
        ("bad-length 0, crc-mismatch 0, bad-length 0", [0], []),
        (
            "index-corrupt 0, producer-snapshot-damaged 0, crc-mismatch 0, truncated-batch 0, gap-truncated 0, "
            "index-corrupt 1",
            [0],
            [1],
        ),
        ("bad-length 0, index-corrupt 1, truncated-batch 2", [0, 2], [1]),
        ("broker-would-not-start 0, index-corrupt 0", [0], []),
        ("broker-would-not-start 0, orphan-index 0", [0], []),
        ("broker-would-not-start 0, index-corrupt 0, orphan-index 0", [0], []),
    ],
)
def test_one_command_for_each_partition_and_all_that_it_repairs(
    codes: str, salvaged: list[int], indexed: list[int], logs: Path
) -> None:
    """Salvage stands for a rebuild of indexes, and for what keeps a broker from loading the partition."""
    repairs = Repairs()
    for each in codes.split(", "):
        code, number = each.split()
        repairs.with_repair(found(code, logs / f"a-{number}", ".index" if "index" in code else ".log"))
    salvages = [[*SALVAGE, str(logs / f"a-{number}")] for number in salvaged]
    assert commands(repairs) == [*salvages, *(["kseg", "reindex", str(logs / f"a-{number}")] for number in indexed)]


def test_a_path_with_a_slash_is_that_of_its_files(logs: Path) -> None:
    repairs = Repairs()
    for file in (f"{logs / 'a-0'}/", str(logs / "a-0" / f"{0:020}.index")):
        repairs.with_repair(found("index-corrupt", logs)._replace(file=file))
    assert commands(repairs) == [["kseg", "reindex", str(logs / "a-0")]]


def test_a_log_directory_only_for_its_own_files(logs: Path) -> None:
    (logs / "recovery-point-offset-checkpoint").touch()
    repairs = Repairs()
    own = found("unreadable-checkpoint", logs)._replace(file=str(logs / "recovery-point-offset-checkpoint"))
    assert repairs.with_repair(own).repair == [*SALVAGE, str(logs)]
    repairs.with_repair(found("bad-length", logs / "a-0"))
    assert commands(repairs) == [[*SALVAGE, str(logs / "a-0")], [*SALVAGE, str(logs)]]


def test_a_name_that_only_a_broker_would_not_give_is_a_partition_all_the_same(logs: Path) -> None:
    repairs, odd = Repairs(), logs / "two\nlines-0"  # LogManager takes whatever is before the last "-" for a topic
    (logs / "meta.properties").touch()
    (logs / "a-0").rename(odd)
    repairs.with_repair(found("index-corrupt", odd, ".index"))
    assert commands(repairs) == [["kseg", "reindex", str(odd)]]


def test_no_index_is_rebuilt_in_a_directory_that_a_start_removes(logs: Path) -> None:
    judged, removed = Repairs(), logs / "a-0.0123456789abcdef0123456789abcdef-delete"
    (logs / "a-0").rename(removed)
    assert judged.with_repair(found("index-corrupt", removed, ".index")).repair is None
    assert (commands(judged), judged.needs()) == ([], [])


def test_a_partition_beside_a_name_that_no_broker_starts_with(logs: Path) -> None:
    repairs = Repairs()
    repairs.with_repair(found("bad-length", logs / "a-0"))
    repairs.with_repair(found("broker-would-not-start", logs / "a-1"))
    assert commands(repairs) == [[*SALVAGE, str(logs / "a-0")]]
    assert [(need.needs, need.path) for need in repairs.needs()] == [("decision", str(logs / "a-1"))]


def test_one_command_for_many_partitions_and_no_other(logs: Path) -> None:
    repairs, damaged = Repairs(), [str(logs / f"a-{number}") for number in range(1, MAX_STEPS + 2)]
    for path in damaged:
        repairs.with_repair(found("index-corrupt", Path(path), ".index"))
    assert commands(repairs) == [["kseg", "reindex", *damaged]]


def test_one_command_fills_many_partitions_from_a_log_directory(logs: Path) -> None:
    repairs, lacking = Repairs(), [f"a-{number}" for number in range(1, MAX_STEPS + 2)]
    for name in lacking:
        repairs.with_repair(found("replica-not-compared", logs / name)._replace(details={"other": f"/replica/{name}"}))
    paths = [str(logs / name) for name in lacking]
    assert commands(repairs) == [["kseg", "recover", "--from-replica", "/replica", *paths]]


def test_a_replica_that_was_compared_fills_the_gaps_too(logs: Path) -> None:
    repairs = Repairs()
    repairs.with_repair(found("gap-unexplained", logs / "a-0"))
    missing = found("replica-not-compared", logs / "a-0")._replace(details={"other": "/replica/a-0"})
    repairs.with_repair(missing)
    repairs.with_repair(found("gap-unexplained", logs / "a-1"))
    (step,) = repairs.steps()
    assert step.argv == ["kseg", "recover", "--from-replica", "/replica/a-0", str(logs / "a-0")]
    assert step.codes == ["replica-not-compared", "gap-unexplained"]
    assert [need.path for need in repairs.needs()] == [str(logs / "a-1")]


def test_deleted_files_are_taken_back_before_the_rest_comes_from_a_copy(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repairs.RepairTarget, "holds_only_copies", True)
    filling = SimpleNamespace(is_known=True, is_refused=False, removed=0)
    monkeypatch.setattr(repairs.RepairTarget, "outcome", lambda *_: filling)
    judged, partition = Repairs(), str(logs / "a-0")
    behind = found("leader-copy-behind", logs / "a-0")._replace(details={"other": "/copy/a-0"})
    judged.with_repairs([found("leftover-holds-data", logs / "a-0", ".log.deleted"), behind])
    assert commands(judged) == [
        ["kseg", "restore", "--undelete", partition],
        ["kseg", "recover", "--from-replica", "/copy/a-0", partition],
    ]


@pytest.mark.parametrize("file", ["-", "passwd", "a-0/evidence.log"])
def test_a_file_that_no_command_changes_has_no_repair(file: str, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream, and files that are none of a broker, beside partitions or in one: nor does the directory for them."""
    monkeypatch.chdir(logs)
    for name in ("passwd", "a-0/evidence.log"):
        (logs / name).touch()
    repairs = Repairs()
    finding = repairs.with_repair(found("nonsense-block", logs)._replace(file=file))
    assert (finding.repair, finding.needs, repairs.steps()) == (None, "decision", [])


def test_a_directory_in_the_place_of_a_file_is_no_partition(logs: Path) -> None:
    place = logs / "a-0" / "leader-epoch-checkpoint"
    place.mkdir()
    finding = found("leader-epochs-damaged", logs)._replace(file=str(place))
    assert Repairs().with_repair(finding).repair == ["kseg", "recover", "--rebuild-epochs", str(logs / "a-0")]


def with_metadata(logs: Path, replicas: int) -> None:
    """The metadata of a cluster whose topic "a" has one partition with so many replicas."""
    topic_id = bytes(range(16))
    topic = bytes([1, 2, 0]) + bytes([2]) + b"a" + topic_id + b"\0"
    nodes = bytes([replicas + 1]) + struct.pack(f">{replicas}i", *range(replicas))
    rest = nodes + b"\1\1" + struct.pack(">iii", 0, 0, 0) + b"\0"
    partition = bytes([1, 3, 0]) + struct.pack(">i", 0) + topic_id + nodes + rest
    metadata = logs / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / f"{0:020}.log").write_bytes(batch_of(range(2), o0=topic, o1=partition))
    (logs / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")


@pytest.mark.parametrize("replicas", [1, 3])
def test_other_replicas_give_back_what_a_broker_cuts(replicas: int, logs: Path) -> None:
    with_metadata(logs, replicas)
    partition = str(logs / "a-0")
    salvage, cut = [*SALVAGE, partition], ["kseg", "recover", "--full", partition]
    finding = Repairs().with_repair(found("crc-mismatch", logs / "a-0"))
    assert finding.repair == (cut if replicas > 1 else salvage)
    assert finding.details.get("otherRepair") == (salvage if replicas > 1 else None)
    assert Repairs().with_repair(found("wrong-base-offset", logs / "a-0")).repair == salvage


def test_the_topic_id_is_that_of_the_metadata(logs: Path) -> None:
    with_metadata(logs, 1)
    finding = Repairs().with_repair(found("no-partition-metadata", logs)._replace(file=str(logs / "a-0")))
    assert finding.repair == ["kseg", "recover", "--topic-id", "AAECAwQFBgcICQoLDA0ODw", str(logs / "a-0")]
    assert finding.needs is None


@pytest.mark.parametrize("code", ["high-watermark-beyond-end", "producer-snapshot-beyond-end", "segments-missing"])
def test_a_lost_end_is_a_decision_with_a_command(code: str, logs: Path) -> None:
    repairs = Repairs()
    finding = repairs.with_repair(found(code, logs / "a-0")._replace(file=str(logs / "a-0")))
    assert (finding.repair, finding.needs) == (None, "decision")
    assert finding.details == {"removedRecords": 0, "otherRepair": ["kseg", "recover", str(logs / "a-0")]}
    assert repairs.steps() == []
    assert "kseg recover --from-replica" in texts_of(code).means


def test_what_a_named_command_does_anyway_needs_nothing_more(logs: Path) -> None:
    """A salvage moves the high watermark back, too."""
    repairs = Repairs()
    repairs.with_repair(found("truncated-batch", logs / "a-0"))
    repairs.with_repair(found("high-watermark-beyond-end", logs / "a-0")._replace(file=str(logs / "a-0")))
    repairs.with_repair(found("gap-unexplained", logs / "a-0"))
    assert commands(repairs) == [[*SALVAGE, str(logs / "a-0")]]
    assert [need.codes for need in repairs.needs()] == [["gap-unexplained"]]


def test_a_named_command_is_no_decision_too(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairs.RepairTarget, "holds_only_copies", True)
    judged = Repairs()
    judged.with_repair(found("leftover-holds-data", logs / "a-0", ".log.deleted"))
    judged.with_repair(found("segments-missing", logs / "a-0")._replace(file=str(logs / "a-0")))
    assert commands(judged) == [["kseg", "restore", "--undelete", str(logs / "a-0")]]
    assert judged.needs() == []


@pytest.mark.parametrize("is_voter", [True, False])
@pytest.mark.parametrize(
    ("lacking", "begins"),
    [
        ("", f"{230:020}-{1:010}.checkpoint"),
        ("*230-*", f"{114:020}-{1:010}.checkpoint"),
        ("*[!5]-0*", "the beginning of its log"),
        ("*0.log *230-*", ""),
    ],
)
def test_a_damaged_snapshot_that_others_have(lacking: str, begins: str, is_voter: bool, tmp_path: Path) -> None:
    logs = edited(kraft(tmp_path), node_id="1" if is_voter else "7")
    for pattern in lacking.split():
        for path in (logs / "__cluster_metadata-0").glob(pattern):
            path.unlink()
    snapshot = str(logs / "__cluster_metadata-0" / f"{455:020}-{2:010}.checkpoint")
    repairs = Repairs()
    wrong = repairs.with_repair(found("bad-metadata-snapshot", logs)._replace(file=snapshot))
    (need,) = repairs.needs()
    if is_voter:
        assert need.argv is not None
        assert "--rewrite" in need.argv
    elif begins:
        assert need.argv == ["mv", snapshot, f"{snapshot}.deleted"]
        assert wrong.message.endswith(f"the node starts from {begins}")
    else:
        assert (need.needs, need.argv) == ("replica", None)
        assert "moved out of the log directory" in wrong.message


def test_a_damaged_log_is_repaired_with_its_indexes(logs: Path) -> None:
    codes = [("index-misleads", ".index"), ("index-corrupt", ".index"), ("crc-mismatch", ".log")]
    findings = [found(code, logs / "a-0", suffix) for code, suffix in codes]
    assert [each.repair for each in Repairs().with_repairs(findings)] == [[*SALVAGE, str(logs / "a-0")]] * 3
    alone = Repairs().with_repairs(findings[:2])
    assert [each.repair for each in alone] == [["kseg", "reindex", str(logs / "a-0")]] * 2


def test_indexes_of_a_damaged_log_wait_for_the_decision(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild refuses them until then."""
    monkeypatch.setattr(repairs.RepairTarget, "outcome", lambda *_: SimpleNamespace(removed=3, is_refused=False))
    codes = [("index-misleads", ".index"), ("crc-mismatch", ".log")]
    judged = Repairs()
    for each in judged.with_repairs(found(code, logs / "a-0", suffix) for code, suffix in codes):
        assert (each.repair, each.needs, each.details["removedRecords"]) == (None, "decision", 3)
    assert (commands(judged), [need.codes for need in judged.needs()]) == ([], [["crc-mismatch", "index-misleads"]])


@pytest.mark.parametrize("removed", [0, 2])
def test_what_mode_broker_refuses_is_salvaged(removed: int, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a partition with an offset below the base of its segment."""

    def outcome(_: object, options: repairs.Options) -> SimpleNamespace:
        return SimpleNamespace(removed=removed * ("--mode" in options), is_refused="--mode" not in options)

    monkeypatch.setattr(repairs.RepairTarget, "outcome", outcome)
    finding = Repairs().with_repair(found("leader-epochs-mismatch", logs / "a-0", ".log"))
    salvage = [*SALVAGE, "--rebuild-epochs", str(logs / "a-0")]
    assert finding.repair == (None if removed else salvage)
    assert finding.details.get("otherRepair") == (salvage if removed else None)


@pytest.mark.parametrize("needs", [None, "decision"])
def test_epochs_are_not_rebuilt_from_a_batch_that_may_be_wrong(needs: str | None, logs: Path) -> None:
    falls = found("leader-epoch-falls", logs / "a-0")._replace(needs=needs)
    _, mismatch = Repairs().with_repairs([falls, found("leader-epochs-mismatch", logs / "a-0")])
    rebuild = ["kseg", "recover", "--rebuild-epochs", str(logs / "a-0")]
    assert (mismatch.repair, mismatch.needs) == ((rebuild, None) if needs is None else (None, "decision"))


def test_a_partition_is_listed_once_for_all_its_findings(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    real = repairs.holds_segments
    monkeypatch.setattr(repairs, "holds_segments", lambda path: listed.append(path) or real(path))
    targets = Repairs()
    found_targets = {targets.target_of(str(logs / "a-0" / f"{base:020}.index")) for base in range(20)}
    assert len(found_targets) == 1
    assert listed.count(str(logs / "a-0")) == 1
