"""What a named command changes: only what is damaged; none of them removes intact records."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.command import CLEAN, Kseg, changed, copying, files, flip, judged, unchanged
from segment.segments import spans

LOG_STARTS = "log-start-offset-checkpoint"
logs = copying(CLEAN, "logs")


def flipped(partition: Path) -> None:
    log = max(partition.glob("*.log"), key=lambda path: path.stat().st_size)
    flip(log, bits=4)


def without_index(partition: Path) -> None:
    next(partition.glob("*.index")).unlink()


def with_bad_epochs(partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_text("0\n1\nx y\n")


@pytest.mark.parametrize("damage", [flipped, without_index, with_bad_epochs])
def test_a_named_command_changes_one_partition(damage: Callable[[Path], None], kseg: Kseg, logs: Path) -> None:
    damage(logs / "gz-0")
    before = files(logs, kept=False)
    for argv in judged(kseg, logs)[1]:
        assert kseg(*argv[1:]).status == 0
    assert changed(before, logs) - {".kafka_cleanshutdown"} == {"gz-0"}
    assert judged(kseg, logs) == ([], [])


def test_salvage_leaves_what_is_not_damaged(kseg: Kseg, logs: Path) -> None:
    flipped(logs / "lz-2")
    before = files(logs, kept=False)
    outcome = kseg("recover", "--mode", "salvage", "--format", "json", logs)
    assert changed(before, logs) - {".kafka_cleanshutdown"} == {"lz-2"}
    names = {path.name for path in logs.iterdir() if path.is_dir()} - {"lz-2"}
    assert {Path(path).name for path in outcome.objects[-1]["leftAlone"]} == names
    assert (
        f"not damaged, left as they are: {len(names) + 1} partitions" in kseg("recover", "--mode", "salvage", logs).err
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["abc.snapshot", "foo.swap", "x.log", "-.index", "x.timeindex.cleaned"])
def test_salvage_settles_names_that_no_broker_starts_with(name: str, kseg: Kseg, logs: Path) -> None:
    shutil.copy(next((logs / "lz-2").glob("*.log")), logs / "lz-2" / name)
    before = files(logs, kept=False)
    assert {error["code"] for error in judged(kseg, logs)[0]} == {"broker-would-not-start"}
    assert kseg("recover", "--mode", "salvage", logs).status == 0
    assert changed(before, logs) - {".kafka_cleanshutdown"} == {"lz-2"}
    assert not (logs / "lz-2" / name).exists()
    assert {path for path in before if path.endswith(".log")} - files(logs, kept=False).keys() <= {f"lz-2/{name}"}
    assert judged(kseg, logs) == ([], [])
    assert kseg("recover", "--dry-run", logs).status <= 1  # a broker starts


def test_only_an_unreadable_checkpoint_is_written_anew(kseg: Kseg, logs: Path) -> None:
    points = logs / "recovery-point-offset-checkpoint"
    points.write_text(points.read_text() + "nonsense\n")
    before = files(logs, kept=False)
    _, commands = judged(kseg, logs)
    assert commands == [["kseg", "recover", "--mode", "salvage", str(logs)]]
    assert kseg(*commands[0][1:]).status == 0
    assert changed(before, logs) - {".kafka_cleanshutdown"} == {points.name}
    assert points.read_bytes() == before[points.name].removesuffix(b"nonsense\n")


def test_a_log_start_beyond_the_end_is_a_decision(kseg: Kseg, logs: Path) -> None:
    (logs / LOG_STARTS).write_text("0\n1\ngz 0 5000\n")
    (error,), commands = judged(kseg, logs)
    assert (error["code"], error["repair"], error["needs"], commands) == ("log-start-beyond-end", None, "decision", [])
    assert error["details"]["removedRecords"] == 318
    assert "kseg recover would remove 318 records" in error["message"]
    assert kseg("recover", "--dry-run", "--format", "json", logs / "gz-0").objects[-1]["removedRecords"] == 318
    before = files(logs, kept=False)
    assert kseg("recover", "--mode", "salvage", logs / "gz-0").status == 0
    assert {name for name in before if name.startswith("gz-0/") and name.endswith(".log")} <= files(
        logs, kept=False
    ).keys()
    assert (logs / LOG_STARTS).read_text() == "0\n1\ngz 0 0\n"
    assert judged(kseg, logs) == ([], [])


@pytest.mark.parametrize("which", [0, 1, -1])
def test_what_salvage_restores_is_not_called_lost(which: int, kseg: Kseg, logs: Path) -> None:
    """The length field of a batch: the first, the second, the last before the high watermark."""
    log = max((logs / "gz-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    at, _ = spans(bytes(data))[which]
    data[at + 8 : at + 12] = (12).to_bytes(4, "big")
    log.write_bytes(data)
    errors, commands = judged(kseg, logs)
    assert {error["code"] for error in errors} == {"bad-length"}
    assert commands == [["kseg", "recover", "--mode", "salvage", str(logs / "gz-0")]]
    assert kseg(*commands[0][1:]).status == 0
    assert judged(kseg, logs) == ([], [])


METADATA = "__cluster_metadata-0"


def damaged_bootstrap(logs: Path) -> None:
    path = logs / "bootstrap.checkpoint"
    path.write_bytes(path.read_bytes()[:-5])


def damaged_snapshot(logs: Path) -> None:
    shutil.copy(logs / "bootstrap.checkpoint", logs / METADATA / f"{10:020}-{1:010}.checkpoint")
    with (logs / METADATA / f"{10:020}-{1:010}.checkpoint").open("r+b") as stream:
        stream.truncate(100)


def cut_start(logs: Path) -> None:
    """A log that starts above 0, without a snapshot of what was before."""
    (log,) = (logs / METADATA).glob("*.log")
    data = log.read_bytes()
    at, _ = spans(data)[1]
    first = int.from_bytes(data[at : at + 8], "big")
    for path in (logs / METADATA).iterdir():
        if path.suffix != "" and path.name != "partition.metadata":
            path.unlink()
    (logs / METADATA / f"{first:020}.log").write_bytes(data[at:])


@pytest.mark.parametrize("damage", [damaged_bootstrap, damaged_snapshot, cut_start])
def test_nothing_changes_where_the_node_would_not_start(damage: Callable[[Path], None], kseg: Kseg, logs: Path) -> None:
    (logs / ".kafka_cleanshutdown").touch()
    assert kseg("recover", "--dry-run", logs).status <= 1
    damage(logs)
    with unchanged(logs):
        for options in (["--dry-run"], []):
            kseg("recover", *options, logs).expect(3, "start", out=b"")


def test_batches_that_must_go_are_counted_and_called_intact(kseg: Kseg, logs: Path) -> None:
    """A segment of another partition, whose offsets are taken."""
    log = next((logs / "lz-2").glob("*.log"))
    shutil.copy(log, logs / "gz-0" / f"{int(log.stem) + 1:020}.log")
    errors, commands = judged(kseg, logs / "gz-0")
    assert {(error["repair"], error["needs"]) for error in errors} == {(None, "decision")}
    assert [argv for argv in commands if "salvage" in argv] == []
    outcome = kseg("recover", "--mode", "salvage", "--dry-run", "--format", "json", logs / "gz-0")
    gone = sum(row["intactRecords"] for row in outcome.of_type("leftOut"))
    assert outcome.objects[-1]["removedRecords"] == gone > 0
    assert outcome.of_type("damage") == []
    (overlap,) = (error for error in errors if error["code"] == "segments-overlap")
    assert overlap["details"]["removedRecords"] == gone
