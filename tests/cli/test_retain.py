"""``kseg retain`` from the command line, on copies of real partitions that a real broker's retention went through."""

import os
import shutil
from pathlib import Path

import pytest

from cli.command import CLEAN, TESTDATA, Kseg, files, unchanged
from kseg.changes.journal import LogDirectoryChange
from kseg.errors import StoppedHalfwayError
from kseg.retention import planner
from kseg.retention.planner import RetentionSegment
from retention.partitions import ARGUMENTS, NOW_MS, RELEASES, digests, epochs, left_by_broker, log_directory

HOUR = ("--retention-ms", "3600000")
NOW = ("--now", str(NOW_MS))
FIRST = "00000000000000000000"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return log_directory(tmp_path)


def starts(directory: Path) -> str:
    return (directory / "log-start-offset-checkpoint").read_text()


def reasons(kseg: Kseg, *arguments: object) -> list[dict[str, object]]:
    return kseg("retain", "--explain", "--format", "json", *arguments).of_type("segmentRetention")


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize(("release", "now_ms"), RELEASES.items())
def test_it_leaves_what_the_broker_left(kseg: Kseg, tmp_path: Path, release: str, now_ms: int, name: str) -> None:
    logs, after = log_directory(tmp_path, release), TESTDATA / "retention" / release / "after"
    for _ in range(2):
        assert kseg("retain", *ARGUMENTS[name], "--now", str(now_ms), logs / name).status == 0
        assert digests(logs / name) == left_by_broker(name, release)
        ours, theirs = (folder / name / "leader-epoch-checkpoint" for folder in (logs, after))
        assert epochs(ours) == epochs(theirs)
    assert ("r-delrec 0 123" in starts(logs)) == (name == "r-delrec-0")
    assert "r-delrec 0 123" in starts(after)


def test_undo_of_one_partition_leaves_the_log_start_of_another(kseg: Kseg, logs: Path) -> None:
    for name in ("r-delrec-0", "r-time-half-0"):
        assert kseg("retain", "--log-start-offset", "123", logs / name).status == 0
    assert kseg("undo", logs / "r-delrec-0").status == 0
    assert starts(logs) == "0\n1\nr-time-half 0 123\n"
    assert kseg("undo", logs / "r-time-half-0").status == 0
    assert starts(logs) == "0\n0\n"


def test_all_of_a_log_can_go(kseg: Kseg, logs: Path) -> None:
    partition = logs / "r-time-half-0"
    assert kseg("retain", "--retention-ms", "0", "--now", NOW_MS * 2, partition).status == 0
    left = [path.name for path in partition.iterdir() if path.suffix in (".log", ".index", ".timeindex", ".snapshot")]
    assert sorted(left) == [f"{500:020d}{suffix}" for suffix in (".index", ".log", ".snapshot", ".timeindex")]
    assert (partition / f"{500:020d}.log").stat().st_size == 0
    assert (partition / "leader-epoch-checkpoint").read_text() == "0\n1\n2 500\n"
    assert starts(logs) == "0\n0\n"
    assert kseg("verify", logs / "r-time-half-0").status == 0
    kseg("retain", "--retention-ms", "0", "--now", NOW_MS * 2, partition).expect(0, "nothing to change")


def test_the_active_segment_is_kept(kseg: Kseg, logs: Path) -> None:
    partition = logs / "r-time-half-0"
    assert kseg("retain", "--keep-active", "--retention-ms", "0", "--now", NOW_MS * 2, partition).status == 0
    assert [path.name for path in partition.glob("*.log")] == [f"{459:020d}.log"]


def test_records_go_up_to_the_log_end_but_not_the_last_segment(kseg: Kseg, logs: Path) -> None:
    assert kseg("retain", "--log-start-offset", "500", logs / "r-delrec-0").status == 0
    assert [path.name for path in (logs / "r-delrec-0").glob("*.log")] == [f"{488:020d}.log"]
    assert starts(logs) == "0\n1\nr-delrec 0 500\n"
    kseg("retain", "--log-start-offset", "501", logs / "r-delrec-0").expect(3, "is above the log end, 500")


def test_a_log_start_that_retention_has_passed_is_forgotten(kseg: Kseg, logs: Path) -> None:
    (logs / "log-start-offset-checkpoint").write_text("0\n2\nr-time-half 0 100\nother 1 7\n")
    assert kseg("retain", *HOUR, *NOW, logs / "r-time-half-0").status == 0
    assert starts(logs) == "0\n1\nother 1 7\n"


