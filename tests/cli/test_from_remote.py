"""``kseg restore --from-remote``: what comes out is what a consumer read through the broker before it was lost."""

import gzip
import json
import os
import shutil
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from cli.command import CLEAN, Kseg, files, findings_of, flip
from kseg.changes.disk import Disk
from kseg.changes.new_directories import OUTPUT_MARK
from kseg.recovery.remote import PartitionBuilder
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS, plain_epochs
from kseg.stores.remote import segment as remote_segment
from node.disks import dealt, properties_of, rows_of, write_rows
from stores.remote.stores import KEY_OPTIONS, REMOTE, copied, damage_chunk, store_of, truth

KEYS = [word for option in KEY_OPTIONS for word in ("--private-key", option)]
RENAME = Disk.rename
NEW_ID = "AAECAwQFBgcICQoLDA0ODw"


def restore(kseg: Kseg, store: Path, output: Path, *options: object, logs: Path | None = None) -> Any:
    paths = [] if logs is None else [logs]
    return kseg("restore", "--from-remote", store, *KEYS, "--output", output, "--format", "json", *options, *paths)


def test_the_disks_of_a_node_are_its_logs(kseg: Kseg, tmp_path: Path) -> None:
    """The partition, its log start and __remote_log_metadata lie on different ones."""
    whole = REMOTE / "plain" / "logs"
    restore(kseg, store_of("plain"), tmp_path / "expected", "--topic", "t-del", logs=whole).expect(0)
    disks = dealt(whole, tmp_path / "node", 2)
    assert (disks[1] / "t-del-0").is_dir()
    (disks[1] / "log-start-offset-checkpoint").rename(disks[0] / "log-start-offset-checkpoint")
    for name, logs in (("a", disks[0].parent), ("b", properties_of(disks))):
        restore(kseg, store_of("plain"), tmp_path / name, "--topic", "t-del", logs=logs).expect(0)
        assert files(tmp_path / name) == files(tmp_path / "expected")
    other = Path(shutil.copytree(whole, tmp_path / "other"))
    (other / "meta.properties").write_text((other / "meta.properties").read_text().replace("node.id=1", "node.id=2"))
    done = kseg("restore", "--from-remote", store_of("plain"), "--output", tmp_path / "c", *disks, other)
    assert (done.status, "takes the log directories of one node" in done.err) == (2, True)
    restore(kseg, store_of("plain"), tmp_path / "c", logs=REMOTE).expect(3, "is no log directory")


