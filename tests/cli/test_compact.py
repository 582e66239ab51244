"""``kseg compact`` from the command line, on copies of real partitions that a real broker's cleaner went through."""

import errno
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from cleaner.building import build_record_batch
from cleaner.partitions import (
    COMPACTION,
    PAIRS,
    Pair,
    checkpoint,
    files,
    headers,
    is_compressed,
    new_records,
    records,
    write_checkpoint,
    write_log,
)
from cli.command import TESTDATA, Kseg, flip, unchanged
from cli.command import files as everything

# Disk space: what ``kseg compact`` says that it needs, what it refuses, and how it gets along with little.

SPACE_ABORTED = PAIRS[3]
SMALL = ("--segment-bytes", "16384")
FREE = "kseg.cleaner.planner.free_bytes"


def test_a_dry_run_names_the_space_that_the_run_takes(kseg: Kseg, tmp_path: Path) -> None:
    partition = SPACE_ABORTED.copy(tmp_path)
    for more in ((), ("--no-quarantine", *SMALL)):
        dry = kseg("compact", "-n", "--format", "json", *SPACE_ABORTED.options_with(*more), partition)
        [row], [summary] = dry.of_type("compaction"), dry.of_type("summary")
        # What is replaced is kept, and still takes its space when the checkpoint is written.
        checkpoint = 0 if more else (tmp_path / "cleaner-offset-checkpoint").stat().st_size
        assert 0 < row["peakBytes"] == summary["peakBytes"] - checkpoint
        text = kseg("compact", "-n", *SPACE_ABORTED.options_with(*more), partition)
        assert f"at most {row['peakBytes'] / 1024:.1f} KiB of disk space" in text.err
        copy = Path(shutil.copytree(partition, tmp_path / f"copy{len(more)}" / partition.name))
        shutil.copy(tmp_path / "cleaner-offset-checkpoint", copy.parent)
        done = kseg("compact", "--format", "json", *SPACE_ABORTED.options_with(*more), copy)
        assert done.of_type("compaction")[0]["peakBytes"] == row["peakBytes"]
        assert done.of_type("summary")[0]["peakBytes"] == summary["peakBytes"]
    assert row["peakBytes"] < sum(len(data) for data in files(partition, ".log").values())


def test_the_space_of_a_commit_of_all_is_that_of_new_files(kseg: Kseg, tmp_path: Path) -> None:
    partition = SPACE_ABORTED.copy(tmp_path)
    before = files(partition, ".log", ".index", ".timeindex", ".txnindex")
    [row] = kseg("compact", "--format", "json", *SPACE_ABORTED.options, partition).of_type("compaction")
    after = files(partition, ".log", ".index", ".timeindex", ".txnindex")
    new = sum(len(data) for name, data in after.items() if before.get(name) != data)
    assert new <= row["peakBytes"] <= sum(map(len, after.values()))