def test_nothing_goes_above_the_high_watermark(kseg: Kseg, logs: Path) -> None:
    (logs / "replication-offset-checkpoint").write_text("0\n1\nr-time-half 0 123\n")
    assert kseg("retain", *HOUR, *NOW, logs / "r-time-half-0").status == 0
    assert (logs / "r-time-half-0" / f"{85:020d}.log").exists()
    assert {row["held"] for row in reasons(kseg, *HOUR, *NOW, logs / "r-time-half-0")} == {"high watermark"}


def test_size_and_policy(kseg: Kseg, logs: Path) -> None:
    partition = logs / "r-delrec-0"
    for limit in ("--retention-bytes", "--retention-ms"):
        kseg("retain", "--policy", "compact", limit, "0", partition).expect(0, "nothing is deleted by age or size")
    assert kseg("retain", "--policy", "compact,delete", "--retention-bytes", "100K", partition).status == 0
    sizes = [path.stat().st_size for path in partition.glob("*.log")]
    assert sum(sizes) >= 100 << 10
    assert sum(sizes) - (partition / min(path.name for path in partition.glob("*.log"))).stat().st_size < 100 << 10


def test_a_log_directory_follows_the_settings_of_its_topics(kseg: Kseg, logs: Path) -> None:
    kseg("retain", *NOW, logs).expect(0, "nothing to change")  # their retention.ms is -1
    kseg("retain", "--topic", "r-time-*", *HOUR, *NOW, logs).expect(0)
    assert digests(logs / "r-time-half-0") == left_by_broker("r-time-half-0")
    assert not list((logs / "r-delrec-0").glob("*.deleted"))
    assert not list((logs / "__cluster_metadata-0").glob("*.deleted"))
    assert kseg("undo", logs).status == 0
    assert not list((logs / "r-time-half-0").glob("*.deleted"))


def test_without_metadata_topics_have_to_be_named(kseg: Kseg, logs: Path) -> None:
    shutil.rmtree(logs / "__cluster_metadata-0")
    before = files(logs)
    kseg("retain", *HOUR, logs).expect(3, "--server-properties", "name topics with --topic")
    assert files(logs) == before
    assert len(kseg("retain", "--explain", "--format", "json", *HOUR, *NOW, logs).expect(0).of_type("retention")) == 2
    assert files(logs) == before
    assert kseg("retain", "--log-start-offset", "7", "--topic", "*", logs).status == 3
    assert kseg("retain", "--topic", "audit", *HOUR, logs / "r-delrec-0").status == 3
    assert kseg("retain", *HOUR, *NOW, "--topic", "r-time-half", logs).status == 0
    assert digests(logs / "r-time-half-0") == left_by_broker("r-time-half-0")


def test_the_log_of_the_metadata_is_left_alone(kseg: Kseg, logs: Path) -> None:
    kseg("retain", "--retention-ms", "0", logs / "__cluster_metadata-0").expect(3, "truncated by snapshots")


def test_nothing_is_deleted_that_nobody_asked_for(kseg: Kseg, logs: Path) -> None:
    shutil.rmtree(logs / "__cluster_metadata-0")
    for decided in (["--topic", "*"], ["--policy", "delete"]):
        kseg("retain", *decided, logs / "r-time-half-0").expect(0)
    kseg("retain", *HOUR, logs / "r-time-half-0").expect(3, "its cleanup.policy is unknown", "--policy or --topic")
    assert not list((logs / "r-time-half-0").glob("*.deleted"))


def test_a_time_in_the_future_is_named(kseg: Kseg, logs: Path) -> None:
    early = str(NOW_MS - 7_000_000)
    done = kseg("retain", *HOUR, "--now", early, logs / "r-time-half-0")
    assert f"{124:020d}.log: its newest time, 2026-11-21 07:22:40.803Z, is in the future" in done.err
    # The way out: no age deletes them, only a size does.
    (command,) = (line.split() for line in done.err.splitlines() if line.startswith("    kseg "))
    assert "--retention-bytes" in command
    assert kseg(*command[1:], "--format", "json").expect(1).of_type("action")
    limited = kseg("retain", *HOUR, "--retention-bytes", "1G", "--now", early, logs / "r-time-half-0")
    assert "    kseg " not in limited.err
    done = kseg("retain", *HOUR, "--now", early, "--explain", "--color", "never", logs / "r-time-half-0")
    assert max(map(len, done.lines[1:])) <= 80
    assert "that time is in the future" in done.out.decode()
    assert [row["isFuture"] for row in reasons(kseg, *HOUR, "--now", early, logs / "r-time-half-0")].index(True) == 2