def consumed(variant: str, name: str) -> list[dict[str, Any]]:
    with gzip.open(REMOTE / variant / "truth" / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def as_base64(value: Any) -> str | None:
    if value is None:
        return None
    return str(value["base64"]) if isinstance(value, dict) else b64encode(value.encode()).decode()


def check_records(
    kseg: Kseg, directory: Path, expected: list[dict[str, Any]], *options: str, epochs: bool = True
) -> None:
    rows = kseg("dump", "--deep-iteration", "--print-data-log", "--format", "json", *options, directory).objects
    epoch, found = -1, []
    for row in rows:
        if row["type"] == "batch":
            epoch = row["partitionLeaderEpoch"]
        elif row["type"] == "record" and "control" not in row:
            headers = [[header["key"], as_base64(header["value"])] for header in row["headers"]]
            values = [row["offset"], row["timestamp"], as_base64(row.get("key")), as_base64(row.get("value")), headers]
            found.append([*values, epoch if epochs else None])
    names = ("offset", "timestamp", "key", "value", "headers")
    assert found == [[*(row[name] for name in names), row["leaderEpoch"] if epochs else None] for row in expected]


def check_clean(kseg: Kseg, directory: Path) -> None:
    found = findings_of(kseg, "--level", "deep", directory)
    assert [(row["code"], row["file"]) for row in found if row["severity"] != "info"] == []


def test_a_store_that_lost_its_first_segment(kseg: Kseg, tmp_path: Path) -> None:
    """The log begins with the next one."""
    store = copied("zstd", tmp_path / "store")
    lost = sorted(path for path in store.rglob("t-roll-*/0/*") if path.is_file())
    first, second = sorted({path.name.partition("-")[0] for path in lost})[:2]
    for path in lost:
        if path.name.startswith(first):
            path.unlink()
    made = restore(kseg, store, tmp_path / "out", "--topic", "t-roll")
    start = int(second)
    assert f"begins at offset {start}: nothing is left of offsets {int(first)} to {start - 1}" in made.err
    (rebuilt,) = made.of_type("rebuilt")
    assert rebuilt["logStartOffset"] == start
    assert plain_epochs((tmp_path / "out/t-roll-0/leader-epoch-checkpoint").read_bytes())[0] == (0, start)
    records = [row for row in consumed("zstd", "t-roll-0.ru") if start <= row["offset"] < 599]
    check_records(kseg, tmp_path / "out" / "t-roll-0", records)


@pytest.mark.parametrize(
    ("variant", "name", "start", "tiered_end", "end"),
    [("plain", "t-del-0", 300, 492, 500), ("zstd", "t-roll-0", 0, 599, 720), ("both", "t-txn-0", 0, 422, 580)],
)
def test_joined_with_the_disk_and_from_the_store_alone(
    kseg: Kseg, tmp_path: Path, variant: str, name: str, start: int, tiered_end: int, end: int
) -> None:
    records = [row for row in consumed(variant, f"{name}.ru") if row["offset"] >= start]
    topic = name.rpartition("-")[0]
    for logs, log_end in ((REMOTE / variant / "logs", end), (None, tiered_end)):
        output = tmp_path / str(log_end)
        (rebuilt,) = restore(kseg, store_of(variant), output, "--topic", topic, logs=logs).expect(0).of_type("rebuilt")
        assert (rebuilt["logEndOffset"], rebuilt["directory"]) == (log_end, str(output / name))
        assert not [entry for entry in os.listdir(output) if entry.startswith(".kseg") and entry != OUTPUT_MARK]
        options = ["--offsets", f"{start}.."] if start else []
        check_records(kseg, output / name, [row for row in records if row["offset"] < log_end], *options)
        check_clean(kseg, output / name)


def test_the_log_start_comes_along(kseg: Kseg, tmp_path: Path) -> None:
    restore(kseg, store_of("plain"), tmp_path / "out", logs=REMOTE / "plain" / "logs")
    assert (tmp_path / "out" / "log-start-offset-checkpoint").read_text() == "0\n1\nt-del 0 300\n"
    assert (tmp_path / "out" / "t-del-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n0 300\n8 500\n"


def test_what_is_left_out_is_told(kseg: Kseg, tmp_path: Path) -> None:
    left = restore(kseg, store_of("zstd"), tmp_path / "out").of_type("left")
    assert [(row["firstOffset"], row["lastOffset"]) for row in left] == [(156, 300), (301, 444), (445, 599)]
    assert {row["reason"].split(":")[0] for row in left} == {"written by a leader whose records were lost"}
    made = restore(kseg, store_of("plain"), tmp_path / "int", "--topic", "t-int").expect(1)
    assert [row["reason"] for row in made.of_type("left")] == ["has no .indexes, .rsm-manifest"]
    assert not (tmp_path / "int" / "t-int-0").exists()


def test_a_dry_run_writes_a_report_or_a_page(kseg: Kseg, tmp_path: Path) -> None:
    output, report = tmp_path / "out", tmp_path / "report"
    words = ("restore", "--from-remote", store_of("zstd"), "--topic", "t-roll", "--output", output)
    planned = kseg(*words, "-n").expect(1)
    kseg(*words, "-n", "--report", report).expect(1, out=b"")
    assert report.read_bytes() == planned.out != b""
    page = kseg(*words, "-n", "--format", "html").expect(1).out.decode()
    assert page.startswith("<!doctype html>")
    assert "1 file operation would be done: 1 create." in page
    for options in (("--report", report), ("--format", "html")):
        kseg(*words, *options).expect(2, "--format html and --report are for a dry run", out=b"")
    assert not output.exists()


def test_another_cluster_another_name_and_epochs_of_zero(kseg: Kseg, tmp_path: Path) -> None:
    output = tmp_path / "out"
    restore(kseg, store_of("zstd"), output, "--topic-id", NEW_ID, "--as", "new", "--reset-epochs").expect(0)
    assert (output / "new-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {NEW_ID}"
    assert (output / "new-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    records = [row for row in consumed("zstd", "t-roll-0.ru") if row["offset"] < 599]
    check_records(kseg, output / "new-0", records, epochs=False)
    epochs = {
        row["partitionLeaderEpoch"] for row in kseg("dump", "--format", "json", output / "new-0").of_type("batch")
    }
    assert epochs == {0}
    check_clean(kseg, output / "new-0")


def test_ids_of_the_new_cluster(kseg: Kseg, tmp_path: Path) -> None:
    """testdata/log-directories/4.3.1 stands for a broker of the new cluster: it has a topic of another name."""
    cluster = REMOTE.parent / "log-directories" / "4.3.1"
    refused = restore(kseg, store_of("zstd"), tmp_path / "a", "--for-cluster", cluster).expect(3)
    assert "has no topic t-roll: create it first" in refused.err or "no readable cluster metadata" in refused.err


def test_the_next_steps_replace_no_records(kseg: Kseg, tmp_path: Path) -> None:
    words = ["restore", "--from-remote", store_of("zstd"), "--as", "gz-0", "--for-cluster", CLEAN]
    told = kseg(*words, "--output", tmp_path / "out").expect(0).err
    assert f"{CLEAN / 'gz-0'} holds records: move it out of {CLEAN} first." in told.replace("\n", " ")


def test_an_output_is_clean_without_the_files_of_a_node(kseg: Kseg, tmp_path: Path) -> None:
    """A broker's own log directory has meta.properties; the output becomes part of one."""
    output = tmp_path / "out"
    assert restore(kseg, store_of("zstd"), output, "--topic-id", NEW_ID).status == 0
    assert findings_of(kseg, "--level", "deep", output) == []
    (output / OUTPUT_MARK).unlink()
    assert sorted(row["code"] for row in findings_of(kseg, output)) == ["bad-meta-properties", "unclean-shutdown"]


def test_a_broker_takes_an_output_for_its_log_directory(kseg: Kseg, tmp_path: Path) -> None:
    output = tmp_path / "out"
    restore(kseg, store_of("zstd"), output)
    (output / "meta.properties").write_text("version=2\n")
    assert {row["code"] for row in findings_of(kseg, output)} == {"bad-meta-properties", "unclean-shutdown"}


def test_an_interrupted_run_goes_on(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = tmp_path / "store"
    shutil.copytree(store_of("zstd") / "cluster-a", both / "cluster-a")
    shutil.copytree(store_of("plain"), both, dirs_exist_ok=True)
    output = tmp_path / "out"
    read = remote_segment.RemoteSegment.read_chunks

    def failing(self: Any, *arguments: int) -> Any:
        if "t-roll" in self.path():
            raise OSError(28, "No space left on device")
        return read(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(remote_segment.RemoteSegment, "read_chunks", failing)
        stopped = restore(kseg, both, output, "--topic", "t-[dr]*", "--jobs", "1")
    assert stopped.status == 4
    assert "repeat the command" in stopped.err
    assert sorted(entry.name for entry in output.iterdir() if entry.is_dir()) == ["t-del-0"]
    inode = (output / "t-del-0").stat().st_ino
    restore(kseg, both, output, "--topic", "t-[dr]*", "--reset-epochs").expect(3, "other options")
    made = restore(kseg, both, output, "--topic", "t-[dr]*").expect(0)
    assert [row["wasThere"] for row in made.of_type("rebuilt")] == [True, False]
    assert (output / "t-del-0").stat().st_ino == inode
    assert "t-roll 0 599" in (output / "recovery-point-offset-checkpoint").read_text()
    restore(kseg, both, output, "--topic", "t-[dr]*").expect(3, "already exists")


def test_partitions_are_rebuilt_at_the_same_time(kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=60)  # broken if one partition waits for the other
    build = PartitionBuilder.build

    def meeting(self: PartitionBuilder, *given: Any) -> Any:
        both.wait()
        return build(self, *given)

    monkeypatch.setattr(PartitionBuilder, "build", meeting)
    store = tmp_path / "store"
    shutil.copytree(store_of("zstd") / "cluster-a", store / "cluster-a")
    shutil.copytree(store_of("plain"), store, dirs_exist_ok=True)
    made = restore(kseg, store, tmp_path / "out", "--topic", "t-[dr]*", "--jobs", "2")
    assert (made.status, len(made.of_type("rebuilt"))) == (0, 2)


def test_a_damaged_chunk_costs_its_batches_alone(kseg: Kseg, tmp_path: Path) -> None:
    store = copied("both", tmp_path)
    damage_chunk(store, "both", 5)
    restore(kseg, store, tmp_path / "out").expect(1, "chunk 5: authentication failed")
    offsets = [
        row["offset"]
        for row in kseg("dump", "--deep-iteration", "--format", "json", tmp_path / "out" / "t-txn-0").of_type("record")
    ]
    expected = [row["offset"] for row in consumed("both", "t-txn-0.ru") if row["offset"] < 422]
    lost = set(expected) - set(offsets)
    assert 0 < len(lost) < 40
    found = findings_of(kseg, "--level", "deep", tmp_path / "out" / "t-txn-0", severity="error")
    assert {row["code"] for row in found} == {"gap-unexplained"}


def test_a_damaged_local_segment_is_taken_from_the_store(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(REMOTE / "zstd" / "logs", tmp_path / "logs"))
    first = sorted((logs / "t-roll-0").glob("*.log"))[0]
    flip(first)
    restore(kseg, store_of("zstd"), tmp_path / "out", logs=logs).expect(0, "is damaged, and replaced from the store")
    check_records(kseg, tmp_path / "out" / "t-roll-0", consumed("zstd", "t-roll-0.ru"))
    check_clean(kseg, tmp_path / "out" / "t-roll-0")


def test_a_gap_between_the_store_and_the_disk(kseg: Kseg, tmp_path: Path) -> None:
    store = copied("zstd", tmp_path)
    for path in store.rglob("*0302-*"):
        path.unlink()
    (summary,) = restore(kseg, store, tmp_path / "out", logs=REMOTE / "zstd" / "logs").expect(1).of_type("summary")
    assert [(gap["firstOffset"], gap["lastOffset"]) for gap in summary["gaps"]] == [(302, 451)]


def test_a_replica_that_was_behind_is_not_used(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(REMOTE / "zstd" / "logs", tmp_path / "logs"))
    (logs / "t-roll-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 300\n")
    made = restore(kseg, store_of("zstd"), tmp_path / "out", logs=logs)
    assert "an outdated replica" in made.err
    assert made.of_type("rebuilt")[0]["logEndOffset"] == 599


def test_segments_that_the_lineage_cuts(kseg: Kseg, tmp_path: Path) -> None:
    """Without the segment of epoch 4 at 156, that of epoch 2 is used up to where epoch 2 begins."""
    store = copied("zstd", tmp_path)
    lost = next(fact for fact in truth("zstd").values() if fact["startOffset"] == 156 and fact["endOffset"] == 301)
    for path in store.rglob(f"*{lost['id']}*"):
        path.unlink()
    (summary,) = restore(kseg, store, tmp_path / "out").of_type("summary")
    assert [(gap["firstOffset"], gap["lastOffset"]) for gap in summary["gaps"]] == [(300, 301)]
    rows = [row for row in consumed("zstd", "t-roll-0.ru") if row["offset"] < 599 and row["offset"] not in (300, 301)]
    check_records(kseg, tmp_path / "out" / "t-roll-0", rows)
    assert (tmp_path / "out" / "t-roll-0" / f"{156:020}.index").exists()
    assert plain_epochs((tmp_path / "out" / "t-roll-0" / "leader-epoch-checkpoint").read_bytes()) == [(0, 0), (4, 300)]


@pytest.mark.parametrize("given", [[], ["--private-key", f"k1={REMOTE}/keys/k2-private.pem"]])
def test_without_the_key(kseg: Kseg, tmp_path: Path, given: list[str]) -> None:
    kseg("restore", "--from-remote", store_of("enc"), *given, "--output", tmp_path / "out").expect(3, "k1")
    assert not (tmp_path / "out" / "t-txn-0").exists()


def test_another_topic_of_the_same_name(kseg: Kseg, tmp_path: Path) -> None:
    """A topic that was deleted and made anew: the one on the broker's disk is meant."""
    store = copied("zstd", tmp_path)
    old = next(path for path in store.rglob("*") if path.name.startswith("t-roll-"))
    shutil.copytree(old, old.parent / f"t-roll-{NEW_ID}")
    made = restore(kseg, store, tmp_path / "out", logs=REMOTE / "zstd" / "logs")
    assert made.of_type("rebuilt")[0]["topicId"] == old.name.removeprefix("t-roll-")
    assert len([row for row in made.of_type("left") if row["reason"].startswith("of an earlier topic")]) == 7


@pytest.mark.parametrize("is_stopped", [False, True])
def test_partition_on_other_disk(kseg: Kseg, tmp_path: Path, is_stopped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its entries in the checkpoints, in place of those that a lost one has left; a kill leaves no partition
    without them."""
    logs = Path(shutil.copytree(REMOTE / "plain" / "logs", tmp_path / "logs"))
    disk = tmp_path / "disk"
    disk.mkdir()
    properties = (logs / "meta.properties").read_text()
    (disk / "meta.properties").write_text(properties.replace("directory.id=h", "directory.id=g"))
    (disk / ".kafka_cleanshutdown").touch()
    for name in OFFSET_CHECKPOINTS:
        write_rows(disk / name, [["other", "3", "7"], ["t-del", "0", "900"]])
    before = files(disk)
    if is_stopped:

        def stopping(self: Disk, path: str, target: str, *more: Any) -> None:
            if target.endswith("/t-del-0"):
                raise OSError(28, "No space left on device")
            RENAME(self, path, target, *more)

        with monkeypatch.context() as patch:
            patch.setattr(Disk, "rename", stopping)
            restore(kseg, store_of("plain"), disk, "--topic", "t-del", logs=logs).expect(4, "repeat the command")
        assert not (disk / "t-del-0").exists()
    restore(kseg, store_of("plain"), disk, "--topic", "t-del", logs=logs).expect(0)
    for name in OFFSET_CHECKPOINTS:
        offset = {"log-start-offset-checkpoint": "300", "cleaner-offset-checkpoint": ""}.get(name, "500")
        assert rows_of(disk / name) == [["other", "3", "7"], *([["t-del", "0", offset]] if offset else [])]
    after = files(disk)
    assert {name for name in after if "/" not in name} == {name for name in before if "/" not in name}
    assert after["meta.properties"] == before["meta.properties"]
    shutil.rmtree(logs / "t-del-0")
    (partition,) = [path for path in disk.iterdir() if path.is_dir()]
    check_clean(kseg, partition)
    restore(kseg, store_of("plain"), disk, "--topic", "t-del", logs=logs).expect(3, f"{partition}: already exists")


def test_a_log_directory_of_another_node_gets_no_partition(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(REMOTE / "plain" / "logs", tmp_path / "logs"))
    other = Path(shutil.copytree(logs, tmp_path / "other"))
    (other / "meta.properties").write_text((logs / "meta.properties").read_text().replace("node.id=1", "node.id=2"))
    shutil.rmtree(other / "t-del-0")
    for given in (logs, None):
        restore(kseg, store_of("plain"), other, logs=given).expect(3, "already exists; nothing was written")
