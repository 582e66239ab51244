"""``kseg undo`` from the command line, on copies of real partitions that were changed."""

import hashlib
import os
import pwd
import shutil
from pathlib import Path

import pytest

from changes.driver.cutting import CLEAN, LOG, POINTS, files, make_logs
from changes.failing import CountingDisk, KillingDisk
from changes.holding import held
from cli.command import TESTDATA, Kseg, flip, unchanged
from cli.dying import on, outcome
from kseg import __version__
from kseg.changes import manifest
from kseg.changes.apply import apply
from kseg.changes.disk import Disk
from kseg.changes.journal import LogDirectoryChange
from kseg.changes.plan import Plan, Removed
from kseg.errors import StoppedHalfwayError
from kseg.segment.files import CLEAN_SHUTDOWN

STARTS = "log-start-offset-checkpoint"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = make_logs(tmp_path / "logs")
    for partition in directory.glob("dplain-*"):
        (partition / "leader-epoch-checkpoint").write_bytes(b"0\n1\n3 116\n")
        (partition / "0.index").write_bytes(b"")
    return directory


def plan_for(partition: Path, size: int = 7129) -> Plan:
    plan = Plan(str(partition))
    before = (partition / LOG).stat().st_size
    plan.truncate(LOG, size, "is cut", [Removed(size, before - size, "tail", 134, 149, 16)])
    plan.write("leader-epoch-checkpoint", [b"0\n0\n"], "rebuilt")
    return plan


def change(partition: Path, command: str = "recover --mode broker", size: int = 7129) -> None:
    apply(plan_for(partition, size), command)


def change_all(logs: Path, size: int = 7129) -> None:
    work = LogDirectoryChange(str(logs), "recover --mode broker", (POINTS, STARTS))
    for partition in sorted(logs.glob("dplain-*")):
        work.apply(plan_for(partition, size))
    root = Plan(str(logs))
    root.write(POINTS, [b"0\n1\ndplain 0 %d\n" % (134 if size == 7129 else 120)], "pointed beyond the end")
    work.finish(root)


def test_the_last_change_is_put_back(kseg: Kseg, logs: Path) -> None:
    with unchanged(logs, files):
        change(logs / "dplain-0")
        outcome = kseg("undo", logs / "dplain-0").expect(0)
    assert outcome.lines[0] == str(logs / "dplain-0")
    assert outcome.lines[1].startswith("  replace  leader-epoch-checkpoint")
    assert outcome.lines[3].startswith(f"  extend   {LOG} 7129 -> ")
    assert "kseg: done: 1 extend, 1 replace in 1 directory" in outcome.err
    kseg("undo", logs / "dplain-0").expect(3, "there is no change to undo", out=b"")


def test_a_directory_that_is_named_twice_is_undone_once(kseg: Kseg, logs: Path) -> None:
    partition = logs / "dplain-0"
    change(partition)
    with unchanged(logs, files):
        change(partition, size=3000)
        kseg("undo", partition, f"{partition}/").expect(0)


def test_a_dry_run_changes_nothing(kseg: Kseg, logs: Path) -> None:
    change(logs / "dplain-0")
    with unchanged(logs, files):
        outcome = kseg("undo", "--dry-run", "--format", "json", logs / "dplain-0").expect(1)
        assert [(row["action"], row["file"]) for row in outcome.of_type("action")] == [
            ("replace", str(logs / "dplain-0" / "leader-epoch-checkpoint")),
            ("extend", str(logs / "dplain-0" / LOG)),
        ]
        assert outcome.objects[-1]["type"] == "summary"
        assert (outcome.objects[-1]["changed"], outcome.objects[-1]["dryRun"]) == (False, True)
    assert not (logs / ".lock").exists()