@pytest.mark.parametrize("options", [(), ("--no-quarantine", *SMALL)])
def test_too_little_space_is_refused_before_anything_is_written(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    partition = SPACE_ABORTED.copy(tmp_path)
    dry = kseg("compact", "-n", "--format", "json", *SPACE_ABORTED.options_with(*options), partition)
    taken, before = dry.of_type("compaction")[0]["peakBytes"], everything(tmp_path)
    monkeypatch.setattr(FREE, lambda _place: 0)
    done = kseg("compact", *SPACE_ABORTED.options_with(*options), partition).expect(3)
    needed = int(re.findall(r"0 bytes are free: (\d+) bytes have to be freed first", done.err)[-1])
    assert needed >= taken + (64 << 10)
    monkeypatch.setattr(FREE, lambda _place: needed - 1)
    done = kseg("compact", *SPACE_ABORTED.options_with(*options), partition)
    told = f"new files may take {taken} bytes, {needed - 1} bytes are free: 1 bytes have to be freed first"
    done.expect(3, told, "nothing was changed")
    assert ("--output DIR on another disk needs no space here" in done.err) == bool(options)
    assert everything(tmp_path) == before
    assert "it would be refused" in kseg("compact", "-n", *SPACE_ABORTED.options_with(*options), partition).err
    monkeypatch.setattr(FREE, lambda _place: needed)
    assert kseg("compact", *SPACE_ABORTED.options_with(*options), partition).status == 0
    assert records(partition) == records(SPACE_ABORTED.after)


def test_the_command_for_less_space_is_named(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = SPACE_ABORTED.copy(tmp_path)
    words = [str(word) for word in ("compact", *SPACE_ABORTED.options_with(*SMALL), partition)]
    [all_files] = kseg(*words, "-n", "--format", "json").of_type("compaction")
    [one_file] = kseg(*words, "-n", "--no-quarantine", "--format", "json").of_type("compaction")
    assert one_file["peakBytes"] < all_files["peakBytes"]
    before = everything(tmp_path)
    monkeypatch.setattr(FREE, lambda _place: one_file["peakBytes"] + (96 << 10))
    told = kseg(*words).expect(3, "nothing was changed").err
    (command,) = (line.strip() for line in told.splitlines() if line.startswith("    kseg "))
    assert command == shlex.join(["kseg", *words, "--no-quarantine"])
    assert everything(tmp_path) == before
    kseg(*shlex.split(command)[1:]).expect(0)
    assert records(partition) == records(SPACE_ABORTED.after)


def test_with_a_quarantine_elsewhere_segments_are_replaced_singly(kseg: Kseg, tmp_path: Path, spare: Path) -> None:
    partition = SPACE_ABORTED.copy(tmp_path)
    before = everything(tmp_path)
    arguments = ("compact", *SPACE_ABORTED.options_with(*SMALL), "--quarantine", spare, "--format", "json", partition)
    done = kseg(*arguments).expect(0)
    assert len(list(spare.iterdir())) > 2
    assert done.of_type("compaction")[0]["peakBytes"] < 30_000
    assert records(partition) == records(SPACE_ABORTED.after)
    assert checkpoint(tmp_path, SPACE_ABORTED.name) == SPACE_ABORTED.checkpoint_after
    dry = kseg("undo", "-n", "--format", "json", partition).expect(1)
    inactive = sorted(files(partition, ".log"))[:-1]
    assert {row["file"] for row in dry.of_type("action")} >= {str(partition / name) for name in inactive}
    assert kseg("undo", partition).status == 0
    assert everything(tmp_path) == before
    assert list(spare.iterdir()) == []


def test_several_rounds_in_small_steps_are_undone_as_one(kseg: Kseg, tmp_path: Path, spare: Path) -> None:
    rows = [(b"key-%d" % (i % 4000), b"%d" % i) for i in range(8000)]
    batches = [build_record_batch(new_records(rows[i : i + 500], i)) for i in range(0, 8000, 500)]
    logs = tmp_path / "logs"
    for name in ("t-0", "u-0"):
        write_log(logs / name, batches, 50_000)
    before = everything(logs)
    few = ("--memory", "64K", "--include-active", "--segment-bytes", "100K", "--until-clean", "--quarantine", spare)
    assert kseg("compact", *few, logs / "t-0").status == 0
    assert len(records(logs / "t-0")) == 4000
    assert kseg("undo", logs / "t-0").status == 0
    assert everything(logs) == before
    assert kseg("compact", *few, "--topic", "*", logs).status == 0
    for name in ("t-0", "u-0"):  # one of two partitions alone
        assert len(records(logs / name)) == 4000
        assert kseg("undo", logs / name).status == 0
    assert {name: data for name, data in everything(logs).items() if name in before} == before


def test_a_full_quarantine_is_refused(kseg: Kseg, tmp_path: Path, spare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = SPACE_ABORTED.copy(tmp_path)
    with unchanged(tmp_path):
        monkeypatch.setattr(FREE, lambda place: 100_000 if os.stat(place).st_dev == spare.stat().st_dev else 1 << 40)
        done = kseg("compact", *SPACE_ABORTED.options, "--quarantine", spare, partition)
        assert (done.status, "of old files are to be kept in" in done.err) == (3, True)


def test_damage_in_the_clean_part_stops_small_steps_before_the_first(kseg: Kseg, tmp_path: Path) -> None:
    partition = PAIRS[4].copy(tmp_path)
    path = sorted(partition.glob("*.log"))[-3]
    flip(path, 70)
    with unchanged(tmp_path):
        assert kseg("compact", *PAIRS[4].options_with(*SMALL), "--no-quarantine", partition).status == 1


_, COMPRESSED, _, ABORTED, TOMBSTONES, OLDER = PAIRS[:6]
FIRST = f"{0:020d}.log"


def each(pair: Pair) -> str:
    return f"{pair.release}-{pair.name}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pair", PAIRS, ids=each)
def test_it_leaves_what_the_broker_left(kseg: Kseg, tmp_path: Path, pair: Pair) -> None:
    partition = pair.copy(tmp_path)
    stamps = {path.name: path.stat().st_mtime_ns for path in partition.iterdir()}
    assert kseg("compact", *pair.options, "--era", pair.release, partition).status == 0
    assert checkpoint(tmp_path, pair.name) == pair.checkpoint_after
    assert records(partition) == records(pair.after)
    if is_compressed(pair.before):
        assert headers(partition) == headers(pair.after)
    else:
        assert files(partition, ".log", ".index", ".timeindex", ".txnindex") == files(
            pair.after, ".log", ".index", ".timeindex", ".txnindex"
        )
    ours, theirs = (set(files(folder, ".snapshot")) for folder in (partition, pair.after))
    assert ours == theirs & set(files(pair.before, ".snapshot"))
    assert (partition / FIRST).stat().st_mtime_ns in stamps.values()
    with unchanged(tmp_path):
        assert kseg("compact", *pair.options, partition).status == 0
    assert kseg("verify", partition).status == 0


def test_a_record_above_the_limit_makes_the_partition_uncleanable(kseg: Kseg, tmp_path: Path) -> None:
    """Records of 4012 bytes in lz4 batches: 4.4.0 left the log; its checkpoint was the dirty range's start."""
    partition = Path(shutil.copytree(COMPACTION / "4.4.0/before/l-lz4-0", tmp_path / "l-lz4-0"))
    server, before = tmp_path / "server.properties", files(partition)
    words = ("compact", "--min-cleanable-ratio", "0", "--index-interval-bytes", "1024", "--server-properties", server)
    for limit, rounds in ((60000, 1), (4011, 0)):
        server.write_text(f"log.cleanup.policy=compact\nmax.decompressed.message.bytes={limit}\n")
        (row,) = (row for row in kseg(*words, "--dry-run", "--format", "json", partition).objects if "rounds" in row)
        assert row["rounds"] == rounds
    row = next(row for row in kseg(*words, "--format", "json", partition).objects if row["type"] == "compaction")
    assert (row["rounds"], row["checkpoint"]) == (0, 0)
    assert "a record of 4012 bytes in the batch that ends at offset" in row["stops"][0]
    assert (files(partition), checkpoint(tmp_path, partition.name)) == (before, 0)
    assert kseg(*words, "--era", "4.3", partition).status == 0
    assert checkpoint(tmp_path, partition.name) == 300


def test_a_dry_run_tells_what_would_go_by_kind_and_changes_nothing(kseg: Kseg, tmp_path: Path) -> None:
    partition = TOMBSTONES.copy(tmp_path)
    with unchanged(tmp_path):
        done = kseg("compact", "-n", *TOMBSTONES.options, "--format", "json", "-v", partition).expect(1)
    [row] = done.of_type("compaction")
    assert (row["rounds"], row["dirtyFrom"], row["checkpoint"]) == (1, 2702, 2704)
    assert row["gone"]["tombstones"] > 0
    assert row["records"] - row["kept"] == sum(row["gone"].values())
    assert sum(found["bytesAfter"] for found in done.of_type("cleanedSegment")) + 93 <= row["bytesAfter"] + 93
    assert "tombstones" in kseg("compact", "-n", *TOMBSTONES.options, partition).err
    really = kseg("compact", *TOMBSTONES.options, "--format", "json", partition).of_type("compaction")[0]
    assert {**really, "seconds": 0} == {**row, "seconds": 0}
    assert row["bytesAfter"] == sum(len(data) for data in files(partition, ".log").values())


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("pair", [ABORTED, OLDER], ids=each)
def test_a_damaged_log_is_left_alone(kseg: Kseg, tmp_path: Path, pair: Pair, place: str) -> None:
    partition = pair.copy(tmp_path)
    logs = sorted(partition.glob("*.log"))
    path = logs[0] if place == "first" else logs[-1]
    flip(path, 70)
    with unchanged(tmp_path):
        kseg("compact", *pair.options, partition).expect(1, "damaged at position 0")


def test_what_stops_the_cleaner_is_told(kseg: Kseg, tmp_path: Path) -> None:
    partition = COMPRESSED.copy(tmp_path)
    with unchanged(tmp_path):
        lagging = kseg("compact", *COMPRESSED.options_with("--min-compaction-lag-ms", "1000000000000"), partition)
        assert "min.compaction.lag.ms is 11574 d 1 h" in lagging.err
        write_checkpoint(tmp_path, COMPRESSED.name, 200)
        not_dirty = kseg("compact", *COMPRESSED.options_with("--min-cleanable-ratio", "1"), partition)
        assert "not above 100%" in not_dirty.err
        (tmp_path / "replication-offset-checkpoint").write_text("0\n1\ne-lz4 0 5\n")
        (tmp_path / "cleaner-offset-checkpoint").unlink()
        kseg("compact", *COMPRESSED.options, partition).expect(3, "its cleanup.policy is unknown", "--topic")
        assert "above the high watermark" in kseg("compact", *COMPRESSED.options, "--topic", "e-lz4", partition).err
        (tmp_path / "replication-offset-checkpoint").unlink()


def test_a_map_that_is_too_small_leaves_the_rest_dirty_unless_told(kseg: Kseg, tmp_path: Path) -> None:
    rows = [(b"key-%d" % (i % 4000), b"%d" % i) for i in range(8000)]
    batches = [build_record_batch(new_records(rows[i : i + 500], i)) for i in range(0, 8000, 500)]
    write_log(tmp_path / "t-0", batches, 50_000)
    write_log(tmp_path / "u-0", batches, 50_000)
    few = ("--memory", "64K", "--include-active", "--segment-bytes", "100K")
    [told] = kseg("compact", "-n", "--format", "json", *few, "--until-clean", tmp_path / "u-0").of_type("compaction")
    assert "the map was full" in kseg("compact", *few, tmp_path / "t-0").err
    assert 2000 < (checkpoint(tmp_path, "t-0") or 0) < 8000
    assert told["laterRounds"][0]["dirtyFrom"] == checkpoint(tmp_path, "t-0")
    assert (told["rounds"], told["checkpoint"]) == (1, 8000)
    [all_rounds] = kseg("compact", "--format", "json", *few, "--until-clean", tmp_path / "u-0").of_type("compaction")
    assert all_rounds["rounds"] == 1 + len(told["laterRounds"])
    assert all_rounds["keys"] == max(told["keys"], *(each["keys"] for each in told["laterRounds"]))
    assert checkpoint(tmp_path, "u-0") == 8000
    assert len(records(tmp_path / "u-0")) == 4000
    assert kseg("verify", tmp_path / "u-0").status == 0
    assert kseg("undo", tmp_path / "u-0").status == 0
    assert len(records(tmp_path / "u-0")) == 8000


def test_of_a_log_directory_only_compacted_topics_are_cleaned(kseg: Kseg, tmp_path: Path) -> None:
    """__consumer_offsets and others have cleanup.policy=compact in the metadata beside them."""
    logs = Path(shutil.copytree(TESTDATA / "kafka-4.3.1/internal", tmp_path / "logs"))
    (logs / "meta.properties").write_text("version=1\n")
    shutil.rmtree(logs / "truth")
    with unchanged(logs / "__cluster_metadata-0"):
        options = ("--include-active", "--min-cleanable-ratio", "0", "--min-compaction-lag-ms", "0", "--format", "json")
        done = kseg("compact", *options, logs).expect(0)
        cleaned = {os.path.basename(row["directory"]) for row in done.of_type("compaction") if row["rounds"]}
        assert "__consumer_offsets-0" in cleaned
        assert "__cluster_metadata-0" not in cleaned
    assert checkpoint(logs, "__consumer_offsets-0") is not None
    for name in cleaned:
        assert kseg("verify", "-q", logs / name).status == 0
    assert kseg("compact", logs / "__cluster_metadata-0").status == 3


def test_a_log_directory_whose_topics_are_not_known_needs_their_names(kseg: Kseg, tmp_path: Path) -> None:
    ABORTED.copy(tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\n")
    before = everything(tmp_path)
    assert kseg("compact", *ABORTED.options, tmp_path).status == 3
    assert kseg("compact", *ABORTED.options, "--topic", "other*", tmp_path).status == 0
    assert everything(tmp_path) == before
    assert kseg("compact", *ABORTED.options, "--topic", "c-*", tmp_path).status == 0
    assert records(tmp_path / ABORTED.name) == records(ABORTED.after)
    assert kseg("undo", tmp_path).status == 0
    assert everything(tmp_path) == before


def test_one_damaged_partition_does_not_keep_others_from_being_cleaned(kseg: Kseg, tmp_path: Path) -> None:
    ABORTED.copy(tmp_path)
    write_checkpoint(tmp_path, ABORTED.name, 2909)
    shutil.copytree(ABORTED.before, tmp_path / "a-0")
    path = tmp_path / "a-0" / FIRST
    path.write_bytes(path.read_bytes()[:-1])
    (tmp_path / "meta.properties").write_text("version=1\n")
    kseg("compact", *ABORTED.options, "--topic", "*", tmp_path).expect(1)
    assert records(tmp_path / ABORTED.name) == records(ABORTED.after)


def test_records_without_a_key_are_refused(kseg: Kseg, tmp_path: Path) -> None:
    batch = build_record_batch(new_records([(None, b"1"), (b"a", b"2")]))
    write_log(tmp_path / "t-0", [batch])
    for words in (("-n",), ()):
        kseg("compact", *words, "--include-active", tmp_path / "t-0").expect(3, "have no key", "nothing was changed")
    assert len(records(tmp_path / "t-0")) == 2
    assert kseg("compact", "--include-active", "--drop-null-keys", tmp_path / "t-0").status == 0
    assert len(records(tmp_path / "t-0")) == 1


@pytest.mark.parametrize(("era", "goes"), [("2.8", True), ("3.0", True), ("3.1", False)])
def test_before_horizons_the_time_of_files_lets_tombstones_go(kseg: Kseg, tmp_path: Path, era: str, goes: bool) -> None:
    """LogCleaner 2.3 to 3.0: retainDeletes = lastModified > lastModified of the last clean segment - retention."""
    partition = tmp_path / "t-0"
    rows = [[(b"a", b"1"), (b"b", b"1")], [(b"a", None)], [(b"b", None)], [(b"c", b"1")], [(b"d", b"1")]]
    firsts = (0, 2, 3, 4, 5)
    batches = [build_record_batch(new_records(*each)) for each in zip(rows, firsts, strict=True)]
    write_log(partition, batches, 1)
    assert len(files(partition, ".log")) == 5
    times = dict(zip(sorted(files(partition, ".log")), (900, 1000, 5000, 11_000, 12_000), strict=True))
    for name, seconds in times.items():
        os.utime(partition / name, (seconds, seconds))
    write_checkpoint(tmp_path, "t-0", 4)  # the segment of 5000 s is the last clean one
    options = ("--era", era, "--min-cleanable-ratio", "0", "--delete-retention-ms", "0", "--segment-bytes", "1")
    assert kseg("compact", *options, "--now", "20000000", partition).status == 0
    left = [row[2:4] for row in records(partition)]
    assert ((b"a", None) in left) == (not goes)
    assert ((b"b", None) in left) == (not goes)
    assert (b"c", b"1") in left
    assert any(row[3] & 64 for rows in headers(partition).values() for row in rows) == (not goes)
    assert kseg("verify", "-q", partition).status == 0


@pytest.mark.parametrize(("written_s", "goes"), [(1000, True), (1001, False)])
def test_before_horizons_file_times_let_markers_go(kseg: Kseg, tmp_path: Path, written_s: int, goes: bool) -> None:
    """Real transactions, of which newer records have left nothing."""
    source = TESTDATA / "kafka-0.11.0.3/txn/compact-txn-0"
    partition = Path(shutil.copytree(source, tmp_path / "compact-txn-0"))
    first, second = sorted(files(partition, ".log"))[:2]
    for name, seconds in ((first, 1000), (second, written_s)):
        os.utime(partition / name, (seconds, seconds))
    write_checkpoint(tmp_path, "compact-txn-0", int(second[:20]))
    options = ("--era", "2.8", "--min-cleanable-ratio", "0", "--delete-retention-ms", "0", "--include-active")
    before = headers(partition)[second]
    assert kseg("compact", *options, "--segment-bytes", "1", "--drop-null-keys", partition).status == 0
    after = headers(partition)[second]
    assert (len([row for row in after if row[3] & 32]) < len([row for row in before if row[3] & 32])) == goes
    assert not any(row[3] & 64 for row in after)


def test_something_left_half_done_is_for_recover(kseg: Kseg, tmp_path: Path) -> None:
    partition = ABORTED.copy(tmp_path)
    (partition / f"{FIRST}.swap").write_bytes(b"")
    kseg("compact", *ABORTED.options, partition).expect(3, "kseg recover")


def test_old_dirty_records_are_cleaned_whatever_the_ratio(kseg: Kseg, tmp_path: Path) -> None:
    partition = COMPRESSED.copy(tmp_path)
    few = COMPRESSED.options_with("--min-cleanable-ratio", "1")
    day = str(24 * 3600 * 1000)
    with unchanged(tmp_path):
        assert kseg("compact", *few, "--max-compaction-lag-ms", day, partition).status == 0
    assert kseg("compact", *few, "--max-compaction-lag-ms", "1s", partition).status == 0
    assert checkpoint(tmp_path, COMPRESSED.name) == COMPRESSED.checkpoint_after


@pytest.mark.parametrize(("retention", "left"), [(1000, [1]), ((1 << 63) - 1, [1, 2])], ids=["a second", "without end"])
def test_tombstones_go_when_their_time_has_come(kseg: Kseg, tmp_path: Path, retention: int, left: list[int]) -> None:
    rows = [(b"a", b"1"), (b"b", b"1"), (b"a", None)]
    write_log(tmp_path / "t-0", [build_record_batch(new_records(rows))])
    once = ("compact", "--include-active", "--min-cleanable-ratio", "0", "--delete-retention-ms", retention)
    for now, offsets in [("5000", [1, 2]), ("5999", [1, 2]), ("6000", left)]:
        assert kseg(*once, "--now", now, tmp_path / "t-0").status == 0
        assert [row[0] for row in records(tmp_path / "t-0")] == offsets
        write_checkpoint(tmp_path, "t-0", 0)


def test_segments_become_one_while_their_indexes_fit(kseg: Kseg, tmp_path: Path) -> None:
    batches = [build_record_batch(new_records([(b"%d" % i, b"x" * 200)], i)) for i in range(40)]
    write_log(tmp_path / "t-0", batches, 1000)
    options = ("compact", "-n", "-v", "--include-active", "--format", "json", tmp_path / "t-0")
    assert len(kseg(*options).of_type("cleanedSegment")) == 1
    for limit in (("--max-index-bytes", "60"), ("--segment-bytes", "2000")):
        assert len(kseg(*options, *limit).of_type("cleanedSegment")) > 2


@pytest.mark.parametrize(("options", "magics"), [((), {2}), (("--keep-format",), {0}), (("--era", "3.9"), {0})])
def test_old_messages_become_batches(kseg: Kseg, tmp_path: Path, options: tuple[str, ...], magics: set[int]) -> None:
    """Real messages of 0.8.2.2."""
    source = TESTDATA / "kafka-0.8.2.2/codecs/compact-0"
    partition = Path(shutil.copytree(source, tmp_path / "compact-0"))
    last = {row[2]: row[0] for row in records(source) if row[2] is not None}
    kseg("compact", "--include-active", "--min-cleanable-ratio", "0", "--drop-null-keys", *options, partition).expect(0)
    found = records(partition)
    assert [row[0] for row in found] == sorted(last.values())
    assert [row[3] for row in found] == [row[3] for row in records(source) if last.get(row[2]) == row[0]]
    assert {data[16] for data in files(partition, ".log").values() if data} == magics
    assert kseg("verify", "-q", partition).status == 0


@pytest.mark.parametrize("options", [(), ("--no-quarantine",)])
def test_a_full_disk(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]) -> None:
    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    partition = ABORTED.copy(tmp_path)
    with unchanged(tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr("kseg.segment.writer.os.write", full)
            assert "No space left" in kseg("compact", *ABORTED.options, *options, partition).expect(3).err
    assert not (partition / ".kseg-quarantine").exists()