def test_a_limit_of_no_bytes_is_shown_as_one(kseg: Kseg, logs: Path) -> None:
    done = kseg("retain", "-n", "--explain", "--retention-bytes", "0", *NOW, logs / "r-time-half-0")
    assert "retention.bytes 0 (by option)" in done.out.decode()


def test_a_time_index_that_is_gone_leaves_the_time_of_the_file(kseg: Kseg, logs: Path) -> None:
    partition = logs / "r-time-half-0"
    (partition / f"{FIRST}.timeindex").unlink()
    os.utime(partition / f"{FIRST}.log", ns=(NOW_MS * 10**6, NOW_MS * 10**6))
    found = reasons(kseg, *HOUR, *NOW, partition)
    assert (found[0]["largestTimestampSource"], found[0]["largestTimestamp"]) == ("fileTime", NOW_MS)
    assert [row["rule"] for row in found] == [None] * 8
    assert {row["blockedBy"] for row in found[1:]} == {str(f"{FIRST}.log")}
    assert kseg("retain", *HOUR, *NOW, partition).status == 0
    assert not list(partition.glob("*.deleted"))


@pytest.mark.parametrize("era", ["0.8.2", "0.10.0"])
def test_old_releases_go_by_the_time_of_the_file(kseg: Kseg, tmp_path: Path, era: str) -> None:
    source = next((TESTDATA / "recovery" / "0.8.2.2-flip-body" / "before").glob("*-*"))
    partition = Path(shutil.copytree(source, tmp_path / source.name))
    bases = sorted(path.name for path in partition.glob("*.log"))
    for name in bases[1:]:
        os.utime(partition / name, ns=(NOW_MS * 10**6, NOW_MS * 10**6))
    os.utime(partition / bases[0], (1, 1))
    assert kseg("retain", "--era", era, *HOUR, *NOW, partition).status == 0
    assert sorted(path.name for path in partition.glob("*.deleted")) == [
        bases[0].replace(".log", ".index.deleted"), bases[0] + ".deleted",
    ]  # fmt: skip
    assert kseg("retain", "--era", era, "--log-start-offset", "1", partition).status == 2


def test_0_7_removes_segments_at_once(kseg: Kseg, tmp_path: Path) -> None:
    source = next((TESTDATA / "recovery" / "0.7.2-flip-payload" / "before").glob("*-*"))
    partition = Path(shutil.copytree(source, tmp_path / source.name))
    names = sorted(path.name for path in partition.glob("*.kafka"))
    for name in names:
        os.utime(partition / name, (1, 1))
    before = files(partition)
    assert kseg("retain", *HOUR, partition).status == 3  # there is no .log
    assert kseg("retain", "--era", "0.7", *HOUR, *NOW, partition).status == 0
    left = [path for path in partition.iterdir() if path.is_file()]
    size = int(names[-1][:20]) + len(before[names[-1]])
    assert [(path.name, path.stat().st_size) for path in left] == [(f"{size:020d}.kafka", 0)]
    assert kseg("undo", partition).status == 0
    assert files(partition) == before


def test_output_of_a_log_directory(kseg: Kseg, logs: Path, tmp_path: Path) -> None:
    (logs / "log-start-offset-checkpoint").write_text("0\n2\nr-time-half 0 100\nother 1 7\n")
    before, copies = files(logs), tmp_path / "copies"
    assert kseg("retain", "--topic", "r-time-half", *HOUR, *NOW, "--output", copies, logs).status == 0
    assert digests(copies / "r-time-half-0") == left_by_broker("r-time-half-0")
    assert starts(copies) == "0\n1\nother 1 7\n"
    assert files(logs) == before