def test_the_list(kseg: Kseg, logs: Path) -> None:
    change(logs / "dplain-0", "first")
    change(logs / "dplain-0", "second\x1b[31m", 5000)
    lines = kseg("undo", "--list", logs / "dplain-0").lines
    assert lines[0] == str(logs / "dplain-0")
    assert [line.split()[0] for line in lines[1:]] == ["1", "2"]
    assert lines[1].split()[3:] == ["done", "7.0", "KiB", "first"]
    assert lines[2].endswith("second\\x1b[31m")
    rows = kseg("undo", "--list", "--format", "json", logs).objects
    assert [row["type"] for row in rows] == ["change", "change", "summary"]
    assert (rows[0]["command"], rows[0]["state"], rows[0]["number"]) == ("first", "done", 1)
    assert rows[2]["keptBytes"] == rows[0]["keptBytes"] + rows[1]["keptBytes"] > 0


def test_an_empty_list(kseg: Kseg, logs: Path) -> None:
    outcome = kseg("undo", "--list", logs)
    assert (outcome.status, outcome.out, outcome.err) == (0, b"", "kseg: no change is known\n")


def test_purging_frees_what_was_kept(kseg: Kseg, logs: Path) -> None:
    change(logs / "dplain-0", "first")
    change(logs / "dplain-0", "second", 5000)
    assert kseg("undo", "--purge", "--dry-run", logs / "dplain-0").status == 1
    outcome = kseg("undo", "--purge", "--change", 1, logs / "dplain-0")
    assert (outcome.status, outcome.err) == (0, f"kseg: {logs}/dplain-0: freed 7.0 KiB (changes: 1)\n")
    assert kseg("undo", "--purge", "--change", 1, logs / "dplain-0").status == 3
    assert [row["number"] for row in kseg("undo", "--list", "--format", "json", logs).of_type("change")] == [2]
    assert kseg("undo", "--purge", logs).status == 0
    assert not (logs / "dplain-0" / ".kseg-quarantine").exists()


def test_a_log_directory_is_put_back_as_a_whole(kseg: Kseg, logs: Path) -> None:
    (logs / CLEAN_SHUTDOWN).write_bytes(b"")
    (logs / STARTS).write_bytes(b"0\n0\n")  # is read, and stays
    with unchanged(logs, files):
        change_all(logs)
        assert not (logs / CLEAN_SHUTDOWN).exists()
        rows = kseg("undo", "--list", "--format", "json", logs).objects
        assert [row.get("partitions") for row in rows] == [2, None, None, None]
        assert kseg("undo", "-n", logs).status == 1
        outcome = kseg("undo", "--format", "json", logs).expect(0)
        assert {Path(row["file"]).name for row in outcome.of_type("action")} == {
            LOG, "leader-epoch-checkpoint", POINTS, CLEAN_SHUTDOWN,
        }  # fmt: skip
        assert outcome.objects[-1]["changed"] is True


def test_what_has_changed_in_the_root_since_is_told(kseg: Kseg, logs: Path) -> None:
    (logs / CLEAN_SHUTDOWN).touch()
    change_all(logs)
    (logs / POINTS).write_bytes(b"a broker's")
    done = kseg("undo", logs).expect(0, f"{POINTS}: has changed since, and is not restored")
    assert f"{CLEAN_SHUTDOWN}: is not restored: the log directory has changed since" in done.err
    assert (logs / POINTS).read_bytes() == b"a broker's"


def test_purging_a_log_directory(kseg: Kseg, logs: Path) -> None:
    change_all(logs)
    change(logs / "dplain-0", "later", 100)
    asked = ["undo", "--purge", "--format", "json", logs]
    planned = kseg(*asked, "--dry-run")
    assert (planned.status, planned.objects[0]["changes"]) == (1, 2)
    assert kseg(*asked, "--dry-run", "--change", 1).objects[0]["changes"] == 1
    assert kseg(*asked, "--dry-run", "--change", 7).status == 3
    assert {**kseg(*asked).objects[0], "dryRun": True} == {**planned.objects[0], "dryRun": True}
    assert kseg("undo", "--purge", "--quiet", logs).err == ""
    assert sorted(name for name in files(logs) if "kseg" in name) == []