def test_what_is_kept_nowhere_is_gone(kseg: Kseg, logs: Path, tmp_path: Path) -> None:
    assert kseg("retain", "--no-quarantine", *HOUR, *NOW, logs / "r-time-half-0").status == 0
    assert not list((logs / "r-time-half-0").glob("*.deleted"))
    assert sorted(path.name for path in (logs / "r-time-half-0").glob("*.log"))[0] == f"{267:020d}.log"
    elsewhere = tmp_path / "elsewhere"
    done = kseg("retain", "--quarantine", elsewhere, "--no-lock", "-q", *ARGUMENTS["r-delrec-0"], logs / "r-delrec-0")
    assert (done.status, done.err) == (0, "")
    assert list(elsewhere.rglob("*manifest*")) or list(elsewhere.iterdir())


def test_a_leftover_of_that_name_makes_way(kseg: Kseg, logs: Path) -> None:
    partition = logs / "r-time-half-0"
    (partition / f"{FIRST}.log.deleted").write_bytes(b"of an earlier life")
    with unchanged(logs):
        assert kseg("retain", *HOUR, *NOW, partition).status == 0
        assert digests(partition) == left_by_broker("r-time-half-0")
        assert kseg("undo", partition).status == 0


def test_a_run_stopped_before_the_checkpoint_goes_on(kseg: Kseg, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, arguments = files(logs), (*ARGUMENTS["r-delrec-0"], logs / "r-delrec-0")

    def stop(*_: object) -> None:
        raise StoppedHalfwayError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(LogDirectoryChange, "finish", stop)
        assert kseg("retain", *arguments).status == 4
    assert digests(logs / "r-delrec-0") == left_by_broker("r-delrec-0")
    assert starts(logs) == "0\n0\n"
    assert kseg("reindex", logs).status == 3  # the directory waits for the end of retain
    assert kseg("retain", *arguments).status == 0
    assert starts(logs) == "0\n1\nr-delrec 0 123\n"
    assert kseg("undo", logs / "r-delrec-0").status == 0
    assert files(logs) == before


def test_before_2_8_snapshots_below_the_log_start_are_removed(kseg: Kseg, logs: Path) -> None:
    partition = logs / "r-delrec-0"
    assert kseg("retain", "--era", "1.1", "--log-start-offset", "123", partition).status == 0
    assert not (partition / f"{56:020d}.snapshot").exists()
    assert not list(partition.glob("*.snapshot.deleted"))
    assert (partition / f"{56:020d}.log").exists()
    assert (partition / f"{135:020d}.snapshot").exists()
    assert (partition / f"{FIRST}.log.deleted").exists()


def test_in_2_8_the_snapshot_of_a_segment_is_removed(kseg: Kseg, logs: Path) -> None:
    partition = logs / "r-time-half-0"
    assert kseg("retain", "--era", "2.8", *HOUR, *NOW, partition).status == 0
    assert not list(partition.glob("*.snapshot.deleted"))
    left = [path.name for path in partition.glob("*.snapshot")]
    assert sorted(left) == [f"{base:020d}.snapshot" for base in (267, 347, 413, 459, 500)]


def test_a_log_that_a_broker_is_moving_is_retained_too_and_a_deleted_one_not(kseg: Kseg, logs: Path) -> None:
    moved = logs / f"r-time-half.{'0' * 32}-future", logs / f"r-time-half.{'1' * 32}-delete"
    (logs / "log-start-offset-checkpoint").write_text("0\n1\nr-time-half 0 459\n")
    for path in moved:
        shutil.copytree(logs / "r-time-half-0", logs / path.name.replace("half.", "half-0."))
    assert kseg("retain", "--topic", "r-time-half", *HOUR, *NOW, logs).status == 0
    assert len(list(logs.glob("*-future/*.log"))) == 4
    assert len(list(logs.glob("*-delete/*.log"))) == 8
    assert len(list((logs / "r-time-half-0").glob("*.log"))) == 1


def test_amounts_are_told(kseg: Kseg, logs: Path) -> None:
    done = kseg("retain", "-v", "--topic", "r-time-half", *HOUR, *NOW, logs)
    assert "segments: 8 -> 4, their size: 183.9 KiB -> 84.7 KiB, records: 500 -> 233, in partitions: 1" in done.err
    assert "the log starts at offset 267, before at 0" in done.err
    assert f"{FIRST}.log: goes: " in done.err
    assert done.err.count(".log: stays: ") == 4


@pytest.mark.parametrize("is_compacted", [False, True])
def test_no_limit_is_told_where_one_would_delete(is_compacted: bool, kseg: Kseg, tmp_path: Path) -> None:
    """The entry in cleaner-offset-checkpoint says that it is compacted."""
    logs = Path(shutil.copytree(CLEAN, tmp_path / "logs"))
    shutil.rmtree(logs / "__cluster_metadata-0")
    if not is_compacted:
        (logs / "cleaner-offset-checkpoint").unlink()
    done = kseg("retain", "-n", "--topic", "*", logs / "cmptx-4").expect(0)
    assert ("name a limit" in " ".join(done.err.split())) is not is_compacted


def test_topics_that_the_metadata_do_not_have_are_not_explained(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(CLEAN, tmp_path / "logs"))
    shutil.copytree(logs / "gz-0", logs / "deleted-0")
    done = kseg("retain", "--explain", "--format", "json", logs).expect(0, "1 partition left alone: topic unknown")
    directories = {Path(row["directory"]).name for row in done.of_type("retention")}
    assert "gz-0" in directories
    assert "deleted-0" not in directories


@pytest.mark.parametrize(("more", "least"), [((), 0), (("--explain",), 8)])
def test_only_an_explanation_seeks_the_deciding_records(
    more: tuple[str, ...], least: int, kseg: Kseg, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sought: list[RetentionSegment] = []
    monkeypatch.setattr(planner, "deciding_record", sought.append)
    kseg("retain", "-v", "-n", "--topic", "r-time-half", *more, *HOUR, *NOW, logs).expect(0 if more else 1)
    assert len(sought) == least


def test_records_that_headers_do_not_tell_are_not_guessed(kseg: Kseg, tmp_path: Path) -> None:
    partition = Path(shutil.copytree(TESTDATA / "kafka-0.8.2.2" / "codecs" / "one-gzip-0", tmp_path / "one-gzip-0"))
    done = kseg("retain", "-n", "-v", "--era", "0.8.2", "--retention-ms", "0", "--now", str(1 << 42), partition)
    assert "segments: " in done.err
    assert ", records: " not in done.err


def test_one_that_cannot_be_read_does_not_keep_the_others(kseg: Kseg, logs: Path) -> None:
    (logs / "empty-0").mkdir()
    (logs / "r-delrec-0" / "leader-epoch-checkpoint").write_text("0\n1\nzero zero\n")
    done = kseg("retain", "-v", "--topic", "*", "--retention-bytes", "100K", *HOUR, *NOW, logs)
    done.expect(3, "r-delrec-0/leader-epoch-checkpoint", "empty-0: left alone: no segments")
    assert digests(logs / "r-time-half-0") == left_by_broker("r-time-half-0")
    kseg("retain", "--topic", "zzz*", *HOUR, logs).expect(0, "holds no partition of a topic that --topic names")


def test_undo_after_a_broker_has_gone_on(kseg: Kseg, logs: Path) -> None:
    """It removes what is .deleted, begins a leader epoch, and writes its checkpoints anew."""
    partition, epoch_file = logs / "r-delrec-0", logs / "r-delrec-0" / "leader-epoch-checkpoint"
    before = files(logs)
    assert kseg("retain", *ARGUMENTS["r-delrec-0"], partition).status == 0
    for path in partition.glob("*.deleted"):
        path.unlink()
    assert epoch_file.read_text() == "0\n2\n0 123\n2 500\n"
    epoch_file.write_text("0\n2\n0 123\n4 500\n")
    (logs / "log-start-offset-checkpoint").write_text("0\n1\nr-delrec 0 123\n")
    assert kseg("undo", partition).status == 0
    assert epoch_file.read_text() == "0\n2\n0 0\n4 500\n"
    after = files(logs)
    assert {name for name in before if after[name] != before[name]} == {"r-delrec-0/leader-epoch-checkpoint"}
    assert after.keys() == before.keys()
    assert starts(logs) == "0\n0\n"


def test_undo_is_refused_where_epochs_were_not_only_added(kseg: Kseg, logs: Path) -> None:
    partition = logs / "r-delrec-0"
    assert kseg("retain", *ARGUMENTS["r-delrec-0"], partition).status == 0
    for content in ("0\n1\n9 123\n", "0\n2\n0 0\n4 500\n", "", "zero"):
        (partition / "leader-epoch-checkpoint").write_text(content)
        done = kseg("undo", partition)
        assert (done.status, "has changed since" in done.err) == (3, True), content