def test_a_marker_of_a_clean_stop_goes_first(kseg: Kseg, logs: Path) -> None:
    change(logs / "dplain-0")
    (logs / CLEAN_SHUTDOWN).write_bytes(b"")
    assert kseg("undo", "--format", "json", logs / "dplain-0").objects[0]["file"] == str(logs / CLEAN_SHUTDOWN)
    assert not (logs / CLEAN_SHUTDOWN).exists()


def test_it_is_refused_while_the_directory_is_locked(kseg: Kseg, logs: Path) -> None:
    change(logs / "dplain-0")
    before = files(logs)
    with held(logs):
        kseg("undo", logs / "dplain-0").expect(3, "holds the log directory; nothing was changed", out=b"")
        (summary,) = kseg("undo", "--format", "json", logs / "dplain-0").expect(3).objects
        assert summary["failed"] == [str(logs / "dplain-0")]
        assert files(logs) == before
        assert kseg("undo", "--no-lock", logs / "dplain-0").status == 0


def test_what_was_interrupted_is_completed_first_and_told(kseg: Kseg, logs: Path) -> None:
    class Full(Disk):
        def unlink(self, path: str) -> None:
            raise OSError(5, "Input/output error")

    with unchanged(logs, files):
        plan = plan_for(logs / "dplain-0")
        plan.delete("0.index", "has no .log")
        with pytest.raises(StoppedHalfwayError):
            apply(plan, "recover", disk=Full())
        dry = kseg("undo", "--dry-run", logs / "dplain-0")
        assert "'recover' was interrupted, and would be completed first" in dry.err
        kseg("undo", logs / "dplain-0").expect(0, "'recover' was interrupted, and is complete now")


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (["--list", "--purge", "x"], 2, "exclude each other"),
        (["--change", "1", "x"], 2, "is for --purge"),
        ([], 2, "Missing argument"),
        (["no-such"], 3, "no-such: no such file or directory"),
        ([str(CLEAN / LOG)], 3, "is no directory"),
    ],
)
def test_wrong_usage(arguments: list[str], status: int, message: str, kseg: Kseg) -> None:
    kseg("undo", "--verbose", *arguments).expect(status, message)


def test_one_path_that_cannot_be_undone_does_not_keep_the_others(kseg: Kseg, logs: Path) -> None:
    with unchanged(logs, files):
        change(logs / "dplain-1")
        kseg("undo", logs / "dplain-0", logs / "dplain-1").expect(3)


@pytest.mark.parametrize("at", range(2))
@pytest.mark.parametrize("of_root", [True, False], ids=["log-directory", "partition"])
def test_what_was_kept_is_compared_before_it_is_put_back(of_root: bool, at: int, logs: Path, kseg: Kseg) -> None:
    change_all(logs) if of_root else change(logs / "dplain-0")
    kept = sorted((logs / "dplain-0" / ".kseg-quarantine" / "1" / "old").iterdir())
    flip(kept[at])
    with unchanged(logs, files):
        for arguments in ((), ("-n",)):
            done = kseg("undo", *arguments, logs if of_root else logs / "dplain-0")
            assert (done.status, "is missing or has changed since; nothing was undone" in done.err) == (3, True)


def test_holes_at_the_end_of_what_was_kept_may_have_become_zeros(logs: Path, kseg: Kseg) -> None:
    partition = logs / "dplain-0"
    with (partition / "0.index").open("wb") as file:
        file.write(b"entries" * 100)
        file.truncate(1 << 20)
    before = files(logs)
    plan = Plan(str(partition))
    plan.delete("0.index", "goes")
    apply(plan, "test")
    (kept,) = (partition / ".kseg-quarantine" / "1" / "old").iterdir()
    kept.write_bytes(kept.read_bytes())
    assert kseg("undo", partition).status == 0
    assert {name: data for name, (data, _) in files(logs).items()} == {name: data for name, (data, _) in before.items()}


def test_a_quarantine_that_was_moved_away_is_missed(logs: Path, tmp_path: Path, kseg: Kseg) -> None:
    change_all(logs)
    (logs / "dplain-1" / ".kseg-quarantine").rename(tmp_path / "away")
    with unchanged(logs, files):
        kseg("undo", logs).expect(3, "kept there are missing; nothing was undone")


def test_a_quarantine_that_was_moved_away_is_missed_after_a_kill(logs: Path, tmp_path: Path, kseg: Kseg) -> None:
    change = LogDirectoryChange(str(logs), "recover")
    for name in ("dplain-0", "dplain-1"):
        plan = Plan(str(logs / name))
        plan.truncate(LOG, 800, "is cut")
        change.apply(plan)
    (logs / "dplain-1" / ".kseg-quarantine").rename(tmp_path / "away")
    with unchanged(logs, files):
        kseg("undo", logs).expect(3, "kept there are missing; nothing was undone")


def test_bytes_kept_elsewhere_for_a_partition_that_has_moved(
    logs: Path, tmp_path: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(logs / "dplain-0" / LOG, 100)
    before = files(logs)
    kseg("recover", "-q", "--mode", "salvage", "--quarantine", tmp_path / "spare", logs / "dplain-0")
    logs.rename(tmp_path / "moved")
    for arguments in ((), ("--purge",), ("--purge", "-n")):
        told = "give its parent directory to kseg undo with --quarantine"
        kseg("undo", *arguments, tmp_path / "moved" / "dplain-0").expect(3, told)
    monkeypatch.chdir(tmp_path)
    kseg("undo", "--quarantine", "spare", "moved/dplain-0").expect(0)
    assert files(tmp_path / "moved") == before
    assert list((tmp_path / "spare").iterdir()) == []


def test_an_interrupted_change_is_completed_and_not_undone(kseg: Kseg, tmp_path: Path) -> None:
    partition = Path(shutil.copytree(TESTDATA / "damaged/findings/pending-change/dplain-0", tmp_path / "dplain-0"))
    assert kseg("undo", "--complete", "-n", partition).status == 1
    kseg("undo", "--complete", partition).expect(0, "is complete now")
    assert kseg("undo", "--complete", "-n", partition).status == 0
    assert kseg("undo", "--complete", "--list", partition).status == 2


@pytest.mark.parametrize("name", ["logs", "logs/dplain-0"])
def test_an_interrupted_undo_is_completed(kseg: Kseg, logs: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else undone."""
    monkeypatch.chdir(logs.parent)
    change_all(logs)
    with unchanged(logs, outcome):
        at = CountingDisk()
        for disk in (at, None):
            change_all(logs, 3000) if name == "logs" else change(logs / "dplain-0", size=3000)
            on(disk or KillingDisk(at.count * 2 // 3), monkeypatch, "undo", "-q", name)
        dry = kseg("undo", "-n", name).expect(1, "was interrupted, and would be completed first")
        assert "nothing to change" not in dry.err
        kseg("undo", name).expect(0, "was interrupted, and is complete now")


def test_what_only_its_repetition_completes_is_told(kseg: Kseg, logs: Path) -> None:
    LogDirectoryChange(str(logs), "recover").apply(plan_for(logs / "dplain-0"))
    for words in (("-n",), ()):
        kseg("undo", "--complete", *words, logs).expect(3, "'recover' was interrupted here: repeat it, or undo it with")
    kseg("undo", "--purge", logs).expect(0, "freed 0 B (changes: 0)")
    kseg("undo", "-n", logs).expect(1)
    kseg("undo", logs).expect(0)
    kseg("undo", "--complete", logs).expect(0)


def test_purging_is_told_as_json(kseg: Kseg, logs: Path) -> None:
    change(logs / "dplain-0", "first")
    (kept, _summary) = kseg("undo", "--list", "--format", "json", logs).objects
    row = {
        "type": "purge",
        "path": str(logs / "dplain-0"),
        "changes": 1,
        "freedBytes": kept["keptBytes"],
        "heldBytes": 0,
    }
    options = ("undo", "--purge", "--format", "json")
    assert kseg(*options, "--dry-run", logs / "dplain-0").objects == [row | {"dryRun": True}]
    assert kseg(*options, logs / "dplain-0").objects == [row | {"dryRun": False}]
    assert kseg(*options, logs / "dplain-0").objects == [row | {"changes": 0, "freedBytes": 0, "dryRun": False}]


@pytest.mark.parametrize("end", [b"", b"\0", bytes(5000)])
def test_a_kept_file_may_end_in_zeros(end: bytes, logs: Path, kseg: Kseg) -> None:
    partition = logs / "dplain-0"
    (partition / "0.index").write_bytes(b"entries" * 1000 + end)
    before, size = files(logs), 7000 + len(end)
    plan = Plan(str(partition))
    plan.rename("0.index", "0.index.deleted", "goes", [Removed(0, size, "retention", 0, 9, 10)], keeps=True)
    apply(plan, "test")
    assert kseg("undo", partition).status == 0
    assert files(logs) == before


def test_a_partition_named_by_itself_is_put_back(kseg: Kseg, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(logs / "dplain-0")
    monkeypatch.chdir(logs)
    kseg("recover", "--mode", "salvage", "dplain-0")
    assert files(logs / "dplain-0") != before
    kseg("undo", "dplain-0").expect(0)
    found = files(logs / "dplain-0")
    assert {name: found[name] for name in before} == before


def test_a_change_names_who_has_made_it(kseg: Kseg, logs: Path) -> None:
    partition = logs / "dplain-0"
    flip(partition / f"{116:020}.log")
    words = ["recover", "-q", "--mode", "salvage", str(partition)]
    kseg(*words).expect(1)  # offsets stay missing
    for path in (partition, logs):
        *changes, _summary = kseg("undo", "--list", "--format", "json", path).objects
        for row in changes:
            assert row["arguments"] == words
            assert row["host"] == os.uname().nodename
            assert (row["user"], row["kseg"]) == (pwd.getpwuid(os.geteuid()).pw_name, __version__)


@pytest.mark.parametrize("words", [("recover",), ("recover", "--mode", "salvage")])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_hashes_are_kept(kseg: Kseg, logs: Path, tmp_path: Path, words: tuple[str, ...], is_elsewhere: bool) -> None:
    partition = logs / "dplain-0"
    flip(partition / LOG)
    (partition / f"{116:020}.timeindex").write_bytes(b"")
    before = hashes(partition)
    kseg(*words, *["--quarantine", tmp_path / "kept"] * is_elsewhere, partition)
    after = hashes(partition)
    row, _summary = kseg("undo", "--list", "--format", "json", partition).objects
    told = {each["file"]: each for each in row["files"]}
    assert {name for name in {**before, **after} if before.get(name) != after.get(name)} == set(told)
    for name, each in told.items():
        assert (each["sizeBefore"], each["sha256Before"]) == before.get(name, (None, None))
        assert (each["sizeAfter"], each["sha256After"]) == after.get(name, (None, None))


def hashes(directory: Path) -> dict[str, tuple[int, str]]:
    found = (path for path in directory.iterdir() if path.is_file())
    return {path.name: (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()) for path in found}


def test_a_large_or_sparse_file_has_no_hash_of_its_own(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = logs / "dplain-0"
    monkeypatch.setattr(manifest, "MAX_HASHED_BYTES", 7000)
    with (partition / "0.index").open("wb") as index:
        index.truncate(1 << 20)
    plan = plan_for(partition)
    plan.truncate("0.index", 0, "is empty")
    found = apply(plan, "test")
    assert found is not None
    assert (found.hashes[LOG].sha256_before, found.hashes[LOG].size_after) == (None, 7129)
    assert found.hashes["0.index"].sha256_before is None
    assert found.hashes["leader-epoch-checkpoint"].sha256_after == hashlib.sha256(b"0\n0\n").hexdigest()


def test_a_large_file_that_is_kept_whole_has_its_hash(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = logs / "dplain-0"
    monkeypatch.setattr(manifest, "MAX_HASHED_BYTES", 7000)
    expected = hashes(partition)[LOG][1]
    plan = Plan(str(partition))
    plan.delete(LOG, "is gone")
    found = apply(plan, "test")
    assert found is not None
    assert found.hashes[LOG].sha256_before == expected
